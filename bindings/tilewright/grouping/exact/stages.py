"""The state space of the exact search: its stages, and what all searches of one problem share.

A stage holds the partial plans (or chains of groups) with equally many patches in equally many steps.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.core.bitsets import Words, pack
from tilewright.grouping.bounds.best import fewest_pixels
from tilewright.grouping.exact.bitsets import Bits
from tilewright.grouping.exact.pruning_kernel import Delay
from tilewright.grouping.exact.reload_intervals import NO_PREFIX_LIMITS, PrefixLimits, ReloadIntervals
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import cells, scaled_costs, symmetries

Key = tuple[int, int]
"""A stage: steps done (0 where their number is free) and patches done."""

Start = tuple[int, Words]
"""A patch that the group must have, or -1 for none; and the set of patches that it must not have."""


class StateSpace:
    """The stages of a problem, and what all searches in it share.

    Costs are counted in half units, the unit being that of `scale`.

    Parameters
    ----------
    merged
        Whether plans with fewer steps are searched elsewhere, so that two groups that fit into one are left
        to that search (theorem 9).

    Attributes
    ----------
    bits, images
        The layer as sets of bits, and its symmetries as permutations of patches.
    n_done, n_held
        Words of a set of patches, and of a set of pixels.
    load, step
        Half the cost of a load, and the cost of a step, in half units.
    size
        Most patches of a group.
    fixed, steps
        Whether the number of steps is fixed, and the fewest steps.
    missing
        Patches that complete plans are short of full groups: ``steps * size - n_patches``.
    max_pixels_by_size : int64, shape (size + 1,)
        Most pixels of a group, by its number of patches; negative where the memory holds no such group.
    most_pixels
        Most pixels of any group.
    fewest : int64, shape (n_patches + 1,)
        Fewest pixels that m patches need together, m = 0 .. n_patches.
    delays
        What is known of missing patches, see `Delay`.
    reload_intervals
        What is known of intervals in which a pixel is off chip; None where the number of steps is free.
    starts
        Partition of the first groups up to symmetry: each part prescribes one patch and excludes others.
    anywhere
        The trivial partition, for groups that follow others.
    """

    def __init__(self, problem: Problem, *, merged: bool = False) -> None:
        self.problem = problem
        parts = cells(problem)
        self.images = symmetries(problem, parts)
        self.bits = Bits.of(problem, parts, self.images)
        self.n_done, self.n_held = self.bits.pixel_patches.shape[1], self.bits.patch_pixels.shape[1]
        self.load, step = scaled_costs(problem)
        self.step = 2 * step
        self.n_patches, self.size = problem.n_patches, problem.group_size
        self.steps, most = problem.steps_range
        self.fixed = self.steps == most
        self.missing = self.steps * self.size - self.n_patches
        patch = int(problem.patch_sizes.max())
        self.max_pixels_by_size = np.minimum(problem.max_pixels_by_size, np.arange(self.size + 1) * patch)
        self.most_pixels = min(self.size * patch, len(problem.needed_pixels))
        self.fewest = fewest_pixels(problem)
        unlimited = np.minimum(np.arange(self.size + 1) * patch, self.most_pixels)
        self.delays = Delay.NONE
        if self.fixed and self.missing and (self.max_pixels_by_size >= unlimited).all():
            self.delays = Delay.MERGED if merged else Delay.DELAYED
        self.reload_intervals = ReloadIntervals(problem, self.bits) if self.fixed else None
        self.pixels = np.arange(self.most_pixels + 1)
        self.anywhere: list[Start] = [(-1, np.zeros(self.n_done, np.uint64))]
        self.starts = self._starts()

    @property
    def end(self) -> Key:
        """The stage of complete plans."""
        return (self.steps if self.fixed else 0, self.n_patches)

    def _starts(self) -> list[Start]:
        """Divide the first groups by the first orbit of patches, under the symmetries, that they meet."""
        orbits = {tuple(sorted({int(image[p]) for image in self.images})) for p in range(self.n_patches)}
        starts: list[Start] = []
        earlier = np.zeros(64 * self.n_done, bool)
        for orbit in sorted(orbits):
            starts.append((orbit[0], pack(earlier)))
            earlier[list(orbit)] = True
        return starts

    def possible(self, key: Key) -> bool:
        """Return whether consecutive steps of some plan can compute the patches of a stage together."""
        if not self.fixed:
            return 0 < key[1] <= self.n_patches
        return 0 < key[0] <= min(key[1], self.steps) and 0 <= self.missing_patches(key) <= self.missing

    def all_stages(self) -> list[Key]:
        """Return all stages but the first, in the order of the search."""
        steps = range(1, self.steps + 1) if self.fixed else (0,)
        return [(k, n) for k in steps for n in range(1, self.n_patches + 1) if self.possible((k, n))]

    def groups(self, key: Key) -> Iterator[tuple[int, Key]]:
        """Yield the possible sizes of the next group, each with the stage that it leads to."""
        for size in range(1, min(self.size, self.n_patches - key[1]) + 1):
            after = (key[0] + 1 if self.fixed else 0, key[1] + size)
            enough = not self.fixed or self.steps - after[0] <= self.n_patches - after[1]
            if self.max_pixels_by_size[size] >= 0 and self.possible(after) and enough:
                yield size, after

    def rest(self, whole: Key, key: Key, size: int) -> Key:
        """Return the stage of the rest of a chain `whole` when `key` of it is cut off.

        Both parts contain the group of `size` patches at the cut.
        """
        return (whole[0] - key[0] + 1 if self.fixed else 0, whole[1] - key[1] + size)

    def prefix_limits(self, total: int) -> PrefixLimits:
        """Return the limits on the first steps of a plan, or of its reverse, that costs at most `total`."""
        excess = total // (2 * self.load) - len(self.problem.needed_pixels)
        if self.reload_intervals is None or excess <= 0:
            return NO_PREFIX_LIMITS
        return self.reload_intervals.prefix_limits(excess)

    def symmetry_stage(self, key: Key, prefix: PrefixLimits) -> bool:
        """Return whether a stage is the last one by which a plan and its reverse are told apart."""
        if prefix.steps:
            return key[0] == prefix.steps
        if 0 < self.missing < self.size:
            return key[0] == self.steps // 2
        return key[1] - 1 < self.n_patches / 2 <= key[1]

    def missing_patches(self, key: Key) -> int:
        """Return how many patches the groups up to a stage are short of full groups."""
        return key[0] * self.size - key[1]

    def edges(self, key: Key) -> int:
        """Return the fewest steps of a chain after its first one."""
        return key[0] - 1 if self.fixed else -(-key[1] // self.size) - 1
