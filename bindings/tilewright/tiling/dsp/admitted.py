"""Which tiles, and which plans, the constraints of a problem admit."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.spec.constraints.meaning import value
from tilewright.spec.constraints.parts import terms
from tilewright.tiling.dsp.exact import Admitted
from tilewright.tiling.dsp.nest import Counts, Nest
from tilewright.tiling.dsp.plan import DspPlan
from tilewright.tiling.dsp.vocabulary import OF_TILES, Tiling
from tilewright.tiling.machine_kind import LayerProblem


def admitted(problem: LayerProblem, nest: Nest) -> Admitted | None:
    """Return what the constraints of a problem admit; None where it has none.

    What they say of the tile alone leaves tiles out before any order of their loops is looked at.
    """
    if not problem.constraints:
        return None
    # Where all weights of a group may stay, the tile alone does not tell how large buffers are.
    words = set(OF_TILES) - ({"elements"} if problem.limits.schedule == "any+weights" else set())
    of_tiles = [part for part in problem.must_hold if {term.word for term in terms(part)} <= words]
    others = [part for part in problem.must_hold if part not in of_tiles]

    def holds(part: Any, seen: Tiling) -> Any:
        return value(part, lambda term: problem.vocabulary.value(term, seen))

    def tiles(steps: tuple[Counts, ...]) -> NDArray[np.bool_]:
        seen, found = Tiling(nest, steps), np.ones(len(steps[0]), np.bool_)
        for part in of_tiles:
            found &= holds(part, seen)
        return found

    def plan(one: DspPlan) -> bool:
        seen = Tiling.of(nest, one)
        return all(holds(part, seen) for part in (*of_tiles, *others))

    spoken = {term.word for part in problem.must_hold for term in terms(part)}
    return Admitted(tiles, plan, of_time=bool(spoken & {"cycles", "energy"}))
