"""The page about a plan: what stands on it, what is refused, and how it behaves in a browser."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from browser import Browser, browser, missing
from matplotlib.figure import Figure
from PIL import Image

from tilewright.allocation.measures import PipelinePoint
from tilewright.core.catalogue import ROOMS, room
from tilewright.run.instance import Instance, read
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError
from tilewright.tiling import Problem
from tilewright.tiling.panels import least_bytes

EVIL = "</script><b>&\"'"
"""A name of a layer that would be more than a text, were it not escaped."""

NETWORK = f"""
room = "tiling"
name = "two layers"
source = "of this test"
[[network.layers]]
name = '''{EVIL}'''
input = [2, 6, 6]
kernels = 3
kernel = [3, 3]
[[network.layers]]
name = "pool"
kind = "pool"
input = [3, 4, 4]
kernel = [2, 2]
stride = [2, 2]
[[network.layers]]
name = "last"
input = [3, 2, 2]
kernels = 5
kernel = [2, 2]
"""
DSP = """
[machine]
kind = "dsp"
memory_bytes = 400
macs_per_cycle = 2
dma_setup_cycles = 3
[objective]
minimise = "cycles"
"""
LEVELS = """
[machine]
kind = "hierarchy"
macs_per_cycle = 2
mac_pj = 1.0
[[machine.levels]]
name = "dram"
bytes_per_cycle = 4
read_pj_per_byte = 100.0
[[machine.levels]]
name = "buffer"
capacity_bytes = 200
read_pj_per_byte = 1.0
[objective]
minimise = "energy"
"""
FRONT = LEVELS.replace('"energy"', '"pareto"\nbetween = ["accesses", "capacity"]')
NPU = '[machine]\nkind = "npu"\ntles = 2\ntlts = 1\n'
LAYER = 'room = "tiling"\n[layer]\ninput = [2, 6, 6]\nkernels = 3\nkernel = [3, 3]\n'
GROUPING = (
    'room = "grouping"\n[layer]\ninput = [1, 4, 4]\nkernels = 1\nkernel = [2, 2]\n[machine]\ngroup_size = 3\n'
)
BITS = """room = "bitwidth"
[[network.layers]]
name = "conv"
input = [2, 6, 6]
kernels = 3
kernel = [3, 3]
[machine]
accumulator_bits = 16
[ranges]
conv = { input = 1.0, weights = 0.5, output = 2.0 }
"""
CASES = {
    "network on a DSP": (NETWORK + DSP, "exhaustive"),
    "network on levels": (NETWORK + LEVELS, "exhaustive"),
    "network on an NPU": (NETWORK + NPU, "exhaustive"),
    "layer on a DSP": (LAYER + DSP, "exhaustive"),
    "layer on levels": (LAYER + LEVELS, "exhaustive"),
    "front": (LAYER + FRONT, "exhaustive"),
    "grouping": (GROUPING, "zigzag"),
    "allocation": ("mnist-tcpa", "greedy"),
    "fusion": ("squeezenet-fire", "layerwise"),
    "bitwidth": (BITS, "merging"),
    "residency": ("mb28-64k", "layer_by_layer"),
    "addresses": ("minimalloc-example", "greedy_by_size"),
    "scheduling": ("mlsys-example5", "greedy"),
}
CHARTS = {
    "network on a DSP": ["tiles", "timeline", "roofline", "traffic", "layers", "graph"],
    "network on levels": ["tiles", "timeline", "roofline", "traffic", "layers", "memories", "graph"],
    "network on an NPU": ["tiles", "timeline", "roofline", "traffic", "layers", "graph"],
    "layer on a DSP": ["tiles", "roofline", "traffic", "picture"],
    "layer on levels": ["tiles", "roofline", "traffic", "memories", "picture"],
    "front": ["front", "picture"],
    "grouping": ["picture"],
    "allocation": ["picture"],
    "fusion": ["picture"],
    "bitwidth": ["picture"],
    "residency": ["front", "picture"],
    "addresses": ["picture"],
    "scheduling": ["picture"],
}

SOLVED: dict[str, tuple[Instance, Result]] = {}


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page shows does not depend on how much the processor has to do."""
    monkeypatch.setattr(import_module("tilewright.residency.summary"), "CURVE_SECONDS", 600.0)


def solved(case: str, folder: Path) -> tuple[Instance, Result]:
    """Return an instance and its result; what a test before has solved is not solved again."""
    if case not in SOLVED:
        given, method = CASES[case]
        if "\n" in given:
            path = folder / "case.toml"
            path.write_text(given)
            given = str(path)
        instance = read(given)
        SOLVED[case] = instance, solve(instance, method, time_limit=60)
    return SOLVED[case]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("case", CASES)
