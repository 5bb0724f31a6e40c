"""Comparisons: of several rooms, each with its own methods, and all under the same conditions."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Run

import tilewright as tw

GROUPING, ALLOCATION = "s1-example2", "mnist-tcpa"


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
    assert compared.stdout.endswith("\nallocation\nnot in this room: zigzag\n")
    [entry] = tw.compare([ALLOCATION, GROUPING], ["zigzag"])
    assert (entry.room, entry.instance, entry.method) == ("grouping", GROUPING, "zigzag")


def test_one_room_needs_no_heading(tilewright: Run) -> None:
    compared = tilewright("compare", GROUPING, "resnet8-conv-g8", "--with", "zigzag")
    assert compared.returncode == 0 and compared.stdout.startswith("instance ")
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


@pytest.mark.parametrize("name", ["all.json", "all.csv"])
def test_plans_are_not_replaced_by_none(
    tilewright: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    assert tilewright("compare", GROUPING, "--with", "zigzag", "-o", name).returncode == 0
    before = (tmp_path / name).read_text()

    def interrupted(*_: object, **__: object) -> None:
        raise tw.TilewrightError("interrupted before it began")

    monkeypatch.setattr("tilewright.run.tasks.solve", interrupted)
    again = tilewright("compare", GROUPING, "--with", "zigzag", "-o", name)
    assert again.returncode == 1
    assert f"kept: {name}" in again.stdout
    assert (tmp_path / name).read_text() == before
    assert tilewright("compare", "resnet8-conv-g8", "--with", "zigzag", "-o", name).returncode == 1
    assert (tmp_path / name).read_text() != before
