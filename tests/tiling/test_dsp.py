"""The DSP: closed forms against a walk over every tile, against the simulator, and the exact search."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from conftest import examples, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import everything, make, plans, problems, with_plan
from searches import proven_best, undominated
from tests.oracles import dsp as oracle

from tilewright import read
from tilewright.simulator import execute
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.tiling import (
    Plan,
    Problem,
    best_bound,
    measured_objective,
    objective,
    simulate,
    violation,
)
from tilewright.tiling.dsp import exact, thesis_model
from tilewright.tiling.dsp.cost import measures
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.exact import families, fewest_accesses, local_traffic
from tilewright.tiling.dsp.exact.params import SearchParams
from tilewright.tiling.dsp.kind import exhaustive
from tilewright.tiling.dsp.lowering import lower
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS, SCHEDULES, DspPlan
from tilewright.tiling.dsp.traffic import Tiles
from tilewright.tiling.several_objectives import recheck
from tilewright.tiling.summary import costs_of_front

INFINITE = float("inf")


def one(nest, plan):
    """Return a plan's tile as arrays of length one."""
    return Tiles(nest, tuple(np.array([size]) for size in nest.step(plan.tile)))


@given(with_plan())
@settings(max_examples=examples(300))
def test_closed_forms_equal_a_walk(drawn):
    problem, plan = drawn
    nest, table = nest_of(problem.one_layer, problem.machine), problem.model_dump(mode="json")
    local, layer = local_traffic(nest), oracle.Layer(table)
    step = layer.step(plan.tile)
    walk = oracle.Walk(layer, step, plan.order, plan.reuse)
    traffic, transfers = (
        one(nest, plan).traffic(plan.order, plan.reuse),
        duration(nest, plan, local).transfers,
    )
    assert traffic.written[0] == sum(map(sum, walk.writes))
    assert traffic.accesses[0] == walk.accesses
    transfers = sum(map(len, walk.loads + walk.writes))
    assert traffic.transfers[0] == duration(nest, plan, local).transfers == transfers
    held = oracle.buffers(layer, step, plan.reuse)
    assert one(nest, plan).needed(plan.reuse)[0] == held
    assert oracle.fits(table, layer, step, plan.reuse) == (held <= problem.machine.buffer_capacity)
    costs = measures(nest, plan, ("cycles", "accesses", "energy"), local)
    assert costs == oracle.measures(table, layer, walk, local)


@given(with_plan())
@settings(max_examples=examples(150))
def test_simulator_confirms_every_valid_plan(drawn):
    problem, layer_plan = drawn
    plan = Plan((layer_plan,))
    report = simulate(problem, plan, numeric=True, overlapped=False)
    if violation(problem, plan) is not None:
        assert not report.valid
        return
    assert report.violation is None
    assert report.numeric
    assert measured_objective(problem, report) == objective(problem, plan)


@given(with_plan(tight=True))
@settings(max_examples=examples(100))
def test_memory_is_refused_alike(drawn):
    problem, layer_plan = drawn
    plan = Plan((layer_plan,))
    report = simulate(problem, plan, overlapped=False)
    assert (violation(problem, plan) is None) == report.valid


