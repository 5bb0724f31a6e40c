"""Layouts of maps in DRAM: decided with the fusion, against all layouts of all groups with all tiles.

The oracle counts bursts from the address of every value that is moved.
"""

from __future__ import annotations

import shutil
from random import Random
from typing import Any

import pytest
from codegen.programs import assert_right_in_c
from conftest import THOROUGH, examples, tells
from fusion.test_fusion_reference import FEW, MANY, agree
from fusion_at_random import randoms
from hypothesis import assume, given, settings
from tests.oracles import TooLarge, fusion

import tilewright as tw
from tilewright.codegen.isa import (
    assemble,
    data_of,
    disassemble,
    elf_bytes,
    execute,
    findings,
    program_of,
    read_elf,
)
from tilewright.codegen.isa.host_source import host_files
from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem, objective, simulate, violation
from tilewright.fusion.reference import size
from tilewright.fusion.selection.candidates import candidates
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.spec.errors import TilewrightError

Json = dict[str, Any]

TEMPLATES = [
    {"name": "pair", "nodes": ["any", "any"], "edges": [[0, 1]]},
    {"name": "siblings", "nodes": ["source", "any", "any"], "edges": [[0, 1], [0, 2]]},
    {"name": "block", "block": True},
]


def network(random: Random, most: int = 4) -> Json:
    """Return branches that are read side by side or added up, or a chain, with a classifier at times.

    Maps have up to `most` rows and columns, and up to three channels.
    """
    few = min(3, most)
    deep, high, wide = random.randint(1, few), random.randint(1, most), random.randint(1, most)

    def conv(name: str, channels: int, *inputs: str) -> Json:
        around = random.choice([{}, {"kernel": [3, 1], "padding": [1, 1, 0, 0]}])
        kernels = random.randint(1, few)
        shape = [channels, high, wide]
        table = {
            "name": name,
            "inputs": inputs,
            "input": shape,
            "kernels": kernels,
            "kernel": [1, 1],
            **around,
        }
        return table | {"bias": random.random() < 0.5}

    layers = [conv("a", deep, "input")]
    first = layers[0]["kernels"]
    kind = random.choice(["chain", "beside", "beside", "input beside", "sum"])
    if kind == "chain":
        layers.append(conv("b", first, "a"))
        layers.append({"name": "c", "kind": "pool", "op": "max", "input": [layers[1]["kernels"], high, wide]})
        layers[2]["kernel"] = [1, random.randint(1, wide)]
    elif kind == "sum":
        layers.append(conv("b", deep, "input") | {"kernels": first})
        layers.append({"name": "c", "inputs": ["a", "b"], "kind": "add", "input": [first, high, wide]})
    else:
        other = "input" if kind == "input beside" else "b"
        layers += [conv("b", deep, "input")] * (other == "b")
        beside = random.choice([("a", other), (other, "a")])
        layers.append(conv("c", first + (layers[-1]["kernels"] if other == "b" else deep), *beside))
    if random.random() < 0.2:
        count = layers[-1].get("kernels", layers[-1]["input"][0]) * high
        width = wide - layers[-1].get("kernel", [1, 1])[1] + 1 if kind == "chain" else wide
        layers.append({"name": "d", "kind": "fc", "inputs": count * width, "outputs": 2})
    return {"layers": layers, **({"outputs": ["a", layers[-1]["name"]]} if random.random() < 0.3 else {})}


def layouts(random: Random) -> Json:
    """Return what layouts cost on a machine."""
    either = ["any", "NHWC", "NCHW"]
    return {
        "burst_bytes": random.choice([1, 2, 4, 8, 64]),
        "burst_cycles": random.choice([0, 1, 3, 20]),
        "direct": random.choice([["NHWC", "NCHW"], ["NCHW", "NHWC"], ["NHWC"], ["NCHW"]]),
        "input": random.choice(either),
        "output": random.choice(either),
        "copies": {"cycles_per_byte": random.choice([0, 0.1, 2]), "cycles_per_call": random.choice([0, 7])},
    }


