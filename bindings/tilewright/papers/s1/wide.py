"""The S1 paper's grid where pixels may stay, and what its formalism says of kernels, GeMM and parts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.offloading.keeping import Cut, planned
from tilewright.offloading.plan import Plan
from tilewright.offloading.problem import Problem
from tilewright.papers.figures import Say
from tilewright.papers.s1 import records
from tilewright.papers.s1.records import Record
from tilewright.run.instance import Instance, parse
from tilewright.run.result import Result
from tilewright.run.solve import solve

Solved = Callable[[Instance, Any], Result]
"""Solves an instance, from a plan or from none."""

KERNEL = 3
"""Height and width of the grid's kernels."""

LAYER = {"input": [8, 16, 16], "kernels": 64, "kernel": [3, 3], "padding": 1}
"""A layer whose kernels have 4,608 elements."""

MEMORIES = (2_000, 4_000, 8_000)
PARTS = (1, 2, 4)


class Cell(NamedTuple):
    """A cell of the grid under both rules."""

    size: int
    group: int
    narrow: Record
    wide: Result


def wide_cell(size: int, group: int) -> Instance:
    """Return a cell of the grid of section 7.1 in which pixels may stay.

    The memory is what the paper supposes: all kernels, the patches of a step, each whole, and their outputs.
    """
    taps = KERNEL * KERNEL
    steps = -(-((size - KERNEL + 1) ** 2) // group)
    return parse(
        {
            "room": "offloading",
            "name": f"s1-{size}x{size}-g{group}-wide",
            "source": "S1 paper, section 7.1",
            "layer": {"input": [1, size, size], "kernels": 1, "kernel": [KERNEL, KERNEL]},
            "machine": {
                "macs_per_step": group * taps,
                "memory": group * taps + taps + group,
                "kernels": "preloaded",
            },
            "limits": {"channels": "all", "steps": steps, "reloads": 2},
            "objective": {"minimise": "loads"},
        }
    )


def as_wide(problem: Problem, steps: Sequence[int]) -> Plan | None:
    """Return the plan of groups whose pixels may stay.

    Parameters
    ----------
    steps
        The step of each patch.
    """
    order = np.array(steps)
    everything = np.arange(problem.elements.n_kernels), np.arange(problem.elements.n_channels)
    rounds = [[Cut(np.flatnonzero(order == step), *everything)] for step in range(int(order.max()) + 1)]
    return planned(problem, rounds)


def print_grid(cells: Sequence[Cell], say: Say) -> None:
    """Print what each cell costs by the paper's rule and where pixels may stay."""
    sizes, groups = sorted({cell.size for cell in cells}), sorted({cell.group for cell in cells})
    by_label = {(cell.size, cell.group): cell for cell in cells}
    say(
        "loads + steps: by the paper's rule > where pixels may stay; * proven, else the gap to the bound in %"
    )
    for part in filter(None, (sizes[:5], sizes[5:])):
        say("group" + "".join(f"{f'{size}x{size}':>15}" for size in part))
        for group in groups:
            say(f"{group:>5}" + "".join(_told(by_label[size, group]).rjust(15) for size in part))
    proven = [cell for cell in cells if cell.wide.status == "optimal"]
    less = [1 - _cost(cell.wide) / _cost(cell.narrow) for cell in cells]
    best = cells[int(np.argmax(less))]
    say(
        f"proven where pixels may stay: {len(proven)} of {len(cells)} cells, by the paper's rule "
        + _optimal(cells)
    )
    say(f"cells that cost less: {sum(each > 0 for each in less)}; mean {100 * sum(less) / len(less):.1f} %")
    say(f"largest saving: {100 * max(less):.1f} % at {best.size}x{best.size}, group size {best.group}")


def _told(cell: Cell) -> str:
    first = f"{cell.narrow.objective}{'*' * cell.narrow.optimal}"
    proof = "*" if cell.wide.status == "optimal" else f" {100 * (cell.wide.gap or 0):.0f}"
    return f"{first} > {cell.wide.objective}{proof}"


def _optimal(cells: Sequence[Cell]) -> str:
    return f"{sum(cell.narrow.optimal for cell in cells)}"


def _cost(found: Record | Result) -> int:
    assert found.objective is not None
    return found.objective


def grid(
    sizes: Sequence[int], groups: Sequence[int], narrow: Callable[[int, int], Instance], solved: Solved
) -> list[Cell]:
    """Solve the cells of the grid, each from the best plan that is known by the paper's rule."""
    best, cells = records.known(), []
    for group in groups:
        for size in sizes:
            record = best[narrow(size, group).sha256]
            instance = wide_cell(size, group)
            start = None if record.steps is None else as_wide(instance.problem, record.steps)
            cells.append(Cell(size, group, record, solved(instance, start)))
    return cells


def layers(narrow: Sequence[Instance], solved: Solved, say: Say) -> None:
    """Print layers of real networks by the paper's rule, as best known, and where pixels may stay.

    Parameters
    ----------
    narrow
        The layers with their group sizes, as instances of grouping.
    """
    say("layers of real networks, loads + steps: best known by the paper's rule, and where pixels may stay")
    say(f"{'layer':<20} {'rule':>10} {'bound':>10} {'stay':>10} {'bound':>10} {'saved %':>8}")
    best = records.known()
    for instance in narrow:
        record, problem = best[instance.sha256], instance.problem
        group = problem.group_size
        machine = {
            "macs_per_step": group * problem.macs_per_patch,
            "memory": problem.memory_needed(group * int(problem.patch_sizes.max()), group),
            "kernels": "preloaded",
        }
        asked = parse(
            {
                "room": "offloading",
                "name": f"{instance.name}-wide",
                "layer": problem.layer.model_dump(
                    include={"input", "kernels", "kernel", "stride", "padding"}
                ),
                "machine": machine,
                "limits": {"channels": "all"},
                "objective": {"minimise": "loads"},
            }
        )
        result = solved(asked, None if record.steps is None else as_wide(asked.problem, record.steps))
        saved = 100 * (1 - _cost(result) / _cost(record))
        say(
            f"{instance.name:<20} {_cost(record):>10,} {record.bound:>10,} {_cost(result):>10,} "
            f"{result.bound or 0:>10,} {saved:>8.1f}"
        )


def _layer(name: str, machine: dict[str, Any], limits: dict[str, Any]) -> Instance:
    table = {"room": "offloading", "name": name, "layer": LAYER, "machine": machine, "limits": limits}
    return parse(table)


def forms(solved: Solved, say: Say) -> None:
    """Print a layer computed directly and as a matrix product, on a unit of 16 x 16 x 16."""
    say("8x16x16 with 64 kernels 3x3, directly and as a matrix product (im2col); blocks of 4,096 MACs")
    say(f"{'memory':>7} {'direct':>10} {'bound':>10} {'GeMM':>10} {'bound':>10}  better")
    for memory in MEMORIES:
        blocks: dict[str, Any] = {"macs_per_step": 4_096, "memory": memory}
        direct = solved(_layer(f"direct-{memory}", blocks, {"reloads": 0}), None)
        blocks = {"unit": [16, 16, 16], "memory": memory}
        gemm = solved(_layer(f"gemm-{memory}", blocks, {"form": "gemm", "reloads": 0}), None)
        better = "not settled"
        if direct.objective is not None and gemm.bound is not None and direct.objective < gemm.bound:
            better = "direct, proven"
        if gemm.objective is not None and direct.bound is not None and gemm.objective < direct.bound:
            better = "GeMM, proven"
        say(
            f"{memory:>7,} {direct.objective or 0:>10,} {direct.bound or 0:>10,} {gemm.objective or 0:>10,} "
            f"{gemm.bound or 0:>10,}  {better}"
        )


def parts(solved: Solved, say: Say) -> None:
    """Print a layer on several parts with one memory, and with one each."""
    say(
        "the layer with kernels in DRAM on 1, 2 and 4 parts of 18,432 MACs a step; memories of 2,000 elements"
    )
    say(f"{'parts':>6} {'memories':>9} {'cycles':>10} {'bound':>10} {'steps':>6}")
    for many in PARTS:
        for memories in ("shared", "own") if many > 1 else ("shared",):
            machine = {"macs_per_step": 18_432, "memory": 2_000, "parts": many, "memories": memories}
            result = solved(_layer(f"parts-{many}-{memories}", machine, {}), None)
            steps = result.measures.steps if result.measures else 0
            say(f"{many:>6} {memories:>9} {result.objective or 0:>10,} {result.bound or 0:>10,} {steps:>6,}")


def solver(time_limit: float, say: Say) -> Solved:
    """Return what solves an instance and tells of it."""

    def solved(instance: Instance, start: Any) -> Result:
        begin = {} if start is None else {"warm_start": start}
        result = solve(instance, "auto", time_limit=time_limit, on_compile=say, **begin)
        if result.interrupted:
            raise KeyboardInterrupt
        say(f"  {instance.name}: {result.objective}, {result.status}, {result.seconds:.1f} s")
        return result

    return solved
