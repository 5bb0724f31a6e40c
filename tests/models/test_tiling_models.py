"""Every formulation of tiling that needs a solver, found by listing the folder, with each that takes it."""

import importlib
import json
import random
import subprocess
from functools import cache
from itertools import permutations, product
from pathlib import Path

import pyomo.environ as pyo
import pytest
from conftest import THOROUGH, examples, thinned
from formulations import check_agreement, core_text, methods, need, solve, with_and_without_extras, with_each
from tests.oracles import dsp as oracle

import tilewright.models.tiling
from tilewright.core import catalogue
from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, best_bound, objective, violation
from tilewright.tiling.dsp import minizinc as bridge
from tilewright.tiling.dsp.exact import fewest_accesses
from tilewright.tiling.dsp.plan import SCHEDULES, DspPlan

FOLDER = Path(next(iter(tilewright.models.tiling.__path__)))
DSP = Problem.model_validate(
    {
        "layer": {"input": [1, 4, 4], "kernels": 1, "kernel": [1, 1]},
        "machine": {"kind": "dsp", "memory_bytes": 1024},
    }
)
# The models of all costs, which are for small layers, have tests of their own.
OF_ALL_COSTS = ("reference.dsp", "columns_tiles")
WITH_EACH_METHOD = with_each([(path, of) for path, of in methods(DSP) if path.stem not in OF_ALL_COSTS])


def problem(memory: int, schedule: str = "any", *, machine=(), **layer) -> Problem:
    """Build a layer with memory for so many elements; by default 2 images, 2 maps of 3x3 from 2 of 5x5."""
    plain = {"input": (2, 5, 5), "kernels": 2, "kernel": (3, 3), "batch": 2}
    fc = layer.get("kind") == "fc"
    return Problem.model_validate({
        "layer": layer if fc else {**plain, **layer},
        "machine": {"kind": "dsp", "memory_bytes": memory, "element_bytes": 1, "double_buffering": False,
                    **dict(machine)},
        "limits": {"schedule": schedule},
    })  # fmt: skip


