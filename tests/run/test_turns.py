"""Turns on one thread: who works when, by a clock that the test moves."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.run.solving.shares import Share, shares, successors
from tilewright.run.workers.turns import SLICE, Turns


@dataclass
class Worker:
    """What works while it is not suspended."""

    left: float = float("inf")
    awake: bool = True
    worked: float = 0.0

    @property
    def ended(self) -> bool:
        return self.worked >= self.left

    def suspend(self) -> None:
        self.awake = False

    def resume(self) -> None:
        self.awake = True

    def work(self, seconds: float) -> None:
        if self.awake and not self.ended:
            self.worked += seconds


@given(st.integers(2, 3), st.lists(st.floats(0.001, 0.12), min_size=1, max_size=200), st.floats(0.5, 30))
def test_each_has_its_share_at_every_moment(number: int, steps: list[float], limit: float) -> None:
    workers = [Worker() for _ in range(number)]
    turns, now = Turns(workers, 0.0, limit), 0.0
    for step in steps:
        assert sum(worker.awake for worker in workers) == 1
        for worker in workers:
            worker.work(step)
        now += step
        turns.look(now)
        if now >= limit:
            break
        late = 0.12 * (now / SLICE + 1)  # a look may come late, each time
        assert workers[0].worked >= now / number - late
        if now < limit - 2 * SLICE:
            assert min(worker.worked for worker in workers) >= now / number - number * SLICE - late


def test_the_first_has_at_least_half_of_the_time_and_the_last_turn() -> None:
    first, second = Worker(), Worker()
    turns = Turns([first, second], 0.0, 10.0)
    for tick in range(1, 1000):
        for worker in (first, second):
            worker.work(0.01)
        turns.look(0.01 * tick)
        assert first.worked >= 0.01 * tick / 2 - 1e-9
        assert first.worked + second.worked == pytest.approx(0.01 * tick)
    assert first.awake and second.worked >= 5 - 2 * SLICE


@pytest.mark.parametrize("short", [0, 1])
def test_who_ends_leaves_all_to_the_other(short: int) -> None:
    workers = [Worker(), Worker()]
    workers[short].left = 0.3
    turns = Turns(workers, 0.0, 10.0)
    for tick in range(1, 1000):
        for worker in workers:
            worker.work(0.01)
        turns.look(0.01 * tick)
    assert workers[1 - short].worked >= 9.9 - 0.3 - 0.02


@pytest.mark.parametrize("threads", range(1, 9))
def test_what_proves_has_half_of_the_threads_and_none_is_idle(threads: int) -> None:
    for parts in (Portfolio("lns", "exact"), Portfolio(CONSTRUCT, "exact")):
        *improving, proving = shares(parts, threads)
        assert proving.method == "exact" and 2 * proving.threads >= threads
        assert {share.method for share in improving} == {parts.improving}
        assert [share.number for share in improving] == list(range(len(improving)))
        used = sum(share.threads for share in (*improving, proving))
        assert used == max(2, threads)
    assert shares(Portfolio(CONSTRUCT, "exact", alone=True), threads) == [Share("exact", threads)]
    alone = shares(Portfolio("lns"), threads)
    assert alone == [Share("lns", 1, number) for number in range(threads)]


@pytest.mark.parametrize("threads", range(1, 9))
def test_the_threads_of_what_gives_up_improve_plans(threads: int) -> None:
    parts = Portfolio("lns", "exact")
    *improving, proving = shares(parts, threads)
    more = successors(parts, proving, threads)
    if threads > 1:
        assert [*improving, *more] == shares(Portfolio("lns"), threads)
    else:
        assert more == []
    assert successors(parts, improving[0], threads) == []
    assert successors(Portfolio(CONSTRUCT, "exact"), proving, threads) == []
