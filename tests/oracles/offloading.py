"""Offloading: every action of every step, element by element, as docs/offloading.md tells of them.

Problems and plans are plain JSON. `cost` walks through the steps of one plan; `least` walks through all plans
of a tiny problem, or through all that compute given blocks in their order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache, cached_property
from heapq import heappop, heappush
from itertools import chain, combinations, product
from math import inf, prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Counts = tuple[tuple[tuple[int, int, int], int], ...]
"""How often elements were loaded, by memory, kind and number, ascending."""

MOST_MOVES = 300_000
"""Steps that are looked at in one problem."""

MOST_AWAY = 10
"""Elements that are not on chip and may be: of one kind, where there are bursts; of all, in a `Listing`."""

MOST_BLOCKS = 30_000
"""Ways to give each part a block, or none."""

LAYER = {"stride": [1, 1], "padding": [0, 0, 0, 0], "dilation": [1, 1]}
MACHINE = {
    "macs_per_step": None,
    "unit": None,
    "memory": None,
    "load": 1,
    "write": 1,
    "compute": 1,
    "burst": 0,
    "kernels": "dram",
    "padding": "loaded",
    "parts": 1,
    "memories": "shared",
    "placement": "counted",
}
LIMITS = {"form": "direct", "channels": "any", "steps": "free", "reloads": 2}


class Layer:
    """What a problem says: which elements a cell needs, and which blocks there can be.

    Attributes
    ----------
    inputs
        Of each patch and channel, the numbers of input elements.
    in_dram
        Number of all input elements, padding among them.
    """

    def __init__(self, problem: Json) -> None:
        layer = {**LAYER, **problem["layer"]}
        self.machine = {**MACHINE, **problem["machine"]}
        self.limits = {**LIMITS, **problem.get("limits", {})}
        self.minimise = problem.get("objective", {}).get("minimise", "duration")
        (channels, height, width), pad, kernel = layer["input"], layer["padding"], layer["kernel"]
        padded = [height + pad[0] + pad[1], width + pad[2] + pad[3]]
        plane = [
            (padded[i] - (kernel[i] - 1) * layer["dilation"][i] - 1) // layer["stride"][i] + 1 for i in (0, 1)
        ]
        self.gemm = self.limits["form"] == "gemm"
        window = prod(kernel)
        self.patches, self.kernels = prod(plane), layer["kernels"]
        self.channels, self.taps = channels, window
        if self.gemm:
            self.channels, self.taps = channels * window, 1
        self.inputs: dict[tuple[int, int], frozenset[int]] = {}

        self.in_dram = self.patches * self.channels if self.gemm else channels * prod(padded)

        def read(y: int, x: int) -> bool:
            inside = bool(pad[0] <= y < pad[0] + height and pad[2] <= x < pad[2] + width)
            return inside or self.machine["padding"] == "loaded"

        for patch, (i, j) in enumerate(product(range(plane[0]), range(plane[1]))):
            taps: list[tuple[int, ...]] = [
                tuple(at * layer["stride"][k] + tap[k] * layer["dilation"][k] for k, at in enumerate((i, j)))
                for tap in product(range(kernel[0]), range(kernel[1]))
            ]
            for channel in range(self.channels):
                if self.gemm:  # a column is a channel and a tap, numbered row-major
                    own = [patch * self.channels + channel] if read(*taps[channel % window]) else []
                else:
                    own = [(channel * padded[0] + y) * padded[1] + x for y, x in taps if read(y, x)]
                self.inputs[patch, channel] = frozenset(own)
        self.memories = self.machine["parts"] if self.machine["memories"] == "own" else 1
        self.stay = self.machine["kernels"] != "dram"
        self.weights = self.kernels * self.channels * self.taps
        self.outputs = self.kernels * self.patches
        self.room = inf if self.machine["memory"] is None else self.machine["memory"]
        self.reloads = self.limits["reloads"] or inf

    def kernel(self, kernel: int, channel: int) -> range:
        """Return the numbers of a kernel's elements in a channel."""
        first = (kernel * self.channels + channel) * self.taps
        return range(first, first + self.taps)

    def block(self, patches: Iterable[int], kernels: Iterable[int], channels: Iterable[int]) -> Block:
        """Return what a block computes and needs; it must be one that a part can compute."""
        found = Block(frozenset(patches), frozenset(kernels), frozenset(channels))
        sizes = [len(axis) for axis in found]
        if not all(sizes):
            raise Refused("an empty block")
        limits = self.patches, self.kernels, self.channels
        if any(max(axis) >= n for axis, n in zip(found, limits, strict=True)):
            raise Refused("no such cell")
        unit, macs = self.machine["unit"], self.machine["macs_per_step"]
        if unit is not None and any(n > most for n, most in zip(sizes, unit, strict=True)):
            raise Refused("larger than the unit")
        if macs is not None and prod(sizes) * self.taps > macs:
            raise Refused("too many MACs")
        if self.limits["channels"] == "all" and sizes[2] < self.channels:
            raise Refused("outputs are not complete")
        # A step consumes whatever is on chip for it (section 2.3), and here all kernels always are.
        if self.stay and sizes[1] < self.kernels:
            raise Refused("kernels that stay are all used in each step")
        return found

    def burst(self, numbers: Iterable[int]) -> int:
        """Return the cycles for runs of consecutive numbers."""
        there = set(numbers)
        return int(self.machine["burst"]) * sum(n - 1 not in there for n in there)

    def loaded(self, numbers: Iterable[int]) -> int:
        """Return the cycles to load elements of one kind into one memory in one step."""
        there = set(numbers)
        return int(self.machine["load"]) * len(there) + self.burst(there)

    def written(self, numbers: Iterable[int]) -> int:
        """Return the cycles to write elements from one memory in one step."""
        there = set(numbers)
        return int(self.machine["write"]) * len(there) + self.burst(there)

    @property
    def uncounted(self) -> int:
        """Cycles of writes that the objective leaves out."""
        return int(self.machine["write"]) * self.outputs if self.minimise == "loads" else 0


