"""Layers of a network as a schedule has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.codegen.schedule.forms import Operation
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.graph import Operation as GraphOperation
from tilewright.spec.layer import Layer
from tilewright.spec.network import Pool

OF_WINDOWS = ("kernel", "stride", "padding", "dilation")
OF_LAYERS = (*OF_WINDOWS, "kernels", "groups", "batch")


def operation(spec: Any, reads: Sequence[str], kind: str | None = None) -> Operation:
    """Return a layer with the names of what it reads.

    Parameters
    ----------
    kind
        What it is in the network, where it is written as a convolution.
    """
    names = OF_LAYERS if isinstance(spec, Layer) else OF_WINDOWS if isinstance(spec, Pool) else ()
    geometry = {name: getattr(spec, name) for name in names}
    return Operation.model_validate(
        {
            "kind": kind or spec.kind,
            "op": getattr(spec, "op", None),
            "reads": list(reads),
            "input": list(spec.input),
            "output": list(spec.output),
            **{name: list(each) if isinstance(each, tuple) else each for name, each in geometry.items()},
        }
    )


def operation_of(graph: NetworkGraph, op: GraphOperation, as_planned: Layer | None = None) -> Operation:
    """Return an operation of a graph, with the names of what it reads.

    Parameters
    ----------
    as_planned
        The convolution that it is planned as, where it is another.
    """
    names = [graph.name(producer) for producer in op.producers]
    found = operation(as_planned or op.spec, names, op.spec.kind)
    if any(access.channels for access in op.accesses):
        channels = [list(access.channels) if access.channels else None for access in op.accesses]
        found = found.model_copy(update={"channels": channels})
    return found
