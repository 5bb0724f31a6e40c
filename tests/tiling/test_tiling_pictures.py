"""Pictures of plans on the imaging DSP and on an NPU, and the bundled instances of the thesis."""

from __future__ import annotations

from pathlib import Path

import pytest
from matplotlib.figure import Figure
from picture_checks import check, check_fits, written

from tilewright.core import catalogue
from tilewright.run.instance import parse, read
from tilewright.tiling import Plan, Problem, simulate
from tilewright.tiling import plot as pictures
from tilewright.tiling.dsp.kind import exhaustive
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.npu import kind as npu
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.plots import network
from tilewright.tiling.plots.page import add_up


@pytest.mark.parametrize("name", [path.stem for path in catalogue.instances("tiling") if "idsp" in path.stem])
def test_instances_are_read(name: str) -> None:
    instance = read(name)
    assert instance.name == name
    assert instance.source
    assert instance.problem.machine.macs_per_cycle == 32


def _solved(problem: Problem) -> Plan:
    plans = []
    for _, part in problem.parts:
        found = exhaustive(part, float("inf"))
        assert found is not None
        plans.append(Plan(found[1], front=problem.minimise == "pareto"))
    return plans[0] if problem.network is None else Plan.joined(plans)


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    "name", ["alexnet-conv3-64k", "alexnet-fc6-idsp", "lenet5-conv2-idsp", "lenet5-idsp"]
)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_plans_are_drawn(name: str, suffix: str, tmp_path: Path) -> None:
    """A layer, a fully connected one, a front and a network."""
    problem = read(name).problem
    plan = _solved(problem)
    path = tmp_path / f"plan{suffix}"
    pictures.draw(problem, plan, simulate(problem, plan), path, title=name)
    assert path.stat().st_size > 10_000


@pytest.mark.nightly
def test_a_pdf_is_the_same_each_time(tmp_path: Path) -> None:
    problem = read("lenet5-conv2-idsp").problem
    plan = _solved(problem)
    for name in ("one.pdf", "other.pdf"):
        pictures.draw(problem, plan, simulate(problem, plan), tmp_path / name)
        check(tmp_path / name)
    assert (tmp_path / "one.pdf").read_bytes() == (tmp_path / "other.pdf").read_bytes()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("network", [False, True])
def test_plans_that_break_a_rule_are_drawn(network: bool, tmp_path: Path) -> None:
    instance = read("lenet5-idsp" if network else "alexnet-conv3-64k").problem
    tiles = [tuple(nest_of(part.one_layer, part.machine).sizes) for _, part in instance.parts]
    plan = Plan(tuple(DspPlan(tile, "ncyxk", "halo") for tile in tiles))  # type: ignore[arg-type]
    report = simulate(instance, plan)
    assert report.violation is not None
    pictures.draw(instance, plan, report, tmp_path / "broken.png")
    assert (tmp_path / "broken.png").stat().st_size > 10_000


@pytest.mark.nightly
def test_a_wide_network_has_rows_of_its_longest_layers() -> None:
    """The others share a row, so that all rows together are the whole network; an NPU's time has parts."""
    layers = [
        {"name": f"l{n}", "input": [2, 4 + n // 2, 5], "kernels": 2, "kernel": [3, 3]}
        for n in range(network.MOST_LAYERS + 5)
    ]
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": {"kind": "npu"}})
    plan = Plan((NpuPlan("KS", "OS", (1, 2, 1, 3)),) * len(layers))
    report = simulate(problem, plan)
    rows = network.rows_of(problem, report)
    assert len(rows) == network.MOST_LAYERS and rows[-1].words == "6 other layers"
    assert sorted(name for row in rows for name in row.layers) == sorted(name for name, _ in problem.parts)
    times = {name: one.sequential.cycles for name, one in report.layers}  # type: ignore[union-attr]
    assert [times[row.layers[0]] for row in rows[:-1]] == sorted(times.values(), reverse=True)[:-6]
    split = network._time_split(report.layers[0][1], problem)
    assert all(part > 0 for part in split.values())
    assert sum(split.values()) == pytest.approx(1e-6 * times["l0"])
    figure = pictures.sheet(problem, plan, report)
    check_fits(figure)
    assert any("× the bound (ticks)" in words for words in written(figure))


def test_an_npu_gets_bars_for_each_operand(tmp_path: Path) -> None:
    """What the cores have of an operand is one bar; the time is that of the report."""
    machine, layer = {"kind": "npu"}, {"input": [8, 14, 14], "kernels": 16, "kernel": [3, 3]}
    problem = Problem.model_validate({"layer": layer, "machine": machine})
    found = npu.exhaustive(problem, float("inf"))
    assert found is not None
    plan = Plan(found[1])
    report = simulate(problem, plan)
    loaded = add_up(report, report.loaded)
    assert sum(loaded.values()) == sum(report.total(counts) for counts in report.loaded.values())
    assert set(loaded) == {"input", "weights", "output"}
    pictures.draw(problem, plan, report, tmp_path / "npu.png")
    assert (tmp_path / "npu.png").stat().st_size > 10_000


@pytest.mark.nightly
def test_all_reuses_and_long_planes_are_drawn(tmp_path: Path) -> None:
    layer = {"input": [8, 6, 300], "kernels": 8, "kernel": [3, 3], "groups": 2, "stride": [1, 2], "batch": 2}
    for number, (order, reuse) in enumerate([("kncyx", "none"), ("nkyxc", "tile"), ("cknyx", "halo")]):
        problem = parse(
            {
                "room": "tiling",
                "layer": layer,
                "machine": {"kind": "dsp", "memory_bytes": 4000, "double_buffering": bool(number)},
            }
        ).problem
        plan = Plan((DspPlan((1, 1, 2, 2, 20, 2), order, reuse),))
        report = simulate(problem, plan)
        assert report.violation is None
        pictures.draw(problem, plan, report, tmp_path / f"{number}.png")
        assert (tmp_path / f"{number}.png").stat().st_size > 10_000


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["alexnet-conv3-64k", "lenet5-conv2-idsp", "lenet5-idsp"])
def test_one_panel_is_drawn_on_given_axes(name: str, new_figures: list[Figure]) -> None:
    """A layer's and a network's traffic, and the plans of a front."""
    problem = read(name).problem
    plan = _solved(problem)
    report = simulate(problem, plan)
    ax = Figure().add_subplot()
    assert pictures.plot(problem, plan, report, ax=ax) is ax
    if problem.minimise == "pareto":
        assert ax.lines[1].get_xydata().shape == (len(report.measures.front), 2)  # type: ignore[union-attr]
    else:
        moved = sum(
            int(counts.sum()) for table in (report.loaded, report.written) for counts in table.values()
        )
        size = 1 if problem.network is None else problem.machine.element_bytes  # type: ignore[union-attr]
        assert sum(patch.get_width() for patch in ax.patches) == size * moved
    assert pictures.plot(problem, plan, report).figure in new_figures
    check_fits(new_figures[0])
