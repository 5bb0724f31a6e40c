"""Whether a plan is valid, what it costs, and its execution; what ``auto`` runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from math import prod
from typing import Any

import numpy as np

from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.fusion.arithmetic import random_parameters, reference
from tilewright.fusion.exact.schedule_kernel import WHAT
from tilewright.fusion.fused_group import Structure
from tilewright.fusion.lowering import Lowering, name_of, parameters_of
from tilewright.fusion.plan import Group, Plan, Tile
from tilewright.fusion.problem import HOST, Problem
from tilewright.fusion.schedule import Layout
from tilewright.fusion.tiles import Choice, choice, energy, tried
from tilewright.fusion.tiles import violation as tile_fault
from tilewright.simulator import Report, Violation, execute
from tilewright.simulator.program import Values
from tilewright.simulator.report import Names, Rows
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.network import OWN_INPUT

MOST_NUMERIC_MACS = 3_000_000_000
"""MACs up to which every group is executed with real numbers; beyond, equal groups once."""


# Validity and cost -----------------------------------------------------------------------------------


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    numbers = {op.name: op.number for op in problem.ops}
    done: set[int] = set()
    for place, group in enumerate(plan.groups, 1):
        where = f"group {place} ({', '.join(group.nodes[:4])}{', ...' if len(group.nodes) > 4 else ''})"
        for name in group.nodes:
            if name not in numbers:
                return f"operations: {where} has {name}, which the network has not"
            if numbers[name] in done:
                return f"operations: {where} has {name}, which an earlier group or place has"
        nodes = tuple(numbers[name] for name in group.nodes)
        if sorted(set(nodes)) != list(nodes):
            return f"order: {where} does not have its operations in the order of execution, each once"
        for node in nodes:
            missing = [p for p in problem.ops[node].producers if p >= 0 and p not in done and p not in nodes]
            if missing:
                return f"order: {where} reads {problem.ops[missing[0]].name}, which no earlier group computes"
        if any(problem.ops[node].engine == HOST for node in nodes):
            if len(nodes) > 1 or group.tile is not None:
                return f"host: {where} is not computed by the accelerator, so it has no tile and stays alone"
        elif group.tile is None:
            return f"tile: {where} has none"
        else:
            if nodes not in problem.allowed:
                return f"template: {where} matches none"
            structure = Structure(problem, nodes)
            if not problem.allowed[nodes] and (group.tile.rows, group.tile.columns) != structure.plane:
                return f"template: {where} may not be tiled"
            broken = tile_fault(structure, group.tile)
            if broken is None and not tried(problem, structure, group.tile, not problem.allowed[nodes]):
                broken = "tile: its sizes are none of those that plans have (docs/fusion.md)"
            if broken is not None:
                rule, _, told = broken.partition(": ")
                return f"{rule}: {where}: {told}"
        done.update(nodes)
    if len(done) < len(problem.ops):
        missing_names = [op.name for op in problem.ops if op.number not in done]
        return f"operations: no group has {', '.join(missing_names[:4])}"
    most = problem.most_cycles if problem.minimise == "memory" else None
    if most is not None and (cycles := sum(one.cycles for one in choices(problem, plan))) > most:
        return f"cycles: {cycles} are needed, at most {most} are allowed"
    return None


def choices(problem: Problem, plan: Plan) -> list[Choice]:
    """Return what each group of a valid plan costs, without those of the host."""
    known: dict[object, Choice] = {}
    found = []
    for nodes, group in _groups(problem, plan):
        structure = Structure(problem, nodes)
        key = (structure.key, group.tile)
        if key not in known:
            assert group.tile is not None
            known[key] = choice(problem, structure, group.tile)
        found.append(known[key])
    return found


def _groups(problem: Problem, plan: Plan) -> list[tuple[tuple[int, ...], Group]]:
    """Return the groups that the accelerator executes, with the numbers of their operations."""
    numbers = {op.name: op.number for op in problem.ops}
    return [
        (tuple(numbers[name] for name in group.nodes), group)
        for group in plan.groups
        if group.tile is not None
    ]


def objective(problem: Problem, plan: Plan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same."""
    found = choices(problem, plan)
    return max(one.peak for one in found) if problem.minimise == "memory" else sum(one.cost for one in found)