def test_every_room_has_a_page(case: str, tmp_path: Path) -> None:
    from tilewright import report

    instance, result = solved(case, tmp_path)
    text = report.page(instance, result)
    assert len(text) < 5_000_000
    assert f"{result.objective:,}" in text
    assert EVIL not in text
    found = re.findall(r'<section id="(\w+)">', text)
    assert [name for name in found if name != "search"] == CHARTS[case]
    for spec in re.findall(r'<script type="application/json">(.*?)</script>', text, re.DOTALL):
        assert json.loads(spec)["$schema"].endswith("vega-lite/v6.json")
    outside = re.sub(r"<script.*?</script>|<!--.*?-->", "", text, flags=re.DOTALL)
    assert "http://" not in outside and "https://" not in outside


@pytest.mark.nightly
def test_the_cases_are_of_all_rooms(tmp_path: Path) -> None:
    assert {solved(case, tmp_path)[0].room for case in CASES} == set(ROOMS)


@pytest.mark.parametrize("case", [name for name in CASES if name.startswith("network")])
def test_a_network_s_numbers_are_the_simulator_s(case: str, tmp_path: Path) -> None:
    instance, result = solved(case, tmp_path)
    overview = room("tiling").overview(instance.problem, result.plan, result.measures)
    assert sum(overview.costs.values()) == result.objective
    assert all(overview.bounds[name] <= cost for name, cost in overview.costs.items())
    assert [(each.name, each.kind, each.macs) for each in overview.left_out] == [("pool", "pool", 0)]
    sizes = {"network on levels": 1}.get(case, 2)  # bytes of an element
    assert overview.left_out[0].moved_bytes == sizes * (3 * 16 + 3 * 4)
    assert [node.share is None for node in overview.graph] == [False, True, False]
    columns = {column.key: column for column in overview.columns}
    for line in overview.lines:
        assert set(columns) <= set(line)
        assert 0 < line["utilisation"] <= 1 and line["macs"] > 0
        operands = sum(line[kind] for kind in ("input", "weights", "output", "partial"))
        assert operands == pytest.approx(line["outermost"])
    assert all(each.least_bytes <= each.moved_bytes for each in overview.traffic)
    for point in overview.points:
        assert overview.roof is not None
        limit = overview.roof.gops
        if overview.roof.gigabytes is not None:
            limit = min(limit, overview.roof.gigabytes * point.intensity)
        assert 0 < point.gops <= limit * (1 + 1e-9)
    assert overview.spans[0].start_ms == 0
    assert overview.spans[1].start_ms == overview.spans[0].end_ms < overview.spans[1].end_ms
    if case == "network on levels":
        energy = sum(each.microjoules or 0 for each in overview.memories)
        assert energy == pytest.approx((result.objective or 0) / 1e12)


ADDITION = """
room = "tiling"
[[network.layers]]
name = "first"
input = [4, 6, 6]
kernels = 4
kernel = [3, 3]
padding = 1
[[network.layers]]
name = "sum"
kind = "add"
inputs = ["first", "input"]
[machine]
kind = "dsp"
memory_bytes = 4000
vector_ops_per_cycle = 2
"""


def test_page_and_sheet_show_the_same_traffic(tmp_path: Path) -> None:
    """Both inputs of an addition count, and padding, which the machine loads."""
    from tilewright.tiling import plot

    (tmp_path / "sum.toml").write_text(ADDITION)
    instance = read(tmp_path / "sum.toml")
    result = solve(instance, "exhaustive", time_limit=60)
    executed = room("tiling").simulate(instance.problem, result.plan)
    overview = room("tiling").overview(instance.problem, result.plan, executed.measures)
    moved = {(each.name, each.operand): each.moved_bytes for each in overview.traffic}
    least = {(each.name, each.operand): each.least_bytes for each in overview.traffic}
    assert moved["sum", "input"] == 2 * 2 * 4 * 36  # two inputs, two bytes
    assert least["first", "input"] == 2 * 4 * 8 * 8  # with padding
    assert least["sum", "input"] == moved["sum", "input"]
    assert sum(moved.values()) == 2 * executed.accesses
    axes = plot.plot(instance.problem, result.plan, executed, ax=Figure().add_subplot())
    assert sorted(patch.get_width() for patch in axes.patches if patch.get_width()) == sorted(
        amount for amount in moved.values() if amount
    )
    ticks = [line.get_xdata()[0] for line in axes.lines]
    assert ticks == [sum(least[name, each] for name, each in least if name == of) for of in ("first", "sum")]


