"""Table 2 of the DNNVM paper beside ours: nodes, times of the compiler, latency without and with fusion."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from tilewright.fusion.machine import EngineMachine
from tilewright.fusion.measures import FusionMeasures
from tilewright.papers.dnnvm.benchmarks import (
    NAMES,
    READINGS,
    USED,
    benchmark,
    machine,
    machine_of,
    nodes,
    problem,
    published,
    table_2,
    templates,
    with_templates,
)
from tilewright.papers.dnnvm.methods import Solved, solved
from tilewright.papers.figures import Say
from tilewright.spec.coarsening import stages


def print_table_2(_folder: Path, say: Say, *, time_limit: float = 60) -> None:
    """Print table 2 beside ours, the readings of the templates, and tables 3 and 4."""
    problems = {name: problem(benchmark(name), reading=None) for name in NAMES}
    readings = {
        reading: {
            name: solved(with_templates(unrestricted, templates(reading)), time_limit)
            for name, unrestricted in problems.items()
        }
        for reading in READINGS
    }
    every = {name: solved(unrestricted, time_limit) for name, unrestricted in problems.items()}
    ours = readings[USED]
    executed = {
        name: {method: row.executed(method) for method in ("layerwise", "paper", "optimum")}
        for name, row in ours.items()
    }
    _print_compiler(ours, say)
    _print_latency(executed, say)
    _print_speedups(ours, every, say)
    count = sum(row.proven for rows in (*readings.values(), every) for row in rows.values())
    say(f"  {count} of {len(NAMES) * (len(readings) + 1)} optima are proven")
    _print_intensity(executed, say)
    zu2 = machine()
    capacities = {"  in one buffer": zu2.parameter_bytes, "  on chip": zu2.buffer_bytes}
    strict = {
        words: {name: solved(ours[name].problem, time_limit, capacity) for name in NAMES}
        for words, capacity in capacities.items()
    }
    _print_readings(readings, strict, say)
    _print_normalised(time_limit, say)
    print_table_4(time_limit, say)
    print_table_3({name: row["paper"].gops_per_second for name, row in executed.items()}, time_limit, say)


def _print_compiler(ours: Mapping[str, Solved], say: Say) -> None:
    """Print the nodes of each network, and how long the stages of the compiler take."""
    say("Table 2: nodes, and milliseconds of the compiler (paper | ours)")
    say(f"  {'network':<10}{'nodes':^11}{'graph':^18}{'isomorphism':^20}{'path search':^17}{'exact':>6}")
    for name, row in table_2().items():
        network, seconds = ours[name].problem.network, ours[name].seconds
        begin = time.perf_counter()
        stages(network)
        graph = time.perf_counter() - begin
        say(
            f"  {NAMES[name]:<10}{row['nodes']:>4} | {nodes(network):<4}"
            f"{row['graph_ms']:>7.3f} | {1e3 * graph:<8.3f}"
            f"{row['isomorphism_ms']:>8.3f} | {1e3 * seconds['matches']:<9.3f}"
            f"{row['search_ms']:>7.3f} | {1e3 * seconds['paper']:<7.3f}{1e3 * seconds['optimum']:>6.1f}"
        )
    say("  path search: algorithm 2 and the exact search, with all costs known")


def _print_latency(executed: Mapping[str, Mapping[str, FusionMeasures]], say: Say) -> None:
    """Print how long the networks take, without fusion and with the paper's."""
    say("Table 2: executed on the ZU2, ms and GOPs/s (paper | ours); nothing is fitted on what is fused")
    say(f"  {'network':<10}{'without fusion':^43}{'fused by algorithm 2':^43}".rstrip())
    for name, row in table_2().items():
        line = f"  {NAMES[name]:<10}"
        for column, method in (("baseline", "layerwise"), ("fused", "paper")):
            measures, theirs = executed[name][method], row[f"{column}_ms"]
            milliseconds = measures.duration_ms
            line += f"{theirs:>8.3f} | {milliseconds:>8.3f} {milliseconds / theirs - 1:>+6.1%} "
            line += f"{row[f'{column}_gops']:>6.1f} | {measures.gops_per_second:>5.1f}   "
        say(line.rstrip())


def _print_speedups(ours: Mapping[str, Solved], every: Mapping[str, Solved], say: Say) -> None:
    """Print what fusion gains, with the paper's templates and with all bundled ones."""
    say("Speed-up by fusion")
    say(
        f"  {'network':<10}{'paper':>7}{'algorithm 2':>13}{'greedy':>9}{'optimum':>9}"
        f"{'all templates: algorithm 2, greedy, optimum':>47}"
    )
    for name, row in table_2().items():
        say(
            f"  {NAMES[name]:<10}{row['speedup']:>7.2f}{ours[name].speedup('paper'):>13.3f}"
            f"{ours[name].speedup('greedy'):>9.3f}{ours[name].speedup('optimum'):>9.3f}"
            f"{every[name].speedup('paper'):>29.3f}{every[name].speedup('greedy'):>9.3f}"
            f"{every[name].speedup('optimum'):>9.3f}"
        )


