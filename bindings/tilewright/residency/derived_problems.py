"""Problems made of another one: what is left beside weights that stay; a network with copies of operations.

Operations whose weights stay from frame to frame have none to load, and all else has the memory that is
left. So a plan for many frames is one for a single frame of what is left, and blocks that lie where they are
for the whole time.

Operations that are executed twice have copies in the network. These compute what they repeat from the same
operands, or copies of these, and load its weights again. A plan of such a network is an ordinary one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

from tilewright.residency.graph import Graph, InvalidPlanError
from tilewright.residency.machine import ONE, OneMemory, region_of
from tilewright.residency.placement import rooms_of
from tilewright.residency.plan import Plan, Step
from tilewright.residency.problem import Problem
from tilewright.residency.rows import executed_graph
from tilewright.residency.shapes.groups import Groups
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import OWN_INPUT

Readers = Mapping[str, tuple[str, ...]]
"""For each operation that is executed twice, who reads what the second execution computes."""


def problem_of_plan(problem: Problem, plan: Plan) -> Problem:
    """Return the problem whose steps a plan has.

    Where weights stay, that is what they leave of it, for a single frame; where operations are executed
    twice, its network has copies of them.

    Raises
    ------
    InvalidPlanError
        If these weights cannot stay, or these operations not be executed twice.
    """
    if plan.again:
        if problem.limits.executions == 1:
            raise InvalidPlanError("again: operations are executed twice, limits.executions allows it once")
        return problem_with_copies(problem, plan.again)
    if not plan.staying:
        return problem
    if problem.limits.frames == ONE:
        raise InvalidPlanError("weights: some stay on chip, which is for many frames")
    numbers = {operation.name: operation.number for operation in problem.graph.operations}
    for name in plan.staying:
        if name not in numbers or not problem.graph.operations[numbers[name]].weights:
            raise InvalidPlanError(f"weights: {name} has none that could stay on chip")
    staying = [numbers[name] for name in plan.staying]
    try:
        return residual_problem(problem, staying)
    except InputError as error:
        taken = problem.machine.element_bytes * weights_of(problem.graph, staying)
        raise InvalidPlanError(f"memory: {taken:,} bytes of weights stay on chip: {error.limit}") from None


# Weights that stay ---------------------------------------------------------------------------------------


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
    def network_graph(self) -> NetworkGraph:
        """The network, coarse as it is executed where weights may stay for all frames."""
        return executed_graph(coarse_graph(self.network), numbers=False)

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors; those that stay have no weights to load."""
        machine = self.machine
        return Graph(
            self.network_graph,
            machine.sum_elements,
            tiles=self.limits.tiles,
            staying=self.staying,
            largest=machine.largest,
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
    machine = problem.machine.with_(memory_bytes=max(1, capacity * problem.machine.element_bytes))
    return _residual_on(problem, staying, machine)


def residual_beside(problem: Problem, staying: Collection[int]) -> Problem:
    """Return the problem of one frame in what weights that stay leave, of each of several memories.

    Raises
    ------
    InputError
        If an operation does not fit, or not all weights fit into several memories.
    """
    if not staying or len(problem.machine.regions) == 1:
        return residual_in(problem, staying, problem.machine.capacity - weights_of(problem.graph, staying))
    found = beside(problem, staying)
    if found is None:
        limit = "do not hold the weights that are to stay, each in one memory"
        raise InputError("machine.memory", [region.name for region in problem.machine.regions], limit)
    return _residual_on(problem, staying, found.machine)


def _residual_on(problem: Problem, staying: Collection[int], machine: OneMemory) -> Problem:
    return ResidualProblem(
        network=problem.network,
        machine=machine,
        objective=problem.objective,
        limits=problem.limits.with_(frames=ONE),
        staying=tuple(sorted(staying)),
    )


class _StepsBeside(ResidualProblem):
    """What is left of a problem; whether its operations fit is asked of each step."""

    def model_post_init(self, _context: object) -> None:
        """Refuse nothing."""


def steps_beside(problem: Problem, staying: Collection[int]) -> Problem | None:
    """Return what weights that stay leave of a problem, for single steps of it; None if there is no room.

    It is made in a moment, as all that does not depend on weights is that of the problem.
    """
    left = problem.machine.capacity - weights_of(problem.graph, staying)
    if left <= 0:
        return None
    found = _StepsBeside(
        network=problem.network,
        machine=problem.machine.with_(memory_bytes=left * problem.machine.element_bytes),
        objective=problem.objective,
        limits=problem.limits.with_(frames=ONE),
        staying=tuple(sorted(staying)),
    )
    derived = vars(found)  # where cached properties are
    derived["network_graph"] = problem.network_graph
    derived["groups"] = Groups(found.graph, problem.groups)
    return found


def weights_of(graph: Graph, numbers: Iterable[int]) -> int:
    """Return the elements of the weights of some operations."""
    return sum(graph.operations[number].weights for number in numbers)


class Beside(NamedTuple):
    """What weights that stay leave of several memories, of each from some element on.

    Attributes
    ----------
    at
        The first element of the weights of each operation, by number.
    machine
        What is left. Its elements are numbered anew.
    """

    at: dict[int, int]
    machine: OneMemory


def beside(problem: Problem, staying: Collection[int]) -> Beside | None:
    """Return where weights that stay lie in several memories: below all else in one of them.

    Returns
    -------
    None where they do not fit, each into one memory, or nothing is left.
    """
    machine, numbers, at = problem.machine, sorted(staying), dict[int, int]()
    sizes = {number: problem.graph.operations[number].weights for number in numbers}
    rooms = rooms_of([*sizes.values()], [region.elements for region in machine.regions])
    if rooms is None:
        return None
    taken = dict.fromkeys((region.name for region in machine.regions), 0)
    for (number, size), room in zip(sizes.items(), rooms, strict=True):
        region = machine.regions[room]
        at[number] = region.begin + taken[region.name]
        taken[region.name] += size
    width, left = machine.element_bytes, machine.capacity - sum(sizes.values())
    free = {region.name: region.elements - taken[region.name] for region in machine.regions}
    if left < 1:
        return None
    found = machine.with_(
        memory_bytes=left * width,
        memory=tuple(name for name, elements in free.items() if elements),
        memories=tuple(
            each.with_(bytes=free[each.name] * width) if each.name in free else each
            for each in machine.memories
            if free.get(each.name, 1)
        ),
    )
    return Beside(at, found)


def add_staying(problem: Problem, staying: Iterable[int], plan: Plan) -> Plan:
    """Return a plan for what is left of a problem as one of it: weights that stay lie below all else.

    Of several memories they lie below all else in each. If they do not fit into them, each into one, they lie
    across their borders, and the plan is not valid.
    """
    graph, at, begin, numbers = problem.graph, dict[str, int](), 0, sorted(staying)
    if not numbers:
        return plan
    found = beside(problem, numbers) if len(problem.machine.regions) > 1 else None
    if found is not None:
        at = {graph.operations[number].name: element for number, element in found.at.items()}
        return replace(plan, steps=_where_they_were(problem, found.machine, plan), staying=at)
    for number in numbers:
        at[graph.operations[number].name] = begin
        begin += graph.operations[number].weights
    return replace(plan, steps=tuple(step.moved_up(begin) for step in plan.steps), staying=at)


def _where_they_were(problem: Problem, left: OneMemory, plan: Plan) -> tuple[Step, ...]:
    """Return the steps of a plan for what is left of several memories, with the elements of all of them."""
    ends = {region.name: region.end for region in problem.machine.regions}

    def element(at: int) -> int:
        region = left.regions[region_of(left.regions, at)]
        return at + ends[region.name] - region.end

    return tuple(
        replace(step, addresses={key: element(at) for key, at in step.addresses.items()})
        for step in plan.steps
    )


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


# Operations that are executed twice -----------------------------------------------------------------------


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
        machine = self.machine
        return Graph(
            ops,
            machine.sum_elements,
            tiles=self.limits.tiles,
            first=first,
            free=self.free,
            largest=machine.largest,
        )


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
            accesses=tuple(
                access._replace(source=numbers[operand])
                for access, operand in zip(own[repeats.get(name, name)].accesses, read[name], strict=True)
            ),
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
