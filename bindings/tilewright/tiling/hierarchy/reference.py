"""The reference model of a hierarchy and MiniZinc: a layer as it is, a machine as it is, and plans back."""

from __future__ import annotations

from math import gcd, prod
from typing import Any, NamedTuple

from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms
from tilewright.tiling.hierarchy.cost import (
    KINDS,
    PRODUCT_UNIT,
    TICKS,
    attojoules,
    prices,
    ticks_per_bit,
    transfer_ticks,
)
from tilewright.tiling.hierarchy.level import Level, OperandBytes
from tilewright.tiling.hierarchy.loops import AXES, LOOPS, OPERANDS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import LETTERS, HierarchyPlan
from tilewright.tiling.hierarchy.vocabulary import axes_of, node_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term", "why_not"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST_MACS = 4096
"""Most multiplications of a layer: amounts are products of variables as large as that."""

MOST_MACS_ANY = 1024
"""The same where steps need not divide: each position of a loop is a variable at each node."""

COSTS = ("accesses", "cycles", "energy")


def why_not(problem: Problem) -> str | None:
    """Say why the model does not take a layer, or None."""
    machine = _machine(problem)
    if problem.traded:
        return "objective: the model minimises one cost"
    for level in machine.levels:
        if level.uneven:
            return f"machine.levels.{level.name}.uneven: tiles of a memory belong to one block in the model"
    macs, any_steps = problem.one_layer.macs, problem.limits.factors == "any"
    if any_steps and macs > MOST_MACS_ANY:
        return f"the layer has {macs:,} MACs, with any steps the model takes {MOST_MACS_ANY:,}"
    if macs > MOST_MACS:
        return f"the layer has {macs:,} MACs, the model takes {MOST_MACS:,}"
    figures = _Figures.of(problem)
    words = _words(problem)
    energy = figures.offset + figures.unit * figures.most["energy"] if "energy" in words else 0
    if (most := max(*figures.most.values(), figures.on_the_way, energy)) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def _machine(problem: Problem) -> HierarchyMachine:
    assert problem.machine.kind == "hierarchy"
    return problem.machine


def _words(problem: Problem) -> set[str]:
    return {term.word for part in problem.must_hold for term in terms(part)} if problem.constraints else set()


def _asked(problem: Problem) -> set[str]:
    """Return what is minimised, limited or spoken of."""
    asked = {problem.minimise, *problem.limits.at_most.given, *_words(problem)}
    return asked | ({"energy", "cycles"} if "edp" in asked else set())


