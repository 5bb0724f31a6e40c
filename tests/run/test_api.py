"""The Python API as a user meets it: ``import tilewright as tw``."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
import subprocess
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from conftest import THOROUGH

import tilewright as tw
from tilewright import api
from tilewright.core import catalogue
from tilewright.core.room import register, room_of
from tilewright.run.instance import digest, parse, read
from tilewright.run.workers import supervisor
from tilewright.spec.base import Spec
from tilewright.tiling.problem import Problem

ROOT = Path(__file__).parents[2]

SMALL: dict[str, Any] = {
    "layer": {"input": [3, 8, 8], "kernels": 4, "kernel": [3, 3]},
    "machine": {"kind": "dsp", "memory_bytes": 1024},
}


def test_every_export_is_there_in_a_new_process() -> None:
    """Each is imported from where it is defined; type checkers see the same ones."""
    each = "import tilewright as tw; print(*[getattr(tw, name) for name in tw.__all__])"
    done = subprocess.run([sys.executable, "-c", each], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (checked,) = (
        node
        for node in ast.parse(Path(tw.__file__).read_text()).body
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name)
    )
    typed = {
        alias.asname for node in checked.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert typed - {None} == {*tw._MODULES} == {*tw.__all__} - {"__version__"}


def test_every_function_of_the_api_is_exported() -> None:
    public = [
        name
        for name, each in vars(api).items()
        if inspect.isfunction(each) and each.__module__ == api.__name__ and not name.startswith("_")
    ]
    assert {name for name in tw.__all__ if getattr(getattr(tw, name), "__module__", "") == api.__name__} == {
        *public
    }
    page = (ROOT / "docs/api.md").read_text()
    assert "::: tilewright\n" in page  # whose members are listed from `__all__`
    promised = set(re.findall(r"`?\btw\.(\w+)", page)) - {"__version__"}
    assert promised and promised <= {*tw.__all__}


def test_every_room_exports_its_types() -> None:
    for name in catalogue.ROOMS:
        room = catalogue.room(name)
        exported = [getattr(tw, each) for each in tw.__all__]
        types = [room.problem_type, room.plan_type]
        fields = room.problem_type.model_fields
        for field in fields.keys() & {
            "machine",
            "objective",
            "limits",
            "memory",
            "graph",
            "layer",
            "network",
        }:
            types += annotated(fields[field].annotation)
        assert not [each for each in types if each not in exported], name


def annotated(kind: Any) -> list[type[Any]]:
    """Return the specifications that a field's type names."""
    if isinstance(kind, type) and issubclass(kind, Spec):
        return [kind]
    return [each for inner in get_args(kind) for each in annotated(inner)]


def test_nothing_heavy_is_imported_for_a_small_layer() -> None:
    """What takes long to import is not needed for the first solve of a layer on a DSP."""
    solve = "import tilewright as tw, sys; tw.solve('alexnet-conv3-64k'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", solve], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    heavy = {"numba", "numpy.ma", "networkx", "matplotlib", "pandas", "onnx", "pyomo", "rich", "click"}
    assert not heavy & loaded
    rooms = {name for name in catalogue.ROOMS if f"tilewright.{name}" in loaded}
    assert rooms == {"tiling"}


@pytest.mark.parametrize("name", tw.__all__)
def test_every_export_is_documented(name: str) -> None:
    assert name in dir(tw)
    if name != "__version__":
        assert inspect.getdoc(getattr(tw, name))


def test_nothing_else_is_there() -> None:
    with pytest.raises(AttributeError, match="frobnicate"):
        _ = tw.frobnicate  # type: ignore[attr-defined]


@cache
def solved(name: str) -> tw.Result:
    """Solve a bundled instance once, the one whose proof takes long by a heuristic."""
    return tw.solve(name, "zigzag" if name == "s1-example2" else "auto")


class Labelled(Problem):
    """A problem of a user's own kind."""

    label: str = ""


def test_solve_takes_whatever_names_a_problem(tmp_path: Path) -> None:
    path = ROOT / "instances/tiling/alexnet-conv3-64k.toml"
    instance = tw.read("alexnet-conv3-64k")
    labelled = Labelled(layer=instance.problem.layer, machine=instance.problem.machine, label="mine")
    answers = [
        tw.solve(given)
        for given in ("alexnet-conv3-64k", path, str(path), instance, instance.problem, labelled)
    ]
    assert {(answer.status, answer.objective, answer.room) for answer in answers} == {
        ("optimal", answers[0].objective, "tiling")
    }
    assert [answer.instance for answer in answers] == ["alexnet-conv3-64k"] * 4 + ["unnamed"] * 2


