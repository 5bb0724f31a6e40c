"""Steps of residency in tiles, in blocks of input channels and in strips: executed, and by hand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
from conftest import examples, tells
from residency_cases import problem_of, random_network

from tilewright.residency import Plan, Problem, Step, objective, simulate, violation
from tilewright.residency.graph import Reading, members
from tilewright.residency.placement import place_steps
from tilewright.residency.shapes.groups import Group, Groups, group_mask
from tilewright.residency.shapes.pareto_shapes import Limits, pareto_shapes, shapes_by_tiles, undominated
from tilewright.residency.shapes.shape import Shape, elements_moved, step_buffers
from tilewright.residency.shapes.strips import Strips, least_line, strip_widths, strips_of
from tilewright.residency.shapes.tiles import summed_channels
from tilewright.residency.transitions import StepChoice
from tilewright.spec.errors import InputError

LAYER = {
    "name": "a",
    "input": [2, 4, 5],
    "kernels": 3,
    "kernel": [3, 3],
    "padding": [1, 1, 1, 1],
    "bias": True,
}
"""40 elements in, 3 x (18 + 1) weights and biases, 60 out."""

CHAIN = {
    "layers": [
        {"name": "a", "input": [1, 4, 6], "kernels": 2, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        {"name": "b", "input": [2, 4, 6], "kernels": 1, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
    ]
}
"""24 elements in, 18 weights each, 24 out."""

ANY = Limits(10**6, 10**9)


def executed(problem: Problem, group: Group, shape: Shape) -> int:
    """Execute a step that is a plan by itself; its traffic must be that of the closed form."""
    written = sum(1 << tensor for tensor in group.outputs)
    plan = place_steps(
        problem.groups, [StepChoice(group.mask, 0, 0, 0, written, -1, shape)], problem.machine.capacity
    )
    assert plan is not None
    assert Plan.from_json(plan.to_json()) == plan
    assert violation(problem, plan) is None
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None and report.numeric is True
    assert (
        report.measures.traffic_bytes
        == objective(problem, plan)
        == elements_moved(group, shape, group.sources, group.outputs)
    )
    (step,) = report.measures.steps_of_plan.values()
    assert step.memory_bytes == sum(each.size for each in step_buffers(group, shape, ()))
    return int(report.measures.traffic_bytes)


def whole(problem: Problem) -> Group:
    """Return all operations as a group, if all lead to the last one."""
    return Groups(problem.graph)[problem.graph.all & ~problem.graph.begin]


def test_tiles_by_hand() -> None:
    """Tiles of 2 x 3 pixels: they read 3 rows each, 4 columns or 3, and so 6 x 7 pixels of each channel."""
    problem = problem_of({"layers": [LAYER]}, 1000)
    step = Shape("tiles", 6, 2, frozenset(), 3, 1)
    # Four tiles load all weights each; for two blocks of output channels, the input passes twice.
    assert executed(problem, whole(problem), step) == 4 * 57 + 2 * 2 * 6 * 7 + 60
    assert {each[0]: each.size for each in step_buffers(whole(problem), step, ())} == {
        "lines": 3 * 4,
        "weights": 2 * (9 + 1),
        "block": 4 * 2 * 6,
    }
    # With both input channels there at a time it is read once, and there are no partial sums.
    both = replace(step, channels=2)
    assert executed(problem, whole(problem), both) == 4 * 57 + 2 * 6 * 7 + 60
    assert {each[0]: each.size for each in step_buffers(whole(problem), both, ())}["block"] == 2 * 6
    wide = problem_of({"layers": [LAYER]}, 1000).with_(machine={"element_bytes": 2, "sum_bytes": 3})
    assert {each[0]: each.size for each in step_buffers(whole(wide), step, ())}["block"] == 2 * 2 * 6


def test_blocks_of_channels_by_hand() -> None:
    """Partial sums of whole planes: weights once, the input once for each block of output channels."""
    problem = problem_of({"layers": [LAYER]}, 1000)
    step = Shape("channels", 1, 2, frozenset(), None, 1)
    assert executed(problem, whole(problem), step) == 57 + 2 * 40 + 60
    assert {each[0]: each.size for each in step_buffers(whole(problem), step, ())} == {
        "lines": 2 * 5 + 3,
        "weights": 2 * (9 + 1),
        "block": 4 * 2 * 20,
    }


def test_strips_by_hand() -> None:
    """Two strips of 3 columns: a has 4 columns in each, and reads 5 of 6."""
    problem = problem_of(CHAIN, 1000)
    step = Shape("pixels", 1, 1, frozenset([0, 1]), 3)
    assert executed(problem, whole(problem), step) == 4 * 5 * 2 + 18 + 18 + 24
    for columns, width in ((3, 4), (None, 6)):
        held = step_buffers(whole(problem), replace(step, columns=columns), ())
        assert next(each for each in held if each[:2] == ("lines", 1)).size == 2 * (2 * width + 3)


def random_group(seed: int, most: int) -> tuple[Problem, Group]:
    rng = random.Random(seed)
    while True:
        try:
            problem = problem_of(random_network(rng, most), 100_000)
        except InputError:
            continue
        group = whole(problem)
        ends = [number for number, readers in enumerate(problem.graph.readers) if not readers]
        if ends == [group.output] or (len(ends) == 2 and not problem.graph.readers[0]):
            return problem, group


def shapes_in_blocks(group: Group) -> Iterator[Shape]:
    """Return all ways to add up blocks of input channels."""
    height, width = group.graph.tensors[group.output].shape[1:]
    depth = summed_channels(group.graph, group.last)
    for kernels, channels in product(range(1, group.last.units + 1), range(1, depth + 1)):
        for rows, columns in product(range(1, height + 1), range(1, width + 1)):
            yield Shape("tiles", rows * columns, kernels, frozenset(), columns, channels)
        yield Shape("channels", 1, kernels, frozenset(), None, channels)


@pytest.mark.by_day(9)
@pytest.mark.parametrize("seed", range(examples(200)))
def test_all_blocks_are_executed(seed: int) -> None:
    """Every closed form is what the simulator counts, and the ways that are listed are the best."""
    rng = random.Random(50_000 + seed)
    problem, group = random_group(50_000 + seed, 1)
    if not summed_channels(problem.graph, group.last) or not group.last.weights:
        return
    shapes = list(shapes_in_blocks(group))
    for shape in rng.sample(shapes, min(6, len(shapes))):
        executed(problem, group, shape)
    once = elements_moved(group, Shape("kernels", 1, group.last.units), group.sources, group.outputs)
    for resident in [frozenset[int](), frozenset(group.sources), frozenset([group.output])]:
        streamed = [tensor for tensor in group.sources if tensor not in resident]
        spare = once - sum(problem.graph.tensors[t].size for t in group.sources if t in resident)
        ways = [
            (
                sum(each.size for each in step_buffers(group, shape, resident)),
                elements_moved(group, shape, streamed, group.outputs),
            )
            for shape in shapes
        ]
        found = [(memory, again + spare) for memory, again, _ in shapes_by_tiles(group, resident, ANY)]
        for memory, total in ways:
            assert any(other <= memory and less <= total for other, less in found)
        assert set(found) <= set(ways)


@pytest.mark.parametrize("seed", range(examples(200)))
def test_all_strips_are_executed(seed: int) -> None:
    rng = random.Random(60_000 + seed)
    problem, group = random_group(60_000 + seed, 5)
    area = group.running or group
    for columns in rng.sample(strip_widths(group), min(2, len(strip_widths(group)))):
        for pixels in (rng.randint(1, area.plane[0]) * columns, rng.randint(1, columns)):
            shape = Shape("pixels", pixels, 1, area.keepable, columns, running=area.is_running)
            executed(problem, group, shape)


@pytest.mark.parametrize("seed", range(examples(200)))
def test_strips_that_are_not_looked_at_are_no_better(seed: int) -> None:
    rng = random.Random(70_000 + seed)
    _, group = random_group(70_000 + seed, 5)
    resident = frozenset(number for number in (*group.lines, group.output) if rng.random() < 0.3)
    rows = pareto_shapes(group, resident, 0, ANY)
    strips = [
        one for columns in strip_widths(group) for one in pareto_shapes(group, resident, 0, ANY, [columns])
    ]
    for way in strips:
        assert way.memory == sum(each.size for each in step_buffers(group, way.shape, resident))
        lines = (tensor for tensor in group.lines if tensor not in resident)
        assert way.memory >= sum(least_line(group, tensor, way.shape.columns or 0) for tensor in lines)
    every = pareto_shapes(group, resident, 0, ANY, [None, *strip_widths(group)])
    assert [way[:2] for way in every] == [way[:2] for way in undominated([*rows, *strips])]


@pytest.mark.parametrize("seed", range(examples(100)))
def test_groups_with_the_same_end_share_what_is_counted(seed: int) -> None:
    """Line buffers that are taken over from a larger group are those of the group itself."""
    problem, full = random_group(80_000 + seed, 8)
    graph = problem.graph
    for last in members(full.mask):
        done = graph.begin
        while done != graph.all:
            mask = (graph.ops.ancestors[last] | 1 << last) & ~done
            if not mask:
                break
            group, alone = problem.groups[mask], Groups(graph)[mask]
            for area, own in [
                (group, alone),
                *((strips_of(group, each), strips_of(alone, each)) for each in strip_widths(group)),
            ]:
                assert area.line_pixels(1) == own.line_pixels(1)
                assert area.active(1) == own.active(1)
            done |= mask & -mask


def counted(group: Group, pixels: int, strip: tuple[Strips, int] | None = None) -> tuple[Any, Any, Any]:
    """Return ends of passes and pixels of line buffers by tensor, and active passes by operation.

    They are those of readings of whole planes, or of a strip as if its columns were all that there are.
    """

    def columns(tensor: int) -> tuple[int, int]:
        width = group.row if tensor == group.output else group.graph.tensors[tensor].shape[2]
        return (0, width) if strip is None else tuple(int(e[strip[1]]) for e in strip[0].span(tensor))  # type: ignore[return-value]

    def readers(tensor: int) -> Iterator[tuple[int, Reading]]:
        for operation, reading in group.readers(tensor):
            (first, last), (begin, end) = columns(tensor), columns(operation.number + 1)
            yield (
                operation.number + 1,
                replace(
                    reading,
                    plane=(reading.plane[0], last - first),
                    output=(reading.output[0], end - begin),
                    before=(reading.before[0], reading.before[1] + first - begin * reading.stride[1]),
                ),
            )

    begin, end = columns(group.output)
    total = (end - begin) * group.plane[0]
    if strip is not None:  # part of a row, or as many rows as in the other strips
        width = strip[0].columns
        pixels = min(pixels, end - begin) if pixels < width else pixels // width * (end - begin)
    passes = np.arange(-(-total // pixels) + 1)
    ends, lines = {group.output: np.minimum(passes * pixels, total)}, {}
    for tensor in sorted(group.lines, reverse=True):
        ends[tensor] = np.zeros_like(passes)
        for output, reading in readers(tensor):
            needed = reading.end(ends[output])
            needed[-1] = reading.pixels
            ends[tensor] = np.maximum(ends[tensor], needed)
        first = ends[tensor][:-1]
        for output, reading in readers(tensor):
            first = np.minimum(first, reading.first(ends[output][:-1]))
        lines[tensor] = (ends[tensor][1:] - first).max()
    active = {op.number: np.count_nonzero(np.diff(ends[op.number + 1])) for op in group.operations}
    return ends, lines, active


@pytest.mark.parametrize("seed", range(examples(100)))
def test_passes_are_counted_as_windows_read(seed: int) -> None:
    """With one row a pass, two rows, and so on, all at once, and with any pixels; in rows and strips."""
    rng = random.Random(130_000 + seed)
    graph = random_group(130_000 + seed, 6)[0].graph
    last = rng.choice([op.number for op in graph.operations if not graph.begin >> op.number & 1])
    group = Groups(graph)[group_mask(graph, graph.begin, last)]
    group = group.running or group
    for pixels in [*range(group.row, group.pixels + 1, group.row), rng.randint(1, group.pixels)]:
        ends, lines, active = counted(group, pixels)
        for tensor in group.lines:
            assert (group.ends(pixels)[tensor] == ends[tensor]).all()
        assert (group.line_pixels(pixels), group.active(pixels)) == (lines, active)
    for columns in strip_widths(group):
        area = strips_of(group, columns)
        for pixels in {1, columns - 1 or 1, columns, 2 * columns}:
            alone = [
                counted(group, pixels, (area, strip)) for strip in range(len(area.span(group.output)[0]))
            ]
            for own, (ends, _, _) in zip(area.ends(pixels), alone, strict=True):
                assert all((own[tensor] == ends[tensor]).all() for tensor in (*group.lines, group.output))
            for tensor in group.lines:
                assert area.line_pixels_of(tensor, pixels) == max(lines[tensor] for _, lines, _ in alone)
            for number, passes in area.active(pixels).items():
                assert passes == sum(active[number] for _, _, active in alone)


STRIPS = Step(
    ("a", "b"),
    kept=("a", "b"),
    written=("b",),
    columns=3,
    addresses={
        "lines of input": 0,
        "lines of a": 30,
        "weights of a": 60,
        "weights of b": 80,
        "block of b": 100,
    },
)
TILES = Step(
    ("a",),
    "tiles",
    pixels=6,
    kernels=2,
    written=("a",),
    columns=3,
    channels=1,
    addresses={"lines of input": 0, "weights of a": 12, "block of a": 32},
)


@pytest.mark.parametrize(
    ("network", "step", "told"),
    [
        (CHAIN, replace(STRIPS, columns=4), "step 1 .. strips of 4"),
        (CHAIN, replace(STRIPS, columns=6), "step 1 .. strips of 6"),
        (CHAIN, replace(STRIPS, pixels=4), "step 1 .. 4 .. rows of 3 columns"),
        (CHAIN, replace(STRIPS, kept=("a",)), "step 1 .. strips"),
        (CHAIN, replace(STRIPS, channels=1), "channels .. step 1"),
        (CHAIN, replace(STRIPS, order="tiles", kept=(), channels=1), "step 1 .. one operation"),
        (CHAIN, replace(STRIPS, order="kernels"), "step 1 .. strips .. order kernels"),
        ({"layers": [LAYER]}, replace(TILES, channels=3), "step 1 .. 3 input channels .. 2"),
        ({"layers": [LAYER]}, replace(TILES, channels=None), "step 1 .. None input channels"),
        ({"layers": [LAYER]}, replace(TILES, columns=4), "step 1 .. 4 columns"),
        ({"layers": [LAYER]}, replace(TILES, order="channels"), "columns .. step 1"),
    ],
)
def test_what_is_wrong_is_said(network: dict[str, Any], step: Step, told: str) -> None:
    assert tells(violation(problem_of(network, 1000), Plan((step,))), told)


def test_the_memory_notices_what_is_lost() -> None:
    problem, plan = problem_of({"layers": [LAYER]}, 1000), Plan((TILES,))
    assert simulate(problem, plan, numeric=True).numeric is True
    broken = simulate(problem, Plan((replace(TILES, addresses={**TILES.addresses, "block of a": 25}),)))
    assert broken.violation is not None and "partial sums of a" in str(broken.violation)
    narrow = replace(STRIPS, addresses={**STRIPS.addresses, "lines of a": 12})
    broken = simulate(problem_of(CHAIN, 1000), Plan((narrow,)))
    assert broken.violation is not None and broken.violation.tensor in ("a", "input")


def test_files_without_strips_are_read() -> None:
    plan = Plan((replace(STRIPS, columns=None),))
    assert "columns" not in plan.to_json()["steps"][0] and "channels" not in plan.to_json()["steps"][0]
    assert Plan.from_json(plan.to_json()) == plan
    told = Plan((TILES,)).to_json()
    assert told["steps"][0]["columns"] == 3 and Plan.from_json(told) == Plan((TILES,))
    told["steps"][0]["columns"] = 0
    with pytest.raises(InputError, match="columns = 0"):
        Plan.from_json(told)
