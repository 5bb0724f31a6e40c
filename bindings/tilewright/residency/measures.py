"""What was measured of an executed plan of a network in one memory."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from tilewright.core.measures import Amounts, Count, Executed, Table, measures


@measures
class StepMeasures(Table):
    """Of a step of the plan."""

    order: str
    """The outer loop: over `pixels` of the last operation's output, or over `kernels`, blocks of output
    channels. Where input channels are added up block by block: over `tiles`, or over `channels`, blocks of
    output channels."""
    pixels: Count
    """Of the last operation's output, computed in a pass."""
    kernels: Count
    """Output channels in a block, where weights are not kept."""
    columns: Count | None = None
    """Of the last operation's output in a strip or a tile; missing where rows are not cut."""
    channels: Count | None = None
    """Input channels in a block; missing where all are added up at a time."""
    keys: Count | None = None
    """Keys of attention that pass by at a time; missing where none do."""
    blocks: bool | None = None
    """Whether second operands of products are loaded in blocks, in each pass; missing where they are not."""
    passes: Count
    loaded_bytes: Count
    saved_bytes: Count
    memory_bytes: Count
    """All that is on chip."""
    on_chip_bytes: Amounts
    """What each whole map, line buffer and block takes of it."""
    memories: dict[str, Amounts] | None = None
    """The same by the memory in which each of them lies; missing of machines with one."""
    cycles: Count | None = None
    """Where the machine has rates or prices, or the objective needs them; so is energy."""
    energy_fj: Count | None = None
    double_buffering: bool | None = None
    """Whether what is loaded and written in passes has second buffers; missing where it has none."""
    running: bool | None = None
    """Whether what the last operation reads is added to running values, pass by pass; missing where it is
    not. Then `pixels` and `columns` are of that plane."""
    copied: list[str] | None = None
    """Operations whose weights are copied from flash, before the first pass, or with several `kernels` in
    order ``kernels`` those of so many output channels at a time; missing where there are none."""
    interleaved: bool | None = None
    """Whether operations take turns, pixel by pixel; missing where they do not."""


@measures
class MemoryMeasures(Table):
    """Of a memory: one that maps lie in, or flash.

    Of flash what is read are the weights of convolutions and products.
    """

    memory_bytes: Count
    """Up to the highest address that is used."""
    read_bytes: Count | None = None
    """That the core reads, of maps, line buffers and running values; missing with DRAM."""
    written_bytes: Count | None = None
    accesses: Count | None = None
    """In which these are read and written, each of them no wider than the memory."""


@measures
class ResidencyMeasures(Executed):
    """Of a network in one memory."""

    PARTS: ClassVar[Mapping[str, str]] = {"steps_of_plan": "operations"}

    traffic_bytes: Count
    """Moved from and to DRAM."""
    memory_bytes: Count
    """Up to the highest address that is used; of several memories all of these together."""
    loaded_bytes: Count
    saved_bytes: Count
    compulsory_bytes: Count
    """Inputs, outputs and weights of the network, each once, but for weights that stay."""
    any_schedule_bytes: Count | None = None
    """What schedules of any kind move at least; missing where no more than the compulsory amount is known."""
    weights_bytes: Count
    """Of all operations."""
    layer_by_layer_bytes: Count | None = None
    """What is moved at least if every operation runs alone and all maps go out to DRAM, in this memory;
    missing without DRAM."""
    staying_bytes: Amounts | None = None
    """Weights that are on chip for good, by operation: loaded once before the first frame. All else is
    told of each later frame."""
    flash_bytes: Count | None = None
    """Weights in flash, where they are read; missing where they are not there."""
    memories: dict[str, MemoryMeasures] | None = None
    """Those that maps lie in, and flash, by name; missing of one memory with DRAM."""
    executed_again: list[str] | None = None
    """Operations that are executed twice."""
    cycles: Count | None = None
    """Where the machine has rates or prices, or the objective needs them; so is energy."""
    energy_fj: Count | None = None
    compulsory_cycles: Count | None = None
    """What every plan takes at least."""
    compulsory_energy_fj: Count | None = None
    overlapped_cycles: None = None
    """Missing: steps that overlap with themselves are told in `cycles`."""
    steps_of_plan: dict[str, StepMeasures]
    """By the names of their operations, joined with +, in order."""
