"""What drivers for Pyomo formulations do alike: build the model, read plans from it, round bounds."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import pyomo.environ as pyo

from tilewright.core.stated import must_hold
from tilewright.drivers._built import BuiltModel
from tilewright.drivers._run import Run
from tilewright.drivers._stated import Linear

TOLERANCE = 1e-6
"""How far solvers let constraints and integers be off, relative to the largest terms."""


class Built(BuiltModel):
    """A formulation's model of a problem, and what its objective counts, as `PyomoFormulation` says."""

    def __init__(self, run: Run, formulation: Any, solver: str, *, extras: bool = True) -> None:
        super().__init__(run, formulation, solver, extras=extras)
        self.largest = float(getattr(self.model, "largest", 1))

    def _wrong(self) -> str | None:
        if not isinstance(self.model, pyo.ConcreteModel):
            return f"no ConcreteModel but {type(self.model).__name__}"
        objectives = list(self.model.component_data_objects(pyo.Objective, active=True))
        if len(objectives) != 1 or objectives[0].sense != pyo.minimize:
            return f"a model with {len(objectives)} objectives, not one to be minimised"
        self.objective = objectives[0]
        return None

    def _state(self) -> None:
        self.stated: Linear | None = None
        if parts := must_hold(self.run.problem):
            self.stated = Linear(self.model, self._term)
            for part in parts:
                self.stated.add(part)

    def _start(self) -> None:
        if self.run.search.start is not None:
            self.formulation.start(self.model, self.run.search.start)
            if self.stated is not None:
                self.stated.start()

    def take(self, objective: float) -> None:
        """Turn the values of the variables into a plan, which may cost less than the solver's objective."""
        # What is only bounded from below, as a latency is, may lie above its bounds until the optimum.
        # Beyond a million units tolerances are more than a unit, and the plan may cost that much more, too.
        most = int(self.offset + self.unit * floor(objective + self._slack(objective)))
        most = max(most, self.rounded_up(objective))
        self.found(most)

    def bounded(self, dual_bound: float) -> None:
        """Round a bound up: the objective is a whole number of units."""
        if 0 <= dual_bound < float("inf"):
            self.run.proved(self.rounded_up(dual_bound))

    def rounded_up(self, objective: float) -> int:
        """Return the cost of a number of units, the next whole one but for a solver's tolerances."""
        return int(self.offset + self.unit * ceil(objective - self._slack(objective)))

    def _slack(self, objective: float) -> float:
        """Return by how many units a solver's tolerances may have moved an objective."""
        return TOLERANCE * max(1.0, self.largest, abs(objective))
