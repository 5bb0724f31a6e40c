"""The reference model of NPUs and MiniZinc: sizes of a layer, figures of a machine, and plans back."""

from __future__ import annotations

from math import gcd, prod
from typing import Any

from tilewright.spec.constraints import Term
from tilewright.tiling.npu.cut import Cut, cut_of
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.npu.vocabulary import AXES
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term", "why_not"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST_POSITIONS = 2_000
"""Most output positions of all TLEs together, each of which may be a tile."""

COSTS = ("time", "accesses")
OPERANDS = ("input", "weights", "output")
"""In the order of the model's enumerations."""

LETTERS = dict(zip(AXES, "MNRC", strict=True))


def why_not(problem: Problem) -> str | None:
    """Say why the model does not take a layer, or None."""
    if problem.traded:
        return "objective: the model minimises one cost"
    cut = _cut(problem)
    if (positions := cut.machine.tles * prod(cut.layer.output_plane)) > MOST_POSITIONS:
        return f"output maps have {positions:,} positions for all TLEs, the model takes {MOST_POSITIONS:,}"
    if (most := _largest(problem, cut)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def _cut(problem: Problem) -> Cut:
    assert problem.machine.kind == "npu"
    return cut_of(problem.one_layer, problem.machine, "KS")


def _unit(cut: Cut) -> int:
    """Return the picoseconds of which all times are multiples, for every group and image."""
    machine = cut.machine
    return gcd(machine.cycle_ps, machine.byte_ps, machine.burst_ps) or 1


def _largest(problem: Problem, cut: Cut) -> int:
    """Return what no number of the model exceeds, as though all tiles had one element."""
    machine, layer, unit = cut.machine, cut.layer, _unit(cut)
    outputs = prod(layer.output_plane)
    reach = prod(layer.kernel_extent)
    pieces = cut.filters * cut.maps * outputs * (reach + cut.window + 1)
    bytes_ = pieces * (1 + max(cut.widths.values()))
    cycles = cut.filters * cut.maps * outputs * cut.window
    prices = machine.cycle_ps, machine.byte_ps, machine.burst_ps
    time = sum(count * price // unit for count, price in zip((cycles, bytes_, pieces), prices, strict=True))
    return max(time, bytes_ * machine.unit_bits, pieces * max(*machine.units, 1))


def size(problem: Problem) -> int:
    """Return about how many constraints the model gives: some for each position of an output map."""
    cut = _cut(problem)
    return 10 * cut.machine.tles * prod(cut.layer.output_plane)


def scale(problem: Problem) -> tuple[int, int]:
    """Return (0, unit): a plan costs ``unit * objective``, as groups and images cost the same each."""
    cut = _cut(problem)
    return 0, cut.repeats * (_unit(cut) if problem.minimise == "time" else 1)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.npu.mzn declares, all but those of the search."""
    cut, limits = _cut(problem), problem.limits
    machine, layer, unit = cut.machine, cut.layer, _unit(cut)
    rows, columns = layer.output_plane
    each = {"time": cut.repeats * unit, "accesses": cut.repeats}
    most = {name: value // each[name] for name, value in limits.at_most.given.items()}
    binding = {name: value for name, value in most.items() if value <= LARGEST}  # others exclude nothing
    units = machine.units
    return {
        "size": [cut.filters, cut.maps, rows, columns],
        "depthwise": cut.depthwise,
        "window": cut.window,
        "stride": [0, 0, *layer.stride],
        "extent": [1, 1, *layer.kernel_extent],
        "tles": machine.tles,
        "tlts": machine.tlts,
        "room": [min(cut.room[operand], LARGEST) for operand in OPERANDS],
        "held_units": [cut.held_units[operand] for operand in OPERANDS],
        "moved_units": [units.input, units.kernels, units.output],
        "bits": [cut.widths[operand] for operand in OPERANDS],
        "burst_bits": cut.burst_bits,
        "macs_per_cycle": machine.macs_per_cycle,
        "cycle_price": machine.cycle_ps // unit,
        "byte_price": machine.byte_ps // unit,
        "burst_price": machine.burst_ps // unit,
        "partitions": _numbers(PARTITIONS, limits.partition),
        "schedules": _numbers(SCHEDULES, limits.schedule),
        "minimised": {"e": problem.minimise.upper()},
        "limited": [name in binding for name in COSTS],
        "at_most": [binding.get(name, 0) for name in COSTS],
        "most_counted": _largest(problem, cut),
    }


def _numbers(names: tuple[str, ...], limit: str) -> set[int]:
    """Return the numbers, from 1, of the names that a limit allows."""
    return {number for number, name in enumerate(names, start=1) if limit in ("any", name)}


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    cut = _cut(problem)
    match one.word:
        case "partition" | "schedule":
            return one.word
        case "memory":
            return "memory"
        case "time":
            return f"{cut.repeats * _unit(cut)} * time"
        case "accesses" | "bursts":
            return f"{cut.repeats} * {one.word}"
        case "elements":
            return f"elements[{str(one.arguments[0]).upper()}]"
        case "iterations":
            return f"trips[{LETTERS[str(one.arguments[0])]}]"
        case "contiguous_bytes":
            return _contiguous_bytes(cut, str(one.arguments[0]))
    return f"step[{LETTERS[one.word.removeprefix('tile.')]}]"


def _contiguous_bytes(cut: Cut, operand: str) -> str:
    """Return the bytes of a full tile that follow each other in DRAM."""
    runs = {
        "input": "if whole_rows then reach(R, step[R]) * reach(C, size[C]) else reach(C, step[C]) endif",
        "weights": "(if schedule = WS then size[N] else step[N] endif) * window",
        "output": "if whole_rows then step[R] * size[C] else step[C] endif",
    }
    return f"({cut.widths[operand]} * ({runs[operand]})) div 8"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return partition, schedule and steps of a plan."""
    layer = plan.layers[0]
    if not isinstance(layer, NpuPlan):
        return None
    step = cut_of(problem.one_layer, problem.machine, layer.partition).step(layer.tile)
    return [PARTITIONS.index(layer.partition) + 1, SCHEDULES.index(layer.schedule) + 1, *step]


def _number(value: Any, names: tuple[str, ...]) -> int:
    """Return the number of an enumeration's member in a solution, from 0."""
    name = value if isinstance(value, str) else getattr(value, "name", None)
    return int(value) - 1 if name is None else names.index(name)


def decisions(solution: Any) -> list[int]:
    """Return partition, schedule and steps of a solution, in the order of `start`."""
    partition = _number(solution.partition, ("KS", "KS_OFM", "OFM"))
    return [partition + 1, _number(solution.schedule, SCHEDULES) + 1, *solution.step]


def plan(_problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    partition, schedule, *tile = decisions(solution)
    return Plan((NpuPlan(PARTITIONS[partition - 1], SCHEDULES[schedule - 1], tuple(tile)),))
