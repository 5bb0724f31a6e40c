"""The multicore NPU and MiniZinc: the data of ``models/tiling/core.npu.mzn``, and plans from its solutions.

What every declarative formulation of this machine needs stands here, too: the units of its objective, and a
plan that bounds what is worth finding.
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd
from typing import Any

import numpy as np

from tilewright.core.cutoffs import narrow
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError
from tilewright.tiling.npu import kind as npu
from tilewright.tiling.npu.bounds import relaxed
from tilewright.tiling.npu.cost import accesses
from tilewright.tiling.npu.cut import BYTE, Cut, cut_of
from tilewright.tiling.npu.descent import known_plan
from tilewright.tiling.npu.exact import apart, choices, largest_filter_step
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.npu.vocabulary import AXES
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term"]


MODEL_LOOPS = dict(zip(AXES, "MNRC", strict=True))
"""What the model calls the loops."""

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""


def cuts(problem: Problem) -> dict[str, Cut]:
    """Return a problem's layer under every partition.

    Raises
    ------
    InputError
        For other machines and lists of objectives.
    """
    problem.refuse_lists("the declarative formulations")
    if problem.machine.kind != "npu":
        limit = "this formulation is for a machine of kind npu; exhaustive does the others"
        raise InputError("machine.kind", problem.machine.kind, limit)
    return {name: cut_of(problem.one_layer, problem.machine, name) for name in PARTITIONS}


def word_bits(problem: Problem) -> int:
    """Return the bits of a word, in which transfers are counted: what stands alone in DRAM takes whole ones.

    For accesses it is what all widths have in common, so that nothing is rounded up. Time counts bytes, or
    several of them where all widths are whole multiples of that.
    """
    common = gcd(*next(iter(cuts(problem).values())).widths.values())
    return common if problem.minimise == "accesses" or common % BYTE == 0 else BYTE


def prices(problem: Problem) -> tuple[int, int, int]:
    """Return what a cycle, a word moved and a burst cost: picoseconds, or accesses."""
    machine, word = next(iter(cuts(problem).values())).machine, word_bits(problem)
    if problem.minimise == "accesses":
        return 0, word // machine.unit_bits, 0
    return machine.cycle_ps, word // BYTE * machine.byte_ps, machine.burst_ps


def words(problem: Problem, elements: Any, whole_bytes: Any, operand: str) -> Any:
    """Return the words of a transfer of which elements and bytes are known."""
    word, width = word_bits(problem), cuts(problem)["KS"].widths[operand]
    return elements * width // word if problem.minimise == "accesses" else whole_bytes * BYTE // word


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` picoseconds or accesses.

    All costs are whole multiples of the unit: what the prices have in common, for every image and group.
    """
    each = prices(problem)
    unit = (gcd(*each) or 1) * cuts(problem)["KS"].repeats
    return sum(count * price for count, price in zip(least(problem), each, strict=True)), unit


