"""Expressions without loops: every name is looked up, every quantifier written out, all types checked.

What comes out is small enough for every solver's language to be translated into: constants, terms of the
room's vocabulary with constant arguments, and operators.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Literal, NamedTuple

from tilewright.spec.constraints import syntax
from tilewright.spec.constraints.parts import (
    Constant,
    Ground,
    Operation,
    Term,
    arithmetic,
    compared,
    counted,
    logical,
)
from tilewright.spec.constraints.syntax import ExpressionError
from tilewright.spec.constraints.vocabulary import Names, Vocabulary
from tilewright.spec.errors import did_you_mean

MOST_PARTS = 200_000
"""Most terms and operators of one constraint, once its quantifiers are written out."""


class _Kind(NamedTuple):
    """What a part is: a number of some unit, a truth, or a name of a set.

    Attributes
    ----------
    units
        Of a number, sorted, one for each factor; None where it goes with any.
    """

    of: Literal["integer", "truth", "name"]
    units: tuple[str, ...] | None = None
    names: Names | None = None

    def __str__(self) -> str:
        if self.of == "name":
            return "a name" if self.names is None else f"one of {self.names.name}"
        if self.of == "truth":
            return "something that holds or not"
        return f"a number of {' times '.join(self.units)}" if self.units else "a number"


_NUMBER, _TRUTH = _Kind("integer"), _Kind("truth")

Bound = Mapping[str, tuple[int | str, _Kind]]
"""Names that a loop has given values."""


def ground(tree: syntax.Node, vocabulary: Vocabulary) -> Ground:
    """Return a constraint without loops.

    Raises
    ------
    ExpressionError
        For unknown words, with the nearest one that there is, for what cannot be compared or counted, and for
        a constraint that becomes too large.
    """
    found, kind = _Grounding(vocabulary).of(tree, {})
    if kind.of != "truth":
        raise ExpressionError(tree.at, f"is {kind}; a constraint is something that holds or not")
    return found


class _Grounding:
    """Grounds one constraint."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary, self.parts = vocabulary, 0

    def of(self, node: syntax.Node, bound: Bound) -> tuple[Ground, _Kind]:
        """Return a part without loops, and what it is."""
        self.parts += 1
        if self.parts > MOST_PARTS:
            raise ExpressionError(node.at, f"becomes more than {MOST_PARTS} terms and operators")
        match node:
            case syntax.Number():
                return Constant(node.value), _NUMBER
            case syntax.Quoted():
                return Constant(node.text), _Kind("name")
            case syntax.Word():
                return self._word(node, bound)
            case syntax.Comparison():
                return self._comparison(node, bound)
            case syntax.Aggregate():
                return self._aggregate(node, bound)
            case syntax.Operation():
                return self._operation(node, bound)
        raise ExpressionError(node.at, "a set stands where a number or a word is expected")

    # Words -----------------------------------------------------------------------------------------

    def _word(self, node: syntax.Word, bound: Bound) -> tuple[Ground, _Kind]:
        if node.arguments is None and node.name in bound:
            value, kind = bound[node.name]
            return Constant(value), kind
        word = self.vocabulary.words.get(node.name)
        if word is None:
            return self._name(node, bound)
        given = node.arguments or ()
        if len(given) != len(word.takes):
            takes = ", ".join(f"one of {each.name}" for each in word.takes) or "nothing"
            how = f"; write {_example(word.name, word.takes)}" if word.takes else ""
            raise ExpressionError(node.at, f"{node.name} takes {takes} in parentheses{how}")
        arguments = tuple(
            self._argument(each, names, bound) for each, names in zip(given, word.takes, strict=True)
        )
        if isinstance(word.gives, Names):
            kind = _Kind("name", names=word.gives)
        else:
            kind = _TRUTH if word.gives == "truth" else _Kind("integer", (word.unit,) if word.unit else ())
        return (Term(word.name, arguments) if word.means is None else word.means(*arguments)), kind

    def _name(self, node: syntax.Word, bound: Bound) -> tuple[Ground, _Kind]:
        """Return a name that stands without quotes, if it is one of some set."""
        if node.arguments is None and any(node.name in names for names in self.vocabulary.sets.values()):
            return Constant(node.name), _Kind("name")
        sets = self.vocabulary.sets
        if node.name in sets:
            raise ExpressionError(node.at, f"{node.name} is a set; it stands behind `in`")
        members = [
            each for names in sets.values() if not isinstance(names.members, range) for each in names.members
        ]
        known = [*self.vocabulary.words, *bound, *sets, *members]
        there = ", ".join(sorted(self.vocabulary.words))
        told = did_you_mean(node.name, known) or f"; there are {there}"
        raise ExpressionError(node.at, f"unknown word {node.name}{told}")

    def _argument(self, node: syntax.Node, names: Names, bound: Bound) -> str | int:
        if isinstance(node, syntax.Word) and node.arguments is None and node.name not in bound:
            value: int | bool | str = node.name
        else:
            found, _ = self.of(node, bound)
            if not isinstance(found, Constant):
                raise ExpressionError(node.at, f"must be one of {names.name}, which is known beforehand")
            value = found.value
        if isinstance(value, bool) or value not in names:
            raise ExpressionError(node.at, _not_in(value, names))
        return value

    # Operators -------------------------------------------------------------------------------------

    def _integer(self, node: syntax.Node, bound: Bound) -> tuple[Ground, tuple[str, ...] | None]:
        found, kind = self.of(node, bound)
        if kind.of != "integer":
            raise ExpressionError(node.at, f"is {kind}; a number is expected")
        return found, kind.units

    def _truth(self, node: syntax.Node, bound: Bound) -> Ground:
        found, kind = self.of(node, bound)
        if kind.of != "truth":
            raise ExpressionError(node.at, f"is {kind}; something that holds or not is expected")
        return found

    def _operation(self, node: syntax.Operation, bound: Bound) -> tuple[Ground, _Kind]:
        operator, operands = node.operator, node.operands
        if operator in ("true", "false"):
            return Constant(operator == "true"), _TRUTH
        if operator in ("and", "or", "implies", "not"):
            return logical(operator, [self._truth(each, bound) for each in operands]), _TRUTH
        if operator == "count":
            return counted([self._truth(each, bound) for each in operands]), _Kind("integer", ())
        numbers = [self._integer(each, bound) for each in operands]
        parts = [part for part, _ in numbers]
        if operator == "*":
            units = [unit for _, unit in numbers]
            if all(unit is None for unit in units):
                return arithmetic("*", parts), _NUMBER
            return arithmetic("*", parts), _Kind(
                "integer", tuple(sorted(sum((unit or () for unit in units), ())))
            )
        if operator in ("//", "%"):
            by = parts[1]
            if not isinstance(by, Constant) or int(by.value) <= 0:
                raise ExpressionError(operands[1].at, f"{operator} needs a positive number on its right")
            return arithmetic(operator, parts), _Kind("integer", numbers[0][1])
        kind = _Kind("integer", _common(node, [unit for _, unit in numbers]))
        if operator == "-":
            return arithmetic("+", [parts[0], arithmetic("neg", [parts[1]])]), kind
        return arithmetic("+" if operator == "sum" else operator, parts), kind

    def _comparison(self, node: syntax.Comparison, bound: Bound) -> tuple[Ground, _Kind]:
        left, rest = node.operands[0], zip(node.operators, pairwise(node.operands), strict=True)
        held: list[Ground] = []
        first, kind = self.of(left, bound)
        for operator, (_, right) in rest:
            if operator in ("in", "not in"):
                inside = self._member(node, first, kind, right, bound)
                held.append(inside if operator == "in" else logical("not", [inside]))
                continue
            second, other = self.of(right, bound)
            self._refuse_unlike(node, (first, kind), operator, (right, second, other))
            held.append(compared(operator, first, second))
            first, kind = second, other
        return logical("and", held), _TRUTH

    def _refuse_unlike(
        self,
        node: syntax.Node,
        left: tuple[Ground, _Kind],
        operator: str,
        right: tuple[syntax.Node, Ground, _Kind],
    ) -> None:
        (first, kind), (at, second, other) = left, right
        if kind.of != other.of or (kind.of == "truth" and operator not in ("==", "!=")):
            raise ExpressionError(at.at, f"{other} cannot be compared with {kind} by {operator}")
        if kind.of == "integer":
            _common(node, [kind.units, other.units])
        elif kind.of == "name" and operator not in ("==", "!="):
            raise ExpressionError(at.at, f"names have no order; {operator} cannot compare them")
        for names, known in ((kind.names, second), (other.names, first)):
            if names is not None and isinstance(known, Constant) and known.value not in names:
                raise ExpressionError(at.at, _not_in(known.value, names))

    def _member(self, node: syntax.Node, value: Ground, kind: _Kind, of: syntax.Node, bound: Bound) -> Ground:
        """Return that a value is in a set."""
        if kind.of == "truth":
            raise ExpressionError(node.at, f"is {kind}; a set has numbers or names")
        held: list[Ground] = []
        for one in of.members if isinstance(of, syntax.Listed) else (of,):
            if isinstance(one, syntax.Span):
                if kind.of != "integer":
                    raise ExpressionError(one.at, f"has numbers; {kind} is not in it")
                ends = [self._integer(end, bound)[0] for end in (one.first, one.last)]
                held.append(logical("and", [compared("<=", ends[0], value), compared("<=", value, ends[1])]))
            elif of is one:
                held += [compared("==", value, Constant(each)) for each in self._values(one, bound)[0]]
            else:
                member, other = self.of(one, bound)
                self._refuse_unlike(node, (value, kind), "==", (one, member, other))
                held.append(compared("==", value, member))
        return logical("or", held)

    # Loops -----------------------------------------------------------------------------------------

    def _values(self, of: syntax.Node, bound: Bound) -> tuple[tuple[int | str, ...] | range, _Kind]:
        """Return the members of a set, which are known beforehand, and what they are."""
        if isinstance(of, syntax.Word) and of.arguments is None:
            names = self.vocabulary.sets.get(of.name)
            if names is None:
                told = did_you_mean(of.name, list(self.vocabulary.sets))
                there = "" if told else f"; there are {', '.join(self.vocabulary.sets)}"
                raise ExpressionError(of.at, f"unknown set {of.name}{told or there}")
            numbered = isinstance(names.members, range)
            return names.members, _NUMBER if numbered else _Kind("name", names=names)
        if isinstance(of, syntax.Span):
            first, last = (self._known(end, bound) for end in (of.first, of.last))
            if isinstance(first, str) or isinstance(last, str):
                raise ExpressionError(of.at, "has numbers at both ends")
            return range(first, last + 1), _NUMBER
        if not isinstance(of, syntax.Listed):
            raise ExpressionError(of.at, "a set is {1, 2}, 1..8, or has a name")
        values: list[int | str] = []
        for one in of.members:
            values += (
                self._values(one, bound)[0] if isinstance(one, syntax.Span) else [self._known(one, bound)]
            )
        if len({isinstance(value, str) for value in values}) > 1:
            raise ExpressionError(of.at, "mixes names and numbers")
        return tuple(dict.fromkeys(values)), _Kind("name") if isinstance(
            next(iter(values), 0), str
        ) else _NUMBER

    def _known(self, node: syntax.Node, bound: Bound) -> int | str:
        found, _ = self.of(node, bound)
        if not isinstance(found, Constant) or isinstance(found.value, bool):
            raise ExpressionError(node.at, "must be known beforehand: a number or a name")
        return found.value

    def _rounds(self, loops: tuple[syntax.Loop, ...], bound: Bound) -> Iterator[Bound]:
        if not loops:
            yield bound
            return
        (name, over), *rest = loops
        if name in self.vocabulary.words or name in self.vocabulary.sets:
            raise ExpressionError(over.at, f"{name} is a word of its own; choose another name")
        values, kind = self._values(over, bound)
        for value in values:
            self.parts += 1
            if self.parts > MOST_PARTS:
                raise ExpressionError(over.at, f"becomes more than {MOST_PARTS} terms and operators")
            yield from self._rounds(tuple(rest), {**bound, name: (value, kind)})

    def _aggregate(self, node: syntax.Aggregate, bound: Bound) -> tuple[Ground, _Kind]:
        parts: list[Ground] = []
        units: list[tuple[str, ...] | None] = []
        truths = node.kind in ("all", "some", "count")
        for inside in self._rounds(node.loops, bound):
            condition: Ground = (
                Constant(True) if node.condition is None else self._truth(node.condition, inside)
            )
            if condition == Constant(False):
                continue
            if truths:
                part = self._truth(node.body, inside)
                join = "implies" if node.kind == "all" else "and"
                parts.append(logical(join, [condition, part]))
                continue
            if condition != Constant(True) and node.kind != "sum":
                assert node.condition is not None
                raise ExpressionError(node.condition.at, f"of {node.kind} must be known beforehand")
            part, unit = self._integer(node.body, inside)
            if condition != Constant(True):
                part = arithmetic("*", [Operation("count", (condition,)), part])
            parts.append(part)
            units.append(unit)
        if node.kind in ("all", "some"):
            return logical("and" if node.kind == "all" else "or", parts), _TRUTH
        if node.kind == "count":
            return counted(parts), _Kind("integer", ())
        if not parts and node.kind != "sum":
            raise ExpressionError(node.at, f"{node.kind} of nothing")
        unit = _common(node, units)
        return arithmetic("+" if node.kind == "sum" else node.kind, parts), _Kind("integer", unit)


