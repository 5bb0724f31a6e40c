"""Commands on emitted programs: written again over the same folder, and turned into text and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def test_programs_of_an_array_in_text_and_words(tilewright: Any, tmp_path: Path) -> None:
    tilewright("solve", "mnist-tcpa", "--with", "parametric", "-o", "plan.json")
    for _ in range(2):  # the folder is there the second time
        run = tilewright("emit", "mnist-tcpa", "plan.json", "-o", "tcpa/")
        assert run.returncode == 0 and "19 files in tcpa" in run.stdout, run.stderr
    run = tilewright("disassemble", "tcpa/data/program.bin", "-o", "text/")
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "text" / "program.tcpa").read_text()
    assert text == (tmp_path / "tcpa" / "data" / "program.tcpa").read_text()
    assert tilewright("disassemble", "tcpa/data/program.bin").stdout == text
    run = tilewright("assemble", "text/program.tcpa", "-o", "again.bin")
    assert run.returncode == 0 and "again.bin" in run.stdout
    assert (tmp_path / "again.bin").read_bytes() == (tmp_path / "tcpa" / "data" / "program.bin").read_bytes()


def test_what_is_no_program_or_no_folder_is_refused(tilewright: Any, tmp_path: Path) -> None:
    (tmp_path / "odd.bin").write_bytes(b"x\n")
    run = tilewright("disassemble", "odd.bin")
    assert (run.returncode, run.stderr.strip().splitlines()[-1]) == (
        2,
        "tilewright: odd.bin: program = 2: must be whole words of 8 bytes",
    )
    (tmp_path / "bad.tcpa").write_text(
        "array rows=4 columns=4 units=2 bits=8 sum_bits=32 frames=3\nlayer rows=x\n"
    )
    run = tilewright("assemble", "bad.tcpa", "-o", "bad.bin")
    assert run.returncode == 2 and "bad.tcpa" in run.stderr and "rows" in run.stderr
    tilewright("solve", "mnist-tcpa", "--with", "parametric", "-o", "plan.json")
    (tmp_path / "tcpa").write_text("a file")
    run = tilewright("emit", "mnist-tcpa", "plan.json", "--as", "project", "-o", "tcpa")
    assert run.returncode == 2 and "output = 'tcpa': is a file; what is written is a folder" in run.stderr
