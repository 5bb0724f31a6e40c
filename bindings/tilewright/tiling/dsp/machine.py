"""The scratchpad DSP: one core, one on-chip memory, a DMA controller and a shared data bus."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.energy import Energy
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp.lines import InputLines
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.widths import Sized, Widths

MAX_BYTES = 2**40
"""Largest memory."""

Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES)]
Cycles = Annotated[int, Field(ge=0, le=1_000_000)]
Rate = Annotated[int, Field(ge=1, le=1_000_000)]


MAX_TOTAL = 2**62
"""Largest number of cycles and femtojoules that is accepted, so that every sum fits into 64 bits."""


class DspMachine(Sized, Spec):
    """An imaging DSP with a software-managed scratchpad (thesis, tables 5.1 and 7.2).

    Attributes
    ----------
    memory_bytes
        Local memory that input, weights and outputs share.
    double_buffering
        Every buffer exists twice, and transfers run beside the computation of the tile before.
    element_bytes
        Size of every element: inputs, weights, outputs and partial sums. With `bits`, only of those that
        `bus_elements_per_cycle` counts.
    bits
        Widths of the operands' elements instead. External memory and the bus have outputs that are complete
        in `output` bits and sums that are not in `partial` bits. So has the output buffer: a tile with all
        input maps adds each output up in a register and stores it complete; other tiles store sums.
    bus_elements_per_cycle
        Throughput of the data bus that DMA transfers and local traffic share, in elements of `element_bytes`.
    macs_per_cycle
        Throughput of the core.
    dma_setup_cycles
        Cycles that the core spends on programming one transfer (``CC_dma_init``).
    register_file_bytes
        Register file that local traffic is estimated for (section 5.4); 0 leaves local traffic out.
    padding : {"loaded", "generated"}
        Whether zeros around the input are stored in external memory and loaded like other elements, as the
        thesis counts, or written into the buffer on chip.
    dma_step
        Transfers leave out the input rows and columns between the windows of a large stride, which then take
        no room on chip either.
    vector_ops_per_cycle
        Operations of the core on single values, in pools, sums and functions; without it these are not
        counted.
    vector_unit
        What the inner loop of a tile runs on. With it cycles and local traffic of a tile are those of the
        plan's inner loop, instead of its MACs over `macs_per_cycle` and the estimate for
        `register_file_bytes` (docs/dsp-compute.md).
    host
        What does the operations that the core does not do, or all of them.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = ("dma_step", "vector_ops_per_cycle", "host", "bits", "vector_unit")

    kind: Literal["dsp"] = "dsp"
    memory_bytes: Bytes
    double_buffering: bool = True
    element_bytes: Annotated[int, Field(ge=1, le=16)] = 2
    clock_mhz: Rate = 450
    bus_elements_per_cycle: Rate = 32
    macs_per_cycle: Rate = 32
    dma_setup_cycles: Cycles = 150
    register_file_bytes: Annotated[int, Field(ge=0, le=2**40)] = 0
    padding: Literal["loaded", "generated"] = "loaded"
    dma_step: bool = False
    energy: Energy = Energy()
    vector_ops_per_cycle: Rate | None = None
    host: Host | None = None
    bits: Widths | None = None
    vector_unit: VectorUnit | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse sums that grow when they are complete, and a vector unit that the other fields deny."""
        if self.bits is not None:
            self.bits.check()
        unit = self.vector_unit
        if unit is None:
            return
        if self.bits is not None:
            limit = "vector_unit has lanes of element_bytes; widths of operands are not modelled with it"
            raise InputError("machine.bits", self.bits.model_dump(), limit)
        peak, moved = unit.lanes * unit.mac_slots, unit.lanes * unit.memory_slots
        if self.macs_per_cycle != peak:
            limit = f"must be {peak}, the lanes times the mac_slots of vector_unit"
            raise InputError("machine.macs_per_cycle", self.macs_per_cycle, limit)
        if self.bus_elements_per_cycle < moved:
            limit = f"must be at least {moved}, the lanes times the memory_slots of vector_unit"
            raise InputError("machine.bus_elements_per_cycle", self.bus_elements_per_cycle, limit)

    @property
    def copies(self) -> int:
        """How often every buffer exists."""
        return 2 if self.double_buffering else 1

    @property
    def bus_units_per_cycle(self) -> int:
        """Throughput of the bus."""
        return self.bus_elements_per_cycle * 8 * self.element_bytes // self.unit_bits

    @property
    def register_file(self) -> int:
        """Units that the register file holds."""
        return 8 * self.register_file_bytes // self.unit_bits

    @property
    def capacity(self) -> int:
        """Units that the memory holds."""
        return 8 * self.memory_bytes // self.unit_bits

    @property
    def priced(self) -> bool:
        """Whether anything that is counted has a price above 0."""
        prices = self.energy
        local = prices.local_fj_per_access and (self.register_file_bytes or self.vector_unit)
        return bool(prices.core_fj_per_cycle or prices.dram_fj_per_access or local)

    @property
    def buffer_capacity(self) -> int:
        """Units for one copy of all buffers (equation 5.6, algorithm 1)."""
        return self.capacity // self.copies

    def check(self, layer: Layer, minimise: str) -> None:
        """Refuse a layer of which not even the smallest tile fits, and a register file that holds none.

        Raises
        ------
        InputError
            Names the operand that does not fit and how much is missing.
        """
        generated = self.padding == "generated"
        height, width = (
            InputLines.of(layer, side, dma_step=self.dma_step, generated=generated).extent for side in (0, 1)
        )
        self._refuse_too_much(layer, minimise)
        kernel = layer.kernel[0] * layer.kernel[1]
        smallest = {"input": height * width, "weights": kernel, "output": 1}
        bits = dict(
            zip(smallest, self.units.held(complete=layer.input[0] == layer.groups).values(), strict=True)
        )
        bits = {name: each * self.unit_bits for name, each in bits.items()}
        if self.bits is None:
            sizes = ", ".join(f"{name} {size}" for name, size in smallest.items())
            sizes += f" elements of {self.element_bytes} bytes"
        else:
            sizes = ", ".join(f"{name} {size} of {bits[name]} bits" for name, size in smallest.items())
        for field, given, copies in (
            ("memory_bytes", self.memory_bytes, self.copies),
            ("register_file_bytes", self.register_file_bytes, 1),
        ):
            held = 0
            if field == "register_file_bytes" and given == 0:
                continue
            for name, size in smallest.items():
                held += copies * size * bits[name]
                if held > 8 * given:
                    total = -(-copies * sum(smallest[each] * bits[each] for each in smallest) // 8)
                    twice = ", each twice for double buffering" if copies == 2 else ""
                    estimated = field == "register_file_bytes"
                    without = "; 0 leaves the estimate of local traffic out" if estimated else ""
                    raise InputError(
                        f"machine.{field}",
                        given,
                        f"the {name} of the smallest tile does not fit: {total} bytes are needed ({sizes}"
                        f"{twice}), {total - given} are missing{without}",
                    )

    def _refuse_too_much(self, layer: Layer, minimise: str) -> None:
        """Refuse layers whose largest totals do not fit into 64 bits."""
        height, width = layer.kernel_extent
        kernel = layer.kernel[0] * layer.kernel[1]
        tiles = layer.macs // kernel
        units = self.units
        accesses = tiles * (height * width * units.input + kernel * units.kernels + 2 * units.partial)
        cycles = layer.macs + accesses + 4 * tiles * self.dma_setup_cycles
        if self.vector_unit is not None:
            cycles += layer.macs * self.vector_unit.most_cycles_per_mac
        price = self.energy
        femtojoules = (
            -(-accesses * self.unit_bits // 8) * (price.dram_fj_per_access + price.local_fj_per_access)
            + cycles * price.core_fj_per_cycle
        )
        largest = femtojoules if minimise == "energy" else max(cycles, accesses)
        if largest > MAX_TOTAL:
            limit = f"gives totals of up to {largest:.1e}, at most {MAX_TOTAL:.1e} can be counted"
            raise InputError("layer.input", list(layer.input), limit)
