"""The earliest starts along a path of layers, for all PEs and levels at once: an exact dynamic programme.

With matched pacing the *level* of a layer is the longest load at or before it, and its pace follows from the
level. On a path, each layer of which reads the one before, let G_j be layer j of the path and the side layers
of which it is the first layer on the path that depends on them. Then the level of layer j is the longest of
the level of layer j - 1 and the loads of G_j. Either no load of G_j is above the level of layer j - 1: it
costs least if each layer of G_j has its cheapest split with a load up to it. Or the level rises to the load
of one layer of G_j, and the others have their cheapest split up to that. The state is (PEs used, level), its
value the earliest start of the path's layer. Each transition adds the lead of the edge, which depends on both
levels only. For each level those states are kept that start before all others with no more PEs. Layers of
which none on the path depends on them come last.

In a chain this is exact. Else the table leaves out the leads of all edges off the path, but no plan: the PEs,
the levels of the path's layers and the interval are those of a plan, and its latency is the table's or more.
So the table's latencies are lower bounds, and where a plan's own latency equals its bound, none is less.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.allocation.exact.options import Offers
from tilewright.allocation.exact.timing import Timing
from tilewright.allocation.geometry import Lead, Numbers
from tilewright.allocation.problem import Problem
from tilewright.spec.errors import OutOfTimeError

TOO_MANY = 2**40
"""PEs of a split that does not exist; their sum over all layers does not overflow."""

NOTHING = Lead(np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
"""The lead of what does not wait."""


class Group:
    """Layers whose longest load is part of a level, and what they cost at each.

    Attributes
    ----------
    members
        Numbers of the layers.
    keep, rise : int, shape (levels,)
        Fewest PEs with which no load is above the level; and with which one is the level besides.
    """

    def __init__(self, members: Sequence[int], offers: Offers, levels: Numbers) -> None:
        self.members, self._levels = list(members), levels
        exact = np.full((len(members), len(levels)), TOO_MANY)
        for row, member in zip(exact, members, strict=True):
            offer = offers[member].between(0, int(levels[-1]))
            row[np.searchsorted(levels, offer.loads)] = [split.pes for split in offer.splits]
        cheapest = np.minimum.accumulate(exact, axis=1)
        falls = np.ones_like(exact, dtype=np.bool_)
        falls[:, 1:] = cheapest[:, 1:] < cheapest[:, :-1]
        self._cheapest = np.maximum.accumulate(np.where(falls, np.arange(len(levels)), 0), axis=1)
        more = np.where(exact < TOO_MANY, exact - cheapest, TOO_MANY)
        self._riser = more.argmin(axis=0)
        self.keep: Numbers = cheapest.sum(axis=0)
        self.rise: Numbers = self.keep + more.min(axis=0)

    def loads(self, at: Numbers, rises: NDArray[np.bool_]) -> Numbers:
        """Return the loads of the members at some levels, given by index, where one rises to it or not.

        Parameters
        ----------
        at, rises : shape (n,)

        Returns
        -------
        int, shape (n, members)
        """
        loads = self._levels[self._cheapest[:, at]].T
        (rising,) = np.nonzero(rises)
        loads[rising, self._riser[at[rising]]] = self._levels[at[rising]]
        return loads


class TableStep(NamedTuple):
    """The states after a layer of the path.

    Attributes
    ----------
    group
        What the layer brings with it.
    level, origin : int, shape (states,)
        Index of each state's level, and the state that it comes from after the layer before.
    """

    group: Group
    level: Numbers
    origin: Numbers


@dataclass(frozen=True)
class FinalStates:
    """All final states of the table: for every plan there is one that is no worse in any of the three.

    Attributes
    ----------
    interval, pes, latency : int, shape (states,)
        The latency is a lower bound.
    """

    interval: Numbers
    pes: Numbers
    latency: Numbers
    _steps: list[TableStep]
    _layers: int

    def loads(self, states: Numbers) -> Numbers:
        """Return the loads of all layers for some of the states, shape (states, layers)."""
        loads = np.zeros((len(states), self._layers), dtype=np.int64)
        for number in reversed(range(len(self._steps))):
            group, level, origin = self._steps[number]
            own, states = level[states], origin[states]
            rises = np.ones(len(own), dtype=np.bool_)
            if number:
                rises = self._steps[number - 1].level[states] < own
            loads[:, group.members] = group.loads(own, rises)
        return loads


def final_states(
    timing: Timing,
    offers: Offers,
    path: Sequence[int],
    pes: int,
    *,
    longest: int | None = None,
    deadline: float = float("inf"),
) -> FinalStates:
    """Return the table's final states for a path.

    Parameters
    ----------
    pes
        Of all layers together.
    longest
        No load is above it.

    deadline
        ``time.monotonic()`` at which to give up.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    # For start-up time: the compiler takes a second to import, and not every search needs a table.
    from tilewright.allocation.exact.latency_kernel import LayerStep, States, add_layer

    levels = np.array(sorted({load for offer in offers for load in offer.loads}), dtype=np.int64)
    if longest is not None:
        levels = levels[levels <= longest]
    parts = _groups(timing.problem, path)
    least = [sum(min(split.pes for split in offers[number].splits) for number in part) for part in parts]
    if sum(least) > pes or not len(levels):
        nothing = np.zeros(0, dtype=np.int64)
        return FinalStates(nothing, nothing, nothing, [], len(offers))
    # Before the first layer there is one state, below all levels.
    level, used, value = (np.zeros(1, dtype=np.int64) for _ in range(3))
    first = np.minimum(np.arange(len(levels) + 1), 1)
    paces = np.zeros_like(levels)
    steps: list[TableStep] = []
    for number, part in enumerate(parts):
        if time.monotonic() > deadline:
            raise OutOfTimeError
        group = Group(part, offers, levels)
        lead, before = NOTHING, paces
        if number < len(path):
            paces = levels // timing.beats[path[number]]
            if number:
                lead = timing.leads[path[number - 1], path[number]]
        most = pes - sum(least[number + 1 :])
        step = LayerStep(group.keep, group.rise, before, paces, *lead, number == 0)
        first, level, used, value, origin = add_layer(States(first, used, value), step, most)
        if number == len(path) - 1:
            value += (paces * timing.beats[path[-1]])[level]
        steps.append(TableStep(group, level, origin))
    return FinalStates(levels[level], used, value, steps, len(offers))


def _groups(problem: Problem, path: Sequence[int]) -> list[list[int]]:
    """Return the layers by the first one on the path that depends on them; those without any last."""
    on_path = {number: index for index, number in enumerate(path)}
    parts: list[list[int]] = [[] for _ in range(len(path) + 1)]
    first = [len(path)] * len(problem.stages)
    for number in reversed(range(len(problem.stages))):
        first[number] = min((first[reader] for reader in problem.consumers[number]), default=len(path))
        first[number] = on_path.get(number, first[number])
        parts[first[number]].append(number)
    return parts if parts[-1] else parts[:-1]
