"""The contract that every room satisfies, and how the room of a problem is found: by its type.

A room is a family of problems with one kind of plan. Everything that is not about one decision alone
(solving, checking, comparing, the command line, drivers) knows rooms only through `Room`. To add one,
subclass it in ``tilewright/<room>/__init__.py``, write the members without a body here, and override the
hooks that have one where the default does not fit; then `register` it and name it in `catalogue.ROOMS`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from tilewright.core.bounds import Bound
from tilewright.core.machines import MachineReading
from tilewright.core.narrowing import AS_IT_IS, Narrowing
from tilewright.core.portfolio import Portfolio
from tilewright.simulator import Report
from tilewright.simulator.report import Violation
from tilewright.spec.constraints import Judged, Term
from tilewright.spec.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tilewright.core.overview import Decisions, Overview

ProblemT = TypeVar("ProblemT")
PlanT = TypeVar("PlanT")

Rows = list[tuple[str, str]]
"""Lines of a summary: what, and how much."""


class Wider(NamedTuple):
    """A problem over a larger space of plans than the declared one.

    Attributes
    ----------
    space
        That space, as `Room.space` says it.
    setting
        Of which field of the problem it is, as ``--set`` takes it.
    """

    problem: Any
    space: str
    setting: str


class Asked(NamedTuple):
    """What is asked of the execution of a plan; `Room.simulate` says what."""

    numeric: bool = False
    overlapped: bool = True
    seed: int = 0
    deadline: float = float("inf")


class Room(Protocol[ProblemT, PlanT]):
    """What the rest of tilewright asks of a room.

    Attributes
    ----------
    name
        The room's name in files and on the command line; its package is ``tilewright.<name>``.
    decides
        What is decided here, one line.
    problem_type, plan_type
        The types of its problems and plans.
    measures_type
        The class of what is measured of executed plans (`core.measures`), or the union of several.
    layer_kinds
        Kinds of layers that become instances of their own where a room takes single layers.
    file_suffix, file_table
        Of instances in a format of the room's own, as ``.csv``, which `read_file` reads; and the table that
        such a file holds, where an instance in TOML may name it there.
    """

    name: str
    decides: str
    problem_type: type[ProblemT]
    plan_type: type[PlanT]
    measures_type: Any

    layer_kinds: tuple[str, ...] = ("conv", "fc")
    file_suffix: str = ""
    file_table: str = ""

    # Required ----------------------------------------------------------------------------------------

    def best_bound(self, problem: ProblemT) -> Bound:
        """Return the strongest lower bound that is known without a search, in milliseconds."""
        ...

    def broken_limit(self, problem: ProblemT, plan: PlanT) -> str | None:
        """Say which limit a plan breaks, or None; constraints are looked at by `violation`."""
        ...

    def violation(self, problem: ProblemT, plan: PlanT) -> str | None:
        """Say which limit or constraint a plan breaks, or None for a valid one."""
        broken = self.broken_limit(problem, plan)
        if broken is not None:
            return broken
        return next((str(each) for each in _judged(problem, plan) if not each.kept), None)

    def objective(self, problem: ProblemT, plan: PlanT) -> int:
        """Return the cost of a valid plan by the closed form, in `problem.unit`."""
        ...

    def measured_objective(self, problem: ProblemT, report: Report) -> int:
        """Return the cost of a simulated plan; the closed form must say the same."""
        ...

    def simulate(
        self,
        problem: ProblemT,
        plan: PlanT,
        *,
        numeric: bool = False,
        overlapped: bool = True,
        seed: int = 0,
        deadline: float = float("inf"),
    ) -> Report:
        """Execute a plan: the only judge of what it costs and whether it is right.

        Parameters
        ----------
        numeric
            Also move random integers through the steps and compare with the reference.
        overlapped
            Also compute the timeline in which engines work beside each other.
        seed
            Of the integers.
        deadline
            ``time.monotonic()`` at which to give up.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        report = self.execute_plan(problem, plan, Asked(numeric, overlapped, seed, deadline))
        if report.violation is None:
            broken = next((each for each in _judged(problem, plan) if not each.kept), None)
            if broken is not None:
                return Report.refused(Violation("constraint", 0, broken.named, "to hold", broken.found))
        return report

    def execute_plan(self, problem: ProblemT, plan: PlanT, asked: Asked) -> Report:
        """Execute a plan as `simulate` says."""
        ...

    def simulation_seconds(self, problem: ProblemT, steps: int) -> float:
        """Estimate how long `simulate` takes for a plan with that number of steps."""
        ...

    def numeric_elements(self, problem: ProblemT) -> int:
        """Return how many elements a numeric simulation holds at a time."""
        ...

    def portfolio(self, problem: ProblemT) -> Portfolio:
        """Return what ``auto`` runs."""
        ...

    # Optional ----------------------------------------------------------------------------------------

    def rank(self, problem: ProblemT, plan: PlanT) -> tuple[int, ...]:
        """Return what tells valid plans of equal objective apart, the best having least.

        That is what they move, then their cycles, their energy and their memory, as far as the room knows it.
        """
        return ()

    def suited_objective(self, problem: ProblemT) -> tuple[str, ...] | None:
        """Return what is minimised of a network that is given with a machine, if nothing else is asked for.

        None stands for the room's default; where a machine has rates, ``cycles`` are of more use than that.
        """
        return None

    def at_least(self, problem: ProblemT, plan: PlanT) -> dict[str, str]:
        """Return the operations whose cost is but a lower bound, and why; a plan with any is not optimal.

        See `tilewright.spec.access`.
        """
        return {}

    def space(self, problem: ProblemT) -> str | None:
        """Return the plans among which one is called optimal, where a limit of the problem chooses them."""
        return None

    def wider(self, problem: ProblemT) -> Wider | None:
        """Return the problem over a larger space of which it is told what that gains, or None."""
        return None

    def parts(self, problem: ProblemT) -> Sequence[tuple[str, ProblemT]]:
        """Return the parts that are solved one by one, with their names; equal ones are the same object.

        A room that splits a problem has plans with ``split()`` and ``joined(plans)``.
        """
        return [("", problem)]

    def only_method(self, part: ProblemT) -> str | None:
        """Return the exact method that solves a part whatever is asked for; None where any may."""
        return None

    def lines(self, problem: ProblemT, plan: PlanT) -> list[dict[str, Any]] | None:
        """Return the lines of a plan as a table; None where they are what was measured of its parts."""
        return None

    def recheck(self, problem: ProblemT, plan: PlanT, deadline: float) -> list[tuple[str, bool | None, str]]:
        """Verify what an optimal plan claims beyond its objective: (what, holds, detail).

        Whether it holds is None where that is not known by the deadline.
        """
        return []

    def answered(self, problem: ProblemT, plan: PlanT | None) -> ProblemT:
        """Return the problem that a plan of a result file answers: another one for some older files."""
        return problem

    def most_values(self, problem: ProblemT) -> int:
        """Return how many numbers, texts, lists and tables a plan and its report have at most, about.

        Result files far larger than that are refused unread.
        """
        return 1_000_000

    def machine_from(self, table: dict[str, Any]) -> MachineReading | None:
        """Return what a machine of another room tells this one; None where that is not looked at.

        Parameters
        ----------
        table
            Of a machine that its own room takes, complete with defaults.
        """
        return None

    def read_file(self, path: Path) -> dict[str, Any]:
        """Return the tables of an instance in a file of the room's own format.

        Raises
        ------
        InputError
            For anything that is wrong with the file.
        """
        raise InputError("instance", path.name, f"room {self.name} has no files of its own", str(path))

    def compile_kernels(self, bundled: Callable[[str], ProblemT]) -> None:
        """Compile what the room itself runs compiled, by running it on something small.

        Parameters
        ----------
        bundled
            Returns the problem of a bundled instance by its name.
        """
        return

    def runs_compiled(self, problem: ProblemT) -> bool:
        """Whether a problem needs what `compile_kernels` compiles."""
        return True

    # What people are shown: by the room's module ``summary``, which is imported when it is used ----------

    def rows(self, problem: ProblemT, measures: Any) -> Rows:
        """Return the lines of a result's summary, from what was measured of its plan."""
        rows: Rows = self._module("summary").rows(problem, measures)
        return rows

    def table(self, problem: ProblemT, measures: Any) -> list[tuple[str, ...]] | None:
        """Return a header and a line for each part of a plan, or None where there are no parts."""
        table = getattr(self._module("summary"), "table", None)
        return None if table is None else table(problem, measures)

    def decisions(self, problem: ProblemT, plan: PlanT, measures: Any) -> Decisions | None:
        """Return a table of what a plan decides, or None; `measures` are None if it was not executed."""
        decisions = getattr(self._module("summary"), "decisions", None)
        return None if decisions is None else decisions(problem, plan, measures)

    @property
    def narrowing(self) -> Narrowing:
        """How the room's tables become narrower where a terminal has too few columns."""
        found: Narrowing = getattr(self._module("summary"), "NARROWING", AS_IT_IS)
        return found

    def overview(self, problem: ProblemT, plan: PlanT, measures: Any) -> Overview:
        """Return what a report for people shows of a plan, from what was measured of it; here the table."""
        from tilewright.core.overview import of_table  # for start-up time

        overview = getattr(self._module("summary"), "overview", None)
        if overview is None:
            return of_table(self.table(problem, measures))
        found: Overview = overview(problem, plan, measures)
        return found

    # Where the rest of a room lies: imported when it is used -------------------------------------------

    def _module(self, name: str) -> Any:
        return importlib.import_module(f"{type(self).__module__}.{name}")

    @property
    def minizinc(self) -> MiniZincBridge:
        """The room's bridge to MiniZinc, ``tilewright.<room>.minizinc``."""
        return cast(MiniZincBridge, self._module("minizinc"))

    @property
    def plot(self) -> Pictures:
        """What draws the room's plans, ``tilewright.<room>.plot``."""
        return cast(Pictures, self._module("plot"))


