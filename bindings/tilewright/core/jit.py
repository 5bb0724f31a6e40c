"""Compiled kernels, and where they are kept: a place that depends on the content of all their sources.

Numba notices a change in the file of the function that it has compiled, but not in the files of functions and
constants that this one uses. So each kernel's place is named after a digest of its own module and of all of
tilewright's modules that this one imports, directly or through others: no change can leave a stale kernel.

Kernels run as the Python that they are written in, too: inside `uncompiled`, and where the environment
variable ``NUMBA_DISABLE_JIT`` is set. A small problem is solved that way before numba is imported.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np

from tilewright.core import kernel_cache

IMPORT = re.compile(r"^(?:from (tilewright[\w.]*) import (\([^)]*\)|[^\n]*)|import (tilewright[\w.]*))", re.M)
"""An import at the top of a module: those in functions cannot be reached from compiled code."""

KEPT: dict[str, Path] = {}
"""Folders of compiled kernels, by the modules whose kernels have run compiled in this process."""

UNKEPT: list[Exception] = []
"""Why compiled kernels could not be kept."""


_uncompiled = 0
"""How many blocks of `uncompiled` this process is in."""

_counting = threading.Lock()
"""Held while that number changes: threads enter and leave blocks side by side."""


@contextmanager
def uncompiled() -> Iterator[None]:
    """Let kernels run as Python meanwhile, in all threads: slower, with the same answers."""
    global _uncompiled
    with _counting:
        _uncompiled += 1
    try:
        with np.errstate(over="ignore"):  # of hashes
            yield
    finally:
        with _counting:
            _uncompiled -= 1


def runs_uncompiled() -> bool:
    """Whether kernels of this process run as Python now."""
    return _uncompiled > 0


class Kernel:
    """A function that runs compiled, or as it is.

    Parameters
    ----------
    function
        What is compiled. It may call other kernels.
    options
        Of ``numba.njit``.
    kept
        Whether what is compiled is kept in a file.
    """

    def __init__(self, function: Any, options: dict[str, Any], *, kept: bool = False) -> None:
        functools.update_wrapper(self, function)
        self._function, self._options, self.kept = function, options, kept

    def __call__(self, *arguments: Any) -> Any:
        """Run the function."""
        if _uncompiled or kernel_cache.disabled():
            return self.plain(*arguments)
        return self.compiled(*arguments)

    @functools.cached_property
    def plain(self) -> Any:
        """The function as it is, which calls others as they are: many take no longer than `__call__`."""
        of = self._function
        return FunctionType(of.__code__, _plain_names(of.__globals__), of.__name__, of.__defaults__)

    @property
    def signatures(self) -> list[Any]:
        """The types of arguments for which the function has been compiled."""
        return self.compiled.signatures if "compiled" in vars(self) else []

    @functools.cached_property
    def compiled(self) -> Any:
        """Numba's form of the function, which is compiled or loaded on its first call."""
        _teach_numba()
        import numba  # for start-up time

        compiled = numba.njit(**self._options)(self._function)
        template = compiled.get_call_template
        compiled.get_call_template = lambda types, kws: template(tuple(map(_widened, types)), kws)
        place = _place(self._function.__module__) if self.kept else None
        if place is not None:
            KEPT[self._function.__module__] = place
            with _cache_folder(place), suppress(RuntimeError):  # numba's, if the folder cannot be made
                compiled._cache = _cache(self._function)
        return compiled


_PLAIN = "__plain_kernels__"
"""Where a module keeps what its names mean while kernels run as Python."""


def _plain_names(names: dict[str, Any]) -> dict[str, Any]:
    """Return a module's names, with functions instead of kernels."""
    found: dict[str, Any] | None = names.get(_PLAIN)
    if found is None:
        found = names[_PLAIN] = {}  # before it is filled, as kernels call each other
        found.update({name: each.plain if isinstance(each, Kernel) else each for name, each in names.items()})
    return found


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
    return lambda function: Kernel(function, options, kept=True)


_INNER = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}


def inner(function: Any) -> Any:
    """Make a kernel that only kernels call: without the ways in from Python it compiles faster."""
    return Kernel(function, _INNER)


def lean(function: Any) -> Any:
    """Make an inner kernel that allocates nothing: references to arrays are not counted, which takes long."""
    return Kernel(function, {**_INNER, "_nrt": False})


def inlined(function: Any) -> Any:
    """Make a lean kernel that does less than handing over its arguments takes."""
    return Kernel(function, {**_INNER, "_nrt": False, "forceinline": True})


def recursive(function: Any) -> Any:
    """Make a kernel that calls itself, which numba cannot load again once it is compiled."""
    return Kernel(function, {})


def popcount(word: Any) -> int:
    """Count the bits of a word of 64 bits; compiled, by one instruction of the processor."""
    return int(word).bit_count()


@cache
def _teach_numba() -> None:
    """Let numba know kernels and `popcount` where compiled functions use them."""
    from numba import types  # for start-up time
    from numba.extending import intrinsic, overload, typeof_impl

    @typeof_impl.register(Kernel)
    def _(kernel: Kernel, _context: Any) -> Any:
        return types.Dispatcher(kernel.compiled)

    @intrinsic
    def ones(_context: Any, _word: Any) -> Any:
        return types.int64(types.uint64), lambda _c, builder, _s, words: builder.ctpop(words[0])

    @overload(popcount)
    def _(word):  # type: ignore[no-untyped-def]  # numba compares it with what it returns
        return lambda word: ones(word)


def _widened(given: Any) -> Any:
    """Return the type of an argument that a kernel is compiled for: of all integers, not of the figure 0.

    A function would be compiled anew for each figure and each member of an enumeration that it is given.
    """
    from numba import types  # for start-up time

    if isinstance(given, types.IntEnumMember):
        return given.dtype
    if type(given) in (types.Tuple, types.UniTuple):
        return types.BaseTuple.from_types([_widened(each) for each in given])
    return types.unliteral(given)


def _cache(function: Any) -> Any:
    """Return numba's cache of a function, whose faults are no faults of a call: of a broken file, say."""
    from numba.core.caching import FunctionCache  # for start-up time

    class Cache(FunctionCache):  # type: ignore[misc]
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

    return Cache(function)


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
    import numba  # for start-up time

    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = str(place)
    try:
        yield
    finally:
        numba.config.CACHE_DIR = before
