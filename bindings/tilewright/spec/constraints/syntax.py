"""The expressions that constraints are written in: text to tree, without any meaning of names.

From what binds least to what binds most::

    for all l in layers: E     for some l in layers: E
    A implies B
    A or B
    A and B
    not A
    a == b   !=   <   <=   >   >=   in {1, 2, 8}   in 1..8   not in     chains: 1 <= a < b
    a + b    a - b
    a * b    a // b    a % b
    -a
    12   'a name'   word   word.of.it   word(l, 'a name')   ( E )
    sum(e for l in layers if E)   min(...)   max(...)   count(E for l in layers)
    sum(a, b)   min(a, b)   max(a, b)   count(E, F)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

MOST_SIGNS = 2_000
"""Longest text of a constraint."""

MOST_NESTED = 40
"""Most expressions inside each other."""

LARGEST = 2**63 - 1
"""Largest number that may be written."""


class ExpressionError(Exception):
    """What is wrong with an expression, and from which column on, counted from 1."""

    def __init__(self, at: int, problem: str) -> None:
        super().__init__(f"column {at}: {problem}")
        self.at, self.problem = at, problem


@dataclass(frozen=True)
class Node:
    """A part of an expression.

    Attributes
    ----------
    at
        Column where it begins, counted from 1.
    """

    at: int


@dataclass(frozen=True)
class Number(Node):
    """An integer."""

    value: int


@dataclass(frozen=True)
class Quoted(Node):
    """A name in quotes."""

    text: str


@dataclass(frozen=True)
class Word(Node):
    """A word of a vocabulary with its arguments, a bound name, or a name without quotes.

    Attributes
    ----------
    arguments
        None where there are no parentheses.
    """

    name: str
    arguments: tuple[Node, ...] | None


@dataclass(frozen=True)
class Operation(Node):
    """An operator with its operands: ``+ - * // % neg not and or implies true false sum count min max``."""

    operator: str
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Comparison(Node):
    """A chain of comparisons, all of which hold.

    Attributes
    ----------
    operators
        ``== != < <= > >=``, and ``in`` and ``not in``, whose right side is a set.
    operands
        One more than there are operators.
    """

    operators: tuple[str, ...]
    operands: tuple[Node, ...]


@dataclass(frozen=True)
class Listed(Node):
    """A set whose members are listed."""

    members: tuple[Node, ...]


@dataclass(frozen=True)
class Span(Node):
    """All integers from one to another."""

    first: Node
    last: Node


class Loop(NamedTuple):
    """A name that takes each value of a set in turn."""

    name: str
    over: Node


@dataclass(frozen=True)
class Aggregate(Node):
    """What is made of an expression for all values of some names: ``all some sum count min max``."""

    kind: str
    body: Node
    loops: tuple[Loop, ...]
    condition: Node | None


AGGREGATES = ("sum", "count", "min", "max")
RESERVED = {"for", "all", "some", "in", "if", "and", "or", "not", "implies", "true", "false", *AGGREGATES}
"""Words of the language, which no name can be but in quotes."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<number>\d+)|(?P<word>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)|'(?P<single>[^']*)'|"(?P<double>[^"]*)"
    |(?P<sign>==|!=|<=|>=|//|\.\.|[-+*%<>(){},:]))""",
    re.VERBOSE | re.ASCII,
)

