"""What people are shown of a solved residency problem: rows of totals and a line per step."""

from __future__ import annotations

from typing import Any

from tilewright.plotting import shortened
from tilewright.residency.plan import MAP, kind_of
from tilewright.residency.problem import Problem

Rows = list[tuple[str, str]]

LONGEST = 40
"""Most characters of the names of a step."""


def rows(problem: Problem, report: dict[str, Any]) -> Rows:
    """Return labelled lines about a report's totals."""
    facts = report["facts"]
    traffic, compulsory = facts["traffic"], facts["compulsory"]
    more = (
        f"; {traffic / compulsory - 1:.1%} more are moved" if traffic > compulsory else ", no more are moved"
    )
    operations = sum(len(step["operations"]) for step in facts["steps"])
    together = sum(len(step["operations"]) > 1 for step in facts["steps"])
    timed = []
    if problem.before:
        told = [
            f"at most {100 * share:g} % above the least {name}" if share else f"with the least {name}"
            for name, share in problem.before
        ]
        timed.append(("among plans", ", then ".join(told)))
    if "cycles" in facts:
        cycles, least = facts["cycles"], facts["compulsory_cycles"]
        doubled = sum(step.get("double_buffering", False) for step in facts["steps"])
        beside = f", {doubled} steps with second buffers" if doubled else ""
        timed += [
            ("cycles", f"{cycles:,}, at least {least:,} in any case{beside}"),
            ("energy", f"{facts['energy'] / 1e9:,.3f} µJ, prices {problem.machine.prices.source}"),
        ]
    staying = []
    if "staying" in facts:
        sizes = facts["staying"].values()
        staying.append(("weights", f"of {len(sizes)} operations stay: {sum(sizes):,} bytes, loaded once"))
    again = facts.get("again", ())
    twice = [("twice", f"{', '.join(again)}: weights are loaded again")] if again else []
    return [
        *timed,
        (
            "DRAM",
            f"{traffic:,} bytes, {facts['loaded_bytes']:,} loaded and {facts['saved_bytes']:,} saved",
        ),
        ("compulsory", f"{compulsory:,} bytes{more}"),
        ("one by one", f"{facts['layer_by_layer']:,} bytes with all maps in DRAM"),
        *staying,
        *twice,
        ("memory", f"{facts['memory']:,} of {problem.machine.memory_bytes:,} bytes"),
        ("steps", f"{len(facts['steps'])} of {operations} operations, {together} depth-first"),
    ]


def outer_loop(step: dict[str, Any]) -> str:
    """Return what is told of a step's order: strips of columns, too."""
    columns, order = step.get("columns"), str(step["order"])
    return f"{order}, strips of {columns}" if columns is not None and order == "pixels" else order


def table(problem: Problem, report: dict[str, Any]) -> list[tuple[str, ...]]:
    """Return a header and a line per step."""
    header: tuple[str, ...] = (
        "step",
        "operations",
        "outer loop",
        "passes",
        "pixels",
        "loaded",
        "saved",
        "on chip",
        "whole maps",
    )
    timed = "cycles" in report["facts"]
    if timed:
        header = (*header[:7], "cycles", "buffers", *header[7:])
    lines: list[tuple[str, ...]] = [header]
    for number, step in enumerate(report["facts"]["steps"], 1):
        whole = [key for key in step["on_chip"] if kind_of(key) == MAP]
        spent: tuple[str, ...] = ()
        if timed:
            spent = f"{step['cycles']:,}", "twice" if step.get("double_buffering") else "once"
        lines.append(
            (
                str(number),
                shortened("+".join(step["operations"]), LONGEST),
                outer_loop(step),
                f"{step['passes']:,}",
                f"{step['pixels']:,}",
                f"{step['loaded_bytes']:,}",
                f"{step['saved_bytes']:,}",
                *spent,
                f"{step['memory']:,}",
                shortened(", ".join(whole), LONGEST) if whole else "",
            )
        )
    return lines
