"""TFLite files as ONNX models, which all else reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx import ModelProto, helper

from tilewright.importing.tflite.file import File, Operator, damage_told, read_file
from tilewright.importing.tflite.graph import PRODUCER, Graph, Unread
from tilewright.importing.tflite.operators import OPERATORS
from tilewright.importing.tflite.stored_values import with_dilations, with_states, with_stored_values
from tilewright.spec.errors import InputError

__all__ = ["PRODUCER", "SUFFIX", "graph_of", "translated"]

SUFFIX = ".tflite"


def translated(path: Path, sizes: Mapping[str, Sequence[int]], *, allow_unknown: bool = False) -> ModelProto:
    """Return the main graph of a TFLite file as an ONNX model; shapes are those of the file.

    Operators that are not read are of the domain ``tflite``: who reads the model refuses or keeps them.

    Raises
    ------
    InputError
        For a file that is none, is damaged, or whose shapes are to be others.
    """
    file = read_file(path)
    known = {file.tensors[number].name: file.tensors[number].shape for number in file.inputs}
    for name, asked in sizes.items():
        if known.get(name) != tuple(asked):
            told = ", ".join(f"{each}={','.join(map(str, shape))}" for each, shape in known.items())
            limit = f"shapes of a TFLite file are fixed: {told}"
            raise InputError("--input", f"{name}={','.join(map(str, asked))}", limit)
    file = with_states(with_dilations(with_stored_values(file)))
    return graph_of(file, allow_unknown=allow_unknown).model()


def graph_of(file: File, *, allow_unknown: bool = False) -> Graph:
    """Return the graph of a file's operators; see `translated`."""
    graph = Graph(file)
    for operator in file.operators:
        size, graph.called = graph.size(), _called(graph, operator)
        try:
            with damage_told(f"operator {operator.number}", operator.type):
                if operator.type in OPERATORS:
                    OPERATORS[operator.type](graph, operator)
                else:
                    _keep(graph, operator)
        except Unread as reason:
            if not allow_unknown:
                limit = f"is not read: {reason}; --allow-unknown keeps it as an opaque layer"
                raise InputError(f"operator {operator.number}", operator.type, limit) from None
            graph.forget(size)
            _keep(graph, operator)
        graph.made[operator.number] = tuple(name for node in graph.nodes[size[0] :] for name in node.output)
    return graph


def _called(graph: Graph, operator: Operator) -> str:
    """Return what an operator is called: as what it gives, of whose names there may be several."""
    given = [graph.file.tensors[number].name for number in operator.outputs if number >= 0]
    return given[0].split(";")[0] if given and given[0].split(";")[0] else str(operator)


def _keep(graph: Graph, operator: Operator) -> None:
    """Add an operator that is not read as one of TFLite's own."""
    given = [graph.file.tensors[number] for number in operator.inputs if number >= 0]
    gives = [graph.file.tensors[number] for number in operator.outputs if number >= 0]
    for tensor in gives:
        graph.shapes[tensor.name] = tensor.type, tensor.shape
    node = helper.make_node(
        operator.type,
        [graph.name(tensor) for tensor in given],
        [tensor.name for tensor in gives],
        name=graph.called,
        domain="tflite",
    )
    graph.nodes.append(node)
