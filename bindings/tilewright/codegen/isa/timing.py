"""Cycles that an instruction takes on the engines of a machine file, from its fields alone."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tilewright.codegen.isa.instructions import Instruction
from tilewright.codegen.isa.places import ddr_maps, output_box, parameter_count
from tilewright.fusion.layouts import runs_of
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
        entry, priced = host[values["call"]], machine.host
        if entry.name == "RELAYOUT":
            priced = None if machine.layouts is None else machine.layouts.copies
        return 0 if priced is None else priced.cycles(host_bytes(entry, machine))
    if name == "FETCH":
        taken = machine.transfer_cycles(LOAD, values["kernels"] * parameter_count(instruction))
        taken += machine.burst_cycles * bursts(instruction, machine)
    elif name in (LOAD, SAVE):
        taken = machine.transfer_cycles(name, images * prod(output_box(instruction)))
        taken += machine.burst_cycles * bursts(instruction, machine)
    elif name == "CONV":
        ins, outs, high = machine.conv_array
        steps = -(-values["depth"] // ins) * -(-values["kernels"] // outs) * -(-values["rows"] // high)
        taken = steps * values["columns"] * values["kernel_rows"] * values["kernel_columns"]
    else:
        taken = images * prod(output_box(instruction)) * _operands(instruction)
        taken = -(-taken // machine.operands_per_cycle)
    return max(1, taken)


def bursts(instruction: Instruction, machine: EngineMachine) -> int:
    """Return the bursts of a transfer: of each run of bytes that follow each other in DDR, in each image."""
    values, width, layouts = instruction.values, machine.element_bytes, machine.layouts
    if layouts is None:
        return 0
    runs: list[tuple[int, int]] = []  # how many, and values of each
    if instruction.name == "FETCH":
        each, run = parameter_count(instruction), values["run"]
        if values["tap"] != run * width and values["taps"] > 1:
            runs += [
                (values["kernels"], values["bias"] + run),
                (values["kernels"] * (values["taps"] - 1), run),
            ]
        elif values["kernel"] != each * width:
            runs.append((values["kernels"], each))
        else:
            runs.append((1, values["kernels"] * each))
    else:
        for strided in ddr_maps(instruction, machine.arrays, width):
            steps = [step // width for step in strided.strides[1:]]
            count, length = runs_of(strided.shape[1:], steps)
            runs.append((machine.arrays * count, length))
    return sum(count * -(-length * width // layouts.burst_bytes) for count, length in runs)


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
