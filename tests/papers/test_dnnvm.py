"""The DNNVM paper: its published numbers beside what the model says of the same networks and machine."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import nightly, thinned

from tilewright.fusion import objective, violation
from tilewright.heuristics.fusion import layerwise
from tilewright.papers.dnnvm import figures as reproduce
from tilewright.papers.dnnvm import optimum as reproduce_optimum
from tilewright.papers.dnnvm import table2
from tilewright.papers.dnnvm.benchmarks import (
    NAMES,
    READINGS,
    benchmark,
    bundled,
    machine,
    nodes,
    problem,
    published,
    table_2,
    templates,
    with_templates,
)
from tilewright.papers.dnnvm.fit import Baselines
from tilewright.papers.dnnvm.methods import Solved, solved
from tilewright.papers.dnnvm.pairs import figure_5, figure_6
from tilewright.papers.dnnvm.table2 import distances, print_table_4

PAPER = table_2()


class Rows(Mapping[str, Solved]):
    """What the methods make of the networks of table 2; each is solved when it is first asked for."""

    def __init__(self) -> None:
        self.solved: dict[str, Solved] = {}

    def __getitem__(self, name: str) -> Solved:
        if name not in self.solved:
            self.solved[name] = solved(problem(benchmark(name)))
        return self.solved[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@pytest.fixture(scope="module")
def rows() -> Mapping[str, Solved]:
    return Rows()


@pytest.fixture(scope="module")
def baselines() -> Baselines:
    return Baselines()


# Table 2 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_nodes(name: str) -> None:
    assert nodes(benchmark(name)) == PAPER[name]["nodes"]


@pytest.mark.by_day(9)
@pytest.mark.parametrize("name", NAMES)
def test_published_times_rates_and_speedups_agree(name: str) -> None:
    row, work = PAPER[name], 2e-6 * sum(op.macs for op in problem(benchmark(name)).ops)
    for column in ("baseline", "fused"):
        assert work / row[f"{column}_ms"] == pytest.approx(row[f"{column}_gops"], rel=0.005)
    assert round(row["baseline_ms"] / row["fused_ms"], 2) == row["speedup"]


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_without_fusion(name: str, rows: Mapping[str, Solved]) -> None:
    ours = rows[name].milliseconds("layerwise")
    assert ours == pytest.approx(PAPER[name]["baseline_ms"], rel=0.055), f"{name}: {ours:.3f} ms"
    assert rows[name].gops("layerwise") == pytest.approx(PAPER[name]["baseline_gops"], rel=0.055)


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["paper", "optimum"])
def test_fused(method: str, rows: Mapping[str, Solved]) -> None:
    """Nothing is fitted on these."""
    off = distances(rows, method)
    assert np.mean(off) < 0.05 and max(off) < 0.10, off


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_speedup(name: str, rows: Mapping[str, Solved]) -> None:
    one, theirs = rows[name], PAPER[name]["speedup"]
    assert one.speedup("paper") == pytest.approx(theirs, abs=0.07)
    assert one.speedup("optimum") == pytest.approx(theirs, abs=0.07)


@pytest.mark.nightly
@pytest.mark.parametrize("name", NAMES)
def test_methods_are_ordered_and_their_plans_are_valid(name: str, rows: Mapping[str, Solved]) -> None:
    one = rows[name]
    assert one.proven
    assert one.speedup("optimum") >= max(one.speedup("paper"), one.speedup("greedy")) >= 1
    for method in one.chosen:
        cycles = objective(one.problem, one.plan(method))
        assert violation(one.problem, one.plan(method)) is None
        assert one.problem.machine.milliseconds(cycles) == one.milliseconds(method)


@pytest.mark.nightly
def test_execution(rows: Mapping[str, Solved]) -> None:
    one = rows["googlenet"]
    measures = one.executed("optimum")
    assert measures.traffic_bytes == round(1e6 * one.megabytes("optimum"))
    assert measures.gops_per_second == pytest.approx(one.gops("optimum"))
    operations = 2 * sum(op.macs for op in one.problem.ops)
    assert measures.ops_per_byte == pytest.approx(operations / measures.traffic_bytes)


def test_more_templates_are_never_worse() -> None:
    of = problem(benchmark("resnet50-caffe"))
    times = [solved(with_templates(of, templates(one))).milliseconds("optimum") for one in READINGS]
    assert all(later <= earlier for earlier, later in pairwise(times))


def test_normalisations_are_left_out_as_the_node_count_says() -> None:
    kept = benchmark("googlenet", normalised=True)
    assert nodes(kept) == PAPER["googlenet"]["nodes"] + 2
    assert len(kept.layers) == len(benchmark("googlenet").layers) + 2
    assert kept.macs == benchmark("googlenet").macs


# The fit -----------------------------------------------------------------------------------------------


@nightly
def test_the_bundled_machine_is_where_the_fit_is_flat(baselines: Baselines) -> None:
    """The values are rounded: no neighbour fits better by more than a tenth of a point."""
    zu2 = machine()
    taken = baselines.fit(zu2.load_mb_per_s, zu2.operands_per_cycle, zu2.issue_cycles)
    assert zu2.save_mb_per_s == zu2.load_mb_per_s
    assert max(map(abs, taken.distances)) < 0.055
    for bandwidth in (-100, 0, 100):
        near = baselines.fit(zu2.load_mb_per_s + bandwidth, zu2.operands_per_cycle)
        assert near.rms > taken.rms - 0.001


@pytest.mark.nightly
def test_issue_is_fitted_by_least_squares(baselines: Baselines) -> None:
    least = baselines.fit(1900, 48)
    assert all(baselines.fit(1900, 48, least.issue + more).rms > least.rms for more in (-50, 50))


def test_the_fit_counts_what_the_networks_take(baselines: Baselines) -> None:
    zu2 = machine()
    times = baselines.milliseconds(zu2.load_mb_per_s, zu2.operands_per_cycle, zu2.issue_cycles)
    problems = [problem(benchmark(name)) for name in NAMES]
    alone = [objective(of, layerwise.plan(of)) for of in problems]
    assert times == pytest.approx([zu2.milliseconds(cycles) for cycles in alone])


DISTANCES = {
    "vgg16-caffe": ["+22.5 %", "+2.8 %", "+1.3 %"],
    "resnet50-caffe": ["-1.2 %", "+16.9 %", "+26.7 %"],
    "googlenet": ["+20.1 %", "+32.1 %", "+8.1 %"],
}


@pytest.mark.nightly
@pytest.mark.slow
def test_table_4_is_printed_with_its_distances(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of one network; of all with `-m nightly`."""
    names = thinned(DISTANCES, len(DISTANCES))
    some = {column: {name: published()[column][name] for name in names} for column in table2.COLUMNS}
    monkeypatch.setattr(table2, "published", lambda: some)
    lines: list[str] = []
    print_table_4(60, lines.append)
    page = (Path(__file__).parents[2] / "docs" / "dnnvm.md").read_text("utf-8")
    rows: dict[str, list[str]] = {}
    for line in lines:
        if (name := line.split()[0]) in NAMES.values():
            theirs, ours, off, optimum = np.array(line.split())[[1, 3, 4, 5]]
            rows.setdefault(name, []).extend((theirs, ours, off.replace("%", " %"), optimum))
    assert {name: row[2::4] for name, row in rows.items()} == {NAMES[name]: DISTANCES[name] for name in names}
    for name, row in rows.items():
        assert f"| {name} | {' | '.join(row)} |" in page