class Block(NamedTuple):
    """Patches, kernels and channels."""

    patches: frozenset[int]
    kernels: frozenset[int]
    channels: frozenset[int]

    @property
    def cells(self) -> set[tuple[int, int, int]]:
        """What is computed."""
        return set(product(*self))

    def needs(self, layer: Layer) -> tuple[set[int], set[int], set[int]]:
        """Return the input elements, kernels' elements and outputs that are on chip while it computes."""
        inputs = (layer.inputs[each] for each in product(self.patches, self.channels))
        kernels = (layer.kernel(*each) for each in product(self.kernels, self.channels))
        outputs = {kernel * layer.patches + patch for kernel, patch in product(self.kernels, self.patches)}
        return set(chain.from_iterable(inputs)), set(chain.from_iterable(kernels)), outputs


MOVES = (("free_inputs", "load_inputs"), ("free_kernels", "load_kernels"), ("write", "load_sums"))
"""What takes data of each kind away, and what brings them."""


# One plan ------------------------------------------------------------------------------------------


def _numbers(ranges: list[list[int]]) -> set[int]:
    return {n for first, end in ranges for n in range(first, end)}


class Memory:
    """What is on chip: of each element since which step."""

    def __init__(self, layer: Layer) -> None:
        self.layer = layer
        self.kinds: tuple[dict[int, int], dict[int, int], dict[int, int]] = ({}, {}, {})
        self.pieces: tuple[dict[Any, int], ...] = ({}, {}, {})
        self.loads: dict[tuple[int, int], int] = {}
        if layer.machine["kernels"] == "preloaded":
            self.kinds[1].update(dict.fromkeys(range(layer.weights), 0))

    def gone(self, kind: int, numbers: set[int], step: int) -> None:
        """Forget elements, which must be there."""
        for n in numbers:
            if n not in self.kinds[kind]:
                raise Refused(f"step {step}: element {n} is not on chip")
            piece = self.kinds[kind].pop(n), step
            self.pieces[kind][piece] = self.pieces[kind].get(piece, 0) + 1

    def come(self, kind: int, numbers: set[int], step: int) -> None:
        """Bring elements, which must not be there."""
        if numbers & self.kinds[kind].keys():
            raise Refused(f"step {step}: loads what is on chip")
        self.kinds[kind].update(dict.fromkeys(numbers, step))

    def check(self, step: int) -> None:
        """Refuse what does not fit by count."""
        if sum(map(len, self.kinds)) > self.layer.room:
            raise Refused(f"step {step}: memory")


