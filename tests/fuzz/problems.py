"""Random problems solved by random methods, and what an oracle apart from the package says of the answers."""

from __future__ import annotations

import json
import random
import time
import traceback
from collections.abc import Callable
from fnmatch import fnmatch
from inspect import signature
from pathlib import Path
from types import ModuleType
from typing import Any

from tests.fuzz.trials import Skip, Wrong
from tests.oracles import Refused, TooLarge

from tilewright import drivers
from tilewright.core import catalogue
from tilewright.core.context import Outcome, RunContext
from tilewright.run.instance import Instance, parse
from tilewright.run.methods import Listener, methods, proves, run_method
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.run.verify import check
from tilewright.spec.errors import InputError, SolverMissingError, TilewrightError

Json = dict[str, Any]

SECONDS = 20.0
"""Time limit of a method: none needs it for problems that can be enumerated."""

SLOW = {"gecode": 0.08, "highs": 0.35, "cpsat": 0.35, "search": 0.04}
"""How often methods are taken that call a solver, or that search until time is up; the others always."""

SEARCH_SECONDS = 1.5
"""Time limit of heuristics that search until time is up."""

WORKERS = 0.02
"""How often such a method has a process of its own, as users' have, and how often `check` runs it again."""

CHOSEN = ""
"""Pattern of the methods that are all taken, as ``*@*`` for the formulations; empty for a random choice."""

LARGEST = 10**6
"""Cost beyond which HiGHS's tolerances are more than a unit, so that the last one may stay unproven."""

UNSUITED = ("method = ", "the declarative formulations", "the MiniZinc formulations")
"""What refusals of a method say that does not suit a problem."""

GIVEN_UP = ("is too small", "has no place for all buffers")
"""What rules say for which a memory is too small."""


def attack(rng: random.Random, scratch: Path, room: str, table: Json, oracle: ModuleType) -> list[str]:
    """Solve a problem with several methods and compare each answer with the oracle's.

    Parameters
    ----------
    table
        The tables of an instance.
    oracle
        One of ``tests.oracles``.

    Returns
    -------
    list of str
        The methods that were tried.
    """
    try:
        instance = parse({"room": room, **table})
    except InputError as error:
        return refused(room, table, oracle, error)
    problem = instance.problem.model_dump(mode="json")
    try:
        best = oracle.best(problem)
    except TooLarge as error:
        raise Skip from error
    tried = []
    every = methods(room)
    for method in rng.sample(every, len(every)):
        often = fnmatch(method, CHOSEN) if CHOSEN else SLOW.get(_kind(room, method), 1.0)
        if rng.random() > often:
            continue
        try:
            if Attempt(rng, scratch, instance, problem, best, oracle).of(method):
                tried.append(method)
        except Skip:
            raise
        except Exception as error:
            where = "" if isinstance(error, Wrong) else "".join(traceback.format_tb(error.__traceback__)[-2:])
            told = f"{type(error).__name__}: {error}\n{where}"
            raise Wrong(f"{method}: {told}\n{json.dumps({'room': room, **table})}") from error
    return tried


GENEROUS: Json = {
    "machine": {
        "memory_bytes": 1 << 30, "input_bytes": 1 << 30, "weights_bytes": 1 << 30, "output_bytes": 1 << 30,
        "parameter_bytes": 1 << 30, "memory": None, "buffer_bytes": None, "array": [32, 32],
        "accumulator_bits": 40, "widths": None,
    },
    "objective": {"frames_per_second": None},
    "memory": {"capacity": 1 << 30},
    "graph": {"fast_memory_capacity": 1 << 30},
}  # fmt: skip
"""With these values no machine is too small, and no rate too high."""


