"""Whether a plan is valid, what it costs, and what ``auto`` runs."""

from __future__ import annotations

import numpy as np

from tilewright.addresses.exact.packing import height_bound
from tilewright.addresses.plan import Plan
from tilewright.addresses.problem import Problem
from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.simulator import Report


def best_bound(problem: Problem) -> Bound:
    """Return the most addresses that live at one time; with an alignment, each size rounded up but one."""
    value = height_bound(problem.lower, problem.upper, problem.size, problem.memory.alignment)
    capacity, impossible = problem.memory.capacity, None
    if capacity is not None and value > capacity:
        impossible = f"{value:,} addresses are needed at one time, memory.capacity is {capacity:,}"
    return Bound("live buffers", value, impossible=impossible)


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    names, memory = problem.names, problem.memory
    if len(plan.offsets) != len(names):
        return f"buffers: the plan places {len(plan.offsets)}, there are {len(names)}"
    for name, offset, size in zip(names, plan.offsets, problem.size.tolist(), strict=True):
        if offset % memory.alignment:
            return f"alignment: buffer {name} begins at {offset}, no multiple of {memory.alignment}"
        if memory.capacity is not None and offset + size > memory.capacity:
            return f"capacity: buffer {name} ends at {offset + size}, the memory at {memory.capacity}"
    overlap = first_overlap(problem, plan)
    if overlap is not None:
        one, other = overlap
        time = max(problem.lower[one], problem.lower[other])
        told = [f"{names[each]} has {_range(problem, plan, each)}" for each in overlap]
        return f"overlap: at time {time} both live: {told[0]}, {told[1]}"
    return None


def _range(problem: Problem, plan: Plan, buffer: int) -> str:
    begin = plan.offsets[buffer]
    return f"{begin} to {begin + int(problem.size[buffer]) - 1}"


def first_overlap(problem: Problem, plan: Plan) -> tuple[int, int] | None:
    """Return two buffers that share an address at some time, the first of all; None where there are none."""
    begin = np.array(plan.offsets, dtype=np.int64)
    end = begin + problem.size
    for one in range(len(begin) - 1):
        rest = slice(one + 1, None)
        together = (problem.lower[one] < problem.upper[rest]) & (problem.lower[rest] < problem.upper[one])
        shared = np.flatnonzero(together & (begin[one] < end[rest]) & (begin[rest] < end[one]))
        if len(shared):
            return one, one + 1 + int(shared[0])
    return None


def objective(problem: Problem, plan: Plan) -> int:
    """Return the height of a valid plan: the addresses from 0 to the highest end."""
    return max(offset + int(size) for offset, size in zip(plan.offsets, problem.size, strict=True))


def measured_objective(problem: Problem, report: Report) -> int:
    """Return the height of an executed plan: one more than the highest address that was written."""
    height: int = report.measures.memory_addresses
    return height


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes."""
    return 0.05 + 2e-5 * len(problem.buffers)


def numeric_elements(problem: Problem) -> int:
    """Return how many values all buffers hold together, at most, of one for each address."""
    return int(problem.size.sum())


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    return 200 + 20 * len(problem.buffers)


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the heuristics and the exact search."""
    return Portfolio(CONSTRUCT, "canonical")
