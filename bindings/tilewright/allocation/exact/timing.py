"""When layers start, of many plans at a time; which edges decide it, and when waiting cannot pay.

*Implied edges.* Let consumer i read p, and let there be a path from p to i through other layers. Beat k of i
cannot begin before the last beat j of its producer q on the path that it needs has ended; by then all
beats of q up to j have begun, so what any of them needs of the layer before has ended, and so on back to p.
If p's last beat found in this way is never before the last one that i needs itself up to its beat k, then the
edge holds wherever the path's edges do, whatever start times and paces are, and can be left out. Identity
shortcuts of residual blocks vanish in this way. An edge is implied by edges that span fewer layers; so if all
implied edges are left out at once, those that remain still imply them.

*When waiting cannot pay.* A pace is the level of a layer, divided by its beats and rounded down; the level is
the longest load at or before it, so it is never less than a producer's. The lead of an edge falls as the
consumer's pace rises, and is never less than ``ahead[0] * z`` with the producer's pace z. If it is just that
where both have the same level, it is for all higher levels of the consumer, too. If that is so of every edge
at every level, then start times and latency are sums of paces, and rise with the levels: a split with no more
PEs and no more load than another one gives no higher latency, and matched pacing no higher than uniform.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tilewright.allocation.exact.options import Offers, offers_of
from tilewright.allocation.geometry import Lead, Numbers, Scan, latest_beats_needed
from tilewright.allocation.problem import Problem


class Timing:
    """Start times of the layers of a problem whose rows are not split.

    Attributes
    ----------
    beats : int, shape (layers,)
    leads
        By edge of those that are not implied, in the order of their consumers.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.scan = problem, Scan(problem)
        self.beats = np.array([stage.task.rows * stage.task.columns for stage in problem.stages])
        edges = _not_implied(problem, self.scan)
        self.leads = {edge: self.scan.lead(*edge) for edge in edges}

    def matched(self, loads: Numbers) -> Numbers:
        """Return the level of each layer with matched pacing, both of shape (plans, layers)."""
        levels = loads.copy()
        for producer, consumer in self.leads:
            np.maximum(levels[:, consumer], levels[:, producer], out=levels[:, consumer])
        return levels

    def latencies(self, levels: Numbers) -> Numbers:
        """Return the latency of each plan, from levels of shape (plans, layers)."""
        paces = levels // self.beats
        starts = np.zeros_like(levels)
        for edge, lead in self.leads.items():
            np.maximum(starts[:, edge[1]], self._ready(edge, lead, starts, paces), out=starts[:, edge[1]])
        found: Numbers = (starts + self.beats * paces).max(axis=1)
        return found

    def _ready(self, edge: tuple[int, int], lead: Lead, starts: Numbers, paces: Numbers) -> Numbers:
        """Return when the consumer of an edge can start for all that this edge asks."""
        producer, consumer = edge
        delay = start_delays(lead, paces[:, producer], paces[:, consumer])
        ready: Numbers = starts[:, producer] + delay
        return ready

    def critical_path(self, levels: Numbers) -> tuple[int, ...]:
        """Return the layers that the latency of a plan waits for, from its levels, of shape (layers,)."""
        paces = levels[None] // self.beats
        starts, waits_for = np.zeros_like(paces), [-1] * len(levels)
        for edge, lead in self.leads.items():
            ready = self._ready(edge, lead, starts, paces)
            if waits_for[edge[1]] < 0 or ready > starts[:, edge[1]]:
                starts[:, edge[1]], waits_for[edge[1]] = ready, edge[0]
        path = [int((starts + self.beats * paces)[0].argmax())]
        while waits_for[path[-1]] >= 0:
            path.append(waits_for[path[-1]])
        return tuple(reversed(path))

    def waiting_can_pay(self, loads: Iterable[int]) -> bool:
        """Whether a slower layer may lower the latency, if layers can have any of these loads."""
        levels = np.array(sorted(loads), dtype=np.int64)
        for (producer, consumer), lead in self.leads.items():
            before, after = levels // self.beats[producer], levels // self.beats[consumer]
            if (start_delays(lead, before, after) > lead.ahead[0] * before).any():
                return True
        return False


def sufficient_loads(timing: Timing) -> tuple[Offers, bool]:
    """Return the loads among which there are best plans, and whether waiting can be part of them.

    It can where buffers are limited, too, as a slower layer may need smaller ones.
    """
    problem = timing.problem
    every = offers_of(problem, every=True)
    limited = problem.machine.buffer_words is not None
    if limited or timing.waiting_can_pay({load for offer in every for load in offer.loads}):
        return every, True
    return offers_of(problem), False


def start_delays(lead: Lead, before: Numbers, after: Numbers) -> Numbers:
    """Return how long a consumer starts after its producer, from the paces of both."""
    found: Numbers = lead.ahead[0] * before
    for ahead, done in zip(lead.ahead[1:], lead.done[1:], strict=True):
        found = np.maximum(found, ahead * before - done * after)
    return found


def _not_implied(problem: Problem, scan: Scan) -> list[tuple[int, int]]:
    """Return the edges that no path implies, in the order of their consumers."""
    needed: dict[tuple[int, int], Numbers] = {}

    def need(producer: int, consumer: int) -> Numbers:
        """Return the last beat of the producer that each beat of the consumer and those before it need."""
        if (producer, consumer) not in needed:
            beats = [scan.beats(problem.stages[number]) for number in (producer, consumer)]
            found = latest_beats_needed(scan.windows[consumer], *beats)
            needed[producer, consumer] = np.maximum.accumulate(found)
        return needed[producer, consumer]

    kept = []
    for stage in problem.stages:
        producers = sorted(each for each in set(stage.producers) if each >= 0)
        for producer in producers:
            # What earlier layers have done before each beat of this one, along paths from `producer` only.
            done: dict[int, Numbers] = {}
            if len(producers) > 1:
                done = {other: need(other, stage.number) for other in producers if other > producer}
                for number in range(stage.number - 1, producer - 1, -1):
                    for reader in problem.consumers[number]:
                        if reader in done and reader != stage.number:
                            through = need(number, reader)[done[reader]]
                            done[number] = np.maximum(done.get(number, through), through)
            implied = producer in done and (done[producer] >= need(producer, stage.number)).all()
            if not implied:
                kept.append((producer, stage.number))
    return kept
