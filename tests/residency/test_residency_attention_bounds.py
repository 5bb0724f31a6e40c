"""What attention moves in any schedule: never more than what some schedule moves."""

from __future__ import annotations

import random

import pytest
from conftest import examples
from residency_cases import optimum, problem_of, search
from test_residency_attention import attention
from tests.fuzz import networks
from tests.oracles.attention_pebbles import Head, Pebbles, moved_in_order
from tests.residency.attention_heads import given

import tilewright as tw
from tilewright.residency import Problem, best_bound, objective
from tilewright.residency.attention_bounds import attention_excess


def bound_of(head: Head, memory: int, **heads: int) -> int:
    """Return what any schedule of a head moves at least."""
    problem = problem_of(given(head, **heads), 2**30, machine={"sum_bytes": head.width})
    return problem.graph.compulsory + attention_excess(problem.graph, memory)


def drawn(rng: random.Random) -> Problem:
    """Return attention in little memory."""
    width = rng.choice([1, 1, 2, 4])
    if (kind := rng.random()) < 0.1:
        network = networks.Attention(rng).network()
    elif kind < 0.2:
        network, _ = networks.ByRows(rng).networks()
    elif rng.random() < 0.5:
        heads = rng.choice([1, 1, 2])
        network = attention(rng.randint(6, 28), heads * rng.randint(1, 3), heads)
    else:
        shared = rng.choice([1, 1, 2])
        head = Head(rng.randint(2, 24), rng.randint(6, 24), rng.randint(1, 3), rng.randint(1, 3))
        causal = head.keys >= head.queries and rng.random() < 0.5
        network = given(head, shared * rng.choice([1, 1, 2]), shared, causal=causal)
    problem = problem_of(network, 2**20, machine={"sum_bytes": width})
    return problem.with_(machine={"memory_bytes": problem.least_memory + rng.choice([0, 1, 2, 4, 8, 16])})


HEADS = [
    (Head(1, 2, 1, 1), 3), (Head(2, 2, 1, 1), 3), (Head(2, 2, 1, 1), 4), (Head(2, 2, 1, 1, 2), 4),
    (Head(1, 3, 1, 1), 3), (Head(1, 2, 2, 1), 3), (Head(1, 2, 1, 2), 3), (Head(1, 2, 2, 1, 2), 4),
]  # fmt: skip


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(40))
def test_no_plan_that_is_proven_moves_less(seed: int) -> None:
    rng, beyond = random.Random(f"attention bounds {seed}"), 0
    for _ in range(10):
        problem = drawn(rng)
        answer, bound = search(problem), best_bound(problem)
        assert answer.plan is not None and bound.value <= objective(problem, answer.plan)
        beyond += bound.value > problem.graph.compulsory
    assert beyond  # else nothing is tried


@pytest.mark.by_day(2)
@pytest.mark.parametrize("seed", range(24))
def test_no_plan_of_another_kind_moves_less(seed: int) -> None:
    rng = random.Random(f"attention bounds of other plans {seed}")
    problem = drawn(rng)
    choices = [{"limits": {"executions": 2}}, {"limits": {"frames": "many"}}]
    choices += [
        {"objective": {"minimise": name}, "machine": {"double_buffering": rng.random() < 0.5}}
        for name in ("cycles", "energy")
    ]
    changed = problem.with_(**choices[seed % 4])
    assert best_bound(changed).value <= objective(changed, optimum(changed))


@pytest.mark.by_day(4)
@pytest.mark.parametrize(("head", "memory"), HEADS)
def test_all_schedules_of_a_tiny_head_move_at_least_the_bound(head: Head, memory: int) -> None:
    assert head.compulsory <= bound_of(head, memory) <= Pebbles(head, memory).least()


@pytest.mark.parametrize("head", [Head(1, 3, 1, 1), Head(2, 2, 1, 1)])
def test_no_plan_moves_less_than_the_best_of_all_schedules(head: Head) -> None:
    problem = problem_of(given(head), 2**20, machine={"sum_bytes": head.width})
    least = problem.with_(machine={"memory_bytes": problem.least_memory})
    answer = search(least)
    assert answer.plan is not None
    # With half of that memory schedules still run, and move more than is compulsory.
    assert Pebbles(head, problem.least_memory).least() <= objective(least, answer.plan)


