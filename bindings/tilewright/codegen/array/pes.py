"""The program of a PE: algorithm 3 for its filters, maps and rows."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.codegen.array.loops import loop_words, share
from tilewright.codegen.array.parts import LayerWork, Part
from tilewright.codegen.array.timing import Timing
from tilewright.codegen.array.words import OPERATIONS, WHEN, Record, record
from tilewright.simulator.arithmetic.fixed_point import Integers
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation

SLOTS = {"CONV": "mac", "MAX_POOL": "max", "AVERAGE_POOL": "add", "ADD": "add", "COPY": "add"}
"""What the functional units do for each kind of operation."""


class PeProgram:
    """The program of a PE for a layer.

    Parameters
    ----------
    sum_bits
        Of the accumulators of all PEs.

    Attributes
    ----------
    biases, weights
        What lies in the PE: of its filters, in their order, and its maps.
    """

    def __init__(
        self, timing: Timing, work: LayerWork, part: Part, operation: IntegerOperation, sum_bits: int
    ) -> None:
        self._timing, self._work, self._part, self._operation = timing, work, part, operation
        self._sum_bits = sum_bits
        self.biases = self.weights = np.zeros(0, dtype=np.int64)
        if work.divides_filters:
            task, split = work.stage.task, work.split
            kernels = operation.kernels.reshape(task.filters, task.maps, -1)
            self.weights = kernels[part.filters :: split.filters, part.maps :: split.maps].ravel()
            if operation.biases is not None and part.holds:
                self.biases = operation.biases[part.filters :: split.filters]

    @property
    def parameters(self) -> tuple[Integers, Integers]:
        """Biases and weights."""
        return self.biases, self.weights

    def records(self) -> Iterator[Record]:
        """Yield all records of the program."""
        work, part, number = self._work, self._part, self._work.stage.number
        start = self._timing.program_start(work, part)
        head = {"row": part.pe[0], "column": part.pe[1], "layer": number, "start": start}
        yield record("program", head)
        yield record("loops", work.loops)
        yield share(work, part)
        yield record("strides", self._strides())
        yield record("result", self._result())
        yield record("ports", self._timing.streams.ports(number, part.pe))
        receive = "each" if work.groups > 1 else "first"
        yield from loop_words(self._timing, work, receive, self._units())

    def _strides(self) -> dict[str, int]:
        work, split = self._work, self._work.split
        if not work.divides_filters:
            return {"sum_n": split.unit_maps}
        taps = work.loops["k1"] * work.loops["k2"]
        return {
            "weight_m": split.unit_filters * self._part.map_count * taps,
            "weight_n": split.unit_maps * taps,
            "weight_k1": work.loops["k2"],
            "weight_k2": 1,
            "sum_m": split.unit_filters,
        }

    def _result(self) -> dict[str, int]:
        operation, part, machine = self._operation, self._part, self._timing.schedule.problem.machine
        own = operation.sum_bits if operation.kind == "CONV" else 0
        return {
            "shift": operation.shift,
            "divisor": operation.divisor,
            "relu": int(operation.relu),
            "bias_shift": operation.bias_shift,
            "biases": len(self.biases),
            "weights": len(self.weights),
            "sums": part.filter_count if self._work.divides_filters else part.map_count,
            "lines": self._timing.lines(self._work, part),
            "bits": 0 if operation.bits == machine.word_bits else operation.bits,
            "sum_bits": 0 if own in (0, self._sum_bits) else own,
            "late": int(not operation.bias_within and len(self.biases) > 0),
        }

    def _units(self) -> list[Record]:
        """Return what each functional unit does in an iteration; others do nothing."""
        split = self._work.split
        found = [self._unit(f, d) for f in range(split.unit_filters) for d in range(split.unit_maps)]
        return found + [record("unit")] * (
            self._timing.schedule.problem.machine.functional_units - len(found)
        )

    def _unit(self, f: int, d: int) -> Record:
        """Return what a unit does that works on one of the filters and maps that a PE takes at a time."""
        work, part, split = self._work, self._part, self._work.split
        values = {
            "op": OPERATIONS.index(SLOTS[self._operation.kind]),
            "lane": d + (f * split.unit_maps if work.groups > 1 else 0),
            "maps": max(0, -(-(part.map_count - d) // split.unit_maps)),
            "filters": max(0, -(-(part.filter_count - f) // split.unit_filters)),
        }
        if not (values["maps"] and values["filters"]):
            return record("unit")
        if not work.divides_filters:
            when = WHEN.index("window")
            return record("unit", values | {"sum": d, "out": d, "init": when, "store": when})
        # The first of the units that share an accumulator begins it, and stores what is in it.
        when = WHEN.index("all") if d == 0 else 0
        weight = (f * part.map_count + d) * work.loops["k1"] * work.loops["k2"]
        out = f if d == 0 else 0
        return record("unit", values | {"sum": f, "out": out, "init": when, "store": when, "weight": weight})
