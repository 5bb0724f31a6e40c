"""The exact search: partial plans from the innermost memory outwards, those that can be best of each block.

docs/hierarchy.md argues why none is lost.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.levels import SLIDING
from tilewright.spec.errors import OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.charges import OUTPUT, SPENT, STEPS, TIME
from tilewright.tiling.hierarchy.cost import TICKS, cost_of
from tilewright.tiling.hierarchy.exact import kernel
from tilewright.tiling.hierarchy.exact.lattice import FAR, MOST, Lattice, Steps
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.machine import LETTERS, OPERANDS, STILL, HierarchyMachine, Kept
from tilewright.tiling.hierarchy.nest import Nest
from tilewright.tiling.hierarchy.plan import HierarchyPlan

Table = NDArray[np.int64]

BEAM = 300
"""Partial plans of each node that the widest of the incomplete passes keeps."""

PASSES: tuple[tuple[int, int | None], ...] = ((12, 1), (60, 5), (BEAM, None))
"""Passes in turn: partial plans of each node that an incomplete one keeps, and how often a complete one after
it may do `WORK` at a node. What is not proven then is tried again, from a better plan that a wider one finds.
"""

REMEMBERED = 20_000
"""Most blocks of a layer of which passes remember the nodes' tables; more would take much memory."""

WORK = 300_000
"""Pairs of blocks between two looks at the clock."""


class BestPlan(NamedTuple):
    """The best plan, its value, and whether it is proven."""

    value: int
    plan: HierarchyPlan
    proven: bool


class _TooMuchError(Exception):
    """A complete pass has more to do than it may."""


class Stage(NamedTuple):
    """The partial plans of a node, and how they were made from those of the next one inwards.

    Attributes
    ----------
    block
        The number of each plan's block in the lattice.
    held
        See `kernel.Plans`.
    """

    block: Table
    values: Table
    bits: Table
    held: Table
    before: Table
    order: Table
    least: NDArray[np.float64]


class Entrance(NamedTuple):
    """What the kernel knows of a node, and of the blocks that may enter it, whose numbers are `chosen`."""

    node: kernel.Node
    steps: Steps
    blocks: kernel.Blocks
    chosen: Table


