"""The contract of a kind of machine: of ``dsp``, ``npu`` and ``hierarchy``, which are packages of one design.

| file of a kind | what it has |
|---|---|
| ``machine.py`` | the specification: ``kind`` with its name as default, and `check`, which refuses layers |
| ``plan.py`` | the decisions for one layer |
| ``nest.py``, ``cut.py`` | a layer on the machine: loops, steps, tiles and what they need of memories |
| ``cost.py`` | what a plan costs, by closed forms |
| ``bounds.py`` | what every plan costs at least |
| ``exact/``, ``exact.py`` | the best plan, and all plans of a front, with proof |
| ``lowering.py``, ``events.py`` | the program that the simulator executes |
| ``measures.py`` | what an executed plan has cost |
| ``kind.py`` | the members of `MachineKind`, made of all these |
| ``minizinc.py`` | the members of `KindBridge` |

To add a kind, write these files. Name its machine in ``problem.py``, its objectives in ``objectives.py``,
its plans in ``plan.py`` and the package in ``kinds.MACHINES``. In ``minizinc.py``, name its bridge in
``BRIDGES`` and the file that formulations include in ``CORES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from tilewright.core.bounds import Bound, Exact
from tilewright.simulator import Report
from tilewright.spec.constraints import Constraint, Term, Vocabulary
from tilewright.spec.constraints.parts import Ground
from tilewright.spec.layer import Layer
from tilewright.spec.objectives import Objective

PlanT = TypeVar("PlanT")


class TradeOff(NamedTuple, Generic[PlanT]):
    """A point of a front: what its plan has of the two costs that are traded."""

    values: tuple[int, int]
    plan: PlanT


class CostLimits(Protocol):
    """What plans may cost; see `tilewright.tiling.objectives.Ceilings`."""

    @property
    def given(self) -> dict[str, int]:
        """What a plan may cost at most, by what that counts."""


class LayerLimits(Protocol):
    """What plans of a layer may do; see `tilewright.tiling.objectives.TilingLimits`."""

    @property
    def schedule(self) -> str:
        """The schedule that plans are limited to, or ``any``."""

    @property
    def partition(self) -> str:
        """The partition over the cores that plans are limited to, or ``any``."""

    @property
    def orders(self) -> str:
        """The schedules allowed but for those that keep all weights."""

    @property
    def at_most(self) -> CostLimits:
        """What plans may cost."""

    @property
    def factors(self) -> str | None:
        """Which steps plans may have, None for the kind's default."""


class LayerProblem(Protocol):
    """A problem with one layer, as a kind of machine sees it; see `tilewright.tiling.problem.Problem`."""

    @property
    def one_layer(self) -> Layer:
        """The layer."""

    @property
    def one_operation(self) -> Any:
        """The operation, of a problem that has one instead (`tilewright.tiling.operations.Operation`)."""

    @property
    def machine(self) -> Any:
        """The machine, of the kind in question."""

    @property
    def minimise(self) -> str:
        """What is minimised, one of the kind's objectives."""

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """What plans cost, by name."""

    @property
    def counted(self) -> str:
        """What the objective counts; of a front what its first plan has least of."""

    @property
    def traded(self) -> tuple[str, str] | None:
        """What a front trades for each other; None where a single plan is asked for."""

    @property
    def trades_capacity(self) -> bool:
        """Whether it trades accesses for the capacity that they need."""

    @property
    def level(self) -> str:
        """The memory whose accesses are counted, where a machine has several."""

    @property
    def limits(self) -> LayerLimits:
        """What plans may do."""

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """What plans must keep."""

    @property
    def vocabulary(self) -> Vocabulary:
        """What constraints can speak of."""

    @property
    def must_hold(self) -> tuple[Ground, ...]:
        """All that constraints say, one by one."""


class MachineKind(Protocol):
    """What the room asks of a kind of machine, for problems with one layer.

    Attributes
    ----------
    LayerPlan
        The type of a layer's plan: with ``to_json()`` and ``from_json(data, file)``, hashable by its
        decisions.
    """

    @property
    def LayerPlan(self) -> type[Any]:
        """The type of a layer's plan."""

    def violation(self, problem: LayerProblem, plan: Any) -> str | None:
        """Say which limit a plan breaks, or None for a valid one.

        A memory that overflows is said to with a text that begins with ``memory overflow``; `simulate`
        executes such a plan and finds the same.
        """

    def objective(self, problem: LayerProblem, plan: Any) -> int:
        """Return the cost of a valid plan by the closed form; of ``pareto`` the first that is traded."""

    def rank(self, problem: LayerProblem, plan: Any) -> tuple[int, ...]:
        """Return accesses, time, energy and memory of a valid plan, which break ties in that order."""

    def measured_objective(self, problem: LayerProblem, report: Report) -> int:
        """Return the cost of a simulated plan; the closed form must say the same."""

    def trade_off(self, problem: LayerProblem, report: Report) -> dict[str, int]:
        """Return the coordinates of a simulated plan on a Pareto front, by what they count."""

    def simulate(
        self,
        problem: LayerProblem,
        plan: Any,
        *,
        numeric: bool = False,
        overlapped: bool = True,
        seed: int = 0,
        deadline: float = float("inf"),
    ) -> Report:
        """Execute a plan; parameters are those of `tilewright.tiling.simulate`."""

    def best_bound(self, problem: LayerProblem) -> Bound:
        """Return the strongest lower bound that is known without a search, in milliseconds."""

    def exhaustive(self, problem: LayerProblem, deadline: float) -> Exact | None:
        """Return the best plan, or all plans of a front; None if nothing is feasible.

        Parameters
        ----------
        deadline
            ``time.monotonic()`` after which the best plan so far is returned, not as proven.
        """


class KindBridge(Protocol):
    """What the MiniZinc driver asks of a kind of machine; see `tilewright.core.room.MiniZincBridge`."""

    def size(self, problem: Any) -> int:
        """Return about how many constraints a formulation gives."""

    def scale(self, problem: Any) -> tuple[int, int]:
        """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""

    def data(self, problem: Any) -> dict[str, Any]:
        """Return the parameters that the core declares, all but those of the search."""

    def term(self, problem: Any, one: Term) -> str | None:
        """Return a term of the vocabulary in MiniZinc, None for what the formulations do not state."""

    def start(self, problem: Any, plan: Any) -> list[int] | None:
        """Return a plan as values of the decisions, None where the formulations have none that is as good."""

    def decisions(self, solution: Any) -> list[int]:
        """Return the values of a solution's decisions, in the order of `start`."""

    def plan(self, problem: Any, solution: Any) -> Any:
        """Return the plan of a solution."""
