"""Layers of a network, one after the other: what some leave of their time, others get."""

from __future__ import annotations

import time
from typing import Any

from tilewright.core.context import Outcome, RunContext
from tilewright.core.room import room_of
from tilewright.run.instance import read
from tilewright.run.methods import PartInHand, _Parts
from tilewright.tiling import MACHINES, Plan


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
