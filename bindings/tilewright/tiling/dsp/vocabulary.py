"""What constraints of a layer on a DSP can speak of: its tile, the order of its loops, buffers and costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.spec.constraints import Names, Word
from tilewright.tiling.dsp import cost
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.nest import K, Nest, X, Y, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan, DspTile
from tilewright.tiling.machine_kind import LayerProblem

AXES = DspTile._fields
"""What the loops run over, in the order of `LOOPS`."""

OPERANDS = Names("operands", ("input", "weights", "output"))

BUFFERS = {"input": "input", "weights": "kernels", "output": "output"}
"""What the nest calls the buffer of each operand."""

OF_TILES = ("iterations", "elements", "contiguous_bytes", *(f"tile.{axis}" for axis in AXES))
"""Words that depend on the tile alone, where no weights stay for good."""


@dataclass(frozen=True)
class Tiling:
    """A plan as the words see it; its steps may be arrays, of many tiles at a time."""

    nest: Nest
    step: tuple[Any, ...]
    reuse: str = "halo"
    plan: DspPlan | None = None

    @classmethod
    def of(cls, nest: Nest, plan: DspPlan) -> Tiling:
        """Return a plan as the words see it: with the steps that its loops take."""
        return cls(nest, nest.step(plan.tile), plan.reuse, plan)

    @cached_property
    def costs(self) -> dict[str, int]:
        """Everything that the plan costs."""
        assert self.plan is not None
        names = ("accesses", "cycles", "energy", "memory")
        found = cost.measures(self.nest, self.plan, names, local_traffic(self.nest))
        return dict(zip(names, found, strict=True))

    def iterations(self, axis: str) -> Any:
        """Return the iterations of a loop."""
        d = AXES.index(axis)
        return -(-self.nest.sizes[d] // self.step[d])

    def elements(self, operand: str) -> Any:
        """Return the elements of one copy of a buffer (equations 5.3 to 5.5)."""
        return self.nest.buffers(self.step, self.reuse)[BUFFERS[operand]]

    def contiguous_bytes(self, operand: str) -> Any:
        """Return the bytes that follow each other in external memory, of a full tile inside the plane."""
        nest, (g, _, c, y, x, k) = self.nest, self.step
        bits = nest.machine.operand_bits
        if operand == "weights":
            run = np.where(k == nest.sizes[K], k * c, k) * nest.window
            return run * bits.weights // 8
        if operand == "input":
            plane = nest.layer.input[1:]
            sides = tuple(
                np.minimum(nest.extent(axis, step), length)
                for axis, step, length in zip((Y, X), (y, x), plane, strict=True)
            )
            return _run((g * k, *sides), (nest.layer.input[0], *plane)) * bits.input // 8
        return _run((g * c, y, x), nest.layer.output_shape[1:]) * bits.output // 8

    def outside(self, outer: str, inner: str) -> bool:
        """Whether a loop runs outside another, both in several iterations."""
        if "groups" in (outer, inner):
            found = outer == "groups" != inner
        else:
            assert self.plan is not None
            places = [self.plan.order.index(LOOPS[AXES.index(axis)]) for axis in (outer, inner)]
            found = places[0] < places[1]
        return found and all(self.iterations(axis) > 1 for axis in (outer, inner))


def _run(part: tuple[Any, ...], whole: tuple[int, ...]) -> Any:
    """Return how many elements of a block of maps, rows and columns follow each other."""
    maps, rows, columns = part
    run = np.where(columns == whole[2], columns * rows, columns)
    return np.where((columns == whole[2]) & (rows == whole[1]), run * maps, run)


def words(problem: LayerProblem) -> list[Word]:
    """Return the words of a layer on a DSP."""
    machine = problem.machine
    loops = Names("loops", AXES)

    def size(number: int, axis: str) -> Word:
        said = f"{axis.replace('_', ' ')} of a tile, as its loop takes them"
        return Word(f"tile.{axis}", said, lambda seen: seen.step[number])

    return [
        *(size(number, axis) for number, axis in enumerate(AXES)),
        Word("iterations", "iterations of a loop over tiles", Tiling.iterations, (loops,)),
        Word(
            "outside",
            "whether a loop runs outside another, both in several iterations",
            Tiling.outside,
            (loops, loops),
            gives="truth",
        ),
        Word("elements", "elements of one copy of a buffer", Tiling.elements, (OPERANDS,), "elements"),
        Word(
            "contiguous_bytes",
            "bytes of a full tile that follow each other in external memory",
            Tiling.contiguous_bytes,
            (OPERANDS,),
            "bytes",
        ),
        *(
            Word(name, f"{name} of the layer", lambda seen, name=name: seen.costs[name], unit=unit)
            for name, unit in (
                ("accesses", machine.unit),
                ("cycles", "cycles"),
                ("energy", "fJ"),
                ("memory", machine.unit),
            )
        ),
    ]


def view(problem: LayerProblem, plan: DspPlan) -> Tiling:
    """Return a plan as the words see it."""
    return Tiling.of(nest_of(problem.one_layer, problem.machine), plan)
