"""A file of answers that processes share while they work: what one has found, the others need not look for.

A line is one of a journal (`tilewright.run.batch.journal`), appended whole under a lock that ends with the
writer's process. A line that is not as it was written is passed over. A file that cannot be read or written
is as one that nobody else has written to: it is a help, and never an error.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tilewright.run.batch.journal import sealed, unsealed

MOST = 100_000
"""Answers of which a process knows where they stand; the oldest are forgotten."""

PIECE = 2**20
"""Bytes that are read at a time."""

LONGEST_LINE = 2**24

WRITING, CLAIMS = 0, 1
"""Bytes of the file, written or not, that stand for locks: of who appends, and from where on of each key."""

WAITS = 0.005, 0.1
"""Shortest and longest seconds between two looks whether another process is done."""


class SharedAnswers:
    """Answers by keys, of which the last one counts.

    Parameters
    ----------
    path
        Made when the first answer is written.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._places: OrderedDict[str, tuple[int, int]] = OrderedDict()
        self._end = 0
        self._file: int | None = None
        self._inside = threading.RLock()  # locks of files are between processes, not between threads

    def get(self, key: str) -> dict[str, Any] | None:
        """Return what was last written under a key by any process, None where nothing was."""
        with self._inside, contextlib.suppress(OSError, ValueError):
            if not self._opened(create=False):
                return None
            self._look()
            if key in self._places:
                begin, length = self._places[key]
                assert self._file is not None
                line = os.pread(self._file, length, begin)
                found = unsealed(line)
                if found is not None and found["key"] == key:
                    return found
                self._forget()  # somebody has written over it
        return None

    def append(self, key: str, answer: dict[str, Any]) -> None:
        """Write an answer down, for all processes."""
        line = sealed(key, answer)
        if len(line) > LONGEST_LINE:
            return
        with self._inside, contextlib.suppress(OSError):
            self._opened(create=True)
            assert self._file is not None
            fcntl.lockf(self._file, fcntl.LOCK_EX, 1, WRITING)
            try:
                end = os.fstat(self._file).st_size
                if end and os.pread(self._file, 1, end - 1) != b"\n":
                    line = b"\n" + line  # behind a line that was cut off
                os.write(self._file, line)
            finally:
                fcntl.lockf(self._file, fcntl.LOCK_UN, 1, WRITING)

    @contextlib.contextmanager
    def claimed(self, key: str, deadline: float) -> Iterator[bool]:
        """Be the only process that looks for the answer to a key; wait for another one that does.

        A claim ends with its process. Threads of one process do not wait for each other.

        Parameters
        ----------
        deadline
            ``time.monotonic()`` up to which to wait.

        Yields
        ------
        bool
            Whether no other process is at it, as far as can be known.
        """
        place = CLAIMS + int(key[:12], 16)
        free = True
        with contextlib.suppress(OSError):
            with self._inside:
                self._opened(create=True)
            free = self._wait(place, deadline)
        try:
            yield free
        finally:
            if free and self._file is not None:
                with contextlib.suppress(OSError):
                    fcntl.lockf(self._file, fcntl.LOCK_UN, 1, place)

    def _wait(self, place: int, deadline: float) -> bool:
        assert self._file is not None
        seconds = WAITS[0]
        while True:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, place)
                return True
            except BlockingIOError:
                left = deadline - time.monotonic()
                if left <= 0:
                    return False
                time.sleep(min(seconds, left))
                seconds = min(WAITS[1], 1.5 * seconds)

    def _opened(self, *, create: bool) -> bool:
        """Open the file, which then stays open: closing it would end all of this process's locks."""
        if self.is_gone:
            self.close()
        if self._file is None:
            how = os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | (os.O_CREAT if create else 0)
            with contextlib.suppress(FileNotFoundError) if not create else contextlib.nullcontext():
                self._file = os.open(self.path, how, 0o666)
        return self._file is not None

    @property
    def is_gone(self) -> bool:
        """Whether somebody has removed the file."""
        return self._file is not None and not os.fstat(self._file).st_nlink

    def close(self) -> None:
        """Forget what is known of the file, and all claims."""
        with self._inside:
            if self._file is not None:
                os.close(self._file)
            self._file = None
            self._forget()

    def _forget(self) -> None:
        self._end = 0
        self._places.clear()

    def _look(self) -> None:
        """Note where the lines stand that have been appended since."""
        assert self._file is not None
        size = os.fstat(self._file).st_size
        if size < self._end:
            self._forget()
        left = b""
        while self._end + len(left) < size:
            piece = os.pread(self._file, PIECE, self._end + len(left))
            if not piece:
                break
            *lines, left = (left + piece).split(b"\n")
            for line in lines:
                found = unsealed(line)
                if found is not None:
                    key = found["key"]
                    self._places.pop(key, None)
                    self._places[key] = self._end, len(line)
                    if len(self._places) > MOST:
                        self._places.popitem(last=False)
                self._end += len(line) + 1
            if len(left) > LONGEST_LINE:
                self._end, left = self._end + len(left), b""


_files: dict[str, SharedAnswers] = {}
_lock = threading.Lock()


def shared_answers(path: str | Path) -> SharedAnswers:
    """Return the answers of a file, in one process always the same."""
    key = os.path.abspath(path)
    with _lock:
        for other in [other for other, answers in _files.items() if answers.is_gone]:
            _files.pop(other).close()
        return _files.setdefault(key, SharedAnswers(key))
