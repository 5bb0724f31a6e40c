"""Orders of tiles: what is said to be the least that any order takes, against all orders of small grids."""

from __future__ import annotations

import random

import numba
import numpy as np
import pytest
from conftest import nightly, tells
from graphs_at_random import problem_at_random, product_at_random
from numpy.typing import NDArray
from tests.oracles import TooLarge
from tests.oracles import scheduling as oracle

import tilewright
from tilewright.run.instance import read
from tilewright.scheduling import Plan, Problem, objective, violation
from tilewright.scheduling.exact.search import search
from tilewright.scheduling.plan import ORDERS, Subgraph
from tilewright.scheduling.rules import latencies
from tilewright.scheduling.subgraph.cost import Pricer, best_order, ticks
from tilewright.scheduling.subgraph.structure import LONGEST, connected
from tilewright.scheduling.subgraph.tile_orders import order_times, shortest_tour
from tilewright.scheduling.subgraph.tile_times import Grid


@numba.njit  # type: ignore[untyped-decorator]
def times(table: NDArray[np.int64], grid: Grid) -> tuple[int, int, int]:
    """Return a bound, what is found line by line, and what the best order takes."""
    costs = np.zeros((4, 4), dtype=np.int64)
    count = (grid.rows + grid.odd_row) * (grid.columns + grid.odd_column)
    bound = order_times(table, grid, True, costs)
    found = order_times(table, grid, False, costs)
    return bound, found, shortest_tour(table, grid, np.empty((1 << count, count), dtype=np.int64))


def check_grids(chance: random.Random, count: int) -> list[bool]:
    tight = []
    for _ in range(count):
        rows, columns = chance.choice([(1, 4), (2, 2), (2, 3), (3, 2), (2, 4), (4, 2), (3, 3), (5, 2)])
        odd_row, odd_column = chance.randint(0, rows > 1), chance.randint(0, columns > 1)
        grid = Grid(rows - odd_row, odd_row, columns - odd_column, odd_column, 1, 0, 0)
        table = np.zeros((4, 4), dtype=np.int64)
        for edge in range(4):
            row, column = chance.choice([0, 3, 9]), chance.choice([0, 3, 9])
            least = chance.randint(0, 3)
            table[edge, 2], table[edge, 3] = least + chance.randint(0, row), least + chance.randint(0, column)
            table[edge, 1] = table[edge, 2:].max() + chance.randint(0, chance.choice([0, 9]))
            table[edge, 0] = table[edge, 1] + chance.randint(0, chance.choice([0, 9]))
        if columns == 1:
            table[:, 2] = table[:, 1]
        if rows == 1:
            table[:, 3] = table[:, 1]
        bound, found, best = times(table, grid)
        assert bound <= best <= found, (table, grid)
        tight.append(bound == found)
    return tight


@pytest.mark.nightly
def test_no_order_takes_less_than_the_bound() -> None:
    assert sum(check_grids(random.Random(0), 3000)) > 1000


@nightly
def test_no_order_takes_less_than_the_bound_of_more_grids() -> None:
    check_grids(random.Random(1), 200_000)


def check_subgraphs(seeds: range) -> tuple[int, int]:
    """Compare subgraphs at random with the oracle; return how many were tried, and how many orders listed."""
    tried = listed = 0
    for seed in seeds:
        chance = random.Random(seed)
        if seed % 2:
            problem = product_at_random(seed)
        else:
            sizes = {"most": chance.choice([4, 6, 9]), "native": chance.choice([2, 3, 4, 5])}
            problem = problem_at_random(seed, chance.choice([1, 1, 2, 2, 3]), **sizes)
            graph = problem.graph
            problem = problem.with_(
                graph={
                    "fast_memory_capacity": chance.choice([1, 2, 99]) * graph.fast_memory_capacity,
                    "slow_memory_bandwidth": chance.choice([1, 2, 3, 7]),
                    "native_granularity": [chance.randint(1, 5), chance.randint(1, 5)],
                    "base_costs": [chance.choice([0, 1, cost]) for cost in graph.base_costs],
                }
            )
        graph, many = problem.graph, len(problem.graph.inputs)
        ops = frozenset(chance.sample(range(many), chance.randint(1, many)))
        if not connected(problem, ops):
            continue
        made = {graph.made[op] for op in ops}
        resident = frozenset(one for one in graph.maker if one not in made and chance.random() < 0.2)
        kept = frozenset(one for one in made if chance.random() < 0.2)
        world = oracle.World(problem.model_dump(mode="json"))
        try:
            least = oracle.Subgraph(world, ops, resident, kept).least_time()
        except TooLarge:
            continue
        tried += 1
        pricer = Pricer(problem)
        choice, needs = pricer.best(ops, resident, kept), pricer.structure(ops, resident, kept)
        assert (choice is None) == (least is None), seed
        if choice is None or least is None or isinstance(needs, str):
            continue
        assert choice.ticks == choice.least == least * graph.scale, seed
        size = choice.width, choice.height, choice.depth
        order = best_order(graph, needs, size)
        assert ticks(graph, needs, size, order) == choice.ticks, seed
        listed += order not in ORDERS
    return tried, listed


@pytest.mark.nightly
def test_no_granularity_and_order_is_better() -> None:
    tried, listed = check_subgraphs(range(120))
    assert tried > 70
    assert listed > 3


@nightly
def test_no_granularity_and_order_is_better_of_more() -> None:
    check_subgraphs(range(120, 4000))