@pytest.mark.parametrize("wrong", [3, None, object(), {"layer": {}}])
def test_what_is_no_problem_is_refused(wrong: Any) -> None:
    with pytest.raises(tw.InputError, match=r"^problem.* Problem of"):
        tw.solve(wrong)


def test_a_room_is_found_by_its_type() -> None:
    instance = parse({"room": "tiling", **SMALL})
    room = room_of(instance.problem)
    assert room.name == "tiling"
    assert room_of(Labelled(layer=instance.problem.layer, machine=instance.problem.machine)) is room
    assert register(room) is room


def test_functions_of_the_users_are_methods() -> None:
    problem = parse({"room": "tiling", **SMALL}).problem
    best = tw.solve(problem)
    told: list[int] = []

    def mine(problem: Any) -> Any:
        return best.plan

    def proving(problem: Any, context: tw.RunContext) -> tw.Outcome:
        assert context.deadline > time.monotonic()
        context.on_plan(best.plan)
        return tw.Outcome("optimal", best.plan, best.objective)

    result = tw.solve(problem, mine, on_plan=lambda _plan, objective: told.append(objective))
    assert (result.method, result.objective, told) == ("mine", best.objective, [best.objective])
    assert result.status == ("optimal" if result.objective == result.bound else "feasible")
    assert tw.solve(problem, proving).status == "optimal"
    with pytest.raises(ZeroDivisionError):
        tw.solve(problem, lambda problem: 1 // 0)


def test_wrong_claims_of_functions_are_caught() -> None:
    problem = parse({"room": "tiling", **SMALL}).problem
    best = tw.solve(problem)
    assert best.objective is not None
    too_high = tw.Outcome("optimal", best.plan, best.objective + 1)
    with pytest.raises(tw.Disagreement):
        tw.solve(problem, lambda problem: too_high)


def test_plans_are_told_from_workers_too() -> None:
    told: list[int] = []
    result = tw.solve("s1-example2", "strips", on_plan=lambda _plan, objective: told.append(objective))
    assert told == [result.objective]


def test_what_a_heuristic_breaks_in_a_layer_of_a_network_is_told() -> None:
    layers = [
        {"name": "l0", "input": [3, 23, 5], "kernels": 2, "kernel": [2, 5], "stride": [2, 2]},
        {
            "name": "l1",
            "input": [22, 3, 1],
            "kernels": 2,
            "kernel": [3, 2],
            "padding": [0, 0, 0, 1],
            "groups": 2,
        },
    ]
    machine = {"kind": "dsp", "memory_bytes": 347, "element_bytes": 3, "register_file_bytes": 366}
    problem = parse({"room": "tiling", "network": {"layers": layers}, "machine": machine})
    result = tw.solve(problem, "manual", time_limit=30)
    assert (result.status, result.plan) == ("unknown", None)
    assert result.report is not None
    assert result.report.violation.startswith("layer l1: partial sums")


def test_a_sweep_gets_cheaper_with_memory() -> None:
    problem = parse({"room": "tiling", **SMALL}).problem
    accesses = [
        tw.solve(problem.with_(machine={"memory_bytes": size})).objective
        for size in np.geomspace(256, 4096, 12).astype(int)
    ]
    assert accesses == sorted(accesses, reverse=True)
    assert accesses[0] > accesses[-1]


def test_quick_searches_start_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: Any) -> None:
        raise AssertionError("a worker was started")

    monkeypatch.setattr(supervisor, "run", started)
    for name in ("alexnet-conv3-64k", "inceptionv3-conv5-nmp"):
        assert tw.solve(name).status == "optimal"
        assert tw.solve(name, "exhaustive").status == "optimal"


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("seconds", "started"), [(0.1, 0), (10.0, 1)])
def test_what_takes_long_to_execute_is_not_tried_in_this_process(
    monkeypatch: pytest.MonkeyPatch, seconds: float, started: int
) -> None:
    """Its search takes longer than the moment that is spent on trying."""
    problem = read("mb28-64k").problem
    jobs: list[Any] = []
    run = supervisor.run

    def noted(some: list[Any], *rest: Any, **how: Any) -> None:
        jobs.extend(some)
        run(some, *rest, **how)

    monkeypatch.setattr(supervisor, "run", noted)
    monkeypatch.setattr("tilewright.run.solving.run.QUICK_SECONDS", 60.0)  # however busy the machine is
    monkeypatch.setattr(type(room_of(problem)), "simulation_seconds", staticmethod(lambda *_: seconds))
    assert tw.solve(problem, time_limit=60).status == "optimal"
    assert len(jobs) == started


