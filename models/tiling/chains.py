"""An integer program for one layer on a hierarchy of memories: a chain of divisors for each loop.

One binary for each loop and chain of blocks says how the loop is cut, so every step divides the block outside
by construction; one for each memory and order of its loops says which operand stays. Costs and tiles are
products over the loops, which no linear program has. But a product of factors that take few values each is
the sum of all its possible values, each times a variable that is 1 for the one that the chains select: its
*picks*. For each value of a factor, the picks with it sum to what the chains with it do. Where a tile's
fetches depend on the innermost loop that moves it, there are picks for each case, and a binary for the case.

Limits of cost are sums of picks, too. With what levels may hold, each combination has variables of its own,
and one combination is used.

Extra: picks of all cases together follow the chains where the cases agree in what a loop contributes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import pyomo.environ as pyo

from tilewright.spec.constraints import Term
from tilewright.tiling import Plan, Problem, best_bound, objective, violation
from tilewright.tiling.hierarchy.chains import Amount, Chains, Key, refuse_others
from tilewright.tiling.hierarchy.charges import SPENT, WAITING
from tilewright.tiling.hierarchy.cost import TICKS
from tilewright.tiling.hierarchy.level import Kept
from tilewright.tiling.hierarchy.plan import LETTERS, HierarchyPlan
from tilewright.tiling.hierarchy.vocabulary import node_of

CHOOSES_COLUMNS = True
"""Its costs are numbers that the package computes before."""

WORDS = ("tile", "iterations", "holds")


class Pick(NamedTuple):
    """A possible value of an amount: what each loop contributes in a case, and the value."""

    case: int
    keys: tuple[Key, ...]
    value: int


class Listed(NamedTuple):
    """An amount and its possible values."""

    amount: Amount
    picks: list[Pick]


class Part(NamedTuple):
    """The plans that hold the same where levels may hold something."""

    kept: Kept
    chains: Chains
    charged: list[Listed]
    limits: list[Listed]
    rooms: list[tuple[int, list[tuple[Listed, tuple[int, ...]]]]]
    instances: Listed


def suits(problem: Problem) -> bool:
    """Whether this is a layer on a hierarchy of memories, with steps that divide."""
    return problem.machine.kind == "hierarchy" and problem.limits.factors != "any" and not problem.coupled


def size(problem: Problem) -> int:
    """Return the number of picks, of which there are more than constraints."""
    return sum(
        len(one.picks)
        for part in _parts(problem)
        for one in (*part.charged, *part.limits, *(one for _, held in part.rooms for one, _ in held))
    )


def build(problem: Problem, extras: bool = True) -> Any:
    """Return the model, with or without its extra."""
    parts = _parts(problem)
    m = pyo.ConcreteModel(name="chains")
    m.problem, m.parts = problem, parts
    m.PARTS = pyo.RangeSet(0, len(parts) - 1)
    m.uses = pyo.Var(m.PARTS, domain=pyo.Binary)  # the plan holds what this part holds
    m.one_part = pyo.Constraint(expr=sum(m.uses[p] for p in m.PARTS) == 1)
    m.part = pyo.Block(m.PARTS)
    for p in m.PARTS:
        _Builder(m.part[p], m.uses[p], parts[p], extras).build()
    if problem.minimise == "cycles":
        _minimise_time(m)
    else:
        _minimise_spent(m)
    m.costs_are_within_limits = pyo.ConstraintList()
    for name, most in problem.limits.at_most.given.items():
        if name == "cycles":
            _limit_time(m, m.costs_are_within_limits, most)
        else:
            _limit_spent(m, name, most)
    return m


def _minimise_time(m: Any) -> None:
    """Minimise the longest of several sums of ticks, counted from the bound on."""
    m.offset, m.unit = best_bound(m.problem).value, 1
    m.largest = m.offset
    m.beyond = pyo.Var(domain=pyo.NonNegativeIntegers)
    m.no_sum_exceeds_the_time = pyo.ConstraintList()
    _limit_time(m, m.no_sum_exceeds_the_time, m.beyond + m.offset)
    m.cost = pyo.Objective(expr=m.beyond)


def _limit_time(m: Any, rows: Any, most: Any) -> None:
    """Let no sum of ticks be more than so many cycles."""
    for p in m.PARTS:
        for terms in m.part[p].ticks:
            common = gcd(TICKS, *(value for value, _ in terms))
            # Whole numbers where they are small enough to be exact.
            by = common if TICKS // common <= 1000 else TICKS
            used = sum(value / by * variable for value, variable in terms)
            rows.add(used <= TICKS / by * most)


def _spent(m: Any, name: str) -> tuple[int, int, list[tuple[int, Any]], list[tuple[int, Any]]]:
    """Return unit and offset of what is spent, and what it is a sum of: amounts, and one of the constants."""
    constants = [value for part in m.parts for value in part.chains.constants[part.chains.spent[name]]]
    spent, lowest = [term for p in m.PARTS for term in m.part[p].spent[name]], min(constants)
    unit = gcd(*(value for value, _ in spent), *(value - lowest for value in constants)) or 1
    return unit, lowest, spent, [term for p in m.PARTS for term in m.part[p].fixed[name]]


def _minimise_spent(m: Any) -> None:
    """Minimise what is spent beyond the bound: counted from there, objectives are small."""
    m.unit, lowest, spent, fixed = _spent(m, m.problem.minimise)
    least = best_bound(m.problem).value
    m.offset = lowest + (least - lowest) // m.unit * m.unit
    m.largest = least // m.unit
    expression = sum(value // m.unit * variable for value, variable in spent)
    m.cost = pyo.Objective(expr=expression + sum((v - m.offset) // m.unit * one for v, one in fixed))


def _limit_spent(m: Any, name: str, most: int) -> None:
    """Let no more be spent than a limit."""
    unit, lowest, spent, fixed = _spent(m, name)
    expression = sum(value // unit * variable for value, variable in spent)
    expression += sum((value - lowest) // unit * variable for value, variable in fixed)
    m.costs_are_within_limits.add(expression <= (most - lowest) // unit)


def term(m: Any, one: Term) -> Any:
    """Return a term of the vocabulary."""
    memory, name = map(str, one.arguments)
    found: Any = 0
    for p, part in enumerate(m.parts):
        node = node_of(part.chains.machine, memory)
        if one.word == "holds":
            found += int(name in part.chains.machine.nodes[node].holds) * m.uses[p]
            continue
        loop = LETTERS[name]
        for n, chain in enumerate(part.chains.chains[loop]):
            value = chain[node] if one.word == "tile" else chain[node] // chain[node + 1]
            found += value * m.part[p].chain[loop, n]
    return found


def start(m: Any, plan: Plan) -> None:
    """Set every variable to its value in a plan, with orders that are no worse."""
    given = plan.layers[0]
    for variable in m.component_data_objects(pyo.Var):
        variable.set_value(0)
    if violation(m.problem, plan) is not None:
        return
    for p, part in enumerate(m.parts):
        if isinstance(given, HierarchyPlan) and given.kept == part.kept:
            m.uses[p] = 1
            _start(m.part[p], part.chains, given)
            if m.problem.minimise == "cycles":
                m.beyond = objective(m.problem, read(m)) - m.offset


def read(m: Any) -> Plan:
    """Return the plan that the variables describe."""
    p = max(m.PARTS, key=lambda p: m.uses[p].value)
    kept, chains, b = m.parts[p].kept, m.parts[p].chains, m.part[p]
    chosen = {
        loop: max(zip(every, range(len(every)), strict=True), key=lambda one: b.chain[loop, one[1]].value)[0]
        for loop, every in chains.chains.items()
    }
    orders = {
        i: max(zip(every, range(len(every)), strict=True), key=lambda one: b.order[i, one[1]].value)[0]
        for i, every in chains.orders.items()
    }
    return Plan((HierarchyPlan(chains.plan(chosen, orders).nest, kept),))


@lru_cache(maxsize=4)
def _parts(problem: Problem) -> tuple[Part, ...]:
    """Return the parts of a problem."""
    refuse_others(problem)
    machine, parts = problem.machine, []
    assert machine.kind == "hierarchy"
    for kept in machine.choices:
        goals = (problem.minimise, *problem.limits.at_most.given)
        chains = Chains(problem.one_layer, machine.keeping(kept), goals, problem.level)

        def listed(amount: Amount, chains: Chains = chains) -> Listed:
            picks = [
                Pick(case, keys, value)
                for case, one in enumerate(amount.products)
                for keys, value in (() if one is None else chains.values(amount, one))
            ]
            return Listed(amount, picks)

        rooms = [(bits, [(listed(amount), widths) for amount, widths in held]) for bits, held in chains.rooms]
        charged = [listed(amount) for amount in chains.amounts.values()]
        limits = [listed(amount) for amount in chains.limits]
        parts.append(Part(kept, chains, charged, limits, rooms, listed(chains.instances)))
    return tuple(parts)


def _numbered(lists: Mapping[Any, Sequence[Any]]) -> list[tuple[Any, int]]:
    """Return the numbers of what is in each list, with the name of the list."""
    return [(name, n) for name, every in lists.items() for n in range(len(every))]


class _Builder:
    """The variables and constraints of a part, all zero where it is not used.

    Parameters
    ----------
    b
        Its block. Attributes that are no Pyomo components: ``spent`` and ``fixed``, what is spent, as factors
        of variables, by what is counted; ``ticks``, several such sums of which the longest is the time.
    uses
        The binary of the part.
    """

    def __init__(self, b: Any, uses: Any, part: Part, extras: bool) -> None:
        self.b, self.uses, self.part, self.chains, self.extras = b, uses, part, part.chains, extras
        self.factors: dict[tuple[str, tuple[Key, ...]], dict[Key, Any]] = {}

    def build(self) -> None:
        """Build the block."""
        b, chains = self.b, self.chains
        b.CHAINS = pyo.Set(dimen=2, initialize=_numbered(chains.chains))
        b.ORDERS = pyo.Set(dimen=2, initialize=_numbered(chains.orders))
        b.CASES = pyo.Set(dimen=2, initialize=_numbered(chains.switches))
        b.CUTS = pyo.Set(dimen=2, initialize=sorted(chains.cuts))
        b.chain = pyo.Var(b.CHAINS, domain=pyo.Binary)  # the loop's blocks are these
        b.order = pyo.Var(b.ORDERS, domain=pyo.Binary)  # the memory's loops have this order
        b.case = pyo.Var(b.CASES, domain=pyo.Binary)  # the switch is in this case
        b.cut = pyo.Var(b.CUTS, bounds=(0, 1))  # the node has this loop
        b.factor = pyo.VarList(bounds=(0, 1))  # a loop contributes this factor to products
        b.pick = pyo.VarList(bounds=(0, 1))  # an amount has this value
        b.picks, b.factors = [], []
        b.factor_follows_its_chains = pyo.ConstraintList()
        b.one_value_in_the_case = pyo.ConstraintList()
        b.value_follows_its_factors = pyo.ConstraintList()
        b.values_of_all_cases_follow_factors = pyo.ConstraintList()
        b.tiles_fit = pyo.ConstraintList()

        @b.Constraint(list(chains.chains))
        def one_chain(b: Any, loop: str) -> Any:
            return sum(b.chain[loop, n] for n in range(len(chains.chains[loop]))) == self.uses

        @b.Constraint(b.CUTS)
        def node_has_the_loop_if_a_chain_cuts(b: Any, i: int, loop: str) -> Any:
            every = enumerate(chains.chains[loop])
            return b.cut[i, loop] == sum(b.chain[loop, n] for n, chain in every if chain[i] > chain[i + 1])

        self._order_loops()
        self._switch_cases()
        for limit in self.part.limits:
            self._pick(limit)
        for bits, held in self.part.rooms:
            self._fit(bits, held)
        self._charge()

    def _charge(self) -> None:
        """Say what is spent, and what takes time."""
        b, chains = self.b, self.chains
        sums: dict[int, list[tuple[int, Any]]] = defaultdict(list)
        for one in self.part.charged:
            for pick, variable in self._pick(one):
                for q, charge in one.amount.charges.items():
                    sums[q].append((charge * pick.value, variable))
        b.spent = {name: sums[q] for name, q in chains.spent.items()}
        b.fixed = {
            name: [(value, b.case["added", n]) for n, value in enumerate(chains.constants[q])]
            for name, q in chains.spent.items()
        }
        b.ticks = []
        timed = [(q, quantity.kind) for q, quantity in enumerate(chains.quantities) if quantity.kind != SPENT]
        if not timed:
            return
        computing = [(chains.ticks(pick.value), each) for pick, each in self._pick(self.part.instances)]
        for q, kind in timed:
            if kind == WAITING:
                computing += sums[q]
            elif sums[q]:
                b.ticks.append(sums[q])
        b.ticks.append(computing)

    def _order_loops(self) -> None:
        """Say which orders a memory's loops can have.

        Each loop but that over groups leaves one operand in place. So one stays, unless the innermost loop is
        that over groups, or there is none.
        """
        b, chains = self.b, self.chains

        @b.Constraint(list(chains.orders))
        def one_order(b: Any, i: int) -> Any:
            return sum(b.order[i, n] for n in range(len(chains.orders[i]))) == self.uses

        @b.Constraint(b.ORDERS)
        def some_loop_lets_it_stay(b: Any, i: int, n: int) -> Any:
            loops = chains.orders[i][n].loops
            if not loops:
                return pyo.Constraint.Skip
            return b.order[i, n] <= sum(b.cut[i, loop] for loop in loops)

        @b.Constraint(b.CUTS)
        def something_stays(b: Any, i: int, loop: str) -> Any:
            if i not in chains.orders or loop == "g":
                return pyo.Constraint.Skip
            groups = b.cut[i, "g"] if (i, "g") in b.CUTS else 0
            return b.order[i, 0] + b.cut[i, loop] <= self.uses + groups

    def _switch_cases(self) -> None:
        """Say which case of each switch a plan may be in."""
        b, switches = self.b, self.chains.switches
        b.EXCLUDED = pyo.Set(
            dimen=4,
            initialize=[
                (name, n, *cut)
                for name, cases in switches.items()
                for n, case in enumerate(cases)
                for cut in case.none_of
            ],
        )

        @b.Constraint(list(switches))
        def one_case(b: Any, name: str) -> Any:
            return sum(b.case[name, n] for n in range(len(switches[name]))) == self.uses

        @b.Constraint(b.CASES)
        def case_has_one_of_its_loops(b: Any, name: str, n: int) -> Any:
            loops = switches[name][n].any_of
            return b.case[name, n] <= sum(b.cut[cut] for cut in loops) if loops else pyo.Constraint.Skip

        @b.Constraint(b.EXCLUDED)
        def case_has_no_other_loop(b: Any, name: str, n: int, i: int, loop: str) -> Any:
            return b.case[name, n] + b.cut[i, loop] <= self.uses

        @b.Constraint(b.CASES)
        def case_has_one_of_its_orders(b: Any, name: str, n: int) -> Any:
            case = switches[name][n]
            if not case.orders:
                return pyo.Constraint.Skip
            every = self.chains.orders[case.node]
            return b.case[name, n] <= sum(b.order[case.node, every.index(order)] for order in case.orders)

    def _factor(self, loop: str, keys: tuple[Key, ...]) -> dict[Key, Any]:
        """Return for what a loop may contribute the variables that say so."""
        if (loop, keys) not in self.factors:
            found = {}
            for key in dict.fromkeys(keys):
                found[key] = variable = self.b.factor.add()
                chains = [n for n, each in enumerate(keys) if each == key]
                self.b.factor_follows_its_chains.add(variable == sum(self.b.chain[loop, n] for n in chains))
                self.b.factors.append((variable, loop, frozenset(chains)))
            self.factors[loop, keys] = found
        return self.factors[loop, keys]

    def _pick(self, one: Listed) -> list[tuple[Pick, Any]]:
        """Add the picks of an amount; return each with its variable."""
        b, amount = self.b, one.amount
        found = [(pick, b.pick.add()) for pick in one.picks]
        b.picks += [(variable, amount, pick) for pick, variable in found]
        by_case: dict[int, list[Any]] = defaultdict(list)
        by_key: dict[tuple[int, int, Key], list[Any]] = defaultdict(list)
        for pick, variable in found:
            by_case[pick.case].append(variable)
            for place, key in enumerate(pick.keys):
                by_key[pick.case, place, key].append(variable)
        alone = len(amount.products) == 1
        for case, product in enumerate(amount.products):
            if product is None:
                continue
            b.one_value_in_the_case.add(sum(by_case[case]) == b.case[amount.switch, case])
            for place, (loop, keys) in enumerate(product.keys):
                for key, variable in self._factor(loop, keys).items():
                    picked = sum(by_key[case, place, key])
                    follows = picked == variable if alone else picked <= variable
                    b.value_follows_its_factors.add(follows)
        if self.extras and not alone and None not in amount.products:
            self._link(amount, by_key)
        return found

    def _link(self, amount: Amount, by_key: dict[tuple[int, int, Key], list[Any]]) -> None:
        """Link the picks of all cases together, where these agree in what a loop contributes."""
        places = [
            {each: place for place, each in enumerate(product.keys)}
            for product in amount.products
            if product is not None
        ]
        for loop, keys in places[0]:
            if all((loop, keys) in place for place in places):
                for key, variable in self._factor(loop, keys).items():
                    picked = [
                        each
                        for case, place in enumerate(places)
                        for each in by_key[case, place[loop, keys], key]
                    ]
                    self.b.values_of_all_cases_follow_factors.add(sum(picked) == variable)

    def _fit(self, bits: int, held: list[tuple[Listed, tuple[int, ...]]]) -> None:
        """Let tiles fit together, in whole units."""
        unit = gcd(*(width for _, widths in held for width in widths))
        need: list[Any] = []
        for one, widths in held:
            kept = [pick for pick in one.picks if pick.value * widths[pick.case] <= bits]
            for pick, variable in self._pick(Listed(one.amount, kept)):
                need.append(pick.value * widths[pick.case] // unit * variable)
        if len(held) > 1:
            self.b.tiles_fit.add(sum(need) <= bits // unit * self.uses)


def _start(b: Any, chains: Chains, plan: HierarchyPlan) -> None:
    """Set the variables of a plan's part."""
    chosen, orders = chains.chosen(plan)
    number = {loop: chains.chains[loop].index(chain) for loop, chain in chosen.items()}
    for loop, n in number.items():
        b.chain[loop, n] = 1
    for i, order in orders.items():
        b.order[i, chains.orders[i].index(order)] = 1
    for i, loop in b.CUTS:
        b.cut[i, loop] = int(chosen[loop][i] > chosen[loop][i + 1])
    for variable, loop, those in b.factors:
        variable.set_value(int(number[loop] in those))
    taken = {name: chains.case_of(name, chosen, orders) for name in chains.switches}
    for name, n in taken.items():
        b.case[name, n] = 1
    for variable, amount, pick in b.picks:
        product = amount.products[pick.case]
        if pick.case == taken[amount.switch]:
            keys = tuple(each[number[loop]] for loop, each in product.keys)
            variable.set_value(int(keys == pick.keys))
