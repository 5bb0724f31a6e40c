"""Measure what the grouping heuristics reach: the grid of the S1 paper, and layers of real networks.

    python tests/benchmarks/heuristics.py grid [SECONDS] [--steps kmin|free]
    python tests/benchmarks/heuristics.py layers [SECONDS] [--only NAME]
    python tests/benchmarks/heuristics.py cold

SECONDS is the time of the improver per instance; one core is used. Measured is the cost of the plans, and by
`cold` the time to compile.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time

from measuring import Benchmark, timed

from tilewright.core.context import RunContext
from tilewright.grouping import Problem
from tilewright.grouping.cost import objective
from tilewright.grouping.problem import GroupingLimits, GroupingMachine
from tilewright.spec.layer import Layer

LAYERS = {
    "lenet5-conv1": Layer(input=(1, 32, 32), kernels=6, kernel=(5, 5)),
    "34x34": Layer(input=(1, 34, 34), kernels=1, kernel=(3, 3)),
    "58x58": Layer(input=(1, 58, 58), kernels=1, kernel=(3, 3)),
    "alexnet-conv2": Layer(input=(1, 27, 27), kernels=1, kernel=(5, 5), padding=(2, 2, 2, 2)),
    "vgg-conv1": Layer(input=(1, 224, 224), kernels=1, kernel=(3, 3), padding=(1, 1, 1, 1)),
}


def grid(bench: Benchmark, seconds: float, steps: str) -> None:
    """Measure, for each cell, the cost of the improver's plan."""
    from tilewright.heuristics.grouping import lns, row_by_row, zigzag

    for size in range(4, 13):
        for group_size in range(2, 11):
            problem = Problem(
                layer=Layer(input=(1, size, size), kernels=1, kernel=(3, 3)),
                machine=GroupingMachine(group_size=group_size),
                limits=GroupingLimits(steps=steps),  # type: ignore[arg-type]
            )
            paper = min(objective(problem, h.plan(problem)) for h in (row_by_row, zigzag))
            cost = objective(problem, lns.plan(problem, RunContext(deadline=time.monotonic() + seconds)))
            assert cost <= paper
            least = problem.cost(len(problem.needed_pixels), problem.kmin)
            remark = f"{cost - least} above the compulsory one, {1 - cost / paper:.1%} below the paper's"
            bench.note(f"{size}x{size}, group size {group_size}, {steps}", cost, "", remark)


def layers(bench: Benchmark, seconds: float, only: str) -> None:
    """Measure the cost of the plans that are grown and improved for real layers."""
    from tilewright.heuristics.grouping import beam, lns, row_by_row, strips, zigzag

    for name, layer in LAYERS.items():
        for group_size in (4, 8, 16, 32):
            if only not in name:
                continue
            what = f"{name}, group size {group_size}"
            problem = Problem(layer=layer, machine=GroupingMachine(group_size=group_size))
            least = problem.cost(len(problem.needed_pixels), problem.kmin)
            for heuristic in (row_by_row, zigzag, strips):
                cost = objective(problem, heuristic.plan(problem))
                bench.note(f"{what}, {heuristic.__name__.rpartition('.')[2]}", cost, "")
            grown = bench.time(f"{what}, time of beam", lambda problem=problem: beam.plan(problem))
            bench.note(f"{what}, beam", objective(problem, grown), "")
            plan = lns.plan(problem, RunContext(start=grown, deadline=time.monotonic() + seconds))
            cost = objective(problem, plan)
            bench.note(f"{what}, lns", cost, "", f"{cost / least - 1:.1%} above the compulsory one")


def cold(bench: Benchmark) -> None:
    """Measure how long the compiled functions take to compile when nothing is cached."""
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
    from tilewright.heuristics.grouping import lns

    problem = Problem(
        layer=Layer(input=(1, 8, 8), kernels=1, kernel=(3, 3)), machine=GroupingMachine(group_size=2)
    )
    for text in ("cold", "warm"):
        seconds, _ = timed(lambda: lns.plan(problem, RunContext(), attempts=3))
        bench.note(f"local search, compiled code {text}", seconds, "s")


def main() -> None:
    """Run the measurements of a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("table", nargs="?", choices=["grid", "layers", "cold"], default="grid")
    parser.add_argument("seconds", nargs="?", type=float, default=5.0)
    parser.add_argument("--steps", choices=["kmin", "free"], default="kmin")
    parser.add_argument("--only", default="", help="part of the names of layers")
    bench = Benchmark("heuristics", parser)
    arguments = bench.arguments
    if arguments.table == "grid":
        grid(bench, arguments.seconds, arguments.steps)
    elif arguments.table == "layers":
        layers(bench, arguments.seconds, arguments.only)
    else:
        cold(bench)
    bench.close()


if __name__ == "__main__":
    main()
