"""Lists of objectives, which models solve one after the other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from typing import Any

import pytest
from tests.models.formulations import need
from tests.models.matrix import CONVOLUTION, HIERARCHY, NPU, PAIR, POINT

import tilewright as tw
from tilewright import drivers
from tilewright.core.context import Outcome, RunContext
from tilewright.drivers.export import text
from tilewright.run import methods
from tilewright.run.instance import parse
from tilewright.spec.errors import InputError, TilewrightError

Json = dict[str, Any]

DSP: Json = {"kind": "dsp", "memory_bytes": 40, "element_bytes": 1}
MEMORY: Json = {"memory_bytes": 30, "macs_per_cycle": 1, "bus_elements_per_cycle": 1}

TILING = [
    (POINT, DSP, ("accesses", "cycles", "energy"), "reference.dsp@gecode"),
    (CONVOLUTION, NPU, ("time", "accesses"), "reference.npu@gecode"),
    (POINT, HIERARCHY, ("accesses", "energy", "cycles"), "reference.hierarchy@gecode"),
]
RESIDENCY = ["reference@gecode", "columns_intervals@highs", "columns_arcs@cpsat"]


def cases() -> Iterator[tuple[Json, str, list[str], str]]:
    """Return problems, the rooms' own searches, lists of objectives, and models."""
    for layer, machine, names, model in TILING:
        for pair in permutations(names, 2):
            yield {"room": "tiling", "layer": layer, "machine": machine}, "exhaustive", [*pair], model
    for pair in permutations(("traffic", "memory", "cycles"), 2):
        for model in RESIDENCY:
            yield {"room": "residency", "network": PAIR, "machine": MEMORY}, "states", [*pair], model


@pytest.mark.by_day(4)
@pytest.mark.parametrize("tolerance", [0.0, 0.2])
@pytest.mark.parametrize(("table", "own", "names", "model"), list(cases()))
def test_a_model_finds_what_the_search_finds(
    table: Json, own: str, names: list[str], model: str, tolerance: float
) -> None:
    need(model.partition("@")[2])
    asked = parse({**table, "objective": {"minimise": names, "tolerance": tolerance}}).problem
    expected = tw.solve(asked, own, time_limit=60, confirm=False)
    found = tw.solve(asked, model, time_limit=60, confirm=False)
    assert (
        (found.status, found.objective) == (expected.status, expected.objective) == ("optimal", found.bound)
    )


def listed(*names: str) -> Any:
    """Return a problem with a list of objectives."""
    table = {"network": PAIR, "machine": MEMORY, "objective": {"minimise": list(names)}}
    return parse({"room": "residency", **table}).problem


def test_nothing_is_optimal_after_an_objective_that_is_not_proven(monkeypatch: pytest.MonkeyPatch) -> None:
    need("highs")
    driver = drivers.load("highs")
    real, asked = driver.solve, []

    def unsure(problem: Any, formulation: Any, context: RunContext) -> Outcome:
        outcome: Outcome = real(problem, formulation, context)
        asked.append((problem.minimise, problem.objective.limits))
        return replace(outcome, status="feasible") if len(asked) == 1 else outcome

    monkeypatch.setattr(driver, "solve", unsure)
    problem = listed("traffic", "cycles")
    least = tw.solve(problem.stage({}), "states", confirm=False).objective
    outcome = methods.run_method("columns_intervals@highs", problem, RunContext(), methods.Listener(print))
    assert asked == [("traffic", {}), ("cycles", {"traffic": least})]
    assert outcome.status == "feasible" and outcome.plan is not None


def test_models_without_limits_on_costs_refuse_lists() -> None:
    table = {"layer": CONVOLUTION, "machine": NPU, "objective": {"minimise": ["time", "accesses"]}}
    with pytest.raises(TilewrightError, match="do not limit costs"):
        tw.solve(parse({"room": "tiling", **table}).problem, "cores@gecode")


def test_a_list_is_no_single_model_to_write() -> None:
    with pytest.raises(InputError, match="each is a model of its own"):
        text(listed("traffic", "cycles"), "columns_intervals", ".lp")


def test_reports_of_earlier_objectives_are_not_heard() -> None:
    need("highs")
    heard: list[int] = []
    context = RunContext(on_bound=lambda bound, *_: heard.append(bound))
    problem = listed("cycles", "traffic")  # cycles are the larger number
    outcome = methods.run_method("columns_intervals@highs", problem, context, methods.Listener(print))
    assert outcome.bound is not None and max(heard) <= outcome.bound
