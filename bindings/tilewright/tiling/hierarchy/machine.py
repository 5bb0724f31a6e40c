"""A hierarchy of memories and arrays of PEs, each with what it holds, moves and costs."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import product, takewhile
from math import prod
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.level import Fanout, Kept, Level, Name, OperandBytes, Picojoules, check_level
from tilewright.tiling.hierarchy.loops import LETTERS, LOOPS, OPERANDS, REDUCED, USES, Operand, extents
from tilewright.tiling.widths import Widths

OBJECTIVES = ("accesses", "cycles", "energy", "edp")
"""What can be minimised, the default first."""

MOST_LEVELS = 8

MOST_CHOICES = 6
"""Most operands, of all levels together, of which the search decides whether they are held."""

MOST_MACHINES = 256
"""Most choices of a plan: what levels hold that decide it, times the orders of tiles that are uneven."""


class Source(NamedTuple):
    """Where the tiles of an operand come from that a node's loops move.

    Attributes
    ----------
    parent
        The node of the memory.
    straight
        Whether they go to the multipliers, without a memory between.
    reaches
        Whether no array lies between the memory and the node.
    """

    parent: int
    straight: bool
    reaches: bool


class Node(NamedTuple):
    """A level as the loop nest sees it: a memory, one tile of an uneven memory, or one axis of an array.

    Attributes
    ----------
    level
        The level's number.
    axis
        The axis, None for a memory.
    holds
        The operands whose tiles are here.
    """

    name: str
    level: int
    axis: Fanout | None
    holds: tuple[Operand, ...] = ()


class HierarchyMachine(Spec):
    """Memories and arrays, outermost first, down to the units that multiply and add.

    Attributes
    ----------
    macs_per_cycle
        Of one innermost instance.
    mac_pj
        Energy of a multiplication and addition.
    bits
        Widths of the operands' elements.
    levels
        The first has no capacity and holds every operand; the last is a memory.
    vector_ops_per_cycle
        Operations of a unit for single values, as pools, sums and functions need them; without it these are
        not counted.
    vector_op_pj
        Energy of such an operation, by default that of a MAC.
    vector_level
        The memory that the unit reads from and writes to, by default the innermost one outside of all arrays
        that holds input and output.
    host
        What does the operations that the unit does not do, or all of them.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = ("vector_ops_per_cycle", "vector_op_pj", "vector_level", "host")

    kind: Literal["hierarchy"] = "hierarchy"
    clock_mhz: Annotated[int, Field(ge=1, le=1_000_000)] = 1000
    macs_per_cycle: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    mac_pj: Picojoules | None = None
    bits: Widths = Widths()
    levels: Annotated[tuple[Level, ...], Field(min_length=2, max_length=MOST_LEVELS)]
    vector_ops_per_cycle: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    vector_op_pj: Picojoules | None = None
    vector_level: Name | None = None
    host: Host | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse levels that are no hierarchy."""
        self.bits.check()
        names = [level.name for level in self.levels]
        for i, level in enumerate(self.levels):
            if names.index(level.name) != i:
                raise InputError("machine.levels.name", level.name, "two levels have this name")
            check_level(level)
            if i and not level.fanout and level.capacity_bytes is None:
                limit = "is needed by every memory but the first"
                raise InputError(f"machine.levels.{level.name}.capacity_bytes", None, limit)
            if level.halo:
                self._check_halo(i)
            if level.uneven:
                self._check_uneven(i)
        self._check_choices()
        first, last = self.levels[0], self.levels[-1]
        if first.fanout or first.capacity_bytes is not None or set(first.holds) != set(OPERANDS):
            limit = "the first level is a memory without capacity_bytes that holds every operand"
            raise InputError("machine.levels.name", first.name, limit)
        if last.fanout:
            raise InputError("machine.levels.name", last.name, "the last level is a memory, not an array")
        self._check_vector_unit()

    def _check_vector_unit(self) -> None:
        """Refuse a place of the vector unit where its operands are not, and what is told of no unit."""
        told = {name: getattr(self, name) for name in ("vector_op_pj", "vector_level")}
        if self.vector_ops_per_cycle is None:
            for name, value in told.items():
                if value is not None:
                    raise InputError(f"machine.{name}", value, "is of a unit with vector_ops_per_cycle")
        if self.vector_level is None:
            return
        able = [level.name for level in self._memories_of_maps]
        if self.vector_level not in able:
            limit = f"input and output are both held by {', '.join(able)}, outside of all arrays"
            raise InputError("machine.vector_level", self.vector_level, limit)

    @property
    def has_rates(self) -> bool:
        """Whether any memory moves but so many bytes in a cycle."""
        return any(
            rate is not None
            for level in self.levels
            for rate in (level.bytes_per_cycle, level.read_bytes_per_cycle, level.write_bytes_per_cycle)
        )

    @property
    def _memories_of_maps(self) -> list[Level]:
        """The memories outside of all arrays that hold input and output."""
        outside = takewhile(lambda level: not level.fanout, self.levels)
        return [level for level in outside if {"input", "output"} <= set(level.holds)]

    @property
    def vector_memory(self) -> Level:
        """The memory that the vector unit works on."""
        able = self._memories_of_maps
        return next((level for level in able if level.name == self.vector_level), able[-1])

    def _check_choices(self) -> None:
        """Refuse more choices than are searched one by one."""
        choices = [level for level in self.levels if level.may_hold]
        if (many := sum(len(level.may_hold) for level in choices)) > MOST_CHOICES:
            limit = f"at most {MOST_CHOICES} operands of all levels together, these are {many}"
            raise InputError(f"machine.levels.{choices[-1].name}.may_hold", list(choices[-1].may_hold), limit)
        uneven = [level.name for level in self.levels if level.uneven]
        if uneven and (found := len(self.choices)) > MOST_MACHINES:
            limit = (
                f"at most {MOST_MACHINES} choices of what is held and of orders of tiles, these are {found}"
            )
            raise InputError(f"machine.levels.{uneven[-1]}.uneven", True, limit)

    def _check_halo(self, i: int) -> None:
        """Refuse tiles that share something beyond an array, where instances have it that others need."""
        level = self.levels[i]
        field = f"machine.levels.{level.name}.halo"
        if i == 0:
            raise InputError(field, level.halo, "is for memories that are filled from another one")
        if (array := self._array_before(i, "input")) is not None:
            limit = f"input comes to this level through {array}, an array; only others can keep a part"
            raise InputError(field, level.halo, limit)

    def _check_uneven(self, i: int) -> None:
        """Refuse tiles of several blocks where they make no difference, or come through an array."""
        level = self.levels[i]
        field = f"machine.levels.{level.name}.uneven"
        held = [*level.holds, *level.may_hold]
        if i == 0 or len(held) < 2:
            limit = "is for memories that are filled from another one, and hold several operands"
            raise InputError(field, level.uneven, limit)
        for operand in held:
            if (array := self._array_before(i, operand)) is not None:
                limit = (
                    f"{operand} comes to this level through {array}, an array, whose PEs have equal blocks"
                )
                raise InputError(field, level.uneven, limit)

    def _array_before(self, i: int, operand: Operand) -> str | None:
        """Return the array between a level and the next one outside that certainly holds an operand."""
        for outer in reversed(self.levels[:i]):
            if outer.fanout:
                return outer.name
            if operand in outer.holds:
                return None
        return None

    @property
    def choices(self) -> list[Kept]:
        """All that plans may decide: what levels hold of `may_hold`, and the order of uneven tiles."""
        free = [level for level in self.levels if level.may_hold or level.uneven]
        names = [level.name for level in free]
        return [
            tuple(zip(names, chosen, strict=True)) for chosen in product(*(level.choices for level in free))
        ]

    def decides(self, kept: Kept) -> bool:
        """Whether something is one of the choices; the order counts where tiles are uneven."""
        levels = {level.name: level for level in self.levels}
        ordered = [
            (
                name,
                held if name in levels and levels[name].uneven else tuple(sorted(held, key=OPERANDS.index)),
            )
            for name, held in kept
        ]
        return tuple(ordered) in self.choices

    def keeping(self, kept: Kept) -> HierarchyMachine:
        """Return the machine that holds what a plan has decided; the rest of `may_hold` passes by."""
        if not any(operands for _, operands in kept):
            return self
        return _keeping(self, kept)

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """Memories and axes of arrays, outermost first; the tiles of uneven memories one by one."""
        nodes = []
        for number, level in enumerate(self.levels):
            if level.uneven and level.holds:
                for operand in level.holds:
                    nodes.append(Node(f"{level.name}.{operand}", number, None, (operand,)))
            elif not level.fanout:
                nodes.append(Node(level.name, number, None, level.holds))
            for i, axis in enumerate(level.fanout, 1):
                name = level.name if len(level.fanout) == 1 else f"{level.name}.{i}"
                nodes.append(Node(name, number, axis))
        return tuple(nodes)

    @cached_property
    def memories(self) -> dict[int, tuple[int, ...]]:
        """The nodes of each memory, several where its tiles are uneven, by the first one."""
        found: dict[int, list[int]] = {}
        for i, node in enumerate(self.nodes):
            if node.axis is None:
                found.setdefault(node.level, []).append(i)
        return {nodes[0]: tuple(nodes) for nodes in found.values()}

    @cached_property
    def holders(self) -> dict[str, tuple[int, ...]]:
        """The nodes that hold each operand, outermost first."""
        return {
            operand: tuple(i for i, node in enumerate(self.nodes) if operand in node.holds)
            for operand in OPERANDS
        }

    @cached_property
    def halos(self) -> frozenset[int]:
        """The nodes that keep what the next tile of input shares with the last one."""
        return frozenset(i for i in self.holders["input"] if self.levels[self.nodes[i].level].halo)

    def check(self, layer: Layer, minimise: str) -> None:
        """Refuse a layer of which not even the smallest tile fits.

        Raises
        ------
        InputError
            Names the level, the operand that does not fit, and what would be enough.
        """
        for i, level in enumerate(self.levels[1:], 1):
            if not level.fanout:
                self._check_memory(level, self._least_output_bits(i, layer))

    def _least_output_bits(self, i: int, layer: Layer) -> int:
        """Return the width of outputs in a memory at least.

        They may come complete from a memory further in, from arrays that are large enough to add up all
        products at once, or where nothing is added up.
        """
        inside = self.levels[i + 1 :]
        sizes = extents(layer)
        products = prod(sizes[loop] for loop in REDUCED)
        held = any("output" in (*level.holds, *level.may_hold) for level in inside)
        axes = [axis for level in inside for axis in level.fanout if set(axis.loops) & set(REDUCED)]
        complete = held or prod(axis.size for axis in axes) >= products
        return self.bits.output if complete else self.bits.partial

    def _check_memory(self, level: Level, output_bits: int) -> None:
        """Refuse a memory that cannot hold one element of each of its operands."""
        widths = {"input": self.bits.input, "weights": self.bits.weights, "output": output_bits}
        needed = {operand: level.copies * widths[operand] for operand in OPERANDS if operand in level.holds}
        field, twice = f"machine.levels.{level.name}.capacity_bytes", " twice" * level.double_buffering
        if isinstance(level.capacity_bytes, OperandBytes):
            for operand, bits in needed.items():
                given = getattr(level.capacity_bytes, operand)
                if bits > 8 * given:
                    one = f"one element of {bits // level.copies} bits{twice}"
                    limit = (
                        f"the {operand} of the smallest tile does not fit, {one}: {-(-bits // 8)} bytes do"
                    )
                    raise InputError(f"{field}.{operand}", given, limit)
            return
        held = 0
        assert level.capacity_bytes is not None
        for operand, bits in needed.items():
            held += bits
            if held > 8 * level.capacity_bytes:
                each = ", ".join(f"{name} {size // level.copies}" for name, size in needed.items())
                limit = (
                    f"the {operand} of the smallest tile does not fit: one element of each operand ({each} "
                    f"bits){twice} needs {-(-sum(needed.values()) // 8)} bytes"
                )
                raise InputError(field, level.capacity_bytes, limit)

    @property
    def beyond(self) -> Level | None:
        """The memory from which weights come that pass the first one by; None where that holds them, too."""
        return None

    @property
    def priced(self) -> bool:
        """Whether anything has a price above 0."""
        prices = (self.mac_pj, self.vector_op_pj, *(level.read_pj_per_byte for level in self.levels))
        return any(prices) or any(level.write_pj_per_byte for level in self.levels)

    @property
    def most_macs_per_cycle(self) -> int:
        """MACs of all innermost instances in a cycle."""
        return self.macs_per_cycle * prod(node.axis.size for node in self.nodes if node.axis is not None)

    @cached_property
    def sources(self) -> tuple[dict[str, Source], ...]:
        """For each node, where the tiles of each operand come from that its loops move."""
        found = []
        for i in range(len(self.nodes)):
            sources = {}
            for operand, holders in self.holders.items():
                parent = max(holder for holder in holders if holder <= i)
                between = (self.nodes[j].axis is None for j in range(parent, i))
                sources[operand] = Source(parent, holders[-1] <= i, all(between))
            found.append(sources)
        return tuple(found)

    @cached_property
    def allowed(self) -> tuple[str, ...]:
        """The loops that each node may have.

        What passes by a memory inside of an array is not moved by that memory's loops; on its way straight to
        the multipliers it would be read again in each iteration, too. A memory outside does all that as well.
        """
        found = []
        for node, sources in zip(self.nodes, self.sources, strict=True):
            allowed = LETTERS if node.axis is None else node.axis.loops
            for operand, source in sources.items():
                if node.axis is None and not source.reaches:
                    moving = LOOPS if source.straight else USES[operand]
                    allowed = "".join(loop for loop in allowed if loop not in moving)
            found.append(allowed)
        return tuple(found)


@lru_cache(maxsize=256)
def _keeping(machine: HierarchyMachine, kept: Kept) -> HierarchyMachine:
    """Return a machine whose levels hold more, uneven ones in order; plans of one search share a few."""
    levels = []
    for level in machine.levels:
        chosen = tuple(operand for name, operands in kept if name == level.name for operand in operands)
        held = set(level.holds) | (set(chosen) & set(level.may_hold))
        order = chosen if level.uneven and sorted(chosen) == sorted(held) else OPERANDS
        levels.append(
            level.model_copy(
                update={
                    "holds": tuple(operand for operand in order if operand in held),
                    "may_hold": tuple(operand for operand in level.may_hold if operand not in held),
                }
            )
        )
    return machine.model_copy(update={"levels": tuple(levels)})
