"""A problem's geometry, a plan's closed forms and what the simulator measures say the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from axes import axes, layer_table
from conftest import examples, make_problem, tells
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from partitions_at_random import plans

from tilewright.grouping import Plan, Problem, cost, lower, measured_objective, objective, simulate, violation
from tilewright.grouping.cost import count_loads, group_pixels, structural_violation
from tilewright.spec.errors import InputError


def pixels_of(problem: Problem, row: int, col: int) -> set[tuple[int, int]]:
    """Positions of the padded plane that a patch needs from DRAM, from definition 10 alone."""
    layer = problem.layer
    top, _, left, _ = layer.padding
    found = set()
    for h in range(layer.kernel[0]):
        for w in range(layer.kernel[1]):
            y = row * layer.stride[0] + h * layer.dilation[0]
            x = col * layer.stride[1] + w * layer.dilation[1]
            real = top <= y < top + layer.input[1] and left <= x < left + layer.input[2]
            if real or problem.machine.padding == "loaded":
                found.add((y, x))
    return found


@st.composite
def problems(draw: st.DrawFn, *, reloads: bool = False, memory: bool = True) -> Problem:
    small = st.integers(1, 3)
    axis = axes(st.integers(1, 5), kernel=st.integers(1, 4), stride=small, dilation=small, padding=2)
    groups = draw(st.integers(1, 2))
    layer = layer_table(
        groups * draw(st.integers(1, 2)),
        draw(axis),
        draw(axis),
        kernels=groups * draw(st.integers(1, 2)),
        groups=groups,
        batch=draw(st.integers(1, 2)),
    )
    machine = {
        "group_size": draw(st.integers(1, 5)),
        "load": draw(st.integers(0, 4)),
        "write": draw(st.integers(0, 4)),
        "compute": draw(st.integers(0, 9)),
        "kernels": draw(st.sampled_from(["preloaded", "step1"])),
        "outputs": draw(st.sampled_from(["each_step", "kept"])),
        "padding": draw(st.sampled_from(["loaded", "generated"])),
    }
    limits = {"reloads": draw(st.integers(0, 3)) if reloads else 0}
    objective = {
        "minimise": draw(st.sampled_from(["loads", "duration"])),
        "count": draw(st.sampled_from(["elements", "pixels"])),
    }
    problem = make_problem(layer, machine, limits, objective)
    if memory and draw(st.booleans()):
        least = problem.memory_needed(int(problem.patch_sizes.max()), 1)
        machine["memory"] = least + draw(st.integers(0, 3)) * least // 4
        problem = make_problem(layer, machine, limits, objective)
    return problem


# Geometry ----------------------------------------------------------------------------------------


@given(problems())
def test_geometry_is_definition_10(problem: Problem) -> None:
    rows, cols = problem.grid
    height, width = problem.layer.padded_plane
    extent = problem.layer.kernel_extent
    stride = problem.layer.stride
    assert rows == len([y for y in range(0, height, stride[0]) if y + extent[0] <= height])
    assert cols == len([x for x in range(0, width, stride[1]) if x + extent[1] <= width])
    assert problem.n_patches == rows * cols
    assert list(problem.patches()) == [(r, c) for r in range(rows) for c in range(cols)]
    everything = set()
    for index, (row, col) in enumerate(problem.patches()):
        assert problem.patch(index) == (row, col)
        mine = {divmod(int(p), width) for p in problem.patch_pixels[index] if p >= 0}
        assert mine == pixels_of(problem, row, col)
        assert problem.patch_sizes[index] == len(mine)
        everything |= mine
    assert [divmod(int(p), width) for p in problem.needed_pixels] == sorted(everything)
    assert problem.n_pixels == height * width
    with pytest.raises(ValueError, match="read-only"):
        problem.patch_pixels[0, 0] = 7


def test_sizes_of_example_1() -> None:
    """Input 2x5x5, two kernels 2x3x3: nine patches, 25 pixels of 2 elements, 36 kernel elements."""
    problem = make_problem(machine={"macs_per_step": 107})
    assert (problem.n_patches, problem.n_pixels, problem.grid) == (9, 25, (3, 3))
    assert (problem.pixel_elements, problem.patch_outputs, problem.kernel_elements) == (2, 2, 36)
    assert (problem.layer.macs_per_output, problem.macs_per_patch) == (18, 36)
    assert (problem.group_size, problem.kmin, problem.kmax) == (2, 5, 9)
    assert problem.steps_range == (5, 9)
    assert make_problem(machine={"macs_per_step": 120}).group_size == 3
    assert make_problem(machine={"macs_per_step": 36}).group_size == 1
    assert make_problem(machine={"group_size": 1000}).group_size == 9
    assert make_problem(limits={"steps": "kmin"}).steps_range == (5, 5)
    assert make_problem(limits={"steps": 7}).steps_range == (7, 7)
    # Example 3: pxl_in_P of the first patch.
    assert sorted(problem.patch_pixels[0]) == [0, 1, 2, 5, 6, 7, 10, 11, 12]


@given(problems(memory=False), st.integers(0, 60), st.integers(1, 5))
def test_the_memory_limit_solved_for_pixels(problem: Problem, spare: int, patches: int) -> None:
    memory = problem.memory_needed(int(problem.patch_sizes.max()), 1) + spare
    machine = problem.machine.model_dump() | {"memory": memory}
    tight = Problem.model_validate({**problem.model_dump(), "machine": machine})
    most = tight.max_group_pixels(patches)
    for pixels in range(problem.n_pixels + 1):
        assert (tight.memory_needed(pixels, patches) <= memory) == (pixels <= most)


# Closed forms and the simulator ------------------------------------------------------------------


@given(problems(memory=False), st.data())
@settings(max_examples=examples(300))
def test_closed_forms_are_what_the_simulator_measures(problem: Problem, data: st.DataObject) -> None:
    plan = data.draw(plans(problem))
    steps = plan.steps(problem)
    report = simulate(problem, plan)
    assert report.violation is None
    assert violation(problem, plan) is None
    loads = count_loads(problem, steps)
    assert int(loads.sum()) * problem.pixel_elements == report.loaded["input"].sum()
    assert int(loads.max()) == report.most_loads["input"]
    held = group_pixels(problem, steps) * problem.pixel_elements
    assert list(held) == list(report.footprint["input"][: plan.n_steps])
    assert objective(problem, plan) == measured_objective(problem, report)
    # From sets alone, as a third opinion.
    needs = [set().union(*(pixels_of(problem, *patch) for patch in group)) for group in plan.groups]
    fresh = [need - before for need, before in zip(needs, [set(), *needs], strict=False)]
    assert int(loads.sum()) == sum(len(pixels) for pixels in fresh)


@pytest.mark.parametrize("minimise", ["loads", "duration"])
@pytest.mark.parametrize("count", ["elements", "pixels"])
@pytest.mark.parametrize("kernels", ["preloaded", "step1"])
@pytest.mark.parametrize("outputs", ["each_step", "kept"])
@pytest.mark.parametrize("padding", ["loaded", "generated"])
def test_objectives_by_hand(minimise: str, count: str, kernels: str, outputs: str, padding: str) -> None:
    """Input 2x2x2 with padding 1, one 3x3 kernel pair, four patches in two rows: all pixels, then none.

    Loaded padding: step 1 needs 3x4 pixels, step 2 three rows too and reuses two: 16. Generated: the two
    rows of two real pixels are in every patch: 4.
    """
    problem = make_problem(
        {"input": [2, 2, 2], "kernels": 3, "padding": [1, 1, 1, 1]},
        {
            "group_size": 2,
            "load": 5,
            "write": 7,
            "compute": 100,
            "kernels": kernels,
            "outputs": outputs,
            "padding": padding,
        },
        objective={"minimise": minimise, "count": count},
    )
    plan = Plan((((0, 0), (0, 1)), ((1, 0), (1, 1))))
    pixels = 16 if padding == "loaded" else 4
    per_pixel, per_patch = (2, 3) if count == "elements" else (1, 1)
    expected = 5 * pixels * per_pixel + 2 * 100
    if minimise == "duration":
        expected += 7 * 4 * per_patch + (5 * 3 * 2 * 9 if kernels == "step1" else 0)
    report = simulate(problem, plan)
    assert report.violation is None
    assert objective(problem, plan) == measured_objective(problem, report) == expected


@given(problems(reloads=True), st.data())
@settings(max_examples=examples(300))
def test_fault_and_simulator_refuse_the_same(problem: Problem, data: st.DataObject) -> None:
    plan = data.draw(plans(problem))
    assume(not (problem.machine.kernels == "step1" and problem.max_loads < 1))
    said, report = violation(problem, plan), simulate(problem, plan, overlapped=False)
    assert (said is None) == (report.violation is None), f"{said} / {report.violation}"
    if said is not None:
        assert report.violation is not None
        rules = {"loaded": "reload limit", "elements of memory": "memory overflow"}
        # Where both limits break, the simulator names the first in time.
        assert report.violation.rule in rules.values()
        assert any(words in said for words in rules)


@given(problems(), st.data())
def test_kept_outputs_fit_and_are_written_back_once(problem: Problem, data: st.DataObject) -> None:
    assume(problem.machine.outputs == "kept")
    plan = data.draw(plans(problem))
    assume(violation(problem, plan) is None)
    report = simulate(problem, plan, numeric=True)
    assert report.valid
    assert report.numeric is True
    assert report.written["output"].sum() == problem.n_patches * problem.patch_outputs
    if problem.machine.memory is None:
        assert list(np.flatnonzero(report.written["output"])) == [plan.n_steps]
    else:
        assert report.peak <= problem.machine.memory


def test_outputs_are_kept_as_long_as_they_fit() -> None:
    """1x1 patches, one pixel and two outputs each, no kernels to speak of: 7 elements keep three groups."""
    layer = {"input": [1, 1, 7], "kernels": 2, "kernel": [1, 1]}
    machine = {"group_size": 1, "outputs": "kept", "memory": 2 + 1 + 3 * 2}
    problem = make_problem(layer, machine)
    plan = Plan.from_steps(problem, np.arange(7))
    report = simulate(problem, plan)
    assert report.violation is None
    assert list(report.written["output"]) == [0, 0, 0, 6, 0, 0, 6, 2]
    assert report.peak == 9
    each = make_problem(layer, machine | {"outputs": "each_step"})
    assert list(simulate(each, plan).written["output"]) == [0, *[2] * 7]
    free = make_problem(layer, {"group_size": 1, "outputs": "kept"})
    assert list(simulate(free, plan).written["output"]) == [*[0] * 7, 14]


@given(problems(memory=False), st.data())
def test_any_write_back_in_time_is_valid(problem: Problem, data: st.DataObject) -> None:
    plan = data.draw(plans(problem))
    n = plan.n_steps
    when = tuple(data.draw(st.integers(step + 1, n)) for step in range(n))
    report = simulate(problem, Plan(plan.groups, when), numeric=True)
    assert report.valid
    assert measured_objective(problem, report) == objective(problem, plan)
    outputs = np.zeros(n + 1, np.int64)
    np.add.at(outputs, list(when), [len(group) * problem.patch_outputs for group in plan.groups])
    assert list(report.written["output"]) == list(outputs)


# Plans that are none -----------------------------------------------------------------------------

GOOD = (((0, 0), (0, 1)), ((0, 2), (1, 2)), ((1, 1), (1, 0)), ((2, 0), (2, 1)), ((2, 2),))


@pytest.mark.parametrize(
    ("groups", "rule", "step"),
    [
        ((*GOOD[:-1], ((2, 1),)), "computed twice", 5),
        ((*GOOD[:-2], ((2, 0),), ((2, 2),)), "not computed", 6),
        ((*GOOD[:-1], ((2, 3),)), "no such patch", 5),
        ((*GOOD[:-1], ((-1, 2),)), "no such patch", 5),
        ((*GOOD[:-1], ((10**30, 2),)), "no such patch", 5),
        ((*GOOD[:-1], ((2, 2), (2, 2))), "patch doubled", 5),
        ((*GOOD[:2], (), *GOOD[2:]), "empty step", 3),
        ((GOOD[0] + ((0, 2),), ((1, 2),), *GOOD[2:]), "too much work", 1),
        ((), "not computed", 1),
    ],
)
def test_what_is_no_partition_is_a_violation(groups: tuple, rule: str, step: int) -> None:
    assert violation(make_problem(), Plan(GOOD)) is None
    assert violation(make_problem(), Plan(groups)) is not None
    report = simulate(make_problem(), Plan(groups), numeric=True)
    assert not report.valid
    assert report.violation is not None
    assert (report.violation.rule, report.violation.step) == (rule, step)
    assert report.verdict().valid is False
    json.dumps(report.verdict().to_json())


@pytest.mark.parametrize(
    "plan",
    [
        Plan((*GOOD[:-1], ((1, 5),))),  # 3 * 1 + 5 is the number of patch (2, 2)
        Plan((*GOOD[:-1], ((3, -1),))),
        Plan(GOOD, (1, 2)),
        Plan(GOOD, (0, 2, 3, 4, 5)),
    ],
    ids=["alias", "negative", "short", "early"],
)
def test_what_cannot_be_lowered_has_a_fault(plan: Plan) -> None:
    assert not simulate(make_problem(), plan).valid
    assert violation(make_problem(), plan) is not None


def test_outputs_that_a_plan_keeps_too_long_are_a_fault() -> None:
    problem = make_problem(machine={"group_size": 2, "memory": 72}, limits={"reloads": 0})
    plan = Plan(GOOD, (5,) * 5)
    report = simulate(problem, plan)
    assert report.violation is not None
    assert report.violation.rule == "memory overflow"
    assert violation(problem, plan) is not None


def test_totals_beyond_64_bits_are_refused_and_smaller_ones_are_simulated() -> None:
    layer = {"input": [65536, 66, 66], "kernels": 65536, "kernel": [64, 64], "batch": 65536}
    with pytest.raises(InputError, match="can be counted"):
        make_problem(layer, {"group_size": 9})
    problem = make_problem(layer | {"batch": 16384}, {"group_size": 9})
    assert simulate(problem, Plan.from_steps(problem, np.zeros(9, np.int64))).valid


@pytest.mark.parametrize("write_back", [(1, 2, 3, 4), (0, 2, 3, 4, 5), (1, 2, 3, 4, 6), (-1, 2, 3, 4, 5)])
def test_write_backs_that_cannot_be(write_back: tuple[int, ...]) -> None:
    violation = structural_violation(make_problem(), Plan(GOOD, write_back))
    assert violation is not None
    assert (violation.rule, violation.step) == ("write-back", 0)
    assert not simulate(make_problem(), Plan(GOOD, write_back)).valid


@pytest.mark.parametrize(("steps", "allowed"), [("kmin", True), (5, True), (6, False), ("free", True)])
def test_the_number_of_steps_is_a_limit(steps: int | str, allowed: bool) -> None:
    problem = make_problem(limits={"steps": steps})
    report = simulate(problem, Plan(GOOD))
    assert report.valid is allowed
    assert (violation(problem, Plan(GOOD)) is None) is allowed
    if not allowed:
        assert report.violation is not None
        assert (report.violation.rule, report.violation.found) == ("number of steps", "5")
        assert report.violation.needed == "6 to 6 steps"
        assert tells(violation(problem, Plan(GOOD)), "number of steps .. 6 .. 5")


def test_the_reload_limit_names_pixel_and_step() -> None:
    problem = make_problem(
        {"input": [1, 1, 5], "kernel": [1, 3]}, {"group_size": 1}, {"reloads": 1, "steps": "free"}
    )
    plan = Plan((((0, 0),), ((0, 2),), ((0, 1),)))
    report = simulate(problem, plan)
    assert report.violation is not None
    # Patch 1 needs pixels 1 2 3: pixel 1 was freed by step 2.
    assert (report.violation.rule, report.violation.step) == ("reload limit", 3)
    assert report.violation.tensor == "input[0, 1]"
    assert tells(violation(problem, plan), "pixel .. 2 .. 1")


# Plans as data -----------------------------------------------------------------------------------


@given(problems(), st.data())
def test_plans_survive_json(problem: Problem, data: st.DataObject) -> None:
    plan = data.draw(plans(problem))
    if data.draw(st.booleans()):
        n = plan.n_steps
        plan = Plan(plan.groups, tuple(data.draw(st.integers(k + 1, n)) for k in range(n)))
    assert Plan.from_json(json.loads(json.dumps(plan.to_json()))) == plan


@given(problems(), st.data())
def test_plans_from_steps_and_groups_agree(problem: Problem, data: st.DataObject) -> None:
    plan = data.draw(plans(problem))
    same = Plan.from_steps(problem, plan.steps(problem))
    assert [set(group) for group in same.groups] == [set(group) for group in plan.groups]
    # Numbers of steps that nobody uses vanish.
    assert Plan.from_steps(problem, 3 * plan.steps(problem) + 7) == same
    assert Plan.from_groups(problem, plan.indices(problem)) == plan


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        "groups",
        {},
        {"groups": None},
        {"groups": {"0": []}},
        {"groups": [[0, 1]]},
        {"groups": [[[0, 1, 2]]]},
        {"groups": [[[0, 1.0]]]},
        {"groups": [[[0, True]]]},
        {"groups": [[["0", 1]]]},
        {"groups": [[[float("nan"), 1]]]},
        {"groups": [[[None, 1]]]},
        {"groups": "ab"},
        {"groups": [None]},
        {"groups": [], "extra": 1},
        {"groups": [[[0, 0]]], "write_back": "1"},
        {"groups": [[[0, 0]]], "write_back": [True]},
        {"groups": [[[0, 0]]], "write_back": [1.5]},
    ],
    ids=str,
)
def test_malformed_plans_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match=r"^result\.json: plan"):
        Plan.from_json(data, "result.json")


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), st.lists, max_leaves=9))
@example([[[0, 0]], [[0, 1]]])
def test_whatever_stands_for_groups_is_read_or_refused(groups: Any) -> None:
    try:
        plan = Plan.from_json({"groups": groups})
    except InputError:
        return
    report = simulate(make_problem(), plan)
    assert report.violation is not None


def test_lowered_programs_never_mention_generated_padding() -> None:
    problem = make_problem(
        {"input": [1, 3, 3], "padding": [1, 1, 1, 1]}, {"group_size": 3, "padding": "generated"}
    )
    program = lower(problem, Plan.from_steps(problem, np.arange(9) // 3))
    inner = {6, 7, 8, 11, 12, 13, 16, 17, 18}
    for name, region in program.regions():
        if name == "input":
            assert set(region.positions) <= inner


@given(st.integers(0, 2**32 - 1))
def test_both_ways_to_count_loads_agree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    layer = {
        "input": [1, 9, 11],
        "kernel": [3, 2],
        "stride": [1, 2],
        "dilation": [2, 1],
        "padding": [1, 1, 0, 1],
    }
    problem = make_problem(layer, {"group_size": 4, "padding": "generated"})
    steps = rng.integers(0, 9, problem.n_patches)
    assert (count_loads(problem, steps) == cost._count_loads_sparsely(problem, steps)).all()
