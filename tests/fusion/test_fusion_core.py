"""Groups of operations in tiles: closed forms against the simulator and enumeration, plans and refusals."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from conftest import examples, nightly, tells
from fusion_at_random import (
    AnyGroups,
    Table,
    any_tile,
    group,
    network,
    plan,
    problem,
    problems,
    randoms,
    scaled,
    tile,
)
from hypothesis import given, settings

import tilewright
from tilewright import fusion
from tilewright.codegen.schedule import schedule
from tilewright.core import catalogue
from tilewright.fusion import Plan, Problem, evaluation
from tilewright.fusion.group.best_tile import (
    TileChoice,
    best_tile,
    block_sizes,
    cycle_limit,
    evaluate_tile,
    halved_sizes,
    is_tried,
    tile_sizes,
    violation,
)
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule
from tilewright.fusion.group.tile_costs import AxisTiles, TileCosts, only
from tilewright.fusion.lowering import Lowering
from tilewright.fusion.machine import BUFFERS
from tilewright.fusion.plan import HALOS, ORDERS, PARAMETERS, Group, Tile
from tilewright.fusion.selection.candidates import Candidate, candidates
from tilewright.fusion.selection.execution_order import order_groups
from tilewright.run.instance import build
from tilewright.simulator import Compute, Program, Report, execute
from tilewright.spec.base import unchecked_copy
from tilewright.spec.errors import InputError

OBJECTIVES = ("cycles", "traffic", "energy", "memory")

SMALL: Table = {
    "conv_array": (4, 4, 2),
    "clock_mhz": 100,
    "input_bytes": 4000,
    "output_bytes": 4000,
    "parameter_bytes": 6000,
    "load_mb_per_s": 400,
    "save_mb_per_s": 400,
    "operands_per_cycle": 8,
    "issue_cycles": 100,
}
"""A machine whose buffers hold some maps of small networks, and not others."""


def simulated(problem: Problem, plan: Plan, any_tiles: bool = False) -> Report:
    """Simulate a plan, which may have tiles of other sizes than those that are searched."""
    with pytest.MonkeyPatch.context() as patch:
        if any_tiles:
            patch.setattr(evaluation, "is_tried", lambda *_: True)
        return _simulated(problem, plan)


def _simulated(problem: Problem, plan: Plan) -> Report:
    assert fusion.violation(problem, plan) is None
    report = fusion.simulate(problem, plan, numeric=True)
    assert report.violation is None, report.violation
    assert report.numeric
    return report


def with_machine(problem: Problem, **changes: Any) -> Problem:
    """Return the problem on another machine, with nothing known of it."""
    table = {name: getattr(problem, name) for name in type(problem).model_fields}
    return type(problem)(**table | {"machine": problem.machine.model_copy(update=changes)})


# Closed forms against the simulator ------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.slow
@given(problems(host=True))
@settings(max_examples=examples(150))
def test_execution_confirms_the_closed_forms(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    made = plan(random, problem)
    report = simulated(problem, made, any_tiles=True)
    costs = fusion.choices(problem, made)
    for one, found in zip(costs, report.measures.groups.values(), strict=True):
        measured = found.duration_cycles, found.traffic_bytes, found.energy_nj
        assert measured == (one.cycles, one.traffic, one.energy)
        assert (found.buffers_bytes, found.memory_bytes) == (list(one.buffers), one.peak)
    assert report.scheduled is not None
    hosted = report.measures.host_cycles or 0
    assert (
        report.scheduled.cycles
        == report.measures.duration_cycles - hosted
        == sum(one.cycles for one in costs)
    )
    assert bool(hosted) == (problem.machine.host is not None and bool(report.measures.on_host))
    assert fusion.measured_objective(problem, report) == fusion.objective(problem, made)
    assert fusion.best_bound(problem).value <= fusion.objective(problem, made)


@pytest.mark.slow
@given(problems())
@settings(max_examples=examples(150))
def test_groups_in_tiles_of_all_kinds(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    chosen = group(random, problem)
    fused = problem.fused(chosen)
    one = evaluate_tile(problem, fused, tile(random, fused))
    report = execute(program_of(fused, one))
    assert report.violation is None, report.violation
    assert report.scheduled is not None
    assert report.scheduled.cycles == one.cycles
    moved = [*report.loaded.values(), *report.written.values()]
    assert sum(int(counts.sum()) for counts in moved) * problem.machine.element_bytes == one.traffic
    assert TileCosts.of(fused, one.tile).bound().item() <= one.cycles


def program_of(fused: FusedGroup, one: TileChoice) -> Program:
    """Return the program of a group with its tile and no more memory than it says."""
    width = fused.machine.element_bytes
    first, second, third = (size // width for size in one.buffers)
    return Lowering(GroupSchedule(fused, one.tile), (first, second, third)).program()


@given(problems())
@settings(max_examples=examples(60))
def test_many_tiles_are_measured_like_one(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    fused = problem.fused(group(random, problem))
    one = any_tile(random, fused)
    height, width = fused.plane
    rows = random.sample(range(1, height + 1), min(height, 3))
    columns = random.sample(range(1, width + 1), min(width, 3)) if one.halo == "recompute" else [width]
    ways = [
        replace(one, kernels=kernels, channels=channels)
        for kernels in random.sample(range(1, 8), 2)
        for channels in {one.channels, max(1, fused.summed(fused.loaded))}
    ]
    if fused.whole_only:
        rows, columns = [height], [width]
    together = TileCosts(fused, AxisTiles(fused, 0, rows), AxisTiles(fused, 1, columns), ways)
    shape = len(ways), len(rows), len(columns)

    def at(table: Any, place: tuple[int, ...]) -> int:
        return int(np.broadcast_to(table, shape)[place])

    for place in np.ndindex(shape):
        way, row, column = place
        alone = TileCosts.of(fused, replace(ways[way], rows=rows[row], columns=columns[column]))
        for name in ("input", "output", "parameters", "loads", "saves", "macs", "possible"):
            assert at(getattr(together, name), place) == np.asarray(getattr(alone, name)).item(), name
        assert at(together.bound(), place) == alone.bound().item()


# The best tile ---------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("minimise", OBJECTIVES)
@given(random=randoms)
@settings(max_examples=examples(20))
def test_the_best_tile_is_that_of_enumeration(minimise: str, random: Random) -> None:
    """Of all tiles of the sizes that are searched, whatever else a plan may say of them."""
    limits = {"halo": random.choice(["any", *HALOS]), "tiles": random.choice(["grid", "any"])}
    tables = {"objective": {"minimise": minimise}, "limits": limits}
    roomy = problem(random, network(random, most=3, side=4), **tables)
    nodes = group(random, roomy)
    # Buffers in which something fits, and not always everything.
    fused = roomy.fused(nodes)
    some = evaluate_tile(roomy, fused, tile(random, fused)).buffers
    small = {f"{name}_bytes": size for name, size in zip(BUFFERS, some, strict=True) if random.random() < 0.5}
    try:
        tight = with_machine(roomy, **small)
    except InputError:  # some other operation has too little
        tight = roomy
    orders = [tight.fused(order) for order in tight.orders_of(nodes).listed]
    of_order = [[evaluate_tile(tight, fused, one) for one in searched(tight, fused)] for fused in orders]
    found, every = best_tile(tight, nodes), [one for choices in of_order for one in choices]
    # Of tiles that cost the same it is the one that moves least, and so on.
    assert (found and found.rank) == min((one.rank for one in every), default=None)
    assert found is None or found._replace(places=()) in every
    fused, every = orders[0], [one.tile for one in of_order[0]]
    for one in (*every[:3], any_tile(random, fused)):
        if violation(fused, one) is None:
            assert is_tried(tight, fused, one, False) == (one in every)


def searched(problem: Problem, fused: FusedGroup) -> list[Tile]:
    """Return the tiles of which the best one is searched: of a coarse grid, or else of finer ones."""
    (height, width), (ins, outs, high) = fused.plane, problem.machine.conv_array
    most = max(fused.features[feature].shape[0] for feature in fused.members)
    deep = max(1, fused.summed(fused.loaded))
    grids = [
        (tile_sizes(height, high), halved_sizes(width)[:3], outs, ins),
        (tile_sizes(height, high), halved_sizes(width)[3:], outs, ins),
        (halved_sizes(height), halved_sizes(width), 1, 1),
    ]
    if problem.limits.tiles == "any" and not fused.whole_only:
        grids = [(range(1, height + 1), range(1, width + 1), 0, 0)]
    count = 1 if fused.whole_only else 2 if len(fused.members) > 1 else 3
    for rows, columns, out_step, in_step in grids[:count]:
        if problem.limits.tiles == "any":
            kernels, depths = range(1, most + 1), range(1, deep + 1) if fused.sums else [deep]
        else:
            kernels, depths = (
                block_sizes(most, out_step),
                block_sizes(deep, in_step) if fused.sums else [deep],
            )
        ways = product(rows, columns, kernels, depths, HALOS, ORDERS, PARAMETERS)
        every = [one for values in ways if is_plain(fused, one := Tile(*values))]
        if problem.limits.halo != "any":  # which is about what two tiles share
            whole = fused.plane
            every = [
                one for one in every if one.halo == problem.limits.halo or (one.rows, one.columns) == whole
            ]
        fitting = [one for one in every if violation(fused, one) is None]
        if fitting:
            return fitting
    return []


def test_kept_halos_are_tried_with_all_input_channels() -> None:
    table = layers()
    table["layers"][0]["input"] = (12, 8, 8)  # three passes of the array
    problem = layered(network=table)
    fused = problem.fused((0,))
    for channels in (4, 8, 12):
        assert is_tried(problem, fused, Tile(2, 8, 4, channels), False)
        assert is_tried(problem, fused, Tile(2, 8, 4, channels, "keep"), False) == (channels == 12)


def is_plain(fused: FusedGroup, tile: Tile) -> bool:
    """Whether a tile says nothing that makes no difference."""
    alone = (tile.rows, tile.columns) == fused.plane
    if tile.parameters == "keep" and not fused.weighted:
        return False
    ahead = fused.passes(replace(tile, parameters="stream"))  # all parameters are loaded as early as possible
    if (tile.order, tile.parameters) == ("kernels", "keep") and not alone:
        # Two channel blocks of all operations are there in any case, which may be more than all there are.
        sizes = [only(TileCosts.of(fused, replace(tile, parameters=each)).parameters) for each in PARAMETERS]
        return fused.features[fused.loaded].shape[0] > 2 * tile.kernels or sizes[0] != sizes[1]
    return not alone or (tile.halo == "recompute" and (tile.parameters == "stream" or ahead))


# Whole networks and known blocks ---------------------------------------------------------------------


def dense_block(layers: int, growth: int, side: int) -> Table:
    """Return a block of DenseNet: each layer normalises and reads all maps before it, concatenated."""
    tables: list[Table] = []
    names, channels = ["input"], 3
    for number in range(layers):
        shape = channels, side, side
        tables += [
            {
                "name": f"norm{number}",
                "kind": "map",
                "op": "batch_norm",
                "inputs": tuple(names),
                "input": shape,
            },
            {"name": f"squeeze{number}", "input": shape, "kernels": 2 * growth, "kernel": (1, 1)},
            {
                "name": f"conv{number}",
                "input": (2 * growth, side, side),
                "kernels": growth,
                "kernel": (3, 3),
                "padding": (1, 1, 1, 1),
            },
        ]
        tables[-3]["parameters"] = 2 * channels
        if len(names) > 1:
            tables.insert(
                -3, {"name": f"all{number}", "kind": "concat", "inputs": tuple(names), "input": shape}
            )
            tables[-3]["inputs"] = (f"all{number}",)
        names.append(f"conv{number}")
        channels += growth
    return {"layers": tables}


NETWORKS = {
    "resnet50": lambda: scaled("resnet50", 32, 16),
    "googlenet": lambda: scaled("googlenet", 32, 16),
    "squeezenet": lambda: scaled("squeezenet", 35, 8),
    "mobilenetv2": lambda: scaled("mobilenetv2", 32, 8),
    "densenet": lambda: dense_block(4, 5, 9),
}


@pytest.mark.nightly
@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "arrays"),
    [
        ("resnet50", 2),
        pytest.param("googlenet", 1, marks=nightly),
        ("squeezenet", 2),
        ("mobilenetv2", 1),
        pytest.param("densenet", 1, marks=nightly),
        ("densenet", 2),
    ],
)
def test_small_copies_of_known_networks(name: str, arrays: int) -> None:
    tables = {"network": NETWORKS[name](), "machine": SMALL | {"arrays": arrays}}
    problem = Problem.model_validate(tables)
    greedy = catalogue.heuristic("fusion", "greedy").plan(problem)
    assert len(greedy.groups) < len(problem.ops)
    simulated(problem, greedy)
    simulated(problem, catalogue.heuristic("fusion", "layerwise").plan(problem))


def test_an_optimum_is_simulated() -> None:
    problem = Problem.model_validate({"network": NETWORKS["densenet"](), "machine": SMALL})
    result = tilewright.solve(problem, method="downsets", time_limit=600)
    assert result.status == "optimal"
    report = simulated(problem, result.plan)
    assert fusion.measured_objective(problem, report) == result.objective


@pytest.mark.parametrize(
    ("between", "shape"),
    [
        ({"kind": "pad", "padding": (1, 1, 1, 1)}, (4, 10, 10)),
        ({"kind": "opaque", "op": "Resize", "output": (4, 16, 16)}, (4, 16, 16)),
        ({"kind": "reshape", "op": "transpose", "output": (8, 4, 8)}, (8, 4, 8)),
        ({"kind": "fc", "input": (256, 1, 1), "kernel": (1, 1), "kernels": 7, "bias": True}, (7, 1, 1)),
    ],
)
def test_the_host_computes_what_else_there_is(between: Table, shape: tuple[int, int, int]) -> None:
    table = layers()
    host = {"name": "host", "input": (4, 8, 8), **between}
    pool = {"name": "pool", "kind": "pool", "input": shape, "kernel": (1, 1)}
    problem = layered(network={"layers": [table["layers"][0], host, pool]})
    made = catalogue.heuristic("fusion", "greedy").plan(problem)
    assert [group.tile is None for group in made.groups] == [False, True, False]
    assert simulated(problem, made).measures.on_host == ["host"]


@pytest.mark.parametrize(
    ("minimise", "added"), [("cycles", 68), ("energy", 6), ("traffic", 0), ("memory", 0)]
)
def test_a_host_with_a_price_is_counted(minimise: str, added: int) -> None:
    classes = {
        "name": "classes",
        "kind": "fc",
        "input": (256, 1, 1),
        "kernel": (1, 1),
        "kernels": 7,
        "bias": True,
    }
    network = {"layers": [layers()["layers"][0], classes]}
    energy = {"pj_per_dram_byte": 1, "milliwatts": 10}
    free = layered(network=network, machine=SMALL | {"energy": energy}, objective={"minimise": minimise})
    priced = free.with_(machine={"host": {"cycles_per_byte": 0.03, "cycles_per_call": 6}})
    made = catalogue.heuristic("fusion", "greedy").plan(free)
    reports = [simulated(each, made) for each in (free, priced)]
    moved = 256 + 257 * 7 + 7
    assert [report.measures.host_cycles for report in reports] == [None, 6 + -(-3 * moved // 100)]
    assert {(report.measures.host_bytes, report.measures.host_macs) for report in reports} == {(moved, 1792)}
    before, after = (fusion.objective(each, made) for each in (free, priced))
    assert (after, fusion.measured_objective(priced, reports[1])) == (before + added, before + added)
    assert cycle_limit(priced) - cycle_limit(free) == 68
    rows = [
        dict(fusion.ROOM.rows(each, report.measures))["host"]
        for each, report in zip((free, priced), reports, strict=True)
    ]
    assert rows[0] == "1 operations, not counted: 0.00 MB, 1,792 MACs; classes"
    assert rows[1] == "1 operations, 68 cycles of the total: 0.00 MB, 1,792 MACs; classes"


BLOCKS = {
    "bottleneck": ("resnet50", 14, 1, "block3/unit_3/conv1", "block3/unit_3/add"),
    "inception": ("googlenet", 7, 2, "inception_5b/1x1", "inception_5b/output"),
    "fire": ("squeezenet", 13, 1, "fire9/squeeze1x1", "fire9/expand3x3"),
}


@pytest.mark.nightly
@pytest.mark.parametrize("name", BLOCKS)
def test_known_blocks_in_all_groups(name: str) -> None:
    """Groups do not depend on each other: each that templates allow is in one of the plans."""
    table = {
        "network": scaled(*BLOCKS[name]),
        "machine": catalogue.shared("machines", "dnnvm-zu9") | {"arrays": 1},
    }
    problem = Problem.model_validate(table)
    left = {one.nodes: one for one in candidates(problem)}
    alone = {nodes[0]: one for nodes, one in left.items() if len(nodes) == 1}
    while left:
        chosen: list[Candidate] = []
        for one in list(left.values()):
            others = [*chosen, one]
            held = [number for each in others for number in each.nodes]
            rest = [single for number, single in alone.items() if number not in held]
            if len(set(held)) == len(held) and _can_be_ordered(problem, [*others, *rest]):
                chosen = others
                del left[one.nodes]
        held = [number for each in chosen for number in each.nodes]
        rest = [single for number, single in alone.items() if number not in held]
        simulated(problem, order_groups(problem, [*chosen, *rest]))


def _can_be_ordered(problem: Problem, chosen: list[Candidate]) -> bool:
    try:
        order_groups(problem, chosen)
    except ValueError:
        return False
    return True


# The simulator as a judge ----------------------------------------------------------------------------


@given(problems())
@settings(max_examples=examples(60))
def test_what_is_left_out_is_found(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    program = program_of(*any_group(random, problem))
    steps = list(program.steps)
    del steps[random.randrange(len(steps))]
    assert execute(replace(program, steps=steps)).violation is not None


def any_group(random: Random, problem: Problem) -> tuple[FusedGroup, TileChoice]:
    assert isinstance(problem, AnyGroups)
    fused = problem.fused(group(random, problem))
    return fused, evaluate_tile(problem, fused, tile(random, fused))


@given(problems())
@settings(max_examples=examples(60))
def test_nothing_can_begin_earlier(drawn: tuple[Random, AnyGroups]) -> None:
    """Each instruction waits for its engine, or its data, or a place; not all places are ever full."""
    random, problem = drawn
    program = program_of(*any_group(random, problem))
    issued = [n for n, step in enumerate(program.steps) if not step.free and step.start != first(program)]
    if not issued:
        return
    moved = random.choice(issued)
    step = program.steps[moved]
    found = execute(earlier(program, moved)).violation
    if found is None:
        assert step.label.split()[0] in ("load", "fetch", "compute")
        line = execute(program).scheduled
        assert line is not None
        (own,) = np.flatnonzero(line.step == moved)
        before = line.finish[:own][[engine == line.engine[own] for engine in line.engine[:own]]]
        assert before.max(initial=0) < step.start


def first(program: Program) -> int | None:
    return program.steps[0].start


def earlier(program: Program, moved: int) -> Program:
    """Return the program with a step that begins one cycle earlier."""
    steps = list(program.steps)
    start = steps[moved].start
    assert start is not None
    steps.append(replace(steps.pop(moved), start=start - 1))
    return replace(program, steps=sorted(steps, key=lambda step: (step.start, not step.free)))


def layers(side: int = 8) -> Table:
    """Return convolutions, a pool, and what the host computes."""
    return {
        "layers": [
            {"name": "a", "input": (3, side, side), "kernels": 4, "kernel": (3, 3), "padding": (1, 1, 1, 1)},
            {"name": "b", "input": (4, side, side), "kernels": 4, "kernel": (3, 3), "padding": (1, 1, 1, 1)},
            {"name": "c", "kind": "pool", "input": (4, side, side), "kernel": (2, 2), "stride": (2, 2)},
            {"name": "d", "input": (4, side // 2, side // 2), "kernels": 8, "kernel": (1, 1)},
            {"name": "e", "kind": "map", "op": "softmax", "input": (8, side // 2, side // 2)},
        ]
    }


def layered(**tables: Any) -> Problem:
    changes = tables.pop("machine", {})
    found: Problem = build("fusion", {"network": layers(), "machine": SMALL | changes} | tables)
    return found


STRIPES = Tile(2, 8, 4, 3, parameters="keep")


WHOLE = Tile(8, 8, 4, 4)
PLAN = (Group(("a", "b"), STRIPES), Group(("c", "d"), Tile(4, 4, 4, 1)), Group(("e",), None))


def striped() -> tuple[FusedGroup, TileChoice]:
    """Return two convolutions in tiles of two rows, which overlap, and which are slow to load and to save."""
    problem = layered(machine={"load_mb_per_s": 40, "save_mb_per_s": 20})
    fused = problem.fused((0, 1))
    return fused, evaluate_tile(problem, fused, STRIPES)


@pytest.mark.parametrize("buffer", range(3))
def test_a_buffer_of_one_byte_less_overflows(buffer: int) -> None:
    fused, one = striped()
    program = program_of(fused, one)
    assert execute(program).valid
    taken = list(one.buffers)
    taken[buffer] -= 1
    first, second, third = taken
    found = execute(program_of(fused, one._replace(buffers=(first, second, third)))).violation
    assert found is not None
    assert found.rule == "memory overflow"
    name = f"{BUFFERS[buffer]}_bytes"
    told = violation(layered(machine={name: taken[buffer]}).fused((0, 1)), STRIPES)
    assert tells(told, f"buffers .. {taken[buffer] + 1} bytes .. {BUFFERS[buffer]} buffer .. {taken[buffer]}")


def test_what_is_too_early_is_told() -> None:
    program = program_of(*striped())
    rules: dict[str, set[str]] = {}
    for number, step in enumerate(program.steps):
        if step.start != first(program):
            found = execute(earlier(program, number)).violation
            rules.setdefault(step.label, set()).add(found.rule if found else "")
    assert rules == {
        "load input": {"engine busy"},
        "fetch a": {"engine busy"},
        "fetch b": {"engine busy"},
        "compute a": {"not ready"},
        "compute b": {"not ready"},
        "save b": {"not ready", "engine busy"},
        "free input": {"in use"},
        "free a": {"in use"},
        "drop a": {"in use"},
        "drop b": {"in use"},
    }


def test_schedules_with_fewer_places_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a place for one tile only, what is reserved is too little for two."""
    fused, one = striped()
    assert list(fused.slots) == [2, 1, 2]
    monkeypatch.setattr(FusedGroup, "slots", np.ones(3, dtype=np.int64))
    _, small = striped()
    assert small.buffers < one.buffers
    assert small.cycles > one.cycles
    found = execute(program_of(fused, one._replace(buffers=small.buffers))).violation
    assert found is not None
    assert found.rule == "memory overflow"


