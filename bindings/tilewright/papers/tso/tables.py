"""Table II and the figures of the paper on tensor slicing for multicore NPUs (TSO): its numbers and ours."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, product
from math import exp, log
from pathlib import Path

import numpy as np

from tilewright import plotting
from tilewright.core import catalogue
from tilewright.papers.figures import Say
from tilewright.papers.tso import fitting
from tilewright.papers.tso.fitting import FITTED, measured
from tilewright.plotting import BLUE, GREY, INK, ORANGE, SKY, VERMILION
from tilewright.run.instance import read
from tilewright.spec.layer import Layer
from tilewright.tiling.npu import cut_of
from tilewright.tiling.npu.cost import Cost, cost, time_ps
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.npu.search import Found, fastest_tile
from tilewright.tiling.problem import Problem

FIGURES = {
    "tso": "the multicore NPU's paper: table II and its predictions, figures 1, 6 and 7",
    "tso-fit": "how the NPU's times are fitted on two columns of table II, and other readings (minutes)",
}
"""What `reproduce` makes."""

NAMES = {
    "inceptionv3": "InceptionV3",
    "lenet": "LeNet",
    "mobilenetv2": "MobileNetV2",
    "resnet50": "ResNet-50",
    "squeezenet": "SqueezeNet",
}
"""The networks in the order of table II."""

STRATEGIES = (*PARTITIONS, *SCHEDULES)
"""Columns of table II in which the partition or the schedule is fixed."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`."""
    if figure == "tso-fit":
        _print_fit(say)
        return
    networks = solved()
    for number, part in enumerate((_print_columns, _print_predictions, _print_bursts)):
        if number:
            say("")
        part(networks, say)
    for name, draw in (("tso-figure6", figure_6), ("tso-figure7", figure_7)):
        path = folder / f"{name}.png"
        draw(networks, path)
        say(f"written: {path}")


# What is solved ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Chosen:
    """The plans of one layer that stand behind the columns of table II.

    Attributes
    ----------
    cells
        The fastest plan of each partition and schedule; where no tile fits there is none.
    blind
        The plan that is fastest when bursts cost nothing.
    """

    problem: Problem
    cells: Mapping[tuple[str, str], Found]
    blind: NpuPlan

    @property
    def best(self) -> Found:
        """The fastest plan."""
        return min(self.cells.values(), key=lambda found: found.value)

    def fixed(self, strategy: str) -> Found | None:
        """Return the fastest plan with a partition or a schedule, None where no tile fits."""
        fitting = [found for key, found in self.cells.items() if strategy in key]
        return min(fitting, key=lambda found: found.value, default=None)

    def cost(self, plan: NpuPlan) -> Cost:
        """Return what a plan takes, bursts included."""
        return cost(cut_of(self.problem.one_layer, _machine(self.problem), plan.partition), plan)

    def time(self, plan: NpuPlan) -> int:
        """Return the time of a plan in picoseconds, bursts included."""
        return int(
            time_ps(cut_of(self.problem.one_layer, _machine(self.problem), plan.partition), self.cost(plan))
        )

    @property
    def plans(self) -> set[NpuPlan]:
        """Every plan behind a printed number."""
        return {self.blind, *(found.plan for found in self.cells.values())}


@dataclass(frozen=True)
class Solved:
    """A network of table II; equal layers share what was chosen for them."""

    name: str
    layers: tuple[Chosen, ...]

    @cached_property
    def burst(self) -> float:
        """Column Burst in microseconds: the fastest plans."""
        return sum(layer.best.value for layer in self.layers) / 1e6

    @cached_property
    def no_burst(self) -> float:
        """Column No Burst: the plans that would be fastest without bursts, which are charged then."""
        return sum(layer.time(layer.blind) for layer in self.layers) / 1e6

    def fixed(self, strategy: str) -> float:
        """Return a column of a fixed strategy; a layer without such a tile takes its fastest plan."""
        return sum((layer.fixed(strategy) or layer.best).value for layer in self.layers) / 1e6

    def ratio(self, strategy: str) -> float:
        """Return how much longer a fixed strategy takes than the fastest plans."""
        return self.fixed(strategy) / self.burst

    def without(self, strategy: str) -> int:
        """Return how many layers have no tile with a strategy."""
        return sum(layer.fixed(strategy) is None for layer in self.layers)