def drawn(seed: int) -> Problem:
    """Draw a layer and a machine with widths of its operands, of which a tile or more fits."""
    generator = random.Random(seed)
    number = generator.randint
    groups, kernel = generator.choice([1, 1, 1, 2]), (number(1, 3), number(1, 2))
    maps, kernels, batch = number(1, 4), number(1, 4), number(1, 2)
    bits = {name: generator.choice([1, 3, 4, 6, 8, 16]) for name in ("input", "weights", "output")}
    bits["partial"] = bits["output"] + number(0, 24)
    double = generator.random() < 0.3
    window = kernel[0] * kernel[1]
    least = window * (bits["input"] + bits["weights"]) + bits["partial"]
    return problem(
        -(-(1 + double) * least * number(1, 7) // 8),
        generator.choice(["any", "any", "thesis", "oc"]),
        input=(groups * maps, *(size + number(0, 3) for size in kernel)),
        kernels=groups * kernels,
        kernel=kernel,
        stride=(number(1, 2), number(1, 2)),
        groups=groups,
        batch=batch,
        machine={"bits": bits, "double_buffering": double},
    )


FC = {"kind": "fc", "inputs": 5, "outputs": 3, "batch": 2}
TINY = {
    **{f"widths {seed}": drawn(seed) for seed in range(40 if THOROUGH else 6)},
    "sums that fit only when they are complete": problem(
        28, input=(2, 3, 3), kernel=(1, 1), machine={"bits": {"input": 4, "weights": 4, "partial": 128}}),
    "widths of whole bytes": problem(
        80, machine={"bits": {"input": 8, "weights": 16, "output": 8, "partial": 24}}),
    "smallest tile only": problem(19),
    "little memory": problem(30),
    "more memory": problem(60),
    "nearly everything": problem(150),
    "everything at once": problem(1000),
    **{f"schedule {name}": problem(48, name) for name in ("thesis", *SCHEDULES)},
    "all input maps in every tile": problem(50, "halide-idsp"),
    "all input maps in no tile": problem(34, "halide-idsp"),
    "double buffering": problem(96, machine={"double_buffering": True}),
    "double buffering, intra": problem(70, "intra", machine={"double_buffering": True}),
    "elements of two bytes": problem(81, machine={"element_bytes": 2}),
    "row": problem(30, input=(2, 3, 7), kernels=3),
    "stride": problem(40, input=(2, 7, 5), stride=(2, 1)),
    "stride beyond the kernel": problem(30, input=(2, 8, 5), kernel=(2, 2), stride=(3, 3)),
    "gaps between columns": problem(24, "oxyn/ox", input=(2, 5, 8), kernel=(2, 2), stride=(3, 3)),
    "gaps left out": problem(24, input=(2, 8, 5), kernel=(2, 2), stride=(3, 3), machine={"dma_step": True}),
    "pixels left out": problem(8, input=(3, 5, 7), kernel=(1, 1), stride=(2, 3), kernels=3, batch=1,
                               machine={"dma_step": True}),
    "padding and gaps left out": problem(26, input=(2, 6, 7), kernel=(2, 2), stride=(3, 4),
                                         padding=(1, 1, 1, 0),
                                         machine={"dma_step": True, "padding": "generated"}),
    "dilation left out": problem(22, input=(2, 9, 3), kernel=(2, 2), dilation=(2, 1), stride=(2, 1),
                                 machine={"dma_step": True}),
    "dilation": problem(60, input=(2, 7, 5), kernel=(2, 3), dilation=(2, 1), stride=(2, 1)),
    "dilation and stride": problem(30, input=(2, 9, 3), kernel=(2, 2), dilation=(1, 2), stride=(3, 1)),
    "groups": problem(40, input=(4, 5, 4), kernels=4, groups=2),
    "depthwise": problem(26, input=(3, 5, 5), kernels=3, groups=3),
    "padding loaded": problem(40, input=(2, 3, 3), padding=(1, 1, 1, 1)),
    "padding generated": problem(40, input=(2, 3, 3), padding=(1, 1, 1, 1), machine={"padding": "generated"}),
    "uneven padding": problem(40, "thesis", input=(2, 4, 3), padding=(2, 0, 0, 2), stride=(1, 2),
                              machine={"padding": "generated"}),
    "one pixel": problem(8, input=(3, 2, 2), kernel=(1, 1), kernels=3),
    "fully connected": problem(9, **FC),
    "fully connected, thesis": problem(7, "thesis", **FC),
    "fully connected, oc": problem(12, "oc", **FC),
    "partial sums too late": problem(16, "intra", kind="fc", inputs=5, outputs=1,
                                     machine={"double_buffering": True}),
    "partial sums in time": problem(8, "intra", kind="fc", inputs=5, outputs=1),
    "all input maps at once": problem(22, "intra", kind="fc", inputs=5, outputs=1,
                                      machine={"double_buffering": True}),
}  # fmt: skip


@cache
def enumerated(name: str) -> int | None:
    """Return the fewest accesses of all tiles, orders and ways of reuse, walked element by element."""
    return oracle.best(TINY[name].model_dump(mode="json"))


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", TINY)
def test_exhaustive_agrees_with_enumeration(name):
    case = TINY[name]
    found = fewest_accesses(bridge.nest_of_problem(case), case.limits.schedule)
    assert (None if found is None else found.value) == enumerated(name)


@pytest.mark.by_day(3)
@with_and_without_extras(TINY)
@WITH_EACH_METHOD
def test_agrees_with_enumeration(path, solver, name, extras):
    check_agreement(TINY[name], path, solver, extras, enumerated(name))


def published(network: str, limit: str) -> dict[str, Problem]:
    """Return the layers of a bundled network on the thesis's machine, eight images at a time."""
    table = {
        "network": catalogue.shared("networks", network),
        "machine": catalogue.shared("machines", "idsp"),
        "batch": 8,
        "limits": {"schedule": limit},
    }
    return dict(Problem.model_validate(table).parts)


@pytest.mark.parametrize("limit", ["any", "thesis"])
@pytest.mark.parametrize(
    ("network", "name"),
    thinned([("lenet5-clone", "conv2"), ("alexnet", "conv1"), ("lenet5-clone", "fc3"), ("alexnet", "conv2"),
             ("alexnet", "fc6"), ("alexnet", "conv3")], 2),
)  # fmt: skip
@pytest.mark.by_day(6)
@WITH_EACH_METHOD
def test_published_layers_are_proven(path, solver, network, name, limit):
    case = published(network, limit)[name]
    outcome = solve(case, path, solver, bound=best_bound(case).value)
    found = fewest_accesses(bridge.nest_of_problem(case), limit)
    assert found is not None
    assert outcome.status == "optimal"
    assert objective(case, outcome.plan) == outcome.bound == found.value


# Starts ----------------------------------------------------------------------------------------------------

STARTS = {
    "smallest tile": ("little memory", DspPlan((1, 1, 1, 1, 1, 1), "knxyc", "none")),
    "another order": ("more memory", DspPlan((1, 1, 2, 2, 3, 1), "yxnck", "tile")),
    "a halo along y": ("more memory", DspPlan((1, 1, 1, 1, 2, 2), "cknxy", "halo")),
    "several groups": ("groups", DspPlan((2, 1, 1, 1, 1, 1), "kcxny", "tile")),
    "a loose tile": ("everything at once", DspPlan((9, 9, 9, 2, 9, 9), "ncyxk", "none")),
    "of the thesis": ("schedule thesis", DspPlan((1, 1, 1, 2, 2, 1), "nyxkc", "tile")),
    "of the thesis, like another": ("schedule thesis", DspPlan((1, 2, 2, 1, 1, 1), "cknyx", "tile")),
    "gaps": ("stride beyond the kernel", DspPlan((1, 1, 1, 2, 1, 1), "ncyxk", "tile")),
    "fully connected": ("fully connected", DspPlan((1, 1, 1, 1, 1, 2), "kncyx", "tile")),
}  # fmt: skip


@pytest.mark.by_day(1)
@with_and_without_extras(STARTS)
@WITH_EACH_METHOD
def test_start_arrives(path, solver, name, extras):
    """The solver says so itself; its first plan is no worse, whatever the model has for the start."""
    case, layer = TINY[STARTS[name][0]], STARTS[name][1]
    assert violation(case, Plan((layer,))) is None
    plans = []
    # HiGHS only speaks of a start when its presolve has left something.
    options = {"presolve": "off"} if solver == "highs" else None
    outcome = solve(
        case, path, solver, extras=extras, options=options, start=Plan((layer,)), on_plan=plans.append
    )
    assert outcome.warm_start is not None
    assert objective(case, plans[0]) <= objective(case, Plan((layer,)))
    assert outcome.status == "optimal"
    assert outcome.bound == enumerated(STARTS[name][0])


@pytest.mark.by_day(1)
@WITH_EACH_METHOD
def test_start_that_breaks_a_limit_does_no_harm(path, solver):
    whole = Plan((DspPlan((1, 2, 2, 3, 3, 2), "ncyxk", "halo"),))
    for name in ("little memory", "schedule kc"):
        outcome = solve(TINY[name], path, solver, start=whole)
        assert outcome.bound == enumerated(name)


@pytest.mark.by_day(3)
@WITH_EACH_METHOD
def test_known_bound_ends_the_search(path, solver):
    """A plan that meets a bound from elsewhere is optimal without further proof."""
    case = published("alexnet", "any")["conv2"]
    found = fewest_accesses(bridge.nest_of_problem(case), "any")
    assert found is not None
    outcome = solve(case, path, solver, start=Plan((found.plan,)), bound=found.value)
    assert outcome.status == "optimal"


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", TINY)
def test_plans_inside_the_space_are_no_worse(name):
    """Any valid plan becomes one of the space that is valid, costs no more, and stays what it is."""
    case, generator = TINY[name], random.Random(name)
    nest = bridge.nest_of_problem(case)
    limit = case.limits.schedule
    several = [
        ("".join(order), reuse) for order in permutations("ncyxk") for reuse in ("none", "tile", "halo")
    ]
    names = {"thesis": tuple(SCHEDULES), "halide-idsp": ("intra",)}
    allowed = several if limit == "any" else [SCHEDULES[name] for name in names.get(limit, (limit,))]
    tried, known = 0, bridge.known_plan(case)  # where memory is short, few others are valid
    for _ in range(150):
        if tried == examples(150):
            break
        tile = tuple(generator.randint(1, size) for size in nest.sizes)
        given = DspPlan(tile, *generator.choice(allowed))  # type: ignore[arg-type]
        given, known = known or given, None
        if violation(case, Plan((given,))) is not None:
            continue
        tried += 1
        inside = bridge.no_worse(case, given)
        assert inside is not None
        assert violation(case, Plan((inside,))) is None
        assert objective(case, Plan((inside,))) <= objective(case, Plan((given,)))
        assert bridge.no_worse(case, inside) == inside
    assert tried or enumerated(name) is None


# What the formulations refuse ------------------------------------------------------------------------------


@pytest.mark.parametrize("minimise", ["cycles", "energy", "pareto"])
@WITH_EACH_METHOD
def test_other_objectives_are_refused(path, solver, minimise):
    case = TINY["little memory"].model_dump() | {"objective": {"minimise": minimise}}
    with pytest.raises(InputError, match=r"objective\.minimise.*exhaustive"):
        solve(Problem.model_validate(case), path, solver)


@pytest.mark.parametrize(
    ("limits", "field"),
    [({"schedule": "any+weights"}, r"limits\.schedule"), ({"at_most": {"accesses": 9}}, r"limits\.at_most")],
)
def test_weights_that_stay_and_limits_are_refused_in_minizinc(limits, field):
    case = TINY["little memory"].with_(limits=limits)
    with pytest.raises(InputError, match=field + ".*exhaustive"):
        solve(case, FOLDER / "loops.mzn", "gecode")


@WITH_EACH_METHOD
def test_other_machines_are_refused(path, solver):
    other = Problem.model_validate(
        {"layer": TINY["little memory"].one_layer.model_dump(), "machine": {"kind": "npu"}}
    )
    assert not catalogue.suits(catalogue.formulation("tiling", path.stem), other)


def test_numbers_that_minizinc_cannot_count_are_refused():
    layer = {"input": (65536, 512, 512), "kernels": 65536, "kernel": (3, 3)}
    case = problem(2**40, **layer)
    with pytest.raises(InputError, match="counts to"):
        bridge.data(case)


# The models themselves -------------------------------------------------------------------------------------


@pytest.mark.by_day(1)
@pytest.mark.parametrize("limit", ["any", "thesis"])
@pytest.mark.parametrize("name", ["conv2", "conv3", "fc6"])
def test_relaxation_is_whole(name, limit):
    """The linear relaxation of the integer program has the optimum already."""
    need("highs")
    tiles = importlib.import_module("tilewright.models.tiling.tiles")
    case = published("alexnet", limit)[name]
    model = tiles.build(case)
    pyo.TransformationFactory("core.relax_integer_vars").apply_to(model)
    pyo.SolverFactory("appsi_highs").solve(model)
    found = fewest_accesses(bridge.nest_of_problem(case), limit)
    assert found is not None
    assert model.offset + model.unit * pyo.value(model.cost) == pytest.approx(found.value, rel=1e-9)


@pytest.fixture
def run_checked(tmp_path):
    """Run a MiniZinc model with the room's checker; fixed decisions can be asked for."""
    need("gecode")

    def run(case: Problem, model: Path, *more: str, **changed) -> str:
        data = {
            **bridge.data(case),
            "start": [],
            "hint": False,
            "relax": 0,
            "below": bridge.LARGEST,
            **changed,
        }
        data["enough"] = {"set": sorted(data["enough"])}
        (tmp_path / "data.json").write_text(json.dumps(data))
        files = [FOLDER / "core.mzc.mzn", model, tmp_path / "data.json"]
        command = ["minizinc", "--solver", "gecode", *more, *files]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=600).stdout

    return run


