"""Lower bounds that are known without a search, and reasons why there is no plan.

*Interval.* It is no less than the least load of any layer, on the PEs that are left if all others have their
fewest. A split with u functional units does at most u operations in a cycle of its load, so all operations
together are at most the interval times the functional units of the array.

*Latency.* The same two arguments, with the operations of a layer and of all before it, bound its level, and
so its pace, from below. A layer starts no earlier than each of its producers and ``ahead[0]`` beats of that
one, and ends no earlier than each corner (ahead, done) of their lead says: after ``ahead`` beats of the
producer and all but ``done`` of its own. These are sums of paces with positive factors. No latency is less
than the interval.

*Energy.* It is no less than the sum over layers of what each takes at least at some interval: see
`exact.energy_options`.

*PEs.* Each layer has at least those of its cheapest split that keeps the rate; layers that take turns have
enough for their sum.

*Buffers.* When beat k of a consumer begins, all beats of its producer up to the last that it or an earlier
beat needs are over, and each of their pixels is held until the last beat that reads it. How many that are in
the worst beat depends on the order of beats only, not on any pace. Where rows are split it depends on the
splits, and a window's own pixels are what is held in any case.
"""

from __future__ import annotations

import numpy as np

from tilewright.allocation.exact.energy_options import least_energy
from tilewright.allocation.exact.options import (
    cheapest_within,
    fewest_in_turn,
    in_turn,
    least_interval,
    offer_anywhere,
    offers_of,
)
from tilewright.allocation.geometry import Scan, Windows, last_uses, latest_beats_needed
from tilewright.allocation.machine import INPUT
from tilewright.allocation.off_chip import transfer_cycles, transfers
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import HostTable, given_of, schedule, storage_by_turn
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.core.bounds import Bound


def bound_on_splits(problem: Problem) -> Bound:
    """Return the strongest bound on what splits decide that is known without a search.

    Of a front there is none: one on its least interval would say nothing of its other plans. Of the hops of a
    placement there is none here, either.
    """
    told = find_obstacle(problem)
    if told is not None or problem.minimise in ("pareto", "distance"):
        return Bound("trivial bound", 0, impossible=told)
    if problem.minimise == "pes":
        return Bound("rate bound", _pes(problem))
    if problem.minimise == "energy":
        return Bound("energy of each layer bound", least_energy(problem))
    if not problem.parallel:
        pairs = zip(_least_loads(problem), _least_transfers(problem), strict=True)
        return Bound("all layers bound", problem.interval_at(sum(map(max, pairs))))
    if problem.minimise == "latency":
        return max(_interval(problem), Bound("first pixels bound", _latency(problem)), key=_value)
    return _interval(problem)


def _least_transfers(problem: Problem) -> list[int]:
    """Return the cycles for which the chip's border is busy in any case, in a frame or in each turn."""
    if problem.machine.off_chip is None:
        return [0] * len(problem.stages)
    choices = (
        [()] if problem.parallel else [(), (INPUT,)]
    )  # of an input that is spilled only what is read comes
    least = np.min([transfers(problem, (), spilled) for spilled in choices], axis=0)
    return [transfer_cycles(problem, int(moved)) for moved in least]


def _value(bound: Bound) -> int:
    return bound.value


