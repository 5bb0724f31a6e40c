"""Compile the kernels that methods need while no clock runs, once, in processes that no deadline kills.

A process of its own compiles, and numba keeps what it has compiled. Others that need the same wait for it, or
run uncompiled meanwhile.
"""

from __future__ import annotations

import atexit
import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

from tilewright.core import catalogue, kernel_cache
from tilewright.core.context import CONSTRUCT
from tilewright.core.failures import told
from tilewright.core.files import reason
from tilewright.core.kernel_cache import Unit
from tilewright.core.locations import PACKAGE
from tilewright.core.room import Room
from tilewright.run.instance import read
from tilewright.run.workers import processes

Tell = Callable[[str], None]
"""Called with a sentence for the user."""

TICK_SECONDS = 0.05
"""How often it is looked whether compiling has ended."""

_given_up: set[object] = set()
"""What could not be compiled ahead (`_as_it_is`); this process says so once, and does not try again."""


def units(room: str, methods: Iterable[str], problem: Any = None) -> list[Unit]:
    """Return what some methods of a room need compiled, as far as their texts tell.

    Parameters
    ----------
    methods
        Names, with `CONSTRUCT` for all constructive heuristics.
    problem
        What they run on; by default anything.
    """
    names: list[str] = []
    for method in methods:
        all_of_them = [name for name in catalogue.heuristics(room) if catalogue.constructs(room, name)]
        names += all_of_them if method == CONSTRUCT else [method]
    found = []
    own = catalogue.room(room)
    compiles = type(own).compile_kernels is not Room.compile_kernels
    if compiles and (problem is None or own.runs_compiled(problem)):
        found.append(Unit(room, "", Path(str(sys.modules[type(own).__module__].__file__))))
    for name in dict.fromkeys(names):
        source = catalogue.kernel_file(room, name)
        if source is not None:
            found.append(Unit(room, name, source))
    return found


def all_units() -> list[Unit]:
    """Return what all methods of all rooms need compiled."""
    return [
        unit
        for room in catalogue.ROOMS
        for unit in units(room, [*catalogue.heuristics(room), *catalogue.exact_methods(room)])
    ]


def missing(wanted: Iterable[Unit]) -> list[Unit]:
    """Return what is not compiled yet, or has been from other sources."""
    if kernel_cache.disabled():
        return []
    return [unit for unit in wanted if not kernel_cache.is_compiled(unit)]


def lacking(wanted: Iterable[Unit]) -> list[Unit]:
    """Return what is not compiled yet and can be, as far as is known."""
    return [unit for unit in missing(wanted) if _as_it_is(unit) not in _given_up]


def begin(wanted: Collection[Unit], tell: Tell, *, meanwhile: str = "") -> None:
    """Begin to compile what is not compiled yet; `ended` says when it is.

    Parameters
    ----------
    wanted
        What must be compiled.
    tell
        Called before compiling begins, and if it cannot.
    meanwhile
        What is done until it has ended, if anything is.
    """
    needed = lacking(wanted)
    if needed and kernel_cache.home(PACKAGE) is None:
        _given_up.update(map(_as_it_is, needed))
        tell(
            "no folder can be written to, so compiled code cannot be kept: every process compiles it again, "
            "within the time limit; the environment variable NUMBA_CACHE_DIR names a folder"
        )
    elif needed:
        done = f"; meanwhile {meanwhile}" if meanwhile else ""
        tell(f"compiling {_names(needed)}, once; the time limit does not count this{done}")
        _COMPILER.ask(needed)


def in_hand() -> tuple[str, float] | None:
    """Return what is being compiled, and for how many seconds something has been; None where nothing is."""
    units = _COMPILER.units
    return (_names(units), time.monotonic() - _COMPILER.since) if units else None


def ended(wanted: Collection[Unit], tell: Tell) -> bool:
    """Whether what has begun has ended, well or not; to be called again and again.

    Parameters
    ----------
    wanted
        What `begin` was given.
    tell
        Called if it has failed: kernels are then compiled where they are used.
    """
    try:
        _COMPILER.look(tell)
    except OSError as error:  # no process more, or no temporary file
        _COMPILER.stop()
        _give_up(lacking(wanted), reason(error), tell)
    return not _COMPILER.has(wanted)


def ensure(
    wanted: Collection[Unit], tell: Tell | None = None, on_tick: Callable[[], None] | None = None
) -> float:
    """Compile what is not compiled yet.

    Parameters
    ----------
    wanted
        What must be compiled.
    tell
        Called before compiling begins, and if it fails: kernels are then compiled where they are used.
    on_tick
        Called several times a second; raises to stop.

    Returns
    -------
    float
        Seconds that it took, about 0 where all was compiled.
    """
    began = time.monotonic()
    tell = tell or (lambda _text: None)
    try:
        with awaited(wanted):
            begin(wanted, tell)
            while not ended(wanted, tell):
                (on_tick or (lambda: None))()
                time.sleep(TICK_SECONDS)
    except BaseException:
        _COMPILER.stop(unless_awaited=True)
        raise
    return time.monotonic() - began


def awaited(wanted: Collection[Unit]) -> AbstractContextManager[None]:
    """Keep what is wanted from being stopped where another thread that waits for it, too, is interrupted."""
    return _COMPILER.awaited(wanted)


def _as_it_is(unit: Unit) -> object:
    """Return a unit with the time of its file, which a user may mend while this process goes on."""
    return unit, unit.source.stat().st_mtime_ns


def _names(some: Iterable[Unit]) -> str:
    return ", ".join(map(str, some))


