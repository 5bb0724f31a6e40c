"""The allocation problem: a network as a pipeline of layers on an array of processing elements (PEs)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from pydantic import Field

from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer, Spec
from tilewright.spec.network import Add, Map, Name, Network, Pool

if TYPE_CHECKING:
    from tilewright.allocation.placement.floor import Floor
    from tilewright.allocation.plan import Plan

MAX_SIDE = 1024
"""Most rows and columns of an array."""

UNITS = {
    "interval": "cycles per frame",
    "pes": "PEs",
    "latency": "cycles",
    "pareto": "cycles per frame",
    "distance": "hops",
}
"""What each objective counts."""

Side = Annotated[int, Field(ge=1, le=MAX_SIDE)]
Split = Literal["filters", "maps", "rows"]


class ArrayMachine(Spec):
    """A processor array with on-chip buffers at its border (TCPA paper, section 1).

    Attributes
    ----------
    array : (rows, columns)
        PEs.
    functional_units : int
        Multiply-accumulate units of each PE that work at a time (delta).
    clock_mhz : int
    buffer_bytes : int, optional
        On-chip buffers together (B_max); unlimited when left out.
    word_bits : int
        Bits of a weight and of a value of a feature map.
    """

    array: tuple[Side, Side]
    functional_units: Annotated[int, Field(ge=1, le=1024)] = 1
    clock_mhz: Annotated[int, Field(ge=1, le=100_000)]
    buffer_bytes: Annotated[int, Field(ge=1, le=2**40)] | None = None
    word_bits: Annotated[int, Field(ge=1, le=64)] = 8

    @property
    def pes(self) -> int:
        """Number of PEs."""
        return prod(self.array)

    @property
    def buffer_words(self) -> int | None:
        """Words that the buffers hold."""
        return None if self.buffer_bytes is None else 8 * self.buffer_bytes // self.word_bits

    def bytes(self, words: int) -> int:
        """Return the bytes of so many words, rounded up."""
        return -(-words * self.word_bits // 8)

    def frames_per_second(self, interval: int) -> float:
        """Return the rate of frames that follow each other after so many cycles (equations 5 and 13)."""
        return self.clock_mhz * 1e6 / interval


class AllocationObjective(Spec):
    """What is minimised.

    Attributes
    ----------
    minimise : {"interval", "pes", "latency", "pareto", "distance"}
        Cycles between two frames, so the most frames per second; PEs; cycles from a frame's first pixel to
        its last output; every trade-off of these three; hops between the regions of consecutive layers.
    frames_per_second : float, optional
        The rate that must be kept.
    """

    minimise: Literal["interval", "pes", "latency", "pareto", "distance"] = "interval"
    frames_per_second: Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False, strict=False)] | None = None


class AllocationLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    execution : {"layer-parallel", "layer-by-layer"}
        All layers at the same time on PEs of their own, or one after the other, each on up to all PEs.
    splits
        Over what a layer's work is divided among its PEs: ``filters`` as in the paper, input ``maps``,
        ``rows`` of the output.
    functional_units : {"maps", "any"}
        What the units of a PE work on in parallel: input maps as in the paper, or maps or filters.
    scan : {"rows", "fields"}
        Order of a layer's output pixels: row by row, or in the order in which the windows of its consumers
        need them (the paper's receptive fields).
    pes
        PEs of some layers, when they are given.
    """

    execution: Literal["layer-parallel", "layer-by-layer"] = "layer-parallel"
    splits: Annotated[tuple[Split, ...], Field(min_length=1, max_length=3)] = ("filters",)
    functional_units: Literal["maps", "any"] = "maps"
    scan: Literal["rows", "fields"] = "rows"
    pes: dict[Name, Annotated[int, Field(ge=1, le=MAX_SIDE**2)]] = Field(default_factory=dict)


class Task(NamedTuple):
    """What a layer has to compute for each frame.

    Attributes
    ----------
    filters, maps, window
        M, N and K*K: an output position takes ``filters * maps * window`` operations. A pooling layer has
        one filter that sees all maps (section 6), an addition a window of its inputs.
    rows, columns
        Of the output.
    """

    filters: int
    maps: int
    window: int
    rows: int
    columns: int

    @property
    def operations(self) -> int:
        """Operations for one frame (section 5.1)."""
        return prod(self)


