"""The grouping problem: a layer whose patches are computed in steps (S1 paper, sections 3 to 5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.spec.objectives import Minimising, Objective, SingleObjective, by_name

Cycles = Annotated[int, Field(ge=0, le=1_000_000)]
Count = Annotated[int, Field(ge=1, le=10**15)]

MAX_PATCHES = 250_000
"""Largest number of patches of a layer that is accepted."""

MAX_TAPS = 40_000_000
"""Largest number of pixels of all patches together, each counted for every patch that needs it."""

MAX_TOTAL = 2**62
"""Largest number of MACs and cycles that is accepted, so that every sum fits into 64 bits."""


class GroupingMachine(Spec):
    """The accelerator of S1 (section 2.1): a memory and a processing part.

    Attributes
    ----------
    group_size : int, optional
        ``nb_patches_max_S1``, the most patches of one step; give this or `macs_per_step`.
    macs_per_step : int, optional
        ``nbop_PE``, the MACs of one step.
    memory : int, optional
        ``size_MEM`` in elements; unlimited when left out.
    load, write, compute : int
        ``t_l`` and ``t_w`` in cycles per element, ``t_acc`` in cycles per step.
    kernels : {"preloaded", "step1"}
        Whether the kernels are on chip beforehand (equation 15) or loaded by the first step.
    outputs : {"each_step", "kept"}
        Whether every step writes back what the one before computed, or outputs stay while they fit.
    padding : {"loaded", "generated"}
        Whether padding is read like any other pixel (remark 2) or made on chip without a cost.
    """

    table_name: ClassVar[str] = "machine"

    group_size: Count | None = None
    macs_per_step: Count | None = None
    memory: Count | None = None
    load: Cycles = 1
    write: Cycles = 1
    compute: Cycles = 1
    kernels: Literal["preloaded", "step1"] = "preloaded"
    outputs: Literal["each_step", "kept"] = "each_step"
    padding: Literal["loaded", "generated"] = "loaded"


class GroupingLimits(Spec):
    """What a plan may do.

    Attributes
    ----------
    steps : "free", "kmin" or int
        Number of steps: between K_min and K_max (definitions 14, 15), exactly K_min, or exactly the number
        given.
    reloads : int
        ``nb_data_reload``, how often a pixel may be loaded in all (equation 9); 0 lifts the limit.
    """

    table_name: ClassVar[str] = "limits"
    lifted: ClassVar[dict[str, Any]] = {"steps": "free", "reloads": 0}
    """What only leaves plans out, with the value that leaves none out."""

    steps: Literal["free", "kmin"] | Count = "free"
    reloads: Annotated[int, Field(ge=0, le=1_000_000)] = 2


OBJECTIVES = by_name(Objective("loads", "", ""), Objective("duration", "", "duration_cycles"))
"""What can be minimised: elements or pixels loaded with computing, which is no measure of its own, or cycles.

