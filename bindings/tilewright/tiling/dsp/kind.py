"""Tiling on a scratchpad DSP: validity, cost, exact search and simulation of one layer's plan."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np

from tilewright.core.bounds import Exact
from tilewright.core.measures import counted
from tilewright.simulator import Report, Violation, execute
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import bounds, cost, exact, thesis_model
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.machine import MAX_BYTES, DspMachine
from tilewright.tiling.dsp.nest import K, Nest
from tilewright.tiling.dsp.plan import HALIDE, LOOPS, SCHEDULES, DspPlan, allowed
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import DspLayer

LayerPlan = DspPlan


@lru_cache(maxsize=256)
def nest_of(layer: Layer, machine: DspMachine, limit: str = "any") -> Nest:
    """Return the loop nest of a layer; the same object for equal ones, since it keeps tables.

    Parameters
    ----------
    limit
        Which schedules are allowed, as in an instance; with them may come which steps of the loops are.
    """
    return Nest(layer, machine, whole_maps=limit == HALIDE)


def local_traffic(layer: Layer, machine: DspMachine) -> int:
    """Units of local traffic that every plan of a layer is charged with (section 5.4)."""
    # It is the same for every size of the memory.
    return _local_traffic(layer, machine.with_(memory_bytes=MAX_BYTES))


@lru_cache(maxsize=256)
def _local_traffic(layer: Layer, machine: DspMachine) -> int:
    return exact.local_traffic(nest_of(layer, machine))


def violation(problem: LayerProblem, plan: DspPlan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    layer, machine, limit = problem.one_layer, problem.machine, problem.limits.schedule
    nest = nest_of(layer, machine)
    names = allowed(limit)
    if names and plan.schedule not in names:
        return f"schedule {plan.schedule}: the limits allow {', '.join(names)}"
    if limit == "any" and plan.reuse == "weights":
        return f"schedule {plan.schedule}: weights that all stay need limits.schedule = any+weights"
    trips = nest.trips(plan.tile)
    if limit == HALIDE and trips[K] > 1:
        return f"tile of {nest.step(plan.tile)[K]} input maps: the limits allow all {nest.sizes[K]} at once"
    buffers = nest.held(nest.step(plan.tile), plan.reuse)
    if sum(buffers.values()) > machine.buffer_capacity:
        shown = ", ".join(f"{name} {size}" for name, size in buffers.items())
        twice = ", twice for double buffering" if machine.copies == 2 else ""
        return (
            f"memory overflow: the buffers need {shown} {machine.unit}{twice}; "
            f"the memory holds {machine.capacity}"
        )
    inner = [loop for loop in plan.order if trips[LOOPS.index(loop)] > 1][-1:]
    if plan.reuse == "none" and machine.double_buffering and inner == ["k"]:
        return "partial sums: the next tile needs what this one has not written back yet"
    return None


def objective(problem: LayerProblem, plan: DspPlan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same."""
    nest = nest_of(problem.one_layer, problem.machine)
    return cost.measure(nest, plan, problem.counted, local_traffic(problem.one_layer, problem.machine))


def rank(problem: LayerProblem, plan: DspPlan) -> tuple[int, ...]:
    """Return accesses, cycles, energy and memory of a valid plan, which break ties."""
    layer, machine = problem.one_layer, problem.machine
    names = ("accesses", "cycles", "energy", "memory")
    return cost.measures(nest_of(layer, machine), plan, names, local_traffic(layer, machine))


def measured_objective(problem: LayerProblem, report: Report) -> int:
    """Cost of a simulated plan."""
    return _costs(problem, report)[problem.counted]


