"""The paper's plans and the best ones beside them: what is read, executed and proven for its tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from typing import Any

from tilewright.allocation import PACINGS, Plan, simulate
from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.machine import AllocationLimits, AllocationObjective
from tilewright.allocation.measures import PipelineMeasures
from tilewright.allocation.problem import Problem
from tilewright.allocation.published import Calculus, layer_by_layer, layer_parallel
from tilewright.allocation.schedule import Schedule, schedule
from tilewright.allocation.splits import LayerSplit, paper_split
from tilewright.allocation.stages import Stage
from tilewright.core import catalogue
from tilewright.papers.tcpa.equations import intermediate_storage, storage_by_turn
from tilewright.run.instance import read

SCANS = {"rows": "row by row", "fields": "by receptive fields"}
"""Names of the orders in which a layer's pixels are computed."""

SPLITS = {False: "filters over PEs, maps over units", True: "filters or maps over both"}
"""Names of the splits that optima are proven over: those of the paper, and more."""

SPREAD = "layer-by-layer (2)"
"""The column of table 1 that follows only if no PE and no functional unit is left without work."""


@cache
def published() -> dict[str, Any]:
    """Return the paper's results."""
    return catalogue.shared("published", "tcpa")


def bundled(name: str) -> Problem:
    """Return a bundled problem."""
    found: Problem = read(catalogue.instance("allocation", name)).problem
    return found


def problem(
    array: Sequence[int] = (4, 4), minimise: str = "interval", *, wider: bool = False, **limits: Any
) -> Problem:
    """Return the paper's network on an array.

    Parameters
    ----------
    wider
        Allow more splits than the paper: maps over PEs, filters over functional units.
    **limits
        Others of the problem's limits.
    """
    given = bundled("mnist-tcpa")
    if wider:
        limits |= {"splits": ("filters", "maps"), "functional_units": "any"}
    return Problem(
        network=given.network,
        machine=given.machine.model_copy(update={"array": tuple(array)}),
        objective=AllocationObjective.model_validate({"minimise": minimise}),
        limits=AllocationLimits.model_validate(limits),
    )


@dataclass(frozen=True)
class Case:
    """A plan, and what follows from it."""

    problem: Problem
    plan: Plan

    @classmethod
    def of(cls, problem: Problem, splits: Iterable[LayerSplit], pacing: str = PACINGS[0]) -> Case:
        """Return the plan with these splits."""
        return cls(problem, Plan(tuple(stage.name for stage in problem.stages), tuple(splits), pacing))

    @property
    def notation(self) -> str:
        """Parts of each layer's filters, x those of its maps; ``*`` for filters over functional units."""
        return " ".join(
            f"{split.filters}{f'x{split.maps}' if split.maps > 1 else ''}{'*' * (split.unit_filters > 1)}"
            for split in self.plan.splits
        )

    @property
    def calculus(self) -> Calculus:
        """What the paper's equations make of it."""
        evaluate = layer_parallel if self.problem.parallel else layer_by_layer
        return evaluate(self.problem, self.plan.splits)

    @cached_property
    def times(self) -> Schedule:
        """Its schedule."""
        return schedule(self.problem, self.plan)

    @cached_property
    def measures(self) -> PipelineMeasures:
        """What the simulator measures."""
        report = simulate(self.problem, self.plan, overlapped=False)
        assert report.valid, report.violation
        measures: PipelineMeasures = report.measures
        return measures


def optimum(problem: Problem) -> tuple[Plan, ...]:
    """Return the best plan, or every plan of a front, proven by the exact search."""
    found = exhaustive(problem)
    assert found is not None and found.proven
    return found.plans


@cache
def best_by_pes(wider: bool) -> dict[int, Case]:
    """Return the best plan by number of PEs, from one for each layer to those of the bundled trade-off.

    It has the most frames per second, of such plans the lowest latency, of such the fewest PEs.
    """
    of = problem(bundled("mnist-tcpa-pareto").machine.array, "pareto", wider=wider)
    points = [schedule(of, one) for one in optimum(of)]
    found = {}
    for pes in range(len(of.stages), of.machine.pes + 1):
        times = min(
            (times for times in points if times.plan.pes <= pes),
            key=lambda times: (times.interval, times.latency, times.plan.pes),
        )
        found[pes] = Case(problem((1, pes), wider=wider), times.plan)
    return found


def figure_7(scan: str = "rows", pacing: str = PACINGS[0]) -> Case:
    """Return the paper's plan for 4 x 4 PEs."""
    of = problem(scan=scan)
    layers = published()["figure_7"]["layers"]
    return Case.of(of, (paper_split(of.machine, row["pes"]) for row in layers), pacing)


def table_1() -> dict[str, tuple[Mapping[str, Any], Case]]:
    """Return what is published of each column of table 1, and its plan."""
    found = {}
    for row in published()["table_1"]:
        title = row["column"]
        of = problem(row["array"], wider=True, execution=title.rpartition(" ")[0])
        split = spread if title == SPREAD else lambda of, _stage, pes: paper_split(of.machine, pes)
        found[title] = row, Case.of(of, map(split, [of] * len(of.stages), of.stages, row["pes"]))
    return found


def spread(problem: Problem, stage: Stage, pes: int) -> LayerSplit:
    """Return a split with filters over PEs and maps over functional units where a layer has several.

    Of one filter all maps are divided, of one map all filters.
    """
    units = problem.machine.functional_units
    filters, maps = (pes, 1) if stage.task.filters > 1 else (1, pes)
    if stage.task.maps > 1:
        return LayerSplit(filters, maps, unit_maps=units)
    return LayerSplit(filters, maps, unit_filters=units)


def best(title: str, *, wider: bool) -> Case:
    """Return the best plan for a column of table 1; layer by layer (1) with the paper's PEs."""
    row, case = table_1()[title]
    of = case.problem
    if of.parallel:
        return best_by_pes(wider)[of.machine.pes]
    given = {} if title == SPREAD else dict(zip(case.plan.names, row["pes"], strict=True))
    of = problem(row["array"], "latency", wider=wider, execution="layer-by-layer", pes=given)
    return Case(of, *optimum(of))


@dataclass(frozen=True)
class Storage:
    """Words that each layer stores with the plan of figure 7.

    Attributes
    ----------
    weights, input, output
        Layer by layer (14).
    lines
        What is stored of the input, layer-parallel (16, 17).
    corner
        The same by the form with which the example begins.
    held
        By scan and pacing, what the buffer before a layer holds when executed.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    input: tuple[int, ...]
    output: tuple[int, ...]
    lines: tuple[int, ...]
    corner: tuple[int, ...]
    held: Mapping[tuple[str, str], tuple[int, ...]]


def storage() -> Storage:
    """Return the storage of every layer."""
    of = problem()
    weights, given, output = zip(*storage_by_turn(of), strict=True)
    return Storage(
        tuple(stage.name for stage in of.stages),
        weights,
        given,
        output,
        intermediate_storage(of),
        intermediate_storage(of, with_corner=True),
        {key: _held(figure_7(*key)) for key in product(SCANS, PACINGS)},
    )


def _held(case: Case) -> tuple[int, ...]:
    """Return what the buffers hold of each layer's input; that of a chain is the output before."""
    held = [layer.held_words for layer in case.measures.layers.values()]
    producers = (stage.producers[0] for stage in case.problem.stages)
    return tuple(0 if producer < 0 else held[producer] for producer in producers)
