"""Placement on the array: rules, bounds, runs along paths and annealing, solvers against enumeration."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Iterator
from functools import cache
from itertools import combinations, pairwise, product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from conftest import examples, processor_time, tells
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright import drivers
from tilewright.allocation.placement import annealing
from tilewright.allocation.placement import minizinc as bridge
from tilewright.allocation.placement.floor import Floor, Regions, distance, violation
from tilewright.allocation.placement.hop_bound import fewest_hops, lower_bound
from tilewright.allocation.placement.improvement import improve
from tilewright.allocation.placement.paths import paths
from tilewright.allocation.placement.snake import snake
from tilewright.core import catalogue
from tilewright.core import room as core_room
from tilewright.core.context import Outcome, RunContext


def chain(rows: int, columns: int, *sizes: int) -> Floor:
    last = len(sizes) - 1
    return Floor(rows, columns, sizes, tuple(pairwise(range(last + 1))), tuple({0, last}))


PAPER = chain(4, 4, 4, 1, 8, 1, 2)
"""Figure 6 of the paper: five layers on sixteen PEs."""


@st.composite
def floors(draw: st.DrawFn, most: int, layers: int, *, any_border: bool = True) -> Floor:
    rows, columns = draw(st.integers(1, most)), draw(st.integers(1, most))
    n = draw(st.integers(1, min(layers, rows * columns)))
    ends = st.lists(st.integers(1, rows * columns), min_size=n, max_size=n, unique=True)
    sizes = tuple(end - begin for begin, end in pairwise([0, *sorted(draw(ends))]))
    edges = draw(st.sets(st.sampled_from([*combinations(range(n), 2)]))) if n > 1 else set()
    if draw(st.booleans()):
        edges |= set(pairwise(range(n)))
    border = draw(st.sets(st.integers(0, n - 1))) if any_border else {0, n - 1}
    return Floor(rows, columns, sizes, tuple(sorted(edges)), tuple(sorted(border)))


@cache
def connected(rows: int, columns: int, size: int) -> list[tuple[tuple[int, int], ...]]:
    alone = Floor(rows, columns, (size,), (), ())
    every = combinations(((row, column) for row in range(rows) for column in range(columns)), size)
    return [region for region in every if violation(alone, (region,)) is None]


def placements(floor: Floor, regions: Regions = ()) -> Iterator[Regions]:
    """Yield every valid placement that begins with some regions."""
    n = len(regions)
    begun = floor._replace(sizes=floor.sizes[:n], border=tuple(layer for layer in floor.border if layer < n))
    if regions and violation(begun, regions) is not None:
        return
    if n == len(floor.sizes):
        yield regions
        return
    for region in connected(floor.rows, floor.columns, floor.sizes[n]):
        yield from placements(floor, (*regions, region))


# Rules -----------------------------------------------------------------------------------------------------

PLACED: Regions = (
    ((0, 0), (0, 1), (0, 2), (0, 3)),
    ((1, 3),),
    ((1, 0), (1, 1), (1, 2), (2, 0), (2, 1), (2, 2), (2, 3), (3, 3)),
    ((3, 2),),
    ((3, 0), (3, 1)),
)

BROKEN = {
    "4 regions .. 5 layers": PLACED[:4],
    "layer 4 .. 1 PEs .. 2": (*PLACED[:4], ((3, 1),)),
    "layer 4 .. PE (3, -1) .. outside": (*PLACED[:4], ((3, -1), (3, 0))),
    "layer 4 .. PE (3, 2) .. layer 3": (*PLACED[:4], ((3, 1), (3, 2))),
    "layer 4 .. PE (3, 1) .. layer 4": (*PLACED[:4], ((3, 1), (3, 1))),
    "layer 0 .. not connected": (((0, 0), (0, 1), (0, 2), (3, 1)), *PLACED[1:4], ((3, 0), (0, 3))),
    "layer 1 .. layer 0": (PLACED[0], ((3, 0),), *PLACED[2:4], ((1, 3), (3, 1))),
}


def test_valid_placement_has_no_fault() -> None:
    assert violation(PAPER, PLACED) is None
    # Hops to layers 1 to 4, PE by PE.
    assert distance(PAPER, PLACED) == 1 + (3 + 2 + 1 + 4 + 3 + 2 + 1 + 2) + 1 + (2 + 1)


@pytest.mark.parametrize("message", BROKEN)
def test_broken_rules_are_found(message: str) -> None:
    assert tells(violation(PAPER, BROKEN[message]), message)


def test_the_border_must_be_reached() -> None:
    inside: Regions = (((0, 1),), ((1, 1),))
    floor = Floor(3, 3, (1, 1), ((0, 1),), (0,))
    assert violation(floor, inside) is None
    assert tells(violation(floor._replace(border=(0, 1)), inside), "layer 1 .. memory .. border")


# Bounds and heuristics against enumeration -----------------------------------------------------------------


@given(floors(most=3, layers=4))
@settings(max_examples=examples(150))
def test_bounds_hold_for_every_placement(floor: Floor) -> None:
    least, each = lower_bound(floor), fewest_hops(floor)
    run, hops = snake(floor), []
    for regions in placements(floor):
        hops.append(distance(floor, regions))
        for layer, fewest in enumerate(each):
            edges = tuple(edge for edge in floor.edges if edge[0] == layer)
            assert distance(floor._replace(edges=edges), regions) >= fewest
    assert least <= min(hops, default=least)
    if violation(floor, run) is None:
        assert distance(floor, run) >= min(hops)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 5), (5, 1), (4, 4), (5, 8), (8, 5), (7, 7)])
def test_paths_visit_every_pe_once(rows: int, columns: int) -> None:
    every = [(row, column) for row in range(rows) for column in range(columns)]
    for path in paths(rows, columns):
        assert sorted(path) == every
        assert all(abs(a - c) + abs(b - d) == 1 for (a, b), (c, d) in pairwise(path))


@given(floors(most=9, layers=12, any_border=False))
def test_snakes_are_valid(floor: Floor) -> None:
    assert violation(floor, snake(floor)) is None


@given(floors(most=7, layers=8))
def test_snakes_say_which_layer_misses_the_border(floor: Floor) -> None:
    found = violation(floor, snake(floor))
    assert found is None or "border" in found


@given(floors(most=7, layers=8, any_border=False), st.integers(0, 5))
@settings(max_examples=examples(40))
def test_improved_placements_are_valid_and_no_worse(floor: Floor, seed: int) -> None:
    run = snake(floor)
    found = improve(floor, run, time.monotonic() + 0.05, seed)
    assert violation(floor, found) is None
    assert lower_bound(floor) <= distance(floor, found) <= distance(floor, run)


@given(floors(most=6, layers=7, any_border=False), st.integers(0, 5), st.sampled_from([0.3, 2.0, 20.0]))
@settings(max_examples=examples(40))
def test_annealing_counts_as_it_goes(floor: Floor, seed: int, temperature: float) -> None:
    def built(regions: Regions) -> annealing.PlacementState:
        return annealing.build((floor.rows, floor.columns), regions, floor.edges, floor.border)

    state = built(snake(floor))
    annealing.seed(seed)
    annealing.anneal(state, 3000, temperature)
    state.best[:] = state.cells[:, annealing.Cell.LAYER]
    present = annealing.regions(state)
    assert violation(floor, present) is None
    assert state.totals[annealing.Total.HOPS] == distance(floor, present)
    assert (state.per_layer == built(present).per_layer).all()


def test_annealing_keeps_its_deadline_and_reports() -> None:
    floor = chain(24, 24, *range(5, 34))
    run, told = snake(floor), []
    annealing.anneal(annealing.build((24, 24), run, floor.edges, floor.border), 0, 1.0)  # compiles
    for seconds in (2.0, 20.0):  # the second on a busy machine
        told.clear()
        begin = time.monotonic()
        with processor_time(seconds + 1.0):
            found = improve(floor, run, begin + seconds, on_better=told.append)
        assert seconds - 0.1 < time.monotonic() - begin
        hops = [distance(floor, regions) for regions in (run, *told, found)]
        assert hops == sorted(hops, reverse=True)
        if hops[-1] < 0.8 * hops[0]:
            break
    assert len(told) > 0
    assert hops[-1] < 0.8 * hops[0]


@pytest.mark.nightly
def test_annealing_ends_and_repeats_itself() -> None:
    first, second = (improve(PAPER, snake(PAPER), math.inf, 3) for _ in range(2))
    assert first == second
    assert distance(PAPER, first) == 19


# The exact model -------------------------------------------------------------------------------------------

TINY = {
    "chain": chain(3, 3, 2, 3, 3),
    "wide": chain(2, 4, 1, 3, 2, 1),
    "hub": chain(3, 4, 2, 1, 6, 1, 2),
    "branches": Floor(3, 3, (2, 2, 1, 3), ((0, 1), (0, 2), (1, 3), (2, 3)), (0, 3)),
    "no edge between neighbours": Floor(2, 4, (2, 1, 2, 2), ((0, 2), (1, 3)), (0, 1, 3)),
    "a middle layer at the border": Floor(3, 3, (3, 1, 3), ((0, 1), (1, 2)), (0, 1, 2)),
    "anywhere": Floor(3, 3, (1, 4, 2), ((0, 1), (1, 2)), ()),
    "one row": Floor(1, 5, (2, 1, 2), ((0, 1), (0, 2)), (0,)),
    "alone": Floor(2, 2, (3,), (), (0,)),
}


@pytest.fixture
def room(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let floors be a room of their own, with the formulations of allocation."""
    functions = {name: getattr(bridge, name) for name in ("data", "relax", "size", "start")}
    minizinc = SimpleNamespace(
        **functions,
        decisions=lambda _floor, solution: list(solution.layer),
        plan=bridge.read,
        scale=lambda _floor: (0, 1),
    )
    floors = SimpleNamespace(
        name="allocation", objective=distance, violation=violation, minizinc=minizinc, plan_type=tuple
    )
    monkeypatch.setitem(core_room._BY_TYPE, Floor, floors)


