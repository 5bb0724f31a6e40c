"""What a room says of its tables for the case that they are wider than a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Narrowing(NamedTuple):
    """How a table becomes narrower.

    Attributes
    ----------
    words
        Words, in titles and cells, with shorter ones for them.
    last
        Titles of columns that are left out if need be, the least important first.
    prose
        Titles of columns of sentences, which are broken into lines before anything is cut.
    """

    words: Mapping[str, str] = {}
    last: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()


AS_IT_IS = Narrowing()
