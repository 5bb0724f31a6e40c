"""What an ONNX or Caffe file computes: its weights, and its outputs for some inputs by onnxruntime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.numbers.float_network import FloatNetwork
from tilewright.codegen.numbers.trained_network import TrainedNetwork
from tilewright.importing import Imported, open_network
from tilewright.importing.formats import format_of, translated
from tilewright.importing.model import Model
from tilewright.importing.parameters import Folding, read_initialisers
from tilewright.simulator.arithmetic.network_executor import refuse_quantised, refuse_unknown
from tilewright.simulator.arithmetic.onnx_executor import version
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import Disagreement, InputError
from tilewright.spec.network import OWN_INPUT, Input, Map, Reshape

CLOSE = 1e-3
"""What outputs may differ by from those of onnxruntime, which computes in single precision, as a share."""

Arrays = Mapping[str, NDArray[Any]]


def read_trained(
    path: str | Path, sizes: Mapping[str, Sequence[int]] | None = None, images: int = 1, seed: int = 0
) -> TrainedNetwork:
    """Read a network with its weights, and run it on random inputs.

    Outputs are those of onnxruntime on the file, where it is installed, and our own executor is held against
    them. Weights that the file does not store are made, and our own executor alone computes what is expected.

    Parameters
    ----------
    sizes
        As for `tilewright.importing.network`.
    images
        Of the inputs, at least; there are whole batches.
    seed
        Of the inputs, and of weights that are made.

    Raises
    ------
    InputError
        For what is not executed with data; names the layer.
    Disagreement
        Where onnxruntime gives other outputs than the network as it was read.
    """
    path = Path(path)
    try:
        return _trained(path, *open_network(path, sizes or {}), images, seed)
    except InputError as error:
        raise error.in_file(str(path)) from None


def _trained(path: Path, model: Model, found: Imported, images: int, seed: int) -> TrainedNetwork:
    refuse_quantised(found.network)
    sizes = {value.name: value.shape or () for value in model.inputs}
    rng = np.random.default_rng(seed)
    try:
        folding = Folding(found.network, found.operations, found.layer_of, read_initialisers(path, sizes))
        network, parameters = folding.folded()
        missing = None
    except InputError as error:
        folding = Folding(found.network, found.operations, found.layer_of, _made(found, rng))
        network, parameters = folding.folded()
        missing = f"weights are made from seed {seed}, as those of the file are not read: {error.field}"
    refuse_unknown(network, more=("mul", "input", "slice"))
    batch = max(1, model.operations[0].batch)
    parts = [_drawn(model, rng) for _ in range(-(-images // batch))]
    inputs = {
        found.layer_of[name]: np.concatenate([_stored(found, name, part, batch) for part in parts])
        for name in parts[0]
    }
    own = TrainedNetwork(network, parameters, inputs, {}, "")
    values = own.values()
    given = {name: folding.replaced.get(layer, layer) for name, layer in found.outputs.items()}
    given = {name: layer for name, layer in given.items() if layer in values}
    expected = {layer: values[_before_softmax(own, layer)] for layer in given.values()}
    known = version()
    form = format_of(path)
    stored_in = path.with_suffix(form.weights).name if form is not None and form.weights else path.name
    if missing is not None or known is None:
        origin = f"{missing or f'weights of {stored_in}'}; inputs drawn from seed {seed}"
    else:
        for name, theirs in _by_onnxruntime(path, sizes, parts, list(given)).items():
            layer = given[name]
            theirs = theirs.reshape(values[layer].shape)
            _compare(path, name, theirs, values[layer])
            if _before_softmax(own, layer) == layer:
                expected[layer] = theirs
        origin = f"weights of {stored_in}, inputs drawn from seed {seed}, outputs of onnxruntime {known}"
    return TrainedNetwork(network, parameters, inputs, expected, origin)


def read_floats(
    path: str | Path, sizes: Mapping[str, Sequence[int]] | None = None, images: int = 1, seed: int = 0
) -> FloatNetwork:
    """Read a network with its numbers in floating point, and run it on random inputs.

    Outputs are those of onnxruntime on the file, where it is installed.

    Parameters
    ----------
    sizes, images, seed
        As for `read_trained`; there is one image in a batch.

    Raises
    ------
    InputError
        For files that are not in floating point, or have several images in a batch.
    """
    path = Path(path)
    try:
        return _floats(path, *open_network(path, sizes or {}), images, seed)
    except InputError as error:
        raise error.in_file(str(path)) from None


def _floats(path: Path, model: Model, found: Imported, images: int, seed: int) -> FloatNetwork:
    refuse_quantised(found.network)
    sizes = {value.name: value.shape or () for value in model.inputs}
    rng, batch = np.random.default_rng(seed), model.operations[0].batch
    if batch > 1:
        raise InputError("batch", batch, "programs in floating point compute one image at a time")
    stored = read_initialisers(path, sizes)
    folding = Folding(found.network, found.operations, found.layer_of, stored, found.orders)
    parts = [_drawn(model, rng) for _ in range(images)]
    turned = _Transpositions(found, folding)
    inputs = {
        found.layer_of[name]: np.stack([turned.input(found.layer_of[name], part[name]) for part in parts])
        for name in parts[0]
    }
    expected: dict[str, NDArray[np.float64]] = {}
    origin = f"weights of {path.name}; inputs drawn from seed {seed}"
    known = version()
    if known is not None:
        for name, theirs in _by_onnxruntime(path, sizes, parts, list(found.outputs)).items():
            layer = found.outputs[name]
            source, values = turned.output(layer, theirs.reshape(images, *theirs.shape))
            expected[source] = values
        origin = f"weights of {path.name}, inputs drawn from seed {seed}, outputs of onnxruntime {known}"
    return FloatNetwork(found.network, folding.constants, inputs, expected, origin)


class _Transpositions:
    """Inputs and outputs of a file in the order in which a coarse network stores them: see `stored`."""

    def __init__(self, found: Imported, folding: Folding) -> None:
        self._network, self._folding = found.network, folding
        graph = coarse_graph(found.network)
        self._kept = {op.name for op in graph.ops}
        self._origins = {layer.name: op.name for op in graph.ops for layer in op.folded}

    def _perm(self, name: str) -> list[int] | None:
        """Return the order in which a transposition that is no operation itself gives dimensions."""
        if name in self._kept or name not in self._folding.operation_of:
            return None
        operation = self._folding.operation_of[name]
        perm: list[int] | None = operation.attributes.get("perm")
        return perm if operation.operator == "Transpose" else None

    def input(self, name: str, values: NDArray[Any]) -> NDArray[np.float64]:
        """Return an input as its readers have it, which may all transpose it first."""
        readers = [
            layer.name
            for layer, producers in zip(self._network.layers, self._network.producers, strict=True)
            if name in [OWN_INPUT if each < 0 else self._network.layers[each].name for each in producers]
        ]
        perms = [self._perm(reader) for reader in readers]
        if perms and perms[0] is not None and all(perm == perms[0] for perm in perms):
            values = values.transpose(perms[0])
        return values.astype(np.float64)

    def output(self, name: str, values: NDArray[np.float64]) -> tuple[str, NDArray[np.float64]]:
        """Return the operation that gives an output, and its values as that stores them, image by image."""
        while name not in self._kept:
            place = next(at for at, layer in enumerate(self._network.layers) if layer.name == name)
            layer, read = self._network.layers[place], self._network.producers[place]
            if not isinstance(layer, Reshape) or len(read) != 1 or read[0] < 0:
                break
            if layer.permutation is not None:
                sizes, axes = layer.permutation.sizes, layer.permutation.axes
                moved = values.reshape(len(values), *(sizes[axis] for axis in axes))
                values = moved.transpose([0, *(1 + int(axis) for axis in np.argsort(axes))])
            name = self._network.layers[read[0]].name
        return self._origins.get(name, name), values


def _made(found: Imported, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return numbers for all tensors that are the same for all images, with which outputs stay small."""
    made = {}
    for operation in found.operations:
        for value in operation.fixed:
            shape = value.shape or ()
            spread = sqrt(2 / max(1, prod(shape[1:])))
            made[value.name] = (
                rng.standard_normal(shape) * spread if len(shape) > 1 else rng.uniform(0.5, 1.5, shape)
            )
    return made


