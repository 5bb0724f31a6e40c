"""Find, kill and suspend what a worker has started, wherever it has gone.

Solvers put their processes into groups of their own and outlive a parent that is killed; what they
cannot shed is the environment that they were started with. Each worker's temporary folder is its mark.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import psutil


def kill_marked(folder: str, *, but: int | None = None) -> None:
    """Kill every process whose TMPDIR is that folder, except the one with the number `but`."""
    for process in _marked(folder):
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != but:
                process.kill()


def suspend_marked(folder: str) -> None:
    """Suspend every process whose TMPDIR is that folder, with those that they start meanwhile."""
    known: set[int] = set()
    while found := [process for process in _marked(folder) if process.pid not in known]:
        for process in found:
            known.add(process.pid)
            with contextlib.suppress(psutil.Error, OSError):
                process.suspend()


def resume_marked(folder: str) -> None:
    """Let every process go on whose TMPDIR is that folder."""
    for process in _marked(folder):
        with contextlib.suppress(psutil.Error, OSError):
            process.resume()


def _marked(folder: str) -> Iterator[psutil.Process]:
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR") == folder:
                yield process
