"""What people are shown of a solved tiling problem: rows for one layer, a table for a network."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilewright.core.room import Rows
from tilewright.spec.energy import GIVEN
from tilewright.tiling.dsp.exact import THROUGHPUT
from tilewright.tiling.hierarchy import summary as hierarchy_summary
from tilewright.tiling.hierarchy.curve import least_accesses
from tilewright.tiling.operations.units import bits_of
from tilewright.tiling.problem import Problem

LINES = 24
"""Points of a network's front that people are shown, about."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals, after what a plan is compared with."""
    return _compared(problem) + _totals(problem, report)


def _compared(problem: Problem) -> Rows:
    """Say of a list of objectives which plans the last one is compared among."""
    if not problem.before:
        return []
    of = {"network": "the network's", "layer": "each layer's"}[problem.objective.tolerance_of]
    whose = "the" if problem.network is None else of
    told = [
        f"at most {100 * share:g} % above {whose} least {name}" if share else f"with {whose} least {name}"
        for name, share in problem.before
    ]
    return [("among plans", ", then ".join(told))]


def _totals(problem: Problem, report: dict[str, Any]) -> Rows:
    if problem.trades_capacity:
        return _capacities(problem, report)
    if problem.traded and problem.network is not None:
        return _front_of_network(problem, problem.traded, report)
    if problem.network is None:
        return _layer(problem, report)
    layers = report["layers"]
    counted = problem.machine.kind != "hierarchy"
    transfers = f", {report['transfers']:,} transfers" if counted else ""
    moved = sum(_moved(layer) for layer in layers)
    shown = [
        ("layers", _counts(problem)),
        ("MACs", f"{report['macs']:,}"),
        ("external accesses", f"{moved:,} elements{_bytes(layers)}{transfers}"),
    ]
    if problem.machine.kind == "dsp":
        least = sum(layer["facts"]["least_accesses"] for layer in layers)
        shown.append(
            (
                "any schedule",
                f"{_least(problem, least)} elements; this one has {moved / least:.2f} times that",
            )
        )
    return shown + _total_time(problem, layers) + _not_counted(problem)


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


def _front_of_network(problem: Problem, traded: tuple[str, str], report: dict[str, Any]) -> Rows:
    """Tell the ends of a network's front, which of its points are shown, and how to get the plan of one."""
    facts, (first, second) = report["facts"], traded
    points = facts["front"]
    begin, end = points[0], points[-1]
    more, less = end[first] / max(1, begin[first]), begin[second] / max(1, end[second])
    shown = [
        ("layers", _counts(problem)),
        ("MACs", f"{report['macs']:,}"),
        (
            "front",
            f"{found_of_front(facts)}, to {more:.3f} times the {first} with {less:.3f} times less {second}",
        ),
    ]
    if len(points) > LINES:
        shown.append(("shown", f"each {_number(-(-len(points) // LINES))} of them, and the last"))
    of_point = f"--minimise {second} --set limits.at_most.{first}=N, N being its {first}"
    return [*shown, ("plan of a point", of_point), *_not_counted(problem)]


def found_of_front(facts: Mapping[str, Any]) -> str:
    """Say which points of a network's front a report has."""
    here, many, every = len(facts["front"]), facts["points"], facts["every"]
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


def _capacities(problem: Problem, report: dict[str, Any]) -> Rows:
    """Tell the ends of a front of accesses and capacities."""
    front = report["facts"]["front"]
    ends = (f"{end['accesses']:,} accesses in {end['capacity']:,} bytes" for end in (front[0], front[-1]))
    shown = [("MACs", f"{report['macs']:,}"), ("front", f"{len(front):,} points, from {' to '.join(ends)}")]
    return shown if problem.network is None else shown + _not_counted(problem)


