"""The scheduling problem: a graph of operations, and what counts as connected."""

from __future__ import annotations

from typing import Literal

from tilewright.scheduling.graph import Graph
from tilewright.spec.base import Spec

Connection = Literal["shared", "flow"]


class SchedulingLimits(Spec):
    """What a plan must keep beside the memory.

    Attributes
    ----------
    connected : {"shared", "flow"}
        Which operations may be one subgraph: those linked by any tensor, also one that they only read, or
        those linked by tensors that one of them makes.
    """

    connected: Connection = "shared"


class Problem(Spec):
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