def _machine(problem: Problem) -> NpuMachine:
    assert problem.machine.kind == "npu"
    return problem.machine


def solved(names: Iterable[str] = NAMES) -> list[Solved]:
    """Return the networks with the plans behind every column."""
    known: dict[Layer, Chosen] = {}
    networks = []
    for name in names:
        problem: Problem = read(catalogue.instance("tiling", f"{name}-nmp")).problem
        for part in problem.parts:
            if part.problem.one_layer not in known:
                known[part.problem.one_layer] = choose(part.problem)
        networks.append(Solved(name, tuple(known[part.problem.one_layer] for part in problem.parts)))
    return networks


def choose(problem: Problem) -> Chosen:
    """Return the plans of a layer for every column of table II."""
    layer, machine = problem.one_layer, _machine(problem)
    blind_machine = machine.model_copy(update={"burst_ps": 0})
    cells, blind = {}, None
    for partition, schedule in product(PARTITIONS, SCHEDULES):
        found = fastest_tile(cut_of(layer, machine, partition), schedule)
        if found is not None:
            cells[partition, schedule] = found
        free = fastest_tile(cut_of(layer, blind_machine, partition), schedule)
        if free is not None and (blind is None or free.value < blind.value):
            blind = free
    assert blind is not None
    return Chosen(problem, cells, blind.plan)


# Table II ------------------------------------------------------------------------------------------------


def _print_columns(networks: Sequence[Solved], say: Say) -> None:
    machine = _machine(networks[0].layers[0].problem)
    say(
        "Table II, TSO, in microseconds: the paper's numbers and ours. On these, but for LeNet's, the machine"
    )
    say(f"is fitted: {_described(machine)}")
    header = ("Burst", "ours", "%", "No Burst", "ours", "%", "gain", "ours", "load+store")
    widths = (8, 8, 7, 10, 8, 7, 8, 7, 12)
    say(f"  {'':<12}" + "".join(f"{name:>{width}}" for name, width in zip(header, widths, strict=True)))
    off = []
    for network in networks:
        burst, plain = measured()[network.name]
        residuals = network.burst / burst - 1, network.no_burst / plain - 1
        off += [abs(one) for one in residuals] if network.name in FITTED else []
        moving = sum(sum(_parts(layer, layer.blind)[:2]) for layer in network.layers) / 1e4 / network.no_burst
        say(
            f"  {NAMES[network.name]:<12}{burst:>8,}{network.burst:>8,.0f}{100 * residuals[0]:>+7.1f}"
            f"{plain:>10,}{network.no_burst:>8,.0f}{100 * residuals[1]:>+7.1f}"
            f"{plain / burst:>8.3f}{network.no_burst / network.burst:>7.3f}{moving:>10.1f} %"
        )
    say(f"  mean distance of the eight fitted numbers: {100 * sum(off) / len(off):.2f} %")
    say("  load+store: share of No Burst; the paper has 51.83 % for InceptionV3 up to 83.80 % for LeNet")


def _described(machine: NpuMachine) -> str:
    cores = machine.tles * machine.tlts
    gmacs = cores * machine.macs_per_cycle * 1e3 / machine.cycle_ps
    return (
        f"cycle {machine.cycle_ps} ps ({1e6 / machine.cycle_ps:.0f} MHz, {gmacs:.0f} GMACs/s in all), "
        f"byte {machine.byte_ps} ps ({1e3 / machine.byte_ps:.2f} GB/s), CAS {machine.burst_ps / 1e3:.1f} ns"
    )


