"""Small networks at random, and all plans of one: every order, group, residency and way to cut up a step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any

from tilewright.residency import Problem
from tilewright.residency.decode_plan import DecodedStep, StepDecoder
from tilewright.residency.graph import Graph, InvalidPlanError, members
from tilewright.residency.plan import Step
from tilewright.residency.shapes.groups import Group, Groups
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import State


def random_network(rng: random.Random, most: int = 4) -> dict[str, Any]:
    """Return a network of a few operations on small planes: chains, branches, sums, concatenations."""
    shapes = {"input": (rng.randint(1, 3), rng.randint(2, 6), rng.randint(2, 5))}
    layers: list[dict[str, Any]] = []
    for number in range(rng.randint(1, most)):
        name = f"n{number}"
        recent = list(shapes)[-3:]
        source = rng.choice(recent) if number else "input"
        shape = shapes[source]
        alike = [other for other in shapes if shapes[other] == shape and other != source]
        joined = [other for other in shapes if shapes[other][1:] == shape[1:] and other != source]
        kind = rng.choice(["conv", "conv", "depthwise", "pool", "add", "concat", "fc", "map"])
        if kind == "add" and alike:
            layers.append(
                {"name": name, "kind": "add", "input": shape, "inputs": [source, rng.choice(alike)]}
            )
            shapes[name] = shape
            continue
        inputs = [source]
        if kind == "concat" and joined:
            inputs.append(rng.choice(joined))
            shape = (shape[0] + shapes[inputs[1]][0], *shape[1:])
        if kind == "fc":
            size, outputs = shape[0] * shape[1] * shape[2], rng.randint(1, 3)
            layers.append(
                {"name": name, "kind": "fc", "inputs": inputs, "input": [size, 1, 1], "kernels": outputs}
                | {"kernel": [1, 1], "bias": rng.random() < 0.5}
            )
            shapes[name] = (outputs, 1, 1)
            continue
        if kind == "map":
            layers.append({"name": name, "kind": "map", "op": "softmax", "input": shape, "inputs": inputs})
            shapes[name] = shape
            continue
        kernel = [rng.randint(1, min(3, shape[1])), rng.randint(1, min(3, shape[2]))]
        padding = [rng.randrange(kernel[0]) for _ in "tb"] + [rng.randrange(kernel[1]) for _ in "lr"]
        stride = [rng.randint(1, 2), rng.randint(1, 2)]
        layer: dict[str, Any] = {"name": name, "inputs": inputs, "input": shape, "kernel": kernel}
        layer |= {"stride": stride, "padding": padding}
        channels = shape[0]
        if kind == "pool":
            layer |= {"kind": "pool", "op": rng.choice(["max", "average"])}
        else:
            channels = shape[0] if kind == "depthwise" else rng.randint(1, 3)
            layer |= {"kernels": channels, "bias": rng.random() < 0.5}
            layer |= {"groups": shape[0]} if kind == "depthwise" else {}
        rows, columns = (
            (shape[1 + axis] + sum(padding[2 * axis : 2 * axis + 2]) - kernel[axis]) // stride[axis] + 1
            for axis in (0, 1)
        )
        layers.append(layer)
        shapes[name] = (channels, rows, columns)
    return {"layers": layers}


def subsets(values: tuple[Any, ...] | list[Any]) -> Iterator[tuple[Any, ...]]:
    """Return all subsets."""
    return chain.from_iterable(combinations(values, count) for count in range(len(values) + 1))


def copies(problem: Problem, *, first: bool) -> Iterator[dict[str, tuple[str, ...]]]:
    """Return all sets of operations that are executed twice, and who reads the second executions.

    The `first` reader in the file may be bound to read the first execution.
    """
    graph = problem.graph

    def further(number: int, again: dict[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
        if number < 0:
            yield again
            return
        yield from further(number - 1, again)
        readers = readers_of(graph, number, again)
        for some in subsets(readers[first:]):
            if 0 < len(some) < len(readers) and not graph.begin >> number & 1:
                yield from further(number - 1, {graph.operations[number].name: some, **again})

    return further(len(graph.operations) - 1, {})


def some_copies(rng: random.Random, problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return operations that are executed twice, at random."""
    graph, again = problem.graph, dict[str, tuple[str, ...]]()
    for operation in reversed(graph.numbers(graph.all & ~graph.begin)):
        readers = readers_of(graph, operation.number, again)
        if len(readers) > 1 and rng.random() < 0.7:
            again[operation.name] = tuple(rng.sample(readers, rng.randint(1, len(readers) - 1)))
    return again


