"""Every tiling heuristic on random small layers, machines and limits, and on the thesis's own layers."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from conftest import examples
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.heuristics.tiling import manual
from tilewright.run.instance import read
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, measured_objective, objective, simulate, violation
from tilewright.tiling.dsp import thesis_model
from tilewright.tiling.dsp.kind import exhaustive
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import SCHEDULES, DspPlan
from tilewright.tiling.dsp.traffic import Tiles

NAMES = ("greedy", "manual", "pruned")
LIMITS = ("any", "thesis", "halide-idsp", *SCHEDULES)


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw small layers of all kinds on machines that hold little more than the smallest tile."""
    small = st.integers(1, 3)
    kernel = draw(st.tuples(small, small))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    groups = draw(st.integers(1, 3))
    layer = {
        "input": (groups * draw(st.integers(1, 5)), *(e + draw(st.integers(0, 7)) for e in extent)),
        "kernels": groups * draw(st.integers(1, 5)),
        "kernel": kernel,
        "stride": draw(st.tuples(small, small)),
        "dilation": dilation,
        "padding": tuple(draw(st.integers(0, min(1, e - 1))) for e in extent for _ in range(2)),
        "groups": groups,
        "batch": draw(small),
    }
    least = extent[0] * extent[1] + kernel[0] * kernel[1] + 1
    copies = draw(st.integers(1, 2))
    machine = {
        "kind": "dsp",
        "memory_bytes": copies * (least + draw(st.sampled_from([0, 1, 7, 40, 300, 5000]))),
        "element_bytes": 1,
        "double_buffering": copies == 2,
        "bus_elements_per_cycle": draw(st.sampled_from([1, 4, 32])),
        "macs_per_cycle": draw(st.sampled_from([1, 32])),
        "dma_setup_cycles": draw(st.sampled_from([0, 20, 150])),
        "register_file_bytes": draw(st.sampled_from([0, 60])),
        "padding": draw(st.sampled_from(["loaded", "generated"])),
    }
    try:
        return Problem.model_validate(
            {
                "layer": layer,
                "machine": machine,
                "objective": {"minimise": draw(st.sampled_from(["accesses", "cycles", "energy"]))},
                "limits": {"schedule": draw(st.sampled_from(LIMITS))},
            }
        )
    except InputError:
        assume(False)
        raise


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=examples(50), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problem=problems())
def test_plans_are_valid_and_never_better_than_the_optimum(name: str, problem: Problem) -> None:
    heuristic = importlib.import_module(f"tilewright.heuristics.tiling.{name}")
    assert heuristic.suits(problem)
    plan = heuristic.plan(problem)
    assert heuristic.plan(problem) == plan
    best = exhaustive(problem, float("inf"))
    if best is None:  # partial sums that no tile of the only schedule allowed can wait for, or too many maps
        assert violation(problem, plan) is not None
        return
    assert violation(problem, plan) is None
    assert objective(problem, plan) >= best[0]
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None
    assert report.numeric
    assert measured_objective(problem, report) == objective(problem, plan)


def test_the_catalogue_finds_them() -> None:
    assert set(NAMES) <= set(catalogue.heuristics("tiling"))
    for name in NAMES:
        assert not catalogue.searches(catalogue.heuristic("tiling", name))


def test_none_suits_a_front() -> None:
    problem = read("lenet5-conv2-idsp").problem
    assert not any(catalogue.heuristic("tiling", name).suits(problem) for name in NAMES)


@pytest.mark.nightly
@pytest.mark.parametrize("minimise", ["accesses", "cycles", "energy"])
def test_close_to_the_optimum_on_alexnet(minimise: str) -> None:
    """What a few milliseconds cost: the two searching heuristics stay within 6 % of every layer's optimum."""
    for _, part in _with(read("alexnet-idsp").problem, minimise).parts:
        best = exhaustive(part, float("inf"))
        assert best is not None
        for name in ("pruned", "greedy"):
            plan = catalogue.heuristic("tiling", name).plan(part)
            assert violation(part, plan) is None
            assert best[0] <= objective(part, plan) <= 1.06 * best[0]


def _with(problem: Problem, minimise: str) -> Problem:
    return Problem.model_validate({**problem.model_dump(), "objective": {"minimise": minimise}})


def test_manual_takes_the_published_tiles_where_they_fit() -> None:
    """Table 7.3; of table 7.5 the tiles of conv2, fc6 and fc7 exceed 64 KB."""
    for network, misfits in (("lenet5-idsp", set()), ("alexnet-idsp", {"conv2", "fc6", "fc7"})):
        problem = read(network).problem
        rows = {row["layer"]: row for row in manual.rows() if row["network"] == problem.network.name}
        for name, part in problem.parts:
            (layer,) = manual.plan(part).layers
            assert isinstance(layer, DspPlan)
            assert layer.schedule == "intra"
            same = dict(zip("gncyxk", layer.tile, strict=True)) == {"g": 1, **rows[name]["tile"]}
            assert same == (name not in misfits)


