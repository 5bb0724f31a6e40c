"""The best plan where constraints tell splits apart: branch and bound over the layers.

It also goes on where rows are divided and buffers limited, which no table decides.

*Options.* Of a layer's splits one stands for all that have the same values of all words that constraints say
of that layer, and are alike in what else counts. Where times of starts count, these are row groups and
cycles of a beat, so a slower split stays. Otherwise PEs and load count, and a split gives way to one with no
more of either, unless constraints look at the PEs or the interval of all layers. Where constraints look at
no PEs of a layer, nor at how it is divided, PEs without work are never needed.

*Interval and PEs.* One of the two is a sum over layers and the other a maximum. A least sum is found by
branch and bound. For the least maximum, limits on it are tried by bisection, since plans below one limit are
below all higher ones. Layers of which constraints say nothing get their cheapest options below the limit.

*Latency*, and whatever depends on starts: layers are decided in their order. What all plans of a node have in
common bounds them, as `tilewright.allocation.bounds` argues: levels of layers are at least the loads before
them, a layer starts ``ahead[0]`` beats after each producer at least, and ends no earlier than each corner of
its lead says. With matched pacing, levels and starts of decided layers are known.
"""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

from tilewright.allocation.bounds import find_obstacle
from tilewright.allocation.energy import leakage_per_cycle, own_energy
from tilewright.allocation.exact.options import every_split, undominated_splits
from tilewright.allocation.exact.trimming import SECONDS, plan_of, rank
from tilewright.allocation.geometry import Scan
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import HostTable, given_of, schedule
from tilewright.allocation.splits import LayerSplit
from tilewright.allocation.stages import Stage
from tilewright.allocation.vocabulary import OF_ALL_SPLITS, OF_SPLITS, split_value
from tilewright.core.branch_and_bound import check_deadline
from tilewright.core.context import Outcome, RunContext, Status
from tilewright.spec.constraints import Term, meaning
from tilewright.spec.constraints.parts import terms
from tilewright.spec.constraints.ranges import Range, can_hold
from tilewright.spec.errors import InputError, OutOfTimeError

MOST_SPLITS = 300_000
"""Most splits of a layer that are looked at."""

LOOKED_AT = 64
"""Options between two looks at the clock."""

NEVER = 2**60
"""More than any time or amount."""


class Option(NamedTuple):
    """A split of a layer.

    Attributes
    ----------
    high, add
        Of its PEs and its load the one of which the largest counts, and the one that is added up.
    values
        Of the words that constraints say of the layer.
    energy
        Of the layer's frame, leakage apart, where energy counts.
    """

    split: LayerSplit
    high: int
    add: int
    values: dict[Term, int]
    energy: int = 0


# From what layers choose -------------------------------------------------------------------------------


def all_terms(problem: Problem) -> frozenset[Term]:
    """Return the terms of all constraints of a problem."""
    return frozenset(term for part in problem.must_hold_in_numbers for term in terms(part))


def energy_counts(problem: Problem) -> bool:
    """Whether energy is minimised, or constraints speak of it."""
    return problem.minimise == "energy" or any(term.word == "energy" for term in all_terms(problem))


def depends_on_starts(problem: Problem) -> bool:
    """Whether a plan's cost or validity depends on when layers start."""
    if not problem.parallel:
        return False
    words = {term.word for term in all_terms(problem)}
    other = words - {*OF_SPLITS, *OF_ALL_SPLITS}
    return bool(other) or problem.minimise == "latency" or problem.machine.buffer_words is not None


