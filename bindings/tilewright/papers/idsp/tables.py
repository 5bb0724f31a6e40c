"""Tables and figures of the thesis on the imaging DSP: its numbers, ours, and the distance.

"As published" is the thesis's own model: its closed forms (every edge tile a full one), its five schedules,
and layers with channel groups as one layer whose kernels all see the same ``Kc`` input maps. "Exact" is what
the simulator measures, with the groups apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tilewright import plotting
from tilewright.core import catalogue
from tilewright.heuristics.tiling import manual
from tilewright.papers.figures import Part, Say, make_parts
from tilewright.plotting import BLUE, GREEN, GREY, INK, ORANGE, PALE, PURPLE, SKY, VERMILION
from tilewright.spec.layer import Layer
from tilewright.spec.network import Network
from tilewright.tiling.dsp import nest_of, search, thesis
from tilewright.tiling.dsp.bounds import best_bound
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import Nest
from tilewright.tiling.dsp.plan import SCHEDULES
from tilewright.tiling.dsp.traffic import Tiles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Values = NDArray[np.float64]

FIGURES = {
    "idsp": "all of the imaging DSP's thesis: the parts below",
    "idsp-table5.3": "table 5.3: optimal tiles and buffer sizes for fewest accesses",
    "idsp-figures": "figures 5.5, 5.6, 5.8 to 5.10 and 5.12, drawn",
    "idsp-chapter8": "chapter 8: accesses, Ops/byte and throughput of every layer at 64 KB",
    "idsp-energy": "tables 7.4, 7.6, 7.10 and 7.11: local traffic, energy, run-time",
}
"""What `reproduce` makes."""

BATCH = 8
NETWORKS = {"lenet5-clone": "LeNet-5", "alexnet": "AlexNet"}
MEMORIES = tuple(2**power for power in range(7, 20))
"""Bytes of local memory in the explorations: 128 B to 512 KB."""

NAMES = {
    "intra": "intra-tile",
    "kc": "inter Kc",
    "oc": "inter Oc",
    "oxyn": "inter Ox,y,n",
    "oxyn/ox": "inter Ox,y,n/Ox",
    "any": "any order, exact",
}
COLOURS = {"intra": PURPLE, "kc": BLUE, "oc": ORANGE, "oxyn": GREEN, "oxyn/ox": VERMILION, "any": INK}
"""Names and colours of the schedules in every figure."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`; everything together takes seconds."""
    parts: dict[str, Part] = {
        "idsp-table5.3": _print_table_5_3,
        "idsp-figures": _draw_figures,
        "idsp-chapter8": _print_chapter_8,
        "idsp-energy": _print_energy,
    }
    make_parts(figure, "idsp", parts, folder, say)


# What is read ------------------------------------------------------------------------------------------


@cache
def published() -> dict[str, Any]:
    """Return the thesis's results."""
    return catalogue.shared("published", "idsp-results")


def machine(**changes: Any) -> DspMachine:
    """Return the DSP of table 7.2, with other figures where they are given."""
    return DspMachine.model_validate({**catalogue.shared("machines", "idsp"), **changes})


@cache
def layers(network: str, *, grouped: bool = True) -> dict[str, Layer]:
    """Return a network's layers, eight images at a time.

    Parameters
    ----------
    grouped
        False for layers with channel groups as the thesis counts them: all kernels see the same maps.
    """
    found = {}
    for named in Network.model_validate(catalogue.shared("networks", network)).convolutions:
        layer = named.unnamed(BATCH)
        if not grouped and layer.groups > 1:
            channels = layer.input[0] // layer.groups
            layer = Layer.model_validate(
                {**layer.model_dump(), "groups": 1, "input": (channels, *layer.input[1:])}
            )
        found[named.name] = layer
    return found


# Table 5.3 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Explored:
    """A row of table 5.3.

    Attributes
    ----------
    tile
        TOx, TOy, TOc, TOn, TKc of the fewest accesses that 512 KB allow.
    optimal
        KB of the smallest buffers with the fewest accesses that any memory allows.
    actual
        KB of the smallest of `MEMORIES` that reaches them, 0 for none.
    """

    tile: tuple[int, ...]
    optimal: float
    actual: float


@cache
def table_5_3(*, exact: bool = False) -> dict[tuple[str, str], Explored]:
    """Explore LeNet5-clone as in appendix C, by layer and schedule.

    Parameters
    ----------
    exact
        Count accesses in integers; the closed forms have quotients, which floating point rounds.
    """
    rows = {}
    for name, layer in layers("lenet5-clone").items():
        nest = _unlimited(layer)
        tiles = thesis.explore(nest, float("inf"))
        need = 2 * tiles.need
        for schedule in SCHEDULES:
            accesses = thesis.accesses(tiles, schedule)
            whole = np.rint(accesses)
            if exact:
                accesses = whole
            best = _best(accesses, need, MEMORIES[-1])
            least = whole.min()
            actual = [memory for memory in MEMORIES if whole[need <= memory].min(initial=np.inf) == least]
            rows[name, schedule] = Explored(
                tile=tuple(int(tiles.steps["gncyxk".index(loop)][best]) for loop in "xycnk"),
                optimal=float(need[whole == least].min() / 1024),
                actual=actual[0] / 1024 if actual else 0,
            )
    return rows


def _unlimited(layer: Layer) -> Nest:
    """Return the nest on a DSP with one set of buffers, for explorations over the memory size."""
    return nest_of(layer, machine(memory_bytes=2**30, double_buffering=False, register_file_bytes=0))


def _best(cost: Values, need: NDArray[np.int64], memory: int) -> int:
    """Return the best tile that fits; ties go to the smaller memory (algorithm 3)."""
    fits = np.flatnonzero(need <= memory)
    return int(fits[np.lexsort((need[fits], cost[fits]))[0]])


def agrees(ours: float, theirs: float) -> bool:
    """Whether a number is what the thesis prints of it."""
    digits = len(str(theirs).partition(".")[2]) if isinstance(theirs, float) else 0
    return round(ours, digits) == theirs


