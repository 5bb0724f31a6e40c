"""Groups of operations in tiles: closed forms against the simulator and enumeration, plans and refusals."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from fusion_at_random import (
    AnyGroups,
    any_tile,
    group,
    network,
    plan,
    problem,
    problems,
    randoms,
    tile,
)
from hypothesis import given, settings

from tilewright import catalogue, fusion
from tilewright.errors import InputError
from tilewright.fusion import Plan, Problem
from tilewright.fusion.layout import Layout
from tilewright.fusion.measure import Along, Measured
from tilewright.fusion.plan import HALOS, ORDERS, PARAMETERS, Tile
from tilewright.fusion.problem import BUFFERS
from tilewright.fusion.program import Lowering
from tilewright.fusion.structure import Structure
from tilewright.fusion.tiles import Choice, best, choice, fault, halves, sizes, turns
from tilewright.instance import validated
from tilewright.simulator import Program, Report, execute

OBJECTIVES = ("cycles", "traffic", "energy", "memory")

ZU9 = validated(Problem.model_fields["machine"].annotation, catalogue.shared("machines", "dnnvm-zu9"))
ZU2 = validated(Problem.model_fields["machine"].annotation, catalogue.shared("machines", "dnnvm-zu2"))


def simulated(problem: Problem, plan: Plan) -> Report:
    assert fusion.fault(problem, plan) is None
    report = fusion.simulate(problem, plan, numeric=True)
    assert report.violation is None, report.violation
    assert report.numeric
    return report


def with_machine(problem: Problem, **changes: Any) -> Problem:
    """Return the problem on another machine, with nothing known of it."""
    table = {name: getattr(problem, name) for name in type(problem).model_fields}
    return type(problem)(**table | {"machine": problem.machine.model_copy(update=changes)})


# Closed forms against the simulator ------------------------------------------------------------------


@given(problems(host=True))
@settings(max_examples=150)
def test_execution_confirms_the_closed_forms(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    made = plan(random, problem)
    report = simulated(problem, made)
    costs = fusion.choices(problem, made)
    for one, facts in zip(costs, report.facts["groups"], strict=True):
        assert (facts["cycles"], facts["traffic"], facts["energy"]) == (one.cycles, one.traffic, one.energy)
        assert (facts["buffers"], facts["memory"]) == (list(one.buffers), one.peak)
    assert report.scheduled is not None
    assert report.scheduled.cycles == report.facts["cycles"] == sum(one.cycles for one in costs)
    assert fusion.measured_objective(problem, report) == fusion.objective(problem, made)
    assert fusion.best_bound(problem).value <= fusion.objective(problem, made)


@given(problems())
@settings(max_examples=150)
def test_groups_in_tiles_of_all_kinds(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    chosen = group(random, problem)
    structure = Structure(problem, chosen)
    one = choice(problem, structure, tile(random, structure))
    report = execute(program_of(structure, one))
    assert report.violation is None, report.violation
    assert report.scheduled is not None
    assert report.scheduled.cycles == one.cycles
    moved = [*report.loaded.values(), *report.written.values()]
    assert sum(int(counts.sum()) for counts in moved) * problem.machine.element_bytes == one.traffic
    assert measured(structure, one.tile).bound().item() <= one.cycles


def program_of(structure: Structure, one: Choice) -> Program:
    """Return the program of a group with its tile and no more memory than it says."""
    width = structure.machine.element_bytes
    first, second, third = (size // width for size in one.buffers)
    return Lowering(Layout(structure, one.tile), (first, second, third)).program()


def measured(structure: Structure, tile: Tile) -> Measured:
    return Measured(structure, Along(structure, 0, [tile.rows]), Along(structure, 1, [tile.columns]), [tile])


@given(problems())
@settings(max_examples=60)
def test_many_tiles_are_measured_like_one(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    structure = Structure(problem, group(random, problem))
    one = any_tile(random, structure)
    height, width = structure.plane
    rows = random.sample(range(1, height + 1), min(height, 3))
    columns = random.sample(range(1, width + 1), min(width, 3)) if one.halo == "recompute" else [width]
    ways = [
        replace(one, kernels=kernels, channels=channels)
        for kernels in random.sample(range(1, 8), 2)
        for channels in {one.channels, max(1, structure.summed(structure.loaded))}
    ]
    if structure.whole_only:
        rows, columns = [height], [width]
    together = Measured(structure, Along(structure, 0, rows), Along(structure, 1, columns), ways)
    shape = len(ways), len(rows), len(columns)

    def at(table: Any, place: tuple[int, ...]) -> int:
        return int(np.broadcast_to(table, shape)[place])

    for place in np.ndindex(shape):
        way, row, column = place
        alone = measured(structure, replace(ways[way], rows=rows[row], columns=columns[column]))
        for name in ("input", "output", "parameters", "loads", "saves", "macs", "possible"):
            assert at(getattr(together, name), place) == np.asarray(getattr(alone, name)).item(), name
        assert at(together.bound(), place) == alone.bound().item()


# The best tile ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("minimise", OBJECTIVES)
@given(random=randoms)
@settings(max_examples=10)
def test_the_best_tile_is_that_of_enumeration(minimise: str, random: Random) -> None:
    """Of all tiles of the sizes that are searched, whatever else a plan may say of them."""
    tables = {"objective": {"minimise": minimise}, "limits": {"halo": random.choice(["any", *HALOS])}}
    roomy = problem(random, network(random, most=3, side=4), **tables)
    nodes = group(random, roomy)
    # Buffers in which something fits, and not always everything.
    structure = Structure(roomy, nodes)
    some = choice(roomy, structure, tile(random, structure)).buffers
    small = {f"{name}_bytes": size for name, size in zip(BUFFERS, some, strict=True) if random.random() < 0.5}
    try:
        tight = with_machine(roomy, **small)
    except InputError:  # some other operation has too little
        tight = roomy
    found = best(tight, nodes)
    costs = [choice(tight, structure, one).cost for one in searched(tight, Structure(tight, nodes))]
    assert (found and found.cost) == min(costs, default=None)
    if found is not None:
        assert fault(Structure(tight, nodes), found.tile) is None
        assert found == choice(tight, structure, found.tile)


def searched(problem: Problem, structure: Structure) -> list[Tile]:
    """Return the tiles of which the best one is searched: those of a coarse grid, or else of finer ones."""
    (height, width), (ins, outs, high) = structure.plane, problem.machine.conv_array
    most = max(structure.features[feature].shape[0] for feature in structure.members)
    deep = max(1, structure.summed(structure.loaded))
    grids = [
        (sizes(height, high), halves(width)[:3], turns(most, outs), turns(deep, ins)),
        (sizes(height, high), halves(width)[3:], turns(most, outs), turns(deep, ins)),
        (halves(height), halves(width), turns(most, 1), turns(deep, 1)),
    ]
    for grid in grids[: 1 if structure.whole_only else 3]:
        every = (Tile(*values) for values in product(*grid, HALOS, ORDERS, PARAMETERS))
        fitting = [one for one in every if fault(structure, one) is None]
        if problem.limits.halo != "any":  # which is about what two tiles share
            fitting = [
                one
                for one in fitting
                if one.halo == problem.limits.halo or (one.rows, one.columns) == structure.plane
            ]
        if fitting:
            return fitting
    return []
