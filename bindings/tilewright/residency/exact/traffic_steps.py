"""Ways to execute a group of operations, by what they leave on chip and in DRAM: none is worse than another.

What a step moves is counted beyond what must be moved in any case: weights, inputs and outputs of the network
once. Of a tensor that is in DRAM alone all that is still read must be loaded once. So writing it counts that,
too, and reading it counts only what must be read once more. What stays is loaded as far as it is still read.

A tensor leaves the chip, if at all, right after a step that had to do with it. Steps of several operations
are found by a compiled search (`knapsack`), those of one operation, which has more shapes, are enumerated
here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from tilewright.residency.exact.interchangeable import InterchangeableTensors
from tilewright.residency.exact.knapsack import Question
from tilewright.residency.exact.step_arrays import (
    FoundSteps,
    StepArrays,
    StepFrame,
    TensorOption,
    TensorOptions,
)
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import Limits, ParetoShape, pareto_shapes
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import ANYTHING, State, StepChoice, Transitions
from tilewright.simulator.program import Counts


@dataclass(frozen=True)
class TrafficStepsParams:
    """How far steps are looked for at once.

    Attributes
    ----------
    parts
        Parts of what may be moved again beyond the least in which steps are sought, one after the other,
        where those that move least are enough.
    least_parts
        Parts of the most that an operation may move again in which the least is sought, one after the other:
        of what moves much again there may be very many ways.
    most_known
        Groups of which the arrays are kept.
    """

    parts: tuple[int, ...] = (16, 1)
    least_parts: tuple[int, ...] = (2**12, 2**8, 2**4, 1)
    most_known: int = 2**14


PARAMS = TrafficStepsParams()


class TrafficStep(NamedTuple):
    """A way to execute a group; tensors as bit masks.

    Attributes
    ----------
    memory
        Elements of all that the step touches or places, of an operation by itself.
    excess
        Elements moved beyond what must be moved.
    on_chip, in_dram
        Where the tensors of the step are after it, if they are still to be read: what is dropped after it is
        in DRAM alone.
    """

    memory: int
    excess: int
    on_chip: int
    in_dram: int
    fetched: int
    resident: int
    written: int
    in_place: int
    shape: Shape

    def complete(self) -> TrafficStep:
        """Return it, with all that is to be known."""
        return self

    def choice(self, group: int, dropped: int) -> StepChoice:
        """Return the step of a group, given what leaves the chip before it."""
        return StepChoice(
            group, dropped, self.fetched, self.resident, self.written, self.in_place, self.shape
        )


class LazyTrafficStep(NamedTuple):
    """A way to execute several operations, the rest of which is made when it is asked for: see `TrafficStep`.

    It takes no more memory than has been asked for.

    Attributes
    ----------
    kinds
        Where each tensor of the frame is before.
    number
        Of the step among those that were found.
    """

    memory: int
    excess: int
    on_chip: int
    in_dram: int
    frame: StepFrame
    kinds: Sequence[int]
    found: FoundSteps
    number: int

    def complete(self) -> TrafficStep:
        """Return it, with all that is to be known."""
        frame, ways = self.frame, self.found.ways
        chosen = zip(frame.options, self.kinds, ways.options[self.number].tolist(), strict=True)
        parts = [each.options[kind][option] for each, kind, option in chosen]
        _, *where = map(sum, zip(*parts, strict=True))
        on_chip, in_dram, fetched, resident, written = where
        _, shape, operand = ways.numbers[self.number].tolist()
        return TrafficStep(
            0,
            self.excess,
            on_chip,
            in_dram,
            fetched,
            resident,
            written,
            frame.operands[operand] if operand >= 0 else -1,
            frame.step.shape(shape, ways.kept[self.number]),
        )


AnyTrafficStep = TrafficStep | LazyTrafficStep


class MovedBeyond(NamedTuple):
    """What is moved of a tensor beyond what must be moved, in elements.

    Attributes
    ----------
    streamed
        To read it through a line buffer.
    dropped
        To have it in DRAM alone after the step: what is then still read.
    written
        To write it and leave it in DRAM alone. Outputs of the network are written anyway.
    """

    streamed: int
    dropped: int
    written: int


class GroupContext:
    """A group after what has been executed.

    Parameters
    ----------
    live
        What it touches that is still to be read after it.
    moved
        What is moved of those of its tensors that are read in parts.
    before, after
        Sets of tensors that all operations treat alike that are left before it, and after it.

    Attributes
    ----------
    alike
        What of these sets has to do with this group.
    """

    def __init__(
        self,
        group: Group,
        live: int,
        moved: tuple[MovedBeyond, ...],
        before: list[int],
        after: list[int],
    ) -> None:
        self.group, self.live, self.moved = group, live, moved
        self._before, self._after = before, after
        self.alike = tuple(each & group.read for each in before if each & group.read)
        if len(group.operations) > 1:
            those = (each & group.touched for each in after)
            self.alike += (0, *(each for each in those if each & (each - 1)))
        self._classes: tuple[Counts, Counts] | None = None

    def classes(self, tensors: Sequence[int]) -> tuple[Counts, Counts]:
        """Return a number of each tensor, equal for those that are alike, before and after the group."""
        if self._classes is None:
            self._classes = _numbered(self._before, tensors), _numbered(self._after, tensors)
        return self._classes


def _numbered(sets: Sequence[int], tensors: Sequence[int]) -> Counts:
    """Return the same number for tensors of one set."""
    names: dict[int, int] = {}
    own = (next((mask for mask in sets if mask >> tensor & 1), 1 << tensor) for tensor in tensors)
    return np.array([names.setdefault(mask, len(names)) for mask in own])


def share_out(
    options: Sequence[TensorOption], tensors: Sequence[int], limit: int
) -> Iterator[tuple[TensorOption, int]]:
    """Return what may become of interchangeable tensors, and how many of them are then on chip as a whole.

    Parameters
    ----------
    options
        What may become of each of them.
    limit
        Most elements that are worth moving.
    """
    firsts = [*accumulate((1 << tensor for tensor in tensors), initial=0)]

    def further(
        number: int, begin: int, before: TensorOption, whole: int
    ) -> Iterator[tuple[TensorOption, int]]:
        if number == len(options):
            if begin == len(tensors):
                yield before, whole
            return
        option = options[number]
        most = len(tensors) - begin
        if option.excess:
            most = min(most, (limit - before.excess) // option.excess)
        least = len(tensors) - begin if number == len(options) - 1 else 0
        for count in range(most, least - 1, -1):
            those = firsts[begin + count] - firsts[begin]
            after = TensorOption(
                before.excess + count * option.excess,
                *(old | those if kind else old for old, kind in zip(before[1:], option[1:], strict=True)),
            )
            placed = count if option.fetched or option.resident else 0
            yield from further(number + 1, begin + count, after, whole + placed)

    yield from further(0, 0, TensorOption(0), 0)


class TrafficSteps:
    """The ways to execute all groups in a memory.

    Parameters
    ----------
    check
        Called now and then: may raise an exception when time is up.
    shared
        Whether half of what it costs to write a tensor and read it again counts where it is read last.

    Attributes
    ----------
    limit
        Most elements that a plan is worth moving beyond what it must.
    sought
        How often the ways to execute a step have been sought.
    later
        For each tensor in DRAM alone what counts where it is read last, and not where it is written.
    """

    def __init__(
        self, steps: Transitions, check: Callable[[], None] = lambda: None, *, shared: bool = False
    ) -> None:
        self.steps, self.graph, self.capacity = steps, steps.graph, steps.capacity
        self.limit, self.check, self.sought = ANYTHING, check, 0
        self.sizes = steps.sizes
        # What it costs to have a computed tensor in DRAM alone: outputs of the network are there anyway. Of
        # what is read in parts, this depends on what is still read.
        spills = [(1 if tensor.leaves else 2) * tensor.size for tensor in self.graph.tensors]
        self.later = [
            spill // 2 if shared and not tensor.given and not self.graph.read_in_parts >> number & 1 else 0
            for number, (spill, tensor) in enumerate(zip(spills, self.graph.tensors, strict=True))
        ]
        counted = list(zip(self.later, spills, strict=True))
        self.interchangeable = InterchangeableTensors(self.graph, counted)
        self._deferred: dict[int, int] = {0: 0}
        self._shapes: dict[tuple[int, int, int, int], tuple[int, list[ParetoShape]]] = {}
        self._known: dict[tuple[Any, ...], tuple[int, list[AnyTrafficStep]]] = {}
        self._least: dict[tuple[Any, ...], tuple[int, int]] = {}
        self._arrays: dict[int, StepArrays] = {}
        self._contexts: dict[tuple[int, int], GroupContext] = {}
        self._frames: dict[tuple[Any, ...], StepFrame] = {}
        self._options: dict[tuple[Any, ...], TensorOptions] = {}

    def deferred(self, in_dram_alone: int) -> int:
        """Return what is to be counted where tensors in DRAM alone are read last."""
        known = self._deferred.get(in_dram_alone)
        if known is None:
            low = in_dram_alone & -in_dram_alone
            known = self.deferred(in_dram_alone ^ low) + self.later[low.bit_length() - 1]
            self._deferred[in_dram_alone] = known
        return known

    def moved_beyond(self, group: Group, tensor: int, done: int) -> MovedBeyond:
        """Return what is moved of a tensor of a group beyond what must be, when `done` have been executed."""
        graph, size = self.graph, self.sizes[tensor]
        after = done | group.mask
        left = graph.still_needed(tensor, after) if graph.readers[tensor] & ~after else 0
        streamed = left
        if group.read >> tensor & 1 and graph.read_in_parts >> tensor & 1:
            streamed += group.elements_read(1 << tensor) - graph.still_needed(tensor, done)
        written = left + (0 if graph.tensors[tensor].leaves else size)
        return MovedBeyond(streamed, left, written)

    def _moved_in_parts(self, group: Group, done: int) -> tuple[MovedBeyond, ...]:
        """Return what is moved of the tensors of a group that are read in parts."""
        tensors = members(group.touched & self.graph.read_in_parts)
        return tuple(self.moved_beyond(group, tensor, done) for tensor in tensors)

    # Steps of a group ----------------------------------------------------------------------------------

    def ranked(
        self,
        mask: int,
        before: State,
        limit: int,
        room: int,
        *,
        empty: bool = False,
        least: int = 0,
        enough: int = ANYTHING,
    ) -> tuple[list[AnyTrafficStep], int]:
        """Return the ways to execute a group in some room, those that move least first.

        Parameters
        ----------
        limit
            Most elements that are worth moving beyond what must be moved.
        room
            Elements of memory.
        empty
            Whether nothing may stay on chip.
        least
            No way moves less.
        enough
            Ways that are enough: those that move least.

        Returns
        -------
        The ways, and the most elements that they may move: `limit`, or less if there are enough of them.
        """
        context = self._context(mask, before.done)
        group, several = context.group, len(context.group.operations) > 1
        chip, dram = before.on_chip & group.read, before.in_dram & group.read
        key = mask, context.live, context.moved, chip, dram, context.alike, empty, room * several
        reached, known = self._known.get(key, (-1, []))
        slack = limit - least
        while reached < limit and len(known) < enough:
            self.sought += 1
            if enough == ANYTHING or least + slack // PARAMS.parts[-2] <= reached:
                asked = limit if reached < 0 else min(self.limit, max(limit, 2 * reached))
            else:
                asked = least + slack // next(
                    part for part in PARAMS.parts if slack // part + least > reached
                )
            if several:
                frame = self._frame(group, before.done, empty)
                kinds = [(chip >> tensor & 1) + 2 * (dram >> tensor & 1) for tensor in frame.tensors]
                classes = context.classes(frame.tensors)
                question = Question(np.array(kinds), *classes, room, asked, False, enough)
                known, reached = self._of_several(frame, kinds, question)
            else:
                known = self._undominated(self._of_one(group, before.done, chip, dram, asked, empty))
                reached = asked
            self._known[key] = reached, known
            if reached < asked:
                break  # there are enough
        if several:
            return known, min(limit, reached)
        return [step for step in known if step.memory <= room], min(limit, reached)

    def least_excess(self, mask: int, done: int, limit: int) -> int:
        """Return what a group moves at least beyond what must be moved, wherever its sources are.

        Returns
        -------
        More than `limit` if it is more than that, or the group does not fit; perhaps less than is moved in
        truth by several operations.
        """
        group = self.steps.groups[mask]
        live = self.graph.still_read(done | mask) & group.touched
        key = mask, live, self._moved_in_parts(group, done)
        known = self._least.get(key)
        if known is None or known[0] < limit:
            if len(group.operations) > 1:
                frame = self._frame(group, done)
                own = np.arange(len(frame.tensors))
                anywhere = np.zeros(len(own), dtype=np.int64)
                question = Question(anywhere, own, own, self.capacity, limit, True, ANYTHING)
                least = frame.find(question).least
                limit = least - 1 if least > limit else self.limit
            else:
                for part in PARAMS.least_parts:
                    tried = min(limit, max(1, limit // part))
                    steps = self._of_one(group, done, 0, 0, tried)
                    least = min((step.excess for step in steps), default=tried + 1)
                    if least <= tried:
                        break
                limit = tried
            known = self._least[key] = limit, least
        return known[1]

    def spilled(self, mask: int, done: int, room: int | None = None) -> TrafficStep | None:
        """Return the way to execute a group that leaves nothing on chip, with nothing on chip before.

        Parameters
        ----------
        room
            Elements of memory; by default all.
        """
        group = self.steps.groups[mask]
        live = self.graph.still_read(done | mask)
        written = sum(1 << tensor for tensor in group.outputs) & (live | self.graph.leaving)
        shapes = self._shapes_of(group, 0, group.read, -1, self.limit)
        if room is not None:
            shapes = [shape for shape in shapes if shape.memory <= room]
        if not shapes:
            return None
        moved = {tensor: self.moved_beyond(group, tensor, done) for tensor in members(group.read | written)}
        excess = shapes[-1].again + sum(moved[tensor].written for tensor in members(written & live))
        excess += sum(moved[tensor].streamed for tensor in members(group.read & live))
        excess += self.deferred(group.read & ~live) - self.deferred(written & live)
        after = live & group.touched
        return TrafficStep(shapes[-1].memory, excess, 0, after, 0, 0, written, -1, shapes[-1].shape)

    def least_spilled(self, group: Group, done: int) -> int:
        """Return a bound on what a group moves beyond what must be moved, found in a moment.

        What the memory cannot hold as a whole is written and read, or read once more: no less than if parts
        of tensors could stay.
        """
        live, lines = self.graph.still_read(done | group.mask), self.steps.least_lines(group)
        room = self.capacity - self.steps.least_memory(group.mask)
        if group.last.pixelwise:
            room += max(self.sizes[tensor] for tensor in group.sources)
        values, later, sizes = [], self.later, self.sizes
        for tensor in group.outputs:
            value = (
                self.moved_beyond(group, tensor, done).written - later[tensor] if live >> tensor & 1 else 0
            )
            if value:
                values.append((value, sizes[tensor] - lines.get(tensor, 0)))
        for tensor in group.sources:
            moved = self.moved_beyond(group, tensor, done)
            value = moved.streamed if live >> tensor & 1 else later[tensor]
            if value:
                values.append((value, sizes[tensor]))
        if sum(size for _, size in values) <= room:
            return 0
        left = sum(value for value, _ in values)
        for value, size in sorted(values, key=lambda each: each[1] / each[0]):
            if size > room:
                return left - value * max(0, room) // size
            left, room = left - value, room - size
        return 0

    # Tensors -------------------------------------------------------------------------------------------

    def _tensor_options(
        self, group: Group, tensor: int, live: int, chip: int, dram: int, moved: MovedBeyond
    ) -> list[TensorOption]:
        """Return what may become of a tensor; one that is nowhere may be anywhere."""
        every = self._every_option(group, tensor, live, chip, dram, moved)
        if self.graph.too_large >> tensor & 1:
            return [option for option in every if not option.fetched | option.resident]
        return every

    def _every_option(
        self, group: Group, tensor: int, live: int, chip: int, dram: int, moved: MovedBeyond
    ) -> list[TensorOption]:
        """Return what may become of a tensor that some memory holds as a whole."""
        bit, later = 1 << tensor, self.later[tensor]
        stays = bool(live & bit)
        if not group.read & bit:
            leaves = self.graph.tensors[tensor].leaves
            if not stays:
                return [TensorOption(0, written=bit * leaves)]
            # Those on chip as a whole come first: see `knapsack`.
            options = [] if leaves else [TensorOption(0, bit, 0, resident=bit)]
            readers = self.graph.readers[tensor] & ~group.mask
            if leaves or readers & (readers - 1):
                both = moved.written - moved.dropped
                options.append(TensorOption(both, bit, bit, resident=bit, written=bit))
            spill = moved.written - later
            options.append(TensorOption(spill, 0, bit, written=bit))
            if tensor == group.output and group.last.pixelwise:
                # What takes the place of an operand needs no memory while it is written.
                options.append(TensorOption(spill, 0, bit, resident=bit, written=bit))
            return options
        if chip & bit:
            if stays and dram & bit:
                return [TensorOption(0, bit, bit), TensorOption(moved.dropped - later, 0, bit)]
            return [TensorOption(0, bit * stays)]
        streamed, dropped = (moved.streamed, moved.dropped) if stays else (later, later)
        if not dram & bit:
            return [TensorOption(streamed), TensorOption(0, fetched=bit)]
        options = [TensorOption(streamed, 0, bit * stays)]
        if stays:
            options.append(TensorOption(later, bit, bit, fetched=bit))
        # In blocks of channels and in strips, a source is read more than once.
        options.append(TensorOption(dropped, 0, bit * stays, fetched=bit))
        return options

    def _options_anywhere(
        self, group: Group, tensor: int, done: int, live: int, empty: bool
    ) -> TensorOptions:
        """Return what may become of a tensor, wherever it is before."""
        bit = 1 << tensor
        source, stays = bool(group.read & bit), bool(live & bit)
        readers = self.graph.readers[tensor] & ~group.mask
        several, last = bool(readers & (readers - 1)), tensor == group.output
        moved = self.moved_beyond(group, tensor, done)
        key = tensor, source, stays, several, last, empty, moved
        known = self._options.get(key)
        if known is None:
            options = [
                [
                    option
                    for option in self._tensor_options(
                        group, tensor, live, bit * (kind & 1), bit * (kind >> 1), moved
                    )
                    if not (empty and option.on_chip)
                ]
                for kind in (range(4) if source else [0])
            ]
            known = self._options[key] = TensorOptions(options if source else 4 * options, source)
        return known

    # Several operations --------------------------------------------------------------------------------

    def _of_several(
        self, frame: StepFrame, kinds: Sequence[int], question: Question
    ) -> tuple[list[AnyTrafficStep], int]:
        """Return the ways to execute several operations, and the most that they may move."""
        found, mask = frame.find(question), frame.mask
        numbers = zip(found.ways.numbers[:, 0].tolist(), found.where.tolist(), strict=True)
        steps: list[AnyTrafficStep] = [
            LazyTrafficStep(0, excess, mask(on_chip), mask(in_dram), frame, kinds, found, number)
            for number, (excess, (on_chip, in_dram)) in enumerate(numbers)
        ]
        return steps, max(found.reached, found.least - 1)

    def _context(self, mask: int, done: int) -> GroupContext:
        known = self._contexts.get((mask, done))
        if known is None:
            if len(self._contexts) == PARAMS.most_known:
                self._contexts.clear()
            group, sets = self.steps.groups[mask], self.interchangeable.sets
            live = self.graph.still_read(done | mask) & group.touched
            moved = self._moved_in_parts(group, done)
            known = GroupContext(group, live, moved, sets(done), sets(done | mask))
            self._contexts[mask, done] = known
        return known

    def _frame(self, group: Group, done: int, empty: bool = False) -> StepFrame:
        live = self.graph.still_read(done | group.mask) & group.touched
        key = group.mask, live, empty, self._moved_in_parts(group, done)
        known = self._frames.get(key)
        if known is None:
            self.check()
            if len(self._frames) == PARAMS.most_known:
                self._frames.clear()
                self._arrays.clear()
            arrays = self._arrays.get(group.mask)
            if arrays is None:
                arrays = self._arrays[group.mask] = StepArrays(group, self.capacity)
            tensors = sorted((*group.sources, *group.outputs), key=lambda tensor: -self.sizes[tensor])
            options = [self._options_anywhere(group, tensor, done, live, empty) for tensor in tensors]
            operands = group.replaceable_operands(done)
            known = self._frames[key] = StepFrame(arrays, tensors, options, operands, self.later)
        return known

    # One operation -------------------------------------------------------------------------------------

    def _of_one(
        self, group: Group, done: int, chip: int, dram: int, limit: int, empty: bool = False
    ) -> Iterator[TrafficStep]:
        """Return the ways to execute an operation by itself, one after the other."""
        output = 1 << group.output
        live = self.graph.still_read(done | group.mask)
        spare = max((self.sizes[t] for t in group.sources), default=0) if group.last.pixelwise else 0
        lines = self.steps.least_lines(group)  # counted in the least that the group takes
        operands = group.replaceable_operands(done)
        most = self.capacity + spare
        choices: list[list[tuple[TensorOption, int]]] = []
        for tensors in self._alike_tensors(group, done, chip, dram):
            moved = self.moved_beyond(group, tensors[0], done)
            own = self._tensor_options(group, tensors[0], live, chip, dram, moved)
            size = self.sizes[tensors[0]] - (0 if group.read >> tensors[0] & 1 else lines.get(tensors[0], 0))
            shared = share_out([each for each in own if not (empty and each.on_chip)], tensors, limit)
            choices.append([(option, count * size) for option, count in shared])

        def further(place: int, parts: TensorOption, memory: int) -> Iterator[TensorOption]:
            if place == len(choices):
                yield parts
                return
            for option, more in choices[place]:
                if parts.excess + option.excess <= limit and memory + more <= most:
                    both = TensorOption(*map(int.__add__, parts, option))
                    yield from further(place + 1, both, memory + more)

        taken = self.steps.least_memory(group.mask) + self.steps.size(chip)
        for parts in further(0, TensorOption(0), taken):
            self.check()
            whole = chip | parts.fetched | parts.resident
            places = [-1]
            if parts.resident & output:
                places += [tensor for tensor in operands if whole >> tensor & 1]
            for in_place in places:
                for each in self._shapes_of(group, whole, group.read & ~whole, in_place, limit):
                    excess = parts.excess + each.again
                    if excess <= limit:
                        yield TrafficStep(each.memory, excess, *parts[1:], in_place, each.shape)

    def _alike_tensors(self, group: Group, done: int, chip: int, dram: int) -> list[list[int]]:
        """Return the tensors of a step, those together that are alike and in the same place before it."""
        kinds = {tensor: (-1, tensor) for tensor in (*group.sources, *group.outputs)}
        for number, mask in enumerate(self.interchangeable.sets(done)):
            for tensor in members(mask & group.read):
                kinds[tensor] = number, 2 * (chip >> tensor & 1) + (dram >> tensor & 1)
        tensors = sorted(kinds, key=lambda tensor: (kinds[tensor], tensor))
        return [list(those) for _, those in groupby(tensors, key=kinds.__getitem__)]

    def _shapes_of(
        self, group: Group, whole: int, streamed: int, in_place: int, most_again: int
    ) -> list[ParetoShape]:
        """Return the ways to cut up a group; memory is that of all that the step touches or places."""
        key = group.mask, whole, streamed, in_place
        known = self._shapes.get(key)
        if known is None or known[0] < most_again:
            most_again = max(1, most_again if known is None else min(self.limit, 2 * most_again))
            taken = self.steps.size(whole) - (self.sizes[in_place] if in_place >= 0 else 0)
            found = pareto_shapes(
                group,
                frozenset(members(whole)),
                self.steps.streamed(group, streamed),
                Limits(self.capacity - taken, most_again),
                (None, *strip_widths(group)),
                in_place,
            )
            shapes = [each._replace(memory=each.memory + taken) for each in found]
            known = self._shapes[key] = most_again, shapes
        return known[1]

    def _undominated(self, steps: Iterable[TrafficStep]) -> list[AnyTrafficStep]:
        """Return the steps that are not worse than another, those that move least first.

        One is worse that takes and moves no less and leaves no tensor on chip that the other has not there,
        and none in DRAM that the other has not there.
        """

        def moved(step: TrafficStep) -> int:
            return step.excess + self.deferred(step.in_dram & ~step.on_chip)

        kept: list[TrafficStep] = []
        for step in sorted(steps, key=lambda each: (moved(each), each.memory)):
            alone = step.in_dram & ~step.on_chip
            for other in kept:
                if (
                    other.memory <= step.memory
                    and not step.in_dram & ~other.in_dram
                    and not other.on_chip & alone
                ):
                    break
            else:
                kept.append(step)
        return sorted(kept, key=lambda each: (each.excess, each.memory))
