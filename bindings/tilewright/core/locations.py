"""Where formulations, heuristics and instances lie: with the package, and in folders of the user's own."""

from __future__ import annotations

import os
from pathlib import Path

PACKAGE = Path(__file__).parents[1]

# An installed package holds the three folders; in a clone they stand at the top, beside `bindings/`.
OWN = PACKAGE if (PACKAGE / "instances").is_dir() else PACKAGE.parents[1]

KINDS = ("models", "heuristics", "instances", "drivers")
"""Folders that a folder of the user's own may hold; an installation has the drivers in its package."""


def bases() -> list[Path]:
    """Return the folders that hold ``models/``, ``heuristics/`` and ``instances/``.

    The installation's own comes first, those named by the environment variable ``TILEWRIGHT_PATH`` follow.
    """
    named = os.environ.get("TILEWRIGHT_PATH", "").split(os.pathsep)
    return [OWN, *(Path(entry).absolute() for entry in named if entry)]


def unusable() -> list[tuple[str, str]]:
    """Return the entries of ``TILEWRIGHT_PATH`` in which nothing is found, and why, as part of a sentence."""
    found = []
    for entry in filter(None, os.environ.get("TILEWRIGHT_PATH", "").split(os.pathsep)):
        folder = Path(entry)
        try:
            if not folder.is_dir():
                found.append((entry, "is a file" if folder.exists() else "does not exist"))
            elif not any((folder / kind).is_dir() for kind in KINDS):
                found.append((entry, f"holds no folder {', '.join(KINDS[:-1])} or {KINDS[-1]}"))
        except (OSError, ValueError) as error:
            found.append((entry, f"cannot be read: {error}"))
    return found


def package_path(kind: str) -> list[str]:
    """Return the search path of the package ``tilewright.models``, ``.heuristics`` or ``.drivers``."""
    first = PACKAGE if kind == "drivers" else OWN
    return [str(base / kind) for base in (first, *bases()[1:])]
