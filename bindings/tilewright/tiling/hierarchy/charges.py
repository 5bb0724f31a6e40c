"""What a machine charges for each element of a tile that moves, in all that an objective depends on.

All charges are sums over the tiles that cross a boundary, so a search adds them up from the innermost memory
outwards: an amount for the tile on the outer side of the boundary, one for each instance on the inner side.
Outputs cost less where sums begin or end: when they are brought in for the first time, since there is nothing
to bring, and when they leave for the last time, if that makes them narrower.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.cost import attojoules, prices, ticks_per_bit, transfer_ticks
from tilewright.tiling.hierarchy.loops import LETTERS, OPERANDS, REDUCED
from tilewright.tiling.hierarchy.machine import HierarchyMachine

Table = NDArray[np.int64]

OUTPUT = OPERANDS.index("output")

SPENT, STEPS, TIME, WAITING = range(4)
"""Kinds of quantities: what all instances spend, steps of the multipliers, ticks of the busiest instance, and
ticks of transfers that the multipliers wait for."""


@dataclass(frozen=True)
class Quantity:
    """A sum that an objective depends on.

    Attributes
    ----------
    kind
        `SPENT`, `STEPS`, `TIME` or `WAITING`.
    read, written : by node
        Charge for a bit that is read from the memory, or written to it.
    passed
        Instead of `read`, for weights that pass the first memory by; see `HierarchyMachine.beyond`.
    """

    kind: int
    read: dict[int, int]
    written: dict[int, int]
    name: str = "cycles"
    passed: int | None = None

    @property
    def timed(self) -> bool:
        """Whether ticks of one instance are charged."""
        return self.kind in (TIME, WAITING)

    @property
    def counts(self) -> bool:
        """Whether elements are charged, whatever their widths."""
        return self.name == "accesses"


def quantities(machine: HierarchyMachine, goals: Sequence[str], level: str) -> list[Quantity]:
    """Return what objectives depend on, what is spent in the order of the objectives, and then cycles.

    Parameters
    ----------
    goals
        What is minimised, and what is limited.
    level
        The memory whose accesses are counted.
    """
    memories = [i for i, node in enumerate(machine.nodes) if node.axis is None]
    levels = {i: machine.levels[machine.nodes[i].level] for i in memories}
    found, beyond = [], machine.beyond
    for name in dict.fromkeys("energy" if goal == "edp" else goal for goal in goals):
        if name == "accesses":
            chosen = {i: 1 for i in memories if levels[i].name == level}
            passed = None if beyond is None else int(beyond.name == level)
            found.append(Quantity(SPENT, chosen, chosen, name, passed))
        if name == "traffic":
            found.append(Quantity(SPENT, {0: 1}, {0: 1}, name=name))
        if name == "memory":  # which is no sum over transfers
            found.append(Quantity(SPENT, {}, {}, name=name))
        if name == "energy":
            each = [{i: prices(levels[i])[way] for i in memories} for way in (0, 1)]
            passed = None if beyond is None else prices(beyond)[0]
            found.append(Quantity(SPENT, each[0], each[1], name, passed))
    if "cycles" in goals or "edp" in goals:
        found.append(Quantity(STEPS, {}, {}))
        if any(not levels[i].double_buffering for i in memories[1:]):
            found.append(Quantity(WAITING, {}, {}))
        passed = None if beyond is None else 0
        if beyond is not None and (ticks_beyond := ticks_per_bit(beyond)[0]):
            found.append(Quantity(TIME, {}, {}, passed=ticks_beyond))
        for i, nodes in machine.memories.items():
            ticks = ticks_per_bit(levels[i])
            read, written = (dict.fromkeys(nodes, price) for price in ticks)
            if levels[i].bytes_per_cycle is not None:
                found.append(Quantity(TIME, read, written, passed=passed))
                continue
            if ticks[0]:
                found.append(Quantity(TIME, read, {}, passed=passed))
            if ticks[1]:
                found.append(Quantity(TIME, {}, written))
    return found


class Charges:
    """Charges of all quantities, by node, operand and quantity.

    Attributes
    ----------
    outer : shape (nodes, 3, quantities)
        For an element of a tile that is fetched by the loops of a node, counted where it comes from.
    inner
        For an element of a tile that a memory holds, counted at each instance.
    first_out, first_in, last_out, last_in : shape (nodes, quantities)
        What the first fetch of an output costs less, and the last time that it leaves, by the same nodes.
    constant : shape (nodes + 1, quantities); by node, and last without a node
        What sums cost less in all, where the outermost array that adds up is that of the node.
    straight, reaches : bool, shape (nodes, 3)
        See `Source`.
    allowed : bool, shape (nodes, 8)
        See `HierarchyMachine.allowed`.
    """

    def __init__(
        self, machine: HierarchyMachine, goals: Sequence[str], level: str, *, any_steps: bool = False
    ) -> None:
        self.machine, self.any_steps = machine, any_steps
        self.quantities = quantities(machine, goals, level)
        nodes, many = len(machine.nodes), len(self.quantities)
        self.outer, self.inner = (np.zeros((nodes, 3, many), np.int64) for _ in range(2))
        self.first_out, self.first_in, self.last_out, self.last_in = (
            np.zeros((nodes, many), np.int64) for _ in range(4)
        )
        self.constant = np.zeros((nodes + 1, many), np.int64)
        self.straight, self.reaches = (np.zeros((nodes, 3), np.bool_) for _ in range(2))
        self.allowed = np.zeros((nodes, len(LETTERS)), np.bool_)
        self._connect()
        for q, quantity in enumerate(self.quantities):
            for o, operand in enumerate(OPERANDS[:OUTPUT]):
                self._charge_input(q, quantity, o, self.bits(operand, quantity))
            self._charge_output(q, quantity)

    def bits(self, kind: str, quantity: Quantity) -> int:
        """Return an element's width, 1 where elements are counted."""
        return 1 if quantity.counts else int(getattr(self.machine.bits, kind))

    def constants(self, layer: Layer) -> Table:
        """Return what every plan of a layer spends besides charges for its tiles; shape as `constant`."""
        macs = layer.macs * attojoules(self.machine.mac_pj, 1)
        multiplying = [macs if quantity.name == "energy" else 0 for quantity in self.quantities]
        return self.constant * prod(layer.output_shape) + np.array(multiplying, np.int64)

    def arrays(self, first: int, last: int) -> list[int]:
        """Return the axes of arrays among some nodes."""
        return [i for i in range(first, last) if self.machine.nodes[i].axis is not None]

    def crossings(self, operand: str) -> list[tuple[int, int]]:
        """Return the boundaries that an operand crosses, outermost first, as memory and next memory."""
        holders = [*self.machine.holders[operand], len(self.machine.nodes)]
        return list(pairwise(holders))

    def shared(self, i: int) -> NDArray[np.bool_]:
        """Return whether anything is charged beyond the next array further in, shape (3, quantities)."""
        arrays = self.arrays(i + 1, len(self.machine.nodes))
        beyond = arrays[0] if arrays else len(self.machine.nodes)
        return np.asarray((self.inner[beyond:] != 0).any(axis=0) | (self.outer[beyond:] != 0).any(axis=0))

    def nothing_from(self, i: int) -> bool:
        """Whether nothing is charged at a node nor further in."""
        tables = self.outer, self.inner, self.first_out, self.first_in, self.last_out, self.last_in
        spends = all(quantity.kind == SPENT for quantity in self.quantities)
        return spends and not any(table[i:].any() for table in tables)

    def _connect(self) -> None:
        """Lay out what the machine says of where tiles come from, and of loops."""
        for i, (sources, allowed) in enumerate(zip(self.machine.sources, self.machine.allowed, strict=True)):
            for o, operand in enumerate(OPERANDS):
                _, self.straight[i, o], self.reaches[i, o] = sources[operand]
            self.allowed[i] = [letter in allowed for letter in LETTERS]

    def _by_node(self, o: int) -> list[tuple[int, tuple[int, int]]]:
        """Return the nodes whose loops move tiles across each boundary of an operand."""
        found = []
        for parent, child in self.crossings(OPERANDS[o]):
            found += [
                (i, (parent, child)) for i in range(parent, child) if self.machine.nodes[i].axis is None
            ]
        return found

    def sliding(self, i: int, outer: Table) -> Table:
        """Return what an element of input costs that a node's loops need not bring again, by quantity.

        Parameters
        ----------
        outer : shape (3, quantities)
            Charges where the node's loops fetch from.
        """
        child = min((holder for holder in self.machine.holders["input"] if holder > i), default=-1)
        if child not in self.machine.halos:
            return np.zeros(len(self.quantities), np.int64)
        return np.asarray(self.inner[child, 0] + outer[0])

    def _serial(self, crossing: tuple[int, int], *, passes: bool = False) -> tuple[int, int]:
        """Return the ticks of a bit that the multipliers wait for, on its way in and on its way out.

        Parameters
        ----------
        passes
            Whether it passes the first memory by, where weights do.
        """
        parent, child = crossing
        nodes, levels = self.machine.nodes, self.machine.levels
        if child == len(nodes) or levels[nodes[child].level].double_buffering:
            return 0, 0
        beyond = self.machine.beyond if passes and parent == 0 else None
        return transfer_ticks(beyond or levels[nodes[parent].level], levels[nodes[child].level])

    def _charge_input(self, q: int, quantity: Quantity, o: int, bits: int) -> None:
        """Charge an operand that is only read."""
        for i, crossing in self._by_node(o):
            parent, child = crossing
            passes = OPERANDS[o] == "weights"
            price = quantity.read.get(parent, 0)
            if quantity.kind == WAITING:
                price = self._serial(crossing, passes=passes)[0]
            elif passes and parent == 0 and quantity.passed is not None:
                price = quantity.passed
            self.outer[i, o, q] = bits * price
            if child < len(self.machine.nodes):
                self.inner[child, o, q] = bits * quantity.written.get(child, 0)

    def _charge_output(self, q: int, quantity: Quantity) -> None:
        """Charge outputs, which go out and come back until they are complete."""
        partial = self.bits("partial", quantity)
        narrower = partial - self.bits("output", quantity)
        read, written = quantity.read, quantity.written
        for i, crossing in self._by_node(OUTPUT):
            parent, child = crossing
            if quantity.timed and self._ends_apart(parent):
                drain = self._serial(crossing)[1] if quantity.kind == WAITING else written.get(parent, 0)
                self.outer[i, OUTPUT, q] = (partial - narrower) * drain
            elif quantity.kind == WAITING:
                fill, drain = self._serial(crossing)
                self.outer[i, OUTPUT, q] = partial * (fill + drain)
                self.first_out[i, q], self.last_out[i, q] = -partial * fill, -narrower * drain
            elif quantity.kind == TIME:
                into, out = read.get(parent, 0), written.get(parent, 0)
                self.outer[i, OUTPUT, q] = partial * (into + out)
                self.first_out[i, q], self.last_out[i, q] = -partial * into, -narrower * out
            else:
                once = self._again(quantity, crossing)
                saved = self._saved(q, crossing)
                self.outer[i, OUTPUT, q] = partial * (once + written.get(parent, 0)) + saved
        for crossing in self.crossings("output")[:-1]:
            child = crossing[1]
            if quantity.timed and self._ends_apart(child):
                self.inner[child, OUTPUT, q] = (partial - narrower) * read.get(child, 0)
            elif quantity.timed:
                self.inner[child, OUTPUT, q] = partial * (read.get(child, 0) + written.get(child, 0))
                self.first_in[child, q] = -partial * written.get(child, 0)
                self.last_in[child, q] = -narrower * read.get(child, 0)
            else:
                self.inner[child, OUTPUT, q] = partial * read.get(child, 0) - self._saved(q, crossing)
        if quantity.kind == SPENT:
            self._charge_constant(q, quantity)

    def _ends_apart(self, node: int) -> bool:
        """Whether sums of a memory inside of an array are not charged for beginning and ending.

        Where steps do not divide, the busiest instance has an unknown number of them; each that goes out has
        the width of a complete one at least.
        """
        return self.any_steps and bool(self.arrays(0, node))

    def _adds_up(self, crossing: tuple[int, int]) -> bool:
        """Whether an array between two memories may add up sums."""
        return any(self.allowed[i][LETTERS.index(loop)] for i in self.arrays(*crossing) for loop in REDUCED)

    def _again(self, quantity: Quantity, crossing: tuple[int, int]) -> int:
        """Return what bringing back a bit of a sum costs across a boundary.

        Where steps do not divide, only so much is charged that another fetch never saves anything: further in
        than an array that adds up, what the memory there reads.
        """
        parent, child = crossing
        if self.any_steps:
            inner = [ends[1] for ends in self.crossings("output") if ends[0] < parent and self._adds_up(ends)]
            if inner:
                return quantity.read.get(parent, 0) if parent == min(inner) else 0
        return quantity.read.get(parent, 0) + quantity.written.get(child, 0)

    def _saved(self, q: int, crossing: tuple[int, int]) -> int:
        """Return what bringing back a sum costs at all boundaries further in than one.

        Instances whose sums an array adds up begin with nothing, all but one: they save it.
        """
        if not self._adds_up(crossing):
            return 0
        quantity, child = self.quantities[q], crossing[1]
        once = [self._again(quantity, ends) for ends in self.crossings("output") if ends[0] >= child]
        return self.bits("partial", quantity) * sum(once)

    def _charge_constant(self, q: int, quantity: Quantity) -> None:
        """Charge for each output element what does not depend on its tiles."""
        partial = self.bits("partial", quantity)
        narrower = partial - self.bits("output", quantity)
        for outermost in range(len(self.constant)):
            total = 0
            for parent, child in self.crossings("output"):
                total -= partial * self._again(quantity, (parent, child))
                total -= narrower * quantity.read.get(child, 0) * (child <= outermost)
                total -= narrower * quantity.written.get(parent, 0) * (parent <= outermost)
            self.constant[outermost, q] = total
