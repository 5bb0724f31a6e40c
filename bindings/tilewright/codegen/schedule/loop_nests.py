"""Schedules of tilings: the loop nest of each layer, whatever the kind of the machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from tilewright.codegen.schedule.forms import (
    Array,
    Core,
    Costs,
    Held,
    Loop,
    OnChip,
    Operation,
    TiledLayer,
    TiledOperation,
    TilingSchedule,
)
from tilewright.codegen.schedule.operations import operation, operation_of
from tilewright.spec.errors import InputError
from tilewright.spec.network import OWN_INPUT
from tilewright.tiling import Plan, Problem
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS as DSP_LOOPS
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.hierarchy.loops import LOOPS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.measures import whole
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.npu.cut import Share, cut_of
from tilewright.tiling.npu.plan import NpuPlan

EXTERNAL = "external"
"""The memory outside of a DSP or an NPU."""

STATIONARY = {"IS": "input", "OS": "output", "WS": "weights"}

Sizes = dict[str, int]
"""Positions of each dimension, by the names that files have for loops."""


def tiling_schedule(
    about: Mapping[str, Any], problem: Problem, plan: Plan, measures: Mapping[str, Any]
) -> TilingSchedule:
    """Return the schedule of an executed plan."""
    if problem.network is None:
        name = about["instance"]
        shape = operation(problem.one_layer, [OWN_INPUT])
        layers = {name: _layer(problem, plan.layers[0], shape, _costs(measures))}
        return TilingSchedule(**about, layers=layers, left_out={})
    graph, measured = problem.executed_graph, measures["layers"]
    others = {op.name: op for op in graph.ops}
    layers, between = {}, {}
    for (name, part), own in zip(problem.parts, plan.layers, strict=True):
        if part.operation is not None and part.operation.attention is not None:
            refuse_attention(name)
        op = others.pop(name)
        if part.operation is None:
            shape = operation_of(graph, op, part.one_layer)
            layers[name] = _layer(part, own, shape, _costs(measured[name]))
        else:
            between[name] = _between(operation_of(graph, op), measured[name])
    left_out = {name: operation_of(graph, op) for name, op in others.items()}
    return TilingSchedule(**about, layers=layers, operations=between or None, left_out=left_out)


def refuse_attention(name: str) -> None:
    """Refuse attention as one operation, for which a schedule has no form.

    Raises
    ------
    InputError
        Says how to plan its operations one by one.
    """
    limit = "a schedule has no form for attention as one step; solve with --set limits.attention=apart"
    raise InputError("limits.attention", "any", f"operation {name}: {limit}")


def _between(shape: Operation, measures: Mapping[str, Any]) -> TiledOperation:
    """Return the tiles of an operation between layers."""
    told = {name: measures[name] for name in ("on", "tile", "tiles", "buffers_elements")}
    return TiledOperation.model_validate({"shape": shape, **told, "costs": _costs(measures)})


def _layer(part: Problem, plan: Any, shape: Operation, costs: Costs) -> TiledLayer:
    if isinstance(plan, DspPlan):
        nest = _dsp(part, plan)
    elif isinstance(plan, NpuPlan):
        nest = _npu(part, plan)
    else:
        nest = _hierarchy(part, plan)
    dimensions = _whole(part)
    return TiledLayer.model_validate(
        {"shape": shape, "dimensions": dimensions, "costs": costs, "arrays": {}, **nest}
    )


def _whole(part: Problem) -> Sizes:
    """Return the positions of each dimension of a layer."""
    return {LOOPS[letter]: size for letter, size in extents(part.one_layer).items()}


def _costs(measures: Mapping[str, Any]) -> Costs:
    costs = {name: measures[name] for name in Costs.model_fields if name in measures}
    loaded = {
        "weights" if name == "kernels" else name: many for name, many in costs["loaded_elements"].items()
    }
    return Costs.model_validate(costs | {"loaded_elements": loaded})


def _held(shape: Sequence[int], bits: int, copies: int) -> Held:
    elements = prod(shape)
    return Held(shape=list(shape), elements=elements, bits=bits, bytes=whole(copies * elements * bits))


def _tensors(tile: Sizes, rows: int, columns: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the operands of a tile, whose input has so many rows and columns."""
    groups, images = tile["groups"], tile["batch"]
    maps = groups * tile["output_maps"]
    return {
        "input": (images, groups * tile["input_maps"], rows, columns),
        "weights": (maps, tile["input_maps"], tile["kernel_rows"], tile["kernel_columns"]),
        "output": (images, maps, tile["rows"], tile["columns"]),
    }


def _looped(level: str, loops: Sequence[tuple[str, int, int]], *, unrolled: bool = False) -> list[Loop]:
    """Return the loops that run more than once, of (name, trips, step)."""
    return [
        Loop.model_validate(
            {"level": level, "loop": name, "trips": trips, "step": step, "unrolled": unrolled}
        )
        for name, trips, step in loops
        if trips > 1
    ]


# DSP ------------------------------------------------------------------------------------------------


