"""The inner loop of a tile: MiniZinc, Pyomo, enumeration, execution and simulator agree on the best one."""

from __future__ import annotations

import json
import random
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pyomo.environ as pyo
import pytest
from conftest import ROOT, refused
from formulations import need
from test_vector_operations import some_operation
from tests.oracles import inner_loop as oracle
from tests.oracles import operation_loop

from tilewright.models.tiling.inner_loop import inner_loop as layer_model
from tilewright.models.tiling.inner_loop import operation_loop as operation_model
from tilewright.models.tiling.inner_loop.data import data, loop, operation_data
from tilewright.spec.errors import InputError
from tilewright.tiling import Problem, kind_of
from tilewright.tiling.dsp.inner_loop import InnerLoop, TileWork, loop_costs
from tilewright.tiling.dsp.inner_search import best_loop
from tilewright.tiling.dsp.machine import DspMachine
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.vector_unit import VectorUnit
from tilewright.tiling.operations.operation import Operation
from tilewright.tiling.operations.plan import OperationPlan
from tilewright.tiling.operations.vector_loop import VectorWork, work_of
from tilewright.tiling.operations.vector_search import loops_worth_trying

by_day = pytest.mark.by_day

FOLDER = ROOT / "models" / "tiling" / "inner_loop"


PRICES = [(1, 0), (60, 67), (1, 5)]


def some_unit(rng: random.Random, registers: list[int], unrolled_macs: list[int]) -> VectorUnit:
    return VectorUnit(
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
        registers=rng.choice(registers),
        unrolled_macs=rng.choice(unrolled_macs),
        sums=rng.choice(["reloaded", "kept"]),
        instruction_cache=rng.choice([None, None, 10]),
    )


def some_case(seed: int) -> tuple[VectorUnit, TileWork, tuple[int, int], dict[str, bool]]:
    rng = random.Random(seed)
    unit = some_unit(rng, [3, 5, 8, 28], [2, 3, 4])
    sizes = [1, 1, 1, 1, 1]
    for place in rng.sample(range(5), 2):
        sizes[place] = rng.randint(2, 3)
    n, c, y, x, k = sizes
    kernel = rng.choice([(1, 1), (1, 2), (2, 1)])
    stride, dilation = (rng.randint(1, 2), 1), (1, rng.randint(1, 2))
    work = TileWork((n, c, y, x, k), rng.choice([1, 1, 2]), kernel, stride, dilation)
    ends = {"first": rng.choice([True, False]), "last": rng.choice([True, False])}
    return unit, work, rng.choice(PRICES), ends


def executed(unit: VectorUnit, work: TileWork, one: InnerLoop, ends: dict[str, bool]) -> tuple[int, int]:
    """Return cycles and transfers of a loop, each instruction executed."""
    run = oracle.Run(unit.model_dump(), vars(work), one.to_json())
    begin, biases, finish, results = run.ends()
    moved = run.loads + run.stores + ends["first"] * biases + ends["last"] * results
    return run.cycles + ends["first"] * begin + ends["last"] * finish, moved


def machine_of(unit: VectorUnit, element_bytes: int) -> DspMachine:
    """Return a machine with room for any tile, on which nothing overlaps."""
    return DspMachine(
        kind="dsp",
        vector_unit=unit,
        memory_bytes=10**6,
        element_bytes=element_bytes,
        double_buffering=False,
        macs_per_cycle=unit.lanes * unit.mac_slots,
        bus_elements_per_cycle=unit.lanes * unit.memory_slots,
    )


def simulated(unit: VectorUnit, what: dict[str, Any], plan: Any, element_bytes: int = 1) -> tuple[int, int]:
    """Return cycles of the core and vector transfers of a plan with one tile, by the simulator."""
    machine = machine_of(unit, element_bytes).model_dump(mode="json")
    problem = Problem.model_validate({**what, "machine": machine, "objective": {"minimise": "cycles"}})
    report = kind_of(problem).simulate(problem, plan)
    line = report.sequential
    assert report.violation is None and line is not None
    return line.busy()["dsp"] - line.beside.get("dsp", 0), report.streamed // unit.lanes


