"""Scheduling: every set of operations, granularity, order and kept tensor (docs/scheduling.md)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, combinations, count, product
from math import ceil
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Numbers = frozenset[int]

MOST_STEPS = 400_000
"""Steps of tiles of all subgraphs that are walked through."""

ORDERS = ("rows", "columns", "snake_rows", "snake_columns")


class Part(NamedTuple):
    """A part of an axis, and what it follows: ``all``, the ``tile`` or the ``step``."""

    follows: str
    first: int
    last: int
    length: int

    @property
    def size(self) -> int:
        """How long it is."""
        return self.last - self.first

    def same(self) -> tuple[str, int, int]:
        """Return what is the same slice: all of an axis is, whatever it follows."""
        return ("all" if self.size == self.length else self.follows), self.first, self.last


def part(follows: str, first: int, size: int, length: int) -> Part:
    """Return a part, cut off at the end of the axis."""
    return Part(follows, first, min(first + size, length), length)


def whole(length: int) -> Part:
    """Return all of an axis."""
    return Part("all", 0, length, length)


class Subgraph:
    """Operations that run as one, with what was kept for them and what they keep."""

    def __init__(self, world: World, ops: Numbers, kept: Numbers, keeps: Numbers) -> None:
        self.world, self.ops, self.kept, self.keeps = world, ops, kept, keeps
        self.maker = {world.made[op]: op for op in ops}
        read = {tensor for op in ops for tensor in world.reads[op]}
        self.ends = sorted(set(self.maker) - read)
        shapes = {world.shapes[tensor] for tensor in {*self.ends, *keeps}}
        self.fits = len(shapes) == 1 and keeps <= set(self._on_tile())
        self.width, self.height = min(shapes)
        self.depths = [world.depth(op) for op in ops if world.matmul[op]]
        self.least = [1, 1]
        for op in ops:
            for side, tensor in enumerate(world.reads[op]) if world.matmul[op] else ():
                if tensor in self.maker and not world.matmul[self.maker[tensor]]:
                    self.least[side] = max(self.least[side], world.depth(op))

    def _on_tile(self) -> Iterator[int]:
        """Yield the tensors that are made as tiles of the outputs."""
        waiting = list(self.ends)
        while waiting:
            tensor = waiting.pop()
            if tensor in self.maker:
                yield tensor
                op = self.maker[tensor]
                waiting += [] if self.world.matmul[op] else self.world.reads[op]

    def allows(self, w: int, h: int, k: int) -> bool:
        """Whether a granularity is possible, but for the memory."""
        native = self.world.native
        return (self.fits and self.least[0] <= w <= native[0] and self.least[1] <= h <= native[1]
                and 1 <= k <= min([*native, *self.depths]))  # fmt: skip

    def tiles(self, w: int, h: int, order: Any) -> list[tuple[int, int]]:
        """Return rows and columns of the tiles in their order."""
        rows, columns = range(-(-self.height // h)), range(-(-self.width // w))
        if not isinstance(order, str):
            if sorted(order) != list(range(len(rows) * len(columns))):
                raise Refused("order")
            return [divmod(tile, len(columns)) for tile in order]
        back = order.startswith("snake")
        if order.endswith("rows"):
            return [(r, c) for r in rows for c in (columns[::-1] if back and r % 2 else columns)]
        return [(r, c) for c in columns for r in (rows[::-1] if back and c % 2 else rows)]

    def run(self, w: int, h: int, k: int, order: Any) -> Fraction | None:
        """Return the time that all tiles take, None if they need more memory than there is."""
        world = self.world
        on_tile = {world.depth(self.maker[t]) for t in self._on_tile() if world.matmul[self.maker[t]]}
        steps = max((-(-depth // k) for depth in on_tile), default=1)
        there = sum(world.elements(tensor) for tensor in self.kept | self.keeps)
        written = [tensor for tensor in self.ends if tensor not in self.keeps]
        total, before = Fraction(0), frozenset[Any]()
        for row, column in self.tiles(w, h, order):
            rows, columns = part("tile", row * h, h, self.height), part("tile", column * w, w, self.width)
            slices: dict[Any, int] = {}
            for number in range(steps):
                world.steps += 1
                if world.steps > MOST_STEPS:
                    raise TooLarge
                step = Step(self, rows, columns, number, k, number == steps - 1)
                for (tensor, high, wide), size in step.needs.items():
                    kind = tensor, high[0], wide[0]
                    slices[kind] = max(slices.get(kind, 0), size)
                moved = sum(size for need, size in step.needs.items() if need not in before)
                moved += rows.size * columns.size * len(written) * (number == steps - 1)
                total += max(step.compute, Fraction(moved, world.bandwidth))
                before = frozenset(step.needs)
            if there + sum(slices.values()) + rows.size * columns.size * len(written) > world.capacity:
                return None
        return total


class Step:
    """What a step of a tile reads and computes."""

    def __init__(self, graph: Subgraph, rows: Part, columns: Part, number: int, k: int, last: bool) -> None:
        self.graph, self.world, self.number, self.k, self.last = graph, graph.world, number, k, last
        self.needs: dict[Any, int] = {}
        self.compute = Fraction(0)
        self.done: set[Any] = set()
        for tensor in graph.ends:
            self.tile(tensor, rows, columns)

    def read(self, tensor: int, rows: Part, columns: Part) -> None:
        """Need a slice, unless the tensor was kept."""
        if tensor not in self.graph.kept:
            self.needs[tensor, rows.same(), columns.same()] = rows.size * columns.size

    def tile(self, tensor: int, rows: Part, columns: Part) -> None:
        """Work on the tile itself."""
        world, op = self.world, self.graph.maker[tensor]
        if tensor in self.done:
            return
        self.done.add(tensor)
        if world.matmul[op]:
            depth = world.depth(op)
            if self.number * self.k < depth:
                along = part("step", self.number * self.k, self.k, depth)
                left, right = world.reads[op]
                self.slice(left, rows, self.along(left, along))
                self.slice(right, self.along(right, along), columns)
                self.compute += Fraction(world.costs[op] * along.size, depth)
            return
        for tensor in world.reads[op]:
            if tensor in self.graph.maker:
                self.tile(tensor, rows, columns)
            elif self.last:
                self.read(tensor, rows, columns)
        self.compute += world.costs[op] * self.last

    def along(self, tensor: int, along: Part) -> Part:
        """Return what of an operand is asked for along the depth: all that is made value by value."""
        op = self.graph.maker.get(tensor)
        return along if op is None or self.world.matmul[op] else whole(along.length)

    def slice(self, tensor: int, rows: Part, columns: Part) -> None:
        """Read or make a slice for a MatMul."""
        world, op = self.world, self.graph.maker.get(tensor)
        if op is None:
            self.read(tensor, rows, columns)
            return
        if (tensor, rows.follows, columns.follows) in self.done:
            return
        self.done.add((tensor, rows.follows, columns.follows))
        if world.matmul[op]:
            left, right = world.reads[op]
            self.slice(left, rows, whole(world.depth(op)))
            self.slice(right, whole(world.depth(op)), columns)
        else:
            for read in world.reads[op]:
                self.slice(read, rows, columns)
        kinds = rows.same()[0], columns.same()[0]
        if "step" not in kinds and self.number:
            return  # made in the first step
        share = Fraction(world.costs[op])
        for each, kind, native in zip((rows, columns), kinds, reversed(world.native), strict=True):
            if kind == "step":
                share *= Fraction(each.size, min(native, each.length))
            elif kind == "all":
                share *= -(-each.length // native)
        self.compute += share


class World:
    """The graph and the machine."""

    def __init__(self, problem: Json) -> None:
        graph = problem["graph"]
        self.shapes = list(zip(graph["widths"], graph["heights"], strict=True))
        self.reads, self.costs = graph["inputs"], graph["base_costs"]
        self.made = [one for (one,) in graph["outputs"]]
        self.matmul = [kind == "MatMul" for kind in graph["op_types"]]
        self.capacity, self.bandwidth = graph["fast_memory_capacity"], graph["slow_memory_bandwidth"]
        self.native = tuple(graph["native_granularity"])
        self.flow = problem["limits"]["connected"] == "flow"
        self.count = len(self.reads)
        read = {tensor for tensors in self.reads for tensor in tensors}
        self.results = frozenset(self.made) - read
        self.steps = 0
        self.subgraph = lru_cache(maxsize=None)(lambda *parts: Subgraph(self, *parts))
        self.time = lru_cache(maxsize=None)(self._time)

    def depth(self, op: int) -> int:
        """Return how many products are added up."""
        return int(self.shapes[self.reads[op][0]][0])

    def elements(self, tensor: int) -> int:
        """Return the elements of a tensor."""
        return int(self.shapes[tensor][0] * self.shapes[tensor][1])

    def connected(self, ops: Numbers) -> bool:
        """Whether operations hang together."""
        made = {self.made[op] for op in ops}
        touched = {op: {*self.reads[op], self.made[op]} & (made if self.flow else set(range(10**4)))
                   for op in ops}  # fmt: skip
        found, left = {min(ops)}, set(ops) - {min(ops)}
        while near := {op for op in left if any(touched[op] & touched[other] for other in found)}:
            found |= near
            left -= near
        return not left

    def needed(self, ops: Numbers) -> Numbers:
        """Return what operations read that others make."""
        made = {self.made[op] for op in ops}
        return frozenset(t for op in ops for t in self.reads[op] if t in self.made and t not in made)

    def _time(self, ops: Numbers, kept: Numbers, keeps: Numbers) -> Fraction | None:
        """Return the least time of a subgraph."""
        graph, times = self.subgraph(ops, kept, keeps), []
        if graph.fits:
            most = [min(native, max(length, least)) for native, length, least in
                    zip(self.native, (graph.width, graph.height), graph.least, strict=True)]  # fmt: skip
            deep = min([*self.native, *graph.depths]) if graph.depths else 1
            for w, h, k in product(*(range(1, n + 1) for n in (*most, deep))):
                if graph.allows(w, h, k):
                    times += [t for order in ORDERS if (t := graph.run(w, h, k, order)) is not None]
        return min(times, default=None)


def best(problem: Json) -> int | None:
    """Return the least latency of all plans, None if there is none."""
    world = World(problem)
    sets = [frozenset(ops) for many in range(1, world.count + 1)
            for ops in combinations(range(world.count), many)]  # fmt: skip
    sets = [ops for ops in sets if world.connected(ops)]
    nothing: Numbers = frozenset()
    costs: dict[Any, Fraction] = {(nothing, nothing): Fraction(0)}
    tick = count()
    heap: list[Any] = [(Fraction(0), next(tick), (nothing, nothing))]
    while heap:
        cost, _, state = heappop(heap)
        if cost > costs[state]:
            continue
        slow, kept = state
        if world.results <= slow:
            return ceil(cost)
        for ops in sets:
            if not world.needed(ops) <= slow | kept:
                continue
            made = [world.made[op] for op in sorted(ops)]
            for keeps in chain.from_iterable(combinations(made, n) for n in range(len(made) + 1)):
                time = world.time(ops, kept, frozenset(keeps))
                if time is None:
                    continue
                ends = world.subgraph(ops, kept, frozenset(keeps)).ends
                after = slow | (frozenset(ends) - set(keeps)), frozenset(keeps)
                if cost + time < costs.get(after, cost + time + 1):
                    costs[after] = cost + time
                    heappush(heap, (cost + time, next(tick), after))
    return None


def cost(problem: Json, plan: Json) -> int:
    """Return the latency of a plan."""
    world = World(problem)
    slow: Numbers = frozenset()
    kept: Numbers = frozenset()
    run: set[int] = set()
    total = Fraction(0)
    for step in plan["subgraphs"]:
        ops, keeps = frozenset(step["operations"]), frozenset(step["retained"])
        if not ops or len(ops) < len(step["operations"]) or max(ops) >= world.count:
            raise Refused("operations")
        if not world.connected(ops):
            raise Refused("connected")
        if len(keeps) < len(step["retained"]) or not keeps <= {world.made[op] for op in ops}:
            raise Refused("retained")
        if not world.needed(ops) <= slow | kept:
            raise Refused("inputs")
        graph = Subgraph(world, ops, kept, keeps)
        w, h, k = step["granularity"]
        if not graph.allows(w, h, k):
            raise Refused("granularity")
        time = graph.run(w, h, k, step["order"])
        if time is None:
            raise Refused("memory")
        total, slow, kept, run = total + time, slow | (frozenset(graph.ends) - keeps), keeps, run | ops
    if len(run) < world.count or not world.results <= slow:
        raise Refused("operations or results are missing")
    return ceil(total)


def may_stop(_problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: none does here."""
    return False
