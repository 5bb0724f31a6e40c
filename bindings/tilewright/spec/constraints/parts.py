"""What constraints consist of once their loops are written out: constants, terms, and operators.

`logical`, `compared`, `arithmetic` and `counted` make them, and compute what is known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import prod
from typing import Any


@dataclass(frozen=True)
class Constant:
    """A number, a truth or a name."""

    value: int | bool | str

    def __str__(self) -> str:
        if isinstance(self.value, bool):
            return str(self.value).lower()
        return f"'{self.value}'" if isinstance(self.value, str) else str(self.value)


@dataclass(frozen=True)
class Term:
    """A decision or a measure of a plan: a word of the vocabulary with its arguments."""

    word: str
    arguments: tuple[str | int, ...] = ()

    def __str__(self) -> str:
        shown = (f"'{each}'" if isinstance(each, str) else str(each) for each in self.arguments)
        return f"{self.word}({', '.join(shown)})" if self.arguments else self.word


@dataclass(frozen=True)
class Operation:
    """An operator with its operands.

    ``+ * min max and or count`` take any number of them, ``count`` tells how many hold; ``neg`` and ``not``
    take one, all others two. The right side of ``//`` and ``%`` is a positive constant.
    """

    operator: str
    operands: tuple[Ground, ...]

    def __str__(self) -> str:
        inside = [_bracketed(each) for each in self.operands]
        if self.operator in ("min", "max", "count"):
            return f"{self.operator}({', '.join(map(str, self.operands))})"
        if self.operator in ("neg", "not"):
            return f"{'-' if self.operator == 'neg' else 'not '}{inside[0]}"
        return f" {self.operator} ".join(inside).replace("+ -", "- ")


Ground = Constant | Term | Operation


def _bracketed(part: Ground) -> str:
    plain = not isinstance(part, Operation) or part.operator in ("min", "max", "count", "neg")
    return str(part) if plain else f"({part})"


def conjuncts(part: Ground) -> list[Ground]:
    """Return what must hold, one by one."""
    if isinstance(part, Operation) and part.operator == "and":
        return [each for operand in part.operands for each in conjuncts(operand)]
    return [part]


def terms(part: Ground) -> set[Term]:
    """Return the terms that occur in a part."""
    if isinstance(part, Operation):
        return {term for operand in part.operands for term in terms(operand)}
    return {part} if isinstance(part, Term) else set()


def without_first(part: Ground) -> Ground:
    """Return a part whose terms lack their first argument, which names what they are of."""
    if isinstance(part, Term):
        return Term(part.word, part.arguments[1:])
    if isinstance(part, Operation):
        return Operation(part.operator, tuple(map(without_first, part.operands)))
    return part


def substituted(part: Ground, values: Callable[[Term], Ground | None]) -> Ground:
    """Return what is left of a part when some terms are known.

    Parameters
    ----------
    values
        Returns what stands for a term, None where that is open.
    """
    if isinstance(part, Term):
        found = values(part)
        return part if found is None else found
    if isinstance(part, Constant):
        return part
    operands = [substituted(each, values) for each in part.operands]
    match part.operator:
        case "and" | "or" | "not" | "implies":
            return logical(part.operator, operands)
        case "==" | "!=" | "<=" | "<":
            return compared(part.operator, *operands)
        case "count":
            return counted(operands)
    return arithmetic(part.operator, operands)


# What is known beforehand is computed ---------------------------------------------------------------


def logical(operator: str, parts: list[Ground]) -> Ground:
    """Return what logical operators make of truths."""
    if operator == "implies":
        return (
            logical("or", [logical("not", [parts[0]]), parts[1]])
            if _is_known(parts)
            else Operation("implies", tuple(parts))
        )
    if operator == "not":
        (part,) = parts
        return Constant(not part.value) if isinstance(part, Constant) else Operation("not", (part,))
    ends = operator == "or"
    flat: list[Ground] = []
    for part in parts:
        if isinstance(part, Constant):
            if part.value is ends:
                return Constant(ends)
        elif isinstance(part, Operation) and part.operator == operator:
            flat += part.operands
        else:
            flat.append(part)
    if len(flat) < 2:
        return flat[0] if flat else Constant(not ends)
    return Operation(operator, tuple(flat))


def _is_known(parts: list[Ground]) -> bool:
    return any(isinstance(part, Constant) for part in parts)


def compared(operator: str, left: Ground, right: Ground) -> Ground:
    """Return a comparison, by ``== != < <=``."""
    if operator in (">", ">="):
        operator, left, right = ("<" if operator == ">" else "<="), right, left
    if isinstance(left, Constant) and isinstance(right, Constant):
        return Constant(_COMPARE[operator](left.value, right.value))
    return Operation(operator, (left, right))


def counted(parts: Iterable[Ground]) -> Ground:
    """Return how many of some truths hold."""
    parts = list(parts)
    sure = sum(part == Constant(True) for part in parts)
    open_ = tuple(part for part in parts if not isinstance(part, Constant))
    if not open_:
        return Constant(sure)
    found = Operation("count", open_)
    return arithmetic("+", [found, Constant(sure)]) if sure else found


def arithmetic(operator: str, parts: list[Ground]) -> Ground:
    """Return what an operator makes of numbers."""
    if operator == "+":
        parts = [each for part in parts for each in (part.operands if _is_sum(part) else (part,))]  # type: ignore[union-attr]
    known = [part.value for part in parts if isinstance(part, Constant)]
    if len(known) == len(parts):
        return Constant(_NUMBERS[operator](known))
    if operator in ("+", "*") and known:
        constant = _NUMBERS[operator](known)
        parts = [part for part in parts if not isinstance(part, Constant)]
        if operator == "*" and constant == 0:
            return Constant(0)
        if constant != (0 if operator == "+" else 1):
            parts.append(Constant(constant))
    return parts[0] if len(parts) == 1 and operator != "neg" else Operation(operator, tuple(parts))


def _is_sum(part: Ground) -> bool:
    return isinstance(part, Operation) and part.operator == "+"


_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<=": lambda left, right: left <= right,
    "<": lambda left, right: left < right,
}

_NUMBERS: dict[str, Callable[[list[Any]], int]] = {
    "+": sum,
    "*": prod,
    "//": lambda values: values[0] // values[1],
    "%": lambda values: values[0] % values[1],
    "neg": lambda values: -values[0],
    "min": min,
    "max": max,
}
