"""What constraints of buffers can speak of: where each begins and ends, and the height."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.addresses.evaluation import objective
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.spec.constraints import Names, Term, Vocabulary, Word
from tilewright.spec.constraints.parts import Constant, Ground, arithmetic, compared


class _View(NamedTuple):
    """A plan, as the words see it."""

    offsets: dict[str, int]
    height: int


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of buffers in a memory."""
    buffers = Names("buffers", problem.names)
    sizes = dict(zip(problem.names, problem.size.tolist(), strict=True))

    def view(plan: Plan) -> _View:
        return _View(dict(zip(problem.names, plan.offsets, strict=True)), objective(problem, plan))

    def offset(buffer: str) -> Term:
        return Term("offset", (buffer,))

    def end(buffer: str) -> Ground:
        return arithmetic("+", [offset(buffer), Constant(sizes[buffer])])

    def gap(one: str, other: str) -> Ground:
        """Return how far the higher of two buffers begins behind the end of the lower one."""
        sides = ((one, other), (other, one))
        return arithmetic(
            "max", [arithmetic("+", [offset(high), arithmetic("neg", [end(low)])]) for low, high in sides]
        )

    return Vocabulary.of(
        [
            Word(
                "offset",
                "first address of a buffer",
                lambda seen, buffer: seen.offsets[buffer],
                (buffers,),
                "addresses",
            ),
            Word(
                "end",
                "address behind the last one of a buffer",
                takes=(buffers,),
                unit="addresses",
                means=end,
            ),
            Word(
                "gap",
                "addresses between two buffers, below 0 where they share some",
                takes=(buffers, buffers),
                unit="addresses",
                means=gap,
            ),
            Word(
                "above",
                "whether a buffer begins at or behind the end of another",
                takes=(buffers, buffers),
                gives="truth",
                means=lambda high, low: compared("<=", end(low), offset(high)),
            ),
            Word("height", "addresses up to the highest end", lambda seen: seen.height, unit="addresses"),
        ],
        view,
    )
