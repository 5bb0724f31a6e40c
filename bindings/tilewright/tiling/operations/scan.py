"""Recurrent layers, point in time by point in time: what each tile reads, computes, keeps and gives.

A tile computes some values of the state at one point in time, for some images: the product of as many rows of
the weights with the input and with the state before. Weights of the first tiles may stay from one point in
time to the next; those of the others are read each time. The state is on chip until the next one is complete.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property, lru_cache
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.simulator.program import Box
from tilewright.spec.network import GATES
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan, ScanTile
from tilewright.tiling.operations.walk import OUTPUT, Counts, Moved, Span, Sums, spans
from tilewright.tiling.tile import even_step

INPUT, CELL, GATED, STATE = "input", "cell", "gated state", "state"


class ScanShape(NamedTuple):
    """The sizes of a recurrent layer.

    Attributes
    ----------
    passes
        For each pass over the state at a point in time, the gates that it computes: a GRU whose reset gate
        multiplies the state needs two, the second of which reads what all of the first have given.
    numbers
        For each pass, weights and biases of one value of the state.
    every
        Whether the state of each point in time is given, not only that of the last.
    in_time
        Whether values of the input that belong to a point in time lie side by side.
    """

    images: int
    steps: int
    features: int
    hidden: int
    directions: int
    passes: tuple[int, ...]
    numbers: tuple[int, ...]
    every: bool
    in_time: bool
    op: str

    @classmethod
    @lru_cache(maxsize=1024)
    def of(cls, operation: Operation) -> ScanShape:
        """Return those of an operation."""
        told, gates = operation.recurrence, GATES[operation.op]
        assert told is not None
        features, units = prod(operation.inputs[0]) // told.steps, told.directions * told.hidden
        passes = (2, 1) if operation.op == "gru" and not told.reset_after else (gates,)
        width = features + told.hidden
        further = operation.parameters // units - gates * width
        own = passes[0] * width + further * passes[0] // gates
        numbers = (own, operation.parameters // units - own)[: len(passes)]
        every = prod(operation.output) > units or told.steps == 1
        sizes = operation.batch, told.steps, features, told.hidden, told.directions
        first, *_, last = operation.inputs[0]
        in_time = first == told.steps != last
        return cls(*sizes, passes, numbers, every, in_time, operation.op)

    @property
    def work(self) -> int:
        """MACs of one value of the state at one point in time."""
        return sum(self.passes) * (self.features + self.hidden)

    def weights(self, number: int) -> str:
        """Return the name of the weights of a pass."""
        return "parameters" if len(self.passes) == 1 else f"parameters {number + 1}"


class Moment(NamedTuple):
    """A point in time of some images: where it lies, and what is moved for it.

    Attributes
    ----------
    arrives
        The points in time whose input is loaded before, None where it is on chip.
    leaves
        Those whose state is written after it, None for none.
    begins
        Whether there is no state before.
    first
        Whether no weights of the direction are on chip.
    """

    direction: int
    images: Span
    time: int
    chunk: Span
    arrives: Span | None
    leaves: Span | None
    begins: bool
    first: bool

    @property
    def sizes(self) -> tuple[int, ...]:
        """What it costs depends on."""
        moved = (0 if span is None else span[1] - span[0] for span in (self.arrives, self.leaves))
        return self.images[1] - self.images[0], *moved, int(self.begins), int(self.first)


@lru_cache(maxsize=512)
def _moments(scan: ScanShape, steps: int, images: int) -> tuple[Moment, ...]:
    """Return all points in time, in order: of each direction all images, of each all points in time.

    The second direction goes backwards through images, too, so that it begins with the input that is on chip.
    """
    found, here = [], None
    for direction in range(scan.directions):
        way = -1 if direction else 1
        for number, some in enumerate(spans(scan.images, images)[::way]):
            chunks = spans(scan.steps, steps)[::way]
            waiting: list[int] = []
            for chunk in chunks:
                times = range(*chunk)[::way]
                for time in times:
                    arrives = chunk if time == times[0] and here != (some, chunk) else None
                    waiting.append(time)
                    over = chunk == chunks[-1] and time == times[-1]
                    out = waiting if over else waiting[:-1] if time == times[-1] else []
                    leaves = (min(out), max(out) + 1) if out and scan.every else (0, 1) if over else None
                    begins = chunk == chunks[0] and time == times[0]
                    found.append(
                        Moment(direction, some, time, chunk, arrives, leaves, begins, begins and number == 0)
                    )
                    here = some, chunk
                    waiting = waiting[len(out) :]
    return tuple(found)


class _Alike(NamedTuple):
    """Points in time that cost the same, and follow and precede such that do.

    Attributes
    ----------
    sizes
        Of each kind, `Moment.sizes`.
    before, after
        Of each kind, the first one of the same sizes as those before it and after it, -1 at an end.
    times
        How many there are of each kind.
    kind
        Of each point in time.
    """

    sizes: list[tuple[int, ...]]
    before: Counts
    after: Counts
    times: Counts
    kind: Counts


@lru_cache(maxsize=512)
def _alike(scan: ScanShape, steps: int, images: int) -> _Alike:
    """Return which points in time need to be looked at once."""
    every = [moment.sizes for moment in _moments(scan, steps, images)]
    known = list(dict.fromkeys(every))
    number = np.array([-1, *map(known.index, every), -1])
    around = np.stack([number[1:-1], number[:-2], number[2:]], axis=1)
    kinds, kind, times = np.unique(around, axis=0, return_inverse=True, return_counts=True)
    place = {int(own): at for at, own in reversed(list(enumerate(kinds[:, 0])))}
    before, after = (np.array([place.get(int(own), -1) for own in kinds[:, side]]) for side in (1, 2))
    sizes = [known[own] for own in kinds[:, 0].tolist()]
    return _Alike(sizes, before, after, times.astype(np.int64), kind.ravel())


class ScanWalk:
    """All tiles of a recurrent layer; its members are those of `walk.Walk`.

    Tiles of points in time that are alike are looked at once: counts are of these, and `weights` says how
    many there are of each.

    Attributes
    ----------
    operands, kept
        The names of the tensors that are read, and of those that never leave the chip, with their shapes.
    """

    def __init__(self, operation: Operation, plan: OperationPlan) -> None:
        assert isinstance(plan.tile, ScanTile)
        self.operation, self.plan, self.tile = operation, plan, plan.tile
        self.scan = scan = ScanShape.of(operation)
        lead = scan.directions, scan.images
        self.operands: dict[str, tuple[int, ...]] = {INPUT: (scan.images, scan.steps, scan.features)}
        for number, size in enumerate(scan.numbers):
            self.operands[scan.weights(number)] = scan.directions, scan.hidden, size
        self.kept: dict[str, tuple[int, ...]] = {}
        if scan.op == "lstm":
            self.kept[CELL] = *lead, scan.steps, scan.hidden
        if len(scan.passes) == 2:
            self.kept[GATED] = *lead, scan.steps, 2, scan.hidden
        if not scan.every:
            self.kept[STATE] = *lead, scan.steps - 1, scan.hidden
        self.given = *lead, scan.steps if scan.every else 1, scan.hidden

    def malformed(self) -> str | None:
        """Say what is wrong with the sizes of a tile: tiles are as even as their number allows."""
        scan, tile = self.scan, self.tile
        for name, size in (("hidden", scan.hidden), ("steps", scan.steps), ("images", scan.images)):
            step = getattr(tile, name)
            if step > size:
                return f"tile: {step} {name}, there are {size}"
            if step != (even := even_step(size, step)):
                return f"tile: {-(-size // step)} tiles of {size} {name} are of {even} each, not of {step}"
        if tile.resident != scan.hidden and (
            tile.resident % tile.hidden or tile.resident + tile.hidden >= scan.hidden
        ):
            fewer = f"or several tiles of {tile.hidden} that leave more than one"
            return f"tile: {tile.resident} resident, which must be all {scan.hidden}, {fewer}"
        return None

    @cached_property
    def pieces(self) -> list[Span]:
        """The values of the state that tiles have."""
        return spans(self.scan.hidden, self.tile.hidden)

    @property
    def steps(self) -> int:
        """Number of tiles."""
        scan = self.scan
        times = scan.directions * scan.steps * -(-scan.images // self.tile.images)
        return times * len(scan.passes) * -(-scan.hidden // self.tile.hidden)

    @cached_property
    def buffers(self) -> dict[str, int]:
        """Elements that are reserved for each tensor."""
        scan, tile = self.scan, self.tile
        state = tile.images * scan.hidden
        found = {INPUT: tile.images * tile.steps * scan.features}
        stays = tile.resident + (tile.hidden if tile.resident < scan.hidden else 0)
        for number, size in enumerate(scan.numbers):
            found[scan.weights(number)] = size * stays
        if CELL in self.kept:
            found[CELL] = min(2, scan.steps) * state
        if GATED in self.kept:
            found[GATED] = 2 * state
        if STATE in self.kept:
            found[STATE] = min(2, scan.steps - 1) * state
        return found | {OUTPUT: state * (self._waiting if scan.every else 1)}

    @property
    def _waiting(self) -> int:
        """Points in time whose states are on chip together: those of a chunk, and the last before it."""
        steps, step = self.scan.steps, self.tile.steps
        several = 1 + step if steps > 2 * step or self.scan.directions == 2 else 1 + steps - step
        return steps if step == steps else max(step, several)

    # Counts, of tiles that are alike once -----------------------------------------------------------------

    @cached_property
    def _kinds(self) -> _Alike:
        return _alike(self.scan, self.tile.steps, self.tile.images)

    def _all(self, of_moment: Callable[..., list[Counts]]) -> Counts:
        """Return counts of the tiles of each kind of point in time, each of all passes."""
        return np.concatenate([np.concatenate(of_moment(*sizes)) for sizes in self._kinds.sizes])

    @cached_property
    def _sizes(self) -> Counts:
        return np.array([last - first for first, last in self.pieces], dtype=np.int64)

    @property
    def _tiles(self) -> int:
        """Tiles of a point in time."""
        return len(self.scan.passes) * len(self.pieces)

    @cached_property
    def weights(self) -> Counts:
        """How many tiles stand for each."""
        return np.repeat(self._kinds.times, self._tiles)

    @property
    def writes(self) -> Counts:
        """Transfers that write states after each tile."""
        return (self.stored.elements > 0).astype(np.int64)

    def after(self, counts: Counts) -> Counts:
        """Return of each tile what the next one has."""
        each = counts.reshape(-1, self._tiles)
        ends = np.append(each[:, 0], 0)[self._kinds.after]
        return np.concatenate([each[:, 1:], ends[:, None]], axis=1).ravel()

    def before(self, counts: Counts) -> Counts:
        """Return of each tile what the one before has."""
        each = counts.reshape(-1, self._tiles)
        ends = np.append(each[:, -1], 0)[self._kinds.before]
        return np.concatenate([ends[:, None], each[:, :-1]], axis=1).ravel()

    def first(self, counts: Counts) -> int:
        """Return what the first tile has."""
        return int(counts.reshape(-1, self._tiles)[self._kinds.kind[0], 0])

    def last(self, counts: Counts) -> int:
        """Return what the last tile has."""
        return int(counts.reshape(-1, self._tiles)[self._kinds.kind[-1], -1])

    def kind(self, moment: int, tile: int) -> int:
        """Return the place, among counts, of a tile of a point in time."""
        return int(self._kinds.kind[moment]) * self._tiles + tile

    @cached_property
    def loaded(self) -> dict[str, Moved]:
        """What each tile reads of each operand that is not on chip."""
        scan = self.scan
        streamed = np.array([first >= self.tile.resident for first, _ in self.pieces])

        def of_pass(number: int) -> Counts:
            def counts(_images: int, _arrives: int, _leaves: int, _begins: int, first: int) -> list[Counts]:
                own = np.where(streamed | bool(first), self._sizes, 0) * scan.numbers[number]
                return [own if each == number else np.zeros_like(own) for each in range(len(scan.passes))]

            return self._all(counts)

        whole = None if scan.in_time else scan.steps
        found = {INPUT: self._of_images(lambda arrives, _: arrives, scan.features, whole, last=False)}
        for number in range(len(scan.passes)):
            elements = of_pass(number)
            found[scan.weights(number)] = Moved(elements, (elements > 0).astype(np.int64), elements)
        return found

    @cached_property
    def stored(self) -> Moved:
        """What is written after each tile."""
        whole = self.scan.steps if self.scan.every else 1
        return self._of_images(lambda _, leaves: leaves, self.scan.hidden, whole, last=True)

    def _of_images(
        self, moved: Callable[[int, int], int], values: int, whole: int | None, *, last: bool
    ) -> Moved:
        """Return what is moved before or after each point in time.

        Parameters
        ----------
        whole
            Of each value, its points in time lie side by side, and these are all. None where those of a
            point in time do.
        """

        def columns(images: int, arrives: int, leaves: int, *_: int) -> list[Counts]:
            counts = np.zeros((self._tiles, 3), dtype=np.int64)
            if (times := moved(arrives, leaves)) > 0:
                runs = images * (1 if whole in (None, times) else values)
                counts[-1 if last else 0] = images * values * times, runs, images * values * times // runs
            return [counts]

        return Moved(*self._all(columns).T)

    def _of_tiles(self, elements: Callable[[int, int, Counts, bool], Counts]) -> Counts:
        """Return counts that follow from images, the pass, sizes of tiles and whether a state is there."""
        passes = range(len(self.scan.passes))
        return self._all(
            lambda images, _a, _l, begins, _f: [
                elements(images, number, self._sizes, not begins) for number in passes
            ]
        )

    @cached_property
    def held(self) -> dict[str, Counts]:
        """Elements that each tile is computed from."""
        scan = self.scan
        found = {scan.weights(number): self._weights_held(number) for number in range(len(scan.passes))}
        found[INPUT] = self._of_tiles(lambda n, _, sizes, __: 0 * sizes + n * scan.features)
        found["before"] = self._of_tiles(
            lambda n, each, sizes, there: n * there * (sizes if each else 0 * sizes + scan.hidden)
        )
        if CELL in self.kept:
            found[CELL] = self._of_tiles(lambda n, _, sizes, there: n * sizes * there)
        if GATED in self.kept:
            found[GATED] = self._of_tiles(lambda n, each, sizes, _: each * n * (sizes + scan.hidden))
        return found

    def _weights_held(self, number: int) -> Counts:
        """Return the weights of a pass that each tile is computed from."""
        each_value = self.scan.numbers[number]
        return self._of_tiles(lambda _, each, sizes, __: sizes * each_value * (each == number))

    @cached_property
    def made(self) -> Counts:
        """Elements that each tile computes."""
        many = [2, 1] if len(self.scan.passes) == 2 else [1 + (CELL in self.kept)]
        return self._of_tiles(lambda n, each, sizes, _: n * sizes * many[each])

    @cached_property
    def work(self) -> Counts:
        """Operations of each tile."""
        scan = self.scan
        width = scan.features + scan.hidden
        return self._of_tiles(lambda n, each, sizes, _: n * sizes * scan.passes[each] * width)

    @cached_property
    def sums(self) -> Sums:
        """What `loaded`, `held`, `stored` and `made` add up to."""
        loaded = sum(int(self.weights @ each.elements) for each in self.loaded.values())
        held = sum(int(self.weights @ each) for each in self.held.values())
        given, made = int(self.weights @ self.stored.elements), int(self.weights @ self.made)
        return Sums(loaded, held, given, made - given)

    # Regions ----------------------------------------------------------------------------------------------

    @property
    def moments(self) -> tuple[Moment, ...]:
        """All points in time, in order."""
        return _moments(self.scan, self.tile.steps, self.tile.images)

    def box(self, name: str, moment: Moment, piece: Span | None = None) -> Box:
        """Return the part of a tensor of states that belongs to a point in time."""
        time = moment.time
        if name == STATE:  # backwards the last point in time is the first
            time -= moment.direction
        if name == OUTPUT and not self.scan.every:
            time = 0
        middle = ((time, time + 1), None) if name == GATED else ((time, time + 1),)
        return Box((own(moment), moment.images, *middle, piece))

    def state_of(self, moment: Moment) -> str:
        """Return the tensor that holds the state of a point in time."""
        last = 0 if moment.direction else self.scan.steps - 1
        return OUTPUT if self.scan.every or moment.time == last else STATE


def own(moment: Moment) -> Span:
    """Return the range of a direction."""
    return moment.direction, moment.direction + 1
