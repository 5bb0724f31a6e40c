"""Folders of images as samples: pixels, labels, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from conftest import tells
from onnx import TensorProto, helper, numpy_helper
from tests import command

from tilewright.importing.images import read_folder
from tilewright.run.instance import read
from tilewright.spec.errors import InputError

Image = pytest.importorskip("PIL.Image")


def save(path: Path, pixels: Any) -> None:
    """Write an image; make the folder for it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels, dtype=np.uint8)).save(path)


def test_pixels_are_those_of_the_files(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    colour, grey = random.integers(0, 256, (4, 6, 3)), random.integers(0, 256, (4, 6))
    save(tmp_path / "b.png", grey)
    save(tmp_path / "a.png", colour)
    (tmp_path / "notes.txt").write_text("passed over")
    found = read_folder(tmp_path, (3, 4, 6), 2)
    assert found.labels is None
    assert (found.pixels[0] == colour.transpose(2, 0, 1)).all()
    assert (found.pixels[1] == np.stack([grey] * 3)).all()
    assert np.allclose(found.samples.inputs, found.pixels / 255, atol=1e-15)
    other = read_folder(tmp_path, (1, 4, 6), 2, scale=0.5, mean=100.25)
    assert np.array_equal(other.samples.inputs[1, 0], (grey - 100.25) * 0.5)
    half = read_folder(tmp_path, (3, 2, 3), 2).pixels
    assert half.shape == (2, 3, 2, 3)
    save(tmp_path / "even" / "a.jpg", np.full((8, 12, 3), 77))
    assert (abs(read_folder(tmp_path / "even", (1, 4, 6), 2).pixels.astype(int) - 77) <= 1).all()


@pytest.mark.parametrize(("names", "labels"), [("cat dog", [0, 1]), ("3 1", [1, 3]), ("1 cat", [0, 1])])
def test_sub_folders_are_classes(tmp_path: Path, names: str, labels: list[int]) -> None:
    for number, name in enumerate(sorted(names.split())):
        save(tmp_path / name / "x.png", np.full((4, 4), number))
    (tmp_path / "empty").mkdir()
    found = read_folder(tmp_path, (1, 4, 4), 4)
    assert found.labels is not None
    assert (found.labels.tolist(), found.pixels[:, 0, 0, 0].tolist()) == (labels, [0, 1])
    with pytest.raises(InputError, match=f"would be class {labels[-1]}"):
        read_folder(tmp_path, (1, 4, 4), labels[-1])


def test_what_is_no_image_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told(shape: tuple[int, int, int] = (1, 4, 4)) -> str:
        with pytest.raises(InputError) as caught:
            read_folder(tmp_path, shape, 4)
        return str(caught.value)

    assert "holds no image" in told()
    (tmp_path / "a.png").write_bytes(b"no image")
    assert "a.png" in told() and "cannot be read as an image" in told()
    save(tmp_path / "a.png", np.zeros((64, 64)))
    whole = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(whole[: len(whole) // 2])
    assert "cannot be read as an image" in told()
    save(tmp_path / "a.png", np.zeros((4, 8)))
    assert tells(told(), "a.png .. 8 x 4 .. 4 x 4")
    Image.fromarray(np.zeros((4, 4), dtype=np.uint16)).save(tmp_path / "a.png")
    assert "8 bits are read" in told()
    assert tells(told((2, 4, 4)), "1 or 3 .. 2")
    save(tmp_path / "cat" / "b.png", np.zeros((4, 4)))
    assert "a.png" in told() and "has no class" in told()
    (tmp_path / "a.png").unlink()
    monkeypatch.setitem(sys.modules, "PIL", None)
    assert "which Pillow reads" in told()


def test_a_network_is_imported_and_solved_with_a_folder(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    for name in ("0", "1", "2"):
        for number in range(3):
            save(tmp_path / "photos" / name / f"{number}.png", random.integers(0, 256, (4, 4)))
    weights = random.normal(0, 0.3, (16, 3)).astype(np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("Flatten", ["image"], ["flat"]),
            helper.make_node("MatMul", ["flat", "w"], ["out"]),
        ],
        "net",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 1, 4, 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [1, 3])],
        [numpy_helper.from_array(weights, "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), tmp_path / "net.onnx")
    (tmp_path / "narrow.toml").write_text("accumulator_bits = 16\n")
    told = (
        "import",
        "net.onnx",
        "-o",
        "out",
        "--room",
        "bitwidth",
        "--machine",
        "narrow.toml",
        "--calibration",
    )
    done = command.run(tmp_path, *told, "photos", "--mean", "127.5")
    assert done.returncode == 0, done.stderr
    samples = read(tmp_path / "out" / "net-bitwidth.toml").problem.samples
    assert samples.labels.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert -0.5 <= samples.inputs.min() < 0 < samples.inputs.max() <= 0.5
    solved = command.run(tmp_path, "solve", "out/net-bitwidth.toml")
    assert solved.returncode == 0, solved.stderr
    assert "9 images" in solved.stdout and "accuracy" in solved.stdout
    wrong = command.run(tmp_path, *told, "out/net-bitwidth-samples.npz", "--scale", "2")
    assert wrong.returncode == 2 and "goes with --calibration and a folder of images" in wrong.stderr