def test_table_3_has_the_rates_of_vgg16_by_its_watts() -> None:
    for board, gops in (
        ("zu2", PAPER["vgg16-caffe"]["fused_gops"]),
        ("zu9", published()["table_4"]["vgg16-caffe"]),
    ):
        row = published()["table_3"][board]
        assert round(gops / row["watts"], 1) == row["gops_per_watt"]


def test_peaks_of_section_3_1() -> None:
    zu2, zu9 = machine(), machine("dnnvm-zu9")
    assert round(2 * zu2.macs_per_cycle * zu2.clock_mhz / 1e3) == 380
    assert round(2 * zu9.macs_per_cycle * zu9.clock_mhz / 1e6, 2) == 4.06  # the text rounds down, 4.05
    assert (zu2.buffer_bytes, zu9.buffer_bytes) == (660_000, 3_999_999)


# Figures 5 and 6 -----------------------------------------------------------------------------------------


def test_figure_5_contradicts_itself() -> None:
    """What is transferred are the maps, a hundred times the text's number; the time is below any possible."""
    data, case = published()["figure_5"], figure_5()
    before, after = case.maps
    assert before == 28 * 28 * (32 + 3 * 256)
    assert round(before / 1e5, 2) == data["transfer_kb"]
    assert round(100 * (1 - after / before), 1) == data["less_transfer"]
    assert round(case.giga_operations, 2) == data["giga_operations"]
    conv = data["milliseconds"][0]
    peak = 2 * case.problem.machine.macs_per_cycle * case.problem.machine.clock_mhz / 1e3
    assert case.giga_operations / conv * 1e3 > 2 * peak
    assert case.milliseconds(case.alone) > case.milliseconds(case.together)
    small = figure_5(96)
    assert small.milliseconds(small.alone[:1]) == pytest.approx(conv, rel=0.1)


