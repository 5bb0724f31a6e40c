"""Validity, costs, what stays and optima beside an oracle that shares nothing with the package."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import assume, given, settings
from models.formulations import solve
from numbered import randoms
from offloading_at_random import Json, changed, table_at_random
from tests.oracles import Refused, TooLarge
from tests.oracles import offloading as oracle

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.heuristics.offloading import descent, row_by_row, zigzag
from tilewright.heuristics.offloading._single_cells import rounds_by_cell
from tilewright.offloading import (
    Plan,
    Problem,
    best_bound,
    measured_objective,
    objective,
    simulate,
    violation,
)
from tilewright.offloading.keeping import Cut, planned
from tilewright.spec.errors import InputError


def problem_of(table: Json) -> Problem:
    """Return the problem of a table; some are refused."""
    try:
        return Problem(**table)
    except InputError:
        assume(False)
        raise


def heuristic_plan(random: Random, problem: Problem) -> Plan:
    """Return a plan of some heuristic; some find none."""
    name = random.choice(["row_by_row", "zigzag", "descent"])
    try:
        if name == "descent":
            return descent.plan(problem, RunContext(deadline=time.monotonic() + 0.05))
        return (row_by_row if name == "row_by_row" else zigzag).plan(problem)
    except InputError:
        assume(False)
        raise


def check_walk(table: Json, problem: Problem, plan: Json) -> None:
    """Check that checker, simulator and oracle say the same of a plan."""
    try:
        expected = oracle.cost(table, plan)
    except Refused:
        expected = None
    read = Plan.from_json(plan)
    broken, report = violation(problem, read), simulate(problem, read)
    if expected is None:
        assert broken is not None
        assert report.violation is not None
    else:
        assert (broken, report.violation) == (None, None)
        assert objective(problem, read) == measured_objective(problem, report) == expected


@settings(max_examples=examples(400, 10))
@given(randoms)
def test_a_plan_is_valid_and_costs_what_the_docs_say(random: Random) -> None:
    table = table_at_random(random, cells=24)
    problem = problem_of(table)
    plan = heuristic_plan(random, problem).to_json()
    check_walk(table, problem, plan)
    for _ in range(8):
        check_walk(table, problem, changed(random, plan))


LAYER = {"input": [1, 1, 2], "kernels": 1, "kernel": [1, 1]}


def block(patches: list[int], channels: list[int] | None = None) -> Json:
    return {"patches": [patches], "kernels": [[0, 1]], "channels": [channels or [0, 1]]}


REFUSED: dict[str, tuple[Json, Json, list[Json]]] = {
    "an output that no memory has": (
        LAYER,
        {"macs_per_step": 1, "parts": 2, "memories": "own"},
        [
            {
                "blocks": [block([0, 1]), None],
                "moves": [{"load_inputs": [[0, 1]], "load_kernels": [[0, 1]]}, {}],
            }
        ],
    ),
    "kernels that stay, but come late": (
        {"input": [2, 1, 1], "kernels": 1, "kernel": [1, 1]},
        {"macs_per_step": 1, "kernels": "step1"},
        [
            {"blocks": [block([0, 1], [n, n + 1])], "moves": [{"load_inputs": [run], "load_kernels": [run]}]}
            for n, run in enumerate(([0, 1], [1, 2]))
        ],
    ),
    "kernels that stay, but go and come": (
        LAYER,
        {"macs_per_step": 1, "kernels": "step1"},
        [
            {"blocks": [block([0, 1])], "moves": [{"load_inputs": [[0, 1]], "load_kernels": [[0, 1]]}]},
            {
                "blocks": [block([1, 2])],
                "moves": [{"free_kernels": [[0, 1]], "load_inputs": [[1, 2]], "load_kernels": [[0, 1]]}],
            },
        ],
    ),
    "a sum that is written and loaded at once": (
        {"input": [2, 1, 1], "kernels": 1, "kernel": [1, 1]},
        {"macs_per_step": 1},
        [
            {"blocks": [block([0, 1])], "moves": [{"load_inputs": [[0, 1]], "load_kernels": [[0, 1]]}]},
            {
                "blocks": [block([0, 1], [1, 2])],
                "moves": [
                    {
                        "write": [[0, 1]],
                        "load_inputs": [[1, 2]],
                        "load_kernels": [[1, 2]],
                        "load_sums": [[0, 1]],
                    }
                ],
            },
        ],
    ),
    "an element that is freed and loaded at once": (
        LAYER,
        {"macs_per_step": 1},
        [
            {"blocks": [block([0, 1])], "moves": [{"load_inputs": [[0, 1]], "load_kernels": [[0, 1]]}]},
            {"blocks": [block([1, 2])], "moves": [{"free_inputs": [[0, 1]], "load_inputs": [[0, 2]]}]},
        ],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_checker_simulator_and_oracle_refuse(name: str) -> None:
    layer, machine, steps = REFUSED[name]
    table = {"layer": layer, "machine": machine}
    with pytest.raises(Refused):
        oracle.cost(table, {"steps": steps})
    check_walk(table, Problem(**table), {"steps": steps})


def sequence_at_random(random: Random, problem: Problem) -> list[list[Cut | None]]:
    """Return what the parts compute step by step: blocks that begin with a cell and grow while they can."""
    sizes, (_, kernels, channels) = problem.elements, problem.least_block
    extents = sizes.n_patches, sizes.n_kernels, sizes.n_channels
    left = np.ones(extents, dtype=np.bool_)
    home = np.full(extents[:2], -1)
    rounds = []
    while left.any():
        blocks: list[Cut | None] = [None] * problem.machine.parts
        free = np.ones(extents[:2], dtype=np.bool_)
        for part in random.sample(range(len(blocks)), random.randint(1, len(blocks))):
            memory = problem.memory_of(part)
            open_ = left & (free & ((home < 0) | (home == memory)))[:, :, None]
            if not open_.any():
                continue
            first = random.choice(np.argwhere(open_).tolist())
            axes = [{at} for at in first]
            for axis, least in ((1, kernels), (2, channels)):
                if least > 1:
                    axes[axis] = set(range(extents[axis]))
            for _ in range(random.choice([0, 1, 3, 6])):
                axis = random.randrange(3)
                more = [set(each) for each in axes]
                more[axis].add(random.randrange(extents[axis]))
                if problem.admits(*map(len, more)) and open_[np.ix_(*map(sorted, more))].all():
                    axes = more
            cut = Cut(*(np.array(sorted(axis), dtype=np.int64) for axis in axes))
            blocks[part] = cut
            left[np.ix_(*cut)] = False
            free[np.ix_(*cut[:2])] = False
            home[np.ix_(*cut[:2])] = memory
        if any(each is not None for each in blocks):
            rounds.append(blocks)
    return rounds


@settings(max_examples=examples(300, 10))
@given(randoms)
def test_of_given_blocks_the_best_is_kept(random: Random) -> None:
    table = table_at_random(random, cells=30, bursts=False)
    table["machine"].pop("placement")
    table["limits"].pop("steps", None)
    problem = problem_of(table)
    rounds = sequence_at_random(random, problem)
    plan = planned(problem, rounds)
    told = [[_block_json(cut) for cut in blocks] for blocks in rounds]
    best = least(table, told)
    assert (plan is None) == (best is None)
    if plan is not None:
        assert [[each is not None for each in step.blocks] for step in plan.steps] == [
            [cut is not None for cut in blocks] for blocks in rounds
        ]
        assert oracle.cost(table, plan.to_json()) == best


def _block_json(cut: Cut | None) -> Json | None:
    if cut is None:
        return None
    return {axis: [[n, n + 1] for n in numbers.tolist()] for axis, numbers in cut._asdict().items()}


def least(table: Json, sequence: Any = None) -> int | None:
    """Return the oracle's optimum; problems with too many plans are not tried."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "MOST_MOVES", 20_000)
        try:
            return oracle.least(table, sequence)
        except TooLarge:
            assume(False)
            raise


