"""Several memories beside DRAM: plans cross no border, and proofs hold against all plans and all places."""

from __future__ import annotations

import json
import random
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from conftest import ROOT, examples, nightly, tells
from residency_cases import ignore, random_problem, survives
from tests.fuzz.campaigns import residency_problems
from tests.oracles import TooLarge, residency

from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.residency import Problem, objective, reference, simulate, summary, traffic_curve, violation
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import taken_of_each
from tilewright.residency.plot import plot
from tilewright.residency.vocabulary import PlanView
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError

Json = dict[str, Any]
Where = dict[str, str]
"""The memory that each tensor lies in the first time that it is on chip as a whole, by name."""


class Thing(NamedTuple):
    """Something on chip: its first step, the one behind its last, its size, and new tensors."""

    begin: int
    end: int
    size: int
    names: tuple[str, ...] = ()


MOST_PLANS, MOST_LOOKED = 1_000, 20_000


def memories_of(*sizes: int) -> list[Json]:
    """Return memories of some bytes."""
    return [{"name": f"ram{place}", "bytes": size} for place, size in enumerate(sizes)]


def divided(rng: random.Random, problem: Problem) -> Json | None:
    """Return the tables of a problem with its memory divided into two or three."""
    total, count = problem.machine.memory_bytes, rng.choice([2, 2, 3])
    if total < count:
        return None
    cuts = [0, *sorted(rng.sample(range(1, total), count - 1)), total]
    memories = memories_of(*(end - begin for begin, end in pairwise(cuts)))
    told = problem.model_dump(mode="json")
    told["machine"] |= {"memories": memories, "memory": [each["name"] for each in memories]}
    return told


def solved(problem: Problem) -> Outcome:
    method = catalogue.formulation("residency", "states")
    assert method is not None
    return method.solve(problem, RunContext())


# All plans, in all places ----------------------------------------------------------------------------------


def things(told: Json, plan: Json) -> list[Thing]:
    """Return all that a plan of the oracle has on chip."""
    graph, found = residency.Graph(told, plan.get("staying", ()), plan.get("again")), list[Thing]()
    numbers = {graph.name(tensor): tensor for tensor in range(len(graph.shapes))}
    found += [Thing(0, len(plan["steps"]), size) for size in graph.staying.values()]
    state, since, seen = graph.start(), dict[int, tuple[int, tuple[str, ...]]](), set[int]()
    for place, step in enumerate(plan["steps"]):
        group = graph.group(frozenset(numbers[name] - 1 for name in step["operations"]))
        dropped, fetched, resident, written = (
            frozenset(numbers[name] for name in step[key])
            for key in ("dropped", "fetched", "resident", "written")
        )

        def ended(tensor: int, end: int) -> Thing:
            begin, names = since.pop(tensor)
            return Thing(begin, end, graph.sizes[tensor], names)

        whole = (state.chip - dropped) | fetched | resident
        replaced = None if step["in_place"] is None else numbers[step["in_place"]]
        found += [ended(tensor, place) for tensor in sorted(dropped)]
        for tensor in fetched | resident:
            since[tensor] = place, () if tensor in seen else (graph.name(tensor),)
        seen |= fetched | resident
        buffers = group.buffers(group.cut_of(step), whole, written)
        found += [Thing(place, place + 1, size) for size in buffers.values() if size]
        if replaced is not None:
            begin, names = since.pop(replaced)
            since[group.output] = begin, (*names, *since[group.output][1])
        state = graph.after(state, group, whole, written)
        found += [ended(tensor, place + 1) for tensor in sorted(since.keys() - state.chip)]
    return found


