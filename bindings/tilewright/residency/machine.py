"""One memory without partitions, what is minimised, and what plans may do."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from pydantic import Field, model_validator

from tilewright.core.machines import OPERANDS, MachineReading, OnChip
from tilewright.spec.base import Spec
from tilewright.spec.energy import Energy, Femtojoules
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.objectives import Objective, ObjectiveList, by_name

MAX_BYTES = 2**40
"""Largest memory."""

MAX_TRAFFIC = 2**50
"""The highest limit on traffic."""

MAX_NAME = 200
"""Longest name of a memory."""

ALIGNMENT = 16
"""Bytes to whose multiples an array in a memory is aligned that asks for nothing else."""

RAM, FLASH = "RAM", "flash"
"""What memories without names are called in results."""

MAX_SPENT = 2**62
"""The highest limit on cycles and femtojoules."""

OBJECTIVES = by_name(
    Objective("traffic", "bytes", "traffic_bytes"),
    Objective("memory", "bytes", "memory_bytes"),
    Objective("cycles", "cycles", "cycles"),
    Objective("energy", "fJ", "energy_fj"),
    Objective("macs", "MACs", "macs"),
)
"""What can be minimised, and of machines without DRAM the traffic of each memory: see `traffic_of`."""

RATES = (32, 32, 150)
"""Elements and MACs of a cycle, and cycles that a transfer is set up in, of the tiling room's DSP."""

ONE: Literal["one"] = "one"
"""Frames, where weights do not stay."""

DSP = (
    "bus_elements_per_cycle",
    "macs_per_cycle",
    "dma_setup_cycles",
    "vector_ops_per_cycle",
    "double_buffering",
    "energy",
)
"""What a DSP tells of time and energy."""

Bytes = Annotated[int, Field(ge=1, le=MAX_BYTES)]
Rate = Annotated[int, Field(ge=1, le=1_000_000)]


Cycles = Annotated[float, Field(ge=0, le=1_000_000)]
MemoryName = Annotated[str, Field(min_length=1, max_length=MAX_NAME)]


class CoreCycles(Spec):
    """Cycles that a micro-controller's core takes for what emitted C does, each rounded to hundredths.

    How they are fitted, and their error: docs/results/microcontrollers.md.

    Attributes
    ----------
    mac, depthwise_mac
        A multiply-accumulate of a convolution or product, and of a convolution in groups.
    loop
        A place of the window, for four outputs.
    output, product_output
        The rescaling of a sum, and of one of a product.
    place, place_in_line
        To find a place of a window, for each pixel: of a map that is there as a whole, and of a line buffer.
    pixel
        A turn: a pixel that is computed or loaded.
    sum
        A value of a sum of maps.
    pooled
        A value that a pool reads in a window.
    running
        A value that is added to running values.
    moved
        A byte that is read or written outside, or copied.
    softmax, other
        A value of softmax, and of any other operation.
    """

    table_name: ClassVar[str] = "cycles_of"

    mac: Cycles
    depthwise_mac: Cycles
    loop: Cycles
    output: Cycles
    product_output: Cycles
    place: Cycles
    place_in_line: Cycles
    pixel: Cycles
    sum: Cycles
    pooled: Cycles
    running: Cycles
    moved: Cycles
    softmax: Cycles
    other: Cycles


