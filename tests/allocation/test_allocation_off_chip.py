"""What pipelines stream and spill: plans held to a walk through beats, the search to all choices."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import chain, combinations, product
from random import Random
from typing import Any

from allocation.pipelines_at_random import loads_of_plans, prices, with_border
from conftest import examples, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.oracles.allocation import Pipeline, Split
from tests.oracles.pipeline_traffic import Border
from tests.oracles.pipeline_traffic import energy as energy_of

import tilewright as tw
from tilewright import codegen
from tilewright.allocation import objective, simulate, violation
from tilewright.allocation.energy import energy
from tilewright.core.context import RunContext
from tilewright.models.allocation import parametric

Json = dict[str, Any]

LAYERS: Json = {
    "layers": [
        {"name": "a", "input": [1, 4, 4], "kernels": 2, "kernel": [1, 1]},
        {"name": "b", "kernels": 3, "kernel": [3, 3]},
    ]
}


def problem(rate: int, buffer_bytes: int | None = None, **limits: Any) -> tw.AllocationProblem:
    machine = {"array": [1, 2], "clock_mhz": 1, "off_chip": {"mb_per_s": rate}}
    if buffer_bytes is not None:
        machine["buffer_bytes"] = buffer_bytes
    return tw.AllocationProblem.model_validate({"network": LAYERS, "machine": machine, "limits": limits})


def test_a_link_that_is_fast_enough_sets_no_interval() -> None:
    """The load of b, 4 positions of 54 operations, is the longest."""
    found = tw.solve(problem(1000))
    assert (found.status, found.objective) == ("optimal", 216)
    assert found.measures.off_chip.bytes_per_frame == 16 + 12
    assert (found.plan.streamed, found.plan.spilled) == ((), ())
    # Weights, three rows of a's output but for what its fourth row waits for, a pixel of the input.
    assert found.measures.storage_words >= 2 + 54 + 2 * 9 + 1


def test_what_does_not_fit_is_streamed_or_spilled() -> None:
    """54 weights of b cross the border at each of 4 positions; a's output would take 2 * 32 bytes only."""
    streams = tw.solve(problem(1, 60))
    assert streams.status == "optimal"
    assert streams.plan.streamed == ("b",)
    assert streams.measures.off_chip.bytes_per_frame == 28 + 4 * 54 == streams.objective
    turns = tw.solve(problem(1, 90, execution="layer-by-layer"))
    assert turns.status == "optimal"
    assert turns.objective == turns.measures.interval_cycles
    assert turns.plan.spilled == ("input", "b")
    assert turns.measures.storage_words <= 90
    assert tw.solve(problem(1, 20)).status == "infeasible"


def test_what_is_not_decided_together_is_refused() -> None:
    known = problem(5)
    with refused("objective.minimise", "latency", "machine.off_chip .. interval"):
        known.with_(objective={"minimise": "latency"})
    with refused("limits.splits", ["rows"], "machine.off_chip"):
        known.with_(limits={"splits": ["rows"]})


def test_programs_of_pes_are_refused() -> None:
    known = problem(5)
    plan = tw.solve(known).plan
    with refused("machine.off_chip", {"mb_per_s": 5}, "programs"):
        codegen.project("x", "", known, plan)


def test_plans_that_stream_what_there_is_not_are_invalid() -> None:
    known = problem(5)
    plan = tw.solve(known).plan
    table = plan.to_json()
    for change in ({"streamed": ["x"]}, {"spilled": ["b"]}, {"pacing": "matched"}):
        broken = violation(known, tw.AllocationPlan.from_json(table | change))
        assert broken is not None and broken.startswith("off chip")
    without = known.with_(machine={"off_chip": None})
    assert "machine.off_chip" in str(
        violation(without, tw.AllocationPlan.from_json(table | {"streamed": ["a"]}))
    )


# Against all choices ---------------------------------------------------------------------------------------


Kept = Callable[[set[str], set[str], int], bool]
"""Whether a choice is admitted: what is streamed and spilled, and the bytes of a frame."""


def subsets(names: list[str]) -> list[set[str]]:
    return [set(some) for some in chain.from_iterable(combinations(names, n) for n in range(len(names) + 1))]


def all_intervals(asked: tw.AllocationProblem, kept: Kept = lambda *_: True) -> list[int]:
    """Return the intervals of all plans that keep the limits, and what is asked of their choices."""
    oracle = Pipeline(asked.model_dump(mode="json"))
    assume(len(asked.stages) == len(oracle.layers) > 1)
    border = Border(oracle)

    @cache
    def measured(loads: tuple[int, ...], streamed: frozenset[str], spilled: frozenset[str]) -> Any:
        return border.measured(list(loads), set(streamed), set(spilled))

    loads = loads_of_plans(oracle)
    heavy = [layer.name for layer in oracle.layers if layer.weights]
    maps = [layer.name for layer in oracle.layers if oracle.readers[layer.number] or not oracle.parallel]
    maps += [] if oracle.parallel else ["input"]
    assume(len(heavy) + len(maps) <= 6 and len(loads) <= 40)
    found = []
    for streamed, spilled in product(subsets(heavy), subsets(maps)):
        for each in loads:
            interval, moved, words = measured(each, frozenset(streamed), frozenset(spilled))
            fits = kept(streamed, spilled, moved) and (oracle.words is None or words <= oracle.words)
            if fits and (oracle.most is None or interval <= oracle.most):
                found.append(interval)
    return found


