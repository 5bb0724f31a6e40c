"""The paper on tensor slicing for multicore NPUs: its table, its figures, and the fit of the machine."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pytest
from conftest import nightly
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.papers.tso import fitting, reproduce
from tilewright.papers.tso.bursts import slices_of_figure_1, worked_tiles
from tilewright.papers.tso.drawn import figure_6, figure_7
from tilewright.papers.tso.fitting import FITTED, measured, measured_fixed
from tilewright.papers.tso.plans import LOOSE, NAMES, STRATEGIES, choose, npu_of, solved
from tilewright.papers.tso.table_2 import print_comparison, ranking, trivial
from tilewright.run.instance import read
from tilewright.tiling import Plan, measured_objective, simulate, violation
from tilewright.tiling.npu.cost import OURS, Reading
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.kind import exhaustive
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES


@given(st.lists(st.tuples(*[st.integers(0, 6)] * 3), min_size=1, max_size=40))
def test_undominated(rows):
    counts = np.array(rows)
    for columns in (2, 3):
        expected = [
            row
            for number, row in enumerate(rows)
            if not any(
                all(a <= b for a, b in zip(other[:columns], row[:columns], strict=True))
                and (other[:columns] != row[:columns] or place < number)
                for place, other in enumerate(rows)
            )
        ]
        assert [tuple(row) for row in fitting.undominated(counts, columns)] == expected


# The paper's numbers --------------------------------------------------------------------------------------


@cache
def networks():
    return {network.name: network for network in solved()}


def test_worked_checks():
    """Figure 1, and the two tiles of InceptionV3's fifth convolution (section VI)."""
    assert [bursts for _, bursts in slices_of_figure_1()] == [1024, 512, 256]
    assert [bursts for _, bursts in worked_tiles()] == [70, 176]


@nightly
def test_fitted_times_are_what_the_fit_finds():
    machine = fitting.machine()
    assert machine == NpuMachine(kind="npu")  # the defaults are the file's
    space = fitting.PlanSpace(fitting.networks(), machine)
    found = fitting.whole(space)
    assert found.prices == (machine.cycle_ps, machine.byte_ps, machine.burst_ps)
    assert found.mean < 0.033
    free = fitting.fit(space)
    assert free.square <= found.square < free.square + 0.0005
    columns = [[networks()[name].burst, networks()[name].no_burst] for name in FITTED]
    again = np.array(columns) / np.array([measured()[name] for name in FITTED]) - 1
    assert again == pytest.approx(found.residuals)


@pytest.mark.nightly
def test_fixed_strategies_never_win():
    for network in networks().values():
        assert network.no_burst >= network.burst
        for group in (PARTITIONS, SCHEDULES):
            assert all(network.ratio(strategy) >= 1 for strategy in group)
    assert networks()["resnet50"].without("WS") == 3  # 512 filters of 512 maps of 3 x 3: a filter is 9 KB
    assert ranking({"a": 2.0, "b": 1.0, "c": 2.0001}) == "b < a = c"


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "lenet",
        "squeezenet",
        *(pytest.param(name, marks=nightly) for name in ("inceptionv3", "mobilenetv2", "resnet50")),
    ],
)
def test_plans_behind_the_table_survive_the_simulator(name):
    """Every partition and schedule of every layer, and the plans that do not know of bursts."""
    for layer in {id(layer): layer for layer in networks()[name].layers}.values():
        for plan in layer.plans:
            report = simulate(layer.problem, Plan((plan,)), overlapped=False)
            assert report.violation is None
            assert measured_objective(layer.problem, report) == layer.time(plan)


@pytest.mark.nightly
def test_a_small_layer_of_the_networks_is_computed_right():
    problem = read(catalogue.instance("tiling", "lenet-nmp")).problem
    for part in problem.parts:
        for plan in choose(part.problem).plans:
            assert simulate(part.problem, Plan((plan,)), numeric=True, overlapped=False).numeric


@pytest.mark.nightly
@pytest.mark.slow
def test_reproduce_prints_and_draws(tmp_path):
    lines = []
    reproduce("tso", time_limit=600, folder=tmp_path, say=lines.append)
    text = "\n".join(lines)
    for expected in ("72,686", "KS&OFM", "trivial", "1024 bursts", "70 bursts a tile", "OS or IS", "71.2 %"):
        assert expected in text
    assert {path.name for path in tmp_path.iterdir()} == {"tso-figure6.png", "tso-figure7.png"}
    one = [networks()["lenet"]]
    figure_6(one, tmp_path / "one.svg")
    figure_7(one, tmp_path / "other.svg")


def test_readings_that_are_printed_exist():
    assert {variant.reading for variant in fitting.VARIANTS.values()} >= {OURS, Reading(edges="full")}


