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

    from tilewright.addresses.plan import Plan as AddressesPlan
    from tilewright.addresses.problem import Buffer as Buffer
    from tilewright.addresses.problem import Memory as Memory
    from tilewright.addresses.problem import Problem as AddressesProblem
    from tilewright.allocation.machine import AllocationLimits as AllocationLimits
    from tilewright.allocation.machine import AllocationObjective as AllocationObjective
    from tilewright.allocation.machine import ArrayMachine as ArrayMachine
    from tilewright.allocation.plan import Plan as AllocationPlan
    from tilewright.allocation.problem import Problem as AllocationProblem
    from tilewright.api import check as check
    from tilewright.api import compare as compare
    from tilewright.api import emit as emit
    from tilewright.api import instances as instances
    from tilewright.api import methods as methods
    from tilewright.api import plot as plot
    from tilewright.api import read as read
    from tilewright.api import simulate as simulate
    from tilewright.api import solve as solve
    from tilewright.api import sweep as sweep
    from tilewright.bitwidth.machine import BitsLimits as BitsLimits
    from tilewright.bitwidth.machine import BitsMachine as BitsMachine
    from tilewright.bitwidth.machine import BitsObjective as BitsObjective
    from tilewright.bitwidth.machine import LayerRange as LayerRange
    from tilewright.bitwidth.plan import Plan as BitwidthPlan
    from tilewright.bitwidth.problem import Problem as BitwidthProblem
    from tilewright.core.context import Outcome as Outcome
    from tilewright.core.context import RunContext as RunContext
    from tilewright.fusion.machine import EngineMachine as EngineMachine
    from tilewright.fusion.plan import Plan as FusionPlan
    from tilewright.fusion.problem import FusionLimits as FusionLimits
    from tilewright.fusion.problem import FusionObjective as FusionObjective
    from tilewright.fusion.problem import Problem as FusionProblem
    from tilewright.grouping.plan import Plan as GroupingPlan
    from tilewright.grouping.problem import GroupingLimits as GroupingLimits
    from tilewright.grouping.problem import GroupingMachine as GroupingMachine
    from tilewright.grouping.problem import GroupingObjective as GroupingObjective
    from tilewright.grouping.problem import Problem as GroupingProblem
    from tilewright.offloading.plan import Plan as OffloadingPlan
    from tilewright.offloading.problem import OffloadingLimits as OffloadingLimits
    from tilewright.offloading.problem import OffloadingMachine as OffloadingMachine
    from tilewright.offloading.problem import OffloadingObjective as OffloadingObjective
    from tilewright.offloading.problem import Problem as OffloadingProblem
    from tilewright.residency.machine import OneMemory as OneMemory
    from tilewright.residency.machine import ResidencyLimits as ResidencyLimits
    from tilewright.residency.machine import ResidencyObjective as ResidencyObjective
    from tilewright.residency.plan import Plan as ResidencyPlan
    from tilewright.residency.problem import Problem as ResidencyProblem
    from tilewright.run.checking.finding import Finding as Finding
    from tilewright.run.compare import Entry as Entry
    from tilewright.run.instance import Instance as Instance
    from tilewright.run.result import Result as Result
    from tilewright.run.sweep import Point as Point
    from tilewright.run.sweep import Sweep as Sweep
    from tilewright.scheduling.graph import Graph as Graph
    from tilewright.scheduling.plan import Plan as SchedulingPlan
    from tilewright.scheduling.problem import Problem as SchedulingProblem
    from tilewright.scheduling.problem import SchedulingLimits as SchedulingLimits
    from tilewright.simulator.report import Report as Report
    from tilewright.spec.errors import Disagreement as Disagreement
    from tilewright.spec.errors import InputError as InputError
    from tilewright.spec.errors import OutOfTimeError as OutOfTimeError
    from tilewright.spec.errors import SolverMissingError as SolverMissingError
    from tilewright.spec.errors import TilewrightError as TilewrightError
    from tilewright.spec.errors import UnknownNameError as UnknownNameError
    from tilewright.spec.layer import Layer as Layer
    from tilewright.spec.network import Network as Network
    from tilewright.tiling.dsp.machine import DspMachine as DspMachine
    from tilewright.tiling.dsp.plan import DspPlan as DspPlan
    from tilewright.tiling.hierarchy.machine import HierarchyMachine as HierarchyMachine
    from tilewright.tiling.hierarchy.plan import HierarchyPlan as HierarchyPlan
    from tilewright.tiling.npu.machine import NpuMachine as NpuMachine
    from tilewright.tiling.npu.plan import NpuPlan as NpuPlan
    from tilewright.tiling.objectives import TilingLimits as TilingLimits
    from tilewright.tiling.objectives import TilingObjective as TilingObjective
    from tilewright.tiling.plan import Plan as TilingPlan
    from tilewright.tiling.problem import Problem as TilingProblem

