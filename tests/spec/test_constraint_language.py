"""The language of constraints: what it reads, what it refuses, and that every translation means the same."""

from __future__ import annotations

import re
from itertools import product
from random import Random
from typing import Any

import pyomo.environ as pyo
import pytest
from conftest import examples
from hypothesis import given, settings
from numbered import randoms

from tilewright.spec.constraints import Names, Term, Vocabulary, Word
from tilewright.spec.constraints.grounding import ground
from tilewright.spec.constraints.meaning import slack, value
from tilewright.spec.constraints.parts import Ground, conjuncts, terms
from tilewright.spec.constraints.ranges import value_range
from tilewright.spec.constraints.syntax import ExpressionError, parse

LAYERS = Names("layers", ("a", "b", "c"))
ENGINES = Names("engines", ("core", "vector"))
VOCABULARY = Vocabulary.of(
    [
        Word("pes", "", lambda seen, layer: seen["pes"][layer], (LAYERS,)),
        Word("bytes", "", lambda seen: seen["bytes"], unit="bytes"),
        Word("cycles", "", lambda seen: seen["cycles"], unit="cycles"),
        Word("engine", "", lambda seen, layer: seen["engine"][layer], (LAYERS,), gives=ENGINES),
        Word(
            "fused",
            "",
            lambda seen, one, other: (one, other) in seen["fused"],
            (LAYERS, LAYERS),
            gives="truth",
        ),
    ],
    lambda plan: plan,
)
PLAN: dict[str, Any] = {
    "pes": {"a": 2, "b": 5, "c": 5},
    "bytes": 100,
    "cycles": 7,
    "engine": {"a": "core", "b": "vector", "c": "core"},
    "fused": {("a", "b")},
}


def grounded(text: str) -> Ground:
    return ground(parse(text), VOCABULARY)


def holds(text: str) -> bool:
    return bool(value(grounded(text), lambda term: VOCABULARY.value(term, PLAN)))


@pytest.mark.parametrize(
    "text",
    [
        "pes(a) == 2",
        "pes('b') == pes(c)",
        "1 <= pes(a) < pes(b) <= 5",
        "pes(a) + 3 * pes(b) - 1 == 16",
        "pes(b) % 2 == 1 and pes(b) // 2 == 2",
        "-7 % 4 == 1 and -7 // 4 == -2",
        "pes(a) in {1, 2, 7..9}",
        "pes(b) not in 1..4",
        "for all l in layers: pes(l) >= 2",
        "for some l in layers: pes(l) == 2",
        "for all l in layers, k in layers if l != k: not (fused(l, k) and fused(k, l))",
        "sum(pes(l) for l in layers if l != 'a') == 10",
        "count(pes(l) == 5 for l in layers) == 2",
        "min(pes(l) for l in layers) == 2 and max(pes(a), 3) == 3",
        "fused(a, b) and not fused(b, a)",
        "engine(a) == 'core' implies engine(b) != core",
        "engine(a) in engines",
        "false implies false implies false",
        "bytes <= 100 and 2 * bytes == bytes + bytes",
        "count(true, false, pes(a) == 2) == 2",
        "not pes(a) == 3",
    ],
)
def test_it_holds(text: str) -> None:
    assert holds(text)
    assert not holds(f"not ({text})")


