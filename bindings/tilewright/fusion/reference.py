"""Fusion and MiniZinc: the data of ``models/fusion/reference.mzn``, and plans from its solutions."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from pathlib import Path
from typing import Any, NamedTuple

from tilewright.fusion.graph import engine_of, mixes_channels
from tilewright.fusion.group.best_tile import space_of
from tilewright.fusion.group.told_apart import LOOPS, SIZES
from tilewright.fusion.machine import BUFFERS, CONV, HOST, MISC, POOL
from tilewright.fusion.matching import Nodes
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import Problem
from tilewright.spec.constraints import Term
from tilewright.spec.graph import OWN
from tilewright.spec.layer import Layer, Window
from tilewright.spec.network import Add, Map

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST = 60_000
"""Constraints beyond which it takes longer to write the model out than anybody waits for a small network."""

ENGINES = {HOST: 0, CONV: 1, POOL: 2, MISC: 3}

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
    if problem.minimise != "traffic":
        return f"objective.minimise = {problem.minimise!r}: the model states traffic only"
    strange = next((op.spec.name for op in problem.ops if not _is_plain(problem, op.number)), None)
    if strange is not None:
        return f"{strange} does not read whole maps of one shape"
    if (many := size(problem)) > MOST:
        return f"about {many:,} constraints are needed, {MOST:,} are written at most"
    if (most := 64 * _worst(problem)) > LARGEST:
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
    """Return about how many constraints the formulation gives: some for each tile, map and group."""
    sides = max(max(op.spec.output[1:]) for op in problem.ops)
    groups = sum(len(problem.orders_of(nodes).listed) for nodes in problem.allowed)
    return 40 * groups * (1 + len(problem.ops)) * sides


def relax(_problem: Problem) -> int:
    """Return 0: problems of this size need no neighbourhoods."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective of the formulation is the traffic."""
    return 0, 1


def _worst(problem: Problem) -> int:
    """Return more bytes than a plan moves: the most of any group, for each operation."""
    most = 0
    for choice in _choices(problem):
        if engine_of(problem.ops[choice.order[0]]) != HOST:
            whole = not problem.allowed[tuple(sorted(choice.order))]
            space = space_of(problem, problem.fused(choice.order), whole)
            most = max(most, 0 if space is None else int(space.traffic.max()))
    return most * len(problem.ops)


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
        "row_sizes": [choice.rows for choice in choices],
        "column_sizes": [choice.columns for choice in choices],
        "kernel_sizes": [choice.kernels for choice in choices],
        "channel_sizes": [choice.channels for choice in choices],
        "room": [machine.capacity(name) for name in BUFFERS],
        "images": machine.arrays,
        "element_bytes": machine.element_bytes,
        "may_recompute": problem.limits.halo != "keep",
        "may_keep": problem.limits.halo != "recompute",
        "worst": _worst(problem),
    }


def term(problem: Problem, formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc; None of cycles and energy, as a schedule has them."""
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
        case "traffic":
            return "objective"
        case "memory":
            return "max(g in GROUP)(bool2int(chosen[g]) * sum(b in 1..3)(buffer[g, b]))"
        case "group.traffic":
            return f"traffic[{named[0]}]"
        case "group.memory":
            return f"[sum(b in 1..3)(buffer[g, b]) | g in GROUP][{named[0]}]"
        case "buffer":
            return f"buffer[{named[0]}, {BUFFERS.index(str(one.arguments[1])) + 1}]"
    if one.word in SIZES:
        return f"{VARIABLES[one.word]}[{named[0]}]"
    return f"{VARIABLES[one.word]}[{named[0]}]" if one.word in LOOPS else None


def _before(one: int, other: int) -> str:
    """Return whether an operation is executed before another; in one turn the first operations decide."""
    left, right = f"group[{one}]", f"group[{other}]"
    first = "[min(members[g]) | g in GROUP]"
    tie = f"turn[{one}] = turn[{other}] /\\ {first}[{left}] < {first}[{right}]"
    inside = f"turn_in[{left}, {one}] < turn_in[{left}, {other}]"
    return f"if {left} = {right} then {inside} else turn[{one}] < turn[{other}] \\/ ({tie}) endif"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions: the group of each operation, from 1."""
    number = {op.name: op.number for op in problem.ops}
    of_order = {choice.order: place + 1 for place, choice in enumerate(_choices(problem))}
    found: dict[int, int] = {}
    for group in plan.groups:
        order = tuple(number[name] for name in group.nodes)
        if order not in of_order:
            return None
        found |= dict.fromkeys(order, of_order[order])
    return [found[op.number] for op in problem.ops]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the group of each operation in a solution, in the order of `start`."""
    return list(solution.group)


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
    for at in sorted({number - 1 for number in solution.group}, key=place):
        order = choices[at].order
        hosted = engine_of(problem.ops[order[0]]) == HOST
        tile = None if hosted else Tile(*sizes[at], *loops[at])
        groups.append(Group(tuple(problem.ops[node].name for node in order), tile))
    return Plan(tuple(groups))
