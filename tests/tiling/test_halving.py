"""The simple plan that reports compare traffic with: valid on every machine, and what its name says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from test_between_layers import machines
from test_tiles import CONV, MACHINES, NETWORK, solved

from tilewright.report.charts import charts
from tilewright.run.instance import parse
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, simulate, violation
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.halving import NAME, halved, plain
from tilewright.tiling.overview import overview


@pytest.mark.parametrize("kind", MACHINES)
def test_a_layer_that_fits_is_one_tile_and_else_its_longest_side_is_halved(kind: str) -> None:
    roomy = {
        "dsp": {"kind": "dsp", "memory_bytes": 10**6},
        "npu": {"kind": "npu", "input_bytes": 10**6, "weights_bytes": 10**6, "output_bytes": 10**6},
        "hierarchy": {
            "kind": "hierarchy",
            "levels": [{"name": "dram"}, {"name": "b", "capacity_bytes": 10**6}],
        },
    }[kind]
    problem = Problem.model_validate({"layer": CONV, "machine": roomy})
    plan = halved(problem)
    assert plan is not None
    report = simulate(problem, plan)
    moved = sum(report.total(counts) for counts in report.loaded.values())
    loads = {"dsp": 6 * 6 * 11 + 324, "npu": 0, "hierarchy": 6 * 6 * 11 + 324}[kind]
    assert report.violation is None and (kind == "npu" or moved == loads)  # cores load what each one needs


def test_halves_by_hand() -> None:
    """6 x 4 x 9 outputs of 6 maps: 9 columns become 5, then 3; one of 6 maps is 3."""
    machine = {"kind": "dsp", "memory_bytes": 2000}  # 500 elements, as each buffer exists twice
    problem = Problem.model_validate({"layer": CONV, "machine": machine})
    # Whole: 6 x 6 x 11 + 324 + 216. 5 columns: 6 x 6 x 7 + 324 + 120. 3 maps: 252 + 162 + 60 fit.
    assert halved(problem) == Plan((DspPlan((1, 1, 3, 4, 5, 6), "ncyxk", "tile"),))


@given(machines(), st.integers(1, 12), st.integers(1, 9), st.integers(1, 3))
def test_it_is_valid_wherever_it_is_there(machine: dict[str, Any], maps: int, rows: int, kernel: int) -> None:
    layers = [
        {"name": "c", "input": [3, rows + 2, 7], "kernels": maps, "kernel": [kernel, kernel]},
        {"name": "p", "kind": "pool", "input": [maps, rows + 3 - kernel, 8 - kernel], "kernel": [1, 2]},
    ]
    try:
        problem = Problem.model_validate({"network": {"layers": layers}, "machine": machine})
    except InputError:
        return
    plan = halved(problem)
    assert plan is not None  # where the smallest tile fits, halving ends with it
    assert violation(plain(problem), plan) is None
    assert simulate(plain(problem), plan).violation is None


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", MACHINES)
def test_reports_show_it_beside_the_plan_and_the_least(kind: str) -> None:
    instance, result = solved(kind)
    found = overview(instance.problem, result.plan, result.measures)
    assert found.simple is not None and found.simple[0] == NAME
    plan = halved(instance.problem)
    assert plan is not None
    report = simulate(plain(instance.problem), plan)
    size = 1 if kind == "hierarchy" else 2
    told = sum(each.simple_bytes or 0 for each in found.traffic)
    moved = sum(
        report.total(counts) for table in (report.loaded, report.written) for counts in table.values()
    )
    assert told == size * moved
    assert sum(line["simple"] for line in found.lines) == pytest.approx(told / 1000)
    assert all(line["least"] <= min(line["simple"], line["outermost"]) for line in found.lines)
    chart = next(each for each in charts(found, [], "elements") if each.key == "traffic")
    assert f"with {NAME} (" in chart.about
    bars = {each["which"] for each in chart.spec["data"]["values"]}
    assert bars == {NAME, "this plan", "least possible"}


def test_lists_and_limits_do_not_bind_it() -> None:
    """It is compared with whatever was asked for."""
    machine = {**MACHINES["dsp"], "vector_ops_per_cycle": 2}
    table = {"room": "tiling", "network": NETWORK, "machine": machine}
    asked = {"objective": {"minimise": ["cycles", "energy"], "tolerance": 0.1}, "limits": {"schedule": "oc"}}
    assert halved(parse({**table, **asked}).problem) == halved(parse(table).problem)
