"""Hierarchies: closed forms, simulators and a walk agree; the exact search finds what enumeration finds."""

from __future__ import annotations

import time
import tomllib
from random import Random
from typing import Any

import hierarchies
import numpy as np
import pytest
from conftest import THOROUGH, examples, tells
from searches import proven_best, undominated
from tests.oracles import hierarchy as oracle
from tests.oracles.hierarchy import Walk

import tilewright
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.heuristics.tiling import padded
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.simulator.level_numbers import NotThereError, NumericRun
from tilewright.spec.errors import InputError, OutOfTimeError, TilewrightError
from tilewright.spec.layer import Layer
from tilewright.tiling import MACHINES, Plan, Problem, last_stage, objective, simulate, violation
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.cost import KINDS, TICKS, Cost, cost_of, shown
from tilewright.tiling.hierarchy.exact import search
from tilewright.tiling.hierarchy.exact.search import Budget, Search, best_plan
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.loops import extents
from tilewright.tiling.hierarchy.lowering import lower
from tilewright.tiling.hierarchy.machine import OBJECTIVES, HierarchyMachine
from tilewright.tiling.hierarchy.measures import break_down
from tilewright.tiling.hierarchy.nest import Nest, window
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.summary import costs_of_front, rows
from tilewright.tiling.summary import table as summary_table

LAYER: dict[str, Any] = {"input": [4, 6, 6], "kernels": 8, "kernel": [3, 3]}

MACHINE: dict[str, Any] = {
    "kind": "hierarchy",
    "mac_pj": 0.5,
    "levels": [
        {"name": "dram", "read_pj_per_byte": 64.0},
        {"name": "buffer", "capacity_bytes": 600, "double_buffering": True, "read_pj_per_byte": 2.0},
    ],
}

# What a nest moves -------------------------------------------------------------------------------------


def walked(nest: Nest) -> Walk:
    """Execute a nest element by element, by a program that knows nothing of the package."""
    table, kept = nest.given.model_dump(mode="json"), dict(nest.plan.kept)
    loops = [list(each) for each in nest.plan.nest]
    return Walk(nest.layer.model_dump(mode="json"), oracle.Machine(table, kept), loops)


def assert_as_walked(nest: Nest, seed: int) -> None:
    """Compare what is counted with a walk: what moves, what is held and how wide, and what it costs."""
    walk, cost = walked(nest), cost_of(nest)
    assert cost.tally.steps == walk.steps, seed
    for number, node in enumerate(nest.machine.nodes):
        for counted, every in ((walk.every, cost.tally.every), (walk.first, cost.tally.first)):
            for way, counts in enumerate((counted.read, counted.written)):
                expected = [counts[number][kind] for kind in KINDS]
                assert every[number, :, way].sum(axis=0).tolist() == expected, (seed, node.name)
    for (number, operand), largest in walk.largest.items():
        assert largest == nest.held(operand, number), seed
    for memory in list(nest.machine.memories)[1:]:
        level = nest.machine.nodes[memory].level
        assert nest.needed_bits(memory) == walk.held_bits(level), (seed, nest.machine.levels[level].name)
    assert (nest.overflow() is None) == walk.fits(), seed
    told = break_down(nest, cost)
    idle = [round(told[name] * TICKS) for name in ("filling_cycles", "draining_cycles")]
    assert (*idle, told["filled_cycles"]) == walk.idle(), seed
    for goal in OBJECTIVES:
        assert shown(goal, cost.value(goal, "dram")) == walk.value(goal, "dram"), (seed, goal)


@pytest.mark.parametrize("tight", [False, True])
def test_the_simulator_counts_what_a_walk_moves(tight: bool) -> None:
    complete = 0
    for seed in range(examples(240, 30)):
        rng = Random(seed)
        machine = hierarchies.tight(rng) if tight else hierarchies.machine(rng, roomy=True)
        layer = hierarchies.long_layer(rng, 100) if seed % 3 else hierarchies.layer(rng, 300)
        nest = Nest(layer, machine, hierarchies.nest(rng, layer, machine, ragged=True))
        if nest.malformed() is None and nest.outside_of_space(divide=False) is None:
            assert_as_walked(nest, seed)
            complete += any(
                nest.held_bits("output", node) < machine.bits.partial
                for node in machine.holders["output"][1:]
            )
    assert complete > 2 * tight


@pytest.mark.parametrize("ragged", [False, True])
def test_simulator_computes_the_layer(ragged: bool) -> None:
    for seed in range(examples(100)):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng, roomy=True), hierarchies.layer(rng, 500)
        nest = Nest(layer, machine, hierarchies.nest(rng, layer, machine, ragged=ragged))
        if nest.violation() or nest.outside_of_space(divide=not ragged):
            continue
        values, kernels = random_values(layer, seed)
        found = NumericRun(lower(nest), layer).run(values, kernels)
        np.testing.assert_array_equal(found, reference_convolution(layer, values, kernels))


def test_simulator_misses_a_tile_that_is_not_there() -> None:
    machine = HierarchyMachine.model_validate(MACHINE)
    layer = Layer.model_validate(LAYER)
    nest = Nest(layer, machine, HierarchyPlan(((("c", 1),), (("k", 1),))))
    program = lower(nest)
    run = NumericRun(program, layer)
    run._axes = lambda operand, spans: tuple(np.array([7 * len(spans["k"])]) for _ in range(5))  # type: ignore[method-assign]
    with pytest.raises(NotThereError):
        run.run(*random_values(layer, 0))


