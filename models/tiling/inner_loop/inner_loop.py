"""The inner loop of one tile of a layer as a linear program in integers: ``inner_loop.mzn`` in Pyomo."""

from __future__ import annotations

from math import prod
from typing import Any

import pyomo.environ as pyo

from tilewright.models.tiling.inner_loop.vector_loop import Quantity, VectorLoop, read, times, up
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, TileWork
from tilewright.tiling.dsp.vector_unit import VectorUnit

__all__ = ["build", "read"]


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
    _LayerLoop(m, unit, work).add_up(prices, first, last)
    return m


class _LayerLoop(VectorLoop):  # type: ignore[misc]  # mypy does not find modules of this folder
    """The equations that are of layers alone."""

    def __init__(self, m: Any, unit: VectorUnit, work: TileWork) -> None:
        super().__init__(m, unit, dict(zip(DIMENSIONS, work.sizes, strict=True)), work.kernel, work.groups)
        self.work, self.kept = work, unit.sums == "kept"
        chain = self.follow("chain", self.unrolled("k"), self.body, lambda i, j: i * j)
        sums, most = self.product("ncyx"), unit.unrolled_macs
        self.macs = self.follow("body", sums, chain, lambda s, w: (s, w) if s * w <= most else None)  # (C2)
        self.operands = self.follow(
            "operands",
            self._inputs(),
            self._weights(chain),
            lambda a, b: (a[0] + b[0], a[1] + b[1], a[2]),
        )
        self.run = self._iterate()

    def _inputs(self) -> Quantity:
        """Count the vectors of inputs of an iteration, fresh ones and shuffles; (C3)."""
        work = self.work
        rows, columns = (
            self.along(
                "yx"[axis], lambda t, axis=axis: self.taps[t][axis], work.stride[axis], work.dilation[axis]
            )
            for axis in range(2)
        )
        plane = self.follow("plane", rows, columns, times)
        found = self.follow("inputs", plane, self.product("nk"), lambda a, n: times(a, (n, n, n)))
        found = self.follow(
            "vectors of inputs",
            found,
            self.vector,
            lambda n, v: (0, 0, 0) if v == "c" else (n[0], n[1], n[2] if v in "yx" else 0),
        )
        return self.follow(
            "fresh inputs", found, self.pipelined, lambda n, p: (n[0], 0 if p == "c" else n[1], n[2])
        )

    def _weights(self, chain: Quantity) -> Quantity:
        """Count the vectors of weights of an iteration, and fresh ones; (C4)."""
        tile = self.follow("weights of the body", self.unrolled("c"), chain, lambda i, j: i * j)
        found = self.follow("vectors of weights", tile, self.vector, lambda n, v: n if v in "ck" else 0)
        return self.follow("fresh weights", found, self.pipelined, lambda n, p: (n, n if p in "ck" else 0))

    def _iterate(self) -> Quantity:
        """Schedule an iteration and the next; (C5) to (C9)."""
        unit = self.unit
        carried = self.seen(self.pipelined, lambda p: p == "k")
        factors = self.seen(self.vector, lambda v: 3 if v == "k" else 2)
        body = self.follow("body and loop", self.macs, carried, lambda b, k: (*b, k))
        body = self.follow("body and lanes", body, factors, lambda b, f: (*b, f))

        def cost(b: tuple[int, int, bool, int], o: tuple[int, int, int]) -> Any:
            (sums, chain, loop_k, factor), (each, fresh, shuffles) = b, o
            kept = self.kept and loop_k
            moved, macs = (0 if kept else sums), sums * chain
            latency = unit.load_latency + (unit.shuffle_latency if shuffles else 0)  # (C5)
            latency += self.turns(chain, sums, unit.mac_slots, unit.mac_latency)
            latency += 0 if kept else unit.store_latency
            again = chain * unit.mac_latency + (0 if kept else unit.load_latency + unit.store_latency)  # (C6)

            def interval(spilled: int) -> int:  # (C7)
                reads = factor * macs + moved + 2 * shuffles
                used = self.busiest(macs, fresh + moved + spilled, moved, shuffles, reads)
                return int(max(again, used) if loop_k else used)

            copies = 1 if loop_k else up(latency, interval(0))
            spilled = max(0, each + sums * copies - unit.registers)  # (C8)
            if spilled > each - fresh:
                return None
            period, stored = interval(spilled), 2 * sums
            once = self.once(each - fresh + (sums if kept else 0), period, latency)  # (C9)
            once += up(sums, unit.memory_slots) + unit.store_latency if kept else 0
            return once, period, each + stored, fresh + spilled + (0 if kept else stored)

        return self.follow("run", body, self.operands, cost)

    def add_up(self, prices: tuple[int, int], first: bool, last: bool) -> None:
        """Minimise what the tile costs; (C10) and (C11)."""
        unit, (cycle, transfer) = self.unit, prices

        def ends(vector: str) -> int:
            wide = [up(n, unit.lanes) if d == vector else n for d, n in self.sizes.items()]
            outputs = self.work.groups * prod(wide[:4])
            biases = self.work.groups * wide[1] if vector == "c" else 0
            steps = (unit.lanes - 1).bit_length() if vector == "k" else 0
            ways = unit.load_latency + unit.store_latency
            begin = up(biases + outputs, unit.memory_slots) + ways  # (C10)
            finish = max(  # (C11)
                up(2 * outputs, unit.memory_slots),
                up((steps + 1) * outputs, unit.mac_slots),
                up(steps * outputs, unit.shuffle_slots),
            )
            finish += ways + steps * unit.shuffle_latency + (steps + 1) * unit.mac_latency
            paid = first * (cycle * begin + transfer * (biases + outputs))
            return int(paid + last * (cycle * finish + transfer * 2 * outputs))

        self.minimise(self.run, prices, [(ends(vector), is_one) for vector, is_one in self.vector.items()])
