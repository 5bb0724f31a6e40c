"""The closed form says what the execution does, and the execution computes what the operations mean."""

from __future__ import annotations

import random
from itertools import islice

import numpy as np
import pytest
from graphs_at_random import problem_at_random, subgraphs_at_random

from tilewright.scheduling.execution import Execution, reference
from tilewright.scheduling.plan import Subgraph
from tilewright.scheduling.rules import _broken
from tilewright.scheduling.subgraph.cost import Pricer, ticks, working_set
from tilewright.scheduling.subgraph.structure import sinks, structure


@pytest.mark.by_day(15)
@pytest.mark.parametrize("seed", range(60))
def test_the_closed_form_is_the_execution(seed: int) -> None:
    problem = problem_at_random(seed, 5, most=7, native=4)
    graph, chance = problem.graph, random.Random(seed)
    everything = reference(problem, seed)
    known = set(graph.maker)
    tried = 0
    for step in islice(subgraphs_at_random(problem, chance), 200):
        resident = frozenset(tensor for tensor in known if chance.random() < 0.1)
        if _broken(problem, step, known, resident) is not None:
            continue
        if chance.random() < 0.3:
            found = structure(problem, step.operations)
            if not isinstance(found, str):
                w, h, _ = step.granularity
                tiles = list(range(-(-found.width // w) * -(-found.height // h)))
                chance.shuffle(tiles)
                step = Subgraph(step.operations, step.granularity, step.retained, tuple(tiles))
        tried += 1
        execution = Execution(problem, seed)
        execution.resident = {tensor: everything[tensor] for tensor in resident}
        execution.slow |= {tensor: everything[tensor] for tensor in known}
        run = execution.run(step)
        found = structure(problem, step.operations, resident, step.retained)
        assert not isinstance(found, str)
        assert run.ticks == ticks(graph, found, step.granularity, step.order), (step, resident)
        kept = Pricer(problem).kept(resident, step.retained)
        assert run.peak == working_set(graph, found, step.granularity) + kept
        for tensor in {*sinks(graph, step.operations), *step.retained}:
            made = execution.resident if tensor in step.retained else execution.slow
            assert np.array_equal(made[tensor], everything[tensor])
    assert tried
