"""The inner loop of a tile: closed forms against an execution of each instruction, and the best one."""

from __future__ import annotations

import random
from typing import Any

import pytest
from conftest import examples, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.oracles import inner_loop as oracle

from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop, TileWork, loop_costs
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.vector_unit import VectorUnit


def some_unit(rng: random.Random) -> VectorUnit:
    return VectorUnit(
        lanes=rng.choice([1, 2, 3, 4, 8]),
        mac_slots=rng.choice([1, 1, 2, 3]),
        memory_slots=rng.choice([1, 1, 2]),
        shuffle_slots=rng.choice([1, 2]),
        read_ports=rng.choice([2, 3, 6, 12]),
        write_ports=rng.choice([1, 3, 6]),
        mac_latency=rng.randint(1, 8),
        load_latency=rng.randint(0, 8),
        store_latency=rng.randint(0, 4),
        shuffle_latency=rng.randint(0, 3),
        registers=rng.choice([12, 20, 28, 64, 200]),
        unrolled_macs=rng.choice([20, 128, 512]),
        sums=rng.choice(["reloaded", "kept"]),
        instruction_cache=rng.choice([None, None, 20, 60]),
        refill_cycles=rng.randint(0, 2),
    )


def some_work(rng: random.Random, most: int = 6) -> TileWork:
    def pair(most: int) -> tuple[int, int]:
        return rng.randint(1, most), rng.randint(1, most)

    n, c, y, x, k = (rng.randint(1, most) for _ in DIMENSIONS)
    return TileWork((min(n, 3), c, y, x, k), rng.randint(1, 2), pair(3), pair(3), pair(2))


def told(unit: VectorUnit, work: TileWork) -> tuple[dict[str, Any], dict[str, Any]]:
    return unit.model_dump(), {
        "sizes": work.sizes,
        "groups": work.groups,
        "kernel": work.kernel,
        "stride": work.stride,
        "dilation": work.dilation,
    }


@settings(max_examples=examples(1500, by_day=150))
@given(st.integers(0, 2**32))
def test_closed_forms_are_those_of_an_execution(seed: int) -> None:
    rng = random.Random(seed)
    unit, work = some_unit(rng), some_work(rng)
    n, c, y, x, k = (rng.randint(1, 4) for _ in DIMENSIONS)
    loop = InnerLoop(
        rng.choice(DIMENSIONS), rng.choice(DIMENSIONS), (n, c, y, x, k), rng.choice(["kernel", "row", "tap"])
    )
    costs = loop_costs(unit, work, loop)
    try:
        run = oracle.Run(*told(unit, work), loop.to_json())
    except oracle.Unfit:
        assert not costs.fits
        return
    assert costs.fits
    assert (costs.cycles, costs.transfers, costs.spills, costs.macs) == (
        run.cycles,
        run.loads + run.stores,
        run.spills,
        run.macs,
    )
    ends = (costs.start_cycles, costs.start_transfers, costs.end_cycles, costs.end_transfers)
    assert ends == run.ends()
    assert set(run.done.values()) == {work.groups}
    assert len(run.done) * work.groups == work.macs


@settings(max_examples=examples(200, by_day=12))
@given(st.integers(0, 2**32))
def test_no_loop_is_better_than_the_best(seed: int) -> None:
    rng = random.Random(seed)
    unit = some_unit(rng)
    work = next(work for work in iter(lambda: some_work(rng, 4), None) if work.macs <= 40)
    ends = rng.choice([True, False]), rng.choice([True, False])
    expected = oracle.best(*told(unit, work), *ends)
    found = best_loop(unit, work, first=ends[0], last=ends[1])
    assert (found.cycles, found.transfers) == expected
    assert loop_costs(unit, work, found.loop).total(first=ends[0], last=ends[1]) == expected


def test_conv1_of_lenet_as_the_thesis_maps_it() -> None:
    """Over x: 28 of 32 lanes, nothing spilled, two loads a row; by hand as section 7.5 tells it."""
    work = TileWork((1, 32, 28, 28, 1), kernel=(5, 5))
    costs = loop_costs(VectorUnit(), work, InnerLoop("x", "y"))
    assert work.macs / costs.macs == 28
    assert costs.spilled == 0
    assert costs.sums == 2 * 28 * 32  # a load and a store of each sum
    assert costs.operands == 32 * 32 * 2  # for each map, 28 + 4 rows of two loads
    assert costs.total()[1] * 8 == 52_224  # table 7.3
    assert (costs.interval, costs.latency) == (
        25,
        8 + 2 + 24 * 8 + 8 + 4,
    )  # one chain of 25: little to overlap
    every_tap_over_maps = loop_costs(VectorUnit(), work, InnerLoop("c", "y"))
    assert every_tap_over_maps.spilled == 25 + 9 - 28  # "results in register file spilling"


def test_sums_of_fully_connected_layers_wait_for_each_other() -> None:
    """A sum is loaded, four products are added, it is stored: 8 + 4 * 8 + 4 cycles; eight take 32."""
    loop = InnerLoop("c", "k", (8, 1, 1, 1, 4))
    costs = loop_costs(VectorUnit(), TileWork((8, 10, 1, 1, 512)), loop)
    assert costs.interval == 44
    kept = loop_costs(VectorUnit(sums="kept"), TileWork((8, 10, 1, 1, 512)), loop)
    assert (kept.interval, kept.sums) == (32, 2 * 8)
    assert costs.sums == 128 * kept.sums


def test_a_reduction_in_the_lanes_ends_in_a_tree() -> None:
    work = TileWork((1, 1, 1, 1, 64))
    costs = loop_costs(VectorUnit(), work, InnerLoop("k", "k"))
    assert (costs.macs, costs.operands) == (2, 4)  # both factors are vectors
    # load, five times a shuffle and an addition, the last operation, store
    assert costs.end_cycles == 6 + 8 + 5 * (2 + 8) + 8 + 4


@pytest.mark.parametrize(
    ("changes", "field", "value", "limit"),
    [
        ({"vector": "z"}, "plan.inner_loop.vector", "z", "n, c, y, x, k"),
        ({"pipelined": 1}, "plan.inner_loop.pipelined", 1, "n, c, y, x, k"),
        ({"taps": "all"}, "plan.inner_loop.taps", "all", "kernel, row, tap"),
        ({"unroll": {"n": 1}}, "plan.inner_loop.unroll", {"n": 1}, "ncyxk"),
        (
            {"unroll": dict.fromkeys("ncyxk", 0)},
            "plan.inner_loop.unroll",
            dict.fromkeys("ncyxk", 0),
            "from 1",
        ),
    ],
)
def test_bad_loops_in_files(changes: dict[str, Any], field: str, value: Any, limit: str) -> None:
    loop = InnerLoop("x", "y").to_json()
    assert InnerLoop.from_json(loop) == InnerLoop("x", "y")
    with refused(field, value, limit, file="plan.json"):
        InnerLoop.from_json(loop | changes, "plan.json")


def test_two_registers_are_enough() -> None:
    """For one weight and one sum; with fewer there is no machine."""
    work = TileWork((1, 32, 4, 4, 1), kernel=(3, 3))
    assert best_loop(VectorUnit(registers=2), work).costs.live == 2
    with refused("machine.vector_unit.registers", 1, "2"):
        VectorUnit(registers=1)
