"""What the plans of grouping and offloading have in common: steps of a layer, with numbered elements."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright import grouping, offloading
from tilewright.grouping.cost import count_loads
from tilewright.offloading.placing import stays
from tilewright.offloading.plan import Block, Moves, Numbers, Plan, Runs, numbers, runs
from tilewright.offloading.state import last_state
from tilewright.simulator import Cells
from tilewright.simulator.program import Region
from tilewright.spec.layer import Layer


class Moved(NamedTuple):
    """Elements that all steps together move."""

    inputs: int
    kernels: int
    sums: int
    written: int


class LayerStep(NamedTuple):
    """What a step does.

    Attributes
    ----------
    moves
        Of each memory.
    blocks
        What is computed, each with the number of its memory.
    """

    moves: tuple[Moves, ...]
    blocks: tuple[tuple[int, Block], ...] = ()


@dataclass(frozen=True)
class LayerSteps:
    """A layer in steps.

    Attributes
    ----------
    layer
        What is computed.
    matrix
        Whether it is a matrix product: patches have elements of their own, and a channel is a position of a
        patch in an input map.
    pixel, channel, image
        From an element of the input to that of the next pixel (of a matrix, patch), channel and image.
    patch, kernel, output_image
        The same of the output.
    generated
        Whether padding is made on chip.
    before, steps, after
        What is on chip beforehand, the steps, and what empties the memories.
    planned
        What the plan moves, by the room's own count.
    addresses
        Where a plan places what comes, if it does: elements, ascending, and their addresses, by memory, kind
        of data (0 input, 1 kernels, 2 output) and step, from 0.
    """

    layer: Layer
    pixel: int
    channel: int
    image: int
    patch: int
    kernel: int
    output_image: int
    generated: bool
    before: LayerStep
    steps: tuple[LayerStep, ...]
    after: LayerStep
    planned: Moved
    memories: int = 1
    matrix: bool = False
    addresses: Mapping[tuple[int, int, int], tuple[Numbers, Numbers]] | None = None

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Elements of input, kernels and output."""
        layer = self.layer
        inputs = layer.batch * layer.input[0] * prod(layer.padded_plane)
        if self.matrix:
            inputs = prod(layer.output_plane) * layer.macs_per_output
        return inputs, prod(layer.kernels_shape), prod(layer.output_shape)

    @property
    def all(self) -> Iterator[LayerStep]:
        """All of them, in order."""
        yield self.before
        yield from self.steps
        yield self.after

    def outputs_of(self, block: Block) -> Numbers:
        """Return the outputs that a block adds to, ascending."""
        patches, kernels, images = (
            numbers(block.patches),
            numbers(block.kernels),
            np.arange(self.layer.batch),
        )
        found = patches[:, None, None] * self.patch + kernels[None, :, None] * self.kernel
        return np.sort((found + images * self.output_image).reshape(-1))

    def inputs_in_order(self, values: Numbers) -> Numbers:
        """Return an input of shape (images, C, H, W), with its padding, in the order of the numbers."""
        top, bottom, left, right = self.layer.padding
        padded = np.pad(values, ((0, 0), (0, 0), (top, bottom), (left, right)))
        images, channels, rows, columns = np.indices(padded.shape)
        at = (rows * padded.shape[3] + columns) * self.pixel + channels * self.channel + images * self.image
        return _in_order(padded, at)

    def outputs_in_order(self, outputs: Numbers) -> Numbers:
        """Return an output of shape (images, N, H, W) in the order of the numbers."""
        images, kernels, rows, columns = np.indices(outputs.shape)
        at = (rows * outputs.shape[3] + columns) * self.patch
        return _in_order(outputs, at + kernels * self.kernel + images * self.output_image)


def _in_order(values: Numbers, at: Numbers) -> Numbers:
    found = np.empty(values.size, dtype=np.int64)
    found[at.reshape(-1)] = values.reshape(-1)
    return found


