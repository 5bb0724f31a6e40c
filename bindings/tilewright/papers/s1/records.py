"""The best plans and bounds known for the grouping instances of the papers, with their provenance.

They stand in ``instances/grouping/best-known.json``, one line an instance, so that others can beat them.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.files import write_atomically
from tilewright.core.version import __version__
from tilewright.grouping.plan import Plan
from tilewright.grouping.problem import Problem
from tilewright.run.result import Result
from tilewright.spec.errors import InputError

FILE = "best-known.json"


@dataclass(frozen=True)
class Record:
    """The best that is known of an instance.

    Attributes
    ----------
    instance, sha256
        Name of the instance and digest of its values, as in result files.
    objective, steps
        Objective of the best plan, and the step of each patch in it, row-major.
    found
        What found the plan: method, version, seconds, date.
    bound, proven
        The best lower bound, and what proved it: method or bound, its grounds, version, seconds, date.
    """

    instance: str
    sha256: str
    objective: int | None
    steps: list[int] | None
    found: dict[str, Any] | None
    bound: int
    proven: dict[str, Any]

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven optimal."""
        return self.objective == self.bound

    def plan(self, problem: Problem) -> Plan | None:
        """Return the plan, or None where none is known."""
        return None if self.steps is None else Plan.from_steps(problem, self.steps)

    @classmethod
    def of(cls, problem: Problem, result: Result) -> Record:
        """Take what a result says.

        Raises
        ------
        InputError
            If it proves nothing.
        """
        if result.bound is None:
            raise InputError("bound", None, "a record needs a bound", result.instance)
        run = {
            "tilewright": __version__,
            "method": result.method,
            "seconds": result.seconds,
            "date": datetime.now(UTC).date().isoformat(),
        }
        return cls(
            result.instance,
            result.instance_sha256,
            result.objective,
            None if result.plan is None else result.plan.steps(problem).tolist(),
            None if result.plan is None else run,
            result.bound,
            run | {"by": result.bound_by, "grounds": result.grounds},
        )

    def beside(self, other: Record) -> Record:
        """Return the best of two records of an instance; what is no better leaves the older one."""
        values = asdict(self)
        if self.objective is None or (other.objective is not None and other.objective < self.objective):
            values |= {key: getattr(other, key) for key in ("objective", "steps", "found")}
        if other.bound > self.bound:
            values |= {key: getattr(other, key) for key in ("bound", "proven")}
        return Record(**values)


def known(path: Path | None = None) -> dict[str, Record]:
    """Read the records, by digest of the instance.

    Parameters
    ----------
    path
        By default the bundled file.
    """
    if path is None:
        path = catalogue.folders("instances", "grouping")[0] / FILE
    if not path.is_file():
        return {}
    lines = path.read_text(encoding="utf-8").splitlines()
    try:
        records = [Record(**json.loads(line)) for line in lines]
    except (TypeError, ValueError) as error:
        raise InputError("record", None, f"is not one of {FILE}: {error}", str(path)) from error
    return {record.sha256: record for record in records}


def write(records: dict[str, Record], path: Path) -> None:
    """Write records in the order of their names, atomically."""
    lines = [json.dumps(asdict(record)) for record in sorted(records.values(), key=lambda r: r.instance)]
    write_atomically(path, "\n".join(lines) + "\n")