def test_workers_are_used_again_until_their_methods_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    supervisor.IDLE.stop()
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    folder = tmp_path / "heuristics/grouping"
    folder.mkdir(parents=True)
    heuristic = folder / "mine_for_a_test.py"
    text = (
        "from tilewright.heuristics.grouping import {0}\n\ndef plan(problem):\n    return {0}.plan(problem)\n"
    )
    heuristic.write_text(text.format("zigzag"))
    processes: list[int] = []
    begin = supervisor.Worker.begin

    def noted(self: supervisor.Worker, job: dict[str, Any]) -> None:
        processes.append(self.process.pid)
        begin(self, job)

    monkeypatch.setattr(supervisor.Worker, "begin", noted)
    zigzag = tw.solve("s1-example2", "mine_for_a_test")
    assert tw.solve("s1-example2", "mine_for_a_test").objective == zigzag.objective
    assert processes[0] == processes[1]
    heuristic.write_text(text.format("row_by_row") + "\n")
    changed = tw.solve("s1-example2", "mine_for_a_test")
    assert changed.objective == tw.solve("s1-example2", "row_by_row").objective
    assert processes[2] != processes[1]
    supervisor.IDLE.stop()


def test_a_worker_whose_proof_ends_a_solve_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    supervisor.IDLE.stop()
    monkeypatch.setattr(supervisor, "ENDING_SECONDS", 20)
    workers: list[dict[str, int]] = [{}]
    begin = supervisor.Worker.begin

    def noted(self: supervisor.Worker, job: dict[str, Any]) -> None:
        workers[-1][job["method"]] = self.process.pid
        begin(self, job)

    monkeypatch.setattr(supervisor.Worker, "begin", noted)
    for _ in range(2):
        assert tw.solve("s1-example2").status == "optimal"
        workers.append({})
    assert workers[0]["exact"] in workers[1].values()


