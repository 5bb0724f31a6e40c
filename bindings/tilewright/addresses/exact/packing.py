"""The exact search: offsets within a capacity, or the least height of all; see `kernel` for how it goes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, product
from math import gcd
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tilewright.addresses.exact.rules import RULES, SearchRule
from tilewright.addresses.sections import Sections
from tilewright.core.branch_and_bound import Incumbent

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class PackingParams:
    """How the searches take turns.

    Attributes
    ----------
    work
        Work of a search between two looks at the clock, about 0.1 seconds.
    first_turns, most_turns
        How many times of it make a turn at first, doubled each time, and at most.
    ladder, finest
        Heights below the ceiling that are tried as well, and parts of the open range between them at least.
    few_turns
        Turns that each of these heights has.
    variation
        By what factor amounts are changed, at most, where an order is varied.
    """

    work: int = 2_000_000
    first_turns: int = 6
    most_turns: int = 96
    ladder: int = 8
    finest: int = 32
    few_turns: int = 4
    variation: float = 1.5


PARAMS = PackingParams()


@dataclass(frozen=True)
class Packing:
    """What `pack` and `least_height` found.

    Attributes
    ----------
    offsets : int64, shape (buffers,)
        Where each buffer lies; None where no place for all was found.
    proven
        Of `pack`, whether it is certain that there are offsets, or that there are none; of `least_height`,
        that none have a lower height.
    bound
        A height below which it is proven that there are no offsets.
    """

    offsets: Numbers | None
    proven: bool
    bound: int = 0


def pack(
    lower: ArrayLike,
    upper: ArrayLike,
    size: ArrayLike,
    capacity: int,
    *,
    alignment: int = 1,
    deadline: float = float("inf"),
) -> Packing:
    """Find offsets within a capacity, so that buffers that live at the same time do not overlap.

    Parameters
    ----------
    lower, upper : int, shape (buffers,)
        First time at which a buffer lives, and the first at which it does not any more.
    size : int, shape (buffers,)
        At least 1.
    capacity
        Offsets and sizes add up to no more than this.
    alignment
        Offsets are multiples of this.
    deadline
        ``time.monotonic()`` at which to give up.

    Returns
    -------
    Packing
        Offsets, or None and `proven` if there are none, or None and not `proven` if time was too short.
    """
    task = Task(lower, upper, size, alignment)
    searches = _Searches(task, capacity)
    while searches.answer is None and time.monotonic() < deadline:
        searches.advance()
    if searches.answer is None:
        return Packing(None, False, task.bound)
    if not searches.answer:
        return Packing(None, True, max(task.bound, task.next_height(capacity)))
    return Packing(searches.offsets, True, task.bound)


def least_height(
    lower: ArrayLike,
    upper: ArrayLike,
    size: ArrayLike,
    *,
    alignment: int = 1,
    capacity: int | None = None,
    deadline: float = float("inf"),
    incumbent: Incumbent[Numbers] | None = None,
) -> Packing:
    """Find offsets of the least height: the largest sum of an offset and a size.

    Parameters
    ----------
    lower, upper, size, alignment, deadline
        As `pack` takes them.
    capacity
        Most height that is of interest; any if left out.
    incumbent
        Offsets and their height, and a lower bound, as far as they are known; it is told of better ones.

    Returns
    -------
    Packing
        The best offsets; None where none were found, and `proven` if there are none within the capacity.
    """
    task = Task(lower, upper, size, alignment)
    known: Incumbent[Numbers] = Incumbent(bound=task.bound) if incumbent is None else incumbent
    known.prove(task.bound)
    most = task.anything if capacity is None else capacity
    ceiling = min(most, known.value - 1)
    lowest, highest = _Searches(task, known.bound), _Searches(task, ceiling)
    between = _between(task, known.bound, ceiling)
    for turn in count():
        if known.bound > ceiling or time.monotonic() >= deadline:
            break
        searches = (lowest, highest)[turn % 3] if turn % 3 < 2 else next(between)
        if known.bound == ceiling:
            searches = lowest  # of one height only one
        searches.advance()
        if searches.answer is None:
            continue
        if searches.answer:
            assert searches.offsets is not None
            known.offer(task.height(searches.offsets), searches.offsets)
            ceiling = known.value - 1
            highest = _Searches(task, ceiling)
        elif task.next_height(searches.capacity) > known.bound:
            known.prove(task.next_height(searches.capacity))
            lowest = _Searches(task, known.bound)
        between = _between(task, known.bound, ceiling)
    return Packing(known.plan, known.bound > ceiling, known.bound)


def _between(task: Task, bound: int, ceiling: int) -> Iterator[_Searches]:
    """Return searches at heights below the ceiling, each for a few turns.

    Some heights are found at once that are far below one that is not: a search is a matter of luck, and each
    height is a new one. When all rules have had their turns, what they prefer is varied.
    """
    step = task.unit * max(1, (ceiling - bound) // (task.unit * PARAMS.finest))
    for varied in count():
        for rule, number in product(RULES, range(1, PARAMS.ladder + 1)):
            searches = _Searches(task, max(bound, ceiling - number * step), (rule,), varied)
            for _ in range(PARAMS.few_turns):
                yield searches


def height_bound(lower: ArrayLike, upper: ArrayLike, size: ArrayLike, alignment: int = 1) -> int:
    """Return the height that buffers which live at the same time need at least."""
    return Task(lower, upper, size, alignment).bound


class Task:
    """Buffers in units: of what all offsets are multiples of in a plan that is pushed down.

    Parameters
    ----------
    lower, upper, size
        Of each buffer.
    alignment
        Of what all offsets are multiples of in any plan.
    pushed_down
        Whether plans are meant that are pushed down; else the unit is the alignment.

    Attributes
    ----------
    unit
        Addresses of one.
    units : shape (buffers,)
        What each buffer takes from those that lie above it.
    step
        Addresses that all heights are multiples of in a plan that is pushed down.
    """

    def __init__(
        self,
        lower: ArrayLike,
        upper: ArrayLike,
        size: ArrayLike,
        alignment: int,
        *,
        pushed_down: bool = True,
    ) -> None:
        self.lower, self.upper, self.size = (np.asarray(one, dtype=np.int64) for one in (lower, upper, size))
        rounded = -(-self.size // alignment)
        common = int(np.gcd.reduce(rounded)) if pushed_down and len(rounded) else 1
        self.unit = alignment * common
        self.units = -(-self.size // self.unit)
        self.step = gcd(self.unit, *self.size.tolist())
        self.sections = Sections.of(self.lower, self.upper)
        self.totals = self.sections.totals(self.units)
        # Of a section's buffers only the highest need not end at a multiple of the unit.
        spare = self.unit * self.units - self.size
        most_spare = self.sections.largest(spare)
        self.bound = int((self.unit * self.totals - most_spare).max(initial=0))

    @property
    def anything(self) -> int:
        """A height that is enough."""
        return int(self.unit * self.units.sum())

    def height(self, offsets: Numbers) -> int:
        """Return the highest end."""
        return int((offsets + self.size).max(initial=0))

    def next_height(self, capacity: int) -> int:
        """Return the least height above a capacity that offsets can have."""
        return int(
            (self.size + self.unit * ((capacity - self.size) // self.unit + 1)).min(initial=capacity + 1)
        )


class _Searches:
    """Searches for offsets within a capacity that prefer different buffers, in turn.

    Attributes
    ----------
    answer
        Whether there are offsets; None as long as that is not known.
    """

    def __init__(
        self, task: Task, capacity: int, rules: Sequence[SearchRule] | None = None, varied: int = 0
    ) -> None:
        self.task, self.capacity, self.varied = task, capacity, varied
        self.rules = RULES if rules is None else rules
        self.answer: bool | None = None
        self.offsets: Numbers | None = None
        self._turns = self._in_turn()

    def advance(self) -> None:
        """Let the next search go on for a while."""
        self.answer, self.offsets = next(self._turns)

    def _in_turn(self) -> Iterator[tuple[bool | None, Numbers | None]]:
        from tilewright.addresses.exact import kernel  # start-up time

        task = self.task
        orders = (priorities(task, rule.order, self.varied) for rule in self.rules)
        searches = [new_search(task, self.capacity, priority) for priority in orders]
        for round_ in count():
            for place, rule in enumerate(self.rules):
                most_raises = int(rule.raises * len(task.size)) + 1
                for _ in range(min(PARAMS.most_turns, PARAMS.first_turns * 2**round_)):
                    search = searches[place]
                    status = kernel.advance(search, rule.place, PARAMS.work, most_raises)
                    while status == kernel.CRAMPED:
                        longer = np.hstack([search.trail, np.zeros_like(search.trail)])
                        search = search._replace(trail=longer)
                        searches[place] = search
                        status = kernel.advance(search, rule.place, PARAMS.work, most_raises)
                    if status == kernel.FEASIBLE:
                        yield True, search.offset * task.unit
                    elif status == kernel.INFEASIBLE:
                        yield False, None
                    yield None, None


def priorities(task: Task, order: str, varied: int) -> Numbers:
    """Return the place of each buffer in the order of a rule, shape (buffers,).

    Parameters
    ----------
    varied
        Seed by which the first amount of the rule is varied by chance; 0 for not at all.
    """
    number = len(task.size)
    amounts = {
        "total": task.sections.most_over(task.totals),
        "length": task.upper - task.lower,
        "area": (task.upper - task.lower) * task.units,
        "size": task.units,
    }
    keys: list[NDArray[Any]] = [-amounts[name] for name in reversed(order.split())]
    if varied:
        keys[-1] = keys[-1] * np.random.default_rng(varied).uniform(1.0, PARAMS.variation, number)
    ranks = np.lexsort(keys)
    priority = np.empty(number, dtype=np.int64)
    priority[ranks] = np.arange(number)
    return priority


def new_search(task: Task, capacity: int, priority: Numbers) -> Any:
    """Return a search (`kernel.Search`) that has not begun yet, for buffers in an order."""
    from tilewright.addresses.exact import kernel  # start-up time

    sections, number = task.sections, len(task.size)
    most = (capacity - task.size) // task.unit

    def zeros(*shape: int) -> Numbers:
        return np.zeros(shape, dtype=np.int64)

    parts = zeros(8, 3 * number + 4)
    parts[kernel.END, 0], parts[kernel.CLOSE, 0], parts[kernel.NEXT, 0] = number, sections.number, -1
    at = zeros(7)
    at[kernel.PARTS] = 1
    cut = zeros(sections.number)
    for first, last in zip(sections.first, sections.last, strict=True):
        cut[first : last - 1] += 1
    return kernel.Search(
        size=task.units,
        most=most,
        priority=priority,
        first=sections.first,
        last=sections.last,
        roof=sections.largest(most + task.units),
        neighbours=sections.neighbours[0],
        begins=sections.neighbours[1],
        members=sections.members[0].copy(),
        opens=sections.members[1],
        offset=np.full(number, -1, dtype=np.int64),
        low=zeros(number),
        top=zeros(number),
        fullness=zeros(number),
        floor=zeros(sections.number),
        total=task.totals.copy(),
        cut=cut,
        spare=zeros(sections.number),
        end=zeros(sections.number),
        ender=zeros(sections.number),
        second=zeros(sections.number),
        stale=zeros(sections.number),
        queue=zeros(sections.number),
        order=np.arange(number),
        parts=parts,
        chosen=zeros(number + 1),
        within=zeros(number + 1),
        trailed=zeros(number + 1),
        parted=zeros(number + 1),
        trail=zeros(3, 2 * most_entries(number, sections.number)),
        at=at,
    )


def most_entries(buffers: int, sections: int) -> int:
    """Return how long a trail is at first."""
    return 16 * (buffers + sections) + 1024
