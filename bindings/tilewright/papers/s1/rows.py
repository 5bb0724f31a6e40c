"""A row of the S1 paper's tables and figures: one solved instance beside the paper's heuristics."""

from __future__ import annotations

from dataclasses import dataclass

from tilewright.grouping.problem import Problem
from tilewright.run.result import Result


@dataclass(frozen=True)
class Row:
    """One solved instance beside the paper's heuristics.

    Attributes
    ----------
    label
        Name of the input or layer, and the group size.
    baselines
        Objectives of the paper's heuristics, whether they respect the reload limit or not.
    broken
        Those of them that do not.
    """

    label: tuple[str, int]
    problem: Problem
    result: Result
    baselines: dict[str, int]
    broken: tuple[str, ...]

    @property
    def best_baseline(self) -> int:
        """The better of ZigZag and Row-by-Row."""
        return min(self.baselines.values())

    @property
    def objective(self) -> float:
        """Objective found, infinite when nothing was found."""
        return float("inf") if self.result.objective is None else self.result.objective

    @property
    def gain(self) -> float:
        """Saving against the better baseline, as in figure 13."""
        return 1 - self.objective / self.best_baseline

    @property
    def gap(self) -> float:
        """Distance to the proven bound, relative to the objective."""
        return 0.0 if self.optimal else self.result.gap or 0.0

    @property
    def optimal(self) -> bool:
        """Whether the plan is proven optimal."""
        return self.result.status == "optimal"
