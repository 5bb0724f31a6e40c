"""Residency and its reference model: what ``models/residency/reference.mzn`` takes, its data and its terms.

The data are raw: sizes of layers, edges of the graph, how windows lie, figures of the machine.
"""

from __future__ import annotations

from math import gcd
from pathlib import Path
from typing import Any

from tilewright.residency.attention import Attention, SecondPart, attentions
from tilewright.residency.graph import Operation, Running
from tilewright.residency.machine import ONE
from tilewright.residency.problem import Problem
from tilewright.residency.reference_network import Network
from tilewright.residency.reference_plans import decisions, plan, start
from tilewright.residency.shapes import tiles
from tilewright.residency.vocabulary import MEMORY_OF
from tilewright.simulator.arithmetic.pixel_arithmetic import Work
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms
from tilewright.spec.network import MatMul

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term", "why_not"]

OBJECTIVES = ("traffic", "memory", "cycles", "energy")

MOST = 2**31 - 3
"""Largest number of MiniZinc's solvers."""

MOST_PIXELS = 64
"""Most pixels of a map: how windows lie is counted pixel by pixel, for each number of pixels at a time."""

MOST_CHANGING = 5
"""Most readings that may be of second executions: each set of them is a network with windows to count."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the reference model does not take a problem, or None."""
    graph = problem.graph
    if not problem.machine.dram:
        return (
            "machine.dram = false: plans without DRAM, and operations that take turns, are not in the model"
        )
    if problem.limits.executions != 1 and _attends_twice(problem):
        return "limits.executions: operations of attention may be executed twice"
    if layers := problem.graph.recurrences:
        return f"{layers[0]} is recurrent, and its state is not in the model"
    if any(operation.op.spread > 1 for operation in graph.operations):
        return "a transposition gives several pixels of each that it reads, which is not in the model"
    if any(attention.seen is not None for attention in graph.attentions):
        return "keys that causal masks hide are not loaded where keys pass by, which is not in the model"
    if (most := max(tensor.pixels for tensor in graph.tensors)) > MOST_PIXELS:
        return f"maps have up to {most:,} pixels, the model takes {MOST_PIXELS}"
    if (changing := sum(each.instead > 0 for each in Network(problem).readings)) > MOST_CHANGING:
        return (
            f"limits.executions: {changing} readings may be of second executions, "
            f"the model takes {MOST_CHANGING}"
        )
    if (worst := worst_number(problem)) > MOST:
        return f"numbers up to {worst:,} may occur, the solvers of MiniZinc count to {MOST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many numbers are counted of how windows lie, and constraints given."""
    network = Network(problem)
    choices = 2 ** sum(each.instead > 0 for each in network.readings)
    readers = [sum(each.tensor == tensor for each in network.readings) for tensor in network.tensors.values()]
    ways = max(tensor.pixels for tensor in problem.graph.tensors) ** 2
    return int(choices * len(network.executions) * len(network.tensors) * 2 ** max(readers) * ways)


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
    for operation in (each.operation for each in Network(problem).executions):
        output = graph.tensors[operation.number + 1]
        read = sum(graph.tensors[reading.tensor].size for reading in operation.readings)
        # In the smallest tiles, each loads all weights, and for each output channel all that is read.
        moved += output.pixels * (operation.weights + operation.units * read) + 2 * output.size + read
        transfers += 2 + 2 * len(operation.readings)
        work = work.plus(operation.work.times(output.size * graph.tensors[operation.number + 1].shape[2]))
        if operation.second is not None:  # in tiles of a column, rows are read for each
            moved += operation.second.columns * read
    for attention in graph.attentions:
        rows = graph.tensors[attention.context + 1].pixels
        work = work.plus(Work(vectors=attention.keys * rows * 2 * attention.rescaled))
        for number in attention.operations[:-1]:  # in tiles of a column, softmax is computed for each
            every = graph.tensors[number + 1].size * attention.values
            work = work.plus(graph.operations[number].work.times(every))
            moved += every * len(attention.operations)
    spent = problem.spent(prices.spent(moved, work, transfers))
    return spent | {"memory": problem.machine.memory_bytes}


def worst_number(problem: Problem) -> int:
    """Return the largest number that solvers meet."""
    worst, prices = worst_costs(problem), problem.prices
    counted = counted_costs(problem)
    parts = {"cycles": prices.cycle, "energy": _energy(problem)["femtojoule"]}
    rounded = ((worst[name] + 1) * parts[name] for name in counted & parts.keys())
    return max(worst["traffic"], *rounded, 0)