def test_a_solver_has_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A heuristic may import what HiGHS cannot share a process with, as some OR-tools are."""
    supervisor.IDLE.stop()
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    folder = tmp_path / "heuristics/grouping"
    folder.mkdir(parents=True)
    (folder / "imports_for_a_test.py").write_text(
        "import sys\n"
        "from tilewright.heuristics.grouping import zigzag\n\n"
        "def plan(problem):\n"
        "    sys.modules['highspy'] = None  # importing it now raises ImportError\n"
        "    return zigzag.plan(problem)\n"
    )
    for _ in range(2 if THOROUGH else 1):
        assert tw.solve("s1-example2", "imports_for_a_test").status == "feasible"
        start = tw.solve("s1-example2", "lives@highs", warm_start="imports_for_a_test")
        assert start.objective is not None and start.versions["highs"]
    supervisor.IDLE.stop()


def test_results_show_themselves() -> None:
    result = solved("lenet5-idsp")
    text = result.summary()
    assert str(result) == text
    assert text.splitlines()[0].split()[0] == "layer"
    for told in ("lenet5-idsp", "optimal", f"{result.objective / 1e12:.3f} mJ"):
        assert told in text
    page = result._repr_html_()
    assert page.count("<tr>") == len(text.splitlines()) - 4  # two tables, each with a rule and a blank line
    records = result.records()
    assert [record["layer"] for record in records] == ["conv1", "conv2", "fc3", "fc4", "fc5"][: len(records)]
    assert sum(record["energy_fj"] for record in records) == result.objective
    table = result.to_dataframe()
    assert len(table) == len(records)
    assert len(solved("alexnet-conv3-64k").records()) == 1
    assert solved("mnist-tcpa").records()[0]["layer"] == "Conv0"


def test_results_that_are_read_get_their_problem(tmp_path: Path) -> None:
    from matplotlib.figure import Figure

    solved("alexnet-conv3-64k").write(tmp_path / "result.json")
    read = tw.Result.read(tmp_path / "result.json")
    assert read.problem is None
    assert "alexnet-conv3-64k" in read.summary()
    whole = read.of(tw.read("alexnet-conv3-64k"))
    assert "Ops/byte" in whole.summary()
    assert whole == read
    with pytest.raises(tw.InputError, match="another instance"):
        read.of(tw.read("lenet5-idsp"))
    assert read.plot(ax=Figure().subplots()).has_data() is not None  # with the bundled instance
    with pytest.raises(tw.InputError, match="result of another instance"):
        replace(read, instance_sha256="0" * 64).plot()
    with pytest.raises(tw.InputError, match="instance = 'mine': "):
        replace(read, instance="mine").plot()
    with pytest.raises(tw.InputError, match=r"plan.* infeasible"):
        replace(read, plan=None, status="infeasible").plot()


@pytest.mark.parametrize("name", ["alexnet-conv3-64k", "s1-example2", "mnist-tcpa", "lenet5-idsp"])
def test_results_draw_themselves(name: str) -> None:
    from matplotlib.figure import Figure

    result = solved(name)
    axes = Figure().subplots()
    assert result.plot(ax=axes) is axes
    assert axes.has_data() or axes.patches or axes.texts


def test_loop_nests_are_emitted() -> None:
    assert "alexnet-conv3-64k" in tw.emit("alexnet-conv3-64k", solved("alexnet-conv3-64k"))
    with pytest.raises(tw.InputError, match="no loop nests"):
        tw.emit("s1-example2", tw.solve("s1-example2", "zigzag"))


def test_compare_has_a_result_for_each_run() -> None:
    entries = tw.compare(["alexnet-conv3-64k"], ["greedy", "exhaustive"])
    assert [(entry.instance, entry.method) for entry in entries] == [
        ("alexnet-conv3-64k", "greedy"),
        ("alexnet-conv3-64k", "exhaustive"),
    ]
    assert all(entry.result is not None for entry in entries)


def test_numbers_of_numpy_are_numbers(tmp_path: Path) -> None:
    """What they make is written and read again."""
    instance = parse({"room": "tiling", **SMALL})
    result = tw.solve(
        instance, "greedy", seed=np.int64(2), threads=np.int64(1), time_limit=float(np.float32(5))
    )
    assert [type(each) for each in (result.seed, result.threads, result.time_limit)] == [int, int, float]
    result.write(tmp_path / "result.json")
    assert tw.Result.read(tmp_path / "result.json", instance.problem) == result
    entries = tw.compare([instance], (name for name in ["greedy"]), seeds=np.arange(2), time_limit=5)
    assert [(entry.seed, entry.error) for entry in entries] == [(0, None), (1, None)]


def test_problems_need_no_instance() -> None:
    problem = parse({"room": "tiling", **SMALL}).problem
    (entry,) = tw.compare(problem, ["greedy"], time_limit=5)
    assert entry.result is not None and all(each.holds for each in tw.check(problem, entry.result))
    given = (each for each in [problem, "alexnet-conv3-64k"])
    assert [each.instance for each in tw.compare(given, ["greedy"], time_limit=5)] == [
        "unnamed",
        "alexnet-conv3-64k",
    ]
    swept = tw.sweep(problem, {"machine.memory_bytes": [512, 1024]}, method="greedy", time_limit=5)
    assert all(point.result is not None for point in swept)
    assert len(swept) == 2 and swept[-1] == swept.points[1]


def test_machines_need_no_kind() -> None:
    """Where a machine is told, its kind is, too: to digests, to copies, to points of a sweep."""
    layer = tw.Layer(input=(3, 8, 8), kernels=4, kernel=3)
    problem = tw.TilingProblem(layer=layer, machine=tw.DspMachine(memory_bytes=1024))
    assert problem == parse({"room": "tiling", **SMALL}).problem
    assert digest("tiling", problem) == parse({"room": "tiling", **SMALL}).sha256
    assert problem.with_(machine={"memory_bytes": 512}).machine.kind == "dsp"
    (point,) = tw.sweep(problem, {"machine.memory_bytes": [512]}, method="greedy", time_limit=5)
    assert point.result is not None
    assert tw.NpuMachine().kind == "npu"


@pytest.mark.parametrize("room", catalogue.ROOMS)
def test_problems_and_plans_are_values(room: str) -> None:
    """They are equal, hashed and pickled by what they hold, and show which room they are of."""
    one, other = (tw.read(catalogue.instances(room)[0]).problem for _ in range(2))
    assert one is not other and one == other and len({one, other}) == 1
    assert one != 3
    copy = pickle.loads(pickle.dumps(one))
    assert copy == one and hash(copy) == hash(one)
    assert repr(one).startswith(f"{room.capitalize()}Problem(")


def test_plans_name_their_axes_and_their_room() -> None:
    plan = solved("alexnet-conv3-64k").plan
    assert plan.tile == plan.layers[0].tile and plan.tile.rows == plan.tile[3] > 0
    assert plan.tile._fields == ("groups", "images", "output_maps", "rows", "columns", "input_maps")
    assert plan == pickle.loads(pickle.dumps(plan)) == type(plan).from_json(plan.to_json())
    assert repr(plan).startswith("TilingPlan(layers=(DspPlan(tile=DspTile(groups=")
    assert repr(solved("mnist-tcpa").plan).startswith("AllocationPlan(names=(")
    with pytest.raises(AttributeError, match=r"4 layers have a tile each, as plan\.layers\[0\]\.tile"):
        _ = solved("lenet5-idsp").plan.tile
    assert tw.NpuPlan("KS", "OS", (4, 3, 2, 1)).tile.columns == 1
    nest = tw.HierarchyPlan(((("y", 4), ("k", 2)), ()))
    assert nest.loops == ((("rows", 4), ("input_maps", 2)), ())


@pytest.mark.by_day(1)
@pytest.mark.parametrize("method", ["greedy", "tiles@highs", "auto"])
def test_an_error_of_the_callers_own_function_is_theirs(method: str) -> None:
    """It is no failure of the method that has found a plan, and ends the run."""

    def failing(*_told: Any) -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        tw.solve(parse({"room": "tiling", **SMALL}), method, on_plan=failing, time_limit=30)


def test_what_is_no_argument_is_refused_at_the_call() -> None:
    instance = parse({"room": "tiling", **SMALL})
    other = tw.solve("s1-example2", "zigzag").plan
    of_another_room = "plan = 'Plan of grouping': .* Plan of tiling"
    with pytest.raises(tw.InputError, match=of_another_room):
        tw.simulate(instance, other)
    with pytest.raises(tw.InputError, match=of_another_room):
        tw.plot(instance, other)
    with pytest.raises(tw.InputError, match=of_another_room):
        tw.emit(instance, other)
    with pytest.raises(tw.InputError, match=of_another_room):
        tw.solve(instance, "tiles@highs", warm_start=other)
    with pytest.raises(tw.InputError, match=of_another_room):
        tw.solve(instance, lambda _problem: other)
    with pytest.raises(tw.InputError, match="result = 'alexnet-conv3-64k': "):
        tw.simulate(instance, solved("alexnet-conv3-64k"))
    for wrong in ({"seed": 1.5}, {"seed": -1}, {"threads": 0}, {"threads": True}, {"time_limit": "5"}):
        with pytest.raises(tw.InputError, match=f"^{next(iter(wrong))} = "):
            tw.solve(instance, **wrong)  # type: ignore[arg-type]
    for wrong, told in (
        ({"jobs": 0}, "jobs = 0"),
        ({"methods": []}, r"methods = \[\]: .* empty"),
        ({"methods": "greedy"}, "methods = 'greedy': .* list"),
        ({"seeds": ()}, r"seeds = \[\]: .* empty"),
        ({"seeds": [1.5]}, "seed = 1.5: .* integer"),
        ({"threads": -1}, "threads = -1: .* integer .* 1"),
    ):
        with pytest.raises(tw.InputError, match=told):
            tw.compare(**({"instances": [instance], "methods": ["greedy"]} | wrong))  # type: ignore[arg-type]
    with pytest.raises(tw.InputError, match=r"instances = \[\]: .* empty"):
        tw.compare([])
    with pytest.raises(tw.InputError, match="axes = 5"):
        tw.sweep(instance, {5: [1]})  # type: ignore[dict-item]
    with pytest.raises(tw.InputError, match="method = 5"):
        tw.solve(instance, 5)  # type: ignore[arg-type]


NONSENSE = {
    "a_text": "return 'nonsense'",
    "nothing": "return None",
    "another_room": "from tilewright.addresses.plan import Plan; return Plan((0,))",
    "a_crash": "return 1 // 0",
}


def test_a_method_that_returns_nonsense_is_one_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others have their turn: in a comparison, and among the heuristics of ``auto``."""
    folder = tmp_path / "heuristics/tiling"
    folder.mkdir(parents=True)
    for name, body in NONSENSE.items():
        (folder / f"{name}.py").write_text(f"def plan(problem):\n    {body}\n")
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    instance = parse({"room": "tiling", **SMALL})
    entries = tw.compare([instance], [*NONSENSE, "greedy"], time_limit=10)
    assert [each.error is None for each in entries] == [False] * 4 + [True]
    assert "no Plan of tiling but str" in str(entries[0].error)
    result = tw.solve(instance, "tiles@highs", warm_start="auto", time_limit=30)
    assert result.plan is not None  # once it is proven, no further heuristic is run
    assert all(any(name in each for name in NONSENSE) for each in result.failures)
    assert len(set(result.failures)) == len(result.failures) > 0


