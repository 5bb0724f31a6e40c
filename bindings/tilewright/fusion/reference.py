"""Fusion and MiniZinc: the data of ``models/fusion/reference.mzn``, and plans from its solutions."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.fusion.evaluation import decided_maps
from tilewright.fusion.graph import engine_of, mixes_channels
from tilewright.fusion.group.best_tile import cycle_limit, space_of
from tilewright.fusion.group.told_apart import LOOPS
from tilewright.fusion.host import host_cycles
from tilewright.fusion.layouts import NCHW, NHWC
from tilewright.fusion.machine import BUFFERS, CONV, HOST, MISC, POOL
from tilewright.fusion.matching import Nodes
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import MOST_CYCLES, Problem
from tilewright.fusion.selection.candidates import most_copied
from tilewright.fusion.selection.execution_order import layouts_by_map
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms
from tilewright.spec.graph import OWN
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, Map

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST = 60_000
"""Constraints beyond which it takes longer to write the model out than anybody waits for a small network."""

ENGINES = {HOST: 0, CONV: 1, POOL: 2, MISC: 3}

MINIMISED = ("cycles", "traffic", "energy", "memory")
"""What is minimised, as the formulation numbers it from 1 on."""

VARIABLES = {
    "tile.rows": "rows",
    "tile.columns": "columns",
    "tile.kernels": "kernels",
    "tile.channels": "depth",
    "tile.halo": "1 + keeps",
    "tile.order": "1 + by_kernels",
    "tile.parameters": "1 + stays",
}
"""What each word for a tile is in the formulation, of a group."""


class _Choice(NamedTuple):
    """A group that templates allow, its operations in one order, with the sizes of its tiles."""

    order: Nodes
    rows: set[int]
    columns: set[int]
    kernels: set[int]
    channels: set[int]


@lru_cache(maxsize=8)
def _choices(problem: Problem) -> tuple[_Choice, ...]:
    """Return all groups in all orders that have a tile."""
    found = []
    for nodes, tiled in sorted(problem.allowed.items()):
        if engine_of(problem.ops[nodes[0]]) == HOST:
            found.append(_Choice(nodes, {1}, {1}, {1}, {1}))
            continue
        for order in problem.orders_of(nodes).listed:
            space = space_of(problem, problem.fused(order), not tiled)
            if space is not None:
                kernels, channels = {way.kernels for way in space.ways}, {way.channels for way in space.ways}
                sizes = set(space.rows.sizes), set(space.columns.sizes)
                found.append(_Choice(order, *sizes, kernels, channels))
    return tuple(found)


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    strange = next((op.spec.name for op in problem.ops if not _is_plain(problem, op.number)), None)
    if strange is not None:
        return f"{strange} does not read whole maps of one shape"
    if (many := size(problem)) > MOST:
        return f"about {many:,} constraints are needed, {MOST:,} are written at most"
    if (most := _largest(problem)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def _is_plain(problem: Problem, number: int) -> bool:
    """Whether an operation reads one map, or adds some up; the host's are not looked at."""
    op = problem.ops[number]
    if not isinstance(op.spec, Window):
        return False
    if engine_of(op) == HOST:
        return all(access.source != number for access in op.accesses)
    shapes = {problem.graph.shape(access) for access in op.accesses}
    whole = all(access.channels is None for access in op.accesses)
    one = len(op.accesses) == 1 or isinstance(op.spec, Add)
    return whole and one and len(shapes) == 1 and not (isinstance(op.spec, Map) and op.spec.parameters)


def size(problem: Problem) -> int:
    """Return about how many constraints the formulation gives: some for each tile, map, group and step."""
    sides = max(max(op.spec.output[1:]) for op in problem.ops)
    groups = sum(len(problem.orders_of(nodes).listed) for nodes in problem.allowed)
    if (tiles := 40 * groups * (1 + len(problem.ops)) * sides) > MOST or not _is_timed(problem):
        return tiles
    return tiles + sum(40 * len(choice.order) * _steps(problem, choice) for choice in _choices(problem))


