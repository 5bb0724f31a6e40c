"""The C header of offsets: compiled, and what it says printed."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from conftest import Run

from tilewright import codegen
from tilewright.addresses import Plan, Problem
from tilewright.spec.errors import InputError

COMPILERS = [
    ("cc", "-std=c11", "offsets.c"),
    ("c++", "-std=c++11", "offsets.cpp"),
]
BUFFERS = [
    {"id": "b1", "lower": 0, "upper": 3, "size": 4},
    {"id": "conv 1/out*/", "lower": 3, "upper": 9, "size": 3},
    {"id": "conv_1/out", "lower": 0, "upper": 9, "size": 2},
    {"id": "7", "lower": 3, "upper": 9, "size": 1},
    {"id": "\u00e9\u20ac", "lower": 9, "upper": 10, "size": 1},
]
OFFSETS = (0, 0, 4, 6, 0)
WORDS = ("b1", "conv_1_outx", "conv_1_out", "7", "e")


def header(**memory: int) -> str:
    problem = Problem(buffers=BUFFERS, memory=memory)
    return codegen.offsets("9 lives", "a test", problem, Plan(OFFSETS))


@pytest.mark.parametrize(("compiler", "standard", "name"), COMPILERS)
def test_a_program_has_the_offsets(compiler: str, standard: str, name: str, tmp_path: Path) -> None:
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed")
    (tmp_path / "offsets.h").write_text(header(capacity=10))
    prints = [
        f'printf("%d %d\\n", MEMORY_9_LIVES_OFFSET_{word}, MEMORY_9_LIVES_SIZE_{word});' for word in WORDS
    ]
    program = ["#include <stdio.h>", '#include "offsets.h"', '#include "offsets.h"', "int main(void) {"]
    program += ["static char memory[MEMORY_9_LIVES_HEIGHT]; (void)memory;", *prints, "return 0; }\n"]
    (tmp_path / name).write_text("\n".join(program))
    command = [compiler, standard, "-Wall", "-Wextra", "-Werror", "-pedantic", name, "-o", "run"]
    subprocess.run(command, cwd=tmp_path, check=True, timeout=100)
    said = subprocess.run([tmp_path / "run"], capture_output=True, text=True, check=True, timeout=10).stdout
    sizes = [buffer["size"] for buffer in BUFFERS]
    assert said == "".join(f"{at} {size}\n" for at, size in zip(OFFSETS, sizes, strict=True))
    for memory, enough in ((7, True), (6, False)):
        found = subprocess.run(
            [*command, f"-DMEMORY_9_LIVES_MEMORY={memory}"], cwd=tmp_path, capture_output=True, text=True
        )
        assert (found.returncode == 0) == enough
        assert enough or "9 lives needs 7 addresses" in found.stderr


def test_what_cannot_be_written_is_refused() -> None:
    problem = Problem(buffers=BUFFERS)
    with pytest.raises(InputError, match="is not valid: overlap"):
        codegen.offsets("x", "", problem, Plan((0, 0, 4, 2, 0)))
    with pytest.raises(InputError, match="enumerators of C reach to 2147483647"):
        codegen.offsets("x", "", problem, Plan((0, 0, 4, 2**31, 0)))


def test_the_command_writes_it(tilewright: Run, tmp_path: Path) -> None:
    assert tilewright("solve", "minimalloc-example", "-o", "r.json", "-o", "r.csv").returncode == 0
    assert (tmp_path / "r.csv").read_text().startswith("id,lower,upper,size,offset\nb1,0,3,4,")
    done = tilewright("emit", "minimalloc-example", "r.json", "-o", "offsets.h")
    assert (done.returncode, done.stdout) == (0, "written: offsets.h\n")
    told = json.loads(tilewright("emit", "minimalloc-example", "r.json", "--json").stdout)
    assert told == {"instance": "minimalloc-example", "source": (tmp_path / "offsets.h").read_text()}
    assert "static_assert(MINIMALLOC_EXAMPLE_HEIGHT <= MINIMALLOC_EXAMPLE_MEMORY" in told["source"]
