"""Every formulation that chooses groups: on made-up graphs with made-up costs, and on small networks."""

from __future__ import annotations

import importlib
import json
import subprocess
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest
from conftest import examples
from formulations import check_agreement, core_text, methods, need, solve, with_and_without_extras, with_each
from fusion.test_fusion_constraints import drawn
from fusion.test_selection import can_be_executed, choices, cost, least, partitions
from hypothesis import given, settings
from numbered import randoms
from pyomo.contrib.appsi.solvers import Highs

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.fusion import Group, Plan, Problem, best_bound, objective, violation
from tilewright.fusion.minizinc import parameters
from tilewright.fusion.selection.candidates import Candidate, candidates
from tilewright.fusion.selection.exact_cover import Cover
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.models.fusion import columns_partition, downsets

FOLDER = catalogue.folders("models", "fusion")[0]
EXTRAS_OFF = "mzn_ignore_redundant_constraints=true;mzn_ignore_symmetry_breaking_constraints=true"

Producers = list[tuple[int, ...]]
Made = tuple[Producers, list[Candidate]]


def made(producers: Producers, costs: dict[tuple[int, ...], int]) -> Made:
    return producers, [Candidate(nodes, cost, "", None) for nodes, cost in sorted(costs.items())]


def alone(n: int, cost: int) -> dict[tuple[int, ...], int]:
    return {(number,): cost for number in range(n)}


# Two producers and two consumers crosswise: each pair would wait for the other one. So would three in a ring,
# of which no two wait for each other.
PAIRS = made([(-1,), (-1,), (1,), (0,)], alone(4, 10) | {(0, 2): 5, (1, 3): 6})
RING = made(
    [(-1,), (-1,), (-1,), (2,), (0,), (1,)], alone(6, 10) | {(0, 3): 5, (1, 4): 6, (2, 5): 7, (3, 4): 19}
)
CHAIN = made([(-1,), (0,), (1,), (2,)], alone(4, 10) | {(0, 1): 13, (1, 2): 11, (2, 3): 13, (0, 1, 2): 24})
# In parts each of three pairs costs 18 for all; a whole one leaves an operation alone.
ODD = made([(-1,), (-1,), (-1,)], alone(3, 10) | {(0, 1): 12, (1, 2): 12, (0, 2): 12})
SINGLE = made([(-1,)], alone(1, 0))
MADE = {
    "pairs": (PAIRS, 25),
    "ring": (RING, 31),
    "chain": (CHAIN, 26),
    "odd": (ODD, 22),
    "single": (SINGLE, 0),
}


def covered(case: Made) -> Cover:
    producers, candidates = case
    before: list[int] = []
    for read in producers:
        mask = 0
        for number in read:
            mask |= 0 if number < 0 else before[number] | 1 << number
        before.append(mask)
    return Cover(before, candidates)


def check(case: Made, choice: Cover, chosen: list[int], objective: int, expected: int) -> None:
    groups = [choice.candidates[place] for place in chosen]
    assert sorted(number for one in groups for number in one.nodes) == [*range(len(case[0]))]
    assert can_be_executed(case[0], groups)
    assert cost(groups) == choice.base + objective == expected


# Pyomo -----------------------------------------------------------------------------------------------------


def solve_partition(case: Made, extras: bool, expected: int) -> None:
    need("highs")
    choice = covered(case)
    model = columns_partition.formulate(choice, extras)
    found = Highs().solve(model)
    chosen = [c for c in model.CANDIDATES if model.chosen[c].value > 0.5]
    assert round(found.best_objective_bound) == round(pyo.value(model.cost))
    check(case, choice, chosen, round(pyo.value(model.cost)), expected)


@with_and_without_extras(MADE)
def test_partition_proves_the_optimum(name: str, extras: bool) -> None:
    case, expected = MADE[name]
    assert least(*case) == expected
    solve_partition(case, extras, expected)


@settings(max_examples=examples(60))
@given(choices())
def test_partition_agrees_with_enumeration(case: Made) -> None:
    expected = least(*case)
    for extras in (True, False):
        solve_partition(case, extras, expected)


# CP-SAT ----------------------------------------------------------------------------------------------------


def solve_exact_cover(case: Made, extras: bool, expected: int) -> None:
    need("cpsat")
    cp_model = importlib.import_module("ortools.sat.python.cp_model")
    choice = covered(case)
    model: Any = catalogue.formulation("fusion", "columns_exact_cover").formulate(choice, extras)  # type: ignore[union-attr]
    solver = cp_model.CpSolver()
    assert solver.solve(model) == cp_model.OPTIMAL
    chosen = [c for c, one in enumerate(model.chosen) if solver.value(one)]
    assert solver.objective_value == solver.best_objective_bound
    check(case, choice, chosen, round(solver.objective_value), expected)