def test_windows_that_are_too_small_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FusedGroup.spans

    def cut(fused: FusedGroup, axis: int, sizes: Any) -> Any:
        spans = whole(fused, axis, sizes)
        for span in spans:
            span[0, 1:, 0] += 1
        return spans

    monkeypatch.setattr(FusedGroup, "spans", cut)
    found = execute(program_of(*striped())).violation
    assert found is not None
    assert found.rule == "not resident"


def test_numbers_tell_what_rules_do_not() -> None:
    """A convolution with the weights of other kernels moves what it should, and computes something else."""
    problem, original = layered(), Lowering._compute

    def swapped(self: Lowering, *arguments: Any) -> Compute:
        found = original(self, *arguments)
        operation: Any = found.operation
        low, high = operation.channels
        return replace(found, operation=replace(operation, channels=(0, high - low)))

    assert fusion.simulate(problem, Plan(PLAN), numeric=True).valid
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Lowering, "_compute", swapped)
        report = fusion.simulate(problem, Plan(PLAN), numeric=True)
        assert report.violation is None
        assert report.numeric is False


# What was wrong once ---------------------------------------------------------------------------------

FEEDS: Table = {"input_bytes": 3000, "output_bytes": 3000, "parameter_bytes": 3000}
ENERGY: Table = {"pj_per_dram_byte": 160, "pj_per_mac": 1, "milliwatts": 500}


