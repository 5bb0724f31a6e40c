"""The steps that may come next, each with what it costs of all that counts: traffic, time, energy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from operator import add, le
from typing import NamedTuple

from tilewright.residency.cost import Spent, cost_of_step, least_work, work_of_step
from tilewright.residency.graph import members
from tilewright.residency.machine import memory_in
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import is_causal, key_sizes
from tilewright.residency.shapes.pareto_shapes import ParetoShape
from tilewright.residency.shapes.product_tiles import column_parts
from tilewright.residency.shapes.shape import (
    Shape,
    double_buffered_shapes,
    elements_moved,
    replaces,
    step_buffers,
)
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import (
    ANYTHING,
    State,
    StepChoice,
    TensorChoice,
    Transitions,
    subsets,
)
from tilewright.simulator.arithmetic.pixel_arithmetic import Work

Costs = tuple[int, ...]
"""Of what is minimised, then of all that is limited."""

FIELDS = {"traffic": "moved", "cycles": "time", "energy": "energy", "macs": "macs"}
"""What of `Spent` each objective is."""


def most_parts(problem: Problem, name: str, limit: int) -> int:
    """Return the most of what steps count of which no more than so many units of an objective become."""
    if name == "traffic" or memory_in(name) is not None:
        return limit // problem.machine.element_bytes
    if name == "macs":
        return limit
    return limit * (problem.prices.cycle if name == "cycles" else problem.prices.femtojoule)


def units_of(problem: Problem, name: str, parts: int) -> int:
    """Return the units of an objective that what steps count becomes."""
    if name == "traffic" or memory_in(name) is not None:
        return parts * problem.machine.element_bytes
    if name == "macs":
        return parts
    prices = problem.prices
    return prices.cycles(parts) if name == "cycles" else prices.femtojoules(parts)


class PricedShape(NamedTuple):
    """A shape with the memory that its buffers take, and what it costs but for tensors fetched whole."""

    memory: int
    costs: Costs
    shape: Shape


class Transition(NamedTuple):
    """A step with what it costs, and what there is after it."""

    costs: Costs
    choice: StepChoice
    after: State


class PricedSteps:
    """The steps that are possible in a memory.

    Parameters
    ----------
    capacity
        Elements of the memory.
    names
        Objectives: the one that is minimised, then those that are limited.
    most_again
        Most elements that a step is worth moving again.
    """

    def __init__(
        self,
        problem: Problem,
        capacity: int,
        names: tuple[str, ...] = ("traffic",),
        most_again: int = ANYTHING,
    ) -> None:
        self.problem, self.graph, self.capacity, self.names = problem, problem.graph, capacity, names
        self.steps = Transitions(problem.groups, capacity, problem.limits, most_again)
        self._timed = names != ("traffic",)
        self._doubled: dict[tuple[int, int, int, int, int], list[PricedShape]] = {}
        self._least: dict[tuple[int, ...], Costs] = {}
        self._work: dict[tuple[int | None, ...], Work] = {}

    def costs(self, spent: Spent) -> Costs:
        """Return what is spent of all that counts."""
        return tuple(getattr(spent, FIELDS[name]) for name in self.names)

    def transitions(
        self, state: State, mask: int, worth: Callable[[Costs, State], bool]
    ) -> Iterator[Transition]:
        """Return the steps that execute a group next, of those with the same tensors none that is worse.

        Parameters
        ----------
        worth
            Whether a step is looked at, by what it costs at least and what there is after it.
        """
        steps, graph = self.steps, self.graph
        group = steps.groups[mask]
        done = state.done | mask
        live = graph.still_read(done)
        for dropped in subsets(state.on_chip & state.in_dram):
            there = state.on_chip & ~dropped
            for tensors in steps.tensor_choices(group, there, state.done, written_early=self._timed):
                after = State(done, tensors.whole & live, (state.in_dram | tensors.written) & live)
                loaded = steps.needed(tensors.fetched, state.done)
                if not worth(self.least_costs(group, tensors, loaded), after):
                    continue
                fetching = self._fetching(loaded, tensors.fetched)
                for priced in self._shapes(group, tensors):
                    choice = StepChoice(
                        mask,
                        dropped,
                        tensors.fetched,
                        tensors.resident,
                        tensors.written,
                        tensors.in_place,
                        priced.shape,
                    )
                    yield Transition(tuple(map(add, fetching, priced.costs)), choice, after)

    def improve(self, choices: Sequence[StepChoice]) -> list[StepChoice]:
        """Return the same steps, each cut up so that it costs least of what is minimised."""
        steps, state, found = self.steps, self.steps.start(), []
        for choice in choices:
            group = steps.groups[choice.group]
            on_chip = state.on_chip & ~choice.dropped | choice.fetched
            whole, streamed = on_chip | choice.resident, group.read & ~on_chip
            taken = steps.size(whole) - (steps.sizes[choice.in_place] if choice.in_place >= 0 else 0)
            tensors = TensorChoice(*choice[2:5], streamed, whole, choice.in_place, taken)
            best = min(self._shapes(group, tensors), key=lambda priced: priced.costs)
            found.append(choice._replace(shape=best.shape))
            state = state.after(self.graph, choice)
        return found

    # Costs ---------------------------------------------------------------------------------------------

    def least_costs(self, group: Group, tensors: TensorChoice, loaded: int) -> Costs:
        """Return what a step costs at least that moves nothing again, with `loaded` elements fetched."""
        key = group.mask, tensors.fetched, tensors.streamed, tensors.written, loaded
        known = self._least.get(key)
        if known is None:
            prices, time = self.problem.prices, None
            moved = group.weights + loaded + self._once(group, tensors)
            transfers = len(group.weighted) + sum(mask.bit_count() for mask in key[1:4])
            if self.problem.machine.double_buffering:
                time = max(self.problem.remaining.alone(group.mask), prices.transfer(moved))
            work = least_work(group)
            known = self._least[key] = self.costs(prices.spent(moved, work, transfers, time))
        return known

    def _work_of(self, group: Group, shape: Shape) -> Work:
        """Return the work of a step; tiles compute nothing again."""
        columns = None if shape.order == "tiles" else shape.columns
        key = group.mask, columns, shape.keys, shape.kernels if shape.keys is not None else None
        if key not in self._work:
            self._work[key] = work_of_step(group, shape)
        return self._work[key]

    def _once(self, group: Group, tensors: TensorChoice) -> int:
        """Return the elements that passes read and write, as far as nothing is read again."""
        return self.steps.streamed(group, tensors.streamed) + self.steps.size(tensors.written)

    def _fetching(self, loaded: int, fetched: int) -> Costs:
        """Return what it costs to load so many elements of tensors before the first pass."""
        return self.costs(self.problem.prices.spent(loaded, Work(), fetched.bit_count()))

    # Shapes --------------------------------------------------------------------------------------------

    def _shapes(self, group: Group, tensors: TensorChoice, capacity: int | None = None) -> list[PricedShape]:
        """Return the shapes that fit into so many elements, or the memory, and are not worse than another."""
        room = (self.capacity if capacity is None else capacity) - tensors.taken

        def best(*columns: int | None, keys: int = 1, parts: int = 0) -> ParetoShape | None:
            """Return what moves least in whole rows, or in strips: it costs least, whatever is counted.

            In whole rows nothing is computed again, and in strips of a width, blocks of keys, or blocks of
            columns, always as much.
            """
            _, _, _, streamed, whole, in_place, _ = tensors
            return self.steps.best_shape(group, whole, streamed, room, in_place, columns or None, keys, parts)

        if not self._timed:
            shape = best()
            return [] if shape is None else [self._priced(group, shape, tensors)]
        rows = best(None)
        shapes = (
            [rows, *(best(columns) for columns in strip_widths(group))]
            if rows is None or rows.again
            else [rows]
        )
        if is_causal(group):  # what is computed depends on whether keys pass by
            shapes = [best(None, keys=0), *(best(columns, keys=0) for columns in strip_widths(group))]
            shapes += [best(None, keys=-keys) for keys in key_sizes(group)]
        elif column_parts(group):
            shapes = [best(None, keys=0), *(best(columns, keys=0) for columns in strip_widths(group))]
            numbers = product(key_sizes(group), column_parts(group))
            shapes += [best(None, keys=-keys, parts=parts) for keys, parts in numbers]
        elif rows is not None and rows.shape.keys is not None:
            shapes += [best(None, keys=keys) for keys in [0, *key_sizes(group)[1:]]]
        found = [self._priced(group, shape, tensors) for shape in shapes if shape is not None]
        if self.problem.machine.double_buffering:
            found += [each for each in self._double_buffered(group, tensors) if each.memory <= room]
        return undominated(found)

    def _priced(self, group: Group, shape: ParetoShape, tensors: TensorChoice) -> PricedShape:
        """Return a shape without second buffers with what it costs."""
        streamed, written = tensors.streamed, tensors.written
        moved = shape.again + group.weights + self._once(group, tensors)
        if not self._timed:
            return PricedShape(shape.memory, (moved,), shape.shape)
        transfers = len(group.weighted) + streamed.bit_count() + written.bit_count()
        spent = self.problem.prices.spent(moved, self._work_of(group, shape.shape), transfers)
        return PricedShape(shape.memory, self.costs(spent), shape.shape)

    def _double_buffered(self, group: Group, tensors: TensorChoice) -> list[PricedShape]:
        """Return the shapes with second buffers that are not worse than another, in all of the memory."""
        streamed, written, in_place = tensors.streamed, tensors.written, tensors.in_place
        whole = tensors.whole & group.touched
        key = group.mask, whole, streamed, written, in_place
        if key in self._doubled:
            return self._doubled[key]
        sources, outputs, on_chip = members(streamed), members(written), frozenset(members(whole))
        found = []
        for shape in double_buffered_shapes(group):
            memory = sum(buffer.size for buffer in step_buffers(group, shape, on_chip))
            if memory <= self.capacity and (in_place < 0 or replaces(group, shape, in_place)):
                moved = elements_moved(group, shape, sources, outputs)
                spent = cost_of_step(self.problem.prices, group, shape, sources, (), outputs, moved)
                found.append(PricedShape(memory, self.costs(spent), shape))
        kept: list[PricedShape] = []
        for each in sorted(found, key=lambda each: (each.memory, each.costs)):
            if not any(covers(other.costs, each.costs) for other in kept):
                kept.append(each)
        self._doubled[key] = kept
        return kept


def undominated(shapes: Iterable[PricedShape]) -> list[PricedShape]:
    """Return those that no other costs as little as; of equal ones, that of the least memory."""
    kept: list[PricedShape] = []
    for each in sorted(shapes, key=lambda each: (each.costs, each.memory)):
        if not any(covers(other.costs, each.costs) for other in kept):
            kept.append(each)
    return kept


def covers(one: Costs, other: Costs) -> bool:
    """Whether one costs no more than the other of anything."""
    return all(map(le, one, other))
