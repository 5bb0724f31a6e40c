"""Whether a plan is valid, what it costs in closed form, and what ``auto`` runs."""

from __future__ import annotations

from tilewright.core.bounds import Bound
from tilewright.core.context import CONSTRUCT
from tilewright.core.portfolio import Portfolio
from tilewright.residency.cost import Spent
from tilewright.residency.decode_plan import DecodedStep, decode_plan, find_overlap
from tilewright.residency.derived_problems import least_of_a_frame, problem_of_plan, weights_of
from tilewright.residency.graph import InvalidPlanError
from tilewright.residency.machine import ONE, tops_of, traffic_of
from tilewright.residency.placement import placed_items
from tilewright.residency.plan import Plan
from tilewright.residency.problem import Problem, most_of
from tilewright.simulator import Report

NEEDED = {
    "traffic": "bytes are moved",
    "cycles": "cycles are needed",
    "energy": "fJ are needed",
    "macs": "MACs are needed",
}
"""What is said of amounts."""


def needed(name: str) -> str:
    """Return what is said of an amount of something that is limited."""
    return NEEDED.get(name, "bytes are read and written there")


def best_bound(problem: Problem) -> Bound:
    """Return what every plan moves, takes or needs, or the memory that an operation takes at least."""
    width, more = problem.machine.element_bytes, problem.attention_excess
    name = "compulsory traffic and that of attention" if more else "compulsory traffic"
    if problem.limits.frames != ONE:
        return Bound(f"{name} of a frame", (least_of_a_frame(problem) + more) * width, 1, None)
    spent = problem.spent(problem.least_of_any_schedule)
    if not problem.machine.dram:
        spent |= {traffic_of(each): problem.least_traffic(each) for each in problem.machine.names_of_memories}
    impossible = next(
        (
            f"{spent[name]:,} {needed(name)} in any case, objective.{most_of(name)} allows {limit:,}"
            for name, limit in problem.objective.limits.items()
            if limit < spent[name]
        ),
        None,
    )
    if problem.minimise == "memory":
        return Bound("largest operation", problem.least_memory * width, 1, impossible)
    name = name if problem.minimise == "traffic" else f"{name}, and all work"
    return Bound(name, spent[problem.minimise], 1, impossible)


def violation(problem: Problem, plan: Plan) -> str | None:
    """Say what is wrong with a plan, or None for a valid one."""
    try:
        steps = decode_plan(problem, plan)
    except InvalidPlanError as error:
        return str(error)
    return find_overlap(problem, plan, steps) or exceeded_limit(problem, steps)


def exceeded_limit(problem: Problem, steps: list[DecodedStep]) -> str | None:
    """Say by how much a plan spends too much of what is limited."""
    spent = total_costs(problem, steps)
    for name, limit in problem.objective.limits.items():
        if spent[name] > limit:
            return f"{name}: {spent[name]:,} {needed(name)}, at most {limit:,} are allowed"
    return None


def total_costs(problem: Problem, steps: list[DecodedStep]) -> dict[str, int]:
    """Return what steps spend in all, by objective."""
    spent, traffic = Spent(), dict[str, int]()
    names = () if problem.machine.dram else problem.machine.names_of_memories
    for step in steps:
        spent = spent.plus(step.spent)
        for name, touched in zip(names, step.touched, strict=False):
            moved = (touched.read + touched.written) * problem.machine.element_bytes
            traffic[traffic_of(name)] = traffic.get(traffic_of(name), 0) + moved
    return problem.spent(spent) | traffic


def objective(problem: Problem, plan: Plan) -> int:
    """Return the cost of a valid plan by the closed form; the simulator must find the same."""
    return costs_of(problem, plan)[problem.minimise]


def costs_of(problem: Problem, plan: Plan) -> dict[str, int]:
    """Return what a valid plan costs, by objective, in its unit."""
    steps = decode_plan(problem, plan)
    memory = problem.machine.element_bytes * memory_taken(problem, plan, steps)
    return total_costs(problem, steps) | {"memory": memory}


def memory_taken(problem: Problem, plan: Plan, steps: list[DecodedStep]) -> int:
    """Return the end of the highest element that a plan uses, of several memories all of these together."""
    return sum(taken_of_each(problem, plan, steps))


def taken_of_each(problem: Problem, plan: Plan, steps: list[DecodedStep]) -> list[int]:
    """Return what a plan takes of each memory, in elements up to the highest that it uses."""
    placed = placed_items(problem_of_plan(problem, plan).groups, [step.choice for step in steps])
    numbers = {operation.name: operation.number for operation in problem.graph.operations}
    stays = [(at, weights_of(problem.graph, [numbers[name]])) for name, at in plan.staying.items()]
    spans = [(plan.steps[item.names[0][0]].addresses[item.names[0][1]], item.size) for item in placed]
    return tops_of(problem.machine.regions, [*stays, *spans])


def measured_objective(problem: Problem, report: Report) -> int:
    """Return the cost of a simulated plan."""
    return problem.measured(report.measures)


def simulation_seconds(problem: Problem, steps: int) -> float:
    """Estimate how long `simulate` takes."""
    graph = problem.graph
    elements = sum(tensor.size * (1 + len(tensor.readers)) for tensor in graph.tensors)
    weights = sum(operation.weights for operation in graph.operations)
    frames = 1 if problem.limits.frames == ONE else 2
    if not problem.machine.dram:  # pixel by pixel
        return 0.5 + 1.5e-4 * sum(tensor.pixels for tensor in graph.tensors)
    return 0.5 + problem.limits.executions * frames * (
        0.02 * len(graph.operations) + 1.4e-7 * elements + 2e-8 * weights
    )


def numeric_elements(problem: Problem) -> int:
    """Elements that a numeric simulation holds: all tensors, twice, and weights."""
    graph = problem.graph
    maps = problem.limits.executions * sum(tensor.size for tensor in graph.tensors)
    return 3 * maps + sum(op.weights for op in graph.operations)


def most_values(problem: Problem) -> int:
    """Return about how many values a plan and its report have at most."""
    return 1_000 * (1 + len(problem.graph.operations))


def portfolio(problem: Problem) -> Portfolio:
    """Return what ``auto`` runs: the exact search, which begins with the heuristics."""
    return Portfolio(CONSTRUCT, "states", alone=True)
