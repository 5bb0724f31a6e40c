"""Small layers and networks on DSPs and NPUs, solved by every method."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from tests.fuzz.problems import attack
from tests.oracles import tiling

NIGHTLY = 6


def trial(rng: random.Random, scratch: Path) -> list[str]:
    """Solve one problem."""
    machine = rng.choice([dsp, npu])(rng)
    table: dict[str, Any] = {"machine": machine}
    if rng.random() < 0.7:
        table["layer"] = layer(rng)
    else:
        table["network"] = {"layers": [{"name": f"l{i}", **layer(rng)} for i in range(rng.randint(1, 2))]}
        if rng.random() < 0.3:
            table["batch"] = rng.randint(1, 2)
        if rng.random() < 0.7:
            table["network"]["layers"] += [
                {"name": f"o{i}", **operation(rng)} for i in range(rng.randint(1, 2))
            ]
            machine |= {"vector_ops_per_cycle": rng.choice([1, 3, 8]), "register_file_bytes": 0}
            machine.pop("bits", None)
            if machine["kind"] == "npu":
                del machine["register_file_bytes"]
    if machine["kind"] == "dsp":
        objectives = ["accesses", "cycles", "energy"] + ["pareto"] * ("layer" in table)
        table["objective"] = {"minimise": rng.choice(objectives)}
        schedules = ["any", "any", "any", "thesis", "intra", "kc", "oc", "oxyn", "oxyn/ox"]
        table["limits"] = {"schedule": rng.choice(schedules)}
    else:
        table["objective"] = {"minimise": rng.choice(["time", "time", "accesses"])}
        table["limits"] = {
            "schedule": rng.choice(["any", "any", "IS", "OS", "WS"]),
            "partition": rng.choice(["any", "any", "KS", "KS&OFM", "OFM"]),
        }
    return attack(rng, scratch, "tiling", table, tiling)


def layer(rng: random.Random) -> dict[str, Any]:
    """Return a layer of few tiles: one or two dimensions may be long, often they are 1 or prime."""
    if rng.random() < 0.07:
        return {"kind": "fc", "inputs": rng.randint(1, 12), "outputs": rng.randint(1, 12),
                "batch": rng.randint(1, 3)}  # fmt: skip
    sizes = [rng.choice([1, 1, 1, 2, 2, 3]) for _ in range(6)]  # groups, images, filters, rows, columns, maps
    for long in rng.sample(range(1, 6), rng.choice([0, 1, 1, 2])):
        sizes[long] = rng.choice([2, 3, 4, 5, 6, 7, 11])
    groups, batch, filters, rows, columns, maps = sizes
    kernel = [rng.choice([1, 1, 2, 3, 3, 5]) for _ in range(2)]
    dilation = [rng.choice([1, 1, 1, 2]) for _ in range(2)]
    extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
    stride = [rng.choice([1, 1, 2, 3, 6]) for _ in range(2)]
    padding = [rng.choice([0, 0, rng.randrange(size)]) for size in extent for _ in range(2)]
    plane = []
    for axis, outputs in enumerate((rows, columns)):
        padded = (outputs - 1) * stride[axis] + extent[axis] + rng.choice([0, 0, rng.randrange(stride[axis])])
        plane.append(max(1, padded - padding[2 * axis] - padding[2 * axis + 1]))
    if rng.random() < 0.12:
        maps = filters = 1  # depthwise
        groups = rng.randint(1, 5)
    return {
        "input": [groups * maps, *plane], "kernels": groups * filters, "kernel": kernel, "stride": stride,
        "padding": padding, "dilation": dilation, "groups": groups, "batch": batch,
    }  # fmt: skip


def operation(rng: random.Random) -> dict[str, Any]:
    """Return a pool or a sum; a pool's window has few positions or one, and may leave places out."""
    maps, plane = rng.choice([1, 2, 3, 5]), [rng.randint(1, 7) for _ in range(2)]
    if rng.random() < 0.25:
        return {"kind": "add", "inputs": ["input", "input"], "input": [maps, *plane]}
    kernel = [rng.randint(1, size) if rng.random() < 0.7 else size for size in plane]
    padding = [rng.choice([0, 0, rng.randrange(size)]) for size in kernel for _ in range(2)]
    return {
        "kind": "pool", "op": rng.choice(["max", "average"]), "input": [maps, *plane], "kernel": kernel,
        "stride": [rng.choice([1, 2, 3, 7]) for _ in range(2)], "padding": padding,
    }  # fmt: skip


def widths(rng: random.Random) -> dict[str, Any]:
    """Return the field for bits of each operand, mostly none."""
    if rng.random() < 0.7:
        return {}
    found = {name: rng.choice([1, 4, 8, 12]) for name in ("input", "weights", "output")}
    return {"bits": found | {"partial": found["output"] + rng.choice([0, 5, 16])}}


def dsp(rng: random.Random) -> dict[str, Any]:
    """Return a DSP, mostly with so little memory that tiles are needed."""
    machine: dict[str, Any] = {
        "kind": "dsp",
        "memory_bytes": rng.choice([rng.randint(20, 200), rng.randint(50, 1000), 1 << 20]),
        "double_buffering": rng.random() < 0.5,
        "element_bytes": rng.choice([1, 1, 2, 3]),
        "bus_elements_per_cycle": rng.choice([1, 2, 3, 32]),
        "macs_per_cycle": rng.choice([1, 3, 32]),
        "dma_setup_cycles": rng.choice([0, 1, 7, 150]),
        "register_file_bytes": rng.choice([0, 0, rng.randint(100, 600)]),
        "padding": rng.choice(["loaded", "generated"]),
        "dma_step": rng.random() < 0.3,
        **widths(rng),
    }
    if rng.random() < 0.5:
        machine["energy"] = {
            "core_fj_per_cycle": rng.choice([0, 1, 60_000]),
            "local_fj_per_access": rng.choice([0, 7, 66_600]),
            "local_access_bytes": rng.choice([1, 5, 64]),
            "dram_fj_per_access": rng.choice([0, 3, 2_600_000]),
            "dram_access_bytes": rng.choice([1, 3, 8]),
        }
    return machine


def npu(rng: random.Random) -> dict[str, Any]:
    """Return an NPU with few cores and little memory."""
    machine: dict[str, Any] = {
        "kind": "npu",
        "tles": rng.choice([2, 2, 4, 6]),
        "tlts": rng.choice([1, 2, 3, 8]),
        "element_bytes": rng.choice([1, 2, 3]),
        "burst_bytes": rng.choice([1, 4, 9, 128]),
        "macs_per_cycle": rng.choice([1, 3, 7, 32]),
        "cycle_ps": rng.choice([0, 1, 5, 6264]),
        "byte_ps": rng.choice([0, 1, 3, 174]),
        "burst_ps": rng.choice([0, 1, 500, 13572]),
        **widths(rng),
    }
    for name, most in (("input_bytes", 300), ("weights_bytes", 120), ("output_bytes", 60)):
        machine[name] = rng.choice([rng.randint(1, most // 4), rng.randint(1, most), 8192])
    if rng.random() < 0.1:
        return {"kind": "npu"}
    return machine
