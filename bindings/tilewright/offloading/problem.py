"""The offloading problem: a layer computed in steps whose every action is decided (S1 paper, section 2)."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tilewright.offloading.elements import Elements
from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.spec.objectives import Minimising, Objective, SingleObjective, by_name

Cycles = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=10**12)]

MAX_TAPS = 20_000_000
"""Most input elements of all patches together, each counted for every patch that needs it."""

MAX_ELEMENTS = 4_000_000
"""Most elements of the input, the kernels and the output together."""

MAX_PARTS = 64
"""Most processing parts."""

MAX_TOTAL = 2**53
"""Largest duration that is accepted."""


class OffloadingMachine(Spec):
    """The accelerator of S1 (section 2.1): a memory and a processing part, or several of them (figure 3).

    Attributes
    ----------
    macs_per_step : int, optional
        ``nbop_PE``, the MACs of one block, at most.
    unit : (patches, kernels, channels), optional
        Size of the matrix unit: a block has so many of each, at most. Give this or `macs_per_step`, or both.
    memory : int, optional
        ``size_MEM`` in elements, of each memory; unlimited when left out.
    load, write, compute : int
        ``t_l`` and ``t_w`` in cycles per element, ``t_acc`` in cycles per step.
    burst : int
        Cycles for each run of consecutive addresses in DRAM that a step loads or writes.
    kernels : {"dram", "step1", "preloaded"}
        Whether each step loads and frees kernels as it likes, or all are on chip from step 1 to the end,
        loaded by step 1 or beforehand.
    padding : {"loaded", "generated"}
        Whether padding is read like any other pixel (remark 2) or made on chip without a cost.
    parts : int
        Processing parts, which compute a block each in the same step.
    memories : {"shared", "own"}
        Whether the parts share one memory, or have one each.
    placement : {"counted", "contiguous"}
        Whether what is on chip must fit by count (assumption 1), or at addresses: what one step loads or
        computes and one step frees then lies in one piece.
    """

    table_name: ClassVar[str] = "machine"

    macs_per_step: Count | None = None
    unit: tuple[Count, Count, Count] | None = None
    memory: Count | None = None
    load: Cycles = 1
    write: Cycles = 1
    compute: Cycles = 1
    burst: Cycles = 0
    kernels: Literal["dram", "step1", "preloaded"] = "dram"
    padding: Literal["loaded", "generated"] = "loaded"
    parts: Annotated[int, Field(ge=1, le=MAX_PARTS)] = 1
    memories: Literal["shared", "own"] = "shared"
    placement: Literal["counted", "contiguous"] = "counted"


class OffloadingLimits(Spec):
    """What a plan may do.

    Attributes
    ----------
    form : {"direct", "gemm"}
        Whether patches share the pixels that they overlap in, or each patch is a row of a matrix with
        elements of its own (im2col, sections 1.3 and 8).
    channels : {"all", "any"}
        Whether a block computes complete outputs, or adds up some channels and leaves sums for later.
    steps : "free" or int
        Number of steps: any, or exactly the number given.
    reloads : int
        ``nb_data_reload``, how often an element of input or kernels may be loaded into one memory (section
        2.3); 0 lifts the limit.
    """

    table_name: ClassVar[str] = "limits"
    lifted: ClassVar[dict[str, Any]] = {"steps": "free", "reloads": 0}
    """What only leaves plans out, with the value that leaves none out."""

    form: Literal["direct", "gemm"] = "direct"
    channels: Literal["all", "any"] = "any"
    steps: Literal["free"] | Count = "free"
    reloads: Annotated[int, Field(ge=0, le=1_000_000)] = 2


OBJECTIVES = by_name(
    Objective("duration", "", "duration_cycles"), Objective("loads", "", "load_and_compute_cycles")
)
"""What can be minimised: cycles of equation 14, or those of loads and steps alone (equation 15)."""


class OffloadingObjective(SingleObjective):
    """What is minimised.

    Attributes
    ----------
    minimise : {"duration", "loads"}
        Definition 3 and equation 14, or without the first write of each output (equation 15).
    """

    minimise: Literal["duration", "loads"] = "duration"


class Problem(Minimising):
    """One layer on one machine; everything that heuristics, models and the simulator share."""

    can_minimise = OBJECTIVES

    layer: Layer
    machine: OffloadingMachine
    limits: OffloadingLimits = OffloadingLimits()
    objective: OffloadingObjective = OffloadingObjective()

    def model_post_init(self, _context: object) -> None:
        """Refuse layers that are not described, and machines that cannot compute the smallest block."""
        layer, machine = self.layer, self.machine
        for name in ("batch", "groups"):
            if (found := getattr(layer, name)) != 1:
                raise InputError(f"layer.{name}", found, "must be 1 here")
        positions = layer.output_plane[0] * layer.output_plane[1]
        taps = positions * layer.input[0] * layer.kernel[0] * layer.kernel[1]
        if taps > MAX_TAPS:
            raise InputError(
                "layer.input", list(layer.input), f"gives {taps} elements of patches, at most {MAX_TAPS}"
            )
        total = (
            taps
            if self.limits.form == "gemm"
            else layer.input[0] * layer.padded_plane[0] * layer.padded_plane[1]
        )
        total += layer.kernels * (positions + layer.input[0] * layer.kernel[0] * layer.kernel[1])
        if total > MAX_ELEMENTS:
            raise InputError(
                "layer.kernels", layer.kernels, f"gives {total} elements of data, at most {MAX_ELEMENTS}"
            )
        prices = machine.load + machine.write + machine.compute + 2 * machine.burst
        if taps * layer.kernels * prices > MAX_TOTAL:
            raise InputError("layer.kernels", layer.kernels, f"gives durations beyond {MAX_TOTAL} cycles")
        if machine.macs_per_step is None and machine.unit is None:
            raise InputError("machine.macs_per_step", None, "give it, or the size of a matrix unit, or both")
        least = self.least_block
        macs = least[0] * least[1] * least[2] * self.elements.taps
        if machine.macs_per_step is not None and machine.macs_per_step < macs:
            raise InputError(
                "machine.macs_per_step", machine.macs_per_step, f"the smallest block takes {macs} MACs"
            )
        if machine.unit is not None:
            for axis, (has, needs) in enumerate(zip(machine.unit, least, strict=True)):
                if has < needs:
                    name = ("patches", "kernels", "channels")[axis]
                    limit = f"the smallest block has {needs} {name}, the unit {has}"
                    raise InputError("machine.unit", list(machine.unit), limit)
        if machine.memory is not None and machine.memory < self.least_memory:
            raise InputError(
                "machine.memory", machine.memory, f"the smallest block needs {self.least_memory} elements"
            )
        steps = self.limits.steps
        if isinstance(steps, int) and not self.fewest_steps <= steps <= self.most_steps:
            raise InputError(
                "limits.steps", steps, f"must lie between {self.fewest_steps} and {self.most_steps}"
            )

    # Sizes -----------------------------------------------------------------------------------------

    @cached_property
    def elements(self) -> Elements:
        """Which elements patches, kernels and channels stand for."""
        return Elements.of(self.layer, self.limits.form, self.machine.padding)

    @property
    def kernels_stay(self) -> bool:
        """Whether all kernels are on chip from step 1 to the end."""
        return self.machine.kernels != "dram"

    @property
    def n_memories(self) -> int:
        """Number of memories."""
        return self.machine.parts if self.machine.memories == "own" else 1

    def memory_of(self, part: int) -> int:
        """Return the memory that a part computes in."""
        return part if self.machine.memories == "own" else 0

    @cached_property
    def least_block(self) -> tuple[int, int, int]:
        """Patches, kernels and channels of the smallest block: all of what a block may not cut."""
        sizes = self.elements
        return (
            1,
            sizes.n_kernels if self.kernels_stay else 1,
            sizes.n_channels if self.limits.channels == "all" else 1,
        )

    @cached_property
    def least_memory(self) -> int:
        """Elements on chip for the smallest block, whichever patch it has."""
        sizes, (_, kernels, channels) = self.elements, self.least_block
        per_channel = (sizes.inputs >= 0).sum(axis=2)
        largest = int(per_channel.sum(axis=1).max() if channels > 1 else per_channel.max())
        held = sizes.n_kernels * sizes.n_channels if self.kernels_stay else kernels * channels
        return largest + held * sizes.taps + kernels

    @cached_property
    def largest_block(self) -> tuple[int, int, int]:
        """Most patches, kernels and channels that a block can have, each for itself."""
        sizes, least = self.elements, self.least_block
        whole = (sizes.n_patches, sizes.n_kernels, sizes.n_channels)
        most = list(whole)
        if self.machine.unit is not None:
            most = [min(*pair) for pair in zip(most, self.machine.unit, strict=True)]
        if self.machine.macs_per_step is not None:
            cells = self.machine.macs_per_step // sizes.taps
            smallest = least[0] * least[1] * least[2]
            most = [min(many, cells * one // smallest) for many, one in zip(most, least, strict=True)]
        return most[0], most[1], most[2]

    def admits(self, patches: int, kernels: int, channels: int) -> bool:
        """Whether one part can compute a block of that size in a step."""
        machine = self.machine
        if machine.unit is not None and (
            patches > machine.unit[0] or kernels > machine.unit[1] or channels > machine.unit[2]
        ):
            return False
        macs = patches * kernels * channels * self.elements.taps
        return machine.macs_per_step is None or macs <= machine.macs_per_step

    @cached_property
    def most_cells(self) -> int:
        """Most patches times kernels times channels that any block can have, by its size alone."""
        sizes, least, most = self.elements, self.least_block, self.largest_block
        limit = self.machine.macs_per_step
        cells = sizes.n_cells if limit is None else limit // sizes.taps
        found = 0
        for kernels in range(least[1], most[1] + 1):
            for channels in range(least[2], most[2] + 1) if limit is not None else (most[2],):
                found = max(found, kernels * channels * min(most[0], cells // (kernels * channels)))
        return found

    @cached_property
    def fewest_steps(self) -> int:
        """No plan has fewer steps (definition 14, for blocks of any form)."""
        return -(-self.elements.n_cells // (self.most_cells * self.machine.parts))

    @cached_property
    def most_steps(self) -> int:
        """One smallest block in each step (definition 15)."""
        least = self.least_block
        return self.elements.n_cells // (least[0] * least[1] * least[2])

    @property
    def steps_range(self) -> tuple[int, int]:
        """Fewest and most steps that the limits allow."""
        steps = self.limits.steps
        return (self.fewest_steps, self.most_steps) if steps == "free" else (steps, steps)

    @property
    def max_loads(self) -> int | None:
        """How often a memory may load one element of input or kernels; None when the limit is lifted."""
        return self.limits.reloads or None

    # Prices ----------------------------------------------------------------------------------------

    @property
    def fixed_cost(self) -> int:
        """Cycles that no plan can change: kernels that stay, and the last write of each output."""
        machine, sizes = self.machine, self.elements
        loaded = self.n_memories * sizes.n_kernel_elements if machine.kernels == "step1" else 0
        writes = machine.write * sizes.n_outputs if self.minimise == "duration" else 0
        return machine.load * loaded + writes