@pytest.mark.parametrize(
    "name",
    ["more memory", "padding generated", "stride beyond the kernel", "schedule intra", "dilation",
     "widths of whole bytes"],
)  # fmt: skip
@pytest.mark.by_day(3)
def test_checker_accepts_what_is_right(name, run_checked):
    """Also each solution on the way, of which there are many without a good bound."""
    shown = run_checked(TINY[name], FOLDER / "loops.mzn", "-a", worst=10**6)
    assert shown.count("% CORRECT") >= 1
    assert "INCORRECT" not in shown
    assert "==========" in shown


WRONG = {
    "repetitions": ("1 + again[o, d] * (trips[d] - 1)", "1", "objective"),
    "innermost loop": ("max(d in depends_on[o])", "min(d in depends_on[o])", "objective"),
    "halos": ("place[d] = innermost[INPUT]", "true", "objective"),
    "memory": ("sum(held) <= room", "sum(held) <= 2 * room", "the buffers do not fit"),
    "sums": ("[width[OUTPUT], sum_width][1 + several[K]]", "width[OUTPUT]", "the buffers do not fit"),
    "geometry": (
        "side[d] = (step[d] - 1) * stride[d] + extent[d]",
        "side[d] = extent[d]",
        "the buffers do not fit",
    ),
}