def branches(left_first: bool) -> Table:
    """Return a network whose two branches after a pool stand in the file in one order or the other."""
    ones = (1, 1, 1, 1)
    tables = [
        {"name": "c1", "input": (1, 10, 8), "kernels": 3, "kernel": (3, 3), "padding": ones},
        {"name": "dw", "input": (3, 10, 8), "kernels": 3, "kernel": (3, 3), "padding": ones, "groups": 3},
        {"name": "ad", "kind": "add", "inputs": ("c1", "dw"), "input": (3, 10, 8)},
        {"name": "po", "kind": "pool", "input": (3, 10, 8), "kernel": (2, 2), "stride": (2, 2)},
        {"name": "left", "inputs": ("po",), "input": (3, 5, 4), "kernels": 8, "kernel": (1, 1)},
        {"name": "right", "inputs": ("po",), "input": (3, 5, 4), "kernels": 8, "kernel": (3, 3),
         "padding": ones},
        {"name": "cc", "kind": "concat", "inputs": ("left", "right"), "input": (16, 5, 4)},
        {"name": "f", "kind": "fc", "inputs": 320, "outputs": 5},
    ]  # fmt: skip
    return {"layers": tables if left_first else [*tables[:4], tables[5], tables[4], *tables[6:]]}


@pytest.mark.by_day(3)
@pytest.mark.parametrize("method", ["downsets", "columns_partition@highs"])
@pytest.mark.parametrize("left_first", [True, False])
def test_an_optimum_is_that_of_all_orders(left_first: bool, method: str) -> None:
    problem = layered(
        network=branches(left_first), machine=FEEDS | {"energy": ENERGY}, objective={"minimise": "energy"}
    )
    assert tilewright.solve(problem, method=method, time_limit=600).objective == 6_105


