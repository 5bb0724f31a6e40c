"""All commands in one, and what becomes of their errors."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import traceback
from pathlib import Path
from typing import Any, NoReturn

import click

from tilewright.cli import arguments  # noqa: F401 (first, since the time limit counts from here)
from tilewright.cli.assemble import assemble
from tilewright.cli.check import check
from tilewright.cli.compare import compare
from tilewright.cli.disassemble import disassemble
from tilewright.cli.doctor import doctor
from tilewright.cli.emit import emit
from tilewright.cli.execute import execute
from tilewright.cli.export import export
from tilewright.cli.import_ import import_
from tilewright.cli.list_ import list_
from tilewright.cli.outputs import forget_output, note
from tilewright.cli.report import report
from tilewright.cli.reproduce import reproduce
from tilewright.cli.simulate import simulate
from tilewright.cli.solve import solve
from tilewright.cli.sweep import sweep
from tilewright.core.failures import DEBUG, debugging, told
from tilewright.core.files import reason
from tilewright.core.locations import unusable
from tilewright.core.version import __version__
from tilewright.spec.errors import Disagreement, TilewrightError

INTERRUPTED = 130
"""Exit status of what ends by Ctrl-C without an answer, as shells have it."""


def run() -> None:
    """Run the command line; errors become messages and exit statuses."""
    try:
        signal.signal(signal.SIGTERM, _as_interrupt)
        commands.main(prog_name="tilewright", standalone_mode=False)
    except TilewrightError as error:
        _fail(str(error), error.exit_status)
    except (click.exceptions.Abort, KeyboardInterrupt):
        _fail("interrupted", INTERRUPTED)
    except click.ClickException as error:
        with contextlib.suppress(OSError):
            error.show()
        sys.exit(2)
    except BrokenPipeError:
        forget_output()  # the reader has gone, as `tilewright ... | head` does; that is no error
    except MemoryError:
        _fail("out of memory", 2)
    except OSError as error:
        where = f"{error.filename}: " if error.filename is not None else ""
        _fail(f"{where}{reason(error)}", 2)
    except Exception as error:
        _fail(f"a defect of tilewright: {told(error)}", Disagreement.exit_status)


def _as_interrupt(_signal: int, _frame: Any) -> NoReturn:
    """SIGTERM ends a command as Ctrl-C does: with the best plan so far."""
    raise KeyboardInterrupt


def _fail(message: str, status: int) -> NoReturn:
    if debugging():
        note(traceback.format_exc())
    for line in message.splitlines():
        note(f"tilewright: {line}")
    sys.exit(status)


def _on_debug(_context: click.Context, _option: click.Parameter, chosen: bool) -> None:
    if chosen:
        os.environ[DEBUG] = "1"  # for workers, too


debug = click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_on_debug,
    help="Print the traceback of an error, too.",
)


class _InOrder(click.Group):
    """Commands in the order in which they are used, rather than by their letters."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="tilewright")
@debug
def commands() -> None:
    """Decide, optimally and checkably, how convolutional layers run on a small on-chip memory."""
    for entry, why in unusable():
        note(f"tilewright: TILEWRIGHT_PATH names {Path(entry)}, which {why}")


for command in (
    solve,
    check,
    report,
    list_,
    compare,
    sweep,
    simulate,
    import_,
    emit,
    assemble,
    disassemble,
    execute,
    export,
    reproduce,
    doctor,
):
    commands.add_command(debug(command))
