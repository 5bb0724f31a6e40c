"""The machine as a picture, outermost level first: its memories, its loops, and what crosses boundaries."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tilewright.plotting import (
    GREY,
    INK,
    OPERAND_COLOURS,
    PALE,
    shortened_to_fit,
    with_prefix,
)
from tilewright.simulator.levels import INSIDE, OUTPUT, OUTSIDE, PARTIAL, READ, Counts, Tally
from tilewright.tiling.hierarchy.cost import KINDS, cost_of
from tilewright.tiling.hierarchy.level import Level
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.summary import capacity
from tilewright.tiling.measures import HierarchyLayer

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, GAP = 0.165, 0.36
"""Inches from line to line of text, and between two levels, where a boundary's traffic stands."""
NAME, SPACE, LOOP, LANES, LANE = 0.12, 2.15, 5.3, 8.85, 1.18
"""Inches from the left edge to each column, and from one operand's lane to the next."""


class Row(NamedTuple):
    """A level in the picture.

    Attributes
    ----------
    top, height
        Inches from the upper edge of the picture, and of the row.
    """

    top: float
    height: float

    @property
    def middle(self) -> float:
        """Inches from the upper edge to the middle."""
        return self.top + self.height / 2

    @property
    def bottom(self) -> float:
        """Inches from the upper edge to the lower edge."""
        return self.top + self.height


