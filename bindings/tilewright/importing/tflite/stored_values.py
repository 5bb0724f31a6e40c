"""What a TFLite file computes of numbers that it stores, and variables that it keeps from frame to frame.

Converters store weights as floats of 16 bits, as integers or sparse, and let operators make floats of them:
these become numbers that are stored. A variable is read before it is given another value: what is read is an
input of the network, and what it is given is an output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import tflite
from numpy.typing import NDArray

from tilewright.importing.tflite.file import File, Operator, Tensor

Values = NDArray[Any]


def with_stored_values(file: File) -> File:
    """Return a file without the operators that read nothing but numbers of the file, as far as known."""
    tensors, left = list(file.tensors), list[Operator]()
    for operator in file.operators:
        given = [tensors[number] for number in operator.inputs if number >= 0]
        # Of the shape of a tensor nothing is computed.
        known = operator.type == "SHAPE" or (given and all(each.numbers is not None for each in given))
        gives = operator.outputs[0] if len(operator.outputs) == 1 else -1
        values = None
        if operator.type in COMPUTED and known and gives >= 0 and gives not in file.outputs:
            values = COMPUTED[operator.type](given, tensors[gives], operator)
        if values is None or values.shape != tensors[gives].shape:
            left.append(operator)
            continue
        tensors[gives] = replace(tensors[gives], numbers=values.astype(tensors[gives].type))
    return replace(file, tensors=tuple(tensors), operators=tuple(left))


def _floats(given: list[Tensor], _output: Tensor, _operator: Operator) -> Values | None:
    """Return what floats of 16 bits, or integers, stand for."""
    own, numbers = given[0], given[0].numbers
    assert numbers is not None
    if own.scales is None or own.zero_points is None:
        return numbers.astype(np.float32) if numbers.dtype.kind == "f" else None
    shape = [1] * numbers.ndim
    if len(own.scales) > 1:
        if own.axis >= numbers.ndim or numbers.shape[own.axis] != len(own.scales):
            return None
        shape[own.axis] = len(own.scales)
    return (numbers - own.zero_points.reshape(shape)) * own.scales.reshape(shape)


def _as_it_is(given: list[Tensor], output: Tensor, _operator: Operator) -> Values | None:
    """Return the same numbers, in the shape of the output."""
    numbers = given[0].numbers
    if numbers is None or numbers.size != np.prod(output.shape, dtype=np.int64):
        return None
    return numbers.reshape(output.shape)


def _turned(given: list[Tensor], _output: Tensor, _operator: Operator) -> Values | None:
    """Return numbers with their dimensions in another order."""
    numbers, order = given[0].numbers, given[-1].numbers
    if numbers is None or order is None or sorted(order.ravel().tolist()) != list(range(numbers.ndim)):
        return None
    return numbers.transpose(order.ravel().tolist())


def _shape(given: list[Tensor], _output: Tensor, _operator: Operator) -> Values | None:
    return np.array(given[0].shape, np.int64)


COMPUTED: dict[str, Callable[[list[Tensor], Tensor, Operator], Values | None]] = {
    "DEQUANTIZE": _floats,
    "DENSIFY": _as_it_is,
    "CAST": _as_it_is,
    "RESHAPE": _as_it_is,
    "SQUEEZE": _as_it_is,
    "EXPAND_DIMS": _as_it_is,
    "TRANSPOSE": _turned,
    "SHAPE": _shape,
}
"""What is computed of stored numbers, by TFLite's name."""


# Dilated convolutions ---------------------------------------------------------------------------------

CONVOLUTIONS = ("CONV_2D", "DEPTHWISE_CONV_2D")


