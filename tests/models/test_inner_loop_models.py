"""The inner loop of a tile: MiniZinc, Pyomo, enumeration and execution agree on the best one."""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
import pytest
from conftest import ROOT, examples, nightly, refused
from formulations import need
from tests.oracles import inner_loop as oracle

from tilewright.models.tiling.inner_loop.data import data, loop
from tilewright.models.tiling.inner_loop.inner_loop import build, read
from tilewright.tiling.dsp.inner_loop import InnerLoop, TileWork, loop_costs
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.vector_unit import VectorUnit

FOLDER = ROOT / "models" / "tiling" / "inner_loop"


def some_case(seed: int) -> tuple[VectorUnit, TileWork, tuple[int, int], dict[str, bool]]:
    rng = random.Random(seed)
    unit = VectorUnit(
        lanes=rng.choice([1, 2, 3, 4]),
        mac_slots=rng.choice([1, 1, 2]),
        memory_slots=rng.choice([1, 1, 2]),
        shuffle_slots=rng.choice([1, 2]),
        read_ports=rng.choice([2, 6]),
        write_ports=rng.choice([1, 3]),
        mac_latency=rng.randint(1, 4),
        load_latency=rng.randint(0, 4),
        store_latency=rng.randint(0, 2),
        shuffle_latency=rng.randint(0, 2),
        registers=rng.choice([3, 5, 8, 28]),
        unrolled_macs=rng.choice([2, 3, 4]),
        sums=rng.choice(["reloaded", "kept"]),
        instruction_cache=rng.choice([None, None, 10]),
    )
    sizes = [1, 1, 1, 1, 1]
    for place in rng.sample(range(5), 2):
        sizes[place] = rng.randint(2, 3)
    n, c, y, x, k = sizes
    kernel = rng.choice([(1, 1), (1, 2), (2, 1)])
    stride, dilation = (rng.randint(1, 2), 1), (1, rng.randint(1, 2))
    work = TileWork((n, c, y, x, k), rng.choice([1, 1, 2]), kernel, stride, dilation)
    ends = {"first": rng.choice([True, False]), "last": rng.choice([True, False])}
    return unit, work, rng.choice([(1, 0), (60, 67), (1, 5)]), ends


def executed(unit: VectorUnit, work: TileWork, one: InnerLoop, ends: dict[str, bool]) -> tuple[int, int]:
    """Return cycles and transfers of a loop, each instruction executed."""
    run = oracle.Run(unit.model_dump(), vars(work), one.to_json())
    begin, biases, finish, results = run.ends()
    moved = run.loads + run.stores + ends["first"] * biases + ends["last"] * results
    return run.cycles + ends["first"] * begin + ends["last"] * finish, moved


def minizinc(folder: Path, given: dict[str, Any]) -> tuple[int, InnerLoop]:
    """Return the best cost, and a loop that has it, as Gecode proves it."""
    need("gecode")
    (folder / "data.json").write_text(json.dumps(given))
    command = ["minizinc", "--solver", "gecode", "--output-mode", "json", "--output-objective"]
    files = [FOLDER / "inner_loop.mzn", folder / "data.json"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True, timeout=600)
    found, rest = done.stdout.split("----------")[-2:]
    assert "==========" in rest
    solution = json.loads(found)
    return solution["_objective"], loop(solution)


def pyomo(m: Any) -> tuple[int, InnerLoop]:
    """Return the best cost, and a loop that has it, as HiGHS proves it."""
    solver = pyo.SolverFactory("appsi_highs")
    assert pyo.check_optimal_termination(solver.solve(m))
    return round(pyo.value(m.cost)), read(m)


def agree(folder: Path, seed: int) -> None:
    unit, work, prices, ends = some_case(seed)
    best = best_loop(unit, work, prices=prices, **ends)
    expected = prices[0] * best.cycles + prices[1] * best.transfers
    for found, one in (
        minizinc(folder, data(unit, work, prices, **ends)),
        pyomo(build(unit, work, prices, **ends)),
        (expected, best.loop),
    ):
        assert found == expected
        cycles, transfers = executed(unit, work, one, ends)
        assert prices[0] * cycles + prices[1] * transfers == expected
        assert loop_costs(unit, work, one).fits


@pytest.mark.parametrize("seed", range(3))
def test_models_enumeration_and_execution_agree(seed: int, tmp_path: Path) -> None:
    agree(tmp_path, seed)


@nightly
@pytest.mark.parametrize("seed", range(3, examples(250)))
def test_they_agree_on_many_tiles(seed: int, tmp_path: Path) -> None:
    agree(tmp_path, seed)


def test_minizinc_takes_larger_tiles(tmp_path: Path) -> None:
    """Of the first layer of LeNet-5 a tile of eight rows and maps: as many loops as the enumeration has."""
    unit, work = VectorUnit(), TileWork((1, 8, 8, 28, 1), kernel=(5, 5))
    best = best_loop(unit, work)
    cost, one = minizinc(tmp_path, data(unit, work))
    assert cost == best.cycles == loop_costs(unit, work, one).total()[0]


def test_small_data_from_a_shell() -> None:
    need("gecode")
    command = ["minizinc", "--solver", "gecode", "inner_loop.mzn", "small.dzn"]
    done = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True, timeout=120)
    best = best_loop(VectorUnit(lanes=4), TileWork((1, 4, 3, 3, 2), kernel=(2, 2)))
    assert f"objective = {best.cycles};" in done.stdout


def test_pyomo_refuses_large_tiles() -> None:
    with refused("tile", [1, 8, 8, 8, 8], "pairs of values"):
        build(VectorUnit(), TileWork((1, 8, 8, 8, 8), kernel=(3, 3)))


@pytest.mark.parametrize(
    ("work", "prices", "counted"),
    [
        (TileWork((1, 64, 64, 64, 64), kernel=(5, 5)), (1, 0), 10_485_760_000),  # 64^4 MACs, 25 taps twice
        (TileWork((1, 8, 8, 8, 8), kernel=(3, 3)), (10**6, 0), 4_958_000_000),  # its best loop
    ],
)
def test_minizinc_refuses_tiles_that_it_cannot_count(
    work: TileWork, prices: tuple[int, int], counted: int
) -> None:
    """Where a bound exceeded what solvers count to, they would find the tile infeasible, or fail."""
    with refused("tile", list(work.sizes), f"counts to {counted}", "2000000000"):
        data(VectorUnit(), work, prices)


def test_minizinc_says_so_of_data_that_it_is_given(tmp_path: Path) -> None:
    need("gecode")
    given = data(VectorUnit(), TileWork((1, 8, 8, 8, 8), kernel=(5, 5))) | {"size": [1, 64, 64, 64, 64]}
    (tmp_path / "data.json").write_text(json.dumps(given))
    command = ["minizinc", "--solver", "gecode", FOLDER / "inner_loop.mzn", tmp_path / "data.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "the model counts to 10485760000, solvers to 2000000000" in done.stdout + done.stderr
