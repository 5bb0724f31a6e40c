"""What constraints of a network in one memory can speak of: steps, what is on chip in them, what they cost.

Almost every word is of one operation and tells of the step that executes it. So the search knows its value as
soon as it has chosen that step; see `tilewright.residency.exact.constrained_steps`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.derived_problems import names_of_copies, problem_of_plan, weights_of
from tilewright.residency.evaluation import costs_of
from tilewright.residency.machine import ONE, region_of, traffic_of
from tilewright.residency.plan import ORDERS, Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.in_blocks import in_blocks
from tilewright.residency.shapes.shape import Shape, group_of_passes
from tilewright.residency.shapes.strips import strips_of
from tilewright.spec.constraints import Names, Vocabulary, Word
from tilewright.spec.network import OWN_INPUT

MEMORY_OF = "memory_of"
"""The word for where a tensor lies, of machines with several memories."""

TRAFFIC_OF = "traffic_of"
"""The word for what is read and written in a memory, of machines without DRAM."""

NOWHERE = -1
"""Address of a tensor that is not on chip as a whole."""


class StepView(NamedTuple):
    """A step, as the words see it; tensors as bit masks.

    Attributes
    ----------
    on_chip
        Tensors that are on chip as a whole during the step.
    memory, moved
        Bytes on chip, weights that stay for all frames among them, and bytes moved.
    """

    group: Group
    shape: Shape
    on_chip: int = 0
    fetched: int = 0
    resident: int = 0
    written: int = 0
    in_place: int = -1
    memory: int = 0
    moved: int = 0


def _kernels(step: StepView, number: int) -> int:
    operation, shape = step.group.graph.operations[number], step.shape
    if shape.blocks and operation.second is not None:
        return min(shape.kernels, operation.second.units)
    if shape.order == ORDERS[0] and (number in shape.kept or not operation.weights):
        return 0
    return min(shape.kernels, operation.units)


def _keys(step: StepView, number: int) -> int:
    if step.shape.keys is None:
        return 0
    own = (each.keys for each in in_blocks(step.group).attentions if number in each.operations)
    return max((min(step.shape.keys, keys) for keys in own), default=0)


def _rows(step: StepView, _number: int) -> int:
    return step.shape.pixels // (step.shape.columns or group_of_passes(step.group, step.shape).row)


def _recomputed(step: StepView, number: int) -> int:
    shape = step.shape
    if (
        shape.columns is None
        or shape.order != ORDERS[0]
        or (shape.running and number == step.group.last.number)
    ):
        return 0
    _, height, width = step.group.graph.tensors[number + 1].shape
    return height * (strips_of(step.group, shape.columns).read(number + 1) - width)


OF_SHAPE: dict[str, Callable[[StepView, int], Any]] = {
    "kept": lambda step, number: number in step.shape.kept,
    "order": lambda step, _number: step.shape.order,
    "pixels": lambda step, _number: step.shape.pixels,
    "rows": _rows,
    "kernels": _kernels,
    "columns": lambda step, _number: step.shape.columns or 0,
    "channels": lambda step, _number: step.shape.channels or 0,
    "keys": _keys,
    "blocks": lambda step, _number: step.shape.blocks,
    "recomputed": _recomputed,
    "double_buffering": lambda step, _number: step.shape.doubled,
    "running": lambda step, _number: step.shape.running,
    "interleaved": lambda step, _number: step.shape.interleaved,
}
"""Words that follow from how the step of an operation is cut up."""

OF_AMOUNTS: dict[str, Callable[[StepView, int], int]] = {
    "bytes": lambda step, _number: step.memory,
    "moved": lambda step, _number: step.moved,
}
"""What the step of an operation takes of the memory, and moves."""

OF_OPERATION: dict[str, Callable[[StepView, int], Any]] = {
    **OF_SHAPE,
    **OF_AMOUNTS,
    "in_place": lambda step, number: step.in_place >= 0 and number == step.group.last.number,
}
"""Words of an operation alone."""

OF_PLACE: dict[str, Callable[[StepView, int], bool]] = {
    "on_chip": lambda step, tensor: bool(step.on_chip >> tensor & 1),
    "fetched": lambda step, tensor: bool(step.fetched >> tensor & 1),
}
"""Words of a tensor and an operation in whose step it is looked at."""

OF_TENSOR: dict[str, Callable[[StepView, int], bool]] = {
    "resident": lambda step, tensor: bool(step.resident >> tensor & 1),
    "written": lambda step, tensor: bool(step.written >> tensor & 1),
}
"""Words of a tensor, which the step decides that computes it."""


class PlanView:
    """A plan, as the words see it."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan, self.graph = problem, plan, problem_of_plan(problem, plan).graph
        stays = [op.number for op in problem.graph.operations if op.name in plan.staying]
        width, staying = problem.machine.element_bytes, weights_of(problem.graph, stays)
        self.steps = [
            StepView(
                each.group,
                each.choice.shape,
                each.on_chip,
                each.choice.fetched,
                each.choice.resident,
                each.choice.written,
                each.choice.in_place,
                (each.memory + staying) * width,
                each.moved * width,
            )
            for each in decode_plan(problem, plan)
        ]
        self.numbers = {operation.name: operation.number for operation in self.graph.operations}
        self.tensors = {tensor.name: number for number, tensor in enumerate(self.graph.tensors)}
        self.places = {
            operation.number: place
            for place, step in enumerate(self.steps)
            for operation in step.group.operations
        }

    @cached_property
    def costs(self) -> dict[str, int]:
        """All that the plan costs."""
        return costs_of(self.problem, self.plan)

    def step(self, operation: str) -> int:
        """Return the number of the step that executes an operation, from 1; 0 where none does."""
        return 1 + self.places.get(self.numbers.get(operation, -1), -1)

    def same_step(self, one: str, other: str) -> bool:
        """Whether two operations are executed together."""
        return self.step(one) == self.step(other) > 0

    def before(self, one: str, other: str) -> bool:
        """Whether an operation is executed in an earlier step than another."""
        return 0 < self.step(one) < self.step(other)

    def of_operation(self, word: str, operation: str) -> Any:
        """Return a word of `OF_OPERATION`; 0 of an operation that no step executes."""
        place = self.step(operation) - 1
        if place < 0:
            return ORDERS[0] if word == "order" else 0
        return OF_OPERATION[word](self.steps[place], self.numbers[operation])

    def of_place(self, word: str, tensor: str, operation: str) -> bool:
        """Return a word of `OF_PLACE`."""
        place, number = self.step(operation) - 1, self.tensors.get(tensor, -1)
        return place >= 0 and number >= 0 and OF_PLACE[word](self.steps[place], number)

    def of_tensor(self, word: str, tensor: str) -> bool:
        """Return a word of `OF_TENSOR`."""
        place = self.step(tensor) - 1
        return place >= 0 and OF_TENSOR[word](self.steps[place], self.tensors[tensor])

    def address(self, tensor: str, operation: str) -> int:
        """Return where a tensor begins that is on chip as a whole in the step of an operation."""
        if not self.of_place("on_chip", tensor, operation):
            return NOWHERE
        key = self.graph.tensors[self.tensors[tensor]].key
        there = (step.addresses for step in self.plan.steps[: self.step(operation)][::-1])
        return next(addresses[key] for addresses in there if key in addresses)

    def memory_of(self, tensor: str) -> str:
        """Return the memory in which a tensor lies as a whole, the first time."""
        nowhere, *names = memory_names(self.problem)
        key = self.graph.tensors[self.tensors[tensor]].key
        at = next((step.addresses[key] for step in self.plan.steps if key in step.addresses), None)
        return nowhere if at is None else names[region_of(self.problem.machine.regions, at)]


