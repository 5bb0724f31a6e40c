"""What pictures of every room share: axes over steps, timelines, sheets, words, files and comparisons."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from picture_checks import check, check_fits, imported, written
from PIL import Image

from tilewright import plotting
from tilewright.grouping import Problem, simulate
from tilewright.heuristics.grouping import zigzag
from tilewright.plotting.comparison import _percent
from tilewright.simulator import Report
from tilewright.simulator.report import Violation
from tilewright.spec.errors import InputError

# Axes over steps -----------------------------------------------------------------------------------


def many_tensors(n_steps: int = 3) -> Report:
    """A report such as other rooms give: more tensors than colours, no timelines."""
    names = ["input", "kernels", *(f"t{i}" for i in range(12)), "output"]
    table = {name: np.full(n_steps, 5 + i, dtype=np.int64) for i, name in enumerate(names)}
    nothing = {name: np.zeros(n_steps, dtype=np.int64) for name in names}
    macs = np.ones(n_steps, dtype=np.int64)
    return Report(None, [""] * n_steps, table, nothing, table, nothing, table, macs, 0)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("capacity", [None, 300, 10**9])
def test_any_report_has_footprint_and_traffic(capacity: int | None, tmp_path: Path) -> None:
    figure = plotting.new_figure(9, 6)
    axes = [plotting.add_axes(figure, 1, top, 6, 2) for top in (0.5, 3.2)]
    report = many_tensors()
    plotting.footprint_and_traffic(axes[0], axes[1], report, capacity=capacity)
    legend = axes[0].get_legend()
    assert legend is not None
    assert len(legend.get_texts()) == plotting.MAX_TENSORS
    assert f"peak {report.peak:,} elements" in axes[0].get_title(loc="left")
    plotting.save(figure, tmp_path / "a.png")
    check(tmp_path / "a.png")


def test_blocks_keep_the_peak_and_the_total() -> None:
    report = many_tensors(1001)
    report.footprint["t3"][777] += 1000
    figure = plotting.new_figure(9, 6)
    axes = [plotting.add_axes(figure, 1, top, 6, 2) for top in (0.5, 3.2)]
    plotting.footprint_and_traffic(axes[0], axes[1], report)
    assert f"peak {report.peak:,} elements, step 778" in axes[0].get_title(loc="left")
    assert axes[0].get_ylim()[1] > report.peak
    tops = [patch.get_path().get_extents().y1 for patch in axes[0].patches]
    assert max(tops) == report.peak
    assert "blocks of 3" in axes[1].get_xlabel()


def test_a_timeline_says_what_it_leaves_out() -> None:
    layer = {"input": [1, 32, 32], "kernels": 6, "kernel": [5, 5]}
    machine = {"group_size": 4, "memory": 400, "kernels": "step1"}
    lenet = Problem.model_validate({"layer": layer, "machine": machine, "limits": {"reloads": 0}})
    report = simulate(lenet, zigzag.plan(lenet))
    figure = plotting.new_figure(9, 3)
    axes = plotting.add_axes(figure, 1, 1, 7, 1)
    plotting.timeline(axes, report.overlapped, title="T")
    assert report.overlapped is not None
    title = axes.get_title(loc="left")
    assert title.startswith(f"T: {report.overlapped.cycles:,} cycles; only the first 40 of 197 steps")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["load", "compute", "write"]


# Sheets --------------------------------------------------------------------------------------------


def broken() -> Report:
    return replace(many_tensors(), violation=Violation("a rule", 2, "input", "10", "9"))


def test_a_sheet_begins_below_its_heading() -> None:
    labelled = [("label", f"number {number}") for number in range(5)]
    sheet = plotting.Sheet("a $b^{ title", ["a fact", "word " * 60], broken(), labelled=labelled)
    figure = sheet.create(13, 6)
    assert {"a $b^{ title", "a fact", "label", "number 4"} <= {*written(figure)}
    assert any("a rule" in words for words in written(figure))
    check_fits(figure)
    lowest = min(text.get_window_extent().y0 for text in figure.texts)
    axes = sheet.axes(1, sheet.top, 5, 2)
    assert plotting.size_in_inches(axes) == pytest.approx((5, 2))
    assert axes.bbox.y1 <= lowest + 0.1 * figure.dpi


def test_a_long_title_has_two_lines() -> None:
    short, long = (plotting.Sheet("word " * count) for count in (1, 500))
    assert long.top - short.top == pytest.approx(0.26)


def test_long_facts_are_cut() -> None:
    columns = plotting.FactColumns(pitch=5, label_width=1, max_length=12)
    figure = plotting.Sheet("", labelled=[("label", "x" * 50)], columns=columns).create(10, 2)
    assert "x" * 11 + "…" in written(figure)


def test_what_is_wrong_is_said() -> None:
    report = many_tensors()
    assert plotting.warning(report) == plotting.warning(None) == ""
    report.numeric = False
    assert plotting.warning(report, "the book") == "the numbers differ from the book"
    assert "a rule" in plotting.warning(broken())


# Words ---------------------------------------------------------------------------------------------


def test_names_are_cut_where_a_part_begins() -> None:
    assert plotting.shortened_to_end("inception_3a/3x3_reduce", 18) == "…3a/3x3_reduce"
    assert plotting.shortened_to_end("conv1", 18) == "conv1"
    assert len(plotting.shortened_to_end("a" * 99, 18)) == 18


def test_long_names_lose_their_middle() -> None:
    assert plotting.shortened_to_fit("conv1 + pool1", 3, 8) == "conv1 + pool1"
    for words in ("a" * 50 + "z" * 50, "m" * 5000, "x + " * 60):
        cut = plotting.shortened_to_fit(words, 2, 8)
        assert "…" in cut
        assert plotting.text_width(cut) <= 72 * 2 / 8 < plotting.text_width(cut) + 2
        assert words.startswith(cut.partition("…")[0])
        assert words.endswith(cut.partition("…")[2])


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (plotting.with_prefix(999), "999"),
        (plotting.with_prefix(12_345), "12.3 k"),
        (plotting.in_bytes(1_500), "1.50 kB"),
        (plotting.in_bytes(2_340_000), "2.34 MB"),
        (plotting.ratio(1.234), "1.23×"),
        (plotting.ratio(12.34), "12×"),
        (plotting.relative_change(200, 150), "−25 %"),
        (plotting.relative_change(1000, 1001), "±0 %"),
        (plotting.relative_change(0, 0), "±0 %"),
        (plotting.busy_share(0.004), "< 1 % busy"),
        (plotting.busy_share(0.5), "50 % busy"),
        (plotting.shortened("abcdef", 4), "abc…"),
        (plotting.joined_names(["fire2/squeeze", "fire2/expand"]), "fire2: squeeze + expand"),
        (plotting.joined_names(["conv1", "conv2"]), "conv1 + conv2"),
        (plotting.joined_names(["a/b/c"]), "a/b/c"),
    ],
)
def test_numbers_and_names(shown: str, expected: str) -> None:
    assert shown == expected


# Files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.png.txt", ".png"])
def test_other_suffixes_are_refused_with_those_accepted(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        plotting.save(plotting.new_figure(1, 1), tmp_path / name)
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        plotting.draw_comparison([row("a", "m", 1)], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_capital_suffixes_are_accepted(tmp_path: Path) -> None:
    plotting.save(plotting.new_figure(1, 1), tmp_path / "A.PNG")
    with Image.open(tmp_path / "A.PNG") as image:
        assert image.format == "PNG"


@pytest.mark.parametrize("module", ["tilewright.plotting", "tilewright.plotting.layered_graph"])
def test_importing_is_cheap(module: str) -> None:
    assert imported(module, {"matplotlib", "PIL", "highspy", "networkx"}) == set()


# Comparison ----------------------------------------------------------------------------------------


def row(instance: str, method: str, objective: int | None, bound: int | None = None) -> dict[str, Any]:
    return {"instance": instance, "method": method, "objective": objective, "bound": bound}


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    "rows",
    [
        [row("a", "m", None)],
        [row("a", "m", None, 7)],
        [row("a", "m", 0, 0), row("a", "n", 3)],
        [row("x$_a$", "auto", 10**15, 10**14), row("x$_a$", "n" * 60, 10**15 + 1)],
        [row(f"instance {i}", f"m{j}@highs", 1000 + i * j, 900) for i in range(10) for j in range(10)],
    ],
    ids=["no plan", "bound only", "zero", "long", "many"],
)
def test_comparisons(rows: list[dict[str, Any]], tmp_path: Path) -> None:
    plotting.draw_comparison(rows, tmp_path / "a.png")
    check(tmp_path / "a.png")


def test_a_comparison_of_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="nothing to compare"):
        plotting.draw_comparison([], tmp_path / "a.svg")
    assert not list(tmp_path.iterdir())


def test_percentages_are_short() -> None:
    shown = [_percent(value) for value in (0.001, 0.05, 0.998, 1.26, 9.97, 31.4, 812.0)]
    assert shown == ["<0.01", "0.05", "1.0", "1.3", "10", "31", "812"]


def test_placing_a_graph_prints_nothing() -> None:
    """HiGHS, which places the nodes, put its name into what is printed as JSON."""
    code = (
        "from tilewright.plotting.layered_graph import _spread; assert _spread([(0, 1, 2.0)], [(0, 1, 1.0)])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == done.stderr == ""
