"""Optima that the exact search claims, proven a second time by the verifier."""

from __future__ import annotations

from typing import Any

import pytest
import verifier
from conftest import examples, nightly, thinned
from enumeration import optimum
from exact_cases import best_start, layer_of, soon, tiny
from hypothesis import assume, given, settings

from tilewright.core.context import RunContext
from tilewright.grouping import Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.grouping.exact import search
from tilewright.grouping.exact.layered_search import LayeredSearch
from tilewright.grouping.exact.stages import StateSpace
from tilewright.models.grouping import exact


@settings(max_examples=examples(60))
@given(problem=tiny())
def test_the_verifier_agrees_with_enumeration(problem: Problem) -> None:
    assume(len(problem.needed_pixels) <= 64 and problem.limits.reloads in (0, 2))
    watched, expected = problem.limits.reloads == 2, optimum(problem)
    if expected is None:
        most = problem.cost(problem.max_loads * len(problem.needed_pixels), problem.steps_range[1])
        assert not verifier.cheaper(problem, most + 1, watched=watched)
        return
    assert not verifier.cheaper(problem, expected, watched=watched)
    assert verifier.cheaper(problem, expected + 1, watched=watched)


def claim(problem: Problem) -> int:
    """Return the optimum that the method claims from the start that `auto` gives it."""
    outcome = exact.solve(problem, RunContext(start=best_start(problem), deadline=soon()))
    assert outcome.status == "optimal"
    assert outcome.bound == objective(problem, outcome.plan)
    report = simulate(problem, outcome.plan)
    assert report.violation is None
    assert measured_objective(problem, report) == outcome.bound
    return int(outcome.bound)


KNOWN = {(5, 2): 31, (6, 2): 48, (7, 2): 72, (7, 3): 60}
"""Optima of square inputs that are above the compulsory loads and the fewest steps."""


@pytest.mark.by_day(3)
@pytest.mark.parametrize("group", [2, 3, *thinned(range(4, 11), 3)])
@pytest.mark.parametrize("side", [4, 5, 6, 7])
def test_the_grid_of_s1_is_proven_twice(side: int, group: int) -> None:
    for steps in ("kmin", "free"):
        problem = layer_of((side, side), group, steps=steps)
        claimed = claim(problem)
        counted = problem.cost(side * side, problem.kmin)
        assert claimed == KNOWN.get((side, group), counted)
        # All pixels once in the fewest steps: nothing is cheaper, and nothing is left to prove.
        if claimed > counted:
            assert not verifier.cheaper(problem, claimed)


OTHERS = {
    "5x5 kernel": layer_of((8, 8), 2, kernel=(5, 5)),
    "5x5 kernel, groups of three": layer_of((7, 9), 3, kernel=(5, 5), steps="free"),
    "5x5 kernel, row": layer_of((5, 12), 2, kernel=(5, 5)),
    "5x3 kernel": layer_of((7, 8), 2, kernel=(5, 3), steps="free"),
    "1x1 kernel": layer_of((3, 5), 2, kernel=(1, 1), steps="free"),
    "1x1 kernel, full": layer_of((4, 5), 4, kernel=(1, 1)),
    "2x2 kernel": layer_of((6, 7), 2, kernel=(2, 2)),
    "2x2 kernel, one by one": layer_of((5, 6), 1, kernel=(2, 2)),
    "stride": layer_of((7, 9), 2, stride=(2, 2)),
    "stride, steps free": layer_of((7, 9), 3, stride=(2, 2), steps="free"),
    "uneven stride": layer_of((6, 9), 2, stride=(1, 2)),
    "uneven stride, upright": layer_of((9, 6), 3, stride=(2, 1), steps="free"),
    "stride and 5x5": layer_of((7, 9), 2, kernel=(5, 5), stride=(2, 1)),
    "stride beyond the kernel": layer_of((8, 7), 2, kernel=(2, 2), stride=(3, 2), steps="free"),
    "stripe": layer_of((4, 12), 2),
    "long row": layer_of((3, 18), 2),
    "wide": layer_of((5, 9), 3, steps="free"),
    "one more step": layer_of((5, 6), 2, steps=7),
    "two more steps": layer_of((6, 6), 3, steps=8),
    "dilation": layer_of((8, 7), 2, dilation=(2, 1)),
    "dilation, both": layer_of((7, 8), 2, dilation=(2, 2), steps="free"),
    "dilation and stride": layer_of((7, 9), 2, dilation=(2, 1), stride=(1, 2)),
    "padding loaded": layer_of((4, 5), 2, padding=[1, 1, 1, 1]),
    "padding generated": layer_of((4, 5), 2, padding=[1, 1, 1, 1], machine={"padding": "generated"}),
    "uneven padding": layer_of((5, 5), 2, padding=[1, 0, 0, 1], machine={"padding": "generated"}),
    "memory": layer_of((5, 7), 4, steps="free", machine={"memory": 9 + 14 + 3}),
    "dear steps": layer_of((6, 6), 2, steps="free", machine={"compute": 4}),
    "free steps": layer_of((5, 6), 3, steps="free", machine={"compute": 0}),
    "dear loads": layer_of((5, 6), 2, steps="free", machine={"load": 3, "compute": 2}),
    "no limit": layer_of((6, 6), 1, reloads=0),
    "one by one": layer_of((6, 6), 1),
}


