"""A plan as a schedule: JSON for compilers, keyed by the names of layers or groups.

docs/schedule.md explains every key; `tilewright.codegen.schedule.forms` has their types.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tilewright import allocation, fusion, tiling
from tilewright.codegen.schedule.forms import FORMAT, AnySchedule
from tilewright.codegen.schedule.fused_groups import fusion_schedule
from tilewright.codegen.schedule.loop_nests import tiling_schedule
from tilewright.codegen.schedule.pipelines import allocation_schedule
from tilewright.core.room import room_of, unit_of
from tilewright.spec.errors import InputError

PRINTERS: dict[str, Callable[..., AnySchedule]] = {
    tiling.ROOM.name: tiling_schedule,
    allocation.ROOM.name: allocation_schedule,
    fusion.ROOM.name: fusion_schedule,
}


def schedule(name: str, sha256: str, problem: Any, plan: Any) -> dict[str, Any]:
    """Return the schedule of a plan, after executing it.

    Parameters
    ----------
    name, sha256
        Of the instance.

    Raises
    ------
    InputError
        In a room without layers or groups, for a front, for a plan that is not valid.
    """
    room = room_of(problem)
    if room.name not in PRINTERS:
        limit = f"has no layers or groups to schedule; there are schedules of: {', '.join(PRINTERS)}"
        raise InputError("room", room.name, limit)
    if problem.minimise == "pareto":
        raise InputError(
            "objective.minimise", "pareto", "a front is no schedule; minimise a single objective"
        )
    report = room.simulate(problem, plan, overlapped=False)
    if report.violation is not None:
        raise InputError("plan", room.name, f"is not valid: {report.violation}")
    about = {
        "format": FORMAT,
        "room": room.name,
        "instance": name,
        "instance_sha256": sha256,
        "minimise": problem.minimise,
        "unit": unit_of(problem),
        "objective": room.measured_objective(problem, report),
        "machine": problem.machine.told(),
    }
    printed = PRINTERS[room.name](about, problem, plan, report.measures.to_json())
    found: dict[str, Any] = printed.model_dump(mode="json", exclude_none=True)
    return found


def text(value: Any, indent: str = "") -> str:
    """Return JSON for people, too: a list or table without others in it stands on one line."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(member, dict | list) for member in members):
        return json.dumps(value)
    deeper = indent + " "
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {text(member, deeper)}" for key, member in value.items()]
    else:
        lines = [text(member, deeper) for member in value]
    first, last = "{}" if isinstance(value, dict) else "[]"
    return f"{first}\n{deeper}" + f",\n{deeper}".join(lines) + f"\n{indent}{last}"
