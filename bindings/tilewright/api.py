"""What users call: functions that take a problem in any form, and refuse what is none.

They are reached as ``tilewright.<name>``, and import what they need when they are called.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import threading

    from matplotlib.axes import Axes

    from tilewright.run.checking.finding import Finding
    from tilewright.run.compare import Entry
    from tilewright.run.instance import Instance
    from tilewright.run.result import Result
    from tilewright.run.solving.options import Method, Progress
    from tilewright.run.sweep import Point, Sweep
    from tilewright.simulator import Report


def solve(
    problem: Any,
    method: str | Method = "auto",
    *,
    machine: str | Path | None = None,
    warm_start: Any = "auto",
    time_limit: float = 60.0,
    threads: int | None = None,
    seed: int = 0,
    on_plan: Callable[[Any, int], None] | None = None,
    progress: Progress | None = None,
    stop: threading.Event | None = None,
    **options: Any,
) -> Result:
    """Solve a problem.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What to solve: a bundled instance's name, an instance file, or what has been read or built; with a
        machine also a network in ONNX, TOML or of Caffe.
    method : str, callable
        ``auto``, a heuristic's name, the name of an exact search, or ``MODEL@SOLVER``; or a function of
        your own, called in this process with the problem, and with a `RunContext` if it takes a second
        argument. It returns a plan, or an `Outcome` with what it has proven, and cannot be ended: it must
        look at the context's deadline.
    machine
        A file with the table of a machine, or the name of a bundled one, as `read` takes it.
    warm_start : str, Plan, Result, optional
        A heuristic's name, a plan, a result of the same problem or its file, ``auto`` for the best
        constructive heuristic, or ``none``.
    time_limit
        Seconds for everything, but for compiling what has not been compiled yet.
    threads
        Most processes and threads that work at a time; by default one per core.
    seed
        Seed of all random choices.
    on_plan
        Called with every better plan and its objective, as soon as it is found.
    progress
        Called several times a second with seconds, incumbent and bound.
    stop
        When set, the best plan so far is returned; so it is on KeyboardInterrupt.
    **options
        Others, which `tilewright.run.solving.options.Options` lists: ``confirm``, ``widen``, ``remember``,
        ``on_part``, ``on_compile`` and ``started``.

    Returns
    -------
    Result
        Its plan has survived the simulator, and its objective is the simulator's; where executing the plan
        takes longer than the time that is left, it is ``simulated = False`` and the closed form's.

    Raises
    ------
    InputError, UnknownNameError
        For a problem, method, option or start that does not exist or does not fit.
    SolverMissingError
        If the solver that the method names is not installed.
    Disagreement
        If a solver, a bound and the simulator contradict each other.
    """
    from tilewright.run.solve import solve

    if machine is not None:
        problem = read(problem, machine=machine)
    return solve(
        problem,
        method,
        warm_start=warm_start,
        time_limit=time_limit,
        threads=threads,
        seed=seed,
        on_plan=on_plan,
        progress=progress,
        stop=stop,
        **options,
    )


def read(
    path: str | Path,
    *,
    machine: str | Path | None = None,
    room: str | None = None,
    minimise: str | Sequence[str] = (),
    values: Mapping[str, Any] | None = None,
    sizes: Mapping[str, Sequence[int]] | None = None,
    allow_unknown: bool = False,
) -> Instance:
    """Read an instance, or make one of a network and a machine.

    Parameters
    ----------
    path
        An instance file or the name of a bundled one; with a machine also a network in ONNX, TOML or of
        Caffe.
    machine
        A file with the table of a machine, or the name of a bundled one; replaces that of an instance.
    room
        The room of a network; by default that of the machine.
    minimise
        The objective, or several, the most important first.
    values
        Other values of fields, by dotted paths as ``machine.levels.buffer.capacity_bytes``.
    sizes, allow_unknown
        Of a network in ONNX or of Caffe: sizes of its inputs by name, batch first; whether operations that
        no layer does are kept as opaque ones.

    Raises
    ------
    InputError
        For anything that is wrong with a file or a value; names file, field, value and limit.
    """
    if machine is None and not (room or minimise or values or sizes or allow_unknown):
        from tilewright.run import instance

        return instance.read(path)
    from tilewright.importing.assembly import Changes, assemble

    names = (minimise,) if isinstance(minimise, str) else tuple(minimise)
    asked = Changes(
        machine=None if machine is None else str(machine),
        room=room,
        minimise=names,
        values=tuple((values or {}).items()),
        sizes=sizes or {},
        allow_unknown=allow_unknown,
    )
    return assemble(path, asked)


def simulate(
    problem: Any, plan: Any, *, numeric: bool = False, seed: int = 0, deadline: float = float("inf")
) -> Report:
    """Execute a plan and report what it costs and whether it is right.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What the plan is for.
    plan : Plan, Result
        Decisions of the same room.
    numeric
        Also move random integers and compare with the reference layer.
    seed
        Of these integers.
    deadline
        ``time.monotonic()`` at which to give up with an ``OutOfTimeError``.
    """
    from tilewright.core.room import room_of
    from tilewright.run.arguments import whole
    from tilewright.spec.errors import OutOfTimeError

    problem, seed = _problem(problem), whole("seed", seed)
    if time.monotonic() > deadline:
        raise OutOfTimeError
    return room_of(problem).simulate(
        problem, _plan(problem, plan), numeric=numeric, seed=seed, deadline=deadline
    )


def check(
    instance: Any,
    result: str | Path | Result,
    *,
    numeric: bool = True,
    time_limit: float | None = None,
) -> list[Finding]:
    """Verify a result anew, believing none of its numbers.

    Parameters
    ----------
    instance : str, Path, Instance, Problem
        An instance, its file, the name of a bundled one, or a problem.
    result
        A result or its file.
    numeric
        Also move random integers and compare with the reference.
    time_limit
        Seconds for everything; by default a minute, or more where the simulation or the result took long.

    Returns
    -------
    list of Finding
        The result stands if every ``finding.holds``; ``finding.state`` tells what is ``refuted`` from what
        could be ``not verified`` in time, and what is ``verified`` from what was not computed, which is
        ``unverified``, or is only ``told``.
    """
    from tilewright.run import verify
    from tilewright.run.arguments import limit
    from tilewright.run.result import Result

    found = _instance(instance)
    claimed = result if isinstance(result, Result) else Result.read(result, found.problem)
    allowed = None if time_limit is None else limit("time_limit", time_limit)
    return verify.check(found, claimed, numeric=numeric, time_limit=allowed)


def compare(
    instances: Any,
    methods: Iterable[str] | None = None,
    *,
    time_limit: float = 60.0,
    jobs: int = 1,
    threads: int | None = None,
    seed: int = 0,
    seeds: Iterable[int] | None = None,
    on_entry: Callable[[Entry], None] | None = None,
    on_compile: Callable[[str], None] | None = None,
    scheduler: str | None = None,
    journal: str | Path | None = None,
) -> list[Entry]:
    """Solve instances with several methods under the same time limit.

    Parameters
    ----------
    instances : str, Path, Instance, Problem, or an iterable of these
        Of one or several rooms.
    methods
        Each is run on the instances of the rooms that have it. By default the constructive heuristics and
        ``auto`` of each room.
    time_limit
        Seconds for each run.
    jobs
        Runs at a time.
    threads
        Of each run; by default its share of the cores.
    seed, seeds
        Of all random choices: one, or several, with each of which every method is run.
    on_entry
        Called when a run has ended.
    on_compile
        Called with a sentence before something is compiled, which comes first and counts for no run.
    scheduler
        Address of a Dask scheduler, or ``local:N``, where the runs are done instead, with a thread each.
    journal
        A file to which results are appended as they come. Runs that stand in it are not done again; lines
        that are not as they were written, or not so, are warned of and count for nothing.

    Returns
    -------
    list of Entry
        Instance by instance, method by method, seed by seed: a result, or the error that stands for it.
    """
    import os
    import threading
    import warnings

    from tilewright.run import compare
    from tilewright.run.arguments import limit, whole
    from tilewright.run.batch import journal as journals
    from tilewright.run.batch.executors import executor_of
    from tilewright.spec.base import Spec

    several = isinstance(instances, Iterable) and not isinstance(instances, str | Path | Spec)
    found = _some("instances", [_instance(each) for each in (instances if several else [instances])])
    jobs = whole("jobs", jobs, 1)
    if threads is None:
        threads = 1 if scheduler else max(1, (os.cpu_count() or 1) // jobs)
    with journals.opened(journal, warnings.warn) as kept:
        return compare.compare(
            compare.plan_runs(
                found, None if methods is None else _some("methods", _names("methods", methods))
            ),
            time_limit=limit("time_limit", time_limit),
            jobs=jobs,
            threads=whole("threads", threads, 1),
            seeds=_some("seeds", [whole("seed", each) for each in ([seed] if seeds is None else seeds)]),
            on_entry=on_entry or (lambda _entry: None),
            on_compile=on_compile,
            stop=threading.Event(),
            executor=executor_of(scheduler, 1) if scheduler else None,
            journal=kept,
        )


def sweep(
    problem: Any,
    axes: Mapping[str, Iterable[Any]] | None = None,
    *,
    points: Sequence[Mapping[str, Any]] | None = None,
    method: str = "auto",
    time_limit: float = 60.0,
    jobs: int = 1,
    threads: int = 1,
    seed: int = 0,
    journal: str | Path | None = None,
    scheduler: str | None = None,
    on_point: Callable[[Point], None] | None = None,
    on_compile: Callable[[str], None] | None = None,
) -> Sweep:
    """Solve a problem at many values of its fields.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What to change: a bundled instance's name, an instance file, or what has been read or built.
    axes
        Values of fields by dotted paths, as ``{"machine.memory_bytes": [65536, 131072]}``: all combinations.
    points
        Points one by one, as ``[{"machine.memory_bytes": 65536}]``; each with all combinations of `axes`.
    method
        As in `solve`, by name.
    time_limit, threads, seed
        Of each point.
    jobs
        Points at a time, each in a process of its own where they are several.
    journal
        A file to which results are appended as they come. Points that stand in it are not solved again;
        lines that are not as they were written, or not so, are warned of and count for nothing.
    scheduler
        Address of a Dask scheduler, or ``local:N``, where the points are solved instead.
    on_point
        Called when a point has been solved or refused.
    on_compile
        Called with a sentence before something is compiled.

    Returns
    -------
    Sweep
        Its points stand in the order asked for. Values that are no problem, as of a machine that is too
        small, are points without a result, too.
    """
    import warnings

    from tilewright.importing.assembly import Changes, assembler_of, variation_of
    from tilewright.run import sweep
    from tilewright.run.arguments import limit, whole
    from tilewright.run.batch import journal as journals
    from tilewright.run.batch.executors import executor_of

    if isinstance(problem, str | Path):
        make = assembler_of(problem, Changes())
        name = Path(problem).stem
    else:
        instance = _instance(problem)
        name, make = instance.name, variation_of(instance)
    jobs = whole("jobs", jobs, 1)
    _names("axes", axes or {})
    for point in points or ():
        _names("points", point)
    with journals.opened(journal, warnings.warn) as kept:
        return sweep.sweep(
            make,
            sweep.product(axes or {}, [dict(point) for point in points or ({},)]),
            method,
            executor_of(scheduler, jobs, on_compile),
            name=name,
            time_limit=limit("time_limit", time_limit),
            threads=whole("threads", threads, 1),
            seed=whole("seed", seed),
            journal=kept,
            on_point=on_point or (lambda _point: None),
            on_compile=on_compile,
        )


def emit(problem: Any, plan: Any) -> str:
    """Return a plan as C: loop nests with calls to get and put data by DMA.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        Of the ``tiling`` room, on a machine of kind ``dsp``.
    plan : Plan, Result
        A valid plan for it.

    Raises
    ------
    InputError
        Where there is no loop nest to write.
    """
    from tilewright import codegen
    from tilewright.run.instance import Instance

    if isinstance(problem, str | Path):
        problem = read(problem)
    name, source = (problem.name, problem.source) if isinstance(problem, Instance) else ("layer", "")
    problem = _problem(problem)
    return codegen.emit(name, source, problem, _plan(problem, plan))


def plot(problem: Any, plan: Any, path: str | Path | None = None, *, ax: Axes | None = None) -> Axes | None:
    """Draw a plan.

    Parameters
    ----------
    problem : str, Path, Instance, Problem
        What the plan is for.
    plan : Plan, Result
        What to draw.
    path
        File for the whole picture, by its suffix: ``.png``, ``.svg``, ``.pdf``; in the ``grouping`` room also
        ``.gif``.
    ax : matplotlib.axes.Axes, optional
        Where to draw the most telling part; on a figure of its own if neither is given.

    Returns
    -------
    Axes, optional
        What has been drawn on; None with a `path`.
    """
    from tilewright.core.room import room_of

    problem = _problem(problem)
    plan = _plan(problem, plan)
    room = room_of(problem)
    report = room.simulate(problem, plan)
    if path is None:
        return room.plot.plot(problem, plan, report, ax=ax)
    room.plot.draw(problem, plan, report, path)
    return None


def methods(room: Any) -> list[str]:
    """Return the names of a room's methods, as `solve` takes them.

    Parameters
    ----------
    room : str, Instance, Problem
        A room's name, or a problem of it.
    """
    from tilewright.core import catalogue
    from tilewright.core.room import room_of
    from tilewright.run import methods

    name = room if isinstance(room, str) else room_of(_problem(room)).name
    catalogue.room(name)  # refuses what there is not
    return methods.methods(name)


def instances(room: str | None = None) -> list[str]:
    """Return the names of the bundled instances, of all rooms or of one."""
    from tilewright.core import catalogue

    rooms = catalogue.ROOMS if room is None else (catalogue.room(room).name,)
    return [path.stem for name in rooms for path in catalogue.instances(name)]


def _problem(given: Any) -> Any:
    from tilewright.run.instance import Instance

    if isinstance(given, str | Path):
        given = read(given)
    return given.problem if isinstance(given, Instance) else given


def _instance(given: Any) -> Instance:
    """Return an instance, also of a problem that is none."""
    from tilewright.core.room import room_of
    from tilewright.run.instance import Instance, digest

    if isinstance(given, Instance):
        return given
    if isinstance(given, str | Path):
        return read(given)
    room = room_of(given).name
    return Instance(room, "unnamed", "", given, digest(room, given))


def _plan(problem: Any, given: Any) -> Any:
    from tilewright.core.room import check_plan, room_of
    from tilewright.run.instance import digest
    from tilewright.run.result import Result
    from tilewright.spec.errors import InputError

    plan = given
    if isinstance(given, Result):
        if given.instance_sha256 != digest(room_of(problem).name, problem):
            raise InputError(
                "result", given.instance, "is a result of another instance; its plan can be given"
            )
        plan = given.plan
    if plan is None:
        status = f" (status {given.status})" if isinstance(given, Result) else ""
        raise InputError("plan", None, f"the result has no plan{status}")
    check_plan(problem, plan)
    return plan


def _names(what: str, given: Iterable[Any]) -> list[str]:
    """Return texts as a list."""
    from tilewright.spec.errors import InputError

    names = list(given)
    wrong = [name for name in names if not isinstance(name, str)]
    if wrong or isinstance(given, str):
        raise InputError(what, wrong[0] if wrong else given, "must be a list of names")
    return names


def _some(what: str, given: list[Any]) -> list[Any]:
    """Return a list that must not be empty."""
    from tilewright.spec.errors import InputError

    if not given:
        raise InputError(what, given, "must not be empty")
    return given
