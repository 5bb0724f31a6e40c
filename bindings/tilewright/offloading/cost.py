"""What a plan costs and whether it respects the limits, step by step; the simulator is the judge."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewright.offloading.placing import misplaced
from tilewright.offloading.plan import MOVES, Moves, Numbers, Plan, Runs, Step, numbers, runs
from tilewright.offloading.problem import Problem
from tilewright.offloading.state import State, last_state


def objective(problem: Problem, plan: Plan) -> int:
    """Return the objective of a valid plan (definition 3, equations 14 and 15)."""
    machine = problem.machine
    cycles = machine.compute * plan.n_steps
    written = 0
    for step in plan.steps:
        for moves in step.moves:
            for name in ("load_inputs", "load_kernels", "load_sums"):
                cycles += machine.load * _size(getattr(moves, name))
                cycles += machine.burst * _bursts(problem, name, getattr(moves, name))
            written += _size(moves.write)
            cycles += machine.burst * _bursts(problem, "write", moves.write)
    last = [runs(np.flatnonzero(held)) for held in last_state(problem, plan).outputs]
    cycles += machine.burst * sum(_bursts(problem, "write", each) for each in last)
    written += sum(map(_size, last))
    first_writes = 0 if problem.minimise == "duration" else problem.elements.n_outputs
    return cycles + machine.write * (written - first_writes)


def _size(found: Runs) -> int:
    return sum(end - first for first, end in found)


def _bursts(problem: Problem, name: str, found: Runs) -> int:
    """Return the runs of consecutive addresses in DRAM: a move's numbers are its addresses there."""
    return len(found) if problem.machine.burst else 0


def structural_violation(problem: Problem, plan: Plan) -> tuple[int, str] | None:
    """Return the step, from 1, and the reason why a plan cannot be lowered, or None.

    Blocks and moves must speak of what exists, blocks must have a size that a part takes. No step loads what
    it frees or writes, or moves kernels that stay.
    """
    sizes, machine = problem.elements, problem.machine
    if not plan.steps:
        return 0, "the plan has no steps"
    extents = {
        "patches": sizes.n_patches,
        "kernels": sizes.n_kernels,
        "channels": sizes.n_channels,
    }
    spaces = dict(zip(MOVES, (sizes.n_inputs, sizes.n_kernel_elements, sizes.n_outputs) * 2, strict=True))
    for at, step in enumerate(plan.steps, start=1):
        if len(step.blocks) != machine.parts or len(step.moves) != problem.n_memories:
            wanted = f"{machine.parts} blocks and the moves of {problem.n_memories} memories"
            return at, f"needs {wanted}, has {len(step.blocks)} and {len(step.moves)}"
        for part, block in enumerate(step.blocks):
            if block is None:
                continue
            for name, extent in extents.items():
                found: Runs = getattr(block, name)
                if not found or found[-1][1] > extent:
                    return at, f"part {part + 1} needs {name} from 0 to {extent - 1}, has {list(found)}"
            shape = tuple(_size(getattr(block, name)) for name in extents)
            if not problem.admits(*shape):
                return at, f"part {part + 1} has a block of {shape}, more than it computes"
            for axis, (least, name) in enumerate(zip(problem.least_block, extents, strict=True)):
                if axis and shape[axis] < least:
                    return at, f"part {part + 1} must compute all {least} {name}, has {shape[axis]}"
        if not any(step.blocks):
            return at, "computes nothing"
        for moves in step.moves:
            for name, extent in spaces.items():
                ranges: Runs = getattr(moves, name)
                if ranges and ranges[-1][1] > extent:
                    return at, f"{name} must be from 0 to {extent - 1}, has {list(ranges[-1])}"
            for goes, comes in zip(MOVES[:3], MOVES[3:], strict=True):
                both = np.intersect1d(numbers(getattr(moves, goes)), numbers(getattr(moves, comes)))
                if both.size:
                    return at, f"{comes}: element {both[0]} is in {goes}, too"
            if problem.kernels_stay and (broken := _kernels_that_stay(problem, at, moves)) is not None:
                return at, broken
    return None


def _kernels_that_stay(problem: Problem, step: int, moves: Moves) -> str | None:
    """Return what a step moves of kernels that must all be on chip from step 1 to the end, or None."""
    if moves.free_kernels:
        return "kernels must stay to the end"
    wanted = problem.elements.n_kernel_elements * (step == 1 and problem.machine.kernels == "step1")
    if (found := _size(moves.load_kernels)) != wanted:
        return f"must load {wanted} elements of kernels that stay, loads {found}"
    return None


def violation(problem: Problem, plan: Plan) -> str | None:
    """Return the first limit that a plan breaks, or None; the simulator finds the same and explains it."""
    structural = structural_violation(problem, plan)
    if structural is not None:
        step, reason = structural
        return f"step {step} {reason}" if step else reason
    broken = _Walk(problem).go(plan)
    if broken is not None:
        return broken
    low, high = problem.steps_range
    if not low <= plan.n_steps <= high:
        return f"the plan has {plan.n_steps} steps, {low} to {high} are allowed"
    return misplaced(problem, plan)


