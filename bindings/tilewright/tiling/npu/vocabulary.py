"""What constraints of a layer on a multicore NPU can speak of: partition, schedule, tile and costs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.spec.constraints import Names, Term, Word
from tilewright.spec.constraints.meaning import value
from tilewright.spec.constraints.parts import Ground
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.npu.cost import Cost, accesses, time_ps, totals
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan, NpuTile

AXES = NpuTile._fields
"""What the loops run over, in the order of steps."""

OPERANDS = Names("operands", ("input", "weights", "output"))


@dataclass(frozen=True)
class Tiling:
    """A plan as the words see it; its steps may be arrays that broadcast, of many tiles at a time."""

    cut: Cut
    schedule: str
    step: tuple[Any, Any, Any, Any]

    @cached_property
    def cost(self) -> Cost:
        """Everything that the plan costs."""
        return totals(self.cut, self.schedule, self.step)

    def iterations(self, axis: str) -> Any:
        """Return the iterations of a loop, in the core that has most."""
        d = AXES.index(axis)
        return -(-self.cut.sizes[d] // self.step[d])

    def elements(self, operand: str) -> Any:
        """Return the elements of a full tile in a core (equation 2)."""
        return self.cut.need(self.step, self.schedule)[operand]

    def contiguous_bytes(self, operand: str) -> Any:
        """Return the bytes of a full tile that follow each other in DRAM, as bursts are counted."""
        cut, (_, n, r, c) = self.cut, self.step
        width = cut.layer.output_plane[1]
        if operand == "weights":
            run = (cut.maps if self.schedule == "WS" else n) * cut.window
        elif operand == "input":
            run = np.where(c >= width, cut.reach(0, r) * cut.reach(1, width), cut.reach(1, c))
        else:
            run = np.where(c >= width, r * width, c)
        return run * cut.widths[operand] // 8

    @property
    def held(self) -> Any:
        """What a tile takes of a core's memories, in the machine's unit."""
        need = self.cut.need(self.step, self.schedule)
        return sum(elements * self.cut.held_units[operand] for operand, elements in need.items())


def admitted(problem: LayerProblem) -> Callable[[Tiling], Any] | None:
    """Return what tells which tiles the constraints of a problem admit; None where it has none."""
    if not problem.constraints:
        return None

    def admits(seen: Tiling) -> Any:
        def of(term: Term) -> Any:
            return problem.vocabulary.value(term, seen)

        parts: tuple[Ground, ...] = problem.must_hold
        return np.logical_and.reduce(np.broadcast_arrays(True, *(value(part, of) for part in parts)))

    return admits


def words(problem: LayerProblem) -> list[Word]:
    """Return the words of a layer on a multicore NPU."""
    loops, unit = Names("loops", AXES), problem.machine.unit

    def size(number: int, axis: str) -> Word:
        said = f"{axis.replace('_', ' ')} of a core's tile, as its loop takes them"
        return Word(f"tile.{axis}", said, lambda seen: seen.step[number])

    return [
        Word(
            "partition",
            "what the TLEs divide among them",
            lambda seen: seen.cut.partition,
            gives=Names("partitions", PARTITIONS),
        ),
        Word(
            "schedule",
            "which operand stays",
            lambda seen: seen.schedule,
            gives=Names("schedules", SCHEDULES),
        ),
        *(size(number, axis) for number, axis in enumerate(AXES)),
        Word(
            "iterations",
            "iterations of a loop over tiles, in the core that has most",
            Tiling.iterations,
            (loops,),
        ),
        Word("elements", "elements of a tile in a core", Tiling.elements, (OPERANDS,), "elements"),
        Word(
            "contiguous_bytes",
            "bytes of a full tile that follow each other in DRAM",
            Tiling.contiguous_bytes,
            (OPERANDS,),
            "bytes",
        ),
        Word("time", "time of the layer", lambda seen: time_ps(seen.cut, seen.cost), unit="ps"),
        Word("accesses", "what the layer moves", lambda seen: accesses(seen.cut, seen.cost), unit=unit),
        Word("bursts", "DRAM bursts of the layer", lambda seen: seen.cost.bursts, unit="bursts"),
        Word("memory", "what a tile takes of a core's memories", lambda seen: seen.held, unit=unit),
    ]


def view(problem: LayerProblem, plan: NpuPlan) -> Tiling:
    """Return a plan as the words see it."""
    cut = cut_of(problem.one_layer, problem.machine, plan.partition)
    m, n, r, c = (np.int64(step) for step in cut.step(plan.tile))
    return Tiling(cut, plan.schedule, (m, n, r, c))
