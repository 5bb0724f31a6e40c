"""Tiling and MiniZinc: what the driver asks, answered for the machine's kind."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, cast

from tilewright.core.room import MiniZincBridge
from tilewright.spec.constraints import Term
from tilewright.tiling.dsp import minizinc as dsp
from tilewright.tiling.dsp import reference as dsp_reference
from tilewright.tiling.hierarchy import minizinc as hierarchy
from tilewright.tiling.hierarchy import reference as hierarchy_reference
from tilewright.tiling.machine_kind import KindBridge
from tilewright.tiling.npu import minizinc as npu
from tilewright.tiling.npu import reference as npu_reference
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

BRIDGES: dict[str, KindBridge] = {"dsp": dsp, "npu": npu, "hierarchy": hierarchy}
"""The bridge of each kind of machine."""

CORES = {"dsp": "core.mzn", "npu": "core.npu.mzn", "hierarchy": "core.hierarchy.mzn"}
"""What a formulation for each kind of machine includes."""


REFERENCES: dict[str, Any] = {"dsp": dsp_reference, "npu": npu_reference, "hierarchy": hierarchy_reference}
"""What knows the data of ``reference.<kind>.mzn``."""


class _OfReference:
    """A bridge to the reference model of a kind of machine."""

    def __init__(self, kind: str) -> None:
        of_kind = REFERENCES[kind]
        self.kind, self.of_kind = kind, of_kind
        self.size, self.scale, self.data = of_kind.size, of_kind.scale, of_kind.data
        self.start, self.plan = of_kind.start, of_kind.plan

    def suits(self, problem: Problem, formulation: Path) -> bool:
        """Whether the model is of the problem's kind of machine, and takes it."""
        return self.why_not(problem, formulation) is None

    def why_not(self, problem: Problem, _formulation: Path) -> str | None:
        """Say why the model does not take a problem, or None."""
        if problem.machine.kind != self.kind:
            return f"machine.kind = {problem.machine.kind!r}: the model is of machines of kind {self.kind}"
        if problem.layer is None:
            return "the model is of a layer"
        found: str | None = self.of_kind.why_not(problem)
        return found

    def _is_of(self, problem: Problem) -> bool:
        return problem.machine.kind == self.kind and problem.layer is not None

    def relax(self, _problem: Problem) -> int:
        """Return 0: without large-neighbourhood search."""
        return 0

    def decisions(self, _problem: Problem, solution: Any) -> list[int]:
        """Return the values of a solution's decisions, in the order of `start`."""
        found: list[int] = self.of_kind.decisions(solution)
        return found

    def term(self, problem: Problem, _formulation: Path, one: Term) -> str | None:
        """Return a term of the vocabulary in MiniZinc."""
        found: str | None = self.of_kind.term(problem, one) if self._is_of(problem) else None
        return found


def bridge_of(_problem: Problem, formulation: Path) -> MiniZincBridge:
    """Return what knows the data of a formulation: of a reference model, or what is built on a core."""
    text = formulation.read_text("utf-8")
    for kind in REFERENCES:
        name = f"reference.{kind}.mzn"
        if formulation.name == name or f'include "{name}"' in text:
            return _OfReference(kind)
    return cast(MiniZincBridge, sys.modules[__name__])


def _bridge(problem: Problem) -> KindBridge:
    return BRIDGES[problem.machine.kind]


def suits(problem: Problem, formulation: Path) -> bool:
    """Whether a formulation is one for the problem's kind of machine, by what it includes.

    None has steps that do not divide, or layers that depend on each other.
    """
    if problem.limits.factors == "any" or problem.coupled:
        return False
    core = CORES.get(problem.machine.kind)
    return core is not None and f'include "{core}"' in formulation.read_text("utf-8")


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives."""
    return _bridge(problem).size(problem)


def relax(problem: Problem) -> int:
    """Return 0: without large-neighbourhood search, as decisions are few or a good plan is known."""
    return 0


def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective`` of the formulation."""
    return _bridge(problem).scale(problem)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that the core declares, all but those of the search."""
    return _bridge(problem).data(problem)


def term(problem: Problem, formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if problem.network is not None or not suits(problem, formulation):
        return None
    return _bridge(problem).term(problem, one)


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return a plan as values of the decisions, None where the formulations have none that is as good."""
    return _bridge(problem).start(problem, plan)


def decisions(problem: Problem, solution: Any) -> list[int]:
    """Return the values of a solution's decisions, in the order of `start`."""
    return _bridge(problem).decisions(solution)


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    found: Plan = _bridge(problem).plan(problem, solution)
    return found
