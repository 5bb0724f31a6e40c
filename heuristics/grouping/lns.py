"""Large-neighbourhood search: parts of the best plan are torn out and rebuilt until time is up.

Three ways to rebuild take turns, the more often the more they gain:

- *regrow*: the patches of some consecutive steps are arranged anew by the beam search of `beam`;
- *anneal*: the groups around some place, neighbours in the plane or in time, exchange patches and
  places under simulated annealing;
- *restart*: where the layer is small, the whole plan is grown anew with another taste.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.grouping import Plan, Problem
from tilewright.grouping.plan import count_loads
from tilewright.heuristics.grouping import _annealing, beam, row_by_row, strips, zigzag
from tilewright.heuristics.grouping._measure import Group, Value, best, distinct, near, room, value
from tilewright.heuristics.grouping._window import Style, Window, draw_style
from tilewright.search import Search

SLICE = 0.1
"""Seconds that an attempt should take, so that the deadline is kept and others hear of progress."""

LONGEST = 1.0
"""Seconds that growing a whole plan may take; where not even 20 side by side can, none is tried."""

CELLS = 4_000_000
"""Entries of the table of counts (groups times pixels) that one annealing may fill."""


def plan(problem: Problem, search: Search, attempts: int | None = None) -> Plan:
    """Improve the start, or the best plan of the quick heuristics if there is none within the limits.

    Parameters
    ----------
    attempts : int, optional
        Stop after so many attempts of a fixed size, so that the outcome depends on the seed only. Without
        it the deadline ends the search, and a faster computer gets further.
    """
    start = search.start
    if start is None or value(problem, start).violations:
        plans = [row_by_row.plan(problem), zigzag.plan(problem), strips.plan(problem)]
        start = best(problem, plans if start is None else [start, *plans])
    run = _Run(problem, search, start, timed=attempts is None)
    run.improve(attempts)
    return run.plan()


class _Run:
    """The best plan as a list of groups, and the ways to improve it."""

    def __init__(self, problem: Problem, search: Search, start: Plan, timed: bool) -> None:
        self.problem = problem
        self.search = search
        self.timed = timed
        self.rng = np.random.default_rng(search.seed)
        self.near = near(problem)
        self.room = room(problem)
        self.pixels = problem.patch_pixels
        self.groups: list[Group] = start.indices(problem)
        self.loads = count_loads(problem, start.steps(problem))
        self.value = value(problem, start)
        # What no plan can undercut: every needed pixel once, in the fewest steps.
        least = problem.cost(len(problem.needed_pixels), problem.steps_range[0])
        self.goal = Value(0, max(least, search.bound or 0))
        self.reported = value(problem, search.start) if search.start is not None else None
        self.last_report = -float("inf")
        # Seconds per unit of work, learnt; the first guesses are careful.
        self.pace = {"regrow": 2e-6, "anneal": 1e-6, "restart": 1e-9}
        # Ways to cut the layer for a restart, the width and the best taste that each has reached.
        affordable = LONGEST / (20 * self.pace["restart"])
        self.cuts = [
            (count, lying)
            for lying in (False, True)
            for count in beam.sensible_counts(problem, lying)
            if beam.work(problem, count) < affordable
        ]
        self.widths = {count: 100.0 for count, _ in self.cuts}
        self.styles: dict[int, tuple[Value, Style]] = {}

    def plan(self) -> Plan:
        """Return the best plan."""
        return Plan.from_groups(self.problem, self.groups)

    def improve(self, attempts: int | None) -> None:
        """Attempt improvements until time is up, the attempts are used or the goal is met."""
        ways: dict[str, Callable[[], None]] = {"regrow": self.regrow, "anneal": self.anneal}
        if self.cuts:
            ways["restart"] = self.restart
        names = list(ways)
        gained = dict.fromkeys(names, 0.0)
        spent = dict.fromkeys(names, 1e-3)
        done = 0
        self.report(now=True)
        while self.value > self.goal and (attempts is None or done < attempts):
            if self.out_of_time():
                break
            # Mostly the way that has gained most per second of late; in turns, if time must not matter.
            if not self.timed:
                name = names[done % len(names)]
            elif self.rng.random() < 0.5:
                name = names[self.rng.integers(len(names))]
            else:
                name = max(names, key=lambda n: gained[n] / spent[n])
            before, began = self.value, time.monotonic()
            ways[name]()
            done += 1
            gained[name] = 0.95 * gained[name] + before.objective - self.value.objective
            gained[name] += 1e6 * (before.violations - self.value.violations)
            spent[name] = 0.95 * spent[name] + time.monotonic() - began
            self.report(now=False)
        self.report(now=True)

    def report(self, now: bool) -> None:
        """Tell of a better plan, at most a few times per second; of none that breaks a limit."""
        if self.value.violations or (self.reported is not None and self.value >= self.reported):
            return
        if now or time.monotonic() > self.last_report + 0.25:
            self.last_report = time.monotonic()
            self.reported = self.value
            self.search.on_plan(self.plan())

    def out_of_time(self) -> bool:
        """Tell whether another attempt would exceed the deadline."""
        return self.timed and self.search.remaining() < SLICE

    def learn(self, name: str, work: float, seconds: float) -> None:
        """Remember how long a unit of work takes; a first call that compiles does not count."""
        if seconds < 10 * SLICE + 10 * self.pace[name] * work:
            self.pace[name] += 0.2 * (seconds / work - self.pace[name])

    def regrow(self) -> None:
        """Rearrange the patches of some consecutive steps."""
        problem, rng = self.problem, self.rng
        most = rng.integers(30, 200)
        length = int(np.clip(most // problem.group_size, 2, len(self.groups)))
        first = int(rng.integers(len(self.groups) - length + 1))
        old = self.groups[first : first + length]
        after = self.groups[first + length] if first + length < len(self.groups) else None
        before = self.groups[first - 1] if first > 0 else None
        patches = np.concatenate(old)
        window = Window.of(problem, self.near, patches, before, after)
        starts = window.starts(problem, old)
        window.loads = self.loads[window.known] - starts
        steps = self.draw_steps(length, len(patches))
        width = int(rng.integers(20, 300))
        if self.timed:
            width = int(min(width, max(5, SLICE / (self.pace["regrow"] * len(patches)))))
        began = time.monotonic()
        groups = window.grow(
            self.room, steps, problem.max_loads, width, draw_style(rng), int(rng.integers(2**31))
        )
        self.learn("regrow", len(patches) * width, time.monotonic() - began)
        if groups is None:
            return
        change = window.starts(problem, groups) - starts
        loads = self.loads[window.known]
        over = np.maximum(loads + change - problem.max_loads, 0) - np.maximum(loads - problem.max_loads, 0)
        self.consider(
            int(over.sum()) + self.too_full(groups) - self.too_full(old),
            int(change.sum()),
            self.groups[:first] + groups + self.groups[first + length :],
            window.known,
            loads + change,
        )

    def draw_steps(self, length: int, patches: int) -> int:
        """Choose how many steps should replace `length` steps with so many patches."""
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
        return sum(max(0, distinct(self.problem, group) - self.room[len(group)]) for group in groups)

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
            Violations of the limits on loads and memory, and loads, that it has more than the best plan.
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
        n = len(self.groups)
        chosen = np.ones(n, np.bool_)
        most = int(rng.integers(20, 80))
        if not whole and (n > 100 or rng.random() < 0.3):
            chosen[:] = False
            centre = int(rng.integers(problem.n_patches))
            chosen[self.around(centre, most)] = True
        # Steps next to the chosen ones come along, but stay as they are. Where two of them meet that are
        # no neighbours in the plan, the kernel counts something wrong that never changes.
        rows: list[int] = []
        for step in np.flatnonzero(chosen).tolist():
            rows += [row for row in (step - 1, step, step + 1) if 0 <= row < n and row not in rows[-3:]]
        movable = chosen[rows]
        local = [self.groups[row] for row in rows]
        moving = [g for g, move in zip(local, movable, strict=True) if move]
        fixed = [g for g, move in zip(local, movable, strict=True) if not move]
        # Patches and pixels are numbered anew; patches that move come first, see `_annealing.build`.
        patches = np.concatenate(moving + fixed)
        n_moving = sum(map(len, moving))
        known, pixels = np.unique(self.pixels[patches], return_inverse=True)
        missing = int(known[0] < 0)
        known = known[missing:]
        number = np.full(problem.n_patches + 1, -1, np.int32)
        number[patches] = np.arange(len(patches))
        groups = [number[group].astype(np.int64) for group in local]
        number[patches[n_moving:]] = -1
        fewest, most_steps = (limit - n + len(rows) for limit in problem.steps_range)
        spare = int(np.clip(most_steps - len(rows), 0, 8))
        state = _annealing.build(
            np.ascontiguousarray(pixels.reshape(len(patches), -1) - missing, dtype=np.int32),
            number[self.near[patches[:n_moving]]],
            groups,
            movable,
            self.loads[known],
            self.room,
            problem.max_loads,
            spare,
        )
        over = int(state.groups.totals[_annealing.OVER])
        # The kernel counts in pixel loads.
        unit = max(problem.load_cost, 1e-3)
        weight = problem.step_cost / unit
        now = weight * len(rows)
        goal = now - (self.value.objective - self.goal.objective) / unit
        moves = 30_000
        if self.timed:
            moves = int(np.clip(SLICE / self.pace["anneal"], 1000, 400_000))
        hot = heat or float(np.exp(rng.uniform(np.log(0.2), np.log(1.5))))
        began = time.monotonic()
        found = _annealing.anneal(
            state, moves, hot, min(hot, 0.15), int(rng.integers(2**31)),
            (problem.max_loads, fewest, most_steps, 20), 4.0, weight,
            now + _annealing.FORBIDDEN * over + 1e-6, goal,
        )  # fmt: skip
        self.learn("anneal", moves, time.monotonic() - began)
        if found > now + _annealing.FORBIDDEN * over:
            return
        totals = state.best_totals
        self.consider(
            int(totals[_annealing.OVER]) - over,
            int(totals[_annealing.LOADS]),
            self.spliced(rows, movable, state, patches),
            known,
            state.best_loads,
        )

    def around(self, centre: int, most: int) -> list[int]:
        """Return up to `most` steps that compute patches near a patch, and the steps next to them."""
        steps = np.empty(self.problem.n_patches, np.int64)
        sizes = [len(group) for group in self.groups]
        steps[np.concatenate(self.groups)] = np.repeat(np.arange(len(sizes)), sizes)
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
        self, rows: list[int], movable: NDArray[np.bool_], state: _annealing.State, patches: Group
    ) -> list[Group]:
        """Return the whole sequence with the rows of an annealed one in the places of those it replaces."""
        members: list[list[int]] = [[] for _ in state.frozen]
        for patch, row in enumerate(state.best_row_of):
            members[row].append(int(patches[patch]))
        # Fixed rows stay where they are; what moves follows the fixed row before it.
        after: dict[int, list[Group]] = {}
        fixed = 0
        for row in state.best_order[1 : 1 + state.best_totals[_annealing.STEPS]]:
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

    def restart(self) -> None:
        """Grow a whole plan anew, wider each time, and anneal it a little."""
        problem, rng = self.problem, self.rng
        # Mostly the number of strips that has done best.
        counts = [count for count, _ in self.cuts]
        count = counts[rng.integers(len(counts))]
        if len(self.styles) == len(self.widths) and rng.random() < 0.7:
            count = min(self.styles, key=lambda c: self.styles[c][0])
        lying = bool(rng.random() < 0.5) if (count, True) in self.cuts else False
        lying = lying or (count, False) not in self.cuts
        style, width = draw_style(rng), self.widths[count]
        if count in self.styles and rng.random() < 0.5:
            # A taste that has done well here, a little changed.
            old = self.styles[count][1]
            style = (*(x * rng.uniform(0.8, 1.25) for x in old[:3]), *old[3:])
        if self.timed:
            limit = min(LONGEST, self.search.remaining())
            width = min(width, limit / (self.pace["restart"] * beam.work(problem, count)))
        began = time.monotonic()
        n_steps = self.draw_steps(len(self.groups), problem.n_patches)
        groups = beam.grow(
            problem, self.near, self.room, count, lying, n_steps, max(5, int(width)), style,
            int(rng.integers(2**31)),
        )  # fmt: skip
        self.learn("restart", width * beam.work(problem, count), time.monotonic() - began)
        self.widths[count] = min(self.widths[count] * 1.1, 1e4)
        if groups is None:
            return
        kept = self.value, self.groups, self.loads
        new = Plan.from_groups(problem, groups)
        self.value, self.groups = value(problem, new), groups
        self.loads = count_loads(problem, new.steps(problem))
        if count not in self.styles or self.value < self.styles[count][0]:
            self.styles[count] = self.value, style
        # A promising plan is polished, and rid of loads too many, as long as that gets on.
        if self.value.objective < 1.04 * kept[0].objective and len(groups) * problem.n_pixels < CELLS:
            for _ in range(8):
                before = self.value
                self.anneal(whole=True, heat=0.4)
                if self.value == before or self.out_of_time():
                    break
        if self.value > kept[0]:
            self.value, self.groups, self.loads = kept