def simulated_layer(unit: VectorUnit, work: TileWork, one: InnerLoop) -> tuple[int, int]:
    """Return those of a layer that is one tile."""
    n, c, y, x, k = work.sizes
    axes = zip((y, x), work.kernel, work.stride, work.dilation, strict=True)
    plane = [(size - 1) * stride + (kernel - 1) * dilation + 1 for size, kernel, stride, dilation in axes]
    layer = {
        "input": [work.groups * k, *plane],
        "kernels": work.groups * c,
        "groups": work.groups,
        "batch": n,
        **{name: list(getattr(work, name)) for name in ("kernel", "stride", "dilation")},
    }
    tile = (work.groups, n, c, y, x, k)
    return simulated(unit, {"layer": layer}, DspPlan(tile, "gncyxk", "none", one))


def minizinc(folder: Path, given: dict[str, Any], model: str = "inner_loop.mzn") -> tuple[int, InnerLoop]:
    """Return the best cost, and a loop that has it, as Gecode proves it."""
    need("gecode")
    (folder / "data.json").write_text(json.dumps(given))
    command = ["minizinc", "--solver", "gecode", "--output-mode", "json", "--output-objective"]
    files = [FOLDER / model, folder / "data.json"]
    done = subprocess.run([*command, *files], capture_output=True, text=True, check=True, timeout=600)
    found, rest = done.stdout.split("----------")[-2:]
    assert "==========" in rest
    solution = json.loads(found)
    return solution["_objective"], loop(solution)


def pyomo(m: Any) -> tuple[int, InnerLoop]:
    """Return the best cost, and a loop that has it, as HiGHS proves it."""
    solver = pyo.SolverFactory("appsi_highs")
    assert pyo.check_optimal_termination(solver.solve(m))
    return round(pyo.value(m.cost)), layer_model.read(m)


def agree(folder: Path, seed: int) -> None:
    unit, work, prices, ends = some_case(seed)
    best = best_loop(unit, work, prices=prices, **ends)
    expected = prices[0] * best.cycles + prices[1] * best.transfers
    for found, one in (
        minizinc(folder, data(unit, work, prices, **ends)),
        pyomo(layer_model.build(unit, work, prices, **ends)),
        (expected, best.loop),
    ):
        assert found == expected
        cycles, transfers = executed(unit, work, one, ends)
        assert prices[0] * cycles + prices[1] * transfers == expected
        assert loop_costs(unit, work, one).fits
        assert simulated_layer(unit, work, one) == executed(unit, work, one, {"first": True, "last": True})
    assert enumerated(unit, work, prices, ends) == expected


def enumerated(unit: VectorUnit, work: TileWork, prices: tuple[int, int], ends: dict[str, bool]) -> int:
    """Return the least cost of all loops, each of which is executed."""
    found = []
    for table in oracle.loops(unit.model_dump(), vars(work)):
        with suppress(oracle.Unfit):
            cycles, transfers = executed(unit, work, InnerLoop.from_json(table), ends)
            found.append(prices[0] * cycles + prices[1] * transfers)
    return min(found)


@by_day(4)
@pytest.mark.parametrize("seed", range(520))
def test_models_enumeration_execution_and_simulator_agree(seed: int, tmp_path: Path) -> None:
    agree(tmp_path, seed)


class OperationCase(NamedTuple):
    """An operation that is one tile, as all sides are told of it."""

    unit: VectorUnit
    operation: Operation
    told: dict[str, Any]
    prices: tuple[int, int]

    @property
    def work(self) -> VectorWork:
        return work_of(self.operation, self.told["element_bytes"])

    def executed(self, table: dict[str, Any]) -> tuple[int, int]:
        """Return cycles and transfers of a loop, each instruction executed."""
        run = operation_loop.Run(self.unit.model_dump(), self.told, self.operation.output, table)
        return run.cycles, run.transfers

    def simulated(self, one: InnerLoop) -> tuple[int, int]:
        plan = OperationPlan(self.operation.output, one)
        what = {"operation": self.operation.model_dump(mode="json")}
        return simulated(self.unit, what, plan, self.told["element_bytes"])

    def searched(self) -> int:
        """Return the least cost of the loops that the room's search keeps."""
        machine = machine_of(self.unit, self.told["element_bytes"])
        (options,) = loops_worth_trying(self.operation, machine, [(self.operation.output,)])
        return min(self.cost((int(each.cycles[0]), int(each.transfers[0]))) for each in options)

    def cost(self, taken: tuple[int, int]) -> int:
        return self.prices[0] * taken[0] + self.prices[1] * taken[1]

    def enumerated(self) -> int | None:
        """Return the least cost of all loops, each of which is executed; None where none fits."""
        found = []
        for table in operation_loop.loops(self.unit.model_dump(), self.told, self.operation.output):
            with suppress(oracle.Unfit):
                found.append(self.cost(self.executed(table)))
        return min(found, default=None)


