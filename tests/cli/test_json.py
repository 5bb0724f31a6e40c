"""All JSON that is printed or written is as docs/tilewright.schema.json says, and as `check` verifies."""

from __future__ import annotations

import copy
import dataclasses
import json
import re
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from command import run
from conftest import tells, thinned

from tilewright.core import catalogue
from tilewright.run import result as result_module
from tilewright.run import verify
from tilewright.run.formats import measures_page, schema
from tilewright.run.instance import Instance, read
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.run.verify import check, exit_status
from tilewright.spec.errors import InputError, OutOfTimeError

DOCS = Path(__file__).parents[2] / "docs"
FORMAT_1: dict[str, Any] = json.loads(Path(__file__).with_name("format_1.json").read_text())
"""Results of some of `INSTANCES` that a former version wrote, one of them before there were measures."""

LAYER = "input = [4, 9, 11]\nkernels = 6\nkernel = [3, 3]\n"
SMALL = "input = [2, 5, 6]\nkernels = 3\nkernel = [3, 3]\n"


def network(first: str, size: str, kernels: int) -> str:
    """Return a layer and two more on its output, whose size is told."""
    return f"""
[[network.layers]]
name = "first"
{first}
[[network.layers]]
name = "again"
input = {size}
kernels = {kernels}
kernel = [3, 3]
padding = [1, 1, 1, 1]
[[network.layers]]
name = "third"
input = {size}
kernels = {kernels}
kernel = [3, 3]
"""


