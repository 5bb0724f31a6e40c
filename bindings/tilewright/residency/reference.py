"""Residency and its reference model: data of ``models/residency/reference.mzn``, plans from solutions.

The data are raw: sizes of layers, edges of the graph, how windows lie, figures of the machine.
"""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import Any

from tilewright.residency.graph import Graph, Operation, members
from tilewright.residency.machine import ONE
from tilewright.residency.plan import ORDERS, Plan, Step, key_of
from tilewright.residency.problem import Problem
from tilewright.residency.shapes import tiles
from tilewright.simulator.arithmetic.pixel_arithmetic import Work
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms

OBJECTIVES = ("traffic", "memory", "cycles", "energy")

MOST = 2**31 - 3
"""Largest number of MiniZinc's solvers."""

MOST_PIXELS = 64
"""Most pixels of a map: how windows lie is counted pixel by pixel, for each number of pixels at a time."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the reference model does not take a problem, or None."""
    graph = problem.graph
    if problem.before:
        return "has a list of objectives"
    if problem.machine.double_buffering:
        return "machine.double_buffering: second buffers are not in the model"
    if problem.limits.executions != 1:
        return "limits.executions: second executions are not in the model"
    if graph.read_in_parts or any(operation.op.has_views for operation in graph.operations):
        return "some tensors are read in parts"
    pairs = zip(graph.operations, graph.reads, strict=True)
    if any(len(operation.readings) > read.bit_count() for operation, read in pairs):
        return "an operation reads a tensor in two ways"
    if (most := max(tensor.pixels for tensor in graph.tensors)) > MOST_PIXELS:
        return f"maps have up to {most:,} pixels, the model takes {MOST_PIXELS}"
    if (worst := worst_number(problem)) > MOST:
        return f"numbers up to {worst:,} may occur, the solvers of MiniZinc count to {MOST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many numbers are counted of how windows lie, and constraints given."""
    graph = problem.graph
    subsets: int = 2 ** max(len(tensor.readers) for tensor in graph.tensors)
    ways = max(tensor.pixels for tensor in graph.tensors) ** 2
    return len(graph.operations) * len(graph.tensors) * subsets * ways


def relax(_problem: Problem) -> int:
    """Return 0: problems of this size need no neighbourhoods."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective is what a plan costs."""
    return 0, 1


def worst_costs(problem: Problem) -> dict[str, int]:
    """Return more than any plan costs, of each objective."""
    graph, prices = problem.graph, problem.prices
    moved = transfers = 0
    work = Work()
    for operation in graph.numbers(graph.all & ~graph.begin):
        output = graph.tensors[operation.number + 1]
        read = sum(graph.tensors[reading.tensor].size for reading in operation.readings)
        # In the smallest tiles, each loads all weights, and for each output channel all that is read.
        moved += output.pixels * (operation.weights + operation.units * read) + 2 * output.size + read
        transfers += 2 + 2 * len(operation.readings)
        work = work.plus(operation.work.times(output.size * graph.tensors[operation.number + 1].shape[2]))
    spent = problem.spent(prices.spent(moved, work, transfers))
    return spent | {"memory": problem.machine.memory_bytes}


def worst_number(problem: Problem) -> int:
    """Return the largest number that solvers meet."""
    worst, prices = worst_costs(problem), problem.prices
    counted = counted_costs(problem)
    parts = {"cycles": prices.cycle, "energy": _energy(problem)["femtojoule"]}
    return max(worst["traffic"], *(worst[name] * parts[name] for name in counted & parts.keys()), 0)


