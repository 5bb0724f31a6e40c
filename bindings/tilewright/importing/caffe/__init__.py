"""Caffe's network descriptions as ONNX models, which all else reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from onnx import ModelProto

from tilewright.importing.caffe.connections import JUDGES, CaffeLayer, connected
from tilewright.importing.caffe.graph import PRODUCER, Graph, Unread, stated_sizes
from tilewright.importing.caffe.layers import GIVES, LAYERS, READS, SOURCES, sources
from tilewright.importing.caffe.messages import field_names, read_text
from tilewright.importing.caffe.weights import WEIGHTS, Blobs
from tilewright.spec.errors import InputError, InputErrors, did_you_mean

__all__ = ["PRODUCER", "SUFFIX", "WEIGHTS", "translated"]

SUFFIX = ".prototxt"

KEEPS = "--allow-unknown keeps it as an opaque layer"


def translated(
    path: Path,
    sizes: Mapping[str, Sequence[int]],
    *,
    allow_unknown: bool = False,
    with_weights: bool = False,
) -> ModelProto:
    """Return the inference of a prototxt as an ONNX model.

    Parameters
    ----------
    sizes
        Sizes of inputs, in place of those that the file states, and of what unknown layers give, by the names
        of the blobs.
    allow_unknown
        Keep layers that are not read as operators of the domain ``caffe``.
    with_weights
        Fill in the weights of the caffemodel of the same name beside the file; else only their shapes are
        told.

    Raises
    ------
    InputError
        For a file that is no prototxt, layers that contradict each other, unknown types and fields, and
        weights that are missing.
    """
    net, unknown = read_text(path)
    layers = connected(net, unknown)
    refused = [error for layer in layers if (error := _unknown_type(layer)) is not None]
    if refused and not allow_unknown:
        raise refused[0] if len(refused) == 1 else InputErrors(refused)
    graph = Graph(layers, Blobs(path) if with_weights else None)
    inputs: set[str] = set()
    for layer in layers:
        try:
            if layer.type in SOURCES or (not layer.bottoms and layer.type not in LAYERS):
                _add_inputs(graph, layer, sizes)
                inputs.update(layer.tops)
            else:
                _add(graph, layer)
        except Unread as reason:
            if not allow_unknown or not layer.bottoms:
                limit = f"is not read: {reason.limit}" + (f"; {KEEPS}" if layer.bottoms else "")
                raise layer.error(reason.field, reason.value, limit) from None
            graph.opaque(layer, [sizes.get(name, graph.shape(layer)) for name in layer.tops])
    return graph.model(frozenset(inputs))


def _unknown_type(layer: CaffeLayer) -> InputError | None:
    """Return what says that a layer's type is not known."""
    if layer.type in LAYERS or layer.type in SOURCES:
        return None
    told = did_you_mean(layer.type, [*LAYERS, *SOURCES, *JUDGES]) if layer.type else ""
    limit = f"is not read{told}; layers are of the types {', '.join(sorted({*LAYERS, *SOURCES}))}; {KEEPS}"
    return InputError(f"layer {layer.name}, type", layer.type, limit)


def _add_inputs(graph: Graph, layer: CaffeLayer, sizes: Mapping[str, Sequence[int]]) -> None:
    """Add the inputs that a layer stands for."""
    if layer.type in SOURCES:
        _check_fields(layer)
    for name, shape in zip(layer.tops, sources(layer), strict=True):
        graph.inputs.append(name)
        graph.shapes[name] = stated_sizes(sizes, name, shape)


def _add(graph: Graph, layer: CaffeLayer) -> None:
    """Add the operators of a layer."""
    if layer.type not in LAYERS:
        raise Unread("type", layer.type, "no such type is known")
    _check_fields(layer)
    _check_ends(layer)
    kept = len(graph.nodes)
    try:
        LAYERS[layer.type](graph, layer)
    except Unread:
        del graph.nodes[kept:]
        raise


def _check_fields(layer: CaffeLayer) -> None:
    """Refuse a layer with fields that may say more than is read."""
    for field in layer.unknown:
        known = did_you_mean(field.path[-1], field_names(field.message))
        raise Unread(".".join(field.path), field.value, f"{field.message} has no such field{known}")


def _check_ends(layer: CaffeLayer) -> None:
    """Refuse a layer with too few or too many inputs or outputs."""
    most = READS.get(layer.type, 1)
    if not layer.bottoms or (most is not None and len(layer.bottoms) > most):
        limit = f"must be {'at least one' if most is None else 'one' if most == 1 else f'one to {most}'}"
        raise layer.error("bottom", list(layer.message.bottom), limit)
    if not layer.tops or (layer.type not in GIVES and len(layer.tops) > 1):
        limit = "must be at least one" if layer.type in GIVES else "must be one"
        raise layer.error("top", list(layer.message.top), limit)