def steps_of_grouping(problem: grouping.Problem, plan: grouping.Plan) -> LayerSteps:
    """Return the steps of a grouping plan; numbers go pixel by pixel, and patch by patch."""
    layer, pixel, outputs = problem.layer, problem.pixel_elements, problem.patch_outputs
    everything = ((0, problem.kernel_elements),)
    found = []
    for step in grouping.lower(problem, plan).steps:
        gone = {action.tensor: action.region for action in step.free}
        come = {action.tensor: action.region for action in step.load}
        moves = Moves(
            free_inputs=_cells(gone.get("input"), pixel),
            free_kernels=everything if "kernels" in gone else (),
            write=_cells(step.write_back[0].region if step.write_back else None, outputs),
            load_inputs=_cells(come.get("input"), pixel),
            load_kernels=everything if "kernels" in come else (),
        )
        channels = ((0, layer.input[0] // layer.groups),)
        blocks = (
            (0, Block(_cells(each.region, 1), ((0, layer.kernels),), channels)) for each in step.compute
        )
        found.append(LayerStep((moves,), tuple(blocks)))
    loaded = problem.machine.kernels == "step1"
    planned = Moved(
        int(count_loads(problem, plan.steps(problem)).sum()) * pixel,
        problem.kernel_elements if loaded else 0,
        0,
        problem.n_patches * outputs,
    )
    return LayerSteps(
        layer=layer,
        pixel=pixel,
        channel=1,
        image=layer.input[0],
        patch=outputs,
        kernel=1,
        output_image=layer.kernels,
        generated=problem.generates_padding,
        before=LayerStep((Moves(load_kernels=() if loaded else everything),)),
        steps=tuple(found[:-1]),
        after=found[-1],
        planned=planned,
    )


def _cells(region: Region | None, size: int) -> Runs:
    """Return the elements of pixels or patches, each of which has so many."""
    if region is None:
        return ()
    assert isinstance(region, Cells)
    positions = np.sort(region.positions.astype(np.int64))
    return tuple((first * size, end * size) for first, end in runs(positions))


def steps_of_offloading(problem: offloading.Problem, plan: Plan) -> LayerSteps:
    """Return the steps of an offloading plan."""
    machine, sizes, many = problem.machine, problem.elements, problem.n_memories
    layer, matrix = problem.layer, problem.limits.form == "gemm"
    everything = ((0, sizes.n_kernel_elements),)
    state = last_state(problem, plan)
    rest = tuple(
        Moves(
            free_inputs=runs(np.flatnonzero(state.inputs[memory])),
            free_kernels=runs(np.flatnonzero(state.kernels[memory])),
            write=runs(np.flatnonzero(state.outputs[memory])),
        )
        for memory in range(many)
    )
    found = tuple(LayerStep(step.moves, _blocks(problem, step.blocks)) for step in plan.steps)
    moves = [each for step in (*found, LayerStep(rest)) for each in step.moves]
    preloaded = machine.kernels == "preloaded"
    return LayerSteps(
        layer=layer,
        pixel=sizes.n_channels if matrix else 1,
        channel=1 if matrix else prod(layer.padded_plane),
        image=0,
        patch=1,
        kernel=sizes.n_patches,
        output_image=0,
        generated=machine.padding == "generated" and any(layer.padding),
        before=LayerStep((Moves(load_kernels=everything if preloaded else ()),) * many),
        steps=found,
        after=LayerStep(rest),
        planned=Moved(
            _total([each.load_inputs for each in moves]),
            _total([each.load_kernels for each in moves]),
            _total([each.load_sums for each in moves]),
            _total([each.write for each in moves]),
        ),
        memories=many,
        matrix=matrix,
        addresses=None if plan.addresses is None else _addresses(problem, plan, plan.addresses),
    )


def _addresses(
    problem: offloading.Problem, plan: Plan, given: Sequence[int]
) -> dict[tuple[int, int, int], tuple[Numbers, Numbers]]:
    """Return where elements lie that come in a step; those of a piece lie in the order of their numbers."""
    found = {}
    before = 0  # pieces of other memories and kinds
    for stay in stays(problem, plan):
        spans, numbered = stay.grouped()
        order = np.lexsort((stay.elements, numbered))
        firsts = np.searchsorted(numbered[order], np.arange(len(spans)))
        ranks = np.empty(len(order), dtype=np.int64)
        ranks[order] = np.arange(len(order)) - firsts[numbered[order]]
        addresses = np.array(given[before : before + len(spans)], dtype=np.int64)[numbered] + ranks
        before += len(spans)
        for step in np.unique(stay.spans[:, 0]).tolist():
            mine = np.flatnonzero(stay.spans[:, 0] == step)
            mine = mine[np.argsort(stay.elements[mine])]
            found[stay.memory, stay.kind, step] = stay.elements[mine], addresses[mine]
    return found


def _blocks(problem: offloading.Problem, parts: Sequence[Block | None]) -> tuple[tuple[int, Block], ...]:
    """Return what the parts compute, each with its memory."""
    return tuple((problem.memory_of(part), each) for part, each in enumerate(parts) if each is not None)


def _total(each: Sequence[Runs]) -> int:
    return sum(end - first for found in each for first, end in found)
