"""Figures 7.1 to 7.4 and 7.6 to 7.9, drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewright import plotting
from tilewright.papers.idsp.cycle_parts import PARTS
from tilewright.papers.idsp.drawing import short_number, spread
from tilewright.papers.idsp.setting import machine
from tilewright.plotting import BLUE, GREY, INK, ORANGE, PALE, PURPLE, SKY, VERMILION

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.papers.idsp.mapped_layer import LayerMapping

Networks = Mapping[str, Sequence["LayerMapping"]]
"""The layers of each network, by the network's title."""

Amounts = Callable[["LayerMapping"], Sequence[float]]

WIDTH, ROW = 5.0, 0.34
"""Inches of a panel, and of a layer's bars in it."""

TRANSFERS = {
    "model": SKY,
    "redundant": ORANGE,
    "spilling": VERMILION,
    "unaligned": PURPLE,
    "other": GREY,
}
CYCLES = {"computing": PARTS["compute"][1], "DMA set-up": PARTS["setup"][1], "bus": SKY}
ENERGY = {"core": PARTS["compute"][1], "DMA set-up": PARTS["setup"][1], "local": ORANGE, "external": BLUE}
CONSIDERED = {"manual mapping": SKY, "most efficient schedule": BLUE}
MODELLED = {"model": PALE, "manual mapping": BLUE}


def draw_mapping(networks: Networks, folder: Path) -> list[Path]:
    """Draw all of them into a folder, and return the files."""
    lenet, alexnet = ({title: layers} for title, layers in networks.items())
    paths = {number: folder / f"idsp-figure7.{number}.png" for number in (1, 2, 3, 4, 6, 7, 8, 9)}
    panels = [*_panels(lenet, "cycles", _cycles), *_panels(lenet, "local vector transfers", _transfers)]
    _draw_bars(panels, MODELLED, "over the model's", paths[1])
    _draw_stacks(lenet, TRANSFERS, _local_parts, "share of the mapping's vector transfers", paths[2])
    _draw_bars(_panels(alexnet, "cycles", _cycles), MODELLED, "over the model's", paths[3])
    _draw_stacks(
        alexnet,
        TRANSFERS,
        _local_parts,
        "share of the mapping's vector transfers; conv1's other is negative, back to 100%",
        paths[4],
    )
    _draw_stacks(
        networks,
        CYCLES,
        lambda one: (one.compute, one.setup, one.bus),
        "share of all cycles; core and bus work at the same time",
        paths[6],
    )
    _draw_bars(_panels(networks, "", _efficiencies), CONSIDERED, "memory efficiency, Ops/byte", paths[7])
    _draw_roofline(networks, paths[8])
    _draw_stacks(networks, ENERGY, _energy_parts, "share of the layer's energy", paths[9])
    return list(paths.values())


def _cycles(one: LayerMapping) -> tuple[float, float]:
    return 1, one.compute / one.least_compute


def _transfers(one: LayerMapping) -> tuple[float, float]:
    return 1, one.vectors[0] / one.vectors[1]


def _efficiencies(one: LayerMapping) -> tuple[float, float]:
    return one.ops_per_byte, one.model.ops_per_byte


def _local_parts(one: LayerMapping) -> tuple[float, ...]:
    return (
        one.vectors[1],
        *(one.additional[part] for part in ("redundant", "spilling", "unaligned", "other")),
    )


def _energy_parts(one: LayerMapping) -> tuple[float, ...]:
    return one.energy.compute, one.energy.dma, one.energy.local, one.energy.external


Panel = tuple[str, Sequence["LayerMapping"], Amounts]


def _panels(networks: Networks, what: str, amounts: Amounts) -> list[Panel]:
    return [(f"{title}: {what}" if what else title, layers, amounts) for title, layers in networks.items()]


@plotting.style()
def _draw_bars(panels: Sequence[Panel], colours: Mapping[str, str], label: str, path: Path) -> None:
    """Draw a panel for each network or quantity: two bars per layer, one below the other."""
    figure, all_axes = _layer_axes([(title, layers) for title, layers, _ in panels], colours)
    for axes, (_, layers, amounts) in zip(all_axes, panels, strict=True):
        pairs = [amounts(one) for one in layers]
        for number, colour in enumerate(colours.values()):
            places = [place + 0.4 * number - 0.2 for place in range(len(layers))]
            axes.barh(places, [pair[number] for pair in pairs], height=0.38, color=colour, linewidth=0)
            for place, pair in zip(places, pairs, strict=True):
                if number or colours is CONSIDERED:
                    axes.text(
                        pair[number],
                        place,
                        f" {pair[number]:.3g}",
                        va="center_baseline",
                        fontsize=8,
                        color=INK,
                    )
        axes.set_xlim(0, 1.12 * max(max(pair) for pair in pairs))
        axes.set_xlabel(label)
        axes.grid(axis="x", color=PALE, linewidth=0.6)
    plotting.save(figure, path)


