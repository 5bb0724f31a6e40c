"""Whether a plan is valid, what it costs, and its execution; what ``auto`` runs."""

from __future__ import annotations

import importlib
import time
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise, zip_longest
from math import prod
from typing import Any, cast

from tilewright.core import front
from tilewright.core.bounds import Bound, Exact
from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.core.room import Wider
from tilewright.simulator import Report, Violation
from tilewright.spec.errors import InputError, OutOfTimeError
from tilewright.spec.layer import Layer
from tilewright.spec.network import MAX_LAYERS
from tilewright.tiling import totals
from tilewright.tiling.machine_kind import MachineKind
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem


class _Machines(Mapping[str, MachineKind]):
    """The kinds of machines by name, each imported when it is asked for: start-up time."""

    NAMES = ("dsp", "npu", "hierarchy")

    def __getitem__(self, name: str) -> MachineKind:
        if name not in self.NAMES:
            raise KeyError(name)
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.NAMES)

    def __len__(self) -> int:
        return len(self.NAMES)


MACHINES = _Machines()
"""What each kind of machine knows of a layer's plans."""


@cache
def _imported(kind: str) -> MachineKind:
    return cast(MachineKind, importlib.import_module(f"tilewright.tiling.{kind}.kind"))


def kind_of(problem: Problem) -> MachineKind:
    """Return what is known of a part's plans: by the kind of its machine, or of operations."""
    return _imported("operations" if problem.operation is not None else problem.machine.kind)


def best_bound(problem: Problem) -> Bound:
    """Return the strongest bound that is known without a search, summed over the layers.

    Of a front it is less than what the first plan can have, so that one whose other plans are not known does
    not seem to be complete.
    """
    by_part: dict[int, Bound] = {}
    bounds, impossible = [], None
    for name, part in problem.parts:
        if id(part) not in by_part:
            found = kind_of(part).best_bound(part)
            value = max(0, found.value - 1) if problem.traded else found.value
            by_part[id(part)] = Bound(found.name, value, found.steps, found.impossible)
        bounds.append(by_part[id(part)])
        if bounds[-1].impossible is not None:
            impossible = impossible or (f"layer {name}: " if name else "") + bounds[-1].impossible
    names = " and ".join(dict.fromkeys(bound.name for bound in bounds))
    value, steps = sum(bound.value for bound in bounds), sum(bound.steps for bound in bounds)
    each = tuple(bound.value for bound in bounds)
    return Bound(f"{names} bound", value, steps, impossible, parts=each)


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    if problem.network is None:
        return _violation(problem, plan)
    if plan.front:
        return f"kind of plan: {NO_ANSWER[True]}"
    if len(plan.layers) != len(problem.parts):
        return f"layers: the plan has {len(plan.layers)}, the problem {len(problem.parts)}"
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        found = _violation(part, one)
        if found is not None:
            return f"layer {name}: {found}"
    for name, most in problem.limits.at_most.given.items():
        cost = _total(problem, plan, name)
        if cost > most:
            return _above(problem, name, cost, most)
    return None


ROUNDS = 4
"""How often, at most, the front of a network's layer is begun."""

NO_ANSWER = {
    True: "a front is no answer to this problem",
    False: "a single plan is no answer to this problem",
}
"""What is said of fronts where they are not asked for, and of single plans where fronts are."""


def _violation(problem: Problem, plan: Plan) -> str | None:
    if plan.front != (problem.minimise == "pareto"):
        return f"kind of plan: {NO_ANSWER[plan.front]}"
    if plan.front:
        return next((found for one in plan.split() if (found := _violation_of_one(problem, one))), None)
    if len(plan.layers) != 1:
        return f"layers: the plan has {len(plan.layers)}, the problem 1"
    return _violation_of_one(problem, plan)


def _violation_of_one(problem: Problem, plan: Plan) -> str | None:
    kind = kind_of(problem)
    layer = plan.layers[0]
    if not isinstance(layer, kind.LayerPlan):
        return f"kind of plan: the machine is of kind {problem.machine.kind}"
    broken = kind.violation(problem, layer)
    if broken is not None:
        return broken
    for name, most in problem.limits.at_most.given.items():
        cost = kind.objective(_of(problem, name), layer)
        if cost > most:
            return _above(problem, name, cost, most)
    return None


