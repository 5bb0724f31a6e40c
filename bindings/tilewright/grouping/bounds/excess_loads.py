"""Fewest loads of plans of small groups on any layer: theorems found by searches over the whole plane.

The *surplus* of a sequence of n disjoint groups with N patches and L loads is L - N - rate * n, for a K x K
kernel with stride 1. docs/bounds.md, theorem 4, proves that the search finds a lower bound of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

from tilewright.grouping.problem import Problem

Last = tuple[int, int]
"""Patches and pixels of the last group of a sequence."""

STATES = 5_000_000
"""Most states that a search keeps, in 1.5 GB."""


@dataclass(frozen=True)
class ExcessTheorem:
    """A lower bound on the surplus of all sequences of small groups, as a search has proven it.

    Attributes
    ----------
    kernel
        Side of the kernel.
    group
        Most patches of a group.
    rate
        Pixels that each step counts.
    by_last
        Least surplus of all sequences by their last group, counted in parts of a pixel (`parts`).
    held
        Fewest pixels on chip of a done patch for the search to remember it, see `search_plane`.
    """

    kernel: int
    group: int
    rate: Fraction
    by_last: Mapping[Last, int]
    held: int = 1

    @property
    def parts(self) -> int:
        """Number of parts that a pixel counts."""
        return self.rate.denominator

    @property
    def least(self) -> Fraction:
        """Least surplus of all sequences."""
        return Fraction(min(self.by_last.values()), self.parts)


# fmt: off
_THREE = {
    (1, 9): 32, (2, 12): 42, (2, 14): 44, (2, 15): 44, (2, 16): 51, (2, 17): 56, (2, 18): 52,
    (3, 15): 44, (3, 17): 50, (3, 18): 48, (3, 19): 56, (3, 20): 56, (3, 21): 56, (3, 22): 62,
    (3, 23): 62, (3, 24): 62, (3, 25): 68, (3, 26): 70, (3, 27): 70,
}
_TWO = {(1, 9): 6, (2, 12): 8, (2, 14): 7, (2, 15): 8, (2, 16): 9, (2, 17): 10, (2, 18): 10}
# fmt: on

KNOWN = (
    ExcessTheorem(2, 2, Fraction(1), {(1, 4): 2, (2, 6): 3, (2, 7): 3, (2, 8): 3}),
    ExcessTheorem(3, 2, Fraction(2), _TWO),
    ExcessTheorem(3, 3, Fraction(8, 5), _THREE, held=7),
)
"""What `search_plane` has found; the searches take 1 s, 1 s and 10 s, and a minute to compile."""


def known_theorems(problem: Problem, group: int) -> list[ExcessTheorem]:
    """Return the theorems that hold for plans whose groups have at most `group` patches.

    There are none for large groups, nor for other than square kernels with stride 1 whose padding, if any, is
    loaded.
    """
    kernel = plain_kernel(problem)
    return [theorem for theorem in KNOWN if theorem.kernel == kernel and group <= theorem.group]


def plain_kernel(problem: Problem) -> int | None:
    """Return the side of a square kernel with stride 1 whose padding, if any, is loaded; else None."""
    layer, (kernel, width) = problem.layer, problem.layer.kernel
    dense = kernel == width and {*layer.stride, *layer.dilation} == {1}
    return kernel if dense and not problem.generates_padding else None


def search_plane(
    kernel: int, group: int, rate: Fraction, held: int = 1, states: int = STATES
) -> dict[Last, Fraction]:
    """Search the plane for the least surplus of sequences of groups.

    Parameters
    ----------
    kernel
        Side of the kernel, 2 or 3.
    group
        Most patches of a group, 1 to 4.
    rate
        Pixels that each step counts.
    held
        Fewest pixels on chip of a done patch for the search to remember it. A larger number gives fewer
        states, but may give a smaller surplus.
    states
        Most states to keep.

    Returns
    -------
    dict
        Least surplus by the patches and pixels of the last group.

    Raises
    ------
    ValueError
        For other kernels and groups.
    MemoryError
        If there are more states.
    """
    # For start-up time: the compiler takes a second to import, and known theorems need no search.
    from tilewright.grouping.bounds.plane_search import MOST, MUCH, Kind, follow, store

    if kernel not in (2, 3) or not 1 <= group <= MOST:
        raise ValueError(f"kernel {kernel}, group {group}: kernels of 2 or 3 and groups of 1 to {MOST}")
    parts = rate.denominator
    kept = store(states)
    kind = Kind(kernel, group, parts, rate.numerator, held)
    while left := follow(kind, kept, 1000):
        if left < 0:
            raise MemoryError(f"more than {states} states have to be kept")
    found = kept.least
    return {
        (patches, pixels): Fraction(int(found[patches, pixels]), parts)
        for patches in range(1, group + 1)
        for pixels in range(found.shape[1])
        if found[patches, pixels] < MUCH
    }
