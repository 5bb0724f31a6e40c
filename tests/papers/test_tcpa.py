"""The TCPA paper: its published numbers, what is executed beside them, and the proven optima around them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path

import pytest

from tilewright.allocation import Plan, Problem, simulate
from tilewright.allocation.geometry import Scan
from tilewright.allocation.schedule import schedule
from tilewright.allocation.splits import LayerSplit, paper_split
from tilewright.papers.tcpa import equations, reproduce
from tilewright.papers.tcpa.cases import (
    SPREAD,
    Case,
    best,
    best_by_pes,
    bundled,
    figure_7,
    optimum,
    problem,
    published,
    storage,
    table_1,
)

PUBLISHED = published()

# Figure 7 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", range(5), ids=lambda n: PUBLISHED["figure_7"]["layers"][n]["name"])
def test_figure_7(number: int) -> None:
    row, case = PUBLISHED["figure_7"]["layers"][number], figure_7()
    stage, split, found = case.problem.stages[number], case.plan.splits[number], case.calculus
    ours = {
        "name": stage.name,
        "pes": split.pes,
        "alone": split.cycles(stage.task),
        "z_in": found.z_in[number],
        "z_out": found.z_out[number],
        "interval": found.intervals[number],
        "start": found.starts[number],
        "latency": found.latencies[number],
    }
    assert {key: ours[key] for key in row} == row
    assert found.latency == PUBLISHED["figure_7"]["latency"]


def test_figure_7_executed_row_by_row() -> None:
    """The first window of each layer needs two rows, or one and a part of the next, of the layer before."""
    measures = figure_7().measures
    after = (0, (28 + 2) * 54, (14 + 2) * 216, (14 + 2) * 324, (7 + 2) * 1296)
    starts = [sum(after[: number + 1]) for number in range(5)]
    assert [layer.start_cycles for layer in measures.layers.values()] == starts
    assert measures.latency_cycles == starts[-1] + 63_504
    assert measures.interval_cycles == figure_7().calculus.interval


def test_figure_7_executed_by_receptive_fields() -> None:
    """Windows that do not overlap start as the paper says; a 3 x 3 window's later steps need more."""
    case = figure_7("fields")
    starts = [layer.start_cycles for layer in case.measures.layers.values()]
    gaps = [later - earlier for earlier, later in pairwise(starts)]
    assert gaps == [4 * 54, 13 * 216 - 5 * 324, 4 * 324, 14 * 1296 - 5 * 1296]
    assert case.measures.latency_cycles == sum(gaps) + 63_504 < figure_7().measures.latency_cycles
    assert case.measures.interval_cycles == case.calculus.interval


# Table 1 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("title", [row["column"] for row in PUBLISHED["table_1"]])
def test_table_1(title: str) -> None:
    row, case = table_1()[title]
    rate = case.problem.machine.frames_per_second(case.calculus.interval)
    assert case.calculus.latency == row["latency"]
    assert round(rate, 1) == row["frames_per_second"]
    assert case.measures.frames_per_second == rate
    if not case.problem.parallel:
        assert case.measures.latency_cycles == row["latency"]


@pytest.mark.by_day(6)
@pytest.mark.parametrize("title", [row["column"] for row in PUBLISHED["table_1"]])
def test_the_plans_of_table_1_compute_the_right_numbers(title: str) -> None:
    _, case = table_1()[title]
    assert simulate(case.problem, case.plan, numeric=True, overlapped=False).numeric


def test_layer_by_layer_2_does_not_follow_from_equation_4() -> None:
    """With filters over 16 PEs and maps over units pools and Conv0 leave most of the array without work."""
    row, case = table_1()[SPREAD]
    plain = Case.of(case.problem, (paper_split(case.problem.machine, pes) for pes in row["pes"]))
    assert plain.calculus.z_out == (18, 48, 216, 48, 108)
    assert plain.calculus.latency == 73_500
    assert case.calculus.z_out == (9, 4, 216, 4, 108)


@pytest.mark.parametrize(
    ("title", "wider", "latency", "interval"),
    [
        ("layer-by-layer (1)", False, 159_936, 159_936),
        ("layer-by-layer (2)", False, 73_500, 73_500),
        ("layer-parallel (1)", False, 85_428, 63_504),
        ("layer-parallel (2)", False, 58_644, 42_336),
        ("layer-by-layer (1)", True, 138_768, 138_768),
        ("layer-by-layer (2)", True, 45_080, 45_080),
        ("layer-parallel (1)", True, 72_036, 52_920),
        ("layer-parallel (2)", True, 56_106, 42_336),
    ],
)
def test_optima_beside_table_1(title: str, wider: bool, latency: int, interval: int) -> None:
    case = best(title, wider=wider)
    assert (case.measures.latency_cycles, case.measures.interval_cycles) == (latency, interval)


