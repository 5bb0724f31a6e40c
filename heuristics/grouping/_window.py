"""A stretch of consecutive groups, cut out of a plan for the beam search to rebuild."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Problem
from tilewright.heuristics.grouping import _beam_kernel, _sweep_kernel
from tilewright.heuristics.grouping._beam_kernel import BeamStyle
from tilewright.heuristics.grouping._measure import Group
from tilewright.heuristics.grouping._sweep_kernel import SweepStyle


def draw_sweep_style(rng: np.random.Generator) -> SweepStyle:
    """Draw a taste of the sweep from the ranges that did well on several layers."""
    crowd = float(rng.choice([0.0, 0.5, 1.0]))
    pull, noise = np.exp(rng.uniform(np.log([1.0, 0.3]), np.log([5.0, 6.0])))
    hold, length = np.exp(rng.uniform(np.log([0.03, 0.001]), np.log([0.6, 0.1]))) * 5.0**-crowd
    return SweepStyle(float(pull), float(hold), crowd, float(noise), float(length))


def draw_beam_style(rng: np.random.Generator) -> BeamStyle:
    """Draw a taste of the beam search from the ranges that did well on many layers.

    Where a front is much longer than a group, a low price of its length does best.
    """
    open_, patience = rng.uniform(0.1, 1.0), rng.uniform(0.75, 1.0)
    crowd = float(rng.choice([0.0, 0.0, 0.5, 1.0, 1.5]))
    few = rng.random() < 0.5
    hold = float(np.exp(rng.uniform(np.log(0.01 if few else 0.05), np.log(0.3)))) * 4.0**-crowd
    # Some loads too many can be repaired afterwards; forbidding them altogether can lead astray.
    price = float(rng.choice([1.0, 3.0, 100.0]))
    noise = float(rng.choice([0.01, 0.1, 0.3]))
    pull = float(np.exp(rng.uniform(np.log(0.002), np.log(0.2)))) if rng.random() < 0.5 else 0.0
    return BeamStyle(open_, patience, hold, crowd, noise, price, pull)


def vary(style: BeamStyle, rng: np.random.Generator) -> BeamStyle:
    """Change a taste a little."""
    open_, hold, pull = rng.uniform(0.8, 1.25, 3) * (style.open, style.hold, style.pull)
    return style._replace(open=open_, hold=hold, pull=pull)


@dataclass
class Window:
    """The patches of some consecutive steps, and what surrounds them.

    Attributes
    ----------
    patches
        The patches to arrange, roughly in the order in which they will be computed.
    pixels : shape (patches, k)
        Their pixels, numbered within the window, -1 for none.
    known
        The pixel of the layer that each pixel within the window is.
    near
        Close patches, numbered within the window.
    ahead : shape (patches,)
        How far ahead each patch stands in the direction in which the front moves through the window.
    before, after : bool, shape (n_pixels,)
        Which pixels the steps around the window hold.
    loads : shape (n_pixels,)
        Loads outside the window, 0 until told otherwise.
    """

    patches: Group
    pixels: NDArray[np.int32]
    known: NDArray[np.int32]
    near: NDArray[np.int32]
    ahead: NDArray[np.float64]
    before: NDArray[np.bool_]
    after: NDArray[np.bool_]
    loads: NDArray[np.int64]

    @classmethod
    def of(
        cls,
        problem: Problem,
        near: NDArray[np.int32],
        patches: Group,
        before: Group | None = None,
        after: Group | None = None,
    ) -> Window:
        """Cut out `patches`, between the pixels of two sets of patches, groups as a rule."""
        table = problem.patch_pixels
        known, local = np.unique(table[patches], return_inverse=True)
        missing = int(known[0] < 0)
        known = known[missing:]
        number = np.full(problem.n_patches + 1, -1, np.int32)  # the last entry answers for -1
        number[patches] = np.arange(len(patches))
        place = np.stack(np.divmod(patches, problem.grid[1]), axis=1).astype(float)
        way = (np.arange(len(patches)) - (len(patches) - 1) / 2) @ place
        return cls(
            patches=patches,
            pixels=np.ascontiguousarray(local.reshape(len(patches), -1) - missing, dtype=np.int32),
            known=known,
            near=number[near[patches]],
            ahead=place @ way / max(1.0, float(np.linalg.norm(way))),
            before=np.isin(known, table[before]) if before is not None else np.zeros(len(known), np.bool_),
            after=np.isin(known, table[after]) if after is not None else np.zeros(len(known), np.bool_),
            loads=np.zeros(len(known), np.int64),
        )

    @property
    def n_pixels(self) -> int:
        """Number of pixels within the window."""
        return len(self.known)

    def grow(
        self,
        max_pixels: NDArray[np.int32],
        n_steps: int,
        max_loads: int,
        width: int,
        styles: Sequence[BeamStyle],
        seed: int,
    ) -> list[Group] | None:
        """Arrange the patches anew in `n_steps` steps by the beam search.

        Returns
        -------
        list of groups or None
            The best that any of the tastes finds; None if all searches died.
        """
        outside = np.minimum(self.loads, _beam_kernel.MOST_LOADS)
        chip = _beam_kernel.PREVIOUS * self.before + _beam_kernel.ONE_LOAD * outside
        plans: list[tuple[int, int, int, list[Group]]] = []
        for number, style in enumerate(styles):
            growth = _beam_kernel.Growth(
                self.pixels, self.near, self.needs, chip.astype(np.uint8), max_pixels,
                style.pull * self.ahead, n_steps, max_loads, width,
            )  # fmt: skip
            steps, evictions = _beam_kernel.grow_by_patch(growth, style, seed)
            if evictions >= 0:
                groups = self.groups(steps, n_steps)
                starts = self.starts(groups)
                over = int(np.maximum(self.loads + starts - max_loads, 0).sum())
                plans.append((over, int(starts.sum()), number, groups))
        return min(plans)[-1] if plans else None

    @cached_property
    def needs(self) -> NDArray[np.int16]:
        """How many patches need each pixel, and one more where it is needed after the window."""
        needed = np.bincount(self.pixels[self.pixels >= 0], minlength=self.n_pixels) + self.after
        return needed.astype(np.int16)

    @cached_property
    def owners(self) -> NDArray[np.int32]:
        """The patches that need each pixel, -1 for none."""
        patch, place = np.nonzero(self.pixels >= 0)
        pixel = self.pixels[patch, place]
        order = np.argsort(pixel, kind="stable")
        count = np.bincount(pixel, minlength=self.n_pixels)
        column = np.arange(len(order)) - np.repeat(np.cumsum(count) - count, count)
        owners = np.full((self.n_pixels, int(count.max(initial=0))), -1, np.int32)
        owners[pixel[order], column] = patch[order]
        return owners

    def cover(
        self,
        capacity: int,
        n_steps: int,
        timetable: NDArray[np.float64],
        width: int,
        tries: int,
        style: SweepStyle,
        seed: int,
    ) -> list[Group]:
        """Arrange the patches anew in `n_steps` steps, roughly by a timetable.

        No limit but `capacity` is kept. There must be at least one patch for each step. For the
        parameters see `_sweep_kernel.Sweep`.
        """
        timetable = timetable.view()
        timetable.flags.writeable = False  # a type of argument more would be compiled once more
        swept = _sweep_kernel.Sweep(
            self.pixels, self.owners, self.near, self.needs, self.before, capacity, timetable, n_steps,
            width, tries,
        )  # fmt: skip
        steps, _ = _sweep_kernel.grow_by_group(swept, style, seed)
        return self.groups(steps, n_steps)

    def groups(self, steps: NDArray[np.int32], n_steps: int) -> list[Group]:
        """Return the patches of each step."""
        order = np.argsort(steps, kind="stable")
        cuts = np.searchsorted(steps[order], np.arange(1, n_steps))
        return [self.patches[part] for part in np.split(order, cuts)]

    def starts(self, groups: Sequence[Group]) -> NDArray[np.int64]:
        """Count the loads of each pixel by these groups and, where it can change, by the one after them."""
        number = np.zeros(int(self.patches.max()) + 1, np.int64)
        number[self.patches] = np.arange(len(self.patches))
        held = np.zeros((len(groups) + 2, self.n_pixels + 1), np.bool_)  # the last column answers for -1
        held[0, :-1], held[-1, :-1] = self.before, self.after
        for step, group in enumerate(groups, start=1):
            held[step, self.pixels[number[group]]] = True
        begun: NDArray[np.int64] = (held[1:] & ~held[:-1]).sum(axis=0)[:-1]
        return begun
