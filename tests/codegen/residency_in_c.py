"""Residency plans as C projects: any network and plan, compiled, run, and compared with the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from conftest import THOROUGH
from tests.compiled import CHECKED, Compiled
from tests.fusion.fusion_at_random import excited, network, rectified
from tests.fuzz.networks import reduced
from tests.numbered import numbers as integers
from tests.numbered import tables
from tests.residency.residency_cases import random_network, some_copies

from tilewright import codegen
from tilewright.codegen import QuantisedNetwork
from tilewright.codegen.addressed import is_in_floats, numbers_of
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, Problem, Step, simulate, violation
from tilewright.residency.decode_plan import StepDecoder, decode_plan
from tilewright.residency.derived_problems import (
    add_staying,
    problem_of_plan,
    residual_problem,
    with_copies_of,
)
from tilewright.residency.evaluation import memory_taken
from tilewright.residency.graph import InvalidPlanError, members
from tilewright.residency.placement import find_addresses, placed_items
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, Groups, group_mask, pass_sizes
from tilewright.residency.shapes.in_blocks import may_have_blocks, most_keys, pixels_in_blocks
from tilewright.residency.shapes.product_tiles import product_tiles
from tilewright.residency.shapes.shape import most_kernels
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import State
from tilewright.spec.errors import InputError

Table = dict[str, Any]

METHODS = ("states", *catalogue.heuristics("residency"))

SANITIZED = ("-O1" if THOROUGH else "-O0", *CHECKED, "-DON_CHIP(buffer)=")

AMPLE = 100_000
"""Bytes in which everything fits at once."""


class Built(Compiled):
    """The project of a plan."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        super().__init__(folder, files, *flags)
        self.moved = [(int(row[1]), int(row[2])) for row in self.lines[1:] if len(row) == 3]

    @property
    def memory(self) -> int:
        """Bytes of the memory on chip in the compiled object."""
        return self.sections("src/engine.c")[".on_chip.memory"]


def assert_right(
    folder: Path,
    problem: Problem,
    plan: Plan,
    seed: int,
    *flags: str,
    names: Sequence[str] = ("net", ""),
    values: QuantisedNetwork | None = None,
) -> Built:
    """The program computes what the network does, moves what is simulated, and takes what is planned.

    Parameters
    ----------
    names
        Name and source of the instance.
    values
        Given numbers.
    """
    assert violation(problem, plan) is None
    files = codegen.project(*names, problem, plan, values, seed)
    report = simulate(problem, plan)
    assert report.valid
    built = Built(folder, files, *flags)
    measures = report.measures
    rows = [*measures.steps_of_plan.values(), measures, measures]  # in all, and as planned
    assert built.moved == [(row.loaded_bytes, row.saved_bytes) for row in rows]
    memory = memory_taken(problem, plan, decode_plan(problem, plan)) * problem.machine.element_bytes
    assert f"#define MEMORY_BYTES {memory}\n".encode() in files["src/machine.h"]
    # Of two buffers a single pass uses one.
    assert memory == measures.memory_bytes or any(step.double_buffering for step in plan.steps)
    maps = numbers_of(problem, seed, values).maps
    found = [maps[each.name] for each in problem.graph.tensors if not each.given and not each.readers]
    pixels = np.hstack([each.transpose(0, 2, 3, 1).reshape(len(each), -1) for each in found])
    assert (folder / "data" / "output.bin").read_bytes() == encoded(problem, pixels.ravel())
    return built


def encoded(problem: Problem, values: Any) -> bytes:
    """Return values as they lie in memory."""
    size = problem.machine.element_bytes
    return b"".join(int(value).to_bytes(size, "little", signed=True) for value in values)


# At random ------------------------------------------------------------------------------------------------


