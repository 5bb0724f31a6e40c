"""The fusion problem: a network graph, an accelerator with engines of its own for each kind of work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Annotated, Any, Literal

import networkx as nx
from pydantic import Field

from tilewright.fusion.templates import Template, bundled
from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer, Spec
from tilewright.spec.network import Add, AnyLayer, Concat, Map, Mul, Network, Pool

UNITS = {"cycles": "cycles", "traffic": "bytes", "energy": "nJ", "memory": "bytes"}
"""What each objective counts."""

LOAD, SAVE, CONV, POOL, MISC = ENGINES = ("LOAD", "SAVE", "CONV", "POOL", "MISC")
"""The engines of the accelerator, which work at the same time (DNNVM paper, section 3.1)."""

BUFFERS = ("input", "output", "parameter")
"""The on-chip buffers: for maps that are loaded, for those that are computed, and for parameters."""

HOST = "HOST"
"""What computes operations that no engine of the accelerator does."""

Bytes = Annotated[int, Field(ge=1, le=2**32)]
Rate = Annotated[int, Field(ge=1, le=10_000_000)]
Cost = Annotated[int, Field(ge=0, le=10_000_000)]


class Energy(Spec):
    """What work costs; all picojoules.

    Attributes
    ----------
    pj_per_dram_byte, pj_per_mac
        Of each byte moved from or to DRAM, and of each MAC.
    milliwatts
        What the accelerator takes at all times.
    """

    pj_per_dram_byte: Cost = 0
    pj_per_mac: Cost = 0
    milliwatts: Cost = 0


class EngineMachine(Spec):
    """An accelerator with an engine for each kind of coarse instructions (DNNVM paper, section 3.1).

    Attributes
    ----------
    conv_array : (input channels, output channels, rows)
        MACs that the convolution engine does in a cycle, and over what they are spread.
    arrays
        Convolution arrays, each of which works on an image of its own with the same parameters.
    clock_mhz
    input_bytes, output_bytes, parameter_bytes
        On-chip buffers: for feature maps that are loaded, for those that are computed, for parameters.
    element_bytes
        Bytes of a value of a feature map and of a parameter.
    load_mb_per_s, save_mb_per_s
        10^6 bytes per second from DRAM, and to it.
    operands_per_cycle
        Values that the engines for pooling and for what else is done take in a cycle.
    issue_cycles
        What it takes to issue a group of operations before any engine works on it.
    """

    conv_array: tuple[
        Annotated[int, Field(ge=1, le=1024)],
        Annotated[int, Field(ge=1, le=1024)],
        Annotated[int, Field(ge=1, le=1024)],
    ]
    arrays: Annotated[int, Field(ge=1, le=64)] = 1
    clock_mhz: Annotated[int, Field(ge=1, le=100_000)]
    input_bytes: Bytes
    output_bytes: Bytes
    parameter_bytes: Bytes
    element_bytes: Annotated[int, Field(ge=1, le=8)] = 1
    load_mb_per_s: Rate
    save_mb_per_s: Rate
    operands_per_cycle: Rate
    issue_cycles: Cost = 0
    energy: Energy = Energy()

    @property
    def macs_per_cycle(self) -> int:
        """Most MACs of all arrays in a cycle."""
        return self.arrays * prod(self.conv_array)

    @property
    def buffer_bytes(self) -> int:
        """Bytes of all buffers."""
        return self.input_bytes + self.output_bytes + self.parameter_bytes

    def milliseconds(self, cycles: int) -> float:
        """Return how long so many cycles take."""
        return cycles / (self.clock_mhz * 1e3)

    def transfer_cycles(self, engine: str, elements: int) -> int:
        """Return how long `LOAD` or `SAVE` takes to move so many elements."""
        rate = self.load_mb_per_s if engine == LOAD else self.save_mb_per_s
        return -(-elements * self.element_bytes * self.clock_mhz // rate)


class FusionObjective(Spec):
    """What is minimised.

    Attributes
    ----------
    minimise : {"cycles", "traffic", "energy", "memory"}
        Cycles of all groups, one after the other; bytes moved from and to DRAM; nanojoules; or the most bytes
        of the buffers that a group takes.
    most_cycles : int, optional
        For ``memory``: most cycles of all groups; by default what they take without any fusion.
    """

    minimise: Literal["cycles", "traffic", "energy", "memory"] = "cycles"
    most_cycles: Annotated[int, Field(ge=1, le=2**50)] | None = None


class FusionLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    halo : {"any", "recompute", "keep"}
        What overlaps between two neighbouring tiles is loaded and computed again, or kept on chip.
    """

    halo: Literal["any", "recompute", "keep"] = "any"


