"""Machines without DRAM whose maps lie in several memories: plans are executed, and cost what is said."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise, product
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import NEVER, ignore, random_network
from tests.residency.test_residency_without_dram import FLASH, problem_in_flash

from tilewright.residency import Plan, Problem, memory_front, plot, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.layouts import Placed, best_layouts, least_layout
from tilewright.residency.exact.without_dram import best_without_dram
from tilewright.residency.machine import CoreCycles
from tilewright.residency.vocabulary import PlanView
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError

PRICES = {name: 100.0 / (place + 1) for place, name in enumerate(CoreCycles.model_fields)}
PRICED_FLASH = {**FLASH, "read_fj": 40, "read_waits": 1.5, "width_bytes": 4}
ENERGY = {"core_fj_per_cycle": 3, "dram_fj_per_access": 200, "dram_access_bytes": 8}


def in_memories(network: Any, *memories: dict[str, Any], **rest: Any) -> Problem:
    """Return a problem with memories that can be written, all of which maps may lie in."""
    told = {"dram": False, "cycles_of": PRICES}
    if memories and "read_fj" in memories[0]:
        told |= {"memories": [*memories, PRICED_FLASH], "energy": ENERGY}
    machine = {"memories": [*memories, FLASH]} | told | rest.pop("machine", {})
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


def with_energy(rng: random.Random, memories: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return memories with prices of energy, some of which are wide."""
    told = [{"read_fj": rng.choice([0, 7, 90]), "write_fj": rng.choice([0, 9, 60])} for _ in memories]
    return [
        each | prices | ({"width_bytes": rng.choice([2, 4])} if rng.random() < 0.5 else {})
        for each, prices in zip(memories, told, strict=True)
    ]


def totals(measures: Any) -> dict[str, int]:
    """Return what was measured of a plan, by objective."""
    found = {
        "memory": measures.memory_bytes,
        "traffic": measures.traffic_bytes,
        "cycles": measures.cycles,
        "energy": measures.energy_fj,
        "macs": measures.macs,
    }
    for name, each in measures.memories.items():
        found[f"traffic_of({name})"] = each.read_bytes + each.written_bytes
    return found


OF_MEMORIES = ("cycles", "energy", "traffic_of(ram0)", "traffic_of(ram1)", "traffic_of(flash)")


