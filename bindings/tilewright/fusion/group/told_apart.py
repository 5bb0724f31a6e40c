"""Tiles and orders of a group that constraints allow, and of each kind that constraints tell apart the best.

What a group is decides some terms of the vocabulary: the tile of each member, what is together with it.
Whatever follows from these alone is looked at here. Of tiles for which all other constraints have the same
values, only the best counts: it can stand for each of them in any plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tilewright.fusion.group.best_tile import (
    NEVER,
    TileChoice,
    TileSpace,
    best_tile,
    cost_of,
    evaluate_tile,
    space_of,
)
from tilewright.fusion.layouts import Decided
from tilewright.fusion.machine import BUFFERS
from tilewright.fusion.plan import HALOS, ORDERS, PARAMETERS
from tilewright.fusion.problem import Problem
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.meaning import value
from tilewright.spec.constraints.parts import Constant, Ground, Operation, terms

SIZES = ("tile.rows", "tile.columns", "tile.kernels", "tile.channels")
"""Words for the sizes of a group's tile."""

LOOPS = {"tile.halo": HALOS, "tile.order": ORDERS, "tile.parameters": PARAMETERS}
"""Words for how a group's tiles follow each other, and what each can be."""

COSTS = ("cycles", "traffic", "energy", "memory")
"""What a group costs and, without ``group.`` before it, the whole plan: sums, but for the memory."""


class Told(NamedTuple):
    """What constraints tell of a group.

    Attributes
    ----------
    keeps
        What the group alone decides, and must keep.
    tells
        Terms that other constraints have; those for a whole plan stand for what the group adds to them.
    capped
        Costs of which a plan may have so much, so that less is never worse.
    """

    keeps: tuple[Ground, ...] = ()
    tells: tuple[Term, ...] = ()
    capped: tuple[str, ...] = ()


def decided(term: Term, members: set[str]) -> bool:
    """Whether a term is decided by a group with these members, whatever the others are."""
    inside = [argument in members for argument in term.arguments]
    if term.word == "together":
        return any(inside)
    return all(inside) if term.word == "before" else bool(inside) and inside[0]


def told_of(problem: Problem, members: set[str], apart: bool = True) -> Told:
    """Return what constraints tell of a group with these members.

    Parameters
    ----------
    apart
        Whether constraints count that other groups take part in.
    """
    keeps: list[Ground] = []
    tells: dict[Term, None] = {}
    capped = {"memory": None} if problem.minimise == "memory" else {}
    for part in problem.must_hold_in_numbers:
        found = terms(part)
        if found and all(decided(term, members) for term in found):
            keeps.append(part)
        elif _is_cap(part):
            capped |= dict.fromkeys(term.word for term in found)
        else:
            tells |= {term: None for term in found if not term.arguments or decided(term, members)}
    # Of what a group costs as `TileChoice` has it, less is never worse in any case.
    capped.pop("cycles" if problem.minimise == "memory" else problem.minimise, None)
    return Told(tuple(keeps), tuple(tells), tuple(capped)) if apart else Told(tuple(keeps))


def _is_cap(part: Ground) -> bool:
    """Whether a part says how much of a cost a plan may have at most."""
    if not isinstance(part, Operation) or part.operator not in ("<=", "<"):
        return False
    cost, most = part.operands
    return isinstance(most, Constant) and isinstance(cost, Term) and cost.word in COSTS


def value_in(term: Term, order: Sequence[str], choice: TileChoice) -> int:
    """Return the value of a term in a group, of a whole plan what the group adds; names are their numbers.

    Parameters
    ----------
    order
        Names of the group's operations, as they are executed.
    """
    known = of_members(term, order)
    if known is not None:
        return known
    if term.word in SIZES:
        return int(getattr(choice.tile, term.word.removeprefix("tile.")))
    if term.word in LOOPS:
        return LOOPS[term.word].index(getattr(choice.tile, term.word.removeprefix("tile."))) + 1
    if term.word == "buffer":
        return choice.buffers[BUFFERS.index(str(term.arguments[1]))]
    word = term.word.removeprefix("group.")
    return int(choice.peak if word == "memory" else getattr(choice, word))


def keeps_alone(told: Told, name: str) -> bool:
    """Whether an operation of the host, which has no tile, may stand alone as it does."""
    return all(value(part, lambda term: of_members(term, (name,))) for part in told.keeps)


def of_members(term: Term, order: Sequence[str]) -> int | None:
    """Return the value of a term that the members and their order decide, None of others."""
    match term.word:
        case "together":
            return int(all(argument in order for argument in term.arguments))
        case "size":
            return len(order)
        case "before":
            first, second = (order.index(str(argument)) for argument in term.arguments)
            return int(first < second)
        case "groups":
            return 1
    return None