def some_operation_case(seed: int) -> OperationCase:
    rng = random.Random(seed)
    unit = some_unit(rng, [12, 20, 40], [9, 12, 20])
    c, y, x = rng.choice([(3, 2, 1), (1, 3, 2), (2, 1, 4), (4, 1, 1), (5, 2, 1), (2, 2, 2)])
    operation, told = some_operation(rng, (c, y, x))
    told["element_bytes"] = rng.choice([1, 2, 4])
    return OperationCase(unit, operation, told, rng.choice(PRICES))


@by_day(9)
@pytest.mark.parametrize("seed", range(600))
def test_models_of_operations_agree(seed: int, tmp_path: Path) -> None:
    case = some_operation_case(seed)
    unit, work, tile, prices = case.unit, case.work, case.operation.output, case.prices
    expected = case.enumerated()
    if expected is None:
        with pytest.raises(InputError, match="no body of one vector"):
            operation_data(unit, work, tile, prices)
        return
    assert case.searched() == expected
    given = operation_data(unit, work, tile, prices)
    for found, one in (
        minizinc(tmp_path, given, "operation_loop.mzn"),
        pyomo(operation_model.build(unit, work, tile, prices)),
    ):
        assert found == expected
        assert case.cost(case.executed(one.to_json())) == expected
        assert case.simulated(one) == case.executed(one.to_json())


def test_minizinc_takes_larger_tiles(tmp_path: Path) -> None:
    """Of the first layer of LeNet-5 a tile of eight rows and maps: as many loops as the enumeration has."""
    unit, work = VectorUnit(), TileWork((1, 8, 8, 28, 1), kernel=(5, 5))
    best = best_loop(unit, work)
    cost, one = minizinc(tmp_path, data(unit, work))
    assert cost == best.cycles == loop_costs(unit, work, one).total()[0]


def from_a_shell(*files: str) -> str:
    need("gecode")
    command = ["minizinc", "--solver", "gecode", *files]
    return subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, check=True, timeout=120).stdout


def test_small_data_from_a_shell() -> None:
    best = best_loop(VectorUnit(lanes=4), TileWork((1, 4, 3, 3, 2), kernel=(2, 2)))
    assert f"objective = {best.cycles};" in from_a_shell("inner_loop.mzn", "small.dzn")


def test_small_data_of_a_pool_from_a_shell() -> None:
    unit, told = VectorUnit(lanes=4), {"op": "max_pool", "kernel": (2, 2), "stride": (2, 2)}
    told |= {"inputs": 1, "numbers": 0}
    runs = []
    for table in operation_loop.loops(unit.model_dump(), told, (8, 3, 3)):
        with suppress(oracle.Unfit):
            runs.append(operation_loop.Run(unit.model_dump(), told, (8, 3, 3), table).cycles)
    shown = from_a_shell("operation_loop.mzn", "small.operation.dzn")
    assert f"objective = {min(runs)};" in shown


def test_pyomo_refuses_large_tiles() -> None:
    with refused("tile", [1, 8, 8, 8, 8], "pairs of values"):
        layer_model.build(VectorUnit(), TileWork((1, 8, 8, 8, 8), kernel=(3, 3)))


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


def test_minizinc_refuses_operations_that_it_cannot_count() -> None:
    work = VectorWork((3, 3), (2, 2), pool=True)
    with refused("tile", [512, 512, 512], "counts to"):
        operation_data(VectorUnit(), work, (512, 512, 512))


def test_minizinc_says_so_of_data_that_it_is_given(tmp_path: Path) -> None:
    need("gecode")
    given = data(VectorUnit(), TileWork((1, 8, 8, 8, 8), kernel=(5, 5))) | {"size": [1, 64, 64, 64, 64]}
    (tmp_path / "data.json").write_text(json.dumps(given))
    command = ["minizinc", "--solver", "gecode", FOLDER / "inner_loop.mzn", tmp_path / "data.json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert "the model counts to 10485760000, solvers to 2000000000" in done.stdout + done.stderr
