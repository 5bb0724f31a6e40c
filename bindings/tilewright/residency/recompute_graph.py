"""Operations that are executed twice: the network in which they have copies, and its problem.

A plan of such a network is an ordinary one. Copies compute what they repeat from the same operands, or copies
of these, and load its weights again.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import cached_property

from tilewright.residency.graph import Graph, InvalidPlanError
from tilewright.residency.problem import Problem
from tilewright.spec.graph import Access, NetworkGraph, Operation
from tilewright.spec.network import OWN_INPUT

Readers = Mapping[str, tuple[str, ...]]
"""For each operation that is executed twice, who reads what the second execution computes."""


class RecomputeProblem(Problem):
    """A problem whose network has copies of some operations.

    Attributes
    ----------
    again
        These operations, and who reads the copies.
    free
        Operations whose outputs take no room and are moved for nothing.
    """

    again: dict[str, tuple[str, ...]]
    free: tuple[str, ...] = ()

    def model_post_init(self, _context: object) -> None:
        """Refuse what cannot run; where outputs take no room all can that could before."""
        if not self.free:
            super().model_post_init(_context)

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors, with those of copies."""
        ops, first = add_copies(self.network_graph, self.again)
        return Graph(ops, self.machine.sum_elements, tiles=self.limits.tiles, first=first, free=self.free)


def problem_with_copies(problem: Problem, again: Readers) -> Problem:
    """Return the problem in which some operations have copies; that which was asked for last is kept.

    Raises
    ------
    InvalidPlanError
        If an operation cannot be executed twice as is said.
    """
    key = "again", tuple((name, tuple(readers)) for name, readers in again.items())
    return problem.derived(key, lambda: with_copies_of(problem, again))


def with_copies_of(problem: Problem, again: Readers, free: tuple[str, ...] = ()) -> Problem:
    """Return the problem in which some operations have copies; for bounds, some outputs take no room."""
    return RecomputeProblem(
        network=problem.network,
        machine=problem.machine,
        objective=problem.objective,
        limits=problem.limits.with_(executions=1),
        again={name: tuple(readers) for name, readers in again.items()},
        free=free,
    )


def names_of_copies(ops: NetworkGraph) -> dict[str, str]:
    """Return what the second execution of each operation is called."""
    taken, found = {op.name for op in ops.ops}, {}
    for op in ops.ops:
        name = f"{op.name} again"
        while name in taken:
            name += " again"
        taken.add(name)
        found[op.name] = name
    return found


def add_copies(
    ops: NetworkGraph, again: Mapping[str, Collection[str]]
) -> tuple[NetworkGraph, dict[int, int]]:
    """Return a graph in which some operations are executed twice, and for each copy what it repeats.

    Parameters
    ----------
    again
        For each operation that is executed twice, by name, those that read what the second execution
        computes: some of its readers, or copies of its readers. A copy reads what the operation reads, and
        stands before the first of its readers.

    Raises
    ------
    InvalidPlanError
        For operations that are not there, or do not read what they are said to; where one of the two
        executions has no readers.
    """
    own = {op.name: op for op in ops.ops}
    for name in again:
        if name not in own or not own[name].producers:
            raise InvalidPlanError(f"again: unknown operation {name}")
    copies = {name: copy for name, copy in names_of_copies(ops).items() if name in again}
    repeats = {copy: name for name, copy in copies.items()}
    read = _operands(ops, again, copies)
    order = _order(ops, read, repeats)
    numbers = {**order, OWN_INPUT: -1}
    found = [
        replace(
            own[repeats.get(name, name)],
            number=number,
            spec=own[repeats.get(name, name)].spec.model_copy(update={"name": name}),
            accesses=tuple(Access(numbers[operand]) for operand in read[name]),
            leaves=own[name].leaves if name in own else False,  # the first execution is what leaves
        )
        for name, number in order.items()
    ]
    return replace(ops, ops=tuple(found)), {order[copy]: order[name] for copy, name in repeats.items()}


def _operands(
    ops: NetworkGraph, again: Mapping[str, Collection[str]], copies: Mapping[str, str]
) -> dict[str, list[str]]:
    """Return what operations and copies read, by name."""

    def names(op: Operation) -> list[str]:
        return [ops.ops[producer].name if producer >= 0 else OWN_INPUT for producer in op.producers]

    read = {op.name: names(op) for op in ops.ops}
    read |= {copy: list(read[name]) for name, copy in copies.items()}
    readers_of_first: dict[str, set[str]] = {name: set() for name in again}
    for reader, operands in read.items():
        for name in readers_of_first.keys() & operands:
            readers_of_first[name].add(reader)
    for name, readers in again.items():
        for reader in readers:
            if reader not in readers_of_first[name]:
                raise InvalidPlanError(f"again: {reader} does not read {name}, or is named twice")
            readers_of_first[name].remove(reader)
            read[reader] = [copies[name] if operand == name else operand for operand in read[reader]]
        if not readers or not readers_of_first[name]:
            which = "first" if readers else "second"
            raise InvalidPlanError(f"again: nobody reads what the {which} execution of {name} computes")
    return read


def _order(ops: NetworkGraph, read: Mapping[str, list[str]], repeats: Mapping[str, str]) -> dict[str, int]:
    """Return the numbers of operations and copies: each copy stands before the first that needs it."""
    places = {op.name: op.number for op in ops.ops}
    places |= {copy: places[name] for copy, name in repeats.items()}
    order: dict[str, int] = {}
    for op in ops.ops:
        waiting, needed = [op.name], {op.name}
        while waiting:
            new = {name for name in read[waiting.pop()] if name in repeats and name not in order} - needed
            waiting += new
            needed |= new
        for name in sorted(needed, key=places.__getitem__):
            order[name] = len(order)
    return order
