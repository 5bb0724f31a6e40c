"""Execute a loop nest on a hierarchy element by element: slow, and shares nothing with the closed forms."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise, product

LOOPS = "gncyxkrs"
USES = {"input": "gnyxkrs", "weights": "gckrs", "output": "gncyx"}


def element(operand, layer, at):
    """The element of an operand that a position of the nest touches."""
    if operand != "input":
        return tuple(at[loop] for loop in USES[operand])
    row = at["y"] * layer.stride[0] + at["r"] * layer.dilation[0]
    column = at["x"] * layer.stride[1] + at["s"] * layer.dilation[1]
    return at["g"], at["n"], at["k"], row, column


class Walk:
    """Every memory instance is a dictionary of what it holds; every transfer moves elements one by one.

    Counts are of all instances, and of the first one of each memory.
    """

    def __init__(self, layer, machine, nest, extents):
        self.layer, self.machine, self.extents = layer, machine, extents
        self.nodes = machine.nodes
        self.nest = nest
        self.read = {node.name: Counter() for node in self.nodes if node.axis is None}
        self.written = {node.name: Counter() for node in self.nodes if node.axis is None}
        self.first_read = {name: Counter() for name in self.read}
        self.first_written = {name: Counter() for name in self.read}
        self.steps = 0
        self.needed = extents["k"] * extents["r"] * extents["s"]
        # (node, instance) -> element -> products added up so far
        self.tiles = {operand: {} for operand in USES}
        self.total = Counter()
        self.peak = {}

    def loops(self):
        """All loops, outermost first: (node, letter, trips, step), blocks not cut off by a border."""
        block, found = dict(self.extents), []
        for number, loops in enumerate(self.nest):
            for letter, step in loops:
                found.append((number, letter, -(-block[letter] // step), step))
                block[letter] = step
        return found

    def holders(self, operand):
        return [i for i, node in enumerate(self.nodes) if operand in node.holds]

    def run(self):
        loops = self.loops()
        temporal = [at for at, (node, *_) in enumerate(loops) if self.nodes[node].axis is None]
        spatial = [at for at, (node, *_) in enumerate(loops) if self.nodes[node].axis is not None]
        before = None
        for times in product(*(range(loops[at][2]) for at in temporal)):
            work = []
            for places in product(*(range(loops[at][2]) for at in spatial)):
                index = dict(zip(temporal, times, strict=True)) | dict(zip(spatial, places, strict=True))
                at = self.position(loops, index)
                if at is not None:
                    work.append((index, at))
            if not work:
                continue
            self.steps += 1
            for operand in USES:
                self.fetch(operand, loops, temporal, times, before, spatial)
            self.multiply(loops, work)
            before = times
        for operand in USES:
            self.drain_all(operand, loops)
        assert all(self.total[e] == self.needed for e in self.total)
        return self

    def position(self, loops, index):
        """The position of the layer's nest, None beyond the border of a block."""
        at, left = dict.fromkeys(LOOPS, 0), dict(self.extents)
        for number, (_, letter, _, step) in enumerate(loops):
            offset = index[number] * step
            if offset >= left[letter]:
                return None
            at[letter] += offset
            left[letter] = min(step, left[letter] - offset)
        return at

    def fetch(self, operand, loops, temporal, times, before, spatial):
        """Bring the tiles that a step needs and that the loops have moved, outermost memory first."""
        holders = self.holders(operand)
        for parent, child in pairwise(holders):
            moving = [
                place
                for place, at in enumerate(temporal)
                if loops[at][0] < child and loops[at][1] in USES[operand] and loops[at][2] > 1
            ]
            depth = moving[-1] + 1 if moving else 0
            if before is None or times[:depth] != before[:depth]:
                if operand == "output":
                    self.replace_outputs(loops, temporal, times, spatial, parent, child, holders)
                else:
                    far = {place: times[place] - before[place] for place in moving} if before else {}
                    gone = [(*loops[temporal[place]][:2], by) for place, by in far.items() if by]
                    slides = operand == "input" and self.machine.levels[self.nodes[child].level].halo
                    if slides := slides and len(gone) == 1:
                        ((node, letter, by),) = gone
                        slides = letter in "yxrs" and by == 1 and node >= parent
                    self.replace(operand, loops, temporal, times, spatial, parent, child, slides)

    def regions(self, operand, loops, temporal, times, spatial, child):
        """What each instance of a child holds: instance -> elements. What further loops move is all of it."""
        fixed = {at: time for at, time in zip(temporal, times, strict=True) if loops[at][0] < child}
        # Loops outside that stand inside of the innermost moving one do not move the operand.
        outside = [at for at in spatial if loops[at][0] < child]
        inside = [at for at in range(len(loops)) if loops[at][0] >= child]
        found = {}
        for places in product(*(range(loops[at][2]) for at in outside)):
            index = fixed | dict(zip(outside, places, strict=True))
            elements = set()
            for rest in product(*(range(loops[at][2]) for at in inside)):
                at = self.position(loops, index | dict(zip(inside, rest, strict=True)))
                if at is not None:
                    elements.add(element(operand, self.layer, at))
            # Instances that an irrelevant loop leaves idle now may work later with the same tile.
            if not elements:
                elements = self.later(operand, loops, temporal, times, child, index, inside)
            if elements:
                found[places] = elements
        return found

    def later(self, operand, loops, temporal, times, child, index, inside):
        """Elements that an instance will need before the operand's tile moves on."""
        moving = [
            place
            for place, at in enumerate(temporal)
            if loops[at][0] < child and loops[at][1] in USES[operand] and loops[at][2] > 1
        ]
        depth = moving[-1] + 1 if moving else 0
        free = [at for place, at in enumerate(temporal) if place >= depth and loops[at][0] < child]
        elements = set()
        for rest in product(*(range(loops[at][2]) for at in free + inside)):
            at = self.position(loops, index | dict(zip(free + inside, rest, strict=True)))
            if at is not None:
                elements.add(element(operand, self.layer, at))
        return elements

    def parent_of(self, places, loops, spatial, parent, child):
        """The parent's instance of a child's."""
        outside = [at for at in spatial if loops[at][0] < child]
        return tuple(place for at, place in zip(outside, places, strict=True) if loops[at][0] < parent)

    def count(self, counter, first, node, instance, kind, amount):
        counter[self.nodes[node].name][kind] += amount
        if not any(instance):
            first[self.nodes[node].name][kind] += amount

    def replace(self, operand, loops, temporal, times, spatial, parent, child, slides):
        tiles = self.tiles[operand]
        last = {key: tiles.pop(key) for key in list(tiles) if key[0] == child}
        asked = {}
        for places, elements in self.regions(operand, loops, temporal, times, spatial, child).items():
            tiles[child, places] = elements
            self.note_peak(child, operand, len(elements))
            if slides:
                elements = elements - last[child, places]
            self.count(self.written, self.first_written, child, places, operand, len(elements))
            asked.setdefault(self.parent_of(places, loops, spatial, parent, child), set()).update(elements)
        for places, elements in asked.items():
            if parent:
                assert elements <= tiles[parent, places], "the memory outside does not hold it"
            self.count(self.read, self.first_read, parent, places, operand, len(elements))

    def note_peak(self, node, operand, amount):
        key = node, operand
        self.peak[key] = max(self.peak.get(key, 0), amount)

    # Outputs: a tile is element -> products in it ---------------------------------------------------------

    def summed(self, node, loops):
        """Whether an array outside of a node adds up sums."""
        return any(
            loops[at][0] < node and self.nodes[loops[at][0]].axis is not None and loops[at][1] in "krs"
            for at in range(len(loops))
            if loops[at][2] > 1
        )

    def drain(self, loops, parent, child):
        """Write every tile of a child into its parent, adding up on the way."""
        tiles = self.tiles["output"]
        spatial = [at for at, (node, *_) in enumerate(loops) if self.nodes[node].axis is not None]
        arriving = {}
        for key in [key for key in tiles if key[0] == child]:
            tile = tiles.pop(key)
            target = self.parent_of(key[1], loops, spatial, parent, child)
            for item, products in tile.items():
                kind = (
                    "output"
                    if self.final(item, key[1], child) and not self.summed(child, loops)
                    else "partial"
                )
                self.count(self.read, self.first_read, child, key[1], kind, 1)
                arriving.setdefault(target, Counter())[item] += products
        self.arrive(loops, parent, arriving)

    def arrive(self, loops, parent, arriving):
        tiles = self.tiles["output"]
        for places, sums in arriving.items():
            store = tiles.setdefault((parent, places), {})
            for item, products in sums.items():
                store[item] = products  # what was there had been brought in before
                kind = (
                    "output"
                    if self.final(item, places, parent) and not self.summed(parent, loops)
                    else "partial"
                )
                self.count(self.written, self.first_written, parent, places, kind, 1)

    def final(self, item, places, node):
        """Whether nothing is left to add to an element: by all positions of the nest that were executed."""
        return self.total[item] == self.needed

    def replace_outputs(self, loops, temporal, times, spatial, parent, child, holders):
        # What lies further in goes out first.
        for outer, inner in reversed(list(pairwise(holders))):
            if inner > child:
                self.drain(loops, outer, inner)
        self.drain(loops, parent, child)
        tiles = self.tiles["output"]
        given = set()
        for places, elements in self.regions("output", loops, temporal, times, spatial, child).items():
            source = self.parent_of(places, loops, spatial, parent, child)
            store = tiles.get((parent, source), {})
            tile = {}
            for item in elements:
                tile[item] = 0
                if store.get(item, 0) and (source, item) not in given:
                    given.add((source, item))
                    tile[item] = store[item]
                    self.count(self.read, self.first_read, parent, source, "partial", 1)
                    self.count(self.written, self.first_written, child, places, "partial", 1)
            tiles[child, places] = tile
            self.note_peak(child, "output", len(tile))

    def drain_all(self, operand, loops):
        if operand == "output":
            holders = self.holders("output")
            for outer, inner in reversed(list(pairwise(holders))):
                self.drain(loops, outer, inner)

    def multiply(self, loops, work):
        """Feed the multipliers once."""
        spatial = [at for at, (node, *_) in enumerate(loops) if self.nodes[node].axis is not None]
        for operand in ("input", "weights"):
            holder = self.holders(operand)[-1]
            asked = {}
            for index, at in work:
                places = tuple(index[i] for i in spatial if loops[i][0] < holder)
                asked.setdefault(places, set()).add(element(operand, self.layer, at))
            for places, elements in asked.items():
                if holder:
                    assert elements <= self.tiles[operand][holder, places]
                self.count(self.read, self.first_read, holder, places, operand, len(elements))
        holder = self.holders("output")[-1]
        sums = {}
        for index, at in work:
            places = tuple(index[i] for i in spatial if loops[i][0] < holder)
            sums.setdefault(places, Counter())[element("output", self.layer, at)] += 1
        for _, at in work:
            self.total[element("output", self.layer, at)] += 1
        tiles = self.tiles["output"]
        for places, products in sums.items():
            store = tiles.setdefault((holder, places), {})
            for item, count in products.items():
                if holder:
                    assert item in store
                if store.get(item, 0):
                    self.count(self.read, self.first_read, holder, places, "partial", 1)
                store[item] = store.get(item, 0) + count
                kind = (
                    "output"
                    if self.final(item, places, holder) and not self.summed(holder, loops)
                    else "partial"
                )
                self.count(self.written, self.first_written, holder, places, kind, 1)
