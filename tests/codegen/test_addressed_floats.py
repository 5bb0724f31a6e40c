"""Residency plans with products and softmax as C in floating point, beside numpy and onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, nightly, refused
from residency_in_c import SANITIZED, Built, any_network, any_plan
from tests.fuzz import networks
from tests.importing.blocks import Block

import tilewright as tw
from tilewright import codegen
from tilewright.codegen.addressed import numbers_of
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.training import read_floats
from tilewright.residency import Plan, Problem, simulate
from tilewright.run.instance import Instance

Floats = Any

Write = Callable[..., Sequence[str]]
"""Writes a block and returns its outputs."""


def built(folder: Path, instance: Instance, given: Any = None) -> Built:
    """Plan, emit and run a network."""
    return project(folder, instance.problem, tw.solve(instance, "states", time_limit=20).plan, given)


def project(folder: Path, problem: Problem, plan: Plan, given: Any = None) -> Built:
    """Emit a plan, run it under sanitizers; it moves what is simulated, in as many bytes as planned."""
    files = codegen.project("net", "", problem, plan, given, floats=True)
    measures = simulate(problem, plan).measures
    found = Built(folder, files, *SANITIZED)
    rows = [*measures.steps_of_plan.values(), measures, measures]
    assert found.moved == [(row.loaded_bytes, row.saved_bytes) for row in rows]
    assert any(step.double_buffering for step in plan.steps) or (
        f"#define MEMORY_BYTES {measures.memory_bytes}\n".encode() in files["src/machine.h"]
    )
    return found


def values(folder: Path, name: str, width: int = 4) -> Floats:
    """Return the floats of a file of the project."""
    return np.fromfile(folder / "data" / name, f"<f{width}").astype(np.float64)


def assert_close(found: Floats, expected: Floats, share: float = 1e-4) -> None:
    assert found.shape == expected.shape
    assert np.abs(found - expected).max() <= share * np.abs(expected).max()


def attend(folder: Path, positions: int, width: int, size: int, heads: int = 1) -> Floats:
    """Return the context that a head has of a project's input and weights."""
    tokens = values(folder, "input.bin", size).reshape(positions, width)
    weights = values(folder, "weights.bin", size).reshape(3, width, width)
    context = []
    deep = width // heads
    for head in range(heads):
        own = slice(head * deep, (head + 1) * deep)
        query, key, value = ((tokens @ each.T)[:, own] for each in weights)
        powers = np.exp(query @ key.T - (query @ key.T).max(axis=1, keepdims=True))
        context.append(powers / powers.sum(axis=1, keepdims=True) @ value)
    return np.concatenate(context, axis=1)


APART = ("not blocks('matmul')", "not blocks('matmul_2')")
"""That second operands are on chip as a whole."""


@pytest.mark.parametrize(
    ("positions", "width", "size", "memory", "keys"),
    [
        (24, 8, 4, 800, 4),
        pytest.param(256, 64, 8, 600_000, None, marks=nightly),
        pytest.param(256, 64, 4, 20_000, 4, marks=nightly),
    ],
)
def test_a_head_of_attention_is_what_numpy_computes(
    tmp_path: Path, positions: int, width: int, size: int, memory: int, keys: int | None
) -> None:
    """The bundled instance, by day with fewer positions and channels."""
    text = Path("instances/residency/attention.toml").read_text("utf-8")
    smaller = text.replace("256", str(positions)).replace("64", str(width))
    (tmp_path / "attention.toml").write_text(smaller, encoding="utf-8")
    where = ("not blocks('scores')",) if keys is None else (f"keys('scores') == {keys}",)
    fields = (("machine.element_bytes", size), ("machine.memory_bytes", memory))
    instance = assemble(tmp_path / "attention.toml", Changes(values=fields, where=where))
    built(tmp_path / "c", instance)
    context = values(tmp_path / "c", "output.bin", size).reshape(positions, width)
    assert_close(context, attend(tmp_path / "c", positions, width, size))


