"""What all tables have in common: strict types, unknown keys refused, immutable, copied safely."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from tilewright.spec.errors import InputError
from tilewright.spec.validation import as_input_error

SpecT = TypeVar("SpecT", bound="Spec")


class Spec(BaseModel):
    """Base of every table of an instance file.

    A spec never changes. What is derived from it is computed once, so a copy with other values is made by
    `with_`, which builds and checks it anew.

    Raises
    ------
    InputError
        From the constructor, `model_validate`, `with_` and `model_copy`, for anything that a file could not
        hold either. NumPy's numbers and arrays are taken as Python's.
    """

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)

    table_name: ClassVar[str] = ""
    """Name of the table that errors begin with, where a spec is a table of its own."""

    later: ClassVar[tuple[str, ...]] = ()
    """Fields that came after results had been written; `told` leaves them out at their defaults."""

    ever_later: ClassVar[tuple[str, ...]] = ()
    """The same of a base class, where subclasses have `later` fields of their own."""

    def __init__(self, /, **data: Any) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            raise as_input_error(error, type(self), self.table_name) from None

    # Tables inside of others are validated as ever, so that an error names the whole path to a field.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    @model_validator(mode="before")
    @classmethod
    def _plain(cls, table: object) -> object:
        """Turn lists into tuples, which the fields are, and NumPy's values into Python's.

        A kind that is left out is set, so that what is dumped of a table tells it.
        """
        if not isinstance(table, dict):
            return table
        plain = {key: plain_value(value) for key, value in table.items()}
        kind = cls.__pydantic_fields__.get("kind")
        return plain if kind is None or kind.is_required() else {"kind": kind.default, **plain}

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Build what a table describes."""
        try:
            return super().model_validate(obj, **options)
        except ValidationError as error:
            raise as_input_error(error, cls) from None
        except RecursionError:
            raise InputError("file", cls.__name__.lower(), "is nested too deeply") from None

    def __repr_name__(self) -> str:
        """Return the name that it is exported with, which tells the room of a problem."""
        return exported_name(type(self))

    def __eq__(self, other: object) -> bool:
        """Whether the fields are equal; what is derived from them, as arrays, is not looked at."""
        if type(other) is not type(self):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in type(self).model_fields)

    def __hash__(self) -> int:
        fields = [self.__dict__[name] for name in type(self).__pydantic_fields__]
        try:
            return hash(tuple(fields))
        except TypeError:  # one is a table of names
            return hash(tuple(frozenset(each.items()) if isinstance(each, dict) else each for each in fields))

    def told(self) -> dict[str, Any]:
        """Return what a problem's digest is of: all values, as JSON has them, but for unused `later` fields.

        So a new field with a default leaves the digest of every problem that there was as it is.
        """
        names = type(self).model_fields
        return {
            name: _told(value)
            for name, field in names.items()
            if (value := getattr(self, name)) != field.default or name not in (*self.later, *self.ever_later)
        }

    def with_(self, **changes: Any) -> Self:
        """Return a copy with other values, checked like the original.

        Parameters
        ----------
        **changes
            New values of fields. A mapping for a field that holds a table changes only what it names in that
            table, and so on inwards; one with another ``kind`` replaces the table.

        Examples
        --------
        >>> import tilewright as tw
        >>> problem = tw.read("alexnet-conv3-64k").problem
        >>> problem.with_(machine={"memory_bytes": 65536}).machine.memory_bytes
        65536
        """
        table = {name: getattr(self, name) for name in self.model_fields_set}
        for name, value in changes.items():
            table[name] = _changed(table.get(name, getattr(self, name, None)), value)
        return type(self)(**table)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy; with an update it is built and checked anew, as by `with_`."""
        return self.with_(**update) if update else super().model_copy(deep=deep)


def exported_name(kind: type) -> str:
    """Return what a class is called in ``tilewright``: a room's ``Plan`` has the room's name before it."""
    package, _, rest = kind.__module__.partition(".")
    room = rest.partition(".")[0].capitalize()
    of_a_room = package == "tilewright" and kind.__name__ in ("Problem", "Plan")
    return room * of_a_room + kind.__name__


def unchecked_copy(spec: SpecT, **changes: Any) -> SpecT:
    """Return a copy with other values that are valid each, but refused together; nothing derived is kept.

    For published readings that no user may ask for, and for tests.
    """
    copy = BaseModel.model_copy(spec, update=changes)
    for name in set(vars(copy)) - set(type(spec).model_fields):
        del vars(copy)[name]
    return copy


def _changed(before: Any, value: Any) -> Any:
    """Return a field's new value, where a mapping changes a part of a table."""
    if not isinstance(before, Spec) or not isinstance(value, Mapping):
        return value
    kind = value.get("kind", getattr(before, "kind", None))
    return before.with_(**value) if kind == getattr(before, "kind", None) else dict(value)


def _told(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.told()
    if isinstance(value, tuple):
        return [_told(member) for member in value]
    return {key: _told(member) for key, member in value.items()} if isinstance(value, dict) else value


def plain_value(value: object) -> object:
    """Return a value with Python's numbers for NumPy's, and tuples for lists and arrays."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if type(value) is list or type(value) is tuple:
        return tuple(plain_value(member) for member in value)
    return value
