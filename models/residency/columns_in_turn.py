"""Problems that are several models of ``columns_arcs``: CP-SAT solves one after the other.

- A list of objectives: each but the last is minimised, and may then cost its least and the tolerance.
- Memory: the steps that take the least memory by size, within the limits. No plan takes less than the size of
  all that is on chip at a time, so this is a bound. Addresses are sought afterwards, in that memory or a
  little more.
- Operations that may be executed twice: each choice of who reads second executions is a network with a model
  of its own. Of a network it is first known that it loads its weights, and the inputs, once; then that it
  costs what a path through its steps costs, whatever is on chip; then what its model proves. The network of
  the least bound comes next, and the least bound of all is the bound.

What is not proven in time makes bounds weaker and never wrong: an objective before the last that costs more
than its least allows more plans, and a network that has not been solved counts with what is known of it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import ortools
from ortools.sat.python import cp_model

from tilewright.core.branch_and_bound import BestFirst, Incumbent, check_deadline
from tilewright.core.context import Outcome, RunContext
from tilewright.core.lists import solve_in_turn
from tilewright.models.residency.columns_arcs import formulate, read, start
from tilewright.residency import Plan, Problem, best_bound, objective, violation
from tilewright.residency.derived_problems import Readers, with_copies_of
from tilewright.residency.enumerated_steps import Columns, least_path, why_not_listed
from tilewright.residency.known_plans import cheap_path
from tilewright.residency.placement import place_steps
from tilewright.residency.reader_choices import reader_choices
from tilewright.spec.errors import InputError, OutOfTimeError

WRITTEN_FOR = "cpsat"

LARGEST_SEED = 2**31 - 1

MOST_NETWORKS = 10_000
"""Most choices of who reads second executions."""


def why_not(problem: Problem) -> str | None:
    """Say why the method does not take a problem, or None."""
    if problem.limits.executions != 1 and len(reader_choices(problem, MOST_NETWORKS)) > MOST_NETWORKS:
        return f"limits.executions: second executions have more than {MOST_NETWORKS:,} choices of readers"
    return why_not_listed(problem)


def suits(problem: Problem) -> bool:
    """Whether the method takes a problem."""
    return why_not(problem) is None


def solve(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum, of a list that of its last objective when those before it are proven."""
    if best_bound(problem).impossible is not None:
        return Outcome("infeasible")
    return solve_in_turn(problem, search, _solve_one) if problem.before else _solve_one(problem, search)


def _solve_one(problem: Problem, search: RunContext) -> Outcome:
    """Find and prove the optimum of one objective."""
    answer = _Stage(problem, search).run()
    if answer.plan is None:
        return Outcome("infeasible" if answer.impossible else "unknown", bound=answer.bound)
    optimal = objective(problem, answer.plan) <= answer.bound
    versions = {"ortools": ortools.__version__}
    return Outcome("optimal" if optimal else "feasible", answer.plan, answer.bound, versions=versions)


def _ignore(*_values: Any) -> None:
    """Take a report that nobody waits for."""


class Answer(NamedTuple):
    """The best plan of a problem with one objective, a bound, and whether it is known that there is none."""

    plan: Plan | None
    bound: int
    impossible: bool = False


class Network(NamedTuple):
    """A network with second executions, and its steps when they have been listed."""

    again: tuple[tuple[str, tuple[str, ...]], ...]
    found: Columns | None = None