def readers_of(graph: Graph, number: int, again: dict[str, tuple[str, ...]]) -> list[str]:
    """Return who reads what an operation computes, each before its second execution."""
    found = []
    for reader in members(graph.readers[number + 1]):
        name = graph.operations[reader].name
        found += [name, f"{name} again"] if name in again else [name]
    return found


def shapes_of(group: Group) -> Iterator[dict[str, Any]]:
    """Return all ways to cut up a step."""
    weighty = [operation for operation in group.operations if operation.weights]
    most = max(operation.units for operation in group.operations)
    if len(group.operations) == 1:
        yield from shapes_in_blocks(group)
    for pixels in range(1, group.pixels + 1):
        if len(group.operations) == 1:
            for kernels in range(1, most + 1):
                yield {"order": "kernels", "pixels": pixels, "kernels": kernels}
        for kept in subsets([operation.name for operation in weighty]):
            for kernels, columns in product(range(1, most + 1), [None, *strip_widths(group)]):
                yield {"order": "pixels", "pixels": pixels, "kernels": kernels, "kept": kept} | (
                    {"columns": columns} if columns else {}
                )


def shapes_in_blocks(group: Group) -> Iterator[dict[str, Any]]:
    """Return all ways to add up blocks of input channels."""
    height, width = group.graph.tensors[group.output].shape[1:]
    depth = sum(group.graph.tensors[reading.tensor].channels for reading in group.last.readings)
    for kernels, channels in product(range(1, group.last.units + 1), range(1, depth + 1)):
        blocks = {"kernels": kernels, "channels": channels}
        for rows, columns in product(range(1, height + 1), range(1, width + 1)):
            yield {"order": "tiles", "pixels": rows * columns, "columns": columns, **blocks}
        yield {"order": "channels", "pixels": 1, **blocks}


def all_steps(graph: Graph, state: State, *, doubled: bool = False) -> Iterator[Step]:
    """Return the steps that may come next: all orders, groups, residencies and ways to cut them up.

    Parameters
    ----------
    doubled
        Whether with second buffers, too.
    """
    for last in members(graph.all & ~state.done):
        needed = graph.ops.ancestors[last] & ~state.done
        group = Groups(graph)[needed | 1 << last]

        def names(mask: int) -> list[str]:
            return [graph.tensors[number].name for number in members(mask)]

        sources = sum(1 << number for number in group.sources)
        outputs = names(sum(1 << number for number in group.outputs))
        for dropped in subsets(names(state.on_chip & state.in_dram)):
            gone = sum(1 << number for number, each in enumerate(graph.tensors) if each.name in dropped)
            there = state.on_chip & ~gone
            for fetched in subsets(names(sources & ~there & state.in_dram)):
                for resident, written in product(subsets(outputs), subsets(outputs)):
                    for in_place in [None, *(names(sources) if resident else [])]:
                        for shape, twice in product(shapes_of(group), [False, True] if doubled else [False]):
                            yield Step(
                                tuple(operation.name for operation in group.operations),
                                dropped=dropped,
                                fetched=fetched,
                                resident=resident,
                                written=written,
                                in_place=in_place,
                                double_buffering=twice,
                                **shape,
                            )


def start_of(graph: Graph) -> State:
    """Return what there is before the first step."""
    read = sum(1 << number for number, readers in enumerate(graph.readers) if readers)
    return State(graph.begin, 0, graph.given & read)


def after(graph: Graph, step: DecodedStep) -> State:
    """Return what there is after a step."""
    done = step.before.done | step.choice.group
    live = sum(1 << number for number, readers in enumerate(graph.readers) if readers & ~done)
    return State(done, step.on_chip & live, (step.before.in_dram | step.choice.written) & live)


def enumerated(problem: Problem) -> int | None:
    """Return the elements that the best of all plans moves, counting what is on chip by size."""
    graph, decoder = problem.graph, StepDecoder(problem)
    costs = {start_of(graph): 0}
    left = dict(costs)
    while left:
        state = min(left, key=lambda state: left[state])
        cost = left.pop(state)
        if state.done == graph.all:
            return cost
        for step in all_steps(graph, state):
            try:
                told = decoder.decode(step, state)
            except InvalidPlanError:
                continue
            reached, moved = after(graph, told), cost + told.moved
            if moved < costs.get(reached, moved + 1):
                costs[reached] = left[reached] = moved
    return None


def problem_of(network: dict[str, Any], elements: int, **rest: Any) -> Problem:
    """Return a problem with a memory of some elements."""
    return Problem.model_validate({"network": network, "machine": {"memory_bytes": elements}, **rest})
