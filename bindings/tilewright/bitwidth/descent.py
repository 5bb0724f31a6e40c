"""A plan by sensitivity: from the least noise on, where a bit costs least noise."""

from __future__ import annotations

from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import Problem


def descend(problem: Problem) -> Plan:
    """Return a plan that gives up noise for bits, the cheapest step first, and never takes one back.

    All layers begin with their least noise. For the fewest bits, steps are taken as long as the noise stays
    within its limit; for the least noise, until the bits are within theirs.
    """
    choices = problem.choices
    places = [0] * len(choices)
    noise, bits = sum(layer[0].noise for layer in choices), sum(layer[0].bits for layer in choices)
    wanted = problem.limits.bits if problem.minimise != "bits" else None
    while problem.minimise == "bits" or (wanted is not None and bits > wanted):
        steps = []
        for number, layer in enumerate(choices):
            here = layer[places[number]]
            for place in range(places[number] + 1, len(layer)):
                lost, saved = layer[place].noise - here.noise, here.bits - layer[place].bits
                if (
                    problem.minimise != "bits"
                    or problem.most_noise is None
                    or noise + lost <= problem.most_noise
                ):
                    steps.append((lost / saved, number, place, lost, saved))
        if not steps:
            break
        _, number, place, lost, saved = min(steps)
        places[number], noise, bits = place, noise + lost, bits - saved
    chosen = [layer[place] for layer, place in zip(choices, places, strict=True)]
    return Plan(
        tuple(layer.name for layer in problem.layers), tuple((one.inputs, one.weights) for one in chosen)
    )
