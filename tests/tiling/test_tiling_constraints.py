"""Constraints on layers of an NPU and of a hierarchy, against all plans from which oracles filter."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import product
from math import prod
from random import Random

import pytest
from conftest import examples, nightly, refused
from hypothesis import assume, given, settings
from numbered import randoms
from tests.constrained import Case, Json, hold_to
from tests.oracles import Refused, hierarchy, npu

import tilewright as tw
from tilewright.core import catalogue
from tilewright.spec.errors import InputError

# An NPU ------------------------------------------------------------------------------------------------


def core_plans(problem: Json) -> Iterator[tuple[Json, int]]:
    for partition, schedule in product(("KS", "KS&OFM", "OFM"), ("IS", "OS", "WS")):
        sizes = npu.Machine(problem, partition).sizes
        for tile in product(*(range(1, size + 1) for size in sizes)):
            plan = {
                "partition": partition,
                "schedule": schedule,
                "tile": dict(zip("mnrc", tile, strict=True)),
            }
            try:
                yield plan, npu.cost(problem, plan)
            except Refused:
                continue


@settings(max_examples=examples(40))
@given(randoms)
def test_cores(random: Random) -> None:
    layer = {
        "input": [random.randint(1, 3), random.randint(3, 5), random.randint(3, 5)],
        "kernels": random.randint(1, 5),
        "kernel": [random.choice([1, 2]), 2],
    }
    memories = {name: random.choice([8, 16, 32]) for name in ("input_bytes", "weights_bytes", "output_bytes")}
    try:
        problem = tw.TilingProblem(
            layer=layer,
            machine=tw.NpuMachine(tles=2, tlts=random.choice([1, 2]), element_bytes=1, **memories),
            objective={"minimise": random.choice(["time", "accesses"])},
        )
    except InputError:
        assume(False)
        raise
    table = problem.model_dump(mode="json")

    def steps(plan: Json) -> dict[str, int]:
        machine = npu.Machine(table, plan["partition"])
        return dict(zip("mnrc", machine.step(tuple(plan["tile"][d] for d in "mnrc")), strict=True))

    def trips(plan: Json, d: str) -> int:
        size = npu.Machine(table, plan["partition"]).sizes["mnrc".index(d)]
        return -(-size // steps(plan)[d])

    def run_of_input(plan: Json) -> int:
        """Return the elements of a tile of input that follow each other: whole rows do."""
        step, (height, width) = steps(plan), layer["kernel"]
        wide = npu.Machine(table, plan["partition"]).sizes[3]
        if step["c"] < wide:
            return step["c"] + width - 1
        return (step["r"] + height - 1) * (wide + width - 1)

    lot: list[Case] = [
        ("tile.rows % 2 == 1", lambda p: steps(p)["r"] % 2 == 1),
        ("tile.filters <= 1 or schedule == 'WS'", lambda p: steps(p)["m"] <= 1 or p["schedule"] == "WS"),
        ("partition != 'KS'", lambda p: p["partition"] != "KS"),
        ("iterations(columns) >= 2", lambda p: trips(p, "c") >= 2),
        (
            "schedule == 'WS' implies tile.input_maps == 2",
            lambda p: p["schedule"] != "WS" or steps(p)["n"] == 2,
        ),
        ("contiguous_bytes(input) % 3 == 0", lambda p: run_of_input(p) % 3 == 0),
        (
            "elements(output) in {2, 4, 6}",
            lambda p: steps(p)["m"] * steps(p)["r"] * steps(p)["c"] in (2, 4, 6),
        ),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "exhaustive", "cores@gecode", "slices@highs", "reference.npu@gecode"]
    hold_to(problem, cases, core_plans(table), methods, random.randint(0, 4))


# A hierarchy -------------------------------------------------------------------------------------------


def nests(problem: Json, walks: dict[str, hierarchy.Walk] | None = None) -> Iterator[tuple[Json, int]]:
    """Go through all plans with their costs; keep the walks through them, for predicates."""
    level = problem["machine"]["levels"][0]["name"]
    for plan in hierarchy.plans(problem):
        try:
            walk = hierarchy.walked(problem, plan)
        except Refused:
            continue
        if walks is not None:
            walks[json.dumps(plan)] = walk
        yield plan, walk.value(problem["objective"]["minimise"], level)


def small_hierarchy(random: Random) -> Json:
    """Return a machine of two memories with an array between them, or of three memories."""
    buffer = {"name": "buffer", "capacity_bytes": random.choice([12, 20, 40]), "read_pj_per_byte": 2.0}
    array = {"name": "pes", "fanout": [{"size": 4, "over": ["output_maps", "rows"]}]}
    register = {
        "name": "register",
        "capacity_bytes": random.choice([3, 4, 6]),
        "holds": random.choice([["input", "weights", "output"], ["weights", "output"], ["output"]]),
        "read_pj_per_byte": 0.5,
    }
    if random.random() < 0.3:
        buffer |= {"holds": ["input", "output"], "may_hold": ["weights"]}
    dram = {"name": "dram", "read_pj_per_byte": 50.0}
    bits = {"input": 8, "weights": 8, "output": 8, "partial": random.choice([8, 16])}
    inner = [array, register] if random.random() < 0.7 else [register]
    return {"kind": "hierarchy", "mac_pj": 1.0, "bits": bits, "levels": [dram, buffer, *inner]}


@settings(max_examples=examples(40, 5))
@given(randoms)
def test_nests(random: Random) -> None:
    layer = {
        "input": [random.choice([1, 2]), random.choice([2, 3, 4]), 1],
        "kernels": random.choice([2, 4]),
        "kernel": [1, 1],
    }
    try:
        problem = tw.TilingProblem(
            layer=layer,
            machine=small_hierarchy(random),
            objective={"minimise": random.choice(["accesses", "energy"])},
            limits={"factors": random.choice(["perfect", "perfect", "any"])},
        )
    except InputError:
        assume(False)
        raise
    table = problem.model_dump(mode="json")
    names = [node.name for node in problem.machine.nodes]  # type: ignore[union-attr]
    whole = hierarchy.sizes(table["layer"])
    letters = {name: letter for letter, name in hierarchy.LOOPS.items()} | hierarchy.LOOPS
    extents = {loop: whole[loop if loop in whole else letters[loop]] for loop in ("rows", "output_maps")}

    def tile(plan: Json, node: str, loop: str) -> int:
        """Return the block that enters a node: what the last loop further out left."""
        found = extents[loop]
        for loops in plan["nest"][: names.index(node)]:
            found = dict(map(tuple, loops)).get(loop, found)
        return found

    def trips(plan: Json, node: str, loop: str) -> int:
        step = dict(map(tuple, plan["nest"][names.index(node)])).get(loop)
        return 1 if step is None else -(-tile(plan, node, loop) // step)

    lot: list[Case] = [
        ("tile(buffer, rows) % 2 == 0", lambda p: tile(p, "buffer", "rows") % 2 == 0),
        ("iterations(buffer, output_maps) == 2", lambda p: trips(p, "buffer", "output_maps") == 2),
        ("iterations(dram, rows) <= 1", lambda p: trips(p, "dram", "rows") <= 1),
        (
            "tile(buffer, rows) * tile(buffer, output_maps) <= 4",
            lambda p: tile(p, "buffer", "rows") * tile(p, "buffer", "output_maps") <= 4,
        ),
        (
            "tile(dram, rows) == 2 * tile(buffer, rows)",
            lambda p: tile(p, "dram", "rows") == 2 * tile(p, "buffer", "rows"),
        ),
        (
            "not holds(buffer, weights)",
            lambda p: "weights" not in p.get("kept", {}).get("buffer", ["weights"]),
        ),
    ]
    if "pes" in names:
        lot += [
            (
                f"instances(pes) {sign} {number}",
                lambda p, sign=sign, number=number: (
                    prod(trips(p, "pes", loop) for loop in extents) <= number
                    if sign == "<="
                    else prod(trips(p, "pes", loop) for loop in extents) >= number
                ),
            )
            for sign, number in (("<=", 2), (">=", 3), (">=", 4))
        ]
    cases = random.sample(lot, random.randint(1, 2))
    methods = ["auto", "exhaustive", "levels@gecode", "chains@highs", "reference.hierarchy@gecode"]
    hold_to(problem, cases, nests(table), methods, random.randint(0, 4))


@settings(max_examples=examples(60, 3))
@given(randoms)
def test_orders_and_costs_are_for_the_reference_model(random: Random) -> None:
    layer = {
        "input": [random.choice([1, 2]), random.choice([2, 3, 4]), 1],
        "kernels": random.choice([2, 3, 4]),
        "kernel": [1, 1],
    }
    try:
        problem = tw.TilingProblem(
            layer=layer,
            machine=small_hierarchy(random),
            objective={"minimise": random.choice(["accesses", "energy", "cycles"])},
            limits={"factors": random.choice(["perfect", "any"])},
        )
    except InputError:
        assume(False)
        raise
    table = problem.model_dump(mode="json")
    names = [node.name for node in problem.machine.nodes]  # type: ignore[union-attr]

    def outside(plan: Json, node: str, outer: str, inner: str) -> bool:
        order = [loop for loop, _ in plan["nest"][names.index(node)]]
        return outer in order and inner in order and order.index(outer) < order.index(inner)

    walks: dict[str, hierarchy.Walk] = {}

    def walk(plan: Json) -> hierarchy.Walk:
        """Return the walk through a plan; what a method found may have its parts in another order."""
        return walks.get(json.dumps(plan)) or hierarchy.walked(table, plan)

    def accesses(plan: Json, memory: str) -> int:
        return walk(plan).accesses(memory)

    lot: list[Case] = [
        ("outside(dram, rows, output_maps)", lambda p: outside(p, "dram", "rows", "output_maps")),
        ("not outside(buffer, rows, input_maps)", lambda p: not outside(p, "buffer", "rows", "input_maps")),
        ("accesses(buffer) % 3 == 1", lambda p: accesses(p, "buffer") % 3 == 1),
        ("accesses(register) < accesses(buffer)", lambda p: accesses(p, "register") < accesses(p, "buffer")),
        ("cycles % 2 == 0", lambda p: walk(p).cycles() % 2 == 0),
        ("energy % 3 == 0", lambda p: walk(p).energy() % 3 == 0),
    ]
    cases = random.sample(lot, random.randint(1, 2))
    model = catalogue.model("tiling", "reference.hierarchy")
    # Where energies are too large a number for the model, no method honours all words.
    assume(catalogue.suits(model, problem.where(*(text for text, _ in cases))))
    methods = ["reference.hierarchy@gecode", "auto"]
    hold_to(problem, cases, nests(table, walks), methods, random.randint(0, 1))


@nightly
def test_what_is_local_to_no_node_is_for_models() -> None:
    problem = tw.read("resnet18-conv2-eyeriss").problem.where("utilisation >= 97")
    with refused("constraints[0].say", "utilisation >= 97", "exhaustive cannot honour it"):
        tw.solve(problem, "exhaustive", warm_start="none")
    result = tw.solve(problem, time_limit=120)
    assert (result.status, result.objective) == ("optimal", 786_268_160_000_000)
    assert result.without_constraints is not None
    assert result.without_constraints["objective"] == 786_157_568_000_000


def test_cycles_and_energy_are_limits() -> None:
    problem = tw.read("resnet18-conv2-eyeriss").problem
    limited = problem.with_(limits={"at_most": {"cycles": 1_000_000}})
    said = problem.where("cycles <= 1000000")
    assert tw.solve(said, "exhaustive").objective == tw.solve(limited, "exhaustive").objective


@pytest.mark.by_day(1)
@pytest.mark.parametrize("says", ["tile.rows % 4 == 0", "partition == 'KS'", "bursts <= 100000"])
def test_a_layer_on_an_npu_keeps_what_is_said(says: str) -> None:
    layer = {"input": [128, 28, 28], "kernels": 128, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = tw.TilingProblem(layer=layer, machine=tw.NpuMachine()).where(says)
    result = tw.solve(problem, time_limit=60)
    assert result.status == "optimal"
    assert all(one.kept for one in problem.judge_constraints(result.plan))
