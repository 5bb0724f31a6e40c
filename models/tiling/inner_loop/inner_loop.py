"""The inner loop of one tile as a linear program in integers: the statement of ``inner_loop.mzn`` in Pyomo.

Every quantity has a binary for each value that it can have, exactly one of which is 1. A quantity that
follows from two others has a variable for each pair of their values. What these add up to, over all values
of the one, is the other's binary: so a pair's variable is 1 where both values are taken, and else 0.
Nonlinear equations then hold by which value each pair leads to. It is for small tiles: pairs are many.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from math import prod
from typing import Any

import pyomo.environ as pyo

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop, TileWork
from tilewright.tiling.dsp.vector_unit import VectorUnit

MOST_PAIRS = 300_000
"""Pairs of values in one equation; more take longer than enumerating the loops would."""

Quantity = dict[Any, Any]
"""The values that a quantity can have, each with what is 1 where it has that value, and else 0."""


def build(
    unit: VectorUnit,
    work: TileWork,
    prices: tuple[int, int] = (1, 0),
    *,
    first: bool = True,
    last: bool = True,
) -> Any:
    """Return the model of a tile's inner loop.

    Parameters
    ----------
    prices
        Of a cycle and of a vector transfer.
    first, last
        Whether the tile has the first and the last input maps of its outputs.

    Raises
    ------
    InputError
        For tiles whose quantities have too many values.
    """
    m: Any = pyo.ConcreteModel(name="inner_loop")
    model = _Model(m, unit, work)
    model.choose()
    model.read_operands()
    model.repeat()
    model.add_up(prices, first, last)
    return m


def read(m: Any) -> InnerLoop:
    """Return the loop of a solved model."""

    def taken(quantity: Quantity) -> Any:
        return next(value for value, is_one in quantity.items() if pyo.value(is_one) > 0.5)

    n, c, y, x, k = (taken(m.of[f"unrolling of {d}"])[1] for d in DIMENSIONS)
    return InnerLoop(taken(m.of["vector"]), taken(m.of["pipelined"]), (n, c, y, x, k), taken(m.of["taps"]))


def _up(number: int, slots: int) -> int:
    return -(-number // slots)


class _Model:
    """Quantities of a model by name, and the equations between them."""

    def __init__(self, m: Any, unit: VectorUnit, work: TileWork) -> None:
        self.m, self.unit, self.work = m, unit, work
        m.of = {}
        rows, columns = work.kernel
        self.taps = {"kernel": (rows, columns), "row": (1, columns), "tap": (1, 1)}
        self.kept = unit.sums == "kept"

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
            raise InputError("tile", list(self.work.sizes), limit)
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

    def choose(self) -> None:
        """Decide; (C1) and (C2)."""
        lanes, m = self.unit.lanes, self.m
        self.vector = self.one_of("vector", list(DIMENSIONS))
        self.pipelined = self.one_of("pipelined", list(DIMENSIONS))
        # One row of a kernel of one row is all of it, and one position of a row of one the row.
        differ = zip(self.taps, (2, *self.work.kernel), strict=True)
        self.some = self.one_of("taps", [name for name, along in differ if along > 1])
        self.unroll: dict[str, Quantity] = {}
        trips: Quantity = {(1, 1): 1}
        for d, size in zip(DIMENSIONS, self.work.sizes, strict=True):
            states = []
            for lanes_along in (False, True):
                extent = _up(size, lanes) if lanes_along else size
                least = {_up(extent, u): u for u in range(extent, 0, -1)}
                states += [(lanes_along, u, number) for number, u in least.items()]
            state = self.one_of(f"unrolling of {d}", states)
            vectorised = sum(is_one for (along, *_), is_one in state.items() if along)
            m.add_component(
                f"{d} is unrolled as it is vectorised", pyo.Constraint(expr=vectorised == self.vector[d])
            )
            self.unroll[d] = self.seen(state, lambda one: one[:2])
            number = self.seen(state, lambda one: one[2])

            def apart(p: str, t: int, d: str = d) -> tuple[int, int]:
                """Return iterations of the pipelined loop, and entries."""
                return (t, 1) if p == d else (1, t)

            mine = self.follow(f"iterations of {d}", self.pipelined, number, apart)
            trips = self.follow(
                f"iterations up to {d}",
                trips,
                mine,
                lambda done, more: (done[0] * more[0], done[1] * more[1]),
            )
        positions = prod(self.work.kernel)
        around = self.seen(self.some, lambda t: self.work.groups * positions // prod(self.taps[t]))
        self.runs = self.follow("entries", trips, around, lambda trip, times: (trip[0], trip[1] * times))
        body = self.seen(self.some, lambda t: prod(self.taps[t]))
        u = {d: self.seen(self.unroll[d], lambda one: one[1]) for d in DIMENSIONS}
        self.tile_nk = self.follow("images and input maps", u["n"], u["k"], lambda i, j: i * j)
        self.chain = self.follow("chain", u["k"], body, lambda i, j: i * j)
        self.weight_tile = self.follow("weights of the body", u["c"], self.chain, lambda i, j: i * j)
        some = self.follow("sums of rows", u["n"], u["c"], lambda i, j: i * j)
        some = self.follow("sums of columns", some, u["y"], lambda i, j: i * j)
        self.sums = self.follow("sums", some, u["x"], lambda i, j: i * j)
        most = self.unit.unrolled_macs
        self.body = self.follow("body", self.sums, self.chain, lambda s, w: (s, w) if s * w <= most else None)

    def _along(self, axis: int) -> Quantity:
        """Return input lines along rows or columns: all, fresh ones, and as shuffles count them."""
        unit, work, name = self.unit, self.work, "yx"[axis]
        stride, dilation = work.stride[axis], work.dilation[axis]

        def lines(state: tuple[bool, int], taps: str) -> tuple[int, int, int]:
            (vectorised, blocks), along = state, self.taps[taps][axis]
            if vectorised:  # (C3)
                lanes = min(unit.lanes, work.sizes[2 + axis])
                loads = _up((lanes - 1) * stride + (along - 1) * dilation + 1, unit.lanes) + 1
                return blocks * loads, blocks * loads, blocks * along * (loads - 1)
            met = {line * stride + tap * dilation for line in range(blocks) for tap in range(along)}
            before = {line - blocks * stride for line in met}
            return len(met), len(met - before), len(met)

        found = self.follow(f"input lines along {name}", self.unroll[name], self.some, lines)
        # Of a vectorised axis both counts are the same.
        return self.follow(
            f"fresh lines along {name}",
            found,
            self.pipelined,
            lambda n, p: (n[0], n[1] if p == name else n[0], n[2]),
        )

    def read_operands(self) -> None:
        """Count the vectors of an iteration, fresh ones and shuffles; (C3) and (C4)."""

        def times(a: Any, b: Any) -> tuple[int, int, int]:
            return a[0] * b[0], a[1] * b[1], a[2] * b[2]

        plane = self.follow("plane", self._along(0), self._along(1), times)
        inputs = self.follow("inputs", plane, self.tile_nk, lambda a, n: times(a, (n, n, n)))
        inputs = self.follow(
            "vectors of inputs",
            inputs,
            self.vector,
            lambda n, v: (0, 0, 0) if v == "c" else (n[0], n[1], n[2] if v in "yx" else 0),
        )
        inputs = self.follow(
            "fresh inputs", inputs, self.pipelined, lambda n, p: (n[0], 0 if p == "c" else n[1], n[2])
        )
        weights = self.follow(
            "vectors of weights", self.weight_tile, self.vector, lambda n, v: n if v in "ck" else 0
        )
        weights = self.follow(
            "fresh weights", weights, self.pipelined, lambda n, p: (n, n if p in "ck" else 0)
        )
        self.operands = self.follow(
            "operands", inputs, weights, lambda a, b: (a[0] + b[0], a[1] + b[1], a[2])
        )

    def repeat(self) -> None:
        """Schedule an iteration and the next; (C5) to (C8)."""
        unit = self.unit
        carried = self.seen(self.pipelined, lambda p: p == "k")
        factors = self.seen(self.vector, lambda v: 3 if v == "k" else 2)
        body = self.follow("body and loop", self.body, carried, lambda b, k: (*b, k))
        body = self.follow("body and lanes", body, factors, lambda b, f: (*b, f))

        def cost(b: tuple[int, int, bool, int], o: tuple[int, int, int]) -> Any:
            (sums, chain, loop_k, factor), (each, fresh, shuffles) = b, o
            kept = self.kept and loop_k
            moved, macs, turn = (0 if kept else sums), sums * chain, _up(sums, unit.mac_slots)
            latency = unit.load_latency + (unit.shuffle_latency if shuffles else 0)  # (C5)
            latency += (chain - 1) * max(turn, unit.mac_latency) + turn - 1 + unit.mac_latency
            latency += 0 if kept else unit.store_latency
            again = chain * unit.mac_latency + (0 if kept else unit.load_latency + unit.store_latency)  # (C6)

            def interval(spilled: int) -> int:  # (C7)
                loads = fresh + moved + spilled
                return max(
                    again if loop_k else 0,
                    _up(macs, unit.mac_slots),
                    _up(loads + moved, unit.memory_slots),
                    _up(shuffles, unit.shuffle_slots),
                    _up(factor * macs + moved + 2 * shuffles, unit.read_ports),
                    _up(macs + loads + shuffles, unit.write_ports),
                )

            copies = 1 if loop_k else _up(latency, interval(0))
            spilled = max(0, each + sums * copies - unit.registers)  # (C8)
            if spilled > each - fresh:
                return None
            before = each - fresh + (sums if kept else 0)
            after = _up(sums, unit.memory_slots) + unit.store_latency if kept else 0
            period, stored = interval(spilled), 2 * sums
            # What a run takes once, and in each further iteration; the same of its vector transfers.
            once = _up(before, unit.memory_slots) + max(latency, period) + after
            length = _up(before, unit.memory_slots) + 2 * max(latency, period) - period
            if unit.instruction_cache is not None and length > unit.instruction_cache:
                once += unit.refill_cycles * length
            moves = each + stored, fresh + spilled + (0 if kept else stored)
            return once, period, *moves

        self.run = self.follow("run", body, self.operands, cost)

    def add_up(self, prices: tuple[int, int], first: bool, last: bool) -> None:
        """Minimise what the tile costs; (C9) to (C11)."""
        unit, (cycle, transfer) = self.unit, prices

        def nest(run: tuple[int, int, int, int], trips: tuple[int, int]) -> int:
            (once, period, moved, more), (iterations, entries) = run, trips
            cycles, transfers = once + (iterations - 1) * period, moved + (iterations - 1) * more  # (C9)
            return entries * (cycle * cycles + transfer * transfers)

        def ends(vector: str) -> int:
            wide = [
                _up(n, unit.lanes) if d == vector else n
                for d, n in zip(DIMENSIONS, self.work.sizes, strict=True)
            ]
            outputs = self.work.groups * prod(wide[:4])
            biases = self.work.groups * wide[1] if vector == "c" else 0
            steps = (unit.lanes - 1).bit_length() if vector == "k" else 0
            ways = unit.load_latency + unit.store_latency
            begin = _up(biases + outputs, unit.memory_slots) + ways  # (C10)
            finish = max(  # (C11)
                _up(2 * outputs, unit.memory_slots),
                _up((steps + 1) * outputs, unit.mac_slots),
                _up(steps * outputs, unit.shuffle_slots),
            )
            finish += ways + steps * unit.shuffle_latency + (steps + 1) * unit.mac_latency
            paid = first * (cycle * begin + transfer * (biases + outputs))
            return paid + last * (cycle * finish + transfer * 2 * outputs)

        total = self.follow("cost of the loops", self.run, self.runs, nest)
        cost = sum(value * is_one for value, is_one in total.items())
        cost += sum(ends(vector) * is_one for vector, is_one in self.vector.items())
        self.m.cost = pyo.Objective(expr=cost)
