"""Random small networks, as chains and branching graphs, for property tests of pipelines and of groups."""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st
from tests.fuzz.networks import network, read_inside


def networks(most_layers: int = 5, side: int = 7) -> st.SearchStrategy[dict[str, Any]]:
    """Draw tables of convolutions (some depthwise, strided or dilated), pools and sums."""

    def table(seed: int) -> dict[str, Any]:
        rng = Random(seed)
        return read_inside(rng, network(rng, most_layers, side, kinds="ccpad"))

    return st.integers(0, 2**32 - 1).map(table)
