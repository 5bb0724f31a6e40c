"""The text of MiniZinc formulations: what they use, and each of their constraints left out in turn."""

from __future__ import annotations

import re
import shutil
import tempfile
from collections.abc import Iterator
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


def without_each_constraint(formulation: Path) -> Iterator[tuple[str, Path]]:
    """Yield a formulation without one of its constraints, and that one's name, for each of them.

    The name is what stands behind ``constraint ::``, else file and line. Files live until the next one.
    """
    for file in files(formulation):
        text = file.read_text("utf-8")
        for item in CONSTRAINT.finditer(text):
            name = NAME.match(item[0])
            line = text.count("\n", 0, item.start()) + 1
            with tempfile.TemporaryDirectory() as folder:
                for other in formulation.parent.glob("*.mzn"):
                    shutil.copy(other, folder)
                Path(folder, file.name).write_text(text[: item.start()] + text[item.end() :], "utf-8")
                yield name[1] if name else f"{file.name}, line {line}", Path(folder, formulation.name)
