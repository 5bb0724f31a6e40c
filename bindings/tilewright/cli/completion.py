"""What a shell completes: names of instances, networks, machines, rooms, methods and figures.

Click calls these functions with what has been typed. They import what they need, as commands that run
complete nothing; each answer takes no longer than ``tilewright list``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import click
from click.shell_completion import CompletionItem

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def instances(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return bundled instances and networks, and files."""
    from tilewright.core import catalogue

    names = (path.stem for folder in (*catalogue.ROOMS, "networks") for path in catalogue.instances(folder))
    return [_file(begun), *_beginning(names, begun)]


def machines(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return bundled machines, and files."""
    from tilewright.core import catalogue

    return [_file(begun), *_beginning((path.stem for path in catalogue.instances("machines")), begun)]


def rooms(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the rooms."""
    from tilewright.core import catalogue

    return _beginning(catalogue.ROOMS, begun)


def figures(_context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return what can be reproduced."""
    from tilewright.papers import figures

    return _beginning(figures.figures(), begun)


def methods(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the methods of the rooms of what has been named; of a list those for its last name."""
    from tilewright.run.methods import methods as methods_of

    before, comma, last = begun.rpartition(",")
    names = ("auto", *(name for room in _rooms_of(context) for name in methods_of(room)))
    return [CompletionItem(before + comma + item.value) for item in _beginning(names, last)]


def starts(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return heuristics that a search can start from, and result files."""
    from tilewright.core import catalogue

    names = (name for room in _rooms_of(context) for name in catalogue.heuristics(room))
    return [_file(begun), *_beginning(("auto", "none", *names), begun)]


def models(context: click.Context, _parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return formulations."""
    from tilewright.core import catalogue

    names = (path.stem for room in _rooms_of(context) for path in catalogue.models(room))
    return _beginning(names, begun)


def _rooms_of(context: click.Context) -> Iterator[str]:
    """Yield the rooms of the bundled instances that have been named, or of --room; else all."""
    from tilewright.core import catalogue

    given = context.params
    # Where an option's value is completed, click has not got to the arguments.
    named = {*(given.get("instances") or (given.get("instance"),)), *context.args}
    found = [
        room
        for room in catalogue.ROOMS
        if room == given.get("room") or named & {path.stem for path in catalogue.instances(room)}
    ]
    yield from found or catalogue.ROOMS


def _beginning(names: Iterable[str], begun: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in dict.fromkeys(names) if name.startswith(begun)]


def _file(begun: str) -> CompletionItem:
    """Return what tells the shell to complete paths, too; bash forgets what comes before it."""
    return CompletionItem(begun, type="file")
