"""Residency plans of blocks of today's networks as C in floating point, beside onnxruntime."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import examples, nightly, refused
from residency_in_c import SANITIZED, Built, any_plan
from test_addressed_floats import of_file, project, values
from tests.importing.blocks import BLOCKS, Block, llama, save_block

import tilewright as tw
from tilewright import codegen
from tilewright.codegen.addressed import is_in_floats, numbers_of
from tilewright.importing.assembly import Changes, assemble
from tilewright.importing.training import read_floats
from tilewright.residency import Problem

Floats = Any


def drawn(session: Any, seed: int = 0) -> dict[str, Floats]:
    """Return inputs of a file, drawn as those of the project."""
    rng = np.random.default_rng(seed)
    return {each.name: rng.standard_normal(each.shape).astype(np.float32) for each in session.get_inputs()}


def assert_as_onnxruntime(file: Path, folder: Path, problem: Problem) -> None:
    """Each output of the file is one of the program's, whose dimensions may have other places."""
    session = pytest.importorskip("onnxruntime").InferenceSession(str(file))
    sizes = [each.size for each in problem.graph.tensors if each.leaves]
    found = np.split(values(folder, "output.bin"), np.cumsum(sizes)[:-1])
    for expected in session.run(None, drawn(session)):
        orders = permutations(range(expected.ndim))
        same = [
            place
            for order in orders
            for place, each in enumerate(found)
            if each.size == expected.size and _close(each, expected.transpose(order).ravel())
        ]
        assert same
        found.pop(same[0])


def _close(found: Floats, expected: Floats) -> bool:
    return bool(np.abs(found - expected).max() <= 1e-4 * np.abs(expected).max())


def emitted(folder: Path, write: Callable[..., Sequence[str]], memory: int, *where: str) -> Built:
    """Plan, emit and run a block; its outputs are those of onnxruntime."""
    instance = of_file(folder, write, memory, *where)
    plan = tw.solve(instance, "states", time_limit=20).plan
    built = project(folder / "c", instance.problem, plan, read_floats(folder / "net.onnx"))
    assert_as_onnxruntime(folder / "net.onnx", folder / "c", instance.problem)
    return built


def prefill(b: Block) -> list[str]:
    """Rotary positions, and keys and values that heads share, behind a causal mask."""
    return llama(b, 5, 0, heads=4, deep=4, hidden=6)


def decode(b: Block) -> list[str]:
    """One row, whose key and value join those of a cache."""
    return llama(b, 1, 6, heads=4, deep=4, hidden=6)


def of_one_head(b: Block) -> list[str]:
    """Numbers of places multiply halves that are concatenated, as all heads share one of keys."""
    return llama(b, 5, 0, heads=2, deep=4, hidden=6)


def beside(b: Block) -> list[str]:
    """Numbers of places multiply convolutions that are concatenated, and some channels of both."""
    x = b.image_input(1, 3, 4, 5)
    y = b.concat([b.conv(x, 2), b.conv(x, 4)], 1)
    part = b.slice(y, 1, 1, 5)
    return [
        b.node("Mul", [y, b.matrix(6, 4, 5)], b.shapes[y]),
        b.node("Add", [b.unary("Relu", part), b.matrix(4, 5)], b.shapes[part]),
    ]


def excited(b: Block) -> list[str]:
    """Gates of channels, made of sigmoids alone."""
    x = b.image_input(1, 4, 5, 6)
    y = b.silu(b.conv(x, 8, 3, groups=2))
    gate = b.conv(b.hardswish(b.conv(b.mean_of_plane(y), 3)), 8)
    return [b.pair("Add", b.conv(b.pair("Mul", y, b.unary("Sigmoid", gate)), 4), x)]


def shuffled(b: Block) -> list[str]:
    """Some channels of a map are read alone, and others are shuffled before a convolution."""
    x = b.image_input(1, 8, 4, 3)
    y = b.unary("Relu", b.conv(b.slice(x, 1, 4, 8), 4, 3))
    y = b.concat([b.slice(x, 1, 0, 4), y], 1)
    y = b.reshape(b.transpose(b.reshape(y, 1, 2, 4, 4, 3), 0, 2, 1, 3, 4), 1, 8, 4, 3)
    return [b.unary("Clip", b.conv(y, 5))]


def enlarged(b: Block) -> list[str]:
    """Copies of pixels, maps side by side as rows, a softmax along rows, sigmoids of both."""
    small, large = b.image_input(1, 4, 2, 3), b.image_input(1, 3, 4, 6)
    both = b.concat([b.upsample(b.conv(small, 2)), large], 1)
    maps = [b.conv(both, 6, 3), b.conv(small, 6)]
    rows = b.concat([b.tokens(each) for each in maps], 1)
    share = b.unary("Softmax", b.reshape(rows, 1, 30, 2, 3), axis=-1)
    box = b.node("MatMul", [share, b.constant(np.arange(3.0)[:, None])], (1, 30, 2, 1))
    return [b.reshape(box, 1, 30, 2), b.unary("Sigmoid", rows)]


