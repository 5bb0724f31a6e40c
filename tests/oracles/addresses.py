"""Addresses: every order in which buffers are put on top of those before them (docs/addresses.md)."""

from __future__ import annotations

from typing import Any

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]

MOST_BUFFERS = 9


def _together(one: Json, other: Json) -> bool:
    """Whether two buffers live at some time together."""
    return any(other["lower"] <= time < other["upper"] for time in range(one["lower"], one["upper"]))


def best(problem: Json) -> int | None:
    """Return the least height, None if that is above the capacity.

    A plan stays one if its buffers, from the lowest on, are put as low as those before them allow.
    """
    buffers, memory = problem["buffers"], problem["memory"]
    if len(buffers) > MOST_BUFFERS:
        raise TooLarge
    count, unit = len(buffers), memory["alignment"]
    near = [[b for b in range(count) if b != a and _together(buffers[a], buffers[b])] for a in range(count)]
    least = unit * count + sum(buffer["size"] + unit for buffer in buffers)

    def put(ends: dict[int, int], height: int) -> None:
        nonlocal least
        if height >= least:
            return
        if len(ends) == count:
            least = height
        for one in range(count):
            if one not in ends:
                top = max((ends[other] for other in near[one] if other in ends), default=0)
                end = -(-top // unit) * unit + buffers[one]["size"]
                put({**ends, one: end}, max(height, end))

    put({}, 0)
    return None if memory["capacity"] is not None and least > memory["capacity"] else least


def cost(problem: Json, plan: Json) -> int:
    """Return the height of a plan."""
    buffers, memory, offsets = problem["buffers"], problem["memory"], plan["offsets"]
    if len(offsets) != len(buffers) or any(offset < 0 or offset % memory["alignment"] for offset in offsets):
        raise Refused("number or alignment")
    taken: dict[int, set[int]] = {}
    for buffer, offset in zip(buffers, offsets, strict=True):
        cells = set(range(offset, offset + buffer["size"]))
        for time in range(buffer["lower"], buffer["upper"]):
            if taken.setdefault(time, set()) & cells:
                raise Refused(f"two buffers at time {time}")
            taken[time] |= cells
    height = 1 + max(cell for cells in taken.values() for cell in cells)
    if memory["capacity"] is not None and height > memory["capacity"]:
        raise Refused("capacity")
    return height


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False
