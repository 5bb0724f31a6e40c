"""What was measured of an executed plan, as files and ``--json`` have it: units in the names, no name twice.

Each room adds to `of_execution` what its plans are about; ``tilewright.run.schema`` describes all of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilewright.simulator import Report
from tilewright.simulator.program import Counts


def of_execution(
    report: Report, clock: str = "cycles", operand: Callable[[str], str] = lambda tensor: tensor
) -> dict[str, Any]:
    """Return what holds in any room: work, traffic, memory, and how long it takes by each timeline there is.

    Parameters
    ----------
    clock : {"cycles", "ps"}
        What the program's times count.
    operand
        Returns the operand that a tensor is a part of.
    """
    lines = {
        "serial": report.sequential,
        "lockstep": report.lockstep,
        "scheduled": report.scheduled,
        "overlapped": report.overlapped,
    }
    return {
        "steps": report.n_steps,
        "macs": report.total(report.macs),
        "transfers": report.transfers,
        "loaded_elements": _elements(report, report.loaded, operand),
        "written_elements": _elements(report, report.written, operand),
        "streamed_elements": report.streamed,
        "peak_elements": report.peak,
        "most_loads_of_an_element": max(report.most_loads.values(), default=0),
        **{
            f"{name}_{clock}": None if line is None else line.cycles
            for name, line in lines.items()
            if line is not None or name == "overlapped"
        },
    }


def _elements(report: Report, table: Mapping[str, Counts], operand: Callable[[str], str]) -> dict[str, int]:
    """Return the elements of each operand that has any."""
    found: dict[str, int] = {}
    for tensor, counts in table.items():
        if total := report.total(counts):
            found[operand(tensor)] = found.get(operand(tensor), 0) + total
    return found


def renamed(facts: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return the facts that there are under other names.

    Parameters
    ----------
    names
        New names by the old ones.
    """
    return {new: facts[old] for old, new in names.items() if old in facts}


def joined(names: Iterable[str]) -> str:
    """Return one key of several names: others give another key, whatever they are."""
    return "+".join(name.replace("\\", "\\\\").replace("+", "\\+") for name in names)
