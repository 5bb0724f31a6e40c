"""Loop nests on a hierarchy of memories and arrays: level by level, tiles that are alike counted together.

The nest is executed from the outermost loop inwards. What an iteration moves depends on which loop has gone
on and on how large the block inside is, not on how far the loop is; so all iterations in which the same one
goes on to a block of the same size are one, and a block is executed once for each state in which it can be
found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]

INPUT, WEIGHTS, OUTPUT, PARTIAL = range(4)
"""Columns of counts: two operands that are read, complete outputs, and sums that are not complete."""

READ, WRITTEN = range(2)

OUTSIDE, INSIDE = range(2)
"""Ends of a transfer: a memory is the outer one for tiles of the next one, the inner one for its own."""

SLIDING = "yxrs"
"""Loops along which blocks of input overlap."""

Block = Mapping[str, int]


@dataclass(frozen=True)
class Place:
    """A memory, or one axis of an array of all places further in.

    Attributes
    ----------
    memory
        Whether it is a memory.
    holds
        The operands that it keeps, as numbers.
    loops
        Letter and step, outermost first; a step is smaller than the block, the last one has what is left.
    halo
        Whether what the next tile of input shares with the last one stays.
    """

    name: str
    memory: bool
    holds: frozenset[int]
    loops: tuple[tuple[str, int], ...]
    halo: bool = False


@dataclass(frozen=True)
class LevelProgram:
    """A loop nest on a hierarchy.

    Attributes
    ----------
    places
        Outermost first. The first is a memory that holds everything.
    extents
        Iterations of each loop of the layer.
    uses
        For each operand, input, weights and output, the loops that move it.
    elements
        Returns the elements of an operand under a block.
    fresh
        Returns those of input that the block before, along a loop of `SLIDING`, does not have.
    """

    places: tuple[Place, ...]
    extents: Block
    uses: tuple[str, str, str]
    elements: Callable[[int, Block], int]
    fresh: Callable[[Block, str], int]

    @cached_property
    def reduced(self) -> str:
        """The loops over which products are added up."""
        return "".join(loop for loop in self.extents if loop not in self.uses[OUTPUT])

    def holders(self, operand: int) -> list[int]:
        """Return the places that hold an operand, outermost first."""
        return [i for i, place in enumerate(self.places) if place.memory and operand in place.holds]

    def blocks(self) -> list[dict[str, int]]:
        """Return the largest block that enters each place, and last the one that is multiplied."""
        found = [dict(self.extents)]
        for place in self.places:
            found.append({**found[-1], **dict(place.loops)})
        return found


@dataclass(frozen=True)
class LevelState:
    """How a block is found when its execution begins.

    Attributes
    ----------
    moved
        The operands whose tile is another one than before.
    fresh
        Whether nothing has been added to its outputs yet, where they come from.
    leads
        Whether sums are brought back to this instance; others of its group begin with nothing.
    along
        The loop along which the tile of input is the next one, if it has moved in no other way, and in the
        same tile of the memory outside.
    """

    moved: frozenset[int]
    fresh: bool
    leads: bool = True
    along: str | None = None


@dataclass
class Tally:
    """What was counted.

    Attributes
    ----------
    every, first : shape (places, 2, 2, 4)
        Elements moved at all instances of a memory, and at the first one, by `OUTSIDE`, `READ` and `INPUT`.
    steps
        How often the multipliers are fed.
    """

    every: Counts
    first: Counts
    steps: int = 0

    def add(self, other: Tally, times: int) -> None:
        """Add what another execution counted, some times after one another."""
        self.every += times * other.every
        self.first += times * other.first
        self.steps += times * other.steps


class Share(NamedTuple):
    """Iterations of a loop whose blocks inside are of one size.

    Attributes
    ----------
    times
        How many.
    begins
        Whether the first one is among them.
    """

    size: int
    times: int
    begins: bool


@lru_cache(maxsize=4096)
def loop_shares(block: int, step: int, apart: bool) -> tuple[Share, ...]:
    """Return the iterations of a loop through a block, the last of which may be cut off.

    Parameters
    ----------
    apart
        Whether the first iteration stands alone.
    """
    whole, left = divmod(block, step)
    if not whole:
        return (Share(block, 1, True),)
    found = [Share(step, 1, True), Share(step, whole - 1, False)] if apart else [Share(step, whole, True)]
    return tuple(share for share in (*found, Share(left, 1, False)) if share.times and share.size)


@dataclass
class Execution:
    """One execution of a program."""

    program: LevelProgram
    known: dict[tuple[int, LevelState, tuple[int, ...]], Tally] = field(default_factory=dict)

    def __post_init__(self) -> None:
        program = self.program
        self.holders = [program.holders(operand) for operand in range(3)]
        # For each operand: the places whose loops fetch tiles, with where these come from.
        self.fetching: list[dict[int, int]] = [{} for _ in range(3)]
        self.straight: list[int | None] = [None] * 3
        for operand, holders in enumerate(self.holders):
            for parent, child in zip(holders, [*holders[1:], len(program.places)], strict=True):
                last = parent
                while last + 1 < child and program.places[last + 1].memory:
                    last += 1
                self.fetching[operand][last] = parent
                if child == len(program.places):
                    self.straight[operand] = last
        # The places whose loops slide tiles of input along a memory that keeps what they share.
        self.sliding = {
            last
            for last in self.fetching[INPUT]
            if last + 1 < len(program.places) and program.places[last + 1].halo
        }
        self.sums_outside = [False]
        for place in program.places:
            adds = not place.memory and any(loop in program.reduced for loop, _ in place.loops)
            self.sums_outside.append(self.sums_outside[-1] or adds)
        self.one_step = Tally(self._nothing().every, self._nothing().first, 1)

    def run(self) -> Tally:
        """Execute all."""
        return self._run(0, LevelState(frozenset(range(3)), True), dict(self.program.extents))

    def _nothing(self) -> Tally:
        shape = len(self.program.places), 2, 2, 4
        return Tally(np.zeros(shape, np.int64), np.zeros(shape, np.int64))

    def _run(self, number: int, state: LevelState, block: Block) -> Tally:
        """Execute a block that enters a place."""
        if number == len(self.program.places):
            return self.one_step
        key = number, state, tuple(block.values())
        if key not in self.known:
            memory = self.program.places[number].memory
            self.known[key] = (self._repeat if memory else self._unroll)(number, state, block)
        return self.known[key]

    def _unroll(self, number: int, state: LevelState, block: Block) -> Tally:
        """Execute a block at all instances side by side, of which the first has the most to do."""
        loops = self.program.places[number].loops
        state, found = replace(state, along=None), self._nothing()
        reduced = self.program.reduced
        parts = [loop_shares(block[loop], step, loop in reduced) for loop, step in loops]
        for each in product(*parts):
            inside, leads = {**block}, state.leads
            for (loop, _), share in zip(loops, each, strict=True):
                inside[loop] = share.size
                leads = leads and (share.begins or loop not in reduced)
            tally = self._run(number + 1, replace(state, leads=leads), inside)
            found.every += prod(share.times for share in each) * tally.every
            if all(share.begins for share in each):
                found.first, found.steps = tally.first.copy(), tally.steps
        return found

    def _repeat(self, number: int, state: LevelState, block: Block) -> Tally:
        """Execute a memory's loops."""
        place, found = self.program.places[number], self._nothing()
        state = self._enter(number, state, block, found)
        for position in range(-1, len(place.loops)):
            for times, inner, inside in self._iterations(place, position, state, block):
                self._fetch(number, inner, times, inside, found)
                found.add(self._run(number + 1, inner, inside), times)
        return found

    def _enter(self, number: int, state: LevelState, block: Block, found: Tally) -> LevelState:
        """Take over the tiles of a memory that are another one than before; return what is found inside."""
        if number == 0:
            return state
        leads, fresh = state.leads, state.fresh
        for operand in self.program.places[number].holds:
            amount = self.program.elements(operand, block)
            if operand != OUTPUT:
                if operand == INPUT and self.program.places[number].halo and state.along is not None:
                    amount = self.program.fresh(block, state.along)
                self._count(found, number, INSIDE, WRITTEN, operand, amount * (operand in state.moved))
                continue
            if OUTPUT in state.moved:
                if not state.leads:
                    fresh = True
                if not fresh:
                    self._count(found, number, INSIDE, WRITTEN, PARTIAL, amount)
                # A tile that begins with nothing is one of those that leave complete, once each.
                complete = state.fresh and not self.sums_outside[number]
                self._count(found, number, INSIDE, READ, OUTPUT if complete else PARTIAL, amount)
            leads = True
        keeps = INPUT not in self.program.places[number].holds
        return LevelState(state.moved, fresh, leads, state.along if keeps else None)

    def _iterations(
        self, place: Place, position: int, state: LevelState, block: Block
    ) -> Iterator[tuple[int, LevelState, dict[str, int]]]:
        """Go through the iterations in which the loop at a position goes on, those that are alike together.

        Those further in begin anew; at position -1 all do.

        Yields
        ------
        times
            How many are alike.
        state, block
            How the block inside is found, and its size.
        """
        uses, reduced = self.program.uses, self.program.reduced
        again = place.loops[max(position, 0) :]
        moved = {operand for operand in range(3) if any(loop in uses[operand] for loop, _ in again)}
        along = None if INPUT in moved else state.along
        if position >= 0:
            loop = place.loops[position][0]
            begins = any(letter in uses[INPUT] for letter, _ in again[1:])
            along = loop if loop in SLIDING and not begins else None
        else:
            moved |= state.moved
        parts = []
        for at, (loop, step) in enumerate(place.loops):
            begun = at < position and not (state.fresh and loop in reduced)
            each = loop_shares(block[loop], step, not begun)
            parts.append([one for one in each if at < position or one.begins == (at > position)])
        for chosen in product(*parts):
            inside, fresh = {**block}, state.fresh
            for (loop, _), share in zip(place.loops, chosen, strict=True):
                inside[loop] = share.size
                fresh = fresh and (share.begins or loop not in reduced)
            times = prod(share.times for share in chosen)
            yield times, LevelState(frozenset(moved), fresh, state.leads, along), inside

    def _fetch(self, number: int, state: LevelState, times: int, block: Block, found: Tally) -> None:
        """Count what some iterations fetch for the memories further in, or for the multipliers.

        Parameters
        ----------
        block
            The one inside.
        """
        for operand in range(3):
            parent = self.fetching[operand].get(number)
            if parent is None or not (operand in state.moved or self.straight[operand] == number):
                continue
            amount = times * self.program.elements(operand, block)
            if operand == INPUT and number in self.sliding and state.along is not None:
                amount = times * self.program.fresh(block, state.along)
            if operand != OUTPUT:
                self._count(found, parent, OUTSIDE, READ, operand, amount)
                continue
            if not state.fresh:
                self._count(found, parent, OUTSIDE, READ, PARTIAL, amount)
            complete = state.fresh and not self.sums_outside[parent]
            self._count(found, parent, OUTSIDE, WRITTEN, OUTPUT if complete else PARTIAL, amount)

    def _count(self, found: Tally, number: int, end: int, way: int, column: int, amount: int) -> None:
        found.every[number, end, way, column] += amount
        found.first[number, end, way, column] += amount
