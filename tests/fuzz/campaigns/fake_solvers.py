"""MiniZincs that are broken, old, slow or lie: every command ends in time, and no lie is verified."""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
from pathlib import Path
from typing import Any

from tests.fuzz import command_line, samples
from tests.fuzz.trials import Skip, Wrong

from tilewright.run.result import Result
from tilewright.spec.errors import TilewrightError

NIGHTLY = 3

TIME_LIMIT = 6.0

GRACE = 30.0
"""Seconds beyond a time limit for starting and ending on a busy machine."""

OLD = "MiniZinc to FlatZinc converter, version 2.5.3, build 1\nCopyright (C) 2014-2020 Monash University\n"

BROKEN: dict[str, str] = {
    "exits 1": "echo no licence >&2; exit 1",
    "exits 0": "exit 0",
    "garbage": "head -c 3000 /dev/urandom",
    "text": "echo hello; echo world >&2",
    "hangs": "exec sleep 1000",
    "leaves something that hangs": "sleep 1000",
    "floods": "yes",
    "old": f"printf %s '{OLD}'",
    "kills itself": "kill -9 $$",
    "segfault": "kill -11 $$",
    "no solvers": 'case "$*" in *--solvers-json*) echo "[]";; *) exec "$real" "$@";; esac',
}
"""What a fake does, whatever it is asked."""

SOLVING = 'case "$*" in *--intermediate-solutions*) ;; *) exec "$real" "$@";; esac\n'
"""Passes everything but solving on to the real one."""

BROKEN_SOLVING: dict[str, str] = {
    "solving exits 1": "echo boom >&2; exit 1",
    "solving exits 0": "exit 0",
    "solving hangs": "exec sleep 1000",
    "solving kills itself": "kill -9 $$",
    "garbage for a solution": "head -c 3000 /dev/urandom",
    "half a solution": '"$real" "$@" | head -c $((RANDOM_NUMBER % 2000))',
    "a flood of comments": """yes '{"type": "comment", "comment": "x"}' | head -c 100000000""",
    "an endless line": "head -c 50000000 /dev/zero | tr '\\0' x",
    "a flood of errors": 'yes error | head -c 100000000 >&2; exec "$real" "$@"',
}
"""What a fake does that is asked to solve; for anything else it is the real one."""

LIES: dict[str, str] = {
    "infeasible": """echo '{"type": "status", "status": "UNSATISFIABLE"}'""",
    "unbounded": """echo '{"type": "status", "status": "UNBOUNDED"}'""",
    "optimal": """echo '{"type": "status", "status": "OPTIMAL_SOLUTION"}'""",
    "first is optimal": '"$real" "$@" | "$python" "$liar" first',
    "other objective": '"$real" "$@" | "$python" "$liar" objective',
    "other numbers": '"$real" "$@" | "$python" "$liar" numbers',
    "other types": '"$real" "$@" | "$python" "$liar" types',
}
"""What a fake says in the right format."""

FAKES = BROKEN | {kind: SOLVING + body for kind, body in (BROKEN_SOLVING | LIES).items()}

NOT_SEEN = ("infeasible", "optimal", "first is optimal")
"""Lies that one run cannot tell from the truth; a second route can."""

FILTER = """
import json, random, sys
lie, dice = sys.argv[1], random.Random(RANDOM_NUMBER)


def other(value):
    if isinstance(value, list):
        return [other(each) for each in value]
    if isinstance(value, dict):
        return {key: other(each) for key, each in value.items()}
    if lie == "types":
        return dice.choice([value, value, None, "x", [], {}, 1.5])
    return value + dice.choice([0, 0, 0, -1, 1, 5, 10**6]) if type(value) is int else value


for line in sys.stdin:
    try:
        told = json.loads(line)
    except ValueError:
        continue
    if told.get("type") == "solution":
        for section in told["output"].values():
            if lie == "objective" and "objective" in section:
                section["objective"] = section["objective"] - dice.choice([1, 7, 10**6])
            elif lie in ("numbers", "types") and isinstance(section, dict):
                section.update(other(section))
    print(json.dumps(told), flush=True)
    if lie == "first" and told.get("type") == "solution":
        print(json.dumps({"type": "status", "status": "OPTIMAL_SOLUTION"}), flush=True)
        break
"""
"""Changes what the real MiniZinc says."""

