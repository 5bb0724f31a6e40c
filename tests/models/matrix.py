"""Which formulations solve which objective under which limit: a small problem of each, solved by all of them.

``python -m tests.models.matrix`` writes the table of docs/models.md anew.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from tests.models.small_data import (
    CHAIN,
    CONVOLUTION,
    FULLY_CONNECTED,
    INSTRUCTIONS,
    PAIR,
    RANGES,
    SMALL_PRODUCTS,
)

import tilewright as tw
from tilewright import drivers
from tilewright.core import catalogue
from tilewright.run.instance import parse
from tilewright.spec.errors import TilewrightError

Json = dict[str, Any]

PAGE = Path(__file__).parents[2] / "docs" / "models.md"

SOLVERS = {"MiniZinc": ("gecode",), "Pyomo": ("highs",), "CP-SAT": ("cpsat",)}
"""Columns of the table."""

SECONDS = 60.0

POINT: Json = {"input": [1, 2, 3], "kernels": 2, "kernel": [1, 2]}
SMALL_CHAIN: Json = {
    "layers": [
        {"name": "a", "input": [1, 4, 4], "kernels": 2, "kernel": [1, 1]},
        {"name": "b", "input": [2, 4, 4], "kernels": 2, "kernel": [2, 2]},
        {"name": "c", "input": [2, 3, 3], "kernels": 1, "kernel": [1, 1]},
    ]
}
TWO_READERS: Json = {
    "layers": [
        {"name": "a", "input": [1, 3, 3], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "kind": "pool", "inputs": ["a"], "kernel": [1, 2]},
        {"name": "c", "kind": "pool", "inputs": ["a"], "kernel": [2, 1]},
    ]
}
"""The first operation is executed twice where that may be, in 30 bytes."""

ATTENTION: Json = {
    "input": [1, 1, 2],
    "layers": [
        {"name": "keys", "kind": "input", "input": [1, 1, 3]},
        {"name": "values", "kind": "input", "input": [1, 1, 3]},
        {"name": "scores", "kind": "matmul", "inputs": ["input", "keys"], "input": [1, 1, 2]}
        | {"output": [3, 1, 2], "depth": 1, "transposed": False},
        {"name": "softmax", "kind": "function", "op": "softmax", "input": [3, 1, 2], "output": [3, 1, 2]}
        | {"along": ["channels"]},
        {"name": "context", "kind": "matmul", "inputs": ["softmax", "values"], "input": [3, 1, 2]}
        | {"output": [1, 1, 2], "depth": 3, "transposed": True},
    ],
}
"""Two queries and three keys, in 20 bytes."""

PRICES: Json = {
    **dict.fromkeys(("mac_fj", "register_fj", "idle_pe_fj_per_cycle"), 1),
    **dict.fromkeys(("hop_fj", "pe_fj_per_cycle"), 2),
    **dict.fromkeys(("buffer_read_fj", "buffer_write_fj"), 6),
    "off_chip_fj_per_byte": 200,
}
DSP: Json = {"kind": "dsp", "memory_bytes": 40, "element_bytes": 1}
SPEEDS = ("macs_per_cycle", "bus_elements_per_cycle")
"""Of a machine with a vector unit they are at least its lanes."""

NPU: Json = {
    "kind": "npu",
    "tles": 2,
    "tlts": 2,
    **dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 18),
    "cycle_ps": 5,
    "byte_ps": 3,
    "burst_ps": 7,
}
LEVELS: list[Json] = [
    {"name": "dram", "read_pj_per_byte": 9.0, "bytes_per_cycle": 2.0},
    {"name": "buffer", "capacity_bytes": 20, "read_pj_per_byte": 1.0, "double_buffering": True},
]
HIERARCHY: Json = {"kind": "hierarchy", "mac_pj": 1.0, "levels": LEVELS}


class Cell(NamedTuple):
    """A row of the table, and a problem of it."""

    room: str
    objective: str
    limit: str
    table: Json


def _with(table: Json, minimise: str | list[str], limits: Json | None = None) -> Json:
    return {**table, "objective": {"minimise": minimise}, **({"limits": limits} if limits else {})}


def _tiling() -> list[Cell]:
    found = []
    dsp = {"layer": POINT, "machine": DSP}
    for cost in ("accesses", "cycles", "energy"):
        for name, limits in (
            ("", {}),
            ("schedule", {"schedule": "thesis"}),
            ("at_most", {"at_most": {"accesses": 200}}),
        ):
            found.append(Cell("tiling, DSP", cost, name, _with(dsp, cost, limits)))
    found.append(Cell("tiling, DSP", "cycles", "after accesses", _with(dsp, ["accesses", "cycles"])))
    found.append(
        Cell("tiling, DSP", "accesses", "any+weights", _with(dsp, "accesses", {"schedule": "any+weights"}))
    )
    vectors = {"layer": POINT, "machine": {**DSP, "vector_unit": {"lanes": 2}, **dict.fromkeys(SPEEDS, 2)}}
    for cost in ("accesses", "cycles", "energy"):
        found.append(Cell("tiling, DSP", cost, "vector_unit", _with(vectors, cost)))
    npu = {"layer": CONVOLUTION, "machine": NPU}
    for cost in ("time", "accesses"):
        for name, limits in (
            ("", {}),
            ("partition", {"partition": "OFM"}),
            ("schedule", {"schedule": "OS"}),
            ("at_most", {"at_most": {"accesses": 10**6}}),
        ):
            found.append(Cell("tiling, NPU", cost, name, _with(npu, cost, limits)))
    found.append(Cell("tiling, NPU", "accesses", "after time", _with(npu, ["time", "accesses"])))
    hierarchy = {"layer": POINT, "machine": HIERARCHY}
    found.append(Cell("tiling, hierarchy", "cycles", "after energy", _with(hierarchy, ["energy", "cycles"])))
    for cost in ("accesses", "energy", "cycles", "edp"):
        for name, limits in (
            ("", {}),
            ("at_most", {"at_most": {"accesses": 10**6}}),
            ("factors any", {"factors": "any"}),
        ):
            found.append(Cell("tiling, hierarchy", cost, name, _with(hierarchy, cost, limits)))
        levels = [LEVELS[0], {**LEVELS[1], "holds": ["input", "output"], "may_hold": ["weights"]}]
        machine = {**HIERARCHY, "levels": levels}
        found.append(
            Cell("tiling, hierarchy", cost, "may_hold", _with({"layer": POINT, "machine": machine}, cost))
        )
    return found


def _grouping() -> list[Cell]:
    machine: Json = {"group_size": 2, "load": 1, "compute": 2}
    found = []
    for cost in ("loads", "duration"):
        for name, limits in (
            ("steps free", {"steps": "free"}),
            ("steps kmin", {"steps": "kmin"}),
            ("steps 4", {"steps": 4}),
            ("reloads 0", {"reloads": 0}),
        ):
            layer = {"input": [1, 3, 4], "kernels": 1, "kernel": [2, 2]}
            found.append(
                Cell("grouping", cost, name, _with({"layer": layer, "machine": machine}, cost, limits))
            )
    return found


def _offloading() -> list[Cell]:
    layer: Json = {"input": [2, 2, 3], "kernels": 1, "kernel": [2, 2]}
    machine: Json = {"macs_per_step": 8, "memory": 14}
    two: Json = {"macs_per_step": 4, "memory": 9, "parts": 2, "memories": "own"}
    found = []
    for cost in ("duration", "loads"):
        small = {"layer": {**layer, "input": [1, 2, 3]}, "machine": two}
        found.append(Cell("offloading", cost, "parts 2, own", _with(small, cost)))
        for name, changed, limits in (
            ("", {}, {}),
            ("steps 3", {}, {"steps": 3}),
            ("reloads 1", {"memory": 18}, {"reloads": 1}),
            ("channels all", {"memory": 18}, {"channels": "all"}),
            ("form gemm", {"unit": [2, 1, 4]}, {"form": "gemm"}),
            ("kernels preloaded", {"kernels": "preloaded"}, {}),
        ):
            table = {"layer": layer, "machine": {**machine, **changed}}
            found.append(Cell("offloading", cost, name, _with(table, cost, limits)))
    return found


def _allocation() -> list[Cell]:
    machine: Json = {"array": [2, 3], "functional_units": 2, "clock_mhz": 1}
    table = {"network": SMALL_CHAIN, "machine": machine}
    found = []
    for cost in ("interval", "pes", "latency"):
        rate = {"objective": {"minimise": cost, "frames_per_second": 5_000}} if cost == "pes" else {}
        for name, limits in (
            ("", {}),
            ("layer-by-layer", {"execution": "layer-by-layer"}),
            ("splits", {"splits": ["filters", "maps", "rows"]}),
            ("functional_units any", {"functional_units": "any"}),
            ("scan fields", {"scan": "fields"}),
            ("pes given", {"pes": {"b": 2}}),
        ):
            if cost != "latency" or name != "splits":  # rows are not split for it
                found.append(Cell("allocation", cost, name, {**_with(table, cost, limits), **rate}))
        small = {**table, "machine": {**machine, "buffer_bytes": 50}}
        found.append(Cell("allocation", cost, "buffer_bytes", {**_with(small, cost), **rate}))
    found.append(Cell("allocation", "distance", "", _with(table, "distance")))
    priced = {"network": SMALL_CHAIN, "machine": {**machine, "energy": PRICES}}
    for name, limits in (
        ("", {}),
        ("layer-by-layer", {"execution": "layer-by-layer"}),
        ("splits", {"splits": ["filters", "maps", "rows"]}),
        ("pes given", {"pes": {"b": 2}}),
    ):
        found.append(Cell("allocation", "energy", name, _with(priced, "energy", limits)))
    held = {"network": SMALL_CHAIN, "machine": {**machine, "buffer_bytes": 50, "energy": PRICES}}
    found.append(Cell("allocation", "energy", "buffer_bytes", _with(held, "energy")))
    small = {"network": SMALL_CHAIN, "machine": {**machine, "buffer_bytes": 50, "off_chip": {"mb_per_s": 1}}}
    tiny = {**small, "machine": {**small["machine"], "buffer_bytes": 25}}
    found.append(Cell("allocation", "interval", "off_chip", _with(tiny, "interval")))
    turns = _with(small, "interval", {"execution": "layer-by-layer"})
    found.append(Cell("allocation", "interval", "off_chip, layer-by-layer", turns))
    return found


def _others() -> list[Cell]:
    found = []
    priced = {**INSTRUCTIONS, "energy": {"pj_per_dram_byte": 20, "milliwatts": 100}}
    fusion = {"network": CHAIN, "machine": priced}
    for cost in ("cycles", "traffic", "energy", "memory"):
        for name, limits in (
            ("", {}),
            ("halo keep", {"halo": "keep"}),
            ("halo recompute", {"halo": "recompute"}),
            ("tiles any", {"tiles": "any"}),
        ):
            # All sizes are many: two operations are enough for the reference model.
            network = PAIR if name == "tiles any" else CHAIN
            found.append(Cell("fusion", cost, name, _with({**fusion, "network": network}, cost, limits)))
    bits = {
        "network": FULLY_CONNECTED,
        "ranges": RANGES,
        "machine": {"accumulator_bits": 20, "widths": [4, 5, 6, 7, 8, 9, 10]},
    }
    for cost in ("noise", "bits"):
        for name, limits in (
            ("", {}),
            ("bits", {"bits": 2000}),
            ("signal_to_noise_db", {"signal_to_noise_db": 20.0}),
            ("worst_case", {"bound": "worst_case"}),
        ):
            found.append(Cell("bitwidth", cost, name, _with(bits, cost, limits)))
    prices = {"core_fj_per_cycle": 1, "local_fj_per_access": 1, "dram_fj_per_access": 5}
    machine: Json = {"memory_bytes": 30, "macs_per_cycle": 1, "bus_elements_per_cycle": 1, "energy": prices}
    residency = {"network": PAIR, "machine": machine}
    for cost in ("traffic", "cycles", "energy", "memory"):
        for name, limits in (
            ("", {}),
            ("order given", {"order": "given"}),
            ("most_operations", {"most_operations": 1}),
            ("no tiles", {"tiles": False}),
            ("many frames", {"frames": "many"}),
            ("executions 2", {"executions": 2}),
        ):
            if cost == "traffic" or name not in ("many frames", "executions 2"):  # are for traffic
                table = residency | ({"network": TWO_READERS} if name == "executions 2" else {})
                found.append(Cell("residency", cost, name, _with(table, cost, limits)))
        doubled = {"network": PAIR, "machine": machine | {"double_buffering": True}}
        found.append(Cell("residency", cost, "second buffers", _with(doubled, cost)))
        attention = {"network": ATTENTION, "machine": machine | {"memory_bytes": 20}}
        found.append(Cell("residency", cost, "attention", _with(attention, cost)))
    flash = {"memories": [{"name": "flash", "bytes": 4096, "read_only": True}], "dram": False}
    flash |= {"dma_setup_cycles": 0}
    for cost in ("traffic", "cycles", "energy", "macs", "memory"):
        table = {"network": PAIR, "machine": machine | flash}
        found.append(Cell("residency", cost, "without DRAM", _with(table, cost)))
    found.append(Cell("residency", "cycles", "after traffic", _with(residency, ["traffic", "cycles"])))
    for name, limits in (
        ("", {}),
        ("flow", {"connected": "flow"}),
        ("accumulators", {"accumulators": "tile"}),
    ):
        table = {"graph": SMALL_PRODUCTS, **({"limits": limits} if limits else {})}
        found.append(Cell("scheduling", "latency", name, table))
    buffers = [
        {"id": name, "lower": lower, "upper": upper, "size": size}
        for name, lower, upper, size in (("a", 0, 2, 3), ("b", 1, 4, 2), ("c", 3, 5, 4), ("d", 2, 5, 1))
    ]
    for name, memory in (("", {}), ("capacity", {"capacity": 9}), ("alignment", {"alignment": 2})):
        found.append(Cell("addresses", "memory", name, {"buffers": buffers, "memory": memory}))
    return found


@lru_cache(maxsize=1)
def cells() -> tuple[Cell, ...]:
    """Return all rows whose problems the room takes."""
    return (*_grouping(), *_offloading(), *_tiling(), *_allocation(), *_others())


def problem(cell: Cell) -> Any:
    """Return the problem of a row."""
    return parse({"room": cell.room.partition(",")[0], **cell.table}).problem


def solved_by(cell: Cell) -> dict[str, list[str]]:
    """Return the formulations that find and prove the optimum of a row, by column.

    Raises
    ------
    AssertionError
        Where one proves another optimum than ``auto``.
    """
    asked, room = problem(cell), cell.room.partition(",")[0]
    expected = tw.solve(asked, time_limit=SECONDS)
    assert expected.status in ("optimal", "infeasible"), cell
    found: dict[str, list[str]] = {column: [] for column in SOLVERS}
    for path in catalogue.models(room):
        if catalogue.solves_itself(path) or not catalogue.bundled(path):
            continue
        if not catalogue.suits(catalogue.formulation(room, path.stem), asked):
            continue
        for column, solvers in SOLVERS.items():
            for solver in solvers:
                if drivers.find(solver).takes != _written_for(path):
                    continue
                try:
                    result = tw.solve(asked, f"{path.stem}@{solver}", time_limit=SECONDS, confirm=False)
                except TilewrightError:
                    continue
                if result.status in ("optimal", "infeasible"):
                    told = f"{cell}: {path.stem}@{solver}"
                    assert (result.status, result.objective) == (expected.status, expected.objective), told
                    found[column].append(path.stem)
    return found


def _written_for(path: Path) -> str:
    if path.suffix == ".mzn":
        return ".mzn"
    return "cpsat" if re.search(r'^WRITTEN_FOR = "cpsat"', path.read_text("utf-8"), re.MULTILINE) else ".py"


def line(cell: Cell, found: dict[str, list[str]]) -> str:
    """Return a line of the table."""
    names = [", ".join(f"`{name}`" for name in found[column]) for column in SOLVERS]
    return "| " + " | ".join([cell.room, f"`{cell.objective}`", cell.limit, *names]) + " |"


def told(cell: Cell) -> str:
    """Return what the page says of a row, "" for nothing."""
    start = f"| {cell.room} | `{cell.objective}` | {cell.limit} |"
    lines = PAGE.read_text("utf-8").splitlines()
    return next((each for each in lines if each.startswith(start)), "")


if __name__ == "__main__":
    header = ["| room | objective | limit | MiniZinc | Pyomo | CP-SAT |", "|---|---|---|---|---|---|"]
    rows = []
    for each in cells():
        rows.append(line(each, solved_by(each)))
        print(rows[-1], flush=True)
    before = PAGE.read_text("utf-8").split(header[0])[0] if PAGE.exists() else ""
    PAGE.write_text(before + "\n".join([*header, *rows]) + "\n", "utf-8")
