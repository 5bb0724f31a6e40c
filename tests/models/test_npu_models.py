"""Every formulation of tiling for the multicore NPU that needs a solver, with each that takes it."""

import random
from functools import cache
from itertools import product

import numpy as np
import pyomo.environ as pyo
import pytest
from conftest import THOROUGH
from formulations import check_agreement, methods, solve, with_and_without_extras, with_each

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.models.tiling import slices
from tilewright.run.instance import read
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, best_bound, objective, violation
from tilewright.tiling.npu import minizinc as bridge
from tilewright.tiling.npu.cut import cut_of
from tilewright.tiling.npu.kind import exhaustive
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES, NpuPlan


def problem(memory=(20, 12, 6), *, machine=(), limits=(), minimise="time", **layer) -> Problem:
    """Build a layer on two TLEs of two cores; memory for elements of input, weights and output."""
    names = ("input_bytes", "weights_bytes", "output_bytes")
    return Problem.model_validate({
        "layer": {"input": (3, 5, 6), "kernels": 7, "kernel": (2, 2), **layer},
        "machine": {"kind": "npu", "tles": 2, "tlts": 2, "element_bytes": 1, "burst_bytes": 4,
                    "macs_per_cycle": 3, "cycle_ps": 5, "byte_ps": 3, "burst_ps": 7,
                    **dict(zip(names, memory, strict=True)), **dict(machine)},
        "limits": dict(limits),
        "objective": {"minimise": minimise},
    })  # fmt: skip


