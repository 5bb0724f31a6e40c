"""Every room keeps the contract that the rest of tilewright relies on."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tilewright.core import catalogue
from tilewright.core.context import CONSTRUCT
from tilewright.core.room import MiniZincBridge, Pictures, Room, register, room_of
from tilewright.run.instance import read
from tilewright.run.methods import methods, proves
from tilewright.spec.errors import InputError, UnknownNameError

REQUIRED = (
    "best_bound",
    "broken_limit",
    "objective",
    "measured_objective",
    "execute_plan",
    "simulation_seconds",
    "numeric_elements",
    "portfolio",
)

every_room = pytest.mark.parametrize("name", catalogue.ROOMS)


def members(protocol: type) -> set[str]:
    """Return what a protocol names, attributes and methods."""
    methods = {name for name, value in vars(protocol).items() if inspect.isfunction(value)}
    return {name for name in methods | set(protocol.__annotations__) if not name.startswith("_")}


@every_room
def test_a_room_has_what_is_required(name: str) -> None:
    room = catalogue.room(name)
    assert Room in type(room).__mro__
    assert room.name == name
    assert room.decides.startswith(f"{name.capitalize()}: ")
    for member in REQUIRED:
        assert getattr(type(room), member) is not getattr(Room, member), f"{name} has no {member} of its own"


def written_in_minizinc(name: str) -> bool:
    return any(any(folder.glob("*.mzn")) for folder in catalogue.folders("models", name))


@every_room
def test_bridges_and_pictures_are_complete(name: str) -> None:
    room = catalogue.room(name)
    bridges = [(room.minizinc, MiniZincBridge)] if written_in_minizinc(name) else []
    for module, protocol in (*bridges, (room.plot, Pictures)):
        missing = members(protocol) - set(dir(module))
        # Terms are stated where constraints can speak of them.
        assert missing <= ({"term"} if find_spec(f"tilewright.{name}.vocabulary") is None else set())


@every_room
def test_a_room_is_found_by_the_type_of_its_problems(name: str) -> None:
    room = catalogue.room(name)
    for path in catalogue.instances(name)[:3]:
        problem = read(path).problem
        assert room_of(problem) is room
        assert isinstance(problem, room.problem_type)
        assert [type(part) for _, part in room.parts(problem)] == [type(problem)] * len(room.parts(problem))


@pytest.mark.parametrize("name", ["grouping", "tiling", "allocation", "fusion", "bitwidth"])
def test_the_former_name_of_violation_still_works(name: str) -> None:
    module = inspect.getmodule(type(catalogue.room(name)))
    assert module is not None
    assert module.fault is module.violation


def test_a_further_room_is_known_once_it_is_registered() -> None:
    class Problem:
        unit = ""

    class Attic(Room[Problem, int]):
        name = "attic"
        decides = "Attic: nothing."
        problem_type = Problem
        plan_type = int

    attic = register(Attic())
    assert room_of(Problem()) is attic
    assert attic.layer_kinds == ("conv", "fc")

    problem = Problem()
    assert attic.parts(problem) == [("", problem)]
    assert attic.recheck(problem, 0, 0.0) == []


def test_what_is_no_room_is_refused() -> None:
    with pytest.raises(InputError, match="must be a Problem of a room"):
        room_of(3)
    with pytest.raises(UnknownNameError, match="there are: grouping, tiling"):
        catalogue.room("attic")


@pytest.mark.by_day(12)
@every_room
def test_portfolios_name_methods_of_their_room(name: str) -> None:
    room = catalogue.room(name)
    for path in catalogue.instances(name):
        parts = room.portfolio(read(path).problem)
        known = (CONSTRUCT, *methods(name))
        assert set(parts.methods) <= set(known)
        assert parts.proving is None or proves(name, parts.proving)
        assert parts.constructs_first == (parts.improving in catalogue.heuristics(name))


def test_the_room_of_a_file_is_found_without_importing_others() -> None:
    """So that an instance with a graph in a file of its own begins as quickly as others."""
    for name in catalogue.ROOMS:
        room = catalogue.room(name)
        if room.file_suffix:
            assert catalogue.room_of_file(room.file_suffix) is room
    assert catalogue.room_of_file(".docx") is None
    code = (
        "import sys; from tilewright.run.instance import read; read('mlsys-2026-1'); "
        "print(*(name for name in sys.modules if name == 'tilewright.fusion'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
