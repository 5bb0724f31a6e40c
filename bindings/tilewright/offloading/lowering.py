"""Lower an offloading plan to a program, and simulate it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.core.room import Asked
from tilewright.offloading.cost import structural_violation
from tilewright.offloading.elements import Elements
from tilewright.offloading.measures import measured
from tilewright.offloading.placing import misplaced
from tilewright.offloading.plan import Block, Moves, Numbers, Plan, Runs, numbers, runs
from tilewright.offloading.problem import Problem
from tilewright.offloading.state import last_state
from tilewright.simulator import (
    MAX_NUMERIC_ELEMENTS,
    Box,
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
    Violation,
    WriteBack,
    execute,
)
from tilewright.simulator.arithmetic.reference import random_values, reference_convolution
from tilewright.simulator.program import Region, Values
from tilewright.spec.errors import InputError


@dataclass(frozen=True)
class MultiplyBlock:
    """The arithmetic of a block: its patches times its kernels, over its channels.

    Attributes
    ----------
    inputs : int, shape (patches, what is summed)
        Input elements; -1 for padding that is made on chip.
    kernels : int, shape (kernels, what is summed)
    names
        Of the tensors.
    """

    inputs: Numbers
    kernels: Numbers
    names: tuple[str, str]

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return the sums, shape ``(kernels * patches,)``."""
        values = np.where(self.inputs >= 0, chip[self.names[0]].reshape(-1)[self.inputs], 0)
        weights = chip[self.names[1]].reshape(-1)[self.kernels]
        found: Values = (weights @ values.T).reshape(-1)
        return found


ALL = Box((None, None))
"""The region that is all of a tensor."""