def _dsp(part: Problem, plan: DspPlan) -> dict[str, Any]:
    machine = part.machine
    assert machine.kind == "dsp"
    nest = nest_of(part.one_layer, machine)
    step, trips = nest.step(plan.tile), nest.trips(plan.tile)
    order = [DSP_LOOPS.index(loop) for loop in DSP_LOOPS[0] + plan.order]
    loops = [(LOOPS[DSP_LOOPS[place]], trips[place], step[place]) for place in order]
    dimensions = _whole(part)
    tile = dimensions | {LOOPS[letter]: size for letter, size in zip(DSP_LOOPS, step, strict=True)}
    _, _, _, rows, columns, _ = step
    lines = nest.lines
    down, across = (
        (count - 1) * line.stride + line.extent for count, line in zip((rows, columns), lines, strict=True)
    )
    shapes = _tensors(tile, down, across)
    if plan.reuse == "weights":  # all of the groups of a tile
        shapes["weights"] = _tensors(dimensions | {"groups": tile["groups"]}, 1, 1)["weights"]
    widths = (width * machine.unit_bits for width in nest.widths(step).values())
    bits = dict(zip(("input", "weights", "output"), widths, strict=True))
    memory = OnChip.model_validate(
        {
            "capacity_bytes": machine.memory_bytes,
            "copies": machine.copies,
            "tile": tile,
            "holds": {name: _held(shape, bits[name], machine.copies) for name, shape in shapes.items()},
        }
    )
    return {
        "loops": _looped(EXTERNAL, loops),
        "memories": {EXTERNAL: _outermost(dimensions), "memory": memory},
        "reuse": plan.reuse,
    }


def _outermost(dimensions: Sizes) -> OnChip:
    """Return external memory, in which all tensors lie whole."""
    return OnChip.model_validate({"copies": 1, "tile": dimensions, "holds": {}})


# NPU ------------------------------------------------------------------------------------------------


def _npu(part: Problem, plan: NpuPlan) -> dict[str, Any]:
    machine, layer = part.machine, part.one_layer
    assert machine.kind == "npu"
    cut = cut_of(layer, machine, plan.partition)
    filters = "groups" if cut.depthwise else "output_maps"
    m, n, r, c = cut.step(plan.tile)
    trips = [-(-size // step) for size, step in zip(cut.sizes, (m, n, r, c), strict=True)]
    by_dimension = dict(
        zip(
            "mnrc",
            zip((filters, "input_maps", "rows", "columns"), trips, (m, n, r, c), strict=True),
            strict=True,
        )
    )
    order = "mrcn" if plan.schedule == "WS" else "rcmn"
    first = cut.shares[0]
    repeats = [("batch", layer.batch, 1), *([] if cut.depthwise else [("groups", layer.groups, 1)])]
    over_tiles = [
        ("rows", len(cut.rows), _length(first.rows)),
        (filters, len(cut.cores), _length(first.filters)),
    ]
    over_cores = [(filters, len(first.cores), _length(first.cores[0]))]
    dimensions = _whole(part)
    tile = dimensions | {"batch": 1, "groups": 1, filters: m, "input_maps": n, "rows": r, "columns": c}
    shapes = _tensors(tile, cut.reach(0, r), cut.reach(1, c))
    tiles = {"input": tile, "output": tile, "weights": tile}
    if plan.schedule == "WS":
        tiles["weights"] = tile | {"input_maps": cut.maps}
        shapes["weights"] = _tensors(tiles["weights"], 1, 1)["weights"]
    bits = machine.held_bits(cut.maps)
    memories = {
        name: OnChip.model_validate(
            {
                "capacity_bytes": getattr(machine, f"{operand}_bytes"),
                "copies": 1,
                "tile": tiles[operand],
                "holds": {operand: _held(shapes[operand], bits[operand], 1)},
            }
        )
        for name, operand in (("MB0", "input"), ("MB1", "weights"), ("MB2", "output"))
    }
    return {
        "loops": [
            *_looped(EXTERNAL, repeats),
            *_looped("TLEs", over_tiles, unrolled=True),
            *_looped("TLTs", over_cores, unrolled=True),
            *_looped(EXTERNAL, [by_dimension[letter] for letter in order]),
        ],
        "memories": {EXTERNAL: _outermost(dimensions), **memories},
        "arrays": {
            "TLEs": Array(instances=machine.tles, used=len(cut.shares)),
            "TLTs": Array(instances=machine.tlts, used=len(first.cores)),
        },
        "partition": plan.partition,
        "stationary": STATIONARY[plan.schedule],
        "cores": _cores(cut.shares),
    }


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _cores(shares: Sequence[Share]) -> list[Core]:
    return [
        Core(tle=number, rows=list(share.rows), filters=list(filters))
        for number, share in enumerate(shares)
        for filters in share.cores
    ]


# Hierarchy ------------------------------------------------------------------------------------------


def _hierarchy(part: Problem, plan: HierarchyPlan) -> dict[str, Any]:
    given = part.machine
    assert given.kind == "hierarchy"
    nest = Nest(part.one_layer, given, plan)
    machine = nest.machine
    loops: list[Loop] = []
    arrays = {}
    memories = {}
    for number, (node, told) in enumerate(zip(machine.nodes, plan.nest, strict=True)):
        own = [
            (LOOPS[letter], nest.trips(number, letter), nest.blocks[number + 1][letter]) for letter, _ in told
        ]
        loops += _looped(node.name, own, unrolled=node.axis is not None)
        if node.axis is not None:
            used = prod(trips for _, trips, _ in own)
            arrays[node.name] = Array(instances=node.axis.size, used=used)
        else:
            memories[node.name] = _memory(nest, machine, number)
    kept = {name: list(operands) for name, operands in plan.kept} or None
    return {"loops": loops, "memories": memories, "arrays": arrays, "kept": kept}


def _memory(nest: Nest, machine: HierarchyMachine, number: int) -> OnChip:
    level = machine.levels[machine.nodes[number].level]
    block = nest.blocks[number]
    tile = {LOOPS[letter]: size for letter, size in block.items()}
    shapes = _tensors(tile, *nest.plane(block))
    capacity = level.capacity_bytes
    return OnChip.model_validate(
        {
            "capacity_bytes": capacity if capacity is None or isinstance(capacity, int) else capacity.told(),
            "copies": level.copies,
            "tile": tile,
            "holds": {
                operand: _held(shapes[operand], nest.held_bits(operand, number), level.copies)
                for operand in level.holds
                if number
            },
        }
    )
