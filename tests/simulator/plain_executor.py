"""The executor's rules and timelines once more, element by element, as slow and as plain as can be."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import product
from math import ceil

from tilewright.simulator import Box, Compute, Engine, Free, Load, Program, Step, Tensor, WriteBack
from tilewright.simulator.program import Action, Region

Element = tuple[str, tuple[int, ...]]


class Broken(Exception):
    """Rule, step, tensor, needed, found."""


def elements(tensor: Tensor, region: Region) -> list[Element]:
    """Return the elements of a region, first axis slowest."""
    if isinstance(region, Box):
        spans = [
            range(n) if span is None else range(*span)
            for n, span in zip(tensor.shape, region.ranges, strict=True)
        ]
        return [(tensor.name, place) for place in product(*spans)]
    *lead, _, cols = tensor.shape
    plane = [(int(p) // cols, int(p) % cols) for p in region.positions]
    return [(tensor.name, (*first, *cell)) for first in product(*map(range, lead)) for cell in sorted(plane)]


def operands(action: Action) -> tuple[tuple[str, Region], ...]:
    return action.operands if isinstance(action, Compute) else ()


class PlainExecutor:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.hazards: list[tuple[int, str, int]] = []
        self.tensors = {tensor.name: tensor for tensor in program.tensors}
        self.engines = {engine.name: engine for engine in program.engines}
        self.step = 0
        self.resident: set[Element] = set()
        self.space: Counter[str] = Counter()  # That each tensor takes.
        self.saving: list[tuple[int, str, int]] = []  # Until when, and how much of what.
        self.loads: Counter[Element] = Counter()
        self.macs: Counter[Element] = Counter()
        self.written_in: dict[Element, int] = {}
        self.stored = {
            element
            for tensor in program.tensors
            if tensor.role in ("input", "kernels")
            for element in elements(tensor, Box((None,) * len(tensor.shape)))
        }
        self.rows: list[dict[str, Counter[str]]] = []
        self.step_macs: list[int] = []
        self.transfers = self.streamed = self.peak = 0
        # Cut axes, for the names of elements.
        self.cut: dict[str, set[int]] = {name: set() for name in self.tensors}
        for name, region in program.regions():
            if name not in self.tensors or not region.lies_in(self.tensors[name].shape):
                break  # It goes no further than this.
            if isinstance(region, Box):
                self.cut[name] |= {axis for axis, span in enumerate(region.ranges) if span is not None}
            else:
                self.cut[name] |= {region.rank - 2, region.rank - 1}
        self.start: int | None = None  # Of this step.
        self.changed: dict[Element, tuple[int, str]] = {}  # Until when, and what is done to it.
        self.read: dict[Element, list[int]] = {}  # Until when, since it was changed.
        self.busy: dict[str, int] = {}
        computing = [bool(step.compute) for step in program.steps]
        self.computing = [i for i, computes in enumerate(computing, 1) if computes]

    # Rules -----------------------------------------------------------------------------------------

    def fail(self, rule: str, tensor: str, needed: str, found: str) -> None:
        raise Broken(rule, self.step, tensor, needed, found)

    def name(self, element: Element) -> str:
        shown = [place for axis, place in enumerate(element[1]) if axis in self.cut[element[0]]]
        return f"{element[0]}{shown}" if shown else element[0]

    def each(self, found: list[Element], good: object, rule: str, needed: str, what: str) -> None:
        for element in found:
            if not good(element):  # type: ignore[operator]
                self.fail(rule, self.name(element), needed, what)

    def find(self, name: str, region: Region) -> list[Element]:
        if name not in self.tensors:
            self.fail("unknown tensor", name, "a declared tensor", "none of that name")
        tensor = self.tensors[name]
        if not region.lies_in(tensor.shape):
            needed = f"a region of {list(tensor.shape)}"
            self.fail("no such region", name, needed, f"{region}"[:80])
        return elements(tensor, region)

    def held(self, tensor: Tensor) -> int:
        return sum(name == tensor.name for name, _ in self.resident)

    def occupied(self, tensor: Tensor) -> int:
        copies = self.program.copies
        return self.space[tensor.name] if tensor.buffer is None else copies * tensor.buffer

    def check_room(self) -> None:
        total = 0
        for memory in self.program.memories:
            members = [tensor for tensor in self.program.tensors if tensor.memory == memory.name]
            for tensor in members:
                if tensor.buffer is not None and self.space[tensor.name] > tensor.buffer:
                    found = f"{self.space[tensor.name]} elements"
                    self.fail("buffer overflow", tensor.name, found, f"a buffer of {tensor.buffer}")
            used = sum(map(self.occupied, members))
            total += used
            if memory.capacity is not None and used > memory.capacity:
                parts = [
                    f"{t.name} {self.space[t.name]}"
                    if t.buffer is None
                    else f"{t.name} {self.program.copies} * {t.buffer}"
                    for t in members
                    if self.occupied(t)
                ]
                needed = f"{used} elements ({', '.join(parts)})"
                self.fail("memory overflow", memory.name, needed, f"a capacity of {memory.capacity}")
        self.peak = max(self.peak, total)

    # Schedule --------------------------------------------------------------------------------------

    def until(self, action: Action) -> int:
        """When an action of this step is over."""
        cycles = own_cycles(self.program, action)
        if isinstance(action, Compute):
            cycles = max(cycles, streaming_cycles(self.program, action))
        return (self.start or 0) + cycles

    def give_up(self) -> None:
        """Give up the space of what has been written back by now."""
        for item in [item for item in self.saving if item[0] <= (self.start or 0)]:
            self.space[item[1]] -= item[2]
            self.saving.remove(item)

    def check_order(self, step: Step, before: list[int | None]) -> None:
        self.start = step.start
        found = "none" if step.start is None else f"cycle {step.start}"
        if before and (before[-1] is None) != (step.start is None):
            self.fail("order", "schedule", "a start of all steps or of none", found)
        least = 0 if not before or before[-1] is None else before[-1]
        if step.start is not None and step.start < least:
            self.fail("order", "schedule", f"a start at cycle {least} or later", found)

    def check_ready(self, found: list[Element], leaving: bool = False) -> None:
        """Nothing is still done to the elements; if they leave or come, no one reads them either."""
        if self.start is None:
            return
        for element in found:
            finish, what = self.changed.get(element, (0, ""))
            if finish > self.start:
                needed = f"its data by cycle {self.start}"
                self.fail("not ready", self.name(element), needed, f"{what} until cycle {finish}")
            last = max(self.read.get(element, []), default=0) if leaving else 0
            if last > self.start:
                needed = f"its readers done by cycle {self.start}"
                self.fail("in use", self.name(element), needed, f"read until cycle {last}")

    def check_idle(self, engine: str) -> None:
        if self.start is not None and self.busy.get(engine, 0) > self.start:
            needed = f"it idle by cycle {self.start}"
            self.fail("engine busy", engine, needed, f"at work until cycle {self.busy[engine]}")

    def change(self, action: Action, found: list[Element], what: str) -> None:
        for element in found:
            self.changed[element] = self.until(action), what
        if not isinstance(action, Compute):
            for element in found:
                self.read.pop(element, None)
        if not isinstance(action, Free):
            self.busy[action.engine] = self.until(action)

    def own_phase(self, step: int) -> int:
        return sum(other < step for other in self.computing) + 1

    def perform(self, action: Action) -> None:
        self.give_up()
        found = self.find(action.tensor, action.region)
        tensor = self.tensors[action.tensor]
        if isinstance(action, Free | WriteBack):
            kind, purpose = ("freed", "free") if isinstance(action, Free) else ("written", "write back")
            there = self.resident.__contains__
            self.each(found, there, "not resident", f"on chip to {purpose}", "it is not there")
            if isinstance(action, Free) and tensor.role == "output":
                kept = self.stored.__contains__
                self.each(found, kept, "output lost", "a write-back before it is freed", "none")
            self.check_ready(found, leaving=True)
            if isinstance(action, WriteBack):
                self.check_idle(action.engine)
                self.stored.update(found)
                self.written_in.update(dict.fromkeys(found, self.step))
                self.transfers += 1
            self.change(action, found, "written back")
            self.resident.difference_update(found)
            if self.start is not None and self.until(action) > self.start:
                self.saving.append((self.until(action), action.tensor, len(found)))
            else:
                self.space[action.tensor] -= len(found)
            if isinstance(action, Free) and tensor.recomputed:
                for element in set(found) - self.stored:
                    self.macs[element] = 0
            self.count(kind, action.tensor, len(found))
        elif isinstance(action, Load):
            self.load(action, found)
        else:
            self.compute(action, found)

    def load(self, action: Load, found: list[Element], free_of_charge: bool = False) -> None:
        self.each(found, self.stored.__contains__, "not in DRAM", "data to load", "none")
        away = "a region that is not on chip", "it is resident already"
        self.each(found, lambda e: e not in self.resident, "loaded twice", *away)
        limit = self.tensors[action.tensor].max_loads
        if not free_of_charge:
            self.loads.update(found)
            if limit is not None and found:
                most = f"load number {max(self.loads[e] for e in found)}"
                self.each(
                    found, lambda e: self.loads[e] <= limit, "reload limit", f"at most {limit} loads", most
                )
            try:
                self.check_ready(found, leaving=True)
                self.check_idle(action.engine)
            except Broken:
                self.loads.subtract(found)
                raise
            self.change(action, found, "loaded")
        own = self.own_phase(self.step)
        for element in found:
            written = self.written_in.get(element)
            if written is not None and self.own_phase(written) == own <= len(self.computing):
                self.hazards.append((self.step, self.name(element), written))
        self.resident.update(found)
        self.space[action.tensor] += len(found)
        if not free_of_charge:
            self.transfers += 1
            self.count("loaded", action.tensor, len(found))
        self.check_room()

    def compute(self, action: Compute, found: list[Element]) -> None:
        tensor = self.tensors[action.tensor]
        for name, region in action.operands:
            read = self.find(name, region)
            purpose = f"compute {action.tensor}"
            there = self.resident.__contains__
            self.each(read, there, "not resident", f"on chip to {purpose}", "it is not there")
            needed = self.tensors[name].macs_per_element

            def complete(element: Element, needed: int = needed) -> bool:
                return self.macs[element] >= needed

            self.each(read, complete, "not computed", f"{needed} MACs to {purpose}", "fewer")
            self.check_ready(read)
            for element in read:
                self.read.setdefault(element, []).append(self.until(action))
        before = {element: self.macs[element] for element in found}
        for element in found:
            self.macs[element] += action.macs_per_element
        if found:
            most = f"{max(self.macs[e] for e in found)}"
            needed = tensor.macs_per_element
            self.each(
                found, lambda e: self.macs[e] <= needed, "computed twice", f"{needed} MACs in all", most
            )
        self.each(
            found,
            lambda e: e in self.resident or not before[e],
            "not resident",
            "its partial sum on chip to add to",
            "it is not there",
        )
        self.check_ready(found)
        work, limit = action.macs_per_element * len(found), self.engines[action.engine].macs_per_action
        if limit is not None and work > limit:
            self.fail("too much work", action.engine, f"at most {limit} MACs in one action", f"{work}")
        self.check_idle(action.engine)
        self.change(action, found, "computed")
        self.space[action.tensor] += len(set(found) - self.resident)
        self.resident.update(found)
        self.stored.difference_update(found)
        self.step_macs[-1] += work
        self.streamed += action.streamed
        self.count("computed", action.tensor, len(found))
        self.check_room()

    def count(self, kind: str, tensor: str, amount: int) -> None:
        self.rows[-1].setdefault(kind, Counter())[tensor] += amount

    def finish(self) -> None:
        for tensor in self.program.tensors:
            every = elements(tensor, Box((None,) * len(tensor.shape)))
            if (needed := tensor.macs_per_element) and not tensor.recomputed:
                for element in every:
                    if self.macs[element] != needed:
                        found = f"{self.macs[element]}"
                        self.fail("not computed", self.name(element), f"{needed} MACs", found)
            if tensor.role == "output":
                away = "every output in DRAM", "it never left the chip"
                self.each(every, self.stored.__contains__, "not written back", *away)
            if held := self.held(tensor):
                self.fail("memory not empty", tensor.name, "nothing on chip", f"{held} elements")

    def finish_lockstep(self) -> None:
        """Look for loads that come too early and for phases without room, and report the first one."""
        found: list[tuple[int, int, tuple[str, int, str, str, str]]] = []
        for step, name, written in self.hazards:
            what = "its data in DRAM while the step before computes", f"a write-back in step {written}"
            found.append((step, 0, ("lockstep hazard", step, name, *what)))
        n = len(self.computing)
        written, loaded = ([Counter() for _ in range(n + 2)] for _ in range(2))  # By phase and tensor.
        for number, row in enumerate(self.rows, 1):
            own = self.own_phase(number)
            written[own] += row.get("written", Counter())
            loaded[own - 1] += row.get("loaded", Counter()) if own <= n else Counter()
        self.lockstep_peak = sum(self.program.copies * (t.buffer or 0) for t in self.program.tensors)
        most = 0
        for phase, step in enumerate(self.computing, 1):
            resident = self.resident_after[step - 1]
            total = 0
            for memory in self.program.memories:
                members = [t for t in self.program.tensors if t.memory == memory.name]
                dynamic = [t.name for t in members if t.buffer is None]
                moving = max(sum(part[phase][name] for name in dynamic) for part in (written, loaded))
                held = sum(resident[name] for name in dynamic) + moving
                total += held
                held += sum(self.program.copies * (t.buffer or 0) for t in members)
                if memory.capacity is not None and held > memory.capacity:
                    what = f"{held} elements in lockstep", f"a capacity of {memory.capacity}"
                    found.append((step, 1, ("memory overflow", step, memory.name, *what)))
            most = max(most, total)
            for tensor in self.program.tensors:
                name, copies = tensor.name, self.program.copies
                held = resident[name] + max(written[phase][name], loaded[phase][name])
                if tensor.buffer is not None and held > copies * tensor.buffer:
                    what = f"{held} elements in lockstep", f"{copies} * {tensor.buffer} of its buffer"
                    found.append((step, 2, ("buffer overflow", step, name, *what)))
        self.lockstep_peak += most
        if found:
            raise Broken(*min(found, key=lambda item: item[:2])[2])

    def run(self, lockstep: bool = False) -> tuple[str, int, str, str, str] | None:
        """Return the first violation; `rows` has the counts of the steps up to it."""
        try:
            self.check_room()
            self.resident_after: list[dict[str, int]] = []
            for name, region in self.program.preloaded:
                self.load(Load(name, region), self.find(name, region), free_of_charge=True)
            starts: list[int | None] = []
            for number, step in enumerate(self.program.steps, 1):
                self.step = number
                self.rows.append({})
                self.step_macs.append(0)
                self.check_order(step, starts)
                starts.append(step.start)
                for action in step.actions:
                    self.perform(action)
                self.resident_after.append({t.name: self.held(t) for t in self.program.tensors})
                self.rows[-1]["footprint"] = Counter({t.name: self.occupied(t) for t in self.program.tensors})
            self.finish()
            if lockstep and self.start is None:
                self.finish_lockstep()
        except Broken as broken:
            return broken.args  # type: ignore[return-value]
        return None


# Timelines ---------------------------------------------------------------------------------------


def own_cycles(program: Program, action: Action) -> int:
    """Cycles of an action by the definitions of its engine's costs."""
    if isinstance(action, Free):
        return 0
    engine = engine_of(program, action.engine)
    tensor = program.tensor(action.tensor)
    size = len(elements(tensor, action.region))
    cycles = engine.setup
    if isinstance(action, Compute):
        if engine.macs_per_cycle:
            cycles += ceil(size * action.macs_per_element / engine.macs_per_cycle)
        return cycles + action.cycles
    units = ceil(size / tensor.unit)
    if engine.elements_per_cycle:
        cycles += ceil(Fraction(units * engine.period, engine.elements_per_cycle))
    return cycles + engine.per_element * units + engine.per_burst * action.bursts