@with_and_without_extras(MADE)
def test_exact_cover_proves_the_optimum(name: str, extras: bool) -> None:
    solve_exact_cover(MADE[name][0], extras, MADE[name][1])


@settings(max_examples=examples(60))
@given(choices())
def test_exact_cover_agrees_with_enumeration(case: Made) -> None:
    expected = least(*case)
    for extras in (True, False):
        solve_exact_cover(case, extras, expected)


# MiniZinc --------------------------------------------------------------------------------------------------

Run = Callable[..., str]


@pytest.fixture(scope="session")
def run_checked(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Run a MiniZinc model with the room's checker; its output is JSON between lines of the checker."""
    need("gecode")
    file = tmp_path_factory.mktemp("fusion") / "data.json"

    def run(case: Made, model: Path, *more: str, **changed: Any) -> str:
        reads = [(read, number) for number, made in enumerate(case[0]) for read in made if read >= 0]
        told = {"start": [], "hint": False, "relax": 0, "below": 2**31 - 2, **changed}
        data = parameters(covered(case), reads) | told
        file.write_text(json.dumps(data, default=lambda members: {"set": sorted(members)}))
        command = [
            "minizinc",
            "--solver",
            "gecode",
            *more,
            str(FOLDER / "core.mzc.mzn"),
            str(model),
            str(file),
        ]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    return run


def solve_cover(case: Made, run: Run, extras: bool, expected: int, **told: Any) -> list[list[int]]:
    """Return all solutions, the best last, of which each holds candidates by place."""
    more = () if extras else ("-D", EXTRAS_OFF)
    shown = run(case, FOLDER / "columns_cover.mzn", "-a", *more, **told)
    assert "INCORRECT" not in shown and "==========" in shown
    solutions = [
        json.loads(f"[{line[7:].replace(', objective', ',')}]")
        for line in shown.splitlines()
        if line.startswith("groups ")
    ]
    assert shown.count("CORRECT") == len(solutions)
    groups, objective = solutions[-1]
    choice = covered(case)
    check(case, choice, sorted({place - 1 for place in groups}), objective, expected)
    return [groups for groups, _ in solutions]


@pytest.mark.by_day(6)
@with_and_without_extras(MADE)
def test_cover_proves_the_optimum(name: str, extras: bool, run_checked: Run) -> None:
    solve_cover(MADE[name][0], run_checked, extras, MADE[name][1])


@pytest.mark.slow
@settings(max_examples=examples(15))
@given(case=choices())
def test_cover_agrees_with_enumeration(run_checked: Run, case: Made) -> None:
    expected = least(*case)
    for extras in (True, False):
        solve_cover(case, run_checked, extras, expected)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", ["pairs", "ring", "chain", "odd"])
def test_cover_begins_with_the_start(name: str, run_checked: Run) -> None:
    case, expected = MADE[name]
    choice = covered(case)
    start = [place + 1 for place in choice.group_of(choice.alone)]
    for extras in (True, False):
        assert solve_cover(case, run_checked, extras, expected, start=start, hint=True)[0] == start


WRONG = {
    "order": ("pairs", "bool2int(", "0 * bool2int(", "wait for each other"),
    "members": (
        "odd",
        "forall(c in CANDIDATE, i in members[c])",
        "forall(c in CANDIDATE, i in members[c] where false)",
        "not in the groups",
    ),
    "costs": ("odd", "premium[c] * chosen[c]", "0 * chosen[c]", "objective"),
}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("violation", WRONG)
def test_checker_refuses_what_is_wrong(violation: str, run_checked: Run, tmp_path: Path) -> None:
    name, right, wrong, told = WRONG[violation]
    text = core_text(FOLDER)
    assert right in text
    (tmp_path / "core.mzn").write_text(text.replace(right, wrong))
    (tmp_path / "columns_cover.mzn").write_text((FOLDER / "columns_cover.mzn").read_text())
    shown = run_checked(MADE[name][0], tmp_path / "columns_cover.mzn", "-D", EXTRAS_OFF)
    assert "INCORRECT" in shown
    assert told in shown


# What they stand on ----------------------------------------------------------------------------------------


@given(choices())
def test_prices_prove_a_bound(case: Made) -> None:
    choice = covered(case)
    for candidate in case[1]:
        assert sum(choice.prices[number] for number in candidate.nodes) <= candidate.cost
    assert choice.base <= least(*case) <= choice.base + choice.worst


def test_prices_are_next_to_the_relaxation() -> None:
    assert [covered(MADE[name][0]).base for name in ("pairs", "ring", "chain")] == [11, 18, 26]
    assert covered(ODD).base == 18


@given(choices(most=6))
def test_only_tangled_candidates_wait_for_each_other(case: Made) -> None:
    """And starts are plans, no worse than what they stand for."""
    choice = covered(case)
    tangled = {choice.candidates[place].nodes for place in choice.tangled}
    for chosen in partitions(frozenset(range(len(case[0]))), case[1]):
        groups = [one.nodes for one in chosen]
        found, executable = choice.chosen(groups), can_be_executed(case[0], chosen)
        if found is not None:
            assert not {*found} & {*choice.split}
            assert can_be_executed(case[0], [choice.candidates[place] for place in found])
        if all(nodes in choice.index_of for nodes in groups):
            assert executable or len(tangled & {*groups}) >= 2
            if executable and cost(chosen) <= choice.base + choice.worst:
                assert found is not None
                assert choice.base + sum(choice.premiums[place] for place in found) <= cost(chosen)


def test_chains_are_not_tangled() -> None:
    assert covered(CHAIN).placed == covered(CHAIN).links == covered(CHAIN).clashes == []
    assert len(covered(PAIRS).clashes) == 1
    assert (len(covered(RING).tangled), covered(RING).clashes) == (3, [])


def test_groups_that_are_no_candidates_give_way() -> None:
    choice = covered(CHAIN)
    for groups, expected in (
        ([(0, 1, 2), (3,)], [(0,), (1, 2), (3,)]),  # as two others cost less
        ([(0, 1), (2, 3)], [(0, 1), (2, 3)]),
        ([(0, 1, 2, 3)], [(0,), (1,), (2,), (3,)]),
    ):
        assert sorted(choice.candidates[place].nodes for place in choice.chosen(groups) or ()) == expected
    assert choice.chosen([(0, 1)]) is choice.chosen([(0, 1), (1, 2), (3,)]) is choice.chosen([(-1,)]) is None


# Networks --------------------------------------------------------------------------------------------------


def conv(name: str, size: tuple[int, int, int], kernels: int, kernel: int = 1, **more: Any) -> dict[str, Any]:
    return {"name": name, "input": size, "kernels": kernels, "kernel": (kernel, kernel), **more}


def pool(name: str, size: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    return {"name": name, "kind": "pool", "input": size, "kernel": (2, 2), "stride": (2, 2), **more}


STRAIGHT = [
    conv("a", (2, 8, 8), 4, 3),
    pool("b", (4, 6, 6)),
    conv("c", (4, 3, 3), 3),
    conv("d", (3, 3, 3), 2),
]
RESIDUAL = [
    conv("a", (2, 6, 6), 4),
    conv("b", (4, 6, 6), 2, inputs=["a"]),
    conv("c", (2, 6, 6), 4, 3, padding=(1,) * 4, inputs=["b"]),
    {"name": "d", "kind": "add", "input": (4, 6, 6), "inputs": ["c", "a"]},
]
BRANCHES = [
    conv("a", (2, 6, 6), 4),
    conv("b", (4, 6, 6), 2, inputs=["a"]),
    conv("c", (4, 6, 6), 2, inputs=["a"]),
    conv("d", (2, 6, 6), 3, inputs=["c"]),
    conv("e", (5, 6, 6), 2, inputs=["b", "d"]),
]


def problem(layers: list[dict[str, Any]], minimise: str = "cycles") -> Problem:
    return Problem.model_validate({
        "network": {"layers": layers},
        "machine": {
            "conv_array": (2, 2, 2),
            "clock_mhz": 100,
            "input_bytes": 256,
            "output_bytes": 256,
            "parameter_bytes": 256,
            "load_mb_per_s": 100,
            "save_mb_per_s": 100,
            "operands_per_cycle": 4,
            "issue_cycles": 5,
            "energy": {"pj_per_dram_byte": 16_000, "pj_per_mac": 1000, "milliwatts": 100},
        },
        "objective": {"minimise": minimise},
    })  # fmt: skip


TINY = {
    f"{minimise}, {name}": problem(layers, minimise)
    for name, layers in (("chain", STRAIGHT), ("residual", RESIDUAL), ("branches", BRANCHES))
    for minimise in ("cycles", "traffic", "energy")
}
# What the host takes is more than Gecode can count to.
HOSTED = {
    "name": "h",
    "kind": "opaque",
    "op": "?",
    "input": (4, 3, 3),
    "output": (4, 3, 3),
    "parameters": 3000,
}
TINY["cycles, hosted"] = problem([*STRAIGHT[:2], HOSTED, *STRAIGHT[2:]]).with_(
    machine={"host": {"cycles_per_byte": 1e6, "cycles_per_call": 7}}
)
# The reference has tests of its own, on smaller problems: tests/fusion/test_fusion_reference.py.
METHODS = [each for each in methods(TINY["cycles, chain"]) if each[0].stem != "reference"]
WITH_EACH_METHOD = with_each(METHODS)


def test_there_are_formulations() -> None:
    assert {path.name for path, _ in METHODS} >= {"columns_cover.mzn", "columns_partition.py"}


@cache
def plans(name: str) -> list[Plan]:
    """Return all plans of a tiny problem, the cheapest first."""
    case = TINY[name]
    producers, every = [op.producers for op in case.ops], candidates(case)
    chosen = [
        groups
        for groups in partitions(frozenset(range(len(case.ops))), every)
        if can_be_executed(producers, groups)
    ]
    return [order_groups(case, groups) for groups in sorted(chosen, key=cost)]


@pytest.mark.by_day(6)
@with_and_without_extras(TINY)
@WITH_EACH_METHOD
def test_agrees_with_enumeration(path: Path, solver: str, name: str, extras: bool) -> None:
    check_agreement(TINY[name], path, solver, extras, objective(TINY[name], plans(name)[0]))


def test_a_host_adds_what_it_takes_whatever_the_plan() -> None:
    priced = TINY["cycles, hosted"]
    free = priced.with_(machine={"host": None})
    taken = 3072 * 10**6 + 7
    assert {objective(priced, plan) - objective(free, plan) for plan in plans("cycles, hosted")} == {taken}
    assert best_bound(priced).value - best_bound(free).value == taken


@pytest.mark.by_day(5)
@with_and_without_extras(TINY)
@WITH_EACH_METHOD
def test_start_arrives(path: Path, solver: str, name: str, extras: bool) -> None:
    """The solver says so itself; its first plan is no worse."""
    case, found = TINY[name], []
    start = plans(name)[len(plans(name)) // 2]
    # HiGHS only speaks of a start when its presolve has left something.
    options = {"presolve": "off"} if solver == "highs" else None
    outcome = solve(case, path, solver, extras=extras, options=options, start=start, on_plan=found.append)
    assert outcome.warm_start is not None
    assert objective(case, found[0]) <= objective(case, start)
    assert (outcome.status, outcome.bound) == ("optimal", objective(case, plans(name)[0]))


@WITH_EACH_METHOD
def test_start_that_is_no_plan_does_no_harm(path: Path, solver: str) -> None:
    name = "cycles, residual"
    best = plans(name)[0]
    for start in (Plan(best.groups[:-1]), Plan((Group(("a", "d"), None), Group(("b", "c"), None)))):
        assert solve(TINY[name], path, solver, start=start).bound == objective(TINY[name], best)


@settings(max_examples=examples(200, 4))
@given(randoms)
def test_partition_proves_the_least_memory(random: Random) -> None:
    """Whether cycles are limited or not, with a host or without: as the search does."""
    table: dict[str, Any] = {"minimise": "memory"}
    hosts = [None, {"cycles_per_byte": 0.7, "cycles_per_call": 5}]
    case = drawn(random).with_(objective={"minimise": "cycles"}, machine={"host": random.choice(hosts)})
    case = case.with_(limits={"halo": random.choice(["any", "keep", "recompute"])})
    fastest = downsets.solve(case, RunContext()).bound
    if fastest is not None and random.random() < 0.7:
        table["most_cycles"] = fastest * random.choice([9, 10, 11, 14, 20]) // 10
    case = case.with_(objective=table)
    expected = downsets.solve(case, RunContext())
    path, extras, off = FOLDER / "columns_partition.py", random.random() < 0.7, {"presolve": "off"}
    for start in (None, expected.plan):
        found = solve(case, path, "highs", extras=extras, start=start, options=off)
        if expected.plan is None:
            assert (found.status, found.plan) == ("infeasible", None)
            continue
        assert (found.status, found.bound) == ("optimal", expected.bound)
        assert violation(case, found.plan) is None
        assert objective(case, found.plan) == expected.bound
        assert (found.warm_start is None) == (start is None)


@pytest.mark.parametrize("path", sorted({path for path, _ in METHODS}), ids=lambda path: path.name)
def test_peaks_are_refused_where_they_are_no_rows(path: Path) -> None:
    """The most that any group takes is no sum; the model for Pyomo has rows for it."""
    least = problem(STRAIGHT, "memory")
    if path.stem == "columns_partition":
        assert columns_partition.suits(least)
        least = least.where("groups <= 3")
    assert not catalogue.suits(catalogue.formulation("fusion", path.stem), least)
