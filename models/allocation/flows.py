"""An integer program that lays the layers of a pipeline out on an array.

Regions are connected as flows: each PE of a layer but its root takes a unit of what the root sends, which
passes through PEs of the layer only. A PE of a consumer costs a hop for each h within which no PE of its
producer lies.

Extras: bounds on hops, and one of the images under the array's symmetries.
"""

from __future__ import annotations

from typing import Any

import pyomo.environ as pyo

from tilewright.allocation import Plan, Problem
from tilewright.allocation.placement.floor import Floor, Regions
from tilewright.allocation.placement.hop_bound import fewest_hops, lower_bound
from tilewright.allocation.placement.images import canonical, layers_of, marked_layer, most_hops, positions
from tilewright.allocation.placement.unplaced import floor_of, pes_to_place
from tilewright.spec.constraints import Term

WORDS = ("at", "hops", "pes", "split", "units", "work", "load", "used_pes", "interval")


def suits(problem: Problem) -> bool:
    """Whether the formulation takes a problem: whether layers are to be placed."""
    return problem.minimise == "distance"


def size(problem: Problem) -> int:
    """Return about how many constraints there are."""
    floor = floor_of(problem, pes_to_place(problem))
    pes = floor.rows * floor.columns
    return pes * (12 * len(floor.sizes) + sum(most_hops(floor).values()) * len(floor.edges))


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extras."""
    unplaced = pes_to_place(problem)
    m = formulate(floor_of(problem, unplaced), extras)
    m.problem, m.unplaced = problem, unplaced
    return m


def formulate(floor: Floor, extras: bool = True) -> Any:
    """Return the model of a floor."""
    m = pyo.ConcreteModel(name="flows")
    m.floor, m.extras = floor, extras
    m.place = [divmod(p, floor.columns) for p in range(floor.rows * floor.columns)]
    m.LAYERS, m.PES = pyo.RangeSet(0, len(floor.sizes) - 1), pyo.RangeSet(0, len(m.place) - 1)
    m.BESIDE = pyo.Set(dimen=2, initialize=[(p, q) for p in m.PES for q in m.PES if _apart(m, p, q) == 1])
    m.at = pyo.Var(m.LAYERS, m.PES, domain=pyo.Binary)  # the PE computes the layer

    @m.Constraint(m.PES)
    def no_pe_computes_two_layers(m: Any, p: int) -> Any:
        return sum(m.at[i, p] for i in m.LAYERS) <= 1

    @m.Constraint(m.LAYERS)
    def layers_have_their_pes(m: Any, i: int) -> Any:
        return sum(m.at[i, p] for p in m.PES) == floor.sizes[i]

    @m.Constraint(sorted(set(floor.border)))
    def input_and_output_reach_the_border(m: Any, i: int) -> Any:
        rim = (p for p in m.PES if _is_rim(m, p))
        return sum(m.at[i, p] for p in rim) >= 1

    _connect(m)
    _touch(m)
    _count_hops(m)
    if extras:
        _cut(m)
    return m


def _apart(m: Any, p: int, q: int) -> int:
    (y, x), (v, u) = m.place[p], m.place[q]
    return int(abs(y - v) + abs(x - u))


def _is_rim(m: Any, p: int) -> bool:
    row, column = m.place[p]
    return row in (0, m.floor.rows - 1) or column in (0, m.floor.columns - 1)


def _connect(m: Any) -> None:
    """Let each layer's root send a unit to all of its PEs, along PEs of the layer."""
    m.root = pyo.Var(m.LAYERS, m.PES, domain=pyo.Binary)
    m.flow = pyo.Var(m.LAYERS, m.BESIDE, domain=pyo.NonNegativeReals)

    @m.Constraint(m.LAYERS)
    def one_root(m: Any, i: int) -> Any:
        return sum(m.root[i, p] for p in m.PES) == 1

    @m.Constraint(m.LAYERS, m.PES)
    def root_is_of_the_layer(m: Any, i: int, p: int) -> Any:
        return m.root[i, p] <= m.at[i, p]

    @m.Constraint(m.LAYERS, m.BESIDE)
    def passes_through_the_layer_only(m: Any, i: int, p: int, q: int) -> Any:
        return m.flow[i, p, q] <= (m.floor.sizes[i] - 1) * m.at[i, p]

    @m.Constraint(m.LAYERS, m.PES)
    def each_takes_a_unit(m: Any, i: int, p: int) -> Any:
        sides = [q for q in m.PES if (p, q) in m.BESIDE]
        arrives = sum(m.flow[i, q, p] for q in sides) + m.floor.sizes[i] * m.root[i, p]
        return arrives == sum(m.flow[i, p, q] for q in sides) + m.at[i, p]


def _touch(m: Any) -> None:
    """Let regions of layers that follow each other have a side in common."""
    m.FOLLOWING = pyo.RangeSet(1, len(m.floor.sizes) - 1)
    m.meets = pyo.Var(m.FOLLOWING, m.BESIDE, bounds=(0, 1))

    @m.Constraint(m.FOLLOWING, m.BESIDE)
    def meets_from_one(m: Any, i: int, p: int, q: int) -> Any:
        return m.meets[i, p, q] <= m.at[i - 1, p]

    @m.Constraint(m.FOLLOWING, m.BESIDE)
    def meets_the_other(m: Any, i: int, p: int, q: int) -> Any:
        return m.meets[i, p, q] <= m.at[i, q]

    @m.Constraint(m.FOLLOWING)
    def layers_that_follow_each_other_touch(m: Any, i: int) -> Any:
        return sum(m.meets[i, p, q] for p, q in m.BESIDE) >= 1


