"""C projects that are written to a folder, compiled and run."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

STRICT = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", "-Isrc", "-pthread")
CHECKED = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


class Compiled:
    """A project that was compiled without a warning, and what it printed, line by line in columns."""

    def __init__(self, folder: Path, files: Mapping[str, bytes], *flags: str) -> None:
        self.folder = folder
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        sources = sorted(str(path) for path in (folder / "src").glob("*.c"))
        self._run("gcc", *STRICT, *flags, "-o", "program", *sources, "-lm")
        self.lines = self.run()

    def run(self) -> list[list[str]]:
        """Return what the program prints, line by line in columns."""
        return [line.split("\t") for line in self._run("./program").splitlines()]

    def _run(self, *words: str) -> str:
        done = subprocess.run(words, cwd=self.folder, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def sections(self, source: str) -> dict[str, int]:
        """Return the bytes of each section of a compiled source, by name."""
        self._run("gcc", *STRICT, "-c", source, "-o", "object.o")
        rows = [line.split() for line in self._run("size", "-A", "object.o").splitlines()]
        return {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[1].isdigit()}

    def changed(self, path: str, before: str, after: str, *flags: str) -> str:
        """Return what the program says as it fails, with something else in one of its sources."""
        file = self.folder / "src" / path
        text = file.read_text()
        found = re.sub(before, after, text, count=1)
        assert found != text
        file.write_text(found)
        try:
            with pytest.raises(AssertionError) as failed:
                Compiled(self.folder, {}, *flags)
        finally:
            file.write_text(text)
        return str(failed.value)