def trivial(networks: Sequence[Solved]) -> float:
    """Return the one constant that knows nothing of networks: the geometric mean of all our ratios."""
    ratios = [network.ratio(strategy) for network in networks for strategy in STRATEGIES]
    return exp(sum(map(log, ratios)) / len(ratios))


def _print_predictions(networks: Sequence[Solved], say: Say) -> None:
    constant = trivial(networks)
    say("Table II, fixed strategies: what the model predicts (nothing is fitted on these columns)")
    say("  us: the model's time; ratio: over our own Burst; scaled: the paper's Burst times that ratio;")
    say(f"  trivial: the paper's Burst times {constant:.3f}, the geometric mean of all our ratios: all that")
    say("  somebody could say who only knows that fixed strategies are slower")
    say(f"  {'':<12}{'':<9}" + "".join(f"{name:>9}" for name in STRATEGIES) + "   ranking")
    for network in networks:
        paper = measured()[network.name][0]
        times = {name: network.fixed(name) for name in STRATEGIES}
        rows = {
            "us": [f"{time:,.0f}" for time in times.values()],
            "ratio": [f"{network.ratio(name):.3f}" for name in STRATEGIES],
            "scaled": [f"{network.ratio(name) * paper:,.0f}" for name in STRATEGIES],
            "trivial": [f"{constant * paper:,.0f}"] * len(STRATEGIES),
        }
        rankings = [ranking({name: times[name] for name in group}) for group in (PARTITIONS, SCHEDULES)]
        for number, (label, cells) in enumerate(rows.items()):
            title = NAMES[network.name] if number == 0 else ""
            last = rankings[number] if number < len(rankings) else ""
            say(f"  {title:<12}{label:<9}" + "".join(f"{cell:>9}" for cell in cells) + f"   {last}".rstrip())
    for network in networks:
        for name in STRATEGIES:
            if count := network.without(name):
                layers = f"{count} of {len(network.layers)} layers"
                say(
                    f"  {NAMES[network.name]}, {name}: {layers} have no such tile and take their fastest plan"
                )
    for title, group, claim in (("TLE partition", PARTITIONS, 41.0), ("TLT schedule", SCHEDULES, 39.8)):
        gain, name, strategy = max(
            (1 - 1 / network.ratio(strategy), NAMES[network.name], strategy)
            for network in networks
            for strategy in group
        )
        say(
            f"  largest gain of TSO over a fixed {title}: {100 * gain:.1f} % ({name}, {strategy}); "
            f"the paper's conclusion, seen afterwards: up to {claim} %"
        )


def ranking(times: Mapping[str, float]) -> str:
    """Return strategies from the fastest on; those that differ by less than 0.05 % are equal."""
    order = sorted(times, key=lambda name: times[name])
    text = order[0]
    for before, name in pairwise(order):
        text += (" = " if times[name] < 1.0005 * times[before] else " < ") + name
    return text


# Bursts: figure 1 and the worked example -----------------------------------------------------------------