def any_network(random: Random) -> Table:
    """Return a small network that there is C for, or nearly so."""
    kind = random.choice(["chain", "chain", "fusion", "fusion", "excited", "reshaped", "reduced"])
    if kind == "reshaped":
        return reshaped(random)
    if kind == "reduced":
        return {"layers": reduced(random, 5, 5)}
    if kind == "chain":
        layers = random_network(random, 7)
        for layer in layers["layers"]:
            if layer.get("op") == "softmax" and random.random() < 0.8:
                layer["op"] = "relu"
        return layers
    return rectified(random, excited(random) if kind == "excited" else network(random))


def reshaped(random: Random) -> Table:
    """Return two maps whose values are read in another shape, which is an operation of its own."""
    channels, rows, columns = (random.randint(1, 4) for _ in range(3))
    shape = [channels, rows, columns]
    conv = {"kernel": [1, 1], "kernels": channels, "bias": True}
    both = random.random() < 0.5
    deep = channels * (1 + both)
    return {
        "layers": [
            {"name": "a", "input": shape, **conv},
            {"name": "b", "input": shape, "inputs": ["a"], **conv},
            {"name": "other", "kind": "reshape", "inputs": ["a", "b"][: 1 + both]}
            | {"input": [deep, rows, columns], "output": [columns, deep, rows]},
            {"name": "c", "input": [columns, deep, rows], "kernel": [1, 1], "kernels": 2},
            {"name": "d", "kind": "pool", "op": "max", "inputs": ["c"], "input": [2, deep, rows]}
            | {"kernel": [1, rows]},
        ]
    }


def any_problem(random: Random, names: Sequence[str] = ()) -> Problem:
    """Return a problem of a small network that there is C for, whose layers perhaps begin with some names."""
    while True:
        machine: Table = {"memory_bytes": AMPLE, "element_bytes": random.choice([1, 1, 2, 3, 4, 8])}
        machine |= {"sum_bytes": 8 if machine["element_bytes"] > 2 else random.choice([4, 5, 8])}
        machine |= {"double_buffering": random.random() < 0.5}
        layers = renamed(any_network(random), names)
        limits = random.choice([{}, {"frames": "many"}, {"executions": 2}])
        try:
            problem = Problem.model_validate({"network": layers, "machine": machine, "limits": limits})
            numbers_of(problem)
        except InputError:
            continue
        if is_in_floats(problem):
            continue
        return problem


def renamed(layers: Table, names: Sequence[str]) -> Table:
    """Return a network whose layers have other names, as far as there are any."""
    new = {
        layer["name"]: f"{name}{number}"
        for number, (layer, name) in enumerate(zip(layers["layers"], names, strict=False))
    }
    for layer in layers["layers"]:
        layer["name"] = new.get(layer["name"], layer["name"])
        if "inputs" in layer and not isinstance(layer["inputs"], int):
            layer["inputs"] = [new.get(name, name) for name in layer["inputs"]]
    return layers


