"""Command lines, in this process or in one of their own, and what may never come of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import traceback
from pathlib import Path
from typing import Any

import psutil
from tests import command
from tests.fuzz.trials import Wrong

ROOT = Path(__file__).parents[2]

STATUSES = {0, 1, 2, 3, 4, 5, 130}
"""Exit statuses that are documented."""

IN_AN_IMPORT = re.compile(
    r"Exception ignored in: <function _get_module_lock.*?\n"
    r"(?:Traceback .*?\n)?(?:  .*\n)*KeyboardInterrupt:?[ ]?\n?"
)
"""What Python itself says of a Ctrl-C that comes while it forgets the lock of an import."""

SECONDS = 60.0
"""How long a command may take on a busy machine that has little to do."""


def told(done: subprocess.CompletedProcess[Any]) -> str:
    """Return a command with what it said, shortened, to be printed beside a failure."""
    said = [text if isinstance(text, str) else repr(text) for text in (done.stdout, done.stderr)]
    shown = " ".join(map(str, done.args))[-300:]
    return f"{shown}: exit status {done.returncode}\n{(said[0] or '')[-1500:]}\n{(said[1] or '')[-2500:]}"


def checked(done: subprocess.CompletedProcess[Any]) -> subprocess.CompletedProcess[Any]:
    """Return a command that has ended as documented; raise what is wrong with another."""
    said = IN_AN_IMPORT.sub("", str(done.stderr))
    if "Traceback" in said or "Exception ignored" in said:
        raise Wrong(f"a traceback: {told(done)}")
    if done.returncode not in STATUSES:
        raise Wrong(f"exit status {done.returncode} is not documented: {told(done)}")
    return done


def run(folder: Path, *arguments: str, seconds: float = SECONDS) -> subprocess.CompletedProcess[Any]:
    """Run ``tilewright`` in this process; whatever it raises is wrong."""
    try:
        return checked(command.run(folder, *arguments, timeout=seconds))
    except Wrong:
        raise
    except subprocess.TimeoutExpired:
        raise Wrong(f"takes longer than {seconds:g} s: {' '.join(arguments)}") from None
    except Exception:
        raise Wrong(f"a traceback: {' '.join(arguments)}\n{traceback.format_exc()[-3000:]}") from None


def environment(**changes: str) -> dict[str, str]:
    """Return the environment of a process that runs this tree's ``tilewright``."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "bindings"), **changes}


def start(folder: Path, *arguments: str, **options: Any) -> subprocess.Popen[str]:
    """Start ``tilewright`` in a process of its own."""
    options = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.Popen(
        [sys.executable, "-m", "tilewright", *arguments],
        cwd=folder,
        text=True,
        errors="replace",
        env=options.pop("env", environment()),
        **options,
    )


def finished(process: subprocess.Popen[str], seconds: float = SECONDS) -> subprocess.CompletedProcess[Any]:
    """Wait for a process; one that hangs is killed, and wrong."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise Wrong(f"takes longer than {seconds:g} s: {process.args}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def own_frames(complaint: str) -> bool:
    """Whether a traceback goes through this tree's package, and not through Python's own start alone."""
    return str(ROOT / "bindings") in complaint or str(ROOT / "heuristics") in complaint


def survivors(mark: str, seconds: float, *, kill: bool = False) -> list[str]:
    """Return the processes in whose environment ``TILEWRIGHT_TRIAL`` is the mark, after some time to end."""
    until = time.monotonic() + seconds
    while True:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get("TILEWRIGHT_TRIAL") == mark and process.status() != "zombie":
                    found.append(" ".join(process.cmdline())[:200])
                    if kill:
                        process.kill()
            except psutil.Error:
                continue
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.1)
