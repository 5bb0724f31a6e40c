"""Decide, optimally and checkably, how a convolutional network is cut up to run on a small memory.

>>> import tilewright as tw
>>> result = tw.solve("alexnet-conv3-64k")
>>> print(result.summary())
>>> result.plot()
"""

from __future__ import annotations

from tilewright.core.version import __version__

TYPE_CHECKING = (
    False  # `typing` takes as long to import as all that the command needs before Ctrl-C is handled
)
if TYPE_CHECKING:
    from typing import Any

    from tilewright.api import (
        AllocationPlan,
        AllocationProblem,
        ArrayMachine,
        BitwidthPlan,
        BitwidthProblem,
        Disagreement,
        DspMachine,
        EngineMachine,
        Entry,
        Finding,
        FusionPlan,
        FusionProblem,
        GroupingMachine,
        GroupingPlan,
        GroupingProblem,
        InputError,
        Instance,
        Layer,
        Network,
        NpuMachine,
        OneMemory,
        Outcome,
        OutOfTimeError,
        Point,
        Report,
        ResidencyPlan,
        ResidencyProblem,
        Result,
        RunContext,
        SchedulingPlan,
        SchedulingProblem,
        SolverMissingError,
        Sweep,
        TilewrightError,
        TilingPlan,
        TilingProblem,
        UnknownNameError,
        check,
        compare,
        emit,
        instances,
        methods,
        plot,
        read,
        simulate,
        solve,
        sweep,
    )

__all__ = [
    "AllocationPlan",
    "AllocationProblem",
    "ArrayMachine",
    "BitwidthPlan",
    "BitwidthProblem",
    "Disagreement",
    "DspMachine",
    "EngineMachine",
    "Entry",
    "Finding",
    "FusionPlan",
    "FusionProblem",
    "GroupingMachine",
    "GroupingPlan",
    "GroupingProblem",
    "InputError",
    "Instance",
    "Layer",
    "Network",
    "NpuMachine",
    "OneMemory",
    "OutOfTimeError",
    "Outcome",
    "Point",
    "Report",
    "ResidencyPlan",
    "ResidencyProblem",
    "Result",
    "RunContext",
    "SchedulingPlan",
    "SchedulingProblem",
    "SolverMissingError",
    "Sweep",
    "TilewrightError",
    "TilingPlan",
    "TilingProblem",
    "UnknownNameError",
    "__version__",
    "check",
    "compare",
    "emit",
    "instances",
    "methods",
    "plot",
    "read",
    "simulate",
    "solve",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Import the API on first use, so that ``tilewright --help`` loads nothing heavy."""
    if name in __all__:
        from tilewright import api

        return getattr(api, name)
    raise AttributeError(f"module 'tilewright' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Name what there is before it is imported, for completion."""
    return sorted({*globals(), *__all__})