def tight(random: Random, problem: Problem) -> Problem:
    """Return a problem with a memory between the least and that of everything."""
    size = problem.machine.element_bytes
    least = problem.least_memory
    everything = sum(tensor.size for tensor in problem.graph.tensors)
    memory = size * random.randint(least, least + max(1, everything // 2))
    return problem.with_(machine={"memory_bytes": memory})


def any_plan(random: Random, problem: Problem) -> Plan:
    """Return a plan of any valid steps, good or bad; for many frames, any weights stay.

    Where operations may be executed twice, any of them are.
    """
    if problem.limits.executions == 2:
        again = some_copies(random, problem)
        return replace(any_plan(random, with_copies_of(problem, again)), again=again)
    if problem.limits.frames == "many":
        weighty = [operation.number for operation in problem.graph.operations if operation.weights]
        staying = random.sample(weighty, random.randint(0, len(weighty)))
        return add_staying(problem, staying, any_plan(random, residual_problem(problem, staying)))
    graph = problem.graph
    read = sum(1 << number for number, readers in enumerate(graph.readers) if readers)
    state = State(graph.begin, 0, graph.given & read)
    steps: list[Step] = []
    choices = []
    while state.done != graph.all:
        step, told = _any_step(random, problem, state)
        done = state.done | told.choice.group
        live = sum(1 << number for number, readers in enumerate(graph.readers) if readers & ~done)
        state = State(done, told.on_chip & live, (state.in_dram | told.choice.written) & live)
        steps.append(step)
        choices.append(told.choice)
    found = placed_items(problem.groups, choices)
    addresses = find_addresses(found, problem.machine.capacity, float("inf"))
    assert addresses is not None
    at: list[dict[str, int]] = [{} for _ in steps]
    for item, address in zip(found, addresses, strict=True):
        for number, name in item.names:
            at[number][name] = address
    return Plan(tuple(replace(step, addresses=each) for step, each in zip(steps, at, strict=True)))


def _any_step(random: Random, problem: Problem, state: State) -> tuple[Step, Any]:
    graph = problem.graph
    decoder = StepDecoder(problem)
    while True:
        last = random.choice(members(graph.all & ~state.done))
        group = Groups(graph)[group_mask(graph, state.done, last)]
        step = _drawn(random, problem, state, group)
        try:
            return step, decoder.decode(step, state)
        except InvalidPlanError:
            continue


def _drawn(random: Random, problem: Problem, state: State, group: Group) -> Step:
    graph = problem.graph

    def some(mask: int, share: float) -> tuple[str, ...]:
        return tuple(graph.tensors[each].name for each in members(mask) if random.random() < share)

    outputs = [(graph.tensors[each].name, bool(graph.readers[each])) for each in group.outputs]
    ways = {name: random.choice([(1, 0), (0, 1), (1, 1)]) if read else (0, 1) for name, read in outputs}
    sources = sum(1 << number for number in group.sources)
    alone = len(group.operations) == 1
    order = random.choice(["pixels", "kernels", "tiles", "channels"]) if alone else "pixels"
    running = group.running is not None and order in ("pixels", "kernels") and random.random() < 0.7
    area = group.running or group if running else group
    weighty = [graph.operations[number].name for number in sorted(area.keepable)]
    height, width = area.plane
    share = random.choice([0, 0.5, 1])
    pixels = random.choice([random.randint(1, area.pixels), width * random.randint(1, height)])
    kernels = random.randint(1, max(operation.units for operation in group.operations))
    columns = channels = None
    doubled = random.random() < 0.3
    if order in tiles.SUMMED:
        depth = max(1, tiles.summed_channels(graph, group.last))
        channels = random.choice([depth, random.randint(1, depth)])
        pixels = 1
    if order == "tiles":
        columns = random.randint(1, width)
        pixels = columns * random.randint(1, height)
    elif doubled and order in ("pixels", "kernels"):
        pixels = width * random.choice(pass_sizes(height))
        kernels, share = random.choice(pass_sizes(group.last.units)), 1
    elif order == "pixels" and area.running is None and strip_widths(area) and random.random() < 0.5:
        columns, share = random.choice(strip_widths(area)), 1
        pixels = random.choice([random.randint(1, columns), columns * random.randint(1, height)])
    blocks, keys = False, None
    if order == "pixels" and may_have_blocks(group) and random.random() < 0.7:
        blocks, columns, doubled, pixels = True, None, False, random.choice(pixels_in_blocks(group))
        kernels = random.randint(1, most_kernels(group))
        keys = random.choice([None, random.randint(1, most)]) if (most := most_keys(group)) else None
        in_tiles = product_tiles(group)
        if in_tiles is not None and in_tiles.attention is None:
            channels = random.choice([None, in_tiles.depth, random.randint(1, in_tiles.depth)])
        if in_tiles is not None and (keys or channels):
            kernels = random.randint(1, in_tiles.columns)
    return Step(
        tuple(operation.name for operation in group.operations),
        order,
        pixels,
        kernels,
        () if order != "pixels" else tuple(name for name in weighty if random.random() < share),
        some(state.on_chip & state.in_dram, 0.3),
        some(sources & state.in_dram, 0.3),
        tuple(name for name, (kept, _) in ways.items() if kept),
        tuple(name for name, (_, written) in ways.items() if written),
        random.choice([None, None, *some(sources, 1)]),
        columns=columns,
        channels=channels,
        double_buffering=doubled,
        running=running,
        blocks=blocks,
        keys=keys,
    )


def assert_any_is_right(random: Random, folder: Path, names: Sequence[str] = ()) -> None:
    """A random plan of a random network, or that of a method, is executed right.

    Parameters
    ----------
    names
        Some of which the instance and its layers get.
    """
    shown = random.sample(names, len(names)) if names else ["", ""]
    problem = any_problem(random, shown[2:])
    if random.random() < 0.6:
        plan = any_plan(random, problem)
    else:
        problem = tight(random, problem)
        plan = found(problem, random.choice(METHODS))
    seed = random.getrandbits(32)
    assert_right(folder, problem, plan, seed, *SANITIZED, names=shown[:2])


def assert_any_is_right_in_memories(random: Random, folder: Path) -> None:
    """A random plan of which each thing lies in one of several memories is executed right."""
    problem = any_problem(random, [])
    plan = any_plan(random, problem)
    count = random.choice([2, 3])
    names = [f"ram {place}" for place in range(count)]
    memories = [{"name": name, "bytes": AMPLE} for name in names]
    several = problem.with_(
        machine={"memory": tuple(names), "memories": memories, "memory_bytes": count * AMPLE}
    )
    elements = several.machine.regions[0].end
    items = placed_items(
        problem_of_plan(problem, plan).groups, [step.choice for step in decode_plan(problem, plan)]
    )
    at = [dict(step.addresses) for step in plan.steps]
    for item in items:
        further = random.randrange(count) * elements
        for number, name in item.names:
            at[number][name] += further
    steps = (replace(step, addresses=each) for step, each in zip(plan.steps, at, strict=True))
    staying = {name: element + random.randrange(count) * elements for name, element in plan.staying.items()}
    plan = replace(plan, steps=tuple(steps), staying=staying)
    assert_right(folder, several, plan, random.getrandbits(32), *SANITIZED)


def assert_given_is_right(random: Random, folder: Path) -> None:
    """A random plan of a random network with numbers in random formats is executed right."""
    while True:
        problem, values = _given(random)
        try:
            numbers_of(problem, 0, values)
        except InputError as error:
            told = ("rounded", "last layer", "other layers", "another shape", "one input", "concatenations")
            assert any(words in error.limit for words in told), error
            continue
        break
    while True:
        plan = any_plan(random, problem)
        try:
            codegen.project("net", "", problem, plan, values)
        except InputError as error:
            assert "before a bias is added" in error.limit, error
            continue
        break
    assert_right(folder, problem, plan, 0, *SANITIZED, values=values)


def _given(random: Random) -> tuple[Problem, QuantisedNetwork]:
    machine = {"memory_bytes": AMPLE, "element_bytes": random.choice([1, 1, 2, 3, 4]), "sum_bytes": 8}
    machine |= {"double_buffering": random.random() < 0.5}
    while True:
        layers = {"layers": tables(random, ("relu",))}
        try:
            problem = Problem.model_validate({"network": layers, "machine": machine})
        except InputError:
            continue
        break
    network, _ = integers(random, problem.network)
    drawn = np.random.default_rng(random.getrandbits(32))
    images = network.quantise(drawn.normal(0, 2, (3, *problem.network.layers[0].input)))
    labels = drawn.integers(0, 3, 3) if random.random() < 0.5 else None
    return problem, QuantisedNetwork(network, images, labels, "a test")


def found(problem: Problem, method: str) -> Plan:
    """Return the plan of a method."""
    if method != "states":
        plan: Plan = catalogue.heuristic("residency", method).plan(problem)
        return plan
    plan = catalogue.formulation("residency", "states").solve(problem, RunContext()).plan
    assert plan is not None
    return plan