def engine_of(program: Program, name: str) -> Engine:
    return next(engine for engine in program.engines if engine.name == name)


def streaming_cycles(program: Program, action: Compute) -> int:
    bus = engine_of(program, action.engine).streams_over
    if not bus:
        return 0
    engine = engine_of(program, bus)
    return ceil(Fraction(action.streamed * engine.period, engine.elements_per_cycle or 1))


def tied(program: Program, computes: tuple[Compute, ...]) -> bool:
    """Whether an engine uses what another one has computed in the same step."""
    by: dict[Element, str] = {}
    found = False
    for compute in computes:
        own = elements(program.tensor(compute.tensor), compute.region)
        read = [e for name, region in compute.operands for e in elements(program.tensor(name), region)]
        found |= any(by.get(element, compute.engine) != compute.engine for element in own + read)
        by |= dict.fromkeys(own, compute.engine)
    return found


def plain_sequential(program: Program) -> list[tuple[int, int]]:
    """Start and finish of each action that takes time."""
    found, now = [], 0
    for step in program.steps:
        for stage in (step.write_back, step.load, step.compute):
            busy: dict[str, int] = {}
            for action in stage:
                engine = action.engine
                cycles = own_cycles(program, action)
                if isinstance(action, Compute):
                    cycles = max(cycles, streaming_cycles(program, action))
                    engine = stage[0].engine if tied(program, step.compute) else engine
                begin = now + busy.get(engine, 0)
                busy[engine] = busy.get(engine, 0) + cycles
                found.append((begin, begin + cycles))
            now += max(busy.values(), default=0)
    return found