def test_what_is_kept_alone_fills_the_memory() -> None:
    """A subgraph that loads and writes nothing needs no room beside what is kept."""
    graph = {
        "widths": [6] * 3,
        "heights": [6] * 3,
        "inputs": [[0], [1]],
        "outputs": [[1], [2]],
        "base_costs": [0, 1],
        "op_types": ["Pointwise"] * 2,
        "fast_memory_capacity": 72,
        "slow_memory_bandwidth": 1,
        "native_granularity": [3, 4],
    }
    choice = Pricer(Problem(graph=graph)).best(frozenset((1,)), frozenset((1,)), frozenset((2,)))
    assert choice is not None
    assert choice.ticks == 4 * Problem(graph=graph).graph.scale


RAGGED = {
    "widths": [64, 96, 96],
    "heights": [96, 64, 96],
    "inputs": [[0, 1]],
    "outputs": [[2]],
    "base_costs": [1],
    "op_types": ["MatMul"],
    "fast_memory_capacity": 13000,
    "slow_memory_bandwidth": 10,
    "native_granularity": [64, 64],
}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", ["ideals", "columns_cover@highs"])
def test_tiles_of_unequal_size_from_the_other_end(method: str) -> None:
    """By hand: 3 x 6,144 elements at least; the first tile saves neither row nor column, 2,048 elements more.

    Tiles of 64 x 63 and their rest: 23,552 elements are moved. With equal tiles of 48 x 48 it is 24,576.
    """
    problem = Problem(graph=RAGGED)
    better = Plan((Subgraph((0,), (49, 64, 64), (), (2, 0, 1, 3)),))
    assert violation(problem, better) is None
    assert sum(latencies(problem, better)) == 2355.2 * problem.graph.scale
    answer = search(Pricer(problem), LONGEST)
    assert answer is not None
    assert (answer.proven, answer.ticks) == (True, sum(latencies(problem, better)))
    equal = Plan((Subgraph((0,), (48, 48, 64), (), "snake_rows"),))
    assert objective(problem, equal) == 2458
    result = tilewright.solve(problem, method, time_limit=60)
    assert (result.status, result.objective, result.bound) == ("optimal", 2356, 2356)


CHAIN = {
    "widths": [512] * 5,
    "heights": [256, 512, 256, 256, 256],
    "inputs": [[0, 1], [2], [3, 0]],
    "outputs": [[2], [3], [4]],
    "base_costs": [5000, 200, 200],
    "op_types": ["MatMul", "Pointwise", "Pointwise"],
    "fast_memory_capacity": 180_000,
    "slow_memory_bandwidth": 25,
    "native_granularity": [128, 128],
}


def test_one_rectangle_is_loaded_once_in_a_step() -> None:
    """In the last of four columns, the fourth step reads the tile that the last operation reads, too."""
    problem = Problem(graph=CHAIN)
    plan = Plan((Subgraph((0, 1, 2), (128, 128, 128)),))
    assert violation(problem, plan) is None
    steps_of_a_tile = 3 * 2 + 4  # slices of 128 x 128: two in each step; in the last one two tiles more
    assert sum(latencies(problem, plan)) == problem.graph.scale * 16384 * (8 * steps_of_a_tile - 2) / 25
    answer = search(Pricer(problem), LONGEST)
    assert answer is not None
    assert (answer.proven, answer.ticks) == (True, sum(latencies(problem, plan)))


@pytest.mark.nightly
def test_sums_that_wait_take_their_places() -> None:
    """Six sums of 128 x 128 in steps of 10, and what is made of them: 6 x 16,384 + 10 x 1,280 elements."""
    strict = read("mlsys-2026-5").problem
    loose = strict.with_(limits={"accumulators": "tile"})
    step = Subgraph((2, 3, 4, 7, 8, 9, 12, 13, 14, 15, 16), (128, 128, 10))
    before = [Subgraph((op, op + 1), (86, 86, 128)) for op in (0, 5, 10)]
    after = Subgraph((17, 18), (128, 64, 1))
    plan = Plan((*before, step, after))
    assert violation(loose, plan) is None
    assert tells(violation(strict, plan), "111,104 elements .. 30,000")
    best = tilewright.solve(strict, "ideals", time_limit=120)
    assert (best.status, best.objective) == ("optimal", 604_665)
    best = tilewright.solve(loose, "ideals", time_limit=120)
    assert (best.status, best.objective) == ("optimal", 545_040)


def test_an_operation_is_run_again_to_keep_what_it_makes() -> None:
    """The second one is run for what it writes, and at once again, from what was kept, for what it keeps."""
    graph = {
        "widths": [3, 4, 4, 4, 4, 3, 4],
        "heights": [3, 3, 3, 3, 3, 3, 3],
        "inputs": [[0, 1], [2], [0, 3], [5, 3]],
        "outputs": [[2], [3], [4], [6]],
        "base_costs": [26, 0, 5, 0],
        "op_types": ["MatMul", "Pointwise", "MatMul", "MatMul"],
        "fast_memory_capacity": 26,
        "slow_memory_bandwidth": 2,
        "native_granularity": [2, 1],
    }
    problem = Problem(graph=graph, limits={"connected": "flow"})
    for method in ("ideals", "columns_cover@highs"):
        result = tilewright.solve(problem, method, time_limit=60)
        assert (result.status, result.objective) == ("optimal", 206)
