"""Every rule of the executor has a program that breaks exactly it; example 2 of the S1 paper by hand."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from conftest import make_problem, tells, totals

from tilewright.grouping import Plan, simulate
from tilewright.simulator import (
    Box,
    Cells,
    Compute,
    Engine,
    Free,
    LazySteps,
    Load,
    Memory,
    Program,
    Report,
    Step,
    Tensor,
    Violation,
    WriteBack,
    execute,
)

ALL = Box((None,))
ENGINES = (Engine("load", per_element=2), Engine("write", per_element=3), Engine("compute", setup=5))

ROW_BY_ROW = Plan((((0, 0), (0, 1)), ((0, 2), (1, 0)), ((1, 1), (1, 2)), ((2, 0), (2, 1)), ((2, 2),)))
ZIGZAG = Plan((((0, 0), (0, 1)), ((0, 2), (1, 2)), ((1, 1), (1, 0)), ((2, 0), (2, 1)), ((2, 2),)))


def part(first: int, last: int) -> Box:
    return Box(((first, last),))


def program(
    *steps: Step,
    capacity: int | None = None,
    max_loads: int | None = None,
    macs: int = 4,
    macs_per_action: int | None = None,
    preloaded: bool = False,
) -> Program:
    """Eight inputs x, three kernels k, four outputs y of four MACs each."""
    return Program(
        tensors=(
            Tensor("x", (8,), "input", max_loads=max_loads),
            Tensor("k", (3,), "kernels", max_loads=max_loads),
            Tensor("y", (4,), "output", macs_per_element=macs),
        ),
        memories=(Memory("mem", capacity),),
        engines=(*ENGINES[:2], replace(ENGINES[2], macs_per_action=macs_per_action)),
        steps=steps,
        preloaded=(("k", ALL),) if preloaded else (),
    )


def compute(first: int = 0, last: int = 4, macs: int = 4, reads: Box = ALL) -> Compute:
    return Compute("y", part(first, last), (("x", reads), ("k", ALL)), macs)


LOADS = (Load("x", ALL), Load("k", ALL))
FREES = (Free("x", ALL), Free("k", ALL))
WRITE = (WriteBack("y", ALL),)
GOOD = (Step(load=LOADS, compute=(compute(),), label="all"), Step(free=FREES, write_back=WRITE))


def broken(report: Report) -> Violation:
    assert not report.valid
    assert report.violation is not None
    assert report.sequential is None
    assert report.overlapped is None
    assert report.verdict().violation == str(report.violation)
    return report.violation


def test_a_good_program_is_counted() -> None:
    report = execute(program(*GOOD, capacity=15), overlapped=True)
    assert report.violation is None
    assert report.valid
    assert report.labels == ["all", ""]
    assert {name: list(counts) for name, counts in report.loaded.items()} == {
        "x": [8, 0],
        "k": [3, 0],
        "y": [0, 0],
    }
    assert list(report.freed["x"]) == [0, 8]
    assert list(report.written["y"]) == [0, 4]
    assert list(report.computed["y"]) == [4, 0]
    assert list(report.footprint["y"]) == [4, 0]
    assert list(report.macs) == [16, 0]
    assert report.transfers == 3
    assert report.n_steps == 1
    assert report.peak == 15
    assert report.most_loads == {"x": 1, "k": 1}
    assert report.sequential is not None
    assert report.sequential.cycles == 11 * 2 + 5 + 4 * 3
    assert list(report.step_cycles()) == [11 * 2 + 5, 4 * 3]
    assert report.per_step()[1] == {
        "step": 2,
        "label": "",
        "freed": {"x": 8, "k": 3},
        "written": {"y": 4},
        "loaded": {},
        "computed": {},
        "footprint": {},
        "serial_cycles": 12,
    }


@pytest.mark.parametrize(("plan", "footprint"), [(ROW_BY_ROW, 32), (ZIGZAG, 24)], ids=["row", "zigzag"])
def test_example_2(plan: Plan, footprint: int) -> None:
    """Input 2x5x5, two 3x3 kernels, two patches per step: the second step, element by element.

    The paper says 120 MACs per step, but by its own definition 13 and property 1 a patch takes 36, and 120
    would be three patches; 72 to 107 are two.
    """
    problem = make_problem(
        machine={"macs_per_step": 100, "load": 7, "write": 3, "compute": 11},
        objective={"minimise": "duration"},
    )
    assert problem.group_size == 2
    report = simulate(problem, plan, numeric=True)
    assert report.violation is None
    assert report.numeric is True
    assert report.footprint["input"][1] == footprint
    assert report.loaded["input"][1] == 12
    assert report.written["output"][1] == 4
    # The paper counts 6 and 2: pixels with both channels at once (remark 6).
    assert report.step_cycles()[1] == 12 * 7 + 4 * 3 + 11
    in_pixels = make_problem(
        machine={"macs_per_step": 100, "load": 7, "write": 3, "compute": 11},
        objective={"minimise": "duration", "count": "pixels"},
    )
    assert simulate(in_pixels, plan).step_cycles()[1] == 6 * 7 + 2 * 3 + 11


def test_example_2_frees_what_the_paper_frees() -> None:
    """F_2^Row has 4 elements, F_2^ZigZag 12; the first step loads P00 and P01, 24 elements."""
    for plan, freed in ((ROW_BY_ROW, 4), (ZIGZAG, 12)):
        report = simulate(make_problem(), plan)
        assert list(report.loaded["input"][:2]) == [24, 12]
        assert report.freed["input"][1] == freed
        assert report.peak == max(report.footprint["input"] + report.footprint["kernels"] + 4)
        assert report.footprint["kernels"][0] == 36
    # Row-by-Row's step 2: 24 held, 4 freed, 12 loaded; with 36 kernel elements and 4 outputs: 72.
    assert simulate(make_problem(), ROW_BY_ROW).peak == 72


# One rule, one program ---------------------------------------------------------------------------


def test_operand_not_resident() -> None:
    step = Step(load=(Load("x", part(0, 5)), Load("k", ALL)), compute=(compute(),))
    found = broken(execute(program(step, *GOOD[1:]), overlapped=True))
    assert (found.rule, found.step, found.tensor) == ("not resident", 1, "x[5]")
    assert found.needed == "on chip to compute y"
    assert str(found) == "not resident: step 1, x[5]: needed on chip to compute y, found it is not there"


def test_operand_freed_too_early() -> None:
    steps = (
        Step(load=LOADS, compute=(compute(0, 2),)),
        Step(free=(Free("x", part(3, 4)),), compute=(compute(2, 4),)),
        GOOD[1],
    )
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("not resident", 2, "x[3]")


@pytest.mark.parametrize("action", [Free("x", part(2, 4)), WriteBack("y", part(2, 4))])
def test_release_of_what_is_not_there(action: Free | WriteBack) -> None:
    kind = "free" if isinstance(action, Free) else "write_back"
    found = broken(execute(program(Step(**{kind: (action,)}))))
    assert (found.rule, found.step) == ("not resident", 1)
    assert found.tensor == f"{action.tensor}[2]"


def test_memory_overflow() -> None:
    assert execute(program(*GOOD, capacity=15)).valid
    found = broken(execute(program(*GOOD, capacity=14)))
    assert (found.rule, found.step, found.tensor) == ("memory overflow", 1, "mem")
    assert tells(found, "15 elements .. x 8 .. k 3 .. y 4 .. 14")
    found = broken(execute(program(*GOOD, capacity=9)))
    assert tells(found, "11 elements .. x 8 .. k 3 .. 9")


def test_preloaded_data_overflows_before_the_first_step() -> None:
    found = broken(execute(program(*GOOD, capacity=2, preloaded=True)))
    assert (found.rule, found.step, found.needed) == ("memory overflow", 0, "3 elements (k 3)")
    assert str(found).startswith("memory overflow: mem")


def test_loaded_twice() -> None:
    steps = (GOOD[0], Step(load=(Load("x", part(6, 8)),)), GOOD[1])
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("loaded twice", 2, "x[6]")


def test_reload_limit() -> None:
    again = Step(free=(Free("x", part(1, 3)),), load=(Load("x", part(1, 3)),))
    report = execute(program(GOOD[0], again, GOOD[1], max_loads=2))
    assert report.valid
    assert report.most_loads == {"x": 2, "k": 1}
    found = broken(execute(program(GOOD[0], again, again, GOOD[1], max_loads=2)))
    assert (found.rule, found.step, found.tensor) == ("reload limit", 3, "x[1]")
    assert tells(found, "2 loads .. 3")


def test_computed_twice() -> None:
    steps = (GOOD[0], Step(compute=(compute(2, 3),)), GOOD[1])
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("computed twice", 2, "y[2]")
    assert (found.needed, found.found) == ("4 MACs in all", "8")


def test_not_computed() -> None:
    steps = (
        replace(GOOD[0], compute=(compute(0, 3),)),
        replace(GOOD[1], write_back=(WriteBack("y", part(0, 3)),)),
    )
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("not computed", 2, "y[3]")
    assert (found.needed, found.found) == ("4 MACs", "0")


def test_half_computed() -> None:
    steps = (replace(GOOD[0], compute=(compute(0, 3), compute(3, 4, macs=1))), GOOD[1])
    found = broken(execute(program(*steps)))
    assert (found.rule, found.tensor, found.needed, found.found) == ("not computed", "y[3]", "4 MACs", "1")


def test_output_lost() -> None:
    steps = (GOOD[0], Step(free=(*FREES, Free("y", part(1, 2)))))
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("output lost", 2, "y[1]")


def test_not_written_back() -> None:
    steps = (GOOD[0], replace(GOOD[1], write_back=(WriteBack("y", part(0, 2)),)))
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor) == ("not written back", 2, "y[2]")


def test_memory_not_empty() -> None:
    steps = (GOOD[0], replace(GOOD[1], free=(Free("x", part(0, 7)), Free("k", ALL))))
    found = broken(execute(program(*steps)))
    assert (found.rule, found.step, found.tensor, found.found) == ("memory not empty", 2, "x", "1 elements")


def test_too_much_work() -> None:
    assert execute(program(*GOOD, macs_per_action=16)).valid
    found = broken(execute(program(*GOOD, macs_per_action=15)))
    assert (found.rule, found.step, found.tensor) == ("too much work", 1, "compute")
    assert tells(found, "15 MACs .. 16")


@pytest.mark.parametrize(
    "action",
    [
        Load("z", ALL),
        Free("z", ALL),
        WriteBack("z", ALL),
        Compute("z", ALL, (), 1),
        Compute("y", ALL, (("z", ALL),), 4),
    ],
    ids=lambda action: type(action).__name__,
)
def test_unknown_tensor(action: Free | Load | WriteBack | Compute) -> None:
    kind = {Load: "load", Free: "free", WriteBack: "write_back", Compute: "compute"}[type(action)]
    found = broken(execute(program(GOOD[0], Step(**{kind: (action,)}))))
    if isinstance(action, Compute) and action.tensor == "y":
        assert found.tensor == "z"
    assert (found.rule, found.step, found.tensor) == ("unknown tensor", 2, "z")


def test_unknown_preloaded_tensor() -> None:
    found = broken(execute(replace(program(*GOOD), preloaded=(("z", ALL),))))
    assert (found.rule, found.step, found.tensor) == ("unknown tensor", 0, "z")


@pytest.mark.parametrize(
    "region",
    [part(0, 9), part(-1, 4), part(5, 3), Box((None, None)), Box(()), Cells(2, np.array([0]))],
    ids=str,
)
def test_no_such_region(region: Box) -> None:
    found = broken(execute(program(Step(load=(Load("x", region),)))))
    assert (found.rule, found.step, found.tensor) == ("no such region", 1, "x")
    assert found.needed == "a region of [8]"


@pytest.mark.parametrize("positions", [[4], [-1], [0, 0], [1, 2, 1]], ids=str)
def test_no_such_cells(positions: list[int]) -> None:
    plane = Tensor("x", (3, 2, 2), "input")
    region = Cells(3, np.array(positions))
    steps = (Step(load=(Load("x", region),)), Step(free=(Free("x", region),)))
    found = broken(execute(Program((plane,), (Memory("mem"),), ENGINES, steps)))
    assert (found.rule, found.step, found.tensor) == ("no such region", 1, "x")


def test_nothing_to_load_in_dram() -> None:
    found = broken(execute(program(Step(load=(Load("y", part(1, 2)),)))))
    assert (found.rule, found.step, found.tensor) == ("not in DRAM", 1, "y[1]")


def test_the_first_violation_is_reported_and_nothing_after_it() -> None:
    report = execute(program(GOOD[0], Step(load=(Load("x", ALL),), label="here"), GOOD[1]))
    assert broken(report).step == 2
    assert report.labels == ["all", "here"]
    assert list(report.loaded["x"]) == [8, 0]


# Kernels that are there already ------------------------------------------------------------------


def test_preloaded_kernels_cost_nothing_but_take_room() -> None:
    steps = (replace(GOOD[0], load=LOADS[:1]), GOOD[1])
    report = execute(program(*steps, capacity=15, preloaded=True), overlapped=True)
    assert report.valid
    assert list(report.loaded["k"]) == [0, 0]
    assert list(report.footprint["k"]) == [3, 0]
    assert report.most_loads["k"] == 0
    assert report.sequential is not None
    assert report.overlapped is not None
    assert report.sequential.cycles == 8 * 2 + 5 + 4 * 3
    assert report.peak == report.sequential.peak == report.overlapped.peak == 15
    assert broken(execute(program(*steps, capacity=14, preloaded=True))).rule == "memory overflow"
    found = broken(execute(program(*GOOD, preloaded=True)))
    assert (found.rule, found.step, found.tensor) == ("loaded twice", 1, "k")
    kept = (steps[0], replace(GOOD[1], free=FREES[:1]))
    assert broken(execute(program(*kept, preloaded=True))).rule == "memory not empty"


# Boxes, partial sums, intermediates, two memories ------------------------------------------------


def box(*ranges: tuple[int, int] | None) -> Box:
    return Box(ranges)


def matmul(rows: tuple[int, int], inner: tuple[int, int]) -> Compute:
    """Rows of c += a[rows, inner] @ b[inner], as a matrix-multiply in two halves would do it."""

    def arithmetic(chip: dict[str, np.ndarray]) -> np.ndarray:
        return chip["a"][slice(*rows), slice(*inner)] @ chip["b"][slice(*inner)]

    return Compute(
        "c",
        box(rows, None),
        (("a", box(rows, inner)), ("b", box(inner, None))),
        inner[1] - inner[0],
        operation=arithmetic,
    )


def halves(*middle: Step) -> Program:
    """4x6 times 6x5 in two halves of the inner axis (the channels of a 1x1 convolution)."""
    tensors = (
        Tensor("a", (4, 6), "input", max_loads=1),
        Tensor("b", (6, 5), "kernels", max_loads=1),
        Tensor("c", (4, 5), "output", macs_per_element=6),
    )
    first, second, everything = (0, 2), (2, 6), (0, 4)
    steps = (
        Step(
            load=(Load("a", box(None, first)), Load("b", box(first, None))),
            compute=(matmul(everything, first),),
        ),
        *middle,
        Step(
            free=(Free("a", box(None, first)), Free("b", box(first, None))),
            load=(Load("a", box(None, second)), Load("b", box(second, None))),
            compute=(matmul((0, 3), second), matmul((3, 4), second)),
        ),
        Step(
            free=(Free("a", box(None, second)), Free("b", box(second, None))),
            write_back=(WriteBack("c", box(None, None)),),
        ),
    )
    return Program(tensors, (Memory("mem", 4 * 4 + 4 * 5 + 20),), ENGINES, steps)


def factors() -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    a, b = rng.integers(-9, 9, (4, 6)), rng.integers(-9, 9, (6, 5))
    return {"a": a, "b": b}, {"c": a @ b}


def test_partial_sums_stay_on_chip() -> None:
    data, expected = factors()
    report = execute(halves(), overlapped=True, data=data, expected=expected)
    assert report.violation is None
    assert report.numeric is True
    assert list(report.macs) == [4 * 5 * 2, 4 * 5 * 4, 0]
    assert list(report.loaded["a"]) == [8, 16, 0]
    assert list(report.footprint["c"]) == [20, 20, 0]
    assert report.peak == 56
    wrong = execute(halves(), data=data, expected={"c": expected["c"] + 1})
    assert wrong.numeric is False
    assert wrong.violation is None
    assert not wrong.valid


def test_partial_sums_may_take_the_way_through_dram() -> None:
    data, expected = factors()
    spill = Step(write_back=(WriteBack("c", box((0, 2), None)),), load=(Load("c", box((0, 2), None)),))
    report = execute(halves(spill), data=data, expected=expected)
    assert report.violation is None
    assert report.numeric is True
    assert report.written["c"].sum() == 30
    assert report.loaded["c"].sum() == 10


def test_partial_sums_left_in_dram_are_not_added_to() -> None:
    """MACs alone would add up; the sum on chip would lack its first half."""
    spill = Step(write_back=(WriteBack("c", box((1, 2), None)),))
    found = broken(execute(halves(spill)))
    assert (found.rule, found.step, found.tensor) == ("not resident", 3, "c[1]")
    assert tells(found.needed, "partial sum")


def test_partial_sums_lost() -> None:
    found = broken(execute(halves(Step(free=(Free("c", box((1, 2), None)),)))))
    assert (found.rule, found.step, found.tensor) == ("output lost", 2, "c[1]")


def chain(*, capacity: int | None = None, order: str = "uuv", buffer: str = "mem") -> Program:
    """x -> u (an intermediate in two halves of its MACs) -> v."""

    def double(chip: dict[str, np.ndarray]) -> np.ndarray:
        return 2 * chip["x"]

    def negate(chip: dict[str, np.ndarray]) -> np.ndarray:
        return -chip["u"]

    whole = box(None)
    computes = {
        "u": Compute("u", whole, (("x", whole),), 1, operation=double),
        "v": Compute("v", whole, (("u", whole),), 3, operation=negate),
    }
    tensors = (
        Tensor("x", (8,), "input"),
        Tensor("u", (8,), "intermediate", memory=buffer, macs_per_element=2),
        Tensor("v", (8,), "output", macs_per_element=3),
    )
    steps = (
        Step(load=(Load("x", whole),), compute=tuple(computes[name] for name in order)),
        Step(free=(Free("x", whole), Free("u", whole)), write_back=(WriteBack("v", whole),)),
    )
    memories = (Memory("mem", capacity), *((Memory(buffer, 8),) if buffer != "mem" else ()))
    return Program(tensors, memories, ENGINES, steps)


def test_intermediates_never_touch_dram() -> None:
    data = {"x": np.arange(8)}
    report = execute(chain(capacity=24), overlapped=True, data=data, expected={"v": -4 * np.arange(8)})
    assert report.violation is None
    assert report.numeric is True
    assert report.loaded["u"].sum() == report.written["u"].sum() == 0
    assert list(report.footprint["u"]) == [8, 0]
    assert list(report.freed["u"]) == [0, 8]
    assert report.most_loads == {"x": 1}
    assert broken(execute(chain(capacity=23))).rule == "memory overflow"


def test_an_intermediate_is_not_read_before_it_is_complete() -> None:
    found = broken(execute(chain(order="uvu")))
    assert (found.rule, found.step, found.tensor) == ("not computed", 1, "u")
    assert found.needed == "2 MACs to compute v"
    assert broken(execute(chain(order="uv"))).rule == "not computed"
    assert broken(execute(chain(order="v"))).rule == "not resident"


def halo(*between: Step, recomputed: bool = True, role: str = "intermediate") -> Program:
    """Two tiles: v's halves need x + x of three cells of u each, of which the middle ones are common."""

    def tile(first: int) -> tuple[Compute, ...]:
        mine, under = slice(first, first + 2), slice(first, first + 3)
        half = Compute(
            "u",
            part(first, first + 3),
            (("x", part(first, first + 3)),),
            1,
            operation=lambda chip: chip["x"][under],
        )
        whole = Compute(
            "v",
            part(first, first + 2),
            (("u", part(first, first + 3)),),
            2,
            operation=lambda chip: chip["u"][mine] + chip["u"][first + 1 : first + 3],
        )
        return half, half, whole

    tensors = (
        Tensor("x", (5,), "input"),
        Tensor("u", (5,), role, macs_per_element=2, recomputed=recomputed),
        Tensor("v", (4,), "output", macs_per_element=2),
    )
    steps = (
        Step(load=(Load("x", ALL),), compute=tile(0)),
        *(between or (Step(free=(Free("u", part(0, 3)),)),)),
        Step(compute=tile(2)),
        Step((Free("u", part(2, 5)), Free("x", ALL)), (WriteBack("v", ALL),)),
    )
    return Program(tensors, (Memory("mem"),), ENGINES, steps)


