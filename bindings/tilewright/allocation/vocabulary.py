"""What constraints of pipelines can speak of: how layers are divided, when they work, and where they lie.

Where layers take turns, a few words stand for others. Where layers are placed, their splits and pacing are
those of the least interval, so words that depend on the pacing are left out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

from tilewright.allocation.energy import energy
from tilewright.allocation.geometry import Scan
from tilewright.allocation.off_chip import spillable, transfers
from tilewright.allocation.plan import PACINGS, Plan
from tilewright.allocation.problem import Problem
from tilewright.allocation.schedule import Schedule, schedule, storage_by_turn
from tilewright.allocation.splits import LayerSplit
from tilewright.spec.constraints import Names, Term, Vocabulary, Word
from tilewright.spec.constraints.parts import Constant, Ground, arithmetic, counted, logical

AXES = ("filters", "maps", "rows")
"""What is divided among the PEs of a layer; the first two also among the units of a PE."""

OF_SPLITS = ("pes", "split", "units", "work", "load")
"""Words that depend on the split of one layer alone."""

OF_ALL_SPLITS = ("used_pes", "interval", "energy")
"""Words that depend on the splits of all layers, but on no time when one starts."""


@dataclass(frozen=True)
class _View:
    """A plan, as the words see it."""

    problem: Problem
    plan: Plan
    scan: Callable[[], Scan]

    @cached_property
    def number(self) -> dict[str, int]:
        """Number of each layer."""
        return {name: number for number, name in enumerate(self.plan.names)}

    def split(self, layer: str) -> LayerSplit:
        """Return the split of a layer."""
        return self.plan.splits[self.number[layer]]

    @cached_property
    def times(self) -> Schedule:
        """When each layer works."""
        return schedule(self.problem, self.plan, self.scan())

    @property
    def energy(self) -> int:
        """Energy of a frame, where the machine has prices."""
        return energy(self.problem, self.plan, self.times.interval)

    @cached_property
    def regions(self) -> dict[str, frozenset[tuple[int, int]]]:
        """PEs of each layer."""
        return {name: frozenset(self.plan.regions[number]) for name, number in self.number.items()}

    def hops(self, layer: str, other: str) -> int:
        """Return the hops from all PEs of the second layer to the nearest one of the first."""
        near = self.regions[layer]
        return sum(min(abs(y - v) + abs(x - u) for v, u in near) for y, x in self.regions[other])


def split_value(problem: Problem, number: int, split: LayerSplit, term: Term) -> int:
    """Return the value of a term whose word is one of `OF_SPLITS`, for a split of its layer."""
    task = problem.stages[number].task
    match term.word:
        case "pes":
            return split.pes
        case "split":
            return (split.filters, split.maps, split.rows)[AXES.index(str(term.arguments[1]))]
        case "units":
            return (split.unit_filters, split.unit_maps)[AXES.index(str(term.arguments[1]))]
        case "work":
            return split.cycles(task)
    return split.load(task)


def vocabulary(problem: Problem) -> Vocabulary:
    """Return the words of an allocation problem."""
    layers = Names("layers", tuple(stage.name for stage in problem.stages))
    known: list[Scan] = []

    def scan() -> Scan:
        if not known:
            known.append(Scan(problem))
        return known[0]

    if problem.machine.off_chip is not None:
        return Vocabulary.of(_off_chip_words(problem, layers), lambda plan: _View(problem, plan, scan))
    words = _split_words(problem, layers)
    if problem.minimise == "distance":
        words += _place_words(problem, layers)
    elif problem.parallel:
        words += _time_words(problem, layers)
    else:
        words += _turn_words(problem, layers)
    return Vocabulary.of(words, lambda plan: _View(problem, plan, scan))


def _off_chip_words(problem: Problem, layers: Names) -> list[Word]:
    """Return what plans decide of DRAM; of what else they decide nothing can be said there yet."""
    maps = Names("maps", spillable(problem))
    return [
        Word(
            "off_chip_bytes",
            "bytes of a frame that cross the chip's border",
            lambda seen: sum(transfers(problem, seen.plan.streamed, seen.plan.spilled)),
            unit="bytes",
        ),
        Word(
            "spilled",
            "whether a map is written off chip and read again",
            lambda seen, name: name in seen.plan.spilled,
            (maps,),
            gives="truth",
        ),
        Word(
            "weights_stay",
            "whether a layer's weights stay on chip",
            lambda seen, layer: layer not in seen.plan.streamed,
            (layers,),
            gives="truth",
        ),
    ]


def _split_words(problem: Problem, layers: Names) -> list[Word]:
    axes, unit_axes = Names("axes", AXES), Names("unit_axes", AXES[:2])

    def of_split(word: str) -> Callable[..., int]:
        def value(seen: _View, layer: str, *arguments: str) -> int:
            return split_value(
                problem, seen.number[layer], seen.split(layer), Term(word, (layer, *arguments))
            )

        return value

    return [
        Word("pes", "PEs of a layer", of_split("pes"), (layers,)),
        Word(
            "split",
            "among how many PEs a layer's filters, maps or rows are divided",
            of_split("split"),
            (layers, axes),
        ),
        Word(
            "units",
            "on how many filters or maps the units of a PE work at a time",
            of_split("units"),
            (layers, unit_axes),
        ),
        Word("work", "cycles of a beat of a layer, without waits", of_split("work"), (layers,), "cycles"),
        Word(
            "load",
            "cycles for which a frame keeps a layer busy, without waits",
            of_split("load"),
            (layers,),
            "cycles",
        ),
        Word(
            "used_pes",
            "PEs of all layers together, of the largest where they take turns",
            lambda seen: (sum if problem.parallel else max)(split.pes for split in seen.plan.splits),
        ),
        Word("interval", "cycles from frame to frame", lambda seen: seen.times.interval, unit="cycles"),
        *(
            [Word("energy", "energy of a frame", lambda seen: seen.energy, unit="fJ")]
            if problem.machine.energy is not None
            else []
        ),
    ]


def _time_words(problem: Problem, layers: Names) -> list[Word]:
    """Return what depends on when layers start, where they work at the same time."""

    def program_words() -> Ground:
        found: list[Ground] = [Term("storage", ())]
        for stage in problem.stages:
            groups = arithmetic("min", [Term("split", (stage.name, AXES[2])), Constant(stage.task.rows)])
            copies = arithmetic("+", [groups, Constant(-1)])
            found.append(arithmetic("*", [copies, Constant(stage.weights)]))
        return arithmetic("+", found if "rows" in problem.limits.splits else found[:1])

    def of_layer(values: Callable[[Schedule], tuple[int, ...]]) -> Callable[[_View, str], int]:
        return lambda seen, layer: values(seen.times)[seen.number[layer]]

    def busy(times: Schedule) -> tuple[int, ...]:
        return tuple(n * pace for n, pace in zip(times.beats, times.paces, strict=True))

    return [
        Word("pace", "cycles from beat to beat", of_layer(lambda times: times.paces), (layers,), "cycles"),
        Word("start", "when a layer starts", of_layer(lambda times: times.starts), (layers,), "cycles"),
        Word("busy", "cycles from a layer's start to its end", of_layer(busy), (layers,), "cycles"),
        Word(
            "buffer",
            "words that a layer's output takes",
            of_layer(lambda times: times.buffers),
            (layers,),
            "words",
        ),
        Word("latency", "cycles of a frame", lambda seen: seen.times.latency, unit="cycles"),
        Word("storage", "words of all buffers and weights", lambda seen: seen.times.storage, unit="words"),
        Word(
            "program_words",
            "the same with a copy of weights for each group of rows, as programs of PEs hold them",
            unit="words",
            means=program_words,
        ),
        Word(
            "pacing",
            "how layers wait for slower ones",
            lambda seen: seen.plan.pacing,
            gives=Names("pacings", PACINGS),
        ),
    ]


def _turn_words(problem: Problem, layers: Names) -> list[Word]:
    """Return the same words where layers take turns: none waits, and all follows from loads."""
    names = layers.members

    def start(layer: str) -> Ground:
        before = [Term("load", (name,)) for name in names[: list(names).index(layer)]]
        return arithmetic("+", [*before, Constant(0)])

    def storage() -> Ground:
        return Constant(max(storage_by_turn(problem)))

    def same(word: str, *arguments: str) -> Ground:
        return Term(word, arguments)

    return [
        Word("pace", "cycles from beat to beat", None, (layers,), "cycles", means=partial(same, "work")),
        Word("start", "when a layer starts", None, (layers,), "cycles", means=start),
        Word("busy", "cycles of a layer", None, (layers,), "cycles", means=partial(same, "load")),
        Word("latency", "cycles of a frame", unit="cycles", means=partial(same, "interval")),
        Word("storage", "words of buffers and weights, at most at a time", unit="words", means=storage),
    ]


def _place_words(problem: Problem, layers: Names) -> list[Word]:
    """Return what depends on where layers lie; `at` and `hops` say all of it."""
    height, width = problem.machine.array
    rows, columns = Names("rows", range(height)), Names("columns", range(width))

    def at(layer: str, row: int, column: int) -> Ground:
        return Term("at", (layer, row, column))

    def lines(layer: str, axis: int) -> list[Ground]:
        """Return of each row (column) whether the layer has a PE in it."""
        across = [[at(layer, y, x) for x in range(width)] for y in range(height)]
        return [logical("or", list(line)) for line in (across, list(zip(*across, strict=True)))[axis]]

    def first(axis: int, layer: str) -> Ground:
        found = lines(layer, axis)
        size = len(found)
        return arithmetic("min", [_if(held, number, size) for number, held in enumerate(found)])

    def last(axis: int, layer: str) -> Ground:
        return arithmetic("max", [_if(held, number, 0) for number, held in enumerate(lines(layer, axis))])

    def touch(layer: str, other: str) -> Ground:
        below = [((y, x), (y + 1, x)) for y in range(height - 1) for x in range(width)]
        beside = [((y, x), (y, x + 1)) for y in range(height) for x in range(width - 1)]
        ends = [pair for one, two in (*below, *beside) for pair in ((one, two), (two, one))]
        return logical("or", [logical("and", [at(layer, *one), at(other, *two)]) for one, two in ends])

    def distance() -> Ground:
        names = [stage.name for stage in problem.stages]
        hops = [Term("hops", (names[producer], names[consumer])) for producer, consumer in problem.edges]
        return arithmetic("+", [*hops, Constant(0)])

    return [
        Word(
            "at",
            "whether a PE computes a layer",
            lambda seen, layer, row, column: (row, column) in seen.regions[layer],
            (layers, rows, columns),
            gives="truth",
        ),
        Word(
            "hops",
            "hops from all PEs of the second layer to the nearest one of the first",
            lambda seen, layer, other: seen.hops(layer, other),
            (layers, layers),
            "hops",
        ),
        Word("distance", "hops from each layer to all that it reads", unit="hops", means=distance),
        Word("top", "first row of a layer", None, (layers,), means=partial(first, 0)),
        Word("bottom", "last row of a layer", None, (layers,), means=partial(last, 0)),
        Word("left", "first column of a layer", None, (layers,), means=partial(first, 1)),
        Word("right", "last column of a layer", None, (layers,), means=partial(last, 1)),
        Word(
            "touch",
            "whether a PE of one layer is beside one of another",
            None,
            (layers, layers),
            gives="truth",
            means=touch,
        ),
    ]


def _if(held: Ground, value: int, otherwise: int) -> Ground:
    """Return a value where something holds, and another one where it does not."""
    difference = arithmetic("*", [counted([held]), Constant(value - otherwise)])
    return arithmetic("+", [difference, Constant(otherwise)])
