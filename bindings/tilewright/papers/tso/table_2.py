"""Table II: the columns that the machine is fitted on, and the model's predictions for the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import exp, log

import numpy as np

from tilewright.papers.figures import Say
from tilewright.papers.tso.fitting import FITTED, measured, measured_fixed
from tilewright.papers.tso.plans import LOOSE, NAMES, STRATEGIES, Solved, npu_of, time_parts
from tilewright.tiling.npu.machine import NpuMachine
from tilewright.tiling.npu.plan import PARTITIONS, SCHEDULES


def print_columns(networks: Sequence[Solved], say: Say) -> None:
    """Print the columns Burst and No Burst beside ours."""
    machine = npu_of(networks[0].layers[0].problem)
    say(
        "Table II, TSO, in microseconds: the paper's numbers and ours. On these, but for LeNet's, the machine"
    )
    say(f"is fitted: {machine_text(machine)}")
    header = ("Burst", "ours", "%", "No Burst", "ours", "%", "gain", "ours", "load+store")
    widths = (8, 8, 7, 10, 8, 7, 8, 7, 12)
    say(f"  {'':<12}" + "".join(f"{name:>{width}}" for name, width in zip(header, widths, strict=True)))
    off = []
    for network in networks:
        burst, plain = measured()[network.name]
        residuals = network.burst / burst - 1, network.no_burst / plain - 1
        off += [abs(one) for one in residuals] if network.name in FITTED else []
        moving = (
            sum(sum(time_parts(layer, layer.blind)[:2]) for layer in network.layers) / 1e4 / network.no_burst
        )
        say(
            f"  {NAMES[network.name]:<12}{burst:>8,}{network.burst:>8,.0f}{100 * residuals[0]:>+7.1f}"
            f"{plain:>10,}{network.no_burst:>8,.0f}{100 * residuals[1]:>+7.1f}"
            f"{plain / burst:>8.3f}{network.no_burst / network.burst:>7.3f}{moving:>10.1f} %"
        )
    say(f"  mean distance of the eight fitted numbers: {100 * sum(off) / len(off):.2f} %")
    say("  load+store: share of No Burst; the paper has 51.83 % for InceptionV3 up to 83.80 % for LeNet")


def machine_text(machine: NpuMachine) -> str:
    """Say what the machine's times come to."""
    cores = machine.tles * machine.tlts
    gmacs = cores * machine.macs_per_cycle * 1e3 / machine.cycle_ps
    return (
        f"cycle {machine.cycle_ps} ps ({1e6 / machine.cycle_ps:.0f} MHz, {gmacs:.0f} GMACs/s in all), "
        f"byte {machine.byte_ps} ps ({1e3 / machine.byte_ps:.2f} GB/s), CAS {machine.burst_ps / 1e3:.1f} ns"
    )


def trivial(networks: Sequence[Solved]) -> float:
    """Return the one constant that knows nothing of networks: the geometric mean of all our ratios."""
    ratios = [network.ratio(strategy) for network in networks for strategy in STRATEGIES]
    return exp(sum(map(log, ratios)) / len(ratios))


