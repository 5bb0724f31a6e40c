"""What stays on chip between two uses: the best choice for a given sequence of blocks.

An element that a step uses is on chip in that step. Between two uses it either stays, and takes room in every
step between, or it goes and comes back: input and kernels are loaded again (``t_l``), sums that are not
complete are written and loaded (``t_w + t_l``). To load something before its first use, or to keep it after
its last, never saves anything, as durations add up (definition 3). What stays is thus a choice among
intervals of steps, each of weight 1, of which as many may overlap as the memory has room for. The matrix of
such a choice has consecutive ones, so that its linear program, a flow from step to step, has a solution of
whole numbers. A limit on reloads breaks that; then it is an integer program.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tilewright.core.silence import nothing_printed
from tilewright.offloading.plan import Block, Moves, Numbers, Plan, Step, runs
from tilewright.offloading.problem import Problem
from tilewright.spec.arrays import distinct


class Cut(NamedTuple):
    """A block by the numbers of its patches, kernels and channels, each ascending."""

    patches: Numbers
    kernels: Numbers
    channels: Numbers

    @property
    def block(self) -> Block:
        """The block as a plan has it."""
        return Block(runs(self.patches), runs(self.kernels), runs(self.channels))


Round = Sequence[Cut | None]
"""What the parts compute in one step."""


class Stays(NamedTuple):
    """Intervals of steps in which elements are on chip.

    Attributes
    ----------
    elements, first, last
        Input elements first, then kernels, then outputs; the steps of the first and the last use, from 0.
    again
        Whether it was on chip before.
    """

    elements: Numbers
    first: Numbers
    last: Numbers
    again: NDArray[np.bool_]


class Uses(NamedTuple):
    """Which elements are used when, in one memory, sorted by element and then by step."""

    elements: Numbers
    steps: Numbers


def planned(problem: Problem, rounds: Sequence[Round]) -> Plan | None:
    """Return the best plan of a sequence of blocks; None where no memory can hold what a step uses.

    The duration is least among all plans that compute these blocks in this order, but for bursts, which are
    not looked at, and for addresses, which `placing` adds.
    """
    found = stays(problem, rounds)
    return None if found is None else _plan(problem, rounds, found)


def duration(problem: Problem, rounds: Sequence[Round]) -> int | None:
    """Return the objective of `planned` but for bursts, or None."""
    found = stays(problem, rounds)
    if found is None:
        return None
    sizes, machine = problem.elements, problem.machine
    inputs_and_kernels = sizes.n_inputs + sizes.n_kernel_elements
    cycles = machine.compute * len(rounds) + problem.fixed_cost
    for each in found:
        sums = each.elements >= inputs_and_kernels
        cycles += machine.load * int((~sums).sum() + (sums & each.again).sum())
        cycles += machine.write * int((sums & each.again).sum())
    return cycles


def stays(problem: Problem, rounds: Sequence[Round]) -> list[Stays] | None:
    """Return for each memory when elements are on chip, such that loads and writes of sums cost least."""
    found = []
    for uses in _uses(problem, rounds):
        mine = _best(problem, uses, len(rounds))
        if mine is None:
            return None
        found.append(mine)
    return found


def _uses(problem: Problem, rounds: Sequence[Round]) -> list[Uses]:
    sizes = problem.elements
    kernels_from = sizes.n_inputs
    outputs_from = kernels_from + sizes.n_kernel_elements
    keys: list[list[Numbers]] = [[] for _ in range(problem.n_memories)]
    span = len(rounds) + 1
    known: dict[tuple[str, int, int], Numbers] = {}  # sequences repeat the same arrays
    made_of = {
        "inputs": (sizes.inputs_of, 0),
        "kernels": (sizes.kernels_of, kernels_from),
        "outputs": (sizes.outputs_of, outputs_from),
    }

    def once(kind: str, one: Numbers, other: Numbers) -> Numbers:
        key = (kind, id(one), id(other))
        if key not in known:
            elements, first = made_of[kind]
            known[key] = (elements(one, other) + first) * span
        return known[key]

    for step, blocks in enumerate(rounds):
        for part, cut in enumerate(blocks):
            if cut is None:
                continue
            used = [once("inputs", cut.patches, cut.channels), once("outputs", cut.patches, cut.kernels)]
            if not problem.kernels_stay:
                used.append(once("kernels", cut.kernels, cut.channels))
            keys[problem.memory_of(part)] += [each + step for each in used]
    made = []
    for memory in keys:
        mine = distinct(np.concatenate(memory)) if memory else np.empty(0, np.int64)
        elements, steps = np.divmod(mine, span)
        made.append(Uses(elements, steps))
    return made


def _best(problem: Problem, uses: Uses, n_steps: int) -> Stays | None:
    """Choose what stays in one memory."""
    elements, steps = uses.elements, uses.steps
    sizes, machine = problem.elements, problem.machine
    follows = np.zeros(len(elements), dtype=np.bool_)
    follows[1:] = elements[1:] == elements[:-1]
    gap = np.zeros(len(elements), dtype=np.int64)
    gap[1:] = np.where(follows[1:], steps[1:] - steps[:-1], 0)
    kept = follows.copy()
    open_gaps = np.flatnonzero(kept & (gap > 1))
    if machine.memory is not None:
        room = machine.memory - np.bincount(steps, minlength=n_steps)
        if problem.kernels_stay:
            room = room - sizes.n_kernel_elements
        if (room < 0).any():
            return None
        if open_gaps.size:
            begins, ends = steps[open_gaps - 1] + 1, steps[open_gaps]
            price = np.full(len(open_gaps), machine.load)
            price[elements[open_gaps] >= sizes.n_inputs + sizes.n_kernel_elements] += machine.write
            chosen = _choose(problem, elements[open_gaps], begins, ends, price, room)
            if chosen is None:
                return None
            kept[open_gaps[~chosen]] = False
    begin = np.flatnonzero(~kept)
    last = np.r_[begin[1:] - 1, len(elements) - 1] if begin.size else begin
    return Stays(elements[begin], steps[begin], steps[last], follows[begin])


def _choose(
    problem: Problem, elements: Numbers, begins: Numbers, ends: Numbers, price: Numbers, room: Numbers
) -> NDArray[np.bool_] | None:
    """Return which gaps are bridged: of those that span a step no more than there is room for."""
    if (_crowd(begins, ends, len(room)) <= room).all():
        return np.ones(len(elements), dtype=np.bool_)
    limit = problem.max_loads
    limited = np.zeros(len(elements), dtype=np.bool_)
    if limit is not None:
        many, inverse, counts = np.unique(elements, return_inverse=True, return_counts=True)
        sums_from = problem.elements.n_inputs + problem.elements.n_kernel_elements
        limited = ((counts >= limit) & (many < sums_from))[inverse]
    # Gaps of the same steps and price are alike; where reloads are limited, if all of their elements' are.
    kinds = np.stack([begins, ends, price], axis=1)
    signature = np.zeros(len(elements), dtype=np.int64)
    rows: list[tuple[list[int], int]] = []
    span = len(room) + 1
    prices, priced = np.unique(price, return_inverse=True)
    codes = (begins * span + ends) * len(prices) + priced
    if limited.any():
        signature[limited] = 1 + _signatures(elements[limited], codes[limited])
    codes += signature * (span * span * len(prices))
    _, firsts, inverse, counts = np.unique(codes, return_index=True, return_inverse=True, return_counts=True)
    alike = np.column_stack([signature, kinds])[firsts]
    if limited.any():
        assert limit is not None
        order = np.argsort(alike[:, 0], kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(alike[order, 0]) > 0])
        for members in np.split(order, starts[1:]):
            least = int(counts[members[0]]) * (len(members) - (limit - 1))
            if alike[members[0], 0] and least > 0:
                rows.append((members.tolist(), least))
    amounts = _solve(alike[:, 1], alike[:, 2], alike[:, 3], counts, room, rows)
    if amounts is None:
        return None
    return _spread(inverse, counts, amounts, alike[:, 0])


def _signatures(elements: Numbers, codes: Numbers) -> Numbers:
    """Return a number for each gap, equal for elements whose gaps are all alike.

    Parameters
    ----------
    elements
        Of each gap, ascending.
    codes
        Of each gap, equal for gaps that are alike.
    """
    starts = np.flatnonzero(np.r_[True, elements[1:] != elements[:-1]])
    lengths = np.diff(np.r_[starts, len(elements)])
    table = np.full((len(starts), int(lengths.max())), -1, dtype=np.int64)
    row = np.repeat(np.arange(len(starts)), lengths)
    table[row, np.arange(len(elements)) - starts[row]] = codes
    _, inverse = np.unique(table, axis=0, return_inverse=True)
    found: Numbers = inverse.reshape(-1)[row]
    return found


def _crowd(begins: Numbers, ends: Numbers, n_steps: int) -> Numbers:
    """Return how many gaps span each step."""
    changes = np.bincount(begins, minlength=n_steps + 1) - np.bincount(ends, minlength=n_steps + 1)
    crowd: Numbers = np.cumsum(changes)[:n_steps]
    return crowd


def _solve(
    begins: Numbers,
    ends: Numbers,
    price: Numbers,
    most: Numbers,
    room: Numbers,
    rows: list[tuple[list[int], int]],
) -> Numbers | None:
    """Return how many gaps of each kind are bridged, such that the price of the others is least.

    As a flow: as many units as the roomiest step has room for go from step to step, each in a gap that is
    bridged or idle; what a step lacks of the roomiest idles.

    Parameters
    ----------
    begins, ends, price, most
        Of each kind: the first step in which it takes room, the one after the last, what one saves, how
        many there are.
    room
        Of each step.
    rows
        Kinds of which at least so many must be bridged.
    """
    import highspy  # for start-up time

    n_steps, n_kinds = len(room), len(begins)
    units = int(room.max())
    with nothing_printed():
        solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    model = highspy.HighsLp()
    model.num_col_, model.num_row_ = n_kinds + n_steps, n_steps + len(rows)
    model.col_cost_ = np.r_[-price.astype(float), np.zeros(n_steps)]
    model.col_lower_ = np.r_[np.zeros(n_kinds), (units - room).astype(float)]
    model.col_upper_ = np.r_[most.astype(float), np.full(n_steps, float(units))]
    # Row k: what leaves step k is what comes into it; the last step's flow goes out.
    balance = np.zeros(n_steps)
    balance[0] = units
    model.row_lower_ = np.r_[balance, [float(least) for _, least in rows]]
    model.row_upper_ = np.r_[balance, np.full(len(rows), np.inf)]
    starts, index, value = _columns(begins, ends, n_steps, rows)
    model.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    model.a_matrix_.start_ = starts
    model.a_matrix_.index_ = index
    model.a_matrix_.value_ = value
    if rows:
        model.integrality_ = [highspy.HighsVarType.kInteger] * (n_kinds + n_steps)
        solver.setOptionValue("mip_rel_gap", 0.0)
        solver.setOptionValue("mip_abs_gap", 0.5)
    solver.passModel(model)
    solver.run()
    if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return None
    amounts: Numbers = np.rint(np.array(solver.getSolution().col_value)[:n_kinds]).astype(np.int64)
    return amounts


def _columns(
    begins: Numbers, ends: Numbers, n_steps: int, rows: list[tuple[list[int], int]]
) -> tuple[Numbers, Numbers, NDArray[np.float64]]:
    """Return the matrix of `_solve` by columns: each is 1 where its flow begins, and -1 where it ends."""
    n_kinds = len(begins)
    kinds, steps = np.arange(n_kinds), np.arange(n_steps)
    where = [kinds, kinds[ends < n_steps], n_kinds + steps, n_kinds + steps[:-1]]
    row = [begins, ends[ends < n_steps], steps, steps[1:]]
    one = [np.ones(n_kinds), -np.ones(len(where[1])), np.ones(n_steps), -np.ones(n_steps - 1)]
    for number, (members, _) in enumerate(rows):
        where.append(np.array(members))
        row.append(np.full(len(members), n_steps + number))
        one.append(np.ones(len(members)))
    columns, index, value = np.concatenate(where), np.concatenate(row), np.concatenate(one)
    order = np.lexsort((index, columns))
    starts = np.r_[0, np.cumsum(np.bincount(columns, minlength=n_kinds + n_steps))]
    return starts, index[order], value[order]


def _spread(inverse: Numbers, counts: Numbers, amounts: Numbers, signature: Numbers) -> NDArray[np.bool_]:
    """Return which gaps are bridged: the first of each kind, or in turn where reloads are limited."""
    order = np.argsort(inverse, kind="stable")
    starts = np.r_[0, np.cumsum(counts)[:-1]]
    place = np.empty(len(inverse), dtype=np.int64)
    place[order] = np.arange(len(inverse)) - np.repeat(starts, counts)
    missing = counts - amounts
    offset = np.zeros(len(counts), dtype=np.int64)
    turn: dict[int, int] = {}
    for kind in np.flatnonzero(signature > 0).tolist():
        offset[kind] = turn.get(int(signature[kind]), 0) % counts[kind]
        turn[int(signature[kind])] = int(offset[kind] + missing[kind])
    # Without a limit the last of a kind go; with one, those whose turn it is.
    limited = signature[inverse] > 0
    turned = (place - offset[inverse]) % counts[inverse] >= missing[inverse]
    chosen: NDArray[np.bool_] = np.where(limited, turned, place < amounts[inverse])
    return chosen


def _plan(problem: Problem, rounds: Sequence[Round], found: list[Stays]) -> Plan:
    sizes, n = problem.elements, len(rounds)
    borders = (0, sizes.n_inputs, sizes.n_inputs + sizes.n_kernel_elements)
    moves: list[list[dict[str, Any]]] = [[{} for _ in found] for _ in range(n)]
    for memory, each in enumerate(found):
        kind = np.searchsorted(borders, each.elements, side="right") - 1
        tables = (
            ("load_inputs", each.first, kind == 0),
            ("load_kernels", each.first, kind == 1),
            ("load_sums", each.first, (kind == 2) & each.again),
            ("free_inputs", each.last + 1, kind == 0),
            ("free_kernels", each.last + 1, kind == 1),
            ("write", each.last + 1, kind == 2),
        )
        for name, when, which in tables:
            order = np.lexsort((each.elements[which], when[which]))
            at, what = when[which][order], (each.elements - np.array(borders)[kind])[which][order]
            cuts = np.flatnonzero(np.diff(at)) + 1
            for step, members in zip(
                at[np.r_[0, cuts]] if at.size else (), np.split(what, cuts), strict=False
            ):
                if step < n:
                    moves[int(step)][memory][name] = runs(members)
    if problem.machine.kernels == "step1":
        for memory in range(len(found)):
            moves[0][memory]["load_kernels"] = ((0, sizes.n_kernel_elements),)
    steps = []
    for blocks, tables_of_step in zip(rounds, moves, strict=True):
        cuts_of_step = tuple(None if cut is None else cut.block for cut in blocks)
        steps.append(Step(cuts_of_step, tuple(Moves(**table) for table in tables_of_step)))
    return Plan(tuple(steps))
