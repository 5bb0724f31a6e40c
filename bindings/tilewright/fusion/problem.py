"""The fusion problem: a network graph, an accelerator with engines of its own for each kind of work."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import prod
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from tilewright.fusion.graph import MOST_ORDERS, Orders, engine_of, orders_of
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.layouts import Decided, DramTensor, Place, copy_cycles, dram_tensors, place_of
from tilewright.fusion.machine import HOST, EngineMachine
from tilewright.fusion.matching import check_matches, matches
from tilewright.fusion.templates import Template, bundled
from tilewright.spec.base import Spec
from tilewright.spec.coarsening import coarse_graph
from tilewright.spec.errors import InputError
from tilewright.spec.graph import NetworkGraph, Operation
from tilewright.spec.network import Network
from tilewright.spec.objectives import Minimising, Objective, SingleObjective, by_name

OBJECTIVES = by_name(
    Objective("cycles", "cycles", "duration_cycles"),
    Objective("traffic", "bytes", "traffic_bytes"),
    Objective("energy", "nJ", "energy_nj"),
    Objective("memory", "bytes", "memory_bytes"),
)
"""What can be minimised."""

MOST_CYCLES = 2**50
"""The highest limit on cycles."""


class FusionObjective(SingleObjective):
    """What is minimised.

    Attributes
    ----------
    minimise : {"cycles", "traffic", "energy", "memory"}
        Cycles of all groups, one after the other; bytes moved from and to DRAM; nanojoules; or the most bytes
        of the buffers that a group takes.
    most_cycles : int, optional
        For ``memory``: most cycles of all groups; by default what they take without any fusion, and any
        number where that is impossible.
    """

    minimise: Literal["cycles", "traffic", "energy", "memory"] = "cycles"
    most_cycles: Annotated[int, Field(ge=1, le=MOST_CYCLES)] | None = None


MOST_TILES = 500_000
"""Most sizes of tiles that are tried where all are."""


MOST_LAYOUTS = 1024
"""Most layouts of all maps that a group loads and saves, together."""


class FusionLimits(Spec):
    """What plans may do.

    Attributes
    ----------
    halo : {"any", "recompute", "keep"}
        What overlaps between two neighbouring tiles is loaded and computed again, or kept on chip.
    tiles : {"grid", "any"}
        Sizes of tiles: of a coarse grid (docs/fusion.md, Which tiles plans have), or all that there are, for
        operations with few.
    """

    table_name: ClassVar[str] = "limits"
    later: ClassVar[tuple[str, ...]] = ("tiles",)
    lifted: ClassVar[dict[str, Any]] = {"halo": "any"}
    """What only leaves plans out, with the value that leaves none out."""

    halo: Literal["any", "recompute", "keep"] = "any"
    tiles: Literal["grid", "any"] = "grid"


class Problem(Minimising):
    """A network, an accelerator, templates of what may be fused, an objective and limits.

    Attributes
    ----------
    templates
        Patterns of operations that may be executed as one group.
    """

    can_minimise = OBJECTIVES

    network: Network
    machine: EngineMachine
    templates: Annotated[tuple[Template, ...], Field(min_length=1, max_length=200)] = Field(
        default_factory=bundled
    )
    objective: FusionObjective = FusionObjective()
    limits: FusionLimits = FusionLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse networks that do not fit together, and missing prices.

        Whether there is a plan at all is for the bound and the methods to say: which buffers are too small
        for an operation depends on the groups that it can be in.
        """
        self.network.check_shapes()
        if self.objective.most_cycles is not None and self.minimise != "memory":
            raise InputError(
                "objective.most_cycles", self.objective.most_cycles, 'is for minimise = "memory" only'
            )
        names = [template.name for template in self.templates]
        for name in names:
            if names.count(name) > 1:
                raise InputError("templates", name, "two templates have this name")
        if all(engine_of(op) == HOST for op in self.ops):
            raise InputError("network.layers", len(self.ops), "holds no operation that the accelerator does")
        self._check_prices()
        check_matches(self.graph, self.templates)
        self._check_tiles()
        self._check_layouts()

    def _check_layouts(self) -> None:
        """Refuse more layouts of what a group loads and saves than are tried."""
        if self.machine.layouts is None:
            return
        for nodes in self.allowed:
            many = prod(len(self.tensors[index].layouts) for index in self.outside(nodes))
            if many > MOST_LAYOUTS:
                told = " + ".join(self.ops[number].name for number in nodes)
                told = f"{told} loads and saves maps in {many:,} layouts, {MOST_LAYOUTS:,} are tried at most"
                raise InputError("machine.layouts.direct", [*self.machine.layouts.direct], told)

    def _check_tiles(self) -> None:
        """Refuse tiles of all sizes where there are too many: every one is looked at."""
        if self.limits.tiles == "grid":
            return
        many, largest = max((self._tiles_of(nodes), nodes) for nodes in self.allowed)
        if many > MOST_TILES:
            told = " + ".join(self.ops[number].name for number in largest)
            told = f"{told} may have tiles of {many:,} sizes, of which {MOST_TILES:,} are tried at most"
            raise InputError("limits.tiles", "any", f'{told}; "grid" tries some')

    def _tiles_of(self, nodes: Sequence[int]) -> int:
        """Return how many sizes of tiles a group has; none for what the host computes."""
        if engine_of(self.ops[nodes[0]]) == HOST:
            return 0
        fused = self.fused(nodes)
        widest = max(fused.features[member].shape[0] for member in fused.members)
        return prod(fused.plane) * widest * (fused.summed(fused.loaded) if fused.sums else 1)

    def _check_prices(self) -> None:
        """Refuse to minimise energy where nothing has a price, so that all plans are equally good."""
        prices = self.machine.energy
        if self.minimise != "energy" or prices.pj_per_dram_byte or prices.milliwatts:
            return
        told = "nothing has a price: "
        if prices.pj_per_mac:
            if any(op.macs for op in self.ops if engine_of(op) != HOST):
                return
            told = "the only price is that of MACs, which nothing here takes: "
        keys = " or ".join(f"machine.energy.{name}" for name in ("pj_per_dram_byte", "milliwatts"))
        raise InputError("objective.minimise", "energy", f"{told}{keys} must be more than 0, or pj_per_mac")

    @cached_property
    def allowed(self) -> dict[tuple[int, ...], bool]:
        """Groups that templates allow, and each operation alone; whether they may be tiled."""
        return {
            nodes: len(nodes) == 1 or any(not template.untiled for template in templates)
            for nodes, templates in matches(self.graph, self.templates).items()
        }

    @cached_property
    def orders(self) -> str | None:
        """Say of which groups not all orders of their operations are tried; None where they are."""
        many = sum(not self.orders_of(nodes).every for nodes in self.allowed if len(nodes) > 1)
        if not many:
            return None
        return f"{many} groups have more than {MOST_ORDERS} orders of their operations; not all are tried"

    def orders_of(self, nodes: Sequence[int]) -> Orders:
        """Return the orders in which the operations of a group may be executed, found once."""
        key = tuple(sorted(nodes))
        if key not in self._orders:
            self._orders[key] = orders_of(self.graph, key)
        return self._orders[key]

    @cached_property
    def _orders(self) -> dict[tuple[int, ...], Orders]:
        return {}

    @cached_property
    def graph(self) -> NetworkGraph:
        """The coarse graph of the network."""
        return coarse_graph(self.network)

    @property
    def ops(self) -> tuple[Operation, ...]:
        """The operations of the coarse graph, in an order of execution."""
        return self.graph.ops

    @property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the operations that read each operation, ascending, each once."""
        return self.graph.consumers

    @property
    def ancestors(self) -> tuple[int, ...]:
        """For each operation, a bit mask of all that it depends on, directly or through others."""
        return self.graph.ancestors

    def fused(self, nodes: Sequence[int], layouts: Decided | None = None) -> FusedGroup:
        """Return what a group of operations, in the order of execution, is made of.

        Parameters
        ----------
        layouts
            Of the DRAM tensors that it loads and saves; the paper's for those that are left out.
        """
        return FusedGroup(self.machine, self.graph, nodes, self.places(layouts or {}))

    # Layouts -----------------------------------------------------------------------------------------

    @cached_property
    def tensors(self) -> tuple[DramTensor, ...]:
        """Maps in DRAM, those together that have one layout."""
        return dram_tensors(self.graph, self.machine.layouts, [engine_of(op) for op in self.ops])

    @cached_property
    def tensor_of(self) -> dict[int, int]:
        """For each map, the number of its DRAM tensor."""
        return {number: index for index, tensor in enumerate(self.tensors) for number in tensor.maps}

    def places(self, layouts: Decided) -> dict[int, Place] | None:
        """Return where maps lie in their arrays; None where that costs nothing."""
        if self.machine.layouts is None:
            return None
        return {
            number: place_of(self.graph, tensor, number, layouts.get(index, tensor.layouts[0]))
            for index, tensor in enumerate(self.tensors)
            for number in tensor.maps
        }

    def maps_outside(self, nodes: Sequence[int]) -> set[int]:
        """Return the numbers of the maps that a group loads and saves; none of the host's."""
        if engine_of(self.ops[nodes[0]]) == HOST:
            return set()
        members = set(nodes)
        loaded = {source for node in nodes for source in self.ops[node].producers} - members
        leaving = (
            node for node in nodes if self.ops[node].leaves or not members.issuperset(self.consumers[node])
        )
        return loaded.union(leaving)

    def outside(self, nodes: Sequence[int]) -> tuple[int, ...]:
        """Return the numbers of the DRAM tensors that a group loads and saves, ascending."""
        return tuple(sorted({self.tensor_of[number] for number in self.maps_outside(nodes)}))

    def copied(self, layouts: Decided) -> dict[int, int]:
        """Return the maps that are copied into or from another layout, with the cycles of each.

        Parameters
        ----------
        layouts
            Of all DRAM tensors that are in DRAM.
        """
        return {
            number: copy_cycles(self.machine, self.graph, number)
            for index, layout in layouts.items()
            for number in self.tensors[index].copied[self.tensors[index].layouts.index(layout)]
        }

    def copy_cost(self, cycles: int) -> int:
        """Return what a copy adds to what groups cost, as the host's other work does."""
        if self.minimise == "energy":
            return int(self.machine.nanojoules(0, 0, cycles))
        return 0 if self.minimise == "traffic" else cycles