def drawn(seed: int) -> Problem:
    """Draw a layer and a machine with widths of its operands, of which a tile or more fits."""
    generator = random.Random(seed)
    number = generator.randint
    groups, kernel = generator.choice([1, 1, 2, 3]), (number(1, 2), number(1, 3))
    maps = number(1, 3)
    bits = {name: generator.choice([1, 3, 4, 6, 8, 16]) for name in ("input", "weights", "output")}
    bits["partial"] = bits["output"] + number(0, 12)
    sums = bits["output"] if maps == 1 else bits["partial"]
    window = kernel[0] * kernel[1]
    needs = (
        number(1, 6) * window * bits["input"],
        number(1, 8) * window * bits["weights"],
        number(1, 9) * sums,
    )
    return problem(
        tuple(-(-need // 8) for need in needs),
        input=(groups * maps, *(size + number(0, 4) for size in kernel)),
        kernels=groups * number(1, 5),
        kernel=kernel,
        stride=(number(1, 2), number(1, 2)),
        groups=groups,
        batch=number(1, 2),
        machine={
            "bits": bits,
            "tles": generator.choice([2, 4]),
            "tlts": number(1, 2),
            "burst_bytes": number(1, 5),
            "cycle_ps": number(0, 9),
            "byte_ps": number(0, 9),
            "burst_ps": number(0, 9),
        },
        minimise=generator.choice(["time", "time", "accesses"]),
    )


WIDTHS = {f"widths {seed}": drawn(seed) for seed in range(40 if THOROUGH else 6)}
TINY = {
    **WIDTHS,
    "plain": problem(),
    "little memory": problem((4, 4, 1)),
    "nearly everything": problem((90, 60, 60)),
    "everything at once": problem((1000, 1000, 1000)),
    "weights for all maps": problem((8, 12, 20)),
    "four TLEs": problem(machine={"tles": 4, "tlts": 1}),
    "eight TLEs, some idle": problem(machine={"tles": 8, "tlts": 3}, kernels=3),
    "one core": problem(machine={"tlts": 1}, kernels=5),
    "sums of three bytes": problem((20, 12, 18), machine={"bits": {"input": 8, "weights": 8, "partial": 24}}),
    "weights of half a byte": problem((20, 6, 12), machine={"bits": {"weights": 4, "partial": 16}}),
    "accesses": problem(minimise="accesses"),
    "elements of two bytes": problem((40, 24, 12), machine={"element_bytes": 2}),
    "long bursts": problem(machine={"burst_bytes": 9}),
    "bursts cost nothing": problem(machine={"burst_ps": 0}),
    "cycles cost nothing": problem(machine={"cycle_ps": 0}),
    "transfers cost nothing": problem(machine={"byte_ps": 0, "burst_ps": 0}),
    "nothing costs anything": problem(machine={"cycle_ps": 0, "byte_ps": 0, "burst_ps": 0}),
    "prices with a common part": problem(machine={"cycle_ps": 18, "byte_ps": 6, "burst_ps": 30}),
    "bursts above all": problem((24, 18, 12), machine={"cycle_ps": 1, "byte_ps": 1, "burst_ps": 500}),
    "padding": problem(input=(2, 4, 4), kernel=(3, 3), padding=(1, 1, 0, 1), memory=(30, 20, 8)),
    "stride beyond the kernel": problem(input=(2, 9, 8), stride=(3, 3)),
    "dilation": problem(input=(2, 6, 6), dilation=(2, 1), stride=(2, 1)),
    "groups and images": problem(input=(4, 4, 5), kernels=6, groups=2, batch=2),
    "depthwise": problem(input=(9, 5, 5), kernels=9, groups=9),
    "depthwise, little memory": problem((9, 4, 2), input=(9, 5, 5), kernels=9, groups=9),
    "fully connected": problem((3, 6, 2), input=(7, 1, 1), kernels=9, kernel=(1, 1)),
    **{f"schedule {name}": problem(limits={"schedule": name}) for name in SCHEDULES},
    **{f"partition {name}": problem(limits={"partition": name}) for name in PARTITIONS},
    "one of each": problem(limits={"schedule": "OS", "partition": "KS&OFM"}),
    "no tile": problem((20, 8, 6), limits={"schedule": "WS"}),
}


def takes(path) -> bool:
    """Whether a formulation is for this machine; one that does not tell is for the DSP."""
    formulation = catalogue.formulation("tiling", path.stem)
    tells = path.suffix == ".mzn" or hasattr(formulation, "suits")
    return tells and catalogue.suits(formulation, TINY["plain"])


# The reference model, which is for small layers, has tests of its own.
METHODS = [
    (path, solver) for path, solver in methods(TINY["plain"]) if takes(path) and "reference" not in path.stem
]
WITH_EACH_METHOD = with_each(METHODS)


def test_there_are_formulations():
    assert {path.name for path, _ in METHODS} >= {"cores.mzn", "slices.py"}


@cache
def enumerated(name: str) -> int | None:
    """Return the least time of all plans, every tile of every size looked at."""
    case = TINY[name]
    values = []
    for partition, schedule in product(PARTITIONS, SCHEDULES):
        sizes = cut_of(case.one_layer, case.machine, partition).sizes
        for tile in product(*(range(1, size + 1) for size in sizes)):
            plan = Plan((NpuPlan(partition, schedule, tile),))
            if violation(case, plan) is None:
                values.append(objective(case, plan))
    return min(values, default=None)


@pytest.mark.by_day(12)
@pytest.mark.parametrize("name", TINY)
def test_exhaustive_agrees_with_enumeration(name):
    found = exhaustive(TINY[name], float("inf"))
    assert (None if found is None else found[0]) == enumerated(name)


@pytest.mark.by_day(6)
@with_and_without_extras(TINY)
@WITH_EACH_METHOD
def test_agrees_with_enumeration(path, solver, name, extras):
    check_agreement(TINY[name], path, solver, extras, enumerated(name))


@pytest.mark.by_day(4)
@with_and_without_extras(["plain", "little memory", "nearly everything", "depthwise", "long bursts"])
@WITH_EACH_METHOD
def test_a_bad_known_plan_does_no_harm(path, solver, name, extras, monkeypatch):
    """The plan that bounds what is worth finding is good; here it is the smallest tile."""
    for module in (bridge, slices):
        monkeypatch.setattr(module, "known_plan", lambda _problem: NpuPlan("KS", "OS", (1, 1, 1, 1)))
    slices._slices.cache_clear()
    outcome = solve(TINY[name], path, solver, extras=extras)
    slices._slices.cache_clear()
    assert outcome.status == "optimal"
    assert outcome.bound == enumerated(name)


@pytest.mark.by_day(8)
@pytest.mark.parametrize("name", TINY)
def test_bounds_below_the_objective(name):
    case, expected = TINY[name], enumerated(name)
    offset, unit = bridge.scale(case)
    if expected is not None:
        assert offset <= expected
        assert (expected - offset) % unit == 0
        assert best_bound(case).value <= expected
        assert objective(case, Plan((bridge.known_plan(case),))) >= expected


# Layers of real networks -----------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize("number", [0, 20, 53])
@WITH_EACH_METHOD
def test_layers_of_resnet50_are_proven(path, solver, number):
    case = read(catalogue.instance("tiling", "resnet50-nmp")).problem.parts[number].problem
    outcome = solve(case, path, solver)
    found = exhaustive(case, float("inf"))
    assert outcome.status == "optimal"
    assert objective(case, outcome.plan) == outcome.bound == found[0]


# Starts ----------------------------------------------------------------------------------------------------

STARTS = {
    "smallest tile": ("little memory", NpuPlan("KS", "OS", (1, 1, 1, 1))),
    "another partition": ("plain", NpuPlan("OFM", "OS", (2, 1, 1, 3))),
    "weight stationary": ("plain", NpuPlan("KS&OFM", "WS", (1, 2, 1, 2))),
    "input stationary": ("nearly everything", NpuPlan("OFM", "IS", (4, 1, 2, 2))),
    "all filters of a core": ("nearly everything", NpuPlan("KS", "OS", (9, 1, 2, 2))),
    "a loose tile": ("everything at once", NpuPlan("KS&OFM", "OS", (3, 9, 9, 4))),
    "depthwise": ("depthwise", NpuPlan("OFM", "WS", (1, 1, 2, 1))),
    "limited": ("schedule OS", NpuPlan("KS", "OS", (1, 1, 1, 2))),
}


@pytest.mark.by_day(4)
@with_and_without_extras(STARTS)
@WITH_EACH_METHOD
def test_start_arrives(path, solver, name, extras):
    """The solver says so itself; its first plan is no worse, whatever the model has for the start."""
    case, start = TINY[STARTS[name][0]], Plan((STARTS[name][1],))
    assert violation(case, start) is None
    plans = []
    # HiGHS only speaks of a start when its presolve has left something.
    options = {"presolve": "off"} if solver == "highs" else None
    outcome = solve(case, path, solver, extras=extras, options=options, start=start, on_plan=plans.append)
    assert outcome.warm_start is not None
    assert objective(case, plans[0]) <= objective(case, start)
    assert outcome.status == "optimal"
    assert outcome.bound == enumerated(STARTS[name][0])


@pytest.mark.by_day(1)
@WITH_EACH_METHOD
def test_start_that_breaks_a_limit_does_no_harm(path, solver):
    whole = Plan((NpuPlan("KS", "OS", (4, 3, 4, 5)),))
    for name in ("little memory", "schedule IS", "partition OFM"):
        assert violation(TINY[name], whole) is not None
        assert solve(TINY[name], path, solver, start=whole).bound == enumerated(name)


@WITH_EACH_METHOD
def test_known_bound_ends_the_search(path, solver):
    case = TINY["plain"]
    best = exhaustive(case, float("inf"))
    assert solve(case, path, solver, start=Plan(best.layers), bound=best.value).status == "optimal"


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name", TINY)
def test_plans_inside_the_space_are_no_worse(name):
    """Any valid plan becomes one of the space that is valid, costs no more, and stays what it is."""
    case, generator = TINY[name], random.Random(name)
    for _ in range(300):
        partition, schedule = generator.choice(PARTITIONS), generator.choice(SCHEDULES)
        sizes = cut_of(case.one_layer, case.machine, partition).sizes
        given = NpuPlan(partition, schedule, tuple(generator.randint(1, size) for size in sizes))
        if violation(case, Plan((given,))) is not None:
            continue
        inside = bridge.no_worse(case, given)
        assert violation(case, Plan((inside,))) is None
        assert objective(case, Plan((inside,))) <= objective(case, Plan((given,)))
        assert bridge.no_worse(case, inside) == inside


# What the formulations refuse ------------------------------------------------------------------------------


@WITH_EACH_METHOD
def test_other_machines_are_refused(path, solver):
    case = Problem.model_validate(
        {"layer": {"input": (2, 5, 5), "kernels": 2, "kernel": (3, 3)},
         "machine": {"kind": "dsp", "memory_bytes": 100}}
    )  # fmt: skip
    assert not catalogue.suits(catalogue.formulation("tiling", path.stem), case)
    with pytest.raises(InputError, match=r"machine\.kind"):
        bridge.data(case)


def test_numbers_that_minizinc_cannot_count_are_refused():
    with pytest.raises(InputError, match="counts to"):
        bridge.data(problem((9, 9, 9), input=(512, 200, 200), kernels=512, machine={"burst_ps": 10**6}))
    with pytest.raises(InputError, match="counts to"):
        sizes = dict.fromkeys(("input_bytes", "weights_bytes", "output_bytes"), 2**40)
        bridge.data(problem(input=(2048, 1500, 1500), machine=sizes))


# The models themselves -------------------------------------------------------------------------------------


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    "name",
    ["plain", "nearly everything", "four TLEs", "bursts above all", "depthwise", "weights of half a byte"],
)
def test_relaxation_is_whole(name):
    """The linear relaxation of the integer program has the optimum already, without its extras, too."""
    if not drivers.available("highs"):
        pytest.skip("highs is not installed")
    model = slices.build(TINY[name], extras=False)
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    pyo.SolverFactory("appsi_highs").solve(model)
    assert model.offset + model.unit * pyo.value(model.cost) == pytest.approx(enumerated(name), rel=1e-9)


@pytest.mark.parametrize(
    "name", ["plain", "groups and images", "depthwise", "elements of two bytes", "weights of half a byte"]
)
def test_slices_cost_what_their_plans_cost(name):
    case = TINY[name]
    offset, unit = bridge.scale(case)
    generator = np.random.default_rng(1)
    every = slices.slices(case, False)
    for number in generator.integers(len(every), size=60):
        one = every[number]
        j = int(generator.integers(len(one.n_steps)))
        i = int(generator.integers(one.fitting[j]))
        tile = (one.m_steps[i], one.n_steps[j], one.r, one.c)
        plan = Plan((NpuPlan(one.partition, one.schedule, tile),))
        assert violation(case, plan) is None
        assert objective(case, plan) == offset + unit * (one.cost + one.m_costs[i] + one.n_costs[j])
