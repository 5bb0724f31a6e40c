"""Reproduce the papers' tables and figures: run, print beside the claims, draw."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

import click

from tilewright.core.files import check_writable, reason
from tilewright.spec.errors import OutputError, UnknownNameError

PAPERS = ("s1", "idsp", "tso", "tcpa", "dnnvm", "mlsys", "msf")

Say = Callable[[str], None]
"""Prints a line."""

Part = Callable[[Path, Say], None]
"""Makes one of the parts that a paper's results are printed in, with its plots in a folder."""


def make_parts(figure: str, whole: str, parts: Mapping[str, Part], folder: Path, say: Say) -> None:
    """Make the part of that name, or all of them under the name of the whole."""
    chosen = [part for name, part in parts.items() if figure in (whole, name)]
    for number, part in enumerate(chosen):
        if number:
            say("")
        part(folder, say)


def figures() -> dict[str, tuple[ModuleType, str]]:
    """Return the figures of all papers: the module whose ``reproduce`` makes each, and what it shows."""
    modules = [importlib.import_module(f"tilewright.papers.{paper}") for paper in PAPERS]
    return {name: (module, text) for module in modules for name, text in module.FIGURES.items()}


def run(figure: str, *, time_limit: float, folder: Path) -> None:
    """Reproduce a figure; results and plots go to a folder, and results found there are used again."""
    known = figures()
    if figure not in known:
        raise UnknownNameError("figure", figure, list(known))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError("output", str(folder), f"cannot be made: {reason(error)}") from None
    check_writable(folder / "results")
    known[figure][0].reproduce(figure, time_limit=time_limit, folder=folder, say=click.echo)
