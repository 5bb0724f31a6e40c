"""Whether the MiniZinc that is found works, asked with a time limit; and what is too large for it.

The Python interface asks without one when it is imported, and takes any answer for a good one.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import shutil
import subprocess
import time
from functools import lru_cache
from pathlib import Path

import psutil

from tilewright.core.files import reason
from tilewright.spec.errors import InputError, SolverBrokenError

SECONDS = 5.0
"""Longest time for one answer, which takes milliseconds."""

MOST = 4_000_000
"""Most bytes of one answer, which has some thousand for each solver that MiniZinc knows."""

MAX_SIZE = 400_000
"""Most links of a model that is flattened: about a minute and 2 GiB of MiniZinc."""

OLDEST = (2, 6)
"""The first version that the Python interface takes."""


def check(*, gecode: bool = True) -> None:
    """Ask MiniZinc for its version and its solvers, among which Gecode may have to be.

    Raises
    ------
    SolverBrokenError
        If either is missing, too old, broken or does not answer; says which.
    """
    executable = shutil.which("minizinc")
    if executable is not None:
        # Broken ones are asked again: somebody may be mending them.
        ids = _solvers(executable, Path(executable).stat().st_mtime_ns)
        if gecode and not any(name.split(".")[-1] == "gecode" for name in ids):
            raise SolverBrokenError(f"{executable} knows no Gecode, but: {', '.join(ids) or 'no solver'}")
        return
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        there = Path(folder) / "minizinc"
        if folder and there.exists():
            what = "is a folder" if there.is_dir() else "is not executable"
            raise SolverBrokenError(f"{there} {what}, and no other MiniZinc is on the PATH")
    # The Python interface knows more places, and says itself where nothing is there.


@lru_cache(maxsize=16)
def _solvers(executable: str, _changed: int) -> tuple[str, ...]:
    """Return the ids of the solvers that a MiniZinc knows, if it is one that can be used."""
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
        return tuple(str(solver["id"]) for solver in json.loads(solvers))
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SolverBrokenError(
            f"{executable} --solvers-json gives no list of solvers, but {_cut(solvers)}"
        ) from None


def refuse_large(size: int, method: str) -> None:
    """Refuse a model that would not fit in memory when it is flattened."""
    if size > MAX_SIZE:
        raise InputError("method", method, f"gives {size} constraints here, at most {MAX_SIZE} are built")


def _answer(executable: str, question: str) -> str:
    try:
        process = subprocess.Popen(
            [executable, question],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
    except OSError as error:
        raise SolverBrokenError(f"{executable} cannot be started: {reason(error)}") from None
    with process:
        try:
            said, complained = _read(process)
        except SolverBrokenError as error:
            _end(process)
            raise SolverBrokenError(f"{executable} {question} {error}") from None
    if process.returncode:
        told = _cut((complained or said).decode(errors="replace"))
        raise SolverBrokenError(f"{executable} {question} ends with exit status {process.returncode}: {told}")
    return said.decode(errors="replace")


def _read(process: subprocess.Popen[bytes]) -> tuple[bytes, bytes]:
    """Return what a program says on standard output and standard error.

    `subprocess.run` would take in whatever comes until its time limit, gigabytes of it.

    Raises
    ------
    SolverBrokenError
        If it says too much, or not all in time.
    """
    assert process.stdout is not None
    assert process.stderr is not None
    said = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    deadline = time.monotonic() + SECONDS
    with selectors.DefaultSelector() as selector:
        for stream in said:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SolverBrokenError(f"does not answer within {SECONDS:g} s")
            for key, _ in ready:
                more = os.read(key.fd, 65536)
                said[key.fd] += more
                if not more:
                    selector.unregister(key.fd)
                elif len(said[key.fd]) > MOST:
                    raise SolverBrokenError(f"answers with more than {MOST} bytes")
    output, errors = map(bytes, said.values())
    return output, errors


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program and what it has started."""
    with contextlib.suppress(psutil.Error):
        for one in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                one.kill()
    process.kill()


def _cut(text: str) -> str:
    """Return the beginning of what a program says, on one line."""
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return "nothing" if not line else line if len(line) <= 100 else line[:97] + "..."
