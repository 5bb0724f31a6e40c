"""The best widths where constraints relate layers: every candidate counts, as none replaces another."""

from __future__ import annotations

from collections.abc import Callable

from tilewright.bitwidth.noise import Candidate
from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import OPERANDS, Problem, of_one_layer
from tilewright.core.choosing import Choosing, Options
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import Constant, Ground, compared, terms

COSTS: dict[str, Callable[[Candidate], int]] = {
    "noise": lambda one: one.noise,
    "moved_bits": lambda one: one.bits,
}
"""Words that are sums over layers."""


def search(
    problem: Problem, deadline: float, on_plan: Callable[[Plan], None]
) -> tuple[Plan | None, int, bool]:
    """Return the best plan, what it costs, and whether that is proven.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which the best plan so far is returned.
    on_plan
        Called with every better plan.
    """
    own = "moved_bits" if problem.minimise == "bits" else "noise"
    # Of a layer, the candidates that each cost least come first.
    layers = [sorted(layer, key=lambda one: (COSTS[own](one), one)) for layer in problem.admitted]
    names = [layer.name for layer in problem.layers]
    parts = [part for part in problem.must_hold if of_one_layer(part) is None] + _limits(problem)
    related = {str(term.arguments[0]) for part in parts for term in terms(part) if term.word == "bits"}
    order = sorted(range(len(layers)), key=lambda number: names[number] not in related)
    things = [
        Options(
            tuple(COSTS[own](one) for one in layers[number]),
            {
                Term("bits", (names[number], operand)): tuple(one[place] for one in layers[number])
                for place, operand in enumerate(OPERANDS)
            },
        )
        for number in order
    ]
    totals = {
        Term(word): [tuple(map(cost, layers[number])) for number in order]
        for word, cost in COSTS.items()
        if any(Term(word) in terms(part) for part in parts)
    }

    def plan_of(places: list[int]) -> Plan:
        chosen = {number: layers[number][place] for number, place in zip(order, places, strict=True)}
        return Plan(tuple(names), tuple((chosen[n].inputs, chosen[n].weights) for n in range(len(names))))

    choosing = Choosing(things, parts, totals, lambda places, _cost: on_plan(plan_of(places)), deadline)
    complete = choosing.run()
    if choosing.best is None or choosing.cost is None:
        return None, 0, complete
    return plan_of(choosing.best), choosing.cost, complete


def _limits(problem: Problem) -> list[Ground]:
    """Return the limits of the problem as something that must hold."""
    limits = (("moved_bits", problem.limits.bits), ("noise", problem.most_noise))
    return [compared("<=", Term(word), Constant(most)) for word, most in limits if most is not None]
