"""Lower a plan to a program: a step for each beat of each layer, at the cycle that the schedule says."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np

from tilewright.allocation.problem import Problem, Stage
from tilewright.allocation.schedule import Schedule
from tilewright.simulator import (
    Box,
    Compute,
    Engine,
    Free,
    LazySteps,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.simulator.operations import WindowBeat

BUFFERS, OFF_CHIP = "buffers", "off-chip"
"""Memories: that of the array, and what lies beyond it and is streamed from and to."""

INPUT = "input"
"""Name of the network's input, which no layer has."""

Range = tuple[int, int]


def weights_of(stage: Stage) -> str:
    """Return the name of a stage's weights."""
    return f"{stage.name} weights"


class Lowering:
    """A program of some frames that follow each other, and what each of its steps is of.

    Parameters
    ----------
    frames
        One, if the layers take turns.

    Attributes
    ----------
    stage, beat, frame, start
        Of each step that computes, in their order.
    """

    def __init__(self, schedule: Schedule, frames: int) -> None:
        self.schedule, self.problem, self.frames = schedule, schedule.problem, frames
        self.end = schedule.latency + (frames - 1) * schedule.interval
        stages = self.problem.stages
        counts = np.array(schedule.beats)
        stage = np.repeat(np.arange(len(stages)), counts)
        beat = np.arange(len(stage)) - np.repeat(np.cumsum(counts) - counts, counts)
        start = np.array(schedule.starts)[stage] + beat * np.array(schedule.paces)[stage]
        frame = np.repeat(np.arange(frames), len(stage))
        stage, beat = np.tile(stage, frames), np.tile(beat, frames)
        start = np.tile(start, frames) + frame * schedule.interval
        # Of beats that begin together producers come first.
        order = np.lexsort((stage, frame, start))
        self.stage, self.beat, self.frame, self.start = (c[order] for c in (stage, beat, frame, start))

    def program(self) -> Program:
        """Return the program."""
        machine, steps = self.problem.machine, len(self.start) + 1
        return Program(
            tensors=tuple(self._tensors()),
            memories=(Memory(BUFFERS, machine.buffer_words), Memory(OFF_CHIP)),
            engines=(*(Engine(stage.name) for stage in self.problem.stages), Engine("load"), Engine("write")),
            steps=LazySteps(steps, self._steps),
            preloaded=tuple(self._preloaded()),
            buffers=steps,  # every layer looks ahead as far as its buffer allows
        )

    def _tensors(self) -> Iterator[Tensor]:
        parallel, schedule = self.problem.parallel, self.schedule
        yield Tensor(INPUT, (self.frames, *_input(self.problem)), "input", OFF_CHIP if parallel else BUFFERS)
        for stage in self.problem.stages:
            inside = bool(self.problem.consumers[stage.number])
            yield Tensor(
                stage.name,
                (self.frames, stage.channels, stage.task.rows, stage.task.columns),
                "intermediate" if inside else "output",
                BUFFERS if inside or not parallel else OFF_CHIP,
                macs_per_element=stage.macs_per_value,
                buffer=schedule.buffers[stage.number] if inside and parallel else None,
            )
            if stage.weights:
                yield Tensor(weights_of(stage), stage.weights_shape, "kernels", BUFFERS)

    def _preloaded(self) -> Iterator[tuple[str, Box]]:
        if self.problem.parallel:
            yield INPUT, _whole(4)
            for stage in self.problem.stages:
                if stage.weights:
                    yield weights_of(stage), _whole(4)

    def _steps(self) -> Iterator[Step]:
        """Make the steps in the order of time; the last one clears what is left."""
        frees = self._freed()
        loads, clears = ({}, {}) if self.problem.parallel else self._turns()
        stores = self._stored()
        computes = [self._computes(stage) for stage in self.problem.stages]
        names = [stage.name for stage in self.problem.stages]
        columns = (self.stage.tolist(), self.beat.tolist(), self.frame.tolist(), self.start.tolist())
        free = next(frees, None)
        for number, (stage, beat, frame, start) in enumerate(zip(*columns, strict=True)):
            freed: list[Free] = []
            while free is not None and free[0] == number:
                freed.append(free[1])
                free = next(frees, None)
            yield Step(
                free=(*freed, *clears.get(number, ())),
                write_back=tuple(stores.get(number, ())),
                load=tuple(loads.get(number, ())),
                compute=(computes[stage].at(frame, beat),),
                label=f"{names[stage]} {frame}.{beat}",
                start=start,
            )
        last = [free[1], *(found for _, found in frees)] if free is not None else []
        kept = [Free(name, region) for name, region in self._preloaded()]
        last += clears.get(len(self.start), ())
        stored = tuple(stores.get(len(self.start), ()))
        yield Step(free=(*last, *kept), write_back=stored, label="end", start=self.end)

    def _stored(self) -> dict[int, list[WriteBack]]:
        """Return what is written back before which step: outputs at the end, or of a layer after its turn."""
        stores: dict[int, list[WriteBack]] = {}
        for stage in self.problem.stages:
            if not self.problem.consumers[stage.number]:
                end = self.end if self.problem.parallel else self.schedule.ends[stage.number]
                place = int(np.searchsorted(self.start, end))
                stores.setdefault(place, []).append(WriteBack(stage.name, _whole(4)))
        return stores

    # Buffers -----------------------------------------------------------------------------------------

    def _freed(self) -> Iterator[tuple[int, Free]]:
        """Return what is freed before which step: a pixel at the first one after its last use."""
        parts = []
        for stage in self.problem.stages:
            if not self.problem.consumers[stage.number]:
                continue
            _, end = self.schedule.lifetimes(stage.number)
            for frame in range(self.frames):
                step = np.searchsorted(self.start, end + frame * self.schedule.interval)
                rows, columns = np.indices(step.shape)
                kept = np.stack(
                    [step, np.full_like(step, stage.number), np.full_like(step, frame), rows, columns]
                )
                parts.append(kept.reshape(5, -1))
        if not parts:
            return
        table = np.concatenate(parts, axis=1)
        table = table[:, np.lexsort(table[::-1])]
        # Neighbours in a row that are freed together are one region.
        joined = np.zeros(table.shape[1], dtype=np.bool_)
        joined[1:] = (table[:4, 1:] == table[:4, :-1]).all(axis=0) & (table[4, 1:] == table[4, :-1] + 1)
        first = np.flatnonzero(~joined)
        last = np.append(first[1:], len(joined)) - 1
        names = [stage.name for stage in self.problem.stages]
        runs = np.concatenate([table[:, first], table[4:, last] + 1])
        for number, stage_, frame, row, begin, end_ in runs.T.tolist():
            region = Box(((frame, frame + 1), None, (row, row + 1), (begin, end_)))
            yield number, Free(names[stage_], region)

    def _turns(self) -> tuple[dict[int, list[Load]], dict[int, list[Free]]]:
        """Return what is loaded and freed before which step, layer by layer: input and weights in turn."""
        loads: dict[int, list[Load]] = {}
        frees: dict[int, list[Free]] = {}
        stages, schedule = self.problem.stages, self.schedule
        readers = [stage.number for stage in stages if -1 in stage.producers]
        turns = [(INPUT, 0, schedule.ends[readers[-1]])]
        turns += [
            (weights_of(stage), begin, end)
            for stage, begin, end in zip(stages, schedule.starts, schedule.ends, strict=True)
            if stage.weights
        ]
        for name, begin, end in turns:
            loads.setdefault(int(np.searchsorted(self.start, begin)), []).append(Load(name, _whole(4)))
            frees.setdefault(int(np.searchsorted(self.start, end)), []).append(Free(name, _whole(4)))
        return loads, frees

    # Beats -------------------------------------------------------------------------------------------

    def _computes(self, stage: Stage) -> _Beats:
        return _Beats(self, stage)


