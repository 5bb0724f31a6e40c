"""The execution of a plan in a memory with addresses: the only judge of its cost and whether it is right."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.core.measures import counted, joined
from tilewright.core.room import Asked
from tilewright.residency.core_cycles import CoreTime, copied_weights, counts_of, rounds_over_pixels
from tilewright.residency.cost import Spent
from tilewright.residency.decode_plan import DecodedStep, decode_plan
from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.evaluation import exceeded_limit
from tilewright.residency.graph import Graph, InvalidPlanError, Operation, members
from tilewright.residency.lowering import PlanProgram
from tilewright.residency.machine import region_of, tops_of
from tilewright.residency.measures import MemoryMeasures, ResidencyMeasures, StepMeasures
from tilewright.residency.memory_costs import Touched
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.shape import count_passes, count_rounds
from tilewright.simulator import Report, Violation
from tilewright.simulator.addressed import LostError
from tilewright.simulator.addressed_machine import AddressedMachine, Numbers, Tally
from tilewright.simulator.arithmetic.attention import in_floats_of
from tilewright.simulator.arithmetic.pixel_arithmetic import whole_output
from tilewright.simulator.program import Values
from tilewright.spec.graph import Access
from tilewright.spec.network import Function, Map, MatMul, Opaque

FRAMES = 2
"""Frames that are executed where weights stay from one to the next."""


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan, pass by pass, in a memory whose cells know what they hold.

    A plan says which of its steps have second buffers, so that engines work beside each other, whether an
    overlapped timeline is asked for or not.
    """
    try:
        steps = decode_plan(problem, plan)
    except InvalidPlanError as error:
        return Report.beyond_limits(str(error))
    broken = exceeded_limit(problem, steps)
    if broken is not None:
        return Report.beyond_limits(broken)
    reference = _Reference(problem, plan, asked.seed) if asked.numeric else None
    return _Execution(problem, plan, steps, reference, asked.deadline).report()


class _Reference:
    """The network as it is in the file, with random integers; new ones for each frame, but for weights.

    What is executed a second time has the same values.

    Attributes
    ----------
    tensors
        Values of the plan's tensors, each of shape (C, H, W).
    weights
        Of the plan's operations, flat: of each kernel its bias, if there is one, before its numbers.
    """

    def __init__(self, problem: Problem, plan: Plan, seed: int) -> None:
        self.graph: Graph = problem_of_plan(problem, plan).graph
        self._alone = self.graph if not plan.again else problem.graph
        self.in_floats = in_floats(problem)
        self._random = np.random.default_rng(seed)
        self._own_weights: dict[int, Values] = {}
        self.tensors: list[Values] = []
        self.weights: dict[int, Values] = {}

    def next_frame(self) -> None:
        """Compute the tensors of a new frame."""
        alone, random, tensors = self._alone, self._random, list[Values]()
        for tensor in alone.tensors:
            given = random.integers(-8, 9, tensor.shape, dtype=np.int64)
            tensors.append(given if tensor.given else np.zeros(0, dtype=np.int64))
        for op in alone.numbers(alone.all & ~alone.begin):
            if op.number not in self._own_weights:
                self._own_weights[op.number] = random.integers(-8, 9, op.parameters, dtype=np.int64)
            inputs = [self._operand(tensors, operand) for operand in op.op.operands]
            tensors[op.number + 1] = self._computed(op, inputs)
        numbers = {tensor.name: number for number, tensor in enumerate(alone.tensors)}
        first, graph = self.graph.first, self.graph
        own = [
            numbers[graph.tensors[first.get(number - 1, number - 1) + 1].name]
            for number in range(len(graph.tensors))
        ]
        self.tensors = [tensors[number] for number in own]
        self.weights = {
            op.number: self._own_weights[own[op.number + 1] - 1]
            for op in graph.numbers(graph.all & ~graph.begin)
        }

    def _computed(self, operation: Operation, inputs: Sequence[Values]) -> Values:
        """Return what an operation computes of whole maps."""
        if operation.name not in self.in_floats:
            return whole_output(operation.op, inputs, self._own_weights[operation.number])
        pixels = np.arange(prod(operation.op.spec.output[1:]))
        by_pixel = in_floats_of(operation.op)([each.reshape(len(each), -1).T for each in inputs], pixels)
        return by_pixel.T.reshape(operation.op.spec.output)

    def _operand(self, tensors: Sequence[Values], operand: Sequence[Access]) -> Values:
        """Return what an operation reads, put together where it lies in parts, shape (C, H, W)."""
        found = np.empty(self._alone.ops.operand_shape(operand), dtype=np.int64)
        for access in operand:
            values = tensors[access.source + 1]
            if access.shape is not None:
                values = values.reshape(access.shape)
            values = values[slice(*(access.channels or (None,)))]
            for axis, times in enumerate(access.copies or ()):
                values = np.repeat(values, times, axis)
            row, column = access.at or (0, 0)
            found[:, row : row + values.shape[1], column : column + values.shape[2]] = values
        return found

    def in_memory(self, tensor: int) -> Values:
        """Return the values of a tensor pixel by pixel, shape (pixels, C)."""
        return self.tensors[tensor].reshape(self.graph.tensors[tensor].channels, -1).T


