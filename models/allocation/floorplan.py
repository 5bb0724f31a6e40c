"""A constraint model for CP-SAT that lays the layers of a pipeline out on an array.

One statement for each layer, PE and number of hops, "the layer is within h hops of here", follows from
those of the neighbours at h - 1. A PE of a consumer costs a hop for each h within which its producer is not.
Regions are connected as trees: each PE of one but its root hangs on a neighbour that is nearer to the root.

Extras: bounds on hops, cuts for connected regions, and one of the images under the array's symmetries.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from tilewright.allocation import Plan, Problem
from tilewright.allocation.placement.floor import Floor, Regions
from tilewright.allocation.placement.hop_bound import fewest_hops, lower_bound
from tilewright.allocation.placement.images import canonical, layers_of, marked_layer, most_hops, positions
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place
from tilewright.spec.constraints import Term

WRITTEN_FOR = "cpsat"

WORDS = ("at", "hops", "pes", "split", "units", "work", "load", "used_pes", "interval")


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem: whether layers are to be placed."""
    return problem.minimise == "distance"


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    floor = floor_of(problem, pes_to_place(problem))
    pes = floor.rows * floor.columns
    return pes * (8 * len(floor.sizes) + 6 * sum(most_hops(floor).values()))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    unplaced = pes_to_place(problem)
    m = formulate(floor_of(problem, unplaced), extras)
    m.problem, m.unplaced = problem, unplaced
    return m


def formulate(floor: Floor, extras: bool = True) -> Any:
    """Return the model of a floor."""
    m: Any = cp_model.CpModel()
    m.floor, m.extras = floor, extras
    layers, pes = range(len(floor.sizes)), range(floor.rows * floor.columns)
    m.at = [[m.new_bool_var(f"at[{i},{p}]") for p in pes] for i in layers]
    beside = _neighbours(floor)

    for p in pes:
        m.add_at_most_one(m.at[i][p] for i in layers).with_name(f"no PE computes two layers: {p}")
    for i in layers:
        m.add(sum(m.at[i]) == floor.sizes[i]).with_name(f"layers have their PEs: {i}")
        if floor.sizes[i] > 1:
            _connect(m, i, beside)
        if i:
            meets = []
            for p in pes:
                meets.append(m.new_bool_var(f"meets[{i},{p}]"))
                m.add_implication(meets[p], m.at[i][p])
                m.add_bool_or([*(m.at[i - 1][q] for q in beside[p]), ~meets[p]])
            m.add_bool_or(meets).with_name(f"layers that follow each other touch: {i}")
    for i in floor.border:
        m.add_bool_or(m.at[i][p] for p in pes if _is_rim(floor, p)).with_name(
            f"input and output reach the border: {i}"
        )

    _count_hops(m, beside)
    if extras:
        _cut(m, beside)
        _break_symmetry(m)
    return m


def _is_rim(floor: Floor, p: int) -> bool:
    row, column = divmod(p, floor.columns)
    return row in (0, floor.rows - 1) or column in (0, floor.columns - 1)


def _neighbours(floor: Floor) -> list[list[int]]:
    """Return the PEs beside each PE, all numbered row by row."""
    index = np.arange(floor.rows * floor.columns).reshape(floor.rows, floor.columns)
    beside: list[list[int]] = [[] for _ in range(index.size)]
    for one, other in ((index[1:], index[:-1]), (index[:, 1:], index[:, :-1])):
        for p, q in zip(one.ravel().tolist(), other.ravel().tolist(), strict=True):
            beside[p].append(q)
            beside[q].append(p)
    return beside


def _connect(m: Any, i: int, beside: list[list[int]]) -> None:
    """Let all of a layer's PEs be reached from its first one, step by step inside the layer."""
    here = m.at[i]
    reached = [m.new_bool_var(f"root[{i},{p}]") for p in range(len(beside))]
    m.add_exactly_one(reached).with_name(f"layer {i} has a first PE")
    for p, root in enumerate(reached):
        m.add_implication(root, here[p])
        for q in range(p):
            m.add_implication(root, ~here[q])
    for step in range(1, m.floor.sizes[i]):
        before, reached = reached, []
        for p, others in enumerate(beside):
            further = m.new_bool_var(f"reached[{i},{step},{p}]")
            sources = [before[p], *(before[q] for q in others)]
            m.add_implication(further, here[p])
            m.add_bool_or([*sources, ~further])
            for source in sources:
                m.add_bool_or(~source, ~here[p], further)
            reached.append(further)
    for p, one in enumerate(reached):
        m.add_implication(here[p], one).with_name(f"layer {i} is connected at PE {p}")


