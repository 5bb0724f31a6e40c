"""Which unit does an operation on a machine."""

from __future__ import annotations

from tilewright.tiling.operations.dsp import DspUnit
from tilewright.tiling.operations.hierarchy import HierarchyUnit
from tilewright.tiling.operations.npu import NpuUnit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.units import Machine, Unit


def unit(machine: Machine, operation: Operation) -> Unit:
    """Return what does an operation on a machine."""
    if machine.kind == "dsp":
        return DspUnit(machine, operation)
    return NpuUnit(machine, operation) if machine.kind == "npu" else HierarchyUnit(machine, operation)