def test_a_halo_is_computed_again() -> None:
    data = {"x": np.arange(5) ** 2}
    expected = {"v": 2 * (data["x"][:-1] + data["x"][1:])}
    report = execute(halo(), overlapped=True, lockstep=True, data=data, expected=expected)
    assert report.violation is None
    assert report.numeric is True
    assert report.computed["u"].tolist() == [6, 0, 6, 0]
    assert report.macs.sum() == 2 * 6 + 2 * 4
    found = broken(execute(halo(recomputed=False), overlapped=True))
    assert (found.rule, found.step, found.tensor) == ("computed twice", 3, "u[2]")
    assert (found.needed, found.found) == ("2 MACs in all", "3")


def test_what_is_computed_again_is_complete_before_it_is_read() -> None:
    program = halo()
    steps = list(program.steps)
    steps[2] = replace(steps[2], compute=steps[2].compute[1:])
    found = broken(execute(replace(program, steps=tuple(steps))))
    assert (found.rule, found.step, found.tensor) == ("not computed", 3, "u[2]")
    assert tells(found.needed, "2 MACs", "v")


def test_what_is_still_on_chip_is_not_computed_again() -> None:
    found = broken(execute(halo(Step(free=(Free("u", part(0, 2)),)))))
    assert (found.rule, found.step, found.tensor) == ("computed twice", 3, "u[2]")
    assert (found.needed, found.found) == ("2 MACs in all", "3")


