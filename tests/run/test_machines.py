"""One machine file for all rooms: what each reads of it, what it misses, and where all rooms must agree."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from conftest import tells

import tilewright
from tilewright import allocation, fusion, tiling
from tilewright.core import catalogue
from tilewright.fusion.machine import machine_from
from tilewright.run.instance import build, digest, parse
from tilewright.run.machines import with_own_machine
from tilewright.spec.errors import InputError

Table = dict[str, Any]

NETWORK: Table = {
    "layers": [
        {"name": "first", "input": [4, 6, 6], "kernels": 8, "kernel": [3, 3]},
        {"name": "second", "input": [8, 4, 4], "kernels": 4, "kernel": [1, 1]},
    ]
}

ARRAY: Table = {
    "kind": "hierarchy",
    "clock_mhz": 100,
    "bits": {"input": 8, "weights": 8, "output": 8, "partial": 8},
    "levels": [
        {"name": "dram", "bytes_per_cycle": 8.0},
        {"name": "buffer", "capacity_bytes": 3_000_000, "double_buffering": True},
        {
            "name": "pes",
            "fanout": [{"size": 4, "over": ["output_maps"]}, {"size": 2, "over": ["input_maps"]}],
        },
        {"name": "register", "capacity_bytes": 1, "holds": ["weights"]},
    ],
}
"""An array of PEs with one buffer, in which all of the network fits."""


def machine_of(room: str, table: Table) -> Table:
    """Return the machine of a room's own that stands for a table."""
    found: Table = with_own_machine(room, {"machine": table})["machine"]
    return found


def read(name: str) -> Table:
    """Return the table of a bundled machine."""
    return catalogue.shared("machines", name)


# What rooms read -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "nvdla",
            {
                "conv_array": (192, 32, 1),
                "input_bytes": 65536 // 3,
                "parameter_bytes": 65536 // 3,
                "load_mb_per_s": 38_400,
                "operands_per_cycle": 512,  # the read port of the buffer; there are 6,144 multipliers
            },
        ),
        (
            "eyeriss",  # 14 instances with other rows have the same weights
            {
                "conv_array": (12, 1, 14),
                "output_bytes": 110_592 // 2,
                "parameter_bytes": 448 * 12,
                "element_bytes": 2,
                "operands_per_cycle": 32,
            },
        ),
        (
            "simba",  # weights have memories of their own in the 16 PEs
            {"conv_array": (128, 8, 1), "input_bytes": 32_768, "parameter_bytes": 16 * 32_768},
        ),
        ("tpu-v4i", {"conv_array": (128, 128, 4), "arrays": 1, "save_mb_per_s": 614_040}),
        ("gap8", {"conv_array": (1, 4, 8), "load_mb_per_s": 87}),  # 87.5, and no faster than that
        (
            "idsp",
            {
                "conv_array": (1, 32, 1),
                "input_bytes": 131_072 // 3,
                "element_bytes": 2,
                "load_mb_per_s": 28_800,
                "operands_per_cycle": 32,
            },
        ),
    ],
)
def test_fusion_reads_machines_of_tiling(name: str, expected: Table) -> None:
    found = machine_of("fusion", read(name))
    assert {key: found[key] for key in expected} == expected
    assert found["clock_mhz"] == read(name)["clock_mhz"]


@pytest.mark.parametrize(
    ("name", "array", "units", "buffer_bytes", "bits"),
    [
        ("nvdla", (32, 192), 1, 65_536, 8),
        ("eyeriss", (14, 12), 1, 110_592 + 168 * 448, 16),
        ("simba", (1, 16), 64, 65_536 + 16 * 32_768, 8),
        ("gap8", (1, 8), 4, 524_288, 8),
        ("ethos-u55", (2, 128), 1, 49_152 + 256, 8),
        ("idsp", (1, 1), 32, 131_072, 16),
    ],
)
def test_allocation_reads_machines_of_tiling(
    name: str, array: tuple[int, int], units: int, buffer_bytes: int, bits: int
) -> None:
    host = {"host": read(name)["host"]} if "host" in read(name) else {}
    assert machine_of("allocation", read(name)) == host | {
        "array": array,
        "functional_units": units,
        "clock_mhz": read(name)["clock_mhz"],
        "buffer_bytes": buffer_bytes,
        "word_bits": bits,
    }


