"""The inner loop of a tile: what is vectorised, unrolled and software-pipelined, and what that costs.

A loop is a body of unrolled multiply-accumulates of vectors, run for one dimension with the next iteration
begun an initiation interval after the last. All other loops of the tile are around it and enter it anew. The
closed forms are derived in docs/dsp-compute.md; the numbers in comments are its equations.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.errors import InputError
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.tile import are_sizes

Counts = NDArray[np.int64]

DIMENSIONS = "ncyxk"
"""Images, output maps, rows, columns and input maps of a tile."""

TAPS = ("kernel", "row", "tap")
"""What of the kernel is in the body: all positions, those of one row, or one position."""


@dataclass(frozen=True)
class TileWork:
    """What the core computes of one tile.

    Attributes
    ----------
    sizes
        Images, output maps, rows, columns and input maps of a group.
    groups
        Groups of the tile, one after the other.
    kernel, stride, dilation
        Of the layer, along rows and columns.
    """

    sizes: tuple[int, int, int, int, int]
    groups: int = 1
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)

    @property
    def macs(self) -> int:
        """Multiply-accumulates (equation 5.11)."""
        return self.groups * int(np.prod(self.sizes)) * self.kernel[0] * self.kernel[1]


@dataclass(frozen=True)
class InnerLoop:
    """The decision.

    Attributes
    ----------
    vector
        The dimension whose elements are the lanes of a vector.
    pipelined
        The dimension of the software-pipelined loop.
    unroll
        How much of n, c, y, x and k is in its body; of `vector`, in vectors. Of the first four it is the
        register tile of sums.
    taps : {"kernel", "row", "tap"}
        Which kernel positions are in its body; the others are loops around it.
    """

    vector: str
    pipelined: str
    unroll: tuple[int, int, int, int, int] = (1, 1, 1, 1, 1)
    taps: str = "kernel"

    def __str__(self) -> str:
        body = " ".join(f"{d}{u}" for d, u in zip(DIMENSIONS, self.unroll, strict=True) if u > 1)
        return f"vectors of {self.vector}, pipelined {self.pipelined}, body {body or '1'} x {self.taps}"

    def to_json(self) -> dict[str, Any]:
        """Return the loop as the JSON object of a result file."""
        unroll = dict(zip(DIMENSIONS, self.unroll, strict=True))
        return {"vector": self.vector, "pipelined": self.pipelined, "unroll": unroll, "taps": self.taps}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None, field: str = "plan.inner_loop") -> InnerLoop:
        """Read that object.

        Raises
        ------
        InputError
            Where a key is missing or unknown, or a value is none of those that it can have.
        """
        keys = {"vector", "pipelined", "unroll", "taps"}
        if not isinstance(data, dict) or set(data) != keys:
            raise InputError(field, data, f"must be an object with {', '.join(sorted(keys))}", file)
        for key in ("vector", "pipelined"):
            if not isinstance(data[key], str) or data[key] not in tuple(DIMENSIONS):
                raise InputError(
                    f"{field}.{key}", data[key], f"must be one of: {', '.join(DIMENSIONS)}", file
                )
        unroll = data["unroll"]
        sized = isinstance(unroll, dict) and set(unroll) == set(DIMENSIONS)
        if not sized or not are_sizes(unroll.values(), 4096):
            limit = f"must give an integer from 1 to 4096 for each of {DIMENSIONS}"
            raise InputError(f"{field}.unroll", unroll, limit, file)
        if data["taps"] not in TAPS:
            raise InputError(f"{field}.taps", data["taps"], f"must be one of: {', '.join(TAPS)}", file)
        n, c, y, x, k = (unroll[d] for d in DIMENSIONS)
        return cls(data["vector"], data["pipelined"], (n, c, y, x, k), data["taps"])


@dataclass(frozen=True)
class LoopCosts:
    """What one or many inner loops cost on a tile; shapes (loops,), or integers of one.

    Attributes
    ----------
    cycles
        Of the loop nest, without start and end of its outputs.
    interval, latency
        Cycles from one iteration's beginning to the next one's, and from its first load to its last store.
    entries, iterations
        How often the pipelined loop is entered, and its iterations.
    macs
        Multiply-accumulates of vectors, those of padded iterations among them.
    operands, unaligned
        Vector loads of inputs and weights, and how many of them only alignment takes.
    sums
        Vector loads and stores of sums.
    spills
        Vector loads of operands that had no register.
    live, spilled
        Registers that an iteration needs, and vectors among them that have none.
    least_registers
        Those of `live` that cannot be spilled: sums, and operands that the iteration itself loads.
    start_cycles, start_transfers, end_cycles, end_transfers
        What sets all outputs of the tile to their biases, and what scales and rounds them.
    fits
        Whether all that cannot be spilled has a register, and the body is within `unrolled_macs`.
    """

    cycles: Any
    interval: Any
    latency: Any
    entries: Any
    iterations: Any
    macs: Any
    operands: Any
    unaligned: Any
    sums: Any
    spills: Any
    live: Any
    spilled: Any
    least_registers: Any
    start_cycles: Any
    start_transfers: Any
    end_cycles: Any
    end_transfers: Any
    fits: Any

    @property
    def transfers(self) -> Any:
        """Vector loads and stores of the loop nest."""
        return self.operands + self.sums + self.spills

    def total(self, *, first: bool = True, last: bool = True) -> tuple[Any, Any]:
        """Return cycles and vector transfers of a tile.

        Parameters
        ----------
        first, last
            Whether its input maps are the first and the last of its outputs.
        """
        cycles = self.cycles + first * self.start_cycles + last * self.end_cycles
        transfers = self.transfers + first * self.start_transfers + last * self.end_transfers
        return cycles, transfers

    def of(self, number: int) -> LoopCosts:
        """Return those of one loop."""
        parts = {each.name: np.ravel(getattr(self, each.name)) for each in fields(self)}
        return LoopCosts(
            **{name: value[number if len(value) > 1 else 0].item() for name, value in parts.items()}
        )


def loop_costs(unit: VectorUnit, work: TileWork, loop: InnerLoop) -> LoopCosts:
    """Return what an inner loop costs on a tile.

    A body larger than the tile is cut to it, so that tiles at the edge of a layer can share a loop.
    """
    sizes = extents(unit, work, loop.vector)
    unroll = [np.array([min(u, size)]) for u, size in zip(loop.unroll, sizes, strict=True)]
    return costs_of_bodies(unit, work, loop.vector, loop.pipelined, loop.taps, unroll).of(0)


def extents(unit: VectorUnit, work: TileWork, vector: str) -> tuple[int, ...]:
    """Return a tile's sizes, in vectors along the vectorised dimension."""
    lanes = unit.lanes
    return tuple(
        -(-size // lanes) if d == vector else size for d, size in zip(DIMENSIONS, work.sizes, strict=True)
    )


def body_taps(kernel: tuple[int, int], taps: str) -> tuple[int, int]:
    """Return the kernel rows and columns in the body."""
    return {"kernel": kernel, "row": (1, kernel[1]), "tap": (1, 1)}[taps]


@lru_cache(maxsize=65536)
def lines_met(unroll: int, taps: int, stride: int, dilation: int) -> tuple[int, int]:
    """Return the input lines that some output lines meet, and those of them the iteration before did not."""
    met = {line * stride + tap * dilation for line in range(unroll) for tap in range(taps)}
    return len(met), len(met - {line - unroll * stride for line in met})


@dataclass(frozen=True)
class _Operand:
    """Vectors of an operand that the body reads.

    Attributes
    ----------
    each
        In every iteration, all of which must have registers.
    fresh
        Loaded in every iteration; the others stay from the one before, or from before the loop.
    unaligned
        Share of the loads, as a fraction, that only alignment takes.
    shuffles
        In every iteration.
    """

    each: Counts
    fresh: Counts
    unaligned: tuple[int, int] = (0, 1)
    shuffles: Any = 0


def _inputs(
    unit: VectorUnit, work: TileWork, vector: str, pipelined: str, body: tuple[int, int], unroll: list[Counts]
) -> _Operand:
    """Return the vectors of inputs; none where output maps are the lanes, since inputs are then scalars."""
    if vector == "c":
        none = np.zeros_like(unroll[0])
        return _Operand(none, none)
    images, _, rows, columns, maps = unroll
    lines, unaligned, shuffles = images * maps, (0, 1), 0
    each = new = lines
    for axis, (name, blocks) in enumerate((("y", rows), ("x", columns))):
        stride, dilation, taps = work.stride[axis], work.dilation[axis], body[axis]
        if name == vector:
            # (C3): the elements under all taps of a vector of outputs, from an unaligned address on.
            size = work.sizes[DIMENSIONS.index(name)]
            span = (min(unit.lanes, size) - 1) * stride + (taps - 1) * dilation + 1
            loads = -(-span // unit.lanes) + 1
            each, new = each * blocks * loads, new * blocks * loads
            unaligned, shuffles = (1, loads), taps * (loads - 1)
            across = blocks
            continue
        table = [lines_met(block, taps, stride, dilation) for block in range(1, int(blocks.max()) + 1)]
        met, begun = (np.array(column)[blocks - 1] for column in zip(*table, strict=True))
        if name == pipelined:
            each, new = each * met, new * begun
        else:
            each, new = each * met, new * met
        other = met
    if shuffles:
        shuffles = lines * other * across * shuffles
    if pipelined == "c":
        new = np.zeros_like(each)
    return _Operand(each, new, unaligned, shuffles)


def _weights(vector: str, pipelined: str, body: tuple[int, int], unroll: list[Counts]) -> _Operand:
    """Return the vectors of weights, which are scalars where images, rows or columns are the lanes."""
    each = unroll[1] * unroll[4] * (body[0] * body[1] if vector in "ck" else 0)
    return _Operand(each, each if pipelined in "ck" else np.zeros_like(each))


def costs_of_bodies(
    unit: VectorUnit, work: TileWork, vector: str, pipelined: str, taps: str, unroll: list[Counts]
) -> LoopCosts:
    """Return what loops cost that differ in their bodies; equations (C1) to (C12) of docs/dsp-compute.md.

    Parameters
    ----------
    unroll : int, five of shape (loops,)
        At most the tile's sizes.
    """
    sizes, body = extents(unit, work, vector), body_taps(work.kernel, taps)
    trips = [-(-size // each) for size, each in zip(sizes, unroll, strict=True)]
    iterations = trips[DIMENSIONS.index(pipelined)]
    around = work.kernel[0] * work.kernel[1] // (body[0] * body[1])
    entries = work.groups * around * np.prod(trips, axis=0) // iterations  # (C1)
    sums = unroll[0] * unroll[1] * unroll[2] * unroll[3]
    chain = unroll[4] * body[0] * body[1]
    macs = sums * chain  # (C2)
    inputs = _inputs(unit, work, vector, pipelined, body, unroll)
    weights = _weights(vector, pipelined, body, unroll)
    fresh, each = inputs.fresh + weights.fresh, inputs.each + weights.each
    kept = unit.sums == "kept" and pipelined == "k"
    moved = 0 * sums if kept else sums  # loaded, and stored, in every iteration
    turn = -(-sums // unit.mac_slots)
    multiplied = (chain - 1) * np.maximum(turn, unit.mac_latency) + turn - 1 + unit.mac_latency
    shuffled = unit.shuffle_latency * (np.asarray(inputs.shuffles) > 0)
    latency = unit.load_latency + shuffled + multiplied + (0 if kept else unit.store_latency)  # (C5)
    again = chain * unit.mac_latency + (0 if kept else unit.load_latency + unit.store_latency)
    recurrence = again if pipelined == "k" else 0 * again  # (C6)

    def interval(spilled: Any) -> Any:
        """Return the initiation interval (C7)."""
        loads = fresh + moved + spilled
        read = macs * (3 if vector == "k" else 2) + moved + 2 * inputs.shuffles
        uses = (
            (macs, unit.mac_slots),
            (loads + moved, unit.memory_slots),
            (inputs.shuffles, unit.shuffle_slots),
            (read, unit.read_ports),
            (macs + loads + inputs.shuffles, unit.write_ports),
        )
        return np.maximum.reduce([recurrence, *(-(-np.asarray(n) // slots) + 0 * macs for n, slots in uses)])

    copies = 1 if pipelined == "k" else -(-latency // interval(0))
    live = each + sums * copies  # (C8)
    spilled, least = np.maximum(live - unit.registers, 0), live - (each - fresh)
    period = interval(spilled)
    longest = np.maximum(latency, period)
    before = each - fresh + (sums if kept else 0)
    after = -(-sums // unit.memory_slots) + unit.store_latency if kept else 0
    run = -(-before // unit.memory_slots) + (iterations - 1) * period + longest + after  # (C9)
    if unit.instruction_cache is not None:
        length = -(-before // unit.memory_slots) + 2 * longest - period  # prologue, kernel, epilogue
        run = run + unit.refill_cycles * length * (length > unit.instruction_cache)
    loaded = each - fresh + iterations * fresh
    aligned = (inputs.each - inputs.fresh + iterations * inputs.fresh) // inputs.unaligned[1]
    return LoopCosts(
        cycles=entries * run,
        interval=period,
        latency=latency,
        entries=entries,
        iterations=iterations,
        macs=entries * iterations * macs,
        operands=entries * loaded,
        unaligned=entries * aligned * inputs.unaligned[0],
        sums=entries * (2 * sums if kept else 2 * iterations * sums),
        spills=entries * (iterations - 1) * spilled,
        live=live,
        spilled=spilled,
        least_registers=least,
        **costs_of_ends(unit, work, vector),
        fits=(least <= unit.registers) & (macs <= unit.unrolled_macs),
    )


def costs_of_ends(unit: VectorUnit, work: TileWork, vector: str) -> dict[str, int]:
    """Return what start and end of the tile's outputs cost, (C10) and (C11)."""
    images, maps, rows, columns, _ = extents(unit, work, vector)
    outputs = work.groups * images * maps * rows * columns
    biases = work.groups * maps if vector == "c" else 0
    steps = (unit.lanes - 1).bit_length() if vector == "k" else 0  # of the tree that adds lanes up
    ways = unit.load_latency + unit.store_latency
    busiest = max(
        -(-2 * outputs // unit.memory_slots),
        -(-(steps + 1) * outputs // unit.mac_slots),
        -(-steps * outputs // unit.shuffle_slots),
    )
    return {
        "start_transfers": biases + outputs,
        "start_cycles": -(-(biases + outputs) // unit.memory_slots) + ways,
        "end_transfers": 2 * outputs,
        "end_cycles": busiest + ways + steps * unit.shuffle_latency + (steps + 1) * unit.mac_latency,
    }