def test_what_dram_keeps_is_not_computed_again() -> None:
    """Neither is lost: what was written back, nor its copy on chip that is freed."""
    away = Step(write_back=(WriteBack("u", part(0, 3)),))
    back = Step(load=(Load("u", part(0, 3)),))
    loads = Step(load=(Load("u", part(2, 3)),)), Step(free=(Free("u", part(2, 3)),))
    for between in ((away,), (away, *loads), (away, back, Step(free=(Free("u", part(0, 3)),)), *loads[:1])):
        assert str(broken(execute(halo(*between)))).startswith("computed twice: step")


def test_a_copy_of_what_dram_keeps_is_complete_when_it_is_loaded_again() -> None:
    program = halo()
    first, _, second, last = program.steps
    *made, read = first.compute
    rest = tuple(replace(compute, region=part(3, 5), operation=None) for compute in second.compute[:2])
    away, gone = Step(write_back=(WriteBack("u", part(0, 3)),)), Step(free=(Free("u", part(0, 3)),))
    there = Step(load=(Load("u", part(0, 3)),))
    steps = (
        replace(first, compute=tuple(made)),
        *(away, there, gone, there),
        Step(compute=(read, *rest, second.compute[2])),
        replace(last, free=(Free("u", ALL), Free("x", ALL))),
    )
    assert execute(replace(program, steps=steps)).valid


