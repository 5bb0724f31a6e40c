"""Residency and its reference model: data of ``models/residency/reference.mzn``, plans from solutions.

The data are raw: sizes of layers, edges of the graph, how windows lie, figures of the machine.
"""

from __future__ import annotations

from collections import defaultdict
from math import gcd
from pathlib import Path
from typing import Any

from tilewright.residency.derived_problems import problem_of_plan
from tilewright.residency.graph import Graph, Operation, Running
from tilewright.residency.machine import ONE
from tilewright.residency.plan import MAP, ORDERS, Plan, Step, key_of
from tilewright.residency.problem import Problem
from tilewright.residency.reference_network import Network
from tilewright.residency.shapes import tiles
from tilewright.simulator.arithmetic.pixel_arithmetic import Work
from tilewright.spec.constraints import Term
from tilewright.spec.constraints.parts import terms

OBJECTIVES = ("traffic", "memory", "cycles", "energy")

MOST = 2**31 - 3
"""Largest number of MiniZinc's solvers."""

MOST_PIXELS = 64
"""Most pixels of a map: how windows lie is counted pixel by pixel, for each number of pixels at a time."""

MOST_CHANGING = 5
"""Most readings that may be of second executions: each set of them is a network with windows to count."""


def why_not(problem: Problem, _formulation: Path | None = None) -> str | None:
    """Say why the reference model does not take a problem, or None."""
    graph = problem.graph
    if problem.before:
        return "has a list of objectives"
    if problem.machine.double_buffering:
        return "machine.double_buffering: second buffers are not in the model"
    if any(operation.second is not None for operation in graph.operations):
        return "second operands of products may be loaded in blocks, which are not in the model"
    if graph.read_in_parts or any(operation.op.has_views for operation in graph.operations):
        return "some tensors are read in parts"
    pairs = zip(graph.operations, graph.reads, strict=True)
    if any(len(operation.readings) > read.bit_count() for operation, read in pairs):
        return "an operation reads a tensor in two ways"
    if (most := max(tensor.pixels for tensor in graph.tensors)) > MOST_PIXELS:
        return f"maps have up to {most:,} pixels, the model takes {MOST_PIXELS}"
    if (changing := sum(each.instead > 0 for each in Network(problem).readings)) > MOST_CHANGING:
        return (
            f"limits.executions: {changing} readings may be of second executions, "
            f"the model takes {MOST_CHANGING}"
        )
    if (worst := worst_number(problem)) > MOST:
        return f"numbers up to {worst:,} may occur, the solvers of MiniZinc count to {MOST:,}"
    return None


def suits(problem: Problem, _formulation: Path) -> bool:
    """Whether the model takes a problem."""
    return why_not(problem) is None


def size(problem: Problem) -> int:
    """Return about how many numbers are counted of how windows lie, and constraints given."""
    network = Network(problem)
    choices = 2 ** sum(each.instead > 0 for each in network.readings)
    readers = [sum(each.tensor == tensor for each in network.readings) for tensor in network.tensors.values()]
    ways = max(tensor.pixels for tensor in problem.graph.tensors) ** 2
    return int(choices * len(network.executions) * len(network.tensors) * 2 ** max(readers) * ways)


def relax(_problem: Problem) -> int:
    """Return 0: problems of this size need no neighbourhoods."""
    return 0


def scale(_problem: Problem) -> tuple[int, int]:
    """Return (offset, unit): the objective is what a plan costs."""
    return 0, 1


def worst_costs(problem: Problem) -> dict[str, int]:
    """Return more than any plan costs, of each objective."""
    graph, prices = problem.graph, problem.prices
    moved = transfers = 0
    work = Work()
    for operation in (each.operation for each in Network(problem).executions):
        output = graph.tensors[operation.number + 1]
        read = sum(graph.tensors[reading.tensor].size for reading in operation.readings)
        # In the smallest tiles, each loads all weights, and for each output channel all that is read.
        moved += output.pixels * (operation.weights + operation.units * read) + 2 * output.size + read
        transfers += 2 + 2 * len(operation.readings)
        work = work.plus(operation.work.times(output.size * graph.tensors[operation.number + 1].shape[2]))
    spent = problem.spent(prices.spent(moved, work, transfers))
    return spent | {"memory": problem.machine.memory_bytes}


def worst_number(problem: Problem) -> int:
    """Return the largest number that solvers meet."""
    worst, prices = worst_costs(problem), problem.prices
    counted = counted_costs(problem)
    parts = {"cycles": prices.cycle, "energy": _energy(problem)["femtojoule"]}
    rounded = ((worst[name] + 1) * parts[name] for name in counted & parts.keys())
    return max(worst["traffic"], *rounded, 0)


def counted_costs(problem: Problem) -> set[str]:
    """Return what is minimised, limited, or spoken of."""
    counted = {problem.minimise, *problem.objective.limits}
    if problem.constraints:
        counted |= {term.word for part in problem.must_hold for term in terms(part)}
    return counted & set(OBJECTIVES)


