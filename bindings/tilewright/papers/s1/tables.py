"""The figures of the S1 paper, and the same methods on layers of real networks."""

from __future__ import annotations

import contextlib
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path

from tilewright.core import catalogue
from tilewright.core.version import __version__
from tilewright.grouping.bounds.best import compulsory
from tilewright.grouping.cost import objective, violation
from tilewright.papers.figures import Say
from tilewright.papers.s1 import plots, records, wide
from tilewright.papers.s1.rows import Row
from tilewright.run.instance import Instance, parse
from tilewright.run.methods import methods
from tilewright.run.result import Result
from tilewright.run.solve import solve
from tilewright.spec.errors import InputError, OutputError

FIGURES = {
    "s1": "all of the S1 paper: the five parts below",
    "s1-grid": "figures 12 and 13: H = W in 4..12, group size 2..10, K_min steps",
    "s1-free": "the same grid with the number of steps free",
    "s1-lenet": "figure 11: LeNet-5's first convolution, group size 1..32",
    "s1-layers": "layers of LeNet-5, ResNet-8, ResNet-18, AlexNet, VGG16 and MobileNetV2",
    "s1-wide": "the grid where pixels may stay; kernels in DRAM, GeMM and several parts",
}
"""What `reproduce` makes."""

SIZES = range(4, 13)
GROUPS = range(2, 11)
LAYERS = (
    "lenet5-conv1-g4",
    "resnet8-conv-g8",
    "resnet18-conv2-g8",
    "alexnet-conv2-g8",
    "vgg16-conv1_2-g8",
    "mobilenetv2-dw-g8",
)
LAYER_GROUPS = (4, 8, 16, 32)
WIDE_LAYERS, WIDE_GROUPS = ("lenet5-conv1-g4", "resnet8-conv-g8", "resnet18-conv2-g8"), (4, 8)
BASELINES = ("zigzag", "row_by_row")

FIRST: dict[tuple[str, int], tuple[int, int]] = {
    ("lenet5-conv1", 4): (1_838, 1_236),
    ("lenet5-conv1", 8): (1_391, 1_122),
    ("lenet5-conv1", 16): (1_118, 1_073),
    ("lenet5-conv1", 32): (1_049, 1_049),
    ("resnet8-conv", 4): (25_392, 19_648),
    ("resnet8-conv", 8): (21_376, 18_624),
    ("resnet8-conv", 16): (19_440, 18_560),
    ("resnet8-conv", 32): (18_528, 18_528),
    ("resnet18-conv2", 4): (305_936, 234_128),
    ("resnet18-conv2", 8): (256_392, 218_888),
    ("resnet18-conv2", 16): (236_037, 215_492),
    ("resnet18-conv2", 32): (221_733, 215_394),
    ("alexnet-conv2", 8): (113_085, 92_348),
    ("alexnet-conv2", 16): (95_471, 92_302),
    ("vgg16-conv1_2", 8): (4_044_288, 3_442_688),
    ("vgg16-conv1_2", 32): (3_441_440, 3_280_288),
}
"""Objective and bound of layers by the first version of this room: the better of a run with one process of
`lns` and one with two, 60 s each."""


def grid_cell(size: int, group: int, steps: str) -> Instance:
    """Return a cell of the paper's grid (section 7.1)."""
    return parse(
        {
            "room": "grouping",
            "name": f"s1-{size}x{size}-g{group}-{steps}",
            "source": "S1 paper, section 7.1",
            "layer": {"input": [1, size, size], "kernels": 1, "kernel": [3, 3]},
            "machine": {"group_size": group},
            "limits": {"steps": steps, "reloads": 2},
        }
    )


def bundled(name: str, group: int, reloads: int = 2) -> Instance:
    """Return a bundled instance with another group size and limit on loads."""
    table = tomllib.loads(catalogue.instance("grouping", name).read_text(encoding="utf-8"))
    table["machine"]["group_size"] = group
    table["limits"]["reloads"] = reloads
    table["name"] = f"{name.rsplit('-', 1)[0]}-g{group}" + ("" if reloads else "-unlimited")
    return parse(table)


def reproduce(figure: str, *, time_limit: float, folder: Path, say: Say) -> None:
    """Run one of the parts of `FIGURES`, or ``s1`` for all."""
    parts: dict[str, Callable[[float, Path, Say], None]] = {
        "s1-grid": _grid,
        "s1-free": _free,
        "s1-lenet": _lenet,
        "s1-layers": _layers,
        "s1-wide": _wide,
    }
    for name, part in parts.items():
        if figure in ("s1", name):
            part(time_limit, folder, say)