def packs(every: list[Thing], rooms: list[int], keeps: Callable[[Where], bool] = lambda _where: True) -> bool:
    """Whether there are a room and a place in it for each thing: all assignments, and all orders from below.

    Parameters
    ----------
    keeps
        What must hold of the rooms of tensors, `ram0` and so on.

    Raises
    ------
    TooLarge
        If too many are looked at.
    """
    order, looked = sorted(every, key=lambda each: (-each.size, each)), 0
    last = max(each.end for each in every)

    def fits(inside: list[Thing], room: int) -> bool:
        return all(
            sum(size for begin, end, size, _ in inside if begin <= at < end) <= room for at in range(last)
        )

    def assignments(place: int, inside: list[list[Thing]]) -> Iterator[list[list[Thing]]]:
        if place == len(order):
            yield inside
            return
        for room in range(len(rooms)):
            more = [*inside[room], order[place]]
            if fits(more, rooms[room]):
                yield from assignments(place + 1, [*inside[:room], more, *inside[room + 1 :]])

    def stacked(left: list[Thing], there: list[tuple[Thing, int]], room: int) -> bool:
        nonlocal looked
        if not left:
            return True
        looked += 1
        if looked > MOST_LOOKED:
            raise TooLarge
        lowest = there[-1][1] if there else 0
        for number, (begin, end, size, _) in enumerate(left):
            beside = [at + other.size for other, at in there if begin < other.end and other.begin < end]
            at = max(beside, default=0)
            rest, placed = [*left[:number], *left[number + 1 :]], [*there, (left[number], at)]
            if lowest <= at <= room - size and stacked(rest, placed, room):
                return True
        return False

    known: dict[tuple[int, tuple[Thing, ...]], bool] = {}

    def packed(inside: list[Thing], room: int) -> bool:
        key = room, tuple(inside)
        if key not in known:
            known[key] = stacked(inside, [], room)
        return known[key]

    def where(inside: list[list[Thing]]) -> Where:
        return {
            name: f"ram{room}" for room, those in enumerate(inside) for each in those for name in each.names
        }

    return any(
        keeps(where(inside)) and all(packed(each, room) for each, room in zip(inside, rooms, strict=True))
        for inside in assignments(0, [[] for _ in rooms])
    )


