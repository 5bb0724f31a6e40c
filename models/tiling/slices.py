"""An integer program for one layer on a multicore NPU whose linear relaxation has whole solutions only.

A *slice* fixes what makes costs and memories products: partition, schedule, and the steps of rows and
columns. Then the time (equations 3 to 9) is a sum of something for the step of filters, which says how often
the input is loaded, and something for the step of input maps, which says how many bursts a filter's weights
are. The memory for weights (equation 2) allows with each step of maps all steps of filters up to some largest
one. Where ``m_from[i]`` says that filters take their i-th step or a larger one, and ``n_from[j]`` the same of
maps, that is a staircase of rows ``n_from + m_from <= at``: with ``at - n_from`` for ``n_from`` every row
compares two variables, as in the dual of a network. So the polytope of each slice is whole, and the choice
among all slices is their disjunction, which adds no fractions.

Where costs are limited, each step of maps needs some smallest step of filters, as larger ones cost no more.
Each of these is a row, too, of three variables: fractions may then remain to HiGHS.

Extras: slices that cannot be better than a known plan are left out, and so are steps of no use. Limits of
cost tell such plans apart, so that then all are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pyomo.environ as pyo

from tilewright.core.cutoffs import narrow
from tilewright.spec.constraints import Term
from tilewright.tiling import Plan, Problem
from tilewright.tiling.npu.cost import add_up, planes, rounds
from tilewright.tiling.npu.cut import Cut
from tilewright.tiling.npu.descent import known_plan
from tilewright.tiling.npu.exact import apart, choices
from tilewright.tiling.npu.kind import objective
from tilewright.tiling.npu.minizinc import cuts, prices, scale, word_bits, words
from tilewright.tiling.npu.minizinc import start as numbers
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES
from tilewright.tiling.npu.plan import NpuPlan as LayerPlan
from tilewright.tiling.npu.vocabulary import AXES

CHOOSES_COLUMNS = True
"""Its costs are numbers that the package computes before."""


@dataclass(frozen=True)
class Slice:
    """A partition, a schedule, steps of rows and columns, and the steps of filters and maps that fit there.

    Attributes
    ----------
    r, c
        Steps of rows and columns.
    m_steps, n_steps
        Steps of filters and of input maps, ascending.
    cost
        Time in units of the objective with the first of them; `m_costs` and `n_costs` are what others add.
    fitting
        For each step of maps, how many steps of filters fit with it.
    costly
        For each step of maps, how many of the steps of filters cost more with it than limits allow.
    """

    partition: str
    schedule: str
    r: int
    c: int
    m_steps: tuple[int, ...]
    n_steps: tuple[int, ...]
    cost: int
    m_costs: tuple[int, ...]
    n_costs: tuple[int, ...]
    fitting: tuple[int, ...]
    costly: tuple[int, ...] = ()

    @property
    def least(self) -> int:
        """Lower bound on the time of its plans."""
        return self.cost + min(self.m_costs) + min(self.n_costs)


WORDS = (
    "partition",
    "schedule",
    "iterations",
    "tile.filters",
    "tile.input_maps",
    "tile.rows",
    "tile.columns",
)


def suits(problem: Problem) -> bool:
    """Whether this is a layer on a multicore NPU."""
    return problem.machine.kind == "npu" and not problem.coupled


def size(problem: Problem) -> int:
    """Return the number of constraints: about two for every step of filters and of maps in a slice."""
    return sum(len(one.m_steps) + 2 * len(one.n_steps) for one in slices(problem, True))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    found = slices(problem, extras)
    m = pyo.ConcreteModel(name="slices")
    m.problem, m.slices = problem, found
    m.offset, m.unit = scale(problem)

    m.SLICES = pyo.RangeSet(0, len(found) - 1)
    m.M_FROM = pyo.Set(
        dimen=2, initialize=[(s, i) for s in m.SLICES for i in range(1, len(found[s].m_steps))]
    )
    m.N_FROM = pyo.Set(
        dimen=2, initialize=[(s, j) for s in m.SLICES for j in range(1, len(found[s].n_steps))]
    )

    m.at = pyo.Var(m.SLICES, domain=pyo.Binary)  # the plan is in this slice
    m.m_from = pyo.Var(m.M_FROM, domain=pyo.Binary)  # ... and T_M is its i-th step or a larger one
    m.n_from = pyo.Var(m.N_FROM, domain=pyo.Binary)  # ... and T_N is its j-th step or a larger one
    m.nowhere = pyo.Var(bounds=(0, 0))  # so that the model of an impossible problem can be built

    def m_from(s: int, i: int) -> Any:
        return m.m_from[s, i] if i else m.at[s]

    def n_from(s: int, j: int) -> Any:
        return m.n_from[s, j] if j else m.at[s]

    m.one_slice = pyo.Constraint(expr=sum(m.at[s] for s in m.SLICES) + m.nowhere == 1)

    @m.Constraint(m.M_FROM)
    def steps_of_filters_ascend(m: Any, s: int, i: int) -> Any:
        return m.m_from[s, i] <= m_from(s, i - 1)

    @m.Constraint(m.N_FROM)
    def steps_of_maps_ascend(m: Any, s: int, j: int) -> Any:
        return m.n_from[s, j] <= n_from(s, j - 1)

    @m.Constraint(m.N_FROM)  # (2)
    def weights_fit(m: Any, s: int, j: int) -> Any:
        fitting = found[s].fitting
        if fitting[j] == fitting[j - 1]:
            return pyo.Constraint.Skip  # says no more than the row before
        return m.n_from[s, j] + m_from(s, fitting[j]) <= m.at[s]

    @m.Constraint([(s, j) for s, one in enumerate(found) for j, count in enumerate(one.costly) if count])
    def costs_are_within_limits(m: Any, s: int, j: int) -> Any:
        one = found[s]
        is_step = n_from(s, j) - (n_from(s, j + 1) if j + 1 < len(one.n_steps) else 0)
        enough = m_from(s, one.costly[j]) if one.costly[j] < len(one.m_steps) else m.nowhere
        return is_step <= enough

    m.cost = pyo.Objective(  # (6)
        expr=sum(one.cost * m.at[s] for s, one in enumerate(found))
        + sum((found[s].m_costs[i] - found[s].m_costs[i - 1]) * m.m_from[s, i] for s, i in m.M_FROM)
        + sum((found[s].n_costs[j] - found[s].n_costs[j - 1]) * m.n_from[s, j] for s, j in m.N_FROM)
    )
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary: what it is in the slice, with its steps of filters and of maps."""
    if one.word in ("partition", "schedule"):
        names = PARTITIONS if one.word == "partition" else SCHEDULES
        return sum((names.index(getattr(at, one.word)) + 1) * m.at[s] for s, at in enumerate(m.slices))
    axis = one.arguments[0] if one.word == "iterations" else one.word.removeprefix("tile.")
    d = AXES.index(str(axis))

    def of(at: Slice, step: int) -> int:
        return -(-cuts(m.problem)[at.partition].sizes[d] // step) if one.word == "iterations" else step

    if d > 1:
        return sum(of(at, (at.r, at.c)[d - 2]) * m.at[s] for s, at in enumerate(m.slices))
    later = (m.m_from, m.n_from)[d]
    steps = [(at.m_steps, at.n_steps)[d] for at in m.slices]
    return sum(of(at, steps[s][0]) * m.at[s] for s, at in enumerate(m.slices)) + sum(
        (of(m.slices[s], steps[s][i]) - of(m.slices[s], steps[s][i - 1])) * later[s, i] for s, i in later
    )


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in the plan that a plan becomes when symmetry is broken."""
    chosen = numbers(m.problem, plan)
    place = None
    if chosen is not None:
        partition, schedule, *choice = chosen
        cut = cuts(m.problem)[PARTITIONS[partition - 1]]
        tile = [int(steps[number - 1]) for steps, number in zip(cut.steps, choice, strict=True)]
        place = next(
            s
            for s, one in enumerate(m.slices)
            if (one.partition, one.schedule, one.r, one.c)
            == (PARTITIONS[partition - 1], SCHEDULES[schedule - 1], *tile[2:])
        )
    m.nowhere = 0
    for s in m.SLICES:
        m.at[s] = int(s == place)
    for s, i in m.M_FROM:
        m.m_from[s, i] = int(s == place and m.slices[s].m_steps[i] <= tile[0])
    for s, j in m.N_FROM:
        m.n_from[s, j] = int(s == place and m.slices[s].n_steps[j] <= tile[1])


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    s = max(m.SLICES, key=lambda s: m.at[s].value)
    one: Slice = m.slices[s]
    i = sum(m.m_from[s, i].value > 0.5 for i in range(1, len(one.m_steps)))
    j = sum(m.n_from[s, j].value > 0.5 for j in range(1, len(one.n_steps)))
    tile = one.m_steps[i], one.n_steps[j], one.r, one.c
    return Plan((LayerPlan(one.partition, one.schedule, tile),))


# Slices ----------------------------------------------------------------------------------------------------


def slices(problem: Problem, extras: bool) -> tuple[Slice, ...]:
    """Return all slices in which some tile fits; with extras those that can be as good as a known plan."""
    if not (given := problem.limits.at_most.given):
        return _slices(problem, extras, extras and not narrow())
    costly: list[Any] = [0] * len(every := _slices(problem, False, False))
    for name, most in given.items():
        other = problem.minimising(name)
        offset, unit = scale(other)
        for s, one in enumerate(_slices(other, False, False)):
            costs = one.cost + np.add.outer(one.n_costs, one.m_costs)
            costly[s] = np.maximum(costly[s], (costs > (most - offset) // unit).sum(axis=1))
    return tuple(
        replace(one, costly=tuple(counts.tolist())) for one, counts in zip(every, costly, strict=True)
    )


@lru_cache(maxsize=4)
def _slices(problem: Problem, extras: bool, as_good: bool) -> tuple[Slice, ...]:
    offset, unit = scale(problem)
    known = known_plan(problem) if as_good else None
    worst = None if known is None else (objective(problem, known) - offset) // unit
    found = []
    for partition, schedule in choices(problem.limits):
        every = _Every(problem, partition, schedule, extras)
        for r in range(len(every.rs)):
            for c in range(len(every.cs)):
                one = every.slice(r, c)
                if one is not None and (worst is None or one.least <= worst):
                    found.append(one)
    return tuple(found)


class _Every:
    """All slices of a partition and schedule."""

    def __init__(self, problem: Problem, partition: str, schedule: str, extras: bool) -> None:
        self.cut: Cut = cuts(problem)[partition]
        self.partition, self.schedule, self.extras = partition, schedule, extras
        self.apart = apart(problem.limits)
        offset, unit = scale(problem)
        cut, cycle, element, burst = self.cut, *(price * self.cut.repeats for price in prices(problem))
        self.ms, self.ns, self.rs, self.cs = cut.steps
        plane = planes(cut, self.rs[:, None], self.cs[None, :])
        most = [cores[0][1] - cores[0][0] for cores in cut.cores]
        self.lanes = add_up(most, self.ms, np.ones_like)
        again = np.full(plane.tiles.shape, len(cut.rows)) if schedule == "WS" else plane.tiles
        load = words(problem, plane.input, plane.input_bytes, "input") * element + plane.input_bursts * burst
        stored = words(problem, plane.output, plane.output_bytes, "output") * element
        filters, busy = cut.filters, most[0] * cut.maps
        self.fixed = (
            busy * rounds(cut, self.rs[:, None], self.cs[None, :], cut.sizes[2]) * cycle
            + filters * (stored + plane.output_bursts * burst)
            + (filters * load if cut.depthwise else 0)
            - offset
        ) // unit
        self.by_lane = (0 if cut.depthwise else cut.maps) * load // unit
        self.by_filter = filters * again
        word = word_bits(problem)

        def of_filter(maps: Any) -> Any:
            moved, bursts = (
                cut.cut_up(maps * cut.window, "weights", bits) for bits in (word, cut.burst_bits)
            )
            return moved * element + bursts * burst

        whole = np.full_like(self.ns, of_filter(cut.maps))
        self.deep = (whole if schedule == "WS" else add_up([cut.maps], self.ns, of_filter)) // unit

    def slice(self, row: int, column: int) -> Slice | None:
        """Return the slice of a step of rows and one of columns, None if nothing fits in it."""
        cut, capacity = self.cut, self.cut.capacity
        r, c = int(self.rs[row]), int(self.cs[column])
        height, width = cut.reach(0, r), cut.reach(1, c)
        ms, ns = self.ms, self.ns
        held = np.full_like(ns, cut.maps) if self.schedule == "WS" else ns
        m_fits = ms * r * c <= capacity["output"]
        if cut.depthwise:
            m_fits &= ms * height * width <= capacity["input"]
            n_fits = np.ones(len(ns), dtype=np.bool_)
        else:
            n_fits = ns * height * width <= capacity["input"]
        if self.schedule == "IS":
            m_fits &= ms == cut.sizes[0]
        elif self.apart and len(ms) > 1:
            m_fits &= ms < cut.sizes[0]
        m_fits &= ms * int(held[0]) * cut.window <= capacity["weights"]
        if not m_fits.any():
            return None
        n_fits &= int(ms[m_fits][0]) * held * cut.window <= capacity["weights"]
        if not n_fits.any():
            return None
        m_steps, n_steps, deep, lanes = ms[m_fits], ns[n_fits], self.deep[n_fits], self.lanes[m_fits]
        fitting = (m_steps * held[n_fits][:, None] * cut.window <= capacity["weights"]).sum(axis=1)
        if self.extras:
            if self.schedule == "WS":  # the depth of an input tile costs nothing
                n_steps, deep, fitting = n_steps[:1], deep[:1], fitting[:1]
            if len(n_steps) == 1:  # nothing but the loads of the input depends on filters
                m_steps, lanes, fitting = m_steps[-1:], lanes[-1:], np.ones_like(fitting)
        by_lane, by_filter = int(self.by_lane[row, column]), int(self.by_filter[row, column])
        return Slice(
            self.partition,
            self.schedule,
            r,
            c,
            tuple(m_steps.tolist()),
            tuple(n_steps.tolist()),
            int(self.fixed[row, column]) + by_lane * int(lanes[0]) + by_filter * int(deep[0]),
            tuple((by_lane * (lanes - lanes[0])).tolist()),
            tuple((by_filter * (deep - deep[0])).tolist()),
            tuple(fitting.tolist()),
        )
