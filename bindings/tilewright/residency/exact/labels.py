"""Shortest paths from state to state, a state being what is executed and what is where, for several costs.

A label is a state with what a path to it costs: of what is minimised, and of all that is limited. It is given
up for another one of the same state that costs no more of anything. What is still to be spent in any case is
the bound of A*, for each cost. It never falls by more than a step costs, so that the first path that arrives
is a best one. Groups that may come next are looked at one by one, the smallest first, as there may be many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import add
from typing import NamedTuple

from tilewright.core.branch_and_bound import BestFirst, Incumbent
from tilewright.residency.exact.priced_steps import Costs, PricedSteps, covers
from tilewright.residency.transitions import State, StepChoice


class StepSequence(NamedTuple):
    """Steps, and what they cost of what is minimised: of traffic, elements."""

    cost: int
    choices: tuple[StepChoice, ...]


class Path(NamedTuple):
    """The steps up to a state, last first."""

    choice: StepChoice
    before: Path | None


class Label(NamedTuple):
    """A state, what it has cost to get there and how; with a group, one that is to be executed next."""

    costs: Costs
    state: State
    path: Path | None
    group: int = 0


class LabelSearch:
    """The search for one memory.

    Parameters
    ----------
    most
        The most that each may cost; None without a limit.
    repeat
        Labels of a state that are followed although another is as good.

    Attributes
    ----------
    incumbent
        Its bound is what every plan costs of the first objective, as far as that is known.
    limited
        Whether something has been left out that costs more of the first objective than `most`.
    """

    def __init__(
        self,
        priced: PricedSteps,
        most: Sequence[int | None],
        *,
        repeat: int = 1,
        deadline: float = float("inf"),
    ) -> None:
        self.priced, self.most, self.repeat, self.deadline = priced, most, repeat, deadline
        self.limited = False
        self._left: dict[tuple[int, int], Costs] = {}
        self._closed: dict[State, list[Costs]] = {}
        self._opened: dict[State, list[Costs]] = {}
        self.incumbent: Incumbent[StepSequence] = Incumbent(bound=self.remaining(priced.steps.start())[0])
        if most[0] is not None:
            self.incumbent.leave_from(most[0] + 1)
        self.tree: BestFirst[Label] = BestFirst(self.incumbent, deadline)

    @property
    def bound(self) -> int:
        """What every plan costs of the first objective, as far as that is known."""
        return self.incumbent.bound

    def remaining(self, state: State) -> Costs:
        """Return what is still to be spent in any case."""
        key = state.done, state.in_dram & ~state.on_chip
        known = self._left.get(key)
        if known is None:
            known = self._left[key] = self.priced.costs(self.priced.problem.remaining.least(*key))
        return known

    def paths(self) -> Iterator[StepSequence]:
        """Return sequences of steps, from the one that costs least on.

        Raises
        ------
        OutOfTimeError
            When the deadline passes; `bound` is what has been proven by then.
        """
        steps, everything = self.priced.steps, self.priced.graph.all
        start = steps.start()
        self._push(self.remaining(start), Label((0,) * len(self.priced.names), start, None))
        for bound, label in self.tree:
            if label.group:
                self._expand(label)
                continue
            closed = self._closed.setdefault(label.state, [])
            if _is_worse(label.costs, closed, self.repeat):
                continue
            closed.append(label.costs)
            if label.state.done == everything:
                assert label.path is not None
                yield StepSequence(label.costs[0], _choices(label.path))
                continue
            rest = tuple(map(add, label.costs, self.remaining(label.state)))[1:]
            depth = -label.state.done.bit_count()
            for mask in steps.next_groups(label.state.done):
                rank = rest, depth, mask.bit_count(), mask
                self.tree.push(bound, label._replace(group=mask), rank)

    def _push(self, expected: Costs, label: Label) -> None:
        self.tree.push(expected[0], label, (expected[1:], -label.state.done.bit_count(), 0, 0))

    def _expand(self, label: Label) -> None:
        """Push the labels that a group leads to."""
        for costs, choice, after in self.priced.transitions(label.state, label.group, self._worth(label)):
            reached = tuple(map(add, label.costs, costs))
            if _is_worse(reached, self._closed.get(after, ()), self.repeat):
                continue
            expected = tuple(map(add, reached, self.remaining(after)))
            if self.repeat == 1:
                others = self._opened.setdefault(after, [])
                if _is_worse(reached, others, 1):
                    continue
                if self._costs_too_much(expected):
                    continue
                others[:] = [each for each in others if not covers(reached, each)]
                others.append(reached)
            elif self._costs_too_much(expected):
                continue
            self._push(expected, Label(reached, after, Path(choice, label.path)))

    def _worth(self, label: Label):  # type: ignore[no-untyped-def]
        """Return whether a step from a label is looked at, by what it costs at least and what follows it."""
        known = self._opened if self.repeat == 1 else self._closed

        def worth(least: Costs, after: State) -> bool:
            reached = tuple(map(add, label.costs, least))
            if _is_worse(reached, known.get(after, ()), self.repeat):
                return False
            return not self._costs_too_much(tuple(map(add, reached, self.remaining(after))))

        return worth

    def _costs_too_much(self, expected: Costs) -> bool:
        """Whether a path costs too much in any case."""
        for place, (cost, most) in enumerate(zip(expected, self.most, strict=True)):
            if most is not None and cost > most:
                self.limited |= not place
                return True
        return False


def _is_worse(costs: Costs, known: Sequence[Costs], repeat: int) -> bool:
    """Whether enough others cost no more of anything."""
    if not known:
        return False
    return sum(covers(each, costs) for each in known) >= repeat


def _choices(path: Path | None) -> tuple[StepChoice, ...]:
    """Return the steps of a path, first one first."""
    found = []
    while path is not None:
        found.append(path.choice)
        path = path.before
    return tuple(reversed(found))
