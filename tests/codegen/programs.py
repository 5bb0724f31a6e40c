"""Random programs of instructions, and their mutations."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from fusion_at_random import AnyGroups, excited, network, problem, rectified
from fusion_at_random import plan as any_plan

from tilewright.codegen.isa import Image, assemble, data_of, disassemble, program_of
from tilewright.codegen.isa.fields import Field, fields_of
from tilewright.codegen.isa.instructions import OPERANDS, Instruction, Operand
from tilewright.fusion import Plan, Problem, execution
from tilewright.fusion.machine import ENGINES
from tilewright.spec.errors import InputError


def any_program(random: Random) -> tuple[Problem, Plan, Image]:
    """Return a random plan of a random network, of any groups and tiles, and its program."""
    while True:
        layers = random.choice([network, network, excited])(random)
        made: AnyGroups = problem(random, rectified(random, layers))
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
