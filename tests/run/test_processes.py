"""Processes end, whatever Ctrl-C has left behind."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

from tilewright.run.workers import processes


def test_a_lock_that_ctrl_c_has_left_locked_keeps_nobody_waiting() -> None:
    running: Any = subprocess.Popen(
        [sys.executable, "-S", "-c", "import time; time.sleep(1000)"], stdin=subprocess.PIPE
    )
    assert running.poll() is None
    running._waitpid_lock.acquire()  # as where an exception comes between this and its `try`
    processes.kill(running)
    assert running.stdin.closed
    _, status = os.waitpid(running.pid, 0)
    assert os.WIFSIGNALED(status)
