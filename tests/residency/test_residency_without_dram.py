"""Machines without DRAM: maps stay in RAM, weights are in flash, operations of a step take turns."""

from __future__ import annotations

import random
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples, tells
from residency_cases import NEVER, ignore, random_network

from tilewright.core import catalogue
from tilewright.residency import Plan, Problem, memory_front, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.without_dram import best_without_dram, one_by_one
from tilewright.residency.machine import CoreCycles, OneMemory
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network

FLASH = {"name": "flash", "bytes": 2**30, "read_only": True}

INSTANCES = Path(catalogue.instances("machines")[0]).parent


def problem_in_flash(network: Any, elements: int = 2**20, **rest: Any) -> Problem:
    """Return a problem with weights in flash and a RAM of some elements of a byte."""
    machine = {"memories": [{"name": "ram", "bytes": elements}, FLASH], "dram": False}
    objective = rest.pop("objective", {"minimise": "memory"})
    machine |= rest.pop("machine", {})
    return Problem.model_validate({"network": network, "machine": machine, "objective": objective, **rest})


@pytest.mark.parametrize("seed", range(examples(200, 10)))
def test_every_plan_of_the_front_computes_the_network_in_the_memory_that_it_claims(seed: int) -> None:
    rng = random.Random(seed)
    limits = {"inputs": rng.choice(["outside", "memory"])}
    problem = problem_in_flash(
        random_network(rng, 5), machine={"sum_bytes": rng.choice([1, 4])}, limits=limits
    )
    front = memory_front(problem)
    assert [each.memory_bytes for each in front] == sorted({each.memory_bytes for each in front})
    for corner in front:
        assert violation(problem, corner.plan) is None
        report = simulate(problem, corner.plan, numeric=True)
        assert report.violation is None and report.numeric, report.violation
        measured = report.measures.memory_bytes, report.measures.macs
        assert measured == (corner.taken_bytes, corner.macs)
        assert corner.taken_bytes >= corner.memory_bytes


@pytest.mark.parametrize("seed", range(examples(100, 5)))
def test_less_memory_costs_what_the_front_says(seed: int) -> None:
    rng = random.Random(seed)
    network = random_network(rng, 5)
    front = memory_front(problem_in_flash(network))
    corner = rng.choice(front)
    within = problem_in_flash(network, objective={"minimise": "memory", "most_macs": max(1, corner.macs)})
    answer = best_without_dram(within, NEVER, ignore, ignore)
    assert answer.bound == corner.memory_bytes
    small = problem_in_flash(network, corner.memory_bytes, objective={"minimise": "macs"})
    assert best_without_dram(small, NEVER, ignore, ignore).bound == corner.macs
    if corner is front[0]:
        small = problem_in_flash(network, corner.memory_bytes - 1, objective={"minimise": "macs"})
        assert best_without_dram(small, NEVER, ignore, ignore).impossible


