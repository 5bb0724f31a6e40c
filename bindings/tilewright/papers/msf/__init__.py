"""RAM of networks on micro-controllers: what msf-CNN (NeurIPS 2025) publishes, beside the exact front."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.core import catalogue
from tilewright.core.files import write_atomically
from tilewright.papers.figures import Say
from tilewright.residency import MemoryPoint, Problem, memory_front, simulate

FIGURES = {
    "msf-cnn": "RAM over multiply-accumulates on micro-controllers: published points beside the exact front",
}
"""What `reproduce` makes."""

MACHINE = {
    "memories": [
        {"name": "ram", "bytes": 2**20},
        {"name": "flash", "bytes": 2**24, "read_only": True},
    ],
    "dram": False,
}
"""Large enough for all networks: what is asked for is the least that they need."""

HEADER = ("method", "RAM", "MACs", "ours: RAM", "MACs", "RAM within their MACs")
SUMS = ("network", "layer by layer", "nothing twice", "least RAM", "its MACs", "points")


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Find the front of each network, print a line for each published point, and write the points.

    Ours is the plan of the fewest multiply-accumulates that needs no more RAM. Each plan that is printed has
    been executed by the simulator. The second table has networks with the sums of their blocks.
    """
    published: list[dict[str, Any]] = catalogue.shared("published", "msf-cnn")["points"]
    networks = {name: _network(name) for name in dict.fromkeys(point["network"] for point in published)}
    for number, (name, network) in enumerate(networks.items()):
        if number:
            say("")
        front = _front(network, time_limit)
        least = min(each.macs for each in front)
        say(f"{name}: {least:,} multiply-accumulates, {len(front)} points")
        say("")
        executed, points = set[int](), [point for point in published if point["network"] == name]
        _table(say, HEADER, [_row(point, network, front, executed) for point in points])
        lines = ["memory_bytes,macs,mac_factor"]
        lines += [f"{each.memory_bytes},{each.macs},{each.macs / least:.4f}" for each in front]
        write_atomically(folder / f"{name}.csv", "\n".join(lines) + "\n")
    say("")
    _table(say, SUMS, [_with_sums(name, network, time_limit) for name, network in networks.items()])


def _network(name: str) -> dict[str, Any]:
    path = next(path for path in catalogue.instances("networks") if path.stem == name)
    return tomllib.loads(path.read_text("utf-8"))


def _problem(network: dict[str, Any], limits: dict[str, Any]) -> Problem:
    table = {"network": network, "machine": MACHINE, "objective": {"minimise": "memory"}, "limits": limits}
    return Problem.model_validate(table)


def _front(network: dict[str, Any], time_limit: float, **limits: Any) -> list[MemoryPoint]:
    return memory_front(_problem(network, limits), time.monotonic() + time_limit)


def _row(
    point: dict[str, Any], network: dict[str, Any], front: Sequence[MemoryPoint], executed: set[int]
) -> tuple[str, ...]:
    """Return the line of a point: the fewest MACs in its RAM, and the least RAM with its MACs."""
    least = min(each.macs for each in front)
    within = [each for each in front if each.taken_bytes <= point["peak_bytes"]]
    fewer = [each for each in front if each.macs <= point["mac_factor"] * least]
    told = point["method"] + (f", {point['limit']}" if point.get("limit", "none") != "none" else "")
    theirs = told, f"{point['peak_bytes']:,}", f"{point['mac_factor']:.3f}"
    if not within:
        return *theirs, "none", "", ""
    ours = min(within, key=lambda each: each.macs)
    if ours.macs not in executed:
        _execute(network, ours)
        executed.add(ours.macs)
    return (
        *theirs,
        f"{ours.taken_bytes:,}",
        f"{ours.macs / least:.3f}",
        f"{min(each.taken_bytes for each in fewer):,}",
    )


def _execute(network: dict[str, Any], each: MemoryPoint) -> None:
    """Execute a plan: it computes the network in the RAM that it claims."""
    measures = simulate(_problem(network, {}), each.plan).measures
    assert measures is not None
    assert (measures.memory_bytes, measures.macs) == (each.taken_bytes, each.macs)


def _with_sums(name: str, network: dict[str, Any], time_limit: float) -> tuple[str, ...]:
    """Return the line of a network whose residual blocks have their sums."""
    summed = with_sums(network)
    front = _front(summed, time_limit)
    alone = _front(summed, time_limit, most_operations=1)
    least = min(each.macs for each in front)
    return (
        f"{name}, {len(summed['layers']) - len(network['layers'])} sums",
        f"{alone[0].taken_bytes:,}",
        f"{front[-1].taken_bytes:,}",
        f"{front[0].taken_bytes:,}",
        f"{front[0].macs / least:.3f}",
        str(len(front)),
    )


def with_sums(network: dict[str, Any]) -> dict[str, Any]:
    """Return a network with the sums of MobileNetV2's blocks: of stride 1, with the channels of before."""
    layers: list[dict[str, Any]] = []
    last = "input"
    chain = network["layers"]
    begins: str | None = None
    for place, layer in enumerate(chain):
        expands = (
            layer["kernel"] == [1, 1]
            and place + 2 < len(chain)
            and chain[place + 1].get("groups") == layer["kernels"]
            and chain[place + 1]["stride"] == [1, 1]
            and chain[place + 2]["kernels"] == layer["input"][0]
            and chain[place + 2]["kernel"] == [1, 1]
        )
        if expands:
            begins, ends = last, chain[place + 2]["name"]
        layers.append({**layer, "inputs": [last]})
        last = layer["name"]
        if begins is not None and last == ends:
            shape = chain[place + 1]["input"] if place + 1 < len(chain) else None
            if shape is not None and begins != "input":
                layers.append({"kind": "add", "name": f"{last}s", "input": shape, "inputs": [begins, last]})
                last = f"{last}s"
            begins = None
    return {**network, "layers": layers}


def _table(say: Say, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    for cells in (header, ["---"] * len(header), *rows):
        say(f"| {' | '.join(cells)} |")