Summaries do not name what these count.
"""


class GroupingObjective(SingleObjective):
    """What is minimised.

    Attributes
    ----------
    minimise : {"loads", "duration"}
        Equation 15 (input loads and compute) or the whole of definition 3.
    count : {"elements", "pixels"}
        Whether ``t_l`` and ``t_w`` are paid per element or per pixel, all channels at once (remark 6).
    """

    minimise: Literal["loads", "duration"] = "loads"
    count: Literal["elements", "pixels"] = "elements"


class Problem(Minimising):
    """One layer on one machine; everything that heuristics, models and the simulator share.

    A *pixel* is a position of the padded input plane, all channels and images together; a *patch* is
    the set of pixels that one output position needs (definition 10). Both are numbered row-major.
    """

    can_minimise = OBJECTIVES

    layer: Layer
    machine: GroupingMachine
    limits: GroupingLimits = GroupingLimits()
    objective: GroupingObjective = GroupingObjective()

    def model_post_init(self, _context: object) -> None:
        """Refuse machines that cannot compute a single patch and step counts that do not exist."""
        machine, layer = self.machine, self.layer
        if (machine.group_size is None) == (machine.macs_per_step is None):
            raise InputError(
                "machine.group_size",
                machine.group_size,
                "exactly one of group_size and macs_per_step must be given",
            )
        if self.n_patches > MAX_PATCHES:
            raise InputError(
                "layer.input", list(layer.input), f"gives {self.n_patches} patches, at most {MAX_PATCHES}"
            )
        taps = self.n_patches * layer.kernel[0] * layer.kernel[1]
        if taps > MAX_TAPS:
            raise InputError(
                "layer.kernel", list(layer.kernel), f"gives {taps} pixels of patches, at most {MAX_TAPS}"
            )
        largest = max(self.n_patches * self.macs_per_patch, self.cost(taps, self.n_patches))
        if largest > MAX_TOTAL:
            raise InputError(
                "layer.input",
                list(layer.input),
                f"gives totals of {largest}, at most {MAX_TOTAL} can be counted",
            )
        if machine.macs_per_step is not None and machine.macs_per_step < self.macs_per_patch:
            raise InputError(
                "machine.macs_per_step",
                machine.macs_per_step,
                f"one patch takes {self.macs_per_patch} MACs, so at least that many are needed",
            )
        if machine.memory is not None:
            needed = self.memory_needed(int(self.patch_sizes.max()), 1)
            if machine.memory < needed:
                raise InputError(
                    "machine.memory",
                    machine.memory,
                    f"one patch ({int(self.patch_sizes.max()) * self.pixel_elements}), the kernels "
                    f"({self.kernel_elements}) and its outputs ({self.patch_outputs}) need {needed} "
                    "elements; room offloading loads kernels step by step",
                )
        steps = self.limits.steps
        if isinstance(steps, int) and not self.kmin <= steps <= self.kmax:
            raise InputError(
                "limits.steps", steps, f"must lie between K_min = {self.kmin} and K_max = {self.kmax}"
            )

    # Sizes -----------------------------------------------------------------------------------------

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches, H_out and W_out."""
        return self.layer.output_plane

    @property
    def n_patches(self) -> int:
        """``|X|``, the number of patches."""
        return self.grid[0] * self.grid[1]

    @property
    def n_pixels(self) -> int:
        """Number of positions of the padded input plane, whether any patch needs them or not."""
        height, width = self.layer.padded_plane
        return height * width

    @property
    def pixel_elements(self) -> int:
        """Elements of one pixel: input channels times batch."""
        return self.layer.input[0] * self.layer.batch

    @property
    def patch_outputs(self) -> int:
        """Output elements of one patch: kernels times batch."""
        return self.layer.kernels * self.layer.batch

    @property
    def kernel_elements(self) -> int:
        """Elements of all kernels together."""
        return int(np.prod(self.layer.kernels_shape))

    @property
    def macs_per_patch(self) -> int:
        """MACs of one patch with all kernels (property 1)."""
        return self.layer.macs_per_output * self.patch_outputs

    @cached_property
    def group_size(self) -> int:
        """``nb_patches_max_S1`` (section 4.2), no more than there are patches."""
        if self.machine.group_size is not None:
            return min(self.machine.group_size, self.n_patches)
        assert self.machine.macs_per_step is not None
        return min(self.machine.macs_per_step // self.macs_per_patch, self.n_patches)

    @property
    def kmin(self) -> int:
        """K_min, the fewest steps that can hold all patches (definition 14)."""
        return -(-self.n_patches // self.group_size)

    @property
    def kmax(self) -> int:
        """K_max, one patch per step (definition 15)."""
        return self.n_patches

    @property
    def steps_range(self) -> tuple[int, int]:
        """Fewest and most steps that the limits allow."""
        steps = self.limits.steps
        if steps == "free":
            return self.kmin, self.kmax
        return (self.kmin, self.kmin) if steps == "kmin" else (steps, steps)

    def with_steps(self, steps: int) -> Problem:
        """Return the same problem for plans of exactly `steps` steps."""
        return self.with_(limits={"steps": steps})

    @property
    def max_loads(self) -> int:
        """How often one pixel may be loaded; one per step when the limit is lifted."""
        return self.limits.reloads or self.kmax

    # Geometry --------------------------------------------------------------------------------------

    @cached_property
    def patch_pixels(self) -> NDArray[np.int32]:
        """Pixels of each patch, shape ``(n_patches, H_K * W_K)``.

        Padding that is generated on chip stands as -1: it is neither loaded nor stored.
        """
        layer = self.layer
        rows, cols = layer.positions(columns=False), layer.positions(columns=True)
        pixels = rows[:, None, :, None] * layer.padded_plane[1] + cols[None, :, None, :]
        if self.machine.padding == "generated":
            top, _, left, _ = layer.padding
            real_rows = (rows >= top) & (rows < top + layer.input[1])
            real_cols = (cols >= left) & (cols < left + layer.input[2])
            pixels = np.where(real_rows[:, None, :, None] & real_cols[None, :, None, :], pixels, -1)
        flat = np.ascontiguousarray(pixels.reshape(self.n_patches, -1), dtype=np.int32)
        flat.setflags(write=False)
        return flat

    @cached_property
    def patch_sizes(self) -> NDArray[np.int64]:
        """Number of pixels of each patch, shape ``(n_patches,)``."""
        sizes: NDArray[np.int64] = (self.patch_pixels >= 0).sum(axis=1, dtype=np.int64)
        return sizes

    @cached_property
    def needed_pixels(self) -> NDArray[np.int32]:
        """The pixels that some patch needs, ascending; each must be loaded at least once."""
        pixels = np.unique(self.patch_pixels)
        return pixels[pixels >= 0]

    @property
    def generates_padding(self) -> bool:
        """Whether patches need pixels that are made on chip."""
        return self.machine.padding == "generated" and any(self.layer.padding)

    def patch(self, index: int) -> tuple[int, int]:
        """Return the (row, column) of patch number `index`."""
        return divmod(index, self.grid[1])

    def patches(self) -> Iterator[tuple[int, int]]:
        """Iterate over all patches as (row, column), row-major."""
        return (self.patch(index) for index in range(self.n_patches))

    # Limits and costs ------------------------------------------------------------------------------

    def memory_needed(self, pixels: int, patches: int) -> int:
        """Elements on chip for a group with `pixels` pixels and `patches` patches (equation 12)."""
        return pixels * self.pixel_elements + self.kernel_elements + patches * self.patch_outputs

    def max_group_pixels(self, patches: int) -> int:
        """Most pixels that the memory grants a group of `patches` patches (equation 12 solved for them)."""
        if self.machine.memory is None:
            return self.n_pixels
        free = self.machine.memory - self.kernel_elements - patches * self.patch_outputs
        return min(self.n_pixels, free // self.pixel_elements)

    @cached_property
    def max_pixels_by_size(self) -> NDArray[np.int64]:
        """`max_group_pixels` for 0, 1, ... `group_size` patches; negative where not even outputs fit."""
        return np.array([self.max_group_pixels(m) for m in range(self.group_size + 1)], dtype=np.int64)

    @property
    def load_cost(self) -> int:
        """Cycles to load one pixel."""
        return self.machine.load * (1 if self.objective.count == "pixels" else self.pixel_elements)

    @property
    def step_cost(self) -> int:
        """Cycles that each step adds, ``t_acc``."""
        return self.machine.compute

    @property
    def fixed_cost(self) -> int:
        """Cycles that no plan can change: kernels' loads and outputs' writes, in definition 3 only."""
        if self.objective.minimise == "loads":
            return 0
        per_patch = 1 if self.objective.count == "pixels" else self.patch_outputs
        writes = self.machine.write * self.n_patches * per_patch
        return writes + (self.machine.load * self.kernel_elements if self.machine.kernels == "step1" else 0)

    def cost(self, loads: int, steps: int) -> int:
        """Objective of a plan with `loads` pixel loads and `steps` steps (equation 15 or definition 3)."""
        return self.load_cost * loads + self.step_cost * steps + self.fixed_cost