def refused(room: str, table: Json, oracle: ModuleType, error: InputError) -> list[str]:
    """Judge the refusal of a problem: it must be one that has no plan.

    A register file that holds no tile and a template that matches nothing are refused for other reasons.
    """
    if error.field.startswith(("machine.register_file_bytes", "templates")):
        raise Skip from error
    ample = {name: dict(part) if isinstance(part, dict) else part for name, part in table.items()}
    for name, values in GENEROUS.items():
        for key in values.keys() & table.get(name, {}).keys():
            if name == "objective" and table[name]["minimise"] == "pes":
                ample[name][key] = 1e-3
            elif values[key] is None:
                del ample[name][key]
            else:
                ample[name][key] = values[key]
    told = f"{error}\n{json.dumps({'room': room, **table})}"
    try:
        problem = parse({"room": room, **ample}).problem.model_dump(mode="json")
    except InputError as again:
        raise Wrong(f"refused whatever there is: {again}; {told}") from error
    for name, values in [(part, GENEROUS[part]) for part in GENEROUS.keys() & table.keys()]:
        problem[name] |= {key: table[name][key] for key in values.keys() & table.get(name, {}).keys()}
    try:
        best = oracle.best(problem)
    except TooLarge as large:
        raise Skip from large
    if best is not None:
        raise Wrong(f"refused, but a plan costs {best}: {told}") from error
    return ["(refused)"]


class Attempt:
    """One problem solved by one method, and the judgement."""

    def __init__(
        self, rng: random.Random, scratch: Path, instance: Instance, problem: Json, best: Any, oracle: Any
    ) -> None:
        self.rng, self.scratch, self.instance, self.oracle = rng, scratch, instance, oracle
        self.problem, self.best = problem, best
        self.value: int | None = best[0][0] if isinstance(best, list) else best

    def of(self, method: str, again: bool = False) -> bool:
        """Solve and judge; return whether the method takes the problem."""
        room, solver = self.instance.room, method.partition("@")[2]
        quick = method == "auto" or catalogue.in_process(room, method)
        # Where the room's bound says that there is no plan, no method is called.
        settled = catalogue.room(room).best_bound(self.instance.problem).impossible is not None
        apart = quick or settled or self.rng.random() < WORKERS
        how: Any = method if apart else _in_process(room, method, self.rng)
        start = self._start() if solver or method in catalogue.exact_methods(room) else None
        seconds = SEARCH_SECONDS if method != "auto" and _kind(room, method) == "search" else SECONDS
        began = time.monotonic()
        try:
            if solver:
                drivers.load(solver).versions()
            result = solve(
                self.instance,
                how,
                time_limit=seconds,
                threads=1,
                seed=self.rng.randrange(9),
                **({} if start is None else {"warm_start": start}),
            )
        except SolverMissingError as error:
            raise Skip from error
        except TilewrightError as error:
            given_up = () if method == "auto" or proves(room, method) else GIVEN_UP
            if any(words in str(error) for words in (*UNSUITED, *given_up)):
                return False
            raise
        spent = time.monotonic() - began
        if not result.simulated and spent > seconds / 2 and not again:
            return self.of(method, again=True)  # something had to be compiled
        self.judge(method, result, spent)
        if not solver or apart:
            self.check(result)
        return True

    def _start(self) -> Any:
        """Return a heuristic's plan to start from, now and then."""
        room, problem = catalogue.room(self.instance.room), self.instance.problem
        if self.rng.random() < 0.7:
            return None
        name = self.rng.choice(catalogue.heuristics(self.instance.room))
        heuristic = catalogue.heuristic(self.instance.room, name)
        if catalogue.searches(heuristic) or not catalogue.suits(heuristic, problem):
            return None
        if room.parts(problem)[0][1] is not problem:
            return None
        try:
            plan = heuristic.plan(problem)
        except InputError:  # the memory is too small for the rule
            return None
        return plan if room.violation(problem, plan) is None else None

    def judge(self, method: str, result: Result, seconds: float) -> None:
        """Compare an answer with the oracle's."""
        for _, objective, bound in result.trace:
            if bound is not None and self.value is not None and bound > self.value:
                raise Wrong(f"bound {bound}, but a plan costs {self.value}")
            if objective is not None and (self.value is None or objective < self.value):
                raise Wrong(f"a plan of {objective}, where the least is {self.value}")
        if result.status == "infeasible" and self.best is not None:
            raise Wrong(f"infeasible, but a plan costs {self.best}")
        failures = [said for said in result.failures if not any(why in said for why in GIVEN_UP)]
        if failures or not result.simulated:
            raise Wrong(f"failures: {failures}, simulated: {result.simulated}")
        if result.plan is not None:
            self._judge_plan(result)
        proven = result.status in ("optimal", "infeasible")
        if method == "auto" or proves(result.room, method):
            allowed = self.oracle.may_stop(self.problem, method) or (
                method.endswith("@highs") and self.value is not None and self.value > LARGEST
            )
            if not proven and seconds < SECONDS / 2 and not allowed:
                raise Wrong(f"{result.status} after {seconds:.1f} s of {SECONDS:g}; right is {self.best}")
        elif (
            result.plan is None
            and self.best is not None
            and not _explained(result)
            and seconds < result.time_limit / 2
        ):
            raise Wrong("no plan, and no word why")

    def _judge_plan(self, result: Result) -> None:
        plan = result.plan.to_json()
        try:
            cost = self.oracle.cost(self.problem, plan)
        except Refused as error:
            raise Wrong(f"a plan that is not valid ({error}): {json.dumps(plan)}") from error
        first = cost[0][0] if isinstance(cost, list) else cost
        if first != result.objective:
            raise Wrong(f"objective {result.objective}, the plan costs {first}: {json.dumps(plan)}")
        if result.status == "optimal" and cost != self.best:
            raise Wrong(f"optimal {cost}, but the least is {self.best}: {json.dumps(plan)}")

    def check(self, result: Result) -> None:
        """Write the result, read it and let `check` verify it."""
        path = self.scratch / "result.json"
        if self.rng.random() < 0.1:
            result.write(path)  # waits for the disk
        else:
            path.write_text(json.dumps(result.to_json()))
        again = Result.read(path)
        if again.to_json() != json.loads(json.dumps(result.to_json())):
            raise Wrong("the result that is read differs from what was written")
        wrong = [f"{found}" for found in check(self.instance, again, time_limit=SECONDS) if not found.holds]
        if wrong:
            raise Wrong(f"check does not verify a right {result.status}: {wrong}")


