"""Plans of the room residency that break a rule say which, and so does the memory that they run in."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from conftest import refused, tells
from residency_cases import problem_of

from tilewright.residency import Plan, Problem, Step, objective, placement, simulate, violation
from tilewright.residency.evaluation import best_bound
from tilewright.residency.exact.traffic import least_memory
from tilewright.residency.machine import machine_from
from tilewright.residency.placement import Item, PlacementParams
from tilewright.run import instance
from tilewright.spec.errors import InputError

CHAIN = {
    "layers": [
        {"name": "a", "input": [2, 6, 6], "kernels": 3, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        {"name": "b", "input": [3, 6, 6], "kernels": 2, "kernel": [3, 3], "padding": [1, 1, 1, 1]},
        {"name": "c", "kind": "add", "input": [2, 6, 6], "inputs": ["b", "input"]},
    ]
}
"""A residual block: 72 elements in, 108 between, 72 out; 54 weights each."""


def block(capacity: int = 1000) -> Problem:
    return problem_of(CHAIN, capacity)


FUSED = Plan(
    (
        Step(
            ("a", "b", "c"),
            kept=("a", "b"),
            written=("c",),
            addresses={
                "lines of input": 0,
                "lines of a": 100,
                "lines of b": 200,
                "weights of a": 300,
                "weights of b": 400,
                "block of c": 500,
            },
        ),
    )
)
SINGLE = Plan(
    (
        Step(
            ("a",),
            "kernels",
            fetched=("input",),
            resident=("a",),
            addresses={"input": 0, "a": 100, "weights of a": 300},
        ),
        Step(("b",), "kernels", resident=("b",), addresses={"b": 208, "weights of b": 300}),
        Step(("c",), "kernels", written=("c",), addresses={"block of c": 400}),
    )
)


def changed(plan: Plan, place: int = 0, **changes: Any) -> Plan:
    steps = list(plan.steps)
    steps[place] = replace(steps[place], **changes)
    return Plan(tuple(steps))


def moved(plan: Plan, name: str, address: int, place: int = 0) -> Plan:
    return changed(plan, place, addresses={**plan.steps[place].addresses, name: address})


def test_a_block_in_one_step_moves_only_what_it_must() -> None:
    problem = block()
    for plan in (FUSED, SINGLE):
        assert violation(problem, plan) is None
        report = simulate(problem, plan, numeric=True)
        assert report.valid and report.numeric is True
        assert report.measures.traffic_bytes == objective(problem, plan) == 72 + 54 + 54 + 72
        assert report.n_steps == len(plan.steps)  # the sum has no MACs, and is computed like all else
        assert Plan.from_json(plan.to_json()) == plan
    assert best_bound(problem).value == 72 + 54 + 54 + 72


def test_line_buffers_hold_what_is_still_needed() -> None:
    # One pixel a pass: b needs 2 rows and 3 pixels of a. What a reads is two rows and two pixels ahead of c.
    report = simulate(block(), FUSED)
    (step,) = report.measures.steps_of_plan.values()
    on_chip = step.on_chip_bytes
    assert on_chip["lines of a"] == 3 * (2 * 6 + 3)
    assert on_chip["lines of b"] == 2
    assert on_chip["lines of input"] == 2 * (2 * 6 + 2 + 1)
    assert on_chip["block of c"] == 2


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (moved(FUSED, "weights of a", 110), "overlap .. step 1 .. weights of a .. lines of a"),
        (moved(FUSED, "block of c", 999), "memory .. step 1 .. block of c"),
        (moved(SINGLE, "weights of b", 150, 1), "overlap .. step 2 .. a .. weights of b"),
        (moved(SINGLE, "b", 10, 1), "overlap .. step 2 .. b .. input"),
        (changed(FUSED, addresses={}), "addresses .. step 1 .. no address"),
        (moved(FUSED, "nothing", 1), "addresses .. step 1 .. nothing"),
        (changed(FUSED, operations=("a", "c")), "order .. step 1 .. b"),
        (changed(FUSED, operations=("b", "a", "c")), "operations .. step 1 .. later"),
        (changed(FUSED, operations=("a", "b", "d")), "operations .. step 1 .. operation d"),
        (Plan(SINGLE.steps[:2]), "operations .. no step .. c"),
        (Plan((SINGLE.steps[0], *SINGLE.steps)), "operations .. step 2 .. a .. executed"),
        (changed(FUSED, written=()), "residency .. step 1 .. keeps .. writes c"),
        (changed(FUSED, resident=("c",)), "residency .. step 1 .. keeps"),
        (changed(SINGLE, 1, dropped=("a",)), "residency .. step 2 .. drops"),
        (changed(SINGLE, 1, fetched=("a",)), "residency .. step 2 .. fetches"),
        (changed(FUSED, kept=("a",)), "pixels .. step 1 .. rows"),
        (changed(FUSED, kept=("c",)), "weights .. step 1"),
        (changed(FUSED, order="kernels", kept=()), "order .. step 1"),
        (changed(FUSED, pixels=37), "pixels .. step 1 .. 36"),
        (changed(FUSED, kernels=4), "kernels .. step 1 .. 3"),
        (changed(SINGLE, 1, in_place="a"), "in place .. step 2"),
    ],
)
def test_what_is_wrong_is_said(plan: Plan, told: str) -> None:
    assert tells(violation(block(), plan), told)


def test_a_memory_that_is_too_small_is_said() -> None:
    assert tells(violation(block(200), SINGLE), "memory .. step 2 (b) .. 279 bytes")


@pytest.mark.parametrize(
    ("plan", "told"),
    [
        (moved(FUSED, "weights of a", 110), "lines of a|element .* of (a|weights of a)"),
        (moved(FUSED, "lines of a", 29), "found element"),
        (moved(SINGLE, "weights of b", 150, 1), "element .* of a"),
        (moved(SINGLE, "b", 10, 1), "element .* of input"),
        (moved(FUSED, "block of c", 1000), "addresses from 0 to 999"),
        (changed(FUSED, addresses={}), "needed an address, found none"),
    ],
)
def test_the_memory_notices_what_is_lost(plan: Plan, told: str) -> None:
    report = simulate(block(), plan, numeric=True)
    assert report.violation is not None and report.violation.rule == "address"
    assert re.search(told, str(report.violation))


def test_a_lost_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line buffer that is a pixel too short loses one that is still needed."""
    from tilewright.residency.shapes.groups import Group

    right = Group.line_pixels

    def short(self: Group, pixels: int) -> dict[int, int]:
        return {tensor: held - (tensor == 1) for tensor, held in right(self, pixels).items()}

    monkeypatch.setattr(Group, "line_pixels", short)
    report = simulate(block(), FUSED, numeric=True)
    assert report.violation is not None
    assert report.violation.tensor == "a" and "of a" in report.violation.found


