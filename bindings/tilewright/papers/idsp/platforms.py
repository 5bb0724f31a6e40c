"""Tables 7.7, 7.8 and 7.12: a CPU and a GPU as the thesis measured them, and the DSP."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewright.papers.figures import Say
from tilewright.papers.idsp.energy import distance, energies, mapped, performance
from tilewright.papers.idsp.setting import BATCH, NETWORKS, layers, published

UNITS = ("images_per_second", "picojoules_per_op", "utilisation")
"""What follows from a platform's run-time, power and peak."""


def gops_per_image(network: str) -> float:
    """Return the operations of an image's convolutions and fully-connected layers, in billions."""
    return 2 * sum(layer.macs for layer in layers(network).values()) / BATCH / 1e9


def derived(row: dict[str, Any]) -> dict[str, float]:
    """Return what follows from the measured run-time and power of a row of table 7.7 or 7.8."""
    seconds = row["milliseconds"] / 1000 / published()["table_7_12"]["batch"]
    work = gops_per_image(row["network"])
    return {
        "images_per_second": 1 / seconds,
        "picojoules_per_op": 1000 * row["watts"] * seconds / work,
        "utilisation": work / seconds / row["gops"],
    }


def dsp(network: str) -> dict[str, float]:
    """Return the DSP's row of table 7.12: the thesis's cycles and vectors, our traffic and set-up."""
    cycles = sum(one.row["cycles"] for one in mapped(network))
    return performance(network, energies(network)["mapping"], cycles)


def energy_ratio(row: dict[str, Any]) -> float:
    """Return how many times the energy of the DSP an operation takes on the platform of a row."""
    return derived(row)["picojoules_per_op"] / dsp(row["network"])["picojoules_per_op"]


def print_platforms(_folder: Path, say: Say) -> None:
    """Print what follows from the measured run-times, and table 7.12."""
    told = published()["table_7_12"]
    say(
        f"Tables 7.7, 7.8 and 7.12 (thesis | ours | distance). CPU and GPU: from the measured run-times of "
        f"{told['batch']} images and power; DSP: as in table 7.11"
    )
    for network, title in NETWORKS.items():
        work, theirs = gops_per_image(network), told["gops_per_image"][network]
        say(f"{title}: {theirs:g} GOps per image | {work:.6f} {distance(work, theirs)}")
        for row in _rows(network):
            measured = f"{row['milliseconds']:g} ms, {row['watts']:g} W"
            say(f"  {row['platform']:<4} {measured:<19} " + _cells(row, derived(row)))
        row = next(row for row in published()["table_7_11"] if row["network"] == network)
        say(f"  {'DSP':<4} {'':<19} " + _cells(row, dsp(network)))
    say("Energy of an operation over the DSP's")
    for platform, (low, high) in told["energy_ratio"].items():
        ratios = [
            f"{NETWORKS[row['network']]} {energy_ratio(row):.1f} (of the rounded numbers "
            f"{row['picojoules_per_op'] / own['picojoules_per_op']:.1f})"
            for row in published()["baselines"]
            for own in published()["table_7_11"]
            if row["platform"] == platform and own["network"] == row["network"]
        ]
        say(f"  {platform}: thesis {low} to {high}; ours {', '.join(ratios)}")
    say(
        "Section 7.6: share of the measured run-time in convolutions and fully-connected layers, and what the"
    )
    say("peak's use would be if the rest took no time (the thesis's utilisation divides by all of it)")
    for row in published()["baselines"]:
        used = derived(row)["utilisation"]
        say(
            f"  {row['platform']} {NETWORKS[row['network']]:<8} {row['layers']:.0%}; "
            f"{used:.1%} of the peak, within these layers {used / row['layers']:.1%}"
        )


def _rows(network: str) -> list[dict[str, Any]]:
    return [row for row in published()["baselines"] if row["network"] == network]


def _cells(theirs: dict[str, Any], ours: dict[str, float]) -> str:
    return "; ".join(
        f"{unit.replace('_', ' ')} {theirs[unit]:g} | {ours[unit]:.5g} {distance(ours[unit], theirs[unit])}"
        for unit in UNITS
    )
