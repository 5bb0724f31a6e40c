"""An offloading plan: of each step what is freed, written, loaded and computed (S1 paper, definition 1)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core.plans import RoomPlan
from tilewright.spec.errors import InputError

Numbers = NDArray[np.int64]
Runs = tuple[tuple[int, int], ...]
"""Numbers, as ranges from the first to the one after the last, ascending."""


def runs(numbers: Iterable[int] | Numbers) -> Runs:
    """Return ascending numbers as ranges."""
    found = np.asarray(numbers, dtype=np.int64)
    if not found.size:
        return ()
    cuts = np.flatnonzero(np.diff(found) != 1) + 1
    firsts, lasts = found[np.r_[0, cuts]], found[np.r_[cuts - 1, len(found) - 1]]
    return tuple(zip(firsts.tolist(), (lasts + 1).tolist(), strict=True))


def numbers(ranges: Runs) -> Numbers:
    """Return the numbers of ranges."""
    if not ranges:
        return np.empty(0, np.int64)
    spans = np.array(ranges, dtype=np.int64)
    lengths = spans[:, 1] - spans[:, 0]
    before = np.cumsum(lengths) - lengths
    found: Numbers = np.repeat(spans[:, 0] - before, lengths) + np.arange(int(lengths.sum()))
    return found


@dataclass(frozen=True)
class Block:
    """What a part computes in a step: all MACs of some patches, some kernels and some channels.

    Channels are input channels, or with im2col positions of a patch.
    """

    patches: Runs
    kernels: Runs
    channels: Runs


@dataclass(frozen=True)
class Moves:
    """What a step does with one memory, before it computes, in this order.

    Attributes
    ----------
    free_inputs, free_kernels
        ``F_inp`` and ``F_ker``: elements that are forgotten.
    write
        ``W``: outputs that are written to DRAM and forgotten, complete or not.
    load_inputs, load_kernels
        ``I_slice`` and ``K_sub``: elements that are loaded.
    load_sums
        Outputs that were written and come back, to be added to.
    """

    free_inputs: Runs = ()
    free_kernels: Runs = ()
    write: Runs = ()
    load_inputs: Runs = ()
    load_kernels: Runs = ()
    load_sums: Runs = ()


MOVES = ("free_inputs", "free_kernels", "write", "load_inputs", "load_kernels", "load_sums")
"""Fields of `Moves`, in the order in which they happen."""


@dataclass(frozen=True)
class Step:
    """One step: a block or None for each part, and moves for each memory."""

    blocks: tuple[Block | None, ...]
    moves: tuple[Moves, ...]


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """An n-step computation (definition 1): decisions only.

    After the last step what is left is written back and freed.

    Attributes
    ----------
    steps
        In order.
    addresses
        With contiguous placement: where each piece lies in its memory, in the order of `pieces`.
    """

    steps: tuple[Step, ...]
    addresses: tuple[int, ...] | None = field(default=None)

    @property
    def n_steps(self) -> int:
        """Number of steps, n."""
        return len(self.steps)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file; what is empty is left out."""
        told: dict[str, Any] = {"steps": [_step_json(step) for step in self.steps]}
        if self.addresses is not None:
            told["addresses"] = list(self.addresses)
        return told

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        if not isinstance(data, dict) or not isinstance(data.get("steps"), list):
            raise InputError("plan", data, "must be an object with a list `steps`", file)
        if unknown := set(data) - {"steps", "addresses"}:
            raise InputError("plan", sorted(unknown), "unknown keys; there are steps and addresses", file)
        steps = tuple(_step(each, f"plan.steps[{at}]", file) for at, each in enumerate(data["steps"]))
        where = data.get("addresses")
        if where is not None and not isinstance(where, list):
            raise InputError("plan.addresses", where, "must be a list", file)
        for at, address in enumerate(where or ()):
            if not _is_number(address):
                raise InputError(
                    f"plan.addresses[{at}]", address, "must be an integer from 0, below 2**31", file
                )
        return cls(steps, None if where is None else tuple(where))


def _step_json(step: Step) -> dict[str, Any]:
    blocks = [
        None if block is None else {name: _runs_json(getattr(block, name)) for name in _BLOCK}
        for block in step.blocks
    ]
    moves = [
        {name: _runs_json(found) for name in MOVES if (found := getattr(each, name))} for each in step.moves
    ]
    return {"blocks": blocks, "moves": moves}


_BLOCK = ("patches", "kernels", "channels")


def _runs_json(found: Runs) -> list[list[int]]:
    return [list(span) for span in found]


def _step(data: Any, name: str, file: str | None) -> Step:
    if not isinstance(data, dict) or set(data) != {"blocks", "moves"}:
        raise InputError(name, data, "must be an object with `blocks` and `moves`", file)
    for key in ("blocks", "moves"):
        if not isinstance(data[key], list):
            raise InputError(f"{name}.{key}", data[key], "must be a list", file)
    blocks: list[Block | None] = []
    for part, block in enumerate(data["blocks"]):
        if block is not None and not (isinstance(block, dict) and set(block) == set(_BLOCK)):
            limit = "must be null or an object with `patches`, `kernels` and `channels`"
            raise InputError(f"{name}.blocks[{part}]", block, limit, file)
        if block is None:
            blocks.append(None)
            continue
        blocks.append(Block(*(_runs(block[key], f"{name}.blocks[{part}].{key}", file) for key in _BLOCK)))
    moves = []
    for memory, table in enumerate(data["moves"]):
        field_name = f"{name}.moves[{memory}]"
        if not isinstance(table, dict) or not set(table) <= set(MOVES):
            raise InputError(field_name, table, f"must be an object with some of {', '.join(MOVES)}", file)
        moves.append(
            Moves(**{key: _runs(value, f"{field_name}.{key}", file) for key, value in table.items()})
        )
    return Step(tuple(blocks), tuple(moves))


def _runs(data: Any, name: str, file: str | None) -> Runs:
    limit = "must be a list of [first, end], ascending and apart"
    if not isinstance(data, list):
        raise InputError(name, data, limit, file)
    last = -1
    for span in data:
        if not (
            isinstance(span, list)
            and len(span) == 2
            and all(map(_is_number, span))
            and last < span[0] < span[1]
        ):
            raise InputError(name, span, limit, file)
        last = span[1]
    return tuple((first, end) for first, end in data)


def _is_number(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**31