def test_parameters_may_stay_in_the_loop_over_kernels() -> None:
    machine = {
        "conv_array": (2, 4, 2), "save_mb_per_s": 50, "operands_per_cycle": 16, "issue_cycles": 0,
        "input_bytes": 783, "output_bytes": 727, "parameter_bytes": 141, "energy": ENERGY,
    }  # fmt: skip
    layer = {"name": "a", "input": (6, 4, 5), "kernel": (2, 2), "stride": (3, 2), "padding": (1, 1, 0, 0),
             "kernels": 5, "bias": False}  # fmt: skip
    problem = layered(network={"layers": [layer]}, machine=machine, limits={"halo": "recompute"})
    assert tilewright.solve(problem, method="downsets").objective == 88  # 90 with what streams


@pytest.mark.parametrize("channels", [1, 4])
def test_parameters_of_split_channels_come_once_with_the_loop_over_kernels_outside(channels: int) -> None:
    machine = {
        "conv_array": (1, 4, 1), "element_bytes": 2, "load_mb_per_s": 130, "save_mb_per_s": 50,
        "operands_per_cycle": 4, "issue_cycles": 10, "input_bytes": 518, "output_bytes": 41,
        "parameter_bytes": 208,
    }  # fmt: skip
    layer = {"name": "a", "input": (4, 5, 7), "kernel": (2, 3), "stride": (2, 1), "padding": (0, 1, 1, 0),
             "kernels": 2}  # fmt: skip
    problem = layered(network={"layers": [layer]}, machine=machine)
    tile = Tile(1, 2, 2, channels, order="kernels")
    report = simulated(problem, Plan((Group(("a",), tile),)))
    # The map's nine tiles of two values, whose windows of pixels overlap, and the weights and biases once.
    assert report.measures.loaded_bytes == 536


