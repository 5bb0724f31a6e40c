"""The reference model of a DSP and MiniZinc: a layer's sizes and a machine's figures, and plans back."""

from __future__ import annotations

from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any, NamedTuple

from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms
from tilewright.tiling.dsp.compute import cost_of_tile, fits, kinds_of_tiles, loop_of, loops_worth_trying
from tilewright.tiling.dsp.exact import local_traffic
from tilewright.tiling.dsp.inner_loop import InnerLoop
from tilewright.tiling.dsp.nest import Nest, nest_of
from tilewright.tiling.dsp.plan import LOOPS, ORDERED, DspPlan, DspTile
from tilewright.tiling.dsp.vocabulary import AXES
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term", "why_not"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""

MOST_TILES = 400
"""Most tiles that the loops of a layer can have, each of which has variables of its own."""

MOST_ROWS = 20_000
"""Most rows of the table of inner loops, on a machine with a vector unit."""

COSTS = ("accesses", "cycles", "energy")
REUSES = ("halo", "tile", "none", "weights")
"""In the order of the model's enumerations."""

LETTERS = dict(zip(AXES, LOOPS.upper(), strict=True))
BUFFERS = {"input": "input_buffer", "weights": "weights_buffer", "output": "output_buffer"}


def why_not(problem: Problem) -> str | None:
    """Say why the model does not take a layer, or None."""
    if problem.traded:
        return "objective: the model minimises one cost"
    nest = _nest(problem)
    if (tiles := prod(nest.sizes)) > MOST_TILES:
        return f"the layer has {tiles:,} smallest tiles, the model takes {MOST_TILES}"
    if (rows := len(_lookup(nest))) > MOST_ROWS:
        return f"the inner loops of all tiles have a table of {rows:,} rows, the model takes {MOST_ROWS:,}"
    accesses, cycles, energy = _largest(problem)
    speaks = any(term.word == "energy" for part in problem.must_hold for term in terms(part))
    if (most := max(accesses, cycles, energy * (_prices(nest).unit if speaks else 1))) > LARGEST:
        return f"numbers up to {most:,} may occur, the solvers of MiniZinc count to {LARGEST:,}"
    return None


def _nest(problem: Problem) -> Nest:
    assert problem.machine.kind == "dsp"
    return nest_of(problem.one_layer, problem.machine)


def _largest(problem: Problem) -> tuple[int, int, int]:
    """Return what no plan exceeds, as though all tiles were the smallest and each brought all anew.

    Accesses, cycles, and energy in the unit of its prices; 0 where that is not counted.
    """
    nest = _nest(problem)
    machine, units = nest.machine, nest.machine.units
    tiles = prod(nest.sizes)
    # Of a large stride the rows between two windows are those of one of them.
    plane = prod(max(lines.extent, lines.stride) for lines in nest.lines)
    accesses = tiles * (plane * units.input + nest.window * units.kernels + 2 * units.partial)
    local = local_traffic(nest)
    streamed = local + tiles * gcd(*units)
    compute = nest.macs
    if machine.vector_unit is not None:
        *_, took, moved = map(max, zip(*_lookup(nest), strict=True))
        compute, streamed = tiles * took, tiles * moved
    cycles = compute + accesses + streamed + (4 * tiles + 3) * machine.dma_setup_cycles
    energy = _prices(nest).largest(accesses, cycles, streamed) if _counts_energy(problem) else 0
    return accesses, cycles, energy


class _Prices(NamedTuple):
    """Prices of energy in a unit that divides all of them, where that is exact.

    Attributes
    ----------
    unit
        Femtojoules.
    core
        Of a busy cycle.
    external, local
        Price, and of how many units of traffic that is the price.
    """

    unit: int
    core: int
    external: tuple[int, int]
    local: tuple[int, int]

    def largest(self, accesses: int, cycles: int, streamed: int) -> int:
        """Return the largest number on the way to energies of up to some traffic and cycles."""
        traffic = accesses * self.external[0] + self.external[1] + streamed * self.local[0] + self.local[1]
        return self.core * cycles + traffic


