"""Random hierarchies, layers and nests, and all plans of tiny ones."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from math import prod
from random import Random
from typing import Any

from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.loops import LETTERS, LOOPS, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import divisors
from tilewright.tiling.hierarchy.plan import HierarchyPlan

NPU_LIKE: dict[str, Any] = {
    "kind": "hierarchy",
    "mac_pj": 0.2,
    "vector_ops_per_cycle": 16,
    "vector_op_pj": 0.1,
    "vector_level": "scratchpad",
    "levels": [
        {"name": "dram", "read_pj_per_byte": 100.0, "write_pj_per_byte": 120.0, "bytes_per_cycle": 8.0},
        {
            "name": "scratchpad",
            "capacity_bytes": 262_144,
            "holds": ["input", "output"],
            "double_buffering": True,
            "read_pj_per_byte": 2.5,
            "bytes_per_cycle": 64.0,
        },
        {
            "name": "weight_buffer",
            "capacity_bytes": 65_536,
            "holds": ["weights"],
            "double_buffering": True,
            "read_pj_per_byte": 1.2,
            "bytes_per_cycle": 16.0,
        },
        {"name": "accumulators", "capacity_bytes": 16_384, "holds": ["output"], "read_pj_per_byte": 0.6},
        {
            "name": "pes",
            "fanout": [{"size": 16, "over": ["output_maps"]}, {"size": 16, "over": ["input_maps"]}],
        },
        {"name": "register", "capacity_bytes": 1, "holds": ["weights"]},
    ],
}
"""Scratchpads, accumulators and 256 PEs that keep weights."""

HELD = [
    *[["input", "weights", "output"]] * 3,
    ["weights"],
    ["output"],
    ["input"],
    ["input", "output"],
    ["weights", "output"],
]


def machine(
    rng: Random,
    *,
    roomy: bool = False,
    choosing: bool = False,
    sliding: bool = False,
    uneven: bool = False,
) -> HierarchyMachine:
    """Draw a machine with one to three memories on chip, arrays anywhere between, and everything priced.

    Where plans choose, memories have operands that they may hold; where tiles slide, some keep halos; with
    uneven tiles the first memory on chip has them.
    """

    def held(table: dict[str, Any]) -> list[str]:
        return [*table["holds"], *table.get("may_hold", [])]

    def memory(name: str) -> dict[str, Any]:
        table: dict[str, Any] = {"name": name, "read_pj_per_byte": rng.choice([0.5, 1, 2, 6, 50])}
        if name != "dram":
            table["holds"] = rng.choice(HELD)
            if choosing and rng.random() < 0.7:
                table["may_hold"] = rng.sample(table["holds"], rng.randint(1, min(2, len(table["holds"]))))
                table["holds"] = [operand for operand in table["holds"] if operand not in table["may_hold"]]
            table["double_buffering"] = rng.random() < 0.5
            if roomy:
                table["capacity_bytes"] = 1_000_000
            elif rng.random() < 0.5:
                table["capacity_bytes"] = {operand: rng.randint(2, 40) for operand in held(table)}
            else:
                table["capacity_bytes"] = rng.randint(6, 80)
        if rng.random() < 0.5:
            table["write_pj_per_byte"] = rng.choice([0.25, 1, 2, 6, 50])
        ports = rng.random()
        if ports < 0.4:
            table["bytes_per_cycle"] = rng.choice([0.5, 1, 2.4, 8])
        elif ports < 0.8:
            for way in ("read", "write"):
                if rng.random() < 0.7:
                    table[f"{way}_bytes_per_cycle"] = rng.choice([0.5, 1, 2.4, 8])
        return table

    levels = [memory("dram")]
    for number in range(rng.choice([1, 1, 2, 2, 3])):
        if rng.random() < 0.5:
            axes, free = [], list(LOOPS.values())
            rng.shuffle(free)
            for _ in range(rng.choice([1, 1, 2])):
                many = rng.randint(1, 4)
                axes.append({"size": rng.choice([2, 3, 4, 6]), "over": free[:many]})
                free = free[many:]
            levels.append({"name": f"array{number}", "fanout": axes})
        levels.append(memory(f"memory{number}"))
    output = rng.choice([8, 8, 16])
    for outer, inner in itertools.pairwise(levels if sliding else []):
        comes = "fanout" not in outer and "fanout" not in inner and "input" in outer.get("holds", ["input"])
        inner["halo"] = comes and "input" in inner["holds"] and rng.random() < 0.8
    if uneven and "fanout" not in levels[1]:
        levels[1]["uneven"] = len(held(levels[1])) > 1
    return HierarchyMachine(
        kind="hierarchy",
        levels=levels,
        macs_per_cycle=rng.choice([1, 1, 2]),
        mac_pj=rng.choice([None, 0.5]),
        bits={
            "input": rng.choice([4, 8]),
            "weights": 8,
            "output": output,
            "partial": rng.choice([output, output, 16, 24]),
        },
    )


def tight(rng: Random, *, uneven: bool = False, choosing: bool = False) -> HierarchyMachine:
    """Draw a machine with memories of a few bytes, often enough for complete outputs, not for sums."""
    levels: list[dict[str, Any]] = [{"name": "dram", "read_pj_per_byte": rng.choice([1, 6])}]
    for number in range(rng.choice([1, 2, 2, 3])):
        if rng.random() < 0.35:
            over = rng.sample(list(LOOPS.values()), rng.randint(1, 4))
            levels.append(
                {"name": f"array{number}", "fanout": [{"size": rng.choice([2, 3, 4]), "over": over}]}
            )
        held = list(rng.choice([*[["output"]] * 3, *HELD]))
        table: dict[str, Any] = {"name": f"memory{number}", "read_pj_per_byte": rng.choice([0.5, 1, 7])}
        table["double_buffering"] = rng.random() < 0.3
        each = {
            operand: rng.choice([1, 2, 3, 4, 6, 8, 9, 12]) << table["double_buffering"] for operand in held
        }
        table["capacity_bytes"] = each if rng.random() < 0.5 else sum(each.values())
        table["may_hold"] = [held.pop()] if choosing and held[1:] and rng.random() < 0.5 else []
        if rng.random() < 0.4:
            table["bytes_per_cycle"] = rng.choice([0.5, 1, 4])
        levels.append({**table, "holds": held})
    if uneven and "fanout" not in levels[1]:
        levels[1]["uneven"] = len([*levels[1]["holds"], *levels[1]["may_hold"]]) > 1
    bits = {"input": 8, "weights": 8, "output": 8, "partial": rng.choice([16, 24, 32])}
    return HierarchyMachine(kind="hierarchy", levels=levels, mac_pj=0.5, bits=bits)


def layer(rng: Random, most: int) -> Layer:
    """Draw a layer of at most so many MACs."""
    while True:
        groups = rng.choice([1, 1, 1, 2])
        try:
            found = Layer(
                input=(groups * rng.randint(1, 4), rng.randint(1, 6), rng.randint(1, 4)),
                kernels=groups * rng.randint(1, 4),
                kernel=(rng.randint(1, 3), rng.randint(1, 2)),
                stride=(rng.randint(1, 3), rng.randint(1, 2)),
                dilation=(rng.randint(1, 2), 1),
                groups=groups,
                batch=rng.choice([1, 1, 2]),
            )
        except InputError:
            continue
        if found.macs <= most:
            return found


def long_layer(rng: Random, most: int) -> Layer:
    """Draw a layer of at most so many MACs with few loops, which have more iterations."""
    longest = {"g": 3, "n": 5, "c": 13, "y": 13, "x": 9, "k": 13, "r": 5, "s": 5}
    while True:
        size = dict.fromkeys(LETTERS, 1)
        size |= {
            loop: rng.randint(2, longest[loop]) for loop in rng.sample(LETTERS, rng.choice([1, 2, 2, 3]))
        }
        stride, dilation = ((rng.randint(1, 4), rng.randint(1, 3)) for _ in range(2))
        plane = [
            (size[out] - 1) * step + (size[tap] - 1) * apart + 1
            for out, tap, step, apart in zip("yx", "rs", stride, dilation, strict=True)
        ]
        if prod(size.values()) <= most:
            return Layer(
                input=(size["g"] * size["k"], *plane),
                kernels=size["g"] * size["c"],
                kernel=(size["r"], size["s"]),
                stride=stride,
                dilation=dilation,
                groups=size["g"],
                batch=size["n"],
            )


def overlapping(rng: Random, most: int) -> Layer:
    """Draw a layer with kernels that overlap."""
    while True:
        found = layer(rng, most)
        if (
            max(outputs * (tap > 1) for outputs, tap in zip(found.output_plane, found.kernel, strict=True))
            > 1
        ):
            return found


def nest(rng: Random, one: Layer, on: HierarchyMachine, *, ragged: bool = False) -> HierarchyPlan:
    """Draw a nest, of which not every one is valid; ragged ones have any steps and any loops."""
    block, found = extents(one), []
    for number, node in enumerate(on.nodes):
        last = number == len(on.nodes) - 1
        letters = list(LETTERS if node.axis is None else node.axis.loops)
        letters = letters if ragged else [letter for letter in letters if letter in on.allowed[number]]
        rng.shuffle(letters)
        loops, used = [], 1
        for letter in letters:
            size = block[letter]
            later = any(letter in allowed for allowed in on.allowed[number + 1 :])
            steps = list(range(1, size + 1)) if ragged else divisors(size)
            step = 1 if last or not (later or ragged) else rng.choice([size, *steps])
            trips = -(-size // step)
            if step == size or (node.axis is not None and used * trips > node.axis.size):
                continue
            used, block[letter] = used * trips, step
            loops.append((letter, step))
        found.append(tuple(loops))
    return HierarchyPlan(tuple(found))


def everything(
    one: Layer, on: HierarchyMachine, most: int, *, divide: bool = True
) -> Iterator[HierarchyPlan] | None:
    """Enumerate all plans with loops in any order; None if there are too many.

    With steps that divide, or with all of them.
    """
    found: list[tuple[Any, list[Any]]] = []
    for kept in on.choices:
        nests = _nests(one, on.keeping(kept), divide)
        found += [(kept, orders) for orders in nests]
        if sum(prod(map(len, orders)) for _, orders in found) > most:
            return None
    return (HierarchyPlan(nest, kept) for kept, orders in found for nest in itertools.product(*orders))


def _nests(one: Layer, on: HierarchyMachine, divide: bool) -> Iterator[list[Any]]:
    """Enumerate all steps; for each, the orders of each node's loops."""
    sizes, choices = extents(one), []
    for letter in LETTERS:
        chains = []
        for chain in _chains(sizes[letter], len(on.nodes), divide):
            cuts = zip(chain, chain[1:], on.allowed, strict=False)
            if all(outer == inner or letter in allowed for outer, inner, allowed in cuts):
                chains.append(chain)
        choices.append(chains)
    for chosen in itertools.product(*choices):
        orders = _orders(on, chosen)
        if orders is not None:
            yield orders


def _orders(on: HierarchyMachine, chains: tuple[tuple[int, ...], ...]) -> list[list[Any]] | None:
    """Return the orders of each node's loops, None if an array is too small for them."""
    orders: list[list[Any]] = []
    for number, node in enumerate(on.nodes):
        cut = [(letter, chain) for letter, chain in zip(LETTERS, chains, strict=True)]
        loops = [(letter, chain[number + 1]) for letter, chain in cut if chain[number] > chain[number + 1]]
        if node.axis is None:
            orders.append(list(itertools.permutations(loops)))
            continue
        if prod(-(-chain[number] // chain[number + 1]) for chain in chains) > node.axis.size:
            return None
        orders.append([tuple(loops)])
    return orders


def _chains(size: int, nodes: int, divide: bool) -> Iterator[tuple[int, ...]]:
    if nodes == 0:
        if size == 1:
            yield (1,)
        return
    for inner in divisors(size) if divide else range(1, size + 1):
        for rest in _chains(inner, nodes - 1, divide):
            yield (size, *rest)
