"""The tables of a group in C: maps with their places on chip, operations, and instructions in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from tilewright.codegen.c_text import block_comment, quote, safe_text
from tilewright.codegen.numbers.network_numbers import NetworkNumbers
from tilewright.codegen.project_files import array_literal, window_fields
from tilewright.fusion import Problem
from tilewright.fusion.group.addresses import Addressed, Addresses, Area
from tilewright.fusion.group.fused_group import MapPart
from tilewright.fusion.group.schedule import GroupSchedule, Instruction
from tilewright.fusion.layouts import Decided
from tilewright.fusion.plan import Group
from tilewright.spec.graph import Operation
from tilewright.spec.network import NamedLayer

Shape = tuple[int, int, int]

NOWHERE = Area("", 0, 0, 0, 0, 0)
"""Where a map lies that is not on chip."""


@dataclass(frozen=True)
class Placed:
    """A map, where it lies on chip, and the tensors in external memory that it is made of."""

    shape: Shape
    area: Area
    tensors: tuple[str, ...]


@dataclass(frozen=True)
class Tables:
    """What there is to print of a group.

    Attributes
    ----------
    operations
        What computes each map, by its number, and which maps that reads.
    instructions
        In the order in which they begin.
    elements
        Of each buffer.
    accumulators
        The most sums that are not complete.
    split
        Names of operations that sum over some of their input channels at a time.
    """

    nodes: tuple[str, ...]
    on_host: bool
    maps: tuple[Placed, ...]
    operations: Mapping[int, tuple[Operation, tuple[MapPart, ...]]]
    instructions: tuple[Addressed, ...]
    elements: tuple[int, int, int]
    accumulators: int
    split: frozenset[str] = frozenset()


def planned_tables(problem: Problem, group: Group, layouts: Decided | None = None) -> Tables:
    """Return the tables of a group that the accelerator computes.

    Parameters
    ----------
    layouts
        Of what it loads and saves, which decide when instructions begin.
    """
    places = {op.name: op.number for op in problem.ops}
    assert group.tile is not None
    schedule = GroupSchedule(problem.fused([places[name] for name in group.nodes], layouts), group.tile)
    fused, addresses = schedule.fused, Addresses(schedule)
    maps = []
    for number, (feature, area) in enumerate(zip(fused.features, addresses.areas, strict=True)):
        tensors: tuple[str, ...] = (feature.name,) if feature.saved else ()
        if number < fused.loaded:
            tensors = tuple(problem.graph.name(access.source) for access in feature.sources)
        maps.append(Placed(feature.shape, area, tensors))
    issued = tuple(addresses.instructions())
    partial = [
        each
        for each, *_ in issued
        if each.what == "compute" and each.summed[1] - each.summed[0] < fused.summed(each.feature)
    ]
    sums = [prod(end - begin for begin, end in (each.rows, each.columns, each.channels)) for each in partial]
    return Tables(
        group.nodes,
        False,
        tuple(maps),
        {number: (fused.op(number), fused.features[number].parts) for number in fused.members},
        tuple(sorted(issued, key=lambda each: each.instruction.start)),
        addresses.elements,
        problem.machine.arrays * max(sums, default=0),
        frozenset(fused.op(each.feature).name for each in partial),
    )


def host_tables(problem: Problem, op: Operation) -> Tables:
    """Return the tables of an operation of the host, which takes all values in a row."""
    sources = tuple(map(problem.graph.name, op.producers))
    sizes = [prod(problem.graph.shape(access)) for access in op.accesses]
    size = prod(op.spec.output)
    deep = op.spec.input[0] if isinstance(op.spec, NamedLayer) else 0
    whole = Instruction(None, "compute", len(sources), 0, 0, (0, 1), (0, 1), (0, size), (0, deep), 0)
    maps = zip((*sizes, size), (*sources, op.name), strict=True)
    parts = tuple(MapPart(number, sum(sizes[:number])) for number in range(len(sizes)))
    return Tables(
        (op.name,),
        True,
        tuple(Placed((length, 1, 1), NOWHERE, (name,)) for length, name in maps),
        {len(sources): (op, parts)},
        (Addressed(whole, 0, (0,) * len(parts), 0),),
        (0, 0, 0),
        0,
    )


class GroupText:
    """The C of a group.

    Parameters
    ----------
    name
        Of the group; those of its tables begin with it.
    tensors
        What C calls the tensors in external memory.
    shapes
        Theirs.
    parameters
        Where those of each operation begin.
    """

    def __init__(
        self,
        name: str,
        tables: Tables,
        numbers: NetworkNumbers,
        tensors: Mapping[str, str],
        shapes: Mapping[str, Shape],
        parameters: Mapping[str, int],
    ) -> None:
        self._name, self._tables, self._numbers = name, tables, numbers
        self._tensors, self._shapes, self._parameters = tensors, shapes, parameters

    @property
    def description(self) -> str:
        """The group as an entry of the list of all groups."""
        name, tables = self._name, self._tables
        fields = (
            quote(" + ".join(tables.nodes)),
            int(tables.on_host),
            f"{name}_maps",
            f"{name}_operations",
            f"{name}_instructions",
            len(tables.instructions),
            f"{name}_shifts",
        )
        return f"    {array_literal(fields)},"

    def tables(self) -> list[str]:
        """Return all tables."""
        where = " on the host" if self._tables.on_host else ""
        lines = block_comment([f"{self._name}{where}: {safe_text(', '.join(self._tables.nodes))}"])
        return [*lines, *self._maps(), *self._operations(), *self._instructions()]

    def _table(self, kind: str, name: str, rows: Iterable[str]) -> list[str]:
        return [f"static const {kind} {self._name}_{name}[] = {{", *(f"    {row}," for row in rows), "};"]

    def _maps(self) -> list[str]:
        tensors: list[str] = []
        rows: list[str] = []
        for placed in self._tables.maps:
            area = placed.area
            first = f"{self._name}_tensors + {len(tensors)}" if placed.tensors else "NULL"
            tensors += [
                array_literal((self._tensors[name], self._channels(name, placed))) for name in placed.tensors
            ]
            at = f"{area.buffer}_buffer + {area.base}" if area.buffer else "NULL"
            held = area.first, area.channels, area.rows, area.columns
            rows.append(array_literal((*placed.shape, at, *held, first, len(placed.tensors))))
        return [*self._table("tensor_t", "tensors", tensors), *self._table("map_t", "maps", rows)]

    def _channels(self, name: str, placed: Placed) -> int:
        if len(placed.tensors) == 1:
            return placed.shape[0]
        return self._shapes[name][0]

    def _operations(self) -> list[str]:
        parts: list[str] = []
        reads: list[str] = []
        rows: list[str] = []
        for number, (op, read) in self._tables.operations.items():
            rows += [
                f"[{number}] = {{ /* {safe_text(op.name)} */",
                *self._operation(op, len(parts), len(read)),
            ]
            how = iter(self._numbers.operations[op.name].reads)
            for part in read:
                first = f"{self._name}_reads + {len(reads)}"
                parts.append(array_literal((f"{self._name}_maps + {part.map}", part.first, first)))
                # Tensors that lie side by side outside are one map on chip, each in a format of its own.
                tensors = max(1, len(self._tables.maps[part.map].tensors))
                reads += [array_literal(next(how)) for _ in range(tensors)]
        table = [f"    {row}" for row in rows]
        return [
            *self._table("read_t", "reads", reads),
            *self._table("part_t", "parts", parts),
            f"static const operation_t {self._name}_operations[] = {{",
            *table,
            "};",
        ]

    def _operation(self, op: Operation, first: int, count: int) -> list[str]:
        spec, arithmetic = op.spec, self._numbers.operations[op.name]
        window, groups, bias = window_fields(op)
        kernel, stride, padding, dilation = map(array_literal, window)
        within = arithmetic.bias_within or op.name in self._tables.split
        return [
            f"    .parts = {self._name}_parts + {first}, .part_count = {count},",
            f"    .input_channels = {spec.input[0]}, .kernels = {spec.output[0]}, .groups = {groups},",
            f"    .kernel = {kernel}, .stride = {stride}, .padding = {padding}, .dilation = {dilation},",
            f"    .parameters = network_parameters + {self._parameters[op.name]},",
            f"    .has_bias = {bias}, .bias_shift = {arithmetic.bias_shift},",
            f"    .sum_bits = {arithmetic.sum_bits}, .bias_within = {int(within)},",
            f"    .relu = {int(arithmetic.relu)}, .shift = {arithmetic.shift}, "
            f".divisor = {arithmetic.divisor}, .bits = {arithmetic.bits},",
            "},",
        ]

    def _instructions(self) -> list[str]:
        shifts: dict[tuple[int, ...], int] = {(): 0}
        values: list[int] = []
        rows = []
        for addressed in self._tables.instructions:
            each = addressed.instruction
            if addressed.shifts not in shifts:
                shifts[addressed.shifts] = len(values)
                values += addressed.shifts
            boxes = map(array_literal, (each.channels, each.rows, each.columns, each.summed))
            places = addressed.shift, shifts[addressed.shifts], addressed.parameters
            rows.append(array_literal((self._kind(each), each.feature, *boxes, *places)))
        return [
            *self._table("int", "shifts", map(str, values or [0])),
            *self._table("instruction_t", "instructions", rows),
        ]

    def _kind(self, each: Instruction) -> str:
        if each.what != "compute":
            return each.what.upper()
        op, _ = self._tables.operations[each.feature]
        return self._numbers.operations[op.name].kind
