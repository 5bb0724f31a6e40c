"""What people are shown of a solved tiling problem: rows for one layer, a table for a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.core.narrowing import Narrowing
from tilewright.core.quantities import column, is_scaled, written
from tilewright.core.room import Rows
from tilewright.spec.energy import GIVEN
from tilewright.spec.objectives import among_plans
from tilewright.tiling.dsp.exact import THROUGHPUT
from tilewright.tiling.hierarchy import summary as hierarchy_summary
from tilewright.tiling.hierarchy.curve import least_accesses
from tilewright.tiling.measures import (
    Between,
    CycledBetween,
    DspLayer,
    LayerMeasures,
    NetworkMeasures,
    NpuLayer,
    TilingMeasures,
    TimedBetween,
    duration,
)
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.problem import Problem

LINES = 24
"""Points of a network's front that people are shown, about."""


def rows(problem: Problem, measures: TilingMeasures) -> Rows:
    """Return labelled lines about a plan's totals, after what a plan is compared with."""
    of = {"network": "the network's", "layer": "each layer's"}[problem.objective.tolerance_of]
    whose = "the" if problem.network is None else of
    return among_plans(problem.before, whose) + _totals(problem, measures)


def _totals(problem: Problem, measures: Any) -> Rows:
    if problem.trades_capacity:
        return _capacities(problem, measures)
    if problem.network is None:
        return _layer(problem, measures)
    if problem.traded:
        return _front_of_network(problem, problem.traded, measures)
    layers = list(measures.layers.values())
    counted = problem.machine.kind != "hierarchy"
    transfers = f", {measures.transfers:,} transfers" if counted else ""
    moved = sum(map(_moved, layers))
    shown = [
        ("layers", _counts(problem)),
        ("MACs", f"{measures.macs:,}"),
        ("external accesses", f"{moved:,} elements{_bytes(layers)}{transfers}"),
    ]
    if problem.machine.kind == "dsp":
        least = sum(layer.least_accesses_elements for layer in layers)
        told = f"{_least(problem, least)} elements; this one has {moved / least:.2f} times that"
        shown.append(("any schedule", told))
    return shown + _any_schedule(layers) + _total_time(problem, layers) + _not_counted(problem)


def _any_schedule(layers: Sequence[Any]) -> Rows:
    """Tell what no schedule of attention goes below, where there is some."""
    found = [
        layer
        for layer in layers
        if isinstance(layer, CycledBetween) and layer.operation.startswith("attention")
    ]
    if not found:
        return []
    least, moved = sum(layer.least_accesses_elements for layer in found), sum(map(_moved, found))
    told = f"attention moves at least {least:,} elements; here it moves {moved / least:.2f} times that"
    return [("any schedule", told)]


def _least(problem: Problem, amount: int) -> str:
    """Say that no schedule moves less than an amount in a memory: that of one copy of a tile's buffers."""
    machine = problem.machine
    assert machine.kind == "dsp"
    copy = ", one copy of the buffers," if machine.copies > 1 else ""
    return f"in {machine.buffer_capacity:,} {machine.unit}{copy} at least {amount:,}"


def _counts(problem: Problem) -> str:
    """Tell how many layers there are, and how many operations between them."""
    told = []
    for are, what in ((False, ""), (True, " operations")):
        parts = [part for _, part in problem.parts if (part.operation is not None) == are]
        if parts:
            called = what if len(parts) > 1 else what.removesuffix("s")
            told.append(f"{len(parts)}{called}, {len({id(part) for part in parts})} different")
    return "; ".join(told)


def _front_of_network(problem: Problem, traded: tuple[str, str], measures: NetworkMeasures) -> Rows:
    """Tell the ends of a network's front, which of its points are shown, and how to get the plan of one."""
    assert measures.front is not None
    first, second = traded
    points = costs_of_front(problem, measures)
    begin, end = points[0], points[-1]
    more, less = end[0] / max(1, begin[0]), begin[1] / max(1, end[1])
    factors = f"to {more:.3f} times the {first} with {less:.3f} times less {second}"
    shown = [
        ("layers", _counts(problem)),
        ("MACs", f"{measures.macs:,}"),
        ("front", f"{found_of_front(measures)}, {factors}"),
    ]
    if len(points) > LINES:
        shown.append(("shown", f"each {_number(-(-len(points) // LINES))} of them, and the last"))
    unit = problem.objectives[first].unit
    exact = f" in {unit}, as in --json" if is_scaled(unit) else ""
    of_point = f"--minimise {second} --set limits.at_most.{first}=N, N being its {first}{exact}"
    return [*shown, ("plan of a point", of_point), *_not_counted(problem)]


