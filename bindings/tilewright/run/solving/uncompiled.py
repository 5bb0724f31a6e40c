"""Run methods as the Python that they are written in, while what they need is compiled for the first time.

Many a problem is solved before that has ended, or even begun. What is not begins anew, compiled.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator
from typing import Any

import numpy as np

from tilewright.core import jit
from tilewright.core.kernel_cache import Unit
from tilewright.run.workers import compiling

HEAD_START_SECONDS = 0.3
"""How long methods run before what they need is compiled beside them."""

MOST_SECONDS = 60.0
"""How long methods run uncompiled at most: about as long as all kernels take to be compiled."""

AS_PYTHON = "methods run as Python"
"""What is said of methods that run uncompiled."""

Tick = Callable[[], None]
"""Called several times a second; raises to stop."""


class Compiled(Exception):
    """What has been run uncompiled begins anew."""


def uncompiled_deadline() -> float:
    """Return when methods that begin now have to end, as ``time.monotonic()``."""
    return time.monotonic() + MOST_SECONDS


def run_uncompiled(
    work: Callable[[Tick], None], needed: Collection[Unit], tell: compiling.Tell, on_tick: Tick
) -> bool:
    """Run methods until they end, fail, or what they need is compiled.

    Parameters
    ----------
    work
        Runs them, and calls what it is given several times a second.
    needed
        What is to be compiled.
    tell
        Called before compiling begins, and if it cannot.
    on_tick
        Called several times a second; raises to stop everything.

    Returns
    -------
    bool
        Whether they have ended by themselves.
    """
    begins = time.monotonic() + HEAD_START_SECONDS
    begun = False

    def look() -> None:
        nonlocal begun
        on_tick()
        if not begun and time.monotonic() >= begins:
            compiling.begin(needed, tell, meanwhile=AS_PYTHON)
            begun = True
        if begun and compiling.ended(needed, tell):
            raise Compiled

    with jit.uncompiled(), compiling.awaited(needed), contextlib.suppress(Compiled):
        work(look)
        return True
    return False


@contextlib.contextmanager
def until_compiled(room: str, problem: Any, tell: compiling.Tell | None = None) -> Iterator[bool]:
    """Let what a room runs compiled run as Python until it has been compiled, and compiled from then on.

    What runs goes on, unlike a method of `run_uncompiled`, and nothing is compiled for what ends soon.

    Parameters
    ----------
    problem
        What it is run on.
    tell
        Called before compiling begins, and if it cannot; from another thread.

    Yields
    ------
    bool
        Whether anything runs as Python.
    """
    needed = compiling.lacking(compiling.units(room, [], problem))
    if not needed:
        yield False
        return
    entered, left = threading.Event(), threading.Event()
    say = tell or (lambda _text: None)

    def wait() -> None:
        with jit.uncompiled(), compiling.awaited(needed):  # in all threads
            entered.set()
            if left.wait(HEAD_START_SECONDS):
                return
            compiling.begin(needed, say, meanwhile=AS_PYTHON)
            while not compiling.ended(needed, say) and not left.wait(compiling.TICK_SECONDS):
                pass

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    entered.wait()
    try:
        with np.errstate(over="ignore"):  # as in `jit.uncompiled`, which is of that thread
            yield True
    finally:
        left.set()
        waiting.join()
