"""The tiling room as a user meets it: solve, check, simulate and emit, for a layer, a network, a front."""

from __future__ import annotations

import json

import pytest
from conftest import tells

LAYER = """
input = [6, 10, 9]
kernels = 8
kernel = [3, 3]
padding = [1, 1, 1, 1]
"""
MACHINE = """
[machine]
kind = "dsp"
memory_bytes = 1500
dma_setup_cycles = 20
"""
NETWORK = "".join(
    f'[[network.layers]]\nname = "{name}"\n{layer}\n'
    for name, layer in (("first", LAYER), ("again", LAYER), ("last", 'kind = "fc"\ninputs = 40\noutputs = 7'))
)


@pytest.fixture
def write(tmp_path):
    def instance(name: str, body: str) -> str:
        (tmp_path / name).write_text('room = "tiling"\n' + body)
        return name

    return instance


@pytest.mark.by_day(2)
@pytest.mark.parametrize("minimise", ["accesses", "cycles", "energy", "pareto"])
def test_layer_is_solved_checked_simulated(tilewright, write, tmp_path, minimise):
    objective = f'[objective]\nminimise = "{minimise}"\n'
    name = write("layer.toml", f"[layer]{LAYER}{MACHINE}{objective}")
    shown = tilewright("solve", name, "-o", "result.json")
    assert shown.returncode == 0, shown.stderr
    result = json.loads((tmp_path / "result.json").read_text())
    assert result["status"] == "optimal"
    assert result["gap"] == 0
    checked = tilewright("check", name, "result.json")
    assert checked.returncode == 0, checked.stdout
    simulated = tilewright("simulate", name, "result.json", "--numeric")
    assert simulated.returncode == 0
    assert "equal to the reference" in simulated.stdout
    assert "GOps/s" in shown.stdout
    if minimise == "pareto":
        front = result["report"]["measures"]["front"]
        assert len(front) == len(result["plan"]["front"])
        assert "front" in checked.stdout
    else:
        assert "any schedule" in shown.stdout


def test_front_that_is_not_complete_is_found_out(tilewright, solved, write, tmp_path):
    name = write("layer.toml", f'[layer]{LAYER}{MACHINE}[objective]\nminimise = "pareto"\n')
    result = solved(name)
    assert len(result["plan"]["front"]) > 1
    result["plan"]["front"].pop()
    result["report"]["measures"]["front"].pop()
    (tmp_path / "less.json").write_text(json.dumps(result))
    checked = tilewright("check", name, "less.json")
    assert checked.returncode == 1
    assert [line.split()[1] for line in checked.stdout.splitlines() if line.startswith("WRONG")] == ["front"]


def test_network_prints_a_line_per_layer_and_totals(tilewright, solved, write):
    name = write("network.toml", NETWORK + MACHINE)
    result = solved(name)
    layers = result["report"]["measures"]["layers"]
    assert list(layers) == ["first", "again", "last"]
    assert result["plan"]["layers"][0] == result["plan"]["layers"][1]
    assert result["objective"] == sum(layer["accesses_elements"] for layer in layers.values())
    assert tilewright("check", name, "result.json").returncode == 0
    shown = tilewright("solve", name).stdout.splitlines()
    assert [line.split()[0] for line in shown[2:5]] == ["first", "again", "last"]
    assert any(line.startswith("layers") and "2 different" in line for line in shown)


@pytest.mark.by_day(6)
@pytest.mark.parametrize("method", ["exhaustive", "greedy", "pruned", "manual"])
def test_every_method_solves_networks(solved, write, method):
    name = write("network.toml", NETWORK + MACHINE)
    best = solved(name)["objective"]
    result = solved(name, "--with", method)
    assert result["objective"] >= best
    assert result["status"] == ("optimal" if method == "exhaustive" else "feasible")


