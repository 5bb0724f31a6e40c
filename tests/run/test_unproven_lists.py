"""Of a list of objectives nothing is optimal of which one before the last is not proven."""

from __future__ import annotations

from typing import Any

from tilewright.core.context import Outcome, RunContext
from tilewright.core.lists import solve_in_turn
from tilewright.core.room import room_of
from tilewright.residency import Plan, Problem, objective
from tilewright.residency.exact.time_and_energy import search_one_objective
from tilewright.run.solving.incumbent import Incumbent

NEVER = float("inf")


def problem_of_two() -> Problem:
    """Return a network whose least traffic and fewest cycles are found at once."""
    layers = [{"name": name, "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]} for name in "ab"]
    machine = {"memory_bytes": 200}
    given = {"network": {"layers": layers}, "machine": machine}
    return Problem.model_validate({**given, "objective": {"minimise": ["cycles", "traffic"]}})


def run(*, proven: bool) -> Incumbent:
    """Return what a run knows when a method has minimised both, of which the first one may not be proven."""
    problem, told = problem_of_two(), list[str]()
    incumbent = Incumbent(room_of(problem), problem, 0.0, None)

    def solve(stage: Any, context: RunContext) -> Outcome:
        def found(plan: Plan) -> None:
            told.append("plan")
            context.on_plan(plan)

        plan, bound, _ = search_one_objective(stage, NEVER, lambda _: None, found, None)
        assert plan is not None and objective(stage, plan) == bound
        first = stage.minimise == "cycles"
        return Outcome("feasible" if first and not proven else "optimal", plan, bound)

    def unproven() -> None:
        told.append("unproven")
        incumbent.leave_open()

    context = RunContext(on_plan=incumbent.offer, on_unproven=unproven)
    outcome = solve_in_turn(problem, context, solve)
    assert outcome.bound is not None
    incumbent.raise_bound(outcome.bound, "a method")
    assert incumbent.objective == incumbent.bound
    assert outcome.status == ("optimal" if proven else "feasible")
    # That it is not proven is known before any plan of the last objective is.
    assert ("unproven" in told) != proven
    assert proven or "plan" in told[told.index("unproven") :]
    return incumbent


def test_what_meets_the_bound_of_the_last_objective_is_optimal_if_those_before_it_are_proven() -> None:
    assert run(proven=True).optimal
    assert not run(proven=False).optimal