def test_a_dsp_is_its_hierarchy() -> None:
    for room in ("allocation", "fusion"):
        assert machine_of(room, read("idsp")) == machine_of(room, read("idsp-levels"))


def test_images_side_by_side_are_arrays() -> None:
    axes = [{"size": 3, "over": ["batch"]}, {"size": 2, "over": ["batch", "columns"]}]
    levels = [*ARRAY["levels"][:2], {"name": "pes", "fanout": axes}, ARRAY["levels"][3]]
    found = machine_of("fusion", {**ARRAY, "levels": levels, "macs_per_cycle": 5})
    assert (found["arrays"], found["conv_array"]) == (3, (1, 5, 2))


def test_a_host_means_the_same_in_both_rooms() -> None:
    whole = build("tiling", {"network": NETWORK, "machine": ARRAY}).machine.model_dump()
    host = {"cycles_per_byte": 0.5, "cycles_per_call": 2}
    assert machine_from(whole | {"host": host}).found["host"] == host
    assert "host" not in machine_from(whole).found


def test_what_is_for_one_room_stands_in_its_own_table() -> None:
    extra = {"fusion": {"operands_per_cycle": 3, "energy": {"pj_per_dram_byte": 9}}, "allocation": {}}
    table = {**ARRAY, **extra}
    machine = build("fusion", {"network": NETWORK, "machine": table}).machine
    assert (machine.operands_per_cycle, machine.energy.pj_per_dram_byte, machine.conv_array) == (
        3,
        9,
        (2, 4, 1),
    )
    for room in ("tiling", "allocation"):
        one, other = (build(room, {"network": NETWORK, "machine": each}) for each in (ARRAY, table))
        assert digest(room, one) == digest(room, other)
    # Also where the machine is the room's own, or has nothing that another room reads.
    with_array = {**read("dnnvm-zu2"), "allocation": {"array": [3, 4]}}
    assert build("fusion", {"network": NETWORK, "machine": with_array}).machine.clock_mhz == 330
    pes = build("allocation", {"network": NETWORK, "machine": with_array}).machine
    assert (pes.array, pes.clock_mhz) == ((3, 4), 330)


@pytest.mark.parametrize(
    ("room", "changes", "told"),
    [
        (
            "fusion",
            {"levels": [{"name": "dram"}, *ARRAY["levels"][1:]]},
            "load_mb_per_s .. bytes_per_cycle of dram .. save_mb_per_s .. bytes_per_cycle of dram",
        ),
        (
            "fusion",
            {
                "levels": [
                    ARRAY["levels"][0],
                    {"name": "pes", "fanout": [{"size": 3, "over": ["kernel_rows"]}]},
                    {"name": "register", "capacity_bytes": 1, "holds": ["input"]},
                ]
            },
            "conv_array .. kernel_rows .. output_bytes .. output .. parameter_bytes .. weights .. "
            "kind, clock_mhz, bits, levels .. machine.fusion",
        ),
        ("fusion", {"levls": []}, "machine.levls"),  # a mistake is told as the file's own room tells it
        ("allocation", {"kind": "dsb"}, "machine.kind = 'dsb' .. dsp, npu, hierarchy"),
        ("allocation", {"allocation": 3}, "machine.allocation = 3 .. table"),
        ("allocation", {"allocation": {"arrray": [1, 1]}}, "machine.arrray = [1, 1] .. array?"),
    ],
)
def test_all_that_is_missing_or_wrong_is_told_at_once(room: str, changes: Table, told: str) -> None:
    with pytest.raises(InputError) as error:
        build(room, {"network": NETWORK, "machine": {**ARRAY, **changes}})
    assert tells(error.value, told)


