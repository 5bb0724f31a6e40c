"""A group whose products load their second operands in blocks, in each pass; see docs/residency.md.

What is read in blocks has no line buffer. Where keys pass by, scores and what comes of them have line buffers
of a block of keys.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.residency.attention import Attention, SecondPart
from tilewright.residency.graph import Operation, Reading, Span, count_channels, members, merged
from tilewright.residency.shapes.groups import Group, ValueT, pass_sizes
from tilewright.simulator.program import Counts


class InBlocks(Group):
    """A group in which second operands are read in blocks, unless they are computed in it.

    Attributes
    ----------
    whole_planes
        The group as it is without blocks.
    loaded
        For each product by number, what it reads in blocks of which source.
    in_tiles
        How its tiles are computed, in a tuple of one: see `product_tiles.product_tiles`.
    """

    def __init__(self, group: Group) -> None:
        self.in_tiles: Any = None
        counted: dict[Hashable, object] = group.groups.alike.share(("in blocks", group.last.number), dict)
        super().__init__(group.groups, group.operations, counted)
        self.whole_planes = group
        self.loaded: Mapping[int, Mapping[int, SecondPart]] = {
            operation.number: {
                tensor: part for tensor, part in operation.second.parts.items() if self.read >> tensor & 1
            }
            for operation in self.operations
            if operation.second is not None
        }

    def _in_blocks(self, operation: Operation, reading: Reading) -> bool:
        """Whether an operation reads a tensor in blocks."""
        return reading.extent is None and reading.tensor in self.loaded.get(operation.number, ())

    def readers(self, tensor: int) -> Iterator[tuple[Operation, Reading]]:
        """Return the operations that read a tensor here otherwise than in blocks, and how."""
        found = super().readers(tensor)
        return ((one, reading) for one, reading in found if not self._in_blocks(one, reading))

    def readings_of(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor here otherwise than in blocks, by number, and how."""
        places = [
            place
            for place, (one, reading) in enumerate(self.graph.read[tensor])
            if self.mask >> one.number & 1 and not self._in_blocks(one, reading)
        ]
        numbers, readings = self.groups.readings_of(tensor)
        return [numbers[place] for place in places], readings[places]

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """Tensors that are read here otherwise than in blocks: each may have a line buffer."""
        read = (tensor for tensor in self.sources if any(True for _ in self.readers(tensor)))
        return tuple(sorted({*read, *self.computed[:-1]}))

    def spans(self, tensor: int) -> tuple[Span, ...]:
        """Return the channels of a tensor that a line buffer holds, without overlaps, ascending."""
        if self.mask << 1 >> tensor & 1:
            return super().spans(tensor)
        mask = self.graph.readers[tensor] & self.mask
        read = (self.graph.operations[number].beside.get(tensor, ()) for number in members(mask))
        return merged([span for spans in read for span in spans])

    def channels(self, tensor: int) -> int:
        """Return how many channels of a tensor a line buffer holds, if keys do not pass by."""
        return min(count_channels(self.spans(tensor)), self.graph.tensors[tensor].channels)

    def share(self, what: str, number: Hashable, tensor: int, count: Callable[[], ValueT]) -> ValueT:
        """Return what is counted for a tensor: see `Group.share`; what is computed here is read otherwise."""
        return super().share(what, (number, self.read >> tensor & 1), tensor, count)

    # Second operands -----------------------------------------------------------------------------------

    def block(self, operation: Operation, kernels: int, keys: int | None, whole: Collection[int]) -> int:
        """Return the elements of a product's second operand that are loaded at a time."""
        parts = self.loaded.get(operation.number, {})
        return sum(
            self._block_of(operation.number, part, kernels, keys)
            for tensor, part in parts.items()
            if tensor not in whole
        )

    def _block_of(self, number: int, part: SecondPart, kernels: int, keys: int | None) -> int:
        """Return what a product loads of a tensor at a time: some columns, or what it needs of some keys."""
        of_keys = [part.column for each in self.passing(keys) if number == each.scores]
        of_keys += [part.row for each in self.passing(keys) if number == each.context]
        if keys is None or not of_keys:
            return min(part.size, kernels * part.unit)
        return min(part.size, keys * min(of_keys))

    def blocks_of(self, tensor: int, keys: int | None) -> int:
        """Return the elements of a source that are loaded at a time as second operands, at least."""
        return sum(
            self._block_of(number, parts[tensor], 1, keys)
            for number, parts in self.loaded.items()
            if tensor in parts
        )

    def loaded_in(self, tensor: int, pixels: int, keys: int | None) -> int:
        """Return the elements that all passes read of a source in DRAM, in blocks and otherwise."""
        found = 0
        if tensor in self.lines:
            found = self.channels(tensor) * self.graph.tensors[tensor].pixels
        return found + sum(
            self._loaded_by(number, tensor, pixels, keys)
            for number, parts in self.loaded.items()
            if tensor in parts
        )

    def _loaded_by(self, number: int, tensor: int, pixels: int, keys: int | None) -> int:
        """Return the elements of a source that all passes load for a product."""
        for each in self.passing(keys):
            if number in each.loads:
                return int(each.loads[number][tensor][self._seen(each, pixels)].sum())
        return self._active(number + 1, pixels) * self.loaded[number][tensor].size

    def _seen(self, attention: Attention, pixels: int) -> Counts:
        """Return how many keys the last row of each pass sees, of passes that have rows."""
        assert attention.seen is not None
        ends = self._counts(attention.softmax + 1, pixels).ends
        last: Counts = ends[1:][np.diff(ends) > 0] - 1
        return attention.seen[last]

    def reloaded(self, tensor: int, pixels: int, keys: int | None) -> int:
        """Return the elements of a source in DRAM that passes read again."""
        return self.loaded_in(tensor, pixels, keys) - self.whole_planes.elements_read(1 << tensor)

    # Passes of all sizes -------------------------------------------------------------------------------

    @cached_property
    def sizes(self) -> list[int]:
        """Pixels of passes: see `pixels_in_blocks`."""
        return pixels_in_blocks(self.whole_planes)

    def lines_by_size(self, tensor: int) -> Counts:
        """Return the pixels of a tensor's line buffer for passes of each size; 0 where it has none."""
        if tensor not in self.lines:
            return np.zeros(len(self.sizes), dtype=np.int64)
        return self.share("lines by size", 0, tensor, lambda: self._each(self.line_pixels_of, tensor))

    def active_by_size(self, number: int) -> Counts:
        """Return the passes in which an operation computes anything, for passes of each size."""
        return self.share("active by size", 0, number + 1, lambda: self._each(self._active, number + 1))

    def _each(self, count: Callable[[int, int], int], tensor: int) -> Counts:
        return np.array([count(tensor, pixels) for pixels in self.sizes], dtype=np.int64)

    def reloaded_by_size(self, tensor: int, keys: int | None) -> Counts:
        """Return the elements of a source in DRAM that passes read again, for passes of each size."""
        found = np.zeros(len(self.sizes), dtype=np.int64)
        if tensor in self.lines:
            found += self.channels(tensor) * self.graph.tensors[tensor].pixels
        for number, parts in self.loaded.items():
            if tensor in parts and any(number in each.loads for each in self.passing(keys)):
                found += [self._loaded_by(number, tensor, pixels, keys) for pixels in self.sizes]
            elif tensor in parts:
                found += self.active_by_size(number) * parts[tensor].size
        return found - self.whole_planes.elements_read(1 << tensor)

    # Keys ----------------------------------------------------------------------------------------------

    @cached_property
    def attentions(self) -> tuple[Attention, ...]:
        """Attention whose keys can pass by: the group has all operations, or of one attention the end."""
        every = (each for each in self.graph.attentions if self.mask >> each.context & 1)
        found = tuple(each for each in every if not each.required & ~self.mask)
        if found or self.end_of_attention is None or (self.is_end and not self._end_has_keys):
            return found
        return (self.end_of_attention,)

    @cached_property
    def end_of_attention(self) -> Attention | None:
        """Softmax and context of the only attention of which the group has the end, and not the scores."""
        own = [each for each in self.graph.attentions if self.mask >> each.context & 1]
        if len(own) != 1 or not self.graph.tiles or not own[0].required & ~self.mask:
            return None
        return own[0].end_from(self.mask, self.graph.reads)

    @property
    def is_end(self) -> bool:
        """Whether the group is that end and nothing else."""
        end = self.end_of_attention
        if end is None:
            return False
        # What may be executed again may have been executed before.
        return not end.required & ~self.mask and {each.number for each in self.operations} <= {
            *end.operations
        }

    @property
    def _end_has_keys(self) -> bool:
        """Whether all that functions of scores read beside these can be loaded for some keys."""
        assert self.end_of_attention is not None
        return all(self._is_alone(tensor) for tensor in self.end_of_attention.beside)

    def passing(self, keys: int | None) -> tuple[Attention, ...]:
        """Return the attention whose keys pass by, in blocks of so many; None for no keys."""
        return () if keys is None else self.attentions

    def of_keys(self, tensor: int) -> tuple[Attention, int] | None:
        """Return the attention of which a line buffer has some keys, if keys pass by, and its groups."""
        for each in self.attentions:
            if tensor in each.rows or tensor == each.source:
                return each, each.groups
            if tensor in each.beside and self._is_alone(tensor):
                return each, each.beside[tensor]
        return None

    def _is_alone(self, tensor: int) -> bool:
        """Whether one operation alone reads a source here."""
        readers = self.graph.readers[tensor] & self.mask
        return bool(self.read >> tensor & 1 and readers and not readers & (readers - 1))

    def width(self, tensor: int, keys: int | None) -> int:
        """Return how many channels of a tensor a line buffer holds."""
        found = self.channels(tensor)
        passing = None if keys is None else self.of_keys(tensor)
        if passing is None or keys is None:
            return found
        attention, groups = passing
        return min(found, groups * min(keys, attention.keys))

    def sums(self, attention: Attention, pixels: int) -> int:
        """Return the elements of the partial sums of attention, some pixels of the output a pass."""
        rows = self.line_pixels_of(attention.softmax + 1, pixels)
        return rows * attention.sums * self.graph.sum_elements


