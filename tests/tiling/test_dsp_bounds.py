"""No bound is ever above an optimum: of all plans, and of all schedules of layers with a handful of MACs."""

from __future__ import annotations

from heapq import heappop, heappush
from itertools import product

import numpy as np
import pytest
from conftest import examples
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from layers import make, plans, problems

from tilewright.core import catalogue
from tilewright.core import pebble_game as game_module
from tilewright.core.pebble_game import Work, pebble_game
from tilewright.run.instance import read
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import bounds
from tilewright.tiling.dsp.bounds import fewest_tiles, fewest_transfers, in_units, work_of
from tilewright.tiling.dsp.cost import measure
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.exact import fewest_accesses, local_traffic
from tilewright.tiling.dsp.kind import best_bound, exhaustive, simulate, violation
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.summary import rows

OBJECTIVES = ("accesses", "cycles", "energy", "pareto")
INFINITE = float("inf")


def nest(problem):
    return nest_of(problem.one_layer, problem.machine)


def macs(layer, generated):
    """Yield the input (None for a generated zero), the weight and the output of every MAC."""
    groups, (top, _, left, _), (_, height, width) = layer.groups, layer.padding, layer.input
    rows, columns = layer.positions(False), layer.positions(True)
    maps, channels = layer.kernels // groups, layer.input[0] // groups
    for g, n, c, k in product(range(groups), range(layer.batch), range(maps), range(channels)):
        for (y, x), (i, j) in product(np.ndindex(*layer.output_plane), np.ndindex(*layer.kernel)):
            row, column = int(rows[y, i]), int(columns[x, j])
            inside = top <= row < top + height and left <= column < left + width
            pixel = None if generated and not inside else ("input", g, n, k, row, column)
            yield pixel, ("weight", g, c, k, i, j), ("output", g, n, c, y, x)


# An optimum that knows neither tiles nor bounds -----------------------------------------------------


class Pebbles:
    """All schedules of a layer, as states: which MACs are done, which elements are on chip.

    A MAC is done as soon as its elements are there, a finished output is written at once, and an element
    leaves only where another one needs its place: none of that can cost anything. A partial sum that leaves
    is written, and loaded when its output goes on.
    """

    def __init__(self, layer: Layer, generated: bool) -> None:
        number: dict[tuple[object, ...], int] = {}
        self.macs: list[int] = []  # bits of the elements that a MAC needs
        self.outputs = 0
        for needed in macs(layer, generated):
            bits = [1 << number.setdefault(e, len(number)) for e in needed if e is not None]
            self.macs.append(sum(bits))
            self.outputs |= bits[-1]
        self.elements = [1 << bit for bit in range(len(number))]
        self.users = {e: sum(1 << m for m, need in enumerate(self.macs) if need & e) for e in self.elements}

    def fewest_accesses(self, capacity: int) -> int:
        """Return the length of a shortest path (A*)."""
        everything = (1 << len(self.macs)) - 1
        queue, known = [(self.left(0, 0), 0, 0, 0)], {(0, 0): 0}
        while queue:
            _, cost, done, held = heappop(queue)
            if done == everything:
                return cost
            if known[done, held] < cost:
                continue
            for price, *state in self.moves(done, held, capacity):
                done_then, held_then = state
                reached = cost + price
                if reached < known.get((done_then, held_then), 1 << 30):
                    known[done_then, held_then] = reached
                    left = self.left(done_then, held_then)
                    heappush(queue, (reached + left, reached, done_then, held_then))
        raise AssertionError("a MAC does not fit")

    def moves(self, done: int, held: int, capacity: int):
        """Bring one element, in the place of another one if there is none left."""
        leaving = [0] if held.bit_count() < capacity else [e for e in self.elements if e & held]
        for element in self.elements:
            if element & held or not self.users[element] & ~done:
                continue
            partial = bool(element & self.outputs and self.users[element] & done)
            load = 1 if partial or not element & self.outputs else 0
            for gone in leaving:
                store = 1 if gone & self.outputs and self.users[gone] & done else 0
                yield self.settle(load + store, done, held & ~gone | element)

    def settle(self, price: int, done: int, held: int) -> tuple[int, int, int]:
        """Do the MACs that can be done, write finished outputs, and drop what is of no more use."""
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