class Walk:
    """The steps of a plan so far."""

    def __init__(self, layer: Layer) -> None:
        self.layer, self.cycles = layer, -layer.uncounted
        self.memories = [Memory(layer) for _ in range(layer.memories)]
        self.done: set[tuple[int, int, int]] = set()
        self.home: dict[int, int] = {}

    def computed(self, output: int) -> int:
        """Return how many channels of an output are computed."""
        kernel, patch = divmod(output, self.layer.patches)
        return sum((patch, kernel, channel) in self.done for channel in range(self.layer.channels))

    def move(self, step: int, at: int, moves: Json) -> None:
        """Free, write and load."""
        layer, memory = self.layer, self.memories[at]
        found = {key: _numbers(moves.get(key, [])) for key in chain.from_iterable(MOVES)}
        for kind, (goes, comes) in enumerate(MOVES):
            if found[goes] & found[comes]:
                raise Refused(f"step {step}: loads what it frees or writes")
            memory.gone(kind, found[goes], step)
        if layer.stay and found["free_kernels"]:
            raise Refused(f"step {step}: kernels stay")
        if max(found["load_inputs"], default=0) >= layer.in_dram:
            raise Refused(f"step {step}: no such input")
        if max(found["load_kernels"], default=0) >= layer.weights:
            raise Refused(f"step {step}: no such element of a kernel")
        if any(self.home.get(output) != at for output in found["load_sums"]):
            raise Refused(f"step {step}: such a sum was not written from here")
        for kind, (_, key) in enumerate(MOVES):
            memory.come(kind, found[key], step)
            self.cycles += layer.loaded(found[key])
            if kind == 0 or (kind == 1 and not layer.stay):
                for n in found[key]:
                    memory.loads[kind, n] = memory.loads.get((kind, n), 0) + 1
                    if memory.loads[kind, n] > layer.reloads:
                        raise Refused(f"step {step}: {n} is loaded once more")
        self.cycles += layer.written(found["write"])
        memory.check(step)

    def compute(self, step: int, blocks: list[Json | None]) -> None:
        """Compute the blocks of all parts."""
        layer = self.layer
        touched: set[int] = set()
        if not any(blocks):
            raise Refused(f"step {step} computes nothing")
        self.cycles += layer.machine["compute"]
        for part, told in enumerate(blocks):
            if told is None:
                continue
            block = layer.block(*(_numbers(told[axis]) for axis in Block._fields))
            at = part if layer.memories > 1 else 0
            memory = self.memories[at]
            if block.cells & self.done:
                raise Refused(f"step {step}: a cell is computed again")
            inputs, kernels, outputs = block.needs(layer)
            if not inputs <= memory.kinds[0].keys() or not kernels <= memory.kinds[1].keys():
                raise Refused(f"step {step}: what a block needs is not on chip")
            if touched & outputs:
                raise Refused(f"step {step}: two parts add to an output")
            touched |= outputs
            for output in outputs:
                if self.home.setdefault(output, at) != at:
                    raise Refused(f"step {step}: an output is in two memories")
                if output not in memory.kinds[2]:
                    if self.computed(output):
                        raise Refused(f"step {step}: a sum is not on chip")
                    memory.come(2, {output}, step)
            self.done |= block.cells
        for memory in self.memories:
            memory.check(step)
            if layer.stay and len(memory.kinds[1]) < layer.weights:
                raise Refused(f"step {step}: kernels are all on chip from step 1")


def cost(problem: Json, plan: Json) -> int:
    """Return the objective of a plan."""
    layer, steps = Layer(problem), plan["steps"]
    walk = Walk(layer)
    for number, step in enumerate(steps):
        if len(step["blocks"]) != layer.machine["parts"] or len(step["moves"]) != layer.memories:
            raise Refused(f"step {number}: parts or memories")
        for at, moves in enumerate(step["moves"]):
            walk.move(number, at, moves)
        walk.compute(number, step["blocks"])
    if len(walk.done) < layer.patches * layer.kernels * layer.channels:
        raise Refused("cells are left")
    if layer.limits["steps"] not in ("free", len(steps)):
        raise Refused("number of steps")
    for memory in walk.memories:
        walk.cycles += layer.written(memory.kinds[2])
        for kind in range(3):
            memory.gone(kind, set(memory.kinds[kind]), len(steps))
    _check_addresses(layer, walk, plan.get("addresses"))
    return walk.cycles


def _check_addresses(layer: Layer, walk: Walk, addresses: list[int] | None) -> None:
    """Refuse pieces that overlap; they are told memory by memory, kind by kind, by when they come and go."""
    if layer.machine["placement"] == "counted":
        if addresses is not None:
            raise Refused("addresses of what is only counted")
        return
    told = [
        (at, *when, size)
        for at, memory in enumerate(walk.memories)
        for kind in memory.pieces
        for when, size in sorted(kind.items())
    ]
    if addresses is None or len(addresses) != len(told):
        raise Refused("an address for each piece")
    lying = [(*piece, first) for piece, first in zip(told, addresses, strict=True)]
    for _, _, _, size, first in lying:
        if first + size > layer.room:
            raise Refused("a piece beyond the memory")
    for (a, come, go, size, first), (b, later, gone, extent, other) in combinations(lying, 2):
        if a == b and come < gone and later < go and first < other + extent and other < first + size:
            raise Refused("pieces overlap")


# All plans -----------------------------------------------------------------------------------------


class Work(NamedTuple):
    """A block in bits: cells, and the elements it needs."""

    cells: int
    inputs: int
    kernels: int
    outputs: int


NOTHING = Work(0, 0, 0, 0)

Held = tuple[int, int, int]
"""Input elements, kernels' elements and outputs in one memory, in bits."""


class State(NamedTuple):
    """What the rest of a plan depends on, before a step.

    Attributes
    ----------
    step
        Its number where that matters, else 0.
    done
        Cells, in bits.
    held
        By memory.
    homes
        By memory: outputs that were added to in it.
    counts
        Loads so far of elements that may be loaded again, where they are limited.
    """

    step: int
    done: int
    held: tuple[Held, ...]
    homes: tuple[int, ...]
    counts: Counts


class Option(NamedTuple):
    """What one memory can do in a step: its cost, what it holds then, what was loaded."""

    cycles: int
    held: Held
    inputs: int
    kernels: int


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << n for n in set(numbers))


def _listed(mask: int) -> list[int]:
    return [n for n in range(mask.bit_length()) if mask >> n & 1]


def _subsets(mask: int) -> Iterator[int]:
    part = mask
    while True:
        yield part
        if not part:
            return
        part = part - 1 & mask


