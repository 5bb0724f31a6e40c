"""Kernels: a change in any source that they are made of is noticed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

OUTER = """
from tilewright.core.jit import kernel
from tilewright.grouping.exact.sample_inner import (
    value,
)

@kernel(nogil=True)
def outer():
    return value()

print(outer(), sum(outer.compiled.stats.cache_hits.values()))
"""

INNER = """
from tilewright.core.jit import inner
from tilewright.spec import sample_constant

@inner
def value():
    return sample_constant.VALUE
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """Return a copy of the package with a kernel that is made of three files."""
    shutil.copytree(ROOT / "bindings", tmp_path / "bindings", ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "instances").mkdir()
    package = tmp_path / "bindings/tilewright"
    (package / "grouping/exact/sample_kernel.py").write_text(OUTER)
    (package / "grouping/exact/sample_inner.py").write_text(INNER)
    (package / "spec/sample_constant.py").write_text("VALUE = 1\n")
    return package


def run(package: Path, **environment: str) -> tuple[int, int]:
    """Return the kernel's value and how often it was loaded instead of compiled."""
    done = subprocess.run(
        [sys.executable, "-c", "import tilewright.grouping.exact.sample_kernel"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": str(package.parent), **environment},
    )
    value, hits = done.stdout.split()
    return int(value), int(hits)


@pytest.mark.nightly
def test_no_change_leaves_a_stale_kernel(package: Path) -> None:
    assert run(package) == (1, 0)
    assert run(package) == (1, 1)  # loaded
    inner = package / "grouping/exact/sample_inner.py"
    stamp = inner.stat()
    inner.write_text(INNER.replace("VALUE\n", "VALUE + 1\n"))
    os.utime(inner, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert run(package) == (2, 0)
    (package / "spec/sample_constant.py").write_text("VALUE = 5\n")
    assert run(package) == (6, 0)
    assert run(package) == (6, 1)
    kept = list((package / "grouping/exact/__pycache__").glob("tilewright.grouping.exact.sample_kernel-*"))
    assert len(kept) == 1  # of other contents nothing is left


@pytest.mark.nightly
def test_users_choose_the_folder(package: Path, tmp_path: Path) -> None:
    chosen = str(tmp_path / "kernels")
    assert run(package, NUMBA_CACHE_DIR=chosen) == (1, 0)
    assert run(package, NUMBA_CACHE_DIR=chosen) == (1, 1)
    assert not list((package / "grouping/exact/__pycache__").glob("tilewright.*"))


def test_every_kernel_is_kept_that_way() -> None:
    files = [
        path for folder in ("bindings", "heuristics", "models") for path in (ROOT / folder).rglob("*.py")
    ]
    by_hand = [
        path.relative_to(ROOT).as_posix()
        for path in files
        if re.search(r"^\s*(from numba import .*njit|.*\bnumba\.njit)", path.read_text("utf-8"), re.MULTILINE)
    ]
    assert by_hand == ["bindings/tilewright/core/jit.py"]
