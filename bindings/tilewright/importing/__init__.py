"""Networks from ONNX files, and instances of the rooms for them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.importing.files import shortened, unique
from tilewright.importing.model import Model, OnnxOperation, read
from tilewright.importing.naming import UniqueNames
from tilewright.importing.operators import Table, Unknown, Unshaped, layers, opaque, shape
from tilewright.spec.coarsening import coarse, stages
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT, Map, NamedLayer, Network, Opaque
from tilewright.spec.validation import validated

SHOWN = 8
"""Most nodes that a message names for one reason."""

LONGEST_SOURCE = 500
"""Characters of the text that says where a network comes from."""


def network(
    path: str | Path, sizes: Mapping[str, Sequence[int]] | None = None, *, allow_unknown: bool = False
) -> Network:
    """Read a network from an ONNX file.

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
        return _network(path, read(path, sizes or {}), allow_unknown)
    except InputError as error:
        raise error.in_file(str(path)) from None


def summary(network: Network) -> dict[str, Any]:
    """Count a network's layers, operations and parameters, by what the layers do, and its graphs' nodes."""
    operations: dict[str, dict[str, int]] = {}
    for layer in network.layers:
        does = f"{layer.kind} {layer.op}" if isinstance(layer, Map | Opaque) else layer.kind
        counts = operations.setdefault(does, {"layers": 0, "macs": 0, "parameters": 0})
        counts["layers"] += 1
        counts["macs"] += layer.macs if isinstance(layer, NamedLayer) else 0
        counts["parameters"] += layer.parameters if isinstance(layer, NamedLayer | Map) else 0
    return {
        "network": network.name,
        "source": network.source,
        "operations": operations,
        "layers": len(network.layers),
        "unique": len(unique(coarse(network))),
        "macs": network.macs,
        "parameters": network.parameters,
        "stages": [
            {"graph": stage.name, "nodes": len(stage.graph), "edges": stage.graph.number_of_edges()}
            for stage in stages(network)
        ],
    }


def _network(path: Path, model: Model, allow_unknown: bool) -> Network:
    found = [_layers(operation, allow_unknown) for operation in model.operations]
    unknown = [
        (operation, reason)
        for operation, reason in zip(model.operations, found, strict=True)
        if isinstance(reason, Unknown)
        # What follows from an unknown shape is not worth telling.
        and not (isinstance(reason, Unshaped) and any(value.shape is None for value in operation.given))
    ]
    if unknown:
        raise _refusal(unknown, allow_unknown)
    names = UniqueNames()
    layer_of = {model.input.name: OWN_INPUT}  # by the tensor that it gives
    tables: list[Table] = []
    for operation, parts in zip(model.operations, found, strict=True):
        assert not isinstance(parts, Unknown)
        tables += _named(operation, parts, names, layer_of)
    before = OWN_INPUT
    for table in tables:
        if table["inputs"] == [before]:  # as when nothing is said
            del table["inputs"]
        before = table["name"]
    sizes = "x".join(map(str, model.input.shape or ()))
    made_by = f" of {model.producer}" if model.producer else ""
    source = f"{path.name}, an ONNX file{made_by}, for an input of {sizes}"
    table = {
        "name": re.sub(r"[^\w.+-]+", "_", path.stem).strip(".-") or "network",
        "source": "".join(sign if sign.isprintable() else "?" for sign in source)[:LONGEST_SOURCE],
        "layers": tables,
    }
    try:
        network = validated(Network, table)
    except InputError as error:
        place = re.match(r"layers\[(\d+)\]", error.field)
        if place is None:
            raise
        limit = f"layer {tables[int(place[1])]['name']}: {error.limit}"
        raise InputError(error.field, error.value, limit) from None
    network.check_shapes()
    _check_outputs(network, model, layer_of)
    return network


def _layers(operation: OnnxOperation, allow_unknown: bool) -> list[Table] | Unknown:
    """Return the layers of an operation, or the reason why there are none."""
    try:
        return layers(operation)
    except Unknown as reason:
        if not allow_unknown:
            return reason
    try:
        return opaque(operation)
    except Unknown as reason:
        return reason


def _refusal(unknown: Sequence[tuple[OnnxOperation, Unknown]], allow_unknown: bool) -> InputError:
    """Name all operations that no layer does, equal reasons once."""
    nodes: dict[str, list[str]] = {}
    for operation, reason in unknown:
        said = f" because {reason}" if str(reason) else ""
        nodes.setdefault(operation.operator + said, []).append(operation.name)
    told = "; ".join(f"{reason} (in {shortened(where, SHOWN)})" for reason, where in nodes.items())
    rest = "" if allow_unknown else "; --allow-unknown keeps them as opaque layers"
    operators = sorted({operation.operator for operation, _ in unknown})
    return InputError("graph.node.op_type", operators, f"no layer does: {told}{rest}")


def _named(
    operation: OnnxOperation, parts: Sequence[Table], names: UniqueNames, layer_of: dict[str, str]
) -> list[Table]:
    """Return an operation's layers with names and inputs, and note which layer gives which tensor."""
    reads = [layer_of[value.name] for value in operation.given]
    results = [value.name for value in operation.outputs if value is not None]
    last = parts[-1]
    does = last["op"] if last["kind"] in ("map", "reshape", "opaque") else last["kind"]
    name = names.name(operation, does, reads[-1] if does == "concat" else reads[0])
    if last["kind"] == "opaque":  # one layer for each output
        called = [name, *(names.another(name) for _ in parts[1:])]
        layer_of.update(zip(results, called, strict=True))
        inputs = [list(dict.fromkeys(reads))] * len(parts)
    else:
        called = [*(names.another(name, f"/{part['kind']}") for part in parts[:-1]), name]
        layer_of[results[0]] = name
        inputs = [reads, *([one] for one in called[:-1])]
    return [
        {"name": one, "inputs": read, **part} for one, read, part in zip(called, inputs, parts, strict=True)
    ]


def _check_outputs(network: Network, model: Model, layer_of: Mapping[str, str]) -> None:
    """Refuse a network that computes other shapes than ONNX says."""
    layer = {layer.name: layer for layer in network.layers}
    for operation in model.operations:
        for value in filter(None, operation.outputs):
            found, expected = layer[layer_of[value.name]].output, shape(operation, value)
            if found != expected:
                limit = f"{operation.operator} {operation.name} gives {list(found)} as ONNX describes it"
                raise InputError(f"shape of {value.name}", list(expected), limit)
