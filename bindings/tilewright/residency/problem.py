"""The residency problem: a network, one memory, an objective and limits."""

from __future__ import annotations

from functools import cached_property

from tilewright.residency.bounds import Remaining
from tilewright.residency.graph import Graph, Operation
from tilewright.residency.machine import ONE, OneMemory, ResidencyLimits, ResidencyObjective
from tilewright.residency.prices import Prices, Spent
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import pareto_shapes
from tilewright.residency.shapes.shape import Shape, buffer_sizes, step_buffers
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import Transitions
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network

MOST_ELEMENTS = 2**40
"""Most elements of all tensors and weights together."""


MOST_STAYING = 2**26
"""Most elements of weights, or of memory, where weights may stay: all their sums are told apart."""


class Problem(Spec):
    """A network and the memory that it is to run in."""

    network: Network
    machine: OneMemory
    objective: ResidencyObjective = ResidencyObjective()
    limits: ResidencyLimits = ResidencyLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse what cannot run, naming the operation and the least memory that would do."""
        self.network.check_shapes()
        for index, layer in enumerate(self.network.layers):
            if getattr(layer, "batch", 1) != 1:
                limit = f"layer {layer.name}: plans are for one image at a time"
                raise InputError(f"network.layers[{index}].batch", layer.batch, limit)  # type: ignore[union-attr]
        for name, most in self.objective.limits.items():
            if name in self.objective.names:
                raise InputError(f"objective.most_{name}", most, "limits what is minimised itself")
        if self.limits.frames != ONE and (self.objective.names != ("traffic",) or self.objective.limits):
            limit = "is for least traffic of a frame; the objective counts something else, too"
            raise InputError("limits.frames", self.limits.frames, limit)
        if self.limits.executions != 1:
            self._once()
        graph = self.graph
        weights = sum(operation.weights for operation in graph.operations)
        if self.limits.frames != ONE and min(weights, self.machine.capacity) > MOST_STAYING:
            limit = f"is for no more than {MOST_STAYING:,} elements of weights, or of memory"
            raise InputError("limits.frames", self.limits.frames, limit)
        if graph.compulsory + sum(tensor.size for tensor in graph.tensors) > MOST_ELEMENTS:
            raise InputError("network.layers", len(graph.operations), f"more than {MOST_ELEMENTS} elements")
        if graph.begin == graph.all:
            raise InputError("network.layers", len(graph.operations), "holds no operation")
        if all(map(self._fits_in_kernels, graph.numbers(graph.all & ~graph.begin))):
            return
        number = max(self.least, key=self.least.__getitem__)
        needed, width = self.least[number], self.machine.element_bytes
        if needed > self.machine.capacity:
            missing = needed * width - self.machine.memory_bytes
            limit = (
                f"operation {graph.operations[number].name} does not fit: {missing:,} bytes are missing; "
                f"{needed * width:,} are the least with which the network runs"
            )
            raise InputError("machine.memory_bytes", self.machine.memory_bytes, limit)

    def _once(self) -> None:
        """Refuse to execute operations twice where that is not searched for."""
        limit = ""
        if self.objective.names != ("traffic",) or self.objective.limits:
            limit = "is for least traffic; the objective counts something else, too"
        elif self.limits.frames != ONE:
            limit = "is for a single frame; limits.frames has many"
        if limit:
            raise InputError("limits.executions", self.limits.executions, limit)

    @property
    def minimise(self) -> str:
        """What is minimised; of a list, the last one."""
        return self.objective.names[-1]

    @property
    def before(self) -> tuple[tuple[str, float], ...]:
        """The objectives of a list that come before the last, each with its tolerance."""
        return tuple(zip(self.objective.names, self.objective.tolerances, strict=False))

    @property
    def timed(self) -> bool:
        """Whether time and energy are told of plans."""
        counted = {*self.objective.names, *self.objective.limits}
        return self.machine.timed or bool(counted & {"cycles", "energy"})

    @cached_property
    def priced(self) -> Prices:
        """Rates and prices of the machine."""
        return Prices(self.machine)

    def spent(self, spent: Spent) -> dict[str, int]:
        """Return what is spent in the units of objectives: bytes, cycles, femtojoules."""
        return {
            "traffic": spent.moved * self.machine.element_bytes,
            "cycles": self.priced.cycles(spent.time),
            "energy": self.priced.femtojoules(spent.energy),
        }

    @property
    def grounds(self) -> str | None:
        """Among which plans a search proves a bound, where others might cost less."""
        *others, last = self.graph.reductions or ("",)
        if not last:
            return None
        several = (
            f"{', '.join(others[:2])}{', ...' if len(others) > 2 else ''} and {last}" if others else last
        )
        verb = "have" if others else "has"
        return f"plans in which {several} {verb} a whole plane on chip at a time, without running sums"

    @property
    def unit(self) -> str:
        """What the objective counts."""
        return {"cycles": "cycles", "energy": "fJ"}.get(self.minimise, "bytes")

    @cached_property
    def least_spent(self) -> Spent:
        """What every plan spends."""
        return self.remaining.least(self.graph.begin, self.graph.given)

    @cached_property
    def remaining(self) -> Remaining:
        """What is still to be spent in any case."""
        return Remaining(self.graph, self.priced, self.machine.double_buffering)

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors."""
        return Graph(self.network, self.machine.sum_elements, tiles=self.limits.tiles)

    @cached_property
    def groups(self) -> dict[int, Group]:
        """Groups of operations that have been looked at, by bit mask: all searches share them."""
        return {}

    @cached_property
    def least(self) -> dict[int, int]:
        """For each operation, by number, the fewest elements of memory in which it runs.

        That is by itself, with all maps in DRAM: line buffers are smaller than what they are of, and an
        operation that is executed with others needs the same, for all of its channels. Tensors of a single
        element take less where the result takes the place of an operand, and stays.
        """
        found = {}
        for operation in self.graph.numbers(self.graph.all & ~self.graph.begin):
            group = self._alone(operation)
            streamed = sum(self.graph.tensors[tensor].size for tensor in group.sources)
            stairs = pareto_shapes(group, frozenset(), streamed, MOST_ELEMENTS, MOST_ELEMENTS**2)
            found[operation.number] = stairs[0].memory
            for columns in strip_widths(group)[-1:]:  # the narrowest strips have the smallest buffers
                kept = frozenset([operation.number] if operation.weights else [])
                shape = Shape("pixels", 1, 1, kept, columns)
                narrow = sum(buffer.size for buffer in step_buffers(group, shape, ()))
                found[operation.number] = min(narrow, found[operation.number])
            if operation.pixelwise and self.graph.readers[operation.number + 1]:
                found[operation.number] = min(streamed, found[operation.number])
        return found

    @cached_property
    def layer_by_layer(self) -> dict[int, int]:
        """For each operation, by number, the elements that it moves by itself, with all maps in DRAM."""
        return self.one_by_one(self.machine.capacity)

    def one_by_one(self, capacity: int) -> dict[int, int]:
        """Return for each operation what it moves by itself in a memory of some elements."""
        graph, found = self.graph, {}
        steps = Transitions(graph, capacity, groups=self.groups)
        for operation in graph.numbers(graph.all & ~graph.begin):
            group, number = self._alone(operation), operation.number
            stair = steps.best(group, 0, sum(1 << tensor for tensor in group.sources), capacity)
            again = 0 if stair is None else stair.again  # in the place of an operand nothing is read again
            read = sum(graph.tensors[tensor].size for tensor in (number + 1, *group.sources))
            found[number] = again + operation.weights + read
        return found

    def _fits_in_kernels(self, operation: Operation) -> bool:
        """Whether an operation runs with one kernel at a time: what it needs at least is not asked then."""
        buffers = buffer_sizes(self._alone(operation), Shape("kernels", 1, 1), frozenset())
        return sum(buffers.values()) <= self.machine.capacity

    def _alone(self, operation: Operation) -> Group:
        """Return an operation as a group."""
        return self.groups.setdefault(1 << operation.number, Group(self.graph, (operation,)))