UNITS = {"traffic": "bytes", "cycles": "cycles", "energy": "fJ", "memory": "bytes"}


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a network in one memory."""
    graph = problem.graph
    ran = [operation.name for operation in graph.numbers(graph.all & ~graph.begin)]
    read = [tensor.name for number, tensor in enumerate(graph.tensors) if tensor.readers or tensor.leaves]
    if problem.limits.executions != 1:
        copies = names_of_copies(problem.network_graph)
        read += [copies[name] for name in read if name in ran and name != OWN_INPUT]
        ran += [copies[name] for name in ran]
    operations, tensors = Names("operations", tuple(ran)), Names("tensors", tuple(read))
    return Vocabulary.of(
        [
            *_of_steps(operations, tensors),
            *_of_frames(problem, operations),
            *_without_dram(problem, operations),
            *_of_memories(problem, tensors),
            *(
                Word(name, f"{name} of the plan", lambda seen, name=name: seen.costs[name], unit=unit)
                for name, unit in UNITS.items()
                if name != "energy" or problem.prices.has_energy
            ),
        ],
        lambda plan: PlanView(problem, plan),
    )


def _of_steps(operations: Names, tensors: Names) -> list[Word]:
    """Return the words of steps."""

    def of_operation(name: str, says: str, unit: str = "", gives: Any = "integer") -> Word:
        return Word(
            name,
            says,
            lambda seen, operation: seen.of_operation(name, operation),
            (operations,),
            unit,
            gives,
        )

    def of_place(name: str, says: str) -> Word:
        return Word(
            name,
            says,
            lambda seen, tensor, operation: seen.of_place(name, tensor, operation),
            (tensors, operations),
            gives="truth",
        )

    def of_tensor(name: str, says: str) -> Word:
        return Word(name, says, lambda seen, tensor: seen.of_tensor(name, tensor), (tensors,), gives="truth")

    pair = (operations, operations)
    return [
        Word("step", "number of the step that executes an operation", PlanView.step, (operations,)),
        Word("same_step", "whether two operations are in one step", PlanView.same_step, pair, gives="truth"),
        Word("before", "whether one's step is earlier than another's", PlanView.before, pair, gives="truth"),
        Word("steps", "number of steps", lambda seen: len(seen.steps)),
        of_place("on_chip", "whether a tensor is on chip as a whole in the step of an operation"),
        of_place("fetched", "whether the step of an operation loads a tensor as a whole"),
        of_tensor("resident", "whether a tensor stays on chip as a whole when it has been computed"),
        of_tensor("written", "whether a tensor is written to DRAM"),
        Word(
            "address",
            "first element of a tensor in the step of an operation, -1 where it is not on chip as a whole",
            PlanView.address,
            (tensors, operations),
            "elements",
        ),
        of_operation("in_place", "whether its output takes the place of an operand", gives="truth"),
        of_operation("kept", "whether its weights are loaded once and stay during its step", gives="truth"),
        of_operation("order", "how its step is cut up", gives=Names("orders", ORDERS)),
        of_operation("pixels", "pixels that its step computes at a time of its last output", "pixels"),
        of_operation("rows", "whole rows among them, of a strip or a tile where it has some", "rows"),
        of_operation("columns", "columns of a strip or a tile, 0 where rows are not cut", "columns"),
        of_operation("kernels", "output channels at a time, 0 where its weights are loaded once", "channels"),
        of_operation("channels", "input channels that are added up at a time, 0 for all", "channels"),
        of_operation("keys", "keys that pass by at a time in its attention, 0 where none do", "keys"),
        of_operation("blocks", "whether its step loads second operands in blocks", gives="truth"),
        of_operation("recomputed", "pixels that it computes again, as strips share them", "pixels"),
        of_operation("double_buffering", "whether its step has second buffers", gives="truth"),
        of_operation("running", "whether its step adds up pixels in running values", gives="truth"),
        of_operation("bytes", "bytes on chip in its step", "bytes"),
        of_operation("moved", "bytes that its step moves", "bytes"),
    ]


def _without_dram(problem: Problem, operations: Names) -> list[Word]:
    """Return the words of machines without DRAM."""
    if problem.machine.dram:
        return []
    return [
        Word("macs", "multiply-accumulates of the plan", lambda seen: seen.costs["macs"]),
        Word(
            TRAFFIC_OF,
            "bytes that the core reads and writes in a memory",
            lambda seen, memory: seen.costs[traffic_of(memory)],
            (Names("memories", problem.machine.names_of_memories),),
            unit="bytes",
        ),
        Word(
            "interleaved",
            "whether operations take turns in its step",
            lambda seen, operation: seen.of_operation("interleaved", operation),
            (operations,),
            gives="truth",
        ),
    ]


def _of_memories(problem: Problem, tensors: Names) -> list[Word]:
    """Return the word of machines with several memories."""
    names = memory_names(problem)
    if len(names) == 2:
        return []
    return [
        Word(
            MEMORY_OF,
            "memory in which a tensor lies as a whole the first time, nowhere if it never does",
            PlanView.memory_of,
            (tensors,),
            gives=Names("memories", names),
        )
    ]


def memory_names(problem: Problem) -> tuple[str, ...]:
    """Return what `MEMORY_OF` may be."""
    return ("nowhere", *(region.name for region in problem.machine.regions))


def _of_frames(problem: Problem, operations: Names) -> list[Word]:
    """Return the word of weights that stay for all frames, where they may."""
    if problem.limits.frames == ONE:
        return []
    return [
        Word(
            "staying",
            "whether the weights of an operation stay on chip for all frames",
            lambda seen, operation: operation in seen.plan.staying,
            (operations,),
            gives="truth",
        )
    ]
