"""Grouping: all ordered partitions of the patches (docs/grouping.md), step by step, pixel by pixel."""

from __future__ import annotations

from itertools import chain, combinations, product
from typing import Any

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Patch = tuple[int, int]
Pixels = frozenset[tuple[int, int]]

MOST_MOVES = 250_000
"""Pairs of a partial plan and a next group that are looked at."""


class Layer:
    """Patches, their pixels, and what counts for a step."""

    def __init__(self, problem: Json) -> None:
        self.problem = problem
        layer, machine = problem["layer"], problem["machine"]
        (channels, height, width), pad = layer["input"], layer["padding"]
        extent = [(k - 1) * d + 1 for k, d in zip(layer["kernel"], layer["dilation"], strict=True)]
        self.rows = (height + pad[0] + pad[1] - extent[0]) // layer["stride"][0] + 1
        self.columns = (width + pad[2] + pad[3] - extent[1]) // layer["stride"][1] + 1
        self.pixels: dict[Patch, Pixels] = {}
        for patch in product(range(self.rows), range(self.columns)):
            taps = product(*(range(size) for size in layer["kernel"]))
            under = {
                tuple(
                    patch[i] * layer["stride"][i] + tap[i] * layer["dilation"][i] - pad[2 * i] for i in (0, 1)
                )
                for tap in taps
            }
            if machine["padding"] == "generated":
                under = {(y, x) for y, x in under if 0 <= y < height and 0 <= x < width}
            self.pixels[patch] = frozenset(under)  # type: ignore[arg-type]
        self.of_pixel, self.of_patch = channels * layer["batch"], layer["kernels"] * layer["batch"]
        self.weights = (
            layer["kernels"] * channels // layer["groups"] * layer["kernel"][0] * layer["kernel"][1]
        )
        macs = self.weights * layer["batch"]
        self.most = machine["group_size"] or machine["macs_per_step"] // macs
        fewest = -(-len(self.pixels) // min(self.most, len(self.pixels)))
        steps = problem["limits"]["steps"]
        self.steps = range(fewest, len(self.pixels) + 1) if steps == "free" else [fewest]
        if isinstance(steps, int):
            self.steps = [steps]
        self.reloads = problem["limits"]["reloads"]

    def holds(self, group: tuple[Patch, ...], outputs: int) -> bool:
        """Whether the memory holds the kernels, a group's pixels and so many patches' outputs."""
        memory = self.problem["machine"]["memory"]
        needed = len(self.union(group)) * self.of_pixel + self.weights + outputs * self.of_patch
        return memory is None or needed <= memory

    def union(self, patches: Any) -> Pixels:
        """Return all pixels of some patches."""
        return frozenset().union(*(self.pixels[patch] for patch in patches))

    def total(self, loads: int, steps: int) -> int:
        """Return equation 15, or definition 3."""
        machine, objective = self.problem["machine"], self.problem["objective"]
        by_pixel = objective["count"] == "pixels"
        cycles = loads * machine["load"] * (1 if by_pixel else self.of_pixel) + steps * machine["compute"]
        if objective["minimise"] == "duration":
            cycles += machine["write"] * len(self.pixels) * (1 if by_pixel else self.of_patch)
            cycles += machine["load"] * self.weights * (machine["kernels"] == "step1")
        return int(cycles)


State = tuple[frozenset[Patch], Pixels, tuple[tuple[tuple[int, int], int], ...]]


def best(problem: Json) -> int | None:
    """Return the least cost of all plans, None if there is none.

    A state is what is done, what is on chip, and how often each pixel was loaded that is needed again.
    """
    layer = Layer(problem)
    patches = sorted(layer.pixels)
    states: dict[State, int] = {(frozenset(), frozenset(), ()): 0}
    least: int | None = None
    moves = 0
    for step in range(1, layer.steps[-1] + 1):
        after: dict[State, int] = {}
        for (done, chip, counts), loads in states.items():
            left = [patch for patch in patches if patch not in done]
            fewest = max(1, len(left) - (layer.steps[-1] - step) * layer.most)
            sizes = range(fewest, min(layer.most, len(left)) + 1)
            for group in chain.from_iterable(combinations(left, size) for size in sizes):
                moves += 1
                if moves > MOST_MOVES:
                    raise TooLarge
                new = _loaded(layer, counts, group, chip) if layer.holds(group, len(group)) else None
                if new is None:
                    continue
                now = done.union(group)
                needed = layer.union(patch for patch in patches if patch not in now)
                kept = tuple(sorted((p, n) for p, n in new.items() if p in needed)) if layer.reloads else ()
                state = now, layer.union(group) & needed, kept
                cost = loads + len(layer.union(group) - chip)
                if cost < after.get(state, cost + 1):
                    after[state] = cost
        states = after
        for (done, _, _), loads in states.items():
            if len(done) == len(patches) and step in layer.steps:
                total = layer.total(loads, step)
                least = total if least is None else min(least, total)
    return least


def _loaded(layer: Layer, counts: Any, group: tuple[Patch, ...], chip: Pixels) -> dict[Any, int] | None:
    """Return how often each pixel was loaded after a group, None if one too often."""
    new = dict(counts)
    for pixel in layer.union(group) - chip:
        new[pixel] = new.get(pixel, 0) + 1
        if layer.reloads and new[pixel] > layer.reloads:
            return None
    return new


def cost(problem: Json, plan: Json) -> int:
    """Return the cost of a plan."""
    layer = Layer(problem)
    groups = [tuple(map(tuple, group)) for group in plan["groups"]]
    if sorted(patch for group in groups for patch in group) != sorted(layer.pixels):
        raise Refused("no partition")
    if not all(0 < len(group) <= layer.most for group in groups) or len(groups) not in layer.steps:
        raise Refused("group size or number of steps")
    chip: Pixels = frozenset()
    counts: dict[Any, int] | None = {}
    loads = 0
    written = plan.get("write_back") or [step + 1 for step in range(len(groups))]
    if len(written) != len(groups) or any(not k < at <= len(groups) for k, at in enumerate(written)):
        raise Refused("write-back")
    for step, group in enumerate(groups):
        there = sum(len(groups[k]) for k in range(step + 1) if written[k] > step)
        if not layer.holds(group, there):
            raise Refused(f"memory in step {step + 1}")
        loads += len(layer.union(group) - chip)
        counts = _loaded(layer, counts, group, chip)
        if counts is None:
            raise Refused(f"reloads in step {step + 1}")
        chip = layer.union(group)
    return layer.total(loads, len(groups))


def may_stop(problem: Json, method: str) -> bool:
    """Whether a method may end without a proof: `exact` does not decide limits of three loads or more."""
    return method in ("exact", "auto") and problem["limits"]["reloads"] > 2
