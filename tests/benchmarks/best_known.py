"""Take what is better in the results of comparisons into ``instances/<room>/best-known.json``.

    tilewright compare --benchmark all --time-limit 60 -o results.json
    python tests/benchmarks/best_known.py results.json

Only instances of the benchmark sets are taken. Plans are looked at, and their costs computed, again.
"""

from __future__ import annotations

import datetime
import json
import sys
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.files import write_atomically
from tilewright.importing.benchmarks import benchmark
from tilewright.papers.s1 import records
from tilewright.run.best_known import FILE
from tilewright.run.instance import Instance
from tilewright.run.result import Result

Line = dict[str, Any]


def line(instance: Instance, result: Result, date: str) -> Line:
    """Return what a result says, after its plan has been looked at."""
    room = catalogue.room(instance.room)
    if result.plan is not None:
        assert room.violation(instance.problem, result.plan) is None
        assert room.objective(instance.problem, result.plan) == result.objective
    run = {
        "tilewright": result.versions.get("tilewright"),
        "method": result.method,
        "seconds": result.seconds,
        "date": date,
    }
    return {
        "instance": instance.name,
        "sha256": instance.sha256,
        "objective": result.objective,
        "plan": None if result.plan is None else result.plan.to_json(),
        "found": None if result.plan is None else run,
        "bound": result.bound,
        "proven": None if result.bound is None else run | {"by": result.bound_by, "grounds": result.grounds},
    }


def better(before: Line | None, now: Line) -> Line:
    """Return the best of both; what is no better leaves the older one."""
    if before is None:
        return now
    found = dict(before)
    if now["objective"] is not None and (
        before["objective"] is None or now["objective"] < before["objective"]
    ):
        found |= {key: now[key] for key in ("objective", "plan", "found")}
    if now["bound"] is not None and (before["bound"] is None or now["bound"] > before["bound"]):
        found |= {key: now[key] for key in ("bound", "proven")}
    return found


def main() -> None:
    """Read results, and write the files of their rooms."""
    instances = {instance.sha256: instance for one in benchmark(["all"]) for instance in one.instances}
    rooms: dict[str, list[tuple[Instance, Result, str]]] = {}
    for file in map(Path, sys.argv[1:]):
        date = datetime.date.fromtimestamp(file.stat().st_mtime).isoformat()
        for row in json.loads(file.read_text("utf-8")):
            instance = instances.get(row.get("instance_sha256"))
            if instance is not None:
                result = Result.from_json(row, str(file)).of(instance)
                rooms.setdefault(instance.room, []).append((instance, result, date))
    for room, found in rooms.items():
        path = catalogue.folders("instances", room)[0] / FILE
        if room == "grouping":
            known = records.known(path)
            for instance, result, _ in found:
                if result.bound is not None:
                    record = records.Record.of(instance.problem, result)
                    known[record.sha256] = known.get(record.sha256, record).beside(record)
            records.write(known, path)
            continue
        lines = [json.loads(text) for text in path.read_text("utf-8").splitlines()] if path.exists() else []
        best: dict[str, Line] = {one["sha256"]: one for one in lines}
        for instance, result, date in found:
            best[instance.sha256] = better(best.get(instance.sha256), line(instance, result, date))
        ordered = sorted(best.values(), key=lambda one: one["instance"])
        write_atomically(path, "".join(json.dumps(one) + "\n" for one in ordered))


if __name__ == "__main__":
    main()
