"""Pictures of allocation plans: whole files of every kind of plan, which show what was measured."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import in_turn, thinned
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from picture_checks import check, check_fits, imported, written

import tilewright
from tilewright.allocation import Plan, Problem, simulate
from tilewright.allocation import plot as pictures
from tilewright.allocation.measures import PipelinePoint
from tilewright.allocation.placement.snake import snake
from tilewright.allocation.placement.unplaced import floor_of
from tilewright.allocation.splits import LayerSplit, paper_split
from tilewright.simulator import Report
from tilewright.spec.errors import InputError

pytestmark = pytest.mark.filterwarnings("error")


def bundled(name: str) -> Problem:
    found = tilewright.read(name).problem
    assert isinstance(found, Problem)
    return found


def chain(count: int, array: tuple[int, int], *, wide: int = 4, name: str = "l{}", **more: Any) -> Problem:
    """Build a pipeline of equal convolutions on planes of 5x5."""
    layers = [
        {
            "name": name.format(i),
            "input": [wide, 5, 5],
            "kernels": wide,
            "kernel": [3, 3],
            "padding": [1, 1, 1, 1],
        }
        for i in range(count)
    ]
    machine = {"array": array, "clock_mhz": 100, **more.pop("machine", {})}
    return Problem.model_validate({"network": {"layers": layers}, "machine": machine, **more})


def plan(problem: Problem, *pes: int, pacing: str = "matched") -> Plan:
    """Divide filters among the PEs of each layer; one each, where nothing is said."""
    names = tuple(stage.name for stage in problem.stages)
    counts = pes or (1,) * len(names)
    return Plan(names, tuple(paper_split(problem.machine, count) for count in counts), pacing)


PAPER = bundled("mnist-tcpa")
FOUND = plan(PAPER, 4, 1, 8, 1, 2)
BRANCHES = Problem.model_validate(
    {
        "network": {
            "layers": [
                {"name": "a $x_", "input": [3, 6, 6], "kernels": 4, "kernel": [1, 1]},
                {"name": "b<&>", "input": [4, 6, 6], "kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
                {"name": "c", "kind": "add", "inputs": ["b<&>", "a $x_"], "input": [4, 6, 6]},
            ]
        },
        "machine": {"array": [3, 5], "clock_mhz": 1, "buffer_bytes": 400},
    }
)

CASES: dict[str, tuple[Problem, Plan]] = {
    "paper": (PAPER, FOUND),
    "placed": (PAPER, FOUND.placed(snake(floor_of(PAPER, FOUND)))),
    "uniform": (PAPER, plan(PAPER, 4, 1, 4, 1, 2, pacing="uniform")),
    "one after the other": (problem := bundled("mnist-tcpa-by-layer"), plan(problem, 12, 1, 16, 1, 16)),
    "branches": (BRANCHES, plan(BRANCHES, 1, 4, 1)),
    "one layer": (problem := chain(1, (1, 1)), plan(problem)),
    "one row": (problem := chain(3, (1, 40)), plan(problem, 4, 2, 4)),
    "one column": (problem := chain(3, (300, 1)), plan(problem, 4, 2, 4)),
    "long names": (problem := chain(4, (9, 9), name="{}" + "name/" * 30), plan(problem, 4, 4, 1, 2)),
    "large buffers": (problem := chain(4, (5, 5), machine={"buffer_bytes": 2**30}), plan(problem)),
    "many layers": (problem := chain(40, (46, 46), wide=50, name="part/{}/conv"), plan(problem, *[50] * 40)),
}


def panel(figure: Figure, letter: str) -> Any:
    """Return the axes whose title begins with a letter."""
    return next(axes for axes in figure.axes if axes.get_title(loc="left").startswith(f"({letter})"))


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    return {name: simulate(*case, overlapped=False) for name, case in CASES.items()}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", thinned(CASES, 2))
def test_every_kind_of_plan(name: str, reports: dict[str, Report], tmp_path: Path) -> None:
    assert reports[name].valid
    suffixes = in_turn(pictures.ACCEPTED, [*CASES].index(name))
    for suffix in suffixes:
        pictures.draw(*CASES[name], reports[name], tmp_path / f"a{suffix}", title="a $b^{ name & <tag>")
        check(tmp_path / f"a{suffix}")
    assert len(list(tmp_path.iterdir())) == len(suffixes)
    check_fits(pictures.sheet(*CASES[name], reports[name]))


def test_the_example_of_the_paper(reports: dict[str, Report]) -> None:
    report = reports["paper"]
    figure = pictures.sheet(PAPER, FOUND, report)
    measures = report.measures
    layers = measures.layers.values()
    told = {f"latency {measures.latency_cycles:,}", f"interval {measures.interval_cycles:,}"}
    assert {"Conv2\n8 PEs", "Pool1\n1 PE", "input", "output"} <= {*written(figure)}
    told |= {f"from {layer.start_cycles:,}" for layer in layers}
    told |= {f"{layer.load_cycles:,}" for layer in layers}
    told |= {f"frame {number + 1}" for number in range(measures.executed_frames)}
    assert told <= {*written(figure)}
    assert "placed along a snake" in panel(figure, "a").get_title(loc="left")


@pytest.mark.parametrize("name", ["paper", "one after the other", "branches", "uniform"])
def test_the_bars_are_what_was_measured(name: str, reports: dict[str, Report]) -> None:
    report, frames = reports[name], reports[name].measures.executed_frames
    figure = pictures.sheet(*CASES[name], report)
    layers = list(report.measures.layers.values())
    boxes = [
        np.array([path.get_extents().get_points() for path in bars.get_paths()])
        for bars in panel(figure, "b").collections
        if isinstance(bars, PolyCollection)
    ]
    # Of each layer the bars, one per frame, and of each bar the part that is work.
    for layer, bars, works in zip(layers, boxes[::2], boxes[1::2], strict=True):
        assert bars.shape == works.shape == (frames, 2, 2)
        (begin, low), (end, high) = bars[0]
        assert (begin, end - begin) == (layer.start_cycles, layer.busy_cycles)
        assert (works[:, :, 0] == bars[:, :, 0]).all()
        split = (works[0, 1, 1] - works[0, 0, 1]) / (high - low)
        assert split == pytest.approx(layer.work_cycles / layer.pace_cycles)
    assert report.scheduled is not None
    moved = [report.scheduled.engine.names.index(name) for name in ("load", "write")]
    computed = ~np.isin(report.scheduled.engine.codes, moved)
    assert max(bars.max() for bars in boxes) == report.scheduled.finish[computed].max()
    loads = [patch.get_width() for patch in panel(figure, "c").patches]
    assert loads[1::2] == [layer.load_cycles for layer in layers]
    *sizes, total = [patch.get_width() for patch in panel(figure, "d").patches]
    assert sizes == [*(layer.weights_elements for layer in layers), *(layer.buffer_words for layer in layers)]
    assert total == report.measures.storage_words


def test_layers_that_take_turns_have_bars_instead_of_places(reports: dict[str, Report]) -> None:
    figure = pictures.sheet(*CASES["one after the other"], reports["one after the other"])
    assert panel(figure, "a").get_title(loc="left") == "(a) PEs of each layer"
    bars = [patch.get_width() for patch in panel(figure, "a").patches]
    assert bars == [split.pes for split in CASES["one after the other"][1].splits]


# The array -------------------------------------------------------------------------------------------


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["paper", "branches", "many layers", "one row"])
def test_neighbours_differ(name: str) -> None:
    problem, found = CASES[name]
    owners = pictures._owners(problem, snake(floor_of(problem, found)))
    colours = np.array([*pictures._colours(owners, len(found.names)), "idle"])
    assert (colours[:-2] != colours[1:-1]).all()
    for one, other in ((owners[1:], owners[:-1]), (owners[:, 1:], owners[:, :-1])):
        assert ((colours[one] != colours[other]) | (one == other)).all()


def test_names_lie_inside_their_regions() -> None:
    inside = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 1, 1, 1]], dtype=np.bool_)
    assert pictures._box_middle(inside, 1, 4) == pytest.approx([2, 1.5])
    assert pictures._box_middle(inside, 3, 2) == pytest.approx([1, 0.5])
    assert pictures._box_middle(inside, 0.1, 0.1) == pytest.approx([1, 1])
    assert pictures._box_middle(inside, 2, 3) is None
    assert pictures._box_middle(inside, 4, 1) is None


def test_hops_are_manhattan_distances() -> None:
    region = np.zeros((5, 7), dtype=np.bool_)
    region[1, 2] = region[4, 6] = True
    rows, columns = np.indices(region.shape)
    expected = np.minimum(abs(rows - 1) + abs(columns - 2), abs(rows - 4) + abs(columns - 6))
    assert (pictures._hops(region) == expected).all()


# Fronts ----------------------------------------------------------------------------------------------


FRONT = bundled("mnist-tcpa-pareto")
SIX = [(4, 1, 12, 1, 2), (8, 1, 12, 1, 2), (3, 1, 8, 1, 2), (2, 1, 6, 1, 1), (1, 1, 2, 1, 1), (1, 1, 1, 1, 1)]


@pytest.mark.nightly
@pytest.mark.parametrize("count", [1, 2, 6])
def test_a_front(count: int, tmp_path: Path) -> None:
    front = Plan.joined(tuple(plan(FRONT, *pes) for pes in SIX[:count]))
    report = simulate(FRONT, front, overlapped=False)
    assert report.valid
    for suffix in pictures.ACCEPTED:
        pictures.draw(FRONT, front, report, tmp_path / f"a{suffix}")
        check(tmp_path / f"a{suffix}")
    figure = pictures.sheet(FRONT, front, report)
    check_fits(figure)
    assert {" ".join(map(str, pes)) for pes in SIX[:count]} <= {*written(figure)}


def test_of_a_long_front_some_plans_are_listed() -> None:
    problem = chain(60, (20, 20))
    report = simulate(problem, plan(problem), overlapped=False)
    points = [
        PipelinePoint(interval_cycles=9000 - i, pes=60 + i, latency_cycles=90_000 - 7 * i) for i in range(300)
    ]
    report.measures = replace(report.measures, front=points[::-1], executed_plans=1)
    figure = pictures.sheet(problem, Plan.joined((plan(problem),) * len(points)), report)
    check_fits(figure)
    listed = pictures._Front.of(problem, report.measures.front).listed
    assert len(listed) <= pictures.MAX_LISTED + 1
    assert listed == sorted(listed, reverse=True)
    assert {0, 299} <= set(listed)
    assert "PEs of the layers" not in written(figure)


def test_a_front_of_interval_and_energy_draws_energies_over_rates() -> None:
    problem = bundled("mnist-tcpa-energy-front")
    front = Plan.joined(tuple(plan(problem, *pes) for pes in SIX[2:4]))
    report = simulate(problem, front, overlapped=False)
    assert report.valid
    figure = pictures.sheet(problem, front, report)
    check_fits(figure)
    assert {" ".join(map(str, pes)) for pes in SIX[2:4]} <= {*written(figure)}
    drawn = pictures.plot(problem, front, report)
    (dots,) = drawn.collections
    expected = [
        [problem.machine.frames_per_second(point.interval_cycles), point.energy_fj / 1e9]
        for point in report.measures.front
    ]
    assert np.allclose(dots.get_offsets(), expected)
    assert drawn.get_ylabel() == "energy of a frame, uJ"


# Plans that break a rule -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "broken",
    [
        plan(PAPER, 4, 1, 9, 1, 2),
        Plan(("x",), (LayerSplit(1),)),
        Plan.joined((FOUND, FOUND)),
    ],
    ids=["PEs", "layers", "front"],
)
def test_a_broken_plan_has_its_rule_and_its_pes(broken: Plan, tmp_path: Path) -> None:
    report = simulate(PAPER, broken)
    assert report.violation is not None
    pictures.draw(PAPER, broken, report, tmp_path / "a.png")
    check(tmp_path / "a.png")
    figure = pictures.sheet(PAPER, broken, report, title="a name")
    check_fits(figure)
    assert any(report.violation.rule in words for words in written(figure))
    assert {f"{split.pes:,}" for split in broken.splits} <= {*written(figure)}


def test_wrong_numbers_are_named(reports: dict[str, Report]) -> None:
    wrong = simulate(PAPER, FOUND, overlapped=False)
    wrong.numeric = False
    assert any("differ" in words for words in written(pictures.sheet(PAPER, FOUND, wrong)))


# One panel -------------------------------------------------------------------------------------------


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", CASES)
def test_layers_over_time_are_drawn_on_given_axes(name: str, reports: dict[str, Report]) -> None:
    figure = Figure(figsize=(9, 5))
    ax = figure.add_subplot()
    assert pictures.plot(*CASES[name], reports[name], ax=ax) is ax
    assert ax.get_title(loc="left").startswith("Layers over time")
    bars = [bars for bars in ax.collections if isinstance(bars, PolyCollection)]
    for layer, spans in zip(reports[name].measures.layers.values(), bars[::2], strict=True):
        assert spans.get_paths()[0].get_extents().x0 == layer.start_cycles
        assert spans.get_paths()[0].get_extents().width == layer.busy_cycles
    FigureCanvasAgg(figure).draw()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("count", [1, 2, 6])
def test_rates_of_a_front_are_drawn_on_given_axes(count: int) -> None:
    front = Plan.joined(tuple(plan(FRONT, *pes) for pes in SIX[:count]))
    report = simulate(FRONT, front, overlapped=False)
    figure = Figure()
    ax = figure.add_subplot()
    assert pictures.plot(FRONT, front, report, ax=ax) is ax
    assert ax.get_title(loc="left").startswith("Rate against PEs")
    shown = {x for x, _ in np.asarray(ax.collections[0].get_offsets()).tolist()}
    assert shown == {point.pes for point in report.measures.front}
    assert len(figure.axes) == 2  # the plans and their scale of colours
    FigureCanvasAgg(figure).draw()


def test_of_a_broken_plan_the_pes_are_drawn() -> None:
    broken = plan(PAPER, 4, 1, 9, 1, 2)
    ax = pictures.plot(PAPER, broken, simulate(PAPER, broken), ax=Figure().add_subplot())
    assert [patch.get_width() for patch in ax.patches] == [4, 1, 9, 1, 2]
    front = Plan.joined((FOUND, FOUND))
    ax = pictures.plot(PAPER, front, simulate(PAPER, front), ax=Figure().add_subplot())
    assert "breaks a rule" in ax.texts[0].get_text()


@pytest.mark.parametrize("name", ["paper", "one after the other", "long names"])
def test_without_axes_there_is_a_figure_of_pyplot(
    name: str, reports: dict[str, Report], new_figures: list[Figure]
) -> None:
    ax = pictures.plot(*CASES[name], reports[name])
    assert new_figures == [ax.figure]
    check_fits(new_figures[0])


def test_a_front_fits_on_a_figure_of_pyplot(new_figures: list[Figure]) -> None:
    front = Plan.joined(tuple(plan(FRONT, *pes) for pes in SIX))
    pictures.plot(FRONT, front, simulate(FRONT, front, overlapped=False))
    check_fits(new_figures[0])


# Files -----------------------------------------------------------------------------------------------


def test_other_suffixes_are_refused(reports: dict[str, Report], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"\.png or \.svg"):
        pictures.draw(PAPER, FOUND, reports["paper"], tmp_path / "a.gif")
    assert not list(tmp_path.iterdir())


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", pictures.ACCEPTED)
def test_the_same_bytes_each_time(suffix: str, reports: dict[str, Report], tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        pictures.draw(PAPER, FOUND, reports["paper"], tmp_path / (name + suffix))
        contents.append((tmp_path / (name + suffix)).read_bytes())
    assert contents[0] == contents[1]


def test_importing_is_cheap() -> None:
    assert imported("tilewright.allocation.plot", {"matplotlib", "PIL", "highspy", "networkx"}) == set()
