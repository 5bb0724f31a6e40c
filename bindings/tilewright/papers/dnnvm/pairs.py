"""Figures 5 and 6 of the DNNVM paper: two pairs of operations, apart and fused, on the ZU2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from tilewright.fusion.group.best_tile import TileChoice, best_tile
from tilewright.fusion.plan import Group
from tilewright.fusion.plot import timeline
from tilewright.fusion.problem import Problem
from tilewright.papers.dnnvm.benchmarks import benchmark, problem, published
from tilewright.papers.figures import Say
from tilewright.spec.network import NamedLayer, Network, Pool


@dataclass(frozen=True)
class Case:
    """Operations one after the other, and some of them fused.

    Attributes
    ----------
    numbers
        Of all of them; the last ones are fused.
    fused
        How many.
    """

    problem: Problem
    numbers: tuple[int, ...]
    fused: int

    def _choice(self, *numbers: int) -> TileChoice:
        choice = best_tile(self.problem, numbers)
        assert choice is not None
        return choice

    @property
    def alone(self) -> list[TileChoice]:
        """Each operation alone."""
        return [self._choice(number) for number in self.numbers]

    @property
    def together(self) -> list[TileChoice]:
        """Operations that are not fused, then those that are, as one."""
        return [*self.alone[: -self.fused], self._choice(*self.numbers[-self.fused :])]

    def milliseconds(self, choices: Sequence[TileChoice]) -> float:
        """Return how long groups take."""
        return self.problem.machine.milliseconds(sum(choice.cycles for choice in choices))

    @property
    def speedup(self) -> float:
        """How much faster all of it is."""
        return self.milliseconds(self.alone) / self.milliseconds(self.together)

    @property
    def less_transfer(self) -> float:
        """Share of the bytes that need not be moved."""
        before, after = (sum(choice.traffic for choice in chosen) for chosen in (self.alone, self.together))
        return 1 - after / before

    @property
    def maps(self) -> tuple[int, int]:
        """Values of the maps that are read and written, each once, apart and fused; without parameters."""
        ops = [self.problem.ops[number] for number in self.numbers]
        alone = 0
        for op in ops:
            operands = len(op.producers) if op.spec.kind == "add" else 1
            alone += operands * prod(op.spec.input) + prod(op.spec.output)
        inside = set(self.numbers[-self.fused :])
        stay = [op for op in ops if op.number in inside and set(self.problem.consumers[op.number]) & inside]
        return alone, alone - 2 * sum(prod(op.spec.output) for op in stay)

    @property
    def giga_operations(self) -> float:
        """10^9 operations of the convolutions, a MAC being two."""
        return sum(2 * self.problem.ops[number].macs for number in self.numbers) / 1e9

    def draw(self, path: Path, title: str) -> None:
        """Draw when the engines work, apart and fused."""
        numbers = self.numbers[-self.fused :]
        names = tuple(self.problem.ops[number].name for number in numbers)
        timeline(self.problem, [Group(names, self._choice(*numbers).tile)], path, title=title)


def figure_5(kernels: int | None = None) -> Case:
    """Return the convolution and the pool of figure 5, the convolution with some number of kernels."""
    data = published()["figure_5"]
    channels, *plane = data["input"]
    kernels = kernels or data["kernels"]
    conv = NamedLayer(
        name="conv",
        input=(channels, *plane),
        kernels=kernels,
        kernel=(5, 5),
        padding=(2, 2, 2, 2),
        bias=True,
    )
    pool = Pool(kind="pool", name="pool", input=(kernels, *plane), kernel=(3, 3), padding=(1, 1, 1, 1))
    return Case(problem(Network(name="figure 5", layers=(conv, pool))), (0, 1), 2)


def figure_6() -> Case:
    """Return the two convolutions and the sum of ResNet50 whose maps have the sizes of figure 6."""
    of = problem(benchmark("resnet50-caffe"))
    numbers = {op.name: op.number for op in of.ops}
    names = ("res2a_branch1", "res2a_branch2c", "res2a")
    return Case(of, tuple(numbers[name] for name in names), 2)


def _beside(case: Case, theirs: Sequence[float], fused: float, say: Say) -> None:
    """Print each operation's time beside the paper's, and what all take fused."""
    for number, their, choice in zip(case.numbers, theirs, case.alone, strict=True):
        ours = case.milliseconds([choice])
        say(f"  {case.problem.ops[number].name:<16}{their:>7.3f} | {ours:.3f} ms {ours / their - 1:+.1%}")
    ours = case.milliseconds(case.together)
    say(f"  {'all, fused':<16}{fused:>7.3f} | {ours:.3f} ms {ours / fused - 1:+.1%}")


def print_figure_5(folder: Path, say: Say) -> None:
    """Print figure 5 beside ours, and where its numbers contradict each other."""
    data, case = published()["figure_5"], figure_5()
    conv, pool = data["milliseconds"]
    say("Figure 5: a 5 x 5 convolution and a 3 x 3 pool, ZU2 (paper | ours)")
    _beside(case, data["milliseconds"], (conv + pool) / data["speedup"], say)
    say(f"  speed-up {data['speedup']:.2f} | {case.speedup:.2f}")
    before, after = case.maps
    say(
        f"  less transfer {data['less_transfer']:.0f} % | {100 * case.less_transfer:.1f} % with parameters; "
        f"maps alone, {before:,} bytes before and {after:,} after: {100 * (1 - after / before):.1f} %"
    )
    peak = 2 * case.problem.machine.macs_per_cycle * case.problem.machine.clock_mhz / 1e3
    say(
        f"  In {conv} ms {case.giga_operations:.2f} * 10^9 operations would be "
        f"{case.giga_operations / conv * 1e3:.0f} GOPs/s; the peak is {peak:.0f}"
    )
    say(
        f"  The {data['transfer_kb']} KB are a hundredth of what the maps have, and 64 % is of these: "
        "parameters are not counted"
    )
    small = figure_5(96)
    say(
        f"  With the 96 kernels that GoogLeNet has there (inception_3b): "
        f"{small.milliseconds(small.alone[:1]):.3f} ms, {small.giga_operations:.2f} * 10^9 operations"
    )
    path = folder / "dnnvm-figure5.png"
    case.draw(path, "A 5 × 5 convolution and a 3 × 3 pool, apart and fused (DNNVM paper, figure 5)")
    say(f"written: {path}")


def print_figure_6(folder: Path, say: Say) -> None:
    """Print figure 6 beside ours."""
    data, case = published()["figure_6"], figure_6()
    times = data["milliseconds"]
    say("Figure 6: two convolutions and their sum, the sum fused with the second, ZU2 (paper | ours)")
    _beside(case, times, data["fused_ms"], say)
    apart, fused = case.milliseconds(case.alone[1:]), case.milliseconds(case.together[1:])
    say(
        f"  speed-up of all {sum(times) / data['fused_ms']:.2f} | {case.speedup:.2f}, of what is fused "
        f"{sum(times[1:]) / (data['fused_ms'] - times[0]):.2f} | {apart / fused:.2f} "
        f"(the text has {data['speedup']})"
    )
    before, after = case.maps
    say(
        f"  less transfer {data['less_transfer']} % | {100 * case.less_transfer:.1f} % with parameters, "
        f"{100 * (1 - after / before):.1f} % of maps alone"
    )
    path = folder / "dnnvm-figure6.png"
    case.draw(path, "A convolution and the sum behind it, apart and fused (DNNVM paper, figure 6)")
    say(f"written: {path}")