def costs_of_front(problem: Problem, measures: TilingMeasures) -> list[tuple[int, int]]:
    """Return what the plans of a front cost of the two things that it trades, in their order."""
    assert problem.traded is not None and measures.front is not None
    first, second = (problem.measure_of(name) for name in problem.traded)
    return [(getattr(point, first), getattr(point, second)) for point in measures.front]


def found_of_front(measures: NetworkMeasures) -> str:
    """Say which points of a network's front a report has."""
    assert measures.front is not None
    here, many, every = len(measures.front), measures.front_points, measures.front_every or 1
    if many == here:
        return f"{many:,} point{'s' * (many > 1)}, all"
    points = f"{here:,} points, "
    if every > 1:
        points += f"each {_number(every)} "
    return points + ("on the convex hull of more than are listed" if many is None else f"of {many:,}")


def _number(place: int) -> str:
    """Return an ordinal."""
    ending = {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th") if place // 10 % 10 != 1 else "th"
    return f"{place:,}{ending}"


def _capacities(problem: Problem, measures: TilingMeasures) -> Rows:
    """Tell the ends of a front of accesses and capacities."""
    points = costs_of_front(problem, measures)
    ends = (f"{moved:,} accesses in {capacity:,} bytes" for moved, capacity in (points[0], points[-1]))
    shown = [("MACs", f"{measures.macs:,}"), ("front", f"{len(points):,} points, from {' to '.join(ends)}")]
    return shown if problem.network is None else shown + _not_counted(problem)


def _capacity_lines(problem: Problem, points: Sequence[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return the best point within each power of two bytes, beside what no schedule goes below."""
    assert problem.machine.kind == "hierarchy"
    layers, machine = [part.one_layer for _, part in problem.parts], problem.machine
    lines: list[tuple[str, ...]] = [("bytes", "needed", "accesses", "any schedule", "/least")]
    first, last = ((capacity - 1).bit_length() for _, capacity in (points[-1], points[0]))
    for power in range(first, last + 1):
        moved, capacity = next(point for point in points if point[1] <= 2**power)
        least = least_accesses(layers, machine, 2**power)
        numbers = 2**power, capacity, moved, least
        lines.append((*(f"{number:,}" for number in numbers), f"{moved / least:.2f}"))
    return lines


def _not_counted(problem: Problem) -> Rows:
    """Name the operations that have no cost here, with what they move if each is executed by itself."""
    others = problem.unmodelled
    if not others:
        return []
    kinds = ", ".join(f"{many} {kind}" for kind, many in Counter(each.kind for each in others).items())
    moved, macs = sum(each.elements for each in others), sum(each.macs for each in others)
    told = f", {macs:,} MACs" if macs else ""
    size = moved * bits_of(problem.machine) // 8
    return [("not counted", f"{kinds}: {moved:,} elements, {size:,} bytes{told}, if none is fused")]


def table(problem: Problem, measures: Any) -> list[tuple[str, ...]]:
    """Return a header and one line per layer of a network, or per point of a front; nothing for a layer."""
    if problem.traded:
        return _front(problem, costs_of_front(problem, measures))
    machine, alone = problem.machine, problem.network is None
    if machine.kind == "hierarchy" and alone:
        return hierarchy_summary.table(problem.one_layer, machine, measures)
    if alone:
        return []
    layers = dict(measures.layers)
    lines = [(name, *_line(problem, part, layers[name])) for name, part in problem.parts]
    times = [duration(layers[name]) for name, _ in problem.parts]
    whole = max(1, sum(times))
    columns = [(title, [line[place] for line in lines]) for place, title in enumerate(TITLES[machine.kind])]
    if machine.kind == "npu":
        columns.append(column(times, "ps"))
    columns.append(("share", [f"{100 * time / whole:.1f} %" for time in times]))
    energies = [_energy(layers[name]) for name, _ in problem.parts]
    if machine.kind == "dsp" or (machine.kind == "hierarchy" and machine.priced):
        columns.append(column(energies, "aJ"))
    header, cells = zip(*columns, strict=True)
    return [header, *zip(*cells, strict=True)]


TITLES = {
    "dsp": ("layer", "limited by", "busy", "schedule", "accesses", "/least", "Ops/byte", "GOps/s", "cycles"),
    "npu": ("layer", "limited by", "cores", "partition", "schedule", "loaded", "written"),
    "hierarchy": ("layer", "limited by", "PEs", "busy", "accesses", "cycles"),
}
"""Columns of a network's layers by the kind of machine, before time, share and energy; `_line` fills them."""

NARROWING = Narrowing(
    words={
        "limited by": "limit",
        "multipliers": "MACs",
        "set-up of transfers": "set-up",
        "bursts of dram": "bursts",
        "vector unit": "vector",
        "transfers of": "fill",
        "input maps": "in",
        "kernel rows": "krows",
        "kernel columns": "kcols",
        "columns": "cols",
        "outermost first": "outer first",
        "partial sums": "sums",
        "conv, ": "",
    },
    last=(
        *("GOps/s", "Ops/byte", "/least", "written", "loaded", "schedule", "accesses"),
        *("does", "stays", "memory full", "kernel rows", "kernel columns"),
    ),
    prose=("loops, outermost first",),
)
"""What becomes of the tables of layers and of tiles where columns are few."""


def _energy(layer: LayerMeasures) -> int:
    """Return the attojoules of a layer; 0 where they are not known."""
    return getattr(layer, "energy_aj", None) or 1000 * (getattr(layer, "energy_fj", None) or 0)


def _front(problem: Problem, points: list[tuple[int, int]]) -> list[tuple[str, ...]]:
    """Return a header and a line for each point of a front, of a network's some."""
    assert problem.traded is not None
    if problem.trades_capacity:
        return _capacity_lines(problem, points)
    if problem.network is None and problem.machine.kind == "dsp" and problem.traded == THROUGHPUT:
        moved = "accesses" if problem.machine.bits is None else "bits moved"
        header: tuple[str, ...] = ("cycles", moved, "GOps/s", "Ops/byte")
        return [header, *(_throughput(problem, *point) for point in points)]
    if problem.network is not None and len(points) > LINES:
        points = [*points[: -1 : -(-len(points) // LINES)], points[-1]]
    columns = []
    for name, costs in zip(problem.traded, zip(*points, strict=True), strict=True):
        unit, cells = problem.objectives[name].unit, [f"{cost:,}" for cost in costs]
        if is_scaled(unit):
            unit, cells = column(costs, unit)
        columns.append((name if name == unit else f"{name}, {unit}", cells))
    header, cells_of_points = zip(*columns, strict=True)
    return [header, *zip(*cells_of_points, strict=True)]


def _line(problem: Problem, part: Problem, layer: Any) -> tuple[str, ...]:
    """Return the cells of a layer but its name, its share and what has a unit of its own."""
    machine, between = problem.machine, isinstance(layer, CycledBetween | TimedBetween)
    limited_by = layer.limited_by or ""
    if machine.kind == "hierarchy":
        used = ("", "") if between else (hierarchy_summary.pes(machine, layer), _share(layer.utilisation))
        return limited_by, *used, f"{layer.accesses_elements:,}", f"{layer.duration_cycles:,}"
    if machine.kind == "npu":
        loaded, written = (sum(each.values()) for each in (layer.loaded_elements, layer.written_elements))
        cores, plan = ("", ("", _does(layer))) if between else (_cores(part, layer), _npu_plan(layer))
        return limited_by, cores, *plan, f"{loaded:,}", f"{written:,}"
    busy = "" if between else _share(_busy(problem, layer))
    return (
        limited_by,
        busy,
        _does(layer) if between else layer.schedule,
        f"{layer.accesses_elements:,}",
        f"{layer.accesses_elements / layer.least_accesses_elements:.2f}",
        *(("", "") if between else (f"{layer.ops_per_byte:.1f}", f"{layer.gops_per_second:.2f}")),
        f"{layer.duration_cycles:,}",
    )


def _npu_plan(layer: NpuLayer) -> tuple[str, str]:
    return layer.partition, layer.schedule


def _share(part: float) -> str:
    return f"{100 * part:.1f} %"


def _busy(problem: Problem, layer: DspLayer) -> float:
    """Return the share of a DSP's multipliers that work, on average."""
    assert problem.machine.kind == "dsp"
    return layer.macs / (problem.machine.macs_per_cycle * max(1, layer.duration_cycles))


def _cores(part: Problem, layer: NpuLayer) -> str:
    """Tell how many cores of an NPU have something to do."""
    machine = part.machine
    assert machine.kind == "npu"
    used = sum(len(share.cores) for share in cut_of(part.one_layer, machine, layer.partition).shares)
    return f"{used} of {machine.tles * machine.tlts}"


def _does(layer: Between) -> str:
    where = " on host" if layer.on == "host" else ""
    return f"{layer.operation}{where}"


def _throughput(problem: Problem, cycles: int, accesses: int) -> tuple[str, ...]:
    """Return cycles and accesses of a plan on a DSP with the rates that follow from them."""
    machine, macs = problem.machine, problem.one_layer.macs
    assert machine.kind == "dsp"
    gops = machine.clock_mhz * 2 * macs / cycles / 1000
    efficiency = 16 * macs / (accesses * machine.unit_bits)
    return f"{cycles:,}", f"{accesses:,}", f"{gops:.3f}", f"{efficiency:.1f}"


def _amounts(table: Mapping[str, int]) -> str:
    """Show how many elements of each operand."""
    names = {"kernels": "weights"}
    return ", ".join(f"{names.get(name, name)} {count:,}" for name, count in table.items() if count)


def _bytes(layers: Sequence[Any]) -> str:
    """Tell the bytes that are moved, where the machine gives widths."""
    bits = [each for layer in layers if (each := getattr(layer, "accesses_bits", None)) is not None]
    return f", {-(-sum(bits) // 8):,} bytes" if bits else ""


def _moved(layer: LayerMeasures) -> int:
    return sum(layer.loaded_elements.values()) + sum(layer.written_elements.values())


def _total_time(problem: Problem, layers: Sequence[Any]) -> Rows:
    """Return how long the layers take together, and their energy, where it is priced."""
    machine, total = problem.machine, sum(map(duration, layers))
    if machine.kind == "npu":
        return [("time", written(total, "ps"))]
    time = written(1e6 * total / machine.clock_mhz, "ps")
    shown = [("duration", f"{total:,} cycles, {time} at {machine.clock_mhz} MHz")]
    if machine.kind == "dsp":
        energy = sum(layer.energy_fj for layer in layers)
        return [*shown, ("energy", f"{written(energy, 'fJ')}{_prices(problem)}")]
    filled = sum(getattr(layer, "filled_cycles", layer.duration_cycles) for layer in layers)
    shown += hierarchy_summary.left_out(total, filled)
    energy = sum(layer.energy_aj for layer in layers)
    return [*shown, ("energy", written(energy, "aJ"))] if machine.priced else shown


def _prices(problem: Problem) -> str:
    """Say whose prices of energy these are, where the machine's table does not give all of them."""
    if problem.machine.kind != "dsp":
        return ""
    source = problem.machine.energy.source
    return "" if source == GIVEN else f", prices {source}"


def _layer(problem: Problem, measures: Any) -> Rows:
    """Return the lines about a layer."""
    machine = problem.machine
    if machine.kind == "hierarchy":
        return hierarchy_summary.rows(machine, measures)
    moved = [
        ("loaded", _amounts(measures.loaded_elements)),
        ("written", _amounts(measures.written_elements)),
    ]
    return (
        _npu_layer(problem, moved, measures)
        if machine.kind == "npu"
        else _dsp_layer(problem, moved, measures)
    )


def _npu_layer(problem: Problem, moved: Rows, measures: NpuLayer) -> Rows:
    tile = ", ".join(f"{name} {size}" for name, size in measures.tile.items())
    shown = [("plan", f"{measures.partition}, {measures.schedule}, tile {tile}"), *moved]
    if measures.accesses_bits is not None:
        shown.append(("accesses", f"{measures.accesses_elements:,} elements{_bytes([measures])}"))
    if measures.limited_by is not None:
        shown.append(("limited by", f"{measures.limited_by}; {_cores(problem, measures)} cores have work"))
    return [*shown, ("time", written(measures.duration_ps, "ps"))]


def _dsp_layer(problem: Problem, moved: Rows, measures: DspLayer) -> Rows:
    machine = problem.machine
    assert machine.kind == "dsp"
    tile = ", ".join(f"{name} {size}" for name, size in measures.tile.items())
    buffers, unit = _amounts(measures.buffers_bits or measures.buffers_elements), machine.unit
    copies = f" (x {machine.copies})" if machine.copies > 1 else ""
    accesses, least = measures.accesses_elements, measures.least_accesses_elements
    compared = f"accesses ({measures.least_accesses_by}): this one has {accesses / least:.2f} times that"
    rates = f"{measures.ops_per_byte:.1f} Ops/byte, {measures.gops_per_second:.2f} GOps/s"
    shown = [
        ("schedule", measures.schedule),
        ("tile", f"{tile}; {measures.steps:,} tiles"),
        *([] if measures.inner_loop is None else [("inner loop", measures.inner_loop)]),
        ("buffers", f"{buffers} {unit}{copies} of {machine.capacity:,}"),
        *moved,
        ("accesses", f"{accesses:,} elements{_bytes([measures])} in {measures.transfers:,} transfers"),
        ("any schedule", f"{_least(problem, least)} {compared}"),
        ("efficiency", rates),
        ("duration", f"{measures.duration_cycles:,} cycles"),
        ("energy", f"{written(measures.energy_fj, 'fJ')}{_prices(problem)}"),
    ]
    if measures.limited_by is not None:
        busy = _share(_busy(problem, measures))
        shown.append(("limited by", f"{measures.limited_by}; multipliers are busy for {busy} of the time"))
    published = measures.published_accesses_elements
    if published is not None:
        counted = f"{published:,.0f} accesses, {measures.published_cycles:,.0f} cycles"
        shown.append(("as published", f"{counted} (edge tiles as full ones)"))
    return shown
