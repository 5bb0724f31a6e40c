"""Operations that are executed twice: the problem of a network in which they have copies.

A plan of such a network is an ordinary one. Copies compute what they repeat from the same operands, or copies
of these, and load its weights again.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from tilewright.residency.graph import Graph
from tilewright.residency.problem import Problem

KNOWN = "_repeated"
"""Where a problem keeps that of the copies that were asked for last."""

Readers = Mapping[str, tuple[str, ...]]
"""For each operation that is executed twice, who reads what the second execution computes."""


class RecomputeProblem(Problem):
    """A problem whose network has copies of some operations.

    Attributes
    ----------
    again
        These operations, and who reads the copies.
    free
        Operations whose outputs take no room and are moved for nothing.
    """

    again: dict[str, tuple[str, ...]]
    free: tuple[str, ...] = ()

    def model_post_init(self, _context: object) -> None:
        """Refuse what cannot run; where outputs take no room all can that could before."""
        if not self.free:
            super().model_post_init(_context)

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors, with those of copies."""
        return Graph(
            self.network,
            self.machine.sum_elements,
            tiles=self.limits.tiles,
            again=self.again,
            free=self.free,
        )


def problem_with_copies(problem: Problem, again: Readers) -> Problem:
    """Return the problem in which some operations have copies, each executed once.

    Raises
    ------
    InvalidPlanError
        If an operation cannot be executed twice as is said.
    """
    shown = {name: tuple(readers) for name, readers in again.items()}
    known: tuple[dict[str, tuple[str, ...]], Problem] | None = problem.__dict__.get(KNOWN)
    if known is None or known[0] != shown:
        known = shown, with_copies_of(problem, shown)
        problem.__dict__[KNOWN] = known
    return known[1]


def with_copies_of(problem: Problem, again: Readers, free: tuple[str, ...] = ()) -> Problem:
    """Return the same, perhaps with outputs that take no room: for bounds."""
    return RecomputeProblem(
        network=problem.network,
        machine=problem.machine,
        objective=problem.objective,
        limits=problem.limits.with_(executions=1),
        again=dict(again),
        free=free,
    )