def test_a_lost_partial_sum_is_begun_anew() -> None:
    program = halo()
    first, *rest = program.steps
    begun = Step(load=first.load, compute=first.compute[:1])
    lost = Step(free=(Free("u", part(0, 3)),), compute=first.compute)
    data = {"x": np.arange(5) ** 2}
    expected = {"v": 2 * (data["x"][:-1] + data["x"][1:])}
    report = execute(replace(program, steps=(begun, lost, *rest)), data=data, expected=expected)
    assert report.violation is None
    assert report.numeric is True


def test_what_was_lost_need_not_be_complete_in_the_end() -> None:
    program = halo()
    more = Step(load=(Load("x", ALL),), compute=program.steps[0].compute[:1])
    steps = (*program.steps, more, Step((Free("x", ALL), Free("u", part(0, 3)))))
    assert execute(replace(program, steps=steps)).valid
    left = broken(execute(replace(program, steps=(*steps[:-1], Step((Free("x", ALL),))))))
    assert (left.rule, left.tensor, left.found) == ("memory not empty", "u", "3 elements")


@pytest.mark.parametrize("role", ["input", "kernels", "output"])
def test_only_intermediates_are_recomputed(role: str) -> None:
    with pytest.raises(ValueError, match=f"u .* {role}"):
        execute(halo(role=role))
    assert broken(execute(halo(role=role, recomputed=False)))


