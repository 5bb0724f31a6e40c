"""What the compiled search works on: nodes of a machine, blocks that may enter them, partial plans inside.

Blocks are rows of a lattice (`Lattice`); sizes of a block are given by their numbers in the lattice, loop by
loop. Charges are whole numbers: attojoules, elements, steps of the multipliers, or ticks; see `Charges`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.hierarchy.exact.lattice import Steps

Table = NDArray[np.int64]
Floats = NDArray[np.float64]
Marks = NDArray[np.bool_]

SPENDING, CYCLES, PRODUCT, HOLDING = 0, 1, 2, 3
"""What is minimised: what is spent, cycles, or the product of both; or the bits that tiles take."""

ANY, SHORT = 3, 4
"""Orders of loops beside those that let one operand stay: none has to, and outputs stay for a short time."""

ALONG = 8
"""Orders also say which loop slides tiles of input: this times its number among `SLIDING`, from 1."""

MOST_ORDERS = 12
"""Space for orders."""

MOVES = 2
"""Bit of a partial plan for the first operand: its tile has not moved yet. Bit 1: sums go out incomplete."""

PROMISED = 16
"""Bit of a partial plan whose tile of outputs, which has not moved yet, must not go out incomplete."""

ADDED = 32
"""Among the bits: the outermost array that adds up sums, times this."""

ONCE, AS_PARTIAL, AS_COMPLETE = 0, 1, 2
"""How outputs come to a memory: in a way that is known, or in one of two that further loops decide."""

FULL, HOPELESS = -1, -2
"""Instead of a number of plans."""

LARGE = 4.0e18
"""Totals stay below this."""

INSIDE, FETCHED, OUTPUT, ENDING = 0, 1, 4, 5
"""Rows of a partial plan's values: charges for one block inside, for each fetch of a tile that is still to be
counted, of three operands, and for outputs whose sums begin there, and end there."""

G, N, C, Y, X, K, R, S = range(8)
"""Numbers of loops."""

STILL = np.array([[C, -1, -1], [N, Y, X], [K, R, S]])
"""The loops that do not move each operand."""

SLIDING = (Y, X, R, S)
"""Those along which tiles of input overlap."""


class Node(NamedTuple):
    """What the search knows of a node of the machine: a memory, or an axis of an array.

    Charges are by operand and quantity, shape (3, quantities), or by quantity; `Charges` says what they are.

    Attributes
    ----------
    number, memory, least, size
        Its place from the outermost one; whether it is a memory; fewest and most instances of an axis.
    shares
        Whether another node further out has a tile in the same memory.
    allowed : shape (8,)
        The loops that it may have.
    outer, inner, first_out, first_in, last_out, last_in
        See `Charges`.
    holds, straight, reaches : shape (3,)
        Operands that it holds; see `Source` for those that its loops move.
    next_outer, next_first, next_straight
        `outer` of the next node further out where that is a memory, the sum of its `first_out` and
        `last_out`, and its `straight`; nothing where it is an array.
    sliding, next_sliding, slides
        What an element of input costs that this node's loops, or the next one's, need not bring again, as
        the tile before has it; whether that is anything here.
    instances
        How many of the node there may be.
    constant : shape (nodes + 1, quantities)
        Of the outermost array that adds up sums: what is spent at least besides charges for tiles.
    at_most : shape (quantities,)
        What may be spent.
    most_cycles
        What may be taken.
    kinds : shape (quantities,)
        `SPENT`, `STEPS`, `TIME` or `WAITING`.
    goal
        What is minimised.
    macs_per_cycle
        Of one multiplier.
    both_ways
        Whether another fetch of outputs can be a gain.
    tracks
        Whether it matters which array adds up sums.
    free
        Whether nothing is charged here nor further in: any plan that fits is then as good as another one.
    any
        Whether steps need not divide.
    shared : shape (3, quantities)
        Whether charges are pending for what each instance of an array holds.
    """

    number: int
    memory: bool
    shares: bool
    least: int
    size: int
    allowed: Marks
    outer: Table
    inner: Table
    first_out: Table
    first_in: Table
    last_out: Table
    last_in: Table
    holds: Marks
    straight: Marks
    reaches: Marks
    next_outer: Table
    sliding: Table
    next_sliding: Table
    slides: bool
    next_first: Table
    next_straight: Marks
    instances: float
    constant: Table
    at_most: Table
    most_cycles: int
    kinds: Table
    goal: int
    macs_per_cycle: int
    both_ways: bool
    tracks: bool
    free: bool
    any: bool
    shared: Marks


class Blocks(NamedTuple):
    """Blocks that may enter a node, the first axis of every table but the last two.

    Attributes
    ----------
    place : shape (blocks, 8)
        Numbers of the sizes.
    elements : shape (blocks, 3)
        Of each operand; see `Lattice.charged`.
    whole : shape (blocks,)
        Whether a block has all that is added up.
    fits_complete, fits_partial : shape (blocks,)
        Whether it fits, with complete outputs and with partial sums.
    own, most : shape (blocks, 2) and (blocks,)
        Bits; see `Part`. Nothing and endless at a node that has a memory for itself.
    times, moved : shape (blocks,) and (blocks, 3)
        How often a block is in the layer, along all loops and along those that move each operand.
    fetches, shared : shape (blocks, 3) and (blocks, 3, 2)
        Where steps need not divide, the most fetches of each operand's tile from here on, and as a fraction
        those that count for what the instances of arrays further in share; `moved` are the fewest.
    rest : shape (blocks, quantities)
        See `Tables`.
    halo : shape (blocks,)
        Elements of input that need not be fetched at most, as the block before has them.
    divisors : shape (8, sizes)
        How many divisors each size of a loop has.
    strides : shape (8,)
        Of the lattice.
    """

    place: Table
    elements: Table
    whole: Marks
    fits_complete: Marks
    fits_partial: Marks
    own: Table
    most: Table
    times: Table
    fetches: Table
    shared: Table
    moved: Table
    rest: Table
    halo: Table
    divisors: Table
    strides: Table


class InnerPlans(NamedTuple):
    """Partial plans of all that is inside of a node, those of the same block in one group.

    Attributes
    ----------
    place, elements, fresh : first axis over groups
        As in `Blocks`; of the elements of input those that the block before does not have, see `Lattice`.
    start : shape (groups + 1,)
        First plan of each group, and the number of plans.
    group
        By number in the lattice: that of the group, -1 where there is none. Empty where the lattice is not
        complete.
    least : shape (quantities,)
        The least that a plan is charged in all.
    values : shape (plans, 6, quantities)
        Charges so far; see `INSIDE` and so on.
    bits : shape (plans,)
        See `MOVES`, `PROMISED` and `ADDED`.
    held : shape (plans,)
        Bits of the plans' tiles in the memory that the next node outside shares with them.
    """

    place: Table
    elements: Table
    fresh: Table
    start: Table
    group: Table
    least: Floats
    values: Table
    bits: Table
    held: Table


class PartialPlans(NamedTuple):
    """Partial plans of all from a node on inwards, and how they were made from those of the next one.

    Attributes
    ----------
    block : shape (plans,)
        The number of the block that enters the node: among `Blocks` in the kernel, in the lattice outside.
    values, bits, held
        As in `InnerPlans`.
    before, order : shape (plans,)
        The plan inside, and the order of the node's loops.
    least : shape (plans,)
        What every plan costs at least that has this one inside.
    """

    block: Table
    values: Table
    bits: Table
    held: Table
    before: Table
    order: Table
    least: Floats

    @classmethod
    def space(cls, many: int, quantities: int) -> PartialPlans:
        """Return space for so many plans."""
        block, bits, held, before, order = np.zeros((5, many), np.int64)
        return cls(
            block, np.zeros((many, 6, quantities), np.int64), bits, held, before, order, np.zeros(many)
        )

    def rows(self, chosen: Table | slice) -> PartialPlans:
        """Return a copy of some of them."""
        columns: list[Any] = [np.array(column[chosen]) for column in self]
        return PartialPlans(*columns)

    def enter(self, plans: PartialPlans) -> None:
        """Write plans over the first ones."""
        for column, values in zip(self, plans, strict=True):
            column[: len(values)] = values


class Space(NamedTuple):
    """All that partial plans of a node are made of.

    Attributes
    ----------
    ratios : shape (8, sizes, sizes)
        How often one size of a loop is in another, 0 where it cannot be inside; see `Lattice`.
    """

    node: Node
    steps: Steps
    blocks: Blocks
    plans: InnerPlans
    ratios: Table


class Cutoff(NamedTuple):
    """Plans that cannot be better than this are left out.

    Attributes
    ----------
    high, low
        The best value that is known, ``high * 2**31 + low``.
    least
        Of the plans that an incomplete pass keeps, the largest bound.
    """

    high: int
    low: int
    least: float


class Move(NamedTuple):
    """A node's loops from one block to one inside of it.

    Attributes
    ----------
    block, group
        Numbers of the block that enters the node, and of the group of plans inside.
    outer, inner : shape (8,)
        Numbers of the sizes of both blocks.
    trips : shape (8,)
        Iterations of each loop.
    own, tile : shape (3,)
        Elements of each operand under both blocks.
    fresh : shape (4,)
        Elements of input that the block inside does not share with the one before, by the loop of `SLIDING`.
    """

    block: int
    group: int
    outer: Table
    inner: Table
    trips: Table
    own: Table
    tile: Table
    fresh: Table
