"""Schedules that move the same: per pattern of loops with a single iteration, those worth trying."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from itertools import chain, combinations, permutations
from typing import NamedTuple

from tilewright.tiling.dsp.nest import FREE, K, X, Y
from tilewright.tiling.dsp.plan import ANY, HALIDE, LOOPS, ORDERED, SCHEDULES, allowed
from tilewright.tiling.dsp.traffic import RELEVANT, moved_by


class Pattern(NamedTuple):
    """How often operands are moved when certain loops have a single iteration.

    Attributes
    ----------
    input, kernels, output
        Loops whose iterations multiply the operand.
    halo
        Y or X where neighbours share a halo that stays, else -1.
    resident
        Whether all weights of a group stay on chip.
    order, reuse
        A schedule that does this.
    """

    input: frozenset[int]
    kernels: frozenset[int]
    output: frozenset[int]
    halo: int
    resident: bool
    order: str
    reuse: str

    @property
    def repeating(self) -> frozenset[int]:
        """The loops whose iterations multiply some operand."""
        return self.input | self.kernels | self.output

    def beats(self, other: Pattern) -> bool:
        """Whether this one never moves more than the other, and needs no more memory."""
        return (
            self.resident <= other.resident
            and self.input <= other.input
            and self.kernels <= other.kernels
            and self.output <= other.output
            and (self.halo == other.halo or other.halo == -1)
        )


def schedules(limit: str, *, every: bool = False) -> tuple[tuple[str, str], ...]:
    """Return the schedules that a limit of an instance allows, as (order, reuse).

    Parameters
    ----------
    every
        Also those that keep less than they could: constraints may ask for what they cost.
    """
    if limit in ANY:
        # Keeping a halo, or a whole tile, never adds a transfer, and so never costs anything.
        weights = () if limit == "any" else ("weights",)
        reuses = (*(("halo", "tile", "none") if every else ("halo",)), *weights)
        return tuple(("".join(order), reuse) for reuse in reuses for order in permutations(ORDERED))
    return tuple(SCHEDULES[name] for name in allowed(limit))


@cache
def patterns(limit: str, double_buffering: bool) -> tuple[tuple[frozenset[int], tuple[Pattern, ...]], ...]:
    """Return for every set of loops with a single iteration the patterns worth trying."""
    table = []
    for single in chain.from_iterable(combinations(FREE, size) for size in range(6)):
        if limit == HALIDE and K not in single:
            continue
        table.append(
            (frozenset(single), useful_patterns(schedules(limit), frozenset(single), double_buffering))
        )
    return tuple(table)


def useful_patterns(
    schedules: Iterable[tuple[str, str]], single: frozenset[int], double_buffering: bool
) -> tuple[Pattern, ...]:
    """Return what some schedules do when certain loops have a single iteration, without what others beat."""
    kept: list[Pattern] = []
    seen: set[tuple[str, str]] = set()
    left_out = str.maketrans(dict.fromkeys(LOOPS[d] for d in single))
    for order, reuse in schedules:
        moving = order.translate(left_out), reuse
        if moving in seen:
            continue
        seen.add(moving)
        new = pattern_of(order, reuse, single, double_buffering)
        if new is not None and not any(pattern.beats(new) for pattern in kept):
            kept = [pattern for pattern in kept if not new.beats(pattern)] + [new]
    return tuple(kept)


def pattern_of(order: str, reuse: str, single: frozenset[int], double_buffering: bool) -> Pattern | None:
    """Return what a schedule does, or None where a tile needs what the one before has not written yet."""
    loops = [d for d in (LOOPS.index(name) for name in reversed(order)) if d not in single]
    if double_buffering and reuse == "none" and loops[:1] == [K]:
        return None
    sets = {}
    for operand, relevant in moved_by(reuse).items():
        moving = [number for number, d in enumerate(loops) if d in relevant]
        inner = moving[0] if moving else len(loops)
        if reuse == "none":
            inner = -1
        sets[operand] = frozenset(d for number, d in enumerate(loops) if number > inner and d not in relevant)
    halo = -1
    if reuse in ("halo", "weights"):
        halo = next((d for d in loops if d in RELEVANT["input"]), -1)
        halo = halo if halo in (Y, X) else -1
    return Pattern(sets["input"], sets["kernels"], sets["output"], halo, reuse == "weights", order, reuse)


@cache
def group_schedules(
    limit: str, single: frozenset[int], double_buffering: bool, every: bool = False
) -> tuple[tuple[tuple[str, str], ...], ...]:
    """Return the schedules that differ in the loops of several iterations, in groups that move the same.

    `every` is as for `schedules`.
    """
    groups: dict[tuple[object, ...], dict[str, tuple[str, str]]] = {}
    for order, reuse in schedules(limit, every=every):
        pattern = pattern_of(order, reuse, single, double_buffering)
        if pattern is None:
            continue
        shown = "".join(loop for loop in order if LOOPS.index(loop) not in single) + reuse
        groups.setdefault(pattern[:5], {}).setdefault(shown, (order, reuse))
    return tuple(tuple(orders.values()) for orders in groups.values())
