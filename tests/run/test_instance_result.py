"""Instance and result files: whatever is wrong with them is refused with file, field, value and limit."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples, make_problem, tells
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.tables import text

from tilewright.core.files import write_atomically
from tilewright.grouping import Plan, simulate
from tilewright.run import instance as instance_module
from tilewright.run.instance import digest, parse, read
from tilewright.run.result import Result
from tilewright.run.summary import relative_gap
from tilewright.spec.errors import InputError, OutputError

BASE = {
    "room": "grouping",
    "layer": {"input": [2, 8, 8], "kernels": 4, "kernel": [3, 3]},
    "machine": {"group_size": 2},
}


Refuses = Callable[..., InputError]


def changed(path: str, value: Any) -> dict[str, Any]:
    """Return the base instance with one field set; None removes it."""
    table = json.loads(json.dumps(BASE))
    *parents, key = path.split(".")
    inner = table
    for parent in parents:
        inner = inner.setdefault(parent, {})
    if value is None:
        inner.pop(key, None)
    else:
        inner[key] = value
    return table


@pytest.fixture
def refuses(tmp_path: Path) -> Refuses:
    """Write a file, read it, and return the error, which names the file."""

    def check(content: dict[str, Any] | str | bytes, *others: tuple[str, str]) -> InputError:
        path = tmp_path / "broken.toml"
        content = text(content) if isinstance(content, dict) else content
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        for name, other in others:
            (tmp_path / name).write_text(other)
        with pytest.raises(InputError) as caught:
            read(path)
        assert str(caught.value).startswith(str(tmp_path))
        assert caught.value.file is not None
        assert caught.value.exit_status == 2
        assert len(str(caught.value)) < 1000
        return caught.value

    return check


# Instances that are good -------------------------------------------------------------------------


def test_a_good_instance(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(text(BASE))
    instance = read(path)
    assert (instance.room, instance.name, instance.source) == ("grouping", "small", "")
    assert instance.path == path
    assert instance.problem == make_problem(BASE["layer"])
    assert instance.sha256 == digest("grouping", instance.problem)


def test_a_comment_a_name_or_an_order_changes_no_digest(tmp_path: Path) -> None:
    first = parse(BASE)
    table = {"machine": BASE["machine"], "layer": BASE["layer"], "room": "grouping", "name": "other"}
    path = tmp_path / "b.toml"
    path.write_text("# comment\n" + text(table))
    assert read(path).sha256 == first.sha256
    assert parse(changed("limits.reloads", 2)).sha256 == first.sha256
    assert parse(changed("limits.reloads", 3)).sha256 != first.sha256
    assert parse(changed("layer.kernels", 5)).sha256 != first.sha256
    assert BASE["room"] == "grouping", "parse must not change what it is given"


def test_bundled_instances_are_found_by_name() -> None:
    assert read("lenet5-conv1-g4").problem.grid == (28, 28)


def test_a_machine_may_stand_in_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "machines").mkdir()
    (tmp_path / "machines" / "edge.toml").write_text("group_size = 3\nmemory = 900\n")
    (tmp_path / "layer.toml").write_text("input = [1, 5, 6]\nkernels = 2\nkernel = [3, 2]\n")
    table = {"room": "grouping", "machine": "machines/edge.toml", "layer": "layer.toml"}
    path = tmp_path / "a.toml"
    path.write_text(text(table))
    problem = read(path).problem
    assert (problem.group_size, problem.machine.memory, problem.grid) == (3, 900, (3, 5))
    whole = {
        "room": "grouping",
        "machine": {"group_size": 3, "memory": 900},
        "layer": {"input": [1, 5, 6], "kernels": 2, "kernel": [3, 2]},
    }
    assert read(path).sha256 == parse(whole).sha256


# Instances that are not --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "value", "limit"),
    [
        ("layer.input", [2, -8, 8], "1"),
        ("layer.input", [0, 8, 8], "1"),
        ("layer.input", [2, 8, 4_000_001], "4000000"),
        ("layer.input", [2**20 + 1, 8, 8], "1048576"),
        ("layer.input", [2, 8], "channels .. height .. width"),
        ("layer.input", [2, 8, 8, 8], "channels .. height .. width"),
        ("layer.input", 8, "channels .. height .. width"),
        ("layer.input", "2x8x8", "channels .. height .. width"),
        ("layer.input", [[2], 8, 8], "integer"),
        ("layer.input", {"C": 2}, "channels .. height .. width"),
        ("layer.input", None, "missing"),
        ("layer.kernels", 0, "1"),
        ("layer.kernels", 2.0, "integer"),
        ("layer.kernels", True, "integer"),
        ("layer.kernels", "four", "integer"),
        ("layer.kernels", "4", "integer"),
        ("layer.kernels", 10**30, "65536"),
        ("layer.kernels", -(10**30), "1"),
        ("layer.kernel", [3, 4097], "4096"),
        ("layer.kernel", [3, 9], "8"),
        ("layer.kernel", [0, 3], "1"),
        ("layer.stride", [0, 1], "1"),
        ("layer.stride", [1, 1.5], "integer"),
        ("layer.padding", [0, 0, 3, 0], "width .. 3"),
        ("layer.padding", [0, 3, 0, 0], "height .. 3"),
        ("layer.padding", [-1, 0, 0, 0], "0"),
        ("layer.padding", [1, 1], "top .. bottom .. left .. right"),
        ("layer.groups", 3, "2 .. channels .. 4 kernels"),
        ("layer.groups", 4, "2 .. channels .. 4 kernels"),
        ("layer.batch", 0, "1"),
        ("layer.kind", "pool", "'conv'"),
        ("machine.group_size", 0, "1"),
        ("machine.group_size", 10**16, "1000000000000000"),
        ("machine.group_size", None, "group_size .. macs_per_step"),
        ("machine.group_size", "all", "integer"),
        ("machine.memory", 1, "94"),
        ("machine.memory", 0, "1"),
        ("machine.memory", 1e9, "integer"),
        ("machine.load", -1, "0"),
        ("machine.load", 1_000_001, "1000000"),
        ("machine.load", 0.5, "integer"),
        ("machine.kernels", "step2", "'preloaded' .. 'step1'"),
        ("machine.outputs", "never", "'each_step' .. 'kept'"),
        ("machine.padding", "zero", "'loaded' .. 'generated'"),
        ("machine.padding", 0, "'loaded' .. 'generated'"),
        ("limits.steps", "most", "'free' .. 'kmin'"),
        ("limits.steps", 0, "1"),
        ("limits.steps", 17, "18 .. 36"),
        ("limits.steps", 37, "18 .. 36"),
        ("limits.steps", 20.0, "integer"),
        ("limits.steps", True, "integer"),
        ("limits.reloads", -1, "0"),
        ("limits.reloads", 1_000_001, "1000000"),
        ("objective.minimise", "energy", "'loads' .. 'duration'"),
        ("objective.count", 3, "'elements' .. 'pixels'"),
    ],
)
def test_a_bad_field_is_named_with_its_value_and_limit(
    refuses: Refuses, field: str, value: Any, limit: str
) -> None:
    error = refuses(changed(field, value))
    assert error.field.startswith(field)
    assert tells(error, error.field) and tells(error.limit, limit)
    if value is not None and error.value is not None:
        told = error.value  # lists are tuples from the base of all tables on
        assert str(list(told) if isinstance(told, tuple) else told)[:40] in str(value)


@pytest.mark.parametrize("number", ["nan", "inf", "-inf", "1e400"])
@pytest.mark.parametrize(
    "field", ["layer.kernels", "machine.group_size", "machine.memory", "limits.steps", "limits.reloads"]
)
def test_no_number_is_no_number(refuses: Refuses, field: str, number: str) -> None:
    error = refuses(text(changed(field, 987_654)).replace("987654", number))
    assert error.field == field
    assert "integer" in str(error)


@pytest.mark.parametrize(
    ("path", "choices"),
    [
        ("lyer", "layer, machine, limits, objective"),
        ("layer.colour", "kind, input, kernels, kernel, stride, padding, dilation, groups, batch"),
        ("machine.memry", "group_size, macs_per_step, memory"),
        ("limits.step", "steps, reloads"),
        ("objective.maximise", "minimise, count"),
    ],
)
def test_an_unknown_key_is_named_with_those_there_are(refuses: Refuses, path: str, choices: str) -> None:
    error = refuses(changed(path, 1))
    assert error.field == path
    assert tells(error.limit, "unknown key", choices)


def test_an_unknown_key_whose_name_looks_like_a_type(refuses: Refuses) -> None:
    """Parts of a location that name a member of a union are left out; a user's key is none of them."""
    for key in ("internal", "literal[", "constrained"):
        table = text(changed("layer.unheard_of", 1)).replace("unheard_of", json.dumps(key))
        assert refuses(table).field == f"layer.{key}"