def orders(head: Head, rng: random.Random) -> list[list[tuple[int, int]]]:
    """Return orders of the pairs of a head: by queries, by keys, in tiles, back and forth."""
    found = []
    for wide, high in [(1, 1), *((rng.randint(1, 12), rng.randint(1, 12)) for _ in range(4))]:
        for first in (0, 1):
            blocks = [
                (a, b)
                for a in range(0, (head.queries, head.keys)[first], wide)
                for b in range(0, (head.queries, head.keys)[1 - first], high)
            ]
            order = []
            for a, b in blocks:
                ones = range(a, min(a + wide, (head.queries, head.keys)[first]))
                others = range(b, min(b + high, (head.queries, head.keys)[1 - first]))
                if a // wide % 2:
                    others = others[::-1]
                order += [(x, y) if first == 0 else (y, x) for x in ones for y in others]
            found.append(order)
    return found


@pytest.mark.parametrize("seed", range(examples(80)))
def test_no_order_of_pairs_moves_less(seed: int) -> None:
    rng = random.Random(f"orders of pairs {seed}")
    deep = rng.randint(1, 3)
    head = Head(rng.randint(4, 50), rng.randint(4, 50), deep, rng.choice([deep, 1]), rng.choice([1, 2, 4]))
    memory = head.depth * 2 + head.values * (head.width + 1) + 1 + rng.choice([0, 1, 5, 20, 80])
    bound = bound_of(head, memory)
    for order in orders(head, rng):
        moved = moved_in_order(head, memory, order)
        assert moved is not None and bound <= moved


