"""What is sent from PE to PE: operands, partial sums, and outputs, each stream with its tree of links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from tilewright.allocation import Problem
from tilewright.allocation.placement.floor import PE
from tilewright.allocation.plan import Region
from tilewright.codegen.array.parts import LayerWork, Operand, Part, parts_of
from tilewright.codegen.array.routing import End, Stream, Tree, hops, tree_of


class Sender(NamedTuple):
    """An address generator that sends operands.

    Attributes
    ----------
    part
        What its PE holds; None for the network's input.
    """

    end: End
    operand: Operand
    part: Part | None


class OperandStream(NamedTuple):
    """The operands of some PEs of a layer, which receive the same at the same time."""

    work: LayerWork
    receivers: tuple[Part, ...]
    senders: tuple[Sender, ...]
    stream: Stream
    tree: Tree

    @property
    def down(self) -> int:
        """Hops from the root of the tree to the farthest receiver."""
        return max(hops(self.tree.root, part.pe) for part in self.receivers)

    def depth(self, sender: Sender) -> int:
        """Return the hops from a sender to the farthest receiver."""
        return hops(sender.end.pe, self.tree.root) + self.down


class ValueStream(NamedTuple):
    """What one PE of a layer sends: partial sums to the PE that adds them, or outputs to the border."""

    work: LayerWork
    part: Part
    stream: Stream
    tree: Tree

    @property
    def hops(self) -> int:
        """Hops on its way."""
        return len(self.tree.up) + len(self.tree.down)


class Streams:
    """All streams of a plan that is placed.

    Attributes
    ----------
    works, parts
        The layers, and what each PE of them does.
    operands, sums, outputs
        The streams.
    """

    def __init__(self, problem: Problem, works: tuple[LayerWork, ...], regions: tuple[Region, ...]) -> None:
        self._problem, self.works = problem, works
        self.parts = [tuple(parts_of(work, region)) for work, region in zip(self.works, regions, strict=True)]
        self._ports: Counter[PE] = Counter()
        self.operands = [each for work in self.works for each in self._operands(work)]
        self.sums = [each for work in self.works for each in self._partial_sums(work)]
        self.outputs = [each for work in self.works for each in self._outputs(work)]
        self._ports_of = self._all_ports()

    def ports(self, layer: int, pe: PE) -> dict[str, int]:
        """Return the ports of a layer's program in a PE, 0 for those that it does not have."""
        return self._ports_of[layer, pe]

    def _all_ports(self) -> dict[tuple[int, PE], dict[str, int]]:
        found: dict[tuple[int, PE], dict[str, int]] = {}
        for each in self.operands:
            for part, end in zip(each.receivers, each.stream.sinks, strict=True):
                found[each.work.stage.number, part.pe] = {"input": end.port}
        for values, name in ((self.outputs, "output"), (self.sums, "send")):
            for value in values:
                found[value.work.stage.number, value.part.pe][name] = value.stream.sources[0].port
        for value in self.sums:  # those of one PE follow each other
            holder = found[value.work.stage.number, value.stream.sinks[0].pe]
            holder.setdefault("sums", value.stream.sinks[0].port)
            holder["sum_ports"] = holder.get("sum_ports", 0) + 1
        return found

    @property
    def least_hops(self) -> int:
        """For each PE, those to the nearest PE of each layer that it reads, added up."""
        return sum(
            min(
                (hops(sender.end.pe, part.pe) for sender in each.senders if sender.operand == operand),
                default=0,
            )
            for each in self.operands
            for operand in each.work.operands
            if operand.producer >= 0
            for part in each.receivers
        )

    def _port(self, pe: PE) -> End:
        self._ports[pe] += 1
        return End(pe, self._ports[pe])

    def _operands(self, work: LayerWork) -> Iterator[OperandStream]:
        """Yield the streams of a layer's operands: one for all PEs of the same maps, rows and groups."""
        shared: dict[tuple[int, ...], list[Part]] = {}
        for part in self.parts[work.stage.number]:
            key = (part.maps, part.rows, part.filters if work.groups > 1 else 0)
            shared.setdefault(key, []).append(part)
        for parts in shared.values():
            sinks = tuple(self._port(part.pe) for part in parts)
            senders = tuple(
                Sender(self._port(pe), operand, source)
                for operand in work.operands
                for pe, source in self._sources(work, parts, operand)
            )
            stream = Stream(tuple(sender.end for sender in senders), sinks)
            yield OperandStream(work, tuple(parts), senders, stream, tree_of(stream))

    def _sources(
        self, work: LayerWork, parts: list[Part], operand: Operand
    ) -> Iterator[tuple[PE, Part | None]]:
        """Yield the PEs that hold what some parts of a layer read of a producer."""
        if operand.producer < 0:
            yield self._border([part.pe for part in parts]), None
            return
        read = {each - operand.first for each in maps_read(work, parts[0])} & set(range(operand.channels))
        for source in self.parts[operand.producer]:
            step, first, _ = source.channels
            if source.holds and any(channel % step == first for channel in read):
                yield source.pe, source

    def _border(self, pes: list[PE]) -> PE:
        """Return the PE on the border that is nearest to some."""
        rows, columns = self._problem.machine.array
        border = {(row, column) for row in (0, rows - 1) for column in range(columns)}
        border |= {(row, column) for row in range(rows) for column in (0, columns - 1)}
        return min(sorted(border), key=lambda pe: sum(hops(pe, other) for other in pes))

    def _partial_sums(self, work: LayerWork) -> Iterator[ValueStream]:
        """Yield the streams from PEs that only add to the sums of another one to that one."""
        parts = self.parts[work.stage.number]
        holders = {(part.filters, part.rows): part for part in parts if part.holds}
        for part in parts:
            if not part.holds:
                yield self._values(work, part, holders[part.filters, part.rows].pe)

    def _outputs(self, work: LayerWork) -> Iterator[ValueStream]:
        """Yield the streams of a layer's outputs to the border, if they leave the array."""
        for part in self.parts[work.stage.number] if work.stage.leaves else ():
            if part.holds:
                yield self._values(work, part, self._border([part.pe]))

    def _values(self, work: LayerWork, part: Part, target: PE) -> ValueStream:
        stream = Stream((self._port(part.pe),), (self._port(target),))
        return ValueStream(work, part, stream, tree_of(stream))


def maps_read(work: LayerWork, part: Part) -> set[int]:
    """Return the maps that a part of a layer reads."""
    task, split = work.stage.task, work.split
    maps = range(part.maps, task.maps, split.maps)
    if work.groups == 1:
        return set(maps)
    filters = range(part.filters, task.filters, split.filters)
    in_group = task.filters // work.groups
    return {each + filter // in_group * task.maps for filter in filters for each in maps}
