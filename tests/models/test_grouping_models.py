"""Every formulation of grouping, found by listing the folder, with every solver that takes it."""

import importlib
import json
import subprocess
import time
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from conftest import processor_time, thinned
from enumeration import optimum
from formulations import core_text, need, solve

import tilewright.models.grouping
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.drivers import DRIVERS
from tilewright.drivers._constraints import begins_with_start
from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads, objective
from tilewright.grouping.structure import canonical, cells, is_canonical, last_useful_step, merged, symmetries
from tilewright.models.grouping import exact

FOLDER = Path(next(iter(tilewright.models.grouping.__path__)))
# The reference model, which is for small layers, has tests of its own.
METHODS = sorted(
    (path, driver.name)
    for driver in DRIVERS
    for path in catalogue.models("grouping")
    if catalogue.written_for(path) == driver.takes and not catalogue.solves_itself(path)
    if path.stem != "reference"
)


def problem(
    size: tuple[int, int, int] = (1, 4, 4),
    kernel: tuple[int, int] = (3, 3),
    group: int = 2,
    *,
    steps="free",
    reloads: int = 2,
    kernels: int = 1,
    machine=(),
    objective=(),
    **layer,
) -> Problem:
    return Problem.model_validate({
        "layer": {"input": size, "kernels": kernels, "kernel": kernel, **layer},
        "machine": {"group_size": group, **dict(machine)},
        "limits": {"steps": steps, "reloads": reloads},
        "objective": dict(objective),
    })  # fmt: skip


# 2x2 patches of 3x3 pixels unless said otherwise.
TINY = {
    "free": problem(),
    "kmin": problem(steps="kmin"),
    "three steps": problem(steps=3),
    "one patch a step": problem(group=1),
    "single patch": problem((1, 3, 3)),
    "all in one": problem(group=4),
    "row of five": problem((1, 3, 7), steps="kmin"),
    "2x3 patches": problem((1, 4, 5), steps="kmin"),
    "3x3 patches": problem((1, 5, 5), group=4, steps="kmin"),
    "3x3 patches, groups of 3": problem((1, 5, 5), group=3, steps="kmin", reloads=0),
    "stride": problem((1, 5, 7), stride=(2, 2), steps="kmin"),
    "uneven stride": problem((1, 4, 7), stride=(1, 2)),
    "stride beyond the kernel": problem((1, 6, 6), (2, 2), stride=(3, 3)),
    "dilation": problem((1, 6, 5), (2, 2), 3, dilation=(2, 1), stride=(2, 2), steps="kmin"),
    "channels": problem((3, 4, 4), kernels=2, steps=3),
    "pixels count": problem((3, 4, 4), kernels=2, objective={"count": "pixels"}),
    "definition 3": problem((2, 4, 4), kernels=2, objective={"minimise": "duration"},
                            machine={"kernels": "step1", "write": 3}),
    "steps are free": problem(machine={"compute": 0}),
    "steps are dear": problem((1, 4, 5), machine={"compute": 50}),
    "loads are free": problem(machine={"load": 0}),
    "dear loads": problem(machine={"load": 1000}),
    "each pixel once": problem(reloads=1, steps="kmin"),
    "each pixel once, four steps": problem((1, 4, 5), group=2, reloads=1, steps=4),
    "infeasible": problem((1, 4, 5), group=1, reloads=1, steps="kmin"),
    "no limit": problem(reloads=0, group=1),
    "memory for one patch": problem(machine={"memory": 9 + 9 + 1}),
    "memory for neighbours": problem(machine={"memory": 12 + 9 + 2}),
    "memory for kmin is short": problem(machine={"memory": 12 + 9 + 1}, steps="kmin"),
    "memory and outputs": problem((2, 4, 4), kernels=3, group=3, machine={"memory": 24 + 54 + 6}),
    "padding loaded": problem((1, 3, 3), padding=(1, 0, 0, 1), group=3, steps="kmin"),
    "padding generated": problem((1, 3, 3), padding=(1, 0, 0, 1), group=3,
                                 machine={"padding": "generated"}),
    "padding alone fits no more": problem((1, 1, 1), (1, 2), 5, kernels=4, padding=(0, 0, 4, 4),
                                          dilation=(1, 4), reloads=0,
                                          machine={"padding": "generated", "memory": 13}),
    "patches of padding alone": problem((1, 1, 3), (2, 1), padding=(1, 1, 0, 0), dilation=(2, 1),
                                        machine={"padding": "generated"}),
    "padding all round": problem((1, 2, 2), padding=(1, 1, 1, 1), steps="kmin",
                                 machine={"padding": "generated"}),
}  # fmt: skip