class Enumeration:
    """Shortest ways through all states, a step at a time.

    Without bursts, plans are left out of which a better one, or one as good, stays:

    - What is loaded before the step that uses it can be loaded in that step (or not at all, if it goes
      before), at the same price: less is on chip until then. Sums that come back likewise.
    - An element that no later cell needs can be forgotten at once. A complete output can be written in the
      next step: it is written once in any case, so the price is the same.
    - Whatever else is on chip may stay as long as there is room: elements are forgotten for nothing later,
      and a sum that is written later costs the same then. Having more on chip never loads more. So where a
      step must make room, exactly as much goes as must.

    With bursts only these hold:

    - Elements of input and kernels that no later cell needs are of no use on chip. Of the others exactly as
      many go as must: they can be forgotten for nothing before any later step.
    - A run that is loaded does not begin or end with an element that no cell needs any more: without it
      there are as many runs.

    Everything else is tried: elements that no cell needs any more may be loaded between others, so that runs
    are joined; complete outputs may stay; sums may go and come, in any step.
    """

    def __init__(self, problem: Json, sequence: list[list[Json | None]] | None = None) -> None:
        self.layer = layer = Layer(problem)
        if layer.machine["placement"] != "counted":
            raise TooLarge("placement is not enumerated")
        self.cells = list(product(range(layer.patches), range(layer.kernels), range(layer.channels)))
        self.number = {cell: n for n, cell in enumerate(self.cells)}
        self.all = (1 << len(self.cells)) - 1
        self.of_output = [
            _bits(self.number[patch, kernel, channel] for channel in range(layer.channels))
            for kernel, patch in product(range(layer.kernels), range(layer.patches))
        ]
        self.sequence = None
        if sequence is not None:
            self.sequence = [tuple(self._told(block) for block in blocks) for blocks in sequence]
        self.room = layer.room - (layer.weights if layer.stay else 0)
        self.counted = layer.reloads < inf
        self.bursts = layer.machine["burst"] > 0
        steps = layer.limits["steps"]
        self.last = steps if isinstance(steps, int) else None
        self.moves = 0

    def _told(self, block: Json | None) -> Work:
        if block is None:
            return NOTHING
        return self._work(self.layer.block(*(_numbers(block[axis]) for axis in Block._fields)))

    def _work(self, block: Block) -> Work:
        inputs, kernels, outputs = block.needs(self.layer)
        cells = _bits(self.number[cell] for cell in block.cells)
        return Work(cells, _bits(inputs), 0 if self.layer.stay else _bits(kernels), _bits(outputs))

    @cached_property
    def shares(self) -> list[tuple[Work, ...]]:
        """All ways to give each part a block or none; parts of one memory are alike."""
        layer, works = self.layer, [NOTHING]
        sizes = (layer.patches, layer.kernels, layer.channels)
        for axes in product(*(range(1, 1 << size) for size in sizes)):
            try:
                works.append(self._work(layer.block(*map(_listed, axes))))
            except Refused:
                continue
        found: list[tuple[int, ...]] = [()]
        for _ in range(layer.machine["parts"]):
            more = []
            for share in found:
                added = 0
                for at in share:
                    added |= works[at].outputs
                first = share[-1] if share and layer.memories == 1 else 0
                more += [(*share, at) for at in range(first, len(works)) if not works[at].outputs & added]
                if len(more) > MOST_BLOCKS:
                    raise TooLarge
            found = more
        return [tuple(works[at] for at in share) for share in found if any(share)]

    @cache  # noqa: B019 - an enumeration lives as long as its answers
    def outputs(self, done: int) -> tuple[int, int]:
        """Return outputs that are added to, and those that are complete."""
        touched = _bits(n for n, cells in enumerate(self.of_output) if cells & done)
        return touched, _bits(n for n, cells in enumerate(self.of_output) if cells & done == cells)

    @cache  # noqa: B019
    def needed(self, done: int) -> tuple[int, int]:
        """Return elements of input and kernels that cells which are left need."""
        inputs: set[int] = set()
        kernels: set[int] = set()
        for n in _listed(self.all & ~done):
            patch, kernel, channel = self.cells[n]
            inputs |= self.layer.inputs[patch, channel]
            kernels.update(self.layer.kernel(kernel, channel))
        return _bits(inputs), 0 if self.layer.stay else _bits(kernels)

    @cache  # noqa: B019
    def loaded(self, mask: int) -> int:
        """Return the cycles to load elements."""
        return self.layer.loaded(_listed(mask))

    @cache  # noqa: B019
    def written(self, mask: int) -> int:
        """Return the cycles to write outputs."""
        return self.layer.written(_listed(mask))

    def lazy(self, held: Held, work: Work, back: int) -> Iterator[Option]:
        """Yield what a memory can do without bursts, see above; sums of `back` come back."""
        needs = work.inputs, work.kernels, work.outputs
        inputs, kernels = work.inputs & ~held[0], work.kernels & ~held[1]
        full = [have | need for have, need in zip(held, needs, strict=True)]
        spare = [(kind, 1 << n) for kind in range(3) for n in _listed(held[kind] & ~needs[kind])]
        excess = sum(mask.bit_count() for mask in full) - self.room
        if excess > len(spare):
            return
        cycles = self.loaded(inputs) + self.loaded(kernels) + self.loaded(back)
        for gone in combinations(spare, int(max(0, excess))):
            left, price = list(full), cycles
            for kind, bit in gone:
                left[kind] ^= bit
                price += self.layer.machine["write"] if kind == 2 else 0
            yield Option(price, (left[0], left[1], left[2]), inputs, kernels)

    @cache  # noqa: B019
    def arrivals(self, kind: int, held: int, missing: int, useful: int) -> list[int]:
        """Return sets of elements to load, those missing among them; runs begin and end with useful ones."""
        away = (1 << (self.layer.weights if kind else self.layer.in_dram)) - 1 & ~held
        ends = useful & away
        if away.bit_count() > MOST_AWAY:
            raise TooLarge
        found = []
        for more in _subsets(away & ~missing):
            mask = more | missing
            first, last = mask & ~(mask << 1), mask & ~(mask >> 1)
            if not (first | last) & ~ends:
                found.append(mask)
        return found

    def eager(self, held: Held, work: Work, sums: int, useful: tuple[int, int]) -> Iterator[Option]:
        """Yield what a memory can do with bursts; `sums` were added to here."""
        away = sums & ~held[2]
        missing = work.outputs & away
        outputs: list[tuple[int, int]] = []
        for out, back in product(_subsets(held[2] & ~work.outputs), _subsets(away & ~missing)):
            price = self.written(out) + self.loaded(back | missing)
            outputs.append((price, held[2] & ~out | back | missing | work.outputs))
        inputs = self.arrivals(0, held[0], work.inputs & ~held[0], useful[0])
        kernels = [0]
        if not self.layer.stay:
            kernels = self.arrivals(1, held[1], work.kernels & ~held[1], useful[1])
        for (price, after), first, second in product(outputs, inputs, kernels):
            full = held[0] | first, held[1] | second, after
            excess = sum(mask.bit_count() for mask in full) - self.room
            spare = [(0, 1 << n) for n in _listed(held[0] & ~work.inputs)]
            spare += [(1, 1 << n) for n in _listed(held[1] & ~work.kernels)]
            if excess > len(spare):
                continue
            cycles = price + self.loaded(first) + self.loaded(second)
            for gone in combinations(spare, int(max(0, excess))):
                left = list(full)
                for kind, bit in gone:
                    left[kind] ^= bit
                yield Option(cycles, (left[0], left[1], left[2]), first, second)

    def options(self, state: State, share: tuple[Work, ...]) -> list[list[Option]]:
        """Return for each memory what it can do in a step that computes some blocks."""
        found, useful = [], self.needed(state.done)
        touched = self.outputs(state.done)[0]
        for at, held in enumerate(state.held):
            works = share if len(state.held) == 1 else share[at : at + 1]
            work = NOTHING
            for each in works:
                work = Work(*(a | b for a, b in zip(work, each, strict=True)))
            here = touched & state.homes[at]
            if self.bursts:
                found.append(list(self.eager(held, work, here, useful)))
            else:
                found.append(list(self.lazy(held, work, work.outputs & here & ~held[2])))
        return found

    def count(self, counts: Counts, moves: Iterable[Option], useful: tuple[int, int]) -> Counts | None:
        """Return loads after a step, None if there are too many of an element."""
        if not self.counted:
            return ()
        after = dict(counts)
        for at, option in enumerate(moves):
            for kind, mask in enumerate((option.inputs, option.kernels)):
                for n in _listed(mask):
                    after[at, kind, n] = after.get((at, kind, n), 0) + 1
                    if after[at, kind, n] > self.layer.reloads:
                        return None
        if self.bursts:  # what no cell needs may be loaded between others
            return tuple(sorted(after.items()))
        return tuple((key, n) for key, n in sorted(after.items()) if useful[key[1]] >> key[2] & 1)

    def successors(self, state: State) -> Iterator[tuple[int, State]]:
        """Yield what can be after a step, and its cost."""
        shares = self.shares if self.sequence is None else [self.sequence[state.step]]
        number = state.step + (self.last is not None or self.sequence is not None)
        for share in shares:
            cells = 0
            for work in share:
                cells |= work.cells
            others = [sum(state.homes) & ~mine for mine in state.homes]
            if cells & state.done or any(
                work.outputs & taken for work, taken in zip(share, others, strict=False) if len(others) > 1
            ):
                continue
            done = state.done | cells
            useful = self.needed(done)
            gone = 0 if self.bursts else self.outputs(done)[1]  # written in the next step
            homes = tuple(
                (mine | (work.outputs if len(others) > 1 else self.outputs(done)[0])) & ~gone
                for mine, work in zip(state.homes, share, strict=False)
            )
            for moves in product(*self.options(state, share)):
                self.moves += 1
                if self.moves > MOST_MOVES:
                    raise TooLarge
                counts = self.count(state.counts, moves, useful)
                if counts is None:
                    continue
                held = tuple(
                    (
                        option.held[0] & useful[0],
                        option.held[1] & useful[1],
                        option.held[2] & ~gone,
                    )
                    for option in moves
                )
                price = sum(option.cycles for option in moves) + self.layer.machine["compute"]
                yield price, State(number, done, held, homes, counts)

    def least(self) -> int | None:
        """Return the least cost of all plans, None if there is none."""
        layer = self.layer
        fixed = -layer.uncounted
        if layer.machine["kernels"] == "step1":
            fixed += layer.memories * layer.loaded(range(layer.weights))
        if not self.bursts:  # each output's last write
            fixed += layer.machine["write"] * layer.outputs
        if self.room < 0:
            return None
        start = State(0, 0, ((0, 0, 0),) * layer.memories, (0,) * layer.memories, ())
        costs, heap, tie = {start: fixed}, [(fixed, 0, start, False)], 0
        settled = set()
        while heap:
            cycles, _, state, ended = heappop(heap)
            if ended:
                return cycles
            if state in settled:
                continue
            settled.add(state)
            if state.done == self.all:
                if self.last in (None, state.step):
                    tie += 1
                    rest = sum(self.written(held[2]) for held in state.held) if self.bursts else 0
                    heappush(heap, (cycles + rest, tie, state, True))
                continue
            if self.last is not None and state.step == self.last:
                continue
            for price, after in self.successors(state):
                if cycles + price < costs.get(after, inf):
                    costs[after] = cycles + price
                    tie += 1
                    heappush(heap, (cycles + price, tie, after, False))
        return None


