"""The bridge of ``models/allocation/reference.mzn``: sizes of layers and of the machine, nothing priced."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import compress
from math import gcd, prod
from pathlib import Path
from typing import Any

from tilewright.allocation.energy import (
    channels_read,
    exchange_of,
    prices_of,
    words_taken_back,
)
from tilewright.allocation.geometry import Scan
from tilewright.allocation.machine import INPUT, EnergyPrices
from tilewright.allocation.off_chip import channels_of, readers_of, words_of_map
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import given_of
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.allocation.vocabulary import AXES
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add

WORDS = {
    "pes": "pes[{}]",
    "work": "work[{}]",
    "load": "load[{}]",
    "pace": "pace[{}]",
    "start": "begin[{}]",
    "busy": "busy[{}]",
    "buffer": "buffer[{}]",
    "used_pes": "used",
    "interval": "interval",
    "latency": "latency",
    "storage": "storage",
    "pacing": "1 + uniform",
    "energy": "energy",
    "off_chip_bytes": "sum(moved)",
    "spilled": "spills[{}]",
    "weights_stay": "(not streams[{}])",
}
"""What the model calls what constraints say; a layer has its number."""

LARGEST = 2**28
"""Most cycles that layers may take on one PE each, so that sums of times fit into 31 bits."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    if problem.minimise in ("pareto", "distance"):
        return f"objective.minimise = {problem.minimise!r} is not in the model"
    most = sum(stage.task.operations for stage in problem.stages) + problem.host_period
    link, crossing = problem.machine.off_chip, 0
    if link is not None:
        crossing = _most_moved(problem) * problem.machine.clock_mhz
        most += len(problem.stages) + crossing // link.mb_per_s
    most = max((len(problem.stages) + 2 * len(problem.steps)) * most, crossing)
    if most > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    if counts_energy(problem) and (spent := problem.most_energy // unit_of_energy(problem)) > LARGEST:
        return f"energies up to {spent:,} units may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def _most_moved(problem: Problem) -> int:
    """Return bytes that no frame exceeds: all maps are written, and read by each of their readers."""
    to_bytes = problem.machine.bytes
    names = [INPUT, *(stage.name for stage in problem.stages)]
    maps = sum(
        (1 + len(readers_of(problem, number))) * to_bytes(words_of_map(problem, name))
        for number, name in enumerate(names, -1)
    )
    return maps + sum(
        to_bytes(stage.weights) * (stage.task.rows * stage.task.columns if problem.parallel else 1)
        for stage in problem.stages
    )


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for each pixel that another one needs.

    Where buffers count, there is one for each pair of pixels of a layer. Where plans decide what stays on
    chip, what comes has such pairs, too. In turn what windows need is counted beforehand, which takes about a
    quarter of the time.
    """
    traffic = problem.machine.off_chip is not None
    if not problem.parallel:
        seen = (stage.task.rows * stage.task.columns * prod(stage.spec.input[1:]) for stage in problem.stages)
        return 20 * len(problem.stages) + traffic * sum(seen) // 4
    needs = pairs = 0
    for producer, consumer in problem.edges:
        task = problem.stages[consumer].task
        needs += task.rows * task.columns * prod(problem.stages[consumer].spec.kernel)
        own = problem.stages[producer].task
        pairs += (own.rows * own.columns) ** 2
    if traffic:  # lives that are made and that come, and beginnings of both
        pairs = 4 * pairs + prod(problem.stages[0].spec.input[1:]) ** 2
    return 20 * len(problem.stages) + 2 * needs + 4 * counts_buffers(problem) * pairs


def relax(problem: Problem) -> int:
    """Return 0: the model is not to be fast."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (0, unit): the objective counts units of what a plan costs."""
    return 0, unit_of_energy(problem) if problem.minimise == "energy" else 1


def counts_buffers(problem: Problem) -> bool:
    """Whether the words between layers matter: they are limited, or constraints speak of them."""
    said = {term.word for part in problem.must_hold_in_numbers for term in terms(part)}
    return problem.machine.buffer_words is not None or bool(said & {"buffer", "storage"})


def counts_energy(problem: Problem) -> bool:
    """Whether energy is minimised, or constraints speak of it."""
    said = {term.word for part in problem.must_hold_in_numbers for term in terms(part)}
    return problem.minimise == "energy" or "energy" in said


def unit_of_energy(problem: Problem) -> int:
    """Return the femtojoules in which energy is counted: all prices are multiples, or 1 for constraints."""
    prices = prices_of(problem)
    return 1 if problem.constraints else max(1, gcd(*(price or 0 for price in _all_prices(prices))))


def _all_prices(prices: EnergyPrices) -> list[int | None]:
    return [*_prices_of_events(prices), prices.pe_fj_per_cycle, prices.idle_pe_fj_per_cycle]


def _prices_of_events(prices: EnergyPrices) -> list[int]:
    return [
        prices.mac_fj,
        prices.register_fj,
        prices.hop_fj,
        prices.buffer_read_fj,
        prices.buffer_write_fj,
        prices.off_chip_fj_per_byte,
    ]


def _energy_data(problem: Problem) -> dict[str, Any]:
    """Return what energy is counted from; nothing has a price where it does not matter."""
    stages, counts = problem.stages, counts_energy(problem)
    unit = unit_of_energy(problem) if counts else 1
    prices = _all_prices(prices_of(problem)) if counts else [0] * 8
    *events, of_pe, of_idle = ((price or 0) // unit for price in prices)
    one = [exchange_of(problem, stage, LayerSplit(1)) for stage in stages]
    return {
        "counts_energy": counts,
        "price": events,
        "price_of_pe": of_pe,
        "price_of_idle_pe": of_idle,
        "groups": [getattr(stage.spec, "groups", 1) for stage in stages],
        "sums_maps": [isinstance(stage.spec, Layer) for stage in stages],
        "terms": [len(stage.producers) if isinstance(stage.spec, Add) else 1 for stage in stages],
        "maps_read": [channels_read(problem, stage) for stage in stages],
        "plane": [list(stage.spec.input[1:]) for stage in stages],
        "written": [each.buffer_writes for each in one],
        "taken_back": [words_taken_back(problem, stage) for stage in stages],
        "crossing": [each.off_chip_bytes for each in one],
    }


def _outside_data(problem: Problem) -> dict[str, Any]:
    """Return what layers read from outside of the array, and what the host does."""

    def numbers(found: Iterable[int]) -> set[int]:
        return {number + 1 for number in found}

    def awaited(stage: Stage, of: str) -> set[int]:
        found = (getattr(given, of) for given in given_of(problem, stage))
        return numbers(number for number in found if number is not None)

    brought = range(1, len(problem.given))
    return {
        "n_brought": len(brought),
        "brought_words": [prod(problem.given[place].shape) for place in brought],
        "readers_of_brought": [numbers(readers_of(problem, -1 - place)) for place in brought],
        "n_steps": len(problem.steps),
        "step_cycles": list(problem.step_cycles),
        "layers_of_step": [numbers(step.stages) for step in problem.steps],
        "steps_of_step": [numbers(step.steps) for step in problem.steps],
        "waits_for_steps": [awaited(stage, "step") for stage in problem.stages],
        "waits_for_layers": [awaited(stage, "stage") for stage in problem.stages],
    }


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that the model declares, all but those of the search."""
    stages, machine, limits = problem.stages, problem.machine, problem.limits
    sources = readers_of(problem, -1)
    scan, by_fields = Scan(problem), limits.scan == "fields"
    most, capacity = problem.most_interval, machine.buffer_words
    return {
        "goal": problem.minimise.upper(),
        "parallel": problem.parallel,
        "by_fields": by_fields,
        "array_pes": machine.pes,
        "functional_units": machine.functional_units,
        "may_divide": [
            *(axis in limits.splits for axis in AXES),
            limits.functional_units == "any",
            True,
        ],
        "longest": -1 if most is None else most,
        "capacity": -1 if capacity is None else capacity,
        "counts_buffers": counts_buffers(problem),
        "n_layers": len(stages),
        "filters": [stage.task.filters for stage in stages],
        "maps": [stage.task.maps for stage in stages],
        "window": [stage.task.window for stage in stages],
        "size": [[stage.task.rows, stage.task.columns] for stage in stages],
        "taps": [list(stage.spec.kernel) for stage in stages],
        "dilation": [list(stage.spec.dilation) for stage in stages],
        "stride": [list(stage.spec.stride) for stage in stages],
        "padding": [list(stage.spec.padding[::2]) for stage in stages],
        "channels": [stage.channels for stage in stages],
        "weights": [stage.weights for stage in stages],
        "given": [limits.pes.get(stage.name, 0) for stage in stages],
        "reads_input": {number + 1 for number in sources},
        "input_words": prod(problem.given[0].shape),
        "n_edges": len(problem.edges),
        "producer": [producer + 1 for producer, _ in problem.edges],
        "consumer": [consumer + 1 for _, consumer in problem.edges],
        **_outside_data(problem),
        **_energy_data(problem),
        "counts_traffic": machine.off_chip is not None,
        "mb_per_s": machine.off_chip.mb_per_s if machine.off_chip else 1,
        "clock_mhz": machine.clock_mhz,
        "word_bits": machine.word_bits,
        "input_maps": channels_of(problem, -1),
        "leaves": [stage.leaves for stage in stages],
        "order": [int(beat) for stage in stages for beat in scan.beats(stage).ravel()] if by_fields else [],
    }


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return a plan as values of the decisions: the parts of each layer, pacing, and what leaves the chip."""
    names = [stage.name for stage in problem.stages]
    return [
        *(part for split in plan.splits for part in split),
        PACINGS.index(plan.pacing),
        *(int(name in plan.streamed) for name in names),
        *(int(name in plan.spilled) for name in (INPUT, *names)),
    ]


def decisions(problem: Problem, solution: Any) -> list[int]:
    """Return the values of a solution's decisions, in the order of `start`."""
    parts = (part for parts in solution.part for part in parts)
    return [*parts, *map(int, (solution.uniform, *solution.streams, *solution.spills))]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution: just what the decisions are."""
    names = tuple(stage.name for stage in problem.stages)
    return Plan(
        names,
        tuple(LayerSplit(*parts) for parts in solution.part),
        PACINGS[solution.uniform],
        streamed=tuple(compress(names, solution.streams)),
        spilled=tuple(compress((INPUT, *names), solution.spills)),
    )


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc; where layers are placed, none is decided here."""
    if problem.minimise == "distance":
        return None
    if not one.arguments:
        return WORDS[one.word]
    number = [INPUT, *(stage.name for stage in problem.stages)].index(str(one.arguments[0]))
    if one.word in ("split", "units"):
        part = str(one.arguments[1]).upper()
        return f"part[{number}, {'UNIT_' if one.word == 'units' else ''}{part}]"
    return WORDS[one.word].format(number)
