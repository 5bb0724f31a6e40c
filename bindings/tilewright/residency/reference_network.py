"""What the reference model has of a network: executions of operations, what these compute, who reads it."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from tilewright.residency.derived_problems import names_of_copies
from tilewright.residency.graph import Operation, Reading, members
from tilewright.residency.problem import Problem


class Execution(NamedTuple):
    """A first or second execution of an operation; the tensor that it computes counts from 1.

    Attributes
    ----------
    repeats
        Place of the first execution, from 1; 0 for a first one.
    """

    name: str
    operation: Operation
    tensor: int
    repeats: int


class ReadingOf(NamedTuple):
    """What an execution reads, or may read: its place, that of the tensor, both from 1.

    Attributes
    ----------
    channels
        Those that are read.
    offset
        Channels of what stands before it where operands are joined.
    instead
        Of what a second execution computes, the same reading of the first; 0 where there is none.
    """

    execution: int
    tensor: int
    how: Reading
    channels: frozenset[int]
    offset: int
    instead: int


class Network:
    """What the model has of a network: executions in the order of the file, tensors, and who reads them."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self.operations = self.graph.numbers(self.graph.all & ~self.graph.begin)

    @cached_property
    def executed_twice(self) -> list[int]:
        """Return the operations that may be: each execution has a reader, which may be run again, too."""
        found: list[int] = []
        if self.problem.limits.executions == 1:
            return found
        for operation in reversed(self.operations):
            readers = members(self.graph.readers[operation.number + 1])
            if len(readers) + sum(each in found for each in readers) > 1:
                found.append(operation.number)
        return found[::-1]

    @cached_property
    def executions(self) -> list[Execution]:
        """Return all executions that may be; each second one stands behind the first."""
        copies, found = names_of_copies(self.problem.network_graph), []
        for operation in self.operations:
            found.append(Execution(operation.name, operation, operation.number + 2, 0))
            if operation.number in self.executed_twice:
                tensor = len(self.graph.tensors) + self.executed_twice.index(operation.number) + 1
                found.append(Execution(copies[operation.name], operation, tensor, len(found)))
        return found

    @cached_property
    def readings(self) -> list[ReadingOf]:
        """Return what executions read, and may read instead."""
        second = {each.operation.number: each.tensor for each in self.executions if each.repeats}
        found: list[ReadingOf] = []
        for place, each in enumerate(self.executions, 1):
            for how in each.operation.readings:
                read = how, self._channels(each.operation, how), self._offset(each.operation, how)
                found.append(ReadingOf(place, how.tensor + 1, *read, 0))
                if how.tensor - 1 in second:
                    found.append(ReadingOf(place, second[how.tensor - 1], *read, len(found)))
        return found

    def _channels(self, operation: Operation, how: Reading) -> frozenset[int]:
        """Return the channels that an operation reads of a tensor; of a product, with one of its operands."""
        accesses, every = operation.op.accesses, self.graph.tensors[how.tensor].channels
        if operation.second is not None:
            accesses = tuple(operation.op.operands[how.extent is None])
        spans = [each.channels or (0, every) for each in accesses if each.source == how.tensor - 1]
        return frozenset(channel for first, end in spans for channel in range(first, end))

    def _offset(self, operation: Operation, how: Reading) -> int:
        """Return the channels of what stands before a tensor where operands are joined."""
        place = operation.op.producers.index(how.tensor - 1)
        return operation.offsets(self.graph.ops)[place]

    @cached_property
    def places(self) -> dict[str, int]:
        """Return the places of executions by name, from 1."""
        return {each.name: place for place, each in enumerate(self.executions, 1)}

    @cached_property
    def tensors(self) -> dict[str, int]:
        """Return the places of tensors by name, from 1."""
        found = {tensor.name: place for place, tensor in enumerate(self.graph.tensors, 1)}
        return found | {each.name: each.tensor for each in self.executions if each.repeats}

    @cached_property
    def repeated(self) -> list[int]:
        """Return the tensor of the file, from 0, that each tensor is or repeats."""
        return [*range(len(self.graph.tensors)), *(number + 1 for number in self.executed_twice)]