def drawn(random: Random, most: int = 4) -> Problem:
    """Return a problem whose buffers hold little at times, with maps of up to `most` rows and columns."""
    size = random.choice([30, 60, 100_000])
    machine = {
        "conv_array": [random.randint(1, 2), random.randint(1, 2), random.randint(1, 2)],
        "arrays": random.choice([1, 1, 2]),
        "clock_mhz": random.choice([1, 3]),
        "element_bytes": random.choice([1, 2]),
        **dict.fromkeys(("input_bytes", "output_bytes", "parameter_bytes"), size),
        "load_mb_per_s": random.choice([1, 3, 9]),
        "save_mb_per_s": random.choice([1, 3, 9]),
        "operands_per_cycle": random.choice([1, 4]),
        "issue_cycles": random.choice([0, 17]),
        "energy": {"pj_per_dram_byte": 500, "pj_per_mac": 70, "milliwatts": 3000},
        "layouts": layouts(random),
    }
    minimise = random.choice(["cycles", "cycles", "cycles", "energy", "memory", "traffic"])
    table = {"network": network(random, most), "machine": machine, "templates": TEMPLATES[2:]}
    table["objective"] = {"minimise": minimise}
    for template in TEMPLATES[:2]:
        try:
            Problem.model_validate(table | {"templates": [*table["templates"], template]})
        except tw.InputError:
            continue  # it matches nothing here
        table["templates"] = [*table["templates"], template]
    return Problem.model_validate(table)


def best_of(problem: Problem) -> int | None:
    """Return what the oracle finds; skip what takes too long."""
    try:
        return fusion.best(problem.model_dump(mode="json"))
    except TooLarge:
        assume(False)
        raise


@settings(max_examples=examples(400, 6))
@given(randoms)
def test_no_layouts_groups_and_tiles_are_better_than_those_found(random: Random) -> None:
    problem = drawn(random)
    best = best_of(problem)
    found = tw.solve(problem, "downsets", time_limit=60, confirm=False, warm_start="none")
    assert (found.status, found.objective) == ("infeasible" if best is None else "optimal", best)
    if found.plan is not None:
        assert fusion.cost(problem.model_dump(mode="json"), found.plan.to_json()) == best
        assert Plan.from_json(found.plan.to_json()) == found.plan


@settings(max_examples=examples(1000, 2))
@given(randoms)
def test_the_reference_model_finds_the_same(random: Random) -> None:
    problem = drawn(random, 2)
    assume(catalogue.suits(catalogue.formulation("fusion", "reference"), problem))
    assume(size(problem) <= (MANY if THOROUGH else FEW))
    agree(problem, best_of(problem))


def any_plan(random: Random, problem: Problem) -> Plan:
    """Return a plan of random groups, each with its best tile, and random layouts."""
    left = list(candidates(problem, every_layout=True))
    chosen = {index: random.choice(tensor.layouts) for index, tensor in enumerate(problem.tensors)}
    left = [one for one in left if one.fits and all(chosen[at] == each for at, each in one.layouts)]
    random.shuffle(left)
    found, held = [], set[int]()
    for one in sorted(left, key=lambda one: -len(one.nodes) * random.random()):
        if held.isdisjoint(one.nodes):
            found.append(one)
            held |= {*one.nodes}
    assume(len(held) == len(problem.ops))
    try:
        return order_groups(problem, found)
    except ValueError:  # groups that wait for each other
        assume(False)
        raise


@settings(max_examples=examples(400, 4))
@given(randoms)
def test_programs_honour_layouts_and_take_the_planned_time(random: Random) -> None:
    problem = drawn(random)
    plan = any_plan(random, problem)
    assume(violation(problem, plan) is None)  # as for too many cycles
    expected = fusion.cost(problem.model_dump(mode="json"), plan.to_json())
    measures = simulate(problem, plan, numeric=True).measures
    assert objective(problem, plan) == expected == problem.measured(measures)
    image = read_elf(elf_bytes(program_of(problem, plan, random.getrandbits(32), "net")))
    assert assemble(disassemble(image), data_of(image).__getitem__) == image
    assert findings(image) == []
    done = execute(image, random.choice([None, 1, 2]))
    assert done.right
    assert done.cycles == image.planned_cycles == measures.duration_cycles


