"""Attention as one step on a hierarchy: the search against all steps of an oracle, numbers, command line."""

from __future__ import annotations

import random
from typing import Any

from conftest import examples
from hierarchies import everything
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import Refused
from tests.oracles import attention_step as oracle

from tilewright.spec.layer import Layer
from tilewright.tiling.attention.blocks import Walk
from tilewright.tiling.attention.bounds import any_schedule
from tilewright.tiling.attention.execution import Counting, computes
from tilewright.tiling.attention.plan import AttentionPlan, Blocks
from tilewright.tiling.attention.search import Goal, Search, best_step, outside_of_space
from tilewright.tiling.attention.step import Frame, Step, flow_of, within
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.cost import cost_of, prices
from tilewright.tiling.hierarchy.exact.search import best_plan
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.operations.operation import Attention, Operation

NEVER = float("inf")


def attention(rng: random.Random, most: int = 6) -> Attention:
    """Draw small attention: heads that share keys, masks, few or many queries."""
    queries, keys = rng.choice([1, rng.randint(1, most)]), rng.randint(1, most)
    softmax = Operation(
        op="softmax", inputs=((keys, 1, queries),), output=(keys, 1, queries), windowed=True,
        along=("channels",), work=4 * keys * queries,
    )  # fmt: skip
    return Attention(
        matrices=rng.randint(1, 2),
        heads=rng.randint(1, 3),
        queries=queries,
        keys=keys,
        depth=rng.randint(1, 3),
        values=rng.randint(1, 3),
        causal=rng.choice([None, None, 0, 1, 2]),
        between=(softmax,),
    )


def machine(rng: random.Random, *, passing: bool = True) -> HierarchyMachine:
    """Draw a machine with one or two memories at which scores can stay, and one within for products.

    Keys and values may pass memories by.
    """

    def priced(table: dict[str, Any]) -> dict[str, Any]:
        table["read_pj_per_byte"] = rng.choice([0.5, 2, 10])
        if rng.random() < 0.7:
            table["bytes_per_cycle"] = rng.choice([0.5, 1, 2.4, 8])
        return table

    names = ["outer", "inner"][: rng.choice([1, 1, 2])]
    levels = [priced({"name": "dram"})]
    for name in names:
        room = rng.choice([rng.randint(10, 60), rng.randint(20, 200)])
        twice = rng.random() < 0.5
        levels.append(priced({"name": name, "capacity_bytes": room, "double_buffering": twice}))
        if rng.random() < 0.3:
            levels[-1] |= {"holds": ["output", "input"], "may_hold": ["weights"]}
        elif passing and rng.random() < 0.4:
            levels[-1]["holds"] = ["input", "output"]
    if rng.random() < 0.5:
        levels.append({"name": "pes", "fanout": [{"size": 2, "over": ["output_maps", "input_maps"]}]})
    held = rng.choice([["weights"], ["input", "weights", "output"]])
    levels.append(priced({"name": "register", "capacity_bytes": 64, "holds": held}))
    table: dict[str, Any] = {"kind": "hierarchy", "levels": levels, "mac_pj": 0.5}
    table["bits"] = {
        "input": rng.choice([4, 8]), "weights": 8, "output": 8, "partial": rng.choice([8, 16, 24]),
    }  # fmt: skip
    if rng.random() < 0.8:
        table |= {"vector_ops_per_cycle": rng.choice([1, 4])}
        if rng.random() < 0.3:
            table["vector_level"] = rng.choice(names)
    return HierarchyMachine.model_validate(table)


def told(one: Attention, on: HierarchyMachine) -> dict[str, Any]:
    return {"attention": one.model_dump(mode="json"), "machine": on.model_dump(mode="json")}


def step_of(one: Attention, on: HierarchyMachine, plan: AttentionPlan) -> Step:
    assert plan.blocks is not None
    return Step(on, Walk(one, plan.blocks), plan.scores, plan.context)


@settings(max_examples=examples(300, 10))
@given(st.integers(0, 2**32))
def test_no_step_of_all_that_there_are_moves_less(seed: int) -> None:
    rng = random.Random(seed)
    one, on = attention(rng), machine(rng, passing=False)
    found = best_step(one, on, Goal("accesses", "dram", False))
    assert (None if found is None else found.value) == oracle.best(told(one, on))
    if found is not None:
        assert found.bound == found.value >= any_schedule(one, on)


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_a_step_is_what_a_walk_over_its_elements_says(seed: int) -> None:
    rng = random.Random(seed)
    one, on = attention(rng), machine(rng)
    every = list(oracle.space(told(one, on)))
    for table in rng.choices(every, k=3) if every else ():
        blocks = Blocks.from_json(table, None)
        try:
            walked = oracle.walk(told(one, on), table)
        except Refused:
            walked = None
        if outside_of_space(one, on, blocks) is not None:
            assert walked is None
            continue
        frame = Frame(on, Walk(one, blocks))
        assert (walked is None) == (frame.overflow() is not None)
        if walked is not None:
            assert sum(frame.held_bits().values()) == walked.bits()
            assert sum(frame.flow.brought.values()) == walked.accesses == frame.accesses("dram")


