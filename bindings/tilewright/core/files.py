"""Files that are written complete or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from tilewright.spec.errors import InputError


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write a file so that it is there complete or not at all, whatever happens meanwhile."""
    check_writable(path)
    path = path.resolve()  # a link stays, its target is replaced
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        # mkstemp makes private files; a result is as readable as any other file.
        umask = os.umask(0)
        os.umask(umask)
        os.chmod(temporary, 0o666 & ~umask)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def check_writable(path: Path) -> None:
    """Refuse an output path that cannot be written, before any work is done for it."""
    try:
        target = path.resolve()
        if target.exists() and not target.is_file():
            what = (
                "is a folder" if target.is_dir() else "is no regular file; --json prints to standard output"
            )
            raise InputError("output", str(path), what)
        writable = target.parent.is_dir() and os.access(target.parent, os.W_OK)
    except (OSError, ValueError, RuntimeError):  # names that no file system takes, links in a circle
        writable = False
    if not writable:
        raise InputError("output", str(path), "its folder does not exist or is not writable")