def test_page_and_sheet_show_the_same_front(tmp_path: Path) -> None:
    from tilewright import report

    (tmp_path / "front.toml").write_text(BITS + '[objective]\nminimise = "pareto"\n')
    instance = read(tmp_path / "front.toml")
    result = solve(instance, "auto", time_limit=60)
    executed = room("bitwidth").simulate(instance.problem, result.plan)
    axes = room("bitwidth").plot.plot(instance.problem, result.plan, executed, ax=Figure().add_subplot())
    drawn = axes.lines[1].get_xydata().tolist()
    assert len(drawn) > 3
    (chart,) = re.findall(
        r'<script type="application/json">(.*?)</script>', report.page(instance, result), re.DOTALL
    )
    points = [[each["x"], each["y"]] for each in json.loads(chart)["data"]["values"]]
    assert sorted(points) == drawn


def test_a_page_says_what_was_asked(tmp_path: Path) -> None:
    from tilewright import report

    text = report.page(*solved("network on levels", tmp_path))
    text = text[text.index("What was asked") :].replace("<wbr>", "")
    seen = text[: text.index("<details>")]
    for key, value in (
        ("instance", "two layers (case.toml)"),
        ("objective.minimise", "energy"),
        ("method", "exhaustive"),
        ("time limit of the search", "60 s"),
    ):
        assert f"<tr><th>{key}</th><td>{value}</td></tr>" in seen
    assert "<th>machine.levels.buffer.capacity_bytes</th><td>200</td>" in text


def test_least_bytes_leave_out_what_no_window_reads() -> None:
    layer = {"input": [2, 5, 7], "kernels": 3, "kernel": [2, 1], "stride": [3, 3], "padding": [1, 0, 0, 0]}
    problem = Problem.model_validate({"layer": layer, "machine": {"kind": "dsp", "memory_bytes": 1000}})
    found = least_bytes(problem.one_layer, {"input": 8, "weights": 16, "output": 4})
    # Rows -1, 0, 2 and 3, of which the first is padding; columns 0, 3 and 6.
    assert found == {"input": 2 * 3 * 3, "weights": 2 * 3 * 2 * 2, "output": 3 * 2 * 3 / 2}


def test_a_front_of_pipelines_is_drawn() -> None:
    points = [
        PipelinePoint(pes=2, interval_cycles=90, latency_cycles=100),
        PipelinePoint(pes=4, interval_cycles=50, latency_cycles=120),
    ]
    problem = read("mnist-tcpa-pareto").problem
    overview = room("allocation").overview(problem, None, SimpleNamespace(front=points))
    assert overview.front is not None
    assert overview.front.points == [(2, 90), (4, 50)]
    assert [line["0"] for line in overview.lines] == [2, 4]


@pytest.mark.nightly
def test_solve_and_report_write_the_same_page(tilewright: Callable[..., Any], tmp_path: Path) -> None:
    (tmp_path / "case.toml").write_text(LAYER + DSP)
    done = tilewright("solve", "case.toml", "-o", "plan.json", "--report", "first.html")
    assert done.returncode == 0, done.stderr
    assert "written: first.html" in done.stdout
    done = tilewright("report", "case.toml", "plan.json", "-o", "second.html")
    assert (done.returncode, done.stdout) == (0, "written: second.html\n")
    assert (tmp_path / "first.html").read_text() == (tmp_path / "second.html").read_text()
    done = tilewright("report", "case.toml", "plan.json", "-o", "checked.html", "--check")
    assert done.returncode == 0, done.stderr
    assert "<td>as simulated</td>" in (tmp_path / "checked.html").read_text()


@pytest.mark.parametrize(
    ("keys", "value", "told"),
    [
        (["objective"], 1, "objective = 1: "),
        (["bound"], 10**6, "status: .*optimal"),
        (["gap"], 0.5, "status: .*optimal"),
        (["minimise"], "energy", "minimise: .* cycles.* energy"),
        (["trace"], [[0.1, 5, 6]], "trace: entry 1 .* 6 .* 5"),
        (["report", "measures", "macs"], 1, "report: .* measures.macs"),
    ],
)
def test_a_result_that_is_contradicted_has_no_page(
    keys: list[str], value: object, told: str, tmp_path: Path
) -> None:
    from tilewright import report

    instance, result = solved("layer on a DSP", tmp_path)
    data = json.loads(json.dumps(result.to_json()))
    at = data
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    (tmp_path / "result.json").write_text(json.dumps(data))
    with pytest.raises(InputError, match=told):
        report.page(instance, Result.read(tmp_path / "result.json"))


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--report", "page.pdf"], "must end in .html or .htm"),
        (["--report", "nowhere/page.html"], "its folder does not exist"),
        (["--report", "page.html", "-o", "page.html"], "is another output's file, too"),
    ],
)
def test_names_are_refused_before_anything_is_solved(
    arguments: list[str], told: str, tilewright: Callable[..., Any], tmp_path: Path
) -> None:
    done = tilewright("solve", "resnet50-idsp", "--time-limit", "600", *arguments, timeout=20)
    assert (done.returncode, done.stdout) == (2, "")
    assert told in done.stderr
    assert not list(tmp_path.iterdir())


