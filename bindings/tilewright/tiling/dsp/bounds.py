"""Proven lower bounds on what a layer costs, whatever its tiles and loops; proofs in docs/tiling-bounds.md.

The bound on accesses is one of the red-blue pebble game (Hong and Kung, "I/O complexity", STOC 1981): it
holds for every order of the MACs and every choice of what to keep on chip, not only for tiled loop nests.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bounds import Bound
from tilewright.spec.arrays import distinct
from tilewright.tiling.dsp.cost import energy
from tilewright.tiling.dsp.nest import Nest, X, Y

Counts = NDArray[np.int64]
Reals = NDArray[np.float64]

PARTS = 4
"""Charges of loads are multiples of one over this."""

CHARGES = np.array([c for c in product(range(1, PARTS + 1), repeat=3) if max(c) == PARTS])
"""Candidates for what a load of an input, of a weight and a stay of an output is charged, in parts."""

GROWTH = 1.1
"""Ratio of one candidate for the number of windows to the next; the bound is flat around its maximum."""

MARGIN = 1e-11
"""Relative error that sums and roots in floating point are allowed, many times what they can have."""


@dataclass(frozen=True, kw_only=True)
class LayerBound(Bound):
    """A lower bound on the cost of every plan of a layer, and what it follows from.

    Its name is the argument: ``compulsory``, ``pebble game``, or ``compute`` where the core's work is what
    counts.

    Attributes
    ----------
    accesses
        Bound on the elements that any schedule loads and writes, tiled or not.
    bits
        Bound on the bits of these, on a machine that gives widths.
    parameters
        What is needed to recompute it.
    """

    accesses: int
    bits: int | None = None
    parameters: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        shown = ", ".join(f"{key} {value}" for key, value in self.parameters.items())
        least = f"{self.accesses} accesses" if self.bits is None else f"{self.bits} bits of accesses"
        return f"{self.name} bound: at least {least}" + (f" ({shown})" if shown else "")


@lru_cache(maxsize=256)
def best_bound(nest: Nest, minimise: str, local: int) -> LayerBound:
    """Return the strongest bound of this module on what a plan costs.

    Parameters
    ----------
    minimise : {"accesses", "cycles", "energy"}
        Of a Pareto front it is the fewest cycles that are bounded.
    local
        Units of local traffic of the layer (`exact.local_traffic`).
    """
    work = Work.of(nest)
    game = pebble_game(nest, nest.machine.buffer_capacity, work, nest.machine.units[:3])
    name, moved, parameters = game.name, in_units(nest, work, game), game.parameters
    bits = None if nest.machine.bits is None else moved
    if nest.compulsory_units > moved:
        # Tiles load whole boxes: with dilation, or a stride above the kernel's size, more than MACs need.
        name, moved, parameters = "compulsory", nest.compulsory_units, {}
    steps = fewest_tiles(nest, work)
    if minimise == "accesses":
        return LayerBound(name, moved, steps, accesses=game.accesses, bits=bits, parameters=parameters)
    transfers = fewest_transfers(nest, moved, steps)
    compute = -(-nest.macs // nest.machine.macs_per_cycle)
    if minimise == "energy":
        busy = compute + nest.machine.dma_setup_cycles * transfers
        value = energy(nest.machine, moved, busy, local)
        return LayerBound(name, value, steps, accesses=game.accesses, bits=bits, parameters=parameters)
    core, bus = _cycles(nest, moved, transfers, compute, local)
    if core > bus:
        name, parameters = "compute", {}
    return LayerBound(name, max(core, bus), steps, accesses=game.accesses, bits=bits, parameters=parameters)


# Accesses ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """MACs, each weighted with 1 / sqrt(uses of its input by one output map) (lemma 2).

    Zeros that are generated on chip are no inputs, and their MACs have weight 0.

    Attributes
    ----------
    needed
        Inputs that some MAC needs.
    macs
        MACs with an input.
    total
        Weight of all MACs.
    least, most
        Smallest (but 0) and largest weight of a MAC.
    uses : (input, kernels, output)
        Most weight of the MACs of one input, one weight, one output.
    """

    needed: int
    macs: int
    total: float
    least: float
    most: float
    uses: tuple[float, float, float]

    @classmethod
    def of(cls, nest: Nest) -> Work:
        """Count; rows and columns are independent, so one axis at a time."""
        groups, batch, kernels, _, _, channels = nest.sizes
        rows, columns = (_Line.of(nest, axis) for axis in (Y, X))
        maps = groups * batch * kernels * channels
        return cls(
            needed=batch * groups * channels * rows.needed * columns.needed,
            macs=maps * rows.pairs * columns.pairs,
            total=maps * rows.total * columns.total,
            least=rows.least * columns.least,
            most=rows.most * columns.most,
            uses=(
                kernels / (rows.least * columns.least),
                batch * rows.by_tap * columns.by_tap,
                channels * rows.by_output * columns.by_output,
            ),
        )


class _Line(NamedTuple):
    """The same along one axis, where MACs are pairs of an output row and a kernel row.

    Attributes
    ----------
    by_tap, by_output
        Most weight of the pairs of one kernel row, of one output row.
    """

    needed: int
    pairs: int
    total: float
    least: float
    most: float
    by_tap: float
    by_output: float

    @classmethod
    def of(cls, nest: Nest, axis: int) -> _Line:
        side, outputs = axis - Y, nest.sizes[axis]
        stride, dilation = nest.layer.stride[side], nest.layer.dilation[side]
        uses = np.zeros(nest.layer.padded_plane[side], dtype=np.int64)
        starts = range(0, nest.layer.kernel[side] * dilation, dilation)
        taps = [slice(start, start + (outputs - 1) * stride + 1, stride) for start in starts]
        for tap in taps:
            uses[tap] += 1
        if nest.machine.padding == "generated":
            before = nest.layer.padding[2 * side]
            uses[:before] = 0
            uses[before + nest.layer.input[1 + side] :] = 0
        weight = np.zeros(len(uses))
        weight[uses > 0] = 1 / np.sqrt(uses[uses > 0])
        by_output = np.zeros(outputs)
        for tap in taps:
            by_output += weight[tap]
        return cls(
            needed=int(np.count_nonzero(uses)),
            pairs=int(uses.sum()),
            total=float(by_output.sum()),
            least=float(weight[uses > 0].min(initial=1)),  # no input at all where every tap meets padding
            most=float(weight.max()),
            by_tap=max(float(weight[tap].sum()) for tap in taps),
            by_output=float(by_output.max()),
        )


class Game(NamedTuple):
    """A bound on the accesses of every schedule, and how it is found again."""

    name: str
    accesses: int
    parameters: dict[str, Any]


def compulsory(nest: Nest, work: Work) -> tuple[int, int, int]:
    """Return the inputs, weights and outputs that every schedule moves (theorem 1)."""
    return work.needed, nest.n_weights, nest.n_outputs


def pebble_game(
    nest: Nest, capacity: int, work: Work | None = None, widths: tuple[int, int, int] = (1, 1, 1)
) -> Game:
    """Bound the accesses of every schedule on a memory of `capacity` elements (theorem 2).

    Cut into windows, a schedule pays in each for what the window's MACs need and the memory does not hold
    when it begins. Every number of windows and all charges are valid; the best of many is returned.

    Parameters
    ----------
    widths
        Of an input, a weight and a sum, in the unit of the capacity.

    Notes
    -----
    The windows and the constant are those of T. M. Smith, B. Lowery, J. Langou and R. van de Geijn, "A tight
    I/O lower bound for matrix multiplication" (arXiv:1702.02017). That overlapping kernel windows use an
    input again enters as in X. Chen, Y. Han and Y. Wang, "Communication lower bound in convolution
    accelerators" (HPCA 2020), but exactly, input by input.
    """
    work = work or Work.of(nest)
    totals = compulsory(nest, work)
    windows, charged = _charged(work)
    best = Game("compulsory", sum(totals), {})
    if len(windows):
        # The most that a window is spared: the charges of what the memory holds when it begins.
        held = (CHARGES * capacity // np.array(widths)).max(axis=1)
        credit = (PARTS - CHARGES) @ np.array(totals, dtype=np.float64)
        value = windows[:, None] * charged - (windows[:, None] - 1.0) * held + credit
        row, column = np.unravel_index(int(value.argmax()), value.shape)
        number, chosen = int(windows[row]), CHARGES[column].tolist()
        parts = number * int(charged[row, column]) - (number - 1) * int(held[column])
        parts += sum((PARTS - charge) * total for charge, total in zip(chosen, totals, strict=True))
        accesses = -(-parts // PARTS)
        if accesses > best.accesses:
            shown = ":".join(f"{charge / PARTS:g}" for charge in chosen)
            best = Game("pebble game", accesses, {"windows": number, "charges": shown})
    return best


def in_units(nest: Nest, work: Work, game: Game) -> int:
    """Bound the units that every schedule moves, given a bound on the elements.

    What it moves beyond each input, weight and output once is an input, a weight or a partial sum.
    """
    units, totals = nest.machine.units, compulsory(nest, work)
    once = sum(total * width for total, width in zip(totals, units[:3], strict=True))
    return once + (game.accesses - sum(totals)) * min(units.input, units.kernels, units.partial)


@lru_cache(maxsize=256)
def _charged(work: Work) -> tuple[Counts, Reals]:
    """Return numbers of windows, and what each of that many is charged at least, by charges."""
    windows, share = _windows(work)
    return windows, _fewest_charges(CHARGES, share, work)


def _windows(work: Work) -> tuple[Counts, Reals]:
    """Return numbers of windows, the same for every memory, and the least weight of a window's MACs."""
    most = min(work.macs, 2**40)
    numbers = distinct((2 * GROWTH ** np.arange(300)).astype(np.int64))
    numbers = numbers[numbers <= most]
    # Windows of equal weight but for one MAC, or of equally many MACs.
    by_weight = work.total / numbers - work.most
    by_count = work.least * np.array([work.macs // int(number) for number in numbers], dtype=np.float64)
    return numbers, np.maximum(by_weight, by_count) * (1 - MARGIN)


def _fewest_charges(charges: Counts, share: Reals, work: Work) -> Reals:
    """Return the least that windows of certain weights are charged for all they need (lemma 4).

    It is the minimum of ``charges @ x`` over the inputs, weights and outputs x = (a, b, c) of a window with
    a * b * c >= share**2 (lemma 2) and no x below share / uses. Where all x are free, charges * x are equal;
    those that would be too small are set to their least, which only lowers the others.

    Returns
    -------
    parts : float, shape (shares, charges)
        In parts of an access, rounded up.
    """
    least = np.maximum(np.ceil(share[:, None] / np.array(work.uses) * (1 - MARGIN)), 1)
    least = np.broadcast_to(least[:, None, :], (len(share), len(charges), 3))
    free = np.ones(least.shape, dtype=bool)
    need = 2 * np.log(share)[:, None, None]
    for _ in range(3):
        fixed = np.where(free, -np.log(charges), np.log(least)).sum(axis=2, keepdims=True)
        level = np.exp((need - fixed) / np.maximum(free.sum(axis=2, keepdims=True), 1))
        x = np.where(free, level / charges, least)
        free = free & (x >= least)
    x = np.maximum(x, least)
    parts: Reals = np.ceil((charges * x).sum(axis=2) * (1 - MARGIN))
    return parts


# Tiles, transfers, cycles --------------------------------------------------------------------------


def fewest_tiles(nest: Nest, work: Work) -> int:
    """Bound the tiles of a plan from below: the memory limits the operands and the MACs of a tile."""
    capacity, (*each, _) = nest.machine.buffer_capacity, nest.machine.units
    most = (capacity / 3) ** 1.5 / np.sqrt(np.prod(each, dtype=np.float64)) * (1 + MARGIN)
    # No tile has more of an operand than the memory holds beside one element of each other operand.
    rooms = ((capacity - sum(each) + width) // width for width in each)
    pieces = (-(-total // room) for total, room in zip(compulsory(nest, work), rooms, strict=True))
    return max(1, int(np.ceil(work.total * (1 - MARGIN) / most)), *pieces)


def fewest_transfers(nest: Nest, accesses: int, tiles: int) -> int:
    """Bound the transfers of a plan from below, given bounds on its accesses (in units) and tiles.

    The first tile loads its input and weights, the last writes its output. From one tile to the next at least
    two operands change, each of which takes a transfer, but for an input whose new part is generated padding.
    No transfer moves more than the memory holds beside one element of each other operand.
    """
    each = 1 if nest.machine.padding == "generated" else 2
    *widths, _ = nest.machine.units
    largest = nest.machine.buffer_capacity - sum(widths) + max(widths)
    return max(3 + each * (tiles - 1), -(-accesses // largest))


def _cycles(nest: Nest, accesses: int, transfers: int, compute: int, local: int) -> tuple[int, int]:
    """Bound cycles by the work of the core and by that of the bus; `duration` has the model.

    With double buffering both work at the same time but for the first loads and the last write, during which
    the core only sets them up. Without, one follows the other.
    """
    machine = nest.machine
    bus, setup, units = machine.bus_units_per_cycle, machine.dma_setup_cycles, machine.units
    if not machine.double_buffering:
        moving = setup * transfers + -(-accesses // bus)
        return moving + compute, moving + -(-local // bus)
    plane = int(nest.axis(Y, 1).full[0] * nest.axis(X, 1).full[0])
    ends = sum(-(-moved // bus) for moved in (plane * units.input, nest.window * units.kernels, units.output))
    return setup * transfers + ends + compute, 3 * setup + -(-(accesses + local) // bus)