# Sections 5.3 and 7 ----------------------------------------------------------------------------------


def test_storage_of_section_5_3() -> None:
    """The printed numbers are those of equation 16; the form before them has 2.54 and 0.41 kB."""
    of = problem()
    lines, corner = (equations.intermediate_storage(of, with_corner=form) for form in (False, True))
    ours = {stage.name: words / 1000 for stage, words in zip(of.stages, lines, strict=True)}
    for name, kilobytes in PUBLISHED["section_5_3"]["kilobytes"].items():
        assert round(ours[name], len(str(kilobytes).partition(".")[2])) == kilobytes
    assert equations.receptive_fields(of) == (18, 16, 8, 6, 3)
    assert (corner[2], corner[4]) == ((7 * 14 + 8) * 24, (2 * 7 + 3) * 24)


def test_a_fast_producer_fills_its_buffer() -> None:
    """Pool1 is half as fast again as Conv2; at its pace 32 pixels of 24 maps are held, two rows and a few."""
    found = storage()
    assert found.held["rows", "matched"][2] == 2208
    assert found.held["rows", "uniform"][2] == 32 * 24
    for (_, pacing), held in found.held.items():
        assert held[4] == 18 * 24, pacing


def test_section_7() -> None:
    data, of = PUBLISHED["section_7"], bundled("mnist-tcpa-100fps")
    rate = data["frames_per_second"]
    assert list(equations.fewest_pes(of, rate)) == data["pes"]
    for stage in of.stages:
        if stage.name in data["W"]:
            assert round(equations.most_filters(of, stage, rate), 1) == data["W"][stage.name]
    case = Case(of, *optimum(of))
    assert case.plan.pes == data["total"]
    assert case.measures.frames_per_second >= rate


# Every number of PEs ---------------------------------------------------------------------------------


def _every_plan(of: Problem, pes: int, wider: bool) -> Iterator[Plan]:
    """Yield every plan of at most `pes` PEs, also those whose PEs or units have nothing to do."""
    most = pes - len(of.stages) + 1
    splits = [
        LayerSplit(filters, maps, 1, *units)
        for filters, maps in product(range(1, most + 1), repeat=2)
        for units in ([(1, 1), (1, 2), (2, 1)] if wider else [(1, 2)])
        if filters * maps <= most and (wider or maps == 1)
    ]
    for chosen in product(splits, repeat=len(of.stages)):
        if sum(split.pes for split in chosen) <= pes:
            yield Case.of(of, chosen).plan


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("wider", "most"), [(False, 9), (True, 6)])
def test_the_best_plans_of_few_pes_are_those_of_brute_force(wider: bool, most: int) -> None:
    of = problem((1, most), wider=wider)
    scan = Scan(of)
    plans = [(plan.pes, schedule(of, plan, scan)) for plan in _every_plan(of, most, wider)]
    for pes in range(5, most + 1):
        case = best_by_pes(wider)[pes]
        expected = min((times.interval, times.latency, used) for used, times in plans if used <= pes)
        assert (case.measures.interval_cycles, case.measures.latency_cycles, case.plan.pes) == expected


def test_the_papers_plans_among_the_best() -> None:
    filters, both = (best_by_pes(wider) for wider in (False, True))
    for title, pes in (("layer-parallel (1)", 16), ("layer-parallel (2)", 20)):
        _, case = table_1()[title]
        assert filters[pes].notation == case.notation
        assert filters[pes].measures.interval_cycles == case.calculus.interval
    # A PE of the sixteen is spare, and two if Conv0's functional units split its filters.
    assert filters[15].times.interval == filters[16].times.interval < filters[14].times.interval
    assert [split.pes for split in filters[15].plan.splits] == [3, 1, 8, 1, 2]
    assert both[14].times.interval == filters[16].times.interval < both[13].times.interval
    assert filters[19].times.interval > filters[20].times.interval == both[18].times.interval


# Printing --------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_reproduce_prints_and_draws(tmp_path: Path) -> None:
    lines: list[str] = []
    reproduce("tcpa", time_limit=600, folder=tmp_path, say=lines.append)
    text = "\n".join(lines)
    for shown in (
        "66,528 | 66,528 =",
        "1,181.0 |  1,181.0 =",
        " 2.35 |  2.35 =",
        "94.5 |   94.5 =",
        "85,428",
    ):
        assert shown in text
    # No published number is missed.
    assert not re.search(r"\| +[\d,.]+ [+-]", text)
    assert {path.name for path in tmp_path.iterdir()} == {"tcpa-figure4.png", "tcpa-pes.png"}
