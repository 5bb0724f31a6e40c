"""Products in tiles of rows and columns, by themselves or with the softmax before them."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from attention_heads import given
from residency_cases import optimum, problem_of, search
from tests.oracles import residency as oracle
from tests.oracles.attention_pebbles import Head

import tilewright as tw
from tilewright.residency import Plan, Problem, objective, simulate

Json = dict[str, Any]


def head(queries: int, keys: int, depth: int, values: int, elements: int, **changes: Any) -> Problem:
    """Return a head whose queries, keys and values are in DRAM."""
    heads, shared = changes.pop("heads", 1), changes.pop("shared", 1)
    network = given(Head(queries, keys, depth, values), heads, shared)
    machine = {"sum_bytes": 1} | changes.pop("machine", {})
    return problem_of(network, elements, machine=machine, **changes)


def in_tiles(**changes: Any) -> tuple[Problem, Plan]:
    """Return two heads, and the plan in tiles that the search has found."""
    problem = head(9, 8, 3, 3, 40, heads=2, **changes)
    scores, end = optimum(problem).steps
    assert (scores.operations, end.operations) == (("s",), ("p", "c"))
    assert scores.blocks and scores.channels and end.blocks and end.keys
    return problem, Plan((scores, end))


@pytest.mark.parametrize(
    ("elements", "blocks"),
    [
        # Of 16,384 elements: scores in tiles of 30 x 32, which are written; of the context 27 x 32, two
        # maxima and sums, a score and its exponential for each row.
        (1024, 8 + 9 + 4 + 2 * 4 + 10 + 1),
        # 29 queries stay with all of their depth, keys pass by. 29 rows of the whole context stay.
        (2048, 1 + 9 + 4 + 4 + 9 + 1),
    ],
)
def test_a_head_moves_what_tiles_by_hand_move(elements: int, blocks: int) -> None:
    problem = head(256, 256, 64, 64, elements)
    answer = search(problem)
    assert answer.plan is not None
    assert objective(problem, answer.plan) == answer.bound == 16_384 * blocks


@pytest.mark.parametrize(("elements", "sums"), [(14, 1), (22, 3)])
def test_heads_are_computed_matrix_by_matrix(elements: int, sums: int) -> None:
    alone, four = (head(16, 16, 3, 3, elements, heads=heads, machine={"sum_bytes": sums}) for heads in (1, 4))
    assert objective(four, optimum(four)) == 4 * objective(alone, optimum(alone))


@pytest.mark.parametrize(
    ("step", "change", "rule"),
    [
        (0, {"channels": 4}, "channels: step 1 (s) adds up blocks of 4 terms, there are 3"),
        (0, {"kernels": 9}, "kernels: step 1 (s) has blocks of 9 columns, a matrix has 8"),
        (0, {"pixels": 4}, "pixels"),
        (0, {"blocks": False}, "channels"),
        (0, {"columns": 1}, "blocks"),
        (1, {"kernels": 4}, "kernels: step 2 (p, c) has blocks of 4 columns, a matrix has 3"),
        (1, {"keys": 9}, "keys: step 2 (p, c) 9 pass by at a time, there are 8"),
        (1, {"channels": 1}, "channels: step 2 (p, c) only a product by itself"),
    ],
)
def test_tiles_that_cannot_be_are_refused(step: int, change: Json, rule: str) -> None:
    problem, plan = in_tiles()
    steps = [*plan.steps]
    steps[step] = replace(steps[step], **change)
    violation = tw.residency.violation(problem, Plan(tuple(steps)))
    assert violation is not None and violation.startswith(rule), violation


@pytest.mark.parametrize(
    ("step", "name", "over"),
    [
        (0, "block of s", "lines of q"),
        (0, "operand of s", "lines of q"),
        (1, "lines of s", "partial sums of c"),
        (1, "lines of p", "operand of c"),
    ],
)
def test_what_is_overwritten_in_tiles_is_noticed(step: int, name: str, over: str) -> None:
    problem, plan = in_tiles()
    steps = [*plan.steps]
    addresses = steps[step].addresses
    steps[step] = replace(steps[step], addresses={**addresses, name: addresses[over]})
    changed = Plan(tuple(steps))
    assert not simulate(problem, changed, numeric=True).valid
    assert "overlap" in str(tw.residency.violation(problem, changed))


def test_without_tiles_there_are_none() -> None:
    problem, plan = in_tiles()
    plain = problem.with_(limits={"tiles": False}, machine={"memory_bytes": 200})
    violation = tw.residency.violation(plain, plan)
    assert violation is not None and violation.startswith("channels"), violation


@pytest.mark.by_day(6)
@pytest.mark.parametrize("seed", range(300))
def test_tiles_of_any_size_cost_what_an_oracle_says(seed: int) -> None:
    rng = random.Random(f"tiles {seed}")
    heads = rng.choice([1, 2, 4])
    shared = rng.choice([each for each in (1, 2, 4) if heads % each == 0])
    sizes = [rng.randint(2, 6) for _ in range(4)]
    machine = {"sum_bytes": rng.choice([1, 2, 4]), "vector_ops_per_cycle": 3}
    problem = head(*sizes, 2**12, heads=heads, shared=shared, machine=machine)
    queries, keys, depth, values = sizes
    passes = sorted({-(-queries // parts) for parts in range(1, queries + 1)})
    names = ["lines of q", "operand of s", "block of s", "lines of s", "lines of p", "operand of c"]
    at = {name: 200 * place for place, name in enumerate([*names, "partial sums of c"])}
    tiles = [
        {"pixels": rng.choice(passes), "kernels": rng.randint(1, keys), "channels": rng.randint(1, depth)},
        {"pixels": rng.choice(passes), "kernels": rng.randint(1, values), "keys": rng.randint(1, keys)},
    ]
    first = {name: at[name] for name in names[:3]}
    second = {name: at[name] for name in (*names[3:], "partial sums of c")}
    plan = Plan(
        (
            tw.residency.Step(("s",), written=("s",), blocks=True, addresses=first, **tiles[0]),
            tw.residency.Step(("p", "c"), written=("c",), blocks=True, addresses=second, **tiles[1]),
        )
    )
    timed = problem.with_(objective={"minimise": "cycles"})
    assert tw.residency.violation(timed, plan) is None
    report = simulate(timed, plan, numeric=True)
    assert report.valid and report.numeric, report.violation
    measures = report.measures
    if shared == 1:  # the oracle does not tell how copies of reshaped heads lie
        found = oracle.costs(timed.model_dump(mode="json"), plan.to_json())
        own = {"traffic": measures.traffic_bytes, "cycles": measures.cycles, "energy": measures.energy_fj}
        assert own == {name: found[name] for name in own}
    assert measures.traffic_bytes == objective(problem, plan)
    assert measures.cycles == objective(timed, plan)
    for step, told in zip(measures.steps_of_plan.values(), tiles, strict=True):
        rows = told["pixels"] * shared
        if "keys" in told:
            sums = rows * (told["kernels"] + 2) * machine["sum_bytes"]
            block = told["keys"] * told["kernels"]
            assert step.memory_bytes == sums + 2 * rows * told["keys"] + block
        else:
            sums = rows * told["kernels"] * (machine["sum_bytes"] if told["channels"] < depth else 1)
            assert step.memory_bytes == sums + told["channels"] * (rows + told["kernels"])