@pytest.mark.by_day(9)
@pytest.mark.parametrize("name", OTHERS)
def test_other_layers_are_proven_twice(name: str) -> None:
    problem = OTHERS[name]
    claimed = claim(problem)
    assert not verifier.cheaper(problem, claimed)


# Here cheaper plans load some pixel three times, or other best ones do, and the search must watch.
WATCHED = {
    "one by one": layer_of(
        (5, 4), 1, steps="free", padding=[1, 1, 0, 1], machine={"padding": "generated", "memory": 25}
    ),
    "large kernel": layer_of(
        (6, 11), 3, kernel=(4, 5), steps="free", stride=[2, 2], padding=[1, 0, 0, 0],
        machine={"padding": "generated", "memory": 45, "compute": 3},
    ),
    "dilation": layer_of(
        (5, 11), 1, kernel=(3, 4), steps="free", stride=[1, 2], dilation=[1, 2], padding=[1, 0, 0, 0],
        machine={"padding": "generated", "memory": 57, "compute": 1},
    ),
    "dilation and stride": layer_of(
        (6, 11), 1, steps="free", stride=[1, 2], dilation=[1, 2],
        machine={"padding": "generated", "memory": 37, "compute": 1},
    ),
    "none": layer_of((7, 7), 3, kernel=(4, 4), steps="free", machine={"memory": 33, "compute": 3}),
}  # fmt: skip
LONG = {"dilation and stride"}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", [pytest.param(name, marks=[nightly] * (name in LONG)) for name in WATCHED])
def test_the_limit_of_two_loads_is_proven_twice(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    watched: dict[tuple[int, int], list[bool]] = {}
    original = search.plans_within

    def noted(space: StateSpace, *arguments: Any, **options: Any) -> LayeredSearch:
        watched.setdefault(space.problem.steps_range, []).append(options["watched"])
        return original(space, *arguments, **options)

    monkeypatch.setattr(search, "plans_within", noted)
    problem = WATCHED[name]
    outcome = exact.solve(problem, RunContext(deadline=soon()))
    # Of each number of steps: once it watches, it goes on doing so.
    assert all(found == sorted(found) for found in watched.values())
    assert any(found[-1] for found in watched.values())
    if outcome.status == "infeasible":
        most = problem.cost(2 * len(problem.needed_pixels), problem.n_patches)
        assert not verifier.cheaper(problem, most + 1, watched=True)
        return
    assert outcome.status == "optimal"
    assert violation(problem, outcome.plan) is None
    assert objective(problem, outcome.plan) == outcome.bound
    assert not verifier.cheaper(problem, int(outcome.bound), watched=True)


@pytest.mark.nightly
def test_many_of_these_claims_need_more_than_counting() -> None:
    """Otherwise the second proofs would say little."""
    hard = [name for name, problem in OTHERS.items() if best_bound(problem).value < claim(problem)]
    assert len(hard) >= len(OTHERS) // 3
