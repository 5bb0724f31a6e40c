"""Lower a plan to a program: a step for each beat of each layer, at the cycle that the schedule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.allocation.geometry import Numbers
from tilewright.allocation.machine import HOST, INPUT
from tilewright.allocation.off_chip import NOT_READ, channels_of, name_of, readers_of
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import Schedule
from tilewright.allocation.stages import HostStep, Stage
from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.simulator.columns import COMPUTE, FREE, LOAD, READ, WRITE, Key, StepTable, TabledSteps
from tilewright.simulator.operations import WindowBeat
from tilewright.simulator.program import Region, Values

BUFFERS, OFF_CHIP = "buffers", "off-chip"
"""Memories: that of the array, and what lies beyond it and is streamed from and to."""

ARRAY = "PEs"
"""Engine of layers that take turns on the same PEs."""

WHOLE = Box((None,) * 4)
"""All of a tensor; each of them has four axes."""

FIRST_READ = 10
"""Rank of a compute's operands among the events of its step, after what is freed and moved."""


PIXEL_MOVES = (Free, WriteBack, Load)
"""What happens to pixels, in the order of a step."""


class Runs(NamedTuple):
    """Runs of pixels in a row to which the same happens, in the order of steps; all of shape (runs,).

    Attributes
    ----------
    step
        Before which step.
    move
        What happens: an index of `PIXEL_MOVES`.
    stage, frame, row
        Of the pixels; stage -1 is the network's input.
    begin, end
        Their columns.
    """

    step: Numbers
    move: Numbers
    stage: Numbers
    frame: Numbers
    row: Numbers
    begin: Numbers
    end: Numbers


class Events(NamedTuple):
    """Events of one form.

    Attributes
    ----------
    form
        What happens.
    steps : int, shape (n,)
        In which steps.
    rank
        Their order among the events of a step.
    low, high : int, shape (n, 4)
        Bounds of the regions.
    """

    form: Key
    steps: Numbers
    rank: int
    low: Numbers
    high: Numbers


def on_host(step: HostStep) -> str:
    """Return the name of the tensor that stands for what an operation of the host computes."""
    return f"{step.name} on the host"


def weights_of(stage: Stage) -> str:
    """Return the name of a stage's weights."""
    return f"{stage.name} weights"


def engines_of(problem: Problem) -> tuple[str, ...]:
    """Return the names of what computes one beat at a time.

    In a pipeline each layer has PEs of its own. Layers that take turns have the same ones, so that no two of
    them may compute at a time.
    """
    return tuple(stage.name for stage in problem.stages) if problem.parallel else (ARRAY,)


def workers_of(problem: Problem) -> tuple[str, ...]:
    """Return the names of all that computes: `engines_of`, and the host where layers wait for it."""
    return (*engines_of(problem), HOST) if problem.steps else engines_of(problem)


