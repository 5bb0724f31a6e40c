"""Concatenations along rows or columns and copies of heads are read where their sources lie."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest
from conftest import examples
from residency_cases import agrees_with_an_oracle, in_some_memory, optimum, problem_of, survives
from tests.fuzz.campaigns import residency_problems

from tilewright.codegen.addressed import addressed_project
from tilewright.core import catalogue
from tilewright.residency import Problem, objective, simulate
from tilewright.residency.views import reads_whole
from tilewright.spec.errors import InputError

Json = dict[str, Any]
Shape = tuple[int, int, int]


def function(name: str, op: str, inputs: list[str], given: Shape, output: Shape, numbers: int = 0) -> Json:
    """Return a layer without a kind of its own."""
    table = {"name": name, "kind": "function", "op": op, "inputs": inputs, "input": list(given)}
    return table | {"output": list(output), "parameters": numbers}


def conv(name: str, source: str, given: Shape, kernels: int, **rest: Any) -> Json:
    """Return a convolution of 1x1."""
    table = {"name": name, "inputs": [source], "input": list(given), "kernels": kernels, "kernel": [1, 1]}
    return table | rest


TOKENS: list[Json] = [
    {"name": "class", "kind": "input", "input": [4, 1, 1]},
    function("tokens", "concat", ["class", "input"], (4, 1, 1), (4, 1, 16)),
]
"""A class token before fifteen others."""


def names(problem: Problem) -> list[str]:
    """Return the names of what is executed."""
    return [op.name for op in problem.graph.numbers(problem.graph.all & ~problem.graph.begin)]


def test_each_reader_of_a_class_token_and_others_loads_them_from_where_they_lie() -> None:
    """A pool and a softmax read 64 elements each, and give as many; the token's four stay between them."""
    layers = [
        *TOKENS,
        {"name": "p", "kind": "pool", "inputs": ["tokens"], "input": [4, 1, 16], "kernel": [1, 1]},
        {"name": "s", "kind": "map", "op": "softmax", "inputs": ["tokens"], "input": [4, 1, 16]},
    ]
    problem = problem_of({"layers": layers, "input": [4, 1, 15]}, 12, limits={"most_operations": 1})
    assert names(problem) == ["p", "s"]
    plan = optimum(problem)
    assert objective(problem, plan) == 4 + 2 * 60 + 2 * 64
    report = simulate(problem, plan)
    assert report.loaded["class"].tolist() == [4, 0] and report.loaded["input"].tolist() == [60, 60]


def test_a_part_that_is_computed_is_kept_as_its_own_tensor() -> None:
    """The tokens are computed, kept, and read by two steps: nothing but what must be moved is moved."""
    layers = [
        {"name": "class", "kind": "input", "input": [4, 1, 1]},
        conv("patches", "input", (2, 1, 15), 4),
        function("tokens", "concat", ["class", "patches"], (4, 1, 1), (4, 1, 16)),
        function("a", "mixed", ["tokens"], (4, 1, 16), (2, 1, 1)),
        function("b", "mixed", ["tokens", "a"], (4, 1, 16), (2, 1, 1)),
    ]
    problem = problem_of({"layers": layers, "input": [2, 1, 15]}, 100, limits={"most_operations": 1})
    assert names(problem) == ["patches", "a", "b"]
    plan = optimum(problem)
    assert objective(problem, plan) == problem.graph.compulsory == 30 + 8 + 4 + 2
    assert any("patches" in step.resident for step in plan.steps)


def test_heads_that_share_keys_read_them_once() -> None:
    """Two heads of keys for four of queries: the product has the two on chip, and one query."""
    layers = [
        {"name": "q", "kind": "input", "input": [8, 1, 6]},
        function("four", "expand", ["input"], (4, 1, 6), (8, 1, 6)),
        {"name": "scores", "kind": "matmul", "inputs": ["q", "four"], "input": [8, 1, 6], "groups": 4}
        | {"output": [24, 1, 6], "depth": 2},
    ]
    problem = problem_of({"layers": layers, "input": [4, 1, 6]}, 8 + 24 + 24)
    assert names(problem) == ["scores"]
    assert objective(problem, optimum(problem)) == 48 + 24 + 144
    with pytest.raises(InputError, match=r"operation scores .* 1 bytes"):
        problem_of({"layers": layers, "input": [4, 1, 6]}, 8 + 24 + 23)


