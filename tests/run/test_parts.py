"""Layers of a network: what some leave of their time, others get; several at a time; none without a plan."""

from __future__ import annotations

import itertools
import threading
import time
from typing import Any

import pytest

import tilewright as tw
from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of
from tilewright.run.instance import read
from tilewright.run.methods import PartInHand, _impossible, _Parts
from tilewright.run.solving import run as running
from tilewright.run.workers import supervisor
from tilewright.spec.errors import TilewrightError
from tilewright.tiling import MACHINES, Plan, Problem


@pytest.mark.nightly
def test_a_layer_whose_share_was_too_short_gets_what_others_leave() -> None:
    problem = read("lenet5-idsp").problem
    room = room_of(problem)
    parts = room.parts(problem)
    asked: list[tuple[int, float]] = []

    def method(part: Any, context: RunContext) -> Outcome:
        asked.append((id(part), context.remaining()))
        if part is parts[0][1] and len(asked) <= len({id(part) for _, part in parts}):
            time.sleep(context.remaining())
            return Outcome("unknown")
        found = MACHINES["dsp"].exhaustive(part, float("inf"))
        assert found is not None
        context.on_plan(Plan(found.layers))
        return Outcome("optimal", bound=found.value)

    context = RunContext(deadline=time.monotonic() + 20)
    told: list[PartInHand] = []
    outcome = _Parts(room, parts, context, True, told.append).run(method)
    many = len({id(part) for _, part in parts})
    assert [part.number for part in told if not part.ended] == [*range(1, many + 1), 1]
    assert [(part.many, part.name) for part in told[::2]] == [(part.many, part.name) for part in told[1::2]]
    assert told[1].objective is None and told[-1].objective == told[-1].bound
    assert told[0].name == parts[0][0]
    assert outcome.status == "optimal"
    first = [share for key, share in asked if key == id(parts[0][1])]
    assert len(first) == 2
    assert first[0] < first[1]


def test_layers_are_solved_side_by_side() -> None:
    problem = read("lenet5-idsp").problem
    room = room_of(problem)
    parts = room.parts(problem)
    both, begun = threading.Barrier(2, timeout=60), itertools.count()
    told: list[PartInHand] = []

    def method(part: Any, context: RunContext) -> Outcome:
        assert context.threads == 1
        if next(begun) < 2:
            both.wait()  # for ever, were they one after the other
        found = MACHINES["dsp"].exhaustive(part, float("inf"))
        assert found is not None
        context.on_plan(Plan(found.layers))
        return Outcome("optimal", bound=found.value)

    plans: list[Plan] = []
    context = RunContext(deadline=time.monotonic() + 60, threads=2, on_plan=plans.append)
    outcome = _Parts(room, parts, context, True, told.append, threads=2).run(method)
    assert outcome.status == "optimal"
    assert [part.ended for part in told[:2]] == [False, False]
    alone: list[Plan] = []
    context = RunContext(deadline=time.monotonic() + 60, on_plan=alone.append)
    begun = itertools.count(2)
    assert _Parts(room, parts, context, True).run(method).status == "optimal"
    assert room.objective(problem, alone[-1]) == room.objective(problem, plans[-1])


def test_layers_may_end_while_others_look_whether_one_is_impossible() -> None:
    ended: dict[int, Any] = {}

    class Ended:
        @property
        def status(self) -> str:
            ended[len(ended)] = Outcome("optimal")  # as another thread does
            return "optimal"

    ended[0] = Ended()
    assert not _impossible(ended)


def test_what_fails_of_one_layer_fails_for_the_network() -> None:
    problem = read("lenet5-idsp").problem
    room = room_of(problem)

    def method(_part: Any, _context: RunContext) -> Outcome:
        raise TilewrightError("it is too late")

    parts = _Parts(room, room.parts(problem), RunContext(threads=2), True, threads=2)
    with pytest.raises(TilewrightError, match="too late"):
        parts.run(method)


def layers(many: int) -> Problem:
    """Return a network of so many different layers on a small hierarchy."""
    machine = {
        "kind": "hierarchy",
        "levels": [
            {"name": "dram", "bytes_per_cycle": 1.0},
            {"name": "buffer", "capacity_bytes": 300, "double_buffering": True},
        ],
    }
    chain = [
        {"name": f"l{i}", "kind": "conv", "input": [2 + i, 4, 4], "kernels": 3 + i, "kernel": [1, 1]}
        for i in range(many)
    ]
    return Problem.model_validate(
        {
            "network": {"name": "small", "layers": chain},
            "machine": machine,
            "objective": {"minimise": "cycles"},
        }
    )


def test_a_network_has_a_plan_and_a_bound_when_there_is_no_time() -> None:
    result = tw.solve(layers(9), time_limit=0.01)
    assert result.status == "feasible"
    assert result.simulated and result.report is not None and result.report.valid
    assert 0 < result.bound < result.objective


def test_what_takes_long_although_time_is_up_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()

    def slow(_method: str, _problem: Any, context: RunContext, _listener: Any) -> Outcome:
        context.on_bound(1)
        ended.wait(60)
        return Outcome("unknown")

    monkeypatch.setattr(running, "run_method", slow)
    monkeypatch.setattr(running, "ANY_PLAN_SECONDS", 0.0)
    result = tw.solve(layers(9), time_limit=0.01)
    assert result.status == "unknown" and not ended.is_set()
    ended.set()


def test_a_network_of_many_layers_is_solved_by_the_worker_that_was_prepared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    workers: list[supervisor.Worker] = []
    begin = supervisor.Worker.begin

    def noted(self: supervisor.Worker, job: dict[str, Any]) -> None:
        workers.append(self)
        begin(self, job)

    monkeypatch.setattr(supervisor.Worker, "begin", noted)
    supervisor.IDLE.stop()
    supervisor.IDLE.prepare("tiling", "exhaustive")
    (prepared,) = supervisor.IDLE._waiting
    supervisor.IDLE.prepare("tiling", "exhaustive")
    assert supervisor.IDLE._waiting == [prepared]
    result = tw.solve(layers(9), time_limit=120)
    assert result.status == "optimal"
    assert workers == [prepared]
    supervisor.IDLE.stop()
