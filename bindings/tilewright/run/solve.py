"""Solve a problem with one method, or with all that the room knows, and judge the answer by simulation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tilewright.core.room import room_of
from tilewright.run.instance import Instance, read
from tilewright.run.methods import check_method
from tilewright.run.result import Result
from tilewright.run.solving.confirming import confirm_claim
from tilewright.run.solving.contradiction import contradiction
from tilewright.run.solving.incumbent import Incumbent
from tilewright.run.solving.judging import judge
from tilewright.run.solving.options import CallbackError, Method, Options, name_of
from tilewright.run.solving.portfolio import run_phases
from tilewright.run.solving.relaxing import run_constrained
from tilewright.run.solving.run import Interrupted, Run
from tilewright.run.solving.widening import search_wider
from tilewright.spec.errors import InputError

WIDER_SHARE = 0.05
"""Share of the time that ``auto`` keeps for plans of a larger space."""

JUDGING_SHARE = 0.01
"""Share of the time that is left for the simulation of the answer, at least."""


def solve(problem: Any, method: str | Method = "auto", **options: Any) -> Result:
    """Solve a problem or an instance, as `tilewright.solve` says.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What to solve: a bundled instance's name, an instance file, or what has been read or built.
    method : str, callable
        A method's name, or a function.
    **options
        Those of `Options`.
    """
    asked = Options.of(options)
    if isinstance(problem, str | Path):
        problem = read(problem)
    name = problem.name if isinstance(problem, Instance) else "unnamed"
    if isinstance(problem, Instance):
        problem = problem.problem
    room = room_of(problem)
    if isinstance(method, str):
        check_method(room.name, method)
    elif not callable(method):
        raise InputError("method", method, "must be the name of a method, or a function")
    assert asked.started is not None
    run = Run(Incumbent(room, problem, asked.started, asked.on_plan), asked)
    interrupted, beside = False, Beside()
    said = method if isinstance(method, str) else name_of(method)
    with run.uncompiled:
        try:
            search(run, method, beside)
        except (KeyboardInterrupt, Interrupted):
            interrupted = True
        except CallbackError as failed:
            raise failed.error from None
        finally:
            run.dismiss()
        result = judge(run, name, said, interrupted, run.incumbent.started + asked.time_limit)
    spent = run.phases.seconds()
    result = replace(
        result,
        wider=beside.wider,
        without_constraints=beside.without_constraints,
        contradiction=beside.contradiction,
    )
    return replace(result, time_limit=asked.time_limit, threads=run.threads, spent=spent)


@dataclass
class Beside:
    """What is known of other problems than the one that is solved, as a `Result` tells it.

    Attributes
    ----------
    wider
        What a larger space of plans gains.
    without_constraints
        What the problem costs without its constraints.
    contradiction
        What contradicts each other, where there is no plan.
    """

    wider: dict[str, Any] | None = None
    without_constraints: dict[str, Any] | None = None
    contradiction: dict[str, Any] | None = None


def search(run: Run, method: str | Method, beside: Beside) -> None:
    """Run a method within the time limit, put its claims to a second one, and look beside the problem."""
    room, incumbent, asked = run.room, run.incumbent, run.options
    wider = room.wider(incumbent.problem) if asked.widen and method == "auto" else None
    run.prepare(method)
    run.begin_uncompiled()
    with run.in_phase("bounding"):
        bound = room.best_bound(incumbent.problem)
    run.simulation_seconds = room.simulation_seconds(incumbent.problem, bound.steps)
    judging = max(run.simulation_seconds, JUDGING_SHARE * asked.time_limit)
    run.latest = incumbent.started + asked.time_limit
    run.deadline = run.latest - min(0.25 * asked.time_limit, judging)
    run.part_bounds = bound.parts
    incumbent.raise_bound(bound.value, str(bound))
    incumbent.infeasible = bound.impossible is not None
    kept = 0.0 if wider is None else WIDER_SHARE * asked.time_limit
    run.deadline -= kept
    if incumbent.problem.constraints and method == "auto" and not incumbent.infeasible:
        beside.without_constraints = run_constrained(run, asked.warm_start)
    else:
        run_phases(run, method, asked.warm_start)
    run.deadline += kept
    if asked.confirm:
        confirm_claim(run, method, bound)
    if incumbent.infeasible and incumbent.problem.constraints and method == "auto" and asked.confirm:
        with run.in_phase("confirming"):
            beside.contradiction = contradiction(
                incumbent.problem, solve, run.deadline, threads=run.threads, seed=run.seed
            )
    beside.wider = None if wider is None else search_wider(run, wider, kept)
