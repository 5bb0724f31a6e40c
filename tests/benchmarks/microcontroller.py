"""Model what emitted C takes, on layers, and judge it: ``python -m tests.benchmarks.microcontroller``.

It writes ``docs/results/microcontrollers.md``, or to ``-o FILE``. Layers are made here, one a file, and
measured on QEMU's cores and on picorv32 as Verilog. The model that fits them is judged on networks that it
has not seen: the keyword spotter of ``docs/files``, or all ``*.tflite`` of the folder
``TILEWRIGHT_MLPERF_TINY``.
"""

from __future__ import annotations

import argparse
import itertools
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tests.importing.tflite_files import TfliteFile

from tilewright.codegen.microcontroller import microcontroller_project
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.tflite.exact import exact_operations
from tilewright.residency import Plan, Problem, memory_front
from tilewright.residency.core_cycles import Counts, counts_of_shape
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.graph import members
from tilewright.residency.machine import CoreCycles

ROOT = Path(__file__).parents[2]

PAGE = ROOT / "docs" / "results" / "microcontrollers.md"

MACHINE = "cortex-m7"

TERMS = {
    "mac": "MAC of a convolution or product: four outputs are added up together",
    "depthwise_mac": "MAC of a depthwise convolution",
    "loop": "loop over the input channels of a place of the window, for four outputs",
    "output": "output with weights: its bias, its rescaling in integers",
    "product_output": "the same, with the rescaling in double precision, as LiteRT has it in products",
    "place": "place of a window of several in a map, for each pixel of the output",
    "place_in_line": "place of a window of several in a line buffer, for each pixel of the output",
    "pixel": "pixel that is computed or loaded: a turn",
    "sum": "output of a sum",
    "pooled": "value that a pool reads in a window",
    "running": "value that is added to running values",
    "moved": "byte that is read or written outside",
}
"""What the model counts, each at a price of its own."""

UNLIKE = ("softmax", "other")
"""Values that the model has no part in: each has the dearest price of `others`."""


class Target(NamedTuple):
    """What is measured, under the name of its column, and the row that has it."""

    name: str
    row: str


TARGETS = (
    Target("picorv32, cycles", "cycles"),
    Target("RV32IM, instructions", "instructions"),
    Target("Cortex-M4, instructions", "instructions"),
)

Prices = NDArray[np.float64]


class Measured(NamedTuple):
    """A file, what the model counts of it, and what each target took."""

    name: str
    counts: Mapping[str, int]
    taken: tuple[int, ...]


# Layers ---------------------------------------------------------------------------------------------------


class Shape(NamedTuple):
    """A layer with a window: its input, its kernel and its outputs."""

    rows: int
    columns: int
    channels: int
    kernel: tuple[int, int]
    stride: int = 1
    outputs: int = 0

    def __str__(self) -> str:
        strided = f" / {self.stride}" if self.stride > 1 else ""
        gives = f" to {self.outputs}" if self.outputs else ""
        size = f"{self.rows} x {self.columns} x {self.channels}"
        return f"{self.kernel[0]} x {self.kernel[1]}{strided} of {size}{gives}"


SAME, VALID = 0, 1

CONVOLUTIONS = (
    Shape(8, 8, 16, (3, 3), 1, 16),
    Shape(8, 8, 8, (1, 1), 1, 32),
    Shape(6, 6, 64, (1, 1), 1, 64),
    Shape(12, 12, 16, (1, 1), 2, 32),
    Shape(12, 12, 3, (3, 3), 1, 16),
    Shape(16, 16, 3, (3, 3), 2, 8),
    Shape(15, 9, 1, (7, 5), 2, 32),
    Shape(6, 6, 32, (3, 3), 1, 16),
    Shape(5, 7, 24, (3, 3), 2, 40),
    Shape(4, 4, 128, (1, 1), 1, 96),
)
DEPTHWISE = (
    Shape(10, 10, 8, (3, 3)),
    Shape(6, 6, 64, (3, 3)),
    Shape(12, 12, 32, (3, 3), 2),
    Shape(4, 4, 128, (3, 3)),
    Shape(7, 9, 48, (3, 3), 2),
)
POOLS = (Shape(8, 8, 16, (8, 8)), Shape(5, 9, 48, (5, 9)))
PRODUCTS = ((128, 128), (512, 64), (16, 96), (96, 12))
SUMS = ((8, 8, 16), (5, 5, 64))


