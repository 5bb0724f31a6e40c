"""The DSP and MiniZinc: the data of ``models/tiling/core.mzn``, and plans from its solutions.

What every declarative formulation needs stands here, too: the units of its objective, a plan that bounds
what is worth finding, and the plan inside the formulations' space that is no worse than a given one.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import combinations, permutations
from math import gcd, prod
from typing import Any

import numpy as np

from tilewright.core.cutoffs import narrow
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError
from tilewright.tiling.dsp import kind as dsp
from tilewright.tiling.dsp.exact.patterns import Pattern, pattern_of, useful_patterns
from tilewright.tiling.dsp.nest import FREE, C, K, N, Nest, X, Y, nest_of
from tilewright.tiling.dsp.plan import ORDERED, REUSES, SCHEDULES, DspPlan, allowed
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term"]


LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MODEL_LOOPS = {"images": "N", "output_maps": "C", "rows": "Y", "columns": "X", "input_maps": "K"}
MODEL_OPERANDS = {"input": "INPUT", "weights": "KERNELS", "output": "OUTPUT"}
"""What the vocabulary names, as the model has it."""

ENOUGH = ("knxyc", "knyxc", "cnyxk", "cknxy", "cknyx")
"""Orders among which the best is, whatever the tile, where all are allowed.

The innermost loop of several iterations leaves one operand where it is: c the input, k the outputs, the
others the weights. How often the others are brought depends no more on the order of the loops outside, but
y or x as the input's own innermost loop keeps a halo.
"""


def nest_of_problem(problem: Problem) -> Nest:
    """Return the loop nest of a problem that the formulations can state.

    Raises
    ------
    InputError
        For other machines and objectives, and where other costs are limited.
    """
    others = "the declarative formulations do accesses on a machine of kind dsp; exhaustive does the others"
    if problem.machine.kind != "dsp":
        raise InputError("machine.kind", problem.machine.kind, others)
    if problem.minimise != "accesses":
        raise InputError("objective.minimise", problem.minimise, others)
    problem.refuse_lists("the declarative formulations")
    given = problem.limits.at_most.given
    if set(given) - {"accesses"}:
        raise InputError("limits.at_most", given, others)
    return nest_of(problem.one_layer, problem.machine, problem.limits.schedule)


def refuse_in_minizinc(problem: Problem) -> None:
    """Refuse what core.mzn does not state and the other formulations do.

    Raises
    ------
    InputError
        Where accesses are limited, or all weights may stay.
    """
    problem.refuse_limits("the MiniZinc formulations")
    if problem.limits.schedule == "any+weights":
        limit = "the MiniZinc formulations do not keep all weights; tiles@highs and exhaustive do"
        raise InputError("limits.schedule", problem.limits.schedule, limit)


def most_units(problem: Problem) -> int | None:
    """Return up to how many units of the objective accesses are allowed, None without a limit."""
    most = problem.limits.at_most.given.get("accesses")
    offset, unit = scale(problem)
    return None if most is None else (most - offset) // unit


def schedules(problem: Problem) -> list[tuple[str, str]]:
    """Return the schedules of the formulations as (order, reuse), those of `ENOUGH` first.

    Where every schedule is allowed, a halo is always kept: that never costs anything. Constraints may ask for
    what it costs not to.
    """
    limit = problem.limits.orders
    if limit == "any" and problem.constraints:
        return [("".join(order), reuse) for reuse in REUSES[-2::-1] for order in permutations(ORDERED)]
    if limit == "any":
        others = sorted({"".join(order) for order in permutations(ORDERED)} - set(ENOUGH))
        return [(order, "halo") for order in (*ENOUGH, *others)]
    return [SCHEDULES[name] for name in allowed(limit)]


def worth_trying(problem: Problem) -> list[tuple[str, str]]:
    """Return schedules that contain a best one.

    Where all weights stay, input and outputs are brought as often as in that order without.
    """
    known = schedules(problem)
    some = problem.limits.orders == "any" and not problem.constraints
    staying = [(order, "weights") for order in ENOUGH if problem.limits.schedule == "any+weights"]
    return (known[: len(ENOUGH)] if some else known) + staying


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` elements, or bits.

    The offset is what every plan moves; the unit divides what repetitions of each operand add.
    """
    nest = nest_of_problem(problem)
    return nest.compulsory_units, gcd(*repeated(nest))


