"""Machines without DRAM whose maps lie in several memories: plans are executed, and cost what is said."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import NEVER, ignore, random_network
from tests.residency.test_residency_without_dram import FLASH, problem_in_flash

from tilewright.residency import Plan, Problem, memory_front, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.several_memories import Placed, least_waits
from tilewright.residency.exact.without_dram import best_without_dram
from tilewright.residency.machine import CoreCycles
from tilewright.residency.vocabulary import PlanView
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError

PRICES = {name: 100.0 / (place + 1) for place, name in enumerate(CoreCycles.model_fields)}


def in_memories(network: Any, *memories: dict[str, Any], **rest: Any) -> Problem:
    """Return a problem with memories that can be written, all of which maps may lie in."""
    machine = {"memories": [*memories, FLASH], "dram": False, "cycles_of": PRICES} | rest.pop("machine", {})
    return Problem.model_validate({"network": network, "machine": machine, **rest})


def some_memories(rng: random.Random, least: int) -> list[dict[str, Any]]:
    """Return two or three memories that together have about as much as a network needs."""
    count, total = rng.choice([2, 2, 3]), max(4, round(least * rng.choice([0.8, 1, 1.1, 1.5, 2])))
    ends = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    return [
        {
            "name": f"ram{place}",
            "bytes": end - begin,
            "read_waits": rng.choice([0, 0, 2.5, 7]),
            "write_waits": rng.choice([0, 0, 3]),
        }
        for place, (begin, end) in enumerate(pairwise(ends))
    ]


@pytest.mark.parametrize("seed", range(examples(300, 25)))
def test_plans_are_executed_in_their_memories_and_cost_what_they_claim(seed: int) -> None:
    rng = random.Random(seed)
    network, limits = random_network(rng, 5), {"inputs": rng.choice(["outside", "memory"])}
    least = best_without_dram(problem_in_flash(network, limits=limits), NEVER, ignore, ignore).bound
    minimise = rng.choice(["memory", "macs", "cycles", "traffic"])
    problem = in_memories(
        network, *some_memories(rng, least), limits=limits, objective={"minimise": minimise}
    )
    answer = best_without_dram(problem, NEVER, ignore, ignore)
    if answer.plan is None:
        # No smaller memory holds what several of them do not.
        assert all(region.elements < least for region in problem.machine.regions)
        return
    assert problem.machine.capacity >= least
    assert violation(problem, answer.plan) is None
    report = simulate(problem, answer.plan, numeric=True)
    assert report.violation is None and report.numeric, report.violation
    costs, found = costs_of(problem, answer.plan), report.measures
    measured = found.memory_bytes, found.traffic_bytes, found.cycles, found.macs
    assert measured == tuple(costs[name] for name in ("memory", "traffic", "cycles", "macs"))
    assert costs[minimise] >= answer.bound
    assert found.memories is not None
    for region in problem.machine.regions:
        assert found.memories[region.name].memory_bytes <= region.elements
    taken = [found.memories[region.name].memory_bytes for region in problem.machine.regions]
    assert sum(taken) == found.memory_bytes
    for step in found.steps_of_plan.values():
        assert step.memories is not None
        together = {key: size for each in step.memories.values() for key, size in each.items()}
        assert together == step.on_chip_bytes


@pytest.mark.parametrize("seed", range(examples(100, 8)))
def test_memories_that_are_alike_are_as_good_as_one_where_one_holds_the_plan(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, 5)
    front = memory_front(problem_in_flash(network))
    corner = rng.choice(front)
    small = {"name": "small", "bytes": max(1, corner.memory_bytes // 3)}
    large = {"name": "large", "bytes": corner.memory_bytes}
    problem = in_memories(network, small, large, objective={"minimise": ["macs", "memory"]})
    points = [(each.memory_bytes, each.macs) for each in memory_front(problem)]
    assert points == [(each.memory_bytes, each.macs) for each in front if each.memory_bytes <= large["bytes"]]
    least = best_without_dram(
        problem.alone("memory", {}, problem.machine.memory_bytes), NEVER, ignore, ignore
    )
    assert least.bound == front[0].memory_bytes


@pytest.mark.parametrize("seed", range(examples(200, 20)))
def test_buffers_lie_where_the_core_waits_the_least(seed: int) -> None:
    rng = random.Random(seed)
    regions = range(rng.choice([1, 2, 3]))
    items = [
        Placed(("lines", place), rng.randint(1, 9), tuple(rng.choice([0, 3, 10, 25]) for _ in regions))
        for place in range(rng.randint(0, 6))
    ]
    rooms, most = [rng.randint(0, 25) for _ in regions], rng.randint(0, 120)
    best = None
    for number in range(len(regions) ** len(items)):
        lies = [number // len(regions) ** place % len(regions) for place in range(len(items))]
        waits = sum(item.waits[region] for item, region in zip(items, lies, strict=True))
        taken = [
            sum(item.size for item, lie in zip(items, lies, strict=True) if lie == region)
            for region in regions
        ]
        if all(map(int.__le__, taken, rooms)) and waits <= most and (best is None or waits < best):
            best = waits
    found = least_waits(items, rooms, most)
    assert (found is None) == (best is None)
    if found is not None:
        assert sum(item.waits[region] for item, region in zip(items, found, strict=True)) == best


CHAIN = [
    {"name": "a", "input": [4, 24, 24], "kernels": 8, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"name": "b", "input": [8, 24, 24], "kernels": 16, "kernel": [3, 3], "stride": [2, 2]},
    {"kind": "conv", "name": "c", "input": [16, 11, 11], "kernels": 16, "kernel": [11, 11]},
]

MAP_A, MAP_B = 8 * 24 * 24, 16 * 11 * 11


def table(*memories: dict[str, Any], **machine: Any) -> dict[str, Any]:
    """Return an instance file's table with memories, for operations one by one."""
    machine = {"dram": False, "memories": [*memories, FLASH], **machine}
    return {
        "room": "residency",
        "network": {"layers": CHAIN},
        "machine": machine,
        "objective": {"minimise": ["macs", "memory"]},
        "limits": {"most_operations": 1},
    }


