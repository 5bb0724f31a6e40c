"""The steps of a loop nest, made one by one, are those of its table."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from conftest import examples, totals
from hypothesis import given, settings
from layers import with_plan
from test_npu import WITH_PLAN

from tilewright.run.instance import read
from tilewright.simulator import LazySteps, Program, execute
from tilewright.simulator.columns import TabledSteps
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.lowering import lower as lower_npu
from tilewright.tiling.npu.plan import NpuPlan


def one_by_one(program: Program) -> Program:
    steps = program.steps
    assert isinstance(steps, TabledSteps)
    return replace(program, steps=LazySteps(len(steps), lambda: iter(steps)))


def check(problem: Any, plan: DspPlan) -> None:
    nest, local = (
        nest_of(problem.one_layer, problem.machine),
        local_traffic(nest_of(problem.one_layer, problem.machine)),
    )
    compare(lower(nest, plan, local), {"lockstep": problem.machine.double_buffering, "overlapped": True})


def compare(program: Program, options: dict[str, bool]) -> None:
    tabled, plain = execute(program, **options), execute(one_by_one(program), **options)
    assert tabled.violation == plain.violation
    assert totals(tabled) == totals(plain)
    assert tabled.per_step() == plain.per_step()
    assert tabled.labels == plain.labels


@given(with_plan())
@settings(max_examples=examples(200))
def test_a_table_is_the_steps(drawn: tuple[Any, DspPlan]) -> None:
    check(*drawn)


@pytest.mark.by_day(10)
@pytest.mark.parametrize("reuse", ["none", "tile", "halo"])
@pytest.mark.parametrize("order", ["ncyxk", "kncyx", "cknyx", "nyxkc"])
def test_a_table_is_the_steps_of_a_real_layer(order: str, reuse: str) -> None:
    problem = read("alexnet-conv3-64k").problem
    check(problem, DspPlan((1, 2, 77, 5, 6, 100), order, reuse))


@given(WITH_PLAN)
@settings(max_examples=examples(200))
def test_a_table_is_the_steps_of_an_npu(drawn: tuple[Any, NpuPlan]) -> None:
    problem, plan = drawn
    cut = cut_of(problem.one_layer, problem.machine, plan.partition)
    compare(lower_npu(cut, plan), {"overlapped": True})


@pytest.mark.by_day(1)
@pytest.mark.parametrize("schedule", ["IS", "OS", "WS"])
@pytest.mark.parametrize("partition", ["KS", "KS&OFM", "OFM"])
def test_a_table_is_the_steps_of_a_real_layer_on_an_npu(partition: str, schedule: str) -> None:
    problem = read("inceptionv3-conv5-nmp").problem
    cut = cut_of(problem.one_layer, problem.machine, partition)
    filters = cut.sizes[0] if schedule == "IS" else 5
    compare(lower_npu(cut, NpuPlan(partition, schedule, (filters, 30, 5, 20))), {"overlapped": True})  # type: ignore[arg-type]
