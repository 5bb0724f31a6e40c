"""The room offloading from a problem to a picture: six patches in three steps, where pixels may stay.

A plane of 4 x 5 pixels, a kernel of 3 x 3: two rows of three patches, two patches a step. In the order of
zigzag, 00 01 | 02 12 | 11 10, the first step loads 12 pixels and the second 6. Of those that the third needs
the second has all but six: four that the first has loaded, and two that nobody has. The memory holds kernels
(9), outputs of a step (2) and 18 pixels; the second step needs 12, so that the four may stay: 20 loads, as
there are 20 pixels. In grouping, where nothing stays that a step does not need, zigzag loads 24.
"""

from __future__ import annotations

import time
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from conftest import refused, tells

import tilewright as tw
from tilewright.core.context import RunContext
from tilewright.heuristics.offloading import descent, zigzag
from tilewright.offloading import minizinc
from tilewright.offloading.plan import Block, Moves, Step
from tilewright.spec.errors import TilewrightError

PROBLEM = tw.OffloadingProblem(
    layer=tw.Layer(input=(1, 4, 5), kernels=1, kernel=3),
    machine=tw.OffloadingMachine(macs_per_step=18, memory=29, kernels="preloaded"),
    objective=tw.OffloadingObjective(minimise="loads"),
)


@cache
def optimum() -> tw.Result:
    return tw.solve(PROBLEM, "zigzag")


def test_pixels_stay_though_a_step_does_not_need_them() -> None:
    result = optimum()
    assert (result.status, result.objective, result.bound) == ("optimal", 20 + 3, 23)
    assert result.measures.loaded_elements == {"input": 20}
    first, second, third = result.plan.steps
    assert first.blocks == (Block(((0, 2),), ((0, 1),), ((0, 1),)),)
    assert second.moves[0].load_inputs == ((4, 5), (9, 10), (14, 15), (17, 20))
    assert third.moves[0].load_inputs == ((15, 17),)


def test_what_does_not_fit_comes_back() -> None:
    """With five pixels less, one of the four stays, and three are loaded again."""
    result = tw.solve(PROBLEM.with_(machine={"memory": 24}), "zigzag")
    assert result.objective == 23 + 3


@pytest.mark.parametrize("method", ["held@highs", "blocks@cpsat"])
def test_a_model_finds_the_best_order_for_a_small_memory(method: str) -> None:
    """Grouping's optimum, 00 01 | 02 10 | 11 12, needs 17 pixels at a time: eight of its pixels would go."""
    if method.endswith("cpsat"):
        pytest.importorskip("ortools")
    result = tw.solve(PROBLEM.with_(machine={"memory": 28}), method, time_limit=60)
    assert (result.status, result.objective) == ("optimal", 23)


TWO_CHANNELS = tw.OffloadingProblem(
    layer=tw.Layer(input=(2, 1, 1), kernels=1, kernel=1),
    machine=tw.OffloadingMachine(macs_per_step=1, memory=3),
)


def test_a_sum_stays_or_goes_and_comes_back() -> None:
    """Two products that are added up: two inputs and two weights are loaded, a sum is written, two steps."""
    assert tw.solve(TWO_CHANNELS, "zigzag").objective == 4 + 1 + 2
    blocks = [Block(((0, 1),), ((k, k + 1),), ((c, c + 1),)) for k, c in ((0, 0), (1, 0), (1, 1), (0, 1))]
    come = Moves(write=((1, 2),), free_kernels=((3, 4),), load_kernels=((1, 2),), load_sums=((0, 1),))
    moves = (
        Moves(load_inputs=((0, 1),), load_kernels=((0, 1),)),
        Moves(write=((0, 1),), free_kernels=((0, 1),), load_kernels=((2, 3),)),
        Moves(free_inputs=((0, 1),), free_kernels=((2, 3),), load_inputs=((1, 2),), load_kernels=((3, 4),)),
        come,
    )
    steps = tuple(Step((block,), (each,)) for block, each in zip(blocks, moves, strict=True))
    two_kernels = TWO_CHANNELS.with_(layer={"kernels": 2})
    report = tw.simulate(two_kernels, tw.OffloadingPlan(steps=steps), numeric=True)
    assert report.valid and report.numeric
    assert report.measures.duration_cycles == 6 + 2 + 4 + 2  # one more is written, and one more loaded
    lost = Step((blocks[3],), (replace(come, load_sums=()),))
    assert not tw.simulate(two_kernels, tw.OffloadingPlan(steps=(*steps[:3], lost))).valid


def test_a_layer_whose_kernels_do_not_fit() -> None:
    """What grouping refuses: 4,608 elements of kernels, and a memory of 2,000."""
    layer = {"input": [8, 16, 16], "kernels": 64, "kernel": [3, 3], "padding": 1}
    machine = {"macs_per_step": 18_432, "memory": 2_000}
    with refused("machine.memory", 2_000, "4608"):
        tw.GroupingProblem.model_validate({"layer": layer, "machine": machine})
    found = tw.solve(tw.OffloadingProblem.model_validate({"layer": layer, "machine": machine}), "zigzag")
    assert found.measures.peak_elements <= 2_000 < found.measures.loaded_elements["kernels"]
    assert found.measures.most_loads_of_an_element <= 2


