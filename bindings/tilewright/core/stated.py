"""Which constraints of a problem a method can honour: those whose words it states.

A MiniZinc formulation states the words for which its room's bridge has an expression; a Python file those
that it lists in ``WORDS = (...)``, a literal, which is read without running it, and those that it imports as
``WORDS`` from a file beside it. An exact search has a function ``honours(problem, part)``, which tells of
something that must hold. Heuristics state none: what they find is looked at afterwards.
"""

from __future__ import annotations

import ast
import re
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.room import bridge_of, room_of
from tilewright.spec.constraints import Constraint, Term
from tilewright.spec.constraints.parts import Constant, Ground, conjuncts, terms
from tilewright.spec.errors import InputError, shown_value

_WORDS = re.compile(r"^WORDS = (\(.*?\)|\[.*?\])$", re.MULTILINE | re.DOTALL)
_BESIDE = re.compile(r"^from \.(\w+) import .*\bWORDS\b", re.MULTILINE)


def must_hold(problem: Any) -> tuple[Ground, ...]:
    """Return what constraints say of a problem, for solvers; nothing of what is no problem of a room."""
    return problem.must_hold_in_numbers if getattr(problem, "constraints", ()) else ()


def unstated(formulation: Path, problem: Any) -> list[tuple[int, Constraint, str]]:
    """Return the constraints that a formulation or an exact search cannot honour, and what it does not state.

    Parameters
    ----------
    formulation
        Its file.
    """
    found: list[tuple[int, Constraint, str]] = []
    for number, (constraint, whole) in enumerate(zip(problem.constraints, problem.grounded, strict=True)):
        for part in conjuncts(whole):
            unknown = _unstated_in(formulation, problem, part)
            if unknown is not None:
                found.append((number, constraint, unknown))
                break
    return found


def refuse_unstated(formulation: Path, method: str, problem: Any) -> None:
    """Refuse a problem with a constraint that a method cannot honour.

    Raises
    ------
    InputError
        Which names the constraint and the word.
    """
    for number, constraint, unknown in unstated(formulation, problem):
        limit = f"{method} cannot honour it, as it does not state {unknown}"
        raise InputError(f"constraints[{number}].say", str(constraint), limit)


def _unstated_in(formulation: Path, problem: Any, part: Ground) -> str | None:
    """Return what a method does not state of something that must hold."""
    changed = formulation.stat().st_mtime_ns
    if formulation.suffix == ".py" and _says_what_it_honours(formulation, changed):
        module = catalogue.formulation(room_of(problem).name, formulation.stem)
        honoured = module.honours(problem, part)  # type: ignore[union-attr]
        return None if honoured else shown_value(str(part))
    if catalogue.solves_itself(formulation):  # it looks at no constraint, not even at one without words
        return None if part == Constant(True) else shown_value(str(part))
    unknown = (term for term in sorted(terms(part), key=str) if not _states(formulation, problem, term))
    return next(map(str, unknown), None)


def _states(formulation: Path, problem: Any, term: Term) -> bool:
    if formulation.suffix == ".mzn":
        term_of = getattr(bridge_of(problem, formulation), "term", None)
        return term_of is not None and term_of(problem, formulation, term) is not None
    return term.word in _words(formulation, formulation.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _says_what_it_honours(file: Path, _changed: int) -> bool:
    return re.search(r"^def honours\(", file.read_text("utf-8", errors="replace"), re.MULTILINE) is not None


@lru_cache(maxsize=256)
def _words(file: Path, _changed: int) -> frozenset[str]:
    text = file.read_text("utf-8", errors="replace")
    words: set[str] = set()
    if (beside := _BESIDE.search(text)) is not None:
        source = file.with_name(f"{beside[1]}.py")
        words |= _words(source, source.stat().st_mtime_ns)
    if (found := _WORDS.search(text)) is not None:
        listed = ast.parse(found[1], mode="eval").body
        constants = (node.value for node in ast.walk(listed) if isinstance(node, ast.Constant))
        words |= {word for word in constants if isinstance(word, str)}
    return frozenset(words)
