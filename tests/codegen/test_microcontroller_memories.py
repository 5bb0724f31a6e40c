"""C of plans whose maps lie in several memories: an array for each of them, as large as planned."""

from __future__ import annotations

import importlib.util
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import examples, nightly
from tests.codegen.test_microcontroller import SPOTTER, Project, block, branches, joined, problem_of
from tests.importing.quantised_at_random import function
from tests.importing.tflite_files import TfliteFile

from tilewright.importing.assembly import Changes, assemble
from tilewright.residency import Plan, Problem, memory_front, violation
from tilewright.residency.decode_plan import decode_plan
from tilewright.residency.evaluation import costs_of
from tilewright.residency.exact.without_dram import best_without_dram

pytest.importorskip("ai_edge_litert")

pytestmark = pytest.mark.skipif(
    not (shutil.which("gcc") and shutil.which("make")), reason="no C compiler, or no make"
)

NEVER = float("inf")


def in_two(
    path: Path, fast: int, slow: int, waits: tuple[float, float] = (3.0, 2.0), flash_waits: float = 0
) -> Problem:
    """Return the problem of a file on picorv32 with two memories, of which the second one makes it wait."""
    one = assemble(str(path), Changes(machine="picorv32")).problem
    read_only = [each.model_dump() for each in one.machine.memories if each.read_only]
    flash = [each | {"read_waits": flash_waits} for each in read_only]
    memories = [
        {"name": "fast", "bytes": fast},
        {"name": "slow", "bytes": slow, "read_waits": waits[0], "write_waits": waits[1]},
        *flash,
    ]
    changed: dict[str, Any] = {"memories": memories, "memory": ["fast", "slow"], "memory_bytes": fast + slow}
    problem: Problem = one.with_(machine=changed, objective={"minimise": "cycles"})
    return problem


def best(problem: Problem) -> Plan | None:
    """Return the plan of the fewest cycles."""
    return best_without_dram(problem, NEVER, lambda _: None, lambda _: None).plan


@pytest.mark.parametrize("seed", range(examples(100, 3)))
def test_networks_in_two_memories_are_computed_as_litert_does(seed: int, tmp_path: Path) -> None:
    file, output = branches(seed)
    path = file.save(tmp_path / "network.tflite", output)
    rng = random.Random(seed)
    least = memory_front(problem_of(path))[-1].memory_bytes
    while True:  # where the fast memory does not hold all, the slow one may
        fast = rng.randint(1, least)
        problem = in_two(path, fast, rng.randint(least - fast + 1, 2 * least))
        plan = best(problem)
        if plan is not None:
            break
    project = Project(tmp_path / "project", path, problem, plan, seed)
    project.is_right()


