"""Shared fixtures: problems small enough to reason about, and the command line as a user runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tilewright.grouping import Problem

ROOT = Path(__file__).parents[1]

settings.register_profile(
    "default",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("default")


def make_problem(
    layer: dict[str, Any] | None = None,
    machine: dict[str, Any] | None = None,
    limits: dict[str, Any] | None = None,
    objective: dict[str, Any] | None = None,
) -> Problem:
    """Build a grouping problem; by default the layer of the S1 paper's examples, two patches a step."""
    return Problem.model_validate(
        {
            "layer": {"input": [2, 5, 5], "kernels": 2, "kernel": [3, 3]} | (layer or {}),
            "machine": machine or {"group_size": 2},
            "limits": limits or {},
            "objective": objective or {},
        }
    )


@pytest.fixture
def tilewright(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Run the command line in a folder of its own."""

    def run(*arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "tilewright", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            stdin=subprocess.DEVNULL,
        )

    return run