def _drawn(model: Model, rng: np.random.Generator) -> dict[str, NDArray[Any]]:
    """Return a batch of inputs as the file has them, by name."""
    return {value.name: rng.standard_normal(value.shape).astype(np.float32) for value in model.inputs}


def _stored(found: Imported, name: str, part: Arrays, batch: int) -> NDArray[np.float64]:
    """Return an input as the network has it."""
    layers = found.network.layers
    own = found.layer_of[name]
    shape = next((layer.input for layer in layers if isinstance(layer, Input) and layer.name == own), None)
    if own == OWN_INPUT:
        shape = found.network.own_input
    if shape is None or prod(shape) * batch != part[name].size:
        raise InputError(f"graph.input.{name}", list(part[name].shape), "is not executed with data")
    return part[name].reshape(batch, *shape).astype(np.float64)


def _before_softmax(own: TrainedNetwork, name: str) -> str:
    """Return what a softmax reads whose output is the network's; another layer itself."""
    layers = own.network.layers
    place = next(at for at, layer in enumerate(layers) if layer.name == name)
    layer, read = layers[place], own.network.producers[place]
    is_softmax = isinstance(layer, Map) and layer.op == "softmax"
    return layers[read[0]].name if is_softmax and read[0] >= 0 else name


def _by_onnxruntime(
    path: Path, sizes: Mapping[str, Sequence[int]], parts: Sequence[Arrays], names: list[str]
) -> dict[str, NDArray[np.float64]]:
    """Return outputs of the file, by name, as onnxruntime computes them."""
    import onnxruntime  # start-up time

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    model = translated(path, sizes, with_weights=True)
    source: str | bytes = str(path) if model is None else model.SerializeToString()
    try:
        session = onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        unread = {
            each.name: np.zeros([size if isinstance(size, int) else 1 for size in each.shape], np.float32)
            for each in session.get_inputs()
        }
        runs = [session.run(names, {**unread, **part}) for part in parts]
    except Exception as error:  # of many kinds
        raise InputError("file", path.name, f"is not executed by onnxruntime: {error}") from None
    return {
        name: np.concatenate([run[place] for run in runs]).astype(np.float64)
        for place, name in enumerate(names)
    }


def _compare(path: Path, name: str, theirs: NDArray[np.float64], ours: NDArray[np.float64]) -> None:
    """Refuse outputs that are not those of onnxruntime."""
    most = float(abs(theirs).max(initial=0))
    apart = float(abs(theirs - ours).max(initial=0))
    if not apart <= CLOSE * max(most, CLOSE):
        raise Disagreement(
            f"{path}: output {name} of the network as it was read is up to {apart:.3g} from what onnxruntime "
            f"computes of the file, of magnitudes up to {most:.3g}"
        )