def test_a_sum_takes_the_place_of_what_nobody_needs_any_more() -> None:
    network = {
        "layers": [*CHAIN["layers"], {"name": "d", "input": [2, 6, 6], "kernels": 1, "kernel": [1, 1]}]
    }
    problem = problem_of(network, 1000)
    block = Step(
        ("a", "b", "c"),
        kept=("a", "b"),
        fetched=("input",),
        resident=("c",),
        in_place="input",
        addresses={
            "input": 0,
            "c": 0,
            "lines of a": 100,
            "lines of b": 200,
            "weights of a": 300,
            "weights of b": 400,
        },
    )
    last = Step(("d",), "kernels", written=("d",), addresses={"block of d": 100, "weights of d": 110})
    plan = Plan((block, last))
    assert violation(problem, plan) is None
    report = simulate(problem, plan, numeric=True)
    assert report.valid and report.numeric
    elsewhere = Plan((replace(block, addresses={**block.addresses, "c": 500}), last))
    assert tells(violation(problem, elsewhere), "in place .. step 1 .. c .. address")


def test_what_cannot_run_is_refused_with_the_least_that_would_do() -> None:
    least = block().least_memory
    with refused("machine.memory_bytes", least - 5, "operation a .. 5 bytes", least):
        block(least - 5)
    assert block(least).least_memory
    found = least_memory(block().with_(objective={"minimise": "memory"}), float("inf"), lambda _bound: None)
    assert found.bound == least


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"objective": {"most_traffic": 5}}, "objective.most_traffic = 5: .*minimised"),
        ({"machine": {"memory_bytes": 0}}, "machine.memory_bytes = 0"),
        ({"limits": {"order": "none"}}, "limits.order"),
    ],
)
def test_bad_input_is_named(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        block().with_(**changes)


def test_limits_are_kept() -> None:
    assert tells(violation(block().with_(limits={"most_operations": 2}), FUSED), "step 1 .. 2")
    problem = block().with_(objective={"minimise": "memory", "most_traffic": 251})
    assert tells(violation(problem, FUSED), "252 .. 251")
    assert best_bound(problem).impossible is not None


def test_machines_of_other_rooms_are_read() -> None:
    dsp = instance.read("lenet5-conv2-idsp").problem.machine.model_dump()
    found = machine_from(dsp).found
    rates = ("bus_elements_per_cycle", "macs_per_cycle", "dma_setup_cycles", "double_buffering", "energy")
    told = {name: dsp[name] for name in rates}
    assert found == {"element_bytes": 2, "memory_bytes": dsp["memory_bytes"]} | told
    assert "memory_bytes" in machine_from({"clock_mhz": 3}).lacking


def test_addresses_are_found_where_first_fit_finds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two long buffers that only fit at the ends: places for all are proven to exist, or not to."""
    found = [Item(0, 2, 3, ()), Item(0, 1, 2, ()), Item(1, 3, 2, ()), Item(2, 4, 3, ())]
    monkeypatch.setattr(placement, "PARAMS", PlacementParams(orders_per_item=0))
    addresses = placement.find_addresses(found, 5, float("inf"), exact=True)
    assert addresses is not None
    for place, one in enumerate(found):
        for other, address in zip(found[:place], addresses, strict=False):
            if one.begin < other.end and other.begin < one.end:
                assert addresses[place] + one.size <= address or address + other.size <= addresses[place]
    assert placement.find_addresses(found, 4, float("inf"), exact=True) is None
    assert placement.find_addresses(found, 5, float("inf")) is None
