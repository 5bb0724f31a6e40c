"""Instance files with a mistake or two: read, or refused in a sentence that names file and field."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.fuzz.trials import Wrong

from tilewright.core import catalogue
from tilewright.run.instance import read
from tilewright.spec.errors import TilewrightError

NIGHTLY = 100

VALUES = [
    "0", "-1", "1.5", "1e400", "nan", "true", '""', '"x"', "[]", "[1]", "[1, 2, 3]", "{}", "{ a = 1 }",
    "1" + 22 * "0",
    "2026-11-25", "[[[[]]]]", '"\\u0000"', "9" * 400, "-0.0", "0x10", "'''\n'''",
]  # fmt: skip

TABLES = ["layer", "machine", "network", "objective", "limits", "x.y", "memory", "[buffers]", "graph"]


def mutated(text: str, rng: random.Random) -> str:
    """Return a file's text with one mistake more."""
    lines = text.splitlines()
    place = rng.randrange(len(lines))
    key, equals, value = lines[place].partition("=")
    match rng.randrange(9):
        case 0:
            lines[place] = f"{key}= {rng.choice(VALUES)}" if equals else lines[place] + rng.choice(VALUES)
        case 1:
            del lines[place]
        case 2:
            lines.insert(place, rng.choice(lines))
        case 3:
            letters = list(lines[place]) or ["x"]
            letters[rng.randrange(len(letters))] = chr(
                rng.choice([0, 9, 34, 61, 91, 65279, rng.randrange(32, 400)])
            )
            lines[place] = "".join(letters)
        case 4:
            lines[place] = re.sub(
                r"\d+", lambda _: rng.choice(["0", "1", "-3", "7", "2147483648", "10000019"]), lines[place]
            )
        case 5 if equals:
            lines[place] = f"{key.strip()}{rng.choice('sx_ ')}= {value}"
        case 6:
            lines[place] = f"[{rng.choice(TABLES)}]"
        case 7:
            lines = lines[:place]
        case _:
            other = rng.randrange(len(lines))
            lines[place], lines[other] = lines[other], lines[place]
    return "\n".join(lines) + "\n"


def trial(rng: random.Random, scratch: Path) -> None:
    """Read one file, or one that names a network or machine file with mistakes."""
    origin = rng.choice([path for room in catalogue.ROOMS for path in catalogue.instances(room)])
    shared = [
        (origin.parent / name).resolve() for name in re.findall(r'"(\.\./.*\.toml)"', origin.read_text())
    ]
    bad = rng.choice([origin, *shared])
    for path in (origin, *shared):
        text = path.read_text()
        if path == bad:
            for _ in range(rng.choice([1, 1, 1, 2, 5])):
                text = mutated(text, rng)
        copy = scratch / path.parent.name / path.name
        copy.parent.mkdir(exist_ok=True)
        encoding = rng.choice(["utf-8"] * 8 + ["utf-16", "latin-1"]) if path == bad else "utf-8"
        copy.write_bytes(text.encode(encoding, errors="replace"))
    instance = scratch / origin.parent.name / origin.name
    try:
        read(instance)
    except TilewrightError as error:
        if bad.name not in str(error) and instance.name not in str(error):
            raise Wrong(f"the file is not named: {error}") from error
