"""What `check` says of right results, of wrong ones, and of those that it cannot verify in time."""

from __future__ import annotations

import copy
import json
import random
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import tilewright as tw
from tilewright.core import catalogue
from tilewright.run import verify
from tilewright.run.checking import claims
from tilewright.run.checking.consistency import AUTHORS_WORD
from tilewright.run.checking.finding import Finding, exit_status
from tilewright.run.instance import Instance, parse
from tilewright.run.result import Result
from tilewright.run.solving import second_route
from tilewright.run.verify import check
from tilewright.spec.errors import Disagreement, InputError, OutOfTimeError, TilewrightError

NPU = {"room": "tiling", "layer": {"input": [1, 30, 1], "kernels": 1, "kernel": [3, 1], "stride": [2, 1]}}

CASES: dict[str, tuple[dict[str, Any], str]] = {
    "grouping": (
        {
            "room": "grouping",
            "layer": {"input": [1, 5, 5], "kernels": 1, "kernel": [3, 3]},
            "machine": {"group_size": 2},
        },
        "zigzag",
    ),
    "dsp": (
        {
            "room": "tiling",
            "layer": {"input": [3, 8, 8], "kernels": 4, "kernel": [3, 3]},
            "machine": {"kind": "dsp", "memory_bytes": 512},
        },
        "exhaustive",
    ),
    "npu": (NPU | {"machine": {"kind": "npu"}}, "exhaustive"),
    "allocation": (
        {
            "room": "allocation",
            "network": {
                "layers": [
                    {"name": "a", "input": [3, 8, 8], "kernels": 4, "kernel": [3, 3]},
                    {"name": "b", "input": [4, 6, 6], "kernels": 6, "kernel": [3, 3]},
                ]
            },
            "machine": {"array": [2, 3], "clock_mhz": 10},
            "objective": {"minimise": "latency"},
        },
        "greedy",
    ),
    "fusion": (
        {
            "room": "fusion",
            "network": {
                "layers": [
                    {"name": "a", "input": [3, 12, 12], "kernels": 4, "kernel": [3, 3]},
                    {"name": "p", "kind": "pool", "input": [4, 10, 10], "kernel": [2, 2], "stride": [2, 2]},
                ]
            },
            "machine": {
                "conv_array": [4, 4, 2],
                "clock_mhz": 100,
                "input_bytes": 4096,
                "output_bytes": 4096,
                "parameter_bytes": 4096,
                "load_mb_per_s": 400,
                "save_mb_per_s": 400,
                "operands_per_cycle": 8,
            },
        },
        "greedy",
    ),
    "bitwidth": (
        {
            "room": "bitwidth",
            "network": {"layers": [{"name": "a", "input": [3, 8, 8], "kernels": 4, "kernel": [3, 3]}]},
            "ranges": {"a": {"input": 1.5, "weights": 0.4, "output": 3.0}},
            "machine": {"accumulator_bits": 14},
        },
        "merging",
    ),
}

SOLVED: dict[str, tuple[Instance, Result]] = {}


def case(name: str) -> tuple[Instance, Result]:
    """Return an instance and a right result of it, as read from its file."""
    if name not in SOLVED:
        table, method = CASES[name]
        instance = parse(copy.deepcopy(table))
        result = tw.solve(instance, method, time_limit=300)
        assert result.plan is not None
        SOLVED[name] = instance, result
    return SOLVED[name]


every_case = pytest.mark.parametrize("name", list(CASES))


@pytest.fixture
def reread(tmp_path: Path) -> Callable[[Instance, dict[str, Any]], Result]:
    """Write the content of a result file and read it."""

    def read(instance: Instance, data: dict[str, Any]) -> Result:
        path = tmp_path / "result.json"
        path.write_text(json.dumps(data))
        return Result.read(path, instance.problem)

    return read


def states(findings: list[Finding]) -> dict[str, str]:
    return {finding.what: finding.state for finding in findings}


def test_states_and_what_they_come_to() -> None:
    ok, wrong, late, told = (
        Finding("x", state, "") for state in ("verified", "refuted", "not verified", "told")
    )
    assert [finding.holds for finding in (ok, wrong, late, told)] == [True, False, False, True]
    assert [exit_status(found) for found in ([ok, told], [ok, late], [late, wrong], [])] == [0, 5, 1, 0]
    assert late.to_json() == {"what": "x", "holds": False, "state": "not verified", "detail": ""}


