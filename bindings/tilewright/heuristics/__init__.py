"""Heuristics, from ``heuristics/`` and the user's own folders: ``tilewright.heuristics.<room>.<name>``."""

from tilewright.core.locations import package_path

__path__ = package_path("heuristics")
