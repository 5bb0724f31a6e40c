"""What a campaign is, and how it is run: each trial has a seed of its own, by which it can be repeated."""

from __future__ import annotations

import importlib
import pkgutil
import random
import shutil
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.fuzz import campaigns


class Wrong(AssertionError):
    """What a trial found: the product gave a wrong answer, lost one, or broke down."""


class Skip(Exception):
    """A trial that says nothing: a solver is missing, or the random problem is too large for its oracle."""


@dataclass
class Tally:
    """How the trials of a campaign ended.

    Attributes
    ----------
    failures
        Seed of the trial, and what it found.
    seconds
        Of all trials.
    methods
        How often each was tried, of campaigns that tell.
    interrupted
        Whether Ctrl-C ended it.
    """

    campaign: str
    tried: int = 0
    skipped: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    methods: Counter[str] = field(default_factory=Counter)
    interrupted: bool = False


def names() -> list[str]:
    """Return the campaigns, in alphabetical order."""
    return sorted(module.name for module in pkgutil.iter_modules(campaigns.__path__))


def campaign(name: str) -> Any:
    """Return a campaign's module."""
    return importlib.import_module(f"{campaigns.__name__}.{name}")


def seeds(first: int, count: int | None) -> Iterator[int]:
    """Yield the seeds of trials, without end where there is no count."""
    seed = first
    while count is None or seed < first + count:
        yield seed
        seed += 1


def run(name: str, first: int, count: int | None, until: float = float("inf")) -> Tally:
    """Run a campaign.

    Parameters
    ----------
    first
        Seed of the first trial; each further one has the next.
    count
        Trials; None for as many as there is time for.
    until
        ``time.monotonic()`` after which no trial begins.
    """
    module, tally, began = campaign(name), Tally(name), time.monotonic()
    for seed in seeds(first, count):
        if time.monotonic() > until:
            break
        scratch = Path(tempfile.mkdtemp(prefix=f"fuzz-{name}-"))
        try:
            tally.methods.update(module.trial(random.Random(f"{name} {seed}"), scratch) or ())
            tally.tried += 1
        except Skip:
            tally.skipped += 1
        except Wrong as error:
            tally.tried += 1
            tally.failures.append((seed, str(error)))
        except Exception:
            tally.tried += 1
            tally.failures.append((seed, traceback.format_exc()))
        except KeyboardInterrupt:  # what has been tried is told
            tally.interrupted = True
            break
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    tally.seconds = time.monotonic() - began
    return tally
