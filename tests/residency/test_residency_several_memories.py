"""Several memories without DRAM: what plans read and write there, and the best plans, against an oracle."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from conftest import examples
from residency_cases import NEVER, ignore
from test_residency_without_dram import FLASH, problem_in_flash
from test_residency_without_dram_oracle import cut_otherwise, judged, mistaken, network_of_windows
from tests.fuzz import networks
from tests.oracles import TooLarge, microcontroller, several_memories

from tilewright.residency import Plan, Problem, memory_front, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.without_dram import best_without_dram
from tilewright.residency.machine import CoreCycles
from tilewright.spec.errors import InputError

Json = dict[str, Any]

LARGE = 2**20
NAMES = ("fast", "slow", "third")
WAITS = (0, 0, 0.25, 1, 1.37, 6, 40)
PRICES = (0, 0.25, 1, 7.5, 40)


def ram(rng: random.Random, name: str, size: int) -> Json:
    """Return a memory that the core may wait for."""
    return {"name": name, "bytes": size, "read_waits": rng.choice(WAITS), "write_waits": rng.choice(WAITS)}


def in_memories(problem: Problem, memories: list[Json], flash: float = 0, **rest: Any) -> Problem:
    """Return the problem with maps in these memories, and weights in flash that the core may wait for."""
    names = [each["name"] for each in memories]
    told = problem.model_dump(mode="json")
    told["machine"] |= {"memories": [*memories, FLASH | {"read_waits": flash}], "memory": names} | rest.pop(
        "machine", {}
    )
    told["machine"]["memory_bytes"] = sum(each["bytes"] for each in memories)
    return Problem.model_validate(told | rest)


def prices(rng: random.Random) -> Json:
    """Return prices of a core."""
    return {name: rng.choice(PRICES) for name in CoreCycles.model_fields}


def random_layers(rng: random.Random) -> Json:
    """Return a network: windows, groups, parts, planes that are added up."""
    most, side, channels = rng.randint(2, 5), rng.choice([3, 4, 5, 6]), rng.randint(1, 4)
    kind = rng.random()
    if kind < 0.3:
        return network_of_windows(rng)
    if kind < 0.6:
        return networks.read_inside(rng, networks.reduced(rng, most, side, channels))
    kinds = rng.choice(["cccpdajfsx", "ccpdamfsrj", "ccxxxpdam", "cdajjjx"])
    return networks.read_inside(rng, networks.network(rng, most, side, channels, kinds, twice=False, back=3))


def random_plan(rng: random.Random) -> tuple[Problem, Plan] | None:
    """Return a plan for one large memory, cut up at random; None where there is none."""
    machine = {"sum_bytes": rng.choice([1, 2, 4]), "element_bytes": rng.choice([1, 1, 1, 2])}
    limits = {"inputs": rng.choice(["outside", "memory"]), "tiles": rng.random() < 0.8}
    try:
        problem = problem_in_flash(random_layers(rng), machine=machine, limits=limits)
        plan = rng.choice(memory_front(problem)).plan
    except InputError:
        return None
    for _ in range(6):
        steps = list(plan.steps)
        place = rng.randrange(len(steps))
        steps[place] = cut_otherwise(rng, steps[place])
        plan = Plan(tuple(steps)) if violation(problem, Plan(tuple(steps))) is None else plan
    return problem, plan


def spread(rng: random.Random, plan: Plan, regions: list[int], copies: dict[str, float]) -> Plan:
    """Return the plan with everything apart, each thing in one of the memories that begin there.

    Parameters
    ----------
    copies
        How often weights of an operation are copied.
    """
    found, at, count = [], dict[str, int](), 0
    for step in plan.steps:
        addresses, copied = (
            dict[str, int](),
            tuple(name for name in step.operations if rng.random() < copies.get(name, 0)),
        )
        if step.order == "kernels" and step.kernels > 1:  # then copies are in blocks
            copied = ()
        for name in [*step.addresses, *(f"weights of {name}" for name in copied)]:
            addresses[name] = rng.choice(regions) + 1000 * count
            count += 1
        if step.in_place is not None:
            own = addresses.get(step.in_place, at.get(step.in_place))
            assert own is not None
            addresses[step.operations[-1]] = own
        at |= addresses
        found.append(replace(step, addresses=addresses, copied=copied))
    return Plan(tuple(found))


@pytest.mark.parametrize("seed", range(examples(600, 25)))
def test_what_plans_read_and_write_in_memories(seed: int) -> None:
    rng = random.Random(f"accesses {seed}")
    found = None
    while found is None:
        found = random_plan(rng)
    problem, plan = found
    memories = [ram(rng, name, LARGE) for name in NAMES[: rng.randint(1, 3)]]
    rng.shuffle(memories)
    width = problem.machine.element_bytes
    machine = {"cycles_of": prices(rng)} if width == 1 else {}
    problem = in_memories(problem, memories, rng.choice(WAITS), machine=machine)
    weighty = (op for op in problem.graph.operations if op.op.spec.kind in ("conv", "fc"))
    often = rng.choice([0, 0.5, 0.9])
    plan = spread(
        rng, plan, [n * (LARGE // width) for n in range(len(memories))], {op.name: often for op in weighty}
    )
    told, steps = problem.model_dump(mode="json"), json.loads(json.dumps(plan.to_json()))
    assert violation(problem, plan) is None
    try:
        expected = microcontroller.memories(told, steps)
    except TooLarge:
        pytest.skip("the oracle does not tell of such operations")
    measures = simulate(problem, plan).measures
    assert measures.memories is not None
    shown = problem.model_dump_json(), steps
    counted = {
        name: (each.memory_bytes, each.read_bytes, each.written_bytes)
        for name, each in measures.memories.items()
    }
    assert counted == expected, shown
    costs = microcontroller.costs(told, steps)
    assert (measures.memory_bytes, measures.macs) == (costs["taken"], costs["macs"]), shown
    if machine:
        assert measures.cycles == costs["cycles"] == costs_of(problem, plan)["cycles"], shown


def random_problem(rng: random.Random, objective: Json, layers: int = 9) -> Problem:
    """Return a problem with one memory or several, of which often none alone is large enough."""
    while True:
        network = network_of_windows(rng)
        if len(network["layers"]) > layers:
            continue
        limits = {"inputs": rng.choice(["outside", "memory"]), "tiles": rng.random() < 0.7}
        limits |= {
            "order": rng.choice(["any", "any", "given"]),
            "most_operations": rng.choice([None, None, 1, 2]),
        }
        machine = {"sum_bytes": rng.choice([1, 4])}
        try:
            whole = problem_in_flash(network, machine=machine, limits=limits)
            front = microcontroller.front(whole.model_dump(mode="json"))
        except (InputError, TooLarge):
            continue
        least, most = front[0][0], front[-1][0]
        every = rng.choice([least, least + 1, rng.randint(least, 2 * most), rng.randint(least, 4 * most)])
        names = NAMES[: rng.choice([1, 2, 2, 2, 3])]
        ends = [0, *sorted(rng.randint(1, every) for _ in names[1:]), every + rng.choice([0, least // 3])]
        memories = [ram(rng, name, max(1, b - a)) for name, (a, b) in zip(names, pairwise(ends), strict=True)]
        machine = {"cycles_of": prices(rng)}
        return in_memories(whole, memories, rng.choice(WAITS), machine=machine, objective=objective)


@pytest.mark.parametrize("seed", range(examples(600, 12)))
def test_the_best_of_all_plans_in_several_memories(seed: int) -> None:
    rng = random.Random(f"several memories {seed}")
    minimised = rng.choice(["cycles", "cycles", "cycles", "macs"])
    problem = random_problem(rng, {"minimise": minimised})
    told = problem.model_dump(mode="json")
    try:
        front = several_memories.front(told)
    except TooLarge:
        pytest.skip("too large for the oracle")
    answer, shown = best_without_dram(problem, NEVER, ignore, ignore), problem.model_dump_json()
    assert answer.impossible == (not front), shown
    if not front:
        return
    expected = min(cycles if minimised == "cycles" else macs for macs, cycles in front)
    assert answer.bound == expected, shown
    if answer.plan is None:  # what fits by size may have no addresses
        return
    assert violation(problem, answer.plan) is None, shown
    steps = json.loads(json.dumps(answer.plan.to_json()))
    costs, measures = microcontroller.costs(told, steps), simulate(problem, answer.plan).measures
    assert (measures.macs, measures.cycles) == (costs["macs"], costs["cycles"]), shown
    assert costs[minimised] >= expected, shown
    for _ in range(5):
        judged(problem, told, mistaken(rng, answer.plan))


@pytest.mark.parametrize("seed", range(examples(200, 5)))
def test_what_memories_take_in_all_is_bounded(seed: int) -> None:
    # What is taken in all is bounded by what is there at a time, as memories may not be fullest together.
    rng = random.Random(f"in all {seed}")
    minimised = rng.choice(["memory", "cycles"])
    problem = random_problem(rng, {"minimise": minimised}, layers=4)
    room = problem.machine.memory_bytes
    if minimised == "cycles":
        problem = problem.with_(machine={"memory_bytes": rng.randint(max(1, room // 2), room)})
    told = problem.model_dump(mode="json")
    try:
        least = several_memories.least(told)
    except TooLarge:
        pytest.skip("too large for the oracle")
    answer, shown = best_without_dram(problem, NEVER, ignore, ignore), problem.model_dump_json()
    if least is None:
        assert answer.plan is None, shown
        return
    expected = least._asdict()[minimised]
    assert not answer.impossible, shown
    assert answer.bound <= expected, shown
    if answer.plan is not None:
        assert violation(problem, answer.plan) is None, shown
        assert costs_of(problem, answer.plan)[minimised] >= expected, shown


@pytest.mark.parametrize("seed", range(examples(100, 5)))
def test_the_oracle_of_several_memories_has_the_front_of_one(seed: int) -> None:
    rng = random.Random(f"one of several {seed}")
    problem = random_problem(rng, {"minimise": "cycles"}, layers=4)
    one = [ram(rng, "fast", rng.randint(1, problem.machine.memory_bytes))]
    alone = in_memories(problem, one).model_dump(mode="json")
    try:
        fitting = [macs for memory, macs in microcontroller.front(alone) if memory <= one[0]["bytes"]]
        front = several_memories.front(alone)
        assert min(fitting, default=None) == min((macs for macs, _ in front), default=None)
        # Large memories of equal waits are as one; a slower one beside the others changes nothing.
        large = [one[0] | {"bytes": LARGE, "name": name} for name in NAMES]
        large[2]["read_waits"] += 1
        alone, several = (
            several_memories.front(in_memories(problem, each).model_dump(mode="json"))
            for each in (large[:1], large)
        )
    except TooLarge:
        pytest.skip("too large for the oracle")
    assert alone == several
