"""Caffe networks at random with mistakes: a network that survives its file, or a sentence that says why."""

from __future__ import annotations

import random
import re
from pathlib import Path

from tests.fuzz.trials import Wrong
from tests.importing import caffe_at_random
from tests.oracles.caffe_layers import LAYERS, prototxt

from tilewright import importing
from tilewright.importing.files import network_file
from tilewright.run.instance import load
from tilewright.spec.errors import TilewrightError
from tilewright.spec.network import Network

NIGHTLY = 300

NUMBERS = [
    "0", "1", "2", "3", "5", "16", "65536", "2147483647", "18446744073709551616", "-1", "-2", "nan", "'x'",
]  # fmt: skip


def mutated(text: str, rng: random.Random) -> str:
    """Return a file's text with one mistake more."""
    tokens = re.findall(r'"[^"]*"|[^\s{}:]+|[{}:]', text)
    fields = [at for at, token in enumerate(tokens[:-2]) if tokens[at + 1] == ":"]
    if not fields:
        return text
    place, other = rng.choice(fields), rng.choice(fields)
    match rng.randrange(7):
        case 0 | 1:
            numeric = [at for at in fields if re.fullmatch(r"-?[\d.]+", tokens[at + 2])]
            tokens[rng.choice(numeric or [place]) + 2] = rng.choice(NUMBERS)
        case 2:
            types = [at for at in fields if tokens[at] == "type"]
            tokens[rng.choice(types or [place]) + 2] = f'"{rng.choice(list(LAYERS))}"'
        case 3:
            ends = [at for at in fields if tokens[at] in ("bottom", "top")] or fields
            tokens[rng.choice(ends) + 2] = tokens[rng.choice(ends) + 2]
        case 4:
            del tokens[place : place + 3]
        case 5:
            tokens[place:place] = tokens[other : other + 3]
        case _:
            tokens[place] = rng.choice([tokens[other], tokens[place] + "s", "{", "<"])
    return " ".join(tokens)


def trial(rng: random.Random, scratch: Path) -> None:
    """Read one file, and what is written of it."""
    text = prototxt(caffe_at_random.network(rng.randrange(10**6)))
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        text = mutated(text, rng)
    if rng.randrange(20) == 0:
        text = text[: rng.randrange(len(text))]
    file = scratch / "net.prototxt"
    file.write_text(text)
    try:
        found = importing.network(file, allow_unknown=rng.random() < 0.5)
    except TilewrightError as error:
        if str(file) not in str(error):
            raise Wrong(f"the file is not named: {error}") from error
        return
    for name, content in network_file(found).items():
        (scratch / name).write_text(content)
        if Network.model_validate(load(scratch / name)) != found:
            raise Wrong("the network is another one when its file is read")
