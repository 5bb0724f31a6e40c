"""Formulations as files that any solver can be tried on, without tilewright."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from tilewright.core import catalogue, contracts
from tilewright.core.context import RunContext
from tilewright.core.cutoffs import of_model
from tilewright.core.room import bridge_of, room_of
from tilewright.core.silence import nothing_printed
from tilewright.core.stated import refuse_unstated
from tilewright.drivers import load
from tilewright.drivers._minizinc import refuse_large
from tilewright.spec.errors import InputError, TilewrightError

SUFFIXES = {
    contracts.PYOMO: (".mps", ".lp"),
    contracts.MINIZINC: (".dzn", ".json", ".fzn"),
    contracts.CPSAT: (".txtpb",),
}
"""What a formulation can be written as: a Pyomo model, MiniZinc data and its flat model, or CP-SAT's own."""

COMMENT = {".mps": "*", ".lp": "\\", ".dzn": "%", ".fzn": "%", ".txtpb": "#"}

SEARCH: dict[str, Any] = {"start": [], "hint": False, "relax": 0, "below": 2**31 - 2}
"""What a MiniZinc formulation is told of the search, where there is none: nothing is known."""

SECONDS = 600.0
"""Longest time that MiniZinc may take to flatten a model."""


def text(problem: Any, name: str, suffix: str, solver: str = "gecode") -> str:
    """Return a formulation of a problem as the text of a file.

    Parameters
    ----------
    problem
        Of any room; not one whose parts are solved one by one.
    name
        Of the formulation.
    suffix
        Of the file: ``.mps``, ``.lp``, ``.dzn``, ``.json``, ``.fzn`` or ``.txtpb``.
    solver
        For whose library of constraints a model is flattened, as MiniZinc knows it.

    Raises
    ------
    InputError
        If the formulation cannot be written like that, or does not take the problem.
    """
    formulation = catalogue.formulation(room_of(problem).name, name)
    with of_model(foreign=not catalogue.bundled(formulation), constrained=bool(problem.constraints)):
        return _text(problem, name, formulation, suffix, solver)


def _text(problem: Any, name: str, formulation: ModuleType | Path, suffix: str, solver: str) -> str:
    room = room_of(problem).name
    if catalogue.solves_itself(catalogue.model(room, name)):
        raise InputError("model", name, "solves problems by itself: there is no model to write")
    accepted = SUFFIXES[catalogue.written_for(catalogue.model(room, name))]
    if suffix not in accepted:
        raise InputError("output", suffix or "no suffix", f"{name} can be written as {', '.join(accepted)}")
    if getattr(problem, "in_turn", False):
        limit = "a model has one objective; of a list each is a model of its own, with limits on those before"
        raise InputError("objective.minimise", list(problem.objective.names), limit)
    if not catalogue.suits(formulation, problem):
        raise InputError(
            "model", name, "does not take this kind of machine or objective, or a problem of this size"
        )
    refuse_unstated(catalogue.model(room, name), name, problem)
    if problem.constraints and suffix in (".dzn", ".json"):
        limit = "has data, which do not hold constraints; .fzn has them, too"
        raise InputError("output", suffix, limit)
    if suffix == ".txtpb":
        return _cpsat(problem, formulation)
    if isinstance(formulation, ModuleType):
        return _pyomo(problem, formulation, suffix)
    if suffix == ".fzn":
        return _flat(problem, formulation, solver)
    values = data(problem, formulation) | SEARCH
    if suffix == ".json":
        return _json(values)
    return _head(problem, formulation, suffix) + dzn(values, whole(formulation, room))


def data(problem: Any, formulation: Path) -> dict[str, Any]:
    """Return the parameters of a problem's MiniZinc formulation, without those of the search."""
    return bridge_of(problem, formulation).data(problem)


def _pyomo(problem: Any, formulation: ModuleType, suffix: str) -> str:
    from tilewright.drivers._pyomo import Built  # for start-up time
    from tilewright.drivers._run import Run

    built = Built(Run(problem, RunContext()), formulation, "export")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"model{suffix}"
        with nothing_printed():
            built.model.write(str(path), io_options={"symbolic_solver_labels": True})
        return _comment(suffix, built.offset, built.unit) + path.read_text("utf-8")


