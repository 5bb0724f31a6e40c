"""Constraints of a problem: the tables ``[[constraints]]`` of an instance, and what they make of a plan."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

from pydantic import Field, model_validator

from tilewright.spec.base import Spec
from tilewright.spec.constraints import meaning
from tilewright.spec.constraints.grounding import ground, numbered
from tilewright.spec.constraints.parts import Ground, Term, conjuncts, terms, without_first
from tilewright.spec.constraints.syntax import MOST_SIGNS, ExpressionError, parse
from tilewright.spec.constraints.vocabulary import Vocabulary
from tilewright.spec.errors import LONGEST_VALUE, InputError, InputErrors

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

MOST_CONSTRAINTS = 100
"""Most constraints of a problem."""

MOST_SHOWN = 4
"""Most terms whose values are told of a broken constraint."""


class Constraint(Spec):
    """What every plan of a problem must keep.

    Attributes
    ----------
    say
        An expression in the room's vocabulary (docs/constraints.md).
    because
        Why, for people; it is printed where the constraint matters.
    """

    say: Annotated[str, Field(min_length=1, max_length=MOST_SIGNS)]
    because: Annotated[str, Field(max_length=1_000)] = ""

    def told(self) -> dict[str, Any]:
        """Return what a problem's digest is of: what must hold, not why."""
        return {"say": " ".join(self.say.split())}

    def __str__(self) -> str:
        """Return the expression on one line."""
        return " ".join(self.say.split())


@dataclass(frozen=True)
class Judged:
    """A constraint in a plan.

    Attributes
    ----------
    kept
        Whether it holds.
    slack
        How much is left until it is broken, None where it compares no numbers.
    found
        The part of it that is broken, with the values of its terms; empty where it is kept.
    """

    constraint: Constraint
    kept: bool
    slack: int | None
    found: str = ""

    @property
    def named(self) -> str:
        """The constraint, and why it is there."""
        why = f" ({self.constraint.because})" if self.constraint.because else ""
        return f"`{self.constraint}`{why}"

    def __str__(self) -> str:
        """Return a sentence about a broken constraint."""
        return f"constraint {self.named} does not hold: {self.found}"


