"""Small random graphs of operations, and all plans of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import combinations, permutations, product
from typing import Any

from tilewright.scheduling import Problem
from tilewright.scheduling.cost import Pricer, deepest_step, evaluated, ticks
from tilewright.scheduling.plan import ORDERS, Subgraph
from tilewright.scheduling.structure import connected, sinks, structure

CONNECTIONS = ("shared", "flow")


def problem_at_random(seed: int, operations: int, most: int = 5, native: int = 3) -> Problem:
    """Return a graph whose sizes are at most `most`, on an array of `native` x `native`."""
    chance = random.Random(seed)
    sizes = [chance.randint(1, most) for _ in range(2)]
    shapes: list[tuple[int, int]] = []
    inputs, outputs, types = [], [], []
    made: list[int] = []

    def tensor(width: int, height: int) -> int:
        fitting = [one for one, shape in enumerate(shapes) if shape == (width, height)]
        if fitting and chance.random() < 0.75:
            return max(chance.sample(fitting, min(2, len(fitting))))
        shapes.append((width, height))
        return len(shapes) - 1

    for _ in range(operations):
        if made and chance.random() < 0.75:
            first = chance.choice(made)
        else:
            first = tensor(chance.choice(sizes), chance.choice(sizes))
        width, height = shapes[first]
        if chance.random() < 0.5:
            read = [first]
            if chance.random() < 0.5:
                read.append(tensor(width, height))
            shape = width, height
            types.append("Pointwise")
        else:
            if chance.random() < 0.6:
                other = tensor(chance.choice(sizes), width)
                read, shape = [first, other], (shapes[other][0], height)
            else:
                other = tensor(height, chance.choice(sizes))
                read, shape = [other, first], (width, shapes[other][1])
            types.append("MatMul")
        shapes.append(shape)
        made.append(len(shapes) - 1)
        inputs.append(read)
        outputs.append([made[-1]])
    sides = [width * height for width, height in shapes]
    return Problem(
        graph={
            "widths": [width for width, _ in shapes],
            "heights": [height for _, height in shapes],
            "inputs": inputs,
            "outputs": outputs,
            "base_costs": [chance.randint(0, 30) for _ in inputs],
            "op_types": types,
            "fast_memory_capacity": chance.randint(4, 2 * max(sides) + 8),
            "slow_memory_bandwidth": chance.randint(1, 3),
            "native_granularity": [native, native],
        },
        limits={"connected": chance.choice(CONNECTIONS)},
    )


def twins_at_random(seed: int, others: int) -> Problem:
    """Return a graph with two or three operations that are twins, and others that read of them or do not."""
    chance = random.Random(seed)
    width, height, deep = (chance.randint(1, 5) for _ in range(3))
    shapes: list[tuple[int, int]] = [(deep, height)]
    inputs, made, types, costs = [], [], [], []

    def run(kind: str, cost: int, shape: tuple[int, int], *read: int) -> None:
        shapes.append(shape)
        made.append(len(shapes) - 1)
        inputs.append(list(read))
        types.append(kind)
        costs.append(cost)

    cost, kind = chance.randint(0, 30), chance.choice(["MatMul", "MatMul", "Pointwise"])
    width = width if kind == "MatMul" else deep
    for _ in range(chance.randint(2, 3)):
        if kind == "MatMul":
            shapes.append((width, deep))
            run(kind, cost, (width, height), 0, len(shapes) - 1)
        else:
            run(kind, cost, (width, height), 0)
    first = list(made)
    for _ in range(others):
        cost = chance.choice([0, 3, 9, 30])
        fitting = [tensor for tensor in made if shapes[tensor] == (width, height)]
        if chance.random() < 0.7:
            read = chance.sample(first, 2) if chance.random() < 0.6 else [chance.choice(fitting)]
            if chance.random() < 0.3:
                read = list(first)
            run("Pointwise", cost, (width, height), *read)
        else:
            shapes.append((chance.choice([width, 2]), width))
            run("MatMul", cost, (shapes[-1][0], height), chance.choice(first), len(shapes) - 1)
    sides = [one * other for one, other in shapes]
    return Problem(
        graph={
            "widths": [one for one, _ in shapes],
            "heights": [other for _, other in shapes],
            "inputs": inputs,
            "outputs": [[tensor] for tensor in made],
            "base_costs": costs,
            "op_types": types,
            "fast_memory_capacity": chance.randint(4, 2 * max(sides) + 8),
            "slow_memory_bandwidth": chance.randint(1, 3),
            "native_granularity": [3, 3],
        },
        limits={"connected": chance.choice(CONNECTIONS)},
    )


def perturbed(table: dict[str, Any], seed: int) -> dict[str, Any]:
    """Return a graph of the contest with other sizes, odd ones, and without some of its operations."""
    chance = random.Random(seed)
    sizes = sorted({*table["widths"], *table["heights"]})
    other = {size: max(1, int(size * chance.uniform(0.6, 1.3))) | chance.randint(0, 1) for size in sizes}
    count = len(table["inputs"])
    left = [op for op in range(count) if chance.random() < 0.9] or [0]
    dear = chance.choice([1, 1, 1, 1009, 10**8 + 7])
    bandwidth = chance.choice([1, 2**31 - 1, table["slow_memory_bandwidth"], chance.randint(3, 97)])
    return table | {
        "widths": [other[size] for size in table["widths"]],
        "heights": [other[size] for size in table["heights"]],
        "inputs": [table["inputs"][op] for op in left],
        "outputs": [table["outputs"][op] for op in left],
        "base_costs": [table["base_costs"][op] * dear for op in left],
        "op_types": [table["op_types"][op] for op in left],
        "fast_memory_capacity": int(table["fast_memory_capacity"] * chance.uniform(0.1, 1.5)),
        "slow_memory_bandwidth": bandwidth,
        "native_granularity": [
            int(side * chance.uniform(0.6, 1.2)) | chance.randint(0, 1)
            for side in table["native_granularity"]
        ],
    }


def subgraphs_at_random(problem: Problem, chance: random.Random) -> Iterator[Subgraph]:
    """Yield subgraphs with any granularity, most of which keep no rule."""
    graph = problem.graph
    while True:
        ops = chance.sample(range(len(graph.inputs)), chance.randint(1, len(graph.inputs)))
        width, height = graph.native_granularity
        kept = [graph.made[op] for op in ops if chance.random() < 0.2]
        granularity = chance.randint(1, width), chance.randint(1, height), chance.randint(1, width)
        yield Subgraph(tuple(ops), granularity, tuple(kept), chance.choice(ORDERS))


def least_ticks(problem: Problem, every_order: bool = False) -> int | None:
    """Return the latency of the best of all plans, found by trying them; None where there is none.

    Shortest paths over what lies in slow memory and what has been kept; each step tries every set of
    operations, every granularity, every set of kept tensors, and every order that has a name, or all.
    """
    graph = problem.graph
    steps = list(_steps(problem))
    known: dict[object, int | None] = {}
    distance: dict[tuple[frozenset[int], frozenset[int]], int] = {(frozenset(), frozenset()): 0}
    done: set[tuple[frozenset[int], frozenset[int]]] = set()
    while True:
        waiting = [state for state in distance if state not in done]
        if not waiting:
            return None
        state = min(waiting, key=distance.__getitem__)
        done.add(state)
        written, resident = state
        if written >= set(graph.results):
            return distance[state]
        for ops, kept, ends, needs in steps:
            if not needs <= written | resident:
                continue
            cost = _least(problem, ops, resident, kept, every_order, known)
            if cost is None:
                continue
            after = written | (ends - kept), kept
            if distance[state] + cost < distance.get(after, 2**62):
                distance[after] = distance[state] + cost


Step = tuple[tuple[int, ...], frozenset[int], frozenset[int], frozenset[int]]
"""Operations, tensors that they keep, tensors that they write unless they keep them, and what they read."""


def _steps(problem: Problem) -> Iterator[Step]:
    graph = problem.graph
    for many in range(1, len(graph.inputs) + 1):
        for ops in combinations(range(len(graph.inputs)), many):
            if not connected(problem, ops):
                continue
            made = {graph.made[op] for op in ops}
            needs = frozenset(
                tensor
                for op in ops
                for tensor in graph.inputs[op]
                if tensor in graph.maker and tensor not in made
            )
            ends = frozenset(sinks(graph, ops))
            for kept_many in range(len(made) + 1):
                for kept in combinations(sorted(made), kept_many):
                    if not isinstance(structure(graph, ops, (), kept), str):
                        yield ops, frozenset(kept), ends, needs


def _least(
    problem: Problem,
    ops: tuple[int, ...],
    resident: frozenset[int],
    kept: frozenset[int],
    every_order: bool,
    known: dict[object, int | None],
) -> int | None:
    """Return the least ticks of a subgraph by trying all granularities and orders."""
    key = ops, resident, kept
    if key in known:
        return known[key]
    graph = problem.graph
    found = structure(graph, ops, resident, kept)
    best = None
    if not isinstance(found, str):
        room = graph.fast_memory_capacity - Pricer(problem).kept(resident, kept)
        width, height = graph.native_granularity
        for size in product(
            range(found.least_width, width + 1),
            range(found.least_height, height + 1),
            range(1, deepest_step(graph, found) + 1),
        ):
            held, *times = evaluated(graph, found, size)[:5]
            if held <= room:
                tiles = -(-found.width // size[0]) * -(-found.height // size[1])
                if every_order and tiles <= 5:
                    times = [ticks(graph, found, size, order) for order in permutations(range(tiles))]
                best = min(times) if best is None else min(best, *times)
    known[key] = best
    return best