def passing_by(head: Head, memory: int) -> int:
    """Return what moves if keys pass by as many queries as fit, or queries by as many keys."""
    every = head.queries, head.keys
    query, key = head.depth + head.width * head.values, head.depth + head.values
    queries, keys = (memory - key - 2) // query, (memory - query - 2) // key
    found = []
    if queries > 0:
        found.append(head.queries * key + -(-every[0] // queries) * head.keys * key)
    if keys > 0:
        passes = -(-every[1] // keys)
        again = (passes - 1) * (head.depth + 2 * head.width * head.values)
        found.append(head.keys * key + head.queries * (key + again))
    return min(found)


@pytest.mark.parametrize("seed", range(examples(400)))
def test_no_pass_over_keys_or_queries_moves_less(seed: int) -> None:
    rng = random.Random(f"passes {seed}")
    deep, sizes = rng.choice([1, 2, 4, 16, 64]), [16, 100, 1000, 5000]
    head = Head(
        rng.choice(sizes), rng.choice(sizes), deep, rng.choice([deep, 2 * deep, 1]), rng.choice([1, 2, 4])
    )
    rows = rng.choice([3, 10, 100, 1000, 3000])
    memory = int((head.depth + head.width * head.values) * rows * rng.uniform(1, 2)) + 2
    assert bound_of(head, memory) <= passing_by(head, memory)


@pytest.mark.parametrize(
    ("positions", "width", "memory", "moved", "bound"),
    [
        (4096, 1, 16384, 17_825_792, 15_478_765),
        (4096, 1, 65536, 5_242_880, 4_243_456),
        (4096, 4, 65536, 11_534_336, 9_723_426),
        (16384, 1, 16384, 276_824_064, 247_641_191),
        (16384, 1, 65536, 71_303_168, 67_158_016),
        (16384, 4, 65536, 171_966_464, 164_643_330),
    ],
)
def test_long_sequences_leave_little_to_gain_over_keys_that_pass_by(
    positions: int, width: int, memory: int, moved: int, bound: int
) -> None:
    head = Head(positions, positions, 64, 64, width)
    assert (passing_by(head, memory), bound_of(head, memory)) == (moved, bound)
    assert 0.8 * moved < bound < moved


def test_the_page_computes_an_example() -> None:
    head, memory = Head(4096, 4096, 64, 64), 65_536
    pairs, moved = 4096**2, memory
    a_segment, without_moves = (memory + moved) ** 2 // 4 // 128**2, memory
    assert (a_segment, memory + moved * (pairs - without_moves) // a_segment) == (262_144, 4_243_456)
    assert bound_of(head, memory) >= 4_243_456
    assert passing_by(head, memory) == 5_242_880


@pytest.mark.parametrize(
    ("head", "memory"),
    [(Head(256, 256, 16, 16), 1024), (Head(1024, 1024, 8, 8), 512), (Head(300, 900, 8, 8), 512)],
)
def test_pairs_that_a_causal_mask_hides_do_not_count(head: Head, memory: int) -> None:
    every, causal = (
        problem_of(given(head, causal=each), memory, machine={"sum_bytes": 1}) for each in (False, True)
    )
    answer = search(causal)
    assert answer.plan is not None
    least, moved = best_bound(causal).value, objective(causal, answer.plan)
    assert causal.graph.compulsory < least < moved < 2 * least
    assert least < best_bound(every).value


def test_heads_that_share_keys_move_what_one_head_of_all_their_queries_moves() -> None:
    shared = bound_of(Head(100, 300, 4, 4), 256, heads=4, shared=4)
    assert shared == bound_of(Head(400, 300, 4, 4), 256) > Head(400, 300, 4, 4).compulsory
    assert bound_of(Head(100, 300, 4, 4), 256, heads=4) >= shared  # each with keys of its own


@pytest.mark.parametrize(
    ("positions", "elements", "traffic"),
    [
        *((256, 1024, 377_556), (256, 2048, 221_754), (256, 4096, 118_032), (256, 8192, 63_007)),
        *((256, 16384, 45_056), (256, 65536, 45_056), (512, 1024, 1_640_745), (512, 2048, 1_010_432)),
        *((512, 4096, 586_816), (512, 8192, 307_993), (512, 16384, 219_118), (512, 32768, 126_328)),
        *((512, 65536, 77_824), (4096, 16384, 22_360_141), (4096, 65536, 9_211_426)),
    ],
)
def test_the_page_tells_what_any_schedule_moves(positions: int, elements: int, traffic: int) -> None:
    assert best_bound(problem_of(attention(positions, 64), elements)).value == traffic


def test_elements_and_sums_of_several_bytes_count_as_such() -> None:
    head = Head(200, 200, 4, 4, 2)
    one = problem_of(given(head), 2**20, machine={"memory_bytes": 512, "sum_bytes": 2})
    two = one.with_(machine={"memory_bytes": 1024, "sum_bytes": 4, "element_bytes": 2})
    assert best_bound(two).value == 2 * best_bound(one).value > 2 * 2 * one.graph.compulsory
    wide = one.with_(machine={"sum_bytes": 4})
    assert best_bound(wide).value > best_bound(one).value


def test_values_that_are_keys_and_queries_that_are_shared_count_once() -> None:
    head = Head(200, 200, 4, 4)
    network = given(head)
    apart = problem_of(network, 128, machine={"sum_bytes": 1})
    network["layers"][-2]["inputs"] = ["p", "k by heads"]
    network["layers"] = [layer for layer in network["layers"] if layer["name"][0] != "v"]
    together = problem_of(network, 128, machine={"sum_bytes": 1})
    assert together.graph.compulsory < best_bound(together).value < best_bound(apart).value


def test_a_limit_that_no_schedule_keeps_is_told_at_once() -> None:
    problem = problem_of(
        given(Head(200, 200, 4, 4)), 256, objective={"minimise": "cycles", "most_traffic": 6400}
    )
    assert problem.graph.compulsory == 3200
    impossible = best_bound(problem).impossible
    assert impossible is not None and "objective.most_traffic allows 6,400" in impossible


def test_a_plan_without_proof_has_the_bound() -> None:
    problem = problem_of(given(Head(100, 100, 4, 4)), 256, machine={"sum_bytes": 1})
    result = tw.solve(problem, method="layer_by_layer")
    assert result.bound == best_bound(problem).value > problem.graph.compulsory
    assert result.bound_by == "compulsory traffic and that of attention"
    assert f"{result.bound:,} bytes at least" in result.summary()
    assert result.measures.any_schedule_bytes == result.bound


def test_a_memory_that_is_large_for_attention_has_no_bound_of_its_own() -> None:
    problem = problem_of(given(Head(8, 8, 2, 2)), 1000)
    assert problem.attention_excess == 0
    measures = tw.residency.simulate(problem, optimum(problem)).measures
    assert measures.any_schedule_bytes is None
    assert measures.traffic_bytes == measures.compulsory_bytes == best_bound(problem).value
