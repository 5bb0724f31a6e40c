"""Tables 7.3 to 7.6 and figures 7.1 to 7.4, predicted from the manual inner loops; better ones."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tilewright.papers.figures import Say
from tilewright.papers.idsp.between import (
    energy_of_steps,
    energy_on_chip,
    loop_text,
    operations,
    print_between,
)
from tilewright.papers.idsp.energy import (
    Mapped,
    NetworkEnergy,
    distance,
    energy_of,
    mapped,
    performance,
)
from tilewright.papers.idsp.setting import NETWORKS, machine, published
from tilewright.tiling.dsp.inner_loop import (
    InnerLoop,
    LoopCosts,
    TileWork,
    costs_of_bodies,
    loop_costs,
)
from tilewright.tiling.dsp.inner_search import BestLoop, best_loop, families
from tilewright.tiling.dsp.vector_unit import VectorUnit

ALPHA = 16
"""By how much section 7.5 estimates that transfers of partial results can be reduced."""

PARTS = ("redundant", "spilling", "unaligned")

CHOSEN = {"pipelined": "pipelined", "taps": "positions"}
"""What of a loop section 7.5 can leave open, beside the unrolling of some dimensions."""


@dataclass(frozen=True)
class Prediction:
    """A manually mapped layer, its inner loop executed by the model instead of the thesis's simulator.

    Attributes
    ----------
    tiles, outputs
        Tiles, and how many of them begin (and end) with the outputs: one for each tile of outputs. Every tile
        counts as a full one, as in the thesis.
    work
        A full tile.
    least_cycles
        Cycles of a core that always multiplies at its peak (equation 5.10).
    """

    of: Mapped
    tiles: int
    outputs: int
    work: TileWork
    loop: InnerLoop
    costs: LoopCosts
    least_cycles: float

    @property
    def name(self) -> str:
        """The layer's name."""
        return str(self.of.row["layer"])

    def total(self, costs: LoopCosts) -> tuple[int, int]:
        """Return cycles and vector transfers of the layer with some inner loop."""
        cycles = self.tiles * costs.cycles + self.outputs * (costs.start_cycles + costs.end_cycles)
        ends = costs.start_transfers + costs.end_transfers
        return cycles, self.tiles * costs.transfers + self.outputs * ends

    @property
    def cycles(self) -> int:
        """Cycles of the manual inner loop."""
        return self.total(self.costs)[0]

    @property
    def transfers(self) -> int:
        """Vector transfers of the manual inner loop."""
        return self.total(self.costs)[1]

    @property
    def parts(self) -> dict[str, int]:
        """Vector transfers in addition, by reason: sums as far as `ALPHA` saves them, spills, alignment."""
        one = self.costs
        ends = self.outputs * (one.start_transfers + one.end_transfers // 2)
        biases = self.outputs * (one.start_transfers - one.end_transfers // 2)
        return {
            "redundant": self.tiles * one.sums * (ALPHA - 1) // ALPHA + ends - biases,
            "spilling": self.tiles * one.spills,
            "unaligned": self.tiles * one.unaligned,
        }

    @property
    def rest(self) -> int:
        """Vector transfers without those."""
        return self.transfers - sum(self.parts.values())

    @property
    def counted(self) -> int:
        """The thesis's vector transfers; of two that contradict each other, those that count.

        fc3's in table 7.3 begin and end the outputs in every tile, where tables 7.4 to 7.6 do so once.
        """
        row = self.of.row
        both = row["vector_transfers"], row["model_vector_transfers"] + sum(row["additional"].values())
        return int(both[1] if self.name == "fc3" else both[0])

    def best(self, unit: VectorUnit, *, energy: bool = False) -> BestLoop:
        """Return the fastest inner loop of the same tile, or that of least energy."""
        price = machine().energy
        prices = (price.core_fj_per_cycle, price.local_fj_per_access) if energy else (1, 0)
        return best_loop(unit, self.work, prices=prices)


@cache
def predictions(network: str) -> list[Prediction]:
    """Return all manually mapped layers of a network."""
    unit, found = VectorUnit(), []
    for one in mapped(network):
        tile, layer = one.row["tile"], one.layer
        work = TileWork(
            (tile["n"], tile["c"], tile["y"], tile["x"], tile["k"]),
            kernel=layer.kernel,
            stride=layer.stride,
            dilation=layer.dilation,
        )
        loop = InnerLoop.from_json(one.row["inner_loop"])
        costs = loop_costs(unit, work, loop)
        assert costs.fits
        outputs = one.tiles // -(-layer.input[0] // tile["k"])
        least = one.tiles * work.macs / machine().macs_per_cycle
        found.append(Prediction(one, one.tiles, outputs, work, loop, costs, least))
    return found


def print_compute(_folder: Path, say: Say) -> None:
    """Print ours beside the thesis's: cycles, transfers, their parts, factors, and better inner loops."""
    _print_rows(say)
    _print_parts(say)
    _print_factors(say)
    print_between(say)
    _print_whole(say)
    _print_best(say)
    _print_conv1(say)


def without_spills(one: Prediction) -> dict[str, tuple[int, int]]:
    """Return, by vectorised dimension, the fewest cycles of loops with the whole kernel in the body.

    Returns
    -------
    dict
        Cycles of the layer, and those where nothing is spilled; 0 where every loop spills.
    """
    unit, most = VectorUnit(), 2**62
    least: dict[str, list[int]] = {}
    for family in families(unit, one.work):
        if family.taps != "kernel":
            continue
        costs = costs_of_bodies(unit, one.work, family.vector, family.pipelined, "kernel", family.unroll)
        cycles, _ = one.total(costs)
        of_one = least.setdefault(family.vector, [most, most])
        for number, fits in enumerate((costs.fits, costs.fits & (costs.spilled == 0))):
            of_one[number] = min(of_one[number], int(np.asarray(cycles)[fits].min(initial=most)))
    return {vector: (some, clean % most) for vector, (some, clean) in least.items() if some < most}


def _beside(theirs: float, ours: float, width: int = 10) -> str:
    away = "=" if ours == theirs else f"{100 * (ours / theirs - 1):+.1f} %" if theirs else "-"
    return f"{theirs:>{width},} |{ours:>{width},} {away:>8}"


def _every() -> list[tuple[str, Prediction]]:
    """Return all manually mapped layers, and what they are called in the tables."""
    return [
        (f"{title} {one.name}", one) for network, title in NETWORKS.items() for one in predictions(network)
    ]


def _print_rows(say: Say) -> None:
    say("Tables 7.3 and 7.5, manual mapping (thesis | ours | distance)")
    say("Cycles are predicted: no loop is chosen by them. But three latencies are chosen")
    say("for the interval of LeNet-5 fc4, so that its cycles are none.")
    say("* Transfers are no independent prediction: section 7.5 leaves a part of this")
    say("loop open, which is chosen by them instead (next table).")
    say(f"  {'layer':<13} {'cycles':^31}  {'vector transfers':^29}")
    for label, one in _every():
        star = "*" if one.of.row.get("inferred") else ""
        cycles, transfers = _beside(one.of.row["cycles"], one.cycles), (one.counted, one.transfers)
        say(f"  {label:<13} {cycles} {_beside(*transfers, 9)} {star}".rstrip())
    say("  fc3's transfers are those of table 7.4, LeNet-5 conv1's those of table 7.3")
    say("  (docs/reading-the-papers.md).")
    say("")
    say("The manual inner loops: vectorised/pipelined dimension, body x kernel positions;")
    say("initiation interval, lanes that are filled, registers; and what is not told in")
    say("section 7.5, but chosen by the transfers of tables 7.4 and 7.6: the pipelined")
    say("dimension, the positions, or the unrolling of dimensions in the body")
    say(f"  {'layer':<13} {'loop':<21} {'interval':>8} {'lanes':>5} {'registers':>9}  chosen")
    for label, one in _every():
        costs = one.costs
        lanes = one.work.macs / costs.macs
        chosen = one.of.row.get("inferred", [])
        words = CHOSEN.get(" ".join(chosen), f"body: {', '.join(chosen)}") if chosen else ""
        say(
            f"  {label:<13} {loop_text(one.loop):<21} {costs.interval:>8} {lanes:>5.1f} "
            f"{f'{costs.live} of {VectorUnit().registers}':>9}  {words}".rstrip()
        )


def _print_parts(say: Say) -> None:
    say("")
    say("Tables 7.4 and 7.6, additional transfers (thesis | ours | distance), without")
    say("those that are 0 in both; those of * are no independent prediction, as above.")
    say("That both conv2 spill, and no other layer, is how the number of registers is")
    say("chosen.")
    for part in PARTS:
        for label, one in _every():
            theirs, ours = one.of.row["additional"][part], one.parts[part]
            star = " *" if one.of.row.get("inferred") else ""
            if theirs or ours:
                say(f"  {part:<9} {label:<13} {_beside(theirs, ours)}{star}")


def _print_factors(say: Say) -> None:
    claims = published()["figures_7"]
    say("")
    say("Figures 7.1 to 7.4, manual mapping / model (thesis | ours | distance); the")
    say("model's transfers: ours")
    for network, title in NETWORKS.items():
        found = predictions(network)
        cycles = [one.cycles / one.least_cycles for one in found]
        rests = [one.rest / one.of.vectors for one in found]
        model = sum(one.of.vectors for one in found)
        values = {
            "cycles": ("cycles", sum(one.cycles for one in found) / sum(one.least_cycles for one in found)),
            "most_cycles": ("cycles of any layer at most", max(cycles)),
            "transfers": ("transfers", sum(one.transfers for one in found) / model),
            "rest": ("without the additional ones", sum(one.rest for one in found) / model),
            "most_rest": ("the same of any layer at most", max(rests)),
        }
        for key, (words, value) in values.items():
            if key in claims[network]:
                theirs = claims[network][key]
                say(f"  {title}, {words}: {theirs:g} | {value:.2f} | {distance(value, theirs)}")
        for name, theirs in claims[network]["utilisation"].items():
            one = next(one for one in found if one.name == name)
            setup = one.of.transfers[one.of.best] * machine().dma_setup_cycles
            value = one.of.layer.macs / machine().macs_per_cycle / (one.cycles + setup)
            say(f"  {title} {name}, share of the peak: {theirs:g} | {value:.3f} | {distance(value, theirs)}")


def whole(network: str) -> list[dict[str, float]]:
    """Return the figures of table 7.11: of layers alone, with operations on chip, and with them as steps."""
    layers, between = predictions(network), operations(network)
    cycles = sum(one.cycles for one in layers)
    energy = energy_of(
        cycles=cycles,
        transfers=sum(one.of.transfers[one.of.best] for one in layers),
        vectors=sum(one.transfers for one in layers),
        accesses=sum(one.of.accesses[one.of.best] for one in layers),
    )
    setup = machine().dma_setup_cycles * sum(each.transfers for each in between)
    return [
        performance(network, energy, cycles),
        performance(
            network,
            NetworkEnergy.sum_of([energy, *map(energy_on_chip, between)]),
            cycles + sum(each.cycles for each in between),
        ),
        performance(  # whose energy has the set-up, which is a part of the duration, too
            network,
            NetworkEnergy.sum_of([energy, *map(energy_of_steps, between)]),
            cycles + sum(each.duration for each in between) - setup,
        ),
    ]


def _print_whole(say: Say) -> None:
    say("")
    say("Tables 7.11 and 7.12, from our cycles (thesis | convolutions and fully-connected")
    say("layers, as in the thesis | with pools and normalisations on chip | as steps)")
    for network, title in NETWORKS.items():
        row = next(row for row in published()["table_7_11"] if row["network"] == network)
        found = whole(network)
        for unit in ("milliseconds", "milliwatts", "images_per_second", "picojoules_per_op", "utilisation"):
            ours = " | ".join(f"{each[unit]:.4g} {distance(each[unit], row[unit])}" for each in found)
            say(f"  {title}, {unit.replace('_', ' ')}: {row[unit]:g} | {ours}")
    say("Share of the run-time that is not of convolutions and fully-connected layers: on")
    say("the CPU (sections 7.6.1, measured) | ours on chip | ours as steps")
    for network, title in NETWORKS.items():
        cpu = next(
            row for row in published()["baselines"] if row["platform"] == "CPU" and row["network"] == network
        )
        alone, *others = (each["milliseconds"] for each in whole(network))
        shares = " | ".join(f"{1 - alone / each:.1%}" for each in others)
        say(f"  {title}: {1 - cpu['layers']:.0%} | {shares}")


def _print_best(say: Say) -> None:
    price = machine().energy

    def energy(cycles: int, transfers: int) -> float:
        return (cycles * price.core_fj_per_cycle + transfers * price.local_fj_per_access) / 1e9

    say("")
    say("Inner loops of the same tiles: manual, fastest, of least energy, and of least")
    say("energy where a loop over input maps keeps its sums in registers; all ours;")
    say("energy of core and local memory in uJ")
    say(f"  {'layer':<13} {'cycles':>10} {'of peak':>7} {'transfers':>10} {'energy':>7}  loop")
    kept = VectorUnit(sums="kept")
    for label, one in _every():
        found = [one.best(VectorUnit()), one.best(VectorUnit(), energy=True), one.best(kept, energy=True)]
        for loop, costs in [(one.loop, one.costs), *((best.loop, best.costs) for best in found)]:
            cycles, transfers = one.total(costs)
            say(
                f"  {label:<13} {cycles:>10,} {one.least_cycles / cycles:>7.1%} {transfers:>10,} "
                f"{energy(cycles, transfers):>7.1f}  {loop_text(loop)}"
            )
            label = ""


def _print_conv1(say: Say) -> None:
    one = predictions("lenet5-clone")[0]
    say("")
    say("LeNet-5 conv1 with the whole kernel in the body, as the thesis pipelines it: the")
    say("fewest cycles, and the fewest without spilling")
    for vector, (fastest, clean) in without_spills(one).items():
        say(f"  vectors of {vector}: {fastest:>10,} {f'{clean:,}' if clean else 'all spill':>10}")