class _Names:
    """What the tensors of each memory are called, and which outputs each memory is to have."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        many = problem.n_memories
        self.ends = [""] if many == 1 else [f" {memory + 1}" for memory in range(many)]
        owner = np.zeros((many, problem.elements.n_outputs), dtype=np.bool_)
        owner[:] = many == 1
        if many > 1:
            for step in plan.steps:
                for part, block in enumerate(step.blocks):
                    if block is not None:
                        owner[problem.memory_of(part), _outputs(problem.elements, block)] = True
        owner[0] |= ~owner.any(axis=0)  # what no part computes is missed there
        self.outputs = [np.flatnonzero(row) for row in owner]

    def place(self, memory: int, outputs: Numbers) -> Numbers:
        """Return where outputs stand in the tensor of a memory; its size for those that are not in it."""
        mine = self.outputs[memory]
        at = np.searchsorted(mine, outputs)
        right = (at < len(mine)) & (mine[np.minimum(at, len(mine) - 1)] == outputs) if mine.size else at < 0
        found: Numbers = np.where(right, at, len(mine))
        return found


def _outputs(sizes: Elements, block: Block) -> Numbers:
    return sizes.outputs_of(numbers(block.patches), numbers(block.kernels))


def lower(problem: Problem, plan: Plan) -> Program:
    """Turn a plan into steps of free, write back, load and compute (definition 2).

    A last step without compute writes back what is left and frees the memories. The plan must keep
    `structural_violation`; the executor finds anything else.
    """
    machine = problem.machine
    names = _Names(problem, plan)
    steps = []
    for step in plan.steps:
        free: list[Free] = []
        write: list[WriteBack] = []
        load: list[Load] = []
        for memory, moves in enumerate(step.moves):
            _moves(problem, names, memory, moves, free, write, load)
        compute = [
            _compute(problem, names, part, block)
            for part, block in enumerate(step.blocks)
            if block is not None
        ]
        label = f"{len(compute)} blocks" if machine.parts > 1 else _label(step.blocks[0])
        steps.append(Step(tuple(free), tuple(write), tuple(load), tuple(compute), label))
    state = last_state(problem, plan)
    last: tuple[list[Free], list[WriteBack], list[Load]] = ([], [], [])
    for memory in range(len(names.ends)):
        rest = Moves(
            free_inputs=runs(np.flatnonzero(state.inputs[memory])),
            free_kernels=runs(np.flatnonzero(state.kernels[memory])),
            write=runs(np.flatnonzero(state.outputs[memory])),
        )
        _moves(problem, names, memory, rest, *last)
    steps.append(Step(tuple(last[0]), tuple(last[1]), label="empty the memory"))
    many = len(names.ends)
    return Program(
        tensors=tuple(each for memory in range(many) for each in _tensors(problem, names, memory)),
        memories=tuple(Memory(f"mem{end}", machine.memory) for end in names.ends),
        engines=(
            Engine("load", per_element=machine.load, per_burst=machine.burst),
            Engine("write", per_element=machine.write, per_burst=machine.burst),
            *(
                Engine(f"compute {part + 1}", setup=machine.compute, macs_per_action=machine.macs_per_step)
                for part in range(machine.parts)
            ),
        ),
        steps=tuple(steps),
        preloaded=tuple((f"kernels{end}", ALL) for end in names.ends)
        if machine.kernels == "preloaded"
        else (),
    )


def _tensors(problem: Problem, names: _Names, memory: int) -> list[Tensor]:
    sizes, end = problem.elements, names.ends[memory]
    where = f"mem{end}"
    found = [
        Tensor(f"input{end}", (1, sizes.n_inputs), "input", where, max_loads=problem.max_loads),
        Tensor(f"kernels{end}", (1, sizes.n_kernel_elements), "kernels", where, max_loads=problem.max_loads),
    ]
    if names.outputs[memory].size:
        macs = sizes.n_channels * sizes.taps
        shape = (1, len(names.outputs[memory]))
        found.append(Tensor(f"output{end}", shape, "output", where, macs_per_element=macs))
    return found


def _kernels(problem: Problem, found: Runs) -> Region:
    """Return a region of kernels; all of them are one, which is quicker to execute."""
    return ALL if found == ((0, problem.elements.n_kernel_elements),) else _cells(found)


def _cells(found: Runs | Numbers) -> Cells:
    return Cells(2, (numbers(found) if isinstance(found, tuple) else found).astype(np.intp))


def _moves(
    problem: Problem,
    names: _Names,
    memory: int,
    moves: Moves,
    free: list[Free],
    write: list[WriteBack],
    load: list[Load],
) -> None:
    """Add the actions of one memory in one step."""
    end, bursts = names.ends[memory], bool(problem.machine.burst)
    if moves.free_inputs:
        free.append(Free("input" + end, _cells(moves.free_inputs)))
    if moves.free_kernels:
        free.append(Free("kernels" + end, _kernels(problem, moves.free_kernels)))
    if moves.write:
        where = _cells(names.place(memory, numbers(moves.write)))
        write.append(WriteBack("output" + end, where, bursts=bursts * len(moves.write)))
    if moves.load_inputs:
        come = moves.load_inputs
        load.append(Load("input" + end, _cells(come), bursts=bursts * len(come)))
    if moves.load_kernels:
        kernels = moves.load_kernels
        load.append(Load("kernels" + end, _kernels(problem, kernels), bursts=bursts * len(kernels)))
    if moves.load_sums:
        where = _cells(names.place(memory, numbers(moves.load_sums)))
        load.append(Load("output" + end, where, bursts=bursts * len(moves.load_sums)))


def _compute(problem: Problem, names: _Names, part: int, block: Block) -> Compute:
    sizes, memory = problem.elements, problem.memory_of(part)
    end = names.ends[memory]
    patches, kernels, channels = map(numbers, (block.patches, block.kernels, block.channels))
    inputs = sizes.inputs[np.ix_(patches, channels)].reshape(len(patches), -1).astype(np.int64)
    firsts = (kernels[:, None] * sizes.n_channels + channels[None, :]) * sizes.taps
    weights = (firsts[:, :, None] + np.arange(sizes.taps)).reshape(len(kernels), -1)
    # In the order of the product, kernels first.
    outputs = (kernels[:, None] * sizes.n_patches + patches[None, :]).reshape(-1)
    return Compute(
        "output" + end,
        _cells(names.place(memory, outputs)),
        operands=(
            ("input" + end, _cells(sizes.inputs_of(patches, channels))),
            ("kernels" + end, ALL if problem.kernels_stay else _cells(sizes.kernels_of(kernels, channels))),
        ),
        macs_per_element=len(channels) * sizes.taps,
        operation=MultiplyBlock(inputs, weights, ("input" + end, "kernels" + end)),
        engine=f"compute {part + 1}",
    )


def _label(block: Block | None) -> str:
    assert block is not None
    tables = (("patches", block.patches), ("kernels", block.kernels), ("channels", block.channels))
    return ", ".join(f"{name} {_told(spans)}" for name, spans in tables)


def _told(spans: Runs) -> str:
    shown = (f"{first}" if end == first + 1 else f"{first}-{end - 1}" for first, end in spans[:3])
    return " ".join(shown) + ("..." if len(spans) > 3 else "")


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right."""
    structural = structural_violation(problem, plan)
    if structural is not None:
        step, reason = structural
        return Report.refused(Violation("blocks and moves", step, "plan", "what a step can be", reason))
    data = expected = None
    if asked.numeric:
        data, expected = _numbers(problem, plan, asked.seed)
    report = execute(
        lower(problem, plan),
        overlapped=asked.overlapped,
        data=data,
        expected=expected,
        deadline=asked.deadline,
    )
    low, high = problem.steps_range
    if report.violation is None and not low <= plan.n_steps <= high:
        report.violation = Violation(
            "number of steps", 0, "plan", f"{low} to {high} steps", f"{plan.n_steps}"
        )
    if report.violation is None and (wrong := misplaced(problem, plan)) is not None:
        report.violation = Violation("placement", 0, "plan", "pieces that lie apart, in the memory", wrong)
    if report.violation is None:
        report.measures = measured(problem, report)
    return report