@pytest.mark.by_day(6)
@every_case
def test_right_results_hold(name: str, reread: Callable[..., Result]) -> None:
    instance, result = case(name)
    findings = check(instance, reread(instance, result.to_json()), time_limit=300)
    assert exit_status(findings) == 0, findings
    assert states(findings)["plan"] == states(findings)["report"] == states(findings)["trace"] == "verified"
    assert findings[-1].state == "told" and "seconds" in findings[-1].detail


@pytest.mark.by_day(9)
@every_case
def test_what_cannot_be_verified_in_time_is_not_called_wrong(name: str) -> None:
    findings = check(*case(name), time_limit=1e-6)
    assert exit_status(findings) == 5
    assert states(findings)["plan"] == states(findings)["objective"] == "not verified"
    assert "(--time-limit)" in next(found.detail for found in findings if found.what == "plan")


@every_case
def test_without_time_to_simulate_closed_forms_refute(name: str) -> None:
    instance, result = case(name)
    assert result.objective is not None
    findings = check(instance, replace(result, objective=result.objective + 1), time_limit=1e-6)
    assert states(findings)["objective"] == "refuted"
    assert exit_status(findings) == 1


def test_numbers_that_do_not_end_in_time_leave_the_rest_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    instance, result = case("dsp")
    room = type(catalogue.room("tiling"))
    simulate = room.simulate

    def slow(*arguments: Any, numeric: bool = False, **options: Any) -> Any:
        if numeric:
            raise OutOfTimeError
        return simulate(*arguments, numeric=numeric, **options)

    monkeypatch.setattr(room, "simulate", slow)
    findings = check(instance, result, time_limit=300)
    assert [found.what for found in findings if not found.holds] == ["numbers"]
    assert exit_status(findings) == 5
    assert exit_status(check(instance, result, numeric=False, time_limit=300)) == 0


def test_the_default_limit_grows_with_the_work() -> None:
    instance, result = case("dsp")
    least = verify.default_seconds(instance, result)
    assert least == 60
    assert verify.default_seconds(instance, replace(result, seconds=500.0)) > 2000
    assert result.report is not None
    longer = replace(result.report, measures=replace(result.measures, steps=10**7))
    assert verify.default_seconds(instance, replace(result, report=longer)) > 600
    unknown = replace(result.report, measures=None)
    assert verify.default_seconds(instance, replace(result, report=unknown)) == 60


# Fields ---------------------------------------------------------------------------------------------


def change_trace(index: int, **fields: Any) -> Callable[[dict[str, Any]], None]:
    def change(data: dict[str, Any]) -> None:
        for place, value in fields.items():
            data["trace"][index][("seconds", "objective", "bound").index(place)] = value

    return change


