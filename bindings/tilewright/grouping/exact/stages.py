"""The stages of an exact search for grouping: partial plans with equally many patches in equally many steps.

What is common to all searches of one problem, whether they follow plans or chains.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tilewright.grouping.bounds.best import fewest_pixels
from tilewright.grouping.exact.bitsets import Bits, Words, pack
from tilewright.grouping.exact.pruning_kernel import DELAYED, MERGED, NONE
from tilewright.grouping.exact.reload_intervals import NO_ENDS, Ends, Gaps
from tilewright.grouping.problem import Problem
from tilewright.grouping.structure import cells, scaled_costs, symmetries

Key = tuple[int, int]
"""A stage: steps done (0 where their number is free) and patches done."""

Start = tuple[int, Words]
"""A patch that a group has, or -1, and the set of those that it has not."""


class Space:
    """The stages of a problem, and what all searches in it share.

    Costs are counted in halves of the units of `scale`.

    Attributes
    ----------
    load, step
        Half of what a load costs, and what a step costs.
    room : int64, shape (g + 1,)
        Most pixels of a group of so many patches.
    starts
        The first groups, divided by a patch that they have and others that they do not: one of each set of
        equal groups is enough.
    anywhere
        The same for groups that follow others: all of them.
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
        self.room = np.minimum(problem.group_room, np.arange(self.size + 1) * patch)
        self.most_pixels = min(self.size * patch, len(problem.needed_pixels))
        self.fewest = fewest_pixels(problem)
        roomy = (self.room >= np.minimum(np.arange(self.size + 1) * patch, self.most_pixels)).all()
        self.delays = NONE
        if self.fixed and self.missing and roomy:
            self.delays = MERGED if merged else DELAYED
        self.gaps = Gaps(problem, self.bits) if self.fixed else None
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
        """Whether a plan can have steps in succession with so many patches together."""
        if not self.fixed:
            return 0 < key[1] <= self.n_patches
        return 0 < key[0] <= min(key[1], self.steps) and 0 <= self.short(key) <= self.missing

    def all_stages(self) -> list[Key]:
        """Return all stages but the first, in the order of the search."""
        steps = range(1, self.steps + 1) if self.fixed else (0,)
        return [(k, n) for k in steps for n in range(1, self.n_patches + 1) if self.possible((k, n))]

    def groups(self, key: Key) -> Iterator[tuple[int, Key]]:
        """Sizes of the group that may come next in a plan, and where each leads."""
        for size in range(1, min(self.size, self.n_patches - key[1]) + 1):
            after = (key[0] + 1 if self.fixed else 0, key[1] + size)
            enough = not self.fixed or self.steps - after[0] <= self.n_patches - after[1]
            if self.room[size] >= 0 and self.possible(after) and enough:
                yield size, after

    def rest(self, whole: Key, key: Key, size: int) -> Key:
        """Return the chain that is left of another when `key` of it is there and its last group shared."""
        return (whole[0] - key[0] + 1 if self.fixed else 0, whole[1] - key[1] + size)

    def ends(self, total: int) -> Ends:
        """Return what the better of a plan and its reverse keeps to, if the plan costs `total` at most."""
        excess = total // (2 * self.load) - len(self.problem.needed_pixels)
        if self.gaps is None or excess <= 0:
            return NO_ENDS
        return self.gaps.ends(excess)

    def hinge(self, key: Key, ends: Ends) -> bool:
        """Whether a plan and its reverse are told apart by what is done up to a stage, and no more."""
        if ends.steps:
            return key[0] == ends.steps
        if 0 < self.missing < self.size:
            return key[0] == self.steps // 2
        return key[1] - 1 < self.n_patches / 2 <= key[1]

    def short(self, key: Key) -> int:
        """Return how many patches are missing to as many full groups."""
        return key[0] * self.size - key[1]

    def edges(self, key: Key) -> int:
        """Fewest steps after the first one of a chain."""
        return key[0] - 1 if self.fixed else -(-key[1] // self.size) - 1
