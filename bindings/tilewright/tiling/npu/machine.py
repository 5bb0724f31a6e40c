"""The multicore NPU: tiles of cores with three small memories each, and a DRAM that works in bursts."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.layer import Layer

Bytes = Annotated[int, Field(ge=1, le=2**40)]
Count = Annotated[int, Field(ge=1, le=1024)]
Picoseconds = Annotated[int, Field(ge=0, le=10**9)]

LONGEST = 2**62
"""Most picoseconds that any plan of a layer may take."""


class NpuMachine(Spec):
    """A neuromorphic processor of TLEs, each with several TLT cores (TSO paper, section III).

    The defaults of the times are fitted on two columns of the paper's table II (docs/npu.md).

    Attributes
    ----------
    tles, tlts
        Tile elements (TLEs), and cores (TLTs) of each.
    input_bytes, weights_bytes, output_bytes
        The memories MB0, MB1 and MB2 of a core.
    element_bytes
        Size of every element.
    burst_bytes
        Most bytes of one DRAM burst.
    macs_per_cycle
        MACs of a core in one cycle.
    cycle_ps
        A core's cycle, in picoseconds.
    byte_ps
        Time to move one byte between DRAM and the chip.
    burst_ps
        Latency of each burst (CAS); 0 is the paper's burst-free model of transfers.
    vector_ops_per_cycle
        Operations of all cores together on single values, in pools, sums and functions; without it these are
        not counted.
    host
        What does the operations that the cores do not do, or all of them.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = ("vector_ops_per_cycle", "host")

    kind: Literal["npu"]
    tles: Annotated[int, Field(ge=2, le=1024, multiple_of=2)] = 4
    tlts: Count = 8
    input_bytes: Bytes = 8192
    weights_bytes: Bytes = 8192
    output_bytes: Bytes = 8192
    element_bytes: Annotated[int, Field(ge=1, le=16)] = 2
    burst_bytes: Annotated[int, Field(ge=1, le=65536)] = 128
    macs_per_cycle: Annotated[int, Field(ge=1, le=1_000_000)] = 32
    cycle_ps: Picoseconds = 6264
    byte_ps: Picoseconds = 174
    burst_ps: Picoseconds = 13572
    vector_ops_per_cycle: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    host: Host | None = None

    def check(self, layer: Layer, minimise: str) -> None:
        """Refuse a layer of which not even the smallest tile fits, or whose time cannot be counted.

        Raises
        ------
        InputError
            Names the operand that does not fit and how much is missing.
        """
        height, width = layer.kernel_extent
        window = layer.kernel[0] * layer.kernel[1]
        for field, given, operand, elements in (
            ("input_bytes", self.input_bytes, "input", height * width),
            ("weights_bytes", self.weights_bytes, "weights", window),
            ("output_bytes", self.output_bytes, "output", 1),
        ):
            needed = elements * self.element_bytes
            if needed > given:
                raise InputError(
                    f"machine.{field}",
                    given,
                    f"the {operand} of the smallest tile does not fit: {needed} bytes are needed ({elements} "
                    f"elements of {self.element_bytes} bytes), {needed - given} are missing",
                )
        tiles = layer.macs // window  # at most, each of one filter, one map and one position
        moved = tiles * (height * width + window + 1) * self.element_bytes
        longest = layer.macs * self.cycle_ps + moved * (self.byte_ps + self.burst_ps)
        if longest > LONGEST:
            limit = f"a plan may take {longest:,} ps on this machine; up to {LONGEST:,} can be counted"
            raise InputError("layer.input", list(layer.input), limit)
