"""Measure the exact search for grouping: how long it takes to prove cells of the S1 paper's grid.

python tests/benchmarks/exact.py [SECONDS [kmin|free]]
"""

from __future__ import annotations

import argparse
import time

from measuring import Benchmark, peak_memory, timed

from tilewright.grouping import Problem, best_bound
from tilewright.grouping.exact.search import prove
from tilewright.papers.s1.tables import grid_cell

CELLS = ((6, 2), (7, 2), (8, 2), (9, 2), (7, 3), (8, 3), (9, 3), (9, 4), (10, 5))
"""Input sizes and group sizes whose optimum is above the compulsory bound."""


def proven(problem: Problem, limit: float) -> tuple[int, bool]:
    """Return the bound that is reached within a time limit, and whether a plan meets it."""
    bound, optimal = best_bound(problem).value, False
    for answer in prove(problem, time.monotonic() + limit, bound, threads=2):
        bound, optimal = answer.bound, answer.plan is not None
    return bound, optimal


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("seconds", nargs="?", type=float, default=60.0)
    parser.add_argument("steps", nargs="?", choices=["kmin", "free"], default="kmin")
    bench = Benchmark("exact", parser)
    limit, steps = bench.arguments.seconds, bench.arguments.steps
    proven(grid_cell(5, 2, steps).problem, limit)  # compiles what is compiled
    for size, group in CELLS:
        problem = grid_cell(size, group, steps).problem
        seconds, (bound, optimal) = timed(lambda problem=problem: proven(problem, limit))
        remark = f"bound {bound}, {'optimal' if optimal else 'open'}, at most {peak_memory():.0f} MiB so far"
        bench.note(f"{size}x{size}, group size {group}, {steps}", seconds, "s", remark)
    bench.close()


if __name__ == "__main__":
    main()
