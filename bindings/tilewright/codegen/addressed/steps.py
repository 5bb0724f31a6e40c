"""What the steps of a residency plan have in memory: maps and weights, with their addresses."""

from __future__ import annotations

from dataclasses import dataclass, fields

from tilewright.residency import Plan, Problem, Step
from tilewright.residency.costs import Buffer, buffers
from tilewright.residency.graph import Operation, members
from tilewright.residency.reading import Told, told
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Window

ENTRIES = (
    *("operations", "order", "pixels", "kernels", "kept", "in_place", "addresses"),
    *("dropped", "fetched", "resident", "written"),
)
"""What the C knows of a step. One with more, that is not as it is left out, is refused."""

ORDERS = ("pixels", "kernels")
"""Outer loops that the C knows."""

BUFFERS = ("lines", "weights", "block")
"""What the C knows to be placed for a step alone."""


@dataclass(frozen=True)
class MapInStep:
    """A tensor that a step reads or computes, and where it lies.

    Attributes
    ----------
    number
        Of the tensor.
    address, pixels, channels
        It goes around in so many pixels, of so many channels each, from an address on.
    block
        Whether it holds a block of output channels, as they are computed.
    fetched, streamed, written
        Whether it is loaded before the first pass, loaded pass by pass, saved as it is computed.
    """

    number: int
    address: int
    pixels: int
    channels: int
    block: bool
    fetched: bool
    streamed: bool
    written: bool


@dataclass(frozen=True)
class PartRead:
    """A map that an operation reads, by its place in the step, and where it begins in the input."""

    place: int
    first: int
    whole: bool


@dataclass(frozen=True)
class OperationInStep:
    """An operation, the place of its output among the maps, and the address of its weights on chip."""

    operation: Operation
    output: int
    parts: tuple[PartRead, ...]
    address: int
    kept: bool


@dataclass(frozen=True)
class StepInMemory:
    """A step: its maps, the last of which the last operation computes.

    Attributes
    ----------
    loaded, saved
        Elements that it moves.
    """

    step: Step
    maps: tuple[MapInStep, ...]
    operations: tuple[OperationInStep, ...]
    loaded: int
    saved: int


def steps_in_memory(problem: Problem, plan: Plan) -> list[StepInMemory]:
    """Return the steps of a valid plan.

    Raises
    ------
    InputError
        For a step of a kind that the C does not know.
    """
    where: dict[int, int] = {}  # addresses of tensors that are on chip as a whole
    found = []
    for place, (step, read) in enumerate(zip(plan.steps, told(problem, plan), strict=True)):
        refuse_unknown(f"plan.steps[{place}]", step)
        for tensor in members(read.choice.dropped):
            where.pop(tensor)
        for tensor in members(read.choice.fetched | read.choice.resident):
            where[tensor] = step.addresses[problem.graph.tensors[tensor].name]
        found.append(_Placing(problem, f"plan.steps[{place}]", step, read, where).step())
        for tensor in [each for each in where if read.group.dying(each, read.before.done)]:
            where.pop(tensor)
    return found


def refuse_unknown(field: str, step: Step) -> None:
    """Refuse a step that says more than the C knows.

    Raises
    ------
    InputError
        Names what there is no C for.
    """
    if step.order not in ORDERS:
        raise InputError(f"{field}.order", step.order, "there is no C for steps in this order")
    for entry in fields(step):
        value = getattr(step, entry.name)
        if entry.name not in ENTRIES and value != entry.default:
            raise InputError(f"{field}.{entry.name}", value, "there is no C for such steps")


class _Placing:
    """The places of one step."""

    def __init__(self, problem: Problem, field: str, step: Step, read: Told, where: dict[int, int]) -> None:
        self._problem, self._field, self._step, self._read, self._where = problem, field, step, read, where
        self._graph, self._group, self._shape = problem.graph, read.group, read.choice.shape
        self._whole = frozenset(members(read.on_chip))
        self._held = self._group.held(self._shape.pixels)
        self._buffers = {
            (buffer.what, buffer.number): self._known(buffer)
            for buffer in buffers(self._group, self._shape, self._whole)
        }
        self._numbers = sorted({*self._group.lines, *self._group.computed})

    def _known(self, buffer: Buffer) -> Buffer:
        if buffer.what not in BUFFERS:
            raise self._refused(buffer)
        return buffer

    def _refused(self, buffer: Buffer) -> InputError:
        limit = "there is no C for steps that place this"
        return InputError(self._field, f"{buffer.name(self._graph)}, {buffer.size} elements", limit)

    def _address(self, buffer: Buffer) -> int:
        return self._step.addresses[buffer.name(self._graph)]

    def step(self) -> StepInMemory:
        """Return the step."""
        saved = sum(self._graph.tensors[number].size for number in members(self._read.choice.written))
        return StepInMemory(
            self._step,
            tuple(map(self._map, self._numbers)),
            tuple(map(self._operation, self._group.operations)),
            self._read.moved - saved,
            saved,
        )

    def _map(self, number: int) -> MapInStep:
        tensor, choice = self._graph.tensors[number], self._read.choice
        fetched, written = (bool(mask >> number & 1) for mask in (choice.fetched, choice.written))
        if number in self._whole:
            address = self._where[number]
            return MapInStep(number, address, tensor.pixels, tensor.channels, False, fetched, False, written)
        what, pixels = "lines", self._held.get(number, 0)
        if number == self._group.output:
            what, pixels = "block", min(self._shape.pixels, self._group.pixels)
        buffer = self._buffers[what, number]
        channels, rest = divmod(buffer.size, pixels)
        if rest or channels > tensor.channels:
            raise self._refused(buffer)
        by_block = self._shape.order == "kernels" and self._group.last.channelwise
        return MapInStep(
            number,
            self._address(buffer),
            pixels,
            channels,
            by_block if what == "lines" else True,
            False,
            number in self._group.sources,
            written,
        )

    def _operation(self, operation: Operation) -> OperationInStep:
        weights = self._buffers.get(("weights", operation.number))
        parts, first = [], 0
        for producer in operation.op.producers:
            tensor = self._graph.tensors[producer + 1]
            parts.append(
                PartRead(self._numbers.index(producer + 1), first, self._reads_whole(operation, tensor.shape))
            )
            if operation.op.spec.kind not in ("add", "mul"):
                first += tensor.size if in_a_row(operation) else tensor.channels
        return OperationInStep(
            operation,
            self._numbers.index(operation.number + 1),
            tuple(parts),
            self._address(weights) if weights else 0,
            operation.number in self._shape.kept,
        )

    def _reads_whole(self, operation: Operation, shape: tuple[int, int, int]) -> bool:
        spec = operation.op.spec
        if in_a_row(operation):
            return True
        return spec.kind == "mul" and shape != spec.input


def in_a_row(operation: Operation) -> bool:
    """Whether an operation takes all values of its operands one after the other, channel by channel."""
    return not isinstance(operation.op.spec, Window) or operation.op.spec.kind == "fc"