class _Beats:
    """The compute actions of one layer."""

    def __init__(self, lowering: Lowering, stage: Stage) -> None:
        schedule, problem = lowering.schedule, lowering.problem
        share = schedule.plan.shares[stage.number]
        windows = schedule.scan.windows[stage.number]
        own = schedule.scan.beats(stage, share.rows)
        # The first pixel of each beat; the others of a row group lie below it.
        beats = np.full(int(own.max()) + 1, own.size, dtype=np.int64)
        np.minimum.at(beats, own.ravel(), np.arange(own.size))
        rows, columns = np.divmod(beats, stage.task.columns)
        # Row groups whose windows do not touch read them one by one, and nothing between them.
        apart = share.rows > 1 and windows.stride[0] > windows.extent[0]
        self.places: list[tuple[Range, Range, list[Range], Range]] = []
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True):
            last = min(row + share.rows, stage.task.rows)
            bands = [(r, r + 1) for r in range(row, last)] if apart else [(row, last)]
            above = [windows.span(0, *band) for band in bands]
            across = windows.span(1, column, column + 1)
            self.places.append(((row, last), (column, column + 1), above, across))
        self.stage, self.pace = stage, schedule.paces[stage.number]
        names = [stage.name for stage in problem.stages]
        self.inputs = tuple(INPUT if producer < 0 else names[producer] for producer in stage.producers)
        self.operands = tuple(dict.fromkeys(self.inputs))
        self.weights = weights_of(stage) if stage.weights else None
        self.macs = stage.macs_per_value
        self.kernels = () if self.weights is None else ((self.weights, _whole(4)),)

    def at(self, frame: int, beat: int) -> Compute:
        """Return the compute of one beat."""
        rows, columns, above, across = self.places[beat]
        now = (frame, frame + 1)
        windows = [Box((now, None, band, across)) for band in above]
        return Compute(
            self.stage.name,
            Box((now, None, rows, columns)),
            (*((name, window) for name in self.operands for window in windows), *self.kernels),
            self.macs,
            WindowBeat(self.stage.spec, self.inputs, self.weights, frame, rows, columns),
            engine=self.stage.name,
            cycles=self.pace,
        )


def _whole(rank: int) -> Box:
    return Box((None,) * rank)


def _input(problem: Problem) -> tuple[int, int, int]:
    return problem.network.layers[0].input


def tensor_elements(problem: Problem, frames: int) -> int:
    """Return the elements of all tensors of a program, as a numeric simulation holds them."""
    maps = sum(stage.channels * stage.task.rows * stage.task.columns for stage in problem.stages)
    return frames * (maps + prod(_input(problem))) + sum(stage.weights for stage in problem.stages)
