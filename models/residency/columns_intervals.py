"""An integer program by columns: the operations are divided into steps; tensors stay or do not.

Its columns are steps that ``tilewright.residency.enumerated_steps`` lists and prices. No plan is lost: of
steps with the same operations, the same weights that stay for all frames, and the same places of tensors
before and after, those are left out that take no less memory than another and move no less.

Where operations may be executed twice, each choice of who reads second executions is a network with steps of
its own, and one of the networks is executed.

Memory counts by size: that of all that is on chip at a time. Addresses are sought afterwards, in that memory
or a little more, so that the objective is a bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pyomo.environ as pyo

from tilewright.residency import Plan, Problem
from tilewright.residency.enumerated_steps import (
    CERTAIN,
    Columns,
    networks_of,
    places_of,
    why_not_certain,
)
from tilewright.residency.graph import members
from tilewright.residency.reader_choices import reader_choices
from tilewright.spec.errors import InputError

MOST_NETWORKS = 100
"""Most choices of who reads second executions."""


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    if problem.limits.executions != 1 and len(reader_choices(problem, MOST_NETWORKS)) > MOST_NETWORKS:
        return f"limits.executions: second executions have more than {MOST_NETWORKS:,} choices of readers"
    return why_not_certain(problem)


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    networks = 1 if problem.limits.executions == 1 else len(reader_choices(problem, MOST_NETWORKS))
    return 40 * len(places_of(problem)) ** 2 * networks


def build(problem: Problem) -> Any:
    """Return the model."""
    networks = networks_of(problem, MOST_NETWORKS)
    first = networks[0].found
    if first.minimised and first.allowed > CERTAIN * first.parts:
        limit = f"may cost {first.allowed // first.parts:,} beyond the least, {CERTAIN:,} can be told apart"
        raise InputError("network.layers", len(first.graph.operations), limit)
    m = pyo.ConcreteModel(name="columns_intervals")
    m.networks, m.unit, m.offset = networks, first.unit, first.base * first.unit
    m.bounds_only = not first.minimised
    m.largest = max(1, first.allowed // first.parts) if first.minimised else first.capacity
    m.memory = pyo.Var(domain=pyo.Integers, bounds=(0, first.capacity))  # enough for all steps
    m.NETWORKS = pyo.RangeSet(0, len(networks) - 1)
    m.executed = pyo.Var(m.NETWORKS, domain=pyo.Binary)
    m.one_network = pyo.Constraint(expr=sum(m.executed.values()) == 1)
    m.network = pyo.Block(m.NETWORKS)
    for number, network in enumerate(networks):
        _add_steps(m.network[number], network.found, m.executed[number])
        _add_memory(m.network[number], network.found, m.executed[number], m.memory)

    def spent(which: int) -> Any:
        return sum(m.network[number].spent[which] for number in m.NETWORKS)

    @m.Constraint(range(len(first.most)))
    def limits_are_kept(m: Any, limited: int) -> Any:
        return spent(first.minimised + limited) <= first.most[limited]

    if not first.minimised:
        m.cost = pyo.Objective(expr=m.memory)
        return m
    m.memory.fix(first.capacity)  # `all_fits_on_chip` has it as a number
    m.beyond = pyo.Var(domain=pyo.Integers, bounds=(0, first.worst))
    m.rounded_up = pyo.Constraint(expr=spent(0) <= first.parts * (first.base + m.beyond))
    m.cost = pyo.Objective(expr=m.beyond)
    return m


def _add_steps(b: Any, found: Columns, executed: Any) -> None:
    """State which steps follow each other, and what they need and leave: none, where not executed."""
    columns, last, tensors = found.columns, len(found.places) - 1, found.tensors
    places = range(last + 1)
    b.chosen = pyo.Var(range(len(columns)), domain=pyo.Binary)
    b.on_chip = pyo.Var(tensors, places, domain=pyo.Binary)
    b.nowhere = pyo.Var(bounds=(0, 0))  # so that sums of nothing are expressions
    for tensor, place in b.on_chip:
        if place == 0 or not found.live(tensor, place):
            b.on_chip[tensor, place].fix(0)
    beginning: dict[int, list[int]] = {place: [] for place in places}
    ending: dict[int, list[int]] = {place: [] for place in places}
    for number, column in enumerate(columns):
        beginning[column.begin].append(number)
        ending[column.end].append(number)

    def some(numbers: Iterable[int]) -> Any:
        """Return how many of some steps are chosen."""
        return b.nowhere + sum(b.chosen[number] for number in numbers)

    @b.Constraint(places)
    def steps_follow_each_other(_b: Any, place: int) -> Any:
        comes = executed if place == 0 else some(ending[place])
        return comes == (executed if place == last else some(beginning[place])) + b.nowhere

    @b.Constraint(tensors, places)
    def needed_tensors_are_on_chip(_b: Any, tensor: int, place: int) -> Any:
        needing = [number for number in beginning[place] if columns[number].needs >> tensor & 1]
        return some(needing) <= b.on_chip[tensor, place]

    @b.Constraint(tensors, places)
    def tensors_read_from_dram_are_written(_b: Any, tensor: int, place: int) -> Any:
        if found.graph.tensors[tensor].given:
            return pyo.Constraint.Skip
        written = some(n for n, column in enumerate(columns) if column.written >> tensor & 1)
        return some(n for n in beginning[place] if columns[n].reads >> tensor & 1) <= written

    @b.Constraint(tensors, sorted({(column.begin, column.end) for column in columns}))
    def untouched_tensors_were_on_chip_before(_b: Any, tensor: int, begin: int, end: int) -> Any:
        between = (number for number in beginning[begin] if columns[number].end == end)
        passing = some(number for number in between if not columns[number].touched >> tensor & 1)
        return b.on_chip[tensor, end] <= b.on_chip[tensor, begin] + executed - passing

    @b.Constraint(tensors, places)
    def touched_tensors_stay_only_if_kept(_b: Any, tensor: int, place: int) -> Any:
        gone = (n for n in ending[place] if (columns[n].touched & ~columns[n].keeps) >> tensor & 1)
        return b.on_chip[tensor, place] <= executed - some(gone)

    @b.Expression(range(len(found.names)))
    def spent(_b: Any, which: int) -> Any:
        return b.nowhere + sum(column.costs[which] * b.chosen[n] for n, column in enumerate(columns))


def _add_memory(b: Any, found: Columns, executed: Any, memory: Any) -> None:
    """State that all that is on chip fits: what a step takes, what passes it, and weights that stay."""
    columns, graph, capacity = found.columns, found.graph, found.capacity
    weights = [
        sum(graph.operations[number].weights for number in members(column.staying)) for column in columns
    ]
    most = min(capacity, sum(graph.operations[n].weights for n in members(graph.all))) if any(weights) else 0
    b.weights = pyo.Expression(
        expr=b.nowhere + sum(size * b.chosen[n] for n, size in enumerate(weights) if size)
    )
    b.staying = pyo.Var(bounds=(0, most))  # elements; a variable, as every step has to leave room for them
    b.weights_stay = pyo.Constraint(expr=b.staying == b.weights)

    @b.Constraint(range(len(columns)))
    def all_fits_on_chip(_b: Any, number: int) -> Any:
        column = columns[number]
        sizes = {tensor: graph.tensors[tensor].size for tensor in found.passing(column)}
        total = sum(sizes.values()) + most
        if found.minimised and total + column.memory <= capacity:
            return pyo.Constraint.Skip
        held = sum(size * b.on_chip[tensor, column.end] for tensor, size in sizes.items()) + b.staying
        others = total * (executed - b.chosen[number])
        if found.minimised:
            return held <= (capacity - column.memory) * b.chosen[number] + others
        return held + column.memory * b.chosen[number] <= memory + others

    if found.minimised and not any(weights):
        return

    @b.Constraint(members(graph.all & ~graph.begin))
    def the_step_of_an_operation_fits(_b: Any, number: int) -> Any:
        """Follow from the others, and bound the memory closely."""
        with_it = [n for n, c in enumerate(columns) if _executes(found, c.begin, c.end) >> number & 1]
        taken = sum(columns[n].memory * b.chosen[n] for n in with_it) + b.staying
        return taken <= (capacity * executed if found.minimised else memory)


def _executes(found: Columns, begin: int, end: int) -> int:
    """Return the operations of a step, as a bit mask."""
    return found.places[end] & ~found.places[begin]


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, or in a known one that costs less; without one to 0."""
    number, values = _values(m, plan)
    for place, b in m.network.items():
        chosen, on_chip = values if values is not None and place == number else ([], set())
        for column in b.chosen:
            b.chosen[column] = int(column in set(chosen))
        for key in b.on_chip:
            if not b.on_chip[key].fixed:
                b.on_chip[key] = int(key in on_chip)
        b.nowhere = 0
        b.staying = pyo.value(b.weights)
        m.executed[place] = int(values is not None and place == number)
    first = m.networks[0].found
    if first.minimised:
        spent = sum(round(pyo.value(b.spent[0])) for b in m.network.values())
        m.beyond = max(0, -(-spent // first.parts) - first.base)
    else:
        m.memory = _memory_by_size(m, number)


def _values(m: Any, plan: Plan) -> tuple[int, tuple[list[int], set[tuple[int, int]]] | None]:
    """Return the network of a plan, and its values there; of the known plan where it has none."""
    own = {name: {*readers} for name, readers in plan.again.items()}
    for number, (again, found) in enumerate(m.networks):
        if {name: {*readers} for name, readers in again.items()} == own:
            values = found.start(replace(plan, again={}))
            if values is not None:
                return number, values
    return 0, m.networks[0].found.start(None)


def _memory_by_size(m: Any, number: int) -> int:
    """Return what the steps that are chosen take at a time, at most."""
    b, found = m.network[number], m.networks[number].found
    taken = [
        column.memory
        + sum(
            found.graph.tensors[t].size
            for t in found.passing(column)
            if (b.on_chip[t, column.end].value or 0) > 0.5
        )
        for n, column in enumerate(found.columns)
        if (b.chosen[n].value or 0) > 0.5
    ]
    return max(taken, default=0)


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    number = max(m.NETWORKS, key=lambda each: m.executed[each].value or 0)
    (again, found), b = m.networks[number], m.network[number]
    chosen = [n for n in b.chosen if (b.chosen[n].value or 0) > 0.5]
    on_chip = {key: (b.on_chip[key].value or 0) > 0.5 for key in b.on_chip}
    plan: Plan
    if found.minimised:
        plan = found.plan(chosen, on_chip)
    else:
        plan = found.lowest_plan(chosen, on_chip, _memory_by_size(m, number))
    return replace(plan, again={name: tuple(readers) for name, readers in again.items()})
