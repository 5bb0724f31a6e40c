"""What people see of a plan on a hierarchy: bytes, energy and cycles add up, and pictures are readable."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator
from math import ceil
from pathlib import Path
from random import Random
from typing import Any

import hierarchies
import pytest
from conftest import THOROUGH
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from picture_checks import check_fits, written
from searches import proven_best

import tilewright
from tilewright.run.instance import read
from tilewright.simulator import Report
from tilewright.tiling import Plan, Problem, simulate
from tilewright.tiling import plot as pictures
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.summary import rows, table


def executed(seeds: range, most: int = 2000) -> Iterator[tuple[int, Problem, Plan, Report]]:
    """Yield valid random plans, on machines of which some choose what they hold, keep halos, are uneven."""
    for seed in seeds:
        rng = Random(seed)
        fields = {"choosing": seed % 2 == 0, "sliding": seed % 3 == 0, "uneven": seed % 4 < 2}
        machine = hierarchies.machine(rng, roomy=True, **fields)
        layer = hierarchies.layer(rng, most)
        kept = rng.choice(machine.choices)
        nest = hierarchies.nest(rng, layer, machine.keeping(kept)).nest
        plan = Plan((HierarchyPlan(nest, kept),))
        problem = Problem(layer=layer, machine=machine)
        report = simulate(problem, plan)
        if report.violation is None:
            yield seed, problem, plan, report


def test_what_cycles_leave_out_by_hand() -> None:
    """A product of 64 x 64 and 64 x 256 in blocks of 16 rows, whose DRAM moves 8 bytes a cycle.

    Before the first step come all 16,384 inputs and 256 weights, in 2,080 cycles; multiplying takes 4,096;
    after the last step go 16 x 256 outputs, in 512. Between the steps 15 times 256 weights go on at 16 bytes
    a cycle, and three times 16 x 256 outputs at 64, for which the multipliers wait.
    """
    table = {
        "layer": {"input": [64, 16, 16], "kernels": 64, "kernel": [1, 1]},
        "machine": hierarchies.NPU_LIKE,
    }
    one = Problem.model_validate(table | {"objective": {"minimise": "cycles"}})
    result = tilewright.solve(one, time_limit=60)
    assert result.objective == 4608
    measures = result.measures
    assert (measures.filling_cycles, measures.draining_cycles) == (2080, 512)
    assert measures.filled_cycles == 2080 + 4096 + 512 + 15 * 16 + 3 * 64 == 7120
    told = "2,080 cycles of filling and 512 cycles of draining; with them at least 7,120 cycles, 54.5 % more"
    assert dict(result._rows())["left out"] == told


def test_bytes_and_energy_add_up() -> None:
    """Bytes are elements times widths; bytes times prices, and the MACs', are the energy."""
    valid = 0
    for seed, problem, _, report in executed(range(150)):
        valid += 1
        machine, measured = problem.machine, report.measures
        assert machine.kind == "hierarchy"
        picojoules = report.macs.sum() * (machine.mac_pj or 0)
        spent = measured.mac_aj
        for level in machine.levels:
            if level.fanout:
                continue
            elements, moved = measured.levels_elements[level.name], measured.levels_bytes[level.name]
            written_pj = level.write_pj_per_byte
            price = {
                "read": level.read_pj_per_byte or 0,
                "written": level.read_pj_per_byte or 0 if written_pj is None else written_pj,
            }
            for way in ("read", "written"):
                counts = getattr(elements, way).items()
                sizes = {kind: n * getattr(machine.bits, kind) / 8 for kind, n in counts if n}
                assert getattr(moved, way) == sizes, seed
                picojoules += sum(sizes.values()) * price[way]
                spent += sum(getattr(measured.levels_aj[level.name], way).values())
        assert spent == measured.energy_aj == round(picojoules * 1e6), seed
    assert valid > 80


def test_the_longest_of_all_is_the_duration_and_is_named() -> None:
    found = set()
    for seed, _, _, report in executed(range(200)):
        measures = report.measures
        waiting, ports = measures.waiting_cycles, measures.port_cycles
        computing = measures.multiplying_cycles + sum(waiting.values())
        longest = max(computing, *ports.values(), 0)
        assert measures.duration_cycles == ceil(longest - 1e-6), seed
        what, _, level = measures.limited_by.rpartition(" of ")
        found.add(what or level)
        if "port" in what:
            assert ports[level] == longest > computing, seed
        else:
            assert computing == pytest.approx(longest), seed
            assert waiting.get(level, measures.multiplying_cycles) == pytest.approx(
                max(measures.multiplying_cycles, *waiting.values(), 0)
            ), seed
    assert found == {"multipliers", "transfers", "port", "read port", "write port"}