def with_dilations(file: File) -> File:
    """Return a file whose convolutions of parts of a map, taken apart and put together, are dilated ones.

    So TensorFlow writes a convolution that reads each second row and column, or fewer: SPACE_TO_BATCH_ND
    makes an image of each set of such rows and columns, and BATCH_TO_SPACE_ND puts results in their places.
    """
    readers: dict[int, list[Operator]] = {}
    for operator in file.operators:
        for number in operator.inputs:
            readers.setdefault(number, []).append(operator)
    made, gone = dict[int, Operator](), set[int]()
    for apart in file.operators:
        if apart.type != "SPACE_TO_BATCH_ND" or len(apart.inputs) != 3 or len(apart.outputs) != 1:
            continue
        chain = [apart]
        for kinds in (CONVOLUTIONS, ("BATCH_TO_SPACE_ND",)):
            follow = readers.get(chain[-1].outputs[0], []) if len(chain[-1].outputs) == 1 else []
            alone = len(follow) == 1 and follow[0].type in kinds and chain[-1].outputs[0] not in file.outputs
            if not alone or follow[0].inputs[0] != chain[-1].outputs[0]:
                break
            chain.append(follow[0])
        found = _dilated(file, chain) if len(chain) == 3 else None
        if found is not None:
            made[chain[1].number] = found
            gone |= {chain[0].number, chain[2].number}
    left = [made.get(each.number, each) for each in file.operators if each.number not in gone]
    return replace(file, operators=tuple(left))


def _dilated(file: File, chain: list[Operator]) -> Operator | None:
    """Return the convolution that three operators are, None where they are another."""
    apart, own, together = chain
    if len(together.inputs) != 3 or len(together.outputs) != 1 or own.options is None:
        return None
    told = [file.tensors[number].numbers for number in (*apart.inputs[1:], *together.inputs[1:])]
    numbers = [each.astype(int).tolist() for each in told if each is not None]
    options = own.options
    plain = (options.StrideH(), options.StrideW(), options.DilationHFactor(), options.DilationWFactor())
    if len(numbers) != 4 or options.Padding() != tflite.Padding.VALID or plain != (1, 1, 1, 1):
        return None
    block, pads, same, crops = numbers
    pairs = np.shape(pads) == np.shape(crops) == (2, 2)
    if block != same or len(block) != 2 or not pairs or crops[0][0] or crops[1][0] or min(block) < 1:
        return None
    after = [behind - crop[1] for (_, behind), crop in zip(pads, crops, strict=True)]
    before = [first for first, _ in pads]
    if min(*before, *after) < 0:
        return None
    inputs = (apart.inputs[0], *own.inputs[1:])
    border = (before[0], before[1], after[0], after[1])
    return replace(own, inputs=inputs, outputs=together.outputs, dilation=(block[0], block[1]), pads=border)


# Variables -------------------------------------------------------------------------------------------

OF_VARIABLES = ("VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE", "CALL_ONCE")


def with_states(file: File) -> File:
    """Return a file whose variables are inputs and outputs of the network, where all of them can be."""
    handles: dict[int, bytes] = {}
    for operator in file.operators:
        if operator.type == "VAR_HANDLE" and operator.options is not None and operator.outputs:
            told = operator.options.Container() or b"", operator.options.SharedName() or b""
            handles[operator.outputs[0]] = b"/".join(told)
    used = (operator for operator in file.operators if operator.type in OF_VARIABLES[1:3])
    if not handles or not all(operator.inputs and operator.inputs[0] in handles for operator in used):
        return file
    same: dict[int, int] = {}  # tensors that are read of a variable, and which of them stand for others
    now: dict[bytes, int] = {}
    inputs, changed, left = list(file.inputs), dict[bytes, int](), list[Operator]()
    for operator in file.operators:
        reads = tuple(same.get(number, number) for number in operator.inputs)
        if operator.type == "READ_VARIABLE" and operator.outputs:
            variable, read = handles[operator.inputs[0]], operator.outputs[0]
            if variable in now:
                same[read] = now[variable]
            else:
                now[variable] = read
                inputs.append(read)
        elif operator.type == "ASSIGN_VARIABLE" and len(reads) > 1:
            now[handles[operator.inputs[0]]] = changed[handles[operator.inputs[0]]] = reads[1]
        elif operator.type not in OF_VARIABLES:
            left.append(replace(operator, inputs=reads))
    outputs = [same.get(number, number) for number in file.outputs]
    stored = {number for number, tensor in enumerate(file.tensors) if tensor.numbers is not None}
    outputs += [number for number in dict.fromkeys(changed.values()) if number not in {*outputs, *stored}]
    return replace(file, operators=tuple(left), inputs=tuple(inputs), outputs=tuple(outputs))
