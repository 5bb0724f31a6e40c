"""Residency: every order, group, place of a tensor and way to cut up a step (docs/residency.md)."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from heapq import heappop, heappush
from itertools import accumulate, chain, combinations, count, product
from math import prod
from typing import Any, NamedTuple

from tests.fuzz.oracles import Refused, TooLarge

Json = dict[str, Any]
Names = frozenset[int]
"""Numbers of tensors: 0 is the network's input, n + 1 what operation n computes."""

MOST_MOVES = 3_000_000
"""Steps that are looked at, of all searches for one problem."""

ALL_CHANNELS = ("softmax", "lrn")
"""Functions that need all channels of a pixel."""


class Op:
    """An operation of the network.

    Attributes
    ----------
    reads
        Tensors, in order.
    weights, units
        Elements, and output channels in which they can be divided.
    own_channels
        Whether an output channel needs one input channel alone.
    """

    def __init__(
        self, number: int, table: Json, reads: tuple[int, ...], shapes: list[tuple[int, ...]]
    ) -> None:
        kind, channels = table["kind"], table["input"][0]
        self.number, self.name, self.kind, self.reads = number, table["name"], kind, reads
        weighty = kind in ("conv", "fc")
        kernel, stride, pad = (table.get(*each) for each in
                               (("kernel", [1, 1]), ("stride", [1, 1]), ("padding", [0] * 4)))  # fmt: skip
        dilation = table.get("dilation", [1, 1])
        extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        self.plane = [(table["input"][1 + i] + pad[2 * i] + pad[2 * i + 1] - extent[i]) // stride[i] + 1
                      for i in (0, 1)]  # fmt: skip
        self.shape = (table["kernels"] if weighty else channels, *self.plane)
        groups = table.get("groups", 1)
        each = prod(kernel) * channels // groups + bool(table.get("bias"))
        self.weights = self.shape[0] * each if weighty else table.get("parameters", 0)
        by_value = kind in ("add", "mul") or (kind == "map" and table["op"] not in ALL_CHANNELS)
        self.units = self.shape[0] if weighty or by_value or kind == "pool" else 1
        depthwise = kind == "conv" and groups == channels == table["kernels"]
        self.own_channels = by_value or depthwise or kind == "pool"
        self.by_value = by_value
        self.pixels = prod(self.plane)
        # For each tensor that is read: up to which of its pixels the first n outputs reach, and the first of
        # those that others than the first n need.
        self.reach: dict[int, list[int]] = {}
        self.needs: dict[int, list[int]] = {}
        for tensor in dict.fromkeys(reads):
            height, width = shapes[tensor][1:]
            whole = kind == "fc" or (height, width) != tuple(table["input"][1:])
            spans = []
            for y, x in product(range(self.plane[0]), range(self.plane[1])):
                rows = [r for r in range(y * stride[0] - pad[0], y * stride[0] - pad[0] + extent[0])
                        if 0 <= r < height]  # fmt: skip
                columns = [c for c in range(x * stride[1] - pad[2], x * stride[1] - pad[2] + extent[1])
                           if 0 <= c < width]  # fmt: skip
                every = range(height * width) if whole else [r * width + c for r in rows for c in columns]
                spans.append((min(every), max(every)))
            ends = [0, *(last + 1 for _, last in spans)]
            self.reach[tensor] = list(accumulate(ends, max))
            firsts = [height * width, *(first for first, _ in reversed(spans))]
            self.needs[tensor] = list(accumulate(firsts, min))[::-1]


class Way(NamedTuple):
    """A way to cut up a step: elements of its weights and block, and those that are moved."""

    fixed: int
    weights: int
    readings: int
    pixels: int
    kernels: int
    order: str


