"""A layer and its plan as the C printer sees them: what is moved when, and the sizes by their names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tilewright.codegen.c_text import for_loop, multiply_terms
from tilewright.codegen.loop_nest.names import AXES, FALLBACK, IN_COL, IN_ROW, NAMES, ArrayAxis
from tilewright.codegen.loop_nest.types import CType, CTypes
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp.kind import violation
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import G, K, N, Nest, X, Y, nest_of
from tilewright.tiling.dsp.plan import LOOPS, DspPlan
from tilewright.tiling.dsp.traffic import RELEVANT, Tiles


class Transfers(NamedTuple):
    """Calls and elements of one kind of transfer."""

    calls: int
    elements: int


class PlannedLayer:
    """The plan of one layer, read for the C printer; methods take a loop or an axis and return C expressions.

    Attributes
    ----------
    name
        Of the function.
    labels
        Names of the layers that it runs, for the comment.
    step, trips
        Of the tile loops, by `Loop`.
    order
        Tile loops of several iterations, outermost first.
    generated
        Whether the zeros of the padding are made on chip.
    types
        Of elements in C.
    in_vectors
        Whether the loops within a tile are in vectors, as the file says that has the layer.
    widens
        Whether the output buffer holds sums, which are wider than outputs.
    """

    def __init__(self, problem: Any, plan: DspPlan, name: str, labels: Sequence[str]) -> None:
        broken = violation(problem, plan)
        if broken is not None:
            raise InputError("plan", plan.schedule, broken)
        self.name, self.labels, self.plan = name, labels, plan
        self.layer: Layer = problem.one_layer
        self.machine: DspMachine = problem.machine
        self.nest: Nest = nest_of(self.layer, self.machine)
        self.step, self.trips = self.nest.step(plan.tile), self.nest.trips(plan.tile)
        self.order = [d for d in map(LOOPS.index, "g" + plan.order) if self.trips[d] > 1]
        self.generated = self.machine.padding == "generated" and any(self.layer.padding)
        self.types = CTypes.of(self.machine)
        self.in_vectors = False
        self.widens = self.trips[K] > 1 and self.types.sums.bits > self.types.output.bits

    @cached_property
    def level(self) -> dict[str, int]:
        """How many tile loops are around an operand's transfers."""
        if self.plan.reuse == "none":
            return dict.fromkeys(AXES, len(self.order))
        return {
            operand: max((i + 1 for i, d in enumerate(self.order) if d in RELEVANT[operand]), default=0)
            for operand in AXES
        }

    @cached_property
    def halo(self) -> int | None:
        """The axis along which neighbours share input that stays on chip."""
        level = self.level["input"]
        axis = self.order[level - 1] if level and self.plan.reuse == "halo" else None
        if axis not in (Y, X):
            return None
        side = axis - Y
        return axis if self.layer.kernel_extent[side] > self.layer.stride[side] else None

    @cached_property
    def partial(self) -> bool:
        """Whether partial sums leave the chip and return."""
        return K in self.order[: self.level["output"]]

    @cached_property
    def buffer_types(self) -> dict[str, CType]:
        """The types of what the buffers hold."""
        outputs = self.types.sums if self.widens else self.types.output
        return {"input": self.types.input, "kernels": self.types.kernels, "output": outputs}

    @property
    def sums_leave(self) -> bool:
        """Whether there is a tensor of partial sums beside the outputs."""
        return self.widens and self.partial

    @cached_property
    def transfers(self) -> dict[str, Transfers]:
        """What the schedule moves, by the closed forms."""
        steps = tuple(np.array([step]) for step in self.step)
        traffic, units = Tiles(self.nest, steps).traffic(self.plan.order, self.plan.reuse), self.machine.units
        sums = int(traffic.partial[0]) // units.partial
        calls = {operand: prod(self.trips[d] for d in self.order[: self.level[operand]]) for operand in AXES}
        gets = calls["input"]
        if self.halo is not None:
            moves = int(np.count_nonzero(self.nest.axis(self.halo, self.step[self.halo]).new))
            gets = gets // self.trips[self.halo] * moves
        puts = calls["output"]
        again = puts - puts // self.trips[K] if self.partial else 0
        return {
            "get in": Transfers(gets, int(traffic.input[0]) // units.input),
            "get w": Transfers(calls["kernels"], int(traffic.kernels[0]) // units.kernels),
            "get out": Transfers(again, sums),
            "put out": Transfers(puts, sums + self.nest.n_outputs),
        }

    @cached_property
    def sizes(self) -> dict[str, int]:
        """Every size by its name in C."""
        layer, nest = self.layer, self.nest
        sizes = {NAMES[d].size: size for d, size in enumerate(nest.sizes)}
        sizes |= {NAMES[d].step: step for d, step in enumerate(self.step)}
        plane = layer.input[1:] if self.generated else layer.padded_plane
        for d, letter, size, kernel in zip((Y, X), "yx", plane, layer.kernel, strict=True):
            sizes |= {f"I_{letter}": size, f"K_{letter}": kernel}
            sizes[f"TI_{letter}"] = nest.extent(d, self.step[d])
        return sizes

    @cached_property
    def axes(self) -> dict[str, list[ArrayAxis]]:
        """The axes of each operand that have more than one element, on chip or in external memory."""
        return {
            operand: [a for a in axes if max(self.sizes[a.whole], self.sizes[a.part]) > 1]
            or [FALLBACK[operand]]
            for operand, axes in AXES.items()
        }

    def ragged(self, d: int) -> bool:
        """Whether the last tile of a loop is smaller."""
        return self.nest.sizes[d] % self.step[d] > 0

    def count(self, d: int) -> str:
        """Return the iterations within the current tile."""
        return NAMES[d].edge if self.ragged(d) else NAMES[d].step

    def stride(self, d: int) -> str:
        """Return the stride in Y or X, as an expression."""
        return "1" if self.layer.stride[d - Y] == 1 else f"S_{'yx'[d - Y]}"

    def extent(self, d: int) -> str:
        """Return what a kernel spans, as an expression."""
        letter = "yx"[d - Y]
        if self.layer.kernel[d - Y] == 1:
            return "1"
        if self.layer.dilation[d - Y] == 1:
            return f"K_{letter}"
        return f"(K_{letter} - 1) * D_{letter} + 1"

    def under(self, d: int, outputs: str) -> str:
        """Input rows or columns under some outputs, as an expression."""
        if self.nest.sizes[d] == 1:
            return self.extent(d)
        first = outputs if self.stride(d) == "1" else f"({outputs} - 1) * {self.stride(d)} + 1"
        extent = self.extent(d)
        if extent == "1":
            return first
        rest = extent[: -len(" + 1")] if extent.endswith(" + 1") else f"{extent} - 1"
        if first.endswith(" + 1"):
            return f"{first[: -len(' + 1')]} + {extent}"
        return f"{first} + {rest}"

    def in_count(self, d: int) -> str:
        """Input rows or columns under the current tile."""
        if self.ragged(d):
            return ("in_rows", "in_cols")[d - Y]
        return f"TI_{'yx'[d - Y]}"

    def clips(self, d: int) -> tuple[bool, bool]:
        """Whether tiles reach over the first, and over the last, row or column of the input."""
        if not self.generated:
            return False, False
        side = d - Y
        before = self.layer.padding[2 * side]
        stop = (self.nest.sizes[d] - 1) * self.layer.stride[side] + self.layer.kernel_extent[side]
        return before > 0, stop > before + self.layer.input[1 + side]

    def origin(self, d: int) -> str:
        """First input row or column under the current tile, as an expression; padding may come first."""
        moved = multiply_terms(NAMES[d].loop, self.stride(d)) if d in self.order else "0"
        if self.clips(d)[0]:
            return f"{moved} - P_{'yx'[d - Y]}" if moved != "0" else f"-P_{'yx'[d - Y]}"
        return moved

    def first(self, axis: ArrayAxis) -> str:
        """Where the current tile begins in external memory."""
        d = axis.loop
        if d is None or d not in self.order:
            return "0"
        return NAMES[d].loop

    def inner(self, axis: ArrayAxis) -> str:
        """Where the loops within a tile are on an axis."""
        if axis.loop is None:
            return axis.whole.lower() if self.sizes[axis.whole] > 1 else "0"
        return NAMES[axis.loop].inner if self.step[axis.loop] > 1 else "0"

    def in_index(self, row: str, col: str) -> str:
        """Return the index of an element of the input buffer."""
        plane = {IN_ROW: row, IN_COL: col}
        return "".join(f"[{plane.get(a) or self.inner(a)}]" for a in self.axes["input"])

    def outer_loops(self) -> list[str]:
        """Return the loops over the images, groups and maps of the input buffer."""
        return [for_loop(NAMES[d].inner, self.count(d)) for d in (N, G, K) if self.step[d] > 1]

    def plane_loops(self) -> list[tuple[int, str, str]]:
        """Return axis, variable and iterations of the loops over the rows and columns of the input buffer."""
        return [
            (d, "yx"[d - Y], self.in_count(d))
            for axis, d in ((IN_ROW, Y), (IN_COL, X))
            if axis in self.axes["input"] and self.sizes[axis.part] > 1
        ]