def least(problem: Json, sequence: list[list[Json | None]] | None = None) -> int | None:
    """Return the least cost of all plans, or of all that compute these blocks; None if there is none."""
    return Enumeration(problem, sequence).least()


# Plans with constraints ------------------------------------------------------------------------------


class Told(NamedTuple):
    """What the rest of a plan depends on, if all costs and all numbers of loads are asked for.

    Attributes
    ----------
    held
        By memory: input elements, kernels' elements that do not stay, and outputs.
    loaded
        Memory, kind and number of each element of input and kernels, as often as it was loaded.
    """

    held: tuple[tuple[frozenset[int], ...], ...]
    loaded: tuple[tuple[int, int, int], ...]
    loads: int
    cycles: int


class Listing:
    """Plans of a tiny problem: of all with the same blocks in the same order, one for each cost and loads.

    Nothing is left out else: what is on chip in a step is any set that has what its blocks need.
    """

    def __init__(self, problem: Json) -> None:
        self.problem, self.layer, self.moves = problem, Layer(problem), 0
        layer, blocks = self.layer, [()]
        for axes in product(*(range(1, 1 << n) for n in (layer.patches, layer.kernels, layer.channels))):
            try:
                blocks.append(layer.block(*map(_listed, axes)))
            except Refused:
                continue
        self.shares = [
            share for share in product(blocks, repeat=layer.machine["parts"]) if self._apart(share)
        ]

    def _apart(self, share: tuple[Any, ...]) -> bool:
        """Whether some part computes, and no two add to the same output."""
        added = [block.needs(self.layer)[2] for block in share if block]
        return bool(added) and len(set().union(*added)) == sum(map(len, added))

    def told(self, share: tuple[Any, ...]) -> list[Json | None]:
        """Return the blocks of all parts as a plan has them."""
        return [
            {axis: [[n, n + 1] for n in sorted(found)] for axis, found in block._asdict().items()}
            if block
            else None
            for block in share
        ]

    def plans(self) -> Iterator[tuple[Json, int]]:
        """Yield plans and their costs."""
        empty = (frozenset[int](),) * 3
        start = Told((empty,) * self.layer.memories, (), 0, 0)
        return self._plans([], {}, {start: []})

    def _plans(
        self, shares: list[Any], homes: dict[int, int], known: dict[Told, list[Json]]
    ) -> Iterator[tuple[Json, int]]:
        """Yield plans that begin with these blocks; `known` has the steps so far, by what is then."""
        layer = self.layer
        done = set().union(*(block.cells for share in shares for block in share if block))
        if len(done) == layer.patches * layer.kernels * layer.channels:
            ends = {(told.cycles + self._end(told), told.loads): steps for told, steps in known.items()}
            if layer.limits["steps"] in ("free", len(shares)):
                for steps in ends.values():
                    yield {"steps": steps}, cost(self.problem, {"steps": steps})
            return
        for share in self.shares:
            now = dict(homes)
            for part, block in enumerate(share):
                for output in block.needs(layer)[2] if block else ():
                    now.setdefault(output, part if layer.memories > 1 else 0)
            cells = [cell for block in share if block for cell in block.cells]
            if done.isdisjoint(cells) and self._at_home(share, now):
                after = self._after(share, homes, known)
                if after:
                    yield from self._plans([*shares, share], now, after)

    def _at_home(self, share: tuple[Any, ...], homes: dict[int, int]) -> bool:
        return self.layer.memories == 1 or all(
            homes[output] == part
            for part, block in enumerate(share)
            if block
            for output in block.needs(self.layer)[2]
        )

    def _end(self, told: Told) -> int:
        return sum(self.layer.written(held[2]) for held in told.held)

    def _may_hold(
        self, share: tuple[Any, ...], homes: dict[int, int]
    ) -> list[list[tuple[frozenset[int], ...]]]:
        """Return for each memory all that can be in it while blocks are computed."""
        layer, by_memory = self.layer, []
        for at in range(layer.memories):
            needs: list[set[int]] = [set(), set(), set()]
            for block in share if layer.memories == 1 else share[at : at + 1]:
                for mine, more in zip(needs, block.needs(layer) if block else (), strict=False):
                    mine |= more
            sums = {output for output, home in homes.items() if home == at}
            most = [set(range(layer.in_dram)), set(range(layer.weights)), sums | needs[2]]
            if layer.stay:
                needs[1] = most[1] = set()
            room = layer.room - (layer.weights if layer.stay else 0)
            if sum(len(all_ - least) for least, all_ in zip(needs, most, strict=True)) > MOST_AWAY:
                raise TooLarge
            sets = [
                [frozenset(least | set(_listed(more))) for more in _subsets(_bits(all_ - least))]
                for least, all_ in zip(needs, most, strict=True)
            ]
            by_memory.append([held for held in product(*sets) if sum(map(len, held)) <= room])
        return by_memory

    def _after(
        self, share: tuple[Any, ...], homes: dict[int, int], known: dict[Told, list[Json]]
    ) -> dict[Told, list[Json]]:
        """Return what can be after one more step."""
        layer, by_memory = self.layer, self._may_hold(share, homes)
        self.moves += len(known) * prod(map(len, by_memory))
        if self.moves > MOST_MOVES:
            raise TooLarge
        after: dict[Told, list[Json]] = {}
        for (state, steps), held in product(known.items(), product(*by_memory)):
            now, moves = self._step(state, held, homes, first=not steps)
            if now not in after and max(map(now.loaded.count, now.loaded), default=0) <= layer.reloads:
                after[now] = [*steps, {"blocks": self.told(share), "moves": moves}]
        return after

    def _step(
        self, state: Told, held: tuple[tuple[frozenset[int], ...], ...], homes: dict[int, int], first: bool
    ) -> tuple[Told, list[Json]]:
        """Return what is after a step in which `held` is on chip, and its moves."""
        layer, moves, loaded = self.layer, [], list(state.loaded)
        loads, cycles = state.loads, state.cycles + layer.machine["compute"]
        for at, (before, now) in enumerate(zip(state.held, held, strict=True)):
            gone = [old - new for old, new in zip(before, now, strict=True)]
            came = [new - old for old, new in zip(before, now, strict=True)]
            came[2] &= homes.keys()  # others come into being
            loaded += [(at, kind, n) for kind in (0, 1) for n in came[kind]]
            if first and layer.machine["kernels"] == "step1":
                came[1] = frozenset(range(layer.weights))
            loads += sum(map(len, came))
            cycles += sum(map(layer.loaded, came)) + layer.written(gone[2])
            both = [*zip(MOVES, gone, came, strict=True)]
            table = {names[side]: sets[side] for names, *sets in both for side in (0, 1)}
            moves.append(
                {name: [[n, n + 1] for n in sorted(found)] for name, found in table.items() if found}
            )
        return Told(held, tuple(sorted(loaded)), loads, cycles), moves


