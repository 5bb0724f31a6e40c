"""Pictures: files that are what their suffix says, of valid plans and of plans that break a rule."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tilewright import plotting
from tilewright.grouping import Plan, Problem, simulate
from tilewright.grouping import plot as grouping_pictures
from tilewright.heuristics.grouping import zigzag
from tilewright.simulator import Report
from tilewright.spec.errors import InputError


def problem(
    shape: list[int], kernel: list[int], group_size: int, *, kernels: int = 2, reloads: int = 0, **more: Any
) -> Problem:
    layer = {"input": shape, "kernels": kernels, "kernel": kernel, **more.pop("layer", {})}
    machine = {"group_size": group_size, **more.pop("machine", {})}
    limits = {"reloads": reloads, **more.pop("limits", {})}
    return Problem.model_validate({"layer": layer, "machine": machine, "limits": limits, **more})


CASES = {
    "paper": problem([2, 5, 5], [3, 3], 2),
    "one patch": problem([3, 3, 3], [3, 3], 4),
    "one step": problem([3, 8, 8], [3, 3], 100),
    "lenet": problem([1, 32, 32], [5, 5], 4, kernels=6, machine={"memory": 400, "kernels": "step1"}),
    "stride": problem(
        [3, 20, 35], [3, 3], 3, layer={"stride": [2, 3], "dilation": [2, 1], "padding": [1, 1, 0, 0]}
    ),
    "generated": problem(
        [1, 6, 6], [3, 3], 2, layer={"padding": [1, 1, 1, 1]}, machine={"padding": "generated"}
    ),
    "thread": problem([1, 3, 300], [3, 3], 5),
    "no cycles": problem([1, 4, 4], [3, 3], 1, machine={"load": 0, "write": 0, "compute": 0}),
}


def check(path: Path) -> None:
    """The file is whole and of the kind that its suffix says."""
    if path.suffix == ".svg":
        root = ElementTree.parse(path).getroot()
        assert root.tag.endswith("svg")
        return
    with Image.open(path) as image:
        assert image.format == path.suffix[1:].upper()
        image.load()


FORMATS = [(name, suffix) for name in CASES for suffix in (".svg", ".gif")]


@pytest.mark.parametrize(("name", "suffix"), [*FORMATS, ("paper", ".png"), ("lenet", ".png")])
def test_every_format_of_every_shape(name: str, suffix: str, tmp_path: Path) -> None:
    plan = zigzag.plan(CASES[name])
    report = simulate(CASES[name], plan)
    assert report.valid
    path = tmp_path / f"picture{suffix}"
    grouping_pictures.draw(CASES[name], plan, report, path, title="a $b^{ name & <tag>")
    check(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_a_layer_of_thousands_of_steps(tmp_path: Path) -> None:
    big = problem([3, 226, 226], [3, 3], 16, kernels=64)
    plan = zigzag.plan(big)
    report = simulate(big, plan)
    for suffix in (".png", ".gif"):
        grouping_pictures.draw(big, plan, report, tmp_path / f"big{suffix}")
        check(tmp_path / f"big{suffix}")
    with Image.open(tmp_path / "big.gif") as image:
        assert image.n_frames == grouping_pictures.MAX_FRAMES


@pytest.mark.parametrize("name", ["paper", "one step", "stride"])
def test_one_frame_per_step(name: str, tmp_path: Path) -> None:
    plan = zigzag.plan(CASES[name])
    grouping_pictures.draw(CASES[name], plan, simulate(CASES[name], plan), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert getattr(image, "n_frames", 1) == plan.n_steps


@pytest.mark.parametrize("name", CASES)
def test_the_picture_shows_what_the_simulator_counted(name: str) -> None:
    layer = CASES[name]
    plan = zigzag.plan(layer)
    report = simulate(layer, plan)
    told = grouping_pictures.story(layer, plan, report)
    n, depth = plan.n_steps, layer.pixel_elements
    assert [len(fresh) * depth for fresh in told.fresh] == report.loaded["input"][:n].tolist()
    assert [len(stale) * depth for stale in told.stale] == report.freed["input"][:n].tolist()
    assert (told.held * depth).tolist() == report.footprint["input"][:n].tolist()
    distinct = len(layer.needed_pixels)
    assert sum(map(len, told.fresh)) - told.again.sum() == distinct
    for scene in told.scenes(np.arange(n)):
        counts = np.bincount(scene.plane.ravel(), minlength=6)
        loaded = counts[grouping_pictures.LOADED] + counts[grouping_pictures.AGAIN]
        assert loaded == len(told.fresh[scene.step])
        assert loaded + counts[grouping_pictures.KEPT] == told.held[scene.step]
        assert counts[grouping_pictures.AGAIN] == told.again[scene.step]
        assert counts[grouping_pictures.FREED] == len(told.stale[scene.step])


def test_the_telling_steps_are_few_and_ordered() -> None:
    plan = zigzag.plan(CASES["lenet"])
    chosen = grouping_pictures.story(CASES["lenet"], plan, simulate(CASES["lenet"], plan)).telling()
    assert len(chosen) == grouping_pictures.MAX_PANELS
    assert list(chosen) == sorted(chosen)
    assert {0, 1, plan.n_steps - 1} <= set(chosen)
    assert "first pixels loaded again" in chosen.values()


# Plans that break a rule ---------------------------------------------------------------------------

PAPER = CASES["paper"]
GROUPS = zigzag.plan(PAPER).groups
BROKEN = {
    "no such patch": (PAPER, Plan((*GROUPS[:2], ((7, 7),), *GROUPS[3:])), 2),
    "no such patch at once": (PAPER, Plan((((7, 7),),)), 0),
    "patch doubled": (PAPER, Plan((GROUPS[0], ((1, 1), (1, 1)))), 1),
    "write-back": (PAPER, Plan(GROUPS, (0,) * len(GROUPS)), 5),
    "computed twice": (PAPER, Plan((*GROUPS[:3], GROUPS[0], *GROUPS[3:])), 4),
    "not computed": (PAPER, Plan(GROUPS[:3]), 3),
    "nothing computed": (PAPER, Plan(()), 0),
    "too much work": (PAPER, Plan((GROUPS[0] + GROUPS[1], *GROUPS[2:])), 1),
    "memory overflow": (problem([2, 5, 5], [3, 3], 2, machine={"memory": 60}), Plan(GROUPS), 1),
    "reload limit": (problem([2, 5, 5], [3, 3], 2, reloads=1), Plan(GROUPS), 3),
    "number of steps": (problem([2, 5, 5], [3, 3], 2, limits={"steps": 6}), Plan(GROUPS), 5),
}

SHEETS = {"no such patch at once", "nothing computed", "memory overflow", "reload limit", "number of steps"}
"""Those of which the sheet is drawn too: nothing, one step, some steps, all steps."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_is_drawn_up_to_its_violation(name: str, tmp_path: Path) -> None:
    layer, plan, drawn = BROKEN[name]
    report = simulate(layer, plan)
    assert report.violation is not None
    assert grouping_pictures.story(layer, plan, report).n_steps == drawn
    assert report.violation.rule in grouping_pictures.heading(layer, report, plan, None)[2]
    for suffix in (".svg", ".gif") if name in SHEETS else (".gif",):
        grouping_pictures.draw(layer, plan, report, tmp_path / f"a{suffix}")
        check(tmp_path / f"a{suffix}")
    with Image.open(tmp_path / "a.gif") as image:
        assert getattr(image, "n_frames", 1) == max(drawn, 1)


