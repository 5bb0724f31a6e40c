"""What the executor found: valid or the first violation, traffic, footprints, times."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Counts = NDArray[np.int64]


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
        The tensor concerned, or the memory or engine where it is none.
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


@dataclass
class Timeline:
    """When each action runs, in cycles; frees, which take no time, are left out.

    Attributes
    ----------
    cycles
        End of the last action.
    step, start, finish
        One entry per action, in the order of the program.
    engine, tensor
        Its engine's and tensor's name.
    peak
        Most elements allocated at one time in all memories together.
    """

    cycles: int
    step: Counts
    start: Counts
    finish: Counts
    engine: list[str]
    tensor: list[str]
    peak: int

    def busy(self) -> dict[str, int]:
        """Return the cycles that each engine works."""
        total: dict[str, int] = {}
        for engine, start, finish in zip(self.engine, self.start, self.finish, strict=True):
            total[engine] = total.get(engine, 0) + int(finish - start)
        return total


@dataclass
class Report:
    """The outcome of executing a program.

    All counts are in elements. Arrays have one entry per executed step.

    Attributes
    ----------
    violation
        The first rule broken, or None for a valid program.
    loaded, freed, written, computed, footprint
        By tensor; `footprint` is taken when the step holds most.
    macs
        MACs per step.
    transfers
        Load actions and write-back actions.
    sequential
        Timeline of definition 3: one action after the other.
    overlapped
        Timeline with every engine on its own clock, or None when it was not asked for.
    numeric
        Whether real data gave the reference's result bit for bit; None when it was not asked for.
    """

    violation: Violation | None
    labels: list[str]
    loaded: dict[str, Counts]
    freed: dict[str, Counts]
    written: dict[str, Counts]
    computed: dict[str, Counts]
    footprint: dict[str, Counts]
    macs: Counts
    transfers: int
    sequential: Timeline | None = None
    overlapped: Timeline | None = None
    numeric: bool | None = None
    most_loads: dict[str, int] = field(default_factory=dict)

    @classmethod
    def refused(cls, violation: Violation) -> Report:
        """Return the report of a plan that cannot even be lowered to a program."""
        return cls(violation, [], {}, {}, {}, {}, {}, np.zeros(0, dtype=np.int64), 0)

    @property
    def valid(self) -> bool:
        """Whether no rule was broken and the numbers, if any, are right."""
        return self.violation is None and self.numeric is not False

    @property
    def n_steps(self) -> int:
        """Steps that compute something."""
        return int((self.macs > 0).sum())

    @property
    def peak(self) -> int:
        """Most elements on chip at one time under sequential execution."""
        total = sum(self.footprint.values(), np.zeros(len(self.macs), dtype=np.int64))
        return int(total.max(initial=0))

    def step_cycles(self) -> Counts:
        """Return the sequential duration of each step (definition 3)."""
        assert self.sequential is not None
        line = self.sequential
        cycles = np.zeros(len(self.labels), dtype=np.int64)
        np.add.at(cycles, line.step, line.finish - line.start)
        return cycles

    def summary(self) -> dict[str, Any]:
        """Return the totals, as they stand in a result file."""
        return {
            "valid": self.valid,
            "violation": None if self.violation is None else str(self.violation),
            "steps": self.n_steps,
            "cycles": None if self.sequential is None else self.sequential.cycles,
            "overlapped_cycles": None if self.overlapped is None else self.overlapped.cycles,
            "loaded": {name: int(counts.sum()) for name, counts in self.loaded.items()},
            "written": {name: int(counts.sum()) for name, counts in self.written.items()},
            "macs": int(self.macs.sum()),
            "peak_memory": self.peak,
            "most_loads": self.most_loads,
            "numeric": self.numeric,
        }

    def per_step(self) -> list[dict[str, Any]]:
        """Return one row per step, for `simulate --json`."""
        cycles = self.step_cycles() if self.sequential is not None else None

        def at(table: dict[str, Counts], step: int) -> dict[str, int]:
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
                "cycles": None if cycles is None else int(cycles[step]),
            }
            for step, label in enumerate(self.labels)
        ]
