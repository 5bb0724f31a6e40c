"""Constraints that users add to a problem: one small language, with one meaning for every method.

`syntax` reads expressions; `grounding` looks up their words and writes out their loops, which leaves `parts`;
`meaning` evaluates these. `vocabulary` says what the words of a room are, `constraint` what a problem has.
"""

from tilewright.spec.constraints.constraint import Constrained, Constraint, Judged
from tilewright.spec.constraints.parts import Term
from tilewright.spec.constraints.vocabulary import Names, Vocabulary, Word

__all__ = ["Constrained", "Constraint", "Judged", "Names", "Term", "Vocabulary", "Word"]
