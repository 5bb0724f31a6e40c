"""The host at work beside the engines: on another branch of the same images, and on other images.

Engines and host each execute what a plan gives them in the plan's order (DNNVM paper, sections 2.3.5 and 3.1,
which has no figure for it). Maps between them lie in DRAM. What the host takes has its transfers in it.

*Latency.* Each group and each operation of the host begins as soon as all that it reads is there and its
resource has done what comes before it.

*Interval.* Where batches of images follow each other every T cycles, engines and host do the same work in
each period, one thing after the other. No T is less than what either of them works for a batch, and the
larger of the two is enough: what an operation needs and does not have in its period is of the batch before,
so it works on older images. In how many periods a batch is worked on says how many are in flight.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewright.fusion.host import host_cycles
from tilewright.fusion.measures import HostBeside
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem

Times = dict[int, tuple[int, int]]
"""When each operation's group begins and ends, by the operation's number."""


def host_beside(problem: Problem, plan: Plan, durations: Mapping[tuple[str, ...], int]) -> HostBeside | None:
    """Return when a plan's images are done where the host works beside the engines; None without a price.

    Parameters
    ----------
    durations
        Cycles of each group that the engines execute, by its operations.
    """
    if problem.machine.host is None:
        return None
    numbers = {op.name: op.number for op in problem.ops}
    work = [
        (
            tuple(numbers[name] for name in group.nodes),
            group.tile is None,
            durations[group.nodes]
            if group.tile
            else host_cycles(problem, problem.ops[numbers[group.nodes[0]]]),
        )
        for group in plan.groups
    ]
    times: Times = {}
    free = [0, 0]
    offset = [0, 0]
    begins: dict[int, int] = {}
    for nodes, on_host, cycles in work:
        begin = max(_done(problem, nodes, times), free[on_host])
        free[on_host] = begin + cycles
        times |= dict.fromkeys(nodes, (begin, begin + cycles))
        begins |= dict.fromkeys(nodes, offset[on_host])
        offset[on_host] += cycles
    interval = max(offset)
    periods: Times = {}
    for nodes, _, cycles in work:
        ready, begin = _done(problem, nodes, periods), begins[nodes[0]]
        if ready > begin:
            begin += -(-(ready - begin) // interval) * interval
        periods |= dict.fromkeys(nodes, (begin, begin + cycles))
    last = max(end for _, end in periods.values())
    return HostBeside(
        latency_cycles=max(end for _, end in times.values()),
        interval_cycles=interval,
        batches_in_flight=-(-last // interval),
    )


def _done(problem: Problem, nodes: tuple[int, ...], times: Times) -> int:
    """Return when all is there that a group reads of others."""
    producers = {producer for number in nodes for producer in problem.ops[number].producers if producer >= 0}
    return max((times[producer][1] for producer in producers.difference(nodes)), default=0)
