"""What is still to be spent in any case, whatever plan is followed.

With second buffers, bus and core work beside each other, but not for all: weights that are kept are loaded
before the first pass, and of weights in blocks the first block is. So an operation takes what it computes and
the time to load its weights, or at least the time of its blocks one after the other.
"""

from __future__ import annotations

from typing import NamedTuple

from tilewright.residency.cost import Prices, Spent
from tilewright.residency.graph import Graph, Operation, members
from tilewright.residency.shapes.groups import pass_sizes
from tilewright.simulator.arithmetic.pixel_arithmetic import Work


class LeftOver(NamedTuple):
    """What no plan is without.

    Attributes
    ----------
    moved
        Elements.
    alone
        Time of operations with their weights, in which nothing else is moved.
    """

    moved: int
    work: Work
    transfers: int
    alone: int


class Remaining:
    """What is still to be spent, by what has been executed.

    Parameters
    ----------
    doubled
        Whether steps may have second buffers.
    """

    def __init__(self, graph: Graph, prices: Prices, doubled: bool) -> None:
        self.graph, self.prices, self.doubled = graph, prices, doubled
        operations = graph.numbers(graph.all & ~graph.begin)
        self._alone = {op.number: self._time_of(op) for op in operations}
        self._left: dict[int, LeftOver] = {}

    def _time_of(self, operation: Operation) -> int:
        """Return the time that an operation takes at least with its weights, whatever else is moved."""
        prices, units = self.prices, operation.units
        if prices.core_time is not None:
            return prices.core_time.least(self.graph, operation)
        core = prices.core(self.graph.least_work(operation.number))
        together = core + prices.transfer(operation.weights)
        if not self.doubled or units == 1:
            return together
        each, one = core // units, prices.transfer(-(-operation.weights // units))
        return min([together, *(_blocks(units, size, each, one) for size in pass_sizes(units))])

    def alone(self, mask: int) -> int:
        """Return the time that some operations take at least with their weights."""
        return sum(self._alone[number] for number in members(mask))

    def left(self, done: int) -> LeftOver:
        """Return what is left for operations that have not been executed, but for what they read."""
        known = self._left.get(done)
        if known is None:
            moved = transfers = alone = 0
            work = Work()
            for operation in self.graph.numbers(self.graph.all & ~done):
                size = self.graph.tensors[operation.number + 1].size
                work = work.plus(self.graph.least_work(operation.number))
                alone += self._alone[operation.number]
                moved += operation.weights
                transfers += bool(operation.weights)
                if operation.op.leaves:
                    moved += size
                    transfers += 1
            known = self._left[done] = LeftOver(moved, work, transfers, alone)
        return known

    def least(self, done: int, to_load: int, more: int = 0) -> Spent:
        """Return what is still to be spent at least.

        Parameters
        ----------
        done
            Bit mask of the operations that have been executed.
        to_load
            Bit mask of tensors that are in DRAM alone; those that are still to be read count.
        more
            Elements that are moved besides in any case.
        """
        graph, prices = self.graph, self.prices
        moved, work, transfers, alone = self.left(done)
        moved += more
        for tensor in members(to_load):
            if graph.readers[tensor] & ~done:
                moved += graph.still_needed(tensor, done)
                transfers += 1
        if prices.core_time is not None:
            return prices.of_core(moved, alone + prices.core_time.of_counts({"moved": moved}), work.macs)
        time = max(alone, prices.transfer(moved)) if self.doubled else None
        return prices.spent(moved, work, transfers, time)


def _blocks(units: int, size: int, core: int, load: int) -> int:
    """Return the time of blocks of output channels, the next one loaded while one is computed.

    Parameters
    ----------
    core, load
        Of an output channel.
    """
    count = -(-units // size)
    last = units - (count - 1) * size
    if count == 1:
        return units * (core + load)
    between = (count - 2) * max(size * core, size * load) + max(size * core, last * load)
    return size * load + between + last * core