def _print_table_5_3(_folder: Path, say: Say) -> None:
    say("Table 5.3: fewest accesses, LeNet-5, batch 8, memories of 128 B to 512 KB (thesis | ours)")
    say(f"{'layer':<6} {'schedule':<16} {'TOx TOy TOc TOn TKc':<41} {'optimal KB':>15} {'actual KB':>13}")
    ours, exact = table_5_3(), table_5_3(exact=True)
    notes: list[str] = []
    for row in published()["table_5_3"]:
        name, schedule = row["layer"], row["schedule"]
        own = ours[name, schedule]
        shown = " ".join(f"{size:>3}" for size in row["tile"]), " ".join(f"{size:>3}" for size in own.tile)
        mark = "" if list(own.tile) == row["tile"] and agrees(own.optimal, row["optimal"]) else " *"
        if mark or own.actual != row["actual"]:
            notes.append(
                f"* {name} {NAMES[schedule]}: {row['optimal']} KB published, {own.optimal:.1f} KB computed"
            )
        if own.tile != exact[name, schedule].tile:
            integers = ", ".join(map(str, exact[name, schedule].tile))
            notes.append(
                f"{name} {NAMES[schedule]}: the tile is floating point's choice among equals, as published; "
                f"counted in integers the smaller ({integers}) has as few accesses"
            )
        actual = [f"{size:g}" if size else ">512" for size in (row["actual"], own.actual)]
        say(
            f"{name:<6} {NAMES[schedule]:<16} {shown[0]:<19} | {shown[1]:<19} "
            f"{row['optimal']:>6g} |{own.optimal:>7.1f} {actual[0]:>5} |{actual[1]:>5}{mark}"
        )
    for note in notes:
        say(note)
    layer = layers("lenet5-clone")["conv1"]
    inputs, weights = BATCH * 32 * 32, layer.kernels * 25
    say(
        f"  its 30 KB are {2 * (inputs + weights + BATCH * 28 * 28) / 1024:.1f} KB, those of all "
        f"{layer.kernels} kernels on chip, which TOc = 1 does not need; the memory of 32 KB is the same"
    )
    say(
        "fc3's intra-tile and inter Ox,y,n rows list the tile that fits 512 KB (TKc = 448) beside the memory "
        "that the whole layer needs"
    )


# Figures 5.5 to 5.12 -------------------------------------------------------------------------------------