def _above(problem: Problem, name: str, cost: int, most: int) -> str:
    unit = problem.objectives[name].unit
    return f"limit of {name}: the plan has {cost:,} {unit}, the limits allow {most:,}"


def _of(problem: Problem, name: str) -> Problem:
    """Return a layer's problem with one cost to minimise."""
    return problem.with_(objective={"minimise": name, "tolerance": 0.0, "between": None})


def _total(problem: Problem, plan: Plan, name: str) -> int:
    """Return one cost of a network's plan, by the closed form."""
    of_part = {id(part): _of(part, name) for _, part in problem.parts}
    return sum(
        kind_of(part).objective(of_part[id(part)], layer)
        for (_, part), layer in zip(problem.parts, plan.layers, strict=True)
    )


def objective(problem: Problem, plan: Plan) -> int:
    """Cost of a valid plan by the closed form; the simulator must find the same.

    Of a front it is what its first plan has least of, cycles by default; of a network the sum of these.
    """
    costs: dict[tuple[int, Any], int] = {}
    total = 0
    for (_, part), layer in zip(problem.parts, plan.layers, strict=False):
        if isinstance(layer, Plan):
            layer = layer.layers[0]
        if (id(part), layer) not in costs:
            costs[id(part), layer] = kind_of(part).objective(part, layer)
        total += costs[id(part), layer]
    return total


def rank(problem: Problem, plan: Plan) -> tuple[int, ...]:
    """Return what a valid plan moves, its time, energy and memory, which break ties; nothing of fronts."""
    if problem.traded:
        return ()
    ranks: dict[tuple[int, Any], tuple[int, ...]] = {}
    pairs = [(part, layer) for (_, part), layer in zip(problem.parts, plan.layers, strict=True)]
    for part, layer in pairs:
        if (id(part), layer) not in ranks:
            ranks[id(part), layer] = kind_of(part).rank(part, layer)
    each = [ranks[id(part), layer] for part, layer in pairs]
    return tuple(map(sum, zip_longest(*each, fillvalue=0)))


def at_least(problem: Problem, plan: Plan) -> dict[str, str]:
    """Return the operations whose cost is but a lower bound, and why, so that a plan's is one."""
    found = {}
    plans = [plan] if problem.network is None else plan.split()
    for (name, part), one in zip(problem.parts, plans, strict=True):
        for each in one.layers:
            why = None
            if isinstance(each, OperationPlan):
                from tilewright.tiling.operations.kind import at_least as least_of_operation  # start-up time

                why = least_of_operation(part, each)
            if why is not None:
                found[name] = why
    return found


SPACES = {"perfect": "steps that divide", "any": "any steps"}
"""What plans of a hierarchy are called, by `limits.factors`."""


def space(problem: Problem) -> str | None:
    """Return the plans of a hierarchy among which one is called optimal; None on other machines."""
    factors = problem.limits.factors or "perfect"
    return SPACES[factors] if problem.machine.kind == "hierarchy" else None


def wider(problem: Problem) -> Wider | None:
    """Return the problem of a hierarchy with any steps, where it has none of its own and takes them."""
    if problem.machine.kind != "hierarchy" or problem.limits.factors is not None:
        return None
    try:
        any_steps = problem.with_(limits={"factors": "any"})
    except InputError:
        return None
    return Wider(any_steps, SPACES["any"], "limits.factors=any")


def measured_objective(problem: Problem, report: Report) -> int:
    """Cost of a simulated plan."""
    if problem.network is None:
        return kind_of(problem).measured_objective(problem, report)
    pairs = zip(problem.parts, report.layers, strict=True)
    return sum(kind_of(part).measured_objective(part, layer) for (_, part), (_, layer) in pairs)


def simulate(
    problem: Problem,
    plan: Plan,
    *,
    numeric: bool = False,
    overlapped: bool = True,
    seed: int = 0,
    deadline: float = float("inf"),
) -> Report:
    """Execute a plan: the only judge of what it costs and whether it is right.

    The layers of a network are executed one after the other, equal plans of equal layers once.

    Parameters
    ----------
    numeric
        Also move random integers through the steps and compare with the reference layer.
    overlapped
        Also compute the timeline in which engines work beside each other.
    deadline
        ``time.monotonic()`` at which to give up with an ``OutOfTimeError``.
    """
    options = {"numeric": numeric, "overlapped": overlapped, "seed": seed, "deadline": deadline}
    return _execute(problem, plan, options)


