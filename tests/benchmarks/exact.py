"""How long the exact search for grouping takes to prove cells of the S1 paper's grid, and what memory.

Run it as a script; arguments are the time limit of a cell in seconds and the steps (kmin or free):

    python tests/benchmarks/exact.py 60 kmin
"""

from __future__ import annotations

import resource
import sys
import time

from tilewright.grouping import best_bound
from tilewright.grouping.exact.search import prove
from tilewright.papers.s1.tables import grid_cell

CELLS = ((6, 2), (7, 2), (8, 2), (9, 2), (7, 3), (8, 3), (9, 3), (9, 4), (10, 5))
"""Input sizes and group sizes whose optimum is above the compulsory bound."""


def main(limit: float, steps: str) -> None:
    """Print a line per cell: when the bound was last raised, and where it ended."""
    print(f"{'cell':<12} {'bound':>6} {'optimal':>8} {'seconds':>8} {'peak MB':>8}")
    for size, group in CELLS:
        problem = grid_cell(size, group, steps).problem
        began = time.monotonic()
        bound, optimal = best_bound(problem).value, False
        for found in prove(problem, began + limit, bound, threads=2):
            bound, optimal = found.bound, found.plan is not None
        seconds = time.monotonic() - began
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        proven = "yes" if optimal else "no"
        print(
            f"{f'{size}x{size} g={group}':<12} {bound:>6} {proven:>8} {seconds:>8.1f} {peak:>8.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 60.0, sys.argv[2] if len(sys.argv) > 2 else "kmin")