@pytest.mark.by_day(6)
@pytest.mark.parametrize("name", WRONG)
def test_checker_refuses_what_is_wrong(name, run_checked, tmp_path):
    right, wrong, violation = WRONG[name]
    text = core_text(FOLDER)
    assert right in text
    (tmp_path / "core.mzn").write_text(text.replace(right, wrong))
    (tmp_path / "loops.mzn").write_text((FOLDER / "loops.mzn").read_text())
    options = ("-D", "mzn_ignore_redundant_constraints=true;mzn_ignore_symmetry_breaking_constraints=true")
    case = TINY["widths of whole bytes" if name == "sums" else "little memory"]
    shown = run_checked(case, tmp_path / "loops.mzn", *options, worst=10**6)
    assert f"INCORRECT: {violation}" in shown


def test_checker_refuses_partial_sums_that_come_too_late(run_checked, tmp_path):
    text = core_text(FOLDER)
    (tmp_path / "core.mzn").write_text(text.replace("(late /\\ not", "(false /\\ not"))
    (tmp_path / "loops.mzn").write_text((FOLDER / "loops.mzn").read_text())
    shown = run_checked(TINY["partial sums too late"], tmp_path / "loops.mzn")
    assert "INCORRECT: partial sums" in shown


def test_tiles_of_several_groups_move_as_much():
    """One group at a time is without loss: a larger tile of groups has the same accesses."""
    case = TINY["groups"].model_copy(update={"machine": TINY["everything at once"].machine})
    for order in ("ncyxk", "cknyx"):
        for inner in product((1, 2), (1, 2), (1, 3), (1, 2), (1, 2)):
            one, two = (Plan((DspPlan((g, *inner), order, "halo"),)) for g in (1, 2))
            assert objective(case, one) == objective(case, two)
