"""The inner loop of one tile of an operation between layers: ``operation_loop.mzn`` in Pyomo."""

from __future__ import annotations

from math import prod
from typing import Any

import pyomo.environ as pyo

from tilewright.models.tiling.inner_loop.vector_loop import Quantity, VectorLoop, read, times, up
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.vector_loop import AXES, TABLE, VectorWork

__all__ = ["build", "read"]


def build(
    unit: VectorUnit, work: VectorWork, tile: tuple[int, int, int], prices: tuple[int, int] = (1, 0)
) -> Any:
    """Return the model of a tile's inner loop.

    Parameters
    ----------
    tile
        Maps, rows and columns of its results.
    prices
        Of a cycle and of a vector transfer.

    Raises
    ------
    InputError
        For tiles whose quantities have too many values.
    """
    m: Any = pyo.ConcreteModel(name="operation_loop")
    _OperationLoop(m, unit, work, tile).add_up(prices)
    return m


class _OperationLoop(VectorLoop):  # type: ignore[misc]  # mypy does not find modules of this folder
    """The equations that are of operations alone."""

    def __init__(self, m: Any, unit: VectorUnit, work: VectorWork, tile: tuple[int, int, int]) -> None:
        super().__init__(m, unit, dict(zip(AXES, tile, strict=True)), work.kernel)
        self.work = work
        self.pieces = up(TABLE, unit.lanes) if work.lookup else 0  # (O4)
        self.looks = max(1, self.pieces - 1) if work.lookup else 0
        self.operands = self._operands()
        self.run = self._iterate()

    def _parts(self, taps: str) -> bool:
        """Whether a result is combined in parts."""
        return bool(prod(self.taps[taps]) < prod(self.work.kernel))

    def _chain(self, taps: str) -> int:
        """Return the instructions in a row on a result, before a table."""
        work, positions = self.work, int(prod(self.taps[taps]))
        if not work.pool:
            return (work.across if work.across else work.operands - 1) + work.arithmetic
        return positions if self._parts(taps) else positions - 1 + work.arithmetic

    def _operands(self) -> Quantity:
        """Count the vectors that an iteration reads, fresh ones and shuffles; (O3) and (O4)."""
        work = self.work
        found: Quantity = {(work.operands, work.operands, work.operands): 1}
        shuffling = ""  # dimensions along which elements are shuffled where they are the lanes
        for axis, d in enumerate(AXES):
            stride = 1 if d == "c" else work.stride[axis - 1]
            wide = max(1, work.across) if d == "c" else work.kernel[axis - 1]
            if (wide, stride) == (1, 1):
                lines = self.seen(self.unrolled(d), lambda u: (u, u, u))
            else:
                shuffling += d

                def under(taps: str, axis: int = axis, wide: int = wide) -> int:
                    return self.taps[taps][axis - 1] if axis else wide

                lines = self.along(d, under, stride)
            found = self.follow(f"inputs up to {d}", found, lines, times)
        inputs = self.follow(
            "shuffles", found, self.vector, lambda n, v: (*n[:2], n[2] if v in shuffling else 0)
        )
        numbers = self.follow(
            "numbers", self.unrolled("c"), self.vector, lambda u, v: work.of_maps * u if v == "c" else 0
        )
        numbers = self.follow(
            "fresh numbers", numbers, self.pipelined, lambda n, p: (n, n if p == "c" else 0)
        )
        return self.follow(
            "operands", inputs, numbers, lambda a, b: (a[0] + b[0] + self.pieces, a[1] + b[1], a[2])
        )

    def _iterate(self) -> Quantity:
        """Schedule an iteration and the next; (O2) and (O5) to (O8)."""
        unit, after, most = self.unit, self.work.after, self.unit.unrolled_macs
        chains = self.seen(self.some, lambda t: (self._chain(t), self._parts(t)))
        body = self.follow(
            "body",
            self.product(AXES),
            chains,
            lambda n, c: (n, *c) if max(1, c[0] + after) * n <= most else None,
        )

        def cost(b: tuple[int, int, bool], o: tuple[int, int, int]) -> Any:
            (results, chain, parts), (each, fresh, shuffles) = b, o
            room = (unit.registers - each) // results
            if room < 1:
                return None
            latency = unit.load_latency + (unit.shuffle_latency if shuffles else 0)  # (O5)
            latency += self.turns(chain, results, unit.mac_slots, unit.mac_latency)
            latency += self.turns(self.looks, results, unit.shuffle_slots, unit.shuffle_latency)
            latency += self.turns(after, results, unit.mac_slots, unit.mac_latency) + unit.store_latency
            does, shuffled = results * (chain + after), shuffles + results * self.looks
            loads = fresh + (results if parts else 0)
            used = self.busiest(does, loads, results, shuffled, 2 * (does + shuffled) + results)  # (O6)
            period = max(used, up(latency, room))  # (O7)
            once = self.once(each - fresh, period, latency)  # (O8)
            return once, period, each - fresh + loads + results, loads + results

        return self.follow("run", body, self.operands, cost)

    def add_up(self, prices: tuple[int, int]) -> None:
        """Minimise what the tile costs; (O9)."""
        unit, (cycle, transfer) = self.unit, prices

        def ends(vector: str, taps: str) -> int:
            if not self._parts(taps):
                return 0
            outputs = prod(up(n, unit.lanes) if d == vector else n for d, n in self.sizes.items())
            cycles, transfers = up(outputs, unit.memory_slots) + unit.store_latency, outputs
            if self.work.ends:
                cycles += max(up(2 * outputs, unit.memory_slots), up(outputs, unit.mac_slots))
                cycles += unit.load_latency + unit.mac_latency + unit.store_latency
                transfers += 2 * outputs
            return int(cycle * cycles + transfer * transfers)

        self.minimise(self.run, prices, list(self.follow("ends", self.vector, self.some, ends).items()))
