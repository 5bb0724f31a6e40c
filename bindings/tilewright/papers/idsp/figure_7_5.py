"""Figure 7.5: what AlexNet's layers lose where no tile reuses what another has, nor takes a part of Kc."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tilewright.papers.figures import Say
from tilewright.papers.idsp.chapter_8 import exact_reuse, published_reuse
from tilewright.papers.idsp.setting import NAMES, efficiency, layers, machine, published
from tilewright.spec.layer import Layer
from tilewright.tiling.dsp import thesis_model
from tilewright.tiling.dsp.nest import nest_of
from tilewright.tiling.dsp.plan import HALIDE


@dataclass(frozen=True)
class Loss:
    """The Ops/byte of a layer's best schedule, and of the best that Halide could say.

    Attributes
    ----------
    schedule
        The best one.
    """

    schedule: str
    best: float
    halide: float

    @property
    def factor(self) -> float:
        """How much more is moved."""
        return self.best / self.halide


@cache
def published_loss(layer: Layer) -> Loss:
    """Return the loss by the thesis's model."""
    nest = nest_of(layer, machine(), HALIDE)
    tiles = thesis_model.explore(nest, nest.machine.buffer_capacity)
    fewest = np.rint(thesis_model.accesses(tiles, "intra")).min()
    best = published_reuse(layer)
    return Loss(best.schedule, best.ops_per_byte, float(efficiency(nest, fewest)))


@cache
def exact_loss(layer: Layer) -> Loss:
    """Return the loss between the thesis's schedules as the simulator counts."""
    best = exact_reuse(layer, "thesis")
    return Loss(best.schedule, best.ops_per_byte, exact_reuse(layer, HALIDE).ops_per_byte)


def print_figure_7_5(_folder: Path, say: Say) -> None:
    """Print both efficiencies of every layer of AlexNet, and the largest factor beside the thesis's."""
    say("Figure 7.5, AlexNet: Ops/byte of the best schedule, and of the best within halide-idsp")
    say(f"  {'':<8}" + "".join(f" | {group:<44}" for group in ("as published", "thesis's schedules, exact")))
    say(f"  {'layer':<8}" + f" | {'schedule':<16} {'best':>8} {'Halide':>8} {'factor':>8}  " * 2)
    plain, factors = layers("alexnet", grouped=False), []
    for name, layer in layers("alexnet").items():
        found = (published_loss(plain[name]), exact_loss(layer))
        factors.append([(loss.factor, name) for loss in found])
        cells = [
            f" | {NAMES[loss.schedule]:<16} {loss.best:>8.2f} {loss.halide:>8.2f} {loss.factor:>8.2f}  "
            for loss in found
        ]
        say(f"  {name:<8}" + "".join(cells))
    most = published()["figure_7_5"]["most"]
    shown = [
        f"{how} {factor:.2f} ({name}, {100 * (factor / most - 1):+.1f} %)"
        for how, (factor, name) in zip(
            ("as published", "exact"), map(max, zip(*factors, strict=True)), strict=True
        )
    ]
    say(f"  largest factor: thesis up to {most}; ours {', '.join(shown)}. The thesis prints no other number.")
