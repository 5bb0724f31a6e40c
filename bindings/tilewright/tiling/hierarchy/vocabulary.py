"""What constraints of a layer on a hierarchy can speak of: blocks and loops, what is held, costs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

from tilewright.spec.constraints import Names, Word
from tilewright.spec.errors import InputError
from tilewright.tiling.hierarchy.cost import Cost, cost_of
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import LETTERS, HierarchyPlan
from tilewright.tiling.machine_kind import LayerProblem

MEASURES = ("cycles", "energy")
"""Words that are costs, beside `accesses`."""


def node_of(machine: HierarchyMachine, name: str) -> int:
    """Return the number of a node by its name."""
    return next(i for i, node in enumerate(machine.nodes) if node.name == name)


def axes_of(machine: HierarchyMachine) -> dict[str, int]:
    """Return the most instances of each axis of an array, by its name."""
    return {node.name: node.axis.size for node in machine.nodes if node.axis is not None}


@dataclass(frozen=True)
class Tiling:
    """A plan as the words see it."""

    nest: Nest

    @cached_property
    def cost(self) -> Cost:
        """Everything that the plan costs."""
        return cost_of(self.nest)

    def tile(self, node: str, loop: str) -> int:
        """Return the size of a loop in the block that enters a node."""
        return self.nest.blocks[node_of(self.nest.machine, node)][LETTERS[loop]]

    def iterations(self, node: str, loop: str) -> int:
        """Return the iterations of a node's loop."""
        return self.nest.trips(node_of(self.nest.machine, node), LETTERS[loop])

    def outside(self, memory: str, outer: str, inner: str) -> bool:
        """Return whether a loop of a memory runs outside another one, both in several iterations."""
        order = [loop for loop, _ in self.nest.plan.nest[node_of(self.nest.machine, memory)]]
        places = [order.index(LETTERS[loop]) if LETTERS[loop] in order else -1 for loop in (outer, inner)]
        return 0 <= places[0] < places[1]

    def instances(self, axis: str) -> int:
        """Return the instances of an axis that are used."""
        return prod(self.iterations(axis, loop) for loop in LOOPS.values())

    @property
    def utilisation(self) -> int:
        """The per cent of all multipliers that are used, rounded down."""
        axes = axes_of(self.nest.machine)
        return 100 * prod(map(self.instances, axes)) // prod(axes.values())

    def holds(self, memory: str, operand: str) -> bool:
        """Whether a memory holds an operand."""
        machine = self.nest.machine
        return operand in machine.nodes[node_of(machine, memory)].holds

    def elements(self, memory: str, operand: str) -> int:
        """Return the elements of an operand's tile in a memory, 0 where it passes by."""
        if not self.holds(memory, operand):
            return 0
        return self.nest.held(operand, node_of(self.nest.machine, memory))


def words(problem: LayerProblem) -> list[Word]:
    """Return the words of a layer on a hierarchy."""
    machine: HierarchyMachine = problem.machine
    for level in machine.levels:
        if level.uneven:
            limit = "constraints do not speak of memories whose tiles belong to several blocks"
            raise InputError(f"machine.levels.{level.name}.uneven", True, limit)
    axes = axes_of(machine)
    names = tuple(node.name for node in machine.nodes)
    nodes, arrays = Names("nodes", names), Names("axes", tuple(axes))
    memories = Names("memories", tuple(name for name in names if name not in axes))
    loops, operands = Names("loops", tuple(LOOPS.values())), Names("operands", OPERANDS)
    return [
        Word("tile", "size of a loop in the block that enters a node", Tiling.tile, (nodes, loops)),
        Word("iterations", "iterations of a node's loop", Tiling.iterations, (nodes, loops)),
        Word(
            "outside",
            "whether a loop of a memory runs outside another, both in several iterations",
            Tiling.outside,
            (memories, loops, loops),
            gives="truth",
        ),
        Word("instances", "instances of an axis that are used", Tiling.instances, (arrays,)),
        Word(
            "utilisation",
            "per cent of all multipliers that are used, rounded down",
            lambda seen: seen.utilisation,
        ),
        Word(
            "holds",
            "whether a memory holds an operand",
            Tiling.holds,
            (memories, operands),
            gives="truth",
        ),
        Word(
            "elements",
            "elements of an operand's tile in a memory, 0 where it passes by",
            Tiling.elements,
            (memories, operands),
            "elements",
        ),
        Word(
            "accesses",
            "elements read from a memory and written to it",
            lambda seen, memory: seen.cost.accesses(memory),
            (memories,),
            "elements",
        ),
        Word("cycles", "cycles of the layer", lambda seen: seen.cost.cycles, unit="cycles"),
        Word("energy", "energy of the layer", lambda seen: seen.cost.energy, unit="aJ"),
    ]


def view(problem: LayerProblem, plan: HierarchyPlan) -> Tiling:
    """Return a plan as the words see it."""
    return Tiling(Nest(problem.one_layer, problem.machine, plan))