def test_what_cannot_be_read_in_parts_is_an_operation() -> None:
    """An output of the network, what convolutions and windows of copies read, and numbers of the file."""
    tokens = [4, 1, 16]
    pool = {"name": "p", "kind": "pool", "inputs": ["t"], "input": tokens, "kernel": [1, 1]}
    fixed = function("t", "concat", ["input"], (4, 1, 15), (4, 1, 16), 4)
    whole = function("f", "mixed", ["t"], (4, 1, 16), (1, 1, 1))
    copies = function("t", "expand", ["input"], (4, 1, 15), (4, 1, 15))
    short = {**pool, "input": [4, 1, 15]}
    for layers, left in (
        ([*TOKENS], ["tokens"]),
        ([*TOKENS, conv("c", "tokens", (4, 1, 16), 2)], ["tokens", "c"]),
        ([fixed, pool], ["t", "p"]),
        ([{**fixed, "numbers_at": 1}, pool], ["p"]),
        ([fixed, whole], ["f"]),
        ([copies, short], ["t", "p"]),
        ([*TOKENS, {**pool, "inputs": ["tokens"], "stride": [1, 2]}], ["tokens", "p"]),
    ):
        problem = problem_of({"layers": layers, "input": [4, 1, 15]}, 200)
        assert names(problem) == left
        optimum(problem)


def test_there_is_no_c_for_parts() -> None:
    pool = {"name": "p", "kind": "pool", "inputs": ["tokens"], "input": [4, 1, 16], "kernel": [1, 1]}
    problem = problem_of({"layers": [*TOKENS, pool], "input": [4, 1, 15]}, 200)
    with pytest.raises(InputError, match=r"no C .* parts"):
        addressed_project(problem, optimum(problem), 0, "tokens", "")