def _capacity_lines(problem: Problem, front: Sequence[Mapping[str, int]]) -> list[tuple[str, ...]]:
    """Return the best point within each power of two bytes, beside what no schedule goes below."""
    assert problem.machine.kind == "hierarchy"
    layers, machine = [part.one_layer for _, part in problem.parts], problem.machine
    lines: list[tuple[str, ...]] = [("bytes", "needed", "accesses", "any schedule", "/ least")]
    first, last = ((end["capacity"] - 1).bit_length() for end in (front[-1], front[0]))
    for power in range(first, last + 1):
        point = next(point for point in front if point["capacity"] <= 2**power)
        least = least_accesses(layers, machine, 2**power)
        numbers = 2**power, point["capacity"], point["accesses"], least
        lines.append((*(f"{number:,}" for number in numbers), f"{point['accesses'] / least:.2f}"))
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


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and one line per layer of a network, or per point of a front; nothing for a layer."""
    header: tuple[str, ...]
    if problem.trades_capacity:
        return _capacity_lines(problem, report["facts"]["front"])
    if problem.traded:
        points = report["facts"]["front"]
        if problem.network is None and problem.machine.kind == "dsp" and problem.traded == THROUGHPUT:
            moved = "accesses" if problem.machine.bits is None else "bits moved"
            header = ("cycles", moved, "GOps/s", "Ops/byte")
            return [header, *(_point(problem, point) for point in points)]
        units = (problem.units[name] for name in problem.traded)
        header = tuple(
            name if name == unit else f"{name}, {unit}"
            for name, unit in zip(problem.traded, units, strict=True)
        )
        if problem.network is not None and len(points) > LINES:
            points = [*points[: -1 : -(-len(points) // LINES)], points[-1]]
        return [header, *(tuple(f"{point[name]:,}" for name in problem.traded) for point in points)]
    if problem.machine.kind == "hierarchy":
        if problem.network is None:
            return hierarchy_summary.table(problem.one_layer, problem.machine, report["facts"])
        columns = 5 + problem.machine.priced
        header = ("layer", "limited by", "accesses", "cycles", "busy", "uJ")[:columns]
        lines = [_line(layer, _hierarchy_line, _hierarchy_operation)[:columns] for layer in report["layers"]]
        return _with_shares(report, header, lines)
    if problem.network is None:
        return []
    if problem.machine.kind == "npu":
        header = ("layer", "partition", "schedule", "loaded", "written", "us")
        lines = [_line(layer, _npu_line, _npu_operation) for layer in report["layers"]]
        return _with_shares(report, header, lines)
    header = (
        "layer",
        "schedule",
        "accesses",
        "/ least",
        "Ops/byte",
        "cycles",
        "GOps/s",
        "uJ",
    )
    lines = [_line(layer, _dsp_line, _dsp_operation) for layer in report["layers"]]
    return _with_shares(report, header, lines)


def _with_shares(
    report: dict[str, Any], header: tuple[str, ...], lines: list[tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """Put each layer's share of the whole time beside the time."""
    place = 1 + header.index("cycles" if "cycles" in header else "us")
    times = [layer["facts"].get("cycles", layer["facts"].get("time_ps", 0)) for layer in report["layers"]]
    shares = ["share", *(f"{100 * time / max(1, sum(times)):.1f} %" for time in times)]
    rows = zip([header, *lines], shares, strict=True)
    return [(*row[:place], share, *row[place:]) for row, share in rows]


Line = Callable[[dict[str, Any]], tuple[str, ...]]


def _line(layer: dict[str, Any], of_layer: Line, of_operation: Line) -> tuple[str, ...]:
    return (of_operation if "operation" in layer["facts"] else of_layer)(layer)


