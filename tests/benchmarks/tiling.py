"""Measure the exact search of tilings on the imaging DSP: ``python tests/benchmarks/tiling.py``."""

from __future__ import annotations

from typing import Any

from measuring import Benchmark, timed

from tilewright.run.instance import read
from tilewright.tiling import Problem, objective
from tilewright.tiling.dsp import exact
from tilewright.tiling.dsp.kind import exhaustive
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.plan import Plan

OBJECTIVES = ("accesses", "cycles", "energy")


def changed(problem: Problem, **tables: Any) -> Problem:
    """Return a problem with other tables; tables of searches before it are not kept."""
    nest_of.cache_clear()
    return Problem.model_validate({**problem.model_dump(), **tables})


def layers(bench: Benchmark, name: str) -> None:
    """Measure every layer, with the thesis's schedules and with all orders of the loops."""
    for layer, part in read(name).problem.parts:
        for minimise in OBJECTIVES:
            values: list[int] = []
            for limit in ("thesis", "any"):
                problem = changed(part, objective={"minimise": minimise}, limits={"schedule": limit})
                seconds, answer = timed(lambda problem=problem: exhaustive(problem, float("inf")))
                values.append(answer[0])
                gain = f"{1 - values[1] / values[0]:.2%} less than the thesis's" if len(values) > 1 else ""
                bench.note(f"{name}, {layer}, {minimise}, {limit}", 1000 * seconds, "ms", gain)


def network(bench: Benchmark, name: str, minimise: str) -> None:
    """Measure a whole network, equal layers once."""
    problem = changed(read(name).problem, objective={"minimise": minimise})
    parts = {id(part): part for _, part in problem.parts}

    def solve() -> int:
        best = {key: exhaustive(part, float("inf")) for key, part in parts.items()}
        plan = Plan(tuple(best[id(part)][1][0] for _, part in problem.parts))  # type: ignore[index]
        return objective(problem, plan)

    seconds, value = timed(solve)
    remark = f"{len(problem.parts)} layers, {len(parts)} different; {value:,}"
    bench.note(f"{name}, {minimise}", 1000 * seconds, "ms", remark)


def front(bench: Benchmark, name: str) -> None:
    """Measure a whole Pareto front."""
    problem = changed(read(name).problem, objective={"minimise": "pareto"})
    nest = nest_of(problem.one_layer, problem.machine)
    local = exact.local_traffic(nest)
    for limit in ("thesis", "any"):
        seconds, points = timed(lambda limit=limit: exact.pareto_front(nest, limit, local)[0])
        bench.note(f"{name}, front, {limit}", 1000 * seconds, "ms", f"{len(points)} plans")


def main() -> None:
    """Run all measurements."""
    bench = Benchmark("tiling")
    for name in ("alexnet-idsp", "vgg16-idsp"):
        layers(bench, name)
    for name in ("vgg16-idsp", "resnet50-idsp", "mobilenetv2-idsp"):
        for minimise in OBJECTIVES:
            network(bench, name, minimise)
    for name in ("lenet5-conv2-idsp", "vgg16-conv1_2-idsp"):
        front(bench, name)
    bench.close()


if __name__ == "__main__":
    main()