@pytest.mark.nightly
def test_os_loads_the_input_again():
    """No tile has all filters of a core, where it has several: with those it is IS, too, and never slower."""
    for network in networks().values():
        assert network.fixed("OS") >= network.fixed(*LOOSE)
        assert network.fixed(*LOOSE) <= network.fixed("IS")
        for layer in network.layers:
            limited = layer.problem.with_(limits={"schedule": "OS"})
            found = layer.fixed("OS")
            assert found is not None and violation(limited, Plan((found.plan,))) is None
            cut = cut_of(layer.problem.one_layer, npu_of(layer.problem), found.plan.partition)
            assert cut.step(found.plan.tile)[0] < cut.sizes[0] or cut.sizes[0] == 1
            assert exhaustive(limited, float("inf")).value == found.value


def test_every_column_of_the_table_is_known():
    """The paper's own figures: speed-ups in its text follow from them."""
    columns = measured_fixed()
    assert tuple(columns) == STRATEGIES and all(set(column) == set(NAMES) for column in columns.values())
    for strategy, name, percent in (
        ("KS", "squeezenet", 32.6),
        ("KS&OFM", "mobilenetv2", 19.0),
        ("OFM", "resnet50", 41.0),
        ("OS", "resnet50", 28.6),
        ("WS", "inceptionv3", 39.8),
    ):
        assert columns[strategy][name] / measured()[name][0] - 1 == pytest.approx(percent / 100, abs=5e-4)


@pytest.mark.nightly
def test_os_is_apart_from_is_in_the_paper():
    """Mean distances of both readings over the fitted networks."""
    column = measured_fixed()["OS"]
    for reading, mean in ((("OS",), 5.7), (LOOSE, 16.6)):
        off = [abs(networks()[name].fixed(*reading) / column[name] - 1) for name in FITTED]
        assert 100 * sum(off) / len(off) == pytest.approx(mean, abs=0.05)


@pytest.mark.nightly
def test_columns_that_are_known_are_compared():
    """With made-up figures: of 10 % more the model is 9.1 % below; LeNet is shown but not averaged."""
    lines = []
    lenet, squeeze = networks()["lenet"], networks()["squeezenet"]
    made_up = {"KS": {"lenet": round(lenet.fixed("KS")), "squeezenet": round(1.1 * squeeze.fixed("KS"))}}
    print_comparison([lenet, squeeze], lines.append, made_up)
    assert next(line for line in lines if "SqueezeNet" in line).split()[5] == "-9.1"
    assert any("LeNet" in line for line in lines)
    mean, signed = (line.split()[-3:] for line in lines if line.split()[:2] == ["KS", "mean"])
    assert (mean[0], signed[0]) == ("+9.1", "-9.1")


# The page ---------------------------------------------------------------------------------------------------


def test_the_page_has_what_the_model_says():
    page = (Path(__file__).parents[2] / "docs" / "results" / "npu.md").read_text("utf-8")
    for network in networks().values():
        columns = [network.burst, network.no_burst, *(network.fixed(name) for name in STRATEGIES)]
        ratios = [f"{network.ratio(name):.3f}" for name in STRATEGIES]
        order = "; ".join(
            ranking({name: network.fixed(name) for name in group}) for group in (PARTITIONS, SCHEDULES)
        )
        for cells in ([f"{column:,.0f}" for column in columns], [*ratios, order]):
            assert f"| {NAMES[network.name]} | {' | '.join(cells)} |" in page
    prose = " ".join(page.split())
    constant = f"{trivial(list(networks().values())):.3f}"
    assert f"one constant ({constant}, the geometric mean" in prose
    for network in networks().values():
        theirs, burst = measured_fixed()["OS"][network.name], measured()[network.name][0]
        ratios = [network.ratio("OS"), network.ratio(*LOOSE), theirs / burst]
        far = [100 * (network.fixed(*reading) / theirs - 1) for reading in (("OS",), LOOSE)]
        cells = [*(f"{ratio:.3f}" for ratio in ratios), *(f"{one:+.1f}" for one in far)]
        assert f"| {NAMES[network.name]} | {' | '.join(cells)} |" in page
    lines = []
    print_comparison(list(networks().values()), lines.append)
    means = {tuple(line.split()[:3]): line.split()[-3:] for line in lines if line.split()[1:2] == ["mean"]}
    for number, label, words in (
        (0, "the model's time", "distance"),
        (0, "... with sign", "with"),
        (1, "the paper's Burst times the model's ratio", "distance"),
        (2, f"the paper's Burst times {constant}", "distance"),
    ):
        cells = [means[name, "mean", words][number] for name in (*STRATEGIES, "all")]
        told = cells if words == "with" else [cell.removeprefix("+") for cell in cells]
        assert f"| {label} | {' | '.join(told)} |" in page
