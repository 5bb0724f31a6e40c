"""Weights copied from flash block by block: what they cost, where they may be, and which plan is best."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import NEVER, ignore

from tilewright.residency import Plan, Problem, memory_front, simulate, violation
from tilewright.residency.decode_plan import DecodedStep, decode_plan
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.without_dram import best_without_dram
from tilewright.residency.graph import InvalidPlanError
from tilewright.residency.machine import CoreCycles
from tilewright.residency.placement import Item, find_addresses, placed_items, plan_of
from tilewright.residency.plan import Step

PRICES = dict.fromkeys(CoreCycles.model_fields, 0.0) | {
    "mac": 1.0,
    "loop": 1.0,
    "output": 1.0,
    "place": 1.0,
    "pixel": 1.0,
    "moved": 0.5,
}

CONV = {"name": "a", "input": [2, 4, 3], "kernels": 10, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
PIXELS, OUTPUTS, PLACES, DEPTH = 12, 10, 9, 18


def in_two(layers: Sequence[Any], fast: int, slow: int = 2**12, **rest: Any) -> Problem:
    """Return a problem with two memories of which the second one makes the core wait, as flash does."""
    machine = {
        "dram": False,
        "memories": [
            {"name": "fast", "bytes": fast},
            {"name": "slow", "bytes": slow, "read_waits": 2.0, "write_waits": 3.0},
            {"name": "flash", "bytes": 2**20, "read_only": True, "read_waits": 4.0},
        ],
        "cycles_of": PRICES,
    } | rest.pop("machine", {})
    told = {"objective": {"minimise": "cycles"}, "limits": {"inputs": "memory", "most_operations": 1}}
    return Problem.model_validate({"network": {"layers": layers}, "machine": machine} | told | rest)


def step_of(**changes: Any) -> Step:
    """Return the step of the convolution with its input in the slow memory, a buffer in the fast one."""
    addresses = {"input": 1000, "weights of a": 0, "block of a": 900}
    told = {"order": "kernels", "kernels": 4, "copied": ("a",), "addresses": addresses} | changes
    return Step(operations=("a",), fetched=("input",), written=("a",), **told)


def test_a_streamed_convolution_costs_what_can_be_counted_by_hand() -> None:
    problem, plan = in_two([CONV], fast=1000), Plan((step_of(),))
    assert violation(problem, plan) is None
    (step,) = decode_plan(problem, plan)
    weights, blocks = OUTPUTS * DEPTH, 3  # of 4, 4 and 2 outputs
    macs = weights * PIXELS
    under = (2 + 3 + 3 + 2) * (2 + 3 + 2) * 2  # values under all windows, without the padding
    assert step.memory == 24 + 4 * PIXELS * 0 + 4 * DEPTH + 4
    fast, slow, flash = step.touched
    assert fast == (macs, weights, macs, weights)
    assert slow == (under * (1 + 1 + 2), 24, under * (1 + 1 + 2), 24)
    assert flash == (weights, 0, weights, 0)
    computed = macs + (1 + 1 + 1) * PLACES * PIXELS + OUTPUTS * PIXELS
    again = blocks * (PLACES * PIXELS + PIXELS)
    moved = 0.5 * (24 + OUTPUTS * PIXELS + weights)
    waits = 2 * slow.read + 3 * slow.written + 4 * weights
    assert costs_of(problem, plan)["cycles"] == computed + again + moved + waits
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None and report.numeric
    assert report.measures.cycles == computed + again + moved + waits
    assert report.measures.steps_of_plan["a"].on_chip_bytes["weights of a"] == 4 * DEPTH


@pytest.mark.parametrize(
    ("layer", "changes", "told"),
    [
        ({}, {"kernels": 6}, "copied .. blocks of 6 output channels, which is no multiple of 4"),
        ({"kernel": [4, 3], "padding": [0, 0, 1, 1], "input": [2, 4, 1]}, {}, "copied .. a has one pixel"),
        ({"input": [10, 4, 3], "groups": 2}, {}, "copied .. a is no convolution without groups"),
        ({}, {"copied": ("a", "a")}, "copied .. weights of an operation that it does not have"),
    ],
)
def test_what_cannot_be_streamed_is_refused(layer: Any, changes: Any, told: str) -> None:
    problem = in_two([CONV | layer], fast=1000)
    found = violation(problem, Plan((step_of(**changes),)))
    assert found is not None
    assert tells(found, told)


def test_products_and_running_values_are_not_streamed() -> None:
    product_of = {"kind": "fc", "name": "a", "input": [24, 1, 1], "kernels": 10, "kernel": [1, 1]}
    plane = CONV | {"kernel": [4, 3], "padding": [0, 0, 0, 0]}
    told = violation(in_two([product_of], fast=1000), Plan((step_of(),)))
    assert told is not None and tells(told, "copied .. a is no convolution without groups")
    told = violation(in_two([plane], fast=1000), Plan((step_of(running=True),)))
    assert told is not None and tells(told, "copied .. has running values")


def test_channel_by_channel_weights_are_copied_as_a_whole_and_read_in_flash_in_blocks() -> None:
    problem = in_two([CONV], fast=1000)
    for changes, size, reads in (
        ({"kernels": 1}, OUTPUTS * DEPTH, OUTPUTS * DEPTH),
        ({"kernels": 10}, OUTPUTS * DEPTH, OUTPUTS * DEPTH),
        ({"kernels": 4, "copied": ()}, 0, OUTPUTS * DEPTH * PIXELS),
    ):
        step = step_of(**changes)
        if not size:
            step.addresses.pop("weights of a")
        by_pixels = replace(step, order="pixels", kernels=1)
        plans = [Plan((each,)) for each in (step, by_pixels)]
        assert all(violation(problem, each) is None for each in plans), changes
        ((own,), (other,)) = (decode_plan(problem, each) for each in plans)
        assert own.touched == other.touched and own.touched[-1].read == reads
        assert own.spent == other.spent
        measures = simulate(problem, plans[0], numeric=True).measures
        assert measures.steps_of_plan["a"].on_chip_bytes.get("weights of a", 0) == size


# All plans --------------------------------------------------------------------------------------------------


def convolutions(rng: random.Random) -> list[Any]:
    """Return one or two convolutions, of which the first mostly has more than four outputs."""
    shape, layers = [rng.randint(1, 3), rng.randint(1, 4), rng.randint(2, 4)], list[Any]()
    for name in "ab"[: rng.choice([1, 2])]:
        kernel = [rng.choice([1, 3]), rng.choice([1, 3])]
        padding = [side for size in kernel for side in ([size // 2] * 2)]
        kernels = rng.choice([3, 5, 6, 8, 9, 12])
        own = {"name": name, "input": shape, "kernels": kernels, "kernel": kernel, "padding": padding}
        layers.append(own | {"bias": rng.random() < 0.5})
        shape = [kernels, *shape[1:]]
    return layers


def ways(problem: Problem) -> Iterator[tuple[Step, ...]]:
    """Return all steps of a chain of convolutions, without addresses.

    Of two convolutions without blocks that cost as much as pixel by pixel.
    """
    operations, every = list(problem.graph.numbers(problem.graph.all & ~problem.graph.begin)), []
    inside = problem.limits.inputs == "memory"
    for place, operation in enumerate(operations):
        first, last = not place, place == len(operations) - 1
        plain = Step(
            operations=(operation.name,),
            fetched=("input",) if first and inside else (),
            resident=() if last else (operation.name,),
            written=(operation.name,) if last else (),
        )
        found = [plain]
        if inside or not first:
            sizes = range(1, operation.units + 1) if len(operations) == 1 else (1, 4, 8)
            found += [replace(plain, order="kernels", kernels=k) for k in sizes if k <= operation.units]
        copies = [replace(each, copied=(operation.name,)) for each in found]
        every.append([each for each in found if each.kernels == 1 or len(operations) == 1] + copies)
    return product(*every)


def decoded_ways(problem: Problem) -> Iterator[list[DecodedStep]]:
    """Return all of these that are valid."""
    for steps in ways(problem):
        try:
            yield decode_plan(problem, Plan(steps))
        except InvalidPlanError as error:
            assert any(tells(str(error), told) for told in ("copied .. blocks", "memory .. needs"))


def plans(problem: Problem) -> Iterator[Plan]:
    """Return all plans that are valid, with everything in each memory that it may lie in."""
    regions = problem.machine.regions
    for decoded in decoded_ways(problem):
        choices = [each.choice for each in decoded]
        items = placed_items(problem.groups, choices)
        for lies in product(range(len(regions)), repeat=len(items)):
            found = list[tuple[Item, int]]()
            for number, region in enumerate(regions):
                own = [item for item, lie in zip(items, lies, strict=True) if lie == number]
                at = find_addresses(own, region.elements, NEVER, exact=True) if own else []
                if at is None:
                    break
                found += [(item, region.begin + each) for item, each in zip(own, at, strict=True)]
            else:
                yield plan_of(problem.groups, choices, found)


def machine_at_random(rng: random.Random) -> dict[str, Any]:
    """Return two memories and flash of any widths, and prices at which passes over pixels cost little."""
    sizes = rng.choice([rng.randint(1, 60), rng.randint(1, 300)]), rng.choice([120, 400, 2000]), 2**20
    memories = [
        {
            "name": name,
            "bytes": size,
            "read_waits": waits,
            "width_bytes": rng.choice([1, 2, 4, 7, 16]),
            "read_fj": rng.randint(0, 9) + 20 * place,
        }
        for place, (name, size, waits) in enumerate(
            zip(("fast", "slow", "flash"), sizes, (0, 2, 4), strict=True)
        )
    ]
    memories[1] |= {"write_waits": 3.0}
    for memory in memories[:2]:
        memory["write_fj"] = rng.randint(0, 30)
    memories[2] |= {"read_only": True}
    prices: dict[str, Any] = {name: rng.choice([0, 0.25, 1, 3]) for name in CoreCycles.model_fields}
    energy = {"core_fj_per_cycle": rng.choice([0, 5]), "dram_fj_per_access": 80}
    machine = {"memories": memories, "cycles_of": prices, "energy": energy}
    if rng.random() < 0.3:
        rates = "bus_elements_per_cycle", "macs_per_cycle", "dma_setup_cycles"
        machine |= {"cycles_of": None, "element_bytes": 2, **{name: rng.randint(1, 4) for name in rates}}
    return machine


@pytest.mark.parametrize("seed", range(examples(150, 6)))
def test_no_plan_with_any_blocks_in_any_memories_takes_fewer_cycles(seed: int) -> None:
    rng = random.Random(seed)
    layers = convolutions(rng)
    limits = {"inputs": rng.choice(["memory", "outside"]), "most_operations": 1, "tiles": False}
    minimised = rng.choice(["cycles", "cycles", "energy"])
    objective = {"minimise": minimised}
    problem = in_two(layers, 1, machine=machine_at_random(rng), limits=limits, objective=objective)
    every = list(plans(problem))
    answer = best_without_dram(problem, NEVER, ignore, ignore)
    assert (answer.plan is None) == (not every)
    if answer.plan is None:
        return
    costs = [costs_of(problem, each)[minimised] for each in every]
    assert answer.bound == costs_of(problem, answer.plan)[minimised] == min(costs)
    some = rng.choices(list(zip(every, costs, strict=True)), k=3)
    for plan, claimed in [(answer.plan, answer.bound), *some]:
        assert violation(problem, plan) is None
        report = simulate(problem, plan, numeric=True)
        assert report.violation is None and report.numeric, report.violation
        measures = report.measures
        assert (measures.cycles if minimised == "cycles" else measures.energy_fj) == claimed


@pytest.mark.parametrize("seed", range(examples(100, 5)))
def test_the_front_of_one_memory_has_plans_with_any_blocks(seed: int) -> None:
    rng = random.Random(f"front {seed}")
    layers, machine = convolutions(rng), machine_at_random(rng)
    machine["memories"] = [machine["memories"][0] | {"bytes": 2**16}, machine["memories"][2]]
    limits = {"inputs": rng.choice(["memory", "outside"]), "most_operations": 1, "tiles": False}
    problem = in_two(layers, 1, machine=machine, limits=limits)
    points = set()
    for decoded in decoded_ways(problem):
        memory = max(step.memory for step in decoded) * problem.machine.element_bytes
        points.add((memory, problem.prices.cycles(sum(step.spent.time for step in decoded))))
    expected = list[tuple[int, int]]()
    for memory, cycles in sorted(points):
        if not expected or cycles < expected[-1][1]:
            expected.append((memory, cycles))
    front = memory_front(problem, over="cycles")
    assert [(each.memory_bytes, each.cycles) for each in front] == expected
    for each in front:
        report = simulate(problem, each.plan, numeric=True)
        assert violation(problem, each.plan) is None and report.numeric
        assert (report.measures.memory_bytes, report.measures.cycles) == (each.taken_bytes, each.cycles)


def test_blocks_are_better_than_weights_in_flash_and_than_copies_of_all() -> None:
    problem, least = in_two([CONV], fast=4 * DEPTH + 4), dict[str | int, int]()
    for plan in plans(problem):
        (step,) = plan.steps
        blocks = bool(step.copied) and step.order == "kernels" and 1 < step.kernels < OUTPUTS
        kinds = ["blocks" if blocks else "whole" if step.copied else "flash"]
        for kind in [*kinds, *([step.kernels] if step.order == "kernels" else [])]:
            least[kind] = min(costs_of(problem, plan)["cycles"], least.get(kind, 2**62))
    assert least["blocks"] < min(least["flash"], least["whole"])
    answer = best_without_dram(problem, NEVER, ignore, ignore)
    assert answer.bound == least["blocks"] and answer.plan is not None
    (step,) = answer.plan.steps
    assert (step.order, step.kernels, step.copied) == ("kernels", 4, ("a",))
    for kernels in (1, 4, 6, 8, 10):
        asked = problem.with_(constraints=[{"say": f"kernels(a) == {kernels}"}])
        found = best_without_dram(asked, NEVER, ignore, ignore)
        assert found.plan is not None and found.plan.steps[0].kernels == kernels
        assert violation(asked, found.plan) is None
        assert found.bound == costs_of(asked, found.plan)["cycles"] == least[kernels]
