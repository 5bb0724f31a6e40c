"""Measure what must be fast, and how good a short search is: ``python tests/benchmarks/speed.py``."""

from __future__ import annotations

import subprocess
import sys
import time

from measuring import Benchmark

from tilewright.core.context import RunContext
from tilewright.grouping import objective, simulate
from tilewright.grouping.bounds.best import best_bound
from tilewright.heuristics.grouping import lns, strips, zigzag
from tilewright.papers.s1.tables import bundled, grid_cell

BEST_LOADS = {2: 208, 3: 177, 4: 162, 5: 152, 6: 146, 7: 144}
"""Loads of the best known plans of the 12x12 cells, by group size."""


def main() -> None:
    """Run all measurements."""
    bench = Benchmark("speed")
    command = [sys.executable, "-m", "tilewright", "--help"]
    bench.time("tilewright --help", lambda: subprocess.run(command, capture_output=True), 3)

    problem = bundled("resnet18-conv2-g8", 4).problem
    plan = strips.plan(problem)
    what = f"numeric simulation, 58x58, 64 channels, {plan.n_steps} steps"
    bench.time(what, lambda: simulate(problem, plan, numeric=True), 3)
    large = bundled("vgg16-conv1_2-g8", 4).problem
    tall = strips.plan(large)
    what = f"counting simulation, 226x226, 64 channels, {tall.n_steps} steps"
    bench.time(what, lambda: simulate(large, tall, overlapped=False), 3)
    bench.time("... with the double-buffered timeline", lambda: simulate(large, tall))
    bench.time("bounds of the 226x226 layer", lambda: best_bound(large), 3)

    lns.plan(grid_cell(6, 2, "kmin").problem, RunContext(), attempts=20)  # compiles
    for group, loads in BEST_LOADS.items():
        cell = grid_cell(12, group, "kmin").problem
        deadline = time.monotonic() + 5
        cost = objective(cell, lns.plan(cell, RunContext(start=zigzag.plan(cell), deadline=deadline)))
        best = cell.cost(loads, cell.kmin)
        what = f"12x12, group size {group}: local search from ZigZag, 5 s"
        bench.note(what, cost, "", f"{cost / best - 1:.1%} above the best known")
    bench.close()


if __name__ == "__main__":
    main()