METHODS = {
    "grouping": "ordered@gecode",
    "dsp": "loops@gecode",
    "npu": "cores@gecode",
    "allocation": "columns_balance@gecode",
    "fusion": "columns_cover@gecode",
    "bitwidth": "columns_choose@gecode",
}


def install(folder: Path, kind: str, real: str, number: int) -> None:
    """Write a fake ``minizinc`` into a folder."""
    body = FAKES[kind].replace("RANDOM_NUMBER", str(number))
    folder.mkdir()
    path, liar = folder / "minizinc", folder / "liar"
    path.write_text(f"#!/bin/sh\nreal={real}; python={sys.executable}; liar={liar}\n{body}\n")
    path.chmod(0o755)
    liar.write_text(FILTER.replace("RANDOM_NUMBER", str(number)))


def lies(result: Result, name: str) -> str | None:
    """Say what of a result is not true; the optimum is known."""
    optimum = samples.right(name)["objective"]
    if result.status == "infeasible":
        return "infeasible, and it is not"
    if result.objective is not None and result.objective < optimum:
        return f"objective {result.objective}, below the optimum {optimum}"
    if result.bound is not None and result.bound > optimum:
        return f"bound {result.bound}, above the optimum {optimum}"
    if result.status == "optimal" and result.objective != optimum:
        return f"optimal at {result.objective}, and the optimum is {optimum}"
    return None


def timed(folder: Path, environment: dict[str, str], seconds: float, *arguments: str) -> Any:
    """Run a command that must end in time, with all that it started."""
    done = command_line.finished(command_line.start(folder, *arguments, env=environment), seconds + GRACE)
    return command_line.checked(done)


def trial(rng: random.Random, scratch: Path) -> None:
    """Ask the doctor, or solve with a fake solver and check what comes of it."""
    real = shutil.which("minizinc")
    if real is None:
        raise Skip
    kind, name = rng.choice(list(FAKES)), rng.choice(list(METHODS))
    install(scratch / "bin", kind, real, rng.randrange(10**6))
    instance, path = samples.write(name, scratch), scratch / "r.json"
    search = os.pathsep.join([str(scratch / "bin"), os.environ.get("PATH", "")])
    environment = command_line.environment(PATH=search, TILEWRIGHT_TRIAL=str(scratch))
    try:
        if rng.random() < 0.3:
            command = rng.choice([["doctor"], ["list", "solvers", "--json"], ["list", "models"]])
            done = timed(scratch, environment, 30.0, *command)
            if done.returncode not in (0, 1, 3) or not done.stdout:
                raise Wrong(f"no word on the other solvers: {command_line.told(done)}")
            return
        method = rng.choice([METHODS[name]] * 4 + ["auto"])
        start = [] if rng.random() < 0.2 else ["--warm-start", "none"]
        arguments = [instance.name, "--with", method, "--time-limit", f"{TIME_LIMIT:g}", "-o", path.name]
        solved = timed(
            scratch, environment, TIME_LIMIT, "solve", *arguments, *(start if method != "auto" else [])
        )
        if not path.exists():
            if solved.returncode in (0, 1):
                raise Wrong(f"no result: {command_line.told(solved)}")
            return
        try:
            lie = lies(Result.read(path), name)
        except TilewrightError as error:
            raise Wrong(f"no result: {error}") from error
        if lie is not None:
            checked = timed(
                scratch, environment, 20.0, "check", instance.name, path.name, "--time-limit", "20"
            )
            if checked.returncode == 0:
                raise Wrong(
                    f"a lie of the solver is told on and verified: {lie}: {command_line.told(checked)}"
                )
            if kind not in NOT_SEEN:
                raise Wrong(f"a lie of the solver is told on: {lie}: {json.loads(path.read_text())['trace']}")
    except Wrong as wrong:
        raise Wrong(f"{kind}: {name}: {wrong}") from None
    finally:
        left = command_line.survivors(str(scratch), 15.0)
        command_line.survivors(str(scratch), 0.0, kill=True)
    if left:
        raise Wrong(f"{kind}: {name}: processes survive: {left}")
