"""Problems with constraints, held to all plans of which oracles keep those that a predicate admits."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

from conftest import in_turn

import tilewright as tw
from tilewright.spec.errors import TilewrightError

Json = dict[str, Any]
Case = tuple[str, Callable[[Json], bool]]
"""What is said, and the same as a predicate on a plan's JSON, in Python of its own."""


REFUSED = ("method = ", "cannot honour", "is no linear constraint", "is no decision of")
"""What a method says that does not take a problem with its constraints."""


def least(plans: Iterator[tuple[Json, int]], keeps: list[Callable[[Json], bool]]) -> int | None:
    """Return the least cost of the plans that keep all predicates."""
    return min((cost for plan, cost in plans if all(kept(plan) for kept in keeps)), default=None)


def hold_to(
    problem: Any, cases: list[Case], plans: Iterator[tuple[Json, int]], methods: list[str], number: int
) -> None:
    """Solve a problem with constraints by methods, and compare with the filtered plans."""
    expected = least(plans, [keeps for _, keeps in cases])
    constrained = problem.where(*(text for text, _ in cases))
    for method in in_turn(methods, number):
        try:
            result = tw.solve(constrained, method, time_limit=60, confirm=False)
        except TilewrightError as error:
            assert any(reason in str(error) for reason in REFUSED)
            continue
        told = f"{method}: {[text for text, _ in cases]}"
        if expected is None:
            assert result.status == "infeasible", told
            continue
        assert (result.status, result.objective) == ("optimal", expected), told
        assert all(keeps(json.loads(json.dumps(result.plan.to_json()))) for _, keeps in cases)