CHAIN = [
    {"name": "a", "input": [3, 16, 16], "kernels": 8, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    {"name": "b", "input": [8, 16, 16], "kernels": 8, "kernel": [3, 3], "stride": [2, 2], "groups": 8},
    {"name": "c", "input": [8, 7, 7], "kernels": 4, "kernel": [3, 3], "stride": [2, 2]},
]


def test_operations_that_take_turns_hold_what_one_pixel_needs() -> None:
    # K - 1 rows and K pixels of every map, whatever stands behind it, and the pixel that leaves.
    every = 3 * (2 * 16 + 3) + 8 * (2 * 16 + 3) + 8 * (2 * 7 + 3) + 4
    problem = problem_in_flash({"layers": CHAIN}, limits={"tiles": False})
    (corner,) = memory_front(problem)
    (step,) = corner.plan.steps
    assert (corner.memory_bytes, step.interleaved) == (every, True)
    # In passes a pixel of c needs three rows of b, which need seven rows of a: all that a pass computes.
    passes = Plan((replace(step, interleaved=False),))
    told = violation(problem, passes)
    assert told is None or "overlap" in told
    larger = problem.with_(machine={"memory_bytes": 2**16})
    apart = {key: 4096 * place for place, key in enumerate(step.addresses)}
    spread = Plan((replace(step, interleaved=False, addresses=apart),))
    assert violation(larger, spread) is None
    held = simulate(larger, spread, numeric=True).measures.steps_of_plan["a+b+c"].on_chip_bytes
    assert held["lines of a"] > 8 * (2 * 16 + 3)


def test_turns_are_taken_where_a_pass_is_a_pixel() -> None:
    problem = problem_in_flash({"layers": CHAIN}, limits={"tiles": False})
    (step,) = memory_front(problem)[0].plan.steps
    assert tells(violation(problem, Plan((replace(step, pixels=2),))), "interleaved .. a pass is a pixel")
    alone = one_by_one(problem, NEVER)
    assert alone is not None
    first = replace(alone.steps[0], interleaved=True)
    assert tells(violation(problem, Plan((first, *alone.steps[1:]))), "interleaved .. single operation")


WHERE_MAPS_ARE = {
    "read inside": ({"written": ("input", "a")}, "outside", "residency .. writes .. input"),
    "written": ({"written": ("a",)}, "outside", "dram .. writes a, no output of the network"),
    "lost": ({"written": ("a",), "resident": ()}, "outside", "dram .. does not keep a"),
    "fetched": ({"fetched": ("input",)}, "outside", "limits .. fetches input .. read outside"),
    "not fetched": ({"fetched": ()}, "memory", "limits .. does not fetch input .. in memory"),
}


@pytest.mark.parametrize(("changes", "inputs", "told"), WHERE_MAPS_ARE.values(), ids=[*WHERE_MAPS_ARE])
def test_maps_are_in_ram_and_inputs_where_limits_say(changes: dict[str, Any], inputs: str, told: str) -> None:
    problem = problem_in_flash({"layers": CHAIN}, limits={"inputs": inputs, "most_operations": 1})
    (corner,) = memory_front(problem)
    first, *others = corner.plan.steps
    assert tells(violation(problem, Plan((replace(first, **changes), *others))), told)


def test_an_input_stays_until_it_is_read_last() -> None:
    layers = [{"name": n, "inputs": ["input"], "input": [1, 2, 2], "kernels": 1, "kernel": 1} for n in "ab"]
    problem = problem_in_flash({"layers": layers}, limits={"inputs": "memory"})
    (corner,) = memory_front(problem)
    first, second = corner.plan.steps
    dropping = replace(second, dropped=("input",), fetched=("input",))
    assert tells(violation(problem, Plan((first, dropping))), "dram .. drops input, which is read later")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"memories": [{"name": "ram", "bytes": 4096}], "dram": False}, "dram .. weights in flash"),
        ({"memory": "flash"}, "memory .. names no memory that can be written .. ram"),
        ({"memories": [{"name": "ram", "bytes": 9}] * 2}, "memories .. two memories of one name"),
        (
            {"memories": [FLASH | {"bytes": 700}, {"name": "r", "bytes": 4096}]},
            "700 .. 1,092 .. 392 are missing",
        ),
        ({"double_buffering": True}, "double_buffering .. machines with DRAM"),
        ({"dram": True}, "machine.dram .. weights are in flash"),
    ],
)
def test_machines_that_cannot_be_are_refused(changes: dict[str, Any], told: str) -> None:
    network = {"layers": [{"name": "a", "input": [4, 8, 8], "kernels": 28, "kernel": [3, 3]}]}
    network["layers"].append({"name": "p", "input": [28, 6, 6], "kernels": 3, "kernel": [1, 1]})
    with pytest.raises((InputError, ValueError)) as error:
        problem_in_flash(network, 2**12, machine={"memory_bytes": 2**12} | changes)
    assert tells(str(error.value), told)


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        (
            {"objective": {"minimise": "macs"}, "machine": {"dram": True, "memories": []}},
            "macs .. without DRAM",
        ),
        ({"limits": {"frames": "many"}}, "frames"),
        ({"limits": {"executions": 2}}, "executions"),
        ({"objective": {"minimise": "cycles"}}, "machine.macs_per_cycle .. must be told .. cycles"),
        ({"objective": {"minimise": "macs", "most_energy": 9}}, "machine.macs_per_cycle .. energy"),
    ],
)
def test_what_is_not_searched_for_is_refused(rest: dict[str, Any], told: str) -> None:
    with pytest.raises((InputError, ValueError)) as error:
        problem_in_flash({"layers": CHAIN}, machine={"memory_bytes": 2**16} | rest.pop("machine", {}), **rest)
    assert tells(str(error.value), told)


