"""Real integers through random plans give the reference's result, and damage does not go unnoticed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from axes import axes, layer_table
from conftest import examples, make_problem, totals
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from partitions_at_random import plans

from tilewright.grouping import Plan, Problem, lower, simulate
from tilewright.simulator import Cells, Compute, Free, Load, Program, Report, Step, WriteBack, execute
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.spec.layer import Layer


@st.composite
def layers(draw: st.DrawFn, outputs: int = 5) -> dict:
    """Layers with few outputs, so that a plan is drawn quickly."""
    groups, small = draw(st.integers(1, 3)), st.integers(1, 3)
    axis = axes(st.integers(1, outputs), kernel=st.integers(1, 5), stride=small, dilation=small, padding=2)
    return layer_table(
        groups * draw(st.integers(1, 2)),
        draw(axis),
        draw(axis),
        kernels=groups * draw(small),
        groups=groups,
        batch=draw(st.integers(1, 2)),
    )


@st.composite
def problems_and_plans(draw: st.DrawFn) -> tuple[Problem, Plan]:
    problem = make_problem(
        draw(layers()),
        {
            "group_size": draw(st.integers(1, 6)),
            "kernels": draw(st.sampled_from(["preloaded", "step1"])),
            "outputs": draw(st.sampled_from(["each_step", "kept"])),
            "padding": draw(st.sampled_from(["loaded", "generated"])),
        },
        {"reloads": 0},
    )
    return problem, draw(plans(problem))


def naive_convolution(layer: Layer, values: np.ndarray, kernels: np.ndarray) -> np.ndarray:
    """Seven loops, as in a textbook (definition 8; padding is what has no value)."""
    batch, channels, height, width = layer.input_shape
    per_group, out_per_group = channels // layer.groups, layer.kernels // layer.groups
    result = np.zeros(layer.output_shape, dtype=np.int64)
    for image in range(batch):
        for n in range(layer.kernels):
            for i in range(layer.output_plane[0]):
                for j in range(layer.output_plane[1]):
                    for c in range(per_group):
                        for h in range(layer.kernel[0]):
                            for w in range(layer.kernel[1]):
                                row = i * layer.stride[0] + h * layer.dilation[0] - layer.padding[0]
                                col = j * layer.stride[1] + w * layer.dilation[1] - layer.padding[2]
                                if 0 <= row < height and 0 <= col < width:
                                    channel = (n // out_per_group) * per_group + c
                                    pixel = values[image, channel, row, col]
                                    result[image, n, i, j] += pixel * kernels[n, c, h, w]
    return result


@given(layers(outputs=3), st.integers(0, 2**32 - 1))
@example(
    {
        "input": [4, 3, 5],
        "kernels": 6,
        "kernel": [2, 3],
        "stride": [1, 2],
        "padding": [1, 0, 2, 1],
        "groups": 2,
        "batch": 2,
    },
    0,
)
def test_the_reference_is_the_textbook_convolution(layer: dict, seed: int) -> None:
    layer = Layer(**layer)
    assume(np.prod(layer.output_shape) * layer.macs_per_output < 20_000)
    values, kernels = random_values(layer, seed)
    assert values.shape == layer.input_shape
    assert kernels.shape == layer.kernels_shape
    assert np.abs(values).max() <= 8
    assert (reference_convolution(layer, values, kernels) == naive_convolution(layer, values, kernels)).all()


def test_the_reference_by_hand() -> None:
    layer = Layer(input=[1, 2, 3], kernels=1, kernel=[2, 2], padding=[0, 0, 1, 0])
    values = np.array([[[[1, 2, 3], [4, 5, 6]]]])
    kernels = np.array([[[[1, 10], [100, 1000]]]])
    assert reference_convolution(layer, values, kernels).tolist() == [[[[4010, 5421, 6532]]]]


@given(problems_and_plans(), st.integers(0, 99))
@settings(max_examples=examples(300))
def test_random_plans_compute_the_reference(drawn: tuple[Problem, Plan], seed: int) -> None:
    problem, plan = drawn
    report = simulate(problem, plan, numeric=True, overlapped=False, seed=seed)
    assert report.violation is None
    assert report.numeric is True
    assert report.macs.sum() == problem.n_patches * problem.macs_per_patch
    assert report.written["output"].sum() == np.prod(problem.layer.output_shape)
    # Counting is not changed by the data that is moved along.
    counted = simulate(problem, plan, overlapped=False)
    assert totals(counted) == totals(replace(report, numeric=None))


# Damage ------------------------------------------------------------------------------------------


def run(problem: Problem, program: Program) -> Report:
    layer = problem.layer
    values, kernels = random_values(layer, 5)
    top, bottom, left, right = layer.padding
    padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
    expected = {"output": reference_convolution(layer, values, kernels)}
    return execute(program, data={"input": padded, "kernels": kernels}, expected=expected)


def edit(program: Program, step: int, **changes: object) -> Program:
    steps = list(program.steps)
    steps[step] = replace(steps[step], **changes)
    return replace(program, steps=tuple(steps))


@given(problems_and_plans(), st.data())
def test_a_dropped_load_is_noticed(drawn: tuple[Problem, Plan], data: st.DataObject) -> None:
    problem, plan = drawn
    program = lower(problem, plan)
    assert run(problem, program).valid
    loading = [i for i, step in enumerate(program.steps) if step.load]
    assume(loading)
    step = data.draw(st.sampled_from(loading))
    loads = list(program.steps[step].load)
    dropped = data.draw(st.integers(0, len(loads) - 1))
    whole_load = loads.pop(dropped)
    if isinstance(whole_load.region, Cells) and data.draw(st.booleans()):
        positions = whole_load.region.positions
        lost = data.draw(st.integers(0, len(positions) - 1))
        loads.append(replace(whole_load, region=Cells(4, np.delete(positions, lost))))
    report = run(problem, edit(program, step, load=tuple(loads)))
    assert report.violation is not None
    assert report.violation.rule == "not resident"
    assert report.violation.step == step + 1
    assert report.violation.tensor.startswith(whole_load.tensor)


def compute_of(step: Step) -> Compute:
    (compute,) = step.compute
    return compute


@pytest.mark.parametrize("swap", ["cells", "steps"])
def test_outputs_that_change_places_are_noticed(swap: str) -> None:
    """The counts are right, and no rule is broken; only the numbers tell."""
    problem = make_problem({"input": [2, 6, 6], "kernels": 3}, {"group_size": 4})
    plan = Plan.from_steps(problem, np.arange(16) // 4)
    program = lower(problem, plan)
    first, second = (compute_of(step) for step in program.steps[:2])
    if swap == "cells":
        positions = first.region.positions[[1, 0, 2, 3]]
        damaged = edit(program, 0, compute=(replace(first, region=Cells(4, positions)),))
    else:
        damaged = edit(program, 0, compute=(replace(first, region=second.region),))
        damaged = edit(damaged, 1, compute=(replace(second, region=first.region),))
        damaged = edit(damaged, 1, write_back=(WriteBack("output", second.region),))
        damaged = edit(damaged, 2, write_back=(WriteBack("output", first.region),))
    report = run(problem, damaged)
    assert report.violation is None
    assert report.numeric is False
    assert not report.valid


def test_an_operand_that_is_not_declared_is_poison() -> None:
    """A compute action that claims to need less than it reads gets past the rules, not past the numbers."""
    problem = make_problem(machine={"group_size": 1}, limits={"reloads": 0})
    program = lower(problem, Plan.from_steps(problem, np.arange(9)))
    compute = compute_of(program.steps[0])
    fewer = Cells(4, compute.operands[0][1].positions[1:])
    damaged = edit(
        program,
        0,
        load=(Load("input", fewer),),
        compute=(replace(compute, operands=(("input", fewer), compute.operands[1])),),
    )
    # Pixel 0 is the corner: no later step loads or frees it, but the first one would have freed it.
    positions = program.steps[1].free[0].region.positions
    assert positions[0] == 0
    damaged = edit(damaged, 1, free=(Free("input", Cells(4, positions[1:])),))
    report = run(problem, damaged)
    assert report.violation is None
    assert report.numeric is False


def test_wrong_arithmetic_is_noticed() -> None:
    problem = make_problem({"input": [1, 4, 4], "kernels": 1}, {"group_size": 2})
    program = lower(problem, Plan.from_steps(problem, np.arange(4) // 2))
    compute = compute_of(program.steps[1])
    arithmetic = compute.operation
    assert arithmetic is not None
    damaged = edit(
        program, 1, compute=(replace(compute, operation=lambda chip: np.asarray(arithmetic(chip)) + 1),)
    )
    assert run(problem, program).numeric is True
    assert run(problem, damaged).numeric is False