def test_a_walk_counts_what_is_fetched_where_tiles_slide_or_are_uneven() -> None:
    slid = uneven = 0
    for seed in range(examples(600)):
        rng = Random(seed)
        given = hierarchies.machine(rng, roomy=True, sliding=True, choosing=True, uneven=seed % 2 == 0)
        kept = rng.choice(given.choices)
        machine = given.keeping(kept)
        layer = hierarchies.overlapping(rng, 300)
        plan = HierarchyPlan(hierarchies.nest(rng, layer, machine).nest, kept)
        nest = Nest(layer, given, plan)
        if not machine.halos or nest.violation() or nest.outside_of_space():
            continue
        assert_as_walked(nest, seed)
        found = NumericRun(lower(nest), layer).run(*random_values(layer, seed))
        np.testing.assert_array_equal(found, reference_convolution(layer, *random_values(layer, seed)))
        apart = machine.model_copy(
            update={"levels": tuple(level.model_copy(update={"halo": False}) for level in machine.levels)}
        )
        uneven += any(
            len(nodes) > 1 and all(map(plan.nest.__getitem__, nodes)) for nodes in machine.memories.values()
        )
        every = cost_of(nest).tally.every
        slid += bool((cost_of(Nest(layer, apart, nest.plan)).tally.every > every).any())
    assert slid >= examples(600) // 120
    assert uneven >= examples(600) // 120


def test_window_counts_positions() -> None:
    for outputs in range(1, 6):
        for taps in range(1, 5):
            for stride in range(1, 5):
                for dilation in range(1, 4):
                    rows = {y * stride + r * dilation for y in range(outputs) for r in range(taps)}
                    assert window(outputs, taps, stride, dilation) == len(rows)


# The exact search --------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("start", range(0, examples(160), 8))
def test_exact_search_agrees_with_enumeration(start: int) -> None:
    compared = 0
    for seed in range(start, start + 8):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng), hierarchies.layer(rng, rng.choice([8, 16, 32, 64]))
        compared += agrees(layer, machine, seed)
    assert compared


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", ["plain", "choosing", "uneven"])
def test_exact_search_knows_how_wide_outputs_are(kind: str) -> None:
    """In memories that have room for complete outputs alone."""
    compared = 0
    for seed in range(examples(120)):
        rng = Random(seed)
        machine = hierarchies.tight(rng, uneven=kind == "uneven", choosing=kind == "choosing")
        layer = (
            hierarchies.long_layer(rng, 40) if seed % 2 else hierarchies.layer(rng, rng.choice([4, 8, 16]))
        )
        compared += agrees(layer, machine, seed, 1500)
    assert compared > examples(120) // 2


STAYS: dict[str, Any] = {
    "layer": {"input": [1, 3, 2], "kernels": 3, "kernel": [3, 2], "stride": [2, 1]},
    "machine": {
        "kind": "hierarchy",
        "levels": [
            {"name": "dram"},
            {
                "name": "outer",
                "double_buffering": True,
                "capacity_bytes": {"input": 4, "weights": 7, "output": 17},
            },
            {"name": "pes", "fanout": [{"size": 4, "over": ["input_maps", "kernel_columns"]}]},
            {"name": "inner", "capacity_bytes": 28},
        ],
        "bits": {"partial": 24},
    },
    "objective": {"minimise": "accesses", "level": "outer"},
}
"""The outer memory has room for three outputs twice, but not for three sums."""


def test_a_tile_that_stays_during_outer_loops_comes_complete() -> None:
    """The kernel's rows and columns go on outside, while all outputs stay in the inner memory."""
    one = Problem.model_validate(STAYS)
    plan = HierarchyPlan(((("r", 1), ("s", 1)), (), (), (("c", 1),)))
    assert violation(one, Plan((plan,))) is None
    # Six elements of input and 18 of weights come and go on, three outputs come and go out.
    assert objective(one, Plan((plan,))) == 2 * (6 + 18 + 3) == 54
    assert simulate(one, Plan((plan,))).measures.held_bytes["outer"]["output"] == 6
    assert oracle.cost(one.model_dump(mode="json"), plan.to_json()) == 54
    result = tilewright.solve(one, method="exhaustive", time_limit=60)
    assert (result.status, result.objective) == ("optimal", 54)


def test_a_memory_needs_no_room_for_sums_that_end_further_in() -> None:
    """With three bytes, where a sum has four: two terms are added up in the inner memory."""
    levels = [
        {"name": "dram"},
        {"name": "outer", "holds": ["output"], "capacity_bytes": 3},
        {"name": "inner", "holds": ["output"], "capacity_bytes": {"output": 4}},
    ]
    table = {
        "layer": {"input": [2, 1, 1], "kernels": 3, "kernel": [1, 1]},
        "machine": {"kind": "hierarchy", "levels": levels},
    }
    one = Problem.model_validate(table)
    for method in ("exhaustive", "bottom_up"):
        result = tilewright.solve(one, method=method, time_limit=60)
        assert result.objective == oracle.best(one.model_dump(mode="json")) == 15
    levels[2]["capacity_bytes"] = {"output": 3}
    with pytest.raises(InputError, match="the output of the smallest tile"):
        Problem.model_validate(table)


