"""Lower a grouping plan to a program, and simulate it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tilewright.core.room import Asked
from tilewright.grouping.cost import structural_violation
from tilewright.grouping.measures import measured
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.simulator import (
    MAX_NUMERIC_ELEMENTS,
    Cells,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Report,
    Step,
    Tensor,
    WriteBack,
    execute,
    whole,
)
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.simulator.operations import ConvolvePatches
from tilewright.spec.errors import InputError


def lower(problem: Problem, plan: Plan) -> Program:
    """Turn a plan into steps of free, write back, load and compute (definitions 12 and 16).

    After the loads of a step the chip holds exactly the pixels of its group. A last step without compute
    writes back what is left and frees the memory.

    The plan must name existing patches only (see `structural_violation`); the executor finds anything else.
    """
    layer, machine = problem.layer, problem.machine
    tensors = _tensors(problem)
    kernels = whole(tensors[1])
    members = plan.indices(problem)
    needs = [_pixels(problem, group) for group in members]
    writes: list[list[NDArray[np.int64]]] = [[] for _ in range(plan.n_steps + 1)]
    for group, when in zip(members, _due(problem, plan, needs), strict=True):
        writes[when].append(group)
    held = np.empty(0, dtype=np.intp)
    steps = []
    for number, (group, need) in enumerate(zip(members, needs, strict=True)):
        stale = np.setdiff1d(held, need, assume_unique=True)
        fresh = np.setdiff1d(need, held, assume_unique=True)
        loads = [Load("input", Cells(4, fresh))] if fresh.size else []
        if number == 0 and machine.kernels == "step1":
            loads.append(Load("kernels", kernels))
        steps.append(
            Step(
                free=(Free("input", Cells(4, stale)),) if stale.size else (),
                write_back=_write_back(writes[number]),
                load=tuple(loads),
                compute=(
                    Compute(
                        "output",
                        Cells(4, group),
                        operands=(("input", Cells(4, need)), ("kernels", kernels)),
                        macs_per_element=layer.macs_per_output,
                        operation=ConvolvePatches(layer, problem.patch_pixels[group]),
                    ),
                ),
                label=_label(problem, group),
            )
        )
        held = need
    frees = [Free("kernels", kernels)]
    if held.size:
        frees.insert(0, Free("input", Cells(4, held)))
    steps.append(Step(free=tuple(frees), write_back=_write_back(writes[-1]), label="empty the memory"))
    return Program(
        tensors=tensors,
        memories=(Memory("mem", machine.memory),),
        engines=(
            Engine("load", per_element=machine.load),
            Engine("write", per_element=machine.write),
            Engine(
                "compute", setup=machine.compute, macs_per_action=problem.group_size * problem.macs_per_patch
            ),
        ),
        steps=tuple(steps),
        preloaded=(("kernels", kernels),) if machine.kernels == "preloaded" else (),
    )


def _tensors(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Return input, kernels and output; in pixels, where the objective counts those."""
    layer = problem.layer
    pixel, outputs = problem.pixel_elements, problem.patch_outputs
    in_pixels = problem.objective.count == "pixels"
    return (
        Tensor(
            "input",
            (layer.batch, layer.input[0], *layer.padded_plane),
            "input",
            max_loads=problem.max_loads,
            unit=pixel if in_pixels else 1,
        ),
        Tensor("kernels", layer.kernels_shape, "kernels", max_loads=problem.max_loads),
        Tensor(
            "output",
            layer.output_shape,
            "output",
            unit=outputs if in_pixels else 1,
            macs_per_element=layer.macs_per_output,
        ),
    )


def _pixels(problem: Problem, group: NDArray[np.int64]) -> NDArray[np.intp]:
    """Pixels that a group needs, ascending."""
    pixels = np.unique(problem.patch_pixels[group])
    return pixels[pixels >= 0].astype(np.intp)


def _label(problem: Problem, group: NDArray[np.int64]) -> str:
    shown = " ".join(f"P{row},{col}" for row, col in (problem.patch(int(i)) for i in group[:4]))
    return shown + (f" and {len(group) - 4} more" if len(group) > 4 else "")


def _due(problem: Problem, plan: Plan, needs: list[NDArray[np.intp]]) -> list[int]:
    """Return the step whose write-back takes each group's outputs, counted from 0.

    Where outputs are kept, all of them are written back together as late as they fit, which takes the
    fewest write-backs: postponing one never needs more room at the steps after it.
    """
    if plan.write_back is not None:
        return list(plan.write_back)
    n = plan.n_steps
    if problem.machine.outputs == "each_step" or problem.machine.memory is None:
        last = problem.machine.outputs == "kept"
        return [n if last else step + 1 for step in range(n)]
    due = [n] * n
    kept = first = 0
    for step, group in enumerate(plan.groups):
        kept += len(group)
        if problem.memory_needed(len(needs[step]), kept) > problem.machine.memory:
            due[first:step] = [step] * (step - first)
            kept, first = len(group), step
    return due


def _write_back(groups: list[NDArray[np.int64]]) -> tuple[WriteBack, ...]:
    return (WriteBack("output", Cells(4, np.concatenate(groups))),) if groups else ()


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right."""
    violation = structural_violation(problem, plan)
    if violation is not None and violation.rule != "number of steps":
        return Report.refused(violation)
    data = expected = None
    if asked.numeric:
        layer = problem.layer
        elements = numeric_elements(problem)
        if elements > MAX_NUMERIC_ELEMENTS:
            limit = f"{elements} elements in all, at most {MAX_NUMERIC_ELEMENTS} can be moved"
            raise InputError("layer.input", list(layer.input), limit)
        values, kernels = random_values(layer, asked.seed)
        top, bottom, left, right = layer.padding
        data = {"input": np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right))), "kernels": kernels}
        expected = {"output": reference_convolution(layer, values, kernels)}
    report = execute(
        lower(problem, plan),
        overlapped=asked.overlapped,
        data=data,
        expected=expected,
        deadline=asked.deadline,
    )
    if report.violation is None:
        report.violation = violation
    if report.violation is None:
        report.measures = measured(report)
    return report


def measured_objective(problem: Problem, report: Report) -> int:
    """Objective as the simulator measured it (equation 15 or definition 3).

    Definition 3 is the sequential duration. Equation 15 leaves out the kernels and the write-backs.
    """
    assert report.sequential is not None
    if problem.objective.minimise == "duration":
        return report.sequential.cycles
    unit = problem.pixel_elements if problem.objective.count == "pixels" else 1
    return (
        problem.machine.load * (int(report.loaded["input"].sum()) // unit)
        + problem.machine.compute * report.n_steps
    )


def numeric_elements(problem: Problem) -> int:
    """Elements of all tensors, which a numeric simulation moves."""
    pixels = problem.n_pixels * problem.pixel_elements
    return pixels + problem.kernel_elements + problem.n_patches * problem.patch_outputs


def most_values(problem: Problem) -> int:
    """Return about how many values a plan has at most: a list and two numbers for each patch, its group."""
    return 1_000 + 5 * problem.n_patches


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Return about how long a counting simulation takes on a busy machine, so that time is left for it."""
    return 0.1 + 4e-4 * steps + 2e-6 * problem.n_patches