@dataclass(frozen=True)
class Op:
    """An operation of the coarse graph (XGraph).

    Attributes
    ----------
    number
        Place in the order of execution, from 0.
    engine
        ``CONV``, ``POOL``, ``MISC``, or ``HOST`` for what the accelerator does not compute.
    producers
        Numbers of the operations that it reads; -1 for the network's input.
    """

    number: int
    name: str
    spec: AnyLayer
    engine: str
    producers: tuple[int, ...]

    @property
    def dense(self) -> bool:
        """Whether an output channel needs other input channels than that of its number."""
        if isinstance(self.spec, Map):
            return self.spec.op == "lrn"  # which reads neighbours
        return isinstance(self.spec, Layer) and not self.depthwise

    @property
    def depthwise(self) -> bool:
        """Whether it is a convolution in which each output channel has an input channel of its own."""
        return isinstance(self.spec, Layer) and self.spec.groups == self.spec.input[0] == self.spec.kernels

    @property
    def macs(self) -> int:
        """MACs of a convolution for one image, else 0."""
        return self.spec.macs // self.spec.batch if isinstance(self.spec, Layer) else 0


class Problem(Spec):
    """A network, an accelerator, templates of what may be fused, an objective and limits.

    Attributes
    ----------
    templates
        Patterns of operations that may be executed as one group.
    """

    network: Network
    machine: EngineMachine
    templates: Annotated[tuple[Template, ...], Field(min_length=1, max_length=200)] = Field(
        default_factory=bundled
    )
    objective: FusionObjective = FusionObjective()
    limits: FusionLimits = FusionLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse networks that do not fit together, and buffers that are too small for any tile."""
        self.network.check_shapes()
        if self.objective.most_cycles is not None and self.minimise != "memory":
            raise InputError(
                "objective.most_cycles", self.objective.most_cycles, 'is for minimise = "memory" only'
            )
        names = [template.name for template in self.templates]
        for name in names:
            if names.count(name) > 1:
                raise InputError("templates", name, "two templates have this name")
        if all(op.engine == HOST for op in self.ops):
            raise InputError("network.layers", len(self.ops), "holds no operation that the accelerator does")
        from tilewright.fusion.candidates import check_matches
        from tilewright.fusion.tiles import check_buffers

        check_matches(self)
        check_buffers(self)

    @cached_property
    def allowed(self) -> dict[tuple[int, ...], bool]:
        """Groups that templates allow, and each operation alone; whether they may be tiled."""
        from tilewright.fusion.candidates import matches

        return {
            nodes: len(nodes) == 1 or any(not template.untiled for template in templates)
            for nodes, templates in matches(self).items()
        }

    @cached_property
    def most_cycles(self) -> int:
        """Most cycles of all groups together where memory is minimised; by default what no fusion needs."""
        from tilewright.fusion.tiles import best

        if self.objective.most_cycles is not None:
            return self.objective.most_cycles
        cycles = self.model_copy(update={"objective": FusionObjective()})
        alone = (best(cycles, (op.number,)) for op in self.ops if op.engine != HOST)
        return sum(choice.cycles for choice in alone if choice is not None)

    @cached_property
    def choices(self) -> dict[object, Any]:
        """The best tiles of groups that were asked for, so that equal groups are searched once."""
        return {}

    @property
    def minimise(self) -> str:
        """What is minimised."""
        return self.objective.minimise

    @property
    def unit(self) -> str:
        """What the objective counts."""
        return UNITS[self.minimise]

    @cached_property
    def ops(self) -> tuple[Op, ...]:
        """The operations of the coarse graph, in an order of execution."""
        from tilewright.spec.coarsening import coarse

        graph = coarse(self.network)
        return tuple(
            Op(number, layer.name, layer, _engine(layer), producers)
            for number, (layer, producers) in enumerate(zip(graph.layers, graph.producers, strict=True))
        )

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the operations that read each operation, ascending, each once."""
        found: list[list[int]] = [[] for _ in self.ops]
        for op in self.ops:
            for producer in dict.fromkeys(op.producers):
                if producer >= 0:
                    found[producer].append(op.number)
        return tuple(map(tuple, found))

    @cached_property
    def graph(self) -> nx.DiGraph:
        """The operations' numbers, and -1 for the network's input, with an edge to every reader."""
        graph = nx.DiGraph()
        graph.add_node(-1)
        graph.add_nodes_from(op.number for op in self.ops)
        graph.add_edges_from((producer, op.number) for op in self.ops for producer in op.producers)
        return graph

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """For each operation, a bit mask of all that it depends on, directly or through others."""
        found: list[int] = []
        for op in self.ops:
            mask = 0
            for producer in op.producers:
                if producer >= 0:
                    mask |= found[producer] | 1 << producer
            found.append(mask)
        return tuple(found)


def _engine(layer: AnyLayer) -> str:
    if isinstance(layer, Layer):
        return CONV if layer.kind == "conv" else HOST
    if isinstance(layer, Pool):
        return POOL
    if isinstance(layer, Add | Mul | Concat) or (isinstance(layer, Map) and layer.op != "softmax"):
        return MISC
    return HOST
