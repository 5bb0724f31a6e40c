"""Made-up programs: matrix products in tiles of any size and order, whole or damaged in one place or two."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import numpy as np
from hypothesis import strategies as st
from plain_executor import PlainExecutor

from tilewright.simulator import (
    Box,
    Cells,
    Compute,
    Engine,
    Free,
    Load,
    Memory,
    Program,
    Step,
    Tensor,
    WriteBack,
)
from tilewright.simulator.program import Action, Region

Span = tuple[int, int]
Tile = tuple[str, tuple[Span, ...]]


def spans(random: Random, length: int) -> list[Span]:
    inside = [place for place in range(1, length) if random.random() < 0.4]
    return list(zip([0, *inside], [*inside, length], strict=True))


def engines(random: Random, simple: bool) -> tuple[Engine, ...]:
    """A bus or two, and two that compute."""

    def costs(name: str) -> Engine:
        engine = Engine(name, random.randint(0, 3), random.randint(0, 4))
        if simple:
            return engine
        return replace(
            engine,
            elements_per_cycle=random.choice([1, 2, 3]),
            period=random.choice([1, 1, 2, 5]),
            per_burst=random.randint(0, 3),
            setup_on=random.choice([None, None, "matrix", "vector", name]),
        )

    def computer(name: str) -> Engine:
        engine = Engine(name, 0, random.randint(0, 6))
        if simple:
            return engine
        return replace(
            engine,
            macs_per_cycle=random.choice([None, 1, 3]),
            streams_over=random.choice([None, "load", "write"]),
        )

    return (*(costs(name) for name in ("load", "write")), *(computer(name) for name in ("matrix", "vector")))


class Maker:
    """Makes one valid program, step by step, remembering what is on chip."""

    def __init__(self, random: Random, simple: bool = False) -> None:
        self.random, self.simple = random, simple
        self.sizes = {axis: random.randint(1, 4) for axis in "ijk"}
        self.tiles = {axis: spans(random, size) for axis, size in self.sizes.items()}
        self.batch = random.choice([(), (2,)])
        self.axes = {"a": "ik", "b": "kj", "c": "ij", "d": "ij"}
        self.second = random.random() < 0.4  # d = f(c)
        self.again = self.second and random.random() < 0.5  # c may be lost and computed again.
        self.resident: set[Tile] = set()
        self.stored: set[Tile] = set()
        self.begun: set[Tile] = set()
        self.useless: set[Tile] = set()
        self.steps: list[Step] = []

    def flip(self, chance: float = 0.5) -> bool:
        return self.random.random() < chance

    def region(self, tile: Tile) -> Region:
        name, ranges = tile
        shape = [self.sizes[axis] for axis in self.axes[name]]
        if self.cells[name] and self.flip(0.5):
            rows, cols = ranges
            positions = [row * shape[1] + col for row in range(*rows) for col in range(*cols)]
            self.random.shuffle(positions)
            return Cells(len(shape) + len(self.batch), np.array(positions))
        lead = tuple(self.random.choice([None, (0, n)]) for n in self.batch)
        part = tuple(
            None if span == (0, n) and self.flip() else span for span, n in zip(ranges, shape, strict=True)
        )
        return Box((*lead, *part))

    def bursts(self) -> int:
        return 0 if self.simple else self.random.randint(0, 3)

    def bus(self, usual: str) -> str:
        return usual if self.simple or self.flip(0.8) else self.random.choice(["load", "write"])

    def let_go(self, tile: Tile) -> Action:
        self.resident.discard(tile)
        if tile[0] in "ab" or tile in self.stored or (tile in self.useless and self.flip()):
            return Free(tile[0], self.region(tile))
        self.stored.add(tile)
        return WriteBack(tile[0], self.region(tile), self.bus("write"), self.bursts())

    def lose(self, tile: Tile) -> None:
        """Free what was just computed."""
        self.resident.discard(tile)
        self.begun.discard(tile)
        self.finish_step([Free(tile[0], self.region(tile))], [], [])

    def fetch(self, tile: Tile) -> list[Load]:
        self.resident.add(tile)
        name, ranges = tile
        parts = [ranges]
        first = ranges[0]
        if first[1] - first[0] > 1 and self.flip(0.3):
            middle = self.random.randint(first[0] + 1, first[1] - 1)
            parts = [((first[0], middle), *ranges[1:]), ((middle, first[1]), *ranges[1:])]
        return [Load(name, self.region((name, part)), self.bus("load"), self.bursts()) for part in parts]

    def compute(self, target: Tile, reads: list[Tile], macs: int) -> Compute:
        self.resident.add(target)
        self.stored.discard(target)
        self.begun.add(target)
        return Compute(
            target[0],
            self.region(target),
            tuple((tile[0], self.region(tile)) for tile in reads),
            macs,
            engine=self.random.choice(["matrix", "matrix", "vector"]),
            streamed=0 if self.simple else self.random.randint(0, 9),
            cycles=0 if self.simple else self.random.choice([0, 0, 5]),
        )

    def step(self, work: list[tuple[Tile, list[Tile], int]]) -> None:
        """Let go of some of what is not needed, fetch what is, compute."""
        needed = dict.fromkeys(tile for target, reads, _ in work for tile in (target, *reads))
        made: set[Tile] = set()
        release = [self.let_go(tile) for tile in sorted(self.resident - set(needed)) if self.flip()]
        fetched: list[Load] = []
        for target, reads, _ in work:
            for tile in (target, *reads):
                there = tile in self.resident or tile in made
                if there and tile[0] in "cd" and tile not in made and not fetched and self.flip(0.05):
                    release.append(self.let_go(tile))  # And back again at once.
                    there = False
                if not there and (tile[0] in "ab" or tile in self.begun):
                    fetched += self.fetch(tile)
            made.add(target)
        computes = [self.compute(*item) for item in work]
        self.finish_step(release, fetched, computes)

    def finish_step(self, release: list[Action], fetched: list[Load], computes: list[Compute]) -> None:
        frees = tuple(action for action in release if isinstance(action, Free))
        writes = tuple(action for action in release if isinstance(action, WriteBack))
        if not self.simple and self.flip(0.1):
            self.steps.append(Step(frees, writes, label="alone"))
            frees = writes = ()
        self.steps.append(Step(frees, writes, tuple(fetched), tuple(computes), label=f"s{len(self.steps)}"))

    def program(self) -> Program:
        random = self.random
        memories = ["mem", "scratch"] if self.flip(0.3) else ["mem"]
        self.cells = {name: self.flip(0.25) for name in self.axes}
        roles = {
            "a": "input",
            "b": "kernels",
            "c": "intermediate" if self.second else "output",
            "d": "output",
        }
        macs = {"a": 0, "b": 0, "c": self.sizes["k"], "d": 2}
        tensors = tuple(
            Tensor(
                name,
                (*self.batch, *(self.sizes[axis] for axis in self.axes[name])),
                roles[name],  # type: ignore[arg-type]
                memory=random.choice(memories),
                unit=random.choice([1, 1, 2]) if not self.simple else 1,
                macs_per_element=macs[name],
                recomputed=self.again and name == "c",
            )
            for name in ("abcd" if self.second else "abc")
        )
        preloaded = []
        if self.flip(0.3):
            for k in self.tiles["k"]:
                for j in self.tiles["j"]:
                    self.resident.add(("b", (k, j)))
                    preloaded.append(("b", self.region(("b", (k, j)))))
        todo = [(i, j, k) for i in self.tiles["i"] for j in self.tiles["j"] for k in self.tiles["k"]]
        if self.flip():
            random.shuffle(todo)
        done: dict[tuple[Span, Span], list[Span]] = {(i, j): [] for i, j, _ in todo}
        wanted = dict.fromkeys(done, 2)
        work: list[tuple[Tile, list[Tile], int]] = []
        while todo:
            i, j, k = todo.pop(0)
            target = ("c", (i, j))
            work.append((target, [("a", (i, k)), ("b", (k, j))], k[1] - k[0]))
            done[i, j].append(k)
            complete = len(done[i, j]) == len(self.tiles["k"])
            if self.second and complete:
                part = wanted[i, j]
                if self.again and part == 2 and self.flip():
                    part = 1
                work.append((("d", (i, j)), [target], part))
                wanted[i, j] -= part
            unfinished = self.again and complete and wanted[i, j] > 0
            if unfinished or self.flip(0.7):
                self.step(work)
                work = []
                self.useless = {("c", place) for place in done if self.again and not wanted[place]}
            if not work and wanted[i, j] and (unfinished or (self.again and self.flip(0.2))):
                self.lose(target)
                todo += [(i, j, k) for k in done[i, j]]
                done[i, j] = []
        if work:
            self.step(work)
        self.finish_step([self.let_go(tile) for tile in sorted(self.resident)], [], [])
        program = Program(
            tensors,
            tuple(Memory(name) for name in memories),
            engines(random, self.simple),
            tuple(self.steps),
            tuple(preloaded),
            buffers=random.randint(1, 3),
        )
        return self.limited(program)

    def limited(self, program: Program) -> Program:
        """Give the program limits that it keeps."""
        random = self.random
        if self.flip(0.4):
            return program
        plain = PlainExecutor(program)
        assert plain.run() is None
        copies = random.randint(1, 3)

        first = {
            name: sum(region.size(plain.tensors[n].shape) for n, region in program.preloaded if n == name)
            for name in plain.tensors
        }
        held = [first, *(row["footprint"] for row in plain.rows)]

        def most(name: str) -> int:
            return max(row[name] for row in held)

        loads = dict.fromkeys(plain.tensors, 0)
        for (name, _), count in plain.loads.items():
            loads[name] = max(loads[name], count)
        tensors = tuple(
            replace(
                tensor,
                # No step has more on chip than at its end.
                buffer=most(tensor.name) + random.choice([0, 1]) if self.flip(0.3) else None,
                max_loads=loads[tensor.name] + random.choice([0, 1]) if self.flip() else None,
            )
            for tensor in program.tensors
        )
        capacities = []
        for memory in program.memories:
            members = [tensor for tensor in tensors if tensor.memory == memory.name]
            room = max(
                sum(row[t.name] if t.buffer is None else copies * t.buffer for t in members) for row in held
            )
            capacities.append(
                Memory(memory.name, room + random.choice([0, 1, 5]) if self.flip(0.8) else None)
            )
        return replace(program, tensors=tensors, memories=tuple(capacities), copies=copies)


@st.composite
def valid_programs(draw: st.DrawFn, simple: bool = False) -> Program:
    """Valid programs; simple ones have engines with a set-up and a cost per element only."""
    return Maker(Random(draw(st.integers(0, 2**32 - 1))), simple).program()


# Damage ------------------------------------------------------------------------------------------

STAGES = ("free", "write_back", "load", "compute")


def damage(random: Random, program: Program) -> Program:
    """Change one thing, after which the program may or may not be valid."""
    steps = list(program.steps)
    places = [
        (n, stage, i)
        for n, step in enumerate(steps)
        for stage in STAGES
        for i in range(len(getattr(step, stage)))
    ]
    n, stage, i = random.choice(places)
    actions = list(getattr(steps[n], stage))
    kind = random.choice(
        [
            "drop",
            "double",
            "move",
            "shift",
            "other",
            "swap",
            "rename",
            "macs",
            "operand",
            "limit",
            "turn",
            "cell",
        ]
    )
    if kind == "drop":
        del actions[i]
    elif kind == "double":
        actions.insert(i, actions[i])
    elif kind == "move":
        other = random.randrange(len(steps))
        if other != n:
            steps[other] = replace(steps[other], **{stage: (*getattr(steps[other], stage), actions.pop(i))})
    elif kind == "shift":
        actions[i] = replace(actions[i], region=shifted(random, actions[i].region))
    elif kind == "other":
        m, other_stage, k = random.choice(places)
        actions[i] = replace(actions[i], region=getattr(steps[m], other_stage)[k].region)
    elif kind == "swap":
        other = random.randrange(len(steps))
        steps[n], steps[other] = steps[other], steps[n]
        actions = list(getattr(steps[n], stage))
    elif kind == "rename":
        actions[i] = replace(actions[i], tensor=random.choice(["a", "b", "c", "z"]))
    elif kind == "macs" and stage == "compute":
        actions[i] = replace(actions[i], macs_per_element=random.randint(0, 4))
    elif kind == "operand" and stage == "compute" and actions[i].operands:
        operands = list(actions[i].operands)
        k = random.randrange(len(operands))
        name, region = operands.pop(k)
        if random.random() < 0.7:
            name = random.choice([name, name, "c", "z"])
            operands.insert(k, (name, shifted(random, region)))
        actions[i] = replace(actions[i], operands=tuple(operands))
    elif kind == "turn" and stage in ("free", "write_back"):
        action = actions.pop(i)
        if stage == "free":
            steps[n] = replace(
                steps[n], write_back=(*steps[n].write_back, WriteBack(action.tensor, action.region))
            )
        else:
            steps[n] = replace(steps[n], free=(*steps[n].free, Free(action.tensor, action.region)))
    elif kind == "cell" and isinstance(actions[i].region, Cells) and len(actions[i].region.positions):
        positions = actions[i].region.positions
        k = random.randrange(len(positions))
        changed = random.choice([np.delete(positions, k), np.append(positions, positions[k]), positions + 1])
        actions[i] = replace(actions[i], region=Cells(actions[i].region.rank, changed))
    elif kind == "limit":
        return limit(random, program)
    steps[n] = replace(steps[n], **{stage: tuple(actions)})
    return replace(program, steps=tuple(steps))


def shifted(random: Random, region: Region) -> Region:
    """Return a region of which one end of one axis is one off."""
    if isinstance(region, Cells):
        return Cells(region.rank, region.positions[1:])
    ranges = list(region.ranges)
    axis = random.randrange(len(ranges))
    low, high = ranges[axis] or (0, 2)
    low, high = random.choice(
        [(low + 1, high), (low - 1, high), (low, high + 1), (low, high - 1), (low, low)]
    )
    ranges[axis] = (low, high)
    return Box(tuple(ranges))


def limit(random: Random, program: Program) -> Program:
    """Return the program with a limit that may be too tight."""
    kind = random.choice(["capacity", "buffer", "loads", "work", "preloaded", "role"])
    if kind == "capacity":
        memories = tuple(replace(memory, capacity=random.randint(0, 30)) for memory in program.memories)
        return replace(program, memories=memories)
    if kind == "work":
        limits = [replace(engine, macs_per_action=random.randint(0, 12)) for engine in program.engines]
        return replace(program, engines=tuple(limits))
    if kind == "preloaded":
        changed = (
            program.preloaded[1:]
            if program.preloaded
            else (("b", Box((None,) * len(program.tensors[1].shape))),)
        )
        return replace(program, preloaded=changed)
    tensors = list(program.tensors)
    k = random.randrange(len(tensors))
    if kind == "buffer":
        tensors[k] = replace(tensors[k], buffer=random.randint(0, 10))
    elif kind == "loads":
        tensors[k] = replace(tensors[k], max_loads=random.randint(0, 2))
    else:
        role = random.choice(["input", "intermediate", "intermediate", "output"])
        again = role == "intermediate" and random.random() < 0.5
        tensors[k] = replace(tensors[k], role=role, recomputed=again)
    return replace(program, tensors=tuple(tensors))


@st.composite
def damaged_programs(draw: st.DrawFn) -> Program:
    """Programs damaged in one place or two."""
    random = Random(draw(st.integers(0, 2**32 - 1)))
    program = Maker(random).program()
    for _ in range(random.randint(1, 2)):
        program = damage(random, program)
    return program
