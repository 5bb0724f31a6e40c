"""The allocation problem: a network as a pipeline of layers on an array of processing elements (PEs)."""

from __future__ import annotations

from functools import cached_property
from math import prod

from tilewright.allocation.machine import (
    ENERGY_FRONT,
    OBJECTIVES,
    AllocationLimits,
    AllocationObjective,
    ArrayMachine,
)
from tilewright.allocation.splits import LayerSplit, SplitRules, layer_splits, least_load
from tilewright.allocation.stages import Hosted, Stage, consumers_of, hosted_of, stages_of
from tilewright.spec.errors import InputError
from tilewright.spec.network import Network
from tilewright.spec.objectives import Minimising

MOST_ENERGY = 2**60
"""Most femtojoules of a frame."""


class Problem(Minimising):
    """A network, an array, an objective and limits."""

    can_minimise = OBJECTIVES

    network: Network
    machine: ArrayMachine
    objective: AllocationObjective = AllocationObjective()
    limits: AllocationLimits = AllocationLimits()

    def model_post_init(self, _context: object) -> None:
        """Refuse what no array can do, naming the layer that blocks and what would be enough."""
        self.network.check_shapes()
        stages = self.stages
        if not stages:
            raise InputError(
                "network.layers",
                len(self.network.layers),
                "needs a convolution: all layers are fully connected",
            )
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
            raise InputError("network.layers", name, "something else has this name; choose another one")
        if len(set(self.limits.splits)) != len(self.limits.splits):
            raise InputError("limits.splits", list(self.limits.splits), "must list each split once")
        times_count = self.minimise == "latency" or (self.minimise == "pareto" and not self.trades_energy)
        if "rows" in self.limits.splits and (self.limits.scan != "rows" or times_count):
            raise InputError(
                "limits.splits",
                list(self.limits.splits),
                "rows are split for scan rows, and to minimise interval, pes, distance or energy only",
            )
        self._check_energy()
        self._check_off_chip()
        self._check_pes(stages)
        self._check_buffers(stages)
        if self.minimise == "pes" and self.objective.frames_per_second is None:
            raise InputError("objective.frames_per_second", None, "is needed to minimise PEs")
        alone = self.minimise == "distance" or (self.minimise == "pareto" and not self.trades_energy)
        if not self.parallel and alone:
            raise InputError(
                "objective.minimise",
                self.minimise,
                "is for layer-parallel execution; layers take turns here, which has: interval, pes, latency, "
                "energy",
            )
        if self.most_interval is not None:
            self._check_rate(stages)

    def _check_energy(self) -> None:
        between, goal = self.objective.between, self.minimise
        if between is not None and goal != "pareto":
            raise InputError("objective.between", list(between), "is for minimise = pareto")
        if self.machine.energy is None and (goal == "energy" or self.trades_energy):
            field, value = ("between", list(between)) if between else ("minimise", goal)
            raise InputError(f"objective.{field}", value, "needs prices: the table machine.energy")
        if self.machine.energy is not None:
            most = self.most_energy
            if most > MOST_ENERGY:
                limit = f"a frame may take {most:.3g} fJ, at most {MOST_ENERGY:.3g} are counted"
                raise InputError("machine.energy", self.machine.energy.model_dump(), limit)

    def _check_off_chip(self) -> None:
        """Refuse what is not decided together with what stays on chip."""
        if self.machine.off_chip is None:
            return
        if self.minimise != "interval":
            limit = "is not decided with machine.off_chip, for which there is: interval"
            raise InputError("objective.minimise", self.minimise, limit)
        if "rows" in self.limits.splits:
            limit = "rows are not split with machine.off_chip"
            raise InputError("limits.splits", list(self.limits.splits), limit)

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
        capacity = self.machine.buffer_words
        if capacity is None or self.machine.off_chip is not None:
            return
        sizes = [stage.weights for stage in stages]
        needed = sum(sizes) if self.parallel else max(sizes)
        if needed <= capacity:
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
        most = self.most_interval
        assert most is not None
        least = {stage: least_load(self.machine, self.limits, stage) for stage in stages}
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

    def check_constraints(self) -> None:
        """Refuse constraints that have no meaning, and those of fronts."""
        if self.minimise == "pareto":
            limit = "are for a single plan, not for a front"
            raise InputError("constraints", str(self.constraints[0]), limit)
        super().check_constraints()

    @property
    def parallel(self) -> bool:
        """Whether the layers run at the same time."""
        return self.limits.execution == "layer-parallel"

    @property
    def most_energy(self) -> int:
        """Femtojoules that no plan's frame exceeds, where the machine has prices."""
        assert self.machine.energy is not None
        operations = [stage.task.operations for stage in self.stages]
        cycles = max(operations) if self.parallel else sum(operations)
        moving = sum(operations) + prod(self.stages[0].spec.input)
        if (link := self.machine.off_chip) is not None:  # an operation's weight, operand and result may cross
            cycles += 3 * self.machine.bytes(moving) * self.machine.clock_mhz // link.mb_per_s
        return self.machine.energy.most(moving, cycles, self.machine.pes)

    @property
    def trades_energy(self) -> bool:
        """Whether a front of interval and energy is asked for."""
        return self.minimise == "pareto" and self.objective.between == ENERGY_FRONT

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
        return stages_of(self.network)

    @cached_property
    def hosted(self) -> tuple[Hosted, ...]:
        """What runs on the host: fully connected layers and what follows them."""
        return hosted_of(self.network)

    @property
    def host_cycles(self) -> int | None:
        """Cycles of the host for a frame; None where it has no price."""
        host = self.machine.host
        return None if host is None else sum(host.cycles(self.machine.bytes(op.words)) for op in self.hosted)

    @property
    def turn_configuration_cycles(self) -> int:
        """Cycles of a frame in which the array is configured: for each layer, where they take turns."""
        return 0 if self.parallel else len(self.stages) * (self.machine.configuration_cycles or 0)

    @cached_property
    def consumers(self) -> tuple[tuple[int, ...], ...]:
        """Numbers of the stages that read each stage."""
        return consumers_of(self.stages)

    @cached_property
    def edges(self) -> tuple[tuple[int, int], ...]:
        """Pairs of producer and consumer, without the network's input."""
        return tuple((producer, i) for producer, readers in enumerate(self.consumers) for i in readers)

    @property
    def split_rules(self) -> SplitRules:
        """What decides which splits a layer can have."""
        return SplitRules.of(self.machine, self.limits)

    def most_pes(self, stage: Stage) -> int:
        """Return the PEs that a layer can have; if layers are parallel, each other one has its fewest."""
        if not self.parallel:
            return self.machine.pes
        others = (self.limits.pes.get(other.name, 1) for other in self.stages if other is not stage)
        return self.machine.pes - sum(others)

    def splits_of(self, stage: Stage) -> tuple[LayerSplit, ...]:
        """Return the splits of a layer that no other one replaces, the fastest last: see `layer_splits`."""
        return layer_splits(self.machine, self.limits, stage, self.most_pes(stage))
