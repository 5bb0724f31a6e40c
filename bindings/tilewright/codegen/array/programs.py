"""The program of an array: all of its layers, connections, PEs and address generators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from tilewright.allocation.plan import Region
from tilewright.allocation.schedule import Schedule
from tilewright.codegen.array.generators import reader, writer
from tilewright.codegen.array.parts import LayerWork, layer_works
from tilewright.codegen.array.pes import PeProgram
from tilewright.codegen.array.routing import Link, connections, hops
from tilewright.codegen.array.streams import Streams
from tilewright.codegen.array.timing import Timing
from tilewright.codegen.array.words import Record, record
from tilewright.codegen.numbers.made_numbers import SUM_BITS
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.simulator.arithmetic.fixed_point import Integers
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation


@dataclass
class ArrayProgram:
    """The program of an array.

    Attributes
    ----------
    timing
        When what starts, and what buffers hold.
    records
        All of it, in order.
    parameters
        Biases and weights of each PE's programs, in their order.
    channels
        Of each link.
    """

    timing: Timing
    records: list[Record] = field(default_factory=list)
    parameters: list[Integers] = field(default_factory=list)
    channels: Counter[Link] = field(default_factory=Counter)


def timing_of(schedule: Schedule, regions: tuple[Region, ...], hop_cycles: int = 0) -> Timing:
    """Return when the programs of a plan that is placed start.

    Parameters
    ----------
    hop_cycles
        Cycles of a hop from PE to PE.
    """
    works = layer_works(schedule.problem, schedule.plan.splits)
    return Timing(schedule, Streams(schedule.problem, works, regions), hop_cycles)


def array_program(timing: Timing, numbers: NetworkNumbers, frames: int) -> ArrayProgram:
    """Return the program of a plan.

    Parameters
    ----------
    numbers
        Weights, biases and scales of all layers on the array, by their names.
    frames
        How many follow each other.
    """
    return _Compiler(timing, numbers, frames).program()


def sum_bits_of(numbers: NetworkNumbers) -> int:
    """Return the bits of the accumulators of an array, those of the widest convolution."""
    sums = (each.sum_bits for each in numbers.operations.values() if each.kind == "CONV")
    return max(SUM_BITS, *sums)


class _Compiler:
    def __init__(self, timing: Timing, numbers: NetworkNumbers, frames: int) -> None:
        self._timing, self._streams, self._numbers = timing, timing.streams, numbers
        self._frames, self._made = frames, ArrayProgram(timing)
        self._sum_bits = sum_bits_of(numbers)

    def program(self) -> ArrayProgram:
        """Return all records."""
        made, works = self._made, self._streams.works
        made.records.append(self._array())
        for work in works:
            made.records += self._layer(work)
        made.records += self._connections()
        for work in works:
            for part in self._streams.parts[work.stage.number]:
                program = PeProgram(self._timing, work, part, self._operation(work), self._sum_bits)
                made.parameters += program.parameters
                made.records += program.records()
        made.records += self._generators()
        return made

    def _operation(self, work: LayerWork) -> IntegerOperation:
        return self._numbers.operations[work.stage.name]

    def _array(self) -> Record:
        machine = self._timing.schedule.problem.machine
        return record("array", {
            "rows": machine.array[0], "columns": machine.array[1], "units": machine.functional_units,
            "bits": machine.word_bits, "sum_bits": self._sum_bits, "frames": self._frames,
            "hop": self._timing.hop_cycles,
        })  # fmt: skip

    def _layer(self, work: LayerWork) -> Iterator[Record]:
        """Yield a layer, and the order of its pixels where that is not row by row."""
        stage, schedule = work.stage, self._timing.schedule
        values = {
            "number": stage.number, "rows": stage.task.rows, "columns": stage.task.columns,
            "channels": stage.channels, "buffer": self._timing.buffers[stage.number],
        }  # fmt: skip
        yield record("layer", values, tuple(stage.name.encode()))
        order = np.argsort(schedule.scan.beats(stage, work.split.rows).ravel(), kind="stable")
        if work.split.rows == 1 and (order != np.arange(order.size)).any():
            yield record("order", {"layer": stage.number}, order.tolist())

    def _connections(self) -> list[Record]:
        """Return the connections of all PEs, with the delays in front of their ports."""
        hop, streams, channels = self._timing.hop_cycles, self._streams, self._made.channels
        found: list[Record] = []
        for each in streams.operands:
            found += connections(each.stream, each.tree, channels, hop, hop * each.down)
        for value in (*streams.sums, *streams.outputs):
            way = hop * value.hops if value.part.holds else self._timing.added(value.work.stage.number)
            up = hop * hops(value.part.pe, value.tree.root)
            found += connections(value.stream, value.tree, channels, hop, way - up)
        return sorted(found, key=lambda each: each.values)

    def _generators(self) -> Iterator[Record]:
        """Yield all address generators."""
        for each in self._streams.operands:
            operation = self._operation(each.work)
            for sender in each.senders:
                place = each.work.operands.index(sender.operand)
                yield from reader(self._timing, each, sender, operation, place)
        base = 0
        for work in self._streams.works:
            stage = work.stage
            for value in self._streams.outputs:
                if value.work is work:
                    yield from writer(self._timing, value, base)
            size = stage.channels * stage.task.rows * stage.task.columns
            base += self._frames * size * stage.leaves
