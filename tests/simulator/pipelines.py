"""Made-up pipelines: an engine for each layer of a network, all at work together, under a schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from random import Random

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    LazySteps,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.simulator.arithmetic.reference import reference_convolution, reference_pool, reference_sum
from tilewright.simulator.operations import WindowBeat
from tilewright.simulator.program import Values
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add, Pool

Numbers = NDArray[np.int64]
Span = tuple[int, int]

IMAGE = -1
"""What the first stages read."""


@dataclass(frozen=True)
class Stage:
    """A layer, the numbers of the stages that it reads, and the cycles of a beat of `wide` columns."""

    layer: Layer | Pool | Add
    inputs: tuple[int, ...]
    cycles: int = 1
    wide: int = 1

    @property
    def macs(self) -> int:
        if isinstance(self.layer, Layer):
            return self.layer.macs_per_output
        return len(self.inputs) * self.layer.kernel[0] * self.layer.kernel[1]

    @property
    def beats(self) -> tuple[int, int]:
        """Of one frame: rows, and beats of a row."""
        rows, cols = self.layer.output_plane
        return rows, -(-cols // self.wide)

    def seen(self, axis: int, span: Span, size: int) -> Span:
        """The rows or columns of a plane under some rows or columns of outputs."""
        layer = self.layer
        if layer.kind == "fc":
            return 0, size
        first = span[0] * layer.stride[axis] - layer.padding[2 * axis]
        last = (span[1] - 1) * layer.stride[axis] - layer.padding[2 * axis] + layer.kernel_extent[axis]
        return max(0, first), min(last, size)

    def last(self, axis: int, size: int) -> Numbers:
        """The last beat on an axis that may read each row or column of a plane."""
        layer, there = self.layer, np.arange(size)
        most = np.minimum(
            (there + layer.padding[2 * axis]) // layer.stride[axis], layer.output_plane[axis] - 1
        )
        return np.zeros_like(there) if layer.kind == "fc" else most // (self.wide if axis else 1)


class Pipeline:
    """A network's stages at work on some frames, each beat when its data are there or some cycles later.

    Attributes
    ----------
    shapes
        (C, H, W) of each stage's output; the last one, which is that of number `IMAGE`, is the image's.
    start, finish : int, shape (frames, rows, beats of a row)
        Of each stage.
    """

    def __init__(
        self,
        stages: Sequence[Stage],
        image: tuple[int, int, int],
        frames: int,
        late: Random | None = None,
    ) -> None:
        self.stages, self.frames = stages, frames
        self.shapes = [*(stage.layer.output for stage in stages), image]
        self.read = {number for stage in stages for number in stage.inputs}
        self.start: list[Numbers] = []
        self.finish: list[Numbers] = []
        for stage in stages:
            ready = np.zeros((frames, *stage.beats), dtype=np.int64)
            for number in set(stage.inputs) - {IMAGE}:
                _, height, width = self.shapes[number]
                rows = [stage.seen(0, (row, row + 1), height)[1] - 1 for row in range(stage.beats[0])]
                cols = [stage.seen(1, span, width)[1] - 1 for span in self.columns(stage)]
                wide = self.stages[number].wide
                found = self.finish[number][:, np.array(rows)[:, None], np.array(cols) // wide]
                ready = np.maximum(ready, found)
            turn = stage.cycles * np.arange(ready.size)
            slack = 0 if late is None else np.cumsum([late.choice((0, 0, 1, 3)) for _ in turn])
            begin = np.maximum.accumulate(ready.ravel() - turn) + turn + slack
            self.start.append(begin.reshape(ready.shape))
            self.finish.append(self.start[-1] + stage.cycles)

    def columns(self, stage: Stage) -> list[Span]:
        width = stage.layer.output_plane[1]
        return [(first, min(first + stage.wide, width)) for first in range(0, width, stage.wide)]

    def done(self, number: int) -> Numbers:
        """When each pixel may go, shape (frames, H, W): no one reads it any more."""
        _, height, width = self.shapes[number]
        if number == IMAGE:
            over = np.zeros((self.frames, height, width), dtype=np.int64)
        else:
            over = self.finish[number][:, :, np.arange(width) // self.stages[number].wide]
        for stage, finish in zip(self.stages, self.finish, strict=True):
            if number in stage.inputs:
                rows, cols = stage.last(0, height), stage.last(1, width)
                over = np.maximum(over, finish[:, rows[:, None], cols])
        return over

    def name(self, number: int) -> str:
        return "image" if number == IMAGE else f"t{number}"

    def tensors(self) -> tuple[Tensor, ...]:
        found = [Tensor("image", (self.frames, *self.shapes[IMAGE]), "input")]
        for number, stage in enumerate(self.stages):
            role = "intermediate" if number in self.read else "output"
            shape = (self.frames, *self.shapes[number])
            found.append(Tensor(self.name(number), shape, role, macs_per_element=stage.macs))
            if isinstance(stage.layer, Layer):
                found.append(Tensor(f"w{number}", stage.layer.kernels_shape, "kernels"))
        return tuple(found)

    def beat(self, number: int) -> Callable[[int], Compute]:
        """What makes the computes of a stage, from their numbers."""
        stage, name = self.stages[number], self.name(number)
        layer, macs, cycles, engine = stage.layer, stage.macs, stage.cycles, f"e{number}"
        weights = f"w{number}" if isinstance(layer, Layer) else None
        kernels = () if weights is None else ((weights, Box((None,) * 4)),)
        sources = tuple(map(self.name, stage.inputs))
        different = tuple(dict.fromkeys(sources))
        _, height, width = self.shapes[stage.inputs[0]]
        rows = [((row, row + 1), stage.seen(0, (row, row + 1), height)) for row in range(stage.beats[0])]
        columns = [(span, stage.seen(1, span, width)) for span in self.columns(stage)]

        def make(beat: int) -> Compute:
            rest, col = divmod(beat, len(columns))
            frame, row = divmod(rest, len(rows))
            image, (down, above), (across, beside) = (frame, frame + 1), rows[row], columns[col]
            window = Box((image, None, above, beside))
            return Compute(
                name,
                Box((image, None, down, across)),
                (*((source, window) for source in different), *kernels),
                macs,
                WindowBeat(layer, sources, weights, frame, down, across),
                engine,
                cycles=cycles,
            )

        return make

    def leaving(self, starts: Numbers, late: Random | None) -> dict[int, list[tuple[int, int, int, Span]]]:
        """Which pixels leave in which steps: of a stage and frame, neighbours in a row."""
        found: dict[int, list[tuple[int, int, int, Span]]] = {}
        for number in (IMAGE, *range(len(self.stages))):
            steps = np.searchsorted(starts, self.done(number))
            if late is not None:
                steps = np.array([late.randint(step, len(starts)) for step in steps.flat]).reshape(
                    steps.shape
                )
            begins = np.ones(steps.shape, dtype=np.bool_)
            begins[..., 1:] = steps[..., 1:] != steps[..., :-1]
            places = np.argwhere(begins).tolist()
            width = steps.shape[-1]
            for (frame, row, col), step, after in zip(
                places, steps[begins].tolist(), [*places[1:], [-1, -1, -1]], strict=True
            ):
                end = after[2] if after[:2] == [frame, row] else width
                found.setdefault(step, []).append((number, frame, row, (col, end)))
        return found

    def program(self, late: Random | None = None) -> Program:
        """The program, a step for each beat; with `late`, data leave late and some beats share a step."""
        makers = [self.beat(number) for number in range(len(self.stages))]
        stage = np.repeat(np.arange(len(self.stages)), [found.size for found in self.start])
        beat = np.concatenate([np.arange(found.size) for found in self.start])
        start = np.concatenate([found.ravel() for found in self.start])
        order = np.argsort(start, kind="stable")
        begins = np.ones(len(order), dtype=np.bool_)
        if late is not None:
            begins[1:] = [late.random() < 0.5 for _ in order[1:]]
            begins[1:] |= start[order[1:]] != start[order[:-1]]
        starts = start[order[begins]]
        leaving = self.leaving(starts, late)
        firsts = [*np.flatnonzero(begins).tolist(), len(order)]
        weights = [tensor.name for tensor in self.tensors() if tensor.role == "kernels"]

        def make() -> Iterator[Step]:
            computes = map(
                lambda number, beat: makers[number](beat), stage[order].tolist(), beat[order].tolist()
            )
            for step, (cycle, span) in enumerate(zip(starts.tolist(), pairwise(firsts), strict=True)):
                yield self.step(leaving.get(step, ()), tuple(islice(computes, span[1] - span[0])), cycle)
            last = self.step(leaving.get(len(starts), ()), (), int(max(found.max() for found in self.finish)))
            yield replace(last, free=(*last.free, *(Free(name, Box((None,) * 4)) for name in weights)))

        preloaded = [
            (tensor.name, Box((None,) * 4))
            for tensor in self.tensors()
            if tensor.role in ("input", "kernels")
        ]
        return Program(
            self.tensors(),
            (Memory("mem"),),
            (Engine("write"), *(Engine(f"e{number}") for number in range(len(self.stages)))),
            LazySteps(len(starts) + 1, make),
            tuple(preloaded),
            buffers=len(starts) + 1,
        )

    def step(
        self, leaving: Sequence[tuple[int, int, int, Span]], computes: tuple[Compute, ...], cycle: int
    ) -> Step:
        frees, writes = [], []
        for number, frame, row, cols in leaving:
            box = Box(((frame, frame + 1), None, (row, row + 1), cols))
            if number in self.read:
                frees.append(Free(self.name(number), box))
            else:
                writes.append(WriteBack(self.name(number), box))
        return Step(tuple(frees), tuple(writes), compute=computes, start=cycle)

    def data(self, seed: int) -> dict[str, Values]:
        """Random integers for the image and the weights."""
        random = np.random.default_rng(seed)
        return {
            tensor.name: random.integers(-8, 9, tensor.shape)
            for tensor in self.tensors()
            if tensor.role in ("input", "kernels")
        }

    def expected(self, data: dict[str, Values]) -> dict[str, Values]:
        """What the stages compute, by the reference."""
        found: dict[int, Values] = {IMAGE: data["image"]}
        for number, stage in enumerate(self.stages):
            layer, read = stage.layer, [found[source] for source in stage.inputs]
            if layer.kind == "add":
                found[number] = reference_sum(read)
            elif layer.kind == "pool":
                found[number] = reference_pool(layer, np.concatenate(read, axis=1))
            else:
                if layer.kind == "fc":
                    read = [values.reshape(self.frames, -1, 1, 1) for values in read]
                values = np.concatenate(read, axis=1)
                found[number] = reference_convolution(layer, values, data[f"w{number}"])
        return {self.name(number): values for number, values in found.items() if number not in self.read}


def random_layer(random: Random, given: tuple[int, int, int], joined: int) -> Layer | Pool | Add:
    """A layer that takes a number of inputs of a shape."""
    channels, height, width = given
    kind = random.choice(("conv", "conv", "conv", "pool", "add", "fc"))
    if kind == "add":
        return Add(name="add", kind="add", input=given)
    if kind == "fc":
        return Layer(kind="fc", inputs=joined * channels * height * width, outputs=random.randint(1, 3))
    dilation = tuple(random.choice((1, 1, 2)) if kind == "conv" else 1 for _ in "yx")
    kernel = tuple(
        random.randint(1, max(1, min(3, (size - 1) // by + 1)))
        for size, by in zip((height, width), dilation, strict=True)
    )
    extent = [by * (size - 1) + 1 for size, by in zip(kernel, dilation, strict=True)]
    padding = tuple(random.randint(0, extent[axis] - 1) for axis in (0, 0, 1, 1))
    stride = random.randint(1, 3), random.randint(1, 2)
    table = {
        "input": (joined * channels, height, width),
        "kernel": kernel,
        "stride": stride,
        "padding": padding,
    }
    if kind == "pool":
        return Pool(name="pool", kind="pool", op=random.choice(("max", "average")), **table)
    groups = random.choice([n for n in range(1, joined * channels + 1) if joined * channels % n == 0])
    return Layer(kernels=groups * random.randint(1, 2), groups=groups, dilation=dilation, **table)


def random_pipeline(random: Random) -> tuple[Pipeline, Program]:
    """A pipeline of a few small layers, and a program of it."""
    shapes = {IMAGE: (random.randint(1, 2), random.randint(1, 6), random.randint(1, 6))}
    stages: list[Stage] = []
    for number in range(random.randint(1, 5)):
        shape = shapes[random.choice(list(shapes))] if stages else shapes[IMAGE]
        alike = [other for other, found in shapes.items() if found == shape]
        inputs = tuple(random.sample(alike, random.randint(1, min(2, len(alike)))))
        layer = random_layer(random, shape, len(inputs))
        stages.append(Stage(layer, inputs, random.randint(1, 5), random.randint(1, 3)))
        shapes[number] = layer.output
    late = random if random.random() < 0.7 else None
    found = Pipeline(stages, shapes[IMAGE], random.randint(1, 2), late)
    return found, found.program(late)


def pipelines() -> st.SearchStrategy[tuple[Pipeline, Program]]:
    return st.integers(0, 2**32 - 1).map(lambda seed: random_pipeline(Random(seed)))
