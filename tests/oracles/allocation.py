"""Allocation: every split of every layer (docs/allocation.md), beats executed one by one, every placement."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations, product
from math import ceil, prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Pixel = tuple[int, int]
Place = tuple[int, int]

MOST_PLANS = 3000
"""Plans whose beats are executed."""

MOST_PLACEMENTS = 150_000


class Split(NamedTuple):
    """Parts of filters, maps and rows; filters and maps that a PE's units work on."""

    filters: int
    maps: int
    rows: int
    unit_filters: int
    unit_maps: int

    @property
    def pes(self) -> int:
        """PEs."""
        return self.filters * self.maps * self.rows


class Layer:
    """A layer of the pipeline, as its table says."""

    def __init__(self, number: int, table: Json, reads: tuple[int, ...]) -> None:
        self.number, self.name, self.reads = number, table["name"], reads
        self.kind = kind = table["kind"]
        self.shape = channels, height, width = tuple(table["input"])
        kernel, stride = table.get("kernel", [1, 1]), table.get("stride", [1, 1])
        pad, dilation = table.get("padding", [0] * 4), table.get("dilation", [1, 1])
        self.extent = [(k - 1) * d + 1 for k, d in zip(kernel, dilation, strict=True)]
        self.stride, self.pad, self.dilation = stride, pad, dilation
        self.rows = (height + pad[0] + pad[1] - self.extent[0]) // stride[0] + 1
        self.columns = (width + pad[2] + pad[3] - self.extent[1]) // stride[1] + 1
        self.filters, self.maps, self.window, self.weights = 1, channels, prod(kernel), 0
        self.channels = channels
        if kind == "conv":
            self.filters, self.maps = table["kernels"], channels // table["groups"]
            self.weights, self.channels = self.filters * self.maps * self.window, self.filters
        elif kind == "add":
            self.window = len(reads)

    def beats(self, split: Split) -> int:
        """Return the beats of a frame."""
        return -(-self.rows // split.rows) * self.columns

    def work(self, split: Split) -> int:
        """Return the cycles of a beat."""
        filters = -(-self.filters // (split.filters * split.unit_filters))
        return int(filters * -(-self.maps // (split.maps * split.unit_maps)) * self.window)

    def load(self, split: Split) -> int:
        """Return the cycles of a frame."""
        return self.beats(split) * self.work(split)

    def under(self, pixel: Pixel) -> list[Pixel]:
        """Return the pixels of what it reads under the taps of the window of an output pixel."""
        axes = []
        for axis in (0, 1):
            first = pixel[axis] * self.stride[axis] - self.pad[2 * axis]
            taps = range(first, first + self.extent[axis], self.dilation[axis])
            axes.append([tap for tap in taps if 0 <= tap < self.shape[1 + axis]])
        return list(product(*axes))

    def pixels(self) -> list[Pixel]:
        """Return its output pixels, row by row."""
        return list(product(range(self.rows), range(self.columns)))


class Step(NamedTuple):
    """An operation of the host: its cycles, what it reads, and how many layers precede it."""

    cycles: int
    layers: list[int]
    steps: list[int]
    place: int


class Pipeline:
    """A problem, and what its plans cost; layers read -2, -3, ... of the operations of the host."""

    def __init__(self, problem: Json) -> None:
        self.problem = problem
        self.machine, self.limits = problem["machine"], problem["limits"]
        self.minimise = problem["objective"]["minimise"]
        self.parallel = self.limits["execution"] == "layer-parallel"
        self.layers: list[Layer] = []
        names = {"input": -1}
        last = "input"
        sent = set(problem["network"].get("outputs") or [])  # what leaves the array beside what none reads
        self.steps: list[Step] = []
        words: dict[str, int] = {}
        for table in problem["network"]["layers"]:
            reads = table.get("inputs") or [last]
            last = table["name"]
            for name in reads:  # of a layer that reads the input alone it is known how large that is
                if name == "input" and set(reads) == {"input"}:
                    words[name] = prod(table["input"])
            if table["kind"] in ("fc", "mul") or table.get("op") == "softmax":
                sent |= set(reads)
                words[last] = table.get("kernels") or prod(table["input"])
                moved = words[last] + sum(words[name] for name in set(reads))
                if table["kind"] == "fc":
                    moved += table["kernels"] * (prod(table["input"]) + bool(table["bias"]))
                before = {names[name] for name in reads}
                on_host = [-2 - number for number in before if number <= -2]
                inside = [number for number in before if number >= 0]
                names[last] = -2 - len(self.steps)
                self.steps.append(Step(self._host_cycles(moved), inside, on_host, len(self.layers)))
                continue
            names[last] = len(self.layers)
            self.layers.append(Layer(len(self.layers), table, tuple(names[name] for name in reads)))
            words[last] = self.layers[-1].channels * self.layers[-1].rows * self.layers[-1].columns
        if not any(read <= -2 for layer in self.layers for read in layer.reads):
            self.steps = []  # what the host does behind the array is told beside
        self.outside = {names[name]: size for name, size in words.items() if names[name] < 0}
        self.period = sum(step.cycles for step in self.steps)
        self.readers = [[one for one in self.layers if layer.number in one.reads] for layer in self.layers]
        self.leaving = {layer.number for layer in self.layers
                        if layer.name in sent or not self.readers[layer.number]}  # fmt: skip
        self.pes = prod(self.machine["array"])
        self.orders = self._orders()
        self.order = lru_cache(maxsize=None)(self._order)
        rate = problem["objective"]["frames_per_second"]
        # A rate that was rounded from whole cycles loses none of them.
        self.most = None if rate is None else int(self.machine["clock_mhz"] * 10**6 / rate + 1e-6)
        self.words: int | None = None
        if self.machine["buffer_bytes"] is not None:
            self.words = 8 * self.machine["buffer_bytes"] // self.machine["word_bits"]

    def _host_cycles(self, words: int) -> int:
        """Return the cycles of the host for so many words."""
        host = self.machine["host"]
        if host is None:
            return 0
        moved = -(-words * self.machine["word_bits"] // 8)
        return int(host["cycles_per_call"] + ceil(Fraction(str(host["cycles_per_byte"])) * moved))

    def _orders(self) -> dict[int, dict[Pixel, int]]:
        """Return the place of each pixel in its layer's order with ``scan = "fields"``."""
        orders: dict[int, dict[Pixel, int]] = {}
        for layer in reversed(self.layers):
            soonest: dict[Pixel, Fraction] = {}
            for reader in self.readers[layer.number]:
                own = orders[reader.number]
                for pixel in reader.pixels():
                    for needed in reader.under(pixel):
                        when = Fraction(own[pixel], len(own))
                        soonest[needed] = min(soonest.get(needed, when), when)
            pixels = layer.pixels()
            if self.readers[layer.number]:
                pixels.sort(key=lambda pixel, soonest=soonest: (soonest.get(pixel, Fraction(2)), pixel))  # type: ignore[misc]
            orders[layer.number] = {pixel: place for place, pixel in enumerate(pixels)}
        return orders

    def _order(self, number: int, rows: int) -> dict[Pixel, int]:
        """Return the beat that computes each pixel."""
        if self.limits["scan"] == "fields":
            return self.orders[number]
        layer = self.layers[number]
        return {(y, x): y // rows * layer.columns + x for y, x in layer.pixels()}

    def every_split(self, layer: Layer) -> Iterator[Split]:
        """Yield all splits."""
        units = self.machine["functional_units"]
        for parts in product(range(1, self.pes + 1), repeat=3):
            if prod(parts) > self.pes:
                continue
            for unit in product(range(1, units + 1), repeat=2):
                split = Split(*parts, *unit)
                if self.broken(layer, split) is None:
                    yield split

    def splits(self, layer: Layer) -> list[Split]:
        """Return of all splits those of fewest PEs for each work and number of row groups."""
        best: dict[tuple[int, int], Split] = {}
        for split in self.every_split(layer):
            key = layer.work(split), split.rows
            if key not in best or split.pes < best[key].pes:
                best[key] = split
        return list(best.values())

    def broken(self, layer: Layer, split: Split) -> str | None:
        """Say which limit a split breaks."""
        for axis in ("filters", "maps", "rows"):
            if getattr(split, axis) > 1 and axis not in self.limits["splits"]:
                return f"{axis} of {layer.name} are divided"
        if split.unit_filters > 1 and self.limits["functional_units"] == "maps":
            return "units work on filters"
        if split.unit_filters * split.unit_maps > self.machine["functional_units"]:
            return "units"
        if split.pes != self.limits["pes"].get(layer.name, split.pes):
            return f"PEs of {layer.name} are given"
        return None

    def run(self, splits: tuple[Split, ...], pacing: str) -> tuple[int, int, int, int]:
        """Return interval, PEs, latency and words of storage."""
        found = self.measured(splits, pacing)
        return found["interval"], found["used"], found["latency"], found["storage"]

    def of_splits(self, splits: list[tuple[int, ...]], pacing: str) -> Json:
        """Return what is measured of a plan, whose splits are as files have them."""
        return self.measured(tuple(Split(*split) for split in splits), pacing)

    def measured(self, splits: tuple[Split, ...], pacing: str) -> Json:
        """Return the same by name, and what is known of each layer."""
        loads = [layer.load(split) for layer, split in zip(self.layers, splits, strict=True)]
        found: Json = {"work": [layer.work(split) for layer, split in zip(self.layers, splits, strict=True)]}
        found |= {"load": loads, "pes": [split.pes for split in splits]}
        if not self.parallel:
            starts = [
                sum(loads[:number]) + sum(step.cycles for step in self.steps if step.place <= number)
                for number in range(len(loads))
            ]
            total = sum(loads) + self.period
            found |= {"used": max(found["pes"]), "interval": total, "latency": total}
            return found | {"pace": found["work"], "start": starts, "busy": loads, "storage": self._in_turn()}
        interval = max([*loads, self.period])
        level, pace, start = [], [], []
        host: list[int] = []
        for layer, split in zip(self.layers, splits, strict=True):
            self._on_host(host, layer.number, start, pace, splits, interval)
            before = [read for read in layer.reads if read >= 0]
            level.append(max([loads[layer.number], *(level[read] for read in before)]))
            beats = layer.beats(split)
            pace.append((interval if pacing == "uniform" else level[-1]) // beats)
            own = self.order(layer.number, split.rows)
            begin = max([0, *(host[-2 - read] for read in layer.reads if read <= -2)])
            for read in before:
                theirs = self.order(read, splits[read].rows)
                needed = [-1] * beats
                for pixel, beat in own.items():
                    needed[beat] = max([needed[beat], *(theirs[under] for under in layer.under(pixel))])
                lead = max((n + 1) * pace[read] - k * pace[-1] for k, n in enumerate(needed))
                begin = max(begin, start[read] + lead)
            start.append(begin)
        busy = [layer.beats(splits[layer.number]) * pace[layer.number] for layer in self.layers]
        self._on_host(host, len(self.layers), start, pace, splits, interval)
        latency = max([begin + long for begin, long in zip(start, busy, strict=True)] + host)
        words = sum(layer.weights for layer in self.layers)
        if self.words is not None:
            found["buffer"] = [self._buffer(layer, splits, pace, start, interval) for layer in self.layers]
            words += sum(found["buffer"])
        found |= {"used": sum(found["pes"]), "interval": interval, "latency": latency, "storage": words}
        return found | {"pace": pace, "start": start, "busy": busy}

    def _on_host(
        self,
        ends: list[int],
        layers: int,
        start: list[int],
        pace: list[int],
        splits: tuple[Split, ...],
        interval: int,
    ) -> None:
        """Add when the host has done what comes before a layer, of which nothing waits but for its turn.

        The interval is divided among the operations, from when the first one begins; see docs/allocation.md.
        """
        while len(ends) < len(self.steps) and self.steps[len(ends)].place <= layers:
            number = len(ends)
            step = self.steps[number]
            busy = {read: self.layers[read].beats(splits[read]) * pace[read] for read in step.layers}
            begin = max(
                [0, *(start[read] + busy[read] for read in step.layers), *(ends[n] for n in step.steps)]
            )
            first = next((n for n, one in enumerate(self.steps) if one.cycles), None)
            if first is not None and first < number and step.cycles:
                origin = ends[first] - self.steps[first].cycles
                mine = origin + sum(one.cycles for one in self.steps[first:number])
                while (begin - mine) % interval:
                    begin += 1
                taken = {
                    (ends[n] - k - 1) % interval for n in range(number) for k in range(self.steps[n].cycles)
                }
                assert not taken & {(begin + k) % interval for k in range(step.cycles)}
            ends.append(begin + step.cycles)

    def _in_turn(self) -> int:
        most = 0
        for now in self.layers:
            words = now.weights
            for layer in self.layers[: now.number + 1]:
                later = [reader.number for reader in self.readers[layer.number]] or [layer.number]
                if max(later) >= now.number:
                    words += layer.channels * layer.rows * layer.columns
            for outside in {read for layer in self.layers for read in layer.reads if read < 0}:
                readers = [layer for layer in self.layers if outside in layer.reads]
                if readers[0].number <= now.number <= readers[-1].number:
                    words += self.outside[outside]
            most = max(most, words)
        return most

    def _buffer(
        self, layer: Layer, splits: tuple[Split, ...], pace: list[int], start: list[int], interval: int
    ) -> int:
        """Return the words that a layer's output takes while frames follow each other for ever."""
        readers = self.readers[layer.number]
        if not readers:
            return 0
        number = layer.number
        own = self.order(number, splits[number].rows)
        begin = {pixel: start[number] + beat * pace[number] for pixel, beat in own.items()}
        end = {pixel: begin[pixel] + pace[number] for pixel in own}
        for reader in readers:
            theirs = self.order(reader.number, splits[reader.number].rows)
            for pixel, beat in theirs.items():
                done = start[reader.number] + (beat + 1) * pace[reader.number]
                for under in reader.under(pixel):
                    end[under] = max(end[under], done)
        lives = [(begin[pixel], end[pixel]) for pixel in own]
        moments = {first % interval for first, _ in lives}
        # Of a pixel's frames those are alive at a moment t that have begun, b + f T <= t, and not ended.
        return layer.channels * max(
            sum((t - first) // interval - (t - last) // interval for first, last in lives) for t in moments
        )

    def plans(self) -> Iterator[tuple[int, int, int]]:
        """Return interval, PEs and latency of all plans that keep the limits."""
        every = [self.splits(layer) for layer in self.layers]
        if prod(map(len, every)) > MOST_PLANS:
            raise TooLarge
        for splits in product(*every):
            pes = [split.pes for split in splits]
            if (sum(pes) if self.parallel else max(pes)) > self.pes:
                continue
            for pacing in ("matched", "uniform") if self.parallel else ("matched",):
                *point, words = self.run(splits, pacing)
                if (self.most is None or point[0] <= self.most) and (
                    self.words is None or words <= self.words
                ):
                    yield tuple(point)  # type: ignore[misc]

    def every_plan(self) -> Iterator[tuple[Json, Json]]:
        """Yield all plans that keep the limits, one by one, with what is measured of them."""
        every = [list(self.every_split(layer)) for layer in self.layers]

        def chosen(number: int, left: int) -> Iterator[tuple[Split, ...]]:
            if number == len(every):
                yield ()
                return
            for split in every[number]:
                if split.pes <= left - (len(every) - 1 - number) * self.parallel:
                    for rest in chosen(number + 1, left - split.pes if self.parallel else left):
                        yield split, *rest

        names = [layer.name for layer in self.layers]
        for count, splits in enumerate(chosen(0, self.pes)):
            if count == MOST_PLANS:
                raise TooLarge
            for pacing in ("matched", "uniform") if self.parallel else ("matched",):
                found = self.measured(splits, pacing)
                if (self.most is None or found["interval"] <= self.most) and (
                    self.words is None or found["storage"] <= self.words
                ):
                    plan = {"split": dict(zip(names, (list(split[:3]) for split in splits), strict=True))}
                    plan |= {"units": dict(zip(names, (list(split[3:]) for split in splits), strict=True))}
                    plan |= {"pes": dict(zip(names, found["pes"], strict=True)), "pacing": pacing}
                    yield plan, found

    # Placement -----------------------------------------------------------------------------------------

    def sizes(self) -> list[int] | None:
        """Return the fewest PEs of each layer for the least interval."""
        every = [{} for _ in self.layers]  # type: list[dict[int, int]]
        for layer, options in zip(self.layers, every, strict=True):
            for split in self.splits(layer):
                load = layer.load(split)
                options[load] = min(options.get(load, split.pes), split.pes)
        for interval in sorted({load for options in every for load in options}):
            if self.most is not None and interval > self.most:
                return None
            able = [[pes for load, pes in options.items() if load <= interval] for options in every]
            if all(able) and sum(map(min, able)) <= self.pes:
                return [min(pes) for pes in able]
        return None

    def placed(self, regions: list[list[Place]]) -> int:
        """Return the hops of a placement that breaks no rule."""
        owners = [pe for region in regions for pe in region]
        rows, columns = self.machine["array"]
        if len(set(owners)) < len(owners) or not all(0 <= y < rows and 0 <= x < columns for y, x in owners):
            raise Refused("PEs are outside or shared")
        for layer, region in zip(self.layers, regions, strict=True):
            if not _connected(region):
                raise Refused("not connected")
            if layer.number and not _touch(region, regions[layer.number - 1]):
                raise Refused("does not touch the layer before")
            if not self._borders(layer, region):
                raise Refused("not on the border")
        return self._hops(regions)

    def _borders(self, layer: Layer, region: Any) -> bool:
        rows, columns = self.machine["array"]
        inner = min(layer.reads) >= 0 and layer.number not in self.leaving
        return inner or any(y in (0, rows - 1) or x in (0, columns - 1) for y, x in region)

    def _hops(self, regions: Any) -> int:
        total = 0
        for layer, region in zip(self.layers, regions, strict=False):
            for read in {read for read in layer.reads if read >= 0}:
                for y, x in region:
                    total += min(abs(y - v) + abs(x - u) for v, u in regions[read])
        return total

    def least_hops(self) -> int | None:
        """Return the fewest hops of all placements."""
        found: list[int] = []
        for _, hops in self.placements(lambda hops: not found or hops < found[-1]):
            found.append(hops)
        return found[-1] if found else None

    def placements(
        self, wanted: Callable[[int], bool] = lambda _hops: True
    ) -> Iterator[tuple[list[tuple[Place, ...]], int]]:
        """Yield the PEs of all layers and their hops, of placements of so many hops as are wanted."""
        sizes = self.sizes()
        if sizes is None:
            return
        rows, columns = self.machine["array"]
        places = list(product(range(rows), range(columns)))
        shapes: dict[int, list[tuple[Place, ...]]] = {
            size: [region for region in combinations(places, size) if _connected(region)]
            for size in set(sizes)
        }
        tried = 0

        def extend(
            regions: list[tuple[Place, ...]], taken: set[Place], hops: int
        ) -> Iterator[tuple[list[tuple[Place, ...]], int]]:
            nonlocal tried
            if len(regions) == len(self.layers):
                yield regions, hops
                return
            layer = self.layers[len(regions)]
            for region in shapes[sizes[layer.number]]:
                tried += 1
                if tried > MOST_PLACEMENTS:
                    raise TooLarge
                if taken.intersection(region) or not self._borders(layer, region):
                    continue
                if regions and not _touch(region, regions[-1]):
                    continue
                longer = self._hops([*regions, region])
                if wanted(longer):
                    yield from extend([*regions, region], taken.union(region), longer)

        yield from extend([], set(), 0)


def _beside(pe: Place) -> set[Place]:
    y, x = pe
    return {(y - 1, x), (y + 1, x), (y, x - 1), (y, x + 1)}


def _touch(region: Any, other: Any) -> bool:
    return any(_beside(pe) & set(other) for pe in region)


def _connected(region: Any) -> bool:
    left = set(region)
    waiting = [left.pop()]
    while waiting:
        near = _beside(waiting.pop()) & left
        left -= near
        waiting += near
    return not left


def best(problem: Json) -> Any:
    """Return the least cost, or the front of (interval, PEs, latency); None without a plan."""
    pipeline = Pipeline(problem)
    if pipeline.minimise == "distance":
        return pipeline.least_hops()
    points = set(pipeline.plans())
    if not points:
        return None
    if pipeline.minimise == "pareto":
        return [p for p in sorted(points) if not any(q != p and _no_worse(q, p) for q in points)]
    return min(point[("interval", "pes", "latency").index(pipeline.minimise)] for point in points)


def cost(problem: Json, plan: Json) -> Any:
    """Return the cost of a plan, or the points of a front."""
    pipeline = Pipeline(problem)
    if "front" in plan:
        return [_point(pipeline, one) for one in plan["front"]]
    point = _point(pipeline, plan)
    if pipeline.minimise != "distance":
        return point[("interval", "pes", "latency").index(pipeline.minimise)]
    if [plan["pes"][layer.name] for layer in pipeline.layers] != pipeline.sizes():
        raise Refused("other PEs than those of the least interval")
    return pipeline.placed([[tuple(pe) for pe in plan["regions"][layer.name]] for layer in pipeline.layers])


def _point(pipeline: Pipeline, plan: Json) -> tuple[int, int, int]:
    splits = []
    for layer in pipeline.layers:
        split = Split(*plan["split"][layer.name], *plan["units"][layer.name])
        broken = pipeline.broken(layer, split)
        if broken or split.pes != plan["pes"][layer.name]:
            raise Refused(broken or "PEs")
        splits.append(split)
    interval, pes, latency, words = pipeline.run(tuple(splits), plan["pacing"])
    if pes > pipeline.pes:
        raise Refused("PEs of the array")
    if pipeline.most is not None and interval > pipeline.most:
        raise Refused("rate")
    if pipeline.words is not None and words > pipeline.words:
        raise Refused("buffers")
    return interval, pes, latency


def may_stop(problem: Json, method: str) -> bool:
    """Whether a method may end unproven: where rows are split and buffers limited, or layers placed."""
    limits = problem["limits"]
    rows = "rows" in limits["splits"] and problem["machine"]["buffer_bytes"] is not None
    return method in ("parametric", "auto") and rows


def _no_worse(one: tuple[int, ...], other: tuple[int, ...]) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))