def problem_of(memory: int, layers: Sequence[dict[str, Any]], **machine: int) -> Problem:
    """Return the problem of a network with elements of 4 bytes; it may be of a sum of 8."""
    machine = {"memory_bytes": memory, "element_bytes": 4, **machine}
    return Problem.model_validate({"network": {"layers": layers}, "machine": machine})


def masked(positions: int, width: int) -> list[dict[str, Any]]:
    """Return a head whose scores are scaled, and to which a mask is added that is an input of its own."""
    tokens, scores = [width, 1, positions], [positions, 1, positions]
    projections = [
        {"name": name, "inputs": ["input"], "input": tokens, "kernels": width, "kernel": [1, 1]}
        for name in ("query", "key", "value")
    ]
    return [
        *projections,
        {"name": "mask", "kind": "input", "input": scores},
        {"name": "scores", "kind": "matmul", "inputs": ["query", "key"], "input": tokens}
        | {"output": scores, "depth": width, "transposed": False},
        {"name": "masked", "kind": "add", "inputs": ["scores", "mask"], "input": scores},
        {"name": "softmax", "kind": "function", "op": "softmax", "input": scores, "output": scores}
        | {"along": ["channels"]},
        {"name": "context", "kind": "matmul", "inputs": ["softmax", "value"], "input": scores}
        | {"output": tokens, "depth": positions, "transposed": True},
    ]


@pytest.mark.parametrize(("memory", "sum_bytes"), [(700, 8), (1_200, 4)])
def test_a_mask_is_added_to_the_keys_that_pass_by(tmp_path: Path, memory: int, sum_bytes: int) -> None:
    problem = problem_of(memory, masked(11, 4), sum_bytes=sum_bytes)
    plan = tw.solve(problem, "states", time_limit=20).plan
    assert any(step.keys for step in plan.steps)
    project(tmp_path, problem, plan)
    given = values(tmp_path, "input.bin")
    tokens, mask = given[:44].reshape(11, 4), given[44:].reshape(11, 11)
    query, key, value = (tokens @ each.T for each in values(tmp_path, "weights.bin").reshape(3, 4, 4))
    powers = np.exp(query @ key.T + mask)
    context = powers / powers.sum(axis=1, keepdims=True) @ value
    assert_close(values(tmp_path, "output.bin").reshape(11, 4), context)


