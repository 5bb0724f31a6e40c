"""Measure the fusion room: ``python tests/benchmarks/fusion.py [NETWORK ...]``.

For each network, on the ZU2: the time to find all groups, to find their best tiles, of the exact search, and
to execute its plan.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import onnx
from measuring import Benchmark

from tilewright.core import catalogue
from tilewright.fusion import simulate
from tilewright.fusion.group.best_tile import forget_tiles
from tilewright.fusion.machine import EngineMachine
from tilewright.fusion.matching import matches
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import candidates
from tilewright.fusion.selection.downset_search import best_groups
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.importing import network as imported
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = ["vgg16", "resnet152", "googlenet", *sorted(path.stem for path in LIGHT.glob("light_*.onnx"))]


def problem(name: str) -> Problem:
    """Return a network, of the package onnx or bundled, on the paper's machine."""
    file = LIGHT / f"{name}.onnx"
    network = imported(file) if file.exists() else validated(Network, catalogue.shared("networks", name))
    machine = validated(EngineMachine, catalogue.shared("machines", "dnnvm-zu2"))
    return Problem(network=network, machine=machine)


def measure(bench: Benchmark, name: str) -> None:
    """Measure one network."""
    asked = problem(name)
    forget_tiles()
    bench.time(f"{name}, groups", lambda: matches(asked.graph, asked.templates))
    fitting = bench.time(f"{name}, tiles", lambda: candidates(asked))
    answer = bench.time(f"{name}, search", lambda: best_groups([op.producers for op in asked.ops], fitting))
    report = bench.time(f"{name}, execution", lambda: simulate(asked, order_groups(asked, answer.chosen)))
    assert report.valid and report.measures.duration_cycles == answer.cost
    remark = "proven" if answer.proven else "not proven"
    bench.note(f"{name}, what the plan takes", report.measures.duration_ms, "ms", remark)


def main() -> None:
    """Run all measurements."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=NAMES)
    bench = Benchmark("fusion", parser)
    candidates(problem("light_zfnet512"))  # compiles what is compiled
    for name in bench.arguments.networks:
        measure(bench, name)
    bench.close()


if __name__ == "__main__":
    main()
