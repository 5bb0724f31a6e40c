"""No bound is ever above an optimum: of all plans, and of all schedules of layers with a handful of MACs."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layers import make, problems, with_plan

from tilewright import read
from tilewright.layer import Layer
from tilewright.tiling.dsp import best_bound, exhaustive, fault, local_traffic, nest_of
from tilewright.tiling.dsp.bounds import Work, fewest_tiles, fewest_transfers, pebble_game
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.search import fewest_accesses, measure


def nest(problem):
    return nest_of(problem.one_layer, problem.machine)


# An optimum that knows neither tiles nor bounds -----------------------------------------------------


class Pebbles:
    """All schedules of a layer, as states: which MACs are done, which elements are on chip.

    A MAC is done as soon as its elements are there, a finished output is written at once, and an element leaves only
    where another one needs its place: none of that can cost anything. A partial sum that leaves is written, and loaded
    when its output goes on.
    """

    def __init__(self, layer: Layer, generated: bool) -> None:
        groups, maps = layer.groups, layer.kernels // layer.groups
        channels = layer.input[0] // groups
        (top, _, left, _), (_, height, width) = layer.padding, layer.input
        rows, columns = layer.positions(False), layer.positions(True)
        number: dict[tuple[object, ...], int] = {}
        self.macs: list[int] = []  # bits of the elements that a MAC needs
        self.outputs = 0
        for g, n, c, k in product(range(groups), range(layer.batch), range(maps), range(channels)):
            for (y, x), (i, j) in product(np.ndindex(*layer.output_plane), np.ndindex(*layer.kernel)):
                row, column = int(rows[y, i]), int(columns[x, j])
                output = 1 << number.setdefault(("output", g, n, c, y, x), len(number))
                self.outputs |= output
                need = output | 1 << number.setdefault(("weight", g, c, k, i, j), len(number))
                if not generated or (top <= row < top + height and left <= column < left + width):
                    need |= 1 << number.setdefault(("input", g, n, k, row, column), len(number))
                self.macs.append(need)
        self.elements = [1 << bit for bit in range(len(number))]
        self.users = {e: sum(1 << m for m, need in enumerate(self.macs) if need & e) for e in self.elements}

    def fewest_accesses(self, room: int) -> int:
        """Return the length of a shortest path (A*)."""
        everything = (1 << len(self.macs)) - 1
        queue, known = [(self.left(0, 0), 0, 0, 0)], {(0, 0): 0}
        while queue:
            _, cost, done, held = heappop(queue)
            if done == everything:
                return cost
            if known[done, held] < cost:
                continue
            for price, *state in self.moves(done, held, room):
                done_then, held_then = state
                reached = cost + price
                if reached < known.get((done_then, held_then), 1 << 30):
                    known[done_then, held_then] = reached
                    left = self.left(done_then, held_then)
                    heappush(queue, (reached + left, reached, done_then, held_then))
        raise AssertionError("a MAC does not fit")

    def moves(self, done: int, held: int, room: int):
        """Bring one element, in the place of another one if there is none left."""
        leaving = [0] if held.bit_count() < room else [e for e in self.elements if e & held]
        for element in self.elements:
            if element & held or not self.users[element] & ~done:
                continue
            partial = bool(element & self.outputs and self.users[element] & done)
            load = 1 if partial or not element & self.outputs else 0
            for gone in leaving:
                store = 1 if gone & self.outputs and self.users[gone] & done else 0
                yield self.settle(load + store, done, held & ~gone | element)

    def settle(self, price: int, done: int, held: int) -> tuple[int, int, int]:
        """Do the MACs that can be done, write the outputs that are finished, and drop what is of no more use."""
        for number, need in enumerate(self.macs):
            if need & held == need:
                done |= 1 << number
        for element in self.elements:
            if element & held and not self.users[element] & ~done:
                held &= ~element
                price += 1 if element & self.outputs else 0
        return price, done, held

    def left(self, done: int, held: int) -> int:
        """Accesses that are certain to come."""
        total = 0
        for element in self.elements:
            if self.users[element] & ~done:
                if element & self.outputs:
                    total += 1 if element & held or not self.users[element] & done else 2
                else:
                    total += 0 if element & held else 1
        return total


@st.composite
def handfuls(draw, most_macs):
    """Draw a layer with a handful of MACs, one- or two-dimensional."""
    number = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    groups = draw(st.sampled_from([1, 1, 1, 2]))
    kernel = draw(st.sampled_from([(1, 1), (1, 1), (1, 2), (1, 3), (2, 2), (2, 1)]))
    stride, dilation = (number(1, 2), number(1, 2)), (number(1, 2), number(1, 2))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    padding = [number(0, min(1, reach[i // 2] - 1)) for i in range(4)]
    outputs = number(1, 2), number(1, 3)
    size = [
        max(1, (o - 1) * s + r - sum(padding[2 * i : 2 * i + 2]))
        for i, (o, s, r) in enumerate(zip(outputs, stride, reach, strict=True))
    ]
    layer = {
        "input": [groups * number(1, 3), *size],
        "kernels": groups * number(1, 3),
        "kernel": list(kernel),
        "stride": list(stride),
        "dilation": list(dilation),
        "padding": padding,
        "groups": groups,
        "batch": draw(st.sampled_from([1, 1, 2])),
    }
    problem = make(layer, {"padding": draw(st.sampled_from(["loaded", "generated"]))})
    assume(problem.one_layer.macs <= most_macs)
    return problem


@given(handfuls(most_macs=9), st.integers(3, 8))
@settings(max_examples=150)
def test_no_schedule_beats_the_bound_and_no_plan_beats_the_best_schedule(problem, room):
    generated = problem.machine.padding == "generated"
    optimum = Pebbles(problem.one_layer, generated).fewest_accesses(room)
    assert pebble_game(nest(problem), room).accesses <= optimum
    plan = fewest_accesses(nest(problem), room=room)
    assert plan is None or optimum <= plan.value


@pytest.mark.parametrize(
    ("shape", "room", "optimum"),
    [((2, 2, 2), 3, 15), ((2, 2, 2), 4, 14), ((3, 3, 1), 3, 18), ((2, 3, 2), 3, 22), ((1, 4, 3), 3, 24)],
)
def test_products_of_tiny_matrices(shape, room, optimum):
    pixels, maps, channels = shape
    problem = make({"input": [channels, 1, pixels], "kernels": maps, "kernel": [1, 1]})
    assert Pebbles(problem.one_layer, False).fewest_accesses(room) == optimum
    game = pebble_game(nest(problem), room)
    print(shape, room, optimum, game)
