"""Where data lie on chip: pieces at addresses (the S1 paper abstracts from that, assumption 1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tilewright.offloading.plan import Numbers, Plan, numbers
from tilewright.offloading.problem import Problem

TRIES = 20
"""Orders of pieces that are tried for each piece."""


class Piece(NamedTuple):
    """What one step loads or computes and one step frees; it lies at consecutive addresses.

    Attributes
    ----------
    memory, size
        Which memory, and how many elements.
    first, end
        The step that brings it, and the one that frees it, from 0; the number of steps for the end.
    """

    memory: int
    size: int
    first: int
    end: int


class Stay(NamedTuple):
    """When elements of one kind come to a memory and go from it; an element may do so several times.

    Attributes
    ----------
    memory, kind
        Which memory; 0 for the input, 1 for kernels, 2 for outputs.
    elements : int, shape (stays,)
    spans : int, shape (stays, 2)
        The steps that bring and free each, as those of a `Piece`.
    """

    memory: int
    kind: int
    elements: Numbers
    spans: Numbers

    def grouped(self) -> tuple[Numbers, Numbers]:
        """Return the spans of the pieces in their order, and of each stay the number of its piece."""
        kinds, inverse = np.unique(self.spans, axis=0, return_inverse=True)
        return kinds, inverse.reshape(-1)


def stays(problem: Problem, plan: Plan) -> Iterator[Stay]:
    """Yield when elements are on chip, by memory and by kind of data."""
    sizes = problem.elements
    for memory in range(problem.n_memories):
        for kind, (arriving, leaving, n) in enumerate(
            (
                ("load_inputs", "free_inputs", sizes.n_inputs),
                ("load_kernels", "free_kernels", sizes.n_kernel_elements),
                ("load_sums", "write", sizes.n_outputs),
            )
        ):
            since = np.full(n, -1, dtype=np.int64)
            if arriving == "load_kernels" and problem.machine.kernels == "preloaded":
                since[:] = 0
            elements: list[Numbers] = []
            spans: list[Numbers] = []
            for at, step in enumerate(plan.steps):
                moves = step.moves[memory]
                gone = numbers(getattr(moves, leaving))
                elements.append(gone)
                spans.append(np.stack([since[gone], np.full(len(gone), at)], axis=1))
                since[gone] = -1
                since[numbers(getattr(moves, arriving))] = at
                if arriving == "load_sums":
                    for part, block in enumerate(step.blocks):
                        if block is not None and problem.memory_of(part) == memory:
                            made = sizes.outputs_of(numbers(block.patches), numbers(block.kernels))
                            since[made[since[made] < 0]] = at
            rest = np.flatnonzero(since >= 0)
            elements.append(rest)
            spans.append(np.stack([since[rest], np.full(len(rest), plan.n_steps)], axis=1))
            yield Stay(memory, kind, np.concatenate(elements), np.concatenate(spans))


def pieces(problem: Problem, plan: Plan) -> list[Piece]:
    """Return the pieces of a plan by memory, by kind of data, and by the steps that bring and free them."""
    found: list[Piece] = []
    for stay in stays(problem, plan):
        spans, numbered = stay.grouped()
        sizes = np.bincount(numbered, minlength=len(spans))
        found += [
            Piece(stay.memory, int(size), int(first), int(end))
            for (first, end), size in zip(spans.tolist(), sizes.tolist(), strict=True)
        ]
    return found


def misplaced(problem: Problem, plan: Plan) -> str | None:
    """Return what is wrong with the addresses of a plan, or None."""
    if problem.machine.placement == "counted":
        return "the plan has addresses, and the machine asks for none" if plan.addresses is not None else None
    found = pieces(problem, plan)
    if plan.addresses is None or len(plan.addresses) != len(found):
        given = "none" if plan.addresses is None else str(len(plan.addresses))
        return f"the plan must have an address for each of its {len(found)} pieces, has {given}"
    limit = problem.machine.memory
    order = sorted(range(len(found)), key=lambda number: found[number].first)
    alive: list[int] = []
    for number in order:
        piece, address = found[number], plan.addresses[number]
        if limit is not None and address + piece.size > limit:
            return (
                f"step {piece.first + 1}: a piece of {piece.size} elements lies at {address}, beyond {limit}"
            )
        alive = [other for other in alive if found[other].end > piece.first]
        for other in alive:
            there = found[other]
            if (
                there.memory == piece.memory
                and plan.addresses[other] < address + piece.size
                and address < (plan.addresses[other] + there.size)
            ):
                return f"step {piece.first + 1}: pieces at {plan.addresses[other]} and {address} overlap"
        alive.append(number)
    return None


def placed(problem: Problem, plan: Plan, deadline: float = float("inf")) -> Plan | None:
    """Return the plan with addresses where the machine asks for them; None where none were found."""
    if problem.machine.placement == "counted":
        return plan
    from tilewright.addresses.order_search import place_items  # start-up time: numba

    found = pieces(problem, plan)
    addresses = np.zeros(len(found), dtype=np.int64)
    for memory in range(problem.n_memories):
        mine = [number for number, piece in enumerate(found) if piece.memory == memory]
        if not mine:
            continue
        sizes, begins, ends = (
            np.array([getattr(found[number], name) for number in mine], dtype=np.int64)
            for name in ("size", "first", "end")
        )
        capacity = int(sizes.sum()) if problem.machine.memory is None else problem.machine.memory
        lies = place_items(begins, ends, sizes, capacity, TRIES * len(mine), deadline)
        if lies is None:
            return None
        addresses[mine] = lies
    return replace(plan, addresses=tuple(addresses.tolist()))