def test_what_sums_and_pools_read_is_loaded_where_channels_are_split() -> None:
    plane = [4, 4, 3]
    conv = {"name": "a", "input": plane, "kernels": 4, "kernel": [1, 1]}
    pool = {"name": "z", "inputs": ["input"], "kind": "pool", "op": "max", "input": plane, "kernel": [1, 1]}
    around = {"kind": "pool", "op": "max", "kernel": [3, 1], "padding": [1, 1, 0, 0]}
    layers = [
        conv,
        pool,
        {"name": "b", "inputs": ["a", "z"], "kind": "add", "input": plane},
        {"name": "c", "inputs": ["b", "z"], "kind": "add", "input": plane},
        {"name": "d", "inputs": ["c"], "input": plane, **around},
    ]
    asked = problem(Random(1), {"layers": layers})
    fused = asked.fused((0, 2, 3, 4))
    assert fused.sums and not fused.blockwise[1]  # both sums read z
    alone = Group(("z",), Tile(*fused.plane, 4, 1))
    for rows, channels, order, parameters in product((1, 2, 4), (1, 2, 4), ORDERS, PARAMETERS):
        tile = Tile(rows, 3, 2, channels, "recompute", order, parameters)
        if violation(fused, tile) is None:
            simulated(asked, Plan((alone, Group(("a", "b", "c", "d"), tile))), any_tiles=True)


