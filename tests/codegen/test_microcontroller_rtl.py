"""C for micro-controllers on a core as Verilog: outputs, counters, memories of the planned sizes."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import nightly
from tests.codegen.test_microcontroller import SPOTTER, Project, problem_of

from tilewright.importing.assembly import Changes, assemble
from tilewright.residency import memory_front
from tilewright.residency.evaluation import costs_of

pytestmark = [
    nightly,
    pytest.mark.skipif(
        not all(map(shutil.which, ("riscv64-unknown-elf-gcc", "qemu-system-riscv32", "verilator", "g++"))),
        reason="needs gcc-riscv64-unknown-elf, qemu-system-misc, verilator and g++",
    ),
    pytest.mark.skipif(
        importlib.util.find_spec("pythondata_cpu_picorv32") is None, reason="needs pythondata-cpu-picorv32"
    ),
]


@pytest.fixture(scope="module")
def spotter(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """Return the project of the keyword spotter, nothing computed twice, with the core simulated."""
    problem = problem_of(SPOTTER)
    project = Project(tmp_path_factory.mktemp("rtl"), SPOTTER, problem, memory_front(problem)[-1].plan)
    project.make("build/rtl/board", PYTHON=sys.executable)
    return project


def number(row: str) -> int:
    """Return the number that a row begins with."""
    return int(row.split()[0])


def words(printed: dict[str, str], name: str) -> int:
    """Return the words that carried something over the bus."""
    return int(printed[name].split()[3])


def test_the_keyword_spotter_runs_on_a_core_as_verilog(spotter: Project) -> None:
    printed = spotter.make("rtl", PYTHON=sys.executable)
    assert printed["wrong"] == "0 bytes of outputs"
    assert printed["arena"] == f"{costs_of(spotter.problem, spotter.plan)['memory']} bytes, as planned"
    instructions, cycles = number(printed["instructions"]), number(printed["cycles"])
    assert abs(instructions - number(spotter.make("qemu-riscv")["instructions"])) <= 100
    # No instruction of this core takes fewer than three cycles; each is fetched, and a few in vain.
    assert 3 * instructions <= cycles <= 6 * instructions
    assert instructions <= words(printed, "FLASH fetched") <= 1.1 * instructions
    slower = spotter.make("rtl", PYTHON=sys.executable, FLASH_WAITS="1")
    assert slower["wrong"] == "0 bytes of outputs"
    # A wait costs a cycle at most, and none where the core has something else to do.
    most = words(printed, "FLASH fetched") + words(printed, "FLASH read")
    assert 0.8 * most <= number(slower["cycles"]) - cycles <= 1.01 * most


def test_cycles_are_as_predicted_for_all_plans_of_the_front(spotter: Project, tmp_path: Path) -> None:
    problem = assemble(str(SPOTTER), Changes(machine="picorv32")).problem
    front = memory_front(problem, over="cycles")
    assert len(front) > 2
    for corner in front[1:]:  # the first takes 190 million
        project = Project(tmp_path / str(corner.memory_bytes), SPOTTER, problem, corner.plan)
        built = project.folder / "build" / "rtl"
        built.mkdir(parents=True)
        shutil.copy(spotter.folder / "build" / "rtl" / "board", built)
        printed = project.make("rtl", PYTHON=sys.executable)
        assert printed["wrong"] == "0 bytes of outputs"
        assert corner.cycles is not None
        assert 0.96 <= corner.cycles / number(printed["cycles"]) <= 1.04


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            "*(volatile int8_t *)(arena + {bytes}) = 1",
            "a store outside of what can be written at {end:#010x}",
        ),
        ("(void)*(volatile int8_t *)(arena + {bytes})", "a load outside of all memories at {end:#010x}"),
        ("*(volatile int8_t *)(arena + {bytes} - 1) = 1", ""),
        ("(void)*(volatile int8_t *)(arena + {bytes} - 1)", ""),
        ("*(volatile int8_t *)0x80000000 = 1", "a store outside of what can be written at 0x80000000"),
        ("((void (*)(void))0x90000000)()", "an instruction outside of all memories at 0x90000000"),
        ('__asm__ volatile(".word 0")', "the core stopped"),
    ],
)
def test_memories_end_where_the_plan_says(
    statement: str, told: str, spotter: Project, tmp_path: Path
) -> None:
    simulator = spotter.folder / "build" / "rtl" / "board"
    shutil.copytree(spotter.folder / "src", tmp_path / "src")
    shutil.copy(spotter.folder / "Makefile", tmp_path)
    size = costs_of(spotter.problem, spotter.plan)["memory"]
    assert size % 4, "the last word of the arena has a byte behind it"
    network = tmp_path / "src" / "network.c"
    run = "void network_run(const network_input_t *input, network_output_t *output)\n{"
    head, found, _ = network.read_text().rpartition(run)
    assert found
    body = f"{statement.format(bytes=size)};\n    board_exit(input == output);"
    network.write_text(f'#include "board.h"\n{head}{run}\n    {body}\n}}\n')
    subprocess.run(["make", "-s", "build/rtl.bin"], cwd=tmp_path, check=True, capture_output=True)
    done = subprocess.run(
        [simulator, "build/rtl.bin", "src/riscv.ld", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == (1 if told else 0), done.stdout + done.stderr
    assert told.format(end=0x84000000 + size) in done.stderr
