"""Two costs of whole networks: their fronts, and the best plans within limits, against all combinations."""

from __future__ import annotations

import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import inf
from pathlib import Path
from typing import Any

import hierarchies
import numpy as np
import pytest
import test_npu
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import everything
from matplotlib.figure import Figure
from picture_checks import check_fits
from searches import joined_fronts, proven_best, undominated
from test_tiling_cli import MACHINE, NETWORK, write  # noqa: F401

from tilewright.core import catalogue
from tilewright.core import front as core_front
from tilewright.run.checking import claims
from tilewright.run.instance import parse
from tilewright.run.solve import solve
from tilewright.run.verify import check
from tilewright.spec.errors import InputError
from tilewright.spec.network import NamedLayer, Network
from tilewright.tiling import (
    MACHINES,
    Plan,
    Problem,
    best_bound,
    best_of_network,
    measured_objective,
    network_fronts,
    objective,
    simulate,
    violation,
)
from tilewright.tiling import plot as pictures
from tilewright.tiling.network_fronts import FrontParams
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.several_objectives import recheck
from tilewright.tiling.summary import costs_of_front, rows, table

Point = tuple[int, int]

# Sums of fronts -------------------------------------------------------------------------------------------


@st.composite
def fronts(draw: st.DrawFn) -> list[list[Point]]:
    """Draw the fronts of a few layers, some of them equal."""
    large = draw(st.sampled_from([8, 30, 10**6, 10**17]))

    def front() -> list[Point]:
        size = draw(st.integers(1, 4))
        first, second = (
            sorted(draw(st.sets(st.integers(0, large), min_size=size, max_size=size))) for _ in "12"
        )
        return list(zip(first, reversed(second), strict=True))

    different = [front() for _ in range(draw(st.integers(1, 3)))]
    return [draw(st.sampled_from(different)) for _ in range(draw(st.integers(1, 5)))]


def cost(of: list[list[Point]], chosen: Any) -> Point:
    """Add up the points that are chosen."""
    points = [front[place] for front, place in zip(of, chosen, strict=True)]
    return sum(point[0] for point in points), sum(point[1] for point in points)


@given(fronts())
@settings(max_examples=60, deadline=None)
def test_sums_of_fronts_are_those_of_all_choices(drawn: list[list[Point]]) -> None:
    costs = {cost(drawn, chosen) for chosen in itertools.product(*(range(len(front)) for front in drawn))}
    expected = undominated(costs)
    sums = network_fronts.sum_of_fronts(drawn)
    assert (sums.points, sums.n_points, sums.every) == (expected, len(expected), 1)
    assert [cost(drawn, chosen) for chosen in sums.chosen.tolist()] == expected
    hull = network_fronts.sum_of_fronts(drawn, FrontParams(points=0))
    assert hull.n_points is None
    assert [cost(drawn, chosen) for chosen in hull.chosen.tolist()] == hull.points
    assert (hull.points[0], hull.points[-1]) == (expected[0], expected[-1])
    assert set(hull.points) <= set(expected)
    for (x, y), (u, v) in itertools.pairwise(hull.points):  # nothing is below the lines between them
        assert all((b - y) * (u - x) >= (v - y) * (a - x) for a, b in expected)


@given(fronts(), st.data())
@settings(max_examples=60, deadline=None)
def test_choices_within_a_limit_are_the_best_of_all(drawn: list[list[Point]], data: st.DataObject) -> None:
    costs = {cost(drawn, chosen) for chosen in itertools.product(*(range(len(front)) for front in drawn))}
    between = min(costs)[0] - 1, max(costs)[0] + 1
    limit = data.draw(st.one_of(st.integers(*between), st.sampled_from(sorted(one for one, _ in costs))))
    expected = min((other for one, other in costs if one <= limit), default=None)
    for params in (FrontParams(), FrontParams(choices=0)):
        choice = network_fronts.cheapest_choice(drawn, limit, params)
        if expected is None:
            assert choice is None
            continue
        assert choice is not None
        first, second = cost(drawn, choice.chosen)
        assert first <= limit
        assert choice.bound <= expected <= second
        assert params.choices == 0 or choice.bound == second