def slices_of_figure_1() -> list[tuple[tuple[int, int], int]]:
    """Return the slices of figure 1 as rows and columns, each with the bursts of all input slices."""
    layer = Layer(input=(1, 128, 128), kernels=1, kernel=(1, 1))
    cut = cut_of(layer, NpuMachine(kind="npu"), "KS")
    found = []
    for rows, columns in ((128, 16), (128, 32), (64, 64)):
        slices = (128 // rows) * (128 // columns)
        found.append(((rows, columns), slices * cut.plane_bursts(rows, columns, columns == 128)))
    return found


def worked_tiles() -> list[tuple[tuple[int, int, int], int]]:
    """Return the paper's two input tiles of InceptionV3's fifth convolution with their bursts."""
    problem: Problem = read(catalogue.instance("tiling", "inceptionv3-conv5-nmp")).problem
    cut = cut_of(problem.one_layer, _machine(problem), "KS")
    tiles = ((14, 4, 73), (16, 11, 20))
    return [((n, h, w), n * cut.plane_bursts(h, w, w == 73)) for n, h, w in tiles]


def _print_bursts(networks: Sequence[Solved], say: Say) -> None:
    machine = _machine(networks[0].layers[0].problem)
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


# Figures 6 and 7 -----------------------------------------------------------------------------------------


def _parts(layer: Chosen, plan: NpuPlan) -> tuple[int, int, int]:
    """Return the picoseconds of loads, stores and MACs."""
    machine, total = _machine(layer.problem), layer.cost(plan)
    element = machine.element_bytes * machine.byte_ps
    return (
        (total.input + total.weights) * element + total.load_bursts * machine.burst_ps,
        total.output * element + total.store_bursts * machine.burst_ps,
        total.cycles * machine.cycle_ps,
    )


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
            parts = np.sum([_parts(layer, plan) for layer, plan in chosen], axis=0) / whole * 100
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
            loaded = (total.input + total.weights) * _machine(layer.problem).element_bytes
            macs = layer.problem.one_layer.macs
            yield network.name, macs / loaded, macs * 1e3 / found.value


@plotting.style()
def figure_7(networks: Sequence[Solved], path: Path) -> None:
    """Draw every layer's throughput over its MACs per byte loaded, under the machine's roofs (figure 7)."""
    machine = _machine(networks[0].layers[0].problem)
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


# The fit -------------------------------------------------------------------------------------------------


def _print_fit(say: Say) -> None:
    networks = fitting.networks()
    machine = fitting.machine()
    say("The times of the NMP, fitted on the columns Burst and No Burst of table II, LeNet's left out: least")
    say("squares of relative distances. ps: a cycle, a byte, a burst; distances in %: Burst and No Burst of")
    say(", ".join(NAMES[name] for name in FITTED))
    _print_line("MACs per cycle and core", ("mean", "rms", "ps", "GMACs/s", "distances"), say)
    for macs in fitting.MACS:
        space = fitting.Space(networks, machine.model_copy(update={"macs_per_cycle": macs}))
        _print_fitted(f"{macs}", fitting.fit(space), machine, macs, say)
    say("")
    say("other readings of what the equations leave open, each with the better of 16 and 32 MACs per cycle")
    _print_line("", ("mean", "rms", "ps", "GMACs/s", "distances"), say)
    for name, variant in fitting.VARIANTS.items():
        spaces = {
            macs: fitting.Space(networks, machine.model_copy(update={"macs_per_cycle": macs}), variant)
            for macs in (16, 32)
        }
        fits = {macs: fitting.fit(space) for macs, space in spaces.items()}
        macs = min(fits, key=lambda macs: fits[macs].square)
        _print_fitted(f"{name}{'' if macs == 32 else f', {macs} MACs'}", fits[macs], machine, macs, say)
        if name == "ours":
            whole = fitting.whole(spaces[32])
            _print_fitted("ours, multiples of an element's time", whole, machine, 32, say)
    say("")
    same = whole.prices == (machine.cycle_ps, machine.byte_ps, machine.burst_ps)
    say(f"instances/machines/nmp.toml {'has' if same else 'DOES NOT HAVE'} these multiples:")
    say(f"  {_described(machine)}")


def _print_fitted(name: str, found: fitting.Fit, machine: NpuMachine, macs: int, say: Say) -> None:
    prices = " ".join(f"{price:.0f}" for price in found.prices)
    gmacs = machine.tles * machine.tlts * macs * 1e3 / found.prices.cycle
    distances = "  ".join(" ".join(f"{100 * value:+.1f}" for value in pair) for pair in found.residuals)
    cells = (f"{100 * found.mean:.2f}", f"{100 * found.square:.2f}", prices, f"{gmacs:.0f}", distances)
    _print_line(name, cells, say)


def _print_line(name: str, cells: tuple[str, ...], say: Say) -> None:
    mean, square, prices, gmacs, distances = cells
    say(f"  {name:<44}{mean:>6}{square:>6}  {prices:<19}{gmacs:>8}   {distances}")