def simulate(
    problem: LayerProblem,
    plan: DspPlan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right."""
    layer, machine = problem.one_layer, problem.machine
    broken = violation(problem, plan)
    if broken is not None and not broken.startswith("memory overflow"):
        return Report.refused(Violation(broken.split(":")[0], 0, "plan", "a plan within the limits", broken))
    program = lower(nest_of(layer, machine), plan, local_traffic(layer, machine))
    data = expected = None
    if numeric:
        top, bottom, left, right = layer.padding
        values, kernels = random_values(layer, seed)
        shapes = {tensor.name: tensor.shape for tensor in program.tensors}
        padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
        rows, columns = nest_of(layer, machine).lines
        data = {
            "input": padded[:, :, rows.kept[:, None], columns.kept].reshape(shapes["input"]),
            "kernels": kernels.reshape(shapes["kernels"]),
        }
        expected = {"output": reference_convolution(layer, values, kernels).reshape(shapes["output"])}
    report = execute(
        program,
        overlapped=overlapped,
        lockstep=machine.double_buffering,
        data=data,
        expected=expected,
        deadline=deadline,
    )
    if report.violation is None:
        report.measures = _measures(problem, plan, report)
    return report


def _measures(problem: LayerProblem, plan: DspPlan, report: Report) -> DspLayer:
    """Return what was measured, beside what no plan can do without and what the thesis counts."""
    layer, machine = problem.one_layer, problem.machine
    nest, local = nest_of(layer, machine), local_traffic(layer, machine)
    costs, step = _costs(problem, report), nest.step(plan.tile)
    least = bounds.best_bound(nest, "accesses", local)
    in_bits: dict[str, Any] = {}
    if machine.bits is not None:
        in_bits = {
            "accesses_bits": costs["accesses"],
            "moved_bits": moved_by_operand(problem, report),
            "buffers_bits": nest.held(step, plan.reuse),
            "least_accesses_bits": least.bits,
        }
    return DspLayer(
        **counted(report),
        duration_cycles=costs["cycles"],
        duration_of="lockstep" if machine.double_buffering else "serial",
        accesses_elements=report.accesses,
        energy_fj=costs["energy"],
        energy_prices=machine.energy.source,
        gops_per_second=machine.clock_mhz * 2 * nest.macs / costs["cycles"] / 1000,
        ops_per_byte=16 * nest.macs / (costs["accesses"] * machine.unit_bits),
        least_accesses_elements=least.accesses,
        least_accesses_by=least.name,
        limited_by=_limit(problem, report),
        schedule=plan.schedule,
        tile=dict(zip(LOOPS, step, strict=True)),
        buffers_elements=nest.buffers(step, plan.reuse),
        **in_bits,
        **_published(problem, plan),
    )


def _published(problem: LayerProblem, plan: DspPlan) -> dict[str, Any]:
    """Return what the thesis's formulas count of a plan with one of its schedules, by measure."""
    if plan.schedule not in SCHEDULES:
        return {}
    layer, machine = problem.one_layer, problem.machine
    nest = nest_of(layer, machine)
    tiles = Tiles(nest, tuple(np.array([size]) for size in nest.step(plan.tile)))
    unit = "elements" if machine.bits is None else "bits"
    cycles = thesis_model.cycles(tiles, plan.schedule, local_traffic(layer, machine))
    return {
        f"published_accesses_{unit}": float(thesis_model.accesses(tiles, plan.schedule)[0]),
        "published_cycles": float(cycles.total[0]),
    }


def _core(problem: LayerProblem, report: Report) -> tuple[int, int]:
    """Return the cycles in which the core computes, and in which it sets up transfers."""
    machine = problem.machine
    compute = report.total(-(-report.macs // machine.macs_per_cycle))
    return compute, int(machine.dma_setup_cycles) * report.transfers


def _limit(problem: LayerProblem, report: Report) -> str:
    """Name what works longest: the bus, or of the core's work the larger part."""
    compute, setup = _core(problem, report)
    moved = sum(moved_by_operand(problem, report).values()) + report.streamed
    if moved / problem.machine.bus_units_per_cycle > compute + setup:
        return "bus"
    return "multipliers" if compute >= setup else "set-up of transfers"


def moved_by_operand(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the units that an executed plan moved: outputs leave complete once, all else of them is sums."""
    units, outputs = problem.machine.units, int(np.prod(problem.one_layer.output_shape))
    loaded, written = (
        {name: report.total(counts) for name, counts in table.items()}
        for table in (report.loaded, report.written)
    )
    sums = loaded["output"] + written["output"] - outputs
    return {
        "input": loaded["input"] * units.input,
        "weights": loaded["kernels"] * units.kernels,
        "output": sums * units.partial + outputs * units.output,
    }


def _costs(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return what a simulated plan costs, by what that counts."""
    machine = problem.machine
    line = report.lockstep if machine.double_buffering else report.sequential
    assert line is not None
    busy = sum(_core(problem, report))
    moved = sum(moved_by_operand(problem, report).values())
    return {
        "cycles": line.cycles,
        "accesses": moved,
        "energy": cost.energy(machine, moved, busy, report.streamed),
    }


def best_bound(problem: LayerProblem) -> bounds.LayerBound:
    """Return a lower bound that holds for every schedule on the machine."""
    layer, machine = problem.one_layer, problem.machine
    return bounds.best_bound(nest_of(layer, machine), problem.counted, local_traffic(layer, machine))


def exhaustive(problem: LayerProblem, deadline: float) -> Exact | None:
    """Return the best plan, or all plans of a front; None if nothing is feasible.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which the best found so far is returned without proof.
    """
    layer, machine, minimise = problem.one_layer, problem.machine, problem.minimise
    nest, local, limit = nest_of(layer, machine), local_traffic(layer, machine), problem.limits.schedule
    if problem.traded:
        front, proven = exact.pareto_front(nest, limit, local, deadline, problem.traded)
        if not front and not proven:
            raise OutOfTimeError
        return Exact(front[0].values[0], tuple(point.plan for point in front), proven) if front else None
    given = problem.limits.at_most.given
    if minimise == "accesses" and not given:
        found = exact.fewest_accesses(nest, limit, deadline=deadline)
        proven = time.monotonic() <= deadline
        if found is not None and proven and found.plan.reuse != "weights":
            until = min(deadline, time.monotonic() + exact.TIE_SECONDS)
            found, _ = exact.cheapest(nest, minimise, problem.limits.orders, local, until, fewest=found)
    else:
        found, proven = exact.cheapest(nest, minimise, limit, local, deadline, given)
    if found is None and not proven:
        raise OutOfTimeError
    if found is None:
        return None
    return Exact(found.value, (found.plan,), proven)


def trade_off(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return the two numbers of a point of a Pareto front (equations 5.22 and 5.23, without constants)."""
    costs = _costs(problem, report)
    return {name: costs[name] for name in problem.traded or exact.THROUGHPUT}
