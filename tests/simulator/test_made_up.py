"""Made-up programs, valid and broken: the executor against one that goes element by element."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import damaged_programs, valid_programs
from plain_executor import PlainExecutor, own_cycles, plain_lockstep, plain_sequential
from test_timing import check

from tilewright.simulator import Compute, Free, Program, Report, execute, executor, timing


@pytest.fixture(params=[None, 1, 6], ids=lambda size: f"blocks of {size}")
def blocks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make what is done at once so small that each program has many blocks."""
    if request.param is not None:
        monkeypatch.setattr(executor, "_BLOCK_EVENTS", request.param)
        monkeypatch.setattr(executor, "_BLOCK_ROWS", 2 * request.param)
        monkeypatch.setattr(timing, "_CHUNK", request.param)


def agree(program: Program, lockstep: bool) -> tuple[Report, PlainExecutor]:
    """Execute a program both ways and compare all that is counted."""
    report, plain = execute(program, lockstep=lockstep), PlainExecutor(program)
    expected, found = plain.run(lockstep), report.violation
    if found is None:
        assert expected is None
    else:
        assert (found.rule, found.step, found.tensor, found.needed, found.found) == expected
    for kind in ("loaded", "freed", "written", "computed", "footprint"):
        table = getattr(report, kind)
        assert [
            {name: counts[step] for name, counts in table.items() if counts[step]}
            for step in range(len(plain.rows))
        ] == [{name: n for name, n in row.get(kind, {}).items() if n} for row in plain.rows]
    assert report.labels == [step.label for step in program.steps][: len(plain.rows)]
    assert list(report.macs) == plain.step_macs
    assert (report.transfers, report.streamed) == (plain.transfers, plain.streamed)
    for name, most in report.most_loads.items():
        assert most == max((n for (tensor, _), n in plain.loads.items() if tensor == name), default=0)
    return report, plain


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(), st.booleans())
@settings(max_examples=examples(100))
def test_valid_programs(program: Program, lockstep: bool) -> None:
    report, plain = agree(program, lockstep)
    if report.violation is not None:  # Valid one after the other, but not in lockstep.
        assert lockstep
        return
    assert report.sequential is not None
    spans = zip(report.sequential.start.tolist(), report.sequential.finish.tolist(), strict=True)
    assert list(spans) == plain_sequential(program)
    assert report.sequential.cycles == max((end for _, end in plain_sequential(program)), default=0)
    assert report.sequential.peak == plain.peak
    assert report.step_cycles().sum() == report.sequential.cycles
    if lockstep:
        assert report.lockstep is not None
        assert report.lockstep.cycles == plain_lockstep(program)
        assert report.lockstep.peak == plain.lockstep_peak


@pytest.mark.by_day(2)
@pytest.mark.usefixtures("blocks")
@given(damaged_programs(), st.booleans())
@settings(max_examples=examples(200))
def test_damaged_programs(program: Program, lockstep: bool) -> None:
    agree(program, lockstep)


@pytest.mark.by_day(1)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(simple=True))
def test_engines_on_their_own_clocks(program: Program) -> None:
    check(program)


@pytest.mark.by_day(3)
@pytest.mark.usefixtures("blocks")
@given(valid_programs(simple=True), st.sampled_from([None, "matrix"]))
def test_lockstep_is_between_the_obvious_bounds(program: Program, host: str | None) -> None:
    engines = tuple(
        replace(engine, setup_on=host) if engine.name in ("load", "write") else engine
        for engine in program.engines
    )
    program = replace(
        program,
        engines=engines,
        tensors=tuple(replace(tensor, buffer=None) for tensor in program.tensors),
        memories=tuple(replace(memory, capacity=None) for memory in program.memories),
    )
    report = execute(program, lockstep=True)
    if report.violation is not None:
        assert report.violation.rule == "lockstep hazard"
        return
    line = report.lockstep
    assert line is not None
    assert report.sequential is not None
    assert line.cycles <= report.sequential.cycles
    assert sum(line.busy().values()) == sum(report.sequential.busy().values())
    assert all(busy <= line.cycles for busy in line.busy().values())
    assert line.cycles == max(line.finish, default=0)
    # Each action once, as long as it takes, none before what it needs, no engine at two things at once.
    actions = [a for step in program.steps for a in step.actions if not isinstance(a, Free)]
    spans: dict[str, list[tuple[int, int]]] = {}
    for action, start, finish in zip(actions, line.start.tolist(), line.finish.tolist(), strict=True):
        hosted = 0
        if host is not None and not isinstance(action, Compute):
            hosted = next(engine.setup for engine in program.engines if engine.name == action.engine)
        assert finish - start == own_cycles(program, action) - hosted
        spans.setdefault(action.engine, []).append((start, finish))
    for found in spans.values():
        ordered = sorted(found)
        assert all(before[1] <= after[0] for before, after in pairwise(ordered))
    of_step: dict[int, dict[str, list[tuple[int, int]]]] = {}
    for action, step, start, finish in zip(
        actions, line.step.tolist(), line.start.tolist(), line.finish.tolist(), strict=True
    ):
        of_step.setdefault(step, {}).setdefault(type(action).__name__, []).append((start, finish))
    computed = 0  # End of the computes of the steps before.
    for stages in of_step.values():
        loaded = max((end for _, end in stages.get("Load", [])), default=0)
        assert all(computed <= start for start, _ in stages.get("WriteBack", []))
        assert all(max(loaded, computed) <= start for start, _ in stages.get("Compute", []))
        computed = max([computed, *(end for _, end in stages.get("Compute", []))])
