"""What constraints of schedules can speak of: what runs together, how often, in which tiles, what is kept."""

from __future__ import annotations

from functools import cached_property

from tilewright.scheduling.lowering import whole_units
from tilewright.scheduling.plan import Plan, Subgraph
from tilewright.scheduling.problem import Problem
from tilewright.scheduling.rules import latencies
from tilewright.spec.constraints import Names, Vocabulary, Word

SIZES = ("width", "height", "depth")
"""Words for the granularity, in its order."""


class _View:
    """A plan, as the words see it."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan

    @cached_property
    def first(self) -> dict[int, tuple[int, Subgraph]]:
        """Of each operation the first subgraph that runs it, with its place."""
        found: dict[int, tuple[int, Subgraph]] = {}
        for place, step in enumerate(self.plan.subgraphs):
            for op in step.operations:
                found.setdefault(op, (place, step))
        return found

    def together(self, one: int, other: int) -> bool:
        """Whether some subgraph runs both."""
        return any({one, other} <= {*step.operations} for step in self.plan.subgraphs)

    def before(self, one: int, other: int) -> bool:
        """Whether an operation first runs in an earlier subgraph than another."""
        return self.first[one][0] < self.first[other][0]

    def runs(self, op: int) -> int:
        """Return how many subgraphs run an operation."""
        return sum(op in step.operations for step in self.plan.subgraphs)

    def size(self, axis: int, op: int) -> int:
        """Return a side of the granularity of the first subgraph that runs an operation."""
        return self.first[op][1].granularity[axis]

    def retained(self, tensor: int) -> bool:
        """Whether some subgraph keeps a tensor for the next one."""
        return any(tensor in step.retained for step in self.plan.subgraphs)

    def kept(self) -> int:
        """Return how many tensors are kept between subgraphs."""
        return sum(len(step.retained) for step in self.plan.subgraphs)

    def latency(self) -> int:
        """Return the latency, a begun unit of time as a whole one."""
        return whole_units(sum(latencies(self.problem, self.plan)), self.problem.graph.scale)


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a schedule; operations and tensors have the numbers of the graph."""
    graph = problem.graph
    operations = Names("operations", range(len(graph.inputs)))
    tensors = Names("tensors", range(len(graph.widths)))
    pair = (operations, operations)

    def size(axis: int, name: str, says: str) -> Word:
        said = f"{says} of the first subgraph that runs an operation"
        return Word(name, said, lambda seen, op: seen.size(axis, op), (operations,))

    return Vocabulary.of(
        [
            Word("together", "whether some subgraph runs both", _View.together, pair, gives="truth"),
            Word(
                "before",
                "whether an operation first runs in an earlier subgraph than another",
                _View.before,
                pair,
                gives="truth",
            ),
            Word("runs", "subgraphs that run an operation", _View.runs, (operations,)),
            size(0, "width", "width of a tile"),
            size(1, "height", "height of a tile"),
            size(2, "depth", "products that are added up in a step"),
            Word(
                "retained",
                "whether some subgraph keeps a tensor for the next one",
                _View.retained,
                (tensors,),
                gives="truth",
            ),
            Word("subgraphs", "number of subgraphs", lambda seen: len(seen.plan.subgraphs)),
            Word("kept", "tensors that are kept between subgraphs, all together", _View.kept),
            Word(
                "latency",
                "what is minimised, a begun unit as a whole one",
                _View.latency,
                unit=problem.unit,
            ),
        ],
        view=lambda plan: _View(problem, plan),
    )
