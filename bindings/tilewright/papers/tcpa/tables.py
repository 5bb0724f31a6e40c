"""The TCPA paper's figures and table: its numbers, its equations evaluated, and what is executed and proven.

"By its equations" is the paper's calculus. "Executed" is what the simulator measures, each layer row by row
unless it says otherwise. Optima are proven over the shares that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewright import plotting
from tilewright.allocation import PACINGS, Plan, simulate
from tilewright.allocation import published as equations
from tilewright.allocation.exact.search import exhaustive
from tilewright.allocation.problem import AllocationLimits, AllocationObjective, Problem, Stage
from tilewright.allocation.schedule import Schedule, schedule
from tilewright.allocation.splits import Share, paper_share
from tilewright.core import catalogue
from tilewright.papers.figures import Part, Say, make_parts
from tilewright.plotting import BLUE, GREEN, INK, ORANGE, PALE, VERMILION
from tilewright.run.instance import read

if TYPE_CHECKING:
    from matplotlib.axes import Axes


FIGURES = {
    "tcpa": "all of the paper on layer-parallel CNNs on processor arrays: the parts below",
    "tcpa-figure7": "figure 7: pace, start and latency of every layer, and when it starts if executed",
    "tcpa-table1": "table 1: layer by layer and layer-parallel; executed, and the exact optima",
    "tcpa-storage": "section 5.3 and figure 4: storage of every layer, and what an execution holds",
    "tcpa-section7": "section 7: the fewest PEs for 100 frames per second",
    "tcpa-pes": "what the paper did not look at: the best plans of 5 to 24 PEs, with other splits, too",
}
"""What `reproduce` makes."""

SCANS = {"rows": "row by row", "fields": "by receptive fields"}
"""Names of the orders in which a layer's pixels are computed."""

SPLITS = {False: "filters over PEs, maps over units", True: "filters or maps over both"}
"""Names of the shares that optima are proven over: those of the paper, and more."""

SPREAD = "layer-by-layer (2)"
"""The column of table 1 that follows only if no PE and no functional unit is left without work."""


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Print and draw one of `FIGURES`; everything together takes seconds."""
    parts: dict[str, Part] = {
        "tcpa-figure7": _print_figure_7,
        "tcpa-table1": _print_table_1,
        "tcpa-storage": _print_storage,
        "tcpa-section7": _print_section_7,
        "tcpa-pes": _print_pes,
    }
    make_parts(figure, "tcpa", parts, folder, say)


# What is read, executed and proven -----------------------------------------------------------------------


@cache
def published() -> dict[str, Any]:
    """Return the paper's results."""
    return catalogue.shared("published", "tcpa")


def bundled(name: str) -> Problem:
    """Return a bundled problem."""
    found: Problem = read(catalogue.instance("allocation", name)).problem
    return found


def problem(
    array: Sequence[int] = (4, 4), minimise: str = "interval", *, split: bool = False, **limits: Any
) -> Problem:
    """Return the paper's network on an array.

    Parameters
    ----------
    split
        Allow more shares than the paper: maps over PEs, filters over functional units.
    **limits
        Others of the problem's limits.
    """
    given = bundled("mnist-tcpa")
    if split:
        limits |= {"splits": ("filters", "maps"), "functional_units": "any"}
    return Problem(
        network=given.network,
        machine=given.machine.model_copy(update={"array": tuple(array)}),
        objective=AllocationObjective.model_validate({"minimise": minimise}),
        limits=AllocationLimits.model_validate(limits),
    )


@dataclass(frozen=True)
class Case:
    """A plan, and what follows from it."""

    problem: Problem
    plan: Plan

    @classmethod
    def of(cls, problem: Problem, shares: Iterable[Share], pacing: str = PACINGS[0]) -> Case:
        """Return the plan with these shares."""
        return cls(problem, Plan(tuple(stage.name for stage in problem.stages), tuple(shares), pacing))

    @property
    def shares(self) -> str:
        """Parts of each layer's filters, x those of its maps; ``*`` for filters over functional units."""
        return " ".join(
            f"{share.filters}{f'x{share.maps}' if share.maps > 1 else ''}{'*' * (share.unit_filters > 1)}"
            for share in self.plan.shares
        )

    @property
    def calculus(self) -> equations.Calculus:
        """What the paper's equations make of it."""
        evaluate = equations.layer_parallel if self.problem.parallel else equations.layer_by_layer
        return evaluate(self.problem, self.plan.shares)

    @cached_property
    def times(self) -> Schedule:
        """Its schedule."""
        return schedule(self.problem, self.plan)

    @cached_property
    def facts(self) -> dict[str, Any]:
        """What the simulator measures."""
        report = simulate(self.problem, self.plan, overlapped=False)
        assert report.valid, report.violation
        return report.facts


