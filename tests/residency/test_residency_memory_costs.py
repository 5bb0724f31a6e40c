"""What is read and written in each memory without DRAM, and energy: the best plans, against an oracle."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import inf, prod
from typing import Any

import pytest
from conftest import examples
from test_residency_several_memories import LARGE, NAMES, WAITS, prices, random_plan, spread
from test_residency_without_dram import FLASH, problem_in_flash
from test_residency_without_dram_oracle import network_of_windows
from tests.fuzz import networks
from tests.oracles import Refused, TooLarge, microcontroller, several_memories

import tilewright as tw
from tilewright.residency import Plan, Problem, memory_front, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.machine import CoreCycles
from tilewright.residency.plan import Step
from tilewright.spec.errors import InputError

Json = dict[str, Any]

OF_ENERGY = (0, 1, 3, 25, 180)
MOST_LAYERS = 4

FREE = dict.fromkeys(CoreCycles.model_fields, 0)


def memory(rng: random.Random, name: str, size: int, *, priced: bool, **rest: Any) -> Json:
    """Return a memory with waits and width, and prices of accesses if they are asked for."""
    found = {"name": name, "bytes": size, "read_waits": rng.choice(WAITS)} | rest
    width = rng.choice([None, 1, 2, 4])
    found |= {"width_bytes": width} if width else {}
    if not rest.get("read_only"):
        found["write_waits"] = rng.choice(WAITS)
    if priced:
        found["read_fj"] = rng.choice(OF_ENERGY)
        found |= {} if rest.get("read_only") else {"write_fj": rng.choice(OF_ENERGY)}
    return found


def random_problem(rng: random.Random) -> Problem:
    """Return a problem with one memory or several, with prices, of which often none alone is large enough."""
    while True:
        network = network_of_windows(rng)
        if len(network["layers"]) > MOST_LAYERS:
            continue
        limits = {"inputs": rng.choice(["outside", "memory"]), "tiles": rng.random() < 0.7}
        limits |= {"most_operations": rng.choice([None, None, 1, 2])}
        limits |= {"order": rng.choice(["any", "any", "given"])}
        found = in_one_memory(rng, network, limits)
        if found is None:
            continue
        whole, least, most = found
        every = rng.choice([least, least + 1, rng.randint(least, 2 * most), rng.randint(least, 4 * most)])
        names = NAMES[: rng.choice([1, 2, 2, 2, 3])]
        ends = [0, *sorted(rng.randint(1, every) for _ in names[1:]), every + rng.choice([0, least // 3])]
        priced = rng.random() < 0.6
        sizes = [max(1, b - a) * whole.machine.element_bytes for a, b in pairwise(ends)]
        memories = [memory(rng, *each, priced=priced) for each in zip(names, sizes, strict=True)]
        memories.append(memory(rng, "flash", FLASH["bytes"], priced=priced, read_only=True))
        return in_memories(rng, whole, memories)


def in_one_memory(rng: random.Random, network: Json, limits: Json) -> tuple[Problem, int, int] | None:
    """Return a network's problem in one large memory, and what plans of few bytes, and of few MACs, take.

    The figures are elements. None is returned if the oracle finds the network too large.
    """
    width = rng.choice([1, 1, 2])
    machine: Json = {"element_bytes": width, "sum_bytes": rng.choice([width, 4])}
    try:
        whole = problem_in_flash(network, machine=machine, limits=limits)
        front = microcontroller.front(whole.model_dump(mode="json"))
    except (InputError, TooLarge):
        return None
    return whole, front[0][0] // width, front[-1][0] // width


def in_memories(rng: random.Random, whole: Problem, memories: list[Json]) -> Problem:
    """Return the problem in these memories, the last of which is flash, with prices or rates of a core."""
    width, own = whole.machine.element_bytes, memories[:-1]
    machine: Json = {"dram": False, "memories": memories, "memory": [each["name"] for each in own]}
    machine |= {"memory_bytes": sum(each["bytes"] for each in own), "sum_bytes": whole.machine.sum_bytes}
    machine |= {"element_bytes": width}
    return whole.with_(machine=machine | time_and_energy(rng, width, priced="read_fj" in own[0]))


def random_problem_of_blocks(rng: random.Random) -> Problem:
    """Return a problem of which some weights fit into RAM, and take long to read in flash."""
    while True:
        layers = networks.network(rng, 3, 3, rng.randint(5, 13), "cccpda", twice=False, back=2)
        limits = {
            "inputs": rng.choice(["outside", "memory", "memory"]),
            "most_operations": rng.choice([None, 1]),
        }
        sizes = [prod([each["kernels"], each["input"][0], *each["kernel"]])
                 for each in layers if each.get("kernels", 0) > 4 and each.get("groups", 1) == 1]  # fmt: skip
        found = in_one_memory(rng, networks.read_inside(rng, layers), limits) if sizes else None
        if found is None:
            continue
        whole, least, _ = found
        width, priced = whole.machine.element_bytes, rng.random() < 0.6
        fast = memory(rng, "fast", width * (least + rng.randint(1, max(sizes))), priced=priced)
        slow = memory(rng, "slow", width * rng.randint(1, 2 * least), priced=priced)
        in_flash = memory(rng, "flash", FLASH["bytes"], priced=priced, read_only=True)
        fast |= {"read_waits": rng.choice([0, 0.25]), "write_waits": 0}
        memories = [[fast], [fast, slow], [slow, fast]]
        return in_memories(
            rng, whole, [*rng.choice(memories), in_flash | {"read_waits": rng.choice([6, 40])}]
        )


def time_and_energy(rng: random.Random, width: int, *, priced: bool) -> Json:
    """Return prices or rates of a core, and what it takes in a cycle where that is counted."""
    rates = {"macs_per_cycle": rng.choice([1, 3]), "bus_elements_per_cycle": rng.choice([1, 2])}
    rates |= {"dma_setup_cycles": rng.choice([0, 40]), "vector_ops_per_cycle": rng.choice([1, 2])}
    energy = {"core_fj_per_cycle": rng.choice([1, 7, 60])}
    energy |= {"dram_fj_per_access": rng.choice([0, 10, 90]), "dram_access_bytes": rng.choice([1, 3, 8])}
    found = rates if width > 1 else {"cycles_of": prices(rng)}
    return found | ({"energy": energy} if priced or width > 1 else {})


def names_of_costs(problem: Problem) -> list[str]:
    """Return the costs that are counted on a machine."""
    machine = problem.model_dump(mode="json")["machine"]
    memories = [f"traffic_of({each['name']})" for each in machine["memories"]]
    return ["macs", "traffic", "cycles", "memory", *memories, *(["energy"] if machine.get("energy") else [])]


def walked(told: Json, plan: Any) -> dict[str, int]:
    """Return what a plan costs, by name of what may be minimised."""
    steps = json.loads(json.dumps(plan.to_json()))
    found = microcontroller.costs(told, steps)
    found |= {"traffic": found["read"] + found["written"], "memory": found["taken"]}
    each = microcontroller.memories(told, steps).items()
    return found | {f"traffic_of({name})": read + written for name, (_, read, written) in each}


def limited(rng: random.Random, told: Json, minimised: str, names: list[str]) -> Json:
    """Return limits of costs that a plan has which no other is as good as in all of these, or less by one."""
    search = several_memories.Search(told, [name for name in (minimised, *names) if name != "memory"])
    points = [search.counted.whole(each.costs) for each in search.front()]
    if not points:
        return {}
    point, found = rng.choice(points), dict[str, Any]()
    for name in names:
        most = max(0, point[name] - rng.choice([0, 0, 0, 1]))
        if "(" in name:
            memory_name = name.removeprefix("traffic_of(").removesuffix(")")
            found.setdefault("most_traffic_of", {})[memory_name] = most
        else:
            found[f"most_{name}"] = max(1, most)
    return found


def posed(rng: random.Random, problem: Problem, first: Sequence[str] = ()) -> tuple[Problem, Json]:
    """Return a problem with an objective and limits at random, and what the oracle is told of it.

    Parameters
    ----------
    first
        What one of is minimised if it is counted; anything if none is told.
    """
    told, names = problem.model_dump(mode="json"), names_of_costs(problem)
    minimised = rng.choice([name for name in names if not first or name in first])
    others = rng.sample([name for name in names if name != minimised], 2)
    several = [minimised, *others[: rng.choice([1, 1, 2])]]
    objective: Json = {"minimise": minimised if rng.random() < 0.8 else several}
    if objective["minimise"] == minimised and rng.random() < 0.7:
        within = [name for name in others[: rng.choice([1, 1, 2])] if name != "memory"]
        objective |= limited(rng, told, minimised, within)
    told |= {"objective": objective}
    if rng.random() < 0.4 and (says := said(several_memories.limits(objective))):
        return problem.with_(objective={"minimise": minimised}).where(*says), told
    return problem.with_(objective=objective), told


def said(limits: dict[str, int]) -> list[str]:
    """Return limits in words of constraints."""
    return [f"{name} <= {most}" for name, most in limits.items()]


def compared(problem: Problem, told: Json) -> None:
    """Compare what `states` finds of a problem with the oracle's best."""
    expected, shown = several_memories.best(told), problem.model_dump_json()
    result = tw.solve(problem, "states", time_limit=60, confirm=False)
    if expected is None:
        assert result.status == "infeasible", shown
        return
    assert result.status != "infeasible", shown
    *_, last = expected
    proven = len(expected) == 1 and (last != "memory" or len(told["machine"]["memory"]) == 1)
    if proven:
        assert result.bound == expected[last], shown
    elif len(expected) == 1:  # what lies in each memory at a time need not lie there in one plan
        assert result.bound <= expected[last], shown
    if result.plan is None:  # what fits by size may have no addresses
        return
    assert violation(problem, result.plan) is None, shown
    costs = walked(told, result.plan)
    assert costs[last] == result.objective, shown
    if proven:
        assert (result.status == "optimal") == (costs[last] == expected[last]), shown
    if result.status == "optimal":
        assert {name: costs[name] for name in expected} == expected, shown
    limits = several_memories.limits(told["objective"])
    assert all(costs[name] <= most for name, most in limits.items()), shown