@pytest.mark.parametrize("table", ["layer", "machine"])
@pytest.mark.parametrize("value", [None, 5, [1], True, 1.5])
def test_a_table_that_is_none(refuses: Refuses, table: str, value: Any) -> None:
    assert refuses(changed(table, value)).field == table


@pytest.mark.parametrize("value", [None, "tilling", 3, [], {"a": 1}, "", "x" * 2000])
def test_the_room_is_one_of_those_there_are(refuses: Refuses, value: Any) -> None:
    error = refuses(changed("room", value))
    assert error.field == "room"


@pytest.mark.parametrize("key", ["name", "source"])
@pytest.mark.parametrize("value", [3, "x" * 1001, ["a"], False])
def test_names_are_short_texts(refuses: Refuses, key: str, value: Any) -> None:
    error = refuses(changed(key, value))
    assert error.field == key
    assert tells(error.limit, "1000 characters")


def test_one_of_group_size_and_macs_per_step(refuses: Refuses) -> None:
    error = refuses(changed("machine.macs_per_step", 10_000))
    assert error.field == "machine.group_size"
    assert tells(error.limit, "group_size .. macs_per_step")


def test_macs_for_less_than_a_patch(refuses: Refuses) -> None:
    """A patch takes 2 channels * 9 * 4 kernels = 72 MACs."""
    for macs, fine in ((71, False), (72, True)):
        table = changed("machine", {"macs_per_step": macs})
        if fine:
            assert parse(table).problem.group_size == 1
        else:
            error = refuses(table)
            assert (error.field, error.value) == ("machine.macs_per_step", 71)
            assert tells(error.limit, "72 MACs")