def test_two_memories_have_a_capacity_each() -> None:
    report = execute(chain(capacity=16, buffer="scratch"), overlapped=True)
    assert report.valid
    assert report.peak == 24
    found = broken(execute(chain(capacity=15, buffer="scratch")))
    assert tells(found, "memory overflow .. mem .. 16 elements .. x 8 .. v 8")
    small = chain(capacity=16, buffer="scratch")
    small = replace(small, memories=(small.memories[0], Memory("scratch", 7)))
    found = broken(execute(small))
    assert tells(found, "memory overflow .. scratch .. 8 elements .. u 8")


def test_boxes_and_cells_of_one_tensor_see_each_other() -> None:
    tensor = Tensor("x", (2, 3, 4, 5), "input")
    steps = (
        Step(load=(Load("x", Cells(4, np.array([0, 7, 19]))),)),
        Step(load=(Load("x", Box((None, (0, 1), (3, 4), (0, 4)))),)),
        Step(load=(Load("x", Box((None, (2, 3), (1, 2), (2, 4)))),)),
    )
    report = execute(Program((tensor,), (Memory("mem"),), ENGINES, steps))
    assert list(report.footprint["x"][:2]) == [18, 18 + 8]
    found = broken(report)
    # Position 7 of a plane of 4x5 is row 1, column 2; the axis of the images is never cut, so not named.
    assert (found.rule, found.step, found.tensor) == ("loaded twice", 3, "x[2, 1, 2]")


