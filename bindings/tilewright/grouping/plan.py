"""A grouping plan: which patches each step computes, and when outputs are written back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping.problem import Problem
from tilewright.spec.errors import InputError

Patch = tuple[int, int]

MAX_TABLE = 50_000_000
"""Most entries of the table by which `count_loads` counts."""


@dataclass(frozen=True)
class Plan:
    """An n-step strategy of S1 (definition 16): decisions only.

    Attributes
    ----------
    groups
        The (row, column) patches of each step, in step order.
    write_back
        For each group, the step (counted from 0; ``len(groups)`` is the end) whose write-back action
        takes its outputs to DRAM. None: as the machine's ``outputs`` policy says.
    """

    groups: tuple[tuple[Patch, ...], ...]
    write_back: tuple[int, ...] | None = None

    @classmethod
    def from_steps(cls, problem: Problem, steps: NDArray[np.integer[Any]] | Sequence[int]) -> Plan:
        """Build a plan from the step of each patch; empty steps vanish, patches stand row-major.

        Parameters
        ----------
        steps : int, shape (n_patches,)
        """
        steps = np.asarray(steps)
        order = np.argsort(steps, kind="stable")
        cuts = np.flatnonzero(np.diff(steps[order])) + 1
        return cls.from_groups(problem, np.split(order, cuts))

    @classmethod
    def from_groups(cls, problem: Problem, groups: Iterable[Iterable[int]]) -> Plan:
        """Build a plan from patch numbers per step; empty groups are left out."""
        width = problem.grid[1]
        return cls(
            tuple(
                tuple(divmod(int(index), width) for index in group)
                for group in (list(members) for members in groups)
                if group
            )
        )

    @property
    def n_steps(self) -> int:
        """Number of steps n."""
        return len(self.groups)

    def indices(self, problem: Problem) -> list[NDArray[np.int64]]:
        """Return the patch numbers of each step."""
        width = problem.grid[1]
        return [np.array([row * width + col for row, col in group], dtype=np.int64) for group in self.groups]

    def steps(self, problem: Problem) -> NDArray[np.int64]:
        """Return the step of each patch, shape ``(n_patches,)``; -1 where the plan has none."""
        steps = np.full(problem.n_patches, -1, dtype=np.int64)
        for step, members in enumerate(self.indices(problem)):
            steps[members] = step
        return steps

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        plan: dict[str, Any] = {"groups": [[list(patch) for patch in group] for group in self.groups]}
        if self.write_back is not None:
            plan["write_back"] = list(self.write_back)
        return plan

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict) or not isinstance(data.get("groups"), list):
            raise InputError("plan", data, "must be an object with a list `groups`", file)
        unknown = set(data) - {"groups", "write_back"}
        if unknown:
            raise InputError("plan", sorted(unknown), "unknown keys; there are groups and write_back", file)
        groups = []
        for step, group in enumerate(data["groups"]):
            if not isinstance(group, list):
                raise InputError(f"plan.groups[{step}]", group, "must be a list of [row, col]", file)
            for patch in group:
                if not (isinstance(patch, list) and len(patch) == 2 and all(map(_is_index, patch))):
                    raise InputError(
                        f"plan.groups[{step}]", patch, "a patch is [row, col], two integers", file
                    )
            groups.append(tuple((row, col) for row, col in group))
        writes = data.get("write_back")
        if writes is not None and not (isinstance(writes, list) and all(map(_is_index, writes))):
            raise InputError("plan.write_back", writes, "must be a list of integers, one per group", file)
        return cls(tuple(groups), None if writes is None else tuple(writes))


def _is_index(value: Any) -> bool:
    return type(value) is int and abs(value) < 2**31


def count_loads(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Count the loads of each pixel under the S1 rule, the closed form of equations 5 to 8.

    A step holds exactly the pixels of its group, so a pixel is loaded once for every maximal run of
    consecutive steps that need it.

    Parameters
    ----------
    steps : int, shape (n_patches,)
        Step of each patch, from 0.

    Returns
    -------
    int, shape (n_pixels,)
    """
    pixels = problem.patch_pixels
    never = np.iinfo(np.int32).max
    if problem.n_pixels * pixels.shape[1] > MAX_TABLE:
        return _count_loads_sparsely(problem, steps)
    # A pixel stands at each place of the kernel for one patch at most: a table of the steps that need it.
    needed_in = np.full((problem.n_pixels + 1, pixels.shape[1]), never, np.int32)  # last row: no pixel
    needed_in[pixels, np.arange(pixels.shape[1])] = steps[:, None]
    needed_in = needed_in[:-1]
    needed_in.sort(axis=1)
    starts = np.diff(needed_in, axis=1) > 1
    starts &= needed_in[:, 1:] < never
    loads: NDArray[np.int64] = (needed_in[:, 0] < never) + starts.sum(axis=1)
    return loads


def _count_loads_sparsely(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Count loads by sorting (pixel, step) pairs: slower, but the table would be mostly empty."""
    pixels = problem.patch_pixels
    present = pixels >= 0
    span = int(steps.max()) + 2
    keys = (
        pixels[present].astype(np.int64) * span + np.broadcast_to(steps[:, None] + 1, pixels.shape)[present]
    )
    keys = np.unique(keys)
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = keys[1:] != keys[:-1] + 1  # the step before a run's first is missing
    return np.bincount(keys[starts] // span, minlength=problem.n_pixels)


def objective(problem: Problem, plan: Plan) -> int:
    """Objective of a complete plan by the closed form; the simulator must find the same."""
    return problem.cost(int(count_loads(problem, plan.steps(problem)).sum()), plan.n_steps)


def group_pixels(problem: Problem, steps: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Return the number of pixels that each step needs, shape ``(n_steps,)``."""
    pixels = problem.patch_pixels
    present = pixels >= 0
    keys = (
        np.broadcast_to(steps[:, None], pixels.shape)[present].astype(np.int64) * problem.n_pixels
        + pixels[present]
    )
    return np.bincount(np.unique(keys) // problem.n_pixels, minlength=int(steps.max()) + 1)
