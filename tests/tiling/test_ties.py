"""Among plans of equal objective that which moves least, then the fastest, then least energy and memory."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

import hierarchies
import pytest
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layers import everything, make, problems
from searches import proven_best
from test_between_layers import all_plans, machines, some_operations
from test_between_layers import problems as operation_problems
from tests.oracles import hierarchy as oracle

import tilewright as tw
from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, kind_of, objective, violation
from tilewright.tiling.evaluation import rank
from tilewright.tiling.halving import halved
from tilewright.tiling.hierarchy.exact import ties
from tilewright.tiling.hierarchy.exact.search import SearchParams
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan


def compared(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """What tells plans apart: the objective, and what breaks ties."""
    return (objective(problem, plan), *rank(problem, plan))


def assert_best(problem: Problem, every: list[Any]) -> None:
    """The exact search returns the best of all plans."""
    plans = [Plan((one,)) for one in every]
    least = min(compared(problem, plan) for plan in plans if violation(problem, plan) is None)
    found = proven_best(problem)
    assert compared(problem, Plan(found.layers)) == least
    assert least[1:] == rank(problem, Plan(found.layers))


@settings(max_examples=examples(40))
@given(problems(side=5, channels=2, tight=True))
def test_a_dsp_chooses_among_the_best_plans(problem: Problem) -> None:
    every = list(everything(problem, "any"))
    assume(len(every) < 3000)
    assert_best(problem, every)


def test_the_least_memory_by_hand() -> None:
    """A value and two kernels of one weight: 5 elements move; one kernel at a time, 3 lie there at once."""
    layer = {"input": [1, 1, 1], "kernels": 2, "kernel": [1, 1]}
    problem = make(layer, {"memory_bytes": 60, "double_buffering": False}, minimise="accesses")
    found = proven_best(problem)
    assert compared(problem, Plan(found.layers)) == (5, 5, 7, 3370000, 3)


@settings(max_examples=examples(60))
@given(st.data())
def test_an_npu_chooses_among_the_best_plans(data: st.DataObject) -> None:
    size, few = st.integers(1, 5), st.integers(1, 3)
    groups = data.draw(st.sampled_from([1, 1, 3]))
    deep, kernels = (1, 3) if groups == 3 else (data.draw(few), data.draw(st.integers(1, 9)))
    layer = {"input": [groups * deep, data.draw(size), data.draw(size)], "kernels": kernels, "groups": groups}
    layer |= {"kernel": [1, 1], "batch": data.draw(few)}
    machine = {"kind": "npu", "tles": 2, "tlts": data.draw(few)}
    machine |= {
        name: data.draw(st.integers(4, 60)) for name in ("input_bytes", "weights_bytes", "output_bytes")
    }
    prices = {name: data.draw(st.sampled_from([0, 1, 7])) for name in ("cycle_ps", "byte_ps", "burst_ps")}
    limits = {"schedule": data.draw(st.sampled_from(["any", "OS"]))}
    wanted = {"minimise": data.draw(st.sampled_from(["time", "accesses"]))}
    table = {"layer": layer, "machine": machine | prices, "objective": wanted, "limits": limits}
    problem = Problem.model_validate(table)
    sizes = {name: cut_of(problem.one_layer, problem.machine, name).sizes for name in PARTITIONS}
    every = [
        NpuPlan(partition, schedule, tile)  # type: ignore[arg-type]
        for partition, schedule in product(PARTITIONS, SCHEDULES)
        for tile in product(*(range(1, size + 1) for size in sizes[partition]))
    ]
    assume(any(violation(problem, Plan((one,))) is None for one in every))
    assert_best(problem, every)


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["plain", "choosing", "sliding", "uneven"])
def test_a_hierarchy_chooses_among_the_best_plans(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What uneven memories reserve breaks no ties."""
    monkeypatch.setattr(ties, "PARAMS", SearchParams(tie_seconds=600.0))
    several = 0
    for seed in range(examples(160)):
        rng = Random(seed)
        drawn = {"choosing": kind == "choosing", "sliding": kind == "sliding", "uneven": kind == "uneven"}
        on, layer = hierarchies.machine(rng, **drawn), hierarchies.layer(rng, rng.choice([8, 16, 32]))
        every = list(hierarchies.everything(layer, on, 400) or ())
        memories = [level.name for level in on.levels if not level.fanout]
        wanted = {"minimise": rng.choice(["accesses", "cycles", "energy", "edp"]), "level": memories[-1]}
        table = {"layer": layer.model_dump(mode="json"), "machine": on.model_dump(mode="json")}
        try:
            problem = Problem.model_validate(table | {"objective": wanted})
        except InputError:  # not even the smallest tile fits
            continue
        valid = [plan for one in every if violation(problem, plan := Plan((one,))) is None]
        if not valid:
            continue
        found = proven_best(problem)
        best = Plan(found.layers)
        assert violation(problem, best) is None
        many = 3 + (kind != "uneven")
        told = [compared(problem, plan)[: 1 + many] for plan in valid]
        if wanted["minimise"] == "edp":  # plans of another energy in another time are not looked at
            of = rank(problem, best)[1:3]
            told = [each for each in told if each[2:4] == of]
        assert compared(problem, best)[: 1 + many] == min(told), (seed, wanted)
        several += len({each for each in told if each[0] == min(told)[0]}) > 1
        walk = oracle.walked(problem.model_dump(mode="json"), found.layers[0].to_json())
        moved = walk.bits(walk.every.read[0] + walk.every.written[0])
        held = sum(sum(walk.held_bits(level).values()) for level in range(1, len(on.levels)))
        assert (moved, walk.cycles(), walk.energy(), held) == rank(problem, best), seed
    assert several > examples(160) // 20