_COMPARING = ("==", "!=", "<", "<=", ">", ">=", "in")
_LEFT = {"implies": 1, "or": 2, "and": 3, "+": 6, "-": 6, "*": 7, "//": 7, "%": 7}
"""How much operators bind; `not` is 4, comparisons are 5."""
_NOT, _COMPARED, _NEGATED = 4, 5, 8


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def _tokens(text: str) -> list[_Token]:
    found, place = [], 0
    text = text.rstrip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if match is None:
            at = place + len(text[place:]) - len(text[place:].lstrip())
            sign = text[at]
            told = "a name in quotes has no end" if sign in "'\"" else f"{sign} has no meaning here"
            if sign == "=":
                told = "equality is written =="
            raise ExpressionError(at + 1, told)
        kind = match.lastgroup
        assert kind is not None
        start = match.start(kind) - (kind in ("single", "double"))
        kind = "quoted" if kind in ("single", "double") else kind
        found.append(_Token(kind, match.group(match.lastgroup or 0), start + 1))
        place = match.end()
    return [*found, _Token("end", "the end", len(text) + 1)]


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises
    ------
    ExpressionError
        If it is none.
    """
    if len(text) > MOST_SIGNS:
        raise ExpressionError(MOST_SIGNS + 1, f"is longer than {MOST_SIGNS} signs")
    parser = _Parser(_tokens(text))
    tree = parser.expression(0)
    parser.expect("end")
    return tree


class _Parser:
    """Reads tokens from the first to the last."""

    def __init__(self, tokens: list[_Token]) -> None:
        self.tokens, self.place, self.depth = tokens, 0, 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.place]

    def _next(self) -> _Token:
        token = self.token
        self.place += token.kind != "end"
        return token

    def _is(self, *texts: str) -> bool:
        return self.token.kind in ("word", "sign") and self.token.text in texts

    def _take(self, *texts: str) -> bool:
        taken = self._is(*texts)
        self.place += taken
        return taken

    def expect(self, text: str) -> None:
        """Go on behind a sign or a word that must stand here, or see that it is the end."""
        if self.token.kind == "end" if text == "end" else self._take(text):
            return
        wanted = "nothing more" if text == "end" else text
        raise ExpressionError(self.token.at, f"{self.token.text} stands where {wanted} is expected")

    def expression(self, least: int) -> Node:
        """Return what stands here, up to an operator that binds no more than `least`."""
        self.depth += 1
        if self.depth > MOST_NESTED:
            raise ExpressionError(self.token.at, f"more than {MOST_NESTED} expressions inside each other")
        left = self._first()
        while True:
            if least < _COMPARED and self._compares():
                left = self._comparison(left)
                continue
            token = self.token
            binds = _LEFT.get(token.text, 0) if token.kind in ("word", "sign") else 0
            if binds <= least:
                break
            self._next()
            # `implies` takes all of what follows, other operators what binds more.
            right = self.expression(binds - (token.text == "implies"))
            left = Operation(left.at, token.text, (left, right))
        self.depth -= 1
        return left

    def _compares(self) -> bool:
        following = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        return self._is(*_COMPARING) or (self._is("not") and following[:2] == ("word", "in"))

    def _comparison(self, left: Node) -> Node:
        operators, operands = [], [left]
        while self._compares():
            negated = self._take("not")
            operator = self._next().text
            operators.append("not in" if negated else operator)
            operands.append(self._set() if operator == "in" else self.expression(_COMPARED))
        return Comparison(left.at, tuple(operators), tuple(operands))

    def _set(self) -> Node:
        """Return a set: listed, a span, or one that has a name."""
        at = self.token.at
        if self._take("{"):
            return Listed(at, self._list("}", spans=True))
        first = self.expression(_COMPARED)
        if self._take(".."):
            return Span(at, first, self.expression(_COMPARED))
        if not isinstance(first, Word):
            raise ExpressionError(at, "a set is {1, 2}, 1..8, or has a name")
        return first

    def _member(self) -> Node:
        first = self.expression(_COMPARED)
        return Span(first.at, first, self.expression(_COMPARED)) if self._take("..") else first

    def _list(self, end: str, *, spans: bool = False) -> tuple[Node, ...]:
        """Return what stands between commas up to a closing sign, and go on behind that."""
        members: list[Node] = []
        while not self._take(end):
            if members:
                self.expect(",")
            members.append(self._member() if spans else self.expression(0))
        return tuple(members)

    def _first(self) -> Node:
        """Return what no operator stands before."""
        token = self._next()
        if token.kind == "number":
            if len(token.text) > 19 or int(token.text) > LARGEST:
                raise ExpressionError(token.at, f"is larger than {LARGEST}")
            return Number(token.at, int(token.text))
        if token.kind == "quoted":
            return Quoted(token.at, token.text)
        if token.text == "(":
            inside = self.expression(0)
            self.expect(")")
            return inside
        if token.text == "-":
            return Operation(token.at, "neg", (self.expression(_NEGATED),))
        if token.kind == "word":
            return self._word(token)
        raise ExpressionError(token.at, f"{token.text} stands where a number or a word is expected")

    def _word(self, token: _Token) -> Node:
        name = token.text
        if name == "not":
            return Operation(token.at, "not", (self.expression(_NOT),))
        if name in ("true", "false"):
            return Operation(token.at, name, ())
        if name == "for":
            return self._quantified(token.at)
        if name in AGGREGATES:
            return self._aggregate(token)
        if name in RESERVED:
            raise ExpressionError(token.at, f"{name} stands where a number or a word is expected")
        return Word(token.at, name, self._list(")") if self._take("(") else None)

    def _quantified(self, at: int) -> Node:
        """Return ``for all`` or ``for some``, up to the end of what stands behind the colon."""
        if not self._is("all", "some"):
            raise ExpressionError(self.token.at, "`for` goes on with `all` or `some`")
        kind = self._next().text
        loops, condition = self._loops(",")
        self.expect(":")
        return Aggregate(at, kind, self.expression(0), loops, condition)

    def _loops(self, between: str) -> tuple[tuple[Loop, ...], Node | None]:
        """Return the names that take values, and the condition behind ``if``."""
        loops: list[Loop] = []
        while not loops or self._take(between):
            name = self._next()
            if name.kind != "word" or name.text in RESERVED or "." in name.text:
                raise ExpressionError(name.at, f"{name.text} stands where a new name is expected")
            self.expect("in")
            loops.append(Loop(name.text, self._set()))
        return tuple(loops), self.expression(0) if self._take("if") else None

    def _aggregate(self, token: _Token) -> Node:
        self.expect("(")
        first = self.expression(0)
        if self._take("for"):
            loops, condition = self._loops("for")
            self.expect(")")
            return Aggregate(token.at, token.text, first, loops, condition)
        rest = self._list(")") if self._take(",") else ()
        if not rest:
            self.expect(")")
        return Operation(token.at, token.text, (first, *rest))