def test_figure_6() -> None:
    """Nothing is fitted on it: each operation is within 7 %, all of them fused within 2 %."""
    data, case = published()["figure_6"], figure_6()
    for theirs, one in zip(data["milliseconds"], case.alone, strict=True):
        assert case.milliseconds([one]) == pytest.approx(theirs, rel=0.07)
    assert case.milliseconds(case.together) == pytest.approx(data["fused_ms"], rel=0.02)
    before, after = case.maps
    assert round(100 * (1 - after / before), 1) == data["less_transfer"]
    assert 100 * case.less_transfer == pytest.approx(data["less_transfer"], abs=0.5)
    # The text's 2.2 is of the two operations that are fused, not of all three.
    first, *rest = data["milliseconds"]
    assert sum(rest) / (data["fused_ms"] - first) == pytest.approx(2.27, abs=0.01)
    assert case.speedup == pytest.approx(sum(data["milliseconds"]) / data["fused_ms"], abs=0.07)


# Optima --------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_where_the_papers_algorithm_loses() -> None:
    one = solved(problem(bundled("squeezenet"), reading=None))
    losses = reproduce_optimum.losses(one)
    assert one.proven
    assert sum(loss.cycles for loss in losses) == sum(group.cost for group in one.chosen["paper"]) - sum(
        group.cost for group in one.chosen["optimum"]
    )
    missed = [group for loss in losses if loss.cycles > 0 for group in loss.optimum]
    assert any(reproduce_optimum.barriers(one, group) for group in missed)
    assert not any(reproduce_optimum.barriers(one, group) for group in one.chosen["paper"])


# Printing --------------------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_reproduce_prints_and_draws(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce_optimum, "networks", lambda: map(bundled, ("squeezenet",)))
    monkeypatch.setattr(table2, "NAMES", {"resnet50-caffe": NAMES["resnet50-caffe"]})
    monkeypatch.setattr(table2, "READINGS", {table2.USED: READINGS[table2.USED]})
    monkeypatch.setattr(table2, "table_2", lambda: {"resnet50-caffe": PAPER["resnet50-caffe"]})
    for part in ("print_table_4", "print_table_3", "_print_normalised"):  # of other networks
        monkeypatch.setattr(table2, part, lambda *_: None)
    lines: list[str] = []
    made: dict[str, Any] = {"time_limit": 200, "folder": tmp_path, "say": lines.append}
    for figure in reproduce.FIGURES:
        if figure not in ("dnnvm", "dnnvm-fit"):
            reproduce.reproduce(figure, **made)
    text = "\n".join(lines)
    for shown in (
        "Speed-up by fusion",
        "optima are proven",
        "856 GOPs/s; the peak is 380",
        "36.4 % of maps alone",
        "squeezenet",
        "barriers inside the optimum's group",
    ):
        assert shown in text
    drawn = {"dnnvm-figure5.png", "dnnvm-figure6.png", "dnnvm-optimum.png"}
    assert {path.name for path in tmp_path.iterdir()} == drawn
