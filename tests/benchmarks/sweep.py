"""Measure what a point of a sweep costs beyond its search: ``python tests/benchmarks/sweep.py``.

Given a number, also the seconds of a sweep of so many points on two processes, by the clock.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from measuring import Benchmark, timed

import tilewright as tw
from tilewright.importing.assembly import Changes, assembler_of
from tilewright.run.batch.journal import Journal
from tilewright.run.batch.tasks import Answer, Task, perform

NAME, FIELD = "alexnet-conv3-64k", "machine.memory_bytes"
REPEATS = 100


def main() -> None:
    """Run all measurements."""
    points = int(sys.argv.pop(1)) if len(sys.argv) > 1 and sys.argv[1].isdecimal() else 0
    bench = Benchmark("sweep")
    make = assembler_of(NAME, Changes())
    instance = make({FIELD: 65536})
    task = Task(instance, "auto", 60.0)
    answer = perform(task)
    told = json.dumps(answer.to_json())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "journal")
        with Journal(path) as journal:

            def point() -> None:
                """Do all that is done for a point but the search, on both sides of a pipe."""
                made = Task(make({FIELD: 65536}), "auto", 60.0)
                assert Task.from_json(json.loads(json.dumps(made.to_json()))).key == made.key
                found = Answer.from_json(json.loads(told), made)
                json.dumps(found.to_json())
                journal.append(made.key + str(len(journal)), found.to_json())

            bench.time(
                f"{REPEATS} points beyond their searches", lambda: [point() for _ in range(REPEATS)], 3
            )
            print(f"a point in the journal: {path.stat().st_size // len(journal)} bytes")
        bench.time("opening a journal of these", lambda: Journal(path).__exit__(None, None, None), 3)
    search, _ = timed(lambda: [perform(replace(task, seed=n)) for n in range(20)], 3)
    print(f"the search of one point: {1000 * search / 20:.1f} ms")
    bench.close()
    if points:
        sizes = [8192 + 1040 * n for n in range(points)]
        began = time.perf_counter()
        swept = tw.sweep(NAME, {FIELD: sizes}, jobs=2)
        assert all(point.status == "optimal" for point in swept.points)
        print(f"{points} points on two processes: {time.perf_counter() - began:.1f} s by the clock")


if __name__ == "__main__":
    main()