def _kind(room: str, method: str) -> str:
    """Return the solver that a method calls, or ``search`` for what takes all its time."""
    if method in catalogue.heuristics(room):
        return "search" if catalogue.searches(catalogue.heuristic(room, method)) else ""
    if method == "auto" and room == "grouping":
        return "search"
    return method.partition("@")[2]


def _explained(result: Result) -> bool:
    """Whether a heuristic says which limit its plan breaks."""
    return result.report is not None and bool(result.report.violation)


def _in_process(room: str, method: str, rng: random.Random) -> Callable[[Any, RunContext], Outcome]:
    """Return a method in this process, by its own name; now and then without a formulation's extras."""
    name, _, solver = method.partition("@")
    formulation = catalogue.formulation(room, name) if solver else None
    extras = not _has_extras(formulation) or rng.random() < 0.75

    def run(problem: Any, context: RunContext) -> Outcome:
        listener = Listener(lambda _versions: None)
        if extras or catalogue.room(room).parts(problem)[0][1] is not problem:
            return run_method(method, problem, context, listener)
        if not catalogue.suits(formulation, problem):
            raise InputError("method", method, "does not suit")
        found: Outcome = drivers.load(solver).solve(problem, formulation, context, extras=False)
        return found

    run.__name__ = method
    return run


def _has_extras(formulation: Any) -> bool:
    """Whether there is something to leave out, as in all files of MiniZinc."""
    build = getattr(formulation, "build", None)
    return formulation is not None and (build is None or "extras" in signature(build).parameters)
