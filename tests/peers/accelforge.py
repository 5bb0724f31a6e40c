"""Our exact search beside AccelForge's mapper: the same machines and layers, counted alike.

``python -m tests.peers.accelforge [PAIR ...]`` prints a table. ``TILEWRIGHT_ACCELFORGE_PYTHON`` names the
Python of an environment with ``pip install accelforge`` (Python 3.12).
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from math import isclose, prod
from pathlib import Path
from typing import Any, NamedTuple

from tests.benchmarks.measuring import timed
from tests.tables import text

from tilewright.spec.layer import Layer
from tilewright.tiling import Problem
from tilewright.tiling.hierarchy.cost import attojoules, cost_of, prices
from tilewright.tiling.hierarchy.exact.search import best_plan
from tilewright.tiling.hierarchy.level import Level
from tilewright.tiling.hierarchy.loops import AXES, REDUCED, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine, Node
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task

PYTHON = "TILEWRIGHT_ACCELFORGE_PYTHON"
SCRIPT = Path(__file__).with_name("accelforge_peer.py")

RECORDED = Path(__file__).with_name("accelforge.json")
"""What the peer answered, for tests without it."""

PRECISION = 1e-5
"""AccelForge counts with floats of 32 bits."""

# Machines and layers -----------------------------------------------------------------------------------

Table = dict[str, Any]


def memory(name: str, kilobytes: float, holds: str, price: float = 0.0, **more: Any) -> Table:
    """Return a level with tiles, each twice, of the operands with these first letters."""
    held = [operand for operand in USES if operand[0] in holds]
    return {
        "name": name,
        "capacity_bytes": int(2 * 1024 * kilobytes),
        "double_buffering": True,
        "holds": held,
        "read_pj_per_byte": price,
        **({"halo": True} if "i" in holds and more.pop("halo", True) else {}),
        **more,
    }


def array(name: str, *axes: tuple[int, list[str]]) -> Table:
    """Return an array, with a size and loops for each axis."""
    return {"name": name, "fanout": [{"size": size, "over": over} for size, over in axes]}


DRAM = {"name": "dram", "read_pj_per_byte": 56.24, "bytes_per_cycle": 4.0}
PES = array("pes", (8, ["output_maps"]), (8, ["input_maps"]))
REGISTERS = [memory(f"{holds}_register", 2 / 1024, holds, halo=False) for holds in "wio"]
"""Of each PE, without a price. Of two elements: AccelForge 1.0.467 fails at memories of exactly one."""

LEVELS: dict[str, list[Table]] = {
    "shared": [DRAM, memory("buffer", 1, "iwo")],
    "shared, tight": [DRAM, memory("buffer", 1 / 32, "iwo", uneven=True)],
    "apart": [
        DRAM,
        memory("w_buffer", 0.5, "w"),
        memory("i_buffer", 0.25, "i"),
        memory("o_buffer", 0.25, "o"),
    ],
    "nvdla-like": [
        DRAM,
        memory(
            "buffer",
            1,
            "iwo",
            1.992,
            write_pj_per_byte=2.344,
            read_bytes_per_cycle=32,
            write_bytes_per_cycle=16,
        ),
        PES,
        *REGISTERS,
    ],
    "nvdla-like, apart": [
        DRAM,
        memory("w_buffer", 0.5, "w", 1.992),
        memory("i_buffer", 0.25, "i", 1.992),
        memory("o_buffer", 0.5, "o", 1.992, write_pj_per_byte=2.344),
        PES,
        *REGISTERS,
    ],
    "eyeriss-like": [
        DRAM,
        memory("buffer", 1, "io", 6.0),
        array("pes", (14, ["output_maps", "rows"]), (12, ["input_maps", "output_maps"])),
        memory("w_scratchpad", 192 / 1024, "w"),
        memory("i_scratchpad", 12 / 1024, "i", halo=False),
        memory("o_scratchpad", 16 / 1024, "o"),
    ],
    "eyeriss-like, choosing": [
        DRAM,
        memory("buffer", 1, "o", 6.0) | {"may_hold": ["weights", "input"]},
        PES,
        *REGISTERS,
    ],
    "tpu-like": [
        DRAM,
        memory("cmem", 16, "iwo", 15.04, write_pj_per_byte=18.88),
        array("units", (4, ["output_maps"])),
        memory("vmem", 0.5, "io", 1.992, write_pj_per_byte=2.344, halo=False),
        array("array", (8, ["output_maps"]), (8, ["input_maps"])),
        *REGISTERS,
    ],
}
"""In the manner of known machines, smaller, so that the peer takes seconds. What a MAC reads has no price."""

LEVELS["nvdla-like, uneven"] = [
    level | {"uneven": True} if level["name"] == "buffer" else level for level in LEVELS["nvdla-like"]
]
LEVELS["nvdla-like, sums first"] = [LEVELS["nvdla-like, apart"][i] for i in (0, 3, 1, 2, 4, 5, 6, 7)]
LEVELS["apart, sums first"] = [LEVELS["apart"][i] for i in (0, 3, 1, 2)]

LAYERS: dict[str, Table] = {
    "matrix 16x16x16": {"input": [16, 1, 16], "kernels": 16, "kernel": [1, 1]},
    "matrix 16x6x4": {"input": [6, 1, 16], "kernels": 4, "kernel": [1, 1]},
    "matrix 64x48x32": {"input": [48, 1, 64], "kernels": 32, "kernel": [1, 1]},
    "conv 8x8, 16 to 16": {"input": [16, 10, 10], "kernels": 16, "kernel": [3, 3]},
    "row 12, 8 to 16": {"input": [8, 1, 14], "kernels": 16, "kernel": [1, 3]},
    "1x1 8x8, 32 to 16": {"input": [32, 8, 8], "kernels": 16, "kernel": [1, 1]},
    "depthwise 8x8, 16": {"input": [16, 10, 10], "kernels": 16, "kernel": [3, 3], "groups": 16},
    "1x1 14x14, 64 to 64": {"input": [64, 14, 14], "kernels": 64, "kernel": [1, 1]},
    "conv 14x14, 64 to 64": {"input": [64, 16, 16], "kernels": 64, "kernel": [3, 3]},
    "matrix 196x576x64": {"input": [576, 1, 196], "kernels": 64, "kernel": [1, 1]},
}

PAIRS = [
    ("shared", "matrix 64x48x32", "energy"),
    ("shared", "depthwise 8x8, 16", "energy"),
    ("shared, tight", "matrix 16x6x4", "energy"),
    ("apart", "matrix 64x48x32", "energy"),
    ("apart", "conv 8x8, 16 to 16", "energy"),
    ("nvdla-like", "matrix 16x16x16", "energy"),
    ("nvdla-like", "matrix 16x16x16", "cycles"),
    ("nvdla-like", "matrix 16x16x16", "edp"),
    ("nvdla-like, apart", "matrix 64x48x32", "energy"),
    ("nvdla-like, apart", "row 12, 8 to 16", "energy"),
    ("nvdla-like, apart", "matrix 64x48x32", "edp"),
    ("eyeriss-like", "matrix 16x16x16", "energy"),
    ("eyeriss-like", "1x1 8x8, 32 to 16", "energy"),
    ("eyeriss-like, choosing", "matrix 16x16x16", "energy"),
    ("tpu-like", "matrix 64x48x32", "energy"),
    ("nvdla-like, sums first", "matrix 64x48x32", "energy"),
    ("nvdla-like, sums first", "matrix 64x48x32", "edp"),
    ("apart, sums first", "conv 8x8, 16 to 16", "energy"),
    ("nvdla-like, uneven", "1x1 14x14, 64 to 64", "energy"),
    ("eyeriss-like", "1x1 14x14, 64 to 64", "energy"),
    ("nvdla-like, uneven", "conv 14x14, 64 to 64", "energy"),
    ("nvdla-like, uneven", "matrix 196x576x64", "energy"),
    ("eyeriss-like", "matrix 196x576x64", "energy"),
]


def instance(machine: str, layer: str, minimise: str) -> Table:
    """Return the instance of a pair, as `tilewright solve` reads it."""
    bits = {"input": 8, "weights": 8, "output": 8, "partial": 8}
    return {
        "room": "tiling",
        "name": "beside-a-peer",
        "layer": LAYERS[layer],
        "machine": {"kind": "hierarchy", "mac_pj": 0.084, "bits": bits, "levels": LEVELS[machine]},
        "objective": {"minimise": minimise},
    }


def problem(table: Table) -> Problem:
    """Return the problem of an instance."""
    return Problem.model_validate({key: table[key] for key in ("layer", "machine", "objective")})


# Counting alike ----------------------------------------------------------------------------------------


def difference(given: Problem) -> str | None:
    """Say what AccelForge counts in another way, None if nothing."""
    machine, layer = given.machine, given.one_layer
    levels, nodes, sizes = machine.levels, machine.nodes, extents(layer)
    windows = {loop for pair in AXES if all(sizes[loop] > 1 for loop in pair) for loop in pair}
    if machine.bits.partial != machine.bits.output:
        return "its sums have one width, complete or not"
    if any(max(pair) > 1 for pair in (layer.stride, layer.dilation)):
        return "its tiles of input include what lies between windows"
    for level in levels:
        if level.capacity_bytes is None:
            continue
        if not isinstance(level.capacity_bytes, int):
            return f"{level.name} has a capacity for each operand; its memories have one"
        if given.minimise in ("cycles", "edp") and not level.double_buffering:
            return f"transfers to {level.name} stop the computation; its transfers run beside it"
    for operand, holders in machine.holders.items():
        last = levels[nodes[holders[-1]].level]
        read, written = prices(last)
        ported = last.bytes_per_cycle or last.read_bytes_per_cycle or last.write_bytes_per_cycle
        if read or ported or (written and operand == "output"):
            return f"each MAC reads {operand} from {last.name} anew"
        for outer, inner in itertools.pairwise(holders):
            between = _unrolled(nodes[outer:inner])
            if operand == "input" and between & windows:
                return f"{levels[nodes[inner].level].name} gets rows that instances share once for each"
    for i in machine.holders["output"]:
        if any(prices(levels[nodes[i].level])) and _unrolled(nodes[:i]) & set(REDUCED):
            return f"sums come back to all instances of {levels[nodes[i].level].name}"
    for i in machine.holders["input"][1:]:
        level = levels[nodes[i].level]
        # Two positions share nothing with the next two of three or of another odd number.
        tiny = (
            isinstance(level.capacity_bytes, int)
            and 8 * level.capacity_bytes // level.copies < 3 * machine.bits.input
        )
        odd = all(sizes[tap] % 2 for _, tap in AXES)
        if windows and not level.halo and not (tiny and odd):
            return f"its {level.name} keeps what the next tile shares with the last one"
    return None


def _unrolled(nodes: tuple[Node, ...]) -> set[str]:
    """Return the loops that may be unrolled over the arrays among some nodes."""
    return {loop for node in nodes if node.axis is not None for loop in node.axis.loops}


# Our tables as its specification -----------------------------------------------------------------------


def specification(machine: HierarchyMachine, layer: Layer) -> str:
    """Return the YAML text of a machine and a layer; energy in attojoules, time in cycles.

    Loops of one iteration are left out. Tiles that exist twice are written as a memory of half the size.
    """
    loops = {loop: size for loop, size in extents(layer).items() if size > 1}
    lines = ["arch:", "  nodes:"]
    for level in machine.levels:
        lines += _array(machine, level, loops) if level.fanout else _memory(level)
    rate, price = machine.macs_per_cycle, attojoules(machine.mac_pj, 1)
    lines += [
        "  - !Compute",
        *_costs("mac"),
        f"    - {{name: compute, energy: {price}, throughput: {rate}}}",
        "workload:",
        f"  bits_per_value: {{{', '.join(f'{name}: {getattr(machine.bits, name)}' for name in USES)}}}",
        "  einsums:",
        "  - name: layer",
        "    tensor_accesses:",
    ]
    for operand, ranks in _ranks(loops).items():
        axes = ", ".join(f"{name}: {index}" for name, index in ranks.items())
        lines.append(
            f"    - {{name: {operand}, projection: {{{axes}}}{', output: True' * (operand == 'output')}}}"
        )
    bounds = ", ".join(f"0 <= {loop} < {size}" for loop, size in loops.items())
    return "\n".join([*lines, f"    iteration_space_shape: [{bounds}]", ""])


def _costs(name: str) -> list[str]:
    return [f"    name: {name}", "    leak_power: 0", "    area: 0", "    actions:"]


def _memory(level: Level) -> list[str]:
    """Return the lines of a memory."""
    assert level.capacity_bytes is None or isinstance(level.capacity_bytes, int)
    size = "inf" if level.capacity_bytes is None else 8 * level.capacity_bytes // level.copies
    shared = level.bytes_per_cycle
    rates = (shared, shared) if shared else (level.read_bytes_per_cycle, level.write_bytes_per_cycle)
    lines = ["  - !Memory", *_costs(level.name)]
    for way, price, rate in zip(("read", "write"), prices(level), rates, strict=True):
        lines.append(
            f"    - {{name: {way}, energy: {price}, throughput: {'inf' if rate is None else 8 * rate}}}"
        )
    keep, may = (" | ".join(held) or "Nothing" for held in (level.holds, level.may_hold))
    lines += [f"    size: {size}", f"    tensors: {{keep: {keep}, may_keep: {may}}}"]
    if not shared:
        lines.append("    total_latency: max(a.n_calls / a.throughput for a in actions)")
    return lines


def _array(machine: HierarchyMachine, level: Level, loops: dict[str, int]) -> list[str]:
    """Return the lines of an array; axes over which nothing can be unrolled are left out."""
    lines = []
    for node in machine.nodes:
        if node.axis is None or machine.levels[node.level] is not level:
            continue
        allowed = [loop for loop in loops if loop in node.axis.loops]
        if allowed:
            lines += [f"    - name: {node.name}", f"      fanout: {node.axis.size}"]
        if allowed and len(allowed) < len(loops):
            others = f"~({' | '.join(allowed)})"
            lines += ["      loop_bounds:", f"      - {{expression: {others}, operator: ==, value: 1}}"]
    return ["  - !Container", f"    name: {level.name}", "    spatial:", *lines] if lines else []


def _ranks(loops: dict[str, int]) -> dict[str, dict[str, str]]:
    """Return the axes of each operand and what indexes them."""
    found: dict[str, dict[str, str]] = {}
    for operand, uses in USES.items():
        pairs = AXES if operand == "input" else ()
        single = [loop for loop in uses if not any(loop in pair for pair in pairs)]
        indices = [(loop,) for loop in single] + list(pairs)
        present = [[loop for loop in index if loop in loops] for index in indices]
        found[operand] = {"_".join(each).upper(): " + ".join(each) for each in present if each}
    return found


# Its mapping as our plan -------------------------------------------------------------------------------


class Loop(NamedTuple):
    """A loop of a mapping; the axis over which it is unrolled, None for one in time."""

    letter: str
    trips: int
    axis: str | None


def plans(machine: HierarchyMachine, layer: Layer, nodes: list[Table]) -> Iterator[HierarchyPlan]:
    """Yield the plans in which each memory has the tiles of a mapping, in all ways to cut its loops.

    Where a memory that is not uneven has tiles of several blocks, it gets one of the blocks between. That is
    another plan, which may cost more or not fit.
    """
    sizes, loops = dict(extents(layer)), []
    places: dict[tuple[str, str], int] = {}
    for node in nodes:
        if "loop" in node:
            trips = sizes[node["loop"]] // node["step"]
            sizes[node["loop"]] = node["step"]
            if trips > 1:
                loops.append(Loop(node["loop"], trips, node["axis"]))
        elif "reserve" in node:
            places[node["reserve"], node["tensor"]] = len(loops)
    kept = []
    for level in machine.levels:
        held = [each for each in USES if (level.name, each) in places]
        if level.uneven:
            kept.append((level.name, tuple(sorted(held, key=lambda each: places[level.name, each]))))
        elif level.may_hold:
            kept.append((level.name, tuple(each for each in held if each in level.may_hold)))
    decided = machine.keeping(tuple(kept))
    memories = [node for node in decided.nodes if node.axis is None][1:]
    cuts = []
    for node in memories:
        name = decided.levels[node.level].name
        cuts.append(list(_cuts(loops, [(each, places[name, each]) for each in node.holds])))
    for chosen in itertools.product(*cuts):
        if list(chosen) == sorted(chosen):
            ends = dict(zip((node.name for node in memories), chosen, strict=True))
            yield from _nested(decided, layer, loops, ends, tuple(kept))


def _cuts(loops: list[Loop], tiles: list[tuple[str, int]]) -> list[int]:
    """Return after how many loops the block may begin that has the given tile of each operand."""

    def block(operand: str, before: int) -> list[tuple[str, int]]:
        moving = [loop for loop in loops[before:] if loop.letter in USES[operand]]
        return [
            (letter, prod(loop.trips for loop in moving if loop.letter == letter)) for letter in USES[operand]
        ]

    found = [
        cut
        for cut in range(len(loops) + 1)
        if all(block(operand, cut) == block(operand, place) for operand, place in tiles)
    ]
    places = [place for _, place in tiles]
    return found or list(range(min(places), max(places) + 1))


def _nested(
    machine: HierarchyMachine, layer: Layer, loops: list[Loop], ends: dict[str, int], kept: Any
) -> Iterator[HierarchyPlan]:
    """Yield the plans of some cuts; where a memory has a loop twice, it comes at either place.

    Loops in time between an array and the memory in it belong to the memory outside of the array.
    """
    owners: list[list[Loop]] = []
    memories = [number for number, node in enumerate(machine.nodes) if node.axis is None]
    starts = [0, *(ends[machine.nodes[number].name] for number in memories[1:]), len(loops)]
    per_node: dict[int, list[Loop]] = {number: [] for number in range(len(machine.nodes))}
    names = {node.name: number for number, node in enumerate(machine.nodes)}
    for number, (start, stop) in zip(memories, itertools.pairwise(starts), strict=True):
        for loop in loops[start:stop]:
            per_node[number if loop.axis is None else names[loop.axis]].append(loop)
    owners = [per_node[number] for number in range(len(machine.nodes))]
    for merged in itertools.product(*map(_once, owners)):
        left, nest = dict(extents(layer)), []
        for each in merged:
            steps = []
            for letter, trips in each:
                left[letter] //= trips
                steps.append((letter, left[letter]))
            nest.append(tuple(steps))
        yield HierarchyPlan(tuple(nest), kept)


def _once(loops: list[Loop]) -> list[list[tuple[str, int]]]:
    """Return the orders of a node's loops with each letter once: at its first place, or at its last."""
    trips: dict[str, int] = {}
    for loop in loops:
        trips[loop.letter] = trips.get(loop.letter, 1) * loop.trips
    letters = [loop.letter for loop in loops]
    first = list(dict.fromkeys(letters))
    last = list(dict.fromkeys(reversed(letters)))[::-1]
    return [
        [(letter, trips[letter]) for letter in order]
        for order in ([first] if first == last else [first, last])
    ]


