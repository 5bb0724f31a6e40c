"""Attention as one step: what it moves at each level, what fits, what it costs; see docs/hierarchy.md."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import READ, WRITTEN
from tilewright.spec.layer import Layer
from tilewright.tiling.attention.blocks import Product, Rows, Walk, held
from tilewright.tiling.attention.plan import Blocks
from tilewright.tiling.hierarchy.cost import (
    KINDS,
    TICKS,
    Cost,
    attojoules,
    cost_of,
    prices,
    shown,
    ticks_per_bit,
    transfer_ticks,
)
from tilewright.tiling.hierarchy.level import Level
from tilewright.tiling.hierarchy.loops import OPERANDS
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.operations.operation import Attention

Moved = dict[str, NDArray[np.int64]]
"""Elements by memory, shape (kinds, 2): of each of `KINDS`, what is read and what is written."""

INPUT, WEIGHTS, OUTPUT, PARTIAL = range(len(KINDS))

KIND_OF = {"queries": INPUT, "keys": WEIGHTS, "values": WEIGHTS, "context": OUTPUT}
"""What queries, keys, values and context are as operands of products."""


class Executed(NamedTuple):
    """What a product of one size costs on the levels within.

    Attributes
    ----------
    moved
        Of one product.
    cycles, energy, macs
        Of one product.
    """

    moved: Moved
    cycles: int
    energy: int
    macs: int


class Within(HierarchyMachine):
    """The levels from a memory inwards, that weights pass by.

    Attributes
    ----------
    passed_from
        Where they come from.
    """

    passed_from: Level

    @property
    def beyond(self) -> Level:
        """The memory from which weights come."""
        return self.passed_from


@lru_cache(maxsize=256)
def passes_by(machine: HierarchyMachine, level: str) -> bool:
    """Whether keys and values pass a level by, on their way from the outermost memory to one further in."""
    return all(
        "weights" not in (*each.holds, *each.may_hold) for each in machine.levels if each.name == level
    )


@lru_cache(maxsize=256)
def within(machine: HierarchyMachine, level: str, *, sums: bool) -> HierarchyMachine:
    """Return the levels from a memory inwards, as a machine on which a product of blocks is done.

    All that the product reads is in the memory, but for keys and values that pass it by, and what it gives
    stays there.

    Parameters
    ----------
    sums
        Whether what it gives is but a part of sums, so that it has their width.
    """
    place = [each.name for each in machine.levels].index(level)
    first = Level(
        **{
            name: value
            for name, value in machine.levels[place]
            if name not in ("capacity_bytes", "holds", "may_hold", "halo", "double_buffering", "uneven")
        },
        holds=OPERANDS,
    )
    bits = machine.bits.with_(output=machine.bits.partial) if sums else machine.bits
    told: dict[str, Any] = {
        "clock_mhz": machine.clock_mhz,
        "macs_per_cycle": machine.macs_per_cycle,
        "mac_pj": machine.mac_pj,
        "bits": bits,
        "levels": (first, *machine.levels[place + 1 :]),
    }
    if passes_by(machine, level):
        return Within(**told, passed_from=machine.levels[0])
    return HierarchyMachine(**told)


def layer_of(attention: Attention, rows: int, keys: int, *, scores: bool) -> Layer:
    """Return a product of blocks as the convolution of 1x1 that it is."""
    depth, columns = (attention.depth, keys) if scores else (keys, attention.values)
    return Layer(input=(depth, 1, rows), kernels=columns, kernel=(1, 1))


@lru_cache(maxsize=1 << 14)
def executed(layer: Layer, machine: HierarchyMachine, plan: HierarchyPlan) -> Executed:
    """Return what a product costs on the levels within."""
    nest = Nest(layer, machine, plan)
    cost = cost_of(nest)
    return Executed(_moved(nest, cost), cost.cycles, cost.energy, layer.macs)


def _moved(nest: Nest, cost: Cost) -> Moved:
    found = _nothing(nest.machine)
    for _, level, counts in cost.by_memory(cost.tally.every):
        moved = found.setdefault(level.name, np.zeros((len(KINDS), 2), np.int64))
        for way in (READ, WRITTEN):
            moved[:, way] += counts[:, way].sum(axis=0)
    return found


def _nothing(machine: HierarchyMachine) -> Moved:
    return {level.name: np.zeros((len(KINDS), 2), np.int64) for level in machine.levels if not level.fanout}


def levels_for(machine: HierarchyMachine) -> list[Level]:
    """Return the memories at which scores can stay, outermost first.

    They lie outside of all arrays, hold or may hold every operand in one capacity, or all but weights, and
    the vector unit works there or further in. There is a memory within for the products. Weights that pass by
    come from the outermost memory.
    """
    if machine.vector_ops_per_cycle is None and machine.host is not None:
        return []  # which computes the softmax in a memory of its own
    found, weights = list[Level](), False
    for level in machine.levels[:-1]:
        if level.fanout:
            break
        held = {*level.holds, *level.may_hold}
        passed = "weights" not in held and not weights
        if isinstance(level.capacity_bytes, int) and (held == set(OPERANDS) or (passed and len(held) == 2)):
            found.append(level)
        weights = weights or (level is not machine.levels[0] and "weights" in held)
        if machine.vector_ops_per_cycle is not None and level.name == machine.vector_memory.name:
            break
    return found


def held_widths(machine: HierarchyMachine, level: Level) -> dict[str, int]:
    """Return the bits that a level reserves for an element; what is moved from outside is there in copies."""
    bits, copies = machine.bits, level.copies
    there = 0 if passes_by(machine, level.name) else copies * bits.weights
    return {
        "queries": copies * bits.input,
        "keys": there,
        "values": there,
        "context": copies * bits.partial,
        "scores": max(bits.input, bits.output, bits.partial),
        "block": bits.partial,
        "statistics": bits.partial,
    }


class Room:
    """What a level has room for.

    Attributes
    ----------
    bits
        All that it holds.
    widths
        See `held_widths`.
    longest
        Most scores of a row that fit, with as many weights, where the vector unit works; None where it works
        on the level itself, or there is none.
    """

    def __init__(self, machine: HierarchyMachine, level: Level) -> None:
        assert isinstance(level.capacity_bytes, int)
        self.bits, self.widths = 8 * level.capacity_bytes, held_widths(machine, level)
        self.longest: int | None = None
        if machine.vector_ops_per_cycle is not None and machine.vector_memory.name != level.name:
            self.longest = _longest_row(machine, machine.vector_memory)

    def fits(self, attention: Attention, seen: Rows, blocks: Blocks) -> bool:
        """Whether blocks fit."""
        needed = sum(size * self.widths[name] for name, size in held(attention, seen, blocks).items())
        wide = seen.most if blocks.order == "rows" else blocks.keys
        return needed <= self.bits and (self.longest is None or wide <= self.longest)


def _longest_row(machine: HierarchyMachine, unit: Level) -> int:
    widths, room = {"input": machine.bits.input, "output": machine.bits.output}, unit.capacity_bytes
    if isinstance(room, int):
        return 8 * room // (unit.copies * sum(widths.values()))
    return min(int(8 * getattr(room, name) // (unit.copies * width)) for name, width in widths.items())


class Flow(NamedTuple):
    """What goes on in a step, in all.

    Attributes
    ----------
    brought
        Elements of queries, keys and values that come to the level, and of context that leaves it.
    passes
        What the vector unit reads and writes: (kind, elements read, elements written).
    work
        Its operations.
    products
        How often there is a product of each size.
    """

    brought: Mapping[str, int]
    passes: Sequence[tuple[int, int, int]]
    work: int
    products: Mapping[Product, int]


def flow_of(machine: HierarchyMachine, walk: Walk) -> Flow:
    """Return what goes on in a step, by closed forms."""
    attention, blocks = walk.attention, walk.blocks
    brought = {
        "queries": attention.rows * attention.depth,
        "keys": walk.brought("keys") * attention.depth,
        "values": walk.brought("values") * attention.values,
        "context": attention.rows * attention.values,
    }
    if passes_by(machine, blocks.level):
        brought |= {"keys": 0, "values": 0}
    if machine.vector_ops_per_cycle is None:
        return Flow(brought, (), 0, walk.products)
    values, merged, divided = attention.values, walk.merged, walk.divided
    passes = [(INPUT, walk.scores, 0), (OUTPUT, 0, walk.scores)]
    work = walk.scores * work_of_score(attention)
    if blocks.order == "rows":
        passes += [(PARTIAL, 2 * merged * values, merged * values)]
        return Flow(brought, passes, work + merged * values, walk.products)
    passes += [
        (PARTIAL, merged * (2 * values + 2), merged * (values + 2) + 2 * divided),
        (PARTIAL, divided * (values + 1), 0),
        (OUTPUT, 0, divided * values),
    ]
    return Flow(brought, passes, work + merged * (2 * values + 1), walk.products)


def work_of_score(attention: Attention) -> int:
    """Return the operations of the vector unit for each score: those of softmax and what is before it."""
    done = [each for place, each in enumerate(attention.between) if place != attention.mask]
    return sum(each.work // (each.batch * prod(each.output)) for each in done)


class Frame:
    """A step without its products: what goes on at its level and further out, and in the vector unit.

    Parameters
    ----------
    flow
        What goes on, by default what closed forms say.
    """

    def __init__(self, machine: HierarchyMachine, walk: Walk, flow: Flow | None = None) -> None:
        self.machine, self.walk, self.attention = machine, walk, walk.attention
        self._flow = flow
        memories = [level for level in machine.levels if not level.fanout]
        names = [level.name for level in memories]
        self.place = names.index(walk.blocks.level)
        self.level = memories[self.place]
        self.outside, self.memories = memories[: self.place], {level.name: level for level in memories}
        self.reached = [self.level]
        if machine.vector_ops_per_cycle is not None:
            own = names.index(machine.vector_memory.name)
            self.reached = memories[self.place : own + 1]
        self.widths = [int(getattr(machine.bits, kind)) for kind in KINDS]

    # What is moved --------------------------------------------------------------------------------------

    @cached_property
    def flow(self) -> Flow:
        """What goes on."""
        return flow_of(self.machine, self.walk) if self._flow is None else self._flow

    @property
    def transfers(self) -> list[tuple[int, int, bool]]:
        """What comes to the level and leaves it: (kind, elements, whether it comes)."""
        return [(KIND_OF[name], elements, name != "context") for name, elements in self.flow.brought.items()]

    @cached_property
    def moved_outside(self) -> Moved:
        """What all memories move as operands come to the level and the context leaves it."""
        found = _nothing(self.machine)
        for kind, elements, comes in self.transfers:
            path = self._path(kind)
            for place, level in enumerate(path):
                outermost, here = place == 0, place == len(path) - 1
                if comes:
                    found[level.name][kind] += (0 if here else elements, 0 if outermost else elements)
                else:
                    found[level.name][kind] += (0 if outermost else elements, 0 if here else elements)
        return found

    @cached_property
    def moved_by_unit(self) -> Moved:
        """What memories from the level inwards move for the vector unit."""
        found = _nothing(self.machine)
        for kind, read, written in self.flow.passes:
            path = self._to_unit(kind)
            for place, level in enumerate(path):
                found[level.name][kind] += (
                    read + (written if place else 0),
                    written + (read if place else 0),
                )
        return found

    def _path(self, kind: int) -> list[Level]:
        """Return the memories that pass an operand on, from the outermost one to the level."""
        operand = OPERANDS[min(kind, OUTPUT)]
        return [*(level for level in self.outside if operand in level.holds), self.level]

    def _to_unit(self, kind: int) -> list[Level]:
        """Return the memories from the level to the one that the vector unit works on."""
        operand = OPERANDS[min(kind, OUTPUT)]
        inner = self.reached[1:]
        return [self.level, *(level for level in inner if operand in level.holds)]

    # What fits ------------------------------------------------------------------------------------------

    @cached_property
    def room(self) -> Room:
        """What there is room for."""
        return Room(self.machine, self.level)

    def held_bits(self) -> dict[str, int]:
        """Return the bits that the level reserves."""
        return {name: size * self.room.widths[name] for name, size in self.walk.held.items()}

    def overflow(self) -> str | None:
        """Say what does not fit, or None."""
        room, name, wide = self.room, self.level.name, self.walk.wide
        needed = sum(self.held_bits().values())
        if needed > room.bits:
            return f"memory overflow: {name} needs {-(-needed // 8)} bytes, it has {room.bits // 8}"
        if room.longest is not None and room.longest < wide:
            unit = self.reached[-1].name
            return (
                f"memory overflow: a row has {wide} scores, and {unit}, on which the vector unit works, "
                f"holds {room.longest}"
            )
        return None

    # What it costs --------------------------------------------------------------------------------------

    def bits(self, amounts: NDArray[np.int64], way: int) -> int:
        """Return the bits of what a memory reads or writes."""
        return sum(int(amounts[kind, way]) * self.widths[kind] for kind in range(len(KINDS)))

    def port(self, level: Level, amounts: NDArray[np.int64]) -> int:
        """Return the ticks of the busier port of a memory."""
        ticks = ticks_per_bit(level)
        each = [self.bits(amounts, way) * ticks[way] for way in (READ, WRITTEN)]
        return sum(each) if level.bytes_per_cycle is not None else max(each)

    @cached_property
    def waiting(self) -> int:
        """Ticks of the transfers that all else waits for: to and from memories without double buffering."""
        ticks = 0
        for kind, elements, comes in self.transfers:
            for parent, child in pairwise(self._path(kind)):
                if not child.double_buffering:
                    ticks += elements * self.widths[kind] * transfer_ticks(parent, child)[0 if comes else 1]
        return ticks

    @cached_property
    def vector_ticks(self) -> int:
        """Ticks of the vector unit, and of what it waits for."""
        if self.machine.vector_ops_per_cycle is None:
            return 0
        ticks = -(-self.flow.work // self.machine.vector_ops_per_cycle) * TICKS
        for kind, read, written in self.flow.passes:
            for parent, child in pairwise(self._to_unit(kind)):
                if not child.double_buffering:
                    inwards, outwards = transfer_ticks(parent, child)
                    ticks += self.widths[kind] * (read * inwards + written * outwards)
        ports = (self.port(self.memories[name], each) for name, each in self.moved_by_unit.items())
        return max(ticks, *ports)

    @cached_property
    def energy(self) -> int:
        """Attojoules of all but the products."""
        machine, total = self.machine, 0
        for moved in (self.moved_outside, self.moved_by_unit):
            total += energy_of(self, moved)
        price = machine.mac_pj if machine.vector_op_pj is None else machine.vector_op_pj
        return total + self.flow.work * attojoules(price, 1)

    def accesses(self, level: str) -> int:
        """Return what a memory reads and writes but for products."""
        return int(self.moved_outside[level].sum() + self.moved_by_unit[level].sum())

    def ports(self, products: Moved) -> dict[str, int]:
        """Return the ticks of the busier port of the level, and of each memory outside, with products."""
        found = {}
        for level in (*self.outside, self.level):
            moved = self.moved_outside[level.name] + self.moved_by_unit[level.name]
            if level.name in products:
                moved = moved + products[level.name]
            found[level.name] = self.port(level, moved)
        return found

    def cycles(self, inside: int, products: Moved) -> int:
        """Return the cycles of a step.

        Products and the vector unit take turns. What comes to the level and leaves it is moved meanwhile,
        where it is double-buffered.

        Parameters
        ----------
        inside
            Cycles of all products.
        products
            What they move at the level and further out.
        """
        ticks = inside * TICKS + self.vector_ticks + self.waiting
        return -(-max(ticks, *self.ports(products).values()) // TICKS)


def energy_of(frame: Frame, moved: Mapping[str, NDArray[np.int64]]) -> int:
    """Return the attojoules of what memories move."""
    total = 0
    for name, amounts in moved.items():
        for way, price in zip((READ, WRITTEN), prices(frame.memories[name]), strict=True):
            total += frame.bits(amounts, way) * price
    return total


class Step(Frame):
    """A step with its products.

    Parameters
    ----------
    scores, context
        The plans of products of scores, by `Walk.sizes`, and of context, by `Walk.products`.
    """

    def __init__(
        self,
        machine: HierarchyMachine,
        walk: Walk,
        scores: Sequence[HierarchyPlan],
        context: Sequence[HierarchyPlan],
        flow: Flow | None = None,
    ) -> None:
        super().__init__(machine, walk, flow)
        self.scores = dict(zip(walk.sizes, scores, strict=True))
        self.context = dict(zip(walk.products, context, strict=True))

    def nests(self) -> Iterable[tuple[str, Product, Nest]]:
        """Yield the nest of each product of each size."""
        level = self.level.name
        plain = within(self.machine, level, sums=False)
        for product in self.flow.products:
            rows, keys, alone = product
            layer = layer_of(self.attention, rows, keys, scores=True)
            yield "scores", product, Nest(layer, plain, self.scores[rows, keys])
            layer = layer_of(self.attention, rows, keys, scores=False)
            machine = within(self.machine, level, sums=not alone)
            yield "context", product, Nest(layer, machine, self.context[product])

    @cached_property
    def by_products(self) -> Executed:
        """What all products cost together; parts of contexts are partial sums."""
        total, cycles, energy, macs = _nothing(self.machine), 0, 0, 0
        for name, product, nest in self.nests():
            one, often = executed(nest.layer, nest.given, nest.plan), self.flow.products[product]
            for level, amounts in one.moved.items():
                told = amounts.copy()
                if name == "context" and not product.alone:
                    told[PARTIAL] += told[OUTPUT]
                    told[OUTPUT] = 0
                total[level] += often * told
            cycles, energy = cycles + often * one.cycles, energy + often * one.energy
            macs += often * one.macs
        return Executed(total, cycles, energy, macs)

    @property
    def loaded(self) -> dict[str, int]:
        """Elements of queries, keys and values that come from outside, to the level or past it."""
        found = {name: count for name, count in self.flow.brought.items() if name != "context"}
        if passes_by(self.machine, self.level.name):
            outermost = self.machine.levels[0].name
            for name, product, nest in self.nests():
                one = executed(nest.layer, nest.given, nest.plan).moved[outermost][WEIGHTS, READ]
                found["keys" if name == "scores" else "values"] += self.flow.products[product] * int(one)
        return found

    @property
    def moved(self) -> Moved:
        """What each memory moves in all."""
        parts = (self.moved_outside, self.moved_by_unit, self.by_products.moved)
        return {name: sum(part[name] for part in parts) for name in self.memories}  # type: ignore[misc]

    def costs(self, level: str) -> dict[str, int]:
        """Return what the step costs, by objective, and the bits that the outermost memory moves."""
        moved, products = self.moved, self.by_products
        outermost = moved[next(iter(self.memories))]
        energy = self.energy + products.energy
        cycles = self.cycles(products.cycles, products.moved)
        return {
            "traffic": self.bits(outermost, READ) + self.bits(outermost, WRITTEN),
            "accesses": int(moved[level].sum()),
            "cycles": cycles,
            "energy": energy,
            "edp": shown("edp", energy * cycles),
        }

    def limited_by(self) -> str:
        """Name what the time is spent on, most of all."""
        products = self.by_products
        ports = self.ports(products.moved)
        inside = products.cycles * TICKS + self.vector_ticks + self.waiting
        busiest = max(ports, key=lambda name: ports[name])
        if ports[busiest] > inside:
            return f"port of {busiest}"
        shares = {
            "products": products.cycles * TICKS,
            "vector unit": self.vector_ticks,
            f"transfers of {self.level.name}": self.waiting,
        }
        return max(shares, key=lambda name: shares[name])
