"""Published points of RAM over multiply-accumulates beside the exact front."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import nightly

from tilewright.core import catalogue
from tilewright.papers import msf


@pytest.mark.parametrize("name", ["mn2-vww5", pytest.param("mbv2-w035-r144", marks=nightly)])
def test_every_published_point_is_reached_in_both(name: str) -> None:
    front = msf._front(msf._network(name), 60)
    least = min(each.macs for each in front)
    points = [each for each in catalogue.shared("published", "msf-cnn")["points"] if each["network"] == name]
    assert len(points) >= 7
    for point in points:
        assert any(
            each.taken_bytes <= point["peak_bytes"] and each.macs <= point["mac_factor"] * least
            for each in front
        ), point


@nightly
def test_the_tables_are_printed(tmp_path: Path) -> None:
    said: list[str] = []
    msf.reproduce("msf-cnn", time_limit=60, folder=tmp_path, say=said.append)
    assert "| unfused | 96,000 | 1.000 | 14,944 | 1.000 | 14,944 |" in said
    assert len((tmp_path / "mn2-vww5.csv").read_text().splitlines()) == 20


def test_sums_are_those_of_blocks_of_stride_1_and_equal_channels() -> None:
    layers = msf.with_sums(msf._network("mn2-vww5"))["layers"]
    sums = {each["name"]: each for each in layers if each.get("kind") == "add"}
    assert sums["l8s"]["inputs"] == ["l5", "l8"] and sums["l11s"]["inputs"] == ["l8s", "l11"]
    assert "l5s" not in sums and "l14s" not in sums
    by_name = {each["name"]: each for each in layers}
    assert by_name["l12"]["inputs"] == ["l11s"]
