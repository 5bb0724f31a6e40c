"""Kernels are compiled once, before any clock starts, and what goes wrong with it takes no solve down."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import THOROUGH, Run, nightly

import tilewright as tw
from tilewright.cli.outputs import StatusLine
from tilewright.core import jit, kernel_cache
from tilewright.run.workers import compiling

EXAMPLE = "s1-example2"

ROUNDS = 10**9
"""Rounds of a loop that take a minute as Python and no time compiled."""

HEURISTIC = """
import os, time
from tilewright.core.jit import kernel
from tilewright.heuristics.grouping import zigzag

@kernel()
def three():
    total = 0
    for number in range({rounds}):
        total += number
    return 3 if total >= 0 else 0

def plan(problem):
    assert three() == 3
    return zigzag.plan(problem)

def compile_kernels(bundled):
    assert bundled("s1-example2").n_patches
    with open(os.environ["COUNTED"], "a") as file:
        file.write("compiled\\n")
    {before}
    assert three() == 3
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of a heuristic with a kernel, nothing of which is compiled yet."""
    folder = tmp_path / "mine/heuristics/grouping"
    folder.mkdir(parents=True)
    path = folder / "with_a_kernel.py"
    path.write_text(heuristic())
    monkeypatch.setenv("TILEWRIGHT_PATH", str(tmp_path / "mine"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "kernels"))
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted"))
    monkeypatch.setattr(compiling, "_given_up", set())
    # What another test has imported lies in another folder.
    monkeypatch.delitem(sys.modules, "tilewright.heuristics.grouping.with_a_kernel", raising=False)
    return path


def heuristic(before: str = "pass", rounds: int = ROUNDS) -> str:
    """Return the text of a heuristic.

    Parameters
    ----------
    before
        A statement that runs before its kernel is compiled.
    rounds
        Of the loop in its kernel.
    """
    return HEURISTIC.replace("{before}", before).replace("{rounds}", str(rounds))


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tilewright", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def times(tmp_path: Path) -> int:
    path = tmp_path / "counted"
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_kernels_are_compiled_once_and_again_if_a_source_changes(mine: Path, tmp_path: Path) -> None:
    told: list[str] = []
    assert tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append).plan is not None
    assert times(tmp_path) == 1 and len(told) == 1 and "with_a_kernel" in told[0]
    tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append)
    assert times(tmp_path) == 1 and len(told) == 1
    tw.compare([EXAMPLE], ["with_a_kernel", "zigzag"], on_compile=told.append)
    before = times(tmp_path)
    assert before <= 2 and len(told) == 1  # it loads what is compiled, before its clock runs
    mine.write_text(mine.read_text() + "# changed\n")
    tw.solve(EXAMPLE, "with_a_kernel")
    assert times(tmp_path) == before + 1
    for compiled in (tmp_path / "kernels").rglob("*.nbc"):
        compiled.unlink()
    tw.solve(EXAMPLE, "with_a_kernel")
    assert times(tmp_path) == before + 2


@pytest.mark.nightly
def test_compiling_takes_nothing_of_the_time_limit(mine: Path) -> None:
    mine.write_text(heuristic("time.sleep(7)"))
    result = tw.solve(EXAMPLE, "with_a_kernel", time_limit=6)
    assert result.plan is not None and result.seconds < 7


def test_what_is_solved_uncompiled_waits_for_nothing(mine: Path, tmp_path: Path) -> None:
    mine.write_text(heuristic("time.sleep(1000)", rounds=3))
    result = tw.solve(EXAMPLE, "with_a_kernel", time_limit=60)
    assert result.plan is not None and times(tmp_path) <= 1
    again = tw.solve(EXAMPLE, "with_a_kernel", time_limit=60)
    assert again.plan == result.plan and times(tmp_path) <= 1


def test_what_fails_uncompiled_is_compiled(mine: Path, tmp_path: Path) -> None:
    mine.write_text(heuristic().replace("    total = 0\n", "    total = 0\n    2**63 + np.int64(total)\n"))
    mine.write_text(mine.read_text().replace("import os", "import numpy as np\nimport os"))
    result = tw.solve(EXAMPLE, "with_a_kernel")
    assert result.plan is not None and result.failures == [] and times(tmp_path) == 1


def test_a_plan_found_while_the_clock_stands_was_found_before(mine: Path, tmp_path: Path) -> None:
    """The clock stands for seconds after a first plan, then a better one is found."""
    text = heuristic("time.sleep(2)").replace("import zigzag", "import strips, zigzag")
    better = "def plan(problem, search):\n    search.on_plan(zigzag.plan(problem))\n    three()\n"
    old = text[text.index("def plan(problem):") : text.index("def compile_kernels")]
    mine.write_text(text.replace(old, better + "    return strips.plan(problem)\n\n"))
    result = tw.solve(EXAMPLE, "with_a_kernel", warm_start="none", time_limit=60)
    told = [at for at, _objective, _bound in result.trace]
    assert len(told) == 3 and told == sorted(told) and told[-1] <= result.seconds < 20
    result.write(tmp_path / "r.json")
    assert tw.Result.read(tmp_path / "r.json").trace == result.trace


@pytest.mark.nightly
def test_the_command_says_what_it_waits_for(mine: Path, tilewright: Run) -> None:
    done = tilewright("solve", EXAMPLE, "--with", "with_a_kernel", "--json")
    assert json.loads(done.stdout)["plan"] is not None
    assert "compiling grouping with_a_kernel" in done.stderr
    assert "meanwhile methods run as Python" in done.stderr


@pytest.mark.nightly
def test_a_terminal_shows_for_how_long_something_is_compiled(mine: Path) -> None:
    compiling._COMPILER.stop()  # what a test before this one has begun
    mine.write_text(heuristic("time.sleep(2.5)"))
    line, shown = StatusLine(enabled=False), []
    line.text = "00:00 of 01:00"
    unit = next(unit for unit in compiling.units("grouping", ["with_a_kernel"]) if unit.method)

    def look() -> None:
        shown.append(line.__rich__())

    assert line.__rich__() == "00:00 of 01:00"
    compiling.ensure([unit], on_tick=look)
    with jit.uncompiled():
        assert line.__rich__() == "00:00 of 01:00"  # nothing is compiled any more
    for seconds in (0, 1, 2):
        assert f"compiling grouping with_a_kernel for {seconds} s, 00:00 of 01:00" in shown
    mine.write_text(mine.read_text() + "# changed\n")
    shown.clear()
    with jit.uncompiled():
        compiling.ensure([unit], on_tick=look)
    assert any("for 1 s; meanwhile methods run as Python, 00:00" in one for one in shown)


@pytest.mark.nightly
def test_nobody_loses_time_to_it_in_a_comparison(mine: Path) -> None:
    """The first of three methods takes longer to compile than all may take."""
    mine.write_text(heuristic("time.sleep(7)"))
    told: list[str] = []
    entries = tw.compare(
        [EXAMPLE],
        ["zigzag", "with_a_kernel", "strips"],
        time_limit=6,
        on_entry=lambda entry: told.append(entry.method),
        on_compile=told.append,
    )
    assert told[1:] == ["zigzag", "with_a_kernel", "strips"] and "with_a_kernel" in told[0]
    assert [entry.result is not None and entry.result.plan is not None for entry in entries] == [True] * 3
    assert all(entry.result is not None and entry.result.seconds < 7 for entry in entries)


@pytest.mark.nightly
def test_doctor_compiles(mine: Path, tilewright: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "all_units", lambda: compiling.units("grouping", ["with_a_kernel"]))
    assert "0 of 1 searches are compiled; " in tilewright("doctor").stdout
    done = tilewright("doctor", "--compile")
    assert done.returncode == 0 and "\n1 of 1 searches are compiled\n" in done.stdout
    assert "compiling grouping with_a_kernel" in done.stderr
    assert "compiling" not in tilewright("doctor", "--compile").stderr
    mine.write_text(heuristic("raise ValueError('not today')"))
    done = tilewright("doctor", "--compile")
    assert done.returncode == 2 and "not today" in done.stderr and "0 of 1 searches" in done.stdout


@pytest.mark.nightly
def test_processes_that_need_the_same_wait_for_one(mine: Path, tmp_path: Path) -> None:
    mine.write_text(heuristic("time.sleep(2)"))
    running = [start(tmp_path, "solve", EXAMPLE, "--with", "with_a_kernel") for _ in range(2)]
    for process in running:
        out, err = process.communicate(timeout=300)
        assert process.returncode == 0, err + out
    assert times(tmp_path) == 1


@pytest.mark.by_day(1)
@pytest.mark.parametrize(
    ("command", "end"),
    [
        ("solve", signal.SIGINT),
        pytest.param("compare", signal.SIGINT, marks=nightly),
        ("solve", signal.SIGKILL),
    ],
)
def test_who_ends_a_command_ends_what_it_compiles(
    mine: Path, tmp_path: Path, command: str, end: signal.Signals
) -> None:
    mine.write_text(heuristic("time.sleep(1000)"))
    process = start(tmp_path, command, EXAMPLE, "--with", "with_a_kernel")
    while not times(tmp_path):
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(end)
    out, err = process.communicate(timeout=60)  # until all who hold the pipes have ended
    if end == signal.SIGINT:
        assert process.returncode in (1, 130) and "interrupted" in out + err and "Traceback" not in err
    with kernel_cache.lock("grouping-heuristics"):  # which who compiles holds to its end
        mine.write_text(heuristic())
    assert tw.solve(EXAMPLE, "with_a_kernel").plan is not None
    assert times(tmp_path) == 2


@pytest.mark.nightly
def test_who_is_interrupted_stops_nothing_that_others_wait_for(mine: Path, tmp_path: Path) -> None:
    mine.write_text(heuristic("time.sleep(2)"))
    wanted = compiling.units("grouping", ["with_a_kernel"])
    waits = threading.Event()

    def interrupt() -> None:
        if waits.is_set():
            raise KeyboardInterrupt

    def wait() -> None:
        compiling.ensure(list(wanted), on_tick=waits.set)

    other = threading.Thread(target=wait)
    other.start()
    with pytest.raises(KeyboardInterrupt):
        compiling.ensure(wanted, on_tick=interrupt)
    assert compiling.in_hand() is not None
    other.join()
    assert times(tmp_path) == 1 and not compiling.missing(wanted)
    with pytest.raises(KeyboardInterrupt):  # whose units nobody else waits for
        mine.write_text(heuristic("time.sleep(60)"))
        compiling.ensure(compiling.units("grouping", ["with_a_kernel"]), on_tick=interrupt)
    assert compiling.in_hand() is None


@nightly
def test_a_file_that_is_broken_is_compiled_again(mine: Path, tmp_path: Path) -> None:
    def compiled() -> dict[Path, bytes]:
        return {path: path.read_bytes() for path in (tmp_path / "kernels").rglob("*.nb[ci]")}

    assert tw.solve(EXAMPLE, "with_a_kernel").plan is not None
    whole = compiled()
    assert len(whole) == 2
    for path in whole:
        path.write_bytes(path.read_bytes()[:100])
        result = tw.solve(EXAMPLE, "with_a_kernel")
        assert result.plan is not None and result.failures == []
        assert {path.name: len(content) for path, content in compiled().items()} == {
            path.name: len(content) for path, content in whole.items()
        }


@pytest.mark.nightly
def test_a_full_disk_costs_time_alone(mine: Path, tmp_path: Path) -> None:
    """No file can grow beyond a kilobyte: the index of a kernel may, the kernel may not."""
    command = [sys.executable, "-m", "tilewright", "solve", EXAMPLE, "--with", "with_a_kernel"]
    often = 2 if THOROUGH else 1
    for _ in range(often):
        done = subprocess.run(
            ["sh", "-c", 'ulimit -f 2; exec "$@"', "sh", *command],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},  # Python believes its own files if cut short
        )
        assert done.returncode == 0 and "feasible" in done.stdout, done.stderr + done.stdout
        assert "failed, and is done within the time limit" in done.stderr and "OSError" in done.stderr
    assert times(tmp_path) == often


@pytest.mark.nightly
def test_what_can_only_be_read_is_used(mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an installation has been compiled by somebody else."""
    tw.solve(EXAMPLE, "with_a_kernel")
    kept, copied = tmp_path / "kernels", tmp_path / "copied"
    monkeypatch.setattr(kernel_cache, "homes", lambda _folder: [kept, copied])
    monkeypatch.setattr(kernel_cache, "_writable", lambda folder: folder == copied)
    copied.mkdir()
    tw.solve(EXAMPLE, "with_a_kernel")
    assert times(tmp_path) == 1
    place = jit._place("tilewright.heuristics.grouping.with_a_kernel")
    assert place is not None and place.parent == copied
    assert sorted(path.name for path in place.rglob("*.nbc")) == sorted(
        path.name for path in kept.rglob("*.nbc")
    )
    assert [path.name for path in copied.iterdir()] == [place.name]


