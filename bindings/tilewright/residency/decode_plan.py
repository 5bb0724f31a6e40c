"""A plan in numbers, checked: every step can be executed after those before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from tilewright.residency.core_accesses import MemoryTraffic
from tilewright.residency.cost import Spent, cost_of_step
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.graph import InvalidPlanError, members
from tilewright.residency.machine import OneMemory, region_of, tops_of
from tilewright.residency.memory_costs import Touched
from tilewright.residency.placement import Item, placed_items
from tilewright.residency.plan import FLAGS, Plan, Step, key_of
from tilewright.residency.problem import Problem
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group, group_mask
from tilewright.residency.shapes.in_blocks import may_have_blocks, most_keys, pixels_in_blocks
from tilewright.residency.shapes.product_tiles import product_tiles
from tilewright.residency.shapes.shape import (
    Shape,
    elements_moved,
    most_kernels,
    replaces,
    step_buffers,
    streams,
    tiles_of_product,
    why_not_double_buffered,
    why_not_interleaved,
    why_not_streamed,
)
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import State, StepChoice


class DecodedStep(NamedTuple):
    """A step of a plan.

    Attributes
    ----------
    before
        What there is before it.
    on_chip
        Tensors that are on chip as a whole during the step, its outputs among them.
    moved, memory
        Elements moved from and to DRAM, and the sum of all that is on chip.
    spent
        Traffic, time and energy.
    touched
        What the core reads and writes in each memory, and in flash, the last one; without DRAM.
    """

    choice: StepChoice
    group: Group
    before: State
    on_chip: int
    moved: int
    memory: int
    spent: Spent
    touched: tuple[Touched, ...] = ()


def decode_plan(problem: Problem, plan: Plan) -> list[DecodedStep]:
    """Return the steps of a plan; of addresses it is looked at what memories they are in, and no more.

    Raises
    ------
    InvalidPlanError
        If a step cannot be executed.
    """
    problem = problem_of_plan(problem, plan)
    graph, decoder = problem.graph, StepDecoder(problem)
    state = State(graph.begin, 0, graph.given & graph.still_read(graph.begin))
    found, traffic = [], MemoryTraffic(problem)
    for place, step in enumerate(plan.steps, 1):
        shown = f"{', '.join(step.operations[:4])}{', ...' if len(step.operations) > 4 else ''}"
        try:
            decoded = decoder.decode(step, state)
        except InvalidPlanError as error:
            rule, _, details = str(error).partition(": ")
            raise InvalidPlanError(f"{rule}: step {place} ({shown}) {details}") from None
        if not problem.machine.dram:
            touched = traffic.of_step(
                decoded.group, decoded.choice, state.done, decoded.on_chip, step.addresses
            )
            spent = decoded.spent.plus(problem.memory_costs.spent_in_all(touched))
            decoded = decoded._replace(spent=spent, touched=touched)
        found.append(decoded)
        state = state.after(graph, decoded.choice)
    if state.done != graph.all:
        missing = [operation.name for operation in graph.numbers(graph.all & ~state.done)]
        raise InvalidPlanError(f"operations: no step has {', '.join(missing[:4])}")
    return found


class StepDecoder:
    """Steps of plans for a problem, read one by one."""

    def __init__(self, problem: Problem) -> None:
        self.problem, self.graph = problem, problem.graph
        self.numbers = {operation.name: operation.number for operation in self.graph.operations}
        self.tensors = {tensor.name: number for number, tensor in enumerate(self.graph.tensors)}

    def decode(self, step: Step, before: State) -> DecodedStep:
        """Return a step in numbers, given what there is before it.

        Raises
        ------
        InvalidPlanError
            If it cannot be executed: the rule, a colon, and details.
        """
        problem, graph = self.problem, self.graph
        group = self._group(step, before)
        dropped, fetched, resident, written = self._tensors(step, group, before)
        on_chip = before.on_chip & ~dropped | fetched | resident
        shape = _shape(problem, step, group, self.numbers)
        if not problem.machine.dram and shape.order == "kernels" and (outside := group.read & ~on_chip):
            names = self._names(outside)
            raise InvalidPlanError(f"order: reads {names} outside for each block, which is for DRAM")
        in_place = self._in_place(step, group, shape, before, on_chip)
        if in_place >= 0 and not resident >> group.output & 1:
            raise InvalidPlanError("in place: its output does not stay on chip")
        whole = frozenset(members(on_chip))
        memory = sum(graph.tensors[number].size for number in whole)
        memory += sum(buffer.size for buffer in step_buffers(group, shape, whole))
        memory -= graph.tensors[in_place].size if in_place >= 0 else 0
        if memory > problem.machine.capacity:
            needed, there = memory * problem.machine.element_bytes, problem.machine.memory_bytes
            raise InvalidPlanError(f"memory: needs {needed:,} bytes, the memory has {there:,}")
        streamed, saved = members(group.read & ~on_chip), members(written)
        loaded = [graph.still_needed(tensor, before.done) for tensor in members(fetched)]
        moved = elements_moved(group, shape, streamed, saved) + sum(loaded)
        choice = StepChoice(group.mask, dropped, fetched, resident, written, in_place, shape)
        spent = cost_of_step(problem.prices, group, shape, streamed, loaded, saved, moved, whole)
        return DecodedStep(choice, group, before, on_chip, moved, memory, spent)

    def _group(self, step: Step, before: State) -> Group:
        """Return the operations of a step, which must be all that its last one needs."""
        graph, found = self.graph, 0
        for name in step.operations:
            if name not in self.numbers or graph.begin >> self.numbers[name] & 1:
                raise InvalidPlanError(f"operations: has the unknown operation {name}")
            bit = 1 << self.numbers[name]
            if (before.done | found) & bit:
                raise InvalidPlanError(f"operations: has {name}, which has been executed")
            if found > bit:
                raise InvalidPlanError(f"operations: has {name} behind a later one of the network")
            found |= bit
        if not found:
            raise InvalidPlanError("operations: has none")
        needed = group_mask(graph, before.done, found.bit_length() - 1)
        if missing := needed & ~found:
            names = ", ".join(operation.name for operation in graph.numbers(missing)[:4])
            raise InvalidPlanError(f"order: needs {names}, which no earlier step has executed")
        if strangers := found & ~needed:
            names = ", ".join(operation.name for operation in graph.numbers(strangers)[:4])
            raise InvalidPlanError(f"operations: has {names}, which do not lead to the last one")
        if found & graph.alone and found & (found - 1):
            names = ", ".join(operation.name for operation in graph.numbers(found & graph.alone)[:4])
            raise InvalidPlanError(f"operations: has {names} beside others, which is executed by itself")
        limits, count = self.problem.limits, found.bit_count()
        if limits.most_operations is not None and count > limits.most_operations:
            raise InvalidPlanError(f"limits: has {count} operations, at most {limits.most_operations}")
        if limits.order == "given" and found != ((1 << found.bit_length()) - 1) & ~before.done:
            raise InvalidPlanError("limits: leaves out an operation that the network's order has before")
        return self.problem.groups[found]

    def _tensors(self, step: Step, group: Group, before: State) -> tuple[int, int, int, int]:
        """Return what a step drops, fetches, keeps and writes, as bit masks."""
        graph = self.graph
        dropped = self._mask(
            step.dropped, before.on_chip & before.in_dram, "drops what is not on chip and in DRAM"
        )
        there = before.on_chip & ~dropped
        fetched = self._mask(
            step.fetched,
            group.read & before.in_dram & ~there,
            "fetches what is on chip, not in DRAM, or not read",
        )
        if lost := group.read & ~(there | before.in_dram):
            raise InvalidPlanError(
                f"residency: reads what is neither on chip nor in DRAM: {self._names(lost)}"
            )
        outputs = sum(1 << number for number in group.outputs)
        read_later = sum(1 << number for number in group.outputs if graph.readers[number])
        resident = self._mask(
            step.resident, outputs & read_later, "keeps what nobody reads later, or is no output of it"
        )
        written = self._mask(step.written, outputs, "writes what nobody reads later, or is no output of it")
        # What only slices of other channels read is computed for nobody: it need not be anywhere.
        if lost := outputs & (read_later | graph.leaving) & ~(resident | written):
            raise InvalidPlanError(f"residency: neither keeps nor writes {self._names(lost)}")
        if kept_back := outputs & graph.leaving & ~written:
            names = self._names(kept_back)
            raise InvalidPlanError(f"residency: does not write {names}, an output of the network")
        if not self.problem.machine.dram:
            self._without_dram(group, there, dropped, fetched, resident, written)
        return dropped, fetched, resident, written

    def _without_dram(
        self, group: Group, there: int, dropped: int, fetched: int, resident: int, written: int
    ) -> None:
        """Check that maps stay on chip until they are read last, and inputs are where the limits say."""
        graph = self.graph
        read_later = sum(1 << number for number in group.outputs if graph.readers[number] & ~group.mask)
        if lost := read_later & ~resident:
            raise InvalidPlanError(f"dram: does not keep {self._names(lost)}, and there is no DRAM")
        if astray := written & ~graph.leaving:
            names = self._names(astray)
            raise InvalidPlanError(f"dram: writes {names}, no output of the network, and there is no DRAM")
        if dropped:
            raise InvalidPlanError(f"dram: drops {self._names(dropped)}, which is read later")
        inside = group.read & graph.given & ~there if self.problem.limits.inputs == "memory" else 0
        if outside := inside & ~fetched:
            names = self._names(outside)
            raise InvalidPlanError(f"limits: does not fetch {names}, but inputs are in memory")
        if into := fetched & ~inside:
            raise InvalidPlanError(f"limits: fetches {self._names(into)}, but inputs are read outside")

    def _mask(self, names: Sequence[str], allowed: int, wrong: str) -> int:
        """Return tensors as a bit mask; each must be one of those that are allowed, and be named once."""
        found = 0
        for name in names:
            number = self.tensors.get(name, -1)
            if number < 0 or not allowed >> number & 1 or found >> number & 1:
                raise InvalidPlanError(f"residency: {wrong}: {name}")
            found |= 1 << number
        return found

    def _names(self, mask: int) -> str:
        return ", ".join(self.graph.tensors[number].name for number in members(mask)[:4])

    def _in_place(self, step: Step, group: Group, shape: Shape, before: State, on_chip: int) -> int:
        """Return the tensor whose place the output takes, or -1."""
        if step.in_place is None:
            return -1
        number = self.tensors.get(step.in_place, -1)
        if (
            number not in group.replaceable_operands(before.done)
            or not replaces(group, shape, number)
            or not on_chip >> number & 1
        ):
            raise InvalidPlanError(f"in place: its output cannot take the place of {step.in_place}")
        return number


def _shape(problem: Problem, step: Step, group: Group, numbers: dict[str, int]) -> Shape:
    """Return how a step is cut up."""
    if not problem.machine.dram and (step.order in tiles.SUMMED or step.blocks):
        how = "second operands in blocks" if step.blocks else f"the order {step.order}"
        raise InvalidPlanError(f"order: has {how}, which is for machines with DRAM")
    area = _area(step, group)
    kept = frozenset(numbers.get(name, -1) for name in step.kept)
    if not kept <= group.weighted or len(kept) < len(step.kept):
        raise InvalidPlanError("weights: keeps those of an operation that it does not have, or that has none")
    if not kept <= area.keepable:
        name = group.last.name
        raise InvalidPlanError(f"weights: keeps those of {name}, which are read pixel by pixel")
    if step.pixels > area.pixels:
        raise InvalidPlanError(f"pixels: computes {step.pixels} at a time, there are {area.pixels}")
    most = most_kernels(group)
    if step.kernels > most:
        raise InvalidPlanError(f"kernels: has blocks of {step.kernels} output channels, there are {most}")
    if group.mask & group.graph.alone:
        return _shape_at_once(step, group, kept)
    if step.order in tiles.SUMMED:
        shape = _summed_shape(step, group)
    elif step.blocks:
        shape = _shape_in_blocks(step, group, kept)
    else:
        if step.channels is not None:
            orders = " and ".join(tiles.SUMMED)
            raise InvalidPlanError(f"channels: has blocks, which only the orders {orders} have")
        if step.columns is not None:
            _check_strips(step, area, kept)
        if step.order == "kernels" and (len(group.operations) > 1 or kept):
            raise InvalidPlanError(
                "order: only one operation, whose weights are not kept, has the order kernels"
            )
        if step.order == "pixels" and kept != area.keepable and step.pixels % area.row:
            raise InvalidPlanError("pixels: loads weights for each pass, which then must be of whole rows")
        shape = Shape(step.order, step.pixels, step.kernels, kept, step.columns, running=step.running)
    if step.keys is not None and not shape.blocks:
        raise InvalidPlanError("keys: pass by only where second operands are loaded in blocks")
    if step.interleaved:
        if why := why_not_interleaved(group, shape):
            raise InvalidPlanError(f"interleaved: {why}")
        shape = replace(shape, interleaved=True)
    if not problem.machine.dram:
        _check_without_dram(shape, group)
    if step.copied and problem.machine.dram:
        raise InvalidPlanError("copied: has weights in flash, which are of machines without DRAM")
    if step.copied:
        shape = replace(shape, copied=_copied(step, group))
        if streams(group, shape) and (why := why_not_streamed(group, shape)):
            raise InvalidPlanError(f"copied: {why}")
    if not step.double_buffering:
        return shape
    if step.interleaved:
        raise InvalidPlanError("double buffering: operations take turns, so there are no passes to load for")
    if not problem.machine.double_buffering:
        raise InvalidPlanError("double buffering: has second buffers, which the machine is not told to have")
    if why := why_not_double_buffered(group, shape):
        raise InvalidPlanError(f"double buffering: {why}")
    return replace(shape, doubled=True)


def _copied(step: Step, group: Group) -> frozenset[int]:
    """Return the operations whose weights are copied from flash."""
    names = {each.name: each.number for each in group.operations if each.copyable}
    if not set(step.copied) <= names.keys() or len(set(step.copied)) < len(step.copied):
        raise InvalidPlanError(
            "copied: has weights of an operation that it does not have, or that has none in flash"
        )
    return frozenset(names[name] for name in step.copied)


def _check_without_dram(shape: Shape, group: Group) -> None:
    """Refuse what is for weights that are loaded, and takes more memory where these are in flash."""
    if shape.pixels > 1 and (shape.order == "kernels" or shape.columns is not None or shape.running):
        how = "running values" if shape.running else "strips" if shape.columns else "the order kernels"
        raise InvalidPlanError(f"pixels: with {how}, {shape.pixels} at a time are for machines with DRAM")
    if len(group.operations) > 1 and not shape.interleaved and (shape.columns is not None or shape.running):
        how = "running values" if shape.running else "strips"
        raise InvalidPlanError(f"interleaved: with {how}, operations take turns without DRAM")


def _area(step: Step, group: Group) -> Group:
    """Return the group in the passes that a step says."""
    if not step.running:
        return group
    if group.running is None:
        raise InvalidPlanError(
            f"running: {group.last.name} is not one pixel that a whole plane is added up to"
        )
    if step.order in tiles.SUMMED:
        raise InvalidPlanError(f"running: has running values, which the order {step.order} has not")
    return group.running


def _shape_at_once(step: Step, group: Group, kept: frozenset[int]) -> Shape:
    """Return the shape of a recurrent layer's step: one pass, with all weights or blocks of them."""
    if step.order != "pixels" or step.pixels != group.pixels:
        raise InvalidPlanError(
            f"pixels: {group.last.name} is recurrent, and has one pass of {group.pixels} in order pixels"
        )
    for name, value in (("columns", step.columns), ("channels", step.channels), ("keys", step.keys)):
        if value is not None:
            raise InvalidPlanError(f"{name}: has {value}, which a recurrent layer has not")
    for name in FLAGS:
        if getattr(step, name):
            raise InvalidPlanError(f"{name.replace('_', ' ')}: a recurrent layer has one pass")
    return Shape("pixels", step.pixels, step.kernels, kept)


