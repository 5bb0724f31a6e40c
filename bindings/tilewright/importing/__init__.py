"""Networks from ONNX, TFLite and Caffe files, and instances of the rooms for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.importing.files import distinct_layers, shorten_list
from tilewright.importing.formats import format_of
from tilewright.importing.functions import opaque
from tilewright.importing.layouts import stored
from tilewright.importing.model import Model, OnnxOperation, read
from tilewright.importing.naming import UniqueNames
from tilewright.importing.operators import layers
from tilewright.importing.parameters import Folding, read_initialisers
from tilewright.importing.shapes import Shape, Table, Unknown, Unshaped, any_shape
from tilewright.simulator.arithmetic.integer_layer import Parameters
from tilewright.simulator.arithmetic.network_executor import refuse_quantised
from tilewright.spec.coarsening import coarse, stages
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.spec.network import OWN_INPUT, Function, Map, Network, Opaque, macs_of, parameters_of
from tilewright.spec.validation import validated

SHOWN = 8
"""Most nodes that a message names for one reason."""

LONGEST_SOURCE = 500
"""Characters of the text that says where a network comes from."""


def network(
    path: str | Path, sizes: Mapping[str, Sequence[int]] | None = None, *, allow_unknown: bool = False
) -> Network:
    """Read a network from an ONNX, TFLite or Caffe file.

    Parameters
    ----------
    sizes
        Sizes of the input, batch first, where the file leaves some open: by its name.
    allow_unknown
        Keep operations that no layer does, as layers of kind ``opaque``.

    Raises
    ------
    InputError
        For anything that is wrong with the file, and for unknown operators, all of them at once.
    """
    path = Path(path)
    try:
        return open_network(path, sizes or {}, allow_unknown)[1].network
    except InputError as error:
        raise error.in_file(str(path)) from None


def with_parameters(
    path: str | Path, sizes: Mapping[str, Sequence[int]] | None = None
) -> tuple[Network, dict[str, Parameters]]:
    """Read a network with its weights, batch normalisations folded into them.

    Parameters
    ----------
    sizes
        As for `network`.

    Returns
    -------
    The network without the normalisations, and weights and bias of each layer that has them.

    Raises
    ------
    InputError
        As `network`, and for weights that the file does not store.
    """
    path = Path(path)
    try:
        _, found = open_network(path, sizes or {})
        refuse_quantised(found.network)
        return Folding(
            found.network, found.operations, found.layer_of, read_initialisers(path, sizes or {})
        ).folded()
    except InputError as error:
        raise error.in_file(str(path)) from None


def summary(network: Network) -> dict[str, Any]:
    """Count a network's layers, operations and parameters, by what the layers do, and its graphs' nodes."""
    operations: dict[str, dict[str, int]] = {}
    for layer in network.layers:
        does = f"{layer.kind} {layer.op}" if isinstance(layer, Map | Function | Opaque) else layer.kind
        counts = operations.setdefault(does, {"layers": 0, "macs": 0, "parameters": 0})
        counts["layers"] += 1
        counts["macs"] += macs_of(layer)
        counts["parameters"] += parameters_of(layer)
    return {
        "network": network.name,
        "source": network.source,
        "operations": operations,
        "layers": len(network.layers),
        "unique": len(distinct_layers(coarse(network))),
        "macs": network.macs,
        "parameters": network.parameters,
        "stages": [
            {"graph": name, "nodes": len(graph.reads), "edges": graph.reads.number_of_edges()}
            for name, graph in stages(network)
        ],
    }


class Imported(NamedTuple):
    """A network as it was read.

    Attributes
    ----------
    operations
        What its layers are made of.
    layer_of
        Which layer gives which tensor.
    outputs
        The layer that gives each output of the file, by the tensor's name.
    orders
        For each stored tensor, the place that each dimension of ONNX's has in it.
    """

    network: Network
    operations: Sequence[OnnxOperation]
    layer_of: Mapping[str, str]
    outputs: Mapping[str, str]
    orders: Mapping[str, tuple[int, ...]]


def open_network(
    path: Path, sizes: Mapping[str, Sequence[int]], allow_unknown: bool = False
) -> tuple[Model, Imported]:
    """Read a file and its network; see `network`.

    Images lie along the first dimension of the inputs, unless only a network without that dimension makes
    sense of all operations.
    """
    refused: list[InputError] = []
    for batched, unknown in ((True, False), (False, False), *([(True, True)] if allow_unknown else [])):
        try:
            model = read(path, sizes, allow_unknown=unknown, batched=batched)
            return model, _imported(path, model, unknown)
        except InputError as error:
            refused.append(error)
    raise refused[-1 if allow_unknown else 0]


def _imported(path: Path, model: Model, allow_unknown: bool) -> Imported:
    """Return the network of a model."""
    layouts = stored(model)
    operations = layouts.operations
    found = [_layers(operation, allow_unknown) for operation in operations]
    unknown = [
        (operation, reason)
        for operation, reason in zip(operations, found, strict=True)
        if isinstance(reason, Unknown)
        # What follows from an unknown shape is not worth telling.
        and not (isinstance(reason, Unshaped) and any(value.shape is None for value in operation.given))
    ]
    if unknown:
        raise _refusal(unknown, allow_unknown)
    form = format_of(path)
    graph = _Graph(model, operations, own_names=form is not None and form.own_names)
    for operation, parts in zip(operations, found, strict=True):
        assert not isinstance(parts, Unknown)
        graph.add(operation, parts)
    graph.give_inputs(model, layouts.outputs)
    network = _validated(graph.network(layouts.outputs.values()), _name(path), _source(path, model))
    network.check_shapes()
    _check_outputs(network, operations, graph.layer_of)
    outputs = {name: graph.layer_of[given] for name, given in layouts.outputs.items()}
    orders = {tensor.stored.name: tuple(tensor.order) for tensor in layouts.tensors.values()}
    return Imported(network, operations, graph.layer_of, outputs, orders)


def _name(path: Path) -> str:
    return re.sub(r"[^\w.+-]+", "_", path.stem).strip(".-") or "network"


def _source(path: Path, model: Model) -> str:
    """Say where a network comes from, of which inputs, and what was assumed."""
    sizes = " and ".join(
        ("" if len(model.inputs) == 1 else f"{value.name} ") + "x".join(map(str, value.shape or ()))
        for value in model.inputs
    )
    made_by = f" of {model.producer}" if model.producer else ""
    form = format_of(path)
    kind = form.kind if form is not None else f"an ONNX file{made_by}"
    source = f"{path.name}, {kind}, for an input of {sizes}"
    if model.assumed:
        source += f"; sizes assumed to be those of what is read, of: {shorten_list(model.assumed, SHOWN)}"
    return "".join(sign if sign.isprintable() else "?" for sign in source)[:LONGEST_SOURCE]


def _validated(network: Table, name: str, source: str) -> Network:
    before, tables = OWN_INPUT, network["layers"]
    for table in tables:
        if table["inputs"] == [before]:  # as when nothing is said
            del table["inputs"]
        before = table["name"]
    try:
        return validated(Network, {"name": name, "source": source, **network})
    except InputError as error:
        place = re.match(r"layers\[(\d+)\]", error.field)
        if place is None:
            raise
        limit = f"layer {tables[int(place[1])]['name']}: {error.limit}"
        raise InputError(error.field, error.value, limit) from None


def _layers(operation: OnnxOperation, allow_unknown: bool) -> list[Table] | Unknown:
    """Return the layers of an operation, or the reason why there are none."""
    try:
        tables = layers(operation)
        return _checked(tables) if allow_unknown else tables
    except Unknown as reason:
        if not allow_unknown:
            return reason
    try:
        return opaque(operation)
    except Unknown as reason:
        return reason


def _checked(tables: list[Table]) -> list[Table]:
    """Return tables of layers that can be, each for itself."""
    for table in tables:
        inputs = ["input"] * (2 if table["kind"] in ("add", "mul", "matmul") else 1)
        rest = {key: value for key, value in table.items() if key not in ("reads", "gives")}
        try:
            validated(Network, {"layers": [{"name": "layer", "inputs": inputs, **rest}]})
        except InputError as error:
            raise Unknown(str(error)) from None
    return tables


def _refusal(unknown: Sequence[tuple[OnnxOperation, Unknown]], allow_unknown: bool) -> InputError:
    """Name all operations that no layer does, equal reasons once."""
    nodes: dict[str, list[str]] = {}
    for operation, reason in unknown:
        said = f" because {reason}" if str(reason) else ""
        nodes.setdefault(operation.operator + said, []).append(operation.name)
    told = "; ".join(f"{reason} (in {shorten_list(where, SHOWN)})" for reason, where in nodes.items())
    rest = "" if allow_unknown else "; --allow-unknown keeps them as opaque layers"
    operators = sorted({operation.operator for operation, _ in unknown})
    return InputError("graph.node.op_type", operators, f"no layer does: {told}{rest}")


class _Graph:
    """The layers of a network, named, with what each reads.

    Attributes
    ----------
    layer_of
        Which layer gives which tensor.
    own_shape
        Of the network's own input, as it is read first.
    """

    def __init__(self, model: Model, operations: Sequence[OnnxOperation], *, own_names: bool) -> None:
        self.names = UniqueNames(given=own_names)
        self.tables: list[Table] = []
        self.inputs = {value.name: value for value in model.inputs}
        first = next((value.name for each in operations for value in each.given), model.inputs[0].name)
        self.layer_of = {first: OWN_INPUT}
        self.own_shape: Shape | None = None
        self.owners: dict[tuple[str, ...], Table] = {}

    def add(self, operation: OnnxOperation, parts: Sequence[Table]) -> None:
        """Add an operation's layers."""
        reads = list(self._reads(operation))
        results = [value.name if value is not None else "" for value in operation.outputs]
        if not parts:  # what is given is stored already
            self.layer_of[results[0]] = reads[0]
            return
        last = parts[-1]
        does = last["kind"] if last["kind"] == "pool" else str(last.get("op", last["kind"]))
        name = self.names.name(operation, does, reads[-1] if does == "concat" else reads[0])
        given: list[int | None] = [part.get("gives", 0 if part is last else None) for part in parts]
        main = next(place for place, gives in enumerate(given) if gives is not None)
        called = [
            name
            if place == main
            else self.names.another(name, "" if given[place] is not None else f"/{part['kind']}")
            for place, part in enumerate(parts)
        ]
        whole = last["kind"] in ("function", "opaque")
        own = list(dict.fromkeys(reads)) if whole else reads
        for place, part in enumerate(parts):
            sources = part.get("reads", [place - 1])
            inputs = [one for source in sources for one in (own if source < 0 else [called[source]])]
            rest = {key: value for key, value in part.items() if key not in ("reads", "gives")}
            table = {"name": called[place], "inputs": inputs, **rest}
            self._share(operation, table, place)
            self.tables.append(table)
            gives = given[place]
            if gives is not None:
                self.layer_of[results[gives]] = called[place]

    def network(self, outputs: Iterable[str]) -> Table:
        """Return the layers that outputs depend on, and the outputs where one of them is read inside, too.

        Parameters
        ----------
        outputs
            Names of the tensors that the network gives.
        """
        given = [self.layer_of[name] for name in outputs if name in self.layer_of]
        given = [name for name in dict.fromkeys(given) if name != OWN_INPUT]
        needed, read = set(given), set[str]()
        for table in reversed(self.tables):
            if table["name"] in needed:
                read.update(table["inputs"])
                needed |= read
        layers = [table for table in self.tables if table["name"] in needed]
        found: Table = {"layers": layers}
        if layers and layers[0]["kind"] == "input":
            found["input"] = self.own_shape
        return found | ({"outputs": given} if read.intersection(given) else {})

    def give_inputs(self, model: Model, outputs: Mapping[str, str]) -> None:
        """Add a layer where all that a network gives is its input, perhaps in another shape.

        Raises
        ------
        InputError
            If outputs depend on no value of an input.
        """
        if any(self.layer_of.get(name, OWN_INPUT) != OWN_INPUT for name in outputs.values()):
            return
        if not any(name in self.layer_of for name in outputs.values()):
            limit = "depend on no value of an input, at most on its shape; a network computes something of it"
            raise InputError("graph.output", list(model.outputs), limit)
        operation = model.operations[-1]
        own = any_shape(operation, model.inputs[0])
        name = self.names.unique(operation.name)
        self.tables = [{"name": name, "kind": "map", "op": "identity", "input": own, "inputs": [OWN_INPUT]}]
        self.layer_of |= dict.fromkeys(outputs.values(), name)

    def _reads(self, operation: OnnxOperation) -> Iterator[str]:
        """Yield the layers that an operation reads, further inputs of the network among them."""
        for value in operation.given:
            if self.own_shape is None and self.layer_of.get(value.name) == OWN_INPUT:
                self.own_shape = any_shape(operation, value)
            if value.name not in self.layer_of:
                known = self.inputs[value.name]
                name = self.names.unique(value.name)
                self.names.stems[name] = ""
                shape = any_shape(operation, known)
                self.tables.append({"name": name, "kind": "input", "input": shape, "inputs": []})
                self.layer_of[value.name] = name
            yield self.layer_of[value.name]

    def _share(self, operation: OnnxOperation, table: Table, place: int) -> None:
        """Note whose weights a layer uses, too."""
        if table["kind"] not in Layer.model_fields["kind"].annotation.__args__:  # type: ignore[union-attr]
            return
        trained = tuple(value.root or value.name for value in operation.fixed)
        owner = self.owners.setdefault((*trained, str(place)), table)
        geometry = ("kind", "kernels", "kernel", "groups", "bias")
        if owner is not table and all(owner.get(key) == table.get(key) for key in geometry):
            table["weights"] = owner["name"]


def _check_outputs(
    network: Network, operations: Sequence[OnnxOperation], layer_of: Mapping[str, str]
) -> None:
    """Refuse a network that computes other shapes than ONNX says."""
    layer = {layer.name: layer for layer in network.layers}
    for operation in operations:
        for value in filter(None, operation.outputs):
            if layer_of[value.name] not in layer:
                continue
            found, expected = layer[layer_of[value.name]].output, any_shape(operation, value)
            if found != expected:
                limit = f"{operation.operator} {operation.name} gives {list(found)} as ONNX describes it"
                raise InputError(f"shape of {value.name}", list(expected), limit)
