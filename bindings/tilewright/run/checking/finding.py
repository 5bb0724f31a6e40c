"""What was checked of a result, and what came out of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

State = Literal["verified", "refuted", "not verified", "unverified", "told"]
"""``verified`` by computing it anew; ``refuted``: it is wrong; ``not verified`` in time, or for want of a
solver; ``unverified``: not computed at all, and nothing in the file claims it; ``told``: the author's word,
which nothing in the file can prove."""


@dataclass(frozen=True)
class Finding:
    """One thing that was checked.

    Attributes
    ----------
    what
        What it is about: a field of the result, or a property of its plan.
    state : {"verified", "refuted", "not verified", "unverified", "told"}
        What came out: `unverified` is what was not computed and is no claim of the file, `told` the author's
        word.
    detail
        What was found, in a sentence.
    """

    what: str
    state: State
    detail: str

    @property
    def holds(self) -> bool:
        """Whether it is neither refuted nor a claim that could not be verified."""
        return self.state not in ("refuted", "not verified")

    def to_json(self) -> dict[str, Any]:
        """Return what ``tilewright check --json`` prints."""
        return {"what": self.what, "holds": self.holds, "state": self.state, "detail": self.detail}


def verdict(what: str, right: bool, detail: str) -> Finding:
    """Return a finding on something that is certain."""
    return Finding(what, "verified" if right else "refuted", detail)


def exit_status(findings: Iterable[Finding]) -> int:
    """Return 0 if all findings hold, 1 if one is refuted, 5 if none is but a claim could not be verified."""
    states = {finding.state for finding in findings}
    return 1 if "refuted" in states else 5 if "not verified" in states else 0