def _numbers(problem: Problem, plan: Plan, seed: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return random contents of DRAM and what must be there in the end, by tensor."""
    layer, sizes = problem.layer, problem.elements
    elements = numeric_elements(problem)
    if elements > MAX_NUMERIC_ELEMENTS:
        limit = f"{elements} elements in all, at most {MAX_NUMERIC_ELEMENTS} can be moved"
        raise InputError("layer.input", list(layer.input), limit)
    values, kernels = random_values(layer, seed)
    top, bottom, left, right = layer.padding
    plane = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right))).reshape(1, -1)
    if problem.limits.form == "gemm":
        plane = _rows_of_im2col(problem, plane)
    outputs = reference_convolution(layer, values, kernels).reshape(1, -1)
    names = _Names(problem, plan)
    given, expected = {}, {}
    for memory, end in enumerate(names.ends):
        given[f"input{end}"] = plane
        given[f"kernels{end}"] = kernels.reshape(1, sizes.n_kernel_elements)
        if names.outputs[memory].size:
            expected[f"output{end}"] = outputs[:, names.outputs[memory]]
    return given, expected


def _rows_of_im2col(problem: Problem, plane: Values) -> Values:
    """Return the matrix of im2col, row by row, from the padded input."""
    direct = Elements.of(problem.layer, "direct", "loaded")
    found: Values = plane[0, direct.inputs.reshape(-1)].reshape(1, -1)
    return found


def measured_objective(problem: Problem, report: Report) -> int:
    """Objective as the simulator measured it (definition 3, equation 14 or 15)."""
    assert report.measures is not None
    return problem.measured(report.measures)


def numeric_elements(problem: Problem) -> int:
    """Elements of all tensors, which a numeric simulation moves."""
    sizes = problem.elements
    return problem.n_memories * (sizes.n_inputs + sizes.n_kernel_elements) + sizes.n_outputs


def most_values(problem: Problem) -> int:
    """Return about how many values a plan has at most."""
    sizes = problem.elements
    return 100_000 + 40 * problem.elements.n_cells // max(1, sizes.taps) + 20 * sizes.n_outputs


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Return about how long a counting simulation takes on a busy machine, so that time is left for it."""
    sizes = problem.elements
    used = sizes.n_inputs + sizes.n_kernel_elements + sizes.n_outputs
    return 0.1 + 4e-3 * steps + 2e-6 * used
