"""The scheduling problem: a graph of operations, and what counts as connected."""

from __future__ import annotations

from typing import ClassVar, Literal

from tilewright.scheduling.graph import Graph
from tilewright.spec.base import Spec
from tilewright.spec.constraints import Constrained

Connection = Literal["shared", "flow"]
Accumulators = Literal["each", "tile"]


class SchedulingLimits(Spec):
    """What a plan must keep beside the memory.

    Attributes
    ----------
    connected : {"shared", "flow"}
        Which operations may be one subgraph: those linked by any tensor, also one that they only read, or
        those linked by tensors that one of them makes.
    accumulators : {"each", "tile"}
        What the sums of a tile that takes several steps take of the memory: a tile for each, of which each
        output or kept tensor lends one; or nothing beside the tiles of outputs.
    """

    later: ClassVar[tuple[str, ...]] = ("accumulators",)

    connected: Connection = "shared"
    accumulators: Accumulators = "each"


class Problem(Constrained):
    """A graph on a machine, and limits; the latency is minimised."""

    graph: Graph
    limits: SchedulingLimits = SchedulingLimits()

    @property
    def minimise(self) -> str:
        """What is minimised."""
        return "latency"

    @property
    def unit(self) -> str:
        """What the objective counts: units of time of the instance, a begun one as a whole one."""
        return "time"
