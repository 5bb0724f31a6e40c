"""A few trials of every campaign; many are made by hand, as docs/reliability.md says."""

from __future__ import annotations

import pytest
from tests.fuzz import trials


@pytest.mark.slow
@pytest.mark.parametrize("name", trials.names())
def test_a_few_trials(name: str) -> None:
    tally = trials.run(name, first=0, count=trials.campaign(name).IN_CI)
    assert tally.tried > 0
    assert not tally.failures, "\n".join(f"--seed {seed}: {found}" for seed, found in tally.failures)