class MachinePicture:
    """The drawing of a valid nest.

    Attributes
    ----------
    rows
        One for each node, and one for the multipliers.
    height
        Inches that all of them take.
    """

    def __init__(self, nest: Nest, measures: HierarchyLayer) -> None:
        self.nest, self.measures, self.machine = nest, measures, nest.machine
        self.rows: list[Row] = []
        top = 0.3
        for i, node in enumerate(self.machine.nodes):
            lines = max(1, len(nest.plan.nest[i]))
            if node.axis is None:
                level = self.machine.levels[node.level]
                bars = 2 if isinstance(level.capacity_bytes, int | None) else len(node.holds)
                lines = max(lines, bars, len(self._beside(level)) + 1)
            self.rows.append(Row(top, 0.14 + LINE * lines))
            # Axes of one array, and what follows an array, lie close together.
            top = self.rows[-1].bottom + (GAP if self._gap_below(i) else 0.07)
        self.rows.append(Row(top, 0.14 + 2 * LINE))
        self.height = self.rows[-1].bottom + 0.05

    def _gap_below(self, node: int) -> bool:
        """Whether a boundary's numbers stand below a node: where it or the next one is a memory."""
        nodes = self.machine.nodes
        return node + 1 == len(nodes) or nodes[node].axis is None or nodes[node + 1].axis is None

    def draw(self, axes: Axes, width: float) -> None:
        """Draw on axes as many inches wide as `width` and as high as `height`."""
        axes.set_xlim(0, width)
        axes.set_ylim(self.height, 0)
        axes.set_axis_off()
        for x, words in ((SPACE, "used of the capacity of one instance"), (LOOP, "loops, outermost first")):
            axes.text(x, 0.12, words, fontsize=8, color=GREY, va="center")
        for i, row in enumerate(self.rows):
            memory = i == len(self.rows) - 1 or self.machine.nodes[i].axis is None
            self._box(axes, row, width, "#F2F2F2" if memory else "#FAFAFA")
            if i == len(self.machine.nodes):
                self._multipliers(axes, row)
            elif memory:
                self._memory(axes, i, row)
            else:
                self._array(axes, i, row)
        self._lanes(axes)

    def _box(self, axes: Axes, row: Row, width: float, colour: str) -> None:
        from matplotlib.patches import Rectangle

        box = Rectangle((0, row.top), width, row.height, facecolor=colour, edgecolor=PALE, linewidth=0.6)
        axes.add_patch(box)

    def _title(self, axes: Axes, row: Row, name: str, below: list[str]) -> None:
        """Write a level's name, and small lines below it."""
        lines = 1 + len(below)
        y = row.middle - (lines - 1) * LINE / 2
        name = shortened_to_fit(name, SPACE - NAME - 0.12, 11)
        axes.text(NAME, y, name, fontsize=9, fontweight="bold", color=INK, va="center")
        for number, words in enumerate(below, 1):
            words = shortened_to_fit(words, SPACE - NAME - 0.12, 7.5)
            axes.text(NAME, y + number * LINE, words, fontsize=7.5, color=GREY, va="center")

    def _beside(self, level: Level) -> list[str]:
        """Return the small lines below a memory's name."""
        lines = []
        twice = "every tile twice" if level.double_buffering else ""
        halo = "halos stay" if level.halo else ""
        if twice or halo:
            lines.append(", ".join(filter(None, (twice, halo))))
        kept = (self.measures.kept or {}).get(level.name)
        if kept is not None and not (level.uneven and kept):  # whose tiles are drawn one by one
            lines.append(f"chosen: {', '.join(kept) or 'nothing'}")
        return lines

    def _memory(self, axes: Axes, node: int, row: Row) -> None:
        """Draw a memory: its name, how full it is, and its loops."""
        level = self.machine.levels[self.machine.nodes[node].level]
        self._title(axes, row, self.machine.nodes[node].name, self._beside(level))
        self._loops(axes, node, row)
        if level.capacity_bytes is None:
            axes.text(SPACE, row.middle, "holds everything", fontsize=8, color=GREY, va="center")
            return
        sizes = self.measures.held_bytes[level.name]
        held = {name: sizes[name] for name in self.machine.nodes[node].holds}
        if isinstance(level.capacity_bytes, int):
            parts = [(size, OPERAND_COLOURS[name]) for name, size in held.items()]
            lines = [_used(sum(held.values()), level.capacity_bytes)]
            if level.capacity_bytes:
                lines.append(f"{100 * sum(held.values()) / level.capacity_bytes:.3g} % full")
            self._bar(axes, row.middle, 0.2, parts, level.capacity_bytes, lines)
            return
        for number, (name, size) in enumerate(held.items()):
            y = row.middle + (number - (len(held) - 1) / 2) * LINE
            room = capacity(level, name)
            self._bar(axes, y, 0.11, [(size, OPERAND_COLOURS[name])], room, [_used(size, room)])

    def _bar(
        self,
        axes: Axes,
        y: float,
        height: float,
        parts: list[tuple[float, str]],
        room: float,
        lines: list[str],
        wide: float = 1.45,
    ) -> None:
        """Draw how much of some room is used, with words to the right of it."""
        from matplotlib.patches import Rectangle

        scale = wide / max(room, 1)
        axes.add_patch(Rectangle((SPACE, y - height / 2), wide, height, facecolor="white", edgecolor="none"))
        left = SPACE
        for size, colour in parts:
            axes.barh(y, size * scale, left=left, height=height, color=colour, linewidth=0)
            left += size * scale
        frame = Rectangle(
            (SPACE, y - height / 2), wide, height, facecolor="none", edgecolor=GREY, linewidth=0.7
        )
        axes.add_patch(frame)
        for number, words in enumerate(lines):
            at = y + (number - (len(lines) - 1) / 2) * LINE
            axes.text(SPACE + wide + 0.1, at, words, fontsize=8, color=INK, va="center")

    def _array(self, axes: Axes, node: int, row: Row) -> None:
        """Draw an axis of an array: how many of its instances are used, and the loops over them."""
        each = self.machine.nodes[node]
        assert each.axis is not None
        self._title(axes, row, each.name, [])
        used = prod(self.measures.nest[node].loops.values())
        self._bar(axes, row.middle, 0.11, [(used, GREY)], each.axis.size, [f"{used:,} of {each.axis.size:,}"])
        self._loops(axes, node, row, unrolled=True)

    def _multipliers(self, axes: Axes, row: Row) -> None:
        """Draw the multipliers, of which those of used PEs can work."""
        each = self.machine.macs_per_cycle
        below = [f"{each:,} MAC{'s' * (each > 1)} per cycle of each PE"]
        self._title(axes, row, "multipliers", below)
        share = self.measures.utilisation
        self._bar(axes, row.middle, 0.2, [(share, GREY)], 1.0, [f"{100 * share:.3g} % busy"])

    def _loops(self, axes: Axes, node: int, row: Row, *, unrolled: bool = False) -> None:
        """Write the loops of a node: how often each runs, and the block that is left."""
        loops = self.nest.plan.nest[node]
        if not loops:
            words = "one instance works" if unrolled else "no loop"
            axes.text(LOOP, row.middle, words, fontsize=8, color=GREY, va="center")
        for number, (letter, step) in enumerate(loops):
            y = row.middle + (number - (len(loops) - 1) / 2) * LINE
            block, trips = self.nest.blocks[node][letter], self.nest.trips(node, letter)
            name = LOOPS[letter].replace("_", " ")
            how = f"{block:,} on {trips:,} instances" if unrolled else f"{block:,} in {trips:,} steps"
            left = LOOP if unrolled else LOOP + 0.09 * number
            words = f"{name}: {how} of {step:,}"
            axes.text(left, y, words, fontsize=8, color=INK, va="center")

    def _lanes(self, axes: Axes) -> None:
        """Draw each operand's way through the machine, with a dot where it is held."""
        tally = cost_of(self.nest).tally
        for number, operand in enumerate(OPERANDS):
            x = LANES + number * LANE
            colour = OPERAND_COLOURS[operand]
            axes.text(x, 0.12, operand, fontsize=8.5, color=colour, va="center", ha="center")
            ends = [*self.machine.holders[operand], len(self.rows) - 1]
            for parent, child in pairwise(ends):
                outer, inner = self.rows[parent], self.rows[child]
                axes.plot([x, x], [outer.middle, inner.middle], color=colour, linewidth=1.8, zorder=3)
                outside = self._outside(tally, operand, parent)
                inside = self._inside(tally, operand, parent, child)
                self._label(axes, x, outer.bottom + GAP / 2, outside)
                if inside != outside:
                    self._label(axes, x, inner.top - GAP / 2, inside)
            axes.plot(
                [x] * len(ends),
                [self.rows[end].middle for end in ends],
                "o",
                color=colour,
                markersize=7,
                zorder=4,
            )

    def _label(self, axes: Axes, x: float, y: float, lines: list[str]) -> None:
        for number, words in enumerate(lines):
            at = y + (number - (len(lines) - 1) / 2) * 0.14
            axes.text(x + 0.07, at, words, fontsize=7.5, color=INK, va="center")

    def _outside(self, tally: Tally, operand: str, parent: int) -> list[str]:
        """Return lines on what a memory gives to what is further in, and gets from there."""
        return self._moved(operand, *tally.every[parent, OUTSIDE])

    def _inside(self, tally: Tally, operand: str, parent: int, child: int) -> list[str]:
        """Return lines on what all instances of the next memory further in, or multipliers, get and give."""
        if child < len(self.machine.nodes):
            given, got = tally.every[child, INSIDE]
            return self._moved(operand, got, given)
        macs, complete = self.nest.layer.macs, 0
        got, given = np.zeros((2, len(KINDS)), np.int64)
        if operand == "output":
            if not self.nest.summed_outside(child):
                complete = prod(self.nest.layer.output_shape)
            got[PARTIAL] = tally.every[parent, OUTSIDE, READ, PARTIAL]
            given[[OUTPUT, PARTIAL]] = complete, macs - complete
        else:
            got[KINDS.index(operand)] = macs
        return self._moved(operand, got, given)

    def _moved(self, operand: str, inwards: Counts, outwards: Counts) -> list[str]:
        """Return lines on the elements of an operand, by what they are, that go in and that come out."""
        kinds = (operand, "partial") if operand == "output" else (operand,)
        lines = []
        for arrow, counts in (("↓", inwards), ("↑", outwards)):
            bits = sum(
                int(counts[KINDS.index(kind)]) * int(getattr(self.machine.bits, kind)) for kind in kinds
            )
            if bits:
                lines.append(f"{arrow} {in_bytes(bits / 8)}")
        return lines


def in_bytes(size: float) -> str:
    """Write a number of bytes with three digits and a prefix: ``1.25 kB``."""
    words = with_prefix(size)
    return f"{words}B" if " " in words else f"{words} B"


def _used(size: float, room: float) -> str:
    return f"{in_bytes(size)} of {in_bytes(room)}"