class Drawn:
    """A network at random, whose tensors are joined, copied, and read by windows and as a whole."""

    def __init__(self, rng: random.Random, windows: bool) -> None:
        self.rng, self.windows = rng, windows
        channels, length = rng.randint(1, 2), rng.randint(1, 3)
        first: Shape = (
            (channels, 1, length) if rng.random() < 0.7 else (channels, length, rng.choice([1, 1, 2]))
        )
        self.line = 1 if first[2] == 1 else 2
        self.shapes: dict[str, Shape] = {"input": first}
        self.layers: list[Json] = []

    def add(self, table: Json, shape: Shape) -> None:
        """Add a layer, which gives a shape."""
        self.layers.append(table)
        self.shapes[table["name"]] = shape

    def join(self, name: str) -> None:
        """Add a concatenation, perhaps with numbers of the file."""
        axis = self.rng.choice(
            [self.line, self.line, self.line, self.line if self.windows else 3 - self.line]
        )
        source = self.rng.choice([*self.shapes][-3:])
        shape = self.shapes[source]
        alike = [n for n, s in self.shapes.items() if all(s[i] == shape[i] for i in range(3) if i != axis)]
        parts = self.rng.sample(alike, min(len(alike), self.rng.choice([1, 2, 2, 2, 3])))
        numbers = int(len(parts) == 1 or self.rng.random() < 0.25)
        output = list(shape)
        output[axis] = sum(self.shapes[part][axis] for part in parts) + numbers
        count = numbers * output[0] * output[3 - axis]
        if prod(output) > 24:
            return
        joined = (output[0], output[1], output[2])
        table = function(name, "concat", parts, self.shapes[parts[0]], joined, count)
        if count and (self.windows or self.rng.random() < 0.5):
            table["numbers_at"] = self.rng.randint(0, len(parts))
        self.add(table, joined)

    def copy(self, name: str) -> None:
        """Add copies of a tensor."""
        source = self.rng.choice([*self.shapes][-3:])
        shape = self.shapes[source]
        times = [self.rng.choice([1, 1, 2]) for _ in range(3)]
        channels, height, width = (size * many for size, many in zip(shape, times, strict=True))
        if prod((channels, height, width)) <= 24:
            output = (channels, height, width)
            self.add(function(name, "expand", [source], shape, output), output)

    def whole(self, name: str) -> None:
        """Add a function that needs all of what it reads."""
        names = self.rng.sample([*self.shapes][-3:], min(len(self.shapes), self.rng.choice([1, 1, 2]), 3))
        given = self.shapes[names[0]]
        output = (self.rng.randint(1, 2), 1, self.rng.randint(1, 3))
        self.add(function(name, "mixed", names, given, output, self.rng.choice([0, 0, 3])), output)

    def window(self, name: str) -> None:
        """Add an operation that goes over windows."""
        rng, source = self.rng, self.rng.choice([*self.shapes][-2:])
        shape, kind = self.shapes[source], rng.choice("cdppmaa")
        alike = [n for n, s in self.shapes.items() if s == shape and n != source]
        if kind == "c" and self.windows and rng.random() < 0.7:
            kind = "d"  # others read a copy
        if kind == "a" and alike:
            read = rng.sample([source, rng.choice(alike)], 2)
            table = {"name": name, "kind": rng.choice(["add", "mul"]), "inputs": read, "input": list(shape)}
            self.add(table, shape)
            return
        if kind == "m":
            table = {"name": name, "kind": "map", "op": "softmax", "inputs": [source], "input": list(shape)}
            self.add(table, shape)
            return
        kernel, stride, pads, plane = [], [], list[int](), []
        for size in shape[1:]:
            extent = rng.choice([each for each in (1, 1, 2, 3) if each <= size])
            pad = [rng.randrange(extent) for _ in range(2)]
            kernel.append(extent)
            pads += pad
            stride.append(rng.choice([1, 1, 1, 2]))
            plane.append((size + sum(pad) - extent) // stride[-1] + 1)
        out = shape[0]
        table = {"name": name, "inputs": [source], "input": list(shape)}
        table |= {"kernel": kernel, "stride": stride, "padding": pads}
        if kind == "p":
            table |= {"kind": "pool", "op": rng.choice(["max", "average"])}
        elif kind == "d":
            table |= {"kernels": out, "groups": out}
        else:
            out = table["kernels"] = rng.randint(1, 3)
        self.add(table, (out, plane[0], plane[1]))


def drawn(rng: random.Random, windows: bool) -> Problem:
    """Return a problem, in whose network something is read in parts or copied.

    Parameters
    ----------
    windows
        Whether windows go over some of that.
    """
    while True:
        net = Drawn(rng, windows)
        kinds = [net.window] if windows else [net.copy, net.whole, net.window, net.window]
        for number in range(rng.randint(2, 6)):
            rng.choice([net.join, *kinds])(f"l{number}")
        if not net.layers:
            continue
        network = {"layers": net.layers, "input": list(net.shapes["input"])}
        try:
            problem = problem_of(network, 2**20)
        except InputError:
            continue
        graph = problem.graph
        views = [operation.op for operation in graph.operations if operation.op.has_views]
        if windows:
            views = [op for op in views if not reads_whole(op)]
        if len(graph.operations) < 6 and views:
            return in_some_memory(rng, problem)


@pytest.mark.by_day(3)
@pytest.mark.parametrize("windows", [False, True])
@pytest.mark.parametrize("seed", range(examples(120)))
def test_the_search_agrees_with_an_oracle_apart(seed: int, windows: bool) -> None:
    rng = random.Random(f"views {seed}")
    agrees_with_an_oracle(rng, drawn(rng, windows))


UNUSED = {
    "layers": [
        {"name": "a", "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]},
        {"name": "j", "kind": "concat", "inputs": ["a", "input"], "input": [2, 2, 2]},
        {"name": "s", "kind": "slice", "inputs": ["j"], "input": [2, 2, 2], "first": [1, 0, 0],
         "output": [1, 2, 2]},
        {"name": "b", "inputs": ["s"], "input": [1, 2, 2], "kernels": 1, "kernel": [1, 1]},
    ]
}  # fmt: skip
"""Of what `a` computes, the slice leaves out all."""


@pytest.mark.parametrize(
    "changes",
    [{}, {"limits": {"executions": 2}}, {"limits": {"frames": "many"}}]
    + [{"objective": {"minimise": each}} for each in ("memory", "cycles", "energy")],
)
def test_what_slices_leave_out_need_not_be_anywhere(changes: dict[str, Any]) -> None:
    problem = problem_of(UNUSED, 20)
    assert objective(problem, optimum(problem)) == 10  # input, output, and a weight each
    assert sum(problem.layer_by_layer.values()) == 10 + 4
    for name in catalogue.heuristics("residency"):
        survives(problem, catalogue.heuristic("residency", name).plan(problem))
    residency_problems.compared(random.Random(0), problem.with_(**changes))


def test_values_of_a_state_and_new_ones_are_flattened() -> None:
    """As a streaming network does it, which keeps all of a concatenation but the oldest part."""
    state: Json = {"name": "state", "kind": "input", "input": [3, 1, 4]}
    turned: Json = {"name": "turned", "kind": "reshape", "op": "reshape", "input": [4, 1, 1]}
    joined: Json = {"name": "joined", "kind": "concat", "inputs": ["state", "turned"], "input": [4, 1, 4]}
    later: Json = {"name": "later", "kind": "slice", "input": [4, 1, 4], "first": [1, 0, 0]}
    flat: Json = {"name": "flat", "kind": "reshape", "op": "reshape", "inputs": ["joined"]}
    layers = [
        conv("first", "input", (2, 1, 1), 4),
        turned | {"output": [1, 1, 4]},
        state,
        joined,
        later | {"output": [3, 1, 4]},
        flat | {"input": [4, 1, 4], "output": [16, 1, 1]},
        conv("last", "flat", (16, 1, 1), 2),
    ]
    problem = problem_of({"layers": layers}, 400)
    survives(problem, optimum(problem))