def test_data_of_a_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        execute(program(*GOOD), data={"x": np.zeros(7, dtype=np.int64)})


def test_numeric_mode_needs_arithmetic() -> None:
    with pytest.raises(ValueError, match="arithmetic"):
        execute(program(*GOOD), data={"x": np.zeros(8, dtype=np.int64)})


# Buffers -----------------------------------------------------------------------------------------


def buffered(x: int | None, y: int | None, capacity: int | None, copies: int = 1) -> Program:
    """Two steps, each of which loads half of x and computes half of y; k is not in a buffer."""
    half = [(part(0, 4), part(0, 2)), (part(4, 8), part(2, 4))]
    made = [Compute("y", out, (("x", into), ("k", ALL)), 4) for into, out in half]
    steps = (
        Step(load=(Load("x", half[0][0]), Load("k", ALL)), compute=(made[0],)),
        Step((Free("x", half[0][0]),), (WriteBack("y", half[0][1]),), (Load("x", half[1][0]),), (made[1],)),
        Step((Free("x", half[1][0]), Free("k", ALL)), (WriteBack("y", half[1][1]),)),
    )
    found = program(*steps, capacity=capacity)
    tensors = [replace(t, buffer={"x": x, "y": y}.get(t.name)) for t in found.tensors]
    return replace(found, tensors=tuple(tensors), copies=copies)


