"""The arenas of a plan in C: an array for each memory that something lies in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tilewright.codegen.c_text import identifier
from tilewright.residency import Plan, Problem
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import taken_of_each
from tilewright.residency.machine import Region

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
    regions, names = problem.machine.regions, set[str]()
    tops = taken_of_each(problem, plan, decode_plan(problem, plan))
    used = [(region, top) for region, top in zip(regions, tops, strict=True) if top]
    width = problem.machine.element_bytes
    if len(used) < 2:
        region, top = used[0] if used else (regions[0], 0)
        return [Arena("arena", top * width, region)]
    found = []
    for region, top in used:
        name = identifier(region.name.lower(), names, "arena")
        names.add(name)
        found.append(Arena(name, top * width, region))
    return found


def place(arenas: Sequence[Arena], address: int) -> str:
    """Return where an element lies, in C."""
    for arena in arenas:
        if arena.region.begin <= address < arena.region.end:
            return f"{arena.name} + {address - arena.region.begin}"
    return f"{arenas[0].name} + {address - arenas[0].region.begin}"  # of nothing, which lies anywhere