def _prices(nest: Nest) -> _Prices:
    price, bits = nest.machine.energy, nest.machine.unit_bits

    def reduced(fj: int, width: int) -> tuple[int, int]:
        common = gcd(bits * fj, 8 * width)
        return bits * fj // common, 8 * width // common

    external = reduced(price.dram_fj_per_access, price.dram_access_bytes)
    local = reduced(price.local_fj_per_access, price.local_access_bytes)
    local = local if local_traffic(nest) or nest.machine.vector_unit is not None else (0, 1)
    core = price.core_fj_per_cycle
    unit = gcd(core, external[0], local[0]) if external[1] == local[1] == 1 else 1
    unit = max(unit, 1)
    return _Prices(unit, core // unit, (external[0] // unit, external[1]), (local[0] // unit, local[1]))


@lru_cache(maxsize=8)
def _loops(nest: Nest) -> tuple[InnerLoop, ...]:
    """Return the inner loops of all tiles: of those that cost the same on every tile of a plan, one."""
    if nest.machine.vector_unit is None:
        return ()
    steps = product(*(steps.tolist() for steps in nest.steps))
    found = (option.loop for step in steps for option in loops_worth_trying(nest, step, every=True))
    return tuple(dict.fromkeys(found))


@lru_cache(maxsize=8)
def _lookup(nest: Nest) -> tuple[tuple[int, ...], ...]:
    """Return what inner loops take for tiles: loop, sizes, first and last, cycles, units.

    Without a vector unit it is one row, which nobody reads.
    """
    steps = product(*(steps.tolist() for steps in nest.steps))
    kinds = {kind[:3]: None for step in steps for kind in kinds_of_tiles(nest, step)}
    rows = [
        (number, *sizes, int(first), int(last), *cost_of_tile(nest, loop, sizes, first, last))
        for number, loop in enumerate(_loops(nest), start=1)
        for sizes, first, last in kinds
        if fits(nest, loop, sizes)
    ]
    return tuple(rows) or ((1,) * 6 + (0,) * 5,)


def _counts_energy(problem: Problem) -> bool:
    words = {term.word for part in problem.must_hold for term in terms(part)}
    return "energy" in (problem.minimise, *problem.limits.at_most.given, *words)


def size(problem: Problem) -> int:
    """Return about how many constraints the model gives: some for each tile."""
    return 100 * prod(_nest(problem).sizes)


def scale(problem: Problem) -> tuple[int, int]:
    """Return (0, unit): a plan costs ``unit * objective``, the unit of energy being what prices divide by."""
    return 0, _prices(_nest(problem)).unit if problem.minimise == "energy" else 1


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.dsp.mzn declares, all but those of the search."""
    nest = _nest(problem)
    machine, units, prices = nest.machine, nest.machine.units, _prices(nest)
    given = problem.limits.at_most.given
    most = {name: value // (prices.unit if name == "energy" else 1) for name, value in given.items()}
    binding = {name: value for name, value in most.items() if value <= LARGEST}  # others exclude nothing
    return {
        "size": list(nest.sizes),
        "stride": [lines.stride for lines in nest.lines],
        "extent": [lines.extent for lines in nest.lines],
        "loaded_from": [lines.loaded[0] for lines in nest.lines],
        "loaded_to": [lines.loaded[1] for lines in nest.lines],
        "window": nest.window,
        "input_units": units.input,
        "weights_units": units.kernels,
        "output_units": units.output,
        "partial_units": units.partial,
        "capacity": min(machine.buffer_capacity, LARGEST),
        "double_buffering": machine.double_buffering,
        "bus": machine.bus_units_per_cycle,
        "macs_per_cycle": machine.macs_per_cycle,
        "setup": machine.dma_setup_cycles,
        "local": local_traffic(nest),
        "grain": gcd(*units),
        "vectors": machine.vector_unit is not None,
        "loops": max(1, len(_loops(nest))),
        "lookup": [list(row) for row in _lookup(nest)],
        "core_price": prices.core,
        "external_price": prices.external[0],
        "external_per": prices.external[1],
        "local_price": prices.local[0],
        "local_per": prices.local[1],
        "schedule_limit": {"e": _LIMITS[problem.limits.schedule]},
        "minimised": {"e": problem.minimise.upper()},
        "limited": [name in binding for name in COSTS],
        "at_most": [binding.get(name, 0) for name in COSTS],
        "most": list(_largest(problem)),
        "counts_energy": _counts_energy(problem),
    }


_LIMITS = {
    "any": "ANY",
    "any+weights": "ANY_WEIGHTS",
    "thesis": "THESIS",
    "intra": "INTRA",
    "kc": "KC",
    "oc": "OC",
    "oxyn": "OXYN",
    "oxyn/ox": "OXYN_OX",
    "halide-idsp": "HALIDE",
}


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    if one.word in ("accesses", "cycles", "memory"):
        return one.word
    if one.word == "energy":
        return f"{_prices(_nest(problem)).unit} * energy"
    if one.word == "elements":
        return BUFFERS[str(one.arguments[0])]
    if one.word == "contiguous_bytes":
        return _contiguous_bytes(_nest(problem), str(one.arguments[0]))
    if one.word == "iterations":
        return f"trips[{LETTERS[str(one.arguments[0])]}]"
    if one.word == "outside":
        outer, inner = (LETTERS[str(axis)] for axis in one.arguments)
        return f"trips[{outer}] > 1 /\\ trips[{inner}] > 1 /\\ place[{outer}] < place[{inner}]"
    return f"step[{LETTERS[one.word.removeprefix('tile.')]}]"


def _contiguous_bytes(nest: Nest, operand: str) -> str:
    """Return the bytes of a full tile that follow each other in external memory."""
    bits = nest.machine.operand_bits
    if operand == "weights":
        run = f"(step[K] * {nest.window} * if trips[K] = 1 then step[C] else 1 endif)"
        return f"({bits.weights} * {run}) div 8"
    if operand == "input":
        _, rows, columns = nest.layer.input
        tile = ("step[G] * step[K]", f"min(side[Y], {rows})", f"min(side[X], {columns})")
        width = bits.input
    else:
        _, rows, columns = nest.layer.output_shape[-3:]
        tile, width = ("step[G] * step[C]", "step[Y]", "step[X]"), bits.output
    of_maps, of_rows, of_columns = tile
    of_planes = f"if {of_rows} = {rows} then {rows} * ({of_maps}) else {of_rows} endif"
    run = f"if {of_columns} = {columns} then {columns} * {of_planes} else {of_columns} endif"
    return f"({width} * {run}) div 8"


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return steps, places, reuse and inner loop of a plan.

    Loops of one iteration stand outermost, where any order may be.
    Constraints do not tell such orders apart, either, but the plan stays the one that they were asked of.
    """
    layer = plan.layers[0]
    if not isinstance(layer, DspPlan):
        return None
    step, trips = _nest(problem).step(layer.tile), _nest(problem).trips(layer.tile)
    order = layer.order
    if problem.limits.schedule in ("any", "any+weights") and not problem.constraints:
        single = [loop for loop in ORDERED if trips[LOOPS.index(loop)] == 1]
        order = "".join(single + [loop for loop in layer.order if loop not in single])
    places = [0, *(order.index(loop) + 1 for loop in LOOPS[1:])]
    return [*step, *places, REUSES.index(layer.reuse) + 1, _loop_number(_nest(problem), layer)]


def _loop_number(nest: Nest, plan: DspPlan) -> int:
    """Return the number of a plan's inner loop, or of one that costs the same on all its tiles."""
    if nest.machine.vector_unit is None:
        return 1
    kinds = [kind[:3] for kind in kinds_of_tiles(nest, nest.step(plan.tile))]
    own, every = loop_of(nest, plan), _loops(nest)
    if own in every:
        return every.index(own) + 1
    wanted = [cost_of_tile(nest, own, *kind) for kind in kinds]
    fitting = (loop for loop in every if all(fits(nest, loop, kind[0]) for kind in kinds))
    return 1 + next(
        every.index(loop) for loop in fitting if [cost_of_tile(nest, loop, *kind) for kind in kinds] == wanted
    )


def _reuse(solution: Any) -> str:
    found = solution.reuse
    name = found if isinstance(found, str) else getattr(found, "name", None)
    names = {"HALO": "halo", "TILES": "tile", "NONE": "none", "WEIGHTS": "weights"}
    return names[name] if name is not None else REUSES[int(found) - 1]


def decisions(solution: Any) -> list[int]:
    """Return steps, places, reuse and loop of a solution, in the order of `start`."""
    return [*solution.step, *solution.place, REUSES.index(_reuse(solution)) + 1, solution.loop]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution."""
    loops = _loops(_nest(problem))
    order = "".join(sorted(ORDERED, key=lambda loop: solution.place[LOOPS.index(loop)]))
    loop = loops[solution.loop - 1] if loops else None
    return Plan((DspPlan(DspTile(*solution.step), order, _reuse(solution), loop),))