def test_arrays_are_aligned_as_their_memories_ask(tmp_path: Path) -> None:
    file, output = branches(0)
    path = file.save(tmp_path / "network.tflite", output)
    least = memory_front(problem_of(path))[-1].memory_bytes
    problem = in_two(path, least // 2, 2 * least)
    memories = [each.model_dump() for each in problem.machine.memories]
    memories[0]["alignment_bytes"], memories[1]["alignment_bytes"] = 256, 1
    problem = problem.with_(machine={"memories": memories})
    plan = best(problem)
    assert plan is not None
    project = Project(tmp_path / "project", path, problem, plan)
    command = ["gcc", "-c", "-ffp-contract=off", "-o", "network.o", "src/network.c"]
    subprocess.run(command, cwd=project.folder, check=True, timeout=100)
    told = subprocess.run(
        ["readelf", "-S", "-W", "network.o"], cwd=project.folder, capture_output=True, text=True, check=True
    ).stdout
    words = [line.split() for line in told.splitlines()]
    aligned = {word: row[-1] for row in words for word in row if word.startswith(".bss.network_")}
    assert aligned == {".bss.network_arena_fast": "256", ".bss.network_arena_slow": "1"}
    project.is_right()


def wide(seed: int, kind: str) -> tuple[TfliteFile, int]:
    """Return a network of convolutions of up to 14 outputs, of joined maps, or with functions behind them."""
    file = TfliteFile(kind, seed)
    rng = file.rng
    own = file.tensor([1, *rng.integers(2, 7, 2).tolist(), int(rng.integers(1, 6))], scale=0.05)
    file.graph.inputs = [own]
    for _ in range(int(rng.integers(1, 4))):
        if rng.integers(3) == 0:
            ends = [block(file, own, int(rng.integers(2, 9)), 1, 1, by_channel=False) for _ in range(2)]
            own = joined(file, ends)
        kernel, stride = (int(rng.choice([1, 1, 3, 5])), int(rng.choice([1, 1, 2])))
        own = block(file, own, int(rng.integers(5, 15)), kernel, stride, by_channel=False)
        if rng.integers(3) == 0:
            own = function(file, own)
        if rng.integers(4) == 0:
            own = block(file, own, 0, 3, 1, by_channel=True)
    return file, own


def in_blocks(rng: random.Random, problem: Problem) -> tuple[Problem, Plan, int]:
    """Return a plan with weights copied, block by block wherever they may be, and how often they are.

    What is copied ends where the memory does, and lies far behind all maps.
    """
    one = problem.with_(limits={"inputs": "memory", "most_operations": rng.choice([1, None])})
    front, width = memory_front(one), one.machine.element_bytes
    most = max(each.copyable for each in one.graph.operations)
    size = 2 * (front[-1].memory_bytes + width * max(most, 1))
    memories = [
        each.model_dump() | ({} if each.read_only else {"bytes": size}) for each in one.machine.memories
    ]
    roomy = one.with_(machine={"memories": memories, "memory_bytes": size})
    steps, streamed, operations = list(rng.choice(front).plan.steps), 0, one.graph.operations
    for place, step in enumerate(steps):
        (operation,) = (each for each in operations if each.name == step.operations[-1])
        if operation.copyable <= 0:
            continue
        ways = [(1, step.order)]
        if len(step.operations) == 1 and operation.units > 4:
            ways.insert(0, (rng.randrange(4, operation.units, 4), "kernels"))
        for kernels, order in ways:
            blocks = kernels > 1
            begin = size // width - operation.copyable // (operation.units if blocks else 1) * kernels
            addresses = step.addresses | {f"weights of {operation.name}": begin}
            if blocks and step.written and not step.resident:
                addresses[f"block of {operation.name}"] = begin - kernels
            told = {"order": order, "kernels": kernels, "copied": (operation.name,), "addresses": addresses}
            steps[place] = replace(step, **told)
            broken = violation(roomy, Plan(tuple(steps)))
            if broken is None:
                streamed += blocks
                break
            assert blocks and "copied" in broken, broken
    return roomy, Plan(tuple(steps)), streamed


@pytest.mark.parametrize("seed", range(examples(200, 5)))
def test_weights_are_copied_block_by_block(seed: int, tmp_path: Path) -> None:
    rng, kind = random.Random(seed), ["int8", "int8", "int16"][seed % 3]
    streamed, attempt = 0, 0
    while not streamed:
        file, output = wide(100 * seed + attempt, kind)
        attempt += 1
        path = file.save(tmp_path / f"{attempt}.tflite", output)
        problem, plan, streamed = in_blocks(rng, problem_of(path, kind=kind))
    Project(tmp_path / "project", path, problem, plan, seed).is_right()


@pytest.mark.skipif(
    not (shutil.which("riscv64-unknown-elf-gcc") and shutil.which("qemu-system-riscv32")),
    reason="needs gcc-riscv64-unknown-elf and qemu-system-misc",
)
def test_no_array_is_a_byte_larger_than_its_memory(tmp_path: Path) -> None:
    file, output = branches(3)
    path = file.save(tmp_path / "network.tflite", output)
    least = memory_front(problem_of(path))[-1].memory_bytes
    problem = in_two(path, least // 2, 2 * least)
    plan = best(problem)
    assert plan is not None
    project = Project(tmp_path / "project", path, problem, plan)
    assert project.make("qemu-riscv")["wrong"] == "0 bytes of outputs"
    header = project.folder / "src" / "network.h"
    text = header.read_text()
    for name in ("FAST", "SLOW"):
        size = text.partition(f"#define NETWORK_ARENA_{name}_BYTES ")[2].split()[0]
        larger = text.replace(f"_{name}_BYTES {size}", f"_{name}_BYTES {int(size) + 1}")
        header.write_text(larger)
        with pytest.raises(AssertionError, match=f"region `ARENA_{name}' overflowed by 1 byte"):
            project.make("qemu-riscv")


@nightly
@pytest.mark.skipif(
    not all(map(shutil.which, ("riscv64-unknown-elf-gcc", "verilator", "g++")))
    or importlib.util.find_spec("pythondata_cpu_picorv32") is None,
    reason="needs gcc-riscv64-unknown-elf, verilator, g++ and pythondata-cpu-picorv32",
)
@pytest.mark.parametrize(
    ("fast", "waits", "flash", "streamed"),
    [
        (1_500, (3.0, 2.0), 0, 0),
        (3_000, (8.0, 8.0), 0, 0),
        (9_000, (1.0, 5.0), 0, 0),
        (3_000, (8.0, 8.0), 4.0, 4),
    ],
)
def test_the_bus_carries_what_the_plan_reads_and_writes_in_each_memory(
    fast: int, waits: tuple[float, float], flash: float, streamed: int, tmp_path: Path
) -> None:
    problem = in_two(SPOTTER, fast, 2**17, waits, flash)
    plan = best(problem)
    assert plan is not None
    assert sum(step.order == "kernels" and step.kernels > 1 for step in plan.steps) == streamed
    printed = Project(tmp_path, SPOTTER, problem, plan).make("rtl", PYTHON=sys.executable)
    assert printed["wrong"] == "0 bytes of outputs"
    steps = decode_plan(problem, plan)
    for place, name in enumerate(("ARENA_FAST", "ARENA_SLOW")):
        reads, writes = (
            sum(getattr(step.touched[place], each) for step in steps) for each in ("read", "written")
        )
        assert printed[f"{name} read"].split()[0] == str(reads)
        assert printed[f"{name} written"].split()[0] == str(writes)
    cycles = int(printed["cycles"].split()[0])
    assert 0.96 <= costs_of(problem, plan)["cycles"] / cycles <= 1.04