def test_schedules_can_be_limited_and_may_be_infeasible(tilewright, solved, write):
    limits = '[limits]\nschedule = "intra"\n'
    name = write("layer.toml", f"[layer]{LAYER}{MACHINE}{limits}")
    assert solved(name)["report"]["measures"]["schedule"] == "intra"
    # One output from many inputs: intra-tile reuse would need a partial sum at once.
    fully = '[layer]\nkind = "fc"\ninputs = 4000\noutputs = 1\n'
    name = write("fc.toml", fully + MACHINE + limits)
    done = tilewright("solve", name, "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout)["status"] == "infeasible"


def test_emit(tilewright, solved, write, tmp_path):
    name = write("network.toml", NETWORK + MACHINE)
    solved(name)
    assert tilewright("emit", name, "result.json", "-o", "layers.c").returncode == 0
    text = (tmp_path / "layers.c").read_text()
    assert "dma_get" in text
    again = tilewright("emit", name, "result.json")
    assert again.stdout == text
    # Sums are wider in C than in the plan, for which the memory is just large enough.
    told = json.loads((done := tilewright("emit", name, "result.json", "--json")).stdout)
    figures = told["memory"]
    assert told["source"] == text
    assert figures["planned_bytes"] <= 1500 < figures["emitted_bytes"]
    for number in (figures["planned_bytes"], figures["emitted_bytes"], 1500):
        assert f"{number:,} " in told["warning"]
    assert done.stderr == again.stderr == f"warning: the emitted program {told['warning']}\n"
    roomy = write("roomy.toml", NETWORK + MACHINE.replace("1500", "150000"))
    solved(roomy)
    told = json.loads((done := tilewright("emit", roomy, "result.json", "--json")).stdout)
    assert told["warning"] is None and told["memory"]["fits"] and not done.stderr
    front = write("front.toml", f'[layer]{LAYER}{MACHINE}[objective]\nminimise = "pareto"\n')
    solved(front)
    refused = tilewright("emit", front, "result.json")
    assert refused.returncode == 2
    assert "objective.minimise" in refused.stderr


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (f"[layer]{LAYER}[machine]\nkind = 'dsp'\nmemory_bytes = 60\n", "machine.memory_bytes"),
        (f"[layer]{LAYER}[machine]\nkind = 'dsp'\nmemory = 60\n", "memory_bytes"),
        (f"[layer]{LAYER}[machine]\nkind = 'gpu'\n", "machine.kind"),
        (f"[layer]{LAYER}[machine]\nmemory_bytes = 500\n", "machine.kind"),
        (f"[layer]{LAYER}{MACHINE}bus_elements_per_cycle = 0\n", "machine.bus_elements_per_cycle"),
        (f"[layer]{LAYER}{MACHINE}[machine.energy]\nwatts = 1\n", "machine.energy.watts"),
        (f"[layer]{LAYER}{MACHINE}[limits]\nschedule = 'best'\n", "limits.schedule"),
        (MACHINE, "layer"),
        ("[network]\nlayers = []\n" + MACHINE, "network.layers"),
        (f'[[network.layers]]\nname = "a"\n{LAYER}\n' * 2 + MACHINE, "network.layers"),
        (NETWORK + MACHINE + '[objective]\nminimise = "edp"\n', "objective.minimise"),
        (NETWORK + MACHINE.replace("1500", "70"), "layer first"),
        (f"[layer]{LAYER}{MACHINE}[objective]\nminimise = 'time'\n", "objective.minimise"),
        ('[layer]\nkind = "fc"\ninputs = 4\n' + MACHINE, "layer.outputs"),
        ('network = "nowhere.toml"\n' + MACHINE, "nowhere.toml"),
    ],
)
def test_bad_input_names_field_and_limit(tilewright, write, body, said):
    done = tilewright("solve", write("bad.toml", body))
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr


NPU = "[machine]\nkind = 'npu'\n"
LEVELS = """[machine]
kind = "hierarchy"
mac_pj = 1.0
levels = [{ name = "dram" }, { name = "buffer", capacity_bytes = 99 }]
"""


