"""The timeline in which every engine works on its own clock."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from tilewright.simulator.columns import COMPUTE, FREE, WRITE, Columns
from tilewright.simulator.program import Counts
from tilewright.simulator.report import Names, Timeline
from tilewright.simulator.timing import Actions, static_buffer_size
from tilewright.spec.arrays import distinct


class Accounts(NamedTuple):
    """Where tensors are held: the memories come first, then the buffers of single tensors.

    Attributes
    ----------
    of : int, shape (tensors,)
        The account of each tensor.
    limit, held : int, shape (accounts,)
        What each may hold, and what it holds before the first step.
    """

    of: Counts
    limit: Counts
    held: Counts


class _Work(NamedTuple):
    """The actions as lists, which are faster than arrays to read one by one.

    Attributes
    ----------
    kind, step, engine, account, change, cycles
        Of each action; the engine of what happens at once is -1.
    """

    kind: list[int]
    step: list[int]
    engine: list[int]
    account: list[int]
    change: list[int]
    cycles: list[int]


class _StepWork(NamedTuple):
    """What each step consists of.

    Attributes
    ----------
    early
        Frees and write-backs, which may run when the step before is open.
    late
        Loads and computes, which may run when the step itself is open.
    space
        What the late actions allocate, by account.
    computes
        How many computes it has.
    """

    early: list[list[int]]
    late: list[list[int]]
    space: list[dict[int, int]]
    computes: list[int]


class _Waits(NamedTuple):
    """Which actions wait for which.

    Attributes
    ----------
    pending
        How many others each action waits for.
    followers, limits
        Those that wait for action i are ``followers[limits[i] : limits[i + 1]]``.
    """

    pending: list[int]
    followers: list[int]
    limits: list[int]


def overlapped_timeline(
    columns: Columns, accounts: Accounts, allocated: Counts, after: Counts, before: Counts
) -> Timeline:
    """Let every engine work on its own clock, with as much double buffering as the memory allows.

    A step is *opened* when the step ``program.buffers`` before it has computed and there is space for all
    that it loads and computes, in the memory or in the copies of a tensor's own buffer. Its space is taken
    at once, so an opened step always ends. Its frees and write-backs may run as soon as the step before it
    is open, since they make that space. Each engine starts, of the actions that are open and whose needs are
    met, the first one in program order; the same data it reads in program order. The set-up of a transfer
    counts on the engine that transfers. When steps start by a static schedule plays no part.

    Parameters
    ----------
    accounts
        What the data of each tensor are held on.
    allocated
        Change of what is held on its account by each event.
    after, before
        Numbers of events: each of the first needs the result, the operands or the space of the second.
    """
    program, actions = columns.program, Actions(columns)
    events = actions.event
    form = columns.form[events]
    tensors = columns.tensor[form]
    work = _Work(
        kind=columns.kind[form].tolist(),
        step=(columns.step[events] - 1).tolist(),
        engine=columns.engine[form].tolist(),
        account=accounts.of[tensors].tolist(),
        change=allocated[events].tolist(),
        cycles=actions.cycles.tolist(),
    )
    steps = _by_step(work, len(columns.labels))
    waits = _waits(actions.number[after], actions.number[before], len(events))
    finish, peak = _run_clocks(columns, accounts, work, steps, waits)
    shown = [action for action, engine in enumerate(work.engine) if engine >= 0]
    ends = np.array(finish, dtype=np.int64)[shown]
    return Timeline(
        cycles=int(ends.max(initial=0)),
        step=columns.step[events[shown]] - 1,
        start=ends - actions.cycles[shown],
        finish=ends,
        engine=Names(
            [engine.name for engine in program.engines], columns.engine[form][shown].astype(np.int16)
        ),
        tensor=Names([tensor.name for tensor in program.tensors], tensors[shown].astype(np.int16)),
        peak=static_buffer_size(program) + peak,
    )


def _by_step(work: _Work, steps: int) -> _StepWork:
    """Sort the actions by their steps."""
    early: list[list[int]] = [[] for _ in range(steps)]
    late: list[list[int]] = [[] for _ in range(steps)]
    space: list[dict[int, int]] = [{} for _ in range(steps)]
    computes = [0] * steps
    kind, account, change = work.kind, work.account, work.change
    for action, step in enumerate(work.step):
        if kind[action] in (FREE, WRITE):
            early[step].append(action)
            continue
        late[step].append(action)
        if change[action]:
            space[step][account[action]] = space[step].get(account[action], 0) + change[action]
        computes[step] += kind[action] == COMPUTE
    return _StepWork(early, late, space, computes)


def _waits(after: Counts, before: Counts, actions: int) -> _Waits:
    """Return the waits between actions, each once; each of the first waits for the second."""
    first, second = np.divmod(distinct(before * actions + after), max(1, actions))
    first, second = first[first != second], second[first != second]
    return _Waits(
        pending=np.bincount(second, minlength=actions).tolist(),
        followers=second.tolist(),
        limits=np.searchsorted(first, np.arange(actions + 1)).tolist(),
    )


def _run_clocks(
    columns: Columns, accounts: Accounts, work: _Work, steps: _StepWork, waits: _Waits
) -> tuple[list[int], int]:
    """Run all actions, event by event.

    One function with what it shares among its parts in local variables, since this loop is where the time
    goes: the actions that are known to the engines, then the steps that open, then the clock.

    Returns
    -------
    finish
        Of each action.
    peak
        Most that is held on the memories' accounts.
    """
    n, n_steps, buffers = len(work.kind), len(steps.early), columns.program.buffers
    memories = len(columns.program.memories)
    kind, step_of, engine_of, account_of, change, cycles = work
    early, late, space, to_compute = steps
    waiting, followers, limits = waits
    capacity: list[int] = accounts.limit.tolist()
    occupied: list[int] = accounts.held.tolist()

    ready: list[list[int]] = [[] for _ in columns.program.engines]
    idle = [True] * len(ready)
    asked: set[int] = set()  # Engines that may have something to start.
    running: list[tuple[int, int]] = []
    finish = [-1] * n
    released = [False] * n
    finished = computed = opened = 0  # Actions that are over, steps whose compute is, steps that are open.
    now, peak = 0, sum(occupied[:memories])

    # Actions: made known to their engines, begun when nothing is waited for, ended.

    def admit(actions: Iterable[int]) -> None:
        for action in actions:
            released[action] = True
            if not waiting[action]:
                begin(action)

    def begin(action: int) -> None:
        if engine_of[action] < 0:
            end(action)
        else:
            heapq.heappush(ready[engine_of[action]], action)
            asked.add(engine_of[action])

    def end(action: int) -> None:
        nonlocal computed, finished
        finish[action] = now
        finished += 1
        if kind[action] in (FREE, WRITE):
            occupied[account_of[action]] += change[action]
        if kind[action] == COMPUTE:
            to_compute[step_of[action]] -= 1
            while computed < n_steps and computed < opened and not to_compute[computed]:
                computed += 1
        for follower in followers[limits[action] : limits[action + 1]]:
            waiting[follower] -= 1
            if not waiting[follower] and released[follower]:
                begin(follower)

    # Steps: opened in their order, as soon as buffers and memory allow.

    def may_open() -> bool:
        return (
            opened < n_steps
            and opened - computed < buffers
            and all(
                occupied[where] + elements <= capacity[where] for where, elements in space[opened].items()
            )
        )

    def open_step() -> None:
        nonlocal computed, opened, peak
        for where, elements in space[opened].items():
            occupied[where] += elements
        peak = max(peak, sum(occupied[:memories]))
        opened += 1
        if not to_compute[opened - 1] and computed == opened - 1:
            computed = opened
        admit(late[opened - 1])
        if opened < n_steps:
            admit(early[opened])

    # The clock: goes on to the end of the next action, until all are over.

    if n_steps:
        admit(early[0])
    while finished < n:
        while may_open():
            open_step()
        for engine in asked:
            if idle[engine] and ready[engine]:
                action = heapq.heappop(ready[engine])
                idle[engine] = False
                heapq.heappush(running, (now + cycles[action], action))
        asked.clear()
        if not running:
            if finished < n and not may_open():
                raise RuntimeError(f"step {opened + 1} never finds room; the program was not checked")
            continue
        now = running[0][0]
        while running and running[0][0] == now:
            action = heapq.heappop(running)[1]
            idle[engine_of[action]] = True
            asked.add(engine_of[action])
            end(action)
    return finish, peak
