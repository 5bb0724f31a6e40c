"""Bits for dependencies: the fewest tokens between engines from which the timetable follows.

An instruction must wait for what it conflicts with in the buffers, and for a place that the timetable
reserves. As engines work in order, it is enough to wait for the last such instruction of each engine, and
for none that another one has waited for. Tokens of an engine for another one are counted, so that a bit says
all: the n-th wait takes what the n-th send gives.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from tilewright.codegen.isa.instructions import Instruction
from tilewright.codegen.isa.places import Accesses
from tilewright.codegen.isa.shadow import BEGINNING, Clock, Shadow, after, merged
from tilewright.fusion.machine import ENGINES, MISC
from tilewright.spec.errors import Disagreement


@dataclass(frozen=True)
class Timed:
    """An instruction without dependencies, what it touches, and when a timetable has it."""

    instruction: Instruction
    accesses: Accesses
    start: int
    finish: int


@dataclass
class _Placed:
    instruction: Instruction
    clock: Clock
    finish: int
    wait: list[str] = field(default_factory=list)
    send: list[str] = field(default_factory=list)


class Tokens:
    """A program whose instructions are put in order one by one.

    Parameters
    ----------
    sizes
        Elements of each buffer.
    """

    def __init__(self, sizes: Sequence[int]) -> None:
        self._shadow = Shadow(sizes)
        self._by_engine: list[list[_Placed]] = [[] for _ in ENGINES]
        self._program: list[_Placed] = []

    def program(self) -> tuple[Instruction, ...]:
        """Return all instructions, with their bits."""
        return tuple(
            replace(each.instruction, wait=_in_order(each.wait), send=_in_order(each.send))
            for each in self._program
        )

    def boundary(self, instruction: Instruction, cycles: int) -> int:
        """Add an instruction that waits for all engines and that all others wait for; return its end."""
        needs = {number: len(each) for number, each in enumerate(self._by_engine) if each}
        start = max((each[-1].finish for each in self._by_engine if each), default=0)
        self._add(instruction, needs, start + cycles)
        return start + cycles

    def group(self, timed: Iterable[Timed], begin: int) -> None:
        """Add the instructions of a group in the order in which they begin.

        Parameters
        ----------
        begin
            Cycle at which the group's boundary ends, which is their first one.

        Raises
        ------
        Disagreement
            Where the timetable has two instructions in conflict at a time, or one begins for no reason.
        """
        misc = ENGINES.index(MISC)
        boundary = len(self._by_engine[misc])
        ended: dict[int, tuple[int, int]] = {}
        for each in timed:
            engine = ENGINES.index(each.instruction.engine)
            start = begin + each.start
            reads, writes = each.accesses.reads, each.accesses.writes
            needs = {misc: boundary}
            for conflict in self._shadow.conflicts(reads, writes):
                needs[conflict.engine] = max(needs.get(conflict.engine, 0), conflict.number)
            free = max(begin, self._by_engine[engine][-1].finish if self._by_engine[engine] else 0)
            reached = max(free, *(self._finish(*need) for need in needs.items()))
            if reached > start:
                raise Disagreement(
                    f"the timetable has {each.instruction.name} begin before what it needs ends"
                )
            if reached < start:
                if start not in ended:
                    raise Disagreement(f"the timetable has {each.instruction.name} begin for no reason")
                other, count = ended[start]
                needs[other] = max(needs.get(other, 0), count)
            self._add(each.instruction, needs, begin + each.finish)
            count = len(self._by_engine[engine])
            self._shadow.note(engine, count, reads, writes)
            ended[begin + each.finish] = engine, count

    def _finish(self, engine: int, count: int) -> int:
        return self._by_engine[engine][count - 1].finish if count else 0

    def _add(self, instruction: Instruction, needs: dict[int, int], finish: int) -> None:
        """Add an instruction that begins when others have ended: for each engine, so many."""
        engine = ENGINES.index(instruction.engine)
        own = self._by_engine[engine]
        clock = after(own[-1].clock, engine) if own else BEGINNING
        placed = _Placed(instruction, clock, finish)
        latest = sorted(needs.items(), key=lambda need: -self._finish(*need))
        for other, count in latest:
            if other == engine or placed.clock[other] >= count:
                continue
            before = self._by_engine[other][count - 1]
            before.send.append(ENGINES[engine])
            placed.wait.append(ENGINES[other])
            ends = list(before.clock)
            ends[other] = count
            placed.clock = merged(placed.clock, tuple(ends))
        own.append(placed)
        self._program.append(placed)


def _in_order(engines: Iterable[str]) -> tuple[str, ...]:
    return tuple(engine for engine in ENGINES if engine in set(engines))
