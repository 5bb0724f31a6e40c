"""What has been done already: a file to which answers are appended as they come, and that outlives a kill.

A line is one JSON object, ``{"format": 1, "key": ..., "result": {...}}``, written whole by one system call.
The last line may be cut off where a machine has lost its power or a disk was full: it counts as not written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

from tilewright.core.files import unwritable
from tilewright.spec.errors import InputError

FORMAT = 1


class Journal:
    """Answers by the keys of their tasks, in a file; open it as a context.

    Only where lines stand is kept in memory, so that a million of them fit.

    Parameters
    ----------
    path
        Made if it is not there. One process at a time has it.

    Raises
    ------
    InputError
        If it is no journal, or another process has it.
    OutputError
        If it cannot be written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._places: dict[str, tuple[int, int]] = {}
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
        begin, length = self._places[key]
        found: dict[str, Any] = json.loads(os.pread(self._file, length, begin))
        return found

    def append(self, key: str, answer: dict[str, Any]) -> None:
        """Write an answer down; when this returns, no end of this process loses it."""
        line = json.dumps({"format": FORMAT, "key": key, **answer}, allow_nan=False).encode() + b"\n"
        begin = os.fstat(self._file).st_size
        try:
            written = os.write(self._file, line)
            while written < len(line):  # a disk that is full says so at the second try
                written += os.write(self._file, line[written:])
        except OSError as error:
            raise unwritable(self.path, error) from error
        self._places[key] = begin, len(line)

    def _lock(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError("journal", str(self.path), "another run is writing it") from None
        except OSError:  # a file system without locks
            pass

    def _read(self) -> None:
        """Note where lines stand, and cut off one that was not written to its end."""
        begin = 0
        with open(self.path, "rb") as file:
            for line in file:
                if not line.endswith(b"\n"):
                    os.ftruncate(self._file, begin)
                    return
                self._places[self._key(line, begin)] = begin, len(line)
                begin += len(line)

    def _key(self, line: bytes, begin: int) -> str:
        try:
            data = json.loads(line)
            if data["format"] == FORMAT and isinstance(data["key"], str):
                return str(data["key"])
        except (ValueError, KeyError, TypeError, RecursionError):
            pass
        limit = f"is no journal: byte {begin} begins no line of format {FORMAT}"
        raise InputError("journal", self.path.name, limit, str(self.path))


@contextlib.contextmanager
def opened(path: str | Path | None) -> Iterator[Journal | None]:
    """Open a journal where one is wanted."""
    if path is None:
        yield None
    else:
        with Journal(path) as journal:
            yield journal
