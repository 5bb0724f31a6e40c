"""Tiny problems of the room offloading at random, and plans that are changed in one place."""

from __future__ import annotations

from copy import deepcopy
from random import Random
from typing import Any

Json = dict[str, Any]
Range = list[list[int]]

MOVES = ("free_inputs", "free_kernels", "write", "load_inputs", "load_kernels", "load_sums")


def table_at_random(random: Random, cells: int = 12, bursts: bool = True) -> Json:
    """Return an instance of at most so many cells; a few are refused, or allow no plan."""
    while True:
        layer, gemm = _layer(random), random.random() < 0.3
        sides = [
            (layer["input"][1 + i] + sum(layer["padding"][2 * i : 2 * i + 2]) - layer["kernel"][i])
            // layer["stride"][i]
            + 1
            for i in (0, 1)
        ]
        window = layer["kernel"][0] * layer["kernel"][1]
        taps, channels = (1, layer["input"][0] * window) if gemm else (window, layer["input"][0])
        if min(sides) > 0 and 2 <= sides[0] * sides[1] * layer["kernels"] * channels <= cells:
            break
    limits = {
        "form": "gemm" if gemm else "direct",
        "channels": random.choice(["any", "any", "all"]),
        "reloads": random.choice([2, 2, 1, 0]),
    }
    if random.random() < 0.2:
        limits["steps"] = random.randint(1, 6)
    staying = random.choice(["dram", "dram", "dram", "step1", "preloaded"])
    least = (
        layer["kernels"] if staying != "dram" else 1,
        channels if limits["channels"] == "all" else 1,
    )
    held = (layer["kernels"] * channels if staying != "dram" else least[0] * least[1]) * taps
    machine = {"kernels": staying, **_machine(random, bursts)}
    if random.random() < 0.8:
        machine["macs_per_step"] = random.randint(1, 4) * least[0] * least[1] * taps
    if random.random() < 0.3 or "macs_per_step" not in machine:
        machine["unit"] = [random.randint(1, 3), *(n + random.randint(0, 1) for n in least)]
    if random.random() < 0.9:
        machine["memory"] = least[1] * taps + held + least[0] + random.choice([0, 0, 1, 2, 3, 5, 8])
    return {
        "layer": layer,
        "machine": machine,
        "limits": limits,
        "objective": {"minimise": random.choice(["duration", "duration", "loads"])},
    }


