"""Table 2 of the DNNVM paper: its networks, templates and numbers beside ours, and the fit of the machine."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.core import catalogue
from tilewright.fusion import Plan, choices, simulate
from tilewright.fusion.candidates import Candidate, candidates, matches
from tilewright.fusion.exact.search import optimum
from tilewright.fusion.fused_group import Structure
from tilewright.fusion.problem import CONV, EngineMachine, Problem
from tilewright.fusion.selection import ordered
from tilewright.fusion.templates import Template
from tilewright.fusion.tiles import best
from tilewright.heuristics.fusion import dnnvm, greedy
from tilewright.papers.figures import Say
from tilewright.spec.coarsening import stages
from tilewright.spec.network import OPERANDS, AnyLayer, Map, Network, Pool
from tilewright.spec.validation import validated

NAMES = {
    "vgg16-caffe": "VGG16",
    "resnet50-caffe": "ResNet50",
    "resnet152": "ResNet152",
    "googlenet": "GoogLeNet",
}
"""The networks in the order of table 2."""

READINGS = {
    "in a row": ("conv-pool", "pool-conv", "conv-add"),
    "+ side by side": ("siblings-2", "siblings-3"),
    "+ all on chip": ("block",),
    "+ conv-conv": ("conv-conv",),
    "+ pools beside": ("siblings-2-pool", "siblings-3-pool", "siblings-4-pool"),
}
"""What the paper may mean by its templates: names in templates/paper.toml, each with those before it."""

USED = "+ all on chip"
"""The reading that both conditions of section 4.3 make; table 2 is printed with it."""

METHODS = ("layerwise", "greedy", "paper", "optimum")
"""What is solved with: no fusion, greedy, the paper's algorithm 2, the exact search."""


# What is read and solved ---------------------------------------------------------------------------------


@cache
def published() -> dict[str, Any]:
    """Return the paper's results."""
    return catalogue.shared("published", "dnnvm")


def table_2() -> dict[str, dict[str, Any]]:
    """Return the rows of table 2."""
    return {row["network"]: row for row in published()["table_2"]}


def machine(name: str = "dnnvm-zu2") -> EngineMachine:
    """Return one of the paper's machines."""
    return validated(EngineMachine, catalogue.shared("machines", name))


def bundled(name: str) -> Network:
    """Return a bundled network."""
    return validated(Network, catalogue.shared("networks", name))


def benchmark(name: str, *, normalised: bool = False) -> Network:
    """Return the part of a network that the paper's accelerator does.

    It ends before the first average pool or fully connected layer. The 137 nodes of GoogLeNet have no place
    for its two normalisations over channels.

    Parameters
    ----------
    normalised
        Keep them all the same.
    """
    network = bundled(name)
    layers: list[AnyLayer] = []
    instead: dict[str, str] = {}
    for layer in network.layers:
        if layer.kind == "fc" or (isinstance(layer, Pool) and layer.op == "average"):
            break
        if isinstance(layer, Map) and layer.op == "lrn" and not normalised:
            instead[layer.name] = layers[-1].name
            continue
        inputs = layer.inputs and tuple(instead.get(each, each) for each in layer.inputs)
        layers.append(layer.model_copy(update={"inputs": inputs}))
    return Network(name=network.name, source=network.source, layers=tuple(layers))


def nodes(network: Network) -> int:
    """Return the nodes of the graph with the input, before activations are fused."""
    return len(stages(network)[1].graph)


@cache
def templates(reading: str = USED) -> tuple[Template, ...]:
    """Return the templates of a reading."""
    names = list(READINGS)
    wanted = {one for name in names[: names.index(reading) + 1] for one in READINGS[name]}
    known = (Template.model_validate(one) for one in catalogue.shared("templates", "paper")["templates"])
    return tuple(one for one in known if one.name in wanted)


def problem(network: Network, zu: EngineMachine | None = None, reading: str | None = USED) -> Problem:
    """Return the problem of a network on a machine, with the paper's templates or with all bundled ones."""
    found = Problem(network=network, machine=zu or machine())
    return found if reading is None else with_templates(found, templates(reading))


def with_templates(problem: Problem, templates: Sequence[Template]) -> Problem:
    """Return a problem with other templates; some may match nothing, and tiles that are known stay so."""
    known = problem.choices
    other = problem.model_copy(update={"templates": tuple(templates)})
    other.__dict__.pop("allowed", None)
    assert other.choices is known
    return other