class Told(NamedTuple):
    """What tells the splits of a layer apart.

    Attributes
    ----------
    own
        Terms of constraints that the layer's split decides.
    words
        Words of all constraints.
    starts
        Whether a plan's cost or validity depends on when layers start.
    spends
        Whether its energy counts.
    """

    problem: Problem
    stage: Stage
    own: tuple[Term, ...]
    words: frozenset[str]
    starts: bool
    spends: bool

    @classmethod
    def of(cls, problem: Problem, stage: Stage) -> Told:
        """Return what tells the splits of a layer apart."""
        found = all_terms(problem)
        own = (term for term in found if term.word in OF_SPLITS and term.arguments[0] == stage.name)
        words = frozenset(term.word for term in found)
        spends = energy_counts(problem)
        return cls(problem, stage, tuple(sorted(own, key=str)), words, depends_on_starts(problem), spends)

    def values(self, split: LayerSplit) -> dict[Term, int]:
        """Return the values of the layer's own terms."""
        return {term: split_value(self.problem, self.stage.number, split, term) for term in self.own}

    def key(self, split: LayerSplit) -> tuple[int, ...]:
        """Return what is equal of splits of which one may stand for the others."""
        task = self.stage.task
        timed = (split.rows, split.cycles(task)) if self.starts else ()
        pes = (split.pes,) if self.words & {"used_pes", "energy"} else ()
        load = (split.load(task),) if self.words & {"interval", "energy"} else ()
        spent = (self.energy(split),) if "energy" in self.words else ()
        return (*self.values(split).values(), *timed, *pes, *load, *spent)

    def energy(self, split: LayerSplit) -> int:
        """Return the energy of a split, leakage apart; 0 where it does not count."""
        return own_energy(self.problem, self.stage, split) if self.spends else 0

    def every_split(self) -> Iterator[LayerSplit]:
        """Yield all splits; those with PEs or units without work only if constraints may ask for them."""
        said = {term.word for term in self.own}
        parts = bool(said & {"pes", "split"}) or bool(self.words & {"used_pes", "energy"})
        found = every_split(self.problem, self.stage, parts=parts, units="units" in said)
        for count, split in enumerate(found):
            if count == MOST_SPLITS and self.problem.constraints:
                limit = f"layer {self.stage.name} has more than {MOST_SPLITS} splits to be told apart"
                raise InputError("constraints", str(self.problem.constraints[0]), limit)
            yield split


def options_of(problem: Problem) -> list[list[Option]]:
    """Return from what each layer has to choose, the fewest of `Option.add` first.

    Raises
    ------
    InputError
        If a layer has more than `MOST_SPLITS` splits.
    """
    return [_options(Told.of(problem, stage)) for stage in problem.stages]


def _options(told: Told) -> list[Option]:
    alike: dict[tuple[int, ...], list[LayerSplit]] = {}
    for split in told.every_split():
        alike.setdefault(told.key(split), []).append(split)
    options = [
        Option(
            split,
            *_high_and_add(told.problem, told.stage, split),
            told.values(split),
            told.energy(split),
        )
        for splits in alike.values()
        for split in _best_of(splits, told)
    ]
    return sorted(options, key=lambda option: (option.add, option.high, option.split))


def stand_in(told: Told, options: Sequence[LayerSplit], split: LayerSplit) -> LayerSplit:
    """Return the split among a layer's options that stands for another one; of none that is valid, any."""
    key, load = told.key(split), split.load(told.stage.task)
    alike = (one for one in options if told.key(one) == key)
    fitting = (
        one
        for one in alike
        if one.pes <= split.pes
        and one.load(told.stage.task) <= load
        and told.energy(one) <= told.energy(split)
    )
    return next(fitting, options[0])


def _best_of(splits: list[LayerSplit], told: Told) -> list[LayerSplit]:
    """Return the splits that have less load, or less energy, than all with no more PEs."""
    costs = ((split.pes, split.load(told.stage.task), told.energy(split), split) for split in splits)
    return undominated_splits(costs)


def _high_and_add(problem: Problem, stage: Stage, split: LayerSplit) -> tuple[int, int]:
    load = split.load(stage.task)
    return (load, split.pes) if problem.parallel else (split.pes, load)


# The search --------------------------------------------------------------------------------------------


def search(
    problem: Problem, context: RunContext, known: Plan | None = None, bound: int | None = None
) -> Outcome:
    """Return the best plan that keeps all constraints, and what is proven of it.

    Parameters
    ----------
    known
        A valid plan.
    bound
        No plan costs less.
    """
    told = find_obstacle(problem)
    if told is not None:
        return Outcome("infeasible")
    tree = ConstrainedSearch(problem, context)
    tree.bound = bound
    if known is not None:
        tree.know(known)
    try:
        tree.run()
    except OutOfTimeError:
        status: Status = "feasible" if tree.best else "unknown"
        return Outcome(status, tree.best and tree.best.plan, tree.bound)
    if tree.best is None:
        return Outcome("infeasible")
    context.on_bound(tree.best.cost)
    return Outcome("optimal", tree.best.plan, tree.best.cost)


class Known(NamedTuple):
    """The best plan so far, what it costs, and the sum of `Option.add`."""

    plan: Plan
    cost: int
    total: int


class Found(Exception):
    """A plan was found where any is good enough."""


