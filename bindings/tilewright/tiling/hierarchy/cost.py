"""What a loop nest moves: reads and writes of each operand at each level, in closed form.

A tile is fetched when the innermost loop outside that moves its operand goes on; loops inside of that one
leave it where it is. So transfers are counted by the digits of a position, one for each node: a transfer
is made for each combination of the digits of loops that bring a new tile, and of the arrays' digits for the
instances that it comes from or goes to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import prod

import numpy as np

from tilewright.simulator.levels import INSIDE, OUTSIDE, READ, SLIDING, WRITTEN
from tilewright.tiling.hierarchy.machine import OPERANDS, REDUCED, USES
from tilewright.tiling.hierarchy.measure import KINDS, Moved
from tilewright.tiling.hierarchy.nest import AXES, Nest, fresh, positions


@dataclass
class Traffic:
    """Elements that are read and written at a level, of each operand; outputs that are not complete apart."""

    read: Counter[str] = field(default_factory=Counter)
    written: Counter[str] = field(default_factory=Counter)


@dataclass
class Crossing:
    """What an operand moves across the boundary from a memory to the next one further in that holds it.

    Attributes
    ----------
    parent, child
        Their nodes; the child of the last memory is the number of nodes, for the multipliers.
    outside, inside
        What is read and written at the parent, and at the child.
    """

    operand: str
    parent: int
    child: int
    outside: Traffic = field(default_factory=Traffic)
    inside: Traffic = field(default_factory=Traffic)


@dataclass
class Volume:
    """Elements of an operand that cross a boundary, all together.

    Attributes
    ----------
    outer
        Counted at the memory outside, where what goes to several instances is read once.
    inner
        Counted at all instances further in.
    """

    outer: int
    inner: int


class Cost:
    """The cost of a valid nest."""

    def __init__(self, nest: Nest) -> None:
        self.nest = nest
        self.nodes = nest.machine.nodes
        self._outputs_at: dict[int, int] = {}
        self._grouped: dict[tuple[str, tuple[int, ...], int | None], Counter[Sequence[int]]] = {}

    @cached_property
    def crossings(self) -> list[Crossing]:
        """What crosses each boundary, of all instances."""
        return self._crossings(pinned=False)

    @cached_property
    def busiest(self) -> list[Crossing]:
        """What crosses each boundary at the first instance of each side, which has most to do."""
        return self._crossings(pinned=True)

    def _crossings(self, pinned: bool) -> list[Crossing]:
        found = []
        for operand in OPERANDS:
            holders = [*self.nest.machine.holders[operand], len(self.nodes)]
            for parent, child in pairwise(holders):
                found.append(self._crossing(operand, parent, child, pinned))
        return found

    def _crossing(self, operand: str, parent: int, child: int, pinned: bool) -> Crossing:
        """Return what crosses the boundary from a holder to the next one, or to the multipliers."""
        crossing = Crossing(operand, parent, child)
        at_parent = self._volume(operand, parent, child, parent if pinned else None)
        at_child = self._volume(operand, parent, child, child if pinned else None)
        if operand != "output":
            crossing.outside.read[operand] = at_parent.outer
            crossing.inside.written[operand] = at_child.inner
            return crossing
        again = at_parent.outer - self._first(parent, child, pinned)
        crossing.outside.read["partial"] = again
        crossing.inside.written["partial"] = at_child.inner - self._outputs(child) if pinned else again
        for counts, moved, node in (
            (crossing.inside.read, at_child.inner, child),
            (crossing.outside.written, at_parent.outer, parent),
        ):
            complete = 0 if self.summed_outside(node) else self._outputs(node if pinned else 0)
            counts["output"], counts["partial"] = complete, moved - complete
        return crossing

    def at(self, node: int, *, busiest: bool = False) -> Traffic:
        """Return what is read and written at a memory, by all its instances or by the first one."""
        traffic = Traffic()
        for crossing in self.busiest if busiest else self.crossings:
            for end, counts in ((crossing.parent, crossing.outside), (crossing.child, crossing.inside)):
                if end == node:
                    traffic.read.update(counts.read)
                    traffic.written.update(counts.written)
        return traffic

    def _first(self, parent: int, child: int, pinned: bool) -> int:
        """Elements that come to a parent without a partial sum, so that who asks first gets none."""
        if pinned:
            return self._outputs(parent)
        holders = self.nest.machine.holders["output"]
        before = holders.index(parent)
        if before == 0:
            return self._outputs(0)
        grandparent = holders[before - 1]
        moved = self._volume("output", grandparent, parent, None)
        return moved.inner - (moved.outer - self._first(grandparent, parent, False))

    def _outputs(self, node: int) -> int:
        """Elements of the output that the first instance at a node works on; node 0 has all."""
        if node not in self._outputs_at:
            self._outputs_at[node] = prod(self._positions(loop, node) for loop in USES["output"])
        return self._outputs_at[node]

    def _positions(self, loop: str, node: int) -> int:
        """Return how many positions of a loop the first instance at a node works on."""
        if not self.nest.divides(loop):
            return int(self._pinned(loop, node).sum())
        return self.nest.extents[loop] // prod(self.nest.trips(i, loop) for i in self._arrays(node))

    def _arrays(self, node: int) -> list[int]:
        """Return the axes of arrays outside of a node."""
        return [i for i in range(min(node, len(self.nodes))) if self.nodes[i].axis is not None]

    def summed_outside(self, node: int) -> bool:
        """Whether an array outside of a node adds up sums."""
        return any(
            self.nodes[i].axis is not None and any(self.nest.trips(i, loop) > 1 for loop in REDUCED)
            for i in range(min(node, len(self.nodes)))
        )

    def _pinned(self, loop: str, node: int) -> np.ndarray:
        """Positions of a loop that the first instance at a node works on."""
        digits, arrays = self.nest.digits[loop], self._arrays(node)
        return np.all(digits[arrays] == 0, axis=0) if arrays else np.ones(digits.shape[1], bool)

    def _volume(self, operand: str, parent: int, child: int, pin: int | None) -> Volume:
        """Return what crosses a boundary; of the first instance at the node `pin` alone, if there is one."""
        kept = self._moving(operand, child)
        outside = [i for i in range(parent) if self.nodes[i].axis is not None]
        between = [i for i in range(parent, min(child, len(self.nodes))) if self.nodes[i].axis is not None]
        tile, fetched = self._sweep(parent, child) if operand == "input" else (1, 1)
        return Volume(
            *(
                self._elements(operand, {loop: sorted({*kept[loop], *arrays}) for loop in kept}, pin)
                * fetched
                // tile
                for arrays in (outside, outside + between)
            )
        )

    def _sweep(self, parent: int, child: int) -> tuple[int, int]:
        """Return the elements of the tiles of input that a loop slides along, and how many are fetched.

        Where a memory keeps what tiles share; steps divide the blocks outside.
        """
        order = self.nest.moving("input", child)
        if child not in self.nest.machine.halos or not order:
            return 1, 1
        node, loop = order[-1]
        if loop not in SLIDING or node < parent:
            return 1, 1
        trips, block = self.nest.trips(node, loop), self.nest.blocks[child]
        each = self.nest.elements("input", block)
        return trips * each, each + (trips - 1) * fresh(self.nest.layer, block, loop)

    def _moving(self, operand: str, child: int) -> dict[str, list[int]]:
        """For each loop, the memories' nodes whose iterations bring a new tile to a child."""
        order = self.nest.moving(operand, child)
        return {loop: [i for i, other in order if other == loop] for loop in self.nest.extents}

    def _elements(self, operand: str, kept: dict[str, list[int]], pin: int | None) -> int:
        """Add up the elements of an operand over all combinations of the digits that are kept."""
        groups = {loop: self._groups(loop, tuple(nodes), pin) for loop, nodes in kept.items()}
        total = 1
        for loop, contexts in groups.items():
            if loop not in USES[operand]:
                total *= sum(contexts.values())
            elif operand != "input" or loop in "gnk":
                total *= sum(len(members) * count for members, count in contexts.items())
        if operand != "input":
            return total
        layer = self.nest.layer
        for axis, (out, tap) in enumerate(AXES):
            total *= sum(
                count * others * positions(outputs, taps, layer.stride[axis], layer.dilation[axis])
                for outputs, count in groups[out].items()
                for taps, others in groups[tap].items()
            )
        return total

    def _groups(self, loop: str, nodes: tuple[int, ...], pin: int | None) -> Counter[Sequence[int]]:
        """Return the positions that share digits, relative to their first, and how often each such set is."""
        asked = loop, nodes, pin
        if asked not in self._grouped:  # boundaries and operands ask for the same again and again
            self._grouped[asked] = self._group(*asked)
        return self._grouped[asked]

    def _group(self, loop: str, nodes: tuple[int, ...], pin: int | None) -> Counter[Sequence[int]]:
        if self.nest.extents[loop] == 1:
            return Counter({range(1): 1})
        if self.nest.divides(loop):
            return self._alike(loop, nodes, pin)
        at = np.arange(self.nest.extents[loop])
        keys = np.zeros(len(at), np.int64)
        for node in nodes:
            keys = keys * (int(self.nest.digits[loop][node].max()) + 1) + self.nest.digits[loop][node]
        if pin is not None:
            chosen = self._pinned(loop, pin)
            at, keys = at[chosen], keys[chosen]
        if loop not in SLIDING:  # how many there are is then all that counts
            sizes, many = np.unique(np.unique(keys, return_counts=True)[1], return_counts=True)
            return Counter(
                {range(size): times for size, times in zip(sizes.tolist(), many.tolist(), strict=True)}
            )
        order = np.argsort(keys, kind="stable")
        cuts = np.flatnonzero(np.diff(keys[order])) + 1
        found: Counter[Sequence[int]] = Counter()
        for members in np.split(at[order], cuts):
            found[tuple((members - members[0]).tolist())] += 1
        return found

    def _alike(self, loop: str, nodes: tuple[int, ...], pin: int | None) -> Counter[Sequence[int]]:
        """Return what `_group` does for steps that divide, where all sets are alike."""
        trips = {i: self.nest.trips(i, loop) for i in range(len(self.nodes))}
        first = [] if pin is None else self._arrays(pin)
        many = prod(trips[i] for i in nodes if i not in first)
        free = [i for i in trips if trips[i] > 1 and i not in nodes and i not in first]
        if loop not in SLIDING:
            return Counter({range(prod(trips[i] for i in free)): many})
        members = [0]
        for i in free:
            step = self.nest.blocks[i + 1][loop]
            members = [at + step * number for at in members for number in range(trips[i])]
        return Counter({tuple(members): many})

    @cached_property
    def steps(self) -> int:
        """Combinations of iterations of the memories' loops: how often every multiplier is fed at most."""
        memories = tuple(i for i, node in enumerate(self.nodes) if node.axis is None)
        return prod(sum(self._groups(loop, memories, None).values()) for loop in self.nest.extents)

    @cached_property
    def moved(self) -> Moved:
        """All that is moved, as a simulation counts it."""
        shape = len(self.nodes), 2, 2, 4
        tables = []
        for crossings in (self.crossings, self.busiest):
            table = np.zeros(shape, np.int64)
            for crossing in crossings:
                ends = (
                    (crossing.parent, OUTSIDE, crossing.outside),
                    (crossing.child, INSIDE, crossing.inside),
                )
                for node, end, traffic in ends:
                    if node < len(self.nodes):
                        for way, counts in ((READ, traffic.read), (WRITTEN, traffic.written)):
                            table[node, end, way] += [counts[kind] for kind in KINDS]
            tables.append(table)
        return Moved(tables[0], tables[1], self.steps)