@pytest.mark.slow
@given(handfuls(most_macs=8), st.integers(3, 6))
@settings(max_examples=examples(40))
def test_no_schedule_beats_the_bound_and_no_plan_beats_the_best_schedule(problem, capacity):
    generated = problem.machine.padding == "generated"
    optimum = Pebbles(problem.one_layer, generated).fewest_accesses(capacity)
    assert pebble_game(work_of(nest(problem)), capacity).accesses <= optimum
    plan = fewest_accesses(nest(problem), capacity=capacity)
    assert plan is None or optimum <= plan.value


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("capacity", "optimum", "bound"), [(3, 17, 13), (4, 14, 12), (8, 12, 12)])
def test_product_of_two_by_two_matrices(capacity, optimum, bound):
    """Beside one element of each matrix there is no place, so that 5 of 8 products come without reuse."""
    problem = make({"input": [2, 1, 2], "kernels": 2, "kernel": [1, 1]})
    assert Pebbles(problem.one_layer, False).fewest_accesses(capacity) == optimum
    assert pebble_game(work_of(nest(problem)), capacity).accesses == bound


# The lemmas -----------------------------------------------------------------------------------------


@given(problems(side=4, channels=2), st.randoms(use_true_random=False))
@settings(max_examples=examples(60))
def test_weights_of_macs(problem, random):
    """Totals against a walk over every MAC, and lemma 2 on any set of MACs."""
    generated = problem.machine.padding == "generated"
    every = [mac for mac in macs(problem.one_layer, generated) if mac[0] is not None]
    uses = {}  # of an input, by one output map
    for pixel, _, output in every:
        uses.setdefault((pixel, output[3]), []).append(1)
    weights = [1 / len(uses[pixel, output[3]]) ** 0.5 for pixel, _, output in every]
    work = work_of(nest(problem))
    assert work.macs == len(every)
    assert work.totals[0] == len({pixel for pixel, _, _ in every})
    if not every:
        return
    assert work.total == pytest.approx(sum(weights))
    assert (work.least, work.most) == pytest.approx((min(weights), max(weights)))
    for operand, most in enumerate(work.uses):
        carried = {}
        for mac, weight in zip(every, weights, strict=True):
            carried[mac[operand]] = carried.get(mac[operand], 0) + weight
        assert max(carried.values()) == pytest.approx(most)
    for _ in range(10):
        chosen = random.sample(range(len(every)), random.randint(1, len(every)))
        touched = [len({every[number][operand] for number in chosen}) for operand in range(3)]
        assert sum(weights[number] for number in chosen) ** 2 <= np.prod(touched) * (1 + 1e-9)


@given(problems(side=4, channels=2), st.randoms(use_true_random=False))
@settings(max_examples=examples(40))
def test_every_order_of_the_macs_has_such_windows(problem, random):
    """Lemma 3: cut by weight or by count, no window of some cut is below the least weight."""
    generated = problem.machine.padding == "generated"
    every = [mac for mac in macs(problem.one_layer, generated) if mac[0] is not None]
    work = work_of(nest(problem))
    counts = {}
    for pixel, _, output in every:
        counts[pixel, output[3]] = counts.get((pixel, output[3]), 0) + 1
    weights = np.array([1 / counts[pixel, output[3]] ** 0.5 for pixel, _, output in every])
    random.shuffle(weights)
    reached = np.cumsum(weights)
    for number, share in zip(*game_module._windows(work), strict=True):
        ends = np.arange(1, number + 1)
        by_weight = np.searchsorted(reached, ends / number * reached[-1] * (1 - 1e-12)) + 1
        by_count = ends * len(weights) // number
        found = []
        for cut in (by_weight, by_count):
            cut[-1] = len(weights)
            windows = np.split(weights, cut[:-1])
            found.append(min(window.sum() for window in windows))
        assert share <= max(found) * (1 + 1e-9)