def test_a_function_that_returns_nonsense_is_told() -> None:
    problem = parse({"room": "tiling", **SMALL}).problem
    plan = tw.solve(problem, "greedy").plan
    with pytest.raises(tw.InputError, match=r"plan = 'str': .* Plan of tiling"):
        tw.solve(problem, lambda _problem: "nonsense")
    with pytest.raises(tw.InputError, match=r"status = 'great': .* optimal"):
        tw.solve(problem, lambda _problem: tw.Outcome("great", plan))  # type: ignore[arg-type]
    with pytest.raises(tw.InputError, match=r"bound of .* = 1\.5: .* integer"):
        tw.solve(problem, lambda _problem: tw.Outcome("feasible", plan, 1.5))  # type: ignore[arg-type]
    assert tw.solve(problem, lambda _problem: None).status == "unknown"


def test_a_function_may_run_out_of_time() -> None:
    """What its context has been told by then counts; the error is one of ours."""
    problem = parse({"room": "tiling", **SMALL}).problem
    plan = tw.solve(problem, "greedy").plan

    def late(_problem: Any, context: tw.RunContext) -> Any:
        context.on_plan(plan)
        raise tw.OutOfTimeError

    assert tw.solve(problem, late).plan == plan
    with pytest.raises(tw.TilewrightError, match="the deadline has passed"):
        tw.simulate(problem, plan, deadline=0)


