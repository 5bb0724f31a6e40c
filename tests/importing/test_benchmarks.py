"""Benchmark sets: the bundled ones hold together, and lists of a user's own are read with suspicion."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewright.core import catalogue
from tilewright.importing.benchmarks import benchmark, names
from tilewright.run.best_known import best_known
from tilewright.run.methods import check_method
from tilewright.spec.errors import InputError, UnknownNameError


def test_every_room_has_one_and_its_methods_exist() -> None:
    assert set(names()) == set(catalogue.ROOMS)
    for room in catalogue.ROOMS:
        (found,) = benchmark([room])
        assert {instance.room for instance in found.instances} == {room}
        assert len({instance.name for instance in found.instances}) == len(found.instances) >= 4
        assert len({instance.sha256 for instance in found.instances}) == len(found.instances)
        assert "auto" in found.methods
        for method in found.methods:
            check_method(room, method)
    assert [one.file.stem for one in benchmark(["all"])] == names()


def test_closed_and_open_instances_are_among_those_of_grouping() -> None:
    known = best_known(["grouping"])
    states = [
        known[instance.sha256].objective == known[instance.sha256].bound
        for instance in benchmark(["grouping"])[0].instances
        if instance.sha256 in known
    ]
    assert states.count(True) >= 3 and states.count(False) >= 3


def test_a_list_of_ones_own_has_files_and_other_values(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(
        'room = "grouping"\n[layer]\ninput = [1, 4, 4]\nkernels = 1\nkernel = [3, 3]\n'
        "[machine]\ngroup_size = 2\n"
    )
    (tmp_path / "set.toml").write_text(
        'instances = ["mine.toml", '
        '{ name = "wide", of = "mine.toml", set = { "layer.input" = [1, 4, 8] } }]\n'
    )
    (found,) = benchmark([str(tmp_path / "set.toml")])
    assert [instance.name for instance in found.instances] == ["mine", "wide"]
    assert found.instances[1].problem.layer.input == (1, 4, 8) and found.methods == ()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("instances = []", "must be lists"),
        ('instances = "a"', "must be lists"),
        ('instances = ["mnist-tcpa"]\nmethods = [1]', "must be lists"),
        ('instances = ["mnist-tcpa"]\nmethod = ["auto"]', "methods"),
        ('instances = [{ name = "a" }]', "must be a name"),
        ('instances = [{ of = "mnist-tcpa", sett = {} }]', "must be a name"),
        ('instances = [{ of = "mnist-tcpa", set = { "machine.arrays" = 1 } }]', "arrays"),
        ('instances = ["mnist-tcp"]', "mnist-tcp"),
    ],
)
def test_what_is_no_list_is_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "set.toml").write_text(text)
    with pytest.raises(InputError, match=told):
        benchmark([str(tmp_path / "set.toml")])


def test_an_unknown_set_is_told_with_those_there_are() -> None:
    with pytest.raises(UnknownNameError, match=r"all.*grouping"):
        benchmark(["groups"])