class AccessPrices(NamedTuple):
    """What the core takes for an access to a memory.

    Attributes
    ----------
    reading, writing
        Cycles that it waits.
    read_fj, write_fj
        Femtojoules.
    width
        Bytes that an access moves at most.
    """

    reading: float = 0.0
    writing: float = 0.0
    read_fj: int = 0
    write_fj: int = 0
    width: int = 1

    def accesses(self, size: int) -> int:
        """Return how many accesses move a row of so many bytes, or a value of these."""
        return -(-size // self.width)


class Memory(Spec):
    """A memory on chip, or a micro-controller's flash.

    Attributes
    ----------
    name
        As ``machine.memory`` has it.
    bytes
        Its size.
    read_only
        Whether it is flash or ROM: it holds weights, which are read where they are.
    read_waits, write_waits
        Cycles that the core waits for an access that reads, or writes, rounded to hundredths. In flash these
        are of weights; what instructions wait there is in all other prices.
    width_bytes
        That an access moves at most: a value of more takes several, and a row that is copied one for so many.
        By default that is ``element_bytes``.
    read_fj, write_fj
        Femtojoules of an access.
    alignment_bytes
        To a multiple of which the array that C has there is aligned: a power of two.
    """

    table_name: ClassVar[str] = "memories"
    later: ClassVar[tuple[str, ...]] = (
        "read_waits",
        "write_waits",
        "width_bytes",
        "read_fj",
        "write_fj",
        "alignment_bytes",
    )

    name: MemoryName
    bytes: Bytes
    read_only: bool = False
    read_waits: Cycles = 0.0
    write_waits: Cycles = 0.0
    width_bytes: Annotated[int, Field(ge=1, le=1024)] | None = None
    read_fj: Femtojoules | None = None
    write_fj: Femtojoules | None = None
    alignment_bytes: Annotated[int, Field(ge=1, le=4096)] = ALIGNMENT

    def model_post_init(self, _context: object) -> None:
        """Refuse an alignment that C has not."""
        if self.alignment_bytes.bit_count() > 1:
            limit = f"of {self.name} is no power of two"
            raise InputError("machine.memories.alignment_bytes", self.alignment_bytes, limit)

    def prices(self, element_bytes: int) -> AccessPrices:
        """Return what an access takes, of values of so many bytes."""
        width = self.width_bytes or element_bytes
        return AccessPrices(self.read_waits, self.write_waits, self.read_fj or 0, self.write_fj or 0, width)

    @property
    def has_energy(self) -> bool:
        """Whether the energy of an access is told."""
        return self.read_fj is not None or self.write_fj is not None


OF_THE_CORE = ("read_waits", "write_waits", "width_bytes", "read_fj", "write_fj")
"""What is told of a memory because the core reads and writes values in it, without DRAM."""


class Region(NamedTuple):
    """A memory that maps lie in: the elements of all of them are numbered one behind the other.

    Attributes
    ----------
    name
        Empty where the machine has one memory without a name.
    begin, end
        Its first element, and the one behind its last.
    prices
        What an access takes.
    alignment
        In bytes, of what C has there.
    """

    name: str
    begin: int
    end: int
    prices: AccessPrices = AccessPrices()
    alignment: int = ALIGNMENT

    @property
    def elements(self) -> int:
        """How many it holds."""
        return self.end - self.begin


def traffic_of(memory: str) -> str:
    """Return what the objective is called that counts what is read and written in a memory."""
    return f"traffic_of({memory})"


def memory_in(objective: str) -> str | None:
    """Return the memory whose traffic an objective counts; None of all others."""
    found = re.fullmatch(r"traffic_of\((.+)\)", objective)
    return None if found is None else found[1]


def tops_of(regions: Sequence[Region], spans: Iterable[tuple[int, int]]) -> list[int]:
    """Return what is taken of each memory up to the highest element, of spans: first element and size."""
    tops = [0] * len(regions)
    for at, size in spans:
        number = region_of(regions, at)
        tops[number] = max(tops[number], at + size - regions[number].begin)
    return tops


def region_of(regions: Sequence[Region], element: int) -> int:
    """Return the memory that an element lies in, by its number; the last one for those behind all."""
    return sum(element >= each.begin for each in regions) - 1


class OneMemory(Spec):
    """A memory on chip that maps, weights and buffers of all operations share, and DRAM behind it.

    Of a micro-controller it is one of several RAMs, weights are in flash, and there is no DRAM.

    Attributes
    ----------
    memory_bytes
        Of all that is on chip at a time; where `memories` are told, by default those of `memory`. Of several
        what is taken in all of them together, each up to its highest address.
    element_bytes
        Of a value of a map, of a weight and of a bias.
    sum_bytes
        Of a partial sum that is kept on chip: as many whole elements as that takes.
    bus_elements_per_cycle
        Elements that the bus moves from or to DRAM in a cycle.
    macs_per_cycle
        Throughput of the core.
    dma_setup_cycles
        Cycles that the core spends on programming one transfer: what a step loads or writes of one tensor.
    vector_ops_per_cycle
        Operations of the core on single values, in pools, sums and functions; without it these take no time.
    double_buffering
        Whether steps may have second buffers, so that transfers run beside the computation.
    energy
        Prices.
    memory
        Which memory of a hierarchy this is, where the machine is read from one. Of several `memories` the
        one, or those, that maps lie in; by default all that can be written, or where `memory_bytes` is told
        the first of them.
    memories
        All that there are beside DRAM. Without it weights are in flash: those that are read only.
    dram
        Whether there is memory behind it. Without it maps stay on chip until they are no longer needed.
    cycles_of
        What emitted C takes on the core, without DRAM. It stands for all rates.
    """

    table_name: ClassVar[str] = "machine"
    later: ClassVar[tuple[str, ...]] = (
        "sum_bytes",
        "bus_elements_per_cycle",
        "macs_per_cycle",
        "dma_setup_cycles",
        "vector_ops_per_cycle",
        "double_buffering",
        "energy",
        "memory",
        "memories",
        "dram",
        "cycles_of",
    )

    memory_bytes: Bytes
    element_bytes: Annotated[int, Field(ge=1, le=8)] = 1
    sum_bytes: Annotated[int, Field(ge=1, le=8)] = 4
    bus_elements_per_cycle: Rate | None = None
    macs_per_cycle: Rate | None = None
    dma_setup_cycles: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    vector_ops_per_cycle: Rate | None = None
    double_buffering: bool = False
    energy: Energy | None = None
    memory: MemoryName | Annotated[tuple[MemoryName, ...], Field(min_length=1, max_length=16)] | None = None
    memories: Annotated[tuple[Memory, ...], Field(max_length=16)] = ()
    dram: bool = True
    cycles_of: CoreCycles | None = None

    @model_validator(mode="before")
    @classmethod
    def _take_memories(cls, given: Any) -> Any:
        """Take the sizes of the memories that are named, or of all that can be written."""
        if not isinstance(given, dict) or "memory_bytes" in given:
            return given
        memories = given.get("memories")
        if not isinstance(memories, list | tuple) or not all(isinstance(each, dict) for each in memories):
            return given
        writable = {each.get("name"): each.get("bytes") for each in memories if not each.get("read_only")}
        every = [*writable] if len(writable) > 1 else next(iter(writable), None)
        memory = given.get("memory", every)
        if memory is None:
            return given
        names = memory if isinstance(memory, list | tuple) else [memory]
        sizes = [writable.get(name) for name in names if type(name) is str]
        told = sum(size for size in sizes if type(size) is int)
        return {**given, "memory": memory, "memory_bytes": max(1, told)}  # what is wrong is refused below

    def model_post_init(self, _context: object) -> None:
        """Refuse memories of one name, a name that none has, and weights that have no place."""
        self._check_memories()
        if isinstance(self.memory, tuple):
            self._check_several(self.memory)
        else:
            self._check_one(self.memory)
        if not self.dram and not self.in_flash:
            limit = "is for machines with weights in flash: a memory of `memories` that is read_only"
            raise InputError("machine.dram", self.dram, limit)
        if self.cycles_of is not None and (self.dram or self.element_bytes > 1):
            limit = "is of C with a byte a value (element_bytes = 1), for machines without DRAM"
            raise InputError("machine.cycles_of", "told", limit)
        names = self.names_of_memories
        if not self.dram and len(set(names)) < len(names):
            limit = f"has two memories that results call {names[-1]}"
            raise InputError("machine.memories", list(names), limit)
        if self.has_energy:
            self._check_energy()

    def _check_memories(self) -> None:
        """Refuse two of one name, and waits for what is not done or not told apart."""
        names = [each.name for each in self.memories]
        if len(set(names)) < len(names):
            raise InputError("machine.memories", names, "has two memories of one name")
        for number, each in enumerate(self.memories):
            if not each.name.isprintable():
                raise InputError(f"machine.memories[{number}].name", each.name, "must be printable")
            for field in OF_THE_CORE if self.dram else ():
                if told := getattr(each, field):
                    limit = "is for machines without DRAM, whose core reads and writes values in memories"
                    raise InputError(f"machine.memories[{number}].{field}", told, limit)
            if self.dram and each.alignment_bytes != ALIGNMENT:
                field, limit = f"machine.memories[{number}].alignment_bytes", "is for machines without DRAM"
                raise InputError(field, each.alignment_bytes, limit)
            for field in ("write_waits", "write_fj"):
                if each.read_only and getattr(each, field):
                    limit = f"{each.name} is read_only"
                    raise InputError(f"machine.memories[{number}].{field}", getattr(each, field), limit)
        for field in ("read_waits", "width_bytes", "read_fj"):
            flash = {getattr(each, field) for each in self.memories if each.read_only}
            if len(flash) > 1:
                limit = "differ between memories that are read_only, and weights lie in any of them"
                raise InputError(f"machine.memories.{field}", sorted(flash, key=str), limit)

    def _check_energy(self) -> None:
        """Refuse energy of some memories alone, of those that are used, and without that of the core."""
        told = set[str]() if self.energy is None else self.energy.model_fields_set
        for field in ("core_fj_per_cycle", "dram_fj_per_access"):
            if field not in told:
                limit = "must be told where memories have prices"
                raise InputError(f"machine.energy.{field}", None, limit)
        assert self.energy is not None
        if (local := self.energy.local_fj_per_access) != Energy().local_fj_per_access:
            limit = "counts for nothing where memories have prices"
            raise InputError("machine.energy.local_fj_per_access", local, limit)
        used = {region.name for region in self.regions}
        for number, each in enumerate(self.memories):
            if each.name not in used and not each.read_only:
                continue
            for field in ("read_fj",) if each.read_only else ("read_fj", "write_fj"):
                if getattr(each, field) is None:
                    limit = f"must be told of {each.name}, as the energy of other accesses is"
                    raise InputError(f"machine.memories[{number}].{field}", None, limit)

    def _check_one(self, name: str | None) -> None:
        """Refuse a memory that maps may not lie in, or more of it than there is."""
        if self.memories and name is not None:
            self._check_name(name)
        writable = [each for each in self.memories if not each.read_only]
        own = next((each for each in writable if name in (None, each.name)), None)
        if own is not None and self.memory_bytes > own.bytes:
            limit = f"is more than {own.bytes:,}, which {own.name} has; machine.memory names others"
            raise InputError("machine.memory_bytes", self.memory_bytes, limit)

    def _check_name(self, name: str) -> None:
        """Refuse a name of no memory that maps may lie in."""
        writable = [each.name for each in self.memories if not each.read_only]
        if name not in writable:
            limit = f"names no memory that can be written; there are {', '.join(writable) or 'none'}"
            raise InputError("machine.memory", name, limit)

    def _check_several(self, names: Sequence[str]) -> None:
        """Refuse several memories that maps may not lie in together, and more of them than they have."""
        for name in names:
            self._check_name(name)
        if len(set(names)) < len(names):
            raise InputError("machine.memory", list(names), "names a memory twice")
        total = sum(each.bytes for each in self.memories if each.name in names)
        if self.memory_bytes > total:
            limit = f"is more than {total:,}, which these have in all"
            raise InputError("machine.memory_bytes", self.memory_bytes, limit)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The memories that maps, weights and buffers lie in."""
        known = {each.name: each for each in self.memories}
        width = self.element_bytes
        if not isinstance(self.memory, tuple):
            first = next((each.name for each in self.memories if not each.read_only), "")
            name = self.memory or first
            own = known.get(name)
            size = self.memory_bytes // width
            if own is None:
                return (Region(name, 0, size, AccessPrices(width=width)),)
            return (Region(name, 0, size, own.prices(width), own.alignment_bytes),)
        every = [known[name] for name in self.memory]
        ends = [*accumulate((each.bytes // width for each in every), initial=0)]
        return tuple(
            Region(each.name, begin, end, each.prices(width), each.alignment_bytes)
            for each, begin, end in zip(every, ends, ends[1:], strict=False)
        )

    @property
    def _flash(self) -> Memory | None:
        return next((each for each in self.memories if each.read_only), None)

    @property
    def flash_prices(self) -> AccessPrices:
        """What an access to flash takes."""
        flash = self._flash
        return AccessPrices(width=self.element_bytes) if flash is None else flash.prices(self.element_bytes)

    @property
    def names_of_memories(self) -> tuple[str, ...]:
        """Without DRAM, the names of the memories that maps lie in, and of flash, as results have them."""
        flash = self._flash
        return (*(region.name or RAM for region in self.regions), FLASH if flash is None else flash.name)

    @property
    def has_energy(self) -> bool:
        """Whether the energy of an access is told of any memory."""
        return not self.dram and any(each.has_energy for each in self.memories)

    @property
    def has_waits(self) -> bool:
        """Whether the core waits for any memory."""
        every = (*(region.prices for region in self.regions), self.flash_prices)
        return any(each.reading or each.writing for each in every)

    @property
    def in_flash(self) -> bool:
        """Whether weights are read where they are, and take no room on chip."""
        return any(each.read_only for each in self.memories)

    @property
    def flash_bytes(self) -> int:
        """Bytes of the memories that are read only."""
        return sum(each.bytes for each in self.memories if each.read_only)

    @property
    def capacity(self) -> int:
        """Elements that maps may take, in all memories together."""
        return min(self.memory_bytes // self.element_bytes, self.regions[-1].end)

    @property
    def largest(self) -> int | None:
        """Elements of the largest of several memories beside DRAM; None of all other machines."""
        if not self.dram or len(self.regions) == 1:
            return None
        return max(region.elements for region in self.regions)

    @property
    def sum_elements(self) -> int:
        """Elements that a partial sum takes."""
        return -(-self.sum_bytes // self.element_bytes)

    @property
    def timed(self) -> bool:
        """Whether anything is said about time or energy."""
        told = any(getattr(self, field) not in (None, False) for field in DSP)
        return told or self.cycles_of is not None

    @property
    def rates(self) -> tuple[int, int, int]:
        """Elements and MACs of a cycle, and cycles for a transfer: where not told, those of a tiling DSP."""
        told = self.bus_elements_per_cycle, self.macs_per_cycle, self.dma_setup_cycles
        bus, macs, setup = (
            default if value is None else value for value, default in zip(told, RATES, strict=True)
        )
        return bus, macs, setup

    @property
    def prices(self) -> Energy:
        """Prices of energy: where not told, those of a tiling DSP."""
        return self.energy or Energy()


class ResidencyObjective(ObjectiveList):
    """What is minimised.

    Attributes
    ----------
    minimise : {"traffic", "memory", "cycles", "energy", "macs", "traffic_of(MEMORY)"}, or a list of them
        Bytes moved from and to DRAM; bytes of the memory that a plan takes; cycles; femtojoules;
        multiply-accumulates, of which strips have more (without DRAM); bytes that the core reads and writes
        in a memory (without DRAM). Of a list each one is minimised among the plans that are good in those
        before it.
    most_traffic : int, optional
        For ``memory``: most bytes moved; by default any number, so that the answer is the least memory in
        which the network runs at all.
    most_cycles, most_energy, most_macs : int, optional
        Most cycles, femtojoules and multiply-accumulates, whatever is minimised.
    most_traffic_of : dict, optional
        Most bytes that the core reads and writes in memories, by their names.
    """

    later: ClassVar[tuple[str, ...]] = (
        "tolerance",
        "most_cycles",
        "most_energy",
        "most_macs",
        "most_traffic_of",
    )

    minimise: str | tuple[str, ...] = "traffic"
    most_traffic: Annotated[int, Field(ge=1, le=MAX_TRAFFIC)] | None = None
    most_cycles: Annotated[int, Field(ge=1, le=MAX_SPENT)] | None = None
    most_energy: Annotated[int, Field(ge=1, le=MAX_SPENT)] | None = None
    most_macs: Annotated[int, Field(ge=0, le=MAX_SPENT)] | None = None
    most_traffic_of: dict[MemoryName, Annotated[int, Field(ge=0, le=MAX_SPENT)]] | None = None

    @property
    def limits(self) -> dict[str, int]:
        """What plans may spend at most, by objective."""
        given = {"traffic": self.most_traffic, "cycles": self.most_cycles, "energy": self.most_energy}
        given["macs"] = self.most_macs
        given |= {traffic_of(name): most for name, most in (self.most_traffic_of or {}).items()}
        return {name: limit for name, limit in given.items() if limit is not None}

    def model_post_init(self, context: object) -> None:
        """Refuse unknown objectives, lists that say something twice or nothing, tolerances of nothing."""
        for name in self.names:
            if name not in OBJECTIVES and memory_in(name) is None:
                every = [*OBJECTIVES, traffic_of("MEMORY")]
                limit = f"takes {', '.join(every)}, or a list of them{did_you_mean(name, every)}"
                raise InputError("minimise", name, limit)
        super().model_post_init(context)


class ResidencyLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    order : {"any", "given"}
        Any order of the operations in which each comes after those that it reads, or that of the file.
    most_operations : int, optional
        Operations of a step; 1 leaves depth-first execution out.
    tiles
        Whether steps may be cut into strips, tiles, and blocks of input channels.
    frames : {"one", "many"}
        How often the network is executed: if frame after frame, weights may stay on chip for good, and what
        is minimised is that of each frame but the first.
    executions : {1, 2}
        How often an operation may be executed: if twice, what the second execution computes is for some of
        its readers.
    inputs : {"outside", "memory"}
        Without DRAM: where the network's inputs are. Outside steps read them as DRAM is read, as from flash,
        a camera, or memory of the caller. In the memory they lie from the first step that reads them on.
    """

    table_name: ClassVar[str] = "limits"
    later: ClassVar[tuple[str, ...]] = ("tiles", "frames", "executions", "inputs")
    lifted: ClassVar[dict[str, Any]] = {"order": "any", "most_operations": None, "tiles": True}
    """What only leaves plans out, with the value that leaves none out."""

    order: Literal["any", "given"] = "any"
    most_operations: Annotated[int, Field(ge=1, le=10_000)] | None = None
    tiles: bool = True
    frames: Literal["one", "many"] = ONE
    executions: Literal[1, 2] = 1
    inputs: Literal["outside", "memory"] = "outside"


def machine_from(table: dict[str, Any]) -> MachineReading:
    """Read a DSP, a hierarchy, or an NPU: a memory that inputs, weights and outputs share.

    Of a hierarchy that is the outermost such memory, or the one that ``memory`` in the table ``residency``
    names. The three memories of an NPU's cores are separate, so that of an NPU only rates are found.

    Raises
    ------
    InputError
        If the memory that is named does not exist or is not shared.
    """
    if table.get("kind") == "npu":
        return _npu(table)
    chip = OnChip.of(table)
    lacking = {"memory_bytes": "or a memory on chip that inputs, weights and outputs share"}
    if chip is None:
        return MachineReading({}, lacking)
    found = {"element_bytes": -(-chip.bits // 8)}
    if table["kind"] == "dsp":
        found |= {name: table[name] for name in DSP if table.get(name) is not None}
    else:
        found |= _hierarchy(chip, table, found["element_bytes"])
    name = table.get("residency", {}).get("memory")
    memories = [chip.memories[_place(table, name)]] if name is not None else chip.memories
    shared = [memory for memory in memories if set(memory.holds) == set(OPERANDS)]
    if name is not None and (not shared or not isinstance(shared[0].capacity, int)):
        limit = "is no memory that inputs, weights and outputs share"
        raise InputError("machine.residency.memory", name, limit)
    if not shared or not isinstance(shared[0].capacity, int):
        return MachineReading(found, lacking)
    instances = 1
    for axis in shared[0].outside:
        instances *= axis.size
    return MachineReading({**found, "memory_bytes": shared[0].capacity * instances})


def _place(table: dict[str, Any], name: str) -> int:
    """Return which of the memories on chip has a name."""
    names = [level["name"] for level in table.get("levels", ())[1:] if not level["fanout"]]
    if name not in names:
        limit = f"names no memory on chip; there are {', '.join(names) or 'none with names'}"
        raise InputError("machine.residency.memory", name, limit)
    return names.index(name)


def _hierarchy(chip: OnChip, table: dict[str, Any], element_bytes: int) -> dict[str, Any]:
    """Return the rates of a hierarchy: MACs of all instances, and the slower direction of external memory."""
    macs = chip.macs_per_cycle
    for axis in chip.axes:
        macs *= axis.size
    found = {"macs_per_cycle": macs, "dma_setup_cycles": 0}
    rates = [rate for rate in chip.rates if rate is not None]
    if rates:
        found["bus_elements_per_cycle"] = max(1, int(min(rates)) // element_bytes)
    if table.get("vector_ops_per_cycle") is not None:
        found["vector_ops_per_cycle"] = table["vector_ops_per_cycle"]
    return found


def _npu(table: dict[str, Any]) -> MachineReading:
    """Return the rates of an NPU: MACs of all cores, and elements that DRAM moves in a core's cycle."""
    element_bytes = table["element_bytes"]
    found = {
        "element_bytes": min(8, element_bytes),
        "macs_per_cycle": table["macs_per_cycle"] * table["tles"] * table["tlts"],
        "bus_elements_per_cycle": max(1, table["cycle_ps"] // (table["byte_ps"] * element_bytes)),
        "dma_setup_cycles": 0,
    }
    if table.get("vector_ops_per_cycle") is not None:
        found["vector_ops_per_cycle"] = table["vector_ops_per_cycle"]
    separate = (
        "inputs, weights and outputs have memories of their own in each core of an npu, none of which is one"
    )
    return MachineReading(found, {"memory_bytes": separate})
