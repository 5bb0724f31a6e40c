"""What people are shown of a solved allocation problem: rows of totals and a line per layer."""

from __future__ import annotations

from typing import Any

from tilewright.allocation.problem import Problem

Rows = list[tuple[str, str]]

MOST_POINTS = 40
"""Most lines of a Pareto front that are printed; a longer one is thinned out."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    facts, machine = report["facts"], problem.machine
    published = facts["published"]
    array = " x ".join(map(str, machine.array))
    bottleneck = max(facts["stages"], key=lambda stage: stage["load"])
    used = sum(stage["pes"] * stage["load"] for stage in facts["stages"])
    shown = [
        ("PEs", f"{facts['pes']:,} of {machine.pes:,} ({array})"),
        ("rate", f"{facts['frames_per_second']:,.1f} frames/s, one every {facts['interval']:,} cycles"),
    ]
    if problem.parallel:
        busy = used / (facts["pes"] * facts["interval"])
        shown.append(("bottleneck", f"{bottleneck['name']}; PEs are busy {busy:.0%} of the time"))
    milliseconds = 1e-3 * facts["latency"] / machine.clock_mhz
    shown.append(("latency", f"{facts['latency']:,} cycles, {milliseconds:.3g} ms"))
    shown.append(
        (
            "by the paper",
            f"{published['latency']:,} cycles, {published['frames_per_second']:,.1f} frames/s"
            f" (equations 3 to 13)",
        )
    )
    limit = f" of {machine.buffer_bytes:,}" if machine.buffer_bytes is not None else ""
    weights = machine.bytes(sum(stage["weights"] for stage in facts["stages"]))
    shown.append(("buffers", f"{machine.bytes(facts['storage']):,} bytes{limit}, weights {weights:,} in all"))
    if problem.parallel and facts["pacing"] != "matched":
        shown.append(("pacing", "every layer as slow as the slowest, for the smallest buffers"))
    if "distance" in facts:
        shown.append(
            ("placement", f"{facts['distance']:,} hops, at least {facts['least_distance']:,} on any array")
        )
    if "front" in facts:
        shown = [
            ("front", f"{len(facts['front']):,} plans, {facts['executed']:,} of them executed"),
            ("PEs", f"{machine.pes:,} ({array})"),
        ]
    return shown


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and one line per layer, or per plan of a front."""
    facts = report["facts"]
    if "front" in facts:
        points = facts["front"]
        step = -(-len(points) // MOST_POINTS)
        chosen = [points[place] for place in sorted({*range(0, len(points), step), len(points) - 1})]
        header: tuple[str, ...] = ("PEs", "frames/s", "interval", "latency")
        return [header, *(_point(problem, point) for point in chosen)]
    header = ("layer", "PEs", "split", "units", "work", "pace", "start", "busy", "load", "buffer")
    return [header, *(_line(stage) for stage in facts["stages"])]


def _point(problem: Problem, point: dict[str, int]) -> tuple[str, ...]:
    rate = problem.machine.frames_per_second(point["interval"])
    return f"{point['pes']:,}", f"{rate:,.1f}", f"{point['interval']:,}", f"{point['latency']:,}"


def _line(stage: dict[str, Any]) -> tuple[str, ...]:
    return (
        stage["name"],
        f"{stage['pes']:,}",
        " x ".join(map(str, stage["split"])),
        " x ".join(map(str, stage["units"])),
        f"{stage['work']:,}",
        f"{stage['pace']:,}",
        f"{stage['start']:,}",
        f"{stage['busy']:,}",
        f"{stage['load']:,}",
        f"{stage['buffer']:,}",
    )