@pytest.mark.parametrize("seed", range(examples(300, 25)))
def test_what_depends_on_memories_costs_what_is_claimed_within_limits(seed: int) -> None:
    rng = random.Random(f"of memories {seed}")
    network, limits = random_network(rng, 5), {"inputs": rng.choice(["outside", "memory"])}
    least = best_without_dram(problem_in_flash(network, limits=limits), NEVER, ignore, ignore).bound
    memories = with_energy(rng, some_memories(rng, 2 * least))
    minimise, limited = rng.sample(OF_MEMORIES, 2)
    given = {"minimise": minimise}
    problem = in_memories(network, *memories, limits=limits, objective=given)
    free = best_without_dram(problem, NEVER, ignore, ignore)
    if free.plan is None:
        return
    costs = costs_of(problem, free.plan)
    report = simulate(problem, free.plan, numeric=True)
    assert report.violation is None and report.numeric, report.violation
    assert totals(report.measures) == costs
    assert costs[minimise] == free.bound
    other = in_memories(network, *memories, limits=limits, objective={"minimise": limited})
    lowest = best_without_dram(other, NEVER, ignore, ignore)
    for most in {lowest.bound, (lowest.bound + costs[limited]) // 2, costs[limited]}:
        parsed = {f"most_{limited}": most}
        if limited.startswith("traffic_of"):
            parsed = {"most_traffic_of": {limited[len("traffic_of(") : -1]: most}}
        own = in_memories(network, *memories, limits=limits, objective=given | parsed)
        answer = best_without_dram(own, NEVER, ignore, ignore)
        assert answer.plan is not None and violation(own, answer.plan) is None
        spent = costs_of(own, answer.plan)
        assert free.bound <= answer.bound == spent[minimise] and spent[limited] <= most
        assert most < costs[limited] or answer.bound == free.bound
        constrained = problem.with_(constraints=[{"say": f"{limited} <= {most}"}])
        assert best_without_dram(constrained, NEVER, ignore, ignore).bound == answer.bound
    if lowest.bound:
        parsed = {f"most_{limited}": lowest.bound - 1}
        if limited.startswith("traffic_of"):
            parsed = {"most_traffic_of": {limited[len("traffic_of(") : -1]: lowest.bound - 1}}
        own = in_memories(network, *memories, limits=limits, objective=given | parsed)
        assert best_without_dram(own, NEVER, ignore, ignore).plan is None


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


def layouts(
    items: list[Placed], rooms: list[int], kinds: int
) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    """Return all memories of some items in which these fit, each with what it costs."""
    found = []
    for lies in product(*(range(len(item.costs[0])) for item in items)):
        taken = [0] * (len(rooms) + 1)
        for item, lie in zip(items, lies, strict=True):
            taken[lie] += item.size
        if all(map(int.__le__, taken, rooms)):
            every = zip(items, lies, strict=True)
            costs = [tuple(each[lie] for each in item.costs) for item, lie in every]
            found.append((lies, tuple(map(sum, zip(*costs, strict=True))) if costs else (0,) * kinds))
    return found


def some_items(rng: random.Random, kinds: int) -> tuple[list[Placed], list[int]]:
    """Return buffers, some of which may lie nowhere, and rooms of memories."""
    regions = rng.choice([1, 2, 3])
    items = []
    for place in range(rng.randint(0, 5)):
        places = regions + rng.choice([0, 0, 1])
        costs = tuple(tuple(rng.choice([0, 3, 10, 25]) for _ in range(places)) for _ in range(kinds))
        items.append(Placed(("lines", place), rng.randint(1, 9), costs))
    return items, [rng.randint(0, 25) for _ in range(regions)]


@pytest.mark.parametrize("seed", range(examples(200, 20)))
def test_buffers_lie_where_they_cost_the_least(seed: int) -> None:
    rng = random.Random(seed)
    items, rooms = some_items(rng, 1)
    most = rng.randint(0, 120)
    costs = [cost for _, (cost,) in layouts(items, rooms, 1) if cost <= most]
    found = least_layout([item.size for item in items], [item.costs[0] for item in items], rooms, most)
    assert (found is None) == (not costs)
    if found is not None:
        assert sum(item.costs[0][lie] for item, lie in zip(items, found, strict=True)) == min(costs)


@pytest.mark.parametrize("seed", range(examples(200, 20)))
def test_all_layouts_are_found_that_no_other_beats_in_several_costs(seed: int) -> None:
    rng = random.Random(seed)
    kinds = rng.choice([2, 3])
    items, rooms = some_items(rng, kinds)
    most = [rng.choice([20, 60, 200]) for _ in range(kinds)]
    every = dict(layouts(items, rooms, kinds))
    allowed = {cost for cost in every.values() if all(map(int.__le__, cost, most))}
    best = {
        cost
        for cost in allowed
        if not any(other != cost and all(map(int.__le__, other, cost)) for other in allowed)
    }

    def worth(costs: Sequence[int]) -> bool:
        return all(map(int.__le__, costs, most))

    found = list(best_layouts(items, rooms, (0,) * kinds, worth))
    assert all(every[tuple(lies)] == costs for lies, costs in found)
    assert {costs for _, costs in found} == best and len(found) == len(best)


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
        ([], {"memory_bytes": 101}, "memory_bytes = 101 .. more than 100, which ram has .. names others"),
        ([], {"memory": "slow", "memory_bytes": 201}, "memory_bytes = 201 .. more than 200, which slow has"),
        (
            [{"name": "odd", "bytes": 9, "write_waits": 0.5}],
            {"dram": True},
            "machine.memories[2].write_waits = 0.5 .. is for machines without DRAM",
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
        ([{"name": "odd", "bytes": 9, "width_bytes": 0}], {}, "width_bytes = 0"),
        ([{"name": "odd\nname", "bytes": 9}], {}, "machine.memories[2].name .. must be printable"),
        ([{"name": "odd", "bytes": 9, "alignment_bytes": 24}], {}, "alignment_bytes = 24 .. power of two"),
        ([{"name": "odd", "bytes": 9, "alignment_bytes": 8}], {"dram": True}, "machines without DRAM"),
        (
            [{"name": "odd", "bytes": 9, "read_fj": 5, "write_fj": 5}],
            {},
            "machine.energy.core_fj_per_cycle: must be told where memories have prices",
        ),
        (
            [{"name": "odd", "bytes": 9, "read_fj": 5, "write_fj": 5}],
            {"energy": ENERGY},
            "machine.memories[0].read_fj: must be told of ram",
        ),
        (
            [{"name": "odd", "bytes": 9, "read_fj": 5, "write_fj": 5}],
            {"energy": {**ENERGY, "local_fj_per_access": 5}},
            "machine.energy.local_fj_per_access .. counts for nothing",
        ),
        (
            [{**FLASH, "name": "rom", "width_bytes": 4}],
            {},
            "machine.memories.width_bytes .. differ between memories that are read_only",
        ),
    ],
)
def test_memories_that_cannot_be_are_refused(
    memories: list[dict[str, Any]], machine: dict[str, Any], told: str
) -> None:
    own = {"name": "ram", "bytes": 100}, {"name": "slow", "bytes": 200}
    with pytest.raises(InputError) as error:
        parse(table(*own, *memories, **machine))
    assert tells(str(error.value), told)


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ({"minimise": "traffic_of(ram2)"}, "traffic_of(ram2) .. ram2 is no memory .. first, second, flash"),
        (
            {"most_traffic_of": {"ram2": 9}},
            "objective.most_traffic_of.ram2 .. there are first, second, flash",
        ),
        ({"most_traffic_of": {"first": -1}}, "most_traffic_of.first = -1"),
        (
            {"minimise": "traffic_of(first)", "most_traffic_of": {"first": 9}},
            "objective.most_traffic_of.first = 9 .. limits what is minimised itself",
        ),
        ({"minimise": "trafic"}, "traffic_of(MEMORY), or a list of them .. traffic"),
        ({"minimise": "energy"}, "machine.macs_per_cycle .. must be told"),
    ],
)
def test_objectives_of_memories_that_cannot_be_are_refused(objective: dict[str, Any], told: str) -> None:
    given = table({"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A + 100})
    with pytest.raises(InputError) as error:
        parse({**given, "objective": objective})
    assert tells(str(error.value), told)


@pytest.mark.parametrize("limited", ["first", "second"])
def test_a_front_has_plans_in_each_memory_whose_traffic_is_not_limited(limited: str) -> None:
    memories = {"name": "first", "bytes": MAP_A + MAP_B}, {"name": "second", "bytes": MAP_A + MAP_B + 1}
    free = parse(table(*memories)).problem
    points = [(each.memory_bytes, each.macs) for each in memory_front(free)]
    within = free.with_(objective={"most_traffic_of": {limited: 0}})
    front = memory_front(within)
    assert points and [(each.memory_bytes, each.macs) for each in front] == points
    assert all(costs_of(within, each.plan)[f"traffic_of({limited})"] == 0 for each in front)


def test_what_lies_in_a_later_memory_alone_is_drawn() -> None:
    memories = {"name": "first", "bytes": 50}, {"name": "second", "bytes": MAP_A + MAP_B}
    problem = parse(table(*memories)).problem
    plan = memory_front(problem)[0].plan
    axes = plot.plot(problem, plan, simulate(problem, plan))
    low, high = axes.get_ylim()
    assert axes.patches
    for box in axes.patches:
        assert low <= box.get_y() and box.get_y() + box.get_height() <= high
    assert "second" in [text.get_text() for text in axes.texts]


def test_a_second_memory_leaves_the_least_memory_within_a_limit_proven() -> None:
    rooms = {"name": "first", "bytes": MAP_A + MAP_B}, {"name": "second", "bytes": 2 * (MAP_A + MAP_B)}
    objective = {"minimise": "memory", "most_traffic_of": {"flash": 100_000}}
    found = [
        best_without_dram(parse({**table(*memories), "objective": objective}).problem, NEVER, ignore, ignore)
        for memories in (rooms[1:], rooms)
    ]
    assert found[0].plan is not None and found[1].plan is not None
    assert found[0].bound == found[1].bound


def test_traffic_of_a_memory_takes_upper_limits() -> None:
    given = table({"name": "first", "bytes": MAP_B}, {"name": "second", "bytes": MAP_A + 100})
    given["objective"] = {"minimise": "macs"}
    given["constraints"] = [{"say": "traffic_of(first) >= 5"}]
    with pytest.raises(InputError) as error:
        best_without_dram(parse(given).problem, NEVER, ignore, ignore)
    assert tells(str(error.value), "constraints[0] .. speaks of traffic_of, which takes an upper limit")
    given["constraints"].insert(0, {"say": "macs >= 5"})
    with pytest.raises(InputError) as error:
        solve(parse(given), "states", time_limit=20)
    assert tells(str(error.value), "constraints[1] .. traffic_of(first) >= 5 .. states cannot honour it")
    assert solve(parse(given), time_limit=20).status == "optimal"  # what is best without them keeps them


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
    minimise = rng.choice(["macs", "cycles", "traffic", "energy", "traffic_of(ram1)", "traffic_of(flash)"])
    told = {"limits": limits, "objective": {"minimise": minimise}}
    problem = in_memories(network, *with_energy(rng, some_memories(rng, 2 * least)), **told)
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