def optimum(problem: Problem) -> tuple[Plan, ...]:
    """Return the best plan, or every plan of a front, proven by the exact search."""
    found = exhaustive(problem)
    assert found is not None and found.proven
    return found.plans


@cache
def best_by_pes(split: bool) -> dict[int, Case]:
    """Return the best plan of so many PEs, from one for each layer to those of the bundled trade-off.

    It has the most frames per second, of such plans the lowest latency, of such the fewest PEs.
    """
    of = problem(bundled("mnist-tcpa-pareto").machine.array, "pareto", split=split)
    points = [schedule(of, one) for one in optimum(of)]
    found = {}
    for pes in range(len(of.stages), of.machine.pes + 1):
        times = min(
            (times for times in points if times.plan.pes <= pes),
            key=lambda times: (times.interval, times.latency, times.plan.pes),
        )
        found[pes] = Case(problem((1, pes), split=split), times.plan)
    return found


def _beside(theirs: float | None, ours: float, width: int, digits: int = 0) -> str:
    """Print a published number, ours, and "=" or how much larger ours is.

    Parameters
    ----------
    digits
        Decimals of ours where nothing is published.
    """
    if theirs is None:
        return f"{'-':>{width}} | {ours:>{width},.{digits}f}  "
    digits = len(str(theirs).partition(".")[2])
    mark = "=" if round(ours, digits) == theirs else f"{ours - theirs:+,.{digits}f}"
    return f"{theirs:>{width},.{digits}f} | {ours:>{width},.{digits}f} {mark}"


def _listed(numbers: Iterable[int]) -> str:
    return ", ".join(f"{number:,}" for number in numbers)


# Figure 7 ------------------------------------------------------------------------------------------------


def figure_7(scan: str = "rows", pacing: str = PACINGS[0]) -> Case:
    """Return the paper's plan for 4 x 4 PEs."""
    of = problem(scan=scan)
    return Case.of(of, (paper_share(of, row["pes"]) for row in published()["figure_7"]["layers"]), pacing)


def _print_figure_7(_folder: Path, say: Say) -> None:
    data, case = published()["figure_7"], figure_7()
    found, stages = case.calculus, case.problem.stages
    say("Figure 7: layer-parallel on 4 x 4 PEs, cycles (paper | by its equations, 6 to 13)")
    titles = (("z_out alone", 5), ("z_in", 5), ("z_out", 5), ("Z_i", 5), ("t_i", 5), ("L_i", 6))
    header = "".join(f"  {title:^{2 * width + 5}}" for title, width in titles)
    say(f"  {'layer':<6}{'PEs':>3}{header}".rstrip())
    for row, stage, share, *ours in zip(
        data["layers"], stages, case.plan.shares,
        found.z_in, found.z_out, found.intervals, found.starts, found.latencies, strict=True,
    ):  # fmt: skip
        theirs = [row.get(key) for key in ("alone", "z_in", "z_out", "interval", "start", "latency")]
        numbers = (share.cycles(stage.task), *ours)
        cells = [
            _beside(their, our, width) for their, our, (_, width) in zip(theirs, numbers, titles, strict=True)
        ]
        say(f"  {stage.name:<6}{share.pes:>3}" + "".join(f"  {cell}" for cell in cells))
    say(f"  latency L {_beside(data['latency'], found.latency, 6)}")
    say("Executed: no layer starts so early that a pixel is missing when it is needed. The paper starts it")
    say("with F_i = min(K^2, S^2) pixels of the layer before; shown are the pixels that decide")
    cases = {scan: figure_7(scan) for scan in SCANS}
    say(f"  {'':<6}{'paper':>15}" + "".join(f"{words:>27}" for words in SCANS.values()))
    say(f"  {'layer':<6}{'t_i':>8}{'pixels':>7}" + f"{'start':>10}{'later':>8}{'pixels':>9}" * len(SCANS))
    for stage, start in zip(stages, found.starts, strict=True):
        line = f"  {stage.name:<6}{start:>8,}{equations.fresh_pixels(stage) if stage.number else '-':>7}"
        for one in cases.values():
            measured = one.facts["stages"][stage.number]["start"]
            line += f"{measured:>10,}{measured - start:>+8,}{_decisive(one.times, stage):>9}"
        say(line)
    line = f"  {'L':<6}{found.latency:>8,}{'':>7}"
    for one in cases.values():
        measured = one.facts["latency"]
        line += f"{measured:>10,}{measured - found.latency:>+8,}{measured / found.latency - 1:>+9.1%}"
    say(line)
    say("  a - b: a pixels are needed when the layer has computed b of its own")
    rates = " and ".join(f"{one.facts['frames_per_second']:,.1f}" for one in cases.values())
    by_equation = case.problem.machine.frames_per_second(found.interval)
    say(f"  frames/s: by equation 13 {by_equation:,.1f}, executed {rates}")


