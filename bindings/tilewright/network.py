"""The network table: named layers in the order in which they are executed."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tilewright.errors import InputError
from tilewright.layer import Layer, Spec

MAX_LAYERS = 10_000
"""Most layers of a network."""

Name = Annotated[str, Field(min_length=1, max_length=200)]


class NamedLayer(Layer):
    """A layer of a network."""

    name: Name

    def unnamed(self, batch: int | None = None) -> Layer:
        """Return the layer as it stands in an instance of its own.

        Parameters
        ----------
        batch
            Images processed together, when it is not what the network's file says.
        """
        table = self.model_dump(exclude={"name"})
        return Layer.model_validate(table if batch is None else {**table, "batch": batch})


class Network(Spec):
    """A network's layers in the order of execution; one that is repeated stands repeatedly.

    Attributes
    ----------
    name, source
        What the network is and where its figures come from.
    """

    name: str = ""
    source: str = ""
    layers: Annotated[tuple[NamedLayer, ...], Field(min_length=1, max_length=MAX_LAYERS)]

    def model_post_init(self, _context: object) -> None:
        """Refuse two layers of one name."""
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise InputError("network.layers", layer.name, "two layers have this name")
            seen.add(layer.name)
