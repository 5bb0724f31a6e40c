"""A mixed integer program: what is on chip in a step is what the step needs, and what stays besides.

The S1 paper's program (equations 2 to 15) with three changes. ``held`` is no less than ``pxl_g`` (6), and no
longer equal: pixels may stay. Kernels and channels are decided like patches, so a step computes all of some
patches, kernels and channels. And outputs are data like others: one that is not complete is held while it is
added to, and a second stay costs a write and a load. Elements that the same blocks need are one class, of
which any number may stay.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import pyomo.environ as pyo

from tilewright.offloading import Plan, Problem
from tilewright.offloading.bounds import best_bound
from tilewright.offloading.loops import last_useful_step
from tilewright.spec.constraints import Term

from ._shared import WORDS, Items, constant_cost, size, suits, why_not

__all__ = ["WORDS", "build", "read", "size", "start", "suits", "term", "why_not"]


COUNTED = (("input_load", "input_held"), ("kernel_load", "kernel_held"), ("output_rise", "output_held"))
"""What counts what comes, and what it counts."""


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras: the bound, and a horizon from a quick plan."""
    m = pyo.ConcreteModel(name="held")
    m.problem, m.items = problem, Items(problem)
    items: Items = m.items
    fewest, most = problem.steps_range
    m.PATCHES, m.KERNELS = range(problem.elements.n_patches), range(len(items.kernels))
    m.CHANNELS, m.PARTS, m.MEMORIES = (
        range(len(items.channels)),
        range(problem.machine.parts),
        range(problem.n_memories),
    )
    m.STEPS = range(last_useful_step(problem) if extras else most)
    m.patch = pyo.Var(m.PATCHES, m.PARTS, m.STEPS, domain=pyo.Binary)  # (2)
    m.kernel = pyo.Var(m.KERNELS, m.PARTS, m.STEPS, domain=pyo.Binary)
    m.channel = pyo.Var(m.CHANNELS, m.PARTS, m.STEPS, domain=pyo.Binary)
    m.cell = pyo.Var(m.PATCHES, m.KERNELS, m.CHANNELS, m.PARTS, m.STEPS, domain=pyo.Binary)
    m.adds = pyo.Var(m.PATCHES, m.KERNELS, m.PARTS, m.STEPS, domain=pyo.Binary)  # to an output
    m.used = pyo.Var(m.STEPS, domain=pyo.Binary)
    _blocks(m)
    _limits(m, fewest)
    _data(m)
    _reloads(m)
    _memories(m)
    machine = problem.machine
    loads = sum(m.input_load[key] for key in m.input_load) + sum(m.kernel_load[key] for key in m.kernel_load)
    stays = sum(
        len(items.kernels[j]) * m.output_rise[i, j, memory, k]
        for i in m.PATCHES
        for j in m.KERNELS
        for memory in m.MEMORIES
        for k in m.STEPS
    )
    m.objective = pyo.Objective(  # (14, definition 3)
        expr=machine.load * loads
        + (machine.load + machine.write) * stays
        + machine.compute * sum(m.used[k] for k in m.STEPS)
        + constant_cost(problem)
    )
    if extras:
        m.bound = pyo.Constraint(expr=m.objective.expr >= best_bound(problem).value)
    return m


def _blocks(m: Any) -> None:
    """Let a block be the product of its patches, kernels and channels, and compute every cell once."""

    @m.Constraint(m.PATCHES, m.KERNELS, m.CHANNELS)  # (3)
    def each_cell_once(m: Any, i: int, j: int, c: int) -> Any:
        return sum(m.cell[i, j, c, part, k] for part in m.PARTS for k in m.STEPS) == 1

    @m.Constraint(m.PATCHES, m.KERNELS, m.CHANNELS, m.PARTS, m.STEPS, range(3))
    def a_cell_has_its_patch_kernel_and_channel(
        m: Any, i: int, j: int, c: int, part: int, k: int, axis: int
    ) -> Any:
        return (
            m.cell[i, j, c, part, k]
            <= (m.patch[i, part, k], m.kernel[j, part, k], m.channel[c, part, k])[axis]
        )

    @m.Constraint(m.PATCHES, m.KERNELS, m.CHANNELS, m.PARTS, m.STEPS)
    def a_block_has_all_its_cells(m: Any, i: int, j: int, c: int, part: int, k: int) -> Any:
        three = m.patch[i, part, k] + m.kernel[j, part, k] + m.channel[c, part, k]
        return m.cell[i, j, c, part, k] >= three - 2

    @m.Constraint(m.PATCHES, m.KERNELS, m.CHANNELS, m.PARTS, m.STEPS)
    def a_cell_adds_to_its_output(m: Any, i: int, j: int, c: int, part: int, k: int) -> Any:
        return m.adds[i, j, part, k] >= m.cell[i, j, c, part, k]

    @m.Constraint(m.PATCHES, m.PARTS, m.STEPS)
    def a_patch_is_in_a_used_step(m: Any, i: int, part: int, k: int) -> Any:
        return m.patch[i, part, k] <= m.used[k]

    @m.Constraint(m.STEPS)
    def a_used_step_computes(m: Any, k: int) -> Any:
        cells = (
            m.cell[i, j, c, part, k]
            for i in m.PATCHES
            for j in m.KERNELS
            for c in m.CHANNELS
            for part in m.PARTS
        )
        return sum(cells) >= m.used[k]

    @m.Constraint(m.PATCHES, m.KERNELS, m.STEPS)
    def one_part_adds_to_an_output(m: Any, i: int, j: int, k: int) -> Any:
        return sum(m.adds[i, j, part, k] for part in m.PARTS) <= 1


