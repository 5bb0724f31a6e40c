"""Measure whether `auto` is, at every moment, at least as far as its best part alone in half the time.

python tests/benchmarks/portfolio.py [--rooms R ...] [--instances I ...] [--limits S ...] [--parts] [-o FILE]

For each instance and time limit `auto` is run, and every method alone, with half of the limit and with all of
it. A line compares `auto` with the best of its parts in half the time; what is no part is shown where it is
better. The last column compares all moments: what a part has at some moment, `auto` must have at twice that;
of the moments where it has not, the latest is shown.

Kernels are compiled before the clock of a run starts, and each run starts its own processes. Unlike other
benchmarks, this one has no use for a busy machine: what runs side by side takes turns there.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT
from tilewright.core.room import room_of
from tilewright.papers.s1.tables import grid_cell
from tilewright.run.instance import Instance, read
from tilewright.run.methods import methods
from tilewright.run.solve import solve
from tilewright.run.workers import supervisor
from tilewright.spec.errors import TilewrightError

ENDED = 0.8
"""A run that takes less than this part of its limit has ended by itself: a longer limit changes nothing."""

GRID = grid_cell(12, 3, "kmin")
"""A layer on which the exact search needs hours; it is measured with the bundled instances."""


@dataclass
class Run:
    """What one method has found within a time limit."""

    method: str
    limit: float
    objective: int | None
    bound: int | None
    status: str
    seconds: float
    trace: list[list[float | None]]

    @property
    def value(self) -> float:
        """The objective, infinite without a plan."""
        return float("inf") if self.objective is None else self.objective

    def at(self, moment: float) -> float:
        """Return the objective that was known at a moment."""
        known = [entry[1] for entry in self.trace if entry[1] is not None and (entry[0] or 0) <= moment]
        return min(known, default=float("inf"))


class Runs:
    """The runs on one instance; what has ended by itself is not run again with a longer limit."""

    def __init__(self, instance: Instance, threads: int) -> None:
        self.instance, self.threads = instance, threads
        self.known: dict[str, list[Run]] = {}
        self.refused: dict[str, str] = {}

    def run(self, method: str, limit: float) -> Run | None:
        """Run a method, or return what is known of it; None if it does not take the instance."""
        if method in self.refused:
            return None
        runs = self.known.setdefault(method, [])
        for run in runs:
            if run.limit == limit or (run.limit < limit and run.seconds < ENDED * run.limit):
                return run
        supervisor.IDLE.stop()
        try:
            found = solve(self.instance, method, time_limit=limit, threads=self.threads, confirm=False)
        except TilewrightError as error:
            self.refused[method] = str(error)
            return None
        trace = [list(entry) for entry in found.trace]
        runs.append(Run(method, limit, found.objective, found.bound, found.status, found.seconds, trace))
        return runs[-1]


def parts_of(instance: Instance) -> list[str]:
    """Return what `auto` consists of for an instance."""
    room = room_of(instance.problem)
    constructive = [module.__name__.rpartition(".")[2] for module in catalogue.constructive(room.name, _skip)]
    found = room.portfolio(instance.problem).methods
    return [*constructive, *(method for method in found if method != CONSTRUCT)]


def _skip(_name: str, _error: Exception) -> None:
    """Leave out a heuristic that cannot be imported."""


def broken_moments(auto: Run, parts: list[Run]) -> list[tuple[float, str]]:
    """Return when parts alone had plans better than that of `auto` at twice the time, the latest last."""
    found = []
    for part in parts:
        for seconds, objective, _bound in part.trace:
            moment = seconds or 0.0
            has = auto.at(2 * moment)
            if objective is not None and 2 * moment <= auto.limit and has > objective:
                alone = f"{part.method} {objective:,.0f} at {moment:.1f} s"
                found.append((moment, f"{alone}, auto {shown(has)} at {2 * moment:.1f} s"))
    return sorted(found)


def shown(value: float | None) -> str:
    """Return a number as people read it."""
    return "-" if value is None or value == float("inf") else f"{value:,.0f}"


def measured(runs: Runs, names: list[str], limit: float) -> dict[str, object] | None:
    """Run `auto` and the methods with a limit; print the line and return what it says."""
    auto = runs.run("auto", limit)
    if auto is None:
        print(f"{runs.instance.name:<26} refused: {runs.refused['auto']}", flush=True)
        return None
    parts = parts_of(runs.instance)
    half = [run for name in names if (run := runs.run(name, limit / 2)) is not None]
    full = [run for name in names if (run := runs.run(name, limit)) is not None]
    best = min((run for run in half if run.method in parts), key=lambda run: run.value)
    other = min(half, key=lambda run: run.value)
    bound = max((run.bound or 0 for run in half if run.method in parts), default=0)
    moments = [text for _, text in broken_moments(auto, [run for run in full if run.method in parts])]
    verdict = "kept" if auto.value <= best.value else "BROKEN"
    remarks = [f"bound {shown(auto.bound)} below {shown(bound)}"] if (auto.bound or 0) < bound else []
    remarks += [f"{other.method} alone {shown(other.value)}"] if other.value < auto.value else []
    found = f"{best.method} {shown(best.value)}"
    print(
        f"{runs.instance.name:<26}{limit:>5g}  {found:<34}{shown(auto.value):>20} {auto.status:<9}"
        f"{verdict:<8}{'; '.join([*remarks, *moments[-1:]])}".rstrip(),
        flush=True,
    )
    return {
        "instance": runs.instance.name,
        "room": runs.instance.room,
        "limit": limit,
        "verdict": verdict,
        "remarks": remarks,
        "moments": moments,
        "parts": parts,
        "auto": asdict(auto),
        "half": [asdict(run) for run in half],
        "full": [asdict(run) for run in full],
        "refused": dict(runs.refused),
    }


def chosen(rooms: list[str], names: list[str]) -> Iterator[Instance]:
    """Return the instances that are named, or all of the rooms."""
    if names:
        for name in names:
            yield GRID if name == GRID.name else read(name)
        return
    for room in rooms:
        yield from map(read, catalogue.instances(room))
        if room == GRID.room:
            yield GRID


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rooms", nargs="+", default=list(catalogue.ROOMS), choices=catalogue.ROOMS)
    parser.add_argument(
        "--instances", nargs="+", default=[], help=f"names, files, or {GRID.name}; default all"
    )
    parser.add_argument("--limits", nargs="+", type=float, default=[5.0, 15.0, 60.0], help="seconds")
    parser.add_argument("--parts", action="store_true", help="only auto and its parts, not every method")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("-o", "--output", type=Path, help="JSON file for all that was measured")
    return parser.parse_args()


def main() -> None:
    """Run all measurements."""
    asked = arguments()
    print(f"{'instance':<26}{'limit':>5}  {'best part in half of it':<34}{'auto':>20} {'':<9}verdict")
    lines: list[dict[str, object]] = []
    for instance in chosen(asked.rooms, asked.instances):
        runs = Runs(instance, asked.threads)
        every = [name for name in methods(instance.room) if name != "auto"]
        names = parts_of(instance) if asked.parts else every
        for limit in asked.limits:
            line = measured(runs, names, limit)
            lines += [line] if line is not None else []
            if asked.output is not None:
                asked.output.write_text(json.dumps(lines, indent=1) + "\n", "utf-8")
    kept = [line["verdict"] == "kept" for line in lines]
    print(
        f"kept in {sum(kept)} of {len(kept)} cells; at every moment in "
        f"{sum(not line['moments'] for line in lines)}"
    )


if __name__ == "__main__":
    main()