def test_memory_for_less_than_a_patch(refuses: Refuses) -> None:
    """18 input elements, 72 of kernels and 4 outputs: 94."""
    for memory, fine in ((93, False), (94, True)):
        table = changed("machine.memory", memory)
        if fine:
            assert parse(table).problem.machine.memory == 94
        else:
            error = refuses(table)
            assert (error.field, error.value) == ("machine.memory", 93)
            assert tells(error.limit, "patch (18) .. kernels (72) .. outputs (4) .. 94 elements")


def test_a_dilated_kernel_larger_than_the_input(refuses: Refuses) -> None:
    error = refuses(changed("layer.dilation", [4, 1]))
    assert error.field == "layer.kernel"
    assert tells(error.limit, "height .. 9 .. 8")


def test_layers_too_large(refuses: Refuses) -> None:
    error = refuses(changed("layer.input", [1, 60_000, 60_000]))
    assert tells(error, "layer.input .. 4000000")
    error = refuses(changed("layer.input", [2, 600, 600]))
    assert tells(error, "layer.input .. 357604 patches .. 250000")


@pytest.mark.parametrize(
    "content",
    [
        b"\xff\xfe\x00",
        b'room = "gr\xe9"',
        b"\x00",
        b"room = ",
        b"= 3",
        b"[layer\n",
        b'room = "grouping"\nroom = "grouping"',
        b"[layer]\n[layer]\n",
        b'{"room": "grouping"}',
        b"room = 1979-13-40",
        b"x = " + b"[" * 5000 + b"]" * 5000,
        b"x = " + b"{a = " * 3000 + b"1" + b"}" * 3000,
        b"x = " + b"9" * 5000,
        b"\n" * 10,
        b"",
    ],
    ids=lambda content: repr(content[:20]),
)
def test_what_is_not_toml(refuses: Refuses, content: bytes) -> None:
    refuses(content)


@pytest.mark.parametrize("digits", ["0x" + "f" * 5000, "0b" + "1" * 20_000], ids=["hex", "binary"])
def test_numbers_that_python_does_not_print(refuses: Refuses, digits: str) -> None:
    error = refuses(text(changed("layer.kernels", 987_654)).replace("987654", digits))
    assert error.field == "layer.kernels"