def _cpsat(problem: Any, formulation: Any) -> str:
    from tilewright.drivers._run import Run  # for start-up time
    from tilewright.drivers.cpsat import Built

    built = Built(Run(problem, RunContext()), formulation, "export")
    return _comment(".txtpb", built.offset, built.unit) + str(built.model.proto)


def _head(problem: Any, formulation: Path, suffix: str) -> str:
    return _comment(suffix, *bridge_of(problem, formulation).scale(problem))


def _comment(suffix: str, offset: int, unit: int) -> str:
    return f"{COMMENT[suffix]} A plan costs {offset} + {unit} * objective; the objective is minimised.\n"


def dzn(values: dict[str, Any], model: str) -> str:
    """Return parameters as a data file of a model, in whose index sets arrays are written."""
    sets = dict(re.findall(r"^set of int: (\w+) = (-?\d+)\.\.", model, re.MULTILINE))
    enums = {name: name for name in re.findall(r"^enum (\w+)", model, re.MULTILINE)}
    parts = re.findall(r"^set of (\w+): (\w+) = (\{[^}]*\});", model, re.MULTILINE)
    enums |= {name: members for of, name, members in parts if of in enums}  # a checker may not have the name

    def index(text: str) -> str:
        """Return an enumeration, or the least index of a dimension: 1 where nothing else is said."""
        number = re.match(r"-?\d+(?=\.\.)", text)
        return enums.get(text) or (number[0] if number else sets.get(text, "1"))

    arrays = re.findall(r"^array\[([^\]]*)\] of [^:\n]*: (\w+)", model, re.MULTILINE)
    indices = {name: [index(text.strip()) for text in texts.split(",")] for texts, name in arrays}
    return "".join(f"{name} = {_value(value, indices.get(name, ()))};\n" for name, value in values.items())