def test_what_no_plan_fits_is_infeasible_or_refused() -> None:
    """Five terms, of which an array of two and three PEs adds up all at once only in unequal parts."""
    levels = [
        {"name": "dram"},
        {"name": "inner", "holds": ["output"], "capacity_bytes": 1},
        {"name": "pes", "fanout": [{"size": 2, "over": ["input_maps"]}, {"size": 3, "over": ["input_maps"]}]},
        {"name": "register", "holds": ["input"], "capacity_bytes": 1},
    ]
    table: dict[str, Any] = {
        "layer": {"input": [5, 1, 1], "kernels": 2, "kernel": [1, 1]},
        "machine": {"kind": "hierarchy", "levels": levels},
    }
    perfect = tilewright.solve(Problem.model_validate(table), time_limit=60)
    assert perfect.status == "infeasible"
    assert oracle.best(Problem.model_validate(table).model_dump(mode="json")) is None
    uneven = Problem.model_validate(table | {"limits": {"factors": "any"}})
    result = tilewright.solve(uneven, method="exhaustive", time_limit=60)
    assert result.objective == oracle.best(uneven.model_dump(mode="json"))
    assert result.status == "optimal"


@pytest.mark.nightly
def test_exact_search_decides_what_is_held() -> None:
    compared = 0
    for seed in range(examples(60)):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng, choosing=True), hierarchies.layer(rng, rng.choice([8, 16]))
        compared += len(machine.choices) > 1 and agrees(layer, machine, seed, 4000)
    assert compared > 4


@pytest.mark.by_day(1)
@pytest.mark.parametrize("start", range(0, 40, 10))
def test_exact_search_slides_tiles(start: int) -> None:
    compared = 0
    for seed in range(start, start + 10):
        rng = Random(seed)
        machine = hierarchies.machine(rng, sliding=True)
        layer = hierarchies.overlapping(rng, rng.choice([16, 32, 64]))
        compared += bool(machine.halos) and agrees(layer, machine, seed, 3000)
    assert compared


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", [21, 34, 43, 47, 51, 59])
def test_exact_search_orders_uneven_tiles(seed: int) -> None:
    """Of machines and layers with few plans."""
    rng = Random(seed)
    machine = hierarchies.machine(rng, uneven=True, sliding=seed % 3 == 0, choosing=seed % 4 == 0)
    assert agrees(hierarchies.layer(rng, rng.choice([4, 8, 12])), machine, seed, 600)


def test_a_tile_of_another_block_makes_room() -> None:
    """Seven bytes have all four weights, two inputs and one output, but not both outputs of the inputs."""
    layer = Layer(input=(2, 1, 2), kernels=2, kernel=(1, 1))
    machine = HierarchyMachine.model_validate(
        {"kind": "hierarchy", **memory(capacity_bytes=7), "bits": {"partial": 8}, "mac_pj": 1.0}
    )
    uneven = machine.with_(levels=(machine.levels[0], machine.levels[1].with_(uneven=True)))
    assert agrees(layer, uneven, 0, 1000)
    costs = [best_plan(Task(layer, each, "accesses", "dram")) for each in (machine, uneven)]
    assert [found and found.value for found in costs] == [16, 12]
    assert costs[1] is not None
    assert costs[1].plan.kept[0][1].index("weights") < costs[1].plan.kept[0][1].index("output")


def agrees(layer: Layer, machine: HierarchyMachine, seed: int, most: int = 2000) -> bool:
    """Compare all objectives with those of all plans, if there are few; whether that was so."""
    plans = hierarchies.everything(layer, machine, most)
    if plans is None:
        return False
    memories = [level.name for level in machine.levels if not level.fanout]
    goals = [(goal, "") for goal in ("energy", "cycles", "edp")] + [("accesses", name) for name in memories]
    best: dict[tuple[str, str], int] = {}
    for plan in plans:
        nest = Nest(layer, machine, plan)
        if nest.violation() is None:
            measure = cost_of(nest)
            for goal in goals:
                value = measure.value(*goal)
                best[goal] = min(best.get(goal, value), value)
    for goal in goals:
        found = best_plan(Task(layer, machine, *goal))
        assert (found and found.value) == best.get(goal), (seed, goal)
        if found is not None:
            assert found.proven
            assert Nest(layer, machine, found.plan).violation() is None
            # Bounds that are too high would hide behind a plan that the first pass has found.
            values: set[int] = set()
            for kept in machine.choices:
                search = Search(Tables(Task(layer, machine, *goal), kept))
                if stages := search.stages(found.value + 1, Budget()):
                    assert search.tables.least() <= found.value, (seed, goal)
                    last = range(len(stages[-1].bits))
                    values |= {search.tables.task.value(search.plan(stages, row)) for row in last}
                assert not search.stages(found.value, Budget()), (seed, goal)
            assert values == {found.value}, (seed, goal)
    return True


@pytest.mark.by_day(3)
@pytest.mark.parametrize("start", range(0, 48, 12))
def test_limits_of_cost_agree_with_enumeration(start: int) -> None:
    for seed in range(start, start + 12):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng), hierarchies.layer(rng, rng.choice([8, 16, 32]))
        level = rng.choice([level.name for level in machine.levels if not level.fanout])
        costs = []
        for plan in hierarchies.everything(layer, machine, 1000) or ():
            nest = Nest(layer, machine, plan)
            if nest.violation() is None:
                measure = cost_of(nest)
                names = ("accesses", "cycles", "energy", "edp")
                costs.append({name: measure.value(name, level) for name in names})
        for _ in range(4 if costs else 0):
            goal = rng.choice(["accesses", "cycles", "energy", "edp"])
            limits = {}
            for name in rng.sample(["accesses", "cycles", "energy"], rng.choice([1, 2, 3])):
                limits[name] = rng.choice(sorted({cost[name] for cost in costs})[:4]) + rng.choice([0, 0, -1])
            allowed = [
                cost[goal] for cost in costs if all(cost[name] <= most for name, most in limits.items())
            ]
            found = best_plan(Task(layer, machine, goal, level, limits))
            assert (found and found.value) == min(allowed, default=None), (seed, goal, limits)


