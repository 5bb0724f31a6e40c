"""The choice of groups, on made-up graphs with made-up costs, against all partitions there are."""

from __future__ import annotations

import random
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import networkx as nx
import pytest
from conftest import processor_time
from hypothesis import given
from hypothesis import strategies as st

from tilewright.fusion.selection import downset_search as search
from tilewright.fusion.selection.candidates import Candidate
from tilewright.fusion.selection.downset_search import best_groups, search_downsets
from tilewright.fusion.selection.dual_prices import dual_prices
from tilewright.fusion.selection.execution_order import order_groups, quotient
from tilewright.heuristics.fusion import dnnvm, greedy

Producers = list[tuple[int, ...]]


@st.composite
def graphs(draw: st.DrawFn, most: int = 8) -> Producers:
    """Draw what each operation reads; many read one other."""
    found: Producers = []
    for number in range(draw(st.integers(1, most))):
        sources = st.integers(max(-1, number - 4), number - 1)
        found.append(tuple(draw(st.lists(sources, min_size=1, max_size=draw(st.sampled_from([1, 1, 2, 3]))))))
    return found


@st.composite
def choices(draw: st.DrawFn, most: int = 8) -> tuple[Producers, list[Candidate]]:
    """Draw a graph, and some of its convex sets with costs."""
    producers = draw(graphs(most))
    rng = draw(st.randoms(use_true_random=False))
    return producers, made_up(producers, rng, draw(st.sampled_from([0.2, 0.5, 1.0])))


def made_up(
    producers: Producers, rng: random.Random, share: float = 1.0, largest: int = 4
) -> list[Candidate]:
    """Return each operation, and a share of the convex sets of a few that are close to each other."""
    numbers = range(len(producers))
    graph = quotient(producers, [(number,) for number in numbers])
    before = {number: nx.ancestors(graph, number) for number in numbers}
    near: dict[int, set[int]] = {
        number: {*graph.successors(number), *graph.predecessors(number)}
        | {other for source in producers[number] if source >= 0 for other in graph.successors(source)}
        | {other for other in range(number + 4) if other < len(producers) and -1 in producers[number]}
        for number in numbers
    }
    sets, fresh = {(number,) for number in numbers}, {(number,) for number in numbers}
    for _ in range(largest - 1):
        fresh = {
            tuple(sorted({*nodes, other}))
            for nodes in fresh
            for member in nodes
            for other in near[member] - {*nodes}
        }
        sets |= {nodes for nodes in sorted(fresh) if rng.random() < share and _is_convex(nodes, before)}
    alone = [rng.randint(0, 100) for _ in numbers]
    return [
        Candidate(nodes, int(sum(alone[number] for number in nodes) * factor), "", None)
        for nodes in sorted(sets)
        for factor in [1 if len(nodes) == 1 else rng.uniform(0.3, 1.1)]
    ]


def _is_convex(nodes: Collection[int], before: dict[int, set[int]]) -> bool:
    outside = set().union(*(before[number] for number in nodes)).difference(nodes)
    return not any(before[other] & {*nodes} for other in outside)


def partitions(left: frozenset[int], candidates: Sequence[Candidate]) -> Iterator[tuple[Candidate, ...]]:
    """Return all sets of candidates that hold each operation once."""
    if not left:
        yield ()
        return
    for one in candidates:
        if one.nodes[0] == min(left) and left.issuperset(one.nodes):
            for others in partitions(left.difference(one.nodes), candidates):
                yield (one, *others)


def can_be_executed(producers: Producers, chosen: Sequence[Candidate]) -> bool:
    return nx.is_directed_acyclic_graph(quotient(producers, [one.nodes for one in chosen]))


def least(producers: Producers, candidates: Sequence[Candidate]) -> int:
    return min(
        cost(chosen)
        for chosen in partitions(frozenset(range(len(producers))), candidates)
        if can_be_executed(producers, chosen)
    )


def cost(chosen: Collection[Candidate]) -> int:
    return sum(one.cost for one in chosen)


def check(producers: Producers, chosen: Sequence[Candidate]) -> None:
    """Check that groups hold each operation once and can be executed."""
    assert sorted(number for one in chosen for number in one.nodes) == [*range(len(producers))]
    assert can_be_executed(producers, chosen)


def problem_of(producers: Producers) -> Any:
    ops = [SimpleNamespace(name=f"op{number}", producers=read) for number, read in enumerate(producers)]
    return SimpleNamespace(ops=ops)


