"""Where compiled kernels are kept, and whether all that a method needs has been compiled.

For each method whose kernels have been compiled, a note names the sources that they were made of and the
files that hold them. While none of these has changed, the method compiles nothing.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import re
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tilewright.core.files import write_atomically
from tilewright.core.locations import PACKAGE

TEMPORARY = "TILEWRIGHT_TMPDIR"
"""Variable of a worker's environment: where temporary files are for the process that started it."""


def disabled() -> bool:
    """Whether kernels are never compiled, by the environment variable ``NUMBA_DISABLE_JIT``."""
    return os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")


COMPILED = (".nbi", ".nbc")
"""Endings of the files in which numba keeps what it has compiled: an index, and code."""


class Unit(NamedTuple):
    """What is compiled together.

    Attributes
    ----------
    room
        Name of a room.
    method
        One of its methods, or an empty string for what all of them use.
    source
        File whose function ``compile_kernels`` does it.
    """

    room: str
    method: str
    source: Path

    def __str__(self) -> str:
        return f"{self.room} {self.method}".strip()


def homes(folder: Path) -> list[Path]:
    """Return where compiled code of a folder may be, in the order in which it is looked for.

    That is beside the source and in the user's cache, or instead where the environment variable
    ``NUMBA_CACHE_DIR`` says; last comes a temporary folder.
    """
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    users = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "tilewright"
    found = [Path(chosen)] if chosen else [folder / "__pycache__", users]
    return [*found, _temporary()] if is_private(_temporary()) else found


def home(folder: Path) -> Path | None:
    """Return the first of `homes` that files can be written to, None if there is none."""
    with contextlib.suppress(StopIteration):
        return next(filter(_writable, homes(folder)))
    with contextlib.suppress(OSError):
        _temporary().mkdir(mode=0o700)
    return _temporary() if is_private(_temporary()) else None


def _writable(folder: Path) -> bool:
    """Whether files can be written to a folder, which is made if need be."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
        return os.access(folder, os.W_OK | os.X_OK)
    return False


def _temporary() -> Path:
    try:
        base = os.environ.get(TEMPORARY) or tempfile.gettempdir()
    except OSError:
        base = os.devnull  # below which there is nothing
    return Path(base) / f"tilewright-kernels-{os.getuid()}"


def is_private(folder: Path) -> bool:
    """Whether a folder is there and nobody else may write to it, and so have code run by this user."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022


def is_compiled(unit: Unit) -> bool:
    """Whether all kernels of a unit have been compiled from what their sources are now."""
    return any(_holds(place / _name(unit)) for place in homes(PACKAGE))


def _holds(note: Path) -> bool:
    """Whether a note is there and what it names is as it was."""
    try:
        noted = json.loads(note.read_text("utf-8"))
        return all(_is_whole(path, stamp) for path, stamp in noted.items())
    except (OSError, ValueError, AttributeError):  # none yet, or none of ours
        return False


def _is_whole(path: str, noted: list[int]) -> bool:
    """Whether a source is as it was noted, or a compiled file at least as long: other processes add to it."""
    found = _stamp(path)
    return found[0] >= noted[0] if Path(path).suffix in COMPILED else found == noted


def note_compiled(unit: Unit, files: Iterable[Path]) -> None:
    """Note that a unit's kernels have been compiled: from some of these files, into the others."""
    place = home(PACKAGE)
    if place is not None:
        content = json.dumps({str(path): _stamp(str(path)) for path in (unit.source, *files)})
        write_atomically(place / _name(unit), content)


@contextlib.contextmanager
def lock(name: str) -> Iterator[None]:
    """Wait until no other process compiles what has this name, and keep others waiting."""
    place = home(PACKAGE)
    if place is None:
        yield
        return
    with open(place / f"compiling-{name}.lock", "w") as file:
        with contextlib.suppress(OSError):  # of file systems without locks: what is compiled twice is sound
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _name(unit: Unit) -> str:
    return f"compiled-{unit.room}-{unit.method}-{_digest([str(unit.source), *_machine()])}.json"


def _stamp(path: str) -> list[int]:
    """Return what changes whenever a file does."""
    found = os.stat(path)
    return [found.st_size, found.st_mtime_ns]


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _machine() -> list[str]:
    """Return what compiled code depends on beside its sources."""
    settings = [
        f"{name}={value}"
        for name, value in sorted(os.environ.items())
        if name.startswith("NUMBA_") and name != "NUMBA_CACHE_DIR"
    ]
    return [sys.version, *_compiler(), _processor(), *settings]


@cache
def _compiler() -> list[str]:
    """Return where the compiler lies, and what changes whenever it does; it is not imported for that."""
    found = [find_spec(name) for name in ("numba", "llvmlite")]
    origins = [spec.origin for spec in found if spec is not None and spec.origin is not None]
    return [*origins, *(str(_stamp(origin)) for origin in origins)]


@cache
def _processor() -> str:
    """Return model and features of the processor, for which code is compiled."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            text = file.read(1 << 14)
    except OSError:
        return platform.processor()
    firsts = (re.search(rf"^{key}\s*:.*$", text, re.MULTILINE) for key in ("model name", "flags", "Features"))
    return "\n".join(found.group() for found in firsts if found)
