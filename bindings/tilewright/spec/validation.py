"""What pydantic refuses, told as an `InputError`: every field that is wrong, its value, its limit.

Words are those of the file, not of Python: a number, a text, a list, a table.
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tilewright.spec.errors import Disagreement, InputError, InputErrors, did_you_mean, like

Table = TypeVar("Table", bound=BaseModel)

Cause = Mapping[str, Any]
"""One entry of what pydantic lists."""

POSITIONS = {
    "input": ("channels", "height", "width"),
    "output": ("channels", "height", "width"),
    "kernel": ("height", "width"),
    "stride": ("vertical", "horizontal"),
    "dilation": ("vertical", "horizontal"),
    "padding": ("top", "bottom", "left", "right"),
    "array": ("rows", "columns"),
    "conv_array": ("input channels", "output channels", "rows"),
    "edges": ("from", "to"),
    "unit": ("patches", "kernels", "channels"),
}
"""What stands at each position of a list whose length is fixed, by the field's name."""

COUNTS = {2: "two", 3: "three", 4: "four"}

KINDS = {
    "int_type": "an integer",
    "int_from_float": "an integer",
    "int_parsing": "an integer",
    "int_parsing_size": "an integer of fewer digits",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "a text",
    "string_unicode": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dataclass_type": "a table",
}
"""What a field holds, by what pydantic calls the error of one that does not."""

WRONG_TYPE = frozenset(KINDS) - {"finite_number", "int_parsing_size"}


def validated(model: type[Table], table: dict[str, Any]) -> Table:
    """Build what a table describes, with errors that name field, value and limit."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise as_input_error(error, model) from None
    except RecursionError:
        raise InputError("file", model.__name__.lower(), "is nested too deeply") from None


def as_input_error(error: ValidationError, model: Any, name: str = "") -> InputError:
    """Tell all fields that are wrong, unknown ones first and missing ones last.

    Parameters
    ----------
    name
        Of the table that holds the fields, put before the field's own.
    """
    by_field: dict[tuple[str, str], list[tuple[_Place, Cause]]] = {}
    for cause in error.errors(include_url=False):
        if cause["type"] == "assertion_error":
            raise _defect(cause["ctx"]["error"])
        if _counts_only_what_is_right(cause):
            continue
        place = _place(cause, model, name)
        # What tables say themselves is of layers of one name for the field.
        says = cause["msg"] if cause["type"] == "value_error" else ""
        by_field.setdefault((place.field, says), []).append((place, cause))
    found = [_refusal(causes) for causes in by_field.values()]
    guessed = {
        field.rpartition(".")[0] + "." * ("." in field) + meant
        for (field, _), causes in by_field.items()
        for place, cause in causes
        if cause["type"] == "extra_forbidden" and (meant := _meant(place, field)) is not None
    }
    told = [each for each in found if each.limit != "is missing" or each.field not in guessed]
    told.sort(key=lambda each: (not each.limit.startswith("unknown key"), each.limit == "is missing"))
    return told[0] if len(told) == 1 else InputErrors(told)


def _defect(error: AssertionError) -> Disagreement:
    """Return the error of a check of our own that fails while a table is read, which is not to blame."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return Disagreement(f"a check of tilewright's own fails ({last.filename}, line {last.lineno})")


def _counts_only_what_is_right(cause: Cause) -> bool:
    """Whether a list is called too short for members that are wrong, of which there are errors, too."""
    given = cause["input"]
    return (
        cause["type"] == "too_short"
        and isinstance(given, Sequence)
        and len(given) >= cause["ctx"]["min_length"]
    )


class _Place(NamedTuple):
    """Where an error is.

    Attributes
    ----------
    field
        Dotted name.
    table
        What holds the field, or the type of the field itself where it is in none.
    """

    field: str
    table: Any


def _place(cause: Cause, model: Any, name: str) -> _Place:
    """Follow a location from the outermost table to the field."""
    given = cause.get("ctx", {}).get("error")
    if isinstance(given, InputError):  # which knows its field itself
        return _Place(given.field, model)
    # A location may go on into the members of a union, which are no fields.
    names: list[str] = [name] if name else []
    table = model
    too_short = cause["type"] == "missing" and str(cause["loc"][-1]).isdigit()
    for part in map(str, cause["loc"][:-1] if too_short else cause["loc"]):
        member = _of_kind(table, part)
        if member is not None:
            table = member
            continue
        if part.isdigit() and get_args(table):  # one entry of a list
            names[-1] += f"[{part}]"
            table = _table(get_args(table)[0])
            continue
        if get_origin(table) is dict:  # whose keys are the user's
            names.append(part)
            table = _table(get_args(table)[1])
            continue
        inside = getattr(table, "model_fields", {})
        if part not in inside and cause["type"] != "extra_forbidden":
            break
        names.append(part)
        if part in inside:
            table = _table(inside[part].annotation)
    return _Place(".".join(names), table)