def test_what_is_left_out_is_told() -> None:
    drawn = [[(place * place, (40 - place) ** 2) for place in range(40)]] * 2
    whole = network_fronts.sum_of_fronts(drawn)
    assert whole.n_points is not None
    thinned = network_fronts.sum_of_fronts(drawn, FrontParams(shown=10))
    assert (thinned.n_points, thinned.every) == (whole.n_points, -(-whole.n_points // 10))
    assert thinned.points == [*whole.points[: -1 : thinned.every], whole.points[-1]]
    assert [cost(drawn, chosen) for chosen in thinned.chosen.tolist()] == thinned.points


def test_costs_too_far_apart_are_refused() -> None:
    with pytest.raises(InputError, match="differ by more than"):
        network_fronts.sum_of_fronts([[(0, 2**62), (1, 0)]])
    assert network_fronts.sum_of_fronts([[(2**70, 2**70 + 1), (2**70 + 1, 2**70)]] * 2).points[0] == (
        2**71,
        2**71 + 2,
    )


# Networks against all combinations of their layers' plans --------------------------------------------------


def network_of(problems_of: list[Problem], order: list[int], between: tuple[str, str]) -> Problem:
    """Return the front of a network of some of these problems' layers, on the machine of the first."""
    layers = [
        NamedLayer(name=f"l{number}", **problems_of[which].one_layer.model_dump())
        for number, which in enumerate(order)
    ]
    return Problem(
        network=Network(layers=tuple(layers)),
        machine=problems_of[0].machine,
        objective={"minimise": "pareto", "between": between},
    )


def costs_of(plans: Any, problem: Problem, names: tuple[str, str]) -> set[Point]:
    """Return both costs of all valid plans of a layer."""
    one, other = (problem.with_(objective={"minimise": name}) for name in names)
    return {(objective(one, Plan((plan,))), objective(other, Plan((plan,)))) for plan in plans}


def combined(every: list[set[Point]]) -> set[Point]:
    """Return what all combinations cost."""
    found = np.zeros((1, 2), np.int64)
    for costs in every:
        found = np.unique((found[:, None] + np.array(sorted(costs))[None]).reshape(-1, 2), axis=0)
    return {(first, second) for first, second in found.tolist()}


def check_network(problem: Problem, costs: set[Point], tolerance: float, most: int) -> int:
    """Compare a network's front, and its best plans within limits, with the costs of all combinations."""
    assert problem.traded is not None
    first, second = problem.traded
    expected, plan = undominated(costs), joined_fronts(problem)
    assert violation(problem, plan) is None
    assert Plan.from_json(plan.to_json()) == plan
    report = simulate(problem, plan)
    points = report.measures.front
    assert costs_of_front(problem, report.measures) == expected
    assert report.measures.front_points == len(expected)
    value = objective(problem, plan)
    assert value == measured_objective(problem, report) == expected[0][0]
    assert best_bound(problem).value < max(1, value)
    for point, costs_of_point in zip(points, expected, strict=True):
        chosen = zip(plan.split(), point.plans, strict=True)
        single = Plan(tuple(front.layers[place] for front, place in chosen))
        for name, claimed in zip(problem.traded, costs_of_point, strict=True):
            assert objective(problem.with_(objective={"minimise": name, "between": None}), single) == claimed
    # A list with a tolerance on the sum, and a limit on it.
    limit = Fraction(str(tolerance)) * expected[0][0] + expected[0][0]
    listed = {"minimise": problem.traded, "tolerance": tolerance, "tolerance_of": "network", "between": None}
    for asked, bound in (
        (problem.with_(objective=listed), limit),
        (
            problem.with_(objective={"minimise": second, "between": None}, limits={"at_most": {first: most}}),
            most,
        ),
    ):
        found = best_of_network(asked, inf)
        best = min((other for one, other in costs if one <= bound), default=None)
        if best is None:
            assert found is None
            continue
        assert found is not None
        plan, *values = found
        assert values == [best, best]
        assert violation(asked, plan) is None
        assert measured_objective(asked, simulate(asked, plan)) == best
        if asked.before:
            [(what, holds, detail)] = recheck(asked, plan, inf)
            assert (what, holds) == ("tolerance", True), detail
    return len(expected)


LAYERS = {
    "dsp": [
        {"input": [2, 3, 3], "kernels": 2, "kernel": [2, 2]},
        {"input": [2, 2, 4], "kernels": 3, "kernel": [1, 1]},
    ],
    "hierarchy": [
        {"input": [2, 1, 2], "kernels": 2, "kernel": [1, 1]},
        {"input": [3, 2, 1], "kernels": 2, "kernel": [1, 1]},
    ],
}
RATES = [
    {"read_bytes_per_cycle": 4, "write_bytes_per_cycle": 2},
    {"read_bytes_per_cycle": 2, "write_bytes_per_cycle": 1},
]
LEVELS = [
    {"name": "dram", "read_pj_per_byte": 1, **RATES[0]},
    {"name": "buffer", "capacity_bytes": 5, "read_pj_per_byte": 0.5, **RATES[1]},
]
BITS = {"input": 16, "weights": 8, "output": 8, "partial": 8}
CASES: list[tuple[dict[str, Any], tuple[str, str]]] = [
    ({"kind": "dsp", "memory_bytes": 40, "dma_setup_cycles": 3}, ("cycles", "accesses")),
    ({"kind": "dsp", "memory_bytes": 40, "dma_setup_cycles": 3}, ("accesses", "energy")),
    ({"kind": "dsp", "memory_bytes": 60, "dma_setup_cycles": 3}, ("energy", "cycles")),
    ({"kind": "hierarchy", "levels": LEVELS, "bits": BITS}, ("accesses", "cycles")),
    ({"kind": "hierarchy", "levels": LEVELS, "bits": BITS}, ("cycles", "energy")),
]


def every_plan(problem: Problem) -> Iterator[Any]:
    """Enumerate the valid plans of a layer, or of an operation between layers."""
    if problem.operation is None and problem.machine.kind == "npu":
        return test_npu.everything(problem)
    if problem.operation is not None:
        sizes = itertools.product(*(range(1, size + 1) for size in problem.operation.output))
        plans: Any = map(OperationPlan, sizes)
    elif problem.machine.kind == "hierarchy":
        plans = hierarchies.everything(problem.one_layer, problem.machine, 10_000)
    else:
        plans = everything(problem, "any")
    return (plan for plan in plans if violation(problem, Plan((plan,))) is None)


UNITS: list[tuple[dict[str, Any], tuple[str, str]]] = [
    (CASES[0][0] | {"host": {"cycles_per_byte": 1.0, "cycles_per_call": 20}}, ("cycles", "accesses")),
    (CASES[0][0] | {"vector_ops_per_cycle": 2}, ("cycles", "energy")),
    (CASES[3][0] | {"vector_ops_per_cycle": 2}, ("accesses", "cycles")),
    ({"kind": "npu", "input_bytes": 40, "vector_ops_per_cycle": 2}, ("time", "accesses")),
]


@pytest.mark.nightly
@pytest.mark.parametrize(("machine", "between"), UNITS)
def test_networks_with_pools_and_sums_have_lists_and_limits(
    machine: dict[str, Any], between: tuple[str, str]
) -> None:
    maps, columns = 2, 3
    conv = {"input": [maps, 1, columns], "kernels": maps, "kernel": [1, 1]}
    layers = [
        {"name": "a", **conv},
        {"name": "b", **conv},
        {"name": "sum", "kind": "add", "input": conv["input"], "inputs": ["a", "b"]},
        {"name": "pool", "kind": "pool", "input": conv["input"], "kernel": [1, 2], "stride": [1, 1]},
        {"name": "c", **conv, "input": [maps, 1, columns - 1]},
    ]
    table = {"network": {"layers": layers}, "machine": machine}
    problem = Problem.model_validate(table | {"objective": {"minimise": "pareto", "between": between}})
    assert [part.operation is not None for _, part in problem.parts] == [False, False, True, True, False]
    alone = [part.with_(objective={"minimise": between[0], "between": None}) for _, part in problem.parts]
    costs = combined([costs_of(list(every_plan(part)), part, between) for part in alone])
    for tolerance in (0.0, 0.1):
        for most in sorted({first for first, _ in costs})[:3]:
            check_network(problem, costs, tolerance, most)


@pytest.mark.nightly
@pytest.mark.parametrize(("machine", "between"), CASES)
def test_networks_are_those_of_enumeration(machine: dict[str, Any], between: tuple[str, str]) -> None:
    drawn = [
        Problem.model_validate({"layer": layer, "machine": machine}) for layer in LAYERS[machine["kind"]]
    ]
    every = [costs_of(list(every_plan(one)), one, between) for one in drawn]
    costs = combined([every[0], every[1], every[0]])
    problem = network_of(drawn, [0, 1, 0], between)
    middle = undominated(costs)[len(undominated(costs)) // 2][0]
    for most in (middle, min(costs)[0] - 1):
        points = check_network(problem, costs, 0.05, most)
        assert points > 1 or between == ("cycles", "energy")  # which here one plan has least of


@given(test_npu.problems(side=3, channels=2), st.data())
@settings(max_examples=4, deadline=None)
def test_networks_on_an_npu_are_those_of_enumeration(drawn: Problem, data: st.DataObject) -> None:
    between = data.draw(st.sampled_from([("time", "accesses"), ("accesses", "time")]))
    other = drawn.with_(layer={"batch": 3})
    every = [costs_of(list(every_plan(one)), one, between) for one in (drawn, other)]
    problem = network_of([drawn, other], [0, 1, 0], between)
    if not all(every):
        assert MACHINES["npu"].exhaustive(problem.parts[0].problem, inf) is None
        return
    costs = combined([every[0], every[1], every[0]])
    most = data.draw(st.sampled_from(sorted(one for one, _ in costs))) - data.draw(st.integers(0, 1))
    check_network(problem, costs, data.draw(st.sampled_from([0.0, 0.01, 0.1])), most)


# As a user meets it ---------------------------------------------------------------------------------------


@pytest.fixture
def problem() -> Problem:
    """Return a network's front on a DSP, which has several points."""
    layers = [
        {"name": name, "input": [6, 10, 9], "kernels": 8, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
        for name in "ab"
    ]
    layers.append({"name": "c", "input": [8, 5, 5], "kernels": 5, "kernel": [3, 3]})
    machine = {"kind": "dsp", "memory_bytes": 700, "dma_setup_cycles": 20}
    table = {"network": {"layers": layers}, "machine": machine, "objective": {"minimise": "pareto"}}
    return Problem.model_validate(table)


def test_a_network_s_front_is_solved_and_checked(tilewright, write, tmp_path) -> None:  # noqa: F811
    name = write("network.toml", NETWORK + MACHINE)
    shown = tilewright("solve", name, "--minimise", "pareto", "-o", "result.json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "optimal"
    measured = result["report"]["measures"]
    assert measured["front_points"] == len(measured["front"]) > 2
    point = measured["front"][1]
    assert f"{point['duration_cycles']:,}" in shown.stdout
    # The plan of a point, as the summary says that it is asked for.
    limited = ("--minimise", "accesses", "--set", f"limits.at_most.cycles={point['duration_cycles']}")
    assert "--minimise accesses --set limits.at_most.cycles=" in shown.stdout
    single = tilewright("solve", name, *limited, "--json")
    assert single.returncode == 0, single.stderr
    found = json.loads(single.stdout)
    assert found["objective"] == point["accesses_elements"]
    assert found["report"]["measures"]["duration_cycles"] == point["duration_cycles"]
    # All stands but a report that has a point less.
    less = json.dumps(result | {"report": report_without_a_point(result["report"])})
    (tmp_path / "less.json").write_text(less)
    checked = tilewright("check", name, "--minimise", "pareto", "less.json")
    assert checked.returncode == 1
    assert [line.split()[1] for line in checked.stdout.splitlines() if line.startswith("WRONG")] == ["report"]
    assert re.search("ok +front", checked.stdout)


def test_a_front_is_found_anew_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The search that shows that it is complete proves the bound with which it begins, too."""
    instance = parse(
        {"room": "tiling"} | tomllib.loads(NETWORK + MACHINE) | {"objective": {"minimise": "pareto"}}
    )
    result = solve(instance, time_limit=20)
    assert result.status == "optimal" and result.bound is not None
    assert result.bound > catalogue.room("tiling").best_bound(instance.problem).value
    asked: list[str] = []
    prove = claims.prove
    monkeypatch.setattr(claims, "prove", lambda *of, **how: asked.append(of[1].what) or prove(*of, **how))
    found = {finding.what: finding for finding in check(instance, result)}
    assert found["bound"].state == found["front"].state == "verified"
    assert "begins with it" in found["bound"].detail and not asked
    # A bound is put to a method as before where the front that is claimed is not the one that is found.
    first = Plan(result.plan.split()[0].layers[:1], front=True)
    shorter = replace(result, plan=Plan((first, *result.plan.layers[1:])))
    found = {finding.what: finding for finding in check(instance, shorter)}
    assert found["front"].state == "refuted" and found["bound"].state == "verified" and asked == ["bound"]


def report_without_a_point(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report that claims that a front has a point less."""
    measures = report["measures"]
    fewer = {"front": measures["front"][1:], "front_points": measures["front_points"] - 1}
    return report | {"measures": measures | fewer}


def test_fronts_of_layers_that_are_not_complete_are_found_out(problem: Problem) -> None:
    plan = joined_fronts(problem)
    [(what, holds, _)] = recheck(problem, plan, inf)
    assert (what, holds) == ("front", True)
    shorter = Plan((*plan.layers[:1], Plan(plan.split()[1].layers[:-1], front=True), *plan.layers[2:]))
    assert violation(problem, shorter) is None
    [(what, holds, detail)] = recheck(problem, shorter, inf)
    assert (what, holds) == ("front", False)
    assert detail.startswith("layer b: ")


def test_a_plan_beyond_the_tolerance_of_the_network_is_found_out(problem: Problem) -> None:
    asked = {"minimise": ["cycles", "accesses"], "tolerance": 0.002, "tolerance_of": "network"}
    listed = problem.with_(objective=asked)
    found = best_of_network(listed, inf)
    assert found is not None
    [(what, holds, detail)] = recheck(listed, found[0], inf)
    assert (what, holds) == ("tolerance", True), detail
    fronts_of = joined_fronts(problem).split()
    [(what, holds, detail)] = recheck(listed, Plan(tuple(one.layers[-1] for one in fronts_of)), inf)
    assert (what, holds) == ("tolerance", False)
    assert "limit of cycles" in detail
    limited = problem.with_(objective={"minimise": "accesses"}, limits={"at_most": {"cycles": 100}})
    assert "limit of cycles" in str(violation(limited, found[0]))


def test_less_time_leaves_no_front_that_seems_complete() -> None:
    """Its first plan has as few cycles as any can, so that a bound alone would call it optimal."""
    layer = {"input": [4, 6, 6], "kernels": 4, "kernel": [3, 3]}
    levels = [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 300}]
    table = {"layer": layer, "machine": {"kind": "hierarchy", "levels": levels}}
    one = Problem.model_validate(table | {"objective": {"minimise": "cycles"}})
    found = proven_best(one)
    assert best_bound(one).value == found.value
    front = one.with_(objective={"minimise": "pareto"})
    assert best_bound(front).value < found.value


def test_summaries_thin_what_is_long(problem: Problem, monkeypatch: pytest.MonkeyPatch) -> None:
    report = simulate(problem, joined_fronts(problem))
    points = costs_of_front(problem, report.measures)
    assert len(points) > 6
    monkeypatch.setattr("tilewright.tiling.summary.LINES", 3)
    header, *lines = table(problem, report.measures)
    assert header == ("cycles", "accesses, elements")
    assert 3 <= len(lines) <= 4
    assert lines[-1] == (f"{points[-1][0]:,}", f"{points[-1][1]:,}")
    told = dict(rows(problem, report.measures))
    assert "shown" in told
    assert told["front"].startswith(f"{len(points)} points, all")
    for changed, said in (
        ((10 * len(points), 11), f"{len(points)} points, each 11th of {10 * len(points)}"),
        ((None, 1), f"{len(points)} points, on the convex hull of more"),
    ):
        measures = replace(report.measures, front_points=changed[0], front_every=changed[1])
        assert dict(rows(problem, measures))["front"].startswith(said)


def test_a_network_s_front_is_drawn(problem: Problem, tmp_path: Path, new_figures: list[Figure]) -> None:
    plan = joined_fronts(problem)
    report = simulate(problem, plan)
    pictures.draw(problem, plan, report, tmp_path / "front.png")
    assert (tmp_path / "front.png").stat().st_size > 10_000
    axes = pictures.plot(problem, plan, report)
    check_fits(new_figures[0])
    drawn = axes.lines[1].get_xydata()
    assert [tuple(point) for point in drawn] == costs_of_front(problem, report.measures)


@pytest.mark.parametrize(
    ("asked", "limits", "said"),
    [
        ({"minimise": "edp"}, {}, "is for a single layer"),
        ({"minimise": ["cycles", "pareto"]}, {}, "not for a list"),
        (
            {"minimise": ["cycles", "energy", "accesses"], "tolerance_of": "network"},
            {},
            "exactly two objectives, got 3",
        ),
        ({"minimise": "cycles", "tolerance_of": "network"}, {}, "exactly two objectives, got 1"),
        ({"minimise": ["cycles", "energy"], "tolerance_of": "networks"}, {}, "did you mean network"),
        ({"minimise": "cycles"}, {"at_most": {"cycles": 9}}, "another cost"),
        ({"minimise": "cycles"}, {"at_most": {"accesses": 9, "energy": 9}}, "one limit"),
        ({"minimise": ["cycles", "energy"]}, {"at_most": {"accesses": 9}}, "one limit"),
        ({"minimise": "pareto"}, {"at_most": {"cycles": 9}}, "a single plan"),
        ({"minimise": "pareto", "between": ["cycles", "edp"]}, {}, "two of: accesses, cycles, energy"),
    ],
)
def test_what_networks_do_not_have_is_refused(
    asked: dict[str, Any], limits: dict[str, Any], said: str
) -> None:
    layers = [{"name": "a", "input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]}]
    machine = {
        "kind": "hierarchy",
        "levels": [{"name": "dram", "read_pj_per_byte": 1}, {"name": "b", "capacity_bytes": 99}],
    }
    with pytest.raises(InputError, match=said):
        Problem.model_validate(
            {"network": {"layers": layers}, "machine": machine, "objective": asked, "limits": limits}
        )


def test_methods_of_single_layers_refuse_networks_that_are_limited(tilewright, write) -> None:  # noqa: F811
    name = write("network.toml", NETWORK + MACHINE)
    limited = ("--minimise", "accesses", "--set", "limits.at_most.cycles=100000")
    for method in ("greedy", "loops@gecode", "tiles@highs"):
        shown = tilewright("solve", name, *limited, "--with", method)
        assert shown.returncode == 2, shown.stdout
        assert "kind of machine or objective" in shown.stderr


def test_undominated_pairs_are_those_that_no_other_is_as_good_as() -> None:
    rng = np.random.default_rng(0)
    for size in (0, 1, 2, 5, 40):
        pairs = rng.integers(0, 8, (size, 2))
        found = [tuple(pairs[at]) for at in core_front.undominated(*pairs.T)]
        assert found == undominated({(int(a), int(b)) for a, b in pairs})
