"""Ways to execute a group of operations, by what they leave on chip and in DRAM: none is worse than another.

What a step moves is counted beyond what must be moved in any case: weights, inputs and outputs of the network
once. A tensor that is in DRAM alone must be read at least once, so writing it counts twice its size, and
reading it counts only if it must be read once more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, groupby
from typing import Any, NamedTuple

import numpy as np

from tilewright.residency.exact.step_arrays import (
    KernelSteps,
    StepArrays,
    StepFrame,
    TensorOption,
    TensorOptions,
)
from tilewright.residency.graph import members
from tilewright.residency.shapes.groups import Group
from tilewright.residency.shapes.pareto_shapes import ParetoShape, pareto_shapes
from tilewright.residency.shapes.shape import Shape
from tilewright.residency.shapes.strips import strip_widths
from tilewright.residency.transitions import StepChoice, Transitions
from tilewright.simulator.program import Counts

FINER = (16, 1)
"""Parts of what may be moved again beyond the least, where the ways that move least are enough."""

PARTS = (2**12, 2**8, 2**4, 1)
"""Parts of the most that an operation may move again in which the least is sought, one after the other."""

KEPT = 2**14
"""Groups of which the arrays are kept."""


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

    def option(self) -> TrafficStep:
        """Return it, with all that is to be known."""
        return self

    def choice(self, group: int, dropped: int) -> StepChoice:
        """Return the step of a group, given what leaves the chip before it."""
        return StepChoice(
            group, dropped, self.fetched, self.resident, self.written, self.in_place, self.shape
        )


class LazyTrafficStep(NamedTuple):
    """A way to execute several operations, of which the rest is told when it is asked for: see `Option`."""

    memory: int
    excess: int
    on_chip: int
    in_dram: int
    frame: StepFrame
    kinds: list[int]
    found: KernelSteps
    number: int

    def option(self) -> TrafficStep:
        """Return it, with all that is to be known."""
        frame, found = self.frame, self.found
        ways = found.ways[self.number].tolist()
        parts = [each.ways[kind][way] for each, kind, way in zip(frame.ways, self.kinds, ways, strict=True)]
        _, *where = map(sum, zip(*parts, strict=True))
        on_chip, in_dram, fetched, resident, written = where
        _, shape, operand = found.numbers[self.number].tolist()
        in_place = frame.operands[operand] if operand >= 0 else -1
        return TrafficStep(
            self.memory,
            self.excess,
            on_chip,
            in_dram,
            fetched,
            resident,
            written,
            in_place,
            frame.step.shape(shape, found.kept[self.number]),
        )


def share_out(
    ways: Sequence[TensorOption], tensors: Sequence[int], limit: int
) -> Iterator[tuple[TensorOption, int]]:
    """Return what may become of tensors that are alike, and how many of them are on chip as a whole for that.

    Parameters
    ----------
    ways
        What may become of each of them.
    limit
        Most elements that are worth moving.
    """
    firsts = [*accumulate((1 << tensor for tensor in tensors), initial=0)]

    def further(
        number: int, begin: int, before: TensorOption, whole: int
    ) -> Iterator[tuple[TensorOption, int]]:
        if number == len(ways):
            if begin == len(tensors):
                yield before, whole
            return
        way = ways[number]
        most = len(tensors) - begin
        if way.excess:
            most = min(most, (limit - before.excess) // way.excess)
        least = len(tensors) - begin if number == len(ways) - 1 else 0
        for count in range(most, least - 1, -1):
            those = firsts[begin + count] - firsts[begin]
            after = TensorOption(
                before.excess + count * way.excess,
                *(old | those if kind else old for old, kind in zip(before[1:], way[1:], strict=True)),
            )
            placed = count if way.fetched or way.resident else 0
            yield from further(number + 1, begin + count, after, whole + placed)

    yield from further(0, 0, TensorOption(0), 0)


class GroupContext:
    """A group after what has been executed.

    Parameters
    ----------
    live
        What it touches that is still to be read after it.
    before, after
        Sets of tensors that all operations treat alike that are left before it, and after it.
    alike
        What of them has to do with this group.
    """

    def __init__(
        self,
        group: Group,
        done: int,
        live: int,
        sources: int,
        before: list[int],
        after: list[int],
        alike: tuple[int, ...],
    ) -> None:
        self.group, self.done, self.live, self.sources = group, done, live, sources
        self._before, self._after, self.alike = before, after, alike
        self._numbers: tuple[Counts, Counts] | None = None

    def numbers(self, tensors: Sequence[int]) -> tuple[Counts, Counts]:
        """Return a number of each tensor, equal for those that are alike, before and after the group."""
        if self._numbers is None:
            self._numbers = _numbered(self._before, tensors), _numbered(self._after, tensors)
        return self._numbers


def _numbered(twins: list[int], tensors: Sequence[int]) -> Counts:
    names: dict[int, int] = {}
    sets = (next((mask for mask in twins if mask >> tensor & 1), 1 << tensor) for tensor in tensors)
    return np.array([names.setdefault(mask, len(names)) for mask in sets])


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
        self, steps: Transitions, check: Callable[[], None] | None = None, *, shared: bool = False
    ) -> None:
        self.steps, self.graph, self.capacity = steps, steps.graph, steps.capacity
        self.limit, self.check, self.sought = 2**60, check, 0
        self.sizes = steps.sizes
        # What it costs to have a computed tensor in DRAM alone: outputs of the network are there anyway.
        self.spills = [(1 if tensor.leaves else 2) * tensor.size for tensor in self.graph.tensors]
        self.later = [
            spill // 2 if shared and not tensor.given else 0
            for spill, tensor in zip(self.spills, self.graph.tensors, strict=True)
        ]
        self._lives: dict[int, int] = {}
        self._sizes: dict[int, int] = {0: 0}
        self._put_off: dict[int, int] = {0: 0}
        self._stairs: dict[tuple[int, int, int, int], tuple[int, list[ParetoShape]]] = {}
        self._tables: dict[tuple[Any, ...], tuple[int, list[TrafficStep | LazyTrafficStep]]] = {}
        self._twins: dict[int, list[int]] = {}
        self._least: dict[tuple[int, int], tuple[int, int]] = {}
        self._touched: dict[int, tuple[int, int]] = {}
        self._cut: dict[int, StepArrays] = {}
        self._cases: dict[tuple[int, int], GroupContext] = {}
        self._frames: dict[tuple[int, int, bool], StepFrame] = {}
        self._every: dict[tuple[int, bool, bool, bool, bool, bool], TensorOptions] = {}

    def size(self, mask: int) -> int:
        """Return the elements of some tensors."""
        known = self._sizes.get(mask)
        if known is None:
            low = mask & -mask
            known = self._sizes[mask] = self.size(mask ^ low) + self.sizes[low.bit_length() - 1]
        return known

    def still_read(self, done: int) -> int:
        """Return the tensors that are still to be read."""
        known = self._lives.get(done)
        if known is None:
            readers = enumerate(self.graph.readers)
            known = self._lives[done] = sum(1 << number for number, mask in readers if mask & ~done)
        return known

    @cached_property
    def _looks(self) -> list[dict[int, tuple[object, ...]]]:
        """For each tensor how each operation reads it."""
        found: list[dict[int, tuple[object, ...]]] = [{} for _ in self.sizes]
        for operation in self.graph.operations:
            for reading in operation.readings:
                own = (reading.plane, reading.output, reading.stride, reading.before, reading.extent)
                known = found[reading.tensor].get(operation.number, ())
                found[reading.tensor][operation.number] = (*known, own)
        return found

    def interchangeable(self, done: int) -> list[int]:
        """Return sets of tensors, two or more each, that all operations that are left treat alike."""
        if done in self._twins:
            return self._twins[done]
        found: dict[object, int] = {}
        left = self.graph.all & ~done
        for number in members(self.still_read(done)):
            if number and not done >> (number - 1) & 1:
                continue
            readers = tuple((op, look) for op, look in self._looks[number].items() if left >> op & 1)
            key = self.graph.tensors[number].shape, self.later[number], self.spills[number], readers
            found[key] = found.get(key, 0) | 1 << number
        self._twins[done] = [mask for mask in found.values() if mask & (mask - 1)]
        return self._twins[done]

    def _stairs_of(
        self, group: Group, whole: int, streamed: int, in_place: int, worst: int
    ) -> list[ParetoShape]:
        """Return the ways to cut up a group; memory is that of all that the step touches or places."""
        key = group.mask, whole, streamed, in_place
        known = self._stairs.get(key)
        if known is None or known[0] < worst:
            worst = max(1, worst if known is None else min(self.limit, 2 * worst))
            taken = self.size(whole) - (self.sizes[in_place] if in_place >= 0 else 0)
            seen = frozenset(members(whole))
            cuts = None, *strip_widths(group)
            found = pareto_shapes(
                group, seen, self.size(streamed), self.capacity - taken, worst, cuts, in_place
            )
            stairs = [stair._replace(memory=stair.memory + taken) for stair in found]
            known = self._stairs[key] = worst, stairs
        return known[1]

    def ranked(
        self,
        mask: int,
        done: int,
        chip: int,
        dram: int,
        limit: int,
        room: int,
        *,
        empty: bool = False,
        least: int = 0,
        enough: int = 2**60,
    ) -> tuple[list[TrafficStep | LazyTrafficStep], int]:
        """Return the ways to execute a group in some room, those that move least first.

        Parameters
        ----------
        done
            What has been executed before.
        chip, dram
            What is on chip and in DRAM before.
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
        case = self._case(mask, done)
        group, several = case.group, len(case.group.operations) > 1
        chip, dram = chip & case.sources, dram & case.sources
        key = mask, case.live, chip, dram, case.alike, empty, room * several
        reached, known = self._tables.get(key, (-1, []))
        slack = limit - least
        while reached < limit and len(known) < enough:
            self.sought += 1
            if enough == 2**60 or least + slack // FINER[-2] <= reached:
                asked = limit if reached < 0 else min(self.limit, max(limit, 2 * reached))
            else:
                asked = least + slack // next(part for part in FINER if slack // part + least > reached)
            if several:
                known, reached = self._of_several(case, chip, dram, asked, room, empty, enough)
            else:
                known, reached = self._best(self._options(group, done, chip, dram, asked, empty)), asked
            self._tables[key] = reached, known
            if reached < asked:
                break  # there are enough
        if several:
            return known, min(limit, reached)
        return [option for option in known if option.memory <= room], min(limit, reached)

    def least_excess(self, mask: int, done: int, limit: int) -> int:
        """Return what a group moves at least beyond what must be moved, wherever its sources are.

        Returns
        -------
        More than `limit` if it is more than that, or the group does not fit; perhaps less than is moved in
        truth by several operations.
        """
        group = self.steps.group(mask)
        key = mask, self.still_read(done | mask) & self.touched(group)
        known = self._least.get(key)
        if known is None or known[0] < limit:
            if len(group.operations) > 1:
                frame = self._frame(group, done)
                own = np.arange(len(frame.tensors))
                least = frame.found([0] * len(own), own, own, self.capacity, limit, only_best=True).least
                limit = least - 1 if least > limit else self.limit
            else:
                # Of what moves much again there may be very many ways.
                for part in PARTS:
                    tried = min(limit, max(1, limit // part))
                    options = self._options(group, done, 0, 0, tried)
                    least = min((option.excess for option in options), default=tried + 1)
                    if least <= tried:
                        break
                limit = tried
            known = self._least[key] = limit, least
        return known[1]

    def _case(self, mask: int, done: int) -> GroupContext:
        known = self._cases.get((mask, done))
        if known is None:
            if len(self._cases) == KEPT:
                self._cases.clear()
            group = self.steps.group(mask)
            sources, touched = self._masks(group)
            before, after = self.interchangeable(done), self.interchangeable(done | mask)
            alike = tuple(each & sources for each in before if each & sources)
            if mask & (mask - 1):
                those = (each & touched for each in after)
                alike += (0, *(each for each in those if each & (each - 1)))
            live = self.still_read(done | mask) & touched
            known = self._cases[mask, done] = GroupContext(group, done, live, sources, before, after, alike)
        return known

    def _of_several(
        self, case: GroupContext, chip: int, dram: int, limit: int, room: int, empty: bool, enough: int
    ) -> tuple[list[TrafficStep | LazyTrafficStep], int]:
        """Return the ways to execute several operations in some room, and what they may move at most."""
        frame = self._frame(case.group, case.done, empty)
        before, after = case.numbers(frame.tensors)
        kinds = [(chip >> tensor & 1) + 2 * (dram >> tensor & 1) for tensor in frame.tensors]
        found = frame.found(kinds, before, after, room, limit, enough=enough)
        mask, numbers = frame.mask, zip(found.numbers[:, 0].tolist(), found.where.tolist(), strict=True)
        options: list[TrafficStep | LazyTrafficStep] = [
            LazyTrafficStep(0, excess, mask(on_chip), mask(in_dram), frame, kinds, found, number)
            for number, (excess, (on_chip, in_dram)) in enumerate(numbers)
        ]
        return options, max(found.reached, found.least - 1)

    def _frame(self, group: Group, done: int, empty: bool = False) -> StepFrame:
        live = self.still_read(done | group.mask) & self.touched(group)
        key = group.mask, live, empty
        known = self._frames.get(key)
        if known is None:
            if self.check is not None:
                self.check()
            if len(self._frames) == KEPT:
                self._frames.clear()
                self._cut.clear()
            step = self._cut.get(group.mask)
            if step is None:
                step = self._cut[group.mask] = StepArrays(group, self.capacity)
            tensors = sorted((*group.sources, *group.outputs), key=lambda tensor: -self.sizes[tensor])
            ways = [self._all_ways(group, tensor, live, empty) for tensor in tensors]
            known = self._frames[key] = StepFrame(
                step, tensors, ways, group.replaceable_operands(done), self.later
            )
        return known

    def _all_ways(self, group: Group, tensor: int, live: int, empty: bool) -> TensorOptions:
        """Return what may become of a tensor, wherever it is before."""
        bit = 1 << tensor
        source, stays = bool(self.sources(group) & bit), bool(live & bit)
        readers = self.graph.readers[tensor] & ~group.mask
        several, last = bool(readers & (readers - 1)), tensor == group.output
        key = tensor, source, stays, several, last, empty
        known = self._every.get(key)
        if known is None:
            ways = [
                [
                    way
                    for way in self._ways(group, tensor, live, bit * (kind & 1), bit * (kind >> 1))
                    if not (empty and way.on_chip)
                ]
                for kind in (range(4) if source else [0])
            ]
            known = self._every[key] = TensorOptions(ways if source else 4 * ways, source)
        return known

    def spilled(self, mask: int, done: int) -> TrafficStep | None:
        """Return the way to execute a group that leaves nothing on chip, with nothing on chip before."""
        group = self.steps.group(mask)
        sources, live = self.sources(group), self.still_read(done | mask)
        written = sum(1 << tensor for tensor in group.outputs)
        stairs = self._stairs_of(group, 0, sources, -1, self.limit)
        if not stairs:
            return None
        excess = stairs[-1].again + sum(self.spills[tensor] for tensor in members(written & live))
        excess += self.size(sources & live) + self.deferred(sources & ~live) - self.deferred(written & live)
        after = live & self.touched(group)
        return TrafficStep(stairs[-1].memory, excess, 0, after, 0, 0, written, -1, stairs[-1].shape)

    def least_spilled(self, group: Group, done: int) -> int:
        """Return a bound on what a group moves beyond what must be moved, found in a moment.

        What the memory cannot hold as a whole is written and read, or read once more: no less than if parts
        of tensors could stay.
        """
        live, lines = self.still_read(done | group.mask), self.steps.lines(group)
        room = self.capacity - self.steps.least(group.mask)
        if group.last.pixelwise:
            room += max(self.sizes[tensor] for tensor in group.sources)
        values, later, sizes = [], self.later, self.sizes
        for tensor in group.outputs:
            value = self.spills[tensor] - later[tensor] if live >> tensor & 1 else 0
            if value:
                values.append((value, sizes[tensor] - lines.get(tensor, 0)))
        for tensor in group.sources:
            value = sizes[tensor] if live >> tensor & 1 else later[tensor]
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

    def deferred(self, in_dram_alone: int) -> int:
        """Return what is to be counted where tensors are read last."""
        known = self._put_off.get(in_dram_alone)
        if known is None:
            low = in_dram_alone & -in_dram_alone
            known = self._put_off[in_dram_alone] = (
                self.deferred(in_dram_alone ^ low) + self.later[low.bit_length() - 1]
            )
        return known

    def sources(self, group: Group) -> int:
        """Return what a group reads and does not compute."""
        return self._masks(group)[0]

    def touched(self, group: Group) -> int:
        """Return what a group reads or computes."""
        return self._masks(group)[1]

    def _masks(self, group: Group) -> tuple[int, int]:
        known = self._touched.get(group.mask)
        if known is None:
            sources = sum(1 << number for number in group.sources)
            known = sources, sources | group.mask << 1
            self._touched[group.mask] = known
        return known

    def _ways(self, group: Group, tensor: int, live: int, chip: int, dram: int) -> list[TensorOption]:
        """Return what may become of a tensor; one that is nowhere may be anywhere."""
        bit, size, later = 1 << tensor, self.sizes[tensor], self.later[tensor]
        stays = bool(live & bit)
        if not self.sources(group) & bit:
            leaves = self.graph.tensors[tensor].leaves
            if not stays:
                return [TensorOption(0, written=bit * leaves)]
            # Those on chip as a whole come first: see `Frame`.
            ways = [] if leaves else [TensorOption(0, bit, 0, resident=bit)]
            readers = self.graph.readers[tensor] & ~group.mask
            if leaves or readers & (readers - 1):
                ways.append(TensorOption(0 if leaves else size, bit, bit, resident=bit, written=bit))
            spill = self.spills[tensor] - later
            ways.append(TensorOption(spill, 0, bit, written=bit))
            if tensor == group.output and group.last.pixelwise:
                # What takes the place of an operand needs no memory while it is written.
                ways.append(TensorOption(spill, 0, bit, resident=bit, written=bit))
            return ways
        if chip & bit:
            if stays and dram & bit:
                return [TensorOption(0, bit, bit), TensorOption(size - later, 0, bit)]
            return [TensorOption(0, bit * stays)]
        again = size if stays else later
        if not dram & bit:
            return [TensorOption(again), TensorOption(0, fetched=bit)]
        ways = [TensorOption(again, 0, bit * stays)]
        if stays:
            ways.append(TensorOption(later, bit, bit, fetched=bit))
        # In blocks of channels and in strips, a source is read more than once.
        ways.append(TensorOption(again, 0, bit * stays, fetched=bit))
        return ways

    def _options(
        self, group: Group, done: int, chip: int, dram: int, limit: int, empty: bool = False
    ) -> Iterator[TrafficStep]:
        """Return the ways to execute an operation by itself, one after the other."""
        sources, output = self.sources(group), 1 << group.output
        live = self.still_read(done | group.mask)
        spare = max((self.sizes[t] for t in group.sources), default=0) if group.last.pixelwise else 0
        lines = self._lines(group)
        operands = group.replaceable_operands(done)
        most = self.capacity + spare
        choices: list[list[tuple[TensorOption, int]]] = []
        for tensors in self._sets(group, done, chip, dram):
            own = self._ways(group, tensors[0], live, chip, dram)
            size = self.sizes[tensors[0]] - lines.get(tensors[0], 0)
            several = share_out([way for way in own if not (empty and way.on_chip)], tensors, limit)
            choices.append([(way, count * size) for way, count in several])

        def further(place: int, parts: TensorOption, memory: int) -> Iterator[TensorOption]:
            if place == len(choices):
                yield parts
                return
            for way, more in choices[place]:
                if parts.excess + way.excess <= limit and memory + more <= most:
                    yield from further(place + 1, TensorOption(*map(int.__add__, parts, way)), memory + more)

        for parts in further(0, TensorOption(0), self.steps.least(group.mask) + self.size(chip)):
            if self.check is not None:
                self.check()
            whole = chip | parts.fetched | parts.resident
            places = [-1]
            if parts.resident & output:
                places += [tensor for tensor in operands if whole >> tensor & 1]
            for in_place in places:
                for stair in self._stairs_of(group, whole, sources & ~whole, in_place, limit):
                    excess = parts.excess + stair.again
                    if excess <= limit:
                        yield TrafficStep(stair.memory, excess, *parts[1:], in_place, stair.shape)

    def _sets(self, group: Group, done: int, chip: int, dram: int) -> list[list[int]]:
        """Return the tensors of a step, those together that are alike and in the same place before it."""
        kinds = {tensor: (-1, tensor) for tensor in (*group.sources, *group.outputs)}
        for number, mask in enumerate(self.interchangeable(done)):
            for tensor in members(mask & self.sources(group)):
                kinds[tensor] = number, 2 * (chip >> tensor & 1) + (dram >> tensor & 1)
        tensors = sorted(kinds, key=lambda tensor: (kinds[tensor], tensor))
        return [list(those) for _, those in groupby(tensors, key=kinds.__getitem__)]

    def _lines(self, group: Group) -> dict[int, int]:
        """Return what is counted for line buffers of outputs in the least that a group takes."""
        lines = self.steps.lines(group)
        return {tensor: lines[tensor] for tensor in group.outputs if tensor in lines}

    def _best(self, found: Iterable[TrafficStep]) -> list[TrafficStep | LazyTrafficStep]:
        """Return the options that are not worse than another, those that move least first.

        One is worse that takes and moves no less and leaves no tensor on chip that the other has not there,
        and none in DRAM that the other has not there.
        """

        def moved(option: TrafficStep) -> int:
            return option.excess + self.deferred(option.in_dram & ~option.on_chip)

        kept: list[TrafficStep] = []
        for option in sorted(found, key=lambda each: (moved(each), each.memory)):
            alone = option.in_dram & ~option.on_chip
            for other in kept:
                if (
                    other.memory <= option.memory
                    and not option.in_dram & ~other.in_dram
                    and not other.on_chip & alone
                ):
                    break
            else:
                kept.append(option)
        return sorted(kept, key=lambda each: (each.excess, each.memory))
