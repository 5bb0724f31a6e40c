"""The execution of a plan in a memory with addresses: the only judge of its cost and whether it is right."""

from __future__ import annotations

import time
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.measures import counted, joined
from tilewright.residency.arithmetic import Windows, computed, reference_network
from tilewright.residency.cost import Spent, Work, work_of_value
from tilewright.residency.decode_plan import DecodedStep, decode_plan, problem_of_plan
from tilewright.residency.evaluation import exceeded_limit
from tilewright.residency.graph import InvalidPlanError, Operation, members
from tilewright.residency.measures import ResidencyMeasures, StepMeasures
from tilewright.residency.plan import Plan, Step, key_of
from tilewright.residency.problem import Problem
from tilewright.residency.shapes import tiles
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import (
    computed_whole,
    count_blocks,
    count_passes,
    count_rounds,
    line_pixels,
    planes_or_strips,
    step_buffers,
)
from tilewright.residency.shapes.strips import Strips
from tilewright.residency.tile_execution import InBlocks
from tilewright.simulator import Report, Violation
from tilewright.simulator.addressed import AddressedMemory, Dram, Elements, LostError
from tilewright.simulator.program import Values
from tilewright.spec.errors import OutOfTimeError

Numbers = NDArray[np.int64]

FRAMES = 2
"""Frames that are executed where weights stay from one to the next."""