def _decisive(times: Schedule, stage: Stage) -> str:
    """Return how many pixels of the layer before decide when a layer of a chain starts."""
    producer = stage.producers[0]
    if producer < 0:
        return "-"
    lead = times.scan.lead(producer, stage.number)
    waits = lead.ahead * times.paces[producer] - lead.done * times.paces[stage.number]
    ahead, done = int(lead.ahead[waits.argmax()]), int(lead.done[waits.argmax()])
    return f"{ahead} - {done}" if done else f"{ahead}"


# Table 1 -------------------------------------------------------------------------------------------------


def table_1() -> dict[str, tuple[Mapping[str, Any], Case]]:
    """Return what is published of each column of table 1, and its plan."""
    found = {}
    for row in published()["table_1"]:
        title = row["column"]
        of = problem(row["array"], split=True, execution=title.rpartition(" ")[0])
        share = spread if title == SPREAD else lambda of, _stage, pes: paper_share(of, pes)
        found[title] = row, Case.of(of, map(share, [of] * len(of.stages), of.stages, row["pes"]))
    return found


def spread(problem: Problem, stage: Stage, pes: int) -> Share:
    """Return a share with filters over PEs and maps over functional units where a layer has several.

    Of one filter all maps are divided, of one map all filters.
    """
    units = problem.machine.functional_units
    filters, maps = (pes, 1) if stage.task.filters > 1 else (1, pes)
    if stage.task.maps > 1:
        return Share(filters, maps, unit_maps=units)
    return Share(filters, maps, unit_filters=units)


def best(title: str, *, split: bool) -> Case:
    """Return the best plan for a column of table 1; layer by layer (1) with the paper's PEs."""
    row, case = table_1()[title]
    of = case.problem
    if of.parallel:
        return best_by_pes(split)[of.machine.pes]
    given = {} if title == SPREAD else dict(zip(case.plan.names, row["pes"], strict=True))
    of = problem(row["array"], "latency", split=split, execution="layer-by-layer", pes=given)
    return Case(of, *optimum(of))


def _print_table_1(_folder: Path, say: Say) -> None:
    columns = table_1()
    say("Table 1 (paper | by its equations), and executed: cycles and frames/s")
    say(f"  {'':<19}{'L':^23}{'T':^23}{'executed':>18}   shares of the layers")
    for title, (row, case) in columns.items():
        rate = case.problem.machine.frames_per_second(case.calculus.interval)
        say(
            f"  {title:<19}{_beside(row['latency'], case.calculus.latency, 8)}  "
            f"{_beside(row['frames_per_second'], rate, 8)}  "
            f"{case.facts['latency']:>8,}{case.facts['frames_per_second']:>9,.1f}   {case.shares}"
        )
    say("  a x b: parts of the filters x parts of the maps; *: filters over functional units")
    row, case = columns[SPREAD]
    plain = equations.layer_by_layer(case.problem, [paper_share(case.problem, pes) for pes in row["pes"]])
    say(
        f"  {SPREAD}: equation 4 with filters over PEs and maps over units has {_listed(plain.z_out)} "
        f"cycles for a position, {plain.latency:,} in all."
    )
    say(
        f"  What is published follows from {_listed(case.calculus.z_out)}: pools divide their maps over PEs, "
        "too, and Conv0, with one map, its filters over units"
    )
    say("Best plans, proven: most frames/s, then the lowest latency, executed; layer-by-layer (1): same PEs")
    for split, words in SPLITS.items():
        say(f"  {words}")
        for title in columns:
            case = best(title, split=split)
            numbers = f"{case.facts['latency']:>8,}{case.facts['frames_per_second']:>9,.1f}"
            say(f"    {title:<19}{numbers}   {case.shares}")