def test_names_are_listed() -> None:
    assert "alexnet-conv3-64k" in tw.instances() and "alexnet-conv3-64k" in tw.instances("tiling")
    assert "alexnet-conv3-64k" not in tw.instances("grouping")
    assert tw.methods("tiling")[0] == "auto"
    assert tw.methods(tw.read("s1-example2")) == tw.methods("grouping")
    with pytest.raises(tw.UnknownNameError, match="there are: grouping"):
        tw.methods("attic")


SCRIPT = """
import tilewright as tw

layer = tw.Layer(input=(3, 8, 8), kernels=4, kernel=(3, 3))
problem = tw.TilingProblem(layer=layer, machine=tw.DspMachine(kind="dsp", memory_bytes=1024))
result = tw.solve(problem.with_(machine={"memory_bytes": 2048}), time_limit=10)
reveal_type(layer.kernels)
reveal_type(problem.machine)
reveal_type(result)
reveal_type(result.objective)
reveal_type(tw.simulate(problem, result).valid)
tw.solve(problem, time_limit="long")
"""


@pytest.mark.slow
def test_a_users_script_sees_types(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    # Here, where what the linters know of the package need not be found out again.
    done = subprocess.run(
        [sys.executable, "-m", "mypy", str(tmp_path / "script.py")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    told = done.stdout
    assert 'type is "int"' in told
    assert "DspMachine" in told and "NpuMachine" in told
    assert 'type is "tilewright.run.result.Result"' in told
    assert 'type is "int | None"' in told or "Union[int, None]" in told or "Union[builtins.int, None]" in told
    assert "bool" in told
    assert 'Argument "time_limit" to "solve" has incompatible type "str"' in told


def test_former_places_still_work() -> None:
    """Files of users' own name them."""
    from tilewright import search
    from tilewright.core import context
    from tilewright.spec import errors

    assert search.Search is context.RunContext
    assert search.Outcome is context.Outcome
    assert search.OutOfTimeError is errors.OutOfTimeError
