"""Results of format 1, which had the same numbers several times: what is read of them.

Their reports have ``measures`` as those of format 2. Those of the oldest have none, and their counts stand
under other names. What else they have is not looked at: ``facts``, ``layers``, and the counts where there are
measures.
"""

from __future__ import annotations

from typing import Any

from tilewright.core.measures import Executed, InCycles, InPicoseconds, read_measures
from tilewright.simulator.report import Verdict
from tilewright.spec.errors import InputError

COUNTS = {
    "steps": "steps",
    "macs": "macs",
    "transfers": "transfers",
    "streamed": "streamed_elements",
    "peak_memory": "peak_elements",
}
"""What measures call the counts of the oldest reports."""

TIMES = {
    "cycles": "serial",
    "lockstep_cycles": "lockstep",
    "scheduled_cycles": "scheduled",
    "overlapped_cycles": "overlapped",
}
"""What measures begin the name of a time with; it ends with that of the clock."""


def verdict(kinds: Any, data: dict[str, Any], file: str | None) -> Verdict:
    """Return what a file says of an executed plan; see `run.result`."""
    measures: Executed | None = None
    if data.get("measures") is not None:
        measures = read_measures(kinds, data["measures"], file)
    elif "loaded" in data:
        measures = _counted(data, file)
    return Verdict(data["valid"], data.get("violation"), data.get("numeric"), measures)


def _counted(data: dict[str, Any], file: str | None) -> Executed:
    """Return what the simulator counts in every room, from a report without measures."""
    loaded, written, loads = (data.get(key, {}) for key in ("loaded", "written", "most_loads"))
    if not all(isinstance(table, dict) for table in (loaded, written, loads)):
        raise InputError("report.loaded", None, "must be a table, like written and most_loads", file)
    in_parts = any(" TLE" in tensor for tensor in loaded)  # of the cores of an NPU, whose clock counts ps
    clock = "ps" if in_parts else "cycles"
    named = {new: data.get(old) for old, new in COUNTS.items()}
    named |= {
        f"{new}_{clock}": data.get(old)
        for old, new in TIMES.items()
        if data.get(old) is not None or new == "overlapped"
    }
    tables = {"loaded_elements": _by_operand(loaded), "written_elements": _by_operand(written)}
    most = {"most_loads_of_an_element": max(loads.values(), default=0)}
    found: Executed = read_measures(InPicoseconds if in_parts else InCycles, named | tables | most, file)
    return found


def _by_operand(elements: dict[str, Any]) -> dict[str, Any]:
    """Return the elements of each operand that has any; those of several cores have its name and theirs."""
    found: dict[str, Any] = {}
    for tensor, many in elements.items():
        operand = tensor.split()[0] if " TLE" in tensor else tensor
        if many:
            found[operand] = found[operand] + many if operand in found else many
    return found
