"""A model for CP-SAT by columns: a plan is a path from place to place, and what stays on chip goes along.

A place is a set of operations that have been executed. A step leads from one to another: it is one of those
that ``tilewright.residency.enumerated_steps`` lists and prices. What lies between two places is an arc, which
a tensor passes if it is on chip meanwhile and the step has nothing to do with it. All that is on chip during
a step fits, as what passes its arc takes what the step leaves.

The bound holds, as no plan is lost: of steps with the same operations, the same weights that stay for all
frames, and the same places of tensors before and after, those are left out that take no less memory than
another and cost no less, and those that belong to dearer plans alone than one that is known. Sizes are
counted, not addresses: a plan that has addresses fits by size, and takes no less memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from ortools.sat.python import cp_model

from tilewright.residency import Plan, Problem
from tilewright.residency.enumerated_steps import Columns, places_of, why_not_in_a_model
from tilewright.residency.graph import members
from tilewright.spec.errors import InputError

WRITTEN_FOR = "cpsat"

MOST = 2**60
"""Largest sum: CP-SAT's numbers have 64 bits."""


def why_not(problem: Problem) -> str | None:
    """Say why the model does not take a problem, or None."""
    if problem.limits.executions != 1:
        return f"limits.executions = {problem.limits.executions}: the model executes operations once"
    return why_not_in_a_model(problem)


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    return 40 * len(places_of(problem)) ** 2


def build(problem: Problem) -> Any:
    """Return the model."""
    return formulate(Columns(problem))


def formulate(found: Columns) -> Any:
    """Return the model of some steps: it minimises what is spent, or the memory that is taken by size."""
    m: Any = cp_model.CpModel()
    for which, name in enumerate(found.names):
        if (together := sum(column.costs[which] for column in found.columns)) > MOST:
            limit = f"all steps together cost {together:,} in the parts that count, the model takes {MOST:,}"
            raise InputError("objective", name, limit)
    m.path, m.unit, m.offset = _Path(m, found), found.unit, 0
    if not found.minimised:
        m.highest = m.new_int_var(0, found.capacity, "memory")
        m.path.fit_into(m.highest)
        m.minimize(m.highest)
        m.bounds_only = True
        return m
    m.offset = found.unit * found.base
    spent = m.path.spent(0) - found.base * found.parts
    if found.parts == 1:
        m.minimize(spent)
        return m
    m.beyond = m.new_int_var(0, found.worst, "beyond")
    m.add(spent <= found.parts * m.beyond).with_name("what is spent is rounded up")
    m.minimize(m.beyond)
    return m


