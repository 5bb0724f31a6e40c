"""How many bytes the buffers of an emitted file take, beside those that the plan counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.c_layer import PlannedLayer
from tilewright.codegen.c_names import SHORT, TYPES
from tilewright.codegen.c_text import grouped
from tilewright.tiling.dsp.machine import DspMachine


@dataclass(frozen=True)
class CMemory:
    """Bytes of on-chip buffers: of the plan, of the C file with the types that it defines, of the machine.

    Attributes
    ----------
    planned_bytes
        Of all copies of the buffers, every element as wide as the machine says.
    copy_bytes
        Of one copy of the C buffers, which is what the file declares; those of a network lie in one place.
    copies
        How often the machine has every buffer: twice under double buffering.
    memory_bytes
        What the machine has.
    plan_bits, element_bits, accumulator_bits
        Width of every element in the plan; in C of inputs and weights, and of sums.
    """

    planned_bytes: int
    copy_bytes: int
    copies: int
    memory_bytes: int
    plan_bits: int
    element_bits: int
    accumulator_bits: int

    @classmethod
    def of(cls, layers: Sequence[PlannedLayer]) -> CMemory:
        """Return what the buffers of a file take, those of the layer that needs most."""
        machine = layers[0].machine
        needs = [layer.nest.buffers(layer.step) for layer in layers]
        element, accumulator = widths(machine)
        return cls(
            planned_bytes=max(sum(need.values()) for need in needs) * machine.element_bytes * machine.copies,
            copy_bytes=max(_copy_bytes(need, element // 8, accumulator // 8) for need in needs),
            copies=machine.copies,
            memory_bytes=machine.memory_bytes,
            plan_bits=8 * machine.element_bytes,
            element_bits=element,
            accumulator_bits=accumulator,
        )

    @property
    def emitted_bytes(self) -> int:
        """Bytes of the C buffers in as many copies as are planned."""
        return self.copies * self.copy_bytes

    @property
    def fits(self) -> bool:
        """Whether the memory holds them."""
        return self.emitted_bytes <= self.memory_bytes

    def told(self) -> str:
        """Say what the buffers take, and why that is another number than the plan's, in a sentence."""
        count = f" in {self.copies} copies" if self.copies > 1 else ""
        text = (
            f"the buffers take {grouped(self.emitted_bytes)} bytes{count}, planned are "
            f"{grouped(self.planned_bytes)} of the {grouped(self.memory_bytes)} that the machine has"
        )
        wider = [
            f"{what} have {bits} bits here where the plan counts {self.plan_bits}"
            for what, bits in (("inputs and weights", self.element_bits), ("sums", self.accumulator_bits))
            if bits != self.plan_bits
        ]
        return f"{text}; {' and '.join(wider)}" if wider else text

    def warning(self) -> str | None:
        """Say by how much the buffers exceed the memory, and what helps; None where they fit."""
        if self.fits:
            return None
        missing = grouped(self.emitted_bytes - self.memory_bytes)
        text = f"does not fit the machine's memory, {missing} bytes are missing: {self.told()}"
        if self.copies > 1:
            inside = "fits" if self.copy_bytes <= self.memory_bytes else "does not fit either"
            text += f"; one copy, which the file declares, takes {grouped(self.copy_bytes)} and {inside}"
        narrow = f"sums of {self.plan_bits} bits (ACC_T) may overflow; " if self.plan_bits < 32 else ""
        return f"{text}. What helps: {narrow}a plan for less memory_bytes"


def widths(machine: DspMachine) -> tuple[int, int]:
    """Return the bits of the C types of elements and of sums."""
    bits = next((bits for bits in (8, 16, 32) if machine.element_bytes * 8 <= bits), 64)
    return bits, 32 if bits <= 16 else 64


def _copy_bytes(need: dict[str, int], element: int, accumulator: int) -> int:
    """Return the bytes of a struct of the three buffers, in the order and alignment of the C file."""
    end = 0
    for operand in SHORT:
        width = accumulator if TYPES[operand] == "acc_t" else element
        end = -(-end // width) * width + need[operand] * width
    return end


def about(layer: PlannedLayer) -> str:
    """Return the bytes of a layer's own buffers in C, for its comment."""
    need, memory = layer.nest.buffers(layer.step), CMemory.of([layer])
    size = {"data_t": memory.element_bits // 8, "acc_t": memory.accumulator_bits // 8}
    parts = " + ".join(f"{grouped(need[operand])} x {size[TYPES[operand]]}" for operand in SHORT)
    twice = f", twice for double buffering: {grouped(memory.emitted_bytes)}" if memory.copies > 1 else ""
    share = f"{100 * memory.emitted_bytes / memory.memory_bytes:.1f} %"
    return f"{parts}: {grouped(memory.copy_bytes)} bytes{twice}, {share} of {grouped(memory.memory_bytes)}"