class _Walk(State):
    """The state while the steps are gone through, with what was done so far."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem)
        sizes, memories = problem.elements, problem.n_memories
        self.added = np.zeros(sizes.n_outputs, dtype=np.bool_)
        self.cells = np.zeros((sizes.n_patches, sizes.n_kernels, sizes.n_channels), dtype=np.bool_)
        self.input_loads = np.zeros((memories, sizes.n_inputs), dtype=np.int64)
        self.kernel_loads = np.zeros((memories, sizes.n_kernel_elements), dtype=np.int64)
        self.owner = np.full(sizes.n_outputs, -1, dtype=np.int64)
        self.in_dram = np.zeros(sizes.n_outputs, dtype=np.bool_)

    def go(self, plan: Plan) -> str | None:
        """Return what goes wrong first, or None."""
        for at, step in enumerate(plan.steps, start=1):
            for check, change in ((self._may_leave, self.leave), (self._may_arrive, self.arrive)):
                for memory, moves in enumerate(step.moves):
                    broken = check(memory, moves)
                    if broken is not None:
                        return f"step {at}: {broken}"
                    change(memory, moves)
            broken = self._may_compute(step)
            if broken is None:
                self.compute(step)
                broken = self._room()
            if broken is not None:
                return f"step {at}: {broken}"
        if not self.cells.all():
            patch, kernel, channel = (int(each[0]) for each in np.nonzero(~self.cells))
            return f"patch {patch}, kernel {kernel}, channel {channel} is computed by no step"
        return None

    def _may_leave(self, memory: int, moves: Moves) -> str | None:
        tables = (("free_inputs", self.inputs), ("free_kernels", self.kernels), ("write", self.outputs))
        for name, held in tables:
            found = numbers(getattr(moves, name))
            if not held[memory, found].all():
                return f"{name}: element {_first(found, ~held[memory, found])} is not on chip"
        self.in_dram[numbers(moves.write)] = True
        return None

    def _may_arrive(self, memory: int, moves: Moves) -> str | None:
        tables = (
            ("load_inputs", self.inputs, self.input_loads),
            ("load_kernels", self.kernels, self.kernel_loads),
        )
        most = self.problem.max_loads
        for name, held, loads in tables:
            found = numbers(getattr(moves, name))
            if held[memory, found].any():
                return f"{name}: element {_first(found, held[memory, found])} is on chip already"
            loads[memory, found] += 1
            if most is not None and found.size and loads[memory, found].max() > most:
                return f"{name}: an element is loaded {most + 1} times, at most {most} are allowed"
        sums = numbers(moves.load_sums)
        if not self.in_dram[sums].all():
            return f"load_sums: output {_first(sums, ~self.in_dram[sums])} was not written"
        held_sums = self.outputs[:, sums].any(axis=0)
        if held_sums.any():
            return f"load_sums: output {_first(sums, held_sums)} is on chip already"
        wrong = self.owner[sums] != memory
        if wrong.any():
            return f"load_sums: output {_first(sums, wrong)} is computed in another memory"
        return None

    def _may_compute(self, step: Step) -> str | None:
        sizes, touched = self.problem.elements, np.zeros(self.problem.elements.n_outputs, dtype=np.bool_)
        for part, block in enumerate(step.blocks):
            if block is None:
                continue
            memory = self.problem.memory_of(part)
            patches, kernels, channels = map(numbers, (block.patches, block.kernels, block.channels))
            inputs, used = sizes.inputs_of(patches, channels), sizes.kernels_of(kernels, channels)
            for name, held, found in (("input", self.inputs, inputs), ("kernel", self.kernels, used)):
                if not held[memory, found].all():
                    return (
                        f"part {part + 1} needs {name} element {_first(found, ~held[memory, found])} on chip"
                    )
            outputs = sizes.outputs_of(patches, kernels)
            if touched[outputs].any():
                return f"two parts add to output {_first(outputs, touched[outputs])}"
            touched[outputs] = True
            elsewhere = (self.owner[outputs] >= 0) & (self.owner[outputs] != memory)
            if elsewhere.any():
                return f"output {_first(outputs, elsewhere)} is computed in two memories"
            self.owner[outputs] = memory
            apart = self.added[outputs] & ~self.outputs[memory, outputs]
            if apart.any():
                return f"part {part + 1} needs the sum of output {_first(outputs, apart)} on chip"
            where = np.ix_(patches, kernels, channels)
            if self.cells[where].any():
                return f"part {part + 1} computes a patch, kernel and channel for the second time"
            self.cells[where] = True
            self.added[outputs] = True
            self.in_dram[outputs] = False
        return None

    def _room(self) -> str | None:
        limit = self.problem.machine.memory
        if limit is None:
            return None
        held = self.inputs.sum(axis=1) + self.kernels.sum(axis=1) + self.outputs.sum(axis=1)
        if held.max() > limit:
            return f"needs {int(held.max())} elements of memory, there are {limit}"
        return None


def _first(found: Numbers, which: Any) -> int:
    return int(found[which][0])
