"""The text of MiniZinc formulations: what they use, and their constraints, of which some can be left out."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COMMENT = re.compile(r"%.*")
INCLUDE = re.compile(r'^include "([^"]+)";', re.MULTILINE)
CONSTRAINT = re.compile(r"^constraint\b.*?;[ \t]*(?:%.*)?$", re.MULTILINE | re.DOTALL)
NAME = re.compile(r'constraint\s*::\s*"([^"]+)"')


def files(formulation: Path) -> list[Path]:
    """Return a formulation's file and all in its folder that it includes."""
    found = [formulation]
    for file in found:
        included = (file.with_name(name) for name in INCLUDE.findall(file.read_text("utf-8")))
        found += [other for other in included if other.is_file() and other not in found]
    return found


def uses(formulation: Path, parameter: str) -> bool:
    """Whether a formulation does more with a parameter than declare it."""
    text = "".join(COMMENT.sub("", file.read_text("utf-8")) for file in files(formulation))
    return len(re.findall(rf"\b{parameter}\b", text)) > len(re.findall(rf":\s*{parameter}\s*;", text))


def constraints(formulation: Path) -> list[str]:
    """Return the names of all constraints, those of files that are included first.

    The name is what stands behind ``constraint ::``, else file and line.
    """
    return [name for name, _, _ in _constraints(formulation)]


@contextmanager
def first_constraints(formulation: Path, many: int) -> Iterator[Path]:
    """Yield a formulation with the first so many of its constraints only; its files live in the block."""
    with tempfile.TemporaryDirectory() as folder:
        for other in formulation.parent.glob("*.mzn"):
            shutil.copy(other, folder)
        for _, file, item in reversed(_constraints(formulation)[many:]):
            copy = Path(folder, file.name)
            text = copy.read_text("utf-8")
            copy.write_text(text[: item.start()] + text[item.end() :], "utf-8")
        yield Path(folder, formulation.name)


def _constraints(formulation: Path) -> list[tuple[str, Path, re.Match[str]]]:
    found = []
    for file in reversed(files(formulation)):
        text = file.read_text("utf-8")
        for item in CONSTRAINT.finditer(text):
            name = NAME.match(item[0])
            line = text.count("\n", 0, item.start()) + 1
            found.append((name[1] if name else f"{file.name}, line {line}", file, item))
    return found