@plotting.style()
def _draw_stacks(
    networks: Networks, colours: Mapping[str, str], amounts: Amounts, label: str, path: Path
) -> None:
    """Draw a panel for each network: what a quantity of each layer consists of, in shares."""
    from matplotlib.ticker import FuncFormatter

    figure, all_axes = _layer_axes(list(networks.items()), colours)
    for axes, layers in zip(all_axes, networks.values(), strict=True):
        parts = [amounts(one) for one in layers]
        shares = np.array([[amount / sum(row) for amount in row] for row in parts])
        # A negative part goes back from where the bar ends.
        plotting.stack_bars(
            axes, np.arange(len(layers)), zip(shares.T, colours.values(), strict=True), height=0.7
        )
        for place, row in enumerate(shares):
            for share, end, colour in zip(row, row.cumsum(), colours.values(), strict=True):
                if share > 0.07:
                    axes.text(
                        end - share / 2, place, f"{share:.0%}", ha="center", va="center_baseline", fontsize=8,
                        color=plotting.text_colour(colour),
                    )  # fmt: skip
        axes.set_xlim(0, max(1, float(shares.cumsum(axis=1).max())))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.0%}"))
    all_axes[0].set_xlabel(label, loc="left")
    plotting.save(figure, path)


def _layer_axes(
    panels: Sequence[tuple[str, Sequence[LayerMapping]]], colours: Mapping[str, str]
) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes side by side, a row per layer, and a legend above."""
    height = ROW * max(len(layers) for _, layers in panels)
    figure = plotting.new_figure(0.1 + len(panels) * (WIDTH + 0.75), height + 1.2)
    found = []
    for number, (title, layers) in enumerate(panels):
        axes = plotting.add_axes(figure, 0.6 + number * (WIDTH + 0.75), 0.65, WIDTH, ROW * len(layers))
        axes.set_yticks(range(len(layers)), [one.name for one in layers])
        axes.set_ylim(len(layers) - 0.5, -0.5)
        axes.set_title(title, fontweight="bold")
        found.append(axes)
    across, down = figure.get_size_inches()
    figure.legend(
        handles=plotting.colour_patches(colours.items()),
        loc="upper left",
        bbox_to_anchor=(0.6 / across, 1 - 0.12 / down),
        ncols=len(colours),
    )
    return figure, found


@plotting.style()
def _draw_roofline(networks: Networks, path: Path) -> None:
    """Draw every layer under the roofs of the core and of the bus."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    dsp = machine()
    peak = dsp.clock_mhz * 2 * dsp.macs_per_cycle / 1000
    bandwidth = dsp.clock_mhz * dsp.bus_elements_per_cycle * dsp.element_bytes / 1000
    figure = plotting.new_figure(8.4, 5.0)
    axes = plotting.add_axes(figure, 0.7, 0.4, 7.4, 4.0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.5, 500)
    axes.set_ylim(4, 45)
    reach = np.array([0.01, peak / bandwidth, 1000])
    axes.plot(reach, np.minimum(peak, bandwidth * reach), color=INK, linewidth=1.2)
    axes.text(480, peak * 1.03, f"{peak:g} GOps/s", fontsize=8.5, ha="right", va="bottom")
    axes.text(0.78, bandwidth * 0.7, f"bus {bandwidth:g} GB/s", fontsize=8.5, va="center")
    names: list[tuple[float, float, str, str]] = []
    for (title, layers), colour, row in zip(networks.items(), (VERMILION, BLUE), (0, 1), strict=True):
        axes.text(
            0.985, 0.05 + 0.05 * row, title, color=colour, transform=axes.transAxes, ha="right",
            fontweight="bold",
        )  # fmt: skip
        for one in layers:
            axes.plot(one.ops_per_byte, one.gops, "o", color=colour, markersize=6, markeredgecolor="white")
            names.append((one.gops, one.ops_per_byte, one.name, colour))
    _name_points(axes, names, 0.94 * peak)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(short_number))
        axis.set_minor_formatter(NullFormatter())
    axes.set_yticks([5, 10, 20, 30, 40])
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_xlabel("memory efficiency, Ops/byte")
    axes.set_ylabel("throughput, GOps/s")
    axes.set_title("Manual mappings on the DSP of table 7.2", fontweight="bold")
    plotting.save(figure, path)


def _name_points(axes: Axes, points: Sequence[tuple[float, float, str, str]], top: float) -> None:
    """Write the layers' names to the right of their points, apart where points are close to each other."""
    low, high = np.log(axes.get_ylim())
    unit = (high - low) / 26
    high = float(np.log(top))
    columns: list[list[tuple[float, float, str, str]]] = []
    for point in sorted(points, key=lambda point: point[1]):
        if columns and point[1] < 1.25 * columns[-1][-1][1]:
            columns[-1].append(point)
        else:
            columns.append([point])
    for column in columns:
        rows = sorted(column)
        heights = spread([float(np.log(gops)) for gops, *_ in rows], unit, low, high)
        right = 1.08 * max(rate for _, rate, *_ in rows)
        for height, (gops, rate, name, colour) in zip(heights, rows, strict=True):
            axes.text(right, np.exp(height), name, color=colour, fontsize=8.5, va="center_baseline")
            axes.plot([rate, right / 1.01], [gops, np.exp(height)], color=colour, linewidth=0.5)
