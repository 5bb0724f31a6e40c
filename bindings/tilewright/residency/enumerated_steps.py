"""All steps of a problem, listed and priced: what the formulations by columns choose from.

A column is a step with one way to cut it up. No plan is lost: all groups that may come next are listed, with
all that may be on chip before them and all that they may do with tensors; of ways to cut one up those that
take less memory or cost less than another. Columns that belong to dearer plans alone than a known one are
left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tilewright.core.cutoffs import narrow
from tilewright.residency.cost import Spent
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import exceeded_limit
from tilewright.residency.exact.all_shapes import spent_by
from tilewright.residency.exact.priced_steps import FIELDS, Costs, PricedSteps, covers, most_parts
from tilewright.residency.graph import members
from tilewright.residency.greedy import construct, fused_groups, leaves_room, next_alone
from tilewright.residency.machine import ONE
from tilewright.residency.placement import encode_plan, place_steps
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes
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


def takes(problem: Problem) -> bool:
    """Whether the formulations take a problem."""
    return (
        not problem.before
        and problem.minimise in FIELDS
        and problem.limits.frames == ONE
        and problem.limits.executions == 1
        and len(places_of(problem)) <= MOST_PLACES
        and ((known := known_plan(problem)) is None or known.beyond <= CERTAIN * parts_of(problem)[0])
    )


def places_of(problem: Problem) -> list[int]:
    """Return the operations that may have been executed when a step begins, or all of them: as bit masks.

    Those of fewer operations come first; where there are more than `MOST_PLACES`, some of them are returned.
    """
    graph, steps = problem.graph, Transitions(problem.groups, problem.machine.capacity, problem.limits)
    found, waiting = {graph.begin}, [graph.begin]
    while waiting and len(found) <= MOST_PLACES:
        done = waiting.pop()
        new = {done | mask for mask in steps.next_groups(done)} - found
        found |= new
        waiting += new
    return sorted(found, key=lambda done: (done.bit_count(), done))


class Known(NamedTuple):
    """What a plan costs beyond the least, in the parts that steps count, and its steps.

    It fits by size, as the plans of models do; whether it has addresses is not asked.
    """

    beyond: int
    choices: tuple[StepChoice, ...]


def known_plan(problem: Problem) -> Known | None:
    """Return the best of some simple plans; None without one that keeps the limits."""
    limits, objective = problem.limits, problem.objective
    key = limits.order, limits.most_operations, problem.machine.capacity, tuple(objective.limits.items())
    found: Known | None = problem.groups.share(("known", _names(problem), key), lambda: _known(problem))
    return found


def _names(problem: Problem) -> tuple[str, ...]:
    return (problem.minimise, *problem.objective.limits)


def parts_of(problem: Problem) -> tuple[int, int]:
    """Return of how many parts one consists of what models minimise, and what the objective counts for it.

    That is an element, a whole cycle, or a whole femtojoule.
    """
    unit = problem.machine.element_bytes if problem.minimise == "traffic" else 1
    return most_parts(problem, problem.minimise, unit), unit


def _least(problem: Problem) -> int:
    """Return what every plan costs of what is minimised, in the parts that steps count."""
    least: int = getattr(problem.least_spent, FIELDS[problem.minimise])
    return least


def _known(problem: Problem) -> Known | None:
    found: list[Known] = []
    ways: list[tuple[Any, dict[str, Any]]] = [
        (fused_groups, {"empty": True}),
        (next_alone, {"empty": True}),
        (fused_groups, {"allowed": leaves_room(problem)}),
    ]
    for groups, how in ways:
        try:
            plan = construct(problem, groups, **how)
        except InputError:
            continue
        choices = [step.choice for step in decode_plan(problem, plan)]
        if _names(problem) != ("traffic",):
            choices = PricedSteps(problem, problem.machine.capacity, _names(problem)).improve(choices)
        steps = decode_plan(problem, _without_addresses(problem, choices))
        if exceeded_limit(problem, steps) is None:
            cost = sum(_cost(problem, step.spent)[0] for step in steps)
            found.append(Known(cost - _least(problem), tuple(choices)))
    return min(found, key=lambda known: known.beyond, default=None)


def _without_addresses(problem: Problem, choices: Sequence[StepChoice]) -> Plan:
    return encode_plan(problem.graph, choices, [{} for _ in choices])


def _cost(problem: Problem, spent: Spent) -> Costs:
    return tuple(getattr(spent, FIELDS[name]) for name in _names(problem))


class Columns:
    """All steps of a problem.

    Attributes
    ----------
    places
        Operations that have been executed, as bit masks: none at first, all at last.
    columns
        The steps.
    tensors
        Those that are read.
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

    Raises
    ------
    InputError
        If there are too many.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph, self.names = problem, problem.graph, _names(problem)
        self.places, self.least = places_of(problem), _least(problem)
        self.numbers = {done: place for place, done in enumerate(self.places)}
        self.parts, self.unit = parts_of(problem)
        self.base = self.least // self.parts
        self.known = None if narrow() else known_plan(problem)
        self.allowed = ANYTHING if self.known is None else self.known.beyond
        self.most = [most_parts(problem, name, limit) for name, limit in problem.objective.limits.items()]
        self.steps = Transitions(problem.groups, problem.machine.capacity, problem.limits)
        self.tensors = [number for number, readers in enumerate(self.graph.readers) if readers]
        self.columns = self._worth_it(list(self._columns()))
        if len(self.columns) > MOST_COLUMNS:
            limit = f"gives {len(self.columns):,} steps to choose from, at most {MOST_COLUMNS:,} are listed"
            raise InputError("network.layers", len(self.graph.operations), limit)
        self.dearest = [self._dearest(place) for place in range(len(self.names))]
        self.most = [min(pair) for pair in zip(self.most, self.dearest[1:], strict=True)]
        if self.known is None:
            self.allowed = max(0, self.dearest[0] - self.least)
            if self.allowed > CERTAIN * self.parts:
                beyond = self.allowed // self.parts
                limit = f"may cost {beyond:,} beyond the least, {CERTAIN:,} can be told apart"
                raise InputError("network.layers", len(self.graph.operations), limit)

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

    def _worth_it(self, columns: list[Column]) -> list[Column]:
        """Return the steps with which a plan may cost as little as is allowed, whatever is on chip."""
        if self.known is None:
            return columns
        to, fro = [ANYTHING] * len(self.places), [ANYTHING] * len(self.places)
        to[0] = fro[-1] = 0
        ascending = sorted(columns, key=lambda one: one.begin)
        for column in ascending:
            to[column.end] = min(to[column.end], to[column.begin] + column.costs[0])
        for column in reversed(ascending):
            fro[column.begin] = min(fro[column.begin], fro[column.end] + column.costs[0])
        most = self.least + self.allowed
        return [each for each in columns if to[each.begin] + each.costs[0] + fro[each.end] <= most]

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
        for begin, done in enumerate(self.places):
            for mask in self.steps.next_groups(done):
                yield from self._of_group(self.steps.groups[mask], begin, done)

    def _of_group(self, group: Group, begin: int, done: int) -> Iterator[Column]:
        """Return the steps of a group, for all that may be on chip before it, with all shapes."""
        steps, end = self.steps, self.numbers[done | group.mask]
        live = self.graph.still_read(done | group.mask)
        for needs in subsets(group.read):
            if needs & ~self._may_be_on_chip(begin):
                continue
            for tensors in steps.tensor_choices(group, needs, done, written_early=self.names != ("traffic",)):
                for shape, memory, costs in self._shapes(group, tensors, done):
                    yield Column(
                        begin,
                        end,
                        needs,
                        tensors.fetched | tensors.streamed,
                        tensors.whole & live,
                        group.touched,
                        *(tensors.fetched, tensors.resident, tensors.written, tensors.in_place),
                        shape,
                        memory + tensors.taken,
                        costs,
                    )

    def _may_be_on_chip(self, place: int) -> int:
        """Return the tensors that may be on chip at a place, as a bit mask."""
        return sum(1 << tensor for tensor in self.tensors if place and self.live(tensor, place))

    def _shapes(self, group: Group, tensors: TensorChoice, done: int) -> Iterator[tuple[Shape, int, Costs]]:
        """Return the ways to cut up a step that fit, with the memory of their buffers and what they cost."""
        room = self.problem.machine.capacity - tensors.taken
        fetched = [self.graph.still_needed(tensor, done) for tensor in members(tensors.fetched)]
        kept: list[tuple[Shape, int, Costs]] = []
        priced = []
        for shape in self._worth_pricing(group, tensors, room):
            memory, spent = spent_by(self.problem, group, tensors, shape, fetched)
            if memory <= room:
                priced.append((memory, _cost(self.problem, spent), shape))
        for memory, costs, shape in sorted(priced, key=lambda each: each[:2]):
            if not any(covers(other, costs) for _, _, other in kept):
                kept.append((shape, memory, costs))
        return iter(kept)

    def _worth_pricing(self, group: Group, tensors: TensorChoice, room: int) -> Iterator[Shape]:
        """Return the ways of which none takes less memory and costs less than another.

        Without second buffers what moves less costs less, in whole rows and in strips of the same width.
        """
        whole = frozenset(members(tensors.whole & group.touched))
        streamed = self.steps.streamed(group, tensors.streamed)
        widths = [(None, *strip_widths(group))]
        if self.names != ("traffic",):
            widths = [(each,) for each in widths[0]]
        again = self.allowed if self.names[0] == "traffic" else ANYTHING
        for columns in widths:
            found = pareto_shapes(group, whole, streamed, Limits(room, again), columns, tensors.in_place)
            yield from (each.shape for each in found)
        if self.problem.machine.double_buffering and self.names != ("traffic",):
            for shape in double_buffered_shapes(group):
                if tensors.in_place < 0 or replaces(group, shape, tensors.in_place):
                    yield shape

    def plan(self, chosen: list[int], on_chip: dict[tuple[int, int], bool]) -> Plan:
        """Return the plan of some columns, and of what is on chip at each place."""
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
        groups, capacity = self.problem.groups, self.problem.machine.capacity
        plan = place_steps(groups, choices, capacity, exact=True) or place_steps(
            groups, choices, 3 * capacity
        )
        assert plan is not None
        return plan

    def start(self, plan: Plan) -> tuple[list[int], set[tuple[int, int]]] | None:
        """Return the columns of a plan and what is on chip at each place.

        Instead of a plan that is dearer than the known one, or has no columns, it is that one; None without.
        """
        values = self._values(plan)
        if values is not None and self._cost_of(values[0]) <= self.least + self.allowed:
            return values
        if self.known is None:
            return None
        return self._values(_without_addresses(self.problem, self.known.choices))

    def _cost_of(self, chosen: Iterable[int]) -> int:
        return sum(self.columns[number].costs[0] for number in chosen)

    def _values(self, plan: Plan) -> tuple[list[int], set[tuple[int, int]]] | None:
        """Return the columns of a plan and what is on chip at each place; None if it has none."""
        chosen, on_chip, place = [], set(), 0
        for step in decode_plan(self.problem, plan):
            choice, end = step.choice, self.numbers.get(step.before.done | step.choice.group)
            needs = step.before.on_chip & ~choice.dropped & step.group.read
            key = (place, end, needs, choice.fetched, choice.resident, choice.written, choice.in_place)
            costs = _cost(self.problem, step.spent)
            found = [
                number
                for number, c in enumerate(self.columns)
                if (c.begin, c.end, c.needs, c.fetched, c.resident, c.written, c.in_place) == key
                and covers(c.costs, costs)
                and c.memory <= step.memory
            ]
            if end is None or not found:
                return None
            chosen.append(min(found, key=lambda number: self.columns[number].memory))
            on_chip |= {(t, place) for t in members(step.before.on_chip & ~choice.dropped)}
            place = end
        return chosen, on_chip