def convolution(shape: Shape) -> TfliteFile:
    """Return a convolution of all channels, or a depthwise one if it has no number of outputs."""
    file = TfliteFile("int8")
    own = file.input([1, shape.rows, shape.columns, shape.channels])
    rows, columns = (-(-size // shape.stride) for size in (shape.rows, shape.columns))
    fields: dict[str, Any] = {"strideH": shape.stride, "strideW": shape.stride, "padding": SAME}
    if shape.outputs:
        weights = file.weights([shape.outputs, *shape.kernel, shape.channels], 0)
        operator, options = "CONV_2D", "Conv2DOptions"
    else:
        weights = file.weights([1, *shape.kernel, shape.channels], 3)
        operator, options = "DEPTHWISE_CONV_2D", "DepthwiseConv2DOptions"
        fields["depthMultiplier"] = 1
    result = file.value([1, rows, columns, shape.outputs or shape.channels])
    file.add(operator, [own, weights, file.bias(own, weights)], [result], options, **fields)
    return ended(file, result)


def product(inputs: int, outputs: int) -> TfliteFile:
    """Return a fully connected layer."""
    file = TfliteFile("int8")
    own = file.input([1, inputs])
    weights, result = file.weights([outputs, inputs], 0), file.value([1, outputs])
    file.add("FULLY_CONNECTED", [own, weights, file.bias(own, weights)], [result], "FullyConnectedOptions")
    return ended(file, result)


def pool(shape: Shape) -> TfliteFile:
    """Return an average over the whole plane."""
    file = TfliteFile("int8")
    own = file.input([1, shape.rows, shape.columns, shape.channels])
    result = file.tensor([1, 1, 1, shape.channels], scale=1.0)
    file.graph.tensors[result].quantization = file.graph.tensors[own].quantization
    fields = {"filterHeight": shape.kernel[0], "filterWidth": shape.kernel[1], "padding": VALID}
    file.add("AVERAGE_POOL_2D", [own], [result], "Pool2DOptions", strideH=1, strideW=1, **fields)
    return ended(file, result)


def added(shape: tuple[int, int, int]) -> TfliteFile:
    """Return a sum of two maps."""
    file = TfliteFile("int8")
    first, second, result = file.input([1, *shape]), file.input([1, *shape]), file.value([1, *shape])
    file.add("ADD", [first, second], [result], "AddOptions")
    return ended(file, result)


def of_values(operator: str, options: str, shape: Sequence[int], **fields: Any) -> TfliteFile:
    """Return a function of a map, with the scale and the zero point that its result must have."""
    file = TfliteFile("int8")
    own = file.input([1, *shape])
    result = file.tensor([1, *shape], scale=1 / 256, zero=-128)
    file.add(operator, [own], [result], options, **fields)
    return ended(file, result)


def others() -> dict[str, TfliteFile]:
    """Return layers of operations that the model has no term for."""
    maps = TfliteFile("int8")
    first, second, result = (maps.input([1, 8, 8, 16]), maps.input([1, 8, 8, 16]), maps.value([1, 8, 8, 16]))
    maps.add("MUL", [first, second], [result], "MulOptions")
    return {
        "softmax of 12": of_values("SOFTMAX", "SoftmaxOptions", [12], beta=1.0),
        "softmax of 100": of_values("SOFTMAX", "SoftmaxOptions", [100], beta=1.0),
        "logistic of 8 x 8 x 16": of_values("LOGISTIC", "", [8, 8, 16]),
        "product of maps, 8 x 8 x 16": ended(maps, result),
    }


def ended(file: TfliteFile, output: int) -> TfliteFile:
    """Return a file whose network gives a tensor."""
    file.graph.outputs = [output]
    return file


def layers() -> dict[str, TfliteFile]:
    """Return all layers that the model is fitted on, by what they are called."""
    found = {f"convolution {shape}": convolution(shape) for shape in CONVOLUTIONS}
    found |= {f"depthwise {shape}": convolution(shape) for shape in DEPTHWISE}
    found |= {f"product of {sizes[0]} to {sizes[1]}": product(*sizes) for sizes in PRODUCTS}
    found |= {f"average {shape}": pool(shape) for shape in POOLS}
    return found | {f"sum of {' x '.join(map(str, shape))}": added(shape) for shape in SUMS}


# The model ------------------------------------------------------------------------------------------------


def counts_of(problem: Problem, plan: Plan) -> Counts:
    """Return what the model counts of a plan."""
    found = dict.fromkeys(CoreCycles.model_fields, 0)
    for step in decode_plan(problem, plan):
        group, shape, whole = step.group, step.choice.shape, frozenset(members(step.on_chip))
        streamed = [tensor for tensor in group.sources if tensor not in whole]
        counts = counts_of_shape(group, shape, streamed, whole, step.moved)
        found = {name: count + counts[name] for name, count in found.items()}
    return found


def fitted(layers: Sequence[Measured], target: int) -> Prices:
    """Return the prices, none below zero, with the least sum of squares of relative errors.

    The best prices are least squares of those that are not zero, so all sets of these are tried.
    """
    counts = np.array([[each.counts[term] for term in TERMS] for each in layers], float)
    rows = counts / np.array([[each.taken[target]] for each in layers], float)
    best, least = np.zeros(len(TERMS)), np.inf
    for kept in itertools.product((False, True), repeat=len(TERMS)):
        chosen = np.array(kept)
        prices = np.zeros(len(TERMS))
        prices[chosen] = np.linalg.lstsq(rows[:, chosen], np.ones(len(rows)), rcond=None)[0]
        squares = float(((rows @ prices - 1) ** 2).sum())
        if (prices >= 0).all() and squares < least:
            best, least = prices, squares
    return best


def predicted(each: Measured, prices: Prices) -> float:
    """Return what the model says of a file."""
    return float(sum(each.counts[term] * price for term, price in zip(TERMS, prices, strict=True)))


def error(each: Measured, prices: Prices, target: int) -> float:
    """Return the relative error of the model, above zero where it says too much."""
    return predicted(each, prices) / each.taken[target] - 1


# Measurements ---------------------------------------------------------------------------------------------


class Bench:
    """Where files become projects that run, with one simulator of picorv32 for all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.simulator, self.made = folder, folder / "board", 0

    def measure(self, name: str, path: Path, inputs: str) -> Measured:
        """Return what a file takes, planned in the least RAM with nothing computed twice."""
        changes = Changes(machine=MACHINE, values=(("limits.inputs", inputs),))
        problem: Problem = assemble(str(path), changes).problem
        plan = memory_front(problem)[-1].plan
        self.made += 1
        folder = self.folder / str(self.made)
        network = exact_operations(path)
        files = microcontroller_project(problem, plan, network, path.stem, "")
        for place, content in files.items():
            (folder / place).parent.mkdir(parents=True, exist_ok=True)
            (folder / place).write_bytes(content)
        if not self.simulator.exists():
            rows_of(["make", "-s", "build/rtl/board", f"PYTHON={sys.executable}"], folder)
            (folder / "build" / "rtl" / "board").rename(self.simulator)
        rows_of(["make", "-s", "build/rtl.bin"], folder)
        printed = (
            rows_of([str(self.simulator), "build/rtl.bin", "src/riscv.ld", "0"], folder),
            rows_of(["make", "-s", "qemu-riscv"], folder),
            rows_of(["make", "-s", "qemu-arm"], folder),
        )
        taken = tuple(int(rows[target.row]) for rows, target in zip(printed, TARGETS, strict=True))
        print(f"{name:<64}" + "".join(f"{value:>14,}" for value in taken), flush=True)
        return Measured(name, counts_of(problem, plan), taken)


def rows_of(command: Sequence[str], folder: Path) -> dict[str, str]:
    """Run a command and return the rows that it prints, by their names; stop where outputs are wrong."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    rows = dict(line.split("\t") for line in done.stdout.splitlines() if line.count("\t") == 1)
    if done.returncode or rows.get("wrong", "0 bytes of outputs") != "0 bytes of outputs":
        raise SystemExit(f"{' '.join(command)} in {folder}:\n{done.stdout}{done.stderr}")
    return rows


# The page -------------------------------------------------------------------------------------------------

HEAD = """# Results: cycles on micro-controllers

What does a network take on a core, before it is compiled?

    python -m tests.benchmarks.microcontroller

This command writes the page. The model is a sum: what a plan does, each at a price of its own. Prices are
fitted on {layers} measurements of single layers that are made for it, each with its input outside and in RAM.
The sum of squares of relative errors is least, and no price is below zero. The networks have no part in that:
what the model says of them is a prediction.

`picorv32` is the core as Verilog ([`make rtl`](../microcontrollers.md#in-c)), whose memories answer in the
cycle in which it asks. Instructions of RV32IM and of a Cortex-M4 are counted by QEMU. Prices are those of the
C and of gcc 12 at -O2, with the options of the Makefile.

## Networks

Plans of least RAM that compute nothing twice, inputs outside. Softmax is left out here.

"""

PRICES = """
## Prices

What one of these takes:

"""

OTHERS = """
## Other operations

They have no part in the fit. What a value takes, beyond turns and what is moved:

"""

LAYERS = """
## Layers

Errors of the model on what it is fitted on; root of the mean square: {roots}.

"""


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def network_row(each: Measured, prices: Sequence[Prices]) -> list[str]:
    """Return what a network takes, what the model says, and the error, of all targets."""
    row = [each.name]
    for target, price in enumerate(prices):
        found = predicted(each, price)
        row += [f"{each.taken[target]:,}", f"{found:,.0f}", f"{error(each, price, target):+.1%}"]
    return row


def of_others(each: Measured, prices: Sequence[Prices]) -> list[float]:
    """Return what a value of an operation without a term takes beyond what the model has."""
    pairs, values = zip(each.taken, prices, strict=True), sum(each.counts[name] for name in UNLIKE)
    return [(taken - predicted(each, price)) / values for taken, price in pairs]


def page(layers: Sequence[Measured], unlike: Sequence[Measured], networks: Sequence[Measured]) -> str:
    """Return the page."""
    prices = [fitted(layers, target) for target in range(len(TARGETS))]
    names = [target.name for target in TARGETS]
    text = HEAD.format(layers=len(layers))
    head = [word for name in names for word in (name, "model", "error")]
    text += table(["network", *head], [network_row(each, prices) for each in networks])
    text += PRICES + table(
        ["", *names],
        [[told, *(f"{price[at]:.2f}" for price in prices)] for at, told in enumerate(TERMS.values())],
    )
    text += OTHERS + table(
        ["a value of", *names],
        [[each.name, *(f"{one:.0f}" for one in of_others(each, prices))] for each in unlike],
    )
    errors = [[error(each, price, at) for at, price in enumerate(prices)] for each in layers]
    roots = np.sqrt((np.array(errors) ** 2).mean(axis=0))
    text += LAYERS.format(roots=", ".join(f"{root:.1%}" for root in roots))
    rows = [
        [each.name, *(f"{one:+.1%}" for one in found)] for each, found in zip(layers, errors, strict=True)
    ]
    return text + table(["layer, input", *names], rows)


def main() -> None:
    """Measure all, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=PAGE)
    arguments = parser.parse_args()
    folder = Path(os.environ.get("TILEWRIGHT_MLPERF_TINY", ROOT / "docs" / "files"))
    with tempfile.TemporaryDirectory() as scratch:
        bench, found = Bench(Path(scratch)), []
        for name, file in layers().items():
            path = file.save(Path(scratch) / "layer.tflite", *file.graph.outputs)
            found += [
                bench.measure(f"{name}, {where}", path, inputs)
                for where, inputs in (("outside", "outside"), ("in RAM", "memory"))
            ]
        unlike = []
        for name, file in others().items():
            path = file.save(Path(scratch) / "layer.tflite", *file.graph.outputs)
            unlike.append(bench.measure(name, path, "outside"))
        networks = [bench.measure(path.stem, path, "outside") for path in sorted(folder.glob("*.tflite"))]
    arguments.output.write_text(page(found, unlike, networks), encoding="utf-8")


if __name__ == "__main__":
    main()