def print_predictions(networks: Sequence[Solved], say: Say) -> None:
    """Print what the model predicts of strategies that are fixed for a whole network."""
    constant = trivial(networks)
    say("Table II, fixed strategies: what the model predicts (nothing is fitted on these columns)")
    say("  us: the model's time; ratio: over our own Burst; scaled: the paper's Burst times that ratio;")
    say(f"  trivial: the paper's Burst times {constant:.3f}, the geometric mean of all our ratios: all that")
    say("  somebody could say who only knows that fixed strategies are slower")
    say(f"  {'':<12}{'':<9}" + "".join(f"{name:>9}" for name in STRATEGIES) + "   ranking")
    for network in networks:
        paper = measured()[network.name][0]
        times = {name: network.fixed(name) for name in STRATEGIES}
        rows = {
            "us": [f"{time:,.0f}" for time in times.values()],
            "ratio": [f"{network.ratio(name):.3f}" for name in STRATEGIES],
            "scaled": [f"{network.ratio(name) * paper:,.0f}" for name in STRATEGIES],
            "trivial": [f"{constant * paper:,.0f}"] * len(STRATEGIES),
        }
        rankings = [ranking({name: times[name] for name in group}) for group in (PARTITIONS, SCHEDULES)]
        for number, (label, cells) in enumerate(rows.items()):
            title = NAMES[network.name] if number == 0 else ""
            last = rankings[number] if number < len(rankings) else ""
            say(f"  {title:<12}{label:<9}" + "".join(f"{cell:>9}" for cell in cells) + f"   {last}".rstrip())
    for network in networks:
        for name in STRATEGIES:
            if count := network.without(name):
                layers = f"{count} of {len(network.layers)} layers"
                say(
                    f"  {NAMES[network.name]}, {name}: {layers} have no such tile and take their fastest plan"
                )
    for title, group, claim in (("TLE partition", PARTITIONS, 41.0), ("TLT schedule", SCHEDULES, 39.8)):
        ratio, name, strategy = max(
            (network.ratio(strategy), NAMES[network.name], strategy)
            for network in networks
            for strategy in group
        )
        say(
            f"  largest speed-up of TSO over a fixed {title}: {100 * (ratio - 1):.1f} % "
            f"({name}, {strategy}); the paper's: {claim} %"
        )


def print_comparison(
    networks: Sequence[Solved], say: Say, columns: Mapping[str, Mapping[str, int]] | None = None
) -> None:
    """Print the paper's columns of fixed strategies beside ours, and beside one constant.

    Parameters
    ----------
    columns
        The paper's microseconds, by strategy and network; those of instances/published when left out.
    """
    columns = measured_fixed() if columns is None else columns
    constant = trivial(networks)
    say("Table II, fixed strategies, us: paper | ours, its distance in %, that of the paper's Burst times")
    say(f"  our ratio, and that of the paper's Burst times {constant:.3f}; means are of the fitted networks.")
    say("  OS or IS: OS if its tiles may have all filters of a core, as those of IS have")
    readings = {"OS": {"OS": ("OS",), "OS or IS": LOOSE}}
    every: dict[str, list[list[float]]] = {}
    for strategy, column in columns.items():
        for label, strategies in readings.get(strategy, {strategy: (strategy,)}).items():
            off = every[label] = []
            for network in networks:
                if network.name not in column:
                    continue
                theirs, burst = column[network.name], measured()[network.name][0]
                ratio = network.ratio(*strategies)
                guesses = (network.fixed(*strategies), ratio * burst, constant * burst)
                far = [guess / theirs - 1 for guess in guesses]
                off += [far] if network.name in FITTED else []
                cells = "".join(f"{100 * one:>+8.1f}" for one in far)
                say(f"  {label:<9}{NAMES[network.name]:<12}{theirs:>9,} |{guesses[0]:>9,.0f}{cells}")
            _print_means(label, off, say)
    _print_means("all", [far for label in columns for far in every[label]], say)


def _print_means(label: str, off: Sequence[Sequence[float]], say: Say) -> None:
    """Print the means of some distances and of their absolute values."""
    if off:
        means = np.abs(off).mean(axis=0), np.mean(off, axis=0)
        for words, mean in zip(("mean distance", "mean with sign"), means, strict=True):
            say(f"  {label:<9}{words:<32}" + "".join(f"{100 * one:>+8.1f}" for one in mean))


def ranking(times: Mapping[str, float]) -> str:
    """Return strategies from the fastest on; those that differ by less than 0.05 % are equal."""
    order = sorted(times, key=lambda name: times[name])
    text = order[0]
    for before, name in pairwise(order):
        text += (" = " if times[name] < 1.0005 * times[before] else " < ") + name
    return text
