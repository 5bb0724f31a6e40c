"""The reference model of NPUs and the exact search agree: on random layers, machines, objectives, limits."""

from __future__ import annotations

from random import Random
from typing import Any

from conftest import examples
from formulations import need, solve
from hypothesis import assume, given, settings
from numbered import randoms

import tilewright as tw
from tilewright.core import catalogue
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, kind_of, objective, violation

Json = dict[str, Any]


def layer_at_random(random: Random) -> Json:
    pick = random.randint
    groups = random.choice([1, 1, 1, 2])
    layer: Json = {
        "input": [groups * pick(1, 3), pick(2, 5), pick(2, 5)],
        "kernels": groups * pick(1, 5),
        "kernel": [pick(1, 2), pick(1, 2)],
        "stride": [pick(1, 2), pick(1, 2)],
        "groups": groups,
        "batch": pick(1, 2),
    }
    maps = pick(2, 4)
    depthwise = {"input": [maps, 4, 4], "groups": maps, "kernels": maps}
    return layer | (depthwise if random.random() < 0.2 else {})


def problem_at_random(random: Random) -> Any:
    machine: Json = {
        "tles": random.choice([1, 2, 4]),
        "tlts": random.choice([1, 2, 3]),
        "burst_bytes": random.choice([2, 4, 16]),
        "macs_per_cycle": random.randint(1, 4),
        "cycle_ps": random.choice([1, 3, 5000]),
        "byte_ps": random.choice([0, 2, 1000]),
        "burst_ps": random.choice([0, 7, 60000]),
    }
    for name in ("input_bytes", "weights_bytes", "output_bytes"):
        machine[name] = random.choice([4, 8, 16, 32, 64])
    if random.random() < 0.3:
        widths = {"input": random.choice([4, 8]), "weights": random.choice([3, 8])}
        machine["bits"] = {**widths, "output": 8, "partial": 16}
    else:
        machine["element_bytes"] = random.randint(1, 2)
    limits: Json = {
        "partition": random.choice(["any", "KS", "OFM", "KS&OFM"]),
        "schedule": random.choice(["any", "any", "IS", "OS", "WS"]),
    }
    problem = tw.TilingProblem(
        layer=layer_at_random(random),
        machine=tw.NpuMachine(**machine),
        objective={"minimise": random.choice(["time", "accesses"])},
        limits=limits,
    )
    name = random.choice(["time", "accesses"])
    least = kind_of(problem).exhaustive(problem.minimising(name), float("inf"))
    if least is None or random.random() < 0.6:
        return problem
    most = int(least.value * random.choice([0.95, 1, 1.05, 1.3]))
    return problem.with_(limits=limits | {"at_most": {name: most}})


@settings(max_examples=examples(1000, 4))
@given(randoms)
def test_the_reference_model_and_the_search_agree(random: Random) -> None:
    need("gecode")
    try:
        problem = problem_at_random(random)
    except InputError:
        assume(False)
        raise
    expected = kind_of(problem).exhaustive(problem, float("inf"))
    start = Plan(expected.layers) if expected is not None and random.random() < 0.5 else None
    found = solve(problem, catalogue.model("tiling", "reference.npu"), "gecode", start=start)
    if expected is None:
        assert (found.status, found.plan) == ("infeasible", None)
        return
    assert (found.status, found.bound) == ("optimal", expected.value)
    assert violation(problem, found.plan) is None
    assert objective(problem, found.plan) == expected.value


@settings(max_examples=examples(200, 4))
@given(randoms)
def test_slices_keep_limits(random: Random) -> None:
    try:
        problem = problem_at_random(random)
    except InputError:
        assume(False)
        raise
    assume(problem.limits.at_most.given)
    expected = kind_of(problem).exhaustive(problem, float("inf"))
    start = None if expected is None else Plan(expected.layers)
    for given_start in (None, start):
        path, options = catalogue.model("tiling", "slices"), {"presolve": "off"}
        found = solve(problem, path, "highs", start=given_start, options=options)
        if expected is None:
            assert (found.status, found.plan) == ("infeasible", None)
            continue
        assert (found.status, found.bound) == ("optimal", expected.value)
        assert violation(problem, found.plan) is None
        assert (found.warm_start is None) == (given_start is None)
