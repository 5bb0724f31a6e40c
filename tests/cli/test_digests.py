"""Digests of problems stay as they were when fields are added, so that results go on belonging to them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from test_json import INSTANCES, read_text

from tilewright.core import catalogue
from tilewright.run.instance import digest
from tilewright.spec.base import Spec

FIRST = json.loads(Path(__file__).with_name("first-fields.json").read_text())
"""Fields of each table when the digest was what it is, and digests of that time."""


def tables(of: type[Spec] = Spec) -> dict[str, type[Spec]]:
    """Return all tables by their module and name."""
    found = {}
    for table in of.__subclasses__():
        found[f"{table.__module__}.{table.__name__}".removeprefix("tilewright.")] = table
        found |= tables(table)
    return found


@pytest.mark.parametrize("name", INSTANCES)
def test_a_digest_stays(name: str) -> None:
    assert read_text(INSTANCES[name]).sha256 == FIRST["digests"][name]


def test_only_new_fields_that_are_used_change_a_digest() -> None:
    problem = read_text(INSTANCES["dsp"]).problem
    same = problem.with_(objective={"tolerance": 0.0}, limits={"at_most": {}})
    assert digest("tiling", same) == digest("tiling", problem)
    other = problem.with_(limits={"at_most": {"cycles": 10**9}})
    assert digest("tiling", other) != digest("tiling", problem)


def test_every_field_that_was_added_is_said_to_be_later_and_has_a_default() -> None:
    for room in catalogue.ROOMS:
        catalogue.room(room)
    for name, fields in FIRST["fields"].items():
        table = tables()[name]
        added = set(table.model_fields) - set(fields)
        later = set(table.later) | (set(table.ever_later) & set(table.model_fields))
        assert added == later, f"{name}: a field that is added belongs into `later`"
        assert not any(table.model_fields[field].is_required() for field in added)