def in_blocks(group: Group) -> InBlocks:
    """Return a group in blocks, always the same."""
    if group.blocked is None:
        group.blocked = InBlocks(group)
    found: InBlocks = group.blocked
    return found


def may_have_blocks(group: Group) -> bool:
    """Whether second operands of a group may be loaded in blocks; not where it has running values."""
    return not group.is_running and any(operation.second is not None for operation in group.operations)


def pixels_in_blocks(group: Group) -> list[int]:
    """Return the pixels of passes that load second operands in blocks: the fewest for their number."""
    return pass_sizes(group.pixels) if may_have_blocks(group) else []


def is_causal(group: Group) -> bool:
    """Whether fewer keys pass by for some rows of a group than for others."""
    return may_have_blocks(group) and any(each.seen is not None for each in in_blocks(group).attentions)


def key_sizes(group: Group) -> list[int]:
    """Return the keys that may pass by at a time, so that no other number costs less: the fewest for it."""
    most = most_keys(group)
    if not most:
        return []
    return list(range(1, most + 1)) if is_causal(group) else pass_sizes(most)


def most_keys(group: Group) -> int:
    """Return the most keys that may pass by at a time; 0 where none do."""
    if not may_have_blocks(group):
        return 0
    return max((each.keys for each in in_blocks(group).attentions), default=0)