class ConstrainedSearch:
    """The search that the module describes.

    Attributes
    ----------
    best
        The best plan so far.
    bound
        No plan costs less; None as long as nothing is known.
    """

    def __init__(self, problem: Problem, context: RunContext) -> None:
        self.problem, self.context, self.deadline = problem, context, context.deadline
        self.parts, self.vocabulary = problem.must_hold_in_numbers, problem.vocabulary
        self.starts = depends_on_starts(problem)
        self.scan = Scan(problem)
        self.best: Known | None = None
        self.bound: int | None = None
        self.every = options_of(problem)
        most, pes = NEVER if problem.most_load is None else problem.most_load, problem.machine.pes
        self.most_high, self.most_add = (most, pes) if problem.parallel else (pes, most)
        self.by_energy = problem.minimise == "energy"
        self.by_latency = problem.parallel and problem.minimise == "latency"
        self.by_cost = self.by_energy or self.by_latency
        related = _related(problem, starts=self.starts)
        self._order = [stage.number for stage in problem.stages if stage.number in related]
        self._looks, self._any, self._found, self._pacing = 0, False, False, PACINGS[0]
        self._layers: list[_Layer] = []

    def know(self, plan: Plan) -> None:
        """Look only for plans that are better than a valid one."""
        adds = (
            split.pes if self.problem.parallel else split.load(stage.task)
            for stage, split in zip(self.problem.stages, plan.splits, strict=True)
        )
        self.best = Known(plan, rank(self.problem, plan, self.scan)[0], sum(adds))

    def shorten(self, interval: int) -> None:
        """Look only for plans of such an interval or less."""
        if self.problem.parallel:
            self.most_high = interval if interval >= self.problem.host_period else -1
        else:
            self.most_add = interval - self.problem.host_period

    def run(self) -> None:
        """Search to the end: then `best` is the best plan, or there is none.

        Raises
        ------
        OutOfTimeError
            When the deadline passes.
        """
        if self.by_cost or (self.problem.minimise == "pes") == self.problem.parallel:
            self._within(self.most_high, any_plan=False)
            return
        highs = {o.high for options in self.every for o in options if o.high <= self.most_high}
        limits = sorted(set(map(self._cost_of_high, highs)))
        low, high = 0, len(limits) if self.best is None else bisect_left(limits, self.best.cost)
        while low < high:  # there is no plan within limits before `low`, but one from `high` on
            middle = (low + high) // 2
            if self._within(limits[middle], any_plan=True):
                assert self.best is not None
                high = limits.index(self.best.cost)
                continue
            low = middle + 1
            if low < len(limits):
                self.bound = limits[low]
                self.context.on_bound(self.bound)
        if self.best is not None:
            self._save(self.best.cost)

    def _cost_of_high(self, high: int) -> int:
        """Return what a plan costs whose largest `Option.high` is given: an interval or PEs."""
        return self.problem.interval_at(high) if self.problem.parallel else high

    def _save(self, cost: int) -> None:
        """Look for the least sum among the best plans, for a while."""
        self.deadline = min(self.deadline, time.monotonic() + SECONDS)
        with suppress(OutOfTimeError):
            self._within(cost, any_plan=False)

    def _within(self, limit: int, *, any_plan: bool) -> bool:
        """Look for the best plan, or any, with no larger `Option.high`; return whether one was found."""
        self._any, self._found = any_plan, False
        options = [[o for o in every if o.high <= limit] for every in self.every]
        if not all(options):
            return False
        self._layers = [_Layer(some, self._order_of) for some in options]
        least = sum(layer.least for layer in self._layers)
        if least > self.most_add:
            return False
        with suppress(Found):
            for pacing in PACINGS if self.starts else PACINGS[:1]:
                self._pacing = pacing
                self._descend(0, least)
        return self._found

    def _descend(self, depth: int, total: int) -> None:
        """Go through all plans of a node; `total` is the least sum that they can have."""
        if depth == len(self._order):
            self._take(total)
            return
        layer = self._layers[self._order[depth]]
        for option in layer.options:
            self._looks += 1
            if self._looks % LOOKED_AT == 0:
                check_deadline(self.deadline)
            more = total - layer.least + option.add
            if more <= self.most_add and self._worth(more):
                layer.chosen = option
                if self._possible(more):
                    self._descend(depth + 1, more)
            elif not self.by_cost:
                break  # others have no less
        layer.chosen = None

    def _order_of(self, option: Option) -> tuple[int, ...]:
        """Return by what a layer's options are sorted: the likeliest to be part of a good plan first."""
        if self.by_energy:
            return option.energy, option.high, option.add
        return (option.high, option.add) if self.by_latency else (option.add,)

    def _worth(self, total: int) -> bool:
        """Whether plans of a sum are wanted."""
        return self._any or self.by_cost or self.best is None or total < self.best.total

    def _possible(self, total: int) -> bool:
        """Whether a node may have plans that are wanted."""
        spare = self.most_add - total
        node = (Started if self.starts else Node)(self.problem, self._layers, total, spare)
        most = NEVER if self.best is None else self.best.cost
        if self.by_energy and node.energy[0] >= most:
            return False
        if isinstance(node, Started):
            node.follow(self.scan, self._pacing)
            if self.by_latency and node.latency[0] >= most:
                return False
        return all(can_hold(part, node.range_of) for part in self.parts)

    def _take(self, total: int) -> None:
        """Look at a plan in which every layer has its option."""
        check_deadline(self.deadline)
        splits = [(layer.chosen or layer.options[0]).split for layer in self._layers]
        pacings = (self._pacing,) if self.starts or not self.problem.parallel else PACINGS
        plans = [plan_of(self.problem, splits, pacing) for pacing in pacings]
        plan = min(plans, key=lambda one: rank(self.problem, one, self.scan))
        cost = rank(self.problem, plan, self.scan)[0]
        if self.by_cost and self.best is not None and cost >= self.best.cost:
            return
        if not self._keeps(plan):
            return
        self._found, self.best = True, Known(plan, cost, total)
        self.context.on_plan(plan)
        if self._any:
            raise Found

    def _keeps(self, plan: Plan) -> bool:
        """Whether a plan, whose splits keep all limits, keeps that of buffers, and the constraints."""
        capacity = self.problem.machine.buffer_words
        if capacity is not None and schedule(self.problem, plan, self.scan).storage > capacity:
            return False
        view = self.vocabulary.view(plan)

        def values(term: Term) -> int:
            value = self.vocabulary.value(term, view)
            return PACINGS.index(value) + 1 if isinstance(value, str) else int(value)

        return all(meaning.value(part, values) for part in self.parts)


