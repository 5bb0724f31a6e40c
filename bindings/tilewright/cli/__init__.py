"""The command line: ``tilewright``, one module for each command.

This one is light: it makes sure that nothing goes wrong before there is somebody to say so.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = (
    False  # what is imported here is imported before Ctrl-C is handled: no more than the command needs
)
if TYPE_CHECKING:
    from typing import Any, NoReturn


def main() -> None:
    """Run the command line and turn errors into messages and exit statuses."""
    _open_streams()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:  # a shell lets what it runs in the background ignore it
        signal.signal(signal.SIGINT, _leave)
    # Looking for plugins of pydantic's among all that is installed takes a tenth of a quick command's time.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    from tilewright.cli.entry import run  # start-up time

    signal.signal(signal.SIGINT, before)
    try:
        run()
    finally:
        if before is signal.default_int_handler:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all has been said, only Python is left to end
        # Where Ctrl-C came in code that a library had executed as text, CPython ends by SIGINT, whatever the
        # exit status and though that was dealt with; executing any text makes it forget.
        exec("")


def _leave(_signal: int, _frame: Any) -> NoReturn:
    """End while modules are imported: there is nothing to save, and some take an exception for their own."""
    try:
        os.write(2, b"tilewright: interrupted\n")
    finally:
        os._exit(130)


def _open_streams() -> None:
    """Open what the caller has closed, so that no file or pipe of ours becomes the standard output."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 (for the whole run)
