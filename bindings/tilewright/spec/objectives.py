"""What is minimised: the table ``[objective]`` of an instance, for all rooms.

A room says in `Objective`s what it can minimise. Its table is a `SingleObjective` or an `ObjectiveList`, its
problem is `Minimising`.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, Self

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.constraints import Constrained
from tilewright.spec.errors import InputError

Share = Annotated[float, Field(ge=0, le=100)]


class Objective(NamedTuple):
    """What a room can minimise.

    Attributes
    ----------
    name
        As files and ``--minimise`` have it.
    unit
        What it counts.
    measure
        The field of the room's measures that has it, once a plan is executed.
    """

    name: str
    unit: str
    measure: str


def by_name(*objectives: Objective) -> dict[str, Objective]:
    """Return objectives by their names, the default first."""
    return {each.name: each for each in objectives}


class SingleObjective(Spec):
    """Base of a table that names one objective, as the field ``minimise`` of a subclass."""

    table_name: ClassVar[str] = "objective"

    minimise: Any

    @property
    def names(self) -> tuple[str, ...]:
        """What is minimised, the most important first; nothing where that is left to the problem."""
        return (self.minimise,)

    @property
    def tolerances(self) -> tuple[float, ...]:
        """The tolerance of every objective but the last."""
        return ()


class ObjectiveList(SingleObjective):
    """Base of a table that names one objective or a list of them.

    Attributes
    ----------
    minimise
        A name, or a list: each one is minimised among the plans that are good in those before it.
    tolerance
        How much more than its least each objective of a list but the last may cost, as a share of that: one
        number for all of them, or one for each.
    """

    later: ClassVar[tuple[str, ...]] = ("tolerance",)

    minimise: str | tuple[str, ...] | None = None
    tolerance: Share | tuple[Share, ...] = 0.0

    @property
    def names(self) -> tuple[str, ...]:
        """What is minimised, the most important first; nothing where that is left to the problem."""
        return (self.minimise,) if isinstance(self.minimise, str) else self.minimise or ()

    @property
    def tolerances(self) -> tuple[float, ...]:
        """The tolerance of every objective but the last."""
        given = self.tolerance
        return given if isinstance(given, tuple) else (given,) * (len(self.names) - 1)

    def model_post_init(self, _context: object) -> None:
        """Refuse lists that say something twice or nothing, and tolerances of no objective."""
        names, given = self.names, self.tolerance
        if self.minimise == () or len(set(names)) < len(names):
            raise InputError("minimise", list(names), "takes different objectives, the most important first")
        if isinstance(given, tuple) and len(given) != len(names) - 1:
            limit = f"takes one number, or one for each objective but the last, which are {len(names) - 1}"
            raise InputError("tolerance", list(given), limit)
        if given and len(names) < 2:
            raise InputError("tolerance", given, "needs a list of objectives")


class Minimising(Constrained):
    """Base of a problem, which has a field ``objective``: what it minimises, and what that counts."""

    can_minimise: ClassVar[Mapping[str, Objective]] = {}
    """What the room can minimise, by name, the default first."""

    if TYPE_CHECKING:
        objective: Any

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """What plans of this problem can be compared by, the default first."""
        return self.can_minimise

    @property
    def minimise(self) -> str:
        """What is minimised; of a list, the last one."""
        names: tuple[str, ...] = self.objective.names
        return names[-1] if names else next(iter(self.objectives))

    @property
    def before(self) -> tuple[tuple[str, float], ...]:
        """The objectives of a list that come before the last, each with its tolerance."""
        return tuple(zip(self.objective.names, self.objective.tolerances, strict=False))

    @property
    def in_turn(self) -> bool:
        """Whether there is a list whose objectives are minimised one after the other."""
        return bool(self.before)

    def stage(self, least: Mapping[str, int]) -> Self:
        """Return the problem of the first objective of a list whose least cost is not known, or of the last.

        Parameters
        ----------
        least
            What objectives before it cost at least: they may cost that, and their tolerance.
        """
        raise NotImplementedError(f"{type(self).__name__} knows no list of objectives, not even {least}")

    @property
    def unit(self) -> str:
        """What the objective counts; of a front its first plan's."""
        return self.objectives[self.minimise].unit

    def measured(self, measures: Any) -> int:
        """Return the cost of an executed plan, from its room's measures; of a front its first plan's."""
        return int(getattr(measures, self.objectives[self.minimise].measure))


def tolerated(least: int, tolerance: float) -> int:
    """Return what a cost may be at most whose least is known; the tolerance is read as its decimals say."""
    return least + int(least * Fraction(str(tolerance)))


def among_plans(before: tuple[tuple[str, float], ...], whose: str = "the") -> list[tuple[str, str]]:
    """Return the line of a summary that says among which plans the last of a list is compared; or none.

    Parameters
    ----------
    before
        As `Minimising.before`.
    whose
        Of what each is the least.
    """
    if not before:
        return []
    told = [
        f"at most {100 * share:g} % above {whose} least {name}" if share else f"with {whose} least {name}"
        for name, share in before
    ]
    return [("among plans", ", then ".join(told))]
