"""Print what the grouping heuristics reach: the grid of the S1 paper, and layers of real networks.

    PYTHONPATH=bindings python tests/benchmarks/heuristics.py grid [SECONDS] [kmin|free]
    PYTHONPATH=bindings python tests/benchmarks/heuristics.py layers [SECONDS] [NAME]
    PYTHONPATH=bindings python tests/benchmarks/heuristics.py cold

SECONDS is the time of the improver per instance; one core is used.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads, objective
from tilewright.grouping.problem import GroupingLimits, GroupingMachine
from tilewright.spec.layer import Layer

LAYERS = {
    "lenet5-conv1": Layer(input=(1, 32, 32), kernels=6, kernel=(5, 5)),
    "34x34": Layer(input=(1, 34, 34), kernels=1, kernel=(3, 3)),
    "58x58": Layer(input=(1, 58, 58), kernels=1, kernel=(3, 3)),
    "alexnet-conv2": Layer(input=(1, 27, 27), kernels=1, kernel=(5, 5), padding=(2, 2, 2, 2)),
    "vgg-conv1": Layer(input=(1, 224, 224), kernels=1, kernel=(3, 3), padding=(1, 1, 1, 1)),
}


def loads(problem: Problem, plan: Plan) -> int:
    """Return the pixel loads of a plan that must be within all limits."""
    from tilewright.heuristics.grouping._measure import value

    assert value(problem, plan).violations == 0
    return int(count_loads(problem, plan.steps(problem)).sum())


def grid(seconds: float, steps: str) -> None:
    """Print, for each cell, the loads beyond the compulsory ones and the seconds to the best plan."""
    from tilewright.heuristics.grouping import lns, row_by_row, zigzag

    solved, best_gain = 0, 0.0
    print("size  loads - size^2 (seconds) for groups of 2..10")
    for size in range(4, 13):
        cells = []
        for group_size in range(2, 11):
            problem = Problem(
                layer=Layer(input=(1, size, size), kernels=1, kernel=(3, 3)),
                machine=GroupingMachine(group_size=group_size),
                limits=GroupingLimits(steps=steps),  # type: ignore[arg-type]
            )
            paper = min(objective(problem, h.plan(problem)) for h in (row_by_row, zigzag))
            last = [0.0]

            def note(_plan: Plan, last: list[float] = last) -> None:
                last[0] = time.monotonic()

            began = time.monotonic()
            plan = lns.plan(problem, RunContext(deadline=began + seconds, on_plan=note))
            excess = loads(problem, plan) - size * size
            solved += excess == 0
            best_gain = max(best_gain, 1 - objective(problem, plan) / paper)
            assert objective(problem, plan) <= paper
            cells.append(f"{excess:3d} ({last[0] - began:4.1f})")
        print(f"{size:4d} ", " ".join(cells), flush=True)
    print(f"{solved} of 81 at the compulsory loads; largest gain over the paper's orders {best_gain:.1%}")


def layers(seconds: float, only: str) -> None:
    """Print the objective (loads + steps) and its excess over the compulsory one."""
    from tilewright.heuristics.grouping import beam, lns, row_by_row, strips, zigzag

    print("layer           group  compulsory  row/zigzag  strips    beam (s)       lns  excess  loads  steps")
    for name, layer in LAYERS.items():
        for group_size in (4, 8, 16, 32):
            if only not in name:
                continue
            problem = Problem(layer=layer, machine=GroupingMachine(group_size=group_size))
            least = problem.cost(len(problem.needed_pixels), problem.kmin)
            paper = min(objective(problem, h.plan(problem)) for h in (row_by_row, zigzag))
            began = time.monotonic()
            grown = beam.plan(problem)
            spent = time.monotonic() - began
            plan = lns.plan(problem, RunContext(start=grown, deadline=time.monotonic() + seconds))
            final = objective(problem, plan)
            walked = objective(problem, strips.plan(problem))
            print(
                f"{name:14s} {group_size:6d} {least:11d} {paper:11d} {walked:7d}"
                f" {objective(problem, grown):7d} ({spent:3.1f}) {final:9d} {final / least - 1:8.1%}"
                f" {loads(problem, plan):6d} {plan.n_steps:6d}",
                flush=True,
            )


def cold() -> None:
    """Print how long the compiled functions take to compile when nothing is cached."""
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp()
    from tilewright.heuristics.grouping import lns

    problem = Problem(
        layer=Layer(input=(1, 8, 8), kernels=1, kernel=(3, 3)), machine=GroupingMachine(group_size=2)
    )
    for text in ("cold", "warm"):
        began, worked = time.monotonic(), time.process_time()
        lns.plan(problem, RunContext(), attempts=3)
        wall, busy = time.monotonic() - began, time.process_time() - worked
        print(f"{text}: {wall:.2f} s, of the processor {busy:.2f} s")


if __name__ == "__main__":
    table, *rest = sys.argv[1:] or ["grid"]
    amount = float(rest[0]) if rest else 5.0
    if table == "grid":
        grid(amount, rest[1] if len(rest) > 1 else "kmin")
    elif table == "layers":
        layers(amount, rest[1] if len(rest) > 1 else "")
    else:
        cold()
