"""What constraints of a problem can speak of: words, the sets of names that they take, and their units."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from tilewright.spec.constraints.parts import Ground, Term


class Names(NamedTuple):
    """A set of named things, or of numbers that stand for some.

    Attributes
    ----------
    name
        As constraints name it, in the plural: ``layers``.
    members
        In their order.
    """

    name: str
    members: tuple[str, ...] | range

    def __contains__(self, value: object) -> bool:
        return value in self.members


@dataclass(frozen=True)
class Word:
    """A word of a vocabulary, with a value of its own or a meaning in other words.

    Attributes
    ----------
    name
        As constraints name it, with dots.
    says
        What it is, one line.
    value
        Its value: called with what `Vocabulary.view` makes of a plan, and the arguments. None for a word that
        stands for others.
    means
        What it stands for: called with the arguments.
    takes
        The set of each argument.
    unit
        What it counts, where that must not be mixed up: ``bytes``; empty for what can be compared with all.
    gives : {"integer", "truth"} or Names
        What it is: a number, something that holds or not, or one of some names.
    """

    name: str
    says: str
    value: Callable[..., Any] | None = None
    takes: tuple[Names, ...] = ()
    unit: str = ""
    gives: Literal["integer", "truth"] | Names = "integer"
    means: Callable[..., Ground] | None = None


@dataclass(frozen=True)
class Vocabulary:
    """The words of a problem.

    Attributes
    ----------
    words
        By name.
    sets
        Sets of names by name.
    view
        Makes of a plan what the words look at; called once for each plan.
    """

    words: Mapping[str, Word]
    sets: Mapping[str, Names]
    view: Callable[[Any], Any]

    @classmethod
    def of(cls, words: Iterable[Word], view: Callable[[Any], Any], sets: Iterable[Names] = ()) -> Vocabulary:
        """Return the vocabulary of some words, with the sets that these take and give, and others."""
        listed = list(words)
        named = {each.name: each for each in sets}
        for word in listed:
            given = (word.gives,) if isinstance(word.gives, Names) else ()
            named |= {each.name: each for each in (*word.takes, *given)}
        return cls({word.name: word for word in listed}, named, view)

    def value(self, term: Term, view: Any) -> Any:
        """Return the value of a term in a plan, of which `view` has been made."""
        value = self.words[term.word].value
        assert value is not None
        return value(view, *term.arguments)
