"""Problems of the room residency at random, what their search finds, and what each plan has to stand."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any

import pytest
from tests.fuzz import networks
from tests.fuzz.campaigns import residency_problems
from tests.oracles import TooLarge

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Plan, Problem, objective, simulate, violation
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.exact.traffic import Answer, least_traffic
from tilewright.residency.graph import Graph, members
from tilewright.spec.errors import InputError

NEVER = float("inf")
"""A deadline."""


def ignore(_found: Any) -> None:
    """Take a bound or a plan on the way."""


def random_network(rng: random.Random, most: int = 4) -> dict[str, Any]:
    """Return a network of up to `most` operations on small planes: chains, branches, sums, parts."""
    return {"layers": networks.network(rng, most, 6, 3, "cccdpajfsx", twice=False, back=3)}


def problem_of(network: dict[str, Any], elements: int, **rest: Any) -> Problem:
    """Return a problem with a memory of some elements of a byte; further tables are given by name."""
    machine = {"memory_bytes": elements} | rest.pop("machine", {})
    return Problem.model_validate({"network": network, "machine": machine, **rest})


def random_problem(rng: random.Random, most: int = 4, *, branches: bool = False, **rest: Any) -> Problem:
    """Return a problem with a memory between the least and that of everything.

    Parameters
    ----------
    branches
        Whether something must have several readers.
    rest
        Further tables, or parts of the machine's.
    """
    while True:
        network = random_network(rng, most)
        try:
            whole = problem_of(network, 10_000)
            graph = whole.graph
            if branches and not any(mask & (mask - 1) for mask in graph.readers[1:]):
                continue
            everything = sum(tensor.size for tensor in graph.tensors)
            if rest.get("limits", {}).get("frames") == "many":
                everything += sum(operation.weights for operation in graph.operations)
            size = whole.least_memory + rng.randint(0, max(1, everything // 2))
            return problem_of(network, size, **rest)
        except InputError:
            continue


def in_some_memory(rng: random.Random, problem: Problem) -> Problem:
    """Return the problem in a memory between the least and what holds half of all tensors more."""
    sizes, least = sum(tensor.size for tensor in problem.graph.tensors), problem.least_memory
    return problem.with_(machine={"memory_bytes": rng.randint(least, least + sizes // 2 + 1)})


def agrees_with_an_oracle(rng: random.Random, problem: Problem, executed: Any = None) -> None:
    """Compare what is found of a problem, now and then of one with another objective or limit.

    Parameters
    ----------
    executed
        The network as it is executed, for the oracle; then for one frame.
    """
    changes: dict[str, Any] = {}
    if rng.random() < 0.3:
        changes["objective"] = {"minimise": rng.choice(["memory", "cycles", "energy"])}
        changes["machine"] = residency_problems.rates(rng)
    elif rng.random() < 0.3:
        changes["limits"] = rng.choice(
            [*([{"frames": "many"}] if executed is None else []), {"executions": 2}]
        )
    try:
        residency_problems.compared(rng, problem.with_(**changes), executed)
    except TooLarge:
        pytest.skip("too large for the oracle")


def search(problem: Problem) -> Answer:
    """Return what the search for the least traffic finds, given all the time that it takes."""
    return least_traffic(problem, NEVER, ignore, ignore)


def optimum(problem: Problem) -> Plan:
    """Return the plan that the room's own method proves, which survives."""
    method = catalogue.formulation("residency", "states")
    assert method is not None
    outcome = method.solve(problem, RunContext())
    assert outcome.status == "optimal" and isinstance(outcome.plan, Plan)
    assert objective(problem, outcome.plan) == outcome.bound
    survives(problem, outcome.plan)
    return outcome.plan


def survives(problem: Problem, plan: Plan | None) -> None:
    """Execute a plan: its numbers must be right, and all that it costs what the closed forms say.

    Weights that stay are never loaded. The plan can be written to a file and read.
    """
    assert plan is not None
    assert violation(problem, plan) is None
    assert Plan.from_json(plan.to_json()) == plan
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None, report.violation
    assert report.numeric is True
    measures = report.measures
    assert problem.measured(measures) == objective(problem, plan)
    for step, decoded in zip(measures.steps_of_plan.values(), decode_plan(problem, plan), strict=True):
        spent = problem.spent(decoded.spent)
        assert step.loaded_bytes + step.saved_bytes == spent["traffic"]
        if problem.timed:
            assert (step.cycles, step.energy_fj) == (spent["cycles"], spent["energy"])
    weights = {op.name: op.weights for op in problem.graph.operations if op.name in plan.staying}
    assert (measures.staying_bytes or {}) == weights
    assert not any(f"weights of {name}" in report.loaded for name in weights)
    assert (measures.executed_again or []) == list(plan.again)


def subsets(values: tuple[Any, ...] | list[Any]) -> Iterator[tuple[Any, ...]]:
    """Return all subsets."""
    return chain.from_iterable(combinations(values, count) for count in range(len(values) + 1))


def copies(problem: Problem, *, first: bool) -> Iterator[dict[str, tuple[str, ...]]]:
    """Return all sets of operations that are executed twice, and who reads the second executions.

    The `first` reader in the file may be bound to read the first execution.
    """
    graph = problem.graph

    def further(number: int, again: dict[str, tuple[str, ...]]) -> Iterator[dict[str, tuple[str, ...]]]:
        if number < 0:
            yield again
            return
        yield from further(number - 1, again)
        readers = readers_of(graph, number, again)
        for some in subsets(readers[first:]):
            if 0 < len(some) < len(readers) and not graph.begin >> number & 1:
                yield from further(number - 1, {graph.operations[number].name: some, **again})

    return further(len(graph.operations) - 1, {})


def some_copies(rng: random.Random, problem: Problem) -> dict[str, tuple[str, ...]]:
    """Return operations that are executed twice, at random."""
    graph, again = problem.graph, dict[str, tuple[str, ...]]()
    for operation in reversed(graph.numbers(graph.all & ~graph.begin)):
        readers = readers_of(graph, operation.number, again)
        if len(readers) > 1 and rng.random() < 0.7:
            again[operation.name] = tuple(rng.sample(readers, rng.randint(1, len(readers) - 1)))
    return again


def readers_of(graph: Graph, number: int, again: dict[str, tuple[str, ...]]) -> list[str]:
    """Return who reads what an operation computes, each before its second execution."""
    names = [graph.operations[reader].name for reader in members(graph.readers[number + 1])]
    return [each for name in names for each in ((name, f"{name} again") if name in again else (name,))]
