"""Addresses part by part: tensors that are alike change places, and plans with less room are looked for."""

from __future__ import annotations

import random
from itertools import combinations
from typing import Any

import numpy as np
from conftest import examples
from residency_cases import NEVER, problem_of, random_problem, survives
from test_residency_layers import layers

from tilewright.addresses.order_search import place_or_exchange
from tilewright.residency import Problem, objective, simulate
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.addresses import Addresses
from tilewright.residency.exact.interchangeable import Exchanges
from tilewright.residency.exact.traffic import RoomierPlans, least_traffic
from tilewright.residency.exact.wider_buffers import widen_buffers
from tilewright.residency.graph import members
from tilewright.residency.placement import (
    Item,
    find_addresses,
    peak_elements,
    place_steps,
    placed_items,
    plan_of,
)
from tilewright.residency.shapes.groups import Groups
from tilewright.residency.shapes.shape import Shape, count_passes, count_rounds
from tilewright.residency.transitions import StepChoice

FULL, MOST = 30, 400
"""The memory, and changes of ends that are looked at."""


def filled(rng: random.Random) -> tuple[list[int], list[int], list[int]]:
    """Return when items begin and end, and their sizes, which fill the memory at any time."""
    begins: list[int] = []
    ends: list[int] = []
    sizes: list[int] = []
    for now in range(14):
        left = FULL - sum(size for size, end in zip(sizes, ends, strict=True) if end > now)
        while left:
            begins.append(now)
            ends.append(now + rng.randint(1, 6))
            sizes.append(min(left, rng.choice([3, 4, 7, 11])))
            left -= sizes[-1]
    return begins, ends, sizes


def mixed(rng: random.Random, count: int) -> Problem:
    """Return a network in which each layer reads all before it: some of their outputs are alike."""
    rows, names, channels = [rng.randint(2, 3), rng.randint(1, 3)], ["input"], 2
    found: list[dict[str, Any]] = []
    for number in range(count):
        layer = {"name": f"d{number}", "inputs": list(names), "input": [channels, *rows], "kernel": [1, 1]}
        found.append(layer | {"kernels": rng.choice([1, 2, 2, 3])})
        names.append(f"d{number}")
        channels += found[-1]["kernels"]
    return problem_of({"layers": found}, 100_000)


def steps_at_random(problem: Problem, rng: random.Random) -> list[StepChoice]:
    """Return steps of one operation each, in which tensors leave the chip at any time if they are in DRAM."""
    graph, found = problem.graph, []
    on_chip, in_dram = 0, 1
    for number in range(len(graph.operations)):
        group = Groups(graph)[1 << number]
        sources, output = sum(1 << tensor for tensor in group.sources), 1 << group.output
        dropped = sum(1 << tensor for tensor in members(on_chip & in_dram) if rng.random() < 0.25)
        missing = sources & ~(on_chip & ~dropped)
        fetched = sum(1 << tensor for tensor in members(missing & ~dropped) if rng.random() < 0.5)
        resident = output if graph.readers[group.output] else 0
        written = output if rng.random() < 0.9 or not resident else 0
        weights = frozenset([number] if group.last.weights else [])
        shape = Shape("pixels", 1, 1, weights)
        found.append(StepChoice(group.mask, dropped, fetched, resident, written, -1, shape))
        left = ~((2 << number) - 1)
        on_chip, in_dram = on_chip & ~dropped | fetched | resident, in_dram | written
        on_chip &= sum(1 << tensor for tensor in range(number + 2) if graph.readers[tensor] & left)
    return found


def traffic_and_memory(problem: Problem, choices: list[StepChoice]) -> list[tuple[int, int]]:
    """Execute steps where there is room for all addresses; return what each moves, and what it takes."""
    plan = place_steps(problem.groups, choices, problem.machine.capacity)
    assert plan is not None
    survives(problem, plan)
    return [(step.moved, step.memory) for step in decode_plan(problem, plan)]


def reachable(begins: list[int], ends: list[int], pairs: list[tuple[int, int, int]]) -> list[list[int]]:
    """Return the ends that items may have, when pairs of them change their ends in any way."""
    known, waiting = {tuple(ends)}, [ends]
    while waiting and len(known) < MOST:
        old = waiting.pop()
        for one, other, since in pairs:
            first = min(old[one], old[other])
            if old[one] != old[other] and first >= since and first > max(begins[one], begins[other]):
                new = list(old)
                new[one], new[other] = old[other], old[one]
                if tuple(new) not in known:
                    known.add(tuple(new))
                    waiting.append(new)
    return [list(each) for each in sorted(known)]


def exchanges(problem: Problem, choices: list[StepChoice]) -> list[list[StepChoice]]:
    """Return what becomes of steps when tensors that are alike change places."""
    alike = Exchanges(problem.groups)
    states = alike.states(choices)
    stays = alike.stays(choices, states)
    begins, ends = [stay.begin for stay in stays], [stay.end for stay in stays]
    wanted = reachable(begins, ends, alike.pairs(stays, states))
    return [alike.exchange(choices, stays, each) for each in wanted]


def test_what_is_alike_may_change_places() -> None:
    """Each step moves as much and takes as much memory as before, and the numbers are right."""
    changed = 0
    for seed in range(examples(60, 7)):
        rng = random.Random(seed)
        problem = mixed(rng, 4 + seed % 4)
        choices = steps_at_random(problem, rng)
        before = traffic_and_memory(problem, choices)
        for others in exchanges(problem, choices)[:10]:
            assert traffic_and_memory(problem, others) == before
            changed += others != choices
    assert changed > 20


