"""The notebooks run from top to bottom, and are stored without outputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "docs" / "notebooks").glob("*.ipynb"))
SECONDS = 600

# One namespace for all cells, and a file name for each, so that a traceback names the cell.
RUNNER = """
import json, sys
namespace = {"__name__": "__main__"}
for number, source in enumerate(json.load(sys.stdin)):
    exec(compile(source, f"<cell {number}>", "exec"), namespace)
"""


def cells(notebook: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    read = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in read if cell["cell_type"] == "code"]


def test_there_are_notebooks() -> None:
    assert len(NOTEBOOKS) >= 2


@pytest.mark.nightly
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_cells_run_in_order(notebook: Path, tmp_path: Path) -> None:
    sources = ["".join(cell["source"]) for cell in cells(notebook)]
    done = subprocess.run(
        [sys.executable, "-c", RUNNER],
        input=json.dumps(sources),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_no_outputs_are_stored(notebook: Path) -> None:
    for cell in cells(notebook):
        assert cell["outputs"] == []
        assert cell["execution_count"] is None