def _grid(time_limit: float, folder: Path, say: Say) -> None:
    rows = _rows(
        [((f"{h}x{h}", g), grid_cell(h, g, "kmin")) for g in GROUPS for h in SIZES], time_limit, folder, say
    )
    say("S1 paper, figures 12 and 13: 3x3 kernel, n = K_min, at most 2 loads of a pixel, loads + n")
    _print_grid(rows, say)
    _compare_records(rows, folder, say)
    say("the paper (CPLEX, 0.5 to 5 h a cell, 24 cores): gain up to 30 %, no proofs or bounds reported")
    plots.figure_12([row for row in rows if row.label[1] == 4], folder / "s1-figure12.png")
    plots.figure_13(rows, folder / "s1-figure13.png")
    say(f"written: {folder / 's1-figure12.png'}, {folder / 's1-figure13.png'}")


def _free(time_limit: float, folder: Path, say: Say) -> None:
    rows = _rows(
        [((f"{h}x{h}", g), grid_cell(h, g, "free")) for g in GROUPS for h in SIZES], time_limit, folder, say
    )
    say("the same grid with the number of steps free between K_min and K_max (the paper fixed it for speed)")
    _print_grid(rows, say)
    _compare_records(rows, folder, say)
    more = [row for row in rows if row.result.measures and row.result.measures.steps > row.problem.kmin]
    say(f"cells whose plan has more than K_min steps: {len(more)}")


def _lenet(time_limit: float, folder: Path, say: Say) -> None:
    cells = [(("LeNet-5 conv1", g), bundled("lenet5-conv1-g4", g, reloads=0)) for g in range(1, 33)]
    rows = _rows(cells, time_limit, folder, say)
    say("S1 paper, figure 11: LeNet-5's first convolution, 32x32, 5x5; loads of a pixel unlimited, as below")
    say("group size 28 both of the figure's heuristics load some pixel up to five times")
    _print_layers(rows, say)
    _compare_records(rows, folder, say)
    plots.figure_11(rows, folder / "s1-figure11.png")
    say(f"written: {folder / 's1-figure11.png'}")


def _layers(time_limit: float, folder: Path, say: Say) -> None:
    cells = [
        ((name.rsplit("-", 1)[0], group), bundled(name, group)) for name in LAYERS for group in LAYER_GROUPS
    ]
    say("layers of real networks, padding loaded like any pixel (remark 2), number of steps free")
    rows = _rows(cells, time_limit, folder, say)
    _print_layers(rows, say)
    _print_first_version(rows, say)
    _compare_records(rows, folder, say)


def _wide(time_limit: float, _folder: Path, say: Say) -> None:
    solved = wide.solver(time_limit, say)
    cells = wide.grid(SIZES, GROUPS, lambda size, group: grid_cell(size, group, "kmin"), solved)
    say("S1 paper, section 2 without its second and third assumption: the grid of section 7.1, n = K_min")
    wide.print_grid(cells, say)
    wide.layers([bundled(name, group) for name in WIDE_LAYERS for group in WIDE_GROUPS], solved, say)
    wide.forms(solved, say)
    wide.parts(solved, say)


def _rows(
    cells: Sequence[tuple[tuple[str, int], Instance]], time_limit: float, folder: Path, say: Say
) -> list[Row]:
    """Solve the cells, or take results of theirs that were found with the same time limit."""
    results = folder / f"s1-results-{time_limit:g}s"
    results.mkdir(parents=True, exist_ok=True)
    rows = []
    for number, (label, instance) in enumerate(cells, start=1):
        result = _kept(results / f"{instance.name}.json", instance)
        if result is None:
            result = solve(instance, "auto", time_limit=time_limit, on_compile=say)
            if result.interrupted:
                raise KeyboardInterrupt
            try:
                result.write(results / f"{instance.name}.json")
            except OutputError as error:  # what was found is still printed
                say(f"  {error}")
            say(
                f"  {number}/{len(cells)} {instance.name}: {result.objective}, {result.status}, "
                f"{result.seconds:.1f} s"
            )
        plans = {name: catalogue.heuristic("grouping", name).plan(instance.problem) for name in BASELINES}
        rows.append(
            Row(
                label,
                instance.problem,
                result,
                {name: objective(instance.problem, plan) for name, plan in plans.items()},
                tuple(name for name, plan in plans.items() if violation(instance.problem, plan)),
            )
        )
    return rows


def _kept(path: Path, instance: Instance) -> Result | None:
    with contextlib.suppress(InputError):
        result = Result.read(path)
        if result.instance_sha256 == instance.sha256 and result.versions.get("tilewright") == __version__:
            return result
    return None


