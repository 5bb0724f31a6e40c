"""Hierarchies and MiniZinc: the data of ``models/tiling/core.hierarchy.mzn``, and plans of solutions."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, prod
from typing import Any, NamedTuple

from tilewright.core.cutoffs import narrow
from tilewright.spec.constraints import Term
from tilewright.spec.errors import InputError
from tilewright.tiling.hierarchy import kind as hierarchy
from tilewright.tiling.hierarchy.chains import Amount, Chains, Key, refuse_others, too_large
from tilewright.tiling.hierarchy.charges import WAITING
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.exact.lattice import MOST, Lattice
from tilewright.tiling.hierarchy.exact.tables import Tables
from tilewright.tiling.hierarchy.loops import AXES, LETTERS, USES
from tilewright.tiling.hierarchy.machine import HierarchyMachine
from tilewright.tiling.hierarchy.nest import window
from tilewright.tiling.hierarchy.plan import LETTERS as LOOP_LETTERS
from tilewright.tiling.hierarchy.plan import HierarchyPlan
from tilewright.tiling.hierarchy.task import Task
from tilewright.tiling.hierarchy.vocabulary import axes_of, node_of
from tilewright.tiling.plan import Plan
from tilewright.tiling.problem import Problem

__all__ = ["data", "decisions", "plan", "scale", "size", "start", "term"]

LARGEST = 2**31 - 2
"""The largest number that Gecode can handle."""


@lru_cache(maxsize=64)
def chains_of(problem: Problem) -> Chains:
    """Return the chains of a problem.

    Raises
    ------
    InputError
        For what the formulations do not take.
    """
    problem.refuse_limits("the MiniZinc formulations")
    refuse_others(problem)
    machine = problem.machine
    assert machine.kind == "hierarchy"
    for one in machine.levels:
        if one.may_hold:
            limit = "is no decision of the MiniZinc formulations; chains@highs and exhaustive take it"
            raise InputError(f"machine.levels.{one.name}.may_hold", list(one.may_hold), limit)
    if Lattice(problem.one_layer).many > MOST:  # for the search of a known plan
        raise too_large(f"more than {MOST} blocks")
    return Chains(problem.one_layer, machine, (problem.minimise,), problem.level)


@lru_cache(maxsize=64)
def known_plan(problem: Problem) -> HierarchyPlan | None:
    """Return the plan that the incomplete pass of the exact search finds; it knows not all constraints."""
    if problem.constraints:
        return None
    from tilewright.tiling.hierarchy.exact import search  # for start-up time: numba

    chains_of(problem)
    found = search.Search(Tables(Task.of(problem))).improved(None, search.Budget(search.PARAMS.beam))
    return None if found is None else found.plan


def size(problem: Problem) -> int:
    """Return about how many constraints a formulation gives: each value of a factor."""
    return len(_Data(problem).numbers)


@lru_cache(maxsize=64)
def scale(problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): a plan costs ``offset + unit * objective``."""
    chains, least = chains_of(problem), hierarchy.best_bound(problem).value
    if problem.minimise == "cycles":
        return 0, 1
    lowest = min(_constants(chains))
    charges = [charge for one in chains.amounts.values() for charge in one.charges.values()]
    unit = gcd(*charges, *(constant - lowest for constant in _constants(chains))) or 1
    return lowest + (least - lowest) // unit * unit, unit


def _constants(chains: Chains) -> list[int]:
    """Return what is spent besides amounts in each case, 0 where time is counted."""
    return next(iter(chains.constants.values()), [0])


class Factor(NamedTuple):
    """A factor of an amount; see the model."""

    amount: int
    switch: int
    first: str
    second: str
    begins: int