class MiniZincBridge(Protocol):
    """What a room's module ``minizinc`` has; data and decisions are its own affair."""

    def suits(self, problem: Any, formulation: Path) -> bool:
        """Whether a formulation takes a problem."""

    def size(self, problem: Any) -> int:
        """Return about how many constraints a formulation gives."""

    def relax(self, problem: Any) -> int:
        """Return the percentage of decisions that large-neighbourhood search keeps; 0 leaves it out."""

    def scale(self, problem: Any) -> tuple[int, int]:
        """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""

    def data(self, problem: Any) -> dict[str, Any]:
        """Return the parameters that the core declares, all but those of the search."""

    def start(self, problem: Any, plan: Any) -> list[int] | None:
        """Return a plan as values of the decisions, None where the formulation has none for it."""

    def decisions(self, problem: Any, solution: Any) -> list[int]:
        """Return the values of a solution's decisions, in the order of `start`."""

    def plan(self, problem: Any, solution: Any) -> Any:
        """Return the plan of a solution."""

    def term(self, problem: Any, formulation: Path, term: Term) -> str | None:
        """Return a term of the vocabulary in MiniZinc, None where the formulation does not state it."""


class Pictures(Protocol):
    """What a room's module ``plot`` has."""

    ACCEPTED: tuple[str, ...]
    """Suffixes of the files that `draw` writes."""

    def sheet(self, problem: Any, plan: Any, report: Report, *, title: str | None = None) -> Figure:
        """Return the figure that shows all of a plan; `draw` says what comes in."""

    def plot(self, problem: Any, plan: Any, report: Report, *, ax: Axes | None = None) -> Axes:
        """Draw the most telling panel of a plan, for a user's own figure or a notebook.

        Parameters
        ----------
        report
            What the simulator says of the plan.
        ax
            Where to draw; new axes of a pyplot figure when left out.

        Returns
        -------
        The axes.
        """

    def draw(
        self, problem: Any, plan: Any, report: Report, path: str | Path, *, title: str | None = None
    ) -> None:
        """Draw a plan into a file: complete or not at all, the same bytes each time.

        Parameters
        ----------
        report
            What the simulator says of the plan.
        path
            Where to write; the suffix chooses the format.
        title
            Heading, for example the instance's name; a description of the problem when left out.

        Raises
        ------
        InputError
            If the suffix is not one of `ACCEPTED` or the file cannot be written.
        """


