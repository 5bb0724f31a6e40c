"""Scheduling: every set of operations, granularity, order of tiles and kept tensor (docs/scheduling.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from heapq import heappop, heappush
from itertools import chain, combinations, count, pairwise, product
from math import ceil
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Numbers = frozenset[int]

MOST_STEPS = 400_000
"""Steps of tiles of all subgraphs that are walked through."""

MOST_TILES = 64
"""Tiles of which all orders are looked at."""

MOST_ORDERS = 30_000
"""Beginnings of orders that are looked at for one granularity."""


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
        self.sums = {t for t in self._on_tile() if world.matmul[self.maker[t]]}
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

    def tiles(self, w: int, h: int, order: Any) -> list[int]:
        """Return the numbers of tiles in their order; they are counted row by row."""
        high, wide = -(-self.height // h), -(-self.width // w)
        if not isinstance(order, str):
            if sorted(order) != list(range(high * wide)):
                raise Refused("order")
            return list(order)
        rows, columns, back = range(high), range(wide), order.startswith("snake")
        if order.endswith("rows"):
            return [r * wide + c for r in rows for c in (columns[::-1] if back and r % 2 else columns)]
        return [r * wide + c for c in columns for r in (rows[::-1] if back and c % 2 else rows)]

    @lru_cache(maxsize=64)  # noqa: B019 - problems are small
    def cut(self, w: int, h: int, k: int) -> list[Tile] | None:
        """Return all tiles, None where they do not fit."""
        world = self.world
        most = [-(-world.depth(self.maker[tensor]) // k) for tensor in self.sums]
        high, wide = -(-self.height // h), -(-self.width // w)
        tiles = []
        for row, column in product(range(high), range(wide)):
            rows, columns = part("tile", row * h, h, self.height), part("tile", column * w, w, self.width)
            tiles.append(Tile(self, rows, columns, k, max(most, default=1)))
            if tiles[-1].place() > world.capacity:
                return None
        return tiles

    def run(self, w: int, h: int, k: int, order: Any) -> Fraction | None:
        """Return the time that all tiles take in some order, None if they need more memory than there is."""
        tiles = self.cut(w, h, k)
        if tiles is None:
            return None
        chosen = [tiles[number] for number in self.tiles(w, h, order)]
        return sum((tile.time(before) for before, tile in pairwise([None, *chosen]) if tile), Fraction(0))

    def least_time(self) -> Fraction | None:
        """Return the least time of all granularities and all orders of tiles."""
        if not self.fits:
            return None
        world = self.world
        deep = min([*world.native, *self.depths]) if self.depths else 1
        most = [min(native, max(length, least)) for native, length, least in
                zip(world.native, (self.width, self.height), self.least, strict=True)]  # fmt: skip
        tours = []
        for w, h, k in product(*(range(1, side + 1) for side in (*most, deep))):
            tiles = self.cut(w, h, k) if self.allows(w, h, k) else None
            if tiles is not None:
                tours.append(Tour(tiles, -(-self.width // w)))
        best: Fraction | None = None
        for tour in sorted(tours, key=lambda tour: tour.bound):
            if best is not None and tour.bound >= best:
                break
            best = tour.shortest(best)
        return best


class Tile:
    """A tile of a subgraph: what its steps need, make and move."""

    def __init__(self, graph: Subgraph, rows: Part, columns: Part, k: int, steps: int) -> None:
        graph.world.steps += steps
        if graph.world.steps > MOST_STEPS:
            raise TooLarge
        self.graph, self.size = graph, rows.size * columns.size
        self.steps = [Step(graph, rows, columns, number, k, number == steps - 1) for number in range(steps)]
        self.written = self.size * len([tensor for tensor in graph.ends if tensor not in graph.keeps])

    def place(self) -> int:
        """Return the elements that its working set and what is kept take."""
        graph, slices = self.graph, Counter[Any]()
        for step in self.steps:
            for (tensor, high, wide), size in step.needs.items():
                kind = tensor, high[0], wide[0]
                slices[kind] = max(slices[kind], size)
        there = sum(graph.world.elements(tensor) for tensor in graph.kept | graph.keeps)
        sums = 0
        if len(self.steps) > 1 and graph.world.each_sum:
            sums = max(0, len(graph.sums) - len({*graph.ends, *graph.keeps})) * self.size
        return there + sum(slices.values()) + self.written + sums

    def time(self, before: Tile | None) -> Fraction:
        """Return the time it takes behind another tile."""
        total, there = Fraction(0), frozenset(before.steps[-1].needs) if before else frozenset()
        for step in self.steps:
            moved = step.loads(there) + (self.written if step.last else 0)
            total += max(step.compute, self.graph.world.time_of(moved, self.graph.world.bandwidth))
            there = frozenset(step.needs)
        return total


class Tour:
    """All orders of the tiles of a granularity, of which the one that takes least is sought."""

    def __init__(self, tiles: list[Tile], wide: int) -> None:
        self.tiles, self.wide = tiles, wide
        self.numbers = range(len(tiles))
        if len(tiles) > MOST_TILES:
            raise TooLarge
        self.first = [tile.time(None) for tile in tiles]
        self.times = [[tile.time(before) for before in tiles] for tile in tiles]
        self.least = [min([self.first[t], *(self.times[t][p] for p in self.numbers if p != t)])
                      for t in self.numbers]  # fmt: skip
        self.bound = sum(self.least) + min(self.first[t] - self.least[t] for t in self.numbers)

    def alike(self, swapped: list[int]) -> bool:
        """Whether all times are the same if tiles take the places of others."""
        return all(
            self.first[t] == self.first[swapped[t]]
            and all(self.times[t][p] == self.times[swapped[t]][swapped[p]] for p in self.numbers)
            for t in self.numbers
        )

    def twins(self, lines: int, tile: Callable[[int, int], int], length: int) -> list[list[int]]:
        """Return which rows, or columns, may take each other's place."""
        groups: list[list[int]] = []
        for line in range(lines):
            for group in groups:
                swapped = list(self.numbers)
                for along in range(length):
                    one, other = tile(line, along), tile(group[0], along)
                    swapped[one], swapped[other] = other, one
                if self.alike(swapped):
                    group.append(line)
                    break
            else:
                groups.append([line])
        return groups

    def shortest(self, below: Fraction | None) -> Fraction | None:
        """Return what the shortest order takes, or what is given if none is shorter."""
        wide, high = self.wide, len(self.tiles) // self.wide
        rows = self.twins(high, lambda line, along: line * wide + along, wide)
        columns = self.twins(wide, lambda line, along: along * wide + line, high)

        def same(seen: frozenset[int], last: int) -> tuple[Any, ...]:
            """Return a name that orders have in common which differ in rows and columns that are twins."""
            at = [[(r * wide + c in seen) + (r * wide + c == last) for c in range(wide)] for r in range(high)]
            for _ in range(2):
                for group in rows:
                    for place, line in zip(group, sorted(at[r] for r in group), strict=True):
                        at[place] = line
                turned = [list(line) for line in zip(*at, strict=True)]
                for group in columns:
                    for place, line in zip(group, sorted(turned[c] for c in group), strict=True):
                        turned[place] = line
                at = [list(line) for line in zip(*turned, strict=True)]
            return tuple(map(tuple, at))

        ticket = count()
        rest = sum(self.least)
        heap: list[Any] = []
        for t in self.numbers:
            heappush(heap, (rest - self.least[t] + self.first[t], -1, next(ticket), frozenset({t}), t))
        done = set()
        while heap:
            cost, _, _, seen, last = heappop(heap)
            if below is not None and cost >= below:
                return below
            if len(seen) == len(self.tiles):
                return Fraction(cost)
            name = same(seen, last)
            if name in done:
                continue
            done.add(name)
            if len(done) > MOST_ORDERS:
                raise TooLarge
            for t in self.numbers:
                if t not in seen:
                    longer = cost - self.least[t] + self.times[t][last]
                    heappush(heap, (longer, -len(seen) - 1, next(ticket), seen | {t}, t))
        return below


