"""What a report tells of a bitwidth plan beside its picture: the table, and the front where there is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilewright.bitwidth.measures import BitwidthMeasures
from tilewright.bitwidth.problem import Problem
from tilewright.bitwidth.summary import table
from tilewright.core.overview import Front, Overview, of_table

ABOUT = (
    "Inputs and weights of a layer are two's complement numbers of so many bits, the last FL of them behind "
    "the point; K products are added up for each output. Together: the bits of both, and how many the "
    "accumulator leaves them. Noise: of quantisation by the model, in parts per billion of the signal."
)


def overview(problem: Problem, plan: Any, measures: BitwidthMeasures) -> Overview:
    """Return the table with what its columns mean; of a front its points, too."""
    told = of_table(table(problem, measures))
    if not measures.front:
        return replace(told, what="layer", about=ABOUT)
    traded = [(float(point.moved_bits), float(point.noise_ppb)) for point in measures.front]
    return replace(told, what="plan of the front", front=Front("bits", "noise ppb", traded))
