"""Files of buffers, plans, the simulator and heuristics of addresses."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import numpy as np
import pytest
from buffers_at_random import at_random, problem_of

from tilewright.addresses import Plan, Problem, objective, simulate, violation
from tilewright.core import catalogue
from tilewright.core.room import room_of
from tilewright.importing.assembly import Changes, assemble
from tilewright.run.instance import parse, read
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError

EXAMPLE = "id,lower,upper,size\nb1,0,3,4\nb2,3,9,4\nb3,0,9,4\nb4,9,21,4\nb5,0,21,4\n"


def example(capacity: int | None = 12, alignment: int = 1) -> Problem:
    names = ("id", "lower", "upper", "size")
    rows = [line.split(",") for line in EXAMPLE.splitlines()[1:]]
    cells = [dict(zip(names, [row[0], *map(int, row[1:])], strict=True)) for row in rows]
    memory = {"alignment": alignment} | ({} if capacity is None else {"capacity": capacity})
    return Problem(buffers=cells, memory=memory)


def test_a_file_of_buffers_is_an_instance(tmp_path: Path) -> None:
    (path := tmp_path / "input.12.csv").write_text(EXAMPLE)
    found = read(path)
    assert found.problem == example() and found.name == "input.12" and found.room == "addresses"
    (path := tmp_path / "input.csv").write_text("size,upper,id,lower\r\n4,3,b1,0\r\n")
    assert read(path).problem.memory.capacity is None
    assert read(path).problem.size.tolist() == [4]


def test_other_names_of_columns_are_known_as_well(tmp_path: Path) -> None:
    """An ``end`` is the last time of a life, an ``upper`` the first one after it."""
    old = "buffer_id,start,end,size,alignment\nb1,0,2,4,8\nb2,3,8,4,8\nb3,0,8,4,8\nb4,9,20,4,8\nb5,0,20,4,8\n"
    (path := tmp_path / "old.40.csv").write_text(old)
    assert read(path).problem == example(40, 8)


def test_capacity_and_alignment_can_be_set(tmp_path: Path) -> None:
    (path := tmp_path / "input.12.csv").write_text(EXAMPLE)
    values = (("memory.capacity", 40), ("memory.alignment", 8))
    assert assemble(str(path), Changes(values=values)).problem == example(40, 8)


def test_a_plan_is_written_as_minimalloc_writes_it(tmp_path: Path) -> None:
    result = solve(read("minimalloc-example"), "canonical", time_limit=60)
    assert result.status == "optimal" and result.objective == result.bound == 12
    written = csv.DictReader(io.StringIO(result.csv()))
    assert written.fieldnames == ["id", "lower", "upper", "size", "offset"]
    rows = list(written)
    before = list(csv.DictReader(io.StringIO(EXAMPLE)))
    assert [{name: row[name] for name in before[0]} for row in rows] == before
    assert Plan(tuple(int(row["offset"]) for row in rows)) == result.plan


@pytest.mark.parametrize(
    ("text", "field", "limit"),
    [
        ("", "line 1", "must name the columns"),
        ("id,lower,upper,size\n", "buffers", "1 to"),
        ("id,lower,upper\nb,0,1\n", "line 1: size", "missing"),
        ("id,lower,upper,sise\nb,0,1,1\n", "line 1", "did you mean size"),
        ("id,lower,upper,size,offset\nb,0,1,1,0\n", "line 1", "given offsets"),
        ("id,lower,upper,size,gaps\nb,0,1,1,\n", "line 1", "gaps in their lives"),
        ("id,lower,start,upper,size\nb,0,0,1,1\n", "line 1", "each once"),
        ("id,lower,upper,size,alignment\nb,0,1,1,0\n", "line 2: alignment", "from 1"),
        ("id,lower,upper,size,alignment\nb,0,1,1,8\nc,0,1,1,4\n", "line 3: alignment", "the lines before, 8"),
        ("id,lower,upper,size\nb,x,1,1\n", "line 2: lower", "integer"),
        ("id,lower,upper,size\nb,0,1e3,1\n", "line 2: upper", "integer"),
        ("id,lower,end,size\nb,0,,1\n", "line 2: end", "integer"),
        ("id,lower,upper,size\n,0,1,1\n", "buffers[0].id", "1"),
        ("id,lower,upper,size\nb,0,1,2147483648\n", "line 2: size", "to 2147483647"),
        ("id,lower,upper,size\nb,0,2147483648,1\n", "buffers[0].upper", "2147483647"),
        ("id,lower,upper,size,size\nb,0,1,1,1\n", "line 1", "each once"),
        ("id,lower,upper,size\nb,0,1\n", "line 2", "4 columns"),
        ("id,lower,upper,size\nb,0,1,x\n", "line 2: size", "integer"),
        ("id,lower,upper,size\nb,0,1,1.5\n", "line 2: size", "integer"),
        ("id,lower,upper,size\na,0,1,1\nb,0,1,-4\n", "line 3: size", "from 1"),
        ("id,lower,upper,size\nb,-1,1,1\n", "line 2: lower", "0 or more"),
        ("id,lower,upper,size\nb,5,5,1\n", "line 2: upper", "above lower, 5"),
        ("id,lower,upper,size\nb,0,1,1\nb,0,1,1\n", "buffers[1].id", "already"),
    ],
)
def test_what_is_wrong_with_a_file_is_told(text: str, field: str, limit: str, tmp_path: Path) -> None:
    (path := tmp_path / "bad.12.csv").write_text(text)
    with pytest.raises(InputError) as error:
        read(path)
    assert error.value.field == field and limit in error.value.limit and error.value.file == str(path)


GOOD = (8, 8, 4, 4, 0)


@pytest.mark.parametrize(
    ("offsets", "rule", "told"),
    [
        ((8, 8, 2, 4, 0), "overlap", "b3 at 2 to 5"),
        ((9, 8, 4, 4, 0), "capacity", "9 to 12"),
        ((8, 8, 4, 4), "buffers", "4 offsets"),
    ],
)
def test_a_tampered_plan_is_refused_by_both(offsets: tuple[int, ...], rule: str, told: str) -> None:
    problem = example()
    assert violation(problem, Plan(GOOD)) is None
    broken, report = violation(problem, Plan(offsets)), simulate(problem, Plan(offsets))
    assert broken is not None and broken.startswith(rule)
    assert report.violation is not None and report.violation.rule == rule
    assert told in f"{report.violation.needed} {report.violation.found}"


def test_an_offset_beside_the_alignment_is_refused() -> None:
    assert violation(example(None, 8), Plan((16, 16, 8, 8, 0))) is None
    report = simulate(example(None, 8), Plan((16, 16, 8, 12, 0)))
    assert report.violation is not None and report.violation.rule == "alignment"


def test_values_are_lost_where_buffers_share_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers find an overlap by themselves, without the rule."""
    monkeypatch.setattr("tilewright.simulator.buffer_memory.BufferMemory._hindrance", lambda *_: None)
    assert simulate(example(), Plan(GOOD), numeric=True).numeric
    assert simulate(example(), Plan((8, 8, 2, 4, 0)), numeric=True).numeric is False


