"""The multicore NPU: closed form and simulator, exact search and enumeration, what the paper's fit sees."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import ClassVar

import numpy as np
import pytest
from conftest import examples, refused, tells
from hypothesis import given, settings
from hypothesis import strategies as st
from layers import widths
from tests.oracles import npu as oracle

from tilewright.papers.tso import fitting
from tilewright.run.instance import read
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, best_bound, measured_objective, objective, simulate, violation
from tilewright.tiling.npu.cost import OURS, Cost, Reading, cost, printed, published, totals
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.exact import largest_filter_step
from tilewright.tiling.npu.kind import exhaustive
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan
from tilewright.tiling.summary import costs_of_front

INFINITE = float("inf")


def make(layer, machine=(), minimise="time", **limits) -> Problem:
    """Build an NPU problem; by default two TLEs of two cores, prices that keep everything apart."""
    plain = {
        "kind": "npu",
        "tles": 2,
        "tlts": 2,
        "element_bytes": 1,
        "burst_bytes": 4,
        "macs_per_cycle": 1,
        "cycle_ps": 1_000_000,
        "byte_ps": 1000,
        "burst_ps": 1,
    }
    table = {"layer": layer, "machine": {**plain, **dict(machine)}, "limits": limits}
    return Problem.model_validate(table | {"objective": {"minimise": minimise}})


@st.composite
def problems(draw, *, side: int = 9, channels: int = 7, minimise: str = "time") -> Problem:
    """Draw a layer that is ragged in every way, on a machine with little memory, with widths or without."""

    def number(low, high):
        return draw(st.integers(low, high))

    kind = draw(st.sampled_from(["plain", "plain", "grouped", "depthwise"]))
    groups = {"plain": 1, "grouped": 2, "depthwise": number(2, channels)}[kind]
    kernel, dilation = (number(1, 3), number(1, 3)), (number(1, 2), number(1, 2))
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    layer = {
        "input": [
            groups * (1 if kind == "depthwise" else number(1, channels)),
            *(number(size, max(side, size)) for size in reach),
        ],
        "kernels": groups * (1 if kind == "depthwise" else number(1, 2 * channels)),
        "kernel": list(kernel),
        "stride": [number(1, 4), number(1, 4)],
        "dilation": list(dilation),
        "padding": [number(0, reach[i // 2] - 1) for i in range(4)],
        "groups": groups,
        "batch": number(1, 2),
    }
    window = kernel[0] * kernel[1]
    width, bits = number(1, 2), draw(st.none() | widths())
    single = layer["input"][0] == groups
    held = dict.fromkeys(("input", "weights", "output"), 8 * width)
    if bits is not None:
        held = bits | {"output": bits["output"] if single else bits["partial"]}

    def memory(operand, low, high):
        """Draw the bytes of a memory that has room for so many elements."""
        return -(-number(low, high) * held[operand] // 8)

    machine = ({} if bits is None else {"bits": bits}) | {
        "tles": draw(st.sampled_from([2, 4, 8])),
        "tlts": number(1, 8),
        "element_bytes": width,
        "burst_bytes": number(1, 9),
        "macs_per_cycle": number(1, 9),
        "input_bytes": memory("input", reach[0] * reach[1], 8 * reach[0] * reach[1]),
        "weights_bytes": memory("weights", window, 9 * window),
        "output_bytes": memory("output", 1, 30),
        "cycle_ps": number(0, 100),
        "byte_ps": number(0, 100),
        "burst_ps": number(0, 100),
    }
    return make(layer, machine, minimise=minimise)


@st.composite
def plans(draw, problem: Problem) -> NpuPlan:
    """Draw any plan, valid or not; where filters must all be in a tile, mostly that."""
    partition, schedule = draw(st.sampled_from(PARTITIONS)), draw(st.sampled_from(SCHEDULES))
    sizes = cut_of(problem.one_layer, problem.machine, partition).sizes
    most = 65 if schedule == "IS" else sizes[0]
    tile = [draw(st.integers(1, most)), *(draw(st.integers(1, size + 1)) for size in sizes[1:])]
    return NpuPlan(partition, schedule, tuple(tile))  # type: ignore[arg-type]


WITH_PLAN = problems().flatmap(lambda problem: st.tuples(st.just(problem), plans(problem)))


def everything(problem: Problem):
    """Iterate over all valid plans, every tile of every size."""
    for partition, schedule in product(PARTITIONS, SCHEDULES):
        sizes = cut_of(problem.one_layer, problem.machine, partition).sizes
        for tile in product(*(range(1, size + 1) for size in sizes)):
            plan = NpuPlan(partition, schedule, tile)  # type: ignore[arg-type]
            if violation(problem, Plan((plan,))) is None:
                yield plan


def walked(problem: Problem, plan: NpuPlan) -> tuple[oracle.Machine, tuple[int, ...]]:
    """Return what knows nothing but docs/npu.md, and the steps of a plan."""
    machine = oracle.Machine(problem.model_dump(mode="json"), plan.partition)
    return machine, machine.step(plan.tile)


# The simulator --------------------------------------------------------------------------------------------


@given(WITH_PLAN)
@settings(max_examples=examples(250), deadline=None)
def test_simulator_confirms_the_closed_form(drawn):
    problem, layer_plan = drawn
    plan = Plan((layer_plan,))
    report = simulate(problem, plan, numeric=True, overlapped=False)
    if violation(problem, plan) is not None:
        assert not report.valid
        return
    assert report.violation is None
    assert report.numeric
    assert measured_objective(problem, report) == objective(problem, plan)
    total = cost(cut_of(problem.one_layer, problem.machine, layer_plan.partition), layer_plan)
    loaded = {name.split()[0]: 0 for name in report.loaded}
    for name, counts in report.loaded.items():
        loaded[name.split()[0]] += int(counts.sum())
    assert (loaded["input"], loaded["weights"]) == (total.input, total.weights)
    assert sum(int(counts.sum()) for counts in report.written.values()) == total.output
    assert int(report.macs.sum()) == problem.one_layer.macs
    assert report.measures.bursts == total.bursts
    machine, step = walked(problem, layer_plan)
    counts = machine.counts(step, layer_plan.schedule)
    assert machine.fits(step, layer_plan.schedule)
    assert (counts["cycles"], counts["bytes"], counts["bursts"]) == total.counts
    accesses = problem.with_(objective={"minimise": "accesses"})
    assert counts["moved"] == objective(accesses, plan) == measured_objective(accesses, report)
    if problem.machine.bits is not None:
        moved = report.measures.moved_bits
        assert report.measures.accesses_bits == sum(moved.values()) == counts["moved"]


@given(WITH_PLAN)
@settings(max_examples=examples(100), deadline=None)
def test_tiles_fit_where_their_bits_do(drawn):
    problem, plan = drawn
    broken = violation(problem, Plan((plan,)))
    if broken is None or broken.startswith("memory overflow"):
        machine, step = walked(problem, plan)
        assert machine.fits(step, plan.schedule) == (broken is None)


def test_a_layer_that_a_person_can_follow():
    """Two TLEs of two cores, KS: each TLE has 2 of the 4 filters, each core one; 4 x 4 outputs in 2 x 4."""
    problem = make({"input": [2, 4, 4], "kernels": 4, "kernel": [1, 1]})
    plan = Plan((NpuPlan("KS", "OS", (1, 1, 2, 4)),))
    report = simulate(problem, plan)
    assert report.violation is None
    # Two tiles of rows, two of maps. Input: each TLE all 32 elements, in rows that follow each other: a tile
    # of 8 elements is 2 bursts, 4 tiles for each TLE. Weights: one for each of 2 cores, 2 TLEs, 4 tiles; a
    # burst each. Output: 64 elements, 8 in 2 bursts. Cycles: 8 outputs of one MAC in each of 4 tiles.
    cycles, elements, bursts = 4 * 8, 2 * 32 + 2 * 2 * 4 + 64, 2 * 4 * 2 + 2 * 2 * 4 + 4 * 2 * 2
    assert objective(problem, plan) == measured_objective(problem, report)
    assert objective(problem, plan) == cycles * 1_000_000 + elements * 1000 + bursts


# Exact search ---------------------------------------------------------------------------------------------


@given(
    st.sampled_from(["time", "time", "accesses"]).flatmap(
        lambda minimise: problems(side=4, channels=3, minimise=minimise)
    ),
    st.sampled_from(["any", *SCHEDULES]),
    st.sampled_from(["any", *PARTITIONS]),
)
@settings(max_examples=examples(60), deadline=None)
def test_exact_search_equals_enumeration(problem, schedule, partition):
    limits = {"schedule": schedule, "partition": partition}
    problem = Problem.model_validate(problem.model_dump() | {"limits": limits})
    values = [objective(problem, Plan((plan,))) for plan in everything(problem)]
    found, bound = exhaustive(problem, INFINITE), best_bound(problem)
    assert (None if found is None else found[0]) == min(values, default=None)
    if found is None:
        return
    assert violation(problem, Plan(found[1])) is None
    assert objective(problem, Plan(found[1])) == found[0]
    assert bound.value <= found[0]


@given(problems())
@settings(max_examples=examples(100), deadline=None)
def test_bound_is_never_above_the_optimum(problem):
    found = exhaustive(problem, INFINITE)
    assert found is not None  # the smallest tile fits, output stationary
    assert best_bound(problem).value <= found[0]


def test_more_memory_never_costs():
    layer = {"input": [12, 20, 20], "kernels": 24, "kernel": [3, 3]}
    names = ("input_bytes", "weights_bytes", "output_bytes")
    found = [
        exhaustive(make(layer, dict.fromkeys(names, size)), INFINITE)[0] for size in (64, 128, 512, 4096)
    ]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) > 1


# The paper's equations ------------------------------------------------------------------------------------


def test_published_counts_by_hand():
    """Equations 2 to 9 on 8 x 8 outputs of 16 filters over 4 maps, four TLEs of two cores."""
    layer = {"input": [4, 10, 10], "kernels": 16, "kernel": [3, 3]}
    machine = {"tles": 4, "element_bytes": 2, "burst_bytes": 16, "macs_per_cycle": 32}
    problem = make(layer, machine)
    cut = cut_of(problem.one_layer, problem.machine, "KS")
    # TLE_W = 4, so 2 filters a core. Tiles: T_M 2, T_N 2, T_R 3 (of 8), T_C 4.
    found = published(cut, NpuPlan("KS", "OS", (2, 2, 3, 4)))
    alpha_in = (
        4 * 3 * 2 * 2 * 1
    )  # TLEs, rows, columns, maps, filters (4); an input tile is shared by the cores
    alpha_w = 2 * alpha_in  # weights of each of the two cores
    alpha_out = 4 * 2 * 3 * 2
    size_in, size_w, size_out = 2 * 5 * 6, 2 * 2 * 9, 2 * 3 * 4
    # Bursts of 8 elements: a row of 6 is one, the 18 weights of a filter are three, a row of 4 outputs one.
    load = alpha_in * 2 * 5 + alpha_w * 2 * 3
    cycles = 1 * 2 * 3 * 2 * (2 * 2 * -(-3 * 4 * 9 // 32))  # (7), times the tiles of the slowest core
    moved = alpha_in * size_in, alpha_w * size_w, alpha_out * size_out
    assert found == Cost(cycles, *moved, load, alpha_out * 2 * 3, 2 * sum(moved))
    # Weight stationary: a core's filters come once, with all four maps; the 36 weights of one are 5 bursts.
    found = published(cut, NpuPlan("KS", "WS", (2, 2, 3, 4)))
    assert (found.input, found.weights) == (alpha_in * size_in, 4 * 2 * 2 * 4 * 9)
    assert found.load_bursts == alpha_in * 2 * 5 + 4 * 2 * 2 * 5
    # The true cost has 8 rows in tiles of 3, 3 and 2: 5 + 5 + 4 input rows.
    assert cost(cut, NpuPlan("KS", "OS", (2, 2, 3, 4))).input == 4 * 4 * (5 + 5 + 4) * (6 + 6)


def test_equations_by_the_letter():
    """Equations 3 to 9 as printed, on the layer above: tiles are of a core, counts of TLEs."""
    machine = {"tles": 4, "element_bytes": 2, "burst_bytes": 16, "macs_per_cycle": 32}
    problem = make({"input": [4, 10, 10], "kernels": 16, "kernel": [3, 3]}, machine)
    cut = cut_of(problem.one_layer, problem.machine, "KS")
    step = tuple(map(np.int64, (2, 2, 3, 4)))
    plane, size_in, size_w, size_out = 4 * 3 * 2 * 2, 2 * 5 * 6, 2 * 2 * 9, 2 * 3 * 4
    cycles = 8 * 2 * 3 * 2 * (2 * 2 * -(-3 * 4 * 9 // 32))  # M / T_M = 8
    for schedule, often_in, often_w, often_out, maps in (
        ("IS", plane, plane, 3 * 2, 2),  # (3): no filters in any count
        ("OS", plane * 2, plane * 2, 3 * 2 * 8, 2),  # (4): TLE_W / T_M = 2
        ("WS", plane * 2, 4 * 2, 3 * 2 * 8, 4),  # (5)
    ):
        weights = often_w * size_w * maps // 2
        bursts = often_in * 2 * 5 + often_w * 2 * -(-maps * 9 // 8), often_out * 2 * 3
        moved = often_in * size_in, weights, often_out * size_out
        assert printed(cut, schedule, step) == Cost(cycles, *moved, *bursts, 2 * sum(moved))


def test_outputs_of_the_fifth_convolution_of_inceptionv3():
    """The printed count of its output tiles, times their size, is twice what the layer has to store."""
    problem = read("inceptionv3-conv5-nmp").problem
    cut = cut_of(problem.one_layer, problem.machine, "OFM")
    step = tuple(map(np.int64, (5, 5, 9, 71)))
    assert printed(cut, "WS", step).output == 8 * 39 * 5 * 9 * 71 == 996_840
    reading = Reading("one core", "full", "even", "moved", "full")
    assert totals(cut, "WS", step, reading).output == 127_800
    assert cost(cut, NpuPlan("OFM", "WS", (5, 5, 9, 71))).output == 192 * 71 * 71 == 967_872


@given(WITH_PLAN)
@settings(max_examples=examples(150), deadline=None)
def test_readings_stand_in_order(drawn):
    """Full edges, own input tiles and busy idle TLEs never take less, the other readings never more."""
    problem, plan = drawn
    cut = cut_of(problem.one_layer, problem.machine, plan.partition)
    step = cut.step(plan.tile)
    ours = np.array(cost(cut, plan).counts)

    def counts(**changes):
        found = totals(cut, plan.schedule, tuple(map(np.int64, step)), replace(OURS, **changes))
        return np.array([int(count) for count in found.counts])

    assert (counts() == ours).all()
    assert (np.array(published(cut, plan).counts) == counts(edges="full")).all()
    for change in ({"edges": "full"}, {"input": "each"}, {"idle": "full"}):
        assert (counts(**change) >= ours).all()
    for change in ({"input": "one core"}, {"padding": "left"}):
        assert (counts(**change) <= ours).all()
    cores = problem.machine.tles * problem.machine.tlts
    if plan.tile[2] >= cut.layer.output_plane[0]:  # else slices may end in other tiles than all rows do
        assert counts(cores="even")[0] <= cores * ours[0]


@given(problems(side=5, channels=3), st.tuples(*[st.integers(1, 50)] * 3))
@settings(max_examples=examples(40), deadline=None)
def test_fit_sees_the_best_of_all_tiles(problem, each):
    """The plans that are kept for the fit have, for any prices, the best one among them."""
    prices = fitting.Prices(*map(float, each))
    layer, machine = problem.one_layer, problem.machine
    for variant in (fitting.VARIANTS["ours"], fitting.VARIANTS["edge tiles count as full ones"]):
        cells = fitting.PlanSpace([[layer]], machine, variant).cells(prices)[0]
        for (p, partition), (s, schedule) in product(enumerate(PARTITIONS), enumerate(SCHEDULES)):
            cut = cut_of(layer, machine, partition)
            # Plans divide evenly; counted as full ones, tiles of any other size are no better than these.
            every = (np.arange(1, size + 1) for size in cut.sizes)
            grid = np.ix_(*(every if variant.reading.edges == "full" else cut.steps))
            fits = grid[0] <= largest_filter_step(cut, schedule, *grid[1:])
            if schedule == "IS":
                fits &= grid[0] == cut.sizes[0]
            total = totals(cut, schedule, grid, variant.reading)
            time = total.cycles * prices.cycle + total.bursts * prices.burst
            time = time + total.bytes * prices.byte
            if fits.any():
                assert cells[p, s] == pytest.approx(np.broadcast_to(time, fits.shape)[fits].min())
            else:
                assert cells[p, s] > 1e12


# What is refused ------------------------------------------------------------------------------------------

CONV = {"input": [2, 6, 6], "kernels": 4, "kernel": [3, 3]}


@pytest.mark.parametrize(
    ("memory", "operand", "missing"),
    [("input_bytes", "input", 1), ("weights_bytes", "weights", 1), ("output_bytes", "output", 1)],
)
def test_a_memory_that_is_too_small_is_named(memory, operand, missing):
    needed = {"input": 2 * 9, "weights": 2 * 9, "output": 2}[operand]
    told = f"{operand} .. smallest tile .. {needed} bytes .. {missing} are missing"
    with refused(f"machine.{memory}", needed - missing, told):
        make(CONV, {"element_bytes": 2, memory: needed - missing})
    make(CONV, {"element_bytes": 2, memory: needed})


@pytest.mark.parametrize(
    ("field", "value"),
    [("tles", 3), ("tles", 0), ("tlts", 0), ("burst_bytes", 0), ("cycle_ps", -1), ("element_bytes", 17),
     ("macs_per_cycle", 0), ("byte_ps", 1.5), ("clock_mhz", 450)],
)  # fmt: skip
def test_a_machine_that_does_not_exist_is_refused(field, value):
    with pytest.raises(InputError, match=field):
        make(CONV, {field: value})


def test_times_that_cannot_be_counted_are_refused():
    with pytest.raises(InputError, match="can be counted"):
        make({"input": [65536, 1000, 1000], "kernels": 65536, "kernel": [3, 3]}, {"burst_ps": 10**9})


@pytest.mark.parametrize("limits", [{"schedule": "RS"}, {"partition": "IFM"}, {"schedule": "kc"}])
def test_limits_that_do_not_exist_are_refused(limits):
    with pytest.raises(InputError, match=r"^limits\.(schedule|partition) = .*npu has"):
        make(CONV, **limits)


def test_no_tile_with_a_schedule_is_infeasible():
    problem = make({"input": [8, 6, 6], "kernels": 4, "kernel": [3, 3]}, {"weights_bytes": 60}, schedule="WS")
    assert exhaustive(problem, INFINITE) is None


@pytest.mark.parametrize(
    "change",
    [{"partition": "rows"}, {"schedule": "RS"}, {"tile": {"m": 1, "n": 1, "r": 1}}, {"more": 1},
     {"tile": {"m": 0, "n": 1, "r": 1, "c": 1}}, {"tile": {"m": True, "n": 1, "r": 1, "c": 1}},
     {"tile": {"m": 2**31, "n": 1, "r": 1, "c": 1}}, {"tile": [1, 1, 1, 1]}, {"schedule": ["IS"]},
     {"tile": {"m": 1.0, "n": 1, "r": 1, "c": 1}}],
)  # fmt: skip
def test_malformed_plans_are_refused(change):
    right = {"partition": "KS", "schedule": "OS", "tile": {"m": 1, "n": 1, "r": 1, "c": 1}}
    assert Plan.from_json(right).to_json() == right
    with pytest.raises(InputError, match="plan"):
        Plan.from_json(right | change)


def test_faults_are_explained():
    problem = make(CONV, {"input_bytes": 18, "output_bytes": 3}, partition="KS", schedule="IS")
    for plan, expected in (
        (NpuPlan("OFM", "IS", (2, 1, 1, 1)), "partition OFM .. KS"),
        (NpuPlan("KS", "OS", (2, 1, 1, 1)), "schedule OS .. IS"),
        (NpuPlan("KS", "IS", (1, 2, 2, 2)), "memory overflow .. input .. 32 elements .. 18"),
        (NpuPlan("KS", "IS", (1, 1, 1, 4)), "memory overflow .. output .. 4 elements .. 3"),
    ):
        assert tells(violation(problem, Plan((plan,))), expected)
        assert not simulate(problem, Plan((plan,))).valid
    wider = make({**CONV, "kernels": 8}, schedule="IS")
    broken = Plan((NpuPlan("KS", "IS", (1, 1, 1, 1)),))
    assert tells(violation(wider, broken), "input stationary .. 2 filters .. 1")
    whole, part = (Plan((NpuPlan("KS", "OS", (m, 1, 1, 1)),)) for m in (2, 1))
    only = make({**CONV, "kernels": 8}, schedule="OS")
    assert tells(violation(only, whole), "output stationary .. 2 filters .. all")
    assert violation(only, part) is None
    assert violation(make({**CONV, "kernels": 8}), whole) is None  # which is as good as IS where it may be
    single = make({**CONV, "kernels": 4}, schedule="OS")
    assert violation(single, part) is None


# Widths of operands ---------------------------------------------------------------------------------------


class TestWidths:
    LAYER: ClassVar = {"input": [4, 6, 7], "kernels": 6, "kernel": [3, 3]}
    BITS: ClassVar = {"input": 6, "weights": 3, "output": 5, "partial": 20}

    def test_by_hand(self):
        """The layer that a person can follow, in weights of half a byte and outputs of a byte and a half."""
        bits = {"input": 8, "weights": 4, "output": 12, "partial": 32}
        problem = make({"input": [2, 4, 4], "kernels": 4, "kernel": [1, 1]}, {"bits": bits})
        plan = Plan((NpuPlan("KS", "OS", (1, 1, 2, 4)),))
        report = simulate(problem, plan)
        assert report.violation is None
        # Tiles of 8 inputs are 8 bytes, two bursts of 4; a weight of half a byte takes one, and a burst;
        # tiles of 8 outputs are 12 bytes, three bursts.
        size, bursts = 2 * 4 * 8 + 2 * 2 * 4 * 1 + 4 * 2 * 12, 2 * 4 * 2 + 2 * 2 * 4 + 4 * 2 * 3
        assert measured_objective(problem, report) == 4 * 8 * 1_000_000 + size * 1000 + bursts
        assert report.measures.moved_bits == {"input": 64 * 8, "weights": 16 * 4, "output": 64 * 12}
        assert report.measures.buffers_bits == {"input": 64, "weights": 4, "output": 8 * 32}

    def test_sums_do_not_grow_when_they_are_complete(self):
        with pytest.raises(InputError, match=r"machine\.bits\.partial = 4: .*5 bits of outputs"):
            make(self.LAYER, {"bits": self.BITS | {"partial": 4}})

    @pytest.mark.parametrize(
        ("operand", "elements", "width"), [("input", 9, 6), ("weights", 9, 3), ("output", 1, 20)]
    )
    def test_the_smallest_tile_must_fit(self, operand, elements, width):
        needed = -(-elements * width // 8)
        assert make(self.LAYER, {"bits": self.BITS, f"{operand}_bytes": needed})
        told = rf"{operand} of the smallest tile .* {needed} bytes .*{elements} elements of {width} bits"
        with pytest.raises(InputError, match=told):
            make(self.LAYER, {"bits": self.BITS, f"{operand}_bytes": needed - 1})

    def test_filters_of_one_map_complete_their_outputs(self):
        """Two outputs of five bits fit into two bytes, two sums of twenty do not."""
        machine, plan = {"bits": self.BITS, "output_bytes": 2}, Plan((NpuPlan("KS", "OS", (1, 1, 1, 2)),))
        layer = {"input": [4, 6, 7], "kernels": 4, "kernel": [3, 3], "groups": 4}
        assert violation(make(layer, machine), plan) is None
        sums = make({**layer, "groups": 2}, machine | {"output_bytes": 3})
        assert tells(violation(sums, plan), "memory overflow .. output .. 40 bits .. 24")
        assert not simulate(sums, plan).valid

    def test_old_problems_keep_their_digests(self):
        assert "bits" not in make(self.LAYER).machine.told()
        assert make(self.LAYER, {"bits": self.BITS}).machine.told()["bits"] == self.BITS

    @pytest.mark.parametrize("minimise", ["time", "accesses"])
    def test_equal_widths_are_elements(self, minimise):
        memory = {"input_bytes": 60, "weights_bytes": 50, "output_bytes": 20, "element_bytes": 2}
        elements = make(self.LAYER, memory, minimise=minimise)
        bits = elements.with_(machine={"bits": dict.fromkeys(self.BITS, 16)})
        found, same = exhaustive(elements, INFINITE), exhaustive(bits, INFINITE)
        scale = 16 if minimise == "accesses" else 1
        assert (same.layers, same.value) == (found.layers, found.value * scale)
        assert best_bound(bits).value == best_bound(elements).value * scale
        report = simulate(bits, Plan(same.layers), numeric=True)
        assert report.violation is None
        assert report.measures.accesses_bits == 16 * report.measures.accesses_elements

    def test_the_front_is_that_of_every_tile(self):
        memory = {"input_bytes": 40, "weights_bytes": 20, "output_bytes": 20}
        machine = memory | {"bits": self.BITS, "cycle_ps": 2, "byte_ps": 1, "burst_ps": 9}
        problem = make(self.LAYER, machine, minimise="pareto")
        each = [problem.with_(objective={"minimise": name}) for name in ("time", "accesses")]
        costs = {tuple(objective(one, Plan((plan,))) for one in each) for plan in everything(each[0])}
        least: list[tuple[int, ...]] = []
        for point in sorted(costs):
            if not least or point[1] < least[-1][1]:
                least.append(point)
        found = exhaustive(problem, INFINITE)
        measures = simulate(problem, Plan(found.layers, front=True)).measures
        assert costs_of_front(problem, measures) == least
        assert problem.objectives["accesses"].unit == "bits"
