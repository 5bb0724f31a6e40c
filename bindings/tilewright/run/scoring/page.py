"""A comparison as a page in Markdown: conditions, tables and pictures for each room."""

from __future__ import annotations

import os
import platform
import re
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import psutil

from tilewright.core.files import write_atomically
from tilewright.core.version import __version__
from tilewright.plotting.profiles import draw_cactus, draw_profiles
from tilewright.run.scoring.scores import Score, by_room, profile, summaries
from tilewright.run.scoring.tables import Cells, counts, legend, methods_table, runs_table
from tilewright.run.summary import shown

PICTURES = {"profile": draw_profiles, "cactus": draw_cactus}

CAPTIONS = {
    "profile": "Performance profiles: share of the problems within a factor of the best method",
    "cactus": "Problems proven within a time",
}


@dataclass(frozen=True)
class Conditions:
    """What a page says of how its runs were made.

    Attributes
    ----------
    command
        That makes the page again.
    time_limit, seeds, threads, jobs, target
        As given to the comparison.
    """

    command: str
    time_limit: float
    seeds: Sequence[int]
    threads: int
    jobs: int
    target: float


def computer() -> str:
    """Describe this computer."""
    lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines() if os.path.exists("/proc/cpuinfo") else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    processor = models[0] if models else platform.processor()
    return (
        f"{processor}, {os.cpu_count()} processors, {platform.system()}, Python {platform.python_version()}"
    )


def write_page(
    path: str | Path,
    found: Sequence[Score],
    remarks: Mapping[int, str],
    units: Mapping[tuple[str, str], str],
    conditions: Conditions,
) -> None:
    """Write a page, and its pictures into a folder beside it that has the page's name.

    Parameters
    ----------
    found
        Of one or several rooms.
    remarks
        On runs, by ``id`` of the score.
    units
        Of the objectives, by room and instance.
    """
    path = Path(path)
    folder = path.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    rooms = by_room(found)
    question = "Which method is best, room by room, and how long does it take? This command compares them:"
    parts = [f"# {_title(path)}", question, f"    {conditions.command}"]
    parts += [_conditions(found, conditions), *map(_filled, _legend(conditions))]
    for room, own in rooms.items():
        parts += [f"## {room}", _markdown(*methods_table(summaries(own))), _filled(counts(own))]
        for name, draw in PICTURES.items():
            picture = folder / f"{room}-{name}.png"
            draw([profile(own, room)], picture)
            parts.append(_filled(f"![{CAPTIONS[name]}: {room}]({folder.name}/{picture.name})"))
        parts += [f"### Instances of {room}", _references(own)]
        parts += [f"### Runs of {room}", _markdown(*runs_table(own, remarks, units))]
    write_atomically(path, "\n\n".join(parts) + "\n")


def _filled(text: str) -> str:
    """Return a paragraph in lines of at most 110 columns."""
    return textwrap.fill(text, 110, break_long_words=False, break_on_hyphens=False)


def _title(path: Path) -> str:
    return f"Results: {path.stem.replace('-', ' ').replace('_', ' ')}"


def _conditions(found: Sequence[Score], conditions: Conditions) -> str:
    versions: dict[str, set[str]] = {}
    for score in found:
        for package, version in (score.row.get("versions") or {}).items():
            versions.setdefault(package, set()).add(version)
    told = ", ".join(f"{package} {' and '.join(sorted(had))}" for package, had in sorted(versions.items()))
    many = len(conditions.seeds)
    seeds = ", ".join(map(str, conditions.seeds[:10])) + (" and more" if many > 10 else "")
    load = ", ".join(f"{value:.1f}" for value in os.getloadavg())
    memory = psutil.virtual_memory().total / 2**30
    lines = [
        ("date", datetime.now(UTC).date().isoformat()),
        ("computer", f"{computer()}, {memory:.0f} GiB of memory"),
        (
            "load when the page was written",
            f"{load} (1, 5 and 15 minutes; {os.cpu_count()} would be all in use)",
        ),
        ("limit", f"{conditions.time_limit:g} s for each run"),
        ("threads, runs at a time", f"{conditions.threads}, {conditions.jobs}"),
        ("seeds", seeds),
        ("versions", told or f"tilewright {__version__}"),
    ]
    return _markdown(("", ""), lines)


def _legend(conditions: Conditions) -> list[str]:
    """Say once, for all rooms, what the tables count."""
    return [
        *legend(conditions.time_limit, conditions.target),
        "The clock of a run begins when its processes are started, files imported and kernels loaded. Lines "
        "of pictures that would cover each other are moved apart by a hair. In a performance profile a line "
        "begins at the share of problems on which the method is the best, and ends at that which it solves.",
    ]


def _references(own: Sequence[Score]) -> str:
    """Return a line for each instance: reference, whose it is, best bound, and whether it is closed."""
    lines: dict[str, Cells] = {}
    for score in own:
        name = score.row["instance"]
        if name in lines:
            continue
        runs = [one for one in own if one.row["instance"] == name]
        bounds = [one.row["bound"] for one in runs if one.row["bound"] is not None]
        if score.known is not None and score.known.bound is not None:
            bounds.append(score.known.bound)
        bound = max(bounds, default=None)
        whose = "best of these runs"
        if score.reference_known and score.known is not None and score.known.found is not None:
            source = score.known.found
            whose = f"{source.get('method')}, {source.get('seconds')} s, {source.get('date')}"
        closed = any(one.proven for one in runs) or (bound is not None and bound == score.reference)
        lines[name] = (name, shown(score.reference), whose, shown(bound), "closed" if closed else "open")
    header = ("instance", "reference", "found by", "best bound", "state")
    return _markdown(header, list(lines.values()))


def _markdown(header: Cells, lines: Sequence[Cells]) -> str:
    def line(cells: Cells) -> str:
        return "| " + " | ".join(re.sub(r"[|\n]", " ", cell) for cell in cells) + " |"

    return "\n".join([line(header), "|" + "---|" * len(header), *map(line, lines)])
