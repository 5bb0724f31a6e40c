"""Second statements of what plans cost and when they are valid, from docs alone: plain JSON to numbers."""

from __future__ import annotations


class Refused(Exception):
    """A plan breaks a rule."""


class TooLarge(Exception):
    """There are more plans, or longer ones, than can be walked through."""
