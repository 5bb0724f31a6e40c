"""Layers and operations on a DSP and an NPU, against walkers that share nothing with the package."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from searches import proven_best
from test_between_layers import POSITION, all_plans
from tests.fuzz.campaigns import tiling_problems as drawn
from tests.oracles import Refused, TooLarge
from tests.oracles import tiling as oracle

from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, at_least, kind_of, objective, violation


def judged(part: Problem, kind: Any, told: dict[str, Any], plan: Any) -> None:
    """A plan is valid, and costs what it costs, in both statements."""
    try:
        cost = kind.cost(told, plan.to_json())
    except Refused:
        cost = None
    valid = violation(part, Plan((plan,))) is None
    assert cost == (objective(part, Plan((plan,))) if valid else None)


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32))
def test_pools_and_sums_cost_what_a_walk_over_their_elements_says(seed: int) -> None:
    rng = random.Random(seed)
    machine = rng.choice([drawn.dsp, drawn.npu])(rng) | {"vector_ops_per_cycle": rng.choice([1, 3, 8])}
    machine |= {"register_file_bytes": 0} if machine["kind"] == "dsp" else {}
    names = {"dsp": ["accesses", "cycles", "energy"], "npu": ["time", "accesses"]}[machine["kind"]]
    for field in ("energy", "bits"):
        machine.pop(field, None)
    layers = [{"name": "o", **drawn.operation(rng)}]
    objective_of = {"minimise": rng.choice(names)}
    table = {"network": {"layers": layers}, "machine": machine, "objective": objective_of}
    table |= {"batch": rng.randint(1, 2)} if rng.random() < 0.3 else {}
    try:
        problem = Problem.model_validate(table)
    except InputError as error:
        assert "smallest tile does not fit" in str(error)
        names = {"input_bytes", "output_bytes", "memory_bytes"} & machine.keys()
        large = table | {"machine": machine | dict.fromkeys(names, 1 << 20)}
        ((kind, told),) = oracle.parts(Problem.model_validate(large).model_dump(mode="json"))
        assert (
            kind.best(told | {"machine": told["machine"] | {name: machine[name] for name in names}}) is None
        )
        return
    ((_, part),), ((kind, told),) = problem.parts, oracle.parts(problem.model_dump(mode="json"))
    try:
        least = kind.best(told)
    except TooLarge:
        return
    found = proven_best(part)
    if least is None:  # not even the smallest tile fits: what is told is a bound, and stated as such
        assert at_least(part, Plan(found.layers))
        return
    assert found.value == least and not at_least(part, Plan(found.layers))
    assert kind_of(part).best_bound(part).value <= least
    judged(part, kind, told, found.layers[0])
    for plan in rng.choices(all_plans(part.one_operation), k=3):
        judged(part, kind, told, plan)


@settings(max_examples=examples(80))
@given(st.integers(0, 2**32))
def test_layers_cost_what_a_walk_over_their_elements_says(seed: int) -> None:
    rng = random.Random(seed)
    machine = rng.choice([drawn.dsp, drawn.npu])(rng)
    names = {"dsp": ["accesses", "cycles"], "npu": ["time", "accesses"]}[machine["kind"]]
    limits = {"dsp": ["any", "any", "kc"], "npu": ["any", "OS", "WS", "IS"]}[machine["kind"]]
    table = {"layer": drawn.layer(rng), "machine": machine, "objective": {"minimise": rng.choice(names)}}
    try:
        problem = Problem.model_validate(table | {"limits": {"schedule": rng.choice(limits)}})
        least = oracle.best(problem.model_dump(mode="json"))
    except (InputError, TooLarge):
        return
    found = kind_of(problem).exhaustive(problem, float("inf"))
    assert (None if found is None else found.value) == least
    if found is not None:
        assert oracle.cost(problem.model_dump(mode="json"), found.layers[0].to_json()) == least


@pytest.mark.parametrize("kind", ["dsp", "npu"])
def test_the_oracle_reads_what_is_under_a_window_of_one_position(kind: str) -> None:
    """Of 4 maps of 2 x 3 the window of 2 x 2 leaves a column out: 16 values are read and 4 given."""
    machine = {"kind": kind, "element_bytes": 1, "vector_ops_per_cycle": 4}
    machine |= {"memory_bytes": 40, "double_buffering": False} if kind == "dsp" else {}
    table = {"network": {"layers": POSITION}, "machine": machine, "objective": {"minimise": "accesses"}}
    _, (judge, told) = oracle.parts(Problem.model_validate(table).model_dump(mode="json"))
    assert judge.best(told) == 20
