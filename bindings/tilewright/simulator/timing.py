"""When the actions of an executed program run: one after the other, or engines beside each other."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from tilewright.simulator.program import Program
from tilewright.simulator.report import Timeline


@dataclass(frozen=True)
class Issued:
    """An executed action, reduced to what timing needs.

    Attributes
    ----------
    step
        Number of its step, from 0.
    engine
        None for a free, which takes no engine and no time.
    elements
        Change of its memory's occupation: allocated by loads and computes, released by the others.
    after
        Numbers of the actions whose results, operands or space it needs.
    """

    step: int
    tensor: str
    memory: str
    engine: str | None
    cycles: int
    elements: int
    after: tuple[int, ...]


def sequential_timeline(program: Program, issued: Sequence[Issued]) -> Timeline:
    """Run every action after the one before it (definition 3)."""
    finish = np.cumsum([action.cycles for action in issued], dtype=np.int64)
    held = np.cumsum([action.elements for action in issued], dtype=np.int64)
    peak = sum(_preloaded(program).values()) + int(held.max(initial=0))
    return _timeline(issued, {number: int(end) for number, end in enumerate(finish)}, peak)


def _preloaded(program: Program) -> dict[str, int]:
    """Return the elements that each memory holds before the first step."""
    occupied = {memory.name: 0 for memory in program.memories}
    for name, region in program.preloaded:
        tensor = program.tensor(name)
        occupied[tensor.memory] += region.size(tensor.shape)
    return occupied


def overlapped_timeline(program: Program, issued: Sequence[Issued]) -> Timeline:
    """Let every engine work on its own clock, with as much double buffering as the memory allows.

    A step is *opened* when the step ``program.buffers`` before it has computed and the memory has room
    for all that it loads and computes; its space is taken at once, so an opened step always ends. Its
    frees and write-backs may run as soon as the step before it is open, since they make that room. Each
    engine starts, of the actions that are open and whose needs are met, the first one in program order.
    """
    steps = len(program.steps)
    early: list[list[int]] = [[] for _ in range(steps)]
    late: list[list[int]] = [[] for _ in range(steps)]
    room: list[dict[str, int]] = [{} for _ in range(steps)]
    to_compute = [0] * steps
    computers = {compute.engine for step in program.steps for compute in step.compute}
    for number, action in enumerate(issued):
        if action.elements < 0 or action.engine is None:
            early[action.step].append(number)
            continue
        late[action.step].append(number)
        room[action.step][action.memory] = room[action.step].get(action.memory, 0) + action.elements
        to_compute[action.step] += action.engine in computers
    capacity = {memory.name: memory.capacity for memory in program.memories}
    occupied = _preloaded(program)

    waiting = [0] * len(issued)
    followers: list[list[int]] = [[] for _ in issued]
    for number, action in enumerate(issued):
        waiting[number] = len(action.after)
        for other in action.after:
            followers[other].append(number)

    ready: dict[str, list[int]] = {engine.name: [] for engine in program.engines}
    idle = set(ready)
    running: list[tuple[int, int]] = []
    finish: dict[int, int] = {}
    released = [False] * len(issued)
    computed = opened = 0  # Steps whose compute is over, steps that are open.
    now = peak = 0

    def admit(numbers: Iterable[int]) -> None:
        """Make actions known to their engines; those without one happen at once."""
        for number in numbers:
            released[number] = True
            if not waiting[number]:
                begin(number)

    def begin(number: int) -> None:
        engine = issued[number].engine
        if engine is None:
            end(number)
        else:
            heapq.heappush(ready[engine], number)

    def end(number: int) -> None:
        nonlocal computed
        action = issued[number]
        finish[number] = now
        if action.elements < 0:
            occupied[action.memory] += action.elements
        if action.engine in computers:
            to_compute[action.step] -= 1
            while computed < steps and computed < opened and not to_compute[computed]:
                computed += 1
        for follower in followers[number]:
            waiting[follower] -= 1
            if not waiting[follower] and released[follower]:
                begin(follower)

    def fits(step: int) -> bool:
        return all(
            (limit := capacity[memory]) is None or occupied[memory] + elements <= limit
            for memory, elements in room[step].items()
        )

    if steps:
        admit(early[0])
    while len(finish) < len(issued):
        while opened < steps and opened - computed < program.buffers and fits(opened):
            for memory, elements in room[opened].items():
                occupied[memory] += elements
            peak = max(peak, sum(occupied.values()))
            opened += 1
            if not to_compute[opened - 1] and computed == opened - 1:
                computed = opened
            admit(late[opened - 1])
            if opened < steps:
                admit(early[opened])
        for engine in sorted(idle):
            if ready[engine]:
                number = heapq.heappop(ready[engine])
                idle.discard(engine)
                heapq.heappush(running, (now + issued[number].cycles, number))
        if not running:
            may_open = opened < steps and opened - computed < program.buffers and fits(opened)
            if len(finish) < len(issued) and not may_open:
                raise RuntimeError(f"step {opened + 1} never finds room; the program was not checked")
            continue
        now = running[0][0]
        while running and running[0][0] == now:
            number = heapq.heappop(running)[1]
            idle.add(issued[number].engine or "")
            end(number)
    return _timeline(issued, finish, peak)


def _timeline(issued: Sequence[Issued], finish: dict[int, int], peak: int) -> Timeline:
    shown = [number for number, action in enumerate(issued) if action.engine is not None]
    ends = np.array([finish[number] for number in shown], dtype=np.int64)
    return Timeline(
        cycles=int(ends.max(initial=0)),
        step=np.array([issued[number].step for number in shown], dtype=np.int64),
        start=ends - np.array([issued[number].cycles for number in shown], dtype=np.int64),
        finish=ends,
        engine=[issued[number].engine or "" for number in shown],
        tensor=[issued[number].tensor for number in shown],
        peak=peak,
    )
