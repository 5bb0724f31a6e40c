"""The execution of a plan: the only judge of what it costs and whether it is right."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from tilewright.core.measures import counted, joined
from tilewright.core.room import Asked
from tilewright.fusion.arithmetic import random_parameters
from tilewright.fusion.evaluation import computed_groups, copies, decided_layouts, violation
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.best_tile import TileChoice, evaluate_tile
from tilewright.fusion.group.fused_group import FusedGroup
from tilewright.fusion.group.schedule import GroupSchedule
from tilewright.fusion.group.schedule_kernel import WHAT
from tilewright.fusion.host import host_cycles, host_work
from tilewright.fusion.host_beside import host_beside
from tilewright.fusion.lowering import Lowering, name_of, parameters_of
from tilewright.fusion.machine import HOST
from tilewright.fusion.measures import FusedGroupMeasures, FusedTile, FusionMeasures
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import Problem
from tilewright.simulator import Load, Program, Report, WriteBack, execute
from tilewright.simulator.arithmetic.reference import small_output
from tilewright.simulator.program import Values
from tilewright.simulator.report import Names, Rows
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.graph import Access
from tilewright.spec.network import OWN_INPUT

MOST_NUMERIC_MACS = 3_000_000_000
"""MACs up to which every group is executed with real numbers; beyond, equal groups once."""


def execute_plan(problem: Problem, plan: Plan, asked: Asked) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right.

    Groups are executed one after the other, equal ones once. With numbers, each group gets what the reference
    computes of the network operation by operation, and must compute what that computes, bit for bit.

    Engines work on their own clocks, whether an overlapped timeline is asked for or not.
    """
    reason = violation(problem, plan)
    if reason is not None:
        return Report.beyond_limits(reason)
    data = _Reference(problem, asked.seed, asked.deadline) if asked.numeric else None
    every = data is not None and sum(op.macs for op in problem.ops) <= MOST_NUMERIC_MACS
    executed: dict[object, tuple[FusedGroup, Report]] = {}
    names, reports, layouts = [], [], decided_layouts(problem, plan)
    for nodes, group in computed_groups(problem, plan):
        fused = problem.fused(nodes, layouts)
        key = (fused.key, group.tile, nodes if every else None)
        if key not in executed:
            executed[key] = fused, _simulate(problem, fused, group, data, asked.deadline)
        names.append(joined(group.nodes))
        reports.append(_renamed(*executed[key], fused))
    report = Report.chain(names, reports)
    if report.violation is None:
        report.measures = _measures(problem, plan, report)
    return report