class _Path:
    """The steps of a plan.

    Attributes
    ----------
    chosen
        Whether a column is.
    passes
        Whether a tensor is on chip during the steps of an arc, which have nothing to do with it.
    """

    def __init__(self, m: Any, found: Columns) -> None:
        self.m, self.found = m, found
        self.chosen = [m.new_bool_var(f"chosen[{c}]") for c in range(len(found.columns))]
        self.arcs: dict[tuple[int, int], list[int]] = defaultdict(list)
        for number, column in enumerate(found.columns):
            self.arcs[column.begin, column.end].append(number)
        self.passes = {
            (tensor, arc): m.new_bool_var(f"passes[{tensor},{arc}]")
            for arc, columns in self.arcs.items()
            for tensor in found.passing(found.columns[columns[0]])
        }
        self._executing = {
            number: [arc for arc in self.arcs if self._between(arc) >> number & 1]
            for number in members(found.graph.all & ~found.graph.begin)
        }
        self._follow_each_other()
        self._stay_on_chip()
        self._read_what_is_written()
        if found.minimised:
            self.fit_into(found.capacity)
        for limited, most in enumerate(found.most, found.minimised):
            m.add(self.spent(limited) <= most).with_name(f"limits are kept: {limited}")

    def _between(self, arc: tuple[int, int]) -> int:
        begin, end = arc
        return self.found.places[end] & ~self.found.places[begin]

    def spent(self, which: int) -> Any:
        """Return what is spent in all of what is minimised, or of what is limited."""
        return sum(
            column.costs[which] * chosen
            for column, chosen in zip(self.found.columns, self.chosen, strict=True)
        )

    def _some(self, numbers: Sequence[int]) -> Any:
        return sum(self.chosen[number] for number in numbers)

    def _follow_each_other(self) -> None:
        ending: dict[int, list[int]] = defaultdict(list)
        beginning: dict[int, list[int]] = defaultdict(list)
        for (begin, end), columns in self.arcs.items():
            beginning[begin] += columns
            ending[end] += columns
        last = len(self.found.places) - 1
        for place in range(last + 1):
            comes = 1 if place == 0 else self._some(ending[place])
            goes = 1 if place == last else self._some(beginning[place])
            self.m.add(comes == goes).with_name(f"steps follow each other: {place}")
        for number, arcs in self._executing.items():
            executing = (self.chosen[column] for arc in arcs for column in self.arcs[arc])
            self.m.add_exactly_one(executing).with_name(f"each operation once: {number}")

    def _stay_on_chip(self) -> None:
        """State that what a step needs, or what passes it, has been kept by the step before or passed it."""
        needing, keeping = defaultdict(list), defaultdict(list)
        for number, column in enumerate(self.found.columns):
            for tensor in members(column.needs):
                needing[tensor, column.begin].append(self.chosen[number])
            for tensor in members(column.keeps):
                keeping[tensor, column.end].append(self.chosen[number])
        for (tensor, (begin, end)), passes in self.passes.items():
            needing[tensor, begin].append(passes)
            keeping[tensor, end].append(passes)
            used = self._some(self.arcs[begin, end])
            self.m.add(passes <= used).with_name(f"what passes has a step: {tensor}, {begin}, {end}")
        for (tensor, place), needed in needing.items():
            there = sum(keeping[tensor, place])
            self.m.add(sum(needed) <= there).with_name(f"what stays was there: {tensor}, {place}")

    def _read_what_is_written(self) -> None:
        graph, columns = self.found.graph, self.found.columns
        for tensor in self.found.tensors:
            if graph.tensors[tensor].given:
                continue
            written = self._some([n for n, column in enumerate(columns) if column.written >> tensor & 1])
            for reader in graph.tensors[tensor].readers:
                some = [n for arc in self._executing[reader] for n in self.arcs[arc]]
                reading = self._some([n for n in some if columns[n].reads >> tensor & 1])
                self.m.add(reading <= written).with_name(f"what is read is written: {tensor}, {reader}")

    def fit_into(self, capacity: Any) -> None:
        """Let all that is on chip during each step fit into some elements."""
        found, graph = self.found, self.found.graph
        taken = {
            arc: sum(found.columns[number].memory * self.chosen[number] for number in columns)
            for arc, columns in self.arcs.items()
        }
        for (tensor, arc), passes in self.passes.items():
            taken[arc] += graph.tensors[tensor].size * passes
        staying = sum(
            graph.operations[number].weights * chosen
            for column, chosen in zip(found.columns, self.chosen, strict=True)
            for number in members(column.staying)
        )
        if isinstance(capacity, int) and not any(column.staying for column in found.columns):
            for arc, columns in self.arcs.items():
                room = capacity * self._some(columns)
                self.m.add(taken[arc] <= room).with_name(f"all fits: {arc[0]}, {arc[1]}")
            return
        for number, arcs in self._executing.items():
            self.m.add(sum(taken[arc] for arc in arcs) + staying <= capacity).with_name(f"all fits: {number}")

    def read(self, value: Callable[[Any], int], deadline: float = float("inf")) -> Plan:
        """Return the plan of a solution, of memory one for which addresses are found until a deadline."""
        chosen = [number for number, one in enumerate(self.chosen) if value(one)]
        on_chip: dict[tuple[int, int], bool] = defaultdict(bool)
        for (tensor, (begin, end)), passes in self.passes.items():
            if value(passes) and any(value(self.chosen[n]) for n in self.arcs[begin, end]):
                on_chip[tensor, end] = True
        if self.found.minimised:
            return self.found.plan(chosen, on_chip)
        return self.found.lowest_plan(chosen, on_chip, value(self.m.highest), deadline)

    def hint(self, chosen: Sequence[int], on_chip: set[tuple[int, int]]) -> None:
        """Hint the decisions of a plan."""
        steps = {*chosen}
        used = {(self.found.columns[n].begin, self.found.columns[n].end) for n in steps}
        for number, one in enumerate(self.chosen):
            self.m.add_hint(one, int(number in steps))
        for (tensor, arc), passes in self.passes.items():
            stays = (tensor, arc[0]) in on_chip and (tensor, arc[1]) in on_chip
            self.m.add_hint(passes, int(arc in used and stays))


def start(m: Any, plan: Plan) -> None:
    """Hint the decisions of a plan, or of a known one that costs less."""
    values = m.path.found.start(plan)
    if values is not None:
        m.path.hint(*values)


def read(m: Any, value: Callable[[Any], int]) -> Plan:
    """Return the plan of a solution."""
    plan: Plan = m.path.read(value)
    return plan
