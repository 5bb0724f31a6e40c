"""The best known results that come with the product: every plan and every number of them holds."""

import json
from pathlib import Path

import pytest

from tilewright.grouping import best_bound, objective, violation
from tilewright.papers.s1.records import Record, known, write
from tilewright.papers.s1.tables import GROUPS, LAYER_GROUPS, LAYERS, SIZES, bundled, grid_cell
from tilewright.run.instance import Instance, read
from tilewright.spec.errors import InputError

RECORDS = known()


def instances() -> list[Instance]:
    grid = [grid_cell(size, group, steps) for steps in ("kmin", "free") for group in GROUPS for size in SIZES]
    return [read("s1-example2"), *grid, *(bundled(name, group) for name in LAYERS for group in LAYER_GROUPS)]


INSTANCES = {instance.sha256: instance for instance in instances()}


def test_every_record_is_of_an_instance_of_the_reproductions_or_of_the_benchmark_set():
    assert RECORDS
    assert set(RECORDS) <= set(INSTANCES)
    for digest, record in RECORDS.items():
        assert record.instance == INSTANCES[digest].name


@pytest.mark.by_day(28)
@pytest.mark.parametrize("record", RECORDS.values(), ids=lambda record: record.instance)
def test_plans_cost_what_is_said_and_bounds_fit(record):
    problem = INSTANCES[record.sha256].problem
    plan = record.plan(problem)
    assert plan is not None
    assert violation(problem, plan) is None
    assert objective(problem, plan) == record.objective >= record.bound
    assert record.bound >= best_bound(problem).value
    assert set(record.found) - {"instance"} == {"tilewright", "method", "seconds", "date"}
    assert record.proven["by"]


def test_fewer_steps_are_no_cheaper_than_free_ones():
    """A plan of K_min steps is one of any number, and a bound on any number is one on K_min."""
    by_name = {record.instance: record for record in RECORDS.values()}
    for name, record in by_name.items():
        if name.endswith("-kmin") and (free := by_name.get(name.replace("-kmin", "-free"))):
            assert free.bound <= record.objective
            assert not (record.optimal and free.optimal) or free.objective <= record.objective


def record(**changes) -> Record:
    values = {
        "instance": "a",
        "sha256": "0",
        "objective": 10,
        "steps": [0, 1],
        "found": {"date": "old"},
        "bound": 8,
        "proven": {"date": "old"},
    }
    return Record(**(values | changes))


def test_the_better_plan_and_the_better_bound_stay():
    newer = {"found": {"date": "new"}, "proven": {"date": "new"}}
    assert record().beside(record(**newer)) == record()
    better_plan = record(objective=9, steps=[1, 0], **newer)
    assert record().beside(better_plan) == record(objective=9, steps=[1, 0], found={"date": "new"})
    better_bound = record(objective=12, bound=9, **newer)
    assert record().beside(better_bound) == record(bound=9, proven={"date": "new"})
    nothing = record(objective=None, steps=None, found=None)
    assert nothing.beside(better_plan).objective == 9
    assert record().beside(nothing) == record()


def test_files_come_back(tmp_path: Path):
    path = tmp_path / "best-known.json"
    assert known(path) == {}
    write({"0": record(), "1": record(sha256="1", instance="b")}, path)
    assert known(path) == {"0": record(), "1": record(sha256="1", instance="b")}
    path.write_text(json.dumps({"instance": "a"}) + "\n")
    with pytest.raises(InputError, match="best-known"):
        known(path)
