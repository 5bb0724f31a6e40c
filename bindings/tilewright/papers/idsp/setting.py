"""What the thesis's tables and figures share: networks, machine, memories, and the names of schedules."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core import catalogue
from tilewright.plotting import BLUE, GREEN, INK, ORANGE, PURPLE, VERMILION
from tilewright.spec.layer import Layer
from tilewright.spec.network import Network
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import Nest, nest_of

Values = NDArray[np.float64]

BATCH = 8
"""Images at a time."""

NETWORKS = {"lenet5-clone": "LeNet-5", "alexnet": "AlexNet"}
"""Names of the bundled networks, and the thesis's."""

MEMORIES = tuple(2**power for power in range(7, 20))
"""Bytes of local memory in the explorations: 128 B to 512 KB."""

NAMES = {
    "intra": "intra-tile",
    "kc": "inter Kc",
    "oc": "inter Oc",
    "oxyn": "inter Ox,y,n",
    "oxyn/ox": "inter Ox,y,n/Ox",
    "any": "any order, exact",
}
COLOURS = {"intra": PURPLE, "kc": BLUE, "oc": ORANGE, "oxyn": GREEN, "oxyn/ox": VERMILION, "any": INK}
"""Names and colours of the schedules in every figure."""


@cache
def published() -> dict[str, Any]:
    """Return the thesis's results."""
    return catalogue.shared("published", "idsp-results")


def machine(**changes: Any) -> DspMachine:
    """Return the DSP of table 7.2, with other figures where they are given."""
    return DspMachine.model_validate({**catalogue.shared("machines", "idsp"), **changes})


@cache
def layers(network: str, *, grouped: bool = True) -> dict[str, Layer]:
    """Return a network's layers, eight images at a time.

    Parameters
    ----------
    grouped
        False for layers with channel groups as the thesis counts them: all kernels see the same maps.
    """
    found = {}
    for named in Network.model_validate(catalogue.shared("networks", network)).convolutions:
        layer = named.unnamed(BATCH)
        if not grouped and layer.groups > 1:
            channels = layer.input[0] // layer.groups
            layer = Layer.model_validate(
                {**layer.model_dump(), "groups": 1, "input": (channels, *layer.input[1:])}
            )
        found[named.name] = layer
    return found


def unlimited(layer: Layer) -> Nest:
    """Return the nest on a DSP with one set of buffers, for explorations over the memory size."""
    return nest_of(layer, machine(memory_bytes=2**30, double_buffering=False, register_file_bytes=0))


def agrees(ours: float, theirs: float) -> bool:
    """Whether a number is what the thesis prints of it."""
    digits = len(str(theirs).partition(".")[2]) if isinstance(theirs, float) else 0
    return round(ours, digits) == theirs


def throughput(nest: Nest, cycles: Any) -> Any:
    """Return GOps/s (equation 5.22)."""
    return nest.machine.clock_mhz * 2 * nest.macs / cycles / 1000


def efficiency(nest: Nest, accesses: Any) -> Any:
    """Return Ops/byte (equation 5.23)."""
    return 2 * nest.macs / (accesses * nest.machine.element_bytes)


def size_text(size: float) -> str:
    """Return bytes as text."""
    return f"{size / 1024:g} KB" if size >= 1024 else f"{size:g} B"


def described(layer: Layer) -> str:
    """Say in a few words what a layer is."""
    if layer.kind == "fc":
        return f"{layer.input[0]:,} → {layer.kernels:,}"
    rows, columns = layer.output_plane
    kernel = "×".join(map(str, layer.kernel))
    return f"{kernel}, {layer.input[0]} → {layer.kernels} maps of {rows}×{columns}"
