"""The reproduction of the S1 paper, on its smallest cells: what it prints and what it writes."""

from pathlib import Path

import pytest

from tilewright.papers.s1 import records
from tilewright.papers.s1 import tables as reproduce


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(reproduce, "SIZES", range(4, 7))
    monkeypatch.setattr(reproduce, "GROUPS", range(4, 6))
    monkeypatch.setattr(reproduce, "LAYERS", ("lenet5-conv1-g20",))
    monkeypatch.setattr(reproduce, "LAYER_GROUPS", (32,))


def run(part: str, folder: Path) -> str:
    lines: list[str] = []
    reproduce.reproduce(part, time_limit=60, folder=folder, say=lines.append)
    return "\n".join(lines)


@pytest.mark.nightly
@pytest.mark.parametrize("part", ["s1-grid", "s1-free"])
def test_the_grid_is_printed_and_stands_to_what_is_known(part, small, tmp_path):
    told = run(part, tmp_path)
    assert "proven optimal: 6 of 6 cells" in told
    assert "0 beaten, 0 not reached" in told
    assert not (tmp_path / records.FILE).exists()
    # Results are kept: a second run solves nothing.
    again = run(part, tmp_path)
    assert "6/6" in told
    assert "6/6" not in again


@pytest.mark.nightly
def test_what_beats_the_best_known_is_written_down(small, tmp_path, monkeypatch):
    monkeypatch.setattr(records, "known", dict)
    assert "6 beaten" in run("s1-grid", tmp_path)
    monkeypatch.undo()
    written = records.known(tmp_path / records.FILE)
    assert len(written) == 6
    assert all(record.optimal for record in written.values())


def test_layers_stand_beside_the_first_version(small, tmp_path):
    told = run("s1-layers", tmp_path)
    line = next(line for line in told.splitlines() if line.startswith("lenet5-conv1") and "0.0" in line)
    assert "1,049" in line
    assert "beside the first version" in told
