"""How many bytes the buffers of an emitted file take, beside those that the plan counts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.codegen.c_text import group_digits
from tilewright.codegen.loop_nest.layer import PlannedLayer
from tilewright.codegen.loop_nest.names import SHORT
from tilewright.codegen.loop_nest.types import CTypes


@dataclass(frozen=True)
class CMemory:
    """Bytes of on-chip buffers: of the plan, of the C file with the types that it defines, of the machine.

    Attributes
    ----------
    planned_bytes
        Of all copies of the buffers, every element as wide as the machine says. Where these are widths of C,
        the file's buffers take just as much.
    copy_bytes
        Of one copy of the C buffers, which is what the file declares; those of a network lie in one place.
    copies
        How often the machine has every buffer: twice under double buffering.
    memory_bytes
        What the machine has.
    plan_bits, element_bits, accumulator_bits
        Width of an element in the plan; in C of inputs and weights, and of sums. Of several the largest.
    wider
        What has other widths here than in the plan, in words.
    """

    planned_bytes: int
    copy_bytes: int
    copies: int
    memory_bytes: int
    plan_bits: int
    element_bits: int
    accumulator_bits: int
    wider: tuple[str, ...] = ()

    @classmethod
    def of(cls, layers: Sequence[PlannedLayer]) -> CMemory:
        """Return what the buffers of a file take, those of the layer that needs most."""
        machine = layers[0].machine
        held = max(sum(layer.nest.held(layer.step).values()) for layer in layers)
        types, bits = CTypes.of(machine), machine.operand_bits
        return cls(
            planned_bytes=-(-held * machine.unit_bits * machine.copies // 8),
            copy_bytes=max(map(_copy_bytes, layers)),
            copies=machine.copies,
            memory_bytes=machine.memory_bytes,
            plan_bits=max(bits.input, bits.weights, bits.output, bits.partial),
            element_bits=max(types.input.bits, types.kernels.bits),
            accumulator_bits=types.sums.bits,
            wider=_wider(types),
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
            f"the buffers take {group_digits(self.emitted_bytes)} bytes{count}, planned are "
            f"{group_digits(self.planned_bytes)} of the {group_digits(self.memory_bytes)} "
            "that the machine has"
        )
        return f"{text}; {' and '.join(self.wider)}" if self.wider else text

    def warning(self) -> str | None:
        """Say by how much the buffers exceed the memory, and what helps; None where they fit."""
        if self.fits:
            return None
        missing = group_digits(self.emitted_bytes - self.memory_bytes)
        text = f"does not fit the machine's memory, {missing} bytes are missing: {self.told()}"
        if self.copies > 1:
            inside = "fits" if self.copy_bytes <= self.memory_bytes else "does not fit either"
            text += f"; one copy, which the file declares, takes {group_digits(self.copy_bytes)} and {inside}"
        narrow = f"sums of {self.plan_bits} bits (ACC_T) may overflow; " if self.plan_bits < 32 else ""
        return f"{text}. What helps: {narrow}a plan for less memory_bytes"


def _wider(types: CTypes) -> tuple[str, ...]:
    """Name the types that have other widths than the plan's elements."""
    named = {types.input.name: "inputs", types.output.name: "outputs", types.sums.name: "sums"}
    named |= {types.kernels.name: "weights" if types.kernels != types.input else "inputs and weights"}
    return tuple(
        f"{named[each.name]} have {each.bits} bits here where the plan counts {each.planned}"
        for each in types.distinct()
        if each.bits != each.planned
    )


def in_memory(layer: PlannedLayer) -> list[str]:
    """Return the operands in the order of their buffers: widest first where the machine gives widths.

    So there are no gaps for the sake of alignment, but for less than an element at the end.
    """
    if layer.machine.bits is None:
        return list(SHORT)
    return sorted(SHORT, key=lambda operand: -layer.buffer_types[operand].bits)


def _copy_bytes(layer: PlannedLayer) -> int:
    """Return the bytes of a struct of the three buffers, in the order and alignment of the C file."""
    need, end, widest = layer.nest.buffers(layer.step), 0, 1
    for operand in in_memory(layer):
        width = layer.buffer_types[operand].bytes
        end = -(-end // width) * width + need[operand] * width
        widest = max(widest, width)
    return end if layer.machine.bits is None else -(-end // widest) * widest


def describe_buffers(layer: PlannedLayer) -> str:
    """Return the bytes of a layer's own buffers in C, for its comment."""
    need, memory = layer.nest.buffers(layer.step), CMemory.of([layer])
    parts = " + ".join(
        f"{group_digits(need[operand])} x {layer.buffer_types[operand].bytes}" for operand in SHORT
    )
    twice = f", twice for double buffering: {group_digits(memory.emitted_bytes)}" if memory.copies > 1 else ""
    share = f"{100 * memory.emitted_bytes / memory.memory_bytes:.1f} %"
    total = f"{share} of {group_digits(memory.memory_bytes)}"
    return f"{parts}: {group_digits(memory.copy_bytes)} bytes{twice}, {total}"