# In a browser ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    lacking = missing()
    if lacking is not None:
        if os.environ.get("CI"):
            pytest.fail(lacking)
        pytest.skip(lacking)
    with browser() as started:
        yield started


FIRST = (
    "return [...document.querySelectorAll('table.sortable:not(.wrapped) tbody tr')]"
    ".map(row => row.cells[0].textContent)"
)
CYCLES = (
    "[...document.querySelectorAll('table.sortable:not(.wrapped) thead tr:last-child th')]"
    ".find(cell => cell.textContent.startsWith('cycles'))"
)
FILTER = """
const field = document.querySelector('.dt-search input');
field.value = 'last'; field.dispatchEvent(new Event('input', {bubbles: true}));
"""


def test_a_browser_shows_the_page_alone(chromium: Browser, tmp_path: Path) -> None:
    from tilewright import report

    page = tmp_path / "page.html"
    report.write(*solved("network on levels", tmp_path), page)
    pictures = {}
    for scheme in ("light", "dark"):
        chromium.open(page, scheme)
        path = tmp_path / f"{scheme}.png"
        path.write_bytes(chromium.picture())
        with Image.open(path) as image:
            pictures[scheme] = image.convert("L")
    corner = {scheme: picture.getpixel((2, 2)) for scheme, picture in pictures.items()}
    assert corner["light"] > 200 and corner["dark"] < 60
    assert all(len(picture.getcolors()) > 50 for picture in pictures.values())
    assert chromium.run("return document.querySelectorAll('.chart svg').length") >= 5
    # Sums stand still; layers are sorted by their cycles, and back.
    in_order = [EVIL, "last"]
    assert chromium.run(FIRST) == in_order
    cycles = chromium.run(f"{CYCLES}.click(); {FIRST}")
    assert chromium.run(f"{CYCLES}.click(); {FIRST}") == cycles[::-1]
    assert sorted(cycles) == sorted(in_order)
    chromium.run(FILTER)
    assert chromium.run(FIRST) == ["last"]
    assert chromium.printed().startswith(b"%PDF")
    assert chromium.console() == []
    asked = {address for address in chromium.requests() if not address.startswith("data:")}
    assert asked == {page.as_uri()}


def test_a_browser_shows_pictures(chromium: Browser, tmp_path: Path) -> None:
    from tilewright import report

    page = tmp_path / "page.html"
    report.write(*solved("front", tmp_path), page)
    chromium.open(page)
    assert chromium.run("return document.querySelector('img.picture').naturalWidth") > 100
    assert chromium.console() == []


OUTSIDE = """
const shown = document.documentElement.clientWidth;
const seen = element => !element.closest('.wide') && element.getBoundingClientRect().right > shown;
return [...document.querySelectorAll('main *')].filter(seen).map(element => element.outerHTML.slice(0, 200));
"""


@pytest.mark.nightly
@pytest.mark.parametrize("width", [390, 1280])
def test_a_page_fits_into_its_window(width: int, chromium: Browser, tmp_path: Path) -> None:
    """Only tables and graphs are wider, which scroll on their own."""
    from tilewright import report

    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    chromium.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        for case in ("network on levels", "residency"):
            page = tmp_path / "page.html"
            report.write(*solved(case, tmp_path), page)
            chromium.open(page)
            assert chromium.run(OUTSIDE) == []
    finally:
        chromium.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_names_are_whole_and_details_are_printed(chromium: Browser, tmp_path: Path) -> None:
    from tilewright import report

    name = "/features/features.17/conv/conv.1/conv.1.0/Conv"
    (tmp_path / "case.toml").write_text(ADDITION.replace('"sum"', f'"{name}"'))
    instance = read(tmp_path / "case.toml")
    page = tmp_path / "page.html"
    report.write(instance, solve(instance, "exhaustive", time_limit=60), page)
    chromium.open(page)
    shown = "return [...document.querySelectorAll('svg.graph text, #layers .role-axis-label text')]"
    assert chromium.run(f"{shown}.filter(each => each.textContent === '{name}').length") == 2
    assert chromium.run("return [...document.querySelectorAll('details')].some(each => each.open)") is False
    chromium.printed()
    assert chromium.run("return [...document.querySelectorAll('details')].every(each => each.open)") is True