# Storage -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Storage:
    """Words that each layer stores with the plan of figure 7.

    Attributes
    ----------
    weights, input, output
        Layer by layer (14).
    lines
        What is stored of the input, layer-parallel (16, 17).
    corner
        The same by the form with which the example begins.
    held
        By scan and pacing, what the buffer before a layer holds when executed.
    """

    names: tuple[str, ...]
    weights: tuple[int, ...]
    input: tuple[int, ...]
    output: tuple[int, ...]
    lines: tuple[int, ...]
    corner: tuple[int, ...]
    held: Mapping[tuple[str, str], tuple[int, ...]]


def storage() -> Storage:
    """Return the storage of every layer."""
    of = problem()
    weights, given, output = zip(*equations.storage_by_turn(of), strict=True)
    return Storage(
        tuple(stage.name for stage in of.stages),
        weights,
        given,
        output,
        equations.intermediate_storage(of),
        equations.intermediate_storage(of, with_corner=True),
        {key: _held(figure_7(*key)) for key in product(SCANS, PACINGS)},
    )


def _held(case: Case) -> tuple[int, ...]:
    """Return what the buffers hold of each layer's input; that of a chain is the output before."""
    held = [stage["held"] for stage in case.facts["stages"]]
    producers = (stage.producers[0] for stage in case.problem.stages)
    return tuple(0 if producer < 0 else held[producer] for producer in producers)


def _print_storage(folder: Path, say: Say) -> None:
    theirs, found = published()["section_5_3"]["kilobytes"], storage()
    say("Section 5.3: intermediate storage in kB, layer-parallel (paper | (D - S) C N, equation 16), and by")
    say("((D - S) C + D S) N, with which the example begins; pools by equation 17")
    fields = equations.receptive_fields(problem())
    for name, field, line, corner in zip(found.names, fields, found.lines, found.corner, strict=True):
        if name in theirs:
            say(f"  {name:<6} D = {field:>2}   {_beside(theirs[name], line / 1000, 5)}   {corner / 1000:.3f}")
    say("Figure 4: bytes of every layer; (a) layer by layer, equation 14; (b) layer-parallel, 16 and 17;")
    say("executed: the buffer for its input when layers are matched with the slowest before them, as in the")
    say("paper, and when all have the pace of the slowest (uniform)")
    header = ("weights", "input", "output", "(a)", "(b)", *PACINGS * len(SCANS))
    widths = (9, 8, 8, 8, 8, *(12, 10) * len(SCANS))
    say(f"  {'':<47}" + "".join(f"{words:>22}" for words in SCANS.values()))
    say(f"  {'layer':<6}" + "".join(f"{title:>{w}}" for title, w in zip(header, widths, strict=True)))
    turns = tuple(map(sum, zip(found.weights, found.input, found.output, strict=True)))
    columns = (found.weights, found.input, found.output, turns, found.lines, *found.held.values())
    for name, *numbers in zip(found.names, *columns, strict=True):
        say(f"  {name:<6}" + "".join(f"{n:>{w},}" for n, w in zip(numbers, widths, strict=True)))
    weights = sum(found.weights)
    totals = [max(turns), *(weights + sum(inputs) for inputs in (found.lines, *found.held.values()))]
    say(f"  {'all':<31}" + "".join(f"{n:>{w},}" for n, w in zip(totals, widths[3:], strict=True)))
    say("  all: of (a) the most at a time, of the others all weights and inputs (15). Executed, the first")
    say(f"  layer's input is streamed and takes nothing; without it (b) has {totals[1] - found.lines[0]:,}")
    times = figure_7().times
    for producer, consumer in times.problem.edges:
        lengths = [times.beats[one] * times.paces[one] for one in (producer, consumer)]
        if lengths[0] < lengths[1]:
            fast, slow = (found.names[one] for one in (producer, consumer))
            filled, paced = (found.held["rows", pacing][consumer] for pacing in PACINGS)
            say(
                f"  {fast} computes a frame in {lengths[0]:,} cycles, {slow} in {lengths[1]:,}: "
                f"the buffer between fills to {filled:,} bytes; at the same pace {paced:,} do"
            )
    path = folder / "tcpa-figure4.png"
    figure_4(found, path)
    say(f"written: {path}")