@pytest.mark.parametrize(
    ("text", "column", "told"),
    [
        ("pes(a) == 2 )", 13, "nothing more"),
        ("pes(a) = 2", 8, "=="),
        ("bites == 2", 1, "did you mean bytes"),
        ("pes(d) == 2", 5, "none of layers"),
        ("pes == 2", 1, "one of layers"),
        ("pes(a)", 1, "a number"),
        ("pes(a) == 'core'", 11, "cannot be compared"),
        ("engine(a) == 'cor'", 14, "did you mean core"),
        ("engine(a) < 'core'", 13, "no order"),
        ("bytes <= cycles", 1, "mixes bytes and cycles"),
        ("bytes + 1 <= bytes * bytes", 1, "bytes times bytes"),
        ("pes(a) // 0 == 1", 11, "positive"),
        ("pes(a) % pes(b) == 0", 10, "positive"),
        ("for all l in layer: true", 14, "did you mean layers"),
        ("for all pes in layers: true", 16, "another name"),
        ("for every l in layers: true", 5, "all"),
        ("sum(pes(a), pes(a) == 2) == 2", 13, "a number is expected"),
        ("'a == 2", 1, "no end"),
        ("pes(a) == 99999999999999999999", 11, "larger"),
        ("(" * 60 + "1", 41, "inside each other"),
        ("for all i in 1..1000, k in 1..1000: pes(a) == i", 47, "more than"),
        ("min(pes(l) for l in layers if l == 'x') == 1", 36, "none of layers"),
        ("min(i for i in 3..2) == 1", 1, "of nothing"),
        ("", 1, "a number or a word"),
    ],
)
def test_what_is_wrong_is_told_with_its_column(text: str, column: int, told: str) -> None:
    with pytest.raises(ExpressionError) as found:
        grounded(text)
    assert found.value.at == column
    assert told in str(found.value)


def test_slack_is_what_is_left_of_the_tightest_comparison() -> None:
    def left(text: str) -> int | None:
        return slack(grounded(text), lambda term: VOCABULARY.value(term, PLAN))

    assert left("pes(a) <= 4 and pes(b) < 9") == 2
    assert left("pes(a) >= 4") == -2
    assert left("pes(a) == 2") is None


# Random constraints over three numbers and a truth -----------------------------------------------------

MOST = 4
NAMES = ("x", "y", "z")
SMALL = Vocabulary.of(
    [
        *(Word(name, "", lambda seen, name=name: seen[name]) for name in NAMES),
        Word("t", "", lambda seen: seen["t"], gives="truth"),
    ],
    lambda plan: plan,
)


