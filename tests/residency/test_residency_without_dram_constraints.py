"""Constraints of users' own without DRAM, against all plans of small networks that an oracle lists.

The predicates beside the texts are Python on what the oracle tells of steps.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from conftest import examples
from test_residency_without_dram import problem_in_flash
from test_residency_without_dram_oracle import network_of_windows
from tests.oracles import TooLarge, microcontroller

import tilewright as tw
from tilewright.residency import Problem, simulate, violation
from tilewright.residency.evaluation import costs_of
from tilewright.residency.machine import CoreCycles

Json = dict[str, Any]
Steps = list[Json]
Case = tuple[str, Callable[[Steps], bool]]

MOST_PLANS = 20_000

MINIMISED: list[Any] = ["memory", "macs", "traffic", "cycles", ["macs", "memory"], ["cycles", "memory"]]


def place(steps: Steps, name: str) -> int:
    """Return the number of the step of an operation."""
    return next(n for n, step in enumerate(steps, 1) if name in step["operations"])


def of(steps: Steps, name: str) -> Json:
    """Return the step of an operation."""
    return steps[place(steps, name) - 1]


def cases(rng: random.Random, problem: Problem, plans: list[Steps]) -> list[Case]:
    """Return constraints of a problem at random."""
    graph = problem.graph
    names = [op.name for op in graph.numbers(graph.all & ~graph.begin)]
    a, b, c = names[0], names[-1], rng.choice(names)
    t = rng.choice([tensor.name for tensor in graph.tensors if tensor.readers])
    reader = graph.operations[next(each for each in graph.tensors if each.name == t).readers[-1]].name
    k, n, some = rng.randint(1, 3), rng.randint(2, 4), rng.choice(plans)
    size, moved = of(some, c)["bytes"], of(some, c)["moved"]
    macs, traffic = total(some, "macs"), total(some, "moved")
    lot: list[Case] = [
        (f"step('{b}') == {k}", lambda p: place(p, b) == k),
        (f"not same_step('{a}', '{b}')", lambda p: place(p, a) != place(p, b)),
        (f"same_step('{a}', '{c}')", lambda p: place(p, a) == place(p, c)),
        (f"before('{c}', '{b}')", lambda p: place(p, c) < place(p, b)),
        (f"steps != {k}", lambda p: len(p) != k),
        (f"on_chip('{t}', '{reader}')", lambda p: t in of(p, reader)["on_chip"]),
        (f"not on_chip('{t}', '{reader}')", lambda p: t not in of(p, reader)["on_chip"]),
        (f"fetched('{t}', '{reader}')", lambda p: t in of(p, reader)["fetched"]),
        (f"resident('{c}')", lambda p: c in of(p, c)["resident"]),
        ("for some o in operations: in_place(o)", lambda p: any(step["in_place"] for step in p)),
        ("for all o in operations: not in_place(o)", lambda p: not any(step["in_place"] for step in p)),
        (f"order('{c}') == 'kernels'", lambda p: of(p, c)["order"] == "kernels"),
        (f"pixels('{c}') >= {n}", lambda p: of(p, c)["pixels"] >= n),
        (f"kernels('{c}') == {k}", lambda p: of(p, c)["order"] == "kernels" and of(p, c)["kernels"] == k),
        (f"columns('{c}') in {{1, 2}}", lambda p: of(p, c)["columns"] in (1, 2)),
        (f"columns('{c}') == 0", lambda p: of(p, c)["columns"] is None),
        (f"running('{b}')", lambda p: of(p, b)["running"]),
        (f"not running('{b}')", lambda p: not of(p, b)["running"]),
        (f"interleaved('{c}')", lambda p: of(p, c)["turns"]),
        (f"not interleaved('{c}')", lambda p: not of(p, c)["turns"]),
        (f"bytes('{c}') <= {size - 1}", lambda p: of(p, c)["bytes"] < size),
        (f"bytes('{c}') >= {size}", lambda p: of(p, c)["bytes"] >= size),
        (f"bytes('{c}') == {size}", lambda p: of(p, c)["bytes"] == size),
        (f"moved('{c}') == {moved}", lambda p: of(p, c)["moved"] == moved),
        (f"macs == {macs}", lambda p: total(p, "macs") == macs),
        (f"macs <= {macs} and traffic < {traffic}", lambda p: within(p, macs, traffic)),
        (f"traffic % 2 == {traffic % 2}", lambda p: total(p, "moved") % 2 == traffic % 2),
    ]
    return rng.sample(lot, rng.choice([1, 1, 2, 3]))


def total(steps: Steps, what: str) -> int:
    """Return what all steps have together."""
    return sum(step[what] for step in steps)


def within(steps: Steps, macs: int, traffic: int) -> bool:
    """Whether steps keep two limits."""
    return total(steps, "macs") <= macs and total(steps, "moved") < traffic


def costs(steps: Steps) -> dict[str, int]:
    """Return what a plan costs by size."""
    memory = max(step["bytes"] for step in steps)
    cycles = microcontroller.whole_cycles(total(steps, "cycles"))
    return {
        "memory": memory,
        "macs": total(steps, "macs"),
        "traffic": total(steps, "moved"),
        "cycles": cycles,
    }


def random_problem(rng: random.Random) -> tuple[Problem, list[Steps]]:
    """Return a problem with all of its plans."""
    while True:
        network = network_of_windows(rng)
        if len(network["layers"]) > 3:
            continue
        limits = {"inputs": rng.choice(["outside", "memory"]), "tiles": rng.random() < 0.7}
        objective = {"minimise": rng.choice(MINIMISED)}
        prices = {name: rng.choice([0, 0.25, 1, 7.5, 40]) for name in CoreCycles.model_fields}
        machine = {"cycles_of": prices} if rng.random() < 0.7 or "cycles" in objective["minimise"] else {}
        try:
            loose = problem_in_flash(network, limits=limits, objective=objective, machine=machine)
            least = min(max(s["bytes"] for s in p) for p in microcontroller.plans(told(loose), MOST_PLANS))
            size = rng.choice([2**20, least + rng.randint(0, least)])
            problem = loose.with_(machine={"memory_bytes": size})
            return problem, microcontroller.plans(told(problem), MOST_PLANS)
        except TooLarge:
            continue


def told(problem: Problem) -> Json:
    """Return a problem as JSON."""
    return problem.model_dump(mode="json")


def least(problem: Problem, kept: list[dict[str, int]]) -> int | None:
    """Return the least of the last objective among those that are best in the ones before it."""
    for name, _ in problem.before:
        best = min((each[name] for each in kept), default=0)
        kept = [each for each in kept if each[name] == best]
    return min((each[problem.minimise] for each in kept), default=None)


@pytest.mark.parametrize("seed", range(examples(300, 10)))
def test_constraints_against_all_plans(seed: int) -> None:
    rng = random.Random(f"without DRAM {seed}")
    problem, plans = random_problem(rng)
    chosen = cases(rng, problem, plans)
    says = [text for text, _ in chosen]
    constrained = problem.where(*says)
    expected = least(problem, [costs(p) for p in plans if all(keeps(p) for _, keeps in chosen)])
    result = tw.solve(constrained, "states", time_limit=60, confirm=False)
    shown = f"{says}: {problem.model_dump_json()}"
    if expected is None:
        assert result.status == "infeasible", shown
        return
    if problem.machine.memory_bytes == 2**20:
        assert result.plan is not None, shown
    if result.plan is None:  # what fits by size may have no addresses
        assert result.status != "infeasible", shown
        return
    assert result.bound == expected or problem.before, shown
    assert result.status == ("optimal" if result.objective == expected else "feasible"), shown
    assert violation(constrained, result.plan) is None
    walked = microcontroller.costs(told(problem), result.plan.to_json())
    claimed = costs_of(problem, result.plan)
    assert (walked["macs"], walked["taken"]) == (claimed["macs"], claimed["memory"]), shown
    if problem.machine.cycles_of is not None:
        assert walked["cycles"] == claimed["cycles"], shown
        report = simulate(problem, result.plan)
        assert report.measures.cycles == claimed["cycles"], shown
