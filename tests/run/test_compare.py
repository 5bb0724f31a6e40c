"""Comparisons: of several rooms, each with its own methods, and all under the same conditions."""

from __future__ import annotations

import csv
import importlib.util
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import Run

import tilewright as tw
from tilewright.run.workers import supervisor
from tilewright.run.workers.warming import forget

GROUPING, ALLOCATION = "s1-example2", "mnist-tcpa"


@pytest.mark.nightly
def test_each_room_has_its_own_methods_and_table(tilewright: Run, tmp_path: Path) -> None:
    compared = tilewright(
        "compare", GROUPING, ALLOCATION, "--time-limit", "20", "-o", "all.json", "--plot", "all.png", "--json"
    )
    assert compared.returncode == 0, compared.stderr
    entries = json.loads(compared.stdout)
    assert entries == json.loads((tmp_path / "all.json").read_text())
    of_room = {room: [one["method"] for one in entries if one["room"] == room] for room in rooms(entries)}
    assert list(of_room) == ["grouping", "allocation"]
    assert "zigzag" in of_room["grouping"] and "zigzag" not in of_room["allocation"]
    assert of_room["grouping"][-1] == of_room["allocation"][-1] == "auto"
    assert [one["status"] for one in entries if one["method"] == "auto"] == ["optimal"] * 2


def rooms(entries: list[dict[str, str]]) -> list[str]:
    return list(dict.fromkeys(one["room"] for one in entries))


def test_named_methods_run_where_their_room_has_them(tilewright: Run) -> None:
    compared = tilewright("compare", ALLOCATION, GROUPING, "--with", "paper,zigzag,strips")
    assert compared.returncode == 0, compared.stderr
    first, second = compared.stdout.split("\ngrouping\n")
    assert first.startswith("allocation\n") and GROUPING not in first and ALLOCATION not in second
    assert "not in this room: zigzag, strips" in first and "not in this room: paper" in second
    assert first.count(ALLOCATION) == 1 and second.count(GROUPING) == 2


def test_a_room_may_have_none_of_them(tilewright: Run) -> None:
    compared = tilewright("compare", GROUPING, ALLOCATION, "--with", "zigzag")
    assert compared.returncode == 0, compared.stderr
    assert "\nallocation\nnot in this room: zigzag\n" in compared.stdout
    [entry] = tw.compare([ALLOCATION, GROUPING], ["zigzag"])
    assert (entry.room, entry.instance, entry.method) == ("grouping", GROUPING, "zigzag")


def test_one_room_needs_no_heading(tilewright: Run) -> None:
    compared = tilewright("compare", GROUPING, "resnet8-conv-g8", "--with", "zigzag")
    assert compared.returncode == 0 and compared.stdout.splitlines()[0].split()[0] != "grouping"
    assert "not in this room" not in compared.stdout


@pytest.mark.parametrize("methods", [["zigzag", "zickzack"], ["zickzack"]])
def test_what_no_room_has_is_refused(methods: list[str]) -> None:
    with pytest.raises(tw.UnknownNameError) as refused:
        tw.compare([GROUPING, ALLOCATION], methods)
    first, second = str(refused.value).splitlines()
    assert first.startswith(f"{GROUPING}: unknown method") and "zickzack" in first and "row_by_row" in first
    assert second.startswith(f"{ALLOCATION}: unknown method") and "paper" in second
    with pytest.raises(tw.UnknownNameError, match=f"^{GROUPING}: unknown solver for the model s1 .*highs"):
        tw.compare([GROUPING], ["s1@gurbi"])