@pytest.mark.parametrize("place", ["room", "stranger", "layer.kernels", "machine"])
def test_deep_tables(refuses: Refuses, place: str) -> None:
    lines = text(changed(place, None)) + f"{place}{'.a' * 2000} = 1\n"
    if "." in place:
        table, key = place.split(".")
        lines = text(changed(table, None)) + f"[{table}]\n{key}{'.a' * 2000} = 1\n"
    refuses(lines)


def test_a_file_too_large(refuses: Refuses) -> None:
    error = refuses("#" * 1_000_001)
    assert (error.field, error.value) == ("file size", 1_000_001)
    assert tells(error.limit, "1000000 bytes")


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gone\.toml.*no such file"):
        read(tmp_path / "gone.toml")
    with pytest.raises(InputError, match="is not a file"):
        read(tmp_path)
    with pytest.raises(InputError, match="tilewright list instances"):
        read("no-such-instance")
    for name in ("", ".", "a\0b", "\ud800"):
        with pytest.raises(InputError):
            read(name)
    with pytest.raises(InputError):
        read("/dev/zero")


@pytest.mark.parametrize("name", ["x" * 300, "x" * 300 + ".toml", "x/" * 5000])
def test_names_that_no_file_can_have(name: str) -> None:
    with pytest.raises(InputError):
        read(name)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_that_may_not_be_read(tmp_path: Path) -> None:
    path = tmp_path / "secret.toml"
    path.write_text(text(BASE))
    path.chmod(0)
    with pytest.raises(InputError, match="cannot be read"):
        read(path)


# Tables in files of their own --------------------------------------------------------------------


def test_an_absolute_path_is_refused(refuses: Refuses, tmp_path: Path) -> None:
    (tmp_path / "machine.toml").write_text("group_size = 2")
    error = refuses(changed("machine", str(tmp_path / "machine.toml")))
    assert error.field == "machine"
    assert "relative path" in str(error)


@pytest.mark.parametrize("name", ["machine.txt", "machine", "/etc/passwd", "", "."])
def test_only_toml_files_hold_tables(refuses: Refuses, name: str) -> None:
    assert refuses(changed("machine", name)).field == "machine"


@pytest.mark.parametrize("name", ["gone.toml", "../gone.toml", "\0.toml", "x" * 300 + ".toml"])
def test_a_table_whose_file_is_gone(refuses: Refuses, tmp_path: Path, name: str) -> None:
    error = refuses(changed("machine", name))
    assert error.file is not None
    assert error.file.endswith("broken.toml")
    assert (error.field, error.value) == ("machine", name)
    assert tells(error, "no such file", tmp_path)


def test_a_table_whose_file_is_a_folder(refuses: Refuses, tmp_path: Path) -> None:
    (tmp_path / "m.toml").mkdir()
    error = refuses(changed("machine", "m.toml"))
    assert (error.field, error.value) == ("machine", "m.toml")
    assert "broken.toml" in str(error)
    assert tells(error, "not a file", tmp_path / "m.toml")


def test_an_error_in_an_included_file_names_its_field(refuses: Refuses) -> None:
    error = refuses(changed("machine", "m.toml"), ("m.toml", "group_size = 0\n"))
    assert error.field == "machine.group_size"
    error = refuses(changed("machine", "m.toml"), ("m.toml", "group_size = \n"))
    assert error.file is not None
    assert error.file.endswith("m.toml")
    error = refuses(changed("machine", "m.toml"), ("m.toml", "x" * 1_000_001))
    assert error.field == "file size"
    error = refuses(changed("machine", "m.toml"), ("m.toml", "group_size = 2\ntable = 'other.toml'\n"))
    assert error.field == "machine.table"


def test_an_included_file_includes_nothing(refuses: Refuses) -> None:
    """A machine's file that names itself is a table with a wrong key, not a loop."""
    error = refuses(changed("machine", "m.toml"), ("m.toml", 'machine = "m.toml"\n'))
    assert error.field == "machine.machine"


def test_tables_of_python_are_no_paths() -> None:
    """Without a file there is no folder to look in."""
    with pytest.raises(InputError, match="relative path"):
        parse(changed("machine", "m.toml"))


json_like = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["free", "kmin", "loads", "step1", "kept"]),
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["input", "kernels", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)
fields = st.sampled_from(
    [f"layer.{key}" for key in ("input", "kernels", "kernel", "stride", "padding", "batch", "new")]
    + [f"machine.{key}" for key in ("group_size", "macs_per_step", "memory", "load", "kernels", "new")]
    + ["limits.steps", "limits.reloads", "limits", "objective", "layer", "machine", "room", "name", "new"]
)