@cache
def enumerated(name: str) -> int | None:
    return optimum(TINY[name])


WITHOUT_EXTRAS = {"s1.py"}
WITH_AND_WITHOUT_EXTRAS = pytest.mark.parametrize(
    ("path", "solver", "extras"),
    [
        pytest.param(path, solver, extras, id=f"{path.name}-{solver}-{'extras' if extras else 'plain'}")
        for path, solver in METHODS
        for extras in (True, False)
        if extras or path.name not in WITHOUT_EXTRAS
    ],
)


@pytest.mark.by_day(5)
@pytest.mark.parametrize(
    ("path", "solver", "name", "extras"),
    [
        pytest.param(
            path, solver, name, extras, id=f"{path.name}-{solver}-{name}{'' if extras else '-plain'}"
        )
        for path, solver in METHODS
        for extras in (True, False)
        if extras or path.name not in WITHOUT_EXTRAS
        for name in (TINY if extras else thinned(TINY, 3))
    ],
)
def test_agrees_with_enumeration(path, solver, name, extras):
    bounds: list[int] = []
    outcome = solve(TINY[name], path, solver, extras=extras, on_bound=bounds.append)
    expected = enumerated(name)
    if expected is None:
        assert outcome.status == "infeasible"
        assert outcome.plan is None
        return
    assert outcome.status == "optimal"
    assert objective(TINY[name], outcome.plan) == outcome.bound == expected
    assert bounds == sorted(set(bounds))
    assert max(bounds, default=0) <= expected
    check(TINY[name], outcome.plan)


@pytest.mark.by_day(14)
@pytest.mark.parametrize("name", [name for name, case in TINY.items() if exact.suits(case)])
def test_the_exact_method_agrees_with_enumeration(name):
    bounds: list[int] = []
    search = RunContext(on_bound=lambda bound, _grounds: bounds.append(bound))
    search.deadline = time.monotonic() + 600
    outcome = exact.solve(TINY[name], search)
    expected = enumerated(name)
    assert bounds == sorted(set(bounds))
    if expected is None:
        assert (outcome.status, outcome.plan) == ("infeasible", None)
        return
    assert outcome.status == "optimal"
    assert objective(TINY[name], outcome.plan) == outcome.bound == expected
    assert max(bounds, default=0) <= expected
    check(TINY[name], outcome.plan)


def check(problem: Problem, plan: Plan) -> None:
    """Check the limits, in words of the package but not of any model."""
    patches = [patch for group in plan.groups for patch in group]
    assert sorted(patches) == list(problem.patches())
    fewest, most = problem.steps_range
    assert fewest <= plan.n_steps <= most
    assert count_loads(problem, plan.steps(problem)).max() <= problem.max_loads
    for members in plan.indices(problem):
        assert 1 <= len(members) <= problem.group_size
        pixels = set(problem.patch_pixels[members].ravel().tolist()) - {-1}
        assert len(pixels) <= problem.max_group_pixels(len(members))


@pytest.mark.by_day(2)
@pytest.mark.parametrize("case", [(4, 2), (5, 3), (5, 4)], ids=str)
@pytest.mark.parametrize(("path", "solver"), METHODS, ids=lambda value: getattr(value, "name", value))
def test_published_sizes(path, solver, case):
    side, group = case
    known = {(4, 2): 18, (5, 3): 28, (5, 4): 28}
    outcome = solve(problem((1, side, side), group=group, steps="kmin"), path, solver)
    assert outcome.status == "optimal"
    assert outcome.bound == known[case]


@pytest.mark.by_day(2)
@WITH_AND_WITHOUT_EXTRAS
def test_start_arrives(path, solver, extras):
    """The solver says so itself, whatever image of the plan symmetry breaking asks for."""
    if path.suffix == ".mzn" and not begins_with_start(path):
        pytest.skip("the model takes no start")
    case = problem((1, 4, 6), group=2, steps="kmin")
    row_by_row = Plan.from_steps(case, [3, 2, 2, 3, 1, 1, 0, 0])
    outcome = solve(case, path, solver, extras=extras, start=row_by_row)
    assert outcome.warm_start is not None
    assert outcome.status == "optimal"


@pytest.mark.parametrize(("path", "solver"), METHODS, ids=lambda value: getattr(value, "name", value))
def test_start_that_breaks_a_limit_does_no_harm(path, solver):
    case = TINY["memory for neighbours"]
    diagonal = Plan.from_steps(case, [0, 1, 1, 0])
    outcome = solve(case, path, solver, start=diagonal)
    assert outcome.warm_start is None
    assert outcome.bound == enumerated("memory for neighbours")


