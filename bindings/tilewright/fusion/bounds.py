"""A bound on every plan that needs no search: what has to be computed, and what has to be moved.

Buffers and limits may leave an operation no tile that fits. Then it can only be executed in a group, where
another buffer holds what it reads, and where no group with it fits there is no plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bounds import Bound
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import fits, least_buffers
from tilewright.fusion.group.schedule_kernel import Ints
from tilewright.fusion.host import host_cycles
from tilewright.fusion.machine import BUFFERS, CONV, HOST, LOAD, MISC, POOL, SAVE
from tilewright.fusion.problem import FusionLimits, Problem
from tilewright.spec.graph import OWN, Operation
from tilewright.spec.layer import Layer, Window


class _Lines(NamedTuple):
    """Rows and columns of a map; all their crossings are needed, perhaps others as well."""

    rows: NDArray[np.bool_]
    columns: NDArray[np.bool_]

    @property
    def positions(self) -> int:
        """Number of crossings."""
        return int(self.rows.sum()) * int(self.columns.sum())


def best_bound(problem: Problem) -> Bound:
    """Return the compulsory bound: what is needed is computed once, and moved once if it is outside.

    A map is outside if it enters or leaves the network, or if the host reads or computes it. An engine is at
    work for its own operations alone, whatever the tiles; the issue of one group comes before. Lines of a map
    that strides skip may never be computed. What the host takes comes on top, whatever the plan.
    """
    machine = problem.machine
    loads = saves = macs = hosted = 0
    work = dict.fromkeys((CONV, POOL, MISC), 0)
    outside: dict[int, Ints] = {}  # of each channel of a map, positions that are loaded
    for op, lines in zip(problem.ops, _needed(problem), strict=True):
        if engine_of(op) == HOST:
            hosted += host_cycles(problem, op)
            continue
        loads += _parameters(problem, op)
        for source, channels, *_ in op.accesses:
            if source == OWN or engine_of(problem.ops[source]) == HOST:
                whole = np.zeros(_shape(problem, source)[0], dtype=np.int64)
                read = outside.setdefault(source, whole)[slice(*(channels or (None,)))]
                np.maximum(read, _read(problem, op, source, lines).positions, out=read)
        if _leaves(problem, op):
            saves += machine.arrays * prod(op.spec.output)
        work[engine_of(op)] += _work(problem, op, lines)
        if isinstance(op.spec, Layer):
            macs += _values(problem, op, lines)
    loads += machine.arrays * int(sum(read.sum() for read in outside.values()))
    traffic = (loads + saves) * machine.element_bytes
    cycles = (
        hosted
        + machine.issue_cycles
        + max(*work.values(), machine.transfer_cycles(LOAD, loads), machine.transfer_cycles(SAVE, saves))
    )
    value = {
        "cycles": cycles,
        "traffic": traffic,
        # Each group's energy is rounded down, twice.
        "energy": max(0, int(machine.nanojoules(traffic, macs, cycles)) - 2 * len(problem.ops)),
        "memory": 0,
    }[problem.minimise]
    name, lonely = "compulsory work and traffic bound", too_large_alone(problem)
    nowhere = next((number for number in lonely if not _in_group(problem, number)), None)
    if nowhere is not None:
        lonely.sort(key=lambda number: number != nowhere)
        return Bound(name, value, len(problem.ops), describe_lack(problem, lonely, "alone or in a group"))
    if lonely:
        name += f" ({describe_lack(problem, lonely)})"
    return Bound(name, value, len(problem.ops))


def too_large_alone(problem: Problem) -> list[int]:
    """Return the numbers of the operations that alone have no tile which fits and which the limits allow."""
    return [op.number for op in problem.ops if engine_of(op) != HOST and not fits(problem, (op.number,))]


def _in_group(problem: Problem, number: int) -> bool:
    """Whether an operation is in some group that fits."""
    groups = problem.allowed.items()
    return any(fits(problem, nodes, not tiled) for nodes, tiled in groups if number in nodes)


def describe_lack(problem: Problem, numbers: Sequence[int], where: str = "alone") -> str:
    """Say that the first of some operations has no tile that fits, and what would be enough for all."""
    halo, machine = problem.limits.halo, problem.machine
    free = problem.model_copy(update={"limits": FusionLimits()})
    limited = halo != "any" and all(fits(free, (number,)) for number in numbers)
    needed: dict[str, int] = {}
    for number in numbers:
        for name, size in least_buffers(problem, (number,)).items():
            needed[name] = max(size, needed.get(name, 0))
    sizes = " and ".join(
        f"machine.{name}_bytes = {needed[name]} instead of {machine.capacity(name)}"
        for name in BUFFERS
        if name in needed
    )
    name = problem.ops[numbers[0]].name
    told = f"limits.halo = '{halo}' leaves operation {name} no" if limited else f"operation {name} has no"
    otherwise = ", or halo = 'any'" if limited else ""
    return f"{told} tile that fits, {where}: {sizes} would be enough{otherwise}"


def _parameters(problem: Problem, op: Operation) -> int:
    """Return the parameters of an operation."""
    fused = problem.fused((op.number,))
    return op.spec.output[0] * fused.parameters(fused.loaded, (0, fused.summed(fused.loaded)))


def _values(problem: Problem, op: Operation, lines: _Lines) -> int:
    """Return the values that an operation takes for some lines of its output, MACs of a convolution."""
    fused = problem.fused((op.number,))
    return problem.machine.arrays * op.spec.output[0] * lines.positions * fused.operands(fused.loaded)


def _work(problem: Problem, op: Operation, lines: _Lines) -> int:
    """Return the least cycles in which an engine computes some lines of an operation's output."""
    machine, fused = problem.machine, problem.fused((op.number,))
    if not isinstance(op.spec, Layer):
        return -(-_values(problem, op, lines) // machine.operands_per_cycle)
    ins, outs, high = machine.conv_array
    depth, width = -(-fused.summed(fused.loaded) // ins), -(-op.spec.output[0] // outs)
    passes = depth * width * -(-int(lines.rows.sum()) // high)
    return passes * int(lines.columns.sum()) * prod(op.spec.kernel)


def _leaves(problem: Problem, op: Operation) -> bool:
    return op.leaves or any(engine_of(problem.ops[reader]) == HOST for reader in problem.consumers[op.number])


def _shape(problem: Problem, producer: int) -> tuple[int, int, int]:
    return problem.graph.own_input if producer < 0 else problem.ops[producer].spec.output


def _needed(problem: Problem) -> list[_Lines]:
    """Return, for each operation, needed lines of its output: all, or those that one reader needs."""
    needed: list[Any] = [None] * len(problem.ops)
    for op in reversed(problem.ops):
        _, height, width = op.spec.output
        every = _Lines(np.ones(height, np.bool_), np.ones(width, np.bool_))
        readers = [] if _leaves(problem, op) else problem.consumers[op.number]
        read = [_read(problem, problem.ops[reader], op.number, needed[reader]) for reader in readers]
        needed[op.number] = max(read, key=lambda lines: lines.positions, default=every)
    return needed


def _read(problem: Problem, op: Operation, producer: int, lines: _Lines) -> _Lines:
    """Return the lines of a map that some lines of an operation's output are computed from."""
    spec, shape = op.spec, _shape(problem, producer)[1:]
    assert isinstance(spec, Window)
    axes = []
    for axis, (needed, extent) in enumerate(zip(lines, shape, strict=True)):
        touched = np.zeros(extent, np.bool_)
        if spec.input[1 + axis] != extent:  # one value for all positions
            touched[:] = True
        else:
            places = spec.positions(bool(axis))[needed] - spec.padding[2 * axis]
            touched[places[(places >= 0) & (places < extent)]] = True
        axes.append(touched)
    return _Lines(*axes)
