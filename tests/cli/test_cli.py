"""The command line as a user and a program meet it: contracts, exit statuses, interruptions."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from conftest import nightly, processor_time, tells, thinned

from tilewright.cli.solve import _Progress
from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT
from tilewright.run.methods import PartInHand
from tilewright.run.solving import second_route
from tilewright.run.workers import compiling

ROOT = Path(__file__).parents[2]
EXAMPLE = "s1-example2"
SLOW = """
room = "grouping"
[layer]
input = [1, 14, 14]
kernels = 1
kernel = [3, 3]
[machine]
group_size = 3
"""


def children(group: int) -> dict[str, float]:
    """Processes in whose environment a marker of this test stands, and their seconds of the processor."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                environment = (entry / "environ").read_bytes()
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if f"TILEWRIGHT_TEST={group}".encode() in environment.split(b"\0"):
                ticks = int(after_name[11]) + int(after_name[12])
                found[f"{entry.name} {command}"] = ticks / os.sysconf("SC_CLK_TCK")
    return found


def start(folder: Path, *arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start the command in the background, its process tree marked."""
    marker = time.monotonic_ns()
    process = subprocess.Popen(
        [sys.executable, "-m", "tilewright", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TILEWRIGHT_TEST": str(marker)},
    )
    return process, marker


def work(process: subprocess.Popen[str], marker: int, seconds: float) -> None:
    """Wait until the marked processes have had the processor for some seconds, and are at work still."""
    while process.poll() is None and sum(children(marker).values()) < seconds:
        time.sleep(0.1)
    assert process.poll() is None


def gone(marker: int) -> bool:
    """Wait for the marked processes to end."""
    for _ in range(300):
        if not children(marker):
            return True
        time.sleep(0.1)
    return False


def test_solve_prints_a_table_and_writes_a_result_that_checks(tilewright_process):
    solved = tilewright_process("solve", EXAMPLE, "--with", "exact", "-o", "r.json", "--time-limit", "120")
    assert solved.returncode == 0, solved.stderr
    assert "objective" in solved.stdout and "bound" in solved.stdout
    checked = tilewright_process("check", EXAMPLE, "r.json")
    assert checked.returncode == 0, checked.stdout
    assert "equal to the reference" in checked.stdout


def test_json_prints_the_result_and_nothing_else(tilewright_process):
    solved = tilewright_process("solve", EXAMPLE, "--with", "zigzag", "--json")
    result = json.loads(solved.stdout)
    assert result["format"] == 2
    assert {
        "room",
        "instance",
        "instance_sha256",
        "method",
        "status",
        "objective",
        "bound",
        "gap",
        "seconds",
        "seed",
        "warm_start",
        "plan",
        "report",
        "trace",
        "versions",
    } <= set(result)
    assert result["plan"]["groups"][1] == [[0, 2], [1, 2]]
    assert solved.stderr == ""


def test_simulate_shows_the_papers_second_step(tilewright):
    tilewright("solve", EXAMPLE, "--with", "row_by_row", "-o", "r.json")
    simulated = tilewright("simulate", EXAMPLE, "r.json", "--numeric", "--json")
    report = json.loads(simulated.stdout)
    assert report["numeric"] is True
    second = report["per_step"][1]
    assert second["footprint"]["input"] == 32
    assert second["loaded"] == {"input": 12}
    assert second["written"] == {"output": 4}


def test_simulate_prints_steps_and_totals(tilewright):
    tilewright("solve", EXAMPLE, "--with", "zigzag", "-o", "r.json")
    simulated = tilewright("simulate", EXAMPLE, "r.json", "--numeric")
    assert simulated.returncode == 0
    assert "equal to the reference, bit for bit" in simulated.stdout
    assert "overlapped" in simulated.stdout


@pytest.mark.by_day(1)
@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "gif"])
def test_plots_are_written(tilewright, tmp_path, suffix):
    solved = tilewright("solve", EXAMPLE, "--with", "zigzag", "--plot", f"p.{suffix}")
    assert solved.returncode == 0, solved.stderr
    assert (tmp_path / f"p.{suffix}").stat().st_size > 1000


def test_tables_are_written_beside_results(tilewright, tmp_path):
    """A line for each layer, numbers as they are; the same measures as in the result."""
    done = tilewright("solve", "lenet5-idsp", "--with", "exhaustive", "-o", "r.json", "-o", "layers.csv")
    assert done.stdout.endswith("written: r.json\nwritten: layers.csv\n")
    layers = json.loads((tmp_path / "r.json").read_text())["report"]["measures"]["layers"]
    with (tmp_path / "layers.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [line["layer"] for line in lines] == list(layers)
    for line, layer in zip(lines, layers.values(), strict=True):
        for column in ("duration_cycles", "accesses_elements", "energy_fj", "macs"):
            assert int(line[column]) == layer[column]
        assert int(line["loaded_elements.input"]) == layer["loaded_elements"]["input"]
        assert line["schedule"] == layer["schedule"]
    twice = tilewright("solve", EXAMPLE, "-o", "a.csv", "-o", "./a.csv")
    assert (twice.returncode, "is given twice" in twice.stderr) == (2, True)


def test_a_table_of_nothing_is_not_written(tilewright, tmp_path):
    (tmp_path / "none.toml").write_text(
        'room = "tiling"\n[layer]\nkind = "fc"\ninputs = 4000\noutputs = 1\n[limits]\nschedule = "intra"\n'
        '[machine]\nkind = "dsp"\nmemory_bytes = 1500\n'
    )
    done = tilewright("solve", "none.toml", "-o", "a.csv")
    assert (done.returncode, "not written: a.csv" in done.stdout) == (1, True)
    assert not (tmp_path / "a.csv").exists()


def test_a_comparison_as_a_table(tilewright, tmp_path):
    done = tilewright("compare", EXAMPLE, "--with", "row_by_row,zigzag", "-o", "a.csv", "-o", "a.json")
    assert done.returncode == 0
    results = json.loads((tmp_path / "a.json").read_text())
    with (tmp_path / "a.csv").open() as file:
        lines = list(csv.DictReader(file))
    assert [(line["method"], int(line["objective"])) for line in lines] == [
        (result["method"], result["objective"]) for result in results
    ]
    assert lines[0]["error"] == ""


def test_compare_prints_a_row_per_run(tilewright, tmp_path):
    compared = tilewright(
        "compare", EXAMPLE, "--with", "row_by_row,zigzag", "-o", "all.json", "--plot", "all.png"
    )
    assert compared.returncode == 0, compared.stderr
    assert compared.stdout.count(EXAMPLE) == 2
    assert "geometric mean" in compared.stdout
    assert len(json.loads((tmp_path / "all.json").read_text())) == 2
    assert (tmp_path / "all.png").exists()


@pytest.mark.nightly
def test_lists(tilewright):
    listed = tilewright("list")
    for expected in ("grouping", "zigzag", "s1", "highs", "gecode", "lenet5-conv1-g4"):
        assert expected in listed.stdout
    assert EXAMPLE in [
        row["instance"] for row in json.loads(tilewright("list", "instances", "--json").stdout)
    ]


@pytest.mark.nightly
def test_layers_that_take_their_time_are_told(tilewright, monkeypatch):
    """A line for each layer that a worker has ended, in any order; none beside JSON."""
    monkeypatch.setattr("tilewright.run.solving.run.QUICK_SECONDS", 0.0)
    done = tilewright("solve", "lenet5-idsp", "--with", "exhaustive")
    lines = [line for line in done.stderr.splitlines() if line.startswith("layer ")]
    many = len(lines)
    assert many > 1
    told = sorted(line.split(",")[0] for line in lines)
    assert told == [f"layer {n} of {many}" for n in range(1, many + 1)]
    assert all(", gap 0.00 %" in line for line in lines)
    assert "layer " not in tilewright("solve", "lenet5-idsp", "--with", "exhaustive", "--json").stderr


def test_a_terminal_has_one_line_of_progress():
    shown = []
    progress = _Progress(60.0, "cycles", enabled=True)
    progress.terminal = True
    progress.show(3.4, 200, None)
    shown.append(progress.__rich__())
    progress.part(PartInHand(7, 18, "conv7", False, None, 5))
    progress.show(72.9, 200, 100)
    shown.append(progress.__rich__())
    assert shown == [
        "00:03 of 01:00, best 200 cycles, bound -, gap -",
        "layer 7 of 18, 01:12 of 01:00, best 200 cycles, bound 100 cycles, gap 50.00 %",
    ]


def test_machines_and_networks_are_listed(tilewright):
    listed = {row["machine"]: row for row in json.loads(tilewright("list", "machines", "--json").stdout)}
    assert set(listed) == {path.stem for path in catalogue.instances("machines")}
    eyeriss, nmp, tcpa = listed["eyeriss"], listed["nmp"], listed["tcpa"]
    assert (eyeriss["kind"], eyeriss["pes"], eyeriss["macs_per_cycle"]) == ("hierarchy", 168, 168)
    assert eyeriss["memories_bytes"]["buffer"] == 110_592 and "buffer 108 KiB" in eyeriss["memories"]
    assert (nmp["pes"], nmp["macs_per_cycle"], nmp["clock_mhz"]) == (32, 1024, 159.642)
    assert ("allocation" in tcpa["rooms"], tcpa["pes"], tcpa["macs_per_cycle"]) == (True, 16, 32)
    assert listed["idsp"]["memories_bytes"] == {"memory": 131_072}
    assert listed["dnnvm-zu2"]["macs_per_cycle"] == 576
    networks = {row["network"]: row for row in json.loads(tilewright("list", "networks", "--json").stdout)}
    assert set(networks) == {path.stem for path in catalogue.instances("networks")}
    assert networks["alexnet"]["convolutions"] == 8 and networks["alexnet"]["macs"] > 10**8
    shown = tilewright("list", "machines").stdout
    assert "eyeriss" in shown and "memories_bytes" not in shown


def test_doctor_names_every_solver(tilewright):
    said = tilewright("doctor").stdout
    assert "highs" in said and "gecode" in said


def test_reproduce_lists_figures(tilewright):
    assert "s1-grid" in tilewright("reproduce").stdout
    refused = tilewright("reproduce", "s2")
    assert refused.returncode == 2
    assert "s1-grid" in refused.stderr


# Bad input -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("solve", "nowhere.toml"), "nowhere.toml"),
        (("solve", "no-such-instance"), "list instances"),
        (("solve", EXAMPLE, "--with", "zickzack"), "zigzag"),
        (("solve", EXAMPLE, "--with", "s1@cplex"), "highs"),
        (("solve", EXAMPLE, "--with", "s7@highs"), "s1"),
        (("solve", EXAMPLE, "--time-limit", "0"), "0"),
        (("solve", EXAMPLE, "--time-limit", "nan"), "nan"),
        (("solve", EXAMPLE, "--warm-start", "nothing.json"), "nothing.json"),
        (("solve", EXAMPLE, "--with", "zigzag", "--warm-start", "strips"), "takes no start"),
        (("solve", EXAMPLE, "-o", "/dev/null"), "no regular file"),
        (("solve", EXAMPLE, "-o", "same.png", "--plot", "same.png"), "same.png"),
        (("solve", EXAMPLE, "-o", "no/such/folder/r.json"), "no/such/folder"),
        (("solve", EXAMPLE, "--plot", "p.bmp"), "bmp"),
        (("check", EXAMPLE, "no.json"), "no.json"),
        (("solve",), "INSTANCE"),
        (("frobnicate",), "frobnicate"),
    ],
)
def test_bad_usage_is_refused_at_once(tilewright, arguments, expected):
    with processor_time(15):
        refused = tilewright(*arguments)
    assert refused.returncode == 2
    assert expected in refused.stderr
    assert "Traceback" not in refused.stderr


def test_bad_field_names_file_field_value_and_limit(tilewright, tmp_path):
    (tmp_path / "bad.toml").write_text(SLOW.replace("group_size = 3", "group_size = -3"))
    refused = tilewright("solve", "bad.toml")
    assert refused.returncode == 2
    assert tells(refused.stderr, "bad.toml: machine.group_size = -3 .. 1")


def test_too_little_memory_names_what_is_needed(tilewright, tmp_path):
    (tmp_path / "bad.toml").write_text(SLOW.replace("group_size = 3", "group_size = 3\nmemory = 18"))
    refused = tilewright("solve", "bad.toml")
    assert refused.returncode == 2
    assert "19 elements" in refused.stderr  # 9 pixels, 9 kernel elements, 1 output.


@pytest.mark.by_day(6)
@pytest.mark.parametrize("method", ["auto", "s1@highs", "ordered@gecode", "gaps@cpsat"])
def test_infeasible_is_proven_checked_and_exits_1(tilewright, tmp_path, method):
    # Six patches one by one, no pixel loaded twice: whatever the walk, it leaves a pixel and returns to it.
    text = SLOW.replace("14, 14", "4, 5").replace("group_size = 3", "group_size = 1")
    (tmp_path / "one.toml").write_text(text + "[limits]\nreloads = 1\n")
    solved = tilewright("solve", "one.toml", "--with", method, "-o", "r.json", "--time-limit", "300")
    assert solved.returncode == 1, solved.stdout
    assert "infeasible" in solved.stdout
    checked = tilewright("check", "one.toml", "r.json")
    assert checked.returncode == 0, checked.stdout
    assert "infeasible" in checked.stdout


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["auto", "lives@highs", "ordered@gecode", "gaps@cpsat"])
def test_infeasible_without_a_bound_that_says_so_is_confirmed_by_a_second_method(
    tilewright, tmp_path, method, monkeypatch
):
    monkeypatch.setattr(second_route, "INFEASIBLE_SECONDS", 60.0)  # on a busy machine, too
    # Nine patches in pairs, no pixel loaded twice: the room's own bounds leave that open.
    text = SLOW.replace("14, 14", "5, 5").replace("group_size = 3", "group_size = 2")
    (tmp_path / "pairs.toml").write_text(text + "[limits]\nreloads = 1\n")
    solved = tilewright("solve", "pairs.toml", "--with", method, "-o", "r.json", "--time-limit", "300")
    assert solved.returncode == 1, solved.stdout
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["status"] == "infeasible"
    assert result["confirmed_by"] in ("exact", "lives@highs") and result["confirmed_by"] != method
    checked = tilewright("check", "pairs.toml", "r.json", "--time-limit", "300")
    assert checked.returncode == 0, checked.stdout
    assert "confirmed: " in checked.stdout


def test_a_result_of_another_instance_is_refused(tilewright):
    tilewright("solve", EXAMPLE, "--with", "zigzag", "-o", "r.json")
    checked = tilewright("check", "lenet5-conv1-g4", "r.json")
    assert checked.returncode == 1
    assert "WRONG" in checked.stdout
    assert tilewright("simulate", "lenet5-conv1-g4", "r.json").returncode == 2
    assert tilewright("solve", "lenet5-conv1-g4", "--warm-start", "r.json").returncode == 2


@pytest.mark.parametrize(
    "change", ["missing", "doubled", "outside", "objective", "bound", "optimal", "report"]
)
def test_a_tampered_result_does_not_pass(tilewright, solved, tmp_path, change):
    result = solved(EXAMPLE, "--with", "zigzag")
    path = tmp_path / "r.json"
    groups = result["plan"]["groups"]
    if change == "missing":
        groups[0].pop()
    elif change == "doubled":
        groups[0][1] = groups[0][0]
    elif change == "outside":
        groups[0][0] = [7, 7]
    elif change == "objective":
        result["objective"] -= 1
    elif change == "bound":
        result["bound"] = result["objective"] - 1
        result["gap"] = 1 / result["objective"]
        result["bound_by"] = "somebody"
    elif change == "optimal":
        result["status"], result["bound"], result["gap"] = "optimal", result["objective"], 0.0
    else:
        result["report"]["measures"]["peak_elements"] += 1
    path.write_text(json.dumps(result))
    checked = tilewright("check", EXAMPLE, "r.json", "--time-limit", "120")
    assert checked.returncode == 1, checked.stdout
    assert "WRONG" in checked.stdout


def test_what_cannot_be_verified_in_time_has_an_exit_status_of_its_own(tilewright, solved):
    solved(EXAMPLE, "--with", "zigzag")
    late = tilewright("check", EXAMPLE, "result.json", "--time-limit", "1e-6")
    assert late.returncode == 5, late.stdout
    assert "NOT VERIFIED" in late.stdout and "WRONG" not in late.stdout
    told = tilewright("check", EXAMPLE, "result.json", "--time-limit", "1e-6", "--json")
    assert told.returncode == 5
    plan = next(found for found in json.loads(told.stdout) if found["what"] == "plan")
    assert (plan["state"], plan["holds"]) == ("not verified", False)
    assert "5 if nothing is wrong" in " ".join(tilewright("check", "--help").stdout.split())


def test_check_names_the_authors_word(tilewright, solved):
    solved(EXAMPLE, "--with", "zigzag")
    checked = tilewright("check", EXAMPLE, "result.json")
    assert checked.returncode == 0, checked.stdout
    told = [line.split(None, 2) for line in checked.stdout.splitlines() if line.startswith("told")]
    assert [words[1] for words in told] == ["method", "author's"]
    assert "seconds, seed, warm_start" in told[-1][2]


def test_files_far_larger_than_their_instance_needs_are_refused(tilewright, solved, tmp_path):
    result = solved(EXAMPLE, "--with", "zigzag")
    result["plan"]["groups"][0] = [[0, 0]] * 1_000_000
    (tmp_path / "r.json").write_text(json.dumps(result))
    for command in (["check"], ["simulate"], ["emit"], ["solve", "--warm-start"]):
        arguments = [command[0], EXAMPLE, *command[1:], "r.json"]
        refused = tilewright(*arguments)
        assert refused.returncode == 2 and "file size" in refused.stderr, arguments


def test_a_false_claim_of_infeasibility_is_caught(tilewright, tmp_path, monkeypatch):
    folder = tmp_path / "models" / "tiling"
    folder.mkdir(parents=True)
    (folder / "liar.py").write_text(
        "from tilewright.core.context import Outcome\n\nIN_PROCESS = True\n\n\n"
        'def solve(problem, search):\n    return Outcome("infeasible")\n'
    )
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    caught = tilewright("solve", "alexnet-conv3-64k", "--with", "liar")
    assert caught.returncode == 4, caught.stdout
    assert tells(caught.stderr, "liar .. infeasible .. exhaustive .. plan")


# Interruptions -------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=nightly)])
def test_interrupted_solve_saves_the_best_plan(tmp_path, signum):
    (tmp_path / "slow.toml").write_text(SLOW)
    # Before all is compiled there is no plan that could be saved.
    compiling.ensure(compiling.units("grouping", [CONSTRUCT, "lns", "exact"]))
    process, marker = start(tmp_path, "solve", "slow.toml", "-o", "r.json", "--time-limit", "600")
    work(process, marker, seconds=4)
    process.send_signal(signum)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "interrupted" in out
    result = json.loads((tmp_path / "r.json").read_text())
    assert result["status"] == "feasible" and result["interrupted"] is True
    assert gone(marker)


@pytest.mark.by_day(3)
@pytest.mark.slow
@pytest.mark.parametrize("signum", thinned([signal.SIGINT, signal.SIGTERM, signal.SIGKILL], 2))
@pytest.mark.parametrize(
    ("method", "solver"),
    [
        ("lns", "worker"),
        ("lives@highs", "worker"),
        ("ordered@gecode", "fzn-gecode"),
        ("gaps@cpsat", "worker"),
    ],
)
def test_no_process_outlives_the_command(tmp_path, method, solver, signum):
    (tmp_path / "slow.toml").write_text(
        SLOW.replace("14, 14", "9, 9").replace("group_size = 3", "group_size = 2")
    )
    (tmp_path / "r.json").write_text("precious")
    arguments = ["--with", method, "--warm-start", "strips", "-o", "r.json", "--time-limit", "600"]
    process, marker = start(tmp_path, "solve", "slow.toml", *arguments)
    for _ in range(600):
        if any(solver in command for command in children(marker)):
            break
        time.sleep(0.1)
    else:
        pytest.fail(f"{solver} never ran: {children(marker)}")
    time.sleep(0.3)
    process.send_signal(signum)
    process.communicate(timeout=60)
    assert gone(marker), children(marker)
    if signum == signal.SIGKILL:
        assert (tmp_path / "r.json").read_text() == "precious"


@pytest.mark.by_day(3)
@pytest.mark.slow
@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGKILL])
def test_no_process_that_waits_for_its_turn_outlives_the_command(tmp_path, signum):
    (tmp_path / "slow.toml").write_text(SLOW.replace("14, 14", "12, 12"))
    arguments = ["--threads", "1", "--warm-start", "strips", "--time-limit", "600"]
    process, marker = start(tmp_path, "solve", "slow.toml", *arguments)
    for _ in range(6000):
        if any(psutil.Process(int(child.split()[0])).status() == "stopped" for child in children(marker)):
            break
        time.sleep(0.01)
    else:
        process.kill()
        pytest.fail(f"none is suspended: {children(marker)}")
    process.send_signal(signum)
    process.communicate(timeout=60)
    assert gone(marker), children(marker)


def test_the_time_limit_covers_everything(tilewright_process, tmp_path):
    (tmp_path / "slow.toml").write_text(SLOW)
    for seconds in (2.0, 20.0):  # the second where a busy machine finds no plan in the first
        began = time.monotonic()
        solved = tilewright_process("solve", "slow.toml", "--time-limit", str(seconds))
        # A second, and what a busy machine adds to it; without a limit it would take hours.
        assert time.monotonic() - began < seconds + 10
        if solved.returncode == 0:
            break
    assert solved.returncode == 0


# The user's own files -----------------------------------------------------------------------------


@pytest.mark.slow
def test_formulations_and_broken_heuristics_of_the_users_own(tilewright, tmp_path, monkeypatch):
    models, heuristics = tmp_path / "models" / "grouping", tmp_path / "heuristics" / "grouping"
    models.mkdir(parents=True)
    heuristics.mkdir(parents=True)
    (models / "mine.mzn").write_text(
        'include "core.mzn";\nsolve :: int_search(step, first_fail, indomain_min) minimize objective;\n'
    )
    (heuristics / "broken.py").write_text("def plan(problem:\n")
    (heuristics / "raises.py").write_text("def plan(problem):\n    raise ValueError('not yet')\n")
    (heuristics / "garbage.py").write_text("def plan(problem):\n    return 7\n")
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path))
    solved = tilewright("solve", EXAMPLE, "--with", "mine@gecode", "--json", "--time-limit", "300")
    assert json.loads(solved.stdout)["objective"] == 57, solved.stderr
    assert "cannot be read" in tilewright("list", "heuristics").stdout
    (models / "wrong.mzn").write_text('include "core.mzn";\nconstraint x = ;\nsolve minimize objective;\n')
    garbage = f"returns no Plan of grouping but int ({heuristics / 'garbage.py'})"
    for name, said in (
        ("broken", "SyntaxError"),
        ("raises", "not yet"),
        ("garbage", garbage),
        ("wrong@gecode", f"({models / 'wrong.mzn'}, line 2)"),
    ):
        refused = tilewright("solve", EXAMPLE, "--with", name)
        assert refused.returncode == 2 and said in refused.stderr, refused.stderr
        assert "Traceback" not in refused.stderr
    solved = tilewright("solve", EXAMPLE, "--time-limit", "120", "--json")
    result = json.loads(solved.stdout)
    assert result["objective"] == 57
    assert len(result["failures"]) >= 3


@pytest.mark.nightly
def test_a_missing_solver_says_how_to_get_it(tmp_path):
    """Without MiniZinc on the path its methods exit with 3, and everything else works."""
    environment = {**os.environ, "PATH": "/nonexistent"}
    for command in thinned((["solve", EXAMPLE], ["compare", EXAMPLE]), 2):
        missing = subprocess.run(
            [sys.executable, "-m", "tilewright", *command, "--with", "ordered@gecode"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert missing.returncode == 3, missing.stderr
    command = [sys.executable, "-m", "tilewright", "doctor"]
    listed = subprocess.run(
        command,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert "apt-get install" in listed.stdout and listed.stderr == ""


def test_little_is_imported_before_ctrl_c_is_handled():
    code = "import sys, tilewright.cli; print(*sys.modules)"
    answer = subprocess.run(
        [sys.executable, "-S", "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "bindings")},
    )
    assert not {"typing", "re", "contextlib", "click"} & set(answer.stdout.split())