def _related(problem: Problem, *, starts: bool) -> set[int]:
    """Return the numbers of the layers whose options have to be tried; of others the least sum counts."""
    found = all_terms(problem)
    if starts or energy_counts(problem) or any(term.word in OF_ALL_SPLITS for term in found):
        return {stage.number for stage in problem.stages}
    named = {str(term.arguments[0]) for term in found}
    return {stage.number for stage in problem.stages if stage.name in named}


class _Layer:
    """From what a layer chooses, and what it has chosen.

    Attributes
    ----------
    least
        Least of `Option.add`.
    least_energy, most_energy
        Of all options.
    """

    def __init__(self, options: list[Option], order: Callable[[Option], tuple[int, ...]]) -> None:
        self.chosen: Option | None = None
        self.least = options[0].add
        self._adds = [option.add for option in options]
        self._highs = list(accumulate((option.high for option in options), min))
        self.most = max(option.high for option in options)
        self.most_add = options[-1].add
        self.least_energy = min(option.energy for option in options)
        self.most_energy = max(option.energy for option in options)
        self.ranges = {
            term: (min(o.values[term] for o in options), max(o.values[term] for o in options))
            for term in options[0].values
        }
        self.options = sorted(options, key=order)

    def lightest(self, spare: int) -> int:
        """Return the least of `Option.high` where the sum may be larger by so much than it must."""
        return self._highs[bisect_right(self._adds, self.least + spare) - 1]


class Node:
    """What the plans in which some layers have their options have in common.

    Parameters
    ----------
    total
        Least sum of `Option.add`.
    spare
        How much larger it may be.
    """

    def __init__(self, problem: Problem, layers: list[_Layer], total: int, spare: int) -> None:
        self.problem, self.layers, self.total, self.spare = problem, layers, total, spare
        self._number = {stage.name: stage.number for stage in problem.stages}

    def range_of(self, term: Term) -> Range:
        """Return what values a term can have."""
        if term.word in OF_SPLITS:
            layer = self.layers[self._number[str(term.arguments[0])]]
            if layer.chosen is None:
                return layer.ranges[term]
            return (layer.chosen.values[term],) * 2
        if term.word == "energy":
            return self.energy
        if term.word == "interval":
            return self._interval
        return self._sum if self.problem.parallel else self._high

    @cached_property
    def _interval(self) -> Range:
        low, high = self._high if self.problem.parallel else self._sum
        return self.problem.interval_at(low), self.problem.interval_at(high)

    @cached_property
    def energy(self) -> Range:
        """What a frame takes at least and at most; leakage grows with PEs and interval."""
        pes, interval = self._sum if self.problem.parallel else self._high, self._interval
        ends = [
            (layer.chosen.energy,) * 2 if layer.chosen else (layer.least_energy, layer.most_energy)
            for layer in self.layers
        ]
        low, high = (
            sum(spent) + interval[end] * leakage_per_cycle(self.problem, pes[end])
            for end, spent in enumerate(zip(*ends, strict=True))
        )
        return low, high

    @cached_property
    def _high(self) -> Range:
        ends = [
            (layer.chosen.high,) * 2 if layer.chosen else (layer.lightest(self.spare), layer.most)
            for layer in self.layers
        ]
        return max(low for low, _ in ends), max(high for _, high in ends)

    @cached_property
    def _sum(self) -> Range:
        more = sum(layer.most_add - layer.least for layer in self.layers if layer.chosen is None)
        return self.total, self.total + min(more, self.spare)


