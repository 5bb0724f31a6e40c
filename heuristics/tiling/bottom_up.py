"""Bottom up: a plan for any layer on any hierarchy of memories, in milliseconds.

It begins with tiles of one element, which nearly always fit. Arrays get the loops whose unrolling costs
least, then tiles grow by one prime factor at a time, memory by memory from the innermost outwards, as long
as all fit and that saves something. Of each memory's loops the operand that stays in place is chosen with
them. At last single factors move between any two levels, for as long as that saves something.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from tilewright.spec.errors import InputError
from tilewright.tiling import Plan, Problem, kind_of, violation
from tilewright.tiling.hierarchy.batch import Batch, Costs, Nests, Sizes, Values
from tilewright.tiling.hierarchy.charges import OUTPUT
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.loops import LETTERS, OPERANDS, STILL
from tilewright.tiling.hierarchy.nest import divisors
from tilewright.tiling.hierarchy.plan import HierarchyPlan

IN_PROCESS = True
"""It takes milliseconds for a layer, less than it takes to start a process."""

MOST_UNROLLED = 48
"""Ways to unroll loops over an axis that are compared."""

MOST_CHOICES = 5
"""Choices of what is held that are tried beside the first one."""

ROUNDS = 12
"""Most factors that are moved at last."""

TIE = 1e-4
"""Weight of all ticks beside those that limit the cycles: of plans that take as long, the idler is better."""

BROKEN = 1e3
"""Weight of what a limit of cost is exceeded by."""


class State(NamedTuple):
    """A nest, and what it is worth: the less the better."""

    blocks: Sizes
    stays: Sizes
    value: float


def suits(problem: Problem) -> bool:
    """Whether the heuristic has plans for a problem: not where limits depend on optima yet to be found."""
    if problem.machine.kind != "hierarchy" or problem.before:
        return False
    return problem.layer is not None or problem.coupled is not None


def plan(problem: Problem) -> Plan:
    """Return a plan; where costs are limited, one within the limits if one of a few is."""
    limited = problem.limits.at_most.given
    found = [_plan(problem, problem.counted)]
    for goal in limited:
        if violation(problem, found[-1]) is not None and goal != problem.counted:
            found.append(_plan(problem, goal))
    return next((one for one in found if violation(problem, one) is None), found[0])


def smallest(problem: Problem) -> Plan:
    """Return the plan of a layer from which `plan` begins, where there is no time for more."""
    mapper, state = _begun(problem, problem.counted)
    return Plan((mapper.plan(state),), front=problem.minimise == "pareto")


def _plan(problem: Problem, goal: str) -> Plan:
    """Return a plan with little of a cost, of each layer of a network."""
    if problem.layer is not None:
        return Plan((_plan_of_layer(problem, goal),), front=problem.minimise == "pareto")
    known: dict[int, Plan] = {}
    for _, part in problem.parts:
        if id(part) in known:
            continue
        one = part.with_(objective={"minimise": goal})
        exact = None if part.operation is None else kind_of(part).exhaustive(one, float("inf"))
        known[id(part)] = _plan(one, goal) if exact is None else Plan(exact.layers)
    return Plan.joined([known[id(part)] for _, part in problem.parts])


def _plan_of_layer(problem: Problem, goal: str) -> HierarchyPlan:
    """Choose what is held: as much as can be, or what differs from that in one level and is better."""
    mapper, state = _begun(problem, goal)
    best = mapper, mapper.map(state)
    near = [kept for kept in _choices(problem) if _differences(kept, mapper.kept) == 1]
    for kept in near[:MOST_CHOICES]:
        other = _Mapper(problem, goal, kept)
        if (begun := other.start()) is not None:
            best = min(best, (other, other.map(begun)), key=lambda pair: pair[1].value)
    return best[0].plan(best[1])


def _begun(problem: Problem, goal: str) -> tuple[_Mapper, State]:
    """Return the nest whose tiles have one element each, where as much is held as can be."""
    for kept in _choices(problem):
        mapper = _Mapper(problem, goal, kept)
        if (state := mapper.start()) is not None:
            return mapper, state
    levels = [level.name for level in problem.machine.levels] if problem.machine.kind == "hierarchy" else []
    raise InputError("machine.levels", levels, "have a memory that is too small for the rule's first tiles")


def _choices(problem: Problem) -> list[Kept]:
    """Return what plans may hold, the most first."""
    assert problem.machine.kind == "hierarchy"
    return sorted(problem.machine.choices, key=lambda kept: -sum(len(held) for _, held in kept))


def _differences(one: Kept, other: Kept) -> int:
    return sum(a != b for a, b in zip(one, other, strict=True))


class _Mapper:
    """Makes a nest of a layer on a machine of which is decided what its levels hold."""

    def __init__(self, problem: Problem, goal: str, kept: Kept) -> None:
        self.kept, self.goal, self.limits = kept, goal, problem.limits.at_most.given
        assert problem.machine.kind == "hierarchy"
        self.machine = problem.machine.keeping(kept)
        goals = tuple(dict.fromkeys((goal, *self.limits)))
        self.batch = Batch(problem.one_layer, self.machine, goals, problem.level)

    def start(self) -> State | None:
        """Return the nest whose tiles have one element each, None where they do not fit.

        If need be outputs stay until they are complete, and so are narrow in all memories but the last.
        """
        nodes = len(self.machine.nodes)
        blocks = np.ones((1, nodes + 1, len(LETTERS)), np.int64)
        blocks[0, 0] = self.batch.sizes
        starts = (self._best(Nests(blocks, np.full((1, nodes), o))) for o in (0, OUTPUT))
        return next((state for state in starts if state is not None), None)

    def map(self, state: State) -> State:
        """Return a good nest, made from the smallest one."""
        nodes = self.machine.nodes
        for i, node in enumerate(nodes):
            if node.axis is not None:
                state = self._better(state, self._unrolled(state, i, node.axis.size))
        for i in reversed(self.batch.memories[1:]):
            while (grown := self._better(state, self._grown(state, i))) is not state:
                state = grown
        for _ in range(ROUNDS):
            if (moved := self._better(state, self._moved(state))) is state:
                break
            state = moved
        return state

    # Neighbours --------------------------------------------------------------------------------------

    def _unrolled(self, state: State, i: int, size: int) -> Nests:
        """Return nests in which loops of the outermost memory are unrolled over an axis."""
        trips = state.blocks[0] // state.blocks[1]
        ways = [np.ones(len(LETTERS), np.int64)]
        for loop in self._loops(i):
            longer = []
            for factor in divisors(int(trips[loop]))[1:]:
                longer += [_with(way, loop, factor) for way in ways if way.prod() * factor <= size]
            ways = sorted([*ways, *longer], key=lambda way: -int(way.prod()))[:MOST_UNROLLED]
        blocks = np.repeat(state.blocks[None], len(ways), axis=0)
        blocks[:, 1 : i + 1] *= np.array(ways)[:, None]
        return self._with_stays(state, blocks, [0])

    def _grown(self, state: State, i: int) -> Nests:
        """Return nests in which a memory has one factor more of a loop, from the outermost memory."""
        moves = [
            (0, i, loop, prime) for loop in self._loops(i) for prime in _primes(self._trips(state, 0, loop))
        ]
        return self._with_stays(state, _after(state.blocks, moves), [0, i])

    def _moved(self, state: State) -> Nests:
        """Return nests in which one factor belongs to another node, or another operand stays.

        Also those in which a node gives a factor of one loop to the outermost memory for one of another loop:
        where a memory or an array is full, nothing else is left.
        """
        nodes = range(len(self.machine.nodes))
        moves = [
            (a, b, loop, prime)
            for a in nodes
            for loop in range(len(LETTERS))
            for prime in _primes(self._trips(state, a, loop))
            for b in nodes
            if b != a and loop in self._loops(b)
        ]
        moved = self._with_stays(
            state, np.concatenate([_after(state.blocks, moves), self._swapped(state)]), []
        )
        others = self._with_stays(state, state.blocks[None], self.batch.memories)
        return Nests(*map(np.concatenate, zip(moved, others, strict=True)))

    def _swapped(self, state: State) -> Sizes:
        """Return blocks after a factor of a node has been exchanged for one of the outermost memory."""
        moves = [
            (i, loop, prime, other, factor)
            for i in range(1, len(self.machine.nodes))
            for loop in self._loops(i)
            for prime in _primes(self._trips(state, i, loop))
            for other in self._loops(i)
            for factor in _primes(self._trips(state, 0, other))
            if other != loop
        ]
        away = _after(state.blocks, [(i, 0, loop, prime) for i, loop, prime, _, _ in moves])
        for blocks, (i, _, _, other, factor) in zip(away, moves, strict=True):
            blocks[1 : i + 1, other] *= factor
        return away

    def _with_stays(self, state: State, blocks: Sizes, at: list[int]) -> Nests:
        """Return nests with each operand in turn staying in place at some nodes, one after the other."""
        stays = [state.stays]
        for i in at:
            stays += [_with(each, i, o) for each in stays for o in range(3) if o != each[i]]
        return Nests(np.repeat(blocks, len(stays), axis=0), np.tile(np.array(stays), (len(blocks), 1)))

    def _loops(self, i: int) -> list[int]:
        return [LETTERS.index(loop) for loop in self.machine.allowed[i]]

    def _trips(self, state: State, i: int, loop: int) -> int:
        return int(state.blocks[i, loop] // state.blocks[i + 1, loop])

    # Choice ------------------------------------------------------------------------------------------

    def _better(self, state: State, nests: Nests) -> State:
        """Return the best of some nests if it is better than a state, and that one if not."""
        best = self._best(nests)
        return state if best is None or best.value >= state.value * (1 - 1e-12) else best

    def _best(self, nests: Nests) -> State | None:
        """Return the best of some nests that fit."""
        elements = self.batch.elements(nests.blocks)
        fitting = self.batch.fit(nests, elements)
        if not fitting.any():
            return None
        nests = Nests(nests.blocks[fitting], nests.stays[fitting])
        values = self._values(self.batch.costs(nests, elements[fitting]))
        at = int(values.argmin())
        return State(nests.blocks[at], nests.stays[at], float(values[at]))

    def _values(self, costs: Costs) -> Values:
        """Return what nests are worth."""
        busy = costs.cycles + TIE * costs.busy
        values = busy if self.goal == "cycles" else costs.spent[:, 0]
        if self.goal == "edp":
            values = values * busy
        names = [name for name in (self.goal, *self.limits) if name != "cycles"]
        for name, most in self.limits.items():
            cost = costs.cycles if name == "cycles" else costs.spent[:, names.index(name)]
            values = values * (1 + BROKEN * np.maximum(0, cost / max(1, most) - 1))
        return np.asarray(values)

    # Plans -------------------------------------------------------------------------------------------

    def plan(self, state: State) -> HierarchyPlan:
        """Return the plan of a nest."""
        nest = []
        for i, (outer, inner) in enumerate(pairwise(state.blocks)):
            trips, stays = outer // inner, int(state.stays[i])
            sliding = self.batch.sliding(i, stays, inner, trips)
            still = STILL[OPERANDS[stays]]
            parts = ["".join(loop for loop in LETTERS if loop not in still), still]
            order = "".join(part.replace(sliding, "") + sliding * (sliding in part) for part in parts)
            loops = [(loop, LETTERS.index(loop)) for loop in (order if sliding else "".join(parts))]
            nest.append(tuple((loop, int(inner[number])) for loop, number in loops if trips[number] > 1))
        return HierarchyPlan(tuple(nest), self.kept)


def _with(values: Sizes, at: int, value: int) -> Sizes:
    """Return a copy with another value at one place."""
    copy = values.copy()
    copy[at] = value
    return copy


def _after(blocks: Sizes, moves: list[tuple[int, int, int, int]]) -> Sizes:
    """Return blocks after a factor of a loop has gone from one node to another one, for each move."""
    found = np.repeat(blocks[None], len(moves), axis=0)
    for each, (a, b, loop, prime) in zip(found, moves, strict=True):
        if a < b:
            each[a + 1 : b + 1, loop] *= prime
        else:
            each[b + 1 : a + 1, loop] //= prime
    return found


def _primes(number: int) -> list[int]:
    """Return the prime factors of a number, each once."""
    found, divisor = [], 2
    while divisor * divisor <= number:
        if number % divisor == 0:
            found.append(divisor)
            while number % divisor == 0:
                number //= divisor
        divisor += 1
    return [*found, number] if number > 1 else found
