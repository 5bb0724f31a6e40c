"""Steps that need not divide: no plan costs less than a bound says, and what is called optimal is."""

from __future__ import annotations

import json
from itertools import pairwise
from random import Random
from typing import Any

import hierarchies
import numpy as np
import pytest
from conftest import THOROUGH, examples
from hypothesis import given
from hypothesis import strategies as st

import tilewright as tw
from tilewright.report import page
from tilewright.run.instance import Instance
from tilewright.run.result import Result
from tilewright.run.solving import widening
from tilewright.run.verify import check
from tilewright.spec.layer import Layer
from tilewright.tiling import Problem
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact import any_plan
from tilewright.tiling.hierarchy.exact.any_steps import AnySteps, some_sizes, split, thinned
from tilewright.tiling.hierarchy.exact.search import Budget, Search, best_plan
from tilewright.tiling.hierarchy.exact.tables import Left, Tables
from tilewright.tiling.hierarchy.loops import LETTERS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest, window
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.tile import even_steps

GOALS = ("energy", "cycles", "edp", "accesses")
ENDLESS = float("inf")


# What is charged ---------------------------------------------------------------------------------------


@given(st.integers(1, 40), st.data())
def test_tiles_of_at_most_some_size_are_as_many_as_is_charged_and_have_as_many_rows(
    extent: int, data: st.DataObject
) -> None:
    taps, stride, dilation = (data.draw(st.integers(1, most)) for most in (5, 4, 3))
    most, left, tiles = data.draw(st.integers(1, extent)), extent, []
    while left:
        tiles.append(data.draw(st.integers(1, min(most, left))))
        left -= tiles[-1]
    layer = Layer(
        input=(1, (extent - 1) * stride + (taps - 1) * dilation + 1, 1),
        kernels=1,
        kernel=(taps, 1),
        stride=(stride, 1),
        dilation=(dilation, 1),
    )
    lattice = AnySteps(layer, [[1], [1], [1], sorted({1, most, extent}), [1], [1], [taps], [1]], chains=True)
    number = lattice.index[:, LETTERS.index("y")] == lattice.cuts[3].index(most)
    rows = sum(window(size, taps, stride, dilation) for size in tiles)
    assert lattice.charged[number, 0].tolist()[-1] <= rows
    assert lattice.counts[3, lattice.cuts[3].index(most)] <= len(tiles)


@given(st.integers(1, 3000), st.integers(2, 30))
def test_sizes_stand_for_all_sizes(extent: int, most: int) -> None:
    some = thinned(even_steps(extent), most)
    assert some[0] == 1
    assert some[-1] == extent
    assert len(some) <= max(most, 2)
    for low, after in zip(some, [*some[1:], extent + 1], strict=True):
        parts = split(extent, low, after - 1)
        assert parts[0] == low
        assert parts[-1] < after
        assert (len(parts) == 1) == (after - 1 == low)


def test_a_plan_costs_no_less_than_its_blocks_are_charged() -> None:
    """Of random plans, among ranges of sizes of all kinds; the bound of no stage is higher, either."""
    compared = exact = 0
    for seed in range(examples(300)):
        rng = Random(seed)
        machine = hierarchies.machine(rng, roomy=True)
        layer = hierarchies.long_layer(rng, 20000) if seed % 2 else hierarchies.layer(rng, 3000)
        nest = Nest(layer, machine, hierarchies.nest(rng, layer, machine, ragged=True))
        if nest.violation() or nest.outside_of_space(divide=False):
            continue
        cuts = some_sizes(layer, rng.choice([2, 3, 5, 99]))
        if rng.random() < 0.5:  # also several sizes of equally many blocks
            cuts = [sorted({*some, *rng.choices(range(1, some[-1] + 1), k=2)}) for some in cuts]
        lattice = AnySteps(layer, cuts)
        among = []
        for block in nest.blocks[:-1]:
            number = [
                np.searchsorted(cuts, block[loop], side="right") - 1
                for loop, cuts in zip(LETTERS, lattice.cuts, strict=True)
            ]
            among.append(np.arange(lattice.many) == int(np.dot(number, lattice.strides)))
        name = rng.choice([level.name for level in machine.levels if not level.fanout])
        for goal in GOALS:
            task = Task(layer, machine, goal, name)
            search = Search(Tables(task, (), lattice, Left(among, Tables(task, (), lattice).rest)))
            stages = search.stages(None, Budget())
            charged = min(search.total(stages[-1], row) for row in range(len(stages[-1].bits)))
            cost = cost_of(nest).value(goal, name)
            assert charged <= cost, (seed, goal)
            assert all(stage.least.min() <= cost * (1 + 1e-12) for stage in stages), (seed, goal)
            compared += 1
            exact += charged == cost
    assert compared > examples(300)
    assert exact


