"""A plan's loop nest on a layer: the blocks of each node, and which limits of the machine they keep."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from itertools import pairwise
from math import prod

import numpy as np

from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.loops import AXES, LOOPS, REDUCED, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.plan import HierarchyPlan


def divisors(number: int) -> list[int]:
    """Return all divisors, ascending."""
    small = [d for d in range(1, int(number**0.5) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})


@lru_cache(maxsize=65536)
def window(outputs: int, taps: int, stride: int, dilation: int) -> int:
    """Return how many rows of the padded input lie under some rows of output and of the kernel."""
    places: dict[int, list[int]] = {}
    for tap in range(taps):
        place, rest = divmod(tap * dilation, stride)
        places.setdefault(rest, []).append(place)
    return sum(
        outputs + sum(min(outputs, after - before) for before, after in pairwise(starts))
        for starts in places.values()
    )


@lru_cache(maxsize=4096)
def unshared(outputs: int, taps: int, stride: int, dilation: int, shift: int) -> int:
    """Return how many rows lie under some outputs and rows of the kernel, but not so many rows before.

    Parameters
    ----------
    shift
        How many rows of the padded input before.
    """
    under = np.unique(np.add.outer(np.arange(outputs) * stride, np.arange(taps) * dilation))
    return int((~np.isin(under, under + shift)).sum())


def fresh(layer: Layer, block: Mapping[str, int], loop: str) -> int:
    """Return the elements of input under a block that the block before it, along a loop, does not have.

    Parameters
    ----------
    loop
        Over rows or columns, of outputs or of the kernel.
    """
    total = block["g"] * block["n"] * block["k"]
    for axis, (out, tap) in enumerate(AXES):
        geometry = block[out], block[tap], layer.stride[axis], layer.dilation[axis]
        if loop == out:
            total *= unshared(*geometry, block[out] * layer.stride[axis])
        elif loop == tap:
            total *= unshared(*geometry, block[tap] * layer.dilation[axis])
        else:
            total *= window(*geometry)
    return total


class Nest:
    """A loop nest.

    Attributes
    ----------
    machine
        As the plan uses it: what its levels may hold is decided.
    extents
        Iterations of each loop of the layer.
    blocks
        Before each node, and last inside of all, the size of the block in each loop. The last block of a loop
        is smaller where the steps do not divide the block outside.
    """

    def __init__(self, layer: Layer, machine: HierarchyMachine, plan: HierarchyPlan) -> None:
        self.layer, self.plan, self.given = layer, plan, machine
        self.machine = machine.keeping(plan.kept)
        self.extents = extents(layer)
        self.blocks = [dict(self.extents)]
        for loops in plan.nest:
            self.blocks.append({**self.blocks[-1], **dict(loops)})

    def trips(self, node: int, loop: str) -> int:
        """Return how often a node's loop runs, in a block that no border cuts off."""
        return -(-self.blocks[node][loop] // self.blocks[node + 1][loop])

    def violation(self) -> str | None:
        """Say what is wrong with the nest, or None."""
        return self.malformed() or self.overflow()

    def malformed(self) -> str | None:
        """Say where the plan is no loop nest of the machine, or None."""
        if not self.given.decides(self.plan.kept):
            free = {
                level.name: list(map(list, level.choices)) if level.uneven else list(level.may_hold)
                for level in self.given.levels
                if level.may_hold or level.uneven
            }
            return f"kept: the plan holds {dict(self.plan.kept)}, what may be held is {free}"
        nodes = self.machine.nodes
        if len(self.plan.nest) != len(nodes):
            return f"nest: the plan has {len(self.plan.nest)} lists of loops, the machine {len(nodes)} nodes"
        for number, (node, loops) in enumerate(zip(nodes, self.plan.nest, strict=True)):
            letters = [letter for letter, _ in loops]
            if len(set(letters)) < len(letters):
                return f"nest: {node.name} has a loop twice"
            for letter, step in loops:
                block = self.blocks[number][letter]
                if step >= block:
                    return f"nest: {node.name} goes through {block} {LOOPS[letter]} in steps of {step}"
                if node.axis is not None and letter not in node.axis.loops:
                    return f"fanout: {LOOPS[letter]} cannot be unrolled over {node.name}"
            if node.axis is not None:
                used = prod(self.trips(number, letter) for letter in letters)
                if used > node.axis.size:
                    return f"fanout: {node.name} has {node.axis.size} instances, {used} are used"
        left = {LOOPS[loop]: size for loop, size in self.blocks[-1].items() if size > 1}
        if left:
            return f"nest: the innermost block is not one position: {left}"
        return None

    def outside_of_space(self, *, divide: bool = True) -> str | None:
        """Say why the nest is none of those that are searched, or None.

        Parameters
        ----------
        divide
            Whether every step has to divide the block outside.
        """
        for number, (node, allowed) in enumerate(zip(self.machine.nodes, self.machine.allowed, strict=True)):
            for letter, step in self.plan.nest[number]:
                block, loop = self.blocks[number][letter], LOOPS[letter]
                if divide and block % step:
                    return f"factors: {node.name} cuts {block} {loop} in steps of {step}, no divisor"
                if letter not in allowed:
                    passes = "which would move what passes by it from outside of the array"
                    return f"loops: {node.name} goes through {loop}, {passes}"
        return None

    def overflow(self) -> str | None:
        """Say which memory overflows, or None."""
        for number in self.machine.memories:
            level = self.machine.levels[self.machine.nodes[number].level]
            if level.capacity_bytes is None:
                continue
            bits = self.needed_bits(number)
            if isinstance(level.capacity_bytes, int):
                if sum(bits.values()) > 8 * level.capacity_bytes:
                    needed = -(-sum(bits.values()) // 8)
                    return (
                        f"memory overflow: {level.name} needs {needed} bytes, it has {level.capacity_bytes}"
                    )
                continue
            for operand, held in bits.items():
                given = getattr(level.capacity_bytes, operand)
                if held > 8 * given:
                    needed = -(-held // 8)
                    return f"memory overflow: {level.name} needs {needed} bytes for {operand}, it has {given}"
        return None

    def needed_bits(self, memory: int) -> dict[str, int]:
        """Return what the tiles of each operand need in a memory, given by its first node."""
        copies = self.machine.levels[self.machine.nodes[memory].level].copies
        return {
            operand: copies * self.held(operand, node) * self.held_bits(operand, node)
            for node in self.machine.memories[memory]
            for operand in self.machine.nodes[node].holds
        }

    @property
    def reserved(self) -> int:
        """Bits that an instance of each memory but the first reserves, all together."""
        return sum(sum(self.needed_bits(memory).values()) for memory in list(self.machine.memories)[1:])

    def held(self, operand: str, node: int) -> int:
        """Elements of the largest tile of an operand that a memory holds."""
        return self.elements(operand, self.blocks[node])

    def elements(self, operand: str, block: dict[str, int]) -> int:
        """Elements of an operand under a block."""
        if operand != "input":
            return prod(block[loop] for loop in USES[operand])
        return block["g"] * block["n"] * block["k"] * prod(self.plane(block))

    def plane(self, block: dict[str, int]) -> tuple[int, int]:
        """Rows and columns of the input under a block."""
        rows, columns = (
            window(block[out], block[tap], self.layer.stride[axis], self.layer.dilation[axis])
            for axis, (out, tap) in enumerate(AXES)
        )
        return rows, columns

    def held_bits(self, operand: str, node: int) -> int:
        """Width of an operand's elements in a memory; outputs are partial where they come incomplete."""
        bits = self.machine.bits
        if operand != "output" or self._come_complete(node):
            return int(getattr(bits, operand))
        return bits.partial

    def _come_complete(self, node: int) -> bool:
        """Whether outputs reach a memory from further in only when they are complete.

        No array outside adds to them, and where a loop brings another tile to the memory further in, no loop
        outside of that one is over what is added up. Loops during which that tile stays send nothing out.
        """
        holders = [*self.machine.holders["output"], len(self.machine.nodes)]
        inner = min(holder for holder in holders if holder > node)
        adding = [loop for _, loop in self.moving("output", inner)]
        arrays = [i for i in range(node) if self.machine.nodes[i].axis is not None]
        adding += [loop for i in arrays for loop, _ in self.plan.nest[i]]
        return not set(adding) & set(REDUCED)

    def summed_outside(self, node: int) -> bool:
        """Whether an array outside of a node adds up sums."""
        arrays = (i for i, each in enumerate(self.machine.nodes[:node]) if each.axis is not None)
        return any(
            loop in REDUCED and self.trips(i, loop) > 1 for i in arrays for loop, _ in self.plan.nest[i]
        )

    def moving(self, operand: str, child: int) -> list[tuple[int, str]]:
        """Return the loops of memories, with their nodes, that bring another tile to a node, outermost first.

        To the multipliers all loops do.
        """
        nodes = self.machine.nodes
        order = [
            (i, loop)
            for i in range(min(child, len(nodes)))
            if nodes[i].axis is None
            for loop, _ in self.plan.nest[i]
            if self.trips(i, loop) > 1
        ]
        if child < len(nodes):
            moving = [at for at, (_, loop) in enumerate(order) if loop in USES[operand]]
            order = order[: moving[-1] + 1] if moving else []
        return order
