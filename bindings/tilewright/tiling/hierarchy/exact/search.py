"""The exact search: partial plans from the innermost memory outwards, those that can be best of each block.

docs/hierarchy.md argues why none is lost.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tilewright.core.branch_and_bound import check_deadline
from tilewright.simulator.levels import SLIDING
from tilewright.spec.errors import OutOfTimeError
from tilewright.tiling.hierarchy.charges import SPENT, STEPS, TIME, WAITING
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.exact.expansion_kernel import expand
from tilewright.tiling.hierarchy.exact.lattice import FAR, MOST, Lattice
from tilewright.tiling.hierarchy.exact.partial_plans import (
    ADDED,
    ALONG,
    ANY,
    INSIDE,
    MOVES,
    PRODUCT,
    SHORT,
    SPENDING,
    Blocks,
    Cutoff,
    Node,
    PartialPlans,
    Space,
    Table,
)
from tilewright.tiling.hierarchy.exact.space import entering_blocks, goal_of, group_plans, node_of
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.loops import LETTERS, OPERANDS, STILL
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task


@dataclass(frozen=True)
class SearchParams:
    """How the search divides its work; no choice changes what it proves.

    Attributes
    ----------
    passes
        Passes in turn: partial plans of each node that an incomplete one keeps, and how often a complete one
        after it may do `work` at a node. What is not proven then is tried again, from a better plan that a
        wider one finds.
    beam
        Partial plans that an incomplete pass keeps before an array, which has few loops for each plan inside,
        and whose bounds soon tell which are good.
    work, any_work
        Pairs of blocks between two looks at the clock: a tenth of a second; fewer where steps need not
        divide, as each pair takes longer.
    remembered
        Most blocks of a layer of which passes remember the nodes' tables; more would take much memory.
    space
        Partial plans for which there is space at first; it doubles when they are more.
    tie_seconds
        How long ties may take at least; else as long as it took to find the optimum.
    """

    passes: tuple[tuple[int, int | None], ...] = ((12, 1), (60, 5), (300, None))
    beam: int = 300
    work: int = 300_000
    any_work: int = 30_000
    remembered: int = 20_000
    space: int = 1 << 14
    tie_seconds: float = 1.0


PARAMS = SearchParams()


class BestPlan(NamedTuple):
    """The best plan, its value, and whether it is proven."""

    value: int
    plan: HierarchyPlan
    proven: bool


class _TooMuchError(Exception):
    """A complete pass has more to do than it may."""


class Entrance(NamedTuple):
    """What the kernel knows of a node and of the blocks that may enter it, whose numbers are `chosen`."""

    node: Node
    blocks: Blocks
    chosen: Table


@dataclass
class Budget:
    """What a pass may do.

    Attributes
    ----------
    beam
        Partial plans of each node that are kept, None for a complete pass.
    deadline
        ``time.monotonic()``.
    most
        How often it may do `SearchParams.work` at a node.
    """

    beam: int | None = None
    deadline: float = float("inf")
    most: int | None = None


class Search:
    """A search for a task, of which is decided what levels hold.

    Attributes
    ----------
    cut
        Whether the last pass has left out partial plans that may be better than the best one.
    """

    def __init__(self, tables: Tables, params: SearchParams = PARAMS) -> None:
        self.tables, self.lattice, self.params = tables, tables.lattice, params
        self.goal = goal_of(tables)
        self.entrances: dict[int, Entrance] = {}
        self.cut = False

    @cached_property
    def least(self) -> int:
        """A bound on what every plan costs."""
        return self.tables.least()

    def can_better(self, best: BestPlan | None) -> bool:
        """Whether a plan may be better than one that is known, as far as the bound tells."""
        return best is None or self.least < best.value

    # Passes ------------------------------------------------------------------------------------------

    def improved(self, best: BestPlan | None, budget: Budget) -> BestPlan | None:
        """Return the best plan of a pass if it is better than one that is known, and that one if not.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        _TooMuchError
            When the pass would do more than it may.
        """
        stages = self.stages(None if best is None else best.value, budget)
        least = stages[-1].least if stages else np.zeros(0)
        for row in np.argsort(least, kind="stable").tolist():
            if best is not None and least[row] > best.value * (1 + 1e-9):
                break
            plan = self.plan(stages, row)
            found = self.tables.task.value(plan)
            if best is None or found < best.value:
                best = BestPlan(found, plan, True)
        return best

    def total(self, last: PartialPlans, row: int) -> int:
        """Return what a plan of the last stage is charged in all."""
        tables = self.tables
        values, found = last.values[row].sum(axis=0).tolist(), dict.fromkeys((SPENT, STEPS, TIME, WAITING), 0)
        for q, (kind, value) in enumerate(zip(tables.kinds.tolist(), values, strict=True)):
            if kind == SPENT:
                value += int(self._entrance(0).node.constant[last.bits[row] // ADDED, q])
            found[kind] = max(found[kind], value) if q else value
        steps = -(-found[STEPS] // tables.machine.macs_per_cycle)
        cycles = -(-max(steps * TICKS + found[WAITING], found[TIME]) // TICKS)
        if self.goal == PRODUCT:
            return int(found[SPENT] * cycles)
        return int(found[SPENT] if self.goal == SPENDING else cycles)

    def stages(self, best: int | None, budget: Budget) -> list[PartialPlans]:
        """Return the partial plans of all nodes, innermost first; nothing if none is better than the best."""
        known = (2**92 if self.goal == PRODUCT else FAR) if best is None else best
        stages, nodes = [self._innermost()], self.tables.machine.nodes
        self.cut = False
        for i in reversed(range(len(nodes))):
            before_array = i > 0 and nodes[i - 1].axis is not None
            beam = self.params.beam if budget.beam is not None and before_array else budget.beam
            stages.append(self._step(i, stages[-1], known, Budget(beam, budget.deadline, budget.most)))
            if not len(stages[-1].bits):
                return []
        return stages

    def _innermost(self) -> PartialPlans:
        """Return the plan of one multiplication."""
        plan = PartialPlans.space(1, len(self.tables.kinds))
        steps = self.tables.task.layer.macs if self.lattice.any else 1
        plan.values[0, INSIDE, self.tables.kinds == STEPS] = steps
        plan.bits[0] = 7 * MOVES + ADDED * len(self.tables.machine.nodes)
        return plan

    def _entrance(self, i: int) -> Entrance:
        """Return what all passes know of a node."""
        known = self.entrances.get(i)
        if known is None:
            known = Entrance(node_of(self.tables, i), *entering_blocks(self.tables, i))
            if self.lattice.many <= self.params.remembered:
                self.entrances[i] = known
        return known

    def _step(self, i: int, inside: PartialPlans, known: int, budget: Budget) -> PartialPlans:
        """Return the partial plans of a node from those of the next one inwards."""
        node, blocks, chosen = self._entrance(i)
        plans, order = group_plans(self.tables, i, inside)
        steps = self.lattice.steps(self.tables.machine, i)
        space = Space(node, steps, blocks, plans, self.tables.ratios(i))
        found = self._expand(space, known, budget)
        return found._replace(block=chosen[found.block], before=order[found.before])

    def _expand(self, space: Space, known: int, budget: Budget) -> PartialPlans:
        """Return the best plans that a node's loops make of those inside."""
        quantities, beam = len(space.node.kinds), budget.beam
        found = PartialPlans.space(self.params.space, quantities)
        cutoff = Cutoff(*divmod(known, 2**31), float("inf"))
        work = self.params.any_work if space.steps.any else self.params.work
        first = count = looks = 0
        while first < len(space.blocks.times):
            check_deadline(budget.deadline)
            if looks == budget.most:
                raise _TooMuchError
            looks += 1
            after, count = expand(space, cutoff, first, work, found, count)
            if beam is not None and count > 4 * beam:
                best = self._best(found, count, beam)
                cutoff = cutoff._replace(least=float(found.least[best].max()))
                found.enter(found.rows(best))
                count = beam
            elif after < len(space.blocks.times) and (after == first or 2 * count > len(found.bits)):
                larger = PartialPlans.space(2 * len(found.bits), quantities)
                larger.enter(found)
                found = larger
            first = after
        if beam is not None and count > beam:
            return found.rows(self._best(found, count, beam))
        return found.rows(slice(count))

    def _best(self, found: PartialPlans, count: int, beam: int) -> Table:
        """Return the rows of the best partial plans; that others are left out is remembered."""
        self.cut = True
        return np.sort(np.argpartition(found.least[:count], beam)[:beam])

    # Plans -------------------------------------------------------------------------------------------

    def plan(self, stages: list[PartialPlans], row: int) -> HierarchyPlan:
        """Return the plan of a row of the last stage."""
        nest = []
        for number in range(len(stages) - 1, 0, -1):
            stage, inside = stages[number], stages[number - 1]
            outer = self.lattice.sizes[stage.block[row]]
            order, row = int(stage.order[row]), int(stage.before[row])
            inner = self.lattice.sizes[inside.block[row]]
            trips = dict(zip(LETTERS, (-(-outer // inner)).tolist(), strict=True))
            steps = dict(zip(LETTERS, inner.tolist(), strict=True))
            nest.append(tuple((loop, steps[loop]) for loop in arrange(order, trips)))
        return HierarchyPlan(tuple(nest), self.tables.kept)


def arrange(order: int, trips: dict[str, int]) -> list[str]:
    """Return the loops with several iterations, outermost first, in one of the search's orders."""
    sliding = SLIDING[order // ALONG - 1] if order >= ALONG else ""
    stays = order % ALONG
    # From the outermost loops to the innermost ones.
    if stays == ANY:
        parts = ["ncyxkrs", "g"]
    elif stays == SHORT:
        last = sliding or min((loop for loop in "krs" if trips[loop] > 1), key=lambda loop: trips[loop])
        parts = [STILL["output"].replace(last, ""), "gncyx", last]
    elif stays == 0:
        parts = ["gnyxkrs".replace(sliding, ""), sliding, STILL["input"]]
    else:
        last = STILL[OPERANDS[stays]]
        parts = ["".join(loop for loop in LETTERS if loop not in last), last.replace(sliding, ""), sliding]
    return [loop for part in parts for loop in part if trips[loop] > 1]


def best_plan(
    task: Task,
    deadline: float = float("inf"),
    *,
    start: BestPlan | None = None,
    quick: bool = False,
    params: SearchParams = PARAMS,
) -> BestPlan | None:
    """Return the best plan of a task, None where none fits.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` after which the best plan so far is returned, not as proven.
    start
        A plan that is known, within what it may cost.
    quick
        Whether to leave out a proof that takes long.

    Raises
    ------
    OutOfTimeError
        If none is known when the deadline passes, or the layer has more blocks than are looked at.
    """
    run = _Run(start)
    try:
        run.left = _searches(task, deadline, params)
        for beam, most in params.passes:
            run.look(Budget(beam, deadline))
            if quick and most is None:
                break
            run.look(Budget(None, deadline, most))
            if not run.left:
                break
    except OutOfTimeError:
        if run.best is None:
            raise
        return run.best._replace(proven=False)
    return run.best and run.best._replace(proven=not run.left)


def _searches(task: Task, deadline: float, params: SearchParams) -> list[Search]:
    """Return a search for each choice of what is held, that with the lowest bound first."""
    found, lattice = [], Lattice(task.layer)
    if lattice.many > MOST:
        raise OutOfTimeError
    for kept in task.choices:
        check_deadline(deadline)
        found.append(Search(Tables(task, kept, lattice), params))
    return sorted(found, key=lambda search: search.least)


@dataclass
class _Run:
    """The best plan so far, and the searches that may have a better one still."""

    best: BestPlan | None
    left: list[Search] = field(default_factory=list)

    def look(self, budget: Budget) -> None:
        """Let each search pass once."""
        searches, self.left = self.left, []
        for search in searches:
            try:
                if search.can_better(self.best):
                    self.best = search.improved(self.best, budget)
                    if search.cut:
                        self.left.append(search)
            except _TooMuchError:
                self.left.append(search)
