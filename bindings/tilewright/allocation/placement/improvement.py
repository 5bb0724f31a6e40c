"""Better placements by rounds of simulated annealing, each with twice as many moves as the one before."""

from __future__ import annotations

import time
from collections.abc import Callable

from tilewright.allocation.placement import annealing
from tilewright.allocation.placement.floor import Floor, Regions
from tilewright.allocation.placement.hop_bound import lower_bound

HOT, COLD = 8.0, 0.25
"""First and last temperature of a round of simulated annealing, in hops."""

ROUNDS, MOVES = 4, 15_000
"""Most rounds, and moves of the first one for each PE of the array; each further one has twice as many."""

MOVES_AT_ONCE = 5_000
"""Moves between two looks at the clock."""

SILENCE = 0.5
"""Least seconds between two reports."""


def _ignore(_regions: Regions) -> None:
    """Take a report that nobody waits for."""


def improve(
    floor: Floor,
    regions: Regions,
    deadline: float,
    seed: int = 0,
    on_better: Callable[[Regions], None] = _ignore,
) -> Regions:
    """Return a placement with fewer hops than a given one, or that one, by simulated annealing.

    Parameters
    ----------
    floor, regions
        A valid placement; none on the way breaks a rule.
    deadline
        ``time.monotonic()`` at which to return; earlier if the lower bound is met or all rounds are done.
    seed
        Of all random choices.
    on_better
        Called with better placements on the way, though not with each of them.
    """
    annealing.seed(seed)
    state = annealing.build((floor.rows, floor.columns), regions, floor.edges, floor.border)
    least = lower_bound(floor)
    now, told = time.monotonic(), (time.monotonic(), state.totals[annealing.Total.BEST])
    for number in range(ROUNDS):
        moves = 2**number * MOVES * floor.rows * floor.columns
        begin, done = now, 0
        while done < moves and now < deadline and state.totals[annealing.Total.BEST] > least:
            over = max(done / moves, (now - begin) / (deadline - begin))
            annealing.anneal(state, MOVES_AT_ONCE, HOT * (COLD / HOT) ** over)
            done, now = done + MOVES_AT_ONCE, time.monotonic()
            if state.totals[annealing.Total.BEST] < told[1] and now >= told[0] + SILENCE:
                told = now, state.totals[annealing.Total.BEST]
                on_better(annealing.regions(state))
    return annealing.regions(state)