def _print_grid(rows: Sequence[Row], say: Say) -> None:
    """Print the gains as in figure 13, then what is proven and what is not."""
    by_label = {row.label: row for row in rows}
    say("gain over the better of ZigZag and Row-by-Row in %; * proven optimal, (gap to the bound) else")
    say("group  " + "".join(f"{f'{h}x{h}':>13}" for h in SIZES))
    for group in GROUPS:
        cells = []
        for h in SIZES:
            row = by_label[f"{h}x{h}", group]
            proof = "*" if row.optimal else f" ({100 * row.gap:.1f})"
            cells.append(f"{100 * row.gain:.1f}{proof}".rjust(13))
        say(f"{group:>5}  " + "".join(cells))
    best = max(rows, key=lambda row: row.gain)
    open_rows = [row for row in rows if not row.optimal]
    worse = [row for row in rows if row.objective > row.best_baseline]
    say(f"proven optimal: {len(rows) - len(open_rows)} of {len(rows)} cells")
    say(f"at the compulsory bound: {sum(_compulsory_gap(row) == 0 for row in rows)} of {len(rows)} cells")
    say(f"largest gain: {100 * best.gain:.1f} % at {best.label[0]}, group size {best.label[1]}")
    say(f"cells worse than the better of ZigZag and Row-by-Row: {len(worse)}")
    if open_rows:
        worst = max(open_rows, key=lambda row: row.gap)
        say(
            f"gap of the open cells: mean {100 * sum(row.gap for row in open_rows) / len(open_rows):.2f} %, "
            f"largest {100 * worst.gap:.2f} % at {worst.label[0]}, group size {worst.label[1]}"
        )
    searched = [row for row in rows if row.optimal and row.result.bound_by in methods("grouping")]
    say(f"proven by a search, above every bound known before it: {len(searched)} cells")
    broken = [row for row in rows if len(row.broken) == len(BASELINES)]
    say(f"cells where both of the paper's heuristics load some pixel more than twice: {len(broken)}")


def _compare_records(rows: Sequence[Row], folder: Path, say: Say) -> None:
    """Tell how the rows stand to the best that is known, and write down what is better."""
    best = records.known()
    better, behind = [], []
    for row in rows:
        if row.result.bound is None:
            continue
        record = records.Record.of(row.problem, row.result)
        old = best.get(record.sha256)
        best[record.sha256] = new = record if old is None else old.beside(record)
        if new != old:
            better.append(record.instance)
        elif (record.objective, record.bound) != (old.objective, old.bound):
            behind.append(record.instance)
    say(f"best known ({records.FILE} in instances/grouping): {len(better)} beaten, {len(behind)} not reached")
    if better:
        records.write(best, folder / records.FILE)
        say(f"beaten: {', '.join(better)}; written: {folder / records.FILE}")


def _print_first_version(rows: Sequence[Row], say: Say) -> None:
    """Print plans and bounds beside those of the first version of this room."""
    say("beside the first version of this room (60 s)")
    say(f"{'layer':<16} {'group':>5} {'plan first':>12} {'now':>12} {'%':>6} {'bound first':>12} {'now':>12}")
    for row in rows:
        if row.label in FIRST:
            plan, bound = FIRST[row.label]
            saved = 100 * (1 - row.objective / plan)
            say(
                f"{row.label[0]:<16} {row.label[1]:>5} {plan:>12,} {row.result.objective or 0:>12,} "
                f"{saved:>6.1f} {bound:>12,} {row.result.bound or 0:>12,}"
            )


def _compulsory_gap(row: Row) -> float:
    """Cycles above the compulsory bound, the floor of figure 13's white region."""
    return row.objective - compulsory(row.problem).value


def _print_layers(rows: Sequence[Row], say: Say) -> None:
    """Print a line per layer and group size, with both bounds and where the gap is."""
    header = (
        f"{'layer':<16} {'group':>5} {'g/width':>7} {'zigzag':>12} {'row by row':>12} {'found':>12} "
        f"{'gain %':>7} {'compulsory':>12} {'best bound':>12} {'gap %':>6}  steps/K_min"
    )
    say(header)
    for row in rows:
        width = row.problem.layer.padded_plane[1]
        marks = {name: f"{row.baselines[name]:,}" + ("!" if name in row.broken else "") for name in BASELINES}
        steps = row.result.measures.steps if row.result.measures else 0
        found = "-" if row.result.objective is None else f"{row.result.objective:,}"
        say(
            f"{row.label[0]:<16} {row.label[1]:>5} {row.label[1] / width:>7.2f} {marks['zigzag']:>12} "
            f"{marks['row_by_row']:>12} {found:>12} {100 * row.gain:>7.1f} "
            f"{compulsory(row.problem).value:>12,} {row.result.bound or 0:>12,} {100 * row.gap:>6.2f}  "
            f"{steps:,}/{row.problem.kmin:,}"
        )
    if any(row.broken for row in rows):
        say("! loads some pixel more often than the limit of two")