NETWORK = network(LAYER, "[6, 7, 9]", 6)
SMALL_NETWORK = network(SMALL, "[3, 3, 4]", 3)
BRANCH = """[[network.layers]]
name = "a"
input = [1, 8, 6]
kernels = 4
kernel = [1, 1]
[[network.layers]]
name = "b"
input = [4, 8, 6]
kernels = 1
kernel = [3, 3]
stride = [2, 1]
[[network.layers]]
name = "d"
kind = "pool"
inputs = ["a"]
input = [4, 8, 6]
kernel = [2, 2]
"""
DSP = '[machine]\nkind = "dsp"\nmemory_bytes = 1500\n'
NPU = '[machine]\nkind = "npu"\n'
LEVELS = """[machine]
kind = "hierarchy"
mac_pj = 0.5
[[machine.levels]]
name = "dram"
read_pj_per_byte = 64.0
bytes_per_cycle = 2.0
[[machine.levels]]
name = "buffer"
capacity_bytes = 600
holds = ["input"]
may_hold = ["output"]
read_pj_per_byte = 2.0
[[machine.levels]]
name = "pes"
fanout = [{ size = 4, over = ["output_maps"] }]
[[machine.levels]]
name = "registers"
capacity_bytes = { input = 1, weights = 9, output = 4 }
read_bytes_per_cycle = 4.0
"""
ARRAY = "[machine]\narray = [2, 3]\nclock_mhz = 50\n"
PRICES = """[machine.energy]
mac_fj = 1
register_fj = 1
hop_fj = 2
buffer_read_fj = 6
buffer_write_fj = 6
off_chip_fj_per_byte = 200
pe_fj_per_cycle = 1
idle_pe_fj_per_cycle = 0
"""
MEMORY = """[machine]
kind = "hierarchy"
levels = [{ name = "dram" }, { name = "buffer", capacity_bytes = 1000 }]
"""
CAPACITIES = '[objective]\nminimise = "pareto"\nbetween = ["accesses", "capacity"]\n'
ENGINES = """[machine]
conv_array = [4, 4, 2]
clock_mhz = 300
input_bytes = 2000
output_bytes = 2000
parameter_bytes = 2000
load_mb_per_s = 900
save_mb_per_s = 900
operands_per_cycle = 16
"""
BITS = """[machine]
accumulator_bits = 16
[ranges]
first = { input = 1.0, weights = 0.5, output = 2.0 }
again = { input = 2.0, weights = 0.25, output = 2.5 }
third = { input = 2.5, weights = 0.3, output = 4.0 }
"""
INSTANCES = {
    "grouping": 'room = "grouping"\n[layer]\ninput = [1, 5, 5]\nkernels = 2\nkernel = [3, 3]\n'
    "[machine]\ngroup_size = 3\n",
    "dsp": f'room = "tiling"\n[layer]\n{LAYER}{DSP}',
    "dsp single": f'room = "tiling"\n[layer]\n{LAYER}{DSP}double_buffering = false\n'
    '[limits]\nschedule = "thesis"\n[objective]\nminimise = "energy"\n',
    "dsp front": f'room = "tiling"\n[layer]\n{LAYER}{DSP}[objective]\nminimise = "pareto"\n',
    "dsp network": f'room = "tiling"\n{NETWORK}{DSP}',
    "hierarchy capacities": f'room = "tiling"\n[layer]\n{SMALL}{MEMORY}{CAPACITIES}',
    "hierarchy network capacities": f'room = "tiling"\n{SMALL_NETWORK}{MEMORY}{CAPACITIES}',
    "npu": f'room = "tiling"\n[layer]\n{LAYER}{NPU}',
    "npu network": f'room = "tiling"\n{NETWORK}{NPU}',
    "npu bits": f'room = "tiling"\n{SMALL_NETWORK}{NPU}bits = {{ weights = 5, partial = 20 }}\n',
    "hierarchy": f'room = "tiling"\n[layer]\n{SMALL}{LEVELS}',
    "hierarchy front": f'room = "tiling"\n[layer]\n{SMALL}{LEVELS}[objective]\nminimise = "pareto"\n',
    "hierarchy network": f'room = "tiling"\n{SMALL_NETWORK}{LEVELS}[objective]\nminimise = "energy"\n',
    "allocation": f'room = "allocation"\n{NETWORK}{ARRAY}',
    "allocation front": f'room = "allocation"\n{NETWORK}{ARRAY}[objective]\nminimise = "pareto"\n',
    "allocation energy": f'room = "allocation"\n{NETWORK}{ARRAY}{PRICES}[objective]\nminimise = "energy"\n',
    "allocation energy front": f'room = "allocation"\n{NETWORK}{ARRAY}{PRICES}'
    '[objective]\nminimise = "pareto"\nbetween = ["interval", "energy"]\n',
    "allocation off chip": f'room = "allocation"\n{NETWORK}{ARRAY}buffer_bytes = 1000\n'
    "[machine.off_chip]\nmb_per_s = 10\n",
    "allocation placed": f'room = "allocation"\n{NETWORK}{ARRAY}[objective]\nminimise = "distance"\n',
    "fusion": f'room = "fusion"\n{NETWORK}{ENGINES}',
    "bitwidth": f'room = "bitwidth"\n{NETWORK}{BITS}',
    "residency": f'room = "residency"\n{NETWORK}[machine]\nmemory_bytes = 200\n',
    "residency frames": f'room = "residency"\n{NETWORK}[machine]\nmemory_bytes = 400\n'
    '[limits]\nframes = "many"\n',
    "residency twice": f'room = "residency"\n{BRANCH}[machine]\nmemory_bytes = 140\n'
    "[limits]\nexecutions = 2\n",
    "bitwidth front": f'room = "bitwidth"\n{NETWORK}{BITS}[objective]\nminimise = "pareto"\n',
}
ALL = pytest.mark.parametrize("name", INSTANCES)


@cache
def definitions() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DOCS / "tilewright.schema.json").read_text())
    return found


def valid(data: Any, form: str) -> Any:
    """Assert that data has one of the forms of the schema, or is a list of such, and return it."""
    one = {"$ref": f"#/$defs/{form}", "$defs": definitions()["$defs"]}
    for each in data if isinstance(data, list) else [data]:
        jsonschema.Draft202012Validator(one).validate(each)
    jsonschema.Draft202012Validator(definitions()).validate(data)
    return data


@pytest.fixture
def tilewright(tmp_path: Path) -> Callable[..., Any]:
    return lambda *arguments: run(tmp_path, *arguments)


def written(name: str, folder: Path) -> str:
    (folder / "instance.toml").write_text(INSTANCES[name])
    return "instance.toml"


def read_text(text: str) -> Instance:
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "instance.toml").write_text(text)
        return read(path)


def read_back(data: Any) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        (path := Path(folder) / "result.json").write_text(json.dumps(data))
        return Result.read(path)


def said(done: Any, status: int = 0) -> Any:
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout)


# The schema -----------------------------------------------------------------------------------------


