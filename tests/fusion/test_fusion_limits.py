"""Limits and buffers that leave operations no tile: every method says that there is no plan, or finds one."""

from __future__ import annotations

import re
from pathlib import Path
from random import Random
from typing import Any

import pytest
from conftest import examples, tells, thinned
from formulations import check_agreement, methods, need, with_each
from fusion.fusion_at_random import machine, network
from fusion.test_selection import can_be_executed, cost, partitions
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.fuzz.networks import network as any_network
from tests.oracles import TooLarge
from tests.oracles import fusion as oracle

from tilewright import solve
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.fusion import Plan, Problem, best_bound, choices, objective, plot, simulate, violation
from tilewright.fusion.bounds import too_large_alone
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import best_tile, evaluate_tile, least_buffers
from tilewright.fusion.machine import BUFFERS, HOST
from tilewright.fusion.selection.candidates import candidates, fitting_groups
from tilewright.spec.errors import TilewrightError
from tilewright.spec.validation import validated

HEURISTICS = ("layerwise", "greedy", "dnnvm")


def small(random: Random, halo: str, minimise: str) -> Problem:
    """Return a random problem whose buffers are small."""
    buffers = {f"{name}_bytes": random.choice([random.randint(10, 90), 200, 1000]) for name in BUFFERS}
    table = {
        "network": network(random, most=5),
        "machine": machine(random, **buffers),
        "objective": {"minimise": minimise},
        "limits": {"halo": halo},
    }
    problem: Problem = validated(Problem, table)
    return problem


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Draw problems with small buffers and each limit on halos."""
    random = draw(st.integers(0, 2**32 - 1).map(Random))
    halo = draw(st.sampled_from(["keep", "keep", "recompute", "any"]))
    return small(random, halo, draw(st.sampled_from(["cycles", "traffic", "energy"])))


def least(problem: Problem) -> int | None:
    """Return the cost of the best plan, None if there is none, by enumeration."""
    producers = [op.producers for op in problem.ops]
    every = partitions(frozenset(range(len(producers))), fitting_groups(problem))
    return min((cost(chosen) for chosen in every if can_be_executed(producers, chosen)), default=None)


def check_plan(problem: Problem, plan: Plan, expected: int | None) -> None:
    assert violation(problem, plan) is None
    assert expected is not None
    assert best_bound(problem).value <= expected <= objective(problem, plan)
    report = simulate(problem, plan)
    assert report.valid, report.violation
    limit = problem.limits.halo
    for group in plan.groups:
        if group.tile is not None and group.tile.halo != limit != "any":
            assert group.tile.rows == problem.fused((_number(problem, group.nodes[-1]),)).plane[0]


def _number(problem: Problem, name: str) -> int:
    return next(op.number for op in problem.ops if op.name == name)


@pytest.mark.nightly
@settings(max_examples=examples(60))
@given(problem=problems())
def test_heuristics_and_the_exact_search_keep_limits(problem: Problem) -> None:
    expected, lonely = least(problem), too_large_alone(problem)
    for name in HEURISTICS:
        plan = catalogue.heuristic("fusion", name).plan(problem)
        told = violation(problem, plan)
        if told is None:
            check_plan(problem, plan, expected)
        else:  # only where an operation alone does not fit: it names what is too small
            assert lonely
            assert re.search(r"operation l\d .*alone.*machine", told)
            assert any(f"machine.{name}_bytes = " in told for name in BUFFERS)
    found = catalogue.formulation("fusion", "downsets").solve(problem, RunContext())
    assert found.status == ("infeasible" if expected is None else "optimal")
    if found.plan is not None:
        check_plan(problem, found.plan, expected)
        assert found.bound == objective(problem, found.plan) == expected
    if best_bound(problem).impossible is not None:
        assert expected is None


@settings(max_examples=examples(60))
@given(problem=problems())
def test_what_is_said_to_be_enough_is(problem: Problem) -> None:
    for number in too_large_alone(problem):
        needed = least_buffers(problem, (number,))
        sizes = {f"{name}_bytes": size for name, size in needed.items()}
        assert all(size > getattr(problem.machine, name) for name, size in sizes.items())
        larger = problem.model_copy(update={"machine": problem.machine.model_copy(update=sizes)})
        assert number not in too_large_alone(larger)
        for name in sizes:
            less = sizes | {name: sizes[name] - 1}
            slightly = problem.model_copy(update={"machine": problem.machine.model_copy(update=less)})
            assert number in too_large_alone(slightly)


ONE = {"layers": [{"name": "a", "input": (1, 1, 1), "kernels": 1, "kernel": (1, 1)}]}
METHODS = methods(validated(Problem, {"network": ONE, "machine": machine(Random(0))}))

IN_GROUPS_ONLY = (397, 533, 899, 950)
"""Seeds of problems in which an operation does not fit alone, but in a group."""

NOWHERE = (6, 10, 21, 23, 42)
"""Seeds of problems in which an operation fits nowhere."""


@pytest.mark.nightly
@pytest.mark.parametrize("extras", [True, False], ids=["extras", "plain"])
@with_each(METHODS)
def test_formulations_keep_limits(path: Path, solver: str, extras: bool) -> None:
    for number in (*IN_GROUPS_ONLY, *NOWHERE[:2]):
        problem = small(Random(number), "keep", "cycles")
        assert too_large_alone(problem)
        assert (least(problem) is not None) == (number in IN_GROUPS_ONLY)
        check_agreement(problem, path, solver, extras, least(problem))
    check_agreement(torn(), path, solver, extras, None)


def torn() -> Problem:
    """Return two operations that fit only in a group with a third one, which both of them read."""

    def conv(name: str, channels: int, kernels: int, source: str) -> dict[str, Any]:
        shape = (channels, 8, 4)
        return {"name": name, "input": shape, "kernels": kernels, "kernel": (1, 1), "inputs": (source,)}

    layers = [conv("wide", 1, 16, "input"), conv("left", 16, 1, "wide"), conv("right", 16, 1, "wide")]
    table = {
        "network": {"layers": layers},
        "machine": machine(Random(0), input_bytes=60, element_bytes=1, arrays=1),
        "templates": [{"name": "pair", "nodes": ("conv", "conv"), "edges": ((0, 1),)}],
        "limits": {"halo": "keep"},
    }
    problem: Problem = validated(Problem, table)
    return problem


@pytest.mark.nightly
def test_groups_that_tear_an_operation_apart_are_no_plan() -> None:
    problem = torn()
    assert too_large_alone(problem) == [1, 2]
    assert {one.nodes for one in fitting_groups(problem)} == {(0,), (0, 1), (0, 2)}
    assert best_bound(problem).impossible is None
    assert tells(best_bound(problem), "operation left .. alone .. machine.input_bytes")
    assert solve(problem, "downsets").status == "infeasible"
    found = solve(problem, "greedy")
    assert (found.status, found.plan) == ("unknown", None)
    assert found.report is not None
    assert tells(found.report.violation, "limits.halo = 'keep' .. operation right .. no tile")


@pytest.mark.by_day(3)
@pytest.mark.parametrize("minimise", thinned(["cycles", "memory"], 2))
@pytest.mark.parametrize(
    "method", [*HEURISTICS, "downsets", "columns_partition@highs", "columns_cover@gecode", "auto"]
)
def test_every_method_says_what_would_be_enough(method: str, minimise: str) -> None:
    if "@" in method:
        need(method.partition("@")[2])
    problem = keep_without_tile(minimise)
    if "@" in method and minimise == "memory":  # which no formulation takes
        with pytest.raises(TilewrightError, match=f"method = '{method}'"):
            solve(problem, method)
        return
    found = solve(problem, method)
    assert found.status == "infeasible"
    enough = "machine.input_bytes = 48 .. 40 .. machine.output_bytes = 48 .. 40"
    assert tells(found.bound_by, "operation l0 .. no tile", enough)
    larger = keep_without_tile(minimise, input_bytes=48, output_bytes=48)
    assert solve(larger, "downsets").status == "optimal"


PLAIN = {
    "conv_array": (1, 1, 1),
    "clock_mhz": 1,
    "output_bytes": 200,
    "parameter_bytes": 200,
    "load_mb_per_s": 1,
    "save_mb_per_s": 1,
    "operands_per_cycle": 1,
}


def padded(input_bytes: int, output_bytes: int = 9) -> Problem:
    """Return a layer of which one tile takes less than one of several."""
    layer = {"name": "a", "input": (1, 1, 2), "kernels": 1, "kernel": (1, 2), "padding": (0, 0, 1, 1)}
    table = {
        "network": {"layers": [layer]},
        "machine": PLAIN | {"input_bytes": input_bytes, "output_bytes": output_bytes, "parameter_bytes": 9},
    }
    problem: Problem = validated(Problem, table)
    return problem


def pair(input_bytes: int, minimise: str = "cycles", **limits: str) -> Problem:
    """Return two operations of which the second has more room in a group with the first."""
    layers = [
        {"name": "a", "input": (1, 3, 3), "kernels": 8, "kernel": (1, 1)},
        {"name": "b", "input": (8, 3, 3), "kernels": 1, "kernel": (3, 3)},
    ]
    table = {
        "network": {"layers": layers},
        "machine": PLAIN | {"input_bytes": input_bytes},
        "objective": {"minimise": minimise},
        "limits": limits,
    }
    problem: Problem = validated(Problem, table)
    return problem


EVERY = ("downsets", "columns_partition@highs", "columns_cover@gecode", "auto")
"""Methods that prove what they find."""


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", EVERY)
def test_buffers_too_small_for_small_tiles_alone_hide_no_plan(method: str) -> None:
    """Both were refused, as no tile of a single value fits: one larger tile does, and one of a group."""
    if "@" in method:
        need(method.partition("@")[2])
    for problem, expected in ((padded(2), 13), (pair(10), 162)):
        found = solve(problem, method)
        assert (found.status, found.objective, found.bound) == ("optimal", expected, expected)
        assert violation(problem, found.plan) is None
        assert oracle.best(problem.model_dump(mode="json")) == expected


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", [*HEURISTICS, *EVERY])
def test_buffers_in_which_nothing_fits_are_infeasible_and_say_what_would_be_enough(method: str) -> None:
    if "@" in method:
        need(method.partition("@")[2])
    for problem, name, enough_bytes in ((padded(1), "a", 2), (pair(8), "b", 18)):
        assert oracle.best(problem.model_dump(mode="json")) is None
        found = solve(problem, method)
        assert (found.status, found.plan) == ("infeasible", None)
        assert tells(found.bound_by, f"operation {name} .. no tile .. machine.input_bytes = {enough_bytes}")
        assert "halo" not in found.bound_by
    assert oracle.best(pair(18).model_dump(mode="json")) is not None


def test_heuristics_say_what_an_operation_alone_would_need() -> None:
    found = solve(pair(10), "layerwise")
    assert (found.status, found.plan) == ("unknown", None)
    assert found.report is not None
    told = "operation b .. no tile .. alone .. machine.input_bytes = 18 .. 10"
    assert tells(found.report.violation, told)


def test_what_would_be_enough_is_so_for_all_operations() -> None:
    """Each buffer is as large as the operation that needs most of it says."""
    problem = padded(1, 1)
    layers = [layer.model_dump() for layer in problem.network.layers]
    layers.append({"name": "b", "input": (1, 1, 3), "kernels": 1, "kernel": (1, 1), "inputs": ("a",)})
    table = {"network": {"layers": layers}, "machine": problem.machine.model_dump()}
    both: Problem = validated(Problem, table)
    sizes = dict(re.findall(r"machine\.(\w+) = (\d+) instead", best_bound(both).impossible or ""))
    assert sizes.keys() == {"input_bytes", "output_bytes"}
    machine = both.machine.model_copy(update={name: int(size) for name, size in sizes.items()})
    assert solve(both.model_copy(update={"machine": machine}), "layerwise").status == "feasible"


@settings(max_examples=examples(80))
@given(seed=st.integers(0, 2**32 - 1))
def test_small_buffers_agree_with_an_enumeration_apart_from_the_package(seed: int) -> None:
    random = Random(seed)
    layers = any_network(random, most=3, side=4, twice=False)
    sizes = {f"{name}_bytes": random.randint(1, 40) for name in BUFFERS}
    table = {
        "network": {"layers": layers},
        "machine": machine(random, **sizes),
        "objective": {"minimise": random.choice(["cycles", "traffic", "memory"])},
        "limits": {"halo": random.choice(["any", "any", "recompute", "keep"])},
    }
    problem: Problem = validated(Problem, table)
    try:
        expected = oracle.best(problem.model_dump(mode="json"))
    except TooLarge:
        assume(False)
    found = catalogue.formulation("fusion", "downsets").solve(problem, RunContext())
    assert found.status == ("infeasible" if expected is None else "optimal")
    alone = [op.number for op in problem.ops if engine_of(op) != HOST]
    assert too_large_alone(problem) == [number for number in alone if best_tile(problem, (number,)) is None]
    if best_bound(problem).impossible is not None:
        assert expected is None
    if expected is not None:
        assert objective(problem, found.plan) == found.bound == expected


@pytest.mark.by_day(3)
@with_each(METHODS)
def test_formulations_agree_on_small_buffers(path: Path, solver: str) -> None:
    for problem in (padded(1), padded(2), pair(8), pair(10), pair(10, "traffic")):
        check_agreement(problem, path, solver, True, oracle.best(problem.model_dump(mode="json")))


def test_pictures_of_operations_that_fit_in_no_buffer_alone() -> None:
    problem = pair(10)
    found = solve(problem, "downsets")
    plot.sheet(problem, found.plan, simulate(problem, found.plan))


def keep_without_tile(minimise: str, **changes: int) -> Problem:
    layer = {"name": "l0", "input": (4, 3, 8), "kernels": 2, "kernel": (3, 3), "padding": (1, 1, 1, 1)}
    sizes = {"input_bytes": 40, "output_bytes": 40, "parameter_bytes": 200} | changes
    array = {"conv_array": (2, 2, 1), "arrays": 1, "element_bytes": 1, "operands_per_cycle": 4}
    table = {
        "network": {"layers": [layer]},
        "machine": machine(Random(0), **sizes, **array),
        "objective": {"minimise": minimise},
        "limits": {"halo": "keep"},
    }
    problem: Problem = validated(Problem, table)
    return problem


@pytest.mark.by_day(1)
@pytest.mark.parametrize("number", IN_GROUPS_ONLY)
def test_least_memory_of_operations_that_fit_in_groups_only(number: int) -> None:
    """Without fusion there is no plan, so there is no limit on cycles."""
    problem = small(Random(number), "keep", "memory")
    found = solve(problem, "downsets")
    assert found.status == "optimal"
    assert found.plan is not None
    peaks = [
        max(one.peak for one in choices(problem, catalogue.heuristic("fusion", name).plan(problem)))
        for name in ("greedy", "dnnvm")
        if violation(problem, catalogue.heuristic("fusion", name).plan(problem)) is None
    ]
    assert found.objective is not None
    assert found.objective <= min(peaks, default=found.objective)


def test_pictures_of_operations_that_fit_in_groups_only() -> None:
    problem = small(Random(IN_GROUPS_ONLY[0]), "keep", "cycles")
    found = solve(problem, "downsets")
    plot.sheet(problem, found.plan, simulate(problem, found.plan))


# Equal groups --------------------------------------------------------------------------------------------


def test_groups_that_differ_in_parameters_of_functions_are_not_equal() -> None:
    """They were searched as one, and what the first of them costs was said of the second."""
    shape, parameters = (4, 6, 6), (0, 8, 0)
    layers = [
        {"name": f"l{place}", "kind": "map", "op": "fused", "input": shape, "parameters": numbers}
        for place, numbers in enumerate(parameters)
    ]
    problem: Problem = validated(Problem, {"network": {"layers": layers}, "machine": machine(Random(0))})
    for one in candidates(problem):
        names = tuple(problem.ops[number].name for number in one.nodes)
        fused = problem.fused(one.nodes)
        assert one.tile is not None
        assert one.cost == evaluate_tile(problem, fused, one.tile).cost, names