def formulation(solver: str) -> Any:
    """Return the solver's formulation, as one that takes floors."""
    if solver == "gecode":
        return catalogue.formulation("allocation", "regions")
    name = "flows" if solver == "highs" else "floorplan"
    chosen: Any = catalogue.formulation("allocation", name)
    return SimpleNamespace(__name__=name, build=chosen.formulate, start=chosen.hint, read=chosen.regions)


def solve(floor: Floor, solver: str, *, seconds: float = 600, extras: bool = True, **search: Any) -> Outcome:
    if not drivers.available(solver):
        assert not os.environ.get("CI"), f"{solver} must be installed in CI"
        pytest.skip(f"{solver} is not installed")
    given = RunContext(**search)
    given.deadline = time.monotonic() + seconds
    found: Outcome = drivers.load(solver).solve(floor, formulation(solver), given, extras=extras)
    return found


WITH_EACH_SOLVER = pytest.mark.parametrize("solver", ["gecode", "cpsat", "highs"])


@cache
def fewest_of_all(name: str) -> int:
    return min(distance(TINY[name], placed) for placed in placements(TINY[name]))


@pytest.mark.by_day(12)
@pytest.mark.parametrize("extras", [True, False], ids=["extras", "plain"])
@pytest.mark.parametrize("name", TINY)
@WITH_EACH_SOLVER
@pytest.mark.usefixtures("room")
def test_solvers_agree_with_enumeration(solver: str, name: str, extras: bool) -> None:
    floor = TINY[name]
    outcome = solve(floor, solver, extras=extras)
    assert outcome.status == "optimal"
    assert violation(floor, outcome.plan) is None
    assert outcome.bound == distance(floor, outcome.plan) == fewest_of_all(name)


