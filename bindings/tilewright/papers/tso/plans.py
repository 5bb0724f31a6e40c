"""The plans behind every column of table II."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import numpy as np

from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.spec.layer import Layer
from tilewright.tiling.npu.cost import Cost, cost, time_ps, totals
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.exact import NEVER, BestPlan, best_tile, tiles
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.problem import Problem

NAMES = {
    "inceptionv3": "InceptionV3",
    "lenet": "LeNet",
    "mobilenetv2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "squeezenet": "SqueezeNet",
}
"""The networks in the order of table II."""


STRATEGIES = (*PARTITIONS, *SCHEDULES)
"""Columns of table II in which the partition or the schedule is fixed."""

LOOSE = ("OS", "IS")
"""Another reading of the column OS: its tiles may have all filters of a core, as those of IS do."""


@dataclass(frozen=True)
class Chosen:
    """The plans of one layer that stand behind the columns of table II.

    Attributes
    ----------
    cells
        The fastest plan of each partition and schedule; where no tile fits there is none. With `OS` no tile
        is one of `IS` as well.
    blind
        The plan that is fastest when bursts cost nothing.
    """

    problem: Problem
    cells: Mapping[tuple[str, str], BestPlan]
    blind: NpuPlan

    @property
    def best(self) -> BestPlan:
        """The fastest plan."""
        return min(self.cells.values(), key=lambda found: found.value)

    def fixed(self, *strategies: str) -> BestPlan | None:
        """Return the fastest plan with a partition or a schedule, or one of several, None where none fits."""
        fitting = [found for key, found in self.cells.items() if {*strategies} & {*key}]
        return min(fitting, key=lambda found: found.value, default=None)

    def cost(self, plan: NpuPlan) -> Cost:
        """Return what a plan takes, bursts included."""
        return cost(cut_of(self.problem.one_layer, npu_of(self.problem), plan.partition), plan)

    def time(self, plan: NpuPlan) -> int:
        """Return the time of a plan in picoseconds, bursts included."""
        return int(
            time_ps(cut_of(self.problem.one_layer, npu_of(self.problem), plan.partition), self.cost(plan))
        )

    @property
    def plans(self) -> set[NpuPlan]:
        """Every plan behind a printed number."""
        return {self.blind, *(found.plan for found in self.cells.values())}


@dataclass(frozen=True)
class Solved:
    """A network of table II; equal layers share what was chosen for them."""

    name: str
    layers: tuple[Chosen, ...]

    @cached_property
    def burst(self) -> float:
        """Column Burst in microseconds: the fastest plans."""
        return sum(layer.best.value for layer in self.layers) / 1e6

    @cached_property
    def no_burst(self) -> float:
        """Column No Burst: the plans that would be fastest without bursts, which are charged then."""
        return sum(layer.time(layer.blind) for layer in self.layers) / 1e6

    def fixed(self, *strategies: str) -> float:
        """Return a column of fixed strategies; a layer without such a tile takes its fastest plan.

        Of several, each layer takes the fastest: `OS` and `IS` are a reading of `OS` whose tiles may have all
        filters of a core.
        """
        return sum((layer.fixed(*strategies) or layer.best).value for layer in self.layers) / 1e6

    def ratio(self, *strategies: str) -> float:
        """Return how much longer fixed strategies take than the fastest plans."""
        return self.fixed(*strategies) / self.burst

    def without(self, strategy: str) -> int:
        """Return how many layers have no tile with a strategy."""
        return sum(layer.fixed(strategy) is None for layer in self.layers)


def npu_of(problem: Problem) -> NpuMachine:
    """Return the machine of a problem, which is an NPU."""
    assert problem.machine.kind == "npu"
    return problem.machine


def solved(names: Iterable[str] = NAMES) -> list[Solved]:
    """Return the networks with the plans behind every column."""
    known: dict[Layer, Chosen] = {}
    networks = []
    for name in names:
        problem: Problem = read(catalogue.instance("tiling", f"{name}-nmp")).problem
        for part in problem.parts:
            if part.problem.one_layer not in known:
                known[part.problem.one_layer] = choose(part.problem)
        networks.append(Solved(name, tuple(known[part.problem.one_layer] for part in problem.parts)))
    return networks


def choose(problem: Problem) -> Chosen:
    """Return the plans of a layer for every column of table II."""
    layer, machine = problem.one_layer, npu_of(problem)
    blind_machine = machine.model_copy(update={"burst_ps": 0})
    cells: dict[tuple[str, str], BestPlan] = {}
    blind: tuple[int, NpuPlan] | None = None
    for partition, schedule in product(PARTITIONS, SCHEDULES):
        cut = cut_of(layer, machine, partition)
        found = best_tile(cut, schedule, "time", {}, tiles(cut, schedule, apart=schedule == "OS"))
        if found is not None:
            cells[partition, schedule] = found
        free = _first(cut_of(layer, blind_machine, partition), schedule)
        if blind is None or free[0] < blind[0]:
            blind = free
    assert blind is not None
    return Chosen(problem, cells, blind[1])


def _first(cut: Cut, schedule: str) -> tuple[int, NpuPlan]:
    """Return the first of the fastest plans in the order in which they are tried, and its time.

    Without bursts many are as fast, whose bursts differ; who does not know of bursts takes any.
    """
    grid = tiles(cut, schedule)
    time = np.where(grid.fits, time_ps(cut, totals(cut, schedule, grid.steps)), NEVER)
    at = int(time.argmin())
    return int(time.flat[at]), grid.plan(cut, schedule, at)


def time_parts(layer: Chosen, plan: NpuPlan) -> tuple[int, int, int]:
    """Return the picoseconds of loads, stores and MACs."""
    machine, total = npu_of(layer.problem), layer.cost(plan)
    element = machine.element_bytes * machine.byte_ps
    return (
        (total.input + total.weights) * element + total.load_bursts * machine.burst_ps,
        total.output * element + total.store_bursts * machine.burst_ps,
        total.cycles * machine.cycle_ps,
    )
