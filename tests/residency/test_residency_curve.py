"""The curve of traffic over memory: what single solves say at its corners, beside them and between."""

from __future__ import annotations

import random
import time
import tomllib
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Run, examples
from residency_cases import problem_of, random_network, random_problem

from tilewright.residency import Problem, objective, simulate, violation
from tilewright.residency.curve_plot import draw_curve, plot_curve
from tilewright.residency.exact import traffic as best
from tilewright.residency.exact.traffic_curve import Curve, point_of, traffic_curve
from tilewright.run.instance import parse
from tilewright.spec.errors import InputError

PLENTY = 2**30


def with_plenty(rng: random.Random) -> Problem:
    return in_memory(random_problem(rng, limits={"order": rng.choice(["any", "given"])}), PLENTY)


def in_memory(problem: Problem, memory: int) -> Problem:
    return problem.with_(machine={"memory_bytes": memory})


def solved(problem: Problem, memory: int) -> tuple[int, int]:
    """Return what the best plan for a memory moves, and the bound."""
    there = in_memory(problem, memory)
    answer = best.least_traffic(there, float("inf"), lambda _bound: None, lambda _plan: None)
    assert answer.plan is not None
    return objective(there, answer.plan), answer.bound


@pytest.mark.by_day(1)
@pytest.mark.parametrize("seed", range(examples(60)))
def test_the_curve_is_what_solves_say_size_by_size(seed: int) -> None:
    rng = random.Random(seed)
    problem = with_plenty(rng)
    curve = traffic_curve(problem)
    sizes = [corner.memory_bytes for corner in curve.corners]
    least = sizes[0]
    assert least == problem.least_memory and curve.traffic(least - 1) is None
    asked = {*sizes, *(size - 1 for size in sizes[1:])} | {rng.randint(least, 2 * sizes[-1]) for _ in "123"}
    for memory in sorted(asked)[:40]:
        moved, bound = solved(problem, memory)
        assert curve.bound(memory) == bound
        assert curve.traffic(memory) == moved
    assert curve.proven
    check(problem, curve)


def check(problem: Problem, curve: Curve) -> None:
    """Check that all corners have plans that run in their memory, and that the staircases go down."""
    for corner in curve.corners:
        there = in_memory(problem, corner.memory_bytes)
        assert violation(there, corner.plan) is None
        assert objective(there, corner.plan) == corner.traffic_bytes
        report = simulate(there, corner.plan)
        assert report.valid and report.measures.traffic_bytes == corner.traffic_bytes
        assert report.measures.memory_bytes <= corner.memory_bytes
        assert curve.bound(corner.memory_bytes) <= corner.traffic_bytes
        if corner.proven:
            assert curve.bound(corner.memory_bytes) == corner.traffic_bytes
    for known in ([corner[:2] for corner in curve.corners], curve.bounds):
        assert all(one[0] < two[0] and one[1] > two[1] for one, two in pairwise(known))


BLOCK = """
room = "residency"
name = "block"
[[network.layers]]
name = "a"
input = [2, 6, 6]
kernels = 3
kernel = [3, 3]
padding = [1, 1, 1, 1]
[[network.layers]]
name = "b"
input = [3, 6, 6]
kernels = 2
kernel = [3, 3]
padding = [1, 1, 1, 1]
[[network.layers]]
name = "c"
kind = "add"
input = [2, 6, 6]
inputs = ["b", "input"]
[machine]
memory_bytes = 500
"""
COMPULSORY = 72 + 54 + 54 + 72
"""A residual block: input, weights and output."""


def block() -> Problem:
    problem = parse(tomllib.loads(BLOCK)).problem
    assert isinstance(problem, Problem)
    return problem


@pytest.fixture(scope="module")
def of_a_block() -> list[Curve]:
    """Return what is known of the curve of a residual block after each size."""
    seen: list[Curve] = []
    whole = traffic_curve(block(), on_step=seen.append)
    assert seen[-1] == whole
    return seen


@pytest.mark.nightly
def test_each_corner_is_the_least_memory_for_its_traffic(of_a_block: list[Curve]) -> None:
    curve = of_a_block[-1]
    assert curve.proven and len(curve.corners) > 5
    for corner in curve.corners[1::3]:
        asked = {"minimise": "memory", "most_traffic": corner.traffic_bytes}
        problem = block().with_(objective=asked)
        answer = best.least_memory(problem, float("inf"), lambda _bound: None)
        assert answer.bound == corner.memory_bytes
    assert curve.corners[-1].traffic_bytes == curve.compulsory_bytes == COMPULSORY
    assert curve.traffic(PLENTY) == curve.bound(PLENTY) == COMPULSORY
    check(block(), curve)


