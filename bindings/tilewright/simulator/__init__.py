"""The simulator that all rooms share: programs, one executor, timelines, reports, reference layers."""

from tilewright.simulator.executor import MAX_NUMERIC_ELEMENTS, execute
from tilewright.simulator.program import (
    Box,
    Cells,
    Compute,
    Engine,
    Free,
    LazySteps,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
    whole,
)
from tilewright.simulator.report import Report, Timeline, Violation

__all__ = [
    "MAX_NUMERIC_ELEMENTS",
    "Box",
    "Cells",
    "Compute",
    "Engine",
    "Free",
    "LazySteps",
    "Load",
    "Memory",
    "Program",
    "Report",
    "Step",
    "Tensor",
    "Timeline",
    "Violation",
    "WriteBack",
    "execute",
    "whole",
]