@dataclass(frozen=True)
class Solved:
    """What the methods make of a problem.

    Attributes
    ----------
    chosen
        By method, the groups.
    proven
        Whether the exact search ended.
    seconds
        Of `matches`, `candidates`, and the search of each method.
    """

    problem: Problem
    chosen: Mapping[str, Sequence[Candidate]]
    proven: bool
    seconds: Mapping[str, float]

    def milliseconds(self, method: str) -> float:
        """Return how long the groups of a method take."""
        return self.problem.machine.milliseconds(sum(one.cost for one in self.chosen[method]))

    def speedup(self, method: str) -> float:
        """Return how much faster they are than without fusion."""
        return self.milliseconds("layerwise") / self.milliseconds(method)

    def gops(self, method: str) -> float:
        """Return 10^9 operations per second, a MAC being two."""
        operations = 2 * self.problem.machine.arrays * sum(op.macs for op in self.problem.ops)
        return operations / self.milliseconds(method) / 1e6

    def megabytes(self, method: str) -> float:
        """Return what they move from and to DRAM."""
        return sum(choice.traffic for choice in choices(self.problem, self.plan(method))) / 1e6

    def plan(self, method: str) -> Plan:
        """Return the groups in an order of execution."""
        return ordered(self.problem, self.chosen[method])

    def executed(self, method: str) -> dict[str, Any]:
        """Return what the simulator measures; its cycles are those that the method counted on."""
        report = simulate(self.problem, self.plan(method))
        assert report.valid, report.violation
        assert report.facts["milliseconds"] == self.milliseconds(method)
        return report.facts


def solved(problem: Problem, time_limit: float = 60, room: int | None = None) -> Solved:
    """Solve a problem with all methods.

    Parameters
    ----------
    room
        Most bytes of parameters in a group that is on chip as a whole; none when left out, as parameters can
        pass through their buffer.
    """
    seconds: dict[str, float] = {}
    chosen: dict[str, Sequence[Candidate]] = {}

    def timed(name: str, begin: float) -> float:
        seconds[name] = time.perf_counter() - begin
        return time.perf_counter()

    now = time.perf_counter()
    matches(problem)
    now = timed("matches", now)
    known = [
        one
        for one in candidates(problem)
        if room is None or one.template != "block" or _parameters(problem, one) <= room
    ]
    producers = [op.producers for op in problem.ops]
    joins = {
        op.number
        for op in problem.ops
        if op.spec.kind in (*OPERANDS, "concat") and len(set(op.producers)) > 1
    }
    now = timed("candidates", now)
    chosen["layerwise"] = [one for one in known if len(one.nodes) == 1]
    now = timed("layerwise", now)
    chosen["greedy"] = greedy.choose(producers, known)
    now = timed("greedy", now)
    chosen["paper"] = dnnvm.choose(producers, joins, known)
    now = timed("paper", now)
    found = optimum(producers, known, chosen["greedy"], time.monotonic() + time_limit)
    chosen["optimum"] = found.chosen
    timed("optimum", now)
    return Solved(problem, chosen, found.proven, seconds)


def _parameters(problem: Problem, group: Candidate) -> int:
    """Return the bytes of a group's parameters."""
    structure = Structure(problem, group.nodes)
    values = (
        structure.features[place].shape[0] * structure.parameters(place, (0, structure.summed(place)))
        for place in structure.members
    )
    return sum(values) * problem.machine.element_bytes


# Table 2 -------------------------------------------------------------------------------------------------


