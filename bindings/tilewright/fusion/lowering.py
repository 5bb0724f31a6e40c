"""Lower a group and its tile to a program: a step for each instruction, at its cycle in the schedule."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilewright.fusion.arithmetic import ComputeTile, MapRegion
from tilewright.fusion.graph import engine_of, mixes_channels
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule, Instruction, Range
from tilewright.fusion.layouts import runs_of
from tilewright.fusion.machine import BUFFERS, ENGINES, LOAD, SAVE
from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import OPERANDS


class Lowering:
    """The program of a group.

    Parameters
    ----------
    reserved
        Elements of each buffer that the plan takes; the program must do with them.
    """

    def __init__(self, schedule: GroupSchedule, reserved: tuple[int, int, int]) -> None:
        self.schedule, self.fused, self.reserved = schedule, schedule.fused, reserved
        self._place = [0] * len(self.fused.features)

    def program(self) -> Program:
        """Return the program."""
        machine = self.fused.machine
        engines = {name: Engine(name) for name in ENGINES}
        scale, bursts = machine.element_bytes * machine.clock_mhz, machine.burst_cycles
        engines[LOAD] = Engine(LOAD, elements_per_cycle=machine.load_mb_per_s, period=scale, per_burst=bursts)
        engines[SAVE] = Engine(SAVE, elements_per_cycle=machine.save_mb_per_s, period=scale, per_burst=bursts)
        steps = self.steps()
        return Program(
            tensors=tuple(self._tensors()),
            memories=tuple(Memory(name, size) for name, size in zip(BUFFERS, self.reserved, strict=True)),
            engines=tuple(engines.values()),
            steps=steps,
            buffers=len(steps),
        )

    def _tensors(self) -> Iterator[Tensor]:
        fused, images = self.fused, self.fused.machine.arrays
        for index, feature in enumerate(fused.features):
            shape = (images, *feature.shape)
            for copy in range(2 if self.schedule.doubled[index] else 1):
                name = name_of(fused, index, copy)
                if index < fused.loaded:
                    yield Tensor(name, shape, "input", BUFFERS[0])
                else:
                    role = "output" if feature.saved else "intermediate"
                    yield Tensor(
                        name,
                        shape,
                        "output" if feature.saved else "intermediate",
                        BUFFERS[1],
                        macs_per_element=fused.operands(index),
                        recomputed=role == "intermediate",
                    )
            if index >= fused.loaded and (per_channel := fused.parameters(index, (0, fused.summed(index)))):
                yield Tensor(
                    parameters_of(fused, index), (feature.shape[0], per_channel), "kernels", BUFFERS[2]
                )

    def steps(self) -> list[Step]:
        """Return the steps in the order of time; what is freed at a cycle goes before what begins then."""
        timed = [
            (instruction.start, instruction.engine is not None, number, instruction, self._step(instruction))
            for number, instruction in enumerate(self.schedule.instructions())
        ]
        timed.sort(key=lambda entry: entry[:3])
        return [step for *_, step in timed]

    def _step(self, i: Instruction) -> Step:
        fused = self.fused
        if i.what in ("fetch", "drop"):
            tensor, region = parameters_of(fused, i.feature), self._parameters(i)
        else:
            if i.what in ("load", "compute"):
                self._place[i.feature] = i.place
            tensor = name_of(fused, i.feature, i.place)
            region = Box((None, i.channels, i.rows, i.columns))
        label = f"{i.what} {name_of(fused, i.feature)}"
        if i.what in ("free", "drop"):
            return Step(free=(Free(tensor, region),), label=label, start=i.start)
        if i.what in ("load", "fetch"):
            load = Load(tensor, region, LOAD, bursts=self._bursts(i))
            return Step(load=(load,), label=label, start=i.start)
        if i.what == "save":
            write_back = WriteBack(tensor, region, SAVE, bursts=self._bursts(i))
            return Step(write_back=(write_back,), label=label, start=i.start)
        return Step(compute=(self._compute(i, tensor, region),), label=label, start=i.start)

    def _bursts(self, i: Instruction) -> int:
        """Return the bursts of a transfer; 0 where the machine does not tell of them."""
        fused, layouts = self.fused, self.fused.machine.layouts
        if layouts is None:
            return 0
        parts: list[tuple[int, int]] = []
        if i.what == "fetch":
            spec, kernels = fused.op(i.feature).spec, i.channels[1] - i.channels[0]
            taps, bias = prod(spec.kernel) if isinstance(spec, Layer) else 0, getattr(spec, "bias", False)
            deep, run = fused.summed(i.feature), i.summed[1] - i.summed[0]
            if run == deep:
                parts.append((1, kernels * fused.parameters(i.feature, i.summed)))
            else:  # the bias lies before the first input channel
                parts += [(kernels, run + (bias and i.summed[0] == 0)), (kernels * (taps - 1), run)]
        else:
            _, height, width = fused.features[i.feature].shape
            rows, columns = i.rows[1] - i.rows[0], i.columns[1] - i.columns[0]
            for first, end, channels, planar in fused.pieces[i.feature]:
                count = min(end, i.channels[1]) - max(first, i.channels[0])
                if count > 0:
                    steps = (height * width, width, 1) if planar else (1, width * channels, channels)
                    parts.append(runs_of((count, rows, columns), steps))
            parts = [(fused.machine.arrays * runs, values) for runs, values in parts]
        width = fused.machine.element_bytes
        return sum(runs * -(-values * width // layouts.burst_bytes) for runs, values in parts)

    def _parameters(self, i: Instruction) -> Box:
        """Return the region of parameters: the bias of each kernel comes first."""
        spec = self.fused.op(i.feature).spec
        if not isinstance(spec, Layer):
            return Box((i.channels, None))
        bias, window = int(getattr(spec, "bias", False)), prod(spec.kernel)
        first = bias + i.summed[0] * window if i.summed[0] else 0
        return Box((i.channels, (first, bias + i.summed[1] * window)))

    def _compute(self, i: Instruction, tensor: str, region: Box) -> Compute:
        fused = self.fused
        feature, op = fused.features[i.feature], fused.op(i.feature)
        operands: list[tuple[str, Box]] = []
        sources = []
        for part in feature.parts:
            channels = self._channels_of(i, part.map, part.first)
            rows, columns = (self._window(i, part.map, axis) for axis in range(2))
            if channels[1] > channels[0]:
                name = name_of(fused, part.map, self._place[part.map])
                operands.append((name, Box((None, channels, rows, columns))))
                sources.append(MapRegion(name, channels, rows, columns))
        macs = fused.operands(i.feature)
        weights = None
        if fused.parameters(i.feature, (0, 1)):
            weights = parameters_of(fused, i.feature)
            operands.append((weights, self._parameters(i)))
        if isinstance(op.spec, Layer):
            macs = prod(op.spec.kernel) * (i.summed[1] - i.summed[0])
        return Compute(
            tensor,
            region,
            tuple(dict.fromkeys(operands)),
            macs,
            ComputeTile(op.spec, tuple(sources), weights, i.rows, i.columns, i.channels, i.summed),
            engine_of(op),
            cycles=i.finish - i.start,
        )

    def _channels_of(self, i: Instruction, source: int, first: int) -> Range:
        """Return the channels of a map that an instruction reads."""
        op, size = self.fused.op(i.feature), self.fused.features[source].shape[0]
        low, high = i.channels
        if mixes_channels(op) and not isinstance(op.spec, Layer):
            return 0, size
        if isinstance(op.spec, Layer):
            each, deep = op.spec.kernels // op.spec.groups, self.fused.summed(i.feature)
            groups = low // each, -(-high // each)
            low, high = groups[0] * deep + i.summed[0], (groups[1] - 1) * deep + i.summed[1]
        low = max(0, low - first)
        return low, max(low, min(size, high - first))

    def _window(self, i: Instruction, source: int, axis: int) -> Range:
        spec, extent = self.fused.op(i.feature).spec, self.fused.features[source].shape[1 + axis]
        assert isinstance(spec, Window)
        if extent == 1 and spec.kind in OPERANDS:
            return 0, 1
        (low, high), before = (i.rows, i.columns)[axis], spec.padding[2 * axis]
        first = low * spec.stride[axis] - before
        last = (high - 1) * spec.stride[axis] - before + spec.kernel_extent[axis]
        return max(0, min(first, extent - 1)), min(extent, max(last, 1))


def name_of(fused: FusedGroup, feature: int, place: int = 0) -> str:
    """Return the name of a map, or of its second place on chip."""
    return fused.names[feature][place]


def parameters_of(fused: FusedGroup, feature: int) -> str:
    """Return the name of an operation's parameters."""
    return fused.names[feature][2]
