"""The best step of attention: all blocks, orders and memories, the products within by the exact search.

docs/hierarchy-search.md argues why none is lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from heapq import heapify, heappop, heappush
from itertools import product
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import check_deadline
from tilewright.simulator.levels import READ, WRITTEN
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.attention.blocks import MOST_BLOCKS, Walk, rows_of
from tilewright.tiling.attention.plan import STAYING, AttentionPlan, Blocks, Order
from tilewright.tiling.attention.step import (
    INPUT,
    OUTPUT,
    PARTIAL,
    WEIGHTS,
    Frame,
    Moved,
    Room,
    Step,
    layer_of,
    levels_for,
    passes_by,
    within,
)
from tilewright.tiling.hierarchy.bounds import lower_bound
from tilewright.tiling.hierarchy.cost import KINDS, attojoules
from tilewright.tiling.hierarchy.loops import OPERANDS
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.operations.operation import Attention
from tilewright.tiling.operations.search import Deadline
from tilewright.tiling.tile import even_steps

MOST_SECONDS = 1.0
"""How long may be looked for a faster plan of equal cost at least; else as long as the proof took."""


class Goal(NamedTuple):
    """What is minimised, and with which steps products may be cut: see `TilingLimits.factors`."""

    minimise: str
    level: str
    any_steps: bool


class Mapped(NamedTuple):
    """A product on the levels within: its best plan, what that costs, and a bound."""

    value: int
    plan: HierarchyPlan
    bound: int


class Found(NamedTuple):
    """The best step that was found, its cost, and what no step goes below."""

    value: int
    plan: AttentionPlan
    bound: int


def candidates(
    attention: Attention, machine: HierarchyMachine, deadline: float = float("inf")
) -> tuple[Blocks, ...]:
    """Return the blocks of the space that fit, large ones first, without those that others are as good as.

    Where more stays, no less is moved; with whole rows the vector unit does less than block by block. So
    blocks are left out where as much, or more, stays with whole rows, or with the same order.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    return _candidates(attention, machine, Deadline(deadline))


