"""A plan as one chain of divisors for each loop, and what it costs as a sum of products over the loops.

A *chain* says which block of a loop enters each node; each divides the one before. An *amount* is what
crosses a boundary, counted on one side of it, or the like: a product of a factor for each loop, which the
loop's chain decides. Which product it is may depend on the plan, as a tile is brought again by the loops
outside of the innermost one that moves it: a *switch* has a case for each node where that one may be, and for
what stays there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations, islice, product
from math import prod
from typing import Any, NamedTuple

from tilewright.spec.errors import InputError
from tilewright.spec.layer import Layer
from tilewright.tiling.hierarchy.charges import OUTPUT, SPENT, STEPS, Charges
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.loops import AXES, LOOPS, OPERANDS, REDUCED, STILL, USES, extents
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import Nest, divisors
from tilewright.tiling.hierarchy.plan import HierarchyPlan

Cut = tuple[int, str]
"""A node and a loop that it goes through in several iterations."""

Key = int | tuple[int, int]
"""What a chain contributes to a product: a factor, or iterations and the size of a block."""

TAKEN = ("accesses", "cycles", "energy")
"""Objectives that are sums, or the longest of several sums."""

WINDOWS = "".join(map("".join, AXES))

MOST_CHAINS = 20_000
"""Most chains of a loop that are listed."""

MOST_VALUES = 300_000
"""Most values of an amount that are listed."""


def refuse_others(problem: Any) -> None:
    """Refuse what the formulations on chains do not take.

    Raises
    ------
    InputError
        For lists of objectives, objectives that are no sums, steps that do not divide, halos, and uneven
        tiles.
    """
    problem.refuse_lists("the declarative formulations")
    if problem.limits.factors == "any":
        limit = "is unknown to the declarative formulations, whose steps divide; padded takes it"
        raise InputError("limits.factors", "any", limit)
    if problem.minimise not in TAKEN:
        limit = f"the declarative formulations take {', '.join(TAKEN)}; exhaustive takes all"
        raise InputError("objective.minimise", problem.minimise, limit)
    for level in problem.machine.levels:
        for name in ("halo", "uneven"):
            if getattr(level, name):
                limit = "is unknown to the declarative formulations; exhaustive takes it"
                raise InputError(f"machine.levels.{level.name}.{name}", True, limit)


def too_large(what: str) -> InputError:
    """Return the error that a layer or a machine is too large for the formulations."""
    return InputError("method", "a formulation on chains", f"would have {what}; exhaustive has no such limit")


class Order(NamedTuple):
    """How a memory's loops are ordered.

    Attributes
    ----------
    operand
        What stays in place during the innermost loops, "" if nothing does.
    loops
        These loops, all of those that are innermost and do not move the operand.
    """

    operand: str
    loops: str


class Case(NamedTuple):
    """When a case of a switch may be taken.

    One of them fits each plan; where several do, the first one costs least.

    Attributes
    ----------
    any_of, none_of
        At least one of these loops has several iterations; none of these has.
    node, orders
        The node's loops are in one of these orders; any where there are none.
    """

    any_of: tuple[Cut, ...] = ()
    none_of: tuple[Cut, ...] = ()
    node: int = 0
    orders: tuple[Order, ...] = ()


@dataclass(frozen=True)
class Product:
    """A product over the loops.

    Attributes
    ----------
    keys
        For each loop, what its chains contribute, in their order; loops that contribute 1 are left out.
    operand
        The operand whose elements under a block are a factor, or "".
    """

    keys: tuple[tuple[str, tuple[Key, ...]], ...]
    operand: str = ""

    def classes(self) -> dict[str, list[Key]]:
        """Return what each loop may contribute."""
        return {loop: sorted(set(keys), key=str) for loop, keys in self.keys}


@dataclass
class Amount:
    """A number of a plan, and what it is charged.

    Attributes
    ----------
    switch
        The name of the switch, "" where there is only one case.
    products
        For each case, the product; nothing where the case says 0.
    most
        What the number may be.
    charges
        For each quantity, by its number.
    """

    switch: str
    products: tuple[Product | None, ...]
    most: int | None = None
    charges: dict[int, int] = field(default_factory=dict)


class Chains:
    """The plans of a layer on a machine that leaves no choice what it holds.

    Attributes
    ----------
    chains
        Of each loop: the block that enters each node, and last 1.
    orders
        Of each memory's node, by the node.
    switches
        Cases of each switch.
    amounts
        All that is charged.
    rooms
        For each memory, for each of its capacities: what it has, and amounts with the bits of each, by case.
    constants
        For each case of the switch ``added``, what is spent at least, by quantity; see `spent`.

    Parameters
    ----------
    goals
        What is minimised, and what is limited.
    """

    def __init__(self, layer: Layer, machine: HierarchyMachine, goals: Sequence[str], level: str) -> None:
        self.layer, self.machine, self.nodes = layer, machine, machine.nodes
        self.charges = Charges(machine, goals, level)
        self.quantities = self.charges.quantities
        self.sizes = extents(layer)
        self.memories = [i for i, node in enumerate(self.nodes) if node.axis is None]
        self.axes = [i for i, node in enumerate(self.nodes) if node.axis is not None]
        self.chains = {loop: self._listed(loop) for loop in self.sizes}
        self.cuts = {
            (i, loop)
            for loop, chains in self.chains.items()
            for chain in chains
            for i in range(len(self.nodes))
            if chain[i] > chain[i + 1]
        }
        self.both_ways = bool((self.charges.inner[:, OUTPUT] < 0).any())
        self.orders = {i: self._orders(i) for i in self.memories}
        self.switches: dict[str, list[Case]] = {"": [Case()]}
        self.amounts: dict[tuple[str, tuple[Product | None, ...]], Amount] = {}
        self.limits: list[Amount] = [self._used(i) for i in self.axes]
        self.rooms = [room for i in self.memories[1:] for room in self._rooms(i)]
        self.constants = self._constants()
        self._charge()

    def _listed(self, loop: str) -> list[tuple[int, ...]]:
        """Return all chains of a loop."""
        found = list(islice(self._chains_of(loop, self.sizes[loop], 0), MOST_CHAINS + 1))
        if len(found) > MOST_CHAINS:
            raise too_large(f"more than {MOST_CHAINS} ways to cut the {LOOPS[loop]}")
        return found

    def _chains_of(self, loop: str, size: int, i: int) -> Iterable[tuple[int, ...]]:
        """Return the chains of a loop from a node on."""
        if i == len(self.nodes):
            if size == 1:
                yield (1,)
            return
        axis = self.nodes[i].axis
        for inner in divisors(size):
            allowed = loop in self.machine.allowed[i] and (axis is None or size // inner <= axis.size)
            if inner == size or allowed:
                yield from ((size, *rest) for rest in self._chains_of(loop, inner, i + 1))

    def _orders(self, i: int) -> list[Order]:
        """Return the orders of a memory's loops.

        Where another fetch of outputs can be a gain, some loops that do not move them may be further out.
        """
        found = [Order("", "")]
        for operand in OPERANDS:
            still = "".join(loop for loop in STILL[operand] if (i, loop) in self.cuts)
            least = 1 if operand == "output" and self.both_ways else len(still)
            for many in range(max(1, least), len(still) + 1):
                found += [Order(operand, "".join(loops)) for loops in combinations(still, many)]
        return found

    # Products ----------------------------------------------------------------------------------------

    def _product(self, nodes: Mapping[str, Iterable[int]], operand: str = "", at: int = 0) -> Product:
        """Return the product of iterations of each loop at some nodes, and of an operand under a block."""
        keys = []
        for loop, chains in self.chains.items():
            counted = list(nodes.get(loop, ()))
            times = [prod(chain[i] // chain[i + 1] for i in counted) for chain in chains]
            sizes = [chain[at] if operand and loop in USES[operand] else 1 for chain in chains]
            each: list[Key] = [count * size for count, size in zip(times, sizes, strict=True)]
            if operand == "input" and loop in WINDOWS:
                each = list(zip(times, sizes, strict=True))
            if set(each) != {1}:
                keys.append((loop, tuple(each)))
        return Product(tuple(keys), operand)

    def value(self, one: Product, chosen: Mapping[str, Key]) -> int:
        """Return a product's value."""
        block, total = dict.fromkeys(LOOPS, 1), 1
        for loop, key in chosen.items():
            if isinstance(key, tuple):
                times, block[loop] = key
                total *= times
            else:
                total *= key
        return total * self._elements(one.operand, block) if one.operand == "input" else total

    def _elements(self, operand: str, block: dict[str, int]) -> int:
        return self._nest.elements(operand, block)

    @cached_property
    def _nest(self) -> Nest:
        return Nest(self.layer, self.machine, HierarchyPlan(()))

    def values(self, amount: Amount, one: Product) -> list[tuple[tuple[Key, ...], int]]:
        """Return what a product may be: what each of its loops contributes, and the value."""
        classes = one.classes()
        if one.operand == "input" and prod(map(len, classes.values())) > MOST_VALUES:
            raise too_large(f"more than {MOST_VALUES} values of an amount of input")
        if one.operand != "input":  # factors alone, of which too large ones are dropped early
            found: list[tuple[tuple[Key, ...], int]] = [((), 1)]
            for keys in classes.values():
                found = [
                    ((*chosen, key), value * key)
                    for chosen, value in found
                    for key in keys
                    if isinstance(key, int) and (amount.most is None or value * key <= amount.most)
                ]
                if len(found) > MOST_VALUES:
                    raise too_large(f"more than {MOST_VALUES} values of an amount")
            return found
        pairs = (
            (chosen, self.value(one, dict(zip(classes, chosen, strict=True))))
            for chosen in product(*classes.values())
        )
        return [pair for pair in pairs if amount.most is None or pair[1] <= amount.most]

    # Limits ------------------------------------------------------------------------------------------

    def _used(self, i: int) -> Amount:
        """Return how many instances of an axis are used."""
        axis = self.nodes[i].axis
        assert axis is not None
        return Amount("", (self._product({loop: [i] for loop in LOOPS}),), axis.size)

    def _rooms(self, i: int) -> list[tuple[int, list[tuple[Amount, tuple[int, ...]]]]]:
        """Return the capacities of a memory, with what it holds and the bits of each element, by case."""
        level, bits = self.machine.levels[self.nodes[i].level], self.machine.bits
        held = []
        for operand in level.holds:
            widths, switch = [int(getattr(bits, operand))], ""
            if (
                operand == "output"
                and bits.partial > bits.output
                and (cases := self._complete(i)) != [Case()]
            ):
                widths, switch = [bits.output] * len(cases) + [bits.partial], f"complete {i}"
                self.switches[switch] = [*cases, Case()]
            tile = self._product({}, operand, i)
            held.append((operand, Amount(switch, (tile,) * len(widths)), widths))
        if level.capacity_bytes is None:
            return []
        rooms, given = [], level.capacity_bytes
        for group in [held] if isinstance(given, int) else [[one] for one in held]:
            most = 8 * (given if isinstance(given, int) else getattr(given, group[0][0]))
            sizes = []
            for _, amount, each in group:
                amount.most = most // (level.copies * min(each))
                sizes.append((amount, tuple(level.copies * width for width in each)))
            rooms.append((most, sizes))
        return rooms

    def _complete(self, i: int) -> list[Case]:
        """Return the cases in which a memory's outputs come complete; see `Nest.held_bits`."""
        inner = [holder for holder in self.machine.holders["output"] if holder > i]
        outside = [j for j in self.memories if j < min(inner, default=len(self.nodes))]
        adding = self._among([j for j in self.axes if j < i], REDUCED)
        if not inner:
            return [Case(none_of=adding + self._among(outside, REDUCED))]
        cases = [Case(none_of=adding + self._among(outside, USES["output"]))]
        for at, j in enumerate(outside):
            # The innermost loop that brings another tile is one of this memory.
            moving = self._among([j], USES["output"])
            none_of = adding + self._among(outside[at + 1 :], USES["output"])
            none_of += self._among(outside[:at], REDUCED)
            for order in self.orders[j] if moving else ():
                during = order.loops if order.operand == "output" else ""
                late = self._among([j], "".join(loop for loop in REDUCED if loop not in during))
                cases.append(Case(moving, none_of + late, j, (order,)))
        return cases

    def _among(self, nodes: Iterable[int], loops: str) -> tuple[Cut, ...]:
        """Return the loops that may have several iterations at some nodes."""
        return tuple((i, loop) for i in nodes for loop in loops if (i, loop) in self.cuts)

    # Costs -------------------------------------------------------------------------------------------

    def _charge(self) -> None:
        """List what is charged for each boundary, and for steps of the multipliers."""
        for o, operand in enumerate(OPERANDS):
            for parent, child in self.charges.crossings(operand):
                after = min([i for i in self.axes if parent < i < child], default=child)
                for q, quantity in enumerate(self.quantities):
                    if quantity.kind == STEPS:
                        continue
                    outside, inside = [], []
                    if quantity.kind == SPENT:
                        outside = [i for i in self.axes if i < parent]
                        inside = [i for i in self.axes if i < child]
                    outer, inner = self.charges.outer[parent, o, q], 0
                    if child < len(self.nodes):
                        inner = self.charges.inner[child, o, q]
                    where = q, operand, (parent, child), after
                    self._fetched(*where, outside, after, outer)
                    self._fetched(*where, inside, child, inner)
        self._charge_once()

    def _charge_once(self) -> None:
        """List what outputs cost less that come or leave once; only times have such charges."""
        charges = self.charges
        for parent, child in charges.crossings("output"):
            after = min([i for i in self.axes if parent < i < child], default=child)
            for q in range(len(self.quantities)):
                self._once(q, parent, after, charges.first_out[parent, q], charges.last_out[parent, q])
                if child < len(self.nodes):
                    self._once(q, child, child, charges.first_in[child, q], charges.last_in[child, q])

    def _add(self, q: int, charge: int, switch: str, products: tuple[Product | None, ...]) -> None:
        """Charge an amount; equal ones are one."""
        if charge == 0:
            return
        amount = self.amounts.setdefault((switch, products), Amount(switch, products))
        amount.charges[q] = amount.charges.get(q, 0) + int(charge)

    def _fetched(
        self,
        q: int,
        operand: str,
        crossing: tuple[int, int],
        after: int,
        arrays: list[int],
        at: int,
        charge: int,
    ) -> None:
        """Charge the elements of an operand that are fetched across a boundary, on one of its sides.

        Parameters
        ----------
        after
            The first array between the two memories, or the memory inside.
        arrays
            Axes whose instances are counted.
        at
            The node whose block is the tile.
        """
        parent, child = crossing
        outside = [i for i in self.memories if i < after]
        moves = USES[operand]
        if child == len(self.nodes):
            nodes = dict.fromkeys(LOOPS, outside + arrays)
            self._add(q, charge, "", (self._product(nodes, operand, at),))
            return
        cases, products = [], []

        def case(one: Case, counted: Mapping[str, list[int]]) -> None:
            nodes = {loop: (outside if loop in moves else counted[loop]) + arrays for loop in LOOPS}
            cases.append(one)
            products.append(self._product(nodes, operand, at))

        case(Case(none_of=self._among(outside, moves)), {loop: [] for loop in LOOPS})
        for j in outside:
            moving = self._among([j], moves)
            if not moving:
                continue
            none_of = self._among([i for i in outside if i > j], moves)
            staying: dict[str, list[Order]] = {}
            for order in self.orders[j]:
                staying.setdefault(order.loops if order.operand == operand else "", []).append(order)
            before = [i for i in outside if i < j]
            for loops, orders in staying.items():
                counted = {loop: before + [j] * (loop not in loops) for loop in LOOPS}
                case(Case(moving, none_of, j, tuple(orders)), counted)
        if len(set(products)) == 1:
            self._add(q, charge, "", (products[0],))
            return
        switch = f"{operand} {parent}"
        self.switches[switch] = cases
        self._add(q, charge, switch, tuple(products))

    def _once(self, q: int, node: int, at: int, first: int, last: int) -> None:
        """Charge what outputs cost less that come or leave once, of the first instance of a node."""
        outside = [i for i in self.memories if i < at]
        outputs = self._product(dict.fromkeys(USES["output"], outside), "output", at)
        self._add(q, first, "", (outputs,))
        adding = self._among([i for i in self.axes if i < node], REDUCED)
        if not adding or not last:
            self._add(q, last, "", (outputs,))
            return
        switch = f"ending {node}"
        self.switches[switch] = [Case(none_of=adding), Case(any_of=adding)]
        self._add(q, last, switch, (outputs, None))

    @property
    def spent(self) -> dict[str, int]:
        """The numbers of the quantities that are spent, by what they count."""
        return {quantity.name: q for q, quantity in enumerate(self.quantities) if quantity.kind == SPENT}

    def _constants(self) -> dict[int, list[int]]:
        """Return what is spent besides amounts, by the outermost axis that adds up sums, if there is one."""
        if not self.spent:
            return {}
        cases, found = [Case(none_of=self._among(self.axes, REDUCED))], [len(self.nodes)]
        for i in self.axes:
            if adding := self._among([i], REDUCED):
                cases.append(Case(adding, self._among([j for j in self.axes if j < i], REDUCED)))
                found.append(i)
        self.switches["added"] = cases
        constants = self.charges.constants(self.layer)
        return {q: [int(constants[i, q]) for i in found] for q in self.spent.values()}

    @cached_property
    def instances(self) -> Amount:
        """How many multipliers are used."""
        most = prod(node.axis.size for node in self.nodes if node.axis is not None)
        return Amount("", (self._product(dict.fromkeys(LOOPS, self.axes)),), most)

    def ticks(self, used: int) -> int:
        """Return the time that the multipliers compute, of so many of them."""
        steps = self.layer.macs // used
        return -(-steps // self.machine.macs_per_cycle) * TICKS

    # Plans -------------------------------------------------------------------------------------------

    def plan(self, chosen: Mapping[str, tuple[int, ...]], orders: Mapping[int, Order]) -> HierarchyPlan:
        """Return the plan of a chain for each loop and an order for each memory, without what is kept."""
        nest = []
        for i in range(len(self.nodes)):
            order = orders.get(i, Order("", ""))
            cut = [loop for loop, chain in chosen.items() if chain[i] > chain[i + 1]]
            # Outermost those that do not move what stays, then those that do, and last during which it stays.
            still = next((STILL[operand] for operand in OPERANDS if operand == order.operand), "")
            ranks = {loop: 2 if loop in order.loops else 0 if loop in still else 1 for loop in cut}
            if not order.loops:
                ranks = {loop: int(loop == "g") for loop in cut}
            cut.sort(key=lambda loop: ranks[loop])
            nest.append(tuple((loop, chosen[loop][i + 1]) for loop in cut))
        return HierarchyPlan(tuple(nest))

    def chosen(self, plan: HierarchyPlan) -> tuple[dict[str, tuple[int, ...]], dict[int, Order]]:
        """Return the chains of a plan, and for each memory the order that its loops have or a better one."""
        nest = Nest(self.layer, self.machine, plan)
        chosen = {loop: tuple(block[loop] for block in nest.blocks) for loop in LOOPS}
        return chosen, {i: self._order(i, [loop for loop, _ in plan.nest[i]]) for i in self.memories}

    def _order(self, i: int, loops: list[str]) -> Order:
        if not loops or loops[-1] == "g":
            return Order("", "")
        operand = next(operand for operand in OPERANDS if loops[-1] in STILL[operand])
        last = ""
        while loops and loops[-1] in STILL[operand]:
            last += loops.pop()
        known = [order for order in self.orders[i] if order.operand == operand]
        return next((order for order in known if set(order.loops) == set(last)), known[-1])

    def case_of(self, switch: str, chosen: Mapping[str, tuple[int, ...]], orders: Mapping[int, Order]) -> int:
        """Return the first case of a switch that fits a plan."""

        def has(cut: Cut) -> bool:
            i, loop = cut
            return chosen[loop][i] > chosen[loop][i + 1]

        return next(
            n
            for n, case in enumerate(self.switches[switch])
            if (not case.any_of or any(map(has, case.any_of)))
            and not any(map(has, case.none_of))
            and (not case.orders or orders[case.node] in case.orders)
        )
