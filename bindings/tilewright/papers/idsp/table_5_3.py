"""Table 5.3: optimal tiles and buffer sizes for fewest accesses."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tilewright.papers.figures import Say
from tilewright.papers.idsp.setting import (
    BATCH,
    MEMORIES,
    NAMES,
    Values,
    agrees,
    layers,
    published,
    unlimited,
)
from tilewright.tiling.dsp import thesis_model
from tilewright.tiling.dsp.plan import SCHEDULES


@dataclass(frozen=True)
class Explored:
    """A row of table 5.3.

    Attributes
    ----------
    tile
        TOx, TOy, TOc, TOn, TKc of the fewest accesses that 512 KB allow.
    optimal
        KB of the smallest buffers with the fewest accesses that any memory allows.
    actual
        KB of the smallest of `MEMORIES` that reaches them, 0 for none.
    """

    tile: tuple[int, ...]
    optimal: float
    actual: float


@cache
def table_5_3(*, exact: bool = False) -> dict[tuple[str, str], Explored]:
    """Explore LeNet5-clone as in appendix C, by layer and schedule.

    Parameters
    ----------
    exact
        Count accesses in integers; the closed forms have quotients, which floating point rounds.
    """
    rows = {}
    for name, layer in layers("lenet5-clone").items():
        nest = unlimited(layer)
        tiles = thesis_model.explore(nest, float("inf"))
        need = 2 * tiles.need
        for schedule in SCHEDULES:
            accesses = thesis_model.accesses(tiles, schedule)
            whole = np.rint(accesses)
            if exact:
                accesses = whole
            best = _best(accesses, need, MEMORIES[-1])
            least = whole.min()
            actual = [memory for memory in MEMORIES if whole[need <= memory].min(initial=np.inf) == least]
            rows[name, schedule] = Explored(
                tile=tuple(int(tiles.steps["gncyxk".index(loop)][best]) for loop in "xycnk"),
                optimal=float(need[whole == least].min() / 1024),
                actual=actual[0] / 1024 if actual else 0,
            )
    return rows


def _best(cost: Values, need: NDArray[np.int64], memory: int) -> int:
    """Return the best tile that fits; ties go to the smaller memory (algorithm 3)."""
    fits = np.flatnonzero(need <= memory)
    return int(fits[np.lexsort((need[fits], cost[fits]))[0]])


def print_table_5_3(_folder: Path, say: Say) -> None:
    """Print the thesis's tiles and buffer sizes beside ours, and what differs."""
    say("Table 5.3: fewest accesses, LeNet-5, batch 8, memories of 128 B to 512 KB (thesis | ours)")
    say(f"{'layer':<6} {'schedule':<16} {'TOx TOy TOc TOn TKc':<41} {'optimal KB':>15} {'actual KB':>13}")
    ours, exact = table_5_3(), table_5_3(exact=True)
    notes: list[str] = []
    for row in published()["table_5_3"]:
        name, schedule = row["layer"], row["schedule"]
        own = ours[name, schedule]
        shown = " ".join(f"{size:>3}" for size in row["tile"]), " ".join(f"{size:>3}" for size in own.tile)
        mark = "" if list(own.tile) == row["tile"] and agrees(own.optimal, row["optimal"]) else " *"
        if mark or own.actual != row["actual"]:
            notes.append(
                f"* {name} {NAMES[schedule]}: {row['optimal']} KB published, {own.optimal:.1f} KB computed"
            )
        if own.tile != exact[name, schedule].tile:
            integers = ", ".join(map(str, exact[name, schedule].tile))
            notes.append(
                f"{name} {NAMES[schedule]}: the tile is floating point's choice among equals, as published; "
                f"counted in integers the smaller ({integers}) has as few accesses"
            )
        actual = [f"{size:g}" if size else ">512" for size in (row["actual"], own.actual)]
        say(
            f"{name:<6} {NAMES[schedule]:<16} {shown[0]:<19} | {shown[1]:<19} "
            f"{row['optimal']:>6g} |{own.optimal:>7.1f} {actual[0]:>5} |{actual[1]:>5}{mark}"
        )
    for note in notes:
        say(note)
    layer = layers("lenet5-clone")["conv1"]
    inputs, weights = BATCH * 32 * 32, layer.kernels * 25
    say(
        f"  its 30 KB are {2 * (inputs + weights + BATCH * 28 * 28) / 1024:.1f} KB, those of all "
        f"{layer.kernels} kernels on chip, which TOc = 1 does not need; the memory of 32 KB is the same"
    )
    say(
        "fc3's intra-tile and inter Ox,y,n rows list the tile that fits 512 KB (TKc = 448) beside the memory "
        "that the whole layer needs"
    )