def print_table_2(_folder: Path, say: Say, *, time_limit: float = 60) -> None:
    """Print table 2 beside ours, the readings of the templates, and what follows for the ZU9."""
    paper = table_2()
    problems = {name: problem(benchmark(name), reading=None) for name in NAMES}
    readings = {
        reading: {
            name: solved(with_templates(one, templates(reading)), time_limit)
            for name, one in problems.items()
        }
        for reading in READINGS
    }
    every = {name: solved(one, time_limit) for name, one in problems.items()}
    ours = readings[USED]
    facts = {
        name: {method: one.executed(method) for method in ("layerwise", "paper", "optimum")}
        for name, one in ours.items()
    }
    say("Table 2: nodes, and milliseconds of the compiler (paper | ours)")
    say(f"  {'network':<10}{'nodes':^11}{'graph':^18}{'isomorphism':^20}{'path search':^17}{'exact':>6}")
    for name, row in paper.items():
        begin = time.perf_counter()
        stages(problems[name].network)
        graph = time.perf_counter() - begin
        seconds = ours[name].seconds
        say(
            f"  {NAMES[name]:<10}{row['nodes']:>4} | {nodes(problems[name].network):<4}"
            f"{row['graph_ms']:>7.3f} | {1e3 * graph:<8.3f}"
            f"{row['isomorphism_ms']:>8.3f} | {1e3 * seconds['matches']:<9.3f}"
            f"{row['search_ms']:>7.3f} | {1e3 * seconds['paper']:<7.3f}{1e3 * seconds['optimum']:>6.1f}"
        )
    say("  path search: algorithm 2 and the exact search, with all costs known")
    say("Table 2: executed on the ZU2, ms and GOPs/s (paper | ours); nothing is fitted on what is fused")
    say(f"  {'network':<10}{'without fusion':^43}{'fused by algorithm 2':^43}".rstrip())
    for name, row in paper.items():
        line = f"  {NAMES[name]:<10}"
        for column, method in (("baseline", "layerwise"), ("fused", "paper")):
            theirs, milliseconds = row[f"{column}_ms"], facts[name][method]["milliseconds"]
            line += f"{theirs:>8.3f} | {milliseconds:>8.3f} {milliseconds / theirs - 1:>+6.1%} "
            line += f"{row[f'{column}_gops']:>6.1f} | {facts[name][method]['gops']:>5.1f}   "
        say(line.rstrip())
    say("Speed-up by fusion")
    say(
        f"  {'network':<10}{'paper':>7}{'algorithm 2':>13}{'greedy':>9}{'optimum':>9}"
        f"{'all templates: algorithm 2, greedy, optimum':>47}"
    )
    for name, row in paper.items():
        say(
            f"  {NAMES[name]:<10}{row['speedup']:>7.2f}{ours[name].speedup('paper'):>13.3f}"
            f"{ours[name].speedup('greedy'):>9.3f}{ours[name].speedup('optimum'):>9.3f}"
            f"{every[name].speedup('paper'):>29.3f}{every[name].speedup('greedy'):>9.3f}"
            f"{every[name].speedup('optimum'):>9.3f}"
        )
    count = sum(one.proven for reading in (*readings.values(), every) for one in reading.values())
    say(f"  {count} of {len(NAMES) * (len(readings) + 1)} optima are proven")
    say("Operations per byte (CTC, equations 9 and 10): without fusion, algorithm 2, optimum")
    for name, measured in facts.items():
        ctc = "".join(f"{of['ctc']:>8.1f}" for of in measured.values())
        say(f"  {NAMES[name]:<10}{ctc}")
    zu2 = machine()
    rooms = {"  in one buffer": zu2.parameter_bytes, "  on chip": zu2.buffer_bytes}
    strict = {
        words: {name: solved(ours[name].problem, time_limit, room) for name in NAMES}
        for words, room in rooms.items()
    }
    _print_readings(readings, strict, say)
    network = benchmark("googlenet", normalised=True)
    milliseconds = solved(problem(network), time_limit).milliseconds("layerwise")
    off = milliseconds / paper["googlenet"]["baseline_ms"] - 1
    say(f"GoogLeNet with its two normalisations: {milliseconds:.3f} ms without fusion, {off:+.1%}")
    _print_zu9(time_limit, say)


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


def _print_zu9(time_limit: float, say: Say) -> None:
    say("Table 4, ZU9, three images: GOPs/s (paper | algorithm 2, optimum, without fusion)")
    for name, theirs in published()["table_4"].items():
        one = solved(problem(benchmark(name), machine("dnnvm-zu9")), time_limit)
        gops = [one.gops(method) for method in ("paper", "optimum", "layerwise")]
        say(
            f"  {NAMES[name]:<10}{theirs:>6,} | "
            + "".join(f"{ours:>7,.0f} {ours / theirs - 1:>+6.1%}" for ours in gops)
        )


# The fit -------------------------------------------------------------------------------------------------


BANDWIDTHS = range(1500, 2501, 100)
"""MB/s in each direction that are tried; and 50 less and more than the best of them."""

RATES = (12, 24, 48, 96, 192)
"""Operands per cycle that are tried."""


@dataclass(frozen=True)
class Fit:
    """A machine whose issue of a group is fitted.

    Attributes
    ----------
    issue
        Cycles, by least squares of the distances of table 2's baselines, relative to those.
    distances
        Of the four networks.
    """

    bandwidth: int
    rate: int
    issue: int
    distances: tuple[float, ...]

    @property
    def rms(self) -> float:
        """Root of the mean square of the distances."""
        return float(np.sqrt(np.mean(np.square(self.distances))))


