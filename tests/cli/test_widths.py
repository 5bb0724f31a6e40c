"""What commands print for people: no line is wider than a terminal, and numbers have few digits."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests import command

from tilewright.core.narrowing import Narrowing
from tilewright.core.quantities import column, written, written_apart
from tilewright.run.instance import read as read_instance
from tilewright.run.result import Result
from tilewright.run.tables import aligned

SOLVED = {
    "grouping": ("s1-example2", "zigzag"),
    "tiling, dsp": ("lenet5-idsp", "greedy"),
    "tiling, npu": ("squeezenet-nmp", "auto"),
    "tiling, hierarchy": ("mobilenetv2-simba", "bottom_up"),
    "tiling, a layer on a hierarchy": ("resnet18-conv2-eyeriss", "bottom_up"),
    "tiling, a front": ("resnet18-capacity", "auto"),
    "allocation": ("mnist-tcpa", "paper"),
    "allocation, a front": ("mnist-tcpa-pareto", "auto"),
    "fusion": ("squeezenet-fire", "layerwise"),
    "bitwidth": ("lenet5-bits", "greedy"),
    "addresses": ("minimalloc-example", "first_fit"),
    "scheduling": ("mlsys-2026-5", "greedy"),
    "residency, cycles": ("resnet8-cycles", "layer_by_layer"),
}
"""An instance of each kind of table, with a method that soon has a plan."""

JOULES = {"p": -12, "n": -9, "u": -6, "m": -3, "": 0}


@pytest.fixture(autouse=True)
def no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


def narrow(text: str, columns: int = 80) -> str:
    """Return a text that is not too wide."""
    wide = [line for line in text.splitlines() if len(line) > columns]
    assert text and not wide, "\n".join(wide)
    return text


@pytest.mark.by_day(1)
@pytest.mark.parametrize("kind", SOLVED)
def test_no_line_is_wider_than_a_terminal(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, method = SOLVED[kind]
    tilewright = partial(command.run, tmp_path)
    solved = tilewright("solve", name, "--with", method, "--time-limit", "20", "-o", "r.json")
    assert solved.returncode == 0, solved.stdout + solved.stderr
    told = narrow(solved.stdout)
    checked = tilewright("check", name, "r.json", "--time-limit", "2")
    assert checked.returncode in (0, 5), checked.stdout
    narrow(checked.stdout)
    whole = Result.read(tmp_path / "r.json").of(read_instance(name)).summary()
    for titles, enough in re.findall(r"left out here: (.+?); COLUMNS=(\d+) ", " ".join(told.split())):
        assert all(title in whole for title in titles.split(", ")) and int(enough) > 80
    narrow(tilewright("simulate", name, "r.json").stdout)
    monkeypatch.setenv("COLUMNS", "400")
    assert "left out here" not in tilewright("simulate", name, "r.json").stdout


@pytest.mark.nightly
def test_comparisons_lists_and_sweeps_fit_a_terminal(tmp_path: Path) -> None:
    tilewright = partial(command.run, tmp_path)
    methods = "paper,zigzag,strips,manual,greedy,bottom_up"
    names = ("resnet18-conv2-eyeriss", "alexnet-conv3-64k", "s1-example2", "mnist-tcpa")
    compared = tilewright("compare", *names, "--with", methods, "--time-limit", "5", "--seeds", "0,1")
    assert compared.returncode == 0, compared.stderr
    told = narrow(compared.stdout)
    assert "shared: proof, s" not in told and "failed" in told
    for what in ("rooms", "models", "heuristics", "solvers", "instances", "machines", "networks"):
        listed = narrow(tilewright("list", what).stdout)
        if what == "instances":
            assert all(name in listed for name in names)  # names are whole
    narrow(tilewright("doctor").stdout)
    narrow(tilewright("reproduce").stdout)
    swept = ("--set", "machine.memory_bytes=16K,32K", "--set", "objective.minimise=energy,accesses")
    narrow(tilewright("sweep", "alexnet-conv3-64k", *swept, "--with", "greedy", "--time-limit", "5").stdout)


@example(["a" * 22, "b" * 22, "a" * 22], 1, 63)
@given(
    st.lists(st.text("ab ", min_size=1, max_size=60), min_size=2, max_size=6),
    st.integers(0, 10**9),
    st.integers(60, 90),
)
def test_any_table_fits(texts: list[str], number: int, columns: int) -> None:
    header = tuple(f"title {place}" for place in range(len(texts) + 1))
    rows = [(*texts, f"{number:,}"), (*reversed(texts), "1")]
    some = Narrowing(prose=header[1:2])
    for narrowing in (Narrowing(), some, some._replace(last=header[2:4])):
        lines = aligned(rows, header, columns, narrowing)
        narrow("\n".join(lines), columns)
        assert any(cell[:1] in "".join(lines) for cell in texts)
    assert aligned(rows, header, 10_000) == aligned(rows, header)


def read(amount: str) -> Fraction:
    """Return the joules or seconds of a written amount."""
    number, unit = amount.split()
    return Fraction(Decimal(number.replace(",", "")).scaleb(JOULES[unit[:-1]]))


@given(st.integers(0, 10**20))
def test_amounts_have_four_digits_and_a_unit_that_suits(value: int) -> None:
    told = written(value, "aJ")
    exact = Fraction(value, 10**18)
    assert abs(read(told) - exact) <= exact / 2000
    digits = told.split()[0].replace(",", "").replace(".", "").lstrip("0")
    assert len(digits.rstrip("0")) <= 4
    assert value < 10**6 or 1 <= float(told.split()[0].replace(",", "")) < 1000 or told.endswith(" J")
    unit, (cell,) = column([value], "aJ")
    assert abs(read(f"{cell} {unit}") - exact) <= max(exact / 1000, Fraction(1, 10**15))


@given(st.integers(1, 10**16), st.integers(0, 10))
def test_unequal_amounts_never_look_equal(bound: int, more: int) -> None:
    first, second = written_apart([bound + more, bound], "ps")
    assert (first == second) == (more == 0)
    assert written_apart([bound, None], "ps") == [written(bound, "ps"), "-"]
    assert written_apart([bound + more, bound], "cycles")[0] == f"{bound + more:,} cycles"