NARROW = search.SearchParams(passes=((1, 1), (2, 2), (3, None)), beam=3, work=40)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("choosing", [False, True])
def test_passes_of_any_width_prove_the_same(choosing: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a complete pass may not end, and is tried again from a better plan, changes no optimum."""
    improved, given_up = Search.improved, 0

    def counted(self: Search, *arguments: Any) -> Any:
        nonlocal given_up
        try:
            return improved(self, *arguments)
        except search._TooMuchError:
            given_up += 1
            raise

    monkeypatch.setattr(Search, "improved", counted)
    for seed in range(examples(60)):
        rng = Random(seed)
        machine = hierarchies.machine(rng, choosing=choosing, uneven=seed % 4 == 0, sliding=seed % 3 == 0)
        layer, goal = hierarchies.layer(rng, 64), rng.choice(["accesses", "cycles", "energy", "edp"])
        task = Task(layer, machine, goal, "dram")
        optimum, found = best_plan(task), best_plan(task, params=NARROW)
        assert (found and found.value) == (optimum and optimum.value), seed
        if found is not None:
            assert found.proven
            assert best_plan(task, start=found, params=NARROW) == found
    assert given_up > examples(60) // 4


def test_exact_search_gives_up_in_time() -> None:
    late = Problem.model_validate({"layer": LAYER | {"input": [64, 30, 30]}, "machine": MACHINE})
    with pytest.raises(OutOfTimeError):
        MACHINES["hierarchy"].exhaustive(late, 0.0)


# Steps that do not divide -----------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.slow
def test_padded_plans_are_no_worse_and_bounds_hold() -> None:
    better = best = compared = 0
    for seed in range(16) if THOROUGH else (1, 7, 11, 14):  # quick ones, and one that gains
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng, choosing=True), hierarchies.layer(rng, rng.choice([12, 24]))
        plans = hierarchies.everything(layer, machine, 600, divide=False) or ()
        nests = [nest for plan in plans if (nest := Nest(layer, machine, plan)).violation() is None]
        measures = [cost_of(nest) for nest in nests]
        level = rng.choice([level.name for level in machine.levels if not level.fanout])
        for goal in ("accesses", "cycles", "energy", "edp") if nests else ():
            for nest, measure in zip(nests, measures, strict=True):
                assert lower_bound(layer, nest.machine, goal, level) <= measure.value(goal, level), seed
            one = Problem.model_validate(
                {
                    "layer": layer.model_dump(mode="json"),
                    "machine": machine.model_dump(mode="json"),
                    "objective": {"minimise": goal, "level": level},
                    "limits": {"factors": "any"},
                }
            )
            plan = padded.plan(one, RunContext(deadline=float("inf")))
            report = simulate(one, plan, numeric=True)
            assert report.valid
            assert report.numeric
            value = cost_of(Nest(layer, machine, plan.layers[0])).value(goal, level)
            perfect, least = (
                best_plan(Task(layer, machine, goal, level)),
                measured_least(measures, goal, level),
            )
            assert perfect is not None
            assert least <= value <= perfect.value, (seed, goal)
            compared += 1
            better += value < perfect.value
            best += value == least
    assert better
    assert best > 0.8 * compared


def measured_least(measures: list[Cost], goal: str, level: str) -> int:
    return min(measure.value(goal, level) for measure in measures)


def test_bounds_hold_for_any_steps() -> None:
    for seed in range(examples(150)):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng, roomy=True), hierarchies.layer(rng, 2000)
        nest = Nest(layer, machine, hierarchies.nest(rng, layer, machine, ragged=True))
        if nest.violation() or nest.outside_of_space(divide=False):
            continue
        measure = cost_of(nest)
        for goal in ("accesses", "cycles", "energy", "edp"):
            name = rng.choice([level.name for level in machine.levels if not level.fanout])
            assert lower_bound(layer, machine, goal, name) <= measure.value(goal, name), (seed, goal)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        ({"objective": {"minimise": "pareto", "between": ["cycles", "accesses"]}}, "one objective"),
        ({"objective": {"minimise": ["cycles", "energy"]}}, "one objective"),
        ({"limits": {"factors": "any", "at_most": {"cycles": 9000}}}, "one objective"),
        (
            {"machine": {"levels": [MACHINE["levels"][0], {**MACHINE["levels"][1], "halo": True}]}},
            "buffer.halo",
        ),
    ],
)
def test_any_steps_are_refused_with_what_needs_divisors(table: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told) as refused:
        problem(**{"limits": {"factors": "any"}, **table})
    assert refused.value.field == "limits.factors"


@pytest.mark.nightly
def test_any_steps_keep_more_pes_busy() -> None:
    levels = [
        *MACHINE["levels"],
        {"name": "array", "fanout": [{"size": 8, "over": ["rows"]}]},
        {"name": "register", "capacity_bytes": 16, "double_buffering": True},
    ]
    layer = {"input": [4, 15, 4]}
    found = {}
    for factors in ("perfect", "any"):
        one = problem(
            layer, {"levels": levels}, objective={"minimise": "cycles"}, limits={"factors": factors}
        )
        found[factors] = tilewright.solve(one, method="exhaustive", time_limit=60)
    perfect, uneven = found["perfect"], found["any"]
    assert perfect.status == "optimal"
    # With steps that divide, 13 rows are computed by a single PE; with others, by 7 PEs in two rounds.
    assert perfect.objective == 13 * 4 * 9 * 8 * 2
    assert uneven.status == "optimal"
    assert uneven.objective == 2 * 4 * 9 * 8 * 2
    assert tilewright.solve(one, method="padded", time_limit=60).objective == uneven.objective
    for method in ("levels@gecode", "chains@highs"):  # which prove something of steps that divide
        with pytest.raises(TilewrightError, match="does not take"):
            tilewright.solve(one, method=method)


def test_layers_are_not_padded_beyond_what_layers_may_be() -> None:
    layer = {"input": [1, 1, 1], "kernels": 65521, "kernel": [1, 1]}
    one = problem(layer, objective={"minimise": "accesses"}, limits={"factors": "any"})
    with pytest.raises(InputError, match=r"layer\.kernels"):
        padded.padded(one.one_layer, extents(one.one_layer) | {"c": 65538})
    plan = padded.plan(one, RunContext(deadline=time.monotonic() + 2))
    assert simulate(one, plan).valid


# Problems and plans ------------------------------------------------------------------------------------


def problem(
    layer: dict[str, Any] | None = None, machine: dict[str, Any] | None = None, **rest: Any
) -> Problem:
    return Problem.model_validate(
        {"layer": LAYER | (layer or {}), "machine": MACHINE | (machine or {})} | rest
    )


@pytest.mark.by_day(3)
@pytest.mark.parametrize("minimise", ["accesses", "cycles", "energy", "edp"])
def test_simulator_says_what_the_search_proves(minimise: str) -> None:
    one = problem(objective={"minimise": minimise})
    found = proven_best(one)
    plan = Plan(found.layers)
    assert Plan.from_json(plan.to_json()) == plan
    report = simulate(one, plan, numeric=True)
    assert report.valid
    assert report.numeric
    assert one.measured(report.measures) == objective(one, plan) == found.value


def test_accesses_of_a_level() -> None:
    values = {}
    for level in ("dram", "buffer"):
        one = problem(objective={"minimise": "accesses", "level": level})
        found = proven_best(one)
        report = simulate(one, Plan(found.layers))
        values[level] = found.value
        moved = report.measures.levels_elements[level]
        assert found.value == sum(moved.read.values()) + sum(moved.written.values())
    assert values["dram"] < values["buffer"]


@pytest.mark.parametrize(
    ("nest", "rule"),
    [
        ([[], []], "nest .. innermost"),
        ([[["output_maps", 3]], []], "factors .. dram .. 8 output_maps .. 3"),
        ([[["output_maps", 8]], []], "nest .. dram .. 8 output_maps .. 8"),
        ([[]], "nest .. 1 lists .. 2 nodes"),
    ],
)
def test_wrong_plans_are_told_why(nest: list[Any], rule: str) -> None:
    if len(nest) == 2:
        sizes = {"rows": 4, "columns": 4, "input_maps": 4, "kernel_rows": 3, "kernel_columns": 3}
        told = {name for name, _ in nest[0]}
        steps = [[name, 1] for name in sizes if name not in told]
        nest = [nest[0], nest[1] or (steps if "innermost" not in rule else [])]
        if "innermost" not in rule and "output_maps" not in dict(nest[1]):
            nest[1] = [*nest[1], ["output_maps", 1]]
    plan = Plan.from_json({"nest": nest})
    found = violation(problem(), plan)
    assert tells(found, rule)
    assert not simulate(problem(), plan).valid


def test_plans_say_what_they_keep() -> None:
    levels = [
        MACHINE["levels"][0],
        {"name": "buffer", "capacity_bytes": 600, "holds": ["output"], "may_hold": ["weights", "input"]},
    ]
    one = problem(machine={"levels": levels}, objective={"minimise": "accesses"})
    found = proven_best(one)
    plan = Plan(found.layers)
    data = plan.to_json()
    assert data["kept"] == {"buffer": ["input", "weights"]}
    assert Plan.from_json(data) == plan
    assert violation(one, plan) is None
    for kept in ({}, {"buffer": ["output"]}, {"dram": ["input"]}):
        told = violation(one, Plan.from_json(data | {"kept": kept}))
        assert told is not None
        assert told.startswith("kept: the plan holds")
    with pytest.raises(InputError, match=r"plan\.kept"):
        Plan.from_json(data | {"kept": {"buffer": ["kernels"]}})


def test_plans_say_in_which_order_uneven_tiles_lie() -> None:
    levels = [
        MACHINE["levels"][0],
        {"name": "buffer", "capacity_bytes": 36, "uneven": True, "holds": ["output", "weights", "input"]},
    ]
    one = problem(machine={"levels": levels}, objective={"minimise": "accesses"})
    found = proven_best(one)
    plan = Plan(found.layers)
    data = plan.to_json()
    order = data["kept"]["buffer"]
    assert Plan.from_json(data) == plan
    report = simulate(one, plan, numeric=True)
    assert report.numeric
    assert report.measures.accesses_elements == found.value
    assert [node.node for node in report.measures.nest] == ["dram", *(f"buffer.{each}" for each in order)]
    assert list(report.measures.held_bytes["buffer"]) == order
    shown = dict(rows(one, report.measures))
    total = sum(report.measures.held_bytes["buffer"].values())
    assert shown[f"buffer.{order[-1]}"].endswith(f"bytes, in all {total} of 36 bytes")
    for kept in ({}, {"buffer": order[:2]}, {"buffer": [*order, order[0]]}):
        told = violation(one, Plan.from_json(data | {"kept": kept}))
        assert told is not None
        assert told.startswith("kept: the plan holds")
    smaller = one.with_(machine={"levels": [levels[0], {**levels[1], "capacity_bytes": total - 1}]})
    told = violation(smaller, plan)
    assert tells(told, f"memory overflow .. buffer .. {total} bytes .. {total - 1}")


def test_loops_do_not_move_what_passes_by_from_outside_of_an_array() -> None:
    levels = [
        *MACHINE["levels"],
        {"name": "array", "fanout": [{"size": 2, "over": ["output_maps"]}]},
        {"name": "register", "capacity_bytes": 1, "holds": ["weights"]},
    ]
    machine = problem(machine={"levels": levels}).machine
    assert machine.kind == "hierarchy"
    assert machine.allowed == ("gncyxkrs", "gncyxkrs", "c", "")


def test_a_dsp_as_a_hierarchy_moves_the_same() -> None:
    """Of the DSP's plans those with tiles that divide and without halos, where no row is between windows."""
    rng, compared = Random(3), 0
    while compared < examples(200):
        layer = hierarchies.layer(rng, 2000)
        if layer.dilation != (1, 1) or any(s > k for s, k in zip(layer.stride, layer.kernel, strict=True)):
            continue
        size = extents(layer)
        tile = {
            letter: rng.choice([d for d in range(1, size[letter] + 1) if size[letter] % d == 0])
            for letter in "gncyxk"
        }
        order = "".join(rng.sample("ncyxk", 5))
        bits = {name: rng.choice([3, 8, 16]) for name in ("input", "weights", "output")}
        bits["partial"] = bits["output"] + rng.choice([0, 5, 16])
        machine = {"kind": "dsp", "memory_bytes": 1 << 20, "bits": bits}
        dsp = Problem.model_validate({"layer": layer.model_dump(mode="json"), "machine": machine})
        plan = Plan((DspPlan(tuple(tile[letter] for letter in "gncyxk"), order, "tile"),))
        levels = [
            {"name": "dram"},
            {"name": "memory", "capacity_bytes": 1 << 20, "double_buffering": True},
            {"name": "sum", "capacity_bytes": 8, "holds": ["output"]},  # in a register of the core
        ]
        as_levels = dsp.with_(machine={"kind": "hierarchy", "levels": levels, "bits": bits})
        nest = [
            [(letter, tile[letter]) for letter in "g" + order if tile[letter] < size[letter]],
            [(letter, 1) for letter in "gncyx" if tile[letter] > 1],
            [(letter, 1) for letter in "krs" if tile.get(letter, size[letter]) > 1],
        ]
        same = Plan((HierarchyPlan(tuple(map(tuple, nest))),))
        assert violation(as_levels, same) is None
        equal = dsp.with_(machine={"bits": None})
        assert objective(as_levels, same) == objective(equal, plan)
        # Bytes of each operand, and what the memory holds.
        pairs = ((as_levels, same), (dsp, plan))
        levels, one_memory = (simulate(each, own, overlapped=False).measures for each, own in pairs)
        dram = levels.levels_bytes["dram"]
        moved = {name: dram.read.get(name, 0) + dram.written.get(name, 0) for name in KINDS}
        moved["output"] += moved.pop("partial")
        assert {name: 8 * amount for name, amount in moved.items()} == one_memory.moved_bits
        assert sum(one_memory.moved_bits.values()) == objective(dsp, plan)
        held = list(Nest(layer, as_levels.machine, same.layers[0]).needed_bits(1).values())
        planned = [2 * bits for bits in one_memory.buffers_bits.values()]
        innermost = [letter for letter in "g" + order if tile[letter] < size[letter]][-1:]
        if innermost == ["k"] and all(tile[letter] == 1 for letter in "gncyx"):
            # A single sum stays in the register until it is complete; the DSP stores sums between tiles.
            planned[2] = 2 * bits["output"]
        assert held == planned
        # Equal widths are elements.
        width = rng.choice([1, 2, 4])
        same_bits = dsp.with_(machine={"bits": dict.fromkeys(bits, 8 * width)})
        assert objective(same_bits, plan) == 8 * width * objective(equal, plan)
        compared += 1


def bundled() -> list[str]:
    folder = catalogue.instances("tiling")[0].parent.parent / "machines"
    tables = {path.stem: tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml"))}
    return [name for name, table in tables.items() if table.get("kind") == "hierarchy"]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", bundled())
def test_bundled_machines_solve_layers_of_all_kinds(name: str) -> None:
    folder = catalogue.instances("tiling")[0].parent.parent / "machines"
    machine = HierarchyMachine.model_validate(tomllib.loads((folder / f"{name}.toml").read_text()))
    layers: list[dict[str, Any]] = [
        {"input": [16, 10, 10], "kernels": 32, "kernel": [3, 3], "padding": [1, 1, 1, 1], "stride": [2, 2]},
        {"input": [16, 8, 8], "kernels": 16, "kernel": [3, 3], "groups": 16, "dilation": [2, 2]},
        {"input": [24, 7, 7], "kernels": 144, "kernel": [1, 1], "batch": 2},
        {"kind": "fc", "inputs": 400, "outputs": 120, "batch": 4},
    ]
    priced = machine.mac_pj is not None
    for layer in layers:
        values = {}
        for minimise in ("accesses", "cycles", *(("energy", "edp") if priced else ())):
            one = Problem(layer=layer, machine=machine, objective={"minimise": minimise})
            found = proven_best(one)
            assert MACHINES["hierarchy"].best_bound(one).value <= found.value
            report = simulate(one, Plan(found.layers))
            assert one.measured(report.measures) == found.value == objective(one, Plan(found.layers))
            values[one] = found.value, report.measures
        for one, (value, _) in values.items():
            assert all(value <= one.measured(measures) for _, measures in values.values())


@pytest.mark.nightly
def test_fronts_agree_with_enumeration() -> None:
    several = 0
    for seed in range(16):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng), hierarchies.layer(rng, 32)
        plans = hierarchies.everything(layer, machine, 1000)
        measures = [
            cost_of(nest) for plan in plans or () if not (nest := Nest(layer, machine, plan)).violation()
        ]
        for between in (("cycles", "energy"), ("accesses", "cycles")) if measures else ():
            asked = {"minimise": "pareto", "between": between}
            one = Problem(layer=layer, machine=machine, objective=asked)
            first, second = between
            points = {(each.value(first, one.level), each.value(second, one.level)) for each in measures}
            front = undominated(points)
            found = proven_best(one)
            report = simulate(one, Plan(found.layers, front=True))
            assert costs_of_front(one, report.measures) == front, seed
            assert found.value == front[0][0] == objective(one, Plan(found.layers, front=True))
            assert MACHINES["hierarchy"].best_bound(one).value <= front[0][0]
            several += len(front) > 1
    assert several > 2


def test_lists_of_objectives() -> None:
    fastest = problem(
        machine={"levels": [{**MACHINE["levels"][0], "bytes_per_cycle": 1.0}, MACHINE["levels"][1]]}
    )
    one = fastest.with_(objective={"minimise": ["cycles", "energy"], "tolerance": 0.1})
    least = MACHINES["hierarchy"].exhaustive(fastest.with_(objective={"minimise": "cycles"}), float("inf"))
    stage = last_stage(one, float("inf"))
    assert least is not None
    assert stage is not None
    found = proven_best(stage)
    measures = simulate(stage, Plan(found.layers)).measures
    assert measures.duration_cycles <= least.value * 1.1
    assert measures.energy_aj == found.value
    tight = fastest.with_(objective={"minimise": "energy"}, limits={"at_most": {"cycles": least.value - 1}})
    assert MACHINES["hierarchy"].exhaustive(tight, float("inf")) is None


# Bad input ---------------------------------------------------------------------------------------------


def memory(**fields: Any) -> dict[str, Any]:
    return {"levels": [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 64} | fields]}