@lru_cache(maxsize=64)
def _candidates(attention: Attention, machine: HierarchyMachine, deadline: Deadline) -> tuple[Blocks, ...]:
    found: list[Blocks] = []
    for level in levels_for(machine):
        room = Room(machine, level)
        ways = WAYS_PASSED if passes_by(machine, level.name) else WAYS
        for tall, wide in product(even_steps(attention.queries)[::-1], even_steps(attention.keys)[::-1]):
            check_deadline(deadline.at)
            seen = rows_of(attention.queries, attention.keys, attention.causal, tall, wide)
            blocks_of_head = sum(many * blocks for (_, blocks), many in seen.kinds.items())
            for heads in even_steps(attention.heads)[::-1]:
                if -(-attention.heads // heads) * blocks_of_head > MOST_BLOCKS:
                    continue
                known: list[tuple[str, ...]] = []
                for order, stay in ways if seen.divided else ways[:1]:
                    if any(set(stay) <= set(other) for other in known):
                        continue
                    blocks = Blocks(level.name, tall, heads, wide, order, stay)
                    if room.fits(attention, seen, blocks):
                        known.append(stay)
                        found.append(blocks)
    return tuple(found)


WAYS: tuple[tuple[Order, tuple[str, ...]], ...] = (
    *(("rows", stay) for stay in (STAYING, STAYING[:1], STAYING[1:], ())),
    *(("online", stay) for stay in (STAYING, STAYING[:1], STAYING[1:], ())),
)
"""Orders, and what stays."""

WAYS_PASSED: tuple[tuple[Order, tuple[str, ...]], ...] = (("rows", ()), ("online", ()))
"""The same where keys and values pass by."""


def outside_of_space(attention: Attention, machine: HierarchyMachine, blocks: Blocks) -> str | None:
    """Say why blocks are not among those that are compared, or None."""
    levels = [level.name for level in levels_for(machine)]
    if blocks.level not in levels:
        return f"level: {blocks.level}, scores can stay at {', '.join(levels) or 'no memory'}"
    for name in ("queries", "heads", "keys"):
        size, most = getattr(blocks, name), getattr(attention, name)
        if size not in even_steps(most):
            return f"blocks: {size} {name} of {most}, which are not as few as for their number of blocks"
    walk = Walk(attention, blocks)
    if walk.count > MOST_BLOCKS:
        return f"blocks: {walk.count:,} of scores for a matrix of keys, more than {MOST_BLOCKS:,}"
    passed = passes_by(machine, blocks.level)
    if passed and blocks.stay:
        return f"stay: {', '.join(blocks.stay)}, which pass {blocks.level} by"
    if not walk.in_parts and blocks.order != "rows":
        return "blocks: all keys are one block, which is of order rows"
    if not walk.in_parts and not passed and blocks.stay != STAYING:
        return "blocks: all keys are one block, where keys and values stay"
    return None


class Size(NamedTuple):
    """A product of blocks, of which all that are alike are mapped once.

    Attributes
    ----------
    sums
        Whether what it gives are parts of sums.
    """

    level: str
    scores: bool
    rows: int
    keys: int
    sums: bool


@dataclass
class Search:
    """A search for the best step.

    Attributes
    ----------
    mapped, bounds
        The products that were mapped, and what others cost at least.
    passing
        See `_passing`.
    """

    attention: Attention
    machine: HierarchyMachine
    goal: Goal
    deadline: float
    mapped: dict[Size, Mapped | None] = field(default_factory=dict)
    bounds: dict[Size, int] = field(default_factory=dict)
    passing: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def best(self, among: Iterable[Blocks], most: int | None = None) -> Found | None:
        """Return the best step of some blocks, None if none is possible, or none costs at most `most`.

        Each block has a bound on what it costs. The one with the least is looked at more closely, until one
        whose cost is known has the least.

        Raises
        ------
        OutOfTimeError
            If none is known when the deadline passes.
        """
        waiting: list[tuple[int, int, int, Blocks]] = []
        best: Found | None = None
        for number, blocks in enumerate(among):
            if best is None and most is None:
                best = self._found(blocks)
            if number % 256 == 0 and time.monotonic() > self.deadline:
                if best is None:
                    raise OutOfTimeError
                return best._replace(bound=0)
            waiting.append((self._cost(blocks, self._at_once), 0, number, blocks))
        heapify(waiting)
        left: int | None = None  # the least bound of blocks whose products are not proven to be the best
        if best is not None and best.bound < best.value:
            left = best.bound
        while waiting:
            bound, stage, number, blocks = heappop(waiting)
            if (best is not None and bound >= best.value) or (most is not None and bound > most):
                break
            if time.monotonic() > self.deadline:
                if best is None:
                    raise OutOfTimeError
                return best._replace(bound=min(bound, best.value if left is None else left))
            if stage == 0:
                heappush(waiting, (max(bound, self._cost(blocks, self._at_least)), 1, number, blocks))
                continue
            found = self._found(blocks)
            if found is None:
                continue
            if best is None or found.value < best.value:
                best = found
            if found.bound < found.value:
                left = found.bound if left is None else min(left, found.bound)
        if best is None or (most is not None and best.value > most):
            return None
        return best._replace(bound=best.value if left is None else min(left, best.value))

    # What blocks cost -----------------------------------------------------------------------------------

    def _cost(self, blocks: Blocks, price: Callable[[Size], int]) -> int:
        """Return what a step costs at least if each product costs that."""
        if self._is_outside(blocks):
            return self._accesses_outside(blocks)
        frame = Frame(self.machine, Walk(self.attention, blocks))
        sizes = [(size, often) for pair, often in self._sizes(frame.walk) for size in pair]
        if self.goal.minimise == "cycles":
            inside = sum(often * price(size) for size, often in sizes)
            return frame.cycles(inside, self._least_moved(frame))
        if self.goal.minimise == "energy":
            return frame.energy + sum(often * price(size) for size, often in sizes)
        return frame.accesses(self.goal.level) + sum(often * price(size) for size, often in sizes)

    def _is_outside(self, blocks: Blocks) -> bool:
        """Whether accesses are counted of a memory that products of a step do not read or write."""
        names = [level.name for level in self.machine.levels]
        if self.goal.minimise != "accesses" or names.index(self.goal.level) >= names.index(blocks.level):
            return False
        return self.goal.level != names[0] or not passes_by(self.machine, blocks.level)

    def _accesses_outside(self, blocks: Blocks) -> int:
        """Return the accesses of a memory further out than the step's, which do not depend on products."""
        attention, walk = self.attention, Walk(self.attention, blocks)
        maps, weights, outputs = self._passing(blocks.level)
        moved = attention.rows * (attention.depth * maps + attention.values * outputs)
        brought = walk.brought("keys") * attention.depth + walk.brought("values") * attention.values
        return moved + weights * brought

    def _passing(self, level: str) -> tuple[int, ...]:
        """Return how often the memory whose accesses are counted moves what comes to a level or leaves it."""
        if level not in self.passing:
            memories = [each for each in self.machine.levels if not each.fanout]
            first, own = memories[0].name, next(each for each in memories if each.name == self.goal.level)
            times = 1 if own.name == first else 2
            self.passing[level] = tuple(times if operand in own.holds else 0 for operand in OPERANDS)
        return self.passing[level]

    def _sizes(self, walk: Walk) -> list[tuple[tuple[Size, Size], int]]:
        """Return the products of scores and of context, and how often there are such."""
        level = walk.blocks.level
        return [
            ((Size(level, True, rows, keys, False), Size(level, False, rows, keys, not alone)), often)
            for (rows, keys, alone), often in walk.products.items()
        ]

    def _least_moved(self, frame: Frame) -> Moved:
        """Return what products move at the level, and further out, at least: each element once."""
        attention, level = self.attention, frame.level.name
        found, passed = (np.zeros((len(KINDS), 2), np.int64) for _ in range(2))
        passes = passes_by(self.machine, level)
        for (rows, keys, alone), often in frame.walk.products.items():
            found[INPUT, READ] += often * rows * (attention.depth + keys)
            weights = often * keys * (attention.depth + attention.values)
            (passed if passes else found)[WEIGHTS, READ] += weights
            found[OUTPUT, WRITTEN] += often * rows * keys
            found[OUTPUT if alone else PARTIAL, WRITTEN] += often * rows * attention.values
        return {self.machine.levels[0].name: passed, level: found}

    def _layer(self, size: Size) -> Layer:
        return layer_of(self.attention, size.rows, size.keys, scores=size.scores)

    def _at_once(self, size: Size) -> int:
        """Return what a product costs at least, in no time."""
        across = self.attention.depth if size.scores else self.attention.values
        macs = size.rows * size.keys * across
        if self.goal.minimise == "cycles":
            return -(-macs // self.machine.most_macs_per_cycle)
        return macs * attojoules(self.machine.mac_pj, 1) if self.goal.minimise == "energy" else 0

    def _at_least(self, size: Size) -> int:
        """Return what a product costs at least, with all that the levels within move."""
        if size not in self.bounds:
            machine = within(self.machine, size.level, sums=size.sums)
            layer, counted = self._layer(size), self._counted(size.level)
            self.bounds[size] = min(
                lower_bound(layer, machine.keeping(kept), self.goal.minimise, counted)
                for kept in machine.choices
            )
        return self.bounds[size]

    def _counted(self, level: str) -> str:
        """Return the memory whose accesses are counted, of those within."""
        names = [each.name for each in self.machine.levels]
        if self.goal.level == names[0] and passes_by(self.machine, level):
            return self.goal.level
        return self.goal.level if names.index(self.goal.level) >= names.index(level) else level

    def _map(self, size: Size) -> Mapped | None:
        """Return the best plan of a product on the levels within, None if it has none."""
        if size not in self.mapped:
            self.mapped[size] = self._mapped(size)
        return self.mapped[size]

    def _task(self, size: Size) -> Task:
        """Return what is searched for a product; where products do not count, they are to be fast."""
        outside = self._is_outside(Blocks(size.level, 1, 1, 1, "rows", STAYING))
        minimise = "cycles" if outside else self.goal.minimise
        machine = within(self.machine, size.level, sums=size.sums)
        return Task(self._layer(size), machine, minimise, self._counted(size.level))

    def _mapped(self, size: Size) -> Mapped | None:
        from tilewright.tiling.hierarchy.exact import any_plan, search  # for start-up time: numba

        if self.goal.any_steps:
            found = any_plan.best_any_plan(self._task(size), self.deadline)
            return found and Mapped(found.value, found.plan, found.bound)
        best = search.best_plan(self._task(size), self.deadline)
        if best is None:
            return None
        return Mapped(best.value, best.plan, best.value if best.proven else self._at_least(size))

    def break_ties(self, best: Found) -> Found:
        """Return the step whose products are the first of equal ones, as a layer's plan is."""
        from tilewright.tiling.hierarchy.exact import search, ties  # for start-up time: numba

        assert best.plan.blocks is not None
        began = time.monotonic()
        for pair, _ in self._sizes(Walk(self.attention, best.plan.blocks)):
            for size in pair:
                one = self._map(size)
                if one is not None and one.value == one.bound:
                    known = search.BestPlan(one.value, one.plan, True)
                    spent = time.monotonic() - began
                    first = ties.break_ties(self._task(size), known, spent, self.deadline)
                    self.mapped[size] = one._replace(plan=first.plan)
        found, before = self._found(best.plan.blocks), self._value(best.plan)
        return best if found is None or self._value(found.plan) > before else best._replace(plan=found.plan)

    def _value(self, plan: AttentionPlan) -> int:
        """Return what a step costs."""
        assert plan.blocks is not None
        step = Step(self.machine, Walk(self.attention, plan.blocks), plan.scores, plan.context)
        return step.costs(self.goal.level)[self.goal.minimise]

    def _found(self, blocks: Blocks) -> Found | None:
        """Return the step of some blocks with the best products, None if some product has no plan."""
        walk = Walk(self.attention, blocks)
        scores: dict[tuple[int, int], HierarchyPlan] = {}
        context = []
        for (first, second), _ in self._sizes(walk):
            pair = self._map(first), self._map(second)
            if pair[0] is None or pair[1] is None:
                return None
            scores[first.rows, first.keys] = pair[0].plan
            context.append(pair[1].plan)
        plans = tuple(scores[size] for size in walk.sizes), tuple(context)
        plan, bound = AttentionPlan(blocks, *plans), self._cost(blocks, self._bound_of_mapped)
        value = self._value(plan)
        return Found(value, plan, min(bound, value))

    def _bound_of_mapped(self, size: Size) -> int:
        """Return what the best plan of a product costs at least."""
        found = self._map(size)
        assert found is not None
        return found.bound


def best_step(
    attention: Attention, machine: HierarchyMachine, goal: Goal, deadline: float = float("inf")
) -> Found | None:
    """Return the best step of attention, None if none fits; of equal ones the fastest that is found.

    Raises
    ------
    OutOfTimeError
        If none is known when the deadline passes.
    """
    began = time.monotonic()
    search = Search(attention, machine, goal, deadline)
    best = search.best(candidates(attention, machine, deadline))
    if best is None or best.bound < best.value:
        return best
    if goal.minimise == "accesses":
        search, best = _fastest(search, best, time.monotonic() - began)
    return best if goal.any_steps else search.break_ties(best)


def _fastest(search: Search, best: Found, seconds: float) -> tuple[Search, Found]:
    """Return the fastest step that costs no more than the best one, as far as there is time to look.

    With it comes a search that knows its products.
    """
    assert best.plan.blocks is not None
    deadline = min(search.deadline, time.monotonic() + max(MOST_SECONDS, seconds))
    if not search._is_outside(best.plan.blocks):
        return search, best
    among = [
        blocks
        for blocks in candidates(search.attention, search.machine, deadline)
        if search._is_outside(blocks) and search._cost(blocks, search._at_once) == best.value
    ]
    goal = search.goal._replace(minimise="cycles")
    other = Search(search.attention, search.machine, goal, deadline, search.mapped)
    with suppress(OutOfTimeError):
        found = other.best(among)
        if found is not None:
            return other, Found(best.value, found.plan, best.bound)
    return search, best