def test_wrong_numbers_are_named() -> None:
    plan = zigzag.plan(PAPER)
    report = simulate(PAPER, plan)
    report.numeric = False
    assert "differ" in grouping_pictures.heading(PAPER, report, plan, None)[2]


# Files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.png.txt", ".png"])
def test_other_suffixes_are_refused_with_those_accepted(name: str, tmp_path: Path) -> None:
    plan = zigzag.plan(PAPER)
    with pytest.raises(InputError, match=r"\.png or \.svg or \.gif"):
        grouping_pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / name)
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        plotting.save(plotting.new_figure(1, 1), tmp_path / name)
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        plotting.draw_comparison([row("a", "m", 1)], tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_capital_suffixes_are_accepted(tmp_path: Path) -> None:
    plotting.save(plotting.new_figure(1, 1), tmp_path / "A.PNG")
    with Image.open(tmp_path / "A.PNG") as image:
        assert image.format == "PNG"


def test_a_missing_folder_is_refused_before_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grouping_pictures, "sheet", None)
    plan = zigzag.plan(PAPER)
    with pytest.raises(InputError, match="does not exist"):
        grouping_pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / "nowhere" / "a.png")


@pytest.mark.parametrize("suffix", grouping_pictures.ACCEPTED)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fails)
    plan = zigzag.plan(PAPER)
    with pytest.raises(OSError, match="disk full"):
        grouping_pictures.draw(PAPER, plan, simulate(PAPER, plan), path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("suffix", grouping_pictures.ACCEPTED)
def test_the_same_bytes_each_time(suffix: str, tmp_path: Path) -> None:
    plan = zigzag.plan(PAPER)
    report = simulate(PAPER, plan)
    contents = []
    for name in ("a", "b"):
        grouping_pictures.draw(PAPER, plan, report, tmp_path / (name + suffix))
        contents.append((tmp_path / (name + suffix)).read_bytes())
    assert contents[0] == contents[1]


def test_importing_is_cheap() -> None:
    code = "import sys, tilewright.grouping.plot; print({'matplotlib', 'PIL'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


def test_the_users_style_is_left_alone(tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 21, "text.usetex": True}):
        plan = zigzag.plan(PAPER)
        grouping_pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / "a.png")
        assert matplotlib.rcParams["font.size"] == 21