@pytest.mark.parametrize(
    ("machine", "objective", "field", "told"),
    [
        (memory(capacity_bytes=0), {}, "machine.levels.buffer.capacity_bytes", "needs 6 bytes"),
        (
            memory(capacity_bytes=5),
            {},
            "machine.levels.buffer.capacity_bytes",
            "output .. smallest tile .. 6 bytes",
        ),
        (
            memory(capacity_bytes=11, double_buffering=True),
            {},
            "machine.levels.buffer.capacity_bytes",
            "12 bytes",
        ),
        (
            memory(capacity_bytes={"input": 8, "weights": 0, "output": 8}),
            {},
            "machine.levels.buffer.capacity_bytes.weights",
            "1 bytes",
        ),
        (memory(), {"minimise": "energy"}, "objective.minimise", "prices .. 0"),
        (memory(), {"minimise": "accesses", "level": "l2"}, "objective.level", "dram, buffer"),
        (memory(), {"minimise": "pareta"}, "objective.minimise", "accesses, cycles, energy, edp, pareto"),
        (memory(), {"minimise": "pareto", "between": ["cycles", "edp"]}, "objective.between", "takes two of"),
        (memory(), {"minimise": "pareto", "between": ["cycles", "cycles"]}, "objective.between", "different"),
        (memory(), {"minimise": "cycles", "between": ["cycles", "accesses"]}, "objective.between", "is for"),
        (memory(), {"minimise": "pareto", "between": ["cycles", "energy"]}, "objective.between", "prices"),
        (memory() | {"mac_pj": 0.0}, {"minimise": "energy"}, "objective.minimise", "prices .. 0"),
        (
            memory() | {"bits": {"output": 16, "partial": 8}},
            {},
            "machine.bits.partial",
            "16 bits",
        ),
        (memory(name="dram"), {}, "machine.levels.name", "two levels"),
        (
            memory(capacity_bytes=None),
            {},
            "machine.levels.buffer.capacity_bytes",
            "first",
        ),
        (memory(holds=[]), {}, "machine.levels.buffer.holds", "at least one operand"),
        (memory(may_hold=["input"]), {}, "machine.levels.buffer.holds", "each once"),
        (memory(holds=["weights"], halo=True), {}, "machine.levels.buffer.halo", "does not hold"),
        (
            {"levels": [{"name": "dram", "halo": True}, *memory()["levels"][1:]]},
            {},
            "machine.levels.dram.halo",
            "filled from another one",
        ),
        (
            {
                "levels": [
                    {"name": "dram"},
                    {"name": "row", "fanout": [{"size": 4, "over": ["rows"]}]},
                    *memory(halo=True)["levels"][1:],
                ]
            },
            {},
            "machine.levels.buffer.halo",
            "through row, an array",
        ),
        (
            {
                "levels": [
                    {"name": "dram"},
                    *(
                        {"name": f"m{i}", "capacity_bytes": 64, "holds": [], "may_hold": ["input", "weights"]}
                        for i in range(4)
                    ),
                ]
            },
            {},
            "machine.levels.m3.may_hold",
            "these are 8",
        ),
        (
            {"levels": [{"name": "dram", "uneven": True}, *memory()["levels"][1:]]},
            {},
            "machine.levels.dram.uneven",
            "filled from another one",
        ),
        (memory(holds=["weights"], uneven=True), {}, "machine.levels.buffer.uneven", "several operands"),
        (
            {
                "levels": [
                    {"name": "dram"},
                    {"name": "row", "fanout": [{"size": 4, "over": ["rows"]}]},
                    *memory(uneven=True)["levels"][1:],
                ]
            },
            {},
            "machine.levels.buffer.uneven",
            "through row, an array",
        ),
        (
            {
                "levels": [
                    {"name": "dram"},
                    *({"name": f"m{i}", "capacity_bytes": 64, "uneven": True} for i in range(4)),
                ]
            },
            {},
            "machine.levels.m3.uneven",
            "these are 1296",
        ),
        (
            memory(uneven=True),
            {"minimise": "pareto", "between": ["accesses", "capacity"]},
            "objective.between",
            "buffer is uneven",
        ),
        (
            memory(bytes_per_cycle=4.0, read_bytes_per_cycle=2.0),
            {},
            "machine.levels.buffer.bytes_per_cycle",
            "not both",
        ),
        (
            {"levels": [{"name": "dram"}, {"name": "pes", "fanout": [{"size": 4, "over": ["rows"]}]}]},
            {},
            "machine.levels.name",
            "the last level is a memory",
        ),
        (
            {
                "levels": [
                    {"name": "dram"},
                    {"name": "pes", "capacity_bytes": 4, "fanout": [{"size": 4, "over": ["rows"]}]},
                    {"name": "buffer", "capacity_bytes": 64},
                ]
            },
            {},
            "machine.levels.pes.capacity_bytes",
            "this level is an array",
        ),
        (
            {
                "levels": [
                    {"name": "dram"},
                    {"name": "pes", "fanout": [{"size": 4, "over": ["lines"]}]},
                    {"name": "buffer", "capacity_bytes": 64},
                ]
            },
            {},
            "machine.levels[1].fanout[0].over[0]",
            "rows",
        ),
    ],
)
def test_bad_input_names_level_operand_and_what_is_enough(
    machine: dict[str, Any], objective: dict[str, Any], field: str, told: str
) -> None:
    with pytest.raises(InputError) as refused:
        Problem.model_validate(
            {
                "layer": LAYER,
                "machine": {"kind": "hierarchy", **machine},
                "objective": objective,
            }
        )
    assert refused.value.field == field
    assert tells(refused.value.limit, told)


