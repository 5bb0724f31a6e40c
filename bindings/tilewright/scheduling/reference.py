"""Scheduling and MiniZinc: the data of ``models/scheduling/reference.mzn``, and plans from its solutions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.scheduling.exact.constrained import no_more_than
from tilewright.scheduling.graph import Graph
from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.vocabulary import SIZES
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import Constant, Ground, Operation, terms

__all__ = ["data", "decisions", "plan", "relax", "scale", "size", "start", "suits", "term"]

LARGEST = 2**30
"""The largest time, in ticks, for which Gecode can add up what it has to."""

PER_SLICE = 40
"""Constraints for each slice that a step may need, about."""

MOST = 300_000
"""Constraints beyond which it takes longer to write the model out than anybody waits for a small graph."""

COUNTS = ("runs", "kept", "subgraphs")
"""Words for what grows from subgraph to subgraph."""

DECIDED = ("together", "before", "retained", *SIZES)
"""Words whose value changes once at most, from subgraph to subgraph."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the model does not take a problem, or None."""
    if problem.graph.per > 1:
        return f"times are in parts of 1/{problem.graph.per} tick, the model counts whole ones"
    if _levels(problem) is None:
        return "constraints speak of more than the model can count"
    if (many := size(problem)) > MOST:
        return f"about {many:,} constraints are needed, {MOST:,} are written at most"
    if (most := _longest(problem)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints the formulation gives: some for each slice in each step of a tile."""
    graph = problem.graph
    slices = 9 * len(graph.widths)
    return PER_SLICE * _most_subgraphs(problem) * _most_tiles(graph) * _deepest(graph) * slices


def relax(problem: Problem) -> int:
    """Return 0: no decision means anything without the others."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective of the formulation is the time."""
    return 0, 1


def _deepest(graph: Graph) -> int:
    return max([1, *map(graph.depth, range(len(graph.inputs)))])


def _most_tiles(graph: Graph) -> int:
    return max(map(graph.elements, graph.made))


def _longest(problem: Problem) -> int:
    """Return more ticks than a plan takes, as the formulation has it."""
    graph = problem.graph
    width, height = graph.native_granularity
    computed = graph.scale * sum(
        10 * cost * -(-graph.widths[tensor] // width) * -(-graph.heights[tensor] // height)
        for cost, tensor in zip(graph.base_costs, graph.made, strict=True)
    )
    moved = 10 * sum(map(graph.elements, range(len(graph.widths))))
    step = max(computed, graph.unit * moved)
    return _most_subgraphs(problem) * _most_tiles(graph) * _deepest(graph) * step


def _most_subgraphs(problem: Problem) -> int:
    """Return more subgraphs than a best plan has.

    Behind each subgraph, what lies in slow memory, what is kept and what constraints depend on are together
    something new: else the subgraphs between would be left out. Of these, the first and the last only grow,
    and in between each set of tensors is kept once at most.
    """
    graph = problem.graph
    may = sum(graph.elements(tensor) < graph.fast_memory_capacity for tensor in graph.made)
    levels: int = len(graph.inputs) + (_levels(problem) or 0)
    return levels << may


def _levels(problem: Problem) -> int | None:
    """Return how often something may change on which constraints depend; None where that has no limit."""
    total = 0
    for part in problem.must_hold:
        own = _changes(part)
        if own is None or not no_more_than(part, "latency"):
            return None
        total += own
    return total + 1 if problem.constraints else 0


def _changes(part: Ground) -> int | None:
    """Return how often the values change on which a part depends, None where counts go on for ever."""
    found = terms(part)
    if not any(term.word in COUNTS for term in found):
        return len([term for term in found if term.word in DECIDED])
    if not isinstance(part, Operation):
        return None
    if part.operator in ("and", "or", "implies", "not"):
        each = [_changes(operand) for operand in part.operands]
        return None if None in each else sum(one for one in each if one is not None)
    constants = [abs(int(one.value)) for one in part.operands if isinstance(one, Constant)]
    if part.operator not in ("==", "!=", "<=", "<") or len(constants) != 1:
        return None
    counted = next(one for one in part.operands if not isinstance(one, Constant))
    added = counted.operands if isinstance(counted, Operation) and counted.operator == "+" else (counted,)
    if not all(isinstance(one, Term) for one in added):
        return None
    return (constants[0] + 2) * len(added)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    graph = problem.graph
    products = [kind == "MatMul" for kind in graph.op_types]
    operands = [read if product else (-1, -1) for read, product in zip(graph.inputs, products, strict=True)]
    return {
        "n_operations": len(graph.inputs),
        "n_tensors": len(graph.widths),
        "width": list(graph.widths),
        "height": list(graph.heights),
        "matmul": products,
        "left": [read[0] + 1 for read in operands],
        "right": [read[1] + 1 for read in operands],
        "reads": [{tensor + 1 for tensor in read} for read in graph.inputs],
        "made": [tensor + 1 for tensor in graph.made],
        "base_cost": list(graph.base_costs),
        "capacity": graph.fast_memory_capacity,
        "native_width": graph.native_granularity[0],
        "native_height": graph.native_granularity[1],
        "by_flow": problem.limits.connected == "flow",
        "each_sum": problem.limits.accumulators == "each",
        "scale": graph.scale,
        "unit": graph.unit,
        "most_subgraphs": _most_subgraphs(problem),
    }


def term(problem: Problem, formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if not suits(problem, formulation):
        return None
    numbers = [int(argument) + 1 for argument in one.arguments]
    match one.word:
        case "together":
            return f"exists(g in GRAPH)(runs[g, {numbers[0]}] /\\ runs[g, {numbers[1]}])"
        case "before":
            return f"first[{numbers[0]}] < first[{numbers[1]}]"
        case "runs":
            return f"sum(g in GRAPH)(runs[g, {numbers[0]}])"
        case "retained":
            return f"exists(g in GRAPH)(keeps[g, {numbers[0]}])"
        case "kept":
            return "sum(g in GRAPH, x in TENSOR)(keeps[g, x])"
        case "subgraphs":
            return "n"
        case "latency":
            return "objective"
    return f"{'whk'[SIZES.index(one.word)]}[first[{numbers[0]}]]"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions, None of one that has too many subgraphs."""
    graph, most, tiles = problem.graph, _most_subgraphs(problem), _most_tiles(problem.graph)
    steps = list(plan.subgraphs)
    if len(steps) > most:
        return None
    unused = Subgraph((), (1, 1, 1))
    padded = steps + [unused] * (most - len(steps))
    runs = [int(op in step.operations) for step in padded for op in range(len(graph.inputs))]
    keeps = [int(tensor in step.retained) for step in padded for tensor in range(len(graph.widths))]
    sizes = [step.granularity[axis] for axis in range(3) for step in padded]
    orders: list[int] = []
    for step in padded:
        order = [0]
        if step.operations:
            made = {graph.made[op] for op in step.operations}
            read = {tensor for op in step.operations for tensor in graph.inputs[op]}
            end = min(made - read)
            order = step.tiles(graph.widths[end], graph.heights[end])
        orders += [tile + 1 for tile in (*order, *range(len(order), tiles))]
    return [len(steps), *runs, *keeps, *sizes, *orders]


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the values of a solution's decisions, in the order of `start`."""
    sizes = [*solution.w, *solution.h, *solution.k]
    rows = [*solution.runs, *solution.keeps[1:], sizes, *solution.order]
    return [solution.n, *(int(value) for row in rows for value in row)]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of reference.mzn."""
    graph, steps = problem.graph, []
    for g in range(solution.n):
        ops = [op for op, run in enumerate(solution.runs[g]) if run]
        order = [tile - 1 for tile in solution.order[g][: solution.tiles[g]]]
        steps.append(
            Subgraph(
                tuple(sorted(ops, key=graph.place.__getitem__)),
                (solution.w[g], solution.h[g], solution.k[g]),
                tuple(tensor for tensor, kept in enumerate(solution.keeps[g + 1]) if kept),
                "rows" if order == sorted(order) else tuple(order),
            )
        )
    return Plan(tuple(steps))
