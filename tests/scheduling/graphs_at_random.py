"""Small random graphs of operations, and what the best of all plans of them takes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.oracles import scheduling as oracle

from tilewright.scheduling import Problem
from tilewright.scheduling.plan import ORDERS, Subgraph

CONNECTIONS = ("shared", "flow")
ACCUMULATORS = ("each", "tile")


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
        limits={"connected": chance.choice(CONNECTIONS), "accumulators": chance.choice(ACCUMULATORS)},
    )


def product_at_random(seed: int) -> Problem:
    """Return a product whose slices stay from tile to tile, and what is made of it; tiles rarely fill it."""
    chance = random.Random(seed)
    width, height, depth = chance.randint(3, 11), chance.randint(3, 11), chance.randint(1, 5)
    native = [chance.randint(2, 6), chance.randint(2, 6)]
    behind = chance.choice([0, 0, 0, 1])
    return Problem(
        graph={
            "widths": [depth, width, *[width] * (1 + behind)],
            "heights": [height, depth, *[height] * (1 + behind)],
            "inputs": [[0, 1], [2]][: 1 + behind],
            "outputs": [[2], [3]][: 1 + behind],
            "base_costs": [chance.choice([0, 1, 5, 15])] * (1 + behind),
            "op_types": ["MatMul", "Pointwise"][: 1 + behind],
            "fast_memory_capacity": max(
                1, sum(native) * depth + native[0] * native[1] + chance.randint(-9, 9)
            ),
            "slow_memory_bandwidth": chance.randint(1, 3),
            "native_granularity": native,
        }
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
        limits={"connected": chance.choice(CONNECTIONS), "accumulators": chance.choice(ACCUMULATORS)},
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


def least_ticks(problem: Problem) -> int | None:
    """Return the latency of the best of all plans, by the oracle; None where there is none."""
    scale = problem.graph.scale
    least = oracle.latency(problem.model_dump(mode="json"), scale)
    return None if least is None else int(least * scale)
