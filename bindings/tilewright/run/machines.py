"""One machine file for all rooms: whose machine it is, and what another room reads of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from typing import Any, get_args

from pydantic import BaseModel, create_model

from tilewright.core import catalogue
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.validation import validated

__all__ = ["room_of_machine", "rooms_of_networks", "takes_networks", "with_own_machine"]

Table = dict[str, Any]


def with_own_machine(room: str, table: Table) -> Table:
    """Return the tables of a problem with a machine of the room's own, read from another room's if need be.

    Sub-tables of a machine that have the name of a room are for that room alone. They add to what is said of
    the machine, and take the place of what is read from it.

    Raises
    ------
    InputError
        If the machine is another room's that is wrong, or lacks what this room needs; names all of that.
    """
    machine = table.get("machine")
    if not isinstance(machine, dict) or "machine" not in catalogue.room(room).problem_type.model_fields:
        return table
    for name in catalogue.ROOMS:
        if not isinstance(machine.get(name, {}), dict):
            raise InputError(f"machine.{name}", machine[name], "must be a table: what is for that room alone")
    shared = {key: value for key, value in machine.items() if key not in catalogue.ROOMS}
    return {**table, "machine": {**_read(room, shared, machine.get(room, {})), **machine.get(room, {})}}


def _read(room: str, shared: Table, own: Table) -> Table:
    """Return a machine's table, or what a room finds in that of another one."""
    owner = room if shared.keys() <= _keys(room) else room_of_machine(shared, room)
    if owner == room:
        return shared
    whole = validated(_holder(owner), {"machine": shared})
    # What is for the room alone may say how the machine is read.
    told = whole.machine.model_dump() | {room: own}  # type: ignore[attr-defined]
    reading = catalogue.room(room).machine_from(told)
    if reading is None:
        return shared
    missing = [key for key in _required(room) if key not in reading.found | own]
    if missing:
        needed = ", ".join(
            f"{key} ({reading.lacking[key]})" if key in reading.lacking else key for key in missing
        )
        limit = f"room {room} needs {needed}; the machine has {', '.join(shared)}. A table machine.{room}"
        raise InputError("machine", None, f"{limit} may add what is for this room alone")
    return reading.found


def rooms_of_networks() -> Iterator[str]:
    """Yield the rooms that take networks; each is imported when it is asked for."""
    return filter(takes_networks, catalogue.ROOMS)


def takes_networks(room: str) -> bool:
    """Whether a room takes networks."""
    return "network" in catalogue.room(room).problem_type.model_fields


def room_of_machine(machine: Table, first: str | None = None) -> str:
    """Return the room whose machines have most of a table's keys, of those that take networks.

    Parameters
    ----------
    first
        The room that it is if none has more; by default the first of all.
    """
    keys = machine.keys() - set(catalogue.ROOMS)
    known = dict[str, int]()
    for name in chain(() if first is None else (first,), rooms_of_networks()):
        known[name] = len(_keys(name) & keys)
        if known[name] == len(keys):
            break  # no room has more, and those that are left need not be imported
    return max(known, key=known.__getitem__)


def _keys(room: str) -> set[str]:
    return {key for model in _models(room) for key in model.model_fields}


def _required(room: str) -> list[str]:
    """Return the fields that each kind of a room's machines must be told."""
    kinds = [model.model_fields for model in _models(room)]
    return [key for key in kinds[0] if all(key in kind and kind[key].is_required() for kind in kinds)]


def _models(room: str) -> tuple[type[BaseModel], ...]:
    return tuple(_tables(catalogue.room(room).problem_type.model_fields["machine"].annotation))


def _tables(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _tables(argument)


@lru_cache
def _holder(room: str) -> type[Spec]:
    """Return a table that holds nothing but a room's machine."""
    field = catalogue.room(room).problem_type.model_fields["machine"]
    return create_model("Holder", __base__=Spec, machine=(field.annotation, field))
