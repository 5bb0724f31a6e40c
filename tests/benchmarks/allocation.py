"""Measure the exact search for splits: ``python tests/benchmarks/allocation.py [NETWORK ...]``."""

from __future__ import annotations

import argparse
import time
import tomllib
from pathlib import Path
from typing import Any

from measuring import Benchmark, timed

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


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=["vgg16", "mobilenetv2", "resnet50"])
    bench = Benchmark("allocation", parser)
    exhaustive(problem("mnist-tcpa", 4, "latency"))  # compiles what is compiled
    for name in bench.arguments.networks:
        for side in SIDES:
            interval = None
            for minimise in OBJECTIVES:
                asked = problem(name, side, minimise, interval)
                seconds, answer = timed(lambda asked=asked: exhaustive(asked, time.monotonic() + SECONDS))
                interval = interval or answer.value
                remark = f"{len(answer.plans)} plans" if minimise == "pareto" else f"{answer.value:,}"
                remark += "" if answer.proven else ", not proven in time"
                bench.note(f"{name}, {side}x{side}, {minimise}", 1000 * seconds, "ms", remark)
    bench.close()


if __name__ == "__main__":
    main()