def test_different_problems_of_one_name_are_told_apart(tilewright: Run, tmp_path: Path) -> None:
    for folder, side in (("a", 4), ("b", 6)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "one.toml").write_text(
            f'room = "grouping"\n[layer]\ninput = [1, {side}, {side}]\nkernels = 1\nkernel = [3, 3]\n'
            "[machine]\ngroup_size = 2\n"
        )
    compared = tilewright("compare", "a/one.toml", "b/one.toml", "a/one.toml", "--with", "zigzag", "--json")
    named = [row["instance"] for row in json.loads(compared.stdout)]
    assert named == ["one (a/one.toml)", "one (b/one.toml)", "one (a/one.toml)"]


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["all.json", "all.csv"])
def test_plans_are_not_replaced_by_none(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert tilewright("compare", GROUPING, "--with", "zigzag", "-o", name).returncode == 0
    before = (tmp_path / name).read_text()

    def interrupted(*_: object, **__: object) -> None:
        raise tw.TilewrightError("interrupted before it began")

    monkeypatch.setattr("tilewright.run.batch.tasks.solve", interrupted)
    again = tilewright("compare", GROUPING, "--with", "zigzag", "-o", name)
    assert again.returncode == 1
    assert f"kept: {name}" in again.stdout
    assert (tmp_path / name).read_text() == before
    assert tilewright("compare", "resnet8-conv-g8", "--with", "zigzag", "-o", name).returncode == 1
    assert (tmp_path / name).read_text() != before


@pytest.mark.nightly
def test_every_seed_is_run_under_the_conditions_asked_for(tilewright: Run, tmp_path: Path) -> None:
    options = ("--with", "zigzag,lns", "--time-limit", "1", "--threads", "1", "--seeds", "0..1,7")
    files = ("-o", "all.csv", "-o", "all.md", "--plot", "profile.png", "--picture", "profile")
    compared = tilewright("compare", GROUPING, *options, *files, "--journal", "kept.journal", "--json")
    assert compared.returncode == 0, compared.stderr
    rows = json.loads(compared.stdout)
    asked = [(method, seed) for method in ("zigzag", "lns") for seed in (0, 1, 7)]
    assert [(row["method"], row["seed"]) for row in rows] == asked
    assert {(row["threads"], row["time_limit"]) for row in rows} == {(1, 1.0)}
    for row in rows:
        assert 0 < sum(row["spent"].values()) <= row["seconds"] + 0.01
    table = list(csv.DictReader((tmp_path / "all.csv").read_text().splitlines()))
    assert [(line["method"], int(line["seed"])) for line in table] == asked
    assert {line["reference"] for line in table} == {str(min(row["objective"] for row in rows))}
    page = (tmp_path / "all.md").read_text()
    assert "| zigzag | 3 | 0 | 3 |" in page and "--journal" not in page
    pictures = re.findall(r"!\[.*?\]\((.*?)\)", page, re.DOTALL)
    assert len(pictures) == 2 and all((tmp_path / picture).stat().st_size for picture in pictures)
    assert (tmp_path / "profile.png").stat().st_size

    again = tilewright("compare", GROUPING, *options, "--journal", "kept.journal")
    assert len((tmp_path / "kept.journal").read_text().splitlines()) == 6
    told = " ".join(again.stdout.split())
    assert "median, least to most of 3 seeds" in told and "shifted geometric means" in told


@pytest.mark.parametrize("seeds", ["3..1", "a", "0..", "0..5000", "4294967296", ""])
def test_what_are_no_seeds_is_refused(tilewright: Run, seeds: str) -> None:
    assert tilewright("compare", GROUPING, "--with", "zigzag", "--seeds", seeds).returncode == 2


def test_seeds_come_from_one_option(tilewright: Run) -> None:
    assert tilewright("compare", GROUPING, "--seed", "1", "--seeds", "0..1").returncode == 2
    assert tilewright("compare", "--with", "zigzag").returncode == 2


def test_a_method_whose_solver_is_missing_stays_in_the_table(tilewright: Run, tmp_path: Path) -> None:
    options = ("--with", "zigzag,s1@pyomo:nosuch", "--time-limit", "1", "-o", "all.csv")
    compared = tilewright("compare", GROUPING, *options)
    assert compared.returncode == 0, compared.stderr
    assert re.search(r"s1@pyomo:nosuch .*failed$", compared.stdout, re.MULTILINE)
    assert "s1@pyomo:nosuch: solver not installed" in compared.stdout
    zigzag, missing = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
    assert "nosuch" in missing["error"] and missing["primal_integral_seconds"] == "1.0"
    assert float(zigzag["primal_integral_seconds"]) < 1


def test_parquet_says_what_it_needs(tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *a: None if name == "pyarrow" else find(name, *a)
    )
    compared = tilewright("compare", GROUPING, "--with", "zigzag", "-o", "all.parquet")
    assert compared.returncode == 3 and "pip install 'tilewright[parquet]'" in compared.stderr


def test_parquet_has_the_columns_of_csv(tilewright: Run, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    options = ("--with", "zigzag,s1@pyomo:nosuch", "--time-limit", "1", "-o", "all.csv", "-o", "all.parquet")
    assert tilewright("compare", GROUPING, *options).returncode == 0
    table = parquet.read_table(tmp_path / "all.parquet")
    reader = csv.DictReader((tmp_path / "all.csv").read_text().splitlines())
    assert table.column_names == reader.fieldnames
    for row, line in zip(table.to_pylist(), reader, strict=True):
        assert {name: "" if value is None else str(value) for name, value in row.items()} == line


def test_a_missing_solver_is_told_whatever_the_time_limit(tilewright: Run) -> None:
    done = tilewright("solve", GROUPING, "--with", "s1@pyomo:nosuch", "--time-limit", "0.1")
    assert done.returncode == 3 and "Pyomo knows no solver nosuch" in done.stderr


@pytest.mark.nightly
def test_a_run_begins_in_a_worker_that_has_all_it_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[tuple[str, dict[str, str | None]]] = []
    begin = supervisor.Worker.begin

    def noted(self: supervisor.Worker, job: dict[str, Any]) -> None:
        begun.append((job["method"], dict(self.ready)))
        begin(self, job)

    monkeypatch.setattr(supervisor.Worker, "begin", noted)
    supervisor.IDLE.stop()
    lns, highs = tw.compare([GROUPING], ["lns", "s1@highs"], time_limit=3, threads=1)
    assert lns.result is not None and highs.result is not None
    assert {method for method, _ in begun} == {"construct", "lns", "s1@highs"}
    for method, ready in begun:
        assert ready[method] is None, f"{method} begins in a worker that has prepared {list(ready)}"


def test_what_has_been_computed_of_problems_is_forgotten() -> None:
    def cached() -> int:
        return sum(
            value.cache_info().currsize
            for name, module in list(sys.modules.items())
            if name.startswith("tilewright.grouping")
            for value in vars(module).values()
            if hasattr(value, "cache_info")
        )

    tw.read(GROUPING)
    tw.solve(GROUPING, "zigzag")
    assert cached()
    forget()
    assert not cached()
