"""Large-neighbourhood search over models: a model re-plans a part of a plan, the rest stays as it is.

A room says which parts, a formulation which of its variables are free there (`core.neighbourhood`). Here is
chosen how large the parts are, and what is better is kept. So a model improves plans of problems for which
the whole model is too large to be built.
"""

from __future__ import annotations

import time
from random import Random
from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.core.neighbourhood import Draw, Sizes, around
from tilewright.core.room import room_of
from tilewright.spec.errors import OutOfTimeError


def improve(problem: Any, search: RunContext, method: str, draw: Draw, sizes: Sizes) -> Any:
    """Improve a plan part by part until time is up.

    Parameters
    ----------
    search
        Its start is the plan.
    method
        A formulation and a solver: ``gaps@cpsat``.
    draw
        Draws a part.

    Returns
    -------
    Plan
        The best one.
    """
    room, random = room_of(problem), Random(search.seed)
    name, _, solver = method.partition("@")
    driver = drivers.load(solver)
    formulation = catalogue.formulation(room.name, name)
    best, value, size = search.start, room.objective(problem, search.start), float(sizes.least)
    while search.remaining() > 0 and (search.bound is None or value > search.bound):
        began = time.monotonic()
        part = RunContext(
            start=best,
            seed=random.randrange(2**31),
            deadline=min(search.deadline, began + sizes.seconds),
            threads=search.threads,
        )
        with around(best, draw(best, random, round(size))):
            try:
                found = driver.solve(problem, formulation, part, extras=False)
            except OutOfTimeError:
                continue
        if found.plan is not None and room.violation(problem, found.plan) is None:
            cost = room.objective(problem, found.plan)
            if cost < value:
                search.on_plan(found.plan)
            if cost <= value:
                best, value = found.plan, cost
        solved = found.status in ("optimal", "infeasible")
        size = min(sizes.most, size * sizes.faster) if solved else max(sizes.least, size * sizes.slower)
    return best