def put(key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    *tables, last = key.split(".")

    def change(data: dict[str, Any]) -> None:
        for table in tables:
            data = data[table]
        data[last] = value

    return change


@pytest.mark.by_day(14)
@pytest.mark.parametrize(
    ("what", "change"),
    [
        ("trace", change_trace(-1, bound=10**9)),
        ("trace", change_trace(0, bound=10**9)),
        ("trace", change_trace(-1, objective=None)),
        ("trace", change_trace(-1, objective=1)),
        ("trace", change_trace(0, seconds=10**6)),
        ("trace", put("trace", [])),
        ("method", put("method", "nobody")),
        ("status", put("status", "optimal")),
        ("status", put("status", "infeasible")),
        ("status", put("gap", 0.5)),
        ("status", put("objective", 0)),
        ("objective", put("objective", 0)),
        ("objective", put("objective", 66)),
        ("bound_by", put("bound_by", "strips")),
        ("bound_by", put("bound_by", "exact")),
        ("confirmed_by", put("confirmed_by", "exact")),
        ("report", put("simulated", False)),
        ("report", put("report", None)),
        ("report", put("report.numeric", False)),
        ("report", put("report.measures.overlapped_cycles", 1)),
        ("report", put("report.valid", False)),
        ("report", put("report.measures.most_loads_of_an_element", 9)),
        ("report", put("report.measures.loaded_elements.colour", 0)),
    ],
)
def test_a_field_that_says_what_is_not_so_is_refuted(
    reread: Callable[..., Result], what: str, change: Callable[[dict[str, Any]], None]
) -> None:
    instance, result = case("grouping")
    data = copy.deepcopy(result.to_json())
    data["trace"] = [list(point) for point in data["trace"]]
    assert len(data["trace"]) > 1
    change(data)
    findings = check(instance, reread(instance, data), time_limit=300)
    assert states(findings)[what] == "refuted", findings
    assert exit_status(findings) == 1


@pytest.mark.parametrize(
    "change",
    [
        put("report.colour", 1),
        put("report.measures.colour", 1),
        put("report.measures.steps", 5.0),
        put("report.measures.loaded_elements.input", True),
    ],
)
def test_a_report_of_another_form_is_not_read(
    reread: Callable[..., Result], change: Callable[[dict[str, Any]], None]
) -> None:
    instance, result = case("grouping")
    data = copy.deepcopy(result.to_json())
    change(data)
    with pytest.raises(tw.InputError, match=r"report\."):
        reread(instance, data)


def test_an_unknown_bound_that_holds_is_not_verified(reread: Callable[..., Result]) -> None:
    """Another version may have named its bound so."""
    instance, result = case("grouping")
    findings = check(instance, reread(instance, result.to_json() | {"bound_by": "somebody"}), time_limit=300)
    assert states(findings)["bound_by"] == "not verified"
    assert exit_status(findings) == 5


def test_a_report_says_how_the_plan_was_simulated(reread: Callable[..., Result]) -> None:
    """Numbers and the overlapped timeline are computed anew where the file has them."""
    instance, result = case("grouping")
    told = tw.simulate(instance, result, numeric=True).verdict().to_json()
    assert told["numeric"] is True and told["measures"]["overlapped_cycles"] is not None
    data = result.to_json() | {"report": told}
    assert exit_status(check(instance, reread(instance, data), time_limit=300)) == 0
    told["measures"]["overlapped_cycles"] -= 1
    assert states(check(instance, reread(instance, data), time_limit=300))["report"] == "refuted"


def test_a_key_that_a_report_lacks_counts_unless_another_version_wrote_it(
    reread: Callable[..., Result],
) -> None:
    instance, result = case("dsp")
    data = copy.deepcopy(result.to_json())
    del data["report"]["measures"]["limited_by"]
    assert states(check(instance, reread(instance, data), time_limit=300))["report"] == "refuted"
    data["versions"]["tilewright"] = "0.0.1"
    assert states(check(instance, reread(instance, data), time_limit=300))["report"] == "verified"


def test_a_plan_that_was_not_simulated_is_simulated_now(reread: Callable[..., Result]) -> None:
    instance, result = case("dsp")
    data = result.to_json() | {"simulated": False, "report": None}
    findings = check(instance, reread(instance, data), time_limit=300)
    assert exit_status(findings) == 0
    assert "none was written" in next(found.detail for found in findings if found.what == "report")
    data |= {"objective": data["objective"] + 1}
    assert states(check(instance, reread(instance, data), time_limit=300))["objective"] == "refuted"


@pytest.mark.by_day(5)
@every_case
def test_files_of_before_hold(name: str, reread: Callable[..., Result]) -> None:
    instance, result = case(name)
    data = result.to_json()
    for key in ("simulated", "confirmed_by", "trace", "bound_by", "grounds", "failures", "interrupted"):
        del data[key]
    read = reread(instance, data)
    assert (read.simulated, read.confirmed_by) == (True, None)
    assert exit_status(check(instance, read, time_limit=300)) == 0


def test_an_objective_of_nothing_is_refuted() -> None:
    instance, result = case("allocation")
    findings = check(instance, replace(result, objective=0, bound=2133, gap=1.0), time_limit=300)
    assert exit_status(findings) == 1
    assert states(findings)["objective"] == "refuted"


STRANGE: list[Any] = [
    None,
    True,
    False,
    0,
    -1,
    10**9,
    10**30,
    1.5,
    1e300,
    "",
    "exact",
    "auto",
    "\x1b[2J",
    [],
    {},
]


def parts(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    """Return the paths of a value and of all that is in it."""
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from parts(inner, (*path, key))


def tampered(data: dict[str, Any], rng: random.Random) -> tuple[dict[str, Any], tuple[Any, ...]]:
    """Return a copy in which one field, or a value in it, is another one; and the path of that."""
    data = copy.deepcopy(data)
    key = rng.choice(list(data))
    path = rng.choice(list(parts(data[key], (key,))))
    holder: Any = data
    for step in path[:-1]:
        holder = holder[step]
    value = holder[path[-1]]
    kind = rng.choice(["strange", "near", "drop", "extra"])
    if kind == "near" and type(value) in (int, float):
        holder[path[-1]] = value + rng.choice([-1, 1])
    elif kind == "drop":
        del holder[path[-1]]
    elif kind == "extra" and isinstance(value, list) and value:
        value.append(copy.deepcopy(value[-1]))
    elif kind == "extra" and isinstance(value, dict):
        value["extra"] = 1
    else:
        holder[path[-1]] = copy.deepcopy(rng.choice(STRANGE))
    return data, path


@pytest.mark.by_day(5)
@every_case
def test_nothing_that_is_tampered_with_passes(name: str, reread: Callable[..., Result]) -> None:
    """Whatever is changed is noticed, unless it is the author's word or leaves the plan as it was."""
    instance, result = case(name)
    data = json.loads(json.dumps(result.to_json()))
    rng = random.Random(name)
    seen = 0
    while seen < 12:
        changed, path = tampered(data, rng)
        if path[0] in AUTHORS_WORD or (path[0] == "trace" and path[1:2] != (len(data["trace"]) - 1,)):
            continue
        if changed == data and path[0] == "gap":  # 0 for 0.0
            continue
        if json.dumps(changed, sort_keys=True) == json.dumps(data, sort_keys=True):
            continue
        seen += 1
        try:
            read = reread(instance, changed)
            findings = check(instance, read, numeric=False, time_limit=5)
        except TilewrightError:
            continue
        same_plan = (
            path[0] == "plan"
            and tw.simulate(instance, read).verdict() == tw.simulate(instance, result).verdict()
        )
        if path[0] in OPTIONAL and path[0] not in changed:
            continue  # as an older file
        if path == ("report", "measures") and "measures" not in changed["report"]:
            continue  # likewise
        assert exit_status(findings) != 0 or same_plan, path


OPTIONAL = ("simulated", "confirmed_by", "trace", "minimise", "unit")


# Claims ---------------------------------------------------------------------------------------------


def test_a_false_claim_that_nothing_is_feasible_is_refuted() -> None:
    instance, result = case("npu")
    false = replace(
        result, status="infeasible", method="cores@gecode", plan=None, objective=None, report=None, gap=None
    )
    false = replace(false, trace=[(0.0, None, result.bound)])
    findings = check(instance, false, time_limit=300)
    assert states(findings)["infeasible"] == "refuted"
    heuristic = check(instance, replace(false, method="pruned"), time_limit=300)
    assert states(heuristic)["method"] == states(heuristic)["infeasible"] == "refuted"


def test_a_bound_above_the_optimum_is_refuted() -> None:
    instance, _ = case("dsp")
    best = tw.solve(instance, "exhaustive")
    assert best.objective is not None
    greedy = tw.solve(instance, "manual")
    assert greedy.objective is not None and greedy.objective > best.objective
    false = replace(
        greedy,
        status="optimal",
        method="tiles@highs",
        bound=greedy.objective,
        bound_by="tiles@highs",
        gap=0.0,
        trace=[(0.0, greedy.objective, greedy.objective)],
    )
    findings = check(instance, false, time_limit=300)
    assert states(findings)["bound"] == "refuted"


def test_a_proof_is_confirmed_by_a_second_route_or_rests_on_one() -> None:
    instance, result = case("dsp")
    proven = replace(result, method="auto")
    (bound,) = (found for found in check(instance, proven, time_limit=300) if found.what == "bound")
    assert bound.state == "verified"
    assert "exhaustive proves" in bound.detail
    assert "confirmed: " in bound.detail or "rests on exhaustive alone" in bound.detail
    columns = any(f"confirmed: {name}@highs" in bound.detail for name in ("tiles", "columns_tiles"))
    assert ("confirms the choice" in bound.detail) == columns


def test_without_time_for_a_proof_a_claim_is_not_verified() -> None:
    instance, result = case("npu")
    claim = claims.Claim("infeasible", None, "exhaustive", None)
    finding = claims.prove(instance, claim, time.monotonic(), 3.0, result.seconds)
    assert finding.state == "not verified"
    assert "no time was left; 6 s may be enough" in finding.detail


def test_second_routes_begin_with_the_exact_search() -> None:
    grouping, _ = case("grouping")
    found = second_route.routes(grouping.problem, "lives@highs")
    assert found[0] == "exact" and "ordered@gecode" in found and "lives@highs" not in found
    assert found.index("s1@highs") < found.index("ordered@gecode")
    dsp, _ = case("dsp")
    front = dsp.problem.with_(objective={"minimise": "pareto"})
    assert second_route.routes(front) == ["exhaustive"]


def test_quick_optima_start_no_process_for_a_second_route() -> None:
    grouping, _ = case("grouping")
    assert second_route.asked(grouping.problem, "lives@highs", False, 0.1, 60) == []
    assert second_route.asked(grouping.problem, "exact", False, 30.0, 60) == []
    assert second_route.asked(grouping.problem, "lives@highs", False, 40.0, 60)[0] == ("exact", 10.0)
    assert second_route.asked(grouping.problem, "lives@highs", True, 0.1, 60)[0] == ("exact", 5.0)
    dsp, _ = case("dsp")
    assert second_route.asked(dsp.problem, "tiles@highs", False, 0.1, 60) == [("exhaustive", 0.5)]


def test_solve_catches_a_method_that_calls_a_feasible_problem_infeasible() -> None:
    instance, _ = case("npu")
    with pytest.raises(Disagreement, match=r"infeasible, exhaustive .* plan of"):
        tw.solve(instance, lambda problem: tw.Outcome("infeasible"))
    told = tw.solve(instance, lambda problem: tw.Outcome("infeasible"), confirm=False)
    assert told.status == "unknown"  # nobody has looked
    assert told.unverified == "<lambda> claims that nothing is feasible; no second method has proven it"


def test_solve_catches_a_method_that_proves_too_much() -> None:
    instance, _ = case("dsp")
    poor = tw.solve(instance, "manual")
    with pytest.raises(Disagreement, match=r"bound of .*, exhaustive .* plan of"):
        tw.solve(instance, lambda problem: tw.Outcome("optimal", poor.plan, poor.objective))


def test_solve_says_what_confirmed_its_answer() -> None:
    instance, result = case("dsp")
    assert result.bound_by == "exhaustive"
    told = tw.solve(instance, lambda problem: tw.Outcome("optimal", result.plan, result.objective))
    assert told.confirmed_by == "exhaustive"
    assert "confirmed by" in told.summary()


# Sizes ----------------------------------------------------------------------------------------------


def test_a_file_far_larger_than_its_instance_needs_is_refused_unread(tmp_path: Path) -> None:
    instance, result = case("grouping")
    data = result.to_json()
    path = tmp_path / "big.json"
    data["plan"] = {"groups": [[[0, 0]] * 1_000_000]}
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="file size = "):
        Result.read(path, instance.problem)
    data["plan"] = {"groups": [[[0, 0]] * 250_000]}
    path.write_text(json.dumps(data, separators=(",", ":")))
    with pytest.raises(InputError, match="values in the file = "):
        Result.read(path, instance.problem)


def test_many_doubled_patches_are_found_at_once() -> None:
    """Looking for each patch in its group would take minutes."""
    instance, result = case("grouping")
    some = [(row, column) for row in range(3) for column in range(3)]
    plan = replace(result.plan, groups=((*some, *some[-1:] * 130_000), *result.plan.groups[1:]))
    began = time.process_time()
    findings = check(instance, replace(result, plan=plan), time_limit=300)
    assert states(findings)["plan"] == "refuted"
    assert time.process_time() - began < 60