def counted_costs(problem: Problem) -> set[str]:
    """Return what is minimised, limited, or spoken of."""
    counted = {problem.minimise, *problem.objective.limits}
    if problem.constraints:
        counted |= {term.word for part in problem.must_hold for term in terms(part)}
    return counted & set(OBJECTIVES)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    network, prices, machine = Network(problem), problem.prices, problem.machine
    operations = [each.operation for each in network.executions]
    tensors = [problem.graph.tensors[tensor] for tensor in network.repeated]
    first, readings = len(problem.graph.tensors), network.readings
    counted, limits = counted_costs(problem), problem.objective.limits
    worst = worst_costs(problem)
    return {
        "n_operations": len(operations),
        "n_tensors": len(tensors),
        "channels": [tensor.shape[0] for tensor in tensors],
        "height": [tensor.shape[1] for tensor in tensors],
        "width": [tensor.shape[2] for tensor in tensors],
        "given": [tensor.given for tensor in tensors],
        "leaves": [tensor.leaves and place < first for place, tensor in enumerate(tensors)],
        "makes": [each.tensor for each in network.executions],
        "repeats": [each.repeats for each in network.executions],
        "n_readings": len(readings),
        "reader": [each.execution for each in readings],
        "read": [each.tensor for each in readings],
        "instead": [each.instead for each in readings],
        "stride": [list(each.how.stride) for each in readings],
        "before": [list(each.how.before) for each in readings],
        "extent": [list(each.how.extent or (0, 0)) for each in readings],
        "part": [set(each.channels) for each in readings],
        "offset": [each.offset for each in readings],
        **_of_second_operands(network),
        **_of_operations(problem, operations),
        "work": [prices.core(operation.work) for operation in operations],
        "accesses": [operation.work.accesses for operation in operations],
        **_of_running_values(operations),
        "capacity": machine.capacity,
        "memory_ends": [region.end for region in machine.regions],
        "element_bytes": machine.element_bytes,
        "sum_elements": machine.sum_elements,
        "cycle": prices.cycle,
        "transfer": prices.transfer(1),
        "setup": prices.setup(1),
        "vector": prices.core(Work(vectors=1)),
        **_energy(problem),
        "given_order": problem.limits.order == "given",
        "most_operations": problem.limits.most_operations or len(operations),
        "tiles": problem.limits.tiles,
        "many_frames": problem.limits.frames != ONE,
        "double_buffering": machine.double_buffering,
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


def _of_operations(problem: Problem, operations: list[Operation]) -> dict[str, Any]:
    """Return what operations are made of."""
    graph = problem.graph
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
        "joined": [_joins(one) for one in operations],
        "apart": [len(set(one.op.producers)) == len(one.op.producers) for one in operations],
        "by_value": [operation.pixelwise for operation in operations],
    }


def _joins(operation: Operation) -> bool:
    """Return whether windows go over an operand that is put together of rows or columns of tensors."""
    windows = {reading.tensor - 1 for reading in operation.readings if reading.extent is not None}
    return any(access.at is not None and access.source in windows for access in operation.op.accesses)


def _of_second_operands(network: Network) -> dict[str, Any]:
    """Return what products read in blocks, and the attention whose keys can pass by."""
    parts, nothing = [], SecondPart(0, 0, 0, 0)
    for each in network.readings:
        second = network.executions[each.execution - 1].operation.second
        in_blocks = second is not None and each.how.extent is None
        parts.append(second.parts.get(each.how.tensor, nothing) if second and in_blocks else nothing)
    place = {
        each.operation.number: place for place, each in enumerate(network.executions, 1) if not each.repeats
    }
    attentions = network.graph.attentions
    return {
        "second": [part.size for part in parts],
        "second_unit": [part.unit for part in parts],
        "second_column": [part.column for part in parts],
        "second_row": [part.row for part in parts],
        "second_units": [
            0 if each.operation.second is None else each.operation.second.units for each in network.executions
        ],
        **_of_tiles(network),
        "n_attentions": len(attentions),
        "attending": [{place[number] for number in each.operations} for each in attentions],
        "scoring": [place[each.scores] for each in attentions],
        "softmax": [place[each.softmax] for each in attentions],
        "context": [place[each.context] for each in attentions],
        "groups": [each.groups for each in attentions],
        "all_keys": [each.keys for each in attentions],
        "values_of_key": [each.values for each in attentions],
        "key_groups": [[_groups_of_keys(each, tensor) for tensor in network.repeated] for each in attentions],
    }


