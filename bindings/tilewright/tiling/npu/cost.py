"""Closed form of an NPU plan's time, for one plan or for arrays of them.

Sums over all tiles are products of sums over the tiles of rows, of columns, of filters and of maps, which
are taken for whole arrays of steps. `Reading` has what equations 3 to 9 leave open; by default it is
what the simulator executes, and docs/npu.md says how that was chosen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.tiling.npu.cut import BYTE, Cut, Span, quotient
from tilewright.tiling.npu.plan import NpuPlan

Counts = NDArray[np.int64]
Steps = tuple[Any, Any, Any, Any]
"""Steps m, n, r and c: numbers, or arrays that broadcast."""


@dataclass(frozen=True)
class Reading:
    """What the paper's equations leave open.

    Attributes
    ----------
    input
        Who loads an input tile: the TLE for all its cores, each of its cores, or one core, whose transfers of
        every operand stand for those of all.
    edges
        Whether tiles at the edges count at their true size or, as printed, as full ones.
    cores
        Whether the slowest core counts, or all work is spread evenly over all cores (equation 8).
    padding
        Whether the padding around the input is transferred with it.
    idle
        Whether a TLE that has less work, or none, counts with that or with as much as the others (the #TLEs
        of equations 3 to 5).
    """

    input: Literal["shared", "each", "one core"] = "shared"
    edges: Literal["true", "full"] = "true"
    cores: Literal["slowest", "even"] = "slowest"
    padding: Literal["moved", "left"] = "moved"
    idle: Literal["nothing", "full"] = "nothing"


OURS = Reading()
"""What the simulator executes."""


@dataclass(frozen=True)
class Cost:
    """The work of one plan or of many; ``time = cycles * cycle_ps + bytes * byte_ps + bursts * burst_ps``.

    Attributes
    ----------
    cycles
        Of the slowest core in each step, added up.
    input, weights, output
        Elements moved of each operand.
    load_bursts, store_bursts
        DRAM bursts of the transfers to the chip and from it.
    bytes
        Of all transfers: what stands alone in DRAM takes whole ones.
    """

    cycles: Any
    input: Any
    weights: Any
    output: Any
    load_bursts: Any
    store_bursts: Any
    bytes: Any

    @property
    def counts(self) -> tuple[Any, Any, Any]:
        """Cycles, bytes and bursts: what takes time."""
        return self.cycles, self.bytes, self.bursts

    @property
    def elements(self) -> Any:
        """Elements moved in all."""
        return self.input + self.weights + self.output

    @property
    def bursts(self) -> Any:
        """DRAM bursts of all transfers."""
        return self.load_bursts + self.store_bursts


def time_ps(cut: Cut, cost: Cost) -> Any:
    """Return the time of a cost on its machine, in picoseconds (equation 6)."""
    machine = cut.machine
    return cost.cycles * machine.cycle_ps + cost.bytes * machine.byte_ps + cost.bursts * machine.burst_ps


def accesses(cut: Cut, cost: Cost) -> Any:
    """Return what is moved from and to DRAM, in the machine's unit."""
    units = cut.machine.units
    return cost.input * units.input + cost.weights * units.kernels + cost.output * units.output


def measure(cut: Cut, cost: Cost, minimise: str) -> Any:
    """Return the time of a cost in picoseconds, or its accesses."""
    return time_ps(cut, cost) if minimise == "time" else accesses(cut, cost)


def cost(cut: Cut, plan: NpuPlan) -> Cost:
    """Return the cost of a plan, exactly as the simulator measures it."""
    return _one(totals(cut, plan.schedule, _numbers(cut, plan)))


def published(cut: Cut, plan: NpuPlan) -> Cost:
    """Return the cost of a plan with every tile counted as a full one, as equations 3 to 9 count."""
    return _one(totals(cut, plan.schedule, _numbers(cut, plan), Reading(edges="full")))


