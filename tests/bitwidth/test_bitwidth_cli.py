"""The room on the command line: the bundled network on digits, bad files, pictures."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from conftest import tells
from tests import command

from tilewright.core import catalogue

FOLDER = catalogue.folders("instances", "bitwidth")[0]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a copy of `lenet5-bits` that measures few images, and of its files."""
    (tmp_path / "networks").mkdir()
    (tmp_path / "bitwidth").mkdir()
    shutil.copy(FOLDER.parent / "networks" / "lenet5-128.toml", tmp_path / "networks")
    for name in ("lenet5-weights.npz", "lenet5-digits.npz"):
        shutil.copy(FOLDER / name, tmp_path / "bitwidth")
    text = (FOLDER / "lenet5-bits.toml").read_text().replace("images = 200", "images = 40")
    (tmp_path / "bitwidth" / "net.toml").write_text(text)
    return tmp_path / "bitwidth"


@pytest.mark.nightly
def test_digits_are_classified_and_a_tampered_weight_changes_that(here: Path) -> None:
    done = command.run(here, "solve", "net.toml", "--with", "merging", "-o", "r.json", "--plot", "r.png")
    assert done.returncode == 0, done.stderr
    for words in ("accuracy", "none of", "dB beside the model; 40 images", "14 of 14"):
        assert words in done.stdout
    assert (here / "r.png").stat().st_size > 10_000
    result = json.loads((here / "r.json").read_text())
    measured = result["report"]["measures"]["measured"]
    assert (result["status"], measured["images"], measured["overflows"]) == ("optimal", 40, 0)
    assert measured["right"] >= 36
    checked = command.run(here, "check", "net.toml", "r.json")
    assert checked.returncode == 0, checked.stdout
    assert "equal to the reference" in checked.stdout
    held = dict(np.load(here / "lenet5-weights.npz"))
    held["fc4.weights"] = np.roll(held["fc4.weights"], 1, axis=0)
    np.savez(here / "lenet5-weights.npz", **held)
    assert command.run(here, "check", "net.toml", "r.json").returncode == 1
    again = command.run(here, "solve", "net.toml", "--with", "merging", "--json")
    assert json.loads(again.stdout)["report"]["measures"]["measured"]["right"] < 20


def test_files_that_are_wrong_are_told_with_their_fields(here: Path) -> None:
    (here / "lenet5-digits.npz").rename(here / "other.npz")
    done = command.run(here, "solve", "net.toml")
    assert done.returncode == 2
    assert "net.toml: data.samples" in done.stderr and "no such file" in done.stderr
    text = (here / "net.toml").read_text()
    for old, new, words in (
        (
            '"lenet5-digits.npz"',
            '"/etc/digits.npz"',
            "data.samples = '/etc/digits.npz' .. relative path .. .npz",
        ),
        (
            "accumulator_bits = 16",
            "accumulator_bits = 4",
            "machine.accumulator_bits = 4 .. layer conv1 .. 5 bits",
        ),
        ("accumulator_bits = 16", "accumulator_bits = 99", "machine.accumulator_bits = 99 .. 40"),
        ('bound = "output_range"', 'bound = "worst"', "limits.bound = 'worst' .. 'output_range'"),
    ):
        assert old in text
        (here / "bad.toml").write_text(text.replace('"lenet5-digits.npz"', '"other.npz"').replace(old, new))
        if "digits" in old:
            (here / "bad.toml").write_text(text.replace(old, new))
        done = command.run(here, "solve", "bad.toml")
        assert done.returncode == 2
        assert tells(done.stderr, "bad.toml", words)


def test_the_front_is_drawn(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'room = "bitwidth"\n[[network.layers]]\nname = "a"\nkind = "fc"\ninputs = 9\noutputs = 4\n'
        "[machine]\naccumulator_bits = 14\n[ranges]\na = { input = 1, weights = 1, output = 3 }\n"
    )
    told = ("solve", "a.toml", "--minimise", "pareto", "-o", "r.json", "-o", "r.csv", "--plot", "r.svg")
    done = command.run(tmp_path, *told)
    assert done.returncode == 0, done.stderr
    assert "front" in done.stdout
    lines = (tmp_path / "r.csv").read_text().splitlines()
    assert lines[0] == "noise_ppb,moved_bits" and len(lines) > 5
    assert (tmp_path / "r.svg").stat().st_size > 5000
    checked = command.run(tmp_path, "check", "a.toml", "r.json", "--minimise", "pareto")
    assert checked.returncode == 0, checked.stdout
    assert "points claimed" in checked.stdout
