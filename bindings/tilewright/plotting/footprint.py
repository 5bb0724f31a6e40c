"""What is on chip at each step, and what moves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.plotting.bars import colour_patches
from tilewright.plotting.style import (
    GREY,
    INK,
    LIMIT_LINE,
    MAX_COLUMNS,
    MAX_TENSORS,
    PALE,
    PURPLE,
    SKY,
    TENSORS,
    VERMILION,
    YELLOW,
    leave_blank,
    style,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tilewright.simulator.report import Report


@style()
def footprint_and_traffic(
    footprint: Axes,
    traffic: Axes,
    report: Report,
    *,
    capacity: int | None = None,
    titles: tuple[str, str] = ("On-chip footprint", "Traffic with DRAM"),
) -> None:
    """Draw what is on chip at each step, and what each step loads and writes back.

    Programs of more than `MAX_COLUMNS` steps are drawn in blocks: the footprint of a block is that of
    its fullest step, its traffic the mean.

    Parameters
    ----------
    footprint, traffic
        Axes to draw on; loads go up, write-backs down.
    capacity
        Size of the memory in elements, where there is one.
    titles
        What the two titles begin with.
    """
    n = len(report.macs)
    if n == 0:
        leave_blank(footprint, titles[0])
        leave_blank(traffic, titles[1])
        return
    blocks = _Blocks.of(report)
    colours = tensor_colours(
        {
            name: int(report.footprint[name].sum() + report.loaded[name].sum() + report.written[name].sum())
            for name in report.footprint
        }
    )
    _draw_footprint(footprint, report, blocks, colours, capacity, titles[0])
    _draw_traffic(traffic, report, blocks, colours, titles[1])
    for axes in (footprint, traffic):
        _step_axis(axes, n)
    if report.violation is not None and report.violation.step:
        _mark_violation(footprint, traffic, report.violation.step, n)


class _Blocks(NamedTuple):
    """Consecutive steps that share a column of a chart.

    Attributes
    ----------
    starts, ends
        First step of each block, from 0, and the first one after it.
    edges
        Where the columns begin and end, on an axis of steps from 1.
    """

    starts: NDArray[np.intp]
    ends: NDArray[np.intp]
    edges: NDArray[np.float64]

    @classmethod
    def of(cls, report: Report) -> _Blocks:
        n = len(report.macs)
        starts = np.arange(0, n, -(-n // MAX_COLUMNS))
        return cls(starts, np.append(starts[1:], n), np.append(starts, n) + 0.5)

    @property
    def length(self) -> int:
        """Steps of all blocks but the last, which may be shorter."""
        return int(self.ends[0] - self.starts[0])

    def fullest(self, totals: NDArray[np.int64]) -> NDArray[np.intp]:
        """Return the step of each block at which most is on chip."""
        return np.array([a + int(totals[a:b].argmax()) for a, b in zip(self.starts, self.ends, strict=True)])

    def means(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean of each block."""
        means: NDArray[np.float64] = np.add.reduceat(counts, self.starts) / (self.ends - self.starts)
        return means


def _draw_footprint(
    axes: Axes,
    report: Report,
    blocks: _Blocks,
    colours: Mapping[str, str],
    capacity: int | None,
    title: str,
) -> None:
    """Draw what is on chip at the fullest step of each block."""
    totals = sum(report.footprint.values(), np.zeros(len(report.macs), dtype=np.int64))
    fullest = blocks.fullest(totals)
    held = {name: counts[fullest] for name, counts in report.footprint.items()}
    _stack_columns(axes, blocks.edges, held, colours, 1)
    peak = int(totals.max())
    if peak:
        axes.set_title(f"{title}: peak {peak:,} elements, step {int(totals.argmax()) + 1:,}")
    else:
        axes.set_title(f"{title}: no step was finished")
    axes.set_ylabel("elements on chip")
    axes.set_ylim(0, (peak or capacity or 1) * 1.12)
    if capacity is not None:
        _capacity_line(axes, capacity, peak)
    _legend(axes, colours)


def _draw_traffic(
    axes: Axes, report: Report, blocks: _Blocks, colours: Mapping[str, str], title: str
) -> None:
    """Draw what a step of each block loads, upwards, and writes back, downwards."""
    lengths = []
    for sign, table in ((1, report.loaded), (-1, report.written)):
        parts = {name: blocks.means(counts) for name, counts in table.items()}
        _stack_columns(axes, blocks.edges, parts, colours, sign)
        lengths.append(sum(parts.values(), np.zeros(len(blocks.starts))))
    loads, writes = (
        sum(report.total(counts) for counts in table.values()) for table in (report.loaded, report.written)
    )
    axes.set_title(f"{title}: {loads:,} elements loaded, {writes:,} written back")
    mean = "" if blocks.length == 1 else ", mean"
    axes.set_ylabel(f"elements per step{mean}\nwritten ↓   ↑ loaded")
    axes.axhline(0, color=INK, linewidth=0.7)
    _cut_outlier(axes, lengths[0], lengths[1], blocks.starts)
    note = "" if blocks.length == 1 else f", drawn in blocks of {blocks.length}"
    n = len(report.macs)
    broken = report.violation is not None and report.violation.step
    if report.macs[-1] == 0 and n > 1 and not broken:
        note += f"; step {n:,} only empties the memory"
    axes.set_xlabel(f"step{note}")


