"""A constraint model for CP-SAT of a layer's tiles on a DSP, in products of a few whole numbers.

A *way* is a set of loops of several iterations with a schedule that may be best for it; then it is known
which loops bring which operand anew. Only the loop over output maps brings inputs again, only that over input
maps partial sums, so that accesses and buffers (5.3 to 5.20) are products of at most four numbers.

Where all weights of a group may stay, that is another way, in which their buffer has them all.

Extras: loops that multiply nothing take the smallest step, and nothing above a known plan is looked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import chain, combinations
from typing import Any

from ortools.sat.python import cp_model

from tilewright.core.cutoffs import narrow
from tilewright.tiling import Plan, Problem, objective
from tilewright.tiling.dsp import minizinc as bridge
from tilewright.tiling.dsp.exact.patterns import Pattern
from tilewright.tiling.dsp.minizinc import (
    channels,
    input_lines,
    known_plan,
    nest_of_problem,
    patterns_of,
    repeated,
    scale,
)
from tilewright.tiling.dsp.nest import FREE, C, K, N, X, Y
from tilewright.tiling.dsp.plan import DspPlan

WRITTEN_FOR = "cpsat"

NAMES: dict[int, str] = dict(zip(FREE, "ncyxk", strict=True))


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return problem.machine.kind == "dsp" and not problem.coupled


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for every step of a loop."""
    return sum(len(steps) for steps in nest_of_problem(problem).steps)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.problem, m.nest = problem, nest_of_problem(problem)
    builder = _Builder(m, problem, extras)
    builder.choose_steps()
    builder.choose_way()
    builder.fit_on_chip()
    builder.minimise_accesses()
    return m


