"""What the exact search knows of a problem before it begins: blocks, charges, bounds on what is outside."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import SLIDING
from tilewright.tiling.hierarchy.charges import OUTPUT, SPENT, TIME, WAITING, Charges
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.exact.lattice import FAR, Lattice
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.loops import LETTERS, OPERANDS, REDUCED
from tilewright.tiling.hierarchy.task import Task

Table = NDArray[np.int64]


class Part(NamedTuple):
    """One of several nodes of a memory, which share its bits.

    Attributes
    ----------
    own : shape (blocks, 2)
        Bits of the node's tile under each block, with complete outputs and with partial ones.
    most : shape (blocks,)
        Bits of this tile and of those further in, where those further out are as small as they can be.
    least
        Bits of those further in, where they are as small as they can be.
    outermost
        Whether nothing is further out.
    """

    own: Table
    most: Table
    least: int
    outermost: bool


class Left(NamedTuple):
    """What a search among larger ranges of sizes has left, for each node.

    Attributes
    ----------
    among
        The blocks that may enter it.
    rest
        See `Tables`.
    """

    among: list[NDArray[np.bool_]]
    rest: list[Table]


class Tables:
    """A task as the search sees it, where it is decided what levels hold.

    Attributes
    ----------
    kinds : shape (quantities,)
        What each quantity is: `SPENT`, `STEPS`, `TIME` or `WAITING`.
    constant : shape (nodes + 1, quantities)
        What every plan spends besides its charges; see `Charges`.
    left
        What is left of blocks, None where that is all.
    every, moved
        How often each block is in the layer, along all loops and along those that move each operand.
    fresh, halo
        See `Lattice` and `kernel.Blocks`; zero where no memory keeps halos.
    whole
        Whether a block has all that is added up.
    fits
        For each node, the blocks that fit, with complete outputs and with partial ones.
    parts
        Nodes that share a memory with others.
    rest
        For each node, the least that is charged for all boundaries outside of each block that enters it.
    """

    def __init__(self, task: Task, kept: Kept = (), lattice: Lattice | None = None, left: Left | None = None):
        self.task, self.kept, self.left = task, kept, left
        self.machine = machine = task.machine.keeping(kept)
        self.lattice = Lattice(task.layer) if lattice is None else lattice
        goals = task.minimise, *task.at_most
        self.charges = Charges(machine, goals, task.level, any_steps=self.lattice.any)
        self.kinds = np.array([one.kind for one in self.charges.quantities])
        self.constant = self.charges.constants(task.layer)
        self.every, self.moved = self.lattice.every, self.lattice.moved
        extents = np.array(list(self.lattice.extents.values()))
        reduced = [LETTERS.index(loop) for loop in REDUCED]
        self.whole = (self.lattice.sizes[:, reduced] == extents[reduced]).all(axis=1)
        self.fits: list[tuple[NDArray[np.bool_], NDArray[np.bool_]]] = []
        self.rest: list[Table] = []
        self.fresh = np.zeros((self.lattice.many, len(SLIDING)), np.int64)
        self.halo = np.zeros(self.lattice.many, np.int64)
        if machine.halos:
            self.fresh = self.lattice.fresh
            self.halo = self.lattice.elements[:, 0] - self.fresh.min(axis=1)
        self.parts = {
            i: self._part(nodes, i)
            for nodes in machine.memories.values()
            for i in nodes
            if len(nodes) > 1 and isinstance(machine.levels[machine.nodes[i].level].capacity_bytes, int)
        }
        for i, node in enumerate(machine.nodes):
            complete = partial = np.ones(self.lattice.many, np.bool_)
            if i in self.parts:
                part = self.parts[i]
                complete, partial = (part.own + part.least <= part.most[:, None]).T
            elif node.axis is None:
                widths = (machine.bits.output, machine.bits.partial)
                complete, partial = (self.lattice.fits(machine, i, width) for width in widths)
            self.fits.append((complete, partial))
            self.rest.append(self._rest(i) if left is None else left.rest[i])

    def _part(self, nodes: tuple[int, ...], i: int) -> Part:
        """Return what a node has of a memory of several nodes."""
        machine, lattice = self.machine, self.lattice
        capacity = machine.levels[machine.nodes[i].level].capacity_bytes
        assert isinstance(capacity, int)
        own, partial = (
            {j: lattice.bits(machine, j, width).sum(axis=1) for j in nodes}
            for width in (machine.bits.output, machine.bits.partial)
        )
        # Blocks further out contain the node's own block; those further in have one element at least.
        most = 8 * capacity - sum((own[j] for j in nodes if j < i), np.zeros_like(own[i]))
        least = sum(int(own[j][0]) for j in nodes if j > i)
        return Part(np.stack([own[i], partial[i]], axis=1), most, least, i == nodes[0])

    def entering(self, i: int) -> NDArray[np.bool_]:
        """Return the blocks that may enter a node."""
        complete, partial = self.fits[i]
        entering = (complete | partial) & (self.rest[i] < FAR).all(axis=1)
        if self.task.admitted is not None:
            entering &= self.task.admitted.blocks(self.machine, self.lattice, i)
        return entering if self.left is None else entering & self.left.among[i]

    def ratios(self, i: int) -> Table:
        """Return how often one size of a loop may be in another at a node; see `Lattice.ratios`."""
        admitted = self.task.admitted
        return self.lattice.ratios if admitted is None else admitted.ratios(self.machine, self.lattice, i)

    def instances_used(self, i: int) -> tuple[int, int]:
        """Return how many instances of an axis are used at least and at most; 1 and 0 of a memory."""
        axis = self.machine.nodes[i].axis
        if axis is None:
            return 1, 0
        admitted = self.task.admitted
        return (1, axis.size) if admitted is None else admitted.instances.get(i, (1, axis.size))

    def instances(self, i: int) -> int:
        """Return the most instances of a node."""
        return prod(axis.size for node in self.machine.nodes[:i] if (axis := node.axis) is not None)

    def least(self) -> int:
        """Return a bound on the objective, in its own parts, that holds for every plan."""
        last = len(self.machine.nodes)
        outside = self._rest(last)[0]
        spent = max(0, int(self.constant[:, 0].min() + outside[0])) if self.kinds[0] == SPENT else 0
        most = self.instances(last) * self.machine.macs_per_cycle
        ticks = TICKS * -(-self.task.layer.macs // most) + sum(outside[self.kinds == WAITING].tolist())
        ports = outside[(self.kinds == TIME) | (self.kinds == WAITING)]
        cycles = -(-max(ticks, *ports.tolist(), 0) // TICKS)
        if self.task.minimise == "cycles":
            return int(cycles)
        return int(spent * cycles) if self.task.minimise == "edp" else spent

    def _rest(self, i: int) -> Table:
        """Return the least that is charged for the boundaries outside of each block that enters a node."""
        many = len(self.charges.quantities)
        if i == 0:
            outside = np.full((self.lattice.many, many), FAR)
            outside[-1] = 0
            return outside
        node, outer = self.machine.nodes[i - 1], self.rest[i - 1].copy()
        outer[~self.entering(i - 1)] = FAR
        if node.axis is None and i > 1:
            outer = np.minimum(outer + self._least_inside(i - 1), FAR)
        size = node.axis.size if node.axis is not None else FAR
        most = [size if allowed else 1 for allowed in self.charges.allowed[i - 1]]
        return self.lattice.least_around(outer, most)

    def _least_inside(self, i: int) -> Table:
        """Return the least that filling a memory costs, for each of its blocks."""
        total = np.zeros((self.lattice.many, len(self.charges.quantities)), np.float64)
        node = self.machine.nodes[i]
        outward = self.machine.nodes[i - 1].axis is None
        instances = self.instances(i)
        savings = np.zeros_like(total)
        fetches = self.lattice.fetches
        for o, operand in enumerate(OPERANDS):
            if operand not in node.holds:
                continue
            each = self.charges.inner[i, o].astype(np.float64)
            if outward and self.charges.reaches[i - 1, o]:
                each = each + self.charges.outer[i - 1, o]
            held = self.lattice.charged[:, [o]]
            if operand == "input" and i in self.machine.halos:
                held = held - self.halo[:, None]
            each = held * each
            full = fetches[:, o : o + 1]
            total += each * full
            saving = each * (full - self.moved[:, [o]])
            savings = np.maximum(savings, saving)
        total = total - savings
        timed = self.kinds != SPENT
        if instances > 1:
            total[:, timed] = 0
        else:
            once = self.charges.first_in[i] + self.charges.last_in[i]
            if outward and self.charges.reaches[i - 1, OUTPUT]:
                once = once + self.charges.first_out[i - 1] + self.charges.last_out[i - 1]
            if "output" in node.holds:
                total += self.lattice.elements[-1, OUTPUT] * np.where(timed, once, 0)
        total = total * (1 - 1e-9) - 1
        total[total < 0] *= 1 + 4e-9
        return np.clip(total, -FAR, FAR).astype(np.int64)