class _Row(NamedTuple):
    """What a step has moved and computed, and first element and size of everything that was on chip."""

    tally: Tally
    placed: Mapping[str, tuple[int, int]]
    spent: Spent

    @property
    def footprint(self) -> dict[str, int]:
        """The size of everything that was on chip."""
        return {key: size for key, (_, size) in self.placed.items()}


class _Execution:
    """One execution of a plan."""

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        steps: Sequence[DecodedStep],
        reference: _Reference | None,
        deadline: float,
    ) -> None:
        self.problem, self.plan, self.steps, self.reference = problem, plan, steps, reference
        self.graph = problem_of_plan(problem, plan).graph
        numeric = reference is not None
        floats = in_floats(problem)
        capacity = problem.machine.regions[-1].end
        flash = capacity if problem.machine.in_flash else None
        self.program = PlanProgram(self.graph, plan, numeric=numeric, in_floats=floats, flash=flash)
        if flash is not None:
            capacity += sum(operation.staying for operation in self.graph.operations)
        self.machine = AddressedMachine(capacity, self.program.elements, numeric=numeric, deadline=deadline)
        self.spans: list[tuple[int, int]] = []  # first element and size of all that has been placed

    def report(self) -> Report:
        """Execute all frames, and report the last one."""
        right = True
        for frame in range(FRAMES if self.plan.staying else 1):
            self._give_inputs()
            if not frame:
                try:
                    self._give_weights()
                except LostError as error:
                    return Report.refused(Violation("address", 0, error.tensor, error.needed, error.found))
            rows, violation = self._frame()
            report = self._report(rows, violation)
            if violation is not None:
                return report
            right = right and self._is_right()
        if self.reference is not None:
            report.numeric = right
            report.not_computed = not_computed(self.graph, self.program.in_floats)
        report.measures = self._measures(report, rows)
        return report

    def _give_inputs(self) -> None:
        """Have a new frame's inputs in DRAM, and of an earlier frame nothing but weights, here and there."""
        graph, dram = self.graph, self.machine.dram
        if self.reference is not None:
            self.reference.next_frame()
        for number, tensor in enumerate(graph.tensors):
            dram.forget(number)
            if tensor.given:
                dram.give(number, None if self.reference is None else self.reference.in_memory(number))
        stay = [(at, graph.operations[number].staying) for number, at in self.program.staying.items()]
        self.machine.chip.forget([range(at, at + size) for at, size in stay])

    def _give_weights(self) -> None:
        """Have all weights in DRAM, and load those that stay."""
        weights = {} if self.reference is None else self.reference.weights
        for operation in self.graph.operations:
            self.machine.dram.give(self.program.weights(operation.number), weights.get(operation.number))
        self.machine.execute(self.program.load_staying())

    def _frame(self) -> tuple[list[_Row], Violation | None]:
        """Execute all steps."""
        rows: list[_Row] = []
        for number, decoded in enumerate(self.steps):
            step, violation = self.program.step(number, decoded), None
            placed: Mapping[str, tuple[int, int]] = {}
            self.machine.tally = Tally()
            try:
                step.place_tensors()
                placed = step.footprint()
                self._look_at(placed)
                self.machine.execute(step.instructions())
                step.forget_tensors()
            except LostError as error:
                violation = Violation("address", number + 1, error.tensor, error.needed, error.found)
            except KeyError as error:
                violation = Violation("address", number + 1, str(error.args[0]), "an address", "none")
            rows.append(_Row(self.machine.tally, placed, self._spent(self.machine.tally, decoded)))
            if violation is not None:
                return rows, violation
        return rows, None

    def _look_at(self, placed: Mapping[str, tuple[int, int]]) -> None:
        """Refuse what lies in two memories, and keep where everything is."""
        regions = self.problem.machine.regions
        for key, (address, size) in placed.items():
            region = regions[region_of(regions, address)]
            if len(regions) > 1 and size and address + size > region.end:
                found = f"addresses {address} to {address + size - 1}"
                raise LostError(key, f"addresses below {region.end} in memory {region.name}", found)
        self.spans += placed.values()

    def _spent(self, tally: Tally, decoded: DecodedStep) -> Spent:
        """Return what a step costs; transfers are what is moved of one tensor in one direction."""
        accesses = self.problem.memory_costs.spent_in_all(decoded.touched)
        return self._but_accesses(tally, decoded).plus(accesses)

    def _but_accesses(self, tally: Tally, decoded: DecodedStep) -> Spent:
        prices, time = self.problem.prices, None
        if prices.core_time is not None:
            return prices.of_core(
                tally.moved, self._time_of_core(prices.core_time, tally, decoded), tally.macs
            )
        if decoded.choice.shape.doubled:
            time = sum(max(prices.core(work), prices.transfer(moved)) for moved, work in tally.slots)
        transfers = len(tally.loaded) + len(tally.saved)
        return prices.spent(tally.moved, tally.work, transfers, time)

    def _time_of_core(self, core_time: CoreTime, tally: Tally, decoded: DecodedStep) -> int:
        """Return what emitted C takes for the pixels that have been computed and loaded."""
        group, tensors = decoded.group, self.graph.tensors
        whole = frozenset(members(decoded.on_chip))
        computed = {number: values // tensors[number + 1].channels for number, values in tally.values.items()}
        loaded = sum(
            tally.loaded.get(tensors[tensor].name, 0) // group.channels(tensor)
            for tensor in group.sources
            if tensor not in whole
        )
        shape = decoded.choice.shape
        moved, rounds = tally.moved + copied_weights(group, shape), rounds_over_pixels(group, shape)
        counts = counts_of(group, whole, computed, loaded, moved, running=shape.running, rounds=rounds)
        return core_time.of_counts(counts)

    def _is_right(self) -> bool:
        """Whether the network's outputs in DRAM are those of the reference."""
        if self.reference is None:
            return True
        for number, tensor in enumerate(self.graph.tensors):
            if tensor.leaves:
                values = self.machine.dram.values(number)
                expected = self.reference.in_memory(number).reshape(-1)
                if values is None or not np.array_equal(values, expected):
                    return False
        return True

    # The report --------------------------------------------------------------------------------------

    def _report(self, rows: Sequence[_Row], violation: Violation | None) -> Report:
        def table(counts: Sequence[dict[str, int]]) -> dict[str, Numbers]:
            names = dict.fromkeys(name for each in counts for name in each)
            return {name: np.array([each.get(name, 0) for each in counts], np.int64) for name in names}

        return Report(
            violation,
            [joined(step.operations) for step in self.plan.steps[: len(rows)]],
            table([row.tally.loaded for row in rows]),
            {},
            table([row.tally.saved for row in rows]),
            {},
            table([row.footprint for row in rows]),
            np.array([row.tally.macs for row in rows], dtype=np.int64),
            sum(row.tally.transfers for row in rows),
            computing=np.ones(len(rows), dtype=np.bool_),
        )

    def _measures(self, report: Report, rows: Sequence[_Row]) -> ResidencyMeasures:
        """Return what was measured of a valid plan."""
        problem, width = self.problem, self.problem.machine.element_bytes
        graph = self.graph if self.plan.staying else problem.graph
        steps = [self._measures_of_step(number, row) for number, row in enumerate(rows)]
        loaded, saved = sum(step.loaded_bytes for step in steps), sum(step.saved_bytes for step in steps)
        weights = sum(operation.parameters for operation in graph.operations)
        flash = problem.machine.in_flash
        staying = {op.name: op.staying * width for op in graph.operations if op.staying and not flash}
        total = reduce(Spent.plus, (row.spent for row in rows), Spent())
        amounts = total, problem.least_of_any_schedule
        spent, least = (problem.spent(each) if problem.timed else {} for each in amounts)
        more, regions = problem.attention_excess, problem.machine.regions
        tops = tops_of(regions, self.spans)
        names = [joined(step.operations) for step in self.plan.steps]
        return ResidencyMeasures(
            **counted(report),
            traffic_bytes=loaded + saved,
            memory_bytes=sum(tops) * width,
            loaded_bytes=loaded,
            saved_bytes=saved,
            compulsory_bytes=graph.compulsory * width,
            any_schedule_bytes=(graph.compulsory + more) * width if more else None,
            layer_by_layer_bytes=sum(problem.layer_by_layer.values()) * width
            if problem.machine.dram
            else None,
            weights_bytes=weights * width,
            staying_bytes=staying or None,
            flash_bytes=weights * width if flash else None,
            memories=self._memories(tops),
            executed_again=[*self.plan.again] or None,
            cycles=spent.get("cycles"),
            energy_fj=spent.get("energy"),
            compulsory_cycles=least.get("cycles"),
            compulsory_energy_fj=least.get("energy"),
            steps_of_plan=dict(zip(names, steps, strict=True)),
        )

    def _memories(self, tops: Sequence[int]) -> dict[str, MemoryMeasures] | None:
        """Return what is taken of each memory; without DRAM what the core reads and writes in it, too."""
        width, regions = self.problem.machine.element_bytes, self.problem.machine.regions
        if self.problem.machine.dram:
            if len(regions) == 1:
                return None
            taken = zip(regions, tops, strict=True)
            return {region.name: MemoryMeasures(memory_bytes=top * width) for region, top in taken}
        names = self.problem.machine.names_of_memories
        weights = sum(operation.parameters for operation in self.graph.operations)
        found = dict[str, MemoryMeasures]()
        for number, (name, top) in enumerate(zip(names, [*tops, weights], strict=True)):
            every = reduce(Touched.plus, (step.touched[number] for step in self.steps), Touched())
            found[name] = MemoryMeasures(
                memory_bytes=top * width,
                read_bytes=every.read * width,
                written_bytes=every.written * width,
                accesses=every.reading + every.writing,
            )
        return found

    def _by_memory(self, row: _Row) -> dict[str, dict[str, int]] | None:
        """Return the bytes of what was on chip in each of several memories."""
        regions, width = self.problem.machine.regions, self.problem.machine.element_bytes
        if len(regions) == 1:
            return None
        found: dict[str, dict[str, int]] = {region.name: {} for region in regions}
        for key, (at, size) in row.placed.items():
            if size:
                found[regions[region_of(regions, at)].name][key] = size * width
        return found

    def _measures_of_step(self, number: int, row: _Row) -> StepMeasures:
        width, step, decoded = self.problem.machine.element_bytes, self.plan.steps[number], self.steps[number]
        group, shape = decoded.group, decoded.choice.shape
        on_chip = {key: size * width for key, size in row.footprint.items() if size}
        spent = self.problem.spent(row.spent) if self.problem.timed else {}
        return StepMeasures(
            order=step.order,
            pixels=step.pixels,
            kernels=step.kernels,
            columns=step.columns,
            channels=step.channels,
            keys=step.keys,
            blocks=step.blocks or None,
            passes=count_passes(group, shape) * count_rounds(group, shape),
            loaded_bytes=width * sum(row.tally.loaded.values()),
            saved_bytes=width * sum(row.tally.saved.values()),
            memory_bytes=sum(on_chip.values()),
            on_chip_bytes=on_chip,
            memories=self._by_memory(row),
            cycles=spent.get("cycles"),
            energy_fj=spent.get("energy"),
            double_buffering=True if spent and step.double_buffering else None,
            running=True if step.running else None,
            copied=[*step.copied] or None,
            interleaved=True if step.interleaved else None,
        )


def in_floats(problem: Problem) -> frozenset[str]:
    """Return the names of the operations of attention that are computed in floating point."""
    graph = problem.graph
    numbers = {number for each in graph.attentions for number in (each.softmax, each.context)}
    return frozenset(graph.operations[number].name for number in numbers)


def not_computed(graph: Graph, computed: Collection[int]) -> tuple[str, ...]:
    """Say which operations move integers without computing what they do, and why.

    Parameters
    ----------
    computed
        Operations that are computed in floating point.
    """
    found = []
    for op in (each for each in graph.ops.ops if each.number not in computed):
        if isinstance(op.spec, Function | Opaque | Map):
            found.append(f"{op.spec.op}, whose values are moved")
        elif isinstance(op.spec, MatMul) and op.spec.transposed is None:
            found.append(f"{op.name} does not say how its second operand is stored (transposed)")
    return tuple(found)