def test_what_no_machine_can_do_is_refused() -> None:
    with refused("machine.memory", 18, "19"):
        PROBLEM.with_(machine={"memory": 18})  # kernels, a patch and its output
    with refused("machine.macs_per_step", 8, "9 MACs"):
        PROBLEM.with_(machine={"macs_per_step": 8})
    with refused("layer.groups", 2, "must be 1"):
        tw.OffloadingProblem.model_validate(
            {
                "layer": {"input": [2, 3, 3], "kernels": 2, "kernel": 1, "groups": 2},
                "machine": {"macs_per_step": 9},
            }
        )
    with refused("limits.steps", 2, "between 3 and 6"):
        PROBLEM.with_(limits={"steps": 2})
    with refused("machine.unit", (4, 1), "takes three numbers: patches, kernels, channels"):
        PROBLEM.with_(machine={"unit": (4, 1)})


def test_numbers_that_minizinc_cannot_count_are_refused() -> None:
    """In each of 16 steps 8 + 16 + 8 elements may be loaded, in runs, and outputs written once more after."""
    prices = {"load": 1_000_000, "write": 1_000_000, "burst": 1_000_000}
    problem = tw.OffloadingProblem.model_validate(
        {
            "layer": {"input": [2, 2, 2], "kernels": 4, "kernel": [2, 1]},
            "machine": {"macs_per_step": 4, **prices},
        }
    )
    most = 10**6 * (2 * (16 * 32 + 16) + 2 * 17 * 8) + 16
    assert most < 2**31 and minizinc.why_not(problem) is None
    more = problem.with_(layer={"kernels": 6})
    told = f"{10**6 * (2 * (24 * 44 + 24) + 2 * 25 * 12) + 24:,}"
    assert tells(minizinc.why_not(more), "numbers up to", told, f"{2**31 - 2:,}")
    with pytest.raises(TilewrightError, match=told):
        tw.solve(more, "reference@gecode", time_limit=10)


FEW_RELOADS = tw.OffloadingProblem(
    layer=tw.Layer(input=(1, 5, 2), kernels=4, kernel=(1, 2), stride=(1, 2)),
    machine=tw.OffloadingMachine(macs_per_step=12, memory=6),
    limits=tw.OffloadingLimits(channels="all"),
)


def test_a_plan_where_no_nest_of_loops_loads_so_seldom() -> None:
    """Five patches and four kernels of two elements, of which five elements are there beside an output."""
    with refused("heuristic", "zigzag", "no order of its loops keeps"):
        zigzag.plan(FEW_RELOADS)
    enough = RunContext(deadline=time.monotonic() + 60, bound=1_000)
    report = tw.simulate(FEW_RELOADS, descent.plan(FEW_RELOADS, enough))
    assert report.valid and report.measures.most_loads_of_an_element == 2


def test_where_no_plan_is_found_the_limits_are_told() -> None:
    """With one patch and one kernel at a time, each load is for one of 20 pairs, and there are 18 at most."""
    search = RunContext(deadline=time.monotonic() + 0.2)
    with refused("heuristic", "descent", "no plan", "memory = 5", "reloads = 2"):
        descent.plan(FEW_RELOADS.with_(machine={"memory": 5}), search)


@pytest.mark.parametrize("address", [-4, 2**31, 1.0, True, "0"])
def test_an_address_that_is_none_is_told(address: object) -> None:
    with refused("plan.addresses[1]", address, "must be an integer from 0"):
        tw.OffloadingPlan.from_json({"steps": [], "addresses": [0, address]})


def test_addresses_are_asked_for_and_judged() -> None:
    problem = PROBLEM.with_(machine={"placement": "contiguous", "memory": 40})
    result = tw.solve(problem, "zigzag")
    assert result.plan.addresses is not None
    assert not tw.simulate(problem, tw.OffloadingPlan(steps=result.plan.steps)).valid
    together = tw.OffloadingPlan(steps=result.plan.steps, addresses=(0,) * len(result.plan.addresses))
    assert "overlap" in str(tw.simulate(problem, together).violation)


def test_addresses_are_decided_with_all_else() -> None:
    proven = tw.solve(
        TWO_CHANNELS.with_(machine={"placement": "contiguous"}), "reference@gecode", confirm=False
    )
    assert (proven.status, proven.objective) == ("optimal", 4 + 1 + 2)
    assert len(proven.plan.addresses) == 5


def test_a_result_is_written_read_checked_and_drawn(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    optimum().write(file)
    assert tw.Result.read(file, PROBLEM) == optimum()
    assert all(finding.holds for finding in tw.check(PROBLEM, file))
    tw.plot(PROBLEM, optimum(), tmp_path / "plan.svg")
    assert "<svg" in (tmp_path / "plan.svg").read_text()