def _batches(lacking: Iterable[Unit]) -> list[list[Unit]]:
    """Divide units among processes; a room's heuristics share kernels, so they stay together."""
    batches: dict[str, list[Unit]] = {}
    for unit in lacking:
        batches.setdefault(_kind(unit), []).append(unit)
    return list(batches.values())


def _kind(unit: Unit) -> str:
    """Return what distinguishes units that one process compiles from others."""
    exact = unit.method in catalogue.exact_methods(unit.room)
    return f"{unit.room}-{'exact' if exact else 'heuristics'}"


class _Process(NamedTuple):
    """A process that compiles a batch of units, and what it says."""

    batch: list[Unit]
    process: subprocess.Popen[bytes]
    said: IO[bytes]

    @classmethod
    def start(cls, batch: list[Unit]) -> _Process:
        """Start a process; it ends when this one does."""
        said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (`end` and `kill` close it)
        command = [sys.executable, "-m", "tilewright.run.workers.compiling", batch[0].room]
        process = subprocess.Popen(
            [*command, *(unit.method for unit in batch)],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=said,
            env=processes.environment(),
            start_new_session=True,  # Ctrl-C reaches the parent alone
        )
        return cls(batch, process, said)

    def end(self, tell: Tell) -> None:
        """Say what went wrong, if anything did."""
        self.process.communicate()
        self.said.seek(0)
        lines = self.said.read().decode(errors="replace").strip().splitlines()
        self.said.close()
        failed = missing(self.batch)
        if failed:
            _give_up(failed, lines[-1] if lines else f"exit status {self.process.returncode}", tell)

    def kill(self) -> None:
        """End the process before it has compiled everything."""
        processes.kill(self.process)
        self.said.close()


class _Compiler:
    """Processes that compile, as many at a time as there are processors; they are killed at exit."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._waiting: list[list[Unit]] = []
        self._running: list[_Process] = []
        self._awaited: list[Collection[Unit]] = []
        self.since = 0.0
        """When it began to compile after it had nothing to do."""

    @property
    def units(self) -> list[Unit]:
        """What is in hand."""
        with self._lock:
            return [unit for each in [*(one.batch for one in self._running), *self._waiting] for unit in each]

    def ask(self, units: Iterable[Unit]) -> None:
        """Compile units that are not in hand yet."""
        with self._lock:
            if not self.units:
                self.since = time.monotonic()
            self._waiting += _batches(unit for unit in units if not self.has([unit]))

    def has(self, units: Iterable[Unit]) -> bool:
        """Whether one of the units is in hand."""
        known = self.units
        return any(unit in known for unit in units)

    def look(self, tell: Tell) -> None:
        """Start processes, and take note of those that have ended."""
        with self._lock:
            for each in [each for each in self._running if each.process.poll() is not None]:
                self._running.remove(each)
                each.end(tell)
            while self._waiting and len(self._running) < (os.cpu_count() or 1):
                self._running.append(_Process.start(self._waiting[0]))
                del self._waiting[0]

    @contextmanager
    def awaited(self, units: Collection[Unit]) -> Iterator[None]:
        """Note meanwhile that a thread waits for units."""
        with self._lock:
            self._awaited.append(units)
        try:
            yield
        finally:
            with self._lock:
                self._awaited.remove(units)

    def stop(self, *, unless_awaited: bool = False) -> None:
        """Compile nothing more, or nothing that no thread waits for."""
        with self._lock:
            wanted = {unit for units in self._awaited for unit in units} if unless_awaited else set()
            stopped = [each for each in self._running if wanted.isdisjoint(each.batch)]
            self._running = [each for each in self._running if each not in stopped]
            self._waiting = [batch for batch in self._waiting if not wanted.isdisjoint(batch)]
        for each in stopped:
            each.kill()


_COMPILER = _Compiler()
atexit.register(_COMPILER.stop)


def _give_up(failed: list[Unit], why: str, tell: Tell) -> None:
    _given_up.update(map(_as_it_is, failed))
    tell(f"compiling {_names(failed)} failed, and is done within the time limit: {why}")


def main() -> None:
    """Compile what is named: a room and its methods, of which an empty one is the room itself."""
    gc.disable()  # a compiler drops little: to look for that takes a tenth of the time
    threading.Thread(target=_end_with_parent, daemon=True).start()
    room, *methods = sys.argv[1:]
    wanted = [unit for unit in units(room, methods) if unit.method in methods]
    with kernel_cache.lock(_kind(wanted[0])):
        for unit in missing(wanted):
            try:
                compile_here(unit)
            except (Exception, SystemExit) as error:  # a user's own file may do anything
                print(told(error), flush=True)


def _end_with_parent() -> None:
    os.read(0, 1)
    os._exit(1)


def load_room(room: Room[Any, Any]) -> None:
    """Load what a room itself runs compiled, or compile it."""
    room.compile_kernels(lambda name: read(name).problem)


def load_here(unit: Unit) -> None:
    """Load what a unit has compiled into this process, or compile it."""
    module: Any = catalogue.room(unit.room)
    if unit.method in catalogue.heuristics(unit.room):
        module = catalogue.heuristic(unit.room, unit.method)
    elif unit.method:
        module = catalogue.formulation(unit.room, unit.method)
    module.compile_kernels(lambda name: read(name).problem)


def compile_here(unit: Unit) -> None:
    """Compile a unit in this process, and note that it is done."""
    # For start-up time: the command needs only the rest of this module, not the compiler.
    from tilewright.core import jit

    load_here(unit)
    if jit.UNKEPT:
        raise jit.UNKEPT[0]
    kernel_cache.note_compiled(unit, jit.compiled_files())


if __name__ == "__main__":
    main()
