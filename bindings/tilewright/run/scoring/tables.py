"""Scores of a comparison as tables for people, in a terminal and on a page."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import inf
from typing import Any

from tilewright.core.quantities import digits_apart, is_scaled, written
from tilewright.plotting.text import shortened
from tilewright.run.scoring.scores import COLUMNS, MethodSummary, Score, shared, spread
from tilewright.run.summary import gap_shown

Cells = tuple[str, ...]

SPENT = "of it solving"

LONGEST_REMARK = 100
"""Letters of a remark; JSON and CSV have all."""


def runs_table(
    found: Sequence[Score], remarks: Mapping[int, str], units: Mapping[tuple[str, str], str]
) -> tuple[Cells, list[Cells]]:
    """Return a line for each instance and method, with medians and spreads over seeds.

    Parameters
    ----------
    found
        Of one room.
    remarks
        On runs, by ``id`` of the score.
    units
        Of the objectives, by room and instance.
    """
    bounds: dict[str, int] = {}
    groups: dict[tuple[str, str], list[Score]] = {}
    told: dict[str, list[int | None]] = {}
    for score in found:
        name, bound = score.row["instance"], score.row["bound"]
        told.setdefault(name, []).extend([score.row["objective"], bound])
        groups.setdefault((name, score.method), []).append(score)
        if bound is not None:
            bounds[name] = max(bounds.get(name, bound), bound)
    all_units = {units.get((score.row["room"], score.row["instance"]), "") for score in found}
    (shared_unit,) = all_units if len(all_units) == 1 and not any(map(is_scaled, all_units)) else ("",)
    header: Cells = (
        "instance",
        "method",
        "objective" + (f", {shared_unit}" if shared_unit else ""),
        "own bound",
        "gap to best bound",
        "seconds",
        SPENT,
        "status",
        "remark",
    )
    lines: list[Cells] = []
    for (name, method), own in groups.items():
        objectives = [inf if not s.has_plan else float(s.row["objective"]) for s in own]
        median_plan = spread(objectives)[0]
        own_bounds = [s.row["bound"] for s in own if s.row["bound"] is not None]
        said = dict.fromkeys(remarks[id(score)] for score in own)
        unit = "" if shared_unit else units.get((own[0].row["room"], name), "")
        in_unit = partial(_in_unit, unit=unit, digits=digits_apart(told[name], unit))
        lines.append(
            (
                name,
                method,
                _number(objectives, in_unit),
                in_unit(max(own_bounds, default=inf)),
                gap_shown(int(median_plan), bounds.get(name)) if median_plan < inf else "-",
                _seconds([s.row["seconds"] for s in own if "seconds" in s.row]),
                _seconds([(s.row.get("spent") or {}).get("solving", 0.0) for s in own if s.row.get("spent")]),
                _statuses(own),
                shortened("; ".join(filter(None, said)), LONGEST_REMARK),
            )
        )
    return header, lines


def _number(values: Sequence[float], in_unit: Callable[[float], str]) -> str:
    middle, least, most = spread(values)
    if least == most:
        return in_unit(middle)
    return f"{in_unit(middle)} ({in_unit(least)} to {in_unit(most)})"


def _in_unit(value: float, unit: str, digits: int) -> str:
    """Write an objective: a time or an energy with its unit, others as they are."""
    if value == inf:
        return "-"
    return written(round(value), unit, digits)


def _seconds(values: Sequence[float]) -> str:
    if not values:
        return "-"
    middle, least, most = spread(values)
    return f"{middle:.1f}" if len(values) == 1 else f"{middle:.1f} ({least:.1f} to {most:.1f})"


def _statuses(own: Sequence[Score]) -> str:
    counts: dict[str, int] = {}
    for score in own:
        status = "failed" if score.failed else str(score.row["status"])
        counts[status] = counts.get(status, 0) + 1
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{many} {status}" for status, many in counts.items())


def methods_table(summaries: Sequence[MethodSummary]) -> tuple[Cells, list[Cells]]:
    """Return a line for each method."""
    header: Cells = (
        *("method", "runs", "not run", "plans", "proven", "proved by the model itself"),
        *("best", "in target", "failed"),
        *("proof, s", "target, s", "gap, %", "integral, s"),
        *("shared: proof, s", "target, s", "gap, %", "integral, s"),
    )
    lines = [
        (
            one.method,
            *map(str, (one.runs, one.idle, one.plans, one.proven, one.proven_itself)),
            *map(str, (one.best, one.reached, one.failed)),
            *(
                "-" if mean is None else f"{mean:.2f}"
                for means in (one.over_all, one.over_shared)
                for mean in (means.proof, means.target, means.gap, means.integral)
            ),
        )
        for one in summaries
    ]
    return header, lines


def counts(found: Sequence[Score]) -> str:
    """Say of how many instances of a room something is known, and how many are shared."""
    instances = len({score.row["instance"] for score in found})
    known = len({score.row["instance"] for score in found if score.reference_known})
    seeds = len({score.row.get("seed") for score in found})
    medians = f"Objectives and seconds are the median, least to most of {seeds} seeds. "
    return (
        f"{medians if seeds > 1 else ''}Of {instances} instances, {len(shared(found))} are solved by all "
        "methods (shared), but for those without any plan and those that fail on more than half. "
        f"The reference is the best known objective of {known}, the best of these runs of the others."
    )


def legend(limit: float, target: float) -> list[str]:
    """Say in sentences what the table of methods counts."""
    within = f"within {target:g} % of the reference" if target else "as good as the reference"
    return [
        "The table counts runs. Not run are those that a bound of the room had closed before the method did "
        "anything; they count for nothing else. Of the others it counts runs with a plan, with a proof, and "
        "with a proof that the method has made itself rather than a bound that its plan meets. Then come "
        f"runs as good as the reference (best), {within} (in target), and without a result (failed).",
        "Times, gaps and primal integrals are shifted geometric means (shift 1 s, 1 %), over all runs and "
        f"over those on shared instances. A run counts with {limit:g} s if it has no proof or misses the "
        "target, and with a gap of 100 % if it has no plan. The primal integral is that of the gap "
        "|objective - reference| / max(|objective|, |reference|) over the time limit.",
    ]


def parquet(found: Sequence[Score]) -> bytes:
    """Return the runs as a table in Parquet; `COLUMNS` are its columns."""
    import pyarrow  # for start-up time; besides, it need not be installed
    import pyarrow.parquet  # for start-up time

    kinds = {
        name: pyarrow.float64()
        if name.endswith("seconds") or name in ("gap", "gap_to_reference", "time_limit")
        else pyarrow.bool_()
        if name in ("simulated", "reference_known", "proved_by_itself")
        else pyarrow.int64()
        if name in ("objective", "bound", "reference", "seed", "threads")
        else pyarrow.string()
        for name in COLUMNS
    }
    table = pyarrow.Table.from_pylist([score.columns() for score in found], pyarrow.schema(kinds.items()))
    pyarrow.parquet.write_table(table, file := io.BytesIO())
    return file.getvalue()


def read_parquet(path: str) -> list[dict[str, Any]]:
    """Return the rows of a table in Parquet; raises ValueError if it is none."""
    import pyarrow.parquet  # for start-up time

    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(path).to_pylist()
    return rows
