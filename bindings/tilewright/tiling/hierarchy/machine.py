"""A hierarchy of memories and arrays of PEs, each with what it holds, moves and costs."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError

OPERANDS = ("input", "weights", "output")

LOOPS = {
    "g": "groups",
    "n": "batch",
    "c": "output_maps",
    "y": "rows",
    "x": "columns",
    "k": "input_maps",
    "r": "kernel_rows",
    "s": "kernel_columns",
}
"""The loops of a layer: a letter for plans, a name for files. Output and input maps are those of a group."""

USES = {"input": "gnyxkrs", "weights": "gckrs", "output": "gncyx"}
"""The loops that move each operand."""

REDUCED = "krs"
"""The loops over which products are added up."""

MOST_LEVELS = 8

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
Operand = Literal["input", "weights", "output"]
LoopName = Literal[
    "groups", "batch", "output_maps", "rows", "columns", "input_maps", "kernel_rows", "kernel_columns"
]
Bytes = Annotated[int, Field(ge=1, le=2**40)]
Rate = Annotated[float, Field(gt=0, le=1e6)]
Picojoules = Annotated[float, Field(ge=0, le=1e6)]
Bits = Annotated[int, Field(ge=1, le=128)]


class Widths(Spec):
    """Bits of an element of each operand; of sums that are not complete, wherever they lie, `partial`."""

    input: Bits = 8
    weights: Bits = 8
    output: Bits = 8
    partial: Bits = 32


class OperandBytes(Spec):
    """A capacity for each operand."""

    input: Annotated[int, Field(ge=0, le=2**40)] = 0
    weights: Annotated[int, Field(ge=0, le=2**40)] = 0
    output: Annotated[int, Field(ge=0, le=2**40)] = 0


class Fanout(Spec):
    """Instances side by side, over which loops may be unrolled.

    Attributes
    ----------
    size
        Most instances.
    over
        The loops that may be unrolled over them, together.
    """

    size: Annotated[int, Field(ge=1, le=2**20)]
    over: tuple[LoopName, ...]

    @property
    def loops(self) -> str:
        """The letters of the loops."""
        return "".join(letter for letter, name in LOOPS.items() if name in self.over)


class Level(Spec):
    """A memory, or an array of instances of all that lies further in.

    Attributes
    ----------
    capacity_bytes
        Of one instance; for all operands together, or for each.
    holds
        The operands that are kept here. The others pass by.
    double_buffering
        Every tile exists twice, and transfers to and from here run beside the computation.
    read_pj_per_byte, write_pj_per_byte
        Energy of what is read and written; without the latter both cost the same.
    bytes_per_cycle
        Throughput of one instance, for reads and writes together.
    read_bytes_per_cycle, write_bytes_per_cycle
        Throughputs of two ports instead.
    fanout
        Makes this an array: its axes. An operand that no loop unrolled here moves is multicast; sums of loops
        that are reduced are added up on the way out.
    """

    name: Name
    capacity_bytes: Bytes | OperandBytes | None = None
    holds: tuple[Operand, ...] = OPERANDS
    double_buffering: bool = False
    read_pj_per_byte: Picojoules | None = None
    write_pj_per_byte: Picojoules | None = None
    bytes_per_cycle: Rate | None = None
    read_bytes_per_cycle: Rate | None = None
    write_bytes_per_cycle: Rate | None = None
    fanout: tuple[Fanout, ...] = ()

    def model_post_init(self, _context: object) -> None:
        """Refuse an array that is a memory, too, and ports that are told twice."""
        if self.fanout:
            told = self.model_fields_set - {"name", "fanout"}
            if told:
                raise InputError(
                    min(told), getattr(self, min(told)), "is for memories; this level is an array"
                )
        elif not self.holds:
            raise InputError("holds", [], "a memory holds at least one operand")
        if self.bytes_per_cycle is not None and (self.read_bytes_per_cycle or self.write_bytes_per_cycle):
            limit = "is of one port; give this or those of two ports, not both"
            raise InputError("bytes_per_cycle", self.bytes_per_cycle, limit)

    @property
    def copies(self) -> int:
        """How often every tile exists."""
        return 2 if self.double_buffering else 1


class Node(NamedTuple):
    """A level as the loop nest sees it: a memory, or one axis of an array.

    Attributes
    ----------
    level
        The level's number.
    axis
        The axis, None for a memory.
    """

    name: str
    level: int
    axis: Fanout | None


class HierarchyMachine(Spec):
    """Memories and arrays, outermost first, down to the units that multiply and add.

    Attributes
    ----------
    macs_per_cycle
        Of one innermost instance.
    mac_pj
        Energy of a multiplication and addition.
    bits
        Widths of the operands' elements.
    levels
        The first has no capacity and holds every operand; the last is a memory.
    """

    table_name: ClassVar[str] = "machine"

    kind: Literal["hierarchy"]
    clock_mhz: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    macs_per_cycle: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    mac_pj: Picojoules | None = None
    bits: Widths = Widths()
    levels: Annotated[tuple[Level, ...], Field(min_length=2, max_length=MOST_LEVELS)]

    def model_post_init(self, _context: object) -> None:
        """Refuse levels that are no hierarchy."""
        names = [level.name for level in self.levels]
        for i, level in enumerate(self.levels):
            if names.index(level.name) != i:
                raise InputError(f"machine.levels.{i + 1}.name", level.name, "is the name of another level")
            if i and not level.fanout and level.capacity_bytes is None:
                limit = "is needed by every memory but the first"
                raise InputError(f"machine.levels.{level.name}.capacity_bytes", None, limit)
        first, last = self.levels[0], self.levels[-1]
        if first.fanout or first.capacity_bytes is not None or set(first.holds) != set(OPERANDS):
            limit = "the first level is a memory without capacity_bytes that holds every operand"
            raise InputError(f"machine.levels.{first.name}", first.name, limit)
        if last.fanout:
            raise InputError(f"machine.levels.{last.name}.fanout", last.name, "the last level is a memory")

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Memories and axes of arrays, outermost first."""
        nodes = []
        for number, level in enumerate(self.levels):
            if not level.fanout:
                nodes.append(Node(level.name, number, None))
            for i, axis in enumerate(level.fanout, 1):
                name = level.name if len(level.fanout) == 1 else f"{level.name}.{i}"
                nodes.append(Node(name, number, axis))
        return tuple(nodes)

    @cached_property
    def holders(self) -> dict[str, tuple[int, ...]]:
        """The nodes that hold each operand, outermost first."""
        return {
            operand: tuple(
                i
                for i, node in enumerate(self.nodes)
                if node.axis is None and operand in self.levels[node.level].holds
            )
            for operand in OPERANDS
        }
