"""What a quantised TFLite file computes, bit for bit: its operators with integers in place of scales."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tilewright.importing import Imported, open_network
from tilewright.importing.tflite import graph_of
from tilewright.importing.tflite.exact_operators import OPERATORS, Kernels, Reader
from tilewright.importing.tflite.file import File, Operator, Tensor, damage_told, read_file
from tilewright.importing.tflite.graph import Graph, Unread
from tilewright.simulator.arithmetic.quantised import ExactNetwork, ExactOperation, ExactTensor
from tilewright.spec.errors import InputError


def exact_operations(path: str | Path, *, kernels: Kernels = "reference") -> ExactNetwork:
    """Read the operations of a quantised TFLite file, as LiteRT computes them.

    Parameters
    ----------
    kernels
        Whose arithmetic it is where LiteRT's kernels differ: ``reference`` scales sums of fully connected
        layers in double precision, ``micro``, TensorFlow Lite for Microcontrollers, in integers.

    Raises
    ------
    InputError
        For a file that is none, or damaged, and for operators whose integers are not known.
    """
    path = Path(path)
    try:
        file = read_file(path)
        operations = tuple(_operations(Reader(file, kernels)))
        imported = open_network(path, {})[1]
        return _network(file, operations, _layers(graph_of(file), imported))
    except InputError as error:
        raise error.in_file(str(path)) from None


def _operations(reader: Reader) -> Iterator[ExactOperation]:
    for operator in reader.file.operators:
        try:
            if operator.type not in OPERATORS:
                raise Unread("its integers are not known")
            with damage_told(f"operator {operator.number}", operator.type):
                found = tuple(OPERATORS[operator.type](reader, operator))
        except Unread as reason:
            raise _refusal(operator, reason) from None
        yield from found


def _refusal(operator: Operator, reason: Unread) -> InputError:
    return InputError(f"operator {operator.number}", operator.type, f"is not computed exactly: {reason}")


def _network(
    file: File, operations: Sequence[ExactOperation], layers: Mapping[str, tuple[str, ...]]
) -> ExactNetwork:
    """Return the operations that outputs depend on, with their tensors."""
    inputs = tuple(file.tensors[number].name for number in file.inputs)
    outputs = tuple(file.tensors[number].name for number in file.outputs)
    needed, kept = set(outputs), list[ExactOperation]()
    for operation in reversed(operations):
        if operation.name in needed:
            needed.update(operation.inputs)
            kept.append(operation)
    tensors = {each.name: _tensor(each) for each in file.tensors if each.name in needed.union(inputs)}
    return ExactNetwork(tensors, inputs, outputs, tuple(reversed(kept)), layers)


def _tensor(tensor: Tensor) -> ExactTensor:
    scale, zero = 1.0, 0
    if tensor.scales is not None and tensor.zero_points is not None:
        scale, zero = float(tensor.scales[0]), int(tensor.zero_points[0])
    return ExactTensor(tensor.name, tensor.shape, tensor.type, scale, zero, tensor.numbers)


def _layers(graph: Graph, imported: Imported) -> dict[str, tuple[str, ...]]:
    """Return the layers that stand for the operator which gives a tensor, the one that gives it last."""
    graph.model()  # in which outputs have names
    known, found = {**imported.outputs, **imported.layer_of}, {}
    for operator in graph.file.operators:
        made = graph.made[operator.number] if len(operator.outputs) == 1 else ()
        for number in operator.outputs:
            tensor = graph.file.tensors[number]
            gives = next((known[name] for name in graph.names_of(tensor) if name in known), None)
            layers = dict.fromkeys(known[name] for name in made if name in known)
            if gives is not None:
                layers.pop(gives, None)
                layers[gives] = None
            found[tensor.name] = tuple(layers)
    return found