def number(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.3:
        return random.choice([*NAMES, str(random.randint(0, 5))])
    one, other = number(random, depth - 1), number(random, depth - 1)
    small = random.randint(1, 3)
    return random.choice(
        [
            f"({one} + {other})",
            f"({one} - {other})",
            f"({small} * {one})",
            f"({one} // {small})",
            f"({one} % {small})",
            f"min({one}, {other})",
            f"max({one}, {other})",
            f"count({truth(random, depth - 1)}, {one} < {other})",
        ]
    )


def truth(random: Random, depth: int) -> str:
    if depth == 0 or random.random() < 0.2:
        comparing = random.choice(["==", "!=", "<", "<=", ">", ">="])
        return random.choice(["t", f"{number(random, depth)} {comparing} {number(random, depth)}"])
    one, other = truth(random, depth - 1), truth(random, depth - 1)
    return random.choice(
        [
            f"({one} and {other})",
            f"({one} or {other})",
            f"({one} implies {other})",
            f"not ({one})",
            f"{number(random, depth)} in {{1, 3..4}}",
            f"({number(random, depth)} <= {number(random, depth)})",
            f"(({one}) == ({other}))",
        ]
    )


def python(text: str) -> str:
    """Return the expression in Python, where it is not the same."""
    text = re.sub(r"in \{1, 3\.\.4\}", "in (1, 3, 4)", text)
    return re.sub(r"count\(", "counted(", text)


def expected(text: str) -> set[tuple[int, int, int, bool]]:
    """Return the values for which an expression holds, by Python."""
    found = set()
    for x, y, z, t in product(range(MOST + 1), range(MOST + 1), range(MOST + 1), (False, True)):
        names = {"x": x, "y": y, "z": z, "t": t, "counted": lambda *of: sum(map(bool, of))}
        if eval(_with_implies(python(text)), {"min": min, "max": max, "__builtins__": {}}, names):
            found.add((x, y, z, t))
    return found


def _with_implies(text: str) -> str:
    """Return Python with ``(a implies b)`` as ``(not (a) or (b))``, from the inside out."""
    while " implies " in text:
        at = text.index(" implies ")
        depth, start = 0, at
        while depth >= 0:
            start -= 1
            depth += {")": 1, "(": -1}.get(text[start], 0)
        depth, end = 0, at + len(" implies ")
        while True:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            if depth < 0:
                break
            end += 1
        left, right = text[start + 1 : at], text[at + len(" implies ") : end]
        text = f"{text[:start]}(not ({left}) or ({right})){text[end + 1 :]}"
    return text


@settings(max_examples=examples(400))
@given(randoms)
def test_it_means_what_python_means_and_ranges_hold_all_values(random: Random) -> None:
    text = truth(random, 3)
    part = ground(parse(text), SMALL)
    held, ends = set(), set()
    for x, y, z, t in product(range(MOST + 1), range(MOST + 1), range(MOST + 1), (False, True)):
        values = {"x": x, "y": y, "z": z, "t": t}
        if value(part, lambda term, values=values: values[term.word]):
            held.add((x, y, z, t))
        ends.add(bool(value(part, lambda term, values=values: values[term.word])))
    assert held == expected(text)
    low, high = value_range(part, lambda term: (0, 1) if term.word == "t" else (0, MOST))
    assert low <= min(ends)
    assert max(ends) <= high
    again = ground(parse(str(part)), SMALL)
    assert {str(one) for one in conjuncts(again)} == {str(one) for one in conjuncts(part)}


@settings(max_examples=examples(60))
@given(randoms)
def test_cp_sat_is_told_the_same(random: Random) -> None:
    cp_model = pytest.importorskip("ortools.sat.python.cp_model")
    from tilewright.drivers._stated import Whole

    text = truth(random, 3)
    model = cp_model.CpModel()
    variables = {name: model.new_int_var(0, MOST, name) for name in NAMES} | {"t": model.new_bool_var("t")}
    Whole(model, lambda term: variables[term.word]).add(ground(parse(text), SMALL))

    class Found(cp_model.CpSolverSolutionCallback):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.all: list[tuple[Any, ...]] = []

        def on_solution_callback(self) -> None:
            self.all.append(
                (*(self.value(variables[name]) for name in NAMES), bool(self.value(variables["t"])))
            )

    solver, found = cp_model.CpSolver(), Found()
    solver.parameters.enumerate_all_solutions = True
    solver.parameters.num_workers = 1
    solver.solve(model, found)
    assert set(found.all) == expected(text)


@settings(max_examples=examples(24))
@given(randoms)
def test_highs_is_told_the_same_and_given_a_start(random: Random) -> None:
    from pyomo.contrib.appsi.solvers import Highs

    from tilewright.drivers._stated import Linear

    text = truth(random, 3)
    right = expected(text)
    model = pyo.ConcreteModel()
    model.numbers = pyo.Var(NAMES, domain=pyo.Integers, bounds=(0, MOST))
    model.truth = pyo.Var(domain=pyo.Binary)
    model.aim = pyo.Objective(expr=0 * model.truth)
    stated = Linear(model, lambda term: model.truth if term.word == "t" else model.numbers[term.word])
    try:
        stated.add(ground(parse(text), SMALL))
    except ValueError:  # a constant that is false
        assert not right
        return
    solver = Highs()
    solver.config.load_solution = False
    for point in random.sample(sorted(product(range(5), range(5), range(5), (False, True))), 4):
        for name, one in zip(NAMES, point, strict=False):
            model.numbers[name].fix(one)
        model.truth.fix(int(point[3]))
        feasible = solver.solve(model).termination_condition.name == "optimal"
        assert feasible == (point in right), (text, point)
        if feasible:
            stated.start()
            for constraint in model.component_data_objects(pyo.Constraint):
                assert constraint.slack() >= -1e-9, (text, point, constraint.name)


def test_terms_are_found_wherever_they_are() -> None:
    assert terms(grounded("pes(a) + 1 in {pes(b), 2} or fused(a, c)")) == {
        Term("pes", ("a",)),
        Term("pes", ("b",)),
        Term("fused", ("a", "c")),
    }
