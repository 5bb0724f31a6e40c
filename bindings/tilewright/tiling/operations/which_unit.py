"""Which unit of a machine does an operation between layers."""

from __future__ import annotations

from typing import Any

from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.vector_loop import has_loop


def units_of(machine: Any) -> tuple[str, ...]:
    """Return what does operations on a machine, of ``vector`` and ``host``."""
    vector = machine.vector_ops_per_cycle is not None or _has_loops(machine)
    return tuple(name for name, has in (("vector", vector), ("host", machine.host is not None)) if has)


def unit_of(machine: Any, operation: Operation, only_host: bool) -> str:
    """Return the unit that does an operation, "" if none does.

    A host does what it alone can do, and everything that no other unit does.
    """
    told = machine.vector_ops_per_cycle is not None or (_has_loops(machine) and has_loop(operation))
    if told and not only_host:
        return "vector"
    return "" if machine.host is None else "host"


def _has_loops(machine: Any) -> bool:
    return machine.kind == "dsp" and machine.vector_unit is not None
