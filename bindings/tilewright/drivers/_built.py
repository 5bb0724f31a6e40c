"""What drivers of Python formulations do alike: build the model in time, count its objective, read plans."""

from __future__ import annotations

from typing import Any

from tilewright.core import contracts
from tilewright.core.context import RunContext
from tilewright.core.cutoffs import foreign
from tilewright.core.neighbourhood import neighbourhood
from tilewright.core.stated import must_hold
from tilewright.drivers._run import Run, interrupted_at_deadline
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError

MAX_SIZE = 600_000
"""Most constraints of a model that is built: about 1 GiB and a minute of Pyomo."""


class BuiltModel:
    """A formulation's model of a problem, and what its objective counts.

    Parameters
    ----------
    run
        The problem, and who takes plans and bounds.
    formulation
        Its module.
    solver
        What users call the solver.
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
        self.name = _name(formulation)
        _refuse_large(run.problem, formulation, solver)
        with interrupted_at_deadline(run.search):
            build = formulation.build
            # Extras break symmetries and drop what is dominated, which constraints may tell apart.
            extras = extras and not must_hold(run.problem)
            self.model = build(run.problem) if extras else build(run.problem, extras=False)
            self._check()
            self._state()
            self._start()
        self.offset, self.unit = getattr(self.model, "offset", 0), getattr(self.model, "unit", 1)
        self.bounds_only = bool(getattr(self.model, "bounds_only", False))

    @classmethod
    def look_at(cls, problem: Any, formulation: Any, search: RunContext, solver: str) -> None:
        """Refuse what would be refused if it were solved; a model of the user's own is built for that."""
        if foreign():
            cls(Run(problem, search), formulation, solver)
        else:
            _refuse_large(problem, formulation, solver)

    def _wrong(self) -> str | None:
        """Say what `build` returns that is no model, or None."""
        raise NotImplementedError

    def _state(self) -> None:
        """Add the constraints of the problem to the model."""
        raise NotImplementedError

    def _term(self, term: Term) -> Any:
        """Return what a term of the room's vocabulary is in the model."""
        return self.formulation.term(self.model, term)

    def _start(self) -> None:
        """Give the model the start, if there is one."""
        raise NotImplementedError

    def _check(self) -> None:
        """Refuse what is no model with one objective, or counts it in what is no whole number."""
        wrong = self._wrong()
        for counted in ("offset", "unit"):
            value = getattr(self.model, counted, 1)
            if wrong is None and (isinstance(value, bool) or not hasattr(value, "__index__")):
                wrong = f"a model whose `{counted}` is {value!r}, no whole number"
        if wrong is not None:
            where = contracts.place(self.formulation.build)
            raise InputError("model", self.name, f"`build` returns {wrong} ({where})")

    def found(self, most: int, *values: Any) -> None:
        """Take a solution whose objective says that its plan costs so much, at most."""
        plan = self.plan(*values)
        if not self.bounds_only:
            self.run.found(plan, most, at_most=True)
        elif self.run.room.violation(self.run.problem, plan) is None:
            self.run.found(plan, None)

    def plan(self, *values: Any) -> Any:
        """Return the plan that the formulation reads; refuse what is none."""
        plan = self.formulation.read(self.model, *values)
        if not isinstance(plan, self.run.room.plan_type):
            limit = f"`read` returns no Plan but {type(plan).__name__}"
            raise InputError("model", self.name, f"{limit} ({contracts.place(self.formulation.read)})")
        return plan


def _name(formulation: Any) -> str:
    return str(formulation.__name__.rpartition(".")[2])


def _refuse_large(problem: Any, formulation: Any, solver: str) -> None:
    size = formulation.size(problem) if hasattr(formulation, "size") else 0
    if size > MAX_SIZE and neighbourhood() is None:
        limit = f"gives {size} constraints here, at most {MAX_SIZE} are built"
        raise InputError("method", f"{_name(formulation)}@{solver}", limit)
