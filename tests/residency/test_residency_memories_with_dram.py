"""Several memories beside DRAM: plans cross no border, and proofs hold against all plans and all places."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from conftest import examples
from residency_cases import random_problem, survives
from tests.oracles import TooLarge, residency

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.residency import Problem, objective
from tilewright.spec.errors import InputError

Json = dict[str, Any]
Thing = tuple[int, int, int]
"""The first step of something on chip, the one behind its last, and its size."""

MOST_PLANS, MOST_LOOKED = 4_000, 100_000


def divided(rng: random.Random, problem: Problem) -> Json | None:
    """Return the tables of a problem with its memory divided into two or three."""
    total, count = problem.machine.memory_bytes, rng.choice([2, 2, 3])
    if total < count:
        return None
    cuts = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    memories = [
        {"name": f"ram{place}", "bytes": end - begin} for place, (begin, end) in enumerate(pairwise(cuts))
    ]
    told = problem.model_dump(mode="json")
    told["machine"] |= {"memories": memories, "memory": [each["name"] for each in memories]}
    return told


def solved(problem: Problem) -> Outcome:
    method = catalogue.formulation("residency", "states")
    assert method is not None
    return method.solve(problem, RunContext())


# All plans, in all places ----------------------------------------------------------------------------------


def things(told: Json, plan: Json) -> list[Thing]:
    """Return all that a plan of the oracle has on chip."""
    graph, found = residency.Graph(told, plan.get("staying", ()), plan.get("again")), list[Thing]()
    numbers = {graph.name(tensor): tensor for tensor in range(len(graph.shapes))}
    found += [(0, len(plan["steps"]), size) for size in graph.staying.values()]
    state, since = graph.start(), dict[int, int]()
    for place, step in enumerate(plan["steps"]):
        group = graph.group(frozenset(numbers[name] - 1 for name in step["operations"]))
        dropped, fetched, resident, written = (
            frozenset(numbers[name] for name in step[key])
            for key in ("dropped", "fetched", "resident", "written")
        )
        whole = (state.chip - dropped) | fetched | resident
        replaced = None if step["in_place"] is None else numbers[step["in_place"]]
        found += [(since.pop(tensor), place, graph.sizes[tensor]) for tensor in sorted(dropped)]
        since |= dict.fromkeys(fetched | resident, place)
        buffers = group.buffers(group.cut_of(step), whole, written)
        found += [(place, place + 1, size) for size in buffers.values() if size]
        if replaced is not None:
            since[group.output] = since.pop(replaced)
        state = graph.after(state, group, whole, written)
        found += [(since.pop(t), place + 1, graph.sizes[t]) for t in sorted(since.keys() - state.chip)]
    return found


def packs(every: list[Thing], rooms: list[int]) -> bool:
    """Whether there are a room and a place in it for each thing: all assignments, and all orders from below.

    Raises
    ------
    TooLarge
        If too many are looked at.
    """
    order, looked = sorted(every, key=lambda each: (-each[2], each)), 0
    last = max(end for _, end, _ in every)

    def fits(inside: list[Thing], room: int) -> bool:
        return all(
            sum(size for begin, end, size in inside if begin <= at < end) <= room for at in range(last)
        )

    def assignments(place: int, inside: list[list[Thing]]) -> Iterator[list[list[Thing]]]:
        if place == len(order):
            yield inside
            return
        for room in range(len(rooms)):
            more = [*inside[room], order[place]]
            if fits(more, rooms[room]):
                yield from assignments(place + 1, [*inside[:room], more, *inside[room + 1 :]])

    def stacked(left: list[Thing], there: list[tuple[Thing, int]], room: int) -> bool:
        nonlocal looked
        if not left:
            return True
        looked += 1
        if looked > MOST_LOOKED:
            raise TooLarge
        lowest = there[-1][1] if there else 0
        for number, (begin, end, size) in enumerate(left):
            beside = [at + other[2] for other, at in there if begin < other[1] and other[0] < end]
            at = max(beside, default=0)
            rest, placed = [*left[:number], *left[number + 1 :]], [*there, (left[number], at)]
            new = lowest <= at <= room - size and (begin, end, size) not in left[:number]
            if new and stacked(rest, placed, room):
                return True
        return False

    known: dict[tuple[int, tuple[Thing, ...]], bool] = {}

    def packed(inside: list[Thing], room: int) -> bool:
        key = room, tuple(inside)
        if key not in known:
            known[key] = stacked(inside, [], room)
        return known[key]

    return any(
        all(packed(each, room) for each, room in zip(inside, rooms, strict=True))
        for inside in assignments(0, [[] for _ in rooms])
    )


def least(told: Json, name: str) -> int | None:
    """Return the least of an objective of all plans that have a place for everything; None if none has."""
    width = told["machine"]["element_bytes"]
    rooms = [each["bytes"] // width for each in told["machine"]["memories"]]
    found = sorted(
        ((costs[name], sorted(things(told, plan))) for plan, costs in residency.plans(told, MOST_PLANS)),
        key=lambda each: each[0],
    )
    seen = set[tuple[Thing, ...]]()
    for cost, every in found:
        if tuple(every) not in seen and packs(every, rooms):
            return cost
        seen.add(tuple(every))
    return None


@pytest.mark.parametrize("seed", range(examples(400, 16)))
def test_proofs_hold_against_all_plans_in_all_places(seed: int) -> None:
    rng = random.Random(f"memories {seed}")
    name = rng.choice(["traffic", "traffic", "cycles", "energy"])
    limits = {"tiles": rng.random() < 0.5} | rng.choice([{}, {}, {"frames": "many"}, {"executions": 2}])
    machine = {"element_bytes": 1 if limits.get("frames") else rng.choice([1, 1, 2])}
    aim = {"minimise": name if len(limits) == 1 else "traffic"}
    told = None
    while told is None:
        one = random_problem(rng, 2 if limits["tiles"] else 3, limits=limits, objective=aim)
        told = divided(
            rng,
            one.with_(
                machine=machine | {"memory_bytes": one.machine.memory_bytes * machine["element_bytes"]}
            ),
        )
    try:
        best = least(told, aim["minimise"])
    except TooLarge:
        pytest.skip("too large for the oracle")
    try:
        problem = Problem.model_validate(told)
    except InputError:
        assert best is None
        return
    outcome = solved(problem)
    if outcome.plan is None:
        assert outcome.status == "unknown" or best is None
        return
    survives(problem, outcome.plan)
    assert best is not None
    assert outcome.bound <= best <= objective(problem, outcome.plan)
