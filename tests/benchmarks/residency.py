"""Measure the search of the room residency: ``python tests/benchmarks/residency.py [NETWORK ...]``.

For each network, of the package onnx or bundled, and each memory a line: bytes moved, the proven gap, seconds
of the processor, the peak of the memory, and what the heuristics move. A number of ``--seconds`` of the
processor ends a search.
"""

from __future__ import annotations

import argparse
import gc
import time
from pathlib import Path

import onnx
from measuring import clock

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.importing import network as imported
from tilewright.residency import Problem, objective
from tilewright.residency.decode_plan import decode_plan
from tilewright.run.workers.worker import SELDOM
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

LIGHT = Path(onnx.__file__).parent / "backend" / "test" / "data" / "light"
NAMES = [
    *sorted(path.stem for path in LIGHT.glob("light_*.onnx")),
    "mobilenetv2",
    "ds-cnn",
    "googlenet",
    "inceptionv3",
]
KILOBYTES = (16, 32, 64, 128, 256, 512, 1024, 2048)
RULES = ("layer_by_layer", "keep_if_it_fits", "fused_layers")


def network(name: str) -> Network:
    """Return a network by its name."""
    file = LIGHT / f"{name}.onnx"
    return imported(file) if file.exists() else validated(Network, catalogue.shared("networks", name))


def measure(name: str, kilobytes: int, seconds: float) -> list[str]:
    """Return the cells of a line."""
    head = [name.removeprefix("light_"), str(kilobytes)]
    try:
        problem = Problem.model_validate(
            {"network": network(name), "machine": {"memory_bytes": 1024 * kilobytes}}
        )
    except InputError as error:
        return [*head, str(error).partition("; ")[2]]
    rules = []
    for rule in RULES:
        try:
            plan = catalogue.heuristic("residency", rule).plan(problem)
            rules.append(f"{objective(problem, plan):,}")
        except InputError:
            rules.append("-")
    problem = Problem.model_validate(problem.model_dump())  # knows nothing of the rules' groups
    began = clock()
    outcome = catalogue.formulation("residency", "states").solve(
        problem, RunContext(deadline=time.monotonic() + seconds)
    )
    spent = clock() - began
    moved = objective(problem, outcome.plan)
    gap = "proven" if moved == outcome.bound else f"{100 * (moved - outcome.bound) / moved:.1f} %"
    peak = max(step.memory for step in decode_plan(problem, outcome.plan)) * problem.machine.element_bytes
    shown = f"{problem.graph.compulsory * problem.machine.element_bytes:,}"
    return [*head, shown, f"{moved:,}", gap, f"{spent:.1f}", f"{peak:,}", *rules]


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("networks", nargs="*", default=NAMES)
    parser.add_argument("--kilobytes", type=int, nargs="*", default=KILOBYTES)
    parser.add_argument("--seconds", type=float, default=30.0, help="of the processor")
    arguments = parser.parse_args()
    time.monotonic = clock  # other work on the machine changes nothing
    gc.set_threshold(*SELDOM)  # as where `tilewright solve` searches
    head = ["network", "KB", "compulsory", "least", "gap", "seconds", "peak", *RULES]
    print("|", " | ".join(head), "|")
    for name in arguments.networks:
        for kilobytes in arguments.kilobytes:
            print("|", " | ".join(measure(name, kilobytes, arguments.seconds)), "|", flush=True)


if __name__ == "__main__":
    main()
