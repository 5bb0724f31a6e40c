"""The exact search over orders of whole patches: which numbers of reloads are refuted, which has a plan."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.core.bitsets import Words
from tilewright.offloading.bounds import fewest_steps
from tilewright.offloading.cost import objective, violation
from tilewright.offloading.exact.kernel import CHAIN, GONE, SYMMETRIES, States, expand, link
from tilewright.offloading.exact.tables import Tables, pixels_of_patches, tables
from tilewright.offloading.keeping import Cut, planned
from tilewright.offloading.plan import Numbers, Plan
from tilewright.offloading.problem import Problem
from tilewright.spec.errors import OutOfTimeError


@dataclass(frozen=True)
class OrderParams:
    """What the search may use.

    Attributes
    ----------
    widths
        States of each step that the first searches keep, which look for plans and prove nothing.
    patience
        How many of these in a row may find nothing better before they end.
    share
        Of the time, for these at most.
    first_states
        States for which there is room at first, a power of two.
    states_at_once
        States between two looks at the clock.
    most_bytes
        Memory of the states of a step, about.
    """

    widths: tuple[int, ...] = (10, 30, 100, 300, 1_000, 3_000, 10_000)
    patience: int = 3
    share: float = 0.5
    first_states: int = 4096
    states_at_once: int = 16
    most_bytes: int = 2 << 30


PARAMS = OrderParams()


@dataclass(frozen=True)
class Progress:
    """What is known after a search.

    Attributes
    ----------
    bound
        No plan costs less; None if there is no plan.
    plan
        A plan that costs less than those before, or None.
    """

    bound: int | None
    plan: Plan | None = None


def prove(
    problem: Problem, known: int | None, deadline: float, params: OrderParams = PARAMS
) -> Iterator[Progress]:
    """Look for better plans, then raise the bound until a plan meets it, time is up, or memory is full.

    Parameters
    ----------
    known
        Cost of a plan that is known, or None.

    Yields
    ------
    Progress
        After each search that tells something.
    """
    search = _Search(problem, known, params)
    now = time.monotonic()
    yield from search.improve(now + params.share * (deadline - now))
    yield from search.refute(deadline)


class _Search:
    """Numbers of reloads, by the number of steps: those that are refuted, and the best plan so far."""

    def __init__(self, problem: Problem, known: int | None, params: OrderParams) -> None:
        self.problem, self.known, self.params = problem, known, params
        self.layer = tables(problem)
        self.once = len(problem.elements.needed_inputs())
        uses = sum(len(own) for own in pixels_of_patches(problem)) * problem.elements.n_channels
        self.most = uses - self.once
        if problem.max_loads is not None:
            self.most = min(self.most, (problem.max_loads - 1) * self.once)
        fewest, longest = problem.steps_range
        self.least = dict.fromkeys(range(max(fewest, fewest_steps(problem)), longest + 1), 0)
        """Of each number of steps the fewest reloads that are not refuted."""

    def value(self, steps: int, reloads: int) -> int:
        """Return what a plan costs."""
        machine = self.problem.machine
        return self.problem.fixed_cost + machine.load * (self.once + reloads) + machine.compute * steps

    @property
    def bound(self) -> int | None:
        """What no plan costs less than; None if there is no plan."""
        return min((self.value(*each) for each in self.least.items()), default=None)

    def improve(self, deadline: float) -> Iterator[Progress]:
        """Look for plans that cost less, among the states of each step that promise most."""
        in_vain = 0
        for width in self.params.widths:
            if in_vain == self.params.patience:
                return
            in_vain += 1
            for steps in self.least:
                most = self.most
                if self.known is not None:
                    saved = self.known - 1 - self.value(steps, 0)
                    most = min(most, saved // self.problem.machine.load)
                if most < 0:
                    continue
                try:
                    order = order_of(self.layer, steps, most, deadline, self.params, width)
                except OutOfTimeError:
                    return
                plan = self.better(order)
                if plan is not None:
                    in_vain = 0
                    yield Progress(self.bound, plan)

    def refute(self, deadline: float) -> Iterator[Progress]:
        """Refute the cheapest number of steps and of reloads that is left, again and again."""
        if not self.least:  # the fewest steps that memory allows are more than the limit
            yield Progress(None)
        while self.least and (self.known is None or self.known > (self.bound or 0)):
            steps = min(self.least, key=lambda each: (self.value(each, self.least[each]), each))
            reloads = self.least[steps]
            try:
                order = order_of(self.layer, steps, reloads, deadline, self.params)
            except (OutOfTimeError, MemoryError):
                return
            if order is not None:
                yield Progress(self.bound, self.better(order))
                return
            # With fewer steps there is none, either: a step can be cut in two.
            refuted = {each for each, least in self.least.items() if each <= steps and least <= reloads}
            self.least |= dict.fromkeys(refuted, reloads + 1)
            self.least = {each: least for each, least in self.least.items() if least <= self.most}
            yield Progress(self.bound)

    def better(self, order: list[Numbers] | None) -> Plan | None:
        """Return the best plan of an order of groups of patches if it keeps all limits and costs less."""
        if order is None:
            return None
        whole = np.arange(self.problem.elements.n_kernels), np.arange(self.problem.elements.n_channels)
        found = planned(self.problem, [[Cut(patches, *whole)] for patches in order])
        if found is None or violation(self.problem, found) is not None:
            return None
        cost = objective(self.problem, found)
        if self.known is not None and cost >= self.known:
            return None
        self.known = cost
        return found


def order_of(
    layer: Tables,
    steps: int,
    reloads: int,
    deadline: float,
    params: OrderParams = PARAMS,
    width: int | None = None,
) -> list[Numbers] | None:
    """Return the patches of each step of an order with no more reloads than given, or None if there is none.

    Parameters
    ----------
    width
        States of each step that are kept, of which not all are if this is given; None proves nothing then.

    Raises
    ------
    OutOfTimeError
        Where the deadline passes.
    MemoryError
        Where there are too many states.
    """
    states = _space(1, layer)
    states.used[0] = 1
    layers: list[tuple[Words, Numbers]] = []
    for step in range(1, steps + 1):
        weight = 2 if 2 * step <= steps else 1
        rules = (steps - step, int(layer.sizes.max(initial=1)), reloads, weight)
        states = _best(_after(states, layer, rules, deadline, params, width), layer, width)
        many = int(states.used[0])
        layers.append((states.done[:many].copy(), states.origins[:many].copy()))
        if not many:
            return None
    alive = np.flatnonzero(states.reloads[:many] < GONE)
    last = int(alive[np.argmin(states.reloads[alive])])
    return _order(layer, layers, last)


def _after(
    states: States,
    layer: Tables,
    rules: tuple[int, int, int, int],
    deadline: float,
    params: OrderParams,
    width: int | None,
) -> States:
    """Return all states after one more step, or at least the best ones where no more than a width count."""
    after, most = _space(params.first_states, layer), rules[2]
    at, many = 0, int(states.used[0])
    while at < many:
        if time.monotonic() > deadline:
            raise OutOfTimeError
        end = min(many, at + params.states_at_once)
        at = expand(at, end, states, layer, (*rules, most), after)
        if at < end:
            after = _larger(after, layer, params)
        if width is not None:
            there = slice(0, int(after.used[0]))
            totals = after.totals[there][after.reloads[there] < GONE]
            if len(totals) > width:
                most = int(np.partition(totals, width - 1)[width - 1])
    return after


def _space(size: int, layer: Tables) -> States:
    """Return room for so many states."""
    patches, pixels = layer.group_patches.shape[1], layer.group_pixels.shape[1]
    return States(
        np.zeros((size, patches), np.uint64),
        np.zeros((size, CHAIN, pixels), np.uint64),
        np.zeros((size, CHAIN), np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int32),
        np.zeros(size, np.int64),
        np.full(size, -1, np.int64),
        np.full(size, -1, np.int64),
        np.zeros(1, np.int64),
    )


def _larger(states: States, layer: Tables, params: OrderParams) -> States:
    """Return the same states with room for more; those that are left out go.

    Raises
    ------
    MemoryError
        Where there are too many.
    """
    alive = np.flatnonzero(states.reloads[: states.used[0]] < GONE)
    size = len(states.done) * (2 if 4 * len(alive) > len(states.done) else 1)
    if size * sum(column.nbytes for column in _space(1, layer)) > params.most_bytes:
        raise MemoryError
    return _chosen(states, layer, alive, size)


def _best(states: States, layer: Tables, width: int | None) -> States:
    """Return the states that promise most, no more than so many."""
    alive = np.flatnonzero(states.reloads[: states.used[0]] < GONE)
    if width is None or len(alive) <= width:
        return states
    sets = states.sets[alive, 0] * (states.lengths[alive] > 0)[:, None]
    waiting = np.unpackbits(sets.view(np.uint8), axis=1).sum(axis=1)
    order = np.lexsort((waiting, states.totals[alive]))[:width]
    return _chosen(states, layer, alive[np.sort(order)], 1 << (width - 1).bit_length())


def _chosen(states: States, layer: Tables, alive: Numbers, size: int) -> States:
    """Return some states, with room for `size`."""
    found = _space(size, layer)
    for name in ("done", "sets", "slacks", "lengths", "reloads", "totals", "origins"):
        getattr(found, name)[: len(alive)] = getattr(states, name)[alive]
    found.used[0] = len(alive)
    link(found)
    return found


def _order(layer: Tables, layers: list[tuple[Words, Numbers]], last: int) -> list[Numbers]:
    """Return the patches of each step on the way to the last state.

    A state is the image, under some symmetry, of what it was made as: the images are undone from the last
    step to the first.
    """
    n = len(layer.patch_pixels)
    back = np.arange(n)  # from patches of the present state to those of the last
    groups = []
    for step in range(len(layers) - 1, -1, -1):
        done, origins = layers[step]
        before, symmetry = divmod(int(origins[last]), SYMMETRIES)
        image = _permutation(layer, symmetry)
        back = back[image]
        # Patch p before the image is applied is image[p] after it.
        now = _members(done[last], n)[image]
        if step:
            now &= ~_members(layers[step - 1][0][before], n)
        groups.append(np.sort(back[np.flatnonzero(now)]))
        last = before
    return groups[::-1]


def _members(words: Words, n: int) -> NDArray[np.bool_]:
    """Return which patches are in a set."""
    octets = np.ascontiguousarray(words.astype("<u8")).view(np.uint8)
    return np.unpackbits(octets, bitorder="little")[:n].astype(np.bool_)


def _permutation(layer: Tables, symmetry: int) -> Numbers:
    """Return the patch that each patch goes to."""
    found = [
        np.flatnonzero(_members(layer.patch_images[symmetry, patch // 8, 1 << patch % 8], 1 << 20))
        for patch in range(len(layer.patch_pixels))
    ]
    return np.concatenate(found)
