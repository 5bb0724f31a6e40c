"""The tiling problem: one layer, or the layers of a network one after the other, on one machine."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, ClassVar, NamedTuple

from pydantic import Field

from tilewright.spec.base import Spec
from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.layer import MAX_SIZE, Layer
from tilewright.spec.network import Network
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.npu.machine import NpuMachine

OBJECTIVES = {"dsp": ("accesses", "cycles", "energy", "pareto"), "npu": ("time",)}
"""What can be minimised, the default first."""

UNITS = {"accesses": "elements", "cycles": "cycles", "energy": "fJ", "pareto": "cycles", "time": "ps"}
"""What each objective counts."""

SCHEDULES = {
    "dsp": ("any", "thesis", "intra", "kc", "oc", "oxyn", "oxyn/ox"),
    "npu": ("any", "IS", "OS", "WS"),
}
"""Schedules that plans can be limited to."""

PARTITIONS = {"dsp": ("any",), "npu": ("any", "KS", "KS&OFM", "OFM")}
"""Partitions over the cores that plans can be limited to."""


class TilingObjective(Spec):
    """What is minimised; by default a DSP's accesses to external memory, a multicore NPU's time.

    Attributes
    ----------
    minimise : {"accesses", "cycles", "energy", "pareto", "time"}
        Elements moved from and to external memory; cycles of a DSP; femtojoules of a DSP; every trade-off of
        throughput against memory efficiency (thesis, equation 5.24); picoseconds of an NPU.
    """

    table_name: ClassVar[str] = "objective"

    minimise: str | None = None


class TilingLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    schedule
        DSP: ``any`` order of the tile loops, the ``thesis``'s five schedules, or one of them: ``intra``,
        ``kc``, ``oc``, ``oxyn``, ``oxyn/ox``. NPU: ``any``, ``IS``, ``OS``, ``WS``.
    partition
        NPU: ``any``, ``KS``, ``KS&OFM``, ``OFM``.
    """

    table_name: ClassVar[str] = "limits"

    schedule: str = "any"
    partition: str = "any"


class Part(NamedTuple):
    """A layer of a problem, as a problem of its own."""

    name: str
    problem: Problem


class Problem(Spec):
    """A layer or a network, a machine and an objective.

    Attributes
    ----------
    batch
        Images that a network processes together, when it is not what the network's file says.
    """

    layer: Layer | None = None
    network: Network | None = None
    batch: Annotated[int, Field(ge=1, le=MAX_SIZE)] | None = None
    machine: Annotated[DspMachine | NpuMachine, Field(discriminator="kind")]
    objective: TilingObjective = TilingObjective()
    limits: TilingLimits = TilingLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse combinations that do not exist, and machines on which a layer cannot run."""
        if (self.layer is None) == (self.network is None):
            raise InputError("layer", None, "exactly one of layer and network must be given")
        if self.layer is not None and self.batch is not None:
            raise InputError("batch", self.batch, "is for networks; a layer has a batch of its own")
        self._check_choices()
        if self.layer is not None:
            self.machine.check(self.layer, self.minimise)
        elif self.network is not None and not self.parts:  # which are checked as they are built
            limit = "has no convolution and no fully connected layer, which are what is tiled"
            raise InputError("network.layers", [layer.name for layer in self.network.layers], limit)

    def _check_choices(self) -> None:
        """Refuse what this machine does not have, with what it has; a front is of a single layer."""
        kind, network = self.machine.kind, self.network is not None
        objectives = tuple(name for name in OBJECTIVES[kind] if not (network and name == "pareto"))
        for field, value, known in (
            ("objective.minimise", self.minimise, objectives),
            ("limits.schedule", self.limits.schedule, SCHEDULES[kind]),
            ("limits.partition", self.limits.partition, PARTITIONS[kind]),
        ):
            if value in known:
                continue
            there_are = f"a machine of kind {kind} has: {', '.join(known)}"
            if value == "pareto" and value in OBJECTIVES[kind]:
                there_are = f"is for a single layer, not for a network; {there_are}"
            raise InputError(field, value, there_are + did_you_mean(value, known))

    @property
    def minimise(self) -> str:
        """What is minimised."""
        return self.objective.minimise or OBJECTIVES[self.machine.kind][0]

    @property
    def unit(self) -> str:
        """What the objective counts."""
        return UNITS[self.minimise]

    @property
    def one_layer(self) -> Layer:
        """The layer of a problem that has one only."""
        assert self.layer is not None
        return self.layer

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every layer as a problem of its own, in order; equal layers share one problem."""
        return (Part("", self),) if self.network is None else self._layers

    @cached_property
    def _layers(self) -> tuple[Part, ...]:
        assert self.network is not None
        known: dict[Layer, Problem] = {}
        parts = []
        for named in self.network.convolutions:
            try:
                layer = named.unnamed(self.batch)
                if layer not in known:
                    known[layer] = Problem(
                        layer=layer, machine=self.machine, objective=self.objective, limits=self.limits
                    )
            except InputError as error:
                limit = f"layer {named.name}: {error.limit}"
                raise InputError(error.field, error.value, limit) from None
            parts.append(Part(named.name, known[layer]))
        return tuple(parts)