def plain_lockstep(program: Program) -> int:
    """Cycles in lockstep, phase by phase."""
    merged: list[tuple[list[WriteBack], list[Load], tuple[Compute, ...]]] = [([], [], ())]
    for step in program.steps:
        merged[-1][0].extend(step.write_back)
        merged[-1][1].extend(step.load)
        if step.compute:
            merged[-1] = (*merged[-1][:2], step.compute)
            merged.append(([], [], ()))
    *steps, epilog = merged
    n = len(steps)
    total = alone(program, list(steps[0][1])) if steps else 0
    for number, (writes, _, computes) in enumerate(steps):
        loads = steps[number + 1][1] if number + 1 < n else []
        busy: Counter[str] = Counter()
        together = {action.engine for action in computes} if tied(program, computes) else set()
        lane = dict.fromkeys(together, computes[0].engine)
        for action in [*writes, *loads]:
            engine = engine_of(program, action.engine)
            host = engine.setup_on or engine.name
            busy[lane.get(host, host)] += engine.setup
            busy[engine.name] += own_cycles(program, action) - engine.setup
        for action in computes:
            busy[lane.get(action.engine, action.engine)] += own_cycles(program, action)
            bus = engine_of(program, action.engine).streams_over
            if bus:
                busy[bus] += streaming_cycles(program, action)
        total += max(busy.values())
    return total + alone(program, [*epilog[0], *epilog[1]])


