"""The residency problem: a network, one memory, an objective and limits."""

from __future__ import annotations

from functools import cached_property

from tilewright.residency.graph import Graph
from tilewright.residency.machine import OneMemory, ResidencyLimits, ResidencyObjective
from tilewright.residency.passes import Group
from tilewright.residency.staircase import Stair, staircase
from tilewright.residency.strips import widths
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network

MOST_ELEMENTS = 2**40
"""Most elements of all tensors and weights together."""


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
        if self.objective.most_traffic is not None and self.minimise != "memory":
            limit = 'is for minimise = "memory" only'
            raise InputError("objective.most_traffic", self.objective.most_traffic, limit)
        graph = self.graph
        if graph.compulsory + sum(tensor.size for tensor in graph.tensors) > MOST_ELEMENTS:
            raise InputError("network.layers", len(graph.operations), f"more than {MOST_ELEMENTS} elements")
        if graph.begin == graph.all:
            raise InputError("network.layers", len(graph.operations), "holds no operation")
        number = max(self.least, key=self.least.__getitem__)
        needed, width = self.least[number], self.machine.element_bytes
        if needed > self.machine.capacity:
            missing = needed * width - self.machine.memory_bytes
            limit = (
                f"operation {graph.operations[number].name} does not fit: {missing:,} bytes are missing; "
                f"{needed * width:,} are the least with which the network runs"
            )
            raise InputError("machine.memory_bytes", self.machine.memory_bytes, limit)

    @property
    def minimise(self) -> str:
        """What is minimised."""
        return self.objective.minimise

    @property
    def unit(self) -> str:
        """What the objective counts."""
        return "bytes"

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors."""
        return Graph(self.network)

    @cached_property
    def groups(self) -> dict[int, Group]:
        """Groups of operations that have been looked at, by bit mask: all searches share them."""
        return {}

    @cached_property
    def least(self) -> dict[int, int]:
        """For each operation, by number, the fewest elements of memory in which it runs.

        That is by itself, with all maps in DRAM: line buffers are smaller than what they are of, and an
        operation that is executed with others needs the same, for all of its channels.
        """
        return {number: stairs[0].memory for number, stairs in self._alone.items()}

    @cached_property
    def layer_by_layer(self) -> dict[int, int]:
        """For each operation, by number, the elements that it moves by itself, with all maps in DRAM."""
        return self.one_by_one(self.machine.capacity)

    def one_by_one(self, capacity: int) -> dict[int, int]:
        """Return for each operation what it moves by itself in a memory of some elements."""
        graph, found = self.graph, {}
        for number, stairs in self._alone.items():
            again = min(stair.again for stair in stairs if stair.memory <= capacity)
            operation = graph.operations[number]
            maps = [number + 1, *(reading.tensor for reading in operation.readings)]
            read = sum(graph.tensors[tensor].size for tensor in dict.fromkeys(maps))
            found[number] = again + operation.weights + read
        return found

    @cached_property
    def _alone(self) -> dict[int, list[Stair]]:
        """For each operation the ways to cut it up by itself, those of least memory first."""
        graph, found = self.graph, {}
        for operation in graph.numbers(graph.all & ~graph.begin):
            group = Group(graph, (operation,))
            streamed = sum(graph.tensors[tensor].size for tensor in group.sources)
            cuts = [None, *widths(group)]
            found[operation.number] = staircase(
                group, frozenset(), streamed, MOST_ELEMENTS, MOST_ELEMENTS**2, cuts
            )
        return found