@given(choices())
def test_the_exact_search_agrees_with_enumeration(made: tuple[Producers, list[Candidate]]) -> None:
    producers, candidates = made
    best = least(producers, candidates)
    found = best_groups(producers, candidates)
    check(producers, found.chosen)
    assert cost(found.chosen) == found.cost == found.bound == best
    start = greedy.choose(producers, candidates)
    check(producers, start)
    assert cost(start) >= best
    assert best_groups(producers, candidates, start).cost == best


@given(choices(), st.sampled_from([1, 2, 5]))
def test_sweeps_that_drop_most_still_end_with_the_optimum(
    made: tuple[Producers, list[Candidate]], width: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "FIRST_WIDTH", width)
        patch.setattr(search, "WIDTH_GROWTH", 2)
        patch.setattr("tilewright.fusion.selection.dual_prices.ROUNDS", 2)  # prices that tell little
        every = [*search_downsets(*made)]
    assert every[-1].proven
    best = least(*made)
    assert every[-1].cost == best
    for one, other in pairwise(every):
        assert one.bound <= other.bound <= best <= other.cost <= one.cost
        check(made[0], other.chosen)


@given(choices(), st.sampled_from([0, 1, 20, 500]))
def test_prices_are_a_lower_bound(made: tuple[Producers, list[Candidate]], rounds: int) -> None:
    producers, candidates = made
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tilewright.fusion.selection.dual_prices.ROUNDS", rounds)
        found = dual_prices(len(producers), candidates, 100 * len(producers))
    assert all(sum(found[number] for number in one.nodes) <= one.cost for one in candidates)
    assert sum(found) <= least(producers, candidates)


@st.composite
def barred(draw: st.DrawFn) -> tuple[Producers, set[int], list[Candidate]]:
    """Draw a graph as `choices` does, and which operations that read several others are joins."""
    producers, candidates = draw(choices(9))
    several = [number for number, read in enumerate(producers) if len(set(read)) > 1]
    return producers, set(draw(st.lists(st.sampled_from(several))) if several else []), candidates


@given(barred())
def test_dnnvm_is_best_among_what_it_sees(made: tuple[Producers, set[int], list[Candidate]]) -> None:
    producers, joins, candidates = made
    chosen = dnnvm.choose(producers, joins, candidates)
    check(producers, chosen)
    seen = [one for one in candidates if _is_seen(one.nodes, producers, joins)]
    assert {*chosen} <= {*seen}
    assert cost(chosen) == best_groups(producers, seen).cost >= best_groups(producers, candidates).cost


def _is_seen(nodes: tuple[int, ...], producers: Producers, joins: set[int]) -> bool:
    """Whether they are a piece of a branch or whole branches, with or without a join behind, or siblings."""
    graph = quotient(producers, [(number,) for number in range(len(producers))])
    readers = {number: {*graph.successors(number)} for number in graph}

    def goes_on(first: int, second: int) -> bool:
        return {*producers[second]} == {first} and readers[first] == {second} and first not in joins

    def branch_of(number: int) -> list[int]:
        found = [number]
        while len(readers[number]) == 1 and goes_on(number, *readers[number]):
            (number,) = readers[number]
            found.append(number)
        return found

    def leads_to(number: int) -> set[int]:
        return readers[branch_of(number)[-1]]

    def begins(number: int) -> bool:
        return number not in joins and not any(
            goes_on(source, number) for source in producers[number] if source >= 0
        )

    heads = [number for number in nodes if begins(number)]
    one_source = len({frozenset(producers[number]) for number in heads}) == 1
    ends = {frozenset(leads_to(number)) for number in heads}
    whole = sorted(number for head in heads for number in branch_of(head))
    if one_source and len(ends) == 1:
        joined = [*whole, *(join for join in joins if ends == {frozenset({join})})]
        if list(nodes) in (whole, sorted(joined)):
            return True
    *branch, last = nodes
    if last in joins and branch and branch[-1] not in joins and readers[branch[-1]] == {last}:
        return all(goes_on(*pair) for pair in pairwise(branch))
    pieces = all(goes_on(*pair) for pair in pairwise(nodes))
    same_source = len({frozenset(producers[number]) for number in nodes}) == 1
    same_end = len({frozenset(leads_to(number)) for number in nodes}) == 1
    return pieces or (all(map(begins, nodes)) and same_source and same_end)


DIAMOND: Producers = [(-1,), (0,), (0,), (1,), (2,)]
"""Two branches of two operations each behind one."""


