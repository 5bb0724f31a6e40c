"""What a head of attention moves: plans of residency beside AccelForge's mapper, and no schedule below.

``python -m tests.peers.accelforge_attention`` prints a table. ``--save`` asks the peer anew, with the Python
that ``TILEWRIGHT_ACCELFORGE_PYTHON`` names, and keeps its answers.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import Any, NamedTuple

from tests.oracles.attention_pebbles import Head
from tests.peers.accelforge import PYTHON, answered
from tests.residency.attention_heads import given

from tilewright.core import catalogue
from tilewright.core.context import RunContext
from tilewright.residency import Problem, best_bound, objective

RECORDED = Path(__file__).with_name("accelforge_attention.json")
"""What the peer answered: elements, by head and memory."""

SMALL, MIDDLE = Head(64, 64, 16, 16), Head(256, 256, 64, 64)
LONG, CHUNK = Head(4096, 4096, 64, 64), Head(512, 2048, 128, 128)

CASES = [
    *((SMALL, memory) for memory in (256, 512, 1024, 2048, 4096)),
    *((MIDDLE, memory) for memory in (1024, 2048, 8192, 32768)),
    *((LONG, memory) for memory in (16384, 17100, 65536, 67800)),
    *((CHUNK, memory) for memory in (16384, 65536, 262144)),
]
"""Heads, with elements of memory. The last head is that of Llama 3: 512 queries of a prompt of 2,048."""


def specification(head: Head, memory: int) -> str:
    """Return the peer's text of a head: a bit moved from or to DRAM costs 1, all else nothing."""
    return f"""\
arch:
  nodes:
  - !Memory
    name: dram
    size: inf
    leak_power: 0
    area: 0
    tensors: {{keep: ~Intermediates, may_keep: All}}
    actions: [{{name: read, energy: 1, throughput: inf}}, {{name: write, energy: 1, throughput: inf}}]
  - !Memory
    name: buffer
    size: {8 * memory}
    leak_power: 0
    area: 0
    tensors: {{keep: All}}
    actions: [{{name: read, energy: 0, throughput: inf}}, {{name: write, energy: 0, throughput: inf}}]
  - !Compute
    name: mac
    leak_power: 0
    area: 0
    actions: [{{name: compute, energy: 0, throughput: 1}}]
workload:
  rank_sizes: {{M: {head.queries}, P: {head.keys}, E: {head.depth}, F: {head.values}}}
  bits_per_value: {{All: 8}}
  einsums:
  - "scores[m, p] = query[m, e] * key[p, e]"
  - "softmax[m, p] = scores[m, p]"
  - "context[m, f] = softmax[m, p] * value[p, f]"
"""


def name_of(head: Head, memory: int) -> str:
    """Return what an answer is kept under."""
    return f"{head.queries} x {head.keys}, {head.depth} channels, {memory}"


def problem(head: Head, memory: int) -> Problem:
    """Return a head in some memory; an element is a byte, and so is a sum."""
    machine = {"memory_bytes": memory, "sum_bytes": 1}
    return Problem.model_validate({"network": given(head), "machine": machine})


class Row(NamedTuple):
    """Elements that are moved.

    Attributes
    ----------
    ours
        Proven to be the least of all plans.
    """

    ours: int
    peers: float
    least: int


def row(head: Head, memory: int, recorded: dict[str, Any]) -> Row:
    """Return what a case takes by both, and by no schedule less."""
    states = catalogue.formulation("residency", "states")
    assert states is not None
    posed = problem(head, memory)
    outcome = states.solve(posed, RunContext())
    assert outcome.status == "optimal"
    return Row(objective(posed, outcome.plan), recorded[name_of(head, memory)], best_bound(posed).value)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--save", action="store_true", help="ask the peer anew, and keep its answers")
    save = parser.parse_args().save
    if save and PYTHON not in os.environ:
        parser.error(f"{PYTHON} names no Python that has AccelForge")
    recorded = json.loads(RECORDED.read_text("utf-8")) if RECORDED.exists() else {}
    if save:
        for head, memory in CASES:
            answer = answered(os.environ[PYTHON], specification(head, memory), "energy")
            recorded[name_of(head, memory)] = answer["value"] / 8
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n", "utf-8")
    print("| queries x keys, channels | elements of memory | ours | AccelForge | no schedule below |")
    print("|---|---|---|---|---|")
    for head, memory in CASES:
        ours, peers, least = row(head, memory, recorded)
        size = f"{head.queries:,} x {head.keys:,}, {head.depth}"
        print(f"| {size} | {memory:,} | {ours:,} | {peers:,.0f} | {least:,} |", flush=True)


if __name__ == "__main__":
    main()
