"""Files that are written complete or not at all, and files that are read with suspicion."""

from __future__ import annotations

import codecs
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from tilewright.spec.errors import InputError, OutputError

UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

RUN_BY_SPREADSHEETS = ("=", "+", "-", "@", "\t", "\r")
"""Beginnings of cells that spreadsheets take for formulas."""

PROBE = bytes(4096)
"""What is written, and removed, to see whether a folder takes files."""


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there complete or not at all, whatever happens meanwhile.

    Raises
    ------
    OutputError
        If it cannot be written; says why.
    """
    _refuse_other_than_files(path)
    try:
        target = path.resolve()  # a link stays, its target is replaced
        _replace(target, content.encode() if isinstance(content, str) else content)
    except (OSError, ValueError, RuntimeError) as error:  # links in a circle are a RuntimeError
        raise unwritable(path, error) from error


def _replace(target: Path, content: bytes) -> None:
    handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".tilewright-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is as readable as any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Refuse an output path that cannot be written, before any work is done for it.

    A file of some bytes is written beside it, which says more than permissions do: of file systems that
    are full or for reading only, of limits of this process.

    Raises
    ------
    OutputError
        Says why.
    """
    _refuse_other_than_files(path)
    try:
        target = path.resolve()
        if target.exists() and not os.access(target, os.W_OK):
            raise OutputError("output", str(path), "is for reading only")
        if not target.parent.is_dir():
            raise OutputError("output", str(path), "its folder does not exist")
        handle, temporary = tempfile.mkstemp(dir=target.parent, prefix=".tilewright-")
        try:
            os.write(handle, PROBE)
        finally:
            os.close(handle)
            Path(temporary).unlink(missing_ok=True)
    except OutputError:
        raise
    except (OSError, ValueError, RuntimeError) as error:
        raise unwritable(path, error) from error


def _refuse_other_than_files(path: Path) -> None:
    try:
        target = path.resolve()
        if not target.exists() or target.is_file():
            return
        what = "is a folder" if target.is_dir() else "is no regular file; --json prints to standard output"
    except (OSError, ValueError, RuntimeError) as error:
        raise unwritable(path, error) from error
    raise OutputError("output", str(path), what)


def unwritable(path: Path | str, error: Exception) -> OutputError:
    """Return the error of a file that the system does not write."""
    return OutputError("output", str(path), f"cannot be written: {reason(error)}")


def reason(error: Exception) -> str:
    """Return what the system says of an error, as a part of a sentence."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return said[:1].lower() + said[1:] if said else type(error).__name__


def same_file(first: Path | str, second: Path | str) -> bool:
    """Whether two paths lead to one file, through whatever links, or would if it existed."""
    try:
        if os.path.samefile(first, second):
            return True
    except (OSError, ValueError):  # at least one of them is not there
        pass
    try:
        return Path(first).resolve() == Path(second).resolve()
    except (OSError, ValueError, RuntimeError):
        return False


def refuse_inputs(output: Path | str, inputs: Iterable[Path | str], what: str = "output") -> None:
    """Refuse to write over a file that is read.

    Raises
    ------
    OutputError
        Names the file that would be lost.
    """
    for path in inputs:
        if same_file(output, path):
            shown = "which is read here" if str(path) == str(output) else f"the same file as {path}, an input"
            raise OutputError(what, str(output), f"would be written over: {shown}")


def as_text(cell: str) -> str:
    """Return a cell of a table so that spreadsheets take it for a text: they run what begins as a formula."""
    return f"'{cell}" if cell.startswith((*RUN_BY_SPREADSHEETS, "'")) else cell


def without_apostrophe(cell: str) -> str:
    """Return what `as_text` has made a cell of."""
    made = cell.startswith(tuple(f"'{sign}" for sign in (*RUN_BY_SPREADSHEETS, "'")))
    return cell[1:] if made else cell


def exists(path: Path) -> bool:
    """Whether there is such a file or folder; a name that no file system takes names none."""
    try:
        return path.exists()
    except (OSError, ValueError):
        return False


def read_text(path: Path, most: int) -> str:
    """Read a file of UTF-8 text, with or without a byte order mark.

    Raises
    ------
    InputError
        If it is longer than `most` bytes, cannot be read, or is text of another encoding; names which.
    """
    try:
        if not path.is_file():
            raise InputError("file", str(path), "is not a file", str(path))
        size = path.stat().st_size
        if size > most:
            raise InputError("file size", size, f"at most {most} bytes", str(path))
        with path.open("rb") as file:
            content = file.read(most + 1)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError("file", path.name, f"cannot be read: {reason(error)}", str(path)) from None
    if len(content) > most:  # of devices and pipes, which have no size
        raise InputError("file size", len(content), f"at most {most} bytes", str(path))
    return _decoded(content, path)


def _decoded(content: bytes, path: Path) -> str:
    if content.startswith(UTF_16) or b"\0" in content[:2]:
        raise InputError("file", path.name, "is UTF-16 text; save it as UTF-8", str(path))
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        what = f"is not UTF-8 text, perhaps Latin-1: byte {content[error.start]:#04x} in line {line}"
        raise InputError("file", path.name, f"{what}; save it as UTF-8", str(path)) from None