def counted_costs(problem: Problem) -> set[str]:
    """Return what is minimised, limited, or spoken of."""
    counted = {problem.minimise, *problem.objective.limits}
    if problem.constraints:
        counted |= {term.word for part in problem.must_hold for term in terms(part)}
    return counted & set(OBJECTIVES)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    graph, prices, machine = problem.graph, problem.prices, problem.machine
    operations = graph.numbers(graph.all & ~graph.begin)
    places = {operation.number: place for place, operation in enumerate(operations, 1)}
    readings = [(operation, reading) for operation in operations for reading in operation.readings]
    counted, limits = counted_costs(problem), problem.objective.limits
    worst = worst_costs(problem)
    return {
        "n_operations": len(operations),
        "n_tensors": len(graph.tensors),
        "channels": [tensor.shape[0] for tensor in graph.tensors],
        "height": [tensor.shape[1] for tensor in graph.tensors],
        "width": [tensor.shape[2] for tensor in graph.tensors],
        "given": [tensor.given for tensor in graph.tensors],
        "leaves": [tensor.leaves for tensor in graph.tensors],
        "makes": [operation.number + 2 for operation in operations],
        "ancestors": [
            {places[each] for each in members(graph.ops.ancestors[operation.number]) if each in places}
            for operation in operations
        ],
        "n_readings": len(readings),
        "reader": [places[operation.number] for operation, _ in readings],
        "read": [reading.tensor + 1 for _, reading in readings],
        "stride": [list(reading.stride) for _, reading in readings],
        "before": [list(reading.before) for _, reading in readings],
        "extent": [list(reading.extent or (0, 0)) for _, reading in readings],
        **_of_operations(graph, operations),
        "work": [prices.core(operation.work) for operation in operations],
        "accesses": [operation.work.accesses for operation in operations],
        "capacity": machine.capacity,
        "element_bytes": machine.element_bytes,
        "sum_elements": machine.sum_elements,
        "cycle": prices.cycle,
        "transfer": prices.transfer(1),
        "setup": prices.setup(1),
        **_energy(problem),
        "given_order": problem.limits.order == "given",
        "most_operations": problem.limits.most_operations or len(operations),
        "tiles": problem.limits.tiles,
        "many_frames": problem.limits.frames != ONE,
        "minimise": OBJECTIVES.index(problem.minimise) + 1,
        **{f"most_{name}": limits.get(name, 0) for name in ("traffic", "cycles", "energy")},
        "count_cycles": "cycles" in counted,
        "count_energy": "energy" in counted,
        "most_moved": worst["traffic"] // machine.element_bytes,
        "worst": worst[problem.minimise],
    }