@settings(max_examples=examples(150, 4))
@given(st.integers(0, 2**32))
def test_the_best_step_is_the_best_of_all_and_computes_attention(seed: int) -> None:
    rng = random.Random(seed)
    one, on = attention(rng, 4), machine(rng)
    goal = Goal(
        rng.choice(["cycles", "energy", "accesses"]),
        rng.choice([each.name for each in on.levels if not each.fanout]),
        False,
    )
    found = best_step(one, on, goal)
    search = Search(one, on, goal, NEVER)
    costs = []
    for table in oracle.space(told(one, on)):
        blocks = Blocks.from_json(table, None)
        if outside_of_space(one, on, blocks) is None and Frame(on, Walk(one, blocks)).overflow() is None:
            of_blocks = search._found(blocks)
            if of_blocks is not None:
                costs.append(of_blocks.value)
                assert search._cost(blocks, search._at_once) <= of_blocks.bound
                assert search._cost(blocks, search._at_least) <= of_blocks.bound <= of_blocks.value
    assert (None if found is None else found.value) == min(costs, default=None)
    if found is None:
        return
    assert found.bound <= found.value
    step = step_of(one, on, found.plan)
    counts = Counting(step)
    flow, closed = counts.flow(), flow_of(on, step.walk)
    assert flow.brought == closed.brought and flow.products == closed.products
    assert step.costs(goal.level) == Step(on, step.walk, found.plan.scores, found.plan.context, flow).costs(
        goal.level
    )
    assert all(size <= step.walk.held[name] for name, size in counts.held.items())
    if one.causal is None:
        assert dict(counts.held) == {name: size for name, size in step.walk.held.items() if size}
    assert computes(step, seed, NEVER)
    assert AttentionPlan.from_json(found.plan.to_json()) == found.plan


@settings(max_examples=examples(200, 6))
@given(st.integers(0, 2**32))
def test_weights_that_pass_a_memory_by_cost_what_they_cost_where_others_stop_there(seed: int) -> None:
    rng = random.Random(seed)
    on = next(found for _ in range(1000) if _passes(found := machine(rng)))
    level = on.levels[1]
    inner = within(on, level.name, sums=False)
    layer = Layer(input=(rng.randint(1, 3), 1, rng.randint(1, 4)), kernels=rng.randint(1, 4), kernel=(1, 1))
    # The same with input and output in the outermost memory, from which they come once and leave once.
    roomy = level.model_copy(update={"capacity_bytes": 2**30, "double_buffering": True})
    whole = on.model_copy(update={"levels": (on.levels[0], roomy, *on.levels[2:])})
    goal = rng.choice(["energy", "accesses", "cycles"])
    names = [each.name for each in on.levels if not each.fanout]
    task = Task(layer, inner, goal, rng.choice(names))
    found = best_plan(task)
    every = everything(layer, inner, 3000)
    fitting = (plan for plan in every or () if _fits(Nest(layer, inner, plan)))
    least = min(map(task.value, fitting), default=None)
    if every is not None:
        assert (None if found is None else found.value) == least
    if found is None:
        return
    plan = found.plan
    counts = [cost_of(Nest(layer, inner, plan))]
    counts.append(cost_of(Nest(layer, whole, HierarchyPlan(((), *plan.nest), plan.kept))))
    own, other = counts
    given, made = layer.input[0] * layer.input[2], layer.kernels * layer.input[2]
    bits = on.bits
    (read, written), (own_read, own_written) = prices(on.levels[0]), prices(level)
    moved = given * bits.input * (read + own_written) + made * bits.output * (own_read + written)
    assert own.energy == other.energy - moved
    for name, times in ((on.levels[0].name, 1), (level.name, 1)):
        assert own.accesses(name) == other.accesses(name) - times * (given + made)
    bounds = (lower_bound(layer, inner.keeping(kept), goal, task.level) for kept in inner.choices)
    assert min(bounds) <= found.value


def _fits(nest: Nest) -> bool:
    return not (nest.malformed() or nest.outside_of_space() or nest.overflow())


def _passes(on: HierarchyMachine) -> bool:
    return on.levels[1].holds == ("input", "output") and not on.levels[1].may_hold
