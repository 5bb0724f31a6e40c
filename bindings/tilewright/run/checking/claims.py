"""Prove once more what a result claims: a bound above the room's own, or that nothing is feasible.

The method that claims it must prove it again, and a second route is asked besides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from tilewright.core import catalogue
from tilewright.core.context import MAX_SECONDS
from tilewright.run.checking.finding import Finding
from tilewright.run.instance import Instance
from tilewright.run.methods import honours, is_trusted, proves
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.run.solving.second_route import routes
from tilewright.run.workers.compiling import Tell
from tilewright.spec.errors import SolverMissingError, TilewrightError

FIRST_SHARE = 0.7
"""Share of the time for the method that makes a claim, where there is a second route."""

SECOND_SECONDS = 5.0
"""How long a second route may take at least, once the claim is proven; else twice as long as that took."""

LEAST_SECONDS = 0.05
"""Less than this is no time for a proof."""


Outcome = Literal["proves", "contradicts", "does not end", "cannot"]


@dataclass(frozen=True)
class Claim:
    """What is to be proven.

    Attributes
    ----------
    what
        ``bound`` or ``infeasible``.
    bound
        Of the objective of every plan, None if there is said to be no plan.
    method
        Which is said to have proven it.
    plan
        A valid plan, or None.
    """

    what: str
    bound: int | None
    method: str | None
    plan: Any

    def __str__(self) -> str:
        return "infeasible" if self.bound is None else str(self.bound)


@dataclass(frozen=True)
class Attempt:
    """What came out of one method: whether it proves the claim, a sentence, and how long the clock stood."""

    method: str
    outcome: Outcome
    told: str
    seconds: float
    stood: float = 0.0


def prove(
    instance: Instance,
    claim: Claim,
    deadline: float,
    limit: float,
    took: float,
    *,
    on_compile: Tell | None = None,
    on_stood: Callable[[float], object] = float,
) -> Finding:
    """Prove a claim by the method that makes it and by a second one, within the time.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` until when.
    limit
        The time limit of it all, in seconds, for messages.
    took
        Seconds that the result says it took.
    on_compile
        Called with a sentence before something is compiled, once, which the deadline does not count.
    on_stood
        Called with the seconds for which the deadline is later because of that.

    Returns
    -------
    Finding
        Refuted if some method finds what contradicts the claim; verified if one proves it, which is told if
        it is the only one; else not verified.
    """
    order = asked(instance, claim)
    attempts: list[Attempt] = []
    proven: Attempt | None = None
    others: list[Attempt] = []
    for number, method in enumerate(order):
        left = min(deadline - time.monotonic(), MAX_SECONDS)
        if proven is not None:
            second = max(SECOND_SECONDS, 2 * proven.seconds) - sum(other.seconds for other in others)
            # A stated model that is too slow leaves half of the time to one that chooses among columns.
            left = min(left, second if _has_our_prices(instance.room, method) else second / 2)
        elif number == 0 and len(order) > 1:
            left *= FIRST_SHARE
        if left < LEAST_SECONDS:
            break
        attempt = _attempt(instance, method, claim, left, on_compile)
        attempts.append(attempt)
        deadline += attempt.stood
        on_stood(attempt.stood)
        if attempt.outcome == "contradicts":
            return Finding(claim.what, "refuted", f"{claim}, claimed by {claim.method}: {attempt.told}")
        if attempt.outcome == "cannot":
            continue
        if proven is not None:
            others.append(attempt)
            if attempt.outcome == "proves":
                break
        elif attempt.outcome == "proves":
            proven = attempt
    if proven is not None:
        return _verified(instance.room, claim, proven, others)
    told = "; ".join(attempt.told for attempt in attempts) or "no time was left"
    enough = 2 * max(limit, took)
    told = f"{claim}, claimed by {claim.method}: {told}; {enough:.0f} s may be enough (--time-limit)"
    return Finding(claim.what, "not verified", told)


def asked(instance: Instance, claim: Claim) -> list[str]:
    """Return the methods that are asked to prove a claim, the one that makes it first if we answer for it."""
    able = claim.method and proves(instance.room, claim.method) and is_trusted(instance.room, claim.method)
    first = claim.method if able else None
    return [*([first] if first else []), *routes(instance.problem, but=first)]


def _verified(room: str, claim: Claim, proven: Attempt, others: list[Attempt]) -> Finding:
    """Say what proves a claim, and what a second route does for it.

    Parameters
    ----------
    others
        Second routes that were asked; only the last one may have proven the claim.
    """
    if others and others[-1].outcome == "proves":
        second = others[-1]
        told = f"confirmed: {second.told}"
        if _has_our_prices(room, proven.method) and _has_our_prices(room, second.method):
            told += "; that confirms the choice, not the costs of what is chosen, which the package computes"
    else:
        told = f"this rests on {proven.method} alone"
        told += "".join(f"; {other.told}" for other in others)
    return Finding(claim.what, "verified", f"{claim}: {proven.told}; {told}")


def _has_our_prices(room: str, method: str) -> bool:
    """Whether a method chooses among what the package has priced, as the rooms' own searches do."""
    model = catalogue.model(room, method.partition("@")[0])
    return catalogue.solves_itself(model) or catalogue.chooses_columns(model)


def _attempt(
    instance: Instance, method: str, claim: Claim, seconds: float, on_compile: Tell | None
) -> Attempt:
    """Run a method on a claim."""
    began = time.monotonic()
    start = "none" if claim.plan is None else claim.plan
    problem = instance.problem
    # What does not honour the constraints may still prove a bound, of the problem without them.
    free = bool(problem.constraints) and not honours(instance.room, method, problem)
    if free:
        instance, start = replace(instance, problem=problem.without_constraints()), "none"
    try:
        again = solve(
            instance, method, warm_start=start, time_limit=seconds, confirm=False, on_compile=on_compile
        )
    except SolverMissingError as error:
        return Attempt(method, "cannot", str(error), 0.0)
    except TilewrightError as error:
        return Attempt(method, "cannot", f"{method}: {error}", 0.0)
    took = again.seconds
    stood = max(0.0, time.monotonic() - began - took)
    outcome, told = _judged(again, method, claim, free=free)
    return Attempt(method, outcome, told, took, stood)


def _judged(again: Result, method: str, claim: Claim, *, free: bool) -> tuple[Outcome, str]:
    """Return what a method's answer says of a claim, and a sentence.

    Parameters
    ----------
    free
        Whether it is the answer to the problem without its constraints, whose plans deny nothing.
    """
    took = f"in {again.seconds:.1f} s"
    if again.status == "infeasible":
        return "proves", f"{method} proves {took} that nothing is feasible"
    if not free and again.objective is not None and (claim.bound is None or again.objective < claim.bound):
        return "contradicts", f"{method} finds a plan of {again.objective}"
    if claim.bound is not None and again.bound is not None and again.bound >= claim.bound:
        grounds = f" ({again.grounds})" if again.grounds else ""
        return "proves", f"{method} proves {again.bound} {took}{grounds}"
    what = "nothing" if claim.bound is None or again.bound is None else f"no more than {again.bound}"
    return "does not end", f"{method} proves {what} {took}"