def test_a_buffer_is_counted_instead_of_what_is_resident() -> None:
    report = execute(buffered(5, 2, 2 * 5 + 2 * 2 + 3, copies=2), overlapped=True)
    assert report.valid
    assert list(report.footprint["x"]) == [10, 10, 10]
    assert list(report.footprint["y"]) == [4, 4, 4]
    assert list(report.footprint["k"]) == [3, 3, 0]
    assert report.sequential is not None
    assert report.overlapped is not None
    assert report.peak == report.sequential.peak == report.overlapped.peak == 17
    found = broken(execute(buffered(5, 2, 2 * 5 + 2 * 2 + 2, copies=2)))
    assert (found.rule, found.step, found.tensor) == ("memory overflow", 1, "mem")
    assert tells(found, "17 elements .. x 2 * 5 .. k 3 .. y 2 * 2 .. 16")


def test_buffers_that_do_not_fit_are_a_violation_before_the_first_step() -> None:
    report = execute(buffered(5, 2, 13, copies=2))
    found = broken(report)
    assert (found.rule, found.step, found.tensor) == ("memory overflow", 0, "mem")
    assert tells(found, "14 elements .. x 2 * 5 .. y 2 * 2 .. 13")
    assert report.labels == []
    assert execute(buffered(4, 2, 9)).valid


