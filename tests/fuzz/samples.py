"""Small problems of every room and machine, and right results of them, made once."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from tilewright.run.instance import read
from tilewright.run.solve import solve

LAYER = "input = [2, 6, 6]\nkernels = 2\nkernel = [3, 3]\n"

NETWORK = """
[[network.layers]]
name = "conv1"
input = [2, 8, 8]
kernels = 4
kernel = [3, 3]
padding = [1, 1, 1, 1]

[[network.layers]]
name = "pool1"
kind = "pool"
input = [4, 8, 8]
kernel = [2, 2]
stride = [2, 2]

[[network.layers]]
name = "conv2"
input = [4, 4, 4]
kernels = 6
kernel = [3, 3]
"""

DSP = '[machine]\nkind = "dsp"\nmemory_bytes = 256\n'
ARRAY = "[machine]\narray = [3, 3]\nclock_mhz = 50\n"

RANGES = """[ranges]
conv1 = { input = 1.0, weights = 0.5, output = 2.0 }
conv2 = { input = 2.0, weights = 0.25, output = 2.5 }
"""
NPU = (
    '[machine]\nkind = "npu"\ntles = 2\ntlts = 2\n'
    "input_bytes = 256\nweights_bytes = 256\noutput_bytes = 256\n"
)
LEVELS = """[machine]
kind = "hierarchy"
mac_pj = 0.5
[[machine.levels]]
name = "dram"
read_pj_per_byte = 50.0
bytes_per_cycle = 4.0
[[machine.levels]]
name = "buffer"
capacity_bytes = 128
read_pj_per_byte = 2.0
"""
PES = """[[machine.levels]]
name = "pes"
fanout = [{ size = 2, over = ["output_maps", "input_maps"] }]
[[machine.levels]]
name = "register"
capacity_bytes = 1
holds = ["weights"]
"""
BETWEEN = "vector_ops_per_cycle = 4\nhost = { cycles_per_byte = 1.0, cycles_per_call = 100 }\n"
"""Of a machine: what pools and functions between layers need."""

BUFFERS = "".join(
    f'[[buffers]]\nid = "b{number}"\nlower = {lower}\nupper = {upper}\nsize = {size}\n'
    for number, (lower, upper, size) in enumerate([(0, 3, 8), (3, 9, 8), (0, 9, 4), (9, 21, 4), (0, 21, 7)])
)
GRAPH = """[graph]
widths = [4, 4, 4, 4, 4]
heights = [4, 4, 4, 4, 4]
inputs = [[0, 1], [2], [2, 3]]
outputs = [[2], [3], [4]]
base_costs = [9, 3, 5]
op_types = ["MatMul", "Pointwise", "MatMul"]
fast_memory_capacity = 30
slow_memory_bandwidth = 2
native_granularity = [2, 2]
"""

SAMPLES: dict[str, tuple[str, str]] = {
    "grouping": (
        "exact",
        'room = "grouping"\n[layer]\ninput = [2, 5, 5]\nkernels = 2\nkernel = [3, 3]\n'
        '[machine]\ngroup_size = 2\n[limits]\nsteps = "kmin"\nreloads = 2\n',
    ),
    "dsp": ("exhaustive", f'room = "tiling"\n[layer]\n{LAYER}{DSP}'),
    "dsp-network": (
        "exhaustive",
        f'room = "tiling"\n{NETWORK}{DSP}[objective]\nminimise = "cycles"\n',
    ),
    "dsp-front": ("exhaustive", f'room = "tiling"\n[layer]\n{LAYER}{DSP}[objective]\nminimise = "pareto"\n'),
    "npu": ("exhaustive", f'room = "tiling"\n[layer]\n{LAYER}{NPU}'),
    "hierarchy": (
        "exhaustive",
        f'room = "tiling"\n[layer]\n{LAYER}{LEVELS}{PES}[objective]\nminimise = "energy"\n',
    ),
    "uneven": (
        "exhaustive",
        f'room = "tiling"\n[layer]\n{LAYER}{LEVELS}uneven = true\n[objective]\nminimise = "accesses"\n',
    ),
    "hierarchy-between": (
        "exhaustive",
        f'room = "tiling"\n{NETWORK}{LEVELS.replace("mac_pj", BETWEEN + "mac_pj")}{PES}'
        '[objective]\nminimise = "cycles"\n',
    ),
    "dsp-between": (
        "exhaustive",
        f'room = "tiling"\n{NETWORK}{DSP}{BETWEEN}[objective]\nminimise = "energy"\n',
    ),
    "npu-between": ("exhaustive", f'room = "tiling"\n{NETWORK}{NPU}{BETWEEN}'),
    "network-front": ("exhaustive", f'room = "tiling"\n{NETWORK}{DSP}[objective]\nminimise = "pareto"\n'),
    "tolerance": (
        "exhaustive",
        f'room = "tiling"\n{NETWORK}{DSP}[objective]\nminimise = ["cycles", "energy"]\n'
        'tolerance = 0.05\ntolerance_of = "network"\n',
    ),
    "allocation": ("parametric", f'room = "allocation"\n{NETWORK}{ARRAY}'),
    "allocation-front": (
        "parametric",
        f'room = "allocation"\n{NETWORK}{ARRAY}[objective]\nminimise = "pareto"\n',
    ),
    "fusion": (
        "downsets",
        f'room = "fusion"\n{NETWORK}[machine]\nconv_array = [4, 4, 2]\nclock_mhz = 330\ninput_bytes = 1024\n'
        "output_bytes = 1024\nparameter_bytes = 1024\nload_mb_per_s = 1900\nsave_mb_per_s = 1900\n"
        "operands_per_cycle = 8\n",
    ),
    "addresses": ("canonical", f'room = "addresses"\n[memory]\ncapacity = 40\nalignment = 2\n{BUFFERS}'),
    "scheduling": ("ideals", f'room = "scheduling"\n{GRAPH}'),
    "residency-memory": (
        "states",
        f'room = "residency"\n{NETWORK}[machine]\nmemory_bytes = 400\n'
        '[objective]\nminimise = "memory"\nmost_traffic = 900\n',
    ),
    "residency": ("states", f'room = "residency"\n{NETWORK}[machine]\nmemory_bytes = 300\n'),
    "bitwidth": (
        "merging",
        f'room = "bitwidth"\n{NETWORK}[machine]\naccumulator_bits = 16\n[limits]\nbits = 9000\n{RANGES}',
    ),
}
"""By name: a method that proves its plan in a moment, and the text of the instance."""


@cache
def right(name: str) -> dict[str, Any]:
    """Return the content of a result file of a problem: optimal, proven by the problem's method."""
    method, text = SAMPLES[name]
    with TemporaryDirectory() as folder:
        path = Path(folder, f"{name}.toml")
        path.write_text(text)
        result = solve(read(path), method, time_limit=60.0)
    assert result.status == "optimal", f"{name}: {result.status}"
    return result.to_json()


def text(name: str) -> str:
    """Return the text of a right result file."""
    return json.dumps(right(name)) + "\n"


def write(name: str, folder: Path) -> Path:
    """Write a problem's instance file; return its path."""
    path = folder / f"{name}.toml"
    path.write_text(SAMPLES[name][1])
    return path
