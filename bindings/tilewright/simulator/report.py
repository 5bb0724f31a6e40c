"""What the executor found: valid or the first violation, traffic, footprints, times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.program import Counts


@dataclass(frozen=True)
class Violation:
    """The first rule that a program breaks.

    Attributes
    ----------
    rule
        Name of the rule, one word or two.
    step
        Number of the step, from 1; 0 for what is wrong before the first one.
    tensor
        The tensor concerned, or the memory or engine where it is none, or the schedule.
    needed, found
        What the rule asks for and what was there.
    """

    rule: str
    step: int
    tensor: str
    needed: str
    found: str

    def __str__(self) -> str:
        where = f"step {self.step}, " if self.step else ""
        return f"{self.rule}: {where}{self.tensor}: needed {self.needed}, found {self.found}"


class Names(Sequence[str]):
    """A long sequence of few different names, stored as small numbers.

    Parameters
    ----------
    names
        The different ones.
    codes : int, shape (n,)
        Which of them stands at each place.
    """

    def __init__(self, names: Sequence[str], codes: NDArray[np.integer[Any]]) -> None:
        self.names, self.codes = tuple(names), codes

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, index: SupportsIndex) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> Names: ...

    def __getitem__(self, index: SupportsIndex | slice) -> str | Names:
        """Return one name, or a part of the sequence."""
        if isinstance(index, slice):
            return Names(self.names, self.codes[index])
        return self.names[int(self.codes[index])]

    def __iter__(self) -> Iterator[str]:
        return map(self.names.__getitem__, self.codes.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return repr(list(self))

    @classmethod
    def chain(cls, parts: Sequence[Names]) -> Names:
        """Join sequences, each with names of its own."""
        number = {name: place for place, name in enumerate(dict.fromkeys(n for p in parts for n in p.names))}
        codes = [np.array([number[name] for name in part.names], np.int32)[part.codes] for part in parts]
        return cls(tuple(number), np.concatenate(codes) if codes else np.zeros(0, np.int32))


class Rows(Mapping[str, Counts]):
    """Counts by name, laid out when first asked for, since most are zero at most steps.

    Parameters
    ----------
    names
        In their order.
    make
        Returns the counts of a name, given its number.
    """

    def __init__(self, names: Iterable[str], make: Callable[[int], Counts]) -> None:
        self._numbers, self._make = {name: number for number, name in enumerate(names)}, make
        self._found: dict[str, Counts] = {}

    def __getitem__(self, name: str) -> Counts:
        """Return the counts of all steps, always the same array."""
        if name not in self._found:
            self._found[name] = self._make(self._numbers[name])
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)


@dataclass
class Timeline:
    """When each action runs, in cycles; frees, which take no time, are left out.

    Attributes
    ----------
    cycles
        End of the last action.
    step, start, finish
        One entry per action, in the order of the program; steps from 0.
    engine, tensor
        Its engine's and tensor's name.
    peak
        Most elements allocated at one time in all memories together.
    beside
        Cycles, by engine, that it spends on actions of other engines: the set-up of transfers that it
        programs, the elements that a compute streams over it (lockstep timeline only).
    times
        How often each action is done, if not once; it is shown the first time (`Report.times`).
    """

    cycles: int
    step: NDArray[np.integer[Any]]
    start: Counts
    finish: Counts
    engine: Names
    tensor: Names
    peak: int
    beside: dict[str, int] = field(default_factory=dict)
    times: Counts | None = None

    def busy(self) -> dict[str, int]:
        """Return the cycles that each engine works."""
        total = np.zeros(len(self.engine.names), dtype=np.int64)
        often = 1 if self.times is None else self.times
        np.add.at(total, self.engine.codes, (self.finish - self.start) * often)
        present = np.bincount(self.engine.codes, minlength=len(total)) > 0
        found = {name: int(total[code]) for code, name in enumerate(self.engine.names) if present[code]}
        for name, cycles in self.beside.items():
            found[name] = found.get(name, 0) + cycles
        return found

    @classmethod
    def chain(cls, lines: Sequence[Timeline], steps: Sequence[int]) -> Timeline:
        """Join timelines, each beginning when the one before ends.

        Parameters
        ----------
        steps
            Number of steps of each program.
        """
        begins = np.cumsum([0, *(line.cycles for line in lines)])
        firsts = np.cumsum([0, *steps])
        beside: dict[str, int] = {}
        for line in lines:
            for name, cycles in line.beside.items():
                beside[name] = beside.get(name, 0) + cycles
        return cls(
            cycles=int(begins[-1]),
            step=_join(line.step + first for line, first in zip(lines, firsts, strict=False)),
            start=_join(line.start + begin for line, begin in zip(lines, begins, strict=False)),
            finish=_join(line.finish + begin for line, begin in zip(lines, begins, strict=False)),
            engine=Names.chain([line.engine for line in lines]),
            tensor=Names.chain([line.tensor for line in lines]),
            peak=max((line.peak for line in lines), default=0),
            beside=beside,
            times=_join_times([(line.times, len(line.start)) for line in lines]),
        )


@dataclass(frozen=True)
class Verdict:
    """What the simulator says of a plan, as results have it.

    Attributes
    ----------
    valid
        Whether no rule was broken, and the numbers, if any, are right.
    violation
        The first rule that was broken: step, tensor, what was needed, what was there.
    numeric
        Whether real integers gave the reference's result; None where none were moved.
    measures
        As `Report.measures`; None in files that lack them, too.
    """

    valid: bool
    violation: str | None = None
    numeric: bool | None = None
    measures: Any = None

    def to_json(self) -> dict[str, Any]:
        """Return it as result files have it."""
        told = {"valid": self.valid, "violation": self.violation, "numeric": self.numeric}
        return told if self.measures is None else told | {"measures": self.measures.to_json()}


@dataclass
class Report:
    """The outcome of executing a program.

    All counts are in elements. Arrays have one entry per executed step, which may stand for many that are
    alike (`times`); `total` adds up.

    Attributes
    ----------
    violation
        The first rule broken, or None for a valid program.
    loaded, freed, written, computed
        By tensor.
    footprint
        What each tensor occupies when the step holds most: what is resident of it, or what is reserved for
        it (`Tensor.buffer`).
    macs
        MACs per step.
    transfers
        Load actions and write-back actions.
    sequential
        Timeline of definition 3: one stage after the other; None for a program with a static schedule.
    overlapped
        Timeline with every engine on its own clock, or None when it was not asked for.
    numeric
        Whether real data gave the reference's result bit for bit; None when it was not asked for.
    not_computed
        Why numbers that were asked for are missing of some layers or operations.
    most_loads
        By tensor that is never computed: how often its most loaded element was loaded. Empty where a program
        whose tiles are counted (`times`) breaks a rule.
    lockstep
        Timeline of static double buffering, or None when it was not asked for.
    scheduled
        Timeline of a program with a static schedule, as that says.
    streamed
        Elements that engines exchanged with on-chip memories while they computed.
    layers
        Of a chain: the name and the report of each layer.
    measures
        What a room measured of a valid plan, an object of its class of measures; None of another plan.
    times
        For how many steps of the program each executed step stands; None if for one.
    computing
        Whether each step computes something; None if those do that have MACs.
    """

    violation: Violation | None
    labels: list[str]
    loaded: Mapping[str, Counts]
    freed: Mapping[str, Counts]
    written: Mapping[str, Counts]
    computed: Mapping[str, Counts]
    footprint: Mapping[str, Counts]
    macs: Counts
    transfers: int
    sequential: Timeline | None = None
    overlapped: Timeline | None = None
    numeric: bool | None = None
    not_computed: tuple[str, ...] = ()
    most_loads: dict[str, int] = field(default_factory=dict)
    lockstep: Timeline | None = None
    scheduled: Timeline | None = None
    streamed: int = 0
    layers: tuple[tuple[str, Report], ...] = ()
    measures: Any = None
    times: Counts | None = None
    computing: NDArray[np.bool_] | None = None

    @classmethod
    def refused(cls, violation: Violation) -> Report:
        """Return the report of a plan that cannot even be lowered to a program."""
        return cls(violation, [], {}, {}, {}, {}, {}, np.zeros(0, dtype=np.int64), 0)

    @classmethod
    def beyond_limits(cls, broken: str, needed: str = "a plan within the limits") -> Report:
        """Return the report of a plan that breaks a limit, which is told as ``rule: details``."""
        rule, _, details = broken.partition(": ")
        return cls.refused(Violation(rule, 0, "plan", needed, details or broken))

    @classmethod
    def chain(cls, names: Sequence[str], reports: Sequence[Report]) -> Report:
        """Join the reports of layers that are executed one after the other.

        It ends, as a program does, at the first violation; `layers` keeps all reports. Layers that are
        alike may share one report.

        Parameters
        ----------
        names
            Of the layers, as they stand before labels and in violations.
        """
        layers = tuple(zip(names, reports, strict=True))
        violation = None
        steps = [len(report.labels) for report in reports]
        broken = next((place for place, report in enumerate(reports) if report.violation is not None), None)
        if broken is not None and (found := reports[broken].violation) is not None:
            step, tensor = found.step + sum(steps[:broken]), f"{names[broken]}: {found.tensor}"
            violation = replace(found, step=step, tensor=tensor)
            reports, steps = reports[: broken + 1], steps[: broken + 1]

        def table(of: Callable[[Report], Mapping[str, Counts]]) -> dict[str, Counts]:
            tensors = dict.fromkeys(tensor for report in reports for tensor in of(report))
            nothing = {n: np.zeros(n, dtype=np.int64) for n in steps}
            return {
                tensor: _join(
                    of(report).get(tensor, nothing[n]) for report, n in zip(reports, steps, strict=True)
                )
                for tensor in tensors
            }

        def line(of: Callable[[Report], Timeline | None]) -> Timeline | None:
            lines = [found for report in reports if (found := of(report)) is not None]
            return Timeline.chain(lines, steps) if lines and len(lines) == len(reports) else None

        most_loads: dict[str, int] = {}
        for report in reports:
            for tensor, count in report.most_loads.items():
                most_loads[tensor] = max(most_loads.get(tensor, 0), count)
        unknown = violation is not None or any(report.numeric is None for report in reports)
        return cls(
            violation=violation,
            labels=[
                f"{name}: {label}"
                for (name, report), _ in zip(layers, reports, strict=False)
                for label in report.labels
            ],
            loaded=table(lambda report: report.loaded),
            freed=table(lambda report: report.freed),
            written=table(lambda report: report.written),
            computed=table(lambda report: report.computed),
            footprint=table(lambda report: report.footprint),
            macs=_join(report.macs for report in reports),
            transfers=sum(report.transfers for report in reports),
            sequential=line(lambda report: report.sequential),
            overlapped=line(lambda report: report.overlapped),
            numeric=None if unknown else all(report.numeric for report in reports),
            most_loads=most_loads,
            lockstep=line(lambda report: report.lockstep),
            scheduled=line(lambda report: report.scheduled),
            streamed=sum(report.streamed for report in reports),
            layers=layers,
            times=_join_times([(report.times, len(report.labels)) for report in reports]),
        )

    @property
    def valid(self) -> bool:
        """Whether no rule was broken and the numbers, if any, are right."""
        return self.violation is None and self.numeric is not False

    @property
    def n_steps(self) -> int:
        """Steps that compute something."""
        return self.total(self.macs > 0 if self.computing is None else self.computing)

    def total(self, counts: NDArray[Any]) -> int:
        """Add up numbers of all steps."""
        return int(counts.sum() if self.times is None else (counts * self.times).sum())

    @property
    def accesses(self) -> int:
        """Elements moved from and to external memory."""
        return sum(self.total(counts) for table in (self.loaded, self.written) for counts in table.values())

    @property
    def peak(self) -> int:
        """Most elements on chip at one time under sequential execution, or under the static schedule."""
        for line in (self.sequential, self.scheduled):
            if line is not None:
                return line.peak
        total = np.zeros(len(self.macs), dtype=np.int64)
        for counts in self.footprint.values():
            total += counts
        return int(total.max(initial=0))

    def step_cycles(self) -> Counts:
        """Return the sequential duration of each step (definition 3), once."""
        assert self.sequential is not None
        line = self.sequential
        return step_lengths(line.step, line.start, line.finish, len(self.labels))

    def verdict(self) -> Verdict:
        """Return what results have of the report."""
        violation = None if self.violation is None else str(self.violation)
        return Verdict(self.valid, violation, self.numeric, self.measures)

    def per_step(self, clock: str = "cycles") -> list[dict[str, Any]]:
        """Return one row per step, for `simulate --json`; `clock` is what the program's times count."""
        cycles = self.step_cycles() if self.sequential is not None else None

        def at(table: Mapping[str, Counts], step: int) -> dict[str, int]:
            return {name: int(counts[step]) for name, counts in table.items() if counts[step]}

        return [
            {
                "step": step + 1,
                "label": label,
                "freed": at(self.freed, step),
                "written": at(self.written, step),
                "loaded": at(self.loaded, step),
                "computed": at(self.computed, step),
                "footprint": at(self.footprint, step),
                f"serial_{clock}": None if cycles is None else int(cycles[step]),
            }
            | ({} if self.times is None else {"times": int(self.times[step])})
            for step, label in enumerate(self.labels)
        ]


def step_lengths(step: NDArray[np.integer[Any]], start: Counts, finish: Counts, steps: int) -> Counts:
    """Return the cycles from the start of each step's first action to the end of its last."""
    begins = np.full(steps, np.iinfo(np.int64).max)
    ends = np.zeros(steps, dtype=np.int64)
    np.minimum.at(begins, step, start)
    np.maximum.at(ends, step, finish)
    lengths: Counts = np.maximum(ends - begins, 0)
    return lengths


def _join(parts: Iterable[NDArray[Any]]) -> NDArray[Any]:
    """Concatenate arrays of integers, of which there may be none."""
    found = list(parts)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)


def _join_times(parts: Sequence[tuple[Counts | None, int]]) -> Counts | None:
    """Concatenate numbers of times, of which None stands for so many ones."""
    if all(times is None for times, _ in parts):
        return None
    return _join(np.ones(length, dtype=np.int64) if times is None else times for times, length in parts)
