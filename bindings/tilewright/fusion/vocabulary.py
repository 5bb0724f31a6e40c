"""What constraints of fusions can speak of: groups, their order, their tiles, and what they cost."""

from __future__ import annotations

from tilewright.fusion.evaluation import choices, copies
from tilewright.fusion.graph import engine_of
from tilewright.fusion.group.told_apart import COSTS, LOOPS, SIZES
from tilewright.fusion.machine import BUFFERS, CONV, HOST, MISC, POOL
from tilewright.fusion.plan import Plan
from tilewright.fusion.problem import Problem
from tilewright.fusion.selection.candidates import Candidate
from tilewright.fusion.selection.terms import value_of
from tilewright.spec.constraints import Names, Term, Vocabulary, Word
from tilewright.spec.constraints.parts import Constant

UNITS = {"cycles": "cycles", "traffic": "bytes", "energy": "nJ", "memory": "bytes"}
"""Of what groups and plans cost."""

SETS = {"tile.halo": "halos", "tile.order": "orders", "tile.parameters": "parameter_ways"}
"""What the ways are called together of which a tile has one."""


class _View:
    """A plan, as the words see it."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        self.problem, self.plan = problem, plan
        number = {op.name: op.number for op in problem.ops}
        costs = iter(choices(problem, plan))
        self.groups: dict[str, Candidate] = {}
        self.places: dict[str, tuple[int, int]] = {}
        self.chosen = []
        for place, group in enumerate(plan.groups):
            order = tuple(number[name] for name in group.nodes)
            nodes = tuple(sorted(order))
            choice = None if group.tile is None else next(costs)
            places = tuple(map(nodes.index, order))
            one = Candidate(nodes, 0, "", group.tile, True, places, choice)
            self.chosen.append(one)
            self.groups |= dict.fromkeys(group.nodes, one)
            self.places |= {name: (place, at) for at, name in enumerate(group.nodes)}

    def of_group(self, term: Term) -> int:
        """Return what the group of a term's first operation decides."""
        return value_of(self.problem, self.groups[str(term.arguments[0])], term)

    def before(self, one: str, other: str) -> bool:
        """Whether an operation is executed before another."""
        return self.places[one] < self.places[other]

    def total(self, word: str) -> int:
        """Return what all groups together cost."""
        each = [value_of(self.problem, one, Term(word)) for one in self.chosen]
        copied = copies(self.problem, self.plan).values()
        if word == "cycles":
            each += copied
        elif word == "energy":
            each += [int(self.problem.machine.nanojoules(0, 0, cycles)) for cycles in copied]
        return max(each) if word == "memory" else sum(each)


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of a fusion."""
    operations = Names("operations", tuple(op.name for op in problem.ops))
    accelerated = Names("accelerated", tuple(op.name for op in problem.ops if engine_of(op) != HOST))
    engines = Names("engines", (CONV, POOL, MISC, HOST))
    buffers = Names("buffers", BUFFERS)
    engine = {op.name: engine_of(op) for op in problem.ops}

    def of_group(word: str, says: str, *takes: Names, unit: str = "") -> Word:
        return Word(word, says, lambda seen, *of: seen.of_group(Term(word, of)), takes, unit)

    def of_loops(word: str) -> Word:
        names = LOOPS[word]
        said = f"{word.removeprefix('tile.')} of the tile of an operation's group"
        given = Names(SETS[word], names)
        return Word(
            word,
            said,
            lambda seen, name: names[seen.of_group(Term(word, (name,))) - 1],
            (accelerated,),
            gives=given,
        )

    def total(word: str) -> Word:
        return Word(word, f"{word} of the plan", lambda seen: seen.total(word), unit=UNITS.get(word, ""))

    return Vocabulary.of(
        [
            Word(
                "together",
                "whether two operations are in one group",
                lambda seen, one, other: bool(seen.of_group(Term("together", (one, other)))),
                (operations, operations),
                gives="truth",
            ),
            Word(
                "before",
                "whether an operation is executed before another, in an earlier group or in the same one",
                _View.before,
                (operations, operations),
                gives="truth",
            ),
            Word(
                "engine",
                "what computes an operation",
                takes=(operations,),
                gives=engines,
                means=lambda name: Constant(engine[name]),
            ),
            of_group("size", "operations of an operation's group", operations),
            *(
                of_group(
                    word, f"{word.removeprefix('tile.')} of the tile of an operation's group", accelerated
                )
                for word in SIZES
            ),
            *map(of_loops, LOOPS),
            of_group(
                "buffer",
                "bytes of a buffer that an operation's group takes",
                accelerated,
                buffers,
                unit="bytes",
            ),
            *(
                of_group(f"group.{word}", f"{word} of an operation's group", accelerated, unit=UNITS[word])
                for word in COSTS
            ),
            total("groups"),
            *map(total, COSTS),
        ],
        view=lambda plan: _View(problem, plan),
    )