@pytest.mark.nightly
def test_the_schema_in_docs_is_that_of_the_source() -> None:
    told = "python -m tilewright.run.formats.schema > docs/tilewright.schema.json"
    assert definitions() == schema.schema(), f"outdated; {told}"
    jsonschema.Draft202012Validator.check_schema(definitions())


def test_the_schema_has_the_fields_of_results_and_the_rooms() -> None:
    properties = definitions()["$defs"]["Result"]["properties"]
    stored = {field.name for field in dataclasses.fields(Result)} - {"problem"}
    assert set(properties) == stored
    assert tuple(properties["room"]["enum"]) == catalogue.ROOMS
    assert tuple(properties["status"]["enum"]) == result_module.STATUSES


def test_the_example_in_the_docs_is_what_is_measured() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (DOCS / "formats.md").read_text(), re.DOTALL)
    result = solve(read("alexnet-conv3-64k"), "exhaustive", confirm=False)
    measured = result.measures.to_json()
    assert {key: measured[key] for key in json.loads(example)} == json.loads(example)


@pytest.mark.nightly
def test_the_page_of_measures_is_that_of_the_source() -> None:
    told = "python -m tilewright.run.formats.measures_page > docs/measures.md"
    assert (DOCS / "measures.md").read_text() == measures_page.page() + "\n", f"outdated; {told}"


# What commands print ----------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@ALL
def test_all_that_is_said_of_a_result(name: str, tilewright: Callable[..., Any], tmp_path: Path) -> None:
    instance = written(name, tmp_path)
    options = ("--time-limit", "30", "--threads", "1", "-o", "result.json", "--json")
    result = valid(said(tilewright("solve", instance, *options)), "Result")
    assert json.loads((tmp_path / "result.json").read_text()) == result
    assert result["minimise"] and result["unit"]
    measured = result["report"]["measures"]
    found = valid(said(tilewright("simulate", instance, "result.json", "--json")), "Simulation")
    clock = "ps" if name.startswith("npu") else "cycles"
    assert found["measures"].pop(f"overlapped_{clock}", None) or name.startswith(
        ("fusion", "hierarchy", "bitwidth", "residency")
    )
    for key, value in measured.items():
        assert key in ("layers", f"overlapped_{clock}") or found["measures"][key] == value
    if "layers" not in measured or name.startswith("npu"):
        assert all(f"serial_{clock}" in step for step in found["per_step"])
    checked = tilewright("check", instance, "result.json", "--time-limit", "60", "--json")
    findings = valid(json.loads(checked.stdout), "Finding")
    assert checked.returncode in (0, 5), findings
    states = {finding["what"]: finding["state"] for finding in findings}
    assert states["report"] == states["minimise"] == states["unit"] == "verified"


def too_late(*_: Any, **__: Any) -> None:
    raise OutOfTimeError


