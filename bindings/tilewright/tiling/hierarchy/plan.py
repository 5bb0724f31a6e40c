"""The plan of a layer on a hierarchy: a loop nest, cut into the levels of the machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilewright.spec.errors import InputError
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS

MOST = 2**31
"""Steps stay below this."""

LETTERS = {name: letter for letter, name in LOOPS.items()}


@dataclass(frozen=True)
class HierarchyPlan:
    """The loops of each memory, outermost first, and those that are unrolled over each axis of an array.

    Attributes
    ----------
    nest : for each node of the machine, for each of its loops, (letter, step)
        The loop goes through the block of the node outside in steps of that size: what is further in works on
        a block of that size. A loop that a node does not name takes the block as it is.
    kept
        What levels hold of the operands of which a plan decides that, and the order of uneven tiles.
    """

    nest: tuple[tuple[tuple[str, int], ...], ...]
    kept: Kept = ()

    @property
    def loops(self) -> tuple[tuple[tuple[str, int], ...], ...]:
        """The nest with names instead of letters: for each node its loops, as ``("rows", 4)``."""
        return tuple(tuple((LOOPS[letter], step) for letter, step in level) for level in self.nest)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        nest = [[list(loop) for loop in level] for level in self.loops]
        kept = {"kept": {name: list(operands) for name, operands in self.kept}} if self.kept else {}
        return {"nest": nest, **kept}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> HierarchyPlan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if (
            not isinstance(data, dict)
            or set(data) - {"kept"} != {"nest"}
            or not isinstance(data["nest"], list)
        ):
            raise InputError(
                "plan", data, "must be an object with nest, a list of loops for each memory and axis", file
            )
        levels = []
        for level in data["nest"]:
            if not isinstance(level, list) or not all(map(_is_loop, level)):
                limit = "must be a list of pairs of a loop's name and its step"
                raise InputError("plan.nest", level, limit, file)
            levels.append(tuple((LETTERS[name], step) for name, step in level))
        return cls(tuple(levels), _kept(data.get("kept", {}), file))


def _is_loop(pair: Any) -> bool:
    if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str):
        return False
    return pair[0] in LETTERS and type(pair[1]) is int and 1 <= pair[1] < MOST


def _kept(data: Any, file: str | None) -> Kept:
    """Read what levels hold by a plan's decision."""
    if not isinstance(data, dict) or not all(map(_are_operands, data.values())):
        limit = f"must be an object that gives for levels' names a list of {', '.join(OPERANDS)}"
        raise InputError("plan.kept", data, limit, file)
    return tuple((name, tuple(kept)) for name, kept in data.items())


def _are_operands(data: Any) -> bool:
    return isinstance(data, list) and all(isinstance(each, str) and each in OPERANDS for each in data)
