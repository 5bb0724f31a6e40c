"""The multicore NPU: tiles of cores with three small memories each, and a DRAM that works in bursts."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.layer import Layer
from tilewright.tiling.widths import Sized, Widths

Bytes = Annotated[int, Field(ge=1, le=2**40)]
Count = Annotated[int, Field(ge=1, le=1024)]
Picoseconds = Annotated[int, Field(ge=0, le=10**9)]

LONGEST = 2**62
"""Most picoseconds that any plan of a layer may take."""


class NpuMachine(Sized, Spec):
    """A neuromorphic processor of TLEs, each with several TLT cores (TSO paper, section III).

    The defaults of the times are fitted on two columns of the paper's table II (docs/npu.md).

    Attributes
    ----------
    tles, tlts
        Tile elements (TLEs), and cores (TLTs) of each.
    input_bytes, weights_bytes, output_bytes
        The memories MB0, MB1 and MB2 of a core.
    element_bytes
        Size of every element. With `bits` it says nothing.
    bits
        Widths of the operands' elements instead. What stands alone in DRAM, a row, a map or a filter, begins
        with a byte of its own. A core adds one input map after the other to a tile's outputs (equation 7), so
        its memory for outputs holds sums, of `partial` bits; or complete outputs, where filters have one map.
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
    later: ClassVar[tuple[str, ...]] = ("vector_ops_per_cycle", "host", "bits")

    kind: Literal["npu"] = "npu"
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
    bits: Widths | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse sums that grow when they are complete."""
        if self.bits is not None:
            self.bits.check()

    def held_bits(self, maps: int) -> dict[str, int]:
        """Return the widths of what a core's memories hold of a layer whose filters have so many maps."""
        bits = self.operand_bits
        return {
            "input": bits.input,
            "weights": bits.weights,
            "output": bits.output if maps == 1 else bits.partial,
        }

    def check(self, layer: Layer, minimise: str) -> None:
        """Refuse a layer of which not even the smallest tile fits, or whose time cannot be counted.

        Raises
        ------
        InputError
            Names the operand that does not fit and how much is missing.
        """
        height, width = layer.kernel_extent
        window = layer.kernel[0] * layer.kernel[1]
        held = self.held_bits(layer.input[0] // layer.groups)
        for operand, elements in (("input", height * width), ("weights", window), ("output", 1)):
            field, width = f"{operand}_bytes", held[operand]
            given, needed = getattr(self, field), -(-elements * width // 8)
            if needed > given:
                of = f"{self.element_bytes} bytes" if self.bits is None else f"{width} bits"
                raise InputError(
                    f"machine.{field}",
                    given,
                    f"the {operand} of the smallest tile does not fit: {needed} bytes are needed ({elements} "
                    f"elements of {of}), {needed - given} are missing",
                )
        tiles = layer.macs // window  # at most, each of one filter, one map and one position
        bits = self.operand_bits
        moved = tiles * (height * width + window + 1)
        # No run of elements takes more whole bytes than its elements one by one.
        size = moved * -(-max(bits.input, bits.weights, bits.output) // 8)
        longest = layer.macs * self.cycle_ps + size * (self.byte_ps + self.burst_ps)
        for most, counted in (
            (longest, "take {:,} ps"),
            (moved * max(self.units), f"move {{:,}} {self.unit}"),
        ):
            if most > LONGEST:
                limit = f"a plan may {counted.format(most)} on this machine; up to {LONGEST:,} can be counted"
                raise InputError("layer.input", list(layer.input), limit)