def test_the_table_has_the_numbers_of_the_report() -> None:
    for _, problem, _, report in executed(range(40)):
        header, *lines = table(problem, report.measures)
        assert header[:5] == ("level", "operand", "held bytes", "read bytes", "written bytes")
        joules = 10.0 ** {"p": -12, "n": -9, "u": -6, "m": -3}[header[5][:-1]]
        energy = sum(float(line[5].replace(",", "")) for line in lines) * joules
        assert energy == pytest.approx(report.measures.energy_aj / 1e18, rel=0.01, abs=1e-14)
        for column, way in ((3, "read"), (4, "written")):
            shown = sum(float(line[column].replace(",", "") or 0) for line in lines)
            levels = report.measures.levels_bytes.values()
            assert shown == sum(sum(getattr(moved, way).values()) for moved in levels)
        assert lines[-1][:2] == ("multipliers", f"{problem.one_layer.macs:,} MACs")


MACHINE: dict[str, Any] = {
    "kind": "hierarchy",
    "levels": [
        {"name": "dram"},
        {"name": "buffer", "capacity_bytes": 600, "holds": ["input"], "may_hold": ["weights", "output"]},
    ],
}
LAYER = {"input": [4, 6, 6], "kernels": 8, "kernel": [3, 3]}


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kept", [("weights", "output"), ("output",), ()])
def test_what_a_plan_holds_by_choice_is_shown(kept: tuple[Any, ...]) -> None:
    problem = Problem.model_validate({"layer": LAYER, "machine": MACHINE})
    loops = tuple(("cyxkrs"[i], 1) for i in range(6))
    plan = Plan((HierarchyPlan((loops, ()), (("buffer", kept),)),))
    report = simulate(problem, plan)
    assert report.measures.kept == {"buffer": list(kept)}
    assert set(report.measures.held_bytes["buffer"]) == {"input", *kept}
    words = ", ".join(kept) or "nothing"
    assert dict(rows(problem, report.measures))["chosen"] == f"buffer holds {words}"
    assert f"chosen: {words}" in written(pictures.sheet(problem, plan, report))


def check_readable(figure: Figure) -> None:
    """Nothing is cut off, and no two texts lie on each other."""
    check_fits(figure)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()  # which places legends
    renderer = canvas.get_renderer()
    beyond = set()  # labels of ticks that are not drawn
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low <= tick.get_loc() <= high:
                beyond |= {tick.label1, tick.label2}
    texts = [
        text
        for text in figure.findobj(Text)
        if isinstance(text, Text) and text.get_visible() and text.get_text().strip() and text not in beyond
    ]
    boxes = [(text.get_text(), text.get_window_extent(renderer)) for text in texts]
    for (one, first), (other, second) in itertools.combinations(boxes, 2):
        apart = (
            first.x1 <= second.x0 + 1
            or second.x1 <= first.x0 + 1
            or first.y1 <= second.y0 + 3
            or second.y1 <= first.y0 + 3
        )
        assert apart, (one, other)


@pytest.mark.nightly
def test_random_plans_are_drawn() -> None:
    drawn = 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _, problem, plan, report in executed(range(8 if THOROUGH else 4)):
            check_readable(pictures.sheet(problem, plan, report))
            drawn += 1
    assert drawn > (3 if THOROUGH else 1)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_bundled_machine_is_drawn(suffix: str, tmp_path: Path, new_figures: list[Figure]) -> None:
    """Without prices the bars are bytes; one panel alone shows the same."""
    problem = read("lenet5-conv2-gap8").problem
    found = proven_best(problem)
    plan = Plan(found.layers)
    report = simulate(problem, plan)
    pictures.draw(problem, plan, report, tmp_path / f"plan{suffix}", title="a title")
    assert (tmp_path / f"plan{suffix}").stat().st_size > 10_000
    axes = pictures.plot(problem, plan, report)
    moved = sum(
        sum(level.read.values()) + sum(level.written.values())
        for level in report.measures.levels_bytes.values()
    )
    assert sum(patch.get_width() for patch in axes.patches) == moved
    assert axes.figure in new_figures
    check_readable(new_figures[0])


def test_a_network_is_drawn() -> None:
    layers = [{"name": name} | LAYER for name in ("a", "b")]
    for mac_pj, told in ((0.5, "(c) Energy"), (None, "(c) Ops per byte")):
        machine = MACHINE | {"mac_pj": mac_pj}
        problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
        loops = tuple(("cyxkrs"[i], 1) for i in range(6))
        plan = Plan((HierarchyPlan((loops, ()), (("buffer", ()),)),) * 2)
        sheet = pictures.sheet(problem, plan, simulate(problem, plan))
        check_fits(sheet)
        assert [text for text in written(sheet) if text.startswith(told)]


def test_a_plan_that_overflows_is_drawn() -> None:
    problem = Problem.model_validate({"layer": LAYER | {"input": [40, 6, 6]}, "machine": MACHINE})
    loops = tuple(("cyxkrs"[i], 1) for i in range(6))
    plan = Plan((HierarchyPlan(((), loops), (("buffer", ()),)),))
    report = simulate(problem, plan)
    assert report.violation is not None
    check_fits(pictures.sheet(problem, plan, report))