def _refusal(causes: Sequence[tuple[_Place, Cause]]) -> InputError:
    """Return the one error of a field from all that pydantic says of it."""
    place, cause = causes[0]
    given = cause.get("ctx", {}).get("error")
    if isinstance(given, InputError):
        return given
    kind, value = cause["type"], cause["input"]
    if kind in ("union_tag_not_found", "union_tag_invalid"):
        return _unknown_kind(place, value)
    if kind == "missing" and not str(cause["loc"][-1]).isdigit():
        return InputError(place.field, None, "is missing")
    if kind == "extra_forbidden":
        known = list(place.table.model_fields)
        told = did_you_mean(place.field.rpartition(".")[2], known)
        return InputError(place.field, value, f"unknown key; there are: {', '.join(known)}{told}")
    limits = [limit for each, one in causes if (limit := _limit(each, one, [c for _, c in causes]))]
    text = " or ".join(dict.fromkeys(limits))
    return InputError(place.field, value, text if text.startswith("takes") else f"must be {text}")


def _unknown_kind(place: _Place, value: Any) -> InputError:
    """Refuse a table that does not say which of several kinds it is."""
    kinds = [
        kind for member in get_args(place.table) for kind in get_args(member.model_fields["kind"].annotation)
    ]
    field = f"{place.field}.kind" if place.field else "kind"
    one_of = f"must be one of: {', '.join(kinds)}"
    if not isinstance(value, dict):
        return InputError(place.field, value, "must be a table")
    given = value.get("kind")
    if given is not None:
        told = did_you_mean(given, kinds) if isinstance(given, str) else ""
        return InputError(field, given, one_of + told)
    for key in value:
        if like(key, ["kind"]):
            told = f"unknown key; did you mean kind? It {one_of}"
            return InputError(f"{place.field}.{key}", value[key], told)
    return InputError(field, None, f"is missing; {one_of}")


def _limit(place: _Place, cause: Cause, causes: Sequence[Cause]) -> str:
    """Say what a field holds, after "must be"; nothing where another cause says it better."""
    kind, value, limits = cause["type"], cause["input"], cause.get("ctx", {})
    integer = type(value) is int
    if positions := _positions(place):
        if kind in ("missing", "too_long", "tuple_type", "list_type"):
            return f"takes {COUNTS[len(positions)]} numbers: {', '.join(positions)}"
    elif kind == "too_short":
        return f"a list of at least {limits['min_length']}"
    elif kind == "too_long":
        return f"a list of at most {limits['max_length']}"
    if kind == "literal_error":
        # Of a number that is out of range only its range is told.
        if integer and any(one["type"] not in ("literal_error", *WRONG_TYPE) for one in causes):
            return ""
        told = did_you_mean(value, _choices(limits)) if isinstance(value, str) else ""
        return f"{limits['expected']}{told}"
    if kind in KINDS:
        return KINDS[kind]
    if kind == "string_too_short":
        return f"a text of at least {limits['min_length']} characters"
    if kind == "string_too_long":
        return f"a text of at most {limits['max_length']} characters"
    message: str = cause["msg"]
    for before in ("Input should be ", "Value error, "):
        message = message.removeprefix(before)
    return message[0].lower() + message[1:]


def _choices(limits: Mapping[str, Any]) -> list[str]:
    return [choice.strip("'") for choice in limits["expected"].replace(" or ", ", ").split(", ")]


def _positions(place: _Place) -> tuple[str, ...]:
    """Return what stands at each position of a field that is a list of a fixed number of numbers."""
    name = place.field.rpartition(".")[2].partition("[")[0]
    members = [member for member in get_args(place.table) if member is not Ellipsis]
    positions = POSITIONS.get(name, ())
    return positions if get_origin(place.table) is tuple and len(members) == len(positions) else ()


def _meant(place: _Place, field: str) -> str | None:
    """Return the key that an unknown one probably stands for."""
    return like(field.rpartition(".")[2], list(place.table.model_fields))


def _table(annotation: Any) -> Any:
    """Return what an optional field holds when it is there, without notes for pydantic."""
    if get_origin(annotation) is Annotated:
        annotation = get_args(annotation)[0]
    members = [member for member in get_args(annotation) if member is not type(None)]
    return members[0] if len(members) == 1 and type(None) in get_args(annotation) else annotation


def _of_kind(union: Any, kind: str) -> Any:
    """Return the member of a union of tables that are told apart by their `kind`, None for anything else."""
    for member in get_args(union):
        field = getattr(member, "model_fields", {}).get("kind")
        if field is not None and kind in get_args(field.annotation):
            return member
    return None
