"""Programs of processor arrays: random plans of random pipelines, emitted, compiled once and executed."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from compiled import STRICT

from tilewright import AllocationProblem, allocation
from tilewright.allocation import Plan
from tilewright.allocation.placement.floor import violation as misplaced
from tilewright.allocation.placement.unplaced import floor_of
from tilewright.allocation.splits import LayerSplit
from tilewright.codegen.array import array_project, regions_of

Json = dict[str, Any]


def any_plan(random: Random, problem: AllocationProblem) -> Plan | None:
    """Return a random plan that breaks no limit, perhaps placed; None where none is found soon."""
    names = tuple(stage.name for stage in problem.stages)
    units = problem.machine.functional_units
    for _ in range(60):
        splits = []
        for stage in problem.stages:
            parts = [
                random.choice([1, 1, 2, 3]) if axis in problem.limits.splits else 1
                for axis in ("filters", "maps", "rows")
            ]
            u = random.randint(1, units) if problem.limits.functional_units == "any" else 1
            split = LayerSplit(*parts, unit_filters=u, unit_maps=random.randint(1, units // u))
            splits.append(split if random.random() < 0.7 else LayerSplit(1, unit_maps=units))
            if stage.name in problem.limits.pes:
                splits[-1] = LayerSplit(problem.limits.pes[stage.name])
        plan = Plan(names, tuple(splits), random.choice(["matched", "uniform"]))
        if allocation.violation(problem, plan) is None:
            regions = regions_of(problem, plan)
            placed = problem.parallel and misplaced(floor_of(problem, plan), regions) is None
            return plan.placed(regions) if placed and random.random() < 0.5 else plan
    return None


class Machine:
    """The machine in C; compiled once for all programs, as only headers differ."""

    def __init__(self, folder: Path, *flags: str) -> None:
        self.folder, self.flags = folder, flags
        self.objects: list[str] = []

    def build(self, files: Mapping[str, bytes]) -> None:
        """Write a project and compile what has changed of it."""
        for path, content in files.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_bytes(content)
        if not self.objects:
            for name in ("array", "load", "program"):
                self._run("gcc", *STRICT, *self.flags, "-c", "-o", f"{name}.o", f"src/{name}.c")
                self.objects.append(f"{name}.o")
        self._run("gcc", *STRICT, *self.flags, "-o", "run", "src/main.c", *self.objects, "-lm")

    def run(self) -> subprocess.CompletedProcess[str]:
        """Execute the program that is there."""
        return subprocess.run(["./run"], cwd=self.folder, capture_output=True, text=True, timeout=1800)

    def told(self) -> dict[str, list[str]]:
        """Execute the program, which must be right, and return what it prints by the first column."""
        done = self.run()
        assert done.returncode == 0, done.stdout + done.stderr
        return {line.split("\t")[0]: line.split("\t")[1:] for line in done.stdout.splitlines()}

    def _run(self, *words: str) -> None:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr


def project(problem: AllocationProblem, plan: Plan, seed: int = 0, hop_cycles: int = 0) -> dict[str, bytes]:
    """Return the files of a plan's project."""
    return array_project(problem, plan, seed, "net", "", None, hop_cycles)
