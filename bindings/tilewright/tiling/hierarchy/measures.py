"""What an executed plan of a layer on a hierarchy has cost: in all, by level and by operand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from tilewright.core.measures import counted
from tilewright.simulator import Report
from tilewright.simulator.levels import READ, WRITTEN
from tilewright.tiling.hierarchy.cost import (
    KINDS,
    TICKS,
    Cost,
    attojoules,
    prices,
    shown,
    ticks_per_bit,
    transfer_ticks,
)
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS
from tilewright.tiling.hierarchy.machine import OBJECTIVES
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.machine_kind import LayerProblem
from tilewright.tiling.measures import HierarchyLayer, Loops, MovedBytes, MovedElements, MovedEnergy

WAYS = (("read", READ), ("written", WRITTEN))


def measure_execution(problem: LayerProblem, nest: Nest, cost: Cost, report: Report) -> HierarchyLayer:
    """Return what was measured of an executed plan."""
    values = {name: shown(name, cost.value(name, problem.level)) for name in OBJECTIVES}
    return HierarchyLayer(
        **counted(report),
        duration_cycles=values["cycles"],
        accesses_elements=values["accesses"],
        energy_aj=values["energy"],
        edp_nj_cycles=values["edp"],
        utilisation=nest.layer.macs / (cost.cycles * nest.machine.most_macs_per_cycle),
        capacity_bytes=-(-sum(nest.needed_bits(1).values()) // 8) if problem.trades_capacity else None,
        **break_down(nest, cost),
    )


def break_down(nest: Nest, cost: Cost) -> dict[str, Any]:
    """Return the fields of `HierarchyLayer` that say where the totals of a plan come from."""
    machine = cost.machine
    levels: dict[str, dict[str, dict[str, int]]] = {}
    for i, nodes in machine.memories.items():
        level, every = cost.levels[i], cost.tally.every[list(nodes)].sum(axis=0)
        counts = {name: every[:, way].sum(axis=0).tolist() for name, way in WAYS}
        levels[level.name] = {name: dict(zip(KINDS, count, strict=True)) for name, count in counts.items()}
    found: dict[str, Any] = {
        "nest": _loops(nest),
        "levels_elements": {name: MovedElements(**moved) for name, moved in levels.items()},
        "levels_bytes": _in_bytes(cost, levels),
    }
    if machine.priced:
        found["levels_aj"] = _in_attojoules(cost, levels)
        found["mac_aj"] = cost.layer.macs * attojoules(machine.mac_pj, 1)
    if nest.plan.kept:
        found["kept"] = {name: list(operands) for name, operands in nest.plan.kept}
    return found | {"held_bytes": _held(nest)} | _cycles(cost) | _filled(nest, cost)


def _loops(nest: Nest) -> list[Loops]:
    """Return the loops of each node with their iterations, outermost first."""
    return [
        Loops(node=node.name, loops={LOOPS[loop]: nest.trips(i, loop) for loop, _ in nest.plan.nest[i]})
        for i, node in enumerate(nest.machine.nodes)
    ]


def whole(bits: int) -> int | float:
    """Return bits as bytes, without a point where they are whole ones."""
    return bits / 8 if bits % 8 else bits // 8


def _in_bytes(cost: Cost, levels: dict[str, Any]) -> dict[str, MovedBytes]:
    """Return the bytes that all instances of each memory read and write; what is not moved is left out."""
    width = {kind: int(getattr(cost.machine.bits, kind)) for kind in KINDS}
    return {
        name: MovedBytes(
            **{
                way: {kind: whole(count * width[kind]) for kind, count in counts.items() if count}
                for way, counts in moved.items()
            }
        )
        for name, moved in levels.items()
    }


def _in_attojoules(cost: Cost, levels: dict[str, Any]) -> dict[str, MovedEnergy]:
    """Return the energy of what all instances of each memory read and write, likewise."""
    width = {kind: int(getattr(cost.machine.bits, kind)) for kind in KINDS}
    return {
        level.name: MovedEnergy(
            **{
                way: {
                    kind: count * width[kind] * price
                    for kind, count in levels[level.name][way].items()
                    if count
                }
                for (way, _), price in zip(WAYS, prices(level), strict=True)
            }
        )
        for level in map(cost.levels.__getitem__, cost.machine.memories)
    }


def _held(nest: Nest) -> dict[str, dict[str, int | float]]:
    """Return the bytes that an instance of each memory but the first reserves, all copies of a tile."""
    found: dict[str, dict[str, int | float]] = {}
    for i in list(nest.machine.memories)[1:]:
        level = nest.machine.levels[nest.machine.nodes[i].level]
        found[level.name] = {operand: whole(bits) for operand, bits in nest.needed_bits(i).items()}
    return found


def _cycles(cost: Cost) -> dict[str, Any]:
    """Return how long the multipliers work and wait, how long ports are busy, and which of these limits."""
    name = {i: level.name for i, level in cost.levels.items()}
    ports, waiting = cost.ports, cost.waiting
    return {
        "multiplying_cycles": cost.multiplying // TICKS,
        "waiting_cycles": {name[i]: ticks / TICKS for i, ticks in sorted(waiting.items()) if ticks},
        "port_cycles": {name[i]: ticks / TICKS for i, ticks in ports.items() if ticks},
        "limited_by": _limit(cost),
    }


def _filled(nest: Nest, cost: Cost) -> dict[str, Any]:
    """Return for how long nothing is multiplied at first and at last, and the least time with both.

    Of memories with double buffering, whose transfers run beside the multipliers but for these: before the
    first step the first tiles come, and after the last one the last outputs go. The multipliers wait for
    other memories between both, too, but for the first tiles and the last outputs of these.
    """
    first = [*_tiles(nest, OPERANDS[:-1], nest.blocks)]
    last = [*_tiles(nest, OPERANDS[-1:], _last_blocks(nest))]
    filling, draining = (_longest(nest, tiles) for tiles in (first, last))
    between = cost.computing - _waited(nest, [*first, *last])
    return {
        "filling_cycles": filling / TICKS,
        "draining_cycles": draining / TICKS,
        "filled_cycles": max(cost.cycles, -(-(filling + between + draining) // TICKS)),
    }


def _last_blocks(nest: Nest) -> list[dict[str, int]]:
    """Return the last block that enters each node of the first instances, and last what is multiplied."""
    found = [dict(nest.extents)]
    for node, loops in zip(nest.machine.nodes, nest.plan.nest, strict=True):
        block = dict(found[-1])
        for loop, step in loops:
            block[loop] = min(block[loop], step) if node.axis else block[loop] % step or step
        found.append(block)
    return found


class _Tile(NamedTuple):
    """A tile that goes from one memory's first instance to the next one's, or back, by their nodes."""

    parent: int
    child: int
    out: bool
    outer_bits: int
    inner_bits: int


def _tiles(nest: Nest, operands: Sequence[str], blocks: Sequence[dict[str, int]]) -> Iterator[_Tile]:
    """Yield a tile of each of some operands at each boundary between memories, of blocks that enter these."""
    machine = nest.machine
    for operand in operands:
        for parent, child in pairwise(machine.holders[operand]):
            arrays = (i for i in range(parent, child) if machine.nodes[i].axis is not None)
            bits = []
            for node, inside in ((parent, min(arrays, default=child)), (child, child)):
                partial = operand == "output" and nest.summed_outside(node)
                width = int(getattr(machine.bits, "partial" if partial else operand))
                bits.append(nest.elements(operand, blocks[inside]) * width)
            yield _Tile(parent, child, operand == "output", *bits)


def _longest(nest: Nest, tiles: Sequence[_Tile]) -> int:
    """Return the ticks of the port that is busy longest with tiles of memories with double buffering."""
    levels = {i: nest.machine.levels[node.level] for i, node in enumerate(nest.machine.nodes)}
    busy: dict[str, list[int]] = {}
    for tile in tiles:
        if levels[tile.child].double_buffering:
            for node, bits, way in (
                (tile.parent, tile.outer_bits, WRITTEN if tile.out else READ),
                (tile.child, tile.inner_bits, READ if tile.out else WRITTEN),
            ):
                busy.setdefault(levels[node].name, [0, 0])[way] += bits * ticks_per_bit(levels[node])[way]
    shared = {level.name: level.bytes_per_cycle is not None for level in levels.values()}
    return max((sum(both) if shared[name] else max(both) for name, both in busy.items()), default=0)


def _waited(nest: Nest, tiles: Sequence[_Tile]) -> int:
    """Return the ticks for which multipliers wait for tiles of memories without double buffering."""
    level = {i: nest.machine.levels[node.level] for i, node in enumerate(nest.machine.nodes)}
    return sum(
        tile.outer_bits * transfer_ticks(level[tile.parent], level[tile.child])[tile.out]
        for tile in tiles
        if not level[tile.child].double_buffering
    )


def _limit(cost: Cost) -> str:
    """Name the longest of all that works side by side; of the multipliers' time its largest part."""
    ports, waiting = cost.ports, cost.waiting
    port = max(ports, key=lambda i: ports[i])
    level = cost.levels[port]
    if ports[port] > cost.computing:
        read, written = cost.reading_and_writing(port)
        side = "" if level.bytes_per_cycle is not None else "read " if read >= written else "write "
        return f"{side}port of {level.name}"
    longest = max(waiting, key=lambda i: waiting[i], default=None)
    if longest is None or waiting[longest] <= cost.multiplying:
        return "multipliers"
    return f"transfers of {cost.levels[longest].name}"