def test_what_fails_is_said_and_done_where_it_is_used(mine: Path) -> None:
    mine.write_text(heuristic("raise ValueError('not today')"))
    told: list[str] = []
    assert tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append).plan is not None
    assert len(told) == 2 and "not today" in told[1]
    tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append)
    assert len(told) == 2  # once is enough
    mine.write_text(heuristic())
    tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append)
    assert len(told) == 3


def test_where_nothing_can_be_written_it_is_compiled_each_time(
    mine: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(kernel_cache, "homes", lambda _folder: [tmp_path / "counted/below a file"])
    monkeypatch.setattr(kernel_cache, "_temporary", lambda: tmp_path / "counted/below a file")
    (tmp_path / "counted").touch()
    told: list[str] = []
    for _ in range(2):
        assert tw.solve(EXAMPLE, "with_a_kernel", on_compile=told.append).plan is not None
    assert len(told) == 1 and "NUMBA_CACHE_DIR" in told[0]
    assert times(tmp_path) == 0


def test_methods_without_kernels_wait_for_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))

    def never(*_: Any) -> None:
        raise AssertionError("something is compiled")

    monkeypatch.setattr(compiling, "begin", never)
    for name, method in (("alexnet-conv3-64k", "auto"), (EXAMPLE, "zigzag"), ("mnist-tcpa", "paper")):
        assert tw.solve(name, method).plan is not None


