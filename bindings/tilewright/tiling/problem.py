"""The tiling problem: one layer, or the layers of a network one after the other, on one machine."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from typing import Annotated, Any, ClassVar, NamedTuple

from pydantic import Field

from tilewright.spec.errors import InputError, did_you_mean
from tilewright.spec.graph import NetworkGraph
from tilewright.spec.layer import MAX_SIZE, Layer
from tilewright.spec.network import MatMul, NamedLayer, Network
from tilewright.spec.objectives import Minimising, Objective, tolerated
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.objectives import (
    ALONE,
    ATTENTION,
    BITS,
    CAPACITY,
    CAPACITY_FRONT,
    FACTORS,
    OBJECTIVES,
    PARTITIONS,
    SCHEDULES,
    TRADED,
    Ceilings,
    TilingLimits,
    TilingObjective,
)
from tilewright.tiling.operations.operation import Operation, Unmodelled, operations
from tilewright.tiling.operations.which_unit import unit_of, units_of


class Part(NamedTuple):
    """A layer of a problem, as a problem of its own."""

    name: str
    problem: Problem


class Problem(Minimising):
    """A layer or a network, a machine and an objective.

    Attributes
    ----------
    batch
        Images that a network processes together, when it is not what the network's file says.
    operation
        Instead of a layer, an operation between a network's layers, as a part of its problem.
    """

    later: ClassVar[tuple[str, ...]] = ("operation",)

    layer: Layer | None = None
    network: Network | None = None
    batch: Annotated[int, Field(ge=1, le=MAX_SIZE)] | None = None
    machine: Annotated[DspMachine | NpuMachine | HierarchyMachine, Field(discriminator="kind")]
    objective: TilingObjective = TilingObjective()
    limits: TilingLimits = TilingLimits()
    operation: Operation | None = None

    def model_post_init(self, _context: object) -> None:
        """Refuse combinations that do not exist, and machines on which a layer cannot run."""
        if sum(given is not None for given in (self.layer, self.network, self.operation)) != 1:
            raise InputError("layer", None, "exactly one of layer and network must be given")
        if self.network is None and self.batch is not None:
            raise InputError("batch", self.batch, "is for networks; a layer has a batch of its own")
        self._check_choices()
        self._check_level()
        self._check_between()
        self._check_prices()
        self._check_coupled()
        self._check_factors()
        if self.layer is not None:
            for name in self.traded or self.objective.names or (self.minimise,):
                self.machine.check(self.layer, name)
        elif self.operation is not None:
            if self.operation.attention is None and self.operation.on not in units_of(self.machine):
                limit = (
                    f"the machine has no {self.operation.on}: see vector_ops_per_cycle, vector_unit and host"
                )
                raise InputError("operation.on", self.operation.on, limit)
            if self.operation.attention is None:
                from tilewright.tiling.operations.search import check as check_operation  # for start-up time

                check_operation(self.operation, self.machine)
            elif self.machine.kind != "hierarchy":
                raise InputError(
                    "operation.attention", self.operation.op, "is for machines of kind hierarchy"
                )
        elif self.network is not None and not self.parts:  # which are checked as they are built
            limit = "has no convolution and no fully connected layer, which are what is tiled"
            raise InputError("network.layers", [layer.name for layer in self.network.layers], limit)

    def check_constraints(self) -> None:
        """Refuse constraints that have no meaning, of fronts, and those that relate layers."""
        field, said = "constraints", str(self.constraints[0])
        if self.minimise == "pareto":
            raise InputError(field, said, "are for a single plan, not for a front")
        if self.coupled:
            raise InputError(field, said, "are for networks whose layers do not depend on each other")
        super().check_constraints()
        _ = self.parts

    def _check_choices(self) -> None:
        """Refuse what this machine does not have, with what it has."""
        kind, limits = self.machine.kind, self.limits
        names = self.objective.names or (self.minimise,)
        every = (*OBJECTIVES[kind], "pareto")
        single = tuple(name for name in every if name not in ALONE)
        objectives = single if names[1:] else every
        if self.network is not None and not names[1:]:
            objectives = tuple(name for name in objectives if name != "edp")
        for field, value, known in (
            *(("objective.minimise", name, objectives) for name in names),
            *((f"limits.at_most.{name}", name, single) for name in limits.at_most.given),
            ("limits.schedule", limits.schedule, SCHEDULES[kind]),
            ("limits.partition", limits.partition, PARTITIONS[kind]),
            ("limits.factors", limits.factors or FACTORS[kind][0], FACTORS[kind]),
            ("limits.attention", limits.attention, ATTENTION[kind]),
        ):
            if value in known:
                continue
            there_are = f"a machine of kind {kind} has: {', '.join(known)}"
            if value in ALONE and value in every:
                alone = "itself, not for a list" if names[1:] else "a single layer, not for a network"
                there_are = f"is for {alone}; {there_are}"
            raise InputError(field, value, there_are + did_you_mean(value, known))
        if limits.schedule == "any+weights" and (names != ("accesses",) or limits.at_most.given):
            limit = "is for minimise = accesses without limits of cost"
            raise InputError("limits.schedule", limits.schedule, limit)
        if limits.at_most.given and names == ("pareto",):
            raise InputError("limits.at_most", limits.at_most.given, "is for a single plan, not for a front")

    def _check_level(self) -> None:
        """Refuse a level whose accesses cannot be counted."""
        level, field = self.objective.level, "objective.level"
        if level is None:
            return
        if self.machine.kind != "hierarchy":
            raise InputError(field, level, "is for machines of kind hierarchy")
        names = [one.name for one in self.machine.levels if not one.fanout]
        if level not in names:
            raise InputError(field, level, f"the machine has the memories {', '.join(names)}")

    def _check_between(self) -> None:
        """Refuse a front of what cannot be traded."""
        between, field = self.objective.between, "objective.between"
        if between is None:
            return
        if self.minimise != "pareto":
            raise InputError(field, list(between), "is for minimise = pareto")
        if "capacity" in between and self.machine.kind == "hierarchy":
            self._check_capacity_front(between)
            return
        known = tuple(name for name in OBJECTIVES[self.machine.kind] if name not in ALONE)
        for name in between:
            if name not in known:
                limit = f"takes two of: {', '.join(known)}{did_you_mean(name, known)}"
                raise InputError(field, list(between), limit)
        if between[0] == between[1]:
            raise InputError(field, list(between), f"takes two different ones of: {', '.join(known)}")

    def _check_prices(self) -> None:
        """Refuse to count energy where nothing has a price, so that all plans are equally good."""
        machine = self.machine
        if machine.kind == "npu" or machine.priced:
            return
        table = (
            "machine.mac_pj, or read_pj_per_byte of a level"
            if machine.kind == "hierarchy"
            else "machine.energy"
        )
        for field, names in (
            ("objective.minimise", self.objective.names or (self.minimise,)),
            ("objective.between", self.traded or ()),
            ("limits.at_most", tuple(self.limits.at_most.given)),
        ):
            for name in names:
                if name in ("energy", "edp"):
                    raise InputError(field, name, f"needs prices above 0: {table}")

    def _check_coupled(self) -> None:
        """Refuse what is not known of sums over layers: more than one limit, and of what is minimised."""
        objective, given = self.objective, self.limits.at_most.given
        if self.network is None:
            if objective.of_network:
                raise InputError("objective.tolerance_of", "network", "is for networks; this is a layer")
            return
        if not given:
            return
        if len(given) > 1 or self.minimise in given or self.before:
            limit = "is for a network one limit, on another cost than the one that is minimised"
            raise InputError("limits.at_most", given, limit)

    def _check_factors(self) -> None:
        """Refuse what is known of steps that divide alone, where others are allowed."""
        if self.limits.factors != "any" or self.machine.kind != "hierarchy":
            return
        if not self.plain:
            asked = "of one objective without limits of cost"
            raise InputError("limits.factors", "any", f"is for plans {asked}; others take perfect")
        for level in self.machine.levels:
            if level.halo:
                limit = f"machine.levels.{level.name}.halo is for factors that are perfect"
                raise InputError("limits.factors", "any", limit)

    def _check_capacity_front(self, between: tuple[str, str]) -> None:
        """Refuse a front of capacities where it is not one memory's that trades them for accesses outside."""
        if between != CAPACITY_FRONT:
            limit = (
                f"trades capacity as {list(CAPACITY_FRONT)}: the plan with the fewest accesses comes first"
            )
            raise InputError("objective.between", list(between), limit)
        assert self.machine.kind == "hierarchy"
        names = [level.name for level in self.machine.levels]
        if len(names) != 2:
            limit = (
                f"takes capacity on machines with two memories; this one has the levels {', '.join(names)}"
            )
            raise InputError("objective.between", list(between), limit)
        if self.machine.levels[1].uneven:
            limit = f"takes capacity where all tiles are of one block; {names[1]} is uneven"
            raise InputError("objective.between", list(between), limit)
        if self.level != names[0]:
            limit = f"must be {names[0]}, whose accesses a front trades for the capacity of {names[1]}"
            raise InputError("objective.level", self.level, limit)

    @property
    def trades_capacity(self) -> bool:
        """Whether a front is asked for that has the fewest accesses for every capacity."""
        return self.traded == CAPACITY_FRONT

    @property
    def traded(self) -> tuple[str, str] | None:
        """What a front trades for each other, the first plan having least of the first; None for no front."""
        if self.minimise != "pareto":
            return None
        if self.objective.between is not None:
            return self.objective.between
        if self.machine.kind == "hierarchy":
            return "cycles", "energy" if self.machine.priced else "accesses"
        return TRADED[self.machine.kind]

    @property
    def coupled(self) -> tuple[str, str] | None:
        """What a network may cost so much of in all, and what is minimised.

        None where layers do not depend on each other.
        """
        if self.network is None:
            return None
        limited = next(iter(self.limits.at_most.given), None)
        if self.objective.of_network:
            limited = self.objective.names[0]
        return None if limited is None else (limited, self.minimise)

    @property
    def counted(self) -> str:
        """What the objective counts; of a front what its first plan has least of."""
        return self.traded[0] if self.traded else self.minimise

    @property
    def level(self) -> str:
        """The memory of a hierarchy whose accesses are counted."""
        levels = self.machine.levels if self.machine.kind == "hierarchy" else ()
        return self.objective.level or next((level.name for level in levels), "")

    @property
    def plain(self) -> bool:
        """Whether one cost is minimised and none limited, as heuristics and formulations take it."""
        return self.minimise != "pareto" and not self.before and not self.limits.at_most.given

    def minimising(self, name: str) -> Problem:
        """Return the problem of a layer with one cost to minimise."""
        return self.with_(objective={"minimise": name, "tolerance": 0.0, "between": None})

    @property
    def in_turn(self) -> bool:
        """Whether there is a list whose objectives are minimised one after the other: for a layer."""
        return bool(self.before) and self.network is None

    def stage(self, least: Mapping[str, int]) -> Problem:
        """Return the problem of the first objective of a list whose least cost is not known, or of the last.

        Parameters
        ----------
        least
            What objectives before it cost at least, for a layer: they may cost that, and their tolerance.
        """
        at_most = self.limits.at_most.given
        for name, tolerance in self.before:
            if name not in least:
                return self.minimising(name).with_(limits={"at_most": at_most})
            most = tolerated(least[name], tolerance)
            at_most[name] = min(most, at_most.get(name, most))
        return self.minimising(self.minimise).with_(limits={"at_most": at_most})

    def refuse_lists(self, who: str) -> None:
        """Refuse lists of objectives, for methods that do not know them.

        Raises
        ------
        InputError
            Which says who does not know them.
        """
        if self.before:
            names = list(self.objective.names)
            raise InputError(
                "objective.minimise", names, f"{who} take a single objective; exhaustive takes lists"
            )

    def refuse_limits(self, who: str) -> None:
        """Refuse lists of objectives and limits of cost, for methods that do not know them.

        Raises
        ------
        InputError
            Which says who does not know them.
        """
        self.refuse_lists(who)
        if self.limits.at_most.given:
            limit = f"{who} do not limit costs; exhaustive does"
            raise InputError("limits.at_most", self.limits.at_most.given, limit)

    @property
    def unit(self) -> str:
        """What the objective counts; of a front its first plan's."""
        return self.objectives[self.counted].unit

    @property
    def objectives(self) -> Mapping[str, Objective]:
        """What plans cost on the machine: what can be minimised there, and what fronts can trade."""
        found = OBJECTIVES[self.machine.kind]
        if self.machine.kind == "hierarchy":
            return found | {"capacity": CAPACITY}
        return found if self.machine.bits is None else found | {"accesses": BITS}

    def measure_of(self, name: str) -> str:
        """Return the field of a layer's or a network's measures that has a cost."""
        return self.objectives[name].measure

    @property
    def one_layer(self) -> Layer:
        """The layer of a problem that has one only."""
        assert self.layer is not None
        return self.layer

    @property
    def one_operation(self) -> Operation:
        """The operation of a problem that has one only."""
        assert self.operation is not None
        return self.operation

    @property
    def parts(self) -> tuple[Part, ...]:
        """Every layer as a problem of its own, in order; equal layers share one problem.

        Where layers are `coupled`, these are the last objective's alone: what they may cost is not known.
        """
        return (Part("", self),) if self.network is None else self._layers

    @cached_property
    def _executed(self) -> tuple[NamedLayer | MatMul | tuple[str, Operation] | Unmodelled, ...]:
        """What the network does, in order."""
        graph, machine = self.executed_graph, self.machine
        if self.trades_capacity:
            return tuple(operations(graph, self.batch, lambda _, __: ""))
        apart = tuple(operations(graph, self.batch, partial(unit_of, machine)))
        if not self.joins_attention:
            return apart
        from tilewright.tiling.attention.chains import joined  # for start-up time

        return tuple(joined(graph, self.batch, apart))

    @property
    def joins_attention(self) -> bool:
        """Whether attention is an operation of its own, which may be one step: see `TilingLimits.attention`.

        Its operations are executed one by one where constraints, limits, lists or fronts speak of each.
        """
        plain = self.network is not None and self.plain and not self.constraints
        return self.machine.kind == "hierarchy" and plain and self.limits.attention != "apart"

    @property
    def apart(self) -> Problem:
        """The problem in which operations of attention are executed one by one."""
        return self.with_(limits={"attention": "apart"}) if self.joins_attention else self

    @cached_property
    def executed_graph(self) -> NetworkGraph:
        """The network as it is executed: where operations count, activations are part of others."""
        assert self.network is not None
        if self.trades_capacity or not units_of(self.machine):
            return NetworkGraph.of(self.network)
        from tilewright.spec.coarsening import coarse_graph  # for start-up time

        return coarse_graph(self.network)

    @property
    def unmodelled(self) -> tuple[Unmodelled, ...]:
        """The operations of the network that nothing on the machine is told to do."""
        if self.network is None:
            return ()
        return tuple(each for each in self._executed if isinstance(each, Unmodelled))

    @cached_property
    def _layers(self) -> tuple[Part, ...]:
        return self._split() if self.constraints else self.unconstrained_parts

    @cached_property
    def unconstrained_parts(self) -> tuple[Part, ...]:
        """The layers of a network as problems of their own, without its constraints."""
        return self._split(constrained=False)

    def _split(self, *, constrained: bool = True) -> tuple[Part, ...]:
        known: dict[Any, Problem] = {}
        parts = []
        objective, limits = self.objective, self.limits
        if self.coupled:
            objective = TilingObjective(minimise=self.minimise, level=self.objective.level)
            limits = limits.with_(at_most=Ceilings())
        for each in self._executed:
            if isinstance(each, Unmodelled):
                continue
            name = each[0] if isinstance(each, tuple) else each.name
            try:
                if isinstance(each, tuple):
                    from tilewright.tiling.operations.search import as_it_fits  # for start-up time

                    what: Layer | Operation = each[1]
                    if each[1].attention is None:
                        what = as_it_fits(each[1], self.machine)
                else:
                    what = each.unnamed(self.batch)
                if (what, ()) not in known:
                    known[what, ()] = self._part(what, objective, limits)
                says = self.said_of(name) if constrained else ()
                if (what, says) not in known:
                    known[what, says] = known[what, ()].where(*says)
            except InputError as error:
                limit = f"layer {name}: {error.limit}"
                raise InputError(error.field, error.value, limit) from None
            parts.append(Part(name, known[what, says]))
        return tuple(parts)

    def _part(self, what: Layer | Operation, objective: TilingObjective, limits: TilingLimits) -> Problem:
        layer, operation = (None, what) if isinstance(what, Operation) else (what, None)
        return Problem(
            layer=layer,
            operation=operation,
            machine=self.machine,
            objective=objective,
            limits=limits,
        )
