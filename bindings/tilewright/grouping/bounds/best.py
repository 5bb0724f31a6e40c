"""Proven lower bounds on the loads of any grouping plan; the proofs are in docs/bounds.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bounds import Bound
from tilewright.grouping.bounds.excess_loads import ExcessTheorem, known_theorems, plain_kernel
from tilewright.grouping.bounds.window_overlap import MOST_FREE, WindowOverlaps, window_ends
from tilewright.grouping.problem import Problem

MAX_WORK = 100_000_000
"""Most entries of tables that `best_bound` computes: under a second. Large groups need no windows."""


@dataclass(frozen=True)
class LoadBound(Bound):
    """A lower bound that holds for every valid plan, and the pixel loads that it follows from.

    `name` is the argument: ``compulsory``, ``windows``, ``seams``, ``crossing``, ``surplus`` or ``ring``.

    Attributes
    ----------
    loads
        Fewest pixel loads.
    parameters
        What is needed to recompute it.
    """

    loads: int = 0
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(f"{key} {value}" for key, value in self.parameters.items())
        text = f"{self.name} bound: at least {self.loads} pixel loads" + (f" ({shown})" if shown else "")
        return text if self.impossible is None else f"{text}; {self.impossible}"


def best_bound(problem: Problem) -> LoadBound:
    """Return the strongest bound of this module."""
    trivial = compulsory(problem)
    if problem.group_size * problem.n_patches > MAX_WORK:
        return trivial
    facts = _Facts.of(problem)
    most = problem.n_patches // facts.group
    work = 0
    # Every count gives a valid bound: try a coarse grid, then refine around its best.
    tried: dict[int, LoadBound] = {}

    def try_counts(counts: list[int]) -> int:
        nonlocal work
        for count in counts:
            if 2 <= count <= most and count not in tried and work < MAX_WORK:
                work += count * facts.group**2
                tried[count] = windows(problem, count, facts)
        return max(tried, key=lambda count: tried[count].value, default=0)

    best = try_counts(sorted({round(2 * 1.5**i) for i in range(32)}))
    reach = best // 3
    while reach:
        best = try_counts([best - reach, best + reach])
        reach //= 2
    others = [crossing(problem, facts.group), excess_loads(problem, facts.group), ring(problem, facts)]
    # With overlaps, a few windows more may be better than without.
    for count in range(best, min(most, best + max(3, best // 4)) + 1):
        if best and work < MAX_WORK:
            work += count * facts.group**2 * (facts.group + MOST_FREE) ** 2
            others.append(window_overlap(problem, count, facts))
    found = [trivial, *(bound for bound in others if bound), *tried.values()]
    return max(found, key=lambda bound: bound.value)


def compulsory(problem: Problem) -> LoadBound:
    """Every pixel that some patch needs is loaded at least once."""
    return _bound(problem, "compulsory", len(problem.needed_pixels), {})


def windows(problem: Problem, count: int, facts: _Facts | None = None) -> LoadBound:
    """Cut the sequence of steps into `count` windows; each but the first inherits at most one group.

    The patches S of a window and the group A before it need ``|N(S u A)|`` pixels together, of which
    only ``|N(A)|`` can be on chip when the window starts (docs/bounds.md, theorem 2). Windows end with
    the first step that completes a given number of patches, so a window's size is known up to a group;
    dynamic programming finds the worst case.

    Parameters
    ----------
    count
        Number of windows, at least 2 and at most ``n_patches // group_size``.
    facts
        What `best_bound` computes once for all counts.
    """
    facts = facts or _Facts.of(problem)
    total = problem.n_patches
    ends, best = np.array([0]), np.array([0])
    for i, reach in enumerate(window_ends(total, count, facts.group)):
        length = np.maximum(reach[None, :] - ends[:, None], 0)
        loads = (facts.later if i else facts.first)[length]
        ends, best = reach, (best[:, None] + loads).min(axis=0)
    return _bound(problem, "windows", int(best[-1]), {"windows": count})


def window_overlap(problem: Problem, count: int, facts: _Facts | None = None) -> LoadBound | None:
    """Cut the steps into windows, and count what the group between two of them costs both (``seams``).

    The last group of a window, which the next window inherits, belongs to both. If its patches are spread, so
    that it holds many pixels, they enclose places that only one of the windows can have, and the other one
    has a longer border for as many patches (docs/bounds.md, theorem 2b).

    Parameters
    ----------
    count
        Number of windows, at least 2 and at most ``n_patches // group_size``.
    facts
        What `best_bound` computes once for all counts.

    Returns
    -------
    Bound or None
        None where the proof does not hold.
    """
    facts = facts or _Facts.of(problem)
    if facts.overlaps is None:
        return None
    loads = facts.overlaps.fewest_loads(problem.n_patches, count, facts.group)
    return _bound(problem, "seams", loads, {"windows": count})


def crossing(problem: Problem, group: int | None = None) -> LoadBound:
    """When the first line of patches is done, all lines across it have begun, and most are not in the group.

    Let a column be the first line that is done. Then some row of pixels is not touched in that step if
    the group's patches, in ``H_K`` rows of pixels each, are too few for all rows. In a row that is not
    touched, patches that are done and patches to come stand beside each other, and the pixels they share
    are loaded again (docs/bounds.md, theorem 3). The same holds for a row; the weaker one counts.

    Parameters
    ----------
    group
        Most patches of a group, computed if not given.
    """
    group = group or largest_group(problem, fewest_pixels(problem))
    rows, shared_h = _lines(problem, columns=False)
    cols, shared_w = _lines(problem, columns=True)
    untouched = [_untouched(lines, group) for lines in (rows, cols)]
    extra = min(untouched[0] * shared_w, untouched[1] * shared_h)
    parameters = {"rows": untouched[0], "columns": untouched[1]}
    return _bound(problem, "crossing", len(problem.needed_pixels) + extra, parameters)


def excess_loads(problem: Problem, group: int | None = None) -> LoadBound | None:
    """Count the pixels that each step of a small group loads beyond its patches (``surplus``; theorem 4).

    Parameters
    ----------
    group
        Most patches of a group, computed if not given.

    Returns
    -------
    Bound or None
        None where no theorem is known for the kernel and the size of groups.
    """
    group = group or largest_group(problem, fewest_pixels(problem))
    found = _excess_loads(problem, group, _fewest_steps(problem))
    if found is None:
        return None
    loads, theorem = found
    return _bound(problem, "surplus", loads, {"rate": theorem.rate, "least": theorem.least})


def _excess_loads(problem: Problem, group: int, steps: int) -> tuple[int, ExcessTheorem] | None:
    """Return the fewest loads of plans with at least `steps` steps, and the theorem that they rest on."""
    found = [
        (ceil(problem.n_patches + theorem.rate * steps + theorem.least), theorem)
        for theorem in known_theorems(problem, group)
    ]
    return max(found, key=lambda pair: pair[0], default=None)


def with_more_steps(problem: Problem, steps: int) -> int | None:
    """Bound the objective of plans with at least `steps` steps; return None if no such plan is allowed.

    Each further step costs time, and small groups load more (docs/bounds.md, theorem 4).
    """
    if steps > problem.steps_range[1]:
        return None
    found = _excess_loads(problem, largest_group(problem, fewest_pixels(problem)), steps)
    return problem.cost(max(best_bound(problem).loads, found[0] if found else 0), steps)


def ring(problem: Problem, facts: _Facts | None = None) -> LoadBound | None:
    """While the border is partly done, a step with fewer than two of its patches loads pixels again.

    A border patch that is done and its neighbour that is not share K - 1 pixels of the outermost line, which
    only border patches can hold. There are at least two such places until nearly all of the border is done,
    and it has too few patches for all steps. In the steps before and after that, the patches done, or the
    patches left, are away from the border, and soon more pixels wait for other patches than a group can hold
    (docs/bounds.md,
    theorem 5).

    Parameters
    ----------
    facts
        What `best_bound` computes once for all bounds.

    Returns
    -------
    Bound or None
        None where the proof does not hold or gives no more than compulsory loads.
    """
    kernel = plain_kernel(problem)
    if kernel is None or kernel < 2 or min(problem.grid) < 2 * kernel:
        return None
    facts = facts or _Facts.of(problem)
    around = 2 * sum(problem.grid) - 4
    if facts.group * (around // 2) >= problem.n_patches:
        # The border has enough patches for all steps.
        return None
    waiting = fewest_waiting(problem, facts.first, facts.group)
    # Number of border patches done early, or late; and pixels at the edges that need no other patches then.
    done = np.arange(2 * kernel - 2)
    closed = (done + 1) ** 2 // 4

    def most_patches(extra: int) -> int:
        """Return a limit on the patches of plans that load no more than `extra` pixels again."""
        lost = extra // (kernel - 1)
        missing = lost * (extra + lost * (kernel - 1))
        early = np.searchsorted(waiting, extra + closed, side="right") - 1
        between = (around + missing - done[:, None] - done) // 2
        return int((early[:, None] + early + facts.group * between).max())

    extra, limit = 0, min(3, kernel) * (kernel - 1)
    while extra < limit and most_patches(extra) < problem.n_patches:
        extra += 1
    loads = len(problem.needed_pixels) + extra
    return _bound(problem, "ring", loads, {"ring": around}) if extra else None


def _lines(problem: Problem, columns: bool) -> tuple[NDArray[np.int64], int]:
    """Return the rows (or columns) of pixels of each row of patches, and how many two neighbours share.

    The first has shape ``(outputs, kernel)``; -1 stands for padding that is generated. The second is the
    least number of any two neighbours, 0 where there is one line only.
    """
    layer, axis = problem.layer, int(columns)
    positions = layer.positions(columns)
    if problem.machine.padding == "generated":
        before = layer.padding[2 * axis]
        real = (positions >= before) & (positions < before + layer.input[axis + 1])
        positions = np.where(real, positions, -1)
    apart, rest = divmod(layer.stride[axis], layer.dilation[axis])
    if rest or len(positions) == 1:
        return positions, 0
    # Tap k + apart of a line stands where tap k of the next one does.
    return positions, int((positions[:-1, apart:] >= 0).sum(axis=1).min())


def _untouched(lines: NDArray[np.int64], group: int) -> int:
    """Return the fewest of the needed rows of pixels that a group leaves untouched."""
    needed = np.unique(lines[lines >= 0])
    return max(0, len(needed) - group * int((lines >= 0).sum(axis=1).max()))


@dataclass(frozen=True)
class _Facts:
    """What the bounds of a problem share.

    Attributes
    ----------
    group
        Most patches of a group that are allowed and fit into the memory.
    first, later : int, shape (n_patches + 1,)
        Fewest loads of a window of m patches: of the first one, and of one that inherits a group.
    overlaps
        What windows share with the groups between them; None where that is not known.
    """

    group: int
    first: NDArray[np.int64]
    later: NDArray[np.int64]
    overlaps: WindowOverlaps | None

    @classmethod
    def of(cls, problem: Problem) -> _Facts:
        total = problem.n_patches
        fewest, most = fewest_pixels(problem), most_pixels(problem)
        group = largest_group(problem, fewest)
        m = np.arange(total + 1)
        later = np.full(total + 1, np.iinfo(np.int64).max)
        for inherited in range(1, group + 1):
            together = fewest[np.minimum(m + inherited, total)]
            later = np.minimum(later, np.maximum(together - most[inherited], 0))
        later[0] = 0
        return cls(group, fewest, later, WindowOverlaps.of(problem, fewest, most[: group + 1]))


def largest_group(problem: Problem, fewest: NDArray[np.int64]) -> int:
    """Return the most patches that fit on chip together: m of them need ``fewest[m]`` pixels at least."""
    fits = np.flatnonzero(fewest[: problem.group_size + 1] <= problem.max_pixels_by_size)
    return max(1, int(fits.max(initial=1)))


@lru_cache(maxsize=4)
def fewest_pixels(problem: Problem) -> NDArray[np.int64]:
    """Return the fewest pixels that any m patches need, for m = 0 .. n_patches (docs/bounds.md, lemma 1).

    All bounds of a problem ask for it; the array is the same one each time and must not be changed.

    If the patches stand in r rows and c columns of the patch grid, r * c >= m, then a row with t of them
    covers at least ``step * t + rest`` pixel columns, and the same holds for columns.
    """
    layer = problem.layer
    sides = []
    for i in range(2):
        padding, size = 0, layer.padded_plane[i]
        if problem.machine.padding == "generated":
            size = layer.input[i + 1]
            before = layer.padding[2 * i]
            reach = (problem.grid[i] - 1) * layer.stride[i] + layer.kernel_extent[i]
            padding = before + max(0, reach - before - size)
        line = _line(layer.kernel[i], layer.stride[i], layer.dilation[i], padding)
        sides.append((problem.grid[i], size, *line))
    # Rows and columns may change places; a loop over the fewer ones is short.
    (rows, _, step_h, rest_h), (cols, width, step_w, rest_w) = sorted(sides, key=lambda side: side[0])
    m = np.arange(problem.n_patches + 1, dtype=np.int64)
    fewest = np.full(len(m), np.iinfo(np.int64).max)
    for r in range(1, rows + 1):
        few = m[r : r * cols + 1]  # Each row has a patch, and no row more than it has places.
        columns = step_w * -(-few // r) + rest_w if rest_h >= 0 else width
        pixels = step_h * (step_w * few + rest_w * r) + rest_h * columns
        np.minimum(fewest[r : r * cols + 1], pixels, out=fewest[r : r * cols + 1])
    fewest[0] = 0
    # More patches never need fewer pixels, which also mends the slack of generated padding.
    fewest = np.maximum.accumulate(np.maximum(fewest, 0))
    fewest.flags.writeable = False
    return fewest


def fewest_waiting(problem: Problem, fewest: NDArray[np.int64], group: int) -> NDArray[np.int64]:
    """Return the fewest pixels off chip that wait in a step after which m patches or more are done.

    A pixel waits if it is needed by a patch that is done after the step and by one that was not before it.
    Pixels near the edges of the plane, which fewer than K x K patches need, may wait no longer; these are
    left to the caller (docs/bounds.md, theorem 5).

    Parameters
    ----------
    fewest
        `fewest_pixels` of the problem.
    group
        Most patches of a group.
    """
    most = most_pixels(problem)
    closed = np.searchsorted(fewest, np.arange(len(fewest)), side="right") - 1
    waiting = np.full(len(fewest), np.iinfo(np.int64).max)
    waiting[0] = 0
    for a in range(1, group + 1):
        waiting[a:] = np.minimum(waiting[a:], fewest[a:] - closed[:-a] - most[a])
    return np.minimum.accumulate(waiting[::-1])[::-1]


def _line(kernel: int, stride: int, dilation: int, padding: int) -> tuple[int, int]:
    """Return (step, rest): t patches of a line cover at least ``step * t + rest`` real pixels of it."""
    step = min(stride, kernel) if dilation == 1 else 1
    return step, kernel - step - padding


def most_pixels(problem: Problem) -> NDArray[np.int64]:
    """Return the most pixels on chip after a step of m patches, for m = 0 .. group_size."""
    return np.minimum(
        problem.max_pixels_by_size, np.arange(problem.group_size + 1) * int(problem.patch_sizes.max())
    )


def _bound(problem: Problem, name: str, loads: int, parameters: dict[str, Any]) -> LoadBound:
    needed, most = _fewest_steps(problem), problem.steps_range[1]
    impossible = None
    if needed > most:
        impossible = f"the memory asks for at least {needed} steps, {most} are allowed"
    elif loads > problem.max_loads * len(problem.needed_pixels):
        allowed = f"{problem.max_loads} for each of {len(problem.needed_pixels)} pixels"
        impossible = f"the limit on loads allows {allowed}"
    return LoadBound(name, problem.cost(loads, needed), needed, impossible, loads, parameters)


def _fewest_steps(problem: Problem) -> int:
    """Return the fewest steps that the limits and the memory leave."""
    fewest, _ = problem.steps_range
    if problem.machine.memory is None:
        return fewest
    return max(fewest, -(-problem.n_patches // largest_group(problem, fewest_pixels(problem))))
