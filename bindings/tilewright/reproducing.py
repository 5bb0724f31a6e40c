"""Reproduce the papers' tables and figures: run, print beside the claims, draw."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from pathlib import Path

import click

from tilewright.errors import InputError, UnknownNameError

FIGURES: dict[str, tuple[str, str]] = {
    "s1": ("tilewright.grouping.reproduce", "all of the S1 paper: the four parts below"),
    "s1-grid": (
        "tilewright.grouping.reproduce",
        "figures 12 and 13: H = W in 4..12, group size 2..10, K_min steps",
    ),
    "s1-free": ("tilewright.grouping.reproduce", "the same grid with the number of steps free"),
    "s1-lenet": ("tilewright.grouping.reproduce", "figure 11: LeNet-5's first convolution, group size 1..32"),
    "s1-layers": ("tilewright.grouping.reproduce", "layers of ResNet-8, ResNet-18, AlexNet and VGG16"),
}
"""Name of each figure: the module whose ``reproduce`` makes it, and what it shows."""


def run(figure: str, *, time_limit: float, folder: Path) -> None:
    """Reproduce a figure; results and plots go to a folder, and results found there are used again."""
    if figure not in FIGURES:
        raise UnknownNameError("figure", figure, list(FIGURES))
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError("output", str(folder), f"cannot be made: {error.strerror}") from None
    reproduce: Callable[..., None] = importlib.import_module(FIGURES[figure][0]).reproduce
    reproduce(figure, time_limit=time_limit, folder=folder, say=click.echo)