def test_groups_have_keys_of_their_own() -> None:
    """A group of `a` and `b` is told from an operation that is called `a+b`."""
    tables = [
        {"name": "a", "input": (3, 12, 12), "kernels": 4, "kernel": (3, 3), "padding": (1, 1, 1, 1)},
        {"name": "b", "kind": "pool", "input": (4, 12, 12), "kernel": (2, 2), "stride": (2, 2)},
        {"name": "a+b", "input": (4, 6, 6), "kernels": 8, "kernel": (3, 3)},
    ]
    problem = layered(network={"layers": tables})
    plan = Plan((Group(("a", "b"), Tile(6, 6, 4, 3)), Group(("a+b",), Tile(4, 4, 8, 4))))
    told = {"a+b": ["a", "b"], "a\\+b": ["a+b"]}
    measured = simulated(problem, plan).measures.to_json()["groups"]
    scheduled = schedule("", "", problem, plan)["groups"]
    for groups in (measured, scheduled):
        assert {name: [*group["operations"]] for name, group in groups.items()} == told


def test_an_output_that_is_read_inside_is_saved() -> None:
    """The file's outputs are all maps but one: each is saved once, wherever its readers are."""
    table = layers()
    four = {"name": "four", "nodes": ("any",) * 4, "edges": ((0, 1), (1, 2), (2, 3))}
    problem = layered(network={"layers": table["layers"][:4], "outputs": ["a", "c", "d"]}, templates=(four,))
    whole = Plan((Group(("a", "b", "c", "d"), Tile(4, 4, 8, 3)),))
    report = simulated(problem, whole)
    assert report.measures.saved_bytes == 4 * 8 * 8 + 4 * 4 * 4 + 8 * 4 * 4
    alone = catalogue.heuristic("fusion", "layerwise").plan(problem)
    assert simulated(problem, alone).measures.saved_bytes == 4 * 8 * 8 * 2 + 4 * 4 * 4 + 8 * 4 * 4