@given(
    problems(side=4, channels=2, tight=True),
    st.sampled_from(["any", "thesis", "halide-idsp", "intra", "kc", "oc", "oxyn", "oxyn/ox"]),
    st.permutations(["cycles", "accesses", "energy"]).map(lambda names: names[:2]),
)
@settings(max_examples=examples(40))
def test_exact_search_equals_enumeration(problem, limit, between):
    best = dict.fromkeys(("accesses", "cycles", "energy"), INFINITE)
    points = set()
    nest = nest_of(problem.one_layer, problem.machine)
    local, names = local_traffic(nest), tuple(best)
    limited = {
        minimise: Problem.model_validate(
            problem.model_dump() | {"objective": asked, "limits": {"schedule": limit}}
        )
        for minimise in (*best, "pareto")
        for asked in [{"minimise": minimise} | ({"between": between} if minimise == "pareto" else {})]
    }

    def costs(plan):
        return dict(zip(names, measures(nest, plan, names, local), strict=True))

    for plan in everything(problem, limit):
        if violation(limited["cycles"], Plan((plan,))) is not None:
            continue
        total = costs(plan)
        points.add(tuple(total[name] for name in between))
        best = {name: min(value, total[name]) for name, value in best.items()}
    for minimise, value in best.items():
        found = exhaustive(limited[minimise], INFINITE)
        assert (INFINITE if found is None else found.value) == value
        if found is not None:
            assert found.proven
            plan = Plan(found.layers)
            assert violation(limited[minimise], plan) is None
            assert objective(limited[minimise], plan) == value
    found = exhaustive(limited["pareto"], INFINITE)
    totals = [costs(plan) for plan in found.layers] if found else []
    assert [tuple(total[name] for name in between) for total in totals] == undominated(points)


@given(problems(side=4, channels=2, tight=True))
@settings(max_examples=examples(40))
def test_exact_search_with_weights_that_stay_equals_enumeration(problem):
    problem = problem.with_(objective={"minimise": "accesses"}, limits={"schedule": "any+weights"})
    valid = (plan for plan in everything(problem, "any+weights") if violation(problem, Plan((plan,))) is None)
    found = exhaustive(problem, INFINITE)
    assert found.proven
    nest = nest_of(problem.one_layer, problem.machine)
    assert found.value == min(duration(nest, plan).accesses for plan in valid)
    report = simulate(problem, Plan(found.layers), numeric=True, overlapped=False)
    assert report.violation is None
    assert measured_objective(problem, report) == found.value


@pytest.mark.parametrize(
    ("layer", "memory", "without", "least"),
    [
        ({"input": [8, 29, 29], "kernels": 16, "kernel": [3, 3], "stride": [2, 2]}, 2048, 11_248, 11_016),
        (
            {
                "input": [3, 224, 224],
                "kernels": 64,
                "kernel": [7, 7],
                "stride": [2, 2],
                "padding": [3, 3, 3, 3],
            },
            16384,
            972_982,
            969_547,
        ),
    ],
)
def test_weights_that_stay_let_whole_rows_pass_by(layer, memory, without, least):
    machine = {"memory_bytes": memory, "element_bytes": 1, "double_buffering": False}
    for schedule, value in (("any", without), ("any+weights", least)):
        problem = make(layer, machine, minimise="accesses", schedule=schedule)
        found = exhaustive(problem, INFINITE)
        assert (found.value, found.proven) == (value, True)
        report = simulate(problem, Plan(found.layers), overlapped=False)
        assert report.violation is None
        assert report.accesses == value
    assert best_bound(problem).value == least