def _execute(problem: Problem, plan: Plan, options: dict[str, Any]) -> Report:
    alone = problem.network is None
    if plan.front != (alone and problem.minimise == "pareto"):
        needed = "a plan for each layer" if plan.front else "a front"
        return Report.refused(Violation("kind of plan", 0, "plan", needed, "a plan of another kind"))
    if plan.front:
        return _simulate_front(problem, plan, options)
    if len(plan.layers) != len(problem.parts):
        found = f"{len(plan.layers)} layers"
        return Report.refused(Violation("layers", 0, "plan", f"{len(problem.parts)} layers", found))
    executed: dict[tuple[int, Any], Report] = {}
    reports = []
    if alone:
        return _simulate(problem, plan, options)
    large = options["numeric"] and _too_many_macs(problem)
    for (_, part), layer_plan in zip(problem.parts, plan.split(), strict=True):
        key = (id(part), layer_plan)
        if key not in executed:
            numeric = options["numeric"] and not (large and part.operation is None)
            executed[key] = _execute(part, layer_plan, {**options, "numeric": numeric})
        reports.append(executed[key])
    report = Report.chain([name for name, _ in problem.parts], reports)
    report.numeric = _numeric(problem, reports, large)
    report.not_computed = tuple(reason for one in reports for reason in one.not_computed)
    if large:
        report.not_computed += (f"layers, as there are some of more than {_most_macs():,} MACs",)
    if report.violation is None:
        from tilewright.tiling.network_measures import network_measures  # for start-up time

        report.measures = network_measures(problem, report)
    return report


def _too_many_macs(problem: Problem) -> bool:
    """Whether layers are too large to be computed: a hierarchy executes them MAC by MAC."""
    macs = [part.one_layer.macs for _, part in problem.parts if part.operation is None]
    return problem.machine.kind == "hierarchy" and max(macs, default=0) > _most_macs()


def _most_macs() -> int:
    """Return the most MACs of a layer that are executed one by one."""
    from tilewright.simulator.level_numbers import MOST_MACS  # for start-up time

    return MOST_MACS


def _numeric(problem: Problem, reports: list[Report], large: bool) -> bool | None:
    """Whether all layers that are not too large computed the right numbers, and all operations that do."""
    found = [
        report.numeric
        for (_, part), report in zip(problem.parts, reports, strict=True)
        if report.violation is None
        and (report.numeric is not None or not (large or part.operation is not None))
    ]
    return None if None in found or not found else all(found)


def _simulate(problem: Problem, plan: Plan, options: dict[str, Any]) -> Report:
    if not isinstance(plan.layers[0], kind_of(problem).LayerPlan):
        needed, found = f"a plan for a machine of kind {problem.machine.kind}", "one of another kind"
        return Report.refused(Violation("kind of plan", 0, "plan", needed, found))
    report = kind_of(problem).simulate(problem, plan.layers[0], **options)
    if options["numeric"] and _too_many_macs(problem):
        report.not_computed += (
            f"the layer has more than {_most_macs():,} MACs, which are executed one by one",
        )
    return report


def _simulate_front(problem: Problem, plan: Plan, options: dict[str, Any]) -> Report:
    """Execute every plan of a front; the report is that of the first, with the numbers of all."""

    def judge(reports: list[Report]) -> dict[str, Any] | Violation:
        points = [kind_of(problem).trade_off(problem, report) for report in reports]
        assert problem.traded is not None
        more, less = problem.traded
        for first, second in pairwise(points):
            if not (first[more] < second[more] and first[less] > second[less]):
                found = f"{first} beside {second}"
                return Violation("front", 0, "plan", f"less {less} for more {more}", found)
        from tilewright.tiling.network_measures import layer_front  # for start-up time

        return {"front": layer_front(problem, points)}

    return front.simulate_front(plan.split(), lambda one: _simulate(problem, one, options), judge)