@dataclass(frozen=True)
class Stage:
    """A layer of the pipeline.

    Attributes
    ----------
    number
        Place in the order of execution, from 0.
    spec
        Its geometry.
    channels
        Feature maps of the output.
    producers
        Numbers of the layers that it reads; -1 for the network's input.
    weights
        Words.
    """

    number: int
    name: str
    spec: Layer | Pool | Add | Map
    task: Task
    channels: int
    producers: tuple[int, ...]
    weights: int

    @property
    def weights_shape(self) -> tuple[int, int, int, int]:
        """Shape of the weights as a tensor."""
        return self.spec.kernels_shape if isinstance(self.spec, Layer) else (self.weights, 1, 1, 1)

    @property
    def macs_per_value(self) -> int:
        """Operations for one output value."""
        return self.task.window * (self.task.maps if isinstance(self.spec, Layer) else 1)


class Problem(Spec):
    """A network, an array, an objective and limits."""

    network: Network
    machine: ArrayMachine
    objective: AllocationObjective = AllocationObjective()
    limits: AllocationLimits = AllocationLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse what no array can do, naming the layer that blocks and what would be enough."""
        self.network.check_shapes()
        stages = self.stages
        if not stages:
            raise InputError("network.layers", len(self.network.layers), "holds no layer but fully connected")
        names = [stage.name for stage in stages]
        for name in self.limits.pes:
            if name not in names:
                raise InputError(
                    f"limits.pes.{name}",
                    self.limits.pes[name],
                    f"no such layer; there are: {', '.join(names)}",
                )
        taken = {"load", "write", *(f"{name} weights" for name in names)}
        for name in taken.intersection(names):
            raise InputError("network.layers", name, "is what something else is called; choose another name")
        if len(set(self.limits.splits)) != len(self.limits.splits):
            raise InputError("limits.splits", list(self.limits.splits), "each at most once")
        if "rows" in self.limits.splits and (
            self.limits.scan != "rows" or self.minimise in ("latency", "pareto")
        ):
            raise InputError(
                "limits.splits",
                list(self.limits.splits),
                "rows are split for scan rows, and to minimise interval, pes or distance only",
            )
        self._check_pes(stages)
        self._check_buffers(stages)
        if self.minimise == "pes" and self.objective.frames_per_second is None:
            raise InputError("objective.frames_per_second", None, "is needed to minimise PEs")
        if not self.parallel and self.minimise in ("pareto", "distance"):
            raise InputError(
                "objective.minimise", self.minimise, "is for layer-parallel execution; layers take turns here"
            )
        if self.most_interval is not None:
            self._check_rate(stages)

    def _check_pes(self, stages: tuple[Stage, ...]) -> None:
        pes, columns = self.machine.pes, self.machine.array[1]
        if not self.parallel:
            for name, given in self.limits.pes.items():
                if given > pes:
                    raise InputError(f"limits.pes.{name}", given, f"the array has {pes} PEs")
            return
        needed = sum(self.limits.pes.get(stage.name, 1) for stage in stages)
        if needed <= pes:
            return
        last, used = stages[0], 0
        for last in stages:
            used += self.limits.pes.get(last.name, 1)
            if used > pes:
                break
        fixed = "as limits.pes says" if self.limits.pes else "one for each layer"
        enough = f"{-(-needed // columns)} rows of {columns} would be enough"
        raise InputError(
            "machine.array",
            list(self.machine.array),
            f"has {pes} PEs, and layer {last.name} gets none: "
            f"the {len(stages)} layers need {needed}, {fixed}; {enough}",
        )

    def _check_buffers(self, stages: tuple[Stage, ...]) -> None:
        room = self.machine.buffer_words
        if room is None:
            return
        sizes = [stage.weights for stage in stages]
        needed = sum(sizes) if self.parallel else max(sizes)
        if needed <= room:
            return
        largest = max(stages, key=lambda stage: stage.weights)
        whose = "all weights" if self.parallel else "they"
        raise InputError(
            "machine.buffer_bytes",
            self.machine.buffer_bytes,
            f"is too small for the weights: layer {largest.name} has most, "
            f"{self.machine.bytes(largest.weights)} bytes, and {whose} need {self.machine.bytes(needed)}",
        )

    def _check_rate(self, stages: tuple[Stage, ...]) -> None:
        """Refuse a rate that no array reaches, whatever its size."""
        from tilewright.allocation.splits import fastest

        most = self.most_interval
        assert most is not None
        least = {stage: fastest(self, stage) for stage in stages}
        slowest = max(stages, key=least.__getitem__)
        interval = least[slowest] if self.parallel else sum(least.values())
        if interval > most:
            told = f"layer {slowest.name} takes {interval} cycles for a frame on any number of PEs"
            if not self.parallel:
                told = f"a frame takes {interval} cycles on any number of PEs, most of them in {slowest.name}"
            raise InputError(
                "objective.frames_per_second",
                self.objective.frames_per_second,
                f"{told}; at {self.machine.clock_mhz} MHz no array reaches more than "
                f"{self.machine.frames_per_second(interval):.6g}",
            )

    @property
    def minimise(self) -> str:
        """What is minimised."""
        return self.objective.minimise

    @property
    def unit(self) -> str:
        """What the objective counts."""
        return UNITS[self.minimise]

    @property
    def parallel(self) -> bool:
        """Whether the layers run at the same time."""
        return self.limits.execution == "layer-parallel"

    @property
    def most_interval(self) -> int | None:
        """Most cycles between two frames at the required rate."""
        rate = self.objective.frames_per_second
        # A rate that is the inverse of whole cycles must not lose one of them by rounding.
        return None if rate is None else int(self.machine.clock_mhz * 1_000_000 / rate * (1 + 1e-12))

    @cached_property
    def stages(self) -> tuple[Stage, ...]:
        """The layers that run on the array, in the order of execution.

        Fully connected layers run elsewhere (section 5), so they and what follows them are left out.
        """
        return tuple(_stages(self.network))

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the stages that read each stage."""
        found: list[list[int]] = [[] for _ in self.stages]
        for stage in self.stages:
            for producer in dict.fromkeys(stage.producers):
                if producer >= 0:
                    found[producer].append(stage.number)
        return tuple(map(tuple, found))

    @cached_property
    def unplaced(self) -> Plan | None:
        """The plan whose PEs are to be placed: that of the least interval; None if there is no plan."""
        from tilewright.allocation.exact.search import exhaustive

        objective = self.objective.model_copy(update={"minimise": "interval"})
        found = exhaustive(self.model_copy(update={"objective": objective}))
        return found.plans[0] if found is not None and found.plans else None

    def floor(self, plan: Plan) -> Floor:
        """Return what the placement of a plan's PEs has to keep to."""
        from tilewright.allocation.placement.floor import Floor

        border = (
            stage.number for stage in self.stages if -1 in stage.producers or not self.consumers[stage.number]
        )
        sizes = tuple(share.pes for share in plan.shares)
        return Floor(*self.machine.array, sizes, self.edges, tuple(border))

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of producer and consumer, without the network's input."""
        return tuple((producer, i) for producer, readers in enumerate(self.consumers) for i in readers)