@dataclass
class _Stage:
    """The search for one objective."""

    problem: Problem
    search: RunContext

    def __post_init__(self) -> None:
        problem, search = self.problem, self.search
        self.incumbent: Incumbent[Plan] = Incumbent(search.on_plan, search.on_bound)
        self.incumbent.prove(best_bound(problem).value)
        if search.start is not None and violation(problem, search.start) is None:
            self.incumbent.offer(objective(problem, search.start), search.start)

    def run(self) -> Answer:
        """Return the best plan and a bound."""
        impossible = False
        with suppress(OutOfTimeError):
            if self.incumbent.proven:
                pass
            elif self.problem.limits.executions != 1:
                self._network_by_network()
            else:
                impossible = self._one_model(Columns(self.problem))
        return Answer(self.incumbent.plan, self.incumbent.bound, impossible and self.incumbent.plan is None)

    def _take(self, plan: Plan) -> None:
        """Take a plan if it has addresses and is better than the best one."""
        if violation(self.problem, plan) is None:
            self.incumbent.offer(objective(self.problem, plan), plan)

    def _one_model(self, found: Columns) -> bool:
        """Solve the model of the problem; return whether it has no solution."""
        self.search.on_phase("building")
        m = formulate(found)
        if self.incumbent.plan is not None:
            start(m, self.incumbent.plan)
        run = _Run(m, self.search, lambda bound: self.incumbent.prove(m.offset + m.unit * bound))
        run.to_the_end(lambda value: self._take(m.path.read(value, self.search.deadline)))
        return run.impossible

    # Second executions ----------------------------------------------------------------------------------

    def _network_by_network(self) -> None:
        """Solve the models of networks, that of the least bound first."""
        width, weights = self.problem.machine.element_bytes, self._weights()
        tree: BestFirst[Network] = BestFirst(self.incumbent, self.search.deadline)
        compulsory = self.problem.graph.compulsory
        choices = reader_choices(self.problem, MOST_NETWORKS)
        for again in choices:
            bound = (compulsory + sum(weights[name] for name in again)) * width
            network = Network(tuple((name, tuple(readers)) for name, readers in again.items()))
            tree.push(bound, network, rank=len(again))
        for again in sorted(filter(_leads_to_one, choices), key=len):
            self._follow_few_paths(with_copies_of(self.problem, again), again)
        for bound, network in tree:
            again, found = dict(network.again), network.found
            if found is None:
                split = with_copies_of(self.problem, again)
                self._follow_few_paths(split, again)
                try:
                    found = Columns(split, self._spare(split))
                except InputError:  # too many: nothing more becomes known of this network
                    self.incumbent.leave_out(bound)
                    continue
                least = max(bound, least_path(found) * width)
                if found.columns:
                    tree.push(least, network._replace(found=found))
            else:
                self._solve_network(found, again, tree, bound)

    def _spare(self, split: Problem) -> int:
        """Return what plans of a network that are better than the best one move at most beyond the least."""
        return (self.incumbent.value - 1) // self.problem.machine.element_bytes - split.graph.compulsory

    def _follow_few_paths(self, split: Problem, again: Readers) -> None:
        """Look for a better plan of a network by a search that keeps few states."""
        check_deadline(self.search.deadline)
        path = cheap_path(split, self._spare(split))
        if path is None:
            return
        machine = split.machine
        plan = place_steps(
            *(split.groups, path.choices, machine.capacity, self.search.deadline), regions=machine.regions
        )
        if plan is not None:
            self._take(replace(plan, again={name: tuple(names) for name, names in again.items()}))

    def _weights(self) -> dict[str, int]:
        return {operation.name: operation.weights for operation in self.problem.graph.operations}

    def _solve_network(self, found: Columns, again: Readers, tree: BestFirst[Network], least: int) -> None:
        m, proven = formulate(found), least
        readers = {name: tuple(names) for name, names in again.items()}

        def prove(bound: int) -> None:
            nonlocal proven
            proven = max(proven, m.offset + m.unit * bound)

        run = _Run(m, self.search, prove)
        run.to_the_end(lambda value: self._take(replace(read(m, value), again=readers)))
        if run.status == cp_model.OPTIMAL:
            self.incumbent.leave_out(proven)  # better plans of this network might have no addresses
        elif not run.impossible:
            tree.push(proven, Network(tuple(readers.items()), found))


def _leads_to_one(again: Readers) -> bool:
    """Whether of all second executions at most one is read by anything but second executions."""
    names = {name for readers in again.values() for name in readers if not name.endswith(" again")}
    heads = [readers for readers in again.values() if names & {*readers}]
    return len(heads) <= 1


class _Run(cp_model.CpSolverSolutionCallback):  # type: ignore[misc]
    """One call of CP-SAT.

    Attributes
    ----------
    status
        What CP-SAT says at the end.
    """

    def __init__(self, m: Any, search: RunContext, on_bound: Callable[[int], None]) -> None:
        super().__init__()
        self.m, self.search, self.on_bound = m, search, on_bound
        self.status = cp_model.UNKNOWN
        self.error: Exception | None = None
        self.take: Callable[[Callable[[Any], int]], None] = _ignore

    def to_the_end(self, take: Callable[[Callable[[Any], int]], None]) -> None:
        """Run until the optimum is proven or the time is up; each better solution is taken."""
        check_deadline(self.search.deadline)
        self.search.on_phase("solving")
        self.take, solver = take, cp_model.CpSolver()
        solver.parameters.num_workers = self.search.threads
        solver.parameters.random_seed = self.search.seed % LARGEST_SEED
        solver.parameters.catch_sigint_signal = False
        solver.parameters.relative_gap_limit = 0.0
        if self.search.deadline != float("inf"):
            solver.parameters.max_time_in_seconds = self.search.remaining()
        solver.best_bound_callback = self._bounded
        self.status = solver.solve(self.m, self)
        if self.error is not None:
            raise self.error
        if self.status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self._bounded(solver.best_objective_bound)

    @property
    def impossible(self) -> bool:
        """Whether the model has no solution."""
        return bool(self.status == cp_model.INFEASIBLE)

    def _bounded(self, bound: float) -> None:
        if 0 <= bound < float("inf"):
            self.on_bound(round(bound))

    def on_solution_callback(self) -> None:
        """Take the solution that has just been found."""
        try:
            self.take(self.value)
        except Exception as error:  # it must not pass through CP-SAT
            self.error = self.error or error
            self.stop_search()
