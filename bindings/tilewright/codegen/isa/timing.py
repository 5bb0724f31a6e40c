"""Cycles that an instruction takes on the engines of a machine file, from its fields alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.codegen.isa.instructions import Instruction
from tilewright.codegen.isa.places import output_box, parameter_count
from tilewright.fusion.machine import LOAD, SAVE, EngineMachine


def cycles(instruction: Instruction, machine: EngineMachine, host: Sequence[Instruction]) -> int:
    """Return the cycles of an instruction.

    Parameters
    ----------
    host
        The host's table.
    """
    name, values, images = instruction.name, instruction.values, machine.arrays
    if name in ("START", "END"):
        return 0
    if name == "GROUP":
        return machine.issue_cycles
    if name == "HOST":
        priced = machine.host
        return 0 if priced is None else priced.cycles(host_bytes(host[values["call"]], machine))
    if name == "FETCH":
        taken = machine.transfer_cycles(LOAD, values["kernels"] * parameter_count(instruction))
    elif name in (LOAD, SAVE):
        taken = machine.transfer_cycles(name, images * prod(output_box(instruction)))
    elif name == "CONV":
        ins, outs, high = machine.conv_array
        steps = -(-values["depth"] // ins) * -(-values["kernels"] // outs) * -(-values["rows"] // high)
        taken = steps * values["columns"] * values["kernel_rows"] * values["kernel_columns"]
    else:
        taken = images * prod(output_box(instruction)) * _operands(instruction)
        taken = -(-taken // machine.operands_per_cycle)
    return max(1, taken)


def _operands(instruction: Instruction) -> int:
    """Return the values that POOL or MISC takes for one that it gives."""
    values = instruction.values
    if instruction.name == "POOL":
        return values["kernel_rows"] * values["kernel_columns"]
    return 1 if instruction.name == "COPY" else values["parts"]


def host_bytes(entry: Instruction, machine: EngineMachine) -> int:
    """Return the bytes that the host reads and writes for an entry of its table."""
    reads = {tuple(sorted(each.items())): _size(each) for each in entry.of("read")}
    (written,) = map(_size, entry.of("write"))
    moved = machine.arrays * (sum(reads.values()) + written) + entry.values["parameters"]
    return machine.element_bytes * moved


def _size(each: object) -> int:
    values: dict[str, int] = dict(each)  # type: ignore[call-overload]
    return values["channels"] * values["rows"] * values["columns"]
