"""Every grouping heuristic on random small layers, and on cases small enough to know the answer."""

from __future__ import annotations

import importlib
import time

import numpy as np
import pytest
from conftest import examples, processor_time
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads, objective
from tilewright.grouping.problem import GroupingLimits, GroupingMachine, GroupingObjective
from tilewright.heuristics.grouping import (
    _sweep_kernel,
    beam,
    lns,
    row_by_row,
    s1_baseline,
    strips,
    sweep,
    zigzag,
)
from tilewright.heuristics.grouping._measure import Value, max_pixels_by_size, near, value
from tilewright.heuristics.grouping._window import Window, draw_sweep_style
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer

CONSTRUCTIVE = [
    name
    for name in catalogue.heuristics("grouping")
    if not catalogue.searches(catalogue.heuristic("grouping", name))
]


def make(size: int, group_size: int, **limits: object) -> Problem:
    """Return a cell of the paper's grid."""
    return Problem(
        layer=Layer(input=(1, size, size), kernels=1, kernel=(3, 3)),
        machine=GroupingMachine(group_size=group_size),
        limits=GroupingLimits(**limits),  # type: ignore[arg-type]
    )


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw small layers of all kinds, with and without memory limits and fixed numbers of steps."""
    small = st.integers(1, 3)
    kernel = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    dilation = draw(st.tuples(st.integers(1, 2), st.integers(1, 2)))
    extent = [d * (k - 1) + 1 for d, k in zip(dilation, kernel, strict=True)]
    layer = Layer(
        input=(draw(st.integers(1, 2)), *(e + draw(st.integers(0, 6)) for e in extent)),
        kernels=draw(small),
        kernel=kernel,
        stride=draw(st.tuples(small, small)),
        dilation=dilation,
        padding=tuple(draw(st.integers(0, min(1, e - 1))) for e in extent for _ in range(2)),
    )
    group_size = draw(st.integers(1, 6))
    padding = draw(st.sampled_from(["loaded", "generated"]))
    memory = None
    free = Problem(layer=layer, machine=GroupingMachine(group_size=group_size, padding=padding))
    if draw(st.booleans()):
        most = free.memory_needed(int(free.patch_sizes.max()), 1)
        memory = most + draw(st.integers(0, 20)) * free.pixel_elements
    steps = draw(st.sampled_from(["free", "kmin", "number"]))
    return Problem(
        layer=layer,
        machine=GroupingMachine(
            group_size=group_size, padding=padding, memory=memory, load=draw(st.integers(0, 2)),
            compute=draw(st.sampled_from([0, 1, 50])),
        ),
        limits=GroupingLimits(
            steps=draw(st.integers(free.kmin, free.kmax)) if steps == "number" else steps,
            reloads=draw(st.integers(0, 3)),
        ),
        objective=GroupingObjective(count=draw(st.sampled_from(["elements", "pixels"]))),
    )  # fmt: skip


def check_partition(problem: Problem, plan: Plan) -> None:
    """Every patch once, no group empty or too large."""
    patches = [patch for group in plan.groups for patch in group]
    assert sorted(patches) == list(problem.patches())
    assert all(1 <= len(group) <= problem.group_size for group in plan.groups)


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", CONSTRUCTIVE)
@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problem=problems())
def test_plans_partition_the_patches(name: str, problem: Problem) -> None:
    heuristic = importlib.import_module(f"tilewright.heuristics.grouping.{name}")
    plan = heuristic.plan(problem)
    check_partition(problem, plan)
    assert heuristic.plan(problem) == plan


@pytest.mark.parametrize("name", CONSTRUCTIVE)
def test_patches_of_padding_alone_need_no_pixels(name: str) -> None:
    """A dilated kernel steps over a thin layer, and padding is made on chip."""
    layer = Layer(input=(1, 1, 3), kernels=1, kernel=(2, 1), padding=(1, 1, 0, 0), dilation=(2, 1))
    problem = Problem(layer=layer, machine=GroupingMachine(group_size=2, padding="generated"))
    assert problem.patch_sizes.tolist() == [0, 0, 0]
    plan = importlib.import_module(f"tilewright.heuristics.grouping.{name}").plan(problem)
    check_partition(problem, plan)
    assert objective(problem, plan) == len(plan.groups)


@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_improver_keeps_its_books_and_never_gets_worse(problem: Problem, seed: int) -> None:
    start = zigzag.plan(problem)
    reported: list[Plan] = []
    run = lns._Run(problem, RunContext(start=start, seed=seed, on_plan=reported.append), start, timed=False)
    run.improve(6)
    plan = run.plan()
    check_partition(problem, plan)
    assert run.value == value(problem, plan) <= value(problem, start)
    assert (run.loads == count_loads(problem, plan.steps(problem))).all()
    for better in reported:
        assert value(problem, better).violations == 0
    if run.value < value(problem, start) and run.value.violations == 0:
        assert value(problem, reported[-1]) == run.value


@pytest.mark.nightly
@settings(max_examples=examples(40), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problem=problems(), seed=st.integers(0, 1000), data=st.data())
def test_covering_counts_what_it_evicts(problem: Problem, seed: int, data: st.DataObject) -> None:
    """Every patch once, slots left empty spread evenly, and as many evictions as pixels loaded again."""
    rng = np.random.default_rng(seed)
    window = Window.of(problem, near(problem), np.arange(problem.n_patches))
    n_steps = data.draw(st.integers(problem.kmin, problem.kmax))
    task = _sweep_kernel.Sweep(
        window.pixels, window.owners, window.near, window.needs, window.before, problem.group_size,
        rng.uniform(0, n_steps, problem.n_patches), n_steps, 3, 2,
    )  # fmt: skip
    steps, evictions = _sweep_kernel.grow_by_group(task, draw_sweep_style(rng), seed)
    plan = Plan.from_steps(problem, steps)
    check_partition(problem, plan)
    sizes = [len(group) for group in plan.groups]
    assert len(sizes) == n_steps
    assert max(sizes) <= min(sizes) + 1
    assert count_loads(problem, steps).sum() == len(problem.needed_pixels) + evictions


@settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(size=st.integers(5, 12), group_size=st.integers(2, 8), seed=st.integers(0, 1000))
def test_covering_keeps_the_books_of_an_improver(size: int, group_size: int, seed: int) -> None:
    problem = make(size, group_size)
    start = zigzag.plan(problem)
    run = lns._Run(problem, RunContext(start=start, seed=seed), start, timed=False)
    for _ in range(3):
        run.cover()
    assert run.value <= value(problem, start)
    if sweep.border_lasts(problem, problem.kmin):
        run.restart(lns.SWEEP)
    plan = run.plan()
    check_partition(problem, plan)
    assert run.value == value(problem, plan)
    assert (run.loads == count_loads(problem, plan.steps(problem))).all()


@settings(max_examples=10, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(problem=problems(), seed=st.integers(0, 1000))
def test_same_seed_same_plan(problem: Problem, seed: int) -> None:
    first, second = (lns.plan(problem, RunContext(seed=seed), attempts=4) for _ in range(2))
    assert first == second


@pytest.mark.by_day(12)
@pytest.mark.parametrize(("size", "group_size"), [(5, 4), (7, 5), (9, 6), (12, 8)])
@pytest.mark.parametrize("steps", ["kmin", "free"])
def test_every_pixel_is_loaded_once(size: int, group_size: int, steps: str) -> None:
    """The compulsory loads bound every plan from below, so these cells of the grid are solved."""
    problem = make(size, group_size, steps=steps)
    plan = lns.plan(problem, RunContext(deadline=time.monotonic() + 300))
    assert objective(problem, plan) == size * size + problem.kmin


def test_improver_stops_at_a_proven_bound() -> None:
    problem = make(12, 2, steps="kmin")
    plan = lns.plan(problem, RunContext(deadline=time.monotonic() + 300, bound=280))
    assert value(problem, plan).violations == 0
    assert objective(problem, plan) <= 280


def test_start_outside_the_limits_is_replaced_and_the_replacement_reported() -> None:
    """S1-baseline takes 36 steps where K_min = 9 are demanded."""
    problem = make(8, 4, steps="kmin")
    reported: list[Plan] = []
    plan = lns.plan(problem, RunContext(start=s1_baseline.plan(problem), on_plan=reported.append), attempts=1)
    assert plan.n_steps == problem.kmin == 9
    assert value(problem, reported[-1]) == value(problem, plan)
    assert value(problem, plan).violations == 0


@pytest.mark.nightly
@pytest.mark.parametrize(("size", "group_size"), [(40, 6), (40, 24)])
def test_deadline_is_kept(size: int, group_size: int) -> None:
    """A layer too long for a sweep, and one that is swept."""
    problem = make(size, group_size)
    assert sweep.border_lasts(problem, problem.kmin) == (group_size == 24)
    lns.plan(problem, RunContext(deadline=time.monotonic()), attempts=3)  # compiles if need be
    for seconds in (0.5, 1.5):
        with processor_time(seconds + 0.5):
            deadline = time.monotonic() + seconds
            lns.plan(problem, RunContext(start=zigzag.plan(problem), deadline=deadline))


def test_strips_beat_the_paper_on_wide_layers() -> None:
    problem = Problem(
        layer=Layer(input=(64, 58, 58), kernels=64, kernel=(3, 3)), machine=GroupingMachine(group_size=8)
    )
    plan = strips.plan(problem)
    assert value(problem, plan).violations == 0
    # Seven strips of 8 columns; between two of them two columns of 58 pixels are loaded twice, less the
    # corner of 2 x 3 pixels that stays on chip at each turn.
    assert int(count_loads(problem, plan.steps(problem)).sum()) == 58 * 58 + 6 * (2 * 58 - 2 * 3)
    assert objective(problem, plan) < 0.8 * objective(problem, row_by_row.plan(problem))


@pytest.mark.nightly
def test_a_wide_strip_grows_best_from_its_middle() -> None:
    """LeNet-5's first convolution in one strip, nearly twice as wide as a group."""
    problem = Problem(
        layer=Layer(input=(1, 32, 32), kernels=6, kernel=(5, 5)), machine=GroupingMachine(group_size=16)
    )
    loads = {}
    for middle in (0.0, 0.5):
        groups = beam.Strips(
            problem,
            near(problem),
            max_pixels_by_size(problem),
            1,
            False,
            problem.kmin,
            25,
            beam.STYLES,
            0,
            middle,
        ).grow()
        assert groups is not None
        plan = Plan.from_groups(problem, groups)
        check_partition(problem, plan)
        loads[middle] = int(count_loads(problem, plan.steps(problem)).sum())
    assert 32 * 32 <= loads[0.5] <= 32 * 32 + 20 < loads[0.0]


