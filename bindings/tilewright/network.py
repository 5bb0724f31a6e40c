"""The network table: a graph of named layers, in an order in which they can be executed."""

from __future__ import annotations

from functools import cached_property
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field

from tilewright.errors import InputError
from tilewright.layer import Layer, Pad, Size, Small, Spec, Window

MAX_LAYERS = 10_000
"""Most layers of a network."""

OWN_INPUT = "input"
"""What layers call the network's own input; no layer may have this name."""

Name = Annotated[str, Field(min_length=1, max_length=200)]


class Node(Spec):
    """What every layer of a network has, whatever its kind.

    Attributes
    ----------
    inputs : names, optional
        Earlier layers that are read, or ``input`` for the network's own input; the layer before when left
        out, which for the first layer is the network's input.
    """

    name: Name
    inputs: tuple[Name, ...] | None = None

    def model_post_init(self, _context: object) -> None:
        """Say which layer's geometry is refused."""
        try:
            super().model_post_init(_context)
        except InputError as error:
            raise InputError(error.field, error.value, f"layer {self.name}: {error.limit}") from None


class NamedLayer(Node, Layer):
    """A convolution or fully connected layer of a network; what it reads is concatenated along channels."""

    def unnamed(self, batch: int | None = None) -> Layer:
        """Return the layer as it stands in an instance of its own.

        Parameters
        ----------
        batch
            Images processed together, when it is not what the network's file says.
        """
        table = self.model_dump(exclude=set(Node.model_fields))
        return Layer.model_validate(table if batch is None else {**table, "batch": batch})


class Pool(Node, Window):
    """The largest or average value under a window; what it reads is concatenated along channels.

    Attributes
    ----------
    input : (C, H, W)
        Channels, height and width before padding.
    kernel, stride, padding
        The window, as a convolution's.
    """

    kind: Literal["pool"]
    op: Literal["max", "average"] = "max"
    input: tuple[Size, Size, Size]
    kernel: tuple[Small, Small]
    stride: tuple[Small, Small] = (1, 1)
    padding: tuple[Pad, Pad, Pad, Pad] = (0, 0, 0, 0)
    dilation: ClassVar[tuple[int, int]] = (1, 1)


class Add(Node, Window):
    """The sum, value by value, of two or more inputs of one shape.

    Attributes
    ----------
    input : (C, H, W)
        Channels, height and width of each of them.
    """

    kind: Literal["add"]
    input: tuple[Size, Size, Size]
    kernel: ClassVar[tuple[int, int]] = (1, 1)
    stride: ClassVar[tuple[int, int]] = (1, 1)
    padding: ClassVar[tuple[int, int, int, int]] = (0, 0, 0, 0)
    dilation: ClassVar[tuple[int, int]] = (1, 1)


def _conv_by_default(table: Any) -> Any:
    return {"kind": "conv", **table} if isinstance(table, dict) else table


AnyLayer = Annotated[NamedLayer | Pool | Add, Field(discriminator="kind"), BeforeValidator(_conv_by_default)]


class Network(Spec):
    """A graph of layers in an order of execution; a layer that is repeated stands repeatedly.

    Attributes
    ----------
    name, source
        What the network is and where its figures come from.
    layers
        Each reads earlier layers only, so that no cycle can be written.
    """

    name: str = ""
    source: str = ""
    layers: Annotated[tuple[AnyLayer, ...], Field(min_length=1, max_length=MAX_LAYERS)]

    def model_post_init(self, _context: object) -> None:
        """Refuse two layers of one name, and inputs that are no earlier layers."""
        earlier: set[str] = set()
        for index, layer in enumerate(self.layers):
            field = f"network.layers[{index}]"
            if layer.name == OWN_INPUT:
                raise InputError(f"{field}.name", layer.name, "stands for the network's own input")
            if layer.name in earlier:
                raise InputError("network.layers", layer.name, "two layers have this name")
            names = layer.inputs or ()
            for name in names:
                if name not in earlier and name != OWN_INPUT:
                    limit = (
                        f"layer {layer.name} can read earlier layers only, as layers stand in the order of "
                        f'execution, or "{OWN_INPUT}", the network\'s own input'
                    )
                    raise InputError(f"{field}.inputs", name, limit)
            count, least = 1 if layer.inputs is None else len(names), 2 if layer.kind == "add" else 1
            if count < least:
                limit = f"layer {layer.name}, of kind {layer.kind}, needs at least {least}"
                raise InputError(f"{field}.inputs", layer.inputs, limit)
            if layer.kind != "add" and len(set(names)) < len(names):
                limit = f"layer {layer.name} names an input twice, which only a layer of kind add may"
                raise InputError(f"{field}.inputs", layer.inputs, limit)
            earlier.add(layer.name)

    @property
    def convolutions(self) -> tuple[NamedLayer, ...]:
        """The convolutions and fully connected layers, in order."""
        return tuple(layer for layer in self.layers if isinstance(layer, NamedLayer))

    @cached_property
    def producers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of those that it reads; -1 stands for the network's own input."""
        index = {OWN_INPUT: -1} | {layer.name: index for index, layer in enumerate(self.layers)}
        return tuple(
            (place - 1,) if layer.inputs is None else tuple(index[name] for name in layer.inputs)
            for place, layer in enumerate(self.layers)
        )

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """For each layer, the indices of those that read it, each once; none for an output."""
        readers: list[list[int]] = [[] for _ in self.layers]
        for index, producers in enumerate(self.producers):
            for producer in set(producers) - {-1}:
                readers[producer].append(index)
        return tuple(map(tuple, readers))

    def check_shapes(self) -> None:
        """Refuse a network whose layers do not take what the layers that they read give.

        Raises
        ------
        InputError
            Names the layer, what it takes and what it is given.
        """
        own = self.layers[0].input  # the first layer can read nothing but the network's input
        for index, (layer, producers) in enumerate(zip(self.layers, self.producers, strict=True)):
            given = [own if producer < 0 else self.layers[producer].output for producer in producers]
            if layer.kind == "add":
                fits = set(given) == {layer.input}
            elif layer.kind == "fc":
                fits = sum(map(prod, given)) == prod(layer.input)
            else:
                channels = sum(shape[0] for shape in given)
                fits = {(channels, *shape[1:]) for shape in given} == {layer.input}
            if not fits:
                shown = " and ".join(
                    f"{OWN_INPUT if producer < 0 else self.layers[producer].name} {'x'.join(map(str, shape))}"
                    for producer, shape in zip(producers, given, strict=True)
                )
                limit = f"is what layer {layer.name} takes, but it is given: {shown}"
                raise InputError(f"network.layers[{index}].input", list(layer.input), limit)
