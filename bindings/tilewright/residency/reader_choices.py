"""All choices of operations that are executed twice, and of who reads what second executions compute."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, islice

from tilewright.residency.derived_problems import names_of_copies
from tilewright.residency.graph import members
from tilewright.residency.problem import Problem

Choice = dict[str, tuple[str, ...]]
"""For each operation that is executed twice, who reads what the second execution computes."""


def reader_choices(problem: Problem, most: int) -> list[Choice]:
    """Return all choices, or one more than `most` of them.

    The first reader of an operation in the file reads its first execution, which is but a matter of names.
    """
    graph, copies = problem.graph, names_of_copies(problem.graph.ops)
    names = [operation.name for operation in graph.operations]

    def further(number: int, again: Choice) -> Iterator[Choice]:
        if number < 0:
            yield again
            return
        yield from further(number - 1, again)
        if graph.begin >> number & 1:
            return
        readers = [names[reader] for reader in members(graph.readers[number + 1])]
        every = [each for name in readers for each in ((name, copies[name]) if name in again else (name,))]
        others = every[1:]
        for some in chain.from_iterable(combinations(others, size) for size in range(1, len(others) + 1)):
            yield from further(number - 1, {names[number]: some, **again})

    return list(islice(further(len(names) - 1, {}), most + 1))