def test_manual_by_habit() -> None:
    """A layer that nobody mapped: complete rows, 64 output maps, one image, as many rows as fit."""
    machine = {"kind": "dsp", "memory_bytes": 131072}
    layer = {"input": [32, 40, 40], "kernels": 128, "kernel": [3, 3], "padding": [1, 1, 1, 1], "batch": 4}
    problem = Problem.model_validate({"layer": layer, "machine": machine})
    (found,) = manual.plan(problem).layers
    # Rows first: of 40 in tiles, 10 rows take 12 * 42 + 64 * 9 + 64 * 400 elements, 14 rows too many.
    assert found.tile[:5] == (1, 1, 64, 10, 40)
    capacity = problem.machine.buffer_capacity
    assert capacity < 16 * 42 + 64 * 9 + 64 * 14 * 40
    # Then input maps: 6 of 32 fit, 7 would not.
    assert (
        12 * 42 * 6 + 64 * 9 * 6 + 64 * 400
        <= problem.machine.buffer_capacity
        < 12 * 42 * 7 + 64 * 9 * 7 + 64 * 400
    )
    assert found.tile[5] == 6


def test_closed_forms_are_the_published_equations() -> None:
    """The vectorised forms are the equations of single tiles; the layer has a 5 x 5 kernel and one group."""
    problem = read("lenet5-conv2-idsp").problem
    nest = nest_of(problem.one_layer, problem.machine)
    tiles = thesis_model.explore(nest, nest.machine.buffer_capacity)
    chosen = np.random.default_rng(0).choice(len(tiles.need), 40, replace=False)
    for name in SCHEDULES:
        total = thesis_model.cycles(tiles, name, 1000).total
        for at in chosen:
            tile: Any = tuple(int(step[at]) for step in tiles.steps)
            assert total[at] == pytest.approx(_equation_5_7(nest, tile, name, 1000))


def _equation_5_7(nest: Any, tile: Any, schedule: str, local: int) -> float:
    """Cycles of one plan, equations 5.2 to 5.12 one after the other."""
    machine, layer = nest.machine, nest.layer
    _, n, c, y, x, k = (-(-size // step) for size, step in zip(nest.sizes, tile, strict=True))
    number = n * c * y * x * k
    height, width = (
        (t - 1) * s + e for t, s, e in zip(tile[3:5], layer.stride, layer.kernel_extent, strict=True)
    )
    b_in, b_w, b_out = (
        tile[1] * tile[5] * height * width,
        tile[2] * tile[5] * 25,
        tile[1] * tile[2] * tile[3] * tile[4],
    )

    def accesses(b_in: float, shared: float, fresh: float, b_w: float, b_out: float) -> float:
        partial = (2 - 1 / k) * b_out
        return {
            "intra": b_in + b_w + partial,
            "kc": b_in + b_w + b_out / k,
            "oc": b_in / c + b_w + partial,
            "oxyn": b_in + b_w / (x * y * n) + partial,
            "oxyn/ox": fresh + shared / x + b_w / (x * y * n) + partial,
        }[schedule]

    shared = (5 - 1) * height * tile[1] * tile[5]
    moved = accesses(b_in, shared, tile[4] * height * tile[1] * tile[5], b_w, b_out) + local / number
    setup = machine.dma_setup_cycles
    compute = b_out * 25 * tile[5] / machine.macs_per_cycle
    core = compute + accesses(1, 1, 1, 1, 1) * setup
    prolog = (b_in + b_w) / machine.bus_elements_per_cycle + 2 * setup + compute
    epilog = b_out / machine.bus_elements_per_cycle + setup
    return prolog + (number - 1) * max(core, moved / machine.bus_elements_per_cycle) + epilog


def test_pruning_leaves_out_padded_work_only() -> None:
    nest = nest_of(read("alexnet-conv3-64k").problem.one_layer, read("alexnet-conv3-64k").problem.machine)
    everything, kept = (
        thesis_model.explore(nest, nest.machine.buffer_capacity),
        thesis_model.explore(nest, nest.machine.buffer_capacity, 1.05),
    )
    assert len(kept.need) < len(everything.need) / 4

    def work(tiles: Tiles) -> Any:
        factors = [
            step * trips / size
            for size, step, trips in zip(nest.sizes, tiles.steps, tiles.trips, strict=True)
        ]
        return np.prod(np.broadcast_arrays(*factors), axis=0)

    assert work(kept).max() <= 1.05
    assert (work(everything) <= 1.05).sum() == len(kept.need)
    assert (1, 1, 1, 1, 1, 1) in set(zip(*(step.tolist() for step in kept.steps), strict=True))


def test_front_is_no_plan_of_theirs() -> None:
    """What a heuristic returns is one plan, as JSON can hold it."""
    problem = read("alexnet-fc6-idsp").problem
    for name in NAMES:
        plan = catalogue.heuristic("tiling", name).plan(problem)
        assert Plan.from_json(plan.to_json()) == plan
