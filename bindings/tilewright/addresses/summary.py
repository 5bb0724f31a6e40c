"""What people are shown of a solved addresses problem."""

from __future__ import annotations

from tilewright.addresses.measures import AddressesMeasures
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.core.overview import Decisions
from tilewright.core.room import Rows

MOST_LINES = 40
"""Most buffers that are listed."""


def rows(problem: Problem, measures: AddressesMeasures) -> Rows:
    """Return labelled lines about a plan's totals."""
    height, live, memory = measures.memory_addresses, measures.live_addresses, problem.memory
    shown = [
        ("memory", f"{height:,} addresses for {measures.buffers:,} buffers"),
        ("live", f"{live:,} addresses at most at one time; {height - live:,} lie between them"),
    ]
    if memory.capacity is not None:
        left = memory.capacity - height
        shown.append(("capacity", f"{memory.capacity:,} addresses, {left:,} above the plan"))
    if memory.alignment > 1:
        shown.append(("alignment", f"{memory.alignment:,} addresses"))
    return shown


def decisions(problem: Problem, plan: Plan, measures: AddressesMeasures | None) -> Decisions:
    """Return the addresses of each buffer, the lowest first."""
    order = sorted(range(len(plan.offsets)), key=lambda one: (plan.offsets[one], problem.buffers[one].lower))
    lines: list[tuple[str, ...]] = []
    for one in order[:MOST_LINES]:
        buffer, begin = problem.buffers[one], plan.offsets[one]
        last = begin + buffer.size - 1
        lines.append(
            (
                buffer.id,
                f"{buffer.lower:,}",
                f"{buffer.upper:,}",
                f"{buffer.size:,}",
                f"{begin:,}",
                f"{last:,}",
            )
        )
    left = len(order) - len(lines)
    note = f"{left:,} more buffers are left out" if left > 0 else ""
    header = ("buffer", "from", "until", "size", "first address", "last")
    return Decisions(header, lines, (False, True, True, True, True, True), note)
