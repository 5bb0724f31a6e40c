"""Groups of operations that one step executes, and how far each of its passes gets in every tensor.

In each pass the last operation computes some pixels, row by row. Going backwards, every other operation
computes the pixels that are new among those needed, so that none is computed or loaded twice. In the last
pass all is completed.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tilewright.residency.graph import Graph, Operation, Reading, Span, count_channels, members
from tilewright.simulator.program import Counts

if TYPE_CHECKING:
    from tilewright.residency.shapes.interleaved import Turns

BY_ROWS = 0
"""In place of the pixels of a pass: passes of one row, of two rows, and so on."""

ValueT = TypeVar("ValueT")


class PassCounts(NamedTuple):
    """What passes of some size need of a tensor; of several sizes, one behind the other.

    Attributes
    ----------
    ends
        End of the pixels that are there after each pass, from none on; shape (passes + 1,) for each size.
    lines
        Pixels of the line buffer: the most that a pass needs or computes; shape (sizes,).
    active
        Passes in which anything new is computed or loaded; shape (sizes,).
    """

    ends: Counts
    lines: Counts
    active: Counts


class Groups:
    """The groups of a graph, each made once, and all that is known of them: searches share it.

    Parameters
    ----------
    alike
        Groups of a graph that differs in its weights alone: what is counted of pixels is that of these.
    """

    def __init__(self, graph: Graph, alike: Groups | None = None) -> None:
        self.graph, self.alike = graph, alike or self
        self._groups: dict[int, Group] = {}
        self._shared: dict[Hashable, Any] = {}

    def __getitem__(self, mask: int) -> Group:
        """Return the group of the operations in a bit mask."""
        known = self._groups.get(mask)
        if known is None:
            known = self._groups[mask] = Group(self, self.graph.numbers(mask))
        return known

    def share(self, key: Hashable, make: Callable[[], ValueT]) -> ValueT:
        """Return what has been made for a key before, or make it."""
        if key not in self._shared:
            self._shared[key] = make()
        found: ValueT = self._shared[key]
        return found

    def readings_of(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor, and how: see `line_buffers.encode_readings`."""

        def encode() -> tuple[list[int], Counts]:
            from tilewright.residency.shapes import line_buffers  # start-up time: numba

            readings = self.graph.read[tensor]
            encoded = line_buffers.encode_readings([reading for _, reading in readings])
            return [operation.number for operation, _ in readings], encoded

        return self.share(("readings", tensor), encode)

    def reach(self, tensor: int) -> int:
        """Return the pixels of an input of the network that the first pixel of a tensor needs, at most."""

        def count() -> int:
            graph, wanted, most = self.graph, {tensor: 1}, 0
            for number in range(tensor, -1, -1):
                if graph.tensors[number].given:
                    most = max(most, wanted.get(number, 0))
                elif number in wanted:
                    for reading in graph.operations[number - 1].readings:
                        end = max(1, int(reading.end(np.array(wanted[number]))))
                        wanted[reading.tensor] = max(wanted.get(reading.tensor, 0), end)
            return most

        return self.share(("reach", tensor), count)