class Group:
    """Operations of one step."""

    def __init__(self, graph: Graph, ops: tuple[Op, ...]) -> None:
        self.graph, self.ops, self.last = graph, ops, ops[-1]
        self.mask = frozenset(op.number for op in ops)
        made = {op.number + 1 for op in ops}
        self.read = frozenset(tensor for op in ops for tensor in op.reads)
        self.sources: Names = self.read - made
        self.output = self.last.number + 1
        self.outputs = [t for t in sorted(made) if t == self.output or graph.readers[t] - self.mask]
        self.ways = lru_cache(maxsize=None)(self._ways)
        self.ends = lru_cache(maxsize=None)(self._ends)
        self.held = lru_cache(maxsize=None)(self._held)

    def _ends(self, pixels: int) -> dict[int, list[int]]:
        """Return for each tensor how many of its pixels are there after each pass, from none on."""
        passes = -(-self.last.pixels // pixels)
        ends = {self.output: [min(n * pixels, self.last.pixels) for n in range(passes + 1)]}
        for op in reversed(self.ops):
            for tensor, reach in op.reach.items():
                wanted = [reach[n] for n in ends[op.number + 1]]
                wanted[-1] = self.graph.pixels[tensor]
                known = ends.get(tensor, wanted)
                ends[tensor] = [max(pair) for pair in zip(known, wanted, strict=True)]
        return ends

    def _held(self, pixels: int) -> dict[int, int]:
        """Return the pixels of each line buffer."""
        ends, held = self.ends(pixels), {}
        for tensor in self.read:
            most = 0
            for n in range(1, len(ends[tensor])):
                first = min(op.needs[tensor][ends[op.number + 1][n - 1]]
                            for op in self.ops if tensor in op.reads)  # fmt: skip
                most = max(most, ends[tensor][n] - min(first, ends[tensor][n - 1]))
            held[tensor] = most
        return held

    def at_a_time(self, op: Op, kernels: int) -> int:
        """Return the elements of some output channels' weights."""
        return min(op.weights, -(-op.weights // op.units) * min(kernels, op.units))

    def _ways(self, pixels: int, written: bool) -> list[Way]:
        """Return all ways with some pixels a pass, without line buffers.

        Parameters
        ----------
        written
            Whether the output does not stay on chip.
        """
        last, found = self.last, []
        most = max(op.units for op in self.ops)
        at_once = min(pixels, last.pixels) * written
        ends = self.ends(pixels)
        active = {op.number: len(set(ends[op.number + 1])) - 1 for op in self.ops}
        heavy = [op for op in self.ops if op.weights]
        for kernels in range(1, most + 1):
            for kept in subsets(heavy):
                if len(kept) < len(heavy) and pixels % last.plane[1]:
                    continue
                all_channels = last in kept or not last.weights or last.units == 1
                block = at_once * (last.shape[0] if all_channels else min(kernels, last.shape[0]))
                size = sum(op.weights if op in kept else self.at_a_time(op, kernels) for op in heavy)
                moved = sum(op.weights * (1 if op in kept else active[op.number]) for op in heavy)
                found.append(Way(size + block, moved, 1, pixels, kernels, "pixels"))
        found = best_ways(found)
        if len(self.ops) == 1:
            for kernels in range(1, most + 1):
                channels = last.shape[0] if last.units == 1 else min(kernels, last.shape[0])
                size = self.at_a_time(last, kernels) if last.weights else 0
                blocks = 1 if last.own_channels or last.units == 1 else -(-last.units // kernels)
                found.append(Way(size + at_once * channels, last.weights, blocks, pixels, kernels, "kernels"))
        return found

    def lines(self, way: Way, whole: Names) -> int:
        """Return the elements of all line buffers."""
        total, held = 0, self.held(way.pixels)
        for tensor in self.read - whole:
            channels = self.graph.shapes[tensor][0]
            if way.order == "kernels" and self.last.own_channels:
                channels = min(channels, way.kernels)
            total += channels * held[tensor]
        return total

    def replaced(self, tensor: int, pixels: int) -> bool:
        """Whether the output can take a tensor's place, so far as this step is concerned."""
        if not self.last.by_value or tensor not in self.last.reads or tensor not in self.sources:
            return False
        if self.graph.shapes[tensor] != self.last.shape:
            return False
        ends = self.ends(pixels)
        return all(
            op.needs[tensor][ends[op.number + 1][n]] >= ends[self.output][n]
            for op in self.ops[:-1]
            if tensor in op.reads
            for n in range(len(ends[self.output]))
        )

    def steps(self, whole: Names, streamed: Names, place: int | None) -> list[tuple[int, int]]:
        """Return memory and traffic of the best ways, least memory first."""
        key = whole & (self.read | {self.output}), streamed, place
        if key not in self._steps:
            elements = sum(self.graph.sizes[tensor] for tensor in streamed)
            found = [
                (way.fixed + self.lines(way, whole), way.weights + way.readings * elements)
                for pixels in range(1, self.last.pixels + 1)
                if place is None or self.replaced(place, pixels)
                for way in self.ways(pixels, self.output not in whole)
            ]
            best: list[tuple[int, int]] = []
            for each in sorted(found):
                if not best or each[1] < best[-1][1]:
                    best.append(each)
            self._steps[key] = best
        return self._steps[key]

    @property
    def _steps(self) -> dict[Any, list[tuple[int, int]]]:
        return self.__dict__.setdefault("_known", {})  # type: ignore[no-any-return]


def best_ways(ways: list[Way]) -> list[Way]:
    """Return the ways of one order and number of pixels that are not worse than another."""
    best: list[Way] = []
    for way in sorted(ways):
        if not best or way.weights < best[-1].weights:
            best.append(way)
    return best


def subsets(values: Any) -> Iterator[tuple[Any, ...]]:
    """Return all subsets."""
    values = list(values)
    return chain.from_iterable(combinations(values, many) for many in range(len(values) + 1))


class State(NamedTuple):
    """What has been executed, and where tensors are that are still to be read."""

    done: Names
    chip: Names
    dram: Names


class Graph:
    """The operations of a problem.

    Parameters
    ----------
    staying
        Names of operations whose weights are on chip from frame to frame: it has none to place or to load.
    again
        Operations that are executed twice, and who reads what is computed for the second time.
    """

    def __init__(self, problem: Json, staying: Any = (), again: Any = None) -> None:
        self.machine, self.limits, self.objective = (problem[k] for k in ("machine", "limits", "objective"))
        self.width = self.machine["element_bytes"]
        layers = _with_copies(_without_joins(problem["network"]["layers"]), again or {})
        self.shapes: list[tuple[int, ...]] = [tuple(layers[0]["input"])]
        self.ops: list[Op] = []
        numbers = {"input": 0}
        for number, table in enumerate(layers):
            reads = tuple(numbers[name] for name in table["inputs"])
            folded = table["kind"] == "map" and table["op"] not in ALL_CHANNELS and reads != (0,)
            if folded or table["kind"] not in ("conv", "fc", "pool", "add", "mul", "map", "concat"):
                raise TooLarge  # what becomes part of other operations is not told here
            self.ops.append(Op(number, table, reads, self.shapes))
            self.shapes.append(self.ops[-1].shape)
            numbers[table["name"]] = number + 1
        self.staying = {op.name: op.weights for op in self.ops if op.name in staying and op.weights}
        for op in self.ops:
            op.weights = 0 if op.name in self.staying else op.weights
        self.sizes = [prod(shape) for shape in self.shapes]
        self.pixels = [prod(shape[1:]) for shape in self.shapes]
        self.readers = [frozenset(op.number for op in self.ops if tensor in op.reads)
                        for tensor in range(len(self.shapes))]  # fmt: skip
        self.before: list[Names] = []
        for op in self.ops:
            direct = {tensor - 1 for tensor in op.reads if tensor}
            self.before.append(frozenset(direct.union(*(self.before[n] for n in direct))))
        self.known: dict[Names, Group] = {}
        self.moves = 0

    def start(self) -> State:
        """Return what there is at first."""
        return State(frozenset(), frozenset(), frozenset([0] if self.readers[0] else []))

    def group(self, mask: Names) -> Group:
        """Return a group."""
        if mask not in self.known:
            self.known[mask] = Group(self, tuple(self.ops[number] for number in sorted(mask)))
        return self.known[mask]

    def groups(self, done: Names) -> Iterator[Group]:
        """Return the groups that may come next."""
        most = self.limits["most_operations"] or len(self.ops)
        for op in self.ops:
            if op.number in done:
                continue
            mask = (self.before[op.number] | {op.number}) - done
            if self.limits["order"] == "given" and mask != frozenset(range(op.number + 1)) - done:
                continue
            if len(mask) <= most:
                yield self.group(mask)

    def after(self, state: State, group: Group, chip: Names, written: Names) -> State:
        """Return what there is after a step."""
        done = state.done | group.mask
        live = frozenset(tensor for tensor, readers in enumerate(self.readers) if readers - done)
        return State(done, chip & live, (state.dram | written) & live)

    def size(self, tensors: Names) -> int:
        """Return the elements of some tensors."""
        return sum(self.sizes[tensor] for tensor in tensors)

    def next(self, state: State, most: int, thrifty: bool) -> Iterator[tuple[int, int, State]]:
        """Return memory, traffic and what is there after each step that may come next.

        Parameters
        ----------
        most
            Elements of memory.
        thrifty
            Whether of all ways to cut up a step that of least memory is wanted, else that of least traffic.
        """
        for group in self.groups(state.done):
            ways = []
            for tensor in group.outputs:
                read = bool(self.readers[tensor] - group.mask)
                ways.append([(False, True), (True, False), (True, True)] if read else [(False, True)])
            outputs = [
                (
                    frozenset(t for t, (stays, _) in zip(group.outputs, way, strict=True) if stays),
                    frozenset(t for t, (_, goes) in zip(group.outputs, way, strict=True) if goes),
                )
                for way in product(*ways)
            ]
            for dropped in subsets(state.chip & state.dram):
                there = state.chip - set(dropped)
                for fetched in subsets((group.sources & state.dram) - there):
                    chip = there | set(fetched)
                    taken = self.size(chip)
                    if taken > most:
                        continue
                    for resident, written in outputs:
                        more = self.size(frozenset(fetched)) + self.size(written)
                        after = self.after(state, group, chip | resident, written)
                        for memory, moved in self._cut(state, group, chip, resident, most, thrifty):
                            yield memory, moved + more, after

    def _cut(
        self, state: State, group: Group, chip: Names, resident: Names, most: int, thrifty: bool
    ) -> Iterator[tuple[int, int]]:
        """Return memory and traffic of the best way to cut up a step, for each place of its output."""
        whole = chip | resident
        places: list[int | None] = [None]
        if group.output in resident:
            places += [t for t in sorted(chip & set(group.last.reads))
                       if not self.readers[t] - group.mask - state.done]  # fmt: skip
        for place in places:
            self.moves += 1
            if self.moves > MOST_MOVES:
                raise TooLarge
            taken = self.size(whole) - (0 if place is None else self.sizes[place])
            ways = group.steps(whole, group.sources - whole, place)
            fitting = bisect_right(ways, most - taken, key=lambda way: way[0])
            if fitting:
                memory, moved = ways[0 if thrifty else fitting - 1]
                yield taken + memory, moved

    def least_traffic(self, most: int) -> int | None:
        """Return the least elements that a plan moves in a memory of some, None if there is no plan."""
        return self._least(most, thrifty=False)

    def least_memory(self) -> int | None:
        """Return the least elements of memory in which there is a plan."""
        return self._least(2**60, thrifty=True)

    def _least(self, most: int, thrifty: bool) -> int | None:
        costs, tick = {self.start(): 0}, count()
        heap = [(0, next(tick), self.start())]
        while heap:
            cost, _, state = heappop(heap)
            if cost > costs[state]:
                continue
            if len(state.done) == len(self.ops):
                return cost
            for memory, moved, after in self.next(state, most, thrifty):
                reached = max(cost, memory) if thrifty else cost + moved
                if reached < costs.get(after, reached + 1):
                    costs[after] = reached
                    heappush(heap, (reached, next(tick), after))
        return None


def _without_joins(layers: list[Json]) -> list[Json]:
    """Return the layers with inputs, and without concatenations whose readers can read the parts instead."""
    found, before = [], "input"
    for layer in layers:
        found.append({**layer, "inputs": list(layer["inputs"] or [before])})
        before = layer["name"]
    again = True
    while again:
        again = False
        for table in [table for table in found if table["kind"] == "concat"]:
            name, parts = table["name"], table["inputs"]
            readers = [other for other in found if name in other["inputs"]]
            new = {id(r): list(chain.from_iterable(parts if n == name else [n] for n in r["inputs"]))
                   for r in readers}  # fmt: skip
            others = [other for other in found if other is not table]
            alone = not any(part == "input" or any(part in o["inputs"] for o in others) for part in parts)
            several = len(parts) > 1 and any(r["kind"] in ("add", "mul") for r in readers)
            twice = any(len(set(new[id(r)])) < len(new[id(r)]) and r["kind"] not in ("add", "mul")
                        for r in readers)  # fmt: skip
            if several or twice or (not readers and not alone):
                continue
            for reader in readers:
                reader["inputs"] = new[id(reader)]
            found.remove(table)
            again = True
    return found


def _with_copies(layers: list[Json], again: dict[str, list[str]]) -> list[Json]:
    """Return layers of which some stand there twice; the copy goes before its first reader."""
    first = {table["name"]: table for table in layers}
    if not again.keys() <= first.keys():
        raise Refused("no operation")
    copies = {name: f"{name} again" for name in again}
    assert not copies.keys() & set(copies.values())
    tables = first | {copies[name]: {**first[name], "name": copies[name]} for name in again}
    found = {name: {**table, "inputs": list(table["inputs"])} for name, table in tables.items()}
    for name, readers in again.items():
        known = [reader for reader, table in tables.items() if name in table["inputs"]]
        if not readers or len({*readers}) < len(readers) or not {*readers} < {*known}:
            raise Refused("readers")
        for reader in readers:
            inputs = found[reader]["inputs"]
            found[reader]["inputs"] = [copies[name] if each == name else each for each in inputs]
    order: list[str] = []
    for table in layers:
        # From the last one that is executed twice to the first, all that what comes needs.
        needed = [table["name"]]
        for other in reversed(layers):
            copy = copies.get(other["name"])
            if copy and copy not in order and any(copy in found[each]["inputs"] for each in needed):
                needed.insert(0, copy)
        order += needed
    return [found[name] for name in order]


def _all_copies(problem: Json) -> Iterator[dict[str, list[str]]]:
    """Return all sets of operations that are executed twice, and who reads their copies."""
    layers = _without_joins(problem["network"]["layers"])

    def further(left: list[Json], again: dict[str, list[str]]) -> Iterator[dict[str, list[str]]]:
        if not left:
            yield again
            return
        *others, last = left
        yield from further(others, again)
        readers = []
        for table in layers:
            if last["name"] in table["inputs"]:
                name = table["name"]
                readers += [name, f"{name} again"] if name in again else [name]
        for some in subsets(readers[1:]):  # the first one reads what has been computed first, or is called so
            if some:
                yield from further(others, {**again, last["name"]: list(some)})

    return further(layers, {})


def best(problem: Json) -> int | None:
    """Return the least bytes of all plans, by what is on chip at a time; None if there is no plan."""
    graph = Graph(problem)
    most = problem["machine"]["memory_bytes"] // graph.width
    if graph.limits.get("frames", "one") == "many":
        return _best_of_frames(problem, graph, most)
    if graph.limits.get("executions", 1) == 2:
        return _best_of_two(problem, graph, most)
    if graph.objective["minimise"] == "traffic":
        return _bytes(graph, graph.least_traffic(most))
    least = graph.least_memory()
    limit = graph.objective["most_traffic"]
    if least is None or least > most:
        return None
    if limit is None:
        return _bytes(graph, least)

    def enough(memory: int) -> bool:
        moved = graph.least_traffic(memory)
        return moved is not None and moved * graph.width <= limit

    if not enough(most):
        return None
    low, high = least, most
    while low < high:  # more memory never moves more
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return _bytes(graph, low)


def _best_of_frames(problem: Json, graph: Graph, most: int) -> int | None:
    """Return the least bytes of a frame, whichever weights stay."""
    found = []
    for names in subsets(op.name for op in graph.ops if op.weights):
        kept = Graph(problem, names)
        kept.moves = graph.moves
        left = most - sum(kept.staying.values())
        moved = kept.least_traffic(left) if left > 0 else None
        graph.moves = kept.moves
        found += [] if moved is None else [moved]
    return _bytes(graph, min(found, default=None))


def _best_of_two(problem: Json, graph: Graph, most: int) -> int | None:
    """Return the least bytes of all plans in which operations are executed once or twice."""
    found = []
    for again in _all_copies(problem):
        copied = Graph(problem, (), again)
        copied.moves = graph.moves
        moved = copied.least_traffic(most)
        graph.moves = copied.moves
        found += [] if moved is None else [moved]
    return _bytes(graph, min(found, default=None))


def _bytes(graph: Graph, elements: int | None) -> int | None:
    return None if elements is None else elements * graph.width


def cost(problem: Json, plan: Json) -> int:
    """Return the bytes that a plan moves, or those of memory that it takes."""
    graph = Graph(problem, plan.get("staying", ()), plan.get("again"))
    if plan.get("again") and (graph.limits.get("executions", 1) == 1 or plan.get("staying")):
        raise Refused("executed twice")
    if plan.get("staying", {}).keys() != graph.staying.keys():
        raise Refused("stays and has no weights")
    if graph.staying and graph.limits["frames"] == "one":
        raise Refused("stays for one frame")
    walk = _Walk(graph, problem["machine"]["memory_bytes"], plan.get("staying", {}))
    for step in plan["steps"]:
        walk.step(step)
    if len(walk.state.done) < len(graph.ops):
        raise Refused("operations are missing")
    limit = graph.objective["most_traffic"]
    if limit is not None and walk.moved * graph.width > limit:
        raise Refused("traffic")
    return (walk.moved if graph.objective["minimise"] == "traffic" else walk.top) * graph.width


class _Walk:
    """A plan, step by step."""

    def __init__(self, graph: Graph, memory: int, staying: dict[str, int]) -> None:
        self.staying = [(at, graph.staying[name], f"weights of {name}") for name, at in staying.items()]
        self.graph, self.state, self.room = graph, graph.start(), memory // graph.width
        self.at: dict[int, int] = {}
        self.moved = self.top = 0
        self.numbers = {"input": 0} | {op.name: op.number + 1 for op in graph.ops}

    def tensors(self, names: list[str], allowed: Any, what: str) -> Names:
        """Return the numbers of tensors, of which only some are allowed."""
        found = frozenset(self.numbers[name] for name in names)
        if len(found) < len(names) or not found <= frozenset(allowed):
            raise Refused(what)
        return found

    def step(self, step: Json) -> None:
        """Execute a step."""
        graph, state = self.graph, self.state
        listed = [self.numbers[name] - 1 for name in step["operations"]]
        mask = frozenset(listed)
        if listed != sorted(mask) or len(set(step["kept"])) < len(step["kept"]):
            raise Refused("names twice, or in no order")
        group = next((g for g in graph.groups(state.done) if g.mask == mask), None)
        if group is None:
            raise Refused("operations")
        dropped = self.tensors(step["dropped"], state.chip & state.dram, "dropped")
        there = state.chip - dropped
        fetched = self.tensors(step["fetched"], (group.sources & state.dram) - there, "fetched")
        read = [tensor for tensor in group.outputs if graph.readers[tensor] - group.mask]
        resident = self.tensors(step["resident"], read, "resident")
        written = self.tensors(step["written"], group.outputs, "written")
        if set(group.outputs) - resident - written:
            raise Refused("an output is lost")
        whole = there | fetched | resident
        heavy = {op.name for op in group.ops if op.weights}
        kept, pixels, kernels = set(step["kept"]), step["pixels"], step["kernels"]
        alone = len(group.ops) == 1 and not kept
        if not kept <= heavy or not 1 <= pixels <= group.last.pixels:
            raise Refused("kept or pixels")
        if not 1 <= kernels <= max(op.units for op in group.ops):
            raise Refused("kernels")
        if not alone if step["order"] == "kernels" else kept < heavy and pixels % group.last.plane[1]:
            raise Refused("order")
        place = None if step["in_place"] is None else self.numbers[step["in_place"]]
        if place is not None and not (
            group.output in resident
            and place in there | fetched
            and group.replaced(place, pixels)
            and not graph.readers[place] - group.mask - state.done
        ):
            raise Refused("in place")
        for tensor in dropped:
            del self.at[tensor]
        for tensor in fetched | resident:
            self.at[tensor] = step["addresses"][graph_name(graph, tensor)]
        if place is not None and self.at[place] != self.at[group.output]:
            raise Refused("in place, elsewhere")
        self._place(group, step, whole, kept, place)
        self.state = graph.after(state, group, whole, written)
        self.at = {tensor: address for tensor, address in self.at.items() if tensor in self.state.chip}
        self.moved += graph.size(fetched) + graph.size(written)

    def _place(self, group: Group, step: Json, whole: Names, kept: set[str], place: int | None) -> None:
        graph, last, addresses = self.graph, group.last, step["addresses"]
        pixels, kernels, by_kernels = step["pixels"], step["kernels"], step["order"] == "kernels"
        spans = [(self.at[t], graph.sizes[t], graph_name(graph, t)) for t in whole if t != place]
        named = {graph_name(graph, t) for t in self.tensors(step["fetched"] + step["resident"], whole, "?")}
        held, ends = group.held(pixels), group.ends(pixels)
        buffers: dict[str, int] = {}
        for tensor in group.read - whole:
            channels = graph.shapes[tensor][0]
            channels = min(channels, kernels) if by_kernels and last.own_channels else channels
            buffers[f"lines of {graph_name(graph, tensor)}"] = held[tensor] * channels
        for op in group.ops:
            if op.weights:
                part = op.weights if op.name in kept else group.at_a_time(op, kernels)
                buffers[f"weights of {op.name}"] = part
                passes = 1 if op.name in kept or by_kernels else len(set(ends[op.number + 1])) - 1
                self.moved += op.weights * passes
        if group.output not in whole:
            all_at_once = last.units == 1 or (not by_kernels and (last.name in kept or not last.weights))
            channels = last.shape[0] if all_at_once else min(kernels, last.shape[0])
            buffers[f"block of {last.name}"] = channels * pixels
        if set(addresses) != named | set(buffers):
            raise Refused("addresses")
        again = by_kernels and not last.own_channels and last.units > 1
        self.moved += graph.size(group.sources - whole) * (-(-last.units // kernels) if again else 1)
        spans += [(addresses[name], size, name) for name, size in buffers.items()]
        spans += self.staying
        end = 0
        for address, size, name in sorted(spans):
            if address < end:
                raise Refused(f"overlap: {name}")
            end = address + size
        if end > self.room:
            raise Refused("memory")
        self.top = max(self.top, end)


def graph_name(graph: Graph, tensor: int) -> str:
    """Return the name of a tensor."""
    return "input" if tensor == 0 else graph.ops[tensor - 1].name


def may_stop(_problem: Json, method: str) -> bool:
    """Whether a method may end without a proof: what fits by size may have no addresses."""
    return True
