"""The frame of exact searches: incumbent and bound, best-first order, shares of the time, limits that grow.

A search of a room brings nodes of its own kind, their lower bounds, and what to branch on. Branch and bound,
and A* as well (nodes are then paths, the bound of one is its cost and what is left at least), read ::

    incumbent = Incumbent(on_plan, on_bound)
    tree = BestFirst(incumbent, deadline)
    tree.push(bound_of(root), root)
    for bound, node in tree:  # least bound first; each is proven before its node is handed out
        if is_decided(node):
            incumbent.offer(value_of(node), plan_of(node))
            continue
        for child in branch(node):
            tree.push(bound_of(child), child)

The loop ends when no open node can be better than the incumbent, whose value is then the proven bound. It
raises ``OutOfTimeError`` when the deadline passes, and the incumbent keeps what is known by then. A node
whose bound has been raised without branching is pushed again. A subproblem that has a search of its own gets
a part of the time that is left (`GrowingShare`). Where the work grows fast with what plans may cost, one
search after the other goes a little further (`GrowingLimit`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from math import log
from typing import Any, Generic, TypeVar

from tilewright.spec.errors import OutOfTimeError

NodeT = TypeVar("NodeT")
PlanT = TypeVar("PlanT")

NEVER = 2**62
"""More than any plan costs."""


def ignore(*_values: Any) -> None:
    """Take a plan or a bound that nobody waits for."""


def check_deadline(deadline: float) -> None:
    """Raise ``OutOfTimeError`` if a moment of ``time.monotonic()`` has passed."""
    if time.monotonic() > deadline:
        raise OutOfTimeError


def share_of(deadline: float, share: float) -> float:
    """Return the moment at which a share of the time that is left until a deadline has passed."""
    now = time.monotonic()
    return now + share * (deadline - now)


@dataclass
class Incumbent(Generic[PlanT]):
    """The best plan known, and what is proven of all plans; costs are integers of any one unit.

    Attributes
    ----------
    on_plan, on_bound
        Called with each better plan, and with each better proven bound.
    bound
        No plan costs less.
    least_rise
        How much the bound rises, at least, from one call of `on_bound` to the next.
    value, plan
        Of the best plan; `NEVER` and None as long as there is none.
    cutoff
        Nodes of this bound or a larger one are of no interest.
    ceiling
        No bound above this is ever proven, as it is not known whether there are plans of this cost.
    """

    on_plan: Callable[[PlanT], None] = ignore
    on_bound: Callable[[int], None] = ignore
    bound: int = 0
    least_rise: int = 1
    value: int = NEVER
    plan: PlanT | None = None
    cutoff: int = NEVER
    ceiling: int = NEVER
    _reported: int = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self._reported = self.bound
        self.leave_from(self.value)

    def offer(self, value: int, plan: PlanT) -> bool:
        """Take a plan if it costs less than the best one; return whether it does."""
        better = self.know(value, plan)
        if better:
            self.on_plan(plan)
        return better

    def know(self, value: int, plan: PlanT) -> bool:
        """Take a plan that the caller knows already; return whether it costs less than the best one."""
        if value >= self.value:
            return False
        self.value, self.plan = value, plan
        self.leave_from(value)
        return True

    def leave_out(self, bound: int) -> None:
        """Leave out plans that cost `bound` or more, without knowing whether there are any."""
        self.ceiling = min(self.ceiling, bound)

    def leave_from(self, value: int) -> None:
        """Look at no plans that cost `value` or more, which is then the most that can be proven."""
        self.cutoff = min(self.cutoff, value)
        self.leave_out(value)

    def prove(self, bound: int) -> None:
        """Take a lower bound on the cost of all plans but those that have been left out."""
        self.bound = max(self.bound, min(bound, self.ceiling))
        if self.bound >= self._reported + self.least_rise:
            self._reported = self.bound
            self.on_bound(self.bound)

    @property
    def proven(self) -> bool:
        """Whether there is a plan, and none costs less."""
        return self.plan is not None and self.bound >= self.value


class BestFirst(Generic[NodeT]):
    """The open nodes of a search; iterating takes them out, and nodes may be pushed meanwhile.

    Of equal bounds the least rank comes first, then what was pushed first.

    Parameters
    ----------
    incumbent
        Is told each bound that is proven, and says from which cost on nodes are of no interest.
    deadline
        Moment of ``time.monotonic()`` from which on iterating raises ``OutOfTimeError``.

    Attributes
    ----------
    exhausted
        Whether iterating has come to its end: without a plan, and with nothing left out, there is none.
    """

    def __init__(self, incumbent: Incumbent[Any], deadline: float = float("inf")) -> None:
        self.incumbent, self.deadline, self.exhausted = incumbent, deadline, False
        self._heap: list[tuple[int, Any, int, NodeT]] = []
        self._ticks = count()
        self._least = 0

    def push(self, bound: int, node: NodeT, rank: Any = 0) -> None:
        """Add a node, no plan of which costs less than `bound`, if it is of interest."""
        bound = max(bound, self._least)
        if bound < self.incumbent.cutoff:
            heappush(self._heap, (bound, rank, next(self._ticks), node))

    def __iter__(self) -> Iterator[tuple[int, NodeT]]:
        """Return nodes with their bounds until none is of interest any more, which is then proven."""
        while self._heap:
            bound, _, _, node = heappop(self._heap)
            self._least = bound
            self.incumbent.prove(bound)
            if bound >= self.incumbent.cutoff:
                break
            check_deadline(self.deadline)
            yield bound, node
        self.exhausted = True
        if self.incumbent.ceiling < NEVER:
            self.incumbent.prove(self.incumbent.ceiling)


class GrowingShare:
    """The part of the time left that one subproblem may take; it doubles whenever that was too little.

    Parameters
    ----------
    deadline
        End of the whole search.
    share
        The part at first.
    """

    def __init__(self, deadline: float, share: float) -> None:
        self.deadline, self.share = deadline, share

    def until(self) -> float:
        """Return when a subproblem has to end that begins now.

        Raises
        ------
        OutOfTimeError
            When the deadline has passed.
        """
        check_deadline(self.deadline)
        return share_of(self.deadline, self.share)

    def grow(self) -> None:
        """Give more time to the next subproblem, as one was not finished.

        Raises
        ------
        OutOfTimeError
            When it was the deadline that has passed.
        """
        check_deadline(self.deadline)
        self.share = min(1.0, 2 * self.share)


@dataclass(frozen=True)
class LimitParams:
    """How limits grow; see `GrowingLimit`.

    Attributes
    ----------
    first
        At first a search goes this part of the way to the best plan known further than the one before.
    growth
        How many times more work a search shall be than the one before: less would repeat much, more may go
        much further than it has to.
    too_much
        How many times more work it may be: then it is given up, and one that goes less far is begun.
    little
        Work that is less than this part of all that has been done is little, however much it is.
    least_growth
        How many times more work than the one before a search is taken to have been, at least.
    first_work
        Work that the first search may be.
    """

    first: int = 64
    growth: int = 3
    too_much: int = 12
    little: int = 32
    least_growth: float = 1.5
    first_work: int = 10**5


class GrowingLimit:
    """Limits for searches of all plans up to a cost, one search after the other.

    What such a search takes grows exponentially with its limit. So limits are chosen such that each search is
    some times the work of the one before. Together they take little more than the last one, which looks no
    further than it must.

    Attributes
    ----------
    most_work
        Work after which the next search is to be given up.
    """

    def __init__(self, params: LimitParams | None = None) -> None:
        self.params = params or LimitParams()
        self.most_work, self._all_work = self.params.first_work, 1
        self._last: tuple[int, int] | None = None  # limit and work of the last search that has ended
        self._step: int | None = None
        self._given_up = -1  # limit of the last search, if it was given up

    def next(self, least: int, most: int) -> int:
        """Return the limit of the next search.

        Parameters
        ----------
        least
            No plan costs less.
        most
            What costs more is of no interest.
        """
        if self._given_up > least:
            return (least + self._given_up) // 2
        step = (most - least) // self.params.first if self._step is None else self._step
        return min(most, least + max(1, step))

    def learn(self, limit: int, work: int, *, ended: bool) -> None:
        """Take the work of a search with a limit, and whether it has ended or was given up."""
        params = self.params
        self._all_work += work
        if not ended:
            self._given_up, self.most_work = limit, params.growth * self.most_work
            return
        work = max(work, self._all_work // params.little, 1)
        if self._last is not None:
            limit_before, work_before = self._last
            grown = log(max(work / work_before, params.least_growth))
            self._step = int((limit - limit_before) * log(params.growth) / grown)
        self._last, self._given_up = (limit, work), -1
        self.most_work = params.too_much * work