class _Data:
    """Tables of the model; what is numbered has numbers from 1.

    Attributes
    ----------
    cuts, memories, switches
        Numbers of loops that nodes may have, of memories' nodes, and of switches by their names.
    amounts, factors, numbers
        See the model.
    tiles
        Room, amount, widths of an element by case, and switch, 0 for none.
    used
        The amount of multipliers, 0 where there is only one.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem, self.chains = problem, chains_of(problem)
        self.cuts = {cut: n for n, cut in enumerate(sorted(self.chains.cuts), 1)}
        self.memories = {i: n for n, i in enumerate(self.chains.memories, 1)}
        # Constants depend on the last switch.
        names = sorted(set(self.chains.switches) - {""}, key=lambda name: (name == "added", name))
        self.switches = {name: number for number, name in enumerate(names, 1)}
        self.amounts: list[Amount] = []
        self.factors: list[Factor] = []
        self.numbers: list[int] = []
        for amount in self.chains.amounts.values():
            self.add(amount)
        for amount in self.chains.limits:
            self.add(amount)
        self.tiles: list[tuple[int, int, tuple[int, ...], int]] = []
        for number, (_, held) in enumerate(self.chains.rooms, 1):
            for amount, widths in held:
                # Of complete outputs and partial sums there are as many.
                at = self.add(Amount("", amount.products[:1], amount.most))
                self.tiles.append((number, at, widths, self.switches.get(amount.switch, 0)))
        self.used = self.add(self.chains.instances) if self.chains.axes else 0

    def add(self, amount: Amount) -> int:
        """Add an amount with its factors; return its number."""
        self.amounts.append(amount)
        tables = [{} if one is None else dict(one.keys) for one in amount.products]
        loops = [loop for loop in LETTERS if any(loop in table for table in tables)]
        pairs = [(loop, loop) for loop in loops]
        if any(one is not None and one.operand == "input" for one in amount.products):
            pairs = [pair for pair in pairs if not any(pair[0] in axis for axis in AXES)]
            pairs += AXES
        if None in amount.products and not pairs:
            pairs = [("g", "g")]
        for first, second in pairs:
            switch, begins = self.switches.get(amount.switch, 0), len(self.numbers) + 1
            self.factors.append(Factor(len(self.amounts), switch, first, second, begins))
            for one, table in zip(amount.products, tables, strict=True):
                self.numbers += self._values(one, table, first, second)
        return len(self.amounts)

    def _values(self, one: Any, table: dict[str, tuple[Key, ...]], first: str, second: str) -> list[int]:
        """Return a factor's values in a case."""
        neutral = (1, 1) if first != second else 1
        firsts = table.get(first, (neutral,) * len(self.chains.chains[first]))
        if first == second:
            return [0 if one is None else self.chains.value(one, {first: key}) for key in firsts]
        seconds = table.get(second, (neutral,) * len(self.chains.chains[second]))
        return [self.chains.value(one, {first: a, second: b}) for a in firsts for b in seconds]

    def _values_of(self, number: int) -> list[list[int]]:
        """Return the values of each factor of an amount."""
        begins = [one.begins - 1 for one in self.factors]
        ends = [*begins[1:], len(self.numbers)]
        return [
            self.numbers[begin:end]
            for one, begin, end in zip(self.factors, begins, ends, strict=True)
            if one.amount == number
        ]

    def least(self, number: int) -> int:
        """Return what an amount is at least."""
        return prod(map(min, self._values_of(number)))

    def most(self, number: int) -> int:
        """Return what an amount can be at most."""
        natural = prod(map(max, self._values_of(number)))
        given = self.amounts[number - 1].most
        return natural if given is None else min(natural, given)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that core.hierarchy.mzn declares, all but those of the search.

    Raises
    ------
    InputError
        If a number is larger than MiniZinc can count.
    """
    tables = _Data(problem)
    costs = _cost_data(tables)
    return _chain_data(tables) | _switch_data(tables) | _amount_data(tables) | _tile_data(tables) | costs


def _chain_data(tables: _Data) -> dict[str, Any]:
    """Return chains, the loops that nodes may have, and the orders of memories' loops."""
    chains, cuts = tables.chains, tables.cuts
    memories = tables.memories
    stays = [
        (i, n, order) for i, every in chains.orders.items() for n, order in enumerate(every, 1) if order.loops
    ]
    return {
        "n_chains": [len(chains.chains[loop]) for loop in LETTERS],
        "n_cuts": len(cuts),
        "loop_of": [{"e": loop.upper()} for _, loop in cuts],
        "cut_by": [
            {n for n, chain in enumerate(chains.chains[loop], 1) if chain[i] > chain[i + 1]}
            for i, loop in cuts
        ],
        "n_memories": len(memories),
        "n_orders": [len(chains.orders[i]) for i in memories],
        "cuts_of": [{n for cut, n in cuts.items() if cut[0] == i and cut[1] != "g"} for i in memories],
        "groups_of": [{n for cut, n in cuts.items() if cut == (i, "g")} for i in memories],
        "n_stays": len(stays),
        "stay_memory": [memories[i] for i, _, _ in stays],
        "stay_order": [n for _, n, _ in stays],
        "stay_cuts": [{cuts[i, loop] for loop in order.loops} for i, _, order in stays],
    }