def data(problem: Problem) -> dict[str, Any]:
    """Return the parameters that reference.mzn declares, all but those of the search."""
    network, prices, machine = Network(problem), problem.prices, problem.machine
    operations = [each.operation for each in network.executions]
    tensors = [problem.graph.tensors[tensor] for tensor in network.repeated]
    first, readings = len(problem.graph.tensors), network.readings
    counted, limits = counted_costs(problem), problem.objective.limits
    worst = worst_costs(problem)
    return {
        "n_operations": len(operations),
        "n_tensors": len(tensors),
        "channels": [tensor.shape[0] for tensor in tensors],
        "height": [tensor.shape[1] for tensor in tensors],
        "width": [tensor.shape[2] for tensor in tensors],
        "given": [tensor.given for tensor in tensors],
        "leaves": [tensor.leaves and place < first for place, tensor in enumerate(tensors)],
        "makes": [each.tensor for each in network.executions],
        "repeats": [each.repeats for each in network.executions],
        "n_readings": len(readings),
        "reader": [each.execution for each in readings],
        "read": [each.tensor for each in readings],
        "instead": [each.instead for each in readings],
        "stride": [list(each.how.stride) for each in readings],
        "before": [list(each.how.before) for each in readings],
        "extent": [list(each.how.extent or (0, 0)) for each in readings],
        **_of_operations(problem, operations),
        "work": [prices.core(operation.work) for operation in operations],
        "accesses": [operation.work.accesses for operation in operations],
        **_of_running_values(operations),
        "capacity": machine.capacity,
        "element_bytes": machine.element_bytes,
        "sum_elements": machine.sum_elements,
        "cycle": prices.cycle,
        "transfer": prices.transfer(1),
        "setup": prices.setup(1),
        **_energy(problem),
        "given_order": problem.limits.order == "given",
        "most_operations": problem.limits.most_operations or len(operations),
        "tiles": problem.limits.tiles,
        "many_frames": problem.limits.frames != ONE,
        "minimise": OBJECTIVES.index(problem.minimise) + 1,
        **{f"most_{name}": limits.get(name, 0) for name in ("traffic", "cycles", "energy")},
        "count_cycles": "cycles" in counted,
        "count_energy": "energy" in counted,
        "most_moved": worst["traffic"] // machine.element_bytes,
        "worst": worst[problem.minimise],
    }