def test_what_there_is_not_and_what_is_wrong(
    tilewright: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing feasible, a refused plan, one that is not simulated, and findings of every state."""
    fully = '[layer]\nkind = "fc"\ninputs = 4000\noutputs = 1\n'
    (tmp_path / "fc.toml").write_text(f'room = "tiling"\n{fully}{DSP}[limits]\nschedule = "intra"\n')
    none = valid(said(tilewright("solve", "fc.toml", "-o", "none.json", "--json"), 1), "Result")
    assert (none["status"], none["report"]) == ("infeasible", None)
    tight = INSTANCES["grouping"].replace("size = 3", "size = 1").replace("5, 5", "7, 7")
    (tmp_path / "tight.toml").write_text(tight + "[limits]\nreloads = 2\n")
    refused = valid(said(tilewright("solve", "tight.toml", "--with", "zigzag", "--json"), 1), "Result")
    assert set(refused["report"]) == {"valid", "violation", "numeric"}
    (tmp_path / "late.toml").write_text(INSTANCES["dsp"])
    monkeypatch.setattr(type(catalogue.room("tiling")), "simulate", staticmethod(too_late))
    late = valid(said(tilewright("solve", "late.toml", "-o", "late.json", "--json")), "Result")
    assert (late["simulated"], late["report"]) == (False, None)
    states = set()
    for instance, result in (("late.toml", "late.json"), ("fc.toml", "none.json")):
        checked = tilewright("check", instance, result, "--time-limit", "4", "--json")
        states |= {finding["state"] for finding in valid(json.loads(checked.stdout), "Finding")}
    (tmp_path / "late.json").write_text(json.dumps(late | {"unit": "bytes"}))
    checked = tilewright("check", "late.toml", "late.json", "--time-limit", "4", "--json")
    findings = valid(said(checked, 1), "Finding")
    assert {finding["state"] for finding in findings} | states == {
        *("verified", "refuted", "not verified", "told")
    }


def test_a_plan_that_breaks_a_rule(tilewright: Callable[..., Any], tmp_path: Path) -> None:
    instance = written("dsp", tmp_path)
    result = said(tilewright("solve", instance, "--json"))
    result["plan"]["tile"] = {"g": 1, "n": 1, "c": 6, "y": 7, "x": 9, "k": 4}
    (tmp_path / "broken.json").write_text(json.dumps(result))
    found = valid(said(tilewright("simulate", instance, "broken.json", "--json"), 1), "Simulation")
    assert found["violation"] and "measures" not in found


@pytest.mark.nightly
def test_comparisons_lists_and_emitted_programs(tilewright: Callable[..., Any], tmp_path: Path) -> None:
    instance = written("dsp", tmp_path)
    done = tilewright("compare", instance, "--with", "manual,tiles@nowhere", "--json")
    assert done.returncode == 2
    done = tilewright("compare", instance, "--with", "manual,exhaustive", "-o", "all.json", "--json")
    rows = valid(said(done), "Result")
    assert json.loads((tmp_path / "all.json").read_text()) == rows
    failed = {"instance": "a", "method": "b", "objective": None, "bound": None, "error": "no such solver"}
    jsonschema.Draft202012Validator(definitions()).validate([*rows, failed])
    swept = tilewright("sweep", instance, "--set", "machine.memory_bytes=1,1500", "--jobs", "1", "--json")
    points = valid(said(swept), "SweptPoint")
    assert [point["status"] for point in points] == ["refused", "optimal"]
    tilewright("solve", instance, "-o", "result.json")
    valid(said(tilewright("emit", instance, "result.json", "--json")), "Emitted")
    lists = valid(said(tilewright("list", "--json")), "Lists")
    for what, rows in lists.items():
        assert valid(said(tilewright("list", what, "--json")), f"{what[:-1].capitalize()}Row") == rows


# Names and units ------------------------------------------------------------------------------------


def test_every_number_of_cycles_says_which_it_is() -> None:
    """With and without overlap; of an NPU there are picoseconds, and nothing called cycles."""
    text = INSTANCES["dsp"].replace("accesses", "cycles")
    problem = read_text(text)
    measured = solve(problem, "exhaustive").measures
    assert measured.serial_cycles > measured.lockstep_cycles == measured.duration_cycles
    assert measured.duration_of == "lockstep"
    measured = solve(read_text(INSTANCES["npu network"])).measures
    assert not [key for key in measured.to_json() if "cycles" in key]
    assert measured.duration_ps == measured.serial_ps


@pytest.mark.parametrize("name", ["dsp network", "npu network"])
def test_a_network_has_totals_and_its_layers_by_name(name: str) -> None:
    result = solve(read_text(INSTANCES[name]))
    measured = result.measures.to_json()
    assert list(measured["layers"]) == ["first", "again", "third"]
    summed = {
        "dsp network": ("accesses_elements", "energy_fj", "duration_cycles"),
        "npu network": ("duration_ps", "bursts"),
    }
    for key in summed[name]:
        assert measured[key] == sum(layer[key] for layer in measured["layers"].values())
    assert result.objective == measured["duration_ps" if name.startswith("npu") else "accesses_elements"]


def test_prices_of_energy_say_whose_they_are() -> None:
    thesis = "of the DSP of the IDSP thesis (table 7.9, equation 7.2)"
    some = "core_fj_per_cycle = 1\n"
    every = f"{some}local_fj_per_access = 1\ndram_fj_per_access = 2\n"
    for given, prices in (
        ("", thesis),
        (some, f"core as given; local, dram {thesis}"),
        (every, "as given"),
    ):
        for layers in (f"[layer]\n{LAYER}", NETWORK):
            minimise = '[objective]\nminimise = "energy"\n'
            result = solve(read_text(f'room = "tiling"\n{layers}{DSP}[machine.energy]\n{given}{minimise}'))
            assert result.measures.energy_prices == prices
            (line,) = [line for line in result.summary().splitlines() if line.startswith("energy ")]
            assert line.endswith("J" if prices == "as given" else f"J, prices {prices}")


# Reading and verifying --------------------------------------------------------------------------------


@pytest.mark.by_day(1)
@pytest.mark.parametrize("name", thinned(INSTANCES, 2))
def test_no_measure_can_be_changed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every number, text, list and table among the measures is verified; so are objective's name and unit.

    What is claimed besides, which would be proven again for each lie, is left out.
    """
    monkeypatch.setattr(verify, "_check_claims", lambda *_: [])
    instance = read_text(INSTANCES[name])
    data = json.loads(json.dumps(solve(instance, time_limit=20, threads=1).to_json()))
    assert exit_status(check(instance, read_back(data), numeric=False, time_limit=20)) == 0
    lies = [data | {"minimise": "fun"}, data | {"unit": "apples"}]
    places = list(leaves(data["report"]["measures"]))
    for number, path in enumerate(places):
        if number % max(1, len(places) // 8) and path[-1] not in ("duration_of", "serial_ps"):
            continue
        lie = copy.deepcopy(data)
        holder = lie["report"]["measures"]
        for step in path[:-1]:
            holder = holder[step]
        value = holder[path[-1]]
        if path[-1] in ("overlapped_cycles", "overlapped_ps"):
            value = 0
        others = {"serial": "lockstep", "lockstep": "serial", "scheduled": "serial"}
        other = others.get(value, f"{value} or so") if isinstance(value, str) else f"{value} or so"
        holder[path[-1]] = value + 1 if isinstance(value, int | float) else other
        lies.append(lie)
    for lie in lies:
        assert exit_status(check(instance, read_back(lie), numeric=False, time_limit=20)) == 1


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("joules", 1, "report.measures.joules = 1 .. unknown key"),
        ("steps", None, "report.measures.steps .. missing"),
        ("steps", "many", "report.measures.steps = 'many' .. docs/formats.md"),
        ("steps", True, "report.measures.steps = true .. docs/formats.md"),
        ("steps", -1, "report.measures.steps = -1 .. docs/formats.md"),
    ],
)
def test_measures_are_read_strictly(key: str, value: Any, told: str) -> None:
    data = json.loads(json.dumps(solve(read_text(INSTANCES["dsp"])).to_json()))
    data["report"]["measures"][key] = value
    if value is None:
        del data["report"]["measures"][key]
    with pytest.raises(InputError) as caught:
        read_back(data)
    assert tells(caught.value, told)


