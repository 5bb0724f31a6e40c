"""Measure the simulator on long programs, each in a process of its own: time, and peak memory.

python tests/benchmarks/simulator.py [NAME ...]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from measuring import Benchmark, peak_memory, timed

from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    LazySteps,
    Load,
    Memory,
    Program,
    Report,
    Step,
    Tensor,
    WriteBack,
    execute,
)


def product(sizes: tuple[int, int, int], tiles: tuple[int, int, int], cores: int = 1) -> Program:
    """Return a matrix product o = w @ x in tiles, inner axis last, as a DSP or several cores execute it.

    Parameters
    ----------
    sizes, tiles
        Rows of w, columns of x, and the inner axis: of the matrices, and of a tile.
    cores
        Each has a memory and tensors of its own and executes a whole product.
    """
    rows, cols, inner = (
        [(first, min(first + tile, size)) for first in range(0, size, tile)]
        for size, tile in zip(sizes, tiles, strict=True)
    )
    height, width, depth = sizes
    tensors = []
    for core in range(cores):
        memory = f"m{core}"
        tensors += [
            Tensor(f"w{core}", (height, depth), "kernels", memory, buffer=tiles[0] * tiles[2]),
            Tensor(f"x{core}", (depth, width), "input", memory, buffer=tiles[2] * tiles[1]),
            Tensor(
                f"o{core}",
                (height, width),
                "output",
                memory,
                macs_per_element=depth,
                buffer=tiles[0] * tiles[1],
            ),
        ]
    names = [(f"w{core}", f"x{core}", f"o{core}") for core in range(cores)]

    def make() -> Iterator[Step]:
        held: tuple[Box, Box] | None = None
        done: Box | None = None
        for row in rows:
            for col in cols:
                for part in inner:
                    left, right, target = Box((row, part)), Box((part, col)), Box((row, col))
                    free = (
                        [a for w, x, _ in names for a in (Free(w, held[0]), Free(x, held[1]))] if held else []
                    )
                    write = [WriteBack(o, done, "bus") for *_, o in names] if done and not part[0] else []
                    load = [a for w, x, _ in names for a in (Load(w, left, "bus"), Load(x, right, "bus"))]
                    compute = [
                        Compute(o, target, ((w, left), (x, right)), part[1] - part[0], engine=f"core{core}")
                        for core, (w, x, o) in enumerate(names)
                    ]
                    yield Step(tuple(free), tuple(write), tuple(load), tuple(compute))
                    held, done = (left, right), target
        assert held is not None
        assert done is not None
        free = [a for w, x, _ in names for a in (Free(w, held[0]), Free(x, held[1]))]
        yield Step(tuple(free), tuple(WriteBack(o, done, "bus") for *_, o in names))

    engines = (
        Engine("bus", setup=150, elements_per_cycle=32, setup_on="core0"),
        *(Engine(f"core{core}", macs_per_cycle=32, streams_over="bus") for core in range(cores)),
    )
    return Program(
        tuple(tensors),
        tuple(Memory(f"m{core}", 2 * sum(t.buffer or 0 for t in tensors[:3])) for core in range(cores)),
        engines,
        LazySteps(len(rows) * len(cols) * len(inner) + 1, make),
        copies=2,
    )


def counted(program: Program) -> Report:
    report = execute(program, lockstep=True)
    assert report.valid, report.violation
    return report


def hundred_thousand() -> Callable[[], Report]:
    lazy = product((40 * 64, 50 * 64, 50 * 64), (64, 64, 64))
    program = Program(lazy.tensors, lazy.memories, lazy.engines, tuple(lazy.steps), copies=2)
    return lambda: counted(program)


def hundred_thousand_lazy() -> Callable[[], Report]:
    program = product((40 * 64, 50 * 64, 50 * 64), (64, 64, 64))
    return lambda: counted(program)


def million_lazy() -> Callable[[], Report]:
    program = product((100 * 16, 100 * 16, 100 * 16), (16, 16, 16))
    return lambda: counted(program)


def fully_connected() -> Callable[[], Report]:
    program = product((4096, 1, 25088), (64, 1, 256))
    return lambda: counted(program)


def many_cores() -> Callable[[], Report]:
    program = product((10 * 64, 15 * 64, 20 * 64), (64, 64, 64), cores=32)
    return lambda: counted(program)


def grouping() -> Callable[[], Report]:
    from tilewright.grouping.lowering import lower
    from tilewright.heuristics.grouping import strips
    from tilewright.papers.s1.tables import bundled

    problem = bundled("vgg16-conv1_2-g8", 4).problem
    program = lower(problem, strips.plan(problem))
    return lambda: execute(program)


def grouping_overlapped() -> Callable[[], Report]:
    from tilewright.grouping.lowering import lower
    from tilewright.heuristics.grouping import strips
    from tilewright.papers.s1.tables import bundled

    problem = bundled("vgg16-conv1_2-g8", 4).problem
    program = lower(problem, strips.plan(problem))
    return lambda: execute(program, overlapped=True)


def resnet(channels: int, *, overlapped: bool = False, numeric: bool = False) -> Callable[[], Report]:
    """Return the execution of two frames of ResNet-50 with a number of channels first, pixel by pixel.

    Its engines, one for each of the layers, are all at work together, under a static schedule.
    """
    sys.path.append(str(Path(__file__).parents[1] / "simulator"))
    from pipelines import IMAGE, Pipeline, Stage

    from tilewright.spec.layer import Layer
    from tilewright.spec.network import Add, Pool

    image = 3, 224, 224
    stages: list[Stage] = []

    def add(layer: Layer | Pool | Add, *inputs: int) -> int:
        rows, cols = layer.output_plane
        stages.append(Stage(layer, inputs, max(1, 112 * 112 // (rows * cols))))
        return len(stages) - 1

    def conv(source: int, kernels: int, size: int, stride: int = 1) -> int:
        given = image if source == IMAGE else stages[source].layer.output
        side = size // 2
        table = {"kernel": (size, size), "stride": (stride, stride), "padding": (side,) * 4}
        return add(Layer(input=given, kernels=kernels, **table), source)

    def pool(source: int, op: str, size: int, stride: int, pad: int) -> int:
        table = {"kernel": (size, size), "stride": (stride, stride), "padding": (pad,) * 4, "op": op}
        given = stages[source].layer.output
        return add(Pool(name=f"pool {len(stages)}", kind="pool", input=given, **table), source)

    last = pool(conv(IMAGE, channels, 7, 2), "max", 3, 2, 1)
    for level, blocks in enumerate((3, 4, 6, 3)):
        wide = channels * 2**level
        for block in range(blocks):
            stride = 2 if level and not block else 1
            short = last if block else conv(last, 4 * wide, 1, stride)
            last = conv(conv(conv(last, wide, 1), wide, 3, stride), 4 * wide, 1)
            shape = stages[last].layer.output
            last = add(Add(name=f"add {len(stages)}", kind="add", input=shape), last, short)
    last = pool(last, "average", 7, 7, 0)
    add(Layer(kind="fc", inputs=stages[last].layer.output[0], outputs=1000), last)
    pipeline = Pipeline(stages, image, 2)
    program = pipeline.program()
    data = pipeline.data(0) if numeric else None

    def run() -> Report:
        report = execute(program, overlapped=overlapped, data=data)
        assert report.valid, report.violation
        return report

    return run


def counted_dsp() -> Callable[[], Report]:
    """Return the execution of a plan of single outputs, of which most tiles are alike."""
    sys.path.append(str(Path(__file__).parents[1] / "tiling"))
    from layers import make

    from tilewright.tiling import Plan, simulate
    from tilewright.tiling.dsp.plan import DspPlan

    layer = {"input": [64, 112, 112], "kernels": 256, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = make(layer, {"double_buffering": True, "padding": "generated"})
    plan = Plan((DspPlan((1, 1, 1, 1, 1, 1), "nckyx", "halo"),))
    return lambda: simulate(problem, plan, overlapped=False)


def counted_npu() -> Callable[[], Report]:
    """Return the execution of a plan of single outputs on an NPU, of which most tiles are alike."""
    sys.path.append(str(Path(__file__).parents[1] / "tiling"))
    from test_npu import make

    from tilewright.tiling import Plan, simulate
    from tilewright.tiling.npu.plan import NpuPlan

    layer = {"input": [512, 226, 226], "kernels": 512, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = make(layer, {"tles": 4, "tlts": 8})
    return lambda: simulate(problem, Plan((NpuPlan("KS", "OS", (1, 1, 1, 1)),)), overlapped=False)


def numeric_tile() -> Callable[[], object]:
    import numpy as np

    from tilewright.simulator.arithmetic.reference import random_values
    from tilewright.simulator.operations import ConvolveBox
    from tilewright.spec.layer import Layer

    layer = Layer(input=(256, 56, 56), kernels=256, kernel=(3, 3), padding=(1, 1, 1, 1))
    values, kernels = random_values(layer, 0)
    chip = {"input": np.pad(values, ((0, 0), (0, 0), (1, 1), (1, 1))), "kernels": kernels}
    tile = ConvolveBox(layer, (0, 1), (0, 1), (0, 256), (0, 256), (0, 56), (0, 56))
    return lambda: tile(chip)


MEASURED: dict[str, tuple[str, Callable[[], Callable[[], object]]]] = {
    "steps": ("100,001 steps in a tuple: counting, sequential, lockstep", hundred_thousand),
    "lazy": ("100,001 steps made on the way", hundred_thousand_lazy),
    "million": ("1,000,001 steps made on the way", million_lazy),
    "weights": ("6,273 steps of a layer with 25088 x 4096 weights", fully_connected),
    "cores": ("3,001 steps on 32 cores", many_cores),
    "alike": ("205,520,897 steps on a DSP, those that are alike counted", counted_dsp),
    "alike-npu": ("418,414,593 steps on an NPU, those that are alike counted", counted_npu),
    "grouping": ("12,544 steps of a 226 x 226 layer in groups of patches", grouping),
    "overlapped": ("... with the event-driven timeline", grouping_overlapped),
    "pipeline": ("156,805 steps of ResNet-50 under a schedule", lambda: resnet(1)),
    "clocks": ("... of it, with the event-driven timeline", lambda: resnet(1, overlapped=True)),
    "numbers": ("... with real integers of a sixteenth of its channels", lambda: resnet(4, numeric=True)),
    "numeric": ("1.8 * 10^9 MACs of one tile", numeric_tile),
}


def measure(name: str) -> None:
    """Print the time and the peak of memory of one measurement, made in this process."""
    work = MEASURED[name][1]()
    print(json.dumps([timed(work)[0], peak_memory()]))


def main() -> None:
    """Run what is named, or all measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", choices=[[], *MEASURED], default=[])
    parser.add_argument("--alone", action="store_true", help=argparse.SUPPRESS)
    bench = Benchmark("simulator", parser)
    if bench.arguments.alone:
        measure(*bench.arguments.names)
        return
    for name in bench.arguments.names or MEASURED:
        command = [sys.executable, __file__, "--alone", name]
        said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        seconds, peak = json.loads(said)
        what = MEASURED[name][0]
        bench.note(what, seconds, "s")
        bench.note(f"{what}, memory", peak, "MiB")
    bench.close()


if __name__ == "__main__":
    main()
