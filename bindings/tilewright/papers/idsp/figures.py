"""Figures 5.5 to 5.12: printed, and drawn into a folder."""

from __future__ import annotations

from pathlib import Path

from tilewright.papers.figures import Say
from tilewright.papers.idsp.curves import (
    best_memory,
    figure_curves,
    print_curves,
    relative_accesses,
    relative_cycles,
)
from tilewright.papers.idsp.cycle_parts import figure_parts
from tilewright.papers.idsp.roofline import print_roofline
from tilewright.papers.idsp.setting import described, layers


def draw_figures(folder: Path, say: Say) -> None:
    """Print and draw figures 5.5, 5.6, 5.8 to 5.10 and 5.12."""
    net = layers("lenet5-clone")
    titles = {name: described(layer) for name, layer in net.items()}
    for number, pair in (("5.5", ("conv1", "conv2")), ("5.6", ("fc3", "fc4"))):
        say(f"Figure {number}: accesses over compulsory ones, by the closed forms and, last, exact")
        curves = {name: relative_accesses(net[name]) for name in pair}
        for name in pair:
            print_curves(name, curves[name], say)
        path = folder / f"idsp-figure{number}.png"
        figure_curves(curves, titles, "accesses / compulsory accesses", path)
        say(f"written: {path}")
    say("Figure 5.8: cycles over compute-only ones; 1 MAC and 1 element per cycle, 150 cycles per transfer")
    pair = ("conv2", "fc3")
    cycles = {name: relative_cycles(net[name]) for name in pair}
    for name in pair:
        print_curves(name, cycles[name][0], say)
        say(f"  best: {best_memory(cycles[name][0]['any'])}; thesis: around 128 KB, up to 10 x below 1 KB")
    path = folder / "idsp-figure5.8.png"
    figure_curves({name: cycles[name][0] for name in pair}, titles, "cycles / compute-only cycles", path)
    say(f"written: {path}")
    parts = {name: cycles[name][1] for name in pair}
    for number, relative in (("5.9", True), ("5.10", False)):
        path = folder / f"idsp-figure{number}.png"
        figure_parts(parts, titles, path, relative=relative)
        say(f"written: {path}")
    print_roofline(folder, say)
