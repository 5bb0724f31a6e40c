"""Compiled kernels, and where they are kept: a place that depends on the content of all their sources.

Numba notices a change in the file of the function that it has compiled, but not in the files of functions and
constants that this one uses. So each kernel's place is named after a digest of its own module and of all of
tilewright's modules that this one imports, directly or through others: no change can leave a stale kernel.

Importing this module imports numba; only modules with kernels do.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numba

IMPORT = re.compile(r"^(?:from (tilewright[\w.]*) import (\([^)]*\)|[^\n]*)|import (tilewright[\w.]*))", re.M)
"""An import at the top of a module: those in functions cannot be reached from compiled code."""

_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

inner: Any = numba.njit(**_INNER)
"""For functions that only compiled ones call: without the ways in from Python they compile faster."""

lean: Any = numba.njit(**_INNER, _nrt=False)
"""For those of them that allocate nothing: references to arrays are not counted, which takes long."""

inlined: Any = numba.njit(**_INNER, _nrt=False, forceinline=True)
"""For parts of a lean function that do less than handing over their arguments takes."""

recursive: Any = numba.njit
"""For what calls itself, which numba cannot load again once it is compiled."""


def kernel(**options: Any) -> Callable[[Any], Any]:
    """Compile a function on its first call, or load it if its sources have been compiled as they are.

    Parameters
    ----------
    **options
        Of ``numba.njit``, for example ``nogil=True``.

    Returns
    -------
    callable
        A decorator.
    """

    def decorate(function: Any) -> Any:
        with _cache_folder(_place(function.__module__)):
            return numba.njit(cache=True, **options)(function)

    return decorate


def sources(module: str) -> dict[str, Path]:
    """Return the files that a module's kernels may be made of, by the names of their modules.

    Parameters
    ----------
    module
        Name of an imported module.
    """
    files: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        path = getattr(sys.modules.get(name), "__file__", None)
        if path is not None and name not in files:
            files[name] = Path(path)
            waiting += _imported(Path(path))
    return files


@cache
def _imported(path: Path) -> tuple[str, ...]:
    """Return the names in a file's imports that may be modules of tilewright's."""
    names: list[str] = []
    for package, members, module in IMPORT.findall(path.read_text("utf-8")):
        names.append(package or module)
        names += [f"{package}.{member}" for member in re.findall(r"(\w+)(?: as \w+)?", members) if package]
    return tuple(names)


def _place(module: str) -> Path:
    """Return the folder for a module's compiled kernels; those of other contents are removed."""
    files = sources(module)
    content = hashlib.sha256()
    for name in sorted(files):
        content.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    home = _home(files[module].parent)
    place = home / f"{module}-{content.hexdigest()[:16]}"
    if not place.is_dir():
        for stale in home.glob(f"{module}-*"):
            shutil.rmtree(stale, ignore_errors=True)
    return place


def _home(folder: Path) -> Path:
    """Return where compiled code may be written: beside its source, in the user's cache, or for once only."""
    if chosen := os.environ.get("NUMBA_CACHE_DIR"):
        return Path(chosen)
    if os.access(folder, os.W_OK):
        return folder / "__pycache__"
    users = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tilewright"
    try:
        users.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.gettempdir())
    return users if os.access(users, os.W_OK) else Path(tempfile.gettempdir())


@contextmanager
def _cache_folder(place: Path) -> Iterator[None]:
    """Let numba choose a folder for what is decorated meanwhile."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(place)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
