"""Exact search over every tile and every order of its loops; docs/tiling.md argues why nothing is lost."""

from __future__ import annotations

from tilewright.tiling.dsp.exact.accesses import BestPlan, fewest_accesses, local_traffic
from tilewright.tiling.dsp.exact.cheapest import Admitted, cheapest
from tilewright.tiling.dsp.exact.front import THROUGHPUT, pareto_front
from tilewright.tiling.dsp.exact.params import PARAMS
from tilewright.tiling.dsp.exact.patterns import schedules

__all__ = [
    "PARAMS",
    "THROUGHPUT",
    "Admitted",
    "BestPlan",
    "cheapest",
    "fewest_accesses",
    "local_traffic",
    "pareto_front",
    "schedules",
]
