"""Steps of several operations as knapsacks agree with all ways to cut them up, one after the other."""

from __future__ import annotations

import random

import numpy as np
import pytest
from conftest import examples
from residency_cases import problem_of, random_problem
from tests.fuzz.networks import reduced

from tilewright.addresses import order_search
from tilewright.residency.exact.traffic_steps import TrafficSteps
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Groups, group_mask
from tilewright.residency.transitions import State, Transitions
from tilewright.spec.errors import InputError


def random_step(rng: random.Random) -> tuple[TrafficSteps, int, int, int, int]:
    """Return a group of several operations with what may be on chip and in DRAM before: none twice."""
    while True:
        graph = random_problem(rng, 7).graph
        if rng.random() < 0.3:
            try:
                graph = problem_of({"layers": reduced(rng, 5, 4)}, 10_000).graph
            except InputError:
                continue
        done = graph.begin
        for _ in range(rng.randint(0, 3)):
            ready = [op.number for op in graph.operations if not done >> op.number & 1]
            if ready:
                done |= group_mask(graph, done, rng.choice(ready)) if rng.random() < 0.5 else 0
        last = rng.choice([op.number for op in graph.operations])
        mask = 0 if done >> last & 1 else group_mask(graph, done, last)
        if mask.bit_count() < 2:
            continue
        sizes = sum(tensor.size for tensor in graph.tensors) + sum(op.weights for op in graph.operations)
        options = TrafficSteps(Transitions(Groups(graph), rng.randint(1, sizes)), shared=rng.random() < 0.5)
        chip = dram = 0
        for number in members(options.steps.groups[mask].read):
            where = rng.randint(0, 3)
            chip |= (where & 1) << number
            dram |= (where >> 1) << number
        return options, mask, done, chip, dram


@pytest.mark.by_day(23)
@pytest.mark.parametrize("seed", range(examples(600)))
def test_steps_agree_with_all_ways_to_cut_them_up(seed: int) -> None:
    rng = random.Random(110_000 + seed)
    options, mask, done, chip, dram = random_step(rng)
    group = options.steps.groups[mask]
    room = rng.randint(1, options.capacity)
    every = list(options._of_one(group, done, chip, dram, 2**40))
    worth = sorted({option.excess for option in every} | {0})
    limit = rng.choice(worth)
    best: dict[tuple[int, int], int] = {}
    for option in every:
        key = option.on_chip, option.in_dram
        if option.memory <= room and option.excess <= limit:
            best[key] = min(option.excess, best.get(key, limit))
    table, reached = options.ranked(mask, State(done, chip, dram), limit, room)
    assert reached == limit
    for option in (each.complete() for each in table):
        # A way that is found is one of them, with its shape.
        assert best[option.on_chip, option.in_dram] == option.excess
        stairs = options._shapes_of(
            group,
            chip | option.fetched | option.resident,
            group.read & ~(chip | option.fetched),
            option.in_place,
            2**40,
        )
        assert any(stair.memory <= room for stair in stairs)
    # What is not in the table is worse than something that is, or than that with tensors that are alike.
    twins = options.interchangeable.sets(done | mask)
    alike = [*twins, *(1 << number for number in range(len(options.sizes)) if not 1 << number & sum(twins))]
    for (on_chip, in_dram), excess in best.items():
        moved = excess + options.deferred(in_dram & ~on_chip)
        assert any(
            other.excess + options.deferred(other.in_dram & ~other.on_chip) <= moved
            and all(
                (in_dram & each).bit_count() <= (other.in_dram & each).bit_count()
                and (in_dram & ~on_chip & each).bit_count()
                <= (other.in_dram & ~other.on_chip & each).bit_count()
                for each in alike
            )
            for other in table
        )


@pytest.mark.by_day(21)
@pytest.mark.parametrize("seed", range(examples(300)))
def test_what_moves_at_least_is_a_bound(seed: int) -> None:
    rng = random.Random(120_000 + seed)
    options, mask, done, _, _ = random_step(rng)
    group = options.steps.groups[mask]
    every = [
        option.excess
        for option in options._of_one(group, done, 0, 0, 2**40)
        if option.memory <= options.capacity
    ]
    least = options.least_excess(mask, done, 2**40)
    assert least <= min(every, default=2**60)
    if options.steps.least_memory(mask) <= options.capacity:
        assert options.least_spilled(group, done) <= min(every, default=2**60)


def cut_up(rng: random.Random, width: int, height: int, parts: int) -> list[tuple[int, int, int]]:
    """Return begin, end and size of items that fill a rectangle of time and memory without gaps."""
    found = [(0, width, 0, height)]
    while len(found) < parts:
        begin, end, low, high = found.pop(rng.randrange(len(found)))
        if rng.random() < 0.5 and end - begin > 1:
            middle = rng.randint(begin + 1, end - 1)
            found += [(begin, middle, low, high), (middle, end, low, high)]
        elif high - low > 1:
            middle = rng.randint(low + 1, high - 1)
            found += [(begin, end, low, middle), (begin, end, middle, high)]
        else:
            found.append((begin, end, low, high))
    return [(begin, end, high - low) for begin, end, low, high in found]


@pytest.mark.parametrize("seed", range(examples(100)))
def test_orders_lead_to_addresses(seed: int) -> None:
    """What fills the memory to the last element is placed; nothing overlaps; what cannot be placed is not."""
    rng = random.Random(140_000 + seed)
    items = cut_up(rng, 12, 64, rng.randint(1, 14))
    begins, ends, sizes = (np.array(column, dtype=np.int64) for column in zip(*items, strict=True))
    offsets = order_search.place_items(begins, ends, sizes, 64, 200_000)
    assert offsets is not None
    for one in range(len(items)):
        assert 0 <= offsets[one] <= 64 - sizes[one]
        for other in range(one):
            if begins[one] < ends[other] and begins[other] < ends[one]:
                assert (
                    offsets[one] + sizes[one] <= offsets[other]
                    or offsets[other] + sizes[other] <= offsets[one]
                )
    assert order_search.place_items(begins, ends, sizes, 63, 100) is None