def _of_tiles(network: Network) -> dict[str, Any]:
    """Return what tiles of products have."""
    matrices, sharing, terms = [], [], []
    for operation in (each.operation for each in network.executions):
        spec, second = operation.op.spec, operation.second
        product = isinstance(spec, MatMul) and second is not None
        matrices.append(second.matrices if second is not None else 1)
        sharing.append(spec.groups // matrices[-1] if isinstance(spec, MatMul) and product else 1)
        terms.append(spec.depth if isinstance(spec, MatMul) and product and _has_plain_rows(operation) else 0)
    return {"matrices": matrices, "sharing": sharing, "terms": terms}


def _has_plain_rows(operation: Operation) -> bool:
    """Whether the first operand of a product is one tensor, or channels of it, whose pixels are its rows."""
    (first, *others), reading = operation.op.operands[0], operation.readings[0]
    plain = not others and (first.at, first.copies, first.shape) == (None, None, None)
    return plain and reading.plane == reading.output


def _groups_of_keys(attention: Attention, tensor: int) -> int:
    """Return the groups of keys that a tensor has, 0 where it has none."""
    return attention.groups if tensor in attention.rows else attention.beside.get(tensor, 0)


def _attends_twice(problem: Problem) -> bool:
    """Whether operations of attention may be executed twice: who reads what they compute is open then."""
    graph, network = problem.graph, Network(problem)
    free = {graph.operations[number].name for number in network.executed_twice}
    every = attentions(graph.ops, [operation.second for operation in graph.operations], free)
    return any(graph.operations[number].name in free for each in every for number in each.operations)


def _of_running_values(operations: list[Operation]) -> dict[str, Any]:
    """Return what is added up to operations of one pixel, 0 where nothing is."""
    values = [each.running or Running((1, 1), 0, 0, 0) for each in operations]
    return {
        "running_value": [each.value for each in values],
        "pixel_weights": [each.each for each in values],
        "pixel_biases": [each.bias for each in values],
    }


_OF_LEADER = {
    "order": "order[{l}]",
    "pixels": "executed[{o}] * pixels[{l}]",
    "rows": "executed[{o}] * rows[{l}]",
    "running": "executed[{o}] /\\ running[{l}]",
    "bytes": "executed[{o}] * element_bytes * taken[{l}]",
    "moved": "executed[{o}] * element_bytes * moved[{l}]",
    "columns": "if order[{l}] = TILES \\/ cut[{l}] then columns[{l}] else 0 endif",
    "channels": "if order[{l}] in {{TILES, CHANNELS}} then deep[{l}] else 0 endif",
    "kernels": "if in_blocks[{l}] /\\ second_units[{o}] > 0 then min(kernels[{l}], second_units[{o}]) "
    "elseif order[{l}] = PIXELS /\\ (kept[{o}] \\/ not loads[{o}]) then 0 "
    "else min(kernels[{l}], units[{o}]) endif",
    "blocks": "executed[{o}] /\\ in_blocks[{l}]",
    "double_buffering": "executed[{o}] /\\ doubled[{l}]",
    "keys": "max([0] ++ [attends[a, {l}] * min(keys[{l}], all_keys[a]) "
    "| a in ATTENTION where {o} in attending[a]])",
}
_OF_OPERATION = {
    "step": "step[{o}]",
    "in_place": "in_place[{o}] > 0",
    "kept": "kept[{o}]",
    "staying": "staying[{o}]",
    "recomputed": "sum(l in OP)(again[{o}, l])",
}
_OF_PAIR = {
    "same_step": "executed[{o}] /\\ step[{o}] = step[{p}]",
    "before": "executed[{o}] /\\ step[{o}] < step[{p}]",
}
_OF_PLACE = {
    "on_chip": "executed[{o}] /\\ on_chip[{t}, max(1, step[{o}])]",
    "fetched": "executed[{o}] /\\ fetched[{t}, max(1, step[{o}])]",
    "address": "if executed[{o}] /\\ on_chip[{t}, max(1, step[{o}])] then address[{t}, max(1, step[{o}])] "
    "else -1 endif",
}
_OF_TENSOR = {"resident": "resident[{t}]", "written": "written[{t}]"}
_STATED = _OF_LEADER | _OF_OPERATION | _OF_PAIR | _OF_PLACE | _OF_TENSOR


_NEVER = {
    "order": "PIXELS",
    "address": "-1",
    **dict.fromkeys((*_OF_PAIR, *_OF_TENSOR, "on_chip", "fetched"), "false"),
    **dict.fromkeys(("in_place", "kept", "staying", "double_buffering", "running", "blocks"), "false"),
}
"""What is said of second executions that nobody could read, where it is not 0."""


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc; None where the model has none.

    That is of machines without DRAM, and of which memory something lies in.
    """
    if not problem.machine.dram or one.word == MEMORY_OF:
        return None
    network = Network(problem)
    names = [str(each) for each in one.arguments]
    if one.word in OBJECTIVES:
        return one.word
    if one.word == "steps":
        return "n_steps"
    tensors, operations = [], names
    if one.word in _OF_TENSOR | _OF_PLACE:
        tensors, operations = names[:1], names[1:]
    if not {*tensors} <= network.tensors.keys() or not {*operations} <= network.places.keys():
        return _NEVER.get(one.word, "0")
    places = {key: network.places[name] for key, name in zip("op", operations, strict=False)}
    places |= {key: network.tensors[name] for key, name in zip("t", tensors, strict=False)}
    leader = {"l": f"leader[{places['o']}]"} if "o" in places else {}
    return _STATED[one.word].format(**places, **leader)
