"""Pools and normalisations of the thesis's networks on the vector unit, which its tables leave out."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

from tilewright.core import catalogue
from tilewright.papers.figures import Say
from tilewright.papers.idsp.energy import NetworkEnergy, energy_of
from tilewright.papers.idsp.setting import BATCH, NETWORKS, machine
from tilewright.spec.network import Network, Pool
from tilewright.tiling.dsp.inner_loop import DIMENSIONS, InnerLoop
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations import kind
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.vector_search import LoopOption, compute_of_tiles, loops_worth_trying
from tilewright.tiling.operations.walk import Walk
from tilewright.tiling.problem import Problem

NORMALISED = {"alexnet": ("pool1", "pool2")}
"""Pools that a normalisation follows (appendix A.2)."""

ACROSS = 5
"""Maps of a normalisation (section 4.5.1)."""


@dataclass(frozen=True)
class Between:
    """An operation of eight images, with its inner loop of least energy.

    Attributes
    ----------
    cycles, vectors
        On chip: of the core, and vectors that are loaded and stored, in a single tile for each image.
    steps
        The same of a plan of its own, which reads external memory and writes there.
    duration, transfers, accesses
        Cycles of that plan, its DMA transfers, and the elements that it moves.
    """

    name: str
    operation: Operation
    loop: InnerLoop
    cycles: int
    vectors: int
    steps: tuple[int, int]
    duration: int
    transfers: int
    accesses: int


def operation_of(pool: Pool) -> Operation:
    """Return a pool of eight images."""
    return Operation(
        op=f"{pool.op}_pool",
        inputs=(pool.input,),
        output=pool.output,
        kernel=pool.kernel,
        stride=pool.stride,
        padding=pool.padding,
        windowed=True,
        batch=BATCH,
        work=BATCH * prod(pool.output) * prod(pool.kernel),
    )


def normalisation_of(pool: Pool) -> Operation:
    """Return the normalisation behind a pool."""
    shape = pool.output
    return Operation(
        op="lrn", inputs=(shape,), output=shape, windowed=True, needs="maps", batch=BATCH, across=ACROSS
    )


@cache
def operations(network: str) -> list[Between]:
    """Return the pools and normalisations of a network, in order."""
    found = []
    for layer in Network.model_validate(catalogue.shared("networks", network)).layers:
        if isinstance(layer, Pool):
            found.append(_between(layer.name, operation_of(layer)))
            if layer.name in NORMALISED.get(network, ()):
                found.append(_between(layer.name.replace("pool", "norm"), normalisation_of(layer)))
    return found


def _machine() -> DspMachine:
    return machine(vector_unit=VectorUnit().model_dump())


def _least_energy(operation: Operation) -> LoopOption:
    """Return the loop of least energy for a tile that is all of an image."""
    price = _machine().energy
    (options,) = loops_worth_trying(operation, _machine(), [(operation.output,)])

    def energy(each: LoopOption) -> int:
        spent = each.cycles * price.core_fj_per_cycle + each.transfers * price.local_fj_per_access
        return int(spent[0])

    return min(options, key=energy)


def _between(name: str, operation: Operation) -> Between:
    best, dsp = _least_energy(operation), _machine()
    problem = Problem.model_validate(
        {"operation": operation, "machine": dsp, "objective": {"minimise": "energy"}}
    )
    exact = kind.exhaustive(problem, float("inf"))
    assert exact is not None
    (plan,) = exact.layers
    report = kind.simulate(problem, plan)
    cycles, vectors = (int(each.sum()) for each in compute_of_tiles(operation, dsp, Walk(operation, plan)))
    return Between(
        name=name,
        operation=operation,
        loop=best.loop,
        cycles=operation.batch * int(best.cycles[0]),
        vectors=operation.batch * int(best.transfers[0]),
        steps=(cycles, vectors),
        duration=report.measures.duration_cycles,
        transfers=report.transfers,
        accesses=report.accesses,
    )


def loop_text(loop: InnerLoop) -> str:
    """Return a loop as the tables have it: vectorised and pipelined dimension, body and kernel positions."""
    body = " ".join(f"{d}{u}" for d, u in zip(DIMENSIONS, loop.unroll, strict=True) if u > 1)
    return f"{loop.vector}/{loop.pipelined} {body or '1'} x {loop.taps}"


def energy_on_chip(each: Between) -> NetworkEnergy:
    """Return the energy of an operation whose inputs and outputs are on chip."""
    return energy_of(cycles=each.cycles, transfers=0, vectors=each.vectors, accesses=0)


def energy_of_steps(each: Between) -> NetworkEnergy:
    """Return the energy of an operation that is a step of its own."""
    cycles, vectors = each.steps
    return energy_of(cycles=cycles, transfers=each.transfers, vectors=vectors, accesses=each.accesses)


def print_between(say: Say) -> None:
    """Print cycles, vector transfers and energy of all of them."""
    say("")
    say("Pools and normalisations of eight images, which the thesis leaves out as they")
    say('"can likely be hidden into the schedules" of layers (section 7.6.3). On chip:')
    say("what the core does if a pool finds its input there and its reader the output.")
    say("As steps: plans of their own, with external memory. Each of least energy, in uJ;")
    say("vectorised/pipelined dimension and body, with all kernel positions")
    say(f"  {'':<13} {'on chip':^28} {'as steps':^19}".rstrip())
    heads = f"{'cycles':>9} {'vectors':>9} {'energy':>8} {'cycles':>9} {'energy':>9}"
    say(f"  {'operation':<13} {heads}  loop")
    for network, title in NETWORKS.items():
        for each in operations(network):
            loop = loop_text(each.loop).removesuffix(" x kernel")
            say(
                f"  {f'{title} {each.name}':<13} {each.cycles:>9,} {each.vectors:>9,} "
                f"{energy_on_chip(each).total:>8.1f} {each.duration:>9,} "
                f"{energy_of_steps(each).total:>9.1f}  {loop}"
            )
    pools = (each for each in Network.model_validate(catalogue.shared("networks", "alexnet")).layers)
    smaller = [_on_chip(_two_by_two(pool)) for pool in pools if isinstance(pool, Pool)]
    say(f"  AlexNet's pools with the 2x2 windows of appendix A.2: {sum(smaller):,} cycles on chip")


def _two_by_two(pool: Pool) -> Pool:
    rows, columns = (2 * size for size in pool.output[1:])
    return pool.with_(kernel=(2, 2), input=(pool.input[0], rows, columns))


def _on_chip(pool: Pool) -> int:
    """Return the cycles of the core for a pool of eight images, with the loop of least energy."""
    operation = operation_of(pool)
    best = _least_energy(operation)
    return operation.batch * int(best.cycles[0])
