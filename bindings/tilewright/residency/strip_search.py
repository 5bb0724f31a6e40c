"""The best way to execute a step in strips for a memory of some size, without looking at all of them.

Ways are sorted by what they move again at least, which is known without counting line buffers.
"""

from __future__ import annotations

from collections.abc import Callable

from tilewright.residency.costs import Shape
from tilewright.residency.passes import Group
from tilewright.residency.staircase import Stair, all_kept, least_active, least_loaded, reread, some_kept
from tilewright.residency.strips import least_lines, widths


def best_in_strips(
    group: Group, whole: frozenset[int], room: int, worst: int, fitting: Callable[[Shape], bool]
) -> Stair | None:
    """Return the way that moves least again, or None if there is none.

    Parameters
    ----------
    whole
        Tensors of the step that are on chip as a whole.
    room, worst
        Elements that buffers may take, and that may be moved again.
    fitting
        Whether a shape may be taken.
    """
    weights = sum(operation.weights for operation in group.operations)
    blocks = sum(operation.block(1) for operation in group.operations)
    found = list[tuple[int, int, int]]()  # what is moved again at least, columns, and rows or 0 for all kept
    for columns in widths(group):
        again = reread(group, whole, columns)
        left = room - least_lines(group, whole, columns)
        if again > worst or blocks > left:
            continue
        if weights <= left:
            found.append((again, -columns, 0))
        if not weights or again == worst:
            continue
        loaded = least_loaded(group, left)
        for rows in range(1, group.graph.tensors[group.output].shape[1] + 1):
            total = again + (least_active(group, columns, rows) - 1) * loaded
            if total <= worst:
                found.append((total, -columns, rows))
    best: Stair | None = None
    too_many: dict[int, list[int]] = {}
    for again, negative, rows in sorted(found):
        columns = -negative
        if again > worst:
            break
        if rows and any(rows % fewer == 0 for fewer in too_many.get(columns, ())):
            continue  # multiples take more
        ways = (
            some_kept(group, whole, room, worst, columns, rows) if rows else [all_kept(group, whole, columns)]
        )
        if ways is None:
            too_many.setdefault(columns, []).append(rows)
            continue
        for stair in ways:
            if stair.memory <= room and stair.again <= worst and fitting(stair.shape):
                best, worst = stair, stair.again - 1
    return best
