"""Random DSP problems and plans, and all plans of small ones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tilewright.spec.errors import InputError
from tilewright.tiling import Problem
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import LOOPS, ORDERED, REUSES, SCHEDULES, DspPlan


def make(layer: dict[str, Any], machine: dict[str, Any] | None = None, **rest: Any) -> Problem:
    """Build a DSP problem; by default with memory for everything, one MAC and one element a cycle."""
    base = {
        "kind": "dsp",
        "memory_bytes": 1 << 30,
        "macs_per_cycle": 1,
        "bus_elements_per_cycle": 1,
        "dma_setup_cycles": 0,
    }
    table = {"layer": layer, "machine": base | (machine or {})}
    if "schedule" in rest:
        table["limits"] = {"schedule": rest["schedule"]}
    if "minimise" in rest:
        table["objective"] = {"minimise": rest["minimise"]}
    return Problem.model_validate(table)


@st.composite
def widths(draw: Any) -> dict[str, int]:
    """Draw bits of each operand, no sums narrower than outputs."""
    found = {name: draw(st.sampled_from([1, 3, 4, 8, 16])) for name in ("input", "weights", "output")}
    return found | {"partial": found["output"] + draw(st.sampled_from([0, 5, 8, 24]))}


@st.composite
def problems(draw: Any, *, side: int = 8, channels: int = 3, tight: bool = False) -> Problem:
    """Draw a small layer on a machine that is slow enough for everything to matter."""
    number = lambda low, high: draw(st.integers(low, high))  # noqa: E731
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    kernel = number(1, 3), number(1, 3)
    dilation = number(1, 2), number(1, 2)
    reach = [d * (k - 1) + 1 for k, d in zip(kernel, dilation, strict=True)]
    layer = {
        "input": [
            groups * number(1, channels),
            number(reach[0], max(side, reach[0])),
            number(reach[1], max(side, reach[1])),
        ],
        "kernels": groups * number(1, channels),
        "kernel": list(kernel),
        "stride": [number(1, 3), number(1, 4)],
        "dilation": list(dilation),
        "padding": [number(0, reach[i // 2] - 1) for i in range(4)],
        "groups": groups,
        "batch": number(1, 2),
    }
    bits = draw(st.none() | widths())
    machine = ({} if bits is None else {"bits": bits}) | {
        "memory_bytes": number(60, 900) if tight else 1 << 20,
        "double_buffering": draw(st.booleans()),
        "padding": draw(st.sampled_from(["loaded", "generated"])),
        "dma_step": draw(st.booleans()),
        "bus_elements_per_cycle": draw(st.sampled_from([1, 2, 3])),
        "macs_per_cycle": draw(st.sampled_from([1, 3, 8])),
        "dma_setup_cycles": draw(st.sampled_from([0, 2, 11])),
        "register_file_bytes": draw(st.sampled_from([0, 200])),
    }
    minimise = draw(st.sampled_from(["accesses", "cycles", "energy"]))
    try:
        return make(layer, machine, minimise=minimise)
    except InputError:  # the smallest tile does not fit
        return make(layer, machine | {"memory_bytes": 4000}, minimise=minimise)


@st.composite
def plans(draw: Any, problem: Problem) -> DspPlan:
    """Draw any plan, valid or not, but for kinds of reuse that the limits do not allow."""
    sizes = nest_of(problem.one_layer, problem.machine).sizes
    tile = tuple(draw(st.integers(1, size + 1)) for size in sizes)
    order = "".join(draw(st.permutations(ORDERED)))
    return DspPlan(tile, order, draw(st.sampled_from(_reuses(problem.limits.schedule))))  # type: ignore[arg-type]


def _reuses(limit: str) -> tuple[str, ...]:
    """Return the kinds of reuse that a limit which names no single schedule allows."""
    return REUSES if limit == "any+weights" else REUSES[:3]


def with_plan(**options: Any) -> SearchStrategy[tuple[Problem, DspPlan]]:
    """Draw a problem and a plan; where accesses are minimised also one that keeps all weights."""

    def limits(problem: Problem) -> SearchStrategy[Problem]:
        given = ["any", "any+weights"] if problem.minimise == "accesses" else ["any"]
        return st.sampled_from(given).map(lambda limit: problem.with_(limits={"schedule": limit}))

    limited = problems(**options).flatmap(limits)
    return limited.flatmap(lambda problem: st.tuples(st.just(problem), plans(problem)))


def everything(problem: Problem, limit: str) -> Iterator[DspPlan]:
    """Enumerate all plans that are different: a tile for every number of iterations, every schedule."""
    nest = nest_of(problem.one_layer, problem.machine)
    allowed: list[tuple[str, str]]
    if limit in ("any", "any+weights"):
        allowed = [("".join(order), reuse) for order in permutations(ORDERED) for reuse in _reuses(limit)]
    else:
        names = {"thesis": tuple(SCHEDULES), "halide-idsp": ("intra",)}
        allowed = [SCHEDULES[name] for name in names.get(limit, (limit,))]
    for tile in product(*(sorted({-(-n // t) for t in range(1, n + 1)}) for n in nest.sizes)):
        trips = nest.trips(tile)
        seen = set()
        for order, reuse in allowed:
            key = "".join(loop for loop in order if trips[LOOPS.index(loop)] > 1) + reuse
            if key not in seen:
                seen.add(key)
                yield DspPlan(tile, order, reuse)  # type: ignore[arg-type]
