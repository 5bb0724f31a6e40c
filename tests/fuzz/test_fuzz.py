"""A few trials of every campaign; many are made by hand, as docs/reliability.md says."""

from __future__ import annotations

import pytest
from conftest import THOROUGH
from tests.fuzz import trials


@pytest.mark.slow
@pytest.mark.parametrize("name", trials.names())
def test_a_few_trials(name: str) -> None:
    count = trials.campaign(name).IN_CI
    tally = trials.run(name, first=0, count=count if THOROUGH else (count + 3) // 4)
    assert tally.tried > 0
    assert not tally.failures, "\n".join(f"--seed {seed}: {found}" for seed, found in tally.failures)
