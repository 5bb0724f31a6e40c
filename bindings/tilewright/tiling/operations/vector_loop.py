"""The inner loop of an operation between layers on the vector unit, and what it costs on a tile.

As of layers (`tilewright.tiling.dsp.inner_loop`): lanes along one dimension, a body that is unrolled, one
software-pipelined dimension, all other loops around it. The numbers in comments are the equations of
docs/dsp-compute.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from math import prod
from typing import Any

import numpy as np

from tilewright.tiling.dsp.inner_loop import DIMENSIONS, Counts, InnerLoop, body_taps, lines_met
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.operation import Operation

Sizes = tuple[Any, Any, Any]
"""Maps, rows and columns of a tile."""

AXES = "cyx"
"""Maps, rows and columns of a tile: the dimensions of its loops. Images and input maps have none."""

TABLE = 32
"""Values of a table that stands for a function (thesis, section 4.5.1)."""

SUM_BYTES = 4
"""Bytes of a sum of squares and of its power (thesis, section 4.5.1)."""

FUNCTIONS = {
    "relu": 1,  # maximum
    "bias": 1,
    "scale": 1,  # multiplication and addition are one instruction
    "batch_norm": 1,
    "clip": 2,  # maximum, minimum
    "leaky_relu": 2,  # product, maximum
    "prelu": 2,
    "hard_sigmoid": 3,  # product and addition, maximum, minimum
    "hard_swish": 4,  # that, and a product
    "sigmoid": 1,  # where the table is read
    "tanh": 1,
}
"""Arithmetic instructions of functions of single values."""

LOOKUPS = ("sigmoid", "tanh", "lrn")
"""Functions with a table."""


@dataclass(frozen=True)
class VectorWork:
    """What the core computes of an operation.

    Attributes
    ----------
    kernel, stride
        Of the window, along rows and columns; a pool combines what lies under it.
    across
        Maps whose squares are added up; 0 of other operations.
    operands
        Inputs with a value for each output, or for each position under its window.
    of_maps
        Numbers of each map: trained ones, and inputs of one pixel.
    arithmetic, after
        Instructions for each output when its window is done, before and after a look into a table.
    lookup
        Whether there is a table.
    pool
        Whether the values under the window are combined.
    ends
        Whether a result that is combined in parts is scaled at last.
    """

    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    across: int = 0
    operands: int = 1
    of_maps: int = 0
    arithmetic: int = 0
    after: int = 0
    lookup: bool = False
    pool: bool = False
    ends: bool = False

    @property
    def windows(self) -> tuple[tuple[int, int], ...]:
        """Positions and stride of the window along maps, rows and columns."""
        return (max(1, self.across), 1), *zip(self.kernel, self.stride, strict=True)

    def chain(self, taps: int) -> int:
        """Return the instructions in a row on an output, for so many positions of a kernel, before a table.

        The first value is taken as it is where there are all positions; else as the result so far is.
        """
        if self.pool:
            whole = taps == prod(self.kernel)
            return taps - 1 + self.arithmetic if whole else taps
        return (self.across or self.operands - 1) + self.arithmetic


def has_loop(operation: Operation) -> bool:
    """Whether the inner loop of an operation is modelled, where it fits on chip as it is."""
    if operation.needs not in ("piece", "maps"):
        return False
    if not operation.windowed:
        return _is_over_planes(operation)
    if operation.op == "lrn":
        return operation.across > 0
    return operation.op in ("max_pool", "average_pool", "add", "mul", *FUNCTIONS)


def _is_over_planes(operation: Operation) -> bool:
    pooled = operation.op in ("max_pool", "average_pool") and len(operation.inputs) == 1
    return pooled and operation.output == (operation.inputs[0][0], 1, 1)


def work_of(operation: Operation, element_bytes: int) -> VectorWork:
    """Return what is computed of an operation that has a loop."""
    op = operation.op
    if op in ("max_pool", "average_pool"):
        average = int(op == "average_pool")
        kernel = operation.kernel if operation.windowed else operation.inputs[0][1:]
        return VectorWork(kernel, operation.stride, arithmetic=average, pool=True, ends=bool(average))
    if op == "lrn":  # the sum is scaled, and the input multiplied by its power: both of more bytes
        parts = -(-SUM_BYTES // element_bytes)
        return VectorWork(across=operation.across, arithmetic=parts, after=parts, lookup=True)
    spread = sum(shape[1:] == (1, 1) != operation.inputs[0][1:] for shape in operation.inputs)
    numbers = spread + operation.parameters // operation.output[0]
    if op in ("add", "mul"):
        rest = len(operation.inputs) - spread
        return VectorWork(operands=rest, of_maps=numbers, arithmetic=spread)
    return VectorWork(of_maps=numbers, arithmetic=FUNCTIONS[op], lookup=op in LOOKUPS)


@dataclass(frozen=True)
class VectorCosts:
    """What one or many loops cost on a tile; shapes (loops,), or integers of one.

    Attributes
    ----------
    cycles, transfers
        Of the tile: cycles, and vector loads and stores.
    interval, latency
        Cycles from one iteration's beginning to the next one's, and from its first load to its last store.
    entries, iterations
        How often the pipelined loop is entered, and its iterations.
    arithmetic
        Instructions, those of padded iterations among them.
    live, least_registers
        Registers of all iterations that are under way, and of one.
    fits
        Whether one has room, and the body is within `VectorUnit.unrolled_macs`.
    """

    cycles: Any
    transfers: Any
    interval: Any
    latency: Any
    entries: Any
    iterations: Any
    arithmetic: Any
    live: Any
    least_registers: Any
    fits: Any

    def of(self, number: int) -> VectorCosts:
        """Return those of one loop."""
        return VectorCosts(
            **{each.name: np.ravel(getattr(self, each.name))[number].item() for each in fields(self)}
        )


def loop_costs(unit: VectorUnit, work: VectorWork, tile: Sizes, loop: InnerLoop) -> VectorCosts:
    """Return what a loop costs on a tile; a body larger than the tile is cut to it."""
    sizes = extents(unit, tile, loop.vector)
    own = (loop.unroll[DIMENSIONS.index(name)] for name in AXES)
    unroll = [np.array([min(u, size)]) for u, size in zip(own, sizes, strict=True)]
    return costs_of_bodies(unit, work, tile, loop.vector, loop.pipelined, loop.taps, unroll).of(0)


def extents(unit: VectorUnit, tile: Sizes, vector: str) -> Sizes:
    """Return a tile's sizes, in vectors along the vectorised dimension."""
    c, y, x = (
        -(-size // unit.lanes) if name == vector else size for name, size in zip(AXES, tile, strict=True)
    )
    return c, y, x


def _inputs(
    unit: VectorUnit,
    work: VectorWork,
    tile: Sizes,
    vector: str,
    pipelined: str,
    body: tuple[int, ...],
    unroll: Sequence[Counts],
) -> tuple[Counts, Counts, Counts]:
    """Return the vectors of inputs that an iteration reads, those that it loads, and its shuffles."""
    each = new = lines = np.full_like(unroll[0], work.operands)
    shuffles = 0
    windows = zip(AXES, tile, work.windows, body, unroll, strict=True)
    for name, size, (positions, stride), taps, blocks in windows:
        met = begun = other = blocks
        if (positions, stride) != (1, 1) and name == vector:
            # The elements under all taps of a vector of outputs, from an unaligned address on.
            loads = -(-((np.minimum(unit.lanes, size) - 1) * stride + taps) // unit.lanes) + 1
            met = begun = blocks * loads
            shuffles = taps * (loads - 1)
        elif (positions, stride) != (1, 1):
            table = [lines_met(block, taps, stride, 1) for block in range(1, int(blocks.max()) + 1)]
            met, begun = (np.array(column)[blocks - 1] for column in zip(*table, strict=True))
            other = met
        each, new, lines = each * met, new * (begun if name == pipelined else met), lines * other
    return each, new, lines * shuffles


def costs_of_bodies(
    unit: VectorUnit,
    work: VectorWork,
    tile: Sizes,
    vector: str,
    pipelined: str,
    taps: str,
    unroll: Sequence[Counts],
) -> VectorCosts:
    """Return what loops cost that differ in their bodies; equations (O1) to (O9) of docs/dsp-compute.md.

    Parameters
    ----------
    tile, unroll : int, three of shape (loops,)
        Maps, rows and columns of the tile's outputs, and how much of them is in the body.
    """
    sizes, body = extents(unit, tile, vector), body_taps(work.kernel, taps)
    trips = [-(-size // each) for size, each in zip(sizes, unroll, strict=True)]
    iterations = trips[AXES.index(pipelined)]
    around = prod(work.kernel) // prod(body)
    entries = around * np.prod(trips, axis=0) // iterations  # (O1)
    results = np.prod(unroll, axis=0)  # (O2)
    each, fresh, shuffles = _inputs(
        unit, work, tile, vector, pipelined, (max(1, work.across), *body), unroll
    )  # (O3)
    if vector == "c":
        numbers = work.of_maps * unroll[0]
        each, fresh = each + numbers, fresh + numbers * (pipelined == "c")
    pieces = -(-TABLE // unit.lanes)
    looks = max(1, pieces - 1) if work.lookup else 0  # (O4)
    each = each + (pieces if work.lookup else 0)
    chain, parts = work.chain(prod(body)), around > 1
    latency = (  # (O5)
        unit.load_latency
        + unit.shuffle_latency * (shuffles > 0)
        + _turns(chain, results, unit.mac_slots, unit.mac_latency)
        + _turns(looks, results, unit.shuffle_slots, unit.shuffle_latency)
        + _turns(work.after, results, unit.mac_slots, unit.mac_latency)
        + unit.store_latency
    )
    arithmetic, shuffled = results * (chain + work.after), shuffles + results * looks
    loads = fresh + results * parts
    uses = (  # (O6)
        (arithmetic, unit.mac_slots),
        (loads + results, unit.memory_slots),
        (shuffled, unit.shuffle_slots),
        (2 * (arithmetic + shuffled) + results, unit.read_ports),
        (arithmetic + shuffled + loads, unit.write_ports),
    )
    period = np.maximum.reduce([-(-used // slots) for used, slots in uses])
    room = np.maximum((unit.registers - each) // results, 0)  # (O7)
    period = np.maximum(period, -(-latency // np.maximum(room, 1)))
    longest = np.maximum(latency, period)
    before = -(-(each - fresh) // unit.memory_slots)
    run = before + (iterations - 1) * period + longest  # (O8)
    if unit.instruction_cache is not None:
        length = before + 2 * longest - period  # prologue, kernel, epilogue
        run = run + unit.refill_cycles * length * (length > unit.instruction_cache)
    begin, end = _ends(unit, work, prod(sizes)) if parts else ((0, 0), (0, 0))  # (O9)
    moved = each - fresh + iterations * (loads + results)
    return VectorCosts(
        cycles=entries * run + begin[0] + end[0],
        transfers=entries * moved + begin[1] + end[1],
        interval=period,
        latency=latency,
        entries=entries,
        iterations=iterations,
        arithmetic=entries * iterations * arithmetic,
        live=each + results * -(-latency // period),
        least_registers=each + results,
        fits=(room > 0) & (np.maximum(arithmetic, results) <= unit.unrolled_macs),
    )


def _turns(chain: int, results: Counts, slots: int, latency: int) -> Counts:
    """Return how long a chain of instructions takes on each of some results, which take turns."""
    if not chain:
        return np.zeros_like(results)
    turn = -(-results // slots)
    return (chain - 1) * np.maximum(turn, latency) + turn - 1 + latency


def _ends(unit: VectorUnit, work: VectorWork, outputs: Any) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return cycles and transfers that begin results which are combined in parts, and that scale them."""
    begin = -(-outputs // unit.memory_slots) + unit.store_latency, outputs
    if not work.ends:
        return begin, (0, 0)
    busiest = np.maximum(-(-2 * outputs // unit.memory_slots), -(-outputs // unit.mac_slots))
    return begin, (busiest + unit.load_latency + unit.mac_latency + unit.store_latency, 2 * outputs)
