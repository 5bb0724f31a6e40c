"""Decide, optimally and checkably, how a convolutional network is cut up to run on a small memory."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = ["read", "simulate", "solve"]

# Editable installs: `models/`, `heuristics/` and `instances/` stand beside `bindings/`, not in the package.
if (Path(__file__).parents[2] / "models").is_dir():
    __path__.append(str(Path(__file__).parents[2]))
# Folders of the user's own, with the same folders in them.
__path__ += [
    str(Path(entry).absolute()) for entry in os.environ.get("TILEWRIGHT_PATH", "").split(os.pathsep) if entry
]

if TYPE_CHECKING:
    from tilewright.api import read, simulate, solve


def __getattr__(name: str) -> Any:
    """Import the API on first use, so that ``tilewright --help`` loads nothing heavy."""
    if name in __all__:
        from tilewright import api

        return getattr(api, name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
