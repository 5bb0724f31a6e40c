"""What has been done already: a file to which answers are appended as they come, and that outlives a kill.

A line is one JSON object, ``{"format": 1, "key": ..., "result": {...}, "sha256": ...}``, written whole by one
system call; the digest is of all before it. A line that is not whole, as where a machine has lost its power
or somebody has changed it, counts as not written, and is told. Nothing of the others is believed: whoever
reads one computes it anew, as far as that needs no search.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tilewright.core.files import unwritable
from tilewright.spec.errors import InputError

FORMAT = 1

SEAL = re.compile(rb', "sha256": "([0-9a-f]{64})"\}\n?$')
"""The end of a line, behind what it seals."""

BEGINNING = b'{"format": '

Tell = Callable[[str], None]
"""Called with a sentence."""


def sealed(key: str, answer: dict[str, Any]) -> bytes:
    """Return the line of an answer."""
    text = json.dumps({"format": FORMAT, "key": key, **answer}, allow_nan=False).encode()
    return text[:-1] + f', "sha256": "{hashlib.sha256(text).hexdigest()}"}}\n'.encode()


def unsealed(line: bytes, *, older: bool = False) -> dict[str, Any] | None:
    """Return what a line says, its key among that; None if it is not whole.

    Parameters
    ----------
    older
        Whether lines without a digest are taken, too.
    """
    seal = SEAL.search(line)
    if seal is None and not older:
        return None
    text = line if seal is None else line[: seal.start()] + b"}"
    if seal is not None and hashlib.sha256(text).hexdigest().encode() != seal[1]:
        return None
    try:
        data: dict[str, Any] = json.loads(text)
        return data if data["format"] == FORMAT and isinstance(data["key"], str) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


class Journal:
    """Answers by the keys of their tasks, in a file; open it as a context.

    Only where lines stand is kept in memory, so that a million of them fit.

    Parameters
    ----------
    path
        Made if it is not there. One process at a time has it.
    tell
        Called for each line that counts for nothing.

    Raises
    ------
    InputError
        If it is no journal, or another process has it.
    OutputError
        If it cannot be written.
    """

    def __init__(self, path: str | Path, tell: Tell = lambda _sentence: None) -> None:
        self.path, self._tell = Path(path), tell
        self._places: dict[str, tuple[int, int, int]] = {}
        self._lines = 0
        try:
            self._file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise unwritable(self.path, error) from error
        try:
            self._lock()
            self._read()
        except BaseException:
            os.close(self._file)
            raise

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: object, _trace: TracebackType | None
    ) -> None:
        os.close(self._file)

    def __len__(self) -> int:
        return len(self._places)

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what stands under a key, None where nothing does."""
        if key not in self._places:
            return None
        begin, length, _ = self._places[key]
        return unsealed(os.pread(self._file, length, begin), older=True)

    def doubt(self, key: str, why: str) -> None:
        """Forget what stands under a key, since it is not so, and tell it."""
        self._tell(f"{self.path}, line {self._places.pop(key)[2]} counts for nothing: {why}")

    def append(self, key: str, answer: dict[str, Any]) -> None:
        """Write an answer down; when this returns, no end of this process loses it."""
        line = sealed(key, answer)
        begin = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a disk that is full says so at the second try
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._lines += 1
        self._places[key] = begin, len(line), self._lines

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("journal", str(self.path), "another run is writing it") from None
        except OSError:  # a file system without locks
            pass

    def _read(self) -> None:
        """Note where whole lines stand; cut off a last one that was not written to its end."""
        begin, broken, foreign = 0, [], False
        line = b"\n"
        with open(self.path, "rb") as file:
            for line in file:
                self._lines += 1
                data = unsealed(line, older=True) if line.endswith(b"\n") else None
                if data is not None:
                    self._places[data["key"]] = begin, len(line), self._lines
                else:
                    broken.append(self._lines)
                    foreign = foreign or not line.startswith(BEGINNING[: len(line.rstrip(b"\n"))])
                begin += len(line)
        if foreign and not self._places:
            limit = f"is no journal: it has no line of format {FORMAT}"
            raise InputError("journal", self.path.name, limit, str(self.path))
        for number in broken:
            self._tell(f"{self.path}, line {number} counts for nothing: it is not as it was written")
        if not line.endswith(b"\n") and line.startswith(BEGINNING[: len(line)]):
            os.ftruncate(self._file, begin - len(line))
            self._lines -= 1
        elif not line.endswith(b"\n"):
            os.write(self._file, b"\n")


@contextlib.contextmanager
def opened(path: str | Path | None, tell: Tell) -> Iterator[Journal | None]:
    """Open a journal where one is wanted; `tell` is called for each line that counts for nothing."""
    if path is None:
        yield None
    else:
        with Journal(path, tell) as journal:
            yield journal
