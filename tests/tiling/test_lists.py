"""Lists of objectives with tolerances, and limits of cost, against all plans of tiny layers."""

from __future__ import annotations

import json
from fractions import Fraction
from math import inf

import pytest
import test_npu
from conftest import examples, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import everything, problems
from test_tiling_cli import LAYER, MACHINE, NETWORK, write  # noqa: F401

from tilewright.spec.errors import InputError
from tilewright.tiling import MACHINES, Plan, Problem, last_stage, objective, violation

TOLERANCES = st.sampled_from([0.0, 0.01, 0.1, 1.0])


def costs_of_all(problem, plans, names):
    """Return the costs of every plan, a tuple for each."""
    alone = [problem.with_(objective={"minimise": name}) for name in names]
    return {tuple(objective(one, Plan((plan,))) for one in alone) for plan in plans}


def by_enumeration(costs, tolerances):
    """Return the least last cost among plans that are good in those before."""
    for place, tolerance in enumerate(tolerances):
        least = min(cost[place] for cost in costs)
        costs = {cost for cost in costs if cost[place] <= least * (1 + Fraction(str(tolerance)))}
    return min(cost[-1] for cost in costs)


def found(problem):
    """Return what the room's exact search finds, checked by the room's own rules."""
    stage = last_stage(problem, inf)
    answer = None if stage is None else MACHINES[problem.machine.kind].exhaustive(stage, inf)
    if answer is None:
        return None
    assert answer.proven
    assert violation(stage, Plan(answer.layers)) is None
    assert objective(problem, Plan(answer.layers)) == answer.value
    return answer.value


def valid_dsp_plans(problem):
    plain = problem.with_(objective={"minimise": "accesses"})
    return [plan for plan in everything(plain, "any") if violation(plain, Plan((plan,))) is None]


@pytest.mark.nightly
@given(problems(side=4, channels=2, tight=True), st.data())
@settings(max_examples=examples(25), deadline=None)
def test_lists_and_limits_on_a_dsp_are_those_of_enumeration(problem, data):
    names = data.draw(st.permutations(["accesses", "cycles", "energy"]))[: data.draw(st.integers(2, 3))]
    tolerances = [data.draw(TOLERANCES) for _ in names[1:]]
    costs = costs_of_all(problem, valid_dsp_plans(problem), names)
    asked = problem.with_(objective={"minimise": names, "tolerance": tolerances})
    assert found(asked) == by_enumeration(costs, tolerances)
    most = data.draw(st.sampled_from(sorted({cost[0] for cost in costs}))) - data.draw(st.integers(0, 1))
    limited = problem.with_(objective={"minimise": names[-1]}, limits={"at_most": {names[0]: most}})
    assert found(limited) == min((cost[-1] for cost in costs if cost[0] <= most), default=None)


@given(test_npu.problems(side=4, channels=3), st.data())
@settings(max_examples=examples(25), deadline=None)
def test_lists_and_limits_on_an_npu_are_those_of_enumeration(problem, data):
    names = data.draw(st.permutations(["time", "accesses"]))
    tolerance = data.draw(TOLERANCES)
    costs = costs_of_all(problem, test_npu.everything(problem), names)
    asked = problem.with_(objective={"minimise": names, "tolerance": tolerance})
    if not costs:
        assert found(asked) is None
        return
    assert found(asked) == by_enumeration(costs, [tolerance])
    most = data.draw(st.sampled_from(sorted({cost[0] for cost in costs}))) - data.draw(st.integers(0, 1))
    limited = problem.with_(objective={"minimise": names[1]}, limits={"at_most": {names[0]: most}})
    assert found(limited) == min((cost[1] for cost in costs if cost[0] <= most), default=None)


OBJECTIVE = '[objective]\nminimise = ["accesses", "cycles"]\ntolerance = 0.02\n'


