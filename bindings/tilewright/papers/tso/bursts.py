"""Figure 1 and the worked example: bursts of slices and tiles."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.core import catalogue
from tilewright.papers.figures import Say
from tilewright.papers.tso.plans import Solved, choose, npu_of
from tilewright.run.instance import read
from tilewright.spec.layer import Layer
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.problem import Problem


def slices_of_figure_1() -> list[tuple[tuple[int, int], int]]:
    """Return the slices of figure 1 as rows and columns, each with the bursts of all input slices."""
    layer = Layer(input=(1, 128, 128), kernels=1, kernel=(1, 1))
    cut = cut_of(layer, NpuMachine(kind="npu"), "KS")
    found = []
    for rows, columns in ((128, 16), (128, 32), (64, 64)):
        slices = (128 // rows) * (128 // columns)
        found.append(((rows, columns), slices * cut.plane_pieces(rows, columns, columns == 128).bursts))
    return found


def worked_tiles() -> list[tuple[tuple[int, int, int], int]]:
    """Return the paper's two input tiles of InceptionV3's fifth convolution with their bursts."""
    problem: Problem = read(catalogue.instance("tiling", "inceptionv3-conv5-nmp")).problem
    cut = cut_of(problem.one_layer, npu_of(problem), "KS")
    tiles = ((14, 4, 73), (16, 11, 20))
    return [((n, h, w), n * cut.plane_pieces(h, w, w == 73).bursts) for n, h, w in tiles]


def print_bursts(networks: Sequence[Solved], say: Say) -> None:
    """Print the bursts of figure 1 and of the worked example, and what a burst costs."""
    machine = npu_of(networks[0].layers[0].problem)
    say("Figure 1: a map of 128 x 128 and one kernel of 1 x 1, in slices whose rows stand alone in DRAM")
    bursts = []
    for (rows, columns), count in slices_of_figure_1():
        bursts.append(count)
        say(f"  slices of {rows} x {columns * machine.element_bytes} B: {count:>5} bursts")
    each = (84 - 46) * 1e3 / (bursts[0] - bursts[2])
    fitted = machine.burst_ps / 1e3
    say(
        f"  the paper's 84 us and 46 us, for the first and the last, are {each:.0f} ns a burst on one engine;"
    )
    say(f"  fitted are {fitted:.1f} ns for transfers one after the other, as with {machine.tles} engines")
    say(f"  side by side that take {machine.tles * fitted:.0f} ns each")
    say("Fifth convolution of InceptionV3, input tiles:")
    for (n, h, w), count in worked_tiles():
        say(f"  the paper's {n} x {h} x {w}: {count} bursts a tile")
    chosen = choose(read(catalogue.instance("tiling", "inceptionv3-conv5-nmp")).problem)
    for title, plan in (("with bursts", chosen.best.plan), ("without", chosen.blind)):
        cut = cut_of(chosen.problem.one_layer, machine, plan.partition)
        m, n, r, c = cut.step(plan.tile)
        say(f"  ours, {title}: {n} x {cut.reach(0, r)} x {cut.reach(1, c)} with {m} filters a core, "
            f"{plan.partition}, {plan.schedule}: {chosen.time(plan) / 1e6:,.0f} us")  # fmt: skip