def test_a_curve_out_of_time_holds_as_far_as_it_goes(of_a_block: list[Curve]) -> None:
    whole = of_a_block[-1]
    assert len(of_a_block) > 5 and not of_a_block[1].proven
    least = whole.corners[0].memory_bytes
    for curve in of_a_block:
        for memory in range(least, 600):
            exact = whole.bound(memory)
            assert curve.bound(memory) <= exact <= (curve.traffic(memory) or exact)
    none = traffic_curve(block(), time.monotonic() - 1)
    assert none.corners == () and not none.proven and none.bound(least) == COMPULSORY
    *known, _proven = whole.corners[-1]
    one = traffic_curve(block(), time.monotonic() - 1, plans=[whole.corners[-1].plan])
    assert one.corners == ((*known, True),)


def test_the_curve_is_drawn_with_what_was_asked_for(of_a_block: list[Curve], tmp_path: Path) -> None:
    """Also while some of it is open."""
    point = 500, COMPULSORY
    one = traffic_curve(block(), time.monotonic() - 1, plans=[of_a_block[-1].corners[-1].plan])
    for number, curve in enumerate((of_a_block[-1], of_a_block[1], one)):
        axes = plot_curve(curve, point=point, title="block")
        texts = [text.get_text() for text in axes.get_legend().get_texts()]
        assert ("all proven" in texts[0]) == curve.proven
        assert f"{len(curve.corners)} steps" in texts[0]
        assert f"asked for: 500 bytes, {COMPULSORY} moved" in texts
        line = next(each for each in axes.lines if each.get_label() == texts[0])
        assert line.get_xydata()[:-1].tolist() == [list(corner[:2]) for corner in curve.corners]
        draw_curve(curve, tmp_path / f"{number}.png", point=point)
        assert (tmp_path / f"{number}.png").stat().st_size > 10_000
    empty = traffic_curve(block(), time.monotonic() - 1)
    with pytest.raises(InputError, match="no plan of any memory"):
        draw_curve(empty, tmp_path / "none.png")


def test_a_point_is_where_a_plan_stands(of_a_block: list[Curve]) -> None:
    corner = of_a_block[-1].corners[-1]
    assert point_of(block(), corner.plan) == (500, COMPULSORY)
    least = block().with_(objective={"minimise": "memory"})
    assert point_of(least, corner.plan) == corner[:2]


def test_the_command_draws_it(tilewright: Run, tmp_path: Path) -> None:
    (tmp_path / "block.toml").write_text(BLOCK)
    drawing = ("--plot", "c.png", "--picture", "curve")
    done = tilewright("solve", "block.toml", "--with", "states", *drawing)
    assert done.returncode == 0 and done.stdout.endswith("written: c.png\n")
    assert (tmp_path / "c.png").exists()
    done = tilewright("solve", "minimalloc-example", *drawing)
    assert done.returncode == 2 and "is for room residency" in done.stderr


def test_elements_of_several_bytes_make_all_of_it_larger() -> None:
    problem = problem_of(random_network(random.Random(3)), PLENTY, machine={"sum_bytes": 1})
    wide = problem.with_(machine={"element_bytes": 4, "sum_bytes": 4})
    once, four = traffic_curve(problem), traffic_curve(wide)
    assert [(4 * memory, 4 * moved) for memory, moved, *_ in once.corners] == [
        corner[:2] for corner in four.corners
    ]
    assert four.proven


def test_what_was_asked_of_the_problem_plays_no_part() -> None:
    problem = problem_of(random_network(random.Random(4), 2), PLENTY)
    curve = traffic_curve(problem)
    least = curve.corners[0].memory_bytes
    for objective_ in ({"minimise": "memory"}, {"minimise": "memory", "most_traffic": 2**40}):
        other = problem.with_(machine={"memory_bytes": least}, objective=objective_)
        assert traffic_curve(other) == curve


def test_where_addresses_need_more_than_what_lives_the_curve_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = problem_of(random_network(random.Random(4), 2), PLENTY)
    exact = traffic_curve(problem)
    monkeypatch.setattr("tilewright.residency.exact.traffic_curve.place_steps", lambda *_: None)
    again = traffic_curve(problem)
    assert [corner[:2] for corner in again.corners] == [corner[:2] for corner in exact.corners]
    assert len(exact.corners) > 1 and again.proven
    monkeypatch.setattr("tilewright.residency.exact.traffic_curve.least_height", higher)
    worse = traffic_curve(problem)
    check(problem, worse)
    for memory in range(exact.corners[0].memory_bytes, 2 * exact.corners[-1].memory_bytes):
        known = exact.traffic(memory)
        assert known is not None
        assert worse.bound(memory) <= known <= (worse.traffic(memory) or known)
    (_, moved), *_ = [corner[:2] for corner in worse.corners]
    assert moved == exact.corners[0].traffic_bytes


def higher(*buffers: object, **_options: object) -> object:
    """Return offsets with an element left free below all."""
    from tilewright.addresses import Packing, least_height

    found = least_height(*buffers)  # type: ignore[arg-type]
    assert found.offsets is not None
    return Packing(found.offsets + 1, False)