def recheck(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify what an optimal plan claims beyond its objective.

    That is for a front that it is complete, and for a list of objectives that those before the last are
    within their tolerance: layer by layer, or in all.

    Parameters
    ----------
    deadline
        ``time.monotonic()`` until when that must be proven.

    Returns
    -------
    list of (what, holds, detail)
    """
    if problem.minimise != "pareto":
        return _recheck_list(problem, plan, deadline) if problem.before else []
    if problem.network is None:
        return _recheck_front(problem, plan, deadline)
    fronts: dict[tuple[int, Plan], list[tuple[str, bool | None, str]]] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        if (id(part), one) not in fronts:
            fronts[id(part), one] = _recheck_front(part, one, deadline)
        what, holds, detail = fronts[id(part), one][0]
        if not holds:
            return [(what, holds, f"layer {name}: {detail}")]
    return [("front", True, f"those of {len(fronts)} different layers found anew")]


def _recheck_front(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify that a front is complete."""
    kind = kind_of(problem)
    try:
        again = kind.exhaustive(problem, deadline)
    except OutOfTimeError:
        again = None
    claimed, found = (
        [kind.trade_off(problem, kind.simulate(problem, layer, overlapped=False)) for layer in layers]
        for layers in (plan.layers, again.layers if again else ())
    )
    return front.recheck(claimed, found, again is not None and again.proven)


def _recheck_list(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify that no objective before the last costs more than its tolerance allows."""
    if problem.objective.of_network:
        return _recheck_total(problem, plan, deadline)
    stages: dict[int, Problem | None] = {}
    for (name, part), one in zip(problem.parts, plan.split(), strict=True):
        try:
            if id(part) not in stages:
                stages[id(part)] = last_stage(part, deadline)
        except OutOfTimeError:
            return [("tolerance", None, "the objectives before the last are not proven in time")]
        stage = stages[id(part)]
        broken = "there is no plan" if stage is None else _violation(stage, one)
        if broken is not None:
            return [("tolerance", False, f"layer {name}: {broken}" if name else broken)]
    return [("tolerance", True, f"{', '.join(name for name, _ in problem.before)}: within it")]


def _recheck_total(problem: Problem, plan: Plan, deadline: float) -> list[tuple[str, bool | None, str]]:
    """Verify that the first objective of a network's list costs no more in all than its tolerance allows."""
    name = problem.objective.names[0]
    try:
        most = total_limit(problem, deadline)
    except OutOfTimeError:
        return [("tolerance", None, f"the least {name} of the network is not proven in time")]
    cost = _total(problem, plan, name)
    if most is None or cost > most:
        return [
            ("tolerance", False, "there is no plan" if most is None else _above(problem, name, cost, most))
        ]
    return [("tolerance", True, f"{name}: {cost:,} of at most {most:,}")]


def total_limit(problem: Problem, deadline: float) -> int | None:
    """Return what a network may cost in all of what limits it, where its layers are `coupled`.

    That is what is given, or what is proven to be the least and the tolerance.

    Returns
    -------
    int or None
        None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    given = problem.limits.at_most.given
    if not problem.objective.of_network:
        return next(iter(given.values()))
    (name, tolerance), *_ = problem.before
    least: dict[int, int] = {}
    for _, part in problem.parts:
        if id(part) not in least:
            found = kind_of(part).exhaustive(_of(part, name), deadline)
            if found is None:
                return None
            if not found.proven:
                raise OutOfTimeError
            least[id(part)] = found.value
    return _tolerated(sum(least[id(part)] for _, part in problem.parts), tolerance)


def _tolerated(least: int, tolerance: float) -> int:
    """Return what a cost may be at most whose least is known; the tolerance as it is written in decimals."""
    return least + int(least * Fraction(str(tolerance)))


def best_of_network(problem: Problem, deadline: float) -> tuple[Plan, int, int] | None:
    """Return the best plan of a network whose layers are `coupled`, its cost, and a bound on any plan's.

    Each different layer's front of both costs is found, with its share of the time; what others leave of
    theirs goes to those for which it was too short. Of these fronts the best choice is made. One that is not
    complete leaves the bound open.

    Returns
    -------
    (plan, cost, bound) or None
        None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes before there is a plan within the limit.
    """
    assert problem.coupled is not None
    most = total_limit(problem, deadline)
    if most is None:
        return None
    front_of = {"minimise": "pareto", "between": problem.coupled}
    distinct = {id(part): part.with_(objective=front_of) for _, part in problem.parts}
    found: dict[int, Exact] = {}
    again = list(distinct)
    for _ in range(ROUNDS):
        left, again = again, []
        for number, key in enumerate(left):
            now = time.monotonic()
            try:
                one = distinct[key]
                front = kind_of(one).exhaustive(one, now + (deadline - now) / (len(left) - number))
            except OutOfTimeError:
                again.append(key)
                continue
            if front is None:
                return None
            if key not in found or front.proven or len(front.layers) > len(found[key].layers):
                found[key] = front
            if not front.proven:
                again.append(key)
        if not again or time.monotonic() >= deadline:
            break
    if len(found) < len(distinct):
        raise OutOfTimeError
    fronts = {key: _costs(problem.coupled, distinct[key], front.layers) for key, front in found.items()}
    sequence = [id(part) for _, part in problem.parts]
    choice = totals.cheapest([fronts[key] for key in sequence], most)
    if choice is None and again:
        raise OutOfTimeError
    if choice is None:
        return None
    plans = zip(sequence, choice.chosen, strict=True)
    plan = Plan(tuple(found[key].layers[place] for key, place in plans))
    cost = objective(problem, plan)
    return plan, cost, best_bound(problem).value if again else choice.bound


def _costs(names: tuple[str, str], part: Problem, plans: Sequence[Any]) -> list[tuple[int, int]]:
    """Return two costs of plans of a layer, by the closed form."""
    kind, (one, other) = kind_of(part), (_of(part, name) for name in names)
    return [(kind.objective(one, plan), kind.objective(other, plan)) for plan in plans]


def last_stage(problem: Problem, deadline: float) -> Problem | None:
    """Return what is left of a list of objectives: the last one, with limits on those before it.

    Each is minimised in its turn, and may then cost its least and the tolerance.

    Parameters
    ----------
    problem
        With one layer.
    deadline
        ``time.monotonic()`` until when the optima of all but the last are proven.

    Returns
    -------
    Problem or None
        The problem itself where it has one objective; None where there is no plan.

    Raises
    ------
    OutOfTimeError
        When the deadline passes.
    """
    at_most = problem.limits.at_most.given
    for name, tolerance in problem.before:
        found = kind_of(problem).exhaustive(_alone(problem, name, at_most), deadline)
        if found is None:
            return None
        if not found.proven:
            raise OutOfTimeError
        least = _tolerated(found.value, tolerance)
        at_most[name] = min(least, at_most.get(name, least))
    return _alone(problem, problem.minimise, at_most) if problem.before else problem


def _alone(problem: Problem, name: str, at_most: dict[str, int]) -> Problem:
    return _of(problem, name).with_(limits={"at_most": at_most})


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes for a plan with that number of steps."""
    return 0.2 + steps * 1e-4


def numeric_elements(problem: Problem) -> int:
    """Elements of all tensors of the largest layer, as a numeric simulation holds them, if it does."""

    def elements(layer: Layer) -> int:
        rows, columns = layer.padded_plane
        shapes = (layer.kernels_shape, layer.output_shape, (*layer.input_shape[:2], rows, columns))
        return sum(prod(shape) for shape in shapes)

    layers = [part.one_layer for _, part in problem.parts if part.operation is None]
    if _too_many_macs(problem):
        return 0
    return max(map(elements, layers), default=0)


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    each, parts = 1200 if problem.machine.kind == "hierarchy" else 400, len(problem.parts)
    if not problem.traded:
        return each * (1 + parts)
    return each * MAX_LAYERS + 2 * totals.MOST_SHOWN * parts


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the heuristics and the exact search, for any steps beside `padded`."""
    if problem.limits.factors == "any":
        return Portfolio("padded", "exhaustive")
    alone = problem.machine.kind == "hierarchy"
    return Portfolio(CONSTRUCT, "exhaustive", alone=alone, chooses=not alone)
