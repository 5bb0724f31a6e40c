"""What the accelerator leaves to its host: what that reads, writes and computes, and what it takes."""

from __future__ import annotations

from typing import NamedTuple

from tilewright.fusion.graph import engine_of
from tilewright.fusion.machine import HOST
from tilewright.fusion.problem import Problem
from tilewright.spec.graph import Operation
from tilewright.spec.host import host_work as work_of
from tilewright.spec.network import Input

__all__ = ["HostWork", "host_cost", "host_cycles", "host_work"]


class HostWork(NamedTuple):
    """Work of the host, of all images.

    Attributes
    ----------
    moved
        Bytes of what operations read, of their parameters and of what they write.
    macs
        As far as they are known.
    """

    moved: int
    macs: int


def _is_hosted(op: Operation) -> bool:
    return engine_of(op) == HOST and not isinstance(op.spec, Input)  # which is there, and not computed


def host_work(problem: Problem, op: Operation) -> HostWork:
    """Return what the host has to do for an operation: none for the accelerator's own and for inputs."""
    if not _is_hosted(op):
        return HostWork(0, 0)
    machine, work = problem.machine, work_of(problem.graph, op)
    return HostWork(machine.element_bytes * work.words(machine.arrays), machine.arrays * work.macs)


def host_cycles(problem: Problem, op: Operation) -> int:
    """Return the cycles that the host takes for an operation; none where it has no price."""
    host = problem.machine.host
    return host.cycles(host_work(problem, op).moved) if host is not None and _is_hosted(op) else 0


def host_cost(problem: Problem, op: Operation) -> int:
    """Return what an operation of the host adds to what groups cost.

    The accelerator moves nothing for it, and where it takes power at all times it does so meanwhile.
    """
    cycles = host_cycles(problem, op)
    if problem.minimise == "energy":
        return int(problem.machine.nanojoules(0, 0, cycles))
    return 0 if problem.minimise == "traffic" else cycles