def test_items_that_change_their_ends_are_placed_where_there_were_no_addresses() -> None:
    helped = 0
    for seed in range(60):
        rng = random.Random(seed)
        begins, ends, sizes = filled(rng)
        count = len(begins)
        pairs = [
            (one, other, max(begins[one], begins[other]) + 1)
            for one, other in combinations(range(count), 2)
            if sizes[one] == sizes[other] and rng.random() < 0.3
        ]

        def there(ends: list[int], begins: list[int] = begins, sizes: list[int] = sizes) -> list[Item]:
            return [Item(*each, ()) for each in zip(begins, ends, sizes, strict=True)]

        both = np.array(pairs, dtype=np.int64).reshape(-1, 3)
        offsets, new = place_or_exchange(*map(np.array, (begins, ends, sizes)), both, FULL, 20_000)
        every = reachable(begins, ends, pairs)
        assert new.tolist() in every or len(every) >= MOST
        for one, other in combinations(range(count), 2):
            if (
                min(offsets[one], offsets[other]) >= 0
                and begins[one] < new[other]
                and begins[other] < new[one]
            ):
                apart = (
                    offsets[one] + sizes[one] <= offsets[other],
                    offsets[other] + sizes[other] <= offsets[one],
                )
                assert any(apart)
        if (offsets >= 0).all():
            assert (offsets + sizes <= FULL).all()
            helped += find_addresses(there(ends), FULL, NEVER, exact=True) is None
    assert helped


def test_addresses_of_steps_that_fill_the_memory() -> None:
    """They are sought part by part, and tensors that are alike change places; as much is moved as before."""
    for seed in range(examples(40)):
        rng = random.Random(3_000 + seed)
        problem = mixed(rng, 5 + seed % 9)
        choices = steps_at_random(problem, rng)
        tight = problem.with_(machine={"memory_bytes": peak_elements(placed_items(problem.groups, choices))})
        plan = Addresses(problem.groups, tight.machine.capacity).place(choices, NEVER)
        assert plan is not None
        survives(tight, plan)
        assert [step.moved for step in decode_plan(tight, plan)] == [
            moved for moved, _ in traffic_and_memory(problem, choices)
        ]


def test_addresses_of_the_best_plans() -> None:
    """They are sought part by part; all that is found moves what the search says."""
    for seed in range(examples(60)):
        problem = random_problem(random.Random(5_000 + seed), 7)
        found = list(layers(problem).plans())[-1]
        plan = Addresses(problem.groups, problem.machine.capacity).place(found.choices, NEVER)
        assert plan is not None
        survives(problem, plan)
        assert sum(step.moved for step in decode_plan(problem, plan)) == found.cost


def test_buffers_fill_what_is_free_beside_the_tensors() -> None:
    """Tensors stay where they are; each step moves as much as before, in no more passes."""
    fewer = 0
    for seed in range(examples(80)):
        rng = random.Random(7_000 + seed)
        problem = random_problem(rng, 6)
        graph, capacity = problem.graph, problem.machine.capacity
        choices = list(list(layers(problem).plans())[-1].choices)
        found = placed_items(problem.groups, choices)
        places = find_addresses(found, capacity, NEVER, exact=True)
        if places is None:
            continue
        before = list(zip(found, places, strict=True))
        wide, after = widen_buffers(problem.groups, choices, before, capacity)
        names = {tensor.name for tensor in graph.tensors}
        assert [each for each in before if each[0].names[0][1] in names] == [
            each for each in after if each[0].names[0][1] in names
        ]
        plan = plan_of(problem.groups, wide, after)
        survives(problem, plan)
        narrow = decode_plan(problem, plan_of(problem.groups, choices, before))
        for one, other in zip(narrow, decode_plan(problem, plan), strict=True):
            assert one.moved == other.moved
            passes_of = [
                count_passes(step.group, step.choice.shape) * count_rounds(step.group, step.choice.shape)
                for step in (one, other)
            ]
            assert passes_of[0] >= passes_of[1]
            fewer += passes_of[0] > passes_of[1]
    assert fewer


def test_the_simulator_counts_the_same_without_values() -> None:
    for seed in range(examples(40)):
        problem = random_problem(random.Random(8_000 + seed), 7)
        plan = least_traffic(problem, NEVER, lambda _bound: None, lambda _plan: None).plan
        assert plan is not None
        reports = [simulate(problem, plan, numeric=numeric) for numeric in (False, True)]
        assert reports[0].measures == reports[1].measures
        assert reports[0].violation is None and reports[0].numeric is None and reports[1].numeric


def test_plans_with_less_room() -> None:
    """If a step has no addresses, it takes less memory in another plan: valid, and never better."""
    helped = 0
    for seed in range(examples(40)):
        rng = random.Random(9_000 + seed)
        problem = random_problem(rng, 7)
        search, addresses = layers(problem), Addresses(problem.groups, problem.machine.capacity)
        last = list(search.plans())[-1]
        bound, step = search.bound, rng.randrange(len(last.choices))
        addresses.failed = [(step, step + 1)]
        most = sum(problem.layer_by_layer.values())
        another = RoomierPlans(search, addresses).search(last, most, NEVER)
        assert search.bound == bound == last.cost
        if another is not None:
            moved, plan = another
            survives(problem, plan)
            assert last.cost <= moved <= most
            assert bound <= objective(problem, plan) <= moved  # wider buffers may move less
            helped += 1
    assert helped