def twice(b: Block) -> list[str]:
    """Transposed convolutions, with and without what they are concatenated with."""
    x = b.image_input(1, 3, 4, 4)
    y = b.transposed_conv(b.maxpool(x), 5)
    return [b.conv(b.concat([x, y], 1), 2, 3), b.conv(b.transposed_conv(y, 2), 2)]


def of_patches(b: Block) -> list[str]:
    """Places of patches attend to their equals: matrices whose rows are no pixels."""
    y = b.conv(b.image_input(1, 3, 4, 6), 6)
    y = b.reshape(b.transpose(b.reshape(y, 1, 6, 2, 2, 3, 2), 0, 3, 5, 2, 4, 1), 4, 6, 6)
    inner = b.layernorm(y)
    q, k, v = (b.reshape(b.linear(inner, 6), 4, 6, 2, 3) for _ in range(3))
    q, k, v = (b.transpose(each, 0, 2, 1, 3) for each in (q, k, v))
    scores = b.node("MatMul", [q, b.transpose(k, 0, 1, 3, 2)], (4, 2, 6, 6))
    weights = b.unary("Softmax", scores, axis=-1)
    mixed = b.transpose(b.node("MatMul", [weights, v], (4, 2, 6, 3)), 0, 2, 1, 3)
    y = b.pair("Add", y, b.linear(b.reshape(mixed, 4, 6, 6), 6))
    y = b.transpose(b.reshape(y, 1, 2, 2, 2, 3, 6), 0, 5, 3, 1, 4, 2)
    y = b.reshape(y, 1, 6, 4, 6)
    return [b.conv(y, 3, 3)]


def stepped(b: Block) -> list[str]:
    """Normalised groups of channels, a number for each channel added to all pixels, and another text."""
    x, step, text = b.image_input(1, 6, 3, 4), b.input(1, 5), b.input(1, 4, 6)
    y = b.conv(b.silu(b.groupnorm(x, 2)), 6, 3)
    y = b.pair("Add", y, b.reshape(b.linear(b.silu(step), 6), 1, 6, 1, 1))
    t = b.tokens(b.groupnorm(y, 3))
    t = b.pair("Add", t, b.attention(b.layernorm(t), 2, text))
    return [b.pair("Add", b.image(t, 3, 4), y)]


def written_out(b: Block) -> list[str]:
    """A layer normalisation of single operators, and numbers of each place, added and multiplied."""
    x = b.input(1, 5, 6)
    mean = b.node("ReduceMean", [x], (1, 5, 1), axes=[-1], keepdims=1)
    apart = b.pair("Sub", x, mean)
    square = b.node("ReduceMean", [b.with_number("Pow", apart, 2)], (1, 5, 1), axes=[-1], keepdims=1)
    y = b.pair("Div", apart, b.unary("Sqrt", b.with_number("Add", square, 1e-5)))
    y = b.node("Add", [y, b.matrix(5, 6)], b.shapes[y])
    y = b.node("Mul", [b.linear(y, 8), b.matrix(5, 8)], (1, 5, 8))
    most = b.node("ReduceMax", [y], (1, 5, 1), axes=[-1], keepdims=1)
    y = b.pair("Mul", b.unary("Exp", b.pair("Sub", y, most)), b.unary("Abs", y))
    return [b.linear(y, 3)]


def with_class(b: Block) -> list[str]:
    """A token of the file stands before the others, and all get positions."""
    x = b.tokens(b.conv(b.image_input(1, 3, 4, 4), 6, stride=2))
    b.shapes[token := b.matrix(1, 1, 6)] = (1, 1, 6)
    x = b.concat([token, x], 1)
    rows = b.shapes[x][1]
    x = b.node("Add", [x, b.matrix(rows, 6)], b.shapes[x])
    x = b.pair("Add", x, b.attention(b.layernorm(x), 2))
    return [b.linear(b.slice(x, 1, 0, 1), 4)]


def pooled(b: Block) -> list[str]:
    """Averages without and with the border, and numbers of channels that no weights can hold."""
    x = b.image_input(1, 4, 5, 6)
    y = b.pair("Add", x, b.by_channel("Add", b.by_channel("Mul", b.unary("LeakyRelu", x))))
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    parts = [
        b.node("AveragePool", [y], (1, 4, 3, 3), **window, count_include_pad=include) for include in (0, 1)
    ]
    return [b.by_channel("Mul", b.pair("Mul", *map(b.hardswish, parts)))]