# The search --------------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("start", range(0, examples(60), 4))
def test_any_steps_agree_with_enumeration(start: int) -> None:
    compared = proven = 0
    for seed in range(start, start + 4):
        rng = Random(seed)
        machine = hierarchies.machine(rng, choosing=seed % 3 == 0, uneven=seed % 5 == 0)
        if seed % 4 == 3:
            machine = hierarchies.tight(rng)
        layer = hierarchies.layer(rng, rng.choice([8, 16, 24, 32, 48]))
        if seed % 4 == 1:
            layer = hierarchies.long_layer(rng, 60)
        name = rng.choice([level.name for level in machine.levels if not level.fanout])
        best = enumerated(layer, machine, name)
        for goal, least in best.items():
            for sizes in (2, 5):
                params = any_plan.AnyParams(sizes=sizes)
                found = any_plan.best_any_plan(Task(layer, machine, goal, name), params=params)
                assert found is not None
                assert found.bound <= least <= found.value, (seed, goal)
                nest = Nest(layer, machine, found.plan)
                assert not nest.violation()
                assert cost_of(nest).value(goal, name) == found.value
            assert relaxed(layer, machine, goal, name, least + 1) <= least, (seed, goal)
            compared += 1
            proven += found.bound == found.value
    assert proven > 0.6 * compared


def enumerated(layer: Layer, machine: HierarchyMachine, name: str, most: int = 800) -> dict[str, int]:
    """Return the least of all plans for each objective, nothing if there are too many."""
    best: dict[str, int] = {}
    for plan in hierarchies.everything(layer, machine, most, divide=False) or ():
        nest = Nest(layer, machine, plan)
        if nest.violation() is None:
            measure = cost_of(nest)
            for goal in GOALS:
                value = measure.value(goal, name)
                best[goal] = min(best.get(goal, value), value)
    return best


def relaxed(layer: Layer, machine: HierarchyMachine, goal: str, name: str, limit: int) -> int:
    """Return what the best plan is charged, where all that is not below a limit is dropped on the way."""
    found = []
    for kept in machine.choices:
        lattice = AnySteps(layer, some_sizes(layer, 99))
        search = Search(Tables(Task(layer, machine, goal, name), kept, lattice))
        if stages := search.stages(limit, Budget()):
            found += [search.total(stages[-1], row) for row in range(len(stages[-1].bits))]
    return min(found)


def test_the_best_chains_are_found() -> None:
    """All blocks but the outermost divide the one outside; among all sizes, each of them is one."""
    compared = better = 0
    for seed in range(24 if THOROUGH else 8):
        rng = Random(seed)
        machine, layer = hierarchies.machine(rng), hierarchies.layer(rng, rng.choice([8, 16, 24]))
        name = machine.levels[0].name
        best: dict[str, int] = {}
        for plan in hierarchies.everything(layer, machine, 500, divide=False) or ():
            nest = Nest(layer, machine, plan)
            if nest.violation() is None and is_chain(nest):
                measure = cost_of(nest)
                for goal in GOALS:
                    best[goal] = min(best.get(goal, 2**62), measure.value(goal, name))
        for goal, least in best.items():
            cuts = [list(range(1, extent + 1)) for extent in extents(layer).values()]
            search = Search(Tables(Task(layer, machine, goal, name), (), AnySteps(layer, cuts, chains=True)))
            stages = search.stages(None, Budget())
            rows = range(len(stages[-1].bits))
            values = [search.tables.task.value(search.plan(stages, row)) for row in rows]
            assert all(search.total(stages[-1], row) <= values[row] for row in rows)
            assert min(search.total(stages[-1], row) for row in rows) <= least <= min(values)
            compared += 1
            better += min(values) == least
    assert compared > (30 if THOROUGH else 10)
    assert better > 0.9 * compared


def is_chain(nest: Nest) -> bool:
    for loop, extent in nest.extents.items():
        sizes = [block[loop] for block in nest.blocks]
        if any(outer != extent and outer % inner for outer, inner in pairwise(sizes)):
            return False
    return True


def test_more_is_proven_than_every_nest_needs() -> None:
    """A buffer for a tenth of the layer: what is moved once is not enough."""
    layer = Layer(input=(16, 13, 13), kernels=24, kernel=(3, 3))
    levels: list[dict[str, Any]] = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 700}]
    machine = HierarchyMachine(kind="hierarchy", levels=levels)
    found = any_plan.best_any_plan(Task(layer, machine, "accesses", "dram"))
    assert found is not None
    assert lower_bound(layer, machine, "accesses", "dram") < 0.6 * found.bound
    assert found.bound == found.value


# What is told ------------------------------------------------------------------------------------------