def _shape_in_blocks(step: Step, group: Group, kept: frozenset[int]) -> Shape:
    """Return the shape of a step that loads second operands in blocks."""
    if not may_have_blocks(group):
        raise InvalidPlanError("blocks: has no product whose second operand may be loaded in blocks")
    in_tiles = product_tiles(group)
    if step.order != "pixels" or step.columns is not None or step.running:
        raise InvalidPlanError(
            "blocks: only passes over pixels load second operands in blocks, without strips or running values"
        )
    if step.pixels not in pixels_in_blocks(group):
        raise InvalidPlanError(f"pixels: {step.pixels} are not the fewest for their number of passes")
    most = most_keys(group)
    if step.keys is not None and not 1 <= step.keys <= most:
        raise InvalidPlanError(f"keys: {step.keys} pass by at a time, there are {most}")
    if step.channels is not None:
        if in_tiles is None or in_tiles.attention is not None:
            raise InvalidPlanError(
                "channels: only a product by itself adds up blocks of terms, "
                "whose first operand is one tensor or some of its channels"
            )
        if not 1 <= step.channels <= in_tiles.depth:
            wrong = f"adds up blocks of {step.channels} terms, there are {in_tiles.depth}"
            raise InvalidPlanError(f"channels: {wrong}")
    shape = Shape("pixels", step.pixels, step.kernels, kept, None, step.channels, blocks=True, keys=step.keys)
    if in_tiles is not None and tiles_of_product(group, shape) and step.kernels > in_tiles.columns:
        wrong = f"has blocks of {step.kernels} columns, a matrix has {in_tiles.columns}"
        raise InvalidPlanError(f"kernels: {wrong}")
    return shape


