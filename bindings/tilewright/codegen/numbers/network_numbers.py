"""The numbers of a C project: operations in integers, inputs, and what the outputs must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.codegen.numbers.c_integers import pack_elements
from tilewright.simulator.arithmetic.fixed_point import Floats, Integers
from tilewright.simulator.arithmetic.integer_operation import IntegerOperation
from tilewright.spec.errors import InputError
from tilewright.spec.network import AnyLayer, Network

LABEL_BITS = 32
"""Of a class in ``labels.bin``."""

Arrange = Callable[[Mapping[str, NDArray[Any]]], NDArray[Any]]
"""Returns the outputs of a network, given by name, in the order in which a program writes their values."""


@dataclass(frozen=True)
class NetworkNumbers:
    """What is computed.

    Attributes
    ----------
    operations
        By name.
    inputs, outputs
        Names of the network's.
    maps : shape (images, C, H, W)
        Inputs and outputs of the network, and perhaps what is between them, by name.
    origin
        Where the numbers are from.
    labels : shape (images,), optional
        The right class of each image.
    expected : shape (images, C, H, W)
        What others compute of the network in floating point, by output; empty where nobody does.
    fractions
        Fractional length of these outputs.
    """

    operations: Mapping[str, IntegerOperation]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    maps: Mapping[str, Integers]
    origin: str
    labels: Integers | None = None
    expected: Mapping[str, Floats] = field(default_factory=dict)
    fractions: Mapping[str, int] = field(default_factory=dict)

    @property
    def images(self) -> int:
        """How many there are."""
        return len(self.maps[self.outputs[0]])

    @property
    def right(self) -> int | None:
        """Images whose largest output is that of their class, where these are known."""
        if self.labels is None:
            return None
        outputs = self.maps[self.outputs[0]]
        classes = outputs.reshape(len(outputs), prod(outputs.shape[1:])).argmax(axis=1)
        return int((classes == self.labels).sum())

    def reference_data(self, bits: int, arrange: Arrange) -> dict[str, bytes]:
        """Return what the program compares its outputs with, by the names of files.

        ``reference.bin`` has the outputs, as they are stored in some bits; ``expected.bin`` what others
        compute of them, in the same scale and order.
        """
        reference = arrange({name: self.maps[name] for name in self.outputs})
        expected = b""
        if self.expected:
            scaled = {
                name: np.ldexp(self.expected[name], self.fractions[name]).reshape(self.maps[name].shape)
                for name in self.outputs
            }
            expected = arrange(scaled).astype("<f4").tobytes()
        return {"reference.bin": pack_elements(reference, bits), "expected.bin": expected}

    @property
    def labels_data(self) -> bytes:
        """What ``labels.bin`` has, which is empty where classes are not known."""
        return b"" if self.labels is None else pack_elements(self.labels, LABEL_BITS)


def refusal(network: Network, layer: AnyLayer, reason: str = "there is no C for it") -> InputError:
    """Return what says that a layer cannot be written in C."""
    place = next(at for at, each in enumerate(network.layers) if each.name == layer.name)
    what = getattr(layer, "op", layer.kind)
    return InputError(f"network.layers[{place}]", what, f"layer {layer.name}: {reason}")


def refuse_late_bias(network: Network, layer: AnyLayer, arithmetic: IntegerOperation, bits: int) -> None:
    """Refuse sums over blocks of input channels to which a bias cannot be added first.

    Parameters
    ----------
    bits
        Of an element.
    """
    if not arithmetic.takes_bias_first(bits):
        reason = (
            "there is no C for blocks of input channels whose sums may wrap around before a bias is added"
        )
        raise refusal(network, layer, reason)
