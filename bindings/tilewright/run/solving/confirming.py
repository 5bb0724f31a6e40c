"""Claims that rest on one method: put to a second one before they are believed."""

from __future__ import annotations

import time

from tilewright.core.bounds import Bound
from tilewright.run.solving import second_route
from tilewright.run.solving.incumbent import Claim, Incumbent
from tilewright.run.solving.options import Method, name_of
from tilewright.run.solving.run import Run
from tilewright.spec.errors import (
    Disagreement,
    TilewrightError,
)


def confirm_claim(run: Run, method: str | Method, own: Bound) -> None:
    """Put a claim that rests on one method's proof to a second one, for as long as `second_route` says.

    Raises
    ------
    Disagreement
        If that finds a plan which the claim denies.
    """
    incumbent = run.incumbent
    claim = open_claim(incumbent, method if isinstance(method, str) else name_of(method), own)
    if claim is None:
        return
    now = time.monotonic()
    took, left = now - incumbent.started, run.deadline - now
    asked = second_route.asked(incumbent.problem, claim.by, claim.bound is None, took, left)
    for other, seconds in asked:
        found = Incumbent(run.room, incumbent.problem, time.monotonic(), None)
        found.raise_bound(own.value, str(own))
        again = Run(found, run.quiet_options)
        again.deadline = again.latest = min(run.deadline, time.monotonic() + seconds)
        try:
            with run.in_phase("confirming"):
                again.phase([other], incumbent.plan)
        except Disagreement as error:  # its own fault: only a valid plan speaks against the claim
            run.failures.append(f"{other}, asked to confirm {claim.by}: {error}")
            continue
        except TilewrightError:
            continue  # its solver is not installed, or it does not take the problem
        finally:
            run.let_clock_stand(again.stood)
        denial = f"{other} finds a plan of {found.objective}"
        if not claim.denied(found.objective):
            least = None if found.open else found.bound
            if found.infeasible if claim.bound is None else least is not None and least >= claim.bound:
                run.confirmed_by = other
                incumbent.accept_claim(claim)
        elif claim.narrow:
            incumbent.denial = denial
        else:
            said = (
                "calls the problem infeasible" if claim.bound is None else f"proves a bound of {claim.bound}"
            )
            raise Disagreement(f"{claim.by} {said}, {denial}")
        return


def open_claim(incumbent: Incumbent, method: str, own: Bound) -> Claim | None:
    """Return the claim that ends a run and rests on one method's proof, or on a solver's word; or None."""
    if incumbent.optimal:
        by_itself = incumbent.bound_by == str(own)
        return None if by_itself else Claim(incumbent.bound_by or method, incumbent.bound)
    if incumbent.infeasible:
        return None if own.impossible is not None else Claim(incumbent.infeasible_by or method, None)
    word = incumbent.untrusted
    ends = word is not None and word.bound in (None, incumbent.objective)
    return word if ends and incumbent.denial is None else None
