"""The reference model of offloading and MiniZinc: a layer as it is, a machine as it is, and plans back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tilewright.offloading.plan import Block, Moves, Plan, Step, numbers, runs
from tilewright.offloading.problem import Problem
from tilewright.offloading.state import states
from tilewright.spec.constraints import Term

MOST = 4_000
"""Most elements of input, kernels and output, times steps and memories."""


LARGEST = 2**31 - 2
"""Largest number that the solvers of MiniZinc count to."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    if (many := size(problem)) > MOST:
        return f"elements and MACs times steps are {many:,}, the model takes {MOST:,}"
    if (most := _largest(problem)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: for elements and cells in every step, pairs of pieces."""
    sizes, steps = problem.elements, problem.steps_range[1]
    data = sizes.n_inputs + sizes.n_kernel_elements + sizes.n_outputs
    found = steps * (problem.n_memories * data + problem.machine.parts * sizes.n_cells)
    if problem.machine.placement == "contiguous":
        pieces = 3 * steps * (steps + 1) // 2
        found += problem.n_memories * pieces * (pieces - 1) // 2
    return found


def _largest(problem: Problem) -> int:
    """Return the largest number that occurs in the model, of which the objective is a sum of all moves."""
    sizes, machine, (_, steps) = problem.elements, problem.machine, problem.steps_range
    data = sizes.n_inputs + sizes.n_kernel_elements + sizes.n_outputs
    loads = problem.n_memories * (steps * data + sizes.n_kernel_elements)
    writes = problem.n_memories * (steps + 1) * sizes.n_outputs
    cycles = (machine.load + machine.burst) * loads + (machine.write + machine.burst) * writes
    return cycles + machine.compute * steps


def relax(_problem: Problem) -> int:
    """Return 0: without large-neighbourhood search."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (0, 1): the model's objective is what a plan costs."""
    return 0, 1


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    layer, machine, sizes = problem.layer, problem.machine, problem.elements
    whole = (sizes.n_patches, sizes.n_kernels, sizes.n_channels)
    unit = whole if machine.unit is None else tuple(map(min, whole, machine.unit))
    fewest, most = problem.steps_range
    most_macs = sizes.n_cells * sizes.taps
    everything = sizes.n_inputs + sizes.n_kernel_elements + sizes.n_outputs
    return {
        "channels": layer.input[0],
        "kernels": layer.kernels,
        "height": layer.input[1],
        "width": layer.input[2],
        "padding": list(layer.padding),
        "kernel": list(layer.kernel),
        "stride": list(layer.stride),
        "dilation": list(layer.dilation),
        "im2col": problem.limits.form == "gemm",
        "macs_per_step": min(most_macs, machine.macs_per_step or most_macs),
        "unit": list(unit),
        "memory_limited": machine.memory is not None,
        "memory": min(machine.memory or 0, most * everything),  # more excludes nothing
        "load": machine.load,
        "write": machine.write,
        "compute": machine.compute,
        "burst": machine.burst,
        "kernels_stay": problem.kernels_stay,
        "kernels_loaded": machine.kernels == "step1",
        "channels_whole": problem.limits.channels == "all",
        "padding_generated": machine.padding == "generated",
        "parts": machine.parts,
        "own_memories": machine.memories == "own",
        "contiguous": machine.placement == "contiguous",
        "first_writes_counted": problem.minimise == "duration",
        "fewest_steps": fewest,
        "most_steps": most,
        "max_loads": problem.max_loads or most,
    }


def term(problem: Problem, _formulation: Path, one: Term) -> str:
    """Return a term of the vocabulary in MiniZinc."""
    if one.word == "step":
        row, column, kernel, channel = map(int, one.arguments)
        patch = row * problem.layer.output_plane[1] + column
        cell = f"{patch + 1}, {kernel + 1}, {channel + 1}"
        return f"sum(b in PART, k in STEP)(k * computed[b, k, {cell}])"
    return {"steps": "n_steps", "loads": "all_loads", "cost": "objective"}[one.word]


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return what the blocks of a plan consist of and what is on chip, in the order of `chosen`."""
    sizes, most = problem.elements, problem.steps_range[1]
    found = []
    for name, many in (
        ("patches", sizes.n_patches),
        ("kernels", sizes.n_kernels),
        ("channels", sizes.n_channels),
    ):
        table = np.zeros((most, problem.machine.parts, many), dtype=np.int64)
        for k, step in enumerate(plan.steps):
            for part, block in enumerate(step.blocks):
                if block is not None:
                    table[k, part, numbers(getattr(block, name))] = 1
        found.append(table)
    for name, many in (
        ("inputs", sizes.n_inputs),
        ("kernels", sizes.n_kernel_elements),
        ("outputs", sizes.n_outputs),
    ):
        table = np.zeros((most, problem.n_memories, many), dtype=np.int64)
        for k, state in enumerate(states(problem, plan)):
            if name != "kernels" or not problem.kernels_stay:
                table[k] = getattr(state, name)
        found.append(table)
    return [int(value) for table in found for value in table.reshape(-1)]


def decisions(problem: Problem, solution: Any) -> list[int]:
    """Return what the blocks of a solution consist of and what is on chip, in the order of `start`."""
    blocks = (solution.has_patch, solution.has_kernel, solution.has_channel)
    held = (solution.input_held, solution.weight_held, solution.output_held)
    tables = [*map(np.array, blocks), *(np.array(table)[:, 1:-1] for table in held)]
    return [int(value) for table in tables for value in table.swapaxes(0, 1).reshape(-1)]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution: its blocks, and as moves the changes of what is held."""
    found = [
        np.array(table, dtype=np.bool_)
        for table in (
            *(solution.has_patch, solution.has_kernel, solution.has_channel),
            *(solution.input_held, solution.weight_held, solution.output_held),
        )
    ]
    chosen, held = found[:3], found[3:]
    added = np.zeros(problem.elements.n_outputs, dtype=np.bool_)
    steps = []
    for k in range(solution.n_steps):
        blocks = []
        for part in range(problem.machine.parts):
            three = [np.flatnonzero(table[part, k]) for table in chosen]
            blocks.append(Block(*map(runs, three)) if three[0].size else None)
        moves = []
        for memory in range(problem.n_memories):
            before, now = [table[memory, k] for table in held], [table[memory, k + 1] for table in held]
            came = [~old & new for old, new in zip(before, now, strict=True)]
            went = [old & ~new for old, new in zip(before, now, strict=True)]
            weights = runs(np.flatnonzero(came[1]))
            if not k and problem.machine.kernels == "step1":
                weights = ((0, problem.elements.n_kernel_elements),)
            moves.append(
                Moves(
                    free_inputs=runs(np.flatnonzero(went[0])),
                    free_kernels=runs(np.flatnonzero(went[1])),
                    write=runs(np.flatnonzero(went[2])),
                    load_inputs=runs(np.flatnonzero(came[0])),
                    load_kernels=weights,
                    load_sums=runs(np.flatnonzero(came[2] & added)),
                )
            )
        for block in blocks:
            if block is not None:
                added[problem.elements.outputs_of(numbers(block.patches), numbers(block.kernels))] = True
        steps.append(Step(tuple(blocks), tuple(moves)))
    return Plan(tuple(steps), _addresses(problem, solution))


def _addresses(problem: Problem, solution: Any) -> tuple[int, ...] | None:
    """Return where the pieces of a solution lie, in the order of `placing.pieces`, or None if nowhere."""
    if problem.machine.placement == "counted":
        return None
    found: list[int] = []
    for extents, lies in zip(solution.extent, solution.lies, strict=True):
        for kind, (each, where) in enumerate(zip(extents, lies, strict=True)):
            if kind == 1 and problem.kernels_stay:
                found.append(0)
            found += [address for extent, address in zip(each, where, strict=True) if extent]
    return tuple(found)