ON_THE_ARRAY = ("conv", "pool", "add", "map")
"""Kinds of layers that PEs compute."""


def _stages(network: Network) -> list[Stage]:
    if any(layer.kind not in (*ON_THE_ARRAY, "fc") or layer.kind == "map" for layer in network.layers):
        from tilewright.spec.coarsening import coarse

        network = coarse(network)  # activations and the like are part of the layer before
    number: dict[int, int] = {-1: -1}
    stages: list[Stage] = []
    elsewhere: dict[int, str] = {}
    for place, (layer, producers) in enumerate(zip(network.layers, network.producers, strict=True)):
        blocking = next((elsewhere[producer] for producer in producers if producer in elsewhere), None)
        if not isinstance(layer, Layer | Pool | Add | Map) or layer.kind == "fc" or blocking:
            if blocking and layer.kind in ("conv", "pool", "add"):
                limit = f"reads {blocking}, which does not run on the array, so it has to be among the last"
                raise InputError("network.layers", layer.name, limit)
            elsewhere[place] = f"layer {layer.name} of kind {layer.kind}"
            continue
        number[place] = len(stages)
        filters, maps, window = 1, layer.input[0], prod(layer.kernel)
        weights = 0
        if isinstance(layer, Layer):
            filters, maps = layer.kernels, layer.input[0] // layer.groups
            weights = prod(layer.kernels_shape)
        elif isinstance(layer, Add):
            window = len(producers)
        elif isinstance(layer, Map):
            weights = layer.parameters
        stages.append(
            Stage(
                len(stages),
                layer.name,
                layer,
                Task(filters, maps, window, *layer.output_plane),
                layer.output_channels,
                tuple(number[producer] for producer in producers),
                weights,
            )
        )
    return stages
