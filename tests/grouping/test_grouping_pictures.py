"""Pictures of grouping plans: whole files of every shape, of valid plans and of plans that break a rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from picture_checks import check, check_fits, imported, written
from PIL import Image

from tilewright import plotting
from tilewright.grouping import Plan, Problem, simulate
from tilewright.grouping import plot as pictures
from tilewright.grouping.animation import MAX_FRAMES
from tilewright.grouping.replay import MAX_TELLING, Pixel, replay
from tilewright.heuristics.grouping import zigzag
from tilewright.spec.errors import InputError, OutputError


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


FORMATS = [(name, suffix) for name in CASES for suffix in (".svg", ".gif")]


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("name", "suffix"), [*FORMATS, ("paper", ".png"), ("lenet", ".png")])
def test_every_format_of_every_shape(name: str, suffix: str, tmp_path: Path) -> None:
    plan = zigzag.plan(CASES[name])
    report = simulate(CASES[name], plan)
    assert report.valid
    path = tmp_path / f"picture{suffix}"
    pictures.draw(CASES[name], plan, report, path, title="a $b^{ name & <tag>")
    check(path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


@pytest.mark.nightly
def test_a_layer_of_thousands_of_steps(tmp_path: Path) -> None:
    big = problem([3, 226, 226], [3, 3], 16, kernels=64)
    plan = zigzag.plan(big)
    report = simulate(big, plan)
    for suffix in (".png", ".gif"):
        pictures.draw(big, plan, report, tmp_path / f"big{suffix}")
        check(tmp_path / f"big{suffix}")
    with Image.open(tmp_path / "big.gif") as image:
        assert image.n_frames == MAX_FRAMES


@pytest.mark.by_day(2)
@pytest.mark.parametrize("name", ["paper", "one step", "stride"])
def test_one_frame_per_step(name: str, tmp_path: Path) -> None:
    plan = zigzag.plan(CASES[name])
    pictures.draw(CASES[name], plan, simulate(CASES[name], plan), tmp_path / "a.gif")
    with Image.open(tmp_path / "a.gif") as image:
        assert getattr(image, "n_frames", 1) == plan.n_steps


@pytest.mark.parametrize("name", CASES)
def test_the_picture_shows_what_the_simulator_counted(name: str) -> None:
    layer = CASES[name]
    plan = zigzag.plan(layer)
    report = simulate(layer, plan)
    replayed = replay(layer, plan, report)
    n, depth = plan.n_steps, layer.pixel_elements
    assert [len(fresh) * depth for fresh in replayed.loaded] == report.loaded["input"][:n].tolist()
    assert [len(stale) * depth for stale in replayed.freed] == report.freed["input"][:n].tolist()
    assert (replayed.held * depth).tolist() == report.footprint["input"][:n].tolist()
    distinct = len(layer.needed_pixels)
    assert sum(map(len, replayed.loaded)) - replayed.reloaded.sum() == distinct
    for scene in replayed.scenes(np.arange(n)):
        counts = np.bincount(scene.plane.ravel(), minlength=6)
        loaded = counts[Pixel.LOADED] + counts[Pixel.AGAIN]
        assert loaded == len(replayed.loaded[scene.step])
        assert loaded + counts[Pixel.KEPT] == replayed.held[scene.step]
        assert counts[Pixel.AGAIN] == replayed.reloaded[scene.step]
        assert counts[Pixel.FREED] == len(replayed.freed[scene.step])


def test_the_telling_steps_are_few_and_ordered() -> None:
    plan = zigzag.plan(CASES["lenet"])
    chosen = replay(CASES["lenet"], plan, simulate(CASES["lenet"], plan)).telling_steps()
    assert len(chosen) == MAX_TELLING
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


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_plan_is_drawn_up_to_its_violation(name: str, tmp_path: Path) -> None:
    layer, plan, drawn = BROKEN[name]
    report = simulate(layer, plan)
    assert report.violation is not None
    assert replay(layer, plan, report).n_steps == drawn
    assert report.violation.rule in plotting.warning(report)
    for suffix in (".svg", ".gif") if name in SHEETS else (".gif",):
        pictures.draw(layer, plan, report, tmp_path / f"a{suffix}")
        check(tmp_path / f"a{suffix}")
    with Image.open(tmp_path / "a.gif") as image:
        assert getattr(image, "n_frames", 1) == max(drawn, 1)


def test_wrong_numbers_are_named() -> None:
    plan = zigzag.plan(PAPER)
    report = simulate(PAPER, plan)
    report.numeric = False
    assert any("differ" in words for words in written(pictures.sheet(PAPER, plan, report)))


# Files ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["a.jpg", "a", "a.png.txt", ".png"])
def test_other_suffixes_are_refused_with_those_accepted(name: str, tmp_path: Path) -> None:
    plan = zigzag.plan(PAPER)
    with pytest.raises(InputError, match=r"\.png or \.svg or \.pdf or \.gif"):
        pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_refused_before_drawing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pictures, "sheet", None)
    plan = zigzag.plan(PAPER)
    with pytest.raises(InputError, match="does not exist"):
        pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / "nowhere" / "a.png")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", pictures.ACCEPTED)
def test_a_failure_leaves_the_old_file_and_nothing_else(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")

    def fails(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fails)
    plan = zigzag.plan(PAPER)
    with pytest.raises(OutputError, match="disk full"):
        pictures.draw(PAPER, plan, simulate(PAPER, plan), path)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]
    assert path.read_bytes() == b"old"


@pytest.mark.nightly
@pytest.mark.parametrize("suffix", pictures.ACCEPTED)
def test_the_same_bytes_each_time(suffix: str, tmp_path: Path) -> None:
    plan = zigzag.plan(PAPER)
    report = simulate(PAPER, plan)
    contents = []
    for name in ("a", "b"):
        pictures.draw(PAPER, plan, report, tmp_path / (name + suffix))
        contents.append((tmp_path / (name + suffix)).read_bytes())
    assert contents[0] == contents[1]


def test_importing_is_cheap() -> None:
    assert imported("tilewright.grouping.plot", {"matplotlib", "PIL", "highspy", "networkx"}) == set()


def test_the_users_style_is_left_alone(tmp_path: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 21, "text.usetex": True}):
        plan = zigzag.plan(PAPER)
        pictures.draw(PAPER, plan, simulate(PAPER, plan), tmp_path / "a.png")
        assert matplotlib.rcParams["font.size"] == 21


# One panel -----------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", CASES)
def test_patches_are_drawn_on_given_axes(name: str) -> None:
    plan = zigzag.plan(CASES[name])
    figure = Figure()
    ax = figure.add_subplot()
    assert pictures.plot(CASES[name], plan, simulate(CASES[name], plan), ax=ax) is ax
    steps = np.asarray(ax.images[0].get_array())
    assert steps.shape == CASES[name].grid
    for number, group in enumerate(plan.groups, 1):
        assert all(steps[patch] == number for patch in group)
    FigureCanvasAgg(figure).draw()


@pytest.mark.nightly
def test_numbers_are_left_out_where_they_cannot_be_read() -> None:
    big = problem([3, 226, 226], [3, 3], 16)
    plan = zigzag.plan(big)
    report = simulate(big, plan)
    figure = Figure()
    ax = pictures.plot(big, plan, report, ax=figure.add_subplot())
    assert not ax.texts
    assert len(figure.axes) == 2  # the patches and their scale of colours
    assert len(pictures.plot(PAPER, zigzag.plan(PAPER), report, ax=Figure().add_subplot()).texts) == 9


@pytest.mark.parametrize("name", BROKEN)
def test_patches_of_a_broken_plan_are_drawn_up_to_its_violation(name: str) -> None:
    layer, plan, drawn = BROKEN[name]
    ax = pictures.plot(layer, plan, simulate(layer, plan), ax=Figure().add_subplot())
    steps = np.ma.asarray(ax.images[0].get_array())
    reached = np.argwhere(~np.ma.getmaskarray(steps)).tolist()
    first: dict[tuple[int, int], int] = {}
    for number, group in enumerate(plan.groups[:drawn], 1):
        for patch in group:
            first.setdefault(patch, number)
    assert {(row, col): steps[row, col] for row, col in reached} == first


def test_without_axes_there_is_a_figure_of_pyplot(new_figures: list[Figure]) -> None:
    plan = zigzag.plan(PAPER)
    ax = pictures.plot(PAPER, plan, simulate(PAPER, plan))
    assert new_figures == [ax.figure]
    check_fits(new_figures[0])
