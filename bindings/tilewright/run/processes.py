"""Find and kill what a worker has started, wherever it has gone.

Solvers put their processes into groups of their own and outlive a parent that is killed; what they
cannot shed is the environment that they were started with. Each worker's temporary folder is its mark.
"""

from __future__ import annotations

import contextlib

import psutil


def kill_marked(folder: str, *, but: int | None = None) -> None:
    """Kill every process whose TMPDIR is that folder, except the one with the number `but`."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.pid != but and process.environ().get("TMPDIR") == folder:
                process.kill()