def test_a_machine_that_tells_nothing_is_refused() -> None:
    with pytest.raises(InputError, match=r"machine.* array \(.*\), clock_mhz"):
        build("allocation", {"network": NETWORK, "machine": read("nmp")})


# Where rooms agree ---------------------------------------------------------------------------------------


def solved(room: str, objective: Table) -> tuple[Any, tilewright.Result]:
    problem = build(room, {"network": NETWORK, "machine": ARRAY, "objective": objective})
    result = tilewright.solve(problem, time_limit=60)
    assert result.status == "optimal"
    return problem, result


def test_rooms_agree_on_one_network_and_one_machine() -> None:
    """Work, parameters, PEs, clock, what must be moved, and the cycles of multipliers that are never idle."""
    tiled, tiles = solved("tiling", {"minimise": "accesses"})
    fused, groups = solved("fusion", {"minimise": "traffic"})
    spread, pipeline = solved("allocation", {"minimise": "interval"})
    macs = 9 * 4 * 8 * 16 + 8 * 4 * 16
    for result in (tiles, groups):
        assert result.measures.to_json()["macs"] == macs
    layers = pipeline.measures.layers.values()
    # Multipliers of all PEs, which no room leaves idle here: every layer has enough maps for them.
    units = fused.machine.macs_per_cycle
    assert (
        units
        == spread.machine.pes * spread.machine.functional_units
        == tiled.machine.most_macs_per_cycle
        == 8
    )
    assert sum(layer.load_cycles * layer.pes for layer in layers) == macs
    assert tiled.machine.clock_mhz == fused.machine.clock_mhz == spread.machine.clock_mhz == 100
    # Parameters, each once.
    weights = 9 * 4 * 8 + 8 * 4
    assert sum(layer.weights_elements for layer in layers) == weights
    maps = 4 * 36, 8 * 16, 4 * 16
    # Fused, what one layer hands the other stays on chip; tiling takes layers one by one.
    assert groups.objective == weights + maps[0] + maps[2]
    assert tiles.objective == groups.objective + 2 * maps[1]
    apart = tilewright.solve(fused, method="layerwise", time_limit=60)
    assert apart.objective == tiles.objective
    # Nothing is faster than all multipliers without a pause.
    fastest = build("fusion", {"network": NETWORK, "machine": ARRAY})
    least = [
        fusion.best_bound(fastest).value,
        sum(tiling.best_bound(build("tiling", _cycles(part))).value for _, part in tiled.parts),
        allocation.best_bound(_by_turns()).value,
    ]
    assert least == [macs // 8] * 3


def _cycles(part: tiling.Problem) -> Table:
    return {"layer": part.one_layer.model_dump(), "machine": ARRAY, "objective": {"minimise": "cycles"}}


def _by_turns() -> allocation.Problem:
    tables = {"machine": ARRAY, "limits": {"execution": "layer-by-layer", "splits": ["filters", "maps"]}}
    found: allocation.Problem = build("allocation", {"network": NETWORK, **tables})
    return found


def test_rooms_that_cannot_be_a_machines_are_not_imported() -> None:
    """They take half a second of the time limit."""
    script = (
        "import sys\n"
        "from tilewright.run.machines import room_of_machine\n"
        "room = room_of_machine({'kind': 'dsp', 'memory_bytes': 1024, 'residency': {'memory': 'L2'}})\n"
        "print(room, 'tilewright.residency' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "tiling False\n", done.stderr


def test_what_operations_need_at_least_is_computed_where_one_may_not_fit() -> None:
    layer = {"input": [2, 8, 8], "kernels": 3, "kernel": [3, 3]}
    table = {"room": "residency", "network": {"layers": [{"name": "c", **layer}]}}
    large, small = (parse({**table, "machine": {"memory_bytes": size}}).problem for size in (10_000, 45))
    assert "least_by_operation" not in vars(large) and "least_by_operation" in vars(small)
    assert small.least_by_operation == large.least_by_operation