@pytest.mark.parametrize("seed", range(examples(600, 18)))
def test_the_best_of_all_plans_with_prices_of_memories(seed: int) -> None:
    rng = random.Random(f"memory costs {seed}")
    problem = random_problem(rng)
    try:
        compared(*posed(rng, problem))
    except TooLarge:
        pytest.skip("too large for the oracle")


@pytest.mark.parametrize("seed", range(examples(600, 10)))
def test_the_best_of_all_plans_that_copy_weights_block_by_block(seed: int) -> None:
    rng = random.Random(f"blocks of weights {seed}")
    problem = random_problem_of_blocks(rng)
    try:
        compared(*posed(rng, problem, ("cycles", "energy", "traffic_of(flash)")))
    except TooLarge:
        pytest.skip("too large for the oracle")


def costs_what_the_oracle_says(problem: Problem, plan: Plan, expected: dict[str, int]) -> None:
    """Compare what a plan costs, in closed forms and simulated, and how often memories are accessed."""
    told, steps = problem.model_dump(mode="json"), json.loads(json.dumps(plan.to_json()))
    names, costs = names_of_costs(problem), costs_of(problem, plan)
    shown = problem.model_dump_json(), steps
    assert {name: costs[name] for name in names} == {name: expected[name] for name in names}, shown
    measures = simulate(problem, plan).measures
    assert (measures.cycles, measures.energy_fj) == (expected["cycles"], expected["energy"]), shown
    assert measures.memories is not None
    accessed = {name: each.accesses for name, each in measures.memories.items()}
    assert accessed == microcontroller.accesses_of_memories(told, steps), shown


