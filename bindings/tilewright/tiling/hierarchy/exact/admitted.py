"""What of a layer's constraints the exact search takes into account while it builds plans node by node.

Partial plans are compared with others of the same block only. So a constraint may leave blocks out, or pairs
of a block and one inside of it, and the best partial plans of each block are still all that is needed: what
further out keeps a constraint does so whatever is inside. What relates blocks of nodes that do not follow
each other is none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.constraints import Term
from tilewright.spec.constraints.meaning import value
from tilewright.spec.constraints.parts import Constant, Ground, Operation, terms
from tilewright.tiling.hierarchy.exact.lattice import Lattice
from tilewright.tiling.hierarchy.loops import LOOPS, OPERANDS
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.vocabulary import MEASURES, axes_of, node_of
from tilewright.tiling.machine_kind import LayerProblem

NAMES = tuple(LOOPS.values())
"""What constraints call the loops, in the order of sizes of blocks."""


@dataclass
class Admitted:
    """What constraints admit.

    Attributes
    ----------
    of_choice
        What must hold of what levels hold.
    of_blocks
        What must hold of the block that enters a node, by its number.
    of_loops
        What must hold of one loop of a node, by the node's number and the loop's.
    instances
        The fewest and the most instances of an axis, by its number.
    at_most
        What plans may cost, by what that counts.
    """

    of_choice: list[Ground] = field(default_factory=list)
    of_blocks: dict[int, list[Ground]] = field(default_factory=dict)
    of_loops: dict[tuple[int, int], list[Ground]] = field(default_factory=dict)
    instances: dict[int, tuple[int, int]] = field(default_factory=dict)
    at_most: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, problem: LayerProblem) -> Admitted | None:
        """Return what the constraints of a problem admit; None where it has none."""
        if not problem.constraints:
            return None
        found = cls()
        for part in problem.must_hold:
            if not found.add(problem, part):
                raise AssertionError(f"{part} should have been refused")
        return found

    def add(self, problem: LayerProblem, part: Ground) -> bool:
        """Add something that must hold, if it is local; return whether it is."""
        return (
            self._add_sizes(problem.machine, part)
            or self._add_instances(problem.machine, part)
            or self._add_cost(problem.level, part)
        )

    def _add_sizes(self, machine: HierarchyMachine, part: Ground) -> bool:
        """Add what must hold of what is held, of one block, or of one loop of a node."""
        found = terms(part)
        if not {term.word for term in found} <= {"tile", "iterations", "holds", "elements"}:
            return False
        if all(term.word == "holds" for term in found):
            self.of_choice.append(part)
            return True
        places, through = (
            {(_node(machine, term), str(term.arguments[1])) for term in found if term.word in words}
            for words in (("tile", "iterations", "elements"), ("iterations",))
        )
        numbers = sorted({number for number, _ in places})
        if not through and len(numbers) == 1:
            self.of_blocks.setdefault(numbers[0], []).append(part)
            return True
        # What a loop goes through: the block that enters the node, and the next one inwards.
        number, loop = min(through or places)
        if len(through) > 1 or any(term.word in ("holds", "elements") for term in found):
            return False
        if not places <= {(number, loop), (number + 1, loop)}:
            return False
        self.of_loops.setdefault((number, NAMES.index(loop)), []).append(part)
        return True

    def _add_instances(self, machine: HierarchyMachine, part: Ground) -> bool:
        """Add how many instances of an axis there are at least or at most."""
        limit = _limit(part)
        if limit is None or limit[0].word != "instances":
            return False
        term, low, high = limit
        number = node_of(machine, str(term.arguments[0]))
        least, most = self.instances.get(number, (1, axes_of(machine)[machine.nodes[number].name]))
        self.instances[number] = max(least, low), min(most, high)
        return True

    def _add_cost(self, level: str, part: Ground) -> bool:
        """Add what a plan may cost at most."""
        limit = _limit(part)
        if limit is None or limit[1] > 0:
            return False
        term, _, high = limit
        counted = term.word if term.word in MEASURES else ""
        if term == Term("accesses", (level,)):
            counted = "accesses"
        if counted:
            self.at_most[counted] = min(high, self.at_most.get(counted, high))
        return bool(counted)

    # What the search asks --------------------------------------------------------------------------

    def allows(self, machine: HierarchyMachine) -> bool:
        """Whether a machine of which it is decided what its levels hold is admitted."""
        return all(value(part, lambda term: _holds(machine, term)) for part in self.of_choice)

    def blocks(self, machine: HierarchyMachine, lattice: Lattice, i: int) -> NDArray[np.bool_]:
        """Return which blocks may enter a node."""

        def of(term: Term) -> Any:
            if term.word == "holds":
                return np.array(_holds(machine, term))
            if term.word == "tile":
                return lattice.sizes[:, NAMES.index(str(term.arguments[1]))]
            operand = OPERANDS.index(term.arguments[1])
            held = _holds(machine, term)
            return lattice.elements[:, operand] if held else np.zeros(lattice.many, np.int64)

        found = np.ones(lattice.many, np.bool_)
        for part in self.of_blocks.get(i, ()):
            found &= value(part, of)
        return found

    def ratios(self, machine: HierarchyMachine, lattice: Lattice, i: int) -> NDArray[np.int64]:
        """Return how often one size of a loop may be in another at a node; see `Lattice.ratios`."""
        ratios = lattice.ratios
        for (number, loop), parts in self.of_loops.items():
            if number != i:
                continue
            ratios = ratios.copy()
            sizes = np.array(lattice.cuts[loop])
            many = len(sizes)
            table = ratios[loop, :many, :many]
            name = machine.nodes[i].name

            def of(term: Term, sizes: Any = sizes, table: Any = table, name: str = name) -> Any:
                if term.word == "iterations":
                    return table
                own = term.arguments[0] == name
                return np.broadcast_to(sizes[:, None] if own else sizes[None, :], table.shape)

            keeps = np.logical_and.reduce([value(part, of) for part in parts])
            table[...] = np.where(keeps, table, 0)
        return ratios

    def limits(self, given: Mapping[str, int]) -> dict[str, int]:
        """Return what plans may cost at most, with what the problem says of it."""
        both = given.keys() | self.at_most.keys()
        return {name: min(table[name] for table in (given, self.at_most) if name in table) for name in both}


def is_local(problem: LayerProblem, part: Ground) -> bool:
    """Whether the exact search takes something that must hold into account."""
    return Admitted().add(problem, part)


def _node(machine: HierarchyMachine, term: Term) -> int:
    return node_of(machine, str(term.arguments[0]))


def _holds(machine: HierarchyMachine, term: Term) -> bool:
    return term.arguments[1] in machine.nodes[_node(machine, term)].holds


def _limit(part: Ground) -> tuple[Term, int, int] | None:
    """Return the term that a comparison limits, and the least and the largest value it allows."""
    if not isinstance(part, Operation) or part.operator not in ("<=", "<", "=="):
        return None
    left, right = part.operands
    strict = int(part.operator == "<")
    if isinstance(left, Term) and isinstance(right, Constant):
        most = int(right.value) - strict
        return left, most if part.operator == "==" else 0, most
    if isinstance(right, Term) and isinstance(left, Constant):
        least = int(left.value) + strict
        return right, least, least if part.operator == "==" else 2**61
    return None