@given(st.lists(st.tuples(fields, json_like), max_size=2))
@settings(max_examples=examples(400))
def test_whatever_stands_in_a_table_is_accepted_or_refused_by_name(changes: list[tuple[str, Any]]) -> None:
    table: dict[str, Any] = json.loads(json.dumps(BASE))
    for path, value in changes:
        *parents, key = path.split(".")
        inner = table
        for parent in parents:
            if not isinstance(inner.get(parent), dict):
                inner[parent] = {}
            inner = inner[parent]
        inner[key] = value
    try:
        instance = parse(table)
    except InputError as error:
        assert error.field
        assert error.limit
        return
    assert instance.problem.kmin >= 1


@given(st.text(max_size=60) | st.binary(max_size=60))
@settings(max_examples=examples(200), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_bytes_are_refused(tmp_path: Path, content: str | bytes) -> None:
    path = tmp_path / "any.toml"
    path.write_bytes(content if isinstance(content, bytes) else content.encode(errors="surrogatepass"))
    with pytest.raises(InputError):
        read(path)


def test_documented_limits_are_those_of_the_code() -> None:
    assert instance_module.MAX_BYTES == 1_000_000
    assert tomllib.loads(text(BASE)) == BASE


# Results -----------------------------------------------------------------------------------------


def result(**changes: Any) -> Result:
    problem = make_problem()
    plan = Plan((((0, 0), (0, 1)), ((0, 2), (1, 2)), ((1, 1), (1, 0)), ((2, 0), (2, 1)), ((2, 2),)))
    report = simulate(problem, plan)
    given = Result(
        room="grouping",
        instance="example",
        instance_sha256="0" * 64,
        method="zigzag",
        status="feasible",
        objective=71,
        bound=55,
        gap=relative_gap(71, 55),
        seconds=0.25,
        seed=3,
        warm_start=None,
        plan=plan,
        report=report.verdict(),
        bound_by="compulsory",
        trace=[(0.1, 80, None), (0.2, 71, 55)],
        versions={"tilewright": "0.1.0"},
    )
    return replace(given, **changes)


@pytest.mark.parametrize(
    "given",
    [
        result(),
        result(plan=None, report=None, objective=None, bound=None, gap=None, status="unknown", trace=[]),
        result(plan=Plan((((0, 0),),), (1,)), warm_start="accepted", interrupted=True, status="optimal"),
    ],
    ids=["feasible", "unknown", "optimal"],
)
def test_results_survive_their_file(tmp_path: Path, given: Result) -> None:
    path = tmp_path / "result.json"
    given.write(path)
    again = Result.read(path)
    assert [tuple(point) for point in again.trace] == given.trace
    assert replace(again, trace=given.trace) == given
    assert again.exit_status == (0 if given.plan else 1)
    assert path.read_text().endswith("}\n")
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_result_file_is_as_readable_as_others(tmp_path: Path) -> None:
    path, other = tmp_path / "result.json", tmp_path / "other"
    other.write_text("")
    result().write(path)
    assert path.stat().st_mode == other.stat().st_mode


@pytest.mark.parametrize("fails", ["replace", "fsync", "chmod"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str, error: BaseException
) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")

    def fail(*_arguments: Any) -> None:
        raise error

    monkeypatch.setattr(os, fails, fail)
    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        result().write(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


@pytest.mark.parametrize(
    "changes", [{"gap": float("nan")}, {"seconds": float("inf")}, {"failures": [object()]}]
)
def test_what_json_cannot_hold_is_not_written(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "result.json"
    path.write_text("old")
    with pytest.raises((ValueError, TypeError)):
        result(**changes).write(path)
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["result.json"]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="is a folder"):
        result().write(tmp_path)
    with pytest.raises(OutputError, match="cannot be written"):
        result().write(tmp_path / "gone" / "result.json")
    assert os.listdir(tmp_path) == []


def test_bytes_and_text_are_written_as_they_are(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"\x00\xff")
    write_atomically(tmp_path / "b", "\u00e9\n")
    assert (tmp_path / "a").read_bytes() == b"\x00\xff"
    assert (tmp_path / "b").read_bytes() == b"\xc3\xa9\n"


def refused(path: Path, content: Any) -> InputError:
    """Write a result file, read it, and return the error, which names the file."""
    if not isinstance(content, str | bytes):
        content = json.dumps(content)
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError) as caught:
        Result.read(path)
    assert str(caught.value).startswith(str(path))
    assert len(str(caught.value)) < 1000
    return caught.value


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "result.json"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("version", [0, 3, None, "1", [1], 1e300])
def test_another_format_is_refused(path: Path, version: Any) -> None:
    error = refused(path, result().to_json() | {"format": version})
    assert (error.field, error.value) == ("format", version)
    assert tells(error.limit, "1 .. 2")


OPTIONAL = {
    "bound_by",
    "grounds",
    "failures",
    "interrupted",
    "trace",
    "versions",
    "simulated",
    "confirmed_by",
}


@pytest.mark.parametrize("key", sorted(OPTIONAL))
def test_keys_with_defaults_may_be_missing(path: Path, key: str) -> None:
    data = result().to_json()
    del data[key]
    path.write_text(json.dumps(data))
    assert Result.read(path).status == result().status


@pytest.mark.parametrize("key", sorted(set(result().to_json()) - {"format"} - OPTIONAL))
def test_missing_keys_are_named(path: Path, key: str) -> None:
    data = result().to_json()
    del data[key]
    error = refused(path, data)
    assert error.value == [key]
    assert "missing keys" in str(error)


def test_unknown_keys_are_named(path: Path) -> None:
    error = refused(path, result().to_json() | {"colour": 1})
    assert error.value == ["colour"]
    assert "unknown keys" in str(error)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("room", "tilling"),
        ("room", None),
        ("room", ["grouping"]),
        ("room", {"a": 1}),
        ("instance", 3),
        ("instance_sha256", None),
        ("method", ["zigzag"]),
        ("status", "solved"),
        ("status", None),
        ("status", {"a": 1}),
        ("objective", 71.0),
        ("objective", "71"),
        ("objective", True),
        ("objective", 10**30),
        ("bound", -(10**30)),
        ("bound", [55]),
        ("gap", "0.1"),
        ("gap", True),
        ("seconds", None),
        ("seconds", True),
        ("seconds", -0.5),
        ("seconds", 1e300),
        ("instance", "\x1b[2J"),
        ("report", {"steps": 1}),
        ("report", {"valid": 1, "violation": None}),
        ("versions", {"tilewright": 1}),
        ("simulated", None),
        ("simulated", 1),
        ("confirmed_by", 1),
        ("seconds", "1"),
        ("seed", 1.5),
        ("seed", None),
        ("warm_start", 1),
        ("report", []),
        ("bound_by", 1),
        ("interrupted", 1),
        ("interrupted", None),
        ("simulated", 1),
        ("simulated", None),
        ("trace", None),
        ("trace", {}),
        ("versions", []),
        ("plan", []),
        ("plan", {"groups": [[[0, "0"]]]}),
        ("plan", {"groups": [[0]], "write_back": None}),
        ("plan", 3),
    ],
)
def test_wrong_types_are_named(path: Path, key: str, value: Any) -> None:
    error = refused(path, result().to_json() | {key: value})
    assert error.field.startswith(key)


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity", "1e999"])
@pytest.mark.parametrize("key", ["gap", "seconds", "objective", "seed"])
def test_numbers_that_are_none_are_refused(path: Path, key: str, word: str) -> None:
    content = json.dumps(result().to_json() | {key: 987_654}).replace("987654", word)
    refused(path, content)