def tile_options(
    problem: Problem,
    nodes: Sequence[int],
    whole: bool,
    told: Told,
    max_bytes: int | None = None,
    layouts: Decided | None = None,
) -> list[TileChoice]:
    """Return the best tile and order of a group for all that constraints tell apart, the best first.

    Parameters
    ----------
    nodes, whole, max_bytes, layouts
        As `best_tile` has them.
    """
    if not any(told):
        choice = best_tile(problem, nodes, whole, max_bytes, layouts)
        return [] if choice is None else [choice]
    found: dict[tuple[int, ...], list[TileChoice]] = {}
    for order in problem.orders_of(nodes).listed:
        space = space_of(problem, problem.fused(order, layouts), whole)
        if space is not None:
            names = [problem.ops[node].name for node in order]
            places = tuple(map(list(nodes).index, order))
            _Tiles(problem, space, names, told, max_bytes).collect(places, found)
    return sorted((one for each in found.values() for one in each), key=lambda one: one.rank)


class _Tiles:
    """The tiles of a group whose operations have an order."""

    def __init__(
        self,
        problem: Problem,
        space: TileSpace,
        order: Sequence[str],
        told: Told,
        max_bytes: int | None,
    ) -> None:
        self.problem, self.space, self.order, self.told = problem, space, order, told
        self.tables: dict[Term, Any] = {}
        known = {term for part in told.keeps for term in terms(part)} | {*told.tells, *map(Term, told.capped)}
        for term in known:
            table = self._table(term)
            if table is not None:
                self.tables[term] = np.broadcast_to(table, space.bounds.shape)
        self.late = [part for part in told.keeps if not terms(part) <= self.tables.keys()]
        allowed = space.bounds < NEVER
        if max_bytes is not None:
            allowed = allowed & (space.peaks <= max_bytes)
        for part in told.keeps:
            if part not in self.late:
                allowed = allowed & value(part, self.tables.__getitem__)
        costs = np.where(allowed, space.bounds, 0)
        self.costs = np.where(allowed, cost_of(problem, costs, space.traffic, space.macs), NEVER).reshape(-1)

    def _table(self, term: Term) -> Any:
        """Return what a term is for all tiles, None where only a schedule tells."""
        space = self.space
        known = of_members(term, self.order)
        if known is not None:
            return bool(known) if term.word in ("together", "before") else known
        match term.word:
            case "tile.rows":
                return np.array(space.rows.sizes)[:, None]
            case "tile.columns":
                return np.array(space.columns.sizes)
            case "group.traffic" | "traffic":
                return space.traffic
            case "group.memory" | "memory":
                return space.peaks
        if term.word in SIZES or term.word in LOOPS:
            each = [getattr(way, term.word.removeprefix("tile.")) for way in space.ways]
            if term.word in LOOPS:
                each = [LOOPS[term.word].index(one) + 1 for one in each]
            return np.array(each)[:, None, None]
        return None

    def collect(self, places: tuple[int, ...], found: dict[tuple[int, ...], list[TileChoice]]) -> None:
        """Add to what is found, by the values of what constraints tell apart."""
        told, caps = self.told, [Term(word) for word in self.told.capped]
        early = all(term in self.tables for term in (*told.tells, *caps))
        flat = {term: table.reshape(-1) for term, table in self.tables.items()}

        def is_beaten(index: int) -> bool:
            """Whether a tile's bound says that another one is better in all that is limited."""
            same = found.get(tuple(int(flat[term][index]) for term in told.tells), [])
            return any(
                one.cost < self.costs[index]
                and all(value_in(cap, (), one) <= flat[cap][index] for cap in caps)
                for one in same
            )

        for index in np.argsort(self.costs, kind="stable").tolist():
            if self.costs[index] == NEVER:
                break
            if early and is_beaten(index):
                continue
            choice = self._choice(index, places)
            if choice is None:
                continue
            told_values = tuple(value_in(term, self.order, choice) for term in told.tells)
            _keep(found.setdefault(told_values, []), choice, told.capped)

    def _choice(self, index: int, places: tuple[int, ...]) -> TileChoice | None:
        """Return what a tile costs, None if it breaks what only its schedule tells."""
        choice = evaluate_tile(self.problem, self.space.fused, self.space.tile(index))
        choice = choice._replace(places=places)
        if all(value(part, lambda term: value_in(term, self.order, choice)) for part in self.late):
            return choice
        return None


def _keep(known: list[TileChoice], choice: TileChoice, capped: tuple[str, ...]) -> None:
    """Add a tile unless another one costs no more and takes no more of what is limited; drop others."""

    def figures(one: TileChoice) -> tuple[int, ...]:
        return (one.cost, *(value_in(Term(word), (), one) for word in capped))

    def beats(one: TileChoice, other: TileChoice) -> bool:
        pairs = [*zip(figures(one), figures(other), strict=True)]
        return all(a <= b for a, b in pairs) and (any(a < b for a, b in pairs) or one.rank <= other.rank)

    if not any(beats(one, choice) for one in known):
        known[:] = [one for one in known if not beats(choice, one)] + [choice]