def _limits(m: Any, fewest: int) -> None:
    """Keep the machine's blocks and the number of steps."""
    problem, items = m.problem, m.items

    @m.Constraint(m.PARTS, m.STEPS)  # (4)
    def macs_of_a_block(m: Any, part: int, k: int) -> Any:
        if problem.machine.macs_per_step is None:
            return pyo.Constraint.Skip
        cells = ((i, j, c) for i in m.PATCHES for j in m.KERNELS for c in m.CHANNELS)
        macs = sum(items.macs(j, c) * m.cell[i, j, c, part, k] for i, j, c in cells)
        return macs <= problem.machine.macs_per_step

    @m.Constraint(m.PARTS, m.STEPS, range(3))
    def axes_of_the_unit(m: Any, part: int, k: int, axis: int) -> Any:
        if problem.machine.unit is None:
            return pyo.Constraint.Skip
        axes = (
            sum(m.patch[i, part, k] for i in m.PATCHES),
            sum(len(items.kernels[j]) * m.kernel[j, part, k] for j in m.KERNELS),
            sum(len(items.channels[c]) * m.channel[c, part, k] for c in m.CHANNELS),
        )
        return axes[axis] <= problem.machine.unit[axis]

    @m.Constraint(m.STEPS)
    def unused_steps_come_last(m: Any, k: int) -> Any:
        return m.used[k] == 1 if k < fewest else m.used[k] <= m.used[k - 1]


def _data(m: Any) -> None:
    """Hold what blocks need, and count what comes."""
    problem, items = m.problem, m.items
    inputs = range(len(items.inputs))
    kernels = [] if problem.kernels_stay else [(j, c) for j in m.KERNELS for c in m.CHANNELS]
    m.WEIGHTS = pyo.Set(dimen=2, initialize=kernels)
    whole = {f: len(elements) for f, (_, elements) in enumerate(items.inputs)}
    m.input_held = pyo.Var(
        inputs, m.MEMORIES, m.STEPS, domain=pyo.NonNegativeIntegers, bounds=lambda m, f, *_: (0, whole[f])
    )
    m.input_load = pyo.Var(inputs, m.MEMORIES, m.STEPS, domain=pyo.NonNegativeReals)  # (8)
    m.kernel_held = pyo.Var(
        m.WEIGHTS,
        m.MEMORIES,
        m.STEPS,
        domain=pyo.NonNegativeIntegers,
        bounds=lambda m, j, c, *_: (0, items.macs(j, c)),
    )
    m.kernel_load = pyo.Var(m.WEIGHTS, m.MEMORIES, m.STEPS, domain=pyo.NonNegativeReals)
    m.output_held = pyo.Var(m.PATCHES, m.KERNELS, m.MEMORIES, m.STEPS, domain=pyo.Binary)
    m.output_rise = pyo.Var(
        m.PATCHES, m.KERNELS, m.MEMORIES, m.STEPS, domain=pyo.NonNegativeReals, bounds=(0, 1)
    )
    needs = [(f, i, c) for f, (pairs, _) in enumerate(items.inputs) for i, c in pairs]

    m.NEEDS = pyo.Set(dimen=3, initialize=needs)

    @m.Constraint(m.NEEDS, m.PARTS, m.STEPS)  # (6)
    def input_of_a_block_is_held(m: Any, f: int, i: int, c: int, part: int, k: int) -> Any:
        both = m.patch[i, part, k] + m.channel[c, part, k] - 1
        return m.input_held[f, problem.memory_of(part), k] >= whole[f] * both

    @m.Constraint(m.WEIGHTS, m.PARTS, m.STEPS)
    def kernels_of_a_block_are_held(m: Any, j: int, c: int, part: int, k: int) -> Any:
        both = m.kernel[j, part, k] + m.channel[c, part, k] - 1
        return m.kernel_held[j, c, problem.memory_of(part), k] >= items.macs(j, c) * both

    @m.Constraint(m.PATCHES, m.KERNELS, m.PARTS, m.STEPS)
    def an_output_is_held_while_it_is_added_to(m: Any, i: int, j: int, part: int, k: int) -> Any:
        return m.output_held[i, j, problem.memory_of(part), k] >= m.adds[i, j, part, k]

    for load, held in COUNTED:
        now, came = getattr(m, held), getattr(m, load)

        def what_was_not_there_came(m: Any, *key: Any, now: Any = now, came: Any = came) -> Any:
            before = now[(*key[:-1], key[-1] - 1)] if key[-1] else 0
            return came[key] >= now[key] - before  # (7, 8)

        setattr(m, f"{load}_counted", pyo.Constraint(list(now), rule=what_was_not_there_came))