def test_buffer_overflow() -> None:
    found = broken(execute(buffered(3, 2, None, copies=2)))
    assert (found.rule, found.step, found.tensor) == ("buffer overflow", 1, "x")
    assert (found.needed, found.found) == ("4 elements", "a buffer of 3")
    found = broken(execute(buffered(4, 1, None)))
    assert (found.rule, found.step, found.tensor) == ("buffer overflow", 1, "y")
    assert (found.needed, found.found) == ("2 elements", "a buffer of 1")


def test_buffers_in_two_memories() -> None:
    found = buffered(4, 2, 7)
    tensors = tuple(replace(t, memory="other") if t.name == "y" else t for t in found.tensors)
    assert execute(replace(found, tensors=tensors, memories=(Memory("mem", 7), Memory("other", 2)))).valid
    small = execute(replace(found, tensors=tensors, memories=(Memory("mem", 7), Memory("other", 1))))
    assert tells(broken(small), "memory overflow .. other .. 2 elements .. y 1 * 2 .. 1")


# Long programs -----------------------------------------------------------------------------------


def test_steps_that_are_made_anew_each_time() -> None:
    calls = []

    def make() -> Iterator[Step]:
        calls.append(1)
        return iter(GOOD)

    lazy = LazySteps(2, make)
    assert list(lazy) == list(GOOD)
    assert (lazy[0], lazy[-1], lazy[:1], lazy[::-1], lazy[5:]) == (*GOOD, GOOD[:1], GOOD[::-1], ())
    with pytest.raises(IndexError):
        lazy[2]
    calls.clear()
    report = execute(replace(program(*GOOD), steps=lazy), lockstep=True, overlapped=True)
    assert len(calls) == 1
    assert totals(report) == totals(execute(program(*GOOD), lockstep=True, overlapped=True))


def test_memory_does_not_grow_with_the_size_of_tensors() -> None:
    """A matrix of 10^12 elements in two by two tiles; each is a cell."""
    n = 10**6
    half = [(0, n // 2), (n // 2, n)]
    tensors = (Tensor("a", (n, n), "input"), Tensor("y", (n, n), "output", macs_per_element=1))
    steps = [Step(load=(Load("a", box(half[0], None)), Load("a", box(half[1], half[0]))))]
    for rows, cols in ((0, 0), (0, 1), (1, 0), (1, 1)):
        tile = box(half[rows], half[cols])
        load = (Load("a", tile),) if rows and cols else ()
        steps.append(Step(load=load, compute=(Compute("y", tile, (("a", tile),), 1),)))
    steps.append(Step((Free("a", box(None, None)),), (WriteBack("y", box(None, None)),)))
    tracemalloc.start()
    report = execute(Program(tensors, (Memory("mem"),), ENGINES, tuple(steps)))
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert report.valid
    assert report.peak == 2 * n * n
    assert report.macs.sum() == n * n
    assert most < 5_000_000
    again = Step(load=(Load("a", box(half[1], None)),))
    found = broken(execute(Program(tensors, (Memory("mem"),), ENGINES, (steps[0], again))))
    assert (found.rule, found.step, found.tensor) == ("loaded twice", 2, "a[500000, 0]")


def test_the_callers_data_stays_as_it_is() -> None:
    data, expected = factors()
    data["c"] = np.zeros((4, 5), dtype=np.int64)
    report = execute(halves(), data=data, expected=expected)
    assert report.numeric is True
    assert not data["c"].any()
