"""What constraints of bit widths can speak of: the bits of each layer's operands, and what they cost."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.bitwidth.plan import Plan
from tilewright.bitwidth.problem import OPERANDS, Problem
from tilewright.spec.constraints import Names, Vocabulary, Word


class _View(NamedTuple):
    """A plan, as the words see it."""

    widths: dict[str, tuple[int, int]]
    noise: int
    moved: int


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of bit widths."""
    layers = Names("layers", tuple(layer.name for layer in problem.layers))
    operands = Names("operands", OPERANDS)

    def view(plan: Plan) -> _View:
        pairs = zip(problem.layers, plan.widths, strict=True)
        chosen = [next(one for one in problem.candidates_of(layer) if one[:2] == own) for layer, own in pairs]
        widths = dict(zip(plan.names, plan.widths, strict=True))
        return _View(widths, sum(one.noise for one in chosen), sum(one.bits for one in chosen))

    return Vocabulary.of(
        [
            Word(
                "bits",
                "bits of a layer's input or weights",
                lambda seen, layer, operand: seen.widths[layer][OPERANDS.index(operand)],
                (layers, operands),
                "bits",
            ),
            Word("noise", "noise of quantisation by the model", lambda seen: seen.noise, unit="ppb"),
            Word(
                "moved_bits",
                "bits of all inputs and weights, each once",
                lambda seen: seen.moved,
                unit="bits",
            ),
        ],
        view,
    )
