"""A simple plan to compare with, made without a search: tiles are halved until they fit.

That is what is written first by hand: begin with the whole layer, halve the longest side of a tile as long as
it does not fit, add up each output where it is, and load input and weights anew for each tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from tilewright.spec.layer import Layer
from tilewright.tiling.attention.apart import parts_of
from tilewright.tiling.attention.plan import AttentionPlan
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS as DSP_LOOPS
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.evaluation import violation
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.loops import LOOPS
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.objectives import TilingLimits, TilingObjective
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.search import tiles
from tilewright.tiling.plan import LayerPlan, Plan
from tilewright.tiling.problem import Problem

NAME = "halved tiles"
"""What people are told of such a plan."""

ABOUT = "tiles halved until they fit, loops in one order, input and weights loaded anew for each tile"

MOST_CUTS = 500
"""Most halvings of a layer."""


def plain(problem: Problem) -> Problem:
    """Return a problem whose every plan is allowed that the machine can run."""
    asked = {"objective": TilingObjective(), "limits": TilingLimits()}
    return Problem.model_validate({name: getattr(problem, name) for name in Problem.model_fields} | asked)


def halved(problem: Problem) -> Plan | None:
    """Return the simple plan of a layer or a network; None where some layer has none that fits."""
    if problem.traded:
        return None
    found: dict[int, LayerPlan | None] = {}
    for _, part in problem.parts:
        if id(part) not in found:
            found[id(part)] = _first(part)
    layers = [found[id(part)] for _, part in problem.parts]
    kept = tuple(layer for layer in layers if layer is not None)
    return Plan(kept) if len(kept) == len(layers) else None


def _first(part: Problem) -> LayerPlan | None:
    """Return the first plan of a layer that fits."""
    return next((one for one in _plans(part) if _fits(part, one)), None)


def _fits(part: Problem, plan: LayerPlan) -> bool:
    return violation(plain(part), Plan((plan,))) is None


def _plans(part: Problem) -> Iterator[LayerPlan]:
    """Yield plans of a layer, the first of which that fits is taken."""
    machine = part.machine
    if part.operation is not None and part.operation.attention is not None:
        each = [_first(one) for one in parts_of(part)]
        apart = tuple(one for one in each if isinstance(one, HierarchyPlan | OperationPlan))
        if len(apart) == len(each):
            yield AttentionPlan(None, apart=apart)
    elif part.operation is not None:
        yield from tiles(part.operation, machine)
    elif machine.kind == "dsp":
        for tile in _halvings(nest_of(part.one_layer, machine).sizes):
            yield DspPlan(tuple(tile), DSP_LOOPS[1:], "tile")
    elif machine.kind == "npu":
        for tile in _halvings(cut_of(part.one_layer, machine, "KS").sizes):
            yield NpuPlan("KS", "OS", tuple(tile))
    else:
        yield from (_nest(part.one_layer, machine, kept) for kept in machine.choices)


def _halvings(sizes: tuple[int, ...]) -> Iterator[list[int]]:
    """Yield tiles from the whole down, each with the longest side of the last one halved."""
    tile = list(sizes)
    yield tile
    while max(tile) > 1:
        longest = tile.index(max(tile))
        tile[longest] = -(-tile[longest] // 2)
        yield tile


# Hierarchies --------------------------------------------------------------------------------------------

Cuts = list[dict[str, int]]
"""Into how many parts each memory's loops cut the block that they go through."""


def _nest(layer: Layer, machine: HierarchyMachine, kept: Kept) -> HierarchyPlan:
    """Return a nest whose blocks are cut in halves, or the next larger number of parts, until they fit."""
    machine = machine.keeping(kept)
    cuts: Cuts = [{} for _ in machine.nodes]
    plan = _built(layer, machine, cuts, kept)
    for _ in range(MOST_CUTS):
        nest = Nest(layer, machine, plan)
        left = next((loop for loop, size in nest.blocks[-1].items() if size > 1), None)
        full = _first_full(nest)
        if left is not None:
            where = _place(machine, left, len(machine.nodes))
            parts = nest.blocks[-1][left]
        elif full is not None:
            block = nest.blocks[full]
            left = max(
                (loop for loop in LOOPS if _place(machine, loop, full) is not None), key=block.__getitem__
            )
            where, parts = _place(machine, left, full), _least_factor(block[left])
        else:
            break
        if where is None or parts == 1:
            break
        cuts[where][left] = cuts[where].get(left, 1) * parts
        plan = _built(layer, machine, cuts, kept)
    return plan


def _first_full(nest: Nest) -> int | None:
    """Return the first memory that overflows."""
    for number in nest.machine.memories:
        name = nest.machine.levels[nest.machine.nodes[number].level].name
        if (nest.overflow() or "").startswith(f"memory overflow: {name} "):
            return number
    return None


def _place(machine: HierarchyMachine, loop: str, below: int) -> int | None:
    """Return the innermost memory outside of a node that may go through a loop."""
    places = range(below - 1, -1, -1)
    return next((i for i in places if machine.nodes[i].axis is None and loop in machine.allowed[i]), None)


def _least_factor(size: int) -> int:
    """Return the smallest prime factor, one of one."""
    return next((factor for factor in range(2, size + 1) if size % factor == 0), 1)


def _built(layer: Layer, machine: HierarchyMachine, cuts: Cuts, kept: Kept) -> HierarchyPlan:
    """Return the nest with these cuts: arrays take as much as they can, the last memory what is left."""
    block = dict(Nest(layer, machine, HierarchyPlan(())).extents)
    nest = []
    for number, node in enumerate(machine.nodes):
        loops = []
        room = node.axis.size if node.axis is not None else 0
        for loop in LOOPS:
            size = block[loop]
            if node.axis is not None:
                parts = _largest_divisor(size, room) if loop in node.axis.loops else 1
                room //= parts
            elif number == len(machine.nodes) - 1 and loop in machine.allowed[number]:
                parts = size
            else:
                parts = gcd(size, cuts[number].get(loop, 1))
            if parts > 1:
                block[loop] = size // parts
                loops.append((loop, block[loop]))
        nest.append(tuple(loops))
    return HierarchyPlan(tuple(nest), kept)


def _largest_divisor(size: int, most: int) -> int:
    return next(parts for parts in range(min(size, most), 0, -1) if size % parts == 0)