@given(st.floats(0.1, 40), st.tuples(*[st.floats(0.3, 50)] * 3))
def test_fewest_charges_is_a_minimum(share, uses):
    """Against all small numbers of inputs and weights, with as few outputs as then will do."""
    work = Work((1, 1, 1), 1, share, 1, 1, uses)
    found = game_module._fewest_charges(game_module.CHARGES, np.array([share]), work)[0]
    least = [max(1, int(np.ceil(share / use - 1e-9))) for use in uses]
    a, b = np.meshgrid(*(np.arange(low, low + 400) for low in least[:2]), indexing="ij")
    c = np.maximum(least[2], np.ceil(share**2 / (a * b) - 1e-9))
    for charge, parts in zip(game_module.CHARGES, found, strict=True):
        smallest = (charge[0] * a + charge[1] * b + charge[2] * c).min()
        assert parts <= smallest <= parts + 3 * game_module.PARTS + 0.2 * parts  # rounded up, one by one


# Plans ----------------------------------------------------------------------------------------------


@given(problems(side=6, tight=True), st.sampled_from(OBJECTIVES))
@settings(max_examples=examples(100))
def test_no_plan_beats_the_bound(problem, minimise):
    problem = problem.model_copy(update={"objective": type(problem.objective)(minimise=minimise)})
    found = exhaustive(problem, INFINITE)
    bound = best_bound(problem)
    assert bound.value <= found[0]
    local = local_traffic(nest_of(problem.one_layer, problem.machine))
    for plan in found[1]:
        total = duration(nest(problem), plan, local)
        assert (bound.accesses if bound.bits is None else bound.bits) <= total.accesses
        assert bound.steps <= np.prod(nest(problem).trips(plan.tile))


@pytest.mark.slow
@given(st.data())
@settings(max_examples=examples(300))
def test_random_plans_keep_every_bound(data):
    problem = data.draw(problems(side=7, tight=data.draw(st.booleans())))
    plan = data.draw(plans(problem))
    assume(violation(problem, plan) is None)
    here, local = nest(problem), local_traffic(nest_of(problem.one_layer, problem.machine))
    total, tiles = duration(here, plan, local), int(np.prod(here.trips(plan.tile)))
    for minimise in OBJECTIVES[:3]:
        assert bounds.best_bound(here, minimise, local).value <= measure(here, plan, minimise, local)
    assert fewest_tiles(here, work_of(here)) <= tiles
    assert fewest_transfers(here, total.accesses, tiles) <= total.transfers


@given(problems(side=10, channels=24, tight=True))
@settings(max_examples=examples(100))
def test_no_plan_beats_the_bound_where_memory_is_short(problem):
    """Many maps, so that it is not the compulsory traffic that counts."""
    here = nest(problem)
    work, found = work_of(here), fewest_accesses(here)
    game = pebble_game(work, here.machine.buffer_capacity, here.machine.units[:3])
    assert in_units(here, work, game) <= found.value
    report = simulate(problem, found.plan, overlapped=False)
    assert game.accesses <= report.accesses


@given(problems(side=12, channels=6), st.lists(st.integers(3, 400), min_size=2, max_size=6))
def test_more_memory_never_raises_the_bound(problem, capacities):
    found = [pebble_game(work_of(nest(problem)), capacity).accesses for capacity in sorted(capacities)]
    assert found == sorted(found, reverse=True)