SMALL = (
    prefill, decode, of_one_head, beside, excited, shuffled, enlarged, twice, of_patches, stepped,
    written_out, with_class, pooled,
)  # fmt: skip


@pytest.mark.by_day(4)
@pytest.mark.parametrize("write", SMALL)
@pytest.mark.parametrize("seed", range(examples(40, 1)))
def test_any_plan_of_a_small_block_is_what_onnxruntime_computes(
    tmp_path: Path, write: Callable[..., Sequence[str]], seed: int
) -> None:
    problem = of_file(tmp_path, write, 100_000).problem
    plan = any_plan(random.Random(seed), problem)
    project(tmp_path / "c", problem, plan, read_floats(tmp_path / "net.onnx"))
    assert_as_onnxruntime(tmp_path / "net.onnx", tmp_path / "c", problem)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("write", "memory"), [(decode, 900), (prefill, 2_000), (excited, 1_500)])
def test_small_blocks_run_in_little_memory(
    tmp_path: Path, write: Callable[..., Sequence[str]], memory: int
) -> None:
    emitted(tmp_path, write, memory)


AMPLE = {**dict.fromkeys(BLOCKS, 262_144), "mobilevit": 327_744}
"""Bytes of memory: mobilevit does not run in 256 KB."""

LEAST = {"decode": 1_024, "prefill": 1_152}
"""The least memory of decoders, whose products are in tiles."""


@nightly
@pytest.mark.parametrize(("block", "memory"), [*AMPLE.items(), *LEAST.items()])
def test_blocks_are_what_onnxruntime_computes(tmp_path: Path, block: str, memory: int) -> None:
    file, machine = save_block(block, tmp_path / "net.onnx"), tmp_path / "machine.toml"
    machine.write_text(f"memory_bytes = {memory}\nelement_bytes = 4\nsum_bytes = 4\n", encoding="utf-8")
    instance = assemble(file, Changes(machine=str(machine), room="residency"))
    plan = tw.solve(instance, "states", time_limit=60).plan
    project(tmp_path / "c", instance.problem, plan, read_floats(file))
    assert_as_onnxruntime(file, tmp_path / "c", instance.problem)


@nightly
def test_keys_of_a_causal_mask_pass_by(tmp_path: Path) -> None:
    """Later keys are not seen."""
    found = emitted(tmp_path, prefill, 2_000, "keys('matmul') == 2", "pixels('matmul') >= 3")
    told = found.changed("engine.c", r"MIN\(r->terms.end, p \+ o->causal\)", "r->terms.end", *SANITIZED)
    assert "values of outputs that are wrong\t0" not in told


def moved(b: Block) -> list[str]:
    """Shuffled channels are added to others."""
    x = b.image_input(1, 4, 3, 3)
    y = b.reshape(b.transpose(b.reshape(x, 1, 2, 2, 3, 3), 0, 2, 1, 3, 4), 1, 4, 3, 3)
    return [b.pair("Add", b.unary("Sigmoid", b.conv(y, 4)), y)]


def interpolated(b: Block) -> list[str]:
    x = b.image_input(1, 4, 3, 3)
    y = b.node("Resize", [x, "", b.constant([1, 1, 2, 2])], (1, 4, 6, 6), mode="linear")
    return [b.unary("Sigmoid", b.conv(y, 2))]


@pytest.mark.parametrize(
    ("write", "value", "words"),
    [
        (moved, "transpose", "change of the order of values"),
        (interpolated, "resize_linear", "no C for it in floating point"),
    ],
)
def test_what_there_is_no_c_for_is_refused(
    tmp_path: Path, write: Callable[..., Sequence[str]], value: str, words: str
) -> None:
    problem = of_file(tmp_path, write, 200_000).problem
    place = next(n for n, layer in enumerate(problem.network.layers) if getattr(layer, "op", "") == value)
    with refused(f"network.layers[{place}]", value, words):
        numbers_of(problem, given=read_floats(tmp_path / "net.onnx"))


def test_convolutions_are_in_integers_if_nothing_else_is_asked_for(tmp_path: Path) -> None:
    def plain(b: Block) -> list[str]:
        return [b.unary("Relu", b.conv(b.maxpool(b.image_input(1, 2, 4, 4)), 3, 3))]

    for write in (beside, excited, shuffled, twice):
        assert is_in_floats(of_file(tmp_path, write, 100_000).problem)
    problem = of_file(tmp_path, plain, 100_000).problem
    assert not is_in_floats(problem)
    plan = any_plan(random.Random(0), problem)
    for floats in (False, True):
        machine = codegen.project("net", "", problem, plan, floats=floats)["src/machine.h"]
        assert f"#define FLOATS {int(floats)}\n".encode() in machine
