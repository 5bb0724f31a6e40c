"""The command line: ``tilewright``, one module for each command.

Everything heavy is imported by the command that needs it.
"""

# ruff: noqa: E402 (Ctrl-C is prepared for before anything else is imported)

from __future__ import annotations

import os
import signal
import sys


def _leave(_signal: int, _frame: object) -> None:
    """End while modules are imported, where an exception could surface anywhere."""
    os.write(2, b"tilewright: interrupted\n")
    os._exit(INTERRUPTED)


INTERRUPTED = 130
"""Exit status after Ctrl-C without a result."""

_GUARDED = signal.getsignal(signal.SIGINT) is signal.default_int_handler
if _GUARDED:
    signal.signal(signal.SIGINT, _leave)

from typing import Any, NoReturn

import click

from tilewright.cli import arguments  # noqa: F401 (first, since the time limit counts from here)
from tilewright.cli.check import check
from tilewright.cli.compare import compare
from tilewright.cli.emit import emit
from tilewright.cli.import_ import import_
from tilewright.cli.list_ import doctor, list_
from tilewright.cli.reproduce import reproduce
from tilewright.cli.simulate import simulate
from tilewright.cli.solve import solve
from tilewright.core.version import __version__
from tilewright.spec.errors import TilewrightError


def main() -> None:
    """Run the command line and turn errors into messages and exit statuses."""
    try:
        signal.signal(signal.SIGTERM, _as_interrupt)
        # Looking for plugins of pydantic's among all that is installed takes a tenth of a quick command.
        os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
        commands.main(standalone_mode=False)
    except TilewrightError as error:
        _fail(str(error), error.exit_status)
    except click.exceptions.Abort:
        _fail("interrupted", INTERRUPTED)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader has gone, as `tilewright ... | head` does; that is no error.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _as_interrupt(_signal: int, _frame: Any) -> NoReturn:
    """SIGTERM ends a command as Ctrl-C does: with the best plan so far."""
    raise KeyboardInterrupt


def _fail(message: str, status: int) -> NoReturn:
    click.echo(f"tilewright: {message}", err=True)
    sys.exit(status)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tilewright")
def commands() -> None:
    """Decide, optimally and checkably, how convolutional layers run on a small on-chip memory."""


for command in (solve, compare, check, simulate, emit, import_, list_, reproduce, doctor):
    commands.add_command(command)

if _GUARDED:
    signal.signal(signal.SIGINT, signal.default_int_handler)
