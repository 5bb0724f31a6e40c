"""One candidate for each layer, in small whole numbers: what all formulations are built from."""

from __future__ import annotations

from math import gcd

from tilewright.bitwidth.descent import descend
from tilewright.bitwidth.evaluation import costs, violation
from tilewright.bitwidth.noise import Candidate
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem
from tilewright.core.cutoffs import narrow

CERTAIN, LARGEST = 10**6, 2**31 - 2
"""Largest amount whose last unit the tolerances of HiGHS leave certain, and largest number of Gecode."""


class Selection:
    """Candidates of a problem with costs beyond the least of their layer, and limits on their sums.

    Bits are counted in the greatest unit that divides all differences. A cost that is neither limited nor
    minimised counts nothing.

    Attributes
    ----------
    candidates
        Of each layer; those that cost more than a whole plan that is known are left out.
    offset, unit
        A plan costs ``offset + unit * objective``.
    known
        A plan that keeps all limits, as places of its candidates; None where `descend` finds none.
    worst
        Its objective, or that of the worst choice that keeps the limit on it.
    most
        Most of the other cost, None without a limit.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.of_noise = problem.minimise == "noise"
        # Where constraints relate layers, they may admit no candidate but one that another beats.
        choices = problem.admitted if problem.constraints else problem.choices
        self.least_noise = [min(one.noise for one in layer) for layer in choices]
        self.least_bits = [min(one.bits for one in layer) for layer in choices]
        extra = (
            one.bits - least for layer, least in zip(choices, self.least_bits, strict=True) for one in layer
        )
        self.step = max(1, gcd(*extra))
        self.noise_limit = None if problem.most_noise is None else problem.most_noise - sum(self.least_noise)
        bits = problem.limits.bits
        self.bits_limit = None if bits is None else (bits - sum(self.least_bits)) // self.step
        self.offset = sum(self.least_noise if self.of_noise else self.least_bits)
        self.unit = 1 if self.of_noise else self.step
        self.most = self.bits_limit if self.of_noise else self.noise_limit
        own = self.noise_limit if self.of_noise else self.bits_limit
        self.worst = sum(max(self.cost(number, one) for one in layer) for number, layer in enumerate(choices))
        if own is not None:
            self.worst = min(self.worst, own)
        found = descend(problem)
        known = violation(problem, found) is None and not problem.constraints
        if known:
            best = (costs(problem, found)[0 if self.of_noise else 1] - self.offset) // self.unit
            self.worst = max(best, min(self.worst, CERTAIN // 2)) if narrow() else best
        self.candidates = [
            [one for one in layer if self.cost(number, one) <= self.worst and self._fits(number, one)]
            for number, layer in enumerate(choices)
        ]
        self.known = self.places(found) if known else None

    def _fits(self, number: int, one: Candidate) -> bool:
        return self.most is None or self.use(number, one) <= self.most

    def cost(self, number: int, one: Candidate) -> int:
        """Return what a layer's candidate adds to the objective."""
        if self.of_noise:
            return one.noise - self.least_noise[number]
        return (one.bits - self.least_bits[number]) // self.step

    def use(self, number: int, one: Candidate) -> int:
        """Return what a layer's candidate takes of the limit."""
        if self.most is None:
            return 0
        if self.of_noise:
            return (one.bits - self.least_bits[number]) // self.step
        return one.noise - self.least_noise[number]

    @property
    def largest(self) -> int:
        """The largest sum that a solver may form before it compares it with a limit."""
        return len(self.candidates) * max(self.most or 0, self.worst)

    def places(self, plan: Plan) -> list[int] | None:
        """Return the candidates that replace a plan's, no worse in noise or bits.

        None stands for a plan with one that is left out, or that costs more than the known one.
        """
        if self.problem.constraints:
            return self._places_of_itself(plan)
        found: list[int] = []
        for number, (choices, widths) in enumerate(zip(self.candidates, plan.widths, strict=True)):
            one = next(
                (one for one in self.problem.candidates_of(self.problem.layers[number]) if one[:2] == widths),
                None,
            )
            if one is None:
                return None
            place = next(
                (
                    place
                    for place, other in enumerate(choices)
                    if other.noise <= one.noise and other.bits <= one.bits
                ),
                None,
            )
            if place is None:
                return None
            found.append(place)
        total = sum(self.cost(number, self.candidates[number][place]) for number, place in enumerate(found))
        return found if total <= self.worst else None

    def _places_of_itself(self, plan: Plan) -> list[int] | None:
        """Return the candidates of a plan, in whose place constraints may admit no other."""
        widths = [[one[:2] for one in choices] for choices in self.candidates]
        pairs = list(zip(widths, plan.widths, strict=True))
        return (
            [known.index(own) for known, own in pairs] if all(own in known for known, own in pairs) else None
        )

    def plan(self, places: list[int]) -> Plan:
        """Return the plan that takes these candidates."""
        chosen = [layer[place] for layer, place in zip(self.candidates, places, strict=True)]
        names = tuple(layer.name for layer in self.problem.layers)
        return Plan(names, tuple((one.inputs, one.weights) for one in chosen))


def takes(problem: Problem, most_cost: int = LARGEST) -> bool:
    """Whether formulations take a problem: one plan is asked for, in numbers that fit.

    Parameters
    ----------
    most_cost
        Largest objective of a known plan, beyond what layers cost at least, that a solver counts right.
    """
    if problem.minimise == "pareto":
        return False
    choice = Selection(problem)
    return choice.worst <= most_cost and choice.largest <= LARGEST
