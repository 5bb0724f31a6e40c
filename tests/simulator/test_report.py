"""Reports of layers joined to that of a network, and names stored as numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from conftest import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import valid_programs
from test_executor import GOOD, program
from test_timing import tiles

from tilewright.core.measures import counted
from tilewright.simulator import Program, Report, Violation, execute
from tilewright.simulator.report import Names, Rows

BROKEN = execute(program(GOOD[0], GOOD[0]))


def test_a_chain_by_hand() -> None:
    first = execute(program(*GOOD), overlapped=True, lockstep=True)
    second = execute(tiles(), overlapped=True, lockstep=True)
    assert first.violation is second.violation is None
    chain = Report.chain(["one", "two", "one again"], [first, second, first])
    assert chain.valid
    assert chain.labels == ["one: all", "one: ", *["two: "] * 4, "one again: all", "one again: "]
    assert list(chain.loaded["x"]) == [8, 0, 8, 8, 8, 0, 8, 0]
    assert list(chain.loaded["k"]) == [3, 0, 0, 0, 0, 0, 3, 0]
    assert list(chain.written["y"]) == [0, 4, 0, 4, 4, 4, 0, 4]
    assert list(chain.footprint["x"]) == [8, 0, 16, 16, 16, 16, 8, 0]
    assert list(chain.macs) == [16, 0, 32, 32, 32, 0, 16, 0]
    assert chain.peak == 24
    assert chain.transfers == 3 + 6 + 3
    assert chain.most_loads == {"x": 1, "k": 1}
    assert chain.sequential is not None
    assert chain.lockstep is not None
    assert chain.overlapped is not None
    assert chain.sequential.cycles == 39 + 102 + 39
    assert list(chain.step_cycles()) == [27, 12, 22, 34, 34, 12, 27, 12]
    assert chain.lockstep.cycles == 39 + 90 + 39
    assert list(chain.sequential.start[:5]) == [0, 16, 22, 27, 39]
    assert list(chain.sequential.step) == [0, 0, 0, 1, 2, 2, 3, 3, 3, 4, 4, 4, 5, 6, 6, 6, 7]
    assert chain.sequential.engine[3:6] == ["write", "dma", "alu"]
    assert chain.sequential.peak == chain.lockstep.peak == 24
    assert chain.lockstep.busy() == {"load": 44, "write": 24, "compute": 10, "dma": 18, "alu": 84}
    assert [name for name, _ in chain.layers] == ["one", "two", "one again"]
    assert chain.layers[1][1] is second
    assert len(chain.per_step()) == 8


def test_a_chain_ends_at_its_first_violation() -> None:
    good = execute(program(*GOOD))
    chain = Report.chain(["a", "b", "c"], [good, BROKEN, good])
    assert chain.violation == Violation(
        "loaded twice", 2 + 2, "b: x", "a region that is not on chip", "it is resident already"
    )
    assert chain.labels == ["a: all", "a: ", "b: all", "b: all"]
    assert chain.sequential is None
    assert not chain.valid
    assert [name for name, _ in chain.layers] == ["a", "b", "c"]
    refused = Report.chain(["a", "b"], [good, Report.refused(Violation("rule", 0, "plan", "this", "that"))])
    assert str(refused.violation) == "rule: step 2, b: plan: needed this, found that"


@pytest.mark.parametrize(
    ("numbers", "together"),
    [([True, True], True), ([True, False], False), ([True, None], None), ([None, False], None)],
)
def test_numbers_of_a_chain(numbers: list[bool | None], together: bool | None) -> None:
    good = execute(program(*GOOD))
    chain = Report.chain(["a", "b"], [replace(good, numeric=numeric) for numeric in numbers])
    assert chain.numeric is together
    assert Report.chain(["a", "b"], [good, execute(program(*GOOD), lockstep=True)]).lockstep is None


def test_an_empty_chain() -> None:
    chain = Report.chain([], [])
    assert chain.labels == []
    assert counted(chain)["macs"] == 0


@given(st.lists(valid_programs(), min_size=1, max_size=4))
@settings(max_examples=examples(50))
def test_chains_add_up(programs: list[Program]) -> None:
    reports = [execute(program) for program in programs]
    chain = Report.chain([f"layer {n}" for n in range(len(reports))], reports)
    total, parts = counted(chain), [counted(report) for report in reports]
    for key in ("steps", "serial_cycles", "transfers", "streamed_elements", "macs"):
        assert total[key] == sum(part[key] for part in parts)
    for key in ("loaded_elements", "written_elements"):
        for name, amount in total[key].items():
            assert amount == sum(part[key].get(name, 0) for part in parts)
    assert total["peak_elements"] == max(part["peak_elements"] for part in parts)
    assert chain.step_cycles().sum() == total["serial_cycles"]
    assert chain.sequential is not None
    busy = chain.sequential.busy()
    for report in reports:
        assert report.sequential is not None
        for engine, cycles in report.sequential.busy().items():
            busy[engine] -= cycles
    assert not any(busy.values())


def test_rows_are_laid_out_once() -> None:
    asked = []

    def make(number: int) -> np.ndarray:
        asked.append(number)
        return np.full(3, number)

    rows = Rows(["a", "b"], make)
    assert (list(rows), len(rows), asked) == (["a", "b"], 2, [])
    rows["b"][0] = 7
    assert {name: list(counts) for name, counts in rows.items()} == {"a": [0, 0, 0], "b": [7, 1, 1]}
    assert asked == [1, 0]
    assert rows.get("c") is None


def test_names_are_a_sequence() -> None:
    names = Names(("a", "b"), np.array([1, 0, 1], dtype=np.int16))
    assert len(names) == 3
    assert list(names) == ["b", "a", "b"]
    assert names[np.int64(1)] == "a"
    assert names[1:] == ["a", "b"]
    assert names.index("a") == 1
    assert "c" not in names
    assert names != ["b", "a"]
    assert repr(names) == "['b', 'a', 'b']"
    joined = Names.chain([names, Names(("c", "a"), np.array([0, 1]))])
    assert list(joined) == ["b", "a", "b", "c", "a"]
