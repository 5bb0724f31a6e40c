"""Plans as values of the decisions of ``models/residency/reference.mzn``, and solutions as plans."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.graph import Graph, Reading
from tilewright.residency.plan import MAP, ORDERS, Plan, Step, key_of
from tilewright.residency.problem import Problem
from tilewright.residency.reference_network import Network
from tilewright.residency.shapes import tiles
from tilewright.spec.network import MatMul

_DECISIONS = (
    *("used", "step", "staying", "kept", "resident", "written", "fetched", "on_chip"),
    *("order", "pixels", "columns", "kernels", "deep", "in_place"),
    *("running", "doubled", "in_blocks", "keys", "tiled"),
    *("address", "line_at", "weights_at", "block_at", "operand_at", "sums_at"),
)
"""What `start` has, in the order of the model."""


def start(problem: Problem, plan: Plan) -> list[int]:
    """Return a plan as values of the decisions."""
    return _flat(_Decided(problem, plan))


def decisions(_problem: Problem, solution: Any) -> list[int]:
    """Return the decisions of a solution, in the order of `start`."""
    return _flat(solution)


def _flat(values: Any) -> list[int]:
    found: list[int] = []
    for name in _DECISIONS:
        for row in getattr(values, name):
            found += [int(value) for value in (row if isinstance(row, list) else [row])]
    return found


class _Decided:
    """The decisions of a plan, under the names that they have in the model."""

    def __init__(self, problem: Problem, plan: Plan) -> None:
        network = self.network = Network(problem)
        every, tensors, steps = network.executions, network.repeated, range(len(network.executions))
        self.used = self._used(plan)
        self.step, self.kept, self.in_place = [0 for _ in steps], [False for _ in steps], [0 for _ in steps]
        self.running, self.doubled = [False for _ in steps], [False for _ in steps]
        self.in_blocks, self.keys = [False for _ in steps], [0 for _ in steps]
        self.tiled = [False for _ in steps]
        self.order, self.pixels = [1 for _ in steps], [1 for _ in steps]
        self.kernels, self.deep = [1 for _ in steps], [1 for _ in steps]
        self.columns = [problem.graph.tensors[each.operation.number + 1].shape[2] for each in every]
        self.weights_at, self.block_at = [0 for _ in steps], [0 for _ in steps]
        self.operand_at, self.sums_at = [0 for _ in steps], [0 for _ in network.graph.attentions]
        self.staying = [each.name in plan.staying for each in every]
        self.resident, self.written = [False for _ in tensors], [False for _ in tensors]
        self.on_chip = [[False, *(False for _ in steps)] for _ in tensors]
        self.fetched = [[False for _ in steps] for _ in tensors]
        self.address, self.line_at = (
            [[0 for _ in steps] for _ in tensors],
            [[0 for _ in steps] for _ in tensors],
        )
        for name, address in plan.staying.items():
            self.weights_at[network.places[name] - 1] = address
        for number, step in enumerate(plan.steps, 1):
            for name in step.operations:
                self.step[network.places[name] - 1] = number
        for number, step in enumerate(plan.steps, 1):
            self._cut(step)
            self._place(step, number)

    def _used(self, plan: Plan) -> list[bool]:
        """Return what is read: of an operation with two executions, what the plan says."""
        network, found = self.network, []
        executed = {name for step in plan.steps for name in step.operations}
        for each in network.readings:
            reader = network.executions[each.execution - 1].name
            made = network.graph.tensors[network.repeated[each.tensor - 1]].name
            of_second = reader in plan.again.get(made, ())
            found.append(reader in executed and of_second == (each.instead > 0))
        return found

    def _cut(self, step: Step) -> None:
        """Take over how a step is cut up; what its plan need not say has one value in the model."""
        places = [self.network.places[name] - 1 for name in step.operations]
        last, every = places[-1], self.network.executions
        loaded = [p for p in places if every[p].operation.weights and not self.staying[p]]
        self.running[last], self.doubled[last] = step.running, step.double_buffering
        self.in_blocks[last], self.keys[last] = step.blocks, step.keys or 0
        self.tiled[last] = step.blocks and step.channels is not None
        running = every[last].operation.running
        for place in places:
            self.kept[place] = every[place].name in step.kept
        self.order[last], self.pixels[last] = ORDERS.index(step.order) + 1, step.pixels
        if step.order != ORDERS[0] or step.blocks or not all(self.kept[place] for place in loaded):
            self.kernels[last] = step.kernels
        whole = running.plane[1] if step.running and running is not None else self.columns[last]
        self.columns[last] = step.columns or whole
        self.deep[last] = step.channels or 1
        self.in_place[last] = self.network.tensors[step.in_place] if step.in_place is not None else 0

    def _place(self, step: Step, number: int) -> None:
        """Take over what is on chip in a step, and where."""
        tensors, places = self.network.tensors, self.network.places
        new = {tensors[name] - 1 for name in (*step.fetched, *step.resident)}
        dropped = {tensors[name] - 1 for name in step.dropped}
        last = places[step.operations[-1]] - 1
        for name, t in ((name, place - 1) for name, place in tensors.items()):
            self.fetched[t][number - 1] = name in step.fetched
            self.resident[t] |= name in step.resident
            self.written[t] |= name in step.written
            stays = self.on_chip[t][number - 1] and t not in dropped and self._wanted(t, number)
            if t in new:
                self.address[t][number - 1] = step.addresses[key_of(MAP, name)]
            elif stays:
                self.address[t][number - 1] = self.address[t][number - 2]
            self.on_chip[t][number] = stays or t in new
            self.line_at[t][last] = max(self.line_at[t][last], step.addresses.get(key_of("lines", name), 0))
        for name in step.operations:
            place = places[name] - 1
            self.weights_at[place] = step.addresses.get(key_of("weights", name), self.weights_at[place])
            self.operand_at[place] = step.addresses.get(key_of("operand", name), 0)
        for number, attention in enumerate(self.network.graph.attentions):
            name = self.network.graph.operations[attention.context].name
            if name in step.operations:
                self.sums_at[number] = step.addresses.get(key_of("partial sums", name), 0)
        self.block_at[last] = step.addresses.get(key_of("block", step.operations[-1]), 0)

    def _wanted(self, tensor: int, number: int) -> bool:
        """Whether somebody reads a tensor in a step or later."""
        return any(
            used and each.tensor == tensor + 1 and self.step[each.execution - 1] >= number
            for used, each in zip(self.used, self.network.readings, strict=True)
        )


def plan(problem: Problem, solution: Any) -> Plan:
    """Return the plan of a solution of reference.mzn: the very one that it states."""
    network = Network(problem)
    again = _readers_of_second(network, solution)
    stated = _Stated(network, problem_of_plan(problem, Plan((), again=again)).graph, solution)
    steps = tuple(stated.step(number) for number in range(1, max(solution.step) + 1))
    staying = {
        each.name: solution.weights_at[place]
        for place, each in enumerate(network.executions)
        if solution.staying[place]
    }
    return Plan(steps, staying, again)


def _readers_of_second(network: Network, solution: Any) -> dict[str, tuple[str, ...]]:
    """Return the operations that are executed twice, and who reads what the second execution computes."""
    found: dict[int, tuple[str, ...]] = defaultdict(tuple)
    for each, used in zip(network.readings, solution.used, strict=True):
        if each.instead and used:
            found[each.tensor] += (network.executions[each.execution - 1].name,)
    repeated = {each.tensor: network.executions[each.repeats - 1].name for each in network.executions}
    return {repeated[tensor]: found[tensor] for tensor in sorted(found)}


class _Stated:
    """The steps of a solution; its graph has all that is executed, with numbers of its own."""

    def __init__(self, network: Network, graph: Graph, solution: Any) -> None:
        self.graph, self.solution = graph, solution
        self.place = {
            operation.number: network.places[operation.name] - 1
            for operation in graph.numbers(graph.all & ~graph.begin)
        }
        self.tensor = [network.tensors[tensor.name] - 1 for tensor in graph.tensors]

    def step(self, number: int) -> Step:
        """Return a step by its number from 1."""
        graph, solution, place, tensor = self.graph, self.solution, self.place, self.tensor
        mine = [each for each in place if solution.step[place[each]] == number]
        tensors, final = range(len(graph.tensors)), mine[-1]
        last, output = place[final], final + 1
        now = {t for t in tensors if solution.on_chip[tensor[t]][number]}
        fetched = [t for t in tensors if solution.fetched[tensor[t]][number - 1]]
        resident = [t for t in tensors if t - 1 in mine and solution.resident[tensor[t]]]
        left = {each for each in place if solution.step[place[each]] >= number}
        gone = [
            t
            for t in tensors
            if solution.on_chip[tensor[t]][number - 1]
            and left & set(graph.tensors[t].readers)
            and (t not in now or t in fetched)
        ]
        order, columns, taken = (
            ORDERS[solution.order[last] - 1],
            solution.columns[last],
            solution.in_place[last],
        )
        adds, running = bool(solution.running[last]), graph.operations[final].running
        whole = running.plane[1] if adds and running is not None else graph.tensors[output].shape[2]
        cut = order == "tiles" or columns < whole

        def names(numbers: list[int]) -> tuple[str, ...]:
            return tuple(graph.tensors[t].name for t in numbers)

        return Step(
            operations=tuple(graph.operations[each].name for each in mine),
            order=order,
            pixels=solution.pixels[last],
            kernels=solution.kernels[last],
            kept=tuple(graph.operations[each].name for each in mine if solution.kept[place[each]]),
            dropped=names(gone),
            fetched=names(fetched),
            resident=names(resident),
            written=names([t for t in tensors if t - 1 in mine and solution.written[tensor[t]]]),
            in_place=graph.tensors[tensor.index(taken - 1)].name if taken else None,
            addresses=self._addresses(mine, number, now, [*fetched, *resident]),
            columns=columns if cut else None,
            channels=solution.deep[last] if order in tiles.SUMMED or solution.tiled[last] else None,
            running=adds,
            double_buffering=bool(solution.doubled[last]),
            blocks=bool(solution.in_blocks[last]),
            keys=solution.keys[last] or None,
        )

    def _by_block(self, number: int, mine: list[int]) -> list[Reading]:
        """Return how an operation reads second operands of other steps, if its step has them in blocks."""
        operation = self.graph.operations[number]
        if operation.second is None or not self.solution.in_blocks[self.place[mine[-1]]]:
            return []
        return [each for each in operation.readings if each.extent is None and each.tensor - 1 not in mine]

    def _addresses(self, mine: list[int], number: int, now: set[int], new: list[int]) -> dict[str, int]:
        """Return where a step places what is new: of its operations, with what is whole on chip meanwhile."""
        graph, solution, place, tensor = self.graph, self.solution, self.place, self.tensor
        last, final = place[mine[-1]], graph.operations[mine[-1]]
        at = {graph.tensors[t].key: solution.address[tensor[t]][number - 1] for t in new}
        every = {number: graph.operations[number].readings for number in mine}
        by_block = {number: self._by_block(number, mine) for number in mine}
        read = {each.tensor for number in mine for each in every[number] if each not in by_block[number]}
        for t in read - now:
            at[key_of("lines", graph.tensors[t].name)] = solution.line_at[tensor[t]][last]
        for number in mine:
            name, own = graph.operations[number].name, place[number]
            if graph.operations[number].weights and not solution.staying[own]:
                at[key_of("weights", name)] = solution.weights_at[own]
            if any(each.tensor not in now for each in by_block[number]):
                at[key_of("operand", name)] = solution.operand_at[own]
        attending = [each for each in graph.attentions if each.context in mine]
        passed = [each for each in attending if {*each.operations} <= {*mine}]
        if (
            not passed and len(attending) == 1 and attending[0].softmax in mine
        ):  # the scores are in an earlier step
            passed = attending
        passing = [
            (attention, sums_at)
            for attention, sums_at in zip(graph.attentions, solution.sums_at, strict=False)
            if solution.keys[last] and attention in passed
        ]
        for attention, sums_at in passing:
            at[key_of("partial sums", graph.operations[attention.context].name)] = sums_at
        summed = ORDERS[solution.order[last] - 1] in tiles.SUMMED
        partial = summed and solution.deep[last] < tiles.summed_channels(graph, final)
        if solution.tiled[last] and isinstance(final.op.spec, MatMul):
            partial = solution.deep[last] < final.op.spec.depth
        summed_up = any(attention.context == final.number for attention, _ in passing)
        if partial or solution.running[last] or (final.number + 1 not in now and not summed_up):
            at[key_of("block", final.name)] = solution.block_at[last]
        return at
