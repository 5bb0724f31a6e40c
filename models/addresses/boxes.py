"""A constraint model for CP-SAT: buffers are boxes, as long as they live and as high as they are large.

Boxes do not overlap.

Extras: what lives at one time fits below the height, as a resource that buffers share.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from tilewright.addresses import Plan, Problem
from tilewright.addresses.greedy import pushed_down
from tilewright.addresses.minizinc import task_of
from tilewright.spec.constraints import Term

WRITTEN_FOR = "cpsat"
WORDS = ("offset", "height")

LARGEST = 2**40
"""Most addresses that buffers may take one upon the other."""


def why_not(problem: Problem) -> str | None:
    """Say why the formulation does not take a problem, or None."""
    if problem.constraints and problem.memory.capacity is None:
        return "memory.capacity is needed, as constraints may ask for any height"
    if (most := task_of(problem).anything) > LARGEST:
        return f"buffers take {most:,} addresses one upon the other, the model takes {LARGEST:,}"
    return None


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many constraints there are: one for each buffer."""
    return len(problem.buffers)


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    m: Any = cp_model.CpModel()
    m.problem, m.task = problem, task_of(problem)
    m.unit = m.task.step
    capacity = problem.memory.capacity
    most = (m.task.anything if capacity is None else capacity) // m.unit
    unit, sections = m.task.unit // m.unit, m.task.sections
    m.place, boxes, lives, tops = [], [], [], []
    sizes = (m.task.size // m.unit).tolist()
    rows = zip(m.task.units.tolist(), sizes, sections.first.tolist(), sections.last.tolist(), strict=True)
    for b, (units, size_, first, last) in enumerate(rows):
        m.place.append(m.new_int_var(0, max(0, most - size_) // unit, f"place[{b}]"))
        boxes.append(m.new_fixed_size_interval_var(m.place[b], units, f"room of {b}"))
        lives.append(m.new_fixed_size_interval_var(first, last - first, f"life of {b}"))
        tops.append(unit * m.place[b] + size_)
    m.height = m.new_int_var(0, most, "height")
    m.add_no_overlap_2d(lives, boxes).with_name("buffers that live together do not overlap")
    m.add_max_equality(m.height, tops).with_name("the height is that of the highest end")
    if extras:
        m.add(m.height >= m.task.bound // m.unit).with_name("no less than lives at one time")
        if unit == 1:
            m.add_cumulative(lives, sizes, m.height).with_name("what lives together fits below the height")
    m.minimize(m.height)
    return m


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    if one.word == "height":
        return m.unit * m.height
    return m.task.unit * m.place[m.problem.names.index(one.arguments[0])]


def start(m: Any, plan: Plan) -> None:
    """Hint where buffers lie in a plan that is pushed down, as far as constraints let it be."""
    offsets = (plan if m.problem.constraints else pushed_down(m.problem, plan)).offsets
    for place, offset in zip(m.place, offsets, strict=True):
        m.add_hint(place, offset // m.task.unit)
    m.add_hint(m.height, m.task.height(np.array(offsets)) // m.unit)


def read(m: Any, value: Any) -> Plan:
    """Return the plan that the variables describe."""
    return Plan(tuple(m.task.unit * value(place) for place in m.place))
