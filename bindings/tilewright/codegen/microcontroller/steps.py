"""What the steps of a plan without DRAM have in RAM, and where."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tilewright.codegen.microcontroller.arenas import Arena, place
from tilewright.residency import Plan, Problem
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import (
    group_of_passes,
    line_pixels,
    planes_or_strips,
    step_buffers,
    streams,
)
from tilewright.residency.shapes.strips import Strips
from tilewright.spec.errors import InputError

Span = tuple[int, int]


@dataclass(frozen=True)
class StepMap:
    """A map that a step reads or computes.

    Attributes
    ----------
    tensor
        Its number in the graph.
    address, held
        It goes around in so many pixels from a place on, in C.
    whole
        Whether all of it is there, pixel by pixel in order.
    loaded, fetched
        Whether its pixels are loaded as they are asked for, or all before the step.
    computed, written
        Whether the step computes it, and writes it outside.
    rows
        Of the plane that is computed or loaded.
    columns
        First and end of its columns in each strip.
    """

    tensor: int
    address: str
    held: int
    whole: bool
    loaded: bool
    fetched: bool
    computed: bool
    written: bool
    rows: int
    columns: tuple[Span, ...]

    @property
    def is_there(self) -> bool:
        """Whether all of it is in RAM before the step begins."""
        return not (self.loaded or self.computed)


@dataclass(frozen=True)
class PlannedStep:
    """A step: its maps, ascending.

    Attributes
    ----------
    running
        Whether the last operation adds up what it reads pixel by pixel.
    strips
        How many there are.
    memory
        Bytes in RAM.
    result
        Where the output of running values lies; None if it leaves RAM.
    copied
        Where the weights are that are copied from flash, by operation.
    block
        Output channels of which weights are copied at a time, by the operation that has them so.
    """

    group: Group
    maps: tuple[StepMap, ...]
    running: bool
    strips: int
    memory: int
    result: str | None
    copied: Mapping[int, str]
    block: Mapping[int, int]


def planned_steps(problem: Problem, plan: Plan, arenas: Sequence[Arena]) -> list[PlannedStep]:
    """Return the steps of a valid plan, whose memories are some arenas.

    Raises
    ------
    InputError
        For a step of a kind that there is no C for.
    """
    graph, where, found = problem.graph, dict[int, int](), list[PlannedStep]()
    for number, (step, decoded) in enumerate(zip(plan.steps, decode_plan(problem, plan), strict=True)):
        group, choice = decoded.group, decoded.choice
        shape = choice.shape
        if shape.order not in ("pixels", "kernels") or shape.pixels > 1 or shape.blocks:
            field = f"plan.steps[{number}]"
            raise InputError(field, step.order, "there is no C for passes of several pixels, tiles or blocks")
        for tensor in members(choice.fetched | choice.resident):
            where[tensor] = step.addresses[graph.tensors[tensor].key]
        whole = frozenset(members(decoded.on_chip))
        buffers = {
            (buffer.what, buffer.number): step.addresses[buffer.name(graph)]
            for buffer in step_buffers(group, shape, whole)
        }
        area, held = planes_or_strips(group, shape), line_pixels(group, shape)
        numbers = sorted({*group.lines, *group.computed})
        maps = []
        for tensor in numbers:
            height, width = graph.tensors[tensor].shape[1:]
            if tensor == group.output:
                height, width = group_of_passes(group, shape).plane
            columns: tuple[Span, ...] = ((0, width),)
            if isinstance(area, Strips):
                begins, ends = area.span(tensor)
                columns = tuple(zip(begins.tolist(), ends.tolist(), strict=True))
            lines = buffers.get(("lines", tensor), buffers.get(("block", tensor), 0))
            there = tensor in whole and not (shape.running and tensor == group.output)
            maps.append(
                StepMap(
                    tensor,
                    place(arenas, where[tensor] if there else lines),
                    graph.tensors[tensor].pixels if there else held.get(tensor, 1),
                    there,
                    tensor in group.sources and tensor not in whole,
                    bool(choice.fetched >> tensor & 1),
                    tensor in group.computed,
                    bool(choice.written >> tensor & 1),
                    height,
                    columns,
                )
            )
        found.append(
            PlannedStep(
                group,
                tuple(maps),
                shape.running,
                len(maps[-1].columns),
                decoded.memory * problem.machine.element_bytes,
                place(arenas, where[group.output]) if shape.running and group.output in where else None,
                {number: place(arenas, buffers["weights", number]) for number in sorted(shape.copied)},
                {group.last.number: shape.kernels} if streams(group, shape) else {},
            )
        )
        for tensor in [each for each in where if group.is_last_reader(each, decoded.before.done)]:
            where.pop(tensor)
    return found