@plotting.style()
def figure_4(found: Storage, path: Path) -> None:
    """Draw the storage of every layer: layer by layer, layer-parallel, and executed."""
    from matplotlib.patches import Patch

    executed = [[found.weights, found.held["rows", pacing]] for pacing in PACINGS]
    panels: dict[str, list[list[tuple[int, ...]]]] = {
        "(a) layer by layer, equation 14": [[found.weights, found.input, found.output]],
        "(b) layer-parallel, equations 16 and 17": [[found.weights, found.lines]],
        "executed, matched (left) and uniform (right)": executed,
    }
    parts = {"weights": ORANGE, "input": BLUE, "output": GREEN}
    width, top = 3.6, max(map(sum, zip(*panels["(a) layer by layer, equation 14"][0], strict=True)))
    figure = plotting.new_figure(0.6 + len(panels) * (width + 0.25), 3.7)
    for number, (title, bars) in enumerate(panels.items()):
        axes = plotting.add_axes(figure, 0.6 + number * (width + 0.25), 0.7, width, 2.6)
        for place, stack in enumerate(bars):
            at = np.arange(len(found.names)) + (place - (len(bars) - 1) / 2) * 0.8 / len(bars)
            bottom = np.zeros(len(at))
            for name, words in zip(parts, stack, strict=False):
                axes.bar(at, words, 0.74 / len(bars), bottom, color=parts[name], linewidth=0)
                bottom += words
            for x, y in zip(at, bottom, strict=True):
                axes.text(x, y + 0.01 * top, f"{y:,.0f}", ha="center", va="bottom", fontsize=6)
        axes.set_xticks(range(len(found.names)), found.names)
        axes.tick_params(axis="x", length=0)
        axes.set_ylim(0, 1.08 * top)
        axes.yaxis.set_major_formatter("{x:,.0f}")
        axes.tick_params(axis="y", labelleft=number == 0, length=0)
        axes.grid(axis="y", color=PALE, linewidth=0.6)
        axes.set_title(title)
        if number == 0:
            axes.set_ylabel("bytes")
            handles = [Patch(color=colour, label=name) for name, colour in parts.items()]
            axes.legend(handles=handles, loc="lower left", bbox_to_anchor=(0, 1.14), ncols=len(parts))
    plotting.save(figure, path)


# Section 7 -----------------------------------------------------------------------------------------------


def most_filters(problem: Problem, stage: Stage, frames_per_second: float) -> float:
    """Return W of equation 20: how many filters a PE has time for at a rate."""
    one_filter = paper_share(problem, stage.task.filters).load(stage.task)
    return problem.machine.clock_mhz * 1e6 / frames_per_second / one_filter


def _print_section_7(_folder: Path, say: Say) -> None:
    data, of = published()["section_7"], bundled("mnist-tcpa-100fps")
    rate = data["frames_per_second"]
    found = equations.fewest_pes(of, rate)
    say(f"Section 7: the fewest PEs for {rate} frames/s (paper | by its equations, 18 to 20)")
    say(f"  {'layer':<6}{'W':^17}{'PEs':^13}".rstrip())
    for stage, theirs, pes in zip(of.stages, data["pes"], found, strict=True):
        filters = _beside(data["W"].get(stage.name), most_filters(of, stage, rate), 6, 1)
        say(f"  {stage.name:<6}{filters}{_beside(theirs, pes, 4)}")
    say(f"  {'all':<23}{_beside(data['total'], sum(found), 4)}")
    case = Case(of, *optimum(of))
    reached = case.facts["frames_per_second"]
    say(f"  exact optimum: {case.plan.pes} PEs, {case.shares}; executed: {reached:,.1f} frames/s")


# Every number of PEs -------------------------------------------------------------------------------------