def _layer(random: Random) -> Json:
    kernel = [random.randint(1, 2), random.choice([1, 2, 2, 3])]
    return {
        "input": [random.randint(1, 3), random.randint(1, 3), random.randint(1, 4)],
        "kernels": random.randint(1, 3),
        "kernel": kernel,
        "stride": [random.choice([1, 1, 2]), random.choice([1, 1, 2, 3])],
        "padding": [random.randint(0, kernel[i // 2] - 1) if random.random() < 0.3 else 0 for i in range(4)],
    }


def _machine(random: Random, bursts: bool) -> Json:
    """Return prices, and what the memories are like."""
    return {
        "load": random.choice([1, 1, 2, 3, 0]),
        "write": random.choice([1, 1, 2, 5, 0]),
        "compute": random.choice([1, 1, 3, 10, 0]),
        "burst": random.choice([1, 2, 4]) if bursts and random.random() < 0.3 else 0,
        "padding": random.choice(["loaded", "generated"]),
        "parts": random.choice([1, 1, 1, 2]),
        "memories": random.choice(["shared", "own"]),
        "placement": random.choice(["counted"] * 9 + ["contiguous"]),
    }


def ranges(numbers: set[int]) -> Range:
    """Return numbers as ranges."""
    found: Range = []
    for n in sorted(numbers):
        if found and found[-1][1] == n:
            found[-1][1] = n + 1
        else:
            found.append([n, n + 1])
    return found


def numbers(found: Range) -> set[int]:
    """Return the numbers of ranges."""
    return {n for first, end in found for n in range(first, end)}


def changed(random: Random, plan: Json) -> Json:
    """Return a plan with one change: of an element, a run, a list, a block, the steps, or an address."""
    plan = deepcopy(plan)
    if plan.get("addresses") and random.random() < 0.3:
        at = random.randrange(len(plan["addresses"]))
        plan["addresses"][at] = max(0, plan["addresses"][at] + random.choice([-1, 1, 2]))
        return plan
    change = random.choice(
        [_element, _element, _run_moves, _run_goes, _same_step, _block, _steps, _other_part]
    )
    change(random, plan["steps"])
    return plan


def _moves(random: Random, steps: list[Json]) -> Json:
    """Return the moves of a step with one memory."""
    found: Json = random.choice(random.choice(steps)["moves"])
    return found


def _set(moves: Json, key: str, elements: set[int]) -> None:
    moves.pop(key, None)
    if elements:
        moves[key] = ranges(elements)


def _element(random: Random, steps: list[Json]) -> None:
    moves, key = _moves(random, steps), random.choice(MOVES)
    there = numbers(moves.get(key, []))
    _set(moves, key, there ^ {random.randint(0, max(there, default=6) + 2)})


def _run_goes(random: Random, steps: list[Json]) -> None:
    moves = _moves(random, steps)
    if moves:
        key = random.choice(sorted(moves))
        run = random.choice(moves[key])
        _set(moves, key, numbers(moves[key]) - set(range(*run)))


def _run_moves(random: Random, steps: list[Json]) -> None:
    """Move a run to a step near by: a load to one before, say, or what is forgotten to one after."""
    at, memory = random.randrange(len(steps)), random.randrange(len(steps[0]["moves"]))
    moves = steps[at]["moves"][memory]
    other = steps[min(len(steps) - 1, max(0, at + random.choice([-1, 1])))]["moves"][memory]
    if moves:
        key = random.choice(sorted(moves))
        run = set(range(*random.choice(moves[key])))
        _set(moves, key, numbers(moves[key]) - run)
        _set(other, key, numbers(other.get(key, [])) | run)


def _same_step(random: Random, steps: list[Json]) -> None:
    """Forget and load a run in one step, or write a sum that comes back."""
    moves = _moves(random, steps)
    pairs = [("free_inputs", "load_inputs"), ("free_kernels", "load_kernels"), ("write", "load_sums")]
    pair = random.choice(pairs)
    first = random.randint(0, 6)
    run = set(range(first, first + random.randint(1, 3)))
    for key in pair:
        _set(moves, key, numbers(moves.get(key, [])) | run)


def _block(random: Random, steps: list[Json]) -> None:
    blocks = random.choice(steps)["blocks"]
    part = random.randrange(len(blocks))
    axes = ("patches", "kernels", "channels")
    if blocks[part] is None or random.random() < 0.1:
        new = {axis: [[0, 1]] for axis in axes}
        blocks[part] = None if blocks[part] is not None else new
        return
    axis = random.choice(axes)
    blocks[part][axis] = ranges(numbers(blocks[part][axis]) ^ {random.randint(0, 4)})


def _steps(random: Random, steps: list[Json]) -> None:
    """Exchange two steps, drop one, or put in one that does nothing."""
    at = random.randrange(len(steps))
    kind = random.choice(["exchange", "drop", "idle"])
    if kind == "exchange" and at:
        steps[at - 1], steps[at] = steps[at], steps[at - 1]
    elif kind == "drop" and len(steps) > 1:
        del steps[at]
    elif kind == "idle":
        parts, memories = len(steps[at]["blocks"]), len(steps[at]["moves"])
        steps.insert(at, {"blocks": [None] * parts, "moves": [{} for _ in range(memories)]})


def _other_part(random: Random, steps: list[Json]) -> None:
    """Exchange the blocks of parts."""
    random.choice(steps)["blocks"].reverse()
