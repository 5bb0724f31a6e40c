"""The best plans and bounds known for bundled instances: ``instances/<room>/best-known.json``.

A line is a JSON object with ``instance``, ``sha256``, ``objective`` and who has ``found`` it, ``bound`` and
who has ``proven`` it: method, version, seconds, date. The plan stands in ``plan``, or, in `grouping`, as
`papers.s1.records` says.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tilewright.core import catalogue
from tilewright.spec.errors import InputError

FILE = "best-known.json"


@dataclass(frozen=True)
class BestKnown:
    """What is known of an instance, without the plan.

    Attributes
    ----------
    objective, found
        Of the best plan, and what found it.
    bound, proven
        The best bound, and what proved it.
    """

    objective: int | None
    bound: int | None
    found: dict[str, Any] | None
    proven: dict[str, Any] | None


def best_known(rooms: Iterable[str]) -> dict[str, BestKnown]:
    """Return what is known of the instances of rooms, by the digest of the instance."""
    known: dict[str, BestKnown] = {}
    for room in rooms:
        for path in (folder / FILE for folder in catalogue.folders("instances", room)):
            if not path.is_file():
                continue
            try:
                for line in path.read_text("utf-8").splitlines():
                    one = json.loads(line)
                    fields = (one["objective"], one["bound"], one["found"], one["proven"])
                    known.setdefault(one["sha256"], BestKnown(*fields))
            except (ValueError, KeyError, TypeError) as error:
                raise InputError(
                    "record", None, f"is none of a best-known result: {error}", str(path)
                ) from error
    return known
