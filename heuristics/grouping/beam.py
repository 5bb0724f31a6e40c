"""Beam search: plans grow patch by patch, side by side, and those that lose the fewest pixels survive.

The state of a growing plan is what has been computed and what is on chip. All that distinguishes its
price from the least possible are pixels that leave the memory while patches that need them remain, so
these are counted, and what threatens to become one: pixels of the previous group that the current one does
not cover yet, and to a lesser degree all pixels that have to be kept.

A group can keep a front of limited length on chip, so layers much wider than a group are cut into strips
that are grown one after the other. Strips somewhat wider than a group still lose next to nothing if they are
grown from a straight front in their middle, to one end forwards and to the other backwards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.heuristics.grouping import strips
from tilewright.heuristics.grouping._beam_kernel import BeamStyle
from tilewright.heuristics.grouping._measure import Group, best, max_pixels_by_size, near
from tilewright.heuristics.grouping._window import Window

STYLES: tuple[BeamStyle, ...] = (
    BeamStyle(open=0.85, patience=0.85, hold=0.01, crowd=0.5, noise=0.01, price=100.0, pull=0.0),
    BeamStyle(open=0.85, patience=0.9, hold=0.05, crowd=0.5, noise=0.1, price=100.0, pull=0.15),
    BeamStyle(open=0.7, patience=0.95, hold=0.015, crowd=1.0, noise=0.1, price=100.0, pull=0.02),
    BeamStyle(open=0.3, patience=0.8, hold=0.2, crowd=0.0, noise=0.01, price=100.0, pull=0.0),
    BeamStyle(open=0.5, patience=0.8, hold=0.003, crowd=1.0, noise=0.1, price=100.0, pull=0.004),
    BeamStyle(open=0.5, patience=0.9, hold=0.03, crowd=1.0, noise=0.01, price=100.0, pull=0.0),
    BeamStyle(open=0.5, patience=0.8, hold=0.1, crowd=0.0, noise=0.01, price=100.0, pull=0.0),
)
"""Tastes that did well on many layers, the most reliable first."""

SLOW = True
"""On large layers this takes seconds: the others go first."""

WIDTH = 25
"""Plans kept side by side: a further taste helps more than width."""

WORK = 3e9
"""Bytes that all searches together may move, in one or two seconds."""


def plan(problem: Problem) -> Plan:
    """Grow plans for the whole layer and strip by strip; return the best.

    Where even one taste would take too long, the answer is that of `strips`.
    """
    plans = [strips.plan(problem)]
    close, max_pixels = near(problem), max_pixels_by_size(problem)
    cuts = ways_to_cut(problem)
    affordable = WORK / sum(work(problem, count) for count, _ in cuts)
    tastes = STYLES[: int(affordable / WIDTH)]
    width = max(WIDTH, int(min(200, affordable / len(STYLES))))
    for count, lying in cuts if tastes else []:
        start = middle(problem, count, lying)
        n_steps = plans[0].n_steps
        way = Strips(problem, close, max_pixels, count, lying, n_steps, width, tastes, 0, start)
        groups = way.grow()
        if groups is not None:
            plans.append(Plan.from_groups(problem, groups))
    chosen: Plan = best(problem, plans)
    return chosen


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    plan(bundled("s1-example2"))


def ways_to_cut(problem: Problem) -> list[tuple[int, bool]]:
    """Return the numbers of strips to try, upright and, unless that is the same, lying ones.

    A strip has the width w of a group (g patches) or more. Its front moves at both borders with every step,
    so that no pixels are lost there, and in L steps it falls behind by ``(w - g) * L`` patches between them.
    It can be ahead by ``w * s / 2`` at first and behind by as much at last, if its length of w + s is no more
    than what a group keeps on chip, c * g for some c that grows with the kernel.
    """
    layer = problem.layer
    height, width = problem.grid
    mirrored = height == width and all(
        first == second
        for first, second in (
            layer.kernel,
            layer.stride,
            layer.dilation,
            (layer.padding[:2], layer.padding[2:]),
        )
    )
    found = []
    for lying in (False,) if mirrored else (False, True):
        length, across = (width, height) if lying else (height, width)
        size = problem.group_size
        sum_ = length - (max(layer.kernel) + 3) / 2 * size
        widest = (math.sqrt(sum_**2 + 4 * size * length) - sum_) / 2
        # The whole plane is the same upright and lying.
        fewest = max(int(across / widest), 2 if lying else 1)
        found += [(count, lying) for count in range(fewest, -(-across // size) + 1)]
    return found


def middle(problem: Problem, count: int, lying: bool) -> float:
    """Return where in a strip to begin: in the middle if strips are wider than a group, else at its end."""
    across = problem.grid[0 if lying else 1]
    return 0.5 if count * problem.group_size < across else 0.0


def work(problem: Problem, count: int) -> float:
    """Estimate the bytes that growing a plan in `count` strips moves per plan kept."""
    patches, pixels = problem.n_patches / count, problem.n_pixels / count
    candidates = 500 * problem.layer.kernel[0] * problem.layer.kernel[1]
    return problem.n_patches * (patches + 3 * pixels + candidates)


@dataclass(frozen=True)
class Strips:
    """How a plan is grown strip by strip.

    Attributes
    ----------
    close, max_pixels
        `near` and `max_pixels_by_size` of the problem.
    count, lying
        Number of strips; whether they lie along the rows. A strip ends where a group is full, not at a
        straight line.
    n_steps
        Number of steps.
    width, styles, seed
        See `_beam_kernel`; each part of a strip is the best that any of the tastes finds.
    middle
        Where in a strip growing begins, see `_grow_strip`.
    """

    problem: Problem
    close: NDArray[np.int32]
    max_pixels: NDArray[np.int32]
    count: int
    lying: bool
    n_steps: int
    width: int
    styles: Sequence[BeamStyle]
    seed: int
    middle: float

    def grow(self) -> list[Group] | None:
        """Return a plan; None if the search died."""
        problem, table = self.problem, self.problem.patch_pixels
        order, ends = self._cut()
        loads = np.zeros(problem.n_pixels + 1, np.int64)  # the last entry answers for -1
        groups: list[Group] = []
        for number, ((begin, end), n_steps) in enumerate(ends):
            if begin == end:
                continue
            strip = order[begin:end]
            # Along the strip, down the first and up the next.
            row, col = np.divmod(strip, problem.grid[1])
            keys = (row, col) if self.lying else (col, row)
            strip = strip[np.lexsort(keys)][:: -1 if number % 2 else 1]
            before = groups[-1] if groups else None
            # What later strips need again, they will load again.
            later = np.unique(table[order[end:]])
            loads[later] += 1
            part = self._grow_strip(strip, before, loads, n_steps)
            loads[later] -= 1
            if part is None:
                return None
            window = Window.of(problem, self.close, strip, before)
            loads[window.known] += window.starts(part)
            groups += part
        return groups

    def _cut(self) -> tuple[Group, list[tuple[tuple[int, int], int]]]:
        """Return all patches, strip after strip, and for each strip its first, its last and its steps."""
        grid = self.problem.grid
        numbers = np.arange(self.problem.n_patches).reshape(grid)
        order = (numbers if self.lying else numbers.T).ravel()
        lines, length = grid if self.lying else grid[::-1]
        size = len(order) / self.n_steps
        firsts = [round(round(i * lines / self.count) * length / size) for i in range(self.count)]
        pairs = list(pairwise([*firsts, self.n_steps]))
        cuts = [tuple(min(len(order), round(step * size)) for step in pair) for pair in pairs]
        return order, [
            ((begin, end), last - first) for (begin, end), (first, last) in zip(cuts, pairs, strict=True)
        ]

    def _grow_strip(
        self, strip: Group, before: Group | None, loads: NDArray[np.int64], n_steps: int
    ) -> list[Group] | None:
        """Grow a strip from a straight front across its middle: what follows forwards, the rest backwards.

        A plan read backwards costs the same. A front that moves at both borders of a strip with every step,
        so that no pixel there is lost, falls behind between them if the strip is wider than a group. It gets
        longer by that, until a group cannot keep it on chip; begun straight in the middle, that takes twice
        as many steps.
        """
        n_first = int(self.middle * n_steps)
        cut = round(n_first * len(strip) / n_steps)
        head, tail = strip[:cut], strip[cut:]
        groups: list[Group] = []
        for patches, steps, chip, after in (
            (tail, n_steps - n_first, head if cut else before, None),
            (head[::-1], n_first, None, before),
        ):
            if steps == 0:
                continue
            if chip is None and groups:
                chip = groups[0]
            window = Window.of(self.problem, self.close, patches, chip, after)
            window.loads = loads[window.known]
            if cut:
                # What both parts hold is loaded once, and so is what stays on chip from strip to strip.
                window.loads = window.loads + window.before - window.after
            most = self.problem.max_loads
            part = window.grow(self.max_pixels, steps, most, self.width, self.styles, self.seed)
            if part is None:
                return None
            groups = part if patches is tail else part[::-1] + groups
        return groups
