"""A constraint model for CP-SAT of a layer's tiles on a DSP, in products of a few whole numbers.

A *way* is a set of loops of several iterations with a schedule that may be best for it; then it is known
which loops bring which operand anew. Only the loop over output maps brings inputs again, only that over input
maps partial sums, so that accesses and buffers (5.3 to 5.20) are products of at most four numbers.

Extras: loops that multiply nothing take the smallest step, and nothing above a known plan is looked for.
"""

from __future__ import annotations

from itertools import chain, combinations
from typing import Any

from ortools.sat.python import cp_model

from tilewright.core.cutoffs import narrow
from tilewright.tiling import Plan, Problem, objective
from tilewright.tiling.dsp import minizinc as bridge
from tilewright.tiling.dsp.minizinc import (
    FREE,
    channels,
    input_lines,
    known_plan,
    nest_of,
    repeated,
    scale,
    ways,
)
from tilewright.tiling.dsp.nest import C, K, N, X, Y
from tilewright.tiling.dsp.plan import DspPlan

WRITTEN_FOR = "cpsat"

NAMES = dict(zip(FREE, "ncyxk", strict=True))


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return problem.machine.kind == "dsp" and not problem.coupled


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for every step of a loop."""
    return sum(len(steps) for steps in nest_of(problem).steps)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    nest = nest_of(problem)
    m: Any = cp_model.CpModel()
    m.problem, m.nest = problem, nest
    steps = {d: nest.steps[d].tolist() for d in FREE}
    m.chosen = {d: [m.new_bool_var(f"{NAMES[d]} step {step}") for step in steps[d]] for d in FREE}
    for d in FREE:
        m.add_exactly_one(m.chosen[d]).with_name(f"one step of the loop over {NAMES[d]}")

    def looked_up(d: int, values: list[int], name: str) -> Any:
        """Return a variable that has the value of the chosen step."""
        found = m.new_int_var_from_domain(cp_model.Domain.from_values(sorted(set(values))), name)
        m.add(found == sum(value * one for value, one in zip(values, m.chosen[d], strict=True)))
        return found

    def product(name: str, most: int, *factors: Any) -> Any:
        found = m.new_int_var(1, most, name)
        m.add_multiplication_equality(found, factors).with_name(name)
        return found

    def either(literal: Any, one: Any, other: Any, most: int, name: str) -> Any:
        found = m.new_int_var(1, most, name)
        m.add(found == one).only_enforce_if(literal)
        m.add(found == other).only_enforce_if(~literal)
        return found

    # Steps, and what follows from them ----------------------------------------------------------------

    trips = {
        d: looked_up(d, [-(-nest.sizes[d] // step) for step in steps[d]], f"trips {NAMES[d]}") for d in FREE
    }
    step = {d: looked_up(d, steps[d], f"step {NAMES[d]}") for d in FREE}
    side = {d: looked_up(d, [nest.extent(d, one) for one in steps[d]], f"side {NAMES[d]}") for d in (Y, X)}

    # Ways ---------------------------------------------------------------------------------------------

    m.ways = [
        (frozenset(loops), *way)
        for loops in chain.from_iterable(combinations(FREE, count) for count in range(len(FREE) + 1))
        if all(len(steps[d]) > 1 for d in loops)
        for way in ways(problem, frozenset(loops))
    ]
    m.way = [m.new_bool_var(f"way {number}") for number in range(len(m.ways))]
    m.add_exactly_one(m.way).with_name("one schedule")
    for literal, (several, _, _, pattern) in zip(m.way, m.ways, strict=True):
        for d in FREE:
            whole = m.chosen[d][-1]
            m.add_implication(literal, ~whole if d in several else whole)
            if (
                extras
                and d in several
                and d in (N, C, K)
                and d not in pattern.input | pattern.kernels | pattern.output
            ):
                m.add_implication(literal, m.chosen[d][0])

    def says(name: str, which: Any) -> Any:
        """Return a literal that holds in some of the ways."""
        literal = m.new_bool_var(name)
        m.add(literal == sum(way for way, facts in zip(m.way, m.ways, strict=True) if which(facts[3])))
        return literal

    # Accesses (5.13 to 5.20) --------------------------------------------------------------------------

    lines = {}
    for d in (Y, X):
        kept = says(f"halo along {NAMES[d]}", lambda pattern, d=d: pattern.halo == d)
        full, new = ([input_lines(nest, d, one, halo) for one in steps[d]] for halo in (False, True))
        lines[d] = either(
            kept,
            looked_up(d, new, f"new {NAMES[d]}"),
            looked_up(d, full, f"full {NAMES[d]}"),
            max(full + new),
            f"lines {NAMES[d]}",
        )
    most = {d: max(-(-nest.sizes[d] // one) for one in steps[d]) for d in FREE}
    times = {
        d: either(
            says(
                f"again {NAMES[d]}",
                lambda pattern, d=d: d in pattern.input | pattern.kernels | pattern.output,
            ),
            trips[d],
            1,
            most[d],
            f"times {NAMES[d]}",
        )
        for d in FREE
    }
    planes_most = max(input_lines(nest, Y, one, False) for one in steps[Y]) * max(
        input_lines(nest, X, one, False) for one in steps[X]
    )
    plane = product("input positions of all tiles", planes_most, lines[Y], lines[X])
    inputs = product("input positions that are brought", planes_most * most[C], plane, times[C])
    weights = product(
        "how often weights are brought", most[N] * most[Y] * most[X], times[N], times[Y], times[X]
    )

    # Buffers (5.3 to 5.6) -----------------------------------------------------------------------------

    room, units = nest.machine.buffer_capacity, nest.machine.units
    complete, sums = (units.held(complete=whole)["output"] for whole in (True, False))
    inputs_held = product("input buffer", room // units.input, step[K], step[N], side[Y], side[X])
    pairs = product("pairs of maps", max(1, room // (nest.window * units.kernels)), step[K], step[C])
    outputs_held = product("output buffer", room // min(complete, sums), step[C], step[N], step[Y], step[X])
    output_width = m.new_int_var(
        min(complete, sums), max(complete, sums), "width of outputs or of their sums"
    )
    m.add(output_width == sums + (complete - sums) * m.chosen[K][-1])
    buffers = [
        units.input * inputs_held,
        units.kernels * nest.window * pairs,
        product("what outputs take", room, outputs_held, output_width),
    ]
    m.add(sum(buffers) <= room).with_name("buffers fit on chip (5.6)")

    # Objective ----------------------------------------------------------------------------------------

    m.offset, m.unit = scale(problem)
    position, kernels, partial = repeated(nest)
    extra = (
        position // m.unit * (inputs - nest.n_inputs // channels(nest))
        + kernels // m.unit * (weights - 1)
        + partial // m.unit * (times[K] - 1)
    )
    m.minimize(extra)
    known = known_plan(problem) if extras and not narrow() else None
    if known is not None:
        m.add(extra <= (objective(problem, Plan((known,))) - m.offset) // m.unit).with_name("worth finding")
    return m


def start(m: Any, plan: Plan) -> None:
    """Hint the steps of the model's plan that is no worse than a plan; the schedule follows."""
    inside = bridge.start(m.problem, plan)
    if inside is not None:
        for d, choice in zip(FREE, inside[1:], strict=True):
            for number, one in enumerate(m.chosen[d], start=1):
                m.add_hint(one, number == choice)


def read(m: Any, value: Any) -> Plan:
    """Return the plan of a solution."""
    n, c, y, x, k = (
        next(int(step) for step, one in zip(m.nest.steps[d], m.chosen[d], strict=True) if value(one))
        for d in FREE
    )
    _, order, reuse, _ = next(facts for literal, facts in zip(m.way, m.ways, strict=True) if value(literal))
    return Plan((DspPlan((1, n, c, y, x, k), order, reuse),))
