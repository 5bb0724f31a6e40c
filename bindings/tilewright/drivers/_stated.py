"""Constraints of a problem as MiniZinc, Pyomo and CP-SAT state them.

Each takes what a formulation says a term of the vocabulary is, and states the rest itself.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from tilewright.spec.constraints.parts import Constant, Ground, Operation, Term
from tilewright.spec.errors import InputError

_MINIZINC = {
    "+": " + ",
    "*": " * ",
    "//": " div ",
    "%": " mod ",
    "and": " /\\ ",
    "or": " \\/ ",
    "implies": " -> ",
    "==": " = ",
    "!=": " != ",
    "<=": " <= ",
    "<": " < ",
}


def in_minizinc(part: Ground, term: Callable[[Term], str]) -> str:
    """Return a part in MiniZinc.

    Parameters
    ----------
    term
        Returns a term in MiniZinc; a name is its number among the names of its set, as `term` has it.
    """
    if isinstance(part, Term):
        return f"({term(part)})"
    if isinstance(part, Constant):
        return str(part.value).lower()
    inside = [in_minizinc(each, term) for each in part.operands]
    match part.operator:
        case "neg":
            return f"(-{inside[0]})"
        case "not":
            return f"(not {inside[0]})"
        case "min" | "max":
            return f"{part.operator}([{', '.join(inside)}])"
        case "%" | "//":
            # MiniZinc cuts off towards zero; a floor is meant. It knows itself what may be below zero.
            value, by = inside
            rest = f"((({value} mod {by}) + {by}) mod {by})"
            floor = rest if part.operator == "%" else f"(({value} - {rest}) div {by})"
            plain = f"{value}{_MINIZINC[part.operator]}{by}"
            return f"(if lb({value}) >= 0 then {plain} else {floor} endif)"
        case "count":
            return f"sum([{', '.join(inside)}])"
    return f"({_MINIZINC[part.operator].join(inside)})"


class Linear:
    """Constraints in a Pyomo model, by binary variables and the bounds of expressions.

    Parameters
    ----------
    model
        The model; what is added is in its block ``stated``.
    term
        Returns the expression of a term: linear, whole, with finite bounds; 0 or 1 for a truth.
    """

    def __init__(self, model: Any, term: Callable[[Term], Any]) -> None:
        import pyomo.environ as pyo

        self.pyo, self.term = pyo, term
        self.known: dict[Ground, Any] = {}
        self._values: list[tuple[Any, Callable[[], int]]] = []
        model.stated = pyo.Block()
        self.block = model.stated
        self.block.variables = pyo.VarList(domain=pyo.Integers)
        self.block.constraints = pyo.ConstraintList()

    def add(self, part: Ground) -> None:
        """Let a truth hold."""
        if isinstance(part, Operation) and part.operator == "and":
            for each in part.operands:
                self.add(each)
        elif isinstance(part, Operation) and part.operator in ("<=", "<", "=="):
            left, right = (self.number(each) for each in part.operands)
            difference = left - right
            if part.operator == "==":
                self._hold(difference, 0, 0)
            else:
                self._hold(difference, None, -1 if part.operator == "<" else 0)
        elif isinstance(part, Operation) and part.operator == "or":
            self._hold(sum(self.truth(each) for each in part.operands), 1, None)
        else:
            self._hold(self.truth(part), 1, None)

    def start(self) -> None:
        """Give the variables that were added their values, once all others have theirs."""
        for variable, value in self._values:
            variable.set_value(value())

    def _hold(self, expression: Any, low: int | None, high: int | None) -> None:
        if not hasattr(expression, "is_expression_type"):  # a number
            if (low is not None and expression < low) or (high is not None and expression > high):
                self.block.constraints.add(self.pyo.Constraint.Infeasible)
            return
        self.block.constraints.add(self.pyo.inequality(low, expression, high))

    def _bounds(self, expression: Any) -> tuple[int, int]:
        if not hasattr(expression, "is_expression_type"):
            return int(expression), int(expression)
        from pyomo.contrib.fbbt.fbbt import compute_bounds_on_expr

        low, high = compute_bounds_on_expr(expression)
        if low is None or high is None:
            raise InputError("constraints", None, f"{expression} has no bounds, so it cannot be linear")
        return round(low), round(high)

    def _variable(self, low: int, high: int, value: Callable[[], int]) -> Any:
        """Return a new variable, with what gives its value from those of others."""
        variable = self.block.variables.add()
        variable.setlb(low)
        variable.setub(high)
        self._values.append((variable, value))
        return variable

    def _now(self, expression: Any) -> int:
        """Return what an expression is with the values that the variables have."""
        found: int = round(self.pyo.value(expression))
        return found

    def number(self, part: Ground) -> Any:
        """Return a number as a linear expression; of a truth 1 where it holds."""
        if isinstance(part, Operation) and part.operator not in _NUMBERS:
            return self.truth(part)
        if part not in self.known:
            self.known[part] = self._number(part)
        return self.known[part]

    def _number(self, part: Ground) -> Any:
        if isinstance(part, Constant):
            return int(part.value)
        if isinstance(part, Term):
            return self.term(part)
        if part.operator == "count":
            return sum(self.truth(each) for each in part.operands)
        parts = [self.number(each) for each in part.operands]
        match part.operator:
            case "+":
                return sum(parts)
            case "neg":
                return -parts[0]
            case "*":
                return self._product(parts, part)
            case "//" | "%":
                by = parts[1]
                low, high = self._bounds(parts[0])
                quotient = self._variable(low // by, high // by, lambda: self._now(parts[0]) // by)
                rest = parts[0] - by * quotient
                self._hold(rest, 0, by - 1)
                self.known[Operation("//", part.operands)] = quotient
                self.known[Operation("%", part.operands)] = rest
                return quotient if part.operator == "//" else rest
        return self._extreme(part.operator, parts)

    def _product(self, parts: list[Any], part: Ground) -> Any:
        open_ = [each for each in parts if hasattr(each, "is_expression_type")]
        if len(open_) > 1:
            raise InputError(
                "constraints", str(part), "is no linear constraint, and this solver takes no other"
            )
        product = 1
        for each in parts:
            product = product * each
        return product

    def _extreme(self, operator: str, parts: list[Any]) -> Any:
        """Return a variable that is the least or the largest of some numbers."""
        bounds = [self._bounds(each) for each in parts]
        pick = min if operator == "min" else max

        def value() -> int:
            return int(pick(self._now(each) for each in parts))

        def first() -> int:
            return [self._now(each) for each in parts].index(value())

        found = self._variable(pick(low for low, _ in bounds), pick(high for _, high in bounds), value)

        def is_chosen(number: int) -> Callable[[], int]:
            return lambda: int(first() == number)

        chosen = [self._variable(0, 1, is_chosen(number)) for number in range(len(parts))]
        self._hold(sum(chosen), 1, 1)
        for each, one in zip(parts, chosen, strict=True):
            difference = found - each if operator == "max" else each - found
            _, high = self._bounds(difference)
            self._hold(difference, 0, None)
            if high > 0:
                self._hold(difference - high * (1 - one), None, 0)
        return found

    def truth(self, part: Ground) -> Any:
        """Return an expression that is 1 where a truth holds, and 0 where it does not."""
        if part not in self.known:
            self.known[part] = self._truth(part)
        return self.known[part]

    def _truth(self, part: Ground) -> Any:
        if isinstance(part, Constant):
            return int(bool(part.value))
        if isinstance(part, Term):
            return self.term(part)
        operands = part.operands
        match part.operator:
            case "not":
                return 1 - self.truth(operands[0])
            case "implies":
                return self._any([1 - self.truth(operands[0]), self.truth(operands[1])])
            case "or":
                return self._any([self.truth(each) for each in operands])
            case "and":
                return 1 - self._any([1 - self.truth(each) for each in operands])
        if part.operator in ("==", "!="):
            equal = self._equal(*operands)
            return equal if part.operator == "==" else 1 - equal
        left, right = (self.number(each) for each in operands)
        return self._at_most(left - right + int(part.operator == "<"))

    def _any(self, truths: list[Any]) -> Any:
        some = self._variable(0, 1, lambda: int(any(self._now(each) for each in truths)))
        self._hold(sum(truths) - some, 0, None)
        for each in truths:
            self._hold(some - each, 0, None)
        return some

    def _at_most(self, difference: Any) -> Any:
        """Return whether a number is at most 0."""
        low, high = self._bounds(difference)
        if low > 0 or high <= 0:
            return int(high <= 0)
        holds = self._variable(0, 1, lambda: int(self._now(difference) <= 0))
        self._hold(difference - high * (1 - holds), None, 0)
        self._hold(difference - 1 - (low - 1) * holds, 0, None)
        return holds

    def _equal(self, left: Ground, right: Ground) -> Any:
        difference = self.number(left) - self.number(right)
        both = [1 - self._at_most(difference), 1 - self._at_most(-difference)]
        return 1 - self._any(both)


_NUMBERS = {"+", "*", "//", "%", "neg", "min", "max", "count"}


class Whole:
    """Constraints in a model of CP-SAT.

    Parameters
    ----------
    model
        The model.
    term
        Returns the expression of a term: of whole numbers, linear; a literal, or 0 or 1, for a truth.
    """

    def __init__(self, model: Any, term: Callable[[Term], Any]) -> None:
        self.model, self.term = model, term
        self.known: dict[Ground, Any] = {}

    def add(self, part: Ground) -> None:
        """Let a truth hold."""
        if isinstance(part, Operation) and part.operator == "and":
            for each in part.operands:
                self.add(each)
        elif isinstance(part, Operation) and part.operator in ("<=", "<", "==", "!="):
            compared = self._compared(part)
            if compared is not True:
                self.model.add(compared)
        else:
            self.model.add_bool_or([self.truth(part)])

    def _compared(self, part: Operation) -> Any:
        left, right = (self.number(each) for each in part.operands)
        match part.operator:
            case "<=":
                return left <= right
            case "<":
                return left < right
            case "==":
                return left == right
        return left != right

    def _variable(self, low: int, high: int) -> Any:
        return self.model.new_int_var(low, high, "")

    def number(self, part: Ground) -> Any:
        """Return a number as an expression."""
        if part not in self.known:
            self.known[part] = self._number(part)
        return self.known[part]

    def _number(self, part: Ground) -> Any:
        if isinstance(part, Constant):
            return int(part.value)
        if isinstance(part, Term):
            return self.term(part)
        if part.operator not in _NUMBERS:
            return self.truth(part)
        if part.operator == "count":
            return sum(self.truth(each) for each in part.operands)
        parts = [self.number(each) for each in part.operands]
        match part.operator:
            case "+":
                return sum(parts)
            case "neg":
                return -parts[0]
            case "*":
                return self._product(parts)
        match part.operator:
            case "//" | "%":
                # Floors, as Python's; those of CP-SAT are cut off towards zero.
                below, above = self.bounds(parts[0])
                quotient = self._variable(below // parts[1], above // parts[1])
                rest = self._variable(0, parts[1] - 1)
                self.model.add(parts[0] == parts[1] * quotient + rest)
                self.known[Operation("//", part.operands)] = quotient
                self.known[Operation("%", part.operands)] = rest
                return quotient if part.operator == "//" else rest
        bounds = [self.bounds(each) for each in parts]
        pick, add = (
            (min, self.model.add_min_equality)
            if part.operator == "min"
            else (max, self.model.add_max_equality)
        )
        found = self._variable(pick(low for low, _ in bounds), pick(high for _, high in bounds))
        add(found, parts)
        return found

    def _product(self, parts: list[Any]) -> Any:
        factor = prod(each for each in parts if isinstance(each, int))
        open_ = [each for each in parts if not isinstance(each, int)]
        found = open_[0] if open_ else 1
        for other in open_[1:]:
            ends = [one * two for one in self.bounds(found) for two in self.bounds(other)]
            product = self._variable(min(ends), max(ends))
            self.model.add_multiplication_equality(product, [found, other])
            found = product
        return factor * found

    def bounds(self, expression: Any) -> tuple[int, int]:
        """Return the least and the largest value that an expression can have by its variables' domains."""
        from ortools.sat.python import cp_model

        if isinstance(expression, int):
            return expression, expression
        flat = cp_model.FlatIntExpr(expression)
        low = high = int(flat.offset)
        for variable, factor in zip(flat.vars, flat.coeffs, strict=True):
            # A list: the domain itself answers -1 with its first entry.
            domain = list(self.model.proto.variables[variable.index].domain)
            ends = int(factor) * domain[0], int(factor) * domain[-1]
            low, high = low + min(ends), high + max(ends)
        return low, high

    def truth(self, part: Ground) -> Any:
        """Return a literal that holds where a truth does."""
        if part not in self.known:
            self.known[part] = self._truth(part)
        return self.known[part]

    def _truth(self, part: Ground) -> Any:
        if isinstance(part, Constant):
            return self.model.new_constant(int(bool(part.value)))
        if isinstance(part, Term):
            return self.term(part)
        if part.operator == "not":
            return ~self.truth(part.operands[0])
        holds = self.model.new_bool_var("")
        if part.operator in ("and", "or", "implies"):
            truths = [self.truth(each) for each in part.operands]
            if part.operator == "implies":
                truths[0] = ~truths[0]
            join, other = (
                (self.model.add_bool_and, self.model.add_bool_or)
                if part.operator == "and"
                else (self.model.add_bool_or, self.model.add_bool_and)
            )
            join(truths).only_enforce_if(holds)
            other([~each for each in truths]).only_enforce_if(~holds)
            return holds
        opposite = {"<=": "<", "<": "<=", "==": "!=", "!=": "=="}[part.operator]
        turned = part.operands[::-1] if part.operator in ("<=", "<") else part.operands
        for compared, literal in ((part, holds), (Operation(opposite, turned), ~holds)):
            told = self._compared(compared)
            if isinstance(told, bool):
                if not told:
                    self.model.add_bool_and([~literal])
            else:
                self.model.add(told).only_enforce_if(literal)
        return holds