TENSOR_CORES: dict[str, Any] = {
    "kind": "hierarchy",
    "clock_mhz": 1410,
    "macs_per_cycle": 1024,
    "bits": {"input": 16, "weights": 16, "output": 16, "partial": 32},
    "levels": [
        {"name": "hbm", "bytes_per_cycle": 1446.1},
        {"name": "l2", "capacity_bytes": 41943040, "double_buffering": True, "bytes_per_cycle": 5120.0},
        {
            "name": "sms",
            "fanout": [{"size": 12, "over": ["output_maps"]}, {"size": 9, "over": ["columns", "rows"]}],
        },
        {"name": "smem", "capacity_bytes": 167936, "double_buffering": True},
    ],
}
"""108 multiprocessors of 1024 MACs a cycle, as an A100 has."""


def product(machine: dict[str, Any], rows: int, terms: int, columns: int, **limits: str) -> Problem:
    table: dict[str, Any] = {"layer": {"input": [terms, 1, columns], "kernels": rows, "kernel": [1, 1]}}
    return Problem.model_validate(
        table | {"machine": machine, "objective": {"minimise": "cycles"}, "limits": limits}
    )


def test_auto_says_what_any_steps_gain() -> None:
    """197 is a prime: steps that divide use one PE of 16 for it."""
    one = product(hierarchies.NPU_LIKE, 197, 64, 197)
    result = tw.solve(one, time_limit=120)
    assert (result.status, result.objective, result.space) == ("optimal", 156_631, "steps that divide")
    told = dict(result._rows())
    assert told["status"] == "optimal, among steps that divide"
    assert told["gap"] == "0.00 %, among steps that divide"
    assert told["any steps"] == "11,639 cycles, 92.6 % less: --set limits.factors=any"
    again = Result.from_json(json.loads(json.dumps(result.to_json())))
    assert again.wider is not None and again.wider == result.wider
    assert (again.wider["objective"], again.wider["bound"]) == (11_639, 11_639)
    instance = Instance("tiling", "unnamed", "", one, result.instance_sha256)
    assert "No plan among steps that divide costs less" in page(instance, result)
    result.space = "any steps"
    assert ("space", "refuted") in {
        (each.what, each.state) for each in check(instance, result, numeric=False)
    }


@pytest.mark.parametrize("factors", ["perfect", "any"])
def test_who_has_chosen_the_steps_is_told_of_no_others(factors: str) -> None:
    result = tw.solve(product(hierarchies.NPU_LIKE, 197, 64, 197, factors=factors), time_limit=120)
    assert result.wider is None
    assert dict(result._rows())["status"] == f"optimal, among {result.space}"
    assert result.objective == {"perfect": 156_631, "any": 11_639}[factors]


@pytest.mark.nightly
def test_steps_that_divide_leave_multiprocessors_idle() -> None:
    """Of 12 x 9 they use 8 x 8. The chip takes 0.2818 ms, 397,338 cycles, for this product."""
    result = tw.solve(product(TENSOR_CORES, 2048, 2048, 8192), time_limit=400)
    assert (result.status, result.objective) == ("optimal", 524_288)
    assert result.wider is not None and 310_690 <= result.wider["objective"] < 397_338


def test_any_steps_that_gain_nothing_are_told_as_such() -> None:
    """Sixteen times 16 x 16 weights for 256 positions each: 4096 cycles, and 32 more for each change."""
    result = tw.solve(product(hierarchies.NPU_LIKE, 64, 64, 256), time_limit=120)
    assert result.objective == 4608
    assert dict(result._rows())["any steps"] == "nothing better, proven"


def test_who_has_no_time_for_any_steps_is_told_of_the_declared_ones() -> None:
    result = tw.solve(product(TENSOR_CORES, 2048, 2048, 8192), time_limit=0.001)
    assert result.wider is None and result.space == "steps that divide"


def test_a_stop_while_any_steps_are_looked_at_interrupts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    auto = widening.run_portfolio

    def stopped(run: Any, start: Any) -> None:
        auto(run, start)
        if run.incumbent.problem.limits.factors == "any":
            raise KeyboardInterrupt

    monkeypatch.setattr(widening, "run_portfolio", stopped)
    result = tw.solve(product(hierarchies.NPU_LIKE, 197, 64, 197), time_limit=60)
    assert (result.status, result.interrupted) == ("optimal", False)
    assert result.wider is not None and result.wider["objective"] == 11_639


def test_sums_and_outputs_that_an_instance_gives_are_bounded_together() -> None:
    levels = [
        {"name": "dram", "bytes_per_cycle": 1.0},
        {"name": "pes", "fanout": [{"size": 2, "over": ["input_maps"]}]},
        {"name": "register", "capacity_bytes": 64, "bytes_per_cycle": 1.0},
    ]
    bits = {"input": 4, "weights": 8, "output": 8, "partial": 8}
    on = HierarchyMachine.model_validate({"kind": "hierarchy", "levels": levels, "bits": bits})
    one = Layer(input=(2, 1, 1), kernels=1, kernel=(1, 1))
    found = best_plan(Task(one, on, "cycles", "dram"))
    assert found is not None and lower_bound(one, on, "cycles", "dram") <= found.value