def _common(node: syntax.Node, units: list[tuple[str, ...] | None]) -> tuple[str, ...] | None:
    """Return the unit that numbers have in common, which are added up or compared."""
    known = list(dict.fromkeys(unit for unit in units if unit is not None))
    if len(known) > 1:
        told = " and ".join(" times ".join(unit) or "a plain number" for unit in known[:2])
        raise ExpressionError(node.at, f"mixes {told}")
    return known[0] if known else None


def _not_in(value: int | bool | str, names: Names) -> str:
    if isinstance(names.members, range):
        ends = names.members
        return f"{value} is none of {names.name}, which are {ends.start} to {ends.stop - 1}"
    told = did_you_mean(value, list(names.members)) if isinstance(value, str) else ""
    shown = ", ".join(names.members[:12]) + (", ..." if len(names.members) > 12 else "")
    return f"'{value}' is none of {names.name}{told or f'; there are {shown}'}"


def _example(word: str, takes: tuple[Names, ...]) -> str:
    return str(Term(word, tuple(names.members[0] if names.members else "" for names in takes)))


def numbered(part: Ground, vocabulary: Vocabulary) -> Ground:
    """Return a part in which names that are compared are their numbers in their set, from 1."""
    if not isinstance(part, Operation):
        return part
    operands = tuple(numbered(each, vocabulary) for each in part.operands)
    for each in part.operands:
        names = vocabulary.words[each.word].gives if isinstance(each, Term) else None
        if isinstance(names, Names):
            operands = tuple(_number_of(operand, names) for operand in operands)
    return Operation(part.operator, operands)


def _number_of(part: Ground, names: Names) -> Ground:
    if isinstance(part, Constant) and isinstance(part.value, str):
        return Constant(names.members.index(part.value) + 1)  # type: ignore[arg-type]
    return part