def _dsp_operation(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    ratio = facts["accesses"] / facts["least_accesses"]
    return (
        layer["name"],
        _does(facts),
        f"{facts['accesses']:,}",
        f"{ratio:.2f}",
        "",
        f"{facts['cycles']:,}",
        "",
        f"{facts['energy_fj'] / 1e9:,.0f}",
    )


def _npu_operation(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    moved = (f"{sum(layer[way].values()):,}" for way in ("loaded", "written"))
    return (layer["name"], "", _does(facts), *moved, f"{facts['time_ps'] / 1e6:,.1f}")


def _hierarchy_operation(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    cells = (f"{facts['accesses']:,}", f"{facts['cycles']:,}", "", f"{facts['energy'] / 1e12:,.2f}")
    return (layer["name"], facts["limited_by"], *cells)


def _does(facts: dict[str, Any]) -> str:
    where = " on host" if facts["on"] == "host" else ""
    return f"{facts['operation']}{where}"


def _point(problem: Problem, point: dict[str, int]) -> tuple[str, ...]:
    machine, macs = problem.machine, problem.one_layer.macs
    assert machine.kind == "dsp"
    gops = machine.clock_mhz * 2 * macs / point["cycles"] / 1000
    efficiency = 16 * macs / (point["accesses"] * machine.unit_bits)
    return f"{point['cycles']:,}", f"{point['accesses']:,}", f"{gops:.3f}", f"{efficiency:.1f}"


def _dsp_line(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    return (
        layer["name"],
        facts["schedule"],
        f"{facts['accesses']:,}",
        f"{facts['accesses'] / facts['least_accesses']:.2f}",
        f"{facts['ops_per_byte']:.1f}",
        f"{facts['cycles']:,}",
        f"{facts['gops_per_second']:.2f}",
        f"{facts['energy_fj'] / 1e9:,.0f}",
    )


def _npu_line(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    return (
        layer["name"],
        facts["partition"],
        facts["schedule"],
        f"{sum(layer['loaded'].values()):,}",
        f"{sum(layer['written'].values()):,}",
        f"{facts['time_ps'] / 1e6:,.1f}",
    )


def _hierarchy_line(layer: dict[str, Any]) -> tuple[str, ...]:
    facts = layer["facts"]
    return (
        layer["name"],
        facts["limited_by"],
        f"{facts['accesses']:,}",
        f"{facts['cycles']:,}",
        f"{100 * facts['utilisation']:.1f} %",
        f"{facts['energy'] / 1e12:,.2f}",
    )


def _amounts(table: dict[str, int]) -> str:
    """Show how many elements of each operand; on an NPU all TLEs together."""
    total: dict[str, int] = {}
    for tensor, count in table.items():
        name = {"kernels": "weights"}.get(tensor.split()[0], tensor.split()[0])
        total[name] = total.get(name, 0) + count
    return ", ".join(f"{name} {count:,}" for name, count in total.items() if count)


def _bytes(layers: Sequence[dict[str, Any]]) -> str:
    """Tell the bytes that are moved, where the machine gives widths."""
    bits = [layer["facts"]["accesses_bits"] for layer in layers if "accesses_bits" in layer["facts"]]
    return f", {-(-sum(bits) // 8):,} bytes" if bits else ""


def _moved(layer: dict[str, Any]) -> int:
    moved: int = sum(layer["loaded"].values()) + sum(layer["written"].values())
    return moved


def _total_time(problem: Problem, layers: list[dict[str, Any]]) -> Rows:
    if problem.machine.kind == "npu":
        total = sum(layer["facts"]["time_ps"] for layer in layers)
        return [("time", f"{total / 1e6:,.0f} us")]
    cycles = sum(layer["facts"]["cycles"] for layer in layers)
    hierarchy = problem.machine.kind == "hierarchy"
    energy = sum(
        layer["facts"]["energy"] // 1000 if hierarchy else layer["facts"]["energy_fj"] for layer in layers
    )
    seconds = cycles / problem.machine.clock_mhz / 1e6
    duration = f"{cycles:,} cycles, {1e3 * seconds:.2f} ms at {problem.machine.clock_mhz} MHz"
    shown = [("duration", duration)]
    if hierarchy:
        filled = sum(layer["facts"].get("filled_cycles", layer["facts"]["cycles"]) for layer in layers)
        shown += hierarchy_summary.left_out(cycles, filled)
    if hierarchy and not problem.machine.priced:
        return shown
    return [*shown, ("energy", f"{energy / 1e12:.3f} mJ{_prices(problem)}")]


def _prices(problem: Problem) -> str:
    """Say whose prices of energy these are, where the machine's table does not give all of them."""
    if problem.machine.kind != "dsp":
        return ""
    source = problem.machine.energy.source
    return "" if source == GIVEN else f", prices {source}"


def _layer(problem: Problem, report: dict[str, Any]) -> Rows:
    facts = report["facts"]
    if problem.machine.kind == "hierarchy":
        return hierarchy_summary.rows(problem.machine, facts)
    loaded, written = _amounts(report["loaded"]), _amounts(report["written"])
    if problem.machine.kind == "npu":
        tile = ", ".join(f"{name} {size}" for name, size in facts["tile"].items())
        moved = [("accesses", f"{facts['accesses']:,} elements{_bytes([report])}")]
        return [
            ("plan", f"{facts['partition']}, {facts['schedule']}, tile {tile}"),
            ("loaded", loaded),
            ("written", written),
            *(moved if "accesses_bits" in facts else []),
            ("time", f"{facts['time_ps'] / 1e6:,.1f} us"),
        ]
    step = ", ".join(f"{name} {size}" for name, size in facts["step"].items())
    buffers, unit = _amounts(facts.get("buffers_bits", facts["buffers"])), problem.machine.unit
    copies = f" (x {problem.machine.copies})" if problem.machine.copies > 1 else ""
    shown = [
        ("schedule", facts["schedule"]),
        ("tile", f"{step}; {report['steps']:,} tiles"),
        ("buffers", f"{buffers} {unit}{copies} of {problem.machine.capacity:,}"),
        ("loaded", loaded),
        ("written", written),
        (
            "accesses",
            f"{facts['accesses']:,} elements{_bytes([report])} in {report['transfers']:,} transfers",
        ),
        (
            "any schedule",
            f"{_least(problem, facts['least_accesses'])} accesses ({facts['least_accesses_by']}): "
            f"this one has {facts['accesses'] / facts['least_accesses']:.2f} times that",
        ),
        ("efficiency", f"{facts['ops_per_byte']:.1f} Ops/byte, {facts['gops_per_second']:.2f} GOps/s"),
        ("duration", f"{facts['cycles']:,} cycles"),
        ("energy", f"{facts['energy_fj'] / 1e9:,.1f} uJ{_prices(problem)}"),
    ]
    if "published_accesses" in facts:
        accesses, cycles = facts["published_accesses"], facts["published_cycles"]
        shown.append(
            ("as published", f"{accesses:,.0f} accesses, {cycles:,.0f} cycles (edge tiles as full ones)")
        )
    return shown
