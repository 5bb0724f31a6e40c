"""Figures 7.1 to 7.4 and 7.6 to 7.9: the manual mapping of every layer beside the model."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tilewright.papers.figures import Say
from tilewright.papers.idsp.energy import NetworkEnergy, distance, energies, energy_of, mapped
from tilewright.papers.idsp.mapped_layer import LayerMapping
from tilewright.papers.idsp.mapping_figures import draw_mapping
from tilewright.papers.idsp.setting import NAMES, NETWORKS, efficiency, machine, published, throughput
from tilewright.tiling.dsp.nest import nest_of

ADDITIONAL = ("redundant", "spilling", "unaligned")
"""What the mapping moves in addition for a known reason; "other" is the rest."""


@cache
def layer_mappings(network: str) -> list[LayerMapping]:
    """Return all layers of a network, each under the schedule that is best for its manual tile."""
    dsp = machine()
    found = []
    for one in mapped(network):
        row = one.row
        nest = nest_of(one.layer, dsp)
        accesses, transfers = one.accesses[one.best], one.transfers[one.best]
        setup = transfers * dsp.dma_setup_cycles
        vectors = row["vector_transfers"]
        found.append(
            LayerMapping(
                of=one,
                compute=row["cycles"],
                least_compute=nest.macs / dsp.macs_per_cycle,
                setup=setup,
                bus=accesses / dsp.bus_elements_per_cycle,
                vectors=(vectors, row["model_vector_transfers"], one.vectors),
                rest=row["model_vector_transfers"] + row["additional"]["other"],
                ops_per_byte=float(efficiency(nest, accesses)),
                gops=float(throughput(nest, row["cycles"] + setup)),
                energy=energy_of(
                    cycles=row["cycles"], transfers=transfers, vectors=vectors, accesses=accesses
                ),
            )
        )
    return found


def ratio(
    layers: Iterable[LayerMapping],
    above: Callable[[LayerMapping], float],
    below: Callable[[LayerMapping], float],
) -> float:
    """Return the ratio of two sums over layers."""
    chosen = list(layers)
    return sum(map(above, chosen)) / sum(map(below, chosen))


def cycle_ratio(layers: Sequence[LayerMapping]) -> float:
    """Return cycles of the mapping over those of the model (figures 7.1 and 7.3)."""
    return ratio(layers, lambda one: one.compute, lambda one: one.least_compute)


def transfer_ratio(layers: Sequence[LayerMapping], *, ours: bool = False, rest: bool = False) -> float:
    """Return local transfers of the mapping over those of the model (figures 7.1, 7.2 and 7.4).

    Parameters
    ----------
    ours
        Divide by our model's instead of the thesis's.
    rest
        Without what is known to be additional.
    """
    return ratio(
        layers,
        lambda one: one.rest if rest else one.vectors[0],
        lambda one: one.vectors[2 if ours else 1],
    )


def external_share(layers: Sequence[LayerMapping], *, model: bool = False) -> float:
    """Return the share of external traffic in the energy (figure 7.9)."""
    return ratio(layers, lambda one: _energy(one, model).external, lambda one: _energy(one, model).total)


def connected_share(layers: Sequence[LayerMapping], *, model: bool = False) -> float:
    """Return the share of fully-connected layers in the energy."""
    return sum(_energy(one, model).total for one in of_kind(layers, "fc")) / sum(
        _energy(one, model).total for one in layers
    )


def _energy(one: LayerMapping, model: bool) -> NetworkEnergy:
    return one.model_energy if model else one.energy


def weight_share(layers: Sequence[LayerMapping], *, model: bool = False) -> float:
    """Return the share of weights in the external traffic of fully-connected layers.

    All images are in one tile there, so weights are loaded once.
    """
    return ratio(
        of_kind(layers, "fc"),
        lambda one: one.of.layer.kernels * one.of.layer.input[0],
        lambda one: one.model.accesses if model else one.accesses,
    )


def of_kind(layers: Sequence[LayerMapping], kind: str) -> list[LayerMapping]:
    """Return the layers of a kind, `conv` or `fc`."""
    return [one for one in layers if one.of.layer.kind == kind]


def setup_loss(one: LayerMapping) -> float:
    """Return how much of the peak's throughput the model's most efficient schedule sets up transfers in."""
    setup = one.model.transfers * machine().dma_setup_cycles
    return setup / (one.model.compute + setup)


def print_mapping(folder: Path, say: Say) -> None:
    """Print figures 7.1 to 7.4 and 7.6 to 7.9 beside the text's claims, and draw them."""
    claims = published()["figures_7"]
    say("Figures 7.1 to 7.4 and 7.6 to 7.9: manual mapping and model. Their values are not in the text;")
    say("these follow from tables 7.3 to 7.6 and the closed forms, each manual tile under its best schedule")
    for network, title in NETWORKS.items():
        _print_local(network, title, claims[network], say)
    for network, title in NETWORKS.items():
        _print_efficiency(network, title, claims, say)
    _print_setup(claims["efficient_setup"], say)
    for path in draw_mapping({title: layer_mappings(network) for network, title in NETWORKS.items()}, folder):
        say(f"written: {path}")


