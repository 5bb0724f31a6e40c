"""The best valid plan and the best bound of a run, with their history, and claims that are not proven yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilewright.core.room import Room, check_plan
from tilewright.run.methods import is_before
from tilewright.spec.errors import Disagreement


@dataclass(frozen=True)
class Claim:
    """What a method says that it has proven.

    Attributes
    ----------
    by
        The method.
    bound
        Of the objective of every plan, None if it says that there is no plan.
    narrow
        Whether it may be of a narrower problem, as that of a model of the user's own: then a plan that denies
        it is no contradiction.
    """

    by: str
    bound: int | None
    narrow: bool = False

    def denied(self, objective: int | None) -> bool:
        """Whether a valid plan of some cost denies it."""
        return objective is not None and (self.bound is None or self.bound > objective)


class Incumbent:
    """The best valid plan and the best bound so far, with their history.

    Attributes
    ----------
    open
        Whether an objective of a list before the last is not proven, so that no plan is optimal.
    in_turn
        Whether a method has proven all objectives of the list.
    """

    def __init__(
        self, room: Room[Any, Any], problem: Any, started: float, on_plan: Callable[[Any, int], None] | None
    ) -> None:
        self.room, self.problem, self.started, self.on_plan = room, problem, started, on_plan
        self.plan: Any = None
        self.objective: int | None = None
        self.bound: int | None = None
        self.bound_by: str | None = None
        self.grounds: str | None = None
        self.violation: str | None = None
        self.open = self.in_turn = False
        self.infeasible = False
        self.infeasible_by: str | None = None
        self.untrusted: Claim | None = None
        self.denial: str | None = None
        self.trace: list[tuple[float, int | None, int | None]] = []

    def offer(self, plan: Any, *, proven: bool = False) -> None:
        """Take a plan if it is valid and better: of equal objective, if the room ranks it before.

        Of equal rank is taken what comes from a method that proves. What such a method calls valid must be.
        """
        check_plan(self.problem, plan)
        violation = self.room.violation(self.problem, plan)
        if violation is not None:
            if proven:
                raise Disagreement(f"a solver's plan breaks a limit: {violation}")
            self.violation = self.violation or violation
            return
        objective = self.room.objective(self.problem, plan)
        if self.objective is None or objective < self.objective:
            self.plan, self.objective = plan, objective
            self._note()
            if self.on_plan is not None:
                self.on_plan(plan, objective)
        elif objective == self.objective and is_before(self.room, self.problem, plan, self.plan, proven):
            self.plan = plan

    def claim(self, claim: Claim) -> None:
        """Take the word of a method that is not trusted: it counts once it is confirmed."""
        word = self.untrusted
        if word is None or claim.bound is None or (word.bound is not None and claim.bound > word.bound):
            self.untrusted = claim
            self._contradicted()

    def _contradicted(self) -> None:
        word = self.untrusted
        if word is not None and word.denied(self.objective):
            self.denial = f"there is a valid plan of {self.objective}"
            if not word.narrow:
                said = "the problem infeasible" if word.bound is None else f"{word.bound} a bound"
                raise Disagreement(f"{word.by} calls {said}, but {self.denial}")

    def leave_open(self) -> None:
        """Have no plan be optimal, as an objective of a list before the last is not proven by any method."""
        self.open = not self.in_turn

    def prove_in_turn(self) -> None:
        """Take it that all objectives of a list are proven."""
        self.open, self.in_turn = False, True

    def raise_bound(self, bound: int, by: str, grounds: str | None = None) -> None:
        """Take a proven bound if it is better."""
        if self.bound is None or bound > self.bound:
            self.bound, self.bound_by, self.grounds = bound, by, grounds
            self._note()

    def accept_claim(self, claim: Claim) -> None:
        """Take a claim that is confirmed for a proof."""
        if claim.bound is None:
            self.infeasible, self.infeasible_by = True, claim.by
        else:
            self.raise_bound(claim.bound, claim.by)

    def unverified(self) -> str | None:
        """Say what a method claims beyond what is proven, or None."""
        word = self.untrusted
        if word is None or self.infeasible:
            return None
        if word.bound is not None and self.bound is not None and self.bound >= word.bound:
            return None
        what = "that this is optimal" if word.bound == self.objective else f"a bound of {word.bound}"
        claims = f"{word.by} claims {'that nothing is feasible' if word.bound is None else what}"
        if self.denial is None:
            return f"{claims}; no second method has proven it"
        return f"{claims}, but {self.denial}: its model leaves out a part of the problem"

    @property
    def closed(self) -> bool:
        """Whether nothing is left to search for."""
        return self.optimal or self.infeasible

    @property
    def optimal(self) -> bool:
        """Whether plan and bound meet, and objectives before the last are proven."""
        met = self.objective is not None and self.bound is not None and self.objective <= self.bound
        return met and not self.open

    def let_clock_stand(self, seconds: float) -> None:
        """Let the last seconds count for nothing: what was found in them was found when they began."""
        self.started += seconds
        now = round(time.monotonic() - self.started, 3)
        self.trace = [(min(at, now), objective, bound) for at, objective, bound in self.trace]

    def _note(self) -> None:
        if self.objective is not None and self.bound is not None and self.bound > self.objective:
            raise Disagreement(f"bound {self.bound} ({self.bound_by}) above a valid plan of {self.objective}")
        self._contradicted()
        self.trace.append((round(time.monotonic() - self.started, 3), self.objective, self.bound))
