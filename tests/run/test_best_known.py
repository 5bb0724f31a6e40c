"""Best known results: each plan keeps all limits and costs what is said, and no bound is above it."""

from __future__ import annotations

import json

import pytest

from tilewright.core import catalogue
from tilewright.importing.benchmarks import benchmark
from tilewright.run.best_known import FILE, best_known

ROOMS = [room for room in catalogue.ROOMS if room != "grouping"]  # of which papers/test_s1_records.py looks


@pytest.mark.by_day(3)
@pytest.mark.parametrize("room", ROOMS)
def test_plans_cost_what_is_said(room: str) -> None:
    offered = catalogue.room(room)
    known = best_known([room])
    path = catalogue.folders("instances", room)[0] / FILE
    lines = {one["sha256"]: one for one in map(json.loads, path.read_text("utf-8").splitlines())}
    instances = {instance.sha256: instance for instance in benchmark([room])[0].instances}
    assert lines.keys() == known.keys() == instances.keys(), "update with tests/benchmarks/best_known.py"
    for sha256, instance in instances.items():
        line = lines[sha256]
        assert line["instance"] == instance.name
        if line["plan"] is not None:
            plan = offered.plan_type.from_json(line["plan"])
            assert offered.violation(instance.problem, plan) is None
            assert offered.objective(instance.problem, plan) == line["objective"]
            assert line["found"]["method"] and line["found"]["date"]
        if line["bound"] is not None:
            assert line["proven"]["by"]
            assert line["objective"] is None or line["bound"] <= line["objective"]