@pytest.mark.parametrize("key", ["trace", "report", "versions"])
def test_numbers_that_are_none_are_refused_wherever_they_stand(path: Path, key: str) -> None:
    """What was read can be written again, which JSON without NaN demands."""
    value = {"trace": [[0.1, "NUMBER", None]], "report": {"cycles": "NUMBER"}, "versions": {"a": "NUMBER"}}
    refused(path, json.dumps(result().to_json() | {key: value[key]}).replace('"NUMBER"', "NaN"))


def test_a_key_that_stands_twice_is_refused_wherever_it_stands(path: Path) -> None:
    content = json.dumps(result().to_json()).replace('"steps": 5', '"steps": 4, "steps": 5')
    assert "stands twice" in str(refused(path, content))


def test_a_byte_order_mark_may_begin_a_file(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(result().to_json()).encode())
    assert Result.read(path).objective == 71


def test_characters_outside_of_the_first_plane_are_characters(path: Path) -> None:
    path.write_text(json.dumps(result(warm_start="\U0001f600").to_json()))
    assert Result.read(path).warm_start == "\U0001f600"


def test_a_report_nested_deeply_is_refused(path: Path) -> None:
    deep: Any = 1
    for _ in range(60):
        deep = [deep]
    assert refused(path, result().to_json() | {"report": {"valid": True, "deep": deep}}).field == "report"