@pytest.mark.parametrize(
    ("body", "wanted", "offered"),
    [
        (f"[layer]{LAYER}{MACHINE}", "latency", "dsp .. accesses, cycles, energy, pareto"),
        (f"[layer]{LAYER}{MACHINE}", "cycle", "pareto .. cycles?"),
        (NETWORK + MACHINE, "time", "dsp .. accesses, cycles, energy, pareto"),
        (
            NETWORK + LEVELS,
            "edp",
            "single layer .. hierarchy .. accesses",
        ),
        (f"[layer]{LAYER}{NPU}", "latency", "npu .. time, accesses, pareto"),
    ],
)
def test_an_objective_that_a_machine_lacks_is_answered_with_those_that_it_has(
    tilewright, write, body, wanted, offered
):
    done = tilewright("solve", write("bad.toml", f'{body}[objective]\nminimise = "{wanted}"\n'))
    assert done.returncode == 2
    assert tells(done.stderr, "bad.toml", f"objective.minimise = '{wanted}'", offered)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ('[objective]\nminimise = "energy"\n', "objective.minimise"),
        ('[objective]\nminimise = ["cycles", "energy"]\n', "objective.minimise"),
        ('[objective]\nminimise = "pareto"\nbetween = ["cycles", "energy"]\n', "objective.between"),
        ("[limits]\nat_most = { energy = 5 }\n", "limits.at_most"),
    ],
)
def test_energy_that_has_no_price_is_not_counted(tilewright, write, body, field):
    free = "[machine.energy]\ncore_fj_per_cycle = 0\ndram_fj_per_access = 0\n"  # and nothing local
    done = tilewright("solve", write("free.toml", f"[layer]{LAYER}" + MACHINE + free + body))
    assert done.returncode == 2
    assert tells(done.stderr, "free.toml", f"{field} = 'energy' .. prices .. 0")


def test_a_plan_that_cannot_be_simulated_in_time_is_an_answer(tilewright, write):
    # A tiny memory cuts this layer into millions of tiles.
    layer = "[layer]\ninput = [64, 200, 200]\nkernels = 64\nkernel = [3, 3]\n"
    name = write("large.toml", layer + '[machine]\nkind = "dsp"\nmemory_bytes = 120\n')
    done = tilewright("solve", name, "--time-limit", "5", "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["plan"] is not None
    assert 0 < result["bound"] <= result["objective"]
    assert result["simulated"] == (result["report"] is not None)
    assert result["seconds"] < 5 + 30  # unrolled it would take hours


def test_network_of_one_layer(tilewright, solved, write):
    name = write("one.toml", f'[[network.layers]]\nname = "only"\n{LAYER}' + MACHINE)
    for method in ("auto", "exhaustive", "greedy"):
        assert solved(name, "--with", method)["plan"] is not None
    assert tilewright("check", name, "result.json").returncode == 0


def test_front_is_no_plan_for_a_network(tilewright, solved, write, tmp_path):
    name = write("network.toml", NETWORK + MACHINE)
    result = solved(name)
    result["plan"] = {"front": result["plan"]["layers"]}
    (tmp_path / "front.json").write_text(json.dumps(result))
    checked = tilewright("check", name, "front.json")
    assert checked.returncode == 1
    assert "kind of plan" in checked.stdout


@pytest.mark.nightly
def test_check_keeps_its_time_limit(tilewright, solved, write, tmp_path):
    layer = "[layer]\ninput = [64, 200, 200]\nkernels = 64\nkernel = [3, 3]\n"
    name = write("large.toml", layer + '[machine]\nkind = "dsp"\nmemory_bytes = 131072\n')
    result = solved(name)
    result["plan"]["tile"] = dict.fromkeys("gncyxk", 1)
    (tmp_path / "ones.json").write_text(json.dumps(result))
    checked = tilewright("check", name, "ones.json", "--time-limit", "10", timeout=120)
    assert checked.returncode == 1, checked.stdout
    told = " ".join(checked.stdout.split())
    # Its 160 million tiles are counted, but numbers are moved through one after the other.
    assert "ok plan valid: 160579584 steps" in told
    assert "NOT VERIFIED numbers whether they are equal to the reference takes longer than 10 s" in told
    assert "WRONG objective simulated 2892941568" in told


def test_compare_leaves_out_what_does_not_suit(tilewright, write):
    name = write("npu.toml", f'[layer]{LAYER}[machine]\nkind = "npu"\n')
    done = tilewright("compare", name, "--json")
    assert [entry["method"] for entry in json.loads(done.stdout)] == ["descent", "auto"]
    refused = tilewright("solve", name, "--with", "greedy")
    assert refused.returncode == 2
    assert "does not take this kind of machine" in refused.stderr