def relative_accesses(layer: Layer) -> dict[str, Values]:
    """Return accesses over compulsory ones for each of `MEMORIES`, by schedule; NaN where nothing fits."""
    nest = _unlimited(layer)
    tiles = thesis.explore(nest, MEMORIES[-1] // 2)
    curves = {}
    for schedule in SCHEDULES:
        accesses = thesis.accesses(tiles, schedule)
        fewest = [accesses[2 * tiles.need <= memory].min(initial=np.inf) for memory in MEMORIES]
        curves[schedule] = np.array(fewest) / nest.compulsory
    found = [search.fewest_accesses(nest, "any", memory // 2) for memory in MEMORIES]
    curves["any"] = np.array([np.inf if one is None else one.value for one in found]) / nest.compulsory
    return {name: np.where(np.isfinite(curve), curve, np.nan) for name, curve in curves.items()}


def _slow(memory: int) -> DspMachine:
    """Return the DSP of section 5.3.1: one MAC and one element per cycle, double buffering."""
    return machine(memory_bytes=memory, bus_elements_per_cycle=1, macs_per_cycle=1, register_file_bytes=0)


def relative_cycles(layer: Layer) -> tuple[dict[str, Values], list[tuple[str, Any]]]:
    """Return cycles over compute-only ones for each of `MEMORIES`, and the best schedule with its times.

    Where nothing fits the curves have NaN, and the schedule is an empty string.
    """
    curves: dict[str, list[float]] = {name: [] for name in NAMES}
    best: list[tuple[str, Any]] = []
    for memory in MEMORIES:
        nest = nest_of(layer, _slow(memory))
        tiles = thesis.explore(nest, nest.machine.room)
        ranked: list[tuple[float, str, Any]] = []
        for schedule in SCHEDULES:
            if not len(tiles.need):
                curves[schedule].append(np.nan)
                continue
            times = thesis.cycles(tiles, schedule)
            at = int(times.total.argmin())
            parts = {part: float(getattr(times, part)[at]) for part in ("setup", "ends", "waiting")}
            # Edge tiles count as full ones here; what they add is shown as computing, too.
            parts["compute"] = float(times.compute[at])
            curves[schedule].append(float(times.total[at]) / layer.macs)
            ranked.append((float(times.total[at]), schedule, parts))
        best.append(min(ranked, key=lambda entry: entry[0])[1:] if ranked else ("", {}))
        found = search.fewest(nest, "cycles", "any", 0)[0] if ranked else None
        curves["any"].append(np.nan if found is None else found.value / layer.macs)
    return {name: np.array(curve) for name, curve in curves.items()}, best


@dataclass(frozen=True)
class Point:
    """A solution in the roofline plot."""

    ops_per_byte: float
    gops: float
    schedule: str
    tile: tuple[int, ...]


def throughput(nest: Nest, cycles: Any) -> Any:
    """Return GOps/s (equation 5.22)."""
    return nest.machine.clock_mhz * 2 * nest.macs / cycles / 1000


def efficiency(nest: Nest, accesses: Any) -> Any:
    """Return Ops/byte (equation 5.23)."""
    return 2 * nest.macs / (accesses * nest.machine.element_bytes)


@dataclass(frozen=True)
class Cloud:
    """Many solutions, one entry of each array for each."""

    ops_per_byte: Values
    gops: Values
    schedule: NDArray[np.str_]
    tiles: NDArray[np.int64]

    def point(self, at: int) -> Point:
        """Return one of them."""
        tile = tuple(int(step) for step in self.tiles[at])
        return Point(float(self.ops_per_byte[at]), float(self.gops[at]), str(self.schedule[at]), tile)


def published_solutions(nest: Nest, local: float) -> Cloud:
    """Return every tile and schedule by the thesis's model (algorithm 1), edge tiles full."""
    tiles = thesis.explore(nest, nest.machine.room)
    rates = [efficiency(nest, thesis.accesses(tiles, name)) for name in SCHEDULES]
    speeds = [throughput(nest, thesis.cycles(tiles, name, local).total) for name in SCHEDULES]
    return Cloud(
        ops_per_byte=np.concatenate(rates),
        gops=np.concatenate(speeds),
        schedule=np.repeat(list(SCHEDULES), len(tiles.need)),
        tiles=np.tile(np.stack(tiles.steps, axis=1), (len(SCHEDULES), 1)),
    )


def front(cloud: Cloud) -> list[Point]:
    """Return the solutions that no other dominates (equation 5.24), fastest first."""
    # Rounded, since floating point tells equals apart.
    rate, speed = np.round(cloud.ops_per_byte, 9), np.round(cloud.gops, 9)
    order = np.lexsort((-rate, -speed))
    best = np.maximum.accumulate(rate[order])
    chosen = order[np.concatenate([[True], rate[order][1:] > best[:-1]])]
    return [cloud.point(int(at)) for at in chosen]


def exact_front(nest: Nest, local: int, limit: str = "any") -> list[Point]:
    """Return the front over all tiles and schedules as the simulator measures them."""
    return [
        Point(
            float(efficiency(nest, point.accesses)),
            float(throughput(nest, point.cycles)),
            point.plan.schedule,
            nest.step(point.plan.tile),
        )
        for point in search.pareto_front(nest, limit, local)[0]
    ]


def _draw_figures(folder: Path, say: Say) -> None:
    net = layers("lenet5-clone")
    titles = {name: _described(layer) for name, layer in net.items()}
    for number, pair in (("5.5", ("conv1", "conv2")), ("5.6", ("fc3", "fc4"))):
        say(f"Figure {number}: accesses over compulsory ones, by the closed forms and, last, exact")
        curves = {name: relative_accesses(net[name]) for name in pair}
        for name in pair:
            _print_curves(name, curves[name], say)
        path = folder / f"idsp-figure{number}.png"
        figure_curves(curves, titles, "accesses / compulsory accesses", path)
        say(f"written: {path}")
    say("Figure 5.8: cycles over compute-only ones; 1 MAC and 1 element per cycle, 150 cycles per transfer")
    pair = ("conv2", "fc3")
    cycles = {name: relative_cycles(net[name]) for name in pair}
    for name in pair:
        _print_curves(name, cycles[name][0], say)
        say(f"  best: {_best_memory(cycles[name][0]['any'])}; thesis: around 128 KB, up to 10 x below 1 KB")
    path = folder / "idsp-figure5.8.png"
    figure_curves({name: cycles[name][0] for name in pair}, titles, "cycles / compute-only cycles", path)
    say(f"written: {path}")
    parts = {name: cycles[name][1] for name in pair}
    for number, relative in (("5.9", True), ("5.10", False)):
        path = folder / f"idsp-figure{number}.png"
        figure_parts(parts, titles, path, relative=relative)
        say(f"written: {path}")
    _print_roofline(folder, say)


def _best_memory(curve: Values) -> str:
    at = int(np.nanargmin(curve))
    return f"{_size(MEMORIES[at])}, {100 * (curve[at] - 1):.2f} % above compute-only"


def _print_curves(name: str, curves: Mapping[str, Values], say: Say) -> None:
    say(f"  {name:<8}" + "".join(f"{NAMES[schedule]:>17}" for schedule in curves))
    for number, memory in enumerate(MEMORIES):
        cells = [curve[number] for curve in curves.values()]
        say(f"  {_size(memory):>8}" + "".join(f"{'-' if np.isnan(x) else f'{x:.3f}':>17}" for x in cells))


def _size(size: float) -> str:
    return f"{size / 1024:g} KB" if size >= 1024 else f"{size:g} B"


def _print_roofline(folder: Path, say: Say) -> None:
    claim = published()["figure_5_12"]
    nest = nest_of(layers("lenet5-clone")["conv2"], machine())
    local = search.local_traffic(nest)
    solutions = published_solutions(nest, local)
    theirs, ours = front(solutions), exact_front(nest, local)
    say(f"Figure 5.12: LeNet-5 conv2 on the DSP of table 7.2, {len(solutions.gops):,} solutions that fit")
    for title, points in (("as published", theirs), ("any order, exact", ours)):
        say(f"  {title}: {len(points)} solutions that are not dominated")
        for point in points:
            tile = " ".join(f"{size:>3}" for size in point.tile[1:])
            say(
                f"    {point.gops:8.3f} GOps/s {point.ops_per_byte:8.1f} Ops/byte   "
                f"{NAMES.get(point.schedule, point.schedule):<16} n c y x k: {tile}"
            )
    first, last = theirs[0], theirs[-1]
    say(
        f"  thesis: {claim['solutions']} solutions, from A to B {claim['throughput_loss']:.0%} slower and "
        f"{claim['efficiency_gain']:g} x more efficient; ours as published: {len(theirs)}, "
        f"{1 - last.gops / first.gops:.1%} and {last.ops_per_byte / first.ops_per_byte:.2f} x"
    )
    path = folder / "idsp-figure5.12.png"
    figure_roofline(nest, solutions, theirs, ours, path)
    say(f"written: {path}")


# Chapter 8 -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Reuse:
    """The plan of a layer with the fewest accesses, of those with as few the fastest.

    Attributes
    ----------
    ratio
        Accesses over compulsory ones.
    compute
        Cycles in which the core multiplies.
    """

    schedule: str
    accesses: float
    ratio: float
    ops_per_byte: float
    gops: float
    transfers: float
    compute: float


@cache
def published_reuse(layer: Layer) -> Reuse:
    """Return the most efficient plan by the thesis's model."""
    nest = nest_of(layer, machine())
    local = search.local_traffic(nest)
    tiles = thesis.explore(nest, nest.machine.room)
    ranked = []
    for schedule in SCHEDULES:
        accesses = np.rint(thesis.accesses(tiles, schedule))
        times = thesis.cycles(tiles, schedule, local)
        at = int(np.lexsort((times.total, accesses))[0])
        numbers = (thesis.transfers(tiles, schedule), times.compute)
        ranked.append((accesses[at], times.total[at], schedule, *(float(array[at]) for array in numbers)))
    fewest, length, name, moves, work = min(ranked)
    return Reuse(
        name,
        float(fewest),
        float(fewest) / nest.compulsory,
        float(efficiency(nest, fewest)),
        float(throughput(nest, length)),
        moves,
        work,
    )


@cache
def exact_reuse(layer: Layer, limit: str) -> Reuse:
    """Return the plan with the fewest accesses as the simulator counts them."""
    nest = nest_of(layer, machine())
    found = search.fewest_accesses(nest, limit)
    assert found is not None
    total = duration(nest, found.plan, search.local_traffic(nest))
    return Reuse(
        found.plan.schedule,
        found.value,
        found.value / nest.compulsory,
        float(efficiency(nest, found.value)),
        float(throughput(nest, total.cycles)),
        total.transfers,
        total.compute,
    )


def enough_memory(layer: Layer, most: float) -> int:
    """Return the least KB for one copy of all buffers with which accesses are `most` times compulsory."""
    nest = nest_of(layer, machine())
    low, high = 0, 1
    while not _reaches(nest, high, most):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(nest, middle, most) else (middle, high)
    return high


def _reaches(nest: Nest, kilobytes: int, most: float) -> bool:
    found = search.fewest_accesses(nest, "any", kilobytes * 1024 // nest.machine.element_bytes)
    return found is not None and found.value <= most * nest.compulsory


def _print_chapter_8(_folder: Path, say: Say) -> None:
    claims = published()["chapter_8"]
    say("Chapter 8: fewest accesses of every layer at 64 KB of effective memory, batch 8")
    say("x: accesses over compulsory ones; O/B: Ops/byte (5.23); GOps/s (5.22) of the same plan")
    groups = ("as published", "thesis's schedules, exact", "any order, exact")
    say(f"{'':<16}" + "".join(f" | {group:<37}" for group in groups))
    say(f"{'layer':<16}" + f" | {'x':>5} {'O/B':>6} {'GOps/s':>7} {'schedule':<16}" * 3)
    rates: dict[str, list[float]] = {"conv": [], "fc": []}
    beyond: list[tuple[str, Layer, float]] = []
    distances: dict[str, float] = {}
    for network, title in NETWORKS.items():
        plain = layers(network, grouped=False)
        for name, layer in layers(network).items():
            found = (published_reuse(plain[name]), exact_reuse(layer, "thesis"), exact_reuse(layer, "any"))
            cells = [
                f" | {one.ratio:>5.2f} {one.ops_per_byte:>6.1f} {one.gops:>7.2f} "
                f"{NAMES.get(one.schedule, one.schedule):<16}"
                for one in found
            ]
            say(f"{f'{title} {name}':<16}" + "".join(cells))
            rates[layer.kind].append(found[0].ops_per_byte)
            least = best_bound(nest_of(layer, machine()), "accesses", 0).accesses
            distances[f"{title} {name}"] = found[2].accesses / least
            if found[2].ratio > claims["most_accesses"]:
                beyond.append((f"{title} {name}", layer, found[2].ratio))
    for kind, title in (("conv", "convolutions"), ("fc", "fully connected")):
        low, high = claims[f"{kind}_ops_per_byte"]
        say(
            f"{title}: thesis {low} to {high} Ops/byte, ours as published "
            f"{min(rates[kind]):.1f} to {max(rates[kind]):.1f}"
        )
    say(
        f"thesis: every layer within {claims['most_accesses']:g} x the accesses of optimal reuse. By its own "
        "forms as by ours these are not, whatever the tile and the order of the loops:"
    )
    for name, layer, ratio in beyond:
        needed = enough_memory(layer, claims["most_accesses"])
        say(f"  {name}: {ratio:.2f} x; within {claims['most_accesses']:g} x from {needed} KB on")
    farthest = max(distances, key=lambda name: distances[name])
    say(
        "against what any schedule at all needs in 64 KB (docs/tiling-bounds.md) every layer is within "
        f"{distances[farthest]:.2f} x ({farthest})"
    )
    best, worst = max(
        ((halide_loss(layer), name) for name, layer in layers("alexnet", grouped=False).items())
    )
    say(
        f"figure 7.5, AlexNet: schedules that keep nothing and do not tile Kc move up to {best:.1f} x more "
        f"({worst}); thesis: up to 13 x"
    )


def halide_loss(layer: Layer) -> float:
    """Return how much more is moved without inter-tile reuse and without tiles of Kc (figure 7.5)."""
    nest = nest_of(layer, machine())
    tiles = thesis.explore(nest, nest.machine.room)
    whole = tiles.trips[5] == 1
    least = min(thesis.accesses(tiles, schedule).min() for schedule in SCHEDULES)
    return float(thesis.accesses(tiles, "intra")[whole].min(initial=np.inf) / least)


# Energy --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Energy:
    """Energy of a network by component, in microjoules."""

    compute: float
    dma: float
    local: float
    external: float

    @property
    def total(self) -> float:
        """Sum of the components."""
        return self.compute + self.dma + self.local + self.external


def _energy(*, cycles: float, transfers: float, vectors: float, accesses: float) -> Energy:
    dsp = machine()
    price = dsp.energy
    return Energy(
        compute=cycles * price.core_fj_per_cycle / 1e9,
        dma=transfers * dsp.dma_setup_cycles * price.core_fj_per_cycle / 1e9,
        local=vectors * price.local_fj_per_access / 1e9,
        external=accesses * dsp.element_bytes / price.dram_access_bytes * price.dram_fj_per_access / 1e9,
    )


@dataclass(frozen=True)
class Mapped:
    """A layer that the thesis mapped by hand.

    Attributes
    ----------
    row
        What is published of it.
    accesses, transfers
        By schedule, of the manual tile.
    tiles
        How many tiles it makes.
    fits
        Whether two copies of its buffers fit the memory.
    vectors
        Local vector transfers as published: the best tile of the register file, rounded up per tile.
    """

    row: dict[str, Any]
    layer: Layer
    accesses: dict[str, float]
    transfers: dict[str, float]
    tiles: int
    need: int
    fits: bool
    vectors: int


@cache
def mapped(network: str) -> list[Mapped]:
    """Evaluate the manual tiles of tables 7.3 and 7.5 by the thesis's closed forms."""
    plain = layers(network, grouped=False)
    found = []
    for row in manual.rows():
        if row["network"] != network:
            continue
        nest = nest_of(plain[row["layer"]], machine())
        tile = {"g": 1, **row["tile"]}
        tiles = Tiles(nest, tuple(np.array([tile[loop]]) for loop in "gncyxk"))
        number = int(np.prod([int(trips[0]) for trips in tiles.trips]))
        vector = nest.machine.energy.local_access_bytes // nest.machine.element_bytes
        found.append(
            Mapped(
                row=row,
                layer=nest.layer,
                accesses={name: float(thesis.accesses(tiles, name)[0]) for name in SCHEDULES},
                transfers={name: float(thesis.transfers(tiles, name)[0]) for name in SCHEDULES},
                tiles=number,
                need=int(tiles.need[0]),
                fits=bool(tiles.need[0] <= nest.machine.room),
                vectors=number * -int(-published_local(nest) / number // vector),
            )
        )
    return found


def published_local(nest: Nest) -> float:
    """Elements of local traffic by the thesis's closed forms (section 5.4)."""
    tiles = thesis.explore(nest, nest.machine.register_file_bytes // nest.machine.element_bytes)
    return float(min(thesis.accesses(tiles, schedule).min() for schedule in SCHEDULES))


@cache
def energies(network: str) -> dict[str, Energy]:
    """Return the rows of table 7.10, with ours beside them."""
    hand = mapped(network)
    cycles = sum(one.row["cycles"] for one in hand)
    vectors = sum(one.row["vector_transfers"] for one in hand)
    best = [min((one.accesses[name], one.transfers[name], name) for name in SCHEDULES)[2] for one in hand]
    found = {
        "mapping": _energy(
            cycles=cycles,
            vectors=vectors,
            transfers=sum(one.transfers[name] for one, name in zip(hand, best, strict=True)),
            accesses=sum(one.accesses[name] for one, name in zip(hand, best, strict=True)),
        ),
        "mapping, intra-tile only": _energy(
            cycles=cycles,
            vectors=vectors,
            transfers=sum(one.transfers["intra"] for one in hand),
            accesses=sum(one.accesses["intra"] for one in hand),
        ),
    }
    model = [published_reuse(one.layer) for one in hand]
    found["model"] = _energy(
        cycles=sum(one.compute for one in model),
        vectors=sum(one.vectors for one in hand),
        transfers=sum(one.transfers for one in model),
        accesses=sum(one.accesses for one in model),
    )
    for limit, title in (("thesis", "least energy, thesis's schedules"), ("any", "least energy, any order")):
        found[title] = _least_energy(network, limit)
    return found


def _least_energy(network: str, limit: str) -> Energy:
    dsp = machine()
    parts = []
    for layer in layers(network).values():
        nest = nest_of(layer, dsp)
        local = search.local_traffic(nest)
        plan, _ = search.fewest(nest, "energy", limit, local)
        assert plan is not None
        parts.append(duration(nest, plan.plan, local))
    return _energy(
        cycles=sum(part.compute for part in parts),
        vectors=sum(part.streamed for part in parts) * dsp.element_bytes / dsp.energy.local_access_bytes,
        transfers=sum(part.transfers for part in parts),
        accesses=sum(part.accesses for part in parts),
    )


def performance(network: str, energy: Energy, cycles: float) -> dict[str, float]:
    """Return the figures of table 7.11 from energy and the core's cycles without DMA set-up."""
    dsp = machine()
    macs = sum(layer.macs for layer in layers(network).values())
    busy = cycles + energy.dma * 1e9 / dsp.energy.core_fj_per_cycle
    milliseconds = busy / dsp.clock_mhz / 1000
    return {
        "milliseconds": milliseconds,
        "milliwatts": energy.total / milliseconds,
        "images_per_second": BATCH / milliseconds * 1000,
        "picojoules_per_op": energy.total * 1e6 / (2 * macs),
        "utilisation": macs / dsp.macs_per_cycle / busy,
    }


def _distance(ours: float, theirs: float) -> str:
    """Say how far ours is from what is published, "=" where it rounds to it."""
    return "=" if agrees(ours, theirs) else f"{100 * (ours / theirs - 1):+.1f} %"


def _print_energy(_folder: Path, say: Say) -> None:
    data = published()
    say("Tables 7.4 and 7.6, model transfers: vectors of 32 between local memory and a 4 KB register file")
    say(f"  {'layer':<16} {'thesis':>10} {'as published':>13} {'':>8} {'exact':>10}")
    over = []
    for network, title in NETWORKS.items():
        exact = layers(network)
        for one in mapped(network):
            name, theirs = one.row["layer"], one.row["model_vector_transfers"]
            least = search.local_traffic(nest_of(exact[name], machine())) / 32
            label = f"{title} {name}"
            numbers = f"{one.vectors:>13,} {_distance(one.vectors, theirs):>8} {least:>10,.0f}"
            say(f"  {label:<16} {theirs:>10,} {numbers}")
            if not one.fits:
                over.append(f"{label} {2 * one.need / 1024:.1f} KB")
    say(
        "  as published: the register file's best tile by the closed forms, rounded up to vectors in every "
        "tile of the manual mapping. conv3 to conv5: the thesis's numbers are those of the second best tile, "
        "13 x 7 of 19 maps; 13 x 13 of 10 maps fits, too. fc7 is 20 off."
    )
    say(f"  manual tiles of tables 7.3 and 7.5 that exceed the 64 KB of one buffer set: {', '.join(over)}")
    say(
        "Table 7.10: energy in uJ (thesis | ours | distance); cycles and vectors of mappings are the thesis's"
    )
    parts = ("compute", "dma", "local", "external", "total")
    say(f"  {'':<42}" + "".join(f"{part:>27}" for part in parts))
    for network, title in NETWORKS.items():
        rows = {row["schedule"]: row for row in data["table_7_10"] if row["network"] == network}
        for schedule, ours in energies(network).items():
            cells = []
            for part in parts:
                value = getattr(ours, part)
                if schedule in rows:
                    theirs = rows[schedule][part]
                    cells.append(f"{theirs:>8} |{value:>8.0f} {_distance(value, theirs):>8}")
                else:
                    cells.append(f"{value:>18.0f}{'':>9}")
            say(f"  {f'{title} {schedule}':<42}" + " ".join(cells))
    say(
        "  mapping: the external traffic is that of each manual tile under its best schedule, not under the "
        "intra-tile one, which is all that the compiler of section 6.2 can do (section 7.5 says so)"
    )
    say(
        "  not explained: LeNet-5's 1549 uJ, which no schedules of the tiles in table 7.3 give (the nearest "
        "1557), and AlexNet's 3196 uJ, where the vectors of table 7.5 at 66.6 pJ make 2968"
    )
    say("  model: edge tiles count as full ones, which brings AlexNet's compute from 10811 to 10869 uJ")
    say("Table 7.11: run-time per batch of 8 from the published cycle counts and our DMA set-up")
    units = ("milliseconds", "milliwatts", "images_per_second", "picojoules_per_op", "utilisation")
    for network, title in NETWORKS.items():
        row = next(row for row in data["table_7_11"] if row["network"] == network)
        cycles = sum(one.row["cycles"] for one in mapped(network))
        ours_by_unit = performance(network, energies(network)["mapping"], cycles)
        shown = [
            f"{unit.replace('_', ' ')} {row[unit]:g} | {ours_by_unit[unit]:.4g} "
            f"{_distance(ours_by_unit[unit], row[unit])}"
            for unit in units
        ]
        say(f"  {title}: " + "; ".join(shown))


# Plots ---------------------------------------------------------------------------------------------------


def _described(layer: Layer) -> str:
    """Say in a few words what a layer is."""
    if layer.kind == "fc":
        return f"{layer.input[0]:,} → {layer.kernels:,}"
    rows, columns = layer.output_plane
    kernel = "×".join(map(str, layer.kernel))
    return f"{kernel}, {layer.input[0]} → {layer.kernels} maps of {rows}×{columns}"


@plotting.style()
def figure_curves(
    curves: Mapping[str, Mapping[str, Values]], titles: Mapping[str, str], label: str, path: Path
) -> None:
    """Draw one panel per layer: a quantity over the memory size, one labelled curve per schedule."""
    width, height = 5.2, 3.6
    figure = plotting.new_figure(len(curves) * (width + 0.65) + 0.25, height + 1.0)
    for number, (name, panel) in enumerate(curves.items()):
        axes = plotting.add_axes(figure, 0.65 + number * (width + 0.65), 0.4, width, height)
        alike: list[list[str]] = []
        for schedule, curve in panel.items():
            same = next((g for g in alike if np.allclose(panel[g[0]], curve, equal_nan=True)), None)
            if same is None or schedule == "any":
                alike.append([schedule])
            else:
                same.append(schedule)
        ends = []
        for group in alike:
            for place, schedule in enumerate(group):
                # Curves that coincide are drawn as dashes of all their colours.
                dashes: Any = "-" if len(group) == 1 else (6 * place, (6, 6 * (len(group) - 1)))
                line = {"linewidth": 2.4, "linestyle": dashes, "zorder": 3}
                if schedule == "any":
                    line = {"linewidth": 1.1, "linestyle": (0, (2, 1.2)), "zorder": 4}
                axes.plot(MEMORIES, panel[schedule], color=COLOURS[schedule], **line)
            first = int(np.flatnonzero(~np.isnan(panel[group[0]]))[0])
            ends.append((MEMORIES[first], float(panel[group[0]][first]), group))
        top = max(float(np.nanmax(curve)) for curve in panel.values())
        axes.set_xscale("log", base=2)
        axes.set_yscale("log")
        axes.set_ylim(top**-0.03, top**1.06)
        axes.set_xlim(min(end[0] for end in ends) / 2**4.4, MEMORIES[-1] * 1.15)
        _memory_axis(axes)
        _ratio_axis(axes, top)
        axes.axhline(1, color=GREY, linewidth=0.8)
        axes.set_title(f"{name}: {titles[name]}", fontweight="bold")
        if number == 0:
            axes.set_ylabel(label)
        _label_starts(axes, ends)
    plotting.save(figure, path)


def _memory_axis(axes: Axes) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    axes.xaxis.set_major_locator(FixedLocator(list(MEMORIES[::2])))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _size(x)))
    axes.set_xlabel("local memory")


def _ratio_axis(axes: Axes, top: float) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    choice = (1, 1.5, 2, 3, 4, 5, 6, 8) if top < 8 else (1, 2, 5, 10, 20, 50, 100, 200)
    ticks = [tick for tick in choice if tick <= top**1.06]
    axes.yaxis.set_major_locator(FixedLocator(ticks))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}×"))
    axes.grid(axis="y", color=PALE, linewidth=0.6)


def _label_starts(axes: Axes, ends: Sequence[tuple[float, float, list[str]]]) -> None:
    """Write names to the left of where curves begin, moved apart where they would touch."""
    low, high = np.log(axes.get_ylim())
    unit = (high - low) / 23
    rows = sorted((y, x, schedule) for x, y, group in ends for schedule in reversed(group))
    at = _apart([float(np.log(y)) for y, _, _ in rows], unit, low + unit, high - unit / 2)
    right = min(x for _, x, _ in rows) / 2**0.75
    for height, (y, x, schedule) in zip(at, rows, strict=True):
        colour = COLOURS[schedule]
        axes.text(
            right,
            np.exp(height),
            NAMES[schedule],
            color=colour,
            fontsize=8.5,
            ha="right",
            va="center_baseline",
        )
        axes.plot([right * 1.04, x / 1.04], [np.exp(height), y], color=colour, linewidth=0.6, zorder=1)


def _apart(heights: Sequence[float], unit: float, low: float, high: float) -> list[float]:
    """Push ascending heights apart until any two are a unit away from each other."""
    at = list(heights)
    for _ in range(200):
        for i in range(len(at) - 1):
            overlap = unit - (at[i + 1] - at[i])
            if overlap > 1e-9:
                at[i] -= overlap / 2
                at[i + 1] += overlap / 2
        at = [min(max(height, low), high) for height in at]
    return at


PARTS = {
    "compute": ("computing", "#AEBAC6"),
    "setup": ("DMA set-up", "#3F4D5C"),
    "ends": ("prolog, epilog", SKY),
    "waiting": ("waiting for the bus", "#F0E442"),
}
"""What cycles go into, in colours that no schedule has."""


@plotting.style()
def figure_parts(
    parts: Mapping[str, Sequence[tuple[str, Mapping[str, float]]]],
    titles: Mapping[str, str],
    path: Path,
    *,
    relative: bool,
) -> None:
    """Draw what the cycles of the best schedule go into, over the memory size."""
    width, height = 4.9, 3.2
    figure = plotting.new_figure(len(parts) * (width + 0.85) + (0.1 if relative else 1.25), height + 1.25)
    for number, (name, rows) in enumerate(parts.items()):
        axes = plotting.add_axes(
            figure, 0.75 + number * (width + (0.7 if relative else 1.3)), 0.65, width, height
        )
        known = [i for i, (schedule, _) in enumerate(rows) if schedule]
        values = {part: np.array([rows[i][1][part] for i in known]) for part in PARTS}
        values = {part: counts for part, counts in values.items() if counts.max() > 0}
        if relative:
            _shares(axes, known, values)
        else:
            _amounts(axes, known, values)
        axes.set_xlim(-0.6, len(MEMORIES) - 0.4)
        axes.set_xticks(range(0, len(MEMORIES), 2), [_size(memory) for memory in MEMORIES[::2]])
        axes.set_xlabel("local memory, double-buffered")
        axes.set_title(f"{name}: {titles[name]}", fontweight="bold", pad=20)
        if number == 0:
            axes.set_ylabel("share of cycles" if relative else "cycles")
        _name_runs(axes, [schedule for schedule, _ in rows])
    plotting.save(figure, path)


def _shares(axes: Axes, places: Sequence[int], values: Mapping[str, Values]) -> None:
    from matplotlib.ticker import FuncFormatter

    total = sum(values.values(), np.zeros(len(places)))
    base = np.zeros(len(places))
    for part, counts in values.items():
        share = counts / total
        words, colour = PARTS[part]
        axes.bar(places, share, 1.0, bottom=base, color=colour, linewidth=0)
        widest = int(share.argmax()) if part != "compute" else len(places) - 3
        if share[widest] > 0.08:
            axes.text(
                places[widest] - (0.38 if part != "compute" else 0),
                base[widest] + share[widest] * (0.5 if part == "compute" else 0.8),
                words,
                color=plotting.text_colour(colour),
                va="center",
                ha="left" if part != "compute" else "center",
                fontsize=8.5,
            )
        base = base + share
    axes.set_ylim(0, 1)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{100 * y:.0f} %"))


def _amounts(axes: Axes, places: Sequence[int], values: Mapping[str, Values]) -> None:
    from matplotlib.ticker import FuncFormatter

    total = sum(values.values(), np.zeros(len(places)))
    axes.set_yscale("log")
    for part, counts in {**values, "total": total}.items():
        colour = INK if part == "total" else PARTS[part][1]
        under = part == "compute"
        shown = np.where(counts > 0, counts, np.nan)
        axes.plot(places, shown, color=colour, linewidth=3.5 if under else 1.6, zorder=2 if under else 3)
    axes.text(places[0], total[0] * 1.35, "total", color=INK, fontsize=8.5, ha="left", va="bottom")
    axes.set_ylim(None, total.max() * 3)
    low, high = np.log(axes.get_ylim())
    names = sorted(values, key=lambda part: float(values[part][-1]))
    heights = _apart(
        [float(np.log(max(values[name][-1], 1))) for name in names], (high - low) / 20, low, high
    )
    for name, height in zip(names, heights, strict=True):
        dark = "#6B7B8C" if name == "compute" else PARTS[name][1]
        right = len(MEMORIES) - 0.75
        axes.text(right, np.exp(height), PARTS[name][0], color=dark, fontsize=8.5, va="center")
    best = int(total.argmin())
    axes.plot([places[best]], [total[best]], "o", color=INK, markersize=5, zorder=4)
    axes.annotate(
        f"fewest at {_size(MEMORIES[places[best]])}",
        (places[best], total[best]),
        xytext=(0, 9),
        textcoords="offset points",
        ha="center",
        fontsize=8.5,
    )
    axes.grid(axis="y", color=PALE, linewidth=0.6)
    axes.yaxis.set_major_formatter(FuncFormatter(_short_number))
    axes.minorticks_off()


def _short_number(value: float, _: object = None) -> str:
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if value >= limit:
            return f"{value / limit:g}{unit}"
    return f"{value:g}"


def _name_runs(axes: Axes, schedules: Sequence[str]) -> None:
    """Write over the axes which schedule is the best one, memory by memory."""
    place = 0
    for schedule, run in groupby(schedules):
        length = len(list(run))
        if schedule:
            across = axes.get_xaxis_transform()
            colour = COLOURS[schedule]
            axes.plot(
                [place - 0.4, place + length - 0.6],
                [1.02, 1.02],
                color=colour,
                linewidth=2.5,
                transform=across,
                clip_on=False,
                solid_capstyle="butt",
            )
            words = f"best: {NAMES[schedule]}" if length > 3 else NAMES[schedule]
            middle = place + length / 2 - 0.5
            axes.text(middle, 1.035, words, transform=across, color=colour, ha="center", fontsize=8)
        place += length


@plotting.style()
def figure_roofline(
    nest: Nest, solutions: Cloud, theirs: Sequence[Point], ours: Sequence[Point], path: Path
) -> None:
    """Draw every solution of the thesis's model under the roofs, and its front and the exact one enlarged."""
    from matplotlib.ticker import FuncFormatter

    dsp = nest.machine
    peak = dsp.clock_mhz * 2 * dsp.macs_per_cycle / 1000
    bandwidth = dsp.clock_mhz * dsp.bus_elements_per_cycle * dsp.element_bytes / 1000
    figure = plotting.new_figure(12.6, 5.1)
    axes = plotting.add_axes(figure, 0.7, 0.4, 5.0, 4.1)
    colours = np.array([COLOURS[name] for name in SCHEDULES])
    names = {name: number for number, name in enumerate(SCHEDULES)}
    kind = np.array([names[str(name)] for name in solutions.schedule])
    # Of solutions on one dot, one is drawn; in random order, lest the last schedule hides the others.
    dots = [np.round(np.log(values) * 120) for values in (solutions.ops_per_byte, solutions.gops)]
    _, shown = np.unique(np.stack([*dots, kind]), axis=1, return_index=True)
    shown = np.random.default_rng(0).permutation(shown)
    axes.scatter(
        solutions.ops_per_byte[shown],
        solutions.gops[shown],
        s=2.5,
        c=colours[kind[shown]],
        alpha=0.4,
        linewidth=0,
        rasterized=True,
    )
    highest = max(float(solutions.ops_per_byte.max()), max(point.ops_per_byte for point in ours))
    reach = np.array([0.5, peak / bandwidth, 1.35 * highest])
    axes.plot(reach, np.minimum(peak, bandwidth * reach), color=INK, linewidth=1.2)
    axes.text(1.3, peak * 1.07, f"{peak:g} GOps/s", fontsize=8.5, color=INK)
    axes.text(0.42, bandwidth * 0.3, f"bus\n{bandwidth:g} GB/s", fontsize=8.5, color=INK)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(0.4, 1.45 * highest)
    axes.set_ylim(float(solutions.gops.min()) * 0.8, peak * 1.6)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(_short_number))
    axes.grid(color=PALE, linewidth=0.6)
    axes.set_xlabel("memory efficiency, Ops/byte")
    axes.set_ylabel("throughput, GOps/s")
    axes.set_title(f"{len(solutions.gops):,} tiles and schedules, as published", fontweight="bold")
    for row, schedule in enumerate(reversed(SCHEDULES)):
        axes.text(
            0.985, 0.04 + 0.05 * row, NAMES[schedule], color=COLOURS[schedule], transform=axes.transAxes,
            ha="right", fontsize=8.5, fontweight="bold",
        )  # fmt: skip
    zoom = plotting.add_axes(figure, 6.65, 0.4, 5.7, 4.1)
    both = [*theirs, *ours]
    low, high = min(p.ops_per_byte for p in both), max(p.ops_per_byte for p in both)
    slow = min(point.gops for point in both)
    near = np.flatnonzero(
        (solutions.ops_per_byte > 0.9 * low) & (solutions.gops > slow - 0.2 * (peak - slow))
    )
    zoom.scatter(
        solutions.ops_per_byte[near],
        solutions.gops[near],
        s=7,
        c=colours[kind[near]],
        alpha=0.45,
        linewidth=0,
        rasterized=True,
    )
    zoom.axhline(peak, color=INK, linewidth=1.2)
    zoom.text(low, peak, " peak", fontsize=8.5, va="bottom")
    _stairs(zoom, theirs, GREY)
    _stairs(zoom, ours, INK)
    for number, point in enumerate(theirs):
        zoom.plot(
            point.ops_per_byte, point.gops, "o", markersize=8, color=COLOURS[point.schedule],
            markeredgecolor="white", zorder=5,
        )  # fmt: skip
        zoom.annotate(
            "ABCDEFGHIJKLMNOPQRSTUVWXYZ"[number % 26],
            (point.ops_per_byte, point.gops),
            xytext=(9, -12),
            textcoords="offset points",
            ha="center",
            fontsize=9,
            fontweight="bold",
            color=COLOURS[point.schedule],
        )
    for point in ours:
        zoom.plot(
            point.ops_per_byte, point.gops, "D", markersize=6, color=INK, markeredgecolor="white", zorder=6
        )
    zoom.text(
        low, slow, "● not dominated in the thesis's model\n◆ exact, any order of the loops", fontsize=8.5,
        va="bottom", linespacing=1.5,
    )  # fmt: skip
    zoom.set_xlim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    zoom.set_ylim(slow - 0.12 * (peak - slow), peak + 0.07 * (peak - slow))
    zoom.grid(color=PALE, linewidth=0.6)
    zoom.set_xlabel("memory efficiency, Ops/byte")
    zoom.set_title("The trade-off, enlarged", fontweight="bold")
    plotting.save(figure, path)


def _stairs(axes: Axes, points: Sequence[Point], colour: str) -> None:
    """Draw the border of what a front dominates."""
    across = [point.ops_per_byte for point in points]
    up = [point.gops for point in points]
    axes.step([0, *across], [up[0], *up], where="pre", color=colour, linewidth=1.1, zorder=4)
