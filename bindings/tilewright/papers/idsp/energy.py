"""Tables 7.4, 7.6, 7.10 and 7.11: local traffic, energy and run-time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.heuristics.tiling import manual
from tilewright.papers.figures import Say
from tilewright.papers.idsp.chapter_8 import published_reuse
from tilewright.papers.idsp.setting import BATCH, NETWORKS, agrees, layers, machine, published
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import exact, thesis_model
from tilewright.tiling.dsp.duration import duration
from tilewright.tiling.dsp.nest import Nest, nest_of
from tilewright.tiling.dsp.plan import SCHEDULES
from tilewright.tiling.dsp.traffic import Tiles


@dataclass(frozen=True)
class NetworkEnergy:
    """Energy of a network by component, in microjoules."""

    compute: float
    dma: float
    local: float
    external: float

    @property
    def total(self) -> float:
        """Sum of the components."""
        return self.compute + self.dma + self.local + self.external

    @classmethod
    def sum_of(cls, parts: Sequence[NetworkEnergy]) -> NetworkEnergy:
        """Add up the components of several."""
        return cls(*(sum(getattr(each, one.name) for each in parts) for one in fields(cls)))


def energy_of(*, cycles: float, transfers: float, vectors: float, accesses: float) -> NetworkEnergy:
    """Return the energy of the core's cycles, its DMA transfers, and vectors and elements moved."""
    dsp = machine()
    price = dsp.energy
    return NetworkEnergy(
        compute=cycles * price.core_fj_per_cycle / 1e9,
        dma=transfers * dsp.dma_setup_cycles * price.core_fj_per_cycle / 1e9,
        local=vectors * price.local_fj_per_access / 1e9,
        external=accesses * dsp.element_bytes / price.dram_access_bytes * price.dram_fj_per_access / 1e9,
    )


@dataclass(frozen=True)
class Mapped:
    """A layer that the thesis mapped by hand.

    Attributes
    ----------
    row
        What is published of it.
    accesses, transfers
        By schedule, of the manual tile.
    tiles
        How many tiles it makes.
    fits
        Whether two copies of its buffers fit the memory.
    vectors
        Local vector transfers as published: the best tile of the register file, rounded up per tile.
    """

    row: dict[str, Any]
    layer: Layer
    accesses: dict[str, float]
    transfers: dict[str, float]
    tiles: int
    need: int
    fits: bool
    vectors: int

    @property
    def best(self) -> str:
        """The schedule that moves least, of those that move as much the one of fewest transfers."""
        return min(SCHEDULES, key=lambda name: (self.accesses[name], self.transfers[name], name))