@settings(max_examples=examples(300, 10))
@given(randoms)
def test_least_interval_is_that_of_all_choices(random: Random) -> None:
    agree(with_border(random))


def agree(asked: tw.AllocationProblem) -> None:
    intervals = all_intervals(asked)
    found = parametric.solve(asked, RunContext())
    if not intervals:
        assert found.status == "infeasible"
        return
    assert found.status == "optimal"
    assert objective(asked, found.plan) == found.bound == min(intervals)
    executed(asked, found.plan)


@settings(max_examples=examples(150, 4))
@given(randoms)
def test_constraints_on_what_stays(random: Random) -> None:
    asked = with_border(random)
    first, last = asked.stages[0].name, asked.stages[-1].name
    few = random.randint(10, 300)
    say, kept = random.choice(
        [
            (f"weights_stay('{last}')", lambda streamed, spilled, moved: last not in streamed),
            (f"not weights_stay('{first}')", lambda streamed, spilled, moved: first in streamed),
            ("for all m in maps: not spilled(m)", lambda streamed, spilled, moved: not spilled),
            (f"off_chip_bytes <= {few}", lambda streamed, spilled, moved: moved <= few),
        ]
    )
    if "off_chip_bytes" in say:  # else whole bytes of each turn are more
        assume(asked.parallel or asked.machine.word_bits % 8 == 0)
    intervals = all_intervals(asked, kept)
    found = parametric.solve(asked.where(say), RunContext())
    assert found.status == ("optimal" if intervals else "infeasible"), say
    if intervals:
        assert objective(asked, found.plan) == min(intervals), say
    hold_model(asked.where(say), intervals)


@settings(max_examples=examples(300, 5))
@given(randoms)
def test_models_find_the_least_interval(random: Random) -> None:
    asked = with_border(random)
    hold_model(asked, all_intervals(asked))


def hold_model(asked: tw.AllocationProblem, intervals: list[int]) -> None:
    """Hold the model for HiGHS to the intervals of all plans."""
    model = f"columns_{'border' if asked.parallel else 'turns'}@highs"
    found = tw.solve(asked, model, time_limit=60, confirm=False)
    assert found.status == ("optimal" if intervals else "infeasible"), asked.constraints
    if intervals:
        assert found.objective == objective(asked, found.plan) == min(intervals), asked.constraints


def executed(asked: tw.AllocationProblem, plan: tw.AllocationPlan) -> None:
    """Hold the execution of a plan to the walk: its interval, its bytes and its words."""
    report = simulate(asked, plan, numeric=True)
    assert report.violation is None and report.numeric is not False
    oracle = Pipeline(asked.model_dump(mode="json"))
    loads = [each.load_cycles for each in report.measures.layers.values()]
    interval, moved, words = Border(oracle).measured(loads, set(plan.streamed), set(plan.spilled))
    assert report.measures.interval_cycles == interval
    assert report.measures.storage_words == words
    if not (asked.parallel or asked.machine.word_bits % 8 == 0):  # whole bytes of each turn are more
        return
    assert report.measures.off_chip.bytes_per_frame == moved
    if asked.machine.energy is not None:
        splits = tuple(Split(*split) for split in plan.splits)
        used = (sum if asked.parallel else max)(split.pes for split in splits)
        counts = Border(oracle).counted(splits, moved, set(plan.streamed), set(plan.spilled))
        spent = energy_of(oracle, counts, interval, used)
        assert report.measures.energy_fj == spent == energy(asked, plan, interval)


@settings(max_examples=examples(200, 4))
@given(randoms)
def test_any_plan_moves_what_the_walk_counts(random: Random) -> None:
    asked = with_border(random)
    assume(len(asked.stages) == len(Pipeline(asked.model_dump(mode="json")).layers))
    machine = {"buffer_bytes": None, "energy": prices(random)}
    free = asked.with_(machine=machine, objective={"frames_per_second": None})
    plan = parametric.solve(free, RunContext()).plan
    assume(plan is not None)
    table = plan.to_json()
    heavy = [stage.name for stage in free.stages if stage.weights]
    maps = [stage.name for stage in free.stages if free.consumers[stage.number] or not free.parallel]
    table |= {"streamed": [name for name in heavy if random.random() < 0.5]}
    table |= {
        "spilled": [name for name in [*maps, *([] if free.parallel else ["input"])] if random.random() < 0.5]
    }
    other = tw.AllocationPlan.from_json(table)
    assert violation(free, other) is None
    executed(free, other)