def counted(given: Problem, plan: HierarchyPlan) -> int:
    """Return what a plan costs by our count, without rounding."""
    nest = Nest(given.one_layer, given.machine, plan)
    return cost_of(nest).value(given.minimise, given.level)


# Both --------------------------------------------------------------------------------------------------


class Comparison(NamedTuple):
    """What both found for a pair: values in attojoules, cycles, or their product.

    Attributes
    ----------
    same_plan
        What the peer's mapping costs by our count, None where it is no plan of ours.
    search, command, mapping, process
        Seconds of the processor: of our search and the whole command, of the peer's mapper and its process.
    """

    ours: int
    peers: float
    same_plan: int | None
    search: float
    command: float
    mapping: float
    process: float
    answer: Table


def asked(python: str, given: Problem) -> Table:
    """Return the peer's answer to a problem."""
    return answered(python, specification(given.machine, given.one_layer), given.minimise)


def answered(python: str, specification: str, minimise: str) -> Table:
    """Return the peer's answer to a specification."""
    question = {"specification": specification, "minimise": minimise}
    run = subprocess.run(
        [python, "-P", str(SCRIPT)], input=json.dumps(question), capture_output=True, text=True, check=False
    )
    if run.returncode:
        raise RuntimeError(f"the peer fails: {run.stderr[-2000:]}")
    answer: Table = json.loads(run.stdout)
    return answer


