"""A few trials of every campaign; many are made by hand, as docs/reliability.md says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz import trials

ROOT = Path(__file__).parents[2]


@pytest.mark.nightly
@pytest.mark.parametrize("name", trials.names())
def test_a_few_trials(name: str) -> None:
    tally = trials.run(name, first=0, count=trials.campaign(name).NIGHTLY)
    assert tally.tried > 0
    assert not tally.failures, "\n".join(f"--seed {seed}: {found}" for seed, found in tally.failures)


@pytest.mark.nightly
def test_every_campaign_runs_by_hand() -> None:
    """Without the folders that pytest looks for modules in."""
    code = "from tests.fuzz import trials; print(all(map(trials.campaign, trials.names())))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "True\n", done.stderr