def _within(m: Any, beside: list[list[int]], layer: int, most: int) -> list[list[Any]]:
    """Return for each number of hops below `most`, and each PE, whether a layer is within so many hops."""
    levels = [m.at[layer]]
    for h in range(1, most):
        before, level = levels[-1], []
        for p in range(len(beside)):
            within = m.new_bool_var(f"near[{layer},{h},{p}]")
            m.add_bool_or([before[p], *(before[q] for q in beside[p]), ~within])
            for q in (p, *beside[p]):
                m.add_implication(before[q], within)
            level.append(within)
        levels.append(level)
    return levels


def _count_hops(m: Any, beside: list[list[int]]) -> None:
    floor: Floor = m.floor
    pes = range(len(beside))
    near = {producer: _within(m, beside, producer, most) for producer, most in most_hops(floor).items()}
    hops: list[Any] = []
    m.hops_of = {}
    for producer, consumer in floor.edges:
        count: list[Any] = []
        for p in pes:
            further = None
            for h, level in enumerate(near[producer][1:], start=1):
                far = m.new_bool_var(f"far[{producer},{consumer},{h},{p}]")
                m.add_bool_or(far, level[p], ~m.at[consumer][p])
                if further is not None:
                    m.add_implication(far, further)
                further = far
                count.append(far)
        m.hops_of.setdefault(producer, []).extend(count)
        hops += count
    # No PE computes two layers: one hop of each is certain.
    m.offset = sum(floor.sizes[consumer] for _, consumer in floor.edges)
    m.hops = sum(hops)
    m.minimize(m.hops)


def _cut(m: Any, beside: list[list[int]]) -> None:
    """Add what is known of hops, and of connected regions."""
    floor: Floor = m.floor
    m.add(m.hops >= lower_bound(floor) - m.offset).with_name("no fewer hops than proven")
    fewest = fewest_hops(floor)
    for producer, count in m.hops_of.items():
        certain = sum(floor.sizes[consumer] for layer, consumer in floor.edges if layer == producer)
        if fewest[producer] > certain:
            m.add(sum(count) >= fewest[producer] - certain).with_name(f"no fewer hops of layer {producer}")
    for i, here in enumerate(m.at):
        if floor.sizes[i] > 1:
            for p, others in enumerate(beside):
                m.add_bool_or([*(here[q] for q in others), ~here[p]]).with_name(f"none is alone: {i}, {p}")


def _break_symmetry(m: Any) -> None:
    """Admit one of the images of a placement, see `canonical`."""
    floor: Floor = m.floor
    marked = marked_layer(floor)
    rows, columns = (
        sum((2 * at - (length - 1)) * m.at[marked][p] for p, at in enumerate(where))
        for where, length in zip(positions(floor), (floor.rows, floor.columns), strict=True)
    )
    m.add(rows <= 0).with_name("above the middle")
    m.add(columns <= 0).with_name("left of the middle")
    if floor.rows == floor.columns:
        m.add(rows <= columns).with_name("no nearer to the top than to the left")


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary; how many PEs layers have is known."""
    names = [stage.name for stage in m.problem.stages]
    if one.word == "at":
        name, row, column = one.arguments
        return m.at[names.index(str(name))][int(row) * m.floor.columns + int(column)]
    if one.word == "hops":
        layer, other = (names.index(str(name)) for name in one.arguments)
        return 0 if layer == other else _hops_between(m, layer, other)
    vocabulary = m.problem.vocabulary
    return vocabulary.value(one, vocabulary.view(m.unplaced))


def _hops_between(m: Any, layer: int, other: int) -> Any:
    """Return the hops from all PEs of the second layer to the nearest one of the first."""
    floor: Floor = m.floor
    farthest = floor.rows + floor.columns - 2
    count = [floor.sizes[other]]
    for h, level in enumerate(_within(m, _neighbours(floor), layer, farthest)[1:], start=1):
        for p, within in enumerate(level):
            far = m.new_bool_var(f"beyond[{layer},{other},{h},{p}]")
            m.add_implication(far, m.at[other][p])
            m.add_implication(far, ~within)
            m.add_bool_or(far, within, ~m.at[other][p])
            count.append(far)
    return sum(count)


def start(m: Any, plan: Plan) -> None:
    """Hint a placement, of its images that which symmetry breaking admits."""
    if plan.regions and floor_of(m.problem, plan) == m.floor:
        hint(m, plan.regions)


def hint(m: Any, regions: Regions) -> None:
    """Hint a placement."""
    layers = (canonical(m.floor, regions) if m.extras else layers_of(m.floor, regions)).ravel().tolist()
    for i, here in enumerate(m.at, start=1):
        for p, layer in enumerate(layers):
            m.add_hint(here[p], layer == i)


def read(m: Any, value: Any) -> Plan:
    """Return the plan of a solution."""
    placed: Plan = m.unplaced.placed(regions(m, value))
    return placed


def regions(m: Any, value: Any) -> Regions:
    """Return the placement of a solution."""
    columns = m.floor.columns
    return tuple(tuple(divmod(p, columns) for p, here in enumerate(at) if value(here)) for at in m.at)