def simulate(
    problem: Problem,
    plan: Plan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan, pass by pass, in a memory whose cells know what they hold.

    Parameters
    ----------
    numeric
        Also compute with random integers and compare the network's outputs with the reference.
    overlapped
        Plays no part: a plan says which of its steps have second buffers, so that engines work beside each
        other.
    deadline
        ``time.monotonic()`` at which to give up with an ``OutOfTimeError``.
    """
    try:
        steps = decode_plan(problem, plan)
    except InvalidPlanError as error:
        return _refused(str(error))
    broken = exceeded_limit(problem, steps)
    if broken is not None:
        return _refused(broken)
    return _Run(problem, plan, steps, numeric, seed, deadline).report()


def _refused(broken: str) -> Report:
    rule, _, details = broken.partition(": ")
    return Report.refused(Violation(rule, 0, "plan", "a plan within the limits", details or broken))


class _Run:
    """One execution."""

    def __init__(
        self,
        problem: Problem,
        plan: Plan,
        steps: list[DecodedStep],
        numeric: bool,
        seed: int,
        deadline: float,
    ) -> None:
        self.problem, self.plan, self.steps = problem, plan, steps
        self.numeric, self.deadline = numeric, deadline
        self.graph = graph = problem_of_plan(problem, plan).graph
        self.staying = {
            operation.number: plan.staying[operation.name]
            for operation in graph.operations
            if operation.staying
        }
        self.frames = FRAMES if self.staying else 1
        outputs = [tensor.size for tensor in graph.tensors[1:]]
        sizes = [graph.tensors[0].size, *outputs, *(op.parameters for op in graph.operations), *outputs]
        names = [tensor.key for tensor in graph.tensors]
        for what in ("weights", "partial sums"):
            names += [key_of(what, op.name) for op in graph.operations]
        self.elements = Elements(names, sizes)
        self.chip = AddressedMemory(problem.machine.capacity, self.elements, valued=numeric)
        self.dram = Dram(self.elements, valued=numeric)
        self.rng = np.random.default_rng(seed)
        self.tensors: list[Values] = []
        self.weights: dict[int, Values] = {}
        self.where: dict[int, int] = {}  # addresses of tensors that are on chip as a whole
        self.macs = self.top = 0
        self.work = Work()
        self.transfers = 0

    def _weights(self, operation: Operation) -> int:
        """Return the number under which DRAM has an operation's weights, which a copy loads, too."""
        return len(self.graph.tensors) + self.graph.first.get(operation.number, operation.number)

    def _give(self) -> None:
        """Have a new frame's inputs in DRAM, and of an earlier frame nothing but weights, here and there."""
        graph = self.graph
        if self.numeric:
            self._refer()
        for number, tensor in enumerate(graph.tensors):
            self.dram.forget(number)
            if tensor.given:
                values = self.tensors[number].reshape(tensor.channels, -1).T if self.numeric else None
                self.dram.give(number, values)
        stay = [(at, graph.operations[number].staying) for number, at in self.staying.items()]
        self.chip.forget([range(at, at + size) for at, size in stay])
        self.transfers = 0

    def _refer(self) -> None:
        """Compute the network as it is in the file; what is executed a second time has the same values."""
        graph = self.graph
        alone = graph if not self.plan.again else self.problem.graph
        tensors, self.weights = reference_network(alone, self.rng, self.weights)
        if alone is graph:
            self.tensors = tensors
            return
        numbers = {tensor.name: number for number, tensor in enumerate(alone.tensors)}
        first = {copy + 1: own + 1 for copy, own in graph.first.items()}
        own = [numbers[graph.tensors[first.get(number, number)].name] for number in range(len(graph.tensors))]
        self.tensors = [tensors[number] for number in own]
        self.weights = {
            operation.number: self.weights[own[operation.number + 1] - 1]
            for operation in graph.numbers(graph.all & ~graph.begin)
        }

    def _load_staying(self) -> None:
        """Load the weights that stay."""
        for operation in self.graph.operations:
            self.dram.give(self._weights(operation), self.weights.get(operation.number))
        for number, at in self.staying.items():
            operation = self.graph.operations[number]
            span = np.arange(operation.staying)
            numbers = self.elements.of(self._weights(operation), span)
            self.chip.store(at + span, numbers, self.dram.load(numbers))

    # The report --------------------------------------------------------------------------------------

    def report(self) -> Report:
        """Execute all frames, and report the last one."""
        right = True
        for frame in range(self.frames):
            self._give()
            if not frame:
                try:
                    self._load_staying()
                except LostError as error:
                    return Report.refused(Violation("address", 0, error.tensor, error.needed, error.found))
            rows, violation = self._frame()
            report = self._reported(rows, violation)
            if violation is not None:
                return report
            right = right and (not self.numeric or self._right())
        if self.numeric:
            report.numeric = right
        report.measures = self._measures(report, [row["spent"] for row in rows])
        return report

    def _frame(self) -> tuple[list[dict[str, Any]], Violation | None]:
        """Execute all steps."""
        rows: list[dict[str, Any]] = []
        violation = None
        for number, (step, read) in enumerate(zip(self.plan.steps, self.steps, strict=True)):
            self.dram.loaded, self.dram.written, self.macs, self.work = {}, {}, 0, Work()
            executed = _Executed(self, step, read)
            try:
                executed.run()
            except LostError as error:
                violation = Violation("address", number + 1, error.tensor, error.needed, error.found)
            except KeyError as error:
                violation = Violation("address", number + 1, str(error.args[0]), "an address", "none")
            rows.append(
                {
                    "loaded": dict(self.dram.loaded),
                    "written": dict(self.dram.written),
                    "footprint": executed.footprint,
                    "macs": self.macs,
                    "spent": executed.spent(),
                }
            )
            if violation is not None:
                break
        return rows, violation

    def _reported(self, rows: list[dict[str, Any]], violation: Violation | None) -> Report:
        def table(key: str) -> dict[str, Numbers]:
            names = dict.fromkeys(name for row in rows for name in row[key])
            return {name: np.array([row[key].get(name, 0) for row in rows], np.int64) for name in names}

        labels = [joined(step.operations) for step in self.plan.steps[: len(rows)]]
        macs = np.array([row["macs"] for row in rows], dtype=np.int64)
        written = table("written")
        return Report(
            violation,
            labels,
            table("loaded"),
            {},
            written,
            {},
            table("footprint"),
            macs,
            self.transfers,
            computing=np.ones(len(rows), dtype=np.bool_),
        )

    def _right(self) -> bool:
        """Whether the network's outputs in DRAM are those of the reference."""
        for number, tensor in enumerate(self.graph.tensors):
            if not tensor.leaves:
                continue
            values = self.dram.values(number)
            expected = self.tensors[number].reshape(tensor.channels, -1).T.reshape(-1)
            if values is None or not np.array_equal(values, expected):
                return False
        return True

    def _measures(self, report: Report, spent: list[Spent]) -> ResidencyMeasures:
        """Return what was measured of a valid plan."""
        width = self.problem.machine.element_bytes
        graph = self.graph if self.plan.staying else self.problem.graph
        steps = [self._step(number, report, spent[number]) for number in range(len(self.plan.steps))]
        loaded, saved = (sum(getattr(step, f"{way}_bytes") for step in steps) for way in ("loaded", "saved"))
        weights = sum(operation.parameters for operation in graph.operations)
        staying = {op.name: op.staying * width for op in graph.operations if op.staying}
        total = reduce(Spent.plus, spent, Spent())
        found, least = (
            self.problem.spent(each) if self.problem.timed else {}
            for each in (total, self.problem.least_spent)
        )
        return ResidencyMeasures(
            **counted(report),
            traffic_bytes=loaded + saved,
            memory_bytes=self.top * width,
            loaded_bytes=loaded,
            saved_bytes=saved,
            compulsory_bytes=graph.compulsory * width,
            layer_by_layer_bytes=sum(self.problem.layer_by_layer.values()) * width,
            weights_bytes=weights * width,
            staying_bytes=staying or None,
            executed_again=[*self.plan.again] or None,
            cycles=found.get("cycles"),
            energy_fj=found.get("energy"),
            compulsory_cycles=least.get("cycles"),
            compulsory_energy_fj=least.get("energy"),
            steps_of_plan={
                joined(step.operations): measured
                for step, measured in zip(self.plan.steps, steps, strict=True)
            },
        )

    def _step(self, number: int, report: Report, spent: Spent) -> StepMeasures:
        """Return what was measured of a step."""
        width = self.problem.machine.element_bytes
        step, read = self.plan.steps[number], self.steps[number]
        loaded, saved = (
            width * sum(int(counts[number]) for counts in table.values())
            for table in (report.loaded, report.written)
        )
        on_chip = {
            name: int(counts[number]) * width for name, counts in report.footprint.items() if counts[number]
        }
        found = self.problem.spent(spent) if self.problem.timed else {}
        return StepMeasures(
            order=step.order,
            pixels=step.pixels,
            kernels=step.kernels,
            columns=step.columns,
            channels=step.channels,
            passes=count_passes(read.group, read.choice.shape) * count_rounds(read.group, read.choice.shape),
            loaded_bytes=loaded,
            saved_bytes=saved,
            memory_bytes=sum(on_chip.values()),
            on_chip_bytes=on_chip,
            cycles=found.get("cycles"),
            energy_fj=found.get("energy"),
            double_buffering=True if found and step.double_buffering else None,
        )


class _Executed:
    """The execution of one step.

    Attributes
    ----------
    footprint
        Elements of everything that is on chip.
    """

    def __init__(self, run: _Run, step: Step, told: DecodedStep) -> None:
        self.run_, self.step, self.told = run, step, told
        self.graph, self.group, self.shape = run.graph, told.group, told.choice.shape
        self.chip, self.dram = run.chip, run.dram
        strips = planes_or_strips(self.group, self.shape)
        self.cut = strips if isinstance(strips, Strips) else None
        self.whole = frozenset(members(told.on_chip))
        self.buffers = step_buffers(self.group, self.shape, self.whole)
        self.held = line_pixels(self.group, self.shape)
        if self.shape.doubled:
            self.held = self.group.double_buffered_line_pixels(
                self.shape.pixels, count_rounds(self.group, self.shape), self.whole
            )
        self.strip = 0
        self.windows = Windows()
        self._seen: Numbers | None = None  # pixels that have been read last, and where they are
        self._seen_at: dict[tuple[object, ...], tuple[Numbers, Numbers]] = {}
        self.footprint: dict[str, int] = {}
        # Weights are looked at when they are first used after a load, and once more at the end of the step.
        self.weights: dict[int, tuple[Numbers, Values]] = {}
        self.turn = self.job = self.time = (
            0  # of steps with second buffers: block, pass of all, what they took
        )
        self.stores: list[tuple[Numbers, Numbers]] = []

    def spent(self) -> Spent:
        """Return what has been spent, transfers being what is moved of one tensor in one direction."""
        prices, dram = self.run_.problem.prices, self.dram
        transfers, moved = len(dram.loaded) + len(dram.written), self._moved()
        work = self.run_.work
        time = self.time if self.shape.doubled else prices.core(work) + prices.transfer(moved)
        return Spent(moved, time + prices.setup(transfers), prices.energy(moved, work, transfers))

    def _moved(self) -> int:
        return sum(self.dram.loaded.values()) + sum(self.dram.written.values())

    def run(self) -> None:
        """Execute the step."""
        run, choice, step, graph = self.run_, self.told.choice, self.step, self.graph
        for tensor in members(choice.dropped):
            run.where.pop(tensor)
        for tensor in members(choice.fetched):
            run.where[tensor] = step.addresses[graph.tensors[tensor].key]
        for tensor in members(choice.resident):
            run.where[tensor] = step.addresses[graph.tensors[tensor].key]
        self._count_footprint()
        for tensor in members(choice.fetched):
            self._load(tensor, np.arange(graph.tensors[tensor].pixels))
        if self.shape.order in tiles.SUMMED:
            number = self.group.last.number
            weights = run._weights(self.group.last)
            InBlocks(run, step, self.told, len(graph.tensors) + len(graph.operations) + number, weights).run()
        elif self.shape.doubled:
            self._doubled()
        elif self.shape.order == "kernels":
            operation, size = self.group.last, self.shape.kernels
            for begin in range(0, operation.units, size):
                block = begin, min(begin + size, operation.units)
                self._passes(self._channels(operation, block), block)
        else:
            for operation in self.group.operations:
                if operation.number in self.shape.kept:
                    self._load_weights(operation, (0, operation.units))
            self._passes(None, None)
        for number, (span, _) in self.weights.items():
            self._fetch_weights(self.graph.operations[number], span)
        done = self.told.before.done
        for tensor in [tensor for tensor in run.where if self.group.is_last_reader(tensor, done)]:
            run.where.pop(tensor)

    def _doubled(self) -> None:
        """Execute all passes with second buffers.

        In each slot all is first loaded that the next pass needs, then a pass is computed, then all is
        written that the one before it has computed: so what could overwrite something still needed does.
        """
        prices, size = self.run_.problem.prices, self.shape.pixels
        ends = self.group.ends(size)
        blocks: list[tuple[int, int] | None] = [None]
        if self.shape.order == "kernels":
            units, each = self.group.last.units, self.shape.kernels
            blocks = [(begin, min(begin + each, units)) for begin in range(0, units, each)]
        else:
            for operation in self.group.operations:
                self._load_weights(operation, (0, operation.units))
        self.time += prices.transfer(self._moved())
        jobs = [
            (turn, block, number)
            for turn, block in enumerate(blocks)
            for number in range(len(ends[self.group.output]) - 1)
        ]
        waiting: list[tuple[Numbers, Numbers]] = []
        for slot in range(-1, len(jobs) + 1):
            moved, work = self._moved(), self.run_.work
            if slot + 1 < len(jobs):
                self.turn, block, number = jobs[slot + 1]
                self._load_for(number, ends, block)
            if 0 <= slot < len(jobs):
                self.job, (self.turn, block, number) = slot, jobs[slot]
                self.weights.clear()
                self._compute_all(number, ends, block)
            for cells, numbers in waiting:
                self.dram.write(numbers, self.chip.fetch(cells, numbers))
                self.run_.transfers += 1
            waiting, self.stores = self.stores, []
            core = self.run_.work.minus(work)
            self.time += max(prices.core(core), prices.transfer(self._moved() - moved))

    def _load_for(self, number: int, ends: dict[int, Numbers], block: tuple[int, int] | None) -> None:
        """Load what a pass needs, and the block of weights that begins with it."""
        if block is not None and not number:
            self._load_weights(self.group.last, block)
        for tensor in self.group.sources:
            if tensor not in self.whole:
                pixels = self._pixels(tensor, ends[tensor][number], ends[tensor][number + 1])
                channels = None if block is None else self._channels(self.group.last, block)
                self._load(tensor, pixels, channels if self.group.last.channelwise else None)

    def _compute_all(self, number: int, ends: dict[int, Numbers], block: tuple[int, int] | None) -> None:
        """Compute a pass."""
        if time.monotonic() > self.run_.deadline:
            raise OutOfTimeError
        channels = None if block is None else self._channels(self.group.last, block)
        for operation in self.group.operations:
            first, end = ends[operation.number + 1][number : number + 2]
            if first < end:
                self._compute(operation, self._pixels(operation.number + 1, first, end), channels, block)

    def _half(self, what: str, number: int, turn: int) -> int:
        """Return the first element of the half of a buffer whose turn it is."""
        if not self.shape.doubled:
            return 0
        size = next(each.size for each in self.buffers if each[:2] == (what, number))
        return turn % 2 * (size // 2)

    def _count_footprint(self) -> None:
        """Note what is on chip, and how far up; a part of it may never be written to."""
        graph, choice, placed = self.graph, self.told.choice, dict[str, int]()
        for number, at in self.run_.staying.items():
            operation = graph.operations[number]
            placed[key_of("weights", operation.name)] = at
            self.footprint[key_of("weights", operation.name)] = operation.staying
        for tensor, at in sorted(self.run_.where.items()):
            if tensor != choice.in_place:
                placed[graph.tensors[tensor].key] = at
                self.footprint[graph.tensors[tensor].key] = graph.tensors[tensor].size
        for buffer in self.buffers:
            key = buffer.name(graph)
            placed[key], self.footprint[key] = self.step.addresses[key], buffer.size
        self.run_.top = max(self.run_.top, *(placed[key] + size for key, size in self.footprint.items()))

    def _channels(self, operation: Operation, block: tuple[int, int]) -> tuple[int, int]:
        """Return the output channels of a block."""
        if operation.units == 1:
            return 0, self.graph.tensors[operation.number + 1].channels
        return block

    def _passes(self, channels: tuple[int, int] | None, block: tuple[int, int] | None) -> None:
        """Execute all passes, in order ``kernels`` for a block of output channels."""
        group = self.group
        if block is not None:
            self._load_weights(group.last, block)
        if self.cut is None:
            self._over(group, self.shape.pixels, channels, block)
            return
        for place, strip in enumerate(self.cut.strips):
            self.strip = place
            self._over(strip, self.cut.own(strip, self.shape.pixels), channels, block)

    def _over(
        self, group: Group, size: int, channels: tuple[int, int] | None, block: tuple[int, int] | None
    ) -> None:
        """Execute the passes over whole planes or over a strip."""
        ends = group.ends(size)
        streamed = [tensor for tensor in group.sources if tensor not in self.whole]
        for number in range(group.count_passes(size)):
            if time.monotonic() > self.run_.deadline:
                raise OutOfTimeError
            for tensor in streamed:
                pixels = self._pixels(tensor, ends[tensor][number], ends[tensor][number + 1])
                self._load(tensor, pixels, channels if group.last.channelwise else None)
            for operation in self.group.operations:
                first, end = ends[operation.number + 1][number : number + 2]
                if first < end:
                    self._compute(operation, self._pixels(operation.number + 1, first, end), channels, block)

    def _columns(self, tensor: int) -> tuple[int, int, int]:
        """Return the first column and the end of what the strip has of a tensor, and the columns of all."""
        width = self.graph.tensors[tensor].shape[2]
        if self.cut is None:
            return 0, width, width
        begins, ends = self.cut.span(tensor)
        return int(begins[self.strip]), int(ends[self.strip]), width

    def _pixels(self, tensor: int, first: int, end: int) -> Numbers:
        """Return the pixels that have some numbers in the strip."""
        low, high, width = self._columns(tensor)
        rows, columns = np.divmod(np.arange(first, end), high - low)
        return rows * width + columns + low

    def _new(self, tensor: int, pixels: Numbers) -> NDArray[np.bool_]:
        """Whether no earlier strip has computed them."""
        before = self.cut.span(tensor)[1][self.strip - 1] if self.cut is not None and self.strip else 0
        new: NDArray[np.bool_] = pixels % self.graph.tensors[tensor].shape[2] >= before
        return new

    def _compute(
        self,
        operation: Operation,
        pixels: Numbers,
        channels: tuple[int, int] | None,
        block: tuple[int, int] | None,
    ) -> None:
        """Compute some pixels: of a block of channels, or block by block if weights are not kept."""
        if block is not None:
            assert channels is not None
            self._block(operation, pixels, channels, block)
            return
        if computed_whole(operation, self.shape):
            if operation.weights and operation.number not in self.shape.kept:
                self._load_weights(operation, (0, operation.units))
            every = 0, operation.units
            self._block(operation, pixels, self._channels(operation, every), every)
            return
        size = min(self.shape.kernels, operation.units)
        for begin in range(0, count_blocks(operation, self.shape) * size, size):
            part = begin, min(begin + size, operation.units)
            self._load_weights(operation, part)
            self._block(operation, pixels, part, part)

    def _block(
        self,
        operation: Operation,
        pixels: Numbers,
        channels: tuple[int, int],
        block: tuple[int, int],
    ) -> None:
        weights = self._read_weights(operation, block)
        planes = [self.graph.tensors[producer + 1].shape for producer in operation.op.producers]
        sources = [producer + 1 for producer in operation.op.producers]
        blocked = channels if self.shape.order == "kernels" and operation.channelwise else None
        offsets = self._offsets(operation)

        def read(place: int, wanted: Numbers, first: int, last: int) -> Values:
            return self._read(sources[place], wanted, first, last, blocked, offsets[place])

        values = computed(operation, planes, read, weights, pixels, channels, self.windows, self.run_.numeric)
        self.run_.macs += (
            operation.op.macs
            * len(pixels)
            * (channels[1] - channels[0])
            // (max(1, self.graph.tensors[operation.number + 1].size))
        )
        done = work_of_value(operation).times(len(pixels) * (channels[1] - channels[0]))
        self.run_.work = self.run_.work.plus(done)
        tensor = operation.number + 1
        span = np.arange(*channels)
        numbers = self._numbers(tensor, pixels, *channels)
        if tensor == self.group.output and tensor not in self.whole:
            local = np.arange(len(pixels))[:, None] * len(span) + np.arange(len(span))
            cells = self.step.addresses[key_of("block", self.graph.tensors[tensor].name)] + local
            cells = cells + self._half("block", tensor, self.job)
        else:
            cells = self._cells(tensor, pixels, *channels, None, 0)
        self.chip.store(cells, numbers, values)
        if self.told.choice.written >> tensor & 1:
            new = self._new(tensor, pixels)
            if self.shape.doubled:
                self.stores.append((cells[new], numbers[new]))
                return
            self.dram.write(numbers[new], self.chip.fetch(cells[new], numbers[new]))
            self.run_.transfers += 1

    # Where things are --------------------------------------------------------------------------------

    def _offsets(self, operation: Operation) -> list[int]:
        """Return the first channel of each operand, where they are concatenated."""
        if operation.op.spec.kind in ("add", "mul"):
            return [0] * len(operation.op.producers)
        found, total = [], 0
        for producer in operation.op.producers:
            found.append(total)
            total += self.graph.tensors[producer + 1].channels
        return found

    def _numbers(self, tensor: int, pixels: Numbers, first: int, last: int) -> Numbers:
        channels = self.graph.tensors[tensor].channels
        return self.run_.elements.of(tensor, pixels[:, None] * channels + np.arange(first, last))

    def _cells(
        self,
        tensor: int,
        pixels: Numbers,
        first: int,
        last: int,
        blocked: tuple[int, int] | None,
        offset: int,
    ) -> Numbers:
        """Return the addresses of some pixels and channels.

        Parameters
        ----------
        blocked
            Channels of the block that line buffers are for, if they are not for all.
        offset
            First channel of the tensor among those.
        """
        channels = self.graph.tensors[tensor].channels
        if tensor in self.run_.where:
            return self.run_.where[tensor] + pixels[:, None] * channels + np.arange(first, last)
        base = self.step.addresses[key_of("lines", self.graph.tensors[tensor].name)]
        begin = 0
        if blocked is not None:
            begin, channels = max(0, blocked[0] - offset), min(channels, self.shape.kernels)
        low, high, width = self._columns(tensor)
        rows, columns = np.divmod(pixels, width)
        earlier = self.turn * self.graph.tensors[tensor].pixels
        slots = (earlier + rows * (high - low) + columns - low) % self.held[tensor]
        return base + slots[:, None] * channels + np.arange(first - begin, last - begin)

    def _read(
        self,
        tensor: int,
        pixels: Numbers,
        first: int,
        last: int,
        blocked: tuple[int, int] | None,
        offset: int,
    ) -> Values:
        if pixels is not self._seen:  # blocks of channels read the same ones, one after the other
            self._seen, self._seen_at = pixels, {}
        key = tensor, first, last, blocked, offset
        if key not in self._seen_at:
            cells = self._cells(tensor, pixels, first, last, blocked, offset)
            self._seen_at[key] = cells, self._numbers(tensor, pixels, first, last)
        return self.chip.fetch(*self._seen_at[key])

    def _load(self, tensor: int, pixels: Numbers, block: tuple[int, int] | None = None) -> None:
        """Load some pixels of a tensor; in order ``kernels`` perhaps only the channels of a block."""
        if not pixels.size:
            return
        channels = self.graph.tensors[tensor].channels
        spans = [((0, channels), 0)]
        if block is not None:
            places = [
                offset
                for producer, offset in zip(
                    self.group.last.op.producers, self._offsets(self.group.last), strict=True
                )
                if producer + 1 == tensor
            ]
            spans = [
                ((max(0, block[0] - offset), min(channels, block[1] - offset)), offset)
                for offset in dict.fromkeys(places)
            ]
        for (first, last), offset in spans:
            if first >= last:
                continue
            numbers = self._numbers(tensor, pixels, first, last)
            cells = self._cells(tensor, pixels, first, last, block, offset)
            self.chip.store(cells, numbers, self.dram.load(numbers))
            self.run_.transfers += 1

    def _weights_span(self, operation: Operation, block: tuple[int, int]) -> Numbers:
        every = operation.parameters
        each = -(-every // operation.units)
        return np.arange(min(block[0] * each, every), min(block[1] * each, every))

    def _load_weights(self, operation: Operation, block: tuple[int, int]) -> None:
        span = self._weights_span(operation, block)
        self.weights.pop(operation.number, None)
        if span.size and not operation.staying:
            numbers = self.run_.elements.of(self.run_._weights(operation), span)
            cells = self._weights_at(operation, span) + np.arange(len(span))
            self.chip.store(cells, numbers, self.dram.load(numbers))
            self.run_.transfers += 1

    def _read_weights(self, operation: Operation, block: tuple[int, int]) -> Values:
        span = self._weights_span(operation, block)
        if not span.size:
            return np.zeros(0, dtype=np.int64)
        if operation.number in self.weights:
            return self.weights[operation.number][1]
        values = self._fetch_weights(operation, span)
        self.weights[operation.number] = span, values
        return values

    def _fetch_weights(self, operation: Operation, span: Numbers) -> Values:
        numbers = self.run_.elements.of(self.run_._weights(operation), span)
        cells = self._weights_at(operation, span) + np.arange(len(span))
        return self.chip.fetch(cells, numbers)

    def _weights_at(self, operation: Operation, span: Numbers) -> int:
        """Return the first address of some of an operation's weights."""
        if operation.staying:
            return self.run_.staying[operation.number] + int(span[0])
        half = (
            0 if operation.number in self.shape.kept else self._half("weights", operation.number, self.turn)
        )
        return self.step.addresses[key_of("weights", operation.name)] + half
