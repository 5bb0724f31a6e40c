"""A second way to a claim: which other methods can prove that a bound holds, or that nothing is feasible.

A proof by one program is as right as that program. The room's own exact search, a formulation on HiGHS, one
on Gecode and one on CP-SAT share no search, so what two of them say is not the error of one.
"""

from __future__ import annotations

from typing import Any

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.room import room_of
from tilewright.core.stated import unstated
from tilewright.run.methods import is_trusted, suited_solvers

LEAST_SECONDS = 0.5
"""A second method gets this time at least: enough for what keeps its deadline in this process."""

SHARE = 0.25
"""Share of the time that an optimum took for its confirmation."""

INFEASIBLE_SECONDS = 5.0
"""How long it may take to confirm that nothing is feasible, or as long as the claim itself."""


def routes(problem: Any, but: str | None = None) -> list[str]:
    """Return the methods that may prove a claim about a problem, in the order of their expected speed.

    They are the room's exact search, if it takes the problem, and then the formulations, those on HiGHS
    first. Those that state the decisions come before those that choose among columns which the package has
    priced, as the exact search may have the same prices. Formulations and drivers of the user's own confirm
    nothing. Whether a formulation takes the problem shows when a worker runs it: looking at it here would
    import its solver.

    Parameters
    ----------
    but
        The method that makes the claim.
    """
    room = room_of(problem).name
    files = [path for path in catalogue.models(room) if catalogue.bundled(path)]
    files.sort(key=catalogue.chooses_columns)
    exact = [path.stem for path in files if catalogue.solves_itself(path) and catalogue.can_run(path)]
    if problem.constraints:  # what ignores one proves nothing about the others' claims
        files = [path for path in files if not unstated(path, problem)]
        exact = [name for name in exact if catalogue.model(room, name) in files]
    found = [name for name in exact if catalogue.suits(catalogue.formulation(room, name), problem)]
    if getattr(problem, "minimise", None) != "pareto":  # of a front, formulations find single plans
        found += [
            f"{path.stem}@{driver.name}"
            for driver in drivers.DRIVERS
            for path in files
            if drivers.worth_trying(driver) and driver.name in suited_solvers(path)
        ]
    return [name for name in found if name != but]


def honouring(problem: Any) -> list[str]:
    """Return the methods that honour the constraints of a problem and prove, one for each solver."""
    by_solver: dict[str, str] = {}
    room = room_of(problem).name
    for method in routes(problem):
        name, _, solver = method.partition("@")
        key = solver or name
        if key not in by_solver and catalogue.suits(catalogue.formulation(room, name), problem):
            by_solver[key] = method
    return sorted(by_solver.values(), key=lambda method: (("@" in method), not method.endswith("@cpsat")))


def asked(problem: Any, claimant: str, infeasible: bool, took: float, left: float) -> list[tuple[str, float]]:
    """Return whom `solve` asks to confirm a claim, the likeliest first, and for how many seconds.

    That nothing is feasible is always put to a second method, since there is no plan to look at. An optimum
    is where it does not rest on the room's own exact search, and for a quarter of the time that it took: a
    solve of milliseconds starts no process for it. What is claimed by a solver that nobody tests, or by a
    formulation or a search of the user's own, is always put to a second method, too: it counts for nothing
    without.

    Parameters
    ----------
    claimant
        The method that makes the claim.
    infeasible
        Whether that is that nothing is feasible, rather than that a plan is optimal.
    took, left
        Seconds that the claim took, and that are left.
    """
    room = room_of(problem).name
    trusted = is_trusted(room, claimant)
    if left < LEAST_SECONDS or (trusted and claimant in catalogue.exact_methods(room) and not infeasible):
        return []
    others = routes(problem, claimant)
    if infeasible or not trusted:
        return [(other, min(left, max(INFEASIBLE_SECONDS, took))) for other in others]
    seconds = min(left, max(LEAST_SECONDS, SHARE * took))
    quick = SHARE * took < LEAST_SECONDS
    return [(other, seconds) for other in others if not quick or catalogue.in_process(room, other)]
