"""Chapter 8: accesses, Ops/byte and throughput of every layer at 64 KB."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tilewright.papers.figures import Say
from tilewright.papers.idsp.setting import NAMES, NETWORKS, efficiency, layers, machine, published, throughput
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import exact, thesis_model
from tilewright.tiling.dsp.bounds import best_bound
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.nest import Nest, nest_of
from tilewright.tiling.dsp.plan import SCHEDULES


@dataclass(frozen=True)
class Reuse:
    """The plan of a layer with the fewest accesses, of those with as few the fastest.

    Attributes
    ----------
    ratio
        Accesses over compulsory ones.
    compute
        Cycles in which the core multiplies.
    """

    schedule: str
    accesses: float
    ratio: float
    ops_per_byte: float
    gops: float
    transfers: float
    compute: float


@cache
def published_reuse(layer: Layer) -> Reuse:
    """Return the most efficient plan by the thesis's model."""
    nest = nest_of(layer, machine())
    local = exact.local_traffic(nest)
    tiles = thesis_model.explore(nest, nest.machine.buffer_capacity)
    ranked = []
    for schedule in SCHEDULES:
        accesses = np.rint(thesis_model.accesses(tiles, schedule))
        times = thesis_model.cycles(tiles, schedule, local)
        at = int(np.lexsort((times.total, accesses))[0])
        numbers = (thesis_model.transfers(tiles, schedule), times.compute)
        ranked.append((accesses[at], times.total[at], schedule, *(float(array[at]) for array in numbers)))
    fewest, length, name, moves, work = min(ranked)
    return Reuse(
        name,
        float(fewest),
        float(fewest) / nest.compulsory,
        float(efficiency(nest, fewest)),
        float(throughput(nest, length)),
        moves,
        work,
    )


@cache
def exact_reuse(layer: Layer, limit: str) -> Reuse:
    """Return the plan with the fewest accesses as the simulator counts them."""
    nest = nest_of(layer, machine())
    found = exact.fewest_accesses(nest, limit)
    assert found is not None
    total = duration(nest, found.plan, exact.local_traffic(nest))
    return Reuse(
        found.plan.schedule,
        found.value,
        found.value / nest.compulsory,
        float(efficiency(nest, found.value)),
        float(throughput(nest, total.cycles)),
        total.transfers,
        total.compute,
    )


def enough_memory(layer: Layer, most: float) -> int:
    """Return the least KB for one copy of all buffers with which accesses are `most` times compulsory."""
    nest = nest_of(layer, machine())
    low, high = 0, 1
    while not _reaches(nest, high, most):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _reaches(nest, middle, most) else (middle, high)
    return high


def _reaches(nest: Nest, kilobytes: int, most: float) -> bool:
    found = exact.fewest_accesses(nest, "any", kilobytes * 1024 // nest.machine.element_bytes)
    return found is not None and found.value <= most * nest.compulsory


def print_chapter_8(_folder: Path, say: Say) -> None:
    """Print every layer's reuse beside the thesis's claims."""
    claims = published()["chapter_8"]
    say("Chapter 8: fewest accesses of every layer at 64 KB of effective memory, batch 8")
    say("x: accesses over compulsory ones; O/B: Ops/byte (5.23); GOps/s (5.22) of the same plan")
    groups = ("as published", "thesis's schedules, exact", "any order, exact")
    say(f"{'':<16}" + "".join(f" | {group:<37}" for group in groups))
    say(f"{'layer':<16}" + f" | {'x':>5} {'O/B':>6} {'GOps/s':>7} {'schedule':<16}" * 3)
    rates: dict[str, list[float]] = {"conv": [], "fc": []}
    beyond: list[tuple[str, Layer, float]] = []
    distances: dict[str, float] = {}
    for network, title in NETWORKS.items():
        plain = layers(network, grouped=False)
        for name, layer in layers(network).items():
            found = (published_reuse(plain[name]), exact_reuse(layer, "thesis"), exact_reuse(layer, "any"))
            cells = [
                f" | {one.ratio:>5.2f} {one.ops_per_byte:>6.1f} {one.gops:>7.2f} "
                f"{NAMES.get(one.schedule, one.schedule):<16}"
                for one in found
            ]
            say(f"{f'{title} {name}':<16}" + "".join(cells))
            rates[layer.kind].append(found[0].ops_per_byte)
            least = best_bound(nest_of(layer, machine()), "accesses", 0).accesses
            distances[f"{title} {name}"] = found[2].accesses / least
            if found[2].ratio > claims["most_accesses"]:
                beyond.append((f"{title} {name}", layer, found[2].ratio))
    for kind, title in (("conv", "convolutions"), ("fc", "fully connected")):
        low, high = claims[f"{kind}_ops_per_byte"]
        say(
            f"{title}: thesis {low} to {high} Ops/byte, ours as published "
            f"{min(rates[kind]):.1f} to {max(rates[kind]):.1f}"
        )
    say(
        f"thesis: every layer within {claims['most_accesses']:g} x the accesses of optimal reuse. By its own "
        "forms as by ours these are not, whatever the tile and the order of the loops:"
    )
    for name, layer, ratio in beyond:
        needed = enough_memory(layer, claims["most_accesses"])
        say(f"  {name}: {ratio:.2f} x; within {claims['most_accesses']:g} x from {needed} KB on")
    farthest = max(distances, key=lambda name: distances[name])
    say(
        "against what any schedule at all needs in 64 KB (docs/tiling-bounds.md) every layer is within "
        f"{distances[farthest]:.2f} x ({farthest})"
    )
