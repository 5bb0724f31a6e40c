"""Measure what must be fast, and print it beside what is aimed at: ``python tests/benchmarks/speed.py``."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Callable

from tilewright.core.context import RunContext
from tilewright.grouping import Problem, objective, simulate
from tilewright.grouping.bounds.best import best_bound
from tilewright.heuristics.grouping import lns, strips, zigzag
from tilewright.papers.s1.tables import bundled, grid_cell


def seconds(work: Callable[[], object], runs: int = 3) -> float:
    """Return the least time of a few runs."""
    times = []
    for _ in range(runs):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return min(times)


def say(what: str, value: str, aim: str) -> None:
    print(f"{what:<66} {value:>12}   aim: {aim}", flush=True)


def resnet18() -> Problem:
    problem: Problem = bundled("resnet18-conv2-g8", 4).problem
    return problem


def vgg16() -> Problem:
    problem: Problem = bundled("vgg16-conv1_2-g8", 4).problem
    return problem


def main() -> None:
    """Run all measurements."""
    command = [sys.executable, "-m", "tilewright", "--help"]
    say(
        "tilewright --help", f"{seconds(lambda: subprocess.run(command, capture_output=True)):.2f} s", "0.4 s"
    )

    problem, plan = resnet18(), strips.plan(resnet18())
    say(
        f"numeric simulation, 58x58, 64 channels, {plan.n_steps} steps",
        f"{seconds(lambda: simulate(problem, plan, numeric=True)):.2f} s",
        "5 s",
    )
    large, tall = vgg16(), strips.plan(vgg16())
    say(
        f"counting simulation, 226x226, 64 channels, {tall.n_steps} steps",
        f"{seconds(lambda: simulate(large, tall, overlapped=False)):.2f} s",
        "5 s",
    )
    say("... with the double-buffered timeline", f"{seconds(lambda: simulate(large, tall), 1):.2f} s", "5 s")
    say("bounds of the 226x226 layer", f"{seconds(lambda: best_bound(large)):.2f} s", "1 s")

    lns.plan(
        grid_cell(6, 2, "kmin").problem, RunContext(deadline=time.monotonic() + 60), attempts=20
    )  # compiles
    for group, known in ((2, 208), (3, 177), (4, 162), (5, 152), (6, 147), (7, 144)):
        cell = grid_cell(12, group, "kmin").problem
        start = zigzag.plan(cell)
        found = lns.plan(cell, RunContext(start=start, deadline=time.monotonic() + 5))
        best = cell.cost(known, cell.kmin)
        excess = objective(cell, found) / best - 1
        say(f"12x12, group size {group}: local search from ZigZag, 5 s, above {best}", f"{excess:.1%}", "2 %")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    say("peak memory of all of the above", f"{peak:.0f} MiB", "1024 MiB")


if __name__ == "__main__":
    main()
