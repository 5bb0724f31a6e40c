"""The command line in this process, which has imported everything."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright import cli
from tilewright.cli import arguments as command_arguments


def run(folder: Path, *arguments: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
    """Run ``tilewright`` in a folder; what it raises but the end of the process comes out."""

    def too_long(_signal: int, _frame: Any) -> None:
        raise subprocess.TimeoutExpired(["tilewright", *arguments], timeout)

    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    handlers = {
        number: signal.getsignal(number) for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT)
    }
    status: Any = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "argv", ["tilewright", *arguments])
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        patch.setattr(command_arguments, "STARTED", time.monotonic())
        signal.signal(signal.SIGALRM, too_long)
        signal.setitimer(signal.ITIMER_REAL, timeout)
        try:
            cli.main()
        except SystemExit as end:
            status = end.code or 0
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            for number, handler in handlers.items():
                signal.signal(number, handler)
    said, complained = (stream.buffer.getvalue().decode() for stream in (out, err))
    return subprocess.CompletedProcess(["tilewright", *arguments], status, said, complained)
