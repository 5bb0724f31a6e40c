"""Decide, optimally and checkably, how a convolutional network is cut up to run on a small memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tilewright.core.version import __version__

if TYPE_CHECKING:
    from tilewright.api import read, simulate, solve

__all__ = ["__version__", "read", "simulate", "solve"]


def __getattr__(name: str) -> Any:
    """Import the API on first use, so that ``tilewright --help`` loads nothing heavy."""
    if name in __all__:
        from tilewright import api

        return getattr(api, name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