class _Figures(NamedTuple):
    """Numbers of a machine in units that divide them, and how large costs can be.

    Attributes
    ----------
    offset, unit
        Attojoules: energy is the offset, that of the MACs, and so many units.
    prices
        Of a bit that is read and of one that is written, by node, in units.
    ports
        By node: ticks of a bit that is read, of one that is written, and of a cycle.
    waits, wait_cycle
        By two nodes: ticks of a bit on its way in and on its way out; and of a cycle.
    product
        Energy times cycles is shown as so many times it, divided by so many.
    most
        What no plan exceeds, by cost; 0 of what is not asked for.
    on_the_way
        The largest number of ticks, or of energy times cycles, before it is divided.
    """

    offset: int
    unit: int
    prices: list[tuple[int, int]]
    ports: list[tuple[int, int, int]]
    waits: list[list[tuple[int, int]]]
    wait_cycle: int
    product: tuple[int, int]
    most: dict[str, int]
    on_the_way: int

    @classmethod
    def of(cls, problem: Problem) -> _Figures:
        """Return the figures of a problem."""
        machine, macs, asked = _machine(problem), problem.one_layer.macs, _asked(problem)
        levels = _levels(machine)
        offset = macs * attojoules(machine.mac_pj, 1)
        each = [(0, 0) if level is None else prices(level) for level in levels]
        unit = max(1, gcd(*(price for pair in each for price in pair), offset if "edp" in asked else 0))
        each = [(read // unit, written // unit) for read, written in each]
        ports = [(0, 0, 1) if level is None else _reduced(*ticks_per_bit(level)) for level in levels]
        waits, wait_cycle = _waits(levels)
        # An operand crosses a boundary no more often than it is multiplied; sums do so there and back.
        bits = 4 * macs * max(int(getattr(machine.bits, kind)) for kind in KINDS)
        waiting = sum(bits * (into + out) for row in waits for into, out in row)
        moved = [2 * bits * (read + written) for read, written, _ in ports]
        cycles = [macs + waiting // wait_cycle + 1]
        cycles += [most // cycle + 1 for most, (_, _, cycle) in zip(moved, ports, strict=True)]
        most = {
            "accesses": 8 * macs,
            "cycles": max(cycles) if "cycles" in asked else 0,
            "energy": sum(2 * bits * sum(pair) for pair in each) if "energy" in asked else 0,
        }
        common = gcd(unit, PRODUCT_UNIT)
        product = unit // common, PRODUCT_UNIT // common
        on_the_way = max(waiting, *moved) + wait_cycle if "cycles" in asked else 0
        if "edp" in asked:
            whole = (offset // unit + most["energy"]) * product[0]
            on_the_way = max(on_the_way, whole, product[1] * (most["cycles"] + 1))
            most["edp"] = whole * most["cycles"] // product[1] + 1
        return cls(offset, unit, each, ports, waits, wait_cycle, product, most, on_the_way)


def _levels(machine: HierarchyMachine) -> list[Level | None]:
    """Return the level of each node that is a memory."""
    return [None if node.axis is not None else machine.levels[node.level] for node in machine.nodes]


def _reduced(read: int, written: int) -> tuple[int, int, int]:
    """Return the ticks of a bit that is read and of one that is written, and of a cycle."""
    common = gcd(read, written, TICKS)
    return read // common, written // common, TICKS // common


def _waits(levels: list[Level | None]) -> tuple[list[list[tuple[int, int]]], int]:
    """Return the ticks of a bit on its way in, and out, between two memories; and those of a cycle."""
    waits = [[(0, 0)] * len(levels) for _ in levels]
    for p, outer in enumerate(levels):
        for c, inner in enumerate(levels):
            if outer is not None and inner is not None and p < c and not inner.double_buffering:
                waits[p][c] = transfer_ticks(outer, inner)
    common = gcd(TICKS, *(tick for row in waits for pair in row for tick in pair))
    return [[(into // common, out // common) for into, out in row] for row in waits], TICKS // common


def size(problem: Problem) -> int:
    """Return about how many constraints the model gives: some for each boundary and loop.

    Where steps need not divide, also for each position of a loop at each node, and for each pair of rows of
    outputs and of the kernel.
    """
    many = len(_machine(problem).nodes) + 1
    found = 200 * many**2
    if problem.limits.factors == "any":
        lengths = extents(problem.one_layer)
        pairs = sum(lengths[out] * lengths[tap] for out, tap in AXES)
        found += many * (10 * sum(lengths.values()) + 2 * pairs)
    return found


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective``."""
    figures = _Figures.of(problem)
    return (figures.offset, figures.unit) if problem.minimise == "energy" else (0, 1)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.hierarchy.mzn declares, all but those of the search."""
    layer, machine = problem.one_layer, _machine(problem)
    figures, asked = _Figures.of(problem), _asked(problem)
    given = problem.limits.at_most.given
    of_energy = {"energy": (given["energy"] - figures.offset) // figures.unit} if "energy" in given else {}
    binding = {name: most for name, most in (given | of_energy).items() if most <= LARGEST}
    return {
        "size": list(extents(layer).values()),
        "stride": list(layer.stride),
        "dilation": list(layer.dilation),
        **_nodes(machine),
        "read_price": [read for read, _ in figures.prices],
        "write_price": [written for _, written in figures.prices],
        "read_ticks": [read for read, _, _ in figures.ports],
        "write_ticks": [written for _, written, _ in figures.ports],
        "port_cycle": [cycle for _, _, cycle in figures.ports],
        "in_ticks": [[into for into, _ in row] for row in figures.waits],
        "out_ticks": [[out for _, out in row] for row in figures.waits],
        "wait_cycle": figures.wait_cycle,
        "divide": problem.limits.factors != "any",
        "minimised": {"e": "ACCESSES" if problem.minimise == "edp" else problem.minimise.upper()},
        "product_minimised": problem.minimise == "edp",
        "product_times": figures.product[0],
        "product_by": figures.product[1],
        "constant_energy": figures.offset // figures.unit if problem.minimise == "edp" else 0,
        "counted": node_of(machine, problem.level) + 1,
        "limited": [name in binding for name in COSTS],
        "at_most": [max(-1, binding.get(name, 0)) for name in COSTS],
        "counts_energy": "energy" in asked,
        "counts_cycles": "cycles" in asked,
        "most": [figures.most[name] for name in COSTS],
        "most_objective": figures.most[problem.minimise],
    }


def _nodes(machine: HierarchyMachine) -> dict[str, Any]:
    """Return what a machine's nodes are, and the widths of its elements."""
    nodes, levels = machine.nodes, _levels(machine)
    rooms, shared = [], []
    for level in levels:
        capacity = None if level is None else level.capacity_bytes
        of_each = isinstance(capacity, OperandBytes)
        rooms.append([8 * getattr(capacity, operand) if of_each else -1 for operand in OPERANDS])
        shared.append(-1 if capacity is None or of_each else min(8 * int(capacity), LARGEST))  # type: ignore[arg-type]
    return {
        "n_nodes": len(nodes),
        "instances": [0 if node.axis is None else node.axis.size for node in nodes],
        "unrolled": [[node.axis is not None and loop in node.axis.loops for loop in LOOPS] for node in nodes],
        "keeps": [[operand in node.holds for operand in OPERANDS] for node in nodes],
        "may_keep": [
            [level is not None and operand in level.may_hold for operand in OPERANDS] for level in levels
        ],
        "room": [[min(bits, LARGEST) for bits in row] for row in rooms],
        "shared_room": shared,
        "halo": [level is not None and level.halo for level in levels],
        "copies": [1 if level is None else level.copies for level in levels],
        "width": [int(getattr(machine.bits, operand)) for operand in OPERANDS],
        "partial_width": machine.bits.partial,
        "macs_per_cycle": machine.macs_per_cycle,
        "one_port": [level is not None and level.bytes_per_cycle is not None for level in levels],
    }


# Words -----------------------------------------------------------------------------------------------------


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    machine = _machine(problem)
    match one.word:
        case "cycles":
            return "cycles"
        case "energy":
            figures = _Figures.of(problem)
            return f"{figures.offset} + {figures.unit} * energy"
        case "utilisation":
            axes = axes_of(machine)
            used = " * ".join(_instances(machine, name) for name in axes) or "1"
            return f"(100 * {used}) div {prod(axes.values())}"
    node = node_of(machine, str(one.arguments[0])) + 1
    if one.word == "accesses":
        return f"accesses({node})"
    if one.word == "instances":
        return _instances(machine, str(one.arguments[0]))
    second = str(one.arguments[1])
    if one.word in ("holds", "elements"):
        held, operand = f"holds[{node}, {second.upper()}]", second.upper()
        return held if one.word == "holds" else f"bool2int({held}) * elements[{operand}, {node}]"
    loop = LETTERS[second].upper()
    if one.word == "outside":
        inner = LETTERS[str(one.arguments[2])].upper()
        return f"place[{node}, {loop}] > 0 /\\ place[{node}, {loop}] < place[{node}, {inner}]"
    return f"{'block' if one.word == 'tile' else 'trips'}[{node}, {loop}]"


def _instances(machine: HierarchyMachine, name: str) -> str:
    return f"within([trips[{node_of(machine, name) + 1}, l] | l in LOOP], macs)"


# Plans -----------------------------------------------------------------------------------------------------


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return blocks, places and holdings of a plan."""
    layer = plan.layers[0]
    if not isinstance(layer, HierarchyPlan):
        return None
    nest = Nest(problem.one_layer, problem.machine, layer)  # type: ignore[arg-type]
    blocks = [block[loop] for block in nest.blocks for loop in LOOPS]
    places, holds = [], []
    for node, loops in zip(nest.machine.nodes, layer.nest, strict=True):
        order = "" if node.axis is not None else "".join(loop for loop, _ in loops)
        places += [order.find(loop) + 1 for loop in LOOPS]
        holds += [int(operand in node.holds) for operand in OPERANDS]
    return [*blocks, *places, *holds]


def decisions(solution: Any) -> list[int]:
    """Return blocks, places and holdings of a solution, in the order of `start`."""
    tables = solution.block, solution.place, solution.holds
    return [int(each) for table in tables for row in table for each in row]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    machine = _machine(problem)
    nest = []
    for i, places in enumerate(solution.place):
        cut = [
            (place, loop, step)
            for place, loop, block, step in zip(
                places, LOOPS, solution.block[i], solution.block[i + 1], strict=True
            )
            if step < block
        ]
        nest.append(tuple((loop, step) for _, loop, step in sorted(cut, key=lambda one: one[0])))
    held = {
        node.name: tuple(
            operand
            for operand, holds in zip(OPERANDS, row, strict=True)
            if holds and operand not in node.holds
        )
        for node, row in zip(machine.nodes, solution.holds, strict=True)
    }
    kept = tuple((level.name, held[level.name]) for level in machine.levels if level.may_hold)
    return Plan((HierarchyPlan(tuple(nest), kept),))
