"""What the inner loops of a tile have in common in Pyomo: the statement of ``vector_loop.mzn``.

Every quantity has a binary for each value that it can have, exactly one of which is 1. A quantity that
follows from two others has a variable for each pair of their values. What these add up to, over all values
of the one, is the other's binary: so a pair's variable is 1 where both values are taken, and else 0.
Nonlinear equations then hold by which value each pair leads to. It is for small tiles: pairs are many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from math import prod
from typing import Any

import pyomo.environ as pyo

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop
from tilewright.tiling.dsp.vector_unit import VectorUnit

MOST_PAIRS = 300_000
"""Pairs of values in one equation; more take longer than enumerating the loops would."""

Quantity = dict[Any, Any]
"""The values that a quantity can have, each with what is 1 where it has that value, and else 0."""


def read(m: Any) -> InnerLoop:
    """Return the loop of a solved model."""

    def taken(quantity: Quantity) -> Any:
        return next(value for value, is_one in quantity.items() if pyo.value(is_one) > 0.5)

    unrolled = {d: m.of.get(f"unrolling of {d}") for d in DIMENSIONS}
    n, c, y, x, k = (1 if of_it is None else taken(of_it)[1] for of_it in unrolled.values())
    return InnerLoop(taken(m.of["vector"]), taken(m.of["pipelined"]), (n, c, y, x, k), taken(m.of["taps"]))


def up(number: int, slots: int) -> int:
    """Return a quotient, rounded up."""
    return -(-number // slots)


def times(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """Return the products of input lines along two dimensions: of all, of fresh ones, and for shuffles."""
    return tuple(i * j for i, j in zip(a, b, strict=True))


class VectorLoop:
    """Quantities of a model by name, and the equations between them.

    Attributes
    ----------
    sizes
        Elements of the tile, by dimension.
    vector, pipelined, some, unroll
        The decisions: dimensions of lanes and of the loop, what of the kernel is in the body, and of each
        dimension whether it is in the lanes, with its unrolling.
    body, runs
        Kernel positions in the body; iterations and entries of the loop.
    """

    def __init__(
        self, m: Any, unit: VectorUnit, sizes: dict[str, int], kernel: tuple[int, int], groups: int = 1
    ) -> None:
        self.m, self.unit, self.sizes = m, unit, sizes
        m.of = {}
        self.taps = {"kernel": kernel, "row": (1, kernel[1]), "tap": (1, 1)}
        self.vector = self.one_of("vector", list(sizes))
        self.pipelined = self.one_of("pipelined", list(sizes))
        # One row of a kernel of one row is all of it, and one position of a row of one the row.
        differ = zip(self.taps, (2, *kernel), strict=True)
        self.some = self.one_of("taps", [name for name, along in differ if along > 1])
        self.unroll: dict[str, Quantity] = {}
        trips: Quantity = {(1, 1): 1}
        for d in sizes:
            trips = self._unroll(d, trips)
        around = self.seen(self.some, lambda t: groups * prod(kernel) // prod(self.taps[t]))
        self.runs = self.follow("entries", trips, around, lambda trip, many: (trip[0], trip[1] * many))
        self.body = self.seen(self.some, lambda t: prod(self.taps[t]))

    def _unroll(self, d: str, trips: Quantity) -> Quantity:
        """Decide about a dimension; return iterations and entries of this and earlier ones."""
        states = []
        for lanes_along in (False, True):
            extent = up(self.sizes[d], self.unit.lanes) if lanes_along else self.sizes[d]
            least = {up(extent, u): u for u in range(extent, 0, -1)}
            states += [(lanes_along, u, number) for number, u in least.items()]
        state = self.one_of(f"unrolling of {d}", states)
        vectorised = sum(is_one for (along, *_), is_one in state.items() if along)
        self.m.add_component(
            f"{d} is unrolled as it is vectorised", pyo.Constraint(expr=vectorised == self.vector[d])
        )
        self.unroll[d] = self.seen(state, lambda one: one[:2])
        number = self.seen(state, lambda one: one[2])
        mine = self.follow(
            f"iterations of {d}", self.pipelined, number, lambda p, t: (t, 1) if p == d else (1, t)
        )
        return self.follow(f"iterations up to {d}", trips, mine, times)

    def one_of(self, name: str, values: list[Any]) -> Quantity:
        """Declare a decision: one of some values."""
        choice = pyo.Var(range(len(values)), domain=pyo.Binary)
        self.m.add_component(f"{name} is", choice)
        self.m.add_component(f"{name} is one value", pyo.Constraint(expr=sum(choice.values()) == 1))
        self.m.of[name] = dict(zip(values, choice.values(), strict=True))
        return dict(self.m.of[name])

    def follow(self, name: str, a: Quantity, b: Quantity, value: Callable[[Any, Any], Hashable]) -> Quantity:
        """Declare what follows from two quantities; pairs that lead to None are forbidden."""
        if len(a) * len(b) > MOST_PAIRS:
            limit = f"{name} has {len(a) * len(b):,} pairs of values, the model takes {MOST_PAIRS:,}"
            raise InputError("tile", list(self.sizes.values()), limit)
        pairs = {(i, j): value(i, j) for i in a for j in b}
        allowed = [pair for pair, result in pairs.items() if result is not None]
        both = pyo.Var(range(len(allowed)), bounds=(0, 1))
        self.m.add_component(f"{name} from", both)
        by_a: dict[Any, list[Any]] = {i: [] for i in a}
        by_b: dict[Any, list[Any]] = {j: [] for j in b}
        found: dict[Any, list[Any]] = {}
        for number, (i, j) in enumerate(allowed):
            by_a[i].append(both[number])
            by_b[j].append(both[number])
            found.setdefault(pairs[i, j], []).append(both[number])
        agree = pyo.ConstraintList()
        self.m.add_component(f"{name} agrees with both", agree)
        for given, by in ((a, by_a), (b, by_b)):
            for one, several in by.items():
                agree.add(sum(several) - given[one] == 0)
        return {result: sum(several) for result, several in found.items()}

    def seen(self, quantity: Quantity, value: Callable[[Any], Any]) -> Quantity:
        """Return what follows from one quantity alone."""
        found: dict[Any, Any] = {}
        for each, is_one in quantity.items():
            found[value(each)] = found.get(value(each), 0) + is_one
        return found

    def unrolled(self, d: str) -> Quantity:
        """Return how much of a dimension is in the body."""
        return self.seen(self.unroll[d], lambda one: one[1])

    def product(self, names: str) -> Quantity:
        """Return how much of several dimensions is in the body."""
        found: Quantity = {1: 1}
        for d in names:
            found = self.follow(f"{names} up to {d}", found, self.unrolled(d), lambda i, j: i * j)
        return found

    def along(self, d: str, under: Callable[[str], int], stride: int = 1, dilation: int = 1) -> Quantity:
        """Return input lines of a window along a dimension: all, fresh ones, and as shuffles count them.

        Parameters
        ----------
        under
            Positions of the window in the body, for what of the kernel is in it.
        """
        lanes = min(self.unit.lanes, self.sizes[d])

        def lines(state: tuple[bool, int], taps: str) -> tuple[int, int, int]:
            (vectorised, blocks), wide = state, under(taps)
            if vectorised:  # (C3), (O3)
                loads = up((lanes - 1) * stride + (wide - 1) * dilation + 1, self.unit.lanes) + 1
                return blocks * loads, blocks * loads, blocks * wide * (loads - 1)
            met = {line * stride + tap * dilation for line in range(blocks) for tap in range(wide)}
            before = {line - blocks * stride for line in met}
            return len(met), len(met - before), len(met)

        found = self.follow(f"input lines along {d}", self.unroll[d], self.some, lines)
        # Of a vectorised dimension both counts are the same.
        return self.follow(
            f"fresh lines along {d}",
            found,
            self.pipelined,
            lambda n, p: (n[0], n[1] if p == d else n[0], n[2]),
        )

    def turns(self, chain: int, results: int, slots: int, latency: int) -> int:
        """Return how long a chain of instructions takes on each of some results, (C5) and (O5)."""
        turn = up(results, slots)
        return (chain - 1) * max(turn, latency) + turn - 1 + latency if chain else 0

    def busiest(self, arithmetic: int, loads: int, stores: int, shuffles: int, reads: int) -> int:
        """Return the cycles in which all instructions of an iteration have slots and ports, (C7) and (O6)."""
        unit = self.unit
        return max(
            up(arithmetic, unit.mac_slots),
            up(loads + stores, unit.memory_slots),
            up(shuffles, unit.shuffle_slots),
            up(reads, unit.read_ports),
            up(arithmetic + loads + shuffles, unit.write_ports),
        )

    def once(self, before: int, period: int, latency: int) -> int:
        """Return what a run takes beside an interval for each further iteration, (C9) and (O8)."""
        unit, first = self.unit, up(before, self.unit.memory_slots)
        longest = max(latency, period)
        length = first + 2 * longest - period
        fetched = unit.instruction_cache is not None and length > unit.instruction_cache
        return first + longest + (unit.refill_cycles * length if fetched else 0)

    def minimise(self, run: Quantity, prices: tuple[int, int], ends: Sequence[tuple[int, Any]]) -> None:
        """Minimise what all runs cost, with what ends of a tile do.

        Parameters
        ----------
        run
            Cycles once and in each further iteration, and vector transfers.
        ends
            Costs, each with what is 1 where it is paid.
        """
        cycle, transfer = prices

        def nest(one: tuple[int, int, int, int], trips: tuple[int, int]) -> int:
            (once, period, moved, more), (iterations, entries) = one, trips
            cycles, transfers = once + (iterations - 1) * period, moved + (iterations - 1) * more
            return entries * (cycle * cycles + transfer * transfers)

        total = self.follow("cost of the loops", run, self.runs, nest)
        paid = [*total.items(), *ends]
        self.m.cost = pyo.Objective(expr=sum(value * is_one for value, is_one in paid))
