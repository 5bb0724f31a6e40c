"""The fewest accesses for every capacity: against enumeration, searches at one capacity, and the bound."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import hierarchies
import pytest
from conftest import tells
from matplotlib.figure import Figure
from picture_checks import check_fits
from searches import joined_fronts, proven_best, undominated

from tilewright.core.pebble_game import Work, pebble_game
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling import (
    MACHINES,
    Plan,
    Problem,
    best_bound,
    measured_objective,
    objective,
    simulate,
    violation,
)
from tilewright.tiling import plot as pictures
from tilewright.tiling.hierarchy.curve import any_schedule
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.several_objectives import recheck
from tilewright.tiling.summary import rows, table

ASKED = {"minimise": "pareto", "between": ["accesses", "capacity"]}
NEVER = float("inf")


def drawn(rng: Random, most: int) -> Problem:
    """Draw a front of a layer on a machine with two memories."""
    while True:
        machine = hierarchies.machine(rng, choosing=rng.random() < 0.4, sliding=rng.random() < 0.5)
        if len(machine.levels) == 2:
            try:
                return Problem(layer=hierarchies.layer(rng, most), machine=machine, objective=ASKED)
            except InputError:  # not even the smallest tile fits
                continue


def front(problem: Problem) -> list[tuple[int, int]]:
    """Return what the simulator says that the plans have of accesses and need of capacity."""
    found = MACHINES["hierarchy"].exhaustive(problem, NEVER)
    if found is None:
        return []
    assert found.proven
    plan = Plan(found.layers, front=True)
    assert violation(problem, plan) is None
    report = simulate(problem, plan)
    assert report.violation is None
    assert report.measures.accesses_elements == found.value == objective(problem, plan)
    for point in report.measures.front:
        assert point.least_accesses_elements <= point.accesses_elements
    return [(point.accesses_elements, point.capacity_bytes) for point in report.measures.front]


def enumerated(layer: Layer, machine: HierarchyMachine, most: int) -> list[tuple[int, int]] | None:
    """Return the front of all plans in any order of loops; None if there are more than `most`."""
    plans = hierarchies.everything(layer, machine, most)
    if plans is None:
        return None
    found = set()
    problem = Problem(layer=layer, machine=machine)
    # The order of the loops inside of the memory is not what moves anything outside.
    for plan in {(plan.kept, plan.nest[0]): plan for plan in plans}.values():
        nest = Nest(layer, machine, plan)
        if nest.violation() is None:
            needed = -(-sum(nest.needed_bits(1).values()) // 8)
            found.add((objective(problem, Plan((plan,))), needed))
    return undominated(found)


@pytest.mark.slow
def test_agrees_with_enumeration() -> None:
    several = halos = chosen = 0
    for seed in range(16):
        problem = drawn(Random(seed), 24)
        level = problem.machine.levels[1]
        expected = enumerated(problem.one_layer, problem.machine, 3000)
        if expected is None:
            continue
        assert front(problem) == expected, seed
        several += len(expected) > 2
        halos += level.halo
        chosen += bool(level.may_hold)
    assert several >= 6
    assert halos >= 7
    assert chosen >= 2


def buffer(capacity: int, **fields: Any) -> dict[str, Any]:
    level = {"name": "buffer", "capacity_bytes": capacity, **fields}
    return {"kind": "hierarchy", "levels": [{"name": "dram"}, level]}


def test_agrees_with_the_search_at_each_capacity_and_just_below() -> None:
    compared = 0
    for seed in range(6):
        rng = Random(seed)
        layer = hierarchies.overlapping(rng, 200)
        fields = {"halo": rng.random() < 0.5, "double_buffering": rng.random() < 0.5}

        def least(capacity: int, layer: Layer = layer, fields: dict[str, Any] = fields) -> int:
            one = Problem.model_validate({"layer": layer, "machine": buffer(capacity, **fields)})
            return proven_best(one).value

        points = front(
            Problem.model_validate({"layer": layer, "machine": buffer(2**20, **fields), "objective": ASKED})
        )
        for (accesses, capacity), (more, _) in pairwise(points):
            assert (least(capacity), least(capacity - 1)) == (accesses, more)
            compared += 1
        assert least(points[-1][1]) == points[-1][0]
        with pytest.raises(InputError, match="smallest tile"):
            least(points[-1][1] - 1)
    assert compared > 20


def test_bound_falls_and_stays_below_what_is_possible() -> None:
    """Also at capacities between the points, where all plans need less, and with elements of any widths."""
    tight = 0
    for seed in range(40):
        problem = drawn(Random(seed), 2000)
        layer, machine = problem.one_layer, problem.machine
        points, bounds = front(problem), []
        for i, (accesses, capacity) in enumerate(points):
            largest = points[i - 1][1] - 1 if i else 2**40
            bounds += [any_schedule(layer, machine, each) for each in (largest, capacity)]
            assert bounds[-2] <= bounds[-1] <= accesses
            tight += bounds[-1] == accesses
        assert bounds == sorted(bounds)
    assert tight > 10


@pytest.mark.parametrize("width", [8, 32])
def test_elements_of_one_width_are_those_of_a_dsp(width: int) -> None:
    layer = {"input": [32, 16, 16], "kernels": 32, "kernel": [3, 3]}
    table = buffer(1024) | {"bits": dict.fromkeys(("input", "weights", "output", "partial"), width)}
    problem = Problem.model_validate({"layer": layer, "machine": table})
    work = Work.of(problem.one_layer)
    bound = any_schedule(problem.one_layer, problem.machine, 1024)
    assert bound == pebble_game(work, 8 * 1024 // width).accesses > pebble_game(work, 2048).accesses


def network(*capacities: int) -> Problem:
    layers = [
        {"name": "a", "input": [2, 6, 6], "kernels": 4, "kernel": [3, 3]},
        {"name": "b", "input": [4, 4, 4], "kernels": 6, "kernel": [1, 1]},
        {"name": "c", "input": [6, 4, 4], "kernels": 2, "kernel": [3, 3]},
        {"name": "d", "input": [2, 2, 2], "kernels": 6, "kernel": [2, 2]},
    ]
    return Problem.model_validate(
        {"network": {"layers": layers}, "machine": buffer(*capacities), "objective": ASKED}
    )


def test_a_network_has_for_every_capacity_the_sum_of_its_layers() -> None:
    problem = network(2**20)
    plan = joined_fronts(problem)
    assert Plan.from_json(plan.to_json()) == plan
    assert violation(problem, plan) is None
    report = simulate(problem, plan)
    points = report.measures.front
    assert objective(problem, plan) == measured_objective(problem, report) == points[0].accesses_elements
    assert best_bound(problem).value <= points[0].accesses_elements
    assert all(one.accesses_elements < other.accesses_elements for one, other in pairwise(points))
    smallest = points[-1].capacity_bytes
    for i, point in enumerate(points):
        for capacity in (point.capacity_bytes, points[i - 1].capacity_bytes - 1 if i else 2**20):
            parts = [part.with_(machine=buffer(capacity)) for _, part in problem.parts]
            layers = [MACHINES["hierarchy"].exhaustive(part, NEVER) for part in parts]
            assert sum(layer.value for layer in layers if layer is not None) == point.accesses_elements
        assert point.least_accesses_elements <= point.accesses_elements
    with pytest.raises(InputError, match="smallest tile"):
        network(smallest - 1)
    [(what, holds, _)] = recheck(problem, plan, NEVER)
    assert (what, holds) == ("front", True)
    shorter = Plan((Plan(plan.split()[0].layers[1:], front=True), *plan.layers[1:]))
    [(what, holds, detail)] = recheck(problem, shorter, NEVER)
    assert (what, holds) == ("front", False)
    assert detail.startswith("layer a: ")


@pytest.mark.parametrize("front_of_all", [True, False])
def test_a_network_takes_a_front_of_each_layer(front_of_all: bool) -> None:
    problem = network(2**20)
    singles = tuple(one.layers[0] for one in joined_fronts(problem).split())
    plan = Plan(singles, front=front_of_all)
    assert "kind of plan" in str(violation(problem, plan))
    assert "kind of plan" in str(simulate(problem, plan).violation)


def test_summaries_show_what_each_power_of_two_allows() -> None:
    problem = network(2**20)
    report = simulate(problem, joined_fronts(problem))
    points = report.measures.front
    header, *lines = table(problem, report.measures)
    assert header == ("bytes", "needed", "accesses", "any schedule", "/least")
    numbers = [[int(cell.replace(",", "")) for cell in line[:4]] for line in lines]
    assert [line[0] for line in numbers] == [2**power for power in range(3, 3 + len(lines))]
    assert numbers[0][0] / 2 < points[-1].capacity_bytes <= numbers[0][0]
    assert numbers[-1][0] / 2 < points[0].capacity_bytes <= numbers[-1][0]
    for capacity, needed, accesses, least in numbers:
        best = next(point for point in points if point.capacity_bytes <= capacity)
        assert (best.capacity_bytes, best.accesses_elements) == (needed, accesses)
        assert least <= best.least_accesses_elements
    [told] = [words for what, words in rows(problem, report.measures) if what == "front"]
    assert f"{points[-1].accesses_elements:,} accesses in {points[-1].capacity_bytes:,} bytes" in told


@pytest.mark.by_day(3)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_curves_are_drawn_above_the_bound(suffix: str, tmp_path: Path, new_figures: list[Figure]) -> None:
    problem = network(2**20)
    plan = joined_fronts(problem)
    report = simulate(problem, plan)
    pictures.draw(problem, plan, report, tmp_path / f"curve{suffix}")
    assert (tmp_path / f"curve{suffix}").stat().st_size > 10_000
    axes = pictures.plot(problem, plan, report)
    check_fits(new_figures[0])
    points = {(point.capacity_bytes, point.accesses_elements) for point in report.measures.front}
    curve, bound = (line.get_xydata() for line in axes.lines)
    drawn_points = {(int(x), int(y)) for x, y in curve}
    assert points < drawn_points
    assert len(drawn_points) == len(points) + 1  # the last step goes on
    for capacity, least in bound:
        assert least <= min(accesses for needed, accesses in points if needed <= capacity)


@pytest.mark.parametrize(
    ("machine", "asked", "field", "told"),
    [
        (buffer(64), {"between": ["capacity", "accesses"]}, "objective.between", "comes first"),
        (buffer(64), {"between": ["cycles", "capacity"]}, "objective.between", "['accesses', 'capacity']"),
        (buffer(64), {"level": "buffer"}, "objective.level", "dram"),
        (
            {"kind": "hierarchy", "levels": [*buffer(64)["levels"], {"name": "l0", "capacity_bytes": 64}]},
            {},
            "objective.between",
            "two memories .. dram, buffer, l0",
        ),
    ],
)
def test_fronts_that_do_not_exist_are_refused(
    machine: dict[str, Any], asked: dict[str, Any], field: str, told: str
) -> None:
    layer = {"input": [2, 6, 6], "kernels": 4, "kernel": [3, 3]}
    with pytest.raises(InputError) as caught:
        Problem.model_validate({"layer": layer, "machine": machine, "objective": ASKED | asked})
    assert caught.value.field == field and tells(caught.value.limit, told)


def test_layers_with_too_many_blocks_are_not_begun() -> None:
    layer = {"input": [5040, 720, 720], "kernels": 5040, "kernel": [1, 1], "batch": 720}
    problem = Problem.model_validate({"layer": layer, "machine": buffer(64), "objective": ASKED})
    with pytest.raises(OutOfTimeError):
        MACHINES["hierarchy"].exhaustive(problem, NEVER)