_EXPORTS = {
    "addresses.plan": "AddressesPlan",
    "addresses.problem": "AddressesProblem Buffer Memory",
    "allocation.machine": "AllocationLimits AllocationObjective ArrayMachine",
    "allocation.plan": "AllocationPlan",
    "allocation.problem": "AllocationProblem",
    "api": "check compare emit instances methods plot read simulate solve sweep",
    "bitwidth.machine": "BitsLimits BitsMachine BitsObjective LayerRange",
    "bitwidth.plan": "BitwidthPlan",
    "bitwidth.problem": "BitwidthProblem",
    "core.context": "Outcome RunContext",
    "fusion.machine": "EngineMachine",
    "fusion.plan": "FusionPlan",
    "fusion.problem": "FusionLimits FusionObjective FusionProblem",
    "grouping.plan": "GroupingPlan",
    "grouping.problem": "GroupingLimits GroupingMachine GroupingObjective GroupingProblem",
    "offloading.plan": "OffloadingPlan",
    "offloading.problem": "OffloadingLimits OffloadingMachine OffloadingObjective OffloadingProblem",
    "residency.machine": "OneMemory ResidencyLimits ResidencyObjective",
    "residency.plan": "ResidencyPlan",
    "residency.problem": "ResidencyProblem",
    "run.compare": "Entry",
    "run.checking.finding": "Finding",
    "run.instance": "Instance",
    "run.result": "Result",
    "run.sweep": "Point Sweep",
    "scheduling.graph": "Graph",
    "scheduling.plan": "SchedulingPlan",
    "scheduling.problem": "SchedulingLimits SchedulingProblem",
    "simulator.report": "Report",
    "spec.errors": "Disagreement InputError OutOfTimeError SolverMissingError TilewrightError "
    "UnknownNameError",
    "spec.layer": "Layer",
    "spec.network": "Network",
    "tiling.dsp.machine": "DspMachine",
    "tiling.dsp.plan": "DspPlan",
    "tiling.hierarchy.machine": "HierarchyMachine",
    "tiling.hierarchy.plan": "HierarchyPlan",
    "tiling.npu.machine": "NpuMachine",
    "tiling.npu.plan": "NpuPlan",
    "tiling.objectives": "TilingLimits TilingObjective",
    "tiling.plan": "TilingPlan",
    "tiling.problem": "TilingProblem",
}
"""What each module exports; a room's own `Problem` and `Plan` are exported with the name of the room."""

_MODULES = {name: module for module, names in _EXPORTS.items() for name in names.split()}

# In full, since what makes the pages of the documentation reads this file without running it.
__all__ = [
    "AddressesPlan",
    "AddressesProblem",
    "AllocationLimits",
    "AllocationObjective",
    "AllocationPlan",
    "AllocationProblem",
    "ArrayMachine",
    "BitsLimits",
    "BitsMachine",
    "BitsObjective",
    "BitwidthPlan",
    "BitwidthProblem",
    "Buffer",
    "Disagreement",
    "DspMachine",
    "DspPlan",
    "EngineMachine",
    "Entry",
    "Finding",
    "FusionLimits",
    "FusionObjective",
    "FusionPlan",
    "FusionProblem",
    "Graph",
    "GroupingLimits",
    "GroupingMachine",
    "GroupingObjective",
    "GroupingPlan",
    "GroupingProblem",
    "HierarchyMachine",
    "HierarchyPlan",
    "InputError",
    "Instance",
    "Layer",
    "LayerRange",
    "Memory",
    "Network",
    "NpuMachine",
    "NpuPlan",
    "OffloadingLimits",
    "OffloadingMachine",
    "OffloadingObjective",
    "OffloadingPlan",
    "OffloadingProblem",
    "OneMemory",
    "OutOfTimeError",
    "Outcome",
    "Point",
    "Report",
    "ResidencyLimits",
    "ResidencyObjective",
    "ResidencyPlan",
    "ResidencyProblem",
    "Result",
    "RunContext",
    "SchedulingLimits",
    "SchedulingPlan",
    "SchedulingProblem",
    "SolverMissingError",
    "Sweep",
    "TilewrightError",
    "TilingLimits",
    "TilingObjective",
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
    """Import what is asked for on first use, so that ``import tilewright`` loads nothing heavy."""
    if name not in _MODULES:
        raise AttributeError(f"module 'tilewright' has no attribute {name!r}")
    from importlib import import_module

    module = import_module(f"tilewright.{_MODULES[name]}")
    own = next((each for each in ("Problem", "Plan") if name.endswith(each)), name)
    return getattr(module, name if hasattr(module, name) else own)


def __dir__() -> list[str]:
    """Name what there is before it is imported, for completion."""
    return sorted({*globals(), *__all__})
