"""Descent: nests of loops over strips of the plane, then orders of patches under simulated annealing.

Loops are tried over several paths, sizes of blocks and orders; for each, what stays on chip is chosen as well
as it can be. Where none keeps the limits, a plan is built cell by cell. Where a step computes all kernels and
channels, a plan is an order of patches: that is then changed until time is up, always with the best choice of
what stays.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import product, zip_longest

import numpy as np

from tilewright.core.context import RunContext
from tilewright.heuristics.offloading import row_by_row, zigzag
from tilewright.heuristics.offloading._orders_kernel import anneal
from tilewright.heuristics.offloading._single_cells import rounds_by_cell
from tilewright.offloading import Plan, Problem
from tilewright.offloading.cost import objective, violation
from tilewright.offloading.keeping import Cut, planned
from tilewright.offloading.loops import cost_of, plan_of, sizes_on
from tilewright.offloading.placing import placed
from tilewright.offloading.plan import Numbers, numbers
from tilewright.offloading.sequences import ORDERS, Loops, largest_groups, stretched, strips
from tilewright.offloading.sequences import row_by_row as rows
from tilewright.spec.errors import InputError

SHARE = 0.5
"""Of the time, for loops where orders of patches can be changed, too, or cells one by one."""

BEST = 12
"""Nests of loops that are tried on all paths."""

STAGES = (0.6, 0.5)
"""Of the time that is left, for loops on the widest path, and then for loops through parts of the outputs."""

PARTS = (1, 2, 3, 4, 6, 8, 12, 16)
"""Groups and kernel groups of a part of the outputs that are tried."""

ATTEMPTS = 4_000
"""Changes of a first round of annealing; each round has half as many again."""


def plan(problem: Problem, search: RunContext) -> Plan:
    """Improve the start, or the better of the baselines without one, until time is up or a bound is met."""
    run = _Run(problem, search)
    orders = problem.kernels_stay and (problem.limits.channels == "all" or problem.elements.n_channels == 1)
    orders = orders and problem.machine.parts == 1 and problem.limits.form == "direct"
    until = search.until(SHARE) if orders else search.deadline
    _change_loops(problem, run, until)
    if orders:
        _change_orders(problem, search, run)
    return run.plan


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    problem = bundled("s1-example2-wide")
    pixels, users = _tables(problem)
    order = np.arange(len(pixels), dtype=np.int64)
    anneal(order, 2, pixels, users, 30, 10, 2.0, 0.5, 1, 0)


class _Run:
    """The best plan so far."""

    def __init__(self, problem: Problem, search: RunContext) -> None:
        self.problem, self.search = problem, search
        found = (
            search.start if search.start is not None and violation(problem, search.start) is None else None
        )
        for baseline in (zigzag, row_by_row):
            if found is None:
                try:
                    found = baseline.plan(problem)
                except InputError:
                    continue
        if found is None:
            found = _any_plan(problem, search)
        if found is None:
            machine, reloads = problem.machine, problem.max_loads or "any"
            limit = (
                "found no plan that keeps the limits, by nests of loops or cell by cell: with more than "
                f"memory = {machine.memory} or reloads = {reloads} there may be one"
            )
            raise InputError("heuristic", "descent", limit)
        self.plan, self.cost = found, objective(problem, found)
        search.on_plan(found)

    @property
    def done(self) -> bool:
        """Whether a proven bound is met."""
        return self.search.bound is not None and self.cost <= self.search.bound

    def try_loops(self, loops: Loops) -> int | None:
        """Take the plan of a nest of loops if it is better; return its cost, without bursts."""
        cost = cost_of(self.problem, loops)
        if cost is not None and cost < self.cost:
            self.take(plan_of(self.problem, loops))
        return cost

    def take(self, found: Plan | None) -> None:
        """Take a plan if it is better."""
        if found is None or violation(self.problem, found) is not None:
            return
        cost = objective(self.problem, found)
        if cost < self.cost:
            self.plan, self.cost = found, cost
            self.search.on_plan(found)


def _any_plan(problem: Problem, search: RunContext) -> Plan | None:
    """Return a plan of any nest of loops, or else cell by cell; None where none was found in time."""
    tried = (loops for path in _paths(problem) for loops in _candidates(problem, path))
    for loops in _by(tried, search.deadline, SHARE):
        found = plan_of(problem, loops)
        if found is not None:
            return found
    rounds = rounds_by_cell(problem, search.seed, search.deadline)
    fitting = None if rounds is None else stretched(problem, rounds)
    made = None if fitting is None else planned(problem, fitting)
    return None if made is None else placed(problem, made, search.deadline)


def _change_loops(problem: Problem, run: _Run, until: float) -> None:
    """Try loops on the widest path, loops through parts of the outputs, and the best loops on other paths."""
    first, *others = _paths(problem)
    simple = _candidates(problem, first)
    found: list[tuple[int, int, Loops]] = []
    for loops in _by(simple, until, STAGES[0]):
        cost = run.try_loops(loops)
        if run.done:
            return
        if cost is not None:
            found.append((cost, len(found), loops))
    ranked = [loops for _, _, loops in sorted(found, key=lambda each: each[:2])]
    others_of = (
        loops._replace(path=path, sizes=(patches, *loops.sizes[1:]))
        for loops in ranked[:BEST]
        for path in others
        if (patches := largest_groups(problem, path, *loops.sizes[1:]))
    )
    for candidates, share in ((_in_parts(problem, first), STAGES[1]), (others_of, 1.0), (simple, 1.0)):
        for loops in _by(candidates, until, share):
            run.try_loops(loops)
            if run.done:
                return


def _by(candidates: Iterator[Loops], until: float, share: float) -> Iterator[Loops]:
    """Yield candidates for a share of the time that is left."""
    now = time.monotonic()
    end = now + share * max(0.0, until - now) if share < 1 else until
    while time.monotonic() < end:
        loops = next(candidates, None)
        if loops is None:
            return
        yield loops


def _in_parts(problem: Problem, path: Numbers) -> Iterator[Loops]:
    """Yield loops through parts of the outputs whose sums stay on chip, those that load least first.

    Each part loads the kernels of its kernel groups and the input of its groups, about once.
    """
    memory, whole = problem.machine.memory, problem.elements
    if memory is None or problem.kernels_stay or whole.n_channels == 1:
        return
    needed = len(whole.needed_inputs())
    found: list[tuple[int, tuple[int, int, int], tuple[int, int]]] = []
    for sizes in sizes_on(problem, path):
        block = sizes[2] * (sizes[0] + sizes[1] * whole.taps)
        for groups, kernel_groups in product(PARTS, PARTS):
            patches, kernels = groups * sizes[0], kernel_groups * sizes[1]
            if patches * kernels + block > memory:
                continue
            loads = -(-whole.n_patches // patches) * whole.n_kernel_elements
            loads += -(-whole.n_kernels // kernels) * needed
            steps = whole.n_cells // (sizes[0] * sizes[1] * sizes[2])
            cost = problem.machine.load * loads + problem.machine.compute * steps
            found.append((cost, sizes, (groups, kernel_groups)))
    for _, sizes, outer in sorted(found):
        for order in ((2, 0, 1), (2, 1, 0)):
            yield Loops(path, sizes, order, outer=outer)


def _paths(problem: Problem) -> list[Numbers]:
    """Return paths over the plane: strips of each width, both ways; rows are the widest."""
    if problem.limits.form == "gemm":
        return [rows(problem)]
    height, width = problem.layer.output_plane
    down = [strips(problem, size) for size in range(width, 0, -1)]
    across = [strips(problem, size, down=True) for size in range(height, 0, -1)]
    return [path for pair in zip_longest(down, across) for path in pair if path is not None]


def _candidates(problem: Problem, path: Numbers) -> Iterator[Loops]:
    """Yield nests of loops on a path, those of large blocks first."""
    sizes = sizes_on(problem, path)
    smaller = {
        (-(-patches // cut), kernels, channels) for patches, kernels, channels in sizes for cut in (2, 3)
    }
    for each in sizes + sorted(smaller - set(sizes), key=lambda one: -one[0] * one[1] * one[2]):
        for order in ORDERS:
            yield Loops(path, each, order)


def _tables(problem: Problem) -> tuple[Numbers, Numbers]:
    """Return the pixels of each patch, and the patches of each pixel; -1 where there are fewer."""
    sizes = problem.elements
    plane = sizes.n_inputs // sizes.n_channels
    pixels = sizes.inputs[:, 0, :].astype(np.int64)
    where, patches = pixels.reshape(-1), np.repeat(np.arange(len(pixels)), pixels.shape[1])
    order = np.argsort(where, kind="stable")
    where, patches = where[order], patches[order]
    where, patches = where[where >= 0], patches[where >= 0]
    firsts = np.searchsorted(where, np.arange(plane))
    users = np.full((plane, pixels.shape[1]), -1, dtype=np.int64)
    users[where, np.arange(len(where)) - firsts[where]] = patches
    return pixels, users


def _change_orders(problem: Problem, search: RunContext, run: _Run) -> None:
    """Change the order of patches, round after round, from the best order and from others."""
    sizes, machine = problem.elements, problem.machine
    pixels, users = _tables(problem)
    size = max(len(numbers(step.blocks[0].patches)) for step in run.plan.steps if step.blocks[0] is not None)
    room = len(users)
    if machine.memory is not None:
        room = (machine.memory - sizes.n_kernel_elements - size * sizes.n_kernels) // sizes.n_channels
    starts = [
        path
        for path in _paths(problem)
        if largest_groups(problem, path, sizes.n_kernels, sizes.n_channels) >= size
    ]
    best = np.concatenate([numbers(step.blocks[0].patches) for step in run.plan.steps if step.blocks[0]])
    attempts, seed = ATTEMPTS, search.seed
    needed = len(sizes.needed_inputs()) // sizes.n_channels
    while search.remaining() > 0 and not run.done:
        begin = best if seed % 2 == 0 or not starts else starts[(seed // 2) % len(starts)]
        began = time.monotonic()
        found, loads = anneal(begin, size, pixels, users, room, attempts, 3.0, 0.3, seed, needed)
        everything = np.arange(sizes.n_kernels), np.arange(sizes.n_channels)
        rounds = [
            [Cut(np.sort(found[first : first + size]), *everything)] for first in range(0, len(found), size)
        ]
        fitting = stretched(problem, list(rounds))
        made = None if fitting is None else planned(problem, fitting)
        before = run.cost
        run.take(None if made is None else placed(problem, made))
        if run.cost < before:
            best = found
        if loads <= needed:
            break
        seed += 1
        took = time.monotonic() - began
        if took < min(1.0, search.remaining() / 8):
            attempts += attempts // 2
