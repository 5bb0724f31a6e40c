"""Measure the fusion room: ``python tests/benchmarks/fusion.py [NETWORK ...]``.

For each network, on the ZU2: seconds to find all groups, to find their best tiles, of the exact search, and
to execute its plan.
"""

from __future__ import annotations

import resource
import sys
import time
from itertools import pairwise
from pathlib import Path

import onnx

from tilewright.core import catalogue
from tilewright.fusion import simulate
from tilewright.fusion.candidates import candidates, matches
from tilewright.fusion.exact.search import optimum
from tilewright.fusion.problem import EngineMachine, Problem
from tilewright.fusion.selection import ordered
from tilewright.importing import network as imported
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = ("vgg16", "resnet152", "googlenet", *sorted(path.stem for path in LIGHT.glob("light_*.onnx")))


def problem(name: str) -> Problem:
    """Return a network, of the package onnx or bundled, on the paper's machine."""
    file = LIGHT / f"{name}.onnx"
    network = imported(file) if file.exists() else validated(Network, catalogue.shared("networks", name))
    machine = validated(EngineMachine, catalogue.shared("machines", "dnnvm-zu2"))
    return Problem(network=network, machine=machine)


def row(name: str) -> None:
    """Print the times of a network, and what was found."""
    asked = problem(name)
    times = [time.perf_counter()]
    count = len(matches(asked))
    times.append(time.perf_counter())
    known = candidates(asked)
    times.append(time.perf_counter())
    found = optimum([op.producers for op in asked.ops], known)
    times.append(time.perf_counter())
    report = simulate(asked, ordered(asked, found.chosen))
    times.append(time.perf_counter())
    assert report.valid and report.facts["cycles"] == found.cost
    took = "".join(f"{after - before:>10.2f}" for before, after in pairwise(times))
    proven = "" if found.proven else " ?"
    print(
        f"{name:<22}{count:>7}{len(known):>7}{took}{report.facts['milliseconds']:>12.3f}{proven}", flush=True
    )


def main() -> None:
    """Run all measurements."""
    candidates(problem("light_zfnet512"))  # compiles what is compiled
    header = "".join(f"{words:>10}" for words in ("match", "tiles", "search", "execute"))
    print(f"{'seconds':<22}{'groups':>7}{'fit':>7}{header}{'optimum, ms':>12}")
    for name in sys.argv[1:] or NAMES:
        row(name)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of all of the above':<66}{peak:>10.0f} MiB")


if __name__ == "__main__":
    main()