@pytest.mark.nightly
@pytest.mark.parametrize(("of", "whose"), [(f"[layer]{LAYER}", "the"), (NETWORK, "each layer's")])
def test_a_list_is_solved_and_checked(tilewright, write, tmp_path, of, whose):  # noqa: F811
    name = write("list.toml", f"{of}{MACHINE}{OBJECTIVE}")
    shown = tilewright("solve", name, "-o", "result.json")
    assert shown.returncode == 0, shown.stderr
    assert f"at most 2 % above {whose} least accesses" in shown.stdout
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "optimal"
    checked = tilewright("check", name, "result.json")
    assert checked.returncode == 0, checked.stdout
    assert "tolerance" in checked.stdout


@pytest.mark.nightly
def test_a_plan_outside_of_the_tolerance_is_no_optimum(tilewright, solved, write, tmp_path):  # noqa: F811
    fastest = solved(write("fast.toml", f'[layer]{LAYER}{MACHINE}[objective]\nminimise = "cycles"\n'))
    name = write("list.toml", f"[layer]{LAYER}{MACHINE}{OBJECTIVE}")
    result = solved(name)
    fast, good = fastest["report"]["measures"], result["report"]["measures"]
    assert fast["duration_cycles"] < good["duration_cycles"], "else the claim below is true"
    assert fast["accesses_elements"] > 1.02 * good["accesses_elements"]
    claim = result | {key: fastest[key] for key in ("plan", "objective", "bound", "report", "trace")}
    (tmp_path / "claim.json").write_text(json.dumps(claim))
    checked = tilewright("check", name, "claim.json")
    assert checked.returncode == 1
    assert "limit of accesses" in checked.stdout


def test_the_last_objective_is_bought_with_the_tolerance(solved, write):  # noqa: F811
    strict, loose = (
        solved(write(f"{tolerance}.toml", f"[layer]{LAYER}{MACHINE}{OBJECTIVE.replace('0.02', tolerance)}"))
        for tolerance in ("0.0", "0.5")
    )
    assert loose["objective"] < strict["objective"]
    assert (
        loose["report"]["measures"]["accesses_elements"] > strict["report"]["measures"]["accesses_elements"]
    )


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", ["greedy", "loops@gecode", "tiles@highs"])
def test_methods_of_one_objective_refuse_lists(tilewright, write, method):  # noqa: F811
    for table in (OBJECTIVE, "[limits.at_most]\ncycles = 100000\n"):
        name = write("list.toml", f"[layer]{LAYER}{MACHINE}{table}")
        shown = tilewright("solve", name, "--with", method)
        assert shown.returncode == 2, shown.stdout
        assert any(word in shown.stderr for word in ("minimise", "at_most", "kind of machine or objective"))


@pytest.mark.parametrize(
    ("objective_table", "limits", "said"),
    [
        ({"minimise": []}, {}, "minimise .. different"),
        ({"minimise": ["cycles", "cycles"]}, {}, "minimise .. different"),
        ({"minimise": ["cycles", "time"]}, {}, "'time' .. accesses, cycles, energy"),
        ({"minimise": ["cycles", "pareto"]}, {}, "minimise .. list"),
        ({"minimise": "cycles", "tolerance": 0.1}, {}, "tolerance = 0.1 .. list"),
        (
            {"minimise": ["cycles", "energy"], "tolerance": [0.1, 0.2]},
            {},
            "tolerance = [0.1, 0.2] .. each objective but the last",
        ),
        ({"minimise": ["cycles", "energy"], "tolerance": -0.1}, {}, "tolerance = -0.1 .. 0"),
        ({"minimise": 3}, {}, "minimise = 3 .. text"),
        ({"minimise": "pareto"}, {"at_most": {"cycles": 9}}, "at_most .. single plan"),
        ({}, {"at_most": {"time": 9}}, "'time' .. accesses, cycles, energy"),
        ({}, {"at_most": {"latency": 9}}, "at_most.latency .. unknown key"),
    ],
)
def test_what_no_list_is_says_why(objective_table, limits, said):
    table = {
        "layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]},
        "machine": {"kind": "dsp", "memory_bytes": 1000},
        "objective": objective_table,
        "limits": limits,
    }
    with pytest.raises(InputError) as caught:
        Problem.model_validate(table)
    assert tells(caught.value, said)