class Started(Node):
    """The same, with what is known of starts where layers work at the same time.

    Attributes
    ----------
    paces, starts, busy
        Ranges of each layer.
    latency
        Its range.
    """

    def follow(self, scan: Scan, pacing: str) -> None:
        """Find out what follows from the options that are chosen."""
        self.pacing = pacing
        self.paces, self.starts, self.busy = list[Range](), list[Range](), list[Range]()
        uniform = pacing == PACINGS[1]
        levels: list[int] = []
        certain: list[bool] = []
        self.latency = 0, 0
        host, begun, busy_for = HostTable(self.problem, 1), list[int](), list[int]()
        once = [1] * len(self.layers)
        for stage, layer in zip(self.problem.stages, self.layers, strict=True):
            producers = [producer for producer in stage.producers if producer >= 0]
            host.advance(stage.number, begun, once, busy_for)
            own = layer.chosen.high if layer.chosen else layer.lightest(self.spare)
            known = layer.chosen is not None and all(certain[producer] for producer in producers)
            if uniform:
                low, high = self._interval
                levels.append(low)
                known = low == high and all(one.chosen is not None for one in self.layers)
            else:
                levels.append(max([own, *(levels[producer] for producer in producers)]))
            certain.append(known)
            beats = self._beats(stage.number)
            pace = levels[-1] // beats
            self.paces.append((pace, pace if known else NEVER))
            busy = pace * beats if known else max(own, levels[-1] - beats + 1)
            self.busy.append((busy, busy if known else NEVER))
            given = given_of(self.problem, stage)
            there = max(map(host.there, given), default=0)
            # When the host has its turn is not known here, but that it waits for what it reads.
            known = known and not any(each.waits for each in given)
            self._begin(scan, stage.number, producers, there, known=known)
            begun.append(self.starts[-1][0])
            busy_for.append(self.busy[-1][0])
        host.advance(len(levels), begun, once, busy_for)
        certain += [high < NEVER for _, high in self.starts]
        latency = max(self.latency[0], host.end)
        self.latency = latency, latency if all(certain) and not self.problem.steps else NEVER

    def _beats(self, number: int) -> int:
        """Return the beats of a layer, the most that it can have where its split is open."""
        task, chosen = self.problem.stages[number].task, self.layers[number].chosen
        return task.rows * task.columns if chosen is None else chosen.split.beats(task)

    def _begin(self, scan: Scan, number: int, producers: list[int], there: int, *, known: bool) -> None:
        """Find out when a layer starts, and when it ends at the earliest.

        Parameters
        ----------
        there
            When what it reads from outside is there at the earliest.
        """
        start, end = there, 0
        known = known and all(self.starts[producer][1] < NEVER for producer in producers)
        pace, beats = self.paces[number][0], self._beats(number)
        rows_split = "rows" in self.problem.limits.splits
        for producer in producers:
            pair = self.layers[producer].chosen, self.layers[number].chosen
            if rows_split and None in pair:
                continue
            groups = tuple(1 if one is None else one.split.rows for one in pair)
            lead = scan.lead(producer, number, (groups[0], groups[1]))
            before, begun = self.paces[producer][0], self.starts[producer][0]
            if known:
                start = max(start, begun + lead.cycles(before, pace))
            else:
                start = max(start, begun + int(lead.ahead[0]) * before)
                end = max(end, begun + int((lead.ahead * before + (beats - lead.done) * pace).max()))
        self.starts.append((start, start if known else NEVER))
        self.latency = max(self.latency[0], end, start + self.busy[number][0]), NEVER

    def range_of(self, term: Term) -> Range:
        """Return what values a term can have."""
        if term.word in (*OF_SPLITS, *OF_ALL_SPLITS):
            return super().range_of(term)
        if term.word == "pacing":
            return (PACINGS.index(self.pacing) + 1,) * 2
        if term.word == "latency":
            return self.latency
        found = {"pace": self.paces, "start": self.starts, "busy": self.busy}.get(term.word)
        return found[self._number[str(term.arguments[0])]] if found else (0, NEVER)