def _check_strips(step: Step, group: Group, kept: frozenset[int]) -> None:
    """Refuse strips that a step cannot have, of the plane that its passes go over."""
    if group.running is not None:
        raise InvalidPlanError("columns: the output is one pixel; strips are of what is added up to it")
    assert step.columns is not None
    if step.order == "kernels":
        raise InvalidPlanError("columns: has strips, which the order kernels has not")
    if step.columns not in strip_widths(group):
        raise InvalidPlanError(f"columns: strips of {step.columns} are not the narrowest of their number")
    if kept != group.keepable:
        raise InvalidPlanError("weights: strips keep those of all operations")
    strip = step.columns * group.plane[0]
    if step.pixels > strip:
        raise InvalidPlanError(f"pixels: computes {step.pixels} at a time, a strip has {strip}")
    if step.pixels > step.columns and step.pixels % step.columns:
        raise InvalidPlanError(f"pixels: {step.pixels} are no whole rows of {step.columns} columns")


def _summed_shape(step: Step, group: Group) -> Shape:
    """Return the shape of a step that adds up blocks of input channels."""
    operation = group.last
    depth = tiles.summed_channels(group.graph, operation)
    if len(group.operations) > 1 or step.kept or not operation.parameters:
        raise InvalidPlanError(
            f"order: only one operation with weights that are not kept has the order {step.order}"
        )
    if step.channels is None or not 1 <= step.channels <= depth:
        wrong = f"adds up blocks of {step.channels} input channels, there are {depth}"
        raise InvalidPlanError(f"channels: {wrong}")
    if (step.order == "tiles") != (step.columns is not None):
        raise InvalidPlanError("columns: tiles have them, and nothing else")
    if step.columns is not None:
        height, width = group.graph.tensors[group.output].shape[1:]
        rows, rest = divmod(step.pixels, step.columns)
        if rest or step.columns > width or rows > height:
            raise InvalidPlanError(f"columns: {step.pixels} pixels are no tile of {step.columns} columns")
    return Shape(step.order, step.pixels, step.kernels, frozenset(), step.columns, step.channels)


