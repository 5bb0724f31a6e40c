"""Blocks of today's networks: what they are said to be, counted from the file alone, in both exports."""

from __future__ import annotations

from pathlib import Path

import onnx_execution
import pytest
from blocks import BLOCKS, Block, counts, llama, save_block
from test_networks_as_they_are import anonymous

import tilewright
from tilewright.importing import network
from tilewright.residency import simulate
from tilewright.spec.access import RECURRENT
from tilewright.spec.coarsening import coarse
from tilewright.spec.network import macs_of

MEMORY = "memory_bytes = 1048576\nelement_bytes = 1\n"

MORE = {"decode": 2 * 128, "unet": 3 * (16 + 8)}
"""Values that we count beyond those of the file: the factors of a normalisation, which matrices of a single
row do not take over, and the bias of a transposed convolution, once for each of the four outputs between
inputs."""


@pytest.fixture
def exports(block: str, tmp_path: Path) -> tuple[Path, Path]:
    """Return the files of a block: as PyTorch exports it, and as TensorFlow."""
    first, last = (
        save_block(block, tmp_path / f"{name}.onnx", channels_last=name == "tensorflow")
        for name in ("pytorch", "tensorflow")
    )
    return first, last


@pytest.mark.parametrize("block", BLOCKS)
def test_macs_and_bytes_are_those_of_the_file(block: str, exports: tuple[Path, Path], tmp_path: Path) -> None:
    machine = tmp_path / "memory.toml"
    machine.write_text(MEMORY, encoding="utf-8")
    for file in exports:
        macs, values = counts(file)
        layers = coarse(network(file)).layers
        multiplied = sum(
            macs_of(layer)
            for layer in layers
            if layer.kind in ("conv", "fc", "matmul") or getattr(layer, "op", "") in RECURRENT
        )
        problem = tilewright.read(file, machine=machine, room="residency").problem
        assert (multiplied, problem.graph.compulsory) == (macs, values + MORE.get(block, 0))


@pytest.mark.parametrize("block", BLOCKS)
def test_both_exports_are_one_network(exports: tuple[Path, Path]) -> None:
    first, last = (anonymous(coarse(network(file))) for file in exports)
    assert first == last


@pytest.mark.parametrize(("block", "least"), [("prefill", 288), ("decode", 256)])
def test_decoders_run_in_little_memory(block: str, least: int, tmp_path: Path) -> None:
    machine = tmp_path / "memory.toml"
    machine.write_text(MEMORY, encoding="utf-8")
    problem = tilewright.read(
        save_block(block, tmp_path / "block.onnx"), machine=machine, room="residency"
    ).problem
    assert problem.least_memory == least
    (attention,) = problem.graph.attentions
    assert attention.groups == 4 and problem.grounds is None


@pytest.mark.parametrize("past", [0, 3])
def test_a_table_multiplies_the_only_head_of_keys_in_one_piece(past: int, tmp_path: Path) -> None:
    """Halves of it change places: they are joined before the sines meet them."""
    machine, block = tmp_path / "memory.toml", Block()
    machine.write_text(MEMORY, encoding="utf-8")
    file = block.save(tmp_path / "block.onnx", *llama(block, 6, past, heads=2, deep=4, hidden=6))
    problem = tilewright.read(file, machine=machine, room="residency").problem
    assert problem.graph.compulsory == counts(file)[1]
    *_, cosines, sines = (op for op in problem.graph.ops.ops if op.name.startswith("fused"))
    for op in (cosines, sines):
        shapes = [problem.graph.ops.operand_shape(operand) for operand in op.operands]
        assert shapes == [op.spec.output] * 2 == [(4, 6, 1)] * 2
    problem = problem.with_(machine={"memory_bytes": problem.least_memory})
    plan = tilewright.solve(problem, "layer_by_layer").plan
    assert simulate(problem, plan, numeric=True).numeric is True


@pytest.mark.by_day(4)
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("block", [name for name in BLOCKS if name != "keywords"])  # whose time stands first
def test_numbers_are_those_of_onnxruntime(exports: tuple[Path, Path]) -> None:
    for file in exports:
        onnx_execution.check_numbers(file)
