"""Where all maps lie in DDR: channels of a pixel side by side, so that a concatenation is no copy.

Maps that an operation reads side by side are slices of one array, into which the SAVE of each operation
stores its channels with a stride (DNNVM paper, section 3.1 and figure 3 (c)). A place is free again when no
operation needs its maps any more (section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

ALIGNMENT = 64
"""Bytes at a multiple of which arrays begin."""

Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Tensor:
    """A map in DDR.

    Attributes
    ----------
    role
        ``INPUT``, ``MAP`` or ``OUTPUT`` of the network.
    shape : (C, H, W)
    address
        Its first byte.
    pixel
        Bytes from a pixel to the next one: more than the channels take where it is a slice of an array.
    planar
        Whether it is NCHW, else NHWC.
    """

    name: str
    role: str
    shape: Shape
    address: int
    pixel: int
    planar: bool = False

    @property
    def line(self) -> int:
        """Bytes from a row to the next one."""
        return self.pixel * self.shape[2]

    @property
    def image(self) -> int:
        """Bytes from an image to the next one."""
        return self.line * self.shape[1] * (self.shape[0] if self.planar else 1)

    def channel_step(self, width: int) -> int:
        """Return the bytes from a channel to the next one, with elements of so many bytes."""
        return self.line * self.shape[1] if self.planar else width


@dataclass(frozen=True)
class Life:
    """A map before it has a place.

    Attributes
    ----------
    first, last
        Steps of the plan that write it first, and read it last.
    planar
        Whether it is NCHW, and has an array of its own.
    """

    name: str
    role: str
    shape: Shape
    first: int
    last: int
    planar: bool = False


def side_by_side(lives: Mapping[str, Life], runs: Iterable[Sequence[str]]) -> list[list[str]]:
    """Return maps in arrays: those of a run that are read side by side become neighbours, if they can.

    A map has one neighbour on each side, so of runs that contradict each other the first one counts. Inputs
    of the network have arrays of their own, since they are there before anything is stored.
    """
    right: dict[str, str] = {}
    array = {name: [name] for name in lives}
    for run in runs:
        for left, other in pairwise(run):
            inputs = "INPUT" in (lives[left].role, lives[other].role)
            ends = array[left][-1] == left and array[other][0] == other
            if inputs or left in right or not ends or array[left] is array[other]:
                continue
            right[left] = other
            joined = array[left] + array[other]
            array |= dict.fromkeys(joined, joined)
    found: dict[int, list[str]] = {id(each): each for each in array.values()}
    return list(found.values())


def placed(
    lives: Mapping[str, Life], arrays: Sequence[Sequence[str]], images: int, width: int, begin: int
) -> tuple[dict[str, Tensor], int]:
    """Return where all maps but inputs lie, and where the last one ends.

    Parameters
    ----------
    width
        Bytes of an element.
    begin
        The first byte.

    Returns
    -------
    tensors
        By name; each array at the lowest place that is free while it lives.
    end
        The byte behind all of them.
    """
    tensors: dict[str, Tensor] = {}
    taken: list[tuple[int, int, int, int]] = []  # begin, end, first, last
    end = begin
    for names in sorted(arrays, key=lambda names: min(lives[name].first for name in names)):
        members = [lives[name] for name in names]
        first, last = min(each.first for each in members), max(each.last for each in members)
        planar, deep = members[0].planar, sum(each.shape[0] for each in members)
        pixel = width if planar else width * deep
        size = images * width * deep * prod(members[0].shape[1:])
        size += -size % ALIGNMENT
        at = begin
        for low, high, since, until in sorted(taken):
            if since <= last and first <= until and low < at + size and at < high:
                at = high
        taken.append((at, at + size, first, last))
        end, address = max(end, at + size), at
        for each in members:
            tensors[each.name] = Tensor(each.name, each.role, each.shape, address, pixel, planar)
            address += width * each.shape[0]
    return tensors, end


def own_array(life: Life, images: int, width: int, begin: int) -> tuple[Tensor, int]:
    """Return a map that lies alone at an address, and where it ends."""
    pixel = width if life.planar else width * life.shape[0]
    tensor = Tensor(life.name, life.role, life.shape, begin, pixel, life.planar)
    size = images * tensor.image
    return tensor, begin + size + -size % ALIGNMENT
