"""What is to be placed: the PEs of the plan of least interval, found by the exact search for splits.

That search is quick unless buffers are small, and then it may take hours. So nobody waits for it longer than
`SECONDS`, and all wait equally long: whoever judges a placement knows what whoever made it knew.
"""

from __future__ import annotations

import time
from typing import TypeVar

from tilewright.allocation.exact.search import AllocationAnswer, exhaustive
from tilewright.allocation.machine import AllocationObjective
from tilewright.allocation.placement.floor import Floor
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.spec.errors import InputError, OutOfTimeError

Value = TypeVar("Value")

SECONDS = 2.0
"""Most seconds that the search gets, whatever time its caller has."""

COMPILING = 1.0
"""A search that ends more than these seconds late has waited for its code to be compiled."""

MOST_REMEMBERED = 128
"""Most problems whose answer, or vain search, is remembered."""

_answers: dict[str, Plan | None] = {}
"""By problem, as JSON: the plan to be placed, None where the search ended without one."""

_in_vain: dict[str, float] = {}
"""By problem, as JSON: seconds of the longest search that did not end in time."""


def forget_answers() -> None:
    """Search all anew from here on, for measurements of time."""
    _answers.clear()
    _in_vain.clear()


def unplaced_plan(problem: Problem, deadline: float = float("inf")) -> Plan | None:
    """Return the plan of least interval, whose PEs are to be placed; None if the search ends without one.

    The answer does not depend on the time that there is: it is that of a search that has ended by itself.
    After a search in vain, no other one is begun that has no more time.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` at which to give up, if `SECONDS` are not over before.

    Raises
    ------
    OutOfTimeError
        If the search has not ended by the deadline.
    InputError
        If it has not ended after `SECONDS`.
    """
    objective = AllocationObjective(
        minimise="interval", frames_per_second=problem.objective.frames_per_second
    )
    asked = Problem(
        network=problem.network, machine=problem.machine, objective=objective, limits=problem.limits
    )
    key = asked.model_dump_json()
    if key in _answers:
        return _answers[key]
    seconds = min(SECONDS, max(0.0, deadline - time.monotonic()))
    if seconds > _in_vain.get(key, 0.0):
        answer = _searched(asked, deadline)
        if answer is None or not answer.cut_short:
            plan = answer.plans[0] if answer is not None and answer.plans else None
            _remember(_answers, key, plan)
            return plan
        _remember(_in_vain, key, seconds)
    if seconds < SECONDS:
        raise OutOfTimeError
    raise _not_known(problem, SECONDS)


def _searched(asked: Problem, deadline: float) -> AllocationAnswer | None:
    """Search until a deadline, at most for SECONDS; once more if code had to be compiled meanwhile."""
    begin = time.monotonic()
    until = min(deadline, begin + SECONDS)
    answer = exhaustive(asked, until)
    now = time.monotonic()
    if answer is not None and answer.cut_short and until + COMPILING < now < deadline:
        return exhaustive(asked, min(deadline, now + SECONDS))
    return answer


def _remember(table: dict[str, Value], key: str, value: Value) -> None:
    """Take an entry, and drop the oldest ones where there are too many."""
    table[key] = value
    while len(table) > MOST_REMEMBERED:
        del table[next(iter(table))]


def _not_known(problem: Problem, seconds: float) -> InputError:
    told = (
        f"which PEs are to be placed is not known: the search for the least interval has not ended after "
        f"{seconds:.3g} seconds; give the layers' PEs here, or larger buffers"
    )
    return InputError("limits.pes", problem.limits.pes, told)


def pes_to_place(problem: Problem, deadline: float = float("inf")) -> Plan:
    """Return the plan of `unplaced_plan` for what cannot do without one.

    Raises
    ------
    InputError
        If there is none, or none is known by the deadline.
    """
    begin = time.monotonic()
    try:
        plan = unplaced_plan(problem, deadline)
    except OutOfTimeError:
        raise _not_known(problem, max(0.0, deadline - begin)) from None
    if plan is None:
        told = "no plan is known that keeps the limits, so there are no PEs to place"
        raise InputError("objective.minimise", problem.minimise, told)
    return plan


def floor_of(problem: Problem, plan: Plan) -> Floor:
    """Return what the placement of a plan's PEs has to keep to."""
    border = (stage.number for stage in problem.stages if min(stage.producers) < 0 or stage.leaves)
    sizes = tuple(split.pes for split in plan.splits)
    return Floor(*problem.machine.array, sizes, problem.edges, tuple(border))
