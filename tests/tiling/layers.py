"""Random DSP problems and plans, and a walk over every tile that knows no closed form."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tilewright.spec.errors import InputError
from tilewright.tiling import Problem
from tilewright.tiling.dsp.kind import nest_of
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


def unit_widths(problem: Problem) -> dict[str, int]:
    """Return what elements take in the unit of a problem's accesses: one each, or their bits."""
    names = ("input", "weights", "output", "partial")
    bits = problem.machine.bits
    return {name: 1 if bits is None else getattr(bits, name) for name in names}


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


@dataclass(frozen=True)
class Tile:
    """What happens around one tile: elements or bits of each load and of the write-back before them."""

    loads: list[int]
    writes: list[int]
    macs: int


def walk(problem: Problem, plan: DspPlan) -> Iterator[Tile]:
    """Go through every tile, keeping sets of what is on chip; the last entry only writes back."""
    layer = problem.one_layer
    generated = problem.machine.padding == "generated"
    sizes = (
        layer.groups,
        layer.batch,
        layer.kernels // layer.groups,
        *layer.output_plane,
        layer.input[0] // layer.groups,
    )
    steps = []
    for size, limit in zip(sizes, plan.tile, strict=True):
        trips = min(t for t in range(1, size + 1) if -(-size // t) <= limit)
        steps.append(min(s for s in range(1, size + 1) if -(-size // s) == trips))

    def box(axis: int, first: int, last: int) -> range:
        start = first * layer.stride[axis]
        stop = (last - 1) * layer.stride[axis] + layer.kernel_extent[axis]
        if generated:
            before = layer.padding[2 * axis]
            start, stop = max(start, before), min(stop, before + layer.input[1 + axis])
        return range(start, stop)

    def met(axis: int, position: int) -> bool:
        """Whether a window of the layer, or of one with a larger plane, has a kernel row at a position."""
        taps = range(layer.kernel[axis])
        return any((position - tap * layer.dilation[axis]) % layer.stride[axis] == 0 for tap in taps)

    def skips(axis: int) -> bool:
        """Whether transfers leave gaps out: not where the window of an output would have nothing to load."""
        windows = [box(axis, y, y + 1) for y in range(layer.output_plane[axis])]
        return problem.machine.dma_step and all(any(met(axis, p) for p in window) for window in windows)

    skipping = [skips(0), skips(1)]

    def positions(axis: int, first: int, last: int) -> list[int]:
        return [p for p in box(axis, first, last) if not skipping[axis] or met(axis, p)]

    names = "g" + plan.order
    starts = {loop: range(0, size, step) for loop, size, step in zip(LOOPS, sizes, steps, strict=True)}
    moving = [loop for loop in names if loop in "gnyxk" and len(starts[loop]) > 1]
    halo = moving[-1] if plan.reuse in ("halo", "weights") and moving and moving[-1] in "yx" else None
    held: dict[str, Any] = {}
    summed: dict[Any, int] = {}
    width = unit_widths(problem)

    def stored(output: Any) -> int:
        return width["output" if summed[output] == sizes[5] else "partial"]

    for firsts in product(*(starts[loop] for loop in names)):
        at = dict(zip(names, firsts, strict=True))
        span = {
            loop: (at[loop], min(at[loop] + step, size))
            for loop, size, step in zip(LOOPS, sizes, steps, strict=True)
        }
        length = {loop: last - first for loop, (first, last) in span.items()}
        rows, columns = positions(0, *span["y"]), positions(1, *span["x"])
        loads, writes = [], []
        need = {loop: span[loop] for loop in "gnyxk"}
        if plan.reuse == "none" or held.get("input") != need:
            window = {"y": rows, "x": columns}
            before = held.get("input")
            if halo and before is not None:
                changed = [loop for loop in "gnyxk" if before[loop] != need[loop]]
                if changed == [halo] and span[halo][0] == before[halo][1]:
                    old = positions("yx".index(halo), *before[halo])
                    window[halo] = [p for p in window[halo] if p not in old]  # type: ignore[assignment]
            plane = len(window["y"]) * len(window["x"])
            loads.append(length["g"] * length["n"] * length["k"] * plane * width["input"])
            held["input"] = need
        weights = {loop: span[loop] for loop in ("g" if plan.reuse == "weights" else "gck")}
        if plan.reuse == "none" or held.get("kernels") != weights:
            pairs = sizes[2] * sizes[5] if plan.reuse == "weights" else length["c"] * length["k"]
            loads.append(length["g"] * pairs * layer.kernel[0] * layer.kernel[1] * width["weights"])
            held["kernels"] = weights
        output = tuple(span[loop] for loop in "gncyx")
        size = length["g"] * length["n"] * length["c"] * length["y"] * length["x"]
        if plan.reuse == "none" or held.get("output") != output:
            if "output" in held:
                writes.append(held["size"] * stored(held["output"]))
            if output in summed:
                loads.append(size * width["partial"])
        held["output"], held["size"] = output, size
        summed[output] = summed.get(output, 0) + length["k"]
        yield Tile(
            [load for load in loads if load], writes, size * length["k"] * layer.kernel[0] * layer.kernel[1]
        )
    yield Tile([], [held["size"] * stored(held["output"])], 0)


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