def _print_intensity(executed: Mapping[str, Mapping[str, FusionMeasures]], say: Say) -> None:
    """Print how many operations there are for each byte moved."""
    say("Operations per byte (CTC, equations 9 and 10): without fusion, algorithm 2, optimum")
    for name, measured in executed.items():
        ctc = "".join(f"{of.ops_per_byte:>8.1f}" for of in measured.values())
        say(f"  {NAMES[name]:<10}{ctc}")


def _print_normalised(time_limit: float, say: Say) -> None:
    """Print what GoogLeNet would take with the layers that the paper leaves out."""
    network = benchmark("googlenet", normalised=True)
    milliseconds = solved(problem(network), time_limit).milliseconds("layerwise")
    off = milliseconds / table_2()["googlenet"]["baseline_ms"] - 1
    say(f"GoogLeNet with its two normalisations: {milliseconds:.3f} ms without fusion, {off:+.1%}")


def _print_readings(
    readings: Mapping[str, Mapping[str, Solved]], strict: Mapping[str, Mapping[str, Solved]], say: Say
) -> None:
    """Print what follows from each reading, and how far fused times are off.

    Parameters
    ----------
    strict
        The one that is used, if the parameters of what is on chip as a whole must be there as well.
    """
    paper = table_2()
    say("Speed-up by what may be fused: algorithm 2 / optimum; fused times' distances from the paper's")
    words = "".join(f"{NAMES[name]:^15}" for name in NAMES)
    say(f"  {'':<16}{words}{'mean, worst':^21}")
    say(f"  {'paper':<16}" + "".join(f"{row['speedup']:^15.2f}" for row in paper.values()).rstrip())
    every = [
        pair
        for reading, rows in readings.items()
        for pair in ((reading, rows), *(strict.items() if reading == USED else ()))
    ]
    for reading, rows in every:
        line = f"  {reading:<16}"
        for one in rows.values():
            line += f"{one.speedup('paper'):>7.3f}/{one.speedup('optimum'):<7.3f}"
        for method in ("paper", "optimum"):
            off = distances(rows, method)
            line += f"  {np.mean(off):.1%}, {max(off):.1%}"
        say(line + (" <- used" if reading == USED else ""))
    say("  indented: only groups whose parameters, too, are on chip as a whole")


def distances(rows: Mapping[str, Solved], method: str) -> list[float]:
    """Return how far fused times are from the paper's, relative to those."""
    paper = table_2()
    return [abs(one.milliseconds(method) / paper[name]["fused_ms"] - 1) for name, one in rows.items()]


COLUMNS = {
    "table_4": "ZU9, three images at 330 MHz; the bandwidth is set by hand so that ResNet50 comes near",
    "table_4_batch_1": "ZU9, one image at 500 MHz, on one of the three arrays; nothing is set on these",
    "table_4_z7020": "XC7Z020, the ZU2 at 200 MHz with 0.5 MB; nothing is set on these",
}
"""Columns of table 4 with the paper's own accelerator that are not in table 2, and what they are."""


def print_table_4(time_limit: float, say: Say) -> None:
    """Print table 4's columns with the paper's accelerator beside ours, with the distances."""
    for column, words in COLUMNS.items():
        board = machine_of(column)
        say(f"Table 4, {words}")
        say(f"  GOPs/s (paper | algorithm 2, optimum, without fusion), peak {peak_gops(board):,.0f}")
        off = []
        for name, theirs in published()[column].items():
            one = solved(problem(benchmark(name), board), time_limit)
            gops = [one.gops(method) for method in ("paper", "optimum", "layerwise")]
            off.append(abs(gops[0] / theirs - 1))
            say(
                f"  {NAMES[name]:<10}{theirs:>6,} | "
                + "".join(f"{ours:>7,.0f} {ours / theirs - 1:>+6.1%}" for ours in gops)
            )
        say(f"  distances with algorithm 2: mean {np.mean(off):.1%}, worst {max(off):.1%}")


def print_table_3(zu2: Mapping[str, float], time_limit: float, say: Say) -> None:
    """Print table 3's operations per second and watt beside ours, by the watts that the table states.

    Parameters
    ----------
    zu2
        10^9 operations per second of each network on the ZU2, by algorithm 2.
    """
    zu9 = {
        name: solved(problem(benchmark(name), machine_of("table_4")), time_limit).gops("paper")
        for name in published()["table_4"]
    }
    say("Table 3, GOPs/s/W by the paper's watts (paper, which is VGG16 | ours by algorithm 2)")
    for board, gops in (("zu2", zu2), ("zu9", zu9)):
        row = published()["table_3"][board]
        ours = ", ".join(f"{NAMES[name]} {each / row['watts']:.1f}" for name, each in gops.items())
        say(f"  {board.upper()} {row['watts']:>5} W {row['gops_per_watt']:>6} | {ours}")


def peak_gops(machine: EngineMachine) -> float:
    """Return 10^9 operations per second of all MACs, a MAC being two."""
    return 2e-3 * machine.macs_per_cycle * machine.clock_mhz
