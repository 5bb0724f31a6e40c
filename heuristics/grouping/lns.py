"""Large-neighbourhood search: parts of the best plan are torn out and rebuilt until time is up.

At first whole plans are grown by the beam search of `beam`, for every sensible way to cut the layer into
strips, and by `sweep`. They and the start compete for a while: all are improved, and the worse ones are given
up. The rest of the time belongs to the winner. Ways to improve a plan take turns, a little more often if they
gain:

- *regrow*: the patches of some consecutive steps are arranged anew by the beam search, forwards or
  backwards;
- *anneal*: the groups around some place, neighbours in the plane or in time, exchange patches and
  places under simulated annealing;
- *cover*: where few steps let a front sweep the whole layer, so that next to nothing need be loaded twice,
  some consecutive steps or all are swept anew, by the present plan, smoothed, as the timetable;
- *restart*: where the layer is small, the whole plan is grown anew with another taste.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.context import RunContext
from tilewright.grouping import Plan, Problem
from tilewright.grouping.cost import count_loads
from tilewright.heuristics.grouping import _annealing_kernel, beam, row_by_row, strips, sweep, zigzag
from tilewright.heuristics.grouping._beam_kernel import BeamStyle
from tilewright.heuristics.grouping._measure import (
    Group,
    Value,
    best,
    distinct,
    max_pixels_by_size,
    near,
    value,
)
from tilewright.heuristics.grouping._window import Window, draw_beam_style, draw_sweep_style, vary


@dataclass(frozen=True)
class LnsParams:
    """How the time is shared, and how large attempts are.

    Attributes
    ----------
    width, tastes
        Plans that a restart grows side by side, and tastes that it tries: another taste helps more than
        width.
    hopeless
        Plans that cost more than this factor times the best one are not improved.
    growth
        Share of the time in which plans are grown.
    competition
        Share of the time after which only the best of the plans that cut the layer differently is improved.
    attempt
        Seconds that an attempt should take, so that the deadline is kept and progress is reported.
    longest
        Seconds that growing a whole plan may take; where one taste would take longer, no plan is grown.
    cells
        Most entries of the table of counts (groups times pixels) for which a whole plan is annealed.
    violation
        Pixel loads that a violation counts while a plan is annealed.
    longest_stretch
        Most steps that one move of the annealing reverses or exchanges.
    pool
        Number of the best tastes of sweeps that are remembered.
    """

    width: int = 25
    tastes: int = 8
    hopeless: float = 1.015
    growth: float = 0.3
    competition: float = 0.5
    attempt: float = 0.1
    longest: float = 4.0
    cells: int = 4_000_000
    violation: float = 4.0
    longest_stretch: int = 20
    pool: int = 8


PARAMS = LnsParams()

Cut = tuple[int, bool]
"""Number of strips, and whether they lie along the rows."""

SWEEP: Cut = (0, False)
"""No strips at all: a sweep."""


def plan(problem: Problem, search: RunContext, attempts: int | None = None) -> Plan:
    """Improve the start, or the best plan of the quick heuristics if there is none within the limits.

    Parameters
    ----------
    attempts : int, optional
        Number of attempts, of a fixed size, so that the outcome depends on the seed only. Without it the
        deadline ends the search, and a faster computer gets further.
    """
    start = search.start
    if start is None or value(problem, start).violations:
        plans = [row_by_row.plan(problem), zigzag.plan(problem), strips.plan(problem)]
        start = best(problem, plans if start is None else [start, *plans])
    run = _Run(problem, search, start, timed=attempts is None)
    run.improve(attempts)
    return run.plan()


def compile_kernels(bundled: Callable[[str], Problem]) -> None:
    """Compile what it runs; see `tilewright.core.catalogue.kernel_file`."""
    beam.compile_kernels(bundled)
    sweep.compile_kernels(bundled)
    plan(bundled("s1-example2"), RunContext(), attempts=3)


class _State(NamedTuple):
    """A plan under change: its value, groups and the loads of each pixel."""

    value: Value
    groups: list[Group]
    loads: NDArray[np.int64]


class _Run:
    """The present plan as a list of groups, and the ways to improve it."""

    def __init__(self, problem: Problem, search: RunContext, start: Plan, timed: bool) -> None:
        self.problem = problem
        self.search = search
        self.timed = timed
        self.attempts: int | None = None
        self.done = 0
        self.began = time.monotonic()
        self.rng = np.random.default_rng(search.seed)
        self.near = near(problem)
        self.max_pixels = max_pixels_by_size(problem)
        self.pixels = problem.patch_pixels
        self.take(start)
        # A lower bound: every needed pixel once, in the fewest steps.
        least = problem.cost(len(problem.needed_pixels), problem.steps_range[0])
        self.goal = Value(0, max(least, search.bound or 0))
        self.reported = value(problem, search.start) if search.start is not None else None
        self.last_report = -float("inf")
        # Seconds of the processor per unit of work, updated by `learn`; the first guesses are high. By the
        # clock, whoever must share it, or wait for a turn, would seem slow and attempt less and less.
        self.pace = {"regrow": 2e-6, "anneal": 1e-6, "cover": 1e-8, "restart": 1e-9}
        self.gained = dict.fromkeys(self.pace, 0.0)
        self.spent = dict.fromkeys(self.pace, 1e-3)
        # Ways to cut the layer for a restart, how many tastes each has tried, and its best.
        self.cuts = [cut for cut in beam.ways_to_cut(problem) if self.taste_seconds(cut) < PARAMS.longest]
        self.tried: dict[Cut, int] = {}
        self.styles: dict[Cut, tuple[int, BeamStyle | None]] = {}
        self.small = bool(self.cuts) and max(map(self.taste_seconds, self.cuts)) < PARAMS.attempt
        self.n_steps = len(self.groups)
        # Tastes of sweeps with what their plans would cost, the best first.
        self.sweeps: list[tuple[int, sweep.Taste]] = []
        # On small layers the other ways are quick enough to find as much.
        self.sweeping = (
            not self.small
            and sweep.border_lasts(problem, self.n_steps)
            and self.taste_seconds(SWEEP) < PARAMS.longest
        )
        if self.sweeping:
            self.cuts.append(SWEEP)
        self.ways = ["anneal", "regrow", "cover"] if self.sweeping else ["anneal", "regrow"]

    def take(self, plan: Plan) -> None:
        """Make a plan the present one."""
        self.groups: list[Group] = plan.indices(self.problem)
        self.loads = count_loads(self.problem, plan.steps(self.problem))
        self.value = value(self.problem, plan)

    @property
    def state(self) -> _State:
        """The present plan, to come back to."""
        return _State(self.value, self.groups, self.loads.copy())

    @state.setter
    def state(self, state: _State) -> None:
        self.value, self.groups, self.loads = state.value, state.groups, state.loads.copy()

    def plan(self) -> Plan:
        """Return the present plan; after `improve`, the best."""
        return Plan.from_groups(self.problem, self.groups)

    def improve(self, attempts: int | None) -> None:
        """Attempt improvements until time is up, the attempts are used or the goal is met."""
        self.attempts = attempts
        self.report(now=True)
        self.compete()
        while self.goes_on():
            self.attempt([*self.ways, "restart"] if self.small else self.ways)
        self.report(now=True)

    def goes_on(self) -> bool:
        """Tell whether there are time, attempts and something left to improve."""
        return self.value > self.goal and self.progress() < 1 and not self.out_of_time()

    def progress(self) -> float:
        """Return which part of the attempts, or of the time, is over."""
        if self.attempts is not None:
            return self.done / max(1, self.attempts)
        spent = time.monotonic() - self.began
        return spent / (spent + self.search.remaining())

    def compete(self) -> None:
        """Improve the start and a plan for each way to cut the layer; the worse half gives up, and so on.

        Which way is best shows only when its plans have been improved for a while.
        """
        best = self.state
        grown: dict[Cut, _State] = {}
        idle = 0
        # Each way once, then the best one again while that helps, in turn with sweeps, whose tastes improve.
        waiting = self.cuts.copy()
        while self.goes_on() and (
            waiting or (grown and self.timed and idle < 4 and self.progress() < PARAMS.growth)
        ):
            if waiting:
                cut = waiting.pop()
            elif SWEEP in grown and self.done % 2:
                cut = SWEEP
            else:
                cut = min(grown, key=lambda c: self.price(grown[c].value))
            if self.timed and self.taste_seconds(cut) > 0.1 * self.search.remaining():
                if grown and not waiting:
                    break
                continue
            self.state = best
            self.restart(cut)
            self.done += 1
            idle += 1
            if cut not in grown or self.price(self.value) < self.price(grown[cut].value):
                grown[cut], idle = self.state, 0
            best = min(best, self.state, key=lambda s: s.value)
        self.state = best
        most = PARAMS.hopeless * min(self.price(rival.value) for rival in (best, *grown.values()))
        rivals = [rival for rival in (best, *grown.values()) if self.price(rival.value) <= most]
        began, rounds = self.progress(), len(rivals).bit_length()
        for turn in range(rounds):
            for number, rival in enumerate(rivals):
                self.state = rival
                share = (turn + (number + 1) / len(rivals)) / rounds
                while self.goes_on() and self.progress() < began + (PARAMS.competition - began) * share:
                    self.attempt(self.ways)
                self.report(now=True)
                rivals[number] = self.state
                best = min(best, self.state, key=lambda s: s.value)
                if self.value <= self.goal:
                    return
            rivals = sorted(rivals, key=lambda s: self.price(s.value))[: (len(rivals) + 1) // 2]
        self.state = best

    def attempt(self, names: list[str]) -> None:
        """Attempt an improvement, in one of five cases in the way that has gained most per second of late."""
        if not self.timed:
            name = names[self.done % len(names)]  # time must not matter
        elif self.rng.random() < 0.8:
            name = names[self.rng.integers(len(names))]
        else:
            name = max(names, key=lambda n: self.gained[n] / self.spent[n])
        before, began = self.value, time.thread_time()
        ways: dict[str, Callable[[], None]] = {
            "regrow": self.regrow,
            "anneal": self.anneal,
            "cover": self.cover,
            "restart": self.try_restart,
        }
        ways[name]()
        self.done += 1
        gain = before.objective - self.value.objective + 1e6 * (before.violations - self.value.violations)
        self.gained[name] = 0.95 * self.gained[name] + gain
        self.spent[name] = 0.95 * self.spent[name] + time.thread_time() - began
        self.report(now=False)

    def report(self, now: bool) -> None:
        """Report a better plan within the limits, at most a few times per second."""
        if self.value.violations or (self.reported is not None and self.value >= self.reported):
            return
        if now or time.monotonic() > self.last_report + 0.25:
            self.last_report = time.monotonic()
            self.reported = self.value
            self.search.on_plan(self.plan())

    def out_of_time(self) -> bool:
        """Return whether another attempt would exceed the deadline."""
        return self.timed and self.search.remaining() < PARAMS.attempt

    def learn(self, name: str, work: float, seconds: float) -> None:
        """Update how long a unit of work takes; a first call, which compiles, does not count."""
        if seconds < 10 * PARAMS.attempt + 10 * self.pace[name] * work:
            self.pace[name] += 0.2 * (seconds / work - self.pace[name])

    def regrow(self) -> None:
        """Rearrange the patches of some consecutive steps, forwards or backwards."""
        problem, rng = self.problem, self.rng
        largest = min(800, max(60, problem.n_patches))
        most = int(np.exp(rng.uniform(np.log(30), np.log(largest))))
        length = int(np.clip(most // problem.group_size, 2, len(self.groups)))
        first, turn, window = self.cut_out(length)
        patches = window.patches
        steps = self.draw_steps(length, len(patches))
        width = int(np.exp(rng.uniform(np.log(6), np.log(100))))
        if self.timed:
            width = int(min(width, max(5, PARAMS.attempt / (self.pace["regrow"] * len(patches)))))
        began = time.thread_time()
        grown = window.grow(
            self.max_pixels, steps, problem.max_loads, width, [draw_beam_style(rng)], int(rng.integers(2**31))
        )
        self.learn("regrow", len(patches) * width, time.thread_time() - began)
        if grown is not None:
            self.replace(first, length, turn, window, grown)

    def cut_out(self, length: int) -> tuple[int, int, Window]:
        """Cut `length` consecutive steps out of the plan, turned round half of the time.

        Returns
        -------
        first : int
            The first of these steps.
        turn : int
            1, or -1 if the window is turned round: a plan read backwards costs the same.
        window : Window
        """
        rng = self.rng
        first = int(np.clip(self.draw_place() - rng.integers(length), 0, len(self.groups) - length))
        last = first + length
        before = self.groups[first - 1] if first > 0 else None
        after = self.groups[last] if last < len(self.groups) else None
        turn = -1 if rng.random() < 0.5 else 1
        old = self.groups[first:last][::turn]
        window = Window.of(self.problem, self.near, np.concatenate(old), *(before, after)[::turn])
        window.loads = self.loads[window.known] - window.starts(old)
        return first, turn, window

    def replace(self, first: int, length: int, turn: int, window: Window, grown: list[Group]) -> None:
        """Replace the steps of a window of `cut_out` by the groups grown in it, if the plan is no worse."""
        most, last = self.problem.max_loads, first + length
        groups, old = grown[::turn], self.groups[first:last]
        before, loads = self.loads[window.known], window.loads + window.starts(grown)
        over = np.maximum(loads - most, 0) - np.maximum(before - most, 0)
        self.consider(
            int(over.sum()) + self.too_full(groups) - self.too_full(old),
            int((loads - before).sum()),
            self.groups[:first] + groups + self.groups[last:],
            window.known,
            loads,
        )

    def cover(self) -> None:
        """Sweep some consecutive steps, or all, anew, with the present plan, smoothed, as the timetable."""
        problem, rng, n = self.problem, self.rng, len(self.groups)
        length = n if n == 2 or rng.random() < 0.4 else int(rng.integers(2, n))
        work = sweep.work(problem, n) * length / n / sweep.WIDTH
        width = sweep.WIDTH
        if self.timed:
            seconds = min(PARAMS.longest, 0.1 * self.search.remaining())
            width = int(min(2 ** rng.integers(2, 6), seconds / (self.pace["cover"] * work)))
            if width == 0:
                return
        first, turn, window = self.cut_out(length)
        table = self.steps().reshape(problem.grid).astype(float)
        for _ in range(rng.integers(4)):
            table = sweep.smooth(table)
        timetable = table.ravel()[window.patches] - first
        if turn < 0:
            timetable = length - 1 - timetable
        timetable += rng.normal(0, 0.3 * rng.integers(3), len(timetable))
        began = time.thread_time()
        grown = window.cover(
            problem.group_size, length, timetable, width, sweep.TRIES, draw_sweep_style(rng),
            int(rng.integers(2**31)),
        )  # fmt: skip
        self.learn("cover", work * width, time.thread_time() - began)
        self.replace(first, length, turn, window, grown)

    def draw_place(self) -> int:
        """Choose a step to begin with, mostly one that loads some pixel again, or too often."""
        again = np.flatnonzero(self.loads > (self.problem.max_loads if self.value.violations else 1))
        if len(again) == 0 or self.rng.random() < 0.3:
            return int(self.rng.integers(len(self.groups)))
        pixel = self.rng.choice(again)
        steps = np.unique(self.steps()[(self.pixels == pixel).any(axis=1)])
        return int(self.rng.choice(steps[1:][np.diff(steps) > 1]))

    def steps(self) -> NDArray[np.int64]:
        """Return the step of each patch."""
        sizes = [len(group) for group in self.groups]
        steps = np.empty(self.problem.n_patches, np.int64)
        steps[np.concatenate(self.groups)] = np.repeat(np.arange(len(sizes)), sizes)
        return steps

    def draw_steps(self, length: int, patches: int) -> int:
        """Choose how many steps should replace `length` steps with `patches` patches."""
        fewest, most = self.problem.steps_range
        spare = len(self.groups) - fewest
        if spare > 0 and (length - 1) * self.problem.group_size >= patches and self.rng.random() < 0.2:
            return length - 1
        if len(self.groups) < most and self.problem.step_cost < 3 * self.problem.load_cost:
            return length + int(self.rng.random() < 0.15)
        return length

    def too_full(self, groups: list[Group]) -> int:
        """Count the pixels by which groups exceed the memory."""
        if self.problem.machine.memory is None:
            return 0
        return sum(max(0, distinct(self.problem, group) - self.max_pixels[len(group)]) for group in groups)

    def consider(
        self,
        over: int,
        more: int,
        groups: list[Group],
        known: NDArray[np.integer[Any]],
        loads: NDArray[np.integer[Any]],
    ) -> None:
        """Take a plan if it is no worse.

        Parameters
        ----------
        over, more
            Violations of the limits on loads and memory, and loads, in excess of those of the best plan.
        groups
            The plan.
        known, loads
            The pixels whose loads may have changed, and these loads.
        """
        problem = self.problem
        fewest, most = problem.steps_range
        for n, sign in ((len(self.groups), -1), (len(groups), 1)):
            over += sign * max(0, fewest - n, n - most)
        cost = problem.load_cost * more + problem.step_cost * (len(groups) - len(self.groups))
        new = Value(self.value.violations + over, self.value.objective + cost)
        if new <= self.value:
            self.value, self.groups = new, groups
            self.loads[known] = loads

    def anneal(self, whole: bool = False, heat: float | None = None) -> None:
        """Let the groups around some patch exchange patches and places.

        Parameters
        ----------
        whole
            Take all groups, however many.
        heat
            Temperature to begin with, in pixel loads; None draws one.
        """
        problem, rng = self.problem, self.rng
        rows, movable = self._neighbourhood(whole)
        fewest, most = (limit - len(self.groups) + len(rows) for limit in problem.steps_range)
        state, patches, known = self._annealed(rows, movable, int(np.clip(most - len(rows), 0, 8)))
        over = int(state.groups.totals[_annealing_kernel.Total.OVER])
        # The kernel counts in pixel loads.
        unit = max(problem.load_cost, 1e-3)
        weight = problem.step_cost / unit
        now = weight * len(rows)
        goal = now - (self.value.objective - self.goal.objective) / unit
        moves = 30_000
        if self.timed:
            moves = int(np.clip(PARAMS.attempt / self.pace["anneal"], 1000, 400_000))
        hot = heat or float(np.exp(rng.uniform(np.log(0.2), np.log(1.5))))
        began = time.thread_time()
        worst = now + _annealing_kernel.FORBIDDEN * over
        found = _annealing_kernel.anneal(
            state,
            _annealing_kernel.Cooling(moves, hot, min(hot, 0.15)),
            int(rng.integers(2**31)),
            _annealing_kernel.Limits(problem.max_loads, fewest, most, PARAMS.longest_stretch),
            _annealing_kernel.Weights(PARAMS.violation, weight),
            worst + 1e-6,
            goal,
        )
        self.learn("anneal", moves, time.thread_time() - began)
        if found > worst:
            return
        totals = state.best_totals
        self.consider(
            int(totals[_annealing_kernel.Total.OVER]) - over,
            int(totals[_annealing_kernel.Total.LOADS]),
            self.spliced(rows, movable, state, patches),
            known,
            state.best_loads,
        )

    def _annealed(
        self, rows: list[int], movable: NDArray[np.bool_], spare: int
    ) -> tuple[_annealing_kernel.State, Group, NDArray[np.integer[Any]]]:
        """Return some steps as the kernel takes them, and the patches and pixels of its numbers.

        Parameters
        ----------
        spare
            Steps that may be opened besides.
        """
        local = [self.groups[row] for row in rows]
        moving = [group for group, move in zip(local, movable, strict=True) if move]
        fixed = [group for group, move in zip(local, movable, strict=True) if not move]
        # Patches and pixels are numbered anew; patches that move come first, see `_annealing_kernel.build`.
        patches = np.concatenate(moving + fixed)
        n_moving = sum(map(len, moving))
        known, pixels = np.unique(self.pixels[patches], return_inverse=True)
        missing = int(known[0] < 0)
        known = known[missing:]
        number = np.full(self.problem.n_patches + 1, -1, np.int32)
        number[patches] = np.arange(len(patches))
        groups = [number[group].astype(np.int64) for group in local]
        number[patches[n_moving:]] = -1
        state = _annealing_kernel.build(
            np.ascontiguousarray(pixels.reshape(len(patches), -1) - missing, dtype=np.int32),
            number[self.near[patches[:n_moving]]],
            groups,
            movable,
            self.loads[known],
            self.max_pixels,
            self.problem.max_loads,
            spare,
        )
        return state, patches, known

    def _neighbourhood(self, whole: bool) -> tuple[list[int], NDArray[np.bool_]]:
        """Return the steps that take part in annealing, and which of them may change.

        Steps next to the chosen ones are included, but stay as they are. Where two of them meet that are no
        neighbours in the plan, the kernel miscounts by a constant.
        """
        n, rng = len(self.groups), self.rng
        chosen = np.ones(n, np.bool_)
        most = int(rng.integers(20, 80))
        if not whole and (n > 100 or rng.random() < 0.3):
            chosen[:] = False
            centre = int(rng.integers(self.problem.n_patches))
            chosen[self.around(centre, most)] = True
        rows: list[int] = []
        for step in np.flatnonzero(chosen).tolist():
            rows += [row for row in (step - 1, step, step + 1) if 0 <= row < n and row not in rows[-3:]]
        return rows, chosen[rows]

    def around(self, centre: int, most: int) -> list[int]:
        """Return up to `most` steps that compute patches near a patch, and the steps next to them."""
        steps = self.steps()
        row, col = self.problem.patch(centre)
        height, width = self.problem.grid
        found: list[int] = []
        for reach in range(1, max(height, width)):
            rows = np.arange(max(0, row - reach), min(height, row + reach + 1))
            cols = np.arange(max(0, col - reach), min(width, col + reach + 1))
            inside = np.unique(steps[(rows[:, None] * width + cols).ravel()])
            if found and len(inside) > most:
                break
            found = inside.tolist()
        return found

    def spliced(
        self, rows: list[int], movable: NDArray[np.bool_], state: _annealing_kernel.State, patches: Group
    ) -> list[Group]:
        """Return all groups of the plan, with the annealed groups in the places of those they replace."""
        members: list[list[int]] = [[] for _ in state.frozen]
        for patch, row in enumerate(state.best_row_of):
            members[row].append(int(patches[patch]))
        # Fixed rows stay where they are; what moves follows the fixed row before it.
        after: dict[int, list[Group]] = {}
        fixed = 0
        for row in state.best_order[1 : 1 + state.best_totals[_annealing_kernel.Total.STEPS]]:
            if state.frozen[row]:
                fixed = int(row)
            else:
                after.setdefault(fixed, []).append(np.array(members[row], np.int64))
        moved = {step for step, move in zip(rows, movable, strict=True) if move}
        anchor = {step: row for row, step in enumerate(rows, start=1) if not movable[row - 1]}
        groups = list(after.get(0, []))
        for step, group in enumerate(self.groups):
            if step not in moved:
                groups.append(group)
            groups += after.get(anchor.get(step, -1), [])
        return groups

    def taste_seconds(self, cut: Cut) -> float:
        """Return how long growing a whole plan with one taste takes."""
        if cut == SWEEP:
            seconds: float = self.pace["cover"] * sweep.work(self.problem, self.n_steps)
            return seconds
        seconds = self.pace["restart"] * PARAMS.width * beam.work(self.problem, cut[0])
        return seconds

    def try_restart(self) -> None:
        """Grow a whole plan anew, mostly cut in the way that has done best, and take it if it is better."""
        kept = self.state
        cut = self.cuts[self.rng.integers(len(self.cuts))]
        if self.styles and self.rng.random() < 0.7:
            cut = min(self.styles, key=lambda c: self.styles[c][0])
        self.restart(cut)
        if self.value > kept.value:
            self.state = kept

    def restart(self, cut: Cut) -> None:
        """Grow a whole plan anew and polish it, if it is promising."""
        kept = self.value
        groups, style = (self.swept(), None) if cut == SWEEP else self.grown(cut)
        if groups is None:
            return
        self.take(Plan.from_groups(self.problem, groups))
        if self.price(self.value) < 1.04 * kept.objective:
            self.polish()
        if cut not in self.styles or self.price(self.value) < self.styles[cut][0]:
            self.styles[cut] = self.price(self.value), style

    def grown(self, cut: Cut) -> tuple[list[Group] | None, BeamStyle]:
        """Grow a plan strip by strip; return the first of the tastes, too."""
        problem, rng = self.problem, self.rng
        tastes, width = 3, PARAMS.width
        if self.timed:
            if self.small:
                width *= int(2 ** rng.integers(5))
            tastes = self.affordable(cut) * PARAMS.width // width or 1
        styles = [draw_beam_style(rng) for _ in range(tastes)]
        # What did well elsewhere comes first.
        tried = self.tried.get(cut, 0)
        known = beam.STYLES[tried : tried + tastes]
        self.tried[cut] = tried + tastes
        styles = [*known, *styles[len(known) :]]
        if not known and rng.random() < 0.5:
            _, style = self.styles.get(cut, (0, None))
            if style is not None:
                # A taste that has done well here, a little changed.
                styles[0] = vary(style, rng)
        usual = bool(known) or rng.random() < 0.7
        middle = beam.middle(problem, *cut)
        began = time.thread_time()
        n_steps = self.draw_steps(self.n_steps, problem.n_patches)
        groups = beam.Strips(
            problem, self.near, self.max_pixels, *cut, n_steps, width, styles,
            int(rng.integers(2**31)), middle if usual else 0.5 - middle,
        ).grow()  # fmt: skip
        self.learn("restart", tastes * width * beam.work(problem, cut[0]), time.thread_time() - began)
        return groups, styles[0]

    def swept(self) -> list[Group]:
        """Sweep the layer with some tastes, and return the best plan; tastes that do well are varied."""
        problem, rng = self.problem, self.rng
        n_steps = self.draw_steps(self.n_steps, problem.n_patches)
        window = Window.of(problem, self.near, np.arange(problem.n_patches))
        found: list[tuple[int, list[Group]]] = []
        for _ in range(self.affordable(SWEEP) if self.timed else 3):
            tried = self.tried.get(SWEEP, 0)
            self.tried[SWEEP] = tried + 1
            if tried < len(sweep.TASTES):
                taste = sweep.TASTES[tried]
            elif rng.random() < 0.3:
                taste = sweep.draw_taste(rng)
            else:
                taste = sweep.vary(self.sweeps[int(len(self.sweeps) * rng.random() ** 2)][1], rng)
            began = time.thread_time()
            groups = sweep.sweep(problem, window, n_steps, taste, int(rng.integers(2**31)))
            self.learn("cover", sweep.work(problem, n_steps), time.thread_time() - began)
            price = self.price(value(problem, Plan.from_groups(problem, groups)))
            found.append((price, groups))
            self.sweeps = sorted([*self.sweeps, (price, taste)])[: PARAMS.pool]
        return min(found, key=lambda plan: plan[0])[1]

    def affordable(self, cut: Cut) -> int:
        """Return how many tastes a restart may try."""
        seconds = min(PARAMS.longest, 0.1 * self.search.remaining())
        return int(np.clip(seconds / self.taste_seconds(cut), 1, PARAMS.tastes))

    def polish(self) -> None:
        """Repair the violations of a new plan and improve it until the ways to do so stop helping."""
        whole = len(self.groups) * self.problem.n_pixels < PARAMS.cells
        idle = 0
        while idle < (8 if self.value.violations else len(self.ways)) and not self.out_of_time():
            before = self.value
            way = self.ways[idle % len(self.ways)]
            if way == "anneal":
                self.anneal(whole=whole, heat=0.4)
            elif way == "regrow":
                self.regrow()
            else:
                self.cover()
            idle = 0 if self.value < before else idle + 1

    def price(self, found: Value) -> int:
        """Estimate what a plan will cost when its violations are repaired."""
        price: int = found.objective + 4 * self.problem.load_cost * found.violations
        return price
