"""What the DNNVM paper did not look at: how far its algorithm and greedy choice are from proven optima."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import networkx as nx
import numpy as np

from tilewright import plotting
from tilewright.fusion.group.best_tile import forget_tiles
from tilewright.fusion.selection.candidates import Candidate
from tilewright.importing import network
from tilewright.papers.dnnvm.benchmarks import bundled, problem
from tilewright.papers.dnnvm.methods import METHODS, Solved, solved
from tilewright.papers.figures import Say
from tilewright.plotting import BLUE, GREY, PALE
from tilewright.spec.network import Network

BUNDLED = ("vgg16", "resnet152", "googlenet")
"""Networks of ours; the others are test files of the onnx package."""


def networks() -> Iterator[Network]:
    """Return the networks that are looked at."""
    yield from map(bundled, BUNDLED)
    onnx = importlib.util.find_spec("onnx")
    assert onnx is not None and onnx.origin is not None
    folder = Path(onnx.origin).parent / "backend" / "test" / "data" / "light"
    for path in sorted(folder.glob("light_*.onnx")):
        yield network(path).model_copy(
            update={"name": path.stem.removeprefix("light_").removeprefix("bvlc_")}
        )


def print_optimum(folder: Path, say: Say, *, time_limit: float = 60) -> None:
    """Print and draw what every network takes by every method."""
    say("All bundled templates, ZU2, ms: no fusion, greedy, the paper's algorithm 2, optimum (* proven); MB")
    say("from and to DRAM, layer by layer and at the optimum; seconds: costs of all groups, exact search")
    say(
        f"  {'network':<14}{'ops':>4}{'no fusion':>11}{'greedy':>9}{'paper':>9}{'optimum':>9} "
        f"{'speed-up':>10}{'MB':>8}{'optimum':>9}{'groups':>8}{'s':>7}{'search':>8}"
    )
    solutions: dict[str, Solved] = {}
    moved: dict[str, tuple[float, float]] = {}
    for net in networks():
        name = net.name or "network"
        forget_tiles()  # so that times do not depend on the networks before
        solution = solutions[name] = solved(problem(net, reading=None), time_limit)
        moved[name] = solution.megabytes("layerwise"), solution.executed("optimum").traffic_bytes / 1e6
        times = [solution.milliseconds(method) for method in METHODS]
        say(
            f"  {name:<14}{len(solution.problem.ops):>4}{times[0]:>11.3f}{times[1]:>9.3f}{times[2]:>9.3f}"
            f"{times[3]:>9.3f}{'*' if solution.proven else ' '}{solution.speedup('optimum'):>9.3f}x"
            f"{moved[name][0]:>8.1f}{moved[name][1]:>9.1f}{len(solution.chosen['optimum']):>8}"
            f"{solution.seconds['candidates']:>7.1f}{solution.seconds['optimum']:>8.2f}"
        )
    _print_loss(solutions, say)
    path = folder / "dnnvm-optimum.png"
    draw(moved, path)
    say(f"written: {path}")


# Where the paper's algorithm loses -----------------------------------------------------------------------


class Loss(NamedTuple):
    """Operations that are grouped in two ways.

    Attributes
    ----------
    cycles
        How many more the paper's groups take.
    """

    cycles: int
    paper: Sequence[Candidate]
    optimum: Sequence[Candidate]


def losses(solution: Solved) -> list[Loss]:
    """Return the smallest sets of operations that both ways divide into groups, the largest loss first."""
    overlap = nx.Graph()
    for method in ("paper", "optimum"):
        overlap.add_edges_from(
            ((method, group), number) for group in solution.chosen[method] for number in group.nodes
        )
    losses = []
    for part in nx.connected_components(overlap):
        paper, best = (
            sorted(node[1] for node in part if isinstance(node, tuple) and node[0] == method)
            for method in ("paper", "optimum")
        )
        cycles = sum(group.cost for group in paper) - sum(group.cost for group in best)
        losses.append(Loss(cycles, paper, best))
    return sorted(losses, key=lambda loss: -loss.cycles)


def barriers(solution: Solved, group: Candidate) -> list[str]:
    """Return the barriers of the paper that a group passes, and why they are some."""
    ops, members, words = solution.problem.ops, set(group.nodes), []
    for number in group.nodes:
        readers, producers = solution.problem.consumers[number], set(ops[number].producers)
        if len(readers) > 1 and members & set(readers):
            words.append(f"{ops[number].name} is read by {len(readers)} operations")
        if len(producers & members) > 1:
            words.append(f"{ops[number].name} reads {len(producers)} operations")
    return words


def special_case(solution: Solved, group: Candidate) -> str:
    """Return by which of its cases at barriers the paper's algorithm has a group, if by one."""
    ops, members = solution.problem.ops, set(group.nodes)
    if len(members) == 1:
        return "alone"
    if not any(members & set(ops[number].producers) for number in members):
        return "siblings"
    joins = any(len(set(ops[number].producers)) > 1 for number in members)
    return "joined to a branch" if joins else "chain"


def _print_loss(solutions: Mapping[str, Solved], say: Say) -> None:
    """Say where the paper's algorithm loses most, and show the operations of which it makes least."""
    more = {
        name: solution.milliseconds("paper") / solution.milliseconds("optimum") - 1
        for name, solution in solutions.items()
    }
    name = max(more, key=more.__getitem__)
    solution = solutions[name]
    say(f"The paper's algorithm loses most on {name}: {more[name]:.1%} more cycles than the optimum")
    loss = losses(solution)[0]
    cases = dict.fromkeys(special_case(solution, group) for group in loss.paper)
    lost = [case for case in cases if case in ("siblings", "joined to a branch")] or [
        "no fusion past barriers"
    ]
    say(f"Where it loses most of that, by: {', '.join(lost)}")
    for words, groups in (("paper", loss.paper), ("optimum", loss.optimum)):
        for group in groups:
            names = " + ".join(solution.problem.ops[number].name for number in group.nodes)
            time = solution.problem.machine.milliseconds(group.cost)
            case = special_case(solution, group) if words == "paper" else group.template or "alone"
            say(f"  {words:<8}{time:>6.3f} ms  {case:<20}{names}")
    passed = [words for group in loss.optimum for words in barriers(solution, group)]
    say(f"  barriers inside the optimum's groups: {'; '.join(passed) or 'none'}")


# Drawing -------------------------------------------------------------------------------------------------


@plotting.style()
def draw(moved: Mapping[str, tuple[float, float]], path: Path) -> None:
    """Draw what each network moves from and to DRAM, before and after fusion."""
    figure = plotting.new_figure(9.4, 0.9 + 0.36 * len(moved))
    axes = plotting.add_axes(figure, 1.35, 0.5, 7.6, 0.36 * len(moved))
    at = np.arange(len(moved))
    for number, (words, colour) in enumerate((("each operation alone", GREY), ("at the optimum", BLUE))):
        values = [pair[number] for pair in moved.values()]
        axes.barh(at + 0.38 * (number - 0.5), values, 0.36, color=colour, label=words, linewidth=0)
        for y, (before, after), value in zip(at, moved.values(), values, strict=True):
            less = f"  −{1 - after / before:.0%}" if number else ""
            axes.text(value, y + 0.38 * (number - 0.5), f" {value:,.1f}{less}", va="center", fontsize=6.5)
    axes.set_yticks(at, list(moved))
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.set_xlim(0, 1.12 * max(before for before, _ in moved.values()))
    axes.grid(axis="x", color=PALE, linewidth=0.6)
    axes.set_title("MB from and to DRAM on the ZU2")
    axes.legend(loc="lower right")
    plotting.save(figure, path)
