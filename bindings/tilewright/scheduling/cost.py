"""The closed form: what a subgraph takes with a granularity, and the granularity that is best for it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tilewright.scheduling.graph import Graph
from tilewright.scheduling.plan import ORDERS
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.structure import Structure, structure


class Choice(NamedTuple):
    """A granularity and an order of tiles, with what they take."""

    ticks: int
    width: int
    height: int
    depth: int
    order: str


@lru_cache(maxsize=4096)
def sizes(whole: int, most: int, least: int = 1) -> tuple[int, ...]:
    """Return the least size for each number of parts of a whole, from `least` to `most`, descending."""
    first = -(-whole // most)
    parts = np.arange(first, whole + 1)
    return tuple(sorted({max(int(one), least) for one in np.unique(-(-whole // parts))}, reverse=True))


def depths(graph: Graph, ops: Iterable[int], most: int) -> tuple[int, ...]:
    """Return depths of a step to choose from, descending: of each MatMul the least for a number of steps."""
    wholes = {graph.depth(op) for op in ops} - {0}
    found = {one for whole in wholes for one in sizes(whole, most) if one <= most}
    return tuple(sorted(found, reverse=True)) or (1,)


def deepest_step(graph: Graph, found: Structure) -> int:
    """Return the most products that a step may add up: the machine's, and those of each MatMul."""
    return min(graph.native_depth, found.shallowest) if found.shallowest else graph.native_depth


def evaluated(
    graph: Graph, found: Structure, granularity: tuple[int, int, int], order: tuple[int, ...] = ()
) -> list[int]:
    """Return the working set, the ticks of each named order, a bound on all, and those of the order given."""
    from tilewright.scheduling import kernels  # start-up time

    sizes_of = found.width, found.height, len(found.written), *granularity, graph.unit, graph.per
    times = kernels.evaluate(found.slices, found.works, *sizes_of, np.array(order, dtype=np.int64))
    return [int(one) for one in times]


def working_set(graph: Graph, found: Structure, granularity: tuple[int, int, int]) -> int:
    """Return the elements of slices and tiles in memory, beside tensors that are kept."""
    return evaluated(graph, found, granularity)[0]


def ticks(
    graph: Graph, found: Structure, granularity: tuple[int, int, int], order: str | tuple[int, ...]
) -> int:
    """Return what a subgraph takes with a granularity and an order of tiles."""
    if isinstance(order, str):
        return evaluated(graph, found, granularity)[1 + ORDERS.index(order)]
    return evaluated(graph, found, granularity, order)[6]


class Pricer:
    """What subgraphs of a problem take, remembered: also for others that are built alike."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self._structures: dict[Any, Structure | str] = {}
        self._choices: dict[Any, Choice | None] = {}
        self._alike: dict[Any, Choice | None] = {}

    def structure(
        self,
        ops: frozenset[int],
        resident: frozenset[int] = frozenset(),
        retained: frozenset[int] = frozenset(),
    ) -> Structure | str:
        """Return what a subgraph needs, or why there is none."""
        key = ops, resident, retained
        if key not in self._structures:
            self._structures[key] = structure(self.graph, ops, resident, retained)
        return self._structures[key]

    def best(
        self,
        ops: frozenset[int],
        resident: frozenset[int] = frozenset(),
        retained: frozenset[int] = frozenset(),
    ) -> Choice | None:
        """Return the fastest granularity and order of tiles for a subgraph; None where nothing fits.

        Parameters
        ----------
        resident
            All that the subgraph before has kept, read here or not.
        retained
            What this one keeps.
        """
        key = ops, resident, retained
        if key in self._choices:
            return self._choices[key]
        found = self.structure(*key)
        choice = None
        if not isinstance(found, str):
            choice = self.fastest(ops, found, self.graph.fast_memory_capacity - self.kept(resident, retained))
        self._choices[key] = choice
        return choice

    def fastest(self, ops: frozenset[int], found: Structure, room: int) -> Choice | None:
        """Return the fastest granularity for which slices and tiles have room; None where nothing fits."""
        same = _signature(found, room)
        if same not in self._alike:
            self._alike[same] = self._fastest(ops, found, room)
        return self._alike[same]

    def least(self, ops: frozenset[int], found: Structure, room: int, below: int) -> int | None:
        """Return the ticks of the fastest granularity, or `below` where none is faster; None where none fits.

        The lower `below` is, the less time this takes; with it, not all is tried to find that none fits.
        """
        same = _signature(found, room)
        if same not in self._alike:
            choice = self._fastest(ops, found, room, below)
            if choice is None:
                return below
            self._alike[same] = choice
        known = self._alike[same]
        return None if known is None else min(known.ticks, below)

    def kept(self, resident: Iterable[int], retained: Iterable[int]) -> int:
        """Return the elements of tensors that are in memory as a whole."""
        return sum(self.graph.elements(tensor) for tensor in {*resident, *retained})

    def _fastest(
        self, ops: frozenset[int], found: Structure, room: int, below: int | None = None
    ) -> Choice | None:
        from tilewright.scheduling import kernels  # start-up time

        graph = self.graph
        if room <= 0:
            return None
        native_width, native_height = graph.native_granularity
        ticks, w, h, k, order = kernels.best_granularity(
            found.slices,
            found.works,
            found.width,
            found.height,
            len(found.written),
            room,
            np.array(sizes(found.width, native_width, found.least_width)),
            np.array(sizes(found.height, native_height, found.least_height)),
            np.array(depths(graph, ops, deepest_step(graph, found))),
            graph.unit,
            graph.per,
            kernels.INFEASIBLE if below is None else below,
        )
        if w < 0:
            return None
        return Choice(int(ticks), int(w), int(h), int(k), ORDERS[order])


def _signature(found: Structure, room: int) -> Any:
    """Return what all subgraphs that cost the same have in common."""
    needs: dict[int, list[tuple[int, ...]]] = {}
    for tensor, *slice_ in found.slices.tolist():
        needs.setdefault(tensor, []).append(tuple(slice_))
    return (
        room,
        tuple(sorted(map(tuple, needs.values()))),
        found.works.tobytes(),
        found.width,
        found.height,
        len(found.written),
        found.least_width,
        found.least_height,
        found.shallowest,
    )
