"""A residency plan: steps in the order of execution, what stays on chip between them, and addresses."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from tilewright.core.plans import RoomPlan
from tilewright.residency.machine import MAX_BYTES
from tilewright.spec.errors import InputError
from tilewright.spec.layer import MAX_CHANNELS, MAX_PLANE
from tilewright.spec.network import MAX_LAYERS

ORDERS = ("pixels", "kernels", "tiles", "channels")

MAP = "map"
BUFFERS = ("lines", "weights", "operand", "block", "partial sums", "state")
"""What has a key of its own: a whole tensor, and what else is on chip for one."""


def key_of(what: str, name: str) -> str:
    """Return what something is called in plans and reports: ``lines of NAME``, and a whole tensor ``NAME``.

    A tensor whose name has the form of a key is called ``map of NAME``: no two things have the same key.
    """
    return name if what == MAP and kind_of(name) == MAP and not _is_key(name, MAP) else f"{what} of {name}"


def kind_of(key: str) -> str:
    """Return what a key is of."""
    return next((what for what in BUFFERS if _is_key(key, what)), MAP)


def _is_key(name: str, what: str) -> bool:
    return name.startswith(f"{what} of ")


@dataclass(frozen=True)
class Step:
    """Operations that are executed together, all of which lead to the last one.

    Attributes
    ----------
    operations
        Names, in the order of the file.
    order : {"pixels", "kernels", "tiles", "channels"}
        The outer loop: over the pixels of the last operation's output; or, of one operation, over blocks of
        its output channels. Of one operation whose input channels are added up block by block, over tiles of
        its output, or over blocks of its output channels.
    pixels
        Pixels of the last operation's output that are computed in a pass: row by row, from left to right; or
        in a tile.
    kernels
        Output channels of which weights are on chip at a time, where they are not kept; columns of a tile of
        a product.
    kept
        Operations whose weights are loaded once and stay during the step (order ``pixels``).
    dropped
        Tensors that leave the chip before the step; DRAM has them.
    fetched
        Tensors that are loaded whole before the step's first pass, and stay.
    resident, written
        Outputs of the step that stay on chip whole, and that are written to DRAM.
    in_place
        Tensor on chip whose place the last operation's output takes, pixel by pixel.
    columns
        Columns of a tile (order ``tiles``).
    channels
        Input channels that are added up at a time (orders ``tiles`` and ``channels``); terms of a product by
        itself, in tiles (with `blocks`).
    keys
        Keys of attention that pass by at a time, with a running maximum and sum of each row of scores.
    blocks
        Whether second operands of products that are in DRAM are loaded in blocks of `kernels` columns, or of
        `keys`, in each pass.
    double_buffering
        Whether what is loaded for a pass, and what it has computed, has second buffers, so that transfers run
        beside the computation.
    running
        Whether passes go over the pixels of what the last operation reads, whose output has one pixel: they
        are added to running values (orders ``pixels`` and ``kernels``). Then `pixels` and `columns` are of
        that plane.
    interleaved
        Whether the operations of a pass take turns, pixel by pixel, each when its pixel is asked for. A pass
        is a pixel then, and all weights are kept.
    copied
        Operations whose weights, without biases, are copied from flash before the first pass; with several
        `kernels` in order ``kernels``, those of so many output channels at a time.
    addresses
        First element of everything that is placed in this step: ``NAME`` of a whole tensor,
        ``lines of NAME`` for its line buffer, ``weights of NAME``, ``operand of NAME`` for a block of a
        product's second operand, ``partial sums of NAME``, ``state of NAME`` for what a recurrent layer has
        beside, ``block of NAME`` for the part of an output that is being written; see `key_of`.
    """

    operations: tuple[str, ...]
    order: str = ORDERS[0]
    pixels: int = 1
    kernels: int = 1
    kept: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    fetched: tuple[str, ...] = ()
    resident: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    in_place: str | None = None
    addresses: dict[str, int] = field(default_factory=dict)
    columns: int | None = None
    channels: int | None = None
    keys: int | None = None
    blocks: bool = False
    double_buffering: bool = False
    running: bool = False
    interleaved: bool = False
    copied: tuple[str, ...] = ()

    def moved_up(self, elements: int) -> Step:
        """Return the step with all that it places so many elements further up."""
        return replace(self, addresses={key: at + elements for key, at in self.addresses.items()})


_NAMES = ("operations", "kept", "dropped", "fetched", "resident", "written")
_KEYS = ("order", "pixels", "kernels", "in_place", "addresses")
_OPTIONAL = {"columns": MAX_PLANE, "channels": MAX_CHANNELS, "keys": MAX_CHANNELS}
"""Numbers that only some steps have, and the most that they can be."""

FLAGS = ("double_buffering", "running", "blocks", "interleaved")
"""What is false of a step that does not say it."""

COPIED = "copied"

STAYING = "staying"

AGAIN = "again"


@dataclass(frozen=True, repr=False)
class Plan(RoomPlan):
    """All operations in steps.

    Attributes
    ----------
    staying
        Operations whose weights are on chip for good, loaded once before the first frame: the first element
        of each. Steps neither place nor load them.
    again
        Operations that are executed twice, and who reads what the second execution computes. That is called
        ``NAME again``, reads what the first one reads, if it is not named here itself, and loads the same
        weights.
    """

    steps: tuple[Step, ...]
    staying: dict[str, int] = field(default_factory=dict)
    again: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def moved_up(self, elements: int) -> Plan:
        """Return the plan with all that its steps place so many elements further up."""
        return replace(self, steps=tuple(step.moved_up(elements) for step in self.steps))

    def to_json(self) -> dict[str, Any]:
        """Return the plan as the JSON object of a result file."""
        staying = {STAYING: dict(self.staying)} if self.staying else {}
        again = {AGAIN: {name: list(readers) for name, readers in self.again.items()}} if self.again else {}
        return {"steps": [_step_to_json(step) for step in self.steps], **staying, **again}

    @classmethod
    def from_json(cls, data: Any, file: str | None = None) -> Plan:
        """Read the JSON object of a result file; its meaning is judged by the simulator, not here."""
        steps = data.get("steps") if isinstance(data, dict) else None
        if (
            not isinstance(steps, list)
            or not 1 <= len(steps) <= MAX_LAYERS
            or set(data) - {STAYING, AGAIN} != {"steps"}
        ):
            raise InputError("plan", data, f"must be an object with a list of 1 to {MAX_LAYERS} steps", file)
        found = tuple(_step_from_json(step, f"plan.steps[{place}]", file) for place, step in enumerate(steps))
        staying = _addresses(data.get(STAYING, {}), f"plan.{STAYING}", file)
        return cls(found, staying, _readers(data.get(AGAIN, {}), f"plan.{AGAIN}", file))


def _step_to_json(step: Step) -> dict[str, Any]:
    names = {key: list(getattr(step, key)) for key in _NAMES}
    rest = {key: getattr(step, key) for key in ("order", "pixels", "kernels", "in_place")}
    more: dict[str, Any] = {key: getattr(step, key) for key in _OPTIONAL if getattr(step, key) is not None}
    more |= {key: True for key in FLAGS if getattr(step, key)}
    more |= {COPIED: list(step.copied)} if step.copied else {}
    return {**names, **rest, **more, "addresses": dict(step.addresses)}


def _step_from_json(data: Any, field: str, file: str | None) -> Step:
    if not isinstance(data, dict) or set(data) - {*_OPTIONAL, *FLAGS, COPIED} != {*_NAMES, *_KEYS}:
        raise InputError(field, data, f"must be an object with {', '.join((*_NAMES, *_KEYS))}", file)
    lists = [*_NAMES, *([COPIED] if COPIED in data else [])]
    for key in lists:
        _names(data[key], f"{field}.{key}", file)
    if data["order"] not in ORDERS:
        raise InputError(f"{field}.order", data["order"], f"must be one of: {', '.join(ORDERS)}", file)
    numbers = {"pixels": MAX_PLANE, "kernels": MAX_CHANNELS}
    for key, most in (numbers | {key: most for key, most in _OPTIONAL.items() if key in data}).items():
        if type(data[key]) is not int or not 1 <= data[key] <= most:
            raise InputError(f"{field}.{key}", data[key], f"must be an integer from 1 to {most}", file)
    if data["in_place"] is not None and type(data["in_place"]) is not str:
        raise InputError(f"{field}.in_place", data["in_place"], "must be a name or null", file)
    for key in FLAGS:
        if type(data.get(key, False)) is not bool:
            raise InputError(f"{field}.{key}", data[key], "must be true or false", file)
    _addresses(data["addresses"], f"{field}.addresses", file)
    return Step(**{**data, **{key: tuple(data[key]) for key in lists}})


def _names(data: Any, field: str, file: str | None) -> tuple[str, ...]:
    if not isinstance(data, list) or len(data) > MAX_LAYERS or not all(type(name) is str for name in data):
        raise InputError(field, data, "must be a list of names", file)
    return tuple(data)


def _readers(data: Any, field: str, file: str | None) -> dict[str, tuple[str, ...]]:
    if not isinstance(data, dict) or len(data) > MAX_LAYERS:
        raise InputError(field, data, "must be an object of lists of readers by name", file)
    return {name: _names(readers, f"{field}.{name}", file) for name, readers in data.items()}


def _addresses(data: Any, field: str, file: str | None) -> dict[str, int]:
    if not isinstance(data, dict):
        raise InputError(field, data, "must be an object of addresses by name", file)
    for name, address in data.items():
        if type(address) is not int or not 0 <= address <= MAX_BYTES:
            raise InputError(f"{field}.{name}", address, f"must be an integer from 0 to {MAX_BYTES}", file)
    return data
