"""Constraints on pipelines, against all plans of small problems from which the oracle filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from allocation.pipelines_at_random import pipeline
from conftest import examples, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.constrained import Case, Json, hold_to
from tests.fuzz.networks import network
from tests.oracles import TooLarge
from tests.oracles.allocation import Pipeline

import tilewright as tw
from tilewright.allocation.exact.search import exhaustive
from tilewright.spec.errors import TilewrightError

OBJECTIVES = {"interval": "interval", "pes": "used", "latency": "latency"}
"""What is measured for each objective."""

METHODS = ["parametric", "columns_shares@cpsat", "columns_buffers@highs", "reference@gecode", "auto"]


def whole(problem: tw.AllocationProblem) -> Json:
    return problem.model_dump(mode="json")


def lot_of(
    random: Random, problem: tw.AllocationProblem, plans: list[tuple[Json, Json]]
) -> list[tuple[str, Callable[[Json, Json], bool]]]:
    """Return constraints with predicates on a plan and on what is measured of it."""
    names = [stage.name for stage in problem.stages]
    a, b, last = names[0], names[1], len(names) - 1
    some = random.choice(plans)[1] if plans else {"start": [0] * len(names), "latency": 9, "busy": [9, 9]}
    begin, late, busy = some["start"][last], some["latency"], some["busy"][1]
    found: list[tuple[str, Callable[[Json, Json], bool]]] = [
        (f"pes('{a}') == 2", lambda p, _: p["pes"][a] == 2),
        (f"pes('{a}') == pes('{b}')", lambda p, _: p["pes"][a] == p["pes"][b]),
        (f"pes('{a}') < pes('{b}')", lambda p, _: p["pes"][a] < p["pes"][b]),
        (f"split('{b}', filters) % 2 == 0", lambda p, _: p["split"][b][0] % 2 == 0),
        (
            "for all l in layers: split(l, filters) == pes(l) or units(l, maps) == 2",
            lambda p, _: all(p["split"][n][0] == p["pes"][n] or p["units"][n][1] == 2 for n in names),
        ),
        (f"units('{a}', maps) <= units('{b}', maps)", lambda p, _: p["units"][a][1] <= p["units"][b][1]),
        ("used_pes % 2 == 1", lambda _, m: m["used"] % 2 == 1),
        ("sum(work(l) for l in layers) >= 14", lambda _, m: sum(m["work"]) >= 14),
        (f"load('{a}') > load('{b}')", lambda _, m: m["load"][0] > m["load"][1]),
        ("interval % 3 == 0", lambda _, m: m["interval"] % 3 == 0),
        (f"latency == {late}", lambda _, m: m["latency"] == late),
        (f"start('{names[last]}') in {{{begin}, 7}}", lambda _, m: m["start"][last] in (begin, 7)),
        (f"busy('{b}') <= {busy}", lambda _, m: m["busy"][1] <= busy),
        (f"pace('{a}') != pace('{b}')", lambda _, m: m["pace"][0] != m["pace"][1]),
    ]
    if problem.parallel:
        found.append(("pacing == uniform", lambda p, _: p["pacing"] == "uniform"))
    if problem.machine.buffer_words is not None:
        words = some.get("storage", 9)
        found.append((f"storage <= {words}", lambda _, m: m["storage"] <= words))
        if problem.parallel:
            found.append(
                (f"program_words <= {words + 20}", lambda p, m: programs(problem, p, m) <= words + 20)
            )
            held = some.get("buffer", [9])[0]
            found.append((f"buffer('{a}') == {held}", lambda _, m: m["buffer"][0] == held))
    return found


def programs(problem: tw.AllocationProblem, plan: Json, measured: Json) -> int:
    """Return the words that programs hold: of weights a copy for each group of rows that has a row."""
    copies = sum(
        layer.weights * (min(plan["split"][layer.name][2], layer.rows) - 1)
        for layer in Pipeline(whole(problem)).layers
    )
    return int(measured["storage"] + copies)


def check(random: Random, problem: tw.AllocationProblem, methods: list[str]) -> None:
    """Solve a problem with some constraints, and compare with all its plans."""
    oracle = Pipeline(whole(problem))
    assume(len(problem.stages) == len(oracle.layers) > 1)
    try:
        plans = list(oracle.every_plan())
    except TooLarge:
        assume(False)
        raise
    chosen = random.sample(lot_of(random, problem, plans), random.randint(1, 2))
    measured = OBJECTIVES[problem.minimise]

    def on_json(kept: Callable[[Json, Json], bool]) -> Callable[[Json], bool]:
        def keeps(plan: Json) -> bool:
            splits = [(*plan["split"][each.name], *plan["units"][each.name]) for each in oracle.layers]
            return kept(plan, oracle.of_splits(splits, plan["pacing"]))

        return keeps

    cases: list[Case] = [(text, on_json(kept)) for text, kept in chosen]
    costs = ((plan, found[measured]) for plan, found in plans)
    hold_to(problem, cases, costs, methods, random.randint(0, len(methods) - 1))


@settings(max_examples=examples(200, 5))
@given(randoms)
def test_pipelines(random: Random) -> None:
    check(random, pipeline(random), METHODS)


@settings(max_examples=examples(120, 4))
@given(randoms)
def test_pipelines_with_buffers(random: Random) -> None:
    check(random, pipeline(random, buffers=True), METHODS)


# Where layers lie --------------------------------------------------------------------------------------


@settings(max_examples=examples(60))
@given(randoms)
def test_places(random: Random) -> None:
    layers = network(random, 3, 3, channels=2, kinds="ccpa")
    assume(len(layers) > 1)
    array = random.choice([[2, 2], [2, 3], [3, 3], [1, 5]])
    assume(array[0] * array[1] >= len(layers))
    table: Json = {"network": {"layers": layers}, "machine": {"array": array, "clock_mhz": 1}}
    problem = tw.AllocationProblem.model_validate(table | {"objective": {"minimise": "distance"}})
    oracle = Pipeline(whole(problem))
    names = [layer.name for layer in oracle.layers]
    assume(names == [stage.name for stage in problem.stages] and len(names) > 1)
    a, b, last = names[0], names[1], names[-1]
    y, x = (random.randrange(side) for side in array)

    def between(plan: Json, one: str, other: str) -> int:
        near = plan["regions"][one]
        return sum(min(abs(y - v) + abs(x - u) for v, u in near) for y, x in plan["regions"][other])

    lot: list[Case] = [
        (f"at('{a}', {y}, {x})", lambda p: [y, x] in p["regions"][a]),
        (f"not at('{b}', {y}, {x})", lambda p: [y, x] not in p["regions"][b]),
        (f"top('{b}') == {y}", lambda p: min(row for row, _ in p["regions"][b]) == y),
        (f"right('{a}') <= {x}", lambda p: max(column for _, column in p["regions"][a]) <= x),
        (f"left('{b}') + bottom('{a}') >= 2", lambda p: _left(p, b) + _bottom(p, a) >= 2),
        (f"hops('{a}', '{last}') >= 2", lambda p: between(p, a, last) >= 2),
        (f"hops('{b}', '{a}') % 2 == 1", lambda p: between(p, b, a) % 2 == 1),
        (f"touch('{a}', '{last}')", lambda p: a != last and _near(p["regions"][a], p["regions"][last])),
        (
            "for some r in rows: count(at(l, r, 0) for l in layers) == 1",
            lambda p: any(
                sum([row, 0] in p["regions"][name] for name in names) == 1 for row in range(array[0])
            ),
        ),
        (f"pes('{a}') == 1", lambda p: p["pes"][a] == 1),
    ]

    def plans() -> Iterator[tuple[Json, int]]:
        for regions, hops in oracle.placements():
            places = {n: [list(pe) for pe in region] for n, region in zip(names, regions, strict=True)}
            yield {"regions": places, "pes": {name: len(places[name]) for name in names}}, hops

    methods = ["floorplan@cpsat", "regions@gecode", "flows@highs", "auto"]
    try:
        hold_to(problem, random.sample(lot, random.randint(1, 2)), plans(), methods, random.randint(0, 3))
    except TooLarge:
        assume(False)


def _left(plan: Json, name: str) -> int:
    return min(column for _, column in plan["regions"][name])


def _bottom(plan: Json, name: str) -> int:
    return max(row for row, _ in plan["regions"][name])


def _near(one: list[list[int]], other: list[list[int]]) -> bool:
    return any(abs(y - v) + abs(x - u) == 1 for y, x in one for v, u in other)


# What was once answered wrongly ------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["parametric", "columns_shares@cpsat", "auto"])
def test_seven_pes_are_no_better_than_six(method: str) -> None:
    """Of 24 filters each PE has four: a PE more does not help, and none is saved by leaving it out."""
    problem = tw.read("mnist-tcpa").problem
    assert tw.solve(problem, time_limit=20).objective == 63_504
    result = tw.solve(problem.where("pes('Conv2') <= 7"), method, time_limit=30)
    assert (result.status, result.objective) == ("optimal", 84_672)
    seven = tw.solve(problem.where("pes('Conv2') == 7"), method, time_limit=30)
    assert (seven.status, seven.objective) == ("optimal", 84_672)
    assert seven.plan.to_json()["pes"]["Conv2"] == 7


def test_as_many_pes_for_two_layers() -> None:
    problem = tw.read("mnist-tcpa").problem.where("pes('Conv0') == pes('Conv2')")
    result = tw.solve(problem, time_limit=30)
    assert (result.status, result.objective) == ("optimal", 84_672)
    assert result.without_constraints["objective"] == 63_504


def test_large_networks_with_a_constraint_on_a_layer() -> None:
    """Only layers that constraints name are branched on, where no starts count."""
    problem = tw.read("resnet50-32x32").problem
    free = exhaustive(problem)
    assert free is not None
    slowest = max(problem.stages, key=lambda stage: free.plans[0].splits[stage.number].load(stage.task)).name
    pes = free.plans[0].splits[[stage.name for stage in problem.stages].index(slowest)].pes
    result = tw.solve(problem.where(f"pes('{slowest}') < {pes}"), "parametric", time_limit=30)
    assert result.status == "optimal"
    assert result.objective > free.value


def test_what_is_refused() -> None:
    with refused("constraints", "true", "are for a single plan"):
        tw.read("mnist-tcpa-pareto").problem.where("true")
    with pytest.raises(TilewrightError, match="did you mean"):
        tw.read("mnist-tcpa").problem.where("used_pe <= 3")
    for method in ("columns_pipeline@highs", "columns_balance@gecode"):
        with pytest.raises(TilewrightError, match=r"cannot honour it, as it does not state pes"):
            tw.solve(tw.read("mnist-tcpa").problem.where("pes('Conv2') <= 7"), method)