def _value(value: Any, indices: Sequence[str] = ()) -> str:
    """Return a value as MiniZinc has it; dimensions of arrays begin at numbers, or are enumerations."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, set | frozenset | range):
        return "{" + ", ".join(map(str, sorted(value))) + "}"
    if isinstance(value, dict):
        return str(value["e"])  # of an enumeration, as JSON has it
    if not isinstance(value, list | tuple):
        return str(value)
    shape, cells = [len(value)], list(value)
    while cells and all(isinstance(cell, list | tuple) for cell in cells):
        shape.append(len(cells[0]))
        cells = [each for cell in cells for each in cell]
    listed = "[" + ", ".join(map(_value, cells)) + "]"
    chosen = indices if len(indices) == len(shape) else ["1"] * len(shape)
    if len(shape) == 1 and (chosen[0] == "1" or not cells):
        return listed
    ranges = [
        f"{low}..{int(low) + many - 1}" if low.lstrip("-").isdigit() else low
        for low, many in zip(chosen, shape, strict=True)
    ]
    return f"array{len(shape)}d({', '.join(ranges)}, {listed})"


def _json(values: dict[str, Any]) -> str:
    def told(value: Any) -> Any:
        if isinstance(value, set | frozenset | range):
            return {"set": sorted(value)}
        return value.item()  # of numpy's

    return json.dumps(values, default=told) + "\n"


def _flat(problem: Any, formulation: Path, solver: str) -> str:
    """Return FlatZinc, as MiniZinc makes it for a solver."""
    load(f"minizinc:{solver}")  # or says what is missing
    from tilewright.drivers.minizinc import EXTRAS_OFF, beside_core, executable, stated  # for start-up time

    refuse_large(bridge_of(problem, formulation).size(problem), "export")
    model, scratch = beside_core(formulation, room_of(problem).name)
    with tempfile.TemporaryDirectory() as folder:
        parameters, flat = Path(folder) / "data.json", Path(folder) / "flat.fzn"
        parameters.write_text(_json(data(problem, formulation) | SEARCH), "utf-8")
        options = ["--solver", solver, "-c", "--no-output-ozn", "--fzn", str(flat)]
        models = [str(model)]
        if problem.constraints:
            beside = Path(folder) / "constraints.mzn"
            beside.write_text(stated(problem, formulation), "utf-8")
            models.append(str(beside))
            options += ["-D", ";".join(EXTRAS_OFF)]
        command = [executable(), *options, *models, str(parameters)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            raise TilewrightError(f"MiniZinc has not flattened the model within {SECONDS:.0f} s") from None
        if done.returncode or not flat.is_file():
            raise TilewrightError(
                f"MiniZinc cannot flatten the model for {solver}: {done.stderr.strip()[-300:]}"
            )
        if scratch is not None:
            scratch.cleanup()
        return _head(problem, formulation, ".fzn") + _telling_objective(flat.read_text("utf-8"))


def _telling_objective(flat: str) -> str:
    """Return FlatZinc among whose outputs the objective is, by its name.

    MiniZinc puts another variable of the same value in its place, or a number where it is fixed.
    """
    body, _, name = flat.rstrip().removesuffix(";").rpartition("minimize ")
    if re.search(r"^var [^:]*: objective\b.*:: output_var", flat, re.MULTILINE) and name == "objective":
        return flat
    body = re.sub(r"^var [^:]*: objective\b.*\n", "", body, flags=re.MULTILINE)
    fixed = re.search(rf"^int: {name} = (-?\d+);", flat, re.MULTILINE)
    var = re.search(rf"^var ([^:]+): {name}\b", flat, re.MULTILINE)
    values = f"{fixed[1]}..{fixed[1]}" if fixed else var[1] if var else "int"
    same = "" if fixed else f"constraint int_eq(objective,{name});\n"
    told = f"var {values}: objective:: output_var;\n{same}"
    body = re.sub(r"^(?=constraint\b|solve\b)", told, body, count=1, flags=re.MULTILINE)
    return f"{body}minimize objective;\n"


def whole(formulation: Path, room: str) -> str:
    """Return a MiniZinc formulation in one file that asks for an instance alone, and nothing of a search."""
    files = [formulation.parent, *catalogue.folders("models", room)]
    merged = _merged(formulation, files)
    for name, value in SEARCH.items():
        merged = re.sub(rf"(:\s*{name})\s*;", rf"\1 = {_value(value)};", merged)
    return merged


def _merged(file: Path, folders: list[Path]) -> str:
    """Return a file with those that it includes of our own."""

    def included(line: re.Match[str]) -> str:
        found = [folder / line[1] for folder in folders if (folder / line[1]).is_file()]
        return _merged(found[0], folders) if found else line[0]

    return re.sub(r'^include "([^"]+)";', included, file.read_text("utf-8"), flags=re.MULTILINE)


DECLARED = re.compile(r"^[^%\n]*?:\s*(\w+)\s*(=|;)", re.MULTILINE)
"""A declaration: its name, and whether a value follows."""


def takes(file: Path, model: str) -> bool:
    """Whether a checker asks only for what a model in one file declares."""
    asked = {name for name, ends in DECLARED.findall(file.read_text("utf-8")) if ends == ";"}
    return asked <= {name for name, _ in DECLARED.findall(model)}


def checker(file: Path, parameters: dict[str, Any]) -> str:
    """Return a solution checker that takes data files: with all parameters declared that it does not look at.

    A checker is given the instance's file, and MiniZinc refuses one in which it does not know a name.
    """
    source = file.read_text("utf-8")
    known = {name for name, _ in DECLARED.findall(source)}
    unknown = {name: value for name, value in parameters.items() if name not in known}
    declared = "".join(f"{_type(value)}: {name};\n" for name, value in unknown.items())
    return f"{source}\n% Of the instances; not looked at here.\n{declared}"


def _type(value: Any) -> str:
    """Return the type of a parameter, with any indices."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, set | frozenset | range):
        return "set of int"
    if isinstance(value, list | tuple):
        depth, cell = 0, cast(Any, value)
        while isinstance(cell, list | tuple):
            depth, cell = depth + 1, next(iter(cell), 0)
        return f"array[{', '.join(['int'] * depth)}] of {_type(cell)}"
    return "int"
