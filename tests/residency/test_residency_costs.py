"""Time, energy and lists of objectives of residency agree with enumeration and with the simulator."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest
from conftest import examples
from residency_cases import after, all_steps, problem_of, random_network, start_of

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, Problem, Step, best_bound, objective, simulate, violation
from tilewright.residency.decode_plan import StepDecoder, decode_plan
from tilewright.residency.exact.labels import LabelSearch
from tilewright.residency.exact.priced_steps import FIELDS, PricedSteps
from tilewright.residency.exact.time_and_energy import best, recheck
from tilewright.residency.graph import InvalidPlanError
from tilewright.residency.transitions import State
from tilewright.run.machines import with_own_machine
from tilewright.spec.errors import InputError

NEVER = float("inf")
Costs = tuple[int, ...]


def ignore(_told: Any) -> None:
    """Take what is told of a search."""


def random_problem(rng: random.Random, most: int, **rest: Any) -> Problem:
    """Return a problem on a machine with random rates and prices."""
    while True:
        network = random_network(rng, most)
        machine = {
            "bus_elements_per_cycle": rng.choice([1, 2, 3, 8]),
            "macs_per_cycle": rng.choice([1, 2, 3, 8]),
            "dma_setup_cycles": rng.choice([0, 1, 7]),
            "double_buffering": rng.random() < 0.7,
        }
        if rng.random() < 0.5:
            machine["vector_ops_per_cycle"] = rng.randint(1, 3)
        if rng.random() < 0.5:
            machine["energy"] = {
                "core_fj_per_cycle": rng.randint(0, 9),
                "local_fj_per_access": rng.randint(0, 9),
                "local_access_bytes": rng.choice([1, 4, 64]),
                "dram_fj_per_access": rng.randint(0, 99),
                "dram_access_bytes": rng.choice([1, 3, 8]),
            }
        try:
            whole = problem_of(network, 10_000)
            least = whole.least_memory
            everything = sum(tensor.size for tensor in whole.graph.tensors)
            size = rng.randint(least, least + max(1, everything // 2))
            return Problem.model_validate(
                {"network": network, "machine": {"memory_bytes": size, **machine}, **rest}
            )
        except InputError:
            continue


def front(problem: Problem, names: tuple[str, ...]) -> list[Costs]:
    """Return what all plans cost that no other is as good as, counting what is on chip by size."""
    graph = problem.graph
    decoder = StepDecoder(problem)
    fronts: dict[State, list[Costs]] = {start_of(graph): [(0,) * len(names)]}
    while True:
        state = min((state for state in fronts), key=lambda state: state.done.bit_count())
        if state.done == graph.all:
            return better([costs for each in fronts.values() for costs in each])
        reached = fronts.pop(state)
        moves: dict[State, list[Costs]] = {}
        for step in all_steps(graph, state, doubled=problem.machine.double_buffering):
            try:
                told = decoder.decode(step, state)
            except InvalidPlanError:
                continue
            moves.setdefault(after(graph, told), []).append(
                tuple(getattr(told.spent, FIELDS[name]) for name in names)
            )
        for reached_state, costs in moves.items():
            found = [
                tuple(a + b for a, b in zip(one, other, strict=True))
                for one in reached
                for other in better(costs)
            ]
            fronts[reached_state] = better([*fronts.get(reached_state, []), *found])


def better(found: list[Costs]) -> list[Costs]:
    """Return those that no other is as good as."""
    kept: list[Costs] = []
    for costs in sorted(set(found)):
        if not any(all(a <= b for a, b in zip(each, costs, strict=True)) for each in kept):
            kept.append(costs)
    return kept


def survives(problem: Problem, plan: Any) -> None:
    """Execute a plan; all its costs must be those of the closed forms."""
    assert violation(problem, plan) is None
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None, report.violation
    assert report.numeric is True
    assert problem.measured(report.measures) == objective(problem, plan)
    steps = decode_plan(problem, plan)
    for step, told in zip(report.measures.steps_of_plan.values(), steps, strict=True):
        traffic = step.loaded_bytes + step.saved_bytes
        measured = {"cycles": step.cycles, "energy": step.energy_fj, "traffic": traffic}
        assert measured == problem.spent(told.spent)


@pytest.mark.parametrize("seed", range(examples(64)))
def test_the_search_agrees_with_enumeration(seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice(["cycles", "cycles", "energy"])
    problem = random_problem(rng, rng.choice([1, 2, 2, 3]), objective={"minimise": name})
    (least,) = min(front(problem, (name,)))
    labels = LabelSearch(PricedSteps(problem, problem.machine.capacity, (name,)), (None,))
    assert next(labels.paths()).cost == least
    answer = best(problem, NEVER, ignore, ignore)
    part = {"cycles": problem.prices.cycle, "energy": problem.prices.femtojoule}[name]
    assert answer.bound == -(-least // part) >= best_bound(problem).value
    if answer.plan is not None:
        survives(problem, answer.plan)
        assert objective(problem, answer.plan) >= answer.bound


def units(problem: Problem, names: tuple[str, ...], costs: Costs) -> dict[str, int]:
    """Return what plans cost in the units of objectives."""
    parts = {"cycles": problem.prices.cycle, "energy": problem.prices.femtojoule, "traffic": 1}
    return {name: -(-cost // parts[name]) for name, cost in zip(names, costs, strict=True)}


@pytest.mark.parametrize("seed", range(examples(40)))
def test_lists_agree_with_enumeration(seed: int) -> None:
    rng = random.Random(1_000 + seed)
    names = tuple(rng.sample(["traffic", "cycles", "energy"], rng.choice([2, 2, 3])))
    tolerance = tuple(rng.choice([0.0, 0.05, 0.3]) for _ in names[1:])
    problem = random_problem(
        rng, rng.choice([1, 2, 2]), objective={"minimise": list(names), "tolerance": list(tolerance)}
    )
    left = [units(problem, names, costs) for costs in front(problem, names)]
    for name, share in zip(names, tolerance, strict=False):
        least = min(each[name] for each in left)
        left = [each for each in left if each[name] <= least + int(least * Fraction(str(share)))]
    expected = min(each[names[-1]] for each in left)
    outcome = catalogue.formulation("residency", "states").solve(problem, RunContext())
    if outcome.status != "optimal":  # there are no addresses for what is best by size
        assert outcome.bound is None or outcome.bound <= expected
        return
    assert objective(problem, outcome.plan) == outcome.bound == expected
    survives(problem, outcome.plan)
    assert recheck(problem, outcome.plan, NEVER)[0][1] is True


@pytest.mark.parametrize("seed", range(examples(30)))
def test_less_memory_takes_longer(seed: int) -> None:
    """The least memory for a number of cycles is where they begin to be enough."""
    rng = random.Random(2_000 + seed)
    problem = random_problem(rng, 3, objective={"minimise": "cycles"})
    wanted = best(problem, NEVER, ignore, ignore).bound + rng.randint(0, 5)
    small = problem.with_(objective={"minimise": "memory", "most_cycles": wanted})
    answer = best(small, NEVER, ignore, ignore)
    least = problem.least_memory

    def enough(memory: int) -> bool:
        if memory < least:
            return False
        return best(problem.with_(machine={"memory_bytes": memory}), NEVER, ignore, ignore).bound <= wanted

    assert enough(answer.bound) and (answer.bound == least or not enough(answer.bound - 1))
    if answer.plan is not None:
        assert violation(small, answer.plan) is None
        survives(small, answer.plan)


@pytest.mark.parametrize("seed", range(examples(64)))
def test_plans_of_larger_networks_survive(seed: int) -> None:
    rng = random.Random(3_000 + seed)
    problem = random_problem(rng, 6, objective={"minimise": rng.choice(["cycles", "energy"])})
    answer = best(problem, NEVER, ignore, ignore)
    assert answer.plan is not None
    survives(problem, answer.plan)
    for name in catalogue.heuristics("residency"):
        plan = catalogue.heuristic("residency", name).plan(problem)
        survives(problem, plan)
        assert objective(problem, plan) >= answer.bound >= best_bound(problem).value


def test_a_limit_that_nothing_keeps_is_impossible() -> None:
    problem = random_problem(random.Random(1), 2, objective={"minimise": "memory", "most_cycles": 1})
    assert "objective.most_cycles allows 1" in (best_bound(problem).impossible or "")
    assert best(problem, NEVER, ignore, ignore).impossible


def test_second_buffers_are_counted_by_hand() -> None:
    """A pass of a row: 4 rows of 6 pixels are loaded, 2 rows of 4 pixels computed with 9 MACs and written."""
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}
    machine = {"memory_bytes": 100, "bus_elements_per_cycle": 1, "macs_per_cycle": 3, "dma_setup_cycles": 5}
    problem = Problem.model_validate(
        {"network": {"layers": [layer]}, "machine": {**machine, "double_buffering": True}}
    ).with_(objective={"minimise": "cycles"})
    step = Step(("a",), pixels=4, kept=("a",), written=("a",), double_buffering=True)
    addresses = {"lines of input": 0, "weights of a": 24, "block of a": 33}
    plan = Plan((replace(step, addresses=addresses),))
    # Set up of 3 transfers; weights; 3 rows; 12 cycles of computing beside a row; 12 beside outputs; outputs.
    assert objective(problem, plan) == 3 * 5 + 9 + 18 + 12 + 12 + 4
    survives(problem, plan)
    single = Plan((replace(replace(step, addresses=addresses), double_buffering=False),))
    assert objective(problem, single) == 3 * 5 + 9 + 24 + 24 + 8
    too_near = Plan((replace(step, addresses={**addresses, "block of a": 25}),))
    assert "overlap" in (violation(problem, too_near) or "")
    assert simulate(problem, too_near, numeric=True).violation is not None


@pytest.mark.parametrize("order", ["pixels", "kernels"])
def test_rates_without_common_factors_are_counted_exactly(order: str) -> None:
    """Parts of a cycle of which there are more than 64 bits can count."""
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 2, "kernel": [3, 3]}
    rates = {"bus_elements_per_cycle": 999_983, "macs_per_cycle": 999_979, "vector_ops_per_cycle": 999_961}
    machine = {"memory_bytes": 200, "dma_setup_cycles": 1_000_000, "double_buffering": True, **rates}
    problem = Problem.model_validate({"network": {"layers": [layer]}, "machine": machine}).with_(
        objective={"minimise": "cycles"}
    )
    kept = ("a",) if order == "pixels" else ()
    step = Step(("a",), order, pixels=4, kept=kept, written=("a",), double_buffering=True)
    plan = Plan((replace(step, addresses={"lines of input": 0, "weights of a": 50, "block of a": 100}),))
    survives(problem, plan)
    (told,) = decode_plan(problem, plan)
    assert objective(problem, plan) == 3 * 1_000_000 + 1
    assert told.spent.time > 2**64


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"pixels": 3}, "double buffering: step 1 .* not the fewest whole rows"),
        ({"kept": ()}, "double buffering: step 1 .* loads weights for each pass"),
        ({"columns": 2, "pixels": 2}, "double buffering: step 1 .* strips"),
    ],
)
def test_what_cannot_have_second_buffers_is_said(changes: dict[str, Any], told: str) -> None:
    layer = {"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}
    machine = {"memory_bytes": 100, "double_buffering": True}
    problem = Problem.model_validate({"network": {"layers": [layer]}, "machine": machine})
    step = Step(("a",), pixels=4, kept=("a",), written=("a",), double_buffering=True)
    assert re.match(told, violation(problem, Plan((replace(step, **changes),))) or "")
    told = violation(problem.with_(machine={"double_buffering": False}), Plan((step,))) or ""
    assert "which the machine is not told to have" in told


@pytest.mark.parametrize(
    ("objective", "told"),
    [
        ({"minimise": "time"}, "minimise = 'time': takes traffic, memory, cycles, energy"),
        ({"minimise": ["cycles", "cycles"]}, "different objectives"),
        ({"minimise": ["cycles", "energy"], "tolerance": [0.1, 0.1]}, "one for each objective but the last"),
        ({"minimise": "cycles", "tolerance": 0.1}, "needs a list of objectives"),
        ({"minimise": "cycles", "most_cycles": 3}, "limits what is minimised itself"),
    ],
)
def test_bad_objectives_are_named(objective: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        random_problem(random.Random(0), 1).with_(objective=objective)


HIERARCHY = {
    "kind": "hierarchy",
    "clock_mhz": 100,
    "macs_per_cycle": 1,
    "levels": [
        {"name": "DRAM", "bytes_per_cycle": 8},
        {"name": "L2", "capacity_bytes": 5000},
        {"name": "array", "fanout": [{"size": 4, "over": ["output_maps"]}]},
        {"name": "L1", "capacity_bytes": 300},
    ],
}


def test_a_memory_of_a_hierarchy_is_named() -> None:
    network = {"layers": [{"name": "a", "input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}]}

    def read(machine: dict[str, Any]) -> Any:
        table = with_own_machine("residency", {"network": network, "machine": machine})
        return Problem.model_validate(table).machine

    outer = read(HIERARCHY)
    assert (outer.memory_bytes, outer.macs_per_cycle, outer.bus_elements_per_cycle) == (5000, 4, 8)
    assert read({**HIERARCHY, "residency": {"memory": "L1"}}).memory_bytes == 4 * 300
    with pytest.raises(InputError, match="names no memory on chip; there are L2, L1"):
        read({**HIERARCHY, "residency": {"memory": "L3"}})
    with pytest.raises(InputError, match="memories of their own in each core of an npu"):
        read({"kind": "npu"})
    npu = read({"kind": "npu", "residency": {"memory_bytes": 999}})
    assert (npu.memory_bytes, npu.macs_per_cycle) == (999, 32 * 32)
