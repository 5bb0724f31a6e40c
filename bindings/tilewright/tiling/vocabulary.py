"""What constraints of tilings can speak of: of a layer its machine's words, of a network each layer's."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tilewright.spec.constraints import Names, Term, Vocabulary, Word
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a problem.

    Of a network every word takes the name of a layer first, and the operations between layers have none.
    """
    if problem.network is None:
        kind = _kind(problem)
        if kind is None:
            return Vocabulary.of([], lambda plan: plan)
        return Vocabulary.of(kind.words(problem), lambda plan: kind.view(problem, plan.layers[0]))
    # What constraints speak of is executed operation by operation.
    parts = {part.name: part.problem for part in problem.apart.unconstrained_parts}
    places = {name: place for place, name in enumerate(parts)}
    words: dict[str, Word] = {}
    having: dict[str, list[str]] = {}
    known: dict[int, Vocabulary] = {}
    for name, part in parts.items():
        of_part = known.setdefault(id(part), part.vocabulary)
        for word in of_part.words.values():
            words.setdefault(word.name, word)
            having.setdefault(word.name, []).append(name)

    def view(plan: Plan) -> list[Any]:
        return [
            part.vocabulary.view(one) if part.operation is None else None
            for part, one in zip(parts.values(), plan.split(), strict=True)
        ]

    def of_layer(word: Word) -> Callable[..., Any]:
        def value(views: list[Any], layer: str, *arguments: Any) -> Any:
            return parts[layer].vocabulary.value(Term(word.name, arguments), views[places[layer]])

        return value

    return Vocabulary.of(
        [
            replace(word, value=of_layer(word), takes=(Names("layers", tuple(having[name])), *word.takes))
            for name, word in words.items()
        ],
        view,
    )


def _kind(problem: Problem) -> Any:
    """Return the module with the words of a layer on a kind of machine; None where there is none."""
    if problem.operation is not None:
        return None
    return importlib.import_module(f"tilewright.tiling.{problem.machine.kind}.vocabulary")
