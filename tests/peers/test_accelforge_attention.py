"""Attention beside AccelForge: neither moves less than any schedule must; the page tells what both move."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from conftest import thinned
from tests.oracles.attention_pebbles import Head
from tests.peers import accelforge_attention as peer
from tests.peers.accelforge import PYTHON, answered

RECORDED = json.loads(peer.RECORDED.read_text("utf-8"))

PAGE = (Path(__file__).parents[2] / "docs" / "results" / "residency.md").read_text("utf-8")


@pytest.mark.parametrize(("head", "memory"), thinned(peer.CASES, 3))
def test_the_page_tells_what_both_move(head: Head, memory: int) -> None:
    ours, peers, least = peer.row(head, memory, RECORDED)
    assert head.compulsory <= least <= ours <= peers
    size = f"{head.queries:,} x {head.keys:,}, {head.depth}"
    assert f"| {size} | {memory:,} | {ours:,} | {peers:,.0f} | {least:,} |" in PAGE


@pytest.mark.nightly
@pytest.mark.skipif(PYTHON not in os.environ, reason=f"{PYTHON} names no Python that has AccelForge")
@pytest.mark.parametrize(("head", "memory"), peer.CASES)
def test_the_peer_answers_what_is_recorded(head: Head, memory: int) -> None:
    answer = answered(os.environ[PYTHON], peer.specification(head, memory), "energy")
    assert answer["value"] / 8 == RECORDED[peer.name_of(head, memory)]