def _switch_data(tables: _Data) -> dict[str, Any]:
    """Return the cases of each switch."""
    chains, cuts = tables.chains, tables.cuts
    cases = [
        (number, n, case)
        for name, number in tables.switches.items()
        for n, case in enumerate(chains.switches[name], 1)
    ]
    return {
        "n_switches": len(tables.switches),
        "n_cases": [len(chains.switches[name]) for name in tables.switches],
        "n_all_cases": len(cases),
        "case_switch": [number for number, _, _ in cases],
        "case_number": [n for _, n, _ in cases],
        "any_of": [{cuts[cut] for cut in case.any_of} for _, _, case in cases],
        "none_of": [{cuts[cut] for cut in case.none_of} for _, _, case in cases],
        "case_memory": [tables.memories[case.node] if case.orders else 0 for _, _, case in cases],
        "case_orders": [
            {chains.orders[case.node].index(order) + 1 for order in case.orders} for _, _, case in cases
        ],
    }


def _amount_data(tables: _Data) -> dict[str, Any]:
    """Return the amounts' factors."""
    return {
        "n_amounts": len(tables.amounts),
        "n_factors": len(tables.factors),
        "factor_of": [one.amount for one in tables.factors],
        "factor_switch": [one.switch for one in tables.factors],
        "first_loop": [{"e": one.first.upper()} for one in tables.factors],
        "second_loop": [{"e": one.second.upper()} for one in tables.factors],
        "begins": [one.begins for one in tables.factors],
        "numbers": tables.numbers,
    }