def _steps(problem: Problem, choice: _Choice) -> int:
    """Return the steps of a group in its schedule: tiles, stages, channel blocks and parts of sums."""
    if engine_of(problem.ops[choice.order[0]]) == HOST:
        return 0
    group = problem.fused(choice.order)
    height, width = group.plane
    tiles = -(-height // min(choice.rows)) * -(-width // min(choice.columns))
    least = min(choice.kernels)
    blocks = sum(-(-group.features[stage[0]].shape[0] // least) for stage in group.stages)
    parts = -(-group.summed(group.loaded) // min(choice.channels)) if group.sums else 1
    return tiles * blocks * parts * (2 if len(group.stages) == 1 and tiles > 1 else 1)


def _is_timed(problem: Problem) -> bool:
    """Whether anything asks for cycles: what is minimised, a limit, or a constraint."""
    power = problem.machine.energy.milliwatts > 0
    told = (term.word for part in problem.must_hold_in_numbers for term in terms(part))
    asked = {problem.minimise, *(word.removeprefix("group.") for word in told)}
    limited = problem.minimise == "memory" and cycle_limit(problem) < MOST_CYCLES
    return "cycles" in asked or ("energy" in asked and power) or limited


def relax(_problem: Problem) -> int:
    """Return 0: problems of this size need no neighbourhoods."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective of the formulation leaves out what the host takes."""
    return _hosted(problem, problem.minimise), 1


class _Most(NamedTuple):
    """What no group exceeds with any of its tiles."""

    traffic: int
    macs: int
    cycles: int


@lru_cache(maxsize=8)
def _most(problem: Problem) -> _Most:
    """Return what no group exceeds; cycles are those of all its instructions one after the other.

    Each instruction is rounded up by less than a cycle, has at least one value, and a MAC takes at most one.
    """
    machine = problem.machine
    traffic = macs = cycles = 0
    for choice in _choices(problem):
        if engine_of(problem.ops[choice.order[0]]) == HOST:
            continue
        group = problem.fused(choice.order)
        space = space_of(problem, group, not problem.allowed[tuple(sorted(choice.order))])
        assert space is not None
        moved, computed = int(space.traffic.max()), int(space.macs.max())
        again = prod(group.plane)  # tiles, each of which may compute all
        values = sum(
            prod(group.features[index].shape) * (1 + machine.arrays * group.operands(index))
            for index in group.members
        )
        rate = min(machine.load_mb_per_s, machine.save_mb_per_s)
        longest = machine.issue_cycles + moved + moved * machine.clock_mhz // rate + 1
        longest += moved * machine.burst_cycles  # of a byte each
        traffic, macs = max(traffic, moved), max(macs, computed)
        cycles = max(cycles, longest + computed + again * values)
    return _Most(traffic, macs, cycles)


def _worst(problem: Problem) -> int:
    """Return more than a plan has of what is minimised: the most of any group, for each operation."""
    most = _most(problem)
    if problem.minimise == "memory":
        return problem.machine.buffer_bytes
    each = {
        "traffic": most.traffic,
        "cycles": most.cycles,
        "energy": int(problem.machine.nanojoules(most.traffic, most.macs, most.cycles)),
    }
    return each[problem.minimise] * len(problem.ops) + most_copied(problem)


def _largest(problem: Problem) -> int:
    """Return about the largest number that occurs where the solver multiplies before it divides."""
    most, machine = _most(problem), problem.machine
    prices = machine.energy
    copied = sum(max(each.values()) for each in _copies(problem))
    priced = most.traffic * prices.pj_per_dram_byte + most.macs * prices.pj_per_mac
    timed = max(most.cycles + copied, most.traffic * machine.clock_mhz) if _is_timed(problem) else 0
    return max(64 * most.traffic, 2 * timed * len(problem.ops), most.cycles * prices.milliwatts, priced)


def _most_cycles(problem: Problem) -> int:
    """Return the most cycles of all groups, without what the host takes."""
    if problem.minimise != "memory":
        return LARGEST
    return min(LARGEST, cycle_limit(problem) - _hosted(problem, "cycles"))


def _hosted(problem: Problem, cost: str) -> int:
    """Return what the host adds to a cost of all groups."""
    cycles = [host_cycles(problem, op) for op in problem.ops]
    if cost == "energy":
        return sum(int(problem.machine.nanojoules(0, 0, each)) for each in cycles)
    return sum(cycles) if cost == "cycles" else 0


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    ops, own = problem.ops, problem.graph.own_input
    shapes = [own, *(op.spec.output for op in ops)]
    layers = [op.spec if isinstance(op.spec, Layer) else None for op in ops]
    windows = [op.spec if isinstance(op.spec, Window) else None for op in ops]
    fused = [problem.fused((op.number,)) if engine_of(op) != HOST else None for op in ops]
    choices = _choices(problem)
    machine = problem.machine

    def stages(choice: _Choice) -> list[int]:
        if engine_of(ops[choice.order[0]]) == HOST:
            return [int(op.number in choice.order) for op in ops]
        group = problem.fused(choice.order)
        of = dict(zip(choice.order, group.members, strict=True))
        return [group.stage[of[op.number]] + 1 if op.number in of else 0 for op in ops]

    def load_turns(choice: _Choice) -> list[int]:
        if engine_of(ops[choice.order[0]]) == HOST:
            return [0] * len(shapes)
        group = problem.fused(choice.order)
        turn = {one.sources[0].source: place for place, one in enumerate(group.features[: group.loaded], 1)}
        return [turn.get(OWN if number == 0 else number - 1, 0) for number in range(len(shapes))]

    return {
        "n_ops": len(ops),
        "channels": [shape[0] for shape in shapes],
        "height": [shape[1] for shape in shapes],
        "width": [shape[2] for shape in shapes],
        "reads": [{0 if access.source == OWN else access.source + 1 for access in op.accesses} for op in ops],
        "engine": [ENGINES[engine_of(op)] for op in ops],
        "mixes": [mixes_channels(op) for op in ops],
        "summed": [0 if one is None else one.summed(one.loaded) for one in fused],
        "groups": [1 if layer is None else layer.groups for layer in layers],
        "kernel_size": [1 if one is None else prod(one.kernel) for one in windows],
        "bias": [int(getattr(layer, "bias", False)) for layer in layers],
        "operands": [0 if one is None else one.operands(one.loaded) for one in fused],
        "per_channel": [
            0 if one is None else one.parameters(one.loaded, (0, one.summed(one.loaded))) for one in fused
        ],
        "stride": [[1, 1] if one is None else list(one.stride) for one in windows],
        "before": [[0, 0] if one is None else [one.padding[0], one.padding[2]] for one in windows],
        "extent": [[1, 1] if one is None else list(one.kernel_extent) for one in windows],
        "leaves": [op.leaves for op in ops],
        "n_candidates": len(choices),
        "members": [{node + 1 for node in choice.order} for choice in choices],
        "turn_in": [
            [choice.order.index(op.number) + 1 if op.number in choice.order else 0 for op in ops]
            for choice in choices
        ],
        "stage": [stages(choice) for choice in choices],
        "load_turn": [load_turns(choice) for choice in choices],
        "row_sizes": [choice.rows for choice in choices],
        "column_sizes": [choice.columns for choice in choices],
        "kernel_sizes": [choice.kernels for choice in choices],
        "channel_sizes": [choice.channels for choice in choices],
        "room": [machine.capacity(name) for name in BUFFERS],
        "images": machine.arrays,
        "element_bytes": machine.element_bytes,
        "lanes": list(machine.conv_array),
        "operand_rate": machine.operands_per_cycle,
        "clock_mhz": machine.clock_mhz,
        "load_rate": machine.load_mb_per_s,
        "save_rate": machine.save_mb_per_s,
        "issue_cycles": machine.issue_cycles,
        "pj_per_byte": machine.energy.pj_per_dram_byte,
        "pj_per_mac": machine.energy.pj_per_mac,
        "milliwatts": machine.energy.milliwatts,
        "burst_bytes": 1 if machine.layouts is None else machine.layouts.burst_bytes,
        "burst_cycles": machine.burst_cycles,
        "layouts": [set(layouts) for layouts in _copies(problem)],
        "copy_cycles": [[each.get(way, 0) for way in (0, 1)] for each in _copies(problem)],
        "copy_energy": [
            [int(machine.nanojoules(0, 0, each.get(way, 0))) for way in (0, 1)] for each in _copies(problem)
        ],
        "may_recompute": problem.limits.halo != "keep",
        "may_keep": problem.limits.halo != "recompute",
        "minimise": MINIMISED.index(problem.minimise) + 1,
        "most_cycles": _most_cycles(problem),
        "timed": _is_timed(problem),
        "worst": _worst(problem),
        "horizon": _most(problem).cycles,
    }


def _copies(problem: Problem) -> list[dict[int, int]]:
    """Return, for the input and each map, the layouts that it can have and the cycles of its copy then."""
    found = []
    for number in range(OWN, len(problem.ops)):
        index = problem.tensor_of.get(number)
        if index is None:
            found.append({0: 0})
            continue
        ways = problem.tensors[index].layouts
        found.append({int(way == NCHW): sum(problem.copied({index: way}).values()) for way in ways})
    return found


def term(problem: Problem, formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if not suits(problem, formulation):
        return None
    number = {op.name: op.number + 1 for op in problem.ops}
    named = [f"group[{number[str(each)]}]" for each in one.arguments if str(each) in number]
    match one.word:
        case "together":
            return f"{named[0]} = {named[1]}"
        case "before":
            return _before(number[str(one.arguments[0])], number[str(one.arguments[1])])
        case "size":
            return f"[card(members[g]) | g in GROUP][{named[0]}]"
        case "groups":
            return "sum(g in GROUP where not on_host[g])(chosen[g])"
        case "traffic" | "cycles" | "energy":
            hosted = _hosted(problem, one.word)
            copied = "" if one.word == "traffic" else f" + of_copies(copy_{one.word})"
            return None if hosted > LARGEST // 2 else f"(of_all({one.word}) + {hosted}{copied})"
        case "memory":
            return "memory"
        case "group.traffic" | "group.cycles" | "group.energy":
            return f"{one.word.removeprefix('group.')}[{named[0]}]"
        case "group.memory":
            return f"[sum(b in 1..3)(buffer[g, b]) | g in GROUP][{named[0]}]"
        case "buffer":
            return f"buffer[{named[0]}, {BUFFERS.index(str(one.arguments[1])) + 1}]"
    return f"{VARIABLES[one.word]}[{named[0]}]"


def _before(one: int, other: int) -> str:
    """Return whether an operation is executed before another; in one turn the first operations decide."""
    left, right = f"group[{one}]", f"group[{other}]"
    first = "[min(members[g]) | g in GROUP]"
    tie = f"turn[{one}] = turn[{other}] /\\ {first}[{left}] < {first}[{right}]"
    inside = f"turn_in[{left}, {one}] < turn_in[{left}, {other}]"
    return f"if {left} = {right} then {inside} else turn[{one}] < turn[{other}] \\/ ({tie}) endif"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions: the group of each operation, from 1, and all tiles."""
    number = {op.name: op.number for op in problem.ops}
    of_order = {choice.order: place for place, choice in enumerate(_choices(problem))}
    found: dict[int, int] = {}
    tiles = [_tile_decisions(choice, None) for choice in _choices(problem)]
    for group in plan.groups:
        order = tuple(number[name] for name in group.nodes)
        if order not in of_order:
            return None
        place = of_order[order]
        found |= dict.fromkeys(order, place + 1)
        tiles[place] = _tile_decisions(_choices(problem)[place], group.tile)
    if len(found) < len(problem.ops):
        return None
    layouts = {number: int(layout == NCHW) for number, layout in decided_maps(problem, plan).items()}
    first = [min(each) for each in _copies(problem)]
    ways = [layouts.get(number, first[number - OWN]) for number in range(OWN, len(problem.ops))]
    return [found[op.number] for op in problem.ops] + [value for tile in tiles for value in tile] + ways


def _tile_decisions(choice: _Choice, tile: Tile | None) -> list[int]:
    """Return a tile as the formulation has it; without one, that of groups that are not chosen."""
    if tile is None:
        return [0, 0, 0, max(choice.rows), max(choice.columns), max(choice.kernels), max(choice.channels)]
    ways = (tile.halo, tile.order, tile.parameters)
    loops = [names.index(way) for names, way in zip(LOOPS.values(), ways, strict=True)]
    return [*loops, tile.rows, tile.columns, tile.kernels, tile.channels]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the values of the decisions in a solution, in the order of `start`."""
    ways = zip(solution.keeps, solution.by_kernels, solution.stays, strict=True)
    sizes = zip(solution.rows, solution.columns, solution.kernels, solution.depth, strict=True)
    tiles = [[*map(int, way), *size] for way, size in zip(ways, sizes, strict=True)]
    return [*solution.group, *(value for tile in tiles for value in tile), *solution.layout]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of reference.mzn."""
    choices = _choices(problem)
    ways = zip(solution.keeps, solution.by_kernels, solution.stays, strict=True)
    loops = [tuple(names[int(way)] for names, way in zip(LOOPS.values(), each, strict=True)) for each in ways]
    sizes = list(zip(solution.rows, solution.columns, solution.kernels, solution.depth, strict=True))

    def place(at: int) -> tuple[int, int]:
        order = choices[at].order
        return solution.turn[order[0]], min(order)

    groups = []
    chosen = sorted({number - 1 for number in solution.group}, key=place)
    for at in chosen:
        order = choices[at].order
        hosted = engine_of(problem.ops[order[0]]) == HOST
        tile = None if hosted else Tile(*sizes[at], *loops[at])
        groups.append(Group(tuple(problem.ops[node].name for node in order), tile))
    layouts = {
        index: NCHW if solution.layout[number - OWN] else NHWC for number, index in problem.tensor_of.items()
    }
    return Plan(tuple(groups), layouts_by_map(problem, [choices[at].order for at in chosen], layouts))
