"""The steps that may come next where constraints tell plans apart: of those that they tell apart, all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import add
from typing import NamedTuple

from tilewright.core.branch_and_bound import check_deadline
from tilewright.residency.cost import Spent
from tilewright.residency.exact.all_shapes import Told, all_shapes, spent_by, told_by
from tilewright.residency.exact.priced_steps import Costs, PricedSteps, Transition, covers
from tilewright.residency.exact.residuals import Residuals, values_of
from tilewright.residency.graph import members
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import (
    Shape,
    replaces,
)
from tilewright.residency.transitions import State, StepChoice, TensorChoice, Transitions, subsets
from tilewright.residency.vocabulary import OF_SHAPE, StepView
from tilewright.simulator.arithmetic.pixel_arithmetic import Work
from tilewright.spec.constraints.parts import Ground, Term

LOOKED_AT = 256
"""Ways between two looks at the clock."""


class ConstrainedState(NamedTuple):
    """What there is between two steps, and the number of what constraints still ask: see `State`."""

    done: int
    on_chip: int
    in_dram: int
    left: int


class Way(NamedTuple):
    """A way to cut up a step, with what is left of constraints after it, and what it takes and costs."""

    left: int
    memory: int
    costs: Costs
    shape: Shape


class _Steps(Transitions):
    """The steps that are possible, from a beginning on in which all constraints are open."""

    left: int

    def start(self) -> State:
        """Return what there is before the first step."""
        return ConstrainedState(*super().start(), self.left)  # type: ignore[return-value]


class ConstrainedSteps(PricedSteps):
    """The steps that are possible in a memory: of those that constraints tell apart, all.

    Parameters
    ----------
    problem
        Of one frame, each operation executed once, without constraints.
    parts
        What must hold.
    capacity
        Elements of the memory.
    names
        Objectives: the one that is minimised, then those that are limited.
    staying
        Elements of weights that stay for all frames, beside that memory.
    deadline
        ``time.monotonic()`` at which it gives up.
    """

    def __init__(
        self,
        problem: Problem,
        parts: Iterable[Ground],
        capacity: int,
        names: tuple[str, ...],
        staying: int = 0,
        deadline: float = float("inf"),
    ) -> None:
        super().__init__(problem, capacity, names)
        self.residuals, self.staying, self.deadline = Residuals(problem, parts), staying, deadline
        steps = _Steps(problem.groups, capacity, problem.limits)
        steps.left = self.residuals.first or 0
        self.steps = steps
        # What stays on chip is worth writing, too, only to be seen, to be dropped later, or by the way.
        self._all_places = self._timed or bool(self.residuals.words)
        self._ways: dict[tuple[int, ...], list[Way]] = {}
        self._cut: dict[tuple[object, ...], list[tuple[int, int, Spent, Shape]]] = {}

    def transitions(
        self, state: State, mask: int, worth: Callable[[Costs, State], bool]
    ) -> Iterator[Transition]:
        """Return the steps that execute a group next: see `PricedSteps.transitions`."""
        steps, graph, begin = self.steps, self.graph, state.left  # type: ignore[attr-defined]
        group, done = steps.groups[mask], state.done | mask
        live = graph.still_read(done)
        for dropped in subsets(state.on_chip & state.in_dram):
            there = state.on_chip & ~dropped
            for tensors in steps.tensor_choices(group, there, state.done, written_early=self._all_places):
                known = self.residuals.of_tensors(begin, group, tensors, done == graph.all)
                left = self.residuals.left(begin, known)
                if left is None:
                    continue
                where = done, tensors.whole & live, (state.in_dram | tensors.written) & live
                loaded = steps.needed(tensors.fetched, state.done)
                if not worth(self.least_costs(group, tensors, loaded), ConstrainedState(*where, left)):  # type: ignore[arg-type]
                    continue
                fetching = self._fetching(loaded, tensors.fetched)
                for way in self._constrained_ways(group, tensors, left, state.done):
                    choice = StepChoice(mask, dropped, *tensors[:3], tensors.in_place, way.shape)
                    after: State = ConstrainedState(*where, way.left)  # type: ignore[assignment]
                    costs = tuple(map(add, fetching, way.costs))
                    if worth(costs, after):
                        yield Transition(costs, choice, after)

    def left_after(self, choices: Sequence[StepChoice]) -> int | None:
        """Return what is left of constraints after some steps."""
        state, steps, left = State(*self.steps.start()[:3]), self.steps, self.residuals.first
        for choice in choices:
            if left is None:
                return None
            group = steps.groups[choice.group]
            on_chip = state.on_chip & ~choice.dropped | choice.fetched
            whole, streamed = on_chip | choice.resident, group.read & ~on_chip
            taken = steps.size(whole) - (steps.sizes[choice.in_place] if choice.in_place >= 0 else 0)
            tensors = TensorChoice(*choice[2:5], streamed, whole, choice.in_place, taken)
            last = state.done | choice.group == self.graph.all
            left = self.residuals.left(left, self.residuals.of_tensors(left, group, tensors, last))
            if left is not None:
                memory, spent = spent_by(self.problem, group, tensors, choice.shape)
                left = self._after_shape(group, tensors, left, state.done, (memory, spent, choice.shape))
            state = state.after(self.graph, choice)
        return left

    # Ways to cut up a step ------------------------------------------------------------------------------

    def _constrained_ways(
        self, group: Group, tensors: TensorChoice, left: int, done: int
    ) -> Iterator[Way] | list[Way]:
        """Return the ways that fit: of those after which the same is left, none that is worse."""
        listed, sums = self.residuals.of_shapes(left, group.mask), self.residuals.has_sums(left)
        if not listed and not sums:
            return [Way(left, *priced) for priced in self._shapes(group, tensors)]
        room = self.capacity - tensors.taken
        loaded = self.steps.needed(tensors.fetched, done)
        key = (
            *(group.mask, left, tensors.whole & group.touched, tensors.streamed, tensors.written),
            *(tensors.in_place, tensors.fetched, loaded, tensors.taken, done | group.mask == self.graph.all),
        )
        if key not in self._ways:
            more = self.residuals.asks_for_more(left, group)
            told = told_by(group, ((term.word, operation) for term, operation in listed), amounts=more)
            found: dict[int, list[Way]] = {}
            for memory, _, spent, shape in self._all_cut(group, tensors, told, left):
                if memory <= room:
                    after = self._after_shape(group, tensors, left, done, (memory, spent, shape))
                    if after is not None:
                        found.setdefault(after, []).append(Way(after, memory, self.costs(spent), shape))
            self._ways[key] = [way for ways in found.values() for way in _undominated(ways)]
        return self._ways[key]

    def _after_shape(
        self, group: Group, tensors: TensorChoice, left: int, done: int, cut: tuple[int, Spent, Shape]
    ) -> int | None:
        """Return what is left of constraints when a step is cut up; `cut`: memory, what it spends, shape."""
        memory, spent, shape = cut
        loaded, width = self.steps.needed(tensors.fetched, done), self.problem.machine.element_bytes
        spent = spent.plus(self.problem.prices.spent(loaded, Work(), tensors.fetched.bit_count()))
        taken = memory + tensors.taken + self.staying
        view = StepView(group, shape, memory=taken * width, moved=spent.moved * width)
        return self.residuals.after_cut(left, view, spent, last=done | group.mask == self.graph.all)

    def _all_cut(
        self, group: Group, tensors: TensorChoice, told: Told, left: int
    ) -> list[tuple[int, int, Spent, Shape]]:
        """Return the ways that constraints may allow: what they take, and spend but for what is fetched."""
        whole = tensors.whole & group.touched
        key = group.mask, whole, tensors.streamed, tensors.written, tensors.in_place, told, left
        if key not in self._cut:
            found = []
            shapes = all_shapes(
                group,
                told,
                _Wanted(self.residuals, left, group),
                members(whole),
                self.capacity,
                tensors.in_place,
                doubled=self.problem.machine.double_buffering,
            )
            for number, shape in enumerate(shapes):
                if number % LOOKED_AT == 0:
                    check_deadline(self.deadline)
                if tensors.in_place >= 0 and not replaces(group, shape, tensors.in_place):
                    continue
                memory, spent = spent_by(self.problem, group, tensors, shape)
                if memory <= self.capacity:
                    found.append((memory, number, spent, shape))
            self._cut[key] = found
        return self._cut[key]


class _Wanted:
    """What is left of constraints, of the numbers of a way: see `all_shapes.Wanted`."""

    def __init__(self, residuals: Residuals, left: int, group: Group) -> None:
        self.residuals, self.left, self.group = residuals, left, group
        self.listed = [one for one in residuals.of_shapes(left, group.mask) if one[0].word in OF_SHAPE]
        self.of_passes = [one for one in self.listed if one[0].word not in ("kept", "kernels")]
        self.of_kernels = [one for one in self.listed if one[0].word == "kernels"]

    def _may_hold(self, listed: list[tuple[Term, int]], shape: Shape) -> bool:
        known = values_of(listed, StepView(self.group, shape))
        return self.residuals.left(self.left, known) is not None

    def allows(self, shape: Shape) -> bool:
        """Whether constraints may hold with a way."""
        return self._may_hold(self.listed, shape)

    def allows_passes(self, shape: Shape) -> bool:
        """Whether constraints may hold with passes in which some weights are kept, other than told.

        Blocks of several output channels must be good for an operation whose weights are not kept.
        """
        few = shape.kernels == 1 or any(self._may_hold([one], shape) for one in self.of_kernels)
        return few and self._may_hold(self.of_passes, shape)


def _undominated(ways: Iterable[Way]) -> list[Way]:
    """Return the ways that no other takes as little memory and costs as little as."""
    kept: list[Way] = []
    for way in sorted(ways, key=lambda way: (way.memory, way.costs)):
        if not any(covers(other.costs, way.costs) for other in kept):
            kept.append(way)
    return kept
