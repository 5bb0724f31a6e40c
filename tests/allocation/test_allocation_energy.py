"""Energy of pipelines: counts held to a walk through all words of all beats, searches to all plans."""

from __future__ import annotations

from collections import Counter
from functools import cache
from random import Random
from typing import Any

from allocation.pipelines_at_random import pipeline
from conftest import examples, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles import TooLarge, pipeline_traffic
from tests.oracles.allocation import Pipeline, Split

import tilewright as tw
from tilewright.allocation import objective, simulate, violation
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric

Json = dict[str, Any]
Point = tuple[int, int]

PRICES: Json = {
    "mac_fj": 1,
    "register_fj": 2,
    "hop_fj": 3,
    "buffer_read_fj": 5,
    "buffer_write_fj": 7,
    "off_chip_fj_per_byte": 11,
}
MACHINE: Json = {"array": [1, 4], "clock_mhz": 1}
LAYERS: Json = {
    "layers": [
        {"name": "a", "input": [1, 3, 3], "kernels": 2, "kernel": [2, 2]},
        {"name": "b", "kind": "pool", "kernel": [2, 2]},
    ]
}


def problem(energy: Json | None = None, objective: Json | None = None, **limits: Any) -> tw.AllocationProblem:
    machine = MACHINE | ({} if energy is None else {"energy": energy})
    goal = objective or {"minimise": "energy"}
    table = {"network": LAYERS, "machine": machine, "objective": goal, "limits": limits}
    return tw.AllocationProblem.model_validate(table)


def test_what_a_frame_takes_is_counted_by_hand() -> None:
    """Layer a: 4 beats of 8 operations; each reads 4 pixels and 8 weights, and gives 2 values."""
    found = tw.solve(problem(PRICES, pes={"a": 1, "b": 1}))
    spent = found.measures.energy
    assert spent.register_accesses == 32 * 4 + 8 * 3
    assert spent.macs_fj == 32 + 8
    # a: 16 pixels and 32 weights come, 8 values leave; b: 8 come, 2 leave.
    assert spent.hops == 16 + 32 + 8 + 8 + 2
    assert spent.buffer_reads == 4 * (4 + 8) + 8
    assert spent.buffer_writes == 9 + 8
    assert spent.off_chip_bytes == 9 + 2
    assert spent.leakage_fj is None
    assert found.objective == found.measures.energy_fj == 40 + 2 * 152 + 3 * 66 + 5 * 56 + 7 * 17 + 11 * 11
    assert "leakage not counted" in found.summary()


def test_pes_that_share_pixels_take_hops_and_turns_bring_the_weights() -> None:
    shared = tw.solve(problem(PRICES, pes={"a": 2, "b": 1})).measures.energy
    assert shared.hops == 2 * 16 + 32 + 8 + 8 + 2
    turns = tw.solve(problem(PRICES, execution="layer-by-layer", pes={"a": 1, "b": 1})).measures.energy
    assert turns.off_chip_bytes == 9 + 2 + 8
    assert turns.buffer_writes == 9 + 8 + 8 + 2


def test_leakage_grows_with_pes_and_interval() -> None:
    leaking = PRICES | {"pe_fj_per_cycle": 10, "idle_pe_fj_per_cycle": 1}
    found = tw.solve(problem(leaking, pes={"a": 2, "b": 1}))
    assert found.measures.energy.leakage_fj == found.measures.interval_cycles * (3 * 10 + 1)


def test_prices_are_needed_and_checked() -> None:
    between = ["interval", "energy"]
    with refused("objective.minimise", "energy", "machine.energy"):
        problem(None, {"minimise": "energy"})
    with refused("objective.between", between, "machine.energy"):
        problem(None, {"minimise": "pareto", "between": between})
    with refused("objective.between", between, "pareto"):
        problem(PRICES, {"minimise": "energy", "between": between})
    with refused("idle_pe_fj_per_cycle", None, "needed"):
        problem(PRICES | {"pe_fj_per_cycle": 1})
    with refused("idle_pe_fj_per_cycle", 2, "pe_fj_per_cycle .. 1"):
        problem(PRICES | {"pe_fj_per_cycle": 1, "idle_pe_fj_per_cycle": 2})


def test_prices_change_no_digest_of_problems_without_them() -> None:
    assert "energy" not in problem(None, {"minimise": "interval"}).machine.told()


# Against all plans -----------------------------------------------------------------------------------------


