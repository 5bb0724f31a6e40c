"""What constraints still ask of a plan when its first steps are known.

What must hold becomes less with each step: terms that the step decides become their values, and what is then
true is left out. Two beginnings of plans of which the same is left may be compared by what they cost; no
others may, as a constraint tells them apart. Numbers that grow from step to step (of steps, of costs) are
counted in what is left.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tilewright.residency.cost import Spent
from tilewright.residency.machine import traffic_of
from tilewright.residency.plan import ORDERS
from tilewright.residency.problem import Problem
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.transitions import TensorChoice
from tilewright.residency.vocabulary import (
    MEMORY_OF,
    NOWHERE,
    OF_AMOUNTS,
    OF_OPERATION,
    OF_PLACE,
    OF_SHAPE,
    OF_TENSOR,
    TRAFFIC_OF,
    StepView,
    memory_names,
)
from tilewright.spec.constraints.parts import (
    Constant,
    Ground,
    Operation,
    Term,
    arithmetic,
    conjuncts,
    substituted,
    terms,
)
from tilewright.spec.constraints.ranges import Range, can_hold, rises_with

Known = dict[Term, Ground]

ANY: Range = (-1, 2**62)

TOTALS = {"traffic": "moved", "cycles": "time", "energy": "energy", "macs": "macs"}
"""What of `Spent` each total counts."""


def sum_of(total: str) -> str:
    """Return the word of this module that a total is put together of."""
    return f"all that is {TOTALS[total]}"


SUMS = {sum_of(total): field for total, field in TOTALS.items()}
"""Terms of this module that totals are put together of, and what of `Spent` each counts."""

_TRUTHS = ("same_step", "before", "in_place", "kept", "double_buffering", "running", "interleaved")

_NOT_CUT = Shape(ORDERS[0], 1, 1)

OF_ADDRESSES = ("address", "memory")
"""Words that only addresses decide."""

PLACED_IN = "memory that it is placed in first"
"""With DRAM, what `MEMORY_OF` becomes of a tensor that is on chip as a whole in some step."""


class Residuals:
    """What is left of constraints, each set of parts with a number.

    Parameters
    ----------
    problem
        Of one frame, each operation executed once.
    parts
        What must hold, of this problem's names.

    Attributes
    ----------
    first
        The number of what is left before the first step; None where it cannot hold.
    words
        Words of terms that are open before the first step.
    """

    def __init__(self, problem: Problem, parts: Iterable[Ground]) -> None:
        self.problem, self.graph = problem, problem.graph
        self.numbers = {operation.name: operation.number for operation in self.graph.operations}
        self.tensors = {tensor.name: number for number, tensor in enumerate(self.graph.tensors)}
        self.sets: list[tuple[Ground, ...]] = []
        self._known: dict[tuple[Ground, ...], int] = {}
        self._terms: list[tuple[Term, ...]] = []
        self._more: dict[int, frozenset[Term]] = {}
        self._left: dict[tuple[int, tuple[tuple[Term, Ground], ...]], int | None] = {}
        self.first = self._without(tuple(parts), self._of_begin)
        self.words = {term.word for term in self.terms(self.first)} if self.first is not None else set()

    def terms(self, number: int) -> tuple[Term, ...]:
        """Return the terms that are open."""
        return self._terms[number]

    def left(self, number: int, known: Known) -> int | None:
        """Return what is left when some terms are known, or stand for others; None where it cannot hold."""
        if not known:
            return number
        key = number, tuple(known.items())
        if key not in self._left:
            self._left[key] = self._without(self.sets[number], known.get)
        return self._left[key]

    def _without(self, parts: tuple[Ground, ...], known: Callable[[Term], Ground | None]) -> int | None:
        left: dict[Ground, None] = {}
        for part in parts:
            for each in conjuncts(substituted(part, known)):
                if each == Constant(True):
                    continue
                if not can_hold(each, self._range):
                    return None
                left[each] = None
        found = tuple(left)
        if found not in self._known:
            self._known[found] = len(self.sets)
            self.sets.append(found)
            self._terms.append(tuple(sorted({term for part in found for term in terms(part)}, key=str)))
        return self._known[found]

    def _range(self, term: Term) -> Range:
        if term.word in ("step", "steps"):
            return 1, len(self.graph.operations)
        if term.word in OF_PLACE or term.word in OF_TENSOR or term.word in _TRUTHS:
            return 0, 1
        if term.word == "order":
            return 1, len(ORDERS)
        if term.word in (MEMORY_OF, PLACED_IN):
            return 1 + (term.word == PLACED_IN), len(memory_names(self.problem))
        return ANY

    # What is known, when -------------------------------------------------------------------------------

    def _of_begin(self, term: Term) -> Ground | None:
        """Return what is known before the first step, and totals by what steps spend."""
        if term.word in TOTALS:
            return self._total(term.word)
        names = term.arguments
        if term.word in (*OF_PLACE, "address"):
            if names[0] in self.tensors and names[1] in self.numbers:
                return None
            return Constant(NOWHERE) if term.word == "address" else Constant(False)
        if term.word == TRAFFIC_OF:
            return None
        if term.word == MEMORY_OF:
            return None if names[0] in self.tensors else Constant(1)
        if term.word in OF_TENSOR:
            number = self.tensors.get(str(names[0]), -1)
            return Constant(False) if number < 0 or self.graph.tensors[number].given else None
        if names and not all(name in self.numbers for name in names):  # a second execution that there is not
            truth = term.word in ("same_step", "before", *_TRUTHS)
            return Constant(False) if truth else Constant(int(term.word == "order"))
        return None

    def _total(self, name: str) -> Ground:
        """Return a total in the parts of cycles and femtojoules in which steps are counted."""
        spent, prices = Term(sum_of(name)), self.problem.prices
        if name == "traffic":
            return arithmetic("*", [spent, Constant(self.problem.machine.element_bytes)])
        if name == "macs":
            return spent
        by = prices.cycle if name == "cycles" else prices.femtojoule
        return Operation("//", (arithmetic("+", [spent, Constant(by - 1)]), Constant(by)))

    def of_tensors(self, number: int, group: Group, tensors: TensorChoice, last: bool) -> Known:
        """Return what a step decides of open terms by its operations and what it does with tensors.

        Parameters
        ----------
        last
            Whether no operation is left after the step.
        """
        found: Known = {}
        fetched, resident, written, _, whole, in_place, _ = tensors
        view = StepView(group, _NOT_CUT, whole, fetched, resident, written, in_place)
        for term in self.terms(number):
            value = self._of_step(term, view, last)
            if value is not None:
                found[term] = value
        return found

    def _of_step(self, term: Term, view: StepView, last: bool) -> Ground | None:
        word, mask = term.word, view.group.mask
        if word == "steps":
            return Constant(1) if last else arithmetic("+", [term, Constant(1)])
        if word in SUMS or word in ("memory", PLACED_IN):
            return None
        if word == MEMORY_OF:
            tensor = self.tensors[str(term.arguments[0])]
            if self.problem.machine.dram:
                placed = Term(PLACED_IN, term.arguments) if view.on_chip >> tensor & 1 else None
                return Constant(1) if placed is None and last else placed
            decided = bool(mask << 1 >> tensor & 1) or last
            return Constant(1) if decided and not view.on_chip >> tensor & 1 else None
        here = [
            bool(mask >> self.numbers[str(name)] & 1) if name in self.numbers else False
            for name in term.arguments
        ]
        if word == "step":
            return Constant(1) if here[0] else arithmetic("+", [term, Constant(1)])
        if word == "same_step":
            return Constant(all(here)) if any(here) else None
        if word == "before":
            return Constant(here[0] and not here[1]) if any(here) else None
        if word in OF_TENSOR:
            tensor = self.tensors[str(term.arguments[0])]
            return Constant(OF_TENSOR[word](view, tensor)) if mask << 1 >> tensor & 1 else None
        if not here[-1]:
            return None
        if word == "address":
            there = OF_PLACE["on_chip"](view, self.tensors[str(term.arguments[0])])
            return None if there else Constant(NOWHERE)
        if word in OF_PLACE:
            return Constant(OF_PLACE[word](view, self.tensors[str(term.arguments[0])]))
        if word == "in_place":
            return Constant(OF_OPERATION[word](view, self.numbers[str(term.arguments[0])]))
        return None

    def of_memories(self, number: int, lies: Mapping[int, int]) -> int | None:
        """Return what is left when some tensors lie in memories, by number; None where it cannot hold."""
        known: Known = {}
        for term in self.terms(number):
            if term.word == MEMORY_OF and (tensor := self.tensors[str(term.arguments[0])]) in lies:
                known[term] = Constant(2 + lies[tensor])
        return self.left(number, known)

    def of_shapes(self, number: int, mask: int) -> list[tuple[Term, int]]:
        """Return the open terms that tell ways to cut up a group's step apart, with their operations."""
        found = []
        for term in self.terms(number):
            if term.word in OF_SHAPE or term.word in OF_AMOUNTS:
                operation = self.numbers[str(term.arguments[0])]
                if mask >> operation & 1:
                    found.append((term, operation))
        return found

    def asks_for_more(self, number: int, group: Group) -> bool:
        """Whether constraints may ask for more bytes of a group's step, or for a higher total."""
        if number not in self._more:
            self._more[number] = frozenset(
                term
                for term in self.terms(number)
                if (term.word in OF_AMOUNTS or term.word in SUMS)
                and any(rises_with(part, term.__eq__)[0] for part in self.sets[number])
            )
        return any(
            term.word in SUMS or group.mask >> self.numbers[str(term.arguments[0])] & 1
            for term in self._more[number]
        )

    def after_cut(self, number: int, view: StepView, spent: Spent, *, last: bool) -> int | None:
        """Return what is left when a step is cut up in some way; None where it cannot hold.

        Parameters
        ----------
        view
            The step, with what it takes of the memory and moves.
        """
        listed = self.of_shapes(number, view.group.mask)
        if not listed and not self.has_sums(number):
            return number
        return self.left(number, values_of(listed, view) | self.of_spent(number, spent, last))

    def has_sums(self, number: int) -> bool:
        """Whether totals are open."""
        return any(term.word in SUMS for term in self.terms(number))

    def of_spent(self, number: int, spent: Spent, last: bool) -> Known:
        """Return what totals become by what a step spends."""
        found: Known = {}
        for term in self.terms(number):
            if term.word in SUMS:
                more = Constant(int(getattr(spent, SUMS[term.word])))
                found[term] = more if last else arithmetic("+", [term, more])
        return found


def values_of(listed: Iterable[tuple[Term, int]], view: StepView) -> Known:
    """Return the values of terms of a step that is cut up, names as their numbers in their sets."""
    found: Known = {}
    for term, number in listed:
        value = OF_OPERATION[term.word](view, number)
        found[term] = Constant(ORDERS.index(value) + 1 if isinstance(value, str) else value)
    return found


def limits_in(parts: Iterable[Ground]) -> tuple[dict[str, int], list[Ground]]:
    """Return the most that totals and the memory may be, where parts say just that, and all other parts."""
    limits: dict[str, int] = {}
    others: list[Ground] = []
    for part in parts:
        if isinstance(part, Operation) and part.operator in ("<=", "<"):
            left, right = part.operands
            if isinstance(left, Term) and isinstance(right, Constant) and (name := _limited(left)):
                most = int(right.value) - (part.operator == "<")
                limits[name] = min(most, limits.get(name, most))
                continue
        others.append(part)
    return limits, others


def _limited(term: Term) -> str | None:
    """Return the objective that a term is, or the memory; None of all others."""
    if term.word == TRAFFIC_OF:
        return traffic_of(str(term.arguments[0]))
    return term.word if term.word in (*TOTALS, "memory") else None
