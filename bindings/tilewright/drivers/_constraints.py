"""The text of MiniZinc formulations: files that they include; constraints, of which some can be left out."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

SEARCH = "search.mzn"
"""What all formulations include, beside the folders of the rooms: how they are told of a known plan."""

COMMENT = re.compile(r"%.*")
INCLUDE = re.compile(r'^include "([^"]+)";', re.MULTILINE)
CONSTRAINT = re.compile(r"^constraint\b.*?;[ \t]*(?:%.*)?$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r'constraint\s*::\s*"([^"]+)"')


def files(formulation: Path) -> list[Path]:
    """Return a formulation's file and all that it includes but for MiniZinc's own."""
    found = [formulation]
    for file in found:
        included = ((file.parent / name).resolve() for name in INCLUDE.findall(file.read_text("utf-8")))
        found += [other for other in included if other.is_file() and other not in found]
    return found


def begins_with_start(formulation: Path) -> bool:
    """Whether a formulation's search can begin with a known plan: it asks whether it has to."""
    own = (file for file in files(formulation) if file.name != SEARCH)
    text = "".join(COMMENT.sub("", file.read_text("utf-8")) for file in own)
    asks = re.findall(r"\bhint\b|\bas_started\s*\(", text)
    return len(asks) > len(re.findall(r":\s*hint\s*;", text))


def copy_models(folders: Iterable[Path], to: Path) -> Path:
    """Copy the models of some folders, and what lies beside these; return the folder of the copies.

    Of several files of the same name the first one is taken.
    """
    copies = to / "room"
    copies.mkdir()
    for folder in folders:
        for file in folder.glob("*.mzn"):
            if not (copies / file.name).exists():
                shutil.copy(file, copies / file.name)
        if (folder.parent / SEARCH).is_file() and not (to / SEARCH).exists():
            shutil.copy(folder.parent / SEARCH, to / SEARCH)
    return copies


def constraints(formulation: Path) -> list[str]:
    """Return the names of all constraints, those of files that are included first.

    The name is what stands behind ``constraint ::``, else file and line.
    """
    return [name for name, _, _ in _constraints(formulation)]


@contextmanager
def first_constraints(formulation: Path, many: int) -> Iterator[Path]:
    """Yield a formulation with the first so many of its constraints only; its files live in the block."""
    with tempfile.TemporaryDirectory() as folder:
        copies = copy_models([formulation.parent], Path(folder))
        for _, file, item in reversed(_constraints(formulation)[many:]):
            copy = copies.parent / SEARCH if file.name == SEARCH else copies / file.name
            text = copy.read_text("utf-8")
            copy.write_text(text[: item.start()] + text[item.end() :], "utf-8")
        yield copies / formulation.name


def _constraints(formulation: Path) -> list[tuple[str, Path, re.Match[str]]]:
    found = []
    for file in reversed(files(formulation)):
        text = file.read_text("utf-8")
        for item in CONSTRAINT.finditer(text):
            name = NAME.match(item[0])
            line = text.count("\n", 0, item.start()) + 1
            found.append((name[1] if name else f"{file.name}, line {line}", file, item))
    return found