@lru_cache(maxsize=256)
def least(problem: Problem) -> tuple[int, int, int]:
    """Return cycles, words and bursts of which every plan takes at least as many."""
    found: list[tuple[int, int, int]] = []
    _, price, _ = prices(problem)
    for partition, schedule in choices(problem.limits):
        cut = cuts(problem)[partition]
        total, fits = relaxed(cut, schedule, apart(problem.limits))
        if fits.any():
            moved = total.bytes * BYTE // word_bits(problem)
            if problem.minimise == "accesses":
                moved = accesses(cut, total) // price
            values = total.cycles, moved, total.bursts
            counts = (np.broadcast_to(value, fits.shape)[fits] for value in values)
            found.append(tuple(int(value.min()) for value in counts))  # type: ignore[arg-type]
    return tuple(min(values) for values in zip(*found, strict=True)) if found else (0, 0, 0)


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: one for each pair of steps of r and c."""
    problem.refuse_limits("the MiniZinc formulations")
    return sum(int(np.prod([len(steps) for steps in cut.steps[2:]])) for cut in cuts(problem).values())


# MiniZinc --------------------------------------------------------------------------------------------------


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.npu.mzn declares, all but those of the search."""
    problem.refuse_limits("the MiniZinc formulations")
    every = cuts(problem)
    cut = every["KS"]
    layer, machine = cut.layer, cut.machine
    offset, unit = scale(problem)
    units = [price * cut.repeats // unit for price in prices(problem)]
    fewest = [count // cut.repeats for count in least(problem)]
    known = known_plan(problem)
    worst = 0 if known is None else (npu.objective(problem, known) - offset) // unit
    if narrow():  # all that MiniZinc can count
        worst = min(
            LARGEST - 1,
            *((LARGEST - 1 - count) * price for count, price in zip(fewest, units, strict=True) if price),
        )
    for count, price in zip(fewest, units, strict=True):
        if max(worst, count + (worst // price if price else 0)) >= LARGEST:
            limit = f"gives objectives up to {worst} units of {unit} ps, and MiniZinc counts to {LARGEST}"
            raise InputError("layer", layer.input, limit)
    longest = max(len(steps) for one in every.values() for steps in one.steps)
    whole = [one.need(one.sizes, "WS") for one in every.values()]
    capacity = [min(elements, max(need[name] for need in whole)) for name, elements in cut.capacity.items()]
    if max(capacity) > LARGEST:
        limit = f"a layer of which {max(capacity)} elements fit into a core; MiniZinc counts to {LARGEST}"
        raise InputError("machine", max(capacity), limit)

    def filled(values: list[int], length: int) -> list[int]:
        return values + values[-1:] * (length - len(values))

    def slices(lengths: list[int]) -> list[int]:
        return lengths + [0] * (machine.tles - len(lengths))

    limits = problem.limits
    return {
        "partitions": _numbers(PARTITIONS, limits.partition),
        "schedules": _numbers(SCHEDULES, limits.schedule),
        "tles": machine.tles,
        "rows": [slices([last - first for first, last in one.rows]) for one in every.values()],
        "cores": [slices([cores[0][1] - cores[0][0] for cores in one.cores]) for one in every.values()],
        "size": [list(one.sizes) for one in every.values()],
        "n_steps": [[len(steps) for steps in one.steps] for one in every.values()],
        "steps": [[filled(steps.tolist(), longest) for steps in one.steps] for one in every.values()],
        "filters": cut.filters,
        "maps": cut.maps,
        "window": cut.window,
        "stride": [0, 0, *layer.stride],
        "extent": [1, 1, *layer.kernel_extent],
        "depthwise": cut.depthwise,
        "room": capacity,
        "bits": list(cut.widths.values()),
        "word_bits": word_bits(problem),
        "burst_bytes": machine.burst_bytes,
        "macs_per_cycle": machine.macs_per_cycle,
        "units": units,
        "least": fewest,
        "worst": worst,
    }


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    match one.word:
        case "partition" | "schedule":
            return one.word
        case "elements":
            return f"buffer[{str(one.arguments[0]).upper()}]"
        case "iterations":
            loop = MODEL_LOOPS[str(one.arguments[0])]
            return f"(size[partition, {loop}] + step[{loop}] - 1) div step[{loop}]"
    if one.word == problem.minimise:
        offset, unit = scale(problem)
        return f"{offset} + {unit} * objective"
    axis = one.word.removeprefix("tile.")
    return f"step[{MODEL_LOOPS[axis]}]" if axis in MODEL_LOOPS else None


def _numbers(names: tuple[str, ...], limit: str) -> set[int]:
    return {number for number, name in enumerate(names, start=1) if limit in ("any", name)}


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return partition, schedule and choices, from 1, of the plan in the model's space that a plan becomes.

    One above what the model's domains admit gives way to the known plan that they come from.
    """
    given, known = plan.layers[0], None if narrow() else known_plan(problem)
    inside = None
    # What constraints and limits of cost tell apart does not become another plan.
    as_it_is = bool(problem.constraints or problem.limits.at_most.given)
    if isinstance(given, NpuPlan) and npu.violation(problem, given) is None:
        inside = _in_steps(problem, given) if as_it_is else no_worse(problem, given)
    if (
        known is not None
        and not as_it_is
        and (inside is None or npu.objective(problem, inside) > npu.objective(problem, known))
    ):
        inside = no_worse(problem, known)
    if inside is None:
        return None
    steps = cuts(problem)[inside.partition].steps
    chosen = [int(np.searchsorted(steps[d], inside.tile[d])) + 1 for d in range(4)]
    return [PARTITIONS.index(inside.partition) + 1, SCHEDULES.index(inside.schedule) + 1, *chosen]


def _in_steps(problem: Problem, given: NpuPlan) -> NpuPlan:
    """Return a plan with the steps that its loops take."""
    return NpuPlan(given.partition, given.schedule, cuts(problem)[given.partition].step(given.tile))


def no_worse(problem: Problem, given: NpuPlan) -> NpuPlan:
    """Return the plan that a valid one becomes when symmetry is broken, which costs no more."""
    cut = cuts(problem)[given.partition]
    _, n, r, c = cut.step(given.tile)
    schedule = given.schedule
    if schedule == "WS":
        n = 1
    m = int(largest_filter_step(cut, schedule, n, r, c, apart(problem.limits)))
    if schedule == "OS" and m == cut.sizes[0] and problem.limits.schedule == "any":
        schedule = "IS"
    return NpuPlan(given.partition, schedule, cut.step((m, n, r, c)))


def decisions(solution: Any) -> list[int]:
    """Return partition, schedule and choices of a solution, in the order of `start`."""
    return [solution.partition, solution.schedule, *solution.choice]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.npu.mzn."""
    partition, schedule = PARTITIONS[solution.partition - 1], SCHEDULES[solution.schedule - 1]
    steps = cuts(problem)[partition].steps
    tile = tuple(int(steps[d][choice - 1]) for d, choice in enumerate(solution.choice))
    return Plan((NpuPlan(partition, schedule, tile),))