class Baselines:
    """How long the networks of table 2 take without fusion, on machines that issue groups in no time."""

    def __init__(self) -> None:
        self.zu2 = machine().model_copy(update={"issue_cycles": 0})
        self.theirs = np.array([row["baseline_ms"] for row in table_2().values()])
        problems = [problem(benchmark(name)) for name in NAMES]
        self.groups = np.array([len(one.ops) for one in problems])
        self._layers: dict[object, tuple[Problem, int]] = {}
        self._counts: dict[object, list[int]] = {}
        for place, one in enumerate(problems):
            for op in one.ops:
                key = Structure(one, (op.number,)).key
                self._layers.setdefault(key, (one, op.number))
                self._counts.setdefault(key, [0] * len(problems))[place] += 1
        self._cycles: dict[tuple[object, ...], int] = {}

    def _layer(self, key: object, bandwidth: int, rate: int) -> int:
        """Return the cycles of a layer; a convolution's do not depend on the rate of other engines."""
        problem, number = self._layers[key]
        known = (key, bandwidth, None if problem.ops[number].engine == CONV else rate)
        if known not in self._cycles:
            rates = {"load_mb_per_s": bandwidth, "save_mb_per_s": bandwidth, "operands_per_cycle": rate}
            other = problem.model_copy(update={"machine": self.zu2.model_copy(update=rates)})
            other.__dict__.pop("choices", None)
            choice = best(other, (number,))
            assert choice is not None
            self._cycles[known] = choice.cycles
        return self._cycles[known]

    def milliseconds(self, bandwidth: int, rate: int, issue: int) -> NDArray[np.float64]:
        """Return the networks' times."""
        layers = [self._layer(key, bandwidth, rate) for key in self._counts]
        cycles = np.array(layers) @ np.array([*self._counts.values()]) + self.groups * issue
        times: NDArray[np.float64] = cycles / (self.zu2.clock_mhz * 1e3)
        return times

    def fit(self, bandwidth: int, rate: int, issue: int | None = None) -> Fit:
        """Fit the issue of a group, to which all else is added, or take one that is given."""
        if issue is None:
            alone = self.milliseconds(bandwidth, rate, 0)
            each = self.groups / (self.zu2.clock_mhz * 1e3) / self.theirs
            issue = max(0, round(float((1 - alone / self.theirs) @ each / (each @ each))))
        distances = self.milliseconds(bandwidth, rate, issue) / self.theirs - 1
        return Fit(bandwidth, rate, issue, tuple(map(float, distances)))


def print_fit(say: Say) -> None:
    """Fit the machine on table 2's baselines: a grid over two parameters, the third in closed form."""
    baselines, zu2 = Baselines(), machine()
    say("Baselines of table 2: root mean square distance in %, and in brackets the issue of a group, cycles,")
    say("that makes it least; by MB/s in each direction and operands per cycle")
    say(f"  {'MB/s':>6}" + "".join(f"{rate:>16}" for rate in RATES))
    found: list[Fit] = []

    def row(bandwidth: int) -> None:
        fits = [baselines.fit(bandwidth, rate) for rate in RATES]
        found.extend(fits)
        say(f"  {bandwidth:>6}" + "".join(f"{100 * fit.rms:>7.2f} ({fit.issue:>6})" for fit in fits))

    for bandwidth in BANDWIDTHS:
        row(bandwidth)
    least = min(found, key=lambda fit: fit.rms)
    for bandwidth in (least.bandwidth - 50, least.bandwidth + 50):
        row(bandwidth)
    least = min(found, key=lambda fit: fit.rms)
    taken = baselines.fit(zu2.load_mb_per_s, zu2.operands_per_cycle, zu2.issue_cycles)
    for words, fit in (("least", least), ("taken", taken)):
        off = ", ".join(
            f"{NAMES[name]} {100 * far:+.1f}" for name, far in zip(NAMES, fit.distances, strict=True)
        )
        say(
            f"{words}: {fit.bandwidth} MB/s, {fit.issue} cycles, {fit.rate} operands per cycle: "
            f"{100 * fit.rms:.2f} % ({off})"
        )
    near = [fit for fit in found if fit.rms <= least.rms + 0.003]
    for words, values in (
        ("MB/s", [fit.bandwidth for fit in near]),
        ("cycles", [fit.issue for fit in near]),
        ("operands per cycle", [fit.rate for fit in near]),
    ):
        say(f"  within 0.3 points of the least: {min(values)} to {max(values)} {words}")
