"""A constraint model for CP-SAT: the blocks of each step, and what each class of elements lives through.

It states what `held` states. Amounts of classes are whole numbers, loads are what an amount grows by.

Extras: the bound, and a horizon from a quick plan.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from ortools.sat.python import cp_model

from tilewright.offloading import Plan, Problem
from tilewright.offloading.bounds import best_bound
from tilewright.offloading.loops import last_useful_step
from tilewright.spec.constraints import Term

from ._shared import WORDS, Items, constant_cost, size, suits, why_not

WRITTEN_FOR = "cpsat"

__all__ = ["WORDS", "build", "read", "size", "start", "suits", "term", "why_not"]


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.problem, m.items = problem, Items(problem)
    fewest, most = problem.steps_range
    m.n_steps = last_useful_step(problem) if extras else most
    parts, steps = range(problem.machine.parts), range(m.n_steps)
    m.used = [m.new_constant(1) if k < fewest else m.new_bool_var(f"used[{k}]") for k in steps]
    for k in steps[1:]:
        if k >= fewest:
            m.add_implication(m.used[k], m.used[k - 1]).with_name(f"unused steps come last: {k}")
    m.has = {}
    for name, many in (
        ("patch", problem.elements.n_patches),
        ("kernel", len(m.items.kernels)),
        ("channel", len(m.items.channels)),
    ):
        for item, part, k in product(range(many), parts, steps):
            m.has[name, item, part, k] = m.new_bool_var(f"{name}[{item},{part},{k}]")
    _compute(m)
    cost = _hold(m)
    m.objective_value = cost + problem.machine.compute * sum(m.used)
    m.minimize(m.objective_value)
    if extras:
        m.add(m.objective_value >= best_bound(problem).value).with_name("bound")
    return m


def _compute(m: Any) -> None:
    """Let a block be the product of its patches, kernels and channels, and compute every cell once."""
    problem, items = m.problem, m.items
    parts, steps = range(problem.machine.parts), range(m.n_steps)
    patches, kernels, channels = (
        range(problem.elements.n_patches),
        range(len(items.kernels)),
        range(len(items.channels)),
    )
    m.adds, m.cell = {}, {}
    alone = len(kernels) == len(channels) == 1
    for part, k in product(parts, steps):
        busy = m.new_bool_var(f"busy[{part},{k}]")
        m.add_implication(busy, m.used[k])
        for name, many in (("patch", patches), ("kernel", kernels), ("channel", channels)):
            mine = [m.has[name, item, part, k] for item in many]
            m.add_bool_or([*mine, ~busy]).with_name(f"a block has a {name}: {part}, {k}")
            for one in mine:
                m.add_implication(one, busy)
        for i, j in product(patches, kernels):
            both = m.has["patch", i, part, k]
            if not alone:
                both = _all_of(m, [both, m.has["kernel", j, part, k]], f"adds[{i},{j},{part},{k}]")
            m.adds[i, j, part, k] = both
            for c in channels:
                three = both
                if not alone:
                    three = _all_of(m, [both, m.has["channel", c, part, k]], f"cell[{i},{j},{c},{part},{k}]")
                m.cell[i, j, c, part, k] = three
        _limit(m, part, k, patches, kernels, channels)
    for k in steps:
        m.add(sum(m.adds[i, j, part, k] for i in patches for j in kernels for part in parts) >= m.used[k])
        for i, j in product(patches, kernels):
            if len(parts) > 1:
                m.add_at_most_one(m.adds[i, j, part, k] for part in parts)
    for i, j, c in product(patches, kernels, channels):
        where = [m.cell[i, j, c, part, k] for part in parts for k in steps]
        m.add_exactly_one(where).with_name(f"each cell once (3): {i}, {j}, {c}")


def _all_of(m: Any, literals: list[Any], name: str) -> Any:
    both = m.new_bool_var(name)
    m.add_bool_or([both, *(~one for one in literals)])
    for one in literals:
        m.add_implication(both, one)
    return both


def _limit(m: Any, part: int, k: int, patches: range, kernels: range, channels: range) -> None:
    machine, items = m.problem.machine, m.items
    if machine.macs_per_step is not None:
        macs = sum(
            items.macs(j, c) * m.cell[i, j, c, part, k] for i in patches for j in kernels for c in channels
        )
        m.add(macs <= machine.macs_per_step).with_name(f"macs of a block (4): {part}, {k}")
    if machine.unit is not None:
        axes = (
            sum(m.has["patch", i, part, k] for i in patches),
            sum(len(items.kernels[j]) * m.has["kernel", j, part, k] for j in kernels),
            sum(len(items.channels[c]) * m.has["channel", c, part, k] for c in channels),
        )
        for axis, most in zip(axes, machine.unit, strict=True):
            m.add(axis <= most).with_name(f"unit: {part}, {k}")


def _hold(m: Any) -> Any:
    """Hold what blocks need, keep the memories, and return what loads and writes cost."""
    problem, items = m.problem, m.items
    machine, sizes = problem.machine, problem.elements
    parts, steps, memories = range(machine.parts), range(m.n_steps), range(problem.n_memories)
    there: dict[tuple[int, int], list[Any]] = {(memory, k): [] for memory in memories for k in steps}
    cost: Any = 0
    for memory in memories:
        mine = [part for part in parts if problem.memory_of(part) == memory]
        for f, (pairs, elements) in enumerate(items.inputs):
            uses = [
                [
                    (m.has["patch", i, part, k], m.has["channel", c, part, k])
                    for i, c in pairs
                    for part in mine
                ]
                for k in steps
            ]
            cost += machine.load * _live(m, f"input[{f},{memory}]", len(elements), uses, there, memory)
        if not problem.kernels_stay:
            for j, c in product(range(len(items.kernels)), range(len(items.channels))):
                uses = [
                    [(m.has["kernel", j, part, k], m.has["channel", c, part, k]) for part in mine]
                    for k in steps
                ]
                name = f"kernel[{j},{c},{memory}]"
                cost += machine.load * _live(m, name, items.macs(j, c), uses, there, memory)
        for i, (j, kernels) in product(range(sizes.n_patches), enumerate(items.kernels)):
            cost += _sum_lives(m, i, j, len(kernels), mine, there, memory)
    stay = sizes.n_kernel_elements if problem.kernels_stay else 0
    if machine.memory is not None:
        for (memory, k), amounts in there.items():
            m.add(sum(amounts) + stay <= machine.memory).with_name(f"fits on chip (12): {memory}, {k}")
    if len(memories) > 1:
        for i, j in product(range(sizes.n_patches), range(len(items.kernels))):
            homes = [m.new_bool_var(f"home[{i},{j},{memory}]") for memory in memories]
            m.add_exactly_one(homes)
            for part, k in product(parts, steps):
                m.add_implication(m.adds[i, j, part, k], homes[problem.memory_of(part)])
    return cost + constant_cost(problem)


def _live(
    m: Any, name: str, many: int, uses: list[list[tuple[Any, Any]]], there: dict[Any, list[Any]], memory: int
) -> Any:
    """Let a class of elements be on chip where it is used, and return how many are loaded."""
    loads, before = [], 0
    for k, pairs in enumerate(uses):
        amount = m.new_int_var(0, many, f"{name} held {k}")
        for both in pairs:
            m.add(amount == many).only_enforce_if(list(dict.fromkeys(both)))
        load = m.new_int_var(0, many, f"{name} loaded {k}")
        m.add(load >= amount - before).with_name(f"{name} is loaded (7, 8): {k}")
        loads.append(load)
        there[memory, k].append(amount)
        before = amount
    limit = m.problem.max_loads
    if limit is not None:
        m.add(sum(loads) <= limit * many).with_name(f"{name} is not loaded too often (9)")
    return sum(loads)


def _sum_lives(
    m: Any, i: int, j: int, many: int, mine: list[int], there: dict[Any, list[Any]], memory: int
) -> Any:
    """Let outputs of a patch and an item of kernels be on chip while they are added to; return the cost."""
    machine = m.problem.machine
    rises, before = [], 0
    for k in range(m.n_steps):
        adding = [m.adds[i, j, part, k] for part in mine]
        name = f"output[{i},{j},{memory},{k}]"
        if len(m.items.channels) == 1:  # complete at once, and never held longer
            held = adding[0] if len(adding) == 1 else sum(adding)
            rises.append(held)
        else:
            held = m.new_bool_var(name)
            for one in adding:
                m.add_implication(one, held)
            rise = m.new_bool_var(f"{name} rises")
            m.add(rise >= held - before)
            rises.append(rise)
        there[memory, k].append(many * held)
        before = held
    return many * (machine.load + machine.write) * sum(rises)


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    if one.word == "steps":
        return sum(m.used)
    cell = m.items.cell(one)
    parts = range(m.problem.machine.parts)
    return sum((k + 1) * m.cell[(*cell, part, k)] for part in parts for k in range(m.n_steps))


def start(m: Any, plan: Plan) -> None:
    """Hint the blocks of a plan; the driver derives all else."""
    blocks = m.items.blocks(plan)
    for k in range(m.n_steps):
        row = blocks[k] if k < len(blocks) else [None] * m.problem.machine.parts
        for part, block in enumerate(row):
            for place, name in enumerate(("patch", "kernel", "channel")):
                many = (m.problem.elements.n_patches, len(m.items.kernels), len(m.items.channels))[place]
                for item in range(many):
                    m.add_hint(m.has[name, item, part, k], int(block is not None and item in block[place]))


def read(m: Any, value: Any) -> Plan:
    """Return the plan of the blocks, with what stays chosen anew."""
    found: Plan = m.items.plan(lambda name, item, part, k: value(m.has[name, item, part, k]) == 1, m.n_steps)
    return found