def _tile_data(tables: _Data) -> dict[str, Any]:
    """Return capacities and tiles, each memory's in units of what all its widths are multiples of."""
    rooms, tiles = tables.chains.rooms, tables.tiles
    units = [gcd(*(width for _, widths in held for width in widths)) or 1 for _, held in rooms]
    return {
        "n_rooms": len(rooms),
        "room": [bits // unit for (bits, _), unit in zip(rooms, units, strict=True)],
        "n_tiles": len(tiles),
        "tile_room": [room for room, _, _, _ in tiles],
        "tile_amount": [amount for _, amount, _, _ in tiles],
        "tile_width": [widths[0] // units[room - 1] for room, _, widths, _ in tiles],
        "tile_switch": [switch for _, _, _, switch in tiles],
        "partial_width": [widths[-1] // units[room - 1] for room, _, widths, _ in tiles],
    }


def _cost_data(tables: _Data) -> dict[str, Any]:
    """Return what amounts are charged, bounds on them and on the objective, and the ports."""
    problem, chains = tables.problem, tables.chains
    (offset, unit), known = scale(problem), None if narrow() else known_plan(problem)
    timed, lowest = problem.minimise == "cycles", min(_constants(chains))
    charges = [0 if timed else sum(one.charges.values()) // unit for one in tables.amounts]
    constants = [(constant - lowest) // unit for constant in _constants(chains)]
    least = 0 if timed else (offset - lowest) // unit
    worst = LARGEST - max(0, least)  # all that MiniZinc can count; also where nothing fits
    if known is not None:
        worst = (hierarchy.objective(problem, known) - offset) // unit
    most = [tables.most(n) for n in range(1, len(tables.amounts) + 1)]
    if not timed and min(charges, default=0) >= 0:
        # What spends more than a known plan in all is not worth finding.
        most = [
            min(each, (worst + least) // charge) if charge else each
            for each, charge in zip(most, charges, strict=True)
        ]
    ports = _ports(tables) if timed else []
    total = 0 if known is None else worst + least
    taken = [abs(each) for one in ports for each in one.takes]
    macs = problem.one_layer.macs
    large = max(worst, total, macs * timed, *most, *map(abs, charges), *constants, *taken)
    if large > LARGEST:
        limit = f"gives numbers up to {large} in units of {unit}, and MiniZinc counts to {LARGEST}"
        raise InputError("layer", problem.one_layer.input, limit)
    return {
        "most": most,
        "timed": timed,
        "least": least,
        "fewest": hierarchy.best_bound(problem).value if timed else 0,
        "worst": worst,
        "charge": charges,
        "constants": constants,
        "n_ports": len(ports),
        "cycle": [one.cycle for one in ports],
        "computes": [one.computes for one in ports],
        "takes": [one.takes for one in ports],
        "always": [one.always for one in ports],
        "rest": [one.rest for one in ports],
        "used": tables.used,
        "macs": macs,
        "macs_per_cycle": problem.machine.macs_per_cycle,
    }


class Port(NamedTuple):
    """A sum that is no longer than the time; see the model."""

    cycle: int
    computes: bool
    takes: list[int]
    always: int
    rest: int


def _ports(tables: _Data) -> list[Port]:
    """Return the ports of the memories, and what the multipliers wait for."""
    rows: list[tuple[bool, list[int]]] = []
    waiting = [0] * len(tables.amounts)
    for q, quantity in enumerate(tables.chains.quantities):
        ticks = [one.charges.get(q, 0) for one in tables.amounts]
        if quantity.kind == WAITING:
            waiting = ticks
        elif any(ticks):
            rows.append((False, ticks))
    rows.append((True, waiting))
    ends = [(tables.least(n), tables.most(n)) for n in range(1, len(tables.amounts) + 1)]
    found = []
    for computes, ticks in rows:
        common = gcd(TICKS, *ticks)
        fixed = sum(each * most for each, (least, most) in zip(ticks, ends, strict=True) if least == most)
        always, rest = divmod(fixed // common, TICKS // common)
        takes = [
            each // common if least < most else 0 for each, (least, most) in zip(ticks, ends, strict=True)
        ]
        found.append(Port(TICKS // common, computes, takes, always, rest))
    return found


def start(problem: Problem, plan: Plan) -> list[int] | None:
    """Return chains and orders, from 1, of the plan in the model's space that a plan becomes.

    One above what the model's domains admit gives way to the known plan that they come from.
    """
    given, known = plan.layers[0], known_plan(problem)
    inside = known
    if isinstance(given, HierarchyPlan) and hierarchy.violation(problem, given) is None:
        inside = given
        if known is not None and not narrow():
            inside = min(given, known, key=lambda one: hierarchy.objective(problem, one))
    if inside is None:
        return None
    chains = chains_of(problem)
    chosen, orders = chains.chosen(inside)
    return [
        *(chains.chains[loop].index(chosen[loop]) + 1 for loop in LETTERS),
        *(chains.orders[i].index(orders[i]) + 1 for i in chains.memories),
    ]


def decisions(solution: Any) -> list[int]:
    """Return chains and orders of a solution, in the order of `start`."""
    return [*solution.chain, *solution.order]


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of core.hierarchy.mzn."""
    chains = chains_of(problem)
    chosen = {
        loop: chains.chains[loop][number - 1] for loop, number in zip(LETTERS, solution.chain, strict=True)
    }
    orders = {
        i: chains.orders[i][number - 1] for i, number in zip(chains.memories, solution.order, strict=True)
    }
    return Plan((chains.plan(chosen, orders),))


def term(problem: Problem, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc.

    What a plan costs is not stated: a switch may be in a case that costs more than the plan.
    """
    chains, machine = chains_of(problem), problem.machine
    assert machine.kind == "hierarchy"
    if one.word == "utilisation":
        axes = axes_of(machine)
        used = " * ".join(_instances(chains, machine, name) for name in axes) or "1"
        return f"100 * ({used}) div {prod(axes.values())}"
    if not one.arguments:
        return None
    node = node_of(machine, str(one.arguments[0]))
    match one.word:
        case "tile":
            return _sizes(chains, node, LOOP_LETTERS[str(one.arguments[1])])
        case "iterations":
            return _iterations(chains, node, LOOP_LETTERS[str(one.arguments[1])])
        case "instances":
            return _instances(chains, machine, str(one.arguments[0]))
        case "holds":
            return str(one.arguments[1] in machine.nodes[node].holds).lower()
        case "elements":
            held = one.arguments[1] in machine.nodes[node].holds
            return _elements(problem, chains, node, str(one.arguments[1])) if held else "0"
    return None


def _of_chain(loop: str, values: list[int]) -> str:
    """Return what a loop's chain decides."""
    return f"{values}[chain[{loop.upper()}]]"


def _sizes(chains: Chains, node: int, loop: str) -> str:
    return _of_chain(loop, [chain[node] for chain in chains.chains[loop]])


def _iterations(chains: Chains, node: int, loop: str) -> str:
    return _of_chain(loop, [chain[node] // chain[node + 1] for chain in chains.chains[loop]])


def _instances(chains: Chains, machine: HierarchyMachine, name: str) -> str:
    node = node_of(machine, name)
    axis = machine.nodes[node].axis
    assert axis is not None
    return " * ".join(_iterations(chains, node, loop) for loop in axis.loops)


def _elements(problem: Problem, chains: Chains, node: int, operand: str) -> str:
    """Return the elements of an operand under the block that enters a node."""
    sides = "".join(map("".join, AXES)) if operand == "input" else ""
    factors = [_sizes(chains, node, loop) for loop in USES[operand] if loop not in sides]
    layer = problem.one_layer
    for axis, (out, tap) in enumerate(AXES if sides else ()):
        outs, taps = (chains.chains[loop] for loop in (out, tap))
        geometry = layer.stride[axis], layer.dilation[axis]
        values = [window(one[node], other[node], *geometry) for one in outs for other in taps]
        factors.append(f"{values}[(chain[{out.upper()}] - 1) * {len(taps)} + chain[{tap.upper()}]]")
    return " * ".join(factors)