def _mark_violation(footprint: Axes, traffic: Axes, step: int, n: int) -> None:
    """Draw a line at the step that breaks a rule, the last of n or one before it."""
    for axes in (footprint, traffic):
        axes.axvline(step, color=VERMILION, linewidth=1.2, linestyle=(0, (4, 2)))
    low, high = traffic.get_ylim()
    traffic.set_ylim(low, high * 1.12)
    side = "right" if step > n / 2 else "left"
    traffic.annotate(
        "violation",
        (step, 1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        xytext=(-4 if side == "right" else 4, -2),
        ha=side,
        va="top",
        color=VERMILION,
        fontsize=8,
    )


def tensor_colours(weight: Mapping[str, int]) -> dict[str, str]:
    """Choose a colour for each tensor that matters; the rest, ``others``, share a grey."""
    names = [name for name, total in weight.items() if total]
    if len(names) > MAX_TENSORS:
        kept = set(sorted(names, key=lambda name: -weight[name])[: MAX_TENSORS - 1])
        names = [name for name in names if name in kept] + ["others"]
    rest = iter([SKY, PURPLE, VERMILION, YELLOW, INK, *(c for n, c in TENSORS.items() if n not in names)])
    # Kernels, which mostly stay, lie at the bottom of the stack.
    names.sort(key=lambda name: name != "kernels")
    return {name: GREY if name == "others" else TENSORS.get(name) or next(rest) for name in names}


def _stack_columns(
    axes: Axes, edges: NDArray[Any], parts: Mapping[str, NDArray[Any]], colours: Mapping[str, str], sign: int
) -> None:
    """Stack one column per block, upwards or downwards."""
    base = np.zeros(len(edges) - 1)
    for name, colour in colours.items():
        if name == "others":
            members = [counts for other, counts in parts.items() if other not in colours]
            values = sum(members, np.zeros(len(base)))
        else:
            values = parts[name]
        if not values.any():
            continue
        top = base + sign * values
        if len(base) <= 60:
            axes.bar(
                (edges[:-1] + edges[1:]) / 2,
                sign * values,
                width=0.86 * np.diff(edges),
                bottom=base,
                color=colour,
                linewidth=0,
            )
        else:
            axes.stairs(top, edges, baseline=base, fill=True, color=colour, linewidth=0)
        base = top


def _capacity_line(axes: Axes, capacity: int, peak: int) -> None:
    """Draw the memory's size, or say it where the line would press the rest flat."""
    if peak and capacity > 3 * peak:
        axes.text(
            0.995,
            0.97,
            f"capacity {capacity:,}, far above",
            transform=axes.transAxes,
            ha="right",
            va="top",
            fontsize=8,
            color=INK,
        )
        return
    axes.set_ylim(0, max(capacity, peak) * 1.16)
    axes.axhline(capacity, **LIMIT_LINE)
    axes.annotate(
        f"capacity {capacity:,}",
        (1, capacity),
        xycoords=("axes fraction", "data"),
        xytext=(-2, 2),
        textcoords="offset points",
        ha="right",
        va="bottom",
        fontsize=8,
        color=INK,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.8},
        zorder=4,
    )


def _cut_outlier(axes: Axes, up: NDArray[Any], down: NDArray[Any], starts: NDArray[Any]) -> None:
    """Set the traffic's limits; a single load that dwarfs all others is cut and told in words."""
    low = -float(down.max()) * 1.08
    high = float(up.max())
    second = float(np.partition(up, -2)[-2]) if len(up) > 2 else high
    if second and high > 4 * second:
        where = int(up.argmax())
        axes.annotate(
            f"↑ {up[where]:,.0f} loaded at step {int(starts[where]) + 1:,} (cut off)",
            (starts[where] + 1, 1),
            xycoords=("data", "axes fraction"),
            textcoords="offset points",
            va="top",
            xytext=(6, -1),
            ha="left" if where < len(up) / 2 else "right",
            fontsize=8,
            color=INK,
        )
        high = second * 1.35
    axes.set_ylim(low or -0.04 * max(high, 1), max(high, 1) * 1.08)


def _step_axis(axes: Axes, n: int) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, StrMethodFormatter

    axes.set_xlim(0.5 - 0.01 * n, n + 0.5 + 0.01 * n)
    ticks = [int(v) for v in MaxNLocator(nbins=9, integer=True).tick_values(1, n) if 1 <= v <= n]
    axes.xaxis.set_major_locator(FixedLocator([1] * (not ticks or ticks[0] > 1) + ticks))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{abs(y):,.0f}"))
    axes.grid(axis="y", color=PALE, linewidth=0.6)


def _legend(axes: Axes, colours: Mapping[str, str]) -> None:
    """Name the tensors: beside the title while they are few, else beside the axes."""
    handles = colour_patches(colours.items())
    if len(handles) <= 3:
        axes.legend(handles=handles, loc="lower right", bbox_to_anchor=(1, 1.02), ncols=len(handles))
    else:
        axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.02, 1))
