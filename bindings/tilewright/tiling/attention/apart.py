"""Attention whose operations are executed one after the other, each as if it were alone."""

from __future__ import annotations

from functools import lru_cache

from tilewright.spec.layer import Layer
from tilewright.tiling.operations.operation import Attention, Operation
from tilewright.tiling.operations.search import as_it_fits
from tilewright.tiling.problem import Problem


@lru_cache(maxsize=256)
def parts_of(problem: Problem) -> tuple[Problem, ...]:
    """Return the operations of attention as problems of their own, in order."""
    operation = problem.one_operation
    attention = operation.attention
    assert attention is not None
    scores, context = products_of(attention)
    between = [as_it_fits(each, problem.machine) for each in attention.between]

    def alone(layer: Layer | None, operation: Operation | None = None) -> Problem:
        return Problem(
            layer=layer,
            operation=operation,
            machine=problem.machine,
            objective=problem.objective,
            limits=problem.limits,
        )

    return (alone(scores), *(alone(None, each) for each in between), alone(context))


def products_of(attention: Attention) -> tuple[Layer, Layer]:
    """Return scores and context as convolutions of 1x1, whose groups are the heads of all images."""
    groups, rows = attention.matrices * attention.heads, attention.queries
    pairs = (attention.depth, attention.keys), (attention.keys, attention.values)
    scores, context = (
        Layer(input=(groups * deep, 1, rows), kernels=groups * columns, kernel=(1, 1), groups=groups)
        for deep, columns in pairs
    )
    return scores, context