PLANE: Json = {"input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}


def by_hand(**changes: Any) -> Problem:
    """Return two convolutions on a machine that moves a byte in a cycle, whose time bursts are."""
    machine = {
        "conv_array": [64, 64, 64],
        "clock_mhz": 1,
        **dict.fromkeys(("input_bytes", "output_bytes", "parameter_bytes"), 1000),
        "load_mb_per_s": 1,
        "save_mb_per_s": 1,
        "operands_per_cycle": 64,
        "layouts": {"burst_bytes": 8, "burst_cycles": 100, "copies": {"cycles_per_byte": 1}} | changes,
    }
    layers = [{"name": "a", **PLANE}, {"name": "b", **PLANE}]
    return Problem.model_validate(
        {"network": {"layers": layers}, "machine": machine, "templates": TEMPLATES[:1]}
    )


def test_bursts_and_copies_by_hand() -> None:
    """A map of 2 x 4 x 4 bytes is one run of 32: 4 bursts; 2 x 2 parameters are one burst.

    A copy reads and writes 32 bytes at a cycle each.
    """
    found = tw.solve(by_hand(), "downsets")
    # The group loads 32 + 4 + 4 bytes in 4 + 1 + 1 bursts, computes a and b, saves 32 bytes in 4 bursts.
    assert found.measures.bursts == 10
    assert found.measures.copy_cycles == 0 and found.measures.copied == []
    copied = tw.solve(by_hand(direct=["NHWC"], input="NCHW", output="NCHW"), "downsets")
    assert copied.objective == found.objective + 64 + 64
    assert copied.measures.copied == ["input", "b"]
    assert dict(copied.plan.layouts) == {"input": "NHWC", "b": "NHWC"}
    chosen = tw.solve(by_hand(input="NCHW", output="NCHW"), "downsets")
    assert chosen.objective == found.objective
    assert dict(chosen.plan.layouts) == {"input": "NCHW", "b": "NCHW"}


@pytest.mark.skipif(not shutil.which("gcc"), reason="no C compiler")
def test_the_host_copies_in_c() -> None:
    problem = by_hand(direct=["NHWC"], input="NCHW", output="NCHW")
    image = program_of(problem, tw.solve(problem, "downsets").plan, 3, "copies")
    assert [each.name for each in image.host] == ["RELAYOUT", "RELAYOUT"]
    assert_right_in_c(image, host_files(image))


@pytest.mark.parametrize(
    ("changes", "field", "told"),
    [
        ({"direct": []}, "machine.layouts.direct", ()),
        ({"direct": ["NHWC", "NHWC"]}, "machine.layouts.direct", ("twice",)),
        ({"direct": ["NWHC"]}, "machine.layouts.direct", ("NWHC",)),
        ({"burst_bytes": 0}, "machine.layouts.burst_bytes", ("0",)),
        ({"input": "CHW"}, "machine.layouts.input", ("CHW",)),
        ({"copies": None}, "machine.layouts.copies", ()),
    ],
)
def test_what_is_no_layout_is_refused(changes: Json, field: str, told: tuple[str, ...]) -> None:
    with pytest.raises(tw.InputError) as caught:
        by_hand(**changes)
    assert caught.value.field.startswith(field)
    assert tells(caught.value, *told)


def test_plans_without_the_right_layouts_are_refused() -> None:
    problem = by_hand(direct=["NHWC"])
    found = tw.solve(problem, "downsets").plan
    right = dict(found.layouts)

    def told(**layouts: str) -> str:
        return str(violation(problem, Plan(found.groups, tuple(layouts.items()))))

    assert violation(problem, found) is None
    assert told() == "layouts: input is in DRAM and has none"
    assert told(**right, a="NHWC") == "layouts: a is not in DRAM"
    assert told(**right | {"b": "NCHW"}) == "layouts: b has NCHW, it can have NHWC"
    fixed = problem.with_(machine={"layouts": None})
    assert "machine.layouts is not set" in str(violation(fixed, found))
    with pytest.raises(tw.InputError, match=r"plan\.layouts"):
        Plan.from_json(found.to_json() | {"layouts": {"a": "CHWN"}})


def test_methods_that_cannot_decide_layouts_say_so() -> None:
    problem = by_hand()
    for method in ("columns_partition@highs", "columns_cover@gecode"):
        with pytest.raises(TilewrightError, match="what a group costs depends on layouts"):
            tw.solve(problem, method)
    with pytest.raises(TilewrightError, match="downsets"):
        tw.solve(problem.where("cycles <= 1000000"), "downsets")
    found = tw.solve(problem.where('not together("a", "b")'), "downsets")
    assert found.status == "optimal" and len(found.plan.groups) == 2


@pytest.mark.parametrize(("wide", "layout"), [(1, "concatenated"), (8, "NHWC")])
def test_a_concatenation_is_stored_with_a_stride_where_that_is_best(wide: int, layout: str) -> None:
    """In an array with another map, a map is loaded in one burst with it, but saved in one for each pixel."""
    plane = {"input": [2, 1, wide], "kernel": [1, 1]}
    layers = [
        {"name": "a", **plane, "kernels": 1},
        {"name": "b", **plane, "kernels": 1, "inputs": ["input"]},
        {"name": "c", **plane, "kernels": 1, "inputs": ["a", "b"]},
    ]
    table = by_hand(burst_bytes=64, direct=["NHWC"]).model_dump(mode="json")
    table["network"]["layers"], table["templates"] = layers, TEMPLATES[1:2]
    problem = Problem.model_validate(table)
    apart = problem.where('not together("a", "b")')
    for asked in (problem, apart):
        assert dict(tw.solve(asked, "downsets").plan.layouts)["a"] == layout
    assert tw.solve(problem, "downsets").objective == fusion.best(problem.model_dump(mode="json"))