# Rules of plans --------------------------------------------------------------------------------------


def tiled(**changes: Any) -> Group:
    return replace(PLAN[0], tile=replace(STRIPES, **changes))


def of(*names: str, tile: Tile | None = WHOLE) -> Group:
    return Group(names, tile)


@pytest.mark.parametrize(
    ("groups", "told"),
    [
        (PLAN, None),
        ((of("x"),), "operations .. group 1 (x) .. unknown operation x"),
        ((*PLAN, of("a")), "operations .. group 4 (a) .. a .. earlier"),
        (PLAN[:1], "operations .. no group .. c, d, e"),
        ((of("b", "a"),), "order .. group 1 (b, a)"),
        ((of("a", "a"),), "order .. group 1 (a, a)"),
        ((of("b"), of("a")), "order .. group 1 (b) .. reads a"),
        ((of("a", "c"), of("b")), "order .. group 1 (a, c) .. reads b"),
        ((*PLAN[:2], of("e")), "host .. group 3 (e)"),
        ((PLAN[0], of("c", "d", "e", tile=None)), "host .. group 2 (c, d, e)"),
        ((of("a", tile=None),), "tile .. group 1 (a) .. none"),
        ((of("a", "b", "c", "d"),), "template .. group 1 (a, b, c, d) .. none"),
        ((of("a", "b", "c", tile=Tile(2, 4, 4, 4)),), "template .. group 1 (a, b, c) .. tiled"),
        ((tiled(rows=3),), "tile .. group 1 (a, b) .. sizes"),
        ((tiled(rows=9),), "tile .. group 1 (a, b) .. 9 rows .. 8"),
        ((tiled(columns=9),), "tile .. group 1 (a, b) .. 9 columns .. 8"),
        (
            (tiled(halo="keep", columns=4),),
            "tile .. group 1 (a, b) .. halos .. full width",
        ),
        (
            (tiled(order="kernels", parameters="stream"),),
            "tile .. group 1 (a, b) .. one stage .. loop",
        ),
        (
            (of("a", tile=replace(STRIPES, halo="keep", channels=2)),),
            "tile .. group 1 (a) .. halos .. input channels",
        ),
    ],
)
def test_rules_of_plans(groups: tuple[Group, ...], told: str | None) -> None:
    pairs = {"name": "pairs", "nodes": ("conv|pool", "conv|pool"), "edges": ((0, 1),)}
    triples = {"name": "triples", "nodes": ("conv", "conv", "pool"), "edges": ((0, 1), (1, 2)), "whole": True}
    problem = layered(templates=(pairs, triples))
    found = fusion.violation(problem, Plan(groups))
    assert (found is None) == (told is None)
    report = fusion.simulate(problem, Plan(groups))
    assert report.valid == (told is None)
    if told is not None:
        assert tells(found, told)
        assert report.violation is not None
        assert report.violation.rule == told.partition(" .. ")[0]


def test_maps_that_leave_must_not_overlap_and_have_one_size() -> None:
    table = layers()
    table["layers"][3] |= {"inputs": ("b",), "input": (4, 8, 8)}  # b leaves, or is read beside its group
    table["layers"][4]["input"] = (8, 8, 8)
    problem = layered(network=table)
    fused = problem.fused((1, 2))
    told = violation(fused, Tile(2, 2, 4, 4))
    assert told is None
    fused = problem.fused((2, 3))
    told = violation(fused, Tile(4, 8, 4, 4))
    assert tells(told, "tile .. maps that leave .. size")
    fused = problem.fused((0, 1, 3))
    assert violation(fused, Tile(2, 8, 4, 4)) is None
    table["layers"][2] |= {"kernel": (3, 3)}
    problem = layered(network=table)
    told = violation(problem.fused((1, 2)), Tile(1, 3, 4, 4))
    assert tells(told, "tile .. map that leaves .. overlap")


@given(problems())
@settings(max_examples=examples(60))
def test_buffers_must_hold_what_is_reserved(drawn: tuple[Random, AnyGroups]) -> None:
    random, problem = drawn
    fused, one = any_group(random, problem)
    machine = fused.machine
    for name, taken in zip(BUFFERS, one.buffers, strict=True):
        fused.machine = unchecked_copy(machine, **{f"{name}_bytes": taken})
        assert violation(fused, one.tile) is None
        fused.machine = unchecked_copy(machine, **{f"{name}_bytes": taken - 1})  # which may be none
        told = violation(fused, one.tile)
        assert tells(told, f"buffers .. {taken} bytes .. {name} buffer .. {taken - 1}")


@pytest.mark.parametrize("halo", HALOS)
def test_halos_are_limited(halo: str) -> None:
    problem = layered(limits={"halo": halo})
    for one in HALOS:
        made = Plan((tiled(halo=one), *PLAN[1:]))
        assert (fusion.violation(problem, made) is None) == (one == halo)
    found = best_tile(problem, (0, 1))
    assert found is not None
    assert found.tile.halo == halo or found.tile.rows == 8


