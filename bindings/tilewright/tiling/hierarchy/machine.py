"""A hierarchy of memories and arrays of PEs, each with what it holds, moves and costs."""

from __future__ import annotations

from functools import cached_property, lru_cache
from itertools import compress, permutations, product, takewhile
from math import prod
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.host import Host
from tilewright.spec.layer import Layer
from tilewright.tiling.widths import Widths

Operand = Literal["input", "weights", "output"]

OPERANDS: tuple[Operand, ...] = ("input", "weights", "output")

LOOPS = {
    "g": "groups",
    "n": "batch",
    "c": "output_maps",
    "y": "rows",
    "x": "columns",
    "k": "input_maps",
    "r": "kernel_rows",
    "s": "kernel_columns",
}
"""The loops of a layer: a letter for plans, a name for files. Output and input maps are those of a group."""

LETTERS = "".join(LOOPS)
"""The order in which sizes of blocks stand in arrays."""

USES = {"input": "gnyxkrs", "weights": "gckrs", "output": "gncyx"}
"""The loops that move each operand."""

STILL = {operand: "".join(loop for loop in LETTERS if loop not in loops) for operand, loops in USES.items()}
"""The loops that do not move each operand; each loop but ``g`` is in one of them."""

REDUCED = "krs"
"""The loops over which products are added up."""

OBJECTIVES = ("accesses", "cycles", "energy", "edp")
"""What can be minimised, the default first."""

MOST_LEVELS = 8

MOST_CHOICES = 6
"""Most operands, of all levels together, of which the search decides whether they are held."""

MOST_MACHINES = 256
"""Most choices of a plan: what levels hold that decide it, times the orders of tiles that are uneven."""

Kept = tuple[tuple[str, tuple[Operand, ...]], ...]
"""For levels with `may_hold`, by name, the operands of it that a plan holds there. For uneven levels all that
are held, from the one with the largest block to the one with the smallest."""

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,31}$")]
LoopName = Literal[
    "groups", "batch", "output_maps", "rows", "columns", "input_maps", "kernel_rows", "kernel_columns"
]
Bytes = Annotated[int, Field(ge=0, le=2**40)]
Rate = Annotated[float, Field(gt=0, le=1e6)]
Picojoules = Annotated[float, Field(ge=0, le=1e6)]


class OperandBytes(Spec):
    """A capacity for each operand."""

    input: Bytes = 0
    weights: Bytes = 0
    output: Bytes = 0


class Fanout(Spec):
    """Instances side by side, over which loops may be unrolled.

    Attributes
    ----------
    size
        Most instances.
    over
        The loops that may be unrolled over them, together.
    """

    size: Annotated[int, Field(ge=1, le=2**20)]
    over: Annotated[tuple[LoopName, ...], Field(min_length=1)]

    @property
    def loops(self) -> str:
        """The letters of the loops."""
        return "".join(letter for letter, name in LOOPS.items() if name in self.over)


class Level(Spec):
    """A memory, or an array of instances of all that lies further in.

    Attributes
    ----------
    capacity_bytes
        Of one instance; for all operands together, or for each.
    holds
        The operands that are kept here. The others pass by.
    may_hold
        Operands of which a plan decides whether they are kept here.
    halo
        When the innermost loop that moves input goes on, and is over rows or columns (of outputs or kernels),
        what the new tile shares with the last one stays; only the rest is fetched.
    double_buffering
        Every tile exists twice, and transfers to and from here run beside the computation.
    uneven
        The tiles of different operands may belong to different blocks, one inside of the other.
    read_pj_per_byte, write_pj_per_byte
        Energy of what is read and written; without the latter both cost the same.
    bytes_per_cycle
        Throughput of one instance, for reads and writes together.
    read_bytes_per_cycle, write_bytes_per_cycle
        Throughputs of two ports instead.
    fanout
        Makes this an array: its axes. An operand that no loop unrolled here moves is multicast; sums of loops
        that are reduced are added up on the way out.
    """

    later: ClassVar[tuple[str, ...]] = ("may_hold", "halo", "uneven")

    name: Name
    capacity_bytes: Bytes | OperandBytes | None = None
    holds: tuple[Operand, ...] = OPERANDS
    may_hold: tuple[Operand, ...] = ()
    halo: bool = False
    double_buffering: bool = False
    uneven: bool = False
    read_pj_per_byte: Picojoules | None = None
    write_pj_per_byte: Picojoules | None = None
    bytes_per_cycle: Rate | None = None
    read_bytes_per_cycle: Rate | None = None
    write_bytes_per_cycle: Rate | None = None
    fanout: tuple[Fanout, ...] = ()

    @property
    def copies(self) -> int:
        """How often every tile exists."""
        return 2 if self.double_buffering else 1

    @property
    def choices(self) -> list[tuple[Operand, ...]]:
        """What a plan may decide of this level: see `Kept`."""
        may = sorted(self.may_hold, key=OPERANDS.index)
        chosen = [tuple(compress(may, bits)) for bits in product((True, False), repeat=len(may))]
        if not self.uneven:
            return chosen
        return [order for each in chosen for order in permutations((*self.holds, *each))]


def _check_level(level: Level) -> None:
    """Refuse an array that is a memory, too, operands that are held twice, and ports that are told twice."""
    field = f"machine.levels.{level.name}"
    if level.fanout:
        for name, value in Level(name=level.name):
            told = getattr(level, name)
            if name != "fanout" and told != value:
                raise InputError(f"{field}.{name}", told, "is for memories; this level is an array")
        loops = [loop for axis in level.fanout for loop in axis.over]
        if any(len(set(axis.over)) < len(axis.over) for axis in level.fanout):
            raise InputError(f"{field}.fanout.over", loops, "names a loop twice for one axis")
        return
    either = (*level.holds, *level.may_hold)
    if not either or len(set(either)) < len(either):
        limit = "a memory holds at least one operand, each once"
        raise InputError(f"{field}.holds", list(either), limit)
    if level.halo and "input" not in either:
        raise InputError(f"{field}.halo", level.halo, "is of input, which this level does not hold")
    if level.bytes_per_cycle is not None and (level.read_bytes_per_cycle or level.write_bytes_per_cycle):
        limit = "is of one port; give this or those of two ports, not both"
        raise InputError(f"{field}.bytes_per_cycle", level.bytes_per_cycle, limit)


def loop_sizes(layer: Layer) -> tuple[int, ...]:
    """Return the iterations of each loop of a layer."""
    maps, rows, columns = layer.output
    return (
        layer.groups,
        layer.batch,
        maps // layer.groups,
        rows,
        columns,
        layer.input[0] // layer.groups,
        *layer.kernel,
    )


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
            _check_level(level)
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
        products = prod(
            size for loop, size in zip(LETTERS, loop_sizes(layer), strict=True) if loop in REDUCED
        )
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
