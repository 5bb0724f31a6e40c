"""What is told of an exception that a method raises, which may be a user's own file: what, in which line."""

from __future__ import annotations

import os
import traceback
from pathlib import Path

from tilewright.core.locations import package_path

DEBUG = "TILEWRIGHT_DEBUG"
"""Variable of the environment that asks for tracebacks; the option --debug sets it, for workers as well."""

LONGEST = 300
"""Most characters of an exception's own text."""


def debugging() -> bool:
    """Whether tracebacks of errors are wanted."""
    return bool(os.environ.get(DEBUG))


def told(error: BaseException) -> str:
    """Return an exception as a sentence: its type and text, file and line; with the traceback if wanted."""
    text = (error.msg if isinstance(error, SyntaxError) else str(error)).strip()
    text = text.splitlines()[0][:LONGEST] if text else ""
    sentence = type(error).__name__ + (f": {text}" if text else "")
    where = _place(error)
    if where:
        sentence += f" ({where[0]}, line {where[1]})" if where[1] else f" ({where[0]})"
    return f"{sentence}\n{''.join(traceback.format_exception(error))}" if debugging() else sentence


def _place(error: BaseException) -> tuple[str, int] | None:
    """Return the innermost line of a heuristic or formulation, or else of anything; 0 for no line."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return error.filename, error.lineno
    location = getattr(error, "location", None)  # in a formulation, as MiniZinc tells it
    if location is not None and location.file:
        return str(location.file), location.lines[0]
    frames = traceback.extract_tb(error.__traceback__)
    folders = [folder for kind in ("models", "heuristics") for folder in package_path(kind)]
    own = [frame for frame in frames if any(Path(frame.filename).is_relative_to(f) for f in folders)]
    last = (own or list(frames))[-1:]
    return (last[0].filename, last[0].lineno or 0) if last else None
