"""The kernels of the exact search: sets of bits, expansion and pruning, against brute force."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from conftest import examples
from exact_cases import layer_of, tiny, to_int
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from numba import njit

from tilewright.core.bitsets import pack, unpack
from tilewright.grouping import Problem
from tilewright.grouping.exact.bitsets import NEVER, Bits
from tilewright.grouping.exact.expansion_kernel import Parents, Rules, Table, expand, undominated
from tilewright.grouping.exact.pruning_kernel import DeadlineScratch, Delay, overcommitted
from tilewright.grouping.exact.reload_intervals import NO_PREFIX_LIMITS
from tilewright.grouping.exact.stages import StateSpace
from tilewright.grouping.exact.workspace import Workspace
from tilewright.grouping.structure import cells, symmetries


@given(data=st.data(), n=st.integers(1, 200))
def test_packing_is_undone(data: st.DataObject, n: int) -> None:
    members = np.array([data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2)])
    words = pack(members)
    assert words.shape == (2, -(-n // 64))
    assert (unpack(words, n) == members).all()
    for row, flags in zip(words.tolist(), members.tolist(), strict=True):
        assert sum(word << 64 * i for i, word in enumerate(row)) == sum(1 << i for i in range(n) if flags[i])


def permutation(table: Any, n: int) -> list[int]:
    """Read from a table of images where each member of a set goes."""
    return [to_int(table[i // 8, 1 << i % 8]).bit_length() - 1 for i in range(n)]


def bits_of(problem: Problem) -> Bits:
    parts = cells(problem)
    return Bits.of(problem, parts, symmetries(problem, parts))


LARGER = [
    layer_of((5, 5)),
    layer_of((10, 10), 3),
    layer_of((4, 30), 3),
    layer_of((8, 8), 3, padding=[1, 0, 0, 1], machine={"padding": "generated"}),
    layer_of((9, 9), 3, kernel=(2, 2), stride=(3, 3)),
    layer_of((9, 9), 3, kernel=(3, 3), stride=(2, 2), dilation=(2, 2)),
]


@pytest.mark.parametrize("problem", LARGER, ids=lambda problem: str(problem.layer.input))
def test_images_keep_the_layer(problem: Problem) -> None:
    check_images(problem)


@settings(max_examples=examples(50))
@given(problem=tiny())
def test_images_of_tiny_layers_keep_the_layer(problem: Problem) -> None:
    check_images(problem)


def check_images(problem: Problem) -> None:
    """Check that images are permutations of patches and of pixels that keep who needs what."""
    bits = bits_of(problem)
    needed = problem.needed_pixels.tolist()
    rows = [{needed.index(p) for p in row if p >= 0} for row in problem.patch_pixels.tolist()]
    assert [to_int(row) for row in bits.patch_pixels] == [sum(1 << p for p in row) for row in rows]
    for pixel, patches in enumerate(bits.pixel_patches):
        assert to_int(patches) == sum(1 << i for i, row in enumerate(rows) if pixel in row)
    assert permutation(bits.patch_images[0], len(rows)) == list(range(len(rows)))
    seen = set()
    for of_patches, of_pixels in zip(bits.patch_images, bits.pixel_images, strict=True):
        patches, pixels = permutation(of_patches, len(rows)), permutation(of_pixels, len(needed))
        assert sorted(patches) == list(range(len(rows)))
        assert sorted(pixels) == list(range(len(needed)))
        assert all(rows[patches[i]] == {pixels[p] for p in row} for i, row in enumerate(rows))
        seen.add(tuple(patches))
        # Every byte is the union of its bits.
        for table, image in ((of_patches, patches), (of_pixels, pixels)):
            for byte in range(len(table)):
                for value in (0x55, 0xE1, 0xFF):
                    members = [8 * byte + i for i in range(8) if value >> i & 1 and 8 * byte + i < len(image)]
                    assert to_int(table[byte, value]) == sum(1 << image[i] for i in members)
    # With the identity and all that they lead to, images are a group.
    assert all(tuple(a[i] for i in b) in seen for a in seen for b in seen)


class Drawn:
    """A random partial plan of a layer, and its children by brute force."""

    def __init__(self, problem: Problem, draw: random.Random, watched: bool) -> None:
        self.problem, self.watched = problem, watched
        self.space = StateSpace(problem)
        self.n = problem.n_patches
        self.masks = [to_int(row) for row in self.space.bits.patch_pixels]
        self.done = sum(1 << p for p in draw.sample(range(self.n), draw.randint(0, self.n - 1)))
        seen = self.pixels(self.done)
        shared = seen & self.pixels(~self.done)
        # Any of the shared pixels may be on chip, and any of these may be there for the second time.
        self.held = shared & draw.getrandbits(64)
        self.kept = self.held & draw.getrandbits(64) & draw.getrandbits(64) if watched else 0
        self.seen = seen
        self.cost = draw.randint(0, 40)
        self.later: dict[tuple[int, int], int] = {}

    def pixels(self, patches: int) -> int:
        """Return the pixels of a set of patches."""
        found = 0
        for patch in range(self.n):
            if patches >> patch & 1:
                found |= self.masks[patch]
        return found

    def row(self) -> Any:
        held = [self.held, self.kept] if self.watched else [self.held]
        parts = [self.words(self.done), *(self.words(pixels, pixels=True) for pixels in held)]
        return np.concatenate(parts)[np.newaxis]

    def words(self, members: int, pixels: bool = False) -> Any:
        """Pack a set of patches, or one of pixels, as the search does."""
        bits = self.space.bits
        n, words = (len(bits.pixel_patches), bits.pixel_words) if pixels else (self.n, bits.patch_words)
        return pack(np.array([members >> i & 1 for i in range(n)], bool), len(words))

    def canonical(self, done: int, held: int, kept: int) -> tuple[int, ...]:
        """Return one image for all images of a partial plan."""
        bits = self.space.bits
        n_pixels = len(bits.pixel_patches)

        def moved(value: int, image: list[int]) -> int:
            return sum(1 << image[i] for i in range(len(image)) if value >> i & 1)

        images = []
        for of_patches, of_pixels in zip(bits.patch_images, bits.pixel_images, strict=True):
            patches, pixels = permutation(of_patches, self.n), permutation(of_pixels, n_pixels)
            images.append((moved(done, patches), moved(held, pixels), moved(kept, pixels)))
        # The lowest words are compared first.
        return min(images, key=lambda sets: [value >> 64 * w & 2**64 - 1 for value in sets for w in range(4)])

    def children(self, size: int, longest: list[int]) -> list[tuple[tuple[int, ...], int, int, int]]:
        """Return (row, cost, pixels thrown away, fewest thrown away later) of each group that may follow."""
        space, found = self.space, []
        for members in combinations([p for p in range(self.n) if not self.done >> p & 1], size):
            group = sum(1 << p for p in members)
            pixels = self.pixels(group)
            lost = (self.held & ~pixels).bit_count()
            fresh = (pixels & ~self.held).bit_count()
            walk = self.cost + space.step + space.load * (fresh + lost - self.held.bit_count())
            number = pixels.bit_count()
            if number > max_pixels(self.problem, size) or walk > longest[number] or self.kept & ~pixels:
                continue
            done = self.done | group
            still = pixels & self.pixels(~done)
            kept = (self.kept | pixels & self.seen & ~self.held) & still if self.watched else 0
            row = self.canonical(done, still, kept)
            found.append((row, walk + space.load * number, lost, self.thrown_later(done, still)))
        return found

    def thrown_later(self, done: int, held: int) -> int:
        """Return how many pixels any plan that goes on throws away at least, in however many steps."""
        key = done, held & self.pixels(~done)
        if key not in self.later:
            left = [p for p in range(self.n) if not done >> p & 1]
            # The room that a group would need does not matter: more plans may throw away less.
            self.later[key] = min(
                (
                    (key[1] & ~self.pixels(group)).bit_count()
                    + self.thrown_later(done | group, self.pixels(group))
                    for size in range(1, min(self.space.size, len(left)) + 1)
                    for members in combinations(left, size)
                    for group in [sum(1 << p for p in members)]
                ),
                default=0,
            )
        return self.later[key]


def max_pixels(problem: Problem, size: int) -> int:
    return int(problem.max_group_pixels(size))


def expanded(drawn: Drawn, rules: Rules) -> dict[tuple[int, ...], int]:
    """Let the product extend the partial plan; return its rows as sets, with their costs."""
    space = drawn.space
    row = drawn.row()
    table = Table(
        np.zeros((1 << 10, row.shape[1]), np.uint64),
        np.full(1 << 10, -NEVER, np.int32),
        np.zeros(1 << 10, np.int32),
        np.zeros(1 << 10, np.int32),
        np.zeros(1 << 10, np.int16),
        np.zeros(1, np.int64),
        np.full((space.size + 1, space.most_pixels + 1), NEVER, np.int32),
    )
    start = np.array([drawn.cost], np.int32), np.zeros(1, np.int16)
    workspace = Workspace.of(space.bits, space.size, row.shape[1])
    assert expand(space.bits, rules, Parents(row, *start, 7), 0, 1, table, workspace) == 1
    used = table.cost > -NEVER
    assert used.sum() == table.used[0]
    assert (table.parent[used] == 0).all()
    assert (table.stage[used] == 7).all()
    a, b = space.n_done, space.n_done + space.n_held
    return {
        (to_int(row[:a]), to_int(row[a:b]), to_int(row[b:])): int(cost)
        for row, cost in zip(table.rows[used], table.cost[used], strict=True)
    }


def rules_of(space: StateSpace, size: int, most: Any, *, watched: bool = False) -> Rules:
    """Return rules for groups of `size` patches after any partial plan, as chains are followed."""
    member, left_out = space.anywhere[0]
    return Rules(
        size=size,
        step=space.step,
        load=space.load,
        coming=space.step,
        free=False,
        watched=watched,
        spare=2**30,
        following=0,
        ahead=99,
        excess=-1,
        below=0,
        delays=int(Delay.NONE),
        most=most,
        total=-1,
        member=member,
        left_out=left_out,
        near=NO_PREFIX_LIMITS.near,
        stop=np.zeros(1, bool),
    )


def cheapest(children: list[tuple[tuple[int, ...], int]]) -> dict[tuple[int, ...], int]:
    found: dict[tuple[int, ...], int] = {}
    for row, cost in children:
        found[row] = min(found.get(row, cost), cost)
    return found


@settings(
    max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(
    problem=tiny(work=20_000), seed=st.integers(0, 10**6), watched=st.booleans(), budget=st.integers(0, 60)
)
def test_children_are_all_that_brute_force_finds(
    problem: Problem, seed: int, watched: bool, budget: int
) -> None:
    """Within a length, as chains are extended, and within a total, as partial plans are."""
    draw = random.Random(seed)
    drawn = Drawn(problem, draw, watched)
    space = drawn.space
    size = draw.randint(1, min(space.size, drawn.n - drawn.done.bit_count()))
    # A longest walk for each number of pixels, as the tables of chains give it.
    allowed = [budget + space.load * draw.randint(0, 3) for _ in space.pixels]
    most = np.where(space.pixels <= max_pixels(problem, size), np.array(allowed), -NEVER).astype(np.int64)
    children = drawn.children(size, [int(value) for value in most])
    rules = rules_of(space, size, most, watched=watched)
    found = expanded(drawn, rules)
    assert found == cheapest([(row, cost) for row, cost, _, _ in children])
    # The first group of a chain costs nothing, whatever was done.
    if not watched and drawn.done == 0:
        of_chains = expanded(drawn, rules._replace(free=True))
        everything = drawn.children(size, [NEVER if value >= 0 else -1 for value in most.tolist()])
        assert set(of_chains) == {row for row, *_ in everything}
        # But for symmetry it has one of the patches that are given, and none of those before.
        if size > 1:
            divided = [
                expanded(drawn, rules._replace(free=True, member=member, left_out=left_out))
                for member, left_out in space.starts
            ]
            assert {row for rows in divided for row in rows} == set(of_chains)

    # The same where pixels thrown away must fit into a total, with a look at the groups after.
    missing = (drawn.pixels(~drawn.done) & ~drawn.held).bit_count()
    spare = draw.randint(0, 4)
    total = drawn.cost + 2 * space.load * (missing + spare) + space.step
    found = expanded(drawn, rules._replace(total=total))
    within = cheapest([(row, cost) for row, cost, lost, _ in children if lost <= spare])
    assert found == within
    following = min(space.size, drawn.n - drawn.done.bit_count() - size)
    looked = expanded(drawn, rules._replace(total=total, following=following))
    can_go_on = [(row, cost) for row, cost, lost, after in children if lost + after <= spare]
    assert set(looked) <= set(within)
    for row, cost in cheapest(can_go_on).items():
        assert looked[row] <= cost


@settings(
    max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(problem=tiny(work=20_000))
def test_first_groups_that_begin_a_plan_are_found(problem: Problem) -> None:
    """Whatever may be thrown away later, no first group is lost that this is enough for."""
    drawn = Drawn(problem, random.Random(0), watched=False)
    drawn.done = drawn.held = drawn.seen = drawn.cost = 0
    space = drawn.space
    for size in range(1, min(space.size, drawn.n) + 1):
        most = np.where(space.pixels <= max_pixels(problem, size), NEVER, -NEVER).astype(np.int64)
        children = drawn.children(size, [int(value) for value in most])
        following = min(space.size, drawn.n - size)
        rules = rules_of(space, size, most)._replace(following=following)
        for spare in range(4):
            total = 2 * space.load * len(problem.needed_pixels) + space.step + 2 * space.load * spare
            found: dict[tuple[int, ...], int] = {}
            for member, left_out in space.starts if size > 1 else space.anywhere:
                found |= expanded(drawn, rules._replace(total=total, member=member, left_out=left_out))
            assert set(found) <= {row for row, *_ in children}
            can_go_on = {row for row, _, _, later in children if later <= spare}
            assert can_go_on <= set(found)
            event(f"hopeless first groups left out: {len(found) < len({row for row, *_ in children})}")


@njit
def is_overcommitted(
    bits: Any, done: Any, covered: Any, waiting: Any, slots: int, size: int, ahead: int, scratch: Any
) -> Any:
    return overcommitted(bits, done, covered, waiting, slots, size, ahead, scratch)


@pytest.mark.nightly
@settings(max_examples=examples(150))
@given(
    side=st.tuples(st.integers(2, 8), st.integers(2, 8)),
    kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
    stride=st.tuples(st.sampled_from([1, 1, 1, 2]), st.sampled_from([1, 1, 1, 2])),
    dilation=st.tuples(st.sampled_from([1, 1, 1, 2]), st.sampled_from([1, 1, 1, 2])),
    group=st.integers(1, 8),
    seed=st.integers(0, 10**6),
)
def test_no_plan_is_overcommitted(
    side: tuple[int, int],
    kernel: tuple[int, int],
    stride: tuple[int, int],
    dilation: tuple[int, int],
    group: int,
    seed: int,
) -> None:
    """Each part of a group of a sweep passes where the sweep throws nothing away in the steps that follow."""
    draw = random.Random(seed)
    height, width = (
        (n - 1) * s + d * (k - 1) + 1 for n, k, s, d in zip(side, kernel, stride, dilation, strict=True)
    )
    layer = {"stride": stride, "dilation": dilation}
    problem = layer_of((height, width), group, kernel=kernel, steps="free", **layer)
    drawn = Drawn(problem, draw, watched=False)
    slope = draw.choice([(0, 1), (1, 0), (1, 1), (1, 2), (9, 1), (1, 9)])
    noise = draw.choice([0.0, 0.5, 2.0])
    place = {p: slope[0] * (p // side[1]) + slope[1] * (p % side[1]) for p in range(drawn.n)}
    order = sorted(place, key=lambda p: place[p] + noise * draw.random())
    groups = []
    while order:
        cut = group if draw.random() < 0.9 else draw.randint(1, group)
        groups.append(order[:cut])
        order = order[cut:]
    done, held = 0, 0
    steps = []
    for members in groups:
        mask = sum(1 << p for p in members)
        needed = held & drawn.pixels(~done)
        steps.append((done, needed, members, needed & ~drawn.pixels(mask)))
        done, held = done | mask, drawn.pixels(mask)
    ahead, longest = len(steps), 0
    scratch = DeadlineScratch.of(drawn.space.bits)
    for done, needed, members, thrown in reversed(steps):
        for taken in range(len(members) + 1):
            part = sum(1 << p for p in draw.sample(members, taken))
            covered = drawn.pixels(part)
            on_chip = [covered, needed & ~covered & ~thrown]
            words = [drawn.words(done | part), *(drawn.words(pixels, pixels=True) for pixels in on_chip)]
            assert not is_overcommitted(drawn.space.bits, *words, len(members) - taken, group, ahead, scratch)
            assert not sum(1 << p for p in members) & ~part & ~to_int(scratch.only)
        longest = max(longest, ahead)
        # What is thrown away here is thrown away by the group before.
        ahead = 0 if thrown else ahead + 1
    event(f"steps: {min(longest, 5)} or more")


@settings(max_examples=examples(60))
@given(problem=tiny(), seed=st.integers(0, 10**6), watched=st.booleans())
def test_what_is_dominated_has_a_substitute(problem: Problem, seed: int, watched: bool) -> None:
    """Whoever is left out is replaced by a row with the same patches that is kept and no worse."""
    draw = random.Random(seed)
    first = Drawn(problem, draw, watched)
    rows, costs = [], []
    shared = first.pixels(first.done) & first.pixels(~first.done)
    for cost in sorted(draw.randint(0, 12) for _ in range(30)):
        first.held = shared & draw.getrandbits(64)
        first.kept = first.held & draw.getrandbits(64) if watched else 0
        rows.append(first.row()[0])
        costs.append(cost)
    space = first.space
    stacked = np.array(rows)
    kept = undominated(space.bits, stacked, np.array(costs, np.int32), space.load, watched)
    assert kept[0]
    for i in np.flatnonzero(~kept):
        assert any(
            replaces(space, stacked[j], costs[j], stacked[i], costs[i], watched) for j in np.flatnonzero(kept)
        )


def replaces(space: StateSpace, row: Any, cost: int, other: Any, more: int, watched: bool) -> bool:
    """Whether a plan may go on from a row instead of the other, for no more."""
    a, b = space.n_done, space.n_done + space.n_held
    lacks = (to_int(other[a:b]) & ~to_int(row[a:b])).bit_count()
    if not watched:
        return cost + 2 * space.load * lacks <= more
    return cost <= more and lacks == 0 and not to_int(row[b:]) & ~to_int(other[b:])