@pytest.mark.parametrize("name", catalogue.heuristics("addresses"))
def test_heuristics_give_valid_plans_no_better_than_the_optimum(name: str) -> None:
    module = catalogue.heuristic("addresses", name)
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = problem_of(*at_random(rng, 20), alignment=int(rng.choice([1, 4])))
        plan = module.plan(problem)
        report = simulate(problem, plan, numeric=True)
        assert violation(problem, plan) is None and report.valid
        assert (
            report.measures.memory_addresses
            == objective(problem, plan)
            >= room_of(problem).best_bound(problem).value
        )


@pytest.mark.parametrize("data", [None, {}, {"offsets": []}, {"offsets": [1.5]}, {"offsets": [-1]}])
def test_what_is_no_plan_is_refused(data: object) -> None:
    with pytest.raises(InputError):
        Plan.from_json(data)
    assert Plan.from_json(Plan(GOOD).to_json()) == Plan(GOOD)


def test_buffers_can_stand_in_a_toml_file() -> None:
    row = {"id": "a", "lower": 0, "upper": 1, "size": 2}
    found = parse({"room": "addresses", "buffers": [row]})
    assert found.problem.unit == "addresses"
    with pytest.raises(InputError, match="upper"):
        parse({"room": "addresses", "buffers": [{**row, "lower": 1}]})
