"""Lower a group and its tile to a program: a step for each instruction, at the cycle that the layout says."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tilewright.fusion.arithmetic import ComputeTile, Source
from tilewright.fusion.fused_group import Structure
from tilewright.fusion.problem import BUFFERS, ENGINES, LOAD, SAVE
from tilewright.fusion.schedule import Instruction, Layout, Range
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

    def __init__(self, layout: Layout, reserved: tuple[int, int, int]) -> None:
        self.layout, self.structure, self.reserved = layout, layout.structure, reserved
        self._place = [0] * len(self.structure.features)

    def program(self) -> Program:
        """Return the program."""
        machine = self.structure.machine
        engines = {name: Engine(name) for name in ENGINES}
        scale = machine.element_bytes * machine.clock_mhz
        engines[LOAD] = Engine(LOAD, elements_per_cycle=machine.load_mb_per_s, period=scale)
        engines[SAVE] = Engine(SAVE, elements_per_cycle=machine.save_mb_per_s, period=scale)
        steps = self.steps()
        return Program(
            tensors=tuple(self._tensors()),
            memories=tuple(Memory(name, size) for name, size in zip(BUFFERS, self.reserved, strict=True)),
            engines=tuple(engines.values()),
            steps=steps,
            buffers=len(steps),
        )

    def _tensors(self) -> Iterator[Tensor]:
        structure, images = self.structure, self.structure.machine.arrays
        for place, feature in enumerate(structure.features):
            shape = (images, *feature.shape)
            for copy in range(2 if self.layout.doubled[place] else 1):
                name = name_of(structure, place, copy)
                if place < structure.loaded:
                    yield Tensor(name, shape, "input", BUFFERS[0])
                else:
                    role = "output" if feature.saved else "intermediate"
                    yield Tensor(
                        name,
                        shape,
                        "output" if feature.saved else "intermediate",
                        BUFFERS[1],
                        macs_per_element=structure.operands(place),
                        recomputed=role == "intermediate",
                    )
            if place >= structure.loaded and (
                each := structure.parameters(place, (0, structure.summed(place)))
            ):
                yield Tensor(parameters_of(structure, place), (feature.shape[0], each), "kernels", BUFFERS[2])

    def steps(self) -> list[Step]:
        """Return the steps in the order of time; what is freed at a cycle goes before what begins then."""
        timed = [
            (instruction.start, instruction.engine is not None, number, instruction, self._step(instruction))
            for number, instruction in enumerate(self.layout.schedule())
        ]
        timed.sort(key=lambda entry: entry[:3])
        return [step for *_, step in timed]

    def _step(self, i: Instruction) -> Step:
        structure = self.structure
        if i.what in ("fetch", "drop"):
            tensor, region = parameters_of(structure, i.feature), self._parameters(i)
        else:
            if i.what in ("load", "compute"):
                self._place[i.feature] = i.place
            tensor = name_of(structure, i.feature, i.place)
            region = Box((None, i.channels, i.rows, i.columns))
        label = f"{i.what} {structure.features[i.feature].name}"
        if i.what in ("free", "drop"):
            return Step(free=(Free(tensor, region),), label=label, start=i.start)
        if i.what in ("load", "fetch"):
            return Step(load=(Load(tensor, region, LOAD),), label=label, start=i.start)
        if i.what == "save":
            return Step(write_back=(WriteBack(tensor, region, SAVE),), label=label, start=i.start)
        return Step(compute=(self._compute(i, tensor, region),), label=label, start=i.start)

    def _parameters(self, i: Instruction) -> Box:
        """Return the region of parameters: the bias of each kernel comes first."""
        spec = self.structure.op(i.feature).spec
        if not isinstance(spec, Layer):
            return Box((i.channels, None))
        bias, window = int(getattr(spec, "bias", False)), prod(spec.kernel)
        first = bias + i.summed[0] * window if i.summed[0] else 0
        return Box((i.channels, (first, bias + i.summed[1] * window)))

    def _compute(self, i: Instruction, tensor: str, region: Box) -> Compute:
        structure = self.structure
        feature, op = structure.features[i.feature], structure.op(i.feature)
        operands: list[tuple[str, Box]] = []
        sources = []
        for part in feature.parts:
            channels = self._channels_of(i, part.map, part.first)
            rows, columns = (self._window(i, part.map, axis) for axis in range(2))
            if channels[1] > channels[0]:
                name = name_of(structure, part.map, self._place[part.map])
                operands.append((name, Box((None, channels, rows, columns))))
                sources.append(Source(name, channels, rows, columns))
        macs = structure.operands(i.feature)
        weights = None
        if structure.parameters(i.feature, (0, 1)):
            weights = parameters_of(structure, i.feature)
            operands.append((weights, self._parameters(i)))
        if isinstance(op.spec, Layer):
            macs = prod(op.spec.kernel) * (i.summed[1] - i.summed[0])
        return Compute(
            tensor,
            region,
            tuple(dict.fromkeys(operands)),
            macs,
            ComputeTile(op.spec, tuple(sources), weights, i.rows, i.columns, i.channels, i.summed),
            op.engine,
            cycles=i.finish - i.start,
        )

    def _channels_of(self, i: Instruction, source: int, first: int) -> Range:
        """Return the channels of a map that an instruction reads."""
        op, size = self.structure.op(i.feature), self.structure.features[source].shape[0]
        low, high = i.channels
        if op.dense and not isinstance(op.spec, Layer):
            return 0, size
        if isinstance(op.spec, Layer):
            each, deep = op.spec.kernels // op.spec.groups, self.structure.summed(i.feature)
            groups = low // each, -(-high // each)
            low, high = groups[0] * deep + i.summed[0], (groups[1] - 1) * deep + i.summed[1]
        low = max(0, low - first)
        return low, max(low, min(size, high - first))

    def _window(self, i: Instruction, source: int, axis: int) -> Range:
        spec, extent = self.structure.op(i.feature).spec, self.structure.features[source].shape[1 + axis]
        assert isinstance(spec, Window)
        if extent == 1 and spec.kind in OPERANDS:
            return 0, 1
        (low, high), before = (i.rows, i.columns)[axis], spec.padding[2 * axis]
        first = low * spec.stride[axis] - before
        last = (high - 1) * spec.stride[axis] - before + spec.kernel_extent[axis]
        return max(0, min(first, extent - 1)), min(extent, max(last, 1))


def name_of(structure: Structure, feature: int, place: int = 0) -> str:
    """Return the name of a map, or of its second place on chip."""
    return structure.features[feature].name + "'" * place


def parameters_of(structure: Structure, feature: int) -> str:
    """Return the name of an operation's parameters."""
    return f"{structure.features[feature].name} parameters"
