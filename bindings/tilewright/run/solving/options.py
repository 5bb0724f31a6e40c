"""How a problem is to be solved: what callers of `solve` may ask for, checked."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from tilewright.run.arguments import limit as seconds_limit
from tilewright.run.arguments import whole
from tilewright.run.methods import PartInHand
from tilewright.run.workers import compiling
from tilewright.spec.errors import (
    InputError,
    did_you_mean,
)

Progress = Callable[[float, int | None, int | None], None]
"""Called now and then with seconds, incumbent and bound."""

Method = Callable[..., Any]
"""A method of the caller's own: ``method(problem)`` or ``method(problem, context)``, as `solve` says."""


@dataclass(frozen=True)
class Options:
    """How a problem is to be solved.

    Attributes
    ----------
    warm_start : str, Plan, Result, optional
        A heuristic's name, a plan, a result of the same problem or its file, ``auto`` for the best
        constructive heuristic, or ``none``.
    time_limit
        Seconds for everything, counted from `started`, but for compiling what has not been compiled yet.
    threads
        Most processes and threads that work at a time; by default one per core.
    seed
        Seed of all random choices.
    on_plan
        Called with every better plan and its objective, as soon as it is found.
    progress
        Called several times a second with seconds, incumbent and bound.
    on_part
        Called when a worker begins a layer of a network whose layers are solved one by one, and when it has
        ended it: of a method that proves, or of the only one.
    on_compile
        Called with a sentence before something is compiled, which takes up to a minute, once.
    stop
        When set, the best plan so far is returned; so it is on KeyboardInterrupt.
    started
        ``time.monotonic()`` from which the time limit counts; by default now.
    confirm
        Whether a claim that rests on one solver, or that nothing is feasible, is put to a second method for a
        part of the time that is left.
    widen
        Whether ``auto`` looks for a part of the time at a larger space of plans than the declared one, where
        the room has one, and tells what that gains.
    remember
        Whether layers need no search that equal one which the same process has solved; or the file in which
        it and others keep them, too.
    """

    warm_start: Any = "auto"
    time_limit: float = 60.0
    threads: int | None = None
    seed: int = 0
    on_plan: Callable[[Any, int], None] | None = None
    progress: Progress | None = None
    on_part: Callable[[PartInHand], None] | None = None
    on_compile: compiling.Tell | None = None
    stop: threading.Event | None = None
    started: float | None = None
    confirm: bool = True
    widen: bool = True
    remember: bool | str = False

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Options:
        """Return options from what a caller has given, checked.

        Raises
        ------
        InputError
            For an option that there is not, or a value that it cannot have.
        """
        known = [field.name for field in fields(cls)]
        for name in given:
            if name not in known:
                limit = f"unknown option{did_you_mean(name, known)}"
                raise InputError(name, str(given[name]), limit)
        options = cls(**given)
        threads = options.threads
        return replace(
            options,
            time_limit=seconds_limit("time_limit", options.time_limit),
            threads=os.cpu_count() or 1 if threads is None else whole("threads", threads, 1),
            seed=whole("seed", options.seed),
            started=time.monotonic() if options.started is None else options.started,
            on_plan=guarded(options.on_plan),
            progress=guarded(options.progress),
            on_part=guarded(options.on_part),
            on_compile=guarded(options.on_compile),
        )


class CallbackError(BaseException):
    """A function of the caller's own has failed, and not the method that told it something."""

    def __init__(self, error: Exception) -> None:
        super().__init__(error)
        self.error = error


def guarded(callback: Callable[..., None] | None) -> Callable[..., None] | None:
    """Return a function that calls the caller's own, and raises `CallbackError` where that fails."""
    if callback is None:
        return None

    def tell(*values: Any) -> None:
        try:
            callback(*values)
        except Exception as error:
            raise CallbackError(error) from error

    return tell


def name_of(method: Method) -> str:
    """Return what a method of the caller's own is called in results."""
    return str(getattr(method, "__name__", type(method).__name__))