def some_memories(rng: random.Random, whole: Problem) -> tuple[Problem, list[int]]:
    """Return the problem in up to three memories, each larger than all it needs, and where they begin."""
    sizes = [(name, LARGE) for name in NAMES[: rng.randint(1, 3)]]
    memories = [memory(rng, *each, priced=True) for each in sizes]
    in_flash = memory(rng, "flash", FLASH["bytes"], priced=True, read_only=True)
    starts = [number * (LARGE // whole.machine.element_bytes) for number in range(len(sizes))]
    return in_memories(rng, whole, [*memories, in_flash]), starts


@pytest.mark.parametrize("seed", range(examples(600, 10)))
def test_what_plans_cost_in_memories_with_prices(seed: int) -> None:
    rng = random.Random(f"prices of accesses {seed}")
    found = None
    while found is None:
        found = random_plan(rng)
    problem, starts = some_memories(rng, found[0])
    weighty = [op.name for op in problem.graph.operations if op.op.spec.kind in ("conv", "fc")]
    plan = spread(rng, found[1], starts, dict.fromkeys(weighty, rng.choice([0, 0.5, 0.9])))
    assert violation(problem, plan) is None
    try:
        expected = walked(problem.model_dump(mode="json"), plan)
    except TooLarge:
        pytest.skip("the oracle does not tell of such operations")
    costs_what_the_oracle_says(problem, plan, expected)


def in_blocks(rng: random.Random, step: Step, outputs: int, at: int) -> Step:
    """Return a step that computes, and often copies weights, block by block, which may not be allowed.

    Parameters
    ----------
    at
        Where copies are put.
    """
    kernels = min(outputs, rng.choice([1, 2, 4, 4, 4, 6, 8, 8, 12, 16, 100]))
    names = tuple(name for name in step.operations if rng.random() < 0.8)
    copies = {f"weights of {name}": at + 1000 * place for place, name in enumerate(names)}
    found = replace(step, copied=names, addresses=dict(step.addresses) | copies)
    return replace(found, order="kernels", pixels=1, kernels=kernels) if rng.random() < 0.8 else found


@pytest.mark.parametrize("seed", range(examples(600, 12)))
def test_what_blocks_of_weights_read_and_write_in_memories(seed: int) -> None:
    rng = random.Random(f"accesses of blocks {seed}")
    found = None
    while found is None:
        layers = networks.network(rng, 3, 3, rng.randint(5, 13), "ccccpdaf", twice=False, back=2)
        limits = {"inputs": rng.choice(["outside", "memory", "memory"]), "most_operations": 1}
        found = in_one_memory(rng, networks.read_inside(rng, layers), limits)
    whole, width = found[0], found[0].machine.element_bytes
    problem, starts = some_memories(rng, whole)
    plan = spread(rng, rng.choice(memory_front(whole)).plan, starts, {})
    outputs = {each["name"]: each.get("kernels", each["input"][0]) for each in layers}
    copies = [rng.choice(starts) + LARGE // width // 2 for _ in plan.steps]
    steps = [
        in_blocks(rng, step, outputs[step.operations[-1]], at) if rng.random() < 0.7 else step
        for step, at in zip(plan.steps, copies, strict=True)
    ]
    plan = Plan(tuple(steps))
    told, shown = problem.model_dump(mode="json"), (problem.model_dump_json(), plan.to_json())
    try:
        expected = walked(told, plan)
        refused = None
    except Refused as error:
        refused = str(error)
    assert (violation(problem, plan) is None) == (refused is None), (refused, shown)
    if refused is None:
        costs_what_the_oracle_says(problem, plan, expected)


def front_of_each_memory(told: Json, over: str) -> list[tuple[int, int]]:
    """Return bytes, and another cost, of all plans that one of the memories holds, without worse ones."""
    points, machine = list[tuple[int, int]](), told["machine"]
    for each in machine["memories"]:
        if not each["read_only"]:
            alone = machine | {"memory": [each["name"]], "memory_bytes": each["bytes"]}
            points += several_memories.front_of_memory(told | {"machine": alone}, over)
    points.sort()
    least = [inf, *accumulate((cost for _, cost in points), min)]
    return [point for point, before in zip(points, least, strict=False) if point[1] < before]


@pytest.mark.parametrize("seed", range(examples(300, 8)))
def test_fronts_of_memory_are_those_of_all_plans(seed: int) -> None:
    rng = random.Random(f"fronts {seed}")
    problem = rng.choice([random_problem, random_problem_of_blocks])(rng)
    told, over = problem.model_dump(mode="json"), rng.choice(["cycles", "cycles", "macs"])
    memories = told["machine"]["memories"]
    for each in memories[:-1]:
        each["bytes"] *= rng.choice([1, 2, 8])
    told["machine"]["memory_bytes"] = sum(each["bytes"] for each in memories[:-1])
    problem = Problem.model_validate(told)
    try:
        expected = front_of_each_memory(told, over)
    except TooLarge:
        pytest.skip("too large for the oracle")
    corners = memory_front(problem, over=over)
    found = [(each.memory_bytes, each.cycles if over == "cycles" else each.macs) for each in corners]
    assert found == expected, problem.model_dump_json()
    for corner in corners:
        assert walked(told, corner.plan)[over] == (corner.cycles if over == "cycles" else corner.macs)


def by_hand(size: int, width: int, kernels: int, inputs: str) -> Json:
    """Return what the oracle is told of a convolution 1 x 1 of 2 channels, of four pixels, in a RAM."""
    layer = {"name": "a", "input": [2, 2, 2], "kernels": kernels, "kernel": [1, 1]}
    told = problem_in_flash({"layers": [layer]}, limits={"inputs": inputs}).model_dump(mode="json")
    ram = {"name": "ram", "bytes": size, "width_bytes": width, "read_fj": 3, "write_fj": 5}
    in_flash = FLASH | {"width_bytes": 4, "read_waits": 2, "read_fj": 7}
    told["machine"] |= {"memories": [ram, in_flash], "memory": "ram", "memory_bytes": size}
    told["machine"]["cycles_of"] = FREE | {"mac": 1, "moved": 0.5, "pixel": 3}
    told["machine"]["energy"] = {
        "core_fj_per_cycle": 11,
        "dram_fj_per_access": 13,
        "dram_access_bytes": 1,
    }
    return told


# To four outputs. The core takes 32 cycles for MACs, 24 / 2 for what is outside, 8 * 3 for pixels that are
# loaded and computed: 68. A line buffer of 2 bytes is written and read 8 times, which takes 8 * 8 fJ, and
# what is outside 24 * 13. Each of 32 weights is read in flash by itself: 64 cycles more, and 224 fJ.
# A copy of 8 weights is read in two accesses: 4 cycles, and as many for what moves; 14 fJ. It is written in 8
# accesses, or in 2 of four bytes, and read in 32: 136 or 106 fJ. It takes 8 bytes beside 2 and 4 of a pixel.
NONE = {"cycles": 132, "energy": 11 * 132 + 64 + 312 + 224}
COPIED = {"cycles": 76, "energy": 11 * 76 + 64 + 312 + 14 + 136}
IN_FOURS = {"cycles": 76, "energy": 11 * 76 + 64 + 312 + 14 + 106}


@pytest.mark.parametrize(
    ("size", "width", "objective", "expected"),
    [
        (13, 1, {"minimise": "cycles"}, NONE["cycles"]),
        (13, 1, {"minimise": "energy"}, NONE["energy"]),
        (14, 1, {"minimise": "cycles"}, COPIED["cycles"]),
        (14, 1, {"minimise": "energy"}, COPIED["energy"]),
        (14, 4, {"minimise": "energy"}, IN_FOURS["energy"]),
        (14, 4, {"minimise": "energy", "most_traffic_of": {"ram": 55}}, NONE["energy"]),
        (14, 1, {"minimise": "traffic_of(ram)"}, 16),
        (14, 1, {"minimise": "traffic_of(ram)", "most_traffic_of": {"flash": 31}}, 16 + 8 + 32),
        (14, 1, {"minimise": "traffic_of(ram)", "most_cycles": 76}, 16 + 8 + 32),
        (14, 1, {"minimise": "traffic_of(flash)"}, 8),
        (13, 1, {"minimise": "traffic_of(flash)"}, 32),
        (13, 1, {"minimise": "macs", "most_traffic_of": {"flash": 31}}, None),
        (14, 1, {"minimise": ["traffic_of(ram)", "cycles"]}, NONE["cycles"]),
        (99, 1, {"minimise": "memory", "most_traffic_of": {"flash": 31}}, 14),
    ],
)
def test_a_copy_of_all_weights_by_hand(size: int, width: int, objective: Json, expected: int | None) -> None:
    told = by_hand(size, width, 4, "outside") | {"objective": objective}
    found = several_memories.best(told)
    assert (found and [*found.values()][-1]) == expected


# To eight outputs, from 8 bytes in RAM. The core takes 64 cycles for MACs, 40 / 2 for what is outside, 4 * 3
# for pixels. The input is written in 8 accesses, and read in 16, as there are two fours of outputs: 88 fJ.
# What is outside takes 520. 64 weights in flash take 128 cycles.
# A copy of 16 bytes takes 8 cycles for what moves, 4 accesses in flash and so 8 cycles and 28 fJ, is written
# in 16 accesses and read in 64: 272 fJ. Channel by channel it leaves room for an output of one byte.
# In two blocks it takes 8 bytes, and 4 for outputs. The pixels take 12 cycles more, all else what it took.
KERNELS = {"cycles": 64 + 20 + 12 + 128}
WHOLE = {"cycles": 64 + 20 + 12 + 16, "energy": 11 * 112 + 88 + 520 + 28 + 272}
BLOCKS = {"cycles": 64 + 20 + 24 + 16, "energy": 11 * 124 + 88 + 520 + 28 + 272}


@pytest.mark.parametrize(
    ("size", "objective", "expected"),
    [
        (8 + 8 + 4 - 1, {"minimise": "cycles"}, KERNELS["cycles"]),
        (8 + 8 + 4, {"minimise": "cycles"}, BLOCKS["cycles"]),
        (8 + 8 + 4, {"minimise": "energy"}, BLOCKS["energy"]),
        (8 + 16 + 1 - 1, {"minimise": "cycles"}, BLOCKS["cycles"]),
        (8 + 16 + 1, {"minimise": "cycles"}, WHOLE["cycles"]),
        (8 + 16 + 1, {"minimise": "energy"}, WHOLE["energy"]),
        (20, {"minimise": "traffic_of(flash)"}, 16),
        (20, {"minimise": "traffic_of(ram)", "most_traffic_of": {"flash": 63}}, 8 + 16 + 16 + 64),
        (99, {"minimise": "memory", "most_traffic_of": {"flash": 63}}, 20),
        (99, {"minimise": "memory", "most_cycles": BLOCKS["cycles"] - 1}, 25),
    ],
)
def test_blocks_of_weights_by_hand(size: int, objective: Json, expected: int) -> None:
    told = by_hand(size, 1, 8, "memory") | {"objective": objective}
    found = several_memories.best(told)
    assert found is not None
    assert [*found.values()][-1] == expected
