"""Prices of operations and arcs: no subgraph costs less than those of all that it serves together.

So what is still to be served costs at least its prices, whatever subgraphs will do that.
The best prices are those of a linear program with a row for each set of operations, most of which are never
needed.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.silence import nothing_printed
from tilewright.scheduling.exact.subgraph_candidates import Candidates
from tilewright.spec.errors import OutOfTimeError

ROWS_AT_A_TIME = 200

ROUNDING = 1e-9
"""Relative error of the linear program that is allowed for; what is left is checked in whole numbers."""


def new_linear_program(count: int) -> Any:
    """Return a linear program that makes the sum of some prices as large as it can be, without rows."""
    import highspy  # start-up time

    with nothing_printed():
        model: Any = highspy.Highs()
    model.setOptionValue("output_flag", False)
    for column in range(count):
        model.addVar(0.0, highspy.kHighsInf)
        model.changeColCost(column, -1.0)
    return model


def best_prices(
    candidates: Candidates, deadline: float = float("inf"), arcs: bool = True
) -> NDArray[np.int64]:
    """Return prices of the operations, in ticks, whose sum is about as large as it can be.

    Parameters
    ----------
    arcs
        Whether the arcs have prices, too, behind the operations.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    scale = candidates.graph.scale
    serves = candidates.serves if arcs else candidates.has
    count = serves.shape[1]
    model = new_linear_program(count)
    alone = np.flatnonzero(candidates.has.sum(axis=1) == 1)
    rows = [int(row) for row in alone]
    for place in range(count):  # so that the first program has an end
        if not serves[rows, place].any():
            rows.append(int(np.flatnonzero(serves[:, place])[0]))
    given: set[int] = set()
    while True:
        if time.monotonic() > deadline:
            raise OutOfTimeError
        for row in rows:
            candidates.price(row)
            places = np.flatnonzero(serves[row])
            top = candidates.ticks[row] / scale
            model.addRow(-np.inf, top, len(places), places, np.ones(len(places)))
        given.update(rows)
        model.run()
        prices = np.array(model.getSolution().col_value)
        slack = candidates.ticks / scale - serves @ prices
        violated = np.flatnonzero(slack < -ROUNDING * (1 + candidates.ticks / scale))
        violated = violated[np.argsort(slack[violated], kind="stable")]
        rows = []
        for row in map(int, violated):
            if row in given:
                continue
            exact = bool(candidates.exact[row])
            together = float(serves[row] @ prices)
            candidates.price(row, int(together * scale) + 1)
            if exact or candidates.ticks[row] / scale < together:
                rows.append(row)
            if len(rows) >= ROWS_AT_A_TIME or time.monotonic() > deadline:
                break
        if not rows and time.monotonic() <= deadline:
            return _whole(candidates, serves, prices * scale)


def _whole(
    candidates: Candidates, serves: NDArray[np.bool_], prices: NDArray[np.float64]
) -> NDArray[np.int64]:
    """Return whole prices that keep every row."""
    lower = ROUNDING
    while True:
        whole = np.floor(np.maximum(prices, 0) * (1 - lower)).astype(np.int64)
        if (serves @ whole <= candidates.ticks).all():
            return whole
        lower *= 10