class Lowering:
    """A program of some frames that follow each other, and what each of its steps is of.

    Parameters
    ----------
    frames
        One, if the layers take turns.

    Attributes
    ----------
    stage, beat, frame, start
        Of each step that computes, in their order. Operations of the host are counted behind the layers, and
        have a beat.
    """

    def __init__(self, schedule: Schedule, frames: int) -> None:
        self.schedule, self.problem, self.frames = schedule, schedule.problem, frames
        self.scan = schedule.scan
        always = (INPUT,) if self.problem.machine.off_chip and self.problem.parallel else ()
        self.spilled = (*always, *schedule.plan.spilled)
        self.end = schedule.latency + (frames - 1) * schedule.interval
        counts = np.array((*schedule.beats, *(1 for _ in self.problem.steps)))
        paces = np.array((*schedule.paces, *self.problem.step_cycles))
        stage = np.repeat(np.arange(len(counts)), counts)
        beat = np.arange(len(stage)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = np.array((*schedule.starts, *schedule.host_starts))[stage] + beat * paces[stage]
        frame = np.repeat(np.arange(frames), len(stage))
        stage, beat = np.tile(stage, frames), np.tile(beat, frames)
        start = np.tile(start, frames) + frame * schedule.interval
        # Of beats that begin together producers come first.
        order = np.lexsort((stage, frame, start))
        self.stage, self.beat, self.frame, self.start = (c[order] for c in (stage, beat, frame, start))

    def words_exchanged(self) -> list[tuple[int, int]]:
        """Return the words that beats of each layer read in buffers and compute, in the first frame."""
        shapes = {tensor.name: tensor.shape for tensor in self._tensors()}
        found = []
        for stage in self.problem.stages:
            words = {READ: 0, COMPUTE: 0}
            for event in _Beats(self, stage).events(shapes):
                if self.problem.parallel and event.form[1] == weights_of(stage) and not self._stays(stage):
                    continue  # they come from off chip
                sizes = (event.high - event.low).prod(axis=1)
                words[event.form[0]] += int(sizes[self.frame[event.steps] == 0].sum())
            found.append((words[READ], words[COMPUTE]))
        return found

    def program(self) -> Program:
        """Return the program."""
        machine, steps = self.problem.machine, len(self.start) + 1
        return Program(
            tensors=tuple(self._tensors()),
            memories=(Memory(BUFFERS, machine.buffer_words), Memory(OFF_CHIP)),
            engines=tuple(map(Engine, (*workers_of(self.problem), "load", "write"))),
            steps=TabledSteps(steps, self._steps, self._table),
            preloaded=tuple(self._preloaded()),
            buffers=steps,  # every layer looks ahead as far as its buffer allows
        )

    def _tensors(self) -> Iterator[Tensor]:
        parallel, schedule = self.problem.parallel, self.schedule
        outside = parallel and INPUT not in self.spilled
        for given in self.problem.given:
            yield Tensor(
                given.name,
                (self.frames, *given.shape),
                "input",
                OFF_CHIP if outside else BUFFERS,
                buffer=schedule.input_buffer if parallel and not outside else None,
            )
        for step in self.problem.steps:
            yield Tensor(on_host(step), (self.frames, 1, 1, 1), "intermediate", OFF_CHIP)
        for stage in self.problem.stages:
            inside = bool(self.problem.consumers[stage.number])
            yield Tensor(
                stage.name,
                (self.frames, stage.channels, stage.task.rows, stage.task.columns),
                "output" if stage.leaves else "intermediate",
                BUFFERS if inside or not parallel else OFF_CHIP,
                macs_per_element=stage.macs_per_value,
                buffer=schedule.buffers[stage.number] if inside and parallel else None,
            )
            if stage.weights:
                memory = BUFFERS if self._stays(stage) or not parallel else OFF_CHIP
                yield Tensor(weights_of(stage), stage.weights_shape, "kernels", memory)

    def _preloaded(self) -> Iterator[tuple[str, Box]]:
        """Yield what is there before the first frame: weights that stay, and what a pipeline streams."""
        parallel = self.problem.parallel
        if parallel and INPUT not in self.spilled:
            for given in self.problem.given:
                if not given.waits:
                    yield given.name, WHOLE
        for stage in self.problem.stages:
            if stage.weights and (parallel or self._stays(stage)):
                yield weights_of(stage), WHOLE

    def _labels(self) -> list[str]:
        """Return the labels of all steps."""
        names = [*(stage.name for stage in self.problem.stages), *map(on_host, self.problem.steps)]
        columns = zip(self.stage.tolist(), self.frame.tolist(), self.beat.tolist(), strict=True)
        return [*(f"{names[stage]} {frame}.{beat}" for stage, frame, beat in columns), "end"]

    def _steps(self) -> Iterator[Step]:
        """Make the steps in the order of time; the last one clears what is left."""
        runs_of, moves = self._runs(), self._moves()
        beats = self._workers()
        runs = zip(*(column.tolist() for column in runs_of), strict=True)
        columns = (self._labels(), [*self.start.tolist(), self.end])
        run = next(runs, None)
        for number, (label, start) in enumerate(zip(*columns, strict=True)):
            here: list[Free | WriteBack | Load] = []
            while run is not None and run[0] == number:
                _, move, stage, frame, row, begin, end = run
                region = Box(((frame, frame + 1), None, (row, row + 1), (begin, end)))
                here.append(PIXEL_MOVES[move](name_of(self.problem, stage), region))
                run = next(runs, None)
            here += moves.get(number, [])
            last = number == len(self.start)
            compute = () if last else (beats[self.stage[number]].at(*self._of(number)),)
            yield Step(
                free=tuple(move for move in here if isinstance(move, Free)),
                write_back=tuple(move for move in here if isinstance(move, WriteBack)),
                load=tuple(move for move in here if isinstance(move, Load)),
                compute=compute,
                label=label,
                start=start,
            )

    def _workers(self) -> list[_Beats | _HostWork]:
        """Return what computes, in the order in which `stage` counts."""
        layers = [_Beats(self, stage) for stage in self.problem.stages]
        return [*layers, *(_HostWork(self, number) for number in range(len(self.problem.steps)))]

    def _of(self, step: int) -> tuple[int, int]:
        return int(self.frame[step]), int(self.beat[step])

    def _table(self) -> StepTable:
        """Return the same steps as columns."""
        parts: list[Events] = []
        runs = self._runs()
        for stage_number, move in np.unique(np.column_stack([runs.stage, runs.move]), axis=0).tolist():
            chosen = (runs.stage == stage_number) & (runs.move == move)
            mine = Runs(*(column[chosen] for column in runs))
            channels = np.full(len(mine.step), channels_of(self.problem, stage_number))
            low = np.column_stack([mine.frame, 0 * channels, mine.row, mine.begin])
            high = np.column_stack([mine.frame + 1, channels, mine.row + 1, mine.end])
            key = _key(PIXEL_MOVES[move](name_of(self.problem, stage_number), WHOLE))
            parts.append(Events(key, mine.step, 1 + key[0], low, high))
        shapes = {tensor.name: tensor.shape for tensor in self._tensors()}
        for step, moves in self._moves().items():
            for move in moves:
                key, spans = _key(move), zip(_ranges(move.region), shapes[move.tensor], strict=True)
                bounds = np.array([span or (0, length) for span, length in spans]).T
                parts.append(Events(key, np.array([step]), 1 + key[0], bounds[:1], bounds[1:]))
        for worker in self._workers():
            parts += worker.events(shapes)
        forms = list(dict.fromkeys(part.form for part in parts))
        number_of = {key: number for number, key in enumerate(forms)}
        counts = [len(part.steps) for part in parts]
        steps = np.concatenate([part.steps for part in parts])
        order = np.lexsort((np.repeat([part.rank for part in parts], counts), steps))
        return StepTable(
            self._labels(),
            np.append(self.start, self.end),
            forms,
            steps[order] + 1,
            np.repeat([number_of[part.form] for part in parts], counts)[order],
            np.concatenate([part.low for part in parts])[order],
            np.concatenate([part.high for part in parts])[order],
        )

    def _moves(self) -> dict[int, list[Free | Load | WriteBack]]:
        """Return what is moved or freed as a whole before which step.

        Outputs that no layer reads are written back at the end, or each after its layer's turn; layer by
        layer, input and weights are loaded and freed in turn, and else freed at the end.
        """
        moves: dict[int, list[Free | Load | WriteBack]] = {}
        stages, schedule = self.problem.stages, self.schedule

        def at(cycle: int, move: Free | Load | WriteBack) -> None:
            # What begins at the end takes no time, and is before it.
            step = len(self.start) if cycle == self.end else int(np.searchsorted(self.start, cycle))
            moves.setdefault(step, []).append(move)

        for name, _ in self._preloaded():
            at(self.end, Free(name, WHOLE))
        for step in self.problem.steps:
            at(self.end, Free(on_host(step), WHOLE))
        turns: list[tuple[str, int, int]] = []
        if self.problem.parallel:
            self._arrivals(at)
        else:
            for place, given in enumerate(self.problem.given):
                readers = readers_of(self.problem, -1 - place)
                if readers and given.name not in self.spilled:
                    turns.append((given.name, schedule.starts[readers[0]], schedule.ends[readers[-1]]))
            turns += [
                (weights_of(stage), begin, end)
                for stage, begin, end in zip(stages, schedule.starts, schedule.ends, strict=True)
                if stage.weights and not self._stays(stage)
            ]
        for name, begin, end in turns:
            at(begin, Load(name, WHOLE))
            at(end, Free(name, WHOLE))
        for stage in stages:
            if not self.problem.consumers[stage.number] and stage.name not in self.spilled:
                end = self.end if self.problem.parallel else schedule.ends[stage.number]
                at(end, WriteBack(stage.name, WHOLE))
        return moves

    def _arrivals(self, at: Callable[[int, Free | Load], None]) -> None:
        """Let maps come that the host, or the array, has computed before: each frame when it is there."""
        for given in self.problem.given:
            if given.waits:
                for frame in range(self.frames):
                    region = Box(((frame, frame + 1), None, None, None))
                    at(self.schedule.there(given) + frame * self.schedule.interval, Load(given.name, region))
                at(self.end, Free(given.name, WHOLE))

    # Buffers -----------------------------------------------------------------------------------------

    def _runs(self) -> Runs:
        """Return what happens to pixels before which step.

        One that stays on chip is freed at the first step after its last use, and if it also leaves the array,
        written back then. One of a spilled map is written back after the beat that computes it, loaded before
        the first one that needs it, and freed after the last one.
        """
        parts = [np.zeros((6, 0), dtype=np.int64)]
        for number, move, times in self._pixel_moves():
            there = times != NOT_READ
            rows, columns = np.indices(times.shape)
            for frame in range(self.frames):
                step: Numbers = np.searchsorted(self.start, times + frame * self.schedule.interval)
                same = (np.full_like(step, value) for value in (move, number, frame))
                parts.append(np.stack([step, *same, rows, columns])[:, there])
        table = np.concatenate(parts, axis=1)
        table = table[:, np.lexsort(table[::-1])]
        # Neighbours in a row to which the same happens are one region.
        joined = np.zeros(table.shape[1], dtype=np.bool_)
        joined[1:] = (table[:5, 1:] == table[:5, :-1]).all(axis=0) & (table[5, 1:] == table[5, :-1] + 1)
        first = np.flatnonzero(~joined)
        last = np.append(first[1:], len(joined)) - 1 if len(first) else first
        step, move, number, frame, row, begin = table[:, first]
        return Runs(step, move, number, frame, row, begin, table[5, last] + 1)

    def _pixel_moves(self) -> Iterator[tuple[int, int, Numbers]]:
        """Yield a map, what happens to its pixels, and when in the first frame; `NOT_READ` is never."""
        problem, schedule = self.problem, self.schedule
        free, write, load = range(len(PIXEL_MOVES))
        for number in range(-1, len(problem.stages)):
            readers = readers_of(problem, number)
            if name_of(problem, number) not in self.spilled:
                if number >= 0 and readers:
                    leaves = problem.stages[number].leaves
                    yield number, write if leaves else free, schedule.lifetimes(number)[1]
                continue
            if number >= 0:
                own = self.scan.beats(problem.stages[number], schedule.plan.splits[number].rows)
                yield number, write, schedule.starts[number] + (own + 1) * schedule.paces[number]
            for reader in (None,) if problem.parallel else readers:
                needed = schedule.windowed(number, reader)
                if needed is not None:
                    yield number, load, needed[0]
                    yield number, free, np.where(needed[1] > 0, needed[1], NOT_READ)

    def _stays(self, stage: Stage) -> bool:
        """Whether weights are on chip all the time."""
        if self.problem.parallel or self.problem.machine.off_chip is not None:
            return stage.name not in self.schedule.plan.streamed
        return False


class _Beats:
    """The compute actions of one layer.

    Attributes
    ----------
    rows, columns
        Where the output rows and columns of each beat begin and end.
    bands, across
        Runs of rows and of columns that the windows read, and which beats have such a run.
    """

    def __init__(self, lowering: Lowering, stage: Stage) -> None:
        schedule, problem = lowering.schedule, lowering.problem
        split = schedule.plan.splits[stage.number]
        windows = schedule.scan.windows[stage.number]
        own = schedule.scan.beats(stage, split.rows)
        # The first pixel of each beat; the others of a row group lie below it.
        first = np.full(int(own.max()) + 1, own.size, dtype=np.int64)
        np.minimum.at(first, own.ravel(), np.arange(own.size))
        row, column = np.divmod(first, stage.task.columns)
        last = np.minimum(row + split.rows, stage.task.rows)
        self.rows, self.columns = (row, last), (column, column + 1)
        self.bands, self.across = windows.runs(0, row, last), windows.runs(1, column, column + 1)
        self.lowering, self.stage, self.pace = lowering, stage, schedule.paces[stage.number]
        self.engine = stage.name if problem.parallel else ARRAY
        self.inputs = tuple(name_of(problem, producer) for producer in stage.producers)
        self.operands = tuple(dict.fromkeys(self.inputs))
        self.weights = weights_of(stage) if stage.weights else None

    def at(self, frame: int, beat: int) -> Compute:
        """Return the compute of one beat of a frame."""
        now = (frame, frame + 1)
        rows, columns = ((int(begin[beat]), int(end[beat])) for begin, end in (self.rows, self.columns))
        bands, across = (
            [(int(begin[beat]), int(end[beat])) for begin, end, there in runs if there[beat]]
            for runs in (self.bands, self.across)
        )
        windows = [Box((now, None, *run)) for run in product(bands, across)]
        kernels = () if self.weights is None else ((self.weights, WHOLE),)
        return Compute(
            self.stage.name,
            Box((now, None, rows, columns)),
            (*((name, window) for name in self.operands for window in windows), *kernels),
            self.stage.macs_per_value,
            WindowBeat(self.stage.spec, self.inputs, self.weights, frame, rows, columns),
            engine=self.engine,
            cycles=self.pace,
        )

    def events(self, shapes: dict[str, tuple[int, ...]]) -> Iterator[Events]:
        """Return the events of all beats of all frames, from the shapes of the tensors."""
        name, engine, rank = self.stage.name, self.engine, FIRST_READ
        steps = np.flatnonzero(self.lowering.stage == self.stage.number)
        frames, beats = self.lowering.frame[steps], self.lowering.beat[steps]

        def bounds(
            tensor: str, chosen: Numbers, rows: tuple[Numbers, Numbers], columns: tuple[Numbers, Numbers]
        ) -> tuple[Numbers, Numbers]:
            frame, beat = frames[chosen], beats[chosen]
            channels = np.full(len(frame), shapes[tensor][1])
            low = np.column_stack([frame, 0 * channels, rows[0][beat], columns[0][beat]])
            return low, np.column_stack([frame + 1, channels, rows[1][beat], columns[1][beat]])

        every = np.arange(len(steps))
        for operand in self.operands:
            key: Key = (READ, operand, engine, 0, 0, 0, 0, name)
            for (*rows, high_there), (*columns, wide_there) in product(self.bands, self.across):
                chosen = every[(high_there & wide_there)[beats]]
                low, high = bounds(operand, chosen, (rows[0], rows[1]), (columns[0], columns[1]))
                yield Events(key, steps[chosen], rank, low, high)
                rank += 1
        if self.weights is not None:
            high = np.tile(shapes[self.weights], (len(steps), 1))
            yield Events((READ, self.weights, engine, 0, 0, 0, 0, name), steps, rank, 0 * high, high)
        form: Key = (COMPUTE, name, engine, self.stage.macs_per_value, 0, 0, self.pace)
        yield Events(form, steps, rank + 1, *bounds(name, every, self.rows, self.columns))


class _HostWork:
    """The compute actions of an operation of the host, of which the simulator knows only when it is done.

    A tensor of one value for each frame stands for all that it computes.
    """

    def __init__(self, lowering: Lowering, number: int) -> None:
        self.lowering, self.number = lowering, number
        self.name = on_host(lowering.problem.steps[number])
        self.cycles = lowering.problem.step_cycles[number]

    def at(self, frame: int, _beat: int) -> Compute:
        """Return the compute of a frame."""
        region = Box(((frame, frame + 1), None, None, None))
        return Compute(self.name, region, (), 0, Done(), engine=HOST, cycles=self.cycles)

    def events(self, _shapes: dict[str, tuple[int, ...]]) -> Iterator[Events]:
        """Return the events of all frames."""
        steps = np.flatnonzero(self.lowering.stage == len(self.lowering.problem.stages) + self.number)
        high = np.ones((len(steps), 4), dtype=np.int64)
        high[:, 0] += self.lowering.frame[steps]
        form: Key = (COMPUTE, self.name, HOST, 0, 0, 0, self.cycles)
        yield Events(form, steps, FIRST_READ, high - 1, high)


@dataclass(frozen=True)
class Done:
    """What stands for the values that the host computes."""

    def __call__(self, chip: dict[str, Values]) -> Values:
        """Return a value."""
        return np.ones(1, dtype=np.int64)


def _ranges(region: Region) -> tuple[tuple[int, int] | None, ...]:
    assert isinstance(region, Box)
    return region.ranges


def _key(move: Free | Load | WriteBack) -> Key:
    """Return the form of what is freed or moved."""
    if isinstance(move, Free):
        return FREE, move.tensor
    return LOAD if isinstance(move, Load) else WRITE, move.tensor, move.engine, 0, 0


def tensor_elements(problem: Problem, frames: int) -> int:
    """Return the elements of all tensors of a program, as a numeric simulation holds them."""
    maps = sum(stage.channels * stage.task.rows * stage.task.columns for stage in problem.stages)
    maps += sum(prod(given.shape) for given in problem.given)
    return frames * maps + sum(stage.weights for stage in problem.stages)