# Addresses ----------------------------------------------------------------------------------------------


def find_overlap(problem: Problem, plan: Plan, steps: Sequence[DecodedStep]) -> str | None:
    """Say what is wrong with the addresses of a plan, or None."""
    items = placed_items(problem_of_plan(problem, plan).groups, [step.choice for step in steps])
    wanted: list[set[str]] = [set() for _ in steps]
    for item in items:
        for number, name in item.names:
            wanted[number].add(name)
    for number, (step, names) in enumerate(zip(plan.steps, wanted, strict=True)):
        if names != step.addresses.keys():
            wrong = sorted(names ^ step.addresses.keys())[0]
            what = "has no address for" if wrong in names else "has an address for"
            return f"addresses: step {number + 1} {what} {wrong}"
    return next(_overlaps(problem, plan, items), None)


def _overlaps(problem: Problem, plan: Plan, items: Sequence[Item]) -> Iterator[str]:
    capacity, regions, width = (
        problem.machine.capacity,
        problem.machine.regions,
        problem.machine.element_bytes,
    )
    spans = []
    for operation in problem.graph.operations:
        if operation.name in plan.staying:
            address = plan.staying[operation.name]
            name, end = key_of("weights", operation.name), address + operation.weights
            if there := _beyond(problem.machine, address, end):
                yield f"memory: {name} takes elements {address} to {end}, {there}"
            spans.append((0, len(plan.steps), address, end, name))
    for item in items:
        addresses = {plan.steps[number].addresses[name] for number, name in item.names}
        name = item.names[0][1]
        if len(addresses) > 1:
            number, other = item.names[-1]
            yield f"in place: step {number + 1}: {other} has another address than {name}"
        address = min(addresses)
        end = address + item.size
        if there := _beyond(problem.machine, address, end):
            yield f"memory: step {item.begin + 1}: {name} takes elements {address} to {end}, {there}"
        spans.append((item.begin, item.end, address, address + item.size, name))
    for place, (begin, end, low, high, name) in enumerate(spans):
        for begin2, end2, low2, high2, other in spans[:place]:
            if begin < end2 and begin2 < end and low < high2 and low2 < high:
                yield (
                    f"overlap: step {max(begin, begin2) + 1}: {name} (elements {low} to {high}) and "
                    f"{other} ({low2} to {high2}) are on chip at the same time"
                )
    taken = sum(tops_of(regions, ((low, high - low) for _, _, low, high, _ in spans)))
    if taken > capacity:
        taken_bytes = f"{width * taken:,} bytes are taken in all memories"
        yield f"memory: {taken_bytes}, at most {problem.machine.memory_bytes:,} are allowed"


def _beyond(machine: OneMemory, address: int, end: int) -> str | None:
    """Return what is to be said of elements that do not lie in one memory."""
    regions = machine.regions
    region = regions[region_of(regions, address)]
    if end <= region.end:
        return None
    return f"{region.name} ends at {region.end}" if len(regions) > 1 else f"the memory has {machine.capacity}"
