"""Products in tiles, and softmax and context without the scores, as C in floating point, beside numpy."""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, nightly
from residency_in_c import SANITIZED, Built, any_plan
from test_addressed_floats import assert_close, project, values

import tilewright as tw
from tilewright.residency import Plan, Problem, simulate
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import tiles_of_product

Floats = Any
Json = dict[str, Any]

KINDS = ("product", "softmax and context", "softmax, context and others")
"""Steps in tiles, and others whose keys pass by without the product that gives scores."""


def kinds_of(problem: Problem, plan: Plan) -> set[str]:
    """Return which of these kinds the steps of a plan are of."""
    found = set()
    for step in decode_plan(problem, plan):
        group, shape = step.group, step.choice.shape
        tiles = tiles_of_product(group, shape)
        if tiles is not None:
            found.add(KINDS[tiles.attention is not None])
        elif shape.blocks and any(each.source is not None for each in in_blocks(group).passing(shape.keys)):
            found.add(KINDS[2])
    return found


@dataclass(frozen=True)
class Heads:
    """Attention of heads that may share keys and values, and what it computes.

    Attributes
    ----------
    share
        Heads that share keys and values.
    cached
        Keys, and values, that are an input of their own, before the others; 0 where all are one input.
    beside
        What scores are added to or multiplied with: numbers for each of so many groups of keys, after another
        for all heads; 0 for none.
    causal
        How many more keys than its own number the first row sees; -1 if rows see all.
    rectified
        Whether scores are rectified.
    features
        Channels of a projection of the context; 0 for none.
    """

    heads: int
    share: int
    deep: int
    values: int
    rows: int
    keys: int
    cached: int = 0
    beside: int = 0
    multiplied: bool = False
    causal: int = -1
    rectified: bool = False
    features: int = 0

    def network(self) -> Json:
        """Return the network, whose input has the queries."""
        scores, tokens = [self.heads, self.keys, self.rows], [self.heads * self.deep, 1, self.rows]
        found: list[Json] = []
        key, value = (self._second(found, *each) for each in (("k", self.deep), ("v", self.values)))
        product = {"kind": "matmul", "groups": self.heads}
        found.append({"name": "s", "inputs": ["input", key], "input": tokens, "output": scores, **product}
                     | {"depth": self.deep, "transposed": False})  # fmt: skip
        if self.beside:
            numbers = {"op": "mul" if self.multiplied else "add", "shape": [self.beside, *scores[1:]]}
            count = self.beside * self.keys * self.rows
            found.append({"name": "m", "kind": "map", "op": "fused", "inputs": ["s"], "input": scores}
                         | {"parameters": count, "numbers": numbers})  # fmt: skip
        if self.rectified:
            found.append({"name": "r", "kind": "map", "op": "relu", "input": scores})
        if self.causal >= 0:
            numbers = {"op": "add", "shape": [1, *scores[1:]], "causal": self.causal}
            found.append({"name": "c", "kind": "map", "op": "fused", "input": scores}
                         | {"parameters": self.keys * self.rows, "numbers": numbers})  # fmt: skip
        found.append({"name": "p", "kind": "function", "op": "softmax", "input": scores, "output": scores}
                     | {"along": ["rows"]})  # fmt: skip
        context, flat = [self.heads, self.values, self.rows], [self.heads * self.values, 1, self.rows]
        found.append({"name": "x", "inputs": ["p", value], "input": scores, "output": context, **product}
                     | {"depth": self.keys, "transposed": True})  # fmt: skip
        found.append({"name": "flat", "kind": "reshape", "op": "reshape", "input": context, "output": flat})
        if self.features:
            found.append({"name": "o", "input": flat, "kernels": self.features, "kernel": [1, 1]})
        return {"layers": found, "input": tokens}

    def _second(self, layers: list[Json], name: str, deep: int) -> str:
        """Add keys or values, and return the name of what products read."""
        matrices = self.heads // self.share
        every, new = [matrices * deep, 1, self.keys], [matrices * deep, 1, self.keys - self.cached]
        layers.append({"name": name, "kind": "input", "input": new})
        if self.cached:
            old = [matrices * deep, 1, self.cached]
            layers.append({"name": f"old {name}", "kind": "input", "input": old})
            layers.append({"name": f"all {name}", "kind": "function", "op": "concat", "input": old}
                          | {"inputs": [f"old {name}", name], "output": every})  # fmt: skip
            name = f"all {name}"
        if self.share == 1:
            return name
        shape = [matrices, deep, self.keys]
        layers.append({"name": f"split {name}", "kind": "reshape", "op": "reshape", "inputs": [name]}
                      | {"input": every, "output": shape})  # fmt: skip
        layers.append({"name": f"copies {name}", "kind": "function", "op": "expand", "input": shape}
                      | {"output": [self.heads, *shape[1:]]})  # fmt: skip
        return f"copies {name}"

    def output(self, given: dict[str, Floats], kernels: Floats) -> Floats:
        """Return what numpy computes, shape (channels, rows), of inputs and the weights of the projection."""
        key, value = (self._whole(given, *each) for each in (("k", self.deep), ("v", self.values)))
        scores = np.einsum("hdr,hdk->hkr", given["input"].reshape(self.heads, self.deep, self.rows), key)
        if self.beside:
            beside = given["numbers of m"].reshape(self.beside, self.keys, self.rows)
            beside = np.tile(beside, (self.heads // self.beside, 1, 1))
            scores = scores * beside if self.multiplied else scores + beside
        if self.rectified:
            scores = np.maximum(scores, 0)
        if self.causal >= 0:
            number, row = np.ogrid[: self.keys, : self.rows]
            scores = np.where(number > row + self.causal, -np.inf, scores)
        powers = np.exp(scores - scores.max(axis=1, keepdims=True))
        context = np.einsum("hkr,hvk->hvr", powers / powers.sum(axis=1, keepdims=True), value)
        found = context.reshape(-1, self.rows)
        return kernels.reshape(self.features, -1) @ found if self.features else found

    def _whole(self, given: dict[str, Floats], name: str, deep: int) -> Floats:
        """Return keys or values of all heads, shape (heads, deep, keys)."""
        parts = [given[each] for each in (f"old {name}", name) if each in given]
        matrices = np.concatenate(
            [each.reshape(self.heads // self.share, deep, -1) for each in parts], axis=2
        )
        return matrices.repeat(self.share, axis=0)


def any_heads(rng: random.Random) -> Heads:
    heads = rng.choice([1, 2, 2, 3, 4, 6])
    divisors = [number for number in range(1, heads + 1) if heads % number == 0]
    rows, keys = rng.randint(1, 6), rng.randint(1, 7)
    return Heads(
        heads,
        rng.choice([1, *divisors]),
        *(rng.randint(1, 4) for _ in range(2)),
        rows,
        keys,
        cached=rng.choice([0, 0, rng.randrange(keys)]),
        beside=rng.choice([0, 0, *divisors]),
        multiplied=rng.random() < 0.5,
        causal=keys - rows if keys >= rows and rng.random() < 0.4 else -1,
        rectified=rng.random() < 0.3,
        features=rng.choice([0, 0, 3]),
    )


def problem_of(heads: Heads, memory: int = 100_000, size: int = 4, sums: int = 4, **limits: Any) -> Problem:
    machine = {"memory_bytes": memory, "element_bytes": size, "sum_bytes": sums}
    return Problem.model_validate({"network": heads.network(), "machine": machine, "limits": limits})


def drawn(rng: random.Random, kind: str) -> tuple[Heads, Problem, Plan]:
    """Return attention at random, with a plan of which a step is of a kind."""
    while True:
        heads = any_heads(rng)
        limits = rng.choice([{}, {}, {"executions": 2}])
        size, sums = rng.choice([(4, 4), (4, 8), (8, 8)])
        problem = problem_of(heads, size=size, sums=sums, **limits)
        for _ in range(10):
            plan = any_plan(rng, problem)
            if kind in kinds_of(problem, plan):
                return heads, problem, plan


def assert_right(folder: Path, heads: Heads, problem: Problem, plan: Plan) -> Built:
    """The program computes what numpy does, moves what is planned, and takes what is planned."""
    found = project(folder, problem, plan)
    assert simulate(problem, plan, numeric=True).numeric
    size = problem.machine.element_bytes
    weights = heads.features * heads.heads * heads.values
    kernels, stored = np.split(values(folder, "weights.bin", size), [weights])
    inputs, given = values(folder, "input.bin", size), dict[str, Floats]()
    for tensor in (each for each in problem.graph.tensors if each.given and each.readers):
        if tensor.name.startswith("numbers of"):
            own, stored = np.split(stored, [tensor.size])
        else:
            own, inputs = np.split(inputs, [tensor.size])
        given[tensor.name] = channel_by_channel(own, tensor.shape)
    (output,) = (each for each in problem.graph.tensors if each.leaves)
    computed = channel_by_channel(values(folder, "output.bin", size), output.shape)
    assert_close(computed, heads.output(given, kernels).ravel())
    return found


def channel_by_channel(pixels: Floats, shape: tuple[int, int, int]) -> Floats:
    """Return values that lie pixel by pixel in the order of the file."""
    channels, height, width = shape
    return pixels.reshape(height, width, channels).transpose(2, 0, 1).ravel()


@pytest.mark.parametrize("seed", range(examples(300, 3)))
def test_any_plan_with_a_product_in_tiles_is_what_numpy_computes(tmp_path: Path, seed: int) -> None:
    assert_right(tmp_path, *drawn(random.Random(seed), KINDS[seed % len(KINDS)]))


SMALL = (
    Heads(2, 1, 3, 5, 7, 9, causal=2, features=3),
    Heads(
        6, 2, 3, 3, 5, 7, beside=3
    ),  # of a mask, heads that share keys have rows that do not lie side by side
)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("heads", SMALL)
def test_scores_that_go_to_dram_are_what_numpy_computes(tmp_path: Path, heads: Heads) -> None:
    problem = problem_of(heads, 160)
    plan = tw.solve(problem, "states", time_limit=20).plan
    assert kinds_of(problem, plan) == {*KINDS[:2]}
    assert_right(tmp_path, heads, problem, plan)


@nightly
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (r"r->groups\.begin % groups", "0"),  # where the rows of a mask are that belong to a head
        (r"o->attention \? 2 : 0", "0"),  # room for a maximum and a sum
        (r"begins \? 0 : element\(at\) \* less", "begins ? 0 : element(at)"),
        (r"at_once\(o\) && r->columns\.begin", "0"),  # rows that are there already
    ],
)
def test_tiles_that_are_computed_wrong_are_told(tmp_path: Path, before: str, after: str) -> None:
    problem = problem_of(SMALL[1], 160)
    plan = tw.solve(problem, "states", time_limit=20).plan
    built = assert_right(tmp_path, SMALL[1], problem, plan)
    told = built.changed("engine.c", before, after, *SANITIZED)
    assert "all steps" in told or "runtime error" in told  # it was compiled


@nightly
@pytest.mark.parametrize("seed", range(examples(100)))
def test_attention_in_little_memory_is_what_numpy_computes(tmp_path: Path, seed: int) -> None:
    """With plans of least traffic."""
    rng = random.Random(f"little {seed}")
    while True:
        heads, sums = any_heads(rng), rng.choice([4, 8])
        least = 4 * problem_of(heads, sums=sums).least_memory
        problem = problem_of(heads, rng.randint(least, 3 * least), sums=sums)
        plan = tw.solve(problem, "states", time_limit=60).plan
        if kinds_of(problem, plan):
            break
    assert_right(tmp_path, heads, problem, plan)
