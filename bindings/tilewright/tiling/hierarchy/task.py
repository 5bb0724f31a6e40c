"""What plans of a layer on a hierarchy are searched for, and what one of them costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact.admitted import Admitted
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.machine_kind import LayerProblem


@dataclass(frozen=True)
class Task:
    """A layer on a machine, and what is minimised.

    Attributes
    ----------
    minimise
        ``accesses``, ``cycles``, ``energy`` or ``edp``; ``traffic`` or ``memory`` to break ties.
    level
        The memory whose accesses are counted.
    at_most
        What plans may cost, of accesses, cycles and energy.
    admitted
        What constraints admit; None where there are none.
    """

    layer: Layer
    machine: HierarchyMachine
    minimise: str
    level: str
    at_most: Mapping[str, int] = field(default_factory=dict)
    admitted: Admitted | None = None

    @classmethod
    def of(cls, problem: LayerProblem) -> Task:
        """Return the task of a problem of one layer."""
        limits, admitted = problem.limits.at_most.given, Admitted.of(problem)
        if admitted is not None:
            limits = admitted.limits(limits)
        return cls(problem.one_layer, problem.machine, problem.minimise, problem.level, limits, admitted)

    @property
    def choices(self) -> list[Kept]:
        """All that plans may decide of what levels hold."""
        every = self.machine.choices
        if self.admitted is None:
            return every
        return [kept for kept in every if self.admitted.allows(self.machine.keeping(kept))]

    def value(self, plan: HierarchyPlan) -> int:
        """Return what a valid plan costs, without rounding."""
        nest = Nest(self.layer, self.machine, plan)
        if self.minimise == "memory":
            return nest.reserved
        return cost_of(nest).value(self.minimise, self.level)