def test_a_list_may_begin_with_what_no_operation_has() -> None:
    pools = [{"name": "p", "kind": "pool", "input": [2, 4, 4], "kernel": [2, 2], "stride": [2, 2]}]
    problem = problem_in_flash({"layers": pools}, objective={"minimise": ["macs", "memory"]})
    assert solve(problem, "states", time_limit=20).status == "optimal"


def test_a_memory_that_is_too_small_says_what_would_do() -> None:
    table = {"room": "residency", "network": {"layers": CHAIN}, "objective": {"minimise": ["macs", "memory"]}}
    machine = {"memories": [{"name": "ram", "bytes": 150}, FLASH], "dram": False}
    found = solve(parse(table | {"machine": machine}), time_limit=20)
    assert (found.status, found.exit_status) == ("infeasible", 1)
    machine["memories"][0]["bytes"] = found.bound
    again = solve(parse(table | {"machine": machine}), time_limit=20)
    assert (again.status, again.objective) == ("optimal", found.bound)


@pytest.mark.parametrize("path", sorted(INSTANCES.glob("*.toml")), ids=lambda path: path.stem)
def test_bundled_machines_without_dram_have_flash_and_a_memory(path: Path) -> None:
    table = tomllib.loads(path.read_text("utf-8"))
    if table.get("dram", True):
        return
    network = Network.model_validate({"layers": CHAIN})
    problem = Problem.model_validate(
        {"network": network, "machine": table, "objective": {"minimise": "memory"}}
    )
    writable = [each["bytes"] for each in table["memories"] if not each.get("read_only")]
    assert problem.machine.memory_bytes == sum(writable)
    plan = one_by_one(problem, NEVER)
    assert plan is not None
    least = costs_of(problem, plan)["memory"]
    assert best_without_dram(problem, NEVER, ignore, ignore).bound < least


def test_prices_of_the_bundled_core_are_those_that_were_fitted() -> None:
    pages = Path(__file__).parents[2] / "docs" / "results"
    rows = (pages / "microcontrollers.md").read_text("utf-8").partition("## Prices")[2].splitlines()
    fitted = [line.split(" | ")[1] for line in rows if line.count(" | ") == 3 and "---" not in line][1:]
    machine = OneMemory.model_validate(tomllib.loads((INSTANCES / "picorv32.toml").read_text("utf-8")))
    assert machine.cycles_of is not None
    told = machine.cycles_of.model_dump()
    others = [str(round(told.pop(name))) for name in ("softmax", "other")]
    prices = [f"{price:.2f}" for price in told.values()]
    assert fitted[: len(prices)] == prices
    assert set(others) <= {*fitted[len(prices) :]}


@pytest.mark.parametrize(
    ("rest", "told"),
    [
        ({"objective": {"minimise": "energy"}}, "machine.memories.read_fj .. must be told where energy"),
        ({"machine": {"element_bytes": 2}}, "cycles_of .. a byte a value"),
    ],
)
def test_prices_of_a_core_are_of_its_cycles_alone(rest: dict[str, Any], told: str) -> None:
    prices = dict.fromkeys(CoreCycles.model_fields, 1.0)
    with pytest.raises((InputError, ValueError)) as error:
        machine = {"cycles_of": prices, **rest.pop("machine", {})}
        problem_in_flash({"layers": CHAIN}, machine=machine, **rest)
    assert tells(str(error.value), told)
