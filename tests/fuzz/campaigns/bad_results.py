"""Result files with mistakes: an answer, or a sentence that names the file, never a traceback."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.fuzz import command_line, samples
from tests.fuzz.trials import Wrong

from tilewright.run.result import MAX_BYTES, Result
from tilewright.spec.errors import TilewrightError

NIGHTLY = 40

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3, 2**31, 2**63, 2**64, -(2**63), 10**400, 0.5, -0.0, 1e308, 5e-324, "",
    "x", "0", "\0", "\x1b[2J", "\ud800", "é" * 50, "x" * 10_000, [], [[]], [0], [[0, 0]], [None], {},
    {"": 0}, {"a": {"b": []}}, "optimal", "infeasible", "unknown", "feasible", "tiling", "grouping", "auto",
    "exhaustive",
]  # fmt: skip

TEXTS = [
    "NaN", "Infinity", "-Infinity", "1e999", "9" * 5000, "[" * 2000, "[" * 200_000, '{"a":' * 2000,
    "\\u0000", "\\ud800", "\0", "﻿", "//", ",", ",,", "'", '"', "}", "]", "null", "true", "-", "1.", "0x10",
    "\\", "1e-999", "00", "+1",
]  # fmt: skip

COMMANDS = [
    ("check", "--time-limit", "2"),
    ("check", "--time-limit", "2", "--json"),
    ("simulate",),
    ("simulate", "--json"),
    ("simulate", "--numeric", "--steps", "1000000"),
    ("emit",),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of all values in a structure."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*path, key)
        yield from places(each, (*path, key))


def holder(data: Any, path: tuple[Any, ...]) -> Any:
    """Return the table or list that holds a value."""
    for key in path[:-1]:
        data = data[key]
    return data


def other_structure(data: Any, rng: random.Random) -> None:
    """Make one mistake in what a file holds."""
    every = list(places(data))
    if not every:
        return
    # Most values are deep in the plan; every part is to have its turn.
    top = rng.choice(sorted({path[0] for path in every}, key=str))
    path = rng.choice(every if rng.random() < 0.3 else [each for each in every if each[0] == top])
    parent, key = holder(data, path), path[-1]
    match rng.randrange(9):
        case 0 | 1 | 2:
            parent[key] = copy.deepcopy(rng.choice(VALUES))
        case 3:
            del parent[key]
        case 4 if isinstance(parent, dict):
            parent[rng.choice([f"{key}s", str(key).upper(), "", "x", "format"])] = parent.pop(key)
        case 4 | 5 if isinstance(parent, list):
            parent.insert(rng.randrange(len(parent) + 1), copy.deepcopy(rng.choice([parent[key], *VALUES])))
        case 6 if type(parent[key]) is int:
            parent[key] += rng.choice([-1, 1, 10, -parent[key], 2**40, parent[key]])
        case 7:
            another = rng.choice(every)
            if another[: len(path)] != path and path[: len(another)] != another:
                other = holder(data, another)
                parent[key], other[another[-1]] = other[another[-1]], parent[key]
        case _:
            value: Any = parent[key]
            for _ in range(rng.choice([1, 3, 30, 300])):
                value = rng.choice([[value], {"a": value}])
            parent[key] = value


def other_text(text: str, rng: random.Random) -> str:
    """Make one mistake in a file's text."""
    first, last = sorted(rng.randrange(len(text) + 1) for _ in range(2))
    last = min(last, first + rng.choice([1, 5, 50, 5000]))
    match rng.randrange(6):
        case 0:
            return text[:first]
        case 1:
            return text[:first] + text[last:]
        case 2:
            return text[:last] + text[first:]
        case 3:
            return text[:first] + rng.choice(TEXTS) + text[first:]
        case 4:
            return text[:first] + rng.choice(TEXTS) + text[last:]
        case _:  # a key twice
            return text.replace('{"', '{"' + rng.choice(["room", "plan", "status", "a"]) + '": 1, "', 1)


def content(data: Any, rng: random.Random) -> bytes:
    """Return the bytes of a file with some mistakes."""
    data = copy.deepcopy(data)
    kind = rng.random()
    if kind < 0.7:
        for _ in range(rng.choice([1, 1, 1, 2, 5])):
            other_structure(data, rng)
    text = json.dumps(data, ensure_ascii=rng.random() < 0.8)
    if kind > 0.6:
        for _ in range(rng.choice([1, 1, 2, 5])):
            text = other_text(text, rng)
    if rng.random() < 0.05:
        text = rng.choice(["", "[]", "null", "{}", "\n" * 10, "[" * 10**6, f"[{'1,' * 10**5}1]", text * 2])
    encoding = rng.choice(["utf-8"] * 12 + ["utf-16", "latin-1", "utf-32", "utf-8-sig"])
    return text.encode(encoding, errors="surrogatepass" if encoding != "latin-1" else "replace")


def trial(rng: random.Random, scratch: Path) -> None:
    """Read one file with mistakes, and run one command on it."""
    name = rng.choice(list(samples.SAMPLES))
    instance, path = samples.write(name, scratch), scratch / "bad-result.json"
    path.write_bytes(content(samples.right(name), rng))
    if rng.random() < 0.01:
        with path.open("r+b") as file:
            file.truncate(MAX_BYTES + 1)
    try:
        Result.read(path)
    except TilewrightError as error:
        refused = str(error)
        if path.name not in refused:
            raise Wrong(f"the file is not named: {refused}") from error
    command, *options = rng.choice(COMMANDS)
    done = command_line.run(scratch, command, instance.name, path.name, *options)
    if len(done.stderr) > 3000:
        raise Wrong(f"{len(done.stderr)} characters of complaint: {done.stderr[:500]}")
