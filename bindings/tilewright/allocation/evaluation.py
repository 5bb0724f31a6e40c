"""Whether a plan is valid, what it costs, and its execution; what ``auto`` runs."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np

from tilewright.allocation import off_chip
from tilewright.allocation.bounds import bound_on_splits
from tilewright.allocation.energy import (
    Exchange,
    energy,
    exchange_of,
    leakage_per_cycle,
    prices_of,
    spend,
    words_given,
)
from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.geometry import Scan
from tilewright.allocation.lowering import Lowering, tensor_elements, weights_of, workers_of
from tilewright.allocation.machine import INPUT
from tilewright.allocation.measures import (
    PipelineEnergy,
    PipelineLayer,
    PipelineMeasures,
    PipelinePoint,
    PipelineTraffic,
    PublishedPipeline,
    WholeNetwork,
)
from tilewright.allocation.placement.floor import distance
from tilewright.allocation.placement.floor import violation as misplaced
from tilewright.allocation.placement.hop_bound import lower_bound
from tilewright.allocation.placement.unplaced import floor_of, unplaced_plan
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.published import layer_by_layer, layer_parallel
from tilewright.allocation.schedule import Schedule, schedule
from tilewright.core import front
from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.measures import counted
from tilewright.core.packages import ORTOOLS, installed
from tilewright.core.portfolio import Portfolio
from tilewright.core.room import Asked
from tilewright.simulator import Report, Violation, execute
from tilewright.simulator.arithmetic.reference import reference_convolution, reference_pool, reference_sum
from tilewright.simulator.program import Counts, Values
from tilewright.simulator.report import Timeline
from tilewright.spec.errors import InputError
from tilewright.spec.network import Add, Map, Pool

QUICK_BEATS, MOST_BEATS = 60_000, 200_000
"""Beats that are simulated, in whole frames: as a judge, at least one; for a user who looks closely, two."""

POINT = ("interval_cycles", "pes", "latency_cycles")
ENERGY_POINT = ("interval_cycles", "energy_fj")
"""Names of the numbers of `_point` among the measures: what a front trades."""

MOST_PES_OF_THE_MODEL = 64
"""Most PEs of an array on which the exact model of placement is of use."""


# Validity and cost -----------------------------------------------------------------------------------


def best_bound(problem: Problem) -> Bound:
    """Return the strongest bound that is known without a search, but for that for the PEs to be placed.

    Where these are not known in time, nothing is said of hops.
    """
    bound = bound_on_splits(problem)
    if problem.minimise != "distance" or bound.impossible is not None:
        return bound
    try:
        plan = unplaced_plan(problem)
    except InputError:
        return bound
    return bound if plan is None else Bound("rings bound", lower_bound(floor_of(problem, plan)))


def violation(problem: Problem, plan: Plan, deadline: float = float("inf")) -> str | None:
    """Say what is wrong with a plan, or None for a valid one.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` until when to find out which PEs are to be placed.

    Raises
    ------
    OutOfTimeError, InputError
        If that is not known in time, or not after the seconds that `unplaced_plan` allows; then nothing is
        said of the plan.
    """
    wanted = problem.minimise == "pareto"
    if bool(plan.front) != wanted:
        return f"kind of plan: a {'single plan' if wanted else 'front'} is no answer to this problem"
    if plan.front:
        scan = Scan(problem)
        broken = (_violation(problem, one, scan, deadline) for one in plan.front)
        return next((text for text in broken if text), None) or _not_a_front(problem, plan, scan)
    return _violation(problem, plan, Scan(problem), deadline)


def _violation(problem: Problem, plan: Plan, scan: Scan, deadline: float) -> str | None:
    names = tuple(stage.name for stage in problem.stages)
    if plan.names != names:
        return f"layers: the plan is for {', '.join(plan.names[:4])}, ..., the pipeline is {', '.join(names)}"
    for stage, split in zip(problem.stages, plan.splits, strict=True):
        broken = split.violation(problem.machine, problem.limits, stage)
        if broken:
            return broken
    broken = off_chip.violation(problem, plan.pacing, plan.streamed, plan.spilled)
    if broken:
        return broken
    machine = problem.machine
    if pes(problem, plan) > machine.pes:
        return f"PEs: the layers have {pes(problem, plan)}, the array has {machine.pes}"
    times = schedule(problem, plan, scan)
    if problem.most_interval is not None and times.interval > problem.most_interval:
        slowest = names[times.loads.index(max(times.loads))]
        if problem.parallel and max(times.transfer_cycles) > max(times.loads):
            slowest = f"{slowest}, after the chip's border,"
        return (
            f"rate: a frame every {times.interval} cycles, at most {problem.most_interval} are allowed; "
            f"layer {slowest} is slowest"
        )
    capacity = machine.buffer_words
    if capacity is not None and times.storage > capacity:
        return f"buffers: {times.storage} words are needed, there are {capacity}"
    if problem.minimise == "distance":
        wanted = unplaced_plan(problem, deadline)
        if wanted is None or plan.splits != wanted.splits:
            return "PEs: to be placed are those of the least interval, or of limits.pes"
    if plan.regions or problem.minimise == "distance":
        return misplaced(floor_of(problem, plan), plan.regions)
    return None


def _not_a_front(problem: Problem, plan: Plan, scan: Scan) -> str | None:
    """Say which plan of a front another one replaces, or which stands in the wrong place."""
    traded = "interval and energy" if problem.trades_energy else "interval, PEs and latency"
    points = [_point(schedule(problem, one, scan)) for one in plan.front]
    if points != sorted(set(points)):
        return f"front: must be sorted by {traded}, each of these once"
    array = np.array(points)
    for number, point in enumerate(points, start=1):
        if ((array <= point).all(axis=1) & (array < point).any(axis=1)).any():
            return f"front: plan {number} is worse than another one in {traded}: {point}"
    return None


def _point(times: Schedule) -> tuple[int, ...]:
    """Return the interval, PEs and latency of a plan, or where these are traded, interval and energy."""
    if times.problem.trades_energy:
        return times.interval, energy(times.problem, times.plan, times.interval)
    return times.interval, pes(times.problem, times.plan), times.latency


def _told_point(times: Schedule) -> PipelinePoint:
    """Return what is told of a plan of a front."""
    problem, plan = times.problem, times.plan
    return PipelinePoint(
        interval_cycles=times.interval,
        pes=pes(problem, plan),
        latency_cycles=times.latency,
        energy_fj=energy(problem, plan, times.interval) if problem.machine.energy else None,
    )


def pes(problem: Problem, plan: Plan) -> int:
    """Return the PEs that a plan uses: of all layers together, or of the largest if they take turns."""
    return plan.pes if problem.parallel else max(split.pes for split in plan.splits)


def objective(problem: Problem, plan: Plan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same.

    Of a front it is the least interval, that of its first plan.
    """
    one = plan.front[0] if plan.front else plan
    if problem.minimise == "pes":
        return pes(problem, one)
    if problem.minimise == "distance":
        return distance(floor_of(problem, one), one.regions)
    times = schedule(problem, one)
    if problem.minimise == "energy":
        return energy(problem, one, times.interval)
    return times.latency if problem.minimise == "latency" else times.interval


def measured_objective(problem: Problem, report: Report) -> int:
    """Cost of a simulated plan."""
    return problem.measured(report.measures)


# Simulation ------------------------------------------------------------------------------------------


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right.

    As many frames follow each other as overlap in the pipeline and one more, fewer of large networks.

    The overlapped timeline is that of layers that work as soon as their data and their PEs are there.
    """
    broken = violation(problem, plan, asked.deadline)
    if broken is not None:
        return Report.beyond_limits(broken)
    scan = Scan(problem)
    if plan.front:
        return _simulate_front(problem, plan, scan, asked)
    return _simulate(schedule(problem, plan, scan), asked)


def _simulate(times: Schedule, asked: Asked) -> Report:
    problem = times.problem
    frames = 1
    if problem.parallel:
        in_flight = -(-times.latency // times.interval) + 1
        least, most = (2, MOST_BEATS) if asked.overlapped else (1, QUICK_BEATS)
        frames = max(least, min(in_flight, most // sum(times.beats)))
    lowering = Lowering(times, frames)
    data, expected = _data(problem, frames, asked.seed) if asked.numeric else (None, None)
    report = execute(
        lowering.program(),
        overlapped=asked.overlapped and not problem.waits,  # what the host waits for is no operand of it
        data=data,
        expected=expected,
        deadline=asked.deadline,
    )
    if report.violation is None:
        report.violation = _too_early(times, lowering, report)
    if report.violation is None:
        report.measures = _measures(times, lowering, report)
    return report


def _too_early(times: Schedule, lowering: Lowering, report: Report) -> Violation | None:
    """Say what began before all was there that it reads from outside of the array: the host, or a layer."""
    problem, line = times.problem, report.scheduled
    if not problem.waits:
        return None
    assert line is not None
    begins, ends = _spans(line, lowering)
    first = len(problem.stages)
    needs = [
        (first + number, step.name, [*step.stages, *(first + each for each in step.steps)])
        for number, step in enumerate(problem.steps)
    ]
    for stage in problem.stages:
        given = [problem.given[-1 - each] for each in stage.producers if each < 0]
        of_host = [first + each.step for each in given if each.step is not None]
        needs.append(
            (stage.number, stage.name, of_host + [each.stage for each in given if each.stage is not None])
        )
    for worker, name, needed in needs:
        for other in needed:
            if (late := begins[worker] < ends[other]).any():
                frame = int(late.argmax())
                expected, got = f"from cycle {ends[other, frame]} on", f"cycle {begins[worker, frame]}"
                return Violation("given", 0, name, expected, got)
    return None


def _simulate_front(problem: Problem, plan: Plan, scan: Scan, asked: Asked) -> Report:
    """Execute the plans of a front, as many as MOST_BEATS allows, its ends first and then evenly spread.

    The report is that of the first, with the numbers of all; those of the others follow from the schedules
    whose starts and ends the executed ones confirm.
    """
    schedules = [schedule(problem, one, scan) for one in plan.front]
    count = min(len(schedules), max(2, MOST_BEATS // sum(schedules[0].beats)))
    chosen = np.unique(np.linspace(0, len(schedules) - 1, count).round().astype(int)).tolist()

    def judge(reports: list[Report]) -> dict[str, Any] | Violation:
        for index, report in zip(chosen, reports, strict=True):
            names = ENERGY_POINT if problem.trades_energy else POINT
            measured = tuple(getattr(report.measures, name) for name in names)
            expected = _point(schedules[index])
            if measured != expected:
                told = f"{measured} measured, {expected} expected"
                return Violation("front", 0, "plan", f"plan {index + 1} as it says", told)
        return {"front": list(map(_told_point, schedules)), "executed_plans": len(reports)}

    return front.simulate_front(
        (schedules[index] for index in chosen),
        lambda times: _simulate(times, asked),
        judge,
    )


def _measures(times: Schedule, lowering: Lowering, report: Report) -> PipelineMeasures:
    """Return what was measured of the execution, and what the closed forms and the paper say."""
    problem, line = times.problem, report.scheduled
    assert line is not None
    plan = times.plan
    begins, ends = _spans(line, lowering)
    done = ends.max(axis=0)
    # Of a single frame the layer that is busy longest decides when the next one can follow.
    interval = int(done[1] - done[0]) if lowering.frames > 1 else int((ends - begins).max())
    if lowering.frames == 1 and problem.parallel:
        interval = max(interval, int((ends - begins)[len(problem.stages) :].sum()))
    latency = int(done[0])
    crossed = _off_chip(times, report, lowering.frames) if problem.machine.off_chip else None
    if problem.parallel and crossed is not None:
        interval = max(interval, crossed.transfer_cycles)
    if not problem.parallel:
        latency += max(0, times.transfer_cycles[-1] - times.loads[-1])  # the last turn's transfers
        interval = latency
    splits = plan.splits
    calculus = layer_parallel(problem, splits) if problem.parallel else layer_by_layer(problem, splits)
    floor = floor_of(problem, plan) if plan.regions else None
    spent = _spent(times, lowering, report, interval, crossed) if problem.machine.energy else None
    return PipelineMeasures(
        **counted(report),
        interval_cycles=interval,
        latency_cycles=latency,
        pes=pes(problem, plan),
        executed_frames=lowering.frames,
        frames_per_second=problem.machine.frames_per_second(interval),
        storage_words=times.storage,
        program_words=times.storage - times.weights + times.program_weights if problem.parallel else None,
        pacing=plan.pacing,
        published=PublishedPipeline(
            interval_cycles=calculus.interval,
            latency_cycles=calculus.latency,
            frames_per_second=problem.machine.frames_per_second(calculus.interval),
        ),
        distance_hops=None if floor is None else distance(floor, plan.regions),
        least_distance_hops=None if floor is None else lower_bound(floor),
        layers=_layers(times, report, begins[:, 0], ends[:, 0]),
        energy_fj=None if spent is None else spent.total_fj,
        energy=spent,
        off_chip=crossed,
        network=_whole_network(problem, interval, latency),
    )


def _whole_network(problem: Problem, interval: int, latency: int) -> WholeNetwork | None:
    """Return what a network takes with the host and configuration; None where neither has a price."""
    machine, host = problem.machine, problem.host_cycles
    if host is None and machine.configuration_cycles is None:
        return None
    own, after = problem.turn_configuration_cycles, 0 if problem.steps else host or 0
    whole = max(interval + own, after)
    configuration = None if machine.configuration_cycles is None else own or machine.configuration_cycles
    return WholeNetwork(
        interval_cycles=whole,
        latency_cycles=latency + own + after,
        frames_per_second=machine.frames_per_second(whole),
        host_cycles=host,
        configuration_cycles=configuration,
        hosted=[op.name for op in problem.hosted],
    )


def _off_chip(times: Schedule, report: Report, frames: int) -> PipelineTraffic:
    """Return what crossed the chip's border: what steps loaded and wrote, and weights that beats streamed."""
    problem, plan = times.problem, times.plan
    to_bytes = problem.machine.bytes

    def moved(table: Mapping[str, Counts]) -> int:
        return sum(to_bytes(report.total(counts) // frames) for counts in table.values())

    streamed = sum(
        to_bytes(stage.weights) * beats
        for stage, beats in zip(problem.stages, times.beats, strict=True)
        if problem.parallel and stage.name in plan.streamed
    )
    total = moved(report.loaded) + moved(report.written) + streamed
    return PipelineTraffic(
        bytes_per_frame=total,
        transfer_cycles=off_chip.transfer_cycles(problem, total),
        streamed=list(plan.streamed),
        spilled=list(plan.spilled),
    )


def _spent(
    times: Schedule, lowering: Lowering, report: Report, interval: int, crossed: PipelineTraffic | None
) -> PipelineEnergy:
    """Return what a frame takes: words are those of the executed beats, the rest follows from splits.

    Parameters
    ----------
    crossed
        What crossed the chip's border, where plans decide that.
    """
    problem, parts = times.problem, Exchange()
    machine = problem.machine

    def per_frame(table: Mapping[str, Counts], tensor: str) -> int:
        return report.total(table[tensor]) // lowering.frames if tensor in table else 0

    for stage, split, words in zip(
        problem.stages, times.plan.splits, lowering.words_exchanged(), strict=True
    ):
        read, computed = words
        left = per_frame(report.written, stage.name)
        kept = bool(problem.consumers[stage.number]) or not problem.parallel
        loaded = per_frame(report.loaded, weights_of(stage)) + per_frame(report.loaded, stage.name)
        given = words_given(problem, stage)
        if crossed is not None and given:
            given = [per_frame(report.loaded, INPUT)]
        executed = exchange_of(problem, stage, split)._replace(
            macs=computed * stage.macs_per_value,
            buffer_reads=read + kept * left,
            buffer_writes=kept * computed + loaded + sum(given),
            off_chip_bytes=sum(map(machine.bytes, (*given, loaded, left))),
        )
        parts = parts.plus(executed)
    if crossed is not None:
        parts = parts._replace(off_chip_bytes=crossed.bytes_per_frame)
    prices = prices_of(problem)
    used, counted_too = pes(problem, times.plan), prices.pe_fj_per_cycle is not None
    leakage = interval * leakage_per_cycle(problem, used) if counted_too else None
    spent = spend(prices, parts)._replace(leakage=leakage)
    return PipelineEnergy(
        total_fj=spent.total,
        macs_fj=spent.macs,
        registers_fj=spent.registers,
        hops_fj=spent.hops,
        buffers_fj=spent.buffers,
        off_chip_fj=spent.off_chip,
        leakage_fj=spent.leakage,
        register_accesses=parts.registers,
        hops=parts.hops,
        buffer_reads=parts.buffer_reads,
        buffer_writes=parts.buffer_writes,
        off_chip_bytes=parts.off_chip_bytes,
    )


def _layers(times: Schedule, report: Report, begins: Counts, ends: Counts) -> dict[str, PipelineLayer]:
    """Return what was measured of each layer, of which the first frame's start and end are told."""
    held = {name: int(counts.max(initial=0)) for name, counts in report.footprint.items()}
    return {
        stage.name: PipelineLayer(
            pes=split.pes,
            split=[split.filters, split.maps, split.rows],
            units=[split.unit_filters, split.unit_maps],
            work_cycles=times.works[stage.number],
            pace_cycles=times.paces[stage.number],
            start_cycles=int(begins[stage.number]),
            busy_cycles=int(ends[stage.number] - begins[stage.number]),
            load_cycles=times.loads[stage.number],
            weights_elements=stage.weights,
            buffer_words=times.buffers[stage.number],
            held_words=held[stage.name],
        )
        for stage, split in zip(times.problem.stages, times.plan.splits, strict=True)
    }


def _spans(line: Timeline, lowering: Lowering) -> tuple[Any, Any]:
    """Return when layers, and the host, began and ended with each frame; see `_of_frames`."""
    begins = _of_frames(line, lowering, np.minimum, line.start, np.iinfo(np.int64).max)
    return begins, _of_frames(line, lowering, np.maximum, line.finish, 0)


def _of_frames(line: Timeline, lowering: Lowering, reduce: Any, times: Any, nothing: int) -> Any:
    """Return the first start (or last end) of each layer, and of the host, in each frame.

    Returns
    -------
    int, shape (layers + operations of the host, frames)
    """
    workers = len(lowering.problem.stages) + len(lowering.problem.steps)
    found = np.full((workers, lowering.frames), nothing, dtype=np.int64)
    computes = line.step < len(lowering.stage)
    computes &= line.engine.codes < len(workers_of(lowering.problem))  # which come first
    steps = line.step[computes]
    reduce.at(found, (lowering.stage[steps], lowering.frame[steps]), times[computes])
    return found


def _data(problem: Problem, frames: int, seed: int) -> tuple[dict[str, Values], dict[str, Values]]:
    """Return random inputs and weights, and what the reference network makes of them.

    Maps that the host computes, and parts of maps that come back from off the chip, are random, too: what the
    array makes of them is the same, whatever the host does.

    Sums that exceed 64 bits wrap around, alike in both.
    """
    rng = np.random.default_rng(seed)
    data = {
        given.name: rng.integers(-8, 9, (frames, *given.shape), dtype=np.int64) for given in problem.given
    }
    found: list[Values] = []
    for stage in problem.stages:
        values = [
            data[off_chip.name_of(problem, producer)] if producer < 0 else found[producer]
            for producer in stage.producers
        ]
        if isinstance(stage.spec, Add):
            found.append(reference_sum(values))
        elif isinstance(stage.spec, Map):
            found.append(np.concatenate(values, axis=1))
        elif isinstance(stage.spec, Pool):
            found.append(reference_pool(stage.spec, np.concatenate(values, axis=1)))
        else:
            layer = stage.spec.model_copy(update={"batch": frames})
            weights = data[weights_of(stage)] = rng.integers(-8, 9, layer.kernels_shape, dtype=np.int64)
            found.append(reference_convolution(layer, np.concatenate(values, axis=1), weights))
    return data, {stage.name: found[stage.number] for stage in problem.stages if stage.leaves}


def recheck(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify what an optimal plan claims beyond its objective: that a front is complete.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` until when that must be proven.

    Returns
    -------
    list of (what, holds, detail)
    """
    if problem.minimise != "pareto":
        return []
    scan, again = Scan(problem), exhaustive(problem, deadline)
    claimed, found = (
        [_point(schedule(problem, one, scan)) for one in plans]
        for plans in (plan.front, again.plans if again else ())
    )
    return front.recheck(claimed, found, again is not None and again.proven)


# How the room is run ---------------------------------------------------------------------------------


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate the seconds that `simulate` takes for a judge."""
    beats = sum(prod((stage.task.rows, stage.task.columns)) for stage in problem.stages)
    return 0.2 + max(beats, min(QUICK_BEATS, 4 * beats)) * 4e-5


def numeric_elements(problem: Problem) -> int:
    """Elements of all tensors, as a numeric simulation holds them."""
    return tensor_elements(problem, 4)


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    one = 400 * (1 + len(problem.stages)) + 3 * problem.machine.pes
    return 10_000 * one if problem.minimise == "pareto" else one


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: heuristics and the exact search; to place layers, `wander` and a model."""
    if problem.minimise == "distance":
        model = "floorplan@cpsat" if installed(ORTOOLS) else "regions@gecode"
        small = problem.machine.pes <= MOST_PES_OF_THE_MODEL
        return Portfolio("wander", model if small else None)
    return Portfolio(CONSTRUCT, "parametric", chooses=True)
