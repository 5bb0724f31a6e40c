"""Real integers, moved action by action as a program says that breaks no rule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewright.simulator.program import Box, Compute, Load, Program, Region, Values, WriteBack

POISON = -987_654_321_987
"""What memory reads as where nothing was loaded, so that a stale read cannot go unnoticed."""


def check_data(program: Program, data: Mapping[str, Values]) -> None:
    """Refuse data that is not of its tensor's shape."""
    for tensor in program.tensors:
        given = data.get(tensor.name)
        if given is not None and given.shape != tensor.shape:
            raise ValueError(f"data of {tensor.name} has shape {given.shape}, not {tensor.shape}")


def move(program: Program, data: Mapping[str, Values]) -> dict[str, Values]:
    """Execute all actions on real integers and return what DRAM holds in the end.

    No rule is checked here; what reads what is not on chip reads poison.
    """
    dram = {
        tensor.name: data.get(tensor.name, np.zeros(tensor.shape, dtype=np.int64))
        for tensor in program.tensors
    }
    callers = set(data)
    chip = {tensor.name: np.full(tensor.shape, POISON, dtype=np.int64) for tensor in program.tensors}
    for name, region in program.preloaded:
        _put(chip[name], region, _get(dram[name], region))
    for number, step in enumerate(program.steps, 1):
        for action in step.actions:
            name, region = action.tensor, action.region
            if isinstance(action, Load):
                _put(chip[name], region, _get(dram[name], region))
            elif isinstance(action, Compute):
                if action.operation is None:
                    raise ValueError(f"step {number}: the program has no arithmetic for {name}")
                view, index = _locate(chip[name], region)
                before = view[index]
                values = action.operation(chip).reshape(before.shape)
                # What was not resident before holds poison; partial sums are added to.
                view[index] = np.where(before == POISON, values, before + values)
            else:
                if isinstance(action, WriteBack):
                    if name in callers:  # What the caller has stays as it is.
                        callers.remove(name)
                        dram[name] = np.array(dram[name], order="C")
                    _put(dram[name], region, _get(chip[name], region))
                _put(chip[name], region, POISON)
    return dram


def _get(values: Values, region: Region) -> Values:
    """Return the values of a region (a view or a copy)."""
    view, index = _locate(values, region)
    found: Values = view[index]
    return found


def _put(values: Values, region: Region, new: Values | int) -> None:
    view, index = _locate(values, region)
    view[index] = new


def _locate(values: Values, region: Region) -> tuple[Values, Any]:
    if isinstance(region, Box):
        return values, tuple(slice(None) if span is None else slice(*span) for span in region.ranges)
    return values.reshape(*values.shape[:-2], -1), (..., region.positions)
