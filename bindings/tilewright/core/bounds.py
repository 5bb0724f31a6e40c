"""What is proven of a problem: bounds known without a search, and answers of the exact searches."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Bound:
    """A lower bound on the objective of every plan.

    Attributes
    ----------
    name
        What proves it, with its parameters.
    value
        Bound on the objective.
    steps
        Fewest steps of a plan.
    impossible
        Why there is no plan, or None.
    parts
        Of a problem whose parts are solved one by one, the bound on each, in their order.
    """

    name: str
    value: int
    steps: int = 1
    impossible: str | None = None
    parts: tuple[int, ...] = field(default=(), kw_only=True)

    def __str__(self) -> str:
        return self.name if self.impossible is None else f"{self.name}: {self.impossible}"


class Exact(NamedTuple):
    """What an exact search found: the value, the plan (all plans of a front), and whether it is proven.

    Where it is not, there may be a bound that is.
    """

    value: int
    layers: tuple[Any, ...]
    proven: bool = True
    bound: int | None = None