def test_temporary_folders_of_others_are_not_trusted(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    assert not kernel_cache.is_private(folder)
    folder.mkdir(mode=0o700)
    assert kernel_cache.is_private(folder)
    folder.chmod(0o777)
    assert not kernel_cache.is_private(folder)
    folder.chmod(0o700)
    (tmp_path / "link").symlink_to(folder)
    assert not kernel_cache.is_private(tmp_path / "link")


EVERY_KERNEL = """
import sys, time
from tilewright.core import catalogue, jit
from tilewright.core.context import RunContext
from tilewright.run.workers import compiling
from tilewright.run.instance import read
from tilewright.run.methods import Listener, run_method

def signatures():
    return {
        value.__module__ + " " + value.__name__: value.signatures
        for name, module in list(sys.modules.items())
        if name.startswith("tilewright.")
        for value in list(vars(module).values())
        if isinstance(value, jit.Kernel) and value.kept
    }

room, method, *instances = sys.argv[1:]
[unit] = [each for each in compiling.units(room, [method]) if each.method == method]
compiling.compile_here(unit)
compiled = {name: list(found) for name, found in signatures().items()}
for name, found in compiled.items():
    print(name, len(found))
for name in instances:
    context = RunContext(deadline=time.monotonic() + {seconds})
    exact = {"fusion": "downsets", "tiling": "exhaustive", "scheduling": "ideals", "addresses": "canonical"}
    exact["residency"] = "states"
    run = method or exact[room]
    run_method(run, read(name).problem, context, Listener(print))
for name, found in signatures().items():
    if found != compiled.get(name):
        print("one more of", name, 0)
"""

SOLVED = {
    "addresses": ["minimalloc-example", "minimalloc-k"],
    "grouping": ["s1-example2", "resnet8-conv-g8", "lenet5-conv1-g20"],
    "grouping exact": ["s1-example2"],
    "allocation": ["mnist-tcpa-placed"],
    "allocation parametric": ["mnist-tcpa-latency", "mobilenetv2-pareto", "mnist-tcpa-by-layer"],
    "fusion": ["squeezenet-fire", "alexnet-memory"],
    "offloading": ["s1-example2-wide", "conv64x8"],
    "residency": ["mb28-64k", "vww-32k"],
    "scheduling": ["mlsys-example5", "mlsys-2026-1"],
    "tiling": ["resnet18-conv2-eyeriss", "lenet5-conv2-gap8"],
}
"""Instances that are solved after a method has been compiled, or any of a room."""


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize("unit", compiling.all_units(), ids=str)
def test_nothing_is_left_to_compile(unit: kernel_cache.Unit) -> None:
    """All kernels that a method imports are called by its `compile_kernels`, as they are when it runs."""
    solved = SOLVED.get(str(unit), SOLVED[unit.room])
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            EVERY_KERNEL.replace("{seconds}", "2" if THOROUGH else "0.5"),
            unit.room,
            unit.method,
            *solved,
        ],
        capture_output=True,
        text=True,
        env=os.environ,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # What `beam` and `sweep` share imports the kernels of both; fusion's graph, in residency, its search.
    own = [line for line in lines if unit.method not in ("beam", "sweep") or f"_{unit.method}_kernel" in line]
    own = [line for line in own if unit.room == "fusion" or "tilewright.fusion." not in line]
    assert own and not [line for line in own if line.endswith(" 0")], lines


def test_methods_with_kernels_say_so() -> None:
    """Who imports a kernel has `compile_kernels`, or the room has it."""
    assert {str(unit) for unit in compiling.all_units()} == {
        "addresses",
        "addresses canonical",
        "allocation parametric",
        "allocation snake",
        "allocation wander",
        "fusion",
        "grouping beam",
        "grouping exact",
        "grouping lns",
        "grouping sweep",
        "offloading descent",
        "offloading orders",
        "residency",
        "scheduling",
        "tiling",
    }