def test_a_missing_trace_is_its_end(path: Path) -> None:
    data = result().to_json()
    del data["trace"]
    path.write_text(json.dumps(data))
    assert Result.read(path).trace == [(0.25, 71, 55)]


@pytest.mark.parametrize(
    "trace", [[1], [[0.1]], [["a", 1, 2]], [None], [[0.1, 1.5, 2]], [{}], [[True, 1, 2]], [[-1, 1, 2]]]
)
def test_a_trace_is_a_list_of_points(path: Path, trace: Any) -> None:
    assert refused(path, result().to_json() | {"trace": trace}).field.startswith("trace")


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        "3",
        '"text"',
        b"\xff\xfe",
        b"\x00",
        "[" * 100_000 + "]" * 100_000,
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        "9" * 10_000,
        '{"format": 1, "format": 1}',
        '{"format": 1e999}',
        '{"format": "\\ud800"}',
        '{"format": ' + "9" * 10_000 + "}",
    ],
    ids=lambda content: repr(content[:15]),
)
def test_what_is_no_result_at_all(path: Path, content: str | bytes) -> None:
    refused(path, content)


@pytest.mark.parametrize("key", ["room", "plan", "gap", "format"])
@pytest.mark.parametrize("depth", [100, 900, 2000])
def test_deep_values(path: Path, key: str, depth: int) -> None:
    deep = '{"a":' * depth + "[]" + "}" * depth
    content = json.dumps(result().to_json() | {key: 987_654}).replace("987654", deep)
    refused(path, content)


def test_a_result_that_is_no_file(tmp_path: Path) -> None:
    for name in ("gone.json", "", "x" * 250, "\0"):
        with pytest.raises(InputError):
            Result.read(tmp_path / name)
    with (tmp_path / "big.json").open("wb") as large:  # of zeros, which take no place on the disk
        large.truncate(64_000_001)
    with pytest.raises(InputError) as caught:
        Result.read(tmp_path / "big.json")
    assert tells(caught.value, tmp_path / "big.json", "file size = 64000001 .. 64000000 bytes")


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [(None, 3, None), (3, None, None), (4, 3, 0.25), (3, 3, 0.0), (0, 0, 0.0), (8, 0, 1.0), (0, 3, -3.0)],
)
def test_gaps(objective: int | None, bound: int | None, gap: float | None) -> None:
    assert relative_gap(objective, bound) == gap


@pytest.mark.parametrize(
    ("bundled", "offered", "foreign"),
    [
        ("s1-example2", ("loads", "duration"), ("cycles", "latency")),
        ("lenet5-conv2-idsp", ("accesses", "cycles", "energy", "pareto"), ("time", "latency")),
        ("lenet5-idsp", ("accesses", "cycles", "energy", "pareto"), ("time", "edp")),
        ("lenet-nmp", ("time", "accesses", "pareto"), ("cycles", "edp")),
        ("mnist-tcpa-100fps", ("interval", "pes", "latency", "pareto", "distance"), ("time", "cycles")),
        ("mnist-tcpa-by-layer", ("interval", "latency"), ("distance",)),
        ("light_resnet50", ("cycles", "traffic"), ("time", "latency")),
    ],
)
def test_an_objective_that_there_is_not_is_answered_with_those_that_there_are(
    bundled: str, offered: tuple[str, ...], foreign: tuple[str, ...]
) -> None:
    problem = read(bundled).problem
    for name in offered:
        assert problem.with_(objective={"minimise": name}).objective.minimise == name
    for name in foreign:
        with pytest.raises(InputError, match=re.escape(f"objective.minimise = '{name}'")) as refused:
            problem.with_(objective={"minimise": name})
        listed = re.split(r"has: |must be |; ", refused.value.limit)
        words = [set(re.findall(r"\w+", part)) for part in listed]
        assert any(set(offered) <= part for part in words), refused.value.limit
        assert "time" not in refused.value.limit or "time" in offered