def bridge_of(problem: Any, formulation: Path) -> MiniZincBridge:
    """Return what a MiniZinc formulation has to do with its room's problems.

    It is the room's bridge, but where this has a function ``bridge_of(problem, formulation)``, which returns
    one for formulations that take other data.
    """
    bridge = room_of(problem).minizinc
    chosen: MiniZincBridge = getattr(bridge, "bridge_of", lambda _problem, _formulation: bridge)(
        problem, formulation
    )
    return chosen


_BY_TYPE: dict[type, Room[Any, Any]] = {}


def _judged(problem: Any, plan: Any) -> list[Judged]:
    """Return what the constraints of a problem make of a plan that keeps its limits."""
    found: list[Judged] = problem.judge_constraints(plan) if getattr(problem, "constraints", ()) else []
    return found


def unit_of(problem: Any) -> str:
    """Return what a problem's objective counts, for files; where people need not be told, it is cycles."""
    return problem.unit or "cycles"


def register(room: Room[ProblemT, PlanT]) -> Room[ProblemT, PlanT]:
    """Make a room known by the type of its problems; return it."""
    _BY_TYPE[room.problem_type] = room
    return room


def room_of(problem: Any) -> Room[Any, Any]:
    """Return the room of a problem, which may be of a subclass of the room's own type.

    Raises
    ------
    InputError
        If it is no problem of any room.
    """
    for kind in type(problem).__mro__:
        if kind in _BY_TYPE:
            return _BY_TYPE[kind]
    known = ", ".join(sorted(room.name for room in _BY_TYPE.values()))
    raise InputError("problem", type(problem).__name__, f"must be a Problem of a room ({known})")


def check_plan(problem: Any, plan: Any) -> None:
    """Refuse what is no plan of a problem's room.

    Raises
    ------
    InputError
        If it is one of another room, or none.
    """
    room = room_of(problem)
    if not isinstance(plan, room.plan_type):
        others = [f"Plan of {each.name}" for each in _BY_TYPE.values() if isinstance(plan, each.plan_type)]
        raise InputError("plan", [*others, type(plan).__name__][0], f"must be a Plan of {room.name}")
