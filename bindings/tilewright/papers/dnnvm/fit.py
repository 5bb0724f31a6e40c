"""How the machine is fitted on the DNNVM paper's networks without fusion."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.fusion import Problem
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import best_tile
from tilewright.fusion.machine import CONV
from tilewright.papers.dnnvm.benchmarks import NAMES, benchmark, machine, problem, table_2
from tilewright.papers.figures import Say
from tilewright.spec.base import unchecked_copy

BANDWIDTHS = range(1500, 2501, 100)
"""MB/s in each direction that are tried; and 50 less and more than the best of them."""

RATES = (12, 24, 48, 96, 192)
"""Operands per cycle that are tried."""


@dataclass(frozen=True)
class Fit:
    """A machine whose issue of a group is fitted.

    Attributes
    ----------
    issue
        Cycles, by least squares of the distances of table 2's baselines, relative to those.
    distances
        Of the four networks.
    """

    bandwidth: int
    rate: int
    issue: int
    distances: tuple[float, ...]

    @property
    def rms(self) -> float:
        """Root of the mean square of the distances."""
        return float(np.sqrt(np.mean(np.square(self.distances))))


class Baselines:
    """How long the networks of table 2 take without fusion, on machines that issue groups in no time."""

    def __init__(self) -> None:
        self.zu2 = machine().model_copy(update={"issue_cycles": 0})
        self.theirs = np.array([row["baseline_ms"] for row in table_2().values()])
        problems = [problem(benchmark(name)) for name in NAMES]
        self.groups = np.array([len(one.ops) for one in problems])
        self._layers: dict[object, tuple[Problem, int]] = {}
        self._counts: dict[object, list[int]] = {}
        for index, one in enumerate(problems):
            for op in one.ops:
                key = one.fused((op.number,)).key
                self._layers.setdefault(key, (one, op.number))
                self._counts.setdefault(key, [0] * len(problems))[index] += 1
        self._cycles: dict[tuple[object, ...], int] = {}

    def _layer(self, key: object, bandwidth: int, rate: int) -> int:
        """Return the cycles of a layer; a convolution's do not depend on the rate of other engines."""
        problem, number = self._layers[key]
        searched = (key, bandwidth, None if engine_of(problem.ops[number]) == CONV else rate)
        if searched not in self._cycles:
            rates = {"load_mb_per_s": bandwidth, "save_mb_per_s": bandwidth, "operands_per_cycle": rate}
            varied = unchecked_copy(problem, machine=self.zu2.with_(**rates))
            choice = best_tile(varied, (number,))
            assert choice is not None
            self._cycles[searched] = choice.cycles
        return self._cycles[searched]

    def milliseconds(self, bandwidth: int, rate: int, issue: int) -> NDArray[np.float64]:
        """Return the networks' times."""
        layers = [self._layer(key, bandwidth, rate) for key in self._counts]
        cycles = np.array(layers) @ np.array([*self._counts.values()]) + self.groups * issue
        times: NDArray[np.float64] = cycles / (self.zu2.clock_mhz * 1e3)
        return times

    def fit(self, bandwidth: int, rate: int, issue: int | None = None) -> Fit:
        """Fit the issue of a group, to which all else is added, or take one that is given."""
        if issue is None:
            alone = self.milliseconds(bandwidth, rate, 0)
            each = self.groups / (self.zu2.clock_mhz * 1e3) / self.theirs
            issue = max(0, round(float((1 - alone / self.theirs) @ each / (each @ each))))
        distances = self.milliseconds(bandwidth, rate, issue) / self.theirs - 1
        return Fit(bandwidth, rate, issue, tuple(map(float, distances)))


def print_fit(say: Say) -> None:
    """Fit the machine on table 2's baselines: a grid over two parameters, the third in closed form."""
    baselines, zu2 = Baselines(), machine()
    say("Baselines of table 2: root mean square distance in %, and in brackets the issue of a group, cycles,")
    say("that makes it least; by MB/s in each direction and operands per cycle")
    say(f"  {'MB/s':>6}" + "".join(f"{rate:>16}" for rate in RATES))
    fits_found: list[Fit] = []

    def row(bandwidth: int) -> None:
        fits = [baselines.fit(bandwidth, rate) for rate in RATES]
        fits_found.extend(fits)
        say(f"  {bandwidth:>6}" + "".join(f"{100 * fit.rms:>7.2f} ({fit.issue:>6})" for fit in fits))

    for bandwidth in BANDWIDTHS:
        row(bandwidth)
    least = min(fits_found, key=lambda fit: fit.rms)
    for bandwidth in (least.bandwidth - 50, least.bandwidth + 50):
        row(bandwidth)
    least = min(fits_found, key=lambda fit: fit.rms)
    taken = baselines.fit(zu2.load_mb_per_s, zu2.operands_per_cycle, zu2.issue_cycles)
    for words, fit in (("least", least), ("taken", taken)):
        off = ", ".join(
            f"{NAMES[name]} {100 * far:+.1f}" for name, far in zip(NAMES, fit.distances, strict=True)
        )
        say(
            f"{words}: {fit.bandwidth} MB/s, {fit.issue} cycles, {fit.rate} operands per cycle: "
            f"{100 * fit.rms:.2f} % ({off})"
        )
    near = [fit for fit in fits_found if fit.rms <= least.rms + 0.003]
    for words, values in (
        ("MB/s", [fit.bandwidth for fit in near]),
        ("cycles", [fit.issue for fit in near]),
        ("operands per cycle", [fit.rate for fit in near]),
    ):
        say(f"  within 0.3 points of the least: {min(values)} to {max(values)} {words}")
