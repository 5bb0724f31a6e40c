"""A program for every PE: the loop nest of its layer as words, and those of the address generators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from tilewright.allocation.geometry import Numbers
from tilewright.allocation.placement.floor import PE
from tilewright.allocation.plan import Region
from tilewright.allocation.schedule import Schedule, most_alive
from tilewright.codegen.array.parts import LayerWork, Operand, Part, layer_works, parts_of
from tilewright.codegen.array.routing import End, Network, Stream, hops
from tilewright.codegen.array.words import OPERATIONS, RECEIVE, THEN, WHAT, WHEN, Record, record
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.simulator.arithmetic.fixed_point import Integers
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.spec.layer import Window
from tilewright.spec.network import Add

SLOTS = {"CONV": "mac", "MAX_POOL": "max", "AVERAGE_POOL": "add", "ADD": "add", "COPY": "add"}
"""What the functional units do for each kind of operation."""


class Slot(NamedTuple):
    """What a functional unit of a PE works on.

    Attributes
    ----------
    filter, map
        Which of the filters and maps that the units of the PE take at a time.
    """

    filter: int
    map: int


@dataclass
class ArrayProgram:
    """The program of an array.

    Attributes
    ----------
    records
        All of it, in order.
    parameters
        Biases and weights of each PE's programs, in their order.
    channels
        Of each link.
    outputs
        Where the frames of each layer begin among the outputs, by the layer's number.
    least_hops
        For each PE, those to the nearest PE of each layer that it reads, added up.
    """

    records: list[Record] = field(default_factory=list)
    parameters: list[Integers] = field(default_factory=list)
    channels: Counter[tuple[PE, PE]] = field(default_factory=Counter)
    outputs: dict[int, int] = field(default_factory=dict)
    least_hops: int = 0


def array_program(
    schedule: Schedule, regions: tuple[Region, ...], numbers: NetworkNumbers, frames: int
) -> ArrayProgram:
    """Return the program of a plan that is placed.

    Parameters
    ----------
    numbers
        Weights, biases and scales of all layers on the array, by their names.
    frames
        How many follow each other.
    """
    return _Compiler(schedule, regions, numbers, frames).program()


class _Compiler:
    def __init__(
        self, schedule: Schedule, regions: tuple[Region, ...], numbers: NetworkNumbers, frames: int
    ) -> None:
        self.schedule, self.problem, self.numbers, self.frames = schedule, schedule.problem, numbers, frames
        self.works = layer_works(self.problem, schedule.plan.splits)
        self.parts = [list(parts_of(work, region)) for work, region in zip(self.works, regions, strict=True)]
        self.streams: list[Stream] = []
        self.made = ArrayProgram()
        self._ports: Counter[PE] = Counter()
        self._inputs: dict[tuple[int, PE], int] = {}
        self._outputs: dict[tuple[int, PE], int] = {}
        self._sums: dict[tuple[int, PE], list[int]] = {}
        self._sends: dict[tuple[int, PE], int] = {}

    def program(self) -> ArrayProgram:
        """Return all records."""
        machine, made = self.problem.machine, self.made
        operations = [self._operation(work) for work in self.works]
        made.records.append(
            record("array", {
                "rows": machine.array[0], "columns": machine.array[1], "units": machine.functional_units,
                "bits": operations[0].bits, "sum_bits": operations[0].sum_bits, "frames": self.frames,
            })
        )  # fmt: skip
        for work in self.works:
            made.records += self._layer(work)
        generators = [each for work in self.works for each in self._readers(work)]
        for work in self.works:
            self._partial_sums(work)
        generators += [each for work in self.works for each in self._writers(work)]
        network = Network(self.streams)
        made.channels = network.channels
        made.records += network.records()
        for work in self.works:
            for part in self.parts[work.stage.number]:
                made.records += self._program(work, part)
        made.records += generators
        return made

    def _operation(self, work: LayerWork) -> IntegerOperation:
        return self.numbers.operations[work.stage.name]

    def _port(self, pe: PE) -> int:
        self._ports[pe] += 1
        return self._ports[pe]

    def _start(self, work: LayerWork) -> int:
        return self.schedule.starts[work.stage.number]

    # Layers ---------------------------------------------------------------------------------------------

    def _layer(self, work: LayerWork) -> Iterator[Record]:
        stage = work.stage
        values = {
            "number": stage.number, "rows": stage.task.rows, "columns": stage.task.columns,
            "channels": stage.channels, "buffer": self.schedule.buffers[stage.number],
        }  # fmt: skip
        yield record("layer", values, tuple(stage.name.encode()))
        beats = self._beats(work)
        order = np.argsort(beats.ravel(), kind="stable")
        if work.split.rows == 1 and (order != np.arange(order.size)).any():
            yield record("order", {"layer": stage.number}, order.tolist())

    def _beats(self, work: LayerWork) -> Numbers:
        return self.schedule.scan.beats(work.stage, work.split.rows)

    def _lines(self, work: LayerWork, part: Part) -> int:
        """Return how many pixels a PE of a layer holds at a time, at most."""
        if not self.problem.consumers[work.stage.number]:
            return 0
        begin, end = (
            each[part.rows :: work.split.rows] for each in self.schedule.lifetimes(work.stage.number)
        )
        return most_alive(begin.ravel(), end.ravel(), self.schedule.interval)

    # Words ----------------------------------------------------------------------------------------------

    def _words(
        self, work: LayerWork, receive: str = "never", slots: list[Record] | None = None
    ) -> list[Record]:
        """Return the words of a loop nest: an iteration, the wait of a beat, the wait for the next frame."""
        number = work.stage.number
        wait = self.schedule.paces[number] - self.schedule.works[number]
        gap = self.schedule.interval - self.schedule.beats[number] * self.schedule.paces[number]
        idle = [record("unit")] * len(slots or [])
        after = "beat" if gap else "both"
        words = [_word("iterate", "next" if wait else after, 1, receive), *(slots or [])]
        if wait:
            words += [_word("wait", after, wait), *idle]
        if gap:
            words += [_word("wait", "frame", gap), *idle]
        return words

    def _slots(self, work: LayerWork, part: Part) -> list[Record]:
        """Return what each functional unit does in an iteration."""
        split, found = work.split, []
        taps = work.loops["k1"] * work.loops["k2"]
        op = OPERATIONS.index(SLOTS[self._operation(work).kind])
        whole = WHEN.index("all" if work.divides_filters else "window")
        for f in range(split.unit_filters):
            for d in range(split.unit_maps):
                values = {
                    "op": op,
                    "lane": d + (f * split.unit_maps if work.groups > 1 else 0),
                    "maps": max(0, -(-(part.map_count - d) // split.unit_maps)),
                    "filters": max(0, -(-(part.filter_count - f) // split.unit_filters)),
                    "sum": d,
                    "out": d,
                    "init": whole,
                    "store": whole,
                }
                if work.divides_filters:
                    values |= {
                        "sum": f,
                        "out": f if d == 0 else 0,
                        "weight": (f * part.map_count + d) * taps,
                        "init": whole if d == 0 else 0,
                        "store": whole if d == 0 else 0,
                    }
                used = values["maps"] and values["filters"]
                found.append(record("unit", values if used else None))
        units = self.problem.machine.functional_units
        return found + [record("unit")] * (units - len(found))

    def _program(self, work: LayerWork, part: Part) -> Iterator[Record]:
        """Yield the program of a PE."""
        operation, split, number = self._operation(work), work.split, work.stage.number
        row, column = part.pe
        key = number, part.pe
        taps = work.loops["k1"] * work.loops["k2"]
        biases, weights = self._parameters(work, part)
        self.made.parameters += [biases, weights]
        yield record("program", {"row": row, "column": column, "layer": number, "start": self._start(work)})
        yield record("loops", work.loops)
        step, first, count = part.channels
        yield record("share", {
            "channel_step": step, "channel_first": first, "channels": count, "row_step": split.rows,
            "row_first": part.rows,
        })  # fmt: skip
        if work.divides_filters:
            yield record("strides", {
                "weight_m": split.unit_filters * part.map_count * taps, "weight_n": split.unit_maps * taps,
                "weight_k1": work.loops["k2"], "weight_k2": 1, "sum_m": split.unit_filters,
            })  # fmt: skip
        else:
            yield record("strides", {"sum_n": split.unit_maps})
        yield record("result", {
            "shift": operation.shift, "divisor": operation.divisor, "relu": int(operation.relu),
            "bias_shift": operation.bias_shift, "biases": len(biases), "weights": len(weights),
            "sums": part.filter_count if work.divides_filters else part.map_count,
            "lines": self._lines(work, part) if part.holds else 0,
        })  # fmt: skip
        sums = self._sums.get(key, [])
        yield record("ports", {
            "input": self._inputs[key], "send": self._sends.get(key, 0), "output": self._outputs.get(key, 0),
            "sums": sums[0] if sums else 0, "sum_ports": len(sums),
        })  # fmt: skip
        receive = "each" if work.groups > 1 else "first"
        yield from self._words(work, receive, self._slots(work, part))

    def _parameters(self, work: LayerWork, part: Part) -> tuple[Integers, Integers]:
        """Return the biases and the weights of a PE: of its filters, in their order, and its maps."""
        operation, task, split = self._operation(work), work.stage.task, work.split
        nothing = np.zeros(0, dtype=np.int64)
        if not work.divides_filters:
            return nothing, nothing
        kernels = operation.kernels.reshape(task.filters, task.maps, -1)
        weights = kernels[part.filters :: split.filters, part.maps :: split.maps].ravel()
        if operation.biases is None or not part.holds:
            return nothing, weights
        return operation.biases[part.filters :: split.filters], weights

    # Address generators ---------------------------------------------------------------------------------

    def _readers(self, work: LayerWork) -> Iterator[Record]:
        """Yield the address generators that send what a layer reads, and connect them to its PEs."""
        shared: dict[tuple[int, ...], list[Part]] = {}
        for part in self.parts[work.stage.number]:
            key = (part.maps, part.rows, part.filters if work.groups > 1 else 0)
            shared.setdefault(key, []).append(part)
        for parts in shared.values():
            sinks = []
            for part in parts:
                port = self._inputs[work.stage.number, part.pe] = self._port(part.pe)
                sinks.append(End(part.pe, port))
            sources = []
            for operand in work.operands:
                sending = self._sources(work, parts[0], operand, [end.pe for end in sinks])
                self.made.least_hops += sum(
                    min((hops(source, end.pe) for source, _ in sending), default=0)
                    for end in sinks
                    if operand.producer >= 0
                )
                for pe, owner in sending:
                    sources.append(End(pe, self._port(pe)))
                    yield from self._reader(work, parts[0], operand, sources[-1], owner)
            self.streams.append(Stream(tuple(sources), tuple(sinks)))

    def _sources(
        self, work: LayerWork, part: Part, operand: Operand, sinks: list[PE]
    ) -> list[tuple[PE, dict[str, int]]]:
        """Return the PEs that hold what a part of a layer reads of a producer, and what each holds."""
        if operand.producer < 0:
            everything = {"channel_step": 1, "channel_first": 0, "row_step": 1, "row_first": 0}
            return [(self._border(sinks), everything)]
        read = {each - operand.first for each in _maps_read(work, part)}
        read &= set(range(operand.channels))
        producer = self.works[operand.producer]
        found = []
        for source in self.parts[operand.producer]:
            step, first, _ = source.channels
            if source.holds and any(channel % step == first for channel in read):
                found.append((source.pe, {
                    "channel_step": step, "channel_first": first, "row_step": producer.split.rows,
                    "row_first": source.rows,
                }))  # fmt: skip
        return found

    def _border(self, pes: list[PE]) -> PE:
        """Return the PE on the border that is nearest to some."""
        rows, columns = self.problem.machine.array
        border = {(row, column) for row in (0, rows - 1) for column in range(columns)}
        border |= {(row, column) for row in range(rows) for column in (0, columns - 1)}
        return min(sorted(border), key=lambda pe: sum(hops(pe, other) for other in pes))

    def _reader(
        self, work: LayerWork, part: Part, operand: Operand, end: End, owner: dict[str, int]
    ) -> Iterator[Record]:
        """Yield the address generator of a PE that sends what it holds, or of the border."""
        stage, split, spec = work.stage, work.split, work.stage.spec
        yield record("reader", {
            "row": end.pe[0], "column": end.pe[1], "layer": stage.number, "port": end.port,
            "source": operand.producer + 1, "start": self._start(work),
        })  # fmt: skip
        yield record("loops", work.loops)
        yield record("share", {"channel_step": 1, "row_step": split.rows, "row_first": part.rows})
        window = isinstance(spec, Window) and not isinstance(spec, Add)
        stride, dilation = (spec.stride, spec.dilation) if window else ((1, 1), (0, 0))
        kind = self._operation(work).kind
        yield record("window", {
            "stride_y": stride[0], "stride_x": stride[1],
            "dilation_y": dilation[0], "dilation_x": dilation[1],
            "top": spec.padding[0], "left": spec.padding[2], "rows": spec.input[1], "columns": spec.input[2],
            "border": -(1 << (self._operation(work).bits - 1)) if kind == "MAX_POOL" else 0,
        })  # fmt: skip
        maps = {
            "lanes": split.unit_maps, "filters": 1, "receive": RECEIVE.index("first"),
            "step": split.maps, "first": part.maps, "count": part.map_count,
        }  # fmt: skip
        if work.groups > 1:
            maps |= {
                "filters": split.unit_filters, "receive": RECEIVE.index("each"), "filter_step": split.filters,
                "filter_first": part.filters, "filter_count": part.filter_count,
                "group_filters": stage.task.filters // work.groups, "group_maps": stage.task.maps,
            }  # fmt: skip
        yield record("maps", maps)
        yield record("operand", {
            "number": operand.number, "first": operand.first, "channels": operand.channels,
        })  # fmt: skip
        yield record("owner", owner)
        yield from self._words(work)

    def _partial_sums(self, work: LayerWork) -> None:
        """Connect the PEs that only add to the sums of another one to that one."""
        number = work.stage.number
        holders = {(part.filters, part.rows): part for part in self.parts[number] if part.holds}
        for part in self.parts[number]:
            if part.holds:
                continue
            holder = holders[part.filters, part.rows].pe
            port = self._sends[number, part.pe] = self._port(part.pe)
            taken = self._sums.setdefault((number, holder), [])
            taken.append(self._port(holder))
            self.streams.append(Stream((End(part.pe, port),), (End(holder, taken[-1]),)))

    def _writers(self, work: LayerWork) -> Iterator[Record]:
        """Yield the address generators that write a layer's output, if it leaves the array."""
        stage, split = work.stage, work.split
        if not stage.leaves:
            return
        base = self.made.outputs[stage.number] = self._outputs_end
        self._outputs_end += self.frames * stage.channels * stage.task.rows * stage.task.columns
        for part in self.parts[stage.number]:
            if not part.holds:
                continue
            port = self._outputs[stage.number, part.pe] = self._port(part.pe)
            border = self._border([part.pe])
            end = End(border, self._port(border))
            self.streams.append(Stream((End(part.pe, port),), (end,)))
            yield record("writer", {
                "row": border[0], "column": border[1], "layer": stage.number, "port": end.port, "base": base,
                "start": self._start(work),
            })  # fmt: skip
            yield record("loops", work.loops)
            step, first, count = part.channels
            yield record("share", {
                "channel_step": step, "channel_first": first, "channels": count, "row_step": split.rows,
                "row_first": part.rows,
            })  # fmt: skip
            sums = work.divides_filters
            lanes = split.unit_filters if sums else split.unit_maps
            yield record("strides", {"sum_m": lanes} if sums else {"sum_n": lanes})
            yield record("take", {"lanes": lanes, "when": WHEN.index("all" if sums else "window")})
            yield from self._words(work)

    _outputs_end = 0


def _word(what: str, then: str, repeat: int, receive: str = "never") -> Record:
    return record("word", {
        "what": WHAT.index(what), "receive": RECEIVE.index(receive), "then": THEN.index(then),
        "repeat": repeat,
    })  # fmt: skip


def _maps_read(work: LayerWork, part: Part) -> set[int]:
    """Return the maps that a part of a layer reads."""
    task, split = work.stage.task, work.split
    maps = range(part.maps, task.maps, split.maps)
    if work.groups == 1:
        return set(maps)
    filters = range(part.filters, task.filters, split.filters)
    in_group = task.filters // work.groups
    return {each + filter // in_group * task.maps for filter in filters for each in maps}