def closest(given: Problem, answer: Table) -> int | None:
    """Return our count of the peer's mapping, None where no nest of ours that fits has its tiles."""
    values = [
        counted(given, plan)
        for plan in plans(given.machine, given.one_layer, answer["nodes"])
        if Nest(given.one_layer, given.machine, plan).violation() is None
    ]
    return min(values, key=lambda value: abs(value - answer["value"]), default=None)


def compare(python: str, table: Table) -> Comparison:
    """Solve a pair by both."""
    given = problem(table)
    assert difference(given) is None
    task = Task.of(given)
    best_plan(task)  # compiles, or loads what is compiled
    search, best = timed(lambda: best_plan(task), 3)
    assert best is not None
    assert best.proven
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "pair.toml")
        file.write_text(text(table), "utf-8")
        solve = [sys.executable, "-m", "tilewright", "solve", str(file)]
        command, _ = timed(lambda: subprocess.run(solve, check=True, capture_output=True))
    process, answer = timed(lambda: asked(python, given))
    return Comparison(
        best.value,
        answer["value"],
        closest(given, answer),
        search,
        command,
        answer["seconds"],
        process,
        answer,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "pairs", nargs="*", type=int, default=range(len(PAIRS)), help="numbers of pairs, from 0"
    )
    parser.add_argument("--save", action="store_true", help=f"keep the peer's answers in {RECORDED.name}")
    chosen = parser.parse_args()
    if PYTHON not in os.environ:
        parser.error(f"{PYTHON} names no Python that has AccelForge")
    print(
        "| pair | objective | ours | AccelForge | its plan by our count | search, command | mapper, process |"
    )
    print("|---|---|---|---|---|---|---|")
    for number in chosen.pairs:
        machine, layer, minimise = PAIRS[number]
        found = compare(os.environ[PYTHON], instance(machine, layer, minimise))
        alike = found.same_plan is not None and isclose(found.same_plan, found.peers, rel_tol=PRECISION)
        same = f"{found.same_plan:,}" if alike else "no plan of ours"
        print(
            f"| {machine}; {layer} | {minimise} | {found.ours:,} | {found.peers:,.0f} | {same} "
            f"| {found.search:.3f}, {found.command:.2f} | {found.mapping:.1f}, {found.process:.1f} |",
            flush=True,
        )
        if chosen.save:
            recorded = json.loads(RECORDED.read_text("utf-8")) | {"; ".join(PAIRS[number]): found.answer}
            lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in sorted(recorded.items())]
            RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    main()