def every_point(asked: tw.AllocationProblem) -> list[tuple[Point, Json]]:
    """Return interval and energy of all plans."""
    oracle = Pipeline(asked.model_dump(mode="json"))
    assume(len(asked.stages) == len(oracle.layers) > 1)

    @cache
    def of_layer(number: int, split: Split) -> Any:
        return pipeline_traffic.of_layer(oracle, oracle.layers[number], split)

    found = []
    try:
        for plan, measured in oracle.every_plan():
            splits = [Split(*plan["split"][each.name], *plan["units"][each.name]) for each in oracle.layers]
            counts: Counter[str] = Counter()
            for number, split in enumerate(splits):
                counts.update(of_layer(number, split))
            spent = pipeline_traffic.energy(oracle, counts, measured["interval"], measured["used"])
            found.append(((measured["interval"], spent), plan))
    except TooLarge:
        assume(False)
    return found


def undominated(points: list[Point]) -> list[Point]:
    kept: list[Point] = []
    for point in sorted(set(points)):
        if not kept or point[1] < kept[-1][1]:
            kept.append(point)
    return kept


def agree(asked: tw.AllocationProblem) -> None:
    points = every_point(asked)
    found = parametric.solve(asked, RunContext())
    if not points:
        assert found.status == "infeasible"
        return
    assert found.status == "optimal"
    assert violation(asked, found.plan) is None
    report = simulate(asked, found.plan)
    assert report.violation is None
    if asked.minimise == "energy":
        least = min(spent for (_, spent), _ in points)
        assert objective(asked, found.plan) == found.bound == report.measures.energy_fj == least
        return
    front = undominated([point for point, _ in points])
    assert [(p.interval_cycles, p.energy_fj) for p in report.measures.front] == front


@settings(max_examples=examples(300, 10))
@given(randoms)
def test_least_energy_and_fronts_are_those_of_all_plans(random: Random) -> None:
    agree(pipeline(random, wide=3, goals=("energy", "energy", "pareto")))


@settings(max_examples=examples(200, 5))
@given(randoms)
def test_least_energy_where_buffers_are_limited(random: Random) -> None:
    agree(pipeline(random, buffers=True, goals=("energy", "energy", "pareto")))


@settings(max_examples=examples(300, 10))
@given(randoms)
def test_least_energy_where_layers_wait_for_the_host(random: Random) -> None:
    agree(pipeline(random, host=True, buffers=random.random() < 0.3, goals=("energy", "energy", "pareto")))


@settings(max_examples=examples(200, 4))
@given(randoms)
def test_any_plan_takes_what_the_walk_counts(random: Random) -> None:
    asked = pipeline(random, goals=("energy",), host=random.random() < 0.3)
    points = every_point(asked)
    assume(points)
    (interval, spent), table = random.choice(points)
    plan = tw.AllocationPlan.from_json(table)
    assert objective(asked, plan) == spent
    measures = simulate(asked, plan).measures
    assert (measures.interval_cycles, measures.energy_fj) == (interval, spent)


@settings(max_examples=examples(100, 5))
@given(randoms)
def test_constraints_on_energy(random: Random) -> None:
    asked = pipeline(random, goals=("interval", "energy", "pes", "latency"))
    points = every_point(asked)
    assume(points and "frames_per_second" not in asked.objective.model_fields_set)
    most = random.choice(points)[0][1]
    found = parametric.solve(asked.where(f"energy <= {most}"), RunContext())
    assert found.status == "optimal"
    assert pipeline_energy(asked, found.plan) <= most
    if asked.minimise == "interval":
        assert objective(asked, found.plan) == min(it for (it, spent), _ in points if spent <= most)


@settings(max_examples=examples(150, 3))
@given(randoms)
def test_columns_buffers_keeps_what_constraints_say_of_energy(random: Random) -> None:
    asked = pipeline(random, buffers=True, goals=("interval", "energy"))
    assume(catalogue.suits(catalogue.formulation("allocation", "columns_buffers"), asked))
    points = every_point(asked)
    assume(points)
    some = random.choice(points)[0][1]
    says, keeps = random.choice(
        [
            (f"energy <= {some}", lambda spent: spent <= some),
            (f"energy >= {some}", lambda spent: spent >= some),
            (f"energy == {some}", lambda spent: spent == some),
            (f"energy in {{{some}, {some + 1}}}", lambda spent: spent in (some, some + 1)),
        ]
    )
    place = ("interval", "energy").index(asked.minimise)
    least = min(point[place] for point, _ in points if keeps(point[1]))
    found = tw.solve(asked.where(says), "columns_buffers@highs", confirm=False, warm_start="none")
    assert (found.status, found.objective) == ("optimal", least), says
    assert keeps(pipeline_energy(asked, found.plan))


def pipeline_energy(asked: tw.AllocationProblem, plan: tw.AllocationPlan) -> int:
    found: int = simulate(asked, plan).measures.energy_fj
    return found