@pytest.mark.by_day(9)
@pytest.mark.parametrize(("path", "solver"), METHODS, ids=lambda value: getattr(value, "name", value))
def test_known_bound_ends_the_search(path, solver):
    """A plan that meets a bound from elsewhere is optimal without further proof."""
    case = problem((1, 6, 6), group=4, steps="kmin")
    zigzag = importlib.import_module("tilewright.heuristics.grouping.zigzag").plan(case)
    with processor_time(20):
        outcome = solve(case, path, solver, start=zigzag, bound=objective(case, zigzag))
    assert outcome.status == "optimal"


# Structure that the formulations rely on ------------------------------------------------------------------


@pytest.mark.parametrize("name", TINY)
def test_symmetries_keep_loads(name):
    case = TINY[name]
    steps = Plan.from_steps(case, [i % case.kmin for i in range(case.n_patches)]).steps(case)
    loads = count_loads(case, steps).sum()
    for image in symmetries(case, cells(case)):
        assert count_loads(case, steps[image]).sum() == loads


@pytest.mark.parametrize(
    ("case", "count"),
    [
        (problem((1, 5, 5)), 8),
        (problem((1, 4, 6)), 4),
        (problem((1, 6, 6), padding=(1, 0, 0, 0), machine={"padding": "generated"}), 2),
    ],
    ids=["square", "rectangle", "uneven padding"],
)
def test_all_symmetries_are_found(case, count):
    assert len(symmetries(case, cells(case))) == count


@pytest.mark.parametrize("shape", [(4, 4), (4, 5), (5, 5), (3, 6)])
def test_canonical_image_exists_and_costs_the_same(shape):
    case = problem((1, *shape), group=2, steps="kmin")
    images = symmetries(case, cells(case))
    for a, b in product((1, 5, 7), range(6)):
        plan = Plan.from_steps(case, [(i * a + b) % case.n_patches // 2 for i in range(case.n_patches)])
        image = canonical(case, plan, images)
        assert is_canonical(case, image.steps(case), images)
        assert objective(case, image) == objective(case, plan)


def test_merged_plans_are_no_worse_and_short_enough():
    case = problem((1, 5, 5), group=3)
    plan = Plan.from_steps(case, range(9))
    shorter = merged(case, plan)
    assert shorter.n_steps <= last_useful_step(case) < plan.n_steps
    assert objective(case, shorter) <= objective(case, plan)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", TINY)
def test_what_has_no_extras_is_the_same_without_them(name, tmp_path):
    for file in WITHOUT_EXTRAS:
        formulation = importlib.import_module(f"tilewright.models.grouping.{Path(file).stem}")
        for extras in (True, False):
            formulation.build(TINY[name], extras=extras).write(str(tmp_path / f"{extras}.lp"))
        assert (tmp_path / "True.lp").read_text() == (tmp_path / "False.lp").read_text()


def test_s1_example_has_nine_patches_of_25_pixels():
    """Example 3 of the paper: pxl_in_P starts with (0, 0), (0, 1), (0, 2), (0, 5) and ends with (8, 24)."""
    s1 = importlib.import_module("tilewright.models.grouping.s1")
    model = s1.build(problem((2, 5, 5), kernels=2, group=2, steps="kmin"))
    pairs = sorted(model.PXL_IN_P)
    assert pairs[:4] == [(0, 0), (0, 1), (0, 2), (0, 5)]
    assert pairs[-1] == (8, 24)
    assert len(model.PIXELS) == 25


def test_checker_tells_right_from_wrong(tmp_path):
    """The solution checker accepts ordered.mzn, and finds the violation in a model that counts too little."""
    need("gecode")
    from tilewright.grouping import minizinc as bridge

    case = problem((1, 5, 5), group=2, steps="kmin")
    data = {**bridge.data(case), "start": [], "hint": False, "relax": 0, "below": bridge.LARGEST}
    data["needed_by"] = [{"set": sorted(patches)} for patches in data["needed_by"]]
    (tmp_path / "data.json").write_text(json.dumps(data))
    right = core_text(FOLDER)
    wrong = right.replace("loads[c] = sum(k in STEP)(loaded[c, k])", "loads[c] = 1")
    (tmp_path / "core.mzn").write_text(wrong)
    (tmp_path / "ordered.mzn").write_text((FOLDER / "ordered.mzn").read_text())

    def run(model: Path, *options: str) -> str:
        files = [FOLDER / "core.mzc.mzn", model, tmp_path / "data.json"]
        command = ["minizinc", "--solver", "gecode", *options, *files]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    assert "% CORRECT" in run(FOLDER / "ordered.mzn")
    assert "INCORRECT: objective" in run(
        tmp_path / "ordered.mzn", "-D", "mzn_ignore_redundant_constraints=true"
    )
