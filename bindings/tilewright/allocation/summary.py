"""What people are shown of a solved allocation problem: rows of totals and a line per layer."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.allocation.measures import (
    PipelineEnergy,
    PipelineLayer,
    PipelineMeasures,
    PipelinePoint,
    PipelineTraffic,
    WholeNetwork,
)
from tilewright.allocation.problem import Problem
from tilewright.core.front import thinned
from tilewright.core.narrowing import Narrowing
from tilewright.core.overview import Front, Overview, of_table
from tilewright.core.quantities import written
from tilewright.core.room import Rows

MOST_POINTS = 40
"""Most lines of a Pareto front that are printed; a longer one is thinned out."""


ABOUT = (
    "All layers work at the same time, each on PEs of its own. Limited by: its own PEs, or a slower layer "
    "that it waits for; PEs of the largest load set the rate. Split: into which parts its PEs divide a "
    "layer. Work, pace: cycles from one output position to the next, without and with waits. Start: cycles "
    "after the begin of a frame. Busy, load: cycles for which a frame keeps a layer busy, with and without "
    "waits; the largest load sets the rate. Buffer: words that a layer's output takes."
)


def rows(problem: Problem, measures: PipelineMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    machine, layers = problem.machine, measures.layers
    array = " x ".join(map(str, machine.array))
    if measures.front:
        executed = f"{measures.executed_plans:,} of them executed"
        return [
            ("front", f"{len(measures.front):,} plans, {executed}"),
            ("PEs", f"{machine.pes:,} ({array})"),
        ]
    interval, latency, published = measures.interval_cycles, measures.latency_cycles, measures.published
    shown = [
        ("PEs", f"{measures.pes:,} of {machine.pes:,} ({array})"),
        ("rate", f"{measures.frames_per_second:,.1f} frames/s, one every {interval:,} cycles"),
    ]
    if problem.parallel:
        bottleneck = max(layers, key=lambda name: layers[name].load_cycles)
        busy = sum(layer.pes * layer.load_cycles for layer in layers.values()) / (measures.pes * interval)
        if _border_sets(measures):
            bottleneck = "the chip's border"
        elif _host_sets(problem, measures):
            bottleneck = "the host"
        shown.append(("bottleneck", f"{bottleneck}; PEs are busy {busy:.0%} of the time"))
    shown.append(("latency", f"{latency:,} cycles, {written(1e6 * latency / machine.clock_mhz, 'ps')}"))
    if not problem.waits:  # which the paper does not know
        by_equations = f"{published.latency_cycles:,} cycles, {published.frames_per_second:,.1f} frames/s"
        shown.append(("by the paper", f"{by_equations} (equations 3 to 13)"))
    limit = f" of {machine.buffer_bytes:,}" if machine.buffer_bytes is not None else ""
    weights = machine.bytes(sum(layer.weights_elements for layer in layers.values()))
    storage = machine.bytes(measures.storage_words)
    shown.append(("buffers", f"{storage:,} bytes{limit}, weights {weights:,} in all"))
    if measures.program_words is not None and measures.program_words > measures.storage_words:
        held = machine.bytes(measures.program_words)
        shown.append(("programs", f"{held:,} bytes: each group of rows has a copy of its layer's weights"))
    if problem.parallel and measures.pacing != "matched":
        shown.append(("pacing", "every layer as slow as the slowest, for the smallest buffers"))
    if measures.network is not None:
        shown += _network(problem, measures.network)
    if left := _not_counted(problem):
        shown.append(("not counted", ", ".join(left)))
    if measures.off_chip is not None:
        shown += _off_chip(problem, measures.off_chip)
    if measures.energy is not None:
        shown.append(("energy", _energy(measures.energy)))
    if measures.distance_hops is not None:
        least = f"at least {measures.least_distance_hops:,} on any array"
        shown.append(("placement", f"{measures.distance_hops:,} hops, {least}"))
    return shown


def _network(problem: Problem, whole: WholeNetwork) -> Rows:
    """Return what configuration and host make of the rate and the latency."""
    rate = f"{whole.frames_per_second:,.1f} frames/s, latency {whole.latency_cycles:,} cycles"
    shown = [("whole network", rate)]
    if whole.host_cycles is not None:
        names = ", ".join(whole.hosted) or "nothing"
        shown.append(("host", f"{whole.host_cycles:,} cycles a frame: {names}"))
    if whole.configuration_cycles is not None:
        when = "once, before the first frame" if problem.parallel else "a frame, for all layers"
        shown.append(("configuration", f"{whole.configuration_cycles:,} cycles {when}"))
    return shown


def _not_counted(problem: Problem) -> list[str]:
    """Return what takes time that the machine says nothing of."""
    machine = problem.machine
    found = [] if machine.configuration_cycles is not None else ["configuration"]
    if machine.off_chip is None:
        found.append("the way across the chip's border")
    if problem.hosted and machine.host is None:
        found.append(f"host: {', '.join(op.name for op in problem.hosted)}")
    if problem.hosted and machine.energy is not None:
        found.append("energy of the host")
    return found


def _off_chip(problem: Problem, traffic: PipelineTraffic) -> Rows:
    """Return what crosses the chip's border, and what stays on chip."""
    link = problem.machine.off_chip
    rate = 0 if link is None else link.mb_per_s
    told = f"{traffic.bytes_per_frame:,} bytes a frame, {traffic.transfer_cycles:,} cycles at {rate:,} MB/s"
    streamed, spilled = (", ".join(names) or "none" for names in (traffic.streamed, traffic.spilled))
    return [("off chip", told), ("streamed", f"weights of: {streamed}"), ("spilled", f"maps: {spilled}")]


