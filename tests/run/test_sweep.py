"""Sweeps: their points, what stands for refused ones, and how they go on after an end."""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from conftest import Run

import tilewright as tw
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.run import sweep
from tilewright.run.batch.executors import Processes, Threads
from tilewright.run.batch.journal import Journal
from tilewright.run.batch.tasks import Answer, OnAnswer, Task, perform, perform_all
from tilewright.run.instance import digest
from tilewright.run.methods import Listener, run_method
from tilewright.run.solving import remembering
from tilewright.run.solving.shared_answers import SharedAnswers

EXAMPLE, SIZE = "s1-example2", "machine.group_size"
K = 1024


@pytest.mark.parametrize(
    ("listed", "values"),
    [
        ("8K,16K,...,64K", [8 * K, 16 * K, 32 * K, 64 * K]),
        ("8K,16K,24K,...,40K", [8 * K, 16 * K, 24 * K, 32 * K, 40 * K]),  # no factor gives 24K
        ("1,2,...,5", [1, 2, 3, 4, 5]),  # no factor leads to 5
        ("8,4,...,1", [8, 4, 2, 1]),
        ("10,8,...,2", [10, 8, 6, 4, 2]),
        ("0,5,...,15", [0, 5, 10, 15]),
        ("0.1,0.2,...,0.5", [0.1, 0.2, 0.3, 0.4, 0.5]),
        ("1.5K,2G", [1536, 2**31]),
        ("[1, 1],[2, 2]", [[1, 1], [2, 2]]),
        ("cycles,'a,b'", ["cycles", "a,b"]),
    ],
)
def test_values_are_read(listed: str, values: list[Any]) -> None:
    assert sweep.axis(f"a.b={listed}") == ("a.b", values)


@pytest.mark.parametrize(
    "listed", ["8K,...,1M", "1,2,...", "1,2,...,4,5", "3,5,...,10", "1,1,...,4", "a,b,...,c", "2,1,...,8"]
)
def test_lists_that_lead_nowhere_are_refused(listed: str) -> None:
    with pytest.raises(tw.InputError, match="--set a"):
        sweep.axis(f"a={listed}")


def test_points_are_all_combinations_each_as_solve_has_it() -> None:
    swept = tw.sweep(EXAMPLE, {SIZE: [2, 3], "layer.kernels": [1, 2]}, method="zigzag")
    chosen = [tuple(point.values.values()) for point in swept.points]
    assert chosen == [(2, 1), (2, 2), (3, 1), (3, 2)]
    for point in swept.points:
        alone = tw.solve(tw.read(EXAMPLE, values=point.values), "zigzag")
        assert point.result is not None
        assert (point.result.objective, point.result.plan) == (alone.objective, alone.plan)
        assert point.result.instance_sha256 == alone.instance_sha256
    built = tw.sweep(tw.read(EXAMPLE).problem, {SIZE: [2, 3], "layer.kernels": [1, 2]}, method="zigzag")
    answers = [(record["objective"], record["loads"]) for record in swept.records() if "loads" in record]
    assert answers == [(r["objective"], r["loads"]) for r in built.records() if "loads" in r]
    assert [p.result.instance_sha256 for p in built.points if p.result] == [
        p.result.instance_sha256 for p in swept.points if p.result
    ]


def test_a_plot_has_a_line_for_each_other_field(new_figures: list[Any]) -> None:
    swept = tw.sweep(EXAMPLE, {SIZE: [2, 3, 4], "layer.kernels": [1, 2]}, method="zigzag")
    labels = swept.plot().get_legend_handles_labels()[1]
    assert {"kernels 1", "kernels 2", "proven bound, where not optimal"} == set(labels)
    assert len(new_figures) == 1


def test_a_machine_that_is_too_small_stands_in_the_table(tilewright: Run, tmp_path: Path) -> None:
    done = tilewright(
        *("sweep", "alexnet-conv3-64k", "--set", "machine.memory_bytes=16,64K", "--with", "pruned"),
        *("--jobs", "1", "-o", "s.csv", "-o", "s.json", "--plot", "s.png"),
    )
    assert done.returncode == 0, done.stderr
    small, large = json.loads((tmp_path / "s.json").read_text())
    assert small["status"] == "refused" and small["reason"].startswith("machine.memory_bytes = 16: ")
    assert large["result"]["objective"] is not None
    lines = (tmp_path / "s.csv").read_text().splitlines()
    assert len(lines) == 3 and "76 bytes are needed" in lines[1] and lines[2].startswith("65536,")
    assert (tmp_path / "s.png").stat().st_size > 5000


