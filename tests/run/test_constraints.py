"""Constraints of users' own, against all plans of small problems from which oracles filter.

The predicates beside the texts are Python on a plan's JSON, and share nothing with the language.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from math import prod
from pathlib import Path
from random import Random

import pytest
from conftest import examples
from hypothesis import assume, given, settings
from numbered import randoms
from tests.command import run
from tests.constrained import Case, Json, hold_to
from tests.oracles import Refused, addresses, bitwidth, dsp, grouping

import tilewright as tw
from tilewright.spec.errors import InputError, TilewrightError

# Addresses ---------------------------------------------------------------------------------------------


def buffer_plans(problem: Json) -> Iterator[tuple[Json, int]]:
    capacity = problem["memory"]["capacity"]
    for offsets in product(range(capacity), repeat=len(problem["buffers"])):
        plan = {"offsets": list(offsets)}
        try:
            yield plan, addresses.cost(problem, plan)
        except Refused:
            continue


@settings(max_examples=examples(60))
@given(randoms)
def test_buffers(random: Random) -> None:
    count = random.randint(2, 3)
    buffers = []
    for number in range(count):
        lower = random.randint(0, 2)
        size = random.randint(1, 4)
        buffers.append(
            {"id": f"b{number}", "lower": lower, "upper": lower + random.randint(1, 3), "size": size}
        )
    problem = tw.AddressesProblem(
        buffers=buffers, memory={"capacity": random.randint(8, 12), "alignment": random.choice([1, 1, 2])}
    )
    a, b = 0, 1
    sizes = [each["size"] for each in buffers]
    lot: list[Case] = [
        ("offset('b0') % 3 == 1", lambda p: p["offsets"][a] % 3 == 1),
        ("above('b0', 'b1')", lambda p: p["offsets"][a] >= p["offsets"][b] + sizes[b]),
        (
            "gap('b0', 'b1') >= 2",
            lambda p: (
                max(
                    p["offsets"][a] - p["offsets"][b] - sizes[b], p["offsets"][b] - p["offsets"][a] - sizes[a]
                )
                >= 2
            ),
        ),
        ("offset('b0') // 4 == offset('b1') // 4", lambda p: p["offsets"][a] // 4 == p["offsets"][b] // 4),
        (
            "for some b in buffers: end(b) == 7",
            lambda p: any(o + s == 7 for o, s in zip(p["offsets"], sizes, strict=True)),
        ),
        ("height % 2 == 0", lambda p: max(o + s for o, s in zip(p["offsets"], sizes, strict=True)) % 2 == 0),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "rectangles@gecode", "stacking@highs", "boxes@cpsat"]
    plans = buffer_plans(problem.model_dump(mode="json"))
    hold_to(problem, cases, plans, methods, random.randint(0, 3))


# Grouping ----------------------------------------------------------------------------------------------


def group_plans(problem: Json) -> Iterator[tuple[Json, int]]:
    patches = sorted(grouping.Layer(problem).pixels)
    for steps in product(range(len(patches)), repeat=len(patches)):
        if set(steps) != set(range(max(steps) + 1)):
            continue
        groups = [
            [list(p) for p, step in zip(patches, steps, strict=True) if step == k] for k in sorted({*steps})
        ]
        try:
            yield {"groups": groups}, grouping.cost(problem, {"groups": groups})
        except Refused:
            continue


def step_of(plan: Json, patch: tuple[int, int]) -> int:
    return 1 + next(k for k, group in enumerate(plan["groups"]) if list(patch) in group)


@settings(max_examples=examples(60, 2))
@given(randoms)
def test_groups(random: Random) -> None:
    rows, columns = random.choice([(2, 2), (1, 4), (2, 2), (1, 5)])
    machine: Json = {"group_size": random.randint(1, 3), "load": 1, "compute": random.choice([0, 1, 3])}
    problem = tw.GroupingProblem(
        layer={"input": [1, rows + 1, columns + 1], "kernels": 1, "kernel": [2, 2]}, machine=machine
    )
    last = (rows - 1, columns - 1)
    at = f"{last[0]}, {last[1]}"
    lot: list[Case] = [
        (f"step({at}) == 2", lambda p: step_of(p, last) == 2),
        (f"same_step(0, 0, {at})", lambda p: step_of(p, (0, 0)) == step_of(p, last)),
        (f"before({at}, 0, 0)", lambda p: step_of(p, last) < step_of(p, (0, 0))),
        ("size(1) == 1", lambda p: len(p["groups"][0]) == 1),
        ("steps >= 3", lambda p: len(p["groups"]) >= 3),
        ("cost % 3 == 1", lambda p: grouping.cost(problem.model_dump(mode="json"), p) % 3 == 1),
        (
            f"step(0, 1) + step({at}) in {{3, 5}} implies steps <= 3",
            lambda p: step_of(p, (0, 1)) + step_of(p, last) not in (3, 5) or len(p["groups"]) <= 3,
        ),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "s1@highs", "gaps@cpsat", "ordered@gecode", "lives@highs", "reference@gecode"]
    plans = group_plans(problem.model_dump(mode="json"))
    hold_to(problem, cases, plans, methods, random.randint(0, 5))


# Bit widths --------------------------------------------------------------------------------------------


def width_plans(problem: Json) -> Iterator[tuple[Json, int]]:
    layers = bitwidth.weighted(problem)
    names = [layer["name"] for layer in layers]
    of_noise = problem["objective"]["minimise"] == "noise"
    for chosen in product(*(bitwidth.candidates(problem, layer).items() for layer in layers)):
        costs = sum(one for _, (one, _) in chosen), sum(one for _, (_, one) in chosen)
        if bitwidth.within(problem, costs):
            bits = {name: list(widths) for name, (widths, _) in zip(names, chosen, strict=True)}
            yield {"bits": bits}, costs[0 if of_noise else 1]


@settings(max_examples=examples(60))
@given(randoms)
def test_bits(random: Random) -> None:
    names = ["f", "g", "h"][: random.randint(2, 3)]
    sizes = [random.randint(2, 6) for _ in range(len(names) + 1)]
    layers = [
        {"name": name, "kind": "fc", "inputs": sizes[n], "outputs": sizes[n + 1]}
        for n, name in enumerate(names)
    ]
    ranges = {name: {"input": random.uniform(0.5, 8), "weights": random.uniform(0.1, 2)} for name in names}
    try:
        problem = tw.BitwidthProblem(
            network={"layers": layers},
            ranges=ranges,
            machine={"accumulator_bits": random.randint(16, 24), "widths": [4, 6, 8, 10]},
            objective={"minimise": random.choice(["noise", "bits"])},
            limits={"bound": "worst_case"} | ({"signal_to_noise_db": 20} if random.random() < 0.5 else {}),
        )
    except InputError:
        assume(False)
        raise

    def moved(plan: Json) -> int:
        """Return the bits of all inputs and weights, of which a layer has one for each pair of maps."""
        sides = zip(sizes, sizes[1:], plan["bits"].values(), strict=False)
        return sum(rows * i + rows * columns * w for rows, columns, (i, w) in sides)

    lot: list[Case] = [
        ("bits(f, weights) <= 6", lambda p: p["bits"]["f"][1] <= 6),
        ("bits(f, input) == bits(g, input)", lambda p: p["bits"]["f"][0] == p["bits"]["g"][0]),
        (
            "for all l in layers: bits(l, input) >= bits(l, weights)",
            lambda p: all(i >= w for i, w in p["bits"].values()),
        ),
        (
            "count(bits(l, weights) == 8 for l in layers) == 1",
            lambda p: sum(w == 8 for _, w in p["bits"].values()) == 1,
        ),
        (
            "bits(g, input) != 8 implies bits(f, weights) == 4",
            lambda p: p["bits"]["g"][0] == 8 or p["bits"]["f"][1] == 4,
        ),
        ("moved_bits % 3 == 1", lambda p: moved(p) % 3 == 1),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "merging", "columns_choose@gecode", "columns_knapsack@highs", "reference@gecode"]
    plans = width_plans(problem.model_dump(mode="json"))
    hold_to(problem, cases, plans, methods, random.randint(0, 4))


# A DSP -------------------------------------------------------------------------------------------------


def tile_plans(problem: Json) -> Iterator[tuple[Json, int]]:
    layer = dsp.Layer(problem)
    for step, order, reuse in dsp.plans(problem, layer):
        plan = {"tile": dict(zip("gncyxk", step, strict=True)), "schedule": order, "reuse": reuse}
        try:
            yield plan, dsp.cost(problem, plan)
        except Refused:
            continue


@settings(max_examples=examples(40, 2))
@given(randoms)
def test_tiles(random: Random) -> None:
    layer = {
        "input": [random.randint(1, 3), random.randint(3, 5), random.randint(3, 5)],
        "kernels": random.randint(1, 4),
        "kernel": [random.choice([1, 2]), 2],
    }
    try:
        problem = tw.TilingProblem(
            layer=layer,
            machine=tw.DspMachine(
                memory_bytes=random.choice([48, 80, 160]), double_buffering=random.random() < 0.5
            ),
            objective={"minimise": random.choice(["accesses", "accesses", "cycles"])},
            limits={"schedule": random.choice(["any", "any", "thesis", "kc"])},
        )
    except InputError:
        assume(False)
        raise
    table = problem.model_dump(mode="json")
    sizes = dsp.Layer(table).sizes

    def steps(plan: Json) -> dict[str, int]:
        found = dsp.Layer(table).step(tuple(plan["tile"][loop] for loop in "gncyxk"))
        return dict(zip("gncyxk", found, strict=True))

    def trips(plan: Json, loop: str) -> int:
        return -(-sizes["gncyxk".index(loop)] // steps(plan)[loop])

    def costs(plan: Json) -> tuple[int, int, int]:
        """Return cycles, accesses and energy."""
        one = dsp.Layer(table)
        walk = dsp.Walk(one, tuple(steps(plan).values()), plan["schedule"], plan["reuse"])
        return dsp.measures(table, one, walk, 0)

    lot: list[Case] = [
        ("tile.rows % 2 == 1", lambda p: steps(p)["y"] % 2 == 1),
        ("tile.columns <= tile.rows", lambda p: steps(p)["x"] <= steps(p)["y"]),
        ("iterations(output_maps) >= 2", lambda p: trips(p, "c") >= 2),
        (
            "not outside(rows, columns)",
            lambda p: (
                not (
                    trips(p, "y") > 1
                    and trips(p, "x") > 1
                    and p["schedule"].index("y") < p["schedule"].index("x")
                )
            ),
        ),
        (
            "elements(output) <= 6",
            lambda p: steps(p)["n"] * steps(p)["c"] * steps(p)["y"] * steps(p)["x"] <= 6,
        ),
        ("accesses % 3 == 1", lambda p: costs(p)[1] % 3 == 1),
        ("cycles % 4 == 2", lambda p: costs(p)[0] % 4 == 2),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "exhaustive", "loops@gecode"]
    if prod(sizes) <= 32:
        methods.append("reference.dsp@gecode")
    hold_to(problem, cases, tile_plans(table), methods, random.randint(0, 3))


@settings(max_examples=examples(30, 2))
@given(randoms)
def test_what_contradicts_is_named_and_none_of_it_can_be_left_out(random: Random) -> None:
    problem = tw.TilingProblem(
        layer={"input": [2, 4, 4], "kernels": 3, "kernel": [2, 2]},
        machine=tw.DspMachine(memory_bytes=80),
        limits={"schedule": random.choice(["any", "kc", "intra"])},
    )
    table = problem.model_dump(mode="json") | {"limits": {**problem.limits.model_dump(), "schedule": "any"}}
    layer = dsp.Layer(table)

    def step(plan: Json, loop: str) -> int:
        return layer.step(tuple(plan["tile"][each] for each in "gncyxk"))["gncyxk".index(loop)]

    lot: list[Case] = [
        ("tile.rows == 2", lambda p: step(p, "y") == 2),
        ("tile.rows >= tile.columns + 1", lambda p: step(p, "y") >= step(p, "x") + 1),
        ("tile.columns in {2, 3}", lambda p: step(p, "x") in (2, 3)),
        ("tile.output_maps % 2 == 1", lambda p: step(p, "c") % 2 == 1),
        ("tile.output_maps * tile.rows == 4", lambda p: step(p, "c") * step(p, "y") == 4),
        ("tile.input_maps == 1 implies tile.rows == 1", lambda p: step(p, "k") > 1 or step(p, "y") == 1),
        ("tile.input_maps < 2", lambda p: step(p, "k") < 2),
    ]
    keeps = dict(random.sample(lot, random.randint(3, 5)))
    every = list(tile_plans(table))
    limited = {plan_key(plan) for plan, _ in tile_plans(problem.model_dump(mode="json"))}

    def feasible(names: list[str]) -> bool:
        return any(
            all(keeps[name](plan) for name in names if name in keeps)
            and ("limits.schedule" not in names or plan_key(plan) in limited)
            for plan, _ in every
        )

    said = [*keeps, *(["limits.schedule"] if problem.limits.schedule != "any" else [])]
    assume(not feasible(said))
    result = tw.solve(problem.where(*keeps), time_limit=60)
    assert result.status == "infeasible"
    told = result.contradiction
    assert told is not None
    assert told["minimal"]
    named = [list(keeps)[int(each[12:-1])] if each.startswith("con") else each for each in told["of"]]
    assert not feasible(named)
    assert all(feasible([other for other in named if other != each]) for each in named)


def plan_key(plan: Json) -> str:
    return json.dumps(plan, sort_keys=True)


# What was once answered wrongly, and the way through the product ----------------------------------------


def test_heights_that_are_multiples_of_eight() -> None:
    problem = tw.TilingProblem(
        layer={"input": [64, 56, 56], "kernels": 64, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        machine=tw.DspMachine(memory_bytes=65536),
        objective={"minimise": "accesses"},
    )
    result = tw.solve(problem.where("tile.rows % 8 == 0", because="the DMA moves eight rows"), time_limit=60)
    assert (result.status, result.objective) == ("optimal", 978_432)
    assert result.without_constraints is not None
    assert result.without_constraints["objective"] == 950_272
    assert "the DMA moves eight rows" in result.summary()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", ["s1@highs", "gaps@cpsat", "ordered@gecode", "auto"])
def test_a_side_constraint_costs_four_cycles(method: str) -> None:
    """The first and the last patch of each row are computed in one step."""
    problem = tw.read("s1-example2").problem
    result = tw.solve(problem.where("for all r in rows: same_step(r, 0, r, 2)"), method, time_limit=60)
    assert (result.status, result.objective) == ("optimal", 61)
    assert tw.solve(problem, "exact", time_limit=60).objective == 57


def test_a_command_checks_what_it_has_solved(tmp_path: Path) -> None:
    file = str(tmp_path / "plan.json")
    where = ["--where", "offset('b2') % 8 == 0"]
    assert run(tmp_path, "solve", "minimalloc-example", *where, "-o", file).returncode == 0
    stored = json.loads(Path(file).read_text())
    assert stored["constraints"] == [{"say": "offset('b2') % 8 == 0"}]
    assert run(tmp_path, "check", "minimalloc-example", file, *where).returncode == 0
    assert run(tmp_path, "check", "minimalloc-example", file).returncode == 1
    broken = stored | {"plan": {"offsets": [4, 4, 4, 4, 0, 8]}}
    Path(file).write_text(json.dumps(broken))
    assert run(tmp_path, "check", "minimalloc-example", file, *where).returncode == 1


def test_what_is_wrong_names_word_column_and_option(tmp_path: Path) -> None:
    told = run(tmp_path, "solve", "minimalloc-example", "--where", "ofset('b2') == 0")
    assert told.returncode == 2
    assert "--where 1" in told.stderr
    assert "did you mean offset" in told.stderr
    problem = tw.read("minimalloc-example").problem
    with pytest.raises(TilewrightError, match=r"constraints\[0\].say .*canonical cannot honour it"):
        tw.solve(problem.where("offset('b2') >= 3"), "canonical", warm_start="none")
    with pytest.raises(TilewrightError, match="canonical cannot honour it"):
        tw.solve(problem.where("false"), "canonical", warm_start="none")
    assert tw.solve(problem.where("false"), time_limit=20).status == "infeasible"


def test_a_limit_that_adds_plans_is_never_lifted() -> None:
    problem = tw.TilingProblem(
        layer={"input": [2, 4, 4], "kernels": 3, "kernel": [2, 2]},
        machine=tw.DspMachine(memory_bytes=80),
        limits={"schedule": "any+weights"},
    ).where("tile.rows == 2", "tile.rows == 3")
    assert problem.leaving_out == ["constraints[0]", "constraints[1]"]
    assert problem.keeping_only(["constraints[0]"]).limits.schedule == "any+weights"