@pytest.mark.parametrize(("grid", "n_steps"), [((28, 28), 49), ((20, 31), 44), ((3, 3), 2), ((3, 9), 27)])
@pytest.mark.parametrize(("place", "lead"), [(0.0, 0.0), (1 / 16, 1.5), (0.3, 3.0)])
def test_timetable(grid: tuple[int, int], n_steps: int, place: float, lead: float) -> None:
    """Every step has its share of patches, and the border is passed from one place to the opposite one."""
    table = sweep.timetable(grid, n_steps, place, lead)
    due = np.sort(table) + 0.5
    assert np.allclose(np.diff(due), n_steps / len(due))
    assert 0 < due[0] < due[-1] < n_steps
    rows, cols = sweep.border(grid)
    assert len({*zip(rows.tolist(), cols.tolist(), strict=True)}) == len(rows) == 2 * sum(grid) - 4
    assert ((rows % (grid[0] - 1) == 0) | (cols % (grid[1] - 1) == 0)).all()
    assert (np.abs(np.diff(rows)) + np.abs(np.diff(cols)) == 1).all()
    along = table.reshape(grid)[rows, cols]
    first = round(place * len(rows))
    if min(grid) > 3:
        assert along[first] < np.median(along) < along[(first + len(rows) // 2) % len(rows)]


def test_a_sweep_loads_next_to_nothing_twice() -> None:
    """LeNet-5's first convolution: half the border has 54 patches, enough for 44 steps."""
    problem = Problem(
        layer=Layer(input=(1, 32, 32), kernels=6, kernel=(5, 5)), machine=GroupingMachine(group_size=18)
    )
    plan = sweep.plan(problem)
    assert value(problem, plan).violations == 0
    assert plan.n_steps == problem.kmin == 44
    assert 32 * 32 <= count_loads(problem, plan.steps(problem)).sum() <= 32 * 32 + 5


@pytest.mark.parametrize("layer", [(28, 28), (56, 40), (8, 30), (1, 9)])
@pytest.mark.parametrize("group_size", [1, 4, 16])
def test_ways_to_cut(layer: tuple[int, int], group_size: int) -> None:
    """No strip is narrower than a group need be; a layer that is its own mirror image is cut upright only."""
    height, width = layer
    problem = Problem(
        layer=Layer(input=(1, height + 2, width + 2), kernels=1, kernel=(3, 3)),
        machine=GroupingMachine(group_size=group_size),
    )
    ways = beam.ways_to_cut(problem)
    assert len(set(ways)) == len(ways) > 0
    assert (-(-width // problem.group_size), False) in ways
    for count, lying in ways:
        assert 1 + lying <= count <= -(-(height if lying else width) // problem.group_size)
        assert not (lying and height == width)


def test_limits_come_before_the_objective() -> None:
    assert Value(0, 100) < Value(1, 10)


def test_least_memory_still_has_a_plan() -> None:
    """Room for one patch at a time: groups of one, as many steps as patches."""
    layer = Layer(input=(1, 5, 5), kernels=1, kernel=(3, 3))
    with pytest.raises(InputError):
        Problem(layer=layer, machine=GroupingMachine(group_size=4, memory=9 + 9))
    problem = Problem(
        layer=layer, machine=GroupingMachine(group_size=4, memory=9 + 9 + 1), limits=GroupingLimits(reloads=0)
    )
    plan = lns.plan(problem, RunContext(), attempts=10)
    assert plan.n_steps == 9
    assert value(problem, plan).violations == 0
