"""What pydantic refuses, told as an `InputError`: the first field that is wrong, its value, its limit."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import BaseModel, ValidationError

from tilewright.spec.errors import InputError

Table = TypeVar("Table", bound=BaseModel)


def validated(model: type[Table], table: dict[str, Any]) -> Table:
    """Build what a table describes, with errors that name field, value and limit."""
    try:
        return model.model_validate(table)
    except ValidationError as error:
        raise as_input_error(error, model) from None
    except RecursionError:
        raise InputError("file", model.__name__.lower(), "is nested too deeply") from None


def as_input_error(error: ValidationError, model: Any, name: str = "") -> InputError:
    """Name the first field that is wrong, and all that would be right there.

    Parameters
    ----------
    name
        Of the table that holds the fields, put before the field's own.
    """
    causes = error.errors(include_url=False)
    first = causes[0]
    # A location may go on into the members of a union, which are no fields.
    names: list[str] = [name] if name else []
    table = model
    for part in map(str, first["loc"]):
        member = _of_kind(table, part)
        if member is not None:
            table = member
            continue
        if part.isdigit() and get_args(table):  # one entry of a list
            names[-1] += f"[{part}]"
            table = _table(get_args(table)[0])
            continue
        inside = getattr(table, "model_fields", {})
        if part not in inside and first["type"] != "extra_forbidden":
            break
        names.append(part)
        if part in inside:
            table = _table(inside[part].annotation)
    field = ".".join(names)
    if first["type"] in ("union_tag_not_found", "union_tag_invalid"):
        kinds = [
            kind for member in get_args(table) for kind in get_args(member.model_fields["kind"].annotation)
        ]
        given = first["input"].get("kind") if isinstance(first["input"], dict) else first["input"]
        return InputError(f"{field}.kind", given, f"must be one of: {', '.join(kinds)}")
    if first["type"] == "missing":
        return InputError(field, None, "is missing")
    if first["type"] == "extra_forbidden":
        return InputError(field, first["input"], f"unknown key; there are: {', '.join(table.model_fields)}")
    depth = len(names) - bool(name)
    alike = [cause for cause in causes if cause["loc"][:depth] == first["loc"][:depth]]
    limit = " or ".join(dict.fromkeys(cause["msg"] for cause in alike))
    return InputError(field, first["input"], limit[0].lower() + limit[1:])


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
