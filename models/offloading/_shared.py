"""What the Python models of offloading share: items that are alike as one, and plans back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from tilewright.offloading import Plan, Problem
from tilewright.offloading.keeping import Cut, Round, planned
from tilewright.offloading.loops import last_useful_step
from tilewright.offloading.plan import Numbers, numbers
from tilewright.offloading.state import states
from tilewright.spec.constraints import Term

WORDS = ("step", "steps")
"""What the models state of constraints: not what is moved, as `Items.plan` chooses anew what stays."""

MOST = 60_000
"""Most cells times steps times parts of a model."""


def why_not(problem: Problem) -> str | None:
    """Say why the models do not take a problem, or None."""
    if problem.machine.placement != "counted":
        return "addresses are not stated by the model"
    if problem.machine.burst:
        return f"bursts cost {problem.machine.burst} cycles, which `reference` alone states"
    items = Items(problem)
    many = items.n_cells * last_useful_step(problem) * problem.machine.parts
    if many > MOST:
        return f"cells times steps times parts are {many:,}, the model takes {MOST:,}"
    return None


def suits(problem: Problem) -> bool:
    """Whether a model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints a model gives: links of cells and classes in every step."""
    items = Items(problem)
    links = sum(len(needs) for needs, _ in items.inputs) + 4 * items.n_cells
    return links * last_useful_step(problem) * problem.machine.parts


def constant_cost(problem: Problem) -> int:
    """Return the fixed cost less a load and a write of each output, which count whenever a sum comes."""
    return problem.fixed_cost - (problem.machine.load + problem.machine.write) * problem.elements.n_outputs


@dataclass(frozen=True)
class Items:
    """What a model decides about: what cannot be cut is one item, elements that are alike are one class.

    Attributes
    ----------
    problem
        Whose items they are.
    """

    problem: Problem

    @cached_property
    def kernels(self) -> list[Numbers]:
        """Kernels of each item."""
        return _cut(self.problem.elements.n_kernels, self.problem.kernels_stay)

    @cached_property
    def channels(self) -> list[Numbers]:
        """Channels of each item."""
        return _cut(self.problem.elements.n_channels, self.problem.limits.channels == "all")

    @property
    def n_cells(self) -> int:
        """Patches times items of kernels times items of channels."""
        return self.problem.elements.n_patches * len(self.kernels) * len(self.channels)

    @cached_property
    def inputs(self) -> list[tuple[tuple[tuple[int, int], ...], Numbers]]:
        """Classes of input elements: the patches and items of channels that need them, and which they are."""
        sizes = self.problem.elements
        needed: dict[int, list[tuple[int, int]]] = {}
        for i in range(sizes.n_patches):
            for number, channels in enumerate(self.channels):
                for element in sizes.inputs_of(np.array([i]), channels).tolist():
                    needed.setdefault(element, []).append((i, number))
        members: dict[tuple[tuple[int, int], ...], list[int]] = {}
        for element, pairs in needed.items():
            members.setdefault(tuple(pairs), []).append(element)
        return [(pairs, np.array(found)) for pairs, found in sorted(members.items())]

    def macs(self, kernel: int, channel: int) -> int:
        """Return the MACs of a patch with an item of kernels and one of channels."""
        return len(self.kernels[kernel]) * len(self.channels[channel]) * self.problem.elements.taps

    def cell(self, one: Term) -> tuple[int, int, int]:
        """Return the patch and the items of kernels and channels that a term `step` speaks of."""
        row, column, kernel, channel = map(int, one.arguments)
        patch = row * self.problem.layer.output_plane[1] + column
        return patch, kernel if len(self.kernels) > 1 else 0, channel if len(self.channels) > 1 else 0

    def amounts(self, plan: Plan) -> Iterator[tuple[dict[tuple[int, ...], int], ...]]:
        """Yield how much is on chip at the end of each step of a plan.

        That of each class of inputs, of each pair of items of kernels and channels, and whether each output
        is, all by memory.
        """
        sizes, memories = self.problem.elements, range(self.problem.n_memories)
        pairs = [(j, c) for j in range(len(self.kernels)) for c in range(len(self.channels))]
        parts = {(j, c): sizes.kernels_of(self.kernels[j], self.channels[c]) for j, c in pairs}
        for state in states(self.problem, plan):
            yield (
                {
                    (f, m): int(state.inputs[m, who].sum())
                    for f, (_, who) in enumerate(self.inputs)
                    for m in memories
                },
                {
                    (*key, m): int(state.kernels[m, who].sum())
                    for key, who in parts.items()
                    for m in memories
                    if not self.problem.kernels_stay
                },
                {
                    (i, j, m): int(state.outputs[m, int(kernels[0]) * sizes.n_patches + i])
                    for i in range(sizes.n_patches)
                    for j, kernels in enumerate(self.kernels)
                    for m in memories
                },
            )

    def rounds(self, has: Callable[[str, int, int, int], bool], steps: int) -> list[Round]:
        """Return the blocks of a solution.

        Parameters
        ----------
        has
            Whether the block of a part (third argument) in a step (fourth) has a patch, an item of kernels,
            or one of channels (named by the first argument).
        """
        found: list[Round] = []
        for k in range(steps):
            blocks: list[Cut | None] = []
            for part in range(self.problem.machine.parts):
                patches = [i for i in range(self.problem.elements.n_patches) if has("patch", i, part, k)]
                kernels = [self.kernels[j] for j in range(len(self.kernels)) if has("kernel", j, part, k)]
                channels = [self.channels[c] for c in range(len(self.channels)) if has("channel", c, part, k)]
                whole = patches and kernels and channels
                blocks.append(
                    Cut(np.array(patches), np.concatenate(kernels), np.concatenate(channels))
                    if whole
                    else None
                )
            if any(block is not None for block in blocks):
                found.append(blocks)
        return found

    def plan(self, has: Callable[[str, int, int, int], bool], steps: int) -> Plan:
        """Return the plan of a solution: its blocks, with what stays chosen anew and as well."""
        found = planned(self.problem, self.rounds(has, steps))
        assert found is not None
        return found

    def blocks(self, plan: Plan) -> list[list[tuple[set[int], set[int], set[int]] | None]]:
        """Return the patches, items of kernels and items of channels of each step and part of a plan."""
        found = []
        for step in plan.steps:
            row: list[tuple[set[int], set[int], set[int]] | None] = []
            for block in step.blocks:
                if block is None:
                    row.append(None)
                    continue
                kernels, channels = (
                    set(numbers(block.kernels).tolist()),
                    set(numbers(block.channels).tolist()),
                )
                row.append(
                    (
                        set(numbers(block.patches).tolist()),
                        {j for j, group in enumerate(self.kernels) if int(group[0]) in kernels},
                        {c for c, group in enumerate(self.channels) if int(group[0]) in channels},
                    )
                )
            found.append(row)
        return found


def _cut(many: int, whole: bool) -> list[Numbers]:
    everything = np.arange(many, dtype=np.int64)
    return [everything] if whole else [everything[place : place + 1] for place in range(many)]
