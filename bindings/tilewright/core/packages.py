"""Which optional packages are here, without importing them."""

from __future__ import annotations

from importlib.util import find_spec

ORTOOLS = "ortools"
"""Brings CP-SAT."""

INSTALL_CPSAT = "pip install 'tilewright[cpsat]'"


def installed(package: str) -> bool:
    """Whether a package can be found; importing it would take long."""
    try:
        return find_spec(package) is not None
    except ValueError:  # of a module that was not made by an import
        return False
