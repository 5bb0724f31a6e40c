"""Formulations, from ``models/`` and the user's own folders: ``tilewright.models.<room>.<name>``."""

from tilewright.core.locations import package_path

__path__ = package_path("models")
