"""Right results with one lie: ``tilewright check`` never says that all is verified."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fuzz import command_line, samples
from tests.fuzz.campaigns.bad_results import holder, places
from tests.fuzz.trials import Skip, Wrong

from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.spec.errors import TilewrightError

NIGHTLY = 8

Data = dict[str, Any]


def numbers(data: Any) -> list[tuple[Any, ...]]:
    """Return the paths of all numbers in a structure."""
    return [path for path in places(data) if type(holder(data, path)[path[-1]]) in (int, float)]


def shifted(data: Any, path: tuple[Any, ...], rng: random.Random) -> None:
    """Change a number."""
    parent, key = holder(data, path), path[-1]
    parent[key] += rng.choice([1, -1, 2, 7, 1000, max(1, parent[key])])


def with_gap(data: Data) -> None:
    """Let the gap fit objective and bound, so that it does not give the lie away."""
    objective, bound = data["objective"], data["bound"]
    data["gap"] = None if objective is None or bound is None else (objective - bound) / max(1, objective)


def with_trace(data: Data) -> None:
    """Let the last entry of the trace fit objective and bound."""
    if data["trace"]:
        data["trace"][-1] = [data["trace"][-1][0], data["objective"], data["bound"]]


def objective(data: Data, rng: random.Random) -> None:
    """Another objective, with all that a careful liar changes with it."""
    data["objective"] += rng.choice([-1, 1, -7, 1000])
    if rng.random() < 0.7:
        data["bound"] = data["objective"]
    if rng.random() < 0.5:
        data["status"] = "feasible"
        data["bound"] = rng.choice([None, data["objective"] - 1])
    with_gap(data)
    with_trace(data)


def bound(data: Data, rng: random.Random) -> None:
    """A bound above the optimum."""
    data["bound"] += rng.choice([1, 5, 10**6])
    if rng.random() < 0.5:
        with_gap(data)
        with_trace(data)


def status(data: Data, rng: random.Random) -> None:
    """Another status; infeasible also without the plan."""
    data["status"] = rng.choice(["feasible", "infeasible", "unknown"])
    if data["status"] == "infeasible" and rng.random() < 0.8:
        data["plan"] = data["objective"] = data["report"] = data["gap"] = data["bound"] = data["bound_by"] = (
            None
        )
        data["trace"] = []


def gap(data: Data, rng: random.Random) -> None:
    data["gap"] = rng.choice([None, 0.25, -1, 1.0, 1e-6])


def report(data: Data, rng: random.Random) -> None:
    """Another number in the report, one number less, or one more."""
    told = data["report"]
    path = rng.choice([path for path in numbers(told) if path[-1] not in ("numeric", "overlapped_cycles")])
    match rng.randrange(4):
        case 0:
            del holder(told, path)[path[-1]]
        case 1:
            told[rng.choice(["joules", "cycles_total", "pixels"])] = rng.randrange(10**6)
        case _:
            shifted(told, path, rng)


def words_of_report(data: Data, rng: random.Random) -> None:
    """Another word in the report, or a violation of a plan that has none."""
    told = data["report"]
    texts = [path for path in places(told) if isinstance(holder(told, path)[path[-1]], str)]
    if texts and rng.random() < 0.7:
        path = rng.choice(texts)
        holder(told, path)[path[-1]] += rng.choice(["x", " (measured)", "2"])
    elif rng.random() < 0.5:
        told["violation"] = "step 1: too large"
    else:
        told["valid"] = not told["valid"]


def history(data: Data, rng: random.Random) -> None:
    """A trace in which something impossible happens."""
    seconds, last, proven = data["trace"][-1] if data["trace"] else (0.0, data["objective"], data["bound"])
    data["trace"] += [
        rng.choice(
            [
                [seconds, last - 1, proven],
                [seconds, last, proven + 1],
                [seconds, last + 1, proven],
                [seconds - 1000, last, proven],
                [seconds + 10**6, last, proven],
                [seconds, None, None],
            ]
        )
    ]


def names(data: Data, rng: random.Random) -> None:
    """A method, or a proof of the bound, of which there is none."""
    key = rng.choice(["method", "bound_by"])
    made_up = [
        "oracle",
        "",
        "s7@highs",
        "ordered@cplex",
        "exhaustive@gecode",
        "auto",
        "compulsory bound: a lie",
    ]
    data[key] = rng.choice([name for name in made_up if (key, name) != ("method", "auto")])


def of_another(data: Data, rng: random.Random) -> None:
    """A result of another problem."""
    match rng.randrange(3):
        case 0:
            digest = list(data["instance_sha256"])
            place = rng.randrange(len(digest))
            digest[place] = "0" if digest[place] != "0" else "1"
            data["instance_sha256"] = "".join(digest)
        case 1:
            data["room"] = rng.choice([room for room in catalogue.ROOMS if room != data["room"]])
        case _:
            data["instance_sha256"] = rng.choice(["", data["instance_sha256"][:12], "0" * 64])


LIES: dict[str, Callable[[Data, random.Random], None]] = {
    "objective": objective,
    "bound": bound,
    "status": status,
    "gap": gap,
    "report": report,
    "words of the report": words_of_report,
    "trace": history,
    "method, bound_by": names,
    "instance_sha256, room": of_another,
}


def other_plan(data: Data, rng: random.Random, instance: Path) -> None:
    """Change the plan; leave out the trial where it costs and does the same."""
    plan, before = data["plan"], copy.deepcopy(data["plan"])
    path = rng.choice(list(places(plan)))
    parent, key = holder(plan, path), path[-1]
    match rng.randrange(4):
        case 0 if isinstance(parent, list):
            del parent[key]
        case 1 if isinstance(parent, list) and len(parent) > 1:
            other = rng.randrange(len(parent))
            parent[key], parent[other] = parent[other], parent[key]
        case 2 if isinstance(parent, list):
            parent.append(copy.deepcopy(parent[key]))
        case _:
            shifted(plan, rng.choice(numbers(plan)), rng)
    if plan == before:
        raise Skip
    problem = read(instance)
    room = catalogue.room(problem.room)
    try:
        # Two ways of writing one plan are one plan.
        if room.plan_type.from_json(plan) == room.plan_type.from_json(before):
            raise Skip
        found = room.simulate(problem.problem, room.plan_type.from_json(plan), overlapped=False)
    except TilewrightError:
        return
    if found.valid and json.loads(json.dumps(found.verdict().to_json())) == data["report"]:
        raise Skip  # another plan that is as good in everything


def trial(rng: random.Random, scratch: Path) -> None:
    """Check one result with one lie."""
    name = rng.choice(list(samples.SAMPLES))
    instance, path = samples.write(name, scratch), scratch / "result.json"
    data = copy.deepcopy(samples.right(name))
    lie = rng.choice(["plan", "plan", *LIES])
    if lie == "plan":
        other_plan(data, rng, instance)
    else:
        LIES[lie](data, rng)
        if data == samples.right(name):
            raise Skip
    path.write_text(json.dumps(data))
    done = command_line.run(scratch, "check", instance.name, path.name, "--time-limit", "5")
    if done.returncode == 0:
        right = samples.right(name)
        changed = {key: data[key] for key in data if data[key] != right.get(key)}
        raise Wrong(f"a lie about {lie} of {name} is verified: {json.dumps(changed)[:1500]}\n{done.stdout}")