def channels(nest: Nest) -> int:
    """Input maps of all images: the elements behind one input position."""
    return nest.layer.batch * nest.layer.input[0]


def repeated(nest: Nest) -> tuple[int, int, int]:
    """Return what is moved by bringing once more an input position, all weights, all partial sums."""
    units = nest.machine.units
    return (
        channels(nest) * units.input,
        nest.n_weights * units.kernels,
        2 * nest.n_outputs * units.partial,
    )


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: one for every step of a loop."""
    refuse_in_minizinc(problem)
    nest = nest_of_problem(problem)
    return len(schedules(problem)) + sum(len(steps) for steps in nest.steps)


# A plan that bounds what is worth finding ------------------------------------------------------------------


@lru_cache(maxsize=256)
def known_plan(problem: Problem) -> DspPlan | None:
    """Return a good plan by descent from the smallest tile, two loops at a time; None if there is no plan.

    There is none only for the schedule ``intra``, where partial sums would always come too late or no tile
    of all input maps fits.
    """
    found = [_descend(nest_of_problem(problem), order, reuse) for order, reuse in worth_trying(problem)]
    plans = [pair for pair in found if pair is not None]
    return min(plans, key=lambda pair: pair[0])[1] if plans else None


def _descend(nest: Nest, order: str, reuse: str) -> tuple[int, DspPlan] | None:
    value: int | None = None
    tile = [int(steps[0]) for steps in nest.steps]
    while True:
        before = value
        for pair in combinations(FREE, 2):
            lists = [nest.steps[d] if d in pair else np.array([tile[d]]) for d in range(6)]
            tiles = Tiles(nest, tuple(grid.ravel() for grid in np.meshgrid(*lists, indexing="ij")))
            allowed = (tiles.needed(reuse) <= nest.machine.buffer_capacity) & ~tiles.needs_late_sums(reuse)
            if not allowed.any():
                continue
            accesses = np.where(allowed, tiles.traffic(order, reuse).accesses, np.iinfo(np.int64).max)
            at = int(accesses.argmin())
            if value is None or accesses[at] < value:
                value, tile = int(accesses[at]), [int(step[at]) for step in tiles.steps]
        if value == before:
            return None if value is None else (value, DspPlan(tuple(tile), order, reuse))


# Plans inside the formulations' space ----------------------------------------------------------------------


def no_worse(problem: Problem, given: DspPlan) -> DspPlan | None:
    """Return the plan of the formulations' space that a valid plan becomes, which costs no more.

    Its tile has one group, its schedule is the best for the tile, and its loops that multiply nothing take
    the smallest step. None where no schedule is allowed with the tile.
    """
    nest = nest_of_problem(problem)
    tile: tuple[int, ...] = (1, *nest.step(given.tile)[1:])
    while True:
        found: list[tuple[int, int, tuple[int, ...]]] = []
        for number, (order, reuse) in enumerate(worth_trying(problem)):
            small = _shrunk(nest, tile, order, reuse)
            if small is None:
                continue
            tiles = Tiles(nest, tuple(np.array([step]) for step in small))
            if tiles.needed(reuse)[0] <= nest.machine.buffer_capacity:
                found.append((int(tiles.traffic(order, reuse).accesses[0]), number, small))
        if not found:
            return None
        _, number, small = min(found)
        if small == tile:
            return DspPlan(tile, *worth_trying(problem)[number])
        tile = small


def patterns_of(problem: Problem, several: frozenset[int]) -> tuple[Pattern, ...]:
    """Return what schedules bring anew when certain loops have several iterations, but for worse ones."""
    single = frozenset(FREE) - several
    return useful_patterns(worth_trying(problem), single, nest_of_problem(problem).machine.double_buffering)


def _shrunk(nest: Nest, tile: tuple[int, ...], order: str, reuse: str) -> tuple[int, ...] | None:
    """Give the loops of several iterations that multiply nothing the smallest step that costs no more.

    None where the next tile needs partial sums that are not written back yet.
    """
    several = frozenset(d for d in FREE if tile[d] < nest.sizes[d])
    pattern = pattern_of(order, reuse, frozenset(FREE) - several, nest.machine.double_buffering)
    if pattern is None:
        return None
    small = list(tile)
    for d in several - pattern.repeating:
        choices = [step for step in nest.steps[d].tolist() if step <= tile[d]]
        if d in (Y, X):
            sums = [input_lines(nest, d, step, pattern.halo == d) for step in choices]
            choices = [step for step, total in zip(choices, sums, strict=True) if total <= sums[-1]]
        small[d] = choices[0]
    return tuple(small)


def input_lines(nest: Nest, axis: int, step: int, halo: bool) -> int:
    """Input rows (columns) of all tiles along an axis, what neighbours share once if a halo stays."""
    tiles = nest.axis(axis, step)
    return int((tiles.new if halo else tiles.full).sum())


# MiniZinc --------------------------------------------------------------------------------------------------


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.mzn declares, all but those of the search."""
    refuse_in_minizinc(problem)
    nest = nest_of_problem(problem)
    machine = nest.machine
    offset, unit = scale(problem)
    most = max(len(nest.steps[d]) for d in FREE)

    def filled(values: list[int]) -> list[int]:
        return values + values[-1:] * (most - len(values))

    allowed = schedules(problem)
    fewest_planes = nest.n_inputs // channels(nest)
    grain = gcd(*machine.units)
    widths = {name: units // grain for name, units in machine.units._asdict().items()}
    whole = nest.buffers((1, *nest.sizes[1:]))
    largest = sum(elements * widths[name] for name, elements in whole.items())
    sums = whole["output"] * (widths["partial"] - widths["output"])
    capacity = min(machine.buffer_capacity // grain, largest + sums)
    if capacity > LARGEST:
        limit = f"a layer of which {capacity} {machine.unit} fit on chip; MiniZinc counts to {LARGEST}"
        raise InputError("machine.memory_bytes", machine.memory_bytes, limit)
    known = None if narrow() else known_plan(problem)
    worst = _most(nest, unit) if known is None else (dsp.objective(problem, known) - offset) // unit
    if worst + fewest_planes > LARGEST:
        units = f"{unit} {machine.unit}"
        limit = f"gives objectives up to {worst} units of {units}, and MiniZinc counts to {LARGEST}"
        raise InputError("layer", problem.one_layer.input, limit)
    input_units, kernel_units, output_units = (min(each // unit, worst + 1) for each in repeated(nest))
    return {
        "size": list(nest.sizes[1:]),
        "n_steps": [len(nest.steps[d]) for d in FREE],
        "steps": [filled(nest.steps[d].tolist()) for d in FREE],
        "stride": [lines.stride for lines in nest.lines],
        "extent": [lines.extent for lines in nest.lines],
        "whole": [filled([input_lines(nest, d, int(s), False) for s in nest.steps[d]]) for d in (Y, X)],
        "fresh": [filled([input_lines(nest, d, int(s), True) for s in nest.steps[d]]) for d in (Y, X)],
        "fewest_planes": fewest_planes,
        "window": nest.window,
        "width": [widths["input"], widths["kernels"], widths["output"]],
        "sum_width": widths["partial"],
        "room": capacity,
        "late": machine.double_buffering,
        "n_schedules": len(allowed),
        "places": [[order.index(loop) + 1 for loop in ORDERED] for order, _ in allowed],
        "keeps_tiles": [reuse != "none" for _, reuse in allowed],
        "keeps_halos": [reuse == "halo" for _, reuse in allowed],
        "input_units": input_units,
        "kernel_units": kernel_units,
        "output_units": output_units,
        "worst": worst,
        "enough": set(range(1, len(worth_trying(problem)) + 1)),
        "loaded_from": [lines.loaded[0] for lines in nest.lines],
        "loaded_to": [lines.loaded[1] for lines in nest.lines],
    }


def _most(nest: Nest, unit: int) -> int:
    """Return what no plan exceeds in units of the objective, or what MiniZinc can count."""
    trips = [-(-nest.sizes[d] // int(nest.steps[d][0])) for d in range(6)]
    planes = prod(max(input_lines(nest, d, int(s), False) for s in nest.steps[d]) for d in (Y, X))
    again = (planes * trips[C], trips[N] * trips[Y] * trips[X], trips[K])
    total = sum(each // unit * times for each, times in zip(repeated(nest), again, strict=True))
    return min(total, LARGEST // 4)


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc.

    The model has one group of channels at a time. Where there are several, a plan of more keeps what it says
    of the other loops with one, so only these are stated.
    """
    if problem.minimise != "accesses" or problem.machine.kind != "dsp":
        return None
    several = problem.one_layer.groups > 1
    match one.word:
        case "accesses":
            offset, unit = scale(problem)
            return f"{offset} + {unit} * objective"
        case "elements" if not several:
            return f"buffer[{MODEL_OPERANDS[str(one.arguments[0])]}]"
        case "outside" if "groups" not in one.arguments:
            outer, inner = (MODEL_LOOPS[str(axis)] for axis in one.arguments)
            return f"several[{outer}] /\\ several[{inner}] /\\ place[{outer}] < place[{inner}]"
        case "iterations" if one.arguments != ("groups",):
            return f"trips[{MODEL_LOOPS[str(one.arguments[0])]}]"
    axis = one.word.removeprefix("tile.")
    return f"step[{MODEL_LOOPS[axis]}]" if axis in MODEL_LOOPS else None


def _as_it_is(problem: Problem, layer: DspPlan) -> DspPlan | None:
    """Return a plan that may not become another one, as constraints may tell them apart."""
    return layer if (layer.order, layer.reuse) in schedules(problem) else None


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return schedule and choices, from 1, of the plan in the model's space that a plan becomes.

    One above what the model's domains admit gives way to the known plan that they come from.
    """
    layer = plan.layers[0]
    if problem.constraints:
        inside = _as_it_is(problem, layer) if isinstance(layer, DspPlan) else None
    else:
        inside = not_above(problem, layer)
    if inside is None:
        return None
    number = schedules(problem).index((inside.order, inside.reuse)) + 1
    return [number, *choices_of(problem, inside)]


def not_above(problem: Problem, layer: Any) -> DspPlan | None:
    """Return the plan in a model's space that a plan becomes.

    One above what the model's domains admit gives way to the known plan that they come from.
    """
    inside = no_worse(problem, layer) if isinstance(layer, DspPlan) else None
    known = None if narrow() else known_plan(problem)
    if known is not None and (
        inside is None or dsp.objective(problem, inside) > dsp.objective(problem, known)
    ):
        inside = no_worse(problem, known)
    return inside


def choices_of(problem: Problem, plan: DspPlan) -> list[int]:
    """Return the number of each loop's step, from 1."""
    nest = nest_of_problem(problem)
    step = nest.step(plan.tile)
    return [int(np.searchsorted(nest.steps[d], step[d])) + 1 for d in FREE]


def decisions(solution: Any) -> list[int]:
    """Return schedule and choices of a solution, in the order of `start`."""
    return [solution.schedule, *solution.choice]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.mzn."""
    order, reuse = schedules(problem)[solution.schedule - 1]
    nest = nest_of_problem(problem)
    tile = [int(nest.steps[d][choice - 1]) for d, choice in zip(FREE, solution.choice, strict=True)]
    return Plan((DspPlan((1, *tile), order, reuse),))
