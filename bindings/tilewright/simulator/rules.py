"""The rules that every event must keep, and what is told of the first that breaks one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from tilewright.simulator.block import Block
from tilewright.simulator.columns import COMPUTE, FREE, LOAD, PRELOAD, READ, WRITE, Marks
from tilewright.simulator.program import Counts
from tilewright.simulator.report import Violation

Explain = Callable[[Counts], tuple[str, str]]
"""Given the rows of one event that break a rule: what was needed, and what was found."""

ExplainEvent = Callable[[int], tuple[str, str, str]]
"""Given an event that breaks a rule: what is concerned, what was needed, and what was found."""


def first_violation(block: Block) -> tuple[int, Violation] | None:
    """Return the first event that breaks a rule, and the first rule that it breaks."""
    first = len(block.kinds)
    tell: Callable[[], Violation] | None = None
    for name, broken, explain in _cell_rules(block):
        if broken.any() and (event := int(block.event[broken].min())) < first:
            first = event
            rows = np.flatnonzero(broken & (block.event == event))
            tell = partial(_of_cells, block, name, rows, explain)
    if block.run.schedule is not None and (early := _started_early(block)) is not None and early[0] < first:
        first, tell = early
    for name, broken, explain_event in _event_rules(block):
        if broken.any() and (event := int(np.argmax(broken))) < first:
            first = event
            tell = partial(_of_event, block, name, event, explain_event)
    return None if tell is None else (first, tell())


def lockstep_hazard(block: Block, own: Counts, phases: int) -> Violation | None:
    """Return the first load that lockstep begins before the write-back that it depends on.

    Loads go with the compute of the step before, write-backs with that of their own step; only in the
    epilog one comes after the other.
    """
    columns = block.run.columns
    rows = np.flatnonzero(block.load & (block.by == WRITE))
    when = own[block.steps[block.event[rows]]]
    rows = rows[(when == own[columns.step[block.changed[rows]]]) & (when <= phases)]
    if not rows.size:
        return None
    row = rows[np.argmin(block.event[rows])]
    return Violation(
        "lockstep hazard",
        int(block.steps[block.event[row]]),
        block.run.grid.name(int(block.cell[row])),
        "its data in DRAM while the step before computes",
        f"a write-back in step {columns.step[block.changed[row]]}",
    )


def _cell_rules(block: Block) -> Iterator[tuple[str, Marks, Explain]]:
    """Yield each rule of cells with the rows that break it; of one event the first rule is reported."""
    run, machine = block.run, block.run.machine
    freed, loaded = block.kind == FREE, block.load | (block.kind == PRELOAD)
    needed, limit = block.of_tensor(machine.macs), block.of_tensor(machine.loads)
    done = block.macs + block.adding

    def purpose(rows: Counts) -> str:
        event = block.event[rows[0]]
        target = int(run.columns.target[block.forms[event]])
        compute = f"compute {run.program.tensors[target].name}"
        return {FREE: "free", WRITE: "write back", READ: compute}[int(block.kinds[event])]

    yield (
        "not resident",
        (freed | (block.kind == WRITE) | block.read) & ~block.resident,
        lambda rows: (f"on chip to {purpose(rows)}", "it is not there"),
    )
    yield (
        "output lost",
        freed & ~block.stored & block.of_tensor(machine.is_output),
        lambda rows: ("a write-back before it is freed", "none"),
    )
    yield ("not in DRAM", loaded & ~block.stored, lambda rows: ("data to load", "none"))
    yield (
        "loaded twice",
        loaded & block.resident,
        lambda rows: ("a region that is not on chip", "it is resident already"),
    )
    yield (
        "reload limit",
        block.loads + block.bringing > limit,
        lambda rows: (
            f"at most {limit[rows[0]]} loads",
            f"load number {block.loads[rows].max() + 1}",
        ),
    )
    yield (
        "not computed",
        block.read & (block.macs < needed),
        lambda rows: (f"{needed[rows[0]]} MACs to {purpose(rows)}", "fewer"),
    )
    yield (
        "cut short",
        (block.kind == WRITE)
        & (run.columns.sums[block.forms[block.event]] == 0)
        & block.of_tensor(machine.widens)
        & (block.macs < needed),
        lambda rows: (f"{needed[rows[0]]} MACs to write it back in the width of what is complete", "fewer"),
    )
    yield (
        "computed twice",
        block.compute & (done > needed),
        lambda rows: (f"{needed[rows[0]]} MACs in all", f"{done[rows].max()}"),
    )
    yield (
        "not resident",
        block.compute & ~block.resident & (block.macs > 0),
        lambda rows: ("its partial sum on chip to add to", "it is not there"),
    )


def _event_rules(block: Block) -> Iterator[tuple[str, Marks, ExplainEvent]]:
    """Return the rules that are not for single cells, and the events that break them."""
    run, machine = block.run, block.run.machine
    engines = run.columns.engine[block.forms]
    yield (
        "too much work",
        (block.kinds == COMPUTE) & (block.work > machine.work[engines]),
        lambda event: (
            run.program.engines[engines[event]].name,
            f"at most {machine.work[engines[event]]} MACs in one action",
            f"{block.work[event]}",
        ),
    )
    schedule = run.schedule
    if schedule is not None:
        yield (
            "engine busy",
            schedule.busy(slice(block.first, block.first + len(block.kinds))),
            lambda event: (
                run.program.engines[engines[event]].name,
                f"it idle by cycle {schedule.start[block.first + event]}",
                f"at work until cycle {schedule.finish[schedule.previous[block.first + event]]}",
            ),
        )
    grows = (block.kinds == LOAD) | (block.kinds == PRELOAD) | (block.kinds == COMPUTE)
    over = grows & (block.held > machine.limit[machine.account[block.tensors]])
    static = machine.static[block.tensors]
    yield (
        "buffer overflow",
        over & static,
        lambda event: (
            run.program.tensors[block.tensors[event]].name,
            f"{block.held[event]} elements",
            f"a buffer of {run.program.tensors[block.tensors[event]].buffer}",
        ),
    )
    yield ("memory overflow", over & ~static, partial(_overflow, block))


def _started_early(block: Block) -> tuple[int, Callable[[], Violation]] | None:
    """Return the first event that starts before one that it depends on is over, and its explanation."""
    schedule, columns = block.run.schedule, block.run.columns
    assert schedule is not None
    after, before, cell = block.dependencies
    soon = np.flatnonzero(schedule.start[after] < schedule.finish[before])
    kind, other = (columns.kind[columns.form[events[soon]]] for events in (after, before))
    soon = soon[(kind != READ) | (other != READ)]  # Two of one engine, which is busy then.
    if not soon.size:
        return None
    event = int(after[soon].min())
    soon = soon[after[soon] == event]
    place = int(cell[soon].min())
    late = before[soon[cell[soon] == place]]
    last = int(late[np.argmax(schedule.finish[late])])

    def tell() -> Violation:
        used = int(columns.kind[columns.form[last]])
        begin, end = (int(cycles) for cycles in (schedule.start[event], schedule.finish[last]))
        what = {COMPUTE: "computed", LOAD: "loaded", WRITE: "written back", READ: "read"}[used]
        rule, needed = ("in use", "its readers done") if used == READ else ("not ready", "its data")
        return Violation(
            rule,
            int(columns.step[event]),
            block.run.grid.name(place),
            f"{needed} by cycle {begin}",
            f"{what} until cycle {end}",
        )

    return event - block.first, tell


def _overflow(block: Block, event: int) -> tuple[str, str, str]:
    run = block.run
    occupied = run.occupied.copy()
    events, tensors, changes = block.occupation
    np.add.at(occupied, tensors[events <= event], changes[events <= event])
    return run.overflow(int(run.machine.memory[block.tensors[event]]), occupied)


def _of_cells(block: Block, name: str, rows: Counts, explain: Explain) -> Violation:
    place = block.run.grid.name(int(block.cell[rows[0]]))
    return Violation(name, int(block.steps[block.event[rows[0]]]), place, *explain(rows))


def _of_event(block: Block, name: str, event: int, explain: ExplainEvent) -> Violation:
    return Violation(name, int(block.steps[event]), *explain(event))
