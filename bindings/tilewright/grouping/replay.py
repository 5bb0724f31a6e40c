"""The executed part of a grouping plan, replayed pixel by pixel for its pictures.

What is replayed is the program that the simulator executes, so a picture cannot disagree with a report.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.lowering import lower
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.simulator import Cells, Report

MAX_TELLING = 8
"""Most steps that are worth a drawing of their own."""
MAX_OUTLINED = 3
"""Largest groups whose patches are outlined one by one."""


class Pixel(IntEnum):
    """State of a pixel of the input plane, by importance: where many pixels share a dot, the largest wins."""

    NEVER = 0  # not loaded yet
    EARLIER = 1  # was on chip before this step, and was freed
    KEPT = 2  # stays on chip from the step before
    FREED = 3  # freed by this step
    LOADED = 4  # loaded by this step, for the first time
    AGAIN = 5  # loaded by this step, not for the first time


PIXELS = {
    Pixel.NEVER: ("not loaded yet", "#FFFFFF"),
    Pixel.EARLIER: ("loaded and freed earlier", "#E8E8E8"),
    Pixel.KEPT: ("kept", "#9ECAE9"),
    Pixel.FREED: ("freed", "#F7DC8B"),
    Pixel.LOADED: ("loaded", "#0072B2"),
    Pixel.AGAIN: ("loaded again", "#D55E00"),
}
"""What legends call the states of a pixel, and their colours."""


@dataclass(frozen=True)
class Scene:
    """One step on the input plane.

    Attributes
    ----------
    step
        Number of the step, from 0.
    group
        Its patches.
    plane : uint8, shape (H, W)
        State of each pixel of the padded input: a `Pixel`.
    """

    step: int
    group: NDArray[np.intp]
    plane: NDArray[np.uint8]

    @property
    def counts(self) -> NDArray[np.intp]:
        """How many pixels are in each state."""
        return np.bincount(self.plane.ravel(), minlength=len(Pixel))


@dataclass(frozen=True)
class Replay:
    """The executed part of a plan, pixel by pixel.

    Attributes
    ----------
    plane
        Height and width of the padded input.
    groups, loaded, freed
        Patches computed, pixels loaded and pixels freed by each step.
    reloaded
        How many of the loaded pixels were on chip before.
    held
        Pixels on chip while the step computes.
    """

    plane: tuple[int, int]
    groups: list[NDArray[np.intp]]
    loaded: list[NDArray[np.intp]]
    freed: list[NDArray[np.intp]]
    reloaded: NDArray[np.int64]
    held: NDArray[np.int64]

    @property
    def n_steps(self) -> int:
        """Number of steps that are replayed."""
        return len(self.groups)

    @property
    def outlined(self) -> bool:
        """Whether the groups are so small that each patch is outlined."""
        return max((len(group) for group in self.groups), default=0) <= MAX_OUTLINED

    @property
    def named_states(self) -> list[Pixel]:
        """States of a pixel that a legend names."""
        states = (Pixel.LOADED, Pixel.AGAIN, Pixel.KEPT, Pixel.FREED, Pixel.EARLIER)
        return [state for state in states if state != Pixel.AGAIN or self.reloaded.any()]

    def scenes(self, wanted: Iterable[int] | NDArray[np.intp]) -> Iterator[Scene]:
        """Yield the wanted steps in ascending order."""
        chosen = {int(step) for step in wanted}
        seen = np.zeros(self.plane[0] * self.plane[1], dtype=np.bool_)
        resident = np.zeros_like(seen)
        steps = zip(self.groups, self.loaded, self.freed, strict=True)
        for step, (group, loaded, freed) in enumerate(steps):
            if step in chosen:
                state = np.where(resident, Pixel.KEPT, np.where(seen, Pixel.EARLIER, Pixel.NEVER))
                state = state.astype(np.uint8)
                state[freed] = Pixel.FREED
                state[loaded] = np.where(seen[loaded], Pixel.AGAIN, Pixel.LOADED)
                yield Scene(step, group, state.reshape(self.plane))
            resident[freed] = False
            resident[loaded] = True
            seen[loaded] = True

    def telling_steps(self) -> dict[int, str]:
        """Choose the steps worth a drawing, with the reason where it is not their place in the order."""
        n = self.n_steps
        if n <= MAX_TELLING:
            return dict.fromkeys(range(n), "")
        loads = np.array([len(loaded) for loaded in self.loaded])
        later = loads[1:]
        reasons = [
            (0, ""),
            (1, ""),
            (
                int(np.flatnonzero(self.reloaded)[0]) if self.reloaded.any() else 0,
                "first pixels loaded again",
            ),
            (1 + int(later.argmax()), "most pixels loaded after step 1"),
            (1 + int(later.argmin()), "fewest pixels loaded"),
            (int(self.held.argmax()), "most pixels on chip"),
            (n - 1, ""),
        ]
        chosen: dict[int, str] = {}
        for step, reason in reasons:
            chosen.setdefault(step, reason)
        following = iter(range(2, n))
        while len(chosen) < MAX_TELLING:
            chosen.setdefault(next(following), "")
        return dict(sorted(chosen.items()))


def replay(problem: Problem, plan: Plan, report: Report) -> Replay:
    """Replay the program of a plan, as far as it was executed.

    Of a plan that could not be lowered, the steps before the one that prevented it are replayed.
    """
    groups = plan.groups
    violation = report.violation
    if violation is not None and violation.step:
        groups = groups[: violation.step - (not report.labels)]
    program = lower(problem, Plan(groups))
    n_held, seen = 0, np.zeros(problem.n_pixels, dtype=np.bool_)
    reloaded, held = np.zeros((2, len(groups)), dtype=np.int64)
    replayed = Replay(problem.layer.padded_plane, [], [], [], reloaded, held)
    for number, step in enumerate(program.steps[: len(groups)]):
        freed = _positions(action.region for action in step.free if action.tensor == "input")
        loaded = _positions(action.region for action in step.load if action.tensor == "input")
        replayed.groups.append(_positions(action.region for action in step.compute))
        replayed.loaded.append(loaded)
        replayed.freed.append(freed)
        n_held += len(loaded) - len(freed)
        held[number] = n_held
        reloaded[number] = seen[loaded].sum()
        seen[loaded] = True
    return replayed


def _positions(regions: Iterable[object]) -> NDArray[np.intp]:
    cells = [region.positions for region in regions if isinstance(region, Cells)]
    return np.concatenate(cells).astype(np.intp) if cells else np.empty(0, dtype=np.intp)


def patch_corners(problem: Problem, group: NDArray[np.intp]) -> list[tuple[int, int]]:
    """Return the upper left pixel of each patch of a group."""
    return [
        (row * problem.layer.stride[0], col * problem.layer.stride[1])
        for row, col in (problem.patch(int(index)) for index in group)
    ]


def extent(marked: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return the first and last row, and the first and last column, that have a marked cell."""
    spans = []
    for axis in (1, 0):
        lines = np.flatnonzero(marked.any(axis=axis))
        spans.append((int(lines[0]), int(lines[-1])) if lines.size else (0, 0))
    return spans
