"""A layer on a hierarchy of memories (docs/hierarchy.md): each element of each tile is moved by itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby, pairwise, permutations, product
from math import prod
from typing import Any, NamedTuple

from tests.oracles import Refused, TooLarge

Json = dict[str, Any]
Element = tuple[int, ...]
Loop = tuple[str, int]

LOOPS = {
    "groups": "g",
    "batch": "n",
    "output_maps": "c",
    "rows": "y",
    "columns": "x",
    "input_maps": "k",
    "kernel_rows": "r",
    "kernel_columns": "s",
}
LETTERS = "gncyxkrs"
MOVED_BY = {"input": "gnyxkrs", "weights": "gckrs", "output": "gncyx"}
OPERANDS = tuple(MOVED_BY)
ADDED = "krs"
OVERLAPPING = "yxrs"

MOST_PLANS = 600
"""Plans of a layer that are walked through."""

MOST_MACS = 400
"""Multiplications of a layer that is walked through."""

TICKS = 10**8
"""Parts of a cycle in which rates are rounded."""


class Node(NamedTuple):
    """A memory, a tile of an uneven memory, or an axis of an array, whose size is none of a memory."""

    level: int
    holds: tuple[str, ...]
    size: int
    over: str

    @property
    def memory(self) -> bool:
        """Whether it is no axis of an array."""
        return not self.size


class Machine:
    """The machine of a problem, of which is decided what its levels hold."""

    def __init__(self, table: Json, kept: Json) -> None:
        self.table, self.levels, self.nodes = table, table["levels"], list[Node]()
        for number, level in enumerate(self.levels):
            chosen = kept.get(level["name"], [])
            held = [operand for operand in OPERANDS if operand in [*level["holds"], *chosen]]
            if level["fanout"]:
                for axis in level["fanout"]:
                    over = "".join(LOOPS[name] for name in axis["over"])
                    self.nodes.append(Node(number, (), axis["size"], over))
            elif level["uneven"]:
                self.nodes += [Node(number, (operand,), 0, LETTERS) for operand in chosen]
            else:
                self.nodes.append(Node(number, tuple(held), 0, LETTERS))
        self.holders = {
            operand: [i for i, node in enumerate(self.nodes) if operand in node.holds] for operand in OPERANDS
        }

    def allowed(self, i: int) -> str:
        """Return the loops that a node may have.

        A memory inside of an array does not move what passes by it from outside of the array. If that goes
        straight to the multipliers, it has no loops at all.
        """
        loops = self.nodes[i].over
        for operand, holders in self.holders.items() if self.nodes[i].memory else ():
            outside = max(holder for holder in holders if holder <= i)
            if any(not node.memory for node in self.nodes[outside:i]):
                straight = all(holder < i for holder in holders)
                loops = "".join(loop for loop in loops if not straight and loop not in MOVED_BY[operand])
        return loops

    def level(self, i: int) -> Json:
        """Return the level of a node."""
        found: Json = self.levels[self.nodes[i].level]
        return found


def choices(table: Json) -> Iterator[Json]:
    """Go through what plans may hold: see ``may_hold``, and the order of the tiles of uneven memories."""
    names, ways = [], []
    for level in table["levels"]:
        may = [operand for operand in OPERANDS if operand in level["may_hold"]]
        chosen = [
            [one for one, bit in zip(may, bits, strict=True) if bit]
            for bits in product((1, 0), repeat=len(may))
        ]
        if level["uneven"]:
            chosen = [list(order) for each in chosen for order in permutations([*level["holds"], *each])]
        if may or level["uneven"]:
            names.append(level["name"])
            ways.append(chosen)
    for each in product(*ways):
        yield dict(zip(names, each, strict=True))


def sizes(layer: Json) -> dict[str, int]:
    """Return the iterations of each loop."""
    plane = []
    for axis in (0, 1):
        extent = (layer["kernel"][axis] - 1) * layer["dilation"][axis] + 1
        padded = layer["input"][1 + axis] + sum(layer["padding"][2 * axis : 2 * axis + 2])
        plane.append((padded - extent) // layer["stride"][axis] + 1)
    groups = layer["groups"]
    maps = layer["kernels"] // groups, *plane, layer["input"][0] // groups
    return dict(zip(LETTERS, (groups, layer["batch"], *maps, *layer["kernel"]), strict=True))


def touched(operand: str, layer: Json, at: dict[str, int]) -> Element:
    """Return the element of an operand that a multiplication uses."""
    if operand != "input":
        return tuple(at[loop] for loop in MOVED_BY[operand])
    row, column = (
        at[out] * layer["stride"][axis] + at[tap] * layer["dilation"][axis]
        for axis, (out, tap) in enumerate(("yr", "xs"))
    )
    return at["g"], at["n"], at["k"], row, column


@dataclass
class Counts:
    """Elements that are read and written, by node and by what they are."""

    read: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    written: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    def add(self, way: str, node: int, kind: str, many: int) -> None:
        """Count elements."""
        getattr(self, way)[node][kind] += many


class Walk:
    """The execution of a loop nest.

    Attributes
    ----------
    every, first
        What is read and written at each node, by all instances and by the first one.
    waiting
        For each (memory, next memory further in): the elements that go in and out at the first instance of
        the outer one.
    steps
        How often the multipliers are fed.
    largest
        Elements of the largest tile of each node and operand.
    incomplete
        The nodes to which sums come that are not complete.
    """

    def __init__(self, layer: Json, machine: Machine, nest: list[list[Loop]]) -> None:
        self.layer, self.machine, self.nest = layer, machine, nest
        self.extents = sizes(layer)
        if prod(self.extents.values()) > MOST_MACS:
            raise TooLarge
        self.needed = prod(self.extents[loop] for loop in ADDED)
        entries = [(i, loop, step) for i, loops in enumerate(nest) for loop, step in loops]
        self.temporal = [entry for entry in entries if machine.nodes[entry[0]].memory]
        self.spatial = [entry for entry in entries if not machine.nodes[entry[0]].memory]
        self.adds_outside = [
            any(i < node and loop in ADDED for i, loop, _ in self.spatial)
            for node in range(len(machine.nodes) + 1)
        ]
        self.every, self.first = Counts(), Counts()
        self.waiting: defaultdict[tuple[int, int], Counter[tuple[str, str]]] = defaultdict(Counter)
        self.largest: Counter[tuple[int, str]] = Counter()
        self.incomplete: set[int] = set()
        self.total: Counter[Element] = Counter()
        self.work = self._work()
        self.steps = len({time for time, _, _ in self.work})
        for operand in ("input", "weights"):
            for parent, child in pairwise(machine.holders[operand]):
                self._bring(operand, parent, child)
            self._feed(operand)
        self._outputs()

    def _work(self) -> list[tuple[Element, Element, dict[str, int]]]:
        """Return all multiplications in order of time: when, at which instances, and its position."""
        found = []
        for where in product(*(range(extent) for extent in self.extents.values())):
            left = dict(zip(LETTERS, where, strict=True))
            digits: dict[bool, list[int]] = {True: [], False: []}
            for i, loops in enumerate(self.nest):
                for loop, step in loops:
                    digits[self.machine.nodes[i].memory].append(left[loop] // step)
                    left[loop] %= step
            at = dict(zip(LETTERS, where, strict=True))
            found.append((tuple(digits[True]), tuple(digits[False]), at))
        return sorted(found, key=lambda one: one[:2])

    def _instance(self, places: Element, node: int) -> Element:
        """Return the instance of a node, by the places of the arrays outside of it."""
        return tuple(place for place, (i, _, _) in zip(places, self.spatial, strict=True) if i < node)

    def _depth(self, operand: str, child: int) -> int:
        """Return how many loops there are from the outermost to the last that moves a tile of a node."""
        moving = [
            n for n, (i, loop, _) in enumerate(self.temporal, 1) if i < child and loop in MOVED_BY[operand]
        ]
        return max(moving, default=0)

    def _tiles(self, operand: str, child: int) -> dict[Element, dict[Element, set[Element]]]:
        """Return what each instance of a node gets, each time that its tile moves."""
        depth = self._depth(operand, child)
        found: dict[Element, dict[Element, set[Element]]] = {}
        for time, places, at in self.work:
            tiles = found.setdefault(time[:depth], {})
            tiles.setdefault(self._instance(places, child), set()).add(touched(operand, self.layer, at))
        for tiles in found.values():
            most = max(map(len, tiles.values()))
            self.largest[child, operand] = max(self.largest[child, operand], most)
        return found

    def _count(self, way: str, node: int, instance: Element, kind: str, many: int) -> None:
        self.every.add(way, node, kind, many)
        if not any(instance):
            self.first.add(way, node, kind, many)

    def _bring(self, operand: str, parent: int, child: int) -> None:
        """Bring the tiles of an operand that is only read from one memory to the next."""
        tiles, depth = self._tiles(operand, child), self._depth(operand, child)
        last = self.temporal[depth - 1] if depth else (0, "", 0)
        slides = (
            operand == "input"
            and self.machine.level(child)["halo"]
            and last[1] in OVERLAPPING
            and last[0] >= parent
        )
        for event, instances in tiles.items():
            before: dict[Element, set[Element]] = {}
            if slides and event and event[-1] > 0:
                before = tiles[*event[:-1], event[-1] - 1]
            asked: dict[Element, set[Element]] = {}
            for instance, elements in instances.items():
                new = elements - before.get(instance, set())
                self._count("written", child, instance, operand, len(new))
                asked.setdefault(self._instance_of(instance, parent), set()).update(new)
            for instance, elements in asked.items():
                self._count("read", parent, instance, operand, len(elements))
                if not any(instance):
                    self.waiting[parent, child]["in", operand] += len(elements)

    def _instance_of(self, instance: Element, node: int) -> Element:
        """Return the instance of a node further out that an instance belongs to."""
        return self._instance((*instance, *[0] * (len(self.spatial) - len(instance))), node)

    def _feed(self, operand: str) -> None:
        """Give the multipliers an operand, in each step."""
        holder = self.machine.holders[operand][-1]
        asked: dict[tuple[Element, Element], set[Element]] = {}
        for time, places, at in self.work:
            key = time, self._instance(places, holder)
            asked.setdefault(key, set()).add(touched(operand, self.layer, at))
        for (_, instance), elements in asked.items():
            self._count("read", holder, instance, operand, len(elements))

    # Outputs: a tile is the products that each of its elements has --------------------------------------

    def _outputs(self) -> None:
        holders = self.machine.holders["output"]
        crossings = list(pairwise(holders))
        tiles = {child: self._tiles("output", child) for _, child in crossings}
        held: dict[tuple[int, Element], dict[Element, int]] = {}
        events: dict[int, Element] = {}
        for time, works in groupby(self.work, key=lambda one: one[0]):
            for at, (parent, child) in enumerate(crossings):
                event = time[: self._depth("output", child)]
                if events.get(child) == event:
                    continue
                for outer, inner in reversed(crossings[at:]):
                    if inner in events:
                        self._drain(held, outer, inner)
                        del events[inner]
                self._fill(held, parent, child, tiles[child][event])
                events[child] = event
            self._add(held, holders[-1], list(works))
        for outer, inner in reversed(crossings):
            self._drain(held, outer, inner)
        assert set(self.total.values()) == {self.needed}

    def _kind(self, element: Element, node: int) -> str:
        """Return what a sum is that comes to a node or goes from it."""
        complete = self.total[element] == self.needed and not self.adds_outside[node]
        return "output" if complete else "partial"

    def _drain(self, held: dict[tuple[int, Element], dict[Element, int]], parent: int, child: int) -> None:
        """Write all tiles of a node to the memory outside, adding up on the way."""
        arriving: dict[Element, Counter[Element]] = {}
        for key in [key for key in held if key[0] == child]:
            for element, products in held.pop(key).items():
                kind = self._kind(element, child)
                self._count("read", child, key[1], kind, 1)
                arriving.setdefault(self._instance_of(key[1], parent), Counter())[element] += products
        for instance, sums in arriving.items():
            for element, products in sums.items():
                held.setdefault((parent, instance), {})[element] = products
                self._arrive(parent, instance, element)
                if not any(instance):
                    self.waiting[parent, child]["out", self._kind(element, parent)] += 1

    def _arrive(self, node: int, instance: Element, element: Element) -> None:
        kind = self._kind(element, node)
        if kind == "partial":
            self.incomplete.add(node)
        self._count("written", node, instance, kind, 1)

    def _fill(
        self,
        held: dict[tuple[int, Element], dict[Element, int]],
        parent: int,
        child: int,
        tiles: dict[Element, set[Element]],
    ) -> None:
        """Bring back what has been written before, to one of the instances whose sums are added up."""
        given = set()
        for instance in sorted(tiles):
            source = self._instance_of(instance, parent)
            outside = held.get((parent, source), {})
            tile = held.setdefault((child, instance), {})
            for element in tiles[instance]:
                tile[element] = 0
                if outside.get(element) and (source, element) not in given:
                    given.add((source, element))
                    tile[element] = outside[element]
                    self._count("read", parent, source, "partial", 1)
                    self._count("written", child, instance, "partial", 1)
                    self.incomplete.add(child)
                    if not any(source):
                        self.waiting[parent, child]["in", "partial"] += 1

    def _add(
        self, held: dict[tuple[int, Element], dict[Element, int]], holder: int, works: list[Any]
    ) -> None:
        """Add the products of a step to the sums of the last memory that holds them."""
        sums: dict[Element, Counter[Element]] = {}
        for _, places, at in works:
            element = touched("output", self.layer, at)
            sums.setdefault(self._instance(places, holder), Counter())[element] += 1
            self.total[element] += 1
        for instance, products in sums.items():
            tile = held.setdefault((holder, instance), {})
            for element, many in products.items():
                assert holder == 0 or element in tile
                if tile.get(element):
                    self._count("read", holder, instance, "partial", 1)
                tile[element] = tile.get(element, 0) + many
                self._arrive(holder, instance, element)

    # Costs ----------------------------------------------------------------------------------------------

    def bits(self, counts: Counter[str]) -> int:
        """Return the bits of elements."""
        return sum(many * self.machine.table["bits"][kind] for kind, many in counts.items())

    def held_bits(self, level: int) -> dict[str, int]:
        """Return the bits that an instance of a memory reserves for each operand."""
        found = {}
        for i, node in enumerate(self.machine.nodes):
            for operand in node.holds if node.level == level else ():
                kind = "partial" if operand == "output" and i in self.incomplete else operand
                copies = 1 + self.machine.levels[level]["double_buffering"]
                found[operand] = copies * self.largest[i, operand] * self.machine.table["bits"][kind]
        return found

    def fits(self) -> bool:
        """Whether all tiles fit into their memories."""
        for number, level in enumerate(self.machine.levels[1:], 1):
            if level["fanout"]:
                continue
            held, capacity = self.held_bits(number), level["capacity_bytes"]
            if isinstance(capacity, dict):
                if any(bits > 8 * capacity[operand] for operand, bits in held.items()):
                    return False
            elif sum(held.values()) > 8 * capacity:
                return False
        return True

    def accesses(self, name: str) -> int:
        """Return the elements that a memory reads and writes."""
        return sum(
            counts[i].total()
            for counts in (self.every.read, self.every.written)
            for i, node in enumerate(self.machine.nodes)
            if self.machine.levels[node.level]["name"] == name
        )

    def energy(self) -> int:
        """Return the attojoules of all that is read, written and multiplied."""
        total = prod(self.extents.values()) * round((self.machine.table["mac_pj"] or 0) * 1e6)
        for i in range(len(self.machine.nodes)):
            level = self.machine.level(i)
            read, write = level["read_pj_per_byte"], level["write_pj_per_byte"]
            prices = read, read if write is None else write
            for price, counts in zip(prices, (self.every.read, self.every.written), strict=True):
                total += self.bits(counts[i]) * round((price or 0) * 1e6 / 8)
        return total

    def _computing(self) -> int:
        """Return the ticks of the multipliers, with what they wait for."""
        computing = -(-self.steps // self.machine.table["macs_per_cycle"]) * TICKS
        for (parent, child), counts in self.waiting.items():
            if not self.machine.level(child)["double_buffering"]:
                for (way, kind), many in counts.items():
                    bits = many * self.machine.table["bits"][kind]
                    computing += bits * self._slower(parent, child, way)
        return computing

    def _slower(self, parent: int, child: int, way: str) -> int:
        """Return the ticks of a bit that goes in or out, at the slower port."""
        (read, write), (drained, filled) = self._ticks(parent), self._ticks(child)
        return max(read, filled) if way == "in" else max(write, drained)

    def cycles(self) -> int:
        """Return the cycles: of the multipliers with what they wait for, or of the busiest port."""
        nodes = self.machine.nodes
        longest = self._computing()
        for number, level in enumerate(self.machine.levels):
            own = [i for i, node in enumerate(nodes) if node.level == number and node.memory]
            if not own:
                continue
            times = [
                sum(self.bits(counts[i]) for i in own) * ticks
                for counts, ticks in zip(
                    (self.first.read, self.first.written), self._ticks(own[0]), strict=True
                )
            ]
            longest = max(longest, sum(times) if level["bytes_per_cycle"] is not None else max(times))
        return -(-longest // TICKS)

    def idle(self) -> tuple[int, int, int]:
        """Return ticks before the first step and after the last one, and the cycles with both, at least.

        Before the first step tiles come to all memories, after the last one outputs go. Those of memories
        with double buffering take as long as the busiest port needs. What the multipliers wait for counts
        with them, and here but between the first step and the last.
        """
        busy: tuple[Counter[tuple[int, bool]], ...] = Counter(), Counter()
        between = self._computing()
        for operand, holders in self.machine.holders.items():
            place, way = (-1, "out") if operand == "output" else (0, "in")
            for parent, child in pairwise(holders):
                bits = {}
                for node in (parent, child):
                    tile: set[Element] = set()
                    for instance, elements in list(self._tiles(operand, child).values())[place].items():
                        if not any(self._instance_of(instance, node)):
                            tile |= elements
                    kind = "partial" if operand == "output" and self.adds_outside[node] else operand
                    bits[node] = len(tile) * self.machine.table["bits"][kind]
                if not self.machine.level(child)["double_buffering"]:
                    between -= bits[parent] * self._slower(parent, child, way)
                    continue
                for node, amount in bits.items():
                    written = (node == child) == (way == "in")
                    ticks = amount * self._ticks(node)[written]
                    busy[way == "out"][self.machine.nodes[node].level, written] += ticks
        filling, draining = map(self._longest, busy)
        return filling, draining, max(self.cycles(), -(-(filling + between + draining) // TICKS))

    def _longest(self, busy: Counter[tuple[int, bool]]) -> int:
        """Return the ticks of the port that is busy longest, of those by level and whether it is written."""
        found = [0]
        for number, level in enumerate(self.machine.levels):
            both = busy[number, False], busy[number, True]
            found.append(sum(both) if level["bytes_per_cycle"] is not None else max(both))
        return max(found)

    def _ticks(self, node: int) -> tuple[int, int]:
        """Return the ticks of a bit that a memory reads, and of one that it writes."""
        level = self.machine.level(node)
        one = level["bytes_per_cycle"]
        rates = (one, one) if one else (level["read_bytes_per_cycle"], level["write_bytes_per_cycle"])
        read, written = (max(1, round(TICKS / (8 * rate))) if rate else 0 for rate in rates)
        return read, written

    def value(self, minimise: str, level: str) -> int:
        """Return what an objective says; energy times delay in nanojoules times cycles."""
        if minimise == "accesses":
            return self.accesses(level)
        if minimise == "cycles":
            return self.cycles()
        energy = self.energy()
        return energy if minimise == "energy" else -(-energy * self.cycles() // 10**9)


# Plans ---------------------------------------------------------------------------------------------------


def walked(problem: Json, plan: Json) -> Walk:
    """Execute a plan; refuse one that breaks a rule."""
    table, layer = problem["machine"], problem["layer"]
    kept = plan.get("kept", {})
    uneven = {level["name"] for level in table["levels"] if level["uneven"]}

    def told(one: Json) -> Json:
        return {name: held if name in uneven else sorted(held) for name, held in one.items()}

    if told(kept) not in map(told, choices(table)):
        raise Refused("kept")
    machine = Machine(table, kept)
    nest = [[(LOOPS[name], step) for name, step in loops] for loops in plan["nest"]]
    block = sizes(layer)
    divide = (problem["limits"]["factors"] or "perfect") == "perfect"
    if len(nest) != len(machine.nodes):
        raise Refused("nodes")
    for i, (node, loops) in enumerate(zip(machine.nodes, nest, strict=True)):
        used = 1
        for loop, step in loops:
            if (
                loop not in machine.allowed(i)
                or not 1 <= step < block[loop]
                or (divide and block[loop] % step)
            ):
                raise Refused(f"loop {loop} of node {i}")
            used *= -(-block[loop] // step)
        if len(dict(loops)) < len(loops) or (not node.memory and used > node.size):
            raise Refused(f"node {i}")
        block |= dict(loops)
    if any(size > 1 for size in block.values()):
        raise Refused("more than one multiplication is left")
    walk = Walk(layer, machine, nest)
    if not walk.fits():
        raise Refused("a memory is too small")
    return walk


def cost(problem: Json, plan: Json) -> int:
    """Return what a plan costs."""
    objective, levels = problem["objective"], problem["machine"]["levels"]
    return walked(problem, plan).value(
        objective["minimise"] or "accesses", objective["level"] or levels[0]["name"]
    )


def plans(problem: Json) -> Iterator[Json]:
    """Go through all plans: what is held, steps of each loop, orders of each memory's loops."""
    divide = (problem["limits"]["factors"] or "perfect") == "perfect"
    names, extents = {letter: name for name, letter in LOOPS.items()}, sizes(problem["layer"])
    for kept in choices(problem["machine"]):
        machine = Machine(problem["machine"], kept)
        allowed = [machine.allowed(i) for i in range(len(machine.nodes))]
        chains = [_chains(loop, extents[loop], allowed, divide) for loop in LETTERS]
        for chosen in product(*chains):
            cuts = [
                [(loop, steps[i]) for loop, steps in zip(LETTERS, chosen, strict=True) if steps[i]]
                for i in range(len(allowed))
            ]
            ways = [
                list(permutations(cut)) if node.memory else [tuple(cut)]
                for node, cut in zip(machine.nodes, cuts, strict=True)
            ]
            for nest in product(*ways):
                told = [[[names[loop], step] for loop, step in loops] for loops in nest]
                yield {"nest": told, **({"kept": kept} if kept else {})}


def _chains(loop: str, size: int, allowed: list[str], divide: bool) -> list[list[int]]:
    """Return the steps of a loop at each node, 0 where the node does not go through it."""
    if not allowed:
        return [[]] if size == 1 else []
    steps = range(1, size) if loop in allowed[0] else ()
    found = [[0, *rest] for rest in _chains(loop, size, allowed[1:], divide)]
    for step in steps:
        if not divide or size % step == 0:
            found += [[step, *rest] for rest in _chains(loop, step, allowed[1:], divide)]
    return found


def best(problem: Json) -> int | None:
    """Return the least cost of all plans, None where none fits."""
    least, many = None, 0
    for plan in plans(problem):
        many += 1
        if many > MOST_PLANS:
            raise TooLarge
        try:
            found = cost(problem, plan)
        except Refused:
            continue
        least = found if least is None else min(least, found)
    return least


def may_stop(problem: Json, _method: str) -> bool:
    """Whether a method may end without a proof although it has time: with steps that do not divide."""
    return problem["limits"]["factors"] == "any"