def test_what_no_memory_holds_alone_lies_in_two() -> None:
    whole = solve(parse(table({"name": "ram", "bytes": 2**20})), time_limit=20)
    assert (whole.status, whole.objective) == ("optimal", MAP_A + MAP_B)
    first, second = {"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A + 100}
    alone = solve(parse(table(first, second, memory="second")), time_limit=20)
    assert alone.status == "infeasible"
    both = solve(parse(table(first, second)), time_limit=20)
    assert (both.status, both.objective) == ("optimal", MAP_A + MAP_B)
    taken = {name: each.memory_bytes for name, each in both.measures.memories.items()}
    assert (taken["first"], taken["second"]) == (MAP_B, MAP_A)
    less = solve(parse(table(first | {"bytes": MAP_B - 1}, second)), time_limit=20)
    assert less.status == "infeasible"


def test_memory_bytes_limits_all_memories_together() -> None:
    memories = {"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A + 100}
    told = {"memory": ["first", "second"]}
    whole = solve(parse(table(*memories, **told, memory_bytes=MAP_A + MAP_B)), time_limit=20)
    assert (whole.status, whole.objective) == ("optimal", MAP_A + MAP_B)
    less = solve(parse(table(*memories, **told, memory_bytes=MAP_A + MAP_B - 1)), time_limit=20)
    assert less.status == "infeasible"
    one = parse(table(*memories, memory_bytes=900)).problem.machine
    assert [(each.name, each.elements) for each in one.regions] == [("first", 900)]


def moved(plan: Plan, key: str, elements: int) -> Plan:
    """Return a plan in which something lies elsewhere."""
    steps = []
    for step in plan.steps:
        there = {name: at + elements * (name == key) for name, at in step.addresses.items()}
        steps.append(replace(step, addresses=there))
    return replace(plan, steps=tuple(steps))


def test_nothing_lies_in_two_memories() -> None:
    problem = parse(table({"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": 8_000})).problem
    plan = best_without_dram(problem.alone("macs", {}, 8_000), NEVER, ignore, ignore).plan
    assert plan is not None
    across = moved(plan, "a", MAP_B - 1 - plan.steps[0].addresses["a"])
    told = violation(problem, across)
    assert told is not None
    assert tells(told, f"memory .. a takes elements {MAP_B - 1} .. first ends at {MAP_B}")
    report = simulate(problem, across)
    assert report.violation is not None
    assert tells(str(report.violation), f"below {MAP_B} in memory first")


@pytest.mark.parametrize(
    ("memories", "machine", "told"),
    [
        (
            [],
            {"memory": ["ram", "rom"]},
            "memory = 'rom' .. names no memory that can be written; there are ram, slow",
        ),
        ([], {"memory": ["ram", "ram"]}, "memory .. names a memory twice"),
        ([], {"memory": ["ram", "slow"], "memory_bytes": 301}, "memory_bytes = 301 .. more than 300"),
        (
            [],
            {"memory": ["ram", "slow"], "dram": True},
            "memory .. several memories, which is for machines without DRAM",
        ),
        (
            [{**FLASH, "name": "rom", "read_waits": 1.0}],
            {},
            "machine.memories.read_waits .. differ between memories that are read_only",
        ),
        (
            [{**FLASH, "name": "rom", "write_waits": 1.0}],
            {},
            "machine.memories[2].write_waits = 1.0 .. rom is read_only",
        ),
        ([{"name": "odd", "bytes": 9, "read_waits": -1.0}], {}, "read_waits = -1.0"),
    ],
)
def test_memories_that_cannot_be_are_refused(
    memories: list[dict[str, Any]], machine: dict[str, Any], told: str
) -> None:
    own = {"name": "ram", "bytes": 100}, {"name": "slow", "bytes": 200}
    with pytest.raises(InputError) as error:
        parse(table(*own, *memories, **machine))
    assert tells(str(error.value), told)


def test_constraints_on_addresses_are_for_plans_that_one_memory_holds() -> None:
    given = table({"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A + 100})
    given["constraints"] = [{"say": "memory != 5"}]
    problem = parse(given).problem.alone("macs", {}, MAP_A + MAP_B + 100)
    with pytest.raises(InputError) as error:
        best_without_dram(problem, NEVER, ignore, ignore)
    assert tells(str(error.value), "constraints .. memory, which is for maps in one memory")
    given["constraints"] = [{"say": "in_place(a)"}]
    assert solve(parse(given), time_limit=20).status == "infeasible"
    given["constraints"] = [{"say": "before(a, b)"}]
    assert solve(parse(given), time_limit=20).status == "optimal"


def test_all_that_there_is_may_be_what_is_needed() -> None:
    memories = {"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A}
    found = solve(parse(table(*memories)), time_limit=20)
    assert (found.status, found.objective) == ("optimal", MAP_A + MAP_B)


@pytest.mark.parametrize("seed", range(examples(200, 12)))
def test_plans_fall_apart_into_those_of_each_memory_of_a_map(seed: int) -> None:
    rng = random.Random(seed)
    network, limits = random_network(rng, 5), {"inputs": rng.choice(["outside", "memory"])}
    least = best_without_dram(problem_in_flash(network, limits=limits), NEVER, ignore, ignore).bound
    minimise = rng.choice(["macs", "cycles", "traffic"])
    told = {"limits": limits, "objective": {"minimise": minimise}}
    problem = in_memories(network, *some_memories(rng, 2 * least), **told)
    tensor = rng.choice([each.name for each in problem.graph.tensors if each.readers or each.leaves])
    names = [region.name for region in problem.machine.regions]
    bounds = []
    for place in ("nowhere", *names):
        own = problem.with_(constraints=[{"say": f"memory_of('{tensor}') == {place}"}])
        answer = best_without_dram(own, NEVER, ignore, ignore)
        if answer.plan is None:
            assert answer.impossible
            continue
        assert PlanView(own, answer.plan).memory_of(tensor) == place
        bounds.append(answer.bound)
    whole = best_without_dram(problem, NEVER, ignore, ignore)
    assert (whole.plan is None) == (not bounds)
    assert not bounds or whole.bound == min(bounds)


def test_each_memory_is_taken_as_little_of_as_the_others_allow() -> None:
    memories = {"name": "first", "bytes": MAP_A + 50}, {"name": "second", "bytes": MAP_A + 90}
    found = solve(parse(table(*memories)), time_limit=20)
    assert (found.status, found.objective) == ("optimal", MAP_A + MAP_B)