def test_any_steps_are_never_worse_than_steps_that_divide_of_equal_objective(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ties, "PARAMS", SearchParams(tie_seconds=600.0))
    several = 0
    for seed in range(examples(80)):
        rng = Random(seed)
        on, layer = hierarchies.machine(rng), hierarchies.layer(rng, rng.choice([8, 16, 32]))
        every = list(hierarchies.everything(layer, on, 400) or ())
        table = {"layer": layer.model_dump(mode="json"), "machine": on.model_dump(mode="json")}
        wanted = {"minimise": rng.choice(["accesses", "cycles", "energy"])}
        try:
            problem = Problem.model_validate(table | {"objective": wanted, "limits": {"factors": "any"}})
        except InputError:  # not even the smallest tile fits
            continue
        found = kind_of(problem).exhaustive(problem, float("inf")) if every else None
        if found is None or not found.proven:
            continue
        best = compared(problem, Plan(found.layers))
        valid = [plan for one in every if violation(problem, plan := Plan((one,))) is None]
        told = {each for plan in valid if (each := compared(problem, plan))[0] == best[0]}
        assert best <= min(told, default=best), (seed, wanted)
        several += len(told) > 1
    assert several > examples(80) // 20


@settings(max_examples=examples(40))
@given(some_operations(), machines())
def test_operations_choose_among_the_best_plans(table: dict[str, Any], machine: dict[str, Any]) -> None:
    for problem in operation_problems(table, machine):
        assert_best(problem, all_plans(problem.one_operation))


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "name", ["lenet5-128-idsp", "lenet5-idsp", "lenet-nmp", "resnet8-idsp", "squeezenet-nmp"]
)
@pytest.mark.parametrize("minimise", ["accesses", "time"])
def test_no_layer_is_worse_than_in_a_simple_plan_of_equal_objective(name: str, minimise: str) -> None:
    """Whichever method meets the bound first: for LeNet on the DSP that is a heuristic."""
    problem: Problem = read(catalogue.instance("tiling", name)).problem
    wanted = "cycles" if minimise == "time" and problem.machine.kind == "dsp" else minimise
    problem = problem.with_(objective={"minimise": wanted}, machine={"vector_ops_per_cycle": 4})
    result, simple = tw.solve(problem, time_limit=60), halved(problem)
    assert result.status == "optimal" and simple is not None
    for (_, part), one, other in zip(problem.parts, result.plan.split(), simple.split(), strict=True):
        assert compared(part, one) <= compared(part, other)
        found = kind_of(part).exhaustive(part, float("inf"))
        assert found is not None and compared(part, one) == compared(part, Plan(found.layers))


@pytest.mark.nightly
def test_a_hierarchy_is_never_worse_than_simple_plans_of_equal_objective() -> None:
    """ResNet-18 in 10,540,001 cycles: any such plan may move 37 MB; halved tiles move 24.8 MB."""
    problem = Problem.model_validate(
        {
            "network": catalogue.shared("networks", "resnet18"),
            "machine": hierarchies.NPU_LIKE,
            "objective": {"minimise": "cycles"},
        }
    )
    result = tw.solve(problem, time_limit=120)
    assert (result.status, result.objective) == ("optimal", 10_540_001)
    simple = halved(problem)
    assert simple is not None
    tried = 0
    for (_, part), one, other in zip(problem.parts, result.plan.split(), simple.split(), strict=True):
        for each in (other, *catalogue.constructed(part, pytest.fail)):
            assert compared(part, one) <= compared(part, each)
            tried += 1
    assert tried == 31 + 21  # halved tiles of all, bottom_up of the layers
    assert rank(problem, result.plan)[0] <= 8 * 24_800_000