def _print_local(network: str, title: str, claims: dict[str, Any], say: Say) -> None:
    layers = layer_mappings(network)
    say("")
    say(
        f"Figures {'7.1 and 7.2' if 'transfers' in claims else '7.3 and 7.4'}, {title}: mapping / model; "
        "transfers also without what is additional (model of the thesis | ours); shares of the transfers"
    )
    say(
        f"  {'layer':<6} {'cycles':>7} {'MACs/cycle':>10} {'transfers':>16} {'without':>14} "
        + " ".join(f"{reason:>9}" for reason in (*ADDITIONAL, "other"))
    )
    for one in layers:
        shares = (one.additional[reason] / one.vectors[0] for reason in (*ADDITIONAL, "other"))
        say(_local_line(one.name, [one]) + "".join(f" {share:>9.1%}" for share in shares))
    say(_local_line("all", layers))
    values = {
        "cycles": ("cycles", cycle_ratio(layers)),
        "most_cycles": ("cycles of any layer at most", max(cycle_ratio([one]) for one in layers)),
        "transfers": ("transfers", transfer_ratio(layers)),
        "rest": ("without the additional ones", transfer_ratio(layers, rest=True)),
    }
    for key, (words, value) in values.items():
        if key in claims:
            say(f"  thesis: {words} {claims[key]:g} x; ours {value:.3f} {distance(value, claims[key])}")
    over = [
        f"{one.name} {value:.2f}"
        for one in layers
        if (value := transfer_ratio([one], rest=True)) > claims["most_rest"]
    ]
    say(
        f"  thesis: no layer more than {claims['most_rest']:g} x without the additional ones; "
        f"by its own tables {'above: ' + ', '.join(over) if over else 'none is'}"
    )


def _local_line(name: str, layers: Sequence[LayerMapping]) -> str:
    rate = ratio(layers, lambda one: one.least_compute, lambda one: one.compute) * machine().macs_per_cycle
    moved = [
        f"{transfer_ratio(layers, rest=rest):>5.2f} |{transfer_ratio(layers, ours=True, rest=rest):>6.2f}"
        for rest in (False, True)
    ]
    return f"  {name:<6} {cycle_ratio(layers):>7.3f} {rate:>10.1f} {moved[0]:>16} {moved[1]:>14}"


def _print_efficiency(network: str, title: str, claims: dict[str, Any], say: Say) -> None:
    layers, told = layer_mappings(network), claims[network]
    say("")
    say(f"Figures 7.6 to 7.9, {title}: cycles of core, DMA set-up and bus; Ops/byte; roofline; energy")
    say(
        f"  {'layer':<6} {'core':>11} {'set-up':>8} {'bus':>10} {'core/bus':>8} {'Ops/byte':>9} {'model':>7} "
        f"{'schedules':<26} {'GOps/s':>7} {'of peak':>15} {'uJ':>8} {'external':>9}"
    )
    for one in layers:
        known = told["utilisation"].get(one.name)
        mark = f"{known:.0%} |{one.utilisation:>6.1%}" if known else f"{one.utilisation:.1%}"
        schedules = f"{NAMES[one.of.best]}, {NAMES[one.model.schedule]}"
        say(
            f"  {one.name:<6} {one.compute:>11,} {one.setup:>8,.0f} {one.bus:>10,.0f} "
            f"{one.compute / one.bus:>8.1f} {one.ops_per_byte:>9.1f} {one.model.ops_per_byte:>7.1f} "
            f"{schedules:<26} {one.gops:>7.2f} {mark:>15} {one.energy.total:>8.0f} "
            f"{external_share([one]):>9.1%}"
        )
    bound = [one.name for one in layers if one.bus > one.compute]
    say(f"  thesis: no layer is bound by the bus; ours: {', '.join(bound) or 'none'}")
    least = claims["conv_external_energy"]
    shares = {
        f"external traffic generally over {least:.0%} of the energy of convolutions": (
            external_share(of_kind(layers, "conv")),
            external_share(of_kind(layers, "conv"), model=True),
        ),
        f"fully-connected layers over {claims['fc_energy']:.0%} of the network's": (
            connected_share(layers),
            connected_share(layers, model=True),
        ),
        f"weights over {told['fc_weights']:.0%} of the external transfers of fully-connected layers": (
            weight_share(layers),
            weight_share(layers, model=True),
        ),
    }
    for words, (mapping, model) in shares.items():
        say(f"  thesis: {words}; ours {mapping:.1%}, under the model's schedules {model:.1%}")
    if "energy_saving" in told:
        found = energies(network)
        saving = 1 - found["model"].total / found["mapping"].total
        claim = told["energy_saving"]
        say(f"  thesis: the model's schedules save {claim:.0%} of the energy; ours {saving:.1%}")


def _print_setup(claims: dict[str, float], say: Say) -> None:
    say("")
    for kind, title in (("conv", "convolutions"), ("fc", "fully-connected layers")):
        losses = {
            f"{name} {one.name}": setup_loss(one)
            for network, name in NETWORKS.items()
            for one in of_kind(layer_mappings(network), kind)
            if (network, one.name) not in {("lenet5-clone", "conv1"), ("lenet5-clone", "fc4")}
        }
        worst = max(losses, key=lambda name: losses[name])
        over = sum(loss > claims[kind] for loss in losses.values())
        say(
            f"set-up in the most efficient schedules, {title} (LeNet-5's conv1 and fc4 apart): thesis at "
            f"most {claims[kind]:.1%} of the peak; by the closed forms up to {losses[worst]:.1%} ({worst}), "
            f"{over} of {len(losses)} above"
        )
