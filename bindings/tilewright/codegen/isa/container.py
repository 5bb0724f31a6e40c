"""A program with all that it needs to run, and whether its parts fit each other."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

from tilewright.codegen.isa.fields import WORD_BYTES
from tilewright.codegen.isa.instructions import Instruction, encode
from tilewright.codegen.isa.layout import ALIGNMENT, Tensor
from tilewright.fusion.machine import EngineMachine
from tilewright.spec.errors import InputError
from tilewright.spec.validation import validated

MOST_DDR_BYTES = 2**32
"""What addresses of 32 bits reach."""

MOST_MAPS_BYTES = 2**31
"""Most bytes of maps in DDR, so that a file cannot ask for any amount of memory."""

ROLES = ("INPUT", "MAP", "OUTPUT")
"""What a map is for the network."""


@dataclass(frozen=True)
class Image:
    """A program with all that it needs to run.

    Attributes
    ----------
    machine
        The accelerator that it was made for.
    code
        Instructions, in the order in which they are dispatched.
    host
        Operations that the host executes, by the numbers of ``HOST``.
    tensors
        Maps in DDR.
    parameters, inputs
        Bytes of DDR before the program runs: from address 0 on, one after the other.
    maps : (address, bytes)
        DDR for what is stored.
    expected
        What the outputs must be, in the order of `tensors`, NHWC.
    planned_cycles
        What the plan says that it takes; the machine does not look at it.
    further
        Inputs of further batches of images, for which it is executed again; each as long as `inputs`.
    """

    name: str
    machine: EngineMachine
    code: tuple[Instruction, ...]
    host: tuple[Instruction, ...]
    tensors: tuple[Tensor, ...]
    parameters: bytes
    inputs: bytes
    maps: tuple[int, int]
    expected: bytes
    planned_cycles: int
    further: bytes = b""

    @cached_property
    def words(self) -> list[int]:
        """The words of all instructions."""
        return [word for number, each in enumerate(self.code) for word in encode(each, f"code[{number}]: ")]

    @cached_property
    def host_words(self) -> list[int]:
        """The words of the host's table."""
        return [word for number, each in enumerate(self.host) for word in encode(each, f"host[{number}]: ")]

    @property
    def code_address(self) -> int:
        """Where the instructions lie in DDR: behind the maps."""
        end = sum(self.maps)
        return end + -end % ALIGNMENT

    @property
    def outputs(self) -> list[Tensor]:
        """The network's outputs."""
        return [tensor for tensor in self.tensors if tensor.role == "OUTPUT"]

    @property
    def batches(self) -> list[bytes]:
        """Inputs of all batches of images."""
        size = max(1, len(self.inputs))
        more = [self.further[at : at + size] for at in range(0, len(self.further), size)]
        return [self.inputs, *more]

    @property
    def side_by_side(self) -> int:
        """Maps that are slices of an array, so that SAVE stores them with a stride."""
        width = self.machine.element_bytes
        return sum(not tensor.planar and tensor.pixel > width * tensor.shape[0] for tensor in self.tensors)

    @property
    def copies(self) -> int:
        """Instructions and entries of the host's table that compute nothing, but copy."""
        kinds = ("COPY", "RESHAPE", "RELAYOUT")
        return sum(each.name in kinds and not each.values["nonlinear"] for each in (*self.code, *self.host))

    def checked(self) -> Image:
        """Return the image, if its parts fit each other.

        Raises
        ------
        InputError
            Names what does not.
        """
        begin, size = self.maps
        limit = f"must follow the inputs and have at most {MOST_MAPS_BYTES} bytes"
        if begin != len(self.parameters) + len(self.inputs) or size > MOST_MAPS_BYTES:
            raise InputError("maps", [begin, size], limit)
        end = self.code_address + WORD_BYTES * len(self.words)
        if end > MOST_DDR_BYTES:
            raise InputError("DDR", end, f"has at most {MOST_DDR_BYTES} bytes")
        images, width = self.machine.arrays, self.machine.element_bytes
        asked = 0
        for tensor in self.tensors:
            reach = tensor.address + images * tensor.image if prod(tensor.shape) else tensor.address
            least = width if tensor.planar else tensor.shape[0] * width
            if not (least <= tensor.pixel and reach <= end + tensor.pixel):
                raise InputError(f"tensor {tensor.name}", tensor.address, f"lies beyond {end} bytes of DDR")
            asked += images * prod(tensor.shape) * width if tensor.role == "OUTPUT" else 0
        if len(self.further) % max(1, len(self.inputs)):
            limit = f"has the inputs' {len(self.inputs)} bytes for each batch"
            raise InputError("batches", len(self.further), limit)
        asked *= len(self.batches)
        if asked != len(self.expected):
            limit = f"has the outputs' {asked} bytes"
            raise InputError("expected", len(self.expected), limit)
        return self


def machine_of(text: bytes | str) -> EngineMachine:
    """Return the accelerator that a program says it was made for.

    Raises
    ------
    InputError
        For text that is none.
    """
    return validated(EngineMachine, table_of(text, ".machine"))


def table_of(text: bytes | str, name: str) -> dict[str, Any]:
    """Return a table in JSON, or refuse what is none."""
    try:
        table = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(name, str(error), "must be JSON") from None
    if not isinstance(table, dict):
        raise InputError(name, table, "must be a table in JSON")
    return table
