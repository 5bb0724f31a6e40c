"""Measure the exact search on hierarchies: every layer of some networks on every bundled machine.

python tests/benchmarks/hierarchy.py [--networks N ...] [--machines M ...] [--objectives O ...] [--save]

Equal layers are solved once. Seconds are of the processor. A line says how many layers are proven, the
median, the worst layer, and the sum of a network.
"""

from __future__ import annotations

import argparse
import statistics
import time
import tomllib
from typing import Any

from measuring import Benchmark, timed

from tilewright.core import catalogue
from tilewright.spec.errors import InputError
from tilewright.tiling import MACHINES, Problem

NETWORKS = ("resnet18", "mobilenetv2", "vgg16")
OBJECTIVES = ("accesses", "cycles", "energy", "edp")
LIMIT = 120.0
"""Seconds after which a layer counts as not proven."""


def bundled(folder: str) -> dict[str, dict[str, Any]]:
    """Return the bundled tables of a folder, by their names."""
    return {path.stem: tomllib.loads(path.read_text("utf-8")) for path in catalogue.instances(folder)}


def distinct(network: dict[str, Any], machine: dict[str, Any]) -> dict[int, tuple[str, Problem]]:
    """Return the layers of a network that differ, with the name of the first of each."""
    found: dict[int, tuple[str, Problem]] = {}
    for name, part in Problem(network=network, machine=machine).parts:
        if part.operation is None:
            found.setdefault(id(part), (name, part))
    return found


def solve(part: Problem, minimise: str) -> tuple[float, bool] | None:
    """Return the seconds of a layer and whether its plan is proven, None where prices are missing."""
    try:
        problem = part.with_(objective={"minimise": minimise})
    except InputError:
        return None
    kind = MACHINES["hierarchy"]
    seconds, answer = timed(lambda: kind.exhaustive(problem, time.monotonic() + LIMIT))
    return seconds, answer is not None and answer.proven


def main() -> None:
    """Run all measurements."""
    machines = [name for name, table in bundled("machines").items() if table.get("kind") == "hierarchy"]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", nargs="+", default=NETWORKS)
    parser.add_argument("--machines", nargs="+", default=machines, choices=machines)
    parser.add_argument("--objectives", nargs="+", default=OBJECTIVES, choices=OBJECTIVES)
    bench = Benchmark("hierarchy", parser)
    asked = bench.arguments
    every: dict[str, list[float]] = {minimise: [] for minimise in asked.objectives}
    for network in asked.networks:
        for machine in asked.machines:
            parts = distinct(bundled("networks")[network], bundled("machines")[machine])
            for minimise in asked.objectives:
                runs = {name: solve(part, minimise) for name, part in parts.values()}
                found = {name: run for name, run in runs.items() if run is not None}
                if not found:
                    continue
                seconds = {name: run[0] for name, run in found.items()}
                every[minimise] += seconds.values()
                worst = max(seconds, key=lambda name: seconds[name])
                proven = sum(run[1] for run in found.values())
                remark = (
                    f"{proven} of {len(found)} proven; median {statistics.median(seconds.values()):.3f} s, "
                    f"worst {seconds[worst]:.2f} s: {worst}"
                )
                bench.note(f"{network}, {machine}, {minimise}", sum(seconds.values()), "s", remark)
    for minimise, seconds_of_all in every.items():
        if seconds_of_all:
            worst_of_all = max(seconds_of_all)
            remark = f"of {len(seconds_of_all)} layers; worst {worst_of_all:.2f} s"
            bench.note(f"median of all, {minimise}", statistics.median(seconds_of_all), "s", remark)
    bench.close()


if __name__ == "__main__":
    main()
