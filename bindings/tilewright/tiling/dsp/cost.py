"""What a plan costs: cycles, femtojoules or accesses; and the memory that it takes, which breaks ties."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.nest import Nest
from tilewright.tiling.dsp.plan import DspPlan


def measure(nest: Nest, plan: DspPlan, minimise: str, local: int) -> int:
    """Return what a plan costs: cycles, femtojoules, accesses, or memory."""
    return measures(nest, plan, (minimise,), local)[0]


def measures(nest: Nest, plan: DspPlan, names: Sequence[str], local: int) -> tuple[int, ...]:
    """Return several of a plan's costs."""
    total = duration(nest, plan, local)
    costs = {
        "cycles": total.cycles,
        "accesses": total.accesses,
        "energy": energy(nest.machine, total.accesses, total.compute + total.setup, total.streamed),
        "memory": sum(nest.held(nest.step(plan.tile), plan.reuse).values()),
    }
    return tuple(costs[name] for name in names)


def energy(machine: DspMachine, accesses: int, busy: int, streamed: int) -> int:
    """Femtojoules of external accesses, busy cycles of the core and local accesses (table 7.9, eq. 7.2).

    Parameters
    ----------
    accesses, streamed
        In the machine's unit.
    """
    price, bits = machine.energy, machine.unit_bits
    dram = -(-accesses * bits * price.dram_fj_per_access // (8 * price.dram_access_bytes))
    local = -(-streamed * bits * price.local_fj_per_access // (8 * price.local_access_bytes))
    return dram + price.core_fj_per_cycle * busy + local