def printed(cut: Cut, schedule: str, step: Steps) -> Cost:
    """Return the cost of plans by the letter of equations 3 to 9: how often a tile is moved, times its size.

    IN, W and OUT are the tiles of one core, all TLEs have as many as the first, and no tile is a core's own:
    so with IS an output tile counts once for the filters of one core, and with OS and WS an input tile once
    for each T_M of a TLE's filters. The cycles are those of all cores of a TLE together (8). A depthwise
    layer, which the equations do not know, has N = 1, and input tiles of T_M maps.
    """
    m, n, r, c = step
    rows, width = cut.layer.output_plane
    by_rows, by_filters = cut.slices
    every, tle_rows, tle_filters = (
        cut.machine.tles,
        quotient(rows, by_rows),
        quotient(cut.filters, by_filters),
    )
    across, deep = quotient(width, c), quotient(cut.maps, n)
    plane, each = quotient(tle_rows, r) * across, quotient(tle_filters, m)
    whole_plane, whole_filters = quotient(rows, r) * across, quotient(cut.filters, m)
    stays = schedule == "WS"
    inputs = every * plane * deep * (1 if schedule == "IS" else each)
    weights = every * each if stays else every * plane * deep * (1 if schedule == "IS" else each)
    outputs = whole_plane * (1 if schedule == "IS" else whole_filters)
    # The tiles themselves.
    high, wide = cut.reach(0, r), cut.reach(1, c)
    planes_in, maps = (m if cut.depthwise else n), (cut.maps if stays else n)

    def pieces(bits: int) -> tuple[Any, Any, Any]:
        """Pieces of all transfers of each operand."""
        whole, one = high * cut.reach(1, width), partial(cut.cut_up, operand="input", bits=bits)
        loaded = np.where(c >= width, one(whole), high * one(wide))
        one = partial(cut.cut_up, operand="output", bits=bits)
        stored = np.where(c >= width, one(r * width), r * one(c))
        filters = weights * m * cut.cut_up(maps * cut.window, "weights", bits)
        return inputs * planes_in * loaded, filters, outputs * m * stored

    bursts = pieces(cut.burst_bits)
    tile_cycles = n * m * quotient(r * c * cut.window, cut.machine.macs_per_cycle)
    found = (
        whole_filters * deep * whole_plane * tile_cycles,
        inputs * planes_in * high * wide,
        weights * m * maps * cut.window,
        outputs * m * r * c,
        bursts[0] + bursts[1],
        bursts[2],
        sum(pieces(BYTE)),
    )
    return Cost(*(value * cut.repeats for value in found))


def _numbers(cut: Cut, plan: NpuPlan) -> Steps:
    m, n, r, c = (np.int64(step) for step in cut.step(plan.tile))
    return m, n, r, c


def _one(found: Cost) -> Cost:
    return Cost(*(int(value) for value in vars(found).values()))


def totals(cut: Cut, schedule: str, step: Steps, reading: Reading = OURS) -> Cost:
    """Return the cost of plans, valid or not.

    With ``cores = "even"`` the cycles are those of all cores together.
    """
    m, n, r, c = step
    layer = cut.layer
    full = reading.edges == "full"
    rows, cores = cut.rows, cut.cores
    if reading.idle == "full":
        rows, cores = (rows[0],) * cut.slices[0], (cores[0],) * cut.slices[1]
    add: Callable[..., Any] = partial(add_up, full=full)
    # Filters: of the cores whose transfers count; how often an input tile is loaded for them.
    most = [_length(slice_[0]) for slice_ in cores]
    every = [_length(core) for slice_ in cores for core in slice_]
    filters = add(most if reading.input == "one core" else every, m)
    loads = add_up(every if reading.input == "each" else most, m, np.ones_like)
    # Input maps.
    maps = add([cut.maps], n)
    stays = schedule == "WS"

    def of_filter(bits: int) -> Any:
        def pieces(maps: Any) -> Any:
            return cut.cut_up(maps * cut.window, "weights", bits)

        return pieces(cut.maps) if stays else add([cut.maps], n, pieces)

    # Rows and columns.
    plane = planes(cut, r, c, rows, reading)
    again, weight_maps = (len(rows), cut.maps) if stays else (plane.tiles, maps)
    planes_loaded = filters if cut.depthwise else loads * maps
    if reading.cores == "slowest":
        busy, positions = add(most[:1], m), rounds(cut, r, c, _length(cut.rows[0]), full)
    else:
        busy, positions = add([cut.filters], m), rounds(cut, r, c, layer.output_plane[0], full)
    found = (
        busy * maps * positions,
        planes_loaded * plane.input,
        filters * weight_maps * cut.window * again,
        filters * plane.output,
        planes_loaded * plane.input_bursts + filters * again * of_filter(cut.burst_bits),
        filters * plane.output_bursts,
        planes_loaded * plane.input_bytes + filters * (again * of_filter(BYTE) + plane.output_bytes),
    )
    return Cost(*(value * cut.repeats for value in found))


