"""A table of what a plan decides: each layer's tiles, loops, what stays, and how full memories are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from tilewright.core.overview import Decisions
from tilewright.spec.layer import Layer
from tilewright.tiling.attention.apart import parts_of
from tilewright.tiling.attention.blocks import Walk
from tilewright.tiling.attention.plan import AttentionPlan
from tilewright.tiling.attention.step import Step
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS as DSP_LOOPS
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.hierarchy.level import OperandBytes
from tilewright.tiling.hierarchy.loops import USES
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.measures import TilingMeasures, duration
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.plan import NpuPlan
from tilewright.tiling.operations.machines import unit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.permuting import MoveWalk
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.scan import ScanWalk
from tilewright.tiling.operations.walks import walk_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

TITLES = {
    "g": "groups",
    "n": "images",
    "c": "maps",
    "y": "rows",
    "x": "columns",
    "k": "input maps",
    "r": "kernel rows",
    "s": "kernel columns",
}
"""The loops of a layer as people are told of them; maps are those of the output, of a group."""

SOFTMAX = {"online": "block by block", "rows": "of whole rows"}

STATIONARY = {"IS": "input", "OS": "output", "WS": "weights"}

MOST_LINES = 60
"""Most lines that a terminal or a picture gets."""


class Line(NamedTuple):
    """What one memory gets of a layer at a time.

    Attributes
    ----------
    sizes : by loop, (in the tile, in all)
        What is not there is not cut.
    loops
        Those that bring the tiles, outermost first, with their iterations; one that runs once is no loop.
    stays
        What is not moved when the innermost of them goes on.
    full
        How much of the memory the tiles take, all copies.
    """

    layer: str
    does: str
    memory: str
    sizes: Mapping[str, tuple[int, int]]
    loops: str
    stays: str
    full: str


def decisions(
    problem: Problem, plan: Plan, measures: TilingMeasures | None, most: int = MOST_LINES
) -> Decisions | None:
    """Return the table of a valid plan, layers of equal shape and plan once; None of a front.

    Parameters
    ----------
    measures
        None of a plan that was not executed.
    most
        How many lines there may be: of more, those of the layers that take longest are kept.
    """
    if problem.traded or plan.front:
        return None
    groups: dict[tuple[int, Any], _Alike] = {}
    layers: Mapping[str, Any] = getattr(measures, "layers", {"": measures})
    for (name, part), one in zip(problem.parts, plan.layers, strict=True):
        alike = groups.setdefault((id(part), one), _Alike([], list(_lines(part, one)), []))
        alike.names.append(name or "layer")
        alike.times.append(0 if measures is None else duration(layers[name]))
    every = list(groups.values())
    kept = _longest(every, most)
    return _table([line for each in kept for line in each.named()], _notes(problem, every, kept))


def _notes(problem: Problem, every: Sequence[_Alike], kept: Sequence[_Alike]) -> str:
    """Say what is to be known of the lines, and what is left out of them."""
    notes = []
    if problem.machine.kind == "npu":
        notes.append("sizes are those of the core that has most")
    if any(len(each.names) > 1 for each in kept):
        notes.append("(+N): N more layers have the same shape and plan")
    if others := sum(len(each.names) for each in every) - sum(len(each.names) for each in kept):
        shown, all_of_it = (sum(sum(each.times) for each in some) for some in (kept, every))
        share = 100 * (1 - shown / max(1, all_of_it))
        notes.append(f"{others} other layers, {share:.1f} % of the time, are left out")
    return "; ".join(notes)


def every_layer(problem: Problem, plan: Plan) -> Decisions | None:
    """Return the table with lines for each layer, whatever its length; None of a front."""
    if problem.traded or plan.front:
        return None
    known: dict[tuple[int, Any], list[Line]] = {}
    lines = []
    for (name, part), one in zip(problem.parts, plan.layers, strict=True):
        if (id(part), one) not in known:
            known[id(part), one] = list(_lines(part, one))
        lines += [line._replace(layer=name or "layer") for line in known[id(part), one]]
    return _table(lines, _notes(problem, [], []))


class _Alike(NamedTuple):
    """Layers of equal shape and plan: their names, the lines of one, and their times."""

    names: list[str]
    lines: list[Line]
    times: list[int]

    def named(self) -> list[Line]:
        """Return the lines with the name of the first, and how many more there are."""
        more = len(self.names) - 1
        name = self.names[0] + (f" (+{more})" if more else "")
        return [line._replace(layer=name) for line in self.lines]


def _longest(every: Sequence[_Alike], most: int) -> list[_Alike]:
    """Return the layers that take longest, in their order, as long as there is room for their lines."""
    kept: list[int] = []
    for place in sorted(range(len(every)), key=lambda place: -sum(every[place].times)):
        most -= len(every[place].lines)
        if most < 0 and kept:
            break
        kept.append(place)
    return [every[place] for place in sorted(kept)]


def _table(lines: Sequence[Line], note: str) -> Decisions:
    """Return the cells: loops that all layers have once, and columns that all leave empty, are left out."""
    shown = [loop for loop in TITLES if any(line.sizes.get(loop, (1, 1))[1] > 1 for line in lines)]
    # The window of a kernel, which the second column has, is of interest where it is cut up.
    shown = [
        loop
        for loop in shown
        if loop not in "rs"
        or any(tile < size for line in lines for tile, size in [line.sizes.get(loop, (1, 1))])
    ]
    columns = [
        ("layer", False, [line.layer for line in lines]),
        ("does", False, [line.does for line in lines]),
        ("memory", False, [line.memory for line in lines]),
        *((TITLES[loop], True, [_size(line.sizes.get(loop)) for line in lines]) for loop in shown),
        ("loops, outermost first", False, [line.loops for line in lines]),
        ("stays", False, [line.stays for line in lines]),
        ("memory full", all("," not in line.full for line in lines), [line.full for line in lines]),
    ]
    columns = [column for column in columns if any(column[2])]
    header, right, cells = zip(*columns, strict=True)
    return Decisions(header, list(zip(*cells, strict=True)), right, note)


def _size(cut: tuple[int, int] | None) -> str:
    """Write the size of a tile, and of how many where it is not all."""
    if cut is None:
        return ""
    tile, size = cut
    return f"{size}" if tile >= size else f"{tile}/{size}"


def _lines(part: Problem, plan: Any) -> Iterator[Line]:
    """Yield the lines of a layer."""
    if isinstance(plan, AttentionPlan):
        yield from _attention(part, plan)
    elif isinstance(plan, OperationPlan):
        yield _operation(part, plan)
    elif isinstance(plan, DspPlan):
        yield _dsp(part, plan)
    elif isinstance(plan, NpuPlan):
        yield _npu(part, plan)
    else:
        assert isinstance(plan, HierarchyPlan) and part.machine.kind == "hierarchy"
        yield from _hierarchy(part.one_layer, part.machine, plan)


def _does(layer: Layer) -> str:
    if layer.kind == "fc":
        return "fc"
    return _window("depthwise" if layer.groups == layer.input[0] > 1 else "conv", layer.kernel, layer.stride)


def _window(what: str, kernel: tuple[int, int], stride: tuple[int, int]) -> str:
    """Name what has a window: ``conv 3x3 /2``, with its stride unless that is one."""
    words = f"{what} {kernel[0]}x{kernel[1]}"
    if stride == (1, 1):
        return words
    return f"{words} /{stride[0]}" + (f"x{stride[1]}" if stride[0] != stride[1] else "")


def _looped(loops: Sequence[tuple[str, int]]) -> str:
    """Write loops, of (letter, iterations)."""
    return ", ".join(f"{TITLES[loop]} {trips}" for loop, trips in loops if trips > 1) or "-"


def _share(held: float, capacity: float) -> str:
    return f"{100 * held / capacity:.0f} %"


# Kinds of machines --------------------------------------------------------------------------------------


def _dsp(part: Problem, plan: DspPlan) -> Line:
    machine, layer = part.machine, part.one_layer
    assert machine.kind == "dsp"
    nest = nest_of(layer, machine)
    step, trips = nest.step(plan.tile), dict(zip(DSP_LOOPS, nest.trips(plan.tile), strict=True))
    order = [(loop, trips[loop]) for loop in "g" + plan.order]
    moving = [loop for loop, count in order if count > 1]
    # The loops that move each operand; weights that stay for their groups are not moved by the others.
    uses = USES | ({"weights": "g"} if plan.reuse == "weights" else {})
    stays = "nothing" if plan.reuse == "none" else _staying(moving, uses, halo=plan.keeps_halo)
    held = machine.copies * sum(nest.held(step, plan.reuse).values())
    sizes = dict(zip(DSP_LOOPS, zip(step, nest.sizes, strict=True), strict=True))
    return Line("", _does(layer), "", sizes, _looped(order), stays, _share(held, machine.capacity))


def _staying(moving: Sequence[str], uses: Mapping[str, str], *, halo: bool) -> str:
    """Name what the innermost loop does not move; of tiles beside each other what they share, too."""
    if not moving:
        return "all"
    stay = [operand for operand, loops in uses.items() if moving[-1] not in loops]
    shared = next((loop for loop in reversed(moving) if loop in uses.get("input", "")), "")
    if halo and shared and shared in "yxrs":
        stay.append(f"halo of {TITLES[shared]}")
    return ", ".join(stay) or "nothing"


def _npu(part: Problem, plan: NpuPlan) -> Line:
    """Return what the core gets that has most."""
    machine, layer = part.machine, part.one_layer
    assert machine.kind == "npu"
    cut = cut_of(layer, machine, plan.partition)
    step = cut.step(plan.tile)
    letters = ("g" if cut.depthwise else "c", "k", "y", "x")
    sizes = dict(zip(letters, zip(step, cut.sizes, strict=True), strict=True))
    order = (letters[0], "y", "x", "k") if plan.schedule == "WS" else ("y", "x", letters[0], "k")
    repeats = [("n", layer.batch), ("g", 1 if cut.depthwise else layer.groups)]
    loops = [*repeats, *((loop, -(-sizes[loop][1] // sizes[loop][0])) for loop in order)]
    need = cut.need(step, plan.schedule)
    full = ", ".join(
        f"{name} {_share(held * cut.held_units[name], cut.room[name])}" for name, held in need.items()
    )
    sizes["n"] = 1, layer.batch
    does = f"{_does(layer)}, cores cut {plan.partition}"
    return Line("", does, "", sizes, _looped(loops), STATIONARY[plan.schedule], full)


def _hierarchy(layer: Layer, machine: HierarchyMachine, plan: HierarchyPlan) -> Iterator[Line]:
    """Yield a line for each memory but the first, and one for the multipliers that the last one feeds."""
    nest = Nest(layer, machine, plan)
    nodes = nest.machine.nodes
    brought: list[str] = []
    moving: list[str] = []
    for number, node in enumerate(nodes):
        if node.axis is None and number:
            sizes = {loop: (nest.blocks[number][loop], size) for loop, size in nest.extents.items()}
            uses: dict[str, str] = {operand: USES[operand] for operand in node.holds}
            stays = _staying(moving, uses, halo=nest.machine.levels[node.level].halo)
            yield Line("", _does(layer), node.name, sizes, _joined(brought), stays, _full(nest, number))
            brought = []
        loops = [(letter, nest.trips(number, letter)) for letter, _ in plan.nest[number]]
        if any(trips > 1 for _, trips in loops):
            brought.append(_looped(loops) if node.axis is None else f"[{_looped(loops)} over {node.name}]")
        if node.axis is None:
            moving += [loop for loop, trips in loops if trips > 1]
    if brought:
        yield Line("", _does(layer), "(one product)", {}, _joined(brought), "", "")


def _joined(loops: Sequence[str]) -> str:
    return ", ".join(loops) or "-"


def _full(nest: Nest, number: int) -> str:
    """Tell how full a memory is; nothing of one without a limit, or of a further tile of an uneven one."""
    level = nest.machine.levels[nest.machine.nodes[number].level]
    if level.capacity_bytes is None or number not in nest.machine.memories:
        return ""
    bits = nest.needed_bits(number)
    if isinstance(level.capacity_bytes, OperandBytes):
        capacity = {operand: 8 * int(getattr(level.capacity_bytes, operand)) for operand in bits}
        return ", ".join(f"{name} {_share(held, capacity[name])}" for name, held in bits.items())
    return _share(sum(bits.values()), 8 * level.capacity_bytes)


# Attention ----------------------------------------------------------------------------------------------


def _attention(part: Problem, plan: AttentionPlan) -> Iterator[Line]:
    """Yield a line for the memory with the scores, and those of the products of the largest block within.

    Where operations are executed one after the other, yield the lines of each.
    """
    attention, machine = part.one_operation.attention, part.machine
    assert attention is not None and machine.kind == "hierarchy"
    if plan.blocks is None:
        for one, of_one in zip(parts_of(part), plan.apart, strict=True):
            yield from _lines(one, of_one)
        return
    blocks = plan.blocks
    step = Step(machine, Walk(attention, blocks), plan.scores, plan.context)
    cuts = [("matrices", 1, attention.matrices)]
    cuts += [(name, getattr(blocks, name), getattr(attention, name)) for name in ("heads", "queries", "keys")]
    loops = ", ".join(f"{name} {-(-size // tile)} of {tile}" for name, tile, size in cuts if size > tile)
    capacity = step.level.capacity_bytes
    assert isinstance(capacity, int)
    full = _share(sum(step.held_bits().values()), 8 * capacity)
    stays = ", ".join(("scores", *blocks.stay))
    yield Line("", f"attention, softmax {SOFTMAX[blocks.order]}", blocks.level, {}, loops or "-", stays, full)
    shown: set[str] = set()
    for name, product, nest in step.nests():
        if name in shown:
            continue
        shown.add(name)
        does = f"{name} of {product.rows} queries, {product.keys} keys"
        for line in _hierarchy(nest.layer, nest.given, nest.plan):
            yield line._replace(does=does)


# Operations between layers ------------------------------------------------------------------------------


def _operation(part: Problem, plan: OperationPlan) -> Line:
    operation = part.one_operation
    walk = walk_of(operation, plan)
    does = operation.op
    if operation.kernel != (1, 1) or operation.stride != (1, 1):
        does = _window(does, operation.kernel, operation.stride)
    if operation.on == "host":
        return Line("", f"{does} on host", "", {}, "-", "", "")
    memory, full = unit(part.machine, operation).fullness(walk.buffers)
    if isinstance(walk, ScanWalk):
        return _scan(does, walk, (memory, full))
    if isinstance(walk, MoveWalk):
        pieces = f"{walk.steps} boxes of {_box(walk.tile)} of {_box(walk.order.sizes)}"
        several = walk.steps > 1
        return Line("", does, memory, {}, pieces if several else "-", "" if several else "all", full)
    if not operation.windowed:
        pieces = f"{walk.steps} pieces of {plan.tile[2]} of {walk.length} values"
        loops = pieces if walk.steps > 1 else "-"
        return Line("", does, memory, {}, loops, "" if walk.steps > 1 else "all", full)
    tiles = zip("cyx", zip(plan.tile, operation.output, strict=True), strict=True)
    sizes = {"n": (1, operation.batch), **dict(tiles)}
    order = [(loop, -(-sizes[loop][1] // sizes[loop][0])) for loop in "ncxy"]  # rows innermost
    return Line("", does, memory, sizes, _looped(order), _rows_shared(operation, order), full)


def _box(sizes: Sequence[int]) -> str:
    return " x ".join(map(str, sizes))


def _scan(does: str, walk: ScanWalk, full: tuple[str, str]) -> Line:
    """Write a line of a recurrent layer: values of the state as maps, points in time as columns."""
    scan, tile = walk.scan, walk.tile
    sizes = {"n": (tile.images, scan.images), "c": (tile.hidden, scan.hidden), "x": (1, scan.steps)}
    order = [(loop, -(-whole // some)) for loop, (some, whole) in sizes.items() if loop != "c"]
    order.append(("c", len(walk.pieces)))
    stays = f"state, {_size((tile.resident, scan.hidden))} of the weights" if tile.resident else "state"
    return Line("", does, full[0], sizes, _looped(order), stays, full[1])


def _rows_shared(operation: Operation, order: Sequence[tuple[str, int]]) -> str:
    """Name what stays of an operation's input from tile to tile."""
    moving = [loop for loop, trips in order if trips > 1]
    if not moving:
        return "all"
    return "halo of rows" if moving[-1] == "y" and operation.kernel[0] > operation.stride[0] else "nothing"