def test_large_layers_never_have_a_higher_bound_with_more_memory():
    layer = {"input": [64, 56, 56], "kernels": 96, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    found = [pebble_game(work_of(nest(make(layer))), capacity).accesses for capacity in range(16, 20_000, 97)]
    assert found == sorted(found, reverse=True)
    assert found[0] > 30 * found[-1]


# What it is good for --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("channels", "side", "kernels", "most"),
    [
        (64, 224, 64, 1.48),
        (64, 112, 128, 1.48),
        (128, 112, 128, 1.32),
        (128, 56, 256, 1.3),
        (256, 56, 256, 1.22),
        (256, 28, 512, 1.22),
        (512, 28, 512, 1.18),
        (512, 14, 512, 1.08),
    ],
)
def test_layers_of_vgg16_on_64_kilobytes(channels, side, kernels, most):
    layer = {"input": [channels, side, side], "kernels": kernels, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = make(layer, {"memory_bytes": 65536, "double_buffering": True})
    bound = best_bound(problem)
    assert bound.name == "pebble game"
    assert bound.value <= fewest_accesses(nest(problem)).value <= most * bound.value


@pytest.mark.parametrize(
    ("name", "convolutions", "others"), [("alexnet-idsp", 1.53, 1.0), ("vgg16-idsp", 1.45, 1.0)]
)
def test_distances_in_64_kilobytes_of_one_copy(name, convolutions, others):
    """Those of the page on results: the fewest accesses of a plan over those of any schedule."""
    far = {"conv": [], "fc": []}
    for _, part in read(catalogue.instance("tiling", name)).problem.parts:
        assert part.machine.buffer_capacity * part.machine.element_bytes == 65536
        least = best_bound(part).accesses
        far[part.layer.kind].append(fewest_accesses(nest(part)).value / least)
    assert round(max(far["conv"]), 2) == convolutions and min(far["conv"]) >= 1
    assert round(max(far["fc"]), 2) == others


def test_the_bound_is_of_one_copy_of_the_buffers():
    """A chip whose buffers exist once has all of its memory for a tile, and may move less than the bound."""
    twice = read(catalogue.instance("tiling", "alexnet-conv3-64k")).problem
    once = twice.with_(machine={"double_buffering": False})
    found = [fewest_accesses(nest(problem)).value for problem in (twice, once)]
    bounds = [best_bound(problem).accesses for problem in (twice, once)]
    assert (found, bounds) == ([6_362_112, 4_592_640], [4_987_697, 3_569_023])
    assert found[1] < bounds[0]
    told = dict(rows(twice, simulate(twice, fewest_accesses(nest(twice)).plan).measures))
    begin = "in 32,768 elements, one copy of the buffers, at least 4,987,697 accesses"
    assert told["any schedule"].startswith(begin)


def test_fully_connected_layers_are_closed_by_compulsory_traffic():
    problem = make({"kind": "fc", "inputs": 400, "outputs": 120}, {"memory_bytes": 4096})
    bound = best_bound(problem)
    assert (bound.name, bound.accesses) == ("compulsory", 400 * 120 + 400 + 120)
    assert fewest_accesses(nest(problem)).value == bound.value


def test_gaps_need_not_be_loaded_by_every_schedule():
    """With dilation, or a stride above the kernel's size, plans load gaps that no MAC needs."""
    layer = {"input": [1, 1, 9], "kernels": 1, "kernel": [1, 2], "stride": [1, 4], "dilation": [1, 2]}
    problem = make(layer)
    bound = best_bound(problem)
    assert (bound.value, bound.accesses) == (6 + 2 + 2, 4 + 2 + 2)
    assert Pebbles(problem.one_layer, False).fewest_accesses(8) == bound.accesses
    assert fewest_accesses(nest(problem)).value == bound.value


def test_a_layer_that_sees_only_generated_padding():
    layer = {"input": [1, 1, 1], "kernels": 1, "kernel": [2, 2], "dilation": [2, 2], "padding": [1, 1, 1, 1]}
    problem = make(layer, {"padding": "generated"})
    assert best_bound(problem).accesses == 4 + 1
    assert Pebbles(problem.one_layer, True).fewest_accesses(3) == 5
