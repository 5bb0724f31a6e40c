"""Frame after frame: weights that stay on chip for good, and what is left of a problem beside them.

Operations whose weights stay have none to load, and all else has the memory that is left. So a plan for many
frames is one for a single frame of what is left, and blocks that lie where they are for the whole time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property

from tilewright.residency.graph import Graph
from tilewright.residency.machine import ONE
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem


class ResidualProblem(Problem):
    """What is left of a problem when the weights of some operations stay on chip.

    Its plans are for one frame, and its memory is what these weights leave.

    Attributes
    ----------
    staying
        Numbers of the operations.
    """

    staying: tuple[int, ...] = ()

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors; those that stay have no weights to load."""
        return Graph(
            self.network_graph, self.machine.sum_elements, tiles=self.limits.tiles, staying=self.staying
        )


def residual_problem(problem: Problem, staying: Collection[int]) -> Problem:
    """Return what is left of a problem when the weights of some operations stay on chip.

    Raises
    ------
    InputError
        If too little memory is left.
    """
    numbers = tuple(sorted(staying))
    left = problem.machine.capacity - weights_of(problem.graph, numbers)
    return problem.derived(("staying", numbers), lambda: residual_in(problem, numbers, left))


def residual_in(problem: Problem, staying: Collection[int], capacity: int) -> Problem:
    """Return the problem of one frame in which some operations have no weights, in some elements.

    Raises
    ------
    InputError
        If an operation does not fit.
    """
    width = problem.machine.element_bytes
    return ResidualProblem(
        network=problem.network,
        machine=problem.machine.with_(memory_bytes=max(1, capacity * width)),
        objective=problem.objective,
        limits=problem.limits.with_(frames=ONE),
        staying=tuple(sorted(staying)),
    )


def weights_of(graph: Graph, numbers: Iterable[int]) -> int:
    """Return the elements of the weights of some operations."""
    return sum(graph.operations[number].weights for number in numbers)


def add_staying(problem: Problem, staying: Iterable[int], plan: Plan) -> Plan:
    """Return a plan for what is left of a problem as one of it: weights that stay lie below all else."""
    graph, at, begin = problem.graph, {}, 0
    for number in sorted(staying):
        at[graph.operations[number].name] = begin
        begin += graph.operations[number].weights
    if not at:
        return plan
    return replace(plan, steps=tuple(step.moved_up(begin) for step in plan.steps), staying=at)


def least_of_a_frame(problem: Problem) -> int:
    """Return what is moved for every frame: what remains if the most weights stay that can.

    Each operation needs some memory beside its weights, so that not all can stay in any memory.
    """
    graph, capacity = problem.graph, problem.machine.capacity
    weighty = [operation for operation in graph.operations if operation.weights]
    bare = residual_in(problem, [operation.number for operation in weighty], capacity)
    left = capacity - bare.least_memory
    return graph.compulsory - largest_subset_sum([operation.weights for operation in weighty], left)


def largest_subset_sum(sizes: Iterable[int], limit: int) -> int:
    """Return the largest sum of some of the sizes up to a limit."""
    fitting = [size for size in sizes if size <= limit]
    return sum(fitting) if sum(fitting) <= limit else subset_sums(fitting, limit).bit_length() - 1


def subset_sums(sizes: Iterable[int], limit: int) -> int:
    """Return all sums of some of the sizes up to a limit: a bit for each."""
    found, allowed = 1, (1 << limit + 1) - 1
    for size in sizes:
        found |= found << size & allowed
    return found
