"""All steps of a problem, listed and priced: what the formulations by columns choose from.

A column is a step with one way to cut it up. No plan is lost: all groups that may come next are listed, with
all that may be on chip before them and all that they may do with tensors; of ways to cut one up those that
take less memory or cost less than another. Columns that belong to dearer plans alone than a known one are
left out.

Without DRAM a column says all: what is on chip follows from what has been executed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import product
from operator import or_
from typing import NamedTuple, TypeVar

from tilewright.core.branch_and_bound import check_deadline
from tilewright.core.cutoffs import narrow
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import add_staying, beside, steps_beside, with_copies_of
from tilewright.residency.evaluation import objective
from tilewright.residency.exact.all_shapes import spent_by
from tilewright.residency.exact.priced_steps import FIELDS, Costs, PricedSteps, covers, most_parts
from tilewright.residency.exact.ram_search import WithoutDram
from tilewright.residency.graph import members
from tilewright.residency.known_plans import (
    Known,
    cost,
    counted,
    known_memory,
    known_plan,
    least,
    without_addresses,
)
from tilewright.residency.machine import ONE
from tilewright.residency.placement import place_steps
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.reader_choices import Choice, reader_choices
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import is_causal, key_sizes
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes
from tilewright.residency.shapes.product_tiles import column_parts
from tilewright.residency.shapes.shape import Shape, double_buffered_shapes, replaces
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import ANYTHING, StepChoice, TensorChoice, Transitions, subsets
from tilewright.spec.errors import InputError

MOST_PLACES = 400
"""Most sets of operations that have been executed when a step begins."""

MOST_COLUMNS = 20_000
"""Most columns of a model."""

CERTAIN = 10**6
"""Most that a plan may cost beyond the least, so that tolerances of solvers leave its last unit certain."""


class Column(NamedTuple):
    """A step, with one way to cut it up; tensors as bit masks.

    Attributes
    ----------
    begin, end
        Numbers of the places before and after it: which operations have been executed.
    staying
        Its operations whose weights stay on chip for all frames; all others load theirs.
    needs, reads
        What must be on chip, and in DRAM, before it.
    keeps
        What is on chip as a whole during it, and is still to be read after it.
    touched
        All that it reads or computes.
    memory
        Elements of all that it reads, computes and places.
    costs
        Of what is minimised, then of all that is limited, in the parts that steps count.
    """

    begin: int
    end: int
    staying: int
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
    costs: Costs

    @property
    def least(self) -> Costs:
        """What it costs, at least and at most."""
        return self.costs


def why_not(problem: Problem) -> str | None:
    """Say why a formulation of one frame and one execution does not take a problem, or None."""
    if problem.minimise not in FIELDS:
        return f"objective.minimise = {problem.minimise}: steps are priced by {', '.join(FIELDS)}"
    if problem.limits.frames != ONE:
        return "limits.frames = many: the model knows one frame"
    if problem.limits.executions != 1:
        return f"limits.executions = {problem.limits.executions}: the model executes operations once"
    return why_not_certain(problem)


def why_not_certain(problem: Problem) -> str | None:
    """Say why no solver has the steps of a problem, or does not tell costs of plans apart, or None."""
    if (many := why_not_in_a_model(problem)) is not None or problem.minimise not in FIELDS:
        return many
    once = problem if problem.limits.executions == 1 else with_copies_of(problem, {})
    known, (parts, _) = known_plan(once), parts_of(problem)
    if known is not None and known.beyond > CERTAIN * parts:
        beyond = known.beyond // parts
        return f"a known plan costs {beyond:,} beyond the least, {CERTAIN:,} can be told apart"
    return None


def why_not_in_a_model(problem: Problem) -> str | None:
    """Say why a solver that is told nothing of addresses does not choose among steps, or None."""
    if problem.machine.dram and len(problem.machine.regions) > 1:
        return (
            "machine.memory names several memories: the model counts sizes, and its plans might cross borders"
        )
    return why_not_listed(problem)


def why_not_listed(problem: Problem) -> str | None:
    """Say why the steps of a problem are not listed, or None."""
    if (placed := counted_by_place(problem)) is not None:
        return f"{placed} depends on what lies in which memory: the model lists steps without that"
    if len(places_of(problem)) > MOST_PLACES:
        return f"a step may begin where more than {MOST_PLACES:,} sets of operations have been executed"
    return None


def counted_by_place(problem: Problem) -> str | None:
    """Return what counts that depends on which memory things lie in, or None."""
    if problem.machine.dram:
        return None
    return next(iter(problem.memory_costs.placed(counted(problem))), None)


def places_of(problem: Problem) -> list[int]:
    """Return the operations that may have been executed when a step begins, or all of them: as bit masks.

    Those of fewer operations come first; where there are more than `MOST_PLACES`, some of them are returned.
    """
    graph, steps = problem.graph, Transitions(problem.groups, problem.machine.capacity, problem.limits)
    found, waiting = {graph.begin}, [graph.begin]
    follow = steps.next_groups if problem.machine.dram else steps.groups_within_limits
    while waiting and len(found) <= MOST_PLACES:
        done = waiting.pop()
        new = {done | mask for mask in follow(done)} - found
        found |= new
        waiting += new
    return sorted(found, key=lambda done: (done.bit_count(), done))


def parts_of(problem: Problem) -> tuple[int, int]:
    """Return of how many parts one consists of what models minimise, and what the objective counts for it.

    That is an element, a whole cycle, or a whole femtojoule.
    """
    unit = problem.machine.element_bytes if problem.minimise in ("traffic", "memory") else 1
    return 1 if problem.minimise == "memory" else most_parts(problem, problem.minimise, unit), unit


def least_path(found: Columns) -> int:
    """Return what every plan costs, as far as each step by itself tells: what is on chip is not asked."""
    to = [ANYTHING] * len(found.places)
    to[0] = 0
    for column in sorted(found.columns, key=lambda one: one.begin):
        to[column.end] = min(to[column.end], to[column.begin] + column.costs[0])
    return to[-1]


class _Way(NamedTuple):
    """What a step may do with tensors, before it is known how it is cut up.

    Attributes
    ----------
    least
        What it costs at least.
    """

    begin: int
    end: int
    staying: int
    group: Group
    needs: int
    tensors: TensorChoice
    least: Costs


StepT = TypeVar("StepT", _Way, Column)


class Columns:
    """All steps of a problem.

    Attributes
    ----------
    places
        Operations that have been executed, as bit masks: none at first, all at last.
    columns
        The steps.
    tensors
        Those of which it is to be decided whether they are on chip: all that are read, without DRAM none.
    least
        What every plan costs of what is minimised, in the parts that steps count.
    allowed
        What a plan may cost beyond that: as a known one; where that does not count (`core.cutoffs`), as any.
    parts, unit, base
        Parts of which one of what models minimise consists; what the objective counts for it; how many of
        them the least is, rounded down.
    dearest
        What all steps of a plan cost at most, of each cost.
    most
        The most that they may cost of what is limited.
    capacity
        Elements of memory that steps may take: those of the machine, or without DRAM those that a known plan
        takes, where memory is minimised.

    Parameters
    ----------
    allowed
        By default as told above.

    Raises
    ------
    InputError
        If there are too many.
    """

    def __init__(self, problem: Problem, allowed: int | None = None) -> None:
        self.problem, self.graph, self.names = problem, problem.graph, counted(problem)
        if (placed := counted_by_place(problem)) is not None:
            limit = f"decide {placed}: no model lists steps with what lies where"
            raise InputError("machine.memory", list(problem.machine.names_of_memories), limit)
        self.places, self.least = places_of(problem), least(problem)
        if len(self.places) > MOST_PLACES:
            limit = f"has more than {MOST_PLACES:,} sets of operations from which on a step may begin"
            raise InputError("network.layers", len(self.graph.operations), limit)
        self.numbers = {done: place for place, done in enumerate(self.places)}
        self.parts, self.unit = parts_of(problem)
        self.base = self.least // self.parts
        self.minimised = int(problem.minimise in FIELDS)  # how many of the costs are
        known = allowed is None and self.minimised and not narrow()
        self.known = known_plan(problem) if known else None
        self.allowed = ANYTHING if allowed is None else allowed
        if self.known is not None:
            self.allowed = self.known.beyond
        self.capacity = problem.machine.capacity
        if not (problem.machine.dram or self.minimised or narrow()):
            self.capacity = min(self.capacity, known_memory(problem))
        self.most = [most_parts(problem, name, limit) for name, limit in problem.objective.limits.items()]
        self.steps = Transitions(problem.groups, problem.machine.capacity, problem.limits)
        readers = self.graph.readers if problem.machine.dram else ()
        self.tensors = [number for number, each in enumerate(readers) if each]
        # What does not stay is loaded: beside a step that takes more, too few weights stay to be worth it.
        self.room = problem.machine.capacity
        if problem.limits.frames != ONE:
            self.room += self.least + self.allowed - self.graph.compulsory
        self._priced: dict[int, PricedSteps | None] = {}
        self.columns = self._worth_it(list(self._columns()))
        if len(self.columns) > MOST_COLUMNS:
            limit = f"gives {len(self.columns):,} steps to choose from, at most {MOST_COLUMNS:,} are listed"
            raise InputError("network.layers", len(self.graph.operations), limit)
        self.dearest = [self._dearest(place) for place in range(len(self.names))]
        self.most = [min(pair) for pair in zip(self.most, self.dearest[self.minimised :], strict=True)]
        if self.minimised and self.allowed == ANYTHING:
            self.allowed = max(0, self.dearest[0] - self.least)

    @property
    def worst(self) -> int:
        """What the objective counts beyond `base` at most, rounded up."""
        return -(-(self.least + self.allowed) // self.parts) - self.base

    def _dearest(self, which: int) -> int:
        """Return what any sequence of steps costs at most that end where others begin."""
        dearest = [0] * len(self.places)
        for column in sorted(self.columns, key=lambda one: one.begin, reverse=True):
            cost = column.costs[which] + dearest[column.end]
            dearest[column.begin] = max(dearest[column.begin], cost)
        return dearest[0]

    def _worth_it(self, steps: list[StepT]) -> list[StepT]:
        """Return the steps with which a plan may cost as little as is allowed, whatever is on chip."""
        found = steps
        for which in range(len(self.names)):
            to, fro, most = self._reached(found, which), self._left(found, which), self._most_of(which)
            found = [each for each in found if to[each.begin] + each.least[which] + fro[each.end] <= most]
        return found

    def _most_of(self, which: int) -> int:
        """Return the most that a plan may cost."""
        if which < self.minimised:
            return self.least + self.allowed
        return self.most[which - self.minimised]

    def _reached(self, steps: Sequence[_Way | Column], which: int) -> list[int]:
        """Return what it costs at least to come to each place."""
        to = [ANYTHING] * len(self.places)
        to[0] = 0
        for each in sorted(steps, key=lambda one: one.begin):
            to[each.end] = min(to[each.end], to[each.begin] + each.least[which])
        return to

    def _left(self, steps: Sequence[_Way | Column], which: int) -> list[int]:
        """Return what it costs at least to come from each place to the end."""
        fro = [ANYTHING] * len(self.places)
        fro[-1] = 0
        for each in sorted(steps, key=lambda one: one.begin, reverse=True):
            fro[each.begin] = min(fro[each.begin], fro[each.end] + each.least[which])
        return fro

    def live(self, tensor: int, place: int) -> bool:
        """Whether a tensor is there and still to be read at a place."""
        done = self.places[place]
        there = self.graph.tensors[tensor].given or done >> tensor - 1 & 1
        return bool(there and self.graph.readers[tensor] & ~done)

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
        """Return the steps, with all shapes that may be worth it."""
        if not self.problem.machine.dram:
            yield from self._without_dram()
            return
        ways = self._worth_it(list(self._ways()))
        if not self.names:
            slack = [ANYTHING] * len(ways)
        else:
            to, fro, most = self._reached(ways, 0), self._left(ways, 0), self._most_of(0)
            slack = [most - to[way.begin] - way.least[0] - fro[way.end] for way in ways]
        for way, more in zip(ways, slack, strict=True):
            yield from self._of_way(way, more)

    def _without_dram(self) -> Iterator[Column]:
        """Return the steps of a machine without DRAM: each takes all that is on chip during it."""
        first = self.problem.minimise if self.minimised else None
        search = WithoutDram(self.problem, float("inf"), first, capacity=self.capacity)
        for begin, done in enumerate(self.places):
            for mask in search.steps.groups_within_limits(done):
                for way in search.ways(mask, done):
                    choice, (memory, *costs) = way.choice, way.costs
                    assert choice is not None
                    yield Column(
                        *(begin, self.numbers[done | mask], 0),
                        *(0, 0, 0, 0),
                        *(choice.fetched, choice.resident, choice.written, choice.in_place),
                        choice.shape,
                        memory,
                        tuple(costs),
                    )

    def _ways(self) -> Iterator[_Way]:
        """Return the steps of all groups that may come next, for all that may be on chip before."""
        many = self.problem.limits.frames != ONE
        for begin, done in enumerate(self.places):
            for mask in self.steps.next_groups(done):
                weighted = sum(1 << number for number in self.steps.groups[mask].weighted)
                for staying in subsets(weighted) if many else [0]:
                    yield from self._of_group(mask, staying, begin, done)

    def _of_group(self, mask: int, staying: int, begin: int, done: int) -> Iterator[_Way]:
        priced = self.priced(staying)
        if priced is None:
            return
        steps, end = priced.steps, self.numbers[done | mask]
        if steps.least_memory(mask) > steps.capacity:
            return
        group = steps.groups[mask]
        for needs in subsets(group.read):
            if needs & ~self._may_be_on_chip(begin):
                continue
            early = self.names != ("traffic",)
            for tensors in steps.tensor_choices(group, needs, done, written_early=early):
                cheapest = priced.least_costs(group, tensors, steps.needed(tensors.fetched, done))
                yield _Way(begin, end, staying, group, needs, tensors, cheapest)

    def priced(self, staying: int) -> PricedSteps | None:
        """Return the steps beside the weights of some operations; None where these leave too little room."""
        if staying not in self._priced:
            problem: Problem | None = self.problem
            if self.problem.limits.frames != ONE:
                problem = steps_beside(self.problem, members(staying))
            self._priced[staying] = (
                None if problem is None else PricedSteps(problem, problem.machine.capacity, self.names)
            )
        return self._priced[staying]

    def _of_way(self, way: _Way, more: int) -> Iterator[Column]:
        """Return the steps of a way, with all shapes that cost no more than `more` beyond its least."""
        done, tensors = self.places[way.begin], way.tensors
        for shape, memory, costs in self._shapes(way, more):
            yield Column(
                way.begin,
                way.end,
                way.staying,
                way.needs,
                tensors.fetched | tensors.streamed,
                tensors.whole & self.graph.still_read(done | way.group.mask),
                way.group.touched,
                *(tensors.fetched, tensors.resident, tensors.written, tensors.in_place),
                shape,
                memory + tensors.taken,
                costs,
            )

    def _may_be_on_chip(self, place: int) -> int:
        """Return the tensors that may be on chip at a place, as a bit mask."""
        return sum(1 << tensor for tensor in self.tensors if place and self.live(tensor, place))

    def _shapes(self, way: _Way, more: int) -> Iterator[tuple[Shape, int, Costs]]:
        """Return the ways to cut up a step that fit, with the memory of their buffers and what they cost."""
        priced, tensors = self.priced(way.staying), way.tensors
        assert priced is not None
        room = min(priced.capacity, self.room) - tensors.taken
        fetched = [
            self.graph.still_needed(tensor, self.places[way.begin]) for tensor in members(tensors.fetched)
        ]
        kept: list[tuple[Shape, int, Costs]] = []
        found = []
        for shape in self._worth_pricing(priced, way, room, more):
            memory, spent = spent_by(priced.problem, way.group, tensors, shape, fetched)
            if memory <= room:
                found.append((memory, cost(self.names, spent), shape))
        for memory, costs, shape in sorted(found, key=lambda each: each[:2]):
            if not any(covers(other, costs) for _, _, other in kept):
                kept.append((shape, memory, costs))
        return iter(kept)

    def _worth_pricing(self, priced: PricedSteps, way: _Way, room: int, more: int) -> Iterator[Shape]:
        """Return the ways of which none takes less memory and costs less than another.

        Without second buffers what moves less costs less, in whole rows and in strips of the same width.
        """
        group, tensors = way.group, way.tensors
        whole = frozenset(members(tensors.whole & group.touched))
        streamed = priced.steps.streamed(group, tensors.streamed)
        ways: list[tuple[tuple[int | None, ...], int, int]] = [((None, *strip_widths(group)), 1, 0)]
        if self.names != ("traffic",):
            ways = [((each,), 1, 0) for each in ways[0][0]]
            if column_parts(group):
                ways = [(columns, 0, 0) for columns, *_ in ways]
                numbers = product(key_sizes(group), column_parts(group))
                ways += [((None,), -keys, parts) for keys, parts in numbers]
            elif is_causal(group):
                ways = [(columns, 0, 0) for columns, *_ in ways]
                ways += [((None,), -keys, 0) for keys in key_sizes(group)]
            elif sizes := key_sizes(group):
                ways += [((None,), keys, 0) for keys in [0, *sizes[1:]]]
        again = more if self.names[:1] == ("traffic",) else ANYTHING
        for columns, keys, parts in ways:
            limits = Limits(room, again)
            found = pareto_shapes(group, whole, streamed, limits, columns, tensors.in_place, keys, parts)
            yield from (each.shape for each in found)
        if self.problem.machine.double_buffering and self.names not in ((), ("traffic",)):
            for shape in double_buffered_shapes(group):
                if tensors.in_place < 0 or replaces(group, shape, tensors.in_place):
                    yield shape

    def plan(self, chosen: list[int], on_chip: dict[tuple[int, int], bool], most: int | None = None) -> Plan:
        """Return the plan of some columns, and of what is on chip at each place.

        Its addresses end below `most` elements, by default those of the memory; if there are none, it has
        others, and is no valid plan.
        """
        choices, there = list[StepChoice](), 0
        for number in sorted(chosen, key=lambda number: self.columns[number].begin):
            column = self.columns[number]
            stays = sum(1 << t for t in self.passing(column) if on_chip[t, column.end])
            dropped = there & ~column.needs & ~stays
            choices.append(
                StepChoice(
                    self.places[column.end] & ~self.places[column.begin],
                    dropped,
                    column.fetched,
                    column.resident,
                    column.written,
                    column.in_place,
                    column.shape,
                )
            )
            there = (there & ~dropped & ~column.touched) | column.keeps
        staying = members(reduce(or_, (self.columns[number].staying for number in chosen), 0))
        priced = self.priced(sum(1 << number for number in staying))
        assert priced is not None
        groups, capacity = priced.steps.groups, priced.capacity if most is None else most
        machine = self.problem.machine
        for region in () if machine.dram else machine.regions:
            plan = place_steps(groups, choices, min(capacity, region.elements), exact=True)
            if plan is not None:
                return plan.moved_up(region.begin)
        if machine.dram:
            several = len(machine.regions) > 1
            left = beside(self.problem, staying) if several and staying else None
            regions = (machine if left is None else left.machine).regions
            plan = place_steps(groups, choices, capacity, exact=True, regions=regions)
            if plan is not None:
                return add_staying(self.problem, staying, plan)
        plan = place_steps(groups, choices, 3 * capacity)
        assert plan is not None
        return add_staying(self.problem, staying, plan)

    def lowest_plan(
        self,
        chosen: list[int],
        on_chip: dict[tuple[int, int], bool],
        size: int,
        deadline: float = float("inf"),
    ) -> Plan:
        """Return the plan of some columns in as little memory as addresses are found for.

        Parameters
        ----------
        size
            Elements of all that is on chip at a time, at most.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        most, unit, capacity = self.problem.machine.capacity, self.unit, size
        while True:
            check_deadline(deadline)
            plan = self.plan(chosen, on_chip, capacity)
            if capacity >= most or objective(self.problem, plan) <= capacity * unit:
                return plan
            capacity = min(most, capacity + max(1, size // 200))

    def start(self, plan: Plan | None) -> tuple[list[int], set[tuple[int, int]]] | None:
        """Return the columns of a plan and what is on chip at each place.

        Instead of a plan that is dearer than the known one, or has no columns, it is that one; None without.
        """
        values = None if plan is None else self._values(plan)
        if values is not None and self._is_allowed(values[0]):
            return values
        if self.known is None:
            return None
        return self._values(self._of_known(self.known))

    def _of_known(self, known: Known) -> Plan:
        """Return a known plan, without addresses."""
        priced = self.priced(sum(1 << number for number in known.staying))
        assert priced is not None
        return add_staying(self.problem, known.staying, without_addresses(priced.problem, known.choices))

    def _is_allowed(self, chosen: Iterable[int]) -> bool:
        if not self.minimised:
            return True
        return sum(self.columns[number].costs[0] for number in chosen) <= self.least + self.allowed

    def _values(self, plan: Plan) -> tuple[list[int], set[tuple[int, int]]] | None:
        """Return the columns of a plan and what is on chip at each place; None if it has none."""
        numbers = {operation.name: operation.number for operation in self.graph.operations}
        staying = sum(1 << numbers[name] for name in plan.staying)
        chosen, on_chip, place = [], set(), 0
        for step in decode_plan(self.problem, plan):
            choice, end = step.choice, self.numbers.get(step.before.done | step.choice.group)
            needs = step.before.on_chip & ~choice.dropped & step.group.read if self.tensors else 0
            key = (place, end, staying & choice.group, needs, *choice[2:6])
            costs = cost(self.names, step.spent)
            found = [
                number
                for number, c in enumerate(self.columns)
                if (c.begin, c.end, c.staying, c.needs, c.fetched, c.resident, c.written, c.in_place) == key
                and covers(c.costs, costs)
                and c.memory <= step.memory
            ]
            if end is None or not found:
                return None
            chosen.append(min(found, key=lambda number: self.columns[number].memory))
            on_chip |= {(t, place) for t in members(step.before.on_chip & ~choice.dropped)}
            place = end
        return chosen, on_chip


class Executed(NamedTuple):
    """A network, who reads what its second executions compute, and its steps."""

    again: Choice
    found: Columns


def networks_of(problem: Problem, most: int) -> list[Executed]:
    """Return the network of the file, and all in which some of its operations have copies.

    Those are left out in which no plan moves as little as a known one, where that counts (`core.cutoffs`).

    Parameters
    ----------
    most
        How many there may be.

    Raises
    ------
    InputError
        If there are more, or steps of one or of all of them are too many.
    """
    if problem.limits.executions == 1:
        return [Executed({}, Columns(problem))]
    choices = reader_choices(problem, most)
    if len(choices) > most:
        limit = f"second executions have more than {most:,} choices of readers"
        raise InputError("limits.executions", problem.limits.executions, limit)
    first = Columns(with_copies_of(problem, {}))
    found = [Executed({}, first)]
    for again in filter(None, choices):
        split = with_copies_of(problem, again)
        spare = ANYTHING if first.known is None else first.least + first.allowed - least(split)
        if spare >= 0 and (columns := Columns(split, spare)).columns:
            found.append(Executed(again, columns))
    if (together := sum(len(each.found.columns) for each in found)) > MOST_COLUMNS:
        limit = f"{len(found):,} networks have {together:,} steps, at most {MOST_COLUMNS:,} are listed"
        raise InputError("limits.executions", problem.limits.executions, limit)
    return found