# What every room shares ----------------------------------------------------------------------------


def many_tensors(n_steps: int = 3) -> Report:
    """A report such as other rooms give: more tensors than colours, no timelines."""
    names = ["input", "kernels", *(f"t{i}" for i in range(12)), "output"]
    table = {name: np.full(n_steps, 5 + i, dtype=np.int64) for i, name in enumerate(names)}
    nothing = {name: np.zeros(n_steps, dtype=np.int64) for name in names}
    macs = np.ones(n_steps, dtype=np.int64)
    return Report(None, [""] * n_steps, table, nothing, table, nothing, table, macs, 0)


@pytest.mark.parametrize("capacity", [None, 300, 10**9])
def test_any_report_has_footprint_and_traffic(capacity: int | None, tmp_path: Path) -> None:
    figure = plotting.new_figure(9, 6)
    axes = [plotting.place(figure, 1, top, 6, 2) for top in (0.5, 3.2)]
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
    axes = [plotting.place(figure, 1, top, 6, 2) for top in (0.5, 3.2)]
    plotting.footprint_and_traffic(axes[0], axes[1], report)
    assert f"peak {report.peak:,} elements, step 778" in axes[0].get_title(loc="left")
    assert axes[0].get_ylim()[1] > report.peak
    tops = [patch.get_path().get_extents().y1 for patch in axes[0].patches]
    assert max(tops) == report.peak
    assert "blocks of 3" in axes[1].get_xlabel()


def test_a_timeline_says_what_it_leaves_out() -> None:
    plan = zigzag.plan(CASES["lenet"])
    report = simulate(CASES["lenet"], plan)
    figure = plotting.new_figure(9, 3)
    axes = plotting.place(figure, 1, 1, 7, 1)
    plotting.timeline(axes, report.overlapped, title="T")
    assert report.overlapped is not None
    title = axes.get_title(loc="left")
    assert title.startswith(f"T: {report.overlapped.cycles:,} cycles; only the first 40 of 197 steps")
    assert [label.get_text() for label in axes.get_yticklabels()] == ["load", "compute", "write"]


# Comparison ----------------------------------------------------------------------------------------


def row(instance: str, method: str, objective: int | None, bound: int | None = None) -> dict[str, Any]:
    return {"instance": instance, "method": method, "objective": objective, "bound": bound}


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
    shown = [plotting._percent(value) for value in (0.001, 0.05, 0.998, 1.26, 9.97, 31.4, 812.0)]
    assert shown == ["<0.01", "0.05", "1.0", "1.3", "10", "31", "812"]