def test_groups_that_wait_for_each_other_are_never_chosen() -> None:
    """Each operation alone costs 10; 1 + 4 and 2 + 3 would be cheapest, but each reads from the other."""
    costs = {(0,): 10, (1,): 10, (2,): 10, (3,): 10, (4,): 10, (1, 4): 1, (2, 3): 2}
    candidates = [Candidate(nodes, value, "", None) for nodes, value in costs.items()]
    found = best_groups(DIAMOND, candidates)
    assert found.proven
    assert found.cost == 31
    assert cost(greedy.choose(DIAMOND, candidates)) == 31
    together = [one for one in candidates if one.nodes in {(0,), (1, 4), (2, 3)}]
    with pytest.raises(ValueError, match=r"groups wait for each other: op1 \+ op4; op2 \+ op3"):
        order_groups(problem_of(DIAMOND), together)


@given(choices())
def test_plans_are_in_an_order_of_execution(made: tuple[Producers, list[Candidate]]) -> None:
    producers, candidates = made
    chosen = best_groups(producers, candidates).chosen
    plan = order_groups(problem_of(producers), chosen)
    assert plan == order_groups(problem_of(producers), reversed(chosen))
    assert {group.nodes for group in plan.groups} == {tuple(f"op{i}" for i in one.nodes) for one in chosen}
    done = {-1}
    for group in plan.groups:
        done |= {int(name[2:]) for name in group.nodes}
        assert all(done.issuperset(producers[int(name[2:])]) for name in group.nodes)


def inception(modules: int) -> Producers:
    """Return modules of four branches, one to three operations long, whose outputs all next ones read."""
    found: Producers = [(-1,)]
    read: tuple[int, ...] = (0,)
    for _ in range(modules):
        ends = []
        for length in (1, 2, 3, 2):
            for place in range(length):
                found.append((len(found) - 1,) if place else read)
            ends.append(len(found) - 1)
        read = tuple(ends)
    return found


def test_large_graphs_of_modules_are_solved_at_once() -> None:
    producers = inception(25)
    candidates = made_up(producers, random.Random(1), 0.2, 3)
    assert len(producers) == 201
    assert len(candidates) > 3 * len(producers)
    with processor_time(10):
        assert best_groups(producers, candidates).proven


def test_out_of_time_there_is_a_plan_and_a_bound() -> None:
    producers = inception(5)
    candidates = made_up(producers, random.Random(1), 0.2, 3)
    best = best_groups(producers, candidates).cost
    found = best_groups(producers, candidates, deadline=time.monotonic())
    check(producers, found.chosen)
    assert 0 < found.bound < best < found.cost
    assert not found.proven


def test_greedy_takes_what_saves_most_here_and_now() -> None:
    """0 + 1 saves 5 and leaves 2 alone; 1 + 2 would have saved 9."""
    costs = {(0,): 10, (1,): 10, (2,): 10, (0, 1): 15, (1, 2): 11}
    candidates = [Candidate(nodes, value, "", None) for nodes, value in costs.items()]
    producers: Producers = [(-1,), (0,), (1,)]
    assert [one.nodes for one in greedy.choose(producers, candidates)] == [(0, 1), (2,)]
    assert sorted(one.nodes for one in dnnvm.choose(producers, (), candidates)) == [(0,), (1, 2)]


def test_a_join_is_executed_at_the_end_of_one_branch() -> None:
    """Behind 0 are 1, then 2, and 3; 4 adds 2 and 3, and 5 reads it. All cost 10 alone."""
    producers: Producers = [(-1,), (0,), (1,), (0,), (2, 3), (4,)]
    costs = {(number,): 10 for number in range(6)} | {
        (1, 2): 12,
        (2, 4): 15,
        (3, 4): 13,
        (1, 3): 17,
        (4, 5): 1,
    }
    candidates = [Candidate(nodes, value, "", None) for nodes, value in sorted(costs.items())]

    def seen(joins: Collection[int], *without: tuple[int, ...]) -> list[tuple[int, ...]]:
        left = [one for one in candidates if one.nodes not in without]
        return sorted(one.nodes for one in dnnvm.choose(producers, joins, left))

    assert seen({4}) == [(0,), (1, 2), (3, 4), (5,)]
    assert seen({4}, (3, 4)) == [(0,), (1, 2), (3,), (4,), (5,)]
    assert seen({4}, (3, 4), (1, 2)) == [(0,), (1, 3), (2, 4), (5,)]
    assert seen(()) == [(0,), (1, 2), (3,), (4, 5)]  # a concatenation is read at once
    assert sorted(one.nodes for one in best_groups(producers, candidates).chosen) == [
        (0,),
        (1, 2),
        (3,),
        (4, 5),
    ]
