"""How few loads any plan of small groups can do with, on any layer: a finite search over the whole plane.

The *surplus* of a sequence of n disjoint groups with N patches and L loads is L - N - (K - 1) n for a K x K
kernel with stride 1. That this search finds the least one there is, is proven in docs/bounds.md (theorem 4).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from functools import cache
from itertools import count

from tilewright.grouping.problem import Problem

Patch = tuple[int, int]
Cluster = tuple[tuple[Patch, ...], tuple[Patch, ...]]
"""Patches of the last group that stand near each other, and patches near them that are done, both sorted."""
State = tuple[Cluster, ...]

LARGEST = {2: 2, 3: 2}
"""Largest group, by kernel size, for which the search takes less than a second."""

_APART = 1_000
"""Between clusters that are laid out far from each other."""
_IMAGES: list[Callable[[int, int], Patch]] = [
    lambda x, y: (x, y),
    lambda x, y: (-x, y),
    lambda x, y: (x, -y),
    lambda x, y: (-x, -y),
    lambda x, y: (y, x),
    lambda x, y: (-y, x),
    lambda x, y: (y, -x),
    lambda x, y: (-y, -x),
]


def least_surplus(problem: Problem, group: int) -> dict[tuple[int, int], int] | None:
    """Return the least surplus of sequences of groups of at most `group` patches, by their last group.

    Returns
    -------
    dict of (patches, pixels) to int, or None
        None where it is not known: for large groups, and other than square kernels with stride 1 whose
        padding, if there is any, is loaded.
    """
    kernel = plain_kernel(problem)
    if kernel is None or group > LARGEST.get(kernel, 0):
        return None
    return in_the_plane(kernel, group)


def plain_kernel(problem: Problem) -> int | None:
    """Return the side of a square kernel with stride 1 whose padding, if any, is loaded; else None."""
    layer, (kernel, width) = problem.layer, problem.layer.kernel
    dense = kernel == width and {*layer.stride, *layer.dilation} == {1}
    generated = problem.machine.padding == "generated" and any(layer.padding)
    return kernel if dense and not generated else None


@cache
def in_the_plane(kernel: int, group: int) -> dict[tuple[int, int], int]:
    """Return the least surplus in the plane, by the patches and pixels of the last group."""
    return _Plane(kernel, group).least()


class _Plane:
    """The search: states are kept while they are better than a fresh start from their last group."""

    def __init__(self, kernel: int, group: int) -> None:
        self.kernel, self.group = kernel, group
        self.kept: dict[tuple[tuple[Patch, ...], ...], list[tuple[list[frozenset[Patch]], int]]] = {}
        self.open: list[tuple[int, int, State]] = []
        self.numbers = count()

    def least(self) -> dict[tuple[int, int], int]:
        """Follow every state that is kept until none is left."""
        for state in self._first_groups():
            self._keep(state, self._fresh(_patches(self._laid_out(state))))
        least: dict[tuple[int, int], int] = {}
        while self.open:
            surplus, _, state = heapq.heappop(self.open)
            if (_done(state), surplus) in self.kept[_shape(state)]:
                patches = _patches(self._laid_out(state))
                last = len(patches), len(self._pixels(patches))
                least[last] = min(surplus, least.get(last, surplus))
                self._follow(state, surplus)
        return least

    # Geometry --------------------------------------------------------------------------------------

    def _pixels(self, patches: list[Patch]) -> set[Patch]:
        side = range(self.kernel)
        return {(x + i, y + j) for x, y in patches for i in side for j in side}

    def _fresh(self, patches: list[Patch]) -> int:
        """Surplus of a sequence of this one group."""
        return len(self._pixels(patches)) - len(patches) - (self.kernel - 1)

    def _touch(self, a: Patch, b: Patch) -> bool:
        """Whether two patches share a pixel."""
        return abs(a[0] - b[0]) < self.kernel and abs(a[1] - b[1]) < self.kernel

    def _around(self, patch: Patch, reach: int) -> Iterator[Patch]:
        side = range(-reach, reach + 1)
        return ((patch[0] + i, patch[1] + j) for i in side for j in side)

    def _clusters(self, patches: list[Patch]) -> list[list[Patch]]:
        """Split patches so that no other patch touches two parts."""
        reach, left, parts = 2 * (self.kernel - 1), list(patches), []
        while left:
            part = [left.pop()]
            for a in part:
                near = [b for b in left if abs(a[0] - b[0]) <= reach and abs(a[1] - b[1]) <= reach]
                part += near
                left = [b for b in left if b not in near]
            parts.append(part)
        return parts

    def _beside(self, patches: list[Patch], done: list[Patch]) -> list[Patch]:
        return [q for q in done if any(self._touch(q, patch) for patch in patches)]

    def _state(self, patches: list[Patch], done: list[Patch]) -> State:
        """Return a state in a form that moves, flips and transpositions of its clusters do not change."""
        parts = self._clusters(patches)
        return tuple(sorted(_canonical(part, self._beside(part, done)) for part in parts))

    @staticmethod
    def _laid_out(state: State) -> list[tuple[list[Patch], list[Patch]]]:
        """Put the clusters far from each other."""
        return [
            ([(x + _APART * i, y) for x, y in patches], [(x + _APART * i, y) for x, y in done])
            for i, (patches, done) in enumerate(state)
        ]

    # Search ----------------------------------------------------------------------------------------

    def _first_groups(self) -> set[State]:
        last = {self._state([(0, 0)], [])}
        groups = set(last)
        for _ in range(self.group - 1):
            more = set()
            for state in last:
                patches = _patches(self._laid_out(state))
                near = {b for a in patches for b in self._around(a, 2 * (self.kernel - 1))} - set(patches)
                more |= {self._state([*patches, b], []) for b in (*near, (-_APART, 0))}
            groups |= more
            last = more
        return groups

    def _keep(self, state: State, surplus: int) -> None:
        """Keep a state unless one is known that has no more surplus and no other patches done."""
        known, done = self.kept.setdefault(_shape(state), []), _done(state)
        if any(s <= surplus and all(map(frozenset.__le__, d, done)) for d, s in known):
            return
        known[:] = [(d, s) for d, s in known if not (surplus <= s and all(map(frozenset.__le__, done, d)))]
        known.append((done, surplus))
        heapq.heappush(self.open, (surplus, next(self.numbers), state))

    def _follow(self, state: State, surplus: int) -> None:
        """Make the states after one more group that shares more pixels with the last one than the surplus."""
        clusters = self._laid_out(state)
        held = self._pixels(_patches(clusters))
        gone = {patch for patches, done in clusters for patch in (*patches, *done)}
        owner = {
            b: i
            for i, (patches, _) in enumerate(clusters)
            for a in patches
            for b in self._around(a, self.kernel - 1)
            if b not in gone
        }
        shares = {b: frozenset(self._pixels([b]) & held) for b in owner}
        for chosen, shared in self._sharing(shares, surplus):
            done = self._beside(chosen, list(gone))
            parts = [[b for b in chosen if owner[b] == i] for i in range(len(clusters))]
            placed = [(part, self._beside(part, done)) for part in parts if part]
            for born in range(self.group - len(chosen) + 1):
                size = len(chosen) + born
                for patches, around in self._placed(placed + [([(0, 0)], [])] * born):
                    pixels = len(self._pixels(patches))
                    after = surplus + pixels - shared - size - (self.kernel - 1)
                    self._keep(self._state(patches, around), after)

    def _sharing(
        self, shares: dict[Patch, frozenset[Patch]], surplus: int
    ) -> Iterator[tuple[list[Patch], int]]:
        """Choose patches that touch the last group and share more than `surplus` pixels with it."""
        order = sorted(shares, key=lambda b: -len(shares[b]))

        def choose(
            first: int, chosen: list[Patch], shared: frozenset[Patch]
        ) -> Iterator[tuple[list[Patch], int]]:
            if chosen and len(shared) > surplus:
                yield chosen, len(shared)
            slots = self.group - len(chosen)
            for i in range(first, len(order) if slots else first):
                if len(shared) + slots * len(shares[order[i]]) <= surplus:
                    break
                yield from choose(i + 1, [*chosen, order[i]], shared | shares[order[i]])

        return choose(0, [], frozenset())

    def _placed(
        self, parts: list[tuple[list[Patch], list[Patch]]]
    ) -> Iterator[tuple[list[Patch], list[Patch]]]:
        """Lay out parts whose distance is not known in every way: near each other or far.

        Yields the patches and what is done beside them.
        """
        reach = 2 * (self.kernel - 1)

        def place(
            patches: list[Patch], done: list[Patch], left: list[tuple[list[Patch], list[Patch]]]
        ) -> Iterator[tuple[list[Patch], list[Patch]]]:
            if not left:
                yield patches, done
                return
            (part, beside), *rest = left
            far = max(x for x, _ in patches) + _APART - min(x for x, _ in part)
            moved = [([(x + far, y) for x, y in part], [(x + far, y) for x, y in beside])]
            for image in _IMAGES if len(part) > 1 or beside else _IMAGES[:1]:
                here, there = [image(*b) for b in part], [image(*q) for q in beside]
                for dx, dy in {
                    (x - b[0], y - b[1]) for a in patches for x, y in self._around(a, reach) for b in here
                }:
                    shifted = [(x + dx, y + dy) for x, y in here], [(x + dx, y + dy) for x, y in there]
                    if {*shifted[0], *shifted[1]}.isdisjoint({*patches, *done}):
                        moved.append(shifted)
            for new, near in moved:
                yield from place([*patches, *new], [*done, *near], rest)

        (patches, done), *left = parts
        return place(patches, done, left)


def _patches(clusters: list[tuple[list[Patch], list[Patch]]]) -> list[Patch]:
    return [patch for patches, _ in clusters for patch in patches]


def _shape(state: State) -> tuple[tuple[Patch, ...], ...]:
    return tuple(patches for patches, _ in state)


def _done(state: State) -> list[frozenset[Patch]]:
    return [frozenset(done) for _, done in state]


def _canonical(patches: list[Patch], done: list[Patch]) -> Cluster:
    images = []
    for image in _IMAGES:
        moved = [image(*patch) for patch in patches]
        x0, y0 = min(x for x, _ in moved), min(y for _, y in moved)
        images.append(
            (
                tuple(sorted((x - x0, y - y0) for x, y in moved)),
                tuple(sorted((x - x0, y - y0) for x, y in (image(*q) for q in done))),
            )
        )
    return min(images)
