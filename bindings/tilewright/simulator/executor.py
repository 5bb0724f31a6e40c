"""The executor: runs a program, checks every rule, counts traffic and moves real integers if asked."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewright.simulator.program import (
    Action,
    Compute,
    Free,
    Layout,
    Load,
    Program,
    Region,
    Tensor,
    Values,
    WriteBack,
    layouts,
)
from tilewright.simulator.report import Counts, Report, Violation
from tilewright.simulator.timing import Issued, overlapped_timeline, sequential_timeline

POISON = -987_654_321_987
"""What memory reads as where nothing was loaded, so that a stale read cannot go unnoticed."""


MAX_NUMERIC_ELEMENTS = 100_000_000
"""Most elements of all tensors of a numeric run, which keeps each of them four times."""


class _Broken(Exception):
    """Carries a violation out of the depths of a step."""

    def __init__(self, violation: Violation) -> None:
        super().__init__(str(violation))
        self.violation = violation


class _State:
    """What is known of one tensor: residency, loads, progress, and which actions touched it last."""

    def __init__(self, tensor: Tensor, layout: Layout) -> None:
        self.tensor, self.layout = tensor, layout
        self.resident = layout.array(np.bool_)
        self.loads = layout.array(np.int32)
        self.macs = layout.array(np.int64)
        self.in_dram = layout.array(np.bool_)
        self.in_dram[...] = tensor.role in ("input", "kernels")
        self.toucher = layout.array(np.int32, -1)
        self.readers: dict[str, NDArray[np.int32]] = {}
        self.occupied = 0

    def elements(self, region: Region) -> int:
        return region.size(self.tensor.shape)

    def place(self, region: Region, bad: NDArray[np.bool_]) -> str:
        """Name the first bad entry of a region."""
        where = self.layout.where(region, bad)
        return f"{self.tensor.name}{list(where)}" if where else self.tensor.name


class _Execution:
    """One run of one program; its methods are the actions."""

    def __init__(self, program: Program, data: Mapping[str, Values] | None, dependencies: bool) -> None:
        self.program = program
        tracked = layouts(program, numeric=False)
        self.states = {t.name: _State(t, tracked[t.name]) for t in program.tensors}
        self.engines = {engine.name: engine for engine in program.engines}
        self.capacity = {memory.name: memory.capacity for memory in program.memories}
        self.occupied = dict.fromkeys(self.capacity, 0)
        self.dependencies = dependencies
        self.issued: list[Issued] = []
        self.step = 0
        self.transfers = 0
        self.rows: list[dict[str, dict[str, int]]] = []
        self.macs: list[int] = []
        self.data = data
        if data is not None:
            self.full = layouts(program, numeric=True)
            self.dram: dict[str, Values] = {}
            for tensor in program.tensors:
                given = data.get(tensor.name)
                if given is not None and given.shape != tensor.shape:
                    raise ValueError(f"data of {tensor.name} has shape {given.shape}, not {tensor.shape}")
                self.dram[tensor.name] = np.zeros(tensor.shape, np.int64) if given is None else given
            self.chip = {t.name: np.full(t.shape, POISON, dtype=np.int64) for t in program.tensors}

    # Running ---------------------------------------------------------------------------------------

    def run(self) -> Violation | None:
        try:
            for name, region in self.program.preloaded:
                self._exists(name, region)
                self._load(Load(name, region, engine=""), free_of_charge=True)
            for index, step in enumerate(self.program.steps):
                self.step = index + 1
                self.macs.append(0)
                self.rows.append({key: {} for key in ("loaded", "freed", "written", "computed")})
                for action in step.actions:
                    self._perform(action)
                self.rows[-1]["footprint"] = self.footprint()
            self._finish()
        except _Broken as broken:
            return broken.violation
        return None

    def _perform(self, action: Action) -> None:
        self._exists(action.tensor, action.region)
        if isinstance(action, Free):
            self._free(action)
        elif isinstance(action, WriteBack):
            self._write_back(action)
        elif isinstance(action, Load):
            self._load(action)
        else:
            self._compute(action)

    def _free(self, action: Free) -> None:
        state = self._resident(action.tensor, action.region, "free")
        if state.tensor.role == "output":
            lost = ~state.layout.get(state.in_dram, action.region)
            if lost.any():
                place = state.place(action.region, lost)
                self._break("output lost", place, "a write-back before it is freed", "none")
        elements = self._release(state, action.region)
        self._count("freed", action.tensor, elements)
        self._issue(action, state, elements, 0)

    def _write_back(self, action: WriteBack) -> None:
        state = self._resident(action.tensor, action.region, "write back")
        state.layout.put(state.in_dram, action.region, True)
        if self.data is not None:
            full = self.full[action.tensor]
            full.put(
                self.dram[action.tensor], action.region, full.get(self.chip[action.tensor], action.region)
            )
        elements = self._release(state, action.region)
        self.transfers += 1
        self._count("written", action.tensor, elements)
        self._issue(action, state, elements, 0)

    def _load(self, action: Load, free_of_charge: bool = False) -> None:
        state, layout = self.states[action.tensor], self.states[action.tensor].layout
        missing = ~layout.get(state.in_dram, action.region)
        if missing.any():
            self._break("not in DRAM", state.place(action.region, missing), "data to load", "none")
        already = layout.get(state.resident, action.region)
        if already.any():
            place = state.place(action.region, already)
            self._break("loaded twice", place, "a region that is not on chip", "it is resident already")
        layout.put(state.resident, action.region, True)
        elements = state.elements(action.region)
        if self.data is not None:
            full = self.full[action.tensor]
            full.put(
                self.chip[action.tensor], action.region, full.get(self.dram[action.tensor], action.region)
            )
        if not free_of_charge:
            loads = layout.get(state.loads, action.region) + 1
            layout.put(state.loads, action.region, loads)
            limit = state.tensor.max_loads
            if limit is not None and loads.size and loads.max() > limit:
                place = state.place(action.region, loads > limit)
                self._break(
                    "reload limit", place, f"at most {limit} loads", f"load number {int(loads.max())}"
                )
            self.transfers += 1
            self._count("loaded", action.tensor, elements)
        self._occupy(state, elements)
        if not free_of_charge:
            self._issue(action, state, elements, 0)

    def _compute(self, action: Compute) -> None:
        for name, region in action.operands:
            self._exists(name, region)
            operand = self._resident(name, region, f"compute {action.tensor}")
            lacking = operand.layout.get(operand.macs, region) < operand.tensor.macs_per_element
            if lacking.any():
                place, needed = operand.place(region, lacking), operand.tensor.macs_per_element
                self._break("not computed", place, f"{needed} MACs to compute {action.tensor}", "fewer")
        state, layout = self.states[action.tensor], self.states[action.tensor].layout
        fresh = ~layout.get(state.resident, action.region)
        done = layout.get(state.macs, action.region) + action.macs_per_element
        layout.put(state.macs, action.region, done)
        if (done > state.tensor.macs_per_element).any():
            place = state.place(action.region, done > state.tensor.macs_per_element)
            self._break(
                "computed twice", place, f"{state.tensor.macs_per_element} MACs in all", f"{int(done.max())}"
            )
        forgotten = fresh & (done > action.macs_per_element)
        if forgotten.any():
            place = state.place(action.region, forgotten)
            self._break("not resident", place, "its partial sum on chip to add to", "it is not there")
        elements = state.elements(action.region)
        macs = action.macs_per_element * elements
        limit = self.engines[action.engine].macs_per_action
        if limit is not None and macs > limit:
            self._break("too much work", action.engine, f"at most {limit} MACs in one action", f"{macs}")
        layout.put(state.resident, action.region, True)
        layout.put(state.in_dram, action.region, False)
        if self.data is not None:
            self._calculate(action, state)
        self.macs[-1] += macs
        self._count("computed", action.tensor, elements)
        allocated = int(fresh.sum()) * layout.depth
        self._occupy(state, allocated)
        self._issue(action, state, allocated, macs)

    def _calculate(self, action: Compute, state: _State) -> None:
        if action.operation is None:
            raise ValueError(f"step {self.step}: the program has no arithmetic for {action.tensor}")
        full, chip = self.full[action.tensor], self.chip[action.tensor]
        before = full.get(chip, action.region)
        values = action.operation(self.chip).reshape(before.shape)
        # What was not resident before holds poison; partial sums are added to.
        full.put(chip, action.region, np.where(before == POISON, values, before + values))

    def _finish(self) -> None:
        """Check completeness once all steps are done."""
        self.step = len(self.program.steps)
        for state in self.states.values():
            tensor = state.tensor
            if tensor.macs_per_element:
                wrong = state.macs != tensor.macs_per_element
                if wrong.any():
                    place = f"{tensor.name}{[int(v) for v in np.argwhere(wrong)[0]]}"
                    self._break(
                        "not computed",
                        place,
                        f"{tensor.macs_per_element} MACs",
                        f"{int(state.macs[wrong][0])}",
                    )
            if tensor.role == "output" and not state.in_dram.all():
                place = f"{tensor.name}{[int(v) for v in np.argwhere(~state.in_dram)[0]]}"
                self._break("not written back", place, "every output in DRAM", "it never left the chip")
            if state.occupied:
                self._break("memory not empty", tensor.name, "nothing on chip", f"{state.occupied} elements")

    # Bookkeeping -----------------------------------------------------------------------------------

    def footprint(self) -> dict[str, int]:
        return {name: state.occupied for name, state in self.states.items()}

    def _break(self, rule: str, tensor: str, needed: str, found: str) -> None:
        raise _Broken(Violation(rule, self.step, tensor, needed, found))

    def _exists(self, name: str, region: Region) -> None:
        if name not in self.states:
            self._break("unknown tensor", name, "a declared tensor", "none of that name")
        shape = self.states[name].tensor.shape
        if not region.lies_in(shape):
            self._break("no such region", name, f"a region of {list(shape)}", f"{region}"[:80])

    def _resident(self, name: str, region: Region, purpose: str) -> _State:
        state = self.states[name]
        absent = ~state.layout.get(state.resident, region)
        if absent.any():
            self._break(
                "not resident", state.place(region, absent), f"on chip to {purpose}", "it is not there"
            )
        return state

    def _occupy(self, state: _State, elements: int) -> None:
        memory = state.tensor.memory
        state.occupied += elements
        self.occupied[memory] += elements
        capacity = self.capacity[memory]
        if capacity is not None and self.occupied[memory] > capacity:
            parts = ", ".join(
                f"{other.tensor.name} {other.occupied}"
                for other in self.states.values()
                if other.tensor.memory == memory and other.occupied
            )
            self._break(
                "memory overflow",
                memory,
                f"{self.occupied[memory]} elements ({parts})",
                f"a capacity of {capacity}",
            )

    def _release(self, state: _State, region: Region) -> int:
        state.layout.put(state.resident, region, False)
        if self.data is not None:
            self.full[state.tensor.name].put(self.chip[state.tensor.name], region, POISON)
        elements = state.elements(region)
        state.occupied -= elements
        self.occupied[state.tensor.memory] -= elements
        return elements

    def _count(self, kind: str, tensor: str, elements: int) -> None:
        row = self.rows[-1][kind]
        row[tensor] = row.get(tensor, 0) + elements

    def _issue(self, action: Action, state: _State, elements: int, macs: int) -> None:
        """Append the action to the list that timing works on, with what it must wait for."""
        number = len(self.issued)
        after = np.empty(0, dtype=np.int32)
        if self.dependencies:
            # What reads the same data on one engine does so in turn: its last reader stands for all.
            waits = [state.layout.get(state.toucher, action.region)]
            reads: list[tuple[Layout, NDArray[np.int32], Region]] = []
            if isinstance(action, Compute):
                for name, region in action.operands:
                    operand = self.states[name]
                    readers = operand.readers.get(action.engine)
                    if readers is None:
                        readers = operand.readers[action.engine] = operand.layout.array(np.int32, -1)
                    reads.append((operand.layout, readers, region))
                    waits.append(operand.layout.get(operand.toucher, region))
                    waits.append(operand.layout.get(readers, region))
            else:
                waits += [state.layout.get(readers, action.region) for readers in state.readers.values()]
            after = np.unique(np.concatenate([numbers.ravel() for numbers in waits]))
            # Marked only now, as what waits holds may be views of what is marked.
            for layout, readers, region in reads:
                layout.put(readers, region, number)
            state.layout.put(state.toucher, action.region, number)
        engine = None if isinstance(action, Free) else self.engines[action.engine]
        self.issued.append(
            Issued(
                step=self.step - 1,
                tensor=action.tensor,
                memory=state.tensor.memory,
                engine=None if engine is None else engine.name,
                cycles=0
                if engine is None
                else engine.cycles(
                    0 if isinstance(action, Compute) else -(-elements // state.tensor.unit), macs
                ),
                elements=-elements if isinstance(action, Free | WriteBack) else elements,
                after=tuple(int(v) for v in after if v >= 0),
            )
        )

    def table(self, kind: str) -> dict[str, Counts]:
        """Return one kind of count, by tensor, one entry per step."""
        return {
            name: np.array([row.get(kind, {}).get(name, 0) for row in self.rows], dtype=np.int64)
            for name in self.states
        }


def execute(
    program: Program,
    *,
    overlapped: bool = False,
    data: Mapping[str, Values] | None = None,
    expected: Mapping[str, Values] | None = None,
) -> Report:
    """Execute a program and report what happened.

    Checked at every action: operands are resident, nothing resident is loaded again, no element is
    loaded more often than its tensor allows, no memory exceeds its capacity, no engine its work limit,
    no output is computed twice or lost. At the end: every computed element has all its MACs, every
    output is in DRAM, and the memories are empty.

    Parameters
    ----------
    overlapped
        Also compute the timeline in which engines work beside each other.
    data
        DRAM content by tensor name, integers; makes the run a numeric one.
    expected
        What the named tensors must hold in DRAM at the end of a numeric run.

    Returns
    -------
    Report
        Ends at the first violation, if there is one; timelines exist for valid programs only.
    """
    run = _Execution(program, data, overlapped)
    violation = run.run()
    numeric = None
    if violation is None and data is not None and expected is not None:
        numeric = all(np.array_equal(run.dram[name], values) for name, values in expected.items())
    return Report(
        violation=violation,
        labels=[step.label for step in program.steps[: len(run.rows)]],
        loaded=run.table("loaded"),
        freed=run.table("freed"),
        written=run.table("written"),
        computed=run.table("computed"),
        footprint=run.table("footprint"),
        macs=np.array(run.macs, dtype=np.int64),
        transfers=run.transfers,
        sequential=sequential_timeline(program, run.issued) if violation is None else None,
        overlapped=overlapped_timeline(program, run.issued) if violation is None and overlapped else None,
        numeric=numeric,
        most_loads={
            name: int(state.loads.max(initial=0))
            for name, state in run.states.items()
            if state.tensor.role in ("input", "kernels")
        },
    )
