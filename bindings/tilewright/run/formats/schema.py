"""What the command line prints with ``--json`` and writes into result files, as a JSON Schema.

``python -m tilewright.run.formats.schema`` prints the schema that stands in docs/tilewright.schema.json.
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal, Union

from pydantic import Field, TypeAdapter

from tilewright.codegen.schedule.forms import AnySchedule
from tilewright.core import catalogue
from tilewright.core.context import Status
from tilewright.core.forms import Amounts, Count, NonNegative, RoomName, Table
from tilewright.core.measures import meanings, tables_of
from tilewright.run.checking.finding import State

DIALECT = "https://json-schema.org/draft/2020-12/schema"

Measures: Any = Union[tuple(catalogue.room(name).measures_type for name in catalogue.ROOMS)]  # noqa: UP007
"""What the rooms measure (each room's ``measures.py``)."""


# Reports --------------------------------------------------------------------------------------------


class Report(Table):
    """What the simulator says of a plan."""

    valid: bool
    """Whether no rule was broken, and the numbers, if any, are right."""
    violation: str | None
    """The first rule that was broken: step, tensor, what was needed, what was there."""
    numeric: bool | None
    """Whether real integers gave the reference's result; null where none were moved."""
    measures: Measures | None = None
    """All that was measured of a valid plan; missing of a plan that breaks a rule."""


class Step(Table):
    """A step of an executed plan; elements by tensor, those without any left out."""

    step: Count
    label: str
    freed: Amounts
    written: Amounts
    loaded: Amounts
    computed: Amounts
    footprint: Amounts
    """What each tensor occupies when the step holds most."""
    serial_cycles: Count | None = None
    """Without overlap; null where the plan has a static schedule."""
    serial_ps: Count | None = None
    """Likewise, on an NPU."""
    times: Count | None = None
    """For how many steps this one stands; missing if for one."""


class Simulation(Report):
    """What ``simulate --json`` prints."""

    per_step: list[Step]


# Results --------------------------------------------------------------------------------------------

TracePoint = Annotated[list[float | int | None], Field(min_length=3, max_length=3)]


class Result(Table):
    """A result file, and what ``solve --json`` prints."""

    format: Literal[2]
    room: RoomName
    instance: str
    """Name of what was solved."""
    instance_sha256: str
    """Of the problem's values."""
    method: str
    """As given with ``--with``."""
    status: Status
    minimise: str | None = None
    """What the objective is, of a list the last; missing in files of format 1."""
    unit: str | None = None
    """What objective and bound count; missing in files of format 1."""
    objective: int | None
    """Cost of the plan; null without one."""
    bound: int | None
    """Proven lower bound of the cost of every plan."""
    gap: float | int | None
    """(objective - bound) / objective."""
    space: str | None = None
    """The plans that status, bound and gap are about, where a limit of the instance chooses them."""
    wider: WiderSpace | None = None
    """What ``auto`` has found among more plans than these."""
    seconds: float | int
    seed: int
    warm_start: str | None
    plan: dict[str, Any] | None
    """Decisions only (docs/formats.md, Plans); of a network in the order of `report.measures.layers`."""
    report: Report | None
    bound_by: str | None = None
    """What proves the bound: a method, or the room's bound."""
    grounds: str | None = None
    """What a method's proof rests on, in a sentence."""
    failures: list[str] = Field(default=[])
    interrupted: bool = False
    trace: list[TracePoint] = Field(default=[])
    """``[seconds, objective, bound]`` from the first plan to the end."""
    versions: dict[str, str] = Field(default={})
    simulated: bool = True
    """Whether the objective is the simulator's; else it is the closed form's, and there is no report."""
    confirmed_by: str | None = None
    """A second method that proved the same."""
    proved_by: str | None = None
    """The bound that closed the run before the method had done anything; missing where the method was run."""
    unverified: str | None = None
    """What a method claims that tilewright does not answer for, and that no other method has proven."""
    at_least: dict[str, str] | None = None
    """The operations whose cost is but a lower bound, as the objective then is, and why."""
    time_limit: float | int | None = None
    """Seconds that the run was given; missing in files of format 1, as are the next two."""
    threads: int | None = None
    """Most processes and threads that worked at a time."""
    spent: Spent | None = None
    """Seconds by what was done in them."""
    constraints: list[ConstraintInPlan] | None = None
    """Constraints of the problem; missing where it has none, as is the next one."""
    without_constraints: WithoutConstraints | None = None
    """What ``auto`` has found without them."""
    contradiction: Contradiction | None = None
    """Where there is no plan, which constraints and limits contradict each other."""


class Contradiction(Table):
    """What contradicts each other."""

    of: list[str]
    """Names: ``constraints[0]``, ``limits.steps``."""
    minimal: bool
    """Whether with any one of them left out there is a plan."""
    confirmed_by: str | None = None
    """A second method that finds no plan within them alone."""


class ConstraintInPlan(Table):
    """A constraint, and how much of it is left."""

    say: str
    """What every plan must keep (docs/constraints.md)."""
    because: str | None = None
    slack: int | None = None
    """How much is left in the plan until it is broken, where it compares numbers."""


class WithoutConstraints(Table):
    """The problem without its constraints."""

    objective: int
    """Cost of the best plan that was found."""
    bound: int
    """Proven lower bound of the cost of every plan."""
    seconds: float | int


class WiderSpace(Table):
    """What is known of a larger space of plans than the declared one."""

    space: str
    set: str
    """The setting of the instance that takes it."""
    objective: int
    """Least cost that was found there."""
    bound: int
    """Proven lower bound of the cost of every plan there."""
    seconds: NonNegative
    """How long it was looked for."""


class Spent(Table):
    """Seconds of a run, each counted once: for the first of these that some process did."""

    solving: NonNegative = 0
    """Inside the solver, the search or the heuristic that was asked for."""
    building: NonNegative = 0
    """A solver's model built, flattened and handed over."""
    constructing: NonNegative = 0
    """Heuristics that give a method its start."""
    starting: NonNegative = 0
    """Processes started, and files imported."""
    bounding: NonNegative = 0
    """The room's bound computed."""
    relaxing: NonNegative = 0
    """The problem solved without its constraints."""
    confirming: NonNegative = 0
    """A second method that was asked to confirm a claim."""
    widening: NonNegative = 0
    """What a larger space of plans gains looked for."""
    simulating: NonNegative = 0
    """The answer executed."""


class Failed(Table):
    """An entry of ``compare --json`` without a result."""

    room: RoomName | None = None
    instance: str
    method: str
    seed: int | None = None
    threads: int | None = None
    time_limit: float | int | None = None
    objective: None
    bound: None
    error: str


class SweptPoint(Table):
    """A point of ``sweep -o FILE.json`` and ``sweep --json``."""

    values: dict[str, Any]
    """What the point gives to each swept field."""
    status: Status | Literal["refused", "failed"]
    """The result's; ``refused`` for values that are no problem."""
    result: Result | None
    reason: str | None
    """Why there is no result."""


class Finding(Table):
    """A finding of ``check --json``."""

    what: str
    holds: bool
    state: State
    detail: str


# Other commands -------------------------------------------------------------------------------------


class Memory(Table):
    """Bytes of on-chip buffers of an emitted program."""

    planned_bytes: Count
    """Of all copies, every element as wide as the machine says."""
    emitted_bytes: Count
    """Of the C buffers in as many copies."""
    copy_bytes: Count
    """Of one copy, which the file declares."""
    copies: Count
    memory_bytes: Count
    """What the machine has."""
    fits: bool
    plan_bits: Count
    element_bits: Count
    accumulator_bits: Count
    wider: list[str]
    """What has other widths in C than in the plan, in words."""


class Emitted(Table):
    """What ``emit --json`` prints."""

    instance: str
    memory: Memory
    warning: str | None
    """By how much the emitted buffers exceed the memory, and why."""
    source: str


class ExecutedProgram(Table):
    """What ``execute --json`` prints."""

    program: str
    instructions: dict[str, Count]
    """By engine."""
    words: Count
    cycles: Count
    planned_cycles: Count
    """What the plan says that the program takes."""
    busy_cycles: dict[str, Count]
    loaded_bytes: Count
    saved_bytes: Count
    waited_cycles: dict[str, Count]
    """In which each engine waited for banks alone."""
    deepest_fifo: Count
    """Instructions that waited in the FIFO of an engine, at most."""
    most_tokens: Count
    """Of one engine for another, at a time."""
    side_by_side: Count
    """Maps that are slices of an array in DRAM, stored with a stride."""
    copies: Count
    """Instructions and operations of the host that only copy."""
    batches: Count
    """Of images, for each of which the program was executed; all other numbers are of one."""
    right: bool
    """Whether the outputs are what is expected, bit for bit."""


class RoomRow(Table):
    """A room in ``list``."""

    room: RoomName
    decides: str


class ModelRow(Table):
    """A formulation in ``list``."""

    room: RoomName
    model: str
    solvers: str
    what: str


class HeuristicRow(Table):
    """A heuristic in ``list``."""

    room: RoomName
    heuristic: str
    what: str


class SolverRow(Table):
    """A solver in ``list``."""

    solver: str
    installed: bool
    version: str
    install: str
    wrong: str
    broken: bool


class InstanceRow(Table):
    """A bundled instance in ``list``."""

    room: RoomName
    instance: str
    source: str


class MachineRow(Table):
    """A bundled machine in ``list``."""

    machine: str
    kind: str
    rooms: str
    """Those that take it."""
    memories: str
    memories_bytes: dict[str, Count | Amounts | None]
    """Of an instance of each on-chip memory; null for no limit."""
    pes: Count
    macs_per_cycle: Count
    """Of all of them."""
    clock_mhz: NonNegative
    source: str


class NetworkRow(Table):
    """A bundled network in ``list``."""

    network: str
    layers: Count
    convolutions: Count
    """With fully connected layers and matrix products."""
    macs: Count
    source: str


class Lists(Table):
    """What ``list --json`` prints; with a name, that list alone."""

    rooms: list[RoomRow]
    models: list[ModelRow]
    heuristics: list[HeuristicRow]
    solvers: list[SolverRow]
    instances: list[InstanceRow]
    machines: list[MachineRow]
    networks: list[NetworkRow]


OneList = (
    list[RoomRow]
    | list[ModelRow]
    | list[HeuristicRow]
    | list[SolverRow]
    | list[InstanceRow]
    | list[MachineRow]
    | list[NetworkRow]
)

Document = (
    Result
    | Simulation
    | list[Result | Failed]
    | list[SweptPoint]
    | list[Finding]
    | Emitted
    | ExecutedProgram
    | AnySchedule
    | Lists
    | OneList
)
"""Anything that is printed or written."""


def schema() -> dict[str, Any]:
    """Return the JSON Schema of anything that is printed or written; each form is one of its ``$defs``."""
    found = TypeAdapter(Document).json_schema(mode="validation")
    _without_titles(found)
    _explain_measures(found["$defs"])
    about = {"title": "JSON of tilewright", "description": (__doc__ or "").split("\n")[0]}
    return {"$schema": DIALECT, **about, **found}


def _explain_measures(definitions: dict[str, Any]) -> None:
    """Add what the fields of measures mean, which pydantic does not find where they are inherited."""
    for table in tables_of(Measures):
        for name, meaning in meanings(table).items():
            definitions[table.__name__]["properties"][name]["description"] = meaning


def _without_titles(value: Any) -> None:
    """Remove the titles that repeat the names of fields."""
    if isinstance(value, dict):
        if isinstance(value.get("title"), str):
            del value["title"]
        for each in value.values():
            _without_titles(each)
    elif isinstance(value, list):
        for each in value:
            _without_titles(each)


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
