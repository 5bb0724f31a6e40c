"""What an executed plan of a layer on a DSP has cost, and what limits it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.core.measures import counted
from tilewright.simulator import Report
from tilewright.tiling.dsp import bounds, thesis_model
from tilewright.tiling.dsp.compute import loop_of
from tilewright.tiling.dsp.cost import energy
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS, SCHEDULES, DspPlan
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import DspLayer


def measure_execution(problem: LayerProblem, plan: DspPlan, report: Report) -> DspLayer:
    """Return what was measured, beside what no plan can do without and what the thesis counts."""
    layer, machine = problem.one_layer, problem.machine
    nest = nest_of(layer, machine)
    costs, step = costs_of(problem, report), nest.step(plan.tile)
    least = bounds.best_bound(nest, "accesses", local_traffic(nest))
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
        inner_loop=None if machine.vector_unit is None else str(loop_of(nest, plan)),
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
    cycles = thesis_model.cycles(tiles, plan.schedule, local_traffic(nest))
    return {
        f"published_accesses_{unit}": float(thesis_model.accesses(tiles, plan.schedule)[0]),
        "published_cycles": float(cycles.total[0]),
    }


def core_cycles(problem: LayerProblem, report: Report) -> tuple[int, int]:
    """Return the cycles in which the core computes, and in which it sets up transfers."""
    machine = problem.machine
    if machine.vector_unit is None:
        compute = report.total(-(-report.macs // machine.macs_per_cycle))
    else:
        line = report.lockstep if machine.double_buffering else report.sequential
        assert line is not None
        compute = line.busy()["dsp"] - line.beside.get("dsp", 0)
    return compute, int(machine.dma_setup_cycles) * report.transfers


def _limit(problem: LayerProblem, report: Report) -> str:
    """Name what works longest: the bus, or of the core's work the larger part."""
    compute, setup = core_cycles(problem, report)
    moved = sum(moved_by_operand(problem, report).values()) + report.streamed
    if moved / problem.machine.bus_units_per_cycle > compute + setup:
        return "bus"
    work = "multipliers" if problem.machine.vector_unit is None else "inner loop"
    return work if compute >= setup else "set-up of transfers"


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


def costs_of(problem: LayerProblem, report: Report) -> dict[str, int]:
    """Return what a simulated plan costs, by what that counts."""
    machine = problem.machine
    line = report.lockstep if machine.double_buffering else report.sequential
    assert line is not None
    busy = sum(core_cycles(problem, report))
    moved = sum(moved_by_operand(problem, report).values())
    return {
        "cycles": line.cycles,
        "accesses": moved,
        "energy": energy(machine, moved, busy, report.streamed),
    }
