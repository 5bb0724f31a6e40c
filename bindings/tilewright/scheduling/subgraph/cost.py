"""The closed form: what a subgraph takes with a granularity, and the granularity that is best for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.scheduling.graph import Graph
from tilewright.scheduling.plan import ORDERS
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.subgraph.structure import Sizes, Structure, SubgraphTable, structure

MOST_SIZES = 12
"""The largest so many sizes of each kind are tried for what moves least."""


class SubgraphCost(NamedTuple):
    """A granularity with what it takes, in the best order of tiles that is known, and what none undercuts."""

    ticks: int
    width: int
    height: int
    depth: int
    least: int


class Traffic(NamedTuple):
    """A granularity with the elements that it moves and the ticks it takes in an order that has a name."""

    moved: int
    ticks: int
    order: int
    granularity: tuple[int, int, int]


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


def _tabulated(graph: Graph, found: Structure) -> SubgraphTable:
    """Return a subgraph as kernels take it."""
    outputs = found.width, found.height, len(found.written), found.sums
    return SubgraphTable(found.slices, found.works, *outputs, graph.unit, graph.per)


def evaluate_granularity(
    graph: Graph, found: Structure, granularity: tuple[int, int, int], order: tuple[int, ...] = ()
) -> list[int]:
    """Return the working set, the ticks of each named order, and those of the order given."""
    from tilewright.scheduling.subgraph.granularities import evaluate  # start-up time

    listed = np.array(order, dtype=np.int64)
    return [int(one) for one in evaluate(_tabulated(graph, found), *granularity, listed)]


def working_set(graph: Graph, found: Structure, granularity: tuple[int, int, int]) -> int:
    """Return the elements of slices and tiles in memory, beside tensors that are kept."""
    return evaluate_granularity(graph, found, granularity)[0]


def ticks(
    graph: Graph, found: Structure, granularity: tuple[int, int, int], order: str | tuple[int, ...]
) -> int:
    """Return what a subgraph takes with a granularity and an order of tiles."""
    if isinstance(order, str):
        return evaluate_granularity(graph, found, granularity)[1 + ORDERS.index(order)]
    return evaluate_granularity(graph, found, granularity, order)[5]


def elements_moved(
    graph: Graph, found: Structure, granularity: tuple[int, int, int], order: str | tuple[int, ...]
) -> int:
    """Return the elements that a subgraph moves: its time if nothing takes any but each of them a tick."""
    from tilewright.scheduling.subgraph.granularities import evaluate  # start-up time

    idle = found.works.copy()
    idle[:, 1] = 0
    table = _tabulated(graph, found)._replace(works=idle, unit=1, per=1)
    listed = np.array(() if isinstance(order, str) else order, dtype=np.int64)
    times = evaluate(table, *granularity, listed)
    return int(times[1 + ORDERS.index(order) if isinstance(order, str) else 5])


def least_traffic(graph: Graph, ops: Iterable[int], found: Structure, room: int, most: int) -> Traffic | None:
    """Return what moves least of large granularities that have room and take no more ticks, or None."""
    from tilewright.scheduling.subgraph import granularities  # start-up time

    sizes = _sizes(graph, ops, found)
    largest = sizes._replace(ws=sizes.ws[:MOST_SIZES], hs=sizes.hs[:MOST_SIZES], ks=sizes.ks[:MOST_SIZES])
    elements, takes, _, order, *size = granularities.least_traffic(
        _tabulated(graph, found), largest, room, most
    ).tolist()
    return None if elements < 0 else Traffic(elements, takes, order, tuple(size))


def _sizes(graph: Graph, ops: Iterable[int], found: Structure) -> Sizes:
    """Return widths, heights and depths to choose from."""
    width, height = graph.native_granularity
    deepest = deepest_step(graph, found)
    return Sizes(
        np.array(sizes(found.width, width, found.least_width)),
        np.array(sizes(found.height, height, found.least_height)),
        np.array(depths(graph, ops, deepest)),
        np.array([width, height, deepest]),
    )


def best_order(graph: Graph, found: Structure, granularity: tuple[int, int, int]) -> str | tuple[int, ...]:
    """Return the order of tiles that takes as long as `Pricer` says: one that has a name, if there is any."""
    from tilewright.scheduling.subgraph import granularities  # start-up time

    w, h, _ = granularity
    named = evaluate_granularity(graph, found, granularity)[1:5]
    rows, columns = -(-found.height // h), -(-found.width // w)
    if rows * columns > granularities.MOST_LISTED:
        return ORDERS[named.index(min(named))]
    subgraph = _tabulated(graph, found)
    if rows * columns <= granularities.MOST_TRIED:
        tour = granularities.best_tour(subgraph, *granularity)
        return ORDERS[named.index(tour[0])] if tour[0] in named else tuple(tour[1:].tolist())
    by_row, by_column = (
        granularities.best_lines(subgraph, *granularity, by_column) for by_column in (False, True)
    )
    least = min(by_row[0, 0], by_column[0, 0])
    if min(named) <= least:
        return ORDERS[named.index(min(named))]
    if by_row[0, 0] == least:
        return tuple(row * columns + column for row, column in _tiles(by_row, rows, columns))
    return tuple(row * columns + column for column, row in _tiles(by_column, columns, rows))


def _tiles(found: NDArray[np.int64], lines: int, tiles: int) -> Iterator[tuple[int, int]]:
    """Yield the lines and tiles of the order that `granularities.best_lines` tells."""
    (_, odd, _), *walk = found.tolist()
    alike = range(tiles - odd)
    ordinary, before = iter(range(lines)), 0
    for last, enters, leaves in walk:
        line = lines - 1 if last else next(ordinary)
        first = tiles - 1 if enters else before if before in alike else 0
        end = tiles - 1 if leaves else alike[-1] if first != alike[-1] else 0
        between = [tile for tile in range(tiles) if tile not in (first, end)]
        for tile in dict.fromkeys((first, *(between if first <= end else between[::-1]), end)):
            yield line, tile
        before = end


class Pricer:
    """What subgraphs of a problem take, remembered: also for others that are built alike."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self._structures: dict[Any, Structure | str] = {}
        self._choices: dict[Any, SubgraphCost | None] = {}
        self._alike: dict[Any, SubgraphCost | None] = {}

    def structure(
        self,
        ops: frozenset[int],
        resident: frozenset[int] = frozenset(),
        retained: frozenset[int] = frozenset(),
    ) -> Structure | str:
        """Return what a subgraph needs, or why there is none."""
        key = ops, resident, retained
        if key not in self._structures:
            self._structures[key] = structure(self.problem, ops, resident, retained)
        return self._structures[key]

    def best(
        self,
        ops: frozenset[int],
        resident: frozenset[int] = frozenset(),
        retained: frozenset[int] = frozenset(),
    ) -> SubgraphCost | None:
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

    def best_of(
        self,
        ops: frozenset[int],
        resident: frozenset[int],
        retained: frozenset[int],
        given: tuple[int | None, int | None, int | None],
    ) -> SubgraphCost | None:
        """Return the same as `best` where width, height or depth are given."""
        from tilewright.scheduling.subgraph.granularities import best_granularity  # start-up time
        from tilewright.scheduling.subgraph.tile_orders import INFEASIBLE

        found = self.structure(ops, resident, retained)
        room = self.graph.fast_memory_capacity - self.kept(resident, retained)
        if isinstance(found, str) or room < 0:
            return None
        every = _sizes(self.graph, ops, found)
        sides = [side if one is None else np.array([one]) for side, one in zip(every, given, strict=False)]
        most = [every.most[axis] if one is None else one for axis, one in enumerate(given)]
        takes, w, h, k, least = best_granularity(
            _tabulated(self.graph, found),
            Sizes(sides[0], sides[1], sides[2], np.array(most)),
            room,
            INFEASIBLE,
        )
        return None if w < 0 else SubgraphCost(int(takes), int(w), int(h), int(k), int(least))

    def fastest(self, ops: frozenset[int], found: Structure, room: int) -> SubgraphCost | None:
        """Return the fastest granularity for which slices and tiles have room; None where nothing fits."""
        same = _signature(found, room)
        if same not in self._alike:
            choice = self._fastest(ops, found, room)
            self._alike[same] = None if choice is None or choice.width < 0 else choice
        return self._alike[same]

    def least(self, ops: frozenset[int], found: Structure, room: int, below: int) -> int | None:
        """Return ticks that no granularity undercuts, or `below` where none is faster; None where none fits.

        The lower `below` is, the less time this takes; with it, not all is tried to find that none fits.
        """
        same = _signature(found, room)
        if same not in self._alike:
            choice = self._fastest(ops, found, room, below)
            if choice is None or choice.width < 0:
                return below if choice is None else choice.least
            self._alike[same] = choice
        known = self._alike[same]
        return None if known is None else min(known.least, below)

    def kept(self, resident: Iterable[int], retained: Iterable[int]) -> int:
        """Return the elements of tensors that are in memory as a whole."""
        return sum(self.graph.elements(tensor) for tensor in {*resident, *retained})

    def _fastest(
        self, ops: frozenset[int], found: Structure, room: int, below: int | None = None
    ) -> SubgraphCost | None:
        from tilewright.scheduling.subgraph.granularities import best_granularity  # start-up time
        from tilewright.scheduling.subgraph.tile_orders import INFEASIBLE

        if room < 0:
            return None
        known = INFEASIBLE if below is None else below
        takes, w, h, k, least = best_granularity(
            _tabulated(self.graph, found), _sizes(self.graph, ops, found), room, known
        )
        return (
            None if w < 0 and least == known else SubgraphCost(int(takes), int(w), int(h), int(k), int(least))
        )


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
        found.sums,
        found.least_width,
        found.least_height,
        found.shallowest,
    )