def plans(problem: Json) -> Iterator[tuple[Json, int]]:
    """Yield plans of a tiny problem with their costs: of the same blocks one for each cost and loads."""
    if Layer(problem).machine["placement"] != "counted":
        raise TooLarge("addresses are asked for")
    return Listing(problem).plans()


def sequences(problem: Json) -> Iterator[tuple[Json, int]]:
    """Yield the best plan of all blocks in all orders, of which only the blocks are told, and its cost."""
    found = Listing(problem)
    every = found.layer.patches * found.layer.kernels * found.layer.channels

    def ordered(steps: list[Json], done: set[tuple[int, int, int]]) -> Iterator[list[Json]]:
        if len(done) == every:
            yield steps
            return
        for share in found.shares:
            cells = set().union(*(block.cells for block in share if block))
            if not cells & done:
                yield from ordered([*steps, {"blocks": found.told(share)}], done | cells)

    for steps in ordered([], set()):
        best = least(problem, [step["blocks"] for step in steps])
        if best is not None:
            yield {"steps": steps}, best


# Plans at addresses ----------------------------------------------------------------------------------

Piece = tuple[int, int, int]
"""The step that brings it, the step that takes it away, and its extent."""


def lies(pieces: tuple[Piece, ...], room: int) -> tuple[int, ...] | None:
    """Return an address for each piece of one memory, or None; all addresses are tried."""

    def rest(found: tuple[int, ...]) -> tuple[int, ...] | None:
        if len(found) == len(pieces):
            return found
        come, gone, size = pieces[len(found)]
        there = [
            (address, address + other[2])
            for address, other in zip(found, pieces, strict=False)
            if come < other[1] and other[0] < gone
        ]
        for address in range(room - size + 1):
            if all(address >= end or address + size <= first for first, end in there):
                whole = rest((*found, address))
                if whole is not None:
                    return whole
        return None

    return rest(())


