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
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache

from tilewright.core import kernel_cache

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

KEPT: dict[str, Path] = {}
"""Folders of the compiled kernels of the modules that have been imported."""

UNKEPT: list[Exception] = []
"""Why compiled kernels could not be kept."""


class _Cache(FunctionCache):  # type: ignore[misc]
    """Numba's cache, whose faults are no faults of a call: of a broken file or a full disk, say."""

    def load_overload(self, *arguments: Any) -> Any:
        try:
            return super().load_overload(*arguments)
        except Exception:
            with suppress(OSError):
                self.flush()  # nothing is found in an index that is broken, or leads to what is
            return None  # so it is compiled

    def save_overload(self, *arguments: Any) -> None:
        try:
            super().save_overload(*arguments)
        except Exception as error:
            UNKEPT.append(error)


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
        compiled = numba.njit(**options)(function)
        place = _place(function.__module__)
        if place is not None:
            KEPT[function.__module__] = place
            with _cache_folder(place), suppress(RuntimeError):  # numba's, if the folder cannot be made
                compiled._cache = _Cache(function)
        return compiled

    return decorate


def compiled_files() -> list[Path]:
    """Return the files of all kernels that are kept, and the sources that they are made of."""
    files = {path for module in KEPT for path in sources(module).values()}
    return sorted([*files, *(path for place in KEPT.values() for path in place.rglob("*.nb[ci]"))])


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
            if name != __name__:  # what this module imports finds files, and compiles nothing
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


def _place(module: str) -> Path | None:
    """Return the folder for a module's compiled kernels, None if there can be none.

    Those of other contents are removed. What lies where it can only be read is copied.
    """
    files = sources(module)
    content = hashlib.sha256()
    for name in sorted(files):
        content.update(name.encode() + b"\0" + files[name].read_bytes() + b"\0")
    folder = files[module].parent
    home = kernel_cache.home(folder)
    if home is None:
        return None
    place = home / f"{module}-{content.hexdigest()[:16]}"
    if not place.is_dir():
        for stale in home.glob(f"{module}-*"):
            if stale != place:  # which another process may just have made
                shutil.rmtree(stale, ignore_errors=True)
        for other in kernel_cache.homes(folder):
            if (other / place.name).is_dir():
                _copy(other / place.name, place)
                break
    return place


def _copy(folder: Path, place: Path) -> None:
    """Copy a folder so that the copy is there complete or not at all."""
    with suppress(OSError, shutil.Error):
        copy = tempfile.mkdtemp(dir=place.parent, prefix=f"{place.name}-")
        try:
            shutil.copytree(folder, copy, dirs_exist_ok=True)
            os.rename(copy, place)
        finally:
            shutil.rmtree(copy, ignore_errors=True)


@contextmanager
def _cache_folder(place: Path) -> Iterator[None]:
    """Let numba choose a folder for what is decorated meanwhile."""
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(place)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
