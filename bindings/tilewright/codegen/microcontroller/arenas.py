"""The arenas of a plan in C: an array for each memory that something lies in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.codegen.c_text import identifier
from tilewright.residency import Plan, Problem
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.machine import Region, tops_of
from tilewright.residency.placement import placed_items

GAP = 4096
"""Between two arenas in the memory of an emulated board, and a part of their first addresses."""


class Arena(NamedTuple):
    """An array of values.

    Attributes
    ----------
    name
        In C.
    bytes
        Exactly as planned.
    region
        The memory that it is in.
    """

    name: str
    bytes: int
    region: Region

    @property
    def symbol(self) -> str:
        """Return its name as a macro, and as a region of linker scripts."""
        return self.name.upper()

    @property
    def section(self) -> str:
        """Return the section that it is in."""
        return f".bss.network_{self.name}"


def arenas_of(problem: Problem, plan: Plan) -> list[Arena]:
    """Return an arena for each memory that a valid plan uses."""
    regions, taken = problem.machine.regions, set[str]()
    items = placed_items(problem.groups, [step.choice for step in decode_plan(problem, plan)])
    spans = [(plan.steps[item.names[0][0]].addresses[item.names[0][1]], item.size) for item in items]
    used = [(region, top) for region, top in zip(regions, tops_of(regions, spans), strict=True) if top]
    width = problem.machine.element_bytes
    if len(used) < 2:
        region, top = used[0] if used else (regions[0], 0)
        return [Arena("arena", top * width, region)]
    found = []
    for region, top in used:
        name = identifier(region.name.lower(), taken, "arena")
        taken.add(name)
        found.append(Arena(name, top * width, region))
    return found


def place(arenas: Sequence[Arena], address: int) -> str:
    """Return where an element lies, in C."""
    for arena in arenas:
        if arena.region.begin <= address < arena.region.end:
            return f"{arena.name} + {address - arena.region.begin}"
    return f"{arenas[0].name} + {address - arenas[0].region.begin}"  # of nothing, which lies anywhere
