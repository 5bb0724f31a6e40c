"""Measure the exact search for splits: ``python tests/benchmarks/allocation.py [NETWORK ...]``."""

from __future__ import annotations

import resource
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.problem import Problem

NETWORKS = Path(__file__).parents[2] / "instances" / "networks"
OBJECTIVES = ("interval", "pes", "latency", "pareto")
SIDES = (16, 32, 64)
SECONDS = 60.0


def problem(name: str, side: int, minimise: str, interval: int | None = None) -> Problem:
    """Return a network on a square array, with a rate that lets an interval be twice the given one."""
    objective: dict[str, Any] = {"minimise": minimise}
    if minimise == "pes" and interval is not None:
        objective["frames_per_second"] = 25e6 / interval
    return Problem.model_validate(
        {
            "network": tomllib.loads((NETWORKS / f"{name}.toml").read_text("utf-8")),
            "machine": {"array": [side, side], "functional_units": 2, "clock_mhz": 50},
            "objective": objective,
        }
    )


def row(name: str, side: int) -> None:
    """Print the times of all objectives, and what was found."""
    cells, interval = [], None
    for minimise in OBJECTIVES:
        asked = problem(name, side, minimise, interval)
        began = time.perf_counter()
        found = exhaustive(asked, time.monotonic() + SECONDS)
        took = 1000 * (time.perf_counter() - began)
        assert found is not None
        interval = interval or found.value
        told = f"{len(found.plans)} plans" if minimise == "pareto" else f"{found.value:,}"
        cells.append(f"{took:>9.0f}{told:>14}{'' if found.proven else '?':<1}")
    print(f"{name:<14}{f'{side}x{side}':>8}" + "".join(cells), flush=True)


def main() -> None:
    """Run all measurements."""
    exhaustive(problem("mnist-tcpa", 4, "latency"))  # compiles what is compiled
    print("milliseconds and results; a question mark where the proof is not complete in time")
    print(f"{'network':<14}{'array':>8}" + "".join(f"{minimise:>23} " for minimise in OBJECTIVES))
    for name in sys.argv[1:] or ("vgg16", "mobilenetv2", "resnet50"):
        for side in SIDES:
            row(name, side)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of all of the above':<60}{peak:>10.0f} MiB")


if __name__ == "__main__":
    main()