def alone(program: Program, transfers: list[WriteBack | Load]) -> int:
    """Cycles of transfers beside which nothing computes: what others set up, then the transfers."""
    setups: Counter[str] = Counter()
    busy: Counter[str] = Counter()
    for action in transfers:
        engine = engine_of(program, action.engine)
        hosted = engine.setup if engine.setup_on not in (None, engine.name) else 0
        setups[engine.setup_on or engine.name] += hosted
        busy[engine.name] += own_cycles(program, action) - hosted
    return max(setups.values(), default=0) + max(busy.values(), default=0)


def plain_overlapped(program: Program, after: list[set[int]]) -> list[tuple[int, int]]:
    """Start and finish of each action, frees too, with every engine on its own clock.

    Parameters
    ----------
    after
        For each action, in the order of the program, those that it waits for.
    """
    actions = [(n, action) for n, step in enumerate(program.steps) for action in step.actions]
    account = {t.name: t.memory if t.buffer is None else f"buffer of {t.name}" for t in program.tensors}
    limit = {memory.name: memory.capacity for memory in program.memories}
    for tensor in program.tensors:
        if tensor.buffer is not None:
            limit[account[tensor.name]] = program.copies * tensor.buffer
            room = limit[tensor.memory]
            limit[tensor.memory] = None if room is None else room - program.copies * tensor.buffer
    resident = {e for name, region in program.preloaded for e in elements(program.tensor(name), region)}
    held = Counter(account[name] for name, _ in resident)
    change, taken = [], [Counter[str]() for _ in program.steps]
    for n, action in actions:
        found = set(elements(program.tensor(action.tensor), action.region))
        leaves = isinstance(action, Free | WriteBack)
        change.append(-len(found) if leaves else len(found - resident))
        resident = resident - found if leaves else resident | found
        if not leaves:
            taken[n][account[action.tensor]] += change[-1]
    start: dict[int, int] = {}
    done: set[int] = set()
    running: dict[str, tuple[int, int]] = {}  # When what an engine does is over, and what it does.
    opened = now = 0

    def ready(k: int) -> bool:
        n, action = actions[k]
        return k not in start and n < opened + isinstance(action, Free | WriteBack) and after[k] <= done

    def finish(k: int) -> None:
        done.add(k)
        if isinstance(actions[k][1], Free | WriteBack):
            held[account[actions[k][1].tensor]] += change[k]

    def may_open() -> bool:
        computing = [k for k, (_, action) in enumerate(actions) if isinstance(action, Compute)]
        busy = [actions[k][0] for k in computing if k not in done and actions[k][0] < opened]
        return (
            opened < len(program.steps)
            and opened - min(busy, default=opened) < program.buffers
            and all(limit[a] is None or held[a] + more <= limit[a] for a, more in taken[opened].items())
        )

    spans: list[tuple[int, int]] = [(0, 0)] * len(actions)
    while len(done) < len(actions):
        frees = [k for k, (_, action) in enumerate(actions) if isinstance(action, Free) and ready(k)]
        for k in frees:
            start[k], spans[k] = now, (now, now)
            finish(k)
        if frees:
            continue
        if may_open():
            held += taken[opened]
            opened += 1
            continue
        for k, (_, action) in enumerate(actions):
            if not isinstance(action, Free) and action.engine not in running and ready(k):
                cycles = own_cycles(program, action)
                if isinstance(action, Compute):
                    cycles = max(cycles, streaming_cycles(program, action))
                start[k], spans[k] = now, (now, now + cycles)
                running[action.engine] = now + cycles, k
        now = min(running.values())[0]
        for engine, (end, k) in sorted(running.items()):
            if end == now:
                finish(k)
                del running[engine]
    return spans