class _Builder:
    """The variables and constraints of the model.

    Attributes
    ----------
    steps
        Of each loop, all its steps.
    trips, step
        Variables of the chosen step: iterations, and the step itself.
    """

    def __init__(self, m: Any, problem: Problem, extras: bool) -> None:
        self.m, self.nest, self.problem, self.extras = m, m.nest, problem, extras
        self.steps: dict[int, list[int]] = {d: self.nest.steps[d].tolist() for d in FREE}
        self.most = {d: max(self._trips(d)) for d in FREE}

    def _trips(self, d: int) -> list[int]:
        """Return the iterations of a loop with each step."""
        return [-(-self.nest.sizes[d] // step) for step in self.steps[d]]

    # Parts of constraints -----------------------------------------------------------------------------

    def _look_up(self, d: int, values: list[int], name: str) -> Any:
        """Return a variable that has the value of the chosen step."""
        m = self.m
        found = m.new_int_var_from_domain(cp_model.Domain.from_values(sorted(set(values))), name)
        chosen = sum(value * one for value, one in zip(values, m.chosen[d], strict=True))
        m.add(found == chosen).with_name(f"{name} is that of the chosen step")
        return found

    def _multiply(self, name: str, most: int, *factors: Any) -> Any:
        """Return a variable that is the product of some."""
        found = self.m.new_int_var(1, most, name)
        self.m.add_multiplication_equality(found, factors).with_name(name)
        return found

    def _choose(self, literal: Any, one: Any, other: Any, most: int, name: str) -> Any:
        """Return a variable that is one of two, by a literal."""
        found = self.m.new_int_var(1, most, name)
        self.m.add(found == one).only_enforce_if(literal)
        self.m.add(found == other).only_enforce_if(~literal)
        return found

    def _holds_in(self, name: str, which: Callable[[Pattern], bool]) -> Any:
        """Return a literal that holds in some of the ways."""
        m = self.m
        literal = m.new_bool_var(name)
        chosen = sum(way for way, (_, pattern) in zip(m.way, m.ways, strict=True) if which(pattern))
        m.add(literal == chosen).with_name(f"{name} where the way says so")
        return literal

    # Decisions ----------------------------------------------------------------------------------------

    def choose_steps(self) -> None:
        """Choose a step for each loop."""
        m, steps = self.m, self.steps
        m.chosen = {d: [m.new_bool_var(f"{NAMES[d]} step {step}") for step in steps[d]] for d in FREE}
        for d in FREE:
            m.add_exactly_one(m.chosen[d]).with_name(f"one step of the loop over {NAMES[d]}")
        self.trips = {d: self._look_up(d, self._trips(d), f"trips {NAMES[d]}") for d in FREE}
        self.step = {d: self._look_up(d, steps[d], f"step {NAMES[d]}") for d in FREE}

    def choose_way(self) -> None:
        """Choose the loops of several iterations, and a schedule that may be best for them."""
        m, steps = self.m, self.steps
        m.ways = [
            (frozenset(loops), pattern)
            for loops in chain.from_iterable(combinations(FREE, count) for count in range(len(FREE) + 1))
            if all(len(steps[d]) > 1 for d in loops)
            for pattern in patterns_of(self.problem, frozenset(loops))
        ]
        m.way = [m.new_bool_var(f"way {number}") for number in range(len(m.ways))]
        m.add_exactly_one(m.way).with_name("one schedule")
        for literal, (several, pattern) in zip(m.way, m.ways, strict=True):
            for d in FREE:
                whole = m.chosen[d][-1]
                m.add_implication(literal, ~whole if d in several else whole)
                if self.extras and d in several & {N, C, K} and d not in pattern.repeating:
                    m.add_implication(literal, m.chosen[d][0])

    # Buffers and accesses -----------------------------------------------------------------------------

    def fit_on_chip(self) -> None:
        """Let the buffers fit on chip (5.3 to 5.6)."""
        m, nest, step = self.m, self.nest, self.step
        room, units = nest.machine.buffer_capacity, nest.machine.units
        side = {
            d: self._look_up(d, [nest.extent(d, one) for one in self.steps[d]], f"side {NAMES[d]}")
            for d in (Y, X)
        }
        complete, sums = (units.held(complete=whole)["output"] for whole in (True, False))
        fewest, most = sorted((complete, sums))
        inputs = self._multiply("input buffer", room // units.input, step[K], step[N], side[Y], side[X])
        pairs = self._multiply(
            "pairs of maps", max(1, room // (nest.window * units.kernels)), step[K], step[C]
        )
        outputs = self._multiply("output buffer", room // fewest, step[C], step[N], step[Y], step[X])
        width = m.new_int_var(fewest, most, "width of outputs or of their sums")
        m.add(width == sums + (complete - sums) * m.chosen[K][-1]).with_name("sums until all maps are added")
        held = self._multiply("what outputs take", room, outputs, width)
        weights: Any = nest.window * pairs
        if any(pattern.resident for _, pattern in m.ways):
            stay = self._holds_in("all weights stay", lambda pattern: pattern.resident)
            weights = self._choose(stay, nest.group_weights, weights, nest.group_weights, "weights held")
        total = units.input * inputs + units.kernels * weights + held
        m.add(total <= room).with_name("buffers fit on chip (5.6)")

    def minimise_accesses(self) -> None:
        """Count what is brought beyond the first time (5.13 to 5.20), and minimise it."""
        m, nest, most = self.m, self.nest, self.most
        lines = {d: self._lines(d) for d in (Y, X)}
        times = {}
        for d in FREE:
            literal = self._holds_in(f"again {NAMES[d]}", partial(_repeats, d))
            times[d] = self._choose(literal, self.trips[d], 1, most[d], f"times {NAMES[d]}")
        plane_most = max(self._line_sums(Y, False)) * max(self._line_sums(X, False))
        plane = self._multiply("input positions of all tiles", plane_most, lines[Y], lines[X])
        inputs = self._multiply("input positions that are brought", plane_most * most[C], plane, times[C])
        weights_most = most[N] * most[Y] * most[X]
        weights = self._multiply("how often weights are brought", weights_most, times[N], times[Y], times[X])
        m.offset, m.unit = scale(self.problem)
        position, kernels, sums = repeated(nest)
        extra = (
            position // m.unit * (inputs - nest.n_inputs // channels(nest))
            + kernels // m.unit * (weights - 1)
            + sums // m.unit * (times[K] - 1)
        )
        m.minimize(extra)
        if (units := bridge.most_units(self.problem)) is not None:
            m.add(extra <= units).with_name("accesses are within their limit")
        known = known_plan(self.problem) if self.extras and not narrow() else None
        if known is not None:
            worst = (objective(self.problem, Plan((known,))) - m.offset) // m.unit
            m.add(extra <= worst).with_name("worth finding")

    def _lines(self, d: int) -> Any:
        """Return a variable for the input rows (columns) of all tiles, those that a halo shares once."""
        name, new, full = NAMES[d], self._line_sums(d, True), self._line_sums(d, False)
        halo = self._holds_in(f"halo along {name}", lambda pattern: pattern.halo == d)
        either = self._look_up(d, new, f"new {name}"), self._look_up(d, full, f"full {name}")
        return self._choose(halo, *either, max(full + new), f"lines {name}")

    def _line_sums(self, d: int, halo: bool) -> list[int]:
        """Return the input rows (columns) of all tiles with each step."""
        return [input_lines(self.nest, d, step, halo) for step in self.steps[d]]


def _repeats(d: int, pattern: Pattern) -> bool:
    """Whether a loop brings some operand anew."""
    return d in pattern.repeating


def start(m: Any, plan: Plan) -> None:
    """Hint the steps of the model's plan that is no worse than a plan; the schedule follows."""
    inside = bridge.not_above(m.problem, plan.layers[0])
    if inside is not None:
        for d, choice in zip(FREE, bridge.choices_of(m.problem, inside), strict=True):
            for number, one in enumerate(m.chosen[d], start=1):
                m.add_hint(one, number == choice)


def read(m: Any, value: Any) -> Plan:
    """Return the plan of a solution."""
    n, c, y, x, k = (
        next(int(step) for step, one in zip(m.nest.steps[d], m.chosen[d], strict=True) if value(one))
        for d in FREE
    )
    pattern = next(one for literal, (_, one) in zip(m.way, m.ways, strict=True) if value(literal))
    return Plan((DspPlan((1, n, c, y, x, k), pattern.order, pattern.reuse),))
