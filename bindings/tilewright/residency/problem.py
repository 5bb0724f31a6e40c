"""The residency problem: a network, one memory, an objective and limits."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Annotated, Any, ClassVar

from pydantic import Field

from tilewright.residency.attention import Attention
from tilewright.residency.attention_bounds import attention_excess
from tilewright.residency.bounds import Remaining
from tilewright.residency.cost import Prices, Spent
from tilewright.residency.graph import Graph, Operation
from tilewright.residency.machine import (
    OBJECTIVES,
    ONE,
    OneMemory,
    ResidencyLimits,
    ResidencyObjective,
    memory_in,
    traffic_of,
)
from tilewright.residency.memory_costs import MemoryCosts
from tilewright.residency.rows import executed_graph
from tilewright.residency.shapes.groups import Group, Groups
from tilewright.residency.shapes.in_blocks import in_blocks, may_have_blocks
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes
from tilewright.residency.shapes.shape import Shape, buffer_sizes, step_buffers
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.shapes.tiles import summed_channels
from tilewright.residency.transitions import State, Transitions
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.layer import MAX_SIZE
from tilewright.spec.network import Network
from tilewright.spec.objectives import Minimising, Objective, tolerated

MOST_ELEMENTS = 2**40
"""Most elements of all tensors and weights together."""


LIMITED = ("traffic", "cycles", "energy", "macs")
"""What the fields ``most_traffic`` and so on limit; memory is limited by the machine."""


def most_of(name: str) -> str:
    """Return the field that limits an objective."""
    memory = memory_in(name)
    return f"most_{name}" if memory is None else f"most_traffic_of.{memory}"


MOST_STAYING = 2**26
"""Most elements of weights, or of memory, where weights may stay: all their sums are told apart."""


class Problem(Minimising):
    """A network and the memory that it is to run in.

    Attributes
    ----------
    network
        That of one image: images of a batch are executed one after the other.
    batch
        How many these are, as the network's layers say; all costs are those of one.
    """

    can_minimise = OBJECTIVES
    later: ClassVar[tuple[str, ...]] = ("batch",)

    network: Network
    machine: OneMemory
    objective: ResidencyObjective = ResidencyObjective()
    limits: ResidencyLimits = ResidencyLimits()
    batch: Annotated[int, Field(ge=1, le=MAX_SIZE)] = 1

    def model_post_init(self, _context: object) -> None:
        """Refuse what cannot run, naming the operation and the least memory that would do."""
        self._take_one_image()
        self.network.check_shapes()
        for name, most in self.objective.limits.items():
            if name in self.objective.names:
                raise InputError(f"objective.{most_of(name)}", most, "limits what is minimised itself")
        if self.limits.frames != ONE and (self.objective.names != ("traffic",) or self.objective.limits):
            limit = "is for least traffic of a frame; the objective counts something else, too"
            raise InputError("limits.frames", self.limits.frames, limit)
        if self.limits.executions != 1:
            self._refuse_recompute()
        self._refuse_where_there_is_dram() if self.machine.dram else self._refuse_without_dram()
        graph = self.graph
        weights = sum(operation.weights for operation in graph.operations)
        if self.limits.frames != ONE and min(weights, self.machine.capacity) > MOST_STAYING:
            limit = f"is for no more than {MOST_STAYING:,} elements of weights, or of memory"
            raise InputError("limits.frames", self.limits.frames, limit)
        if graph.compulsory + sum(tensor.size for tensor in graph.tensors) > MOST_ELEMENTS:
            raise InputError("network.layers", len(graph.operations), f"more than {MOST_ELEMENTS} elements")
        if graph.begin == graph.all:
            raise InputError("network.layers", len(graph.operations), "holds no operation")
        if self.machine.in_flash:
            self._check_flash()
        if self.machine.largest is not None:
            self._check_largest(self.machine.largest)
        if not self.machine.dram or all(map(self._fits_in_kernels, graph.numbers(graph.all & ~graph.begin))):
            return  # without DRAM it is the search that finds the least memory
        least, width = self.least_by_operation, self.machine.element_bytes
        number = max(least, key=least.__getitem__)
        needed = least[number]
        if needed > self.machine.capacity:
            missing = needed * width - self.machine.memory_bytes
            least_bytes = f"{needed * width:,} are the least with which the network runs"
            if self.machine.largest is not None:
                least_bytes = f"{needed * width:,} are the least in all memories together"
            name = graph.operations[number].name
            limit = f"operation {name} does not fit: {missing:,} bytes are missing; {least_bytes}"
            raise InputError("machine.memory_bytes", self.machine.memory_bytes, limit)

    def _check_largest(self, largest: int) -> None:
        """Refuse operations that place something which none of several memories holds."""
        width, graph = self.machine.element_bytes, self.graph
        for operation in graph.numbers(graph.all & ~graph.begin):
            if (needed := self._least_thing(operation)) > largest:
                limit = (
                    f"operation {operation.name} does not fit: something of {needed * width:,} bytes or more "
                    f"must lie in one memory, and the largest has {largest * width:,}"
                )
                raise InputError("machine.memory", [each.name for each in self.machine.regions], limit)

    def _least_thing(self, operation: Operation) -> int:
        """Return what the largest thing that an operation places has at least; 0 where that is not known.

        All buffers are least with a pixel, a column, an output and an input channel at a time, and line
        buffers of what other operations of the step compute are no smaller than those of what is read.
        """
        group = self.groups[1 << operation.number]
        if (
            operation.state
            or may_have_blocks(group)
            or any(operation.number in each.operations for each in self.graph.attentions)
        ):
            return 0
        shapes = [Shape("pixels", 1, 1), Shape("kernels", 1, 1)]
        shapes += [Shape("pixels", 1, 1, columns=columns) for columns in strip_widths(group)[-1:]]
        if group.running is not None:
            shapes += [Shape(order, 1, 1, running=True) for order in ("pixels", "kernels")]
            narrowest = strip_widths(group)[-1:]
            shapes += [Shape("pixels", 1, 1, columns=columns, running=True) for columns in narrowest]
        if summed_channels(self.graph, operation) > 0:
            shapes += [Shape("tiles", 1, 1, columns=1, channels=1), Shape("channels", 1, 1, channels=1)]
        return min(
            max((buffer.size for buffer in step_buffers(group, shape, ())), default=0) for shape in shapes
        )

    def _take_one_image(self) -> None:
        """Keep the network of one image, and how many there are."""
        many = self.network.images
        if many == 1:
            return
        if self.batch not in (1, many):
            raise InputError("batch", self.batch, f"the network has a batch of {many}")
        object.__setattr__(self, "network", self.network.of_one_image())
        object.__setattr__(self, "batch", many)
        self.__pydantic_fields_set__.add("batch")

    def _refuse_recompute(self) -> None:
        """Refuse to execute operations twice where that is not searched for."""
        limit = ""
        if self.objective.names != ("traffic",) or self.objective.limits:
            limit = "is for least traffic; the objective counts something else, too"
        elif self.limits.frames != ONE:
            limit = "is for a single frame; limits.frames has many"
        if limit:
            raise InputError("limits.executions", self.limits.executions, limit)

    def _refuse_where_there_is_dram(self) -> None:
        """Refuse what is for machines without DRAM."""
        if "macs" in (*self.objective.names, *self.objective.limits):
            raise InputError("objective.minimise", self.objective.minimise, "counts macs without DRAM alone")
        for name in (*self.objective.names, *self.objective.limits):
            if memory_in(name) is not None:
                raise InputError(self._field_of(name), name, "counts traffic of memories without DRAM alone")
        if self.limits.inputs != "outside":
            raise InputError("limits.inputs", self.limits.inputs, "is for machines without DRAM")
        if self.constraints and self.limits.frames != ONE and len(self.machine.regions) > 1:
            limit = "is not searched for where weights stay for all frames in several memories"
            raise self.refusal_of((), limit)
        if self.machine.in_flash:
            raise InputError("machine.dram", True, "must be false where weights are in flash")

    def _refuse_without_dram(self) -> None:
        """Refuse what is not searched for without DRAM."""
        if self.limits.frames != ONE:
            raise InputError("limits.frames", self.limits.frames, "is for machines with DRAM")
        if self.limits.executions != 1:
            raise InputError("limits.executions", self.limits.executions, "is for machines with DRAM")
        if self.machine.double_buffering:
            raise InputError("machine.double_buffering", True, "is for machines with DRAM")
        counted = {*self.objective.names, *self.objective.limits}
        for name in counted:
            memory = memory_in(name)
            if memory is not None and memory not in self.machine.names_of_memories:
                there = ", ".join(self.machine.names_of_memories)
                limit = f"{memory} is no memory that is used; there are {there}"
                raise InputError(self._field_of(name), name, limit)
        # Rates and prices that are not told are those of a DSP, which say nothing of a micro-controller.
        counted &= {"cycles", "energy"}
        if self.machine.cycles_of is not None:
            if "energy" in counted and not self.machine.has_energy:
                limit = "of a memory must be told where energy is counted and cycles_of is"
                raise InputError("machine.memories.read_fj", None, limit)
            if recurrent := [op.name for op in self.graph.operations if op.state]:
                raise InputError(
                    "machine.cycles_of", "told", f"has no price of a recurrent layer: {recurrent[0]}"
                )
            return
        needed = ["macs_per_cycle", "bus_elements_per_cycle", "dma_setup_cycles"] if counted else []
        for field in [*needed, *(["energy"] if "energy" in counted else [])]:
            if getattr(self.machine, field) is None:
                verb = "are" if len(counted) > 1 or "cycles" in counted else "is"
                limit = f"must be told where {' and '.join(sorted(counted))} {verb} counted without DRAM"
                raise InputError(f"machine.{field}", None, limit)

    def _field_of(self, name: str) -> str:
        """Return the field that has an objective: which is minimised, or limited."""
        field = "minimise" if name in self.objective.names else most_of(name)
        return f"objective.{field}"

    def _check_flash(self) -> None:
        """Refuse weights that flash does not hold."""
        width, flash = self.machine.element_bytes, self.machine.flash_bytes
        needed = width * sum(operation.parameters for operation in self.graph.operations)
        if needed > flash:
            largest = max(self.graph.operations, key=lambda operation: operation.parameters)
            limit = (
                f"holds no weights of {needed:,} bytes, {needed - flash:,} are missing; "
                f"those of {largest.name} alone have {largest.parameters * width:,}"
            )
            raise InputError("machine.memories", flash, limit)

    @property
    def timed(self) -> bool:
        """Whether time and energy are told of plans."""
        counted = {*self.objective.names, *self.objective.limits}
        return self.machine.timed or bool(counted & {"cycles", "energy"})

    @cached_property
    def prices(self) -> Prices:
        """Rates and prices of the machine."""
        return Prices(self.machine)

    @cached_property
    def memory_costs(self) -> MemoryCosts:
        """What accesses to memories cost."""
        return MemoryCosts(self.machine, self.prices)

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """What plans of this problem can be compared by, the default first."""
        if self.machine.dram:
            return OBJECTIVES
        named = map(traffic_of, self.machine.names_of_memories)
        return {**OBJECTIVES, **{name: Objective(name, "bytes", "memories") for name in named}}

    def measured(self, measures: Any) -> int:
        """Return the cost of an executed plan, from its measures."""
        memory = memory_in(self.minimise)
        if memory is None:
            return super().measured(measures)
        there = measures.memories[memory]
        return int(there.read_bytes + there.written_bytes)

    def least_traffic(self, memory: str) -> int:
        """Return the bytes that every plan reads or writes in a memory: all weights are read in flash."""
        if memory != self.machine.names_of_memories[-1]:
            return 0
        return sum(operation.copyable for operation in self.graph.operations) * self.machine.element_bytes

    def spent(self, spent: Spent) -> dict[str, int]:
        """Return what is spent in the units of objectives: bytes, cycles, femtojoules.

        Where the machine tells what emitted C takes, and not what accesses take, there is no energy.
        """
        found = {
            "traffic": spent.moved * self.machine.element_bytes,
            "cycles": self.prices.cycles(spent.time),
            "macs": spent.macs,
        }
        if self.prices.has_energy:
            found["energy"] = self.prices.femtojoules(spent.energy)
        return found

    @property
    def grounds(self) -> str | None:
        """Among which plans a search proves a bound, where others might cost less."""
        found = []
        if planes := self.graph.reductions:
            verb = "have" if len(planes) > 1 else "has"
            found.append(f"{_several(planes)} {verb} a whole plane on chip at a time, without running values")
        if products := self.graph.products:
            verb = "have" if len(products) > 1 else "has"
            found.append(f"{_several(products)} {verb} the second operand on chip, and not in blocks")
        if layers := self.graph.recurrences:
            verb = "have" if len(layers) > 1 else "has"
            found.append(f"{_several(layers)} {verb} all inputs and outputs on chip at a time")
        return f"plans in which {', and '.join(found)}" if found else None

    @cached_property
    def least_spent(self) -> Spent:
        """What every plan spends."""
        return self.remaining.least(self.graph.begin, self.graph.given)

    @cached_property
    def least_of_any_schedule(self) -> Spent:
        """What every plan spends, with what attention moves beyond the compulsory traffic."""
        return self.remaining.least(self.graph.begin, self.graph.given, self.attention_excess)

    @cached_property
    def attention_excess(self) -> int:
        """Elements that every schedule moves for attention beyond the compulsory ones."""
        return attention_excess(self.graph, self.machine.capacity)

    @cached_property
    def remaining(self) -> Remaining:
        """What is still to be spent in any case."""
        return Remaining(self.graph, self.prices, self.machine.double_buffering)

    @cached_property
    def network_graph(self) -> NetworkGraph:
        """The network, coarse as it is executed.

        Stored numbers of places are weights where weights may stay for all frames.
        """
        numbers = self.limits.frames == ONE
        return executed_graph(coarse_graph(self.network, numbers=numbers), numbers=numbers)

    @cached_property
    def graph(self) -> Graph:
        """The operations and tensors."""
        every = range(len(self.network_graph.ops)) if self.machine.in_flash else ()
        machine = self.machine
        return Graph(
            self.network_graph,
            machine.sum_elements,
            tiles=self.limits.tiles,
            staying=every,
            largest=machine.largest,
        )

    @cached_property
    def groups(self) -> Groups:
        """Groups of operations that have been looked at: all searches share them."""
        return Groups(self.graph)

    def stage(self, least: Mapping[str, int]) -> Problem:
        """Return the problem of the first objective of a list whose least cost is not known, or of the last.

        Parameters
        ----------
        least
            What objectives before it cost at least: they may cost that, and their tolerance.
        """
        limits, memory = self.objective.limits, self.machine.memory_bytes
        for name, tolerance in self.before:
            if name not in least:
                return self.alone(name, limits, memory)
            most = tolerated(least[name], tolerance)
            if name == "memory":
                memory = min(memory, most)
            else:
                limits[name] = min(most, limits.get(name, most))
        return self.alone(self.minimise, limits, memory)

    def alone(self, name: str, limits: Mapping[str, int], memory: int) -> Problem:
        """Return the problem with one objective, and limits on others."""
        most: dict[str, Any] = {
            f"most_{each}": None if each == name else limits.get(each) for each in LIMITED
        }
        named = {memory_in(each): limit for each, limit in limits.items() if each != name}
        named.pop(None, None)
        most["most_traffic_of"] = named or None
        found = self.with_(
            objective={"minimise": name, "tolerance": 0.0, **most}, machine={"memory_bytes": memory}
        )
        # What is known of groups does not depend on the objective, nor on the size of the memory.
        vars(found).update({each: getattr(self, each) for each in ("network_graph", "graph", "groups")})
        return found

    @property
    def least_memory(self) -> int:
        """The fewest elements of memory in which every operation runs."""
        return max(self.least_by_operation.values())

    @cached_property
    def least_by_operation(self) -> dict[int, int]:
        """For each operation, by number, the fewest elements of memory in which it runs.

        That is by itself, or of attention with its other operations, as keys pass by.
        """
        found = dict(self._least_alone)
        for attention in self.graph.attentions:
            for part in self._parts_of(attention):
                together = self._least_together(part)
                for number in part.operations:
                    found[number] = min(found[number], together)
        return found

    def _parts_of(self, attention: Attention) -> Iterator[Attention]:
        """Return attention, and the ends of it that a step can have."""
        yield attention
        numbers = attention.operations
        for begin in range(1, len(numbers) - 1) if self.graph.tiles else ():
            mask = sum(1 << number for number in numbers[begin:])
            end = in_blocks(self.groups[mask]).end_of_attention
            if end is not None:
                yield end

    @cached_property
    def _least_alone(self) -> dict[int, int]:
        """For each operation, by number, the fewest elements of memory in which it runs by itself.

        That is with all maps in DRAM: line buffers are smaller than what they are of, and an operation that
        is executed with others needs the same, for all of its channels. Tensors of a single element take less
        where the result takes the place of an operand, and stays.
        """
        found, anything = {}, Limits(MOST_ELEMENTS, MOST_ELEMENTS**2)
        for operation in self.graph.numbers(self.graph.all & ~self.graph.begin):
            group = self.groups[1 << operation.number]
            least = pareto_shapes(group, frozenset(), group.elements_read(group.read), anything)[0].memory
            area, turns = group.running or group, not self.machine.dram
            # The narrowest strips have the smallest buffers.
            narrowest = () if operation.state else strip_widths(group)[-1:]
            # Among others an operation may take turns, and then asks for what it reads pixel by pixel.
            for columns in [*narrowest, None] if turns and not operation.state else narrowest:
                shape = Shape("pixels", 1, 1, area.keepable, columns, running=area.is_running)
                buffers = step_buffers(group, replace(shape, interleaved=turns), ())
                least = min(least, sum(buffer.size for buffer in buffers))
            if may_have_blocks(group):
                least = min(least, self._least_in_blocks(group, None))
            if group.replaceable_operands(self.graph.all) and self.graph.readers[operation.number + 1]:
                least = min(sum(self.graph.tensors[tensor].size for tensor in group.sources), least)
            found[operation.number] = least
        return found

    def _least_together(self, attention: Attention) -> int:
        """Return the fewest elements of memory in which the operations of attention run together."""
        most, mask = self.limits.most_operations, sum(1 << number for number in attention.operations)
        if most is not None and len(attention.operations) > most:
            return MOST_ELEMENTS**2
        group = self.groups[mask]
        passing = [1] if in_blocks(group).attentions else []
        return min(self._least_in_blocks(group, keys) for keys in (None, *passing))

    def _least_in_blocks(self, group: Group, keys: int | None) -> int:
        """Return the fewest elements of a step that loads second operands in blocks, a pixel a pass.

        A small source takes less as a whole than in a line buffer and blocks.
        """
        shape = Shape("pixels", 1, 1, blocks=True, keys=keys)
        found = every = sum(buffer.size for buffer in step_buffers(group, shape, ()))
        for tensor in group.sources:
            own = every - sum(buffer.size for buffer in step_buffers(group, shape, (tensor,)))
            found -= max(0, own - self.graph.tensors[tensor].size)
        return found

    @cached_property
    def layer_by_layer(self) -> dict[int, int]:
        """For each operation, by number, the elements that it moves by itself: see `one_by_one`."""
        return self.one_by_one(self.machine.capacity)

    def one_by_one(self, capacity: int) -> dict[int, int]:
        """Return for each operation the fewest elements that it moves by itself in a memory of some elements.

        Nothing is on chip before it, and nothing stays: but it may fetch maps whole, to read them again.
        """
        from tilewright.residency.exact.traffic_steps import TrafficSteps  # start-up time

        graph, found, done = self.graph, dict[int, int](), self.graph.begin
        steps = Transitions(self.groups, capacity)
        options = TrafficSteps(steps)
        together = self._executed_together(capacity)
        for operation in graph.numbers(graph.all & ~graph.begin):
            number = operation.number
            mask = together.get(number, 1 << number)
            if mask.bit_length() - 1 > number:  # it is executed with the last one of them
                found[number] = 0
                continue
            group = self.groups[mask]
            shape = steps.best_shape(group, 0, group.read, capacity)
            moved = 0 if shape is None else shape.again  # in the place of an operand nothing is read again
            streams = options.spilled(group.mask, done) if moved else None
            if streams is not None:
                before = State(done, 0, group.read)
                ways, _ = options.ranked(group.mask, before, streams.excess, capacity, empty=True)
                moved -= streams.excess - min(way.excess for way in ways)
            output = graph.tensors[number + 1]
            written = output.size if output.readers or output.leaves else 0
            found[number] = moved + group.weights + written + group.elements_read(group.read)
            done |= group.mask
        return found

    def _executed_together(self, capacity: int) -> dict[int, int]:
        """Return the operations, as bit masks, with which those of attention run that do not fit alone."""
        alone, found = self._least_alone, dict[int, int]()
        for attention in self.graph.attentions:
            for part in self._parts_of(attention):
                fits = self._least_together(part) <= capacity
                if fits and any(alone[number] > capacity for number in attention.operations):
                    mask = sum(1 << number for number in part.operations)
                    found |= dict.fromkeys(part.operations, mask)
                    break
        return found

    def derived(self, key: Hashable, make: Callable[[], Problem]) -> Problem:
        """Return a problem that is made of this one; the one that was asked for last is kept, by its key."""
        if key not in self._derived:
            found = make()
            self._derived.clear()
            self._derived[key] = found
        return self._derived[key]

    @cached_property
    def _derived(self) -> dict[Hashable, Problem]:
        return {}

    def _fits_in_kernels(self, operation: Operation) -> bool:
        """Whether an operation runs with one kernel at a time: what it needs at least is not asked then."""
        if operation.state:  # has one way to run
            return False
        sizes = buffer_sizes(self.groups[1 << operation.number], Shape("kernels", 1, 1), frozenset())
        return sum(sizes.values()) <= self.machine.capacity


def _several(names: Sequence[str]) -> str:
    """Return some names, and no more than three of them."""
    *others, last = names
    return f"{', '.join(others[:2])}{', ...' if len(others) > 2 else ''} and {last}" if others else last