def _energy(spent: PipelineEnergy) -> str:
    """Return the energy of a frame and what takes it."""
    parts = {
        "MACs": spent.macs_fj,
        "registers": spent.registers_fj,
        "hops": spent.hops_fj,
        "buffers": spent.buffers_fj,
        "off chip": spent.off_chip_fj,
        "leakage": spent.leakage_fj,
    }
    told = ", ".join(
        f"{name} not counted" if part is None else f"{name} {part / max(1, spent.total_fj):.0%}"
        for name, part in parts.items()
    )
    return f"{written(spent.total_fj, 'fJ')} a frame: {told}"


def table(problem: Problem, measures: PipelineMeasures) -> list[tuple[str, ...]]:
    """Return a header and one line per layer, or per plan of a front."""
    if measures.front:
        points = thinned(measures.front, MOST_POINTS)
        priced = ("energy",) if problem.machine.energy is not None else ()
        header = ("PEs", "frames/s", "interval", "latency", *priced)
        return [header, *(_point(problem, point) for point in points)]
    header = (
        "layer",
        "PEs",
        "limited by",
        "split",
        "units",
        "work",
        "pace",
        "start",
        "busy",
        "load",
        "buffer",
    )
    slowest = max(layer.load_cycles for layer in measures.layers.values()) if problem.parallel else None
    if _border_sets(measures) or _host_sets(problem, measures):
        slowest = None
    return [header, *(_line(name, layer, slowest) for name, layer in measures.layers.items())]


NARROWING = Narrowing(last=("units", "buffer", "start", "busy", "pace"))
"""What becomes of the table where columns are few."""


def _border_sets(measures: PipelineMeasures) -> bool:
    """Whether what crosses the chip's border takes longer than any layer."""
    longest = max(layer.load_cycles for layer in measures.layers.values())
    return measures.off_chip is not None and measures.off_chip.transfer_cycles > longest


def _host_sets(problem: Problem, measures: PipelineMeasures) -> bool:
    """Whether what the host does for a frame takes longer than any layer, which waits for it."""
    return problem.host_period > max(layer.load_cycles for layer in measures.layers.values())


def _limit(layer: PipelineLayer, slowest: int | None) -> str:
    """Name what a layer waits for: a slower layer, or its own PEs, which may set the rate of all."""
    if layer.load_cycles == slowest:
        return "PEs, sets the rate"
    return "slower layer" if layer.pace_cycles > layer.work_cycles else "PEs"


def _point(problem: Problem, point: PipelinePoint) -> tuple[str, ...]:
    rate = problem.machine.frames_per_second(point.interval_cycles)
    shown = f"{point.pes:,}", f"{rate:,.1f}", f"{point.interval_cycles:,}", f"{point.latency_cycles:,}"
    return shown if point.energy_fj is None else (*shown, written(point.energy_fj, "fJ"))


def _line(name: str, layer: PipelineLayer, slowest: int | None) -> tuple[str, ...]:
    return (
        name,
        f"{layer.pes:,}",
        _limit(layer, slowest),
        " x ".join(map(str, layer.split)),
        " x ".join(map(str, layer.units)),
        f"{layer.work_cycles:,}",
        f"{layer.pace_cycles:,}",
        f"{layer.start_cycles:,}",
        f"{layer.busy_cycles:,}",
        f"{layer.load_cycles:,}",
        f"{layer.buffer_words:,}",
    )


def overview(problem: Problem, plan: Any, measures: PipelineMeasures) -> Overview:
    """Return the table with what its columns mean; of a front its points, too."""
    told = of_table(table(problem, measures))
    if not measures.front:
        return replace(told, about=ABOUT)
    if problem.trades_energy:
        traded = [(float(point.interval_cycles), float(point.energy_fj or 0)) for point in measures.front]
        return replace(told, what="plan of the front", front=Front("cycles per frame", "fJ", traded))
    traded = [(float(point.pes), float(point.interval_cycles)) for point in measures.front]
    return replace(told, what="plan of the front", front=Front("PEs", "cycles per frame", traded))
