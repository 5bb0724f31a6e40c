"""Whether the MiniZinc that is found works, asked with a time limit.

The Python interface asks without one when it is imported, and takes any answer for a good one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from tilewright.core.files import reason
from tilewright.spec.errors import SolverBrokenError

SECONDS = 5.0
"""Longest time for one answer, which takes milliseconds."""

OLDEST = (2, 6)
"""The first version that the Python interface takes."""


def check() -> None:
    """Ask MiniZinc for its version and for Gecode.

    Raises
    ------
    SolverBrokenError
        If either is missing, too old, broken or does not answer; says which.
    """
    executable = shutil.which("minizinc")
    if executable is not None:
        # Broken ones are asked again: somebody may be mending them.
        _check(executable, Path(executable).stat().st_mtime_ns)
        return
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        there = Path(folder) / "minizinc"
        if folder and there.exists():
            what = "is a folder" if there.is_dir() else "is not executable"
            raise SolverBrokenError(f"{there} {what}, and no other MiniZinc is on the PATH")
    # The Python interface knows more places, and says itself where nothing is there.


@lru_cache(maxsize=16)
def _check(executable: str, _changed: int) -> None:
    said = _answer(executable, "--version")
    found = re.search(r"version (\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise SolverBrokenError(f"{executable} --version names no version of MiniZinc, but says {_cut(said)}")
    version = tuple(map(int, found.groups()))
    if version[:2] < OLDEST:
        raise SolverBrokenError(
            f"{executable} is MiniZinc {'.'.join(map(str, version))}, "
            f"{'.'.join(map(str, OLDEST))} or later is needed"
        )
    solvers = _answer(executable, "--solvers-json")
    try:
        ids = [str(solver["id"]) for solver in json.loads(solvers)]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SolverBrokenError(
            f"{executable} --solvers-json gives no list of solvers, but {_cut(solvers)}"
        ) from None
    if not any(name.split(".")[-1] == "gecode" for name in ids):
        raise SolverBrokenError(f"{executable} knows no Gecode, but: {', '.join(ids) or 'no solver'}")


def _answer(executable: str, question: str) -> str:
    try:
        answer = subprocess.run(
            [executable, question],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise SolverBrokenError(f"{executable} {question} does not answer within {SECONDS:g} s") from None
    except OSError as error:
        raise SolverBrokenError(f"{executable} cannot be started: {reason(error)}") from None
    if answer.returncode:
        told = _cut((answer.stderr or answer.stdout).decode(errors="replace"))
        raise SolverBrokenError(f"{executable} {question} ends with exit status {answer.returncode}: {told}")
    return answer.stdout.decode(errors="replace")


def _cut(text: str) -> str:
    """Return the beginning of what a program says, on one line."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return "nothing" if not line else line if len(line) <= 100 else line[:97] + "..."