@pytest.mark.nightly
@pytest.mark.parametrize("name", FORMAT_1)
def test_results_of_format_1_are_read(
    name: str, tilewright: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are verified, drawn, reported on and written again; their lies are refuted."""
    monkeypatch.setattr(verify, "_check_claims", lambda *_: [])
    old = FORMAT_1[name]
    instance = read_text(INSTANCES[name.partition(",")[0]])
    (tmp_path / "instance.toml").write_text(INSTANCES[name.partition(",")[0]])
    (tmp_path / "old.json").write_text(json.dumps(old))
    assert old["format"] == 1
    result = read_back(old)
    found = {finding.what: finding for finding in check(instance, result, time_limit=60)}
    assert exit_status(found.values()) == 0
    assert found["report"].detail == "as simulated; the other keys of format 1 are not looked at"
    counts = old["report"].get("measures", old["report"])
    for key in [*[key for key in counts if type(counts[key]) is int][:3], "transfers"]:
        lie = copy.deepcopy(old)
        lie["report"].get("measures", lie["report"])[key] += 1
        assert exit_status(check(instance, read_back(lie), time_limit=60)) == 1
    assert read_back(result.to_json()).to_json() == result.to_json() | {"format": 2}
    assert (result.measures is None) == ("measures" not in old["report"])
    for command in (("simulate", "--plot", "plan.png"), ("report", "-o", "plan.html")):
        done = tilewright(command[0], "instance.toml", "old.json", *command[1:])
        assert done.returncode == 0, done.stderr
        assert (tmp_path / command[2]).stat().st_size > 5_000


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Any:
    """Yield the paths of all values that are no tables and no lists."""
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else None
    )
    if inner is None:
        yield path
        return
    for key, each in inner:
        yield from leaves(each, (*path, key))
