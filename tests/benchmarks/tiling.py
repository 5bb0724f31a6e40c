"""Measure the exact search of tilings on the imaging DSP: ``python tests/benchmarks/tiling.py``."""

from __future__ import annotations

import resource
import time
from collections.abc import Callable
from typing import Any

from tilewright.run.instance import read
from tilewright.tiling import Problem, objective
from tilewright.tiling.dsp import exact, exhaustive, local_traffic, nest_of
from tilewright.tiling.plan import Plan

OBJECTIVES = ("accesses", "cycles", "energy")


def milliseconds(work: Callable[[], Any]) -> tuple[float, Any]:
    """Return the time of one run, and what it gives."""
    began = time.perf_counter()
    result = work()
    return 1000 * (time.perf_counter() - began), result


def changed(problem: Problem, **tables: Any) -> Problem:
    """Return a problem with other tables; tables of searches before it are not kept."""
    nest_of.cache_clear()
    local_traffic.cache_clear()
    return Problem.model_validate({**problem.model_dump(), **tables})


def layers(name: str) -> None:
    """Print the time of every layer, with the thesis's schedules and with all orders of the loops."""
    print(f"{name}, milliseconds of the exact search; gain of any order over the thesis's five schedules")
    print(f"{'layer':<10}" + "".join(f"{minimise:>24}{'gain':>9}" for minimise in OBJECTIVES))
    print(f"{'':<10}" + f"{'thesis':>14}{'any':>10}{'':>9}" * len(OBJECTIVES))
    plain = read(name).problem
    for layer, part in plain.parts:
        cells = []
        for minimise in OBJECTIVES:
            spent, values = [], []
            for limit in ("thesis", "any"):
                problem = changed(part, objective={"minimise": minimise}, limits={"schedule": limit})
                took, found = milliseconds(lambda problem=problem: exhaustive(problem, float("inf")))
                spent.append(took)
                values.append(found[0])
            cells.append(f"{spent[0]:>14.1f}{spent[1]:>10.1f}{1 - values[1] / values[0]:>9.2%}")
        print(f"{layer:<10}" + "".join(cells), flush=True)


def network(name: str, minimise: str) -> None:
    """Print the time of a whole network, equal layers once."""
    problem = changed(read(name).problem, objective={"minimise": minimise})
    parts = {id(part): part for _, part in problem.parts}

    def solve() -> int:
        best = {key: exhaustive(part, float("inf")) for key, part in parts.items()}
        plan = Plan(tuple(best[id(part)][1][0] for _, part in problem.parts))  # type: ignore[index]
        return objective(problem, plan)

    took, value = milliseconds(solve)
    label = f"{name}, {len(problem.parts)} layers, {len(parts)} different, {minimise}"
    print(f"{label:<60}{took:>10.0f} ms   {value:,}", flush=True)


def front(name: str) -> None:
    """Print the time of a whole Pareto front."""
    problem = changed(read(name).problem, objective={"minimise": "pareto"})
    nest = nest_of(problem.one_layer, problem.machine)
    local = exact.local_traffic(nest)
    for limit in ("thesis", "any"):
        took, points = milliseconds(lambda limit=limit: exact.pareto_front(nest, limit, local)[0])
        print(f"{f'{name}, front, schedules: {limit}':<60}{took:>10.0f} ms   {len(points)} plans", flush=True)


def main() -> None:
    """Run all measurements."""
    for name in ("alexnet-idsp", "vgg16-idsp"):
        layers(name)
        print()
    for name in ("vgg16-idsp", "resnet50-idsp", "mobilenetv2-idsp"):
        for minimise in OBJECTIVES:
            network(name, minimise)
    for name in ("lenet5-conv2-idsp", "vgg16-conv1_2-idsp"):
        front(name)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{'peak memory of all of the above':<60}{peak:>10.0f} MiB")


if __name__ == "__main__":
    main()
