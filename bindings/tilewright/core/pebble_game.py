"""A bound on what every schedule of a layer moves through one memory; proofs in docs/tiling-bounds.md.

It is one of the red-blue pebble game (Hong and Kung, "I/O complexity", STOC 1981): it holds for every order
of the MACs and every choice of what to keep on chip, not only for tiled loop nests.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.arrays import distinct
from tilewright.spec.layer import Layer

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


@dataclass(frozen=True)
class Work:
    """MACs, each weighted with 1 / sqrt(uses of its input by one output map) (lemma 2).

    Zeros that are generated on chip are no inputs, and their MACs have weight 0.

    Attributes
    ----------
    totals : (input, kernels, output)
        Inputs that some MAC needs, weights and outputs: what every schedule moves (theorem 1).
    macs
        MACs with an input.
    total
        Weight of all MACs.
    least, most
        Smallest (but 0) and largest weight of a MAC.
    uses : (input, kernels, output)
        Most weight of the MACs of one input, one weight, one output.
    """

    totals: tuple[int, int, int]
    macs: int
    total: float
    least: float
    most: float
    uses: tuple[float, float, float]

    @classmethod
    def of(cls, layer: Layer, *, generated: bool = False) -> Work:
        """Count; rows and columns are independent, so one axis at a time.

        Parameters
        ----------
        generated
            Whether padding is made on chip.
        """
        groups, batch = layer.groups, layer.batch
        kernels, channels = layer.kernels // groups, layer.input[0] // groups
        rows, columns = (_Line.of(layer, side, generated) for side in (0, 1))
        maps = groups * batch * kernels * channels
        needed = batch * groups * channels * rows.needed * columns.needed
        return cls(
            totals=(needed, int(np.prod(layer.kernels_shape)), int(np.prod(layer.output_shape))),
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
    def of(cls, layer: Layer, side: int, generated: bool) -> _Line:
        outputs, stride, dilation = layer.output_plane[side], layer.stride[side], layer.dilation[side]
        uses = np.zeros(layer.padded_plane[side], dtype=np.int64)
        starts = range(0, layer.kernel[side] * dilation, dilation)
        taps = [slice(start, start + (outputs - 1) * stride + 1, stride) for start in starts]
        for tap in taps:
            uses[tap] += 1
        if generated:
            before = layer.padding[2 * side]
            uses[:before] = 0
            uses[before + layer.input[1 + side] :] = 0
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


def pebble_game(
    work: Work, capacity: int, widths: tuple[int, int, int] = (1, 1, 1), passing: int = 0
) -> Game:
    """Bound the accesses of every schedule on a memory of `capacity` elements (theorems 2 and 3).

    Cut into windows, a schedule pays in each for what the window's MACs need and the memory does not hold
    when it begins. Every number of windows and all charges are valid; the best of many is returned.

    Parameters
    ----------
    widths
        Of an input, a weight and a sum, in the unit of the capacity.
    passing
        Elements that a MAC takes and that need not be in the memory, as they may pass by.

    Notes
    -----
    The windows and the constant are those of T. M. Smith, B. Lowery, J. Langou and R. van de Geijn, "A tight
    I/O lower bound for matrix multiplication" (arXiv:1702.02017). That overlapping kernel windows use an
    input again enters as in X. Chen, Y. Han and Y. Wang, "Communication lower bound in convolution
    accelerators" (HPCA 2020), but exactly, input by input.
    """
    totals = work.totals
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
    if work.least == work.most == 1:
        segments, accesses = product_bound(work.macs, capacity // min(widths) + passing)
        if accesses > best.accesses:
            best = Game("pebble game", accesses, {"segments": segments})
    return best


def product_bound(macs: int, capacity: int) -> tuple[int, int]:
    """Bound the accesses of every schedule of products of matrices (theorem 3).

    Parameters
    ----------
    macs
        Of all products, whatever they have in common.
    capacity
        Elements that the memory holds.

    Returns
    -------
    segments, accesses
        Parts of a schedule with as many accesses, of which no one has more than ``capacity ** 1.5`` MACs; 0
        accesses where all MACs may be in one.
    """
    each = capacity**1.5
    if macs < each * (1 + MARGIN):
        return 1, 0
    accesses = 2 * macs / np.sqrt(capacity) + (1 - 2 * 3**-1.5) * capacity
    return int(np.ceil(macs / each)), int(np.ceil(accesses * (1 - MARGIN)))


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
