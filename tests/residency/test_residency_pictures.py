"""Pictures of residency plans: whole files, with nothing beyond the page and no text on another."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from picture_checks import check, check_fits, written
from residency_cases import problem_of

from tilewright.core import catalogue
from tilewright.heuristics.residency import fused_layers, layer_by_layer
from tilewright.residency import Plan, Problem, plot, simulate
from tilewright.spec.network import Network
from tilewright.spec.validation import validated

pytestmark = pytest.mark.filterwarnings("error")

CONV = {"kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1], "input": [4, 12, 12]}
ODD = {"layers": [{"name": name, **CONV} for name in ("a $x_", "b<&>", "é/" * 60)]}


def bundled(name: str, kilobytes: int) -> Problem:
    network = validated(Network, catalogue.shared("networks", name))
    return Problem.model_validate({"network": network, "machine": {"memory_bytes": kilobytes * 1024}})


IN_FLASH = {"memories": [{"name": "flash", "bytes": 2**20, "read_only": True}], "dram": False}

CASES = {
    "one step": (bundled("mb28", 64), fused_layers.plan),
    "without DRAM": (bundled("mb28", 512).with_(machine=IN_FLASH), layer_by_layer.plan),
    "odd names": (problem_of(ODD, 700), layer_by_layer.plan),
    "names across": (bundled("resnet8", 64), fused_layers.plan),
    "long names": (bundled("squeezenet", 40), fused_layers.plan),
    "many steps": (bundled("mobilenetv2", 64), layer_by_layer.plan),
}


def sheet(case: str) -> tuple[Problem, Plan, Figure]:
    problem, method = CASES[case]
    plan = method(problem)
    return problem, plan, plot.sheet(problem, plan, simulate(problem, plan))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_cut_off_and_no_text_lies_on_another(case: str) -> None:
    _, plan, figure = sheet(case)
    check_fits(figure)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    names = [text for text in figure.axes[0].get_xticklabels() if text.get_rotation()]
    level = [
        (text.get_text(), text.get_window_extent(renderer))
        for text in figure.findobj(Text)
        if isinstance(text, Text)
        and text.get_text().strip()
        and text.get_visible()
        and not text.get_rotation()
    ]
    for (one, box), (other, another) in combinations(level, 2):
        assert not box.padded(-1).overlaps(another.padded(-1)), (one, other)
    below = [
        box.y1 for told, box in level if told == "Traffic with DRAM" or told.startswith("layer by layer")
    ]
    assert len(below) == 2
    assert all(text.get_window_extent(renderer).y0 > max(below) for text in names)
    ticks = [float(text.get_text()) for text in figure.axes[1].get_xticklabels()]
    assert all(tick == int(tick) for tick in ticks)
    assert f"{len(plan.steps)} of " in " ".join(written(figure))


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_files_are_whole(suffix: str, tmp_path: Path) -> None:
    problem, method = CASES["odd names"]
    plan = method(problem)
    path = tmp_path / f"plan.{suffix}"
    plot.draw(problem, plan, simulate(problem, plan), path)
    check(path)


def test_a_plan_that_breaks_a_rule_says_so() -> None:
    problem, plan, _ = sheet("names across")
    tight = problem.with_(machine={"memory_bytes": 4096})
    report = simulate(tight, plan)
    assert report.violation is not None
    assert any("does not" in text or "memory" in text for text in written(plot.sheet(tight, plan, report)))
