"""Random programs of instructions, and their mutations."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from compiled import STRICT
from fusion_at_random import AnyGroups, excited, network, problem, rectified
from fusion_at_random import plan as any_plan

from tilewright.codegen.isa import Image, assemble, data_of, disassemble, execute, program_of
from tilewright.codegen.isa.engines import Effect, Memories
from tilewright.codegen.isa.fields import Field, fields_of
from tilewright.codegen.isa.instructions import OPERANDS, Instruction, Operand
from tilewright.fusion import Plan, Problem, execution
from tilewright.fusion.machine import ENGINES
from tilewright.spec.errors import InputError


def any_program(random: Random) -> tuple[Problem, Plan, Image]:
    """Return a random plan of a random network, of any groups and tiles, and its program."""
    while True:
        layers = random.choice([network, network, excited])(random)
        chip = {"element_bytes": random.choice([1, 1, 2, 4])}
        made: AnyGroups = problem(random, rectified(random, layers), machine=chip)
        plan, seed = any_plan(random, made), random.getrandbits(32)
        try:
            return made, plan, program_of(made, plan, seed, "net")
        except InputError as error:
            assert "there is no C for it" in error.limit  # a rectified value times or plus itself


def simulated(problem: Problem, plan: Plan) -> Any:
    """Return what the room measures of a plan of any groups."""
    from tilewright import fusion

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(execution, "violation", lambda problem, plan: None)
        report = fusion.simulate(problem, plan)
    assert report.violation is None
    return report.measures


def again(image: Image) -> Image:
    """Return the program that its text describes."""
    return assemble(disassemble(image), data_of(image).__getitem__)


# The host's part in C ---------------------------------------------------------------------------------------


def in_c(folder: Path, files: dict[str, bytes]) -> Any:
    """Return the compiled function that computes an entry of the host's table in DDR."""
    for name in ("host.c", "host.h", "host_table.h"):
        (folder / name).write_bytes(files[name])
    words = ["gcc", *STRICT, "-fPIC", "-shared", "-o", "host.so", "host.c"]
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "host.so")).host_call


def assert_right_in_c(image: Image, files: dict[str, bytes]) -> None:
    """Programs give what is expected where the compiled C does the host's work."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        call = in_c(Path(folder), files)
        called: list[int] = []

        def begin(self: Memories, instruction: Instruction) -> Effect:
            if instruction not in image.host:
                return engines(self, instruction)
            called.append(image.host.index(instruction))
            assert call(self.ddr.ctypes.data_as(ctypes.c_void_p), called[-1]) == 0
            return Effect(0, 0, ())

        engines = Memories.begin
        patch.setattr(Memories, "begin", begin)
        assert execute(image).right
        assert {*called} == {*range(len(image.host))}
        assert call(None, len(image.host)) == -1


# Mutations --------------------------------------------------------------------------------------------------


def mutated(random: Random, image: Image) -> Image:
    """Return a program with another bit of its dependencies, or another value of a field."""
    if random.random() < 0.2:
        return without_token(random, image)
    number = random.randrange(len(image.code))
    each = image.code[number]
    changed = _other_order(random, each) if random.random() < 0.3 else _other_value(random, each)
    return replace(image, code=(*image.code[:number], changed, *image.code[number + 1 :]))


def _other_order(random: Random, each: Instruction) -> Instruction:
    """Return an instruction that waits for, or sends, one token more or less."""
    engine = random.choice([other for other in ENGINES if other != each.engine])
    name = random.choice(["wait", "send"])
    old: tuple[str, ...] = getattr(each, name)
    new = {*old} ^ {engine}
    return replace(each, **{name: tuple(one for one in ENGINES if one in new)})


def without_token(random: Random, image: Image, pair: tuple[str, str] | None = None) -> Image:
    """Return a program without one token, perhaps of an engine for another: neither sent nor waited for."""
    code = list(image.code)
    senders: dict[tuple[str, str], list[int]] = {}
    takers: dict[tuple[str, str], list[int]] = {}
    for number, each in enumerate(code):
        for other in each.send:
            senders.setdefault((each.engine, other), []).append(number)
        for other in each.wait:
            takers.setdefault((other, each.engine), []).append(number)
    pair = pair or random.choice(sorted(senders))
    place = random.randrange(len(senders[pair]))
    sender, taker = senders[pair][place], takers[pair][place]
    code[sender] = replace(code[sender], send=tuple(one for one in code[sender].send if one != pair[1]))
    code[taker] = replace(code[taker], wait=tuple(one for one in code[taker].wait if one != pair[0]))
    return replace(image, code=tuple(code))


def _other_value(random: Random, each: Instruction) -> Instruction:
    """Return an instruction with another value of a field that changes no operands' roles."""
    places: list[tuple[int | None, Field]] = [
        (None, one) for one in fields_of(each.form.body) if one.name not in ("parts", "mode", "last")
    ]
    for number, operand in enumerate(each.operands):
        places += [(number, one) for one in fields_of(OPERANDS[operand.role])]
    if not places:
        return _other_order(random, each)
    place, one = random.choice(places)
    values = each.values if place is None else each.operands[place].values
    least, most = one.range
    old = values[one.name]
    near = old + random.choice([-64, -8, -2, -1, 1, 2, 8, 64])
    new = near if least <= near <= most and random.random() < 0.9 else random.randint(least, most)
    table = {**values, one.name: new}
    if place is None:
        return replace(each, values=table)
    operands = list(each.operands)
    operands[place] = Operand(operands[place].role, table)
    return replace(each, operands=tuple(operands))
