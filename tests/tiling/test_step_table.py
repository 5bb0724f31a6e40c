"""The steps of a DSP's program as a table are the steps that are made one by one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from layers import with_plan

from tilewright.run.instance import read
from tilewright.simulator import LazySteps, Program, execute
from tilewright.simulator.columns import TabledSteps
from tilewright.tiling.dsp import local_traffic, nest_of
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.plan import DspPlan


def one_by_one(program: Program) -> Program:
    steps = program.steps
    assert isinstance(steps, TabledSteps)
    return replace(program, steps=LazySteps(len(steps), lambda: iter(steps)))


def check(problem: Any, plan: DspPlan) -> None:
    nest, local = (
        nest_of(problem.one_layer, problem.machine),
        local_traffic(problem.one_layer, problem.machine),
    )
    program = lower(nest, plan, local)
    options = {"lockstep": problem.machine.double_buffering, "overlapped": True}
    tabled, plain = execute(program, **options), execute(one_by_one(program), **options)
    assert tabled.violation == plain.violation
    assert tabled.summary() == plain.summary()
    assert tabled.per_step() == plain.per_step()
    assert tabled.labels == plain.labels


@given(with_plan())
@settings(max_examples=200)
def test_a_table_is_the_steps(drawn: tuple[Any, DspPlan]) -> None:
    check(*drawn)


@pytest.mark.parametrize("reuse", ["none", "tile", "halo"])
@pytest.mark.parametrize("order", ["ncyxk", "kncyx", "cknyx", "nyxkc"])
def test_a_table_is_the_steps_of_a_real_layer(order: str, reuse: str) -> None:
    problem = read("alexnet-conv3-64k").problem
    check(problem, DspPlan((1, 2, 77, 5, 6, 100), order, reuse))