@pytest.mark.parametrize(
    ("groups", "memory", "transposed"), [(1, 100, True), (2, 300, False), (3, 2_000, True)]
)
def test_second_operands_are_loaded_in_blocks(
    tmp_path: Path, groups: int, memory: int, transposed: bool
) -> None:
    depth, columns, rows = 3, 5, 4
    second = [groups * columns, 1, depth] if transposed else [groups * depth, 1, columns]
    first = {"name": "product", "kind": "matmul", "inputs": ["rows", "other"]}
    layers = [
        {
            "name": "rows",
            "inputs": ["input"],
            "kind": "map",
            "op": "relu",
            "input": [groups * depth, 1, rows],
        },
        {"name": "other", "kind": "input", "input": second},
        {**first, "input": [groups * depth, 1, rows], "output": [groups * columns, 1, rows]}
        | {"groups": groups, "depth": depth, "transposed": transposed},
        {"name": "relu", "kind": "map", "op": "relu", "input": [groups * columns, 1, rows]},
    ]
    problem = problem_of(memory, layers)
    plan = tw.solve(problem, "states", time_limit=20).plan
    assert memory > 1_000 or any(step.blocks for step in plan.steps)
    project(tmp_path, problem, plan)
    given = values(tmp_path, "input.bin")
    cut = rows * groups * depth
    left = np.maximum(given[:cut], 0).reshape(rows, groups, depth)
    right = given[cut:].reshape(second[2], groups, second[0] // groups)
    words = "rgd,dgc->rgc" if transposed else "rgd,cgd->rgc"
    product = np.maximum(np.einsum(words, left, right), 0)
    assert_close(values(tmp_path, "output.bin"), product.ravel())


def test_parts_of_matrices_that_are_no_rows_or_columns_are_refused_in_blocks() -> None:
    """Half of a matrix of 3 x 2 is of each tensor."""
    half, second = [1, 1, 3], [1, 1, 6]
    joined = {"name": "other", "kind": "function", "op": "concat", "inputs": ["one", "two"]}
    product = {"name": "p", "kind": "matmul", "inputs": ["rows", "other"], "depth": 3, "transposed": False}
    layers = [
        {"name": "rows", "inputs": ["input"], "kind": "map", "op": "relu", "input": [3, 1, 4]},
        *({"name": name, "kind": "input", "input": half} for name in ("one", "two")),
        joined | {"input": half, "output": second},
        product | {"input": [3, 1, 4], "output": [2, 1, 4]},
    ]
    problem, rng = problem_of(1_000, layers), random.Random(0)
    plans = [any_plan(rng, problem) for _ in range(30)]
    apart = [plan for plan in plans if any("operand of p" in step.addresses for step in plan.steps)]
    for plan in apart:
        with pytest.raises(tw.InputError, match=r"plan\.steps\[\d\] = 'p': .*--where \"not blocks\('p'\)"):
            codegen.project("net", "", problem, plan, floats=True)
    assert 0 < len(apart) < len(plans)
    for plan in (each for each in plans if each not in apart):
        codegen.project("net", "", problem, plan, floats=True)


# Networks in ONNX -----------------------------------------------------------------------------------------


def vit(b: Block, tokens: int = 9, features: int = 12, heads: int = 3, hidden: int = 20) -> list[str]:
    x = b.input(1, tokens, features)
    x = b.pair("Add", x, b.attention(b.layernorm(x), heads))
    return [b.pair("Add", x, b.linear(b.gelu(b.linear(b.layernorm(x), hidden)), features))]


def bert(b: Block, tokens: int = 7, features: int = 8, heads: int = 2, hidden: int = 12) -> list[str]:
    x = b.input(1, tokens, features)
    x = b.layernorm(b.pair("Add", x, b.attention(x, heads)))
    return [b.layernorm(b.pair("Add", x, b.linear(b.silu(b.linear(x, hidden)), features)))]


def gpt(b: Block, tokens: int = 8, features: int = 6, heads: int = 2, hidden: int = 9) -> list[str]:
    """Write queries, keys and values as parts of one projection."""
    x = b.input(1, tokens, features)
    projected = b.linear(b.layernorm(x), 3 * features)
    parts = [b.slice(projected, 2, first * features, (first + 1) * features) for first in range(3)]
    x = b.pair("Add", x, b.linear(b.attend(*(b.heads(part, heads) for part in parts)), features))
    return [b.pair("Add", x, b.linear(b.unary("Relu", b.linear(x, hidden)), features))]


def of_file(folder: Path, write: Write, memory: int, *where: str, element: int = 4, **sizes: int) -> Instance:
    """Return the instance of a block in so much memory."""
    block = Block()
    path = block.save(folder / "net.onnx", *write(block, **sizes))
    machine = folder / "machine.toml"
    machine.write_text(f"memory_bytes = {memory}\nelement_bytes = {element}\n")
    return assemble(path, Changes(machine=str(machine), room="residency", where=where))


def assert_as_onnxruntime(folder: Path, project: Path) -> None:
    """The program's output is what onnxruntime computes of the file and the program's input."""
    session = pytest.importorskip("onnxruntime").InferenceSession(str(folder / "net.onnx"))
    (given,) = session.get_inputs()
    tokens = values(project, "input.bin").astype(np.float32).reshape(given.shape)
    (expected,) = session.run(None, {given.name: tokens})
    assert_close(values(project, "output.bin"), expected.astype(np.float64).ravel())


IN_BLOCKS = ("keys('matmul') == 2",)


@pytest.mark.parametrize(
    ("write", "where"),
    [
        (vit, APART),
        (bert, IN_BLOCKS),
        *[
            pytest.param(*each, marks=nightly)
            for each in ((vit, IN_BLOCKS), (bert, APART), (gpt, APART), (gpt, IN_BLOCKS))
        ],
    ],
)
def test_a_block_of_a_transformer_is_what_onnxruntime_computes(
    tmp_path: Path, write: Write, where: tuple[str, ...]
) -> None:
    instance = of_file(tmp_path, write, 3_000, *where)
    found = built(tmp_path / "c", instance, read_floats(tmp_path / "net.onnx"))
    assert_as_onnxruntime(tmp_path, tmp_path / "c")
    told = {row[0]: row[1] for row in found.lines if len(row) == 2}
    assert float(told["signal to noise beside floating point, dB"]) > 80


@nightly
def test_a_function_that_is_left_out_is_told(tmp_path: Path) -> None:
    instance = of_file(tmp_path, vit, 20_000, "keys('matmul') == 2")
    found = built(tmp_path / "c", instance, read_floats(tmp_path / "net.onnx"))
    for path, before, after in (
        ("network.c", r"erf\(v(\d)\)", r"v\1"),
        ("engine.c", r"exp\(before - most\)", "1"),  # what has been added up is not brought to a new maximum
    ):
        assert "values of outputs that are wrong\t0" not in found.changed(path, before, after, *SANITIZED)


def test_elements_that_hold_no_floats_are_refused(tmp_path: Path) -> None:
    instance = of_file(tmp_path, bert, 20_000, element=2)
    plan = tw.solve(instance, "states").plan
    with refused("machine.element_bytes", 2, "4 or 8 bytes"):
        codegen.project("net", "", instance.problem, plan, read_floats(tmp_path / "net.onnx"))


@nightly
@pytest.mark.parametrize("seed", range(examples(24)))
def test_random_blocks_are_what_onnxruntime_computes(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    heads = rng.randint(1, 3)
    sizes = {"tokens": rng.randint(2, 9), "heads": heads, "features": heads * rng.randint(2, 4)}
    memory = rng.choice([400, 800, 1_600, 3_200, 100_000])
    instance = of_file(tmp_path, rng.choice([vit, bert, gpt]), memory, hidden=rng.randint(2, 9), **sizes)
    if tw.solve(instance, "states", time_limit=20).plan is None:
        pytest.skip("no memory for it")
    built(tmp_path / "c", instance, read_floats(tmp_path / "net.onnx"))
    assert_as_onnxruntime(tmp_path, tmp_path / "c")


@pytest.mark.parametrize("seed", range(examples(200, 2)))
def test_any_plan_of_any_products_is_executed_right(tmp_path: Path, seed: int) -> None:
    """Beside what is computed of whole maps in Python, with any valid steps."""
    rng = random.Random(seed)
    problem = any_products(rng)
    project(tmp_path, problem, any_plan(rng, problem))
    maps = numbers_of(problem, floats=True).maps
    outputs = [maps[each.name] for each in problem.graph.tensors if each.leaves]
    expected = np.hstack([each.transpose(0, 2, 3, 1).reshape(len(each), -1) for each in outputs])
    assert_close(values(tmp_path, "output.bin", problem.machine.element_bytes), expected.ravel())


def any_products(rng: random.Random) -> Problem:
    """Return a problem of a network that there is C for, most with products, with memory for everything."""
    while True:
        size = rng.choice([4, 8])
        machine = {"memory_bytes": 100_000, "element_bytes": size, "sum_bytes": rng.choice([size, 2 * size])}
        machine |= {"double_buffering": rng.random() < 0.5}
        limits = rng.choice([{}, {"frames": "many"}, {"executions": 2}])
        kind = rng.choice(["attention", "products", "products", "convolutions"])
        network = (
            any_network(rng)
            if kind == "convolutions"
            else (networks.Attention if kind == "attention" else networks.Products)(rng).network()
        )
        try:
            problem = Problem.model_validate({"network": network, "machine": machine, "limits": limits})
            numbers_of(problem, floats=True)
        except tw.InputError:
            continue
        return problem