def least(told: Json, name: str, keeps: Callable[[Where], bool] = lambda _where: True) -> int | None:
    """Return the least of an objective of all plans that have a place for everything; None if none has."""
    width = told["machine"]["element_bytes"]
    rooms = [each["bytes"] // width for each in told["machine"]["memories"]]
    found = sorted(
        ((costs[name], sorted(things(told, plan))) for plan, costs in residency.plans(told, MOST_PLANS)),
        key=lambda each: each[0],
    )
    seen = set[tuple[Thing, ...]]()
    for cost, every in found:
        if tuple(every) not in seen and packs(every, rooms, keeps):
            return cost
        seen.add(tuple(every))
    return None


@pytest.mark.parametrize("seed", range(examples(200, 6)))
def test_proofs_hold_against_all_plans_in_all_places(seed: int) -> None:
    rng = random.Random(f"memories {seed}")
    name = rng.choice(["traffic", "traffic", "cycles", "energy"])
    limits = {"tiles": rng.random() < 0.5} | rng.choice([{}, {}, {"frames": "many"}, {"executions": 2}])
    machine = {"element_bytes": 1 if limits.get("frames") else rng.choice([1, 1, 2])}
    aim = {"minimise": name if len(limits) == 1 else "traffic"}
    told = None
    while told is None:
        one = random_problem(rng, 2 if limits["tiles"] else 3, limits=limits, objective=aim)
        told = divided(
            rng,
            one.with_(
                machine=machine | {"memory_bytes": one.machine.memory_bytes * machine["element_bytes"]}
            ),
        )
    try:
        best = least(told, aim["minimise"])
    except TooLarge:
        pytest.skip("too large for the oracle")
    try:
        problem = Problem.model_validate(told)
    except InputError:
        assert best is None
        return
    outcome = solved(problem)
    if outcome.plan is None:
        assert outcome.status == "unknown" or best is None
        return
    survives(problem, outcome.plan)
    assert best is not None
    assert outcome.bound <= best <= objective(problem, outcome.plan)


@pytest.mark.parametrize("seed", range(examples(150, 4)))
def test_constraints_on_memories_are_kept(seed: int) -> None:
    rng, told = random.Random(f"memory_of {seed}"), None
    while told is None:
        told = divided(rng, random_problem(rng, 3, limits={"tiles": False}))
    try:
        problem = Problem.model_validate(told)
    except InputError:
        return
    names = [each.name for each in problem.graph.tensors if each.readers]
    one, other = rng.choice(names), rng.choice(names)
    ram = rng.choice([region.name for region in problem.machine.regions])
    says, keeps = rng.choice(
        [
            (f"memory_of({one}) == {ram}", lambda where: where.get(one) == ram),
            (f"memory_of({one}) != {ram}", lambda where: where.get(one) != ram),
            (f"memory_of({one}) == nowhere", lambda where: one not in where),
            (f"memory_of({one}) == memory_of({other})", lambda where: where.get(one) == where.get(other)),
            (f"memory_of({one}) != memory_of({other})", lambda where: where.get(one) != where.get(other)),
        ]
    )
    try:
        best = least(told, "traffic", keeps)
    except TooLarge:
        pytest.skip("too large for the oracle")
    asked = problem.where(says)
    result = solve(asked, "states", time_limit=60, confirm=False)
    shown = f"{says}: {json.dumps(told)}"
    assert result.status != "infeasible" or best is None, shown
    if result.plan is None:
        return
    survives(problem, result.plan)
    view = PlanView(problem, result.plan)
    assert keeps({name: at for name in names if (at := view.memory_of(name)) != "nowhere"}), shown
    assert best is not None and result.bound <= best <= result.objective, shown


@pytest.mark.parametrize("seed", range(examples(200, 6)))
def test_rules_and_the_search_cross_no_border(seed: int) -> None:
    rng, told = random.Random(f"rules {seed}"), None
    limits = rng.choice([{}, {"frames": "many"}, {"executions": 2}, {"order": "given"}])
    aim = rng.choice(["traffic", "memory", "cycles"]) if limits.keys() <= {"order"} else "traffic"
    machine = residency_problems.rates(rng) if aim == "cycles" else {}
    while told is None:
        one = random_problem(rng, 5, limits=limits, objective={"minimise": aim}, machine=machine)
        told = divided(rng, one)
    if rng.random() < 0.4:  # not all of the memories may be taken
        told["machine"]["memory_bytes"] -= rng.randint(0, told["machine"]["memory_bytes"] // 5)
    try:
        problem = Problem.model_validate(told)
    except InputError:
        return
    plans = [outcome.plan] if (outcome := solved(problem)).plan is not None else []
    plans += catalogue.constructed(problem, ignore)
    for plan in plans:
        survives(problem, plan)
        taken = taken_of_each(problem, plan, decode_plan(problem, plan))
        rooms = [region.elements for region in problem.machine.regions]
        assert all(one <= other for one, other in zip(taken, rooms, strict=True))
        assert sum(taken) <= problem.machine.memory_bytes
        measures = simulate(problem, plan).measures
        assert [each.memory_bytes for each in measures.memories.values()] == taken
        assert outcome.bound <= objective(problem, plan)


@pytest.mark.parametrize("seed", range(examples(25, 1)))
def test_the_reference_model_agrees_with_all_places(seed: int) -> None:
    rng, best, told, problem = random.Random(f"model {seed}"), None, None, None
    while best is None or problem is None or reference.why_not(problem) is not None:
        told = divided(rng, random_problem(rng, 2, limits={"tiles": False}))
        if told is None:
            continue
        with suppress(InputError, TooLarge):
            problem = Problem.model_validate(told)
            best = least(told, "traffic")
    try:
        result = solve(problem, "reference@gecode", time_limit=120, confirm=False, warm_start="none")
    except SolverMissingError as error:
        pytest.skip(str(error))
    assert (result.status, result.objective) == ("optimal", best), json.dumps(told)
    survives(problem, result.plan)


def test_what_no_memory_holds_is_refused() -> None:
    shape = {"input": [2, 4, 4], "output": [2, 4, 4]}
    softmax = {"name": "all", "kind": "function", "op": "softmax", "along": ["rows", "columns"], **shape}
    told: Json = {"network": {"layers": [softmax]}, "machine": {"memories": memories_of(32, 33)}}
    assert solved(Problem.model_validate(told)).status == "optimal"
    told["machine"]["memories"] = memories_of(31, 31, 31)
    with pytest.raises(InputError) as error:
        Problem.model_validate(told)
    assert tells(str(error.value), "machine.memory .. all does not fit .. 32 bytes or more .. largest has 31")


def test_plans_that_cross_a_border_are_told() -> None:
    layers = [{"name": "a", "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}]
    memories = memories_of(9, 30)
    problem = Problem.model_validate({"network": {"layers": layers}, "machine": {"memories": memories}})
    plan = solved(problem).plan
    assert plan is not None
    sizes = simulate(problem, plan).measures.steps_of_plan["a"].on_chip_bytes
    name = next(name for name, size in sizes.items() if size > 1)
    step = replace(plan.steps[0], addresses=plan.steps[0].addresses | {name: 8})
    across = replace(plan, steps=(step,))
    assert tells(
        str(violation(problem, across)), f"memory: step 1: {name} takes elements 8 .. ram0 ends at 9"
    )
    assert tells(str(simulate(problem, across).violation), "addresses below 9 in memory ram0")


def test_what_is_not_done_in_several_memories_is_refused() -> None:
    layers = [{"name": "a", "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}]
    memories = memories_of(40, 30)
    base = {"network": {"layers": layers}, "machine": {"memories": memories}}
    problem = Problem.model_validate(base)
    with pytest.raises(InputError, match="no curve"):
        traffic_curve(problem)
    many = problem.with_(limits={"frames": "many"})
    with pytest.raises(InputError, match="several memories"):
        many.where("memory_of(a) == ram0")
    slow = [memories[0] | {"read_waits": 1.0}, memories[1]]
    with pytest.raises(InputError, match="without DRAM"):
        Problem.model_validate(base | {"machine": {"memories": slow}})
    flash = {"name": "flash", "bytes": 40, "read_only": True}
    with pytest.raises(InputError, match="flash"):
        Problem.model_validate(base | {"machine": {"memories": [*memories, flash]}})


def test_models_that_count_sizes_alone_are_for_one_memory() -> None:
    layers = [{"name": "a", "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}]
    problem = Problem.model_validate(
        {"network": {"layers": layers}, "machine": {"memories": memories_of(40, 30)}}
    )
    with pytest.raises(TilewrightError, match="might cross borders"):
        solve(problem, "columns_intervals@highs")
    result = solve(problem, "columns_in_turn", confirm=False)
    assert (result.status, result.objective) == ("optimal", objective(problem, solved(problem).plan))


def test_tables_and_pictures_tell_the_memories() -> None:
    layers = [{"name": name, "input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]} for name in "ab"]
    problem = Problem.model_validate(
        {"network": {"layers": layers}, "machine": {"memories": memories_of(8, 10)}}
    )
    plan = solved(problem).plan
    report = simulate(problem, plan)
    taken = [each.memory_bytes for each in report.measures.memories.values()]
    assert all(taken)
    told = dict(summary.rows(problem, report.measures))
    assert [told[f"ram{place}"] for place in (0, 1)] == [f"{taken[0]} of 8 bytes", f"{taken[1]} of 10 bytes"]
    header, first, *_ = summary.table(problem, report.measures)
    step = next(iter(report.measures.steps_of_plan.values()))
    held = {name: sum(each.values()) for name, each in step.memories.items()}
    assert {name: int(first[header.index(f"in {name}")]) for name in held} == held
    axes = plot(problem, plan, report)
    assert {"ram0", "ram1"} <= {text.get_text() for text in axes.texts}


@nightly
@pytest.mark.parametrize(
    ("sizes", "moved", "bound"),
    [
        ((32_768,), 87_892, 87_892),
        ((16_384, 16_384), 87_892, 87_892),
        ((4_096, 28_672), 87_892, 87_892),
        ((10_923, 10_923, 10_922), 87_892, 87_892),
        ((8_192,) * 4, 113_556, 87_892),
        ((24_576,), 104_276, 104_276),
        ((12_288, 12_288), 104_276, 104_276),
        ((4_096, 20_480), 104_276, 104_276),
        ((8_192,) * 3, 113_556, 104_276),
    ],
)
def test_the_table_of_the_page_holds(sizes: tuple[int, ...], moved: int, bound: int) -> None:
    network = tomllib.loads((ROOT / "instances" / "networks" / "resnet8.toml").read_text("utf-8"))
    problem = Problem.model_validate({"network": network, "machine": {"memories": memories_of(*sizes)}})
    result = solve(problem, "states", time_limit=120)
    assert (result.objective, result.bound) == (moved, bound)
