"""What a frame moves and spends: words that are read, written and passed on, and the energy of all of it.

docs/allocation.md says what is counted. All of it follows from the splits of layers, but for leakage, which
takes the interval besides; `Lowering` counts the words of the beats that are executed.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import NamedTuple

from tilewright.allocation.geometry import Windows
from tilewright.allocation.machine import EnergyPrices
from tilewright.allocation.off_chip import channels_of, readers_of, transfers, words_coming
from tilewright.allocation.plan import Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.spec.layer import Layer
from tilewright.spec.network import Add

ACCESSES_OF_A_SUM = 3
"""Register accesses that add two sums: both are read, and one is written."""


class Exchange(NamedTuple):
    """What a layer, or all of them, exchanges for a frame.

    Attributes
    ----------
    macs
        Operations.
    registers
        Accesses to registers of PEs.
    hops
        Of words: from PE to PE, from the buffers to the first PE and back.
    buffer_reads, buffer_writes
        Words.
    off_chip_bytes
        Across the border of the chip.
    """

    macs: int = 0
    registers: int = 0
    hops: int = 0
    buffer_reads: int = 0
    buffer_writes: int = 0
    off_chip_bytes: int = 0

    def plus(self, other: Exchange) -> Exchange:
        """Return both together."""
        return Exchange(*(one + more for one, more in zip(self, other, strict=True)))


class Spent(NamedTuple):
    """Where the energy of a frame goes, in femtojoules; the leakage is None where it is not counted."""

    macs: int
    registers: int
    hops: int
    buffers: int
    off_chip: int
    leakage: int | None = None

    @property
    def total(self) -> int:
        """All that is counted."""
        return sum(part or 0 for part in self)


@lru_cache(maxsize=4096)
def pixels_read(windows: Windows, row_groups: int) -> int:
    """Return the pixels under the windows of the beats of a frame, each once in a beat."""
    rows, columns = windows.output
    bands = (range(row, min(row + row_groups, rows)) for row in range(0, rows, row_groups))
    down = sum(len(windows.read(0, band)) for band in bands)
    return down * sum(len(windows.read(1, range(column, column + 1))) for column in range(columns))


@lru_cache(maxsize=4096)
def pes_sharing_maps(filters: int, maps: int, groups: int, parts: int) -> int:
    """Return among how many PEs all input maps are shared together, if filters are in so many parts.

    A part is a block of consecutive filters. A map is needed by the parts that have a filter of its group.

    Parameters
    ----------
    maps
        Of each group.
    """
    block, own = -(-filters // parts), filters // groups
    found = (((group + 1) * own - 1) // block - group * own // block + 1 for group in range(groups))
    return maps * sum(found)


def exchange_of(problem: Problem, stage: Stage, split: LayerSplit) -> Exchange:
    """Return what a layer exchanges for a frame with a split.

    The first layer that reads a map from outside brings it: it crosses the border and is written to the
    buffers once.
    """
    task, spec, windows = stage.task, stage.spec, Windows.of(stage.spec)
    positions, beats = task.rows * task.columns, split.beats(task)
    values = stage.channels * positions
    if isinstance(spec, Layer):
        shared = pes_sharing_maps(task.filters, task.maps, spec.groups, split.filters)
        parts = -(-task.maps // -(-task.maps // split.maps))
        passed = (parts - 1) * values
    else:  # one filter, and no sums over maps
        shared, passed = task.maps * (len(stage.producers) if isinstance(spec, Add) else 1), 0
    read = pixels_read(windows, split.rows) * channels_read(problem, stage) + stage.weights * beats
    hops = shared * pixels_read(windows, 1) + stage.weights * positions + passed + values
    accesses = ACCESSES_OF_A_SUM + (stage.weights > 0)
    kept = is_kept(problem, stage)
    given = words_given(problem, stage)
    loaded = 0 if problem.parallel else stage.weights
    crossing = (*given, loaded, values if stage.leaves else 0)
    return Exchange(
        macs=task.operations,
        registers=accesses * task.operations + ACCESSES_OF_A_SUM * passed,
        hops=hops,
        buffer_reads=read + words_taken_back(problem, stage),
        buffer_writes=(values if kept else 0) + loaded + sum(given),
        off_chip_bytes=sum(map(problem.machine.bytes, crossing)),
    )


def words_given(problem: Problem, stage: Stage) -> list[int]:
    """Return the words of each map from outside that a layer is the first to read."""
    return [
        prod(each.shape)
        for place, each in enumerate(problem.given)
        if stage.number == min(readers_of(problem, -1 - place), default=None)
    ]


def is_kept(problem: Problem, stage: Stage) -> bool:
    """Whether a layer's output comes into the buffers; in a pipeline what no layer reads leaves at once."""
    return bool(problem.consumers[stage.number]) or not problem.parallel


def words_taken_back(problem: Problem, stage: Stage) -> int:
    """Return the words that the buffers give to leave the chip."""
    values = stage.channels * stage.task.rows * stage.task.columns
    return values if stage.leaves and is_kept(problem, stage) else 0


def channels_read(problem: Problem, stage: Stage) -> int:
    """Return the maps that a layer reads; one that it reads twice counts once."""
    return sum(channels_of(problem, each) for each in dict.fromkeys(stage.producers))


def exchange(problem: Problem, plan: Plan) -> Exchange:
    """Return what a frame exchanges with a plan."""
    found, reads, writes = Exchange(), 0, 0
    for stage, split in zip(problem.stages, plan.splits, strict=True):
        found = found.plus(exchange_of(problem, stage, split))
        values = stage.channels * stage.task.rows * stage.task.columns
        reads += values if stage.name in plan.spilled and not words_taken_back(problem, stage) else 0
        if problem.parallel:
            reads -= stage.weights * split.beats(stage.task) if stage.name in plan.streamed else 0
        else:
            writes -= stage.weights  # they stay, or come as `words_coming` says
    if problem.machine.off_chip is None:
        return found
    writes += words_coming(problem, plan.streamed, plan.spilled) - prod(problem.given[0].shape)
    return found._replace(
        buffer_reads=found.buffer_reads + reads,
        buffer_writes=found.buffer_writes + writes,
        off_chip_bytes=sum(transfers(problem, plan.streamed, plan.spilled)),
    )


def spend(prices: EnergyPrices, what: Exchange) -> Spent:
    """Return the energy of what is exchanged."""
    return Spent(
        what.macs * prices.mac_fj,
        what.registers * prices.register_fj,
        what.hops * prices.hop_fj,
        what.buffer_reads * prices.buffer_read_fj + what.buffer_writes * prices.buffer_write_fj,
        what.off_chip_bytes * prices.off_chip_fj_per_byte,
    )


def leakage_per_cycle(problem: Problem, used: int) -> int:
    """Return the leakage of all PEs in a cycle, of which so many have a layer; 0 where it is not counted."""
    return prices_of(problem).leakage(used, problem.machine.pes - used)


def prices_of(problem: Problem) -> EnergyPrices:
    """Return the prices of a problem whose machine has them."""
    assert problem.machine.energy is not None
    return problem.machine.energy


def own_energy(problem: Problem, stage: Stage, split: LayerSplit) -> int:
    """Return the energy of a layer's frame with a split, leakage apart."""
    return spend(prices_of(problem), exchange_of(problem, stage, split)).total


def energy(problem: Problem, plan: Plan, interval: int) -> int:
    """Return the energy of a frame, whose interval is known."""
    used = plan.pes if problem.parallel else max(split.pes for split in plan.splits)
    spent = spend(prices_of(problem), exchange(problem, plan)).total
    return spent + interval * leakage_per_cycle(problem, used)