@given(floors(most=3, layers=4))
@settings(max_examples=examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.usefixtures("room")
def test_models_agree_with_enumeration_at_random(floor: Floor) -> None:
    least = min((distance(floor, placed) for placed in placements(floor)), default=None)
    for solver, extras in product(("cpsat", "highs"), (True, False)):
        outcome = solve(floor, solver, extras=extras)
        assert (outcome.status, outcome.bound) == (
            ("optimal", least) if least is not None else ("infeasible", None)
        )


@WITH_EACH_SOLVER
@pytest.mark.usefixtures("room")
def test_the_papers_array_is_proven(solver: str) -> None:
    with processor_time(30 if solver == "highs" else 10):
        outcome = solve(PAPER, solver)
    assert (outcome.status, outcome.bound) == ("optimal", 19)


@WITH_EACH_SOLVER
@pytest.mark.usefixtures("room")
def test_what_fits_nowhere_is_infeasible(solver: str) -> None:
    floor = chain(3, 3, *[1] * 9)._replace(border=tuple(range(9)))  # and one of them in the middle
    assert "border" in str(violation(floor, snake(floor)))
    outcome = solve(floor, solver)
    assert (outcome.status, outcome.plan) == ("infeasible", None)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("extras", [True, False], ids=["extras", "plain"])
@WITH_EACH_SOLVER
@pytest.mark.usefixtures("room")
def test_start_arrives(solver: str, extras: bool) -> None:
    for floor in (TINY["hub"], TINY["wide"], TINY["branches"]):
        start, found = snake(floor), list[Regions]()
        outcome = solve(floor, solver, extras=extras, start=start, on_plan=found.append)
        assert outcome.warm_start is not None
        assert distance(floor, found[0]) == distance(floor, start)
        assert outcome.status == "optimal"


@pytest.mark.parametrize("rows", [4, 5])
def test_images_of_a_placement_have_one_start(rows: int) -> None:
    floor = PAPER._replace(rows=rows)
    layers = np.zeros((rows, 4), np.int64)
    for layer, region in enumerate(PLACED, start=1):
        layers[tuple(np.array(region).T)] = layer
    starts = set()
    for image in [layers, layers[::-1], layers[:, ::-1], layers[::-1, ::-1]] + (
        [layers.T] if rows == 4 else []
    ):
        regions = tuple(tuple(map(tuple, np.argwhere(image == layer).tolist())) for layer in range(1, 6))
        starts.add(tuple(bridge.start(floor, regions)))
    assert len(starts) == 1


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.usefixtures("room")
def test_an_array_of_eight_by_eight_is_improved() -> None:
    floor = chain(8, 8, 6, 12, 9, 15, 5, 8)
    run = snake(floor)
    for seconds in (2, 8, 80):  # the later ones on a busy machine
        outcome = solve(floor, "gecode", seconds=seconds, start=run)
        if outcome.plan is not None and distance(floor, outcome.plan) < distance(floor, run):
            break
    assert violation(floor, outcome.plan) is None
    assert lower_bound(floor) <= distance(floor, outcome.plan) < distance(floor, run)
