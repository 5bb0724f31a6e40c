"""The allocation problem: a network as a pipeline of layers on an array of processing elements (PEs)."""

from __future__ import annotations

from functools import cached_property
from math import prod

from tilewright.allocation.machine import (
    ENERGY_FRONT,
    HOST,
    OBJECTIVES,
    AllocationLimits,
    AllocationObjective,
    ArrayMachine,
)
from tilewright.allocation.splits import LayerSplit, SplitRules, layer_splits, least_load
from tilewright.allocation.stages import Division, Given, HostStep, Stage, consumers_of, divide
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
                "holds no layer that runs on the array: PEs compute convolutions, pools and sums",
            )
        names = [stage.name for stage in stages]
        for name in self.limits.pes:
            if name not in names:
                raise InputError(
                    f"limits.pes.{name}",
                    self.limits.pes[name],
                    f"no such layer; there are: {', '.join(names)}",
                )
        taken = {"load", "write", *(f"{name} weights" for name in names), *((HOST,) if self.steps else ())}
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
        self._check_host()
        if self.most_interval is not None:
            self._check_rate(stages)

    def _check_host(self) -> None:
        """Refuse a front whose latencies no search knows."""
        if self.waits and self.parallel and self.minimise == "pareto" and not self.trades_energy:
            names = ", ".join(each.name for each in self.given if each.waits)
            limit = (
                f"is not searched where layers wait for maps from outside of the array, here {names}; there "
            )
            limit += "are: interval, pes, latency, energy, and pareto between interval and energy"
            raise InputError("objective.minimise", self.minimise, limit)

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
        if len(self.given) > 1:
            names = ", ".join(each.name for each in self.given[1:])
            limit = f"is for networks whose input alone comes from outside of the array; here so do: {names}"
            raise InputError("machine.off_chip", self.machine.off_chip.model_dump(), limit)

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
        interval = least[slowest] if self.parallel else sum(least.values()) + self.host_period
        if self.parallel and self.host_period > max(most, interval):
            rate = self.machine.frames_per_second(self.host_period)
            limit = f"the host takes {self.host_period} cycles for a frame; at {self.machine.clock_mhz} MHz "
            limit += f"these are at most {rate:.6g}"
            raise InputError("objective.frames_per_second", self.objective.frames_per_second, limit)
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
    def division(self) -> Division:
        """What runs on the array and what on the host."""
        return divide(self.network)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """The layers that run on the array, in the order of execution."""
        return self.division.stages

    @property
    def given(self) -> tuple[Given, ...]:
        """Maps that layers read from outside of the array, the network's input first."""
        return self.division.given

    @property
    def hosted(self) -> tuple[HostStep, ...]:
        """What runs on the host, in the order of execution."""
        return self.division.hosted

    @cached_property
    def steps(self) -> tuple[HostStep, ...]:
        """What the host does in the schedule: all that it does, where a layer waits for some of it."""
        return self.hosted if self.division.waits else ()

    @property
    def waits(self) -> bool:
        """Whether a layer waits for a map from outside of the array to be there as a whole."""
        return any(each.waits for each in self.given)

    @property
    def host_cycles(self) -> int | None:
        """Cycles of the host for a frame; None where it has no price."""
        return None if self.machine.host is None else sum(map(self.cycles_of, self.hosted))

    @cached_property
    def step_cycles(self) -> tuple[int, ...]:
        """Cycles of each operation of `steps`; 0 where the host has no price."""
        return tuple(map(self.cycles_of, self.steps))

    def cycles_of(self, step: HostStep) -> int:
        """Return the cycles of the host for an operation; 0 where it has no price."""
        host = self.machine.host
        return 0 if host is None else host.cycles(self.machine.bytes(step.words))

    @cached_property
    def host_period(self) -> int:
        """Cycles for which a frame keeps the host of the schedule busy.

        No interval of layers at the same time is shorter; where layers take turns, they are a part of it.
        """
        return sum(self.step_cycles)

    @property
    def most_load(self) -> int | None:
        """Most cycles at the required rate: of each layer, or of all that take turns, without the host's."""
        most = self.most_interval
        return most if most is None or self.parallel else most - self.host_period

    def interval_at(self, load: int) -> int:
        """Return the interval where the longest load, or the sum of layers that take turns, is given."""
        return max(load, self.host_period) if self.parallel else load + self.host_period

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