Since = frozenset[tuple[int, int]]
"""Numbers that are on chip, and the steps in which they came."""


class Placed(NamedTuple):
    """What the rest of a plan depends on, if all of it must lie somewhere.

    Attributes
    ----------
    held
        By memory: input elements, kernels' elements that do not stay, and outputs.
    gone
        By memory and kind: the step in which an element came, the one in which it went.
    loaded
        Memory, kind and number of each element of input and kernels, as often as it was loaded.
    """

    step: int
    done: frozenset[tuple[int, int, int]]
    homes: tuple[tuple[int, int], ...]
    held: tuple[tuple[Since, ...], ...]
    gone: tuple[tuple[tuple[tuple[int, int], ...], ...], ...]
    loaded: tuple[tuple[int, int, int], ...]


class Placing(Listing):
    """The cheapest plan of which all pieces have addresses: plans are looked at from the cheapest on.

    Nothing is left out: what is on chip in a step is any set that has what its blocks need.
    """

    def least(self) -> int | None:
        """Return the least cost of all plans, None if there is none."""
        layer, tie = self.layer, 0
        first = -layer.uncounted
        if layer.machine["kernels"] == "step1":
            first += layer.memories * layer.loaded(range(layer.weights))
        nothing: tuple[Since, ...] = (frozenset(),) * 3
        start = Placed(0, frozenset(), (), (nothing,) * layer.memories, (((),) * 3,) * layer.memories, ())
        heap: list[tuple[int, int, Placed, bool]] = [(first, 0, start, False)]
        settled = set()
        while heap:
            cycles, _, state, ended = heappop(heap)
            if (state, ended) in settled:
                continue
            settled.add((state, ended))
            if ended:
                if self.fits(state):
                    return cycles
                continue
            if len(state.done) == layer.patches * layer.kernels * layer.channels:
                if layer.limits["steps"] in ("free", state.step):
                    now = [(frozenset[int](),) * 3] * layer.memories
                    price, after = self.step(state, now, {}, frozenset())
                    heappush(heap, (cycles + price, (tie := tie + 1), after, True))
                continue
            if layer.limits["steps"] == state.step:
                continue
            for price, after in self.successors(state):
                heappush(heap, (cycles + price, (tie := tie + 1), after, False))
        return None

    def successors(self, state: Placed) -> Iterator[tuple[int, Placed]]:
        """Yield what can be after one more step that computes something, and its cost."""
        for share in self.shares:
            homes = dict(state.homes)
            cells = {cell for block in share if block for cell in block.cells}
            for part, block in enumerate(share):
                for output in block.needs(self.layer)[2] if block else ():
                    homes.setdefault(output, part if self.layer.memories > 1 else 0)
            if cells & state.done or not self._at_home(share, homes):
                continue
            for held in product(*self._may_hold(share, dict(state.homes))):
                self.moves += 1
                if self.moves > MOST_MOVES:
                    raise TooLarge
                price, after = self.step(state, held, homes, state.done | cells)
                if max(map(after.loaded.count, after.loaded), default=0) <= self.layer.reloads:
                    yield price + self.layer.machine["compute"], after

    def step(
        self, state: Placed, held: Any, homes: dict[int, int], done: frozenset[tuple[int, int, int]]
    ) -> tuple[int, Placed]:
        """Return the moves' cost, and what is after a step in which `held` is on chip."""
        layer, cycles = self.layer, 0
        loaded, there, gone = list(state.loaded), [], []
        for at, (before, now) in enumerate(zip(state.held, held, strict=True)):
            kept, went = [], []
            for kind, (old, new) in enumerate(zip(before, now, strict=True)):
                since = dict(old)
                came = new - since.keys()
                out = since.keys() - new
                kept.append(frozenset((n, since.get(n, state.step)) for n in new))
                went.append(tuple(sorted([*state.gone[at][kind], *((since[n], state.step) for n in out)])))
                if kind == 2:
                    cycles += layer.written(out) + layer.loaded(came & dict(state.homes).keys())
                else:
                    cycles += layer.loaded(came)
                    loaded += [(at, kind, n) for n in came]
            there.append(tuple(kept))
            gone.append(tuple(went))
        after = Placed(
            state.step + bool(done),
            done or state.done,
            tuple(sorted((homes or dict(state.homes)).items())),
            tuple(there),
            tuple(gone),
            tuple(sorted(loaded)) if layer.reloads < inf else (),
        )
        return cycles, after

    def fits(self, state: Placed) -> bool:
        """Whether all pieces of a plan have addresses; kernels that stay are one more."""
        if self.layer.room == inf:
            return True
        for kinds in state.gone:
            pieces = [(*when, kind.count(when)) for kind in kinds for when in sorted(set(kind))]
            if self.layer.stay:
                pieces.append((0, state.step, self.layer.weights))
            if self.lies(tuple(sorted(pieces, key=lambda piece: (-piece[2], piece)))) is None:
                return False
        return True

    @cache  # noqa: B019
    def lies(self, pieces: tuple[Piece, ...]) -> tuple[int, ...] | None:
        """Return addresses in one memory."""
        return lies(pieces, int(self.layer.room))


def least_placed(problem: Json) -> int | None:
    """Return the least cost of all plans of a tiny problem that have addresses; None if there are none."""
    return Placing(problem).least()