class Search:
    """A search for one layer on one machine, of which `kept` says what plans hold.

    Attributes
    ----------
    cut
        Whether the last pass has left out partial plans that may be better than the best one.
    """

    def __init__(self, tables: Tables, kept: Kept = ()) -> None:
        self.kept = kept
        self.tables, self.lattice, self.charges = tables, tables.lattice, tables.charges
        self.machine, self.constant = tables.machine, tables.constant
        self.fresh, self.halo = tables.fresh, tables.halo
        kinds = [kernel.WAITING if one.serial else one.kind for one in self.charges.quantities]
        self.kinds = np.array(kinds)
        goals = {"cycles": kernel.CYCLES, "edp": kernel.PRODUCT, "memory": kernel.HOLDING}
        self.goal = goals.get(tables.minimise, kernel.SPENDING)
        self.entrances: dict[int, Entrance] = {}
        self.cut = False

    @cached_property
    def least(self) -> int:
        """A bound on what every plan costs."""
        return self.tables.least()

    def can_better(self, best: BestPlan | None) -> bool:
        """Whether a plan may be better than one that is known, as far as the bound tells."""
        return best is None or self.least < best.value

    def _node(self, i: int) -> kernel.Node:
        """Return what the kernel knows of a node."""
        charges, machine = self.charges, self.machine
        node = machine.nodes[i]
        memory = node.axis is None
        outward = i > 0 and machine.nodes[i - 1].axis is None
        shares = i in self.tables.parts and not self.tables.parts[i].outermost
        shares |= self.goal == kernel.HOLDING
        next_outer, next_first = np.zeros_like(charges.outer[i]), np.zeros_like(charges.first_out[i])
        next_straight = charges.straight[i - 1] if i else np.ones(3, np.bool_)
        if outward:
            next_outer = charges.outer[i - 1] * charges.reaches[i - 1][:, None]
            next_first = charges.first_out[i - 1] + charges.last_out[i - 1]
        sliding = [charges.sliding(j, outer) for j, outer in ((i, charges.outer[i]), (i - 1, next_outer))]
        added = [self.constant[j] for j in charges.arrays(0, i)]
        tracks = bool((self.constant != self.constant[0]).any())
        at_most = [self.tables.at_most.get(one.name, FAR) for one in charges.quantities]
        return kernel.Node(
            number=i,
            memory=memory,
            shares=shares,
            size=0 if node.axis is None else node.axis.size,
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
            sliding=sliding[0],
            next_sliding=sliding[1],
            slides=bool(sliding[0].any()),
            next_first=next_first,
            next_straight=next_straight,
            instances=float(self.tables.instances(i)),
            constant=np.array([np.min([one, *added], axis=0) for one in self.constant]),
            at_most=np.where(self.kinds == SPENT, at_most, FAR),
            most_cycles=min(self.tables.at_most.get("cycles", FAR), FAR),
            kinds=self.kinds,
            goal=self.goal,
            macs_per_cycle=machine.macs_per_cycle,
            both_ways=bool((charges.inner[:, OUTPUT] < 0).any()),
            tracks=tracks,
            free=not tracks and not shares and charges.nothing_from(i) and self.goal != kernel.HOLDING,
            any=self.lattice.any,
            shared=charges.shared(i),
        )

    # Passes ------------------------------------------------------------------------------------------

    def improved(
        self, best: BestPlan | None, beam: int | None, deadline: float, most: int | None = None
    ) -> BestPlan | None:
        """Return the best plan of a pass if it is better than one that is known, and that one if not.

        Parameters
        ----------
        beam
            Partial plans of each node that are kept, None for a complete pass.
        most
            How often the pass may do `WORK` at a node.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        _TooMuchError
            When the pass would do more than it may.
        """
        stages = self.stages(None if best is None else best.value, beam, deadline, most)
        least = stages[-1].least if stages else np.zeros(0)
        for row in np.argsort(least, kind="stable").tolist():
            if best is not None and least[row] > best.value * (1 + 1e-9):
                break
            plan = self.plan(stages, row)
            found = self.value(plan)
            if best is None or found < best.value:
                best = BestPlan(found, plan, True)
        return best

    def value(self, plan: HierarchyPlan) -> int:
        """Return what a plan costs."""
        tables = self.tables
        nest = Nest(tables.layer, self.machine, plan)
        if self.goal == kernel.HOLDING:
            return nest.reserved
        return cost_of(nest).value(tables.minimise, tables.level)

    def total(self, last: Stage, row: int) -> int:
        """Return what a plan of the last stage is charged in all."""
        values, found = last.values[row].sum(axis=0).tolist(), dict.fromkeys(range(kernel.WAITING + 1), 0)
        for q, (kind, value) in enumerate(zip(self.kinds.tolist(), values, strict=True)):
            if kind == SPENT:
                value += int(self._node(0).constant[last.bits[row] // kernel.ADDED, q])
            found[kind] = max(found[kind], value) if q else value
        steps = -(-found[STEPS] // self.machine.macs_per_cycle)
        cycles = -(-max(steps * TICKS + found[kernel.WAITING], found[TIME]) // TICKS)
        if self.goal == kernel.PRODUCT:
            return int(found[SPENT] * cycles)
        return int(found[SPENT] if self.goal == kernel.SPENDING else cycles)

    def stages(
        self, best: int | None, beam: int | None, deadline: float, most: int | None = None
    ) -> list[Stage]:
        """Return the stages of all nodes, innermost first; nothing if no plan is better than the best."""
        limit = 2**92 if self.goal == kernel.PRODUCT else FAR
        known = divmod(limit if best is None else best, 2**31)
        stages, self.cut = [self._innermost()], False
        for i in reversed(range(len(self.machine.nodes))):
            # An array has few loops for each plan inside, and its bounds soon tell which are good.
            before_array = i > 0 and self.machine.nodes[i - 1].axis is not None
            width = BEAM if beam is not None and before_array else beam
            stages.append(self._step(i, stages[-1], known, width, deadline, most))
            if not len(stages[-1].bits):
                return []
        return stages

    def _innermost(self) -> Stage:
        """Return the plan of one multiplication."""
        values = np.zeros((1, 6, len(self.kinds)), np.int64)
        values[0, kernel.INSIDE, self.kinds == STEPS] = self.tables.layer.macs if self.lattice.any else 1
        bits = np.array([7 * kernel.MOVES + kernel.ADDED * len(self.machine.nodes)])
        zero = np.zeros(1, np.int64)
        return Stage(zero, values, bits, zero, zero, zero, np.zeros(1))

    def _step(
        self,
        i: int,
        inside: Stage,
        known: tuple[int, int],
        beam: int | None,
        deadline: float,
        most: int | None = None,
    ) -> Stage:
        """Return the partial plans of a node from those of the next one inwards."""
        entrance = self.entrances.get(i) or self._entrance(i)
        if self.lattice.many <= REMEMBERED:
            self.entrances[i] = entrance
        node, steps, blocks, chosen = entrance
        order, plans = self._grouped(i, inside)
        found = self._expand(node, steps, blocks, plans, known, beam, deadline, most)
        return found._replace(block=chosen[found.block], before=order[found.before])

    def _entrance(self, i: int) -> Entrance:
        """Return what all passes know of a node."""
        lattice, tables, rest = self.lattice, self.tables, self.tables.rest[i]
        chosen = np.flatnonzero(tables.entering(i)) if i else np.array([lattice.many - 1])
        chosen = chosen[np.argsort(rest[chosen, 0], kind="stable")]
        part, memory = tables.parts.get(i), i > 0 and self.machine.nodes[i].axis is None
        own, room = np.zeros((len(chosen), 2), np.int64), np.full(len(chosen), FAR)
        if part is not None:
            own, room = part.own[chosen], part.most[chosen]
        elif self.goal == kernel.HOLDING and memory:
            widths = self.machine.bits.output, self.machine.bits.partial
            bits = [lattice.bits(self.machine, i, width)[chosen].sum(axis=1) for width in widths]
            own = np.stack(bits, axis=1)
        asked = chosen if lattice.any else np.zeros(1, np.int64)  # of nothing else is it asked
        blocks = kernel.Blocks(
            place=lattice.index[chosen],
            elements=lattice.charged[chosen],
            whole=tables.whole[chosen],
            fits_complete=tables.fits[i][0][chosen],
            fits_partial=tables.fits[i][1][chosen],
            own=own,
            most=room,
            times=tables.every[chosen],
            fetches=lattice.fetches[asked],
            shared=lattice.shared(self.machine, i)[asked],
            moved=tables.moved[chosen],
            rest=rest[chosen],
            halo=self.halo[chosen],
            divisors=(lattice.ratios > 0).sum(axis=2),
            strides=lattice.strides,
        )
        return Entrance(self._node(i), lattice.steps(self.machine, i), blocks, chosen)

    def _grouped(self, i: int, inside: Stage) -> tuple[Table, kernel.Plans]:
        """Return the partial plans inside of a node, sorted by their blocks, and their order."""
        lattice, tables = self.lattice, self.tables
        order = np.argsort(inside.block, kind="stable")
        blocks, start = np.unique(inside.block[order], return_index=True)
        group = np.full(lattice.many if lattice.complete else 0, -1)
        if lattice.complete:
            group[blocks] = np.arange(len(blocks))
        values = inside.values[order]
        each = inside.block[order]
        spends = self.kinds == SPENT
        instances = np.where(spends, 1.0, float(tables.instances(i + 1)))
        total = values[:, kernel.INSIDE] * (tables.every[each][:, None] / instances)
        outputs = values[:, kernel.OUTPUT] + values[:, kernel.ENDING]
        total += np.where(spends, self.constant.min(axis=0), outputs * tables.moved[each, OUTPUT][:, None])
        # What is brought again need not be brought to instances that begin with nothing.
        brought = np.minimum(values[:, kernel.FETCHED + OUTPUT], 0) * tables.every[each][:, None]
        total += np.where(spends, brought, 0)
        plans = kernel.Plans(
            place=lattice.index[blocks],
            elements=lattice.charged[blocks],
            fresh=self.fresh[blocks],
            start=np.append(start, len(order)),
            group=group,
            least=total.min(axis=0),
            values=values,
            bits=inside.bits[order],
            held=inside.held[order],
        )
        return order, plans

    def _expand(
        self,
        node: kernel.Node,
        steps: Steps,
        blocks: kernel.Blocks,
        plans: kernel.Plans,
        known: tuple[int, int],
        beam: int | None,
        deadline: float,
        most: int | None,
    ) -> Stage:
        found = self._room(1 << 14)
        first = count = looks = 0
        cut, work = np.inf, WORK // 10 if steps.any else WORK
        while first < len(blocks.times):
            if time.monotonic() > deadline:
                raise OutOfTimeError
            if looks == most:
                raise _TooMuchError
            looks += 1
            after, count = kernel.expand(
                node, steps, blocks, first, work, plans, self.lattice.ratios, *known, cut, found, count
            )
            if beam is not None and count > 4 * beam:
                best = np.sort(np.argpartition(found.least[:count], beam)[:beam])
                cut, self.cut = float(found.least[best].max()), True
                for name in kernel.Found._fields:
                    table = getattr(found, name)
                    table[:beam] = table[best]
                count = beam
            elif after < len(blocks.times) and (after == first or 2 * count > len(found.bits)):
                larger = self._room(2 * len(found.bits))
                for name in kernel.Found._fields:
                    getattr(larger, name)[:count] = getattr(found, name)[:count]
                found = larger
            first = after
        if beam is not None and count > beam:
            self.cut = True
            best = np.sort(np.argpartition(found.least[:count], beam)[:beam])
            return Stage(*(getattr(found, name)[best] for name in Stage._fields))
        return Stage(*(getattr(found, name)[:count].copy() for name in Stage._fields))

    def _room(self, many: int) -> kernel.Found:
        """Return space for partial plans."""
        values = np.zeros((many, 6, len(self.kinds)), np.int64)
        bits, held, block, before, order = np.zeros((5, many), np.int64)
        return kernel.Found(values, bits, held, block, before, order, np.zeros(many))

    # Plans -------------------------------------------------------------------------------------------

    def plan(self, stages: list[Stage], row: int) -> HierarchyPlan:
        """Return the plan of a row of the last stage."""
        nest = []
        for number in range(len(stages) - 1, 0, -1):
            stage, inside = stages[number], stages[number - 1]
            outer = self.lattice.sizes[stage.block[row]]
            order, row = int(stage.order[row]), int(stage.before[row])
            inner = self.lattice.sizes[inside.block[row]]
            trips = dict(zip(LETTERS, (-(-outer // inner)).tolist(), strict=True))
            steps = dict(zip(LETTERS, inner.tolist(), strict=True))
            nest.append(tuple((loop, steps[loop]) for loop in arranged(order, trips)))
        return HierarchyPlan(tuple(nest), self.kept)


def arranged(order: int, trips: dict[str, int]) -> list[str]:
    """Return the loops with several iterations, outermost first, in one of the search's orders."""
    sliding = SLIDING[order // kernel.ALONG - 1] if order >= kernel.ALONG else ""
    stays = order % kernel.ALONG
    # From the outermost loops to the innermost ones.
    if stays == kernel.ANY:
        parts = ["ncyxkrs", "g"]
    elif stays == kernel.SHORT:
        last = sliding or min((loop for loop in "krs" if trips[loop] > 1), key=lambda loop: trips[loop])
        parts = [STILL["output"].replace(last, ""), "gncyx", last]
    elif stays == 0:
        parts = ["gnyxkrs".replace(sliding, ""), sliding, STILL["input"]]
    else:
        last = STILL[OPERANDS[stays]]
        parts = ["".join(loop for loop in LETTERS if loop not in last), last.replace(sliding, ""), sliding]
    return [loop for part in parts for loop in part if trips[loop] > 1]


def _searches(
    layer: Layer,
    machine: HierarchyMachine,
    minimise: str,
    level: str,
    deadline: float,
    at_most: Mapping[str, int] | None,
) -> list[Search]:
    """Return a search for each choice of what is held, that with the lowest bound first."""
    found, lattice = [], Lattice(layer)
    if lattice.many > MOST:
        raise OutOfTimeError
    for kept in machine.choices:
        if time.monotonic() > deadline:
            raise OutOfTimeError
        tables = Tables(layer, machine.keeping(kept), minimise, level, at_most, lattice)
        found.append(Search(tables, kept))
    return sorted(found, key=lambda search: search.least)


def best_plan(
    layer: Layer,
    machine: HierarchyMachine,
    minimise: str,
    level: str,
    deadline: float = float("inf"),
    at_most: Mapping[str, int] | None = None,
    *,
    start: BestPlan | None = None,
    quick: bool = False,
) -> BestPlan | None:
    """Return the best plan of a layer, None where none fits.

    Parameters
    ----------
    level
        The memory whose accesses are counted.
    deadline
        ``time.monotonic()`` after which the best plan so far is returned, not as proven.
    at_most
        What a plan may cost, of accesses, cycles and energy.
    start
        A plan that is known, within what it may cost.
    quick
        Whether to leave out a proof that takes long.

    Raises
    ------
    OutOfTimeError
        If none is known when the deadline passes, or the layer has more blocks than are looked at.
    """
    best = start
    try:
        left = _searches(layer, machine, minimise, level, deadline, at_most)
        for beam, most in PASSES:
            left, each = [], left
            for search in each:
                if search.can_better(best):
                    best = search.improved(best, beam, deadline)
                    if search.cut:
                        left.append(search)
            if quick and most is None:
                break
            left, each = [], left
            for search in each:
                try:
                    if search.can_better(best):
                        best = search.improved(best, None, deadline, most)
                except _TooMuchError:
                    left.append(search)
            if not left:
                break
    except OutOfTimeError:
        if best is None:
            raise
        return best._replace(proven=False)
    return best if best is None else best._replace(proven=not left)