class Group:
    """Operations of one step, numbers ascending: all that the last one needs and that is not computed yet.

    Groups with the same last operation share what they count: all that leads from a tensor to that operation
    is in each of them that computes the tensor. It is kept by what it is, pixels, tensor, and who reads the
    tensor in the group; tensors that are `Graph.alike` are one.

    Attributes
    ----------
    shapes
        Buffers of the shapes that have been looked at.
    in_strips
        The group in strips of some columns: see `strips.strips_of`.
    is_running
        Whether the last operation adds up what it reads pixel by pixel.
    blocked
        The group with second operands in blocks: see `in_blocks.in_blocks`.
    """

    is_running = False

    def __init__(
        self, groups: Groups, operations: tuple[Operation, ...], counted: dict[Hashable, Any] | None = None
    ) -> None:
        self.groups, self.graph, self.operations = groups, groups.graph, operations
        self.mask = sum(1 << operation.number for operation in operations)
        self.counted: dict[Hashable, Any] = (
            groups.alike.share(("counted", self.last.number), dict) if counted is None else counted
        )
        # Found by modules behind this one, of types that are theirs: buffers of a shape; strips by width.
        self.shapes: dict[Any, Any] = {}
        self.in_strips: dict[int, Any] = {}
        self.blocked: Any = None

    @property
    def last(self) -> Operation:
        """The operation to which all others lead."""
        return self.operations[-1]

    @property
    def output(self) -> int:
        """The tensor that the last operation computes."""
        return self.last.number + 1

    @cached_property
    def plane(self) -> tuple[int, int]:
        """Rows and columns that passes go over: those of the last operation's output."""
        return self.graph.tensors[self.output].shape[1:]

    @cached_property
    def pixels(self) -> int:
        """Pixels that passes go over."""
        return prod(self.plane)

    @cached_property
    def row(self) -> int:
        """Pixels of a row of these."""
        return self.plane[1]

    @cached_property
    def running(self) -> RunningGroup | None:
        """The group in passes over what the last operation reads, if that has running values."""
        if self.last.running is None:
            return None
        counted: dict[Hashable, Any] = self.groups.alike.share(("counted running", self.last.number), dict)
        return RunningGroup(self.groups, self.operations, counted)

    @cached_property
    def weights(self) -> int:
        """Elements of all weights that the step has to load."""
        return sum(operation.weights for operation in self.operations)

    @cached_property
    def weighted(self) -> frozenset[int]:
        """Numbers of the operations that have weights to load."""
        return frozenset(operation.number for operation in self.operations if operation.weights)

    @property
    def keepable(self) -> frozenset[int]:
        """Numbers of the operations whose weights may be kept during the step."""
        return self.weighted

    @cached_property
    def computed(self) -> tuple[int, ...]:
        """Tensors that the operations compute."""
        return tuple(operation.number + 1 for operation in self.operations)

    @cached_property
    def read(self) -> int:
        """Bit mask of the tensors that are read and not computed here."""
        found, reads = 0, self.graph.reads
        for tensor in self.computed:
            found |= reads[tensor - 1]
        return found & ~(self.mask << 1)

    @cached_property
    def touched(self) -> int:
        """Bit mask of the tensors that are read or computed."""
        return self.read | self.mask << 1

    @cached_property
    def sources(self) -> tuple[int, ...]:
        """Tensors that are read and not computed here, ascending."""
        return tuple(members(self.read))

    @cached_property
    def outputs(self) -> tuple[int, ...]:
        """Tensors computed here that others read or that leave the network, and the last one."""
        readers, others, leaving = self.graph.readers, ~self.mask, self.graph.leaving
        wanted = (t for t in self.computed[:-1] if readers[t] & others or leaving >> t & 1)
        return (*wanted, self.output)

    @cached_property
    def lines(self) -> tuple[int, ...]:
        """Tensors that are read here: each has a line buffer, unless it is on chip as a whole."""
        return tuple(sorted({*self.sources, *self.computed[:-1]}))

    def spans(self, tensor: int) -> tuple[Span, ...]:
        """Return the channels of a tensor that a line buffer holds, without overlaps, ascending.

        These are all that are computed, or of a source those that are read here.
        """
        if self.mask << 1 >> tensor & 1:
            return ((0, self.graph.tensors[tensor].channels),)
        return self.graph.channels_read(tensor, self.mask)

    def channels(self, tensor: int) -> int:
        """Return how many channels of a tensor a line buffer holds: see `spans`."""
        if not self.graph.read_in_parts >> tensor & 1:
            return self.graph.tensors[tensor].channels
        return count_channels(self.spans(tensor))

    def elements_read(self, sources: int) -> int:
        """Return the elements that are read here of some sources, a bit mask."""
        tensors = self.graph.tensors
        return sum(self.channels(number) * tensors[number].pixels for number in members(sources))

    def is_last_reader(self, tensor: int, done: int) -> bool:
        """Whether nobody reads a tensor after this step, where `done` have been executed before it."""
        return not self.graph.readers[tensor] & ~(self.mask | done)

    def readers(self, tensor: int) -> Iterator[tuple[Operation, Reading]]:
        """Return the operations that read a tensor here, and how."""
        mask = self.mask
        return ((one, reading) for one, reading in self.graph.read[tensor] if mask >> one.number & 1)

    def readings_of(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor here, by number, and how: see `Groups.readings_of`."""
        numbers, readings = self.groups.readings_of(tensor)
        here = [place for place, number in enumerate(numbers) if self.mask >> number & 1]
        if len(here) == len(numbers):
            return numbers, readings
        return [numbers[place] for place in here], readings[here]

    def share(self, what: str, number: Hashable, tensor: int, count: Callable[[], ValueT]) -> ValueT:
        """Return what is counted for a tensor, or has been in another group with the same last operation.

        Parameters
        ----------
        what, number
            What is counted, with which pixels or columns.
        """
        key = what, number, self.graph.alike[tensor], self.graph.readers[tensor] & self.mask
        if key not in self.counted:
            self.counted[key] = count()
        found: ValueT = self.counted[key]
        return found

    # Passes --------------------------------------------------------------------------------------------

    def count_passes(self, pixels: int) -> int:
        """Return how many passes there are."""
        return -(-self.pixels // pixels)

    def ends(self, pixels: int) -> dict[int, Counts]:
        """Return for each tensor the end of the pixels that are there after each pass, from none on."""
        return {tensor: self._counts(tensor, pixels).ends for tensor in (self.output, *reversed(self.lines))}

    def line_pixels(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer: the most that a pass needs or computes."""
        return {tensor: self.line_pixels_of(tensor, pixels) for tensor in reversed(self.lines)}

    def line_pixels_of(self, tensor: int, pixels: int) -> int:
        """Return the pixels of a tensor's line buffer: the most that a pass needs or computes."""
        if not pixels % self.row:
            return int(self.lines_by_rows(tensor)[min(pixels, self.pixels) // self.row - 1])
        return int(self._counts(tensor, pixels).lines[0])

    def lines_by_rows(self, tensor: int) -> Counts:
        """Return the pixels of a tensor's line buffer with one row of the output a pass, and so on."""
        return self._counts(tensor, BY_ROWS).lines

    # Taking turns ----------------------------------------------------------------------------------------

    def line_pixels_in_turns(self) -> dict[int, int]:
        """Return the pixels of each tensor's line buffer where operations take turns: see `interleaved`."""
        return {tensor: self.line_pixels_in_turns_of(tensor) for tensor in reversed(self.lines)}

    def line_pixels_in_turns_of(self, tensor: int) -> int:
        """Return the pixels of a tensor's line buffer where operations take turns."""

        def count() -> int:
            return most_held(self, tensor, lambda each: (self.readings_of(each)[1], self.pixels_of(each)))

        return self.share("in turns", 0, tensor, count)

    def pixels_of(self, tensor: int) -> int:
        """Return the pixels that are computed of a tensor, or are added to the output."""
        return self.pixels if tensor == self.output else self.graph.tensors[tensor].pixels

    def turns(self, whole: Collection[int], held: Mapping[int, int]) -> Iterator[tuple[int, int, int]]:
        """Return tensors with the first and the end of their pixels, in turns.

        Parameters
        ----------
        whole
            Sources that are on chip as a whole.
        held
            Pixels of line buffers: no more are loaded or computed at a time.
        """
        return take_turns(self, whole, held, lambda each: (self.readings_of(each)[1], self.pixels_of(each)))

    # Passes in which something is computed -----------------------------------------------------------------

    def active(self, pixels: int) -> dict[int, int]:
        """Return for each operation, by number, the passes in which it computes anything."""
        found = reversed(self.operations)
        return {operation.number: self._active(operation.number + 1, pixels) for operation in found}

    def active_by_rows(self, number: int) -> Counts:
        """Return the passes in which an operation computes anything, with one row a pass, and so on."""
        return self._counts(number + 1, BY_ROWS).active

    def _active(self, tensor: int, pixels: int) -> int:
        if not pixels % self.row:
            return int(self.active_by_rows(tensor - 1)[min(pixels, self.pixels) // self.row - 1])
        return int(self._counts(tensor, pixels).active[0])

    def least_active(self, pixels: int) -> int:
        """Return the passes in which every operation computes something, for the one with the fewest."""
        if pixels not in self._least_active:
            self._least_active[pixels] = min(self.active(pixels).values())
        return self._least_active[pixels]

    @cached_property
    def _least_active(self) -> dict[int, int]:
        return {}

    def _counts(self, tensor: int, pixels: int) -> PassCounts:
        """Return what passes of some pixels need of a tensor, or passes of one row, two rows, and so on."""
        return self.share("passes", pixels, tensor, lambda: self._counted(tensor, pixels))

    def _counted(self, tensor: int, pixels: int) -> PassCounts:
        if pixels == BY_ROWS:
            begins = self._begins
            sizes = np.arange(1, len(begins), dtype=np.int64) * self.row
        else:
            begins = np.array([0, self.count_passes(pixels) + 1], dtype=np.int64)
            sizes = np.array([pixels], dtype=np.int64)
        if tensor == self.output:
            counts = np.diff(begins)
            passes = np.arange(begins[-1], dtype=np.int64) - np.repeat(begins[:-1], counts)
            ends = np.minimum(passes * np.repeat(sizes, counts), self.pixels)
            return PassCounts(ends, np.minimum(sizes, self.pixels), counts - 1)
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        # What is computed or loaded in a pass is held even if nobody reads it any more.
        numbers, readings = self.readings_of(tensor)
        ends = np.array([self._counts(number + 1, pixels).ends for number in numbers])
        return PassCounts(*line_buffers.count_passes(begins, readings[None], ends))

    @cached_property
    def _begins(self) -> Counts:
        """Where the ends of passes of one row, of two rows, and so on begin, one behind the other."""
        height = self.plane[0]
        passes = -(-height // np.arange(1, height + 1, dtype=np.int64))
        return np.cumsum([0, *(passes + 1)], dtype=np.int64)

    def double_buffered_line_pixels(self, pixels: int, rounds: int, whole: Collection[int]) -> dict[int, int]:
        """Return the pixels of each line buffer if transfers run beside the computation.

        Of what is loaded there is what the next pass needs, too; of what is written from a line buffer, what
        the pass before has computed.

        Parameters
        ----------
        rounds
            How often all passes are executed; the first pass of a round follows the last one of another.
        whole
            Tensors of the step that are on chip as a whole.
        """
        ends, found = self.ends(pixels), {}
        for tensor in self.lines:
            if tensor in whole:
                continue
            end, first = ends[tensor], ends[tensor][:-1]
            for operation, reading in self.readers(tensor):
                first = np.minimum(first, reading.first(ends[operation.number + 1][:-1]))
            if tensor in self.sources:
                most = int((np.append(end[2:], end[-1]) - first).max())
                if rounds > 1:
                    most = max(most, int(end[-1] - first[-1] + end[1]))
            else:
                if tensor in self.outputs:
                    first = np.minimum(first, np.append(0, end[:-2]))
                most = int((end[1:] - first).max())
            found[tensor] = most
        return found

    # In place of an operand ----------------------------------------------------------------------------

    def replaceable_operands(self, done: int) -> tuple[int, ...]:
        """Return the sources on chip as a whole whose place the output can take, in passes of some size.

        The last operation computes each value from those at its place, in all channels, and nobody else
        reads the tensor later. In a single pass all other operations of the step have read it before it is
        overwritten.

        Parameters
        ----------
        done
            Bit mask of what has been executed before.
        """
        if not self.last.pixelwise:
            return ()
        tensors, shape = self.graph.tensors, self.graph.tensors[self.output].shape
        return tuple(
            tensor
            for tensor in dict.fromkeys(reading.tensor for reading in self.last.readings)
            if self.read >> tensor & 1
            and tensor not in self.last.parts
            and tensors[tensor].shape == shape
            and self.is_last_reader(tensor, done)
        )

    def replaces(self, tensor: int, pixels: int) -> bool:
        """Whether the output can take the place of a replaceable operand, some pixels a pass."""
        return bool(self._read_before(tensor)[pixels::pixels].all())

    def pixels_that_replace(self, tensor: int) -> list[int]:
        """Return the pixels of passes in which the output can take a tensor's place, without multiples.

        Line buffers of a multiple are no smaller: each of its passes needs what several have needed.
        """

        def find() -> list[int]:
            free = self._read_before(tensor)
            found, multiples = [], np.zeros(len(free), dtype=np.bool_)
            for pixels in np.flatnonzero(free).tolist():
                if pixels and not multiples[pixels] and free[pixels::pixels].all():
                    found.append(pixels)
                    multiples[pixels::pixels] = True
            return found

        return self.share("pixels that replace", 0, tensor, find)

    def _read_before(self, tensor: int) -> NDArray[np.bool_]:
        """Return whether a pass may end with so many pixels if the output takes a tensor's place.

        Then no other operation of the step still needs one of these pixels, which are overwritten.
        """

        def find() -> NDArray[np.bool_]:
            ends = self._counts(self.output, 1).ends
            free = np.ones(len(ends), dtype=np.bool_)
            for operation, reading in self.readers(tensor):
                if operation is not self.last:
                    free &= reading.first(self._counts(operation.number + 1, 1).ends) >= ends
            return free

        return self.share("read before", 0, tensor, find)


class RunningGroup(Group):
    """A group whose last operation adds up what it reads pixel by pixel: a pass has some of these pixels.

    The last operation is counted as a window of one pixel with an output of the same plane, so that all that
    is counted of passes holds. Weights of the last operation are read pixel by pixel, each once.
    """

    is_running = True
    running = None

    @cached_property
    def plane(self) -> tuple[int, int]:
        """Rows and columns of what the last operation reads."""
        assert self.last.running is not None
        return self.last.running.plane

    @cached_property
    def keepable(self) -> frozenset[int]:
        """Numbers of the operations whose weights may be kept: all but the last one."""
        return self.weighted - {self.last.number}

    def _by_pixel(self, tensor: int) -> Reading:
        return Reading(tensor, self.plane, self.plane, extent=(1, 1))

    def readers(self, tensor: int) -> Iterator[tuple[Operation, Reading]]:
        """Return the operations that read a tensor here, and how."""
        for one, reading in super().readers(tensor):
            yield one, self._by_pixel(tensor) if one is self.last else reading

    def readings_of(self, tensor: int) -> tuple[list[int], Counts]:
        """Return the operations that read a tensor here, by number, and how."""
        from tilewright.residency.shapes import line_buffers  # start-up time: numba

        numbers, readings = super().readings_of(tensor)
        if self.last.number in numbers:
            readings = readings.copy()
            own = line_buffers.encode_readings([self._by_pixel(tensor)])
            readings[numbers.index(self.last.number)] = own[0]
        return numbers, readings


Read = Callable[[int], tuple[Counts, int]]
"""How a tensor is read in the whole plane or in a strip, as `Group.readings_of`, and its pixels there."""


def most_held(group: Group, tensor: int, read: Read) -> int:
    """Return the pixels of a tensor's line buffer where operations take turns."""
    from tilewright.residency.shapes import interleaved  # start-up time: numba

    readers, _ = group.readings_of(tensor)
    if len(readers) == 1:
        return int(interleaved.hold(read(tensor)[0][0], read(readers[0] + 1)[1]))
    ancestors = group.graph.ops.ancestors
    behind = [
        each.number for each in group.operations if ancestors[each.number] & sum(1 << r for r in readers)
    ]
    numbers = sorted({*readers, *behind})
    _, turns = _encoded(group, [tensor], numbers, read)
    return int(interleaved.take_turns(*turns, np.ones(len(turns.pixels), dtype=np.int64))[2])


def take_turns(
    group: Group, whole: Collection[int], held: Mapping[int, int], read: Read
) -> Iterator[tuple[int, int, int]]:
    """Return tensors with the first and the end of their pixels, in turns: see `Group.turns`."""
    from tilewright.residency.shapes import interleaved  # start-up time: numba

    loaded = [tensor for tensor in group.sources if tensor not in whole]
    tensors, turns = _encoded(group, loaded, [each.number for each in group.operations], read)
    most = np.array([held.get(tensor, 1) for tensor in tensors], dtype=np.int64)
    who, count, _ = interleaved.take_turns(*turns, most)
    there = dict.fromkeys(tensors, 0)
    for place, pixels in zip(who.tolist(), count.tolist(), strict=True):
        tensor = tensors[place]
        yield tensor, there[tensor], there[tensor] + pixels
        there[tensor] += pixels


def _encoded(group: Group, loaded: list[int], numbers: list[int], read: Read) -> tuple[list[int], Turns]:
    """Return the tensors that are loaded and computed, and how some operations read them."""
    from tilewright.residency.shapes import interleaved  # start-up time: numba

    tensors = [*loaded, *(number + 1 for number in numbers)]
    own: list[list[tuple[int, Counts]]] = [[] for _ in numbers]
    places = {number: place for place, number in enumerate(numbers)}
    for place, tensor in enumerate(tensors):
        if tensor == group.output:
            continue
        for reader, reading in zip(group.readings_of(tensor)[0], read(tensor)[0], strict=True):
            if reader in places:
                own[places[reader]].append((place, reading))
    for readings in own:
        readings.sort(key=lambda each: (group.groups.reach(tensors[each[0]]), each[0]))
    begins = np.cumsum([0, *map(len, own)], dtype=np.int64)
    flat = [each for readings in own for each in readings]
    return tensors, interleaved.Turns(
        len(loaded),
        begins,
        np.array([place for place, _ in flat], dtype=np.int64),
        np.array([reading for _, reading in flat], dtype=np.int64).reshape(-1, 10),
        np.array([read(tensor)[1] for tensor in tensors], dtype=np.int64),
    )


def pass_sizes(length: int) -> list[int]:
    """Return the smallest part for each number of parts of a length, ascending."""
    return list(dict.fromkeys(-(-length // parts) for parts in range(length, 0, -1)))


def group_mask(graph: Graph, done: int, last: int) -> int:
    """Return the operations of the step that ends with `last` when `done` have been executed."""
    return (graph.ops.ancestors[last] | 1 << last) & ~done
