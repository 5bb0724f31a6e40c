"""The TCPA paper's figures and table: its numbers, its equations evaluated, and what is executed and proven.

"By its equations" is the paper's calculus. "Executed" is what the simulator measures, each layer row by row
unless it says otherwise. Optima are proven over the splits that are named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tilewright.allocation import PACINGS
from tilewright.allocation.published import fresh_pixels, layer_by_layer
from tilewright.allocation.schedule import Schedule
from tilewright.allocation.splits import paper_split
from tilewright.allocation.stages import Stage
from tilewright.papers.figures import Part, Say, make_parts
from tilewright.papers.tcpa.cases import (
    SCANS,
    SPLITS,
    SPREAD,
    Case,
    best,
    best_by_pes,
    bundled,
    figure_7,
    optimum,
    problem,
    published,
    storage,
    table_1,
)
from tilewright.papers.tcpa.equations import fewest_pes, most_filters, receptive_fields
from tilewright.papers.tcpa.plots import figure_4, figure_pes

FIGURES = {
    "tcpa": "all of the paper on layer-parallel CNNs on processor arrays: the parts below",
    "tcpa-figure7": "figure 7: pace, start and latency of every layer, and when it starts if executed",
    "tcpa-table1": "table 1: layer by layer and layer-parallel; executed, and the exact optima",
    "tcpa-storage": "section 5.3 and figure 4: storage of every layer, and what an execution holds",
    "tcpa-section7": "section 7: the fewest PEs for 100 frames per second",
    "tcpa-pes": "what the paper did not look at: the best plans of 5 to 24 PEs, with other splits, too",
}
"""What `reproduce` makes."""


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


def _print_figure_7(_folder: Path, say: Say) -> None:
    data, case = published()["figure_7"], figure_7()
    found, stages = case.calculus, case.problem.stages
    say("Figure 7: layer-parallel on 4 x 4 PEs, cycles (paper | by its equations, 6 to 13)")
    titles = (("z_out alone", 5), ("z_in", 5), ("z_out", 5), ("Z_i", 5), ("t_i", 5), ("L_i", 6))
    header = "".join(f"  {title:^{2 * width + 5}}" for title, width in titles)
    say(f"  {'layer':<6}{'PEs':>3}{header}".rstrip())
    for row, stage, split, *ours in zip(
        data["layers"], stages, case.plan.splits,
        found.z_in, found.z_out, found.intervals, found.starts, found.latencies, strict=True,
    ):  # fmt: skip
        theirs = [row.get(key) for key in ("alone", "z_in", "z_out", "interval", "start", "latency")]
        numbers = (split.cycles(stage.task), *ours)
        cells = [
            _beside(their, our, width) for their, our, (_, width) in zip(theirs, numbers, titles, strict=True)
        ]
        say(f"  {stage.name:<6}{split.pes:>3}" + "".join(f"  {cell}" for cell in cells))
    say(f"  latency L {_beside(data['latency'], found.latency, 6)}")
    say("Executed: no layer starts so early that a pixel is missing when it is needed. The paper starts it")
    say("with F_i = min(K^2, S^2) pixels of the layer before; shown are the pixels that decide")
    cases = {scan: figure_7(scan) for scan in SCANS}
    say(f"  {'':<6}{'paper':>15}" + "".join(f"{words:>27}" for words in SCANS.values()))
    say(f"  {'layer':<6}{'t_i':>8}{'pixels':>7}" + f"{'start':>10}{'later':>8}{'pixels':>9}" * len(SCANS))
    for stage, start in zip(stages, found.starts, strict=True):
        line = f"  {stage.name:<6}{start:>8,}{fresh_pixels(stage) if stage.number else '-':>7}"
        for one in cases.values():
            measured = one.measures.layers[stage.name].start_cycles
            line += f"{measured:>10,}{measured - start:>+8,}{_decisive(one.times, stage):>9}"
        say(line)
    line = f"  {'L':<6}{found.latency:>8,}{'':>7}"
    for one in cases.values():
        measured = one.measures.latency_cycles
        line += f"{measured:>10,}{measured - found.latency:>+8,}{measured / found.latency - 1:>+9.1%}"
    say(line)
    say("  a - b: a pixels are needed when the layer has computed b of its own")
    rates = " and ".join(f"{one.measures.frames_per_second:,.1f}" for one in cases.values())
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


def _print_table_1(_folder: Path, say: Say) -> None:
    columns = table_1()
    say("Table 1 (paper | by its equations), and executed: cycles and frames/s")
    say(f"  {'':<19}{'L':^23}{'T':^23}{'executed':>18}   shares of the layers")
    for title, (row, case) in columns.items():
        rate = case.problem.machine.frames_per_second(case.calculus.interval)
        say(
            f"  {title:<19}{_beside(row['latency'], case.calculus.latency, 8)}  "
            f"{_beside(row['frames_per_second'], rate, 8)}  "
            f"{case.measures.latency_cycles:>8,}{case.measures.frames_per_second:>9,.1f}   {case.notation}"
        )
    say("  a x b: parts of the filters x parts of the maps; *: filters over functional units")
    row, case = columns[SPREAD]
    plain = layer_by_layer(case.problem, [paper_split(case.problem.machine, pes) for pes in row["pes"]])
    say(
        f"  {SPREAD}: equation 4 with filters over PEs and maps over units has {_listed(plain.z_out)} "
        f"cycles for a position, {plain.latency:,} in all."
    )
    say(
        f"  What is published follows from {_listed(case.calculus.z_out)}: pools divide their maps over PEs, "
        "too, and Conv0, with one map, its filters over units"
    )
    say("Best plans, proven: most frames/s, then the lowest latency, executed; layer-by-layer (1): same PEs")
    for wider, words in SPLITS.items():
        say(f"  {words}")
        for title in columns:
            case = best(title, wider=wider)
            numbers = f"{case.measures.latency_cycles:>8,}{case.measures.frames_per_second:>9,.1f}"
            say(f"    {title:<19}{numbers}   {case.notation}")


# Storage -------------------------------------------------------------------------------------------------


def _print_storage(folder: Path, say: Say) -> None:
    theirs, found = published()["section_5_3"]["kilobytes"], storage()
    say("Section 5.3: intermediate storage in kB, layer-parallel (paper | (D - S) C N, equation 16), and by")
    say("((D - S) C + D S) N, with which the example begins; pools by equation 17")
    fields = receptive_fields(problem())
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


# Section 7 -----------------------------------------------------------------------------------------------


def _print_section_7(_folder: Path, say: Say) -> None:
    data, of = published()["section_7"], bundled("mnist-tcpa-100fps")
    rate = data["frames_per_second"]
    found = fewest_pes(of, rate)
    say(f"Section 7: the fewest PEs for {rate} frames/s (paper | by its equations, 18 to 20)")
    say(f"  {'layer':<6}{'W':^17}{'PEs':^13}".rstrip())
    for stage, theirs, pes in zip(of.stages, data["pes"], found, strict=True):
        filters = _beside(data["W"].get(stage.name), most_filters(of, stage, rate), 6, 1)
        say(f"  {stage.name:<6}{filters}{_beside(theirs, pes, 4)}")
    say(f"  {'all':<23}{_beside(data['total'], sum(found), 4)}")
    case = Case(of, *optimum(of))
    reached = case.measures.frames_per_second
    say(f"  exact optimum: {case.plan.pes} PEs, {case.notation}; executed: {reached:,.1f} frames/s")


# Every number of PEs -------------------------------------------------------------------------------------


def _print_pes(folder: Path, say: Say) -> None:
    fronts = {wider: best_by_pes(wider) for wider in SPLITS}
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
            measures = case.measures
            slowest = " ".join(
                name
                for name, layer in measures.layers.items()
                if layer.load_cycles == measures.interval_cycles
            )
            line += f"  {case.notation:<16}{measures.frames_per_second:>9,.1f}{measures.latency_cycles:>9,}"
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
    say(f"The paper's {title}, {case.notation}, executed latency {case.measures.latency_cycles:,}:")
    for wider, front in fronts.items():
        gain = own / front[pes].times.interval - 1
        faster = f"{front[pes].notation} has {gain:.1%} more frames/s" if gain else "none is faster"
        fewest = min(count for count, other in front.items() if other.times.interval <= own)
        enough = front[fewest]
        fewer = f"{fewest} are enough, {enough.notation}, latency {enough.measures.latency_cycles:,}"
        if fewest == pes:
            fewer = "with fewer all are slower"
        say(f"  {SPLITS[wider]}: of plans with {pes} PEs {faster}; {fewer}")
