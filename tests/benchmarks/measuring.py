"""What the benchmarks share: timing, a line per measurement, and the comparison with a committed baseline.

Every benchmark is a script of this folder and takes, beside arguments of its own::

    --compare    print the ratio of each measurement to the one in baseline.json
    --save       write the measurements into baseline.json, which names the machine

Times are seconds of the processor, of this process and of those that it started: other work on the machine
changes them little.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from tilewright.run.scoring.page import computer

BASELINE = Path(__file__).with_name("baseline.json")

ValueT = TypeVar("ValueT")


def clock() -> float:
    """Return the seconds that this process, its threads and its ended children have had a processor."""
    usages = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in usages)


def timed(work: Callable[[], ValueT], runs: int = 1) -> tuple[float, ValueT]:
    """Return the least time of a few runs, and what the last one returns."""
    times = []
    for _ in range(runs):
        began = clock()
        value = work()
        times.append(clock() - began)
    return min(times), value


def peak_memory() -> float:
    """Return the most memory that this process has had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


class Benchmark:
    """The measurements of one script.

    Parameters
    ----------
    name
        The script's name, under which the baseline has its measurements.
    parser
        Knows the script's own arguments.
    """

    def __init__(self, name: str, parser: argparse.ArgumentParser | None = None) -> None:
        parser = parser or argparse.ArgumentParser()
        parser.add_argument("--compare", action="store_true", help="print ratios to baseline.json")
        parser.add_argument("--save", action="store_true", help="write into baseline.json")
        self.name = name
        self.arguments = parser.parse_args()
        self.measured: dict[str, float] = {}
        self.baseline: dict[str, Any] = json.loads(BASELINE.read_text("utf-8")) if BASELINE.exists() else {}
        self.known: dict[str, float] = self.baseline.get(name, {}).get("measurements", {})
        if self.arguments.compare:
            print(
                f"ratios to a machine with {self.baseline.get(name, {}).get('machine', 'nothing measured')}"
            )

    def time(self, what: str, work: Callable[[], ValueT], runs: int = 1) -> ValueT:
        """Time some work, print the line, and return what the work returns."""
        seconds, value = timed(work, runs)
        self.note(what, seconds, "s")
        return value

    def note(self, what: str, value: float, unit: str, remark: str = "") -> None:
        """Print a measurement, the less the better, and keep it."""
        self.measured[what] = value
        ratio = ""
        if self.arguments.compare:
            ratio = f"{value / self.known[what]:>8.2f} x" if self.known.get(what) else f"{'new':>10}"
        number = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
        print(f"{what:<64}{number:>12} {unit:<6}{ratio}  {remark}".rstrip(), flush=True)

    def close(self) -> None:
        """Print the peak of memory and, if asked, the mean ratio; save if asked."""
        self.note("peak memory of all of the above", peak_memory(), "MiB")
        ratios = [value / self.known[what] for what, value in self.measured.items() if self.known.get(what)]
        positive = [ratio for ratio in ratios if ratio > 0]
        if self.arguments.compare and positive:
            mean = math.exp(sum(map(math.log, positive)) / len(positive))
            print(f"{'geometric mean of the ratios':<64}{mean:>27.2f} x")
        if self.arguments.save:
            rounded = {
                what: value if isinstance(value, int) else float(f"{value:.4g}")
                for what, value in self.measured.items()
            }
            self.baseline[self.name] = {"machine": computer(), "measurements": self.known | rounded}
            BASELINE.write_text(json.dumps(dict(sorted(self.baseline.items())), indent=1) + "\n", "utf-8")
