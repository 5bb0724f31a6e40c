"""What the compiled search is given: a node of the machine, the blocks that may enter it, plans inside."""

from __future__ import annotations

import numpy as np

from tilewright.tiling.hierarchy.charges import OUTPUT, SPENT
from tilewright.tiling.hierarchy.exact.lattice import FAR
from tilewright.tiling.hierarchy.exact.partial_plans import (
    CYCLES,
    ENDING,
    FETCHED,
    HOLDING,
    INSIDE,
    PRODUCT,
    SPENDING,
    Blocks,
    InnerPlans,
    Node,
    PartialPlans,
    Table,
)
from tilewright.tiling.hierarchy.exact.partial_plans import OUTPUT as OUTPUTS
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.loops import OPERANDS

GOALS = {"cycles": CYCLES, "edp": PRODUCT, "memory": HOLDING}
"""What is minimised, of objectives that are not just spent."""


def goal_of(tables: Tables) -> int:
    """Return what is minimised, as the compiled search knows it."""
    return GOALS.get(tables.task.minimise, SPENDING)


def node_of(tables: Tables, i: int) -> Node:
    """Return what the compiled search knows of a node."""
    charges, machine, kinds = tables.charges, tables.machine, tables.kinds
    node, goal = machine.nodes[i], goal_of(tables)
    memory, outward = node.axis is None, i > 0 and machine.nodes[i - 1].axis is None
    next_outer, next_first = np.zeros_like(charges.outer[i]), np.zeros_like(charges.first_out[i])
    if outward:
        next_outer = charges.outer[i - 1] * charges.reaches[i - 1][:, None]
        next_first = charges.first_out[i - 1] + charges.last_out[i - 1]
    sliding, next_sliding = charges.sliding(i, charges.outer[i]), charges.sliding(i - 1, next_outer)
    shares = goal == HOLDING or (i in tables.parts and not tables.parts[i].outermost)
    tracks = bool((tables.constant != tables.constant[0]).any())
    added = [tables.constant[j] for j in charges.arrays(0, i)]
    limits, (least, most) = tables.task.at_most, tables.instances_used(i)
    at_most = [limits.get(quantity.name, FAR) for quantity in charges.quantities]
    return Node(
        number=i,
        memory=memory,
        shares=shares,
        least=least,
        size=most,
        allowed=charges.allowed[i],
        outer=charges.outer[i],
        inner=charges.inner[i],
        first_out=charges.first_out[i],
        first_in=charges.first_in[i],
        last_out=charges.last_out[i],
        last_in=charges.last_in[i],
        holds=np.array([memory and i > 0 and operand in node.holds for operand in OPERANDS]),
        straight=charges.straight[i],
        reaches=charges.reaches[i],
        next_outer=np.ascontiguousarray(next_outer),
        sliding=sliding,
        next_sliding=next_sliding,
        slides=bool(sliding.any()),
        next_first=next_first,
        next_straight=charges.straight[i - 1] if i else np.ones(3, np.bool_),
        instances=float(tables.instances(i)),
        constant=np.array([np.min([one, *added], axis=0) for one in tables.constant]),
        at_most=np.where(kinds == SPENT, at_most, FAR),
        most_cycles=min(limits.get("cycles", FAR), FAR),
        kinds=kinds,
        goal=goal,
        macs_per_cycle=machine.macs_per_cycle,
        both_ways=bool((charges.inner[:, OUTPUT] < 0).any()),
        tracks=tracks,
        free=not tracks and not shares and charges.nothing_from(i),
        any=tables.lattice.any,
        shared=charges.shared(i),
    )


def entering_blocks(tables: Tables, i: int) -> tuple[Blocks, Table]:
    """Return the blocks that may enter a node, the cheapest first, and their numbers in the lattice."""
    lattice, rest, machine = tables.lattice, tables.rest[i], tables.machine
    whole = np.arange(lattice.many) == lattice.many - 1
    chosen = np.flatnonzero(tables.entering(i) & whole if i == 0 else tables.entering(i))
    chosen = chosen[np.argsort(rest[chosen, 0], kind="stable")]
    own, most = np.zeros((len(chosen), 2), np.int64), np.full(len(chosen), FAR)
    if (part := tables.parts.get(i)) is not None:
        own, most = part.own[chosen], part.most[chosen]
    elif goal_of(tables) == HOLDING and i > 0 and machine.nodes[i].axis is None:
        widths = machine.bits.output, machine.bits.partial
        own = np.stack([lattice.bits(machine, i, width)[chosen].sum(axis=1) for width in widths], axis=1)
    asked = chosen if lattice.any else np.zeros(1, np.int64)  # of nothing else is it asked
    blocks = Blocks(
        place=lattice.index[chosen],
        elements=lattice.charged[chosen],
        whole=tables.whole[chosen],
        fits_complete=tables.fits[i][0][chosen],
        fits_partial=tables.fits[i][1][chosen],
        own=own,
        most=most,
        times=tables.every[chosen],
        fetches=lattice.fetches[asked],
        shared=lattice.shared(machine, i)[asked],
        moved=tables.moved[chosen],
        rest=rest[chosen],
        halo=tables.halo[chosen],
        divisors=(lattice.ratios > 0).sum(axis=2),
        strides=lattice.strides,
    )
    return blocks, chosen


def group_plans(tables: Tables, i: int, inside: PartialPlans) -> tuple[InnerPlans, Table]:
    """Return the partial plans inside of a node, sorted by their blocks, and their order."""
    lattice = tables.lattice
    order = np.argsort(inside.block, kind="stable")
    blocks, start = np.unique(inside.block[order], return_index=True)
    group = np.full(lattice.many if lattice.complete else 0, -1)
    if lattice.complete:
        group[blocks] = np.arange(len(blocks))
    values, each = inside.values[order], inside.block[order]
    spends = tables.kinds == SPENT
    instances = np.where(spends, 1.0, float(tables.instances(i + 1)))
    total = values[:, INSIDE] * (tables.every[each][:, None] / instances)
    outputs = values[:, OUTPUTS] + values[:, ENDING]
    total += np.where(spends, tables.constant.min(axis=0), outputs * tables.moved[each, OUTPUT][:, None])
    # What is brought again need not be brought to instances that begin with nothing.
    brought = np.minimum(values[:, FETCHED + OUTPUT], 0) * tables.every[each][:, None]
    total += np.where(spends, brought, 0)
    plans = InnerPlans(
        place=lattice.index[blocks],
        elements=lattice.charged[blocks],
        fresh=tables.fresh[blocks],
        start=np.append(start, len(order)),
        group=group,
        least=total.min(axis=0),
        values=values,
        bits=inside.bits[order],
        held=inside.held[order],
    )
    return plans, order
