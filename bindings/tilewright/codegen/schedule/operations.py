"""Layers of a network as a schedule has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewright.codegen.schedule.forms import Operation
from tilewright.spec.layer import Layer
from tilewright.spec.network import OWN_INPUT, Network, Pool

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


def reads_of(network: Network) -> dict[str, list[str]]:
    """Return the names of what each layer reads."""
    names = [layer.name for layer in network.layers]
    return {
        name: [OWN_INPUT if producer < 0 else names[producer] for producer in producers]
        for name, producers in zip(names, network.producers, strict=True)
    }