def _reloads(m: Any) -> None:
    """Load nothing more often than allowed."""
    problem, items = m.problem, m.items

    @m.Constraint(range(len(items.inputs)), m.MEMORIES)  # (9)
    def inputs_are_not_loaded_too_often(m: Any, f: int, memory: int) -> Any:
        if problem.max_loads is None:
            return pyo.Constraint.Skip
        return sum(m.input_load[f, memory, k] for k in m.STEPS) <= problem.max_loads * len(items.inputs[f][1])

    @m.Constraint(m.WEIGHTS, m.MEMORIES)
    def kernels_are_not_loaded_too_often(m: Any, j: int, c: int, memory: int) -> Any:
        if problem.max_loads is None:
            return pyo.Constraint.Skip
        return sum(m.kernel_load[j, c, memory, k] for k in m.STEPS) <= problem.max_loads * items.macs(j, c)


def _memories(m: Any) -> None:
    """Keep the size of the memories, and compute each output in one of them."""
    problem, items = m.problem, m.items

    @m.Constraint(m.MEMORIES, m.STEPS)  # (12)
    def fits_on_chip(m: Any, memory: int, k: int) -> Any:
        if problem.machine.memory is None:
            return pyo.Constraint.Skip
        stay = problem.elements.n_kernel_elements if problem.kernels_stay else 0
        outputs = sum(
            len(items.kernels[j]) * m.output_held[i, j, memory, k] for i in m.PATCHES for j in m.KERNELS
        )
        data = sum(m.input_held[f, memory, k] for f in range(len(items.inputs))) + sum(
            m.kernel_held[j, c, memory, k] for j, c in m.WEIGHTS
        )
        return stay + data + outputs <= problem.machine.memory

    if problem.n_memories > 1:
        m.owner = pyo.Var(m.PATCHES, m.KERNELS, m.MEMORIES, domain=pyo.Binary)

        @m.Constraint(m.PATCHES, m.KERNELS)
        def an_output_has_one_memory(m: Any, i: int, j: int) -> Any:
            return sum(m.owner[i, j, memory] for memory in m.MEMORIES) == 1

        @m.Constraint(m.PATCHES, m.KERNELS, m.PARTS, m.STEPS)
        def an_output_is_computed_there(m: Any, i: int, j: int, part: int, k: int) -> Any:
            return m.adds[i, j, part, k] <= m.owner[i, j, problem.memory_of(part)]


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    if one.word == "steps":
        return sum(m.used[k] for k in m.STEPS)
    cell = m.items.cell(one)
    return sum((k + 1) * m.cell[(*cell, part, k)] for part in m.PARTS for k in m.STEPS)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan."""
    problem, items = m.problem, m.items
    for variable in m.component_data_objects(pyo.Var):
        variable.set_value(0, skip_validation=True)
    for k, blocks in enumerate(items.blocks(plan)):
        m.used[k] = 1
        for part, block in enumerate(blocks):
            for i, j, c in product(*block) if block is not None else ():
                m.patch[i, part, k] = m.kernel[j, part, k] = m.channel[c, part, k] = 1
                m.cell[i, j, c, part, k] = m.adds[i, j, part, k] = 1
                if problem.n_memories > 1:
                    m.owner[i, j, problem.memory_of(part)] = 1
    for k, amounts in enumerate(items.amounts(plan)):
        for (load, held), found in zip(COUNTED, amounts, strict=True):
            for key, many in found.items():
                before = pyo.value(getattr(m, held)[(*key, k - 1)]) if k else 0
                getattr(m, held)[(*key, k)] = many
                getattr(m, load)[(*key, k)] = max(0, many - before)


def read(m: Any) -> Plan:
    """Return the plan of the blocks, with what stays chosen anew."""
    values = {"patch": m.patch, "kernel": m.kernel, "channel": m.channel}
    items: Items = m.items
    return items.plan(lambda name, item, part, k: pyo.value(values[name][item, part, k]) > 0.5, len(m.STEPS))