def best_bound(problem: Problem) -> Bound:
    """Return the strongest bound that is known without a search."""
    from tilewright.fusion.bounds import best_bound as bound

    return bound(problem)


def measured_objective(problem: Problem, report: Report) -> int:
    """Cost of a simulated plan."""
    measured: int = report.facts[problem.minimise]
    return measured


# Simulation ------------------------------------------------------------------------------------------


def simulate(
    problem: Problem,
    plan: Plan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right.

    Groups are executed one after the other, equal ones once. With numbers, each group gets what the reference
    computes of the network operation by operation, and must compute what that computes, bit for bit.

    Parameters
    ----------
    numeric
        Also compute with random integers and compare with the reference network.
    overlapped
        Plays no part: engines work on their own clocks in any case.
    deadline
        ``time.monotonic()`` at which to give up with an ``OutOfTimeError``.
    """
    broken = violation(problem, plan)
    if broken is not None:
        rule, _, told = broken.partition(": ")
        return Report.refused(Violation(rule, 0, "plan", "a plan within the limits", told or broken))
    data = _Data(problem, seed, deadline) if numeric else None
    every = data is not None and sum(op.macs for op in problem.ops) <= MOST_NUMERIC_MACS
    known: dict[object, tuple[Structure, Report]] = {}
    names, reports = [], []
    for nodes, group in _groups(problem, plan):
        structure = Structure(problem, nodes)
        key = (structure.key, group.tile, nodes if every else None)
        if key not in known:
            known[key] = structure, _simulate(problem, structure, group, data, deadline)
        names.append("+".join(group.nodes))
        reports.append(_renamed(*known[key], structure))
    report = Report.chain(names, reports)
    if report.violation is None:
        report.facts = _facts(problem, plan, report)
    return report


def _simulate(
    problem: Problem, structure: Structure, group: Group, data: _Data | None, deadline: float
) -> Report:
    assert group.tile is not None
    one = choice(problem, structure, group.tile)
    width = problem.machine.element_bytes
    first, second, third = (size // width for size in one.buffers)
    program = Lowering(Layout(structure, group.tile), (first, second, third)).program()
    given, expected = data.of(structure) if data is not None else (None, None)
    report = execute(program, data=given, expected=expected, deadline=deadline)
    if report.violation is None:
        assert report.scheduled is not None
        moved = [
            sum(int(counts.sum()) for counts in table.values()) for table in (report.loaded, report.written)
        ]
        convolutions = [
            structure.features[place].name for place in structure.members if structure.op(place).macs
        ]
        macs = sum(
            int(report.macs[[label == f"compute {name}" for label in report.labels]].sum())
            for name in convolutions
        )
        cycles = report.scheduled.cycles
        report.facts = {
            "cycles": cycles,
            "loaded_bytes": moved[0] * width,
            "saved_bytes": moved[1] * width,
            "traffic": sum(moved) * width,
            "energy": int(energy(problem.machine, sum(moved) * width, macs, cycles)),
            "memory": sum(memory.capacity or 0 for memory in program.memories) * width,
            "buffers": list(one.buffers),
            "tiles": _tiles(structure, group.tile),
            "macs": macs,
            "busy": report.scheduled.busy(),
        }
    return report


def _renamed(executed: Structure, report: Report, structure: Structure) -> Report:
    """Return the report of a group as that of an equal one, whose maps have other names."""
    if executed is structure:
        return report
    names = {}
    for place, (old, new) in enumerate(zip(executed.features, structure.features, strict=True)):
        for copy in range(2):
            names[name_of(executed, place, copy)] = name_of(structure, place, copy)
        names[parameters_of(executed, place)] = parameters_of(structure, place)
        names |= {f"{what} {old.name}": f"{what} {new.name}" for what in WHAT}

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


def _tiles(structure: Structure, tile: Tile) -> list[list[int]]:
    """Return the largest rows, columns and channels of each operation that are computed at a time."""
    down, across = structure.spans(0, [tile.rows])[0], structure.spans(1, [tile.columns])[0]
    high, wide = ((span[..., 1] - span[..., 0]).max(axis=1).tolist() for span in (down, across))
    return [
        [high[place], wide[place], min(tile.kernels, structure.features[place].shape[0])]
        for place in structure.members
    ]


class _Data:
    """What the reference computes of a network, operation by operation, from random integers."""

    def __init__(self, problem: Problem, seed: int, deadline: float) -> None:
        self.rng = np.random.default_rng(seed)
        given = (problem.machine.arrays, *problem.ops[0].spec.input)
        self.maps: dict[str, Values] = {OWN_INPUT: self.rng.integers(-8, 9, given, dtype=np.int64)}
        self.parameters: dict[str, Values] = {}
        for op in problem.ops:
            if time.monotonic() > deadline:
                raise OutOfTimeError
            names = [OWN_INPUT if p < 0 else problem.ops[p].name for p in op.producers]
            structure = Structure(problem, (op.number,))
            each = structure.parameters(structure.loaded, (0, structure.summed(structure.loaded)))
            if each and op.engine != HOST:
                self.parameters[op.name] = random_parameters(op, each, self.rng)
            inputs = [self.maps[name] for name in names]
            self.maps[op.name] = reference(op, inputs, self.parameters.get(op.name))

    def of(self, structure: Structure) -> tuple[dict[str, Values], dict[str, Values]]:
        """Return what a group is given, and what it must save."""
        given, expected = {}, {}
        for place, feature in enumerate(structure.features):
            if place < structure.loaded:
                maps = [self.maps[name] for name in feature.sources]
                for copy in range(2):
                    given[name_of(structure, place, copy)] = np.concatenate(maps, axis=1)
                continue
            if feature.name in self.parameters:
                given[parameters_of(structure, place)] = self.parameters[feature.name]
            if feature.saved:
                expected[feature.name] = self.maps[feature.name]
        return given, expected


def _facts(problem: Problem, plan: Plan, report: Report) -> dict[str, Any]:
    machine = problem.machine
    groups = [
        {"nodes": list(group.nodes), "tile": group.tile and asdict(group.tile), **found.facts}
        for (_, group), (_, found) in zip(_groups(problem, plan), report.layers, strict=True)
    ]
    facts: dict[str, Any] = {
        key: sum(group[key] for group in groups)
        for key in ("cycles", "loaded_bytes", "saved_bytes", "traffic", "energy", "macs")
    }
    operations = 2 * machine.arrays * sum(op.macs for op in problem.ops)
    facts |= {
        "memory": max(group["memory"] for group in groups),
        "milliseconds": machine.milliseconds(facts["cycles"]),
        "gops": operations / machine.milliseconds(facts["cycles"]) / 1e6,
        "ctc": operations / facts["traffic"],
        "operations": len(problem.ops),
        "on_host": [op.name for op in problem.ops if op.engine == HOST],
        "groups": groups,
    }
    return facts


# How the room is run ---------------------------------------------------------------------------------


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes."""
    return 1.0 + 0.02 * len(problem.ops)


def numeric_elements(problem: Problem) -> int:
    """Elements of the largest tensors, as a numeric simulation holds them."""
    return 4 * problem.machine.arrays * max(prod(op.spec.input) + prod(op.spec.output) for op in problem.ops)


def portfolio(problem: Problem, threads: int) -> list[tuple[float, list[str]]]:
    """Return what ``auto`` runs: the exact search, and heuristics where it does not end in time."""
    return [(0.9, ["downsets"]), (0.1, [CONSTRUCT])]
