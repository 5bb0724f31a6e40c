"""UniqueNames of layers that a reader of the ONNX file recognises."""

from __future__ import annotations

import re
from collections import Counter

from tilewright.importing.model import OnnxOperation
from tilewright.spec.network import AFFINE, OWN_INPUT

LONGEST = 180
"""Characters of a name before a number makes it unique."""

NUMBERED = re.compile(r"(?:[A-Za-z]|onnx::\w+|val|node)?_?\d*")
"""UniqueNames that exporters count up where they have none."""

ROLE = re.compile(
    r"[._/:](?:w|b|s|rm|riv|weight|weights|kernel|bias|gamma|beta|scale)(?:_\d+)?$", re.IGNORECASE
)
"""What tells the parameters of one operation apart."""

TRAINED = ("conv", "fc", "prelu", *AFFINE)
"""Kinds and functions whose parameters are called after them."""


class UniqueNames:
    """UniqueNames layers, each once.

    Layers are called as their nodes are; where these are only counted, as their weights are, and where they
    have none, after the layer with a name of its own that they follow.

    Parameters
    ----------
    given
        Whether people or their programs gave the nodes' names, so that counted ones are names, too.
    """

    def __init__(self, given: bool = False) -> None:
        self.given = given
        self.used = {OWN_INPUT}
        self.counts: Counter[str] = Counter()
        self.stems = {OWN_INPUT: ""}

    def name(self, operation: OnnxOperation, does: str, after: str) -> str:
        """Return the name of an operation's layer.

        Parameters
        ----------
        does
            Kind of the layer, or which function it is.
        after
            Name of a layer that it reads.
        """
        counted = re.compile(rf"{re.escape(operation.operator)}_?\d*|{NUMBERED.pattern}")
        weights = [value.name for value in operation.fixed if not NUMBERED.fullmatch(value.name)]
        own = ""
        if operation.name and (self.given or not counted.fullmatch(operation.name)):
            own = _clean(operation.name)
        elif does in TRAINED and weights:
            own = _clean(ROLE.sub("", weights[0]))
        name = self.unique(own or f"{self.stems[after]}/{does}")
        self.stems[name] = own or self.stems[after]
        return name

    def another(self, name: str, role: str = "") -> str:
        """Return the name of a further layer of an operation."""
        found = self.unique(name + role)
        self.stems[found] = self.stems[name]
        return found

    def unique(self, name: str) -> str:
        """Return an unused name, case ignored, as near to this one as possible."""
        base = _clean(name) or "layer"
        found = base
        while found.casefold() in self.used:
            self.counts[base] += 1
            found = f"{base}_{self.counts[base] + 1}"
        self.used.add(found.casefold())
        return found


def _clean(name: str) -> str:
    """Return a name of letters, digits and a few signs, the end of it if it is long."""
    return re.sub(r"[^\w./+-]+", "_", name)[-LONGEST:].strip("._/-")
