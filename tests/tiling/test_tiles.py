"""The table of tiles: the numbers of the schedule that compilers read, all layers, and nothing cut."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from picture_checks import check_fits, written

from tilewright.codegen.schedule import schedule
from tilewright.core import catalogue
from tilewright.plotting import PlacedTable, add_axes, new_figure
from tilewright.run.instance import Instance, parse
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.tiling import Plan
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.plot import sheet
from tilewright.tiling.tiles import decisions, every_layer

LEVELS: list[dict[str, Any]] = [
    {"name": "dram", "bytes_per_cycle": 2.0},
    {"name": "buffer", "capacity_bytes": 300},
    {"name": "pes", "fanout": [{"size": 3, "over": ["output_maps"]}, {"size": 2, "over": ["rows"]}]},
    {"name": "registers", "capacity_bytes": {"input": 4, "weights": 9, "output": 8}},
]
MACHINES: dict[str, dict[str, Any]] = {
    "dsp": {"kind": "dsp", "memory_bytes": 900},
    "npu": {"kind": "npu", "tles": 4, "tlts": 2, "input_bytes": 160, "weights_bytes": 60, "output_bytes": 40},
    "hierarchy": {"kind": "hierarchy", "levels": LEVELS},
}
CONV = {"input": [6, 4, 9], "kernels": 6, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
NETWORK = {
    "layers": [
        {"name": "first", "input": [4, 9, 11], "kernels": 6, "kernel": [3, 3], "stride": [2, 1]},
        {"name": "a", **CONV},
        {"name": "b", **CONV},
        {"name": "pool", "kind": "pool", "input": [6, 4, 9], "kernel": [2, 2]},
        {"name": "depthwise", "input": [6, 3, 8], "kernels": 6, "kernel": [3, 3], "groups": 6},
        {"name": "last", "kind": "fc", "inputs": 36, "outputs": 7},
    ]
}
NAMES = {"groups": "groups", "images": "batch", "maps": "output_maps", "kernel rows": "kernel_rows"}
"""Titles of columns, and what the schedule calls them where that is something else."""


def solved(kind: str) -> tuple[Instance, Result]:
    machine = {**MACHINES[kind], "vector_ops_per_cycle": 2}
    instance = parse({"room": "tiling", "name": "net", "network": NETWORK, "machine": machine})
    return instance, solve(instance, time_limit=20)


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", MACHINES)
def test_tiles_are_those_of_the_schedule(kind: str) -> None:
    """Each size in the table is the one that the emitted schedule has for that memory."""
    instance, result = solved(kind)
    found = every_layer(instance.problem, result.plan)
    assert found is not None
    told = schedule(instance.name, instance.sha256, instance.problem, result.plan)
    lines = [dict(zip(found.header, line, strict=True)) for line in found.lines]
    for name, layer in told["layers"].items():
        on_chip = list(layer["memories"].items())[1:]
        if kind == "npu":
            on_chip = on_chip[:1]  # the three memories have one tile
        own = [line for line in lines if line["layer"] == name and line.get("memory") != "(one product)"]
        assert len(own) == len(on_chip)
        for line, (memory, tile) in zip(own, on_chip, strict=True):
            assert line.get("memory", memory) == memory or kind != "hierarchy"
            for title, cell in line.items():
                key = NAMES.get(title, title.replace(" ", "_"))
                if key in tile["tile"] and cell:
                    assert int(cell.partition("/")[0]) == tile["tile"][key], (name, memory, title)
        trips = sorted(loop["trips"] for loop in layer["loops"] if not loop["level"].startswith("TL"))
        loops = " ".join(line["loops, outermost first"] for line in lines if line["layer"] == name)
        assert sorted(int(word.strip("],")) for word in loops.split() if word.strip("],").isdigit()) == trips
    assert {line["layer"] for line in lines} == {*told["layers"], *told["operations"]}
    pool = next(line for line in lines if line["layer"] == "pool")
    assert pool["does"] == "max_pool 2x2"
    tile = told["operations"]["pool"]["tile"]
    assert [int(pool[title].partition("/")[0]) for title in tile] == list(tile.values())


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", MACHINES)
def test_memories_are_as_full_as_the_schedule_fills_them(kind: str) -> None:
    instance, result = solved(kind)
    found = every_layer(instance.problem, result.plan)
    assert found is not None
    told = schedule(instance.name, instance.sha256, instance.problem, result.plan)["layers"]["first"]
    expected = []
    for memory in list(told["memories"].values())[1:]:
        held, room = memory["holds"], memory["capacity_bytes"]
        if isinstance(room, dict):
            parts = [f"{name} {100 * each['bytes'] / room[name]:.0f} %" for name, each in held.items()]
        elif kind == "npu":
            parts = [f"{name} {100 * each['bytes'] / room:.0f} %" for name, each in held.items()]
        else:
            parts = [f"{100 * sum(each['bytes'] for each in held.values()) / room:.0f} %"]
        expected += parts
    lines = [dict(zip(found.header, line, strict=True)) for line in found.lines]
    shown = [line["memory full"] for line in lines if line["layer"] == "first" and line["memory full"]]
    assert ", ".join(shown) == ", ".join(expected)


def test_what_stays_is_what_the_innermost_loop_does_not_move() -> None:
    table = {"layer": CONV, "machine": {"kind": "dsp", "memory_bytes": 4000}}
    instance = parse({"room": "tiling", "name": "x", **table})
    for order, reuse, told in [
        ("ncyxk", "tile", "output"),
        ("kncyx", "tile", "weights"),
        ("kncyx", "halo", "weights, halo of columns"),
        ("nkyxc", "tile", "input"),
        ("kncyx", "none", "nothing"),
    ]:
        found = every_layer(instance.problem, Plan((DspPlan((1, 1, 3, 2, 3, 2), order, reuse),)))
        assert found is not None
        (line,) = found.lines
        cells = dict(zip(found.header, line, strict=True))
        assert (cells["stays"], cells["maps"], cells["columns"]) == (told, "3/6", "3/9")
        # 4 x 5 inputs of two maps, 3 x 2 x 9 weights, 3 x 2 x 3 outputs; each of two bytes, and twice
        assert cells["memory full"] == f"{100 * 4 * (40 + 54 + 18) / 4000:.0f} %"


def test_wide_networks_are_cut_to_what_takes_longest() -> None:
    instance, result = solved("dsp")
    whole = decisions(instance.problem, result.plan, result.measures)
    few = decisions(instance.problem, result.plan, result.measures, most=2)
    assert whole is not None and few is not None
    assert [line[0] for line in whole.lines] == ["first", "a (+1)", "pool", "depthwise", "last"]
    assert whole.note == "(+N): N more layers have the same shape and plan"
    times = {name: layer.duration_cycles for name, layer in result.measures.layers.items()}
    rest = times["pool"] + times["depthwise"] + times["last"]
    assert [line[0] for line in few.lines] == ["first", "a (+1)"]
    assert f"3 other layers, {100 * rest / sum(times.values()):.1f} % of the time, are left out" in few.note


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", MACHINES)
def test_the_table_is_on_the_picture_and_in_the_summary(kind: str) -> None:
    instance, result = solved(kind)
    room = catalogue.room("tiling")
    report = room.simulate(instance.problem, result.plan)
    figure = sheet(instance.problem, result.plan, report)
    check_fits(figure)
    found = decisions(instance.problem, result.plan, report.measures)
    assert found is not None
    cells = {cell for line in found.lines for cell in line if cell}
    assert cells <= set(written(figure))
    assert all(cell in result.summary() for cell in cells)
    assert all(cell in result._repr_html_() for cell in cells if "&" not in cell)


def test_the_tile_of_a_layer_on_an_npu_is_on_its_picture() -> None:
    instance = parse({"room": "tiling", "name": "x", "layer": CONV, "machine": MACHINES["npu"]})
    result = solve(instance, time_limit=20)
    report = catalogue.room("tiling").simulate(instance.problem, result.plan)
    figure = sheet(instance.problem, result.plan, report)
    check_fits(figure)
    found = decisions(instance.problem, result.plan, report.measures)
    assert found is not None and {*found.header, *found.lines[0]} - {""} <= set(written(figure))


def test_a_plan_that_was_not_executed_has_its_tiles() -> None:
    _, result = solved("dsp")
    told = replace(result, report=None, simulated=False).summary()
    assert "max_pool 2x2" in told and "a (+1)" in told


def test_columns_of_a_drawn_table_do_not_touch() -> None:
    lines = [("a name of a layer that is long", "conv", "1/2"), ("b", "a rather long word, too", "100/200")]
    table = PlacedTable.within(4, ("layer", "does", "maps"), lines, (False, False, True), "a note")
    figure: Figure = new_figure(table.width + 0.2, table.height + 0.6)
    axes = add_axes(figure, 0.1, 0.4, table.width, table.height)
    table.draw(axes, "Tiles")
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_window_extent(renderer) for text in axes.texts]
    for number, one in enumerate(boxes):
        assert not any(one.overlaps(other) for other in boxes[:number])
    check_fits(figure)