def _simulate(
    problem: Problem, fused: FusedGroup, group: Group, data: _Reference | None, deadline: float
) -> Report:
    """Execute one group."""
    assert group.tile is not None
    costs = evaluate_tile(problem, fused, group.tile)
    first, second, third = (size // problem.machine.element_bytes for size in costs.buffers)
    program = Lowering(GroupSchedule(fused, group.tile), (first, second, third)).program()
    given, expected = data.of(fused) if data is not None else (None, None)
    report = execute(program, data=given, expected=expected, deadline=deadline)
    if report.violation is None:
        report.measures = _measures_of_group(fused, group, costs, program, report)
    return report


def _measures_of_group(
    fused: FusedGroup, group: Group, costs: TileChoice, program: Program, report: Report
) -> FusedGroupMeasures:
    """Return what an executed group took and moved, as its report says."""
    assert report.scheduled is not None and group.tile is not None
    machine, width = fused.machine, fused.machine.element_bytes
    loaded, saved = (
        sum(int(counts.sum()) for counts in table.values()) * width
        for table in (report.loaded, report.written)
    )
    convolutions = [name_of(fused, feature) for feature in fused.members if fused.op(feature).macs]
    macs = sum(
        int(report.macs[[label == f"compute {name}" for label in report.labels]].sum())
        for name in convolutions
    )
    cycles, traffic = report.scheduled.cycles, loaded + saved
    return FusedGroupMeasures(
        operations=list(group.nodes),
        tile=FusedTile(**asdict(group.tile)),
        duration_cycles=cycles,
        loaded_bytes=loaded,
        saved_bytes=saved,
        traffic_bytes=traffic,
        energy_nj=int(machine.nanojoules(traffic, macs, cycles)),
        memory_bytes=sum(memory.capacity or 0 for memory in program.memories) * width,
        macs=macs,
        bursts=_bursts(program) if machine.layouts else None,
        buffers_bytes=list(costs.buffers),
        busy_cycles=report.scheduled.busy(),
        largest_computed=dict(zip(group.nodes, _tiles(fused, group.tile), strict=True)),
    )


def _bursts(program: Program) -> int:
    """Return the bursts of all transfers."""
    moves: list[Load | WriteBack] = [move for step in program.steps for move in step.load]
    moves += [move for step in program.steps for move in step.write_back]
    return sum(move.bursts for move in moves)


def _renamed(executed: FusedGroup, report: Report, fused: FusedGroup) -> Report:
    """Return the report of a group as that of an equal one, whose maps have other names."""
    if executed is fused:
        return report
    names = {}
    for index in range(len(fused.features)):
        for copy in range(2):
            names[name_of(executed, index, copy)] = name_of(fused, index, copy)
        names[parameters_of(executed, index)] = parameters_of(fused, index)
        old, new = name_of(executed, index), name_of(fused, index)
        names |= {f"{what} {old}": f"{what} {new}" for what in WHAT}

    def renamed(table: Mapping[str, Any]) -> Rows:
        old = list(table)
        return Rows([names[name] for name in old], lambda number: table[old[number]])

    line = report.scheduled
    if line is not None:
        tensors = Names([names[name] for name in line.tensor.names], line.tensor.codes)
        line = replace(line, tensor=tensors)
    return replace(
        report,
        labels=[names[label] for label in report.labels],
        loaded=renamed(report.loaded),
        freed=renamed(report.freed),
        written=renamed(report.written),
        computed=renamed(report.computed),
        footprint=renamed(report.footprint),
        most_loads={names[name]: count for name, count in report.most_loads.items()},
        scheduled=line,
    )


def _tiles(fused: FusedGroup, tile: Tile) -> list[list[int]]:
    """Return the largest rows, columns and channels of each operation that are computed at a time."""
    down, across = fused.spans(0, [tile.rows])[0], fused.spans(1, [tile.columns])[0]
    high, wide = ((span[..., 1] - span[..., 0]).max(axis=1).tolist() for span in (down, across))
    return [
        [high[index], wide[index], min(tile.kernels, fused.features[index].shape[0])]
        for index in fused.members
    ]


class _Reference:
    """What the reference computes of a network, operation by operation, from random integers."""

    def __init__(self, problem: Problem, seed: int, deadline: float) -> None:
        self.rng, self.graph = np.random.default_rng(seed), problem.graph
        given = (problem.machine.arrays, *problem.graph.own_input)
        self.maps: dict[str, Values] = {OWN_INPUT: self.rng.integers(-8, 9, given, dtype=np.int64)}
        self.parameters: dict[str, Values] = {}
        for op in problem.ops:
            if time.monotonic() > deadline:
                raise OutOfTimeError
            if not op.producers:  # a further input
                shape = (problem.machine.arrays, *op.spec.output)
                self.maps[op.name] = self.rng.integers(-8, 9, shape, dtype=np.int64)
                continue
            fused = problem.fused((op.number,))
            each = fused.parameters(fused.loaded, (0, fused.summed(fused.loaded)))
            if each and engine_of(op) != HOST:
                self.parameters[op.name] = random_parameters(op, each, self.rng)
            self.maps[op.name] = small_output(
                op.spec, [*map(self._read, op.accesses)], self.parameters.get(op.name)
            )

    def _read(self, access: Access) -> Values:
        """Return what is read of a map."""
        values = self.maps[self.graph.name(access.source)]
        return values if access.channels is None else values[:, slice(*access.channels)]

    def of(self, fused: FusedGroup) -> tuple[dict[str, Values], dict[str, Values]]:
        """Return what a group is given, and what it must save."""
        given, expected = {}, {}
        for index, feature in enumerate(fused.features):
            if index < fused.loaded:
                maps = list(map(self._read, feature.sources))
                for copy in range(2):
                    given[name_of(fused, index, copy)] = np.concatenate(maps, axis=1)
                continue
            if feature.name in self.parameters:
                given[parameters_of(fused, index)] = self.parameters[feature.name]
            if feature.saved:
                expected[name_of(fused, index)] = self.maps[feature.name]
        return given, expected


def _measures(problem: Problem, plan: Plan, report: Report) -> FusionMeasures:
    """Return the totals of an executed plan, and what each group took."""
    machine = problem.machine
    groups: list[FusedGroupMeasures] = [
        replace(
            executed.measures,
            operations=list(group.nodes),
            largest_computed=dict(zip(group.nodes, executed.measures.largest_computed.values(), strict=True)),
        )
        for (_, group), (_, executed) in zip(computed_groups(problem, plan), report.layers, strict=True)
    ]
    by_name = {joined(group.operations): group for group in groups}
    assert len(by_name) == len(groups), "each group has a key of its own"
    on_host = [host_cycles(problem, op) for op in problem.ops]
    work, copied = [host_work(problem, op) for op in problem.ops], copies(problem, plan)
    cycles = sum(group.duration_cycles for group in groups) + sum(on_host) + sum(copied.values())
    decides = machine.layouts is not None
    traffic = sum(group.traffic_bytes for group in groups)
    operations = 2 * machine.arrays * sum(op.macs for op in problem.ops)
    # The simulator counts the work of every engine as MACs; here only convolutions have any.
    counts = counted(report) | {"macs": sum(group.macs for group in groups)}
    return FusionMeasures(
        **counts,
        duration_cycles=cycles,
        duration_of="scheduled",
        duration_ms=machine.milliseconds(cycles),
        loaded_bytes=sum(group.loaded_bytes for group in groups),
        saved_bytes=sum(group.saved_bytes for group in groups),
        traffic_bytes=traffic,
        energy_nj=sum(group.energy_nj for group in groups)
        + sum(int(machine.nanojoules(0, 0, each)) for each in (*on_host, *copied.values())),
        memory_bytes=max(group.memory_bytes for group in groups),
        gops_per_second=operations / machine.milliseconds(cycles) / 1e6,
        ops_per_byte=operations / traffic,
        operations=len(problem.ops),
        on_host=[op.name for op in problem.ops if engine_of(op) == HOST],
        host_bytes=sum(each.moved for each in work),
        host_macs=sum(each.macs for each in work),
        host_cycles=None if machine.host is None else sum(on_host),
        host_beside=host_beside(
            problem, plan, {tuple(each.operations): each.duration_cycles for each in groups}
        )
        if any(on_host) and not copied
        else None,
        bursts=sum(group.bursts or 0 for group in groups) if decides else None,
        copied=[problem.graph.name(number) for number in copied] if decides else None,
        copy_cycles=sum(copied.values()) if decides else None,
        groups=by_name,
    )
