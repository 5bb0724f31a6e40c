"""At every stage of the exact search, a partial plan's `least` is no more than its best completion costs.

What the last stage is charged says nothing of the stages before: a bound that is too high there drops plans
that would have been cheap at last.
"""

from __future__ import annotations

from random import Random
from typing import Any

import hierarchies
import pytest
from conftest import examples

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import cost_of
from tilewright.tiling.hierarchy.exact import any_plan
from tilewright.tiling.hierarchy.exact.any_steps import AnySteps
from tilewright.tiling.hierarchy.exact.lattice import Lattice
from tilewright.tiling.hierarchy.exact.search import Budget, Search
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.loops import extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.task import Task

GOALS = ("energy", "cycles", "edp", "accesses")
ROUNDED = 1 + 1e-12
"""Bounds are kept as floats."""

KINDS = ("plain", "choosing", "uneven", "sliding", "tight")


@pytest.mark.nightly
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("factors", ["perfect", "any"])
def test_no_bound_is_above_the_best_completion(factors: str, kind: str) -> None:
    if factors == "any" and kind == "sliding":
        pytest.skip("halos need steps that divide")
    compared = 0
    for seed in range(examples(160)):
        rng = Random(seed)
        machine = hierarchies.machine(
            rng, choosing=kind == "choosing", uneven=kind == "uneven", sliding=kind == "sliding"
        )
        if kind == "tight":
            machine = hierarchies.tight(rng, uneven=rng.random() < 0.3)
        layer = hierarchies.long_layer(rng, 60) if seed % 2 else hierarchies.layer(rng, 40)
        name = rng.choice([level.name for level in machine.levels if not level.fanout])
        compared += bounded(layer, machine, name, factors, seed)
    assert compared > examples(160) * 20


def bounded(layer: Layer, machine: HierarchyMachine, name: str, factors: str, seed: int) -> int:
    """Compare the `least` of all partial plans with the cheapest plan that has them; how many there were."""
    divide, compared = factors == "perfect", 0
    cheapest: dict[Any, dict[str, int]] = {}
    for plan in hierarchies.everything(layer, machine, 1000, divide=divide) or ():
        nest = Nest(layer, machine, plan)
        if nest.violation() is None:
            measure = cost_of(nest)
            costs = {goal: measure.value(goal, name) for goal in GOALS}
            for i, block in enumerate(nest.blocks[:-1]):
                known = cheapest.setdefault((plan.kept, tuple(block.values()), plan.nest[i:]), {**costs})
                known |= {goal: min(cost, known[goal]) for goal, cost in costs.items()}
    every = [list(range(1, extent + 1)) for extent in extents(layer).values()]
    for kept in machine.choices if cheapest else ():
        for goal in GOALS:
            lattice = Lattice(layer) if divide else AnySteps(layer, every)
            search = Search(Tables(Task(layer, machine, goal, name), kept, lattice))
            stages = search.stages(None, Budget())
            for number, stage in enumerate(stages[1:], 1):
                for row, least in enumerate(stage.least.tolist()):
                    block = tuple(lattice.sizes[stage.block[row]].tolist())
                    found = cheapest.get((kept, block, search.plan(stages[: number + 1], row).nest))
                    if found is not None:
                        assert least <= found[goal] * ROUNDED, (seed, goal, kept, number, block)
                        compared += 1
    return compared


def test_instances_at_the_border_of_an_array_are_fewer() -> None:
    """Of three output maps on two PEs, the last one is alone: rows of input go to three PEs, not to four."""
    layer = Layer(input=(1, 2, 1), kernels=3, kernel=(2, 1))
    levels: list[dict[str, Any]] = [
        {"name": "dram", "read_pj_per_byte": 7},
        {"name": "pes", "fanout": [{"size": 2, "over": ["output_maps"]}]},
        {
            "name": "inner",
            "read_pj_per_byte": 7,
            "holds": ["input", "output"],
            "capacity_bytes": 1000,
        },
    ]
    machine = HierarchyMachine(kind="hierarchy", levels=levels)
    found = any_plan.best_any_plan(Task(layer, machine, "energy", "dram"))
    assert found is not None
    assert found.value == found.bound == 385_000_000


def test_more_blocks_than_needed_may_have_fewer_rows() -> None:
    """Six rows as 4 and 2, taps three rows apart: 7 and 4 rows of input, where 3 and 3 take 6 each.

    As many blocks either way, and the array between the memories cannot cut rows.
    """
    layer = Layer(input=(1, 9, 1), kernels=2, kernel=(2, 1), dilation=(3, 1))
    levels: list[dict[str, Any]] = [
        {"name": "dram"},
        {"name": "pes", "fanout": [{"size": 2, "over": ["output_maps"]}]},
        {"name": "inner", "capacity_bytes": {"input": 7, "weights": 9, "output": 100}},
    ]
    machine = HierarchyMachine(kind="hierarchy", levels=levels)
    found = any_plan.best_any_plan(Task(layer, machine, "accesses", "dram"))
    assert found is not None
    assert found.value == found.bound == 7 + 4 + 4 + 12  # input, weights, output
