"""What drivers for Pyomo formulations do alike: build the model, read plans from it, round bounds."""

from __future__ import annotations

from math import ceil, floor
from typing import Any

import pyomo.environ as pyo

from tilewright.core import contracts
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.spec.errors import InputError

MAX_SIZE = 600_000
"""Most constraints of a model that is built: about 1 GiB and a minute of Pyomo."""

TOLERANCE = 1e-6
"""How far solvers let constraints and integers be off, relative to the largest terms."""


class Built:
    """A formulation's model of a problem, and what its objective counts, as `PyomoFormulation` says.

    Parameters
    ----------
    run
        The problem, and who takes plans and bounds.
    formulation
        Its module.
    method
        What users call formulation and solver.
    extras
        Whether to keep symmetry breaking and redundant constraints.

    Raises
    ------
    InputError
        If the model would be too large, or is none.
    OutOfTimeError
        If the deadline passes.
    """

    def __init__(self, run: Run, formulation: Any, solver: str, *, extras: bool = True) -> None:
        self.run, self.formulation = run, formulation
        self.name = formulation.__name__.rpartition(".")[2]
        size = formulation.size(run.problem) if hasattr(formulation, "size") else 0
        if size > MAX_SIZE:
            limit = f"gives {size} constraints here, at most {MAX_SIZE} are built"
            raise InputError("method", f"{self.name}@{solver}", limit)
        with interrupted_at_deadline(run.search):
            build = formulation.build
            self.model = build(run.problem) if extras else build(run.problem, extras=False)
            self._check()
            if run.search.start is not None:
                formulation.start(self.model, run.search.start)
        self.offset, self.unit = getattr(self.model, "offset", 0), getattr(self.model, "unit", 1)
        self.largest = float(getattr(self.model, "largest", 1))

    def _check(self) -> None:
        """Refuse what is no model with one objective, or counts it in what is no whole number."""
        where = contracts.place(self.formulation.build)
        if not isinstance(self.model, pyo.ConcreteModel):
            limit = f"`build` returns no ConcreteModel but {type(self.model).__name__} ({where})"
            raise InputError("model", self.name, limit)
        objectives = list(self.model.component_data_objects(pyo.Objective, active=True))
        if len(objectives) != 1 or objectives[0].sense != pyo.minimize:
            many = len(objectives)
            limit = f"`build` returns a model with {many} objectives, not one to be minimised ({where})"
            raise InputError("model", self.name, limit)
        for counted in ("offset", "unit"):
            value = getattr(self.model, counted, 1)
            if isinstance(value, bool) or not hasattr(value, "__index__"):
                limit = f"`build` returns a model whose `{counted}` is {value!r}, no whole number ({where})"
                raise InputError("model", self.name, limit)
        self.objective = objectives[0]

    def take(self, objective: float) -> None:
        """Turn the values of the variables into a plan, which may cost less than the solver's objective."""
        # What is only bounded from below, as a latency is, may lie above its bounds until the optimum.
        # Beyond a million units tolerances are more than a unit, and the plan may cost that much more, too.
        most = int(self.offset + self.unit * floor(objective + self._slack(objective)))
        most = max(most, self.rounded_up(objective))
        plan = self.formulation.read(self.model)
        if not isinstance(plan, self.run.room.plan_type):
            where = contracts.place(self.formulation.read)
            raise InputError(
                "model", self.name, f"`read` returns no Plan but {type(plan).__name__} ({where})"
            )
        self.run.found(plan, most, at_most=True)

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