def test_the_least_memory_that_is_named_is_enough() -> None:
    one = problem(machine=memory(capacity_bytes=6), objective={"minimise": "accesses"})
    assert MACHINES["hierarchy"].exhaustive(one, float("inf")) is not None


# What people are shown ---------------------------------------------------------------------------------


@pytest.mark.parametrize("priced", [True, False])
def test_energy_is_shown_where_it_has_prices(priced: bool) -> None:
    levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 600}]
    machine = MACHINE if priced else {"kind": "hierarchy", "levels": levels}
    layers = [{"name": "a"} | LAYER, {"name": "b", "input": [8, 4, 4], "kernels": 4, "kernel": [1, 1]}]
    for table in ({"layer": LAYER}, {"network": {"layers": layers}}):
        one = Problem.model_validate(table | {"machine": machine, "objective": {"minimise": "cycles"}})
        found = [MACHINES["hierarchy"].exhaustive(part, float("inf")) for _, part in one.parts]
        report = simulate(one, Plan(tuple(each.layers[0] for each in found if each))).measures
        assert ("energy" in dict(rows(one, report))) == priced
        assert all(
            len(line) == (7 if "network" in table else 5) + priced for line in summary_table(one, report)
        )


def test_layers_that_are_not_tiled_are_named() -> None:
    layers = [
        {"name": "conv"} | LAYER,
        {"name": "pool", "kind": "pool", "input": [8, 4, 4], "kernel": [2, 2], "stride": [2, 2]},
        {"name": "sum", "kind": "add", "inputs": ["pool", "pool_2"], "input": [8, 2, 2]},
    ]
    layers.insert(2, layers[1] | {"name": "pool_2", "inputs": ["conv"]})
    one = Problem.model_validate({"network": {"layers": layers}, "machine": MACHINE})
    found = proven_best(one.parts[0].problem)
    told = dict(rows(one, simulate(one, Plan(found.layers)).measures))
    moved = 2 * (128 + 32) + 3 * 32
    assert told["not counted"] == f"2 pool, 1 add: {moved} elements, {moved} bytes, if none is fused"