def test_memory_within_a_number_of_cycles() -> None:
    problem = layered(objective={"minimise": "memory"})
    layerwise = catalogue.heuristic("fusion", "layerwise").plan(layered())
    slowest = sum(one.cycles for one in fusion.choices(problem, layerwise))
    assert cycle_limit(problem) == slowest
    assert fusion.violation(problem, layerwise) is None
    report = simulated(problem, layerwise)
    assert (
        fusion.objective(problem, layerwise)
        == report.measures.memory_bytes
        == fusion.measured_objective(problem, report)
    )
    assert report.measures.memory_bytes == max(one.peak for one in fusion.choices(problem, layerwise))
    hasty = layered(objective={"minimise": "memory", "most_cycles": slowest - 1})
    assert tells(fusion.violation(hasty, layerwise), f"cycles .. {slowest} .. {slowest - 1}")


# What is read ----------------------------------------------------------------------------------------


@given(problems(host=True))
@settings(max_examples=examples(20))
def test_plans_survive_json(drawn: tuple[Random, AnyGroups]) -> None:
    made = plan(*drawn)
    assert Plan.from_json(json.loads(json.dumps(made.to_json()))) == made


def changed(change: Callable[[Any], None]) -> Any:
    """Return the JSON object of a plan, with a change."""
    data = Plan(PLAN).to_json()
    change(data)
    return data


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (None, "plan"),
        ({"groups": []}, "plan"),
        ({"groups": [], "more": 1}, "plan"),
        (changed(lambda data: data.update(more=1)), "plan"),
        (changed(lambda data: data["groups"].append("a")), "plan.groups[3]"),
        (changed(lambda data: data["groups"][0].pop("tile")), "plan.groups[0]"),
        (changed(lambda data: data["groups"][1].update(nodes=[])), "plan.groups[1].nodes"),
        (changed(lambda data: data["groups"][1].update(nodes=["c", 1])), "plan.groups[1].nodes"),
        (changed(lambda data: data["groups"][1]["tile"].pop("rows")), "plan.groups[1].tile"),
        (changed(lambda data: data["groups"][1]["tile"].update(rows=0)), "plan.groups[1].tile.rows"),
        (changed(lambda data: data["groups"][1]["tile"].update(rows=True)), "plan.groups[1].tile.rows"),
        (changed(lambda data: data["groups"][1]["tile"].update(kernels=2.0)), "plan.groups[1].tile.kernels"),
        (changed(lambda data: data["groups"][1]["tile"].update(halo=["keep"])), "plan.groups[1].tile.halo"),
        (changed(lambda data: data["groups"][1]["tile"].update(order="rows")), "plan.groups[1].tile.order"),
    ],
)
def test_plans_that_are_none(data: Any, field: str) -> None:
    with pytest.raises(InputError) as error:
        Plan.from_json(data, "plan.json")
    assert (error.value.field, error.value.file) == (field, "plan.json")


SOFTMAX = {"layers": [{"name": "e", "kind": "map", "op": "softmax", "input": (8, 4, 4)}]}
POOL = {"layers": [{"name": "e", "kind": "pool", "input": (8, 4, 4), "kernel": (2, 2)}]}
CONV_ADD = {"name": "sum", "nodes": ("conv", "add"), "edges": ((0, 1),)}


@pytest.mark.parametrize(
    ("tables", "told"),
    [
        ({"machine": {"parameter_bytes": 0}}, ["machine.parameter_bytes"]),
        ({"machine": {"conv_array": (4, 4)}}, ["machine.conv_array"]),
        ({"machine": {"frequency": 3}}, ["machine.frequency"]),
        ({"network": SOFTMAX}, ["network.layers", "no operation"]),
        ({"templates": (CONV_ADD,)}, ["templates = 'sum'", "matches nothing"]),
        ({"templates": (CONV_ADD, CONV_ADD)}, ["templates = 'sum'", "two templates have this name"]),
        ({"templates": ()}, ["templates"]),
        ({"objective": {"most_cycles": 9}}, ["objective.most_cycles = 9", "memory"]),
        ({"objective": {"minimise": "time"}}, ["objective.minimise"]),
        (
            {"objective": {"minimise": "energy"}, "machine": {"energy": {}}},
            ["objective.minimise = 'energy'", "nothing has a price", "machine.energy.pj_per_dram_byte"],
        ),
        (
            {"objective": {"minimise": "energy"}, "machine": {"energy": {"pj_per_mac": 5}}, "network": POOL},
            ["objective.minimise = 'energy'", "MACs", "machine.energy.milliwatts"],
        ),
        ({"limits": {"halo": "none"}}, ["limits.halo"]),
    ],
)
def test_bad_input_is_refused(tables: dict[str, Any], told: list[str]) -> None:
    with pytest.raises(InputError) as error:
        layered(**tables)
    for words in told:
        assert tells(error.value, words)


def test_a_network_must_fit_together() -> None:
    table = layers()
    table["layers"][1]["input"] = (4, 7, 8)
    with pytest.raises(InputError, match=r"network\.layers\[1\]\.input = .* layer b .* a 4x8x8"):
        layered(network=table)