@pytest.mark.parametrize(
    ("objective", "at_most"), [("cycles", None), (["accesses", "cycles"], None), ("accesses", 10**6)]
)
def test_weights_that_stay_are_for_accesses_alone(objective, at_most):
    problem = make({"input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}, schedule="any+weights")
    with pytest.raises(InputError, match=r"limits\.schedule"):
        problem.with_(objective={"minimise": objective}, limits={"at_most": {"accesses": at_most}})


def test_weights_that_stay_must_be_allowed():
    plan = DspPlan((1, 1, 1, 4, 4, 2), "nyxkc", "weights")
    layer = {"input": [2, 4, 4], "kernels": 2, "kernel": [1, 1]}
    assert "any+weights" in violation(make(layer), Plan((plan,)))
    assert violation(make(layer, schedule="any+weights"), Plan((plan,))) is None


@given(problems(tight=True))
@settings(max_examples=examples(60))
def test_more_memory_and_more_schedules_never_cost(problem):
    nest = nest_of(problem.one_layer, problem.machine)
    capacity = problem.machine.buffer_capacity
    found = {limit: fewest_accesses(nest, limit) for limit in ("any", "thesis", *SCHEDULES)}
    assert found["any"].value <= found["thesis"].value
    assert found["thesis"].value == min(f.value for name, f in found.items() if f and name in SCHEDULES)
    assert fewest_accesses(nest, "any", 2 * capacity).value <= found["any"].value


@pytest.mark.parametrize(
    ("layer", "kept", "stride", "extent"),
    [
        ({"input": [1, 9, 4], "kernel": [1, 1], "stride": [4, 1]}, [0, 4, 8], 1, 1),
        ({"input": [1, 9, 4], "kernel": [2, 1], "stride": [4, 1]}, [0, 1, 4, 5], 2, 2),
        ({"input": [1, 9, 4], "kernel": [3, 1], "stride": [2, 1], "dilation": [2, 1]}, [0, 2, 4, 6, 8], 1, 3),
        # Row 3 is met from the second window on only, and row 1 would be by a window before the first.
        (
            {"input": [1, 11, 4], "kernel": [2, 1], "stride": [3, 1], "dilation": [4, 1]},
            [0, 1, 3, 4, 6, 7, 9, 10],
            2,
            4,
        ),
    ],
)
def test_a_step_leaves_out_rows_that_no_window_meets(layer, kept, stride, extent):
    problem = make(layer | {"kernels": 1}, {"dma_step": True})
    rows, columns = nest_of(problem.one_layer, problem.machine).lines
    assert (rows.kept.tolist(), rows.stride, rows.extent) == (kept, stride, extent)
    assert columns.kept.tolist() == [0, 1, 2, 3]


def test_a_step_saves_the_second_load_of_a_shortcut():
    problem = read("resnet18-shortcut4-step").problem
    inputs, weights, outputs = 256 * 7 * 7, 256 * 512, 512 * 7 * 7
    assert exhaustive(problem, INFINITE).value == inputs + weights + outputs == 168_704
    whole = exhaustive(problem.with_(machine={"dma_step": False}), INFINITE)
    assert whole.value == 2 * inputs + weights + outputs == 181_248


def test_a_window_of_generated_zeros_keeps_the_gaps():
    layer = {"input": [1, 1, 3], "kernels": 1, "kernel": [2, 1], "stride": [2, 1], "dilation": [2, 1]}
    for padding, kept in (("loaded", [0, 2]), ("generated", [0, 1, 2])):
        problem = make(layer | {"padding": [1, 1, 0, 0]}, {"dma_step": True, "padding": padding})
        assert nest_of(problem.one_layer, problem.machine).lines[0].kept.tolist() == kept


def test_going_back_to_an_earlier_neighbour_keeps_no_halo():
    """Two columns of tiles inside a loop over output maps: 230 if the way back kept the halo, too."""
    problem = Problem.model_validate({
        "layer": {"input": [2, 5, 3], "kernels": 10, "kernel": [5, 2], "stride": [6, 1], "groups": 2},
        "machine": {"kind": "dsp", "memory_bytes": 126, "element_bytes": 3},
    })  # fmt: skip
    found = exhaustive(problem, float("inf"))
    assert (found.value, found.proven) == (250, True)
    assert measured_objective(problem, simulate(problem, Plan(found.layers))) == 250


def test_published_formulas_equal_ours_on_divisible_tiles():
    layer = {"input": [6, 8, 8], "kernels": 4, "kernel": [3, 3], "padding": [1, 1, 1, 1], "batch": 2}
    problem = make(layer, {"dma_setup_cycles": 5})
    nest = nest_of(problem.one_layer, problem.machine)
    for name, (order, reuse) in SCHEDULES.items():
        plan = DspPlan((1, 1, 2, 4, 2, 3), order, reuse)
        tiles = one(nest, plan)
        assert thesis_model.accesses(tiles, name)[0] == pytest.approx(
            tiles.traffic(order, reuse).accesses[0], abs=1e-6
        )


def test_published_formulas_count_edge_tiles_as_full_ones():
    problem = make({"input": [1, 7, 7], "kernels": 5, "kernel": [3, 3]})
    nest = nest_of(problem.one_layer, problem.machine)
    plan = DspPlan((1, 1, 2, 5, 2, 1), "kncyx", "none")  # 5 maps in 2, 5 columns in 2: three tiles each
    traffic, published = (
        one(nest, plan).traffic("kncyx", "none"),
        thesis_model.accesses(one(nest, plan), "intra")[0],
    )
    inputs, weights, outputs = 7 * (4 + 4 + 3) * 3, 5 * 9 * 3, 5 * 25
    assert traffic.accesses[0] == inputs + weights + outputs
    assert published == 9 * (7 * 4 + 2 * 9 + 2 * 5 * 2)


def test_published_cycles_by_hand():
    # Two tiles of 4 outputs, 9 taps: 36 cycles each; a tile loads 24 + 9 and writes 4.
    problem = make({"input": [1, 4, 6], "kernels": 1, "kernel": [3, 3]}, {"dma_setup_cycles": 10})
    nest = nest_of(problem.one_layer, problem.machine)
    plan = DspPlan((1, 1, 1, 2, 2, 1), "kncyx", "none")
    each = 4 * 4 + 9 + 4
    prolog, middle, epilog = 16 + 9 + 20 + 36, max(36 + 3 * 10, each), 4 + 10
    assert thesis_model.cycles(one(nest, plan), "intra").total[0] == prolog + middle + epilog


@given(problems(tight=True))
@settings(max_examples=examples(30))
def test_local_traffic_is_that_of_a_small_memory(problem):
    local = local_traffic(nest_of(problem.one_layer, problem.machine))
    nest = nest_of(problem.one_layer, problem.machine)
    if problem.machine.register_file_bytes == 0:
        assert local == 0
    else:
        assert local >= fewest_accesses(nest, "thesis", 10**9).value


class TestPlans:
    def test_tile_is_an_upper_limit(self):
        problem = make({"input": [1, 12, 12], "kernels": 1, "kernel": [3, 3]})
        nest = nest_of(problem.one_layer, problem.machine)
        assert nest.step((1, 1, 1, 9, 4, 1)) == (1, 1, 1, 5, 4, 1)
        assert nest.trips((1, 1, 1, 9, 4, 1)) == (1, 1, 1, 2, 3, 1)

    def test_json_and_back(self):
        plan = Plan((DspPlan((1, 2, 3, 4, 5, 6), "cknyx", "halo"),))
        assert Plan.from_json(plan.to_json()) == plan
        assert plan.to_json() == {
            "tile": dict(zip(LOOPS, (1, 2, 3, 4, 5, 6), strict=True)),
            "schedule": "cknyx",
            "reuse": "halo",
        }

    @pytest.mark.parametrize(
        ("change", "field"),
        [
            ({"tile": {"x": 1}}, "plan.tile"),
            ({"tile": dict.fromkeys(LOOPS, 0)}, "plan.tile"),
            ({"tile": dict.fromkeys(LOOPS, 1.5)}, "plan.tile"),
            ({"tile": dict.fromkeys(LOOPS, True)}, "plan.tile"),
            ({"schedule": "ncyx"}, "plan.schedule"),
            ({"schedule": "ncyxx"}, "plan.schedule"),
            ({"schedule": 5}, "plan.schedule"),
            ({"reuse": "all"}, "plan.reuse"),
            ({"more": 1}, "plan"),
        ],
    )
    def test_malformed_plans_are_refused(self, change, field):
        good = DspPlan((1, 1, 1, 1, 1, 1), "ncyxk", "tile").to_json()
        with pytest.raises(InputError) as caught:
            Plan.from_json(good | change)
        assert caught.value.field == field

    def test_partial_sums_cannot_be_read_before_they_are_written(self):
        problem = make({"kind": "fc", "inputs": 8, "outputs": 2})
        plan = Plan((DspPlan((1, 1, 2, 1, 1, 4), "kncyx", "none"),))
        assert "partial sums" in violation(problem, plan)
        assert not simulate(problem, plan).valid
        alone = make({"kind": "fc", "inputs": 8, "outputs": 2}, {"double_buffering": False})
        assert violation(alone, plan) is None
        assert simulate(alone, plan, numeric=True).valid


class TestProblems:
    LAYER = {"input": [3, 12, 12], "kernels": 4, "kernel": [5, 5]}  # noqa: RUF012

    def test_memory_too_small_names_the_operand(self):
        # Twice 25 + 25 + 1 elements of 2 bytes: 204; the input's 100 fit, the weights' do not.
        with refused("machine.memory_bytes", 150, "weights .. smallest tile .. 204 bytes .. 54 are missing"):
            make(self.LAYER, {"memory_bytes": 150})

    @pytest.mark.parametrize(
        ("table", "field"),
        [
            ({"objective": {"minimise": "time"}}, "objective.minimise"),
            ({"limits": {"schedule": "WS"}}, "limits.schedule"),
            ({"limits": {"partition": "KS"}}, "limits.partition"),
            ({"batch": 3}, "batch"),
            ({"network": {"layers": [{"name": "a", **LAYER}]}}, "layer"),
        ],
    )
    def test_combinations_that_do_not_exist(self, table, field):
        with pytest.raises(InputError) as caught:
            Problem.model_validate({
                "layer": self.LAYER, "machine": {"kind": "dsp", "memory_bytes": 4096}, **table,
            })  # fmt: skip
        assert caught.value.field == field

    def test_fully_connected_layers(self):
        problem = make({"kind": "fc", "inputs": 20, "outputs": 7, "batch": 3})
        layer = problem.one_layer
        assert (layer.input, layer.kernels, layer.kernel, layer.batch) == ((20, 1, 1), 7, (1, 1), 3)
        assert problem == Problem.model_validate(problem.model_dump())
        for field, value in (("inputs", 0), ("outputs", "7"), ("inputs", None), ("outputs", 70000)):
            with pytest.raises(InputError) as caught:
                make({"kind": "fc", "inputs": 20, "outputs": 7, field: value})
            assert caught.value.field == f"layer.{field}"

    def test_equal_layers_of_a_network_share_a_problem(self):
        layers = [{"name": name, **self.LAYER} for name in "abc"]
        layers[1]["kernels"] = 8
        problem = Problem.model_validate({
            "network": {"layers": layers}, "batch": 2, "machine": {"kind": "dsp", "memory_bytes": 4096},
        })  # fmt: skip
        first, second, third = (part for _, part in problem.parts)
        assert first is third
        assert first is not second
        assert first.one_layer.batch == 2


@given(st.data())
@settings(max_examples=examples(25))
def test_networks_are_the_sum_of_their_layers(data):
    drawn = data.draw(problems(side=6))
    layers = [drawn.one_layer, data.draw(problems(side=6)).one_layer, drawn.one_layer]
    table = [{"name": f"layer {i}", **layer.model_dump(mode="json")} for i, layer in enumerate(layers)]
    problem = Problem.model_validate({
        "network": {"layers": table},
        "machine": drawn.machine.model_dump(mode="json"),
        "objective": drawn.objective.model_dump(mode="json"),
    })  # fmt: skip
    plan = Plan(tuple(data.draw(plans(part)) for _, part in problem.parts))
    faults = [violation(part, one) for (_, part), one in zip(problem.parts, plan.split(), strict=True)]
    report = simulate(problem, plan, numeric=True, overlapped=False)
    assert (violation(problem, plan) is None) == (not any(faults)) == report.valid
    if report.valid:
        parts = [objective(part, one) for (_, part), one in zip(problem.parts, plan.split(), strict=True)]
        assert objective(problem, plan) == measured_objective(problem, report) == sum(parts)
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.by_day(1)
@pytest.mark.parametrize("minimise", ["cycles", "energy", "pareto"])
def test_search_that_runs_out_of_time_claims_nothing(minimise):
    layer = {"input": [64, 60, 60], "kernels": 64, "kernel": [3, 3], "batch": 8}
    problem = make(layer, {"memory_bytes": 60_000, "dma_setup_cycles": 9}, minimise=minimise)
    best = exhaustive(problem, INFINITE)
    assert best.proven
    early = exhaustive(problem, time.monotonic())
    assert not early.proven
    assert early.value >= best.value
    assert violation(problem, Plan(early.layers, front=minimise == "pareto")) is None


@pytest.mark.nightly
def test_a_front_that_cannot_be_found_again_in_time_is_not_called_complete():
    layer = {"input": [64, 60, 60], "kernels": 64, "kernel": [3, 3], "batch": 8}
    problem = make(layer, {"memory_bytes": 60_000, "dma_setup_cycles": 9}, minimise="pareto")
    plan = Plan(exhaustive(problem, INFINITE).layers, front=True)
    for deadline in (time.monotonic(), time.monotonic() - 60):
        ((what, holds, detail),) = recheck(problem, plan, deadline)
        assert (what, holds) == ("front", None)
        assert "not in time" in detail
    assert recheck(problem, plan, INFINITE)[0][1]


@pytest.mark.nightly
def test_blocks_do_not_change_what_is_found(monkeypatch):
    layer = {"input": [2, 6, 7], "kernels": 3, "kernel": [3, 3], "batch": 2}
    problems = [
        make(layer, {"memory_bytes": 300}, minimise=m) for m in ("accesses", "cycles", "energy", "pareto")
    ]
    whole = [exhaustive(problem, INFINITE) for problem in problems]
    monkeypatch.setattr(families, "PARAMS", SearchParams(block=5))
    parts = [exhaustive(problem, INFINITE) for problem in problems]
    assert [found.value for found in parts] == [found.value for found in whole]
    fronts = [[duration(nest_of(p.one_layer, p.machine), plan) for plan in found.layers]
              for p, found in ((problems[-1], whole[-1]), (problems[-1], parts[-1]))]  # fmt: skip
    assert [(d.cycles, d.accesses) for d in fronts[0]] == [(d.cycles, d.accesses) for d in fronts[1]]


# Trade-offs --------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("limit", ["thesis", "any"])
def test_the_front_is_that_of_every_tile_and_schedule(limit: str) -> None:
    """Brute force over every tile size, not only those that make different numbers of iterations."""
    table = {
        "layer": {"input": [2, 5, 6], "kernels": 3, "kernel": [3, 3], "stride": [1, 2]},
        "machine": {
            "kind": "dsp",
            "memory_bytes": 400,
            "bus_elements_per_cycle": 2,
            "macs_per_cycle": 4,
            "dma_setup_cycles": 7,
            "register_file_bytes": 60,
        },
        "objective": {"minimise": "pareto"},
        "limits": {"schedule": limit},
    }
    problem = Problem.model_validate(table)
    nest = nest_of(problem.one_layer, problem.machine)
    local = exact.local_traffic(nest)
    points = set()
    for tile in product(*(range(1, size + 1) for size in nest.sizes)):
        if sum(nest.buffers(nest.step(tile)).values()) > nest.machine.buffer_capacity:
            continue
        for order, reuse in exact.schedules(limit):
            plan = DspPlan(tile, order, reuse)  # type: ignore[arg-type]
            if one(nest, plan).needs_late_sums(plan.reuse)[0]:
                continue
            total = duration(nest, plan, local)
            points.add((total.cycles, total.accesses))
    found = proven_best(problem)
    ours = [(total.cycles, total.accesses) for total in (duration(nest, plan, local) for plan in found[1])]
    assert ours == undominated(points)
    measures = simulate(problem, Plan(found[1], front=True)).measures
    assert costs_of_front(problem, measures) == ours


class TestWidths:
    LAYER: ClassVar = {"input": [4, 6, 6], "kernels": 4, "kernel": [3, 3]}
    BITS: ClassVar = {"input": 8, "weights": 4, "output": 8, "partial": 24}

    def test_sums_do_not_grow_when_they_are_complete(self):
        with pytest.raises(InputError, match=r"machine\.bits\.partial = 6: .*8 bits of outputs"):
            make(self.LAYER, {"bits": {"output": 8, "partial": 6}})

    def test_the_smallest_tile_must_fit_with_its_sum(self):
        needed = -(-(9 * 8 + 9 * 4 + 24) // 8)
        machine = {"bits": self.BITS, "double_buffering": False}
        assert make(self.LAYER, machine | {"memory_bytes": needed})
        with pytest.raises(
            InputError, match=rf"output of the smallest tile .* {needed} bytes .*1 of 24 bits"
        ):
            make(self.LAYER, machine | {"memory_bytes": needed - 1})

    def test_old_problems_keep_their_digests(self):
        assert "bits" not in make(self.LAYER).machine.told()
        assert make(self.LAYER, {"bits": self.BITS}).machine.told()["bits"] == self.BITS

    @pytest.mark.parametrize("minimise", ["accesses", "cycles", "energy"])
    def test_equal_widths_are_elements(self, minimise):
        machine = {"memory_bytes": 700, "element_bytes": 2, "register_file_bytes": 60, "dma_setup_cycles": 3}
        elements = make(self.LAYER, machine, minimise=minimise)
        bits = elements.with_(machine={"bits": dict.fromkeys(self.BITS, 16)})
        found, same = exhaustive(elements, INFINITE), exhaustive(bits, INFINITE)
        assert same.layers == found.layers
        assert same.value == found.value * (16 if minimise == "accesses" else 1)
        assert best_bound(bits).value == best_bound(elements).value * (16 if minimise == "accesses" else 1)

    def test_measures_are_in_bits_beside_elements(self):
        problem = make(self.LAYER, {"bits": self.BITS, "memory_bytes": 300}, minimise="accesses")
        plan = DspPlan((1, 1, 2, 2, 4, 1), "kncyx", "tile")  # sums leave and return
        report = simulate(problem, Plan((plan,)), numeric=True)
        assert report.valid
        measured = report.measures
        assert measured.accesses_elements == report.accesses
        moved = measured.moved_bits
        assert measured.accesses_bits == objective(problem, Plan((plan,))) == sum(moved.values())
        outputs = 4 * 4 * 4
        assert moved["output"] == outputs * (3 * 2 * 24 + 8)
        assert measured.buffers_bits["output"] == 2 * 2 * 4 * 24
        per_byte = 16 * problem.one_layer.macs / measured.accesses_bits
        assert measured.ops_per_byte == pytest.approx(per_byte)
        assert problem.unit == "bits"

    def test_sums_are_not_cut_short(self):
        """Written in the width of outputs before they are complete."""
        problem = make(self.LAYER, {"bits": self.BITS})
        plan = DspPlan((1, 1, 2, 4, 4, 2), "kncyx", "tile")
        program = lower(nest_of(problem.one_layer, problem.machine), plan, 0)
        assert execute(program).violation is None
        steps = [
            replace(step, write_back=tuple(replace(each, sums=False) for each in step.write_back))
            for step in program.steps
        ]
        broken = execute(replace(program, steps=steps)).violation
        assert broken is not None
        assert broken.rule == "cut short"


def test_a_search_that_ends_early_does_not_call_its_plan_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles that were not looked at may be better than one whose cost meets the bound of all others."""
    layer = {"input": [64, 56, 56], "kernels": 64, "kernel": [3, 3], "padding": [1, 1, 1, 1]}
    problem = make(layer, {"memory_bytes": 65_536}, minimise="accesses").where("tile.rows % 8 == 0")
    best = exhaustive(problem, INFINITE)
    assert best is not None
    for looks in range(1, 40, 3):  # at the clock, before the deadline
        clock = iter(range(10_000))
        with monkeypatch.context() as patch, suppress(OutOfTimeError):
            patch.setattr(time, "monotonic", lambda clock=clock: float(next(clock)))
            found = exhaustive(problem, looks + 0.5)
            assert found is not None
            assert not found.proven or found.value == best.value