@pytest.mark.nightly
def test_points_come_from_files(tilewright: Run, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(f"{SIZE},layer.kernels\n2,1\n3,2\n")
    (tmp_path / "p.json").write_text(
        json.dumps([{SIZE: 2, "layer.kernels": 1}, {SIZE: 3, "layer.kernels": 2}])
    )
    found = [
        json.loads(tilewright("sweep", EXAMPLE, "--points", name, "--with", "zigzag", "--json").stdout)
        for name in ("p.csv", "p.json")
    ]
    assert [[one["values"] for one in each] for each in found] == [
        [{SIZE: 2, "layer.kernels": 1}, {SIZE: 3, "layer.kernels": 2}]
    ] * 2
    (tmp_path / "bad.csv").write_text("a,b\n1\n")
    assert tilewright("sweep", EXAMPLE, "--points", "bad.csv").returncode == 2
    assert tilewright("sweep", EXAMPLE, "--set", "machine.nothing=1,2", "--jobs", "1").returncode == 2


def some_tasks(sizes: list[int]) -> list[Task]:
    base = tw.read(EXAMPLE)
    problems = [base.problem.with_(machine={"group_size": size}) for size in sizes]
    return [
        Task(replace(base, problem=p, sha256=digest("grouping", p), name=f"{n}"), "zigzag", 20.0)
        for n, p in enumerate(problems)
    ]


class Counting:
    """An executor that tells what it was given, and ends by Ctrl-C after some tasks."""

    def __init__(self, most: int = 100) -> None:
        self.given: list[str] = []
        self.most = most

    def run(self, tasks: Sequence[Task], stop: threading.Event, on_answer: OnAnswer) -> None:
        for number, task in enumerate(tasks):
            if number == self.most:
                raise KeyboardInterrupt
            self.given.append(task.instance.name)
            on_answer(number, perform(task))


def objectives(answers: list[Answer]) -> list[tuple[str, int | None] | None]:
    return [None if a.result is None else (a.result.instance, a.result.objective) for a in answers]


def test_equal_tasks_are_done_once_and_a_journal_goes_on(tmp_path: Path) -> None:
    todo = some_tasks([2, 3, 2, 4])
    whole = perform_all(todo, first := Counting())
    assert first.given == ["0", "1", "3"] and None not in objectives(whole)
    path = tmp_path / "journal"
    with Journal(path) as journal:
        cut = perform_all(todo, Counting(2), journal=journal)
        assert objectives(cut)[:3] == objectives(whole)[:3] and cut[3].result is None
        with pytest.raises(tw.InputError, match="another run"):
            Journal(path)
    with path.open("ab") as file:
        file.write(b'{"format": 1, "key": "cut o')  # as a machine does that loses its power
    with Journal(path) as journal:
        again = perform_all(todo, last := Counting(), journal=journal)
    assert last.given == ["3"] and objectives(again) == objectives(whole)
    with Journal(path) as journal:
        assert len(journal) == 3
    for text in ("no journal\n", "none\nat all", "neither"):
        path.write_text(text)
        with pytest.raises(tw.InputError, match="is no journal"):
            Journal(path)
        assert path.read_text() == text


def test_lines_of_a_journal_that_are_not_so_are_told_and_done_again(tmp_path: Path) -> None:
    """One is changed, one is changed and was never sealed, one is torn, and two are whole."""
    todo = some_tasks([2, 3, 4, 5, 6])
    path = tmp_path / "journal"
    with Journal(path) as journal:
        whole = perform_all(todo, Counting(), journal=journal)
    lines = path.read_bytes().splitlines(keepends=True)
    changed = json.loads(lines[1])
    objective = changed["result"]["objective"]
    del changed["sha256"]
    changed["result"] |= {"objective": 1, "bound": 1, "status": "optimal", "gap": 0.0, "trace": [[0.0, 1, 1]]}
    lines[0] = lines[0].replace(b'"seconds": ', b'"seconds": 1')
    lines[1] = json.dumps(changed).encode() + b"\n"
    lines[2] = lines[2][: len(lines[2]) // 2] + b"\n"
    older = json.loads(lines[3])
    del older["sha256"]
    lines[3] = json.dumps(older).encode() + b"\n"
    path.write_bytes(b"".join([*lines, b"\0\0\0\n", b'{"format": 1, "key": "cut o']))
    told: list[str] = []
    with Journal(path, told.append) as journal:
        assert len(journal) == 3
        again = perform_all(todo, last := Counting(), journal=journal)
    assert last.given == ["0", "1", "2"] and objectives(again) == objectives(whole)
    torn = [f"{path}, line {n} counts for nothing: it is not as it was written" for n in (1, 3, 6, 7)]
    assert told[:4] == torn
    (of_objective,) = told[4:]
    assert of_objective.startswith(f"{path}, line 2 counts for nothing: objective: ")
    assert of_objective.endswith(f"simulated {objective}, claimed 1")
    told.clear()
    with Journal(path, told.append) as journal:
        assert len(journal) == 5  # what was done again stands behind, and counts
        perform_all(todo, none := Counting(), journal=journal)
    assert none.given == [] and told == [torn[0], torn[1], torn[2]]


def test_conditions_are_part_of_the_key() -> None:
    [task] = some_tasks([2])
    others = [replace(task, seed=1), replace(task, threads=2), replace(task, time_limit=5.0)]
    assert len({task.key, *(other.key for other in others), replace(task, method="strips").key}) == 5


def test_processes_answer_as_this_one_and_one_that_is_killed_costs_nothing() -> None:
    todo = some_tasks([2, 3, 4, 5, 6, 7])
    killed: list[int] = []

    def kill(_number: int, _answer: Answer) -> None:
        # Other processes may just have ended.
        children = [(p, p.as_dict(["cmdline"], ad_value=[])["cmdline"]) for p in psutil.Process().children()]
        runners = [p for p, command in children if "tilewright.run.batch.runner" in command]
        if not killed and runners:
            os.kill(runners[0].pid, signal.SIGKILL)
            killed.append(runners[0].pid)

    answers = perform_all(todo, Processes(2), on_answer=kill)
    assert killed and objectives(answers) == objectives(perform_all(todo, Threads()))


def test_a_layer_that_has_been_proven_is_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Problems that differ in one layer have the other one searched once, with the same answers as alone."""
    first = {"name": "first", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3]}
    second = {"name": "second", "input": [3, 4, 4], "kernel": [1, 1]}
    machine = {"kind": "dsp", "memory_bytes": 600}
    searched: list[Any] = []
    exhaustive = importlib.import_module("tilewright.models.tiling.exhaustive")
    search = exhaustive.solve

    def noted(part: Any, context: Any) -> Any:
        searched.append(part)
        return search(part, context)

    monkeypatch.setattr(exhaustive, "solve", noted)
    monkeypatch.setattr(remembering, "_known", OrderedDict())
    listener = Listener(lambda _versions: None)
    for number, kernels in enumerate((4, 5, 6, 4)):
        layers = [first, second | {"kernels": kernels}]
        problem = tw.TilingProblem.model_validate({"network": {"layers": layers}, "machine": machine})
        answers = []
        for remember in (True, False):
            plans: list[Any] = []
            bounds: list[int] = []
            context = RunContext(
                remember=remember, on_plan=plans.append, on_bound=lambda b, *_, to=bounds: to.append(b)
            )
            searched.clear()
            outcome = run_method("exhaustive", problem, context, listener)
            assert len(searched) == ((2, 1, 1, 0)[number] if remember else 2)
            answers.append((outcome.status, plans[-1], max(bounds, default=None)))
        assert answers[0] == answers[1] and answers[0][0] == "optimal"
    points = [{"network.layers.second.kernels": 4}, {"network.layers.second.kernels": 5}]
    remembering._known.clear()
    assert [p.status for p in tw.sweep(problem, points=points, method="exhaustive").points] == ["optimal"] * 2
    assert remembering._known


LAYERS = [
    {"name": "first", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3]},
    {"name": "second", "input": [3, 4, 4], "kernel": [1, 1], "kernels": 4},
    {"name": "third", "input": [4, 4, 4], "kernel": [3, 3], "kernels": 2},
]
SEVERAL = tw.TilingProblem.model_validate(
    {"network": {"layers": LAYERS}, "machine": {"kind": "dsp", "memory_bytes": 600}}
)


def searched(path: Path) -> list[str]:
    """Return the keys of the layers that processes have searched to the optimum, each line a search."""
    answers = [json.loads(line) for line in path.read_text().splitlines()]
    return [answer["key"] for answer in answers if answer["seconds"] is None]


def test_processes_search_equal_layers_once(tmp_path: Path) -> None:
    """Two processes solve four problems, in opposite orders; all have two layers in common."""
    parts = tmp_path / "parts"
    code = f"""
import sys
import tilewright as tw
from tilewright.core.context import RunContext
from tilewright.run.methods import Listener, run_method

problem = tw.TilingProblem.model_validate_json({SEVERAL.model_dump_json()!r})
listener = Listener(lambda _versions: None)
print("ready", flush=True)
sys.stdin.readline()
for kernels in [4, 5, 6, 7][:: int(sys.argv[1])]:
    layers = [layer.model_dump() for layer in problem.network.layers]
    layers[1]["kernels"] = kernels
    other, context = problem.with_(network={{"layers": layers}}), RunContext(remember={str(parts)!r})
    outcome = run_method("exhaustive", other, context, listener)
    assert outcome.status == "optimal"
"""
    both = [
        subprocess.Popen([sys.executable, "-c", code, step], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for step in ("1", "-1")
    ]
    for process in both:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    for process in both:
        process.communicate(b"go\n")
        assert process.returncode == 0
    assert len(set(searched(parts))) == len(searched(parts)) == 2 + 4


def test_a_later_sweep_has_the_layers_of_one_before(tmp_path: Path) -> None:
    axes = {"network.layers.second.kernels": [4, 5]}
    journal, parts = tmp_path / "journal", tmp_path / "journal.parts"
    answers = []
    for _ in range(2):
        swept = tw.sweep(SEVERAL, axes, method="exhaustive", jobs=2, journal=journal)
        answers.append([(p.status, p.record()["objective"]) for p in swept.points])
        assert answers[0] == answers[-1] and {status for status, _ in answers[0]} == {"optimal"}
        assert len(set(searched(parts))) == len(searched(parts))
        journal.unlink()


def test_a_damaged_file_of_layers_is_no_harm(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    listener = Listener(lambda _versions: None)

    def objective() -> int:
        plans: list[Any] = []
        remembering._known.clear()
        context = RunContext(remember=str(parts), on_plan=plans.append)
        assert run_method("exhaustive", SEVERAL, context, listener).status == "optimal"
        return catalogue.room("tiling").objective(SEVERAL, plans[-1])

    right = objective()
    lines = parts.read_text().splitlines()
    assert len(searched(parts)) == 3
    lie = json.loads(lines[0])
    lie["objective"] = lie["bound"] = lie["objective"] - 1
    parts.write_text("\n".join([json.dumps(lie), "[1]", "{}", lines[1], lines[2][:-9]]))
    assert objective() == right
    assert len(parts.read_text().splitlines()) == 5 + 2  # what was lost has been searched again
    parts.unlink()
    parts.mkdir()  # nothing can be kept there
    assert objective() == right


def test_what_is_not_proven_serves_those_with_as_little_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A layer that was given up is not tried again but with more time, or another seed."""
    searched: list[Any] = []
    exhaustive = importlib.import_module("tilewright.models.tiling.exhaustive")
    search = exhaustive.solve

    def gives_up(part: Any, context: Any) -> Any:
        searched.append(part)
        outcome = search(part, context)
        return replace(outcome, status="feasible", bound=1) if part.layer.kernel == (1, 1) else outcome

    monkeypatch.setattr(exhaustive, "solve", gives_up)
    monkeypatch.setattr(remembering, "_known", OrderedDict())
    listener = Listener(lambda _versions: None)

    def run(seconds: float, seed: int = 0) -> tuple[int, str, int]:
        plans: list[Any] = []
        searched.clear()
        deadline = time.monotonic() + seconds
        context = RunContext(remember=True, seed=seed, deadline=deadline, on_plan=plans.append)
        outcome = run_method("exhaustive", SEVERAL, context, listener)
        return len(searched), outcome.status, catalogue.room("tiling").objective(SEVERAL, plans[-1])

    first = run(20.0)
    assert first[:2] == (3, "feasible")
    assert run(20.0) == (0, *first[1:]) == run(10.0)
    assert run(40.0) == (1, *first[1:])
    assert run(20.0, seed=1) == first


def test_a_claim_ends_with_its_process(tmp_path: Path) -> None:
    path, key = tmp_path / "answers", "0123456789abcdef"
    code = (
        "import sys, time\nfrom tilewright.run.solving.shared_answers import SharedAnswers\n"
        f"with SharedAnswers({str(path)!r}).claimed({key!r}, time.monotonic() + 60):\n"
        "    print('claimed', flush=True)\n    time.sleep(60)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert child.stdout is not None and child.stdout.readline() == b"claimed\n"
    answers = SharedAnswers(path)
    began = time.monotonic()
    with answers.claimed("f" + key, began + 60) as free, answers.claimed(key, began + 0.1) as also:
        assert free and not also and 0.1 <= time.monotonic() - began < 30
    child.kill()
    child.wait()
    with answers.claimed(key, time.monotonic() + 60):
        answers.append(key, {"answer": 1})
    with path.open("ab") as file:
        file.write(b'{"format": 1, "key": "cut o')
    other = SharedAnswers(path)
    assert other.get(key) == {"format": 1, "key": key, "answer": 1} and other.get("else") is None
    other.append("else", {"answer": 2})
    answers.append(key, {"answer": 3})
    assert answers.get("else") == {"format": 1, "key": "else", "answer": 2}
    assert other.get(key) == {"format": 1, "key": key, "answer": 3}
    path.unlink()
    assert other.get(key) is None