class Constrained(Spec):
    """Base of a problem: its constraints, in the vocabulary of its room.

    Attributes
    ----------
    constraints
        All of which every plan must keep.
    """

    ever_later: ClassVar[tuple[str, ...]] = ("constraints",)

    constraints: Annotated[tuple[Constraint, ...], Field(max_length=MOST_CONSTRAINTS, repr=False)] = ()

    @model_validator(mode="after")
    def _with_meaning(self) -> Self:
        if self.constraints:
            self.check_constraints()
        return self

    def check_constraints(self) -> None:
        """Refuse constraints that have no meaning, and what the room does not take with any."""
        _ = self.grounded

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """What constraints of this problem can speak of: ``vocabulary(problem)`` of its room's module."""
        package = type(self).__module__.rpartition(".")[0]
        if importlib.util.find_spec(f"{package}.vocabulary") is None:
            raise InputError(
                "constraints", str(self.constraints[0]), "this room does not take constraints yet"
            )
        found: Vocabulary = importlib.import_module(f"{package}.vocabulary").vocabulary(self)
        return found

    @cached_property
    def grounded(self) -> tuple[Ground, ...]:
        """Every constraint without loops."""
        found, wrong = [], []
        for number, constraint in enumerate(self.constraints):
            try:
                found.append(ground(parse(constraint.say), self.vocabulary))
            except ExpressionError as error:
                wrong.append(InputError(f"constraints[{number}].say", constraint.say, str(error)))
        if wrong:
            raise wrong[0] if len(wrong) == 1 else InputErrors(wrong)
        return tuple(found)

    def refusal_of(self, words: Collection[str], reason: str) -> InputError:
        """Return the refusal of the first constraint that has one of some words, or of the first one."""
        every = zip(self.constraints, self.grounded, strict=True)
        has = [any(term.word in words for term in terms(part)) for _, part in every]
        number = has.index(True) if True in has else 0
        return InputError(f"constraints[{number}].say", self.constraints[number].say, reason)

    @cached_property
    def must_hold(self) -> tuple[Ground, ...]:
        """All that must hold, one by one, of all constraints."""
        return tuple(each for part in self.grounded for each in conjuncts(part))

    @cached_property
    def must_hold_in_numbers(self) -> tuple[Ground, ...]:
        """The same for solvers, which know no names: each is its number in its set, from 1."""
        return tuple(numbered(part, self.vocabulary) for part in self.must_hold)

    def said_of(self, name: str) -> tuple[str, ...]:
        """Return what constraints say of one part of the problem, in the words of that part alone.

        Parameters
        ----------
        name
            Of the part; it is the first argument of every word.

        Raises
        ------
        InputError
            For a constraint that relates several parts, which are solved one by one.
        """
        found = []
        for part in self.must_hold:
            names = {str(term.arguments[0]) for term in terms(part)}
            if len(names) > 1:
                limit = f"relates {', '.join(sorted(names)[:4])}, which are solved one by one"
                raise InputError("constraints", str(part)[:LONGEST_VALUE], limit)
            if names in (set(), {name}):
                found.append(str(without_first(part)))
        return tuple(found)

    def where(self, *says: str, because: str = "") -> Self:
        """Return the same problem with more constraints.

        Parameters
        ----------
        *says
            Expressions in the room's vocabulary (docs/constraints.md).
        because
            Why, for people.

        Raises
        ------
        InputError
            For what has no meaning: it names the column.

        Examples
        --------
        >>> import tilewright as tw
        >>> problem = tw.read("s1-example2").problem.where("step(0, 0) == 1")
        >>> len(problem.constraints)
        1
        """
        more = tuple(Constraint(say=say, because=because) for say in says)
        return self.with_(constraints=(*self.constraints, *more))

    def without_constraints(self) -> Self:
        """Return the same problem without its constraints."""
        return self.with_(constraints=()) if self.constraints else self

    @property
    def leaving_out(self) -> list[str]:
        """What leaves plans out and can be lifted: ``constraints[0]``, ``limits.steps``."""
        limits = getattr(self, "limits", None)
        free = getattr(limits, "lifted", {})
        return [
            *(f"constraints[{number}]" for number in range(len(self.constraints))),
            *(f"limits.{name}" for name, value in free.items() if getattr(limits, name) != value),
        ]

    def keeping_only(self, names: Collection[str]) -> Self:
        """Return the same problem with only some of what leaves plans out; see `leaving_out`."""
        kept = [each for n, each in enumerate(self.constraints) if f"constraints[{n}]" in names]
        found = self.with_(constraints=tuple(kept))
        limits: Any = getattr(self, "limits", None)
        free = {
            name: value
            for name, value in getattr(limits, "lifted", {}).items()
            if f"limits.{name}" in self.leaving_out and f"limits.{name}" not in names
        }
        return found.with_(limits=limits.with_(**free)) if free else found

    def judge_constraints(self, plan: Any) -> list[Judged]:
        """Return what each constraint makes of a plan that keeps all limits."""
        if not self.constraints:
            return []
        view = self.vocabulary.view(plan)

        def values(term: Term) -> Any:
            return self.vocabulary.value(term, view)

        return [
            _judged(constraint, part, values)
            for constraint, part in zip(self.constraints, self.grounded, strict=True)
        ]


def _judged(constraint: Constraint, part: Ground, values: meaning.Values) -> Judged:
    kept = bool(meaning.value(part, values))
    found = ""
    if not kept:
        broken = next(each for each in conjuncts(part) if not meaning.value(each, values))
        found = _shown(broken, values)
    return Judged(constraint, kept, meaning.slack(part, values), found)


def _shown(part: Ground, values: meaning.Values) -> str:
    """Return what a broken part says, and the values of its terms."""
    listed: Sequence[Term] = sorted(terms(part), key=str)
    shown = ", ".join(f"{term} is {values(term)}" for term in listed[:MOST_SHOWN])
    more = ", ..." if len(listed) > MOST_SHOWN else ""
    said = str(part)
    said = f"{said}: " if len(said) <= 80 else ""
    return f"{said}{shown}{more}" if shown else said or "it never holds"
