"""A level of a hierarchy: a memory, or an array of instances of all that lies further in."""

from __future__ import annotations

from itertools import compress, permutations, product
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS, Operand

Kept = tuple[tuple[str, tuple[Operand, ...]], ...]
"""For levels with `may_hold`, by name, the operands of it that a plan holds there. For uneven levels all that
are held, from the one with the largest block to the one with the smallest."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
LoopName = Literal[
    "groups", "batch", "output_maps", "rows", "columns", "input_maps", "kernel_rows", "kernel_columns"
]
Bytes = Annotated[int, Field(ge=0, le=2**40)]
Rate = Annotated[float, Field(gt=0, le=1e6)]
Picojoules = Annotated[float, Field(ge=0, le=1e6)]


class OperandBytes(Spec):
    """A capacity for each operand."""

    input: Bytes = 0
    weights: Bytes = 0
    output: Bytes = 0


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
    over: Annotated[tuple[LoopName, ...], Field(min_length=1)]

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
    may_hold
        Operands of which a plan decides whether they are kept here.
    halo
        When the innermost loop that moves input goes on, and is over rows or columns (of outputs or kernels),
        what the new tile shares with the last one stays; only the rest is fetched.
    double_buffering
        Every tile exists twice, and transfers to and from here run beside the computation.
    uneven
        The tiles of different operands may belong to different blocks, one inside of the other.
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

    later: ClassVar[tuple[str, ...]] = ("may_hold", "halo", "uneven")

    name: Name
    capacity_bytes: Bytes | OperandBytes | None = None
    holds: tuple[Operand, ...] = OPERANDS
    may_hold: tuple[Operand, ...] = ()
    halo: bool = False
    double_buffering: bool = False
    uneven: bool = False
    read_pj_per_byte: Picojoules | None = None
    write_pj_per_byte: Picojoules | None = None
    bytes_per_cycle: Rate | None = None
    read_bytes_per_cycle: Rate | None = None
    write_bytes_per_cycle: Rate | None = None
    fanout: tuple[Fanout, ...] = ()

    @property
    def copies(self) -> int:
        """How often every tile exists."""
        return 2 if self.double_buffering else 1

    @property
    def choices(self) -> list[tuple[Operand, ...]]:
        """What a plan may decide of this level: see `Kept`."""
        may = sorted(self.may_hold, key=OPERANDS.index)
        chosen = [tuple(compress(may, bits)) for bits in product((True, False), repeat=len(may))]
        if not self.uneven:
            return chosen
        return [order for each in chosen for order in permutations((*self.holds, *each))]


def check_level(level: Level) -> None:
    """Refuse an array that is a memory, too, operands that are held twice, and ports that are told twice."""
    field = f"machine.levels.{level.name}"
    if level.fanout:
        for name, value in Level(name=level.name):
            told = getattr(level, name)
            if name != "fanout" and told != value:
                raise InputError(f"{field}.{name}", told, "is for memories; this level is an array")
        loops = [loop for axis in level.fanout for loop in axis.over]
        if any(len(set(axis.over)) < len(axis.over) for axis in level.fanout):
            raise InputError(f"{field}.fanout.over", loops, "names a loop twice for one axis")
        return
    either = (*level.holds, *level.may_hold)
    if not either or len(set(either)) < len(either):
        limit = "a memory holds at least one operand, each once"
        raise InputError(f"{field}.holds", list(either), limit)
    if level.halo and "input" not in either:
        raise InputError(f"{field}.halo", level.halo, "is of input, which this level does not hold")
    if level.bytes_per_cycle is not None and (level.read_bytes_per_cycle or level.write_bytes_per_cycle):
        limit = "is of one port; give this or those of two ports, not both"
        raise InputError(f"{field}.bytes_per_cycle", level.bytes_per_cycle, limit)