@settings(max_examples=examples(300, 10))
@given(randoms)
def test_no_plan_is_below_a_bound_or_the_optimum(random: Random) -> None:
    table = table_at_random(random, cells=8)
    table["machine"].pop("placement")
    problem = problem_of(table)
    best = least(table)
    bound = best_bound(problem).value
    plan = heuristic_plan(random, problem)
    if violation(problem, plan) is None:
        assert best is not None
        assert bound <= best <= oracle.cost(table, plan.to_json())
    elif best is not None:
        assert bound <= best


@settings(max_examples=examples(200, 6))
@given(randoms)
def test_a_plan_is_found_cell_by_cell_wherever_there_is_one(random: Random) -> None:
    table = table_at_random(random, cells=8, bursts=False)
    table["machine"].pop("placement")
    table["limits"].pop("steps", None)
    table["limits"]["reloads"] = random.choice([1, 1, 2])
    problem = problem_of(table)
    there_is = least(table) is not None
    rounds = rounds_by_cell(problem, 0, time.monotonic() + (20 if there_is else 0.1))
    plan = None if rounds is None else planned(problem, rounds)
    assert (plan is not None) == there_is
    if plan is not None:
        oracle.cost(table, plan.to_json())


@settings(max_examples=examples(500, 2))
@given(randoms)
def test_addresses_are_proven(random: Random) -> None:
    table = table_at_random(random, cells=4)
    table["machine"]["placement"] = "contiguous"
    problem = problem_of(table)
    (path,) = (path for path in catalogue.models("offloading") if path.stem == "reference")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "MOST_MOVES", 5_000)
        try:
            best = oracle.least_placed(table)
        except TooLarge:
            assume(False)
            raise
    hold_to(table, problem, solve(problem, path, "gecode", seconds=10), best)


@pytest.mark.parametrize(
    ("name", "solver", "cells"), [("reference", "gecode", 4), ("held", "highs", 6), ("blocks", "cpsat", 6)]
)
@settings(max_examples=examples(500, 3))
@given(random=randoms)
def test_models_prove_what_all_plans_give(random: Random, name: str, solver: str, cells: int) -> None:
    table = table_at_random(random, cells=cells, bursts=name == "reference")
    table["machine"].pop("placement")
    problem = problem_of(table)
    (path,) = (path for path in catalogue.models("offloading") if path.stem == name)
    assume(catalogue.suits(catalogue.formulation("offloading", name), problem))
    best = least(table)
    hold_to(table, problem, solve(problem, path, solver, seconds=10), best)


def hold_to(table: Json, problem: Problem, outcome: Outcome, best: int | None) -> None:
    """Check that what a model says agrees with the least cost of all plans, None if there are none."""
    if outcome.status == "infeasible":
        assert best is None
        return
    assert outcome.bound is None or (best is not None and outcome.bound <= best)
    if outcome.plan is not None:
        assert violation(problem, outcome.plan) is None
        cost = oracle.cost(table, outcome.plan.to_json())
        assert best is not None
        assert cost == best if outcome.status == "optimal" else cost >= best