class Planes(NamedTuple):
    """Cost of the tiles of one map in all TLEs that share its rows.

    Attributes
    ----------
    tiles
        How many there are.
    input, output
        Elements of all of them.
    input_bursts, output_bursts
        Bursts that move them.
    input_bytes, output_bytes
        What they take in DRAM.
    """

    tiles: Any
    input: Any
    output: Any
    input_bursts: Any
    output_bursts: Any
    input_bytes: Any
    output_bytes: Any


def planes(cut: Cut, r: Any, c: Any, rows: Sequence[Span] | None = None, reading: Reading = OURS) -> Planes:
    """Return the cost of the tiles of r rows and c columns of one map."""
    width = cut.layer.output_plane[1]
    spans = cut.rows if rows is None else rows
    add: Callable[..., Any] = partial(add_up, full=reading.edges == "full")
    heights = [_length(span) for span in spans]
    down, across = partial(add, heights, r), partial(add, [width], c)
    if reading.padding == "moved":
        reach = [partial(cut.reach, side) for side in (0, 1)]
        high, wide, stored = down(reach[0]), across(reach[1]), cut.reach(1, width)

        def over(side: int, of: Callable[[Any], Any]) -> Any:
            return (down, across)[side](lambda size: of(reach[side](size)))
    else:
        stored = min(cut.reach(1, width) - cut.layer.padding[2], cut.layer.input[2])

        def over(side: int, of: Callable[[Any], Any]) -> Any:
            tiled = (spans, r) if side == 0 else ([(0, width)], c)
            return _clipped(cut, side, *tiled, reading, of)

        high, wide = (over(side, lambda size: size) for side in (0, 1))

    def loaded(bits: int) -> Any:
        pieces = partial(cut.cut_up, operand="input", bits=bits)
        return np.where(c >= width, over(0, lambda h: pieces(h * stored)), high * over(1, pieces))

    def written(bits: int) -> Any:
        pieces = partial(cut.cut_up, operand="output", bits=bits)
        return np.where(c >= width, down(lambda h: pieces(h * width)), down() * across(pieces))

    sizes = cut.burst_bits, BYTE
    tiles = add_up(heights, r, np.ones_like) * add_up([width], c, np.ones_like)
    moved = [pieces(bits) for bits in sizes for pieces in (loaded, written)]
    return Planes(tiles, high * wide, down() * across(), *moved)


def rounds(cut: Cut, r: Any, c: Any, rows: int, full: bool = False) -> Any:
    """Return the cycles in which a core adds one input map to `rows` of an output map (equation 7)."""

    def cycles(height: Any, width: Any) -> Any:
        return quotient(height * width * cut.window, cut.machine.macs_per_cycle)

    width = cut.layer.output_plane[1]
    return add_up([rows], r, lambda h: add_up([width], c, partial(cycles, h), full), full)


def add_up(
    lengths: Sequence[int], step: Any, of: Callable[[Any], Any] | None = None, full: bool = False
) -> Any:
    """Add up `of` (by default the size) over all tiles, each as long as a step or, the last, as what is left.

    Parameters
    ----------
    lengths
        Of the parts that are cut into tiles one by one.
    full
        The last tile counts as a full one.
    """
    total: Any = 0
    of = of or (lambda size: size)
    for length, parts in Counter(lengths).items():
        count, rest = np.divmod(length, step)
        if full:
            total = total + parts * ((count + (rest > 0)) * of(step))
        else:
            total = total + parts * (count * of(step) + np.where(rest > 0, of(rest), 0))
    return total


def _clipped(
    cut: Cut,
    side: int,
    spans: Sequence[Span],
    steps: Any,
    reading: Reading,
    of: Callable[[Any], Any] = lambda size: size,
) -> Any:
    """Add up `of` over the input rows (or columns) of all tiles, those of the padding left out."""
    layer = cut.layer
    before, size = layer.padding[2 * side], layer.input[1 + side]
    found = []
    for step in np.ravel(steps):
        total = 0
        for first, last in spans:
            starts = np.arange(first, last, step)
            lengths = (
                np.full_like(starts, step) if reading.edges == "full" else np.minimum(step, last - starts)
            )
            begin = starts * layer.stride[side] - before
            end = begin + cut.reach(side, lengths)
            total += of(np.minimum(end, size) - np.maximum(begin, 0)).sum()
        found.append(total)
    return np.array(found).reshape(np.shape(steps))


def _length(span: Span) -> int:
    return span[1] - span[0]
