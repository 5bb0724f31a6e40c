"""Import what a method needs, load what it has compiled, and forget earlier answers, before a clock runs."""

from __future__ import annotations

import functools
import sys

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT
from tilewright.run.workers import compiling

_done: set[tuple[str, str, bool]] = set()
"""What this process has prepared."""


def prepare(room: str, method: str, *, kernels: bool = False) -> None:
    """Import what a method of a room needs.

    Parameters
    ----------
    method
        A name, or `CONSTRUCT` for all constructive heuristics.
    kernels
        Whether what the method has compiled is loaded, too, by running it on tiny problems, and all answers
        to problems are forgotten.

    Raises
    ------
    SolverMissingError
        If the method's solver is not installed.
    Exception
        Whatever a file of the user's own raises.
    """
    if kernels:
        forget()
    if (room, method, kernels) in _done:
        return
    offered = catalogue.room(room)
    if "@" in method:
        model, solver = method.split("@", 1)
        drivers.load(solver)
        catalogue.formulation(room, model)
    elif method in catalogue.exact_methods(room):
        catalogue.formulation(room, method)
        compiling.load_room(offered)
    elif method != CONSTRUCT:
        catalogue.heuristic(room, method)
    else:
        list(catalogue.constructive(room, lambda _name, _error: None))
    if kernels:
        for unit in compiling.units(room, [method]):
            compiling.load_here(unit)
        forget()
    _done.add((room, method, kernels))


def forget() -> None:
    """Forget what this process has computed of problems, so that no run lives on what others have found.

    That is all that functions of rooms, heuristics and formulations cache, and what modules with a function
    ``forget_answers`` keep.
    """
    for name, module in list(sys.modules.items()):
        package, _, inner = name.partition(".")
        if package != "tilewright" or inner.partition(".")[0] not in (
            *catalogue.ROOMS,
            "heuristics",
            "models",
        ):
            continue
        answers = getattr(module, "forget_answers", None)
        if callable(answers):
            answers()
        for cached in list(vars(module).values()):
            if isinstance(cached, functools._lru_cache_wrapper) and cached.__module__ == name:
                cached.cache_clear()