@cache
def mapped(network: str) -> list[Mapped]:
    """Evaluate the manual tiles of tables 7.3 and 7.5 by the thesis's closed forms."""
    plain = layers(network, grouped=False)
    evaluated = []
    for row in manual.rows():
        if row["network"] != network:
            continue
        nest = nest_of(plain[row["layer"]], machine())
        tile = {"g": 1, **row["tile"]}
        tiles = Tiles(nest, tuple(np.array([tile[loop]]) for loop in "gncyxk"))
        number = int(np.prod([int(trips[0]) for trips in tiles.trips]))
        vector = nest.machine.energy.local_access_bytes // nest.machine.element_bytes
        evaluated.append(
            Mapped(
                row=row,
                layer=nest.layer,
                accesses={name: float(thesis_model.accesses(tiles, name)[0]) for name in SCHEDULES},
                transfers={name: float(thesis_model.transfers(tiles, name)[0]) for name in SCHEDULES},
                tiles=number,
                need=int(tiles.need[0]),
                fits=bool(tiles.need[0] <= nest.machine.buffer_capacity),
                vectors=number * -int(-published_local(nest) / number // vector),
            )
        )
    return evaluated


def published_local(nest: Nest) -> float:
    """Elements of local traffic by the thesis's closed forms (section 5.4)."""
    tiles = thesis_model.explore(nest, nest.machine.register_file_bytes // nest.machine.element_bytes)
    return float(min(thesis_model.accesses(tiles, schedule).min() for schedule in SCHEDULES))


@cache
def energies(network: str) -> dict[str, NetworkEnergy]:
    """Return the rows of table 7.10, with ours beside them."""
    hand = mapped(network)
    cycles = sum(layer.row["cycles"] for layer in hand)
    vectors = sum(layer.row["vector_transfers"] for layer in hand)
    rows = {
        "mapping": energy_of(
            cycles=cycles,
            vectors=vectors,
            transfers=sum(layer.transfers[layer.best] for layer in hand),
            accesses=sum(layer.accesses[layer.best] for layer in hand),
        ),
        "mapping, intra-tile only": energy_of(
            cycles=cycles,
            vectors=vectors,
            transfers=sum(layer.transfers["intra"] for layer in hand),
            accesses=sum(layer.accesses["intra"] for layer in hand),
        ),
    }
    model = [published_reuse(layer.layer) for layer in hand]
    rows["model"] = energy_of(
        cycles=sum(layer.compute for layer in model),
        vectors=sum(layer.vectors for layer in hand),
        transfers=sum(layer.transfers for layer in model),
        accesses=sum(layer.accesses for layer in model),
    )
    for limit, title in (("thesis", "least energy, thesis's schedules"), ("any", "least energy, any order")):
        rows[title] = _least_energy(network, limit)
    return rows


def _least_energy(network: str, limit: str) -> NetworkEnergy:
    dsp = machine()
    parts = []
    for layer in layers(network).values():
        nest = nest_of(layer, dsp)
        local = exact.local_traffic(nest)
        plan, _ = exact.cheapest(nest, "energy", limit, local)
        assert plan is not None
        parts.append(duration(nest, plan.plan, local))
    return energy_of(
        cycles=sum(part.compute for part in parts),
        vectors=sum(part.streamed for part in parts) * dsp.element_bytes / dsp.energy.local_access_bytes,
        transfers=sum(part.transfers for part in parts),
        accesses=sum(part.accesses for part in parts),
    )


def performance(network: str, energy: NetworkEnergy, cycles: float) -> dict[str, float]:
    """Return the figures of table 7.11 from energy and the core's cycles without DMA set-up."""
    dsp = machine()
    macs = sum(layer.macs for layer in layers(network).values())
    busy = cycles + energy.dma * 1e9 / dsp.energy.core_fj_per_cycle
    milliseconds = busy / dsp.clock_mhz / 1000
    return {
        "milliseconds": milliseconds,
        "milliwatts": energy.total / milliseconds,
        "images_per_second": BATCH / milliseconds * 1000,
        "picojoules_per_op": energy.total * 1e6 / (2 * macs),
        "utilisation": macs / dsp.macs_per_cycle / busy,
    }


def distance(ours: float, theirs: float) -> str:
    """Say how far ours is from what is published, "=" where it rounds to it."""
    return "=" if agrees(ours, theirs) else f"{100 * (ours / theirs - 1):+.1f} %"


def print_energy(_folder: Path, say: Say) -> None:
    """Print tables 7.4, 7.6, 7.10 and 7.11 beside ours."""
    _print_local_transfers(say)
    _print_energies(say)
    _print_performance(say)


def _print_local_transfers(say: Say) -> None:
    say("Tables 7.4 and 7.6, model transfers: vectors of 32 between local memory and a 4 KB register file")
    say(f"  {'layer':<16} {'thesis':>10} {'as published':>13} {'':>8} {'exact':>10}")
    over = []
    for network, title in NETWORKS.items():
        by_name = layers(network)
        for layer in mapped(network):
            name, theirs = layer.row["layer"], layer.row["model_vector_transfers"]
            least = exact.local_traffic(nest_of(by_name[name], machine())) / 32
            label = f"{title} {name}"
            numbers = f"{layer.vectors:>13,} {distance(layer.vectors, theirs):>8} {least:>10,.0f}"
            say(f"  {label:<16} {theirs:>10,} {numbers}")
            if not layer.fits:
                over.append(f"{label} {2 * layer.need / 1024:.1f} KB")
    say(
        "  as published: the register file's best tile by the closed forms, rounded up to vectors in every "
        "tile of the manual mapping. conv3 to conv5: the thesis's numbers are those of the second best tile, "
        "13 x 7 of 19 maps; 13 x 13 of 10 maps fits, too. fc7 is 20 off."
    )
    say(f"  manual tiles of tables 7.3 and 7.5 that exceed the 64 KB of one buffer set: {', '.join(over)}")


def _print_energies(say: Say) -> None:
    say(
        "Table 7.10: energy in uJ (thesis | ours | distance); cycles and vectors of mappings are the thesis's"
    )
    parts = ("compute", "dma", "local", "external", "total")
    say(f"  {'':<42}" + "".join(f"{part:>27}" for part in parts))
    for network, title in NETWORKS.items():
        rows = {row["schedule"]: row for row in published()["table_7_10"] if row["network"] == network}
        for schedule, ours in energies(network).items():
            cells = []
            for part in parts:
                value = getattr(ours, part)
                if schedule in rows:
                    theirs = rows[schedule][part]
                    cells.append(f"{theirs:>8} |{value:>8.0f} {distance(value, theirs):>8}")
                else:
                    cells.append(f"{value:>18.0f}{'':>9}")
            say(f"  {f'{title} {schedule}':<42}" + " ".join(cells))
    say(
        "  mapping: the external traffic is that of each manual tile under its best schedule, not under the "
        "intra-tile one, which is all that the compiler of section 6.2 can do (section 7.5 says so)"
    )
    say(
        "  not explained: LeNet-5's 1549 uJ, which no schedules of the tiles in table 7.3 give (the nearest "
        "1557), and AlexNet's 3196 uJ, where the vectors of table 7.5 at 66.6 pJ make 2968"
    )
    say("  model: edge tiles count as full ones, which brings AlexNet's compute from 10811 to 10869 uJ")


def _print_performance(say: Say) -> None:
    say("Table 7.11: run-time per batch of 8 from the published cycle counts and our DMA set-up")
    units = ("milliseconds", "milliwatts", "images_per_second", "picojoules_per_op", "utilisation")
    for network, title in NETWORKS.items():
        row = next(row for row in published()["table_7_11"] if row["network"] == network)
        cycles = sum(layer.row["cycles"] for layer in mapped(network))
        ours_by_unit = performance(network, energies(network)["mapping"], cycles)
        shown = [
            f"{unit.replace('_', ' ')} {row[unit]:g} | {ours_by_unit[unit]:.4g} "
            f"{distance(ours_by_unit[unit], row[unit])}"
            for unit in units
        ]
        say(f"  {title}: " + "; ".join(shown))