def _energy(problem: Problem) -> dict[str, int]:
    """Return the prices of energy in parts of femtojoules, as large as they can be."""
    prices = problem.prices
    near = prices.energy(0, Work(accesses=1), 0)
    found = {
        "femtojoule": prices.femtojoule,
        "far": prices.energy(1, Work(), 0) - near,
        "near": near,
        "busy": problem.machine.prices.core_fj_per_cycle * prices.femtojoule // prices.cycle,
    }
    common = gcd(*found.values())
    return {name: value // common for name, value in found.items()}


def _of_operations(problem: Problem, operations: list[Operation]) -> dict[str, Any]:
    """Return what operations are made of."""
    graph = problem.graph
    depths = [tiles.summed_channels(graph, operation) for operation in operations]
    taps = [
        tiles.weights_of_a_channel(graph, operation) if depth else (0, 0)
        for operation, depth in zip(operations, depths, strict=True)
    ]
    return {
        "weights": [operation.weights for operation in operations],
        "units": [operation.units for operation in operations],
        "taps": [each for each, _ in taps],
        "biases": [bias for _, bias in taps],
        "depth": depths,
        "by_channel": [operation.channelwise for operation in operations],
        "by_value": [operation.pixelwise for operation in operations],
    }


def _of_running_values(operations: list[Operation]) -> dict[str, Any]:
    """Return what is added up to operations of one pixel, 0 where nothing is."""
    values = [each.running or Running((1, 1), 0, 0, 0) for each in operations]
    return {
        "running_value": [each.value for each in values],
        "pixel_weights": [each.each for each in values],
        "pixel_biases": [each.bias for each in values],
    }


_DECISIONS = (
    *("used", "step", "staying", "kept", "resident", "written", "fetched", "on_chip"),
    *("order", "pixels", "columns", "kernels", "deep", "in_place", "running"),
    *("address", "line_at", "weights_at", "block_at"),
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
        self.running = [False for _ in steps]
        self.order, self.pixels = [1 for _ in steps], [1 for _ in steps]
        self.kernels, self.deep = [1 for _ in steps], [1 for _ in steps]
        self.columns = [problem.graph.tensors[each.operation.number + 1].shape[2] for each in every]
        self.weights_at, self.block_at = [0 for _ in steps], [0 for _ in steps]
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
        self.running[last] = step.running
        running = every[last].operation.running
        for place in places:
            self.kept[place] = every[place].name in step.kept
        self.order[last], self.pixels[last] = ORDERS.index(step.order) + 1, step.pixels
        if step.order != ORDERS[0] or not all(self.kept[place] for place in loaded):
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
        self.block_at[last] = step.addresses.get(key_of("block", step.operations[-1]), 0)

    def _wanted(self, tensor: int, number: int) -> bool:
        """Whether somebody reads a tensor in a step or later."""
        return any(
            used and each.tensor == tensor + 1 and self.step[each.execution - 1] >= number
            for used, each in zip(self.used, self.network.readings, strict=True)
        )


_OF_LEADER = {
    "order": "order[{l}]",
    "pixels": "executed[{o}] * pixels[{l}]",
    "rows": "executed[{o}] * rows[{l}]",
    "running": "executed[{o}] /\\ running[{l}]",
    "bytes": "executed[{o}] * element_bytes * taken[{l}]",
    "moved": "executed[{o}] * element_bytes * moved[{l}]",
    "columns": "if order[{l}] = TILES \\/ cut[{l}] then columns[{l}] else 0 endif",
    "channels": "if order[{l}] in {{TILES, CHANNELS}} then deep[{l}] else 0 endif",
    "kernels": "if order[{l}] = PIXELS /\\ (kept[{o}] \\/ not loads[{o}]) then 0 "
    "else min(kernels[{l}], units[{o}]) endif",
}
_OF_OPERATION = {
    "step": "step[{o}]",
    "in_place": "in_place[{o}] > 0",
    "kept": "kept[{o}]",
    "staying": "staying[{o}]",
    "recomputed": "sum(l in OP)(again[{o}, l])",
    "double_buffering": "false",
    "keys": "0",  # what may have blocks is not taken
    "blocks": "false",
}
_OF_PAIR = {
    "same_step": "executed[{o}] /\\ step[{o}] = step[{p}]",
    "before": "executed[{o}] /\\ step[{o}] < step[{p}]",
}
_OF_PLACE = {
    "on_chip": "executed[{o}] /\\ on_chip[{t}, max(1, step[{o}])]",
    "fetched": "executed[{o}] /\\ fetched[{t}, max(1, step[{o}])]",
    "address": "if executed[{o}] /\\ on_chip[{t}, max(1, step[{o}])] then address[{t}, max(1, step[{o}])] "
    "else -1 endif",
}
_OF_TENSOR = {"resident": "resident[{t}]", "written": "written[{t}]"}
_STATED = _OF_LEADER | _OF_OPERATION | _OF_PAIR | _OF_PLACE | _OF_TENSOR


_NEVER = {
    "order": "PIXELS",
    "address": "-1",
    **dict.fromkeys((*_OF_PAIR, *_OF_TENSOR, "on_chip", "fetched"), "false"),
    **dict.fromkeys(("in_place", "kept", "staying", "double_buffering", "running", "blocks"), "false"),
}
"""What is said of second executions that nobody could read, where it is not 0."""


def term(problem: Problem, _formulation: Path, one: Term) -> str | None:
    """Return a term of the vocabulary in MiniZinc."""
    network = Network(problem)
    names = [str(each) for each in one.arguments]
    if one.word in OBJECTIVES:
        return one.word
    if one.word == "steps":
        return "n_steps"
    tensors, operations = [], names
    if one.word in _OF_TENSOR | _OF_PLACE:
        tensors, operations = names[:1], names[1:]
    if not {*tensors} <= network.tensors.keys() or not {*operations} <= network.places.keys():
        return _NEVER.get(one.word, "0")
    places = {key: network.places[name] for key, name in zip("op", operations, strict=False)}
    places |= {key: network.tensors[name] for key, name in zip("t", tensors, strict=False)}
    leader = {"l": f"leader[{places['o']}]"} if "o" in places else {}
    return _STATED[one.word].format(**places, **leader)


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
            channels=solution.deep[last] if order in tiles.SUMMED else None,
            running=adds,
        )

    def _addresses(self, mine: list[int], number: int, now: set[int], new: list[int]) -> dict[str, int]:
        """Return where a step places what is new: of its operations, with what is whole on chip meanwhile."""
        graph, solution, place, tensor = self.graph, self.solution, self.place, self.tensor
        last, final = place[mine[-1]], graph.operations[mine[-1]]
        at = {graph.tensors[t].key: solution.address[tensor[t]][number - 1] for t in new}
        for t in range(len(graph.tensors)):
            if t not in now and {*mine} & set(graph.tensors[t].readers):
                at[key_of("lines", graph.tensors[t].name)] = solution.line_at[tensor[t]][last]
        for each in mine:
            if graph.operations[each].weights and not solution.staying[place[each]]:
                at[key_of("weights", graph.operations[each].name)] = solution.weights_at[place[each]]
        summed = ORDERS[solution.order[last] - 1] in tiles.SUMMED
        partial = summed and solution.deep[last] < tiles.summed_channels(graph, final)
        if partial or solution.running[last] or final.number + 1 not in now:
            at[key_of("block", final.name)] = solution.block_at[last]
        return at
