"""The small problems whose data stand beside the MiniZinc models, so that these run from a shell.

``python -m tests.models.small_data`` writes the files anew.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.drivers import export
from tilewright.run.instance import parse

Json = dict[str, Any]

MODELS = Path(__file__).parents[2] / "models"

CONVOLUTION: Json = {"input": [2, 4, 4], "kernels": 3, "kernel": [3, 3]}
PATCHES: Json = {"input": [1, 4, 5], "kernels": 1, "kernel": [3, 3]}

CHAIN: Json = {
    "layers": [
        {"name": "a", "input": [2, 6, 6], "kernels": 4, "kernel": [1, 1]},
        {"name": "b", "input": [4, 6, 6], "kernels": 2, "kernel": [1, 1]},
        {"name": "c", "input": [2, 6, 6], "kernels": 4, "kernel": [3, 3]},
    ]
}
PAIR: Json = {
    "layers": [
        {"name": "a", "input": [2, 3, 3], "kernels": 2, "kernel": [2, 2], "padding": [1, 0, 1, 0]},
        {"name": "b", "input": [2, 3, 3], "kernels": 1, "kernel": [1, 1]},
    ]
}
INSTRUCTIONS: Json = {
    "conv_array": [2, 2, 2],
    "clock_mhz": 100,
    **dict.fromkeys(("input_bytes", "output_bytes", "parameter_bytes"), 256),
    "load_mb_per_s": 100,
    "save_mb_per_s": 100,
    "operands_per_cycle": 4,
    "issue_cycles": 5,
}
FULLY_CONNECTED: Json = {
    "layers": [
        {"name": "a", "kind": "fc", "inputs": 20, "outputs": 6},
        {"name": "b", "kind": "fc", "inputs": 6, "outputs": 30},
    ]
}
RANGES: Json = {
    "a": {"input": 3.0, "weights": 0.4, "output": 5.0},
    "b": {"input": 5.0, "weights": 0.2, "output": 2.0},
}
PRODUCTS: Json = {
    "widths": [128, 128, 128],
    "heights": [128, 128, 128],
    "inputs": [[0], [1]],
    "outputs": [[1], [2]],
    "base_costs": [1000, 100],
    "op_types": ["Pointwise", "Pointwise"],
    "fast_memory_capacity": 35_000,
    "slow_memory_bandwidth": 10,
    "native_granularity": [128, 128],
}

SMALL_PRODUCTS: Json = {
    "widths": [2, 2, 2, 2],
    "heights": [3, 2, 3, 3],
    "inputs": [[0, 1], [2]],
    "outputs": [[2], [3]],
    "base_costs": [10, 4],
    "op_types": ["MatMul", "Pointwise"],
    "fast_memory_capacity": 12,
    "slow_memory_bandwidth": 2,
    "native_granularity": [2, 2],
}

SMALL: dict[tuple[str, str, str], Json] = {
    ("addresses", "rectangles", "small.dzn"): {
        "buffers": [
            {"id": "a", "lower": 0, "upper": 3, "size": 4},
            {"id": "b", "lower": 1, "upper": 5, "size": 2},
            {"id": "c", "lower": 3, "upper": 6, "size": 3},
            {"id": "d", "lower": 4, "upper": 7, "size": 3},
        ]
    },
    ("allocation", "columns_balance", "small.dzn"): {
        "network": CHAIN,
        "machine": {"array": [2, 4], "functional_units": 2, "clock_mhz": 1},
        "objective": {"minimise": "interval"},
    },
    ("allocation", "reference", "small.reference.dzn"): {
        "network": CHAIN,
        "machine": {"array": [1, 5], "functional_units": 2, "clock_mhz": 1},
        "objective": {"minimise": "latency"},
    },
    ("allocation", "regions", "small.regions.dzn"): {
        "network": CHAIN,
        "machine": {"array": [2, 4], "functional_units": 2, "clock_mhz": 1},
        "objective": {"minimise": "distance"},
    },
    ("bitwidth", "columns_choose", "small.dzn"): {
        "network": FULLY_CONNECTED,
        "ranges": RANGES,
        "machine": {"accumulator_bits": 20, "widths": [4, 5, 6, 7, 8, 9, 10]},
        "limits": {"bits": 2000},
    },
    ("bitwidth", "reference", "small.reference.dzn"): {
        "network": FULLY_CONNECTED,
        "ranges": RANGES,
        "machine": {"accumulator_bits": 20, "widths": [4, 5, 6, 7, 8, 9, 10]},
        "limits": {"bits": 2000},
    },
    ("fusion", "columns_cover", "small.dzn"): {
        "network": CHAIN,
        "machine": INSTRUCTIONS,
        "objective": {"minimise": "traffic"},
    },
    ("fusion", "reference", "small.reference.dzn"): {
        "network": PAIR,
        "machine": INSTRUCTIONS | dict.fromkeys(("input_bytes", "output_bytes", "parameter_bytes"), 40),
        "objective": {"minimise": "traffic"},
    },
    ("grouping", "ordered", "small.dzn"): {
        "layer": PATCHES,
        "machine": {"group_size": 2},
        "limits": {"steps": "kmin", "reloads": 2},
    },
    ("grouping", "reference", "small.reference.dzn"): {
        "layer": PATCHES,
        "machine": {"group_size": 2},
        "limits": {"steps": "kmin", "reloads": 2},
    },
    ("offloading", "reference", "small.dzn"): {
        "layer": {"input": [2, 2, 3], "kernels": 1, "kernel": [2, 2]},
        "machine": {"macs_per_step": 8, "memory": 14},
    },
    ("residency", "columns_divide", "small.dzn"): {
        "network": CHAIN,
        "machine": {"memory_bytes": 150},
        "limits": {"order": "given"},
    },
    ("residency", "reference", "small.reference.dzn"): {
        "network": PAIR,
        "machine": {"memory_bytes": 30},
    },
    ("scheduling", "columns_choose", "small.dzn"): {"graph": PRODUCTS},
    ("scheduling", "reference", "small.reference.dzn"): {"graph": SMALL_PRODUCTS},
    ("tiling", "loops", "small.dzn"): {
        "layer": CONVOLUTION,
        "machine": {"kind": "dsp", "memory_bytes": 30, "element_bytes": 1, "double_buffering": False},
    },
    ("tiling", "reference.dsp", "small.reference.dsp.dzn"): {
        "layer": {"input": [2, 3, 3], "kernels": 2, "kernel": [2, 2]},
        "machine": {"kind": "dsp", "memory_bytes": 40, "element_bytes": 1},
        "objective": {"minimise": "cycles"},
    },
    ("tiling", "cores", "small.npu.dzn"): {
        "layer": CONVOLUTION,
        "machine": {
            "kind": "npu",
            "tles": 2,
            "tlts": 2,
            **dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 18),
            "cycle_ps": 5,
            "byte_ps": 3,
            "burst_ps": 7,
        },
    },
    ("tiling", "reference.npu", "small.reference.npu.dzn"): {
        "layer": CONVOLUTION,
        "machine": {
            "kind": "npu",
            "tles": 2,
            "tlts": 2,
            **dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 18),
            "cycle_ps": 5,
            "byte_ps": 3,
            "burst_ps": 7,
        },
    },
    ("tiling", "reference.hierarchy", "small.reference.hierarchy.dzn"): {
        "layer": {"input": [2, 3, 3], "kernels": 2, "kernel": [2, 2]},
        "machine": {
            "kind": "hierarchy",
            "mac_pj": 0.5,
            "levels": [
                {"name": "dram", "read_pj_per_byte": 64.0},
                {"name": "buffer", "capacity_bytes": 24, "read_pj_per_byte": 2.0},
            ],
        },
        "objective": {"minimise": "energy"},
    },
    ("tiling", "levels", "small.hierarchy.dzn"): {
        "layer": CONVOLUTION,
        "machine": {
            "kind": "hierarchy",
            "levels": [{"name": "dram"}, {"name": "buffer", "capacity_bytes": 60}],
        },
    },
}
"""By room, formulation and file, the tables of an instance."""


def problem(room: str, formulation: str, file: str) -> Any:
    """Return a small problem."""
    return parse({"room": room, **SMALL[room, formulation, file]}).problem


def text(room: str, formulation: str, file: str) -> str:
    """Return the content of a data file."""
    command = f"minizinc {formulation}.mzn {file}"
    written = export.text(problem(room, formulation, file), formulation, ".dzn")
    instead = "" if "reference" in formulation else ", `core` instead any plan"
    return f"% A small problem: `{command}` finds the best plan{instead}.\n{written}"


def formulations() -> list[tuple[str, str]]:
    """Return the room and the name of each formulation in MiniZinc."""
    return [
        (room, path.stem)
        for room in catalogue.ROOMS
        for path in catalogue.models(room)
        if path.suffix == ".mzn"
    ]


if __name__ == "__main__":
    for key in SMALL:
        (MODELS / key[0] / key[2]).write_text(text(*key), "utf-8")
