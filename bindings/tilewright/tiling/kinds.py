"""The kinds of machines, and which of them a problem is about."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import cast

from tilewright.tiling.machine_kind import MachineKind
from tilewright.tiling.problem import Problem


class _Machines(Mapping[str, MachineKind]):
    """The kinds of machines by name, each imported when it is asked for: start-up time."""

    NAMES = ("dsp", "npu", "hierarchy")

    def __getitem__(self, name: str) -> MachineKind:
        if name not in self.NAMES:
            raise KeyError(name)
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.NAMES)

    def __len__(self) -> int:
        return len(self.NAMES)


MACHINES = _Machines()
"""What each kind of machine knows of a layer's plans."""


@cache
def _imported(kind: str) -> MachineKind:
    return cast(MachineKind, importlib.import_module(f"tilewright.tiling.{kind}.kind"))


def kind_of(problem: Problem) -> MachineKind:
    """Return what is known of a part's plans: by the kind of its machine, or of operations."""
    if problem.operation is None:
        return _imported(problem.machine.kind)
    return _imported("operations" if problem.operation.attention is None else "attention")
