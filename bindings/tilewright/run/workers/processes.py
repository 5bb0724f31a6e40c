"""Find, kill and suspend what a worker has started, wherever it has gone.

Solvers put their processes into groups of their own and outlive a parent that is killed; what they
cannot shed is the environment that they were started with. Each worker's temporary folder is its mark.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tilewright.core.locations import PACKAGE

if TYPE_CHECKING:
    import psutil

SECONDS = 1.0
"""Seconds in which what was killed has ended."""


def environment() -> dict[str, str]:
    """Return the environment of a process that imports the package as this one has it."""
    path = os.pathsep.join([str(PACKAGE.parent), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path.strip(os.pathsep)}


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a process, wait until it has ended, and close its pipes.

    Ctrl-C that arrives just when `subprocess` takes its lock leaves it locked. Waiting without a limit would
    then take for ever.
    """
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(SECONDS)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def kill_marked(folder: str, *, but: int | None = None) -> None:
    """Kill every process whose TMPDIR is that folder, except the one with the number `but`."""
    import psutil  # for start-up time

    for process in _marked(folder):
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != but:
                process.kill()


def suspend_marked(folder: str) -> None:
    """Suspend every process whose TMPDIR is that folder, with those that they start meanwhile."""
    import psutil  # for start-up time

    known: set[int] = set()
    while found := [process for process in _marked(folder) if process.pid not in known]:
        for process in found:
            known.add(process.pid)
            with contextlib.suppress(psutil.Error, OSError):
                process.suspend()


def resume_marked(folder: str) -> None:
    """Let every process go on whose TMPDIR is that folder."""
    import psutil  # for start-up time

    for process in _marked(folder):
        with contextlib.suppress(psutil.Error, OSError):
            process.resume()


def _marked(folder: str) -> Iterator[psutil.Process]:
    import psutil  # for start-up time

    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR") == folder:
                yield process
