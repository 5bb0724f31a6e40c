"""A grouping plan: which patches each step computes, and when outputs are written back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.plans import RoomPlan
from tilewright.grouping.problem import Problem
from tilewright.spec.errors import InputError

Patch = tuple[int, int]


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
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