def _print_pes(folder: Path, say: Say) -> None:
    fronts = {split: best_by_pes(split) for split in SPLITS}
    theirs = {title: case for title, (_, case) in table_1().items() if case.problem.parallel}
    marked = {case.plan.pes for case in theirs.values()}
    names = ", ".join(fronts[False][16].plan.names)
    say("Best plans of so many PEs, proven: most frames/s, then the lowest latency, executed. L: latency by")
    say(f"the paper's equations; >: as many PEs as a plan of the paper. Shares of {names}")
    columns = f"  {'shares':<16}{'frames/s':>9}{'latency':>9}{'L':>9}  {'bottleneck':<17}"
    say(f"  {'':<5}" + "".join(f"  {words:<{len(columns) - 2}}" for words in SPLITS.values()).rstrip())
    say((f"  {'PEs':<5}" + columns * len(SPLITS)).rstrip())
    for pes in fronts[False]:
        line = f"  {'>' if pes in marked else '':<2}{pes:<3}"
        for front in fronts.values():
            case = front[pes]
            facts = case.facts
            slowest = " ".join(
                stage["name"] for stage in facts["stages"] if stage["load"] == facts["interval"]
            )
            line += f"  {case.shares:<16}{facts['frames_per_second']:>9,.1f}{facts['latency']:>9,}"
            line += f"{case.calculus.latency:>9,}  {slowest:<17}"
        say(line.rstrip())
    for title, case in theirs.items():
        _print_against(title, case, fronts, say)
    path = folder / "tcpa-pes.png"
    figure_pes(fronts, theirs, path)
    say(f"written: {path}")


def _print_against(title: str, case: Case, fronts: Mapping[bool, Mapping[int, Case]], say: Say) -> None:
    """Tell what is faster than a plan of the paper on as many PEs, and what is as fast on fewer."""
    pes, own = case.plan.pes, case.times.interval
    say(f"The paper's {title}, {case.shares}, executed latency {case.facts['latency']:,}:")
    for split, front in fronts.items():
        gain = own / front[pes].times.interval - 1
        faster = f"{front[pes].shares} has {gain:.1%} more frames/s" if gain else "none is faster"
        fewest = min(count for count, other in front.items() if other.times.interval <= own)
        enough = front[fewest]
        fewer = f"{fewest} are enough, {enough.shares}, latency {enough.facts['latency']:,}"
        if fewest == pes:
            fewer = "with fewer all are slower"
        say(f"  {SPLITS[split]}: of plans with {pes} PEs {faster}; {fewer}")


@plotting.style()
def figure_pes(fronts: Mapping[bool, Mapping[int, Case]], theirs: Mapping[str, Case], path: Path) -> None:
    """Draw frames per second and latency of the best plans over the PEs, and the paper's plans."""
    figure = plotting.new_figure(11.4, 4.0)
    rates, latencies = (plotting.add_axes(figure, left, 0.45, 4.75, 3.0) for left in (0.7, 6.35))
    for (split, front), colour in zip(fronts.items(), (BLUE, VERMILION), strict=True):
        pes = [*front, max(front) + 1]
        for axes, values, dashed in (
            (rates, [case.facts["frames_per_second"] for case in front.values()], False),
            (latencies, [case.facts["latency"] for case in front.values()], False),
            (latencies, [case.calculus.latency for case in front.values()], True),
        ):
            axes.step(
                pes,
                [*values, values[-1]],
                where="post",
                color=colour,
                linewidth=1.0 if dashed else 1.8,
                linestyle=(0, (4, 2)) if dashed else "-",
                label=SPLITS[split],
            )
    for title, case in theirs.items():
        rate = case.problem.machine.frames_per_second(case.calculus.interval)
        _mark(rates, case.plan.pes, rate, f"paper, {title}", (8, -13), "left")
        _mark(latencies, case.plan.pes, case.calculus.latency, f"paper, {title}", (-9, -13), "right")
    for axes, title in (
        (rates, "Most frames per second of so many PEs"),
        (latencies, "Their latency in cycles: executed; by the paper's equations (dashed)"),
    ):
        axes.set_title(title)
        axes.set_xlabel("PEs")
        axes.set_xticks(list(fronts[False]))
        axes.grid(color=PALE, linewidth=0.6)
    rates.set_ylim(0, None)
    rates.legend(loc="upper left")
    latencies.set_yscale("log")
    latencies.set_yticks([30_000, 50_000, 100_000, 200_000, 500_000])
    latencies.minorticks_off()
    for axes in (rates, latencies):
        axes.yaxis.set_major_formatter("{x:,.0f}")
    plotting.save(figure, path)


def _mark(axes: Axes, x: float, y: float, words: str, beside: tuple[float, float], side: str) -> None:
    axes.plot([x], [y], "D", color=INK, markersize=5, zorder=4)
    axes.annotate(
        words,
        (x, y),
        beside,
        textcoords="offset points",
        ha=side,
        fontsize=8,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},
    )
