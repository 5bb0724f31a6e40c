"""The answer: the best plan is executed, and what holds is written down."""

from __future__ import annotations

import time

from tilewright.core.context import Status
from tilewright.core.room import unit_of
from tilewright.run.instance import digest
from tilewright.run.result import Result, told_constraints, versions
from tilewright.run.solving.run import Run
from tilewright.run.summary import relative_gap
from tilewright.simulator.report import Verdict
from tilewright.spec.errors import (
    Disagreement,
    OutOfTimeError,
)

JUDGING_GRACE_SECONDS = 0.7
"""Seconds that the simulation of the answer is always given, though the time limit is then passed by them."""


def execute_plan(run: Run, method: str, until: float) -> tuple[Verdict | None, bool]:
    """Let the simulator execute the best plan; return its report, None where time is up or Ctrl-C comes.

    The plan has kept all limits and its cost is known: late or not, it stays the answer.

    Returns
    -------
    verdict : Verdict, optional
    interrupted : bool
    """
    room, problem, incumbent = run.room, run.incumbent.problem, run.incumbent
    # The clock may have gone on while this process was stopped.
    deadline = max(until, time.monotonic()) + JUDGING_GRACE_SECONDS
    try:
        report = room.simulate(problem, incumbent.plan, overlapped=False, deadline=deadline)
    except OutOfTimeError:
        return None, False
    except KeyboardInterrupt:
        return None, True
    if report.violation is not None:
        raise Disagreement(f"the simulator refuses a plan of {method}: {report.violation}")
    measured = room.measured_objective(problem, report)
    if measured != incumbent.objective:
        raise Disagreement(f"the simulator measured {measured}, the closed form says {incumbent.objective}")
    return report.verdict(), False


def judge(run: Run, name: str, method: str, interrupted: bool, until: float) -> Result:
    """Simulate the best plan and write down what holds; a plan is never lost for want of time."""
    incumbent = run.incumbent
    room, problem = run.room, incumbent.problem
    status: Status
    at_least: dict[str, str] = {}
    if incumbent.plan is not None:
        at_least = room.at_least(problem, incumbent.plan)
        status = "optimal" if incumbent.optimal and not at_least else "feasible"
    else:
        status = "infeasible" if incumbent.infeasible else "unknown"
    idle = method != "auto" and method not in run.begun and incumbent.closed
    verdict: Verdict | None = None
    if incumbent.plan is not None:
        with run.in_phase("simulating"):
            verdict, again = execute_plan(run, method, until)
        interrupted = interrupted or again
    elif incumbent.violation is not None and status == "unknown":
        # A heuristic that ignores a limit: say which.
        verdict = Verdict(False, incumbent.violation)
    return Result(
        room=room.name,
        instance=name,
        instance_sha256=digest(room.name, problem),
        method=method,
        status=status,
        objective=incumbent.objective,
        bound=incumbent.bound,
        gap=None if at_least else relative_gap(incumbent.objective, incumbent.bound),
        seconds=round(time.monotonic() - incumbent.started, 3),
        seed=run.seed,
        warm_start=run.warm_start,
        plan=incumbent.plan,
        report=verdict,
        bound_by=incumbent.bound_by,
        grounds=incumbent.grounds,
        failures=list(dict.fromkeys(run.failures)),
        interrupted=interrupted,
        simulated=incumbent.plan is None or verdict is not None,
        trace=incumbent.trace,
        versions=versions(run.versions),
        confirmed_by=run.confirmed_by,
        proved_by=incumbent.bound_by if idle else None,
        unverified=incumbent.unverified(),
        at_least=at_least or None,
        minimise=problem.minimise,
        unit=unit_of(problem),
        space=room.space(problem),
        constraints=told_constraints(problem, incumbent.plan),
        problem=problem,
    )