def _interval(problem: Problem) -> Bound:
    slowest = max(_least_loads(problem))
    operations = sum(stage.task.operations for stage in problem.stages)
    return max(
        Bound("slowest layer bound", slowest),
        Bound("operations bound", -(-operations // _units(problem))),
        Bound("chip border bound", sum(_least_transfers(problem))),
        Bound("host bound", problem.host_period),
        key=_value,
    )


def _units(problem: Problem) -> int:
    return problem.machine.pes * problem.machine.functional_units


def _least_loads(problem: Problem) -> list[int]:
    return [problem.splits_of(stage)[-1].load(stage.task) for stage in problem.stages]


def _pes(problem: Problem) -> int:
    offers, most = offers_of(problem), problem.most_interval
    assert most is not None
    if not problem.parallel:
        assert problem.most_load is not None
        fewest = fewest_in_turn(offers, problem.stages, problem.most_load)
        assert fewest is not None  # the rate can be kept
        return fewest
    chosen = cheapest_within(offers, most)
    assert chosen is not None
    return sum(split.pes for split in chosen)


def _latency(problem: Problem) -> int:
    scan, loads, units = Scan(problem), _least_loads(problem), _units(problem)
    before: list[set[int]] = []
    paces, starts, latency = list[int](), list[int](), 0
    beats_of = [stage.task.rows * stage.task.columns for stage in problem.stages]
    host = HostTable(
        problem, 1
    )  # where the host begins at any time, it begins as soon as what it reads is there
    for stage in problem.stages:
        host.advance(stage.number, starts, beats_of, paces)
        producers = [producer for producer in stage.producers if producer >= 0]
        before.append({stage.number}.union(*(before[producer] for producer in producers)))
        operations = sum(problem.stages[number].task.operations for number in before[-1])
        level = max(-(-operations // units), *(loads[number] for number in before[-1]))
        beats = beats_of[stage.number]
        paces.append(level // beats)
        starts.append(max((host.there(each) for each in given_of(problem, stage)), default=0))
        latency = max(latency, beats * paces[-1])
        for producer in producers:
            lead = scan.lead(producer, stage.number)
            starts[-1] = max(starts[-1], starts[producer] + int(lead.ahead[0]) * paces[producer])
            ends = lead.ahead * paces[producer] + (beats - lead.done) * paces[-1]
            latency = max(latency, starts[producer] + int(ends.max()))
        latency = max(latency, starts[-1] + beats * paces[-1])
    host.advance(len(problem.stages), starts, beats_of, paces)
    return max(latency, host.end)


# Why there is no plan ------------------------------------------------------------------------------------


def find_obstacle(problem: Problem) -> str | None:
    """Say which layer and limit leave no plan, and what would be enough; None if no reason is known."""
    if problem.most_interval is not None:
        told = _too_slow(problem, problem.most_interval)
        if told is not None:
            return told
    if problem.machine.buffer_words is None or problem.machine.off_chip is not None:
        return None
    return _too_large(problem, problem.machine.buffer_words)


def _too_slow(problem: Problem, most: int) -> str | None:
    stages, (rows, columns) = problem.stages, problem.machine.array
    offers = [offer_anywhere(problem, stage) for stage in stages]
    if problem.parallel:
        chosen = cheapest_within(offers, most)
        assert chosen is not None  # else the problem is refused
        needed, largest = sum(split.pes for split in chosen), max(chosen, key=_pes_of)
        told = f"layer {stages[chosen.index(largest)].name} alone {largest.pes}"
    else:
        most -= problem.host_period
        fewest, chosen = fewest_in_turn(offers, stages, most), in_turn(offers, rows * columns)
        assert fewest is not None and chosen is not None
        needed, loads = fewest, [split.load(stage.task) for stage, split in zip(stages, chosen, strict=True)]
        longest = stages[loads.index(max(loads))].name
        told = (
            f"on which a frame takes {problem.interval_at(sum(loads))} cycles, {max(loads)} of them in layer "
        )
        told += longest
    if needed <= rows * columns:
        return None
    return (
        f"{problem.objective.frames_per_second:g} frames per second need {needed} PEs, {told}; "
        f"the array has {rows * columns}, {-(-needed // columns)} rows of {columns} would be enough"
    )


def _pes_of(split: LayerSplit) -> int:
    return split.pes


def _too_large(problem: Problem, capacity: int) -> str | None:
    stages, told = problem.stages, problem.machine.bytes
    names, offers = tuple(stage.name for stage in stages), offers_of(problem)
    pes = problem.machine.pes
    interval = least_interval(offers, pes) if problem.parallel else None
    chosen = in_turn(offers, pes) if interval is None else cheapest_within(offers, interval)
    assert chosen is not None  # the rate can be kept
    known = [schedule(problem, Plan(names, chosen, pacing)) for pacing in PACINGS]
    weights, least = known[0].weights, least_buffers(problem)
    if problem.parallel:
        needed, worst = weights + sum(least), max(stages, key=lambda stage: least[stage.number])
        needs = f"{told(weights)} for weights and at least {told(sum(least))} between layers, of these "
        needs += f"{told(least[worst.number])} after layer {worst.name}"
    else:
        turns = storage_by_turn(problem)
        needed, worst = max(turns), stages[turns.index(max(turns))]
        needs = f"{told(needed)} for the weights of layer {worst.name} and the feature maps that are alive"
    if needed <= capacity:
        return None
    enough = told(min(times.storage for times in known))
    return (
        f"the buffers have {problem.machine.buffer_bytes} bytes, needed are {needs}; {enough} would be enough"
    )


def least_buffers(problem: Problem) -> tuple[int, ...]:
    """Return the words that the output of each layer needs at least if layers are parallel."""
    scan = Scan(problem)

    def least(stage: Stage) -> int:
        readers = (problem.stages[reader] for reader in problem.consumers[stage.number])
        return stage.channels * max(
            (_pixels_held(problem, scan, stage, reader) for reader in readers), default=0
        )

    return tuple(map(least, problem.stages))


def _pixels_held(problem: Problem, scan: Scan, producer: Stage, consumer: Stage) -> int:
    """Return how many output pixels of a layer are held at least in the worst beat of a consumer."""
    windows = scan.windows[consumer.number]
    if "rows" in problem.limits.splits:
        return _largest_window(windows)
    beats, own = scan.beats(producer), scan.beats(consumer)
    needed = np.maximum.accumulate(latest_beats_needed(windows, beats, own))
    # A pixel counts from the first beat that needs it, or a later one, until the last that reads it.
    begin, end = np.searchsorted(needed, beats.ravel()), last_uses(windows, own).ravel() + 1
    read = end > begin
    changes = np.bincount(begin[read], minlength=len(needed) + 1)
    changes -= np.bincount(end[read], minlength=len(needed) + 1)
    return int(changes.cumsum().max())


def _largest_window(windows: Windows) -> int:
    rows, columns = (
        max(len(windows.read(axis, range(first, first + 1))) for first in range(windows.output[axis]))
        for axis in (0, 1)
    )
    return rows * columns
