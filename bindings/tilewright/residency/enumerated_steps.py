"""Steps of an order that is given, one by one: what the formulations for solvers choose from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tilewright.core.cutoffs import narrow
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.graph import members
from tilewright.residency.machine import ONE
from tilewright.residency.placement import place_steps
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group, group_mask
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import StepChoice, Transitions, subsets

MOST_OPERATIONS = 12
"""Most operations of a network for which all steps are listed."""

CERTAIN = 10**6
"""Most elements that a plan may move, so that the tolerances of solvers leave its last one certain."""


class Column(NamedTuple):
    """A step, with one way to cut it up; tensors as bit masks.

    Attributes
    ----------
    begin, end
        Operations that have been executed before and after it.
    needs, reads
        What must be on chip, and in DRAM, before it.
    keeps
        What is on chip as a whole during it, and is still to be read after it.
    touched
        All that it reads or computes.
    memory
        Elements of all that it reads, computes and places.
    moved
        Elements moved from and to DRAM.
    """

    begin: int
    end: int
    needs: int
    reads: int
    keeps: int
    touched: int
    fetched: int
    resident: int
    written: int
    in_place: int
    shape: Shape
    memory: int
    moved: int


def takes(problem: Problem) -> bool:
    """Whether the formulations take a problem."""
    graph = problem.graph
    return (
        problem.objective.names == ("traffic",)
        and not problem.objective.limits
        and problem.limits.frames == ONE
        and problem.limits.executions == 1
        and (problem.limits.order == "given" or graph.is_chain)
        and len(graph.operations) <= MOST_OPERATIONS
        and sum(problem.layer_by_layer.values()) - graph.compulsory <= CERTAIN
    )


class Columns:
    """All steps of a problem whose order is given.

    Attributes
    ----------
    numbers
        Operations in that order.
    columns
        The steps.
    tensors
        Those that are read.
    worst
        Elements that a known plan moves; where that does not count (`core.cutoffs`), that any plan moves.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        graph = self.graph
        self.numbers = members(graph.all & ~graph.begin)
        self.worst = graph.compulsory + CERTAIN if narrow() else sum(problem.layer_by_layer.values())
        self.steps = Transitions(problem.groups, problem.machine.capacity)
        self.tensors = [number for number, readers in enumerate(graph.readers) if readers]
        self.columns = list(self._columns())
        if narrow():
            self.worst = self._dearest()

    def _dearest(self) -> int:
        """Return what the steps move at most that end where others begin."""
        dearest = [0] * (len(self.numbers) + 1)
        for column in sorted(self.columns, key=lambda one: one.begin, reverse=True):
            dearest[column.begin] = max(dearest[column.begin], column.moved + dearest[column.end])
        return dearest[0]

    def live(self, tensor: int, place: int) -> bool:
        """Whether a tensor is there and still to be read when so many operations have been executed."""
        last = max(self.numbers.index(reader) for reader in self.graph.tensors[tensor].readers)
        given = self.graph.tensors[tensor].given
        return last >= place and (given or self.numbers.index(tensor - 1) < place)

    def passing(self, column: Column) -> list[int]:
        """Return the tensors that may be on chip during a step that has nothing to do with them."""
        return [
            tensor
            for tensor in self.tensors
            if not column.touched >> tensor & 1
            and self.live(tensor, column.begin)
            and self.live(tensor, column.end)
        ]

    def _columns(self) -> Iterator[Column]:
        graph, numbers = self.graph, self.numbers
        most = self.problem.limits.most_operations or len(numbers)
        for begin in range(len(numbers)):
            done = graph.begin | sum(1 << number for number in numbers[:begin])
            for end in range(begin + 1, min(len(numbers), begin + most) + 1):
                mask = sum(1 << number for number in numbers[begin:end])
                if group_mask(graph, done, numbers[end - 1]) == mask:
                    yield from self._of_group(self.steps.groups[mask], begin, end, done)

    def _of_group(self, group: Group, begin: int, end: int, done: int) -> Iterator[Column]:
        """Return the steps of a group, for all that may be on chip before it, with all shapes."""
        steps, capacity = self.steps, self.problem.machine.capacity
        live, limits = self.graph.still_read(done | group.mask), Limits(capacity, self.worst)
        for needs in subsets(group.read):
            for tensors in steps.tensor_choices(group, needs, done):
                whole = frozenset(members(tensors.whole & group.touched))
                streamed = steps.streamed(group, tensors.streamed)
                loaded = steps.needed(tensors.fetched, done) + streamed
                moved = group.weights + loaded + steps.size(tensors.written)
                for found in pareto_shapes(
                    group,
                    whole,
                    streamed,
                    limits,
                    (None, *strip_widths(group)),
                    tensors.in_place,
                ):
                    if found.memory + tensors.taken <= capacity:
                        yield Column(
                            begin,
                            end,
                            needs,
                            tensors.fetched | tensors.streamed,
                            tensors.whole & live,
                            group.touched,
                            tensors.fetched,
                            tensors.resident,
                            tensors.written,
                            tensors.in_place,
                            found.shape,
                            found.memory + tensors.taken,
                            found.again + moved,
                        )

    def plan(self, chosen: list[int], on_chip: dict[tuple[int, int], bool]) -> Plan:
        """Return the plan of some columns, and of what is on chip after so many operations."""
        choices, there = list[StepChoice](), 0
        for number in sorted(chosen, key=lambda number: self.columns[number].begin):
            column = self.columns[number]
            stays = sum(1 << t for t in self.passing(column) if on_chip[t, column.end])
            dropped = there & ~column.needs & ~stays
            mask = sum(1 << each for each in self.numbers[column.begin : column.end])
            choices.append(
                StepChoice(
                    mask,
                    dropped,
                    column.fetched,
                    column.resident,
                    column.written,
                    column.in_place,
                    column.shape,
                )
            )
            there = (there & ~dropped & ~column.touched) | column.keeps
        groups, capacity = self.problem.groups, self.problem.machine.capacity
        plan = place_steps(groups, choices, capacity, exact=True) or place_steps(
            groups, choices, 3 * capacity
        )
        assert plan is not None
        return plan

    def values(self, plan: Plan) -> tuple[list[int], set[tuple[int, int]]] | None:
        """Return the columns of a plan and what is on chip after so many operations; None if it has none."""
        chosen, on_chip, place = [], set(), 0
        for step in decode_plan(self.problem, plan):
            choice, end = step.choice, place + len(step.group.operations)
            needs = step.before.on_chip & ~choice.dropped & step.group.read
            key = (place, end, needs, choice.fetched, choice.resident, choice.written, choice.in_place)
            found = [
                number
                for number, c in enumerate(self.columns)
                if (c.begin, c.end, c.needs, c.fetched, c.resident, c.written, c.in_place) == key
                and c.moved <= step.moved
                and c.memory <= step.memory
            ]
            if not found:
                return None
            chosen.append(min(found, key=lambda number: self.columns[number].memory))
            on_chip |= {(t, place) for t in members(step.before.on_chip & ~choice.dropped)}
            place = end
        return chosen, on_chip
