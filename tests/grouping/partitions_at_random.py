"""Plans of the room grouping at random."""

from __future__ import annotations

from hypothesis import strategies as st

from tilewright.grouping import Plan, Problem


@st.composite
def plans(draw: st.DrawFn, problem: Problem) -> Plan:
    """Draw partitions, from scattered patches to contiguous runs."""
    order = list(range(problem.n_patches))
    if draw(st.booleans()):
        order = draw(st.permutations(order))
    groups = []
    while order:
        size = draw(st.integers(1, problem.group_size))
        groups.append(order[:size])
        order = order[size:]
    return Plan.from_groups(problem, groups)
