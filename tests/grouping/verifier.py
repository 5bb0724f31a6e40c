"""A slow second proof that no plan is cheaper than claimed, for layers of up to 64 pixels and patches.

It shares the pixels of patches with the package, and nothing else. A state is the set of patches done and the
set of pixels on chip that the others still need, a word each; every group of the patches left is tried in
every state. What is left out is what counting alone excludes: with the loads so far, those that must come
whatever the plan, and the fewest steps that are left, a plan costs as much as is claimed.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Problem

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]

PAIRS = 1 << 21
"""So many states times groups are looked at together."""


def count(words: Words) -> Ints:
    """Number of members of sets."""
    if hasattr(np, "bitwise_count"):
        found: Ints = np.bitwise_count(words).astype(np.int64)
        return found
    words = words - ((words >> np.uint64(1)) & np.uint64(0x5555555555555555))
    low = np.uint64(0x3333333333333333)
    words = (words & low) + ((words >> np.uint64(2)) & low)
    words = (words + (words >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return ((words * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)


class Layer:
    """What the verifier knows of a problem.

    Attributes
    ----------
    pixels : list of int
        For each patch, its pixels as bits; those that no patch needs have no number.
    """

    def __init__(self, problem: Problem) -> None:
        rows = problem.patch_pixels.tolist()
        number = {pixel: i for i, pixel in enumerate(sorted({p for row in rows for p in row if p >= 0}))}
        assert max(len(rows), len(number)) <= 64
        self.pixels = [sum({1 << number[p] for p in row if p >= 0}) for row in rows]
        self.n_pixels = len(number)

    def union(self, patches: Words) -> Words:
        """Return the pixels of sets of patches."""
        found = np.zeros_like(patches)
        for first in range(0, len(self.pixels), 12):
            # All subsets of a dozen patches at a time.
            table = np.zeros(1, np.uint64)
            for pixels in self.pixels[first : first + 12]:
                table = np.concatenate([table, table | np.uint64(pixels)])
            found |= table[(patches >> np.uint64(first)).astype(np.int64) & (len(table) - 1)]
        return found


@dataclass(frozen=True)
class States:
    """Partial plans: patches done; pixels on chip still needed; those of them loaded twice; loads."""

    done: Words
    held: Words
    twice: Words
    loads: Ints

    def __getitem__(self, some: slice | Ints) -> States:
        return States(self.done[some], self.held[some], self.twice[some], self.loads[some])

    @staticmethod
    def merged(parts: list[States]) -> States:
        """Keep the fewest loads of each state."""
        columns = [
            np.concatenate(column) for column in zip(*(vars(part).values() for part in parts), strict=True)
        ]
        done, held, twice, loads = columns
        order = np.lexsort((loads, twice, held, done))
        whole = States(done, held, twice, loads)[order]
        new = np.ones(len(order), bool)
        for column in (whole.done, whole.held, whole.twice):
            new[1:] &= column[1:] == column[:-1]
        new[1:] = ~new[1:]
        return whole[np.flatnonzero(new)]


def cheaper(problem: Problem, claimed: int, *, watched: bool = False) -> bool:
    """Whether there may be a plan that costs less than `claimed`.

    Parameters
    ----------
    watched
        Whether plans that load a pixel more than twice do not count; otherwise they do, so that "no" means
        "no" for every limit on loads.
    """
    layer = Layer(problem)
    n, size = problem.n_patches, problem.group_size
    everyone, (fewest, most) = np.uint64((1 << n) - 1), problem.steps_range
    groups = []
    for members in range(1, size + 1):
        words = np.array([sum(1 << p for p in group) for group in combinations(range(n), members)], np.uint64)
        pixels = layer.union(words)
        fits = count(pixels) <= problem.max_group_pixels(members)
        groups.append((words[fits], pixels[fits]))
    nothing = np.zeros(1, np.uint64)
    states = {0: States(nothing, nothing, nothing, np.zeros(1, np.int64))}  # by the number of patches done
    for step in range(1, most + 1):
        reached: dict[int, list[States]] = {}
        for patches, present in states.items():
            for members, (words, pixels) in enumerate(groups, start=1):
                rest = n - patches - members
                # Each step that is left computes one patch at least and `size` at most.
                later = max(fewest - step, -(-rest // size))
                if rest < 0 or later > min(rest, most - step):
                    continue
                most_loads = _most_loads(problem, claimed - 1, step + later)
                chunk = max(1, PAIRS // max(1, len(words)))
                for first in range(0, len(present.done), chunk):
                    after = _extended(
                        layer, present[first : first + chunk], words, pixels, everyone, watched, most_loads
                    )
                    if len(after.done) and not rest:
                        return True
                    if len(after.done):
                        reached.setdefault(patches + members, []).append(after)
        states = {patches: States.merged(parts) for patches, parts in reached.items()}
    return False


def _most_loads(problem: Problem, cost: int, steps: int) -> int:
    """Most loads of a plan that costs no more, with so many steps."""
    return (cost - problem.cost(0, steps)) // problem.load_cost


def _extended(
    layer: Layer,
    states: States,
    words: Words,
    pixels: Words,
    everyone: np.uint64,
    watched: bool,
    most_loads: int,
) -> States:
    """Let every group follow every state, within so many loads."""
    # Of what the patches left need, what is not on chip comes, and once more what the step throws away.
    least = states.loads + count(layer.union(everyone & ~states.done) & ~states.held)
    spare = (most_loads - least)[:, None]
    fits = ((states.done[:, None] & words) == 0) & (count(states.held[:, None] & ~pixels) <= spare)
    state, group = np.nonzero(fits)
    before, covers = states[state], pixels[group]
    done = before.done | words[group]
    needed = layer.union(everyone & ~done)
    loaded = covers & ~before.held
    loads = before.loads + count(loaded)
    good = loads + count(needed & ~covers) <= most_loads
    twice = before.twice
    if watched:
        good &= (before.twice & ~covers) == 0
        twice = (twice | (loaded & layer.union(before.done))) & needed
    chosen = np.flatnonzero(good)
    return States(done[chosen], (covers & needed)[chosen], twice[chosen], loads[chosen])