def _count_hops(m: Any) -> None:
    floor: Floor = m.floor
    most = most_hops(floor)
    steps = [(i, j, h) for i, j in floor.edges for h in range(1, most[i])]
    m.FAR = pyo.Set(dimen=4, initialize=[(*step, p) for step in steps for p in range(len(m.place))])
    m.far = pyo.Var(m.FAR, bounds=(0, 1))  # the PE of the consumer is farther away than so many hops

    @m.Constraint(m.FAR)
    def is_near_or_costs_a_hop(m: Any, i: int, j: int, h: int, p: int) -> Any:
        return m.far[i, j, h, p] + sum(m.at[i, q] for q in _within(m, p, h)) >= m.at[j, p]

    # No PE computes two layers: one hop of each is certain.
    m.offset = sum(floor.sizes[consumer] for _, consumer in floor.edges)
    m.hops = pyo.Expression(expr=sum(m.far[at] for at in m.FAR))
    m.cost = pyo.Objective(expr=m.hops)


def _within(m: Any, p: int, h: int) -> list[int]:
    return [q for q in m.PES if _apart(m, p, q) <= h]


def _cut(m: Any) -> None:
    """Add what is known of hops, and admit one of the images of a placement."""
    floor: Floor = m.floor
    m.no_fewer = pyo.Constraint(expr=m.hops >= lower_bound(floor) - m.offset)
    fewest = fewest_hops(floor)
    m.READ = pyo.Set(initialize=sorted({i for i, *_ in m.FAR}))

    @m.Constraint(m.READ)
    def no_fewer_of_a_layer(m: Any, i: int) -> Any:
        certain = sum(floor.sizes[consumer] for layer, consumer in floor.edges if layer == i)
        return sum(m.far[at] for at in m.FAR if at[0] == i) >= fewest[i] - certain

    rows, columns = (
        sum((2 * at - (length - 1)) * m.at[marked_layer(floor), p] for p, at in enumerate(where))
        for where, length in zip(positions(floor), (floor.rows, floor.columns), strict=True)
    )
    if floor.rows > 1:
        m.above_the_middle = pyo.Constraint(expr=rows <= 0)
    if floor.columns > 1:
        m.left_of_the_middle = pyo.Constraint(expr=columns <= 0)
    if floor.rows == floor.columns > 1:
        m.no_nearer_to_the_top = pyo.Constraint(expr=rows <= columns)


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary; how many PEs layers have is known."""
    names = [stage.name for stage in m.problem.stages]
    if one.word == "at":
        name, row, column = one.arguments
        return m.at[names.index(str(name)), int(row) * m.floor.columns + int(column)]
    if one.word == "hops":
        layer, other = (names.index(str(name)) for name in one.arguments)
        return 0 if layer == other else _hops_between(m, layer, other)
    vocabulary = m.problem.vocabulary
    return vocabulary.value(one, vocabulary.view(m.unplaced))


def _hops_between(m: Any, layer: int, other: int) -> Any:
    """Return the hops from all PEs of the second layer to the nearest one of the first, which are exact."""
    if not hasattr(m, "beyond"):
        m.beyond = pyo.VarList(domain=pyo.Binary)
        m.exactly = pyo.ConstraintList()
        m.beyond_at = []
    farthest = m.floor.rows + m.floor.columns - 2
    count = []
    for h in range(1, farthest):
        for p in m.PES:
            far = m.beyond.add()
            m.beyond_at.append((far, layer, other, h, p))
            near = _within(m, p, h)
            m.exactly.add(far <= m.at[other, p])
            m.exactly.add(far + sum(m.at[layer, q] for q in near) >= m.at[other, p])
            for q in near:
                m.exactly.add(far + m.at[layer, q] <= 1)
            count.append(far)
    return m.floor.sizes[other] + sum(count)


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a placement."""
    if plan.regions and floor_of(m.problem, plan) == m.floor:
        hint(m, plan.regions)


def hint(m: Any, regions: Regions) -> None:
    """Set every variable to its value in the image of a placement that symmetry breaking admits."""
    image = canonical(m.floor, regions) if m.extras else layers_of(m.floor, regions)
    layer = [int(one) - 1 for one in image.ravel()]
    for i, p in m.at:
        m.at[i, p] = int(layer[p] == i)
    for i in m.LAYERS:
        _start_flow(m, i, layer)
    for i, p, q in m.meets:
        m.meets[i, p, q] = int(layer[p] == i - 1 and layer[q] == i)
    for i, j, h, p in m.FAR:
        m.far[i, j, h, p] = int(layer[p] == j and all(layer[q] != i for q in _within(m, p, h)))
    for far, i, j, h, p in getattr(m, "beyond_at", ()):
        far.set_value(int(layer[p] == j and all(layer[q] != i for q in _within(m, p, h))))


def _start_flow(m: Any, i: int, layer: list[int]) -> None:
    """Send units along a tree of a layer's PEs, from the first one."""
    own = [p for p in m.PES if layer[p] == i]
    for p in m.PES:
        m.root[i, p] = int(p == own[0])
    for p, q in m.BESIDE:
        m.flow[i, p, q] = 0
    before, order = {own[0]: own[0]}, [own[0]]
    for p in order:
        for q in own:
            if q not in before and (p, q) in m.BESIDE:
                before[q] = p
                order.append(q)
    needs = dict.fromkeys(own, 1)
    for p in reversed(order[1:]):
        needs[before[p]] += needs[p]
        m.flow[i, before[p], p] = needs[p]


def read(m: Any) -> Plan:
    """Return the plan of a solution."""
    placed: Plan = m.unplaced.placed(regions(m))
    return placed


def regions(m: Any) -> Regions:
    """Return the placement of a solution."""
    return tuple(tuple(m.place[p] for p in m.PES if m.at[i, p].value > 0.5) for i in m.LAYERS)