class Step:
    """What a step of a tile reads and computes."""

    def __init__(self, graph: Subgraph, rows: Part, columns: Part, number: int, k: int, last: bool) -> None:
        self.graph, self.world, self.number, self.k, self.last = graph, graph.world, number, k, last
        self.needs: dict[Any, int] = {}
        self.beside: set[Any] = set()  # what Pointwise operations on the tile read, and nothing else
        self.compute = Fraction(0)
        self.done: set[Any] = set()
        for tensor in graph.ends:
            self.tile(tensor, rows, columns)

    def read(self, tensor: int, rows: Part, columns: Part, beside: bool = False) -> None:
        """Need a slice, unless the tensor was kept."""
        if tensor in self.graph.kept:
            return
        need = tensor, rows.same(), columns.same()
        if beside and need not in self.needs:
            self.beside.add(need)
        if not beside:
            self.beside.discard(need)
        self.needs[need] = rows.size * columns.size

    def loads(self, before: frozenset[Any]) -> int:
        """Return the elements that are loaded if some slices are there."""
        slices = {(tensor, high[1:], wide[1:]) for tensor, high, wide in self.needs.keys() - self.beside}
        return sum(
            size
            for need, size in self.needs.items()
            if need not in before
            and not (need in self.beside and (need[0], need[1][1:], need[2][1:]) in slices)
        )

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
                self.compute += world.time_of(world.costs[op], depth) * along.size
            return
        for tensor in world.reads[op]:
            if tensor in self.graph.maker:
                self.tile(tensor, rows, columns)
            elif self.last:
                self.read(tensor, rows, columns, beside=True)
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
        cost, size, most = world.costs[op], 1, 1
        for each, kind, native in zip((rows, columns), kinds, reversed(world.native), strict=True):
            if kind == "step":
                size, most = each.size, min(native, each.length)
            elif kind == "all":
                cost *= -(-each.length // native)
        self.compute += world.time_of(cost, most) * size


class World:
    """The graph and the machine.

    Parameters
    ----------
    scale
        Ticks in a unit of time, where these do not make every time a whole number.
    """

    def __init__(self, problem: Json, scale: int | None = None) -> None:
        self.scale = scale
        graph = problem["graph"]
        self.shapes = list(zip(graph["widths"], graph["heights"], strict=True))
        self.reads, self.costs = graph["inputs"], graph["base_costs"]
        self.made = [one for (one,) in graph["outputs"]]
        self.matmul = [kind == "MatMul" for kind in graph["op_types"]]
        self.capacity, self.bandwidth = graph["fast_memory_capacity"], graph["slow_memory_bandwidth"]
        self.native = tuple(graph["native_granularity"])
        self.flow = problem["limits"]["connected"] == "flow"
        self.each_sum = problem["limits"].get("accumulators", "each") == "each"
        self.count = len(self.reads)
        read = {tensor for tensors in self.reads for tensor in tensors}
        self.results = frozenset(self.made) - read
        self.steps = 0
        self.subgraph = lru_cache(maxsize=None)(lambda *parts: Subgraph(self, *parts))
        self.time = lru_cache(maxsize=None)(self._time)

    def time_of(self, amount: int, speed: int) -> Fraction:
        """Return how long an amount takes, in ticks that have begun where these are given."""
        return (
            Fraction(amount, speed)
            if self.scale is None
            else Fraction(-(-amount * self.scale // speed), self.scale)
        )

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
        return self.subgraph(ops, kept, keeps).least_time()


def best(problem: Json) -> int | None:
    """Return the least latency of all plans, a begun unit as a whole one; None if there is none."""
    found = latency(problem)
    return None if found is None else ceil(found)


def latency(problem: Json, scale: int | None = None) -> Fraction | None:
    """Return the least latency of all plans, None if there is none; see `World` for the scale."""
    world = World(problem, scale)
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
            return cost
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