def _energy(problem: Problem) -> dict[str, int]:
    """Return the prices of energy in parts of femtojoules, as large as they can be."""
    prices = problem.prices
    near = prices.energy(0, Work(accesses=1), 0)
    found = {
        "femtojoule": prices.femtojoule,
        "far": prices.energy(1, Work(), 0) - near,
        "near": near,
        "busy": problem.machine.prices.core_fj_per_cycle * prices.femtojoule // prices.cycle,
    }
    common = gcd(*found.values())
    return {name: value // common for name, value in found.items()}


def _of_operations(graph: Graph, operations: tuple[Operation, ...]) -> dict[str, Any]:
    """Return what operations are made of."""
    depths = [tiles.summed_channels(graph, operation) for operation in operations]
    taps = [
        tiles.weights_of_a_channel(graph, operation) if depth else (0, 0)
        for operation, depth in zip(operations, depths, strict=True)
    ]
    return {
        "weights": [operation.weights for operation in operations],
        "units": [operation.units for operation in operations],
        "taps": [each for each, _ in taps],
        "biases": [bias for _, bias in taps],
        "depth": depths,
        "by_channel": [operation.channelwise for operation in operations],
        "by_value": [operation.pixelwise for operation in operations],
    }


def start(_problem: Problem, _plan: Plan) -> list[int] | None:
    """Return None: the model begins with no plan."""
    return None


def decisions(_problem: Problem, _solution: Any) -> list[int]:
    """Return nothing: the model begins with no plan."""
    return []


_OF_LEADER = {
    "order": "order[{l}]",
    "pixels": "pixels[{l}]",
    "rows": "rows[{l}]",
    "bytes": "element_bytes * taken[{l}]",
    "moved": "element_bytes * moved[{l}]",
    "columns": "if order[{l}] = TILES \\/ cut[{l}] then columns[{l}] else 0 endif",
    "channels": "if order[{l}] in {{TILES, CHANNELS}} then deep[{l}] else 0 endif",
    "kernels": "if order[{l}] = PIXELS /\\ (kept[{o}] \\/ not loads[{o}]) then 0 "
    "else min(kernels[{l}], units[{o}]) endif",
}
_OF_OPERATION = {
    "step": "step[{o}]",
    "in_place": "in_place[{o}] > 0",
    "kept": "kept[{o}]",
    "staying": "staying[{o}]",
    "recomputed": "sum(l in OP)(again[{o}, l])",
    "double_buffering": "false",
}
_OF_PAIR = {
    "same_step": "step[{o}] = step[{p}]",
    "before": "step[{o}] < step[{p}]",
}
_OF_PLACE = {
    "on_chip": "on_chip[{t}, step[{o}]]",
    "fetched": "fetched[{t}, step[{o}]]",
    "address": "if on_chip[{t}, step[{o}]] then address[{t}, step[{o}]] else -1 endif",
}
_OF_TENSOR = {"resident": "resident[{t}]", "written": "written[{t}]"}


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    graph = problem.graph
    operations = graph.numbers(graph.all & ~graph.begin)
    places = {operation.name: place for place, operation in enumerate(operations, 1)}
    tensors = {tensor.name: place for place, tensor in enumerate(graph.tensors, 1)}
    names = [str(each) for each in one.arguments]
    if one.word in OBJECTIVES:
        return one.word
    if one.word == "steps":
        return "n_steps"
    if one.word in _OF_TENSOR:
        return _OF_TENSOR[one.word].format(t=tensors[names[0]])
    if one.word in _OF_PLACE:
        return _OF_PLACE[one.word].format(t=tensors[names[0]], o=places[names[1]])
    if one.word in _OF_PAIR:
        return _OF_PAIR[one.word].format(o=places[names[0]], p=places[names[1]])
    if one.word in _OF_LEADER:
        return _OF_LEADER[one.word].format(o=places[names[0]], l=f"leader[{places[names[0]]}]")
    return _OF_OPERATION[one.word].format(o=places[names[0]])


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of reference.mzn: the very one that it states."""
    graph = problem.graph
    operations = graph.numbers(graph.all & ~graph.begin)
    steps = []
    for number in range(1, max(solution.step) + 1):
        there = [place for place, step in enumerate(solution.step) if step == number]
        steps.append(_step(graph, operations, there, number, solution))
    staying = {
        operation.name: solution.weights_at[place]
        for place, operation in enumerate(operations)
        if solution.staying[place]
    }
    return Plan(tuple(steps), staying)


def _step(
    graph: Graph, operations: tuple[Operation, ...], there: list[int], number: int, solution: Any
) -> Step:
    """Return a step: its operations by their places, and its number from 1."""
    last, tensors = there[-1], range(len(graph.tensors))
    done = {operations[place].number for place in range(len(operations)) if solution.step[place] < number}
    mine = {operations[place].number for place in there}
    now = {t for t in tensors if solution.on_chip[t][number]}
    fetched = [t for t in tensors if solution.fetched[t][number - 1]]
    resident = [t for t in tensors if t - 1 in mine and solution.resident[t]]
    order, output = ORDERS[solution.order[last] - 1], operations[last].number + 1
    at = {graph.tensors[t].key: solution.address[t][number - 1] for t in [*fetched, *resident]}
    for t in tensors:
        if t not in now and mine & set(graph.tensors[t].readers):
            at[key_of("lines", graph.tensors[t].name)] = solution.line_at[t][last]
    for place in there:
        if operations[place].weights and not solution.staying[place]:
            at[key_of("weights", operations[place].name)] = solution.weights_at[place]
    summed = order in tiles.SUMMED
    partial = summed and solution.deep[last] < tiles.summed_channels(graph, operations[last])
    if partial or output not in now:
        at[key_of("block", operations[last].name)] = solution.block_at[last]
    gone = [
        t
        for t in tensors
        if solution.on_chip[t][number - 1]
        and set(graph.tensors[t].readers) - done
        and (t not in now or t in fetched)
    ]
    columns = solution.columns[last]
    cut = order == "tiles" or columns < graph.tensors[output].shape[2]

    def names(numbers: list[int]) -> tuple[str, ...]:
        return tuple(graph.tensors[t].name for t in numbers)

    return Step(
        operations=tuple(operations[place].name for place in there),
        order=order,
        pixels=solution.pixels[last],
        kernels=solution.kernels[last],
        kept=tuple(operations[place].name for place in there if solution.kept[place]),
        dropped=names(gone),
        fetched=names(fetched),
        resident=names(resident),
        written=names([t for t in tensors if t - 1 in mine and solution.written[t]]),
        in_place=graph.tensors[solution.in_place[last] - 1].name if solution.in_place[last] else None,
        addresses=at,
        columns=columns if cut else None,
        channels=solution.deep[last] if summed else None,
    )
