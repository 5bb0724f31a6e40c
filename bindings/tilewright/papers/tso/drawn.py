"""Figures 6 and 7, drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tilewright import plotting
from tilewright.papers.tso.plans import NAMES, Solved, npu_of, time_parts
from tilewright.plotting import BLUE, GREY, INK, ORANGE, SKY, VERMILION


@plotting.style()
def figure_6(networks: Sequence[Solved], path: Path) -> None:
    """Draw what part of the time loads, stores and MACs take, with bursts and without (figure 6)."""
    figure = plotting.new_figure(7.0, 3.4)
    axes = plotting.add_axes(figure, 0.65, 0.55, 6.1, 2.35)
    labels: list[tuple[float, str]] = []
    for place, network in enumerate(networks):
        whole = network.no_burst * 1e6
        plans = {
            "Burst": [(layer, layer.best.plan) for layer in network.layers],
            "No Burst": [(layer, layer.blind) for layer in network.layers],
        }
        for beside, (title, chosen) in enumerate(plans.items()):
            parts = np.sum([time_parts(layer, plan) for layer, plan in chosen], axis=0) / whole * 100
            at, bottom = place + 0.42 * beside - 0.21, 0.0
            for part, colour, name in zip(parts, (BLUE, SKY, ORANGE), ("load", "store", "MAC"), strict=True):
                axes.bar(at, part, 0.38, bottom, color=colour, label=name if not labels else None)
                if part > 6:
                    axes.text(at, bottom + part / 2, f"{part:.0f}", ha="center", va="center", fontsize=7,
                              color=plotting.text_colour(colour))  # fmt: skip
                bottom += part
            labels.append((at, title))
    axes.set_xlim(-0.6, len(networks) - 0.4)
    axes.set_ylim(0, 100)
    axes.set_ylabel("% of the time without bursts")
    axes.set_xticks([at for at, _ in labels], [title for _, title in labels], fontsize=6.5)
    for place, network in enumerate(networks):
        axes.text(place, -10, NAMES[network.name], ha="center", va="top")
    axes.tick_params(axis="x", length=0)
    axes.set_title("Where the time goes (TSO paper, figure 6; ours)", pad=22)
    axes.legend(loc="lower left", bbox_to_anchor=(0, 1.01), ncols=3)
    plotting.save(figure, path)


def roofline(networks: Sequence[Solved]) -> Iterator[tuple[str, float, float]]:
    """Iterate over the different layers: network, MACs per byte loaded, GMACs per second."""
    for network in networks:
        for layer in {id(one): one for one in network.layers}.values():
            found = layer.best
            total = layer.cost(found.plan)
            loaded = (total.input + total.weights) * npu_of(layer.problem).element_bytes
            macs = layer.problem.one_layer.macs
            yield network.name, macs / loaded, macs * 1e3 / found.value


@plotting.style()
def figure_7(networks: Sequence[Solved], path: Path) -> None:
    """Draw every layer's throughput over its MACs per byte loaded, under the machine's roofs (figure 7)."""
    machine = npu_of(networks[0].layers[0].problem)
    figure = plotting.new_figure(6.4, 4.2)
    axes = plotting.add_axes(figure, 0.7, 0.45, 5.5, 3.15)
    points = list(roofline(networks))
    for name, colour, marker in zip(NAMES, (BLUE, INK, ORANGE, VERMILION, SKY), "os^Dv", strict=True):
        mine = [(x, y) for network, x, y in points if network == name]
        if mine:
            right, up = zip(*mine, strict=True)
            axes.plot(right, up, marker, color=colour, markersize=4, label=NAMES[name], zorder=3)
    roof = machine.tles * machine.tlts * machine.macs_per_cycle * 1e3 / machine.cycle_ps
    burst = machine.burst_bytes * machine.byte_ps + machine.burst_ps
    scale = np.geomspace(min(x for _, x, _ in points) / 2, max(x for _, x, _ in points) * 2, 200)
    for slope, line, title in (
        (1e3 / machine.byte_ps, "--", "bytes alone"),
        (machine.burst_bytes * 1e3 / burst, "-", f"full bursts of {machine.burst_bytes} B"),
    ):
        roofs = np.minimum(slope * scale, roof)
        axes.plot(scale, roofs, line, color=GREY, linewidth=1, label=title, zorder=2)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(scale[0], scale[-1])
    axes.set_ylim(min(y for _, _, y in points) / 2, 2 * roof)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter("{x:g}")
    axes.set_xlabel("MACs per byte loaded from DRAM")
    axes.set_ylabel("GMACs/s")
    axes.set_title("Layers under the roofs of the fitted machine (TSO paper, figure 7; ours)")
    axes.legend(loc="lower right")
    plotting.save(figure, path)
